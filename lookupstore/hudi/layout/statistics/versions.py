"""Where a table keeps statistics of its columns: a version per completed write, and the last two.

They are in a folder of ours, which no other program lists. `columns.json` says that statistics are
kept, and of which columns; a version has a number, above those before it, and the request time of
the write that it came with, since writes complete in another order than that in which they began.
It is there before the write completes: that of a pending one does not count, and the next writer
deletes it. A file whose statistics were found wrong has a mark in the folder `wrong`, for good: a
file that is called by what its path comes to, so that it says enough whatever became of its bytes.
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
from lookupstore.hudi.timeline.timeline import is_time
from lookupstore.storage.location import Location

#: Of all statistics of a table.
STATISTICS_FOLDER = f"{META_FOLDER}/.lookupstore/statistics"
_COLUMNS = f"{STATISTICS_FOLDER}/columns.json"
_WRONG = f"{STATISTICS_FOLDER}/wrong"
_VERSION = re.compile(
    rf"{re.escape(STATISTICS_FOLDER)}/(?P<number>[0-9]{{12}})_(?P<time>[0-9]+)\.stats"
)
_MARK = re.compile(rf"{re.escape(_WRONG)}/[0-9a-f]{{32}}\.json")
# Of a version, as it is compressed: that of some million files; and of what is a few names.
_MOST_VERSION_BYTES, _MOST_TEXT_BYTES = 256 << 20, 1 << 20
# How often versions are listed while writers replace them.
_TRIES = 3


@dataclass(frozen=True)
class KeptColumns:
    """The columns that statistics are kept of.

    Attributes:
        names: of them; None: the first ones of the table.
    """

    names: tuple[str, ...] | None


def kept_columns(location: Location) -> KeptColumns | None:
    """Return the columns that a table keeps statistics of; None: it keeps none.

    A column that is named several times counts once, with a warning.

    Raises:
        CorruptionError: the file that says it is damaged.
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
    """Let each write keep statistics of columns; None: of the first ones of the table."""
    text = json.dumps({"columns": None if names is None else list(names)})
    location.make_folder(STATISTICS_FOLDER)
    location.replace(_COLUMNS, text.encode())


def read_statistics(location: Location, pending: Collection[str]) -> TableStatistics | None:
    """Return the newest statistics of a table, without those that were found wrong.

    Args:
        location: of the table.
        pending: request times of writes that are not completed.

    Returns:
        None if there are none.

    Raises:
        CorruptionError: they are damaged.
        OSError: they could not be read.
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
    """Write the version of an instant, and delete all but the one before.

    The caller holds the lock of the table: who is pending and has a version is dead.

    Args:
        location: of the table.
        time: of the instant.
        statistics: what is known of files.
        pending: request times of writes that are not completed, this one included.
    """
    names = [one.name for one in location.files(STATISTICS_FOLDER)]
    before = _newest(names, pending)
    number = max(map(_number, names), default=0) + 1
    location.replace(f"{STATISTICS_FOLDER}/{number:012}_{time}.stats", statistics.encode())
    for one in names:
        if version_time(one) is not None and one != before:
            location.delete(one)


def version_time(name: str) -> str | None:
    """Return the request time of the write that a file is the version of; None: it is none."""
    found = _VERSION.fullmatch(name)
    return found["time"] if found is not None and is_time(found["time"]) else None


def delete_version(location: Location, time: str) -> None:
    """Delete the version of an instant that is taken back."""
    for one in location.files(STATISTICS_FOLDER):
        if version_time(one.name) == time:
            location.delete(one.name)


def quarantine(location: Location, path: str, problem: str) -> None:
    """Let nobody use statistics of a file any more, which are wrong."""
    text = json.dumps({"path": path, "problem": problem})
    location.make_folder(_WRONG)
    location.replace(_mark(path), text.encode())


def quarantined(location: Location) -> dict[str, str]:
    """Return the files whose statistics were found wrong, by path, with what was wrong.

    Raises:
        CorruptionError: a mark is damaged; the statistics are not used all the same.
    """
    found = {}
    for file in location.files(_WRONG):
        with suppress(FileNotFoundError):
            said = _said(location, file.name)
            found[said["path"]] = said["problem"]
    return found


def release(location: Location, paths: Collection[str]) -> None:
    """Forget that statistics of files were wrong that are gone.

    Args:
        location: of the table.
        paths: of the files that are there.
    """
    there = set(map(_mark, paths))
    for file in location.files(_WRONG):
        if _MARK.fullmatch(file.name) and file.name not in there:
            location.delete(file.name)


def _newest(names: Collection[str], pending: Collection[str]) -> str | None:
    some = [one for one in names if (time := version_time(one)) is not None and time not in pending]
    return max(some, key=_number, default=None)


def _number(name: str) -> int:
    """Return which version a file is, in the order in which they were written; 0: none."""
    found = _VERSION.fullmatch(name)
    return 0 if found is None else int(found["number"])


def _mark(path: str) -> str:
    """Return the name of what says that statistics of a file are wrong."""
    name = hashlib.blake2b(path.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    return f"{_WRONG}/{name}.json"


def _said(location: Location, name: str) -> dict[str, str]:
    content = location.read(name, _MOST_TEXT_BYTES)
    try:
        said = json.loads(content)
        return {"path": str(said["path"]), "problem": str(said["problem"])}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptionError(location.show(name), 0, "the path of a file", error) from error
