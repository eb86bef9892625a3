"""What a clustering that goes on with kept layouts takes of each partition.

A file is still where its partition's layout put it if nobody wrote it since, or if all of its rows
still are between its ends. All others wait: of these the columns of the layout are read, which is
done before the lock of the table is taken. `layout.kept.overlap` chooses among them.
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
    """What was found in a file.

    Attributes:
        regions: for each region, how many of its rows are there.
        is_in_place: whether all of them are where the file was put once.
    """

    regions: tuple[int, ...]
    is_in_place: bool


@dataclass(frozen=True, eq=False)
class Continuation:
    """How a partition goes on.

    Attributes:
        kept: its layout.
        runs: for each region, the run that what comes is part of; None: a new one.
    """

    kept: KeptLayout
    runs: tuple[str | None, ...]


class KeptLayouts:
    """The layouts of partitions, and what is in their files.

    Args:
        choice: by which layouts are to be made.
        partitions: paths of those that are looked at; None: all.
    """

    def __init__(self, choice: LayoutChoice, partitions: Collection[str] | None) -> None:
        self._choice = choice
        self._partitions = partitions
        self._kept: dict[str, KeptLayout | None] = {}
        self._looks: dict[str, Look] = {}

    def look(self, view: TableView) -> None:
        """Look at what is there, for `taken`.

        Raises:
            CorruptionError: a file is damaged.
            StaleStoreError: a file is gone.
            OSError: a file cannot be read.
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
            view: of the table.
            partition: its path.
            files: current ones of it.

        Returns:
            the files, and how they go on; None: all of them are, by a new layout.

        Raises: what `look` does, of files that came since.
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
            # After the one, up to the other.
            is_in_place = is_in_place and bool(
                _between(positions, bounds)[len(bounds) - 1] == len(positions)
            )
    return Look(tuple(counts.tolist()), is_in_place)


def _between(ascending: pa.Array, ends: Sequence[bytes]) -> npt.NDArray[np.int64]:
    """Return how many positions are up to each end, but after the one before; and after all."""
    upto = np.array([*(int(upper_bound(ascending, end)) for end in ends), len(ascending)], np.int64)
    upto[1:] -= upto[:-1].copy()
    return upto
