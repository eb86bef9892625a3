"""File groups: the list of base files, and those that contain a table's rows at an instant.

A partition path and an id identify a file group. Each commit that changes rows of it writes a new
slice: one base file with all of its rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.html_table import html_table
from lookupstore.hudi.file_group.partition_metadata import MARKERS
from lookupstore.hudi.options import META_FOLDER
from lookupstore.hudi.timeline.instant_times import is_time
from lookupstore.hudi.timeline.names import BASE_FILE, SUFFIX, GroupId, check_partition
from lookupstore.hudi.timeline.timeline import Timeline
from lookupstore.quantities import counted
from lookupstore.storage.location import FoundFile, Location


@dataclass(frozen=True)
class FileSlice:
    """A base file: all rows of its group from an instant on.

    Attributes:
        group: Id of the file group.
        time: Request time of the instant that wrote the file.
        name: Name of the file.
        bytes: Size of the file, in bytes.
    """

    group: GroupId
    time: str
    name: str
    bytes: int

    @property
    def path(self) -> str:
        """Return the path of the file, relative to the table."""
        return f"{self.group.partition}/{self.name}" if self.group.partition else self.name


@dataclass(frozen=True)
class FileGroup:
    """A file group as of an instant.

    Attributes:
        id: Id of the group.
        slices: Committed slices, sorted by time. The last one holds the rows of the group.
    """

    id: GroupId
    slices: tuple[FileSlice, ...]

    @property
    def current(self) -> FileSlice:
        """Return the slice that contains the rows of the group."""
        return self.slices[-1]


@dataclass(frozen=True)
class CommittedInstants:
    """The instants whose files and log blocks count.

    Old instants leave the timeline: one that is older than the first completed commit counts as
    well, unless it is pending.

    Attributes:
        completed: Request times of the completed commits in the timeline.
        pending: Request times of the pending instants.
        first: Request time of the first completed commit in the timeline; empty: there is none.
        until: Greatest request time that counts. None: all completed instants count.
    """

    completed: frozenset[str]
    pending: frozenset[str]
    first: str
    until: str | None = None

    @classmethod
    def of(cls, timeline: Timeline, until: str | None = None) -> CommittedInstants:
        """Return the instants of a timeline that count."""
        writes = timeline.writes()
        completed = frozenset(instant.time for instant in writes)
        pending = frozenset(instant.time for instant in timeline.pending())
        return cls(completed, pending, writes[0].time if writes else "", until)

    @property
    def identity(self) -> str:
        """Return a text that differs between sets of instants that count."""
        return str((sorted(self.completed), sorted(self.pending), self.first, self.until))

    def include(self, time: str) -> bool:
        """Return whether the files and log blocks of an instant count."""
        if self.until is not None and time > self.until:
            return False
        return time in self.completed or (time < self.first and time not in self.pending)


class FileGroups(list[FileGroup]):
    """A list of file groups, which notebooks show as a table."""

    def _repr_html_(self) -> str:
        heads = ("partition", "file id", "instant", "bytes", "slices")
        rows = (
            (
                group.id.partition,
                group.id.file_id,
                group.current.time,
                f"{group.current.bytes:,}",
                f"{len(group.slices):,}",
            )
            for group in self
        )
        return html_table(counted(len(self), "file group"), heads, rows)


def parse_base_file(path: str, nbytes: int, shown: str) -> FileSlice:
    """Return the slice in a base file.

    Args:
        path: Path of the file, relative to the table.
        nbytes: Size of the file, in bytes.
        shown: Path of the file, for errors.

    Raises:
        CorruptionError: If the path is not that of a base file, or not below the table.

    >>> parse_base_file("day=1/a-0_0-3-6_20260307135657661.parquet", 4, "").group
    GroupId(partition='day=1', file_id='a-0')
    """
    found = _parsed(path, nbytes, shown)
    if found is None:
        wanted = "a base file, <file id>_<token>_<instant>.parquet"
        raise CorruptionError(shown, 0, wanted, _shown(path.rpartition("/")[2]))
    return found


def _parsed(path: str, nbytes: int, shown: str) -> FileSlice | None:
    """Return the slice in a base file. None: its name is not that of a slice."""
    partition, _, name = path.rpartition("/")
    match = BASE_FILE.fullmatch(name)
    if match is None or not is_time(match["time"]):
        return None
    check_partition(path, shown, "a path below the table")
    return FileSlice(GroupId(partition, match["file_id"]), match["time"], name, nbytes)


def list_data_files(location: Location, *, partitioned: bool, top: bool = False) -> list[FoundFile]:
    """List all files in the folders of a table that have base files and log files.

    Args:
        location: Location of the table.
        partitioned: Whether base files are in folders of the table, at any depth. If not, they are
            in the table's own folder.
        top: Whether base files are in the table's own folder as well.

    Raises:
        FormatError: If there is a symbolic link, which is not followed: rows would be missing.
    """
    found: list[FoundFile] = []
    if top or not partitioned:
        found += location.files(complete=True)
    for folder in location.folders(complete=True) if partitioned else ():
        if folder != META_FOLDER:
            found += location.files(folder, recursive=True, complete=True)
    return found


def base_files(
    found: Sequence[FoundFile], location: Location, foreign: list[str] | None = None
) -> list[FileSlice]:
    """Return the base files among files by path, regardless of the instants that wrote them.

    Args:
        found: Files in the folders of the table.
        location: Location of the table.
        foreign: List to which the paths of Parquet files are added that are not named as base files
            are. Default: such a file is refused.

    Raises:
        FormatError: If a Parquet file is not named as base files are, or a base file has another
            format: rows would be missing.
        CorruptionError: If the path of a base file is not that of a file below the table.
    """
    for file in found:
        stem, dot, _ = file.name.rpartition(".")
        if (
            dot
            and BASE_FILE.fullmatch(f"{stem.rpartition('/')[2]}{SUFFIX}")
            and not (file.name.endswith(SUFFIX))
        ):
            raise FormatError(
                f"{location.show(file.name)}: a base file that is not Parquet; only Apache Hudi "
                "reads tables with several formats"
            )
    files = []
    for file in found:
        if not file.name.endswith(SUFFIX) or file.name.rpartition("/")[2] in MARKERS:
            continue
        parsed = _parsed(file.name, file.bytes, location.show(file.name))
        if parsed is not None:
            files.append(parsed)
        elif foreign is not None:
            foreign.append(file.name)
        else:
            raise FormatError(
                f"{_shown(location.show(file.name))}: a Parquet file that no Hudi table has: its "
                "name is not <file id>_<token>_<instant>.parquet, so that it is not known whether "
                "its rows are the table's; move it out of the table's folder"
            )
    return files


def _shown(path: str) -> str:
    return path if path.isprintable() else repr(path)


def file_groups_at(
    files: Iterable[FileSlice],
    timeline: Timeline,
    replaced: Collection[GroupId],
    shown: str,
    as_of: str | None = None,
) -> list[FileGroup]:
    """Return the file groups of a table by partition path and id.

    A file counts if its instant does; see `CommittedInstants`.

    Args:
        files: All base files.
        timeline: Timeline of the table.
        replaced: Ids of the groups that are replaced at `as_of`.
        shown: Path of the table, for errors.
        as_of: Greatest request time that counts. None: all completed instants count.

    Raises:
        CorruptionError: If a group has two files of one instant.
    """
    committed = CommittedInstants.of(timeline, as_of)
    groups: dict[GroupId, dict[str, FileSlice]] = {}
    for file in files:
        if file.group in replaced or not committed.include(file.time):
            continue
        slices = groups.setdefault(file.group, {})
        other = slices.setdefault(file.time, file)
        if other is not file:
            raise CorruptionError(
                f"{shown}/{file.path}", 0, f"one file of {file.group.file_id} and {file.time}",
                f"also {other.name}",
            )  # fmt: skip
    return [
        FileGroup(group, tuple(slices[time] for time in sorted(slices)))
        for group, slices in sorted(groups.items())
    ]
