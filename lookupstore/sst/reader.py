"""Read one sorted file: open, get, lookup, scan, verify.

The functions of this module are for the package itself; users use the class.
"""

from __future__ import annotations

import os
from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import pyarrow as pa

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.compacted.schema import Types
from lookupstore.errors import ClosedError
from lookupstore.html_table import html_fields
from lookupstore.keywords import keyword_only, shows_init
from lookupstore.sst._batch import contains, values_at
from lookupstore.sst._block import Block, check_order
from lookupstore.sst._data_blocks import DataBlocks
from lookupstore.sst._filter import FilterBuilder
from lookupstore.sst._frames import MappedBlocks, MappedFrames
from lookupstore.sst._layer import Layer
from lookupstore.sst._lookup import Lookup
from lookupstore.sst._table import FileTable
from lookupstore.sst.cache import BlockCache
from lookupstore.sst.format import NATIVE, TRAILER_SIZE, Info
from lookupstore.sst.opening import (
    check_null_bitmap,
    fill_regions,
    load_filter,
    load_index,
    load_info,
)
from lookupstore.sst.scans import (
    SCAN_SCHEMA,
    Records,
    ScannedValues,
    after_prefix,
    scan_batches,
)
from lookupstore.sst.shared import LEAST_BYTES, HostTables, SharedPlaces
from lookupstore.sst.stored import Fill, StoredFile
from lookupstore.sst.verification import measure, verify
from lookupstore.storage.home import path_here

if TYPE_CHECKING:
    from typing import TypeVar

    from lookupstore.sst.layers import RunsAbove

    D = TypeVar("D")

#: Cache of decoded blocks of all readers without a cache of their own.
shared_cache: BlockCache = BlockCache()


class Reads(NamedTuple):
    """Counts of what the lookups of a reader have read.

    Attributes:
        filter_negatives: Number of keys of batches that the filter has ruled out.
        blocks_read: Number of blocks that were read and checked.
        bytes_read: Size of these blocks in the file, in bytes.
        block_uses: Number of keys that were searched for in a block, newly read or already
            prepared.
    """

    filter_negatives: int
    blocks_read: int
    bytes_read: int
    block_uses: int


def hashed_keys(keys: Any) -> BinaryColumn:
    """Return keys with their hashes, for lookups in several files.

    Args:
        keys: Arrow array of binary, large_binary, fixed_size_binary or binary_view, or a list of
            bytes.

    >>> len(hashed_keys([b"1", b"2"]))
    2
    """
    column = BinaryColumn(keys, "keys")
    column.hash()
    return column


