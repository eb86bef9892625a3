"""Stores of one bucket and of many answer the same, by one road; the model is a dict."""

from __future__ import annotations

import gc
import math
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from support.remote import Remote

import lookupstore
from lookupstore import ClosedError, CorruptionError, LookupStore
from lookupstore.hostcache.cache import Residency
from lookupstore.hostcache.copy import LocalCopy
from lookupstore.sst._map import maps_open
from lookupstore.store.local_files import files_of
from lookupstore.store.version_files import read_newest

BUCKETS = (1, 3, 8, 64)
ROWS = 20_000
KEEP: dict[str, Any] = {"max_runs": 64, "max_run_share": math.inf}
KINDS = ("int64", "string")

Model = dict[int, int]


@pytest.fixture(autouse=True)
def own_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a test from finding the local copies of another one."""
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "copies-of-this-test"))


def keys_of(numbers: list[int | None], kind: str) -> pa.Array:
    if kind == "int64":
        return pa.array(numbers, pa.int64())
    return pa.array([None if n is None else f"key-{n}" for n in numbers], pa.string())


def rows_of(model: Model, kind: str) -> pa.Table:
    return pa.table({"id": keys_of([*model], kind), "n": pa.array([*model.values()], pa.int64())})


def build(place: Any, kind: str = "int64", **options: Any) -> tuple[LookupStore, Model]:
    """Build a store of even numbers, and return it with what it holds."""
    model = {2 * i: i for i in range(ROWS)}
    return lookupstore.build(rows_of(model, kind), place, key="id", **options), model


def asked_of(rng: random.Random, count: int) -> list[int | None]:
    """Return numbers, some of which are missing, repeated or null."""
    return [None if rng.random() < 0.02 else rng.randrange(2 * ROWS + 99) for _ in range(count)]


def check(store: LookupStore, model: Model, rng: random.Random, kind: str = "int64") -> None:
    """Ask for few and many keys, in calls in which most are there, and in which few are."""
    for count in (0, 1, 63, 65, 1000, 5000):
        numbers = asked_of(rng, count)
        if rng.random() < 0.5:  # so that filters are asked after they have not been, and back
            numbers.sort(key=lambda n: n is None or n not in model)
        keys = keys_of(numbers, kind)
        expected = [None if n is None else model.get(n) for n in numbers]
        assert store.lookup(keys)["n"].to_pylist() == expected
        found = store.lookup(keys, found=True)
        assert found["n"].to_pylist() == expected
        assert found["found"].to_pylist() == [value is not None for value in expected]
        assert store.contains(keys).to_pylist() == [value is not None for value in expected]


@pytest.mark.few(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("buckets", BUCKETS)
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_files_of_a_local_store(
    tmp_path: Path, kind: str, buckets: int, compression: str, seed: int
) -> None:
    """Compressed blocks do not fit into the cache, and come and go while a call goes on."""
    rng = random.Random(seed)
    options = {"buckets": buckets, "compression": compression, "block_size": 2000}
    store, model = build(tmp_path / "store", kind, **options)
    with store, lookupstore.open(tmp_path / "store", cache_bytes=100_000) as small:
        check(store, model, rng, kind)
        check(small, model, rng, kind)


@pytest.mark.few(2)
@pytest.mark.parametrize("buckets", BUCKETS)
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_runs_of_changes_in_some_buckets(
    tmp_path: Path, buckets: int, compression: str, seed: int
) -> None:
    """Buckets have no run, or some, or nothing but runs: each key is asked of those of its own."""
    rng = random.Random(seed)
    store, model = build(tmp_path / "store", buckets=buckets, compression=compression)
    for run in range(5):
        # The first run is in one bucket, so that buckets differ in their runs whatever is drawn.
        some = rng.sample(range(2 * ROWS), rng.choice([1, 4, 300]) if run else 1)
        gone = [n for n in rng.sample(range(2 * ROWS), 20 if run else 0) if n not in some]
        changes = {n: run * 1_000_000 + n for n in some}
        store = store.upsert(rows_of(changes, "int64"), deletes=keys_of([*gone], "int64"), **KEEP)
        model |= changes
        for n in gone:
            model.pop(n, None)
        check(store, model, rng)
    assert buckets < 8 or len({len(runs) for runs in files_of(store).layers.values()}) > 1
    for _ in range(30):  # until filters above the runs have been made
        check(store, model, rng)
    store.close()


@pytest.mark.parametrize("buckets", BUCKETS)
def test_buckets_without_a_file_or_a_base(tmp_path: Path, buckets: int, seed: int) -> None:
    rng = random.Random(seed)
    empty = rows_of({}, "int64")
    with lookupstore.build(empty, tmp_path / "store", key="id", buckets=buckets) as store:
        check(store, {}, rng)
        model: Model = {n: n + 1 for n in rng.sample(range(2 * ROWS), 3)}
        with store.upsert(rows_of(model, "int64"), **KEEP) as one:
            check(one, model, rng)
            assert all(files_of(one).layers[bucket][-1] != bucket for bucket in files_of(one))
            more = {n: n + 2 for n in rng.sample(range(2 * ROWS), 40) if n not in model}
            with one.upsert(rows_of(more, "int64"), deletes=pa.array([*model]), **KEEP) as two:
                check(two, more, rng)


@pytest.fixture
def slow_copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep copies from coming by themselves: blocks come when they are asked for."""
    with monkeypatch.context() as patch:
        patch.setattr(LocalCopy, "download", lambda copy: None)
        yield


