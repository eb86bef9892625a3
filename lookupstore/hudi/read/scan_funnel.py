"""Numbers of files and bytes that each step of a scan leaves to read."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lookupstore.html_table import html_table
from lookupstore.hudi.file_group.groups import FileSlice


@dataclass(frozen=True)
class Files:
    """The number and the bytes of base files or row groups."""

    count: int
    bytes: int

    @classmethod
    def of(cls, files: Sequence[FileSlice]) -> Files:
        """Return the number and bytes of some files."""
        return cls(len(files), sum(one.bytes for one in files))


@dataclass(frozen=True)
class ScanFunnel:
    """Numbers of files and bytes that each step of a filter leaves to read.

    No base file is opened to count them, except for footers to count row groups.

    Attributes:
        files: All base files of the table at the moment of the scan.
        partitions: Files that remain after the filter on the names of partitions.
        statistics: Files that remain after statistics of columns. These files are read.
        without_statistics: Remaining files that have no statistics.
        parts: Parts of the filter, all of which must be true, each with the number of files that
            have no row for it.
        unreadable: Reason why existing statistics could not be used, so that every file is read.
            None: no such problem.
        row_groups: Row groups of the files to read, and those that remain after their footers.
            None: not counted.
    """

    files: Files
    partitions: Files
    statistics: Files
    without_statistics: Files
    parts: tuple[tuple[str, int], ...] = ()
    unreadable: str | None = None
    row_groups: tuple[Files, Files] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the funnel as plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        """Return a line for each step.

        >>> some, none = Files(1, 300), Files(0, 0)
        >>> print(ScanFunnel(Files(3, 900), Files(2, 600), some, none, (("a > 3", 1),)))
        files                         3             900 bytes
        partitions                    2             600 bytes
        statistics                    1             300 bytes
        without_statistics            0               0 bytes
          1 files have no row with a > 3
        """
        lines = [
            f"{name:<20} {files:>10} {nbytes:>15} bytes" for name, files, nbytes in self._rows()
        ]
        return "\n".join([*lines, *(f"  {note}" for note in self._notes())])

    def _repr_html_(self) -> str:
        notes = "".join(f"<div>{html.escape(note)}</div>" for note in self._notes())
        return html_table("ScanFunnel", ("", "files", "bytes"), self._rows()) + notes

    def _rows(self) -> Iterator[tuple[str, str, str]]:
        steps = [
            ("files", self.files),
            ("partitions", self.partitions),
            ("statistics", self.statistics),
            ("without_statistics", self.without_statistics),
        ]
        if self.row_groups is not None:
            steps += zip(("row_groups", "row_groups_left"), self.row_groups, strict=True)
        yield from ((name, f"{files.count:,}", f"{files.bytes:,}") for name, files in steps)

    def _notes(self) -> Iterator[str]:
        for part, count in self.parts:
            yield f"{count:,} files have no row with {part}"
        if self.unreadable is not None:
            yield f"statistics cannot be read: {self.unreadable}"
