"""Reads of ranges of one object of an object store, repeated where that may help.

The kind of an error of an object store tells nothing: a time-out, a refusal of too many requests
and a broken connection are all an `OSError`. So each of them is tried again, a bounded number of
times; an answer that is too short is a failure, too.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import pickle
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from lookupstore.errors import CorruptionError
from lookupstore.storage.s3_client import reads_of
from lookupstore.storage.uris import shown_uri, told_by

#: Number of attempts to read a range, and seconds before the second one; the wait doubles.
ATTEMPTS = 6
FIRST_WAIT = 0.1
LONGEST_WAIT = 5.0

#: Seconds that a fork waits for running requests.
FORK_WAIT = 10.0

#: Largest number of requests that a process has at the same time.
AT_ONCE = 64

_log = logging.getLogger(__name__)


class RemoteFile:
    """Ranged reads of an object whose size is known.

    Threads may share it. A child of fork opens the file system again, because the client of its
    parent has threads that the child does not have. A fork waits for requests that are running,
    because the locks that they hold inside the client would never be released in the child.

    Args:
        filesystem: File system of pyarrow.
        path: Path of the object in the file system.
        nbytes: Size that the object must have.
        uri: URI of the object; errors and logs show it without credentials.

    Attributes:
        nbytes_read: Number of bytes that were read.
        requests: Number of ranges that were requested, each attempt counted.
        retries: Number of attempts after the first one of a range.
    """

    def __init__(self, filesystem: Any, path: str, *, nbytes: int, uri: str) -> None:
        self.uri: str = shown_uri(uri)
        self.nbytes = nbytes
        self.nbytes_read: int = 0
        self.requests: int = 0
        self.retries: int = 0
        self._filesystem = filesystem
        self._path = path
        self._reads = reads_of(filesystem)
        self._file: Any = None
        self._lock = threading.Lock()
        self._forked = False
        _remote_files.add(self)

    def __del__(self) -> None:
        file = getattr(self, "_file", None)
        if file is not None and not self._forked:
            file.close()

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        self._reads = None
        self._forked = True

    def opened(self) -> Any:
        """Return the file, which is opened again in a child of fork."""
        with self._lock:
            if self._forked:
                # The old file is kept: closing it would use the client of the parent.
                self._of_parent = self._filesystem, self._file
                self._filesystem = pickle.loads(pickle.dumps(self._filesystem))
                self._file = None
                self._forked = False
            if self._file is None:
                file = self._filesystem.open_input_file(self._path)
                try:
                    self._check_size(file.size())
                except CorruptionError:
                    file.close()
                    raise
                self._file = file
            return self._file

    def _check_size(self, size: int) -> None:
        if size != self.nbytes:
            raise CorruptionError(
                self.uri, min(size, self.nbytes), f"an object of {self.nbytes} bytes", size
            )

    def _forget(self, file: Any) -> None:
        with self._lock:
            if self._file is file:
                self._file = None

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes.

        Raises:
            FileNotFoundError: There is no such object.
            CorruptionError: The object has another size.
            OSError: The object store did not return the bytes in any attempt; or this process was
                forked during a request that did not end.
        """
        data = self._read_directly(offset, size)
        if data is not None:
            self.nbytes_read += size
            return data
        attempt = 1
        while True:
            self.requests += 1
            try:
                data = self._read_once(offset, size)
                if len(data) == size:
                    self.nbytes_read += size
                    return data
                problem = f"received {len(data)} bytes"
            except FileNotFoundError:
                raise FileNotFoundError(errno.ENOENT, "no such object", self.uri) from None
            except OSError as error:
                problem = told_by(self._filesystem, str(error), self.uri)
            what = f"{self.uri}: {size} bytes at offset {offset}"
            if attempt == ATTEMPTS:
                raise OSError(
                    f"{what} could not be read in {ATTEMPTS} attempts; last error: {problem}"
                )
            _log.warning("%s: attempt %d of %d: %s", what, attempt, ATTEMPTS, problem)
            self.retries += 1
            pause_after(attempt)
            attempt += 1

    def _read_once(self, offset: int, size: int) -> bytes:
        """Return bytes; after a failure or too few bytes, the next read opens the file again."""
        data = b""
        with _fork_gate.passed(self.uri):
            file = self.opened()
            try:
                data = bytes(file.read_at(size, offset))
            finally:
                if len(data) != size:
                    self._forget(file)
                del file  # its client must not be closing it when the process forks
        return data

    def _read_directly(self, offset: int, size: int) -> bytes | None:
        """Return bytes read by one request, or None if pyarrow's client has to read them."""
        reads = self._reads
        if reads is None or not reads.is_usable:
            return None
        self.requests += 1
        try:
            with _fork_gate.passed(self.uri):
                data, found = reads.read(self._path, offset, size)
        except OSError as error:
            # The error itself would keep the calling code's objects alive, and with them the copy.
            problem = told_by(self._filesystem, str(error), self.uri)
        else:
            self._check_size(found)
            if len(data) == size:
                return data
            problem = f"received {len(data)} bytes"
        self.retries += 1
        level = logging.WARNING if reads.is_usable else logging.INFO
        what = f"{self.uri}: {size} bytes at offset {offset}"
        _log.log(level, "%s: %s; asking for them by pyarrow's client", what, problem)
        return None


