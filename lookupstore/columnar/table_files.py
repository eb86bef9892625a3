"""Data files of a table, as columnar files that get a lookup file each.

A lookup file has all rows of its data file, with their positions, and does not depend on deletes:
those are applied to the rows that a lookup finds. So a commit that deletes rows in a file, or adds
files, leaves the lookup files of all other files as they are.

A file may have a key twice if one of the rows is deleted. Such a file gets a lookup file of the
rows that are left, which is made again when more of them are deleted.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lookupstore.arrow.types import is_text
from lookupstore.columnar.key_ranges import Range
from lookupstore.columnar.source_file import ColumnsInFile, SourceFile
from lookupstore.errors import StaleStoreError
from lookupstore.orc.footer import read_footer
from lookupstore.parquet.claims import SMALL
from lookupstore.parquet.ending import read_metadata
from lookupstore.source.reading import schema_of
from lookupstore.storage.file_identity import FileIdentity
from lookupstore.tables.rows import GONE, FileColumns, placed_rows, reading
from lookupstore.tables.snapshot import Snapshot, TableFile

#: Format of rows that are made of those of several files, which are read from the start.
MERGED = "merged"

# Number of footers that are read at a time.
_THREADS = 16


@dataclass(frozen=True, kw_only=True)
class TableDataFile(SourceFile):
    """A data file of a table, whose rows have the columns of the table.

    Attributes:
        file: The file, with its deletes.
        snapshot: The table, without its files.
        position: Name of the column of positions in its lookup file.
    """

    file: TableFile
    snapshot: Snapshot
    position: str

    @property
    def uri(self) -> str:
        """Return the path or URI of the file."""
        return self.file.address.shown

    @property
    def _gone(self) -> str:
        return GONE

    @property
    def rows_left(self) -> int | None:
        """Return the number of rows that count. None: they have to be read."""
        deleted = 0 if self.file.deleted is None else self.file.deleted.count
        is_merged = self.file.merged is not None
        if deleted is None or is_merged or self.snapshot.conditions(self.file):
            return None
        return self.num_rows - deleted

    @property
    def has_conditions(self) -> bool:
        """Return whether `kept` may leave rows out."""
        return self.file.deleted is not None or bool(self.snapshot.conditions(self.file))

    def identity(self, names: Sequence[str]) -> tuple[object, ...]:
        """Return an identity that changes whenever the rows of the file change.

        Args:
            names: Names of the columns that count.
        """
        file, snapshot = self.file, self.snapshot
        stored = [snapshot.stored_field(file, name) for name in names]
        given = [
            f"{name}={values[name]!r}"
            for values in (file.constants, file.defaults)
            for name in names
            if name in values
        ]
        mapped = sorted(map(str, (snapshot.ids_of_names or {}).items()))
        parts = [self.uri, file.nbytes, file.written, pa.schema(stored).to_string(), given, mapped]
        if file.merged is not None:
            parts.append(file.merged.identity)
        if not self.has_others:
            conditions = [one.identity for one in snapshot.conditions(file)]
            parts += ["" if file.deleted is None else file.deleted.identity, conditions]
        return tuple(parts)

    def open(self) -> pa.NativeFile:
        """Open the file.

        Raises:
            StaleStoreError: If the file is gone.
            CorruptionError: If the file has another size than the table says.
        """
        address = self.file.address
        try:
            # All of a small file is read to check it, and one request returns it.
            return address.open_whole(self.nbytes, SMALL)
        except FileNotFoundError:
            raise StaleStoreError(f"{self.uri}: {GONE}") from None

    def check_unchanged(self) -> None:
        """Return: tables never write a file again, and reading it has shown that it is there."""

    def check_ending(self) -> None:
        """Return: tables never write a file again."""

    def placed_batches(
        self, names: Sequence[str]
    ) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
        """Yield the named columns with the positions of the rows in the file.

        Raises the errors of `lookupstore.tables.rows.snapshot_source`.
        """
        return placed_rows(self.snapshot, self.file, names, every=self.has_others)

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the named columns of the rows that count.

        Raises the errors of `placed_batches`.
        """
        for batch, _ in placed_rows(self.snapshot, self.file, names):
            yield batch

    def metadata_in(self, file: pa.NativeFile) -> pq.FileMetaData | None:
        """Return the checked metadata of the file, which is Parquet: a snapshot does not have it.

        Args:
            file: The file, open.
        """
        return read_metadata(file, self.uri)

    def schema_in(self, file: pa.NativeFile, metadata: pq.FileMetaData | None) -> pa.Schema:
        """Return the columns that are stored in the file, in the types in which they are read.

        Args:
            file: The file, open.
            metadata: The result of `metadata_in`.
        """
        return schema_of(file, self.file_format, self.uri, metadata)

    def columns_in(self, there: pa.Schema) -> ColumnsInFile:
        """Return the columns of rows that are read from the file, as the table has them."""
        return FileColumns(self.snapshot, self.file, there)

    def kept(
        self, columns: Callable[[Sequence[str]], pa.RecordBatch], count: int
    ) -> pa.BooleanArray | None:
        """Return which of some rows of the file count. None: all of them.

        Args:
            columns: Function that returns the named columns of the rows.
            count: Number of the rows.
        """
        found: pa.BooleanArray | None = None
        if self.file.deleted is not None:
            positions = columns([self.position]).column(0).to_numpy()
            deleted = self.file.deleted.load(self.snapshot.by_statistics)
            found = deleted.kept_among(positions)
        for one in self.snapshot.conditions(self.file):
            kept = one.kept(columns(one.names))
            found = kept if found is None else pc.and_(found, kept)
        return found

    def without_others(self) -> TableDataFile | None:
        """Return the file with only the rows that count in its lookup file.

        None: There are no others.
        """
        if not self.has_conditions or not self.has_others:
            return None
        return replace(self, has_others=False)


