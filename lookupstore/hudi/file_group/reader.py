"""Read the rows of one base file in their order, for a merge that copies them.

`scan` reads many files at once; this module needs memory for a few batches only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lookupstore.arrow.types import concat, unwrap
from lookupstore.errors import CorruptionError
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.key_entries import own_entry
from lookupstore.hudi.file_group.promotion import promoted
from lookupstore.parquet.claims import MOST_OF_SMALL, look_at_claims
from lookupstore.parquet.footer import ColumnChunk, ParquetFooter, read_footer
from lookupstore.source.damage import damaged_offset
from lookupstore.storage.location import Location

#: Maximum number of rows of a batch; wide rows make smaller batches.
BATCH_ROWS = 1 << 15
_BATCH_BYTES = 8 << 20
_NEVER = 1 << 62

#: Type of texts that many rows share: Arrow and Parquet store each of them once.
SHARED_TEXT = pa.dictionary(pa.int32(), pa.string())


class SliceRows:
    """The rows of one base file.

    Args:
        location: Location of the table.
        file: File to read.
        schema: Schema of the rows to read. Fields that are dictionaries are read as dictionaries.
        threads: Whether to decode columns at the same time.

    Raises:
        StaleStoreError: If the file is gone.
        CorruptionError: If the file is damaged.
        OSError: If the file could not be read. A remote file may also be damaged.
    """

    def __init__(
        self, location: Location, file: FileSlice, schema: pa.Schema, *, threads: bool
    ) -> None:
        self._threads = threads
        self._name = file.name
        #: Path of the file, for errors.
        self.shown: str = location.show(file.path)
        self._address = location.address(file.path)
        with self._reading():
            self._stream = self._address.open()
            #: Footer of the file.
            self.footer: ParquetFooter = read_footer(self._stream, self.shown)
            parquet, self._claims = look_at_claims(self._stream, schema.names, self.shown)
            first = pq.ParquetFile(parquet)
            #: Names of text columns with few different values, which are read as dictionaries.
            self.shared: frozenset[str] = shared_texts(first, schema)
            names = [field.name for field in schema if pa.types.is_dictionary(field.type)]
            self._file = pq.ParquetFile(
                parquet,
                metadata=first.metadata,
                read_dictionary=[*names, *self.shared],
                pre_buffer=False,
                buffer_size=self._address.column_bytes,
                page_checksum_verification=True,
            )
        #: Schema in which the columns are read.
        self.schema: pa.Schema = pa.schema(
            [one.with_type(SHARED_TEXT) if one.name in self.shared else one for one in schema]
        )
        metadata = self._file.metadata
        groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
        #: Number of rows of each row group.
        self.group_rows: list[int] = [one.num_rows for one in groups]
        self._row_bytes = max(1, sum(one.total_byte_size for one in groups)) / max(
            1, metadata.num_rows
        )

    @cached_property
    def is_ours(self) -> bool:
        """Return whether lookupstore wrote the file.

        If so, the entries of its footer about keys are verified.

        Raises:
            CorruptionError: If one of these entries is damaged.
        """
        return own_entry(self.footer.entries, self._name, self.shown) is not None

    def read_chunk(self, chunk: ColumnChunk) -> bytes:
        """Read the bytes of a column chunk."""
        with self._reading():
            data: bytes = self._stream.read_at(chunk.nbytes, chunk.offset)
        return data

    def read_group(self, group: int, names: Sequence[str]) -> dict[str, pa.Array]:
        """Read columns of a row group by their names, as far as the file has them.

        Raises:
            CorruptionError: If the file is damaged.
            FormatError: If a column has a type that is not promoted to the schema's.
        """
        with self._reading(names, group):
            if self._claims.is_large(group):
                table = pa.Table.from_batches(self._within_bounds(group, names))
            else:
                table = self._file.read_row_group(group, list(names), use_threads=self._threads)
        if names:
            self._check_rows(group, table.num_rows)
        fields = [self.schema.field(name) for name in names]
        return {
            field.name: self._fitted(
                concat(table[field.name].chunks, table[field.name].type), field
            )
            for field in fields
        }

    def _within_bounds(self, group: int, names: Sequence[str]) -> list[pa.RecordBatch]:
        """Read columns of a row group of a small file, unless they are too large."""
        found, nbytes = [], 0
        most = self._claims.rows_at_once(BATCH_ROWS)
        for batch in self._file.iter_batches(most, row_groups=[group], columns=list(names)):
            nbytes += batch.nbytes
            if nbytes > MOST_OF_SMALL:
                expected = f"a row group of at most {MOST_OF_SMALL} bytes in so small a file"
                raise CorruptionError(self.shown, 0, expected, "more")
            found.append(batch)
        if not found:
            raise CorruptionError(self.shown, 0, f"rows in row group {group}", "none")
        return found

    def batches(self, group: int) -> Iterator[pa.RecordBatch]:
        """Read the rows of a row group in batches.

        Raises:
            CorruptionError: If the file is damaged.
            FormatError: If a column has a type that is not promoted to the schema's.
        """
        stored = set(self._file.schema_arrow.names)
        names = [name for name in self.schema.names if name in stored]
        most = min(BATCH_ROWS, max(1, int(_BATCH_BYTES / self._row_bytes)))
        most = self._claims.rows_at_once(most)
        with self._reading():
            batches = self._file.iter_batches(
                most, row_groups=[group], columns=names, use_threads=self._threads
            )
        found = 0
        while True:
            with self._reading(names, group):
                batch = next(batches, None)
            if batch is None:
                break
            found += batch.num_rows
            if batch.num_rows:
                yield self._with_all(batch)
        if names:
            self._check_rows(group, found)

    def _check_rows(self, group: int, found: int) -> None:
        """Check that a row group has all its rows: Arrow ends a column where a header says so."""
        if found != self.group_rows[group]:
            expected = f"{self.group_rows[group]} rows in row group {group}, as the footer says"
            raise CorruptionError(self.shown, 0, expected, found)

    def _with_all(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with all columns, in their types."""
        columns = []
        for field in self.schema:
            at = batch.schema.get_field_index(field.name)
            columns.append(
                pa.nulls(batch.num_rows, field.type)
                if at < 0
                else self._fitted(batch.column(at), field)
            )
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _fitted(self, column: pa.Array, field: pa.Field) -> pa.Array:
        """Return a column in the wanted type."""
        if pa.types.is_dictionary(column.type) and len(column):
            self._check_places(column, field.name)
        return promoted(column, field.type, field.name, self.shown)

    def _check_places(self, column: pa.DictionaryArray, name: str) -> None:
        """Refuse indices that are outside of their dictionary: Arrow does not check them."""
        ends = pc.min_max(column.indices)
        low, high = ends["min"].as_py(), ends["max"].as_py()
        most = len(column.dictionary) - 1
        if low is not None and not 0 <= low <= high <= most:
            expected = f"places of the column {name!r} in its dictionary, 0 to {most}"
            raise CorruptionError(self.shown, 0, expected, f"{low} to {high}")

    def _reading(
        self, names: Sequence[str] = (), group: int | None = None
    ) -> AbstractContextManager[None]:
        gone = "deleted by a clean or a rollback; read the table again"
        groups = () if group is None else (group,)
        place = partial(damaged_offset, self._address, names, groups)
        return self._address.reading("a Parquet file", gone=gone, place=place)


