"""Structs of the Thrift compact protocol, of any fields: what is not known stays as it is.

A struct is a dictionary from the id of a field to its type and value; a list is a pair of the type
of its elements and these; text is bytes.
"""

from __future__ import annotations

from typing import Any

from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TException, TType
from thrift.transport.TTransport import TMemoryBuffer

from lookupstore.errors import CorruptionError

Struct = dict[int, tuple[int, Any]]

BOOL, I16, I32, I64 = TType.BOOL, TType.I16, TType.I32, TType.I64
BINARY, LIST, STRUCT = TType.STRING, TType.LIST, TType.STRUCT

# A footer nests less deep; what goes deeper is none.
_MOST_DEPTH = 16


def read_struct(data: bytes, path: str, offset: int) -> Struct:
    """Read a struct.

    Args:
        data: the struct, and nothing else.
        path: of the file, for errors.
        offset: of the struct in it.

    Raises:
        CorruptionError: it is none.
    """
    memory = TMemoryBuffer(data)
    # Nothing in it is longer than all of it; a filter of keys may be long.
    try:
        protocol = TCompactProtocol(memory, len(data), len(data))
        found: Struct = _read(protocol, STRUCT, 0)
    except (TException, EOFError, ValueError, KeyError, IndexError, TypeError) as error:
        raise CorruptionError(path, offset, "a Thrift struct", repr(error)) from error
    return found


def write_struct(struct: Struct) -> bytes:
    """Return a struct as bytes."""
    memory = TMemoryBuffer()
    _write(TCompactProtocol(memory), STRUCT, struct)
    data: bytes = memory.getvalue()
    return data


def get(struct: Struct, field: int, kind: int) -> Any:
    """Return the value of a field; None if it is not there, or is of another type."""
    found, value = struct.get(field, (kind, None))
    return value if found == kind else None


def items(struct: Struct, field: int, kind: int) -> list[Any]:
    """Return the elements of a list; none if it is not there, or has others."""
    found, values = get(struct, field, LIST) or (kind, [])
    return values if found == kind else []


def _read(protocol: Any, kind: int, depth: int) -> Any:
    if depth == _MOST_DEPTH:
        raise ValueError(f"more than {_MOST_DEPTH} structs and lists in each other")
    if kind == STRUCT:
        struct: Struct = {}
        protocol.readStructBegin()
        while True:
            _, field_kind, field = protocol.readFieldBegin()
            if field_kind == TType.STOP:
                break
            struct[field] = field_kind, _read(protocol, field_kind, depth + 1)
            protocol.readFieldEnd()
        protocol.readStructEnd()
        return struct
    if kind == LIST:
        item_kind, count = protocol.readListBegin()
        values = [_read(protocol, item_kind, depth + 1) for _ in range(count)]
        protocol.readListEnd()
        return item_kind, values
    return getattr(protocol, f"read{_SCALARS[kind]}")()


def _write(protocol: Any, kind: int, value: Any) -> None:
    if kind == STRUCT:
        protocol.writeStructBegin("")
        for field, (field_kind, held) in sorted(value.items()):
            protocol.writeFieldBegin("", field_kind, field)
            _write(protocol, field_kind, held)
            protocol.writeFieldEnd()
        protocol.writeFieldStop()
        protocol.writeStructEnd()
    elif kind == LIST:
        item_kind, values = value
        protocol.writeListBegin(item_kind, len(values))
        for one in values:
            _write(protocol, item_kind, one)
        protocol.writeListEnd()
    else:
        getattr(protocol, f"write{_SCALARS[kind]}")(value)


_SCALARS = {
    BOOL: "Bool",
    TType.BYTE: "Byte",
    I16: "I16",
    I32: "I32",
    I64: "I64",
    TType.DOUBLE: "Double",
    BINARY: "Binary",
}
