"""The deleted rows of a data file, packed until they are needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lookupstore.source.skipping import StatisticsFilter
from lookupstore.tables.positions import Positions
from lookupstore.tables.recently_read import RecentlyRead
from lookupstore.tables.snapshot import DeletedRows

# Bytes of positions that stay in memory.
_MOST_LOADED = 64 << 20

_loaded: RecentlyRead[DeletedRows] = RecentlyRead(_MOST_LOADED, lambda one: one.positions.nbytes)


@dataclass(frozen=True, eq=False)
class PackedRows:
    """The deleted rows of a data file, in at most one bit for each row of the file.

    Attributes:
        identity: Text that differs between sets of deleted rows.
        count: Number of deleted rows.
        positions: Their positions in 32 bits each, if these take less than bits. None: they do not.
        bits: A bit for each row, true for deleted ones, in bytes from the lowest bit on. None:
            `positions` has the rows.
    """

    identity: str
    count: int
    positions: npt.NDArray[np.uint32] | None
    bits: npt.NDArray[np.uint8] | None

    @classmethod
    def of(cls, rows: Positions) -> PackedRows:
        """Return packed rows.

        Args:
            rows: Positions of the rows in the file, from 0, ascending, each once.

        >>> PackedRows.of(np.array([2, 3, 5])).load().positions.tolist()
        [2, 3, 5]
        """
        given = DeletedRows(rows)
        if given.end > 8 * 4 * given.count and given.end <= 1 << 32:
            return cls(given.identity, given.count, rows.astype(np.uint32), None)
        mask = np.zeros(given.end, np.bool_)
        mask[rows] = True
        return cls(given.identity, given.count, None, np.packbits(mask, bitorder="little"))

    @property
    def nbytes(self) -> int:
        """Return the memory of the packed rows in bytes."""
        return sum(one.nbytes for one in (self.positions, self.bits) if one is not None)

    def load(self, asked: StatisticsFilter | None = None) -> DeletedRows:
        """Return the deleted rows, whatever is asked for."""
        return _loaded.get(self.identity, self._unpacked)

    def _unpacked(self) -> DeletedRows:
        if self.positions is not None:
            return DeletedRows(self.positions.astype(np.int64))
        assert self.bits is not None
        found: Positions = np.flatnonzero(np.unpackbits(self.bits, bitorder="little"))
        return DeletedRows(found)
