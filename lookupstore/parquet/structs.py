"""Read and write structs of the Thrift compact protocol, with any fields.

Fields of newer versions are kept. Extensions of writers, and types that no field of Parquet has,
are skipped.

A struct is a dictionary from the id of a field to its type and value. A list is a pair of the type
of its elements and the elements. Text is bytes.
"""

from __future__ import annotations

from typing import Any

from lookupstore.errors import CorruptionError
from lookupstore.parquet._structs import decode, decode_around, encode

# Numbers of types in the protocol.
BOOL, I16, I32, I64, BINARY, LIST, STRUCT = 1, 4, 5, 6, 8, 9, 12

Struct = dict[int, tuple[int, Any]]


def read_struct_around(data: bytes, field: int, path: str, offset: int) -> Struct:
    """Read a struct, with the offset of one field in the bytes as its value.

    Args:
        data: Bytes of the struct, without any other bytes.
        field: Id of the field that is not decoded.
        path: Path of the file, which errors name.
        offset: Offset of the struct in the file, which errors name.

    Raises:
        CorruptionError: If the bytes are not a struct.
    """
    try:
        return decode_around(data, field)
    except ValueError as error:
        raise CorruptionError(path, offset, "a Thrift struct", error) from error


def struct_at(data: bytes, place: int) -> Struct:
    """Return the struct at an offset that is known to be the start of one."""
    return decode(data, place)


def write_struct(struct: Struct) -> bytearray:
    """Return a struct as bytes, to which the caller may append."""
    return encode(struct)


def get(struct: Struct, field: int, kind: int) -> Any:
    """Return the value of a field, or None if it is missing or has another type."""
    found, value = struct.get(field, (kind, None))
    return value if found == kind else None


def items(struct: Struct, field: int, kind: int) -> list[Any]:
    """Return the elements of a list, or [] if it is missing or has another type."""
    found, values = get(struct, field, LIST) or (kind, [])
    return values if found == kind else []
