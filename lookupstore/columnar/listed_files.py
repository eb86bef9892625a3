"""Find which files at some paths are as an earlier listing found them.

A listing has sizes and times. Only files that differ in them, or that are new, are opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyarrow import fs

from lookupstore.columnar.source_file import SourceFile
from lookupstore.source.search import FoundFiles
from lookupstore.storage.file_address import written_ns
from lookupstore.storage.file_identity import listed_identity

_SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class ListedFiles:
    """Files at paths as an earlier listing found them.

    Attributes:
        files: The files by path, without conditions on their rows.
        listed: Time of that listing, in seconds since 1970.
        before: Time before which an added file must have been written to count. None: all count.
    """

    files: Mapping[str, SourceFile]
    listed: float
    before: float | None = None

    def as_it_was(self, found: FoundFiles, info: fs.FileInfo) -> SourceFile | None:
        """Return a listed file without reading it. None: it is new, or may have changed.

        Args:
            found: Files of a listing.
            info: Entry of the file in it.
        """
        file = self.files.get(info.path)
        if file is None or not file.stored.is_settled_at(self.listed):
            return None
        if not _is_same(file, found, info):
            return None
        # Values of other folders may have changed the types of all.
        schema = found.columns.schema(file.schema)
        constants = tuple(found.columns.values(info.path).items())
        if schema == file.schema and constants == file.constants:
            return file
        return replace(file, schema=schema, constants=constants)

    def without_young(self, found: Sequence[FoundFiles]) -> list[FoundFiles]:
        """Return the files of a listing without those that were added too late to count.

        If a known file is gone or was replaced, all count: added ones may have its rows.
        """
        if self.before is None:
            return list(found)
        latest = int(self.before * _SECOND_NS)
        young = {
            info.path
            for one in found
            for info in one.infos
            if info.path not in self.files and (written_ns(info) or 0) > latest
        }
        if not young or not self._are_all_in(found):
            return list(found)
        return [kept for one in found if (kept := _without(one, young)).infos]

    def _are_all_in(self, found: Sequence[FoundFiles]) -> bool:
        there = {info.path: (one, info) for one in found for info in one.infos}
        return all(
            path in there and _is_same(file, *there[path]) for path, file in self.files.items()
        )


def _is_same(file: SourceFile, found: FoundFiles, info: fs.FileInfo) -> bool:
    """Return whether a listing shows a file as it was read."""
    try:
        now = listed_identity(found.filesystem, info)
    except FileNotFoundError:  # deleted since the listing
        return False
    return now.matches(file.stored) and file.filesystem.equals(found.filesystem)


def _without(found: FoundFiles, paths: set[str]) -> FoundFiles:
    both = zip(found.infos, found.formats, strict=True)
    kept = [(info, kind) for info, kind in both if info.path not in paths]
    infos, formats = tuple(info for info, _ in kept), tuple(kind for _, kind in kept)
    return replace(found, infos=infos, formats=formats)
