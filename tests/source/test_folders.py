"""The files of a folder and the columns of its folders: one reading for every verb."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click.testing
import duckdb
import pyarrow as pa
import pytest
from support.folders import CASES, ORC, Case, comparable

import lookupstore
from lookupstore import FormatError
from lookupstore.cli import main
from lookupstore.columnar import ColumnarFiles
from lookupstore.source.opening import open_source
from lookupstore.store.path_kind import PathKind, kind_of

READ = [pytest.param(case, id=case.name) for case in CASES if not case.refused]
REFUSED = [pytest.param(case, id=case.name) for case in CASES if case.refused]


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(map(comparable, table.to_pylist()), key=lambda row: str(row["v"]))


def cli(*words: object) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, [str(word) for word in words])


def test_there_are_cases_enough() -> None:
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", READ)
def test_every_reader_finds_the_same(tmp_path: Path, case: Case) -> None:
    given = case.write(tmp_path / "in")
    types = {"id": pa.int64(), "v": pa.string(), **case.types}
    source = open_source(given)
    assert dict(zip(source.schema.names, source.schema.types, strict=True)) == types
    found = pa.Table.from_batches(source.batches(source.schema.names), source.schema)
    assert rows_of(found) == case.expected()
    assert source.count_rows() == len(case.rows)

    with lookupstore.build(given, tmp_path / "store", key="v") as store:
        assert rows_of(store.scan().read_all()) == case.expected()
        kinds = {field.name: field.type for field in store.value_schema}
        assert kinds == {name: kind for name, kind in types.items() if name != "v"}
    built = cli("build", given, tmp_path / "by-cli", "--key", "v")
    assert built.exit_code == 0, built.output
    with lookupstore.open(tmp_path / "by-cli") as store:
        assert rows_of(store.scan().read_all()) == case.expected()

    assert kind_of(given) is PathKind.COLUMNAR_FILES
    with ColumnarFiles(given, key="v") as files:
        assert {field.name: field.type for field in files.value_schema} == kinds
        answers = files.lookup(list(case.rows)).to_pylist()
        keyed = [{"v": v, **row} for v, row in zip(case.rows, answers, strict=True)]
        assert sorted(map(comparable, keyed), key=lambda row: row["v"]) == case.expected()


@pytest.mark.parametrize("case", REFUSED)
def test_every_reader_refuses_the_same(tmp_path: Path, case: Case) -> None:
    given = case.write(tmp_path / "in")
    for call in (
        open_source,
        lambda path: lookupstore.build(path, tmp_path / "store", key="v"),
        lambda path: ColumnarFiles(path, key="v"),
        kind_of,
    ):
        with pytest.raises(FormatError, match=case.refused):
            call(given)
    refused = cli("get", given, "x", "--key", "v")
    assert refused.exit_code != 0
    assert re.search(case.refused, refused.output)


@pytest.mark.parametrize("case", [one for one in READ if one.values[0].duckdb])
def test_duckdb_reads_the_same_names_of_folders(tmp_path: Path, case: Case) -> None:
    """DuckDB's types are others, so that values are compared as the text that they are of."""
    assert ORC not in case.files.values()
    case.write(tmp_path / "in")
    files = [str(tmp_path / "in" / path) for path in case.rows]
    asked = "SELECT * FROM read_parquet(?, hive_partitioning=?, hive_types_autocast=0)"
    table = duckdb.sql(asked, params=[files, bool(case.types)]).to_arrow_table()
    assert set(table.column_names) == {"id", "v", *case.types}
    for row in table.to_pylist():
        for name, kind in case.types.items():
            assert same(row[name], case.rows[row["v"]][name], kind), row


def same(text: str | None, value: Any, kind: pa.DataType) -> bool:
    """Return whether a text of DuckDB is that of a value."""
    if text is None or pa.types.is_string(kind):
        return text == value
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat(text).replace(tzinfo=timezone.utc) == value
    if pa.types.is_date(kind):
        return text == str(value)
    # Java's numbers may be hexadecimal or have a suffix, which Python does not read.
    return not text.strip().isdecimal() or type(value)(text) == value
