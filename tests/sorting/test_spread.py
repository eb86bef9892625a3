"""Rows that are put into other partitions while they are sorted."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
import xxhash

from lookupstore.keys._codec import bucket_of
from lookupstore.sorting.rows import Keep
from lookupstore.sorting.runs import RunSorter


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("memory", [1 << 16, 1 << 18])
@pytest.mark.parametrize("keep", ["first", "last"])
def test_spread_at_any_time(
    tmp_path: Path, seed: int, keep: Keep, memory: int, threads: int
) -> None:
    rng = random.Random(seed)
    rows = [(b"%05d" % rng.randrange(3000), b"%d" % n) for n in range(6000)]
    expected: dict[bytes, bytes] = {}
    for key, value in rows:
        if keep == "last" or key not in expected:
            expected[key] = value
    partitions = rng.choice([2, 5, 40])
    when = rng.choice([0, 10, 100, 3000, 5999, 6000])
    with RunSorter(keep, memory=memory, folder=str(tmp_path), threads=threads) as sorter:
        at, spread = 0, False
        while at < len(rows) or not spread:
            if at >= when and not spread:
                sorter.spread(partitions, partial(bucket_of, buckets=partitions))
                spread = True
            some = rows[at : at + rng.choice([1, 7, 40])]
            at += len(some)
            if some:
                keys, values = zip(*some, strict=True)
                sorter.add(pa.record_batch({"key": keys, "value": values}))
        found: dict[bytes, bytes] = {}
        for partition in range(partitions):
            keys, values = [], []
            for batch in sorter.sorted_batches(partition):
                keys += batch["key"].to_pylist()
                values += batch["value"].to_pylist()
            assert keys == sorted(set(keys))
            assert {xxhash.xxh64_intdigest(key) % partitions for key in keys} <= {partition}
            assert sorter.rows_at_most(partition) >= len(keys)
            found |= dict(zip(keys, values, strict=True))
    assert found == expected


def test_spread_once_and_while_rows_come(tmp_path: Path) -> None:
    two = partial(bucket_of, buckets=2)
    with RunSorter("error", memory=1 << 16, folder=str(tmp_path)) as sorter:
        sorter.add(pa.record_batch({"key": [b"a"]}))
        list(sorter.sorted_batches(0))
        with pytest.raises(RuntimeError, match="while they are added"):
            sorter.spread(2, two)
    with RunSorter("error", memory=1 << 16, folder=str(tmp_path)) as sorter:
        sorter.spread(2, two)
        with pytest.raises(RuntimeError, match="and once"):
            sorter.spread(2, two)