def table_data_files(snapshot: Snapshot, key: str) -> list[TableDataFile]:
    """Return the data files of a snapshot, with the number of their rows.

    Args:
        snapshot: The snapshot.
        key: Name of the column for which to return the range in each file.

    Raises:
        CorruptionError: If a footer that had to be read is damaged.
        StaleStoreError: If such a file is gone.
    """
    alone = replace(snapshot, files=())
    position = position_name(snapshot)

    def one(file: TableFile) -> TableDataFile:
        address = file.address
        return TableDataFile(
            filesystem=address.filesystem,
            path=address.path,
            file_format=file.file_format if file.merged is None else MERGED,
            base=posixpath.dirname(address.path),
            stored=FileIdentity(address.path, file.nbytes),
            ending="",
            num_rows=_counted(file) if file.num_rows is None else file.num_rows,
            schema=snapshot.columns,
            # Keys that the file itself may lack cannot be looked for in it.
            constants=tuple((name, None) for name in {**file.constants, **file.defaults}),
            ranges=_ranges(file, key),
            file=file.to_read,
            snapshot=alone,
            position=position,
        )

    with ThreadPoolExecutor(_THREADS, "lookupstore-footer") as pool:
        return list(pool.map(one, snapshot.files_to_read))


def position_name(snapshot: Snapshot) -> str:
    """Return the name of the column of positions, which no column of the table has."""
    name = "_pos"
    while name in snapshot.columns.names:
        name += "_"
    return name


def latest_files(snapshot: Snapshot, name: str) -> Snapshot:
    """Return a snapshot with only the files of the partition with the greatest value.

    Args:
        snapshot: The snapshot.
        name: Name of the partition column.

    Raises:
        ValueError: If the table is not partitioned by the column, or was not always.
    """
    values = [file.partition.get(name) for file in snapshot.files]
    if values and all(value is None for value in values):
        raise ValueError(
            f"latest_partition is {name!r}, by which the {snapshot.description} is not partitioned"
        )
    if None in values:
        file = snapshot.files[values.index(None)]
        raise ValueError(
            f"latest_partition is {name!r}, but {file.address.shown} was written before the table "
            "was partitioned by it; leave it out, or look keys up in a store of a query"
        )
    found = [value.as_py() for value in values if value is not None]
    known = [value for value in found if value is not None]
    latest = max(known) if known else None
    kept = (file for file, value in zip(snapshot.files, found, strict=True) if value == latest)
    return replace(snapshot, files=tuple(kept))


def needed_names(files: Iterable[TableDataFile]) -> list[str]:
    """Return the names of columns that decide which rows of some files count."""
    conditions = (one for file in files for one in file.snapshot.conditions(file.file))
    return list(dict.fromkeys(name for one in conditions for name in one.names))


def _ranges(file: TableFile, name: str) -> tuple[Range] | None:
    """Return the least and greatest value of a column in a file. None: unknown."""
    if file.statistics is None or file.merged is not None:
        return None
    said = file.statistics.of(name)
    if said is None or said.least is None or said.greatest is None:
        return None
    kind = said.least.type
    if is_text(kind):
        return ((said.least.as_py().encode(), said.greatest.as_py().encode()),)
    if not (pa.types.is_integer(kind) or pa.types.is_date32(kind)):
        return None
    least, greatest = (
        one.cast(pa.int32()) if pa.types.is_date32(kind) else one
        for one in (said.least, said.greatest)
    )
    return ((least.as_py(), greatest.as_py()),)


def _counted(file: TableFile) -> int:
    """Return the number of rows of a file, from its footer."""
    shown = file.address.shown
    with reading(file), file.address.open(file.nbytes) as handle:
        if file.file_format == "orc":
            return int(read_footer(handle, shown).rows)
        return int(read_metadata(handle, shown).num_rows)
