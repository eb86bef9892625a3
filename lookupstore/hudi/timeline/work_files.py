"""What an instant has beside the timeline while it is under way: markers, and files that wait.

A marker says that a base file of the instant may be there, and is there before it is. Writers of
Apache Hudi that roll an instant back delete the files that have markers, and no others. They take
every file in the markers' folder for one, so that files which wait for their names wait elsewhere,
in a folder of ours that no other program lists.

Source: org.apache.hudi.table.marker.DirectWriteMarkers, MarkerBasedRollbackStrategy.
"""

from __future__ import annotations

from contextlib import suppress

from lookupstore.hudi.options import META_FOLDER
from lookupstore.storage.location import Location

#: The folder of all markers.
MARKERS = f"{META_FOLDER}/.temp"
#: The folder of all files that wait for their names.
STAGED = f"{META_FOLDER}/.lookupstore/staged"
#: The folder of all rows that wait for a write, of which there is no instant yet.
ROWS = f"{META_FOLDER}/.lookupstore/rows"


def marker_name(path: str, time: str, *, replaces: bool) -> str:
    """Return the name of a base file's marker, relative to the table.

    Args:
        path: of the base file, relative to the table.
        time: of its instant.
        replaces: whether it takes the place of another slice of its group.

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
