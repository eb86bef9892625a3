"""Arrow columns in the types of another place, by casts that keep what values mean.

Arrow's own casts take a time for its day, "007" for 7 and 2 for true, round to narrower floats and
find no value for a field that was renamed. `fit` does none of this: types of another meaning are
refused by `is_kindred`, and values that a type cannot hold exactly one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import is_bytes, is_text, plain_type, restore, unwrap

# Characters of a value that an error shows.
_SHOWN = 80
# Digits of the widest decimal of Arrow.
_DIGITS = 76


class UnfitValueError(ValueError):
    """A value that a type cannot hold exactly.

    Attributes:
        row: its place in the column, from 0.
        shown: the value, for people.
    """

    def __init__(self, row: int, shown: str, kind: pa.DataType) -> None:
        super().__init__(f"{kind} cannot hold {shown}")
        self.row = row
        self.shown = shown


def is_kindred(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of one type may mean the same in another.

    Numbers are kin, apart from floats as decimals, which have to be rounded; so are text and bytes,
    and dates, times, timestamps and durations of other units. Timestamps with a zone and without
    one are not. Structs have to have fields of the same names.

    >>> is_kindred(pa.int64(), pa.int8()), is_kindred(pa.string(), pa.int64())
    (True, False)
    >>> is_kindred(pa.timestamp("us"), pa.date32())
    False
    """
    extensions = {one for one in (given, wanted) if isinstance(one, pa.BaseExtensionType)}
    if len(extensions) > 1:
        return False
    given, wanted = plain_type(given), plain_type(wanted)
    types = pa.types
    if given == wanted or types.is_null(given):
        return True
    if types.is_struct(given) and types.is_struct(wanted):
        fields = {field.name: field.type for field in given}
        if len(fields) < given.num_fields or len(wanted) != given.num_fields:
            return False
        return all(one.name in fields and is_kindred(fields[one.name], one.type) for one in wanted)
    if types.is_map(given) and types.is_map(wanted):
        keys = is_kindred(given.key_type, wanted.key_type)
        return keys and is_kindred(given.item_type, wanted.item_type)
    if is_list(given) and is_list(wanted):
        return is_kindred(given.value_type, wanted.value_type)
    if types.is_timestamp(given) and types.is_timestamp(wanted):
        return (given.tz is None) == (wanted.tz is None)
    if types.is_floating(given) and types.is_decimal(wanted):
        return False
    families = (is_number, _is_characters, types.is_date, types.is_time, types.is_duration)
    return any(is_one(given) and is_one(wanted) for is_one in families)


