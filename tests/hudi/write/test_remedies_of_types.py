"""Remedies that errors about columns of given rows name: each is tried as it is written.

The oracle is the value in Python.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lookupstore.hudi import HudiTable

NAIVE = dt.datetime(2026, 1, 2, 12, 30)
ZONED = NAIVE.replace(tzinfo=dt.timezone.utc)
DAY = NAIVE.date()
LOCAL_TIME, TIME = pa.timestamp("us"), pa.timestamp("us", "UTC")
# What remedies in pandas and polars may name.
NAMES = {"pandas": pd, "polars": pl, "decimal": decimal}


def refused(table: HudiTable, rows: Any) -> str:
    """Return the remedies in the error of an upsert."""
    with pytest.raises((TypeError, ValueError), match=r"rows: 'v' .*; give .*, such as ") as raised:
        table.upsert(rows)
    return str(raised.value).partition(", such as ")[2].removeprefix("by ")


def remedy(said: str, program: str) -> str:
    """Return the remedy of a program, with `column` as the column."""
    # Each remedy is followed by the programs that have it, apart from functions of pandas.
    said = re.sub(r"^(pandas\..*?)(?=, \.str)", r"\1 in pandas", said)
    parts = re.split(r" in (pandas(?: and polars)?|polars|Spark(?: and Arrow)?|DuckDB)\b", said)
    by = dict(zip(parts[1::2], parts[::2], strict=False))
    found = next(part for names, part in by.items() if program in names)
    found = found.removeprefix(", ").removeprefix("or ")
    return f"column{found}" if found.startswith(".") else found


def stored(table: HudiTable, rows: Any) -> Any:
    """Return the value of the first row after an upsert, whose second row has a null."""
    table.upsert(rows)
    found, nothing = table.scan(columns="v")["v"].to_pylist()
    assert nothing is None
    return found


@pytest.mark.parametrize(
    ("kind", "given", "wanted"),
    [
        (LOCAL_TIME, ZONED, NAIVE),
        (TIME, NAIVE, ZONED),
        (LOCAL_TIME, "2026-01-02 12:30:00", NAIVE),
        (TIME, "2026-01-02 12:30:00+00:00", ZONED),
        (pa.date32(), "2026-01-02", DAY),
        (pa.date32(), NAIVE, DAY),
        (pa.date32(), ZONED, DAY),
        (pa.string(), NAIVE, "2026-01-02"),
        (pa.string(), DAY, "2026-01-02"),
        (pa.string(), 7, "7"),
        (pa.float32(), "7.5", 7.5),
        (pa.float64(), "7.5", 7.5),
        (pa.decimal128(10, 2), "7.25", decimal.Decimal("7.25")),
        (pa.decimal128(10, 2), 7.25, decimal.Decimal("7.25")),
    ],
)
def test_values_can_be_mended_in_the_program_that_made_them(
    tmp_path: Path, kind: pa.DataType, given: Any, wanted: Any
) -> None:
    schema = pa.schema({"id": pa.int64(), "v": kind})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id")

    frame = pd.DataFrame({"id": [1, 2], "v": [given, None]})
    if isinstance(given, int):
        frame["v"] = frame["v"].astype("Int64")
    by = remedy(refused(table, frame), "pandas")
    made = eval(by, {"column": frame["v"], **NAMES})
    assert stored(table, frame.assign(v=made)) == wanted

    other = pl.DataFrame({"id": [1, 2], "v": [given, None]})
    by = remedy(refused(table, other), "polars")
    assert stored(table, other.with_columns(v=eval(by, {"column": other["v"], **NAMES}))) == wanted

    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        by = remedy(refused(table, connection.cursor().sql("from other")), "DuckDB")
        made = connection.sql(f"select id, {by.replace('column', 'v', 1)} as v from other")
        assert stored(table, made) == wanted


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()])
def test_texts_can_be_made_integers(tmp_path: Path, kind: pa.DataType) -> None:
    schema = pa.schema({"id": pa.int64(), "v": kind})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id")
    other = pl.DataFrame({"id": [1, 2], "v": ["7", "8"]})
    frame = other.to_pandas()
    said = refused(table, frame)
    made = eval(remedy(said, "pandas"), {"column": frame["v"]})
    table.upsert(frame.assign(v=made))
    made = eval(remedy(said, "polars"), {"column": other["v"], **NAMES})
    table.upsert(other.with_columns(v=made))
    table.upsert(
        duckdb.sql(f"select id, {remedy(said, 'DuckDB').replace('column', 'v')} as v from other")
    )
    assert table.scan(columns="v")["v"].to_pylist() == [7, 8]


def test_casts_that_depend_on_a_session_say_so(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "at": TIME, "local": LOCAL_TIME, "day": pa.date32()})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id")
    both = "; Spark and DuckDB use the time zone of their session"
    for column, given, wanted in (
        ("at", "2026-01-02 12:30:00", both),
        ("at", NAIVE, "; Spark uses the time zone of its session"),
        ("local", ZONED, "; Spark uses the time zone of its session"),
        ("local", "2026-01-02 12:30:00", ""),
        ("day", ZONED, both),
        ("day", NAIVE, ""),
    ):
        with pytest.raises(TypeError) as raised:
            table.upsert({"id": [1], column: [given]}, missing="null")
        said = str(raised.value).rpartition("DuckDB")
        assert str(raised.value).endswith(wanted or " in DuckDB"), said


def test_intervals_of_duckdb_become_numbers(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        rows = connection.sql("select 1::bigint as id, interval 36 hour as time")
        with pytest.raises(TypeError, match="; give text, or whole numbers, such as") as raised:
            HudiTable.create(tmp_path / "t", rows, record_key="id")
        by = re.search(r"such as (\w+)\(column\) in DuckDB", str(raised.value))[1]
        made = connection.sql(f"select id, {by}(time) as time from rows")
        table = HudiTable.create(tmp_path / "t", made, record_key="id")
        table.upsert(made)
        assert table.scan(columns="time")["time"].to_pylist() == [36 * 3600 * 10**6]


def test_rows_without_required_columns_are_sent_to_a_merge(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "day": ["mo", "tu"], "seen": [5, 5], "hits": [7, 8]})
    table = HudiTable.create(
        tmp_path / "t", rows, record_key="id", partition_by="day", ordering="seen"
    )
    table.insert(rows)
    some = pa.table({"id": [1, 2], "hits": [70, 80]})
    said = (
        "rows have no columns 'day', 'seen', which are required; add them, or change stored rows "
        r"by 'id' alone with merge \(hudi_merge in Spark\); the rows have 'id', 'hits'"
    )
    for missing in (None, "keep"):
        with pytest.raises(ValueError, match=f"^{said}$"):
            table.upsert(some, missing=missing)
    table.merge(some).when_matched_update().execute()
    assert table.scan(columns=rows.column_names) == rows.set_column(3, "hits", some["hits"])

    # A merge would not insert them, and cannot find rows without their keys.
    with pytest.raises(ValueError, match="which are required; add them; the rows have"):
        table.insert(some)
    with pytest.raises(ValueError, match="no columns 'id', 'seen', which are required; add them; "):
        table.upsert(rows.select(["day", "hits"]))
    with pytest.raises(
        ValueError, match=r"no column 'day'.*; did you mean 'Day'[?] Add it, or change"
    ):
        table.upsert(rows.rename_columns(["id", "Day", "seen", "hits"]))
