"""The home folder of the user, for a path that begins with `~`, and whether there is one."""

from __future__ import annotations

import os


def expanded(path: str) -> str:
    """Return a path with the home folder for a `~` at its beginning, as a shell does.

    A URI, and a path with a `~` elsewhere, are returned unchanged.

    Raises:
        ValueError: If the path is `~` or begins with `~/`, and the user has no home folder.

    >>> import os
    >>> expanded("~/stores") == os.path.join(os.path.expanduser("~"), "stores")
    True
    >>> expanded("stores/~old"), expanded("s3://bucket/~/users")
    ('stores/~old', 's3://bucket/~/users')
    """
    if not path.startswith("~"):
        return path
    found = os.path.expanduser(path)
    if found == path and (path == "~" or path.startswith("~/")):
        raise ValueError(f"path {path!r}: this user has no home folder; set HOME, or give the path")
    return found


def path_here(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a file that must be on this machine.

    Raises:
        ValueError: If the path is a URI; or if it is `~` or begins with `~/`, and the user has no
            home folder.

    >>> import os
    >>> path_here("users.sst") == os.path.abspath("users.sst")
    True
    """
    text = expanded(os.fspath(path))
    if "://" in text:
        scheme = text.partition("://")[0]
        raise ValueError(
            f"path is a URI, of {scheme}://; give a file of this machine: only stores, columnar "
            "files and Hudi tables are read elsewhere"
        )
    return os.path.abspath(text)


def home_folder() -> str | None:
    """Return the home folder, or None: in a container there may be none, or one only by name.

    >>> home_folder() != "/"
    True
    """
    home = os.path.expanduser("~")
    # Containers without a home folder give "/".
    return home if home not in ("~", "/") and os.path.isdir(home) else None
