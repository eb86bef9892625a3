"""Files that a killed writer had not finished: hidden ones beside the partitions, and staged ones.

No reader takes them for anything, but they may be large. Rollback deletes what has a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lookupstore.hudi.locking.heartbeat import WAKES, Heartbeats
from lookupstore.hudi.locking.lock import TableLock
from lookupstore.hudi.locking.owner import MOST_BYTES, parse_owner
from lookupstore.hudi.timeline.work_files import STAGED, delete_staged
from lookupstore.hudi.view import TableView

# Base files and their markers, log files of the metadata table, and instants.
_NAME = re.compile(
    r"(\.[^_]+|[^_]+_[^_]+)_(?P<time>\d+)\.(parquet(\.marker\.[A-Z]+)?|log\.\d+_[0-9-]+)"
    r"|(?P<instant>\d{14,})(_\d+)?\.[a-z.]+"
)


def delete_unfinished(view: TableView, lock: TableLock) -> None:
    """Delete unfinished files of dead writers, and what tasks wrote too late.

    Args:
        view: of the table; its timeline need not be that of the moment.
        lock: of the table, which is held.
    """
    unfinished = view.location.unfinished()
    staged = [name.rpartition("/")[2] for name in view.location.folders(STAGED)]
    if not unfinished and not staged:
        return
    heartbeats = Heartbeats(view.location)
    now = lock.now()
    alive = {one for one in heartbeats.times() if not heartbeats.is_dead(one, now)}
    # Read after the files were listed: whoever is at work on one of them has begun before that.
    pending = {instant.time for instant in view.folder.load().pending()}
    unnamed = []
    for name, final in unfinished.items():
        match = _NAME.fullmatch(final)
        if match is None:
            unnamed.append(name)
        elif (match["time"] or match["instant"]) not in pending | alive:
            view.location.delete(name)
    for name in _of_dead_owners(view, unnamed, now):
        view.location.delete(name)
    for time in staged:
        if time not in pending:
            delete_staged(view.location, time)


def _of_dead_owners(view: TableView, names: list[str], now: float | None) -> Iterator[str]:
    """Yield the files that name an owner who is dead, and those that are a day old.

    Locks and heartbeats name their owners. A file of which not a byte was written does not.
    """
    ages = {one.name: one.modified for one in view.location.files()} if names else {}
    for name in names:
        if (modified := ages.get(name)) is None:
            continue  # it has its name by now
        try:
            owner = parse_owner(view.location.read(name, MOST_BYTES))
        except OSError:
            continue
        is_old = now is not None and now - modified > WAKES
        if is_old or (owner is not None and owner.is_gone):
            yield name
