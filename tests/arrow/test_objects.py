"""Python objects beside dates and times: exact, or an error that names column and row."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lookupstore.arrow.objects import check_objects
from lookupstore.source.opening import open_source

DAY = dt.date(2020, 1, 1)
NOON = dt.datetime(2020, 1, 2, 12, 0, 0, 5)
FAR = NOON.replace(tzinfo=dt.timezone(dt.timedelta(hours=-5)))
TIMES: dict[str, Any] = {
    "date": DAY,
    "datetime": NOON,
    "aware": FAR,
    "Timestamp": pd.Timestamp(NOON),
    "nanoseconds": pd.Timestamp("2020-01-02 12:00:00.000000007"),
    "time": dt.time(1, 2, 3),
    "timedelta": dt.timedelta(days=1, microseconds=1),
}
OTHERS: dict[str, Any] = {
    "int": 5,
    "float": 1.5,
    "bool": True,
    "decimal": Decimal("1.25"),
    "text": "2020-01-01",
    "int8": np.int8(3),
    "NaT": pd.NaT,
    "NaN": float("nan"),
    "NA": pd.NA,
    "None": None,
}
#: Which other objects stand for no value, to pandas and to Arrow.
NULLS = {"pandas": {"NaT", "NaN", "NA", "None"}, "dict": {"None"}}
#: Times that have one type.
KIN = [{"datetime", "Timestamp"}]


def given(how: str, values: list[Any]) -> Any:
    return (
        pd.DataFrame({"v": pd.Series(values, dtype=object)}) if how == "pandas" else {"v": values}
    )


def read(source: Any) -> list[Any]:
    opened = open_source(source)
    return pa.Table.from_batches(opened.batches(["v"]), opened.schema)["v"].to_pylist()


@pytest.mark.parametrize("how", ["dict", "pandas"])
def test_other_objects_beside_dates_and_times_are_refused(how: str) -> None:
    for first, second in itertools.permutations([*TIMES, *OTHERS], 2):
        if first in OTHERS or "nanoseconds" in (first, second):
            continue
        values = [TIMES[first], {**TIMES, **OTHERS}[second]]
        if {first, second} in KIN:
            assert read(given(how, values)) == values
        elif second in NULLS[how]:
            assert read(given(how, values)) == [values[0], None]
        else:
            with pytest.raises(TypeError, match="the column 'v' "):
                read(given(how, values))


@pytest.mark.parametrize("how", ["dict", "pandas"])
def test_the_error_names_row_and_types(how: str) -> None:
    said = r"the column 'v' has a datetime in row 3, but its first value is a date; give the column"
    with pytest.raises(TypeError, match=said):
        open_source(given(how, [DAY, None, NOON]))
    with pytest.raises(TypeError, match="has times with a zone and times without"):
        open_source(given(how, [NOON, FAR]))
    with pytest.raises(TypeError, match=r"with nanoseconds, which Arrow cuts; give .*\[ns\]"):
        open_source(given(how, [NOON, TIMES["nanoseconds"]]))


def test_lists_and_structs() -> None:
    assert read({"v": [[DAY], None, [DAY, None]]}) == [[DAY], None, [DAY, None]]
    for values in ([[DAY], [NOON]], [{"x": DAY}, {"x": NOON}], [[{"x": [DAY, 5]}]]):
        with pytest.raises(TypeError, match="the column 'v' has a "):
            open_source({"v": values})


def test_other_columns_are_not_looked_at() -> None:
    check_objects([1, "a"], pa.int64(), "v", "source")
    check_objects(np.array(["2020-01-01"], "M8[D]"), pa.date32(), "v", "source")
    check_objects(iter([DAY]), pa.date32(), "v", "source")
    days = np.array(["2020-01-01"], "M8[D]")
    assert read({"v": days}) == [DAY]
    assert read(pd.DataFrame({"v": pd.to_datetime([NOON, None])}))[1] is None
