"""What lookups read from the disk of a file that is on it only; the system counts."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import random
import re
import resource
import time
from pathlib import Path

import numpy as np
import pytest

from lookupstore.hostcache.cache import Residency
from lookupstore.sst import Reader, Writer
from lookupstore.sst._map import FileMap
from lookupstore.sst.reader import lookup_of, warmed

RECORDS, VALUE = 40_000, 1000
PAGES = 2 * os.sysconf("SC_PAGESIZE")  # in which a block begins and ends
IO = Path("/proc/self/io")


def key(number: int) -> bytes:
    return b"%012d" % number


def from_disk() -> int:
    """Return the bytes that this process has had read from disks."""
    found = re.search(r"^read_bytes: (\d+)$", IO.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def forget(path: Path) -> None:
    """Have the system drop its copy of a file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fdatasync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


@pytest.fixture(scope="module", params=["none", "zstd"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file that can be forgotten: not where files are in memory."""
    path = tmp_path_factory.mktemp("cold") / "records.sst"
    rng = random.Random(1)
    with Writer(path, compression=request.param, block_size=64 << 10) as writer:
        for at in range(0, RECORDS, 1000):
            numbers = range(at, at + 1000)
            writer.put_many([*map(key, numbers)], [rng.randbytes(VALUE) for _ in numbers])
    if not IO.exists() or not hasattr(os, "posix_fadvise"):
        pytest.skip("the system does not count what is read, or cannot drop a file")
    forget(path)
    before = from_disk()
    path.read_bytes()
    if from_disk() - before < path.stat().st_size // 2:
        pytest.skip("the files of this folder are in memory, or their reads are not counted")
    return path


def test_a_lookup_reads_the_blocks_of_its_keys(path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for count in (1, 30, 200):
        forget(path)
        with Reader(path) as reader:
            most = max(size for _, size in reader._handles) + PAGES
            before = from_disk()
            numbers = rng.sample(range(RECORDS), count)
            found = reader.lookup([*map(key, numbers)])
            assert found.null_count == 0
            assert from_disk() - before <= count * most


def test_a_call_that_may_need_most_of_a_file_reads_all_of_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In large pieces, once, and only if it fits well into memory."""
    size = path.stat().st_size

    def share_read(keys: int) -> float:
        gc.collect()
        forget(path)
        with Reader(path) as reader:
            before = from_disk()
            assert reader.lookup([*map(key, range(keys))]).null_count == 0
            return (from_disk() - before) / size

    few, many = RECORDS // 40, RECORDS // 16 - 1  # with more, all records get places
    assert few * 16384 < size < many * 16384
    assert share_read(few) < 0.1
    assert 0.95 < share_read(many) < 1.1
    monkeypatch.setattr("lookupstore.sst._lookup.memory_limit", lambda: 3 * size)
    assert share_read(many) < 0.7  # a block for each key


def in_memory(path: Path) -> list[bool]:
    """Return which pages of a file are in memory, by mincore(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
        address = np.frombuffer(view, np.uint8).ctypes.data
        here = ctypes.create_string_buffer(-(-len(view) // mmap.PAGESIZE))
        assert libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(len(view)), here) == 0
    return [bool(page & 1) for page in here.raw]


def test_pages_that_were_read_singly_are_released_before_all_is_read(path: Path) -> None:
    """They would keep the pieces around them from being huge pages."""
    size, piece = path.stat().st_size, 512 * mmap.PAGESIZE
    whole = size // piece - 1
    with path.open("rb") as file:
        forget(path)
        file_map = FileMap(file.fileno(), size)
        content = memoryview(file_map)
        file_map.populate(whole * piece, piece)
        scattered = [7, 300, 1024 + 5, 1024 + 400]
        found = [content[number * mmap.PAGESIZE] for number in scattered]
        here = in_memory(path)
        assert all(here[512 * whole : 512 * (whole + 1)])
        assert all(here[number] for number in scattered)
        assert sum(here[:1536]) < 200
        file_map.drop_scattered(file.fileno())
        here = in_memory(path)
        assert all(here[512 * whole : 512 * (whole + 1)])
        assert not any(here[:1536])
        assert [content[number * mmap.PAGESIZE] for number in scattered] == found
        del content
    assert path.read_bytes() == bytes(memoryview(file_map))


def test_a_key_reads_its_block(path: Path) -> None:
    forget(path)
    with Reader(path) as reader:
        before = from_disk()
        assert reader.get(key(RECORDS // 2)) is not None
        assert 0 < from_disk() - before <= max(size for _, size in reader._handles) + PAGES


def test_missing_keys_read_what_the_filter_lets_pass(path: Path) -> None:
    forget(path)
    with Reader(path) as reader:
        most = max(size for _, size in reader._handles) + PAGES
        before = from_disk()
        assert reader.lookup([key(number) + b"?" for number in range(300)]).null_count == 300
        assert from_disk() - before <= 300 * 0.15 * most


def test_places_lead_to_records_that_are_read_ahead(
    path: Path, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that maps shared places reads the pages of its records, all asked for at once."""
    monkeypatch.setattr("lookupstore.sst.reader.LEAST_BYTES", 0)
    tables = Residency(tmp_path / "cache").shared_tables
    an_hour_ago = time.time() - 3600
    os.utime(path, (an_hour_ago, an_hour_ago))
    with Reader(path, tables=tables) as reader:
        if set(reader.info().codecs or ()) != {"none"}:
            pytest.skip("compressed files have no places")
        for _ in warmed(reader):
            continue
        assert lookup_of(reader).table.places is not None
    del reader
    gc.collect()
    forget(path)
    count = 1000
    numbers = random.Random(seed).sample(range(RECORDS), count)
    with Reader(path, tables=tables) as reader:
        lookup_of(reader).adopt()
        assert lookup_of(reader).table.places is not None
        before, faults = from_disk(), resource.getrusage(resource.RUSAGE_SELF).ru_majflt
        assert reader.lookup([*map(key, numbers)]).null_count == 0
        assert 0 < from_disk() - before <= count * PAGES
        waited = resource.getrusage(resource.RUSAGE_SELF).ru_majflt - faults
        assert waited <= count // 4, waited


def test_a_scan_reads_the_file_once(path: Path) -> None:
    forget(path)
    with Reader(path) as reader:
        before = from_disk()
        assert sum(batch.num_rows for batch in reader.scan()) == RECORDS
        assert from_disk() - before <= path.stat().st_size
    forget(path)
    with Reader(path) as reader:
        before = from_disk()
        assert sum(batch.num_rows for batch in reader.scan(reverse=True)) == RECORDS
        assert from_disk() - before <= path.stat().st_size + PAGES