class RemoteStream(io.RawIOBase):
    """A remote file as Python's files are, for Arrow.

    Its size is known, so that no request asks for it.

    Args:
        file: The file.
    """

    def __init__(self, file: RemoteFile) -> None:
        self._remote = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._remote.nbytes}
        self._at = start[whence] + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, fewer at the end; less than 0: all that are left."""
        data = self.read_at(self._remote.nbytes if size is None or size < 0 else size, self._at)
        self._at += len(data)
        return data

    def read_at(self, size: int, offset: int) -> bytes:
        """Return bytes from an offset on, fewer at the end; threads may call it at once."""
        size = min(size, max(0, self._remote.nbytes - offset))
        return self._remote.read(offset, size) if size else b""


class RemoteArrowFile(pa.PythonFile):  # type: ignore[misc]  # Arrow has no types
    """A remote file for Arrow, of which threads may read ranges at the same time.

    Arrow lets only one thread at a time read a file that Python has made.

    Args:
        stream: The file.
        mode: Mode of the file, for Arrow: reading.
    """

    def __init__(self, stream: RemoteStream, mode: str) -> None:
        self._stream = stream

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Return bytes from an offset on, fewer at the end."""
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return self._stream.read_at(nbytes, offset)


def pause_after(attempt: int) -> None:
    """Wait after a request that failed, for longer each time.

    Clients that failed at the same time return at different times.
    """
    longest = min(LONGEST_WAIT, FIRST_WAIT * 2 ** (attempt - 1))
    time.sleep(longest * random.uniform(0.5, 1))


def at_once(call: Callable[[int, int], None], ranges: Iterable[tuple[int, int]]) -> None:
    """Call with each range in threads of the process; the first error is raised when all ended."""
    listed = list(ranges)
    if len(listed) == 1:
        call(*listed[0])
        return
    futures = [_pool().submit(call, *each) for each in listed]
    done, rest = wait(futures, return_when=FIRST_EXCEPTION)
    for future in rest:
        future.cancel()
    wait(rest)
    for future in done:
        future.result()


class _ForkGate:
    """A gate that lets a process fork only while none of its requests is running."""

    def __init__(self, usable: bool = True) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._closed = False
        self._usable = usable

    @contextmanager
    def passed(self, uri: str) -> Iterator[None]:
        if not self._usable:
            raise RuntimeError(
                f"{uri}: this process was forked while its parent waited for an object store; its "
                "client cannot be used here: start processes with spawn, or open the store in them"
            )
        with self._changed:
            self._changed.wait_for(lambda: not self._closed)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: self._inside == 0, FORK_WAIT)

    def open(self) -> None:
        with self._changed:
            self._closed = False
            self._changed.notify_all()

    def of_child(self) -> _ForkGate:
        return _ForkGate(self._usable and self._inside == 0)


_fork_gate = _ForkGate()
_remote_files: weakref.WeakSet[RemoteFile] = weakref.WeakSet()
_threads: ThreadPoolExecutor | None = None
_threads_lock = threading.Lock()


def _pool() -> ThreadPoolExecutor:
    global _threads
    with _threads_lock:
        if _threads is None:
            _threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="lookupstore-fetch")
        return _threads


def _after_fork() -> None:
    global _threads, _threads_lock, _fork_gate
    _threads, _threads_lock = None, threading.Lock()
    _fork_gate = _fork_gate.of_child()
    for file in list(_remote_files):
        file._after_fork()


os.register_at_fork(
    before=lambda: _fork_gate.close(),
    after_in_parent=lambda: _fork_gate.open(),
    after_in_child=_after_fork,
)
