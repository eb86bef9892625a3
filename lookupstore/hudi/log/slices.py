"""File slices with log files: which log files belong to the newest base file of each group.

In version 6, a log file has the request time of its slice, and blocks of several instants. Since
version 8, it has that of the only instant that wrote it. It then belongs to the newest base file
that was requested before this instant was completed.

Source: HoodieFileGroup.getBaseInstantTime, HoodieLogFile.LogFileComparator,
AbstractTableFileSystemView.fetchMergedFileSlice of Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from lookupstore.errors import FormatError
from lookupstore.hudi.file_group.groups import CommittedInstants, FileGroup, FileSlice
from lookupstore.hudi.timeline.instant_times import is_time
from lookupstore.hudi.timeline.names import LOG_FILE, GroupId, check_partition
from lookupstore.storage.location import FoundFile, Location


@dataclass(frozen=True, order=True)
class LogFile:
    """A log file. Those of a slice are sorted as their blocks are merged.

    Attributes:
        time: Time in its name; see this module.
        version: Number in its name.
        token: Token of the task that wrote it.
        group: Id of the file group.
        name: Name of the file.
        bytes: Size of the file, in bytes.
    """

    time: str
    version: int
    token: str
    group: GroupId
    name: str
    bytes: int

    @property
    def path(self) -> str:
        """Return the path of the file, relative to the table."""
        return f"{self.group.partition}/{self.name}" if self.group.partition else self.name


@dataclass(frozen=True)
class MergedSlice(FileSlice):
    """A base file and its log files, or log files without a base file.

    The name and time are those of the base file, or else of the first log file. The size is that of
    all files.

    Attributes:
        base: Base file. None: the group has only log files.
        logs: Log files, in the order in which they are merged.
        committed: Instants whose log blocks count.
    """

    base: FileSlice | None
    logs: tuple[LogFile, ...]
    committed: CommittedInstants


def log_files(found: Iterable[FoundFile], location: Location) -> list[LogFile]:
    """Return the log files among the files of a table.

    Args:
        found: Files in the folders of the table.
        location: Location of the table.

    Raises:
        FormatError: If a file could be a log file, but is not named as Apache Hudi names them.
        CorruptionError: If the path of a log file is not that of a file below the table.
    """
    files = []
    for file in found:
        partition, _, name = file.name.rpartition("/")
        # Hadoop stores the checksums of a local file NAME in `.NAME.crc`.
        if not name.startswith(".") or ".log." not in name or name.endswith(".crc"):
            continue
        match = LOG_FILE.fullmatch(name)
        shown = location.show(file.name)
        if match is None or not is_time(match["time"]):
            raise FormatError(
                f"{shown}: a log file whose name is not known, so that its changes would be "
                "missing; move it out of the table's folder, or compact the table with Apache Hudi"
            )
        if match["cdc"]:
            continue
        check_partition(file.name, shown, "a path below the table")
        group = GroupId(partition, match["file_id"])
        version, token = int(match["version"]), match["token"] or ""
        files.append(LogFile(match["time"], version, token, group, name, file.bytes))
    return files


def slices_with_logs(
    groups: Sequence[FileGroup],
    logs: Iterable[LogFile],
    committed: CommittedInstants,
    replaced: Collection[GroupId],
    belongs: Callable[[LogFile, str], bool],
) -> list[FileSlice]:
    """Return the current slices of a table by partition path and file id.

    Args:
        groups: File groups with base files.
        logs: All log files.
        committed: Instants whose log blocks count.
        replaced: Ids of the groups that are replaced.
        belongs: Function that returns whether a log file belongs to the slice of a base file, given
            the request time of this file, or to a later one. The time is empty if there is none.
    """
    bases = {group.id: group.current for group in groups}
    of_group: dict[GroupId, list[LogFile]] = {}
    for log in logs:
        base = bases.get(log.group)
        if log.group not in replaced and belongs(log, base.time if base else ""):
            of_group.setdefault(log.group, []).append(log)
    return [
        _slice(group, bases.get(group), of_group.get(group, []), committed)
        for group in sorted({*bases, *of_group})
    ]


def _slice(
    group: GroupId, base: FileSlice | None, logs: list[LogFile], committed: CommittedInstants
) -> FileSlice:
    if base is not None and not logs:
        return base
    ordered = tuple(sorted(logs))
    first = base or FileSlice(group, ordered[0].time, ordered[0].name, 0)
    nbytes = first.bytes + sum(log.bytes for log in ordered)
    return MergedSlice(group, first.time, first.name, nbytes, base, ordered, committed)


def by_slice_time(
    committed: CommittedInstants, compactions: Collection[str]
) -> Callable[[LogFile, str], bool]:
    """Return which log files belong to slices, in version 6; see `slices_with_logs`.

    Args:
        committed: Instants that count.
        compactions: Request times of pending compactions. Their slices have log files only, which
            are merged with the slice before.
    """

    def belongs(log: LogFile, base: str) -> bool:
        return log.time >= base and (log.time in compactions or committed.include(log.time))

    return belongs


def by_completion(
    committed: CommittedInstants, completed_at: Callable[[str], str]
) -> Callable[[LogFile, str], bool]:
    """Return which log files belong to slices, since version 8; see `slices_with_logs`.

    Args:
        committed: Instants that count.
        completed_at: Function that returns the completion time of an instant that counts.
    """

    def belongs(log: LogFile, base: str) -> bool:
        # Few instants were requested before the base file: their completion may be archived.
        counts = committed.include(log.time)
        return counts and (log.time >= base or completed_at(log.time) >= base)

    return belongs
