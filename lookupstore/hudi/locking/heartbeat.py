"""Heartbeats: by whom a pending instant is, and whether that one is still at work on it.

A heartbeat is a file `.hoodie/.heartbeat/<instant>`, as Hudi's writers have it, which is written
again and again while its owner works. Ours names the owner: an instant that has no such file is of
another program, and is left to that. The file is there before the instant is, and goes after it is
completed or rolled back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lookupstore.errors import CommitConflictError, CorruptionError
from lookupstore.hudi.locking.owner import MOST_BYTES, Owner, parse_owner
from lookupstore.hudi.locking.renewal import renewed
from lookupstore.hudi.options import META_FOLDER
from lookupstore.hudi.timeline.timeline import Instant, TimelineFolder, is_time
from lookupstore.hudi.timeline.work_files import delete_markers
from lookupstore.storage.location import Location

#: How long an instant is taken for alive after a heartbeat on another machine, in seconds.
LEASE = 120.0
#: How long a heartbeat without an instant stays for an owner on another machine, in seconds.
WAKES = 86400.0

_FOLDER = f"{META_FOLDER}/.heartbeat"


class Heartbeats:
    """The heartbeats of a table.

    Args:
        location: of the table.
        lease: how long one of another machine counts, in seconds.
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
        except CorruptionError:  # it is larger than any of ours
            return None

    def is_dead(self, time: str, now: float | None) -> bool:
        """Return whether an instant is one of ours, and its owner is known to be dead.

        Args:
            time: of the instant.
            now: what time it is where the table is; None: nobody knows.
        """
        return self._is_silent(time, now, self._lease)

    def is_forgotten(self, time: str, now: float | None) -> bool:
        """Return whether a heartbeat without an instant is one of an owner that makes none.

        One that stands still before it requests the instant may die right after it woke and did:
        without its heartbeat, nobody would take that back.

        Args:
            time: of the instant that is not there.
            now: what time it is where the table is; None: nobody knows.
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
        """Return the times of all instants that have a heartbeat."""
        names = [file.name.rpartition("/")[2] for file in self._location.files(_FOLDER)]
        return [name for name in names if is_time(name)]

    def claim(self, time: str) -> None:
        """Claim an instant of a dead program, so that it counts as one of a dead owner of ours."""
        with suppress(FileExistsError):
            self._location.create(heartbeat_name(time), Owner.here().to_json())

    def delete(self, time: str) -> None:
        """Forget whose an instant was."""
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
        """Request a new instant, and show that its owner lives as long as the block runs.

        A block that ends without an error has completed the instant, or rolled it back. After an
        error it is one of a dead owner, if it is still pending: the next writer rolls it back.

        Args:
            folder: of the timeline.
            action: of the instant.
            content: of its requested file.
            owner: who works on it; None: this process.

        Raises:
            OSError: a file cannot be written.
        """
        owner = owner or Owner.here()
        with owner.at_work():
            instant = self._request(folder, action, content, owner)
            with renewed(
                lambda: self._location.touch(heartbeat_name(instant.time)), self._lease / 4
            ):
                yield Heartbeat(self, instant, owner)
            # It is done; what stays of it is that of a dead owner, which the next writer deletes.
            with suppress(Exception):
                if instant.is_write:
                    delete_markers(self._location, instant.time)
                self.delete(instant.time)

    def _request(
        self, folder: TimelineFolder, action: str, content: bytes, owner: Owner
    ) -> Instant:
        for time in folder.free_times():
            try:
                self._location.create(heartbeat_name(time), owner.to_json())
            except FileExistsError:
                continue
            instant = None
            # Only now: one of another action, which has another name, may be done since the time
            # was free. Of two instants of one time, each takes the other's files for strays.
            if not folder.is_taken(time):
                with suppress(FileExistsError):
                    instant = folder.request_at(time, action, content)
            is_ours = self.owner(time) == owner
            if instant is None:
                # Of another program, which must not look like a dead one of ours.
                if is_ours:
                    self.delete(time)
            elif is_ours:
                return instant
            else:
                # It took longer than the lease, and the heartbeat was one of no instant.
                folder.delete(instant)
        raise FileExistsError(f"{self._location.uri}: no free time for a new instant")


class Heartbeat:
    """The heartbeat of an instant that this process works on.

    Attributes:
        instant: as it was requested.
        owner: who works on it.
    """

    def __init__(self, heartbeats: Heartbeats, instant: Instant, owner: Owner) -> None:
        self.instant = instant
        self.owner = owner
        self._heartbeats = heartbeats

    def check(self) -> None:
        """Check that no writer assumed the owner dead and rolled the instant back.

        To be asked before a file of the instant gets its name, and before it is completed.

        Raises:
            CommitConflictError: somebody did.
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
