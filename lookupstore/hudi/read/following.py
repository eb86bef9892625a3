"""Which commits a reader that follows a table may take next."""

from __future__ import annotations

from lookupstore.hudi.timeline.timeline import WRITES
from lookupstore.hudi.view import TableView


def positions_after(view: TableView, since: str | None) -> list[str]:
    """Return the positions of commits after one, ascending, up to where none can come between.

    Since version 8 a position is when a commit was completed, and what is completed later comes
    later. In version 6 it is when it was requested: what is behind a pending commit waits for that,
    which would otherwise be passed over.

    Args:
        view: of the table.
        since: position of the last commit that was taken; None: none was.

    Source: HollowCommitHandling (BLOCK) of Apache Hudi.
    """
    end = None
    if view.options.version == 6:
        pending = (one.time for one in view.timeline.pending() if one.action in WRITES)
        end = min(pending, default=None)
    return sorted(
        one.position
        for one in view.timeline.writes()
        if (since is None or one.position > since) and (end is None or one.position < end)
    )
