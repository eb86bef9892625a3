"""A folder and files that only this user can write, even if others replace them.

Files in the cache folder of a host answer lookups. Therefore no other user may write it: the folder
has mode 0700, its files 0600, and both are checked before they are used. If several users share a
folder, each has a folder of their own in it.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress

from lookupstore.storage.regular_file import folder_error

#: Names of environment variables: the cache folder, and `1` if other users may write it.
VARIABLE = "LOOKUPSTORE_CACHE"
SHARED = f"{VARIABLE}_SHARED"

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class NotOwnError(PermissionError):
    """A folder or file that other users own or may write."""


def is_shared() -> bool:
    """Return whether other users may write the cache folder.

    Raises:
        ValueError: If the variable that decides it is neither `1` nor `0`.
    """
    given = os.environ.get(SHARED, "")
    if given not in ("", "0", "1"):
        raise ValueError(f"{SHARED} is {given!r}; give 1 or 0")
    return given == "1"


def own_part(folder: str) -> str:
    """Return the folder of this user: the given one, or a folder in it if that is shared."""
    return os.path.join(folder, f"user-{os.geteuid()}") if is_shared() else folder


def make_own_folder(path: str) -> int:
    """Make a folder of this user alone unless it exists; return its mode.

    Raises:
        NotOwnError: The folder belongs to another user, or others may write it or change what its
            path leads to.
        OSError: The folder cannot be made.
    """
    path = os.path.abspath(path)
    if not os.path.lexists(path):
        os.makedirs(path, mode=stat.S_IRWXU, exist_ok=True)
    return check_own_folder(path)


def check_own_folder(path: str) -> int:
    """Check that a folder belongs to this user alone; return its mode.

    Raises:
        NotOwnError: The folder belongs to another user, or others may write it or change what its
            path leads to.
        OSError: The path is not a folder, or cannot be read.
    """
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        above = os.stat(os.path.dirname(path))
        if above.st_mode & _OTHERS_WRITE or above.st_uid not in (0, os.geteuid()):
            raise _refused_error(path, "this is a link that others may change")
        status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    if status.st_uid != os.geteuid():
        owner = f"it belongs to user {status.st_uid}, and this is user {os.geteuid()}"
        raise _refused_error(path, owner)
    mode = stat.S_IMODE(status.st_mode)
    if mode & _OTHERS_WRITE:
        remedy = f"if all in it is yours, run chmod 700 {path}; else "
        raise _refused_error(path, f"others may write it (mode {mode:o})", remedy)
    return mode


def _refused_error(path: str, why: str, remedy: str = "") -> NotOwnError:
    share = f", or {SHARED}=1 to use a folder of this user inside it"
    reason = (
        f"local copies in this folder cannot be trusted: {why}; {remedy}set {VARIABLE} to a "
        f"folder of this user alone{'' if is_shared() else share}"
    )
    return NotOwnError(errno.EACCES, reason, path)


def open_own(path: str, how: int = os.O_RDWR) -> int:
    """Open a file, or a folder, of this user alone; return its descriptor.

    Args:
        path: Path of the file or folder.
        how: Flags of `os.open`; a new file can be read and written by this user only.

    Raises:
        NotOwnError: The file is a link or belongs to another user, or others may write it.
        OSError: The file cannot be opened.
    """
    try:
        descriptor = os.open(path, how | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EACCES, errno.EPERM):
            raise _not_own_error(path) from None
        if error.errno == errno.EISDIR:
            raise folder_error(path) from None
        raise
    if not _is_own(os.fstat(descriptor)):
        os.close(descriptor)
        raise _not_own_error(path)
    return descriptor


def make_own_file(path: str) -> None:
    """Make an empty file of this user alone unless it exists, without opening it.

    Closing a file releases all record locks that its process has on it.

    Raises:
        NotOwnError: The file is a link or belongs to another user, or others may write it.
        OSError: The file cannot be made.
    """
    if not os.path.lexists(path):
        descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path))  # it has mode 0600
        os.close(descriptor)
        try:
            with suppress(FileExistsError):
                os.link(temporary, path)
        finally:
            os.unlink(temporary)
    if not _is_own(os.lstat(path)):  # the mode of a link is 0777
        raise _not_own_error(path)


def _is_own(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE


def _not_own_error(path: str) -> NotOwnError:
    return NotOwnError(errno.EACCES, "not a file of this user alone; remove it", path)
