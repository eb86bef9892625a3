"""Operations that fail: each one that the writer does, and reads that fail or come short."""

from __future__ import annotations

import builtins
import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from support.sst_files import fresh, written

from lookupstore.errors import ClosedError, CorruptionError
from lookupstore.sst import Writer, pipeline, stored
from lookupstore.sst import pipeline as pipeline_module
from lookupstore.storage import naming as naming_module
from lookupstore.storage import output as output_module

OPERATIONS = ("open", "fsync", "link", "replace", "rename", "unlink", "close", "write")
RECORDS = [(b"%03d" % i, b"value" * 40) for i in range(60)]


class FaultyDisk:
    """A stand-in for `os` and `open` in the writer: it counts, and fails one operation."""

    def __init__(self, fail_at: int | None = None, longest_write: int = 1 << 30) -> None:
        self.fail_at = fail_at
        self.longest_write = longest_write
        self.done: list[str] = []

    def _step(self, name: str) -> None:
        self.done.append(name)
        if len(self.done) - 1 == self.fail_at:
            raise OSError(errno.ENOSPC, f"injected into {name}")

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in OPERATIONS:
            return real

        def faulty(*arguments: Any, **named: Any) -> Any:
            if name == "close":  # it closes even where it fails
                real(*arguments)
                return self._step(name)
            self._step(name)
            return real(*arguments, **named)

        return faulty

    def open_file(self, *arguments: Any, **named: Any) -> FaultyFile:
        self._step("open")
        return FaultyFile(builtins.open(*arguments, **named), self)


class FaultyFile:
    """A stand-in for the writer's file."""

    def __init__(self, file: Any, disk: FaultyDisk) -> None:
        self._file = file
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: Any) -> int:
        self._disk._step("write")
        written: int = self._file.write(data[: self._disk.longest_write])
        return written

    def close(self) -> None:
        if not self._file.closed:
            self._file.close()
            self._disk._step("close")


def write_on(disk: FaultyDisk, path: Path, overwrite: bool, threads: int = 1) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output_module, "os", disk)
        patch.setattr(naming_module, "os", disk)
        patch.setattr(output_module, "open", disk.open_file, raising=False)
        patch.setattr(output_module, "PIECE", 1500)
        patch.setattr(output_module, "WRITEBACK", 2000)
        patch.setattr(pipeline_module, "LOAD", 5000)
        with Writer(
            path, overwrite=overwrite, block_size=2000, compression="none", threads=threads
        ) as writer:
            for key, value in RECORDS:
                writer.put(key, value)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def operations(folder: Path, overwrite: bool) -> list[str]:
    disk = FaultyDisk()
    write_on(disk, folder / "clean.sst", overwrite)
    (folder / "clean.sst").unlink()
    return disk.done


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("overwrite", [False, True], ids=["link", "replace"])
def test_every_operation_fails_once(tmp_path: Path, overwrite: bool, threads: int) -> None:
    done = operations(tmp_path, overwrite)
    assert done.count("write") > 6
    assert done.count("fsync") == 2  # the file, then its folder
    assert ("replace" if overwrite else "link") in done
    assert done.index("fsync") < done.index("replace" if overwrite else "link")
    path = tmp_path / "faulty.sst"
    for at, name in enumerate(done):
        if overwrite:
            written(path, [(b"old", b"")], overwrite=True)
        before = descriptors() if sys.platform == "linux" else 0
        running = threading.active_count()
        disk = FaultyDisk(at)
        with pytest.raises(OSError, match=f"injected into {name}"):
            write_on(disk, path, overwrite, threads)
        assert threading.active_count() == running, name
        if sys.platform == "linux":
            assert descriptors() == before, name
        left = set(os.listdir(tmp_path))
        if not overwrite:
            assert left == set(), (at, name)
            continue
        assert left == {"faulty.sst"}, (at, name)
        keys = list(fresh(path))
        if "replace" in disk.done[:at]:
            assert keys == [key for key, _ in RECORDS]  # complete, but perhaps not yet durable
        else:
            assert keys == [b"old"], (at, name)


def test_short_writes(tmp_path: Path) -> None:
    """A raw file may take a part of what it is given."""
    write_on(FaultyDisk(longest_write=7), tmp_path / "short.sst", False)
    write_on(FaultyDisk(), tmp_path / "whole.sst", False)
    assert (tmp_path / "short.sst").read_bytes() == (tmp_path / "whole.sst").read_bytes()


