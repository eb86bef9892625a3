"""Heartbeats: the owner of a pending instant, and whether it is still alive.

A heartbeat is a file `.hoodie/.heartbeat/<instant>`, as Hudi's writers have it. Its owner writes it
again and again while it works. A heartbeat of lookupstore names the owner. An instant without such
a file belongs to another program, and is left to it. The file is made before the instant, and
deleted after the instant is completed or rolled back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lookupstore.errors import CommitConflictError, CorruptionError
from lookupstore.hudi.locking.owner import MOST_BYTES, Owner, parse_owner
from lookupstore.hudi.locking.renewal import renewed
from lookupstore.hudi.options import META_FOLDER
from lookupstore.hudi.timeline.instant_times import is_time
from lookupstore.hudi.timeline.timeline import Instant, TimelineFolder
from lookupstore.hudi.timeline.work_files import delete_markers
from lookupstore.storage.location import Location

#: Seconds after a heartbeat on another machine during which its instant counts as alive.
LEASE = 120.0
#: Seconds for which a heartbeat without an instant is kept for an owner on another machine.
WAKES = 86400.0

_FOLDER = f"{META_FOLDER}/.heartbeat"
# Number of attempts if other writers delete the file that requests an instant.
_TRIES = 3


class Heartbeats:
    """The heartbeats of a table.

    Args:
        location: Location of the table.
        lease: Seconds for which a heartbeat of another machine counts.
    """

    def __init__(self, location: Location, lease: float = LEASE) -> None:
        self._location = location
        self._lease = lease

    def owner(self, time: str) -> Owner | None:
        """Return the owner of an instant; None: another program, or unknown."""
        try:
            return parse_owner(self._location.read(heartbeat_name(time), MOST_BYTES))
        except FileNotFoundError:
            return None
        except CorruptionError:  # it is larger than any heartbeat of lookupstore
            return None

    def is_dead(self, time: str, now: float | None) -> bool:
        """Return whether an instant belongs to lookupstore, and its owner is dead.

        Args:
            time: Time of the instant.
            now: Current time on the file system of the table, in seconds since 1970. None: unknown.
        """
        return self._is_silent(time, now, self._lease)

    def is_forgotten(self, time: str, now: float | None) -> bool:
        """Return whether the owner of a heartbeat without an instant will not make one.

        An owner that is suspended before it requests the instant may wake up, request it and die.
        Without its heartbeat, no writer would roll the instant back.

        Args:
            time: Time of the missing instant.
            now: Current time on the file system of the table, in seconds since 1970. None: unknown.
        """
        return self._is_silent(time, now, WAKES)

    def _is_silent(self, time: str, now: float | None, seconds: float) -> bool:
        owner = self.owner(time)
        if owner is None or owner.is_gone:
            return owner is not None
        if owner.is_here or now is None:
            return False
        last = {file.name: file.modified for file in self._location.files(_FOLDER)}
        modified = last.get(heartbeat_name(time))
        return modified is not None and now - modified > seconds

    def times(self) -> list[str]:
        """Return the times of all instants with a heartbeat."""
        names = [file.name.rpartition("/")[2] for file in self._location.files(_FOLDER)]
        return [name for name in names if is_time(name)]

    def claim(self, time: str) -> None:
        """Claim an instant of a dead program for a dead owner of lookupstore."""
        with suppress(FileExistsError):
            self._location.create(heartbeat_name(time), Owner.here().to_json())

    def delete(self, time: str) -> None:
        """Delete the heartbeat of an instant."""
        self._location.delete(heartbeat_name(time))

    @contextmanager
    def request(
        self,
        folder: TimelineFolder,
        action: str,
        content: bytes = b"",
        *,
        owner: Owner | None = None,
    ) -> Iterator[Heartbeat]:
        """Request a new instant, and renew its heartbeat while the block runs.

        A block that ends without an error has completed the instant, or rolled it back. After an
        error, an instant that is still pending counts as one of a dead owner: the next writer rolls
        it back.

        Args:
            folder: Folder of the timeline.
            action: Action of the instant.
            content: Content of the requested file of the instant.
            owner: Owner of the instant. None: a new owner for this process.

        Raises:
            OSError: If a file cannot be written.
        """
        owner = owner or Owner.here()
        with owner.at_work():
            instant = self._request(folder, action, content, owner)
            with renewed(
                lambda: self._location.touch(heartbeat_name(instant.time)), self._lease / 4
            ):
                yield Heartbeat(self, instant, owner)
            # It is completed; any rest is that of a dead owner, which the next writer deletes.
            with suppress(Exception):
                if instant.is_write:
                    delete_markers(self._location, instant.time)
                self.delete(instant.time)

    def _request(
        self, folder: TimelineFolder, action: str, content: bytes, owner: Owner
    ) -> Instant:
        lost = 0
        for time in folder.free_times():
            try:
                self._location.create(heartbeat_name(time), owner.to_json())
            except FileExistsError:
                continue
            instant = None
            # This is checked only now: an instant of another action, with another name, may have
            # completed since the time was free. Of two instants with one time, each treats the
            # files of the other as strays.
            if not folder.is_taken(time):
                try:
                    instant = folder.request_at(time, action, content)
                except FileExistsError:
                    pass
                except FileNotFoundError:
                    # It took longer than the lease, and another writer deleted the file before it
                    # was renamed, as the file of a dead writer.
                    lost += 1
                    if lost == _TRIES:
                        raise
            is_ours = self.owner(time) == owner
            if instant is None:
                # It belongs to another program, and must not look like that of a dead lookupstore
                # writer.
                if is_ours:
                    self.delete(time)
            elif is_ours:
                return instant
            else:
                # It took longer than the lease, and the heartbeat was one without an instant.
                folder.delete(instant)
        raise FileExistsError(f"{self._location.uri}: no free time for a new instant")


class Heartbeat:
    """The heartbeat of an instant that this process works on.

    Attributes:
        instant: Instant, in its requested state.
        owner: Owner of the instant.
    """

    def __init__(self, heartbeats: Heartbeats, instant: Instant, owner: Owner) -> None:
        self.instant = instant
        self.owner = owner
        self._heartbeats = heartbeats

    def check(self) -> None:
        """Check that no writer assumed the owner dead and rolled the instant back.

        Call this before a file of the instant gets its name, and before the instant is completed.

        Raises:
            CommitConflictError: If a writer did.
        """
        if self._heartbeats.owner(self.instant.time) != self.owner:
            raise CommitConflictError(
                f"instant {self.instant.time} of {self.owner.name} was rolled back by another "
                "writer, which had seen no heartbeat of it for too long; write again",
                instant=self.instant.time,
            )


def heartbeat_name(time: str) -> str:
    """Return the name of an instant's heartbeat, relative to the table."""
    return f"{_FOLDER}/{time}"
