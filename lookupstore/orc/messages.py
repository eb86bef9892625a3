"""Read protobuf messages with any fields.

Ambiguous messages are refused, since a check of a file must read the same values as Arrow.

Source: protobuf, encoding (protobuf.dev/programming-guides/encoding).
"""

from __future__ import annotations

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_VARINT = 10

Message = dict[int, list["int | bytes"]]


def read_message(data: bytes) -> Message:
    """Return the values of each field of a message, in their order.

    Raises:
        ValueError: If the bytes are not a message.

    >>> read_message(bytes([0x08, 0x96, 0x01, 0x12, 0x01, 0x61, 0x12, 0x00]))
    {1: [150], 2: [b'a', b'']}
    """
    fields: Message = {}
    at, end = 0, len(data)
    while at < end:
        tag, at = varint(data, at)
        kind = tag & 7
        value: int | bytes
        if kind == _VARINT:
            value, at = varint(data, at)
        else:
            if kind == _BYTES:
                size, at = varint(data, at)
            elif kind in (_FIXED32, _FIXED64):
                size = 4 if kind == _FIXED32 else 8
            else:
                raise ValueError(f"a field of type {kind}")
            if size > end - at:
                raise ValueError(f"a field of {size} bytes where {end - at} are left")
            value = data[at : at + size]
            at += size
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def number(message: Message, field: int, *, default: int = 0, bits: int = 64) -> int:
    """Return the number in a field.

    Raises:
        ValueError: If the field has several values, another type, or more bits.
    """
    values = message.get(field, [default])
    (value,) = values if len(values) == 1 else [b""]
    if not isinstance(value, int) or value >> bits:
        raise ValueError(f"field {field} is {values}, not one number of {bits} bits")
    return value


def choice(message: Message, field: int, known: range) -> int:
    """Return the number of an enum.

    An unknown number counts as the first one.

    Source: protobuf, proto2 language guide (unknown enum values).

    Raises:
        ValueError: If the field has several values, or another type.

    >>> choice({1: [(1 << 64) - 1]}, 1, range(4))
    0
    """
    value = number(message, field)
    return value if value in known else known.start


def numbers(message: Message, field: int) -> list[int]:
    """Return the numbers of a repeated field, each of 32 bits.

    Raises:
        ValueError: If a value has another type, or more bits.
    """
    found: list[int] = []
    for value in message.get(field, []):
        if isinstance(value, int):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            one, at = varint(value, at)
            found.append(one)
    if any(one >> 32 for one in found):
        raise ValueError(f"field {field} has a number of more than 32 bits")
    return found


def texts(message: Message, field: int) -> list[bytes]:
    """Return the bytes of a repeated field.

    Raises:
        ValueError: If a value has another type.
    """
    found: list[bytes] = []
    for value in message.get(field, []):
        if not isinstance(value, bytes):
            raise ValueError(f"field {field} is a number")
        found.append(value)
    return found


def messages(message: Message, field: int) -> list[Message]:
    """Return the messages of a repeated field.

    Raises:
        ValueError: If a value is not a message.
    """
    return [read_message(one) for one in texts(message, field)]


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number of at most 64 bits at an offset, and the offset of its end.

    Raises:
        ValueError: If there is no such number.
    """
    value = 0
    for i, byte in enumerate(data[at : at + _MOST_VARINT]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80 and value < 1 << 64:
            return value, at + i + 1
    raise ValueError("a number that does not end")
