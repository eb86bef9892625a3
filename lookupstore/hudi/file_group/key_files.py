"""The record keys of base files: the filter and range in the footer, and the keys themselves.

A base file never changes, so its footer is read once as long as there is room to keep it.
"""

from __future__ import annotations

import random
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lookupstore.columnar.source_file import SourceFile, parquet_source
from lookupstore.errors import CorruptionError, StaleStoreError
from lookupstore.hudi.file_group.bloom import FILTER_KEY, OLD_FILTER_KEY, BloomFilter
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.key_entries import GREATEST_KEY, LEAST_KEY, KeyChunk, own_entry
from lookupstore.hudi.meta_columns import RECORD_KEY
from lookupstore.parquet._pages import PlainChunk
from lookupstore.storage.location import Location

_Key = tuple[Location, FileSlice]

#: Maximum size of the filters in memory, in bytes.
FILTER_BYTES = 128 << 20
#: Maximum number of files whose other footer data is in memory.
MOST_FILES = 100_000

#: Maximum size of the column chunk of keys of a row group in bytes, since all of it is in memory.
MOST_CHUNK_BYTES = 16 << 20


@dataclass(frozen=True)
class KeyFile:
    """The record keys of one base file, and their location.

    Attributes:
        source: Base file to read from.
        shown: Path of the file, for errors.
        least: Least key, as the footer names it. None: the footer does not name it.
        greatest: Greatest key, as the footer names it. None: the footer does not name it.
        key_bytes: Stored size of the column of keys, in bytes.
        has_filter: Whether the footer has a filter.
        chunks: Chunks of the column of keys. None: only Arrow can read them.
    """

    source: SourceFile
    shown: str
    least: bytes | None
    greatest: bytes | None
    key_bytes: int
    has_filter: bool
    chunks: tuple[KeyChunk, ...] | None = None

    def batches(self) -> Iterator[pa.Array]:
        """Yield the record keys in the order of rows, in batches.

        A batch has a few megabytes, or a row group.

        Raises:
            CorruptionError: If the file is damaged, or a row has no key.
            StaleStoreError: If the file is gone.
            OSError: If a remote file could not be read, or is damaged.
        """
        if self.chunks is not None:
            yield from self._chunks(self.chunks)
            return
        for batch in self.source.batches([RECORD_KEY]):
            keys = batch.column(0)
            if keys.null_count:
                raise CorruptionError(self.shown, 0, f"a {RECORD_KEY} in each row", "null")
            yield keys

    def _chunks(self, chunks: Sequence[KeyChunk]) -> Iterator[pa.Array]:
        """Yield the keys of each row group; Arrow would take several times as long."""
        optional = self.source.schema.field(RECORD_KEY).nullable
        with self.source.reading(), self.source.open() as file:
            for one in chunks:
                chunk = PlainChunk(
                    file.read_at(one.nbytes, one.offset),
                    self.shown,
                    one.offset,
                    kind="bytes",
                    rows=one.rows,
                    most=one.plain_bytes,
                    optional=optional,
                    codec=one.codec and pa.Codec(one.codec),
                )
                yield chunk.texts()


def read_key_file(location: Location, file: FileSlice) -> tuple[KeyFile, Mapping[bytes, bytes]]:
    """Return what the footer of a base file records of keys, and its entries.

    Args:
        location: Location of the table.
        file: Base file to read.

    Raises:
        CorruptionError: If the footer is damaged, or has no column of record keys. In a file that
            lookupstore wrote, damage to the entries about keys is found as well.
        StaleStoreError: If the file is gone.
    """
    known, said = read_unverified(location, file)
    own = own_entry(said, file.name, known.shown)
    return replace(known, chunks=_checked(own.chunks, known)) if own is not None else known, said


