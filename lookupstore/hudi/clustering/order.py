"""In which order the rows of a partition are written, and where its files end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lookupstore.hudi.clustering.incremental import Continuation
from lookupstore.hudi.layout import MOST_ROWS, KeptLayout, Layout, LayoutChoice, cell_ends
from lookupstore.hudi.timeline.commit import WriteStat
from lookupstore.sorting.ranges import ends_of


@dataclass(frozen=True)
class Order:
    """An order of rows.

    Attributes:
        layout: it follows.
        rows_per_file: that a file is to have.
        continuation: what it goes on with; None: it is for once.
    """

    layout: Layout
    rows_per_file: int
    continuation: Continuation | None = None

    @classmethod
    def going_on(cls, continuation: Continuation) -> Order:
        """Return the order of the layout that is kept of a partition."""
        kept = continuation.kept
        return cls(kept.layout, kept.rows_per_file, continuation)

    @classmethod
    def first(
        cls, choice: LayoutChoice, layout: Layout, positions: pa.Array, per_file: int, files: int
    ) -> Order:
        """Return an order that is to be kept.

        Args:
            choice: by which it was made.
            layout: it follows.
            positions: of a sample of the rows.
            per_file: rows that a file is to have.
            files: of all rows.
        """
        # Up to the root of the number of files: with more of them, files of few new rows would be
        # too small to be in one; with fewer, more old rows are put in order with new ones.
        regions = 1 << (files // 2).bit_length() // 2
        most = MOST_ROWS * len(positions) / regions
        ends = tuple(cell_ends(positions, most, is_curve=layout.is_curve))
        kept = KeptLayout(choice.to_json(), layout, ends, per_file, {})
        return cls(layout, per_file, Continuation(kept, (None,) * (len(ends) + 1)))

    def ends_of_files(self, positions: pa.Array, rows: int, files: int) -> list[bytes]:
        """Return the last position of each file but the last one.

        Args:
            positions: of a sample of the rows.
            rows: that there are.
            files: that all of them make, about.
        """
        if self.continuation is None:
            return ends_of(positions, files)
        return self.continuation.kept.ends_of_files(positions, rows)

    def kept(
        self, ends: Sequence[bytes], width: int, stats: Sequence[Sequence[WriteStat]], time: str
    ) -> KeptLayout:
        """Return what is to be kept of an order that is not for once.

        Args:
            ends: of files.
            width: of positions, in bytes.
            stats: of the files up to each end, and after the last one.
            time: of the instant.
        """
        assert self.continuation is not None
        runs = [run or time for run in self.continuation.runs]
        return self.continuation.kept.with_files(ends, width, stats, runs)
