"""Addresses of files: ranges that are read together, and files whose size is known."""

from __future__ import annotations

import io
import itertools
import random
import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from support.object_store import BUCKET
from support.quick_store import quick_store

from lookupstore import CorruptionError
from lookupstore.storage.file_address import FileAddress
from lookupstore.storage.remote_file import RemoteFile

#: A file system that is not that of the disk.
MOCK = fs._MockFileSystem()


class Reads(io.BytesIO):
    """A file that notes its reads, as Arrow's files are."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.noted: list[tuple[int, int]] = []

    def read_at(self, size: int, offset: int) -> bytes:
        self.noted.append((offset, size))
        return self.getvalue()[offset : offset + size]


@pytest.mark.parametrize("number", range(20))
def test_ranges_are_those_of_the_file(seed: int, number: int) -> None:
    chance = random.Random(seed + number)
    content = chance.randbytes(1 << 20)
    file: Any = Reads(content)
    address = FileAddress.on(fs.LocalFileSystem(), "x")
    ranges = [
        (chance.randrange(len(content) - 5000), chance.choice([0, 1, 10, 4096]))
        for _ in range(chance.choice([0, 1, 5, 100]))
    ]
    found = address.read_ranges(file, ranges)
    assert found == [content[offset : offset + size] for offset, size in ranges]
    ends = sorted((start, start + size) for start, size in file.noted)
    # Reads do not touch, and are 4 KiB apart.
    assert all(one[1] + 4096 < other[0] for one, other in itertools.pairwise(ends))
    assert sum(size for _, size in file.noted) <= sum(size + 4096 for _, size in ranges)


@pytest.mark.parametrize(("filesystem", "gap"), [(fs.LocalFileSystem(), 4), (MOCK, 512)])
def test_ranges_of_a_large_part_of_a_file_are_several_reads(
    filesystem: fs.FileSystem, gap: int, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Bytes between ranges are read with them, but never many of these at once."""
    module = pytest.importorskip("lookupstore.storage.file_address")
    monkeypatch.setattr(module, "_MOST_AT_ONCE", 3 << 20)
    chance = random.Random(seed)
    content = chance.randbytes(10 << 20)
    file: Any = Reads(content)
    starts = itertools.accumulate(chance.randrange(gap << 10) for _ in range(1 << 20))
    ranges = [
        (start, chance.choice([1, 9, 2000]))
        for start in itertools.takewhile(lambda start: start < 9 << 20, starts)
    ]
    ranges += [(ranges[3][0], 5), (ranges[3][0] + 1, 700_000), (77, 0)]
    chance.shuffle(ranges)
    found = FileAddress.on(filesystem, "x").read_ranges(file, ranges)
    assert found == [content[offset : offset + size] for offset, size in ranges]
    assert max(size for _, size in file.noted) <= (3 << 20) + 700_000
    assert 3 <= len(file.noted) <= 4


def test_a_file_of_another_size_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    address = FileAddress.on(fs.LocalFileSystem(), str(path))
    with address.open(5) as file:
        assert file.read() == b"12345"
    with pytest.raises(CorruptionError, match="4 bytes"):
        address.open(4)


def test_ranges_of_an_object_are_read_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No read ends before all have begun."""
    content = random.Random(5).randbytes(3 << 20)
    (tmp_path / "s3" / BUCKET).mkdir(parents=True)
    (tmp_path / "s3" / BUCKET / "x").write_bytes(content)
    begun = threading.Barrier(3, timeout=30)
    of_file = RemoteFile.read

    def read(file: RemoteFile, offset: int, size: int) -> bytes:
        begun.wait()
        return of_file(file, offset, size)

    ranges = [(2 << 20, 9), (5, 1000), (1 << 20, 7)]
    with quick_store(tmp_path / "s3", 0) as quick:
        address = FileAddress.on(quick.store.filesystem(), f"{BUCKET}/x")
        with address.open(len(content)) as file, monkeypatch.context() as patched:
            patched.setattr(RemoteFile, "read", read)
            found = address.read_ranges(file, ranges)
        assert found == [content[offset : offset + size] for offset, size in ranges]
        with pytest.raises(ValueError, match="closed file"):
            file.read_at(5, 0)


def test_an_object_whose_size_is_known_takes_no_other_request(tmp_path: Path) -> None:
    (tmp_path / "s3" / BUCKET).mkdir(parents=True)
    (tmp_path / "s3" / BUCKET / "x").write_bytes(b"0123456789")
    with quick_store(tmp_path / "s3", 0) as quick:
        address = FileAddress.on(quick.store.filesystem(), f"{BUCKET}/x")
        quick.asked()
        with address.open(10) as file:
            assert (file.size(), file.read(2), file.read_at(3, 4)) == (10, b"01", b"456")
            assert (file.seek(-2, 2), file.tell(), file.read()) == (8, 8, b"89")
            assert file.read_at(5, 8) == b"89"
        assert {one.method for one, _ in quick.asked()} == {"GET"}
        with address.open_whole(10) as file:
            assert file.read() == b"0123456789"
        assert [one.method for one, _ in quick.asked()] == ["GET"]
        with address.open(11) as file, pytest.raises(CorruptionError, match="11 bytes"):
            file.read_at(5, 0)
        with address.open(9) as file, pytest.raises(CorruptionError, match="9 bytes"):
            file.read_at(5, 0)
        gone = FileAddress.on(quick.store.filesystem(), f"{BUCKET}/gone")
        with gone.open(9) as file, pytest.raises(FileNotFoundError):
            file.read_at(5, 0)
        with gone.open(9) as file, pytest.raises(FileNotFoundError):
            pq.ParquetFile(file)
