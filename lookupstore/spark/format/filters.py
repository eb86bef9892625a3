"""The ranges of encoded keys that filters of Spark select, and the filters left to Spark.

Only filters on the leading key columns narrow a range of keys: any number of equalities, then one
comparison of the next column. Spark evaluates all other filters.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark.sql import datasource

from lookupstore.keys.schema import KeySchema

# Bytes that separate keys before from keys at or after it: b"" is before all keys, None after them.
Position: TypeAlias = "bytes | None"
Range: TypeAlias = tuple[bytes, Position]

EVERYTHING: tuple[Range, ...] = ((b"", None),)
# Maximum number of ranges of a scan: more cost more than they save, and planning takes long.
_MOST_RANGES = 10_000
_COMPARISONS = (
    "GreaterThan",
    "GreaterThanOrEqual",
    "LessThan",
    "LessThanOrEqual",
    "StringStartsWith",
)


@dataclass(frozen=True)
class ScanRanges:
    """The ranges of encoded keys that a scan reads.

    Attributes:
        ranges: Ranges that may contain keys, each from a position, inclusive, to a position,
            exclusive; ascending, without overlap.
        are_keys: Whether each range is one whole key, so that its bucket is known.
    """

    ranges: tuple[Range, ...] = EVERYTHING
    are_keys: bool = False

    def within(self, start: bytes, stop: Position) -> ScanRanges:
        """Return the intersection of these ranges with another range.

        >>> ScanRanges(((b"a", b"d"), (b"x", None))).within(b"c", b"y").ranges
        ((b'c', b'd'), (b'x', b'y'))
        """
        clipped = (_common(own, (start, stop)) for own in self.ranges)
        return ScanRanges(_ordered(clipped), self.are_keys)


def before(keys: KeySchema, values: tuple[Any, ...]) -> Position:
    """Return the position before all keys that are not less than some first values.

    Raises:
        TypeError, ValueError: If a value is of another kind than its field.

    >>> import pyarrow as pa
    >>> before(KeySchema(pa.schema({"id": pa.uint8()})), (7,))
    b'\\x07'
    """
    low, high = keys.encode_bounds(values, None)
    return None if high == b"" else low or b""


def behind(keys: KeySchema, values: tuple[Any, ...]) -> Position:
    """Return the position after all keys that are not greater than some first values.

    Raises:
        TypeError, ValueError: If a value is of another kind than its field.

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
) -> tuple[ScanRanges, list[datasource.Filter]]:
    """Convert filters that must all hold to ranges of keys.

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
            return ScanRanges(ranges), _rest(filters, done | used)
        equality, values = chosen
        done.add(id(equality))
        if None not in values:
            done |= {id(one) for one in own if _kind(one) == "IsNotNull"}
        prefixes = [(*prefix, value) for prefix in prefixes for value in values]
        if not prefixes:
            return ScanRanges(()), _rest(filters, done)
    ranges = _ordered((before(keys, key), behind(keys, key)) for key in prefixes)
    return ScanRanges(ranges, are_keys=True), _rest(filters, done)


def _equality(
    keys: KeySchema, prefix: tuple[Any, ...], name: str, filters: Sequence[datasource.Filter]
) -> tuple[datasource.Filter, list[Any]] | None:
    """Return the filter with the fewest values of a field, and those of them that fit a key."""
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
            continue  # not a Python value of this key: Spark interprets it
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
    if used and name in keys.nullable:  # nulls are before all values
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
    """Return the ranges with keys, each once: two values may be one key, as 0.0 and -0.0."""
    found = {
        (start, stop)
        for start, stop in ranges
        if start is not None and (stop is None or start < stop)
    }
    return tuple(sorted(found, key=lambda pair: pair[0]))


def _rest(filters: Iterable[datasource.Filter], done: set[int]) -> list[datasource.Filter]:
    # Filters are compared by identity, as in Spark: equal filters may occur twice.
    return list(itertools.filterfalse(lambda one: id(one) in done, filters))


def _kind(one: datasource.Filter) -> str:
    return type(one).__name__
