"""Updates of a metadata table's `files` partition by writes of a table.

Each write of the table adds an instant to the metadata table. It is completed under the table's
lock, before the instant of the table. Until the instant of the table is completed, readers skip
that of the metadata table. If a writer dies in between, the instant of the table stays pending, and
its rollback rolls back both.

Java writers compact, clean and archive the metadata table. If no correct entry can be added in its
current state, it is deleted, and readers list the folders again.

Source: HoodieBackedTableMetadataWriter of Apache Hudi.
"""

from __future__ import annotations

import time as clock
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from lookupstore.errors import CommitConflictError, FormatError
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.locking.lock import TableLock
from lookupstore.hudi.log.blocks import HFILE, INSTANT_HEADER, SCHEMA_HEADER, block_bytes
from lookupstore.hudi.metadata.files_partition import FOLDER, FilesPartition, files_partition
from lookupstore.hudi.metadata.group_files import LOG_FILE, TIMELINE
from lookupstore.hudi.metadata.records import FileInfo, changes_bytes, schema_bytes, table_schema
from lookupstore.hudi.options import (
    DROP,
    FILES,
    REDUCE,
    check_metadata_table,
    drop_metadata_table,
    metadata_remedy,
    read_options,
    reduce_metadata_table,
)
from lookupstore.hudi.timeline.commit import (
    SCHEMA,
    CommitMetadata,
    RuntimeStats,
    WriteStat,
    commit_bytes,
)
from lookupstore.hudi.timeline.names import BASE_FILE
from lookupstore.hudi.timeline.plans import (
    InstantInfo,
    RollbackMetadata,
    RollbackPartition,
    RollbackPlan,
    RollbackRequest,
    plan_bytes,
)
from lookupstore.hudi.timeline.timeline import (
    COMMIT,
    DELTA_COMMIT,
    ROLLBACK,
    Instant,
    State,
    Timeline,
)
from lookupstore.hudi.view import TableView

_OPERATION = "UPSERT_PREPPED"
_COMPACTIONS = ("compaction", "logcompaction")
# Token of a task in file names; there is no task.
_TOKEN = "0-0-0"
# Maximum number of log files: a reader of the metadata table reads them all; Java compacts ten.
_MOST_LOGS = 100


def prepared(view: TableView, choice: str) -> TableView:
    """Prepare the metadata table for a write, and return the table after it.

    The caller holds the lock of the table, and has checked that the choice fits the table.

    Args:
        view: Current state of the table.
        choice: Choice for the metadata table, one of `METADATA_CHOICES`.

    Raises:
        FormatError: If a pending compaction needs the partitions that `reduce` removes.
    """
    location, options = view.location, view.options
    if choice == DROP:
        return replace(view, options=drop_metadata_table(location, options))
    if FILES not in options.metadata_partitions:
        return view
    table = MetadataTable(view)
    if choice == REDUCE:
        table.check_not_compacting()
        options = reduce_metadata_table(location, options)
    if table.has_many_logs():
        options = drop_metadata_table(location, options)
    return replace(view, options=options)


def metadata_table(view: TableView) -> MetadataTable | None:
    """Return the metadata table that readers use now; None: they list folders.

    Raises:
        FormatError: If the metadata table is missing, or has another version.
    """
    options = read_options(view.location)
    # The metadata table of version 6 has other names; it is deleted before anything is written.
    if FILES not in options.metadata_partitions or options.version == 6:
        return None
    return MetadataTable(replace(view, options=options))


def forget_instant(view: TableView, time: str, rollback: str, lock: TableLock) -> None:
    """Roll back an instant in the metadata table; see `MetadataTable.roll_back`."""
    if (table := _written_table(view)) is not None:
        table.roll_back(time, rollback, lock)


def forget_files(view: TableView, files: Collection[FileSlice]) -> None:
    """Make sure that never committed files are not listed before they are deleted.

    Java may have listed them in a metadata table that it made while they existed.
    """
    if files and (table := _written_table(view)) is not None:
        table.drop_if_listed({file.time for file in files})


def _written_table(view: TableView) -> MetadataTable | None:
    """Return the metadata table, or None if lookupstore never writes to its kind."""
    try:
        return metadata_table(view)
    except FormatError:
        return None


