"""One field of a key: its type, how C stores it, and the cells that C reads and writes.

The layout of each field is in ``csrc/ls_keys.h``.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import (
    family_of,
    first_invalid,
    is_restorable,
    plain_type,
    restore,
    value_width,
)
from lookupstore.errors import FormatError
from lookupstore.keys import _codec as _keys
from lookupstore.keys.values import ValueCodec, value_codec


@dataclass(frozen=True)
class KeyField:
    """One field of a key.

    Attributes:
        name: the name of the field.
        type: the type as declared.
        plain: the type without dictionary, extension and view.
        family: what `family_of` calls the plain type.
        code: kind, width and nullable, as ``_codec`` takes them.
        values: turns one Python value into the bytes of the field.
    """

    name: str
    type: pa.DataType
    plain: pa.DataType
    family: str
    code: tuple[int, int, bool]
    values: ValueCodec

    @property
    def nullable(self) -> bool:
        """Whether the field may be null."""
        return self.code[2]

    @property
    def variable(self) -> bool:
        """Whether the values differ in size."""
        return self.code[0] == _keys.BYTES

    def inner(self, value: bytes) -> bytes:
        """Return the bytes of a value as they stand before other fields."""
        return self.escaped(value) + b"\x00\x00" if self.variable else value

    def escaped(self, value: bytes) -> bytes:
        """Return the bytes of a value of varying size before other fields, without their end."""
        return value.replace(b"\x00", b"\x00\xff")

    def to_cells(self, array: pa.Array) -> pa.Array:
        """Return a view of a plain array as the bytes that C reads."""
        if self.variable:
            return array
        if self.family == "bool":
            array = array.cast(pa.uint8())
        if self.family == "binary":
            return array
        buffers = array.buffers()
        kind = pa.binary(self.code[1])
        return pa.Array.from_buffers(kind, len(array), buffers, array.null_count, array.offset)

    def from_cells(self, cells: pa.Array) -> pa.Array:
        """Return what C decoded in the declared type.

        Raises:
            FormatError: the bytes of a cell do not fit the type; names the field and the key.
            ValueError: the values do not fit one array of the type.
        """
        return restore(self._typed(cells), self.type)

    def _typed(self, cells: pa.Array) -> pa.Array:
        """Return what C decoded in the plain type."""
        if self.variable:
            try:
                return cells.cast(self.plain)
            except pa.ArrowInvalid as error:
                if cells.nbytes > 2**31 - 1:
                    raise ValueError(
                        f"{len(cells)} keys have more bytes in the field {self.name!r} than a "
                        f"{self.plain} array can hold (2 GiB); decode fewer keys at once"
                    ) from error
                raise FormatError(
                    f"key {first_invalid(cells, self.plain)}: its bytes do not fit the key field "
                    f"{self.name!r}: {error}"
                ) from error
        if self.family == "binary":
            return cells
        is_bool = self.family == "bool"
        kind = pa.uint8() if is_bool else self.plain
        values = pa.Array.from_buffers(kind, len(cells), cells.buffers(), cells.null_count)
        if not is_bool:
            return values
        wrong = pc.fill_null(pc.greater(values, 1), False)
        first = pc.index(wrong, True).as_py()
        if first >= 0:
            raise FormatError(
                f"key {first}: its bytes do not fit the key field {self.name!r}: a bool is 0 or 1"
            )
        return values.cast(pa.bool_())


def key_field(field: pa.Field, nullable: bool) -> KeyField:
    """Return the key field of an Arrow field.

    Raises:
        TypeError: the type has no order here, such as a list.

    >>> key_field(pa.field("day", pa.date32()), nullable=True).family
    'date'
    """
    plain = plain_type(field.type)
    family = family_of(plain)
    if family in ("", "null") or not is_restorable(field.type):
        raise TypeError(
            f"the key field {field.name!r} is {field.type}, which cannot be a key; key fields are "
            "bool, integers, floats, decimals, dates, times, timestamps, durations, strings and "
            "binaries"
        )
    width = value_width(plain)
    if width is None:
        kind = _keys.BYTES
    elif family == "binary":
        kind = _keys.RAW
    elif family == "float":
        kind = _keys.FLOAT
    elif family == "bool" or pa.types.is_unsigned_integer(plain):
        kind = _keys.UNSIGNED
    else:
        kind = _keys.SIGNED
    code = (kind, width or 0, nullable)
    return KeyField(field.name, field.type, plain, family, code, value_codec(field))
