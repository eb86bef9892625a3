"""Temporary names of local and remote files, which they have until they are complete.

A temporary name is hidden, so that no reader takes the file for anything, and each is made only
once. All of them are made and recognized here. A name lasts when its folder is synced.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

_NAME = re.compile(r"\.(?P<final>[^/]+)\.[0-9a-f]{32}\.tmp")
# Matches files inside of a folder with such a name, too.
_PART = re.compile(r"(^|/)\.[^/]*\.tmp(/|$)")


def temporary_name(final: str) -> str:
    """Return a new temporary name, without folders, for a file with a final name.

    >>> final_name(temporary_name("a.parquet"))
    'a.parquet'
    """
    return f".{final}.{uuid.uuid4().hex}.tmp"


def final_name(name: str) -> str | None:
    """Return the final name of a file with a temporary name, or None for any other name."""
    found = _NAME.fullmatch(name)
    return None if found is None else found["final"]


def is_temporary(path: str) -> bool:
    """Return whether a path is that of an incomplete file or folder, or is inside of one.

    >>> is_temporary("data/.a.sst.0123.tmp"), is_temporary(".versions.0123.tmp/1.json")
    (True, True)
    >>> is_temporary("data/a.tmp")
    False
    """
    return _PART.search(path) is not None


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Add the file to errors of writing: errors of an open file, such as a full disk, lack it."""
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
