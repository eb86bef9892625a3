"""Cast Arrow columns to other types without changing the meaning of values.

Arrow's own casts change a time to its day, "007" to 7 and 2 to true. They round to narrower floats,
and drop the values of a renamed field. `fit` does none of this: `is_kindred` refuses types of
another meaning, and `fit` refuses values that a type cannot hold exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import is_bytes, is_text, plain_type, restore, unwrap

_Cast = Callable[[pa.Array, pa.DataType], pa.Array]

# Most characters of a value in an error.
_SHOWN = 80
# Most digits of Arrow's widest decimal.
_DIGITS = 76


@dataclass(frozen=True)
class UnfitPart:
    """The part of a value that a type cannot hold exactly.

    Attributes:
        path: Path of the part in the value, such as `.items[].price`. Empty: the whole value.
        shown: Text of the part for errors.
        given: Type of the part.
        kind: Type that cannot hold it.
    """

    path: str
    shown: str
    given: pa.DataType
    kind: pa.DataType


class UnfitValueError(ValueError):
    """A value that a type cannot hold exactly.

    Args:
        row: Index of the value in the column, from 0.
        value: Array of the value alone.
        kind: Type that cannot hold it.
        cast: Function that casts an array to a type, and raises `ValueError` or `TypeError` if it
            cannot hold a value.

    Attributes:
        row: Index of the value in the column, from 0.
        shown: Text of the value for errors.
        part: Part of the value that does not fit.
    """

    def __init__(self, row: int, value: pa.Array, kind: pa.DataType, cast: _Cast) -> None:
        self.row = row
        self.shown = shown_value(value[0])
        self.part = _unfit_part(value, kind, cast)
        super().__init__(f"{kind} cannot hold {self.shown}")


def is_kindred(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of one type may have the same meaning in another type.

    Numbers are kindred, except floats as decimals, which would be rounded. So are text and bytes,
    and dates, times, timestamps and durations of other units. Timestamps with and without a zone
    are not. Structs need fields of the same names.

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
    """Return a column in another type, with the meaning of each value unchanged.

    Raises:
        TypeError: If the types are not kindred, or Arrow has no cast between them.
        UnfitValueError: If the type cannot hold a value exactly.

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
        row = first_unfit(column, lambda part: _fitted(part, kind))
        raise UnfitValueError(row, column[row : row + 1], kind, _fitted) from error


def shown_value(value: pa.Scalar) -> str:
    """Return the text of a value for an error.

    >>> shown_value(pa.scalar("007"))
    "'007'"
    """
    try:
        text = repr(value.as_py())
    except (ValueError, OverflowError, ImportError):  # Python cannot represent this time
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
    """Return the index of the first value that cannot be cast, by bisection.

    Args:
        column: Array that contains a value that cannot be cast.
        cast: Function that casts an array, and raises `ValueError` if one of its values cannot be
            cast.

    >>> first_unfit(pa.array([1, 2, 300, 400]), lambda part: part.cast(pa.int8()))
    2
    """
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            cast(column[low:middle])
            low = middle
        except ValueError:  # `ArrowInvalid` is one, too
            high = middle
    return low


def _unfit_part(value: pa.Array, kind: pa.DataType, cast: _Cast, path: str = "") -> UnfitPart:
    """Return the innermost part of a value that a type cannot hold.

    Args:
        value: Array of the value alone.
        kind: Type that cannot hold it.
        cast: Function that casts an array to a type; see `UnfitValueError`.
        path: Path of the value in another one.
    """
    for name, parts, inner in _parts(unwrap(value), plain_type(kind)):
        row = _first_refused(parts, inner, cast)
        if row is not None:
            return _unfit_part(parts[row : row + 1], inner, cast, path + name)
    return UnfitPart(path, shown_value(value[0]), value.type, kind)


def _first_refused(parts: pa.Array, kind: pa.DataType, cast: _Cast) -> int | None:
    """Return the index of the first value that cannot be cast. None: all values can be cast."""

    def check(some: pa.Array) -> None:
        try:
            cast(some, kind)
        except (TypeError, pa.ArrowException) as error:
            raise ValueError(str(error)) from error

    try:
        check(parts)
    except ValueError:
        return first_unfit(parts, check)
    return None


def _parts(value: pa.Array, kind: pa.DataType) -> Iterator[tuple[str, pa.Array, pa.DataType]]:
    """Yield the parts of one value: name, values and wanted type."""
    given, types = value.type, pa.types
    if types.is_struct(given) and types.is_struct(kind):
        columns = dict(zip((field.name for field in given), value.flatten(), strict=True))
        for field in kind:
            if field.name in columns:
                yield f".{field.name}", columns[field.name], field.type
    elif types.is_map(given) and types.is_map(kind):
        pairs = value.cast(pa.list_(pa.struct([given.key_field, given.item_field])))
        keys, items = pairs.flatten().flatten()
        yield ".key", keys, kind.key_type
        yield ".value", items, kind.item_type
    elif is_list(given) and is_list(kind):
        yield "[]", value.flatten(), kind.value_type


def _fitted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column in a kindred type.

    Raises:
        pyarrow.ArrowInvalid: If the type cannot hold a value.
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
        # In a direct cast Arrow wants digits for all integers of the type, not for those in the
        # array.
        return array.cast(pa.decimal256(_DIGITS, max(kind.scale, 0))).cast(kind)
    return array.cast(kind)


def _floats(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return numbers as floats of the same values."""
    given, types = array.type, pa.types
    if types.is_decimal(given):
        # A float is an integer divided by a power of two: 2.75 is 11 / 4.
        scale = max(given.scale, 0)
        factor = pa.scalar(2**scale).cast(pa.decimal256(20, 0))
        widest = array.cast(pa.decimal256(_DIGITS - 21, scale))
        array = pc.divide(
            pc.multiply(widest, factor).cast(pa.int64()).cast(pa.float64()), 2.0**scale
        )
    elif types.is_integer(given):
        # Arrow checks integers, except in casts to the narrowest floats.
        array = _whole(array, pa.float32() if types.is_float16(kind) else kind)
    narrow = array.cast(kind)
    if array.type.bit_width > kind.bit_width:
        same = pc.equal(narrow.cast(array.type), array)
        if pc.or_(same, pc.is_nan(array)).false_count:
            raise pa.ArrowInvalid(f"a value that is no {kind}")
    return narrow


def _whole(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return integers as floats of the same values."""
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        # Arrow only casts integers in the range in which each is a float; some larger ones are,
        # too.
        floats = array.cast(kind, safe=False)
        if pc.equal(floats.cast(array.type), array).false_count:
            raise
        return floats


def nested(
    array: pa.Array, kind: pa.DataType, cast: Callable[[pa.Array, pa.DataType], pa.Array]
) -> pa.Array:
    """Return a struct, list or map with cast values, and nulls for missing fields.

    Args:
        array: Values of the same kind of type, or, for a map, lists of structs of keys and values.
        kind: Wanted struct, list or map type.
        cast: Function that casts an array of inner values to the type of their field, element, key
            or item.

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


def _struct(array: pa.StructArray, kind: pa.StructType, cast: _Cast) -> pa.StructArray:
    # Flat: a value below a null may be anything.
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
    if pa.types.is_null(flat.type):  # Arrow miscounts the nulls of a slice
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
    """Return the offset of the values of each list, null for a null list."""
    lengths = pc.list_value_length(array).fill_null(0)
    ends = np.concatenate([[0], np.cumsum(np.asarray(lengths), dtype=np.int64)])
    nothing = np.append(np.asarray(array.is_null()), False)
    return pa.array(ends, kind, mask=nothing)
