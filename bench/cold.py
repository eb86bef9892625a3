"""A store at a URI of which nothing is on this host: what its first keys fetch, and how long.

first answer   requests that wait for the answer of another, from `open` to the first row
GETs, bytes    of data files for a key, once it is open: random keys, one by one, and missing ones
1,000 keys     random ones in one call, once it is open; the rival reads their blocks, 64 at a time
hot            calls of 10,000 keys when all of it is here, beside the same store in a folder

The server is on this machine, and its answers are late. What is counted is counted there.
README.md says how to read it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from bars import OURS, Bar, Measurement, Subject
from harness import Run, add_json_lines, clocked, command_line, in_turns

import lookupstore
from lookupstore.hostcache.cache import Residency
from lookupstore.sst import Reader
from lookupstore.storage.location import Location
from lookupstore.store.local_files import files_of
from lookupstore.store.store import LookupStore

# The S3 servers that the tests use, too.
sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.object_store import (
    BUCKET,
    FOR_WRITES,
    KEY,
    SECRET,
    Proxy,
    has_server,
    object_store,
)
from support.quick_store import QuickStore, is_part, quick_store

ROWS = "store"
SINGLE, MISSING, RAW, FOLDER = "one by one", "missing", "64 at a time", "in a folder"
BATCH = 1000
HOT = 10_000
#: Requests that the rival has on their way.
AT_ONCE = 64

BARS = (
    Bar("first answer", ROWS, "first answer", OURS, 3, at_most=True),
    Bar("GETs of a key", ROWS, "GETs", SINGLE, 1.05, at_most=True),
    Bar("KiB of a key", ROWS, "bytes", SINGLE, 8, at_most=True),
    # As many as its filter lets pass.
    Bar("GETs of a missing key", ROWS, "GETs", MISSING, 0.0075, at_most=True),
    Bar("1,000 keys / 64 at a time", ROWS, "1,000 keys", OURS, 1.5, RAW, at_most=True),
    Bar("hot / in a folder", ROWS, "hot", OURS, 0.9, FOLDER),
)


def table_of(records: int) -> pa.Table:
    """Return rows under random keys, half of all keys up to twice as many."""
    rng = np.random.default_rng(41)
    texts = pa.array([f"name {i}" for i in range(1000)])
    return pa.table(
        {
            "id": rng.permutation(2 * records)[:records].astype(np.int64),
            "a": rng.integers(0, 1 << 40, records),
            "b": rng.random(records),
            "c": texts.take(pa.array(np.arange(records) % 1000)),
        }
    )


class Bench:
    """A store at a URI, and what is asked of it.

    Args:
        table: its rows.
        quick: its server.
        folder: for copies.
        block_size: of its files.
    """

    def __init__(self, table: pa.Table, quick: QuickStore, folder: Path, block_size: int) -> None:
        self.table, self.quick, self.folder = table, quick, folder
        self.block_size = block_size
        self.rng = np.random.default_rng(42)
        self.uri = quick.store.uri("store")
        self._copies = 0

    def keys(self, count: int) -> list[int]:
        """Return keys that are stored."""
        places = self.rng.integers(0, len(self.table), count)
        return self.table["id"].take(pa.array(places)).to_pylist()

    def missing(self, count: int) -> list[int]:
        """Return keys that are not stored, between others."""
        absent = np.setdiff1d(np.arange(2 * len(self.table)), self.table["id"].to_numpy())
        return self.rng.choice(absent, count).tolist()

    @contextmanager
    def opened(self) -> Iterator[LookupStore]:
        """Open the store on what is a new host."""
        self._copies += 1
        residency = Residency(self.folder / f"copies-{self._copies}", quota="100GB")
        with LookupStore(Location(self.uri), residency=residency) as store:
            yield store

    def first_answer(self) -> int:
        """Return the trips to the first answer."""
        (key,) = self.keys(1)
        self.quick.asked()
        with self.opened() as store:
            assert store.get(key) is not None
            return self.quick.trips(self.quick.asked())

    def fetched(self, keys: Sequence[int], found: bool) -> tuple[float, float]:
        """Return the GETs and KiB of a key, one after the other, once the store is open."""
        with self.opened() as store:
            assert store.get(self.keys(1)[0]) is not None
            self.quick.asked()
            for key in keys:
                assert (store.get(key) is not None) == found
            parts = [request for request, _ in self.quick.asked() if is_part(request)]
        size = sum(request.size for request in parts)
        return len(parts) / len(keys), size / 1024 / len(keys)

    def batch(self) -> float:
        """Return the seconds of a call of many keys, once the store is open."""
        keys = self.keys(BATCH)
        with self.opened() as store:
            assert store.get(keys[0]) is not None
            start = time.perf_counter()
            assert store.contains(keys).true_count == len(keys)
            return time.perf_counter() - start

    def raw(self) -> Callable[[], float]:
        """Return what reads the blocks of as many keys by requests of their own."""
        import obstore
        from obstore.store import S3Store

        (path,) = (self.quick.store.folder / "store" / "data").glob("*.sst")
        name = path.relative_to(self.quick.store.folder).as_posix()
        with lookupstore.open(path.parents[1]) as store, Reader(path) as reader:
            encode = store.key_schema.encode_one
            numbers = {reader._index.lower_bound(encode(key)) for key in self.keys(BATCH)}
            handles = [reader._handles[number] for number in sorted(numbers)]
        client = S3Store(
            BUCKET,
            access_key_id=KEY,
            secret_access_key=SECRET,
            region="us-east-1",
            endpoint=f"http://{self.quick.store.address}",
            client_options={"allow_http": True},
        )
        pool = ThreadPoolExecutor(AT_ONCE)

        def read(handle: tuple[int, int]) -> int:
            return len(obstore.get_range(client, name, start=handle[0], length=handle[1]))

        return clocked(lambda: sum(pool.map(read, handles)))


def hot(store: Any, keys: Sequence[Any]) -> Callable[[], float]:
    """Return a round of calls."""

    def run() -> None:
        for some in keys:
            store.lookup(some)

    return clocked(run, run)


def measure(bench: Bench, run: Run, queries: int, rounds: int) -> None:
    """Measure everything."""
    trips = tuple(bench.first_answer() for _ in range(rounds))
    run.add(Measurement(Subject(ROWS, "first answer", OURS), trips))
    for name, keys in ((SINGLE, bench.keys(queries)), (MISSING, bench.missing(100 * queries))):
        gets, size = bench.fetched(keys, name == SINGLE)
        run.add(Measurement(Subject(ROWS, "GETs", name), (gets,)))
        run.add(Measurement(Subject(ROWS, "bytes", name), (size,)))
    turns = {OURS: bench.batch, RAW: bench.raw()}
    for name, found in in_turns(turns, rounds, uncounted=1).items():
        run.add(Measurement(Subject(ROWS, "1,000 keys", name), found))
    local = bench.folder / "in-a-folder"
    keys = [pa.array(bench.keys(HOT)) for _ in range(10)]
    size = bench.block_size
    with (
        bench.opened() as store,
        lookupstore.build(bench.table, local, key="id", block_size=size) as here,
    ):
        bring(store)
        turns = {OURS: hot(store, keys), FOLDER: hot(here, keys)}
        for name, found in in_turns(turns, rounds, uncounted=1, to_and_fro=True).items():
            run.add(Measurement(Subject(ROWS, "hot", name), found, 10 * HOT))


def bring(store: LookupStore) -> None:
    """Ask for all of a store until this host has all of it, decompressed."""
    until = time.monotonic() + 120
    files: Any = files_of(store)
    while not all(
        files.ready(number).recoded for layers in files.layers.values() for number in layers
    ):
        assert time.monotonic() < until
        assert store.scan().read_all().num_rows == len(store)
        time.sleep(0.1)


def main(given: Sequence[str] | None = None) -> None:
    """Count and time what a store at a URI fetches, and print how it meets the bars."""
    parser = command_line("make bench-cold", __doc__, records=2_000_000, queries=500, rounds=5)
    parser.add_argument("--delay", type=float, default=0.03, help="of answers (%(default)s s)")
    parser.add_argument("--block-size", type=int, default=4096, help="of files (%(default)s)")
    add_json_lines(parser, "bench-cold.jsonl")
    asked = parser.parse_args(given)
    if not has_server():
        print("rclone is not installed")
        return
    names = ("records", "queries", "rounds", "delay", "block_size")
    run = Run({name: getattr(asked, name) for name in names})
    table = table_of(asked.records)
    os.environ.update(FOR_WRITES)
    with TemporaryDirectory(prefix="bench-cold-") as path:
        folder = Path(path)
        with object_store(folder / "s3") as server, closing(Proxy(server)) as proxy:
            lookupstore.build(
                table, proxy.store.uri("store"), key="id", block_size=asked.block_size
            ).close()
        with quick_store(folder / "s3", asked.delay) as quick:
            measure(Bench(table, quick, folder, asked.block_size), run, asked.queries, asked.rounds)
        run.judge(BARS, {})
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
