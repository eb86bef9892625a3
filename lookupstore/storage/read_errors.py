"""What it means when reading a columnar file fails: one rule for every reader.

Arrow raises an `OSError` with an errno when the system says no; one without, when a page or footer
makes no sense, but also when an object store did not answer. Only of a local file does the second
kind say that bytes are wrong: nobody may call an object damaged because a request failed.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from lookupstore.errors import CorruptionError, FormatError, StaleStoreError
from lookupstore.storage.uris import hide_urls

#: What Arrow raises while it reads a file, whatever the reason: also of names that are not text,
#: and of numbers that are none of their type.
READ_ERRORS = (pa.ArrowException, OSError, IndexError, UnicodeDecodeError, OverflowError)


# What Arrow says of healthy files that it does not read, as of wrong ones: arrays of DuckDB and
# polars, lists of one length, where a row is null.
_NOT_READ = ("Length spanned by list offsets",)


@contextmanager
def reading(
    where: str,
    what: str,
    *,
    local: bool,
    gone: str | None = None,
    told: Callable[[str], str] = hide_urls,
) -> Iterator[None]:
    """Let errors of reading one file name it, and say what is wrong with it.

    Args:
        where: path or URI of the file.
        what: is read of it, such as "a Parquet file".
        local: whether the file is on a disk of this machine.
        gone: what it means that the file is not there; None: it was to be found here.
        told: what leaves out of a message what nobody may be shown.

    Raises:
        CorruptionError: its bytes are wrong.
        FormatError: it has something that Arrow does not read.
        StaleStoreError: it is gone, and that means something.
        OSError: it could not be read; or it is remote, and nobody knows which of the two it is.

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
        meant = read_error(error, where, what, local=local, gone=gone, told=told)
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
) -> Exception:
    """Return what one of `READ_ERRORS` means, `error` itself if it says so; see `reading`."""
    if isinstance(error, (MemoryError, pa.ArrowCancelled)):  # of Arrow's kind, and of no file
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
    return CorruptionError(where, 0, what, told(str(error)))
