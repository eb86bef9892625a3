"""Structs of the Thrift compact protocol, of any fields: those of newer versions stay as they are.

Extensions of writers, and types of which Parquet has no field, are passed over.

A struct is a dictionary from the id of a field to its type and value; a list is a pair of the type
of its elements and these; text is bytes.
"""

from __future__ import annotations

from typing import Any

from lookupstore.errors import CorruptionError
from lookupstore.parquet._structs import decode, decode_around, encode

# Types, as the protocol numbers them.
BOOL, I16, I32, I64, BINARY, LIST, STRUCT = 1, 4, 5, 6, 8, 9, 12

Struct = dict[int, tuple[int, Any]]


def read_struct_around(data: bytes, field: int, path: str, offset: int) -> Struct:
    """Read a struct, but for one field: its value is the place in the bytes where it begins.

    Args:
        data: the struct, and nothing else.
        field: id of the field.
        path: of the file, for errors.
        offset: of the struct in it.

    Raises:
        CorruptionError: it is none.
    """
    try:
        return decode_around(data, field)
    except ValueError as error:
        raise CorruptionError(path, offset, "a Thrift struct", error) from error


def struct_at(data: bytes, place: int) -> Struct:
    """Return the struct that begins at a place, where one was found before."""
    return decode(data, place)


def write_struct(struct: Struct) -> bytearray:
    """Return a struct as bytes, to which more may be added."""
    return encode(struct)


def get(struct: Struct, field: int, kind: int) -> Any:
    """Return the value of a field; None if it is not there, or is of another type."""
    found, value = struct.get(field, (kind, None))
    return value if found == kind else None


def items(struct: Struct, field: int, kind: int) -> list[Any]:
    """Return the elements of a list; none if it is not there, or has others."""
    found, values = get(struct, field, LIST) or (kind, [])
    return values if found == kind else []
