"""The cache of decoded blocks: its bound, its order of leaving, and what readers share in it."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sst_files import written

from lookupstore.sst import Reader
from lookupstore.sst.cache import BlockCache
from lookupstore.sst.reader import shared_cache


class Sized:
    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 6), st.integers(0, 50)),
        st.tuples(st.just("get"), st.integers(0, 6), st.just(0)),
        st.tuples(st.just("resize"), st.just(0), st.integers(0, 120)),
    ),
    max_size=60,
)


@given(ACTIONS)
def test_least_recently_used_goes_first(actions: list[tuple[str, int, int]]) -> None:
    cache: BlockCache[Sized] = BlockCache(100)
    model: OrderedDict[int, Sized] = OrderedDict()
    capacity, hits, misses = 100, 0, 0
    for verb, key, size in actions:
        if verb == "put":
            value = Sized(size)
            cache.put(key, value)
            model.pop(key, None)
            model[key] = value
        elif verb == "resize":
            cache.resize(size)
            capacity = size
        else:
            assert cache.get(key) is model.get(key)
            hits, misses = hits + (key in model), misses + (key not in model)
            if key in model:
                model.move_to_end(key)
        while sum(one.nbytes for one in model.values()) > capacity:
            model.popitem(last=False)
        assert cache.nbytes == sum(one.nbytes for one in model.values()) <= capacity
        assert cache.capacity == capacity
        assert (cache.hits, cache.misses) == (hits, misses)
    for key in range(7):
        assert cache.get(key) is model.get(key)


@pytest.mark.parametrize("make", [lambda: BlockCache(-1), lambda: BlockCache(5).resize(-1)])
def test_a_negative_capacity(make: object) -> None:
    with pytest.raises(ValueError, match="capacity=-1 bytes; give 0 or more"):
        make()  # type: ignore[operator]


RECORDS = [(b"%04d" % i, b"v" * 90) for i in range(400)]


def test_readers_share_a_cache(tmp_path: Path) -> None:
    path = written(tmp_path / "a.sst", RECORDS, block_size=1000)
    an_hour_ago = time.time() - 3600
    os.utime(path, (an_hour_ago, an_hour_ago))
    cache: BlockCache = BlockCache(1 << 20)
    first, second = Reader(path, cache=cache), Reader(path, cache=cache)
    assert first.get(b"0000") == RECORDS[0][1]
    assert (cache.hits, cache.misses) == (0, 1)
    assert second.get(b"0000") == RECORDS[0][1]
    assert (cache.hits, cache.misses) == (1, 1)
    assert first.cache is second.cache is cache


def test_a_file_rewritten_within_one_tick_of_the_clock_is_another_file(tmp_path: Path) -> None:
    """Same inode, size, footer and times: as after a rewrite where the clock is coarse."""
    path = written(tmp_path / "a.sst", RECORDS, block_size=1000, compression="none", bloom_fpp=0)
    other = [(key, b"w" * 90) for key, _ in RECORDS]
    again = written(tmp_path / "b.sst", other, block_size=1000, compression="none", bloom_fpp=0)
    cache: BlockCache = BlockCache(1 << 20)
    times = os.stat(path).st_mtime_ns
    assert Reader(path, cache=cache).get(b"0000") == RECORDS[0][1]
    Path(path).write_bytes(Path(again).read_bytes())
    os.utime(path, ns=(times, times))
    assert Reader(path, cache=cache).get(b"0000") == other[0][1]


def test_two_files_in_one_cache(tmp_path: Path) -> None:
    """Files whose blocks have the same numbers, sizes and footers are two files all the same."""
    others = [(key, b"w" * 90) for key, _ in RECORDS]
    cache: BlockCache = BlockCache(1 << 20)
    readers = [
        Reader(written(tmp_path / name, records, block_size=1000, compression="none"), cache=cache)
        for name, records in (("a.sst", RECORDS), ("b.sst", others))
    ]
    for _ in range(2):
        for reader, records in zip(readers, (RECORDS, others), strict=True):
            assert reader.get_many([key for key, _ in records]).to_pylist() == [
                value for _, value in records
            ]


def test_one_file_in_two_orders(tmp_path: Path) -> None:
    """A block decoded under one order is not one of the other."""
    path = written(tmp_path / "n.sst", [(b"\1\0", b"1")], dialect="paimon", bloom_fpp=0)
    cache: BlockCache = BlockCache(1 << 20)
    as_bytes, as_numbers = Reader(path, cache=cache), Reader(path, order="int16", cache=cache)
    assert as_bytes.get(b"\1\0") == as_numbers.get(b"\1\0") == b"1"
    assert as_bytes.get(b"abc") is None
    with pytest.raises(ValueError, match="takes keys of 2 bytes"):
        as_numbers.get(b"abc")


def test_replacing_a_file_does_not_bring_back_its_blocks(tmp_path: Path) -> None:
    path = tmp_path / "r.sst"
    for i in range(60):
        value = b"%06d" % i
        written(path, [(b"a", value)], overwrite=True, compression="none")
        with Reader(path) as reader:
            assert reader.get(b"a") == value


def test_a_small_cache_evicts_and_answers(tmp_path: Path) -> None:
    path = written(tmp_path / "a.sst", RECORDS, block_size=1000)
    cache: BlockCache = BlockCache(2500)
    reader = Reader(path, cache=cache)
    keys = [key for key, _ in RECORDS]
    for _ in range(2):
        assert reader.get_many(keys).to_pylist() == [value for _, value in RECORDS]
        assert 1000 < cache.nbytes <= 2500


def test_a_scan_leaves_the_cache_to_the_lookups(tmp_path: Path) -> None:
    path = written(tmp_path / "a.sst", RECORDS, block_size=1000)
    reader = Reader(path, cache=BlockCache(1 << 20))
    assert len(list(reader.items())) == len(RECORDS)
    assert reader.cache.nbytes == 0
    reader.get(b"0007")
    held = reader.cache.nbytes
    assert held > 0
    assert len(list(reader.items(reverse=True))) == len(RECORDS)
    assert reader.cache.nbytes == held
    assert reader.cache.hits == 1


def test_the_default_is_shared_by_all_readers(tmp_path: Path) -> None:
    path = written(tmp_path / "a.sst", RECORDS[:2])
    assert Reader(path).cache is Reader(path).cache is shared_cache
