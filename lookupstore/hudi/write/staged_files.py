"""Base files that wait for their names, where several attempts may write the same one.

Attempts of one task that run at the same time, or again, each write a file of their own to a folder
of the instant, which no reader looks into. Of each file group one gets its name, given by the one
who commits; what an attempt writes later than that is never seen. Only files that get a name have a
marker, just before that: the others are in no folder in which they could be taken for rows.

Source: org.apache.hudi.table.marker (WriteMarkers), which deletes from partitions what it can still
find there when it commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from lookupstore.hudi.timeline.work_files import delete_staged, mark, staging_folder
from lookupstore.storage.location import Location

# Most of it is waiting for an object store.
_THREADS = 16


def name_staged_files(location: Location, time: str, files: Mapping[str, bool]) -> None:
    """Give files that wait their names, several at a time, and delete the others.

    Args:
        location: of the table.
        time: of the instant, which is not completed.
        files: paths of the files, relative to the table, as they are going to be, each with
            whether it takes the place of another slice of its group.

    Raises:
        FileExistsError: there is one of that name, on a local disk.
        OSError: a file does not wait there, or cannot be moved.
    """
    folder = staging_folder(time)

    def name(path: str) -> None:
        mark(location, path, time, replaces=files[path])
        location.move(f"{folder}/{path}", path)

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lookupstore-hudi") as pool:
        for _ in pool.map(name, files):
            pass
    delete_staged(location, time)
