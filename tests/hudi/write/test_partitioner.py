"""Files of an upsert: the formulas of the format note, section 7, and MD5 against hashlib."""

from __future__ import annotations

import hashlib
import math
import random
from bisect import bisect_left

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.hudi.write._md5 import md5_numbers
from lookupstore.hudi.write.partitioner import (
    Bucket,
    FileSize,
    FileSizing,
    Load,
    Packing,
    average_record_size,
    pack,
    workload,
)

MIB = 1 << 20


def number_of(key: str) -> int:
    return int.from_bytes(hashlib.md5(key.encode()).digest()[:8], "little", signed=True)


@pytest.mark.parametrize(
    ("key", "number"),
    [
        ("k1", -2824167150859503690),
        ("TXN-001", -2991173396776014573),
        ("id:1,name:Alice", 2008216758888434646),
        ("名", 4671233899033627727),
    ],
)
def test_numbers_of_known_keys(key: str, number: int) -> None:
    assert number_of(key) == number
    assert md5_numbers(BinaryColumn(pa.array([key]))).tolist() == [number]


def test_md5_of_every_length(seed: int) -> None:
    draw = random.Random(seed)
    keys = [draw.randbytes(size) for size in [*range(260), 10_000]]
    expected = [
        int.from_bytes(hashlib.md5(key).digest()[:8], "little", signed=True) for key in keys
    ]
    assert md5_numbers(BinaryColumn(pa.array(keys, pa.binary()))).tolist() == expected


@given(keys=st.lists(st.text(max_size=80)))
def test_numbers_of_columns(keys: list[str]) -> None:
    for kind in (pa.string(), pa.large_string(), pa.large_binary()):
        column = BinaryColumn(pa.array(["", *keys]).cast(pa.binary()).cast(kind)[1:])
        assert md5_numbers(column).tolist() == [number_of(key) for key in keys]
    with pytest.raises(ValueError, match=r"keys\[1\] is null"):
        md5_numbers(BinaryColumn(pa.array(["a", None])))


# ---- Workload


def test_a_workload_counts_rows_by_partition_and_file() -> None:
    paths = pa.array(["b", "a", "b", "b", "a", "b"]).dictionary_encode()
    files = pa.array(["f2", None, "f1", "f2", "f9", None])
    expected = {"a": Load(1, {"f9": 1}), "b": Load(1, {"f1": 1, "f2": 2})}
    for given_files in (files, files.dictionary_encode(), pa.chunked_array([files[:2], files[2:]])):
        found = workload(paths, given_files)
        assert found == expected
        assert list(found) == ["a", "b"]
        assert list(found["b"].updates) == ["f1", "f2"]
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1]), pa.array(["p", "p"]))
    assert workload(twice, pa.array([None, None, "f"])) == {"p": Load(2, {"f": 1})}
    assert workload(paths[:0], files[:0]) == {}
    with pytest.raises(ValueError, match="6 rows, file_ids 5"):
        workload(paths, files[1:])
    with pytest.raises(ValueError, match="partitions contains a null"):
        workload(pa.array(["a", None]).dictionary_encode(), files[:2])


def test_average_record_size() -> None:
    sizing = FileSizing()
    assert average_record_size([], sizing) == 1024
    assert average_record_size([(100 * MIB, 10)], sizing) == 1024  # not more than the limit
    assert average_record_size([(100 * MIB + 1, 10)], sizing) == 10 * MIB + 1
    assert average_record_size([(1, 1), (300 * MIB, 7), (900 * MIB, 9)], sizing) == math.ceil(
        300 * MIB / 7
    )
    assert average_record_size([(200 * MIB, 0)], sizing) == 1024
    assert average_record_size([(60 * MIB, 60)], FileSizing(threshold=0.5)) == MIB
    assert average_record_size([(5, 5)], FileSizing(small_file_limit=0)) == 1


# ---- Packing


def shapes(packing: Packing) -> list[tuple[str, str | None, int, int]]:
    assert [bucket.number for bucket in packing.buckets] == list(range(len(packing.buckets)))
    return [(b.partition, b.file_id, b.updates, b.inserts) for b in packing.buckets]


