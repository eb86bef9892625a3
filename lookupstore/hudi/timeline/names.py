"""Names that instants hold: of file groups, partitions and files, checked before anything is done.

A partition path and an id identify a file group; its base files are named after it, the task
that wrote them, and the instant.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lookupstore.errors import CorruptionError
from lookupstore.hudi.options import META_FOLDER
from lookupstore.hudi.timeline.timeline import is_time
from lookupstore.storage.inside import check_name

SUFFIX = ".parquet"
_ID = re.compile(r"[A-Za-z0-9-]+")
#: What base files are called.
BASE_FILE = re.compile(rf"(?P<file_id>{_ID.pattern})_(?P<token>\d+-\d+-\d+)_(?P<time>\d+)\.parquet")
# Merge-on-read tables have some, and plans of a table that was one may name them.
_LOG_NAME = re.compile(
    rf"\.(?P<file_id>{_ID.pattern})_(?P<time>\d+)\.log\.\d+(_\d+-\d+-\d+)?(\.cdc)?"
)


class GroupId(NamedTuple):
    """The name of a file group.

    Attributes:
        partition: folder of its files, relative to the table; empty for that of the table.
        file_id: what the names of its files begin with.
    """

    partition: str
    file_id: str


def base_file_name(file_id: str, token: str, time: str) -> str:
    """Return the name of a base file.

    Args:
        file_id: of its group, without `_`.
        token: of the task that writes it: three integers, joined by `-`.
        time: of the instant that writes it.

    >>> base_file_name("a-0", "0-3-6", "20260307135657661")
    'a-0_0-3-6_20260307135657661.parquet'
    """
    return f"{file_id}_{token}_{time}{SUFFIX}"


def is_log_file(path: str) -> bool:
    """Return whether a file is called as the log files of merge-on-read tables are.

    >>> is_log_file("day=1/.a-0_20260307135931043.log.1_0-13-16")
    True
    """
    return _LOG_NAME.fullmatch(path.rpartition("/")[2]) is not None


def check_partition(
    partition: str, holder: str, expected: str = "a partition below the table"
) -> None:
    """Check the path of a partition that a file holds.

    Args:
        partition: path of its folder, relative to the table; empty for that of the table.
        holder: path of the file, for errors.
        expected: what it should be, for errors.

    Raises:
        CorruptionError: it is not a folder of the table that base files may be in.
    """
    if not partition:
        return
    check_name(partition, holder, expected)
    if partition.partition("/")[0] == META_FOLDER:
        raise CorruptionError(holder, 0, f"{expected}, not in {META_FOLDER}", repr(partition))


def check_file_id(file_id: str, holder: str) -> None:
    """Check the id of a file group that a file holds.

    Raises:
        CorruptionError: no file group has such an id.
    """
    if _ID.fullmatch(file_id) is None:
        raise CorruptionError(holder, 0, "the file id of a file group", repr(file_id))


def check_planned_file(path: str, partition: str, time: str | None, holder: str, what: str) -> None:
    """Check the path of a file that a plan deletes.

    Args:
        path: of the file: its name, or all of its URI.
        partition: that the plan has it in.
        time: of the instant that wrote it; None: of any.
        holder: path of the plan, for errors.
        what: of the plan has it, for errors.

    Raises:
        CorruptionError: it is not a base or log file of the partition, or is of another instant.
    """
    check_partition(partition, holder)
    name = path.rpartition("/")[2]
    match = BASE_FILE.fullmatch(name) or _LOG_NAME.fullmatch(name)
    below = f"/{partition}/{name}" if partition else f"/{name}"
    is_file = match is not None and is_time(match["time"]) and f"/{path}".endswith(below)
    if match is None or not is_file or time not in (None, match["time"]):
        of = "" if time is None else f" of {time}"
        wanted = f"{what}: files{of} in the partition {partition!r}"
        raise CorruptionError(holder, 0, wanted, repr(path))
