"""Files that serve as locks: operations to take, renew, release and take over a lock.

On a local disk the lock file is identified by its inode. A process that removes it, as its owner or
to take it over, holds a `flock` on that inode and has checked that the name still leads to it; so
no process removes the lock of a third one. On S3 a lock is identified by its tag, which each
renewal changes, and a put on the condition of the dead owner's tag takes the lock over. It is
released by such a put, too, with content that records that it is free: nothing there can be deleted
on a condition.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from lookupstore.storage.conditional_puts import ConditionalPuts
from lookupstore.storage.location import Location
from lookupstore.storage.regular_file import open_regular

# Largest size of a lock in bytes; a longer file is no lock, which its beginning shows.
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class SeenLock:
    """A lock as a process saw it.

    Attributes:
        content: Content of its file.
        mark: Value that changes whenever the lock is renewed, or gets another owner.
    """

    content: bytes
    mark: tuple[object, ...]


class LockFile(Protocol):
    """The file of a lock, for a process that wants the lock or holds it.

    Attributes:
        stays: Whether the file also exists while no process holds the lock.
    """

    stays: bool

    def create(self, content: bytes) -> bool:
        """Take the lock if it is free."""

    def look(self) -> SeenLock | None:
        """Return the present state of the lock."""

    def take_over(self, dead: SeenLock, content: bytes) -> bool:
        """Take the lock from a dead owner, unless another was faster or it lives after all."""

    def renew(self, content: bytes) -> bool:
        """Show that the owner lives; return False if the lock is not its own any more."""

    def is_ours(self) -> bool:
        """Return whether the lock is still the one that this process took."""

    def give_back(self, content: bytes) -> None:
        """Release the lock, unless another owner has taken it over.

        Args:
            content: Content of a file that stays, which records that the lock is free.
        """


class LocalLockFile:
    """A lock on a local disk, or on a shared one with `flock` and hard links.

    Args:
        location: Location of the file.
        name: Name of the file in the location.

    Attributes:
        path: Path of the file on the disk.
    """

    stays = False

    def __init__(self, location: Location, name: str) -> None:
        self._location = location
        self._name = name
        self.path: str = location.resolve(name)[1]
        self._descriptor = -1

    def create(self, content: bytes) -> bool:
        """Take the lock if it is free."""
        try:
            self._location.create(self._name, content)
        except FileExistsError:
            return False
        except OSError:
            # The file may exist and only not be synced, which does no harm: no lock outlives a
            # power failure.
            seen = self.look()
            if seen is None or seen.content != content:
                raise
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False  # creating took longer than the lease, and another process took over
        if _seen(descriptor).content != content:
            os.close(descriptor)  # another process took over with a lock of its own
            return False
        self._descriptor = descriptor
        return True

    def look(self) -> SeenLock | None:
        """Return the present state of the lock."""
        with suppress(FileNotFoundError), open(open_regular(self.path), "rb") as file:
            return _seen(file.fileno())
        return None

    def take_over(self, dead: SeenLock, content: bytes) -> bool:
        """Remove the lock of a dead owner, and take it if no other writer does."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return self.create(content)
        try:
            with _alone(descriptor) as is_alone:
                if not is_alone or _seen(descriptor).mark != dead.mark:
                    return False
                if _leads_to(self.path, descriptor):
                    os.unlink(self.path)
        finally:
            os.close(descriptor)
        return self.create(content)

    def renew(self, content: bytes) -> bool:
        """Set the time of the file to now."""
        os.utime(self._descriptor)
        return _leads_to(self.path, self._descriptor)

    def is_ours(self) -> bool:
        """Return whether the lock is still the one that this process took."""
        return _leads_to(self.path, self._descriptor)

    def give_back(self, content: bytes) -> None:
        """Remove the file, unless another owner has taken the lock over."""
        try:
            with _alone(self._descriptor) as is_alone:
                if is_alone and self.is_ours():
                    os.unlink(self.path)
        finally:
            os.close(self._descriptor)


class ObjectLockFile:
    """A lock on an object store.

    Args:
        location: Location of the object.
        puts: Client for conditional puts to the location.
        name: Name of the object in the location.

    Attributes:
        path: Path of the object, its bucket first.
        tag: Tag of the lock that was put last; empty if the lock is not held.
    """

    stays = True

    def __init__(self, location: Location, puts: ConditionalPuts, name: str) -> None:
        self.puts = puts
        self.path: str = location.resolve(name)[1]
        self.tag: str = ""

    def create(self, content: bytes) -> bool:
        """Take the lock if it is free."""
        try:
            self.tag = self.puts.create(self.path, content)
        except FileExistsError:
            return False
        except OSError:
            self.tag = self._tag_of(content)
            if not self.tag:
                raise
        return True

    def look(self) -> SeenLock | None:
        """Return the present state of the lock."""
        try:
            content, tag = self.puts.read(self.path)
        except FileNotFoundError:
            return None
        return SeenLock(content, (tag,))

    def take_over(self, dead: SeenLock, content: bytes) -> bool:
        """Put our lock in the place of a dead owner's."""
        self.tag = self._replace(content, str(dead.mark[0]))
        return bool(self.tag)

    def renew(self, content: bytes) -> bool:
        """Put the lock again; its content has to be another."""
        self.tag = self._replace(content, self.tag)
        return bool(self.tag)

    def is_ours(self) -> bool:
        """Return whether the lock is still the one that this process took."""
        seen = self.look()
        return seen is not None and seen.mark == (self.tag,)

    def give_back(self, content: bytes) -> None:
        """Put content that records that the lock is free, unless another owner has it by now."""
        self._replace(content, self.tag)

    def _replace(self, content: bytes, tag: str) -> str:
        """Put a lock in the place of a known one; return its tag, or "" if another has it."""
        if not tag:  # the lock was lost; a server takes an empty tag for no condition
            return ""
        try:
            return self.puts.replace(self.path, content, tag) or ""
        except OSError:
            put = self._tag_of(content)
            if not put:
                raise
            return put

    def _tag_of(self, content: bytes) -> str:
        """Return the tag of a lock put although the answer was lost, or "" if it was not."""
        seen = self.look()
        return str(seen.mark[0]) if seen is not None and seen.content == content else ""


def _seen(descriptor: int) -> SeenLock:
    found = os.fstat(descriptor)
    content = os.pread(descriptor, min(found.st_size, _MOST_BYTES), 0)
    return SeenLock(content, (found.st_dev, found.st_ino, found.st_mtime_ns))


def _leads_to(path: str, descriptor: int) -> bool:
    try:
        named = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(descriptor))


@contextmanager
def _alone(descriptor: int) -> Iterator[bool]:
    """Hold the `flock` of a file, unless another process, which is about to remove it, does."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
