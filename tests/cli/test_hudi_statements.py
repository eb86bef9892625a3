"""``lookupstore hudi update`` and ``merge``: what they do, print, and refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click.testing
import pyarrow as pa
import pytest

from lookupstore.cli import main
from lookupstore.hudi import HudiTable

INDEX = ".".join(("hoodie", "index", "type"))
PAGES = pa.table({"id": [1, 2, 3, 4], "page": ["/a", "/b", "/c", None], "hits": [7, 8, 9, 9]})


def run(*words: object) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, ["hudi", *map(str, words)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    HudiTable.create(tmp_path / "t", PAGES, record_key="id").insert(PAGES)
    return tmp_path / "t"


@pytest.fixture
def news(tmp_path: Path) -> Path:
    (tmp_path / "n.csv").write_text("id,hits,op\n2,5,U\n3,1,D\n9,4,I\n")
    return tmp_path / "n.csv"


def rows(path: Path) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in HudiTable.open(path).head(99).to_pylist()]


def test_update(path: Path) -> None:
    words = ["--set", "hits = hits + 1", "--set", "page='x=1'", "--where", "id > 2"]
    dry = run("update", path, *words, "--dry-run")
    assert "2 rows read, 2 rows would be updated, 1 file would be rewritten" in dry.output
    assert rows(path) == [tuple(row.values()) for row in PAGES.to_pylist()]
    done = run("update", path, *words)
    assert done.exit_code == 0
    assert "2 rows read, 2 rows updated, 1 file rewritten, commit" in done.output
    assert rows(path) == [(1, "/a", 7), (2, "/b", 8), (3, "x=1", 10), (4, "x=1", 10)]
    nothing = ["--set", "hits = 0", "--where", "id > 9"]
    assert ": 0 rows updated, commit" in run("update", path, *nothing).output
    assert ": 0 rows would be updated, " in run("update", path, *nothing, "--dry-run").output
    words = ["--hoodie", f"{INDEX}=SIMPLE", "--output", "json"]
    found = run("update", path, "--set", "page = null", *words)
    assert json.loads(found.stdout)["rows_updated"] == 4


def test_merge(path: Path, news: Path) -> None:
    clauses = [
        "matched and op = 'D' then delete",
        "matched then update set hits = target.hits + source.hits",
        "not matched then insert (id, hits) values (source.id, source.hits)",
        "not matched by source and target.page is null then delete",
    ]
    words = [word for clause in clauses for word in ("--when", clause)]
    done = run("merge", path, news, *words)
    assert done.exit_code == 0, done.output
    assert "3 rows read, 1 row inserted, 1 row updated, 2 rows deleted" in done.output
    assert rows(path) == [(1, "/a", 7), (2, "/b", 13), (9, None, 4)]


def test_remedies_of_values_are_in_sql(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "at": pa.timestamp("us", "UTC"), "day": pa.date32()})
    schema = schema.append(pa.field("page", pa.string()))
    HudiTable.create(tmp_path / "t", schema, record_key="id")
    refused = run("update", tmp_path / "t", "--set", "at = now()")
    assert refused.stderr.endswith("; to set a time, write timestamptz '2026-03-07 12:30:00Z'\n")
    refused = run("update", tmp_path / "t", "--set", "day = now()")
    assert refused.stderr.endswith("; to set a day, write date '2026-03-07'\n")
    refused = run("update", tmp_path / "t", "--set", "page = it's")
    assert "to set a text, write it in single quotes, those in it twice\n" in refused.stderr


def test_remedies_of_clauses_are_in_sql(path: Path, news: Path) -> None:
    refused = run("merge", path, news, "--when", "not matched then insert")
    assert "--when 'not matched then insert': the rows have a column 'op'" in refused.stderr
    assert refused.stderr.endswith("what each column gets, or leave this one out of the files\n")
    news.write_text("id,hits\n9,4\n")
    refused = run("merge", path, news, "--when", "not matched then insert")
    assert "insert': the rows lack columns of the table: 'page'; name what" in refused.stderr
    named = "not matched then insert (id, hits) values (source.id, 1)"
    assert f"name what new rows get, as in '{named}', in which columns" in refused.stderr
    assert run("merge", path, news, "--when", named).exit_code == 0
    assert rows(path)[-1] == (9, None, 1)
    news.write_text("id\n9\n")
    refused = run("merge", path, news, "--when", "matched then update")
    named = "matched then update set hits = target.hits + 1"
    assert "--when 'matched then update': the rows have key columns only" in refused.stderr
    assert f"say what is set, as in '{named}'\n" in refused.stderr
    assert run("merge", path, news, "--when", named).exit_code == 0
    assert rows(path)[-1] == (9, None, 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["update", "--set", "hits"], "--set 'hits': give COLUMN=SQL"),
        (["update", "--set", "=1"], "give COLUMN=SQL"),
        (["update", "--set", "hits=1", "--set", "hits = 2"], "--set names 'hits' twice"),
        (["update", "--set", "hits='x'"], "set: 'hits' is int64, and the value is string"),
        (
            ["update", "--set", "page = '/x', hits = hits * 2"],
            "near ','; give each column a --set of its own\n",
        ),
        (["update", "--set", "page=lower('/x', page)) "], "near ')'; write columns, values, "),
        (["update", "--set", "page=x"], "x is no column; there are 'id', 'page', 'hits'"),
        (["update"], "Missing option '--set'"),
        (["update", "--set", "hits=1", "--hoodie", f"{INDEX}=BUCKET"], "BUCKET"),
        (["merge", "FILE", "--when", "matched then drop"], "--when: 'matched then drop' is not"),
        (["merge", "FILE", "--when", "matched then update"], "the rows have a column 'op'"),
        (["merge", "FILE", "--when", "matched then delete", "--on", "hits"], "on is ['hits']"),
        (["merge", "FILE"], "Missing option '--when'"),
    ],
)
def test_what_is_typed_wrong(path: Path, news: Path, words: list[str], said: str) -> None:
    verb, *others = words
    result = run(verb, path, *(news if word == "FILE" else word for word in others))
    assert result.exit_code in (1, 2)
    assert said in result.output
    assert len(HudiTable.open(path).timeline()) == 1
