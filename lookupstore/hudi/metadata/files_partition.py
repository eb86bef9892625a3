"""What the `files` partition says: its newest base file, and the log files that came after it.

The metadata table is written before the table is. A log file counts if its instant is completed in
the metadata table, and is not pending in the table itself.

Source: HoodieTableMetadataUtil.getValidInstantTimestamps, HoodieFileGroup of Apache Hudi.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi.metadata.hfile import read_hfile
from lookupstore.hudi.metadata.log_block import DELETES, HFILE, NO_DELETES, read_blocks
from lookupstore.hudi.metadata.records import Listing
from lookupstore.hudi.options import FILES, METADATA_FOLDER
from lookupstore.hudi.timeline.timeline import (
    COMMIT,
    DELTA_COMMIT,
    REPLACE,
    Timeline,
    TimelineFolder,
)
from lookupstore.storage.location import Location

#: Where its timeline, and its files are.
TIMELINE = f"{METADATA_FOLDER}/.hoodie/timeline"
FOLDER = f"{METADATA_FOLDER}/{FILES}"
# Of a base or log file: that of some ten million files.
_MOST_BYTES = 1 << 30
_ID = r"(?P<file_id>[A-Za-z0-9-]+)"
_BASE = re.compile(rf"{_ID}_[0-9-]+_(?P<time>\d+)\.hfile")
#: Name of a log file of it.
LOG_FILE = re.compile(rf"\.{_ID}_(?P<time>\d+)\.log\.(?P<version>\d+)_[0-9-]+")


@dataclass(frozen=True)
class FilesPartition:
    """The files of the partition at one moment, all of its one file group.

    Attributes:
        file_id: of the group.
        base: path of the newest base file; None: there is none.
        logs: paths of the log files that change it, in the order in which they count.
        log_times: the times of their instants.
    """

    file_id: str
    base: str | None
    logs: tuple[str, ...]
    log_times: tuple[str, ...]

    def listing(self, location: Location) -> Listing:
        """Read what they say.

        Args:
            location: of the table.

        Raises:
            CorruptionError: a file is damaged, or gone.
            FormatError: one is of a kind that Hudi does not write there.
        """
        listing = Listing()
        if self.base is not None:
            shown = location.show(self.base)
            base = read_hfile(_read(location, self.base), shown)
            listing.add(base, base.info.get(b"schema", b""), shown, 0)
        for name in self.logs:
            shown = location.show(name)
            for block in read_blocks(_read(location, name), shown):
                if block.kind == DELETES and block.content == NO_DELETES:
                    continue
                if block.kind != HFILE:
                    raise FormatError(
                        f"{shown}: a log block of kind {block.kind}, which Hudi does not write to "
                        "the files of a metadata table"
                    )
                records = read_hfile(block.content, shown, block.at)
                listing.add(records, block.schema, shown, block.at_schema)
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
    completed = {
        instant.time: instant.position
        for instant in folder.load()
        if instant.is_completed and instant.action in (COMMIT, DELTA_COMMIT, REPLACE)
    }
    first = min(completed, default="")
    ids: set[str] = set()
    bases: dict[str, str] = {}
    logs: list[tuple[str, int, str]] = []
    for file in location.files(FOLDER):
        name = file.name.rpartition("/")[2]
        found = _BASE.fullmatch(name) or LOG_FILE.fullmatch(name)
        if found is None:
            # Hadoop keeps the checksums of a local file NAME in `.NAME.crc`.
            if (name.endswith(".hfile") or ".log." in name) and not name.endswith(".crc"):
                expected = "a base or log file of the metadata table"
                raise CorruptionError(location.show(file.name), 0, expected, repr(name))
            continue
        ids.add(found["file_id"])
        time = found["time"]
        if found.re is LOG_FILE:
            if time in completed and time not in pending:
                logs.append((time, int(found["version"]), file.name))
        # Instants of base files are archived, those of the log files after them are not.
        elif time in completed or time < first:
            bases[time] = file.name
    if len(ids) != 1:
        shown = ", ".join(sorted(ids)) or "none"
        raise FormatError(
            f"{location.show(FOLDER)}: the files of a metadata table are one file group; found "
            f"{shown}"
        )
    newest = max(bases, default="")
    # A log file is of the slice that was the newest when it was completed.
    after = sorted(log for log in logs if completed[log[0]] > newest)
    return FilesPartition(
        ids.pop(),
        bases.get(newest),
        tuple(name for _, _, name in after),
        tuple(time for time, _, _ in after),
    )


def _read(location: Location, name: str) -> bytes:
    try:
        return location.read(name, _MOST_BYTES)
    except FileNotFoundError:
        raise CorruptionError(
            location.show(name), 0, "a file of the metadata table", "none"
        ) from None
