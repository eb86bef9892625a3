"""Which file each row of a write goes to: the merge or the new file that it becomes a part of.

Plans are made of numbers of rows; nothing is read of the rows themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.timeline.commit import CommitMetadata, WriteStat
from lookupstore.hudi.timeline.timeline import COMMIT
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.partitioner import (
    Bucket,
    FileSize,
    FileSizing,
    Load,
    Packing,
    average_record_size,
    pack,
    workload,
)

Rows = npt.NDArray[np.int64]
_NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class FilePlan:
    """What one new base file is made of.

    Attributes:
        partition: folder of it.
        file_id: of its group.
        current: slice that it replaces; None: its group is a new one.
        changes: numbers of the rows that change rows of that slice.
        positions: of these in the slice, ascending.
        inserts: numbers of the rows that are new.
    """

    partition: str
    file_id: str
    current: FileSlice | None
    changes: Rows
    positions: Rows
    inserts: Rows


@dataclass(frozen=True, eq=False)
class WritePlan:
    """What a write is going to do.

    Attributes:
        files: that it writes; their numbers are those of its tasks.
        loads: rows to insert and to update, by partition path.
    """

    files: tuple[FilePlan, ...]
    loads: Mapping[str, Load]

    def profile(self, operation: str) -> CommitMetadata:
        """Return what the inflight file of the write says."""
        current = [one.current for one in self.files if one.current is not None]
        return workload_profile(operation, self.loads, current)


@dataclass(frozen=True, eq=False)
class Places:
    """Where rows are in a table, as a tag finds them.

    Attributes:
        slices: current base files.
        numbers: the slice that each row is in, int32; -1: none, it is new.
        positions: of the row in that.
    """

    slices: Sequence[FileSlice]
    numbers: npt.NDArray[np.int32]
    positions: Rows

    @classmethod
    def nowhere(cls, rows: int) -> Places:
        """Return those of rows of which each is new."""
        return cls((), np.full(rows, -1, np.int32), np.full(rows, -1, np.int64))

    def file_ids(self) -> pa.DictionaryArray:
        """Return the id of each row's file group; null for a new row."""
        return pa.DictionaryArray.from_arrays(
            pa.array(self.numbers, mask=self.numbers < 0),
            pa.array([one.group.file_id for one in self.slices], pa.string()),
        )


def plan_write(
    view: TableView,
    partitions: pa.DictionaryArray,
    keys: pa.ChunkedArray,
    places: Places,
    small: Sequence[FileSlice],
    sizing: FileSizing,
    new_id: Callable[[], str],
    pending: Mapping[str, Collection[str]] | None = None,
) -> WritePlan:
    """Plan the files of a write.

    Args:
        view: of the table.
        partitions: path of each row.
        keys: of each row.
        places: of each row.
        small: current base files, which rows to insert may fill up.
        sizing: of files.
        new_id: gives ids of new file groups.
        pending: file ids by partition that nothing may be inserted to.
    """
    file_ids = places.file_ids()
    loads = workload(partitions, file_ids)
    packing = plan_files(view, loads, small, sizing, pending)
    current = {(one.group.partition, one.group.file_id): one for one in (*places.slices, *small)}
    assigned = packing.assign(partitions, file_ids, keys)
    files = []
    for bucket, rows in zip(packing.buckets, _by_bucket(packing, assigned), strict=True):
        if not len(rows):
            continue  # the hash of keys left none for it
        files.append(_file_plan(bucket, rows, places, current, new_id))
    return WritePlan(tuple(files), loads)


def plan_files(
    view: TableView,
    loads: Mapping[str, Load],
    small: Sequence[FileSlice],
    sizing: FileSizing,
    pending: Mapping[str, Collection[str]] | None = None,
) -> Packing:
    """Plan the files of a write from the numbers of its rows; see `plan_write`.

    Args:
        view: of the table.
        loads: rows to insert and to update, by partition path.
        small: current base files, which rows to insert may fill up.
        sizing: of files.
        pending: file ids by partition that nothing may be inserted to.
    """
    sizes: dict[str, list[FileSize]] = {}
    for one in small:
        if one.group.partition in loads:
            size = FileSize(one.group.file_id, one.bytes)
            sizes.setdefault(one.group.partition, []).append(size)
    inserts = any(load.inserts for load in loads.values())
    record_size = average_record_size(_written(view), sizing) if inserts else sizing.record_size
    return pack(loads, sizes, record_size, sizing, pending=pending)


def workload_profile(
    operation: str, loads: Mapping[str, Load], current: Sequence[FileSlice]
) -> CommitMetadata:
    """Return what the inflight file of a write says: the rows that each file is going to get.

    Args:
        operation: name of the write, as Hudi has it.
        loads: rows to insert and to update, by partition path.
        current: slices of the file groups that have rows to update.
    """
    times = {one.group.file_id: one.time for one in current}
    stats = {}
    for path, load in loads.items():
        updates = [
            WriteStat(file_id=file_id, prev_commit=times[file_id], num_update_writes=count)
            for file_id, count in load.updates.items()
        ]
        stats[path] = (WriteStat(num_inserts=load.inserts), *updates)
    return CommitMetadata(stats=stats, operation=operation)


def _written(view: TableView) -> Iterator[tuple[int, int]]:
    """Yield bytes and rows that each commit wrote, newest first."""
    for instant in reversed(view.timeline.writes()):
        if instant.action == COMMIT:
            stats = [one for many in (view.commit(instant).stats or {}).values() for one in many]
            yield (
                sum(one.total_write_bytes or 0 for one in stats),
                sum(one.num_writes or 0 for one in stats),
            )


def _by_bucket(packing: Packing, assigned: npt.NDArray[np.int32]) -> list[Rows]:
    # NumPy sorts 16 bits by their digits, in a tenth of the time.
    few = len(packing.buckets) <= 1 << 16
    order = np.argsort(assigned.astype(np.uint16) if few else assigned, kind="stable")
    counts = np.bincount(assigned, minlength=len(packing.buckets))
    return np.split(order, np.cumsum(counts)[:-1]) if len(counts) else []


def _file_plan(
    bucket: Bucket,
    rows: Rows,
    places: Places,
    current: Mapping[tuple[str, str], FileSlice],
    new_id: Callable[[], str],
) -> FilePlan:
    if bucket.file_id is None:
        return FilePlan(bucket.partition, new_id(), None, _NO_ROWS, _NO_ROWS, rows)
    known = places.numbers[rows] >= 0
    changes = rows[known]
    changes = changes[np.argsort(places.positions[changes])]  # each is there once
    return FilePlan(
        bucket.partition,
        bucket.file_id,
        current[bucket.partition, bucket.file_id],
        changes,
        places.positions[changes],
        rows[~known],
    )
