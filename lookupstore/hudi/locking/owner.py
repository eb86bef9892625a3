"""Owners of locks and instants, and whether they are known to be dead.

A process is identified by its machine, its number and its start time, because numbers are used
again. A machine is identified by its boot and its process namespace, so that two containers with
the same host name are two machines.
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
from lookupstore.storage.boot import boot_id
from lookupstore.storage.json_text import parse_json

#: Maximum size of the file of a lock or heartbeat; larger files belong to other programs.
MOST_BYTES = 1 << 16
# Largest process id; the system does not accept larger numbers.
_MOST_PID = (1 << 31) - 1

# Running owners of this process: an owner whose thread ended with an error is not one.
_AT_WORK: Counter[str] = Counter()
_AT_WORK_LOCK = threading.Lock()


@dataclass(frozen=True)
class Owner:
    """A writer that works on a table.

    Attributes:
        name: Name for messages.
        host: Name of the host of the process.
        machine: Text that is equal for processes that can see each other.
        pid: Number of the process.
        started: Start time of the process, as its system shows it. Empty: unknown.
        id: Unique id of this work.
    """

    name: str
    host: str
    machine: str
    pid: int
    started: str
    id: str

    @classmethod
    def here(cls, name: str | None = None) -> Owner:
        """Return an owner for new work of this process; default name: host and number.

        >>> Owner.here("nightly load").name
        'nightly load'
        """
        host, pid = socket.gethostname(), os.getpid()
        shown = f"{host}:{pid}" if name is None else name
        return cls(shown, host, machine_of(host), pid, started_at(pid) or "", uuid.uuid4().hex)

    @property
    def is_here(self) -> bool:
        """Return whether this process can see the process of the owner."""
        return self.machine == machine_of(socket.gethostname())

    @property
    def is_gone(self) -> bool:
        """Return whether the owner is known to be dead; False for other machines."""
        if not self.is_here:
            return False
        started = started_at(self.pid)
        if started is None or (started and self.started and started != self.started):
            return True
        return self.pid == os.getpid() and self.id not in _AT_WORK

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Count the owner as alive while the block runs."""
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
        """Return the owner as the content of a file.

        >>> owner = Owner.here()
        >>> parse_owner(owner.to_json()) == owner
        True
        """
        return json.dumps({"owner": asdict(self)}).encode()


def parse_owner(content: bytes) -> Owner | None:
    """Return the owner that a file names; None: another program wrote the file."""
    try:
        record = parse_json(content, "", "an owner", most_bytes=MOST_BYTES)
        values = {one.name: record["owner"][one.name] for one in fields(Owner)}
    except (CorruptionError, TypeError, KeyError):
        return None
    if not all(type(value) is (int if name == "pid" else str) for name, value in values.items()):
        return None
    return Owner(**values) if 0 < values["pid"] <= _MOST_PID else None


def machine_of(host: str) -> str:
    """Return a text that processes share if they can see each other on a host."""
    boot = boot_id()
    try:
        return f"{boot} {os.readlink('/proc/self/ns/pid')}" if boot else host
    except OSError:  # not on Linux
        return host


def started_at(pid: int) -> str | None:
    """Return the start time of a process, empty if unknown; None: it is gone."""
    if not _is_running(pid):
        return None
    try:
        # The name before the last bracket may contain any characters.
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    # A zombie has ended; it only waits for its parent.
    return None if state in ("Z", "X") else rest[18]


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
