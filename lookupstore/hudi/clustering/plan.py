"""The file groups that a clustering replaces, and its requested file.

Source: org.apache.hudi.table.action.cluster.strategy (PartitionAwareClusteringPlanStrategy,
ClusteringPlanStrategy) and ClusteringUtils of Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from lookupstore.errors import CorruptionError, listed, meant
from lookupstore.hudi.clustering.incremental import Continuation, KeptLayouts
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.layout.choice import LayoutChoice
from lookupstore.hudi.layout.curves.column import SortColumn
from lookupstore.hudi.options import SORT_COLUMNS
from lookupstore.hudi.services.never_completed import check_completed
from lookupstore.hudi.timeline.plans import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    ClusteringStrategy,
    RequestedReplace,
)
from lookupstore.hudi.timeline.timeline import REPLACE
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.conflict import check_not_clustered, pending_clustering
from lookupstore.hudi.write.named_partitions import check_partitions
from lookupstore.hudi.write.plan import CLUSTER
from lookupstore.storage.json_text import parse_json
from lookupstore.storage.location import Location

#: Key in the `extra_metadata` of a commit for the choice of the order of rows.
CHOICE = "lookupstore.clustering"

# Strategy with which a writer in Java would execute the plan if it took the plan over.
_STRATEGY = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
_MB = 1 << 20
# Maximum size of the choice in a commit, in bytes.
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class PartitionPlan:
    """The plan for one partition.

    Attributes:
        partition: Path of the partition.
        slices: Current base files of the file groups to replace.
        files: Approximate number of files that replace them.
        continuation: Kept layout that the partition continues. None: a new layout.
    """

    partition: str
    slices: tuple[FileSlice, ...]
    files: int
    continuation: Continuation | None = None

    @property
    def bytes(self) -> int:
        """Return the size of the files to replace, in bytes."""
        return sum(one.bytes for one in self.slices)


@dataclass(frozen=True)
class TablePlan:
    """The plan of a clustering.

    Attributes:
        partitions: Plans of the partitions that change, ordered by path.
        unchanged: Number of files that are not replaced.
    """

    partitions: tuple[PartitionPlan, ...]
    unchanged: int

    @property
    def slices(self) -> list[FileSlice]:
        """Return the current base files of all file groups to replace."""
        return [one for plan in self.partitions for one in plan.slices]


def plan_clustering(
    view: TableView,
    choice: LayoutChoice,
    partitions: Collection[str] | None,
    layouts: KeptLayouts | None,
) -> TablePlan:
    """Plan a clustering.

    Files that one clustering with the same choice wrote are not rewritten if no other files are
    next to them in their partition. An incremental clustering rewrites the files that its kept
    layouts choose.

    Args:
        view: Current view of the table.
        choice: Columns, curve, mapping and file sizes of the layout.
        partitions: Paths of the partitions that may change. Default: all partitions.
        layouts: Kept layouts to continue. None: the clustering is not incremental.

    Raises:
        KeyError: If the table does not have a column or a partition.
        TypeError: If a column of the layout has a type without an order.
        CommitConflictError: If another clustering of a file group is pending.
        CorruptionError: If the timeline is damaged, or a base file was never committed.
    """
    check_columns(view, choice)
    current: dict[str, list[FileSlice]] = {}
    for file in view.current():
        current.setdefault(file.group.partition, []).append(file)
    check_partitions(partitions or (), current)
    done = set(_done(view, choice)) if layouts is None else set()
    planned = []
    for path, slices in sorted(current.items()):
        if partitions is not None and path not in partitions:
            continue
        continuation = None
        if layouts is None:
            limit = choice.small_file_limit
            taken = [one for one in slices if limit is None or one.bytes < limit]
        else:
            taken, continuation = layouts.taken(view, path, slices)
        times = {one.time for one in taken}
        if not taken or (len(times) < 2 and times <= done):
            continue
        size = sum(one.bytes for one in taken)
        files = max(1, round(size / choice.target_file_size))
        planned.append(PartitionPlan(path, tuple(taken), files, continuation))
    count = sum(map(len, current.values())) - sum(len(one.slices) for one in planned)
    plan = TablePlan(tuple(planned), count)
    check_completed(view, plan.slices)
    check_not_clustered(view, {one.group: () for one in plan.slices})
    return plan


def check_columns(view: TableView, choice: LayoutChoice) -> None:
    """Check that the table has the columns of a choice, and that they have an order.

    Raises:
        KeyError: If the table does not have a column.
        TypeError: If a column has a type without an order.
    """
    columns = view.table_schema.columns
    for name in choice.by:
        if name not in columns.names:
            others = meant(name, columns.names, f"it has {listed(columns.names)}")
            raise KeyError(f"by: the table has no column {name!r}{others}")
        SortColumn(columns.field(name))  # raises an error if it has no order


def is_due(view: TableView, commits: int) -> bool:
    """Return whether enough commits followed the last clustering, and none is pending.

    Args:
        view: View of the table.
        commits: Minimum number of commits between two clusterings.
    """
    since = 0
    for instant in reversed(view.timeline.writes()):
        if since >= commits:
            break
        if instant.action == REPLACE and view.commit(instant).operation == CLUSTER:
            return False
        since += 1
    return since >= commits and not pending_clustering(view)


def last_columns(view: TableView) -> tuple[str, ...]:
    """Return the columns of the last clustering that the table still has.

    Empty: no clustering is in the timeline.

    Raises:
        CorruptionError: If the timeline is damaged, or its entry of the columns.
    """
    for instant in reversed(view.timeline.writes()):
        said = None
        if instant.action == REPLACE:
            said = (view.commit(instant).extra_metadata or {}).get(CHOICE)
        if said is not None:
            path = view.folder.path(instant)
            try:
                by = parse_json(said.encode(), path, "columns", most_bytes=_MOST_BYTES)["by"]
            except (KeyError, TypeError, UnicodeEncodeError) as error:
                raise CorruptionError(path, 0, "columns of a clustering", error) from error
            if not isinstance(by, list):
                raise CorruptionError(path, 0, "columns of a clustering", by)
            return tuple(one for one in by if one in view.table_schema.columns.names)
    return ()


def requested(location: Location, plan: TablePlan, choice: LayoutChoice) -> RequestedReplace:
    """Return the content of the requested file of a clustering."""
    groups = tuple(_group(location, one) for one in plan.partitions)
    strategy = ClusteringStrategy(_STRATEGY, {SORT_COLUMNS: ",".join(choice.by)})
    return RequestedReplace(CLUSTER, ClusteringPlan(groups, strategy), {}, 1)


def _done(view: TableView, choice: LayoutChoice) -> Iterator[str]:
    """Yield the times of clusterings by the same choice."""
    said = choice.to_json()
    for instant in view.timeline.writes():
        is_one = instant.action == REPLACE
        if is_one and (view.commit(instant).extra_metadata or {}).get(CHOICE) == said:
            yield instant.time


def _group(location: Location, plan: PartitionPlan) -> ClusteringGroup:
    size = float(plan.bytes // _MB)
    return ClusteringGroup(
        _slices(location, plan.slices),
        plan.files,
        {
            "TOTAL_IO_MB": 2 * size,
            "TOTAL_IO_READ_MB": size,
            "TOTAL_IO_WRITE_MB": size,
            "TOTAL_LOG_FILES": 0.0,
            "TOTAL_LOG_FILES_SIZE": 0.0,
        },
    )


def _slices(location: Location, slices: Sequence[FileSlice]) -> tuple[ClusteringSlice, ...]:
    return tuple(
        ClusteringSlice(location.full(one.path), one.group.file_id, one.group.partition)
        for one in slices
    )
