"""Unwrap and restore Arrow types, and describe their limits and storage.

Dictionaries, extension types and views wrap plain types: `plain_type` and `unwrap` remove the
wrapping, `restore` adds it. This module does not depend on the bytes of keys or rows.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type without dictionary, extension and view.

    >>> plain_type(pa.dictionary(pa.int8(), pa.string_view()))
    DataType(large_string)
    """
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if kind == pa.string_view():
        return pa.large_string()
    if kind == pa.binary_view():
        return pa.large_binary()
    return kind


def has_part(kind: pa.DataType, is_part: Callable[[pa.DataType], bool]) -> bool:
    """Return whether a function is true of a type, or of a type in it, in plain form.

    >>> [has_part(pa.list_(one), pa.types.is_null) for one in (pa.null(), pa.int8())]
    [True, False]
    """
    # A loop, since a type may have more levels than Python has frames.
    parts = [plain_type(kind)]
    while parts:
        part = parts.pop()
        if is_part(part):
            return True
        if pa.types.is_nested(part):
            parts += [plain_type(part.field(at).type) for at in range(part.num_fields)]
    return False


def levels_of(kind: pa.DataType) -> int:
    """Return the number of levels of lists, structs and maps in a type.

    >>> levels_of(pa.int64()), levels_of(pa.list_(pa.struct([("a", pa.int64())])))
    (0, 2)
    """
    # A loop, since a type may have more levels than Python has frames.
    level, levels = [plain_type(kind)], -1
    while level:
        levels += 1
        level = [
            plain_type(one.field(at).type)
            for one in level
            if pa.types.is_nested(one)
            for at in range(one.num_fields)
        ]
    return levels


def unwrap(array: pa.Array) -> pa.Array:
    """Return the array in its plain type.

    >>> unwrap(pa.array(["EWR", "JFK", "EWR"]).dictionary_encode()).to_pylist()
    ['EWR', 'JFK', 'EWR']
    """
    while True:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        elif isinstance(array, pa.DictionaryArray):
            # Arrow does not accept dictionaries of views, such as polars' categories.
            values = unwrap(array.dictionary)
            if not len(values):  # below nulls, Arrow makes indices without a value
                return pa.nulls(len(array), values.type)
            array = pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
        else:
            plain = plain_type(array.type)
            return array if array.type == plain else array.cast(plain)


def is_restorable(kind: pa.DataType) -> bool:
    """Return whether Arrow can make the dictionaries that a type needs.

    >>> is_restorable(pa.dictionary(pa.int8(), pa.list_(pa.int8())))
    False
    """
    if isinstance(kind, pa.BaseExtensionType):
        return is_restorable(kind.storage_type)
    if not pa.types.is_dictionary(kind):
        return True
    try:
        pa.array([], kind.value_type).dictionary_encode()
    except pa.ArrowNotImplementedError:  # Arrow has no other way to tell this
        return False
    return True


