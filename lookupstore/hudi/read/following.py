"""The next commits for a reader that follows a table."""

from __future__ import annotations

from lookupstore.hudi.timeline.timeline import WRITES
from lookupstore.hudi.view import TableView


def positions_after(view: TableView, since: str | None) -> list[str]:
    """Return the positions of commits that a reader can safely take next, ascending.

    Since version 8, the position of a commit is its completion time, so that later completions have
    later positions. In version 6 it is the request time. Commits after a pending one then wait for
    it, because a reader would otherwise skip it.

    Args:
        view: State of the table.
        since: Position of the last commit that the reader took. None: it took no commit yet.

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
