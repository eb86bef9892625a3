"""Packs, and what becomes of them in tasks; without a cluster."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lookupstore.builder.plan import plan_build
from lookupstore.spark.buckets import BUCKET
from lookupstore.spark.build import build
from lookupstore.spark.build import packs as build_packs
from lookupstore.spark.build import task as build_task
from lookupstore.spark.build.packs import PACK_BYTES, pack, unpack
from lookupstore.storage.location import Location
from lookupstore.store.data_files import FileOptions
from lookupstore.store.manifest import DataFile
from lookupstore.store.new_version import NewVersion
from lookupstore.store.store import LookupStore

NAMES = ["key", "value"]


def some_bytes(rng: random.Random, count: int, longest: int) -> pa.Array:
    made = [rng.randbytes(rng.randint(0, longest)) for _ in range(count + 3)]
    return pa.array(made, pa.large_binary()).slice(2, count)


@pytest.mark.parametrize("longest", [0, 5, 300, 3 * PACK_BYTES])
def test_rows_come_back_in_their_groups(seed, longest):
    rng = random.Random(seed)
    counts = np.array([rng.choice([0, 1, 2, 700]) for _ in range(20)])
    rows = pa.record_batch(
        [some_bytes(rng, counts.sum(), 9), some_bytes(rng, counts.sum(), longest)], names=NAMES
    )
    packs, groups = pack(rows, counts)
    assert unpack(packs, NAMES).equals(rows)
    start = 0
    for group, count in enumerate(counts):
        own = packs.filter(pa.array(groups == group))
        assert unpack(own, NAMES).equals(rows.slice(start, count))
        start += count
    assert start == rows.num_rows
    # As Spark gives them: binary, and a batch that begins somewhere.
    half = packs.num_rows // 2
    small = pa.record_batch(
        [column.cast(pa.binary()) for column in packs.columns], names=packs.schema.names
    )
    both = [unpack(part, NAMES) for part in (small.slice(0, half), small.slice(half))]
    assert pa.Table.from_batches(both).combine_chunks().equals(pa.table(rows))


def test_packs_are_neither_rows_nor_batches():
    rows = pa.record_batch({"key": pa.array([bytes(40)] * 100_000, pa.large_binary())})
    packs, _ = pack(rows, np.array([100_000]))
    sizes = [len(one) for one in packs.column("key").to_pylist()]
    assert max(sizes) <= PACK_BYTES
    assert min(sizes[:-1]) >= PACK_BYTES / 2


@pytest.mark.parametrize("change", ["shorter", "torn", "longer", "negative"])
def test_lengths_that_are_not_those_of_the_values(change):
    rows = pa.record_batch({"key": pa.array([b"ab", b"c"], pa.large_binary())})
    packs, _ = pack(rows, np.array([2]))
    (lengths,) = packs.column("key lengths").to_pylist()
    changed = {
        "shorter": lengths[:4],
        "torn": lengths[:5],
        "longer": lengths + lengths,
        "negative": np.array([-1, 4], "<i4").tobytes(),
    }[change]
    wrong = packs.set_column(1, "key lengths", pa.array([changed], pa.large_binary()))
    with pytest.raises(ValueError, match=r"packs: .*lengths of 'key'"):
        unpack(wrong, ["key"])


def expected(rows: list[dict[str, Any]], rule: Any) -> dict[int, str]:
    """Return the name that stays for each id, of rows in the order of the source."""
    kept: dict[int, dict[str, Any]] = {}
    for row in rows:
        old = kept.get(row["id"])
        if old is None or rule == "last":
            kept[row["id"]] = row
        elif isinstance(rule, tuple):
            ranks = [-1 if one["score"] is None else one["score"] for one in (old, row)]
            if ranks[1] >= ranks[0]:
                kept[row["id"]] = row
    return {key: row["name"] for key, row in kept.items()}


@pytest.mark.parametrize("files", [False, True])
@pytest.mark.parametrize("rule", ["error", "first", "last", ("max", "score")])
def test_tasks_that_spill_keep_the_right_rows(tmp_path, monkeypatch, seed, rule, files):
    """Packs come to a task in any order, as a shuffle brings them, and do not fit its memory."""
    monkeypatch.setattr(build_task, "TASK_MEMORY", 1 << 16)
    monkeypatch.setattr(build_packs, "PACKED_BYTES", 1 << 15)
    rng = random.Random(seed)
    schema = pa.schema({"id": pa.int64(), "name": pa.string(), "score": pa.int32()})
    rows = [
        {
            "id": i if rule == "error" else rng.randrange(1500),
            "name": f"{i:05d}",
            "score": rng.choice([None, 1, 2, 3]),
        }
        for i in range(6000)
    ]
    names = ("file:/a", "file:/b") if files else ()
    places = [("file:/a", 0, i) for i in range(2000)]  # of the first file two splits, swapped
    places += [("file:/a", 9000, i) for i in range(2000)] + [("file:/b", 0, i) for i in range(2000)]
    batches = []
    for start in range(0, len(rows), 700):
        batch = pa.RecordBatch.from_pylist(rows[start : start + 700], schema=schema)
        place = zip(*places[start : start + 700], strict=True)
        where = [pa.array(range(start, start + batch.num_rows))]
        if files:
            where = [pa.array(column) for column in place]
        batches.append([*batch.columns, *(where if rule != "error" else [])])
    rng.shuffle(batches)
    plan = plan_build(schema, key="id", columns=["name", "score"], on_duplicate=rule)
    location = Location(str(tmp_path / "store"))
    with NewVersion(location, overwrite=False, retain=0) as new:
        task = build.task_of(new, plan, schema, 3, FileOptions(), names)
        given = [pa.RecordBatch.from_arrays(c, [f"c{i}" for i in range(len(c))]) for c in batches]
        packs = pa.Table.from_batches(build_task.encode_batches(task, iter(given)))
        packs = packs.take(pa.array(rng.sample(range(len(packs)), len(packs))))
        packs = packs.sort_by(BUCKET).combine_chunks()
        parts = packs.to_batches(max_chunksize=7)
        written = [
            DataFile(**e) for b in build_task.write_batches(task, parts) for e in b.to_pylist()
        ]
        build.publish_files(new, task, written, "rows")
    with LookupStore(location) as store:
        found = {row["id"]: row["name"] for row in store.scan().read_all().to_pylist()}
        assert found == expected(rows, rule)
        assert store.info().files == 3
