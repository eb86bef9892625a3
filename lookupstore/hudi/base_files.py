"""The rows of base files, in the columns and types of a table's schema.

Files are older than the schema: columns that they lack are null, and narrower types are widened.
Arrow's dataset does both, and passes over row groups that a filter excludes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lookupstore.errors import FormatError
from lookupstore.location import Location
from lookupstore.parquet.footer import read_footer
from lookupstore.read_errors import READ_ERRORS, read_error

COMMIT_TIME = "_hoodie_commit_time"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
#: What each base file has before its data columns.
META_FIELDS: tuple[pa.Field, ...] = tuple(
    pa.field(name, pa.string())
    for name in (
        COMMIT_TIME,
        "_hoodie_commit_seqno",
        RECORD_KEY,
        PARTITION_PATH,
        "_hoodie_file_name",
    )
)
META_COLUMNS = tuple(field.name for field in META_FIELDS)

_FORMAT = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)

_GONE = "deleted by a clean or a rollback; read the table again"
# Footers that are read at one time.
_FOOTER_THREADS = 16
# How a scan goes that has one processor, and shares memory with others that have the others.
_ONE_THREAD = {"use_threads": False, "fragment_readahead": 1, "batch_size": 1 << 15}


def written_at(times: Sequence[str]) -> pc.Expression:
    """Return which rows some instants wrote."""
    return pc.field(COMMIT_TIME).isin(pa.array(times, pa.string()))


class BaseFiles:
    """Reads base files as one table.

    Args:
        location: of the table.
        paths: of the files, relative to the table.
        schema: of the rows, meta columns included.
    """

    def __init__(self, location: Location, paths: Sequence[str], schema: pa.Schema) -> None:
        self._location = location
        self._paths = list(paths)
        self._schema = schema

    def dataset(self) -> ds.Dataset:
        """Return the files as a dataset of Arrow."""
        filesystem, _ = self._location.resolve("")
        fragments = [self._fragment(path) for path in self._paths]
        return ds.FileSystemDataset(fragments, self._schema, _FORMAT, filesystem)

    def table(self, columns: Sequence[str], where: pc.Expression | None = None) -> pa.Table:
        """Return rows of all files, in their order.

        Args:
            columns: that are wanted, in this order.
            where: which rows; None: all.

        Raises:
            ValueError: `where` does not fit the columns.
            CorruptionError: a file is damaged.
            FormatError: a file has a column whose type is no narrower one than the schema's.
            StaleStoreError: a file is gone.
            OSError: a remote file could not be read, or is damaged.
        """
        scanner = self._scanner(columns, where)
        with self._telling():
            if where is not None:
                self._check_footers()
            return scanner.to_table()

    def batches(
        self, columns: Sequence[str], where: pc.Expression | None = None, *, threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """Return rows of all files, in their order, a few at a time; see `table`.

        Args:
            columns: as of `table`.
            where: as of `table`.
            threads: whether to read and decode several files at the same time, and ahead.
        """
        ahead = {} if threads else _ONE_THREAD
        return self._batches(self._scanner(columns, where, **ahead), is_filtered=where is not None)

    def _batches(self, scanner: ds.Scanner, *, is_filtered: bool) -> Iterator[pa.RecordBatch]:
        with self._telling():
            if is_filtered:
                self._check_footers()
            for batch in scanner.to_batches():
                if batch.num_rows:
                    yield batch

    def _scanner(
        self, columns: Sequence[str], where: pc.Expression | None, **ahead: Any
    ) -> ds.Scanner:
        try:
            return self.dataset().scanner(columns=list(columns), filter=where, **ahead)
        except (pa.ArrowException, TypeError) as error:
            # A scanner has not read anything yet: only the expression can be wrong.
            raise ValueError(f"filter: {error}; `schema` says names and types") from None

    def _check_footers(self) -> None:
        """Look at the footers whose statistics a filter asks: Arrow ends the process at some."""
        with ThreadPoolExecutor(_FOOTER_THREADS, "lookupstore-footer") as pool:
            for _ in pool.map(self._check_footer, self._paths):
                continue

    def _check_footer(self, path: str) -> None:
        filesystem, full = self._location.resolve(path)
        with filesystem.open_input_file(full) as file:
            read_footer(file, self._location.show(path))

    def _fragment(self, path: str) -> ds.ParquetFileFragment:
        filesystem, full = self._location.resolve(path)
        return _FORMAT.make_fragment(full, filesystem)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Say of Arrow's errors which file they are about, and what is wrong with it."""
        try:
            yield
        except READ_ERRORS as error:
            if isinstance(error, OSError) and self._location.local is None:
                # To read all again, file by file, may cost much.
                raise self._meaning(error, self._location.uri) from error
            self._find_fault()
            raise

    def _find_fault(self) -> None:
        """Read file by file, and raise the error of the first that cannot be read."""
        for path in self._paths:
            shown = self._location.show(path)
            fragment = self._fragment(path)
            try:
                for _ in fragment.to_batches():
                    continue
            except READ_ERRORS as error:
                raise self._meaning(error, shown) from error
            try:
                for _ in fragment.to_batches(schema=self._schema):
                    continue
            except pa.ArrowException as error:
                raise FormatError(
                    f"{shown}: a column has a type that cannot be widened to the schema of the "
                    f"latest commit: {error}"
                ) from error

    def _meaning(self, error: Exception, shown: str) -> Exception:
        is_local = self._location.local is not None
        return read_error(error, shown, "a Parquet file", local=is_local, gone=_GONE)
