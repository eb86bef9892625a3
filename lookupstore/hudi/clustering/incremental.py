"""Choose the files of each partition that an incremental clustering rewrites.

A file is in place if no write replaced it since the layout was kept, or if all of its rows are
still between the ends of the file. All other files wait. Their columns of the layout are read
before the lock of the table is taken. `layout.kept.overlap` chooses among the files.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.hudi.clustering.rows import plain_batches
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.reader import SliceRows
from lookupstore.hudi.layout import KeptLayout, LayoutChoice, Waiting, choose, read_layout
from lookupstore.hudi.view import TableView
from lookupstore.sorting._sort import argsort, upper_bound


@dataclass(frozen=True)
class Look:
    """The regions of the rows of a file.

    Attributes:
        regions: Number of rows of the file in each region of the layout.
        is_in_place: Whether all rows are still between the ends that the file has in the layout.
    """

    regions: tuple[int, ...]
    is_in_place: bool


@dataclass(frozen=True, eq=False)
class Continuation:
    """The continuation of the kept layout of a partition.

    Attributes:
        kept: Kept layout of the partition.
        runs: Name of the run that the new files of each region join. None: a new run.
    """

    kept: KeptLayout
    runs: tuple[str | None, ...]


class KeptLayouts:
    """The kept layouts of partitions, and the regions of the rows in their files.

    Args:
        choice: Choice of the caller; layouts that were kept for another choice are ignored.
        partitions: Paths of the partitions to look at. Default: all partitions.
    """

    def __init__(self, choice: LayoutChoice, partitions: Collection[str] | None) -> None:
        self._choice = choice
        self._partitions = partitions
        self._kept: dict[str, KeptLayout | None] = {}
        self._looks: dict[str, Look] = {}

    def look(self, view: TableView) -> None:
        """Read the layouts and the waiting files, so that `taken` has less to read.

        Raises:
            CorruptionError: If the timeline or a file is damaged.
            FormatError: If a column of a file cannot be widened to the type in the table.
            StaleStoreError: If a file was deleted.
            OSError: If a file cannot be read.
        """
        current: dict[str, list[FileSlice]] = {}
        for group in view.groups(None):
            current.setdefault(group.id.partition, []).append(group.current)
        for path, files in current.items():
            if self._partitions is None or path in self._partitions:
                self._look(view, path, files)

    def taken(
        self, view: TableView, partition: str, files: Sequence[FileSlice]
    ) -> tuple[list[FileSlice], Continuation | None]:
        """Return the files of a partition that are to be put in order.

        Args:
            view: View of the table.
            partition: Path of the partition.
            files: Current base files of the partition.

        Returns:
            Files to put in order, and the layout that they continue. None: no layout is kept for
            this choice; all files are put in order by a new one.

        Raises:
            CorruptionError: If a file that was added since `look` is damaged.
            FormatError: If a column of such a file cannot be widened to the type in the table.
            StaleStoreError: If such a file was deleted.
            OSError: If such a file cannot be read.
        """
        self._look(view, partition, files)
        kept = self._kept[partition]
        if kept is None:
            return list(files), None
        count = len(kept.ends) + 1
        runs: list[dict[str, list[FileSlice]]] = [{} for _ in range(count)]
        rows: list[dict[str, int]] = [{} for _ in range(count)]
        waiting = []
        for file in files:
            placed, seen = kept.files.get(file.group.file_id), self._looks.get(file.path)
            if placed is None or (seen is not None and not seen.is_in_place):
                waiting.append(file)
                continue
            region = kept.region(placed.last)
            runs[region].setdefault(placed.run, []).append(file)
            there = placed.rows if seen is None else sum(seen.regions)
            rows[region][placed.run] = rows[region].get(placed.run, 0) + there
        chosen = choose(
            [[one[run] / kept.rows_per_file for run in sorted(one)] for one in rows],
            [_waiting(self._looks[file.path], kept.rows_per_file) for file in waiting],
            len(kept.layout.by),
        )
        found = list(waiting) if chosen.waiting else []
        goes_on: list[str | None] = []
        for own, last in zip(runs, chosen.runs, strict=True):
            names = sorted(own)[len(own) - last :]
            found += [file for name in names for file in own[name]]
            goes_on.append(names[0] if names else None)
        return found, Continuation(kept, tuple(goes_on))

    def _look(self, view: TableView, partition: str, files: Sequence[FileSlice]) -> None:
        if partition not in self._kept:
            kept = read_layout(view.location, partition, self._choice.to_json())
            is_of = kept is not None and kept.is_of(view.table_schema.columns)
            self._kept[partition] = kept if is_of else None
        kept = self._kept[partition]
        if kept is None:
            return
        for file in files:
            placed = kept.files.get(file.group.file_id)
            if file.path not in self._looks and (placed is None or placed.name != file.name):
                self._looks[file.path] = _look(view, kept, file)


def _waiting(seen: Look, rows_per_file: int) -> Waiting:
    return Waiting(sum(seen.regions) / rows_per_file, [one / rows_per_file for one in seen.regions])


def _look(view: TableView, kept: KeptLayout, file: FileSlice) -> Look:
    placed = kept.files.get(file.group.file_id)
    bounds = [] if placed is None else [one for one in (placed.after, placed.last) if one]
    counts = np.zeros(len(kept.ends) + 1, np.int64)
    is_in_place = placed is not None
    wanted = kept.layout.schema
    for batch in plain_batches(SliceRows(view.location, file, wanted, threads=True), wanted):
        if batch.num_rows:
            positions = kept.layout.positions(batch)
            positions = positions.take(pa.array(argsort(positions)))
            counts += _between(positions, kept.ends)
            # All rows are after the end before the file, and up to its own end.
            is_in_place = is_in_place and bool(
                _between(positions, bounds)[len(bounds) - 1] == len(positions)
            )
    return Look(tuple(counts.tolist()), is_in_place)


def _between(ascending: pa.Array, ends: Sequence[bytes]) -> npt.NDArray[np.int64]:
    """Return the number of positions in each stretch between ends, and after the last."""
    upto = np.array([*(int(upper_bound(ascending, end)) for end in ends), len(ascending)], np.int64)
    upto[1:] -= upto[:-1].copy()
    return upto
