"""Write values of a column as JSON, and read them back, exactly for every type.

Bools, integers, decimals and times are whole numbers of the unit of their type, such as the last
digit, a day or a tick. Floats are numbers, or "nan", "inf", "-inf". Text and bytes are text with %
and two hex digits for `%` and each byte that is not a printable ASCII character.
"""

from __future__ import annotations

import math
import string
import struct
from urllib.parse import quote_from_bytes, unquote_to_bytes

from lookupstore.keys.fields import KeyField
from lookupstore.keys.numbers import FloatField, WholeField

_PLAIN = "".join(sorted({*string.digits, *string.ascii_letters, *string.punctuation, " "} - {"%"}))
_FLOATS = {2: ">e", 4: ">f", 8: ">d"}


def to_json(field: KeyField, ordered: bytes) -> int | float | str:
    """Return a value for JSON.

    Args:
        field: Type of the column.
        ordered: Value as bytes that order as the values do; for text or bytes also a prefix.
    """
    if isinstance(field, WholeField):
        return int.from_bytes(ordered, "big") - _zero(field)
    if isinstance(field, FloatField):
        number = to_float(ordered)
        return number if math.isfinite(number) else str(number)
    return quote_from_bytes(ordered, safe=_PLAIN)


def from_json(field: KeyField, value: object) -> bytes:
    """Return the bytes of a value from JSON.

    Raises:
        ValueError: If `to_json` does not write such a value for the column.
    """
    found = _from_json(field, value)
    if found is None or to_json(field, found) != value:
        raise ValueError(f"{value!r} is not a value of the column {field.name!r}, {field.type}")
    return found


def to_float(ordered: bytes) -> float:
    """Return the float of 2, 4 or 8 bytes that order as floats do.

    >>> to_float(bytes.fromhex("bff8000000000000")), to_float(bytes.fromhex("7fff"))
    (1.5, -0.0)
    """
    mask = (1 << 8 * len(ordered)) - 1
    bits = int.from_bytes(ordered, "big")
    sign = (mask >> 1) + 1
    plain = bits ^ sign if bits & sign else bits ^ mask
    (found,) = struct.unpack(_FLOATS[len(ordered)], plain.to_bytes(len(ordered), "big"))
    return float(found)


def _zero(field: KeyField) -> int:
    """Return the number to add to whole numbers so that none is negative."""
    return 0 if field.kind == "unsigned" else 1 << (8 * field.width - 1)


def _from_json(field: KeyField, value: object) -> bytes | None:
    if isinstance(field, WholeField):
        if type(value) is not int or not 0 <= value + _zero(field) < 1 << 8 * field.width:
            return None
        return (value + _zero(field)).to_bytes(field.width, "big")
    if isinstance(field, FloatField):
        if value in ("nan", "inf", "-inf"):
            return field.one(float(str(value)))
        return field.one(value) if type(value) is float and math.isfinite(value) else None
    return unquote_to_bytes(value) if isinstance(value, str) else None
