"""How a local file, and a file elsewhere, gets its name: the one that it has until it is whole.

Such a name is hidden, so that no reader takes the file for anything, and each is made once. They
are made here, and told from others here. A name lasts when its folder is synced.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

_NAME = re.compile(r"\.(?P<final>[^/]+)\.[0-9a-f]{32}\.tmp")
# Also those of files inside of a folder that has such a name.
_PART = re.compile(r"(^|/)\.[^/]*\.tmp(/|$)")


def temporary_name(final: str) -> str:
    """Return a new name, without folders, of what gets its final one when it is whole.

    >>> final_name(temporary_name("a.parquet"))
    'a.parquet'
    """
    return f".{final}.{uuid.uuid4().hex}.tmp"


def final_name(name: str) -> str | None:
    """Return what a file is to be called when it is whole; None: the name is no temporary one."""
    found = _NAME.fullmatch(name)
    return None if found is None else found["final"]


def is_temporary(path: str) -> bool:
    """Return whether a path is that of a file or folder that is not whole, or is inside of one.

    >>> is_temporary("data/.a.sst.0123.tmp"), is_temporary(".versions.0123.tmp/1.json")
    (True, True)
    >>> is_temporary("data/a.tmp")
    False
    """
    return _PART.search(path) is not None


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Let errors of writing name the file: those of an open file, such as a full disk, do not."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = path
        raise


def sync_folder(folder: str) -> None:
    """Put the names in a folder on disk, so that a crash cannot undo a link or rename."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
