"""Plan, rewrite and commit a clustering.

Source: BaseHoodieTableServiceClient.cluster and SparkExecuteClusteringCommitActionExecutor of
Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Protocol

from lookupstore.hudi.clustering.incremental import KeptLayouts
from lookupstore.hudi.clustering.plan import (
    CHOICE,
    PartitionPlan,
    TablePlan,
    check_columns,
    plan_clustering,
    requested,
)
from lookupstore.hudi.clustering.result import ClusterResult
from lookupstore.hudi.clustering.rewrite import Rewrite, stored_rows
from lookupstore.hudi.layout import (
    KeptLayout,
    LayoutChoice,
    collect,
    keep_layout,
    names_with,
    optional_layout,
    optional_statistics,
    start,
)
from lookupstore.hudi.locking.lock import table_lock
from lookupstore.hudi.timeline.commit import WriteStat
from lookupstore.hudi.timeline.names import GroupId
from lookupstore.hudi.timeline.timeline import Instant
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.steps import Steps
from lookupstore.hudi.write.transaction import Outcome, Transaction, begun_clustering
from lookupstore.progress import Bars


class PartitionsRewrite(Protocol):
    """A writer of the new files of a clustering, in this process or in others.

    Attributes:
        rows: Number of rows that were written.
        spilled_bytes: Bytes of rows that were spilled to disk, as far as they are known.
        kept: Layouts that a later clustering continues, by partition path.
    """

    rows: int
    spilled_bytes: int
    kept: dict[str, KeptLayout]

    def write_all(self, plans: Sequence[PartitionPlan]) -> list[WriteStat]:
        """Write the files of all partitions, and return their entries for the commit."""


class Rewriting(Protocol):
    """A factory of the writer of a clustering."""

    def __call__(
        self,
        view: TableView,
        choice: LayoutChoice,
        options: WriteOptions,
        transaction: Transaction,
        steps: Steps,
    ) -> PartitionsRewrite:
        """Return the writer of the new files; see `Rewrite` for the arguments."""


def cluster(
    view: TableView,
    choice: LayoutChoice,
    partitions: Collection[str] | None,
    options: WriteOptions,
    *,
    incremental: bool,
    dry_run: bool,
    rewriting: Rewriting | None = None,
    bars: Bars | None = None,
) -> ClusterResult:
    """Put the rows of a table in order, in new file groups.

    Rows keep their meta columns, so that readers of changes do not see them again.

    Args:
        view: View of a table that can be written to.
        choice: Columns, curve, mapping and file sizes of the layout.
        partitions: Paths of the partitions that may change. Default: all partitions.
        options: Memory, threads, spill folder, file format and metadata of the write.
        incremental: Whether to continue the kept layouts and to rewrite only new and overlapping
            files.
        dry_run: Whether to return the plan as a result without writing anything.
        rewriting: Factory of a writer that runs elsewhere. Default: this process writes the files.
        bars: Factory of progress bars. Default: no progress bars.

    Raises:
        KeyError: If the table does not have a column or a partition.
        TypeError: If a column of the layout has a type without an order.
        CommitConflictError: If another clustering of a file group is pending, or another writer
            committed a conflicting change.
        CorruptionError: If the timeline or a file is damaged, or a base file was never committed.
        FormatError: If a column of a file cannot be widened to the type in the table, or the table
            can no longer be written to.
        StaleStoreError: If a file was deleted.
        LockedError: If other processes held the lock of the table for too long.
        CommitUnknownError: If it is unknown whether the last step of the commit succeeded.
        OSError: If a file cannot be read or written, or there is no room to spill.
    """
    steps = Steps()
    layouts = KeptLayouts(choice, partitions) if incremental else None
    if layouts is not None:
        check_columns(view, choice)
        with steps.step("plan"):
            layouts.look(view)
    if dry_run:
        with steps.step("plan"):
            plan = plan_clustering(view, choice, partitions, layouts)
            rows = sum(stored_rows(view.location, one) for one in plan.slices)
        files = sum(one.files for one in plan.partitions)
        return _result(None, plan, rows, files, (), 0, steps)
    with ExitStack() as stack:
        # The plan contains commits before the request; writers that commit later see the request.
        with steps.step("plan"), table_lock(view.location):
            view = view.reloaded()
            plan = plan_clustering(view, choice, partitions, layouts)
            if not plan.partitions:
                return _result(None, plan, 0, 0, (), 0, steps)
            planned = requested(view.location, plan, choice)
            transaction = stack.enter_context(begun_clustering(view, planned))
        begin = rewriting
        if begin is None:
            begin = partial(Rewrite, incremental=incremental, bars=bars)
        rewrite = begin(view, choice, options, transaction, steps)
        stats = rewrite.write_all(plan.partitions)
        gone = {one.group for one in plan.slices}
        outcome = Outcome(stats, view.table_schema.avro, gone)
        with steps.step("commit"):
            _keep_layouts(view, rewrite.kept)
            extra = {**options.extra_metadata, CHOICE: choice.to_json()}
            instant = transaction.complete(outcome, extra)
            with optional_statistics(view.location):
                _start_statistics(view.reloaded(), choice.by)
    return _result(instant, plan, rewrite.rows, len(stats), stats, rewrite.spilled_bytes, steps)


def _keep_layouts(view: TableView, layouts: Mapping[str, KeptLayout]) -> None:
    """Keep layouts before the clustering is completed, and warn of failures."""
    if not layouts:
        return
    with table_lock(view.location):
        groups: dict[str, list[GroupId]] = {}
        for group in view.reloaded().groups(None):
            groups.setdefault(group.id.partition, []).append(group.id)
        for partition, kept in layouts.items():
            with optional_layout(view.location):
                keep_layout(view.location, partition, kept, groups.get(partition, ()))


def _start_statistics(view: TableView, by: Sequence[str]) -> None:
    """Start statistics of the columns that the rows are ordered by."""
    names = names_with(view, by)
    if names is None:
        return
    collected = collect(view, names)
    with table_lock(view.location):
        start(view.reloaded(), collected, names)


def _result(
    instant: Instant | None,
    plan: TablePlan,
    rows: int,
    files: int,
    stats: Sequence[WriteStat],
    spilled: int,
    steps: Steps,
) -> ClusterResult:
    return ClusterResult(
        instant,
        partitions=len(plan.partitions),
        rows=rows,
        files_before=len(plan.slices),
        files_after=files,
        files_unchanged=plan.unchanged,
        bytes_before=sum(one.bytes for one in plan.slices),
        bytes_after=sum(one.total_write_bytes or 0 for one in stats),
        bytes_spilled=spilled,
        seconds=steps.seconds,
    )
