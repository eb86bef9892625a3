"""Maintenance of a table, called directly or after each write."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from typing import Literal, overload

from lookupstore.hudi.clustering import (
    cluster,
    is_due,
)
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.layout import optional, said, warn
from lookupstore.hudi.locking.heartbeat import Heartbeats
from lookupstore.hudi.locking.lock import WAIT
from lookupstore.hudi.options import (
    READ_OPTIMIZED,
    REFUSE,
    TABLE_LOCK,
)
from lookupstore.hudi.services.archiver import MAX_COMMITS, MIN_COMMITS, Archival, archive
from lookupstore.hudi.services.check import TableCheck, check_table
from lookupstore.hudi.services.cleaner import clean, files_to_clean
from lookupstore.hudi.services.never_completed import delete_never_completed
from lookupstore.hudi.services.restore import restore
from lookupstore.hudi.services.rollback import (
    roll_back_named,
    roll_back_pending,
)
from lookupstore.hudi.services.savepoint import delete_savepoint, make_savepoint, savepoints
from lookupstore.hudi.services.unfinished import delete_unfinished
from lookupstore.hudi.table.advice import CLEAN, SERVICE
from lookupstore.hudi.table.handle import TableHandle
from lookupstore.hudi.timeline.given_times import given_instant
from lookupstore.hudi.timeline.plans import SavepointMetadata
from lookupstore.hudi.timeline.timeline import Instant
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.result import WriteResult
from lookupstore.keywords import with_advice
from lookupstore.progress import progress_bars
from lookupstore.storage.uris import shown_uri


class ServiceVerbs(TableHandle):
    """Methods that maintain a table."""

    @with_advice(SERVICE.get)
    def rollback(
        self,
        instant: str | Instant | None = None,
        *,
        metadata: str = REFUSE,
        wait: float = WAIT,
        lock: str = TABLE_LOCK,
    ) -> list[Instant]:
        """Roll back the writes of dead writers, and one instant if you name it.

        It also deletes base files of instants that never completed and that other programs rolled
        back without finding these files, and unfinished files of killed writers.

        Readers see the table without the instant as soon as its completed file is deleted.

        Args:
            instant: Request time of the last commit, or of a pending instant whose writer is dead.
                For an instant of another program, only you can know that its writer is dead. None:
                roll back only the instants of dead writers, and warn about those of other programs.
            metadata: What to do if the table has a metadata table: `refuse` the call; `maintain`
                its list of files, if it has no other indexes; `reduce` it to that list first, then
                maintain it; or `drop` it first. In tables of version 6, only `drop` is possible.
            wait: Seconds to wait for the lock of the table while another writer holds it.
            lock: `table`: refuse tables whose properties name another lock. `external`: you hold
                that other lock until the call returns. Both take the lock in the table itself.

        Returns:
            The rollbacks, completed.

        Raises:
            ValueError: If the instant does not exist or cannot be rolled back; the error gives the
                reason.
            LockedError: If another writer held the lock during the whole wait.
            FormatError: If the table cannot be written; the error names the property.
        """
        instant = None if instant is None else given_instant("instant", instant)
        with self._locked(wait, metadata, lock) as (view, held):
            done = roll_back_pending(view, held)
            delete_never_completed(view)
            with optional(self._location, "files of killed writers stay", "a write deletes them"):
                delete_unfinished(view, held)
            left = view.reloaded()
            # A named instant may have been one of those.
            if instant is not None and not view.timeline.has_lost(instant, left.timeline):
                done.append(roll_back_named(left, instant, held))
                left = view.reloaded()
        self._warn_of_others(left)
        return done

    def _warn_of_others(self, view: TableView) -> None:
        """Warn about pending writes of other programs, which a rollback leaves unless named."""
        heartbeats = Heartbeats(self._location)
        for one in view.timeline.pending():
            if one.is_write and heartbeats.owner(one.time) is None:
                warn(
                    f"{shown_uri(self._location.uri)}: still pending: {one.action} {one.time} of "
                    f"another program; if you know that it died, call rollback({one.time!r})"
                )

    @with_advice(SERVICE.get)
    def savepoint(
        self,
        instant: str | Instant | None = None,
        *,
        comment: str = "",
        user: str | None = None,
        metadata: str = REFUSE,
        wait: float = WAIT,
        lock: str = TABLE_LOCK,
    ) -> Instant:
        """Protect the table as of a commit from cleans and rollbacks.

        Args:
            instant: Request time of the commit. None: the last one.
            comment: Text about the purpose of the savepoint.
            user: Name of the user who makes the savepoint. None: the user of the process.
            metadata: What to do if the table has a metadata table: `refuse` the call; `maintain`
                its list of files, if it has no other indexes; `reduce` it to that list first, then
                maintain it; or `drop` it first. In tables of version 6, only `drop` is possible.
            wait: Seconds to wait for the lock of the table while another writer holds it.
            lock: `table`: refuse tables whose properties name another lock. `external`: you hold
                that other lock until the call returns. Both take the lock in the table itself.

        Raises:
            ValueError: If the commit does not exist or has a savepoint, or a clean deleted its
                files.
            LockedError: If another writer held the lock during the whole wait.
            FormatError: If the table cannot be written; the error names the property.
        """
        instant = None if instant is None else given_instant("instant", instant)
        user = getpass.getuser() if user is None else user
        with self._locked(wait, metadata, lock) as (view, held):
            now = datetime.now(timezone.utc)
            return make_savepoint(view, instant, held, user=user, comment=comment, now=now)

    def savepoints(self) -> dict[str, SavepointMetadata]:
        """Return the metadata of each savepoint, by the request time of its commit."""
        return savepoints(self.view())

    @with_advice(SERVICE.get)
    def delete_savepoint(
        self,
        instant: str | Instant,
        *,
        metadata: str = REFUSE,
        wait: float = WAIT,
        lock: str = TABLE_LOCK,
    ) -> None:
        """Delete the savepoint of a commit.

        Args:
            instant: Request time of the commit.
            metadata: What to do if the table has a metadata table: `refuse` the call; `maintain`
                its list of files, if it has no other indexes; `reduce` it to that list first, then
                maintain it; or `drop` it first. In tables of version 6, only `drop` is possible.
            wait: Seconds to wait for the lock of the table while another writer holds it.
            lock: `table`: refuse tables whose properties name another lock. `external`: you hold
                that other lock until the call returns. Both take the lock in the table itself.

        Raises:
            ValueError: If the commit has no savepoint.
            LockedError: If another writer held the lock during the whole wait.
            FormatError: If the table cannot be written; the error names the property.
        """
        instant = given_instant("instant", instant)
        with self._locked(wait, metadata, lock) as (view, held):
            delete_savepoint(view, instant, held)

    @with_advice(SERVICE.get)
    def restore(
        self,
        savepoint: str | Instant,
        *,
        metadata: str = REFUSE,
        wait: float = WAIT,
        lock: str = TABLE_LOCK,
    ) -> list[Instant]:
        """Restore the table to a savepoint, by rolling back every later commit.

        No other program may write during a restore, and nothing can be written until it is
        completed. If a restore was killed, call this method again. Reads during a restore may
        return neither the old nor the new table, except as of the savepoint.

        Args:
            savepoint: Request time of the commit that the savepoint protects.
            metadata: What to do if the table has a metadata table: `refuse` the call; `maintain`
                its list of files, if it has no other indexes; `reduce` it to that list first, then
                maintain it; or `drop` it first. In tables of version 6, only `drop` is possible.
            wait: Seconds to wait for the lock of the table while another writer holds it.
            lock: `table`: refuse tables whose properties name another lock. `external`: you hold
                that other lock until the call returns. Both take the lock in the table itself.

        Returns:
            The rollbacks, then the restore, completed; without a restore if there is no commit
            after the savepoint.

        Raises:
            ValueError: If the savepoint does not exist, or the table cannot be restored to it; the
                error gives the reason.
            CommitConflictError: If another program is writing to the table, or may be.
            LockedError: If another writer held the lock during the whole wait.
            FormatError: If the table cannot be written; the error names the property.
        """
        savepoint = given_instant("savepoint", savepoint)
        with self._locked(wait, metadata, lock, restores=True) as (view, held):
            return restore(view, savepoint, held)

    @overload
    def clean(
        self,
        *,
        retain_commits: int | None = None,
        retain_hours: float | None = None,
        retain_versions: int | None = None,
        metadata: str = REFUSE,
        wait: float = WAIT,
        lock: str = TABLE_LOCK,
        dry_run: Literal[False] = False,
    ) -> list[Instant]: ...

    @overload
    def clean(
        self,
        *,
        retain_commits: int | None = None,
        retain_hours: float | None = None,
        retain_versions: int | None = None,
        metadata: str = REFUSE,
        wait: float = WAIT,
        lock: str = TABLE_LOCK,
        dry_run: Literal[True],
    ) -> list[FileSlice]: ...

    @with_advice(CLEAN.get)
    def clean(
        self,
        *,
        retain_commits: int | None = None,
        retain_hours: float | None = None,
        retain_versions: int | None = None,
        metadata: str = REFUSE,
        wait: float = WAIT,
        lock: str = TABLE_LOCK,
        dry_run: bool = False,
    ) -> list[Instant] | list[FileSlice]:
        """Delete files that no retained commit or savepoint needs.

        Afterwards, time travel to a moment whose files were deleted raises `StaleStoreError`;
        savepoints stay readable. Files that pending writes may have read are kept, so roll back the
        writes of dead writers first.

        Args:
            retain_commits: Number of the last commits to keep readable.
            retain_hours: Number of hours for which earlier states of the table stay readable. With
                `retain_commits`, the clean keeps whichever is more.
            retain_versions: Number of versions to keep of each file group, instead of the other two
                arguments. Only the table as of the last commit is then sure to be readable.
                Replaced file groups are deleted.
            metadata: What to do if the table has a metadata table: `refuse` the call; `maintain`
                its list of files, if it has no other indexes; `reduce` it to that list first, then
                maintain it; or `drop` it first. In tables of version 6, only `drop` is possible.
            wait: Seconds to wait for the lock of the table while another writer holds it.
            lock: `table`: refuse tables whose properties name another lock. `external`: you hold
                that other lock until the call returns. Both take the lock in the table itself.
            dry_run: Whether to change nothing, and only return the files that the clean would
                delete. It takes no lock.

        Returns:
            The cleans, completed, or the files of a dry run, by path; an empty list if there is
            nothing to delete.

        Raises:
            ValueError: If no number is given, a number is out of range, or `retain_versions` is
                given with another one.
            LockedError: If another writer held the lock during the whole wait.
            FormatError: If the table cannot be written; the error names the property.

        >>> import tempfile
        >>> import pyarrow as pa
        >>> from lookupstore.hudi import HudiTable
        >>> rows = pa.table({"id": [1]})
        >>> table = HudiTable.create(tempfile.mkdtemp(), rows, record_key="id")
        >>> first, _ = table.insert(rows), table.upsert(rows)
        >>> (file,) = table.clean(retain_commits=1, dry_run=True)
        >>> file.path == first.files_written[0]
        True
        """
        if dry_run:
            return files_to_clean(
                self._checked(metadata, lock),
                retain_commits=retain_commits,
                retain_hours=retain_hours,
                retain_versions=retain_versions,
                now=datetime.now(timezone.utc),
            )
        with self._locked(wait, metadata, lock) as (view, held):
            # A counted file would otherwise be kept instead of the slice before it.
            delete_never_completed(view)
            return clean(
                view,
                held,
                retain_commits=retain_commits,
                retain_hours=retain_hours,
                retain_versions=retain_versions,
                now=datetime.now(timezone.utc),
            )

    @with_advice(SERVICE.get)
    def archive(
        self,
        *,
        min_commits: int = MIN_COMMITS,
        max_commits: int = MAX_COMMITS,
        metadata: str = REFUSE,
        wait: float = WAIT,
        lock: str = TABLE_LOCK,
    ) -> Archival:
        """Move the oldest commits from the timeline to the archive, if there are many.

        Tables with fewer instants in the timeline are faster to open and to write to. Time travel
        and incremental reads cannot read archived commits; no row is deleted.

        Some commits stay in the timeline, and so do all later ones: those that a savepoint, the
        last clean or a pending instant needs, those that replaced files which still exist, and
        those since the last compaction of a metadata table.

        Args:
            min_commits: Number of the last commits that stay in the timeline; Hudi's
                `hoodie.keep.min.commits`.
            max_commits: Number of commits up to which nothing is archived; Hudi's
                `hoodie.keep.max.commits`.
            metadata: What to do if the table has a metadata table: `refuse` the call; `maintain`
                its list of files, if it has no other indexes; `reduce` it to that list first, then
                maintain it; or `drop` it first. In tables of version 6, only `drop` is possible.
            wait: Seconds to wait for the lock of the table while another writer holds it.
            lock: `table`: refuse tables whose properties name another lock. `external`: you hold
                that other lock until the call returns. Both take the lock in the table itself.

        Returns:
            The archived instants, and the reason why not more were archived.

        Raises:
            ValueError: If a number is out of range.
            LockedError: If another writer held the lock during the whole wait.
            FormatError: If the table cannot be written; the error names the property.
        """
        with self._locked(wait, metadata, lock) as (view, held):
            return archive(view, held, min_commits=min_commits, max_commits=max_commits)

    def verify(self, *, progress: bool | None = None) -> TableCheck:
        """Read every byte of the current table, and list damage and leftover files.

        Log files of a merge-on-read table are read whatever query type the table was opened with.

        It checks instants, names, footers, filters, least and greatest keys, rows, repeated keys,
        log blocks, statistics of commits against files, and the list of files in a metadata table.

        Args:
            progress: Whether to show a progress bar. None: after a second, on a terminal or in a
                notebook.

        Raises:
            CorruptionError: If the properties or the names of the timeline are damaged.
            FormatError: If tables of this kind cannot be read.
            OSError: If a file cannot be read.
        """
        with progress_bars(progress, late=True) as bars:
            view = replace(self.view(), query_type=READ_OPTIMIZED)
            return check_table(view, bars)

    def after_write(self, result: WriteResult, options: WriteOptions) -> WriteResult:
        """Cluster, clean and archive as the options of a write say, and return its result.

        The write is already committed: every exception becomes a warning, and is in the result.

        Args:
            result: Result of the write. After a dry run, nothing follows.
            options: Options of the write.
        """
        services = options.services
        if result.instant is None:
            return result
        cleans: list[Instant] = []
        archived = Archival()
        errors: list[str] = []
        clustering = None
        if services.cluster_by:
            with self._no_error_of_the_write("cluster", errors):
                clustering = self._cluster_if_due(options)
        with self._no_error_of_the_write("clean", errors):
            if services.clean:
                cleans = self.clean(
                    retain_commits=services.retain_commits,
                    retain_hours=services.retain_hours,
                    retain_versions=services.retain_versions,
                    metadata=options.metadata,
                    lock=options.lock,
                )
        if services.archive:
            with self._no_error_of_the_write("archive", errors):
                archived = self.archive(
                    min_commits=services.min_commits,
                    max_commits=services.max_commits,
                    metadata=options.metadata,
                    lock=options.lock,
                )
        return replace(
            result,
            clustering=None if clustering is None else clustering.time,
            cleans=tuple(one.time for one in cleans),
            archived=len(archived.instants),
            service_errors=tuple(errors),
        )

    def _cluster_if_due(self, options: WriteOptions) -> Instant | None:
        """Cluster the table if enough commits followed the last clustering."""
        services = options.services
        if not is_due(self.view(), services.cluster_commits):
            return None
        # The extra metadata belongs to the commit of the write.
        options = replace(options, extra_metadata={})
        view = self.writable(options)
        incremental = services.cluster_incremental
        with progress_bars(options.progress, late=True) as bars:
            done = cluster(
                view,
                services.layout,
                None,
                options,
                incremental=incremental,
                dry_run=False,
                bars=bars,
            )
        return done.instant

    @contextmanager
    def _no_error_of_the_write(self, service: str, errors: list[str]) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            failed = f"{service}() after the write failed, which is committed: {said(error)}"
            errors.append(failed)
            warn(
                f"{self._location.uri}: {failed}; do not write the rows again: call {service}() "
                "when its cause is gone, or leave it to the next write"
            )
