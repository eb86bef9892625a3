"""Data files of remote stores: at once, damaged here or there, and more of them than have room."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs
from support.remote import Remote

import lookupstore
from lookupstore import CorruptionError, Location, LookupStore, StaleStoreError
from lookupstore.errors import DiskQuotaError
from lookupstore.hostcache.cache import Residency
from lookupstore.hostcache.copy import LocalCopy
from lookupstore.hostcache.folder import ROOM_WAIT
from lookupstore.store import files as bucket_files
from lookupstore.store.local_files import files_of
from lookupstore.store.version_files import read_newest

pytestmark = pytest.mark.drawn(0.4)

BUCKETS = 8
MODEL = {3 * i: random.Random(i).randbytes(60) + bytes(60) for i in range(8000)}
ROWS = pa.table({"id": list(MODEL), "v": list(MODEL.values())})


class SlowRemote(Remote):
    """A server that is late, and counts how many requests wait at once."""

    waiting = most = 0
    delay = 0.0
    lock = threading.Lock()

    def open_input_file(self, path: str) -> pa.NativeFile:
        with self.lock:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
        time.sleep(self.delay)
        with self.lock:
            self.waiting -= 1
        return super().open_input_file(path)


@pytest.fixture
def remote(tmp_path: Path) -> SlowRemote:
    return SlowRemote(tmp_path, "s3")


@pytest.fixture
def residency(tmp_path: Path) -> Residency:
    return Residency(tmp_path / "copies", quota=100 << 20)


def build(place: Location, **options: Any) -> list[Path]:
    """Build the store, and return the paths of its data files."""
    usual = {"buckets": BUCKETS, "compression": "none"}
    lookupstore.build(ROWS, place, key="id", **{**usual, **options}).close()
    root = Path(place.resolve("")[0].handler.folder, place.resolve("")[1])
    return [root / file.name for file in read_newest(place).files]


def check(store: LookupStore, rng: random.Random, count: int = 3000) -> None:
    """Compare what a store says with the model, by each of its ways."""
    asked = rng.choices(range(3 * len(MODEL)), k=count)
    assert store.lookup(asked)["v"].to_pylist() == [MODEL.get(key) for key in asked]
    assert store.contains(asked).to_pylist() == [key in MODEL for key in asked]
    for key in asked[:20]:
        assert store.get(key) == ({"v": MODEL[key]} if key in MODEL else None)


def scanned(store: LookupStore, **how: Any) -> list[tuple[int, bytes]]:
    table = store.scan(**how).read_all()
    return list(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


def wait_until(done: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not done():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_cold_batch_asks_buckets_at_once(
    remote: SlowRemote, residency: Residency, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    build(remote.location())
    monkeypatch.setattr(LocalCopy, "download", lambda copy: None)
    with LookupStore(remote.location(), residency=residency) as store:
        remote.delay = 0.1
        check(store, random.Random(seed))
        assert 1 < remote.most <= bucket_files.AT_ONCE


def test_an_error_of_one_bucket_ends_the_batch(remote: SlowRemote, residency: Residency) -> None:
    files = build(remote.location())
    files[3].unlink()
    with LookupStore(remote.location(), residency=residency) as store:
        for _ in range(2):
            with pytest.raises(CorruptionError, match=f"{files[3].name}.* no file"):
                store.lookup(list(MODEL))
        shutil.rmtree(files[0].parents[1] / "versions")
        with pytest.raises(StaleStoreError, match="no version is left"):
            store.lookup(list(MODEL))


def test_a_file_that_goes_while_it_is_read(
    remote: SlowRemote, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the same error as that of a file that was never there."""
    (path,) = build(remote.location(), buckets=1)
    monkeypatch.setattr(LocalCopy, "download", lambda copy: None)
    with LookupStore(remote.location(), residency=residency) as store:
        assert store.get(0) == {"v": MODEL[0]}
        path.unlink()
        monkeypatch.setattr("lookupstore.storage.remote_file.RemoteFile.opened", gone)
        uses: list[Callable[[], object]] = [
            lambda: store.lookup(list(MODEL)),
            lambda: store.get(12_000),  # of a block in the middle
            lambda: scanned(store),
            store.verify,
        ]
        for use in uses:
            with pytest.raises(CorruptionError, match="no file"):
                use()


def gone(file: object) -> None:
    raise FileNotFoundError


