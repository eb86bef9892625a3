"""Convert columns to a known type if every value has an equal in that type.

The types of frames depend on the library: pandas turns integers next to a null into floats, and a
column of nulls into floats; its times are in nanoseconds; polars has lists of structs for maps.
Therefore values count, not types. NaN is kept in float columns, and becomes null in others.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.fitting import (
    UnfitValueError,
    first_unfit,
    fit,
    is_list,
    is_number,
    nested,
)
from lookupstore.arrow.types import plain_type, unwrap


def is_castable(given: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether values of one type may have equals in another type.

    The cast checks each value. Numbers may have equals, and dates, times, and timestamps of other
    units, if both or neither have a zone. Text is not cast to numbers, nor numbers to text. Structs
    may lack fields.

    Args:
        given: Type of the values.
        kind: Wanted type, which is not a dictionary, extension or view type.

    >>> is_castable(pa.float64(), pa.int32()), is_castable(pa.string(), pa.int32())
    (True, False)
    """
    if _is_of_pandas(given):
        return False
    given, types = plain_type(given), pa.types
    if given == kind or types.is_null(given):
        return True
    if types.is_struct(kind) and types.is_struct(given):
        known = {field.name: field.type for field in kind}
        if len({field.name for field in given}) < given.num_fields:
            return False
        return all(
            field.name in known and is_castable(field.type, known[field.name]) for field in given
        )
    if types.is_map(kind):
        pair = pair_types(given)
        if pair is None:
            return False
        return is_castable(pair[0], kind.key_type) and is_castable(pair[1], kind.item_type)
    if is_list(kind) and is_list(given):
        return is_castable(given.value_type, kind.value_type)
    if types.is_timestamp(kind) and types.is_timestamp(given):
        return (given.tz is None) == (kind.tz is None)
    if types.is_string(kind):
        return bool(types.is_large_string(given))
    raw = types.is_binary(given) or types.is_large_binary(given)
    if types.is_fixed_size_binary(kind):
        # Some engines, such as Spark, have no type for byte strings of a fixed length.
        return bool(raw)
    if types.is_binary(kind):
        text = types.is_string(given) or types.is_large_string(given)
        return bool(raw or text or types.is_fixed_size_binary(given))
    families = (is_number, types.is_date, types.is_time)
    return any(is_one(given) and is_one(kind) for is_one in families)


def has_all_fields(given: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether structs of a type have all fields of another type, at any depth.

    >>> has_all_fields(pa.struct({"x": pa.int8()}), pa.struct({"x": pa.int8(), "y": pa.int8()}))
    False
    """
    given, types = plain_type(given), pa.types
    if types.is_null(given) or not types.is_nested(kind):
        return True
    if types.is_struct(kind) and types.is_struct(given):
        known = {field.name: field.type for field in given}
        return all(
            field.name in known and has_all_fields(known[field.name], field.type) for field in kind
        )
    if types.is_map(kind):
        pair = pair_types(given)
        return pair is None or has_all_fields(pair[1], kind.item_type)
    return not is_list(given) or has_all_fields(given.value_type, kind.value_type)


def cast_exactly(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column in another type, with every value equal to the original.

    Args:
        column: Values. `is_castable` must be true for their type, unless all of them are null.
        kind: Wanted type, which is not a dictionary, extension or view type.

    Raises:
        UnfitValueError: If a value has no equal in the type.

    >>> cast_exactly(pa.array([7.0, float("nan")]), pa.int32()).to_pylist()
    [7, None]
    >>> cast_exactly(pa.array([7.0, 0.5]), pa.int32())
    Traceback (most recent call last):
    lookupstore.arrow.fitting.UnfitValueError: int32 cannot hold 0.5
    """
    try:
        return _cast(column, kind)
    except (ValueError, TypeError) as error:
        row = first_unfit(column, lambda part: _cast(part, kind))
        raise UnfitValueError(row, column[row : row + 1], kind, _cast) from error


def _is_of_pandas(kind: pa.DataType) -> bool:
    """Return whether a type is a pandas period or interval, stored as another type."""
    return isinstance(kind, pa.ExtensionType) and kind.extension_name.startswith("pandas.")


def pair_types(given: pa.DataType) -> tuple[pa.DataType, pa.DataType] | None:
    """Return the types of keys and values of maps or of lists of pairs, None for other types.

    >>> pair_types(pa.list_(pa.struct({"key": pa.string(), "value": pa.int8()})))
    (DataType(string), DataType(int8))
    """
    if pa.types.is_map(given):
        return given.key_type, given.item_type
    pair = plain_type(given.value_type) if is_list(given) else None
    if pair is None or not pa.types.is_struct(pair) or pair.num_fields != 2:
        return None
    if [field.name for field in pair] != ["key", "value"]:
        return None
    return pair.field(0).type, pair.field(1).type


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    types = pa.types
    plain = unwrap(column)
    if plain.type == kind:
        return plain
    if plain.null_count == len(plain):
        return pa.nulls(len(plain), kind)
    if types.is_nested(kind):
        if not types.is_nested(plain.type):
            raise pa.ArrowInvalid(f"{plain.type} is not {kind}")
        return nested(plain, kind, _cast)
    if types.is_floating(plain.type) and not types.is_floating(kind):
        numbers = pc.if_else(pc.is_nan(plain), None, plain)
        if numbers.null_count == len(numbers):
            return pa.nulls(len(numbers), kind)
        if not is_number(kind):
            raise pa.ArrowInvalid(f"{plain.type} is not {kind}")
        # Integers next to a null were read as floats; a fraction of two is hardly meant as a
        # decimal.
        plain = numbers.cast(pa.int64())
    return fit(plain, kind)
