"""Unfinished files of killed writers: hidden files next to partitions, and staged files.

Readers ignore them, but they may be large. Rollback deletes files with final names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lookupstore.hudi.locking.heartbeat import WAKES, Heartbeats
from lookupstore.hudi.locking.lock import TableLock
from lookupstore.hudi.locking.owner import MOST_BYTES, parse_owner
from lookupstore.hudi.timeline.work_files import STAGED, delete_staged
from lookupstore.hudi.view import TableView

# Patterns of the names of base files and their markers, log files of the metadata table, and
# instants.
_NAME = re.compile(
    r"(\.[^_]+|[^_]+_[^_]+)_(?P<time>\d+)\.(parquet(\.marker\.[A-Z]+)?|log\.\d+_[0-9-]+)"
    r"|(?P<instant>\d{14,})(_\d+)?\.[a-z.]+"
)


def delete_unfinished(view: TableView, lock: TableLock) -> None:
    """Delete unfinished files of dead writers, and staged files of ended instants.

    Args:
        view: View of the table; its timeline may be out of date.
        lock: Lock of the table, which the caller holds.
    """
    unfinished = view.location.unfinished()
    staged = [name.rpartition("/")[2] for name in view.location.folders(STAGED)]
    if not unfinished and not staged:
        return
    heartbeats = Heartbeats(view.location)
    now = lock.now()
    alive = {one for one in heartbeats.times() if not heartbeats.is_dead(one, now)}
    # The timeline is read after the files were listed: writers of these files began before that.
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
    """Yield files that name a dead owner, and files that are a day old.

    Locks and heartbeats name their owners. A file into which no byte was written does not.
    """
    ages = {one.name: one.modified for one in view.location.files()} if names else {}
    for name in names:
        if (modified := ages.get(name)) is None:
            continue  # it has been renamed
        try:
            owner = parse_owner(view.location.read(name, MOST_BYTES))
        except OSError:
            continue
        is_old = now is not None and now - modified > WAKES
        if is_old or (owner is not None and owner.is_gone):
            yield name