def test_a_lost_block_cannot_be_published(tmp_path: Path) -> None:
    """Whoever catches the error and goes on must not end with a file that lacks records."""
    path = tmp_path / "lost.sst"
    first = operations(tmp_path, False).index("write")
    disk = FaultyDisk(first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output_module, "os", disk)
        patch.setattr(output_module, "open", disk.open_file, raising=False)
        patch.setattr(output_module, "PIECE", 1)
        patch.setattr(pipeline, "LOAD", 1)
        writer = Writer(path, block_size=1)
        with pytest.raises(OSError, match="injected into write"):
            writer.put(b"a", b"1")
        with pytest.raises(ClosedError):
            writer.put(b"b", b"2")
        with pytest.raises(ClosedError, match="aborted, or writing has failed; there is no file"):
            writer.close()
        with pytest.raises(ValueError, match="no file to describe"):
            _ = writer.info()
    assert os.listdir(tmp_path) == []


def test_a_failed_close_fails_again(tmp_path: Path) -> None:
    done = operations(tmp_path, False)
    disk = FaultyDisk(done.index("link"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output_module, "os", disk)
        writer = Writer(tmp_path / "x.sst")
        patch.setattr(disk, "fail_at", 1 + len(disk.done))  # fsync, then link
        with pytest.raises(OSError, match="injected into link"):
            writer.close()
        with pytest.raises(ClosedError, match="there is no file"):
            writer.close()
    assert os.listdir(tmp_path) == []


CHILD = """
import sys
from lookupstore.sst import Writer
writer = Writer(sys.argv[1], block_size=100)
for i in range(10**9):
    writer.put(b"%09d" % i, b"v" * 50)
    if i == 1000:
        print("writing", flush=True)
"""


def test_a_killed_writer_leaves_nothing_that_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "killed.sst"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child.stdout:
        assert child.stdout.readline() == "writing\n"
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert not path.exists()
    left = os.listdir(tmp_path)
    assert all(name.startswith(".killed.sst.") and name.endswith(".tmp") for name in left)
    written(path, RECORDS)  # what is left is in nobody's way
    assert len(fresh(path)) == len(RECORDS)


# -- reads


class FaultyReads:
    """A stand-in for `os` in the reader."""

    def __init__(self, pread: Any) -> None:
        self.pread = pread

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


@pytest.fixture
def unmapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand on a file system that can not map files: everything is read."""

    def refuse(descriptor: int, size: int) -> None:
        raise OSError(errno.ENODEV, "injected")

    monkeypatch.setattr(stored, "FileMap", refuse)


@pytest.mark.usefixtures("unmapped")
def test_short_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "x.sst", RECORDS, block_size=500)
    monkeypatch.setattr(
        stored, "os", FaultyReads(lambda fd, size, at: os.pread(fd, min(size, 13), at))
    )
    reader = fresh(path)
    assert list(reader.items()) == RECORDS
    reader.verify()


@pytest.mark.usefixtures("unmapped")
@pytest.mark.parametrize("dialect", ["native", "paimon"])
def test_every_read_fails_once(tmp_path: Path, dialect: str) -> None:
    """The error goes to the caller, and the next call works: nothing half-read is kept."""
    path = written(tmp_path / "x.sst", RECORDS, block_size=3000, dialect=dialect)
    calls = 0
    fail_at = -1

    def pread(descriptor: int, size: int, at: int) -> bytes:
        nonlocal calls
        calls += 1
        if calls - 1 == fail_at:
            raise OSError(errno.EIO, "injected")
        return os.pread(descriptor, size, at)

    def work() -> None:
        reader = fresh(path)
        asked = [key for key, _ in RECORDS]
        for call in (
            lambda: reader.get(asked[-1]),
            lambda: reader.lookup(asked),
            lambda: list(reader.items()),
            lambda: len(reader),
            reader.verify,
        ):
            try:
                call()
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                call()
                assert reader.lookup(asked).to_pylist() == [value for _, value in RECORDS]
                assert list(reader.items()) == RECORDS

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored, "os", FaultyReads(pread))
        work()
        total, failed_open = calls, 0
        assert total > 10
        before = descriptors() if sys.platform == "linux" else 0
        for fail_at in range(total):  # noqa: B007 - pread reads it
            calls = 0
            try:
                work()
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                failed_open += 1
        assert 0 < failed_open < 8
        if sys.platform == "linux":
            assert descriptors() == before


@pytest.mark.usefixtures("unmapped")
def test_a_read_that_ends_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "x.sst", RECORDS)
    reader = fresh(path)
    monkeypatch.setattr(stored, "os", FaultyReads(lambda fd, size, at: b""))
    with pytest.raises(CorruptionError, match=r"data block 0 of \d+ bytes, found 0"):
        reader.get(b"000")


def test_files_that_can_not_be_opened(tmp_path: Path) -> None:
    before = descriptors() if sys.platform == "linux" else 0
    with pytest.raises(FileNotFoundError):
        fresh(tmp_path / "none.sst")
    with pytest.raises(IsADirectoryError):
        fresh(tmp_path)
    if sys.platform == "linux":
        assert descriptors() == before
