"""The layout of a partition as it is kept beside the table, and which files lie as it says.

There is a file for each partition, in a folder of ours which no other program lists. It is replaced
in one step before a clustering completes, and names base files, which never change: so what it says
of files of a clustering that never completes is about nothing, and what it says of those that this
one was about to replace is still there, and true.

What it has is JSON, sealed (`layout.sealed`).
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

#: Of all kept layouts of a table.
LAYOUTS_FOLDER = f"{META_FOLDER}/.lookupstore/layouts"
#: Files end where halves of halves do: they have between two thirds of the rows that a file is to
#: have and this many times these.
MOST_ROWS = 4 / 3
#: What a file of new rows is to have at least, in times of these, to be in one region alone.
LEAST_ROWS = 1 / 2
_MAGIC = b"LSLAYOT1"
# What JSON may be beside the layout, of which a line for each file is most.
_MOST_BYTES = MOST_BYTES + (512 << 20)
_MOST_RATIO = 1000
# Of the file, as it is compressed.
_MOST_FILE_BYTES = 256 << 20


@dataclass(frozen=True)
class PlacedFile:
    """A base file that lies as the layout says.

    Attributes:
        name: of the file, without its folder.
        run: of its region: a request time, by which runs are ordered.
        after: the position after which its rows come; empty: from the beginning.
        last: the greatest position that a row of it may have.
        rows: that it has.
    """

    name: str
    run: str
    after: bytes
    last: bytes
    rows: int


@dataclass(frozen=True, eq=False)
class KeptLayout:
    """The layout of a partition.

    Attributes:
        choice: by which it was made, as JSON.
        layout: the order of rows.
        ends: of regions; what comes after all is one more.
        rows_per_file: that a file is to have.
        files: by the id of their group; groups that are gone may be among them.
    """

    choice: str
    layout: Layout
    ends: tuple[bytes, ...]
    rows_per_file: int
    files: Mapping[str, PlacedFile]

    def is_of(self, columns: pa.Schema) -> bool:
        """Return whether it is still of these columns, none of which has another type."""
        for one in self.layout.schema:
            at = columns.get_field_index(one.name)
            kind = None if at < 0 else columns.field(at).type
            if isinstance(kind, pa.DictionaryType):
                kind = kind.value_type
            if kind != one.type:
                return False
        return True

    def ends_of_files(self, positions: pa.Array, rows: int) -> list[bytes]:
        """Return the last position of each file but the last one, no file being in two regions.

        Args:
            positions: of a sample of the rows.
            rows: that there are.
        """
        most = MOST_ROWS * self.rows_per_file * len(positions) / rows
        return cell_ends(positions, most, is_curve=self.layout.is_curve, within=self.ends)

    def ends_of_new_files(self, positions: pa.Array, rows: int) -> list[bytes]:
        """Return ends as `ends_of_files` does, but of files that have enough rows.

        Few rows make few files, though these may be in several regions.
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
        """Return the layout with these files alone, but for those that are in two regions.

        Args:
            ends: of files, but the last one.
            width: of positions, in bytes.
            stats: what is said of the files up to each end, and after the last one.
            runs: for each region, the one that they are part of.
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
        """Return the number of the region that a position is in."""
        return bisect_left(self.ends, position)

    def encode(self) -> bytes:
        """Return the file."""
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
        """Return what a file says.

        Args:
            data: of the file.
            path: of it, for errors.

        Raises:
            CorruptionError: it is damaged.
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
    """Return the layout that is kept of a partition; None: there is none by this choice.

    One that is damaged is none: a warning says so.

    Args:
        location: of the table.
        partition: its path.
        choice: by which it is to be made, as JSON; None: by any.

    Raises:
        OSError: it could not be read.
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
    """Keep the layout of a partition, and what is known of groups that are there.

    The caller holds the lock of the table.

    Args:
        location: of the table.
        partition: its path.
        kept: the layout, with the files that are new.
        groups: that the partition has now; of others, nothing is kept.

    Raises:
        OSError: the file cannot be written.
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
    """Add new files to the layout of a partition, if it still is the one that they follow.

    The caller holds the lock of the table.

    Args:
        location: of the table.
        partition: its path.
        kept: the layout, with the files that are new.

    Raises:
        OSError: the file cannot be written.
    """
    before = read_layout(location, partition, kept.choice)
    if before is None or before.layout.to_json() != kept.layout.to_json():
        return
    with_new = replace(before, files={**before.files, **kept.files})
    location.replace(_name(partition), with_new.encode())


def _name(partition: str) -> str:
    name = hashlib.blake2b(partition.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    return f"{LAYOUTS_FOLDER}/{name}.layout"
