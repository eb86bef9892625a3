"""``Transaction``: one instant of a table, from its request until readers see it.

A write requests the instant, makes it inflight with the plan, and writes files. Then it deletes
stray files, takes the table's lock, checks the commits of other writers, and completes the instant.
A write that ends before the last step has changed nothing that a reader sees.

Source: org.apache.hudi.client.BaseHoodieWriteClient (commitStats, preCommit).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from lookupstore.errors import CommitConflictError, CommitUnknownError
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.partition_metadata import mark_partition
from lookupstore.hudi.layout import (
    KeptLayout,
    TableStatistics,
    keep_statistics,
    new_statistics,
    optional_layout,
    optional_statistics,
    place_files,
)
from lookupstore.hudi.locking.heartbeat import Heartbeat, Heartbeats
from lookupstore.hudi.locking.lock import table_lock
from lookupstore.hudi.metadata.maintain import metadata_table
from lookupstore.hudi.options import (
    MAINTAIN,
    REFUSE,
    check_same_layout,
    check_writable,
    read_options,
)
from lookupstore.hudi.services.rollback import (
    check_not_restored,
    check_not_rolled_back,
    take_back,
)
from lookupstore.hudi.timeline.commit import (
    SCHEMA,
    WRITER,
    CommitMetadata,
    WriteStat,
    commit_bytes,
)
from lookupstore.hudi.timeline.names import GroupId
from lookupstore.hudi.timeline.plans import RequestedReplace, plan_bytes
from lookupstore.hudi.timeline.timeline import CLUSTERING, COMMIT, REPLACE, Instant
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.conflict import (
    check_groups,
    check_overwritten,
    key_conflict_error,
    newer_files,
)
from lookupstore.hudi.write.plan import CLUSTER

# Number of attempts to undo a failed write.
_TRIES = 3


class KeysToInsert(Protocol):
    """The keys of new rows, in memory or elsewhere."""

    def found_in(
        self, view: TableView, files: Sequence[FileSlice]
    ) -> Iterator[tuple[FileSlice, Sequence[str]]]:
        """Yield the base files that contain some of the keys, each with a few of these.

        Args:
            view: View of the table.
            files: Base files that other writers committed since this write began.
        """


@dataclass(frozen=True, eq=False)
class Outcome:
    """The files and keys of a write, for the checks before its commit.

    Attributes:
        stats: Commit entries of the new files.
        schema: Avro schema of the table's data columns, as JSON.
        replaced: File groups that the write removes from the table.
        touched: A few keys of each file group that has a new slice, for errors. None: no
            existing file group has a new slice.
        inserted: Keys that must not be in the table. None: the write does not check keys.
        overwritten: Paths of the partitions that the write overwrites. None: all partitions.
        placed: Layouts of partitions by path, with the new files that follow them.
    """

    stats: Sequence[WriteStat]
    schema: str
    replaced: Collection[GroupId] = ()
    touched: Mapping[GroupId, Sequence[str]] | None = None
    inserted: KeysToInsert | None = None
    overwritten: Collection[str] | None = ()
    placed: Mapping[str, KeptLayout] = field(default_factory=dict)


class Transaction:
    """One write and its instant; made by `begun` and `begun_clustering`.

    Args:
        view: Table as the write found it.
        operation: Hudi's name of the write, such as `UPSERT` or `INSERT_OVERWRITE`.
        instant: Requested instant of the write.
        beat: Heartbeat that shows other writers that the write is alive.
    """

    def __init__(self, view: TableView, operation: str, instant: Instant, beat: Heartbeat) -> None:
        self._view = view
        self._operation = operation
        self._instant = instant
        self._beat = beat
        self._partitions: set[str] = set()

    @property
    def time(self) -> str:
        """Return the time of the instant."""
        return self._instant.time

    @property
    def operation(self) -> str:
        """Return Hudi's name of the write, such as `UPSERT`."""
        return self._operation

    def start(self, content: bytes) -> None:
        """Make the instant inflight.

        If this writer was taken for dead meanwhile, another one may have rolled the instant back.
        The inflight file is then there alone, until `roll_back_now` deletes it.

        Args:
            content: Content of the inflight file.

        Raises:
            CommitConflictError: If another writer rolled the instant back.
            FileNotFoundError: If another writer deleted the file before it had its name.
        """
        self._instant = self._view.folder.start(self._instant, content)

    def open_partition(self, partition: str) -> None:
        """Mark a folder as a partition of the table, before a file is written to it."""
        if partition not in self._partitions:
            mark_partition(self._view.location, partition, self.time)
            self._partitions.add(partition)

    def check(self) -> None:
        """Check that no other writer has rolled back the instant.

        Call it before files are renamed. Apache Hudi's writers may roll back an inflight instant
        although its writer is alive.

        Raises:
            CommitConflictError: If another writer rolled the instant back.
        """
        self._beat.check()
        self._view.folder.check_there(self._instant)

    def complete(self, outcome: Outcome, extra: Mapping[str, str]) -> Instant:
        """Commit the files of the write.

        Args:
            outcome: Files and keys of the write.
            extra: Further metadata of the commit, as texts by name.

        Raises:
            CommitConflictError: If another writer committed a conflicting change.
            FormatError: If the table was changed to one that cannot be written to.
            LockedError: If other writers held the lock of the table for too long.
            CommitUnknownError: If it is unknown whether the instant was completed.
        """
        metadata = CommitMetadata(
            stats=_by_partition(outcome.stats),
            extra_metadata={WRITER: self._beat.owner.name, **extra, SCHEMA: outcome.schema},
            operation=self._operation,
            replaced=None if self._instant.action == COMMIT else _replaced(outcome.replaced),
        )
        content = commit_bytes(metadata, self._view.options.version)
        self._delete_strays({stat.path for stat in outcome.stats})
        location, path = self._view.location, self._view.folder.path(self._instant)
        statistics: TableStatistics | None = None
        with optional_statistics(location):
            statistics = new_statistics(location, outcome.stats, outcome.schema, path)
        with table_lock(location, owner=self._beat.owner) as lock:
            now = self._view.reloaded()
            self._check_options()
            check_not_rolled_back(now, self._instant)
            check_not_restored(now)
            self._check_columns(now)
            touched = dict.fromkeys(outcome.replaced, ()) | dict(outcome.touched or {})
            check_groups(self._view, now, touched, self.time)
            check_overwritten(self._view, now, outcome.overwritten)
            self._check_keys(now, outcome.inserted)
            self._beat.check()
            if (listed := metadata_table(now)) is not None:
                listed.add(self.time, outcome.stats, lock)
            if statistics is not None:
                with optional_statistics(location):
                    keep_statistics(now, self.time, statistics, outcome.replaced)
            for partition, layout in outcome.placed.items():
                with optional_layout(location):
                    place_files(location, partition, layout)
            try:
                return self._view.folder.complete(self._instant, content, lock.check)
            except FileExistsError:
                raise
            except OSError as error:
                raise CommitUnknownError(
                    f"{self._view.folder.path(self._instant)}: may or may not be completed: {error}"
                ) from error

    def roll_back_now(self) -> None:
        """Roll back a failed write, if possible; otherwise the next writer does.

        The files of the write are deleted even if another writer rolled it back already, because
        that writer may have missed some of them.

        An `OSError` is tried again: if another writer deleted the heartbeat of this one, the next
        writer cannot tell the owner of the write, and would leave it in the table.
        """
        location, owner = self._view.location, self._beat.owner
        for _ in range(_TRIES):
            try:
                with table_lock(location, owner=owner) as lock:
                    take_back(self._view, self._instant, lock)
            except OSError:
                continue
            except Exception:
                return
            return

    def _check_keys(self, now: TableView, inserted: KeysToInsert | None) -> None:
        """Check that no other writer inserted the same keys into other file groups."""
        newer = () if inserted is None else newer_files(self._view, now)
        if inserted is None or not newer:
            return
        changes = {file: change for change, file in newer}
        for file, keys in inserted.found_in(now, list(changes)):
            raise key_conflict_error(now, changes[file], file, keys)

    def _check_options(self) -> None:
        """Check that readers will list the files of this write.

        Apache Hudi's Java writers may add a metadata table at any time. Readers then list only the
        files in that table.
        """
        now = read_options(self._view.location)
        # A metadata table that existed when the write began is updated; for a new one, no choice
        # was made.
        is_known = bool(self._view.options.metadata_partitions)
        check_writable(now, self._view.location.uri, MAINTAIN if is_known else REFUSE)
        check_same_layout(now, self._view.options, self._view.location.uri)

    def _check_columns(self, now: TableView) -> None:
        """Check that the columns of the table have not changed since the write began."""
        if now.table_schema.columns != self._view.table_schema.columns:
            last = now.timeline.writes()[-1]
            raise CommitConflictError(
                f"{now.folder.path(last)}: columns of the table changed since this write began; "
                "nothing was committed: write again",
                instant=last.time,
            )

    def _delete_strays(self, known: Collection[str | None]) -> None:
        """Delete files of this instant that are not in the commit.

        A retried task leaves such files. A table with two files of one file group and instant
        cannot be read.
        """
        location = self._view.location
        for partition in sorted(self._partitions):
            for file in location.files(partition):
                if file.name.endswith(f"_{self.time}.parquet") and file.name not in known:
                    location.delete(file.name)


