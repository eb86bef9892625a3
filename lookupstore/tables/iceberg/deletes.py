"""The delete files of an Iceberg snapshot, and the rows that they delete in each data file.

Delete files are read when their rows are needed.

Source: "Scan Planning" and "Delete Formats" in the specification of Iceberg.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.keys.schema import KeySchema
from lookupstore.source.skipping import StatisticsFilter
from lookupstore.tables.columns import FIELD_ID, without_metadata
from lookupstore.tables.iceberg.manifests import PATH_ID
from lookupstore.tables.iceberg.puffin import vectors_of
from lookupstore.tables.recently_read import RecentlyRead
from lookupstore.tables.rows import reading, rows_of
from lookupstore.tables.snapshot import DeletedRows, Snapshot, TableFile

#: Format of files of deletion vectors.
VECTORS = "puffin"

# Columns of position delete files, with the field ids that the specification reserves for them.
_POSITIONS = pa.schema([
    pa.field("file_path", pa.string(), metadata={FIELD_ID: str(PATH_ID)}),
    pa.field("pos", pa.int64(), metadata={FIELD_ID: "2147483545"}),
])  # fmt: skip
# Positions in delete files that stay in memory, of 8 bytes each. A delete file may have rows of
# many data files, a data file may have rows in many delete files, and the next snapshot has most of
# both.
_MOST_LOADED = 8 << 20
# Memory of a data file in a delete file besides its positions, in positions.
_OF_PATH = 64
# Maximum bytes of a small delete file: Python code takes more of its time than decoding does.
_SMALL = 256 << 10

_Positions = Mapping[str, npt.NDArray[np.int64]]


class PositionDeletes:
    """The position deletes and deletion vectors of a snapshot.

    Args:
        description: Description of the table and the snapshot.
        table_id: Identity of the table.
        entries: Entries of the delete files in the manifests, each with the file.
    """

    def __init__(
        self, description: str, table_id: str, entries: Sequence[tuple[Any, TableFile]]
    ) -> None:
        files = {one.data_file.file_path: file for one, file in entries}
        self._files = _DeleteFiles(description, table_id, files)
        # By partition, and by path those with rows of one data file only.
        self._entries: dict[tuple[object, ...], list[Any]] = {}
        self._of_path: dict[tuple[object, ...], list[Any]] = {}
        for one, _ in entries:
            partition, ends = _partition_of(one), _path_ends(one.data_file)
            if ends[0] is not None and ends[0] == ends[1]:
                self._of_path.setdefault((ends[0], *partition), []).append(one)
            else:
                self._entries.setdefault(partition, []).append(one)

    def of(self, entry: Any) -> DeletedPositions | None:
        """Return the deletes that apply to a data file. None: none.

        Args:
            entry: Entry of the data file in a manifest.
        """
        path = entry.data_file.file_path
        found = {
            one.data_file.file_path: self._files.file_format(one.data_file.file_path)
            for one in self._candidates(entry)
            if _sequence(one) >= _sequence(entry) and _may_name(one.data_file, path)
        }
        if not found:
            return None
        # A deletion vector has all deleted rows of a data file, those of older delete files too.
        vectors = sorted(name for name, file_format in found.items() if file_format == VECTORS)
        return DeletedPositions(self._files, path, tuple(vectors), tuple(sorted(found)))

    def _candidates(self, entry: Any) -> Iterator[Any]:
        """Yield the entries of delete files that may have rows of a data file."""
        partition = _partition_of(entry)
        yield from self._entries.get(partition, ())
        yield from self._of_path.get((entry.data_file.file_path.encode(), *partition), ())


class _DeleteFiles:
    """The files with positions of a snapshot.

    Args:
        description: Description of the table and the snapshot.
        table_id: Identity of the table.
        files: The files, by their paths in the manifests.
    """

    def __init__(self, description: str, table_id: str, files: Mapping[str, TableFile]) -> None:
        self._state = description, table_id, files

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._state

    def file_format(self, path: str) -> str:
        """Return the format of a delete file."""
        return self._state[2][path].file_format

    def positions(self, path: str, data_file: str) -> npt.NDArray[np.int64] | None:
        """Return the positions in a data file that a delete file has. None: none."""
        description, table_id, files = self._state
        file = files[path]
        identity, parse = (table_id, path, file.nbytes), partial(_positions, description)
        if file.address.is_remote and file.nbytes <= _SMALL:
            found = _loaded.parsed(identity, partial(_fetched, file), parse)
        else:
            found = _loaded.get(identity, partial(parse, file))
        return found.get(data_file)


@dataclass(frozen=True)
class DeletedPositions:
    """The rows of a data file that are deleted by position, in files that are read when needed.

    Attributes:
        files: Delete files of the snapshot.
        path: Path of the data file, as the delete files have it.
        vectors: Paths of the files that may have its deletion vector.
        paths: Paths of all files that may have its deletes.
    """

    files: _DeleteFiles
    path: str
    vectors: tuple[str, ...]
    paths: tuple[str, ...]

    @property
    def count(self) -> int | None:
        """Return None: the number is unknown before the files are read."""
        return None

    @property
    def identity(self) -> str:
        """Return a text that differs between sets of deleted rows."""
        return " ".join(self.paths)

    def load(self, asked: StatisticsFilter | None = None) -> DeletedRows:
        """Return the deleted rows, whatever is asked for."""
        found = self._in(self.vectors)
        if not found:
            found = self._in(self.paths)
        return DeletedRows(np.unique(np.concatenate([np.zeros(0, np.int64), *found])))

    def _in(self, paths: Sequence[str]) -> list[npt.NDArray[np.int64]]:
        """Return the positions in each of some delete files that has any."""
        found = (self.files.positions(path, self.path) for path in paths)
        return [one for one in found if one is not None]


class KeyDeletes:
    """The equality deletes of a snapshot.

    Args:
        entries: Entries of the delete files in the manifests, each with the keys in the file.
        unpartitioned: Numbers of the partition specs without partitions. The keys in files of these
            specs are deleted in all partitions.
    """

    def __init__(
        self, entries: Iterable[tuple[Any, DeletedKeys]], unpartitioned: Container[int]
    ) -> None:
        self._entries = tuple(entries)
        self._unpartitioned = unpartitioned

    def of(self, entry: Any) -> tuple[DeletedKeys, ...]:
        """Return the deletes that apply to a data file.

        Args:
            entry: Entry of the data file in a manifest.
        """
        return tuple(keys for deletes, keys in self._entries if self._applies(deletes, entry))

    def _applies(self, deletes: Any, entry: Any) -> bool:
        """Return whether the keys of a delete file are deleted in a data file."""
        if _sequence(deletes) <= _sequence(entry):
            return False
        partition = _partition_of(deletes)
        return partition[0] in self._unpartitioned or partition == _partition_of(entry)


class DeletedKeys:
    """The keys of one equality delete file, which is read when needed.

    Args:
        description: Description of the table and the snapshot.
        file: The file.
        stored: Columns of the keys, with their field ids.
    """

    def __init__(self, description: str, file: TableFile, stored: pa.Schema) -> None:
        self._state = description, file, stored
        self.names: Sequence[str] = stored.names
        self.identity: str = file.address.shown

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._state

    def kept(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        """Return which rows have none of the keys: Arrow booleans, never null."""
        return pc.invert(pc.is_in(_encoded(rows), value_set=self._deleted))

    @cached_property
    def _deleted(self) -> pa.Array:
        return _encoded(_rows(*self._state))


def _count(positions: _Positions) -> int:
    return sum(_OF_PATH + len(one) for one in positions.values())


_loaded: RecentlyRead[_Positions] = RecentlyRead(_MOST_LOADED, _count)


def _fetched(file: TableFile) -> TableFile:
    """Return a delete file whose bytes are in memory."""
    with reading(file):
        return replace(file, address=file.address.fetched(file.nbytes))


def _positions(description: str, file: TableFile) -> _Positions:
    """Return the positions in each data file that a delete file has, by the path of the former."""
    if file.file_format == VECTORS:
        return vectors_of(file.address, file.nbytes)
    rows = _rows(description, file, _POSITIONS).combine_chunks()
    paths = rows["file_path"].combine_chunks().dictionary_encode()
    numbers, positions = paths.indices.to_numpy(), rows["pos"].to_numpy()
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=len(paths.dictionary)))
    parts = np.split(positions[order], ends[:-1])
    # Without rows there is a part, and no path.
    return dict(zip(paths.dictionary.to_pylist(), parts, strict=False))


def _rows(description: str, file: TableFile, stored: pa.Schema) -> pa.Table:
    """Return the rows of a delete file.

    Args:
        description: Description of the table and the snapshot.
        file: The delete file.
        stored: Columns to read, with their field ids.
    """
    plain = without_metadata(stored)
    files = Snapshot(description, plain, plain, stored, ())
    return pa.Table.from_batches(rows_of(files, file, plain.names), plain)


def _encoded(rows: pa.Table | pa.RecordBatch) -> pa.Array:
    """Return the keys of rows as bytes, with nulls."""
    columns = pa.schema([field.with_nullable(True) for field in rows.schema])
    return KeySchema(columns, columns.names).encode(rows.columns).cast(pa.large_binary())


def _partition_of(entry: Any) -> tuple[Any, ...]:
    """Return the spec of a file, and the values of its partition."""
    file = entry.data_file
    values = (file.partition[at] for at in range(len(file.partition)))
    return file.spec_id or 0, *values


def _sequence(entry: Any) -> int:
    return entry.sequence_number or 0


def _may_name(deletes: Any, path: str) -> bool:
    """Return whether a delete file may have rows of a data file, by the bounds of its paths."""
    lower, upper = _path_ends(deletes)
    known = path.encode()
    # Bounds may be cut; the upper one is then greater in its last character.
    return (lower is None or lower <= known) and (upper is None or known <= upper)


def _path_ends(deletes: Any) -> tuple[bytes | None, bytes | None]:
    """Return the least and greatest path in a delete file, or what bounds them. None: unknown."""
    lower, upper = deletes.lower_bounds or {}, deletes.upper_bounds or {}
    return lower.get(PATH_ID), upper.get(PATH_ID)
