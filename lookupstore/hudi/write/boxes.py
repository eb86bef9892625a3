"""Where new rows go in a partition that keeps a layout: to the file whose box they are in.

Files that a write changes anyway take the new rows that are in their boxes, if there is room. Other
new rows fill small files that wait to be put in order, if these have room for all of them; else
they make files of their own, which follow the layout. No file is written only for a few rows that
are in its box: that would be most files of the partition.
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

#: Positions that say where files are to end, of the new rows of each partition.
SAMPLE_ROWS = 1 << 16


def layouts_of(
    view: TableView, partitions: Iterable[str], columns: pa.Schema
) -> dict[str, KeptLayout]:
    """Return the layouts that are kept of partitions, by path.

    Args:
        view: of the table.
        partitions: paths of those that get new rows.
        columns: of the table, after they are written.

    Raises:
        OSError: a layout cannot be read.
    """
    if not keeps_layouts(view):
        return {}
    kept = {path: read_layout(view.location, path) for path in partitions}
    return {path: one for path, one in kept.items() if one is not None and one.is_of(columns)}


def keeps_layouts(view: TableView) -> bool:
    """Return whether a table keeps the layout of some partition."""
    return any(True for _ in view.location.files(LAYOUTS_FOLDER))


def positions_in(kept: KeptLayout, rows: pa.RecordBatch | pa.Table) -> pa.Array:
    """Return the positions of rows, whose columns may have dictionaries."""
    columns = [_plain(rows.column(name)) for name in kept.layout.by]
    return kept.layout.positions(pa.Table.from_arrays(columns, names=list(kept.layout.by)))


@dataclass(frozen=True, eq=False)
class NewRows:
    """New rows of a partition that keeps a layout.

    Attributes:
        kept: the layout.
        positions: of a sample of the rows.
        count: how many rows there are.
    """

    kept: KeptLayout
    positions: pa.Array
    count: int

    def boxes(self, load: Load, files: Sequence[FileSlice]) -> dict[str, tuple[PlacedFile, int]]:
        """Return files that the write changes, and how many of the rows go to their boxes.

        Args:
            load: what comes to the partition.
            files: current ones of it.

        Returns:
            by the id of their groups; no two of the boxes overlap.
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
        """Return the rows that are in none of these boxes."""
        ascending = self.positions.take(pa.array(argsort(self.positions)))
        stays = np.ones(len(ascending), bool)
        for one in boxes:
            start = int(upper_bound(ascending, one.after)) if one.after else 0
            stays[start : int(upper_bound(ascending, one.last))] = False
        positions = ascending.filter(pa.array(stays))
        return NewRows(self.kept, positions, round(len(positions) * self._times))

    def cells(self) -> list[bytes]:
        """Return the ends of the files that all of the rows make, but of the last one."""
        if not len(self.positions):
            return []
        return self.kept.ends_of_new_files(self.positions, self.count)

    @property
    def _times(self) -> float:
        return self.count / max(1, len(self.positions))


@dataclass(frozen=True, eq=False)
class Boxes:
    """Which files the new rows of a partition go to.

    Attributes:
        kept: the layout of the partition.
        width: of positions, in bytes.
        ends: of stretches of positions; what comes after all is one more.
        buckets: for each stretch, the number of the file of its rows, int32; -1: they go by key.
        cells: ends of new files that follow the layout.
        new: numbers of these files: one more than ends; none: there are none.
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
        """Return where rows go.

        Args:
            rows: of the partition.
            boxes: that take some of them, by the number of the file.
            cells: as the attribute.
            new: as the attribute.
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
        """Return the number of the file of each row; -1: it goes by its key."""
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
            stats: what is said of files, by their numbers.
            time: of the instant.
        """
        of_cells = [[stats[number]] if number in stats else [] for number in self.new]
        runs = [time] * (len(self.kept.ends) + 1)
        return self.kept.with_files(self.cells, self.width, of_cells, runs)


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    array = column
    if isinstance(column, pa.ChunkedArray):
        array = concat(column.chunks, column.type)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