class MetadataTable:
    """The metadata table of a table; its caller holds the table's lock.

    Args:
        view: State of the table with current options.
    """

    def __init__(self, view: TableView) -> None:
        check_metadata_table(view.location, view.options)
        self._view = view
        self._location = view.location
        self._folder = view.folder.beside(TIMELINE)

    def has(self, time: str) -> bool:
        """Return whether an instant of the table is completed in the metadata table."""
        return any(one.time == time and one.is_completed for one in self._commits())

    def has_many_logs(self) -> bool:
        """Return whether reading the metadata table is slower than listing folders."""
        return len(self._partition().logs) >= _MOST_LOGS

    def compacted(self) -> str:
        """Return the time of the last compaction, or an empty text."""
        done = (one.time for one in self._folder.load() if _is_compacted(one))
        return max(done, default="")

    def check_not_compacting(self) -> None:
        """Check that no compaction is pending, which would need files of other partitions.

        Raises:
            FormatError: If a compaction is pending.
        """
        for instant in self._compactions(self._folder.load()):
            raise FormatError(
                f"{self._folder.path(instant)}: a compaction of the metadata table is pending; let "
                f"its writer end it, or {metadata_remedy(DROP)}"
            )

    def add(self, time: str, stats: Iterable[WriteStat], lock: TableLock) -> None:
        """Add the files that a commit wrote; see `_record`."""
        changes: dict[str, dict[str, FileInfo]] = {}
        for stat in stats:
            info = FileInfo(stat.file_size_in_bytes or 0, False)
            name = (stat.path or "").rpartition("/")[2]
            changes.setdefault(stat.partition_path or "", {})[name] = info
        self._record(time, changes, lock)

    def remove(self, time: str, gone: Mapping[str, Sequence[str]], lock: TableLock) -> None:
        """Remove files that a clean has deleted; see `_record`."""
        deleted = FileInfo(0, True)
        self._record(
            time, {one: dict.fromkeys(names, deleted) for one, names in gone.items()}, lock
        )

    def _record(
        self, time: str, changes: Mapping[str, Mapping[str, FileInfo]], lock: TableLock
    ) -> None:
        """Record the changes of an instant, before it is completed in the table.

        Raises:
            CommitConflictError: If another writer completed the instant.
            LockLostError: If the lock was lost; nothing was completed.
        """
        if self.has(time):
            path = f"{self._location.show(TIMELINE)}/{time}"
            raise CommitConflictError(f"{path}: completed by another writer", instant=time)
        lock.check()
        file_id = self._partition().file_id
        instant = Instant(time, DELTA_COMMIT, State.REQUESTED)
        version = self._view.options.version
        # A writer that died may have begun.
        with suppress(FileExistsError):
            self._folder.request_at(time, DELTA_COMMIT)
        with suppress(FileExistsError):
            planned = CommitMetadata(operation=_OPERATION)
            self._folder.start(instant, commit_bytes(planned, version))
        name = f".{file_id}_{time}.log.1_{_TOKEN}"
        headers = {INSTANT_HEADER: time.encode(), SCHEMA_HEADER: schema_bytes()}
        records = changes_bytes(changes, round(clock.time() * 1000))
        content = block_bytes(HFILE, headers, records)
        lock.check()
        self._location.replace(f"{FOLDER}/{name}", content)
        count = len(changes) + 1
        stat = WriteStat(
            file_id=file_id,
            path=f"{FILES}/{name}",
            prev_commit=time,
            num_writes=count,
            num_update_writes=count,
            total_write_bytes=len(content),
            file_size_in_bytes=len(content),
            partition_path=FILES,
            log_version=1,
            log_offset=0,
            base_file="",
            log_files=(name,),
            runtime_stats=RuntimeStats(),
        )
        done = CommitMetadata({FILES: (stat,)}, False, {SCHEMA: table_schema()}, None, _OPERATION)
        inflight = replace(instant, state=State.INFLIGHT)
        self._folder.complete(inflight, commit_bytes(done, version), lock.check)

    def roll_back(self, time: str, rollback: str, lock: TableLock) -> None:
        """Roll back what a pending or withdrawn instant wrote to the metadata table.

        Every step can be repeated: a writer that finishes the rollback of the table also finishes
        this one.

        Args:
            time: Request time of the instant.
            rollback: Request time of the table's rollback, which is inflight.
            lock: Lock of the table, which is held.

        Raises:
            LockLostError: If the lock was lost; the next writer continues.
        """
        lock.check()
        timeline = self._folder.load()
        compacted = [one for one in timeline if _is_compacted(one)]
        later = [one for one in [*compacted, *self._compactions(timeline)] if one.time >= time]
        if later and any(_is(one, time, DELTA_COMMIT) for one in timeline):
            # In that case its files are, or will be, in a base file: Java refuses such a rollback.
            self._drop()
        elif not self.drop_if_listed({time}):
            self._roll_back(timeline, time, rollback, lock)

    def drop_if_listed(self, times: Collection[str]) -> bool:
        """Delete the metadata table and return True, if a base file lists given instants.

        Entries of log files of these instants do not count.
        """
        partition = self._partition()
        logs = tuple(
            name
            for name, time in zip(partition.logs, partition.log_times, strict=True)
            if time not in times
        )
        listing = replace(partition, logs=logs).listing(self._location)
        for names in listing.files.values():
            for name in names:
                match = BASE_FILE.fullmatch(name)
                if match is not None and match["time"] in times:
                    self._drop()
                    return True
        return False

    def _roll_back(self, timeline: Timeline, time: str, rollback: str, lock: TableLock) -> None:
        began = clock.monotonic()
        target = next((one for one in timeline if _is(one, time, DELTA_COMMIT)), None)
        undo = next((one for one in timeline if _is(one, rollback, ROLLBACK)), None)
        if undo is None and target is None:
            return
        info = InstantInfo(time, DELTA_COMMIT)
        logs = self._logs_of(time)
        if undo is None:
            full = tuple(self._location.full(f"{FOLDER}/{name}") for name in logs)
            plan = RollbackPlan(info, (RollbackRequest(FILES, full),))
            undo = self._folder.request_at(rollback, ROLLBACK, plan_bytes(plan))
        if undo.state is State.REQUESTED:
            undo = self._folder.start(undo)
        lock.check()
        if target is not None and target.is_completed:
            self._folder.delete(target)
        for name in logs:
            self._location.delete(f"{FOLDER}/{name}")
        self._location.sync(FOLDER)
        for state in (State.INFLIGHT, State.REQUESTED):
            self._folder.delete(Instant(time, DELTA_COMMIT, state))
        if undo.is_completed:
            return
        metadata = RollbackMetadata(
            start_rollback_time=rollback,
            time_taken_in_millis=round((clock.monotonic() - began) * 1000),
            total_files_deleted=len(logs),
            commits_rollback=(time,),
            partition_metadata={FILES: RollbackPartition(FILES, tuple(logs))},
            instants_rollback=(info,),
        )
        self._folder.complete(undo, plan_bytes(metadata), lock.check)

    def _logs_of(self, time: str) -> list[str]:
        names = [file.name.rpartition("/")[2] for file in self._location.files(FOLDER)]
        found = [match for match in map(LOG_FILE.fullmatch, names) if match]
        return [match[0] for match in found if match["time"] == time]

    def _partition(self) -> FilesPartition:
        return files_partition(self._location, self._view.folder.load(), self._folder)

    def _commits(self) -> list[Instant]:
        return [one for one in self._folder.load() if one.action == DELTA_COMMIT]

    @staticmethod
    def _compactions(timeline: Timeline) -> list[Instant]:
        """Return the pending compactions; completed ones are commits."""
        done = {one.time for one in timeline if one.is_completed}
        return [one for one in timeline if one.action in _COMPACTIONS and one.time not in done]

    def _drop(self) -> None:
        drop_metadata_table(self._location, self._view.options)


def _is_compacted(instant: Instant) -> bool:
    return instant.action == COMMIT and instant.is_completed


def _is(instant: Instant, time: str, action: str) -> bool:
    return (instant.time, instant.action) == (time, action)
