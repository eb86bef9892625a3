"""Base files that a killed writer had not finished: hidden files beside the partitions.

No reader takes them for anything, but they may be large. Rollback deletes what has a name.
"""

from __future__ import annotations

import re

from lookupstore.hudi.view import TableView

_NAME = re.compile(r"[^_]+_[^_]+_(?P<time>\d+)\.parquet")


def delete_unfinished(view: TableView) -> int:
    """Delete unfinished base files of dead writers, and return how many.

    Args:
        view: of the table; its timeline need not be that of the moment.
    """
    found = [(match["time"], name) for name, final in view.location.unfinished().items()
             if (match := _NAME.fullmatch(final))]  # fmt: skip
    if not found:
        return 0
    # Read after the files were listed: whoever is at work on one of them has begun before that.
    pending = {instant.time for instant in view.folder.load().pending()}
    dead = [name for time, name in found if time not in pending]
    for name in dead:
        view.location.delete(name)
    return len(dead)
