"""Listings of folder trees, which may contain symbolic links on a local disk.

A link to a folder is not followed: it may lead in circles, or to files of a table. Elsewhere there
are no links, and each question is a request that waits for its answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pyarrow import fs

from lookupstore.storage.file_address import is_local

# Threads for requests: several wait for their answers at the same time.
_THREADS = 16

Q = TypeVar("Q")
A = TypeVar("A")


def is_link(filesystem: fs.FileSystem, path: str) -> bool:
    """Return whether there is a symbolic link at a path."""
    return is_local(filesystem) and os.path.islink(path)


def real_path(filesystem: fs.FileSystem, path: str) -> str:
    """Return a path with its symbolic links resolved."""
    return os.path.realpath(path) if is_local(filesystem) else path


def all_below(filesystem: fs.FileSystem, folder: str) -> tuple[list[fs.FileInfo], list[str]]:
    """Return the entries below a folder, and the paths of links to folders, which are left out."""
    if not is_local(filesystem):
        return filesystem.get_file_info(fs.FileSelector(folder, recursive=True)), []
    folders, files, links = [folder], [], []
    for one in folders:  # grows in the loop
        with os.scandir(one) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_dir():
                    links.append(entry.path)
                else:
                    files.append(entry.path)
    return filesystem.get_file_info(folders[1:] + files), links


def answers(filesystem: fs.FileSystem, ask: Callable[[Q], A], questions: Iterable[Q]) -> list[A]:
    """Return the answers to questions about a file system, in their order."""
    asked = list(questions)
    if is_local(filesystem) or not asked:
        return list(map(ask, asked))
    with ThreadPoolExecutor(_THREADS, "lookupstore-asked") as pool:
        return list(pool.map(ask, asked))