def restore(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a plain array in a type that wraps its own type.

    Raises:
        ValueError: If there are more distinct values than the dictionary can hold.

    >>> restore(pa.array(["EWR", "JFK"]), pa.dictionary(pa.int8(), pa.string())).type
    DictionaryType(dictionary<values=string, indices=int8, ordered=0>)
    """
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, restore(array, kind.storage_type))
    if pa.types.is_dictionary(kind):
        return dictionary_of(array, kind)
    return array if array.type == kind else array.cast(kind)


def dictionary_of(values: pa.Array, kind: pa.DictionaryType) -> pa.DictionaryArray:
    """Return plain values as an array of the dictionary type.

    Raises:
        ValueError: If there are more distinct values than the dictionary can hold.

    >>> dictionary_of(pa.array([7, 7, 8]), pa.dictionary(pa.int8(), pa.int64())).indices.to_pylist()
    [0, 0, 1]
    """
    coded = values.dictionary_encode()
    try:
        indices = coded.indices.cast(kind.index_type)
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"{len(coded.dictionary)} different values in {len(values)} rows are more than a "
            f"{kind.index_type} dictionary can hold; unpack fewer rows at once"
        ) from error
    values = restore(coded.dictionary, kind.value_type)
    return pa.DictionaryArray.from_arrays(indices, values, ordered=kind.ordered)


def is_text(kind: pa.DataType) -> bool:
    """Return whether a plain type is of strings.

    >>> is_text(pa.large_string()), is_text(pa.binary())
    (True, False)
    """
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether a plain type is of bytes, of variable or fixed size.

    >>> is_bytes(pa.binary(3)), is_bytes(pa.string())
    (True, False)
    """
    types = pa.types
    return bool(
        types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    )


def limits(kind: pa.DataType) -> tuple[int, int]:
    """Return the least and the greatest integer of a type, or digits of a decimal type.

    >>> limits(pa.int8()), limits(pa.decimal128(3, 1))
    ((-128, 127), (-999, 999))
    """
    if pa.types.is_decimal(kind):
        return 1 - 10**kind.precision, 10**kind.precision - 1
    bits = kind.bit_width
    if pa.types.is_unsigned_integer(kind):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def concat(arrays: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    """Return arrays of one type as one array, which is empty if there are none.

    Adjacent slices of one array are not copied.

    >>> len(concat([], pa.int8()))
    0
    """
    if len(arrays) == 1:
        return arrays[0]
    if not arrays:
        return pa.array([], kind)
    whole = _one_slice(arrays)
    return pa.concat_arrays(arrays) if whole is None else whole


def _one_slice(arrays: Sequence[pa.Array]) -> pa.Array | None:
    """Return adjacent arrays as one slice of their memory, or None if not adjacent."""
    first, types = arrays[0], pa.types
    is_flat = types.is_primitive(first.type) or types.is_decimal(first.type)
    is_text = types.is_string(first.type) or types.is_large_string(first.type)
    is_binary = types.is_binary(first.type) or types.is_large_binary(first.type)
    if not (is_flat or is_text or is_binary):
        return None
    memory = _memory(first)
    end = first.offset
    for one in arrays:
        if one.offset != end or _memory(one) != memory:
            return None
        end += len(one)
    return pa.Array.from_buffers(
        first.type, end - first.offset, first.buffers(), offset=first.offset
    )


def _memory(array: pa.Array) -> list[tuple[int, int]]:
    return [(one.address, one.size) if one is not None else (0, 0) for one in array.buffers()]


def validity(array: pa.Array) -> pa.Buffer | None:
    """Return the validity bitmap of an array from bit 0 on.

    None: No value is null.

    >>> validity(pa.array([1, None, 3])[1:]).to_pybytes()[0]
    2
    """
    if array.null_count == 0:
        return None
    return pa.array(np.asarray(array.is_valid())).buffers()[1]


def first_invalid(array: pa.Array, kind: pa.DataType) -> int:
    """Return the index of the first value that cannot be cast, by bisection.

    >>> first_invalid(pa.array([b"a", b"\\xff"]), pa.string())
    1
    """
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            array[low:middle].cast(kind)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def schema_to_json(schema: pa.Schema, nullable: Collection[str]) -> dict[str, Any]:
    """Return a dict for JSON: the Arrow schema in base64, and the fields for people.

    >>> schema_to_json(pa.schema([("id", pa.int64())]), ["id"])["fields"]
    [{'name': 'id', 'type': 'int64', 'nullable': True}]
    """
    return {
        "schema": base64.b64encode(schema.serialize().to_pybytes()).decode("ascii"),
        "fields": [
            {"name": field.name, "type": str(field.type), "nullable": field.name in nullable}
            for field in schema
        ],
    }


def schema_from_json(data: Mapping[str, Any]) -> pa.Schema:
    """Return the schema that `schema_to_json` described.

    Raises:
        KeyError, TypeError, ValueError, OSError: If the dict was not made by `schema_to_json`.

    >>> schema_from_json(schema_to_json(pa.schema([("id", pa.int64())]), [])).names
    ['id']
    """
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(data["schema"])))