@contextmanager
def begun(
    view: TableView, operation: str, profile: CommitMetadata, *, replaces: bool
) -> Iterator[Transaction]:
    """Request an instant and make it inflight; roll it back if the block fails.

    Args:
        view: Table as the write found it.
        operation: Hudi's name of the write, such as `UPSERT`.
        profile: Planned numbers of rows to insert, by partition, and to update, by file.
        replaces: Whether the write removes file groups.

    Raises:
        CommitConflictError: If a file is missing because another writer rolled the instant back.
        OSError: If a file cannot be written.
    """
    action, plan = COMMIT, b""
    if replaces:
        action, plan = REPLACE, plan_bytes(RequestedReplace())
    # A replacecommit has the same content as a commit here: no file groups are replaced yet.
    content = commit_bytes(profile, view.options.version)
    with _begun(view, operation, action, plan, content) as transaction:
        yield transaction


@contextmanager
def begun_clustering(view: TableView, plan: RequestedReplace) -> Iterator[Transaction]:
    """Request a clustering and make it inflight; see `begun`.

    From then on other writers do not replace the file groups of its plan.

    Args:
        view: Table from which the plan was made.
        plan: Plan of the clustering.
    """
    action = REPLACE if view.options.version == 6 else CLUSTERING
    with _begun(view, CLUSTER, action, plan_bytes(plan), b"") as transaction:
        yield transaction


