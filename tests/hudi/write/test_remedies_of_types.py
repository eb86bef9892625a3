"""Remedies that errors about columns of given rows name: each is tried as it is written.

The oracle is the value in Python.
"""

from __future__ import annotations

import datetime as dt
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
LOCAL_TIME, TIME = pa.timestamp("us"), pa.timestamp("us", "UTC")


def refused(table: HudiTable, rows: Any) -> str:
    """Return the error of an upsert."""
    with pytest.raises(TypeError, match=r"rows: 'time' is .*; give .*, such as") as raised:
        table.upsert(rows)
    return str(raised.value).partition(", such as ")[2]


def stored(table: HudiTable, rows: Any) -> Any:
    """Return the value of the row after an upsert."""
    table.upsert(rows)
    return table.scan(columns="time")["time"].to_pylist()[0]


@pytest.mark.parametrize(
    ("kind", "given", "wanted"),
    [
        (LOCAL_TIME, ZONED, NAIVE),
        (TIME, NAIVE, ZONED),
        (LOCAL_TIME, "2026-01-02 12:30:00", NAIVE),
        (TIME, "2026-01-02 12:30:00+00:00", ZONED),
        (pa.date32(), "2026-01-02", NAIVE.date()),
    ],
)
def test_times_can_be_mended_in_the_program_that_made_them(
    tmp_path: Path, kind: pa.DataType, given: Any, wanted: Any
) -> None:
    schema = pa.schema({"id": pa.int64(), "time": kind})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id")

    frame = pd.DataFrame({"id": [1], "time": [given]})
    said = refused(table, frame)
    by = re.match(r"(?:by )?(.*?)(?: in pandas)?, \.[a-z]", said)[1]
    if by.startswith("."):
        by = f"column{by}"
    made = eval(by, {"column": frame["time"], "pandas": pd})
    assert stored(table, frame.assign(time=made)) == wanted

    other = pl.DataFrame({"id": [1], "time": [given]})
    by = re.search(r"(\.(?:str|dt)\.[a-z_]+\([^)]*\)) in polars", refused(table, other))[1]
    made = eval(f"column{by}", {"column": other["time"]})
    assert stored(table, other.with_columns(time=made)) == wanted

    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        said = refused(table, connection.cursor().sql("from other"))
        by = re.search(r"(column\S*(?: at time zone 'UTC')?) in DuckDB", said)[1]
        by = by.replace("column", "time", 1)
        made = connection.sql(f"select id, {by} as time from other")
        assert stored(table, made) == wanted


def test_rows_without_required_columns_are_sent_to_a_merge(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "day": ["mo", "tu"], "seen": [5, 5], "hits": [7, 8]})
    table = HudiTable.create(
        tmp_path / "t", rows, record_key="id", partition_by="day", ordering="seen"
    )
    table.insert(rows)
    some = pa.table({"id": [1, 2], "hits": [70, 80]})
    said = (
        "rows have no columns 'day', 'seen', which are required; add them, or use merge, which "
        "needs only 'id'; the rows have 'id', 'hits'"
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
        ValueError, match=r"no column 'day'.*; did you mean 'Day'[?] Add it, or use"
    ):
        table.upsert(rows.rename_columns(["id", "Day", "seen", "hits"]))
