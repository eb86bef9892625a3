"""Compressed stores in a folder: lookups that pay for plain copies of their files."""

from __future__ import annotations

import logging
import os
import pickle
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lookupstore
from lookupstore import CorruptionError, LookupStore
from lookupstore.hostcache import cache as residency
from lookupstore.hostcache.cache import Residency
from lookupstore.hostcache.recode import BreakEven
from lookupstore.store.local_files import files_of

pytestmark = pytest.mark.drawn(0.4)

MODEL = {3 * i: random.Random(i).randbytes(30) + bytes(90) for i in range(6000)}
ROWS = pa.table({"id": list(MODEL), "v": list(MODEL.values())})


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give this test a cache folder of its own."""
    folder = tmp_path / "copies"
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(folder))
    monkeypatch.setattr(residency, "told_slow", set())
    return folder


def build(path: Path, codec: str = "zstd", **options: Any) -> Path:
    given = {"buckets": 2, "block_size": 4096, **options}
    lookupstore.build(ROWS, path, key="id", compression=codec, **given).close()
    return path


def plain(copies: Path) -> list[Path]:
    return sorted(copies.glob("*-plain.sst"))


def wait_until(done: Callable[[], object]) -> None:
    until = time.monotonic() + 30
    while not done():
        assert time.monotonic() < until
        time.sleep(0.01)


def check(store: LookupStore, rng: random.Random, count: int = 2000) -> None:
    """Compare what a store says with the model, by each of its ways."""
    asked = rng.choices(range(3 * len(MODEL)), k=count)
    assert store.lookup(asked)["v"].to_pylist() == [MODEL.get(key) for key in asked]
    assert store.contains(asked).to_pylist() == [key in MODEL for key in asked]
    for key in asked[:20]:
        assert store.get(key) == ({"v": MODEL[key]} if key in MODEL else None)


def blocks(store: LookupStore) -> int:
    """Return how many blocks there are in the files of a local store."""
    return sum(reader.info().data_blocks for reader in files_of(store).in_place.values())


def is_plain(store: LookupStore) -> bool:
    """Return whether all buckets answer from plain copies."""
    store.lookup(list(MODEL)[:100])
    opened = files_of(store).opened
    return len(opened) == 2 and all(one.recoded for one in opened.values())


def paid(path: Path, copies: Path, **options: Any) -> None:
    """Look up until the store has its plain copies."""
    with lookupstore.open(path, **options) as store:
        wait_until(lambda: is_plain(store))
    assert len(plain(copies)) == 2


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_lookups_pay_for_plain_copies(copies: Path, tmp_path: Path, codec: str, seed: int) -> None:
    rng = random.Random(seed)
    path = build(tmp_path / "s", codec)
    with lookupstore.open(path, cache_bytes=0) as store:
        count = blocks(store)
        assert count > 40
        assert store.lookup([3])["v"].to_pylist() == [MODEL[3]]
        while files_of(store).counts().blocks_read < count // 3:
            check(store, rng, 3)
        assert not copies.exists(), "a third of the blocks does not pay for a copy"
        check(store, rng)
        wait_until(lambda: is_plain(store))
        before = files_of(store).counts()
        check(store, rng)
        after = files_of(store).counts()
        check(store, rng)
        assert after.blocks_read - before.blocks_read <= count
        again = files_of(store).counts().blocks_read - after.blocks_read
        assert again <= count // 10, "in place now"
        assert store.scan().read_all().to_pydict() == ROWS.to_pydict()
        assert store.verify().num_rows == len(MODEL)
    with lookupstore.open(path, cache_bytes=0) as store:
        check(store, rng)
        assert is_plain(store), "from the first lookup on"


def test_a_plain_store_has_no_copies(copies: Path, tmp_path: Path, seed: int) -> None:
    with lookupstore.open(build(tmp_path / "s", "none"), cache_bytes=0) as store:
        for _ in range(5):
            check(store, random.Random(seed))
        time.sleep(0.2)
    assert not copies.exists()


def test_one_key_from_the_command_line_makes_no_copy(copies: Path, tmp_path: Path) -> None:
    few = pa.table({"id": range(10), "v": ["the same text"] * 10})
    lookupstore.build(few, tmp_path / "s", key="id", compression="zstd").close()
    for _ in range(3):
        command = "import sys; from lookupstore.cli import main; sys.exit(main())"
        subprocess.run([sys.executable, "-c", command, "get", str(tmp_path / "s"), "7"], check=True)
    assert plain(copies) == []


def test_break_even() -> None:
    point = BreakEven(1)
    assert not point.try_now(1), "the only block of a file stays cached"
    assert point.try_now(2)
    tries = [paid for paid in range(3, 100) if point.try_now(paid)]
    assert tries == [4, 8, 16, 32, 64]
    assert point.is_paid(3)


@pytest.mark.parametrize("damage", ["bits", "cut", "gone"])
def test_a_plain_copy_that_is_damaged(copies: Path, tmp_path: Path, damage: str, seed: int) -> None:
    rng = random.Random(seed)
    path = build(tmp_path / "s")
    for when in ("before it is opened", "while it is open"):
        paid(path, copies, cache_bytes=0)
        with lookupstore.open(path, cache_bytes=0) as store:
            if when == "while it is open":
                assert is_plain(store)
            for one in plain(copies):
                spoil(one, damage, rng)
            assert store.verify().num_rows == len(MODEL), "of the store's own files"
            for _ in range(3):
                check(store, rng)
            assert store.scan().read_all().to_pydict() == ROWS.to_pydict()
            wait_until(lambda: is_plain(store))
            check(store, rng)
            # Who has a file open goes on with it when it is gone; others make it again.
            assert len(plain(copies)) == (0 if (damage, when[:5]) == ("gone", "while") else 2)


def spoil(path: Path, damage: str, rng: random.Random) -> None:
    if damage == "gone":
        path.unlink()
        return
    if damage == "cut":
        os.truncate(path, path.stat().st_size // 2)
        return
    with open(path, "r+b") as file:
        for at in range(10_000, path.stat().st_size - 30_000, 1000):
            file.seek(at)
            file.write(rng.randbytes(8))


def test_a_file_that_is_damaged_is_told_by_its_own_name(
    copies: Path, tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is made of it, and `verify` sees it also where a good copy answers."""
    rng = random.Random(seed)
    path = build(tmp_path / "s", buckets=1)
    (file,) = (path / "data").glob("*.sst")
    good = file.read_bytes()
    file.write_bytes(good[:5000] + bytes([good[5000] ^ 1]) + good[5001:])
    with lookupstore.open(path, cache_bytes=0) as store:
        with pytest.raises(CorruptionError, match=file.name):
            store.lookup(list(MODEL))
        for _ in range(200):
            keys = rng.sample(list(MODEL)[-1000:], 50)
            assert store.lookup(keys)["v"].to_pylist() == [MODEL[key] for key in keys]
        wait_until(lambda: "lookups stay slow" in caplog.text)
        assert "XXH64" in caplog.text
        assert plain(copies) == []
    file.write_bytes(good)
    with lookupstore.open(path, cache_bytes=0) as store:
        wait_until(lambda: store.contains(list(MODEL)).true_count and plain(copies))
        file.write_bytes(good[:5000] + bytes([good[5000] ^ 1]) + good[5001:])
        check(store, rng)
        with pytest.raises(CorruptionError, match=file.name):
            store.verify()


