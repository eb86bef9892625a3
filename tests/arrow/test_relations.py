"""Types of DuckDB that Arrow does not have are refused by name; all others come exactly."""

from __future__ import annotations

import datetime
import decimal
import uuid
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import lookupstore
from lookupstore.hudi import HudiTable
from lookupstore.source.opening import open_source


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("'101'::BIT", "is BIT, whose bits .* v::VARCHAR"),
        ("'12:00:00+02'::TIMETZ", "is TIME WITH TIME ZONE, whose zone .* v::VARCHAR"),
        ("340282366920938463463374607431768211455::UHUGEINT", "is UHUGEINT, whose .* v::HUGEINT"),
        ("12345678901234567890::BIGNUM", "is BIGNUM, which Arrow would have as bytes"),
        ("['101'::BIT]", r"is BIT\[\], with BIT in it"),
        ("{'a': MAP{'b': [1::UHUGEINT]}}", ".* with UHUGEINT in it"),
        ("['12:00:00+02'::TIMETZ]::TIMETZ[1]", ".* with TIME WITH TIME ZONE in it"),
    ],
)
def test_types_that_arrow_does_not_have(tmp_path: Path, value: str, message: str) -> None:
    with duckdb.connect() as con:
        relation = con.sql(f"SELECT 1 AS id, {value} AS v")
        with pytest.raises(TypeError, match=f"^source: the column 'v' {message}"):
            lookupstore.build(relation, tmp_path / "s", key="id")
        lookupstore.build({"id": [1], "x": [2]}, tmp_path / "s", key="id").close()
        with (
            lookupstore.open(tmp_path / "s") as store,
            pytest.raises(TypeError, match=f"^facts: the column 'v' {message}"),
        ):
            store.join(relation, on="id")


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("'101'::BIT::VARCHAR", "101"),
        ("'12:00:00+02'::TIMETZ::VARCHAR", "12:00:00+02"),
        ("10000000000000000000000000000000000000::HUGEINT", decimal.Decimal(10**37)),
        ("-99999999999999999999999999999999999999::HUGEINT", decimal.Decimal(1 - 10**38)),
        ("sum(1)", decimal.Decimal(1)),
        ("18446744073709551615::UBIGINT", 2**64 - 1),
        ("'a'::ENUM('a', 'b')", "a"),
        ("'{\"a\": 1}'::JSON", '{"a": 1}'),
        ("'12345678-1234-5678-1234-567812345678'::UUID", "12345678-1234-5678-1234-567812345678"),
        ("INTERVAL 13 MONTH", pa.MonthDayNano([13, 0, 0])),
        ("MAP{'a': 1}", [("a", 1)]),
        ("'23:59:59.999999'::TIME", datetime.time(23, 59, 59, 999999)),
        ("'\\xAA'::BLOB", b"\xaa"),
        ("{'a': [1.5::DECIMAL(4,2)]}", {"a": [decimal.Decimal("1.50")]}),
    ],
)
def test_other_types_are_exact(tmp_path: Path, value: str, stored: Any) -> None:
    with duckdb.connect() as con:
        relation = con.sql(f"SELECT 1 AS id, {value} AS v")
        with lookupstore.build(relation, tmp_path / "s", key="id") as store:
            assert store[1] == {"v": stored}


def test_uuids_after_the_setting_of_duckdb(tmp_path: Path) -> None:
    with duckdb.connect() as con:
        con.execute("SET arrow_lossless_conversion = true")
        ids = [uuid.UUID(int=number) for number in range(2)]
        one, two = (con.sql(f"SELECT '{id}'::UUID AS id, {at} AS v") for at, id in enumerate(ids))
        with (
            lookupstore.build(one, tmp_path / "s", key="id") as store,
            store.upsert(two) as newer,
        ):
            assert dict(newer) == {id: {"v": at} for at, id in enumerate(ids)}
            assert store.lookup(two)["v"].to_pylist() == [None]
            assert store.lookup(one)["v"].to_pylist() == [0]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("170141183460469231731687303715884105727::HUGEINT", "HUGEINT"),
        ("[100000000000000000000000000000000000000::HUGEINT]", "HUGEINT"),
        ("'24:00:00'::TIME", "TIME"),
    ],
)
def test_values_that_arrow_does_not_have(value: str, kind: str) -> None:
    with duckdb.connect() as con:
        relation = con.sql(
            f"SELECT i AS id, if(i < 4000, NULL, {value}) AS v FROM range(5000) t(i)"
        )
        opened = open_source(relation)
        with pytest.raises(
            ValueError, match=rf"'v' has a {kind} in row 4001 that .* in SQL: v::VARCHAR"
        ):
            list(opened.batches(["id", "v"]))


def test_a_union_is_refused_by_its_column(tmp_path: Path) -> None:
    with duckdb.connect() as con:
        relation = con.sql("SELECT 1 AS id, union_value(n := 1) AS v")
        with pytest.raises(TypeError, match="the column 'v' is sparse_union"):
            lookupstore.build(relation, tmp_path / "s", key="id")


@pytest.mark.parametrize("bad", [0, 1, 699, 998, 999, 5000])
def test_the_row_of_a_number_of_39_digits(bad: int) -> None:
    relation = duckdb.sql(
        f"SELECT CASE WHEN i = {bad} THEN {10**38}::HUGEINT ELSE i END AS v FROM range(6000) t(i)"
    )
    with pytest.raises(ValueError, match=f"the column 'v' has a HUGEINT in row {bad + 1} that"):
        list(open_source(relation).batches(["v"]))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT id, 'x' AS v FROM t", "'v' is string"),
        ("SELECT id, v, 1 AS w FROM t", "no column 'w'"),
        ("SELECT nullif(id, 250000) AS id, v FROM t", "row 250001 has no record key"),
    ],
)
def test_a_refused_upsert_leaves_the_connection_free(
    query: str, message: str, tmp_path: Path
) -> None:
    connection = duckdb.connect()
    connection.sql("CREATE TABLE t AS SELECT i AS id, i AS v FROM range(300000) r(i)")
    columns = pa.schema({"id": pa.int64(), "v": pa.int64()})
    table = HudiTable.create(tmp_path / "t", columns, record_key="id")
    with pytest.raises((TypeError, ValueError), match=message) as kept:
        table.upsert(connection.sql(query))
    assert connection.execute("SELECT 42").fetchall() == [(42,)]
    assert kept.traceback


@pytest.mark.parametrize(("key", "message"), [("no", "no column 'no'"), ("id", "null")])
def test_a_refused_build_leaves_the_connection_free(key: str, message: str, tmp_path: Path) -> None:
    connection = duckdb.connect()
    rows = connection.sql("SELECT nullif(i, 250000) AS id FROM range(300000) r(i)")
    with pytest.raises((KeyError, ValueError), match=message) as kept:
        lookupstore.build(rows, tmp_path / "s", key=key)
    assert connection.execute("SELECT 42").fetchall() == [(42,)]
    assert kept.traceback
