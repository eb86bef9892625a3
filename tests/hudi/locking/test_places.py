"""The places of a lock: writers in Java wait for ours there, and the other way round.

Java's providers are played by `support.hudi.java`.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.hudi.in_processes import add_one
from support.hudi.java import FileLock, StorageLock
from support.hudi.locks import (
    AUXILIARY,
    LOCK,
    STORAGE,
    is_free,
    java_lock,
    owner_in,
    put_lock,
)
from support.object_store import ObjectStore, writable_object_store

from lookupstore.errors import LockedError, LockLostError
from lookupstore.hudi import HudiTable
from lookupstore.hudi.locking import places
from lookupstore.hudi.locking.lock import TableLock, table_lock
from lookupstore.hudi.locking.owner import Owner
from lookupstore.storage.location import Location
from lookupstore.storage.lock_file import LocalLockFile, ObjectLockFile

pytestmark = pytest.mark.drawn(0.5)

ROWS = pa.table({"id": [1], "v": ["a"]})
FOLDERS = {LOCK: ".hoodie", AUXILIARY: ".hoodie/.aux"}


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with writable_object_store() as server:
        yield server


@pytest.fixture
def remote(server: ObjectStore, tmp_path: Path) -> Location:
    return Location(server.uri(f"places/{tmp_path.name}"))


@pytest.fixture
def table(tmp_path: Path) -> HudiTable:
    table = HudiTable.create(tmp_path / "t", ROWS, record_key="id", name="t")
    table.upsert(ROWS)
    return table


def files(place: Location) -> list[str]:
    return [one.name for one in place.files(recursive=True)]


def stored(place: Location) -> Any:
    return json.loads(place.read(STORAGE))


# ---- on a local disk: the provider for file systems ----------------------------------------------


def test_the_files_of_both_are_there_while_the_block_runs(tmp_path: Path) -> None:
    place = Location(tmp_path)
    theirs = [FileLock(tmp_path, folder, expire=1) for folder in FOLDERS.values()]
    with table_lock(place) as lock:
        assert files(place) == [AUXILIARY, LOCK]
        lock.check()
        assert not any(one.try_lock() for one in theirs)
        # Each of Java's would go by the time of its file.
        for name in FOLDERS:
            os.utime(tmp_path / name, (1, 1))
        assert lock.renew()
        assert not any(one.try_lock() for one in theirs)
        lock.check()
    assert files(place) == []
    assert all(one.try_lock() for one in theirs)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_lock_of_java_is_waited_for_without_holding_one(tmp_path: Path, name: str) -> None:
    place = Location(tmp_path)
    theirs = FileLock(tmp_path, FOLDERS[name])
    assert theirs.try_lock()
    message = rf"{name}: still locked by another program after 0.1 s; .* delete the file"
    with pytest.raises(LockedError, match=message), table_lock(place, wait=0.1):
        pass
    assert files(place) == [name], "what was taken before was given back, and that of Java was not"
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(run, place)
        # Java's other lock is not held while ours waits for this one.
        other = next(one for one in FOLDERS if one != name)
        until = time.monotonic() + 20
        second = FileLock(tmp_path, FOLDERS[other])
        while not second.try_lock() and time.monotonic() < until:
            time.sleep(0.001)
        assert second.file.exists()
        theirs.unlock()
        time.sleep(0.1)
        assert not done.done()
        second.unlock()
        done.result(20)
    assert files(place) == []


def run(place: Location) -> None:
    with table_lock(place, wait=20) as lock:
        lock.check()


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("then", ["gone", "taken"])
def test_java_deletes_a_lock_whosoever_it_is(tmp_path: Path, name: str, then: str) -> None:
    """As its `close` does; then nothing is completed, and nothing of others is deleted."""
    place = Location(tmp_path)
    theirs = FileLock(tmp_path, FOLDERS[name])
    with table_lock(place) as lock:
        theirs.unlock()
        if then == "taken":
            assert theirs.try_lock()
        with pytest.raises(LockLostError, match=f"{name}: another writer has it now, or deleted"):
            lock.check()
        assert not lock.renew()
    assert files(place) == ([name] if then == "taken" else [])


@pytest.mark.parametrize("names", [[LOCK], [AUXILIARY], [LOCK, AUXILIARY]])
def test_a_writer_that_died_between_two_places(tmp_path: Path, names: list[str]) -> None:
    place = Location(tmp_path)
    dead = replace(Owner.here(), started="1")
    for name in names:
        place.create(name, dead.to_json())
    began = time.monotonic()
    with table_lock(place) as lock:
        lock.check()
        assert owner_in(place) == lock.owner
    assert time.monotonic() - began < 5
    assert files(place) == []


def test_a_write_does_not_end_while_java_has_the_lock(
    table: HudiTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = FileLock(tmp_path / "t", ".hoodie/.aux")
    real = TableLock.acquire
    times: list[float] = []

    def acquire(lock: TableLock, wait: float) -> None:
        times.append(wait)
        if len(times) == 2:  # that of the commit
            assert theirs.try_lock()
            with pytest.raises(LockedError, match=r"\.aux/lock"):
                real(lock, 0.2)
            assert [one.is_completed for one in table.timeline()] == [True, False]
            theirs.unlock()
        real(lock, wait)

    monkeypatch.setattr(TableLock, "acquire", acquire)
    assert table.upsert(pa.table({"id": [2], "v": ["b"]})).rows_inserted == 1
    assert [one.is_completed for one in table.timeline()] == [True, True]


def test_a_folder_that_is_in_the_way(tmp_path: Path) -> None:
    place = Location(tmp_path)
    (tmp_path / ".hoodie").mkdir()
    (tmp_path / ".hoodie" / ".aux").write_bytes(b"")
    with pytest.raises(OSError, match=r"\.aux"), table_lock(place, wait=0.1):
        pass
    assert files(place) == [".hoodie/.aux"]


# ---- on S3: the provider for object stores -------------------------------------------------------


def test_the_object_is_what_java_reads(remote: Location) -> None:
    theirs = StorageLock.at(remote)
    before = time.time() * 1000
    with table_lock(remote, owner=Owner.here("nightly")) as lock:
        held = stored(remote)
        assert list(held) == ["expired", "validUntil", "owner", "lookupstore"]
        assert held["expired"] is False
        assert held["owner"].startswith("lookupstore nightly ")
        assert 290_000 < held["validUntil"] - before < 330_000
        assert not theirs.try_lock()
        time.sleep(0.01)
        assert lock.renew()
        assert stored(remote)["validUntil"] > held["validUntil"]
        assert not theirs.try_lock()
        lock.check()
    assert files(remote) == [STORAGE]
    assert stored(remote)["expired"] is True
    assert theirs.try_lock()


@pytest.mark.parametrize(
    ("said", "holder"),
    [
        ({}, "'a-uuid', of another program"),
        ({"owner": "x" * 1000}, f"'{'x' * 80}', of another program"),
        ({"lookupstore": {"owner": {}}}, "'a-uuid', of another program"),
        # Nobody can tell until when these last, Java neither.
        (b"", "another program"),
        (b"[]", "another program"),
        (b'{"expired":true}', "another program"),
        ({"expired": "true"}, "another program"),
        ({"expired": None}, "another program"),
        ({"owner": None, "seconds": -1000}, "another program"),
    ],
)
def test_a_lock_that_lives_is_waited_for(
    remote: Location, said: Any, holder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = said if isinstance(said, bytes) else java_lock(**said)
    monkeypatch.setattr(places, "_STILL", 0.05)
    remote.create(STORAGE, content)
    message = rf"table_lock\.json.*: still locked by {holder} after 0.3 s; .* delete the file"
    with pytest.raises(LockedError, match=message), table_lock(remote, wait=0.3):
        pass
    assert files(remote) == [STORAGE]
    assert remote.read(STORAGE) == content


def test_a_lock_that_java_gave_back_is_free(remote: Location) -> None:
    for theirs in (StorageLock.at(remote), StorageLock.at(remote)):
        assert theirs.try_lock()
        with pytest.raises(LockedError), table_lock(remote, wait=0):
            pass
        assert theirs.unlock()
        with table_lock(remote, wait=0) as lock:
            lock.check()
            assert not theirs.renew()
            lock.check()


def test_a_lock_of_java_whose_time_is_over(
    remote: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the clock here, and for as long as Java would have renewed it."""
    monkeypatch.setattr(places, "_STILL", 1.0)
    dead = StorageLock.at(remote, ahead=-400)
    assert dead.try_lock()
    began = time.monotonic()
    with table_lock(remote, wait=20) as lock:
        assert time.monotonic() - began > 1.0
        lock.check()
        assert not dead.renew()
        assert not dead.unlock()
        lock.check()


