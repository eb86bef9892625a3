"""Opening of regular local files: a pipe would wait for a writer, a device has no end."""

from __future__ import annotations

import errno
import os
import stat

from lookupstore.errors import FormatError, printable

_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
# Do not wait for the other end of a pipe; for a regular file the flag has no effect.
_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)


def open_regular(path: str) -> int:
    """Open a file for reading, and return its descriptor.

    Raises:
        FileNotFoundError: There is no such file.
        IsADirectoryError: The path is a folder.
        FormatError: The path is a pipe, a socket or a device.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, which cannot be opened
            check_regular(path)
        raise
    try:
        _check(os.fstat(descriptor).st_mode, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check_regular(path: str) -> None:
    """Check that a file that others are going to open is a regular one; see `open_regular`."""
    _check(os.stat(path).st_mode, path)


def folder_error(path: str) -> IsADirectoryError:
    """Return the error for a folder in the place of a file."""
    said = "a folder, not a file; give the path of a file, or remove the folder"
    return IsADirectoryError(errno.EISDIR, said, path)


def kind_error(mode: int, path: str) -> FormatError:
    """Return the error for an entry that is neither a regular file nor a folder."""
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "of an unknown kind")
    return FormatError(f"{printable(path)}: {kind}, not a regular file")


def _check(mode: int, path: str) -> None:
    if stat.S_ISDIR(mode):
        raise folder_error(path)
    if not stat.S_ISREG(mode):
        raise kind_error(mode, path)
