"""Files that a killed writer had not finished: hidden ones beside the partitions, and staged ones.

No reader takes them for anything, but they may be large. Rollback deletes what has a name.
"""

from __future__ import annotations

import re

from lookupstore.hudi.timeline.work_files import STAGED, delete_staged
from lookupstore.hudi.view import TableView

# Base files and their markers, and log files of the metadata table.
_NAME = re.compile(
    r"(\.[^_]+|[^_]+_[^_]+)_(?P<time>\d+)\.(parquet(\.marker\.[A-Z]+)?|log\.\d+_[0-9-]+)"
)


def delete_unfinished(view: TableView) -> None:
    """Delete unfinished files of dead writers, and what tasks wrote too late.

    Args:
        view: of the table; its timeline need not be that of the moment.
    """
    found = [(match["time"], name) for name, final in view.location.unfinished().items()
             if (match := _NAME.fullmatch(final))]  # fmt: skip
    staged = [name.rpartition("/")[2] for name in view.location.folders(STAGED)]
    if not found and not staged:
        return
    # Read after the files were listed: whoever is at work on one of them has begun before that.
    pending = {instant.time for instant in view.folder.load().pending()}
    for time, name in found:
        if time not in pending:
            view.location.delete(name)
    for time in staged:
        if time not in pending:
            delete_staged(view.location, time)