SIZING = FileSizing(max_file_size=1200, small_file_limit=1000)


def test_small_files_are_filled_before_new_ones_are_made() -> None:
    files = [
        FileSize("full", 1000),
        FileSize("half", 605),
        FileSize("tiny", 90),
        FileSize("u", 999),
    ]
    packing = pack({"p": Load(500, {"u": 3, "full": 2})}, {"p": files}, 10, SIZING)
    assert shapes(packing) == [
        ("p", "u", 3, 20),
        ("p", "full", 2, 0),
        ("p", "half", 0, 59),
        ("p", "tiny", 0, 111),
        ("p", None, 0, 120),
        ("p", None, 0, 120),
        ("p", None, 0, 70),
    ]
    assert packing.targets == {"p": (2, 3, 0, 4, 5, 6)}


def test_few_inserts_stop_at_the_first_small_file() -> None:
    files = {"p": [FileSize("a", 10), FileSize("b", 10)], "q": [FileSize("c", 10)]}
    packing = pack({"p": Load(5), "q": Load(0, {"c": 1}), "r": Load(1)}, files, 10, SIZING)
    assert shapes(packing) == [("p", "a", 0, 5), ("q", "c", 1, 0), ("r", None, 0, 1)]
    assert packing.targets == {"p": (0,), "r": (2,)}


def test_files_of_a_pending_clustering_are_not_filled() -> None:
    files = {"p": [FileSize("a", 10), FileSize("b", 10)]}
    packing = pack({"p": Load(5)}, files, 10, SIZING, pending={"p": {"a"}, "q": {"b"}})
    assert shapes(packing) == [("p", "b", 0, 5)]


@pytest.mark.parametrize("limit", [0, -1])
def test_without_a_limit_no_file_is_small(limit: int) -> None:
    sizing = FileSizing(max_file_size=1200, small_file_limit=limit)
    assert shapes(pack({"p": Load(5)}, {"p": [FileSize("a", 10)]}, 10, sizing)) == [
        ("p", None, 0, 5)
    ]


def test_sizes_of_new_files() -> None:
    assert shapes(pack({"": Load(250_000)}, {}, 1024)) == [
        ("", None, 0, 122_880),
        ("", None, 0, 122_880),
        ("", None, 0, 4240),
    ]
    by_rows = FileSizing(auto_split=False, split_size=100)
    assert [row[3] for row in shapes(pack({"": Load(250)}, {}, 1024, by_rows))] == [100, 100, 50]
    assert [row[3] for row in shapes(pack({"": Load(3)}, {}, 5000, SIZING))] == [1, 1, 1]
    small = FileSizing(max_file_size=500, small_file_limit=1000)  # less than a small file may have
    assert shapes(pack({"": Load(3)}, {"": [FileSize("a", 600)]}, 10, small)) == [("", None, 0, 3)]


def test_bad_sizes() -> None:
    for name in ("max_file_size", "record_size", "split_size"):
        with pytest.raises(ValueError, match=f"{name} is 0"):
            FileSizing(**{name: 0})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="threshold is nan"):
        FileSizing(threshold=math.nan)
    with pytest.raises(ValueError, match="record_size is 0"):
        pack({}, {}, 0)


# ---- Rows to buckets


def insert_bucket(key: str, buckets: list[Bucket]) -> int:
    """Return the bucket as section 7 says, one key at a time."""
    inserts = sum(bucket.inserts for bucket in buckets)
    weights, total = [], 0.0
    for bucket in buckets:
        total += bucket.inserts / inserts
        weights.append(total)
    place = bisect_left(weights, number_of(key) % inserts / inserts)
    return buckets[place if place < len(buckets) else 0].number


