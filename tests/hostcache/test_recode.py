"""Compressed files that become plain local copies."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import xxhash
from pyarrow import fs

from lookupstore.errors import CorruptionError
from lookupstore.hostcache.cache import Residency
from lookupstore.hostcache.folder import HostFolder, room_of
from lookupstore.hostcache.lookup_files import LookupFiles, Room
from lookupstore.hostcache.pinned_copy import PinnedCopy
from lookupstore.sst import Reader, Writer
from lookupstore.sst.cache import BlockCache

MODEL = {b"%07d" % i: b"%05d" % (i % 500) * 20 for i in range(20_000)}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "z.sst"
    with Writer(
        path,
        compression="zstd",
        source="s",
        metadata={"a": b"b"},
        value_schema=pa.schema([("x", pa.int8())]),
    ) as writer:
        writer.put_many(list(MODEL), list(MODEL.values()))
    return path


@pytest.fixture
def residency(tmp_path: Path) -> Iterator[Residency]:
    residency = Residency(tmp_path / "copies", quota=20 << 20)
    yield residency
    until = time.monotonic() + 10
    while list(Path(residency.folder).glob("making/*")):
        assert time.monotonic() < until
        time.sleep(0.01)


def pin(residency: Residency, path: Path, recode: bool = True) -> PinnedCopy:
    content = path.read_bytes()
    return residency.pin(
        fs.LocalFileSystem(),
        str(path),
        nbytes=len(content),
        xxh64=xxhash.xxh64_hexdigest(content),
        uri=f"x://{path.name}",
        recode=recode,
    )


def opened(copy: PinnedCopy) -> Reader:
    return Reader(copy.path, fill=copy.fill, cache=BlockCache(0))


def wait_until(it_is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not it_is_so():
        assert time.monotonic() < until
        time.sleep(0.01)


def wait_for_plain(copy: PinnedCopy) -> None:
    wait_until(lambda: copy.outdated)


def test_a_compressed_copy_is_recoded(residency: Residency, source: Path, tmp_path: Path) -> None:
    with Writer(tmp_path / "p.sst") as writer:
        writer.put(b"k", b"v")
    with pin(residency, source) as copy:
        assert not copy.recoded
        with opened(copy) as reader:
            before = reader.info()
            wait_for_plain(copy)
            assert reader.lookup(list(MODEL)).to_pylist() == list(MODEL.values())
    path = copy.path
    del copy, reader
    with pin(residency, source) as plain:
        assert plain.recoded
        assert plain.complete
        assert plain.wait()
        assert not plain.outdated
        reader = opened(plain)
        assert reader.path == "x://z.sst"
        assert set(reader.info().codecs or {}) == {"none"}
        assert list(reader.items()) == list(MODEL.items())
        assert reader.verify().num_records == len(MODEL)
        for name in ("num_records", "min_key", "max_key", "source", "metadata", "value_schema"):
            assert getattr(reader.info(), name) == getattr(before, name)
    # It is marked a moment after the plain copy shows; whoever holds another copy then removes it.
    wait_until(lambda: os.stat(path).st_atime_ns == 0)
    with pin(residency, tmp_path / "p.sst"):
        assert not os.path.exists(path), "what was recoded is the first to go"
        content = source.read_bytes()
        assert residency.coverage(nbytes=len(content), xxh64=xxhash.xxh64_hexdigest(content)) == (
            True,
            len(content),
        )
    with pin(residency, source, recode=False) as copy:
        assert not copy.recoded
        assert copy.wait(20)
        assert Path(copy.path).read_bytes() == source.read_bytes()


def test_a_plain_file_stays_what_it_is(residency: Residency, tmp_path: Path) -> None:
    path = tmp_path / "p.sst"
    with Writer(path) as writer:
        writer.put_many(list(MODEL), list(MODEL.values()))
    with pin(residency, path) as copy:
        assert copy.wait(20)
        time.sleep(0.3)
        assert not copy.outdated


def test_without_room_nothing_is_recoded(tmp_path: Path, source: Path, caplog: Any) -> None:
    residency = Residency(tmp_path / "copies", quota=1 << 20)
    with pin(residency, source) as copy:
        assert copy.wait(20)
        until = time.monotonic() + 10
        while "x://z.sst: lookups stay slow" not in caplog.text:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert "raise LOOKUPSTORE_CACHE_BYTES" in caplog.text
        assert "or build the store with compression='none'" in caplog.text
        assert not copy.outdated
        assert residency.used <= residency.quota


def test_what_a_dead_recoder_left(residency: Residency, source: Path) -> None:
    folder = Path(residency.folder, "making", "x")
    folder.mkdir(parents=True)
    with open(folder / "room", "xb") as file:
        file.truncate(30 << 20)
    assert residency.used >= 30 << 20
    with pin(residency, source, recode=False):
        assert not folder.exists()
        assert residency.used < 1 << 20


def test_a_plain_copy_whose_bits_rot(residency: Residency, source: Path, seed: int) -> None:
    """It cannot be repaired, so it goes, and the next one comes from the object."""
    rng = random.Random(seed)
    with pin(residency, source) as copy:
        wait_for_plain(copy)
    with pin(residency, source) as plain:
        size = os.path.getsize(plain.path)
        with open(plain.path, "r+b") as file:
            at = rng.randrange(size)
            file.seek(at)
            (byte,) = file.read(1)
            file.seek(at)
            file.write(bytes([byte ^ 1]))
        with pytest.raises(CorruptionError, match=r"x://z\.sst"):
            opened(plain).lookup(list(MODEL))
    with pin(residency, source) as copy:
        assert not copy.recoded
        assert opened(copy).lookup(list(MODEL)).to_pylist() == list(MODEL.values())
        wait_for_plain(copy)


def test_a_plain_copy_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The room for it goes before it counts itself, so that both never exceed the quota."""
    folder = HostFolder(tmp_path / "copies", quota=1 << 20)
    files = LookupFiles(folder)
    seen: list[int] = []

    def look(path: str) -> None:
        seen.append(folder._used())  # the lock is pinned

    def write(path: str, room: Room) -> None:
        look(path)
        Path(path).write_bytes(random.Random(1).randbytes(700_000))

    monkeypatch.setattr("lookupstore.hostcache.lookup_files.sync_folder", look)
    with files.make("0" * 32, 900_000, write):
        assert seen == [room_of(900_000), room_of(700_000)]
        assert folder.used == room_of(700_000)
