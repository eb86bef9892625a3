"""Find the class of the key field for an Arrow type."""

from __future__ import annotations

import pyarrow as pa

from lookupstore.arrow.types import is_restorable, plain_type
from lookupstore.keys.binaries import BINARIES
from lookupstore.keys.fields import KeyField
from lookupstore.keys.numbers import NUMBERS
from lookupstore.keys.times import TIMES

#: Every type of key, in the order in which an error lists them. No two hold one Arrow type.
KEY_TYPES: tuple[type[KeyField], ...] = (*NUMBERS, *TIMES, *BINARIES)


def key_field(field: pa.Field, nullable: bool) -> KeyField:
    """Return the key field of an Arrow field.

    Raises:
        TypeError: If the type has no order here, such as a list.

    >>> type(key_field(pa.field("day", pa.date32()), nullable=True)).__name__
    'DateField'
    """
    plain = plain_type(field.type)
    found = next((one for one in KEY_TYPES if one.holds(plain)), None)
    if found is None or not is_restorable(field.type):
        *most, last = dict.fromkeys(one.plural for one in KEY_TYPES)
        raise TypeError(
            f"the key field {field.name!r} is {field.type}, which cannot be a key; key fields are "
            f"{', '.join(most)} and {last}"
        )
    return found(field, nullable)
