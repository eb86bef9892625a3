"""The additional files of an instant in progress: markers, and files that wait for a rename.

A marker is made before its base file and shows that the base file may exist. When writers of Apache
Hudi roll an instant back, they delete only files that have markers. They treat every file in the
folder of markers as a marker, so files that wait for a rename are in another folder, which only
lookupstore lists.

Source: org.apache.hudi.table.marker.DirectWriteMarkers, MarkerBasedRollbackStrategy.
"""

from __future__ import annotations

from contextlib import suppress

from lookupstore.hudi.options import META_FOLDER
from lookupstore.storage.location import Location

#: Path of the folder of all markers.
MARKERS = f"{META_FOLDER}/.temp"
#: Path of the folder of all files that wait for a rename.
STAGED = f"{META_FOLDER}/.lookupstore/staged"
#: Path of the folder of all rows that wait for a write whose instant does not exist yet.
ROWS = f"{META_FOLDER}/.lookupstore/rows"


def marker_name(path: str, time: str, *, replaces: bool) -> str:
    """Return the name of a base file's marker, relative to the table.

    Args:
        path: Path of the base file, relative to the table.
        time: Request time of the instant that writes the base file.
        replaces: Whether the base file replaces another slice of its group.

    >>> marker_name("day=1/a-0_0-0-0_20260307135657661.parquet", "20260307135657661", replaces=True)
    '.hoodie/.temp/20260307135657661/day=1/a-0_0-0-0_20260307135657661.parquet.marker.MERGE'
    """
    return f"{MARKERS}/{time}/{path}.marker.{'MERGE' if replaces else 'CREATE'}"


def mark(location: Location, path: str, time: str, *, replaces: bool) -> None:
    """Write the marker of a base file that is about to be there; see `marker_name`."""
    with suppress(FileExistsError):
        location.write(marker_name(path, time, replaces=replaces), [])


def delete_markers(location: Location, time: str) -> None:
    """Delete the markers of an instant that is completed, or whose files are gone."""
    location.delete_folder(f"{MARKERS}/{time}")


def staging_folder(time: str) -> str:
    """Return the folder, relative to the table, in which files of an instant wait.

    >>> staging_folder("20260307135657661")
    '.hoodie/.lookupstore/staged/20260307135657661'
    """
    return f"{STAGED}/{time}"


def delete_staged(location: Location, time: str) -> None:
    """Delete the files of an instant that wait for their names."""
    location.delete_folder(staging_folder(time))
