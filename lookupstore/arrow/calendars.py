"""Find days and times that have other values in old calendars than in today's.

Until 1582-10-15, Java's `java.sql.Date` uses the Julian calendar, and until 1900 it may use local
mean time. Arrow uses the Gregorian calendar for all days, as Spark does since version 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.fitting import shown_value
from lookupstore.errors import FormatError

# The first day (1582-10-15) and the first second (of 1900) that both calendars have in common, as
# numbers since 1970; and the number of each unit in a second.
_COMMON_DAY, _COMMON_SECOND = -141_427, -2_208_988_800
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def has_time(kind: pa.DataType) -> bool:
    """Return whether a type is or contains days or timestamps.

    >>> has_time(pa.list_(pa.date32())), has_time(pa.time64("us"))
    (True, False)
    """
    if pa.types.is_nested(kind):
        return any(has_time(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def days_and_times(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the days and timestamps inside an array, except those below nulls.

    >>> list(days_and_times(pa.array([[0], None], pa.list_(pa.date32()))))[0].to_pylist()
    [datetime.date(1970, 1, 1)]
    """
    kind = array.type
    if pa.types.is_struct(kind):
        for one in array.flatten():
            yield from days_and_times(one)
    elif pa.types.is_map(kind):
        there = array.filter(array.is_valid())
        for one in (there.keys, there.items):
            yield from days_and_times(one)
    elif pa.types.is_nested(kind):
        yield from days_and_times(array.flatten())
    elif has_time(kind):
        yield array


def check_common(
    columns: Iterable[tuple[str, pa.Array]],
    row: int,
    path: str,
    writer: str,
    *,
    times: bool = True,
) -> None:
    """Check that days and times of an old calendar are the same in today's.

    Args:
        columns: Columns of the old calendar, as pairs of name and values.
        row: Number of rows before these columns, by which errors count rows.
        path: Path of the file, which errors name.
        writer: Program that wrote the file, which errors name.
        times: Whether timestamps use the old calendar as well as days.

    Raises:
        FormatError: If a day or time is not the same in both calendars.

    >>> days = pa.array([-171_652], pa.date32())
    >>> check_common([("day", days)], 0, "a.orc", "Java")
    Traceback (most recent call last):
    lookupstore.errors.FormatError: a.orc: row 1 of the column 'day' has ...
    """
    for name, column in columns:
        for leaf in days_and_times(column):
            at = _first_before(leaf) if times or pa.types.is_date(leaf.type) else None
            if at is None:
                continue
            where = f"row {row + at + 1}" if len(leaf) == len(column) else "a row"
            raise FormatError(
                f"{path}: {where} of the column {name!r} has {shown_value(leaf[at])}, which "
                f"{writer} wrote by another calendar; choose other columns, or give the rows as "
                "Spark reads them"
            )


def _first_before(times: pa.Array) -> int | None:
    """Return the index of the first day or time that differs in the old calendar."""
    if pa.types.is_date(times.type):
        common, numbers = _COMMON_DAY, times.cast(pa.date32()).cast(pa.int32())
    else:
        common, numbers = _COMMON_SECOND * _UNITS[times.type.unit], times.cast(pa.int64())
    found = pc.index(pc.less(numbers, common), True).as_py()
    return None if found < 0 else int(found)
