"""The `files` partition of a metadata table, which is one file group."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from lookupstore.errors import FormatError
from lookupstore.hudi.metadata.group_files import GroupFiles, group_files
from lookupstore.hudi.metadata.records import Listing
from lookupstore.hudi.options import FILES, METADATA_FOLDER
from lookupstore.hudi.timeline.timeline import Timeline, TimelineFolder
from lookupstore.storage.location import Location

#: Path of the partition's folder.
FOLDER = f"{METADATA_FOLDER}/{FILES}"


@dataclass(frozen=True)
class FilesPartition(GroupFiles):
    """The files of the `files` partition at one moment, all of one file group."""

    def listing(self, location: Location) -> Listing:
        """Read the partitions and files that the partition lists.

        Args:
            location: Location of the table.

        Raises:
            CorruptionError: If a file is damaged or missing.
            FormatError: If Hudi does not write a file of this kind there.
        """
        listing = Listing()
        for records in self.records(location):
            listing.add(*records)
        return listing


def files_partition(location: Location, table: Timeline, folder: TimelineFolder) -> FilesPartition:
    """Return the current files of the `files` partition.

    Args:
        location: Location of the table.
        table: Timeline of the table, read before the metadata table's timeline.
        folder: Folder of the metadata table's timeline.

    Raises:
        CorruptionError: If the name of a file is invalid, or the timeline is damaged.
        FormatError: If there are several file groups, or none.
    """
    pending = {instant.time for instant in table.pending()}
    groups = group_files(location, pending, folder, FILES)
    if len(groups) != 1:
        shown = ", ".join(one.file_id for one in groups) or "none"
        raise FormatError(
            f"{location.show(FOLDER)}: the files of a metadata table are one file group; found "
            f"{shown}"
        )
    return FilesPartition(*astuple(groups[0]))
