"""`join`: rows of files beside columns of a store, against Arrow's own join."""

from __future__ import annotations

import errno
import json
import os
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click.testing
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import lookupstore
from lookupstore import progress
from lookupstore.cli import main
from lookupstore.sst import Writer

HOWS = {"left": "left outer", "inner": "inner", "semi": "left semi", "anti": "left anti"}


def run(*words: object) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def facts(tmp_path: Path, seed: int) -> pa.Table:
    rng = random.Random(seed)
    table = pa.table(
        {
            "row": list(range(5000)),
            "plane": [rng.choice([None, *range(200)]) for _ in range(5000)],
        }
    )
    pq.write_table(table, tmp_path / "facts.parquet", row_group_size=700)
    return table


@pytest.fixture
def planes(tmp_path: Path) -> pa.Table:
    table = pa.table({"id": list(range(0, 200, 2)), "seats": [i / 4 for i in range(100)]})
    lookupstore.build(table, tmp_path / "store", key="id", buckets=2).close()
    pq.write_table(table, tmp_path / "planes.parquet")
    return table


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "json"])
def test_the_join_is_that_of_arrow(
    tmp_path: Path, facts: pa.Table, planes: pa.Table, how: str, ending: str
) -> None:
    out = tmp_path / f"out.{ending}"
    result = run(
        "join", tmp_path / "facts.parquet", tmp_path / "store", "--on", "plane=id", "--how", how,
        "-o", out,
    )  # fmt: skip
    assert (result.exit_code, result.output) == (0, "")
    if ending == "parquet":
        found = pq.read_table(out)
    elif ending == "arrow":
        with pa.ipc.open_file(out) as file:
            found = file.read_all()
    elif ending == "csv":
        found = pa_csv.read_csv(out)
    else:
        found = pa.Table.from_pylist([json.loads(line) for line in out.read_text().splitlines()])
    expected = facts.join(planes, "plane", "id", join_type=HOWS[how]).sort_by("row")
    assert found.select(expected.column_names).to_pylist() == expected.to_pylist()
    assert found["row"].to_pylist() == sorted(found["row"].to_pylist())


def test_names_and_columnar_files(tmp_path: Path, facts: pa.Table, planes: pa.Table) -> None:
    words = ["--on", "plane=id", "--prefix", "p_", "--found", "known", "--output", "json"]
    of_store = run("join", tmp_path / "facts.parquet", tmp_path / "store", *words)
    of_files = run(
        "join", tmp_path / "facts.parquet", tmp_path / "planes.parquet", "--key", "id", *words
    )
    assert of_store.exit_code == of_files.exit_code == 0
    assert of_store.output == of_files.output
    rows = [json.loads(line) for line in of_store.output.splitlines()]
    seats = dict(zip(planes["id"].to_pylist(), planes["seats"].to_pylist(), strict=True))
    assert rows == [
        {**fact, "p_seats": seats.get(fact["plane"]), "known": fact["plane"] in seats}
        for fact in facts.to_pylist()
    ]
    shown = run("join", tmp_path / "facts.parquet", tmp_path / "store", "--on", "plane=id")
    assert shown.exit_code == 0
    assert "first 50 rows; -o FILE writes all" in shown.output


def test_a_narrow_table_has_the_key_and_what_was_appended(
    tmp_path: Path, planes: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [*"abcdefghij", "plane", *"klmn"]
    facts = pa.table({name * 9 if len(name) == 1 else name: [2] * 20 for name in names})
    pq.write_table(facts, tmp_path / "facts.parquet")
    monkeypatch.setattr("lookupstore.cli.output.OutputConsole", partial(Console, width=60))
    asked = ["join", tmp_path / "facts.parquet", tmp_path / "store", "--on", "plane=id"]
    result = run(*asked, "--prefix", "p_", "--found", "known")
    header = [one.strip() for one in re.split("[│┃]", result.output.splitlines()[1])[1:-1]]
    assert header == ["a" * 9, "b" * 9, "plane", "p_seats", "known"]
    assert "… 12 more columns" in result.output


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("007", "correct it\n"),
        ("NA", "correct it, or give --null 'NA' if it means null\n"),
        ("1.5", "give --types plane=double\n"),
        ('"1,5"', "give --decimal ',' --types plane=double\n"),
    ],
)
def test_remedies_for_keys_of_text_leave_a_type_that_can_match(
    tmp_path: Path, planes: pa.Table, text: str, remedy: str
) -> None:
    """Text matches no number: `--types plane=text` would only lead to another error."""
    facts = tmp_path / "facts.csv"
    facts.write_text(f"plane,n\n{text},{text}\n")
    words = ["join", facts, tmp_path / "store", "--on", "plane=id", "--output", "csv"]
    result = run(*words)
    assert result.exit_code == 2
    assert result.stderr.endswith(f"in row 1; {remedy}")
    options = re.findall(r"(--\w+) (\S+)", remedy.replace("'", ""))
    if options:
        result = run(*words, *(part for pair in options for part in pair))
        assert result.exit_code == 0, result.stderr


