"""Which file groups a clustering takes, and what its requested file says of that.

Source: org.apache.hudi.table.action.cluster.strategy (PartitionAwareClusteringPlanStrategy,
ClusteringPlanStrategy) and ClusteringUtils of Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from lookupstore.errors import CorruptionError, listed
from lookupstore.hudi.clustering.incremental import Continuation, KeptLayouts
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.layout.choice import LayoutChoice
from lookupstore.hudi.layout.curves.column import Column
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
from lookupstore.hudi.write.conflict import SAMPLE, check_not_clustered, pending_clustering
from lookupstore.hudi.write.plan import CLUSTER
from lookupstore.storage.json_text import parse_json
from lookupstore.storage.location import Location

#: In the commit's `extra_metadata`: the choice by which rows were put in order.
CHOICE = "lookupstore.clustering"

# What a writer in Java would do with the plan, if it took it over.
_STRATEGY = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
_MB = 1 << 20
# Of the choice in a commit.
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class PartitionPlan:
    """What becomes of one partition.

    Attributes:
        partition: its path.
        slices: current base files of the file groups that go.
        files: how many are to come in their place, about.
        continuation: the layout that it goes on with; None: it gets a new one.
    """

    partition: str
    slices: tuple[FileSlice, ...]
    files: int
    continuation: Continuation | None = None

    @property
    def bytes(self) -> int:
        """Return the bytes of the files that go."""
        return sum(one.bytes for one in self.slices)


@dataclass(frozen=True)
class TablePlan:
    """What a clustering is going to do.

    Attributes:
        partitions: those that change, by path.
        unchanged: how many files stay.
    """

    partitions: tuple[PartitionPlan, ...]
    unchanged: int

    @property
    def slices(self) -> list[FileSlice]:
        """Return the current base files of all file groups that go."""
        return [one for plan in self.partitions for one in plan.slices]


def plan_clustering(
    view: TableView,
    choice: LayoutChoice,
    partitions: Collection[str] | None,
    layouts: KeptLayouts | None,
) -> TablePlan:
    """Plan a clustering.

    What the last clustering of a partition wrote, by the same choice, stays if nothing came to it.
    One that goes on with kept layouts takes what these say.

    Args:
        view: of the table as it is.
        choice: of the layout.
        partitions: paths of those that may change; None: all.
        layouts: those that are kept; None: it does not go on with any.

    Raises:
        KeyError: a column or a partition that the table does not have.
        TypeError: a column of the layout has a type without an order.
        CommitConflictError: another clustering of a file group is pending.
        CorruptionError: the timeline is damaged, or a base file was never committed.
    """
    check_columns(view, choice)
    current: dict[str, list[FileSlice]] = {}
    for group in view.groups(None):
        current.setdefault(group.id.partition, []).append(group.current)
    for path in partitions or ():
        if path not in current:
            some = ", ".join(map(repr, sorted(current)[:SAMPLE])) or "none"
            raise KeyError(f"partitions: the table has no partition {path!r}; it has {some}")
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
        KeyError: it does not have one.
        TypeError: one has a type without an order.
    """
    columns = view.table_schema.columns
    for name in choice.by:
        if name not in columns.names:
            known = listed(columns.names)
            raise KeyError(f"by: the table has no column {name!r}; it has {known}")
        Column(columns.field(name))  # says so if it has no order


def is_due(view: TableView, commits: int) -> bool:
    """Return whether enough happened since the last clustering, and none is pending.

    Args:
        view: of the table.
        commits: that are to come between two of them.
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
    """Return the columns of the last clustering that the table still has; none: there was none.

    Raises:
        CorruptionError: the timeline is damaged, or does not say them.
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
    """Return what the requested file of a clustering says."""
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
