"""Assign new rows to files by their positions in the layout of a partition.

The box of a file is its range of positions. Files that a write changes anyway receive the new rows
in their boxes, if there is room. Other new rows fill small files that are not in order yet, if
these have room for all of them. Otherwise they are written to new files, which follow the layout. A
file is not rewritten only for a few rows in its box: most files of the partition would be.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow.types import concat
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.layout import LAYOUTS_FOLDER, MOST_ROWS, KeptLayout, PlacedFile, read_layout
from lookupstore.hudi.timeline.commit import WriteStat
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.partitioner import Load
from lookupstore.sorting._sort import argsort, upper_bound

#: Number of positions of the new rows of each partition that determine the ends of files.
SAMPLE_ROWS = 1 << 16


def layouts_of(
    view: TableView, partitions: Iterable[str], columns: pa.Schema
) -> dict[str, KeptLayout]:
    """Return the layouts that partitions keep, by path.

    Args:
        view: View of the table.
        partitions: Paths of the partitions that receive new rows.
        columns: Columns of the table after the write.

    Raises:
        OSError: If a layout cannot be read.
    """
    if not keeps_layouts(view):
        return {}
    kept = {path: read_layout(view.location, path) for path in partitions}
    return {path: one for path, one in kept.items() if one is not None and one.is_of(columns)}


def keeps_layouts(view: TableView) -> bool:
    """Return whether a table keeps a layout for at least one partition."""
    return any(True for _ in view.location.files(LAYOUTS_FOLDER))


def positions_in(kept: KeptLayout, rows: pa.RecordBatch | pa.Table) -> pa.Array:
    """Return the positions of rows in a layout. Columns may be dictionary-encoded."""
    columns = [_plain(rows.column(name)) for name in kept.layout.by]
    return kept.layout.positions(pa.Table.from_arrays(columns, names=list(kept.layout.by)))


@dataclass(frozen=True, eq=False)
class NewRows:
    """New rows of a partition that keeps a layout.

    Attributes:
        kept: Layout of the partition.
        positions: Positions of a sample of the rows in the layout, fixed-size binary.
        count: Number of rows.
    """

    kept: KeptLayout
    positions: pa.Array
    count: int

    def boxes(self, load: Load, files: Sequence[FileSlice]) -> dict[str, tuple[PlacedFile, int]]:
        """Return the files that the write changes, and the numbers of rows in their boxes.

        Args:
            load: Numbers of rows that the write inserts and updates in the partition.
            files: Current base files of the partition.

        Returns:
            File and number of rows by file group id. No two of the boxes overlap.
        """
        ascending = self.positions.take(pa.array(argsort(self.positions)))
        changed = [
            (placed, one.group.file_id)
            for one in files
            if one.group.file_id in load.updates
            and (placed := self.kept.files.get(one.group.file_id)) is not None
            and placed.name == one.name
        ]
        found: dict[str, tuple[PlacedFile, int]] = {}
        until = b""
        for placed, file_id in sorted(changed, key=lambda one: (one[0].last, one[0].after)):
            if placed.after < until:
                continue
            first, last = (int(upper_bound(ascending, end)) for end in (placed.after, placed.last))
            rows = round((last - first if placed.after else last) * self._times)
            if 0 < rows <= MOST_ROWS * self.kept.rows_per_file - placed.rows:
                found[file_id] = placed, rows
                until = placed.last
        return found

    def beside(self, boxes: Iterable[PlacedFile]) -> NewRows:
        """Return the rows outside the boxes of some files."""
        ascending = self.positions.take(pa.array(argsort(self.positions)))
        stays = np.ones(len(ascending), bool)
        for one in boxes:
            start = int(upper_bound(ascending, one.after)) if one.after else 0
            stays[start : int(upper_bound(ascending, one.last))] = False
        positions = ascending.filter(pa.array(stays))
        return NewRows(self.kept, positions, round(len(positions) * self._times))

    def cells(self) -> list[bytes]:
        """Return the last position of each file that the rows fill, except the last file."""
        if not len(self.positions):
            return []
        return self.kept.ends_of_new_files(self.positions, self.count)

    @property
    def _times(self) -> float:
        return self.count / max(1, len(self.positions))


@dataclass(frozen=True, eq=False)
class Boxes:
    """The file of each new row of a partition, by its position in the layout.

    Attributes:
        kept: Layout of the partition.
        width: Size of a position, in bytes.
        ends: Last position of each stretch of positions, ascending. The stretch after the last end
            is one more.
        buckets: Number of the file for the rows of each stretch, int32. -1: the key of a row
            decides.
        cells: Last position of each new file that follows the layout, except the last file.
        new: Numbers of the new files that follow the layout, one more than `cells`. Empty: the
            write makes no such files.
    """

    kept: KeptLayout
    width: int
    ends: Sequence[bytes]
    buckets: npt.NDArray[np.int32]
    cells: Sequence[bytes]
    new: Sequence[int]

    @classmethod
    def of(
        cls,
        rows: NewRows,
        boxes: Mapping[int, PlacedFile],
        cells: Sequence[bytes],
        new: Sequence[int],
    ) -> Boxes:
        """Return the boxes of a write.

        Args:
            rows: New rows of the partition.
            boxes: Files that receive the rows in their boxes, by the number of the file.
            cells: Last position of each new file that follows the layout, except the last file.
            new: Numbers of the new files that follow the layout, one more than `cells`. Empty: the
                write makes no such files.
        """
        known = {end for one in boxes.values() for end in (one.after, one.last)}
        ends = sorted({*known, *cells} - {b""})
        width = rows.positions.type.byte_width
        numbers = []
        for after, last in pairwise([b"", *ends, b"\xff" * width]):
            inside = (at for at, one in boxes.items() if one.after <= after and last <= one.last)
            other = new[bisect_left(cells, last)] if new else -1
            numbers.append(next(inside, other))
        return cls(rows.kept, width, ends, np.array(numbers, np.int32), cells, new)

    def numbers(self, rows: pa.Table) -> npt.NDArray[np.int32]:
        """Return the number of the file of each row; -1: the key of the row decides."""
        positions = positions_in(self.kept, rows)
        order = argsort(positions)
        ascending = positions.take(pa.array(order))
        cuts = [0, *(int(upper_bound(ascending, end)) for end in self.ends), len(order)]
        found = np.empty(len(order), np.int32)
        found[order] = np.repeat(self.buckets, np.diff(cuts))
        return found

    def placed(self, stats: Mapping[int, WriteStat], time: str) -> KeptLayout:
        """Return the layout with the new files.

        Args:
            stats: Commit entries of the written files, by the number of the file.
            time: Time of the instant.
        """
        of_cells = [[stats[number]] if number in stats else [] for number in self.new]
        runs = [time] * (len(self.kept.ends) + 1)
        return self.kept.with_files(self.cells, self.width, of_cells, runs)


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    array = column
    if isinstance(column, pa.ChunkedArray):
        array = concat(column.chunks, column.type)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
