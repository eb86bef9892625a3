"""The range that contains all keys of a Parquet file, from the statistics of its row groups.

Only statistics of signed integers, dates and text are used: those of unsigned and floating-point
numbers, times and decimals depend on the program that wrote them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lookupstore.arrow.types import is_text
from lookupstore.keys.schema import KeySchema

#: Least and greatest value of a row group, as in the footer; text may be truncated.
Range: TypeAlias = "tuple[int, int] | tuple[bytes, bytes]"
#: Prefix of the first keys of a range, and prefix of the first keys after it; None: no bound.
KeyRange: TypeAlias = "tuple[bytes | None, bytes | None]"


def column_paths(metadata: pq.FileMetaData) -> list[str]:
    """Return the paths of the columns of row groups; [] without row groups."""
    if not metadata.num_row_groups:
        return []
    group = metadata.row_group(0)
    return [group.column(i).path_in_schema for i in range(group.num_columns)]


def column_number(paths: Sequence[str], field: pa.Field) -> int | None:
    """Return the number of a column in row groups, if its statistics can be used.

    Args:
        paths: Paths of the columns of the row groups; see `column_paths`.
        field: Column to find, with its Arrow type.
    """
    kind = field.type
    known = is_text(kind) or pa.types.is_signed_integer(kind) or pa.types.is_date32(kind)
    # A dot may be part of a name, or separate the names of nested columns.
    if "." in field.name or not known or not paths:
        return None
    return paths.index(field.name)


def group_ranges(metadata: pq.FileMetaData, field: pa.Field) -> tuple[Range, ...] | None:
    """Return the range of a column in each row group. None: the range of one is unknown."""
    number = column_number(column_paths(metadata), field)
    if number is None:
        return None
    ranges = []
    for group in range(metadata.num_row_groups):
        one = range_of(metadata.row_group(group).column(number).statistics)
        if one is None:
            return None
        ranges.append(one)
    return tuple(ranges)


def range_of(statistics: pq.Statistics | None) -> Range | None:
    """Return the range of a row group. None: it is unknown.

    Footers have no checksum. If the least value is greater than the greatest one, the footer is
    damaged, and the range is unknown.
    """
    if statistics is None or not statistics.has_min_max:
        return None
    least, greatest = statistics.min_raw, statistics.max_raw
    return None if least > greatest else (least, greatest)


def key_range(ranges: Sequence[Range] | None, kind: pa.DataType, key: KeySchema) -> KeyRange:
    """Return the range of encoded keys that contains all keys of a file.

    Args:
        ranges: Range of the first key column in each row group. None: unknown.
        kind: Type of that column in the file.
        key: Schema that encodes the keys. Its first field may be wider.

    >>> key_range([(1, 5), (7, 9)], pa.int8(), KeySchema(pa.schema({"id": pa.int8()})))
    (b'\\x81', b'\\x89\\x00')
    """
    wanted = key.schema.field(0).type
    is_number = pa.types.is_signed_integer(kind) and pa.types.is_signed_integer(wanted)
    if not ranges or not (is_number or kind == wanted):
        return None, None
    least, greatest = min(low for low, _ in ranges), max(high for _, high in ranges)
    try:
        if isinstance(least, bytes) and isinstance(greatest, bytes):
            # A truncated bound is a prefix of a value, or of a greater value.
            first = key.encode_prefix((), least.decode())
            last = key.encode_prefix((), greatest.decode())
        else:
            values = pa.array([least, greatest], pa.int32() if kind == pa.date32() else pa.int64())
            low, high = values.cast(kind).to_pylist()
            first, last = key.encode_prefix((low,)), key.encode_prefix((high,))
    except (ValueError, OverflowError):  # text truncated inside a character, or a year after 9999
        return None, None
    return None if first is None else first[0], None if last is None else last[1]


def are_between(keys: pa.Array, start: bytes | None, stop: bytes | None) -> pa.BooleanArray:
    """Return which encoded keys are in a range.

    Args:
        keys: Encoded keys as large binary.
        start: First key of the range. None: it has no bound.
        stop: First key after the range. None: it has no bound.

    >>> are_between(pa.array([b"a", b"b", b"c"], pa.large_binary()), b"b", b"c").to_pylist()
    [False, True, False]
    """
    inside = pa.repeat(True, len(keys))
    if start is not None:
        inside = pc.and_(inside, pc.greater_equal(keys, pa.scalar(start, keys.type)))
    if stop is not None:
        inside = pc.and_(inside, pc.less(keys, pa.scalar(stop, keys.type)))
    return inside
