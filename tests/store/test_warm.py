"""`LookupStore.warm`: the lookups after it read no block, and answer as they did."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from support.remote import Remote

import lookupstore
from lookupstore import LookupStore
from lookupstore.errors import ClosedError, CorruptionError
from lookupstore.hostcache.cache import Residency
from lookupstore.sst import reader as readers
from lookupstore.sst import warming
from lookupstore.sst.cache import BlockCache
from lookupstore.sst.reader import lookup_of, reads_of

ROWS = 20_000
KEYS = pa.array(range(2 * ROWS))
VALUES = {key: f"value {key}" for key in range(0, 2 * ROWS, 2)}


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "_STEP", 1 << 10)
    monkeypatch.setattr(warming, "_ADDED", 500)


def table(keys: list[int]) -> pa.Table:
    return pa.table({"id": pa.array(keys, pa.int64()), "v": [VALUES[key] for key in keys]})


def build(path: object, **options: object) -> LookupStore:
    keys = random.Random(5).sample(sorted(VALUES), ROWS)
    return lookupstore.build(table(keys), path, key="id", **options)  # type: ignore[arg-type]


def blocks_read(store: LookupStore) -> int:
    files = store._files
    return sum(
        files.with_reader(number, lambda reader: reads_of(reader).blocks_read)
        for bucket in files
        for number in files.layers[bucket]
    )


def check(store: LookupStore) -> None:
    assert store.lookup(KEYS)["v"].to_pylist() == [VALUES.get(key) for key in range(2 * ROWS)]


@pytest.mark.parametrize("buckets", [1, 3])
def test_lookups_find_all_blocks_ready(buckets: int, tmp_path: Path) -> None:
    build(tmp_path / "s", buckets=buckets).close()
    with lookupstore.open(tmp_path / "s") as store:
        assert store.warm()
        files = store._files
        for bucket in files:
            table = files.with_reader(bucket, lambda reader: lookup_of(reader).data.table)
            assert table.places is not None
        read = blocks_read(store)
        assert read > 20
        check(store)
        assert [store.get(key) for key in (0, 1, 8)] == [{"v": VALUES[0]}, None, {"v": VALUES[8]}]
        assert store.warm()
        assert blocks_read(store) == read


def test_runs_of_changes_are_warm_too(tmp_path: Path) -> None:
    with build(tmp_path / "s"):
        changed = {key: f"new {key}" for key in range(0, 400, 4)}
        rows = pa.table({"id": list(changed), "v": list(changed.values())})
        with lookupstore.upsert(tmp_path / "s", rows) as newer:
            assert newer.info().runs == 1
            assert newer.warm()
            read = blocks_read(newer)
            found = newer.lookup(KEYS)["v"].to_pylist()
            assert found == [changed.get(key, VALUES.get(key)) for key in range(2 * ROWS)]
            assert blocks_read(newer) == read


def test_limits_end_it_and_it_goes_on(tmp_path: Path) -> None:
    with build(tmp_path / "s") as store:
        assert not store.warm(seconds=0)
        assert blocks_read(store) == 0
        calls, read = 1, 0
        while not store.warm(bytes="20kB"):
            calls += 1
            assert calls < 1000
            now = blocks_read(store)
            assert now >= read
            read = now
        assert calls >= store.info().bytes // 40_000
        check(store)
        for wrong in ({"seconds": -1}, {"bytes": -1}, {"bytes": "many"}, {"seconds": "soon"}):
            with pytest.raises(ValueError, match=r"seconds is|bytes is"):
                store.warm(**wrong)  # type: ignore[arg-type]


def test_compressed_blocks_fill_the_cache_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = BlockCache(100_000)
    monkeypatch.setattr(readers, "shared_cache", cache)
    build(tmp_path / "s", compression="zstd").close()
    path = next((tmp_path / "s" / "data").glob("*.sst"))
    with readers.Reader(path, cache=cache) as reader:
        for _ in warming.warmed(reader):
            continue
        assert 80_000 < cache.nbytes <= cache.capacity
        assert len(list(reader.keys())) == ROWS


def test_a_store_at_a_uri_is_copied(tmp_path: Path) -> None:
    remote = Remote(tmp_path, "s3")
    build(remote.location()).close()
    residency = Residency(tmp_path / "cache", quota="1GB")
    with LookupStore(remote.location(), residency=residency) as store:
        assert store.warm(seconds=60)
        assert store._files.are_here
        remote.restart()
        check(store)
        assert remote.done == []


def test_damage_is_found(tmp_path: Path) -> None:
    build(tmp_path / "s").close()
    path = next((tmp_path / "s" / "data").glob("*.sst"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with lookupstore.open(tmp_path / "s") as store, pytest.raises(CorruptionError, match=path.name):
        store.warm()


def test_a_store_that_is_closed(tmp_path: Path) -> None:
    store = build(tmp_path / "s")
    store.close()
    with pytest.raises(ClosedError):
        store.warm()


def test_threads_look_up_meanwhile(tmp_path: Path) -> None:
    build(tmp_path / "s", buckets=2).close()
    with lookupstore.open(tmp_path / "s") as store:
        wrong: list[object] = []

        def ask() -> None:
            for _ in range(5):
                if store.lookup(KEYS)["v"].to_pylist() != wanted:
                    wrong.append("another answer")

        def warm() -> None:
            if not store.warm():
                wrong.append("not warm")

        wanted = [VALUES.get(key) for key in range(2 * ROWS)]
        threads = [threading.Thread(target=one) for one in (ask, warm, warm)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


def test_a_warm_compressed_store_has_not_paid_for_a_plain_copy(tmp_path: Path) -> None:
    with build(tmp_path / "s", compression="zstd") as store:
        assert store.warm()
        assert blocks_read(store) == 0
        check(store)


@pytest.mark.parametrize(
    ("kind", "imports"),
    [
        (pa.timestamp("us", "UTC"), False),
        (pa.timestamp("ns", "UTC"), True),
        (pa.list_(pa.struct([("took", pa.duration("ns"))])), True),
    ],
)
def test_it_imports_what_values_need(kind: pa.DataType, imports: bool, tmp_path: Path) -> None:
    """Workers that fork afterwards would each import pandas in their first request."""
    pytest.importorskip("pandas")
    none = pa.array([None], pa.null()).cast(kind)
    with lookupstore.build(pa.table({"id": [1], "v": none}), tmp_path / "s", key="id") as store:
        assert store.schema.field("v").type == kind
    program = (
        "import sys, lookupstore\n"
        f"store = lookupstore.open({str(tmp_path / 's')!r})\n"
        "before = 'pandas' in sys.modules\n"
        "store.warm()\n"
        "print(before, 'pandas' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert said.stdout.split() == [b"False", str(imports).encode()]
