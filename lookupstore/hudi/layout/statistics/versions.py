"""Store versions of a table's statistics, one per completed write.

The files are in a folder that only lookupstore lists. `columns.json` has the names of the columns
that statistics are kept of; without that file, none are kept. The last two versions are kept.

The name of a version has a number, above those of all versions before it, and the request time of
its write. Both are needed, because writes may complete in another order than they began. A version
is written before its write completes. Readers ignore the version of a pending write, and the next
writer deletes it.

A base file with wrong statistics is marked by a file in the folder `wrong`. The name of the mark is
a hash of the path of the base file, so that the mark is valid even if its content is damaged. A
mark is deleted only by a collection of statistics after the base file was deleted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lookupstore.errors import CorruptionError
from lookupstore.hudi.layout.statistics.table_statistics import TableStatistics
from lookupstore.hudi.layout.unfailing import warn
from lookupstore.hudi.options import META_FOLDER
from lookupstore.hudi.timeline.instant_times import is_time
from lookupstore.storage.location import Location

#: Path of the folder of all statistics of a table.
STATISTICS_FOLDER = f"{META_FOLDER}/.lookupstore/statistics"
_COLUMNS = f"{STATISTICS_FOLDER}/columns.json"
_WRONG = f"{STATISTICS_FOLDER}/wrong"
_VERSION = re.compile(
    rf"{re.escape(STATISTICS_FOLDER)}/(?P<number>[0-9]{{12}})_(?P<time>[0-9]+)\.stats"
)
_MARK = re.compile(rf"{re.escape(_WRONG)}/[0-9a-f]{{32}}\.json")
# Maximum size of a version, compressed, which suffices for some million files; and of a list of
# names.
_MOST_VERSION_BYTES, _MOST_TEXT_BYTES = 256 << 20, 1 << 20
# Number of attempts to read a version while writers replace them.
_TRIES = 3


@dataclass(frozen=True)
class KeptColumns:
    """The columns that statistics are kept of.

    Attributes:
        names: Names of the columns. None: the first 32 data columns with an order.
    """

    names: tuple[str, ...] | None


def kept_columns(location: Location) -> KeptColumns | None:
    """Return the columns that a table keeps statistics of.

    None: the table keeps no statistics. A name that is in the file twice counts once, with a
    warning.

    Raises:
        CorruptionError: If the file with the names is damaged.
        OSError: If the file cannot be read.
    """
    try:
        content = location.read(_COLUMNS, _MOST_TEXT_BYTES)
    except FileNotFoundError:
        return None
    try:
        names = json.loads(content)["columns"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptionError(location.show(_COLUMNS), 0, "names of columns", error) from error
    is_list = isinstance(names, list) and all(isinstance(one, str) for one in names)
    if names is not None and not is_list:
        raise CorruptionError(location.show(_COLUMNS), 0, "names of columns", names)
    if names is None:
        return KeptColumns(None)
    unique = tuple(dict.fromkeys(names))
    if len(unique) < len(names):
        warn(
            f"{location.show(_COLUMNS)}: names a column twice ({len(names)} names, {len(unique)} "
            "columns), which counts once; collect_statistics(columns) writes the file again"
        )
    return KeptColumns(unique)


def set_kept_columns(location: Location, names: Sequence[str] | None) -> None:
    """Let each write keep statistics of columns.

    Args:
        location: Location of the table.
        names: Names of the columns. Default: the first 32 data columns with an order.
    """
    text = json.dumps({"columns": None if names is None else list(names)})
    location.make_folder(STATISTICS_FOLDER)
    location.replace(_COLUMNS, text.encode())


def read_statistics(location: Location, pending: Collection[str]) -> TableStatistics | None:
    """Return the newest statistics of a table, without those that were found wrong.

    Args:
        location: Location of the table.
        pending: Request times of pending writes; their versions are ignored.

    Returns:
        Statistics of base files. None: the table has none, or writers replaced each of several
        versions before it could be read.

    Raises:
        CorruptionError: If the statistics are damaged.
        OSError: If the statistics cannot be read.
    """
    for _ in range(_TRIES):
        names = [one.name for one in location.files(STATISTICS_FOLDER, recursive=True)]
        version = _newest(names, pending)
        if version is None:
            return None
        marks = {one for one in names if one.startswith(f"{_WRONG}/")}
        with suppress(FileNotFoundError):  # another writer has replaced it
            content = location.read(version, _MOST_VERSION_BYTES)
            found = TableStatistics.decode(content, location.show(version))
            paths = found.table["path"].to_pylist() if marks else []
            wrong = [one for one in paths if _mark(one) in marks]
            return found.without(wrong) if wrong else found
    return None


def write_version(
    location: Location, time: str, statistics: TableStatistics, pending: Collection[str]
) -> None:
    """Write the version of an instant, and delete all but the version before it.

    The caller holds the lock of the table. A version of another pending write is therefore from a
    writer that was killed.

    Args:
        location: Location of the table.
        time: Request time of the instant.
        statistics: Statistics of base files.
        pending: Request times of pending writes, including this one if it is pending.
    """
    names = [one.name for one in location.files(STATISTICS_FOLDER)]
    before = _newest(names, pending)
    number = max(map(_number, names), default=0) + 1
    location.replace(f"{STATISTICS_FOLDER}/{number:012}_{time}.stats", statistics.encode())
    for one in names:
        if version_time(one) is not None and one != before:
            location.delete(one)


def version_time(name: str) -> str | None:
    """Return the request time in the name of a version, or None for other names."""
    found = _VERSION.fullmatch(name)
    return found["time"] if found is not None and is_time(found["time"]) else None


def delete_version(location: Location, time: str) -> None:
    """Delete the version of an instant that is rolled back."""
    for one in location.files(STATISTICS_FOLDER):
        if version_time(one.name) == time:
            location.delete(one.name)


def quarantine(location: Location, path: str, problem: str) -> None:
    """Mark the statistics of a file as wrong, so that they are not used any more."""
    text = json.dumps({"path": path, "problem": problem})
    location.make_folder(_WRONG)
    location.replace(_mark(path), text.encode())


def quarantined(location: Location) -> dict[str, str]:
    """Return the problem of each file with wrong statistics, by the path of the file.

    Raises:
        CorruptionError: If a mark is damaged; the statistics of its file are still not used.
    """
    found = {}
    for file in location.files(_WRONG):
        with suppress(FileNotFoundError):
            said = _said(location, file.name)
            found[said["path"]] = said["problem"]
    return found


def release(location: Location, paths: Collection[str]) -> None:
    """Delete the marks of files that no longer exist.

    Args:
        location: Location of the table.
        paths: Paths of the files that exist.
    """
    there = set(map(_mark, paths))
    for file in location.files(_WRONG):
        if _MARK.fullmatch(file.name) and file.name not in there:
            location.delete(file.name)


def _newest(names: Collection[str], pending: Collection[str]) -> str | None:
    some = [one for one in names if (time := version_time(one)) is not None and time not in pending]
    return max(some, key=_number, default=None)


def _number(name: str) -> int:
    """Return the number in the name of a version, or 0 for other names."""
    found = _VERSION.fullmatch(name)
    return 0 if found is None else int(found["number"])


def _mark(path: str) -> str:
    """Return the name of the mark that the statistics of a file are wrong."""
    name = hashlib.blake2b(path.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    return f"{_WRONG}/{name}.json"


def _said(location: Location, name: str) -> dict[str, str]:
    content = location.read(name, _MOST_TEXT_BYTES)
    try:
        said = json.loads(content)
        return {"path": str(said["path"]), "problem": str(said["problem"])}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptionError(location.show(name), 0, "the path of a file", error) from error
