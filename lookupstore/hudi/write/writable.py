"""Prepare a table for a write: check it, and roll back dead writers."""

from __future__ import annotations

from lookupstore.hudi.keys.time_paths import time_paths
from lookupstore.hudi.layout import optional
from lookupstore.hudi.locking.lock import table_lock
from lookupstore.hudi.metadata.maintain import prepared
from lookupstore.hudi.options import TableOptions, check_lock, check_writable, read_options
from lookupstore.hudi.services.rollback import check_not_restored, roll_back_pending
from lookupstore.hudi.services.unfinished import delete_unfinished
from lookupstore.hudi.timeline.commit import CommitMetadata
from lookupstore.hudi.timeline.timeline import Instant
from lookupstore.hudi.view import TableView, read_view
from lookupstore.hudi.write.abandoned import check_none_abandoned
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.shown_rules import check_partitions, check_shown_rules
from lookupstore.storage.location import Location


def writable_view(
    location: Location,
    commits: dict[Instant, CommitMetadata],
    options: WriteOptions,
    *,
    dry_run: bool,
) -> TableView:
    """Check a table for a write, roll back dead writers, and return its view.

    Args:
        location: Location of the table.
        commits: Metadata of completed instants that were read before. The view adds those that it
            reads.
        options: Options of the write.
        dry_run: Whether to change nothing.

    Raises:
        FormatError: If the table cannot be written to. The error names the property or file.
        CommitConflictError: If another program is restoring the table to a savepoint, or began a
            write and keeps no heartbeat for it.
    """
    # A table of another kind is not even locked.
    _check_writable(location, read_options(location), options)
    if dry_run:
        view = read_view(location, commits=commits, clock=options.clock)
        _check_rules(view)
        return view
    with table_lock(location) as lock:
        view = read_view(location, commits=commits, clock=options.clock)
        _check_writable(location, view.options, options)
        _check_rules(view)
        view = prepared(view, options.metadata)
        roll_back_pending(view, lock)
        with optional(location, "files of killed writers stay", "the next write deletes them"):
            delete_unfinished(view, lock)
    return view.reloaded()


def _check_rules(view: TableView) -> None:
    view.check_partitions("write with Apache Hudi")
    check_shown_rules(view)
    check_partitions(view)
    check_not_restored(view)
    view.folder.check_clock(view.timeline)
    check_none_abandoned(view)


def _check_writable(location: Location, known: TableOptions, options: WriteOptions) -> None:
    check_writable(known, location.uri, options.metadata)
    time_paths(known, location.uri)
    check_lock(known, location, options.lock)