def test_an_object_that_is_another_file_is_told_before_the_next_answer(
    remote: SlowRemote, residency: Residency
) -> None:
    """Its blocks are right in themselves; once its hash is known, nothing is answered any more."""
    (path,) = build(remote.location(), buckets=1)
    other = {key: bytes(120) for key in MODEL}
    changed = Remote(remote.folder, "s3").location("bucket/other")
    table = pa.table({"id": list(other), "v": list(other.values())})
    lookupstore.build(table, changed, key="id", compression="none").close()
    (wrong,) = Path(remote.folder, "bucket/other/data").glob("*.sst")
    assert wrong.stat().st_size == path.stat().st_size
    shutil.copy(wrong, path)
    with LookupStore(remote.location(), residency=residency) as store:
        uses: list[Callable[[], object]] = [
            lambda: store.get(3),
            lambda: store.lookup([3]),
            lambda: store.contains([3]),
            lambda: scanned(store),
        ]

        def is_told() -> bool:
            try:
                uses[3]()  # what needs all of a file has it downloaded
            except CorruptionError:
                return True
            return False

        wait_until(is_told)
        for use in uses * 2:
            with pytest.raises(CorruptionError, match=f"{path.name}.*XXH64"):
                use()


def plain_copies(residency: Residency) -> list[Path]:
    return sorted(Path(residency.folder).glob("*-plain.sst"))


def recoded(remote: SlowRemote, residency: Residency, **options: Any) -> None:
    """Build a compressed store, and wait until its copies are plain."""
    files = build(remote.location(), compression="zstd", block_size=4096, **options)
    with LookupStore(remote.location(), residency=residency) as store:
        store.lookup(list(MODEL))
        wait_until(lambda: len(plain_copies(residency)) == len(files))
        before = files_of(store).counts()
        check(store, random.Random(0))
        after = files_of(store).counts() - before
        assert min(after.bytes_fetched, after.blocks_read, after.retries) >= 0
        assert after.blocks_read > 0, "the plain copies are read now"


@pytest.mark.few(2)
@pytest.mark.parametrize("when", ["before it is opened", "while it is open"])
@pytest.mark.parametrize("damage", ["bits", "cut"])
def test_a_plain_copy_that_is_damaged_is_made_again(
    remote: SlowRemote, residency: Residency, when: str, damage: str, seed: int
) -> None:
    rng = random.Random(seed)
    recoded(remote, residency, buckets=2)
    uses: list[Callable[[LookupStore], None]] = [
        lambda store: check(store, rng),
        lambda store: _check_each(store, rng),
        lambda store: _equal(scanned(store), list(MODEL.items())),
        lambda store: _equal(scanned(store, reverse=True), list(MODEL.items())[::-1]),
        lambda store: _equal(scanned(store, start=999), [*MODEL.items()][333:]),
    ]
    for use in uses:
        with LookupStore(remote.location(), residency=residency) as store:
            if when == "while it is open":
                assert store.lookup([0, 3, 6, 9])["v"].to_pylist() == [
                    MODEL[key] for key in (0, 3, 6, 9)
                ]
            before = plain_copies(residency)
            assert len(before) == 2
            contents = [path.read_bytes() for path in before]
            spoil(before, damage, rng)
            use(store)
            wait_until(lambda: len(plain_copies(residency)) == 2)
            use(store)
            assert [path.read_bytes() for path in plain_copies(residency)] == contents


