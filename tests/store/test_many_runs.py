"""Lookups of many keys in stores with several runs of changes, beside a dict."""

from __future__ import annotations

import gc
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lookupstore
from lookupstore import CorruptionError, LookupStore

KEEP: dict[str, Any] = {"max_runs": 64, "max_run_share": math.inf}
ROWS = 40_000


@pytest.fixture(autouse=True)
def own_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a test from finding the local copies of another one."""
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "copies-of-this-test"))


def ids_of(numbers: Any, kind: str) -> pa.Array:
    found = pa.array(np.asarray(numbers, np.int64))
    return found if kind == "int64" else pa.array([f"key-{n}" for n in found.to_pylist()])


def changed(
    folder: Path, rng: np.random.Generator, runs: int, kind: str, **options: Any
) -> tuple[LookupStore, dict[int, int]]:
    """Build a store of even numbers, change some, and return it with what it holds."""
    numbers = 2 * np.arange(ROWS)
    rows = pa.table({"id": ids_of(numbers, kind), "n": numbers})
    store = lookupstore.build(rows, folder, key="id", **options)
    model = {int(number): int(number) for number in numbers}
    for run in range(runs):
        upserts = rng.choice(2 * ROWS + 500, 700, replace=False)
        some, deletes = upserts[:500], upserts[500:]
        rows = pa.table({"id": ids_of(some, kind), "n": some + (run + 1) * 1_000_000})
        store = store.upsert(rows, deletes=ids_of(deletes, kind), **KEEP)
        model |= {int(number): int(number) + (run + 1) * 1_000_000 for number in some}
        for number in deletes.tolist():
            model.pop(number, None)
    return store, model


def check(store: LookupStore, model: dict[int, int], numbers: Any, kind: str) -> None:
    keys = ids_of(numbers, kind)
    expected = [model.get(number) for number in np.asarray(numbers).tolist()]
    assert store.lookup(keys)["n"].to_pylist() == expected
    assert store.contains(keys).to_pylist() == [value is not None for value in expected]


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", ["int64", "string"])
@pytest.mark.parametrize("buckets", [1, 5])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_runs_beside_a_dict(
    tmp_path: Path, seed: int, kind: str, buckets: int, compression: str
) -> None:
    rng = np.random.default_rng(seed)
    runs = int(rng.integers(2, 7))
    options = {"buckets": buckets, "compression": compression, "block_size": 2048}
    store, model = changed(tmp_path / "s", rng, runs, kind, **options)
    # At first each run is asked, then one filter for all of them, also for many keys at once.
    for count in (1, 10, 1000, 5000, 30_000, 1, 7):
        check(store, model, rng.integers(0, 2 * ROWS + 600, count), kind)
    check(store, model, np.arange(2 * ROWS + 600), kind)


def test_more_keys_than_are_looked_for_in_runs_at_once(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    store, model = changed(tmp_path / "s", rng, 3, "int64")
    for _ in range(2):
        check(store, model, rng.integers(0, 2 * ROWS + 600, 600_000), "int64")


def test_nulls_among_many_keys(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    store, model = changed(tmp_path / "s", rng, 3, "string")
    numbers = rng.integers(0, 2 * ROWS, 50_000)
    given = [None if rng.random() < 0.1 else f"key-{number}" for number in numbers.tolist()]
    for _ in range(2):
        assert store.lookup(pa.array(given, pa.string()))["n"].to_pylist() == [
            None if key is None else model.get(int(key[4:])) for key in given
        ]


def test_lookups_leave_no_garbage(tmp_path: Path, seed: int) -> None:
    """What a call has made goes with it, not when the garbage is collected."""
    store, _ = changed(tmp_path / "s", np.random.default_rng(seed), 3, "int64")
    keys = pa.array(np.arange(ROWS))
    store.lookup(keys)
    gc.collect()
    gc.disable()
    try:
        before = pa.total_allocated_bytes()
        for _ in range(5):
            store.lookup(keys)
        assert pa.total_allocated_bytes() - before < keys.nbytes
    finally:
        gc.enable()


def test_a_damaged_run_fails_those_lookups_that_need_it(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    store, model = changed(tmp_path / "s", rng, 3, "int64", block_size=512)
    store.close()
    run = sorted((tmp_path / "s" / "data").glob("*run*"))[int(rng.integers(3))]
    damaged = bytearray(run.read_bytes())
    damaged[5] ^= 0x40  # in the first block, which has the least keys
    run.write_bytes(damaged)
    with lookupstore.open(tmp_path / "s") as store:
        greatest = rng.integers(ROWS, 2 * ROWS, 20_000)
        for _ in range(4):
            check(store, model, greatest, "int64")
        with pytest.raises(CorruptionError, match=run.name):
            store.lookup(pa.array(np.arange(4000)))  # more than the block has keys of
