"""The rows of base files in the columns and types of a table's schema.

Files may be older than the schema: columns that they lack are null, and types are promoted. Arrow's
dataset reads files with the types of the schema, and skips row groups that a filter excludes. Other
files are read in their own types, promoted, and then filtered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi.file_group.promotion import check_promotion, needs_promotion, promoted
from lookupstore.hudi.meta_columns import COMMIT_TIME
from lookupstore.parquet.claims import look_at_claims
from lookupstore.parquet.footer import read_footer
from lookupstore.source.damage import damaged_offset
from lookupstore.storage.location import Location
from lookupstore.storage.read_errors import READ_ERRORS

_FORMAT = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)

_GONE = "deleted by a clean or a rollback; read the table again"
# Number of footers that are read at a time.
_FOOTER_THREADS = 16
# Number of rows that are read at a time, Arrow's default.
_BATCH_ROWS = 1 << 17
# Options of a scan that has one processor, and shares memory with scans on other processors.
_ONE_THREAD = {"use_threads": False, "fragment_readahead": 1, "batch_size": 1 << 15}


def written_at(times: Sequence[str]) -> pc.Expression:
    """Return a filter of the rows that some instants wrote."""
    return pc.field(COMMIT_TIME).isin(pa.array(times, pa.string()))


def _ahead(rows: int, *, threads: bool) -> dict[str, Any]:
    """Return the options of a scan that reads `rows` rows at a time."""
    if rows < _BATCH_ROWS:  # few rows may need much memory: nothing is read ahead
        most = min(rows, _ONE_THREAD["batch_size"])
        return {**_ONE_THREAD, "batch_readahead": 1, "batch_size": most}
    return {} if threads else _ONE_THREAD


class BaseFiles:
    """Base files, read as one table.

    Args:
        location: Location of the table.
        paths: Paths of the files, relative to the table.
        schema: Schema of the rows, with the meta columns.
        known: Expressions that are true for every row of a file, by the paths of some of the files.
    """

    def __init__(
        self,
        location: Location,
        paths: Sequence[str],
        schema: pa.Schema,
        known: Mapping[str, pc.Expression] | None = None,
    ) -> None:
        self._location = location
        self._paths = list(paths)
        self._schema = schema
        self._known = known or {}

    def dataset(self) -> ds.Dataset:
        """Return the files as a dataset of Arrow."""
        filesystem, _ = self._location.resolve("")
        fragments = [self._fragment(path) for path in self._paths]
        return ds.FileSystemDataset(fragments, self._schema, _FORMAT, filesystem)

    def table(self, columns: Sequence[str], where: pc.Expression | None = None) -> pa.Table:
        """Return rows of all files, in their order.

        Args:
            columns: Names of the columns to return, in this order.
            where: Filter of the rows to return. None: all rows.

        Raises:
            ValueError: If `where` does not fit the columns.
            CorruptionError: If a file is damaged.
            FormatError: If a file has a column whose type is not promoted to the schema's.
            StaleStoreError: If a file is gone.
            OSError: If a remote file could not be read, or is damaged.
        """
        dataset = self.dataset()
        # Concatenated tables without columns would have no rows.
        asked = list(columns) or self._schema.names[:1] if where is not None else columns
        scanners = self._scanners(dataset, asked, where, threads=True)
        with self._telling():
            tables = [one.to_table() for one in scanners]
        rows = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        if not columns:
            rows = rows.select([])
        if where is None:
            self._check_rows(dataset, columns, rows.num_rows)
        return rows

    def batches(
        self, columns: Sequence[str], where: pc.Expression | None = None, *, threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """Return rows of all files, in their order, in batches.

        Errors are those of `table`.

        Args:
            columns: Names of the columns to return, in this order.
            where: Filter of the rows to return. None: all rows.
            threads: Whether to read and decode several files at the same time, and ahead.
        """
        dataset = self.dataset()
        scanners = self._scanners(dataset, columns, where, threads=threads)
        return self._batches(scanners, dataset, columns, where)

    def num_rows(self) -> int:
        """Return the number of rows of all files from their footers.

        Errors are those of `table`.
        """
        with self._telling():
            return int(self.dataset().count_rows())

    def row_groups(self, where: pc.Expression | None) -> tuple[list[int], list[int]]:
        """Return the bytes of each row group, and of each that Arrow would read.

        Only footers are read. Errors are those of `table`.

        Args:
            where: Filter of the rows that Arrow would read. None: all rows.
        """

        def of_file(path: str) -> tuple[list[int], list[int]]:
            with self._location.address(path).open() as file:
                sizes = [one.nbytes for one in read_footer(file, self._location.show(path)).groups]
            if where is None:
                return sizes, sizes
            return sizes, [sizes[number] for number in self._left(path, where)]

        with self._telling(), ThreadPoolExecutor(_FOOTER_THREADS, "lookupstore-footer") as pool:
            found = list(pool.map(of_file, self._paths))
        return [one for sizes, _ in found for one in sizes], [
            one for _, left in found for one in left
        ]

    def groups_left(self, path: str, where: pc.Expression) -> list[int]:
        """Return the numbers of the row groups of a file that Arrow would read.

        Errors are those of `table`.

        Args:
            path: Path of the file, whose footer the caller has checked.
            where: Filter of the rows that Arrow would read.
        """
        with self._telling():
            return self._left(path, where)

    def _left(self, path: str, where: pc.Expression) -> list[int]:
        fragment = self._fragment(path)
        if self._is_older(fragment, path, self._schema.names):
            # Statistics in the footer are those of values before promotion.
            return [one.id for one in fragment.row_groups]
        left = fragment.subset(where, schema=self._schema).row_groups
        return [one.id for one in left]

    def _batches(
        self,
        scanners: Iterable[ds.Scanner],
        dataset: ds.Dataset,
        columns: Sequence[str],
        where: pc.Expression | None,
    ) -> Iterator[pa.RecordBatch]:
        found = 0
        with self._telling():
            for batch in (batch for scanner in scanners for batch in scanner.to_batches()):
                found += batch.num_rows
                if batch.num_rows:
                    yield batch
        if where is None:
            self._check_rows(dataset, columns, found)

    def _check_rows(self, dataset: ds.Dataset, columns: Sequence[str], found: int) -> None:
        """Check that all rows were read: Arrow ends a column where a header of a page says so."""
        with self._telling():
            if found == dataset.count_rows():  # from footers that the scan has read
                return
            for path, fragment in zip(self._paths, dataset.get_fragments(), strict=True):
                rows = fragment.count_rows()
                there = [name for name in columns if name in fragment.physical_schema.names]
                read = fragment.to_table(columns=there).num_rows if there else rows
                if rows != read:
                    expected = f"{rows} rows, as the footer says"
                    raise CorruptionError(self._location.show(path), 0, expected, read)

    def _scanners(
        self,
        dataset: ds.Dataset,
        columns: Sequence[str],
        where: pc.Expression | None,
        *,
        threads: bool,
    ) -> list[ds.Scanner]:
        """Return scanners that read one file after the other."""
        names = list(self._schema.names if where is not None else columns)
        with self._telling():
            ahead = _ahead(self._rows_at_once(columns, where), threads=threads)
            older = self._older(dataset, names)
        try:
            if not any(older):
                return [dataset.scanner(columns=list(columns), filter=where, **ahead)]
            # Check the filter before any file is read.
            ds.dataset(self._schema.empty_table()).scanner(columns=list(columns), filter=where)
            fragments = list(dataset.get_fragments())
            scanners = []
            for is_older, group in groupby(range(len(older)), older.__getitem__):
                numbers = list(group)
                if is_older:
                    batches = self._promoted(numbers, fragments, names, ahead)
                    schema = pa.schema([self._schema.field(name) for name in names])
                    one = ds.Scanner.from_batches(
                        batches, schema=schema, columns=list(columns), filter=where
                    )
                else:
                    some = [fragments[number] for number in numbers]
                    part = ds.FileSystemDataset(some, self._schema, _FORMAT, dataset.filesystem)
                    one = part.scanner(columns=list(columns), filter=where, **ahead)
                scanners.append(one)
            return scanners
        except (pa.ArrowException, TypeError) as error:
            # A scanner has not read anything yet: only the expression can be wrong.
            raise ValueError(f"filter: {error}; `schema` says names and types") from None

    def _older(self, dataset: ds.Dataset, names: Sequence[str]) -> list[bool]:
        """Return whether each file has columns that must be promoted.

        Raises:
            FormatError: If a file has a column whose type is not promoted to the schema's.
        """

        def is_older(one: tuple[ds.ParquetFileFragment, str]) -> bool:
            # The scan uses the metadata that is read here.
            one[0].ensure_complete_metadata()
            return self._is_older(*one, names)

        pairs = zip(dataset.get_fragments(), self._paths, strict=True)
        with ThreadPoolExecutor(_FOOTER_THREADS, "lookupstore-footer") as pool:
            return list(pool.map(is_older, pairs))

    def _is_older(self, fragment: ds.ParquetFileFragment, path: str, names: Sequence[str]) -> bool:
        """Return whether a file has columns that must be promoted; see `_older`."""
        stored, found = fragment.physical_schema, False
        for name in names:
            at = stored.get_field_index(name)
            wanted = self._schema.field(name).type
            if at >= 0 and needs_promotion(stored.field(at).type, wanted):
                check_promotion(stored.field(at).type, wanted, name, self._location.show(path))
                found = True
        return found

    def _promoted(
        self,
        numbers: Sequence[int],
        fragments: Sequence[ds.ParquetFileFragment],
        names: Sequence[str],
        ahead: dict[str, Any],
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows of files, with columns in the types of the schema."""
        schema = pa.schema([self._schema.field(name) for name in names])
        for number in numbers:
            fragment, shown = fragments[number], self._location.show(self._paths[number])
            there = [name for name in names if name in fragment.physical_schema.names]
            for batch in fragment.to_batches(columns=there, **ahead):
                columns = [
                    promoted(batch.column(field.name), field.type, field.name, shown)
                    if field.name in there
                    else pa.nulls(batch.num_rows, field.type)
                    for field in schema
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _rows_at_once(self, columns: Sequence[str], where: pc.Expression | None) -> int:
        """Check the footers that a filter uses, and the pages of small files.

        Returns:
            Number of rows to read at once.
        """
        names = self._schema.names if where is not None else columns

        def rows_of(path: str) -> int:
            shown = self._location.show(path)
            with self._location.address(path).open() as file:
                if where is not None:
                    read_footer(file, shown)
                return look_at_claims(file, names, shown)[1].rows_at_once(_BATCH_ROWS)

        with ThreadPoolExecutor(_FOOTER_THREADS, "lookupstore-footer") as pool:
            return min(pool.map(rows_of, self._paths), default=_BATCH_ROWS)

    def _fragment(self, path: str) -> ds.ParquetFileFragment:
        filesystem, full = self._location.resolve(path)
        return _FORMAT.make_fragment(full, filesystem, self._known.get(path))

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Add the file and the reason to Arrow's errors."""
        try:
            yield
        except READ_ERRORS as error:
            if isinstance(error, OSError) and not self._location.is_cheap_to_read:
                raise self._meaning_error(error, "") from None
            self._find_fault()
            raise

    def _find_fault(self) -> None:
        """Read file by file, and raise the error of the first unreadable file."""
        for path in self._paths:
            fragment = self._fragment(path)
            try:
                for _ in fragment.to_batches():
                    continue
            except READ_ERRORS as error:
                raise self._meaning_error(error, path) from error
            try:
                for _ in fragment.to_batches(schema=self._schema):
                    continue
            except pa.ArrowException as error:
                shown = self._location.show(path)
                raise FormatError(
                    f"{shown}: a column has a type that cannot be widened to the schema of the "
                    f"latest commit: {error}"
                ) from error

    def _meaning_error(self, error: Exception, path: str) -> Exception:
        address = self._location.address(path)
        place = partial(damaged_offset, address, None)
        return address.read_error(error, "a Parquet file", gone=_GONE, place=place)
