"""Puts with a condition, which object stores have and pyarrow's file systems do not.

They are made through obstore, with the credentials and the address of pyarrow's file system.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyarrow import fs

from lookupstore.errors import FormatError
from lookupstore.extras import require
from lookupstore.storage.naming import temporary_name
from lookupstore.storage.put_clients import put_clients, server_of
from lookupstore.storage.s3_client import options_of, whole_object
from lookupstore.storage.uris import told_by

#: Of an object that is put on conditions and read again: a lock, or a heartbeat.
MOST_BYTES = 1 << 20


class ConditionalPuts:
    """A client that puts an object only if it does not exist, or only if it is unchanged.

    Args:
        filesystem: of pyarrow.

    Raises:
        FormatError: its objects cannot be put on conditions.
        ImportError: obstore is not installed; says what to install.
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

        A request is not repeated: if the answer is lost, the object may be there.

        Args:
            path: bucket, or container, and key.
            content: of the object.

        Raises:
            FileExistsError: there is one.
        """
        bucket, _, key = path.partition("/")
        with self._telling(path):
            put = self._obstore.put(self._store(bucket), key, content, mode="create")
        return str(put[self._kind.tag])

    def replace(self, path: str, content: bytes, tag: str) -> str | None:
        """Put an object in the place of the one that has a tag, and return its own.

        Args:
            path: bucket, or container, and key.
            content: of the object, another than before: equal ones may have one tag.
            tag: of the object as it was read.

        Returns:
            None if it is another one by now, or gone.
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

        Raises:
            FileNotFoundError: there is none.
            CorruptionError: it is larger than locks and heartbeats are.
        """
        bucket, _, key = path.partition("/")
        with self._telling(path):
            found = self._obstore.get(self._store(bucket), key)
            return whole_object(found, MOST_BYTES, path), str(found.meta[self._kind.tag])

    def server(self, path: str) -> tuple[str, ...]:
        """Return what tells the server and bucket of a path from others."""
        return (*server_of(self._filesystem), path.partition("/")[0])

    def check(self, folder: str) -> None:
        """Put an object twice, since some servers pass over conditions.

        Args:
            folder: bucket and key of where it is put, for as long as that takes.

        Raises:
            FormatError: the second one was put.
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
        finally:
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
