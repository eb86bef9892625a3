"""Who is compared: lookupstore's file and its rivals, each used as its own users would use it best.

A contender builds its files in a folder and opens them; what it opens answers the verbs. A rival's
tuning was tried out on W1, and the comments give what was found. Every answer is compared with what
the workload says is stored, once before the clock starts: a wrong answer cannot win.

Here are the contenders whose keys are bytes; the topic of stores (`store.py`) has its own, which
are of the same family.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from workloads import Queries, Workload

import lookupstore
from lookupstore.sst import Reader, Writer
from lookupstore.sst.cache import BlockCache

#: All caches hold all blocks: every contender is timed with hot caches.
CACHE_BYTES = 4 << 30

#: Stands for the codec that somebody gets who names none.
DEFAULT_CODEC = "default"

#: Records that are compared at a time: more as Python bytes would need gigabytes.
COMPARED = 1 << 16


class Handle(ABC):
    """What a contender has opened, which answers the verbs that it takes part in.

    Attributes:
        get: returns the value or the row of one key, None if it is missing.
        ramp: calls after which answers come as fast as they will.
    """

    get: Callable[[Any], Any]
    ramp = 0

    def prepare(self, queries: Queries) -> Any:
        """Return the keys in the form that the library takes, before the clock starts."""
        return queries.listed

    @abstractmethod
    def lookup(self, keys: Any) -> Any:
        """Return one answer for each of the prepared keys, in the form that the library has."""

    def contains(self, keys: Any) -> Any:
        """Return for each key whether it is stored, as Arrow booleans."""
        raise NotImplementedError(f"nobody would ask {type(self).__name__} like that")

    def answers(self, answer: Any) -> pa.Array:
        """Return what `lookup` gave as a large_binary array with nulls."""
        return pa.array(answer, pa.large_binary())

    def scan(self) -> Iterable[Any]:
        """Iterate over all records, in the form that the library has."""
        raise NotImplementedError(f"nobody would scan {type(self).__name__}")

    def scanned(self) -> Iterator[tuple[pa.Array, pa.Array]]:
        """Yield all keys and values, some at a time, as large_binary arrays."""
        pairs = iter(self.scan())
        while some := list(islice(pairs, COMPARED)):
            keys, values = zip(*some, strict=True)
            yield pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary())


class Contender(ABC):
    """A contender, which stores a workload in a folder and opens it.

    Attributes:
        name: of the column in the tables.
        module: what has to be installed.
        codecs: compressions it can build with, of `none` and `zstd`; none of them without files.
    """

    name: str
    module: str
    codecs: tuple[str, ...] = ("none",)

    @property
    def usual_codec(self) -> str:
        """Return the compression of the files that are read."""
        return self.codecs[-1]

    @property
    def files(self) -> str:
        """Return a name for what `build` makes: contenders of one name can open each other's."""
        return self.name

    def lacks(self) -> str | None:
        """Return why it cannot run here, None if it can."""
        return "not installed" if find_spec(self.module) is None else None

    def prepare_build(self, workload: Workload) -> None:
        """Make what `build` takes, before the clock starts: records as Python bytes, for most."""
        _ = workload.listed

    @abstractmethod
    def build(self, folder: Path, workload: Workload, codec: str) -> object:
        """Store all records; return when they are on the disk, or in what is returned."""

    @abstractmethod
    def open(self, folder: Path, workload: Workload) -> AbstractContextManager[Handle]:
        """Return a context manager that gives the Handle of what was built in a folder."""

    def check(self, folder: Path, workload: Workload) -> None:
        """Compare all that was built in a folder with the workload, record for record."""
        with self.open(folder, workload) as handle:
            check_scan(handle, workload)


# ---- lookupstore --------------------------------------------------------------------------------


class LookupstoreHandle(Handle):
    ramp = 10

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.get = reader.get

    def prepare(self, queries: Queries) -> pa.Array:
        return queries.keys

    def lookup(self, keys: pa.Array) -> pa.Array:
        return self.reader.lookup(keys)

    def answers(self, answer: pa.Array) -> pa.Array:
        return answer

    def scan(self) -> Iterator[pa.RecordBatch]:
        return self.reader.scan()

    def scanned(self) -> Iterator[tuple[pa.Array, pa.Array]]:
        for batch in self.reader.scan():
            yield batch.column("key"), batch.column("value")


