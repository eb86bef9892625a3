"""Every exception that lookupstore raises on purpose, under one base.

Bad arguments are not here: they are ``ValueError``, ``TypeError`` and ``KeyError`` that name the
argument and say what would be right.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

__all__ = [
    "ClosedError",
    "CommitConflictError",
    "CommitUnknownError",
    "CorruptionError",
    "DiskQuotaError",
    "DuplicateKeyError",
    "FormatError",
    "LockLostError",
    "LockedError",
    "LookupStoreError",
    "MissingKeyError",
    "StaleStoreError",
]


def printable(text: str, *, but: str = "") -> str:
    """Return a text as a terminal shows it, characters escaped that would change what it shows.

    Args:
        text: that may be of anybody.
        but: characters that stay as they are.

    >>> printable("a" + chr(27) + "[2J"), printable("é b")
    ('a\\\\x1b[2J', 'é b')
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in but else ascii(one)[1:-1] for one in text)


# Names that an error lists, and characters of each.
_LISTED = 20
_NAME = 100


def listed(names: Iterable[object], what: Callable[[Any], str] = repr) -> str:
    """Return names for an error: the first of them, and how many there are beside these.

    Args:
        names: of the columns of a file, of which there may be any number.
        what: shows one of them.

    >>> listed(["id", "name"])
    "'id', 'name'"
    >>> listed(range(200_000))[-31:]
    '16, 17, 18, 19 and 199,980 more'
    """
    names = list(names)
    shown = [what(one) for one in names[:_LISTED]]
    shown = [one if len(one) <= _NAME else f"{one[:_NAME]}..." for one in shown]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest:,} more" if rest else "")


class LookupStoreError(Exception):
    """Base class of lookupstore's errors."""


class FormatError(LookupStoreError):
    """A file or folder has something that is not read, or is not what it was opened as."""


class CorruptionError(LookupStoreError):
    """Stored bytes are damaged.

    Attributes:
        path: file that holds the bytes.
        offset: offset in that file, in bytes, of the region that is wrong.
        expected: what should be there, as text.
        found: what is there, as text.
    """

    def __init__(self, path: str, offset: int, expected: object, found: object) -> None:
        self.path: str = str(path)
        self.offset: int = int(offset)
        self.expected: str = str(expected)
        self.found: str = str(found)
        # All four reach Exception.args, so that the error survives pickling between processes.
        super().__init__(self.path, self.offset, self.expected, self.found)

    def __str__(self) -> str:
        said = f"offset {self.offset}: expected {self.expected}, found {self.found}"
        return f"{printable(self.path)}: {printable(said, but=chr(10))}"


class ClosedError(LookupStoreError):
    """A reader, writer or store was used after it was closed."""


class StaleStoreError(LookupStoreError):
    """A version of a store, or a file, that was opened or planned on no longer exists."""


class CommitConflictError(LookupStoreError):
    """Another writer committed the same files, keys or version first: refresh and retry.

    Attributes:
        instant: the instant of the other writer, in a table that has instants.
        writer: the other writer, if it gave its name.
        files: files that both write, or that have keys which both insert.
        keys: some of this writer's keys in these files.
        is_pending: whether the other writer is not done, so that a retry has to wait for it.
    """

    def __init__(
        self,
        message: str,
        *,
        instant: str | None = None,
        writer: str | None = None,
        files: tuple[str, ...] = (),
        keys: tuple[str, ...] = (),
        is_pending: bool = False,
    ) -> None:
        super().__init__(message)
        self.instant = instant
        self.writer = writer
        self.files = files
        self.keys = keys
        self.is_pending = is_pending

    def __reduce__(self) -> tuple[Any, ...]:
        said = functools.partial(
            CommitConflictError,
            instant=self.instant,
            writer=self.writer,
            files=self.files,
            keys=self.keys,
            is_pending=self.is_pending,
        )
        return said, self.args


class CommitUnknownError(LookupStoreError):
    """A commit may or may not have happened: check before cleaning anything up."""


class LockedError(LookupStoreError):
    """Another writer kept the lock of a table for longer than this one wanted to wait."""


class LockLostError(LookupStoreError):
    """The lock of a table was not renewed in time, or belongs to another writer now."""


class DiskQuotaError(LookupStoreError):
    """A file does not fit into the quota of local copies.

    Attributes:
        may_pass: whether it would fit if nothing else was in use.
    """

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(DiskQuotaError, may_pass=self.may_pass), self.args


class DuplicateKeyError(LookupStoreError, ValueError):
    """A key is in several rows where there may be one: of what a store is built from, of a table.

    Attributes:
        key: the key, as text.
    """

    def __init__(self, message: str, *, key: str = "") -> None:
        super().__init__(message)
        self.key = key

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(DuplicateKeyError, key=self.key), self.args


class MissingKeyError(LookupStoreError):
    """A key is not in a store, and the caller asked for an error in that case."""
