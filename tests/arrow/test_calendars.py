"""Days and times that an old calendar has at another place; the oracle is Python's datetime."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from lookupstore.arrow.calendars import check_common
from lookupstore.errors import FormatError

DAY, SECOND = dt.date(1582, 10, 15), dt.datetime(1900, 1, 1)
UNITS = {
    "s": dt.timedelta(seconds=1),
    "ms": dt.timedelta(milliseconds=1),
    "us": dt.timedelta.resolution,
}


@pytest.mark.parametrize(
    ("first", "step", "kind"),
    [(DAY, dt.timedelta(days=1), kind) for kind in (pa.date32(), pa.date64())]
    + [(SECOND, step, pa.timestamp(unit)) for unit, step in UNITS.items()],
    ids=str,
)
def test_the_first_common_value(first: Any, step: dt.timedelta, kind: pa.DataType) -> None:
    check_common([("x", pa.array([None, first], kind))], 0, "f", "Java")
    with pytest.raises(FormatError, match="row 12 of the column 'x' has "):
        check_common([("x", pa.array([first, first - step], kind))], 10, "f", "Java")


def test_every_day_of_every_column_is_looked_at() -> None:
    fine, old = pa.array([DAY]), pa.array([dt.date(1500, 1, 1)])
    inside = pa.StructArray.from_arrays([fine, old], ["x", "y"])
    check_common([("a", fine), ("b", fine)], 0, "f", "Java")
    for column in (old, inside):
        with pytest.raises(FormatError, match="row 1 of the column 'b'"):
            check_common([("a", fine), ("b", column)], 0, "f", "Java")
