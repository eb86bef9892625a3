"""Every exception that lookupstore raises on purpose, under one base.

Bad arguments are not here: they are ``ValueError``, ``TypeError`` and ``KeyError`` that name the
argument and say what would be right.
"""

from __future__ import annotations

import functools
from typing import Any


class LookupStoreError(Exception):
    """Be the base of every failure that is lookupstore's own."""


class FormatError(LookupStoreError):
    """Say that a file or folder is not what it was opened as, or needs a codec that is missing."""


class CorruptionError(LookupStoreError):
    """Say that stored bytes contradict themselves, and where.

    Attributes:
        path: file that holds the bytes.
        offset: offset in that file, in bytes, of the region that is wrong.
        expected: what should be there, as text.
        found: what is there, as text.
    """

    def __init__(self, path: str, offset: int, expected: object, found: object) -> None:
        self.path = str(path)
        self.offset = int(offset)
        self.expected = str(expected)
        self.found = str(found)
        # All four reach Exception.args, so that the error survives pickling between processes.
        super().__init__(self.path, self.offset, self.expected, self.found)

    def __str__(self) -> str:
        return f"{self.path}: offset {self.offset}: expected {self.expected}, found {self.found}"


class ClosedError(LookupStoreError):
    """Say that a reader, writer or store was used after it was closed."""


class StaleStoreError(LookupStoreError):
    """Say that a version of a store that was planned on is not there any more."""


class CommitConflictError(LookupStoreError):
    """Say that another writer was faster with the same files, keys or version: refresh and retry.

    Attributes:
        instant: that the other writer committed, in a table that has instants.
        writer: who that was, as far as it says so.
        files: that both touch, or that hold keys which both insert.
        keys: some keys that this writer has in them.
    """

    def __init__(
        self,
        message: str,
        *,
        instant: str | None = None,
        writer: str | None = None,
        files: tuple[str, ...] = (),
        keys: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.instant = instant
        self.writer = writer
        self.files = files
        self.keys = keys

    def __reduce__(self) -> tuple[Any, ...]:
        said = functools.partial(
            CommitConflictError,
            instant=self.instant,
            writer=self.writer,
            files=self.files,
            keys=self.keys,
        )
        return said, self.args


class CommitUnknownError(LookupStoreError):
    """Say that a version may have been published or not: look before anything is cleaned up."""


class LockedError(LookupStoreError):
    """Say that somebody else kept the lock of a table for longer than one wanted to wait."""


class LockLostError(LookupStoreError):
    """Say that the lock of a table was not renewed in time, or is another's by now."""


class DiskQuotaError(LookupStoreError):
    """Say that a file does not fit into the quota of local copies.

    Attributes:
        may_pass: whether it would fit if nothing else was in use.
    """

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(DiskQuotaError, may_pass=self.may_pass), self.args


class MissingKeyError(LookupStoreError):
    """Say that a key is not in a store, to those who asked for an error then."""
