"""Check for pending writes of other programs without a heartbeat."""

from __future__ import annotations

from lookupstore.errors import CommitConflictError
from lookupstore.hudi.locking.heartbeat import Heartbeats
from lookupstore.hudi.timeline.timeline import CLUSTERING, Instant
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.conflict import pending_clustering


def check_none_abandoned(view: TableView) -> None:
    """Check that every pending write has a heartbeat.

    Apache Hudi's default is a single Java writer, which keeps no heartbeat. If that writer dies,
    its successor rolls the write back, but only if nothing was committed after it. Otherwise each
    later write by Java fails with "Found commits after time". Pending clustering does not count.

    Args:
        view: Current view of the table.

    Raises:
        CommitConflictError: If a pending write has no heartbeat.

    Source: BaseRollbackActionExecutor.validateRollbackCommitSequence of Apache Hudi.
    """
    silent = _silent(view)
    if not silent:
        return
    # An instant that was completed meanwhile has no heartbeat any more.
    view = view.reloaded()
    planned = {one.instant.time for one in pending_clustering(view)}
    silent = [
        one
        for one in _silent(view)
        # A pending instant without a request was rolled back before, and is rolled back again.
        if one.time not in planned and not view.folder.is_unrequested(one)
    ]
    if silent:
        raise CommitConflictError(
            f"{view.folder.path(silent[0])}: nothing was written: another program began the write "
            f"{silent[0].time}, has not completed it, and keeps no heartbeat, which would show "
            "whether it is still at work. If it is, wait until it ends. If you know that it died, "
            f"call rollback({silent[0].time!r}). Then write again. After a commit from here Apache "
            "Hudi could not roll that write back, and would refuse all later writes",
            instant=silent[0].time,
            is_pending=True,
        )


def _silent(view: TableView) -> list[Instant]:
    pending = [one for one in view.timeline.pending() if one.is_write and one.action != CLUSTERING]
    # Most tables have no pending instants: their heartbeats need not be listed.
    beating = set(Heartbeats(view.location).times()) if pending else set()
    return [one for one in pending if one.time not in beating]
