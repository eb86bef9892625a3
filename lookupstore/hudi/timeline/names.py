"""Names in instants: of file groups, partitions and files, checked before they are used.

A partition path and an id identify a file group; its base files are named after it, the task
that wrote them, and the instant.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lookupstore.errors import CorruptionError
from lookupstore.hudi.options import META_FOLDER
from lookupstore.hudi.timeline.instant_times import is_time
from lookupstore.storage.inside import check_name

SUFFIX = ".parquet"
_ID = re.compile(r"[A-Za-z0-9-]+")
#: Pattern of the names of base files.
BASE_FILE = re.compile(rf"(?P<file_id>{_ID.pattern})_(?P<token>\d+-\d+-\d+)_(?P<time>\d+)\.parquet")
#: Pattern of the names of log files, which merge-on-read tables have, and plans of a table that was
#: one may contain. The time is that of the delta commit, in version 6 that of the slice. Files that
#: end with `.cdc` are for CDC queries only.
LOG_FILE = re.compile(
    rf"\.(?P<file_id>{_ID.pattern})_(?P<time>\d+)\.log\.(?P<version>\d+)"
    r"(?:_(?P<token>\d+-\d+-\d+))?(?P<cdc>\.cdc)?"
)


class GroupId(NamedTuple):
    """The name of a file group.

    Attributes:
        partition: Folder of its files, relative to the table; empty for that of the table.
        file_id: Id with which the names of its files begin.
    """

    partition: str
    file_id: str


def base_file_name(file_id: str, token: str, time: str) -> str:
    """Return the name of a base file.

    Args:
        file_id: Id of the file group, without `_`.
        token: Token of the task that writes the file: three integers, joined by `-`.
        time: Request time of the instant that writes the file.

    >>> base_file_name("a-0", "0-3-6", "20260307135657661")
    'a-0_0-3-6_20260307135657661.parquet'
    """
    return f"{file_id}_{token}_{time}{SUFFIX}"


def is_log_file(path: str) -> bool:
    """Return whether a file is named as a log file of a merge-on-read table.

    >>> is_log_file("day=1/.a-0_20260307135931043.log.1_0-13-16")
    True
    """
    return LOG_FILE.fullmatch(path.rpartition("/")[2]) is not None


def check_partition(
    partition: str, holder: str, expected: str = "a partition below the table"
) -> None:
    """Check the path of a partition that a file contains.

    Args:
        partition: Path of the partition's folder, relative to the table; empty for that of the
            table.
        holder: Path of the file that contains the partition's path, for errors.
        expected: Description of a valid path, for errors.

    Raises:
        CorruptionError: If the path is not that of a folder of the table that may have base files.
    """
    if not partition:
        return
    check_name(partition, holder, expected)
    if partition.partition("/")[0] == META_FOLDER:
        raise CorruptionError(holder, 0, f"{expected}, not in {META_FOLDER}", repr(partition))


def check_file_id(file_id: str, holder: str) -> None:
    """Check the id of a file group that a file contains.

    Raises:
        CorruptionError: If no file group can have such an id.
    """
    if _ID.fullmatch(file_id) is None:
        raise CorruptionError(holder, 0, "the file id of a file group", repr(file_id))


def check_planned_file(path: str, partition: str, time: str | None, holder: str, what: str) -> None:
    """Check the path of a file that a plan deletes.

    Args:
        path: Path or URI of the file, which ends with its partition and its name.
        partition: Partition path under which the plan lists the file.
        time: Request time of the instant that wrote the file. None: any instant.
        holder: Path of the plan, for errors.
        what: Name of the plan's field that lists the file, for errors.

    Raises:
        CorruptionError: If it is not a base or log file of the partition, or is one of another
            instant.
    """
    check_partition(partition, holder)
    name = path.rpartition("/")[2]
    match = BASE_FILE.fullmatch(name) or LOG_FILE.fullmatch(name)
    below = f"/{partition}/{name}" if partition else f"/{name}"
    is_file = match is not None and is_time(match["time"]) and f"/{path}".endswith(below)
    if match is None or not is_file or time not in (None, match["time"]):
        of = "" if time is None else f" of {time}"
        wanted = f"{what}: files{of} in the partition {partition!r}"
        raise CorruptionError(holder, 0, wanted, repr(path))
