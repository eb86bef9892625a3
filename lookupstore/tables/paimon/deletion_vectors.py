"""Deletion vectors of Paimon: the positions of deleted rows of a data file.

Source: "Deletion Vectors" in the specification of Paimon.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from lookupstore.errors import CorruptionError
from lookupstore.source.skipping import StatisticsFilter
from lookupstore.storage.file_address import FileAddress
from lookupstore.tables.paimon.metadata import Vector
from lookupstore.tables.recently_read import RecentlyRead
from lookupstore.tables.roaring import Positions, bitmap32, bitmap64
from lookupstore.tables.rows import GONE
from lookupstore.tables.snapshot import DeletedRows

_WORD = 4
# Largest size of a file that is read at once: it has the vectors of many data files.
_SMALL = 4 << 20
# The first bytes of a vector tell its format. That of 64 bits is Iceberg's, whose lengths count the
# words before and after it.
_FORMATS: dict[bytes, tuple[int, Callable[[bytes], Positions]]] = {
    (1581511376).to_bytes(_WORD, "big"): (0, bitmap32),
    (1681511377).to_bytes(_WORD, "little"): (2 * _WORD, bitmap64),
}


@dataclass(frozen=True)
class VectorInFile:
    """The deletion vector of a data file, which is read when needed.

    Attributes:
        address: Address of the file with the vector.
        vector: Place of the vector in it.
        contents: Contents of small files with vectors that were read already.
    """

    address: FileAddress
    vector: Vector
    contents: RecentlyRead[bytes] = field(repr=False, compare=False)

    @property
    def identity(self) -> str:
        """Return a text that differs between sets of deleted rows."""
        return f"{self.vector.file}:{self.vector.start}:{self.vector.length}"

    @property
    def count(self) -> int | None:
        """Return the number of deleted rows. None: unknown before they are read."""
        return self.vector.count

    def load(self, asked: StatisticsFilter | None = None) -> DeletedRows:
        """Return the deleted rows, whatever is asked for.

        Raises:
            CorruptionError: If the file, or the vector, is damaged.
            StaleStoreError: If the file is gone.
        """
        shown, start = self.address.shown, self.vector.start
        nbytes, size = self.vector.nbytes, self.vector.length + 2 * _WORD
        if nbytes <= _SMALL:
            whole = self.contents.get(self.vector.file, lambda: self._bytes(0, nbytes))
            found = whole[start : start + size] if start >= 0 else b""
        else:
            found = self._bytes(start, size)
        head = found[: 2 * _WORD]
        length = int.from_bytes(head[:_WORD], "big")
        known = _FORMATS.get(head[_WORD:])
        if known is None or length + 2 * _WORD > len(found) or length < _WORD:
            raise CorruptionError(shown, start, "a deletion vector", head)
        body = found[_WORD : length + 2 * _WORD]
        counted, decode = known
        if self.vector.length != length + counted:
            expected = f"a deletion vector of {self.vector.length} bytes"
            raise CorruptionError(shown, start, expected, f"{length + counted} bytes")
        known_sum, found_sum = int.from_bytes(body[length:], "big"), zlib.crc32(body[:length])
        if found_sum != known_sum:
            expected = f"the checksum {known_sum:#010x}"
            raise CorruptionError(shown, start, expected, f"{found_sum:#010x}")
        try:
            positions = decode(body[_WORD:length])
        except ValueError as error:
            raise CorruptionError(shown, start, "a Roaring bitmap", error) from None
        if self.vector.count not in (None, len(positions)):
            expected = f"{self.vector.count} deleted rows"
            raise CorruptionError(shown, start, expected, len(positions))
        return DeletedRows(positions)

    def _bytes(self, start: int, size: int) -> bytes:
        """Return a range of the file, less at its end."""
        address, nbytes = self.address, self.vector.nbytes
        with address.reading("a deletion vector", gone=GONE), address.open(nbytes) as file:
            is_there = 0 <= start <= nbytes and size > 0
            found: bytes = file.read_at(size, start) if is_there else b""
        return found
