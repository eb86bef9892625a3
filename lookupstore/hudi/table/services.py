"""``ServiceVerbs``: what keeps a table in order, called by a person or after each write."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone

from lookupstore.hudi.clustering import (
    cluster,
    is_due,
)
from lookupstore.hudi.layout import (
    optional,
    said,
    warn,
)
from lookupstore.hudi.locking.lock import WAIT
from lookupstore.hudi.options import (
    REFUSE,
    TABLE_LOCK,
)
from lookupstore.hudi.services.archiver import MAX_COMMITS, MIN_COMMITS, Archival, archive
from lookupstore.hudi.services.check import TableCheck, check_table
from lookupstore.hudi.services.cleaner import clean
from lookupstore.hudi.services.never_completed import delete_never_completed
from lookupstore.hudi.services.restore import restore
from lookupstore.hudi.services.rollback import (
    roll_back_named,
    roll_back_pending,
)
from lookupstore.hudi.services.savepoint import delete_savepoint, make_savepoint, savepoints
from lookupstore.hudi.services.unfinished import delete_unfinished
from lookupstore.hudi.table.handle import TableHandle
from lookupstore.hudi.timeline.plans import SavepointMetadata
from lookupstore.hudi.timeline.timeline import Instant, given_instant
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.result import WriteResult
from lookupstore.progress import progress_bars


class ServiceVerbs(TableHandle):
    """What keeps a table in order, beside writes."""

    def rollback(
        self,
        instant: str | Instant | None = None,
        *,
        metadata: str = REFUSE,
        wait: float = WAIT,
        lock: str = TABLE_LOCK,
    ) -> list[Instant]:
        """Roll back what dead writers left, and one instant if it is named.

        Base files of instants that never completed, and that others rolled back without finding
        these files, are deleted as well, and so are files that a killed writer had not finished.

        Readers see the table as it was before that instant as soon as its completed file is gone.

        Args:
            instant: request time of the last commit, or of a pending instant whose writer is dead;
                for those of other programs only the caller can know that.
            metadata: what is done if the table has a metadata table; as of `WriteOptions`.
            wait: how long to wait for the table's lock, in seconds.
            lock: as of `WriteOptions`.

        Returns:
            the rollbacks, completed.

        Raises:
            ValueError: there is no such instant, or it cannot be rolled back; the error says why.
            LockedError: another writer had the lock during the whole wait.
            FormatError: the table is of a kind that is not written.
        """
        instant = None if instant is None else given_instant("instant", instant)
        with self._locked(wait, metadata, lock) as (view, held):
            done = roll_back_pending(view, held)
            delete_never_completed(view)
            with optional(self._location, "files of killed writers stay", "a write deletes them"):
                delete_unfinished(view, held)
            left = view.reloaded()
            # One that was named may have been one of those.
            if instant is not None and not view.timeline.has_lost(instant, left.timeline):
                done.append(roll_back_named(left, instant, held))
            return done

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
        """Protect the table as of a commit: no clean removes its files, no rollback undoes it.

        Args:
            instant: request time of the commit; None: the last one.
            comment: why the commit is kept.
            user: who keeps it; None: the user of the process.
            metadata: what is done if the table has a metadata table; as of `WriteOptions`.
            wait: how long to wait for the table's lock, in seconds.
            lock: as of `WriteOptions`.

        Raises:
            ValueError: there is no such commit, it has a savepoint, or its files were cleaned.
            LockedError: another writer had the lock during the whole wait.
            FormatError: the table is of a kind that is not written.
        """
        instant = None if instant is None else given_instant("instant", instant)
        user = getpass.getuser() if user is None else user
        with self._locked(wait, metadata, lock) as (view, held):
            now = datetime.now(timezone.utc)
            return make_savepoint(view, instant, held, user=user, comment=comment, now=now)

    def savepoints(self) -> dict[str, SavepointMetadata]:
        """Return what each savepoint keeps, by the request time of its commit."""
        return savepoints(self.view())

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
            instant: request time of the commit.
            metadata: what is done if the table has a metadata table; as of `WriteOptions`.
            wait: how long to wait for the table's lock, in seconds.
            lock: as of `WriteOptions`.

        Raises:
            ValueError: the commit has no savepoint.
            LockedError: another writer had the lock during the whole wait.
            FormatError: the table is of a kind that is not written.
        """
        instant = given_instant("instant", instant)
        with self._locked(wait, metadata, lock) as (view, held):
            delete_savepoint(view, instant, held)

    def restore(
        self,
        savepoint: str | Instant,
        *,
        metadata: str = REFUSE,
        wait: float = WAIT,
        lock: str = TABLE_LOCK,
    ) -> list[Instant]:
        """Restore the table to a savepoint: roll back all that was committed after it.

        No other program may write meanwhile, and until it is completed nothing can be written: if
        it was killed, call it again. What is read meanwhile may be neither the old nor the new
        table, except as of the savepoint.

        Args:
            savepoint: request time of the commit that it keeps.
            metadata: what is done if the table has a metadata table; as of `WriteOptions`.
            wait: how long to wait for the table's lock, in seconds.
            lock: as of `WriteOptions`.

        Returns:
            the rollbacks, then the restore, completed; no restore if nothing came after the
            savepoint.

        Raises:
            ValueError: there is no such savepoint, or the table cannot be restored to it; the error
                says why.
            CommitConflictError: another program is, or may be, writing to the table.
            LockedError: another writer had the lock during the whole wait.
            FormatError: the table is of a kind that is not written.
        """
        savepoint = given_instant("savepoint", savepoint)
        with self._locked(wait, metadata, lock, restores=True) as (view, held):
            return restore(view, savepoint, held)

    def clean(
        self,
        *,
        retain_commits: int | None = None,
        retain_hours: float | None = None,
        retain_versions: int | None = None,
        metadata: str = REFUSE,
        wait: float = WAIT,
        lock: str = TABLE_LOCK,
    ) -> list[Instant]:
        """Remove files that no retained commit or savepoint needs.

        Time travel to older commits misses rows afterwards, except to savepoints. What pending
        writes may have read stays, so roll back what dead writers left first.

        Args:
            retain_commits: how many of the last commits stay readable.
            retain_hours: for how many hours back the table stays readable; with `retain_commits`,
                whichever is more.
            retain_versions: how many versions of each file group stay, in place of the others: only
                the table as of the last commit is then readable for sure. Replaced file groups go.
            metadata: what is done if the table has a metadata table; as of `WriteOptions`.
            wait: how long to wait for the table's lock, in seconds.
            lock: as of `WriteOptions`.

        Returns:
            the cleans, completed; none if there was nothing to remove.

        Raises:
            ValueError: none is given, or one is out of range.
            LockedError: another writer had the lock during the whole wait.
            FormatError: the table is of a kind that is not written.
        """
        with self._locked(wait, metadata, lock) as (view, held):
            # One that counts would be kept in the place of the slice before it.
            delete_never_completed(view)
            return clean(
                view,
                held,
                retain_commits=retain_commits,
                retain_hours=retain_hours,
                retain_versions=retain_versions,
                now=datetime.now(timezone.utc),
            )

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

        A table is opened, and written to, the sooner the fewer instants its timeline has. What is
        archived cannot be read by time travel and incremental reads any more; no row goes. So none
        goes that a savepoint, the last clean or a pending instant needs, nor one that replaced
        files which are still there, nor one since the last compaction of a metadata table, and no
        later one.

        Args:
            min_commits: how many of the last commits stay; Hudi's `hoodie.keep.min.commits`.
            max_commits: up to how many nothing is done; Hudi's `hoodie.keep.max.commits`.
            metadata: what is done if the table has a metadata table; as of `WriteOptions`.
            wait: how long to wait for the table's lock, in seconds.
            lock: as of `WriteOptions`.

        Returns:
            what was archived, and why not more was.

        Raises:
            ValueError: a number is out of range.
            LockedError: another writer had the lock during the whole wait.
            FormatError: the table is of a kind that is not written.
        """
        with self._locked(wait, metadata, lock) as (view, held):
            return archive(view, held, min_commits=min_commits, max_commits=max_commits)

    def verify(self, *, progress: bool | None = None) -> TableCheck:
        """Read every byte of the current table, and list what is damaged and what is left over.

        Of a merge-on-read table these are the base files and the timeline, without the log files.

        Instants, names, footers, filters, least and greatest keys, rows, repeated keys, statistics
        of commits against files, what a metadata table lists.

        Args:
            progress: show a progress bar; None shows it after a second, on a terminal or in a
                notebook.

        Raises:
            CorruptionError: the properties or the names of the timeline are damaged.
            FormatError: the table is of a kind that is not read.
            OSError: a file could not be read.
        """
        with progress_bars(progress, late=True) as bars:
            return check_table(self.view(), bars)

    def after_write(self, result: WriteResult, options: WriteOptions) -> WriteResult:
        """Cluster, clean and archive, as the options of a write say, and return its result so.

        The write is committed: what fails, whatever it raises, is a warning, and is in the result.

        Args:
            result: of the write; nothing follows one that was only tried.
            options: of it.
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
        """Put rows in order, if that was not done for long, and nobody is at it."""
        services = options.services
        if not is_due(self.view(), services.cluster_commits):
            return None
        # What the commit of the write is to keep is of the write.
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
