"""Which encoded keys filters of Spark leave: what a scan has to read, and what Spark has to check.

Only filters on the leading key columns narrow a range of keys: any number of equalities, then one
comparison of the column behind them. Everything else is left to Spark.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark.sql import datasource

from lookupstore.keys.schema import KeySchema

# Bytes before which, or from which on, keys are: b"" is before all keys, None is behind them.
Position: TypeAlias = "bytes | None"
Range: TypeAlias = tuple[bytes, Position]

EVERYTHING: tuple[Range, ...] = ((b"", None),)
# A scan of more ranges costs more than what it leaves out, and planning it takes long.
_MOST_RANGES = 10_000
_COMPARISONS = (
    "GreaterThan",
    "GreaterThanOrEqual",
    "LessThan",
    "LessThanOrEqual",
    "StringStartsWith",
)


@dataclass(frozen=True)
class KeyRanges:
    """Which encoded keys a scan has to read.

    Attributes:
        ranges: where keys may be: from the first position on, and before the second; ascending,
            without overlap.
        are_keys: whether each range is one whole key, so that its bucket is known.
    """

    ranges: tuple[Range, ...] = EVERYTHING
    are_keys: bool = False

    def within(self, start: bytes, stop: Position) -> KeyRanges:
        """Return what these have in common with one more range.

        >>> KeyRanges(((b"a", b"d"), (b"x", None))).within(b"c", b"y").ranges
        ((b'c', b'd'), (b'x', b'y'))
        """
        clipped = (_common(own, (start, stop)) for own in self.ranges)
        return KeyRanges(_ordered(clipped), self.are_keys)


def before(keys: KeySchema, values: tuple[Any, ...]) -> Position:
    """Return the position before all keys that are not less than the first fields' values.

    Raises:
        TypeError, ValueError: a value of another kind than its field.

    >>> import pyarrow as pa
    >>> before(KeySchema(pa.schema({"id": pa.uint8()})), (7,))
    b'\\x07'
    """
    low, high = keys.encode_bounds(values, None)
    return None if high == b"" else low or b""


def behind(keys: KeySchema, values: tuple[Any, ...]) -> Position:
    """Return the position behind all keys that are not greater than the first fields' values.

    Raises:
        TypeError, ValueError: a value of another kind than its field.

    >>> import pyarrow as pa
    >>> behind(KeySchema(pa.schema({"id": pa.uint8()})), (7,)), behind(
    ...     KeySchema(pa.schema({"id": pa.uint8(), "part": pa.uint8()})), (7,)
    ... )
    (b'\\x07\\x00', b'\\x08')
    """
    if len(values) == len(keys.names):
        key = keys.encode_one(values)
        return before(keys, values) if key is None else key + b"\x00"
    found = keys.encode_prefix(values)
    return before(keys, values) if found is None else found[1]


def push(
    keys: KeySchema, filters: Sequence[datasource.Filter]
) -> tuple[KeyRanges, list[datasource.Filter]]:
    """Turn filters, all of which hold, into ranges of keys.

    Returns:
        The ranges, and the filters that Spark still has to check.
    """
    done: set[int] = set()
    prefixes: list[tuple[Any, ...]] = [()]
    for name in keys.names:
        own = [one for one in filters if getattr(one, "attribute", None) == (name,)]
        chosen = _equality(keys, prefixes[0], name, own)
        if chosen is None or len(prefixes) * len(chosen[1]) > _MOST_RANGES:
            ranges, used = _compared(keys, prefixes, name, own)
            return KeyRanges(ranges), _rest(filters, done | used)
        equality, values = chosen
        done.add(id(equality))
        if None not in values:
            done |= {id(one) for one in own if _kind(one) == "IsNotNull"}
        prefixes = [(*prefix, value) for prefix in prefixes for value in values]
        if not prefixes:
            return KeyRanges(()), _rest(filters, done)
    ranges = _ordered((before(keys, key), behind(keys, key)) for key in prefixes)
    return KeyRanges(ranges, are_keys=True), _rest(filters, done)


def _equality(
    keys: KeySchema, prefix: tuple[Any, ...], name: str, filters: Sequence[datasource.Filter]
) -> tuple[datasource.Filter, list[Any]] | None:
    """Return the filter that leaves the fewest values to a field, and those that a key can hold."""
    found: list[tuple[datasource.Filter, list[Any]]] = []
    for one in filters:
        kind = _kind(one)
        value = getattr(one, "value", None)
        if kind == "IsNull" or (kind == "EqualNullSafe" and value is None):
            values = [None] if name in keys.nullable else []
        elif kind in ("EqualTo", "EqualNullSafe"):
            values = [value]
        elif kind == "In" and isinstance(value, (list, tuple)):
            values = [item for item in value if item is not None]
        else:
            continue
        try:
            found.append((one, [v for v in values if _can_hold(keys, prefix, v)]))
        except (TypeError, ValueError, OverflowError):
            continue  # not a value of this key in Python: Spark knows what it means
    return min(found, key=lambda pair: len(pair[1]), default=None)


def _can_hold(keys: KeySchema, prefix: tuple[Any, ...], value: Any) -> bool:
    return keys.encode_prefix((*prefix, value)) is not None


def _compared(
    keys: KeySchema,
    prefixes: Sequence[tuple[Any, ...]],
    name: str,
    filters: Sequence[datasource.Filter],
) -> tuple[tuple[Range, ...], set[int]]:
    """Return the ranges that comparisons of one field leave, and the filters that did it."""
    used: set[int] = set()
    ranges = [(before(keys, prefix), behind(keys, prefix)) for prefix in prefixes]
    for one in filters:
        if _kind(one) == "IsNotNull":
            used.add(id(one))
        elif _kind(one) in _COMPARISONS:
            try:
                narrowed = [_range(keys, prefix, one) for prefix in prefixes]
            except (TypeError, ValueError, OverflowError):
                continue
            ranges = [_common(*pair) for pair in zip(ranges, narrowed, strict=True)]
            used.add(id(one))
    if used and name in keys.nullable:  # where nulls are before all values
        values = [(behind(keys, (*prefix, None)), None) for prefix in prefixes]
        ranges = [_common(*pair) for pair in zip(ranges, values, strict=True)]
    return _ordered(ranges), used


def _range(
    keys: KeySchema, prefix: tuple[Any, ...], comparison: datasource.Filter
) -> tuple[Position, Position]:
    kind = _kind(comparison)
    value = getattr(comparison, "value", None)
    if value is None:
        raise TypeError("a comparison with null is for Spark")
    values = (*prefix, value)
    if kind == "GreaterThan":
        return behind(keys, values), None
    if kind == "GreaterThanOrEqual":
        return before(keys, values), None
    if kind == "LessThan":
        return b"", before(keys, values)
    if kind == "LessThanOrEqual":
        return b"", behind(keys, values)
    found = keys.encode_prefix(prefix, value)
    if found is None:
        raise ValueError("no key holds such text")
    return found


def _common(
    first: tuple[Position, Position], second: tuple[Position, Position]
) -> tuple[Position, Position]:
    start = None if first[0] is None or second[0] is None else max(first[0], second[0])
    stops = [stop for stop in (first[1], second[1]) if stop is not None]
    return start, min(stops, default=None)


def _ordered(ranges: Iterable[tuple[Position, Position]]) -> tuple[Range, ...]:
    """Return the ranges that hold keys, each once: two values may be one key, as 0.0 and -0.0."""
    found = {
        (start, stop)
        for start, stop in ranges
        if start is not None and (stop is None or start < stop)
    }
    return tuple(sorted(found, key=lambda pair: pair[0]))


def _rest(filters: Iterable[datasource.Filter], done: set[int]) -> list[datasource.Filter]:
    # By identity, as Spark compares them: equal filters may come twice.
    return list(itertools.filterfalse(lambda one: id(one) in done, filters))


def _kind(one: datasource.Filter) -> str:
    return type(one).__name__
