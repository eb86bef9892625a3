"""Keep the layout of each partition next to the table, with its files.

There is one file for each partition, in a folder that only lookupstore lists. The file is replaced
in one step before a clustering completes. It names base files, which never change. If the
clustering never completes, the names of its new files therefore refer to no file, and the entries
of the files that it was about to replace are still there and true.

The content is JSON, sealed by `layout.sealed`.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa

from lookupstore.errors import CorruptionError
from lookupstore.hudi.layout.curves.cells import cell_ends
from lookupstore.hudi.layout.curves.layout import MOST_BYTES, Layout
from lookupstore.hudi.layout.sealed import HEAD, seal, unseal
from lookupstore.hudi.layout.unfailing import warn
from lookupstore.hudi.options import META_FOLDER
from lookupstore.hudi.timeline.commit import WriteStat
from lookupstore.hudi.timeline.names import GroupId
from lookupstore.sorting._sort import argsort, upper_bound
from lookupstore.storage.json_text import parse_json
from lookupstore.storage.location import Location

#: Path of the folder of all kept layouts of a table.
LAYOUTS_FOLDER = f"{META_FOLDER}/.lookupstore/layouts"
#: Largest size of a file as a multiple of the intended number of rows. Files end at halves of
#: halves, so they have between two thirds and this multiple of it.
MOST_ROWS = 4 / 3
#: Smallest size of a file of new rows in a single region, as a multiple of the intended size.
LEAST_ROWS = 1 / 2
_MAGIC = b"LSLAYOT1"
# Maximum size of the JSON text: the layout, and mostly a line for each file.
_MOST_BYTES = MOST_BYTES + (512 << 20)
_MOST_RATIO = 1000
# Maximum size of the compressed file.
_MOST_FILE_BYTES = 256 << 20


@dataclass(frozen=True)
class PlacedFile:
    """A base file with its rows at the positions that the layout gave it.

    Attributes:
        name: Name of the file, without its folder.
        run: Name of the run that the file is part of: a request time, by which runs are ordered.
        after: Position that all rows of the file are after. Empty: no lower limit.
        last: Greatest position that a row of the file may have.
        rows: Number of rows of the file.
    """

    name: str
    run: str
    after: bytes
    last: bytes
    rows: int


@dataclass(frozen=True, eq=False)
class KeptLayout:
    """The kept layout of a partition.

    Attributes:
        choice: Choice of the caller from which the layout was made, as JSON.
        layout: Layout that gives each row its position.
        ends: Last position of each region but the last region, ascending.
        rows_per_file: Target number of rows of a file.
        files: Files that follow the layout, by the id of their file group. Deleted file groups may
            be among them.
    """

    choice: str
    layout: Layout
    ends: tuple[bytes, ...]
    rows_per_file: int
    files: Mapping[str, PlacedFile]

    def is_of(self, columns: pa.Schema) -> bool:
        """Return whether the table still has all columns of the layout, in the same types."""
        for one in self.layout.schema:
            at = columns.get_field_index(one.name)
            kind = None if at < 0 else columns.field(at).type
            if isinstance(kind, pa.DictionaryType):
                kind = kind.value_type
            if kind != one.type:
                return False
        return True

    def ends_of_files(self, positions: pa.Array, rows: int) -> list[bytes]:
        """Return the last position of each file but the last one.

        No file is in two regions.

        Args:
            positions: Positions of a sample of the rows.
            rows: Number of all rows.
        """
        most = MOST_ROWS * self.rows_per_file * len(positions) / rows
        return cell_ends(positions, most, is_curve=self.layout.is_curve, within=self.ends)

    def ends_of_new_files(self, positions: pa.Array, rows: int) -> list[bytes]:
        """Return the last position of each new file but the last one.

        Each file has at least half of `rows_per_file` rows if there are as many. A file may
        therefore be in several regions.

        Args:
            positions: Positions of a sample of the rows.
            rows: Number of all rows.
        """
        ends = self.ends_of_files(positions, rows)
        ascending = positions.take(pa.array(argsort(positions)))
        least = LEAST_ROWS * self.rows_per_file * len(positions) / rows
        found: list[bytes] = []
        start = 0
        for end in ends:
            until = int(upper_bound(ascending, end))
            if until - start >= least:
                found.append(end)
                start = until
        if found and len(ascending) - start < least:
            found.pop()
        return found

    def with_files(
        self,
        ends: Sequence[bytes],
        width: int,
        stats: Sequence[Sequence[WriteStat]],
        runs: Sequence[str],
    ) -> KeptLayout:
        """Return the layout with these files only, without those that are in two regions.

        Args:
            ends: Last position of each range of files but the last range.
            width: Width of a position, in bytes.
            stats: Commit entries of the files up to each end, and of those after the last end.
            runs: Name of the run that the files of each region are part of.
        """
        files = {}
        for (after, last), some in zip(pairwise([b"", *ends, b"\xff" * width]), stats, strict=True):
            region = self.region(last)
            if region != bisect_right(self.ends, after):
                continue
            for stat in some:
                name = (stat.path or "").rpartition("/")[2]
                rows = stat.num_writes or 0
                files[stat.file_id or ""] = PlacedFile(name, runs[region], after, last, rows)
        return replace(self, files=files)

    def region(self, position: bytes) -> int:
        """Return the number of the region of a position."""
        return bisect_left(self.ends, position)

    def encode(self) -> bytes:
        """Return the content of the file that keeps the layout."""
        said = {
            "choice": self.choice,
            "layout": self.layout.to_json(),
            "ends": [one.hex() for one in self.ends],
            "rows_per_file": self.rows_per_file,
            "files": {
                group: [one.name, one.run, one.after.hex(), one.last.hex(), one.rows]
                for group, one in self.files.items()
            },
        }
        return seal(_MAGIC, json.dumps(said).encode())

    @classmethod
    def decode(cls, data: bytes, path: str) -> KeptLayout:
        """Return the layout that a file keeps.

        Args:
            data: Content of the file.
            path: Path of the file, for errors.

        Raises:
            CorruptionError: If the file is damaged.
        """
        what = "the layout of a partition"
        most = min(_MOST_BYTES, _MOST_RATIO * len(data))
        plain = unseal(_MAGIC, data, path, what, most).to_pybytes()
        said = parse_json(plain, path, what, most_bytes=_MOST_BYTES)
        try:
            return cls._of(said, path)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptionError(path, HEAD, what, error) from error

    @classmethod
    def _of(cls, said: Any, path: str) -> KeptLayout:
        ends = tuple(bytes.fromhex(one) for one in said["ends"])
        if list(ends) != sorted(set(ends)) or len({*map(len, ends)}) > 1:
            raise ValueError("ends of regions do not ascend")
        rows = said["rows_per_file"]
        files = {
            group: PlacedFile(str(name), str(run), bytes.fromhex(after), bytes.fromhex(last), count)
            for group, (name, run, after, last, count) in said["files"].items()
        }
        counts = [rows, *(one.rows for one in files.values())]
        if any(type(one) is not int or one < 0 for one in counts) or not rows:
            raise ValueError("numbers of rows are not")
        return cls(str(said["choice"]), Layout.from_json(said["layout"], path), ends, rows, files)


def read_layout(location: Location, partition: str, choice: str | None = None) -> KeptLayout | None:
    """Return the kept layout of a partition.

    None: no layout is kept for this choice, or it is damaged, which a warning reports.

    Args:
        location: Location of the table.
        partition: Path of the partition.
        choice: Choice that the layout must be made from, as JSON. Default: any choice.

    Raises:
        OSError: If the file cannot be read.
    """
    name = _name(partition)
    try:
        found = KeptLayout.decode(location.read(name, _MOST_FILE_BYTES), location.show(name))
    except FileNotFoundError:
        return None
    except CorruptionError as error:
        warn(
            f"{location.uri}: the layout of the partition {partition!r} cannot be read, so that "
            f"all of it is put in order anew when it is clustered next: {error}"
        )
        return None
    return found if choice is None or found.choice == choice else None


def keep_layout(
    location: Location, partition: str, kept: KeptLayout, groups: Sequence[GroupId]
) -> None:
    """Keep the layout of a partition, with new files and those of current groups.

    The caller holds the lock of the table.

    Args:
        location: Location of the table.
        partition: Path of the partition.
        kept: Layout to keep, with the new files.
        groups: Current file groups of the partition; files of other groups that were kept before
            are dropped.

    Raises:
        OSError: If the file cannot be read or written.
    """
    before = read_layout(location, partition, kept.choice)
    known: dict[str, PlacedFile] = {}
    if before is not None and before.layout.to_json() == kept.layout.to_json():
        there = {one.file_id for one in groups}
        known = {group: one for group, one in before.files.items() if group in there}
    merged = KeptLayout(
        kept.choice, kept.layout, kept.ends, kept.rows_per_file, {**known, **kept.files}
    )
    location.make_folder(LAYOUTS_FOLDER)
    location.replace(_name(partition), merged.encode())


def place_files(location: Location, partition: str, kept: KeptLayout) -> None:
    """Add new files to the kept layout of a partition, if they follow that layout.

    The caller holds the lock of the table.

    Args:
        location: Location of the table.
        partition: Path of the partition.
        kept: Layout that the new files follow, with these files.

    Raises:
        OSError: If the file cannot be read or written.
    """
    before = read_layout(location, partition, kept.choice)
    if before is None or before.layout.to_json() != kept.layout.to_json():
        return
    with_new = replace(before, files={**before.files, **kept.files})
    location.replace(_name(partition), with_new.encode())


def _name(partition: str) -> str:
    name = hashlib.blake2b(partition.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    return f"{LAYOUTS_FOLDER}/{name}.layout"
