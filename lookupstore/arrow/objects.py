"""Check columns of Python objects for dates and times that Arrow would change.

Arrow infers the type of a column from its first values, and converts the others: a datetime after a
date becomes a day, an integer counts as days or microseconds, and NaT becomes a day of year 1.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa


def check_objects(values: Any, kind: pa.DataType, name: object, what: str) -> None:
    """Check that Arrow did not change dates and times of a column of objects.

    Args:
        values: Column before its conversion to Arrow. It is checked only if it contains Python
            objects.
        kind: Arrow type of the converted column.
        name: Name of the column, which errors show.
        what: Name of the source, which errors show.

    Raises:
        TypeError: If there are other objects next to dates or times, if only some times have a
            zone, or if a time has nanoseconds that its type lacks.

    >>> days = [dt.date(2026, 1, 1), dt.datetime(2026, 1, 2, 12)]
    >>> check_objects(days, pa.date32(), "day", "source")
    Traceback (most recent call last):
    TypeError: source: the column 'day' has a datetime in row 2, but its first value is a date; ...
    """
    is_pandas = _is_series(values)
    if not _has_times(kind) or not (is_pandas or isinstance(values, (list, tuple, np.ndarray))):
        return
    if getattr(getattr(values, "dtype", None), "kind", "O") != "O":
        return
    for leaf, objects in _times(list(values), kind):
        _check(objects, leaf, f"{what}: the column {name!r} has", is_pandas=is_pandas)


def _is_series(values: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(values, pandas.Series)


def _times(values: list[Any], kind: pa.DataType) -> Iterator[tuple[pa.DataType, list[Any]]]:
    """Yield the types of dates and times with their objects, at any depth."""
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        yield kind, values
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = chain.from_iterable(one for one in values if isinstance(one, Iterable))
        yield from _times(list(items), kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            if _has_times(field.type):
                inner = [one.get(field.name) for one in values if isinstance(one, dict)]
                yield from _times(inner, field.type)


def _has_times(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_times(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_temporal(kind))


def _check(values: list[Any], kind: pa.DataType, where: str, *, is_pandas: bool) -> None:
    # Types first, at the speed of C: most columns have only one.
    found = set(map(type, values)) - {type(None)}
    if is_pandas:
        found -= _nulls(values, found)
    bad = {one for one in found if not _is_of(one, kind)}
    if bad:
        row = next(at for at, one in enumerate(values) if type(one) in bad)
        first = next((one for one in values if type(one) in found - bad), values[row])
        raise TypeError(
            f"{where} a {type(values[row]).__name__} in row {row + 1}, but its first value is a "
            f"{type(first).__name__}; give the column one type"
        )
    if not found or not all(issubclass(one, dt.datetime) for one in found):
        return
    times = [one for one in values if type(one) in found]
    if len({zone is None for zone in set(map(attrgetter("tzinfo"), times))}) > 1:
        raise TypeError(f"{where} times with a zone and times without; give all of them one")
    if kind.unit != "ns" and any(getattr(one, "nanosecond", 0) for one in times):
        raise TypeError(
            f"{where} times with nanoseconds, which Arrow cuts; give a column of datetime64[ns]"
        )


def _is_of(given: type, kind: pa.DataType) -> bool:
    """Return whether objects of a class are values of an Arrow type."""
    if pa.types.is_date(kind):
        return issubclass(given, (dt.date, np.datetime64)) and not issubclass(given, dt.datetime)
    if pa.types.is_timestamp(kind):
        return issubclass(given, (dt.datetime, np.datetime64))
    if pa.types.is_time(kind):
        return issubclass(given, dt.time)
    return issubclass(given, (dt.timedelta, np.timedelta64))


def _nulls(values: list[Any], among: set[type]) -> set[type]:
    """Return the classes that have only null values of pandas."""
    pandas = sys.modules["pandas"]
    times = (dt.date, dt.time, dt.timedelta)
    others = {one for one in among if not issubclass(one, times)} | {type(pandas.NaT)}
    seen = [value for value in values if type(value) in others]
    valid = {type(value) for value in seen if pandas.isna(value) is not True}
    return others - valid
