"""A stand-in for a writer of Apache Hudi, which does to a table what that does by default.

It is made from what is known of Java's sources, and knows nothing of ours: it goes by the names of
files alone.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.hudi import java_archive
from support.hudi.locks import STORAGE

from lookupstore.hudi import HudiTable
from lookupstore.hudi.timeline.plans import (
    InstantInfo,
    RollbackMetadata,
    RollbackPartition,
    RollbackPlan,
    RollbackRequest,
    plan_bytes,
)
from lookupstore.hudi.timeline.timeline import ROLLBACK, SAVEPOINT, TimelineFolder
from lookupstore.storage.conditional_puts import ConditionalPuts
from lookupstore.storage.location import Location

# Of Java's object, in milliseconds: how long it lasts, and by how much clocks may differ.
_VALID, _DRIFT = 300_000, 500
# `IOType`: of another name it has no value, which ends the rollback, and so the writer.
_TYPES = {"MERGE", "CREATE", "APPEND"}
_INSTANT = re.compile(r"(\d{17})(?:_\d{17})?\.[a-z.]+")


def timeline_of(path: Path) -> Path:
    """Return the folder of the active timeline."""
    folder = path / ".hoodie" / "timeline"
    return folder if folder.is_dir() else path / ".hoodie"


def instants(path: Path) -> dict[str, set[str]]:
    """Return the names of the files of each instant in the active timeline, by its time."""
    found: dict[str, set[str]] = {}
    for file in sorted(timeline_of(path).iterdir()):
        match = _INSTANT.fullmatch(file.name)
        if match is not None and file.is_file():
            found.setdefault(match[1], set()).add(file.name)
    return found


def pending(path: Path) -> list[str]:
    """Return the times of the instants that write and are not completed."""
    return [
        one.time for one in HudiTable.open(path).timeline() if one.is_write and not one.is_completed
    ]


def roll_back(path: Path, time: str) -> list[str]:
    """Roll back an inflight instant by its markers, whoever works on it, and return what went.

    Source: MarkerBasedRollbackStrategy.getRollbackRequests, DirectWriteMarkers.
    """
    markers = path / ".hoodie" / ".temp" / time
    files = []
    for marker in sorted(one for one in markers.rglob("*") if one.is_file()):
        name, _, kind = marker.name.partition(".marker.")
        if kind not in _TYPES:
            raise ValueError(f"No enum constant org.apache.hudi.io.IOType.{kind}: {marker}")
        files.append((marker.parent / name).relative_to(markers).as_posix())
    actions = {"replacecommit" if ".replacecommit" in name else "commit"
               for name in instants(path)[time]}  # fmt: skip
    target = InstantInfo(time, max(actions))
    options = HudiTable.open(path).options
    folder = TimelineFolder(HudiTable.open(path).location, options.timeline, options.version)
    by_partition: dict[str, list[str]] = {}
    for file in files:
        full = f"file://{path}/{file}"
        by_partition.setdefault(file.rpartition("/")[0], []).append(full)
    requests = tuple(RollbackRequest(one, tuple(many)) for one, many in by_partition.items())
    rollback = folder.start(folder.request(ROLLBACK, plan_bytes(RollbackPlan(target, requests))))
    for file in files:
        (path / file).unlink(missing_ok=True)
    for below in sorted(markers.rglob("*"), reverse=True):
        below.rmdir() if below.is_dir() else below.unlink()
    if markers.exists():
        markers.rmdir()
    for name in instants(path)[time]:
        (timeline_of(path) / name).unlink()
    done = RollbackMetadata(
        start_rollback_time=rollback.time,
        time_taken_in_millis=1,
        total_files_deleted=len(files),
        commits_rollback=(time,),
        partition_metadata={
            one: RollbackPartition(one, tuple(many)) for one, many in by_partition.items()
        },
        instants_rollback=(target,),
    )
    folder.complete(rollback, plan_bytes(done))
    return files


def archive(
    path: Path, keep: int, *, rollbacks: bool = False, is_kept: bool = False
) -> dict[str, str]:
    """Take all but the last commits out of the active timeline, and return what went.

    What is archived is in no file that a reader of the table looks at; rollbacks have a turn of
    their own. The first instant that is pending ends it; commits that savepoints keep stay, as with
    `hoodie.archive.beyond.savepoint`.

    Args:
        path: of the table.
        keep: how many commits.
        rollbacks: whether it is their turn, too.
        is_kept: whether the archive is there after that; people delete archives.

    Returns:
        actions by request time.

    Source: TimelineArchiverV1, TimelineArchiverV2.
    """
    gone: dict[str, dict[str, bytes]] = {}
    table = HudiTable.open(path)
    writes = [one.time for one in table.timeline() if one.is_write and one.is_completed]
    saved = {one.time for one in table.timeline() if one.action == SAVEPOINT}
    for instant in table.timeline():
        if not instant.is_completed:
            break
        is_old = instant.time < writes[-keep] and instant.time not in saved
        if is_old and (instant.is_write or (rollbacks and instant.action == ROLLBACK)):
            names = instants(path)[instant.time]
            gone[instant.time] = {name: (timeline_of(path) / name).read_bytes() for name in names}
    if is_kept and gone:
        (java_archive.add_log if table.options.version == 6 else java_archive.add_history)(
            path, gone
        )
    for files in gone.values():
        for name in files:
            (timeline_of(path) / name).unlink()
    return {time: max(files, key=len).split(".")[1] for time, files in gone.items()}


class FileLock:
    """A lock of Java's provider for file systems, which makes and deletes a file.

    Args:
        path: of the table.
        folder: in it that the file is in, by `hoodie.write.lock.filesystem.path`.
        expire: `hoodie.write.lock.filesystem.expire`, in minutes; 0: it does not.

    Source: FileSystemBasedLockProvider.
    """

    def __init__(self, path: Path, folder: str = ".hoodie", *, expire: float = 0) -> None:
        self.file = path / folder / "lock"
        self._expire = expire

    def try_lock(self) -> bool:
        """Take the lock if there is no file, or one that was not written for so long."""
        if self.file.exists():
            age = time.time() - self.file.stat().st_mtime
            if not self._expire or age <= 60 * self._expire:
                return False
            self.file.unlink(missing_ok=True)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self.file.open("x") as file:
                file.write('{"lockCreateTime":"2026-03-07 13:56:57.661","lockThreadName":"main"}')
        except FileExistsError:
            return False
        return True

    def unlock(self) -> bool:
        """Delete the file, whosoever it is; `close` does the same."""
        self.file.unlink(missing_ok=True)
        return True


class StorageLock:
    """A lock of Java's provider for object stores, which puts an object on conditions.

    Args:
        puts: that it is put by.
        path: of the object, its bucket first.
        clock: tells the time, in seconds since 1970.

    Source: StorageBasedLockProvider, StorageLockFile, S3StorageLockClient.
    """

    def __init__(self, puts: Any, path: str, clock: Callable[[], float]) -> None:
        self._puts = puts
        self._path = path
        self._clock = clock
        self._owner = str(uuid.uuid4())
        self._tag = ""
        self._until = 0

    @classmethod
    def at(cls, location: Location, *, ahead: float = 0) -> StorageLock:
        """Return the lock of a table, by a clock that is so many seconds ahead."""
        filesystem, path = location.resolve(STORAGE)
        return cls(ConditionalPuts(filesystem), path, lambda: time.time() + ahead)

    def try_lock(self) -> bool:
        """Take the lock if it is given back, or its time is over by the clock here."""
        try:
            content, tag = self._puts.read(self._path)
        except FileNotFoundError:
            tag = ""
        else:
            found = json.loads(content)
            kinds = {"expired": bool, "validUntil": int, "owner": str}
            if not all(type(found[name]) is kind for name, kind in kinds.items()):
                raise ValueError(f"Failed to deserialize JSON content: {found}")
            if not found["expired"] and self._now() <= found["validUntil"] + _DRIFT:
                return False
        return self._put(tag, expired=False)

    def renew(self) -> bool:
        """Let it last longer, if it was not acquired by others."""
        return self._put(self._tag, expired=False)

    def unlock(self) -> bool:
        """Give it back: the object stays."""
        return self._put(self._tag, expired=True)

    def _put(self, tag: str, *, expired: bool) -> bool:
        if not expired:
            self._until = self._now() + _VALID
        said: dict[str, Any] = {"expired": expired, "validUntil": self._until, "owner": self._owner}
        content = json.dumps(said, separators=(",", ":")).encode()
        if tag:
            self._tag = self._puts.replace(self._path, content, tag) or ""
            return bool(self._tag)
        try:
            self._tag = self._puts.create(self._path, content)
        except FileExistsError:
            return False
        return True

    def _now(self) -> int:
        return round(self._clock() * 1000)
