"""What the `files` partition of the metadata table says, which is one file group."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from lookupstore.errors import FormatError
from lookupstore.hudi.metadata.group_files import GroupFiles, group_files
from lookupstore.hudi.metadata.records import Listing
from lookupstore.hudi.options import FILES, METADATA_FOLDER
from lookupstore.hudi.timeline.timeline import Timeline, TimelineFolder
from lookupstore.storage.location import Location

#: Where its files are.
FOLDER = f"{METADATA_FOLDER}/{FILES}"


@dataclass(frozen=True)
class FilesPartition(GroupFiles):
    """The files of the partition at one moment, all of its one file group."""

    def listing(self, location: Location) -> Listing:
        """Read what they say.

        Args:
            location: of the table.

        Raises:
            CorruptionError: a file is damaged, or gone.
            FormatError: one is of a kind that Hudi does not write there.
        """
        listing = Listing()
        for records in self.records(location):
            listing.add(*records)
        return listing


def files_partition(location: Location, table: Timeline, folder: TimelineFolder) -> FilesPartition:
    """Return the files of the partition as they are now.

    Args:
        location: of the table.
        table: timeline of the table, read before.
        folder: of the metadata table's timeline.

    Raises:
        CorruptionError: a file is called as none is, or the timeline is damaged.
        FormatError: there are several file groups, or none.
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