def test_a_lock_of_java_that_is_renewed_lives_whatever_the_clock_says(
    remote: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_STILL", 1.0)
    theirs = StorageLock.at(remote, ahead=-400)
    assert theirs.try_lock()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(run, remote)
        for _ in range(10):
            time.sleep(0.2)
            assert theirs.renew()
        assert not done.done()
        assert theirs.unlock()
        done.result(20)


def test_drift_of_clocks(remote: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Java one is free half a second after its time, not before."""
    monkeypatch.setattr(places, "_STILL", -1.0)
    now = 1_800_000_000.25
    monkeypatch.setattr(places.time, "time", lambda: now)
    for over, is_free_by_then in ((-1, False), (0, False), (500, False), (501, True)):
        until = round(now * 1000) - over
        content = json.dumps({"expired": False, "validUntil": until, "owner": "u"}).encode()
        remote.replace(STORAGE, content)
        lock = TableLock(remote, Owner.here(), 30)
        with lock.owner.at_work():
            if is_free_by_then:
                lock.acquire(0)
                lock.check()
            else:
                with pytest.raises(LockedError):
                    lock.acquire(0)


def test_a_lock_that_java_has_taken_is_lost(remote: Location) -> None:
    """A clock of Java's that is ten minutes ahead."""
    theirs = StorageLock.at(remote, ahead=600)
    with table_lock(remote) as lock:
        assert theirs.try_lock()
        with pytest.raises(LockLostError, match=r"table_lock\.json.*: another writer has it now"):
            lock.check()
        assert not lock.renew()
        assert not lock.renew()
        with pytest.raises(LockLostError):
            lock.check()
    assert theirs.renew()


def test_among_ours_no_clock_counts(remote: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    living = replace(Owner.here("far away"), machine="other machine", pid=1)
    put_lock(remote, living, lease=1000)
    monkeypatch.setattr(places.time, "time", lambda: 4e9)
    with pytest.raises(LockedError, match="far away"), table_lock(remote, wait=0.2):
        pass


def test_a_table_on_s3_that_java_writes_too(
    server: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = HudiTable.create(server.uri(f"t/{tmp_path.name}"), ROWS, record_key="id", name="t")
    theirs = StorageLock.at(table.location)
    assert theirs.try_lock()
    with monkeypatch.context() as patch:
        real = TableLock.acquire
        patch.setattr(TableLock, "acquire", lambda lock, wait: real(lock, 0.2))
        with pytest.raises(LockedError, match="of another program"):
            table.upsert(ROWS)
        with pytest.raises(LockedError, match="of another program"):
            table.rollback(wait=0.2)
    assert table.timeline() == []
    assert theirs.unlock()
    table.upsert(ROWS)
    table.clean(retain_commits=1)
    assert table.scan(columns=["id", "v"]) == ROWS
    assert table.verify().findings == ()
    assert is_free(table.location)
    assert theirs.try_lock()


# ---- both ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [LOCK, AUXILIARY, STORAGE])
def test_of_writers_here_and_in_java_one_has_it(
    tmp_path: Path, request: pytest.FixtureRequest, name: str
) -> None:
    place = request.getfixturevalue("remote") if name == STORAGE else Location(tmp_path / "t")
    counter = tmp_path / "counter"
    counter.write_text("0")
    rounds = 8 if name == STORAGE else 20

    def as_java() -> None:
        for _ in range(rounds):
            is_object = name == STORAGE
            lock = StorageLock.at(place) if is_object else FileLock(tmp_path / "t", FOLDERS[name])
            while not lock.try_lock():
                time.sleep(0.005)
            value = int(counter.read_text())
            time.sleep(0.003)
            counter.write_text(str(value + 1))
            assert lock.unlock()

    with ThreadPoolExecutor(3) as pool:
        done = [pool.submit(as_java)]
        done += [pool.submit(add_one, place, str(counter), rounds) for _ in range(2)]
        for one in done:
            one.result(120)
    assert counter.read_text() == str(3 * rounds)


def test_places_are_given_back_last_taken_first(
    tmp_path: Path, remote: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    for kind in (LocalLockFile, ObjectLockFile):
        for verb in ("create", "give_back"):
            real = getattr(kind, verb)

            def noted(file: Any, content: bytes, real: Any = real, verb: str = verb) -> Any:
                done.append(f"{verb} {Path(file.path).parent.name}")
                return real(file, content)

            monkeypatch.setattr(kind, verb, noted)
    run(Location(tmp_path))
    assert done == ["create .hoodie", "create .aux", "give_back .aux", "give_back .hoodie"]
    done.clear()
    run(remote)
    assert done == ["create .locks", "give_back .locks"]


def test_what_cannot_be_given_back_does_not_keep_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Location(tmp_path)
    real = LocalLockFile.give_back

    def broken(file: LocalLockFile, content: bytes) -> None:
        if ".aux" in file.path:
            raise OSError(5, "injected")
        real(file, content)

    with monkeypatch.context() as patch:
        patch.setattr(LocalLockFile, "give_back", broken)
        run(place)
    assert files(place) == [AUXILIARY]
    run(place)
    assert files(place) == []


def test_a_leftover_of_a_killed_writer_of_java_is_named(table: HudiTable, tmp_path: Path) -> None:
    for name, folder in FOLDERS.items():
        assert FileLock(tmp_path / "t", folder).try_lock()
        with pytest.raises(LockedError, match=f"{name}: .* is gone, delete the file"):
            table.rollback(wait=0)
        (tmp_path / "t" / name).unlink()
        table.rollback(wait=0)
    # The folder may go as well.
    shutil.rmtree(tmp_path / "t" / ".hoodie" / ".aux")
    table.rollback(wait=0)
    assert is_free(table.location)
