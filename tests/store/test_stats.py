"""`stats()`: what the lookups of a store, of files or of a table have done, for metrics."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.object_store import ObjectStore, object_store
from support.samples import seed_of_the_day

import lookupstore
from lookupstore import ColumnarFiles, LookupStore
from lookupstore.hostcache.cache import Residency

ROWS = 20_000
TABLE = pa.table({"id": pa.array(range(0, 2 * ROWS, 2)), "name": [f"n{i}" for i in range(ROWS)]})


def asked(store: Any) -> tuple[int, int]:
    stats = store.stats()
    return stats["keys"], stats["misses"]


def ways(store: LookupStore) -> dict[str, Callable[[list[int | None]], object]]:
    """Return all ways to look keys up."""
    return {
        "lookup": store.lookup,
        "array": lambda keys: store.lookup(pa.array(keys, pa.int64())),
        "found": lambda keys: store.lookup(keys, found=True),
        "nothing": lambda keys: store.lookup(keys, columns=[]),
        "contains": store.contains,
        "get": lambda keys: [store.get(key) for key in keys],
        "in": lambda keys: [key in store for key in keys],
        "columns": lambda keys: [store.get(key, columns=["name"]) for key in keys],
        "map": lambda keys: store.map(keys, "name"),
        "join": lambda keys: store.join(pa.table({"k": pa.array(keys, pa.int64())}), {"k": "id"}),
        "semi": lambda keys: store.join(
            pa.table({"k": pa.array(keys, pa.int64())}), {"k": "id"}, "semi"
        ),
    }


@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize("runs", [False, True])
def test_keys_and_misses_by_every_way(tmp_path: Path, buckets: int, runs: bool) -> None:
    """The oracle is a set of the keys."""
    draw = random.Random(seed_of_the_day())
    store = lookupstore.build(TABLE, tmp_path / "s", key="id", buckets=buckets)
    stored = set(TABLE["id"].to_pylist())
    if runs:
        store = store.upsert(pa.table({"id": [1], "name": ["new"]}), deletes=[0], max_run_share=9)
        stored = stored - {0} | {1}
    keys_now = misses_now = 0
    for name, look in ways(store).items():
        for size in (0, 1, 3, 200, 10_000):
            keys = draw.choices(range(-5, 2 * ROWS + 5), k=size)
            if name not in ("get", "in", "columns"):
                keys = [None if key % 7 == 0 else key for key in keys]  # type: ignore[misc]
            look(keys)  # type: ignore[arg-type]
            keys_now += size
            misses_now += sum(key not in stored for key in keys)
            assert asked(store) == (keys_now, misses_now), (name, size)


def test_no_key_of_threads_is_lost(tmp_path: Path) -> None:
    store = lookupstore.build(TABLE, tmp_path / "s", key="id")

    def look() -> None:
        for key in range(5000):
            store.get(key)
            if key % 100 == 0:
                store.lookup([key, key + 1])

    threads = [threading.Thread(target=look) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert asked(store) == (8 * 5100, 8 * 2550)


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_blocks_are_counted_with_their_sizes(tmp_path: Path, compression: str | None) -> None:
    store = lookupstore.build(TABLE, tmp_path / "s", key="id", compression=compression)
    assert set(store.stats().values()) == {0}
    store.lookup([2, 2, 2])
    one = store.stats()
    assert one["blocks_read"] == 1
    assert 100 < one["bytes_read"] <= store.info().bytes
    store.lookup([2])
    assert store.stats()["blocks_read"] == 1
    store.lookup(TABLE["id"])
    every = store.stats()
    assert every["blocks_read"] > one["blocks_read"]
    assert every["bytes_read"] <= store.info().bytes
    if compression is None:
        # All but the index, the filter and the ends of the blocks.
        assert every["bytes_read"] > 0.8 * store.info().bytes
    assert [every[name] for name in ("bytes_fetched", "range_requests", "retries")] == [0, 0, 0]
    store.close()
    assert store.stats() == every


def test_a_batch_of_missing_keys_reads_nothing(tmp_path: Path) -> None:
    store = lookupstore.build(TABLE, tmp_path / "s", key="id")
    store.lookup(list(range(1, 2000, 2)))
    stats = store.stats()
    assert stats["misses"] == stats["keys"] == 1000
    assert stats["filter_negatives"] >= 980


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with object_store(tmp_path_factory.mktemp("buckets")) as server:
        yield server


def test_bytes_of_an_object_store(tmp_path: Path, server: ObjectStore) -> None:
    lookupstore.build(TABLE, server.folder / "s", key="id", buckets=2).close()
    residency = Residency(tmp_path / "cache")
    store = LookupStore(server.uri("s"), residency=residency)
    store.lookup([2, 5])
    fetched = store.stats()
    assert asked(store) == (2, 1)
    assert 0 < fetched["bytes_fetched"] <= store.info().bytes
    assert fetched["range_requests"] > 0
    store.lookup(TABLE["id"])
    assert store.stats()["bytes_fetched"] > fetched["bytes_fetched"]


def test_files_count_after_they_were_released(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "rows.parquet")
    residency = Residency(tmp_path / "cache")
    files = ColumnarFiles(tmp_path / "rows.parquet", key="id", residency=residency, build="always")
    files.lookup([2, 3, None])
    files.contains([4, 5])
    files.get(6)
    assert asked(files) == (6, 3)
    before = files.stats()
    assert before["blocks_read"] > 0
    files.close()
    assert files.stats() == before
    files.lookup([2])
    assert files.stats()["blocks_read"] > before["blocks_read"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_continues_the_counts_of_its_parent(tmp_path: Path) -> None:
    with lookupstore.build({"id": [1], "v": ["a"]}, tmp_path / "s", key="id") as store:
        store.lookup([1, 2])
        received, sent = os.pipe()
        child = os.fork()
        if not child:
            try:
                store.get(1)
                os.write(sent, f"{asked(store)}".encode())
            finally:
                os._exit(0)
        os.close(sent)
        os.waitpid(child, 0)
        with open(received) as said:
            assert said.read() == "(3, 1)"
        assert asked(store) == (2, 1)
