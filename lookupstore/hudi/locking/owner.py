"""Who holds a lock or runs an instant, and whether it is known to be dead.

A process is known by its machine, its number and when it was started, since numbers come again. A
machine is known by its boot and its process namespace, so that two containers of one host name are
two machines.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from lookupstore.errors import CorruptionError
from lookupstore.storage.json_text import parse_json

#: Of the file of a lock or heartbeat; what is longer is of another program.
MOST_BYTES = 1 << 16
# Above it the system has no processes, and does not take the number.
_MOST_PID = (1 << 31) - 1

# Owners of this process that are at work: one whose thread was left by an error is not.
_AT_WORK: Counter[str] = Counter()
_AT_WORK_LOCK = threading.Lock()


@dataclass(frozen=True)
class Owner:
    """A writer that is at work on a table.

    Attributes:
        name: for people.
        host: that the process is on.
        machine: the same for processes that can see each other.
        pid: number of the process.
        started: when it was started, as its system tells; empty if that does not.
        id: of this work alone.
    """

    name: str
    host: str
    machine: str
    pid: int
    started: str
    id: str

    @classmethod
    def here(cls, name: str | None = None) -> Owner:
        """Return an owner for new work of this process; its name is host and number if not given.

        >>> Owner.here("nightly load").name
        'nightly load'
        """
        host, pid = socket.gethostname(), os.getpid()
        shown = f"{host}:{pid}" if name is None else name
        return cls(shown, host, machine_of(host), pid, started_at(pid) or "", uuid.uuid4().hex)

    @property
    def is_here(self) -> bool:
        """Return whether it is, or was, a process that this one can see."""
        return self.machine == machine_of(socket.gethostname())

    @property
    def is_gone(self) -> bool:
        """Return whether it is known to be dead; for other machines this is unknown."""
        if not self.is_here:
            return False
        started = started_at(self.pid)
        if started is None or (started and self.started and started != self.started):
            return True
        return self.pid == os.getpid() and self.id not in _AT_WORK

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Count as alive while the block runs."""
        with _AT_WORK_LOCK:
            _AT_WORK[self.id] += 1
        try:
            yield
        finally:
            with _AT_WORK_LOCK:
                _AT_WORK[self.id] -= 1
                if not _AT_WORK[self.id]:
                    del _AT_WORK[self.id]

    def to_json(self) -> bytes:
        """Return it as a file holds it.

        >>> owner = Owner.here()
        >>> parse_owner(owner.to_json()) == owner
        True
        """
        return json.dumps({"owner": asdict(self)}).encode()


def parse_owner(content: bytes) -> Owner | None:
    """Return the owner that a file names; None if another program wrote it."""
    try:
        record = parse_json(content, "", "an owner", most_bytes=MOST_BYTES)
        values = {one.name: record["owner"][one.name] for one in fields(Owner)}
    except (CorruptionError, TypeError, KeyError):
        return None
    if not all(type(value) is (int if name == "pid" else str) for name, value in values.items()):
        return None
    return Owner(**values) if 0 < values["pid"] <= _MOST_PID else None


def machine_of(host: str) -> str:
    """Return what processes on this host that can see each other have in common."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # not on Linux
        return host


def started_at(pid: int) -> str | None:
    """Return when a process was started, empty if its system does not tell; None: it is gone."""
    if not _is_running(pid):
        return None
    try:
        # The name before the last bracket may hold anything.
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    # A zombie does nothing any more; it waits for its parent.
    return None if state in ("Z", "X") else rest[18]


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
