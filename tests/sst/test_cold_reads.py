"""What lookups read from the disk of a file that is on it only; the system counts."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import random
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lookupstore.hostcache.cache import Residency
from lookupstore.sst import Reader, Writer
from lookupstore.sst._answers import Found
from lookupstore.sst._making_places import adopt
from lookupstore.sst._map import FileMap
from lookupstore.sst.layers import Layers
from lookupstore.sst.reader import lookup_of
from lookupstore.sst.stored import StoredFile
from lookupstore.sst.warming import warmed

pytestmark = pytest.mark.drawn(0.4)

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
    with Reader(path) as reader:  # has the code for it read from the disk, too
        reader.lookup([key(0), b"?"])
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
    monkeypatch.setattr("lookupstore.sst._data_blocks.memory_limit", lambda: 3 * size)
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


def test_all_is_read_after_single_pages_were_released(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a call that may need most of a file, and by warming; not if all of it is in memory."""
    released: list[str] = []
    monkeypatch.setattr(StoredFile, "drop_scattered", lambda file: released.append(file.path))
    keys = [*map(key, range(RECORDS // 16 - 1))]
    for count in (1, 0):
        gc.collect()
        if count:
            forget(path)
        with Reader(path) as reader:
            assert reader.lookup(keys).null_count == 0
        assert released == [str(path)] * count
        released.clear()
    with Reader(path) as reader:
        for _ in warmed(reader):
            continue
    assert set(released) == {str(path)}


OF_OTHERS = """
import os, resource, sys
from lookupstore.sst._making_places import adopt
from lookupstore.sst._map import FileMap

descriptor = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(descriptor).st_size
os.seteuid(65534)
file_map = FileMap(descriptor, size)
before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
file_map.populate(0, size)
print(resource.getrusage(resource.RUSAGE_SELF).ru_majflt - before)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_file_of_others_is_read_in_large_pieces(path: Path) -> None:
    """The system says that all of such a file is in memory, to whoever may not write to it."""
    gc.collect()
    forget(path)
    assert not any(in_memory(path))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", OF_OTHERS, str(path)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert all(in_memory(path))
    assert int(run.stdout) < path.stat().st_size // mmap.PAGESIZE // 16, run.stdout


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


@pytest.fixture
def with_places(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Reader]:
    """Return what opens the file with places that another reader has made."""
    monkeypatch.setattr("lookupstore.sst.reader.LEAST_BYTES", 0)
    tables = Residency(tmp_path / "cache").shared_tables
    an_hour_ago = time.time() - 3600
    os.utime(path, (an_hour_ago, an_hour_ago))
    with Reader(path, tables=tables) as reader:
        if set(reader.info().codecs or ()) != {"none"}:
            pytest.skip("compressed files have no places")
        for _ in warmed(reader):
            continue
        assert lookup_of(reader).data.table.places is not None

    def opened() -> Reader:
        reader = Reader(path, tables=tables)
        adopt(lookup_of(reader).data)
        assert lookup_of(reader).data.table.places is not None
        return reader

    return opened


def waits() -> int:
    """Return how often this process has waited for a page from the disk."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt


def test_places_lead_to_records_that_are_read_ahead(
    path: Path, with_places: Callable[[], Reader], seed: int
) -> None:
    """A process that maps shared places reads the pages of its records, all asked for at once."""
    gc.collect()
    forget(path)
    count = 1000
    numbers = random.Random(seed).sample(range(RECORDS), count)
    with with_places() as reader:
        before, waited = from_disk(), waits()
        assert reader.lookup([*map(key, numbers)]).null_count == 0
        assert 0 < from_disk() - before <= count * PAGES
        waited = waits() - waited
        assert waited <= count // 4, waited


def test_small_hot_calls_do_not_keep_a_large_cold_one_from_reading_ahead(
    path: Path, with_places: Callable[[], Reader], seed: int
) -> None:
    count = 1000
    keys = pa.array([*map(key, random.Random(seed).sample(range(RECORDS), count))], pa.binary())
    with with_places() as reader:
        layers = Layers(1, {0: [reader]})
        for _ in range(40):
            layers.lookup(keys[:10], Found(10))
        forget_mapped(path, lookup_of(reader).data.map)
        waited = waits()
        layers.lookup(keys, Found(count))
        waited = waits() - waited
        assert waited <= count // 4, waited


def forget_mapped(path: Path, file_map: FileMap) -> None:
    """Have the system drop its copy of a mapped file, whose pages it unmaps with madvise(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    address, size = np.frombuffer(file_map, np.uint8).ctypes.data, len(file_map)
    assert libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.MADV_DONTNEED) == 0
    forget(path)


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
