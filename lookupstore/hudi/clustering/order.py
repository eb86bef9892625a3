"""The order of the rows of a partition, and the ends of its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lookupstore.hudi.clustering.incremental import Continuation
from lookupstore.hudi.layout import MOST_ROWS, KeptLayout, Layout, LayoutChoice, cell_ends
from lookupstore.hudi.timeline.commit import WriteStat
from lookupstore.sorting.ranges import ends_of


@dataclass(frozen=True)
class ClusteringOrder:
    """An order of rows.

    Attributes:
        layout: Layout that gives each row its position.
        rows_per_file: Target number of rows of a file.
        continuation: Kept layout that the order continues. None: The clustering is not
            incremental, and no layout is kept.
    """

    layout: Layout
    rows_per_file: int
    continuation: Continuation | None = None

    @classmethod
    def going_on(cls, continuation: Continuation) -> ClusteringOrder:
        """Return the order of the kept layout of a partition."""
        kept = continuation.kept
        return cls(kept.layout, kept.rows_per_file, continuation)

    @classmethod
    def first(
        cls, choice: LayoutChoice, layout: Layout, positions: pa.Array, per_file: int, files: int
    ) -> ClusteringOrder:
        """Return a new order with a layout to keep for later clusterings.

        Args:
            choice: Choice of the caller from which `layout` was learned.
            layout: Layout that gives each row its position.
            positions: Positions of a sample of the rows.
            per_file: Target number of rows of a file.
            files: Number of files for all rows.
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
            positions: Positions of a sample of the rows.
            rows: Number of all rows.
            files: Approximate number of files for all rows; a kept layout ignores it.
        """
        if self.continuation is None:
            return ends_of(positions, files)
        return self.continuation.kept.ends_of_files(positions, rows)

    def kept(
        self, ends: Sequence[bytes], width: int, stats: Sequence[Sequence[WriteStat]], time: str
    ) -> KeptLayout:
        """Return the layout to keep, with the files that were written.

        Call it only for an order with a `continuation`.

        Args:
            ends: Last position of each range of files but the last range.
            width: Width of a position, in bytes.
            stats: Commit entries of the files up to each end, and of those after the last end.
            time: Request time of the clustering; it names the runs that it begins.
        """
        assert self.continuation is not None
        runs = [run or time for run in self.continuation.runs]
        return self.continuation.kept.with_files(ends, width, stats, runs)
