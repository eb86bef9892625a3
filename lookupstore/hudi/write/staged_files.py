"""Move staged base files to their final paths when a write commits.

Files are staged where several attempts of a task may write the same file.

Each attempt of a task writes its own file to a folder of the instant, which readers ignore. The
committing process moves one file of each file group to its final path. Files that an attempt writes
later are never seen. A file receives its marker just before it is moved.

Source: org.apache.hudi.table.marker (WriteMarkers), which instead deletes the files of failed
attempts from partitions when it commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from lookupstore.hudi.timeline.work_files import delete_staged, mark, staging_folder
from lookupstore.storage.location import Location

# Number of threads: most of their time is waiting for an object store.
_THREADS = 16


def name_staged_files(location: Location, time: str, files: Mapping[str, bool]) -> None:
    """Move some staged files to their final paths, and delete the others.

    Args:
        location: Location of the table.
        time: Time of the instant, which is not completed.
        files: Whether each file replaces another slice of its file group, by the final path of the
            file, relative to the table.

    Raises:
        FileExistsError: If a file of that name exists on a local disk.
        OSError: If a file was not staged, or cannot be moved.
    """
    folder = staging_folder(time)

    def name(path: str) -> None:
        mark(location, path, time, replaces=files[path])
        location.move(f"{folder}/{path}", path)

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lookupstore-hudi") as pool:
        for _ in pool.map(name, files):
            pass
    delete_staged(location, time)