def read_unverified(location: Location, file: FileSlice) -> tuple[KeyFile, Mapping[bytes, bytes]]:
    """Read the footer of a base file like `read_key_file`, with any entries about keys."""
    filesystem, path = location.resolve(file.path)
    shown = location.show(file.path)
    try:
        source, footer = parquet_source(filesystem, path)
    except FileNotFoundError:
        raise StaleStoreError(
            f"{shown}: deleted by a clean or a rollback; read the table again"
        ) from None
    if RECORD_KEY not in source.schema.names:
        raise CorruptionError(shown, 0, f"a column {RECORD_KEY}", source.schema.names)
    said: Mapping[bytes, bytes] = footer.metadata or {}
    key_bytes = 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema == RECORD_KEY:
                key_bytes += column.total_compressed_size
    known = KeyFile(
        source=source,
        shown=shown,
        least=said.get(LEAST_KEY),
        greatest=said.get(GREATEST_KEY),
        key_bytes=key_bytes,
        has_filter=FILTER_KEY in said or OLD_FILTER_KEY in said,
    )
    return known, said


def _checked(chunks: tuple[KeyChunk, ...] | None, known: KeyFile) -> tuple[KeyChunk, ...] | None:
    """Return the chunks of the column of keys. None: some are large.

    Raises:
        CorruptionError: If the file cannot have such chunks.
    """
    if chunks is None:
        return None
    for one in chunks:
        if one.offset + one.nbytes > known.source.nbytes:
            what = f"a column chunk within {known.source.nbytes} bytes"
            raise CorruptionError(known.shown, 0, what, one)
    if sum(one.rows for one in chunks) != known.source.num_rows:
        what = f"record keys of {known.source.num_rows} rows"
        raise CorruptionError(known.shown, 0, what, chunks)
    most = max((max(one.nbytes, one.plain_bytes) for one in chunks), default=0)
    return chunks if most <= MOST_CHUNK_BYTES else None


class KnownFiles:
    """Entries of footers about keys, kept in memory; threads may share it.

    Filters without room are dropped at random. A table is read in the same order each time, so if
    the oldest were dropped, no filter would be in memory when it is needed again.

    Args:
        filter_bytes: Greatest size of the filters that are kept, in bytes.
        most_files: Greatest number of files whose records are kept. The least recently used are
            dropped first.

    >>> KnownFiles().filter_bytes
    0
    """

    def __init__(self, filter_bytes: int = FILTER_BYTES, most_files: int = MOST_FILES) -> None:
        self._most_bytes = filter_bytes
        self._most_files = most_files
        self._lock = threading.Lock()
        self._files: OrderedDict[_Key, KeyFile] = OrderedDict()
        self._filters: dict[_Key, BloomFilter] = {}
        self._order: list[_Key] = []  # files with filters, in any order
        self._random = random.Random(0)
        self.filter_bytes: int = 0

    def file(self, location: Location, file: FileSlice) -> KeyFile:
        """Return what the footer of a base file records of keys.

        Raises:
            CorruptionError: If the footer or its filter is damaged, or has no column of record
                keys.
            FormatError: If the filter is of an unknown kind.
            StaleStoreError: If the file is gone.
        """
        with self._lock:
            known = self._files.get((location, file))
            if known is not None:
                self._files.move_to_end((location, file))
                return known
        return self._read(location, file)[0]

    def filter(self, location: Location, file: FileSlice) -> BloomFilter | None:
        """Return the filter of a base file, None if it has none; see `file`."""
        if not self.file(location, file).has_filter:
            return None
        bloom = self._filters.get((location, file))
        return self._read(location, file)[1] if bloom is None else bloom

    def _read(self, location: Location, file: FileSlice) -> tuple[KeyFile, BloomFilter | None]:
        known, said = read_key_file(location, file)
        bloom = BloomFilter.from_footer(said, known.shown)
        with self._lock:
            self._files[location, file] = known
            if len(self._files) > self._most_files:
                self._files.popitem(last=False)
            if bloom is not None and (location, file) not in self._filters:
                self._keep((location, file), bloom)
        return known, bloom

    def _keep(self, key: _Key, bloom: BloomFilter) -> None:
        if bloom.nbytes > self._most_bytes:
            return
        self.filter_bytes += bloom.nbytes
        while self.filter_bytes > self._most_bytes:
            at = self._random.randrange(len(self._order))
            self._order[at], self._order[-1] = self._order[-1], self._order[at]
            self.filter_bytes -= self._filters.pop(self._order.pop()).nbytes
        self._filters[key] = bloom
        self._order.append(key)
