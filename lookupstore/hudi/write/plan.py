"""``WritePlan``: the files that a write is about to make.

A plan needs only the numbers of rows, and not the rows themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.timeline.commit import CommitMetadata, WriteStat
from lookupstore.hudi.timeline.names import GroupId
from lookupstore.hudi.timeline.timeline import COMMIT
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.boxes import Boxes, NewRows
from lookupstore.hudi.write.conflict import pending_clustering
from lookupstore.hudi.write.partitioner import (
    Bucket,
    FileSize,
    FileSizing,
    Load,
    Packing,
    average_record_size,
    pack,
)

# Hudi's names of the writes.
UPSERT = "UPSERT"
INSERT = "INSERT"
DELETE = "DELETE"
BULK_INSERT = "BULK_INSERT"
INSERT_OVERWRITE = "INSERT_OVERWRITE"
INSERT_OVERWRITE_TABLE = "INSERT_OVERWRITE_TABLE"
DELETE_PARTITION = "DELETE_PARTITION"
CLUSTER = "CLUSTER"


@dataclass(frozen=True)
class PlannedFile:
    """A base file to write.

    Attributes:
        partition: Path of the partition that contains the file.
        file_id: Id of the file group.
        current: Slice that the file replaces. None: the file group is new.
    """

    partition: str
    file_id: str
    current: FileSlice | None

    @property
    def group(self) -> GroupId:
        """Return the file group of the file."""
        return GroupId(self.partition, self.file_id)


@dataclass(frozen=True)
class Replaced:
    """The file groups that a write removes, regardless of its rows.

    Attributes:
        slices: Current base files of the removed file groups.
        partitions: Paths of the partitions that lose all of their rows. None: all partitions.
    """

    slices: Sequence[FileSlice]
    partitions: Collection[str] | None


@dataclass(frozen=True, eq=False)
class WritePlan:
    """The plan of a write.

    Attributes:
        operation: Hudi's name of the write, such as `UPSERT`.
        files: Files to write. The index of a file is the number of its task.
        loads: Numbers of rows to insert and to update, by partition path.
        replaced: File groups that the write removes. None: the write removes no file group.
        boxes: Files of the new rows by their position in a layout, by partition path.
        numbers: Number of each file in `boxes`, in the order of `files`.
    """

    operation: str
    files: tuple[PlannedFile, ...]
    loads: Mapping[str, Load]
    replaced: Replaced | None = None
    boxes: Mapping[str, Boxes] = field(default_factory=dict)
    numbers: Sequence[int] = ()

    @property
    def rewritten(self) -> list[FileSlice]:
        """Return the slices that the files of the plan replace."""
        return [one.current for one in self.files if one.current is not None]

    def profile(self) -> CommitMetadata:
        """Return the content of the inflight file: the planned numbers of rows by file."""
        times = {one.group.file_id: one.time for one in self.rewritten}
        stats = {}
        for path, load in self.loads.items():
            updates = [
                WriteStat(file_id=file_id, prev_commit=times[file_id], num_update_writes=count)
                for file_id, count in load.updates.items()
            ]
            stats[path] = (WriteStat(num_inserts=load.inserts), *updates)
        return CommitMetadata(stats=stats, operation=self.operation)


def plan_files(
    view: TableView,
    loads: Mapping[str, Load],
    slices: Sequence[FileSlice],
    sizing: FileSizing,
    new_rows: Mapping[str, NewRows],
) -> tuple[Packing, dict[str, Boxes]]:
    """Plan the files of a write from the numbers of its rows.

    Args:
        view: View of the table.
        loads: Numbers of rows to insert and to update, by partition path.
        slices: Current base files. Small ones may receive new rows.
        sizing: Target sizes of files.
        new_rows: New rows of the partitions that keep a layout, by partition path.

    Returns:
        Files to write, and the files of new rows in partitions that keep a layout.
    """
    sizes: dict[str, list[FileSize]] = {}
    for one in slices:
        if one.group.partition in loads:
            size = FileSize(one.group.file_id, one.bytes)
            sizes.setdefault(one.group.partition, []).append(size)
    # No rows may be inserted into files that a clustering is about to replace.
    pending: dict[str, set[str]] = {}
    for change in pending_clustering(view):
        for group in change.groups:
            pending.setdefault(group.partition, set()).add(group.file_id)
    inserts = any(load.inserts for load in loads.values())
    record_size = average_record_size(_written(view), sizing) if inserts else sizing.record_size
    if not new_rows:
        return pack(loads, sizes, record_size, sizing, pending=pending), {}
    loads, changed, in_order = dict(loads), {}, {}
    for path, rows in new_rows.items():
        files = [one for one in slices if one.group.partition == path]
        changed[path] = rows.boxes(loads[path], files)
        rest = rows.beside(placed for placed, _ in changed[path].values())
        # Estimates from a sample are inexact: there is always a file for further rows.
        rest = replace(rest, count=max(1, rest.count))
        sizes[path] = [one for one in sizes.get(path, ()) if one.file_id not in rows.kept.files]
        fits = sum(
            max(0, (sizing.max_file_size - one.size) // record_size)
            for one in sizes[path]
            if one.size < sizing.small_file_limit and one.file_id not in pending.get(path, ())
        )
        if rest.count > fits:
            in_order[path] = rest
        loads[path] = replace(loads[path], inserts=0 if path in in_order else rest.count)
    packing = pack(loads, sizes, record_size, sizing, pending=pending)
    buckets, boxes = list(packing.buckets), {}
    for path, rows in new_rows.items():
        numbers = {one.file_id: one.number for one in packing.buckets if one.partition == path}
        for file_id, (_, count) in changed[path].items():
            number = numbers[file_id]
            buckets[number] = replace(buckets[number], inserts=count)
        cells, new = [], range(0)
        if path in in_order:
            cells = in_order[path].cells()
            new = range(len(buckets), len(buckets) + len(cells) + 1)
            each = -(-in_order[path].count // len(new))
            buckets += (Bucket(number, path, None, 0, each) for number in new)
        placed = {numbers[file_id]: one for file_id, (one, _) in changed[path].items()}
        boxes[path] = Boxes.of(rows, placed, cells, new)
    return Packing(tuple(buckets), packing.targets, boxes), boxes


def planned_files(
    buckets: Iterable[Bucket], slices: Sequence[FileSlice], new_id: Callable[[], str]
) -> tuple[PlannedFile, ...]:
    """Return the file of each bucket: the next slice of a file group, or a new group.

    Args:
        buckets: Buckets that receive rows.
        slices: Current base files.
        new_id: Function that returns the id of a new file group.
    """
    current = {one.group: one for one in slices}
    return tuple(
        PlannedFile(one.partition, new_id(), None)
        if one.file_id is None
        else PlannedFile(one.partition, one.file_id, current[GroupId(one.partition, one.file_id)])
        for one in buckets
    )


def _written(view: TableView) -> Iterator[tuple[int, int]]:
    """Yield the bytes and rows that each commit wrote, newest first."""
    for instant in reversed(view.timeline.writes()):
        if instant.action == COMMIT:
            stats = [one for many in (view.commit(instant).stats or {}).values() for one in many]
            yield (
                sum(one.total_write_bytes or 0 for one in stats),
                sum(one.num_writes or 0 for one in stats),
            )
