"""Folders below folders, as one looks for files in them: on a disk there are symbolic links.

A link to a folder is not followed: it may go in circles, and what it leads to may be a table's.
Elsewhere there are none, and each question is a request that waits for its answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pyarrow import fs

from lookupstore.storage.file_address import is_local

# Questions of which some wait for their answers at one time.
_THREADS = 16

Q = TypeVar("Q")
A = TypeVar("A")


def is_link(filesystem: fs.FileSystem, path: str) -> bool:
    """Return whether there is a symbolic link at a path."""
    return is_local(filesystem) and os.path.islink(path)


def real_path(filesystem: fs.FileSystem, path: str) -> str:
    """Return where the links in a path lead to."""
    return os.path.realpath(path) if is_local(filesystem) else path


def all_below(filesystem: fs.FileSystem, folder: str) -> tuple[list[fs.FileInfo], list[str]]:
    """Return what is below a folder, and the paths of links to folders, which are left out."""
    if not is_local(filesystem):
        return filesystem.get_file_info(fs.FileSelector(folder, recursive=True)), []
    folders, files, links = [folder], [], []
    for one in folders:  # which grows meanwhile
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