def test_what_cannot_be_joined(tmp_path: Path, facts: pa.Table, planes: pa.Table) -> None:
    given = tmp_path / "facts.parquet"
    store = tmp_path / "store"
    with Writer(tmp_path / "a.sst") as writer:
        writer.put(b"a", b"1")
    for words, said in (
        ([given, store, "--on", "plane"], "the store has no key column 'plane'"),
        ([given, store, "--on", "where=id"], "the facts have no column 'where'"),
        ([given, store, "--on", "id=plane"], "'id'; the fact column comes first: plane=id\n"),
        (
            [given, store, "--on", "plane=id", "--how", "anti", "--columns", "seats"],
            "--columns is 'seats'; anti joins add no columns",
        ),
        ([given, store, "--on", "plane=id", "--how", "semi", "--found", "known"], "--found is"),
        ([given, store, "--on", "plane=id", "--how", "semi", "--prefix", "p"], "--prefix is 'p'"),
        ([given, store, "--on", "plane=id", "-o", "x.txt"], "name a file"),
        ([given, store, "--on", "plane=id", "-o", "x.csv", "--output", "csv"], "-o FILE; the"),
        ([given, tmp_path / "a.sst", "--on", "plane=id"], "join with a store"),
        ([tmp_path / "none.parquet", store, "--on", "plane=id"], "none.parquet"),
    ):
        result = run("join", *words)
        assert result.exit_code in (1, 2)
        assert said in result.output, (words, result.output)
    assert not (tmp_path / "x.csv").exists()


def test_the_key_in_several_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"], "c": [2, 1]}), "f.parquet")
    rows = pa.table({"n": [1, 2], "t": ["x", "x"], "v": [10, 20]})
    lookupstore.build(rows, "s", key=["n", "t"]).close()
    for words in (["--on", "a=n,b=t"], ["--on", "a=n", "--on", "b=t"], ["--on", "b=t", "--on=a=n"]):
        done = run("join", "f.parquet", "s", *words, "--output", "json", "--columns", "v")
        assert [json.loads(line)["v"] for line in done.stdout.splitlines()] == [10, None]
    for words, said in (
        (["--on", "a=n", "--on", "c=n"], "--on: the key column 'n' is given twice"),
        (["--on", "a=n", "--on", "a=t"], "--on: the column 'a' is given twice"),
        (["--on", "a=n"], "--on: no fact column for the key column 't'"),
        (["--on", "a"], "if the names differ, give FACT=KEY"),
    ):
        done = run("join", "f.parquet", "s", *words)
        assert done.exit_code == 2
        assert said in done.stderr


def test_what_is_read_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), "data/f.parquet")
    (tmp_path / "link.parquet").symlink_to("data/f.parquet")
    content = (tmp_path / "data" / "f.parquet").read_bytes()
    lookupstore.build(pa.table({"id": [1], "v": [5]}), "s", key="id").close()
    lookupstore.build(pa.table({"id": [1], "v": [5]}), "plain", key="id").close()
    pq.write_table(pa.table({"id": [1], "v": [5]}), "store.parquet")
    file = "data/f.parquet"
    for words in (
        ["join", file, "s", "--on", "id", "-o", file],
        ["join", f"file://{tmp_path}/{file}", "s", "--on", "id", "-o", file],
        ["join", "data", "s", "--on", "id", "-o", f"{tmp_path}/data/../data/f.parquet"],
        ["join", "data/*.parquet", "s", "--on", "id", "-o", file],
        ["join", "link.parquet", "s", "--on", "id", "-o", file],
        ["join", file, "s", "--on", "id", "-o", "link.parquet"],
        ["join", file, "store.parquet", "--key", "id", "--on", "id", "-o", "store.parquet"],
        # What is elsewhere is not asked.
        [
            "join",
            "s3://none/f",
            "store.parquet",
            "--key",
            "id",
            "--on",
            "id",
            "-o",
            "store.parquet",
        ],
        ["get", "s", "--keys", file, "-o", file],
        ["get", file, "--key", "id", "1", "-o", file],
    ):
        done = run(*words)
        assert done.exit_code == 2, words
        assert "is in what is read" in done.stderr
    assert (tmp_path / "data" / "f.parquet").read_bytes() == content
    for out in ("new.parquet", "data/new.parquet"):
        assert run("get", "s", "1", "-o", out).exit_code == 0
    assert run("get", "s", "1", "-o", "new.parquet").exit_code == 0  # what nobody reads is replaced


def test_a_bar_ends_before_an_error_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full leaves no bar open, which would be drawn again behind the error."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"id": [1, 2]}), "f.parquet")
    lookupstore.build(pa.table({"id": [1], "v": [5]}), "s", key="id").close()
    open_bars = []

    @contextmanager
    def bars(show: bool | None = None, *, late: bool = False) -> Iterator[Any]:
        open_bars.append(1)
        try:
            yield lambda title, total: lambda rows: None
        finally:
            open_bars.pop()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    seen: list[int] = []
    echo = click.echo

    def counted(*given: Any, **named: Any) -> None:
        seen.append(len(open_bars))
        echo(*given, **named)

    monkeypatch.setattr(click, "echo", counted)
    monkeypatch.setattr(progress, "progress_bars", bars)
    monkeypatch.setattr(pa.ipc.RecordBatchFileWriter, "write_batch", full, raising=True)
    for words in (
        ["join", "f.parquet", "s", "--on", "id", "-o", "o.arrow"],
        ["get", "s", "--keys", "f.parquet", "-o", "o.arrow"],
    ):
        assert run(*words).exit_code == 1
        assert seen.pop() == 0
