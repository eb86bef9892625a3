"""Writes of other programs that began and show no sign of life, past which nothing is committed."""

from __future__ import annotations

from lookupstore.errors import CommitConflictError
from lookupstore.hudi.locking.heartbeat import Heartbeats
from lookupstore.hudi.timeline.timeline import CLUSTERING, Instant
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.conflict import pending_clustering


def check_none_abandoned(view: TableView) -> None:
    """Check that no write is pending that has no heartbeat.

    A writer in Java that is the only one of its table, which is Hudi's default, keeps no heartbeat.
    If it died, its successor rolls the write back, but only if nothing was committed after it:
    otherwise each later write by Java fails with "Found commits after time".

    Args:
        view: The table as it is.

    Raises:
        CommitConflictError: if there is such a write.

    Source: BaseRollbackActionExecutor.validateRollbackCommitSequence of Apache Hudi.
    """
    silent = _silent(view)
    if not silent:
        return
    # One that was completed meanwhile has no heartbeat any more.
    view = view.reloaded()
    planned = {one.instant.time for one in pending_clustering(view)}
    silent = [one for one in _silent(view) if one.time not in planned]
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
    # Most tables have nothing that is pending: their heartbeats need not be listed.
    beating = set(Heartbeats(view.location).times()) if pending else set()
    return [one for one in pending if one.time not in beating]
