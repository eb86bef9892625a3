"""Names that files hold: each is a place below the folder that the caller gave, or an error.

A manifest, a plan or a commit may come from an untrusted writer. A file that it names is opened,
written or deleted only if it is below the root: no `..`, nothing absolute, and on a local disk no
symbolic link on the way. The root itself is chosen by the caller, and may be a link.
"""

from __future__ import annotations

import os
import re
import stat

from lookupstore.errors import CorruptionError, FormatError, printable
from lookupstore.storage.regular_file import kind_error

# Most names are right, which one search shows. The others are searched again for their fault.
_SUSPICIOUS = re.compile(r"\x00|\\|(?:^|/)(?:\.{0,2}|[A-Za-z]:)(?:/|$)")
_DRIVE = re.compile(r"[A-Za-z]:")


def fault_of(name: str) -> str | None:
    r"""Return why a name does not lead to a place below a folder, or None if it does.

    Parts are joined by `/`. Windows takes `\` for that as well: no part may be hidden behind one.

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
    """Check the name of a file or folder that was read from a file.

    Args:
        name: Name of a file or folder.
        holder: Path of the file that holds the name, for the error.
        expected: Description of the name that was expected, for the error.

    Raises:
        CorruptionError: The name does not lead to a place below a folder.
    """
    fault = fault_of(name)
    if fault is not None:
        raise CorruptionError(holder, 0, expected, f"{name!r}: {fault}")


def joined(root: str, name: str) -> str:
    """Return the path of a name below a folder; for an empty name, the folder.

    Raises:
        FormatError: The name leads elsewhere.
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
    """Return the path of a file or folder to read or write below a local folder.

    Raises:
        FormatError: The name leads elsewhere, or to something that is neither a file nor a folder.
        OSError: The system does not say what is there.
    """
    path = entry_path(root, name)
    if name:
        _check_kind(path)
    return path


def entry_path(root: str, name: str) -> str:
    """Return the path of an entry to delete below a local folder, links included.

    Raises:
        FormatError: The name leads elsewhere.
        OSError: The system does not say what is there.
    """
    path = joined(root, name)
    at = path.find("/", len(path) - len(name))
    while at >= 0 and _check_kind(path[:at]):
        at = path.find("/", at + 1)
    return path


def link_error(path: str) -> FormatError:
    """Return the error for a symbolic link whose target would be read or written."""
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
