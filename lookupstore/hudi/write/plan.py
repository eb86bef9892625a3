"""Which files a write makes, and what it is about to say of them.

Plans are made of numbers of rows; nothing is read of the rows themselves.
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

# Names of the writes, as Hudi has them.
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
        partition: folder of it.
        file_id: of its group.
        current: slice that it replaces; None: its group is a new one.
    """

    partition: str
    file_id: str
    current: FileSlice | None

    @property
    def group(self) -> GroupId:
        """Return the file group that it becomes part of."""
        return GroupId(self.partition, self.file_id)


@dataclass(frozen=True)
class Replaced:
    """What goes with a write as a whole, whatever its rows are.

    Attributes:
        slices: current base files of the file groups that go.
        partitions: paths of those all of whose rows go; None: the whole table's.
    """

    slices: Sequence[FileSlice]
    partitions: Collection[str] | None


@dataclass(frozen=True, eq=False)
class WritePlan:
    """What a write is going to do.

    Attributes:
        operation: name of the write, as Hudi has it.
        files: that it writes; their numbers are those of its tasks.
        loads: rows to insert and to update, by partition path.
        replaced: what goes with it; None: it only changes and inserts rows.
        boxes: by partition, where rows go that follow a layout.
        numbers: of the files, by which `boxes` has them.
    """

    operation: str
    files: tuple[PlannedFile, ...]
    loads: Mapping[str, Load]
    replaced: Replaced | None = None
    boxes: Mapping[str, Boxes] = field(default_factory=dict)
    numbers: Sequence[int] = ()

    @property
    def rewritten(self) -> list[FileSlice]:
        """Return the slices that its files replace."""
        return [one.current for one in self.files if one.current is not None]

    def profile(self) -> CommitMetadata:
        """Return what the inflight file of the write says: the rows each file is going to get."""
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
        view: of the table.
        loads: rows to insert and to update, by partition path.
        slices: current base files, which rows to insert may fill up.
        sizing: of files.
        new_rows: of the partitions that keep a layout.

    Returns:
        the files, and where rows go that follow a layout.
    """
    sizes: dict[str, list[FileSize]] = {}
    for one in slices:
        if one.group.partition in loads:
            size = FileSize(one.group.file_id, one.bytes)
            sizes.setdefault(one.group.partition, []).append(size)
    # Nothing may be inserted to what clustering is about to take away.
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
        # What comes of a sample is not quite right: there always is a place for other rows.
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
    """Return the files of buckets, each a next slice of its file group, or of a new one.

    Args:
        buckets: that get rows.
        slices: current base files.
        new_id: gives ids of new file groups.
    """
    current = {one.group: one for one in slices}
    return tuple(
        PlannedFile(one.partition, new_id(), None)
        if one.file_id is None
        else PlannedFile(one.partition, one.file_id, current[GroupId(one.partition, one.file_id)])
        for one in buckets
    )


def _written(view: TableView) -> Iterator[tuple[int, int]]:
    """Yield bytes and rows that each commit wrote, newest first."""
    for instant in reversed(view.timeline.writes()):
        if instant.action == COMMIT:
            stats = [one for many in (view.commit(instant).stats or {}).values() for one in many]
            yield (
                sum(one.total_write_bytes or 0 for one in stats),
                sum(one.num_writes or 0 for one in stats),
            )
