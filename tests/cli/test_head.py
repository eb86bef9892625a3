"""`lookupstore head`: the first rows of whatever is given."""

from __future__ import annotations

import datetime
import io
import json
from pathlib import Path
from typing import Any

import click.testing
import duckdb
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore.cli import main
from lookupstore.hudi import HudiTable
from lookupstore.sst import Writer

TABLE = pa.table({"id": range(30, 0, -1), "name": [f"n{i}" for i in range(30, 0, -1)]})


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(line: str, given: bytes | None = None) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, ["head", *line.split()], input=given)


def rows(line: str, given: bytes | None = None) -> list[dict[str, Any]]:
    result = run(f"{line} --output json", given)
    assert result.exit_code == 0, result.output
    return [json.loads(row) for row in result.stdout.splitlines()]


def test_ten_rows_of_everything() -> None:
    pq.write_table(TABLE, "rows.parquet")
    pa.orc.write_table(TABLE, "rows.orc")
    Path("rows.csv").write_text("id,name\n" + "".join(f"{i},n{i}\n" for i in range(30, 0, -1)))
    lookupstore.build(TABLE, "store", key="id", buckets=3).close()
    table = HudiTable.create("table", TABLE, record_key="id", name="t")
    table.insert(TABLE)
    in_order = TABLE.to_pylist()
    by_key = in_order[::-1]
    for file in ("rows.parquet", "rows.orc", "rows.csv"):
        assert rows(file) == in_order[:10]
        assert rows(f"{file} -n 3 --columns name") == [{"name": f"n{i}"} for i in (30, 29, 28)]
    assert rows("rows.parquet rows.parquet -n 31") == [*in_order, in_order[0]]
    assert rows("store") == by_key[:10]
    assert rows("store --columns name -n 1") == [{"id": 1, "name": "n1"}]
    assert {row["id"] for row in rows("table -n 40")} == set(range(1, 31))
    assert rows("- -n 2", Path("rows.csv").read_bytes()) == in_order[:2]
    for one in ("store", "rows.csv", "table"):
        assert rows(f"{one} -n 0") == []
        assert len(run(f"{one}").stdout.splitlines()) == 14  # and the frame of a table
    sink = io.BytesIO(click.testing.CliRunner().invoke(
        main, ["head", "store", "--output", "arrow"]).stdout_bytes)  # fmt: skip
    assert pa.ipc.open_stream(sink).read_all().to_pylist() == by_key[:10]


def test_options_of_text_and_of_stores() -> None:
    Path("rows.csv").write_text("007;x\n008;NA\n")
    assert rows("rows.csv --delimiter ; --names zip,v --null NA --types zip=text") == [
        {"zip": "007", "v": "x"},
        {"zip": "008", "v": None},
    ]
    lookupstore.build(TABLE, "store", key="id").close()
    lookupstore.upsert("store", {"id": [0], "name": ["new"]}).close()
    assert rows("store -n 1") == [{"id": 0, "name": "new"}]
    assert rows("store -n 1 --version 1") == [{"id": 1, "name": "n1"}]


@pytest.mark.parametrize("columns", [None, "v", "day,n"])
@pytest.mark.parametrize(
    "where",
    ["n > 20 and v = 'x'", "day = '2026-03-02'", "id in (3, 50, 99)", "n is null", "n > 1000",
     "not (n > 20)", "id >= 40 or v is null"],
)  # fmt: skip
def test_rows_that_meet_a_condition(where: str, columns: str | None) -> None:
    """DuckDB says which; null is as in SQL. A column that is only in the condition is not shown."""
    given = pa.table(
        {
            "v": [None if i % 7 == 0 else "xyz"[i % 3] for i in range(60)],
            "id": range(60),
            "n": [None if i % 5 == 0 else i for i in range(60)],
            "day": [datetime.date(2026, 3, 1 + i % 4) for i in range(60)],
        }
    )
    store = lookupstore.build(given, "store", key="id", buckets=2)
    lookupstore.upsert(store, given.slice(10, 10)).close()
    pq.write_table(given, "rows.parquet")
    HudiTable.create("table", given, record_key="id", name="t").insert(given)
    shown = "id, v, n, day" if columns is None else f"id, {columns}"
    wanted = duckdb.sql(f"select {shown} from given where {where} order by id").to_arrow_table()
    lines = [json.dumps(row, default=str) for row in wanted.to_pylist()]
    chosen = [] if columns is None else ["--columns", columns]
    more = ["--where", where, "--output", "json"]

    def printed(line: str, *others: str) -> list[str]:
        done = click.testing.CliRunner().invoke(main, [*line.split(), *others, *more])
        assert done.exit_code == 0, done.output
        return done.stdout.splitlines()

    for line in ("scan store", "head store -n 99", "scan store --start 0"):
        assert printed(line, *chosen) == lines
    assert printed("scan store --limit 2", *chosen) == lines[:2]
    ids = wanted["id"].to_pylist()
    for line in ("head rows.parquet -n 99", "head table -n 99"):
        assert sorted(json.loads(one)["id"] for one in printed(line)) == ids


def test_a_condition_on_a_column_that_a_store_lacks() -> None:
    lookupstore.build(TABLE, "store", key="id").close()
    for command in ("head", "scan"):
        done = click.testing.CliRunner().invoke(main, [command, "store", "--where", "nam = 'n1'"])
        assert done.exit_code == 2
        assert "--where: nam is no column; did you mean 'name'?" in done.stderr


def test_a_sorted_file() -> None:
    with Writer("one.sst") as writer:
        writer.put(b"a", b"1")
        writer.put(b"b", b"2")
    assert run("one.sst -n 1 --output csv").stdout == "key,value\n0x61,0x31\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("rows.csv --columns b", "has no column 'b'; it has ['id', 'name']"),
        ("rows.csv --version 1", "--version and --as-of are for one store or table"),
        ("store --columns nix", "nix"),
        ("store --delimiter ;", "store is a store; --delimiter, --quote"),
        ("missing.parquet", "missing.parquet"),
        ("rows.parquet --delimiter ;", "has types of its own"),
        ("", "Missing argument 'STORE_OR_FILE...'"),
    ],
)
def test_what_is_refused(line: str, said: str) -> None:
    Path("rows.csv").write_text("id,name\n1,x\n")
    pq.write_table(TABLE, "rows.parquet")
    lookupstore.build(TABLE, "store", key="id").close()
    result = run(line)
    assert result.exit_code in (1, 2)
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_a_folder_of_csv_and_empty_files() -> None:
    """The remedies are lines that work when they are typed."""
    Path("files").mkdir()
    Path("files/1.csv").write_text("id,x\n1,a\n")
    Path("files/2.csv").write_text("id,x\n2,b\n")
    result = run("files")
    assert result.exit_code == 2
    assert "it has 1.csv; for CSV, give a glob: 'files/*.csv'\n" in result.stderr
    assert [row["id"] for row in rows("files/*.csv")] == [1, 2]
    Path("empty.parquet").write_bytes(b"")
    assert (
        "expected the end of a Parquet file, found a file of 0 bytes" in run("empty.parquet").stderr
    )
