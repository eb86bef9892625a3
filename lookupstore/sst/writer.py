"""Write one sorted file: blocks, dictionary, filter, index, properties, footer; then name it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from lookupstore._version import __version__
from lookupstore.arrow._binary import BinaryColumn
from lookupstore.compacted.schema import Types
from lookupstore.errors import ClosedError
from lookupstore.keywords import shows_init
from lookupstore.quantities import Size, bytes_of
from lookupstore.sst import pipeline
from lookupstore.sst._block import BlockBuilder, check_order
from lookupstore.sst._filter import FilterBuilder, paimon_size, split_block_size
from lookupstore.sst._load import BlockLoad, LoadBuilder
from lookupstore.sst.codec import (
    FALSE_POSITIVES,
    PAIMON_FALSE_POSITIVES,
    Compressor,
    usual_block_size,
)
from lookupstore.sst.format import (
    MAX_BLOCK,
    NATIVE,
    PAIMON,
    Footer,
    Info,
    pack_footer,
    pack_properties,
    pack_trailer,
)
from lookupstore.storage.home import path_here
from lookupstore.storage.output import Output

if TYPE_CHECKING:
    import pyarrow as pa

# Lowest rate of false positives: lower rates only make the filter larger, as blocks fill unevenly.
LOWEST_FPP = 1e-6

MAX_THREADS = 64


@shows_init
class Writer:
    """A writer of one sorted file, in key order.

    The file appears under its name only after `close` has written and synced all of it: temporary
    name, fsync, link (rename with `overwrite`), fsync of the folder. An exception inside a ``with``
    block leaves no file. One thread at a time may use a writer, in one process.

    Args:
        path: Path of the local file to make.
        dialect: Dialect of the file: ``native`` or ``paimon`` (the bytes of Java Paimon's sort
            lookup store).
        block_size: Size of a block before compression, in bytes. Default: 8 KiB, 4.5 KiB if the
            file is compressed, or 64 KiB in the Paimon dialect.
        compression: Codec of the blocks. ``none`` lets readers use the blocks where they are. A
            codec such as ``zstd`` or ``lz4`` makes the file smaller, and readers decompress its
            blocks into a cache. A block stays plain unless it shrinks by more than 12.5 %.
        level: Level of the codec, if it has levels, as zstd has. Default: 1 for zstd, or -1 if the
            first blocks of a native file shrink nearly as much with it. The first blocks of a
            native file of zstd, about 1 MiB, are held back: they also decide whether the file has a
            dictionary.
        bloom_fpp: Rate of false positives of the filter, from 1e-6 to below 1; 0 for no filter.
            Default: 0.005, or 0.05 in the Paimon dialect.
        expected_entries: Number of keys that the filter is made for; Paimon uses the row count of
            the source. Default: the number of keys that are added, which takes 8 bytes per key
            until `close`.
        order: Key order: ``bytes``, or for ``paimon`` also ``int8``, ``int16``, ``int32``,
            ``int64`` (little-endian integers) or ``row(...)``.
        allow_repeats: Whether to accept a key more than once, for ``paimon`` only. The file does
            not say which of the records a lookup returns.
        overwrite: Whether to replace an existing file.
        key_schema: Arrow schema of the key fields, kept in the properties; for ``native`` only.
        value_schema: Arrow schema of the value columns, kept in the properties; for ``native``
            only.
        source: Description of the origin of the records, kept in the properties; for ``native``
            only.
        metadata: Further properties, by name; for ``native`` only.
        threads: Number of threads that compress and write blocks, including the caller's, from 1 to
            64. The bytes of the file do not depend on it. An error in a thread is raised by the
            next `put`, `put_many` or `close`. A few blocks for each thread are in memory. `close`
            and `abort` end the threads.
        key_types: Arrow schema of keys that are typed rows of Apache Paimon, or the list of their
            fields from a schema file of Paimon; for ``paimon`` only. Keys and values are then
            passed as columns.
        value_types: Arrow schema of the rows in values, or the list of their fields, with
            `key_types`.
        mode: Content of the values, with `key_types`: ``value`` (a row, its sequence number and
            kind), ``position``, ``position-and-value``, ``empty`` or ``row``.

    Raises:
        FileExistsError: The file exists and `overwrite` is False.
        ValueError: If an argument is out of range, or the dialect does not have it; the text says
            which.

    Example:
        >>> with Writer("ages.sst") as writer:
        ...     writer.put(b"ada", b"36")
        ...     writer.put_many([b"alan", b"grace"], [b"41", b"85"])
        >>> writer.info().num_records
        3

    Source: SortLookupStoreWriter of Apache Paimon; docs/reference/format.md.
    """

    def __new__(cls, *_: Any, key_types: Types | None = None, **__: Any) -> Writer:
        if key_types is not None and cls is Writer:
            from lookupstore.sst.typed_writer import TypedWriter

            cls = TypedWriter
        return object.__new__(cls)

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        dialect: str = "native",
        block_size: Size | None = None,
        compression: str = "none",
        level: int | None = None,
        bloom_fpp: float | None = None,
        expected_entries: int | None = None,
        order: str = "bytes",
        allow_repeats: bool = False,
        overwrite: bool = False,
        key_schema: pa.Schema | None = None,
        value_schema: pa.Schema | None = None,
        source: str | None = None,
        metadata: Mapping[str, bytes] | None = None,
        threads: int = 1,
        key_types: Types | None = None,
        value_types: Types | None = None,
        mode: str = "value",
    ) -> None:
        if value_types is not None:
            raise ValueError("value_types= goes with key_types=")
        if dialect not in ("native", "paimon"):
            raise ValueError(f"dialect must be 'native' or 'paimon', not {dialect!r}")
        if block_size is None:
            block_size = usual_block_size(compression, java=dialect == "paimon")
        block_size = bytes_of(block_size, "block_size")
        if not 1 <= block_size <= MAX_BLOCK:
            raise ValueError(f"block_size must be from 1 to {MAX_BLOCK} bytes, not {block_size}")
        if bloom_fpp is None:
            bloom_fpp = FALSE_POSITIVES if dialect == "native" else PAIMON_FALSE_POSITIVES
        if bloom_fpp != 0 and not LOWEST_FPP <= bloom_fpp < 1:
            raise ValueError(
                f"bloom_fpp={bloom_fpp}; give a rate from {LOWEST_FPP} to below 1, or 0 for none"
            )
        if expected_entries is not None and expected_entries < 1:
            raise ValueError(f"expected_entries={expected_entries}; give at least 1, or None")
        check_order(order)
        if not isinstance(threads, int) or not 1 <= threads <= MAX_THREADS:
            raise ValueError(f"threads must be a number from 1 to {MAX_THREADS}, not {threads!r}")
        properties = (key_schema, value_schema, source, metadata)
        if dialect == "native" and (order != "bytes" or allow_repeats):
            raise ValueError(
                "a native file has the order 'bytes' and holds each key once; "
                "order= and allow_repeats= are for dialect='paimon'"
            )
        if dialect == "paimon" and any(one is not None for one in properties):
            raise ValueError(
                "a paimon file has no properties; "
                "key_schema=, value_schema=, source= and metadata= are for dialect='native'"
            )
        self._path = path_here(path)
        self._dialect = NATIVE if dialect == "native" else PAIMON
        self._order = order
        self._bloom_fpp = bloom_fpp
        self._expected_entries = expected_entries
        self._properties = properties
        self._builder = LoadBuilder(order, allow_repeats, block_size, pipeline.LOAD)
        self._filter = self._start_filter() if bloom_fpp > 0 else None
        self._num_records = 0
        self._min_key: bytes | None = None
        self._info: Info | None = None
        self._finished = self._aborted = False
        self._turn = threading.Lock()
        # The index is a single block of any size; it repeats keys where the data does.
        self._index = BlockBuilder(order, True, MAX_BLOCK)

        self._compressor = Compressor(compression, level, java=dialect == "paimon")
        self._output = Output(self._path, overwrite=overwrite)
        self._blocks = pipeline.BlockPipeline(
            self._output, self._dialect, self._index, self._compressor, threads
        )
        self._process = os.getpid()

    def __enter__(self) -> Writer:
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        # A writer that is garbage-collected was not closed.
        if hasattr(self, "_process"):
            self.abort()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a writer cannot be copied or pickled; make one where the file is written")

    def __repr__(self) -> str:
        state = "closed" if self._output.closed else f"{self._num_records} records"
        return f"<lookupstore.sst.Writer {self._path} {self._dialect.name} {state}>"

    @property
    def num_records(self) -> int:
        """Return the number of records that have been added."""
        return self._num_records

    @property
    def xxh64(self) -> str:
        """Return the XXH64 of the whole file as 16 hexadecimal digits, available after `close`."""
        return self._output.xxh64

    def info(self) -> Info:
        """Return the description of the file, available after `close`."""
        if self._info is None:
            raise ValueError(
                f"{self._path} has not been closed, so there is no file to describe yet"
            )
        return self._info

    def _check_open(self) -> None:
        if self._output.closed:
            raise ClosedError(f"{self._path}: the writer is closed")

    def put(self, key: bytes, value: bytes) -> None:
        """Add one record.

        Raises:
            ValueError: If the key is out of order, or is repeated without `allow_repeats`.
        """
        self._run(self._put, key, value)

    def _run(self, step: Callable[..., None], *arguments: Any) -> None:
        """Run a step; any failure in it, except a refused record, ends the file.

        An error between the builder and the filter would leave a key that no lookup finds.
        """
        if self._process != os.getpid():
            raise RuntimeError(f"{self._path}: use a writer only in the process that made it")
        if not self._turn.acquire(blocking=False):
            raise RuntimeError(
                f"{self._path}: another thread is using this writer; use it from one at a time"
            )
        try:
            self._check_open()
            step(*arguments)
        except (ValueError, TypeError, ClosedError):
            raise  # raised before the record was added
        except BaseException:
            self.abort()
            raise
        finally:
            self._turn.release()

    def _put(self, key: bytes, value: bytes) -> None:
        try:
            self._builder.add(key, value)
        except ValueError as error:
            raise ValueError(f"record {self._num_records}: {error}") from None
        if self._min_key is None:
            self._min_key = key
        if self._filter is not None:
            self._filter.add(key)
        self._num_records += 1
        if self._builder.full:
            self._builder.end_block()
            self._pass_on()

    def put_many(self, keys: Any, values: Any) -> None:
        """Add records in key order.

        Args:
            keys: Arrow array of binary, large_binary, fixed_size_binary or binary_view, or a list
                of bytes.
            values: Values of these keys, in the same forms, as many as there are keys.

        Raises:
            ValueError: If the lengths differ, a key or value is null, or keys are out of order or
                repeated (the text names both keys and the row). The rows before the named one have
                been added.
        """
        self._check_open()
        keys, values = BinaryColumn(keys, "keys"), BinaryColumn(values, "values")
        if len(keys) != len(values):
            raise ValueError(f"{len(keys)} keys and {len(values)} values; give one value per key")
        self._run(self._put_many, keys, values)

    def _put_many(self, keys: BinaryColumn, values: BinaryColumn) -> None:
        row = 0
        while row < len(keys):
            row = self._put_some(keys, values, row)

    def _put_some(self, keys: BinaryColumn, values: BinaryColumn, row: int) -> int:
        """Fill blocks from `row` on, and return the row after them."""
        refused: ValueError | None = None
        try:
            end = self._builder.fill(keys, values, row)
        except ValueError as error:
            end = self._builder.next_row
            refused = ValueError(f"record {self._num_records + end - row}: {error}")
        if self._min_key is None and end > row:
            self._min_key = keys.array[row].as_py()
        if self._filter is not None:
            self._filter.add_many(keys, row, end)
        self._num_records += end - row
        self._pass_on()
        if refused is not None:
            raise refused
        return end

    def _pass_on(self) -> None:
        """Write the filled blocks if there are enough."""
        if not self._builder.is_loaded:
            return
        try:
            self._blocks.put(self._builder.take())
        except BaseException:
            # Blocks are lost: a caller that catches this error must not be able to finish the file.
            self.abort()
            raise

    def _write_block(self, codec: int, payload: bytes) -> tuple[int, int]:
        """Write payload and trailer, and return the handle."""
        handle = self._output.offset, len(payload)
        self._output.write(payload)
        self._output.write(pack_trailer(self._dialect, codec, payload))
        return handle

    def close(self) -> None:
        """Write the index, filter, properties and footer, and give the file its name.

        Closing a closed writer does nothing. A failure leaves no file. With `overwrite` a failure
        leaves the old file; if only the fsync of the folder failed, the complete new file is there.

        Raises:
            FileExistsError: If the file has appeared meanwhile and `overwrite` is False.
            ClosedError: If a write has failed before, or the writer was aborted; there is no file.
        """
        if self._aborted:
            raise ClosedError(f"{self._path}: aborted, or writing has failed; there is no file")
        if not self._finished:
            self._run(self._close)

    def _close(self) -> None:
        try:
            self._finish_file()
            self._output.finish()
        except BaseException:
            self._info = None
            self.abort()
            raise
        self._finished = True

    def _finish_file(self) -> None:
        self._blocks.put(self._builder.take())
        self._blocks.finish()
        data_bytes = self._output.offset
        dictionary = self._blocks.compressor.dictionary
        dictionary_handle = None if dictionary is None else self._write_block(0, dictionary)
        filter_handle, entries = self._write_filter()
        index = self._compressor.packed(BlockLoad([self._finish_index()]), self._dialect)
        index_handle = self._output.offset, index.sizes[0]
        self._output.write(index.written)
        native = self._dialect is NATIVE
        key_schema, value_schema, source, metadata = self._properties
        info = Info(
            path=self._path,
            dialect=self._dialect.name,
            order=self._order,
            num_records=self._num_records,
            file_bytes=0,
            data_blocks=sum(self._blocks.codecs.values()),
            data_bytes=data_bytes,
            plain_bytes=self._blocks.plain_bytes,
            codecs=self._blocks.codecs,
            filter_kind=self._dialect.filter_kind if filter_handle else "none",
            filter_bytes=filter_handle[1] if filter_handle else 0,
            filter_entries=entries or None,
            min_key=self._min_key,
            max_key=self._builder.last_key,
            key_schema=key_schema,
            value_schema=value_schema,
            source=source,
            writer=f"lookupstore {__version__}" if native else None,
            metadata=dict(metadata or {}),
        )
        properties_handle = None
        if native:
            block = BlockBuilder("bytes", False, MAX_BLOCK)
            for name, value in pack_properties(info).items():
                block.add(name, value)
            properties_handle = self._write_block(0, block.finish())
        footer = Footer(
            index_handle, filter_handle, entries, properties_handle, dictionary=dictionary_handle
        )
        self._output.write(pack_footer(self._dialect, footer))
        version = footer.native_version if native else None
        self._info = replace(info, file_bytes=self._output.offset, format_version=version)

    def _finish_index(self) -> bytes:
        index: bytes = self._index.finish()
        return index

    def _write_filter(self) -> tuple[tuple[int, int] | None, int]:
        """Write the filter; return its handle and, for Paimon files, its number of entries."""
        if self._filter is None:
            return None, 0
        entries = self._expected_entries or self._num_records
        if entries == 0:  # like the dynamic builder of Paimon: without records there is no filter
            return None, 0
        size = self._filter_size(entries)
        bits = self._filter.finish(size, entries)
        if self._dialect is NATIVE:
            return self._write_block(0, bits), 0
        handle = self._output.offset, size
        self._output.write(bits)
        return handle, entries

    def _start_filter(self) -> FilterBuilder:
        entries = self._expected_entries
        size = 0 if entries is None else self._filter_size(entries)
        return FilterBuilder(self._dialect.filter_kind, size, entries or 0)

    def _filter_size(self, entries: int) -> int:
        if self._dialect is NATIVE:
            return split_block_size(entries, self._bloom_fpp)
        size = paimon_size(entries, self._bloom_fpp)
        if size == 0:
            raise ValueError(
                f"a filter for {entries} entries at bloom_fpp={self._bloom_fpp} is larger than "
                "Paimon supports; raise bloom_fpp, or pass bloom_fpp=0 for none"
            )
        return size

    def abort(self) -> None:
        """Remove all that was written so far; the file of a closed writer is kept."""
        if self._process != os.getpid():
            return  # in a child of fork, the file belongs to the parent
        self._aborted = not self._finished
        self._blocks.stop()
        self._output.discard()