@pytest.mark.parametrize("buckets", BUCKETS)
def test_copies_that_are_coming(tmp_path: Path, slow_copies: None, buckets: int, seed: int) -> None:
    rng = random.Random(seed)
    remote = Remote(tmp_path, "s3")
    store, model = build(remote.location(), buckets=buckets, compression="none")
    store.close()
    residency = Residency(tmp_path / "copies", quota=100 << 20)
    with LookupStore(remote.location(), residency=residency) as store:
        first = keys_of([0], "int64")
        assert store.lookup(first)["n"].to_pylist() == [0]
        assert len(files_of(store).asked) == 1
        check(store, model, rng)
        assert len(files_of(store).asked) == buckets


@pytest.mark.parametrize("buckets", BUCKETS)
def test_copies_of_which_some_are_here(tmp_path: Path, buckets: int, seed: int) -> None:
    rng = random.Random(seed)
    remote = Remote(tmp_path, "s3")
    store, model = build(remote.location(), buckets=buckets)
    store.close()
    residency = Residency(tmp_path / "copies", quota=100 << 20)
    with LookupStore(remote.location(), residency=residency) as store:
        files = files_of(store)
        for bucket in rng.sample(range(buckets), (buckets + 1) // 2):
            copy = files.ready(bucket).copy
            assert copy is not None
            copy.wait()
        cold = files.cold(range(buckets))
        assert len(cold) == buckets - (buckets + 1) // 2
        check(store, model, rng)
        for bucket in range(buckets):
            copy = files.ready(bucket).copy
            assert copy is not None
            copy.wait()
        assert files.cold(range(buckets)) == []
        check(store, model, rng)


@pytest.mark.parametrize("buckets", BUCKETS)
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_the_file_that_is_damaged_is_named(
    tmp_path: Path, buckets: int, compression: str, seed: int
) -> None:
    rng = random.Random(seed)
    store, model = build(tmp_path / "store", buckets=buckets, compression=compression)
    store.close()
    file = rng.choice(read_newest(store._location).files)
    path = tmp_path / "store" / file.name
    content = bytearray(path.read_bytes())
    content[rng.randrange(100)] ^= 1
    path.write_bytes(content)
    with lookupstore.open(tmp_path / "store") as damaged:
        keys = keys_of(rng.sample([*model], len(model)), "int64")
        for ask in (damaged.lookup, damaged.contains):
            with pytest.raises(CorruptionError, match=path.name) as caught:
                ask(keys)
            assert caught.value.path == str(path)
        if buckets == 1:
            return
        encoded = damaged.key_schema.encode_one
        some = rng.sample([*model], 3000)
        others = [n for n in some if bucket_of(encoded(n), buckets) != file.bucket]
        expected = [model[n] for n in others]
        assert damaged.lookup(keys_of([*others], "int64"))["n"].to_pylist() == expected


def bucket_of(key: bytes | None, buckets: int) -> int:
    assert key is not None
    return xxhash.xxh64_intdigest(key) % buckets


@pytest.mark.parametrize("buckets", BUCKETS)
def test_threads_share_a_store(tmp_path: Path, buckets: int, seed: int) -> None:
    options = {"buckets": buckets, "compression": "zstd", "block_size": 2000}
    store, model = build(tmp_path / "store", **options)
    store = store.upsert(rows_of({1: 5, 3: 7}, "int64"), **KEEP)
    model |= {1: 5, 3: 7}
    store.close()
    with (
        lookupstore.open(tmp_path / "store", cache_bytes=200_000) as shared,
        ThreadPoolExecutor(4) as pool,
    ):
        checks = [pool.submit(check, shared, model, random.Random(seed + i)) for i in range(8)]
        for one in checks:
            one.result()


@pytest.mark.parametrize("buckets", BUCKETS)
def test_a_closed_store(tmp_path: Path, buckets: int) -> None:
    store, model = build(tmp_path / "store", buckets=buckets)
    many = keys_of([*model], "int64")
    assert store.contains(many).true_count == len(model)
    store.close()
    for keys in (many, many.slice(0, 3)):
        for ask in (store.lookup, store.contains):
            with pytest.raises(ClosedError):
                ask(keys)
    buckets_of_store = store._buckets
    with pytest.raises(ClosedError):
        buckets_of_store.contains(pa.array([bytes(8)]))


@pytest.mark.parametrize("buckets", BUCKETS)
def test_what_lookups_read_is_counted(tmp_path: Path, buckets: int, seed: int) -> None:
    rng = random.Random(seed)
    store, model = build(tmp_path / "store", buckets=buckets)
    with store:
        there = rng.sample([*model], 3000)
        store.contains(keys_of([*there], "int64"))
        assert files_of(store).counts().block_uses == 3000
        missing = [n + 1 for n in there]
        before = files_of(store).counts()
        store.contains(keys_of([*missing], "int64"))
        counts = files_of(store).counts() - before
        # Keys beyond the last one of their file use no block.
        assert 2900 < counts.filter_negatives + counts.block_uses <= 3000
        assert counts.filter_negatives > 2700


def test_files_do_not_outlive_a_store(tmp_path: Path) -> None:
    """Its open files, together, are in no cycle."""
    gc.collect()
    gc.disable()
    try:
        before = maps_open()
        store, model = build(tmp_path / "store", buckets=8)
        store = store.upsert(rows_of({1: 5}, "int64"), **KEEP)
        assert store.contains(keys_of([*model], "int64")).true_count == len(model)
        assert maps_open() > before
        store.close()
        del store
        assert maps_open() == before
    finally:
        gc.enable()


def test_numbers_of_buckets_that_are_no_powers_of_two(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for buckets in rng.choice(range(2, 100), 6, replace=False).tolist():
        store, model = build(tmp_path / f"store-{buckets}", buckets=buckets)
        with store:
            check(store, model, random.Random(seed))
