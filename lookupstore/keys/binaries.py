"""Key fields of text or bytes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import first_invalid, is_bytes, is_text
from lookupstore.arrow.uuids import is_uuid, uuid_bytes, uuids_of
from lookupstore.errors import FormatError
from lookupstore.keys.fields import Holds, KeyField


class VariableField(KeyField):
    """A key field of values that differ in size, escaped unless they are last."""

    kind = "bytes"
    variable = True

    def ceiling(self, value: Any) -> tuple[bytes | None, bool]:
        """Return the bytes of the value, which equals the least value that is not less."""
        found = self.one(value)
        if found is None:
            raise ValueError(f"the bound {value!r} of the key field {self.name!r} is not UTF-8")
        return found, True

    def beginning(self, value: Any) -> bytes | None:
        """Return the bytes of the value."""
        return self.one(value)

    def inner(self, value: bytes) -> bytes:
        """Return the bytes of a value for a place before other fields."""
        return self.escaped(value) + b"\x00\x00"

    def escaped(self, value: bytes) -> bytes:
        """Return the bytes of a value for a place before other fields, without their end."""
        return value.replace(b"\x00", b"\x00\xff")

    def to_cells(self, array: pa.Array) -> pa.Array:
        """Return the array, which C reads as it is."""
        return array

    def ordered(self, array: pa.Array) -> pa.Array:
        """Return the values as they are."""
        return array.cast(pa.large_binary())

    def _typed(self, cells: pa.Array) -> pa.Array:
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


class StringField(VariableField):
    """A key field of strings, ordered by their UTF-8 bytes."""

    plural = "strings"
    wanted = "a str"
    holds: Holds = staticmethod(is_text)
    form = "text"

    def one(self, value: Any) -> bytes | None:
        """Return the bytes of a string."""
        try:
            return self.native(value, str).encode()  # type: ignore[no-any-return]
        except UnicodeEncodeError:
            return None  # Arrow holds no lone surrogates

    def fit(self, array: pa.Array) -> tuple[pa.Array, pa.Array | None]:
        """Return the array unchanged: C reads offsets of either width."""
        return array, None


class BinaryField(VariableField):
    """A key field of any number of bytes."""

    plural = "binaries"
    wanted = "bytes"
    form = "text, or 0x and an even number of hex digits"

    @staticmethod
    def holds(kind: pa.DataType) -> bool:
        """Return whether a type holds any number of bytes."""
        return is_bytes(kind) and not pa.types.is_fixed_size_binary(kind)

    def one(self, value: Any) -> bytes | None:
        """Return the bytes."""
        return bytes(self.native(value, bytes, bytearray, memoryview))

    def accepts(self, kind: pa.DataType) -> bool:
        """Return whether a type is of bytes."""
        return is_bytes(kind)

    def fit(self, array: pa.Array) -> tuple[pa.Array, pa.Array | None]:
        """Return the array with offsets: C reads either width."""
        if pa.types.is_fixed_size_binary(array.type):
            array = array.cast(self.plain)
        return array, None

    def read(self, texts: pa.Array) -> pa.Array:
        """Return the bytes of texts."""
        raw = [None if one is None else _bytes_of(one) for one in texts.to_pylist()]
        return pa.array(raw, self.plain)

    def read_beginning(self, text: str) -> bytes:
        """Return the bytes of a text."""
        return _bytes_of(text)


class FixedBinaryField(KeyField):
    """A key field of a fixed number of bytes."""

    plural = "binaries"
    wanted = "bytes"
    kind = "raw"
    holds: Holds = staticmethod(pa.types.is_fixed_size_binary)

    def one(self, value: Any) -> bytes | None:
        """Return the bytes."""
        found = self._raw(value)
        return found if len(found) == self.width else None

    def beginning(self, value: Any) -> bytes | None:
        """Return the bytes, or None if they are more than a value has."""
        found = self._raw(value)
        return found if len(found) <= self.width else None

    def ceiling(self, value: Any) -> tuple[bytes | None, bool]:
        """Return the bytes of the least value that is not less, and whether it is equal."""
        found = self._raw(value)
        if len(found) <= self.width:
            return found.ljust(self.width, b"\x00"), len(found) == self.width
        after = successor(found[: self.width])
        return (None, False) if after is None else (after.ljust(self.width, b"\x00"), False)

    def _raw(self, value: Any) -> bytes:
        return bytes(self.native(value, bytes, bytearray, memoryview))

    def accepts(self, kind: pa.DataType) -> bool:
        """Return whether a type is of bytes."""
        return is_bytes(kind)

    def fit(self, array: pa.Array) -> tuple[pa.Array, pa.Array | None]:
        """Cast bytes to the size of the field."""
        return self.cast_where(array, pc.equal(pc.binary_length(array), self.width))

    def to_cells(self, array: pa.Array) -> pa.Array:
        """Return the array, which is what C reads."""
        return array

    def _typed(self, cells: pa.Array) -> pa.Array:
        return cells

    @property
    def form(self) -> str:
        """Return a description of the text form of a value."""
        if is_uuid(self.type):
            return "32 hex digits, such as 01234567-89ab-cdef-0123-456789abcdef"
        return f"{self.width} bytes, as text or as 0x and {2 * self.width} hex digits"

    def read(self, texts: pa.Array) -> pa.Array:
        """Return the bytes of texts."""
        if is_uuid(self.type):
            found = uuids_of(texts, self.type)
            if found is None:
                raise ValueError("a text is not a UUID")
            return found.storage
        raw = [None if one is None else _bytes_of(one) for one in texts.to_pylist()]
        return pa.array(raw, self.plain)

    def read_beginning(self, text: str) -> bytes:
        """Return the bytes of a text."""
        return uuid_bytes(text) if is_uuid(self.type) else _bytes_of(text)


#: The types of key of this module, in the order in which an error lists them.
BINARIES: tuple[type[KeyField], ...] = (StringField, BinaryField, FixedBinaryField)


def successor(prefix: bytes) -> bytes | None:
    """Return the least bytes after all that start with `prefix`, or None.

    >>> successor(b"ab"), successor(b"a\\xff"), successor(b"\\xff")
    (b'ac', b'b', None)
    """
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _bytes_of(text: str) -> bytes:
    return bytes.fromhex(text[2:]) if text.startswith("0x") else text.encode()