class TwoThreadsHandle(LookupstoreHandle):
    # With one call for each thread, the time of both is that of the one which the machine disturbs.
    CALLS = 8

    def __init__(self, reader: Reader, pool: ThreadPoolExecutor) -> None:
        super().__init__(reader)
        self.pool = pool

    def prepare(self, queries: Queries) -> list[pa.Array]:
        size = -(-len(queries) // self.CALLS)
        return [queries.keys.slice(start, size) for start in range(0, len(queries), size)]

    def lookup(self, keys: list[pa.Array]) -> list[pa.Array]:
        return list(self.pool.map(self.reader.lookup, keys))

    def answers(self, answer: list[pa.Array]) -> pa.Array:
        return pa.concat_arrays(answer)


class Lookupstore(Contender):
    """Our own file: Arrow in, Arrow out; default options but the codec.

    Args:
        name: of the column in the tables.
        cache_bytes: size of the reader's own cache; None is the cache that a reader has by default.
        options: further ones of the writer.
    """

    module = "lookupstore"
    codecs = ("none", "zstd")

    def __init__(
        self,
        name: str = "lookupstore",
        *,
        cache_bytes: int | None = CACHE_BYTES,
        **options: Any,
    ) -> None:
        self.name = name
        self.cache_bytes = cache_bytes
        self.options = options

    @property
    def usual_codec(self) -> str:
        return DEFAULT_CODEC

    @property
    def files(self) -> str:
        return " ".join(["lookupstore", *(f"{name}={self.options[name]}" for name in self.options)])

    def lacks(self) -> str | None:
        known = inspect.signature(Writer).parameters
        return None if all(name in known for name in self.options) else "not available"

    def build(self, folder: Path, workload: Workload, codec: str) -> None:
        options = self.options
        if codec != DEFAULT_CODEC:
            options = {"compression": codec, **options}
        with Writer(folder / "records.sst", **options) as writer:
            writer.put_many(workload.keys, workload.values)

    def cache(self) -> BlockCache[Any] | None:
        """Return a new cache for one reader, None for the one that all readers share."""
        return None if self.cache_bytes is None else BlockCache(self.cache_bytes)

    @contextmanager
    def open(self, folder: Path, workload: Workload) -> Iterator[Handle]:
        with Reader(folder / "records.sst", cache=self.cache()) as reader:
            yield LookupstoreHandle(reader)


class TwoThreads(Lookupstore):
    """Two threads over one reader of our file, which share the keys of a call."""

    @contextmanager
    def open(self, folder: Path, workload: Workload) -> Iterator[Handle]:
        with (
            Reader(folder / "records.sst", cache=self.cache()) as reader,
            ThreadPoolExecutor(2) as pool,
        ):
            yield TwoThreadsHandle(reader, pool)


class StoreHandle(Handle):
    def __init__(self, store: lookupstore.LookupStore) -> None:
        self.store = store
        self.get = store.get

    def lookup(self, keys: pa.Array) -> pa.Table:
        return self.store.lookup(keys)

    def contains(self, keys: pa.Array) -> pa.Array:
        return self.store.contains(keys)


class Store(Lookupstore):
    """Our own store of typed rows; keys are typed, too, and answers are tables of four columns."""

    @property
    def files(self) -> str:
        return "store"

    def build(self, folder: Path, workload: Workload, codec: str) -> None:
        lookupstore.build(workload.table, folder / "store", key="id", progress=False).close()

    @contextmanager
    def open(self, folder: Path, workload: Workload) -> Iterator[Handle]:
        with lookupstore.open(folder / "store", cache_bytes=self.cache_bytes) as store:
            yield StoreHandle(store)


# ---- embedded key-value stores -----------------------------------------------------------------


class RocksdictHandle(Handle):
    # RocksDB's MultiGet slows down with the length of its list: in calls of 100 keys misses are 5
    # and sorted keys 1.7 times as fast as in one call of 100,000, and random keys no slower.
    CALL = 100

    def __init__(self, database: Any) -> None:
        self.database = database
        self.get = database.get

    def lookup(self, keys: list[bytes]) -> list[bytes | None]:
        get = self.database.get
        answers: list[bytes | None] = []
        for start in range(0, len(keys), self.CALL):
            answers += get(keys[start : start + self.CALL])
        return answers

    def scan(self) -> Iterable[Any]:
        items: Iterable[Any] = self.database.items()
        return items


class Rocksdict(Contender):
    """RocksDB: raw mode, a Bloom filter of 10 bits per key, blocks of 4 KiB.

    Larger blocks or hashed block indexes gain nothing that stands out of the noise. A file that is
    written and ingested loads about twice as fast as WriteBatches, and stays one sorted file.
    """

    name = module = "rocksdict"
    codecs = ("none", "zstd")

    def options(self, codec: str) -> Any:
        import rocksdict

        blocks = rocksdict.BlockBasedOptions()
        blocks.set_bloom_filter(10, False)
        blocks.set_block_cache(rocksdict.Cache(CACHE_BYTES))
        options = rocksdict.Options(raw_mode=True)
        options.set_compression_type(getattr(rocksdict.DBCompressionType, codec)())
        options.set_block_based_table_factory(blocks)
        options.create_if_missing(True)
        return options

    def build(self, folder: Path, workload: Workload, codec: str) -> None:
        import rocksdict

        options = self.options(codec)
        writer = rocksdict.SstFileWriter(options)
        writer.open(str(folder / "ingest.sst"))
        for key, value in zip(*workload.listed, strict=True):
            writer[key] = value
        writer.finish()
        database = rocksdict.Rdict(str(folder / "rocksdb"), options)
        ingest = rocksdict.IngestExternalFileOptions()
        ingest.set_move_files(True)
        database.ingest_external_file([str(folder / "ingest.sst")], ingest)
        database.close()

    @contextmanager
    def open(self, folder: Path, workload: Workload) -> Iterator[Handle]:
        import rocksdict

        # The path of an existing database alone brings its options back without the cache: blocks
        # would be read again and again through RocksDB's default of 8 MB.
        options = self.options("zstd")
        database = rocksdict.Rdict(
            str(folder / "rocksdb"),
            options,
            column_families={"default": options},
            access_type=rocksdict.AccessType.read_only(),
        )
        try:
            yield RocksdictHandle(database)
        finally:
            database.close()


class LmdbHandle(Handle):
    def __init__(self, transaction: Any) -> None:
        self.transaction = transaction
        self.cursor = transaction.cursor()
        self.get = transaction.get

    def prepare(self, queries: Queries) -> tuple[Callable[[bytes], Any], list[bytes]]:
        # A cursor is the faster of the two where keys ascend, and only there.
        get = self.cursor.get if queries.ascending else self.transaction.get
        return get, queries.listed

    def lookup(self, keys: tuple[Callable[[bytes], Any], list[bytes]]) -> list[bytes | None]:
        # Cursor.getmulti gives pairs and leaves missing keys out; on hits it is 10 to 20 % slower
        # than this, on misses about as fast.
        get, listed = keys
        return [get(key) for key in listed]

    def scan(self) -> Iterable[Any]:
        cursor = self.transaction.cursor()
        cursor.first()
        pairs: Iterable[Any] = cursor.iternext()
        return pairs


class Lmdb(Contender):
    """LMDB: appending load, one read transaction without locks.

    A writable map loads as fast as a plain one.
    """

    name = module = "lmdb"

    def build(self, folder: Path, workload: Workload, codec: str) -> None:
        import lmdb

        with lmdb.open(str(folder / "lmdb"), map_size=64 << 30) as environment:
            with environment.begin(write=True) as transaction:
                pairs = zip(*workload.listed, strict=True)
                transaction.cursor().putmulti(pairs, dupdata=False, append=True)
            environment.sync(True)

    @contextmanager
    def open(self, folder: Path, workload: Workload) -> Iterator[Handle]:
        import lmdb

        path = str(folder / "lmdb")
        with (
            lmdb.open(path, map_size=64 << 30, readonly=True, lock=False) as environment,
            environment.begin() as transaction,
        ):
            yield LmdbHandle(transaction)


class PlyvelHandle(Handle):
    def __init__(self, database: Any) -> None:
        self.database = database
        self.get = database.get

    def lookup(self, keys: list[bytes]) -> list[bytes | None]:
        get = self.database.get
        return [get(key) for key in keys]

    def scan(self) -> Iterable[Any]:
        pairs: Iterable[Any] = self.database.iterator()
        return pairs


class Plyvel(Contender):
    """LevelDB: batches of 50,000 records, a Bloom filter of 10 bits per key, compacted once."""

    name = module = "plyvel"
    BATCH = 50_000

    def connect(self, folder: Path) -> Any:
        import plyvel

        return plyvel.DB(
            str(folder / "leveldb"),
            create_if_missing=True,
            compression=None,
            bloom_filter_bits=10,
            write_buffer_size=64 << 20,
            lru_cache_size=CACHE_BYTES,
        )

    def build(self, folder: Path, workload: Workload, codec: str) -> None:
        keys, values = workload.listed
        database = self.connect(folder)
        for start in range(0, len(keys), self.BATCH):
            end = start + self.BATCH
            # The last batch is synced, and the log with all batches before it.
            with database.write_batch(sync=end >= len(keys)) as batch:
                put = batch.put
                for key, value in zip(keys[start:end], values[start:end], strict=True):
                    put(key, value)
        database.compact_range()
        database.close()

    @contextmanager
    def open(self, folder: Path, workload: Workload) -> Iterator[Handle]:
        database = self.connect(folder)
        try:
            yield PlyvelHandle(database)
        finally:
            database.close()


# ---- in memory: what a lookup costs without a file -----------------------------------------------


class InMemory(Contender):
    """A contender that keeps everything in the process."""

    codecs = ()

    @property
    def usual_codec(self) -> str:
        return "none"

    @abstractmethod
    def load(self, workload: Workload) -> Handle:
        """Return the Handle of all records."""

    def build(self, folder: Path, workload: Workload, codec: str) -> Handle:
        return self.load(workload)

    @contextmanager
    def open(self, folder: Path, workload: Workload) -> Iterator[Handle]:
        yield self.load(workload)


class DictHandle(Handle):
    def __init__(self, records: dict[bytes, bytes]) -> None:
        self.records = records
        self.get = records.get

    def lookup(self, keys: list[bytes]) -> list[bytes | None]:
        get = self.records.get
        return [get(key) for key in keys]

    def scan(self) -> Iterable[Any]:
        return self.records.items()


class Dict(InMemory):
    """A Python dict of bytes."""

    name = "dict"
    module = "builtins"

    def load(self, workload: Workload) -> Handle:
        return DictHandle(dict(zip(*workload.listed, strict=True)))


class ManyOnlyHandle(Handle):
    """A handle that finds rows by position, then takes their values."""

    def __init__(self, workload: Workload) -> None:
        width = workload.values.type.byte_width
        self.values = np.frombuffer(workload.values.buffers()[1], f"V{width}")

    def answers(self, answer: tuple[Any, Any]) -> pa.Array:
        values, found = answer
        pairs = zip(values, found, strict=True)
        return pa.array([bytes(value) if hit else None for value, hit in pairs], pa.large_binary())


class NumpyHandle(ManyOnlyHandle):
    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self.keys = self.native(workload.keys)

    @staticmethod
    def native(keys: pa.Array) -> Any:
        if pa.types.is_fixed_size_binary(keys.type):
            return np.array(np.frombuffer(keys.buffers()[1], ">i8", len(keys)), np.int64)
        return np.array(keys.to_pylist(), np.bytes_)

    def prepare(self, queries: Queries) -> Any:
        return self.native(queries.keys)

    def lookup(self, keys: Any) -> tuple[Any, Any]:
        rows = np.searchsorted(self.keys, keys)
        rows[rows == len(self.keys)] = 0
        return self.values[rows], self.keys[rows] == keys


class Numpy(InMemory):
    """numpy.searchsorted in the sorted keys: int64, or bytes of fixed width."""

    name = module = "numpy"

    def load(self, workload: Workload) -> Handle:
        return NumpyHandle(workload)


class CopyHandle(ManyOnlyHandle):
    def __init__(self, workload: Workload, threads: int) -> None:
        super().__init__(workload)
        self.keys = NumpyHandle.native(workload.keys)
        # As plain numbers, of which NumPy copies rows without Python's lock.
        self.bytes = self.values.view(np.uint8).reshape(len(self.values), -1)
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def prepare(self, queries: Queries) -> list[tuple[Any, Any]]:
        keys = NumpyHandle.native(queries.keys)
        rows = np.searchsorted(self.keys, keys)
        assert (self.keys[rows] == keys).all()
        parts = np.array_split(rows, TwoThreadsHandle.CALLS if self.pool else 1)
        return [(part, np.empty((len(part), self.bytes.shape[1]), np.uint8)) for part in parts]

    def lookup(self, keys: list[tuple[Any, Any]]) -> list[Any]:
        return list((self.pool.map if self.pool else map)(self.copied, keys))

    def copied(self, part: tuple[Any, Any]) -> Any:
        rows, room = part
        return np.take(self.bytes, rows, axis=0, out=room, mode="clip")

    def answers(self, answer: list[Any]) -> pa.Array:
        values = np.concatenate(answer).view(self.values.dtype).ravel()
        return super().answers((values, np.ones(len(values), bool)))


class Copy(InMemory):
    """The values of keys whose rows are known before the clock starts: what memory gives.

    Args:
        name: of the column in the tables.
        threads: how many copy, without Python's lock.
    """

    module = "numpy"

    def __init__(self, name: str, threads: int) -> None:
        self.name = name
        self.threads = threads

    def load(self, workload: Workload) -> Handle:
        return CopyHandle(workload, self.threads)


class PandasHandle(ManyOnlyHandle):
    def __init__(self, workload: Workload) -> None:
        import pandas as pd

        super().__init__(workload)
        self.index = pd.Index(self.native(workload.keys))
        self.index.get_indexer(self.index[:1])  # makes the hash table

    @staticmethod
    def native(keys: pa.Array) -> Any:
        if pa.types.is_fixed_size_binary(keys.type):
            return NumpyHandle.native(keys)
        return np.array(keys.cast(pa.string()).to_pylist(), object)

    def prepare(self, queries: Queries) -> Any:
        return self.native(queries.keys)

    def lookup(self, keys: Any) -> tuple[Any, Any]:
        rows = self.index.get_indexer(keys)
        return self.values[rows], rows >= 0


class Pandas(InMemory):
    """The hash index of pandas: int64, or str objects."""

    name = module = "pandas"

    def load(self, workload: Workload) -> Handle:
        return PandasHandle(workload)


def check_scan(handle: Handle, workload: Workload) -> None:
    """Compare a scan with the workload, record for record."""
    row = 0
    for keys, values in handle.scanned():
        for found, stored in ((keys, workload.keys), (values, workload.values)):
            # Not the other way: of a fixed_size_binary slice, Arrow would cast the whole parent.
            assert found.cast(stored.type).equals(stored.slice(row, len(found)))
        row += len(keys)
    assert row == len(workload)


def check_rows(handle: Handle, keys: pa.Array, expected: pa.Table) -> None:
    """Compare the rows at typed keys with those that are there."""
    found = handle.lookup(keys)
    assert found.column_names == expected.column_names
    assert found.cast(expected.schema).equals(expected)


def bytes_in(folder: Path) -> int:
    """Return the disk space of all files: LMDB's is a large map that is mostly holes."""
    return sum(512 * path.stat().st_blocks for path in folder.rglob("*") if path.is_file())