@shows_init
class Reader(Mapping[bytes, bytes]):
    """An open sorted file, as a mapping from keys to values of bytes.

    Files of all dialects can be opened; the magic at the end of a file tells which one it is.
    Threads may share a reader. A child of fork may use the reader of its parent. A pickled reader
    opens the file again.

    Args:
        path: Path of a local file.
        order: Key order of a ``paimon`` file, which does not record it: ``bytes``, or ``int8``,
            ``int16``, ``int32``, ``int64`` for little-endian integers; or ``row(int32,bytes,...)``
            for rows of such fields. Leave it out with `key_types`.
        key_types: Arrow schema of the keys in a lookup file of Apache Paimon, if they are typed
            rows, or the list of their fields from a schema file of Paimon
            (``docs/reference/paimon-files.md``). The reader then takes and returns columns.
            Default: keys and values are bytes.
        value_types: Arrow schema of the rows in values, or the list of their fields, with
            `key_types`.
        mode: Content of the values, with `key_types`: ``value`` (a row, its sequence number and
            kind), ``position``, ``position-and-value``, ``empty`` or ``row``.
        cache: Cache of decompressed blocks. Default: the cache that all readers of the process
            share. Blocks that are stored without compression are used where they are, in the map of
            the file.
        fill: Function that fetches the bytes of an incomplete local copy before they are first
            read; errors then use its `name` for the file. Default: the file is complete.
        tables: Files of this host in which processes share their lookup tables for a large
            uncompressed file. Default: each process makes its own.

    Raises:
        FileNotFoundError: There is no such file.
        FormatError: The file is not a sorted file, or has a format version or codec that cannot be
            read.
        CorruptionError: The footer, index, filter or properties of the file are damaged.

    Example:
        >>> from lookupstore.sst import Writer
        >>> with Writer("ages.sst") as writer:
        ...     writer.put_many([b"ada", b"alan", b"grace"], [b"36", b"41", b"85"])
        >>> reader = Reader("ages.sst")
        >>> reader.get(b"alan"), reader.get(b"bob"), len(reader)
        (b'41', None, 3)
        >>> [key for key, _ in reader.items(starts_with=b"a")]
        [b'ada', b'alan']

    Source: SortLookupStoreReader of Apache Paimon; docs/reference/format.md.
    """

    def __new__(cls, *_: Any, key_types: Types | None = None, **__: Any) -> Reader:
        if key_types is not None and cls is Reader:
            from lookupstore.sst.typed_reader import TypedReader

            cls = TypedReader
        return object.__new__(cls)

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        order: str = "bytes",
        key_types: Types | None = None,
        value_types: Types | None = None,
        mode: str = "value",
        cache: BlockCache | None = None,
        fill: Fill | None = None,
        tables: HostTables | None = None,
    ) -> None:
        if value_types is not None:
            raise ValueError("value_types= goes with key_types=")
        check_order(order)
        self._order = order
        self._cache = shared_cache if cache is None else cache
        self._tables = tables
        file = StoredFile(path_here(path), fill)
        self._path = file.path
        self._filled = fill is not None
        if file.dialect is NATIVE and order != "bytes":
            raise ValueError(
                f"order={order!r}: {self._path} is a native file, whose order is 'bytes'"
            )
        fill_regions(file)
        self._index = load_index(file, order)
        # Handles of all data blocks, which are contiguous from offset 0.
        self._handles = self._index.handles(file.footer.index[0], TRAILER_SIZE)
        self._filter = load_filter(file)
        check_null_bitmap(file)
        self._info = load_info(file, self._index, self._handles, self._filter, order)
        file.plain_bytes = self._info.plain_bytes
        _ = file.frames  # a damaged dictionary raises its error now
        self._file: StoredFile | None = file
        self._lookup: Lookup | None = self._start_lookup(file)
        self._alone: Layer | None = None  # made by the first lookup
        self._above: RunsAbove | None = None  # runs that lookups search before this file

    # -- blocks

    def _check_open(self) -> StoredFile:
        if self._file is None:
            raise ClosedError(f"{self._path}: the reader is closed")
        return self._file

    def _add_keys(self, builder: FilterBuilder) -> None:
        """Add all keys to a filter."""
        data = self._search().data
        for number in range(len(self._handles)):
            for block in data.scanned([number], 1):
                builder.add_block(block)
        self._check_open().check_whole()  # it may have been truncated while keys were read

    def _start_lookup(self, file: StoredFile) -> Lookup:
        # Files of Paimon do not record how their blocks are stored.
        plain = file.map is not None and not set(self._info.codecs or {"": 0}) - {"none"}
        count = len(self._handles)
        cache = None if plain else self._cache
        table = self._cache.table(
            (file.identity, self._order, plain), lambda: FileTable(count, cache)
        )
        records = self._info.num_records or 0
        if plain and self._tables is not None and 8 * records >= LEAST_BYTES:
            table.share(SharedPlaces(self._tables, file.settled_identity))
        handles, order = self._handles, self._order

        def load(number: int) -> Block:
            return file.data_block(handles[number], number, order)

        def fill(numbers: list[int]) -> None:
            file.fill_blocks([handles[number] for number in numbers])

        frames = blocks = None
        if file.map is not None and file.dialect is NATIVE and file.is_here:
            assert self._info.plain_bytes is not None
            if plain:
                blocks = MappedBlocks(file.map, handles, self._info.plain_bytes)
            else:
                frames = MappedFrames(file.map, handles, file.frames, self._info.plain_bytes)
        data = DataBlocks(
            self._index,
            table,
            load,
            file.map,
            file.check_whole,
            fill if self._filled else None,
            frames,
            blocks,
            (lambda: file.is_here) if self._filled else None,
            handles,
            records,
            file.drop_scattered,
            file.is_cached,
        )
        return Lookup(data, self._filter)

    def _search(self) -> Lookup:
        if self._lookup is None:
            raise ClosedError(f"{self._path}: the reader is closed")
        return self._lookup

    def _layer(self) -> Layer:
        """Return the layer of this file alone, which remembers what is in memory."""
        lookup, layer = self._search(), self._alone
        if layer is None:
            layer = self._alone = Layer((lookup,))
            if self._lookup is None:  # another thread has closed the reader meanwhile
                self._alone = None
        return layer

    # -- the public part

    @overload
    def get(self, key: bytes, default: None = None) -> bytes | None: ...
    @overload
    def get(self, key: bytes, default: D) -> bytes | D: ...
    def get(self, key: bytes, default: D | None = None) -> bytes | D | None:
        """Return the value of one key, or `default`.

        Raises:
            ClosedError: The reader is closed.
            CorruptionError: The block that would hold the key is damaged.
            ValueError: The size of the key does not fit the key order.
        """
        lookup = self._lookup
        if lookup is None:
            raise ClosedError(f"{self._path}: the reader is closed")
        return lookup.get(key, default)

    def __getitem__(self, key: bytes) -> bytes:
        """Return the value of one key, as `get` does.

        Raises:
            KeyError: The key is missing; the argument of the error is the key.
        """
        missing = object()
        value = self.get(key, missing)
        if value is missing:
            raise KeyError(key)
        return value  # type: ignore[return-value]

    def lookup(self, keys: Any) -> pa.Array:
        """Return the values of many keys.

        Args:
            keys: Arrow array of binary, large_binary, fixed_size_binary or binary_view with n keys
                in any order, or a list of bytes, or the result of `hashed_keys`. A null is never
                found.

        Returns:
            Array of large_binary with n values: row i is the value of key i, null if the key is
            missing.

        Raises:
            ClosedError: The reader is closed.
            CorruptionError: A block that would hold a key is damaged.

        Example:
            >>> from lookupstore.sst import Writer
            >>> with Writer("n.sst") as writer:
            ...     writer.put_many([b"1", b"2"], [b"one", b"two"])
            >>> Reader("n.sst").lookup([b"2", b"3"]).to_pylist()
            [b'two', None]
        """
        if not isinstance(keys, BinaryColumn):
            keys = BinaryColumn(keys, "keys")
        return values_at(self._layer(), keys)

    def contains(self, keys: Any) -> pa.Array:
        """Return whether each of n keys is stored, as a boolean array of length n."""
        return contains(self._layer(), BinaryColumn(keys, "keys"))

    @keyword_only
    def scan(
        self,
        *,
        start: bytes | None = None,
        stop: bytes | None = None,
        starts_with: bytes | None = None,
        reverse: bool = False,
    ) -> pa.RecordBatchReader:
        """Read records in key order, as large_binary columns ``key`` and ``value``.

        Args:
            start: First key of the range. Default: the first key of the file.
            stop: Key that ends the range, and is not part of it. Default: no end.
            starts_with: Prefix of the keys to read, instead of `start` and `stop`.
            reverse: Whether to read from the last record to the first.

        Raises:
            ClosedError: The reader is closed, or was closed during the scan.
            CorruptionError: A block in the range is damaged.
            TypeError: If start, stop or starts_with is not bytes, or is given without its name.
            ValueError: If starts_with is given with start or stop, or the key order is not
                ``bytes``.
        """
        self._check_open()
        for name, bound in (("start", start), ("stop", stop), ("starts_with", starts_with)):
            if bound is not None and not isinstance(bound, bytes):
                raise TypeError(f"{name} is {type(bound).__name__}; give bytes")
        if starts_with is not None:
            if start is not None or stop is not None:
                raise ValueError("give starts_with, or start and stop, not both")
            if self._order != "bytes":
                raise ValueError(
                    f"starts_with needs the key order 'bytes'; this one is {self._order!r}; give "
                    "start and stop"
                )
            start, stop = starts_with, after_prefix(starts_with)
        batches = scan_batches(self, start, stop, reverse)
        return pa.RecordBatchReader.from_batches(SCAN_SCHEMA, batches)

    @keyword_only
    def items(
        self,
        *,
        start: bytes | None = None,
        stop: bytes | None = None,
        starts_with: bytes | None = None,
        reverse: bool = False,
    ) -> ItemsView[bytes, bytes]:
        """Return (key, value) pairs of bytes in key order.

        The pairs are read during iteration; each iteration begins again with the first one.

        Args:
            start: First key of the range. Default: the first key of the file.
            stop: Key that ends the range, and is not part of it. Default: no end.
            starts_with: Prefix of the keys to read, instead of `start` and `stop`.
            reverse: Whether to read from the last record to the first.
        """

        def scan() -> pa.RecordBatchReader:
            return self.scan(start=start, stop=stop, starts_with=starts_with, reverse=reverse)

        return Records(self, scan)

    def values(self) -> ValuesView[bytes]:
        """Return the values, in key order."""
        return ScannedValues(self)

    def _pairs(self, batch: pa.RecordBatch) -> Iterator[tuple[bytes, bytes]]:
        """Yield the pairs of a batch of a scan."""
        return zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)

    def __iter__(self) -> Iterator[bytes]:
        """Yield the keys in key order."""
        return (key for key, _ in self.items())

    # The default comparison of a mapping would read all records of both.

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __contains__(self, key: object) -> bool:
        """Return whether the key is stored."""
        missing = object()
        return self.get(key, missing) is not missing  # type: ignore[call-overload]

    def __len__(self) -> int:
        """Return the number of records.

        A native file records it; the first call on a Paimon file reads every block.
        """
        if self._info.num_records is None:
            self._info = measure(self._check_open(), self._handles, self._info)
        count = self._info.num_records
        assert count is not None
        return count

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of a scan: ``key`` and ``value``, bytes as they are stored."""
        return SCAN_SCHEMA

    def info(self) -> Info:
        """Return the description of the file."""
        return self._info

    @property
    def path(self) -> str:
        """Return the absolute path of the file, or the name of `fill` if it was given."""
        return self._path

    @property
    def cache(self) -> BlockCache:
        """Return the cache of decompressed blocks that this reader uses."""
        return self._cache

    def verify(self) -> Info:
        """Read all of the file and check it against itself.

        It checks the checksums, records, key order within and between blocks, the index's last
        keys, the filter (every key passes), gaps between regions, and for native files the counts
        of the properties.

        Returns:
            Complete description of the file.

        Raises:
            CorruptionError: The file is damaged; the error names the first damage that was found.
        """
        file = self._check_open()
        try:
            self._info = verify(file, self._index, self._handles, self._filter, self._info)
        finally:
            file.check_whole()
        return self._info

    def close(self) -> None:
        """Close the file; closing a closed reader does nothing.

        Calls that other threads are in finish first.
        """
        self._file = self._lookup = self._alone = self._above = None

    def __enter__(self) -> Reader:
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        self._check_open()
        if self._filled:
            raise TypeError(
                f"{self._path}: the reader of a copy that is being filled cannot be pickled"
            )
        return _reopen, (self._path, self._order)

    def __repr__(self) -> str:
        state = "closed " if self._file is None else ""
        count = "" if self._info.num_records is None else f" {self._info.num_records} records"
        return f"<{state}lookupstore.sst.Reader {self._path} {self._info.dialect}{count}>"

    def _repr_html_(self) -> str:
        said = self._info.to_json()
        for name in ("key_schema", "value_schema"):
            said[name] = {one["name"]: one["type"] for one in said[name] or ()}
        return html_fields(repr(self)[1:-1], {**said, "path": None, "metadata": None})


def reads_of(reader: Reader) -> Reads:
    """Return counts of what the lookups of a reader have read.

    Raises:
        ClosedError: The reader is closed.
    """
    lookup = reader._search()
    data = lookup.data
    return Reads(lookup.filter_negatives, data.blocks_read, data.bytes_read, lookup.block_uses)


def lookup_of(reader: Reader) -> Lookup:
    """Return the lookups of a reader, for callers that look up one key at a time.

    Raises:
        ClosedError: The reader is closed.
    """
    return reader._search()


def identity_of(reader: Reader) -> Callable[[], object | None]:
    """Return a function for an identity that no other file of this host has, or None for now.

    Raises:
        ClosedError: The reader is closed.
    """
    return reader._check_open().settled_identity


def _reopen(path: str, order: str) -> Reader:
    return Reader(path, order=order)
