"""Base files that wait for their names, where several attempts may write the same one.

Attempts of one task that run at the same time, or again, each write a file of their own to
`.hoodie/.temp/<instant>/`, which no reader looks into. Of each file group one gets its name, given
by the one who commits; what an attempt writes later than that is never seen.

Source: org.apache.hudi.table.marker (WriteMarkers), which deletes from partitions what it can still
find there when it commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from lookupstore.hudi.options import META_FOLDER
from lookupstore.storage.location import Location

# Most of it is waiting for an object store.
_THREADS = 16


def staging_folder(time: str) -> str:
    """Return the folder, relative to the table, in which files of an instant wait.

    >>> staging_folder("20260307135657661")
    '.hoodie/.temp/20260307135657661'
    """
    return f"{META_FOLDER}/.temp/{time}"


def name_staged_files(location: Location, time: str, paths: Sequence[str]) -> None:
    """Give files that wait their names, several at a time, and delete the others.

    Args:
        location: of the table.
        time: of the instant, which is not completed.
        paths: of the files, relative to the table, as they are going to be.

    Raises:
        FileExistsError: there is one of that name, on a local disk.
        OSError: a file does not wait there, or cannot be moved.
    """
    folder = staging_folder(time)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lookupstore-hudi") as pool:
        for _ in pool.map(lambda path: location.move(f"{folder}/{path}", path), paths):
            pass
    location.delete_folder(folder)