def test_another_file_in_the_place_of_a_file_makes_no_copy(
    copies: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its blocks are right in themselves, but a copy would have the name of the right file."""
    files = []
    for name, letter in (("s", b"a"), ("other", b"b")):
        table = pa.table({"id": range(6000), "v": [letter * 100] * 6000})
        given = {"key": "id", "compression": "lz4", "block_size": 4096}
        lookupstore.build(table, tmp_path / name, **given).close()
        files += (tmp_path / name / "data").glob("*.sst")
    right, wrong = files
    assert right.stat().st_size == wrong.stat().st_size
    shutil.copy(wrong, right)
    with lookupstore.open(tmp_path / "s", cache_bytes=0) as store:
        for _ in range(3):
            store.lookup(list(range(6000)))
        wait_until(lambda: "XXH64" in caplog.text)
    assert plain(copies) == []


def test_a_quota_without_room_is_said_once(
    copies: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    seed: int,
) -> None:
    monkeypatch.setenv("LOOKUPSTORE_CACHE_BYTES", "100000")
    path = build(tmp_path / "s")
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        with lookupstore.open(path, cache_bytes=0) as store:
            for _ in range(5):
                check(store, random.Random(seed))
            wait_until(lambda: "lookups stay slow" in caplog.text)
    wait_until(lambda: all(one.name != "lookupstore-recode" for one in threading.enumerate()))
    slow = f"{path}: lookups stay slow"  # a thread of an earlier test may say so of its own
    (told,) = [one.message for one in caplog.records if one.message.startswith(slow)]
    assert "raise LOOKUPSTORE_CACHE_BYTES" in told
    assert "build the store with compression='none'" in told
    assert plain(copies) == []
    monkeypatch.setenv("LOOKUPSTORE_CACHE_BYTES", "100000000")  # as it says
    paid(path, copies, cache_bytes=0)


def test_a_cache_folder_that_cannot_be_written_is_no_error(
    copies: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    copies.write_text("no folder")
    with lookupstore.open(build(tmp_path / "s"), cache_bytes=0) as store:
        for _ in range(5):
            check(store, random.Random(seed))
        wait_until(lambda: "lookups stay slow" in caplog.text)
        check(store, random.Random(seed))


def test_a_copy_that_cannot_be_held_is_no_error(
    copies: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    path = build(tmp_path / "s")
    paid(path, copies, cache_bytes=0)
    (copies / "lock").unlink()
    (copies / "lock").mkdir()
    with lookupstore.open(path, cache_bytes=0) as store:
        for _ in range(5):
            check(store, random.Random(seed))
    told = [one.message for one in caplog.records if "cannot be used" in one.message]
    assert len(told) == 2, "once for each bucket"


def test_a_version_that_is_removed_goes_on_answering(
    copies: Path, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    path = build(tmp_path / "s")
    paid(path, copies, cache_bytes=0)
    with (
        lookupstore.open(path, cache_bytes=0) as store,
        lookupstore.open(path, cache_bytes=0) as other,
    ):
        assert is_plain(store)
        shutil.rmtree(path)
        check(store, rng)
        files_of(store).release()
        for one in plain(copies):
            one.unlink()
        check(store, rng)
        check(other, rng)


def test_copies_give_way_to_others(copies: Path, tmp_path: Path, seed: int) -> None:
    """What nobody reads now is let go of where another file needs the room."""
    rng = random.Random(seed)
    path = build(tmp_path / "s")
    paid(path, copies, cache_bytes=0)
    size = sum(one.stat().st_size for one in plain(copies))
    with LookupStore(path, residency=Residency(copies, quota=size * 3 // 2)) as store:
        check(store, rng)
        files_of(store).share_room()
        small = Residency(copies, quota=size * 3 // 2)
        small.lookup_files.make("0" * 32, size, lambda path, room: Path(path).write_bytes(b"x"))
        assert len(plain(copies)) < 2
        check(store, rng)


def test_pickles_children_and_other_processes(copies: Path, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = build(tmp_path / "s")
    script = (
        "import sys, pickle; keys = list(range(0, 18000, 3))\n"
        "store = pickle.load(sys.stdin.buffer)\n"
        "for _ in range(5): assert store.contains(keys).true_count == 6000\n"
        "import time; time.sleep(0.5); assert store.contains(keys).true_count == 6000"
    )
    with lookupstore.open(path, cache_bytes=0) as store:
        check(store, rng, 10)
        children = [
            subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
            for _ in range(3)
        ]
        for child in children:
            child.communicate(pickle.dumps(store))
            assert child.returncode == 0
        wait_until(lambda: is_plain(store))
        child = os.fork()
        if child == 0:
            try:
                check(store, rng)
                os._exit(0)
            except BaseException:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        check(store, rng)
    assert len(plain(copies)) == 2
    assert not list((copies / "making").glob("*"))
