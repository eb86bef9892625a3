"""Current files of a partition of the metadata table: base files and log files.

The metadata table is written before the table. A log file counts if its instant is completed in the
metadata table, is later than that of the newest base file, and is not pending in the table itself.

Source: HoodieTableMetadataUtil.getValidInstantTimestamps, HoodieFileGroup of Apache Hudi.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi.log.blocks import DELETES, HFILE, NO_DELETES, read_blocks
from lookupstore.hudi.log.hfile import HFile, read_hfile
from lookupstore.hudi.options import METADATA_FOLDER
from lookupstore.hudi.timeline.timeline import COMMIT, DELTA_COMMIT, REPLACE, TimelineFolder
from lookupstore.storage.location import Location

#: Path of the timeline of the metadata table.
TIMELINE = f"{METADATA_FOLDER}/.hoodie/timeline"
# Maximum size of a base or log file, which suffices for some ten million files.
_MOST_BYTES = 1 << 30
_ID = r"(?P<file_id>[A-Za-z0-9-]+)"
_BASE = re.compile(rf"{_ID}_[0-9-]+_(?P<time>\d+)\.hfile")
#: Pattern of the name of a log file of a partition.
LOG_FILE = re.compile(rf"\.{_ID}_(?P<time>\d+)\.log\.(?P<version>\d+)_[0-9-]+")


class HFileRecords(NamedTuple):
    """Records of a base file, or of a block of a log file.

    Attributes:
        file: HFile with the records.
        schema: Schema of the writer, as JSON.
        path: Path of the file, for errors.
        at_schema: Offset of the schema in the file.
    """

    file: HFile
    schema: bytes
    path: str
    at_schema: int


@dataclass(frozen=True)
class GroupFiles:
    """The files of a group at one moment.

    Attributes:
        file_id: Id of the group.
        base: Path of the newest base file. None: no base file.
        logs: Paths of the log files that apply to the base file, in their order.
        log_times: Times of the instants of these log files.
    """

    file_id: str
    base: str | None
    logs: tuple[str, ...]
    log_times: tuple[str, ...]

    def records(self, location: Location) -> Iterator[HFileRecords]:
        """Yield the records, the oldest first.

        Args:
            location: Location of the table.

        Raises:
            CorruptionError: If a file is damaged or missing.
            FormatError: If Hudi does not write a file or log block of this kind.
            OSError: If a file cannot be read.
        """
        if self.base is not None:
            shown = location.show(self.base)
            base = read_hfile(_read(location, self.base), shown)
            yield HFileRecords(base, base.info.get(b"schema", b""), shown, 0)
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
                yield HFileRecords(records, block.schema, shown, block.at_schema)


def group_files(
    location: Location, pending: Collection[str], folder: TimelineFolder, partition: str
) -> list[GroupFiles]:
    """Return the current files of each group of a partition.

    Args:
        location: Location of the table.
        pending: Request times of pending instants, read before the metadata table's timeline.
        folder: Folder of the metadata table's timeline.
        partition: Name of a partition of the metadata table.

    Raises:
        CorruptionError: If the name of a file is invalid, or the timeline is damaged.
    """
    completed = {
        instant.time: instant.position
        for instant in folder.load()
        if instant.is_completed and instant.action in (COMMIT, DELTA_COMMIT, REPLACE)
    }
    first = min(completed, default="")
    bases: dict[str, dict[str, str]] = {}
    logs: dict[str, list[tuple[str, int, str]]] = {}
    for file in location.files(f"{METADATA_FOLDER}/{partition}"):
        name = file.name.rpartition("/")[2]
        found = _BASE.fullmatch(name) or LOG_FILE.fullmatch(name)
        if found is None:
            # Hadoop stores the checksums of a local file NAME in `.NAME.crc`.
            if (name.endswith(".hfile") or ".log." in name) and not name.endswith(".crc"):
                expected = "a base or log file of the metadata table"
                raise CorruptionError(location.show(file.name), 0, expected, repr(name))
            continue
        its_bases = bases.setdefault(found["file_id"], {})
        its_logs = logs.setdefault(found["file_id"], [])
        time = found["time"]
        if found.re is LOG_FILE:
            if time in completed and time not in pending:
                its_logs.append((time, int(found["version"]), file.name))
        # Instants of base files may be archived while those of later log files are not.
        elif time in completed or time < first:
            its_bases[time] = file.name
    groups = []
    for file_id in sorted(bases):
        newest = max(bases[file_id], default="")
        # A log file belongs to the slice that was the newest when it was completed.
        after = sorted(log for log in logs[file_id] if completed[log[0]] > newest)
        groups.append(
            GroupFiles(
                file_id,
                bases[file_id].get(newest),
                tuple(name for _, _, name in after),
                tuple(time for time, _, _ in after),
            )
        )
    return groups


def _read(location: Location, name: str) -> bytes:
    try:
        return location.read(name, _MOST_BYTES)
    except FileNotFoundError:
        raise CorruptionError(
            location.show(name), 0, "a file of the metadata table", "none"
        ) from None
