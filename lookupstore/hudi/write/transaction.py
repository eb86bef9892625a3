"""One instant of a table, from its request to the moment at which everybody sees it.

Requested, inflight with what is planned, files; then, under the table's lock: strays deleted,
others' commits looked at, completed. A write that ends before the last step has changed nothing
that a reader sees.

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

# How often a failed write is tried to be taken back.
_TRIES = 3


class KeysToInsert(Protocol):
    """The keys of new rows, wherever they are."""

    def found_in(
        self, view: TableView, files: Sequence[FileSlice]
    ) -> Iterator[tuple[FileSlice, Sequence[str]]]:
        """Yield the base files that have some of the keys, each with a few of these.

        Args:
            view: of the table.
            files: that others wrote meanwhile.
        """


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a write has done, for checks before and after it commits.

    Attributes:
        stats: of the files that it wrote.
        schema: Avro schema of the table's data columns.
        replaced: file groups that are gone with it.
        touched: keys, as an example, of each file group that has a new slice.
        inserted: keys that must not be in the table; None: none.
        overwritten: paths of the partitions all of whose rows are replaced; None: of all.
        placed: by partition, the layout that is kept of it, with the new files that follow it.
    """

    stats: Sequence[WriteStat]
    schema: str
    replaced: Collection[GroupId] = ()
    touched: Mapping[GroupId, Sequence[str]] | None = None
    inserted: KeysToInsert | None = None
    overwritten: Collection[str] | None = ()
    placed: Mapping[str, KeptLayout] = field(default_factory=dict)


class Transaction:
    """One write on its way through the timeline; made by `begun`.

    Args:
        view: the table as the write found it.
        operation: name of the write, as Hudi has it: `UPSERT`, `INSERT_OVERWRITE` and so on.
        instant: of the write, inflight.
        beat: by which others see that the write goes on.
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
        """Return the name of the write, as Hudi has it."""
        return self._operation

    def open_partition(self, partition: str) -> None:
        """Make a folder one of the table's, before a file is written to it."""
        if partition not in self._partitions:
            mark_partition(self._view.location, partition, self.time)
            self._partitions.add(partition)

    def check(self) -> None:
        """Check that no writer assumed this one dead; call it before files get their names.

        Writers of Apache Hudi roll back what is inflight, and do not ask who works on it.

        Raises:
            CommitConflictError: somebody did, and rolled the instant back.
        """
        self._beat.check()
        self._view.folder.check_there(self._instant)

    def complete(self, outcome: Outcome, extra: Mapping[str, str]) -> Instant:
        """Make visible what was written.

        Args:
            outcome: what that is.
            extra: what else the commit is to say.

        Raises:
            CommitConflictError: another writer committed something that is in its way.
            FormatError: the table is meanwhile one that cannot be written to.
            LockedError: others had the lock of the table for too long.
            CommitUnknownError: the last step may have been done or not.
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
        """Take back a write that failed, if that can be done now; else the next writer does it.

        Its files go also if another writer took it back, who may not have found all of them.

        That one cannot tell whose it is if who took this writer for dead deleted its heartbeat: one
        error more must not be what leaves it there.
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
        """Check that no other writer inserted the same keys, which other file groups would hide."""
        newer = () if inserted is None else newer_files(self._view, now)
        if inserted is None or not newer:
            return
        changes = {file: change for change, file in newer}
        for file, keys in inserted.found_in(now, list(changes)):
            raise key_conflict_error(now, changes[file], file, keys)

    def _check_options(self) -> None:
        """Check that readers will look where this write puts its files.

        Java's writers add a metadata table when it suits them: readers then look nowhere else.
        """
        now = read_options(self._view.location)
        # One that was there when the write began is written, too; of another nobody said that.
        is_known = bool(self._view.options.metadata_partitions)
        check_writable(now, self._view.location.uri, MAINTAIN if is_known else REFUSE)
        check_same_layout(now, self._view.options, self._view.location.uri)

    def _check_columns(self, now: TableView) -> None:
        """Check that this commit does not remove columns that another one has added."""
        if now.table_schema.columns != self._view.table_schema.columns:
            last = now.timeline.writes()[-1]
            raise CommitConflictError(
                f"{now.folder.path(last)}: columns of the table changed since this write began; "
                "nothing was committed: write again",
                instant=last.time,
            )

    def _delete_strays(self, known: Collection[str | None]) -> None:
        """Delete files of this instant that are not known: a retried task has left them.

        Two files of one group and instant make a table that nobody can read.
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
    """Request an instant and let it be inflight; a block that fails takes it back.

    Args:
        view: the table as the write found it.
        operation: name of the write, as Hudi has it.
        profile: what the write is about to do.
        replaces: whether it takes file groups away.

    Raises:
        CommitConflictError: a file is gone, since another writer rolled the instant back.
        OSError: a file cannot be written.
    """
    action, plan = COMMIT, b""
    if replaces:
        action, plan = REPLACE, plan_bytes(RequestedReplace())
    # That of a replacecommit, too, is what a commit has: no file groups are replaced yet.
    content = commit_bytes(profile, view.options.version)
    with _begun(view, operation, action, plan, content) as transaction:
        yield transaction


@contextmanager
def begun_clustering(view: TableView, plan: RequestedReplace) -> Iterator[Transaction]:
    """Request a clustering and let it be inflight; see `begun`.

    From then on no other writer replaces the file groups of its plan.

    Args:
        view: the table as it is, by which the plan was made.
        plan: of the clustering.
    """
    action = REPLACE if view.options.version == 6 else CLUSTERING
    with _begun(view, CLUSTER, action, plan_bytes(plan), b"") as transaction:
        yield transaction


@contextmanager
def _begun(
    view: TableView, operation: str, action: str, plan: bytes, content: bytes
) -> Iterator[Transaction]:
    """Request an instant and let it be inflight; see `begun`.

    Args:
        view: of the table.
        operation: name of the write.
        action: of the instant.
        plan: content of its requested file.
        content: of its inflight file.
    """
    with Heartbeats(view.location).request(view.folder, action, plan) as beat:
        instant = view.folder.start(beat.instant, content)
        transaction = Transaction(view, operation, instant, beat)
        try:
            yield transaction
        except CommitUnknownError:
            raise
        except FileNotFoundError:
            # Who took this writer for dead has deleted what it was about to name.
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
