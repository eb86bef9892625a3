"""Names that files hold: each is a place below the folder that the caller gave, or an error.

A manifest, a plan or a commit may come from anybody. What it names is opened, written or deleted
only if it is below the root: no `..`, nothing absolute, and on a local disk no symbolic link on the
way. The root itself is the caller's, and may be a link.
"""

from __future__ import annotations

import os
import re
import stat

from lookupstore.errors import CorruptionError, FormatError, printable
from lookupstore.storage.regular_file import kind_error

# Most names are right: looked at in one step. Then it is said what is wrong with the others.
_SUSPICIOUS = re.compile(r"\x00|\\|(?:^|/)(?:\.{0,2}|[A-Za-z]:)(?:/|$)")
_DRIVE = re.compile(r"[A-Za-z]:")


def fault_of(name: str) -> str | None:
    r"""Return what makes a name none of a place below a folder; None: it is one.

    Parts are joined by `/`. Windows takes `\` for that as well: nothing may be hidden behind one.

    >>> fault_of("day=1/a%2Fb/v1.2 final.parquet")
    >>> fault_of("../users"), fault_of("/etc"), fault_of("a\\..\\b")
    ("it has '..' in it", 'it is absolute', "it has '..' in it")
    """
    if _SUSPICIOUS.search(name) is None:
        return None
    if "\0" in name:
        return "it has a NUL in it"
    if name[:1] in ("/", "\\"):
        return "it is absolute"
    for part in re.split(r"[/\\]", name):
        if part in (".", ".."):
            return f"it has {part!r} in it"
        if not part:
            return "a part of it is empty"
        if _DRIVE.fullmatch(part):
            return f"it has the drive {part!r} in it"
    return None


def check_name(name: str, holder: str, expected: str) -> None:
    """Check a name that a file holds.

    Args:
        name: of a file or folder.
        holder: path of the file that holds it, for the error.
        expected: what it should be the name of, for the error.

    Raises:
        CorruptionError: it is not the name of a place below a folder.
    """
    fault = fault_of(name)
    if fault is not None:
        raise CorruptionError(holder, 0, expected, f"{name!r}: {fault}")


def joined(root: str, name: str) -> str:
    """Return the path of a name below a folder; the folder itself if the name is empty.

    Raises:
        FormatError: the name leads elsewhere.
    """
    if not name:
        return root
    fault = fault_of(name)
    if fault is not None:
        raise FormatError(
            f"{printable(root)}: {name!r} is not the name of a place inside it: {fault}"
        )
    return f"{root.rstrip('/')}/{name}" if root else name


def local_path(root: str, name: str) -> str:
    """Return the path of a file or folder that is read or written below a local folder.

    Raises:
        FormatError: the name leads elsewhere, or to something that is neither a file nor a folder.
        OSError: the system does not say what is there.
    """
    path = entry_path(root, name)
    if name:
        _check_kind(path)
    return path


def entry_path(root: str, name: str) -> str:
    """Return the path of what is deleted below a local folder: a link is, not what it leads to.

    Raises:
        FormatError: the name leads elsewhere.
        OSError: the system does not say what is there.
    """
    path = joined(root, name)
    at = path.find("/", len(path) - len(name))
    while at >= 0 and _check_kind(path[:at]):
        at = path.find("/", at + 1)
    return path


def link_error(path: str) -> FormatError:
    """Return the error for a symbolic link where what it leads to would be read or written."""
    return FormatError(
        f"{printable(path)}: a symbolic link, which is not followed, as it may lead out of the "
        "folder that was given; put what it leads to in its place"
    )


def _check_kind(path: str) -> bool:
    """Return whether there is a file or folder at a path; other kinds, and links, are errors."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if stat.S_ISLNK(mode):
        raise link_error(path)
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise kind_error(mode, path)
    return True
