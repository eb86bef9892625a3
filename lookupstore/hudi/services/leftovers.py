"""Files without an instant, and instants, that dead writers left in a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lookupstore.hudi.layout import version_time
from lookupstore.hudi.locking.heartbeat import Heartbeats, heartbeat_name
from lookupstore.hudi.timeline.timeline import RESTORE
from lookupstore.hudi.timeline.work_files import MARKERS, ROWS, STAGED
from lookupstore.hudi.view import TableView
from lookupstore.storage.naming import is_temporary

_WORK = {MARKERS: "a marker", STAGED: "a file that waits for its name"}


@dataclass(frozen=True)
class Leftover:
    """A leftover file, or a file of a writer that may be at work.

    Attributes:
        path: Path of the file, relative to the table.
        problem: Description of the file.
    """

    path: str
    problem: str


def find_leftovers(view: TableView) -> Iterator[Leftover]:
    """Yield leftover files, and pending instants of dead writers, by kind.

    Raises:
        FormatError: If a Parquet file is not named as a base file, and the view does not collect
            such files.
    """
    timeline = view.timeline
    heartbeats = Heartbeats(view.location)
    pending = {instant.time: instant for instant in timeline.pending()}
    for time, instant in pending.items():
        if heartbeats.is_dead(time, None):
            path = f"{view.options.timeline}/{instant.file_name}"
            who = "the next writer rolls it back, or completes it"
            if instant.action == RESTORE:
                who = "call restore() with the same savepoint again"
            yield Leftover(path, f"of a dead writer: {who}")
    for time in heartbeats.times():
        if time not in pending:
            yield Leftover(heartbeat_name(time), "a heartbeat without a pending instant")
    writes = timeline.writes()
    committed = {instant.time for instant in writes}
    for file in view.files():
        is_archived = bool(writes) and file.time < writes[0].time
        if file.time not in committed and file.time not in pending and not is_archived:
            yield Leftover(file.path, "a base file without an instant")
    done = committed | set(pending)
    for found in view.location.files(recursive=True):
        name = found.name.rpartition("/")[2]
        work = next((one for one in _WORK if found.name.startswith(f"{one}/")), None)
        if work is not None and found.name[len(work) + 1 :].partition("/")[0] not in pending:
            yield Leftover(found.name, f"{_WORK[work]} without a pending instant")
        elif found.name.startswith(f"{ROWS}/"):
            yield Leftover(found.name, "of rows that wait for a write, which may be at work")
        elif (version := version_time(found.name)) is not None:
            if version not in done and writes and version > writes[0].time:
                yield Leftover(found.name, "statistics of a write that never completed")
        elif is_temporary(name):
            yield Leftover(found.name, "an unfinished file")