def shared_texts(file: pq.ParquetFile, schema: pa.Schema) -> frozenset[str]:
    """Return the names of text columns that take less than a byte per value: dictionaries.

    Decoding such a column and encoding it again would take most of the time.
    """
    sizes: dict[str, int] = {}
    for group in map(file.metadata.row_group, range(file.metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            path = column.path_in_schema
            nbytes = column.total_uncompressed_size if column.has_dictionary_page else _NEVER
            sizes[path] = sizes.get(path, 0) + nbytes
    stored = file.schema_arrow
    return frozenset(
        field.name
        for field in schema
        if field.type == pa.string()
        and field.name in stored.names
        and stored.field(field.name).type == pa.string()
        and sizes.get(field.name, _NEVER) < file.metadata.num_rows
    )


def rows_at(
    location: Location, file: FileSlice, positions: npt.NDArray[np.int64], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield columns of some rows of a base file.

    Args:
        location: Location of the table.
        file: File to read.
        positions: Positions of the rows, ascending. A row whose position is repeated is yielded as
            often.
        schema: Schema of the columns to read.

    Raises:
        StaleStoreError: If the file is gone.
        CorruptionError: If the file is damaged.
        FormatError: If a column has a type that is not promoted to the schema's.
        OSError: If the file could not be read. A remote file may also be damaged.
    """
    stored = SliceRows(location, file, schema, threads=True)
    start = 0
    for group, rows in enumerate(stored.group_rows):
        low, high = np.searchsorted(positions, [start, start + rows])
        if low < high:
            first = start
            for batch in stored.batches(group):
                low, high = np.searchsorted(positions, [first, first + batch.num_rows])
                taken = batch.take(pa.array(positions[low:high] - first))
                columns = [unwrap(column) for column in taken.columns]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
                first += batch.num_rows
        start += rows
