"""The meaning of errors of reading columnar files: one rule for every reader.

Arrow raises an `OSError` with an errno when the system refuses, and one without an errno when a
page or footer makes no sense, but also when an object store did not answer. Only for a local file
does the second kind mean wrong bytes: an object must not be called damaged because a request
failed.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from lookupstore.errors import CorruptionError, FormatError, StaleStoreError
from lookupstore.storage.uris import hide_urls

#: Errors that Arrow raises while it reads a file, for any reason, also names that are not text and
#: numbers that do not fit their type.
READ_ERRORS = (pa.ArrowException, OSError, IndexError, UnicodeDecodeError, OverflowError)


# Messages of Arrow for healthy files that it does not read, which it also gives for wrong ones:
# arrays of DuckDB and polars (lists of one length) with a null row.
_NOT_READ = ("Length spanned by list offsets",)


@contextmanager
def reading(
    where: str,
    what: str,
    *,
    local: bool,
    gone: str | None = None,
    told: Callable[[str], str] = hide_urls,
    place: Callable[[], int | None] | None = None,
) -> Iterator[None]:
    """Translate errors of reading one file into errors that name the file.

    Args:
        where: Path or URI of the file.
        what: Description of what is read, such as "a Parquet file".
        local: Whether the file is on a disk of this machine.
        gone: Text of the error if the file is missing, which says what that means. Default: the
            error of the file system is raised.
        told: Function that removes from a message the parts that must not be shown.
        place: Function that looks for the offset of the damage in a local file, and returns None if
            it is unknown. Default: the offset in the error is 0.

    Raises:
        CorruptionError: The bytes of the file are wrong.
        FormatError: The file has something that Arrow does not read.
        StaleStoreError: The file is missing, and `gone` says what that means.
        OSError: The file could not be read; a remote file may also be damaged.

    >>> try:
    ...     with reading("a.parquet", "a Parquet file", local=True):
    ...         raise pa.ArrowInvalid("no magic bytes")
    ... except CorruptionError as error:
    ...     print(error)
    a.parquet: offset 0: expected a Parquet file, found no magic bytes
    """
    try:
        yield
    except READ_ERRORS as error:
        meant = read_error(error, where, what, local=local, gone=gone, told=told, place=place)
        if meant is error:
            raise
        raise meant from (error if told(str(error)) == str(error) else None)


def read_error(
    error: Exception,
    where: str,
    what: str,
    *,
    local: bool,
    gone: str | None = None,
    told: Callable[[str], str] = hide_urls,
    place: Callable[[], int | None] | None = None,
) -> Exception:
    """Return the error that one of `READ_ERRORS` means, perhaps itself; see `reading`."""
    if isinstance(error, (MemoryError, pa.ArrowCancelled)):  # errors of Arrow that concern no file
        return error
    if isinstance(error, pa.ArrowNotImplementedError) or any(
        said in str(error) for said in _NOT_READ
    ):
        return FormatError(
            f"{where}: {what} that Arrow does not read: {told(str(error))}; choose other "
            "columns, or give its rows as another program reads them"
        )
    if isinstance(error, OSError):
        if isinstance(error, FileNotFoundError) and gone is not None:
            return StaleStoreError(f"{where}: {gone}")
        if error.errno is not None:
            named = error.filename is not None or where in str(error)
            said = error.strerror or str(error)
            if named and told(str(error)) == str(error):
                return error
            return OSError(error.errno, told(said), where)
        if not local:
            reason = f"could not be read, or is damaged: {told(str(error))}"
            return OSError(errno.EIO, reason, where)
    offset = place() if place is not None and local else None
    return CorruptionError(where, offset or 0, what, told(str(error)))
