"""Puts with a condition, which object stores have and pyarrow's file systems do not.

They are made through obstore, with the credentials and the address of pyarrow's file system.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyarrow import fs

from lookupstore.errors import FormatError
from lookupstore.extras import require
from lookupstore.storage.naming import temporary_name
from lookupstore.storage.put_clients import put_clients, server_of
from lookupstore.storage.remote_file import ATTEMPTS, pause_after
from lookupstore.storage.s3_client import options_of, whole_object
from lookupstore.storage.uris import told_by

#: Largest size of an object that is put conditionally and read again: a lock, or a heartbeat.
MOST_BYTES = 1 << 20

_log = logging.getLogger(__name__)


class ConditionalPuts:
    """A client that puts an object only if it is new, or only if it is unchanged.

    Args:
        filesystem: File system of pyarrow.

    Raises:
        FormatError: The file system does not support conditional puts.
        ImportError: If obstore is not installed; the text says what to install.
    """

    def __init__(self, filesystem: fs.FileSystem) -> None:
        kind = put_clients(filesystem)
        if kind is None:
            raise FormatError(
                f"{filesystem.type_name}: puts with a condition are made on S3, Azure and Google "
                "Cloud Storage only"
            )
        require(kind.extra, "a file on an object store that one of several writers may make")
        import obstore
        import obstore.exceptions

        self._obstore: Any = obstore
        self._filesystem = filesystem
        self._kind = kind
        self._options = options_of(filesystem)
        self._stores: dict[str, Any] = {}

    def create(self, path: str, content: bytes) -> str:
        """Put a new object, and return its tag.

        A request is not repeated: if the answer is lost, the object may exist.

        Args:
            path: Bucket, or container, and key of the object.
            content: Content of the object.

        Raises:
            FileExistsError: The object exists already.
        """
        bucket, _, key = path.partition("/")
        with self._telling(path):
            put = self._obstore.put(self._store(bucket), key, content, mode="create")
        return str(put[self._kind.tag])

    def replace(self, path: str, content: bytes, tag: str) -> str | None:
        """Replace an object that has a certain tag, and return the new tag.

        Args:
            path: Bucket, or container, and key of the object.
            content: New content of the object, which must differ from the old: equal contents may
                have one tag.
            tag: Tag of the object when it was read.

        Returns:
            Tag of the new object. None: the object has another tag by now, or is gone.
        """
        bucket, _, key = path.partition("/")
        try:
            with self._telling(path):
                mode = {self._kind.tag: tag}
                put = self._obstore.put(self._store(bucket), key, content, mode=mode)
        except (FileNotFoundError, _ChangedError):
            return None
        return str(put[self._kind.tag])

    def read(self, path: str) -> tuple[bytes, str]:
        """Return a small object and its tag.

        A read that fails is repeated, unlike a put: a process that waits for a lock reads it often,
        and one busy answer of a server must not end the wait.

        Raises:
            FileNotFoundError: There is no such object.
            CorruptionError: The object is larger than a lock or heartbeat may be.
            OSError: No attempt succeeded.
        """
        for attempt in range(1, ATTEMPTS):
            try:
                return self._read_once(path)
            except FileNotFoundError:
                raise
            except OSError as error:
                _log.warning("%s: attempt %d of %d: %s", path, attempt, ATTEMPTS, error.strerror)
            pause_after(attempt)
        return self._read_once(path)

    def _read_once(self, path: str) -> tuple[bytes, str]:
        bucket, _, key = path.partition("/")
        with self._telling(path):
            found = self._obstore.get(self._store(bucket), key)
            return whole_object(found, MOST_BYTES, path), str(found.meta[self._kind.tag])

    def server(self, path: str) -> tuple[str, ...]:
        """Return a tuple that identifies the server and the bucket of a path."""
        return (*server_of(self._filesystem), path.partition("/")[0])

    def check(self, folder: str) -> None:
        """Check with a temporary object that the server obeys the conditions of puts.

        Args:
            folder: Bucket and key of the folder in which the object is put during the check.

        Raises:
            FormatError: The server ignores the conditions.
        """
        path = f"{folder}/{temporary_name('conditions')}"
        try:
            tag = self.create(path, b"1")
            is_kept = self.replace(path, b"2", self._kind.other_tag) is None
            is_kept = is_kept and self.replace(path, b"3", tag) is not None
            try:
                self.create(path, b"4")
                is_kept = False
            except FileExistsError:
                pass
        except BaseException:
            with suppress(OSError):  # it may not be there
                self._filesystem.delete_file(path)
            raise
        self._filesystem.delete_file(path)
        if not is_kept:
            bucket, conditions = folder.partition("/")[0], self._kind.conditions
            raise FormatError(
                f"{bucket}: the server ignores the conditions of a put ({conditions}), which keep "
                "concurrent writers from overwriting each other"
            )

    def _store(self, bucket: str) -> Any:
        known = self._stores.get(bucket)
        if known is None:
            known = self._stores[bucket] = self._kind.client(self._options, bucket)
        return known

    @contextmanager
    def _telling(self, path: str) -> Iterator[None]:
        """Translate obstore errors to built-in ones."""
        errors = self._obstore.exceptions
        try:
            yield
        except errors.AlreadyExistsError:
            raise FileExistsError(errno.EEXIST, "exists", path) from None
        except errors.PreconditionError:
            raise _ChangedError(errno.EAGAIN, "changed", path) from None
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, "no such object", path) from None
        except errors.BaseError as error:
            reason = told_by(self._filesystem, str(error).partition("\n")[0], path)
            raise OSError(errno.EIO, reason, path) from None


class _ChangedError(OSError):
    """An error of an object that has another tag by now."""
