"""The exceptions of lookupstore, which share one base class.

Bad arguments raise ``ValueError``, ``TypeError`` or ``KeyError`` instead. These errors name the
argument and what to pass.
"""

from __future__ import annotations

# The command line imports this module before Ctrl-C is handled, so that it has to be light.
TYPE_CHECKING = False
if TYPE_CHECKING:
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
    """Return a text for a terminal, with control characters escaped.

    Args:
        text: Text from any source, such as a path or a column name.
        but: Characters that are not escaped.

    >>> printable("a" + chr(27) + "[2J"), printable("é b")
    ('a\\\\x1b[2J', 'é b')
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in but else ascii(one)[1:-1] for one in text)


# Most names that an error lists, and most characters of each name.
_LISTED = 20
_NAME = 100


def listed(names: Iterable[object], what: Callable[[Any], str] = repr) -> str:
    """Return names for an error: the first ones, and the number of the others.

    Args:
        names: Names to list, such as the columns of a file. There may be any number.
        what: Function that returns one name as text.

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


def meant(name: object, known: Iterable[object], others: str) -> str:
    """Return the end of an error about an unknown name: a similar known one, if any, and the rest.

    Args:
        name: Unknown name.
        known: Known names.
        others: Text about the known names, such as `it has 'id'`.

    >>> "no column 'usr_id'" + meant("usr_id", ["user_id", "name"], "it has 'user_id', 'name'")
    "no column 'usr_id'; did you mean 'user_id'? It has 'user_id', 'name'"
    >>> meant("x", ["user_id"], "it has 'user_id'")
    "; it has 'user_id'"
    >>> meant("id, day", ["id", "day"], "it has 'id', 'day'")
    "; did you mean ['id', 'day']? It has 'id', 'day'"
    """
    by_text = {str(one).lower(): one for one in known}
    parts = [part.strip() for part in str(name).split(",")]
    if len(parts) > 1 and {part.lower() for part in parts} <= set(by_text):
        # The command line takes several names in one text.
        several = [by_text[part.lower()] for part in parts]
        return f"; did you mean {several!r}? {others[:1].upper()}{others[1:]}"
    from difflib import get_close_matches

    like = get_close_matches(str(name).lower(), by_text, n=1)
    if not like:
        return f"; {others}"
    return f"; did you mean {by_text[like[0]]!r}? {others[:1].upper()}{others[1:]}"


def columns_example(names: Iterable[str]) -> str:
    """Return a dict of columns as an example for an error.

    >>> columns_example(["id", "day"])
    "{'id': [...], 'day': [...]}"
    """
    return f"{{{listed(names, lambda name: f'{name!r}: [...]')}}}"


class LookupStoreError(Exception):
    """Base class of lookupstore's errors."""


class FormatError(LookupStoreError):
    """A file or folder cannot be read, or is of another kind than expected."""


class CorruptionError(LookupStoreError):
    """Stored bytes are damaged.

    Attributes:
        path: Path of the file that holds the bytes.
        offset: Offset of the damaged region in that file, in bytes.
        expected: Expected content, as text.
        found: Content that was found instead, as text.
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
    """A version of a store, or a file, was removed or replaced since it was opened."""


class CommitConflictError(LookupStoreError):
    """Another writer committed the same files, keys or version first.

    Read the new state of the table or store, then retry.

    Attributes:
        instant: Instant of the other writer, in a table that has instants. None: It is not known.
        writer: Name of the other writer. None: It gave no name.
        files: Files that both writers write, or that contain keys which both insert.
        keys: Some of this writer's keys in these files.
        is_pending: Whether the other writer is not done, so that a retry has to wait for it.
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


class CommitUnknownError(LookupStoreError):
    """A commit may or may not have happened.

    Find out which before you delete any files.
    """


class LockedError(LookupStoreError):
    """Another writer held the lock of a table for longer than this one could wait."""


class LockLostError(LookupStoreError):
    """The lock of a table was not renewed in time, or another writer holds it now."""


class DiskQuotaError(LookupStoreError):
    """A file does not fit into the quota of local copies.

    Attributes:
        may_pass: Whether the file would fit if nothing else was in use.
    """

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass


class DuplicateKeyError(LookupStoreError, ValueError):
    """A key occurs more than once in a source or table that may have it only once.

    Attributes:
        key: Repeated key, as text.
    """

    def __init__(self, message: str, *, key: str = "") -> None:
        super().__init__(message)
        self.key = key


class MissingKeyError(LookupStoreError):
    """A key is not in a store, and the caller wants an error for missing keys."""
