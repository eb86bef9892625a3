"""In which order the rows of a partition are written, and where its files end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from lookupstore.hudi.clustering.incremental import Continuation
from lookupstore.hudi.layout import KeptLayout, Layout, LayoutChoice, PlacedFile, cell_ends
from lookupstore.hudi.timeline.commit import WriteStat
from lookupstore.sorting.ranges import ends_of

# Files end where halves of halves do: they have between two thirds of that many rows and all.
_MOST_ROWS = 4 / 3


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
        # Of each region some of all new rows make a file, and few files more than these of old
        # ones are put in order with them: about as many of the one as of the other.
        regions = 1 << max(0, files.bit_length() // 2 - 1)
        most = _MOST_ROWS * len(positions) / regions
        ends = tuple(cell_ends(positions, most, is_curve=_is_curve(layout)))
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
        most = _MOST_ROWS * self.rows_per_file * len(positions) / rows
        ends = self.continuation.kept.ends
        return cell_ends(positions, most, is_curve=_is_curve(self.layout), within=ends)

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
        before, runs = self.continuation.kept, self.continuation.runs
        files = {}
        bounds = [b"", *ends, b"\xff" * width]
        for (after, last), some in zip(pairwise(bounds), stats, strict=True):
            run = runs[before.region(last)] or time
            for stat in some:
                name = (stat.path or "").rpartition("/")[2]
                rows = stat.num_writes or 0
                files[stat.file_id or ""] = PlacedFile(name, run, after, last, rows)
        return KeptLayout(before.choice, self.layout, before.ends, self.rows_per_file, files)


def _is_curve(layout: Layout) -> bool:
    return layout.curve != "linear" and len(layout.by) > 1