@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["", "p", "q"]),
            st.sampled_from([None, None, "f1", "f2", "f3"]),
            st.text(min_size=1, max_size=5),
        ),
        max_size=60,
    ),
    record_size=st.integers(1, 600),
    sizes=st.lists(st.integers(0, 1300), max_size=4),
)
def test_every_row_gets_the_bucket_that_was_planned(
    rows: list[tuple[str, str | None, str]], record_size: int, sizes: list[int]
) -> None:
    paths = pa.array([row[0] for row in rows], pa.string()).dictionary_encode()
    files = pa.array([row[1] for row in rows], pa.string())
    keys = pa.array([row[2] for row in rows], pa.string())
    loads = workload(paths, files)
    groups = [FileSize(f"f{number}", size) for number, size in enumerate(sizes)]
    packing = pack(loads, {path: groups for path in loads}, record_size, SIZING)
    found = packing.assign(paths, files, keys).tolist()
    for (path, file_id, key), number in zip(rows, found, strict=True):
        bucket = packing.buckets[number]
        assert bucket.partition == path
        if file_id is None:
            targets = [packing.buckets[target] for target in packing.targets[path]]
            assert number == insert_bucket(key, targets)
        else:
            assert bucket.file_id == file_id
    for path, load in loads.items():
        mine = [bucket for bucket in packing.buckets if bucket.partition == path]
        assert sum(bucket.inserts for bucket in mine) == load.inserts
        assert {b.file_id: b.updates for b in mine if b.updates} == load.updates
        names = [bucket.file_id for bucket in mine if bucket.file_id is not None]
        assert len(names) == len(set(names))
        for bucket in mine:
            if bucket.file_id is not None and bucket.inserts:
                [size] = [file.size for file in groups if file.file_id == bucket.file_id]
                assert size < SIZING.small_file_limit
                assert size + bucket.inserts * record_size <= SIZING.max_file_size
            elif bucket.file_id is None:
                assert 1 <= bucket.inserts <= max(1, SIZING.max_file_size // record_size)


def test_planned_counts_are_met_roughly(seed: int) -> None:
    draw = random.Random(seed)
    keys = pa.array([f"k{draw.getrandbits(60)}" for _ in range(10_000)])
    sizing = FileSizing(max_file_size=4000, small_file_limit=3500)
    files = {"": [FileSize("f", 3000)]}
    packing = pack({"": Load(10_000)}, files, 1, sizing)
    assert [bucket.inserts for bucket in packing.buckets] == [1000, 4000, 4000, 1000]
    paths = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int32()), pa.array([""]))
    found = packing.assign(paths, pa.nulls(10_000, pa.string()), keys)
    assert found.dtype == np.int32
    for count, bucket in zip(np.bincount(found).tolist(), packing.buckets, strict=True):
        assert abs(count - bucket.inserts) < 300


def test_a_bucket_depends_on_the_key_alone() -> None:
    paths = pa.array(["p"] * 100).dictionary_encode()
    keys = pa.array([f"k{i}" for i in range(100)])
    packing = pack({"p": Load(100)}, {}, 100, SIZING)
    none = pa.nulls(100, pa.string())
    found = packing.assign(paths, none, keys)
    backwards = packing.assign(paths, none, keys[::-1])
    assert len(set(found.tolist())) > 5
    assert found.tolist() == backwards[::-1].tolist()
    chunked = packing.assign(paths, none, pa.chunked_array([keys[:30], keys[30:]]))
    assert chunked.tolist() == found.tolist()


def test_rows_that_were_not_planned() -> None:
    packing = pack({"p": Load(0, {"f": 1}), "q": Load(1)}, {}, 100, SIZING)

    def assign(path: str, file_id: str | None, key: str | None = "k") -> list[int]:
        files = pa.array([file_id], pa.string())
        keys = pa.array([key], pa.string())
        found: list[int] = packing.assign(
            pa.array([path]).dictionary_encode(), files, keys
        ).tolist()
        return found

    assert (assign("p", "f"), assign("q", None)) == ([0], [1])
    with pytest.raises(KeyError, match="inserts into 'p'"):
        assign("p", None)
    with pytest.raises(KeyError, match="the file 'f' of 'q'"):
        assign("q", "f")
    with pytest.raises(ValueError, match="keys contains a null"):
        assign("q", None, None)
    with pytest.raises(ValueError, match="keys has 1 rows, partitions 0"):
        packing.assign(pa.array([""])[:0].dictionary_encode(), pa.array([""])[:0], pa.array(["k"]))