@contextmanager
def _begun(
    view: TableView, operation: str, action: str, plan: bytes, content: bytes
) -> Iterator[Transaction]:
    """Request an instant and make it inflight; see `begun`.

    Args:
        view: Table as the write found it.
        operation: Hudi's name of the write, such as `UPSERT`.
        action: Action of the instant, such as `commit`.
        plan: Content of the requested file.
        content: Content of the inflight file.
    """
    with Heartbeats(view.location).request(view.folder, action, plan) as beat:
        transaction = Transaction(view, operation, beat.instant, beat)
        try:
            transaction.start(content)
            yield transaction
        except CommitUnknownError:
            raise
        except FileNotFoundError:
            # A writer that considered this one dead has deleted the file before its rename.
            try:
                beat.check()
            finally:
                transaction.roll_back_now()
            raise
        except Exception:
            transaction.roll_back_now()
            raise


def _by_partition(stats: Sequence[WriteStat]) -> dict[str, tuple[WriteStat, ...]]:
    found: dict[str, list[WriteStat]] = {}
    for stat in stats:
        found.setdefault(stat.partition_path or "", []).append(stat)
    return {partition: tuple(many) for partition, many in found.items()}


def _replaced(groups: Collection[GroupId]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for group in sorted(groups):
        found.setdefault(group.partition, []).append(group.file_id)
    return {partition: tuple(ids) for partition, ids in found.items()}