def spoil(paths: list[Path], damage: str, rng: random.Random) -> None:
    """Damage the later part of files, so that a scan has begun when it comes there."""
    for path in paths:
        size = path.stat().st_size
        if damage == "cut":
            os.truncate(path, size // 2)
            continue
        with open(path, "r+b") as file:
            for at in range(size // 3, size - 100_000, 1000):
                file.seek(at)
                file.write(bytes([rng.randrange(256) for _ in range(8)]))


def _check_each(store: LookupStore, rng: random.Random) -> None:
    for key in rng.sample(list(MODEL), 200):
        assert store.get(key) == {"v": MODEL[key]}


def _equal(found: object, expected: object) -> None:
    assert found == expected


def test_verify_reads_the_files_and_not_what_was_made_of_them(
    remote: SlowRemote, residency: Residency, seed: int
) -> None:
    rng = random.Random(seed)
    recoded(remote, residency, buckets=2)
    with LookupStore(remote.location(), residency=residency) as store:
        spoil(plain_copies(residency), "bits", rng)
        found = store.verify()
        assert (found.files, found.num_rows) == (2, len(MODEL))
        path = sorted(Path(remote.folder, "bucket/store/data").glob("*.sst"))[1]
        content = bytearray(path.read_bytes())
        content[rng.randrange(len(content))] ^= 4
        path.write_bytes(content)
        with pytest.raises(CorruptionError, match=path.name):
            store.verify()
        check(store, rng)  # from copies that are right


def test_more_buckets_than_have_room(
    remote: SlowRemote,
    tmp_path: Path,
    seed: int,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(seed)
    sizes = [path.stat().st_size for path in build(remote.location())]
    # Copies that are coming count in full, with their maps.
    residency = Residency(tmp_path / "copies", quota=2 * max(sizes) + 8192)
    with LookupStore(remote.location(), residency=residency) as store:
        for _ in range(3):
            check(store, rng, 300)
            assert residency.used <= residency.quota
        before = files_of(store).counts()
        check(store, rng)
        assert files_of(store).counts().bytes_fetched > before.bytes_fetched
    (told,) = [one.message for one in caplog.records if "stay slow" in one.message]
    assert f"may take {residency.quota:,} bytes" in told
    assert "set LOOKUPSTORE_CACHE_BYTES to more" in told
    caplog.clear()
    enough = Residency(tmp_path / "enough", quota=sum(sizes) + 65536)
    monkeypatch.setattr("lookupstore.hostcache.cache.told_slow", set())
    with LookupStore(remote.location(), residency=enough) as store:
        check(store, rng)
    assert "stay slow" not in caplog.text
    small = Residency(tmp_path / "small", quota=max(sizes) // 2)
    with LookupStore(remote.location(), residency=small) as store:
        started = time.monotonic()
        with pytest.raises(DiskQuotaError, match="raise LOOKUPSTORE_CACHE_BYTES"):
            store.lookup(list(MODEL))
        assert time.monotonic() - started < ROOM_WAIT / 2
    assert "stay slow" not in caplog.text  # the error has said it


def test_a_store_that_is_not_asked_gives_its_room_to_one_that_is(
    remote: SlowRemote, residency: Residency, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    size = sum(path.stat().st_size for path in build(remote.location()))
    residency = Residency(tmp_path / "copies", quota=size * 3 // 2)
    other = {key: value[::-1] for key, value in MODEL.items()}
    place = remote.location("bucket/other")
    table = pa.table({"id": list(other), "v": list(other.values())})
    lookupstore.build(table, place, key="id", buckets=BUCKETS).close()
    with (
        LookupStore(remote.location(), residency=residency) as one,
        LookupStore(place, residency=residency) as two,
    ):
        for _ in range(3):
            check(one, rng)
            keys = rng.sample(list(other), 100)
            assert two.lookup(keys)["v"].to_pylist() == [other[key] for key in keys]
            assert residency.used <= residency.quota


def test_room_is_shared_when_it_gets_short(remote: SlowRemote, tmp_path: Path, seed: int) -> None:
    """What nobody has open any more goes for another store, whoever had it open."""
    rng = random.Random(seed)
    size = sum(path.stat().st_size for path in build(remote.location()))
    for factor, shared in ((4, False), (1.5, True)):
        residency = Residency(tmp_path / f"copies{factor}", quota=int(size * factor))
        needed = {"nbytes": int(size * 1.2), "xxh64": "0" * 16}
        with LookupStore(remote.location(), residency=residency) as store:
            check(store, rng)
            files_of(store).share_room()
            if shared:
                wait_until(partial(all_unused, residency))
                residency.pin(fs.LocalFileSystem(), "x", **needed).close()
            else:
                assert not all_unused(residency)
            check(store, rng)


def all_unused(residency: Residency) -> bool:
    for path in Path(residency.folder).glob("*.sst"):
        with open(path, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
    return True


def test_counts_are_of_one_store(
    remote: SlowRemote, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that two stores share is counted for each from when it has it."""
    build(remote.location())
    monkeypatch.setattr(LocalCopy, "download", lambda copy: None)
    with LookupStore(remote.location(), residency=residency) as one:
        one.lookup(list(MODEL))
        before = files_of(one).counts()
        assert before.bytes_fetched > 500_000
        with LookupStore(remote.location(), residency=residency) as two:
            two.lookup(list(MODEL))
            assert files_of(two).counts().bytes_fetched == 0
        one.close()
        assert files_of(one).counts() == before
