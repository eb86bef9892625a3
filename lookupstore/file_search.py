"""Find the columnar files that a path, a glob, a folder or a URI stands for."""

from __future__ import annotations

import fnmatch
import os
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyarrow import fs

from lookupstore.uris import open_uri, shown_uri

FORMATS = {".parquet": "parquet", ".parq": "parquet", ".pq": "parquet", ".orc": "orc"}

_MAGIC = "*?["


@dataclass(frozen=True)
class FoundFiles:
    """Hold the files that one given path stands for.

    Attributes:
        filesystem: that has them.
        infos: of the files, by ascending path.
        base: where `name=value` folders begin; None if they mean nothing.
    """

    filesystem: fs.FileSystem
    infos: tuple[fs.FileInfo, ...]
    base: str | None

    @property
    def files(self) -> list[str]:
        """Return the paths of the files."""
        return [info.path for info in self.infos]


def format_of(file: str) -> str:
    """Return `parquet` or `orc`, by the extension of a file.

    Raises:
        ValueError: it is neither.
    """
    extension = posixpath.splitext(file)[1].lower()
    if extension not in FORMATS:
        raise ValueError(
            f"source: {file} has the extension {extension or 'none'!r}; known are "
            f"{', '.join(FORMATS)}"
        )
    return FORMATS[extension]


def names_files(path: str) -> bool:
    """Return whether a path says of itself that it stands for columnar files.

    >>> names_files("s3://bucket/users/*.parquet"), names_files("s3://bucket/stores/users")
    (True, False)
    """
    address = path.partition("?")[0] if "://" in path else path
    extension = posixpath.splitext(address)[1].lower()
    return any(sign in address for sign in _MAGIC) or extension in FORMATS


def find_files(path: str) -> FoundFiles:
    """Find the files of a path: itself, those below a folder, or those that match a glob.

    Raises:
        FileNotFoundError: it names nothing, or no Parquet or ORC file is below it.
        ValueError: it names a file that is neither Parquet nor ORC.
    """
    filesystem, root = _open_filesystem(path)
    info = filesystem.get_file_info(root)
    if info.type == fs.FileType.File:
        format_of(root)
        return FoundFiles(filesystem, (info,), None)
    if info.type == fs.FileType.Directory:
        return FoundFiles(filesystem, _files_below(filesystem, root, path), root)
    if not any(sign in root for sign in _MAGIC):
        raise FileNotFoundError(f"source: {shown_uri(path)}: no such file or folder")
    parts = root.split("/")
    fixed = next(i for i, part in enumerate(parts) if any(sign in part for sign in _MAGIC))
    base = "/".join(parts[:fixed]) or "/"
    matches = sorted(set(_matching(filesystem, base, parts[fixed:])))
    files: dict[str, fs.FileInfo] = {}
    for match in filesystem.get_file_info(matches):
        if match.type == fs.FileType.Directory:
            files.update((info.path, info) for info in _files_below(filesystem, match.path, path))
        else:
            format_of(match.path)
            files[match.path] = match
    if not files:
        raise FileNotFoundError(f"source: no file matches {shown_uri(path)}")
    return FoundFiles(filesystem, tuple(files[name] for name in sorted(files)), base)


def _open_filesystem(path: str) -> tuple[fs.FileSystem, str]:
    if "://" not in path:
        return fs.LocalFileSystem(), os.path.abspath(os.path.expanduser(path))
    # In a URI a `*` would not survive parsing everywhere; the part before the first glob does.
    address, mark, query = path.partition("?")
    parts = address.split("/")
    fixed = next((i for i, part in enumerate(parts) if "*" in part or "[" in part), len(parts))
    filesystem, base = open_uri("/".join(parts[:fixed]) + mark + query)
    return filesystem, posixpath.join(base, *parts[fixed:])


def _visible(path: str, base: str) -> bool:
    parts = posixpath.relpath(path, base).split("/")
    # `_` hides files as Spark and Hive do, but a partition column may begin with it.
    return not any(p.startswith(".") or (p.startswith("_") and "=" not in p) for p in parts)


def _files_below(filesystem: fs.FileSystem, folder: str, path: str) -> tuple[fs.FileInfo, ...]:
    below = filesystem.get_file_info(fs.FileSelector(folder, recursive=True))
    seen = [info for info in below if info.is_file and _visible(info.path, folder)]
    seen.sort(key=lambda info: info.path)
    files = tuple(i for i in seen if posixpath.splitext(i.path)[1].lower() in FORMATS)
    if not files:
        other = f"; it has {posixpath.relpath(seen[0].path, folder)}" if seen else ""
        raise FileNotFoundError(
            f"source: {shown_uri(path)}: no file below it ends in {', '.join(FORMATS)}{other}"
        )
    return files


def _matching(filesystem: fs.FileSystem, base: str, parts: Sequence[str]) -> Iterator[str]:
    """Yield what matches a glob below `base`, one part of the path at a time."""
    if not parts:
        yield base
        return
    first, rest = parts[0], parts[1:]
    if not any(sign in first for sign in _MAGIC):
        child = posixpath.join(base, first)
        if filesystem.get_file_info(child).type != fs.FileType.NotFound:
            yield from _matching(filesystem, child, rest)
        return
    selector = fs.FileSelector(base, allow_not_found=True, recursive=False)
    children = filesystem.get_file_info(selector)
    if first == "**":
        yield from _matching(filesystem, base, rest)
    for info in children:
        name = posixpath.basename(info.path)
        if not _visible(name, ".") and name != first:
            continue
        folder = info.type == fs.FileType.Directory
        if first == "**":
            if folder:
                yield from _matching(filesystem, info.path, parts)
        elif fnmatch.fnmatchcase(name, first) and (folder or not rest):
            yield from _matching(filesystem, info.path, rest)