def fit(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column in another type in which each value means what it did.

    Raises:
        TypeError: the types are not kindred, or Arrow has no cast between them.
        UnfitValueError: the type cannot hold a value exactly.

    >>> fit(pa.array([1, None], pa.int64()), pa.decimal128(9, 2)).to_pylist()
    [Decimal('1.00'), None]
    >>> fit(pa.array([0.5, 0.1]), pa.float32())
    Traceback (most recent call last):
    lookupstore.arrow.fitting.UnfitValueError: float cannot hold 0.1
    """
    if column.type == kind:
        return column
    if not is_kindred(column.type, kind):
        raise TypeError(f"{column.type} does not mean what {kind} does")
    try:
        return _fitted(column, kind)
    except pa.ArrowNotImplementedError as error:
        raise TypeError(f"{column.type} cannot be cast to {kind}: {error}") from error
    except pa.ArrowInvalid as error:
        row = first_unfit(column, partial(_fitted, kind=kind))
        raise UnfitValueError(row, shown_value(column[row]), kind) from error


def shown_value(value: pa.Scalar) -> str:
    """Return a value as an error shows it.

    >>> shown_value(pa.scalar("007"))
    "'007'"
    """
    try:
        text = repr(value.as_py())
    except (ValueError, OverflowError, ImportError):  # Python has no such time
        try:
            text = value.cast(pa.string()).as_py()
        except pa.ArrowException:
            text = f"a {value.type} that Python does not have"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def is_list(kind: pa.DataType) -> bool:
    """Return whether a type is of lists of any layout.

    >>> is_list(pa.large_list(pa.int8())), is_list(pa.map_(pa.string(), pa.int8()))
    (True, False)
    """
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_number(kind: pa.DataType) -> bool:
    """Return whether a type is of integers, floats or decimals.

    >>> is_number(pa.decimal128(9, 2)), is_number(pa.bool_())
    (True, False)
    """
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _is_characters(kind: pa.DataType) -> bool:
    return is_text(kind) or is_bytes(kind)


def first_unfit(column: pa.Array, cast: Callable[[pa.Array], object]) -> int:
    """Return the place of the first value that cannot be cast, by halving.

    Args:
        column: with such a value.
        cast: raises `ValueError` if there is one among the values that it is given.

    >>> first_unfit(pa.array([1, 2, 300, 400]), lambda part: part.cast(pa.int8()))
    2
    """
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            cast(column[low:middle])
            low = middle
        except ValueError:  # what `ArrowInvalid` is, too
            high = middle
    return low


def _fitted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column in a kindred type.

    Raises:
        pyarrow.ArrowInvalid: the type cannot hold a value.
    """
    if column.type == kind:
        return column
    return restore(_plain(unwrap(column), plain_type(kind)), kind)


def _plain(array: pa.Array, kind: pa.DataType) -> pa.Array:
    given, types = array.type, pa.types
    if given == kind:
        return array
    if types.is_null(given):
        return pa.nulls(len(array), kind)
    if types.is_nested(kind):
        return nested(array, kind, _fitted)
    if types.is_floating(kind):
        return _floats(array, kind)
    if types.is_decimal(kind) and types.is_integer(given):
        # For a cast at once Arrow wants digits for all integers, not for those that there are.
        return array.cast(pa.decimal256(_DIGITS, max(kind.scale, 0))).cast(kind)
    return array.cast(kind)


def _floats(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return numbers as floats that are the same numbers."""
    given, types = array.type, pa.types
    if types.is_decimal(given):
        # A float is an integer by a power of two: 2.75 is 11 / 4.
        scale = max(given.scale, 0)
        factor = pa.scalar(2**scale).cast(pa.decimal256(20, 0))
        widest = array.cast(pa.decimal256(_DIGITS - 21, scale))
        array = pc.divide(
            pc.multiply(widest, factor).cast(pa.int64()).cast(pa.float64()), 2.0**scale
        )
    elif types.is_integer(given):
        # Arrow looks at integers, but not for the narrowest floats.
        array = _whole(array, pa.float32() if types.is_float16(kind) else kind)
    narrow = array.cast(kind)
    if array.type.bit_width > kind.bit_width:
        same = pc.equal(narrow.cast(array.type), array)
        if pc.or_(same, pc.is_nan(array)).false_count:
            raise pa.ArrowInvalid(f"a value that is no {kind}")
    return narrow


def _whole(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return integers as floats that are the same numbers."""
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        # Beyond the integers that are all floats, as Arrow wants it, some still are.
        floats = array.cast(kind, safe=False)
        if pc.equal(floats.cast(array.type), array).false_count:
            raise
        return floats


def nested(
    array: pa.Array, kind: pa.DataType, cast: Callable[[pa.Array, pa.DataType], pa.Array]
) -> pa.Array:
    """Return a struct, list or map whose values were cast; fields that a struct lacks are null.

    Args:
        array: the values, of the same kind of type; or lists of structs of keys and values.
        kind: the type.
        cast: returns values in the type of the field, element, key or item that they are.

    >>> points = pa.array([{"x": 1}, None])
    >>> kind = pa.struct({"x": pa.int32(), "y": pa.int32()})
    >>> nested(points, kind, pa.Array.cast).to_pylist()
    [{'x': 1, 'y': None}, None]
    """
    if pa.types.is_struct(kind):
        return _struct(array, kind, cast)
    if pa.types.is_map(kind):
        return _map(array, kind, cast)
    return _list(array, kind, cast)


_Cast = Callable[[pa.Array, pa.DataType], pa.Array]


def _struct(array: pa.StructArray, kind: pa.StructType, cast: _Cast) -> pa.StructArray:
    # Flat: below a null may be anything.
    parts = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
    columns = [
        cast(parts[field.name], field.type)
        if field.name in parts
        else pa.nulls(len(array), field.type)
        for field in kind
    ]
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=array.is_null())


def _list(array: pa.Array, kind: pa.DataType, cast: _Cast) -> pa.Array:
    flat = array.flatten()
    if pa.types.is_null(flat.type):  # of which Arrow miscounts those of a slice
        flat = pa.nulls(pc.sum(pc.list_value_length(array)).as_py() or 0)
    values = cast(flat, kind.value_type)
    lists = pa.LargeListArray.from_arrays(
        _offsets(array, pa.int64()), values, type=pa.large_list(kind.value_field)
    )
    return lists if lists.type == kind else lists.cast(kind)


def _map(array: pa.Array, kind: pa.MapType, cast: _Cast) -> pa.MapArray:
    given, lists = array.type, array
    if pa.types.is_map(given):
        lists = array.cast(pa.list_(pa.struct([given.key_field, given.item_field])))
    keys, items = lists.flatten().flatten()
    return pa.MapArray.from_arrays(
        _offsets(lists, pa.int32()),
        cast(keys, kind.key_type),
        cast(items, kind.item_type),
        type=kind,
    )


def _offsets(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return where the values of each list begin among those of all, null where there is none."""
    lengths = pc.list_value_length(array).fill_null(0)
    ends = np.concatenate([[0], np.cumsum(np.asarray(lengths), dtype=np.int64)])
    nothing = np.append(np.asarray(array.is_null()), False)
    return pa.array(ends, kind, mask=nothing)
