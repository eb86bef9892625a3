"""What lookups read from the disk of a file that is on it only; the system counts."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest

from lookupstore.sst import Reader, Writer

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
