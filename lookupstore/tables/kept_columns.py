"""Columns of data files that this host keeps, so that they are not read from an object store again.

A commit that deletes rows by position does not tell their keys, which are in the data files. If
each page has a deleted row, most bytes of the key columns are read. So a store that follows such a
table keeps the key columns of the data files that it reads, in the cache of the host.

A file of kept columns has all rows of a data file, in its order, in the names and types in which
they are read. It is a stream of Arrow IPC, followed by 16 bytes, the XXH3 of the stream. A file
that does not match its hash is removed, and the data file is read instead.
"""

from __future__ import annotations

import json
import logging
import mmap
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from types import TracebackType

import pyarrow as pa
import xxhash

from lookupstore.errors import DiskQuotaError
from lookupstore.hostcache.cache import Residency
from lookupstore.hostcache.file_series import FileSeries, SeriesFile
from lookupstore.tables.snapshot import Snapshot, TableFile

# Fewest bytes of a data file whose columns are kept: one request returns all of a smaller file.
_LEAST_BYTES = 64 << 10
_VERSION = 1
_HASH_BYTES = 16

_log = logging.getLogger(__name__)


class HostColumns:
    """The columns of data files that one call keeps on this host, or finds there.

    If the cache cannot be written, or has no room, files are read as if nothing were kept.

    Args:
        names: Names of the columns of a table, such as those of a key.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        residency = Residency()
        self._files = residency.lookup_files
        self._series = residency.file_series()
        self._writes = True

    def close(self) -> None:
        """Remove what was not finished."""
        self._series.close()

    def __enter__(self) -> HostColumns:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def names_for(self, snapshot: Snapshot, file: TableFile) -> list[str]:
        """Return the names of the columns that are kept of a data file: none of most files.

        Args:
            snapshot: Table that has the file.
            file: The file.
        """
        is_small = file.nbytes < _LEAST_BYTES
        if not snapshot.deletes_by_position or not file.address.is_remote or is_small:
            return []
        condition = snapshot.filter
        return [*dict.fromkeys([*self._names, *(() if condition is None else condition.names)])]

    def opened(self, snapshot: Snapshot, file: TableFile, wanted: Sequence[str]) -> KeptFile | None:
        """Return the kept columns of a data file. None: this host lacks some that are wanted.

        Args:
            snapshot: Table that has the file.
            file: The file.
            wanted: Names of the wanted columns of the table.
        """
        names = self.names_for(snapshot, file)
        if not names or not {*wanted} <= {*names}:
            return None
        name = _name(snapshot, file, names)
        try:
            content = self._files.mapped(name)
            return None if content is None else KeptFile(content)
        except ValueError as error:
            _log.warning("%s: %s; removed", self._files.path_of(name), error)
            self._files.discard(name)
        except OSError as error:
            _log.info("%s: its kept columns are not read: %s", file.address.shown, error)
        return None

    def copied(
        self,
        snapshot: Snapshot,
        file: TableFile,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows of a data file, and keep columns of them.

        Args:
            snapshot: Table that has the file.
            file: The file.
            schema: Columns of the file that are kept. Without any, nothing is kept.
            batches: The rows, with these and other columns.
        """
        name = _name(snapshot, file, self.names_for(snapshot, file))
        if not len(schema) or not self._writes or self._files.has(name):
            yield from batches
            return
        with closing(_Copy(self._series, name, schema)) as copy:
            for batch in batches:
                with self._noted(file):
                    copy.add(batch)
                yield batch
            with self._noted(file):
                copy.finish()

    @contextmanager
    def _noted(self, file: TableFile) -> Iterator[None]:
        """Log that columns of a file cannot be kept, instead of raising the error."""
        try:
            yield
        except (DiskQuotaError, OSError) as error:
            self._writes = False
            _log.info("%s: its columns are not kept on this host: %s", file.address.shown, error)


class KeptFile:
    """The kept columns of a data file.

    Args:
        content: Bytes of the file that has them.

    Attributes:
        schema: Columns of the data file that are kept, in the types in which they are read.

    Raises:
        ValueError: If the file is damaged.
    """

    def __init__(self, content: mmap.mmap | bytes) -> None:
        whole = memoryview(content)
        stream, expected = whole[:-_HASH_BYTES], bytes(whole[-_HASH_BYTES:])
        if not stream:
            raise ValueError(f"damaged: it has {len(whole)} bytes")
        found = xxhash.xxh3_128_digest(stream)
        if found != expected:
            raise ValueError(f"damaged: its XXH3 is {found.hex()}, not {expected.hex()}")
        self._stream = pa.py_buffer(stream)
        self.schema: pa.Schema = pa.ipc.open_stream(self._stream).schema

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some of the kept columns of all rows.

        Args:
            names: Names of the columns in the data file.
        """
        for batch in pa.ipc.open_stream(self._stream):
            yield batch.select(list(names))


class _Copy:
    """Columns of a data file that are being kept, and the file that Arrow writes them to.

    Args:
        series: Series of files, of which this is one.
        name: Name of the file.
        schema: Columns to keep.
    """

    closed = False

    def __init__(self, series: FileSeries, name: str, schema: pa.Schema) -> None:
        self._series, self._name, self._schema = series, name, schema
        self._hash = xxhash.xxh3_128()
        self._file: SeriesFile | None = None
        self._stream: pa.ipc.RecordBatchStreamWriter | None = None
        self._is_whole = True

    def add(self, rows: pa.RecordBatch) -> None:
        """Keep columns of the next rows, unless earlier ones could not be kept.

        Raises:
            DiskQuotaError: Files in use leave no room.
            OSError: The cache cannot be written.
        """
        if not self._is_whole:
            return
        self._is_whole = False
        if self._stream is None:
            self._file = self._series.begin(self._name)
            sink = pa.PythonFile(self, mode="w")
            self._stream = pa.ipc.new_stream(sink, self._schema)
        columns = [rows.column(name) for name in self._schema.names]
        self._stream.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._is_whole = True

    def write(self, data: pa.Buffer) -> int:
        """Append bytes, which Arrow wrote."""
        assert self._file is not None
        self._hash.update(data)
        return self._file.write(data)

    def finish(self) -> None:
        """Let the host have the file, if all rows could be kept.

        Raises:
            OSError: The cache cannot be written.
        """
        if self._is_whole and self._file is not None and self._stream is not None:
            self._stream.close()
            self._file.write(self._hash.digest())
            self._file.finish()

    def close(self) -> None:
        """Remove the file, unless it is finished."""
        if self._file is not None:
            self._file.discard()


def _name(snapshot: Snapshot, file: TableFile, names: Sequence[str]) -> str:
    """Return 32 hexadecimal digits that identify the columns of a data file that are kept."""
    stored = pa.schema([snapshot.stored_field(file, name) for name in names])
    mapped = sorted(map(str, (snapshot.ids_of_names or {}).items()))
    where = [snapshot.table_id, file.address.shown, file.nbytes, file.written]
    parts = ["kept columns", _VERSION, *where, stored.to_string(), mapped]
    return xxhash.xxh3_128_hexdigest(json.dumps(parts).encode())
