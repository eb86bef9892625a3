"""A reader of bytes that checks every length before it is used."""

from __future__ import annotations

import struct

from lookupstore.errors import CorruptionError

_INT, _LONG, _SHORT = struct.Struct(">i"), struct.Struct(">q"), struct.Struct(">h")
_VARINT_BYTES = 5


class Cursor:
    """A position in some bytes of a file.

    Args:
        content: Bytes to read.
        path: Path of the file, for errors.
        start: Offset of the bytes in the file, for errors.
        what: Description of the bytes, for errors.
    """

    def __init__(self, content: bytes, path: str, start: int, what: str) -> None:
        self._content = content
        #: Path of the file, for errors.
        self.path: str = path
        self._start = start
        self._what = what
        self._at = 0

    @property
    def at(self) -> int:
        """Return the offset of the next byte in the file."""
        return self._start + self._at

    @property
    def left(self) -> int:
        """Return the number of bytes left."""
        return len(self._content) - self._at

    def take(self, size: int) -> bytes:
        """Return the next bytes.

        Raises:
            CorruptionError: If there are fewer bytes.
        """
        if not 0 <= size <= self.left:
            raise self.error(f"{size} bytes", f"{self.left} left in {self._what}")
        self._at += size
        return self._content[self._at - size : self._at]

    def int16(self) -> int:
        """Return the next number of two bytes."""
        return int(_SHORT.unpack(self.take(_SHORT.size))[0])

    def int32(self) -> int:
        """Return the next number of four bytes."""
        return int(_INT.unpack(self.take(_INT.size))[0])

    def int64(self) -> int:
        """Return the next number of eight bytes."""
        return int(_LONG.unpack(self.take(_LONG.size))[0])

    def varint(self, most: int = _VARINT_BYTES) -> int:
        """Return the next Protocol Buffers number, of at most the given number of bytes."""
        number = 0
        for shift in range(most):
            digit = self.take(1)[0]
            number |= (digit & 0x7F) << 7 * shift
            if digit < 0x80:
                return number
        raise self.error(f"a number of {most} bytes", "a longer one")

    def expect(self, wanted: bytes) -> None:
        """Take bytes, and check that they are as expected.

        Raises:
            CorruptionError: If the bytes differ.
        """
        at = self.at
        found = self.take(len(wanted))
        if found != wanted:
            raise CorruptionError(self.path, at, repr(wanted), repr(found))

    def error(self, expected: str, found: object) -> CorruptionError:
        """Return an error for unexpected bytes at this position."""
        return CorruptionError(self.path, self.at, expected, found)
