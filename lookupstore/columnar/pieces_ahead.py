"""A file of an object store of which Arrow reads pieces that were fetched together."""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections.abc import Sequence

import pyarrow as pa

from lookupstore.storage.file_address import FileAddress


class PiecesAhead(io.RawIOBase):
    """A file as Python's files are, for Arrow, of which some ranges are in memory.

    Arrow asks for one column chunk after the other, and each request takes its time. Other bytes
    are read when Arrow asks for them.

    Args:
        file: The file, open.
        address: Address of the file.
    """

    def __init__(self, file: pa.NativeFile, address: FileAddress) -> None:
        self._file = file
        self._address = address
        self._pieces: dict[int, bytes] = {}
        self._at = 0

    def fetch(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Read ranges of bytes, and forget the ranges of earlier calls.

        Args:
            ranges: Offset and size of each range.
        """
        known = {one: self._pieces[one] for one, _ in ranges if one in self._pieces}
        missing = [one for one in ranges if one[0] not in known]
        found = self._address.read_ranges(self._file, missing)
        known |= {offset: data for (offset, _), data in zip(missing, found, strict=True)}
        self._pieces = dict(sorted(known.items()))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._file.size()}
        self._at = start[whence] + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, fewer at the end; less than 0: all that are left."""
        left = max(0, self._file.size() - self._at)
        size = left if size is None or size < 0 else min(size, left)
        starts = list(self._pieces)
        at = bisect_right(starts, self._at) - 1
        first = self._at - starts[at] if at >= 0 else 0
        if at >= 0 and first + size <= len(self._pieces[starts[at]]):
            data = self._pieces[starts[at]][first : first + size]
        else:
            data = self._file.read_at(size, self._at)
        self._at += size
        return data
