"""The table's lock: one holds it at a time, the dead lose it, and nobody else does."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.hudi.in_processes import add_one, hold
from support.hudi.locks import LOCK, is_free, name_of, owner_in, put_lock
from support.object_store import ObjectStore, Proxy, object_store, writable_object_store
from support.remote import KINDS, FaultyDisk, Killed, Remote

from lookupstore.errors import FormatError, LockedError, LockLostError
from lookupstore.hudi.locking.heartbeat import Heartbeats
from lookupstore.hudi.locking.lock import TableLock, table_lock
from lookupstore.hudi.locking.owner import Owner
from lookupstore.hudi.timeline.timeline import TimelineFolder
from lookupstore.storage import lock_file
from lookupstore.storage.conditional_puts import ConditionalPuts
from lookupstore.storage.location import Location

pytestmark = pytest.mark.drawn(0.5)

spawn = multiprocessing.get_context("spawn")


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with writable_object_store() as server:
        yield server


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    if request.param == "local":
        return Location(tmp_path)
    server: ObjectStore = request.getfixturevalue("server")
    return Location(server.uri(f"lock/{tmp_path.name}"))


def elsewhere(name: str = "other") -> Owner:
    """Return an owner on another machine."""
    return replace(Owner.here(name), host="other", machine="other machine", pid=1)


def test_the_lock_is_a_file_as_long_as_the_block_runs(place: Location) -> None:
    with table_lock(place, owner=Owner.here("nightly")) as lock:
        lock.check()
        owner = owner_in(place)
        assert owner is not None
        assert owner == lock.owner
        assert owner.name == "nightly"
        assert (owner.pid, owner.is_gone) == (os.getpid(), False)
        with pytest.raises(LockedError, match="nightly"), table_lock(place, wait=0.05):
            pass
        lock.check()
    assert is_free(place)
    assert owner.is_gone
    with pytest.raises(ZeroDivisionError), table_lock(place):
        _ = 1 / 0
    assert is_free(place)
    left = [file.name for file in place.files(recursive=True)]
    assert left == ([] if place.in_place else [name_of(place)])


def test_of_threads_one_holds_it(place: Location, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: add_one(place, str(counter), 5), range(4)))
    assert counter.read_text() == "20"


def test_of_processes_one_holds_it(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    with spawn.Pool(3) as pool:
        pool.starmap(add_one, [(Location(tmp_path / "t"), str(counter), 20)] * 3)
    assert counter.read_text() == "60"


def kill_a_holder(place: Location) -> None:
    """Leave the lock of a process that was killed."""
    ready = spawn.Event()
    process = spawn.Process(target=hold, args=(place, ready))
    process.start()
    assert ready.wait(30)
    with pytest.raises(LockedError), table_lock(place, wait=0.2):
        pass
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()


def test_the_lock_of_a_process_that_was_killed(place: Location) -> None:
    kill_a_holder(place)
    assert not is_free(place)
    began = time.monotonic()
    with table_lock(place) as lock:
        lock.check()
    assert time.monotonic() - began < 5, "far below the lease"


def test_another_process_of_the_same_number_is_not_the_owner(place: Location) -> None:
    put_lock(place, replace(Owner.here(), started="1"))
    with table_lock(place, wait=5) as lock:
        lock.check()


def test_a_zombie_is_dead(place: Location) -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    started = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[19]
    while Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    assert replace(Owner.here(), pid=child, started=started).is_gone
    os.waitpid(child, 0)


def test_an_owner_of_two_things_is_at_work_until_both_end() -> None:
    owner = Owner.here()
    with owner.at_work():
        with owner.at_work():
            assert not owner.is_gone
        assert not owner.is_gone
    assert owner.is_gone


@pytest.mark.parametrize("takers", [2, 5])
def test_of_takers_of_a_dead_lock_one_gets_it(place: Location, takers: int) -> None:
    """Again and again: who gets it leaves it as a dead one does, for the others that wait."""
    inside: list[int] = []
    most: list[int] = []
    rounds = 12 if place.in_place else 4

    def take(number: int) -> None:
        for _ in range(rounds):
            lock = TableLock(place, Owner.here(str(number)), 30)
            with lock.owner.at_work():
                lock.acquire(60)
                inside.append(number)
                most.append(len(inside))
                time.sleep(0.002)
                lock.check()
                inside.remove(number)
            # Its owner is not at work any more, and it was not given back.

    with ThreadPoolExecutor(takers) as pool:
        list(pool.map(take, range(takers)))
    assert max(most) == 1
    assert len(most) == takers * rounds


def take_and_die(path: str, counter: str) -> None:
    """Add to a number under the lock, and die with it."""
    lock = TableLock(Location(path), Owner.here(), 30)
    with lock.owner.at_work():
        lock.acquire(60)
        number = int(Path(counter).read_text())
        time.sleep(0.005)
        lock.check()
        Path(counter).write_text(str(number + 1))
        os._exit(0)


def test_of_processes_that_take_a_dead_lock_one_gets_it(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    fork = multiprocessing.get_context("fork")
    processes = [
        fork.Process(target=take_and_die, args=(str(tmp_path), str(counter))) for _ in range(12)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 12
    assert counter.read_text() == "12"


@pytest.mark.parametrize("moment", ["os.unlink", "fcntl.flock"])
def test_two_takers_in_the_same_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The second one comes right before the first removes the lock, or right after it opened it."""
    place = Location(tmp_path)
    put_lock(place, replace(Owner.here(), started="1"))
    first, second = (lock_file.LocalLockFile(place, LOCK) for _ in range(2))
    seen = second.look()
    assert seen is not None
    module, name = moment.split(".")
    results = []
    real = getattr(getattr(lock_file, module), name)

    def late(*args: Any) -> None:
        monkeypatch.setattr(f"lookupstore.storage.lock_file.{moment}", real)
        results.append(second.take_over(seen, b"second"))
        real(*args)

    monkeypatch.setattr(f"lookupstore.storage.lock_file.{moment}", late)
    results.append(first.take_over(seen, b"first"))
    assert sum(results) == 1
    # And one who saw the dead lock, and acts when it has been taken over.
    third = lock_file.LocalLockFile(place, LOCK)
    assert not third.take_over(seen, b"third")
    assert place.read(LOCK) == (b"second" if results[0] else b"first")


def test_two_takers_of_an_object_in_the_same_moment(server: ObjectStore, tmp_path: Path) -> None:
    place = Location(server.uri(f"takers/{tmp_path.name}"))
    put_lock(place, replace(Owner.here(), started="1"))
    first, second = (place.lock_file(name_of(place)) for _ in range(2))
    seen = second.look()
    assert seen is not None
    assert first.take_over(seen, b"first")
    assert not second.take_over(seen, b"second")
    assert (first.is_ours(), second.is_ours()) == (True, False)
    second.give_back(b"second")
    assert place.read(name_of(place)) == b"first"


@pytest.mark.parametrize("before", ["free", "dead", "held"])
def test_a_lock_whose_answer_is_lost_is_held(
    server: ObjectStore, tmp_path: Path, before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it is the lock of a living process that does not know of it."""
    place = Location(server.uri(f"answers/{before}/{tmp_path.name}"))
    if before == "dead":
        put_lock(place, replace(Owner.here(), started="1"))
    name = "create" if before == "free" else "replace"
    real = getattr(ConditionalPuts, name)

    def lost(puts: ConditionalPuts, path: str, *others: Any) -> Any:
        done = real(puts, path, *others)
        if path.endswith(name_of(place)):
            monkeypatch.setattr(ConditionalPuts, name, real)
            raise OSError("the answer is lost")
        return done

    with ExitStack() as stack:
        if before == "held":
            lock = stack.enter_context(table_lock(place))
        monkeypatch.setattr(ConditionalPuts, name, lost)
        if before == "held":
            assert lock.renew()
        else:
            lock = stack.enter_context(table_lock(place, wait=0))
        assert getattr(ConditionalPuts, name) is real
        assert owner_in(place) == lock.owner
        assert lock.renew()
        lock.check()
    assert is_free(place)


def test_an_owner_elsewhere_is_dead_after_its_lease(place: Location) -> None:
    put_lock(place, elsewhere(), lease=0.5)
    began = time.monotonic()
    with table_lock(place, wait=20) as lock:
        lock.check()
    assert time.monotonic() - began > 0.5


@pytest.mark.few(1)
def test_an_owner_elsewhere_that_renews_is_alive(place: Location) -> None:
    lease = 0.6
    owner = replace(elsewhere("far away"), pid=os.getpid())
    with table_lock(place, owner=owner, lease=lease) as theirs:
        with pytest.raises(LockedError, match="far away"), table_lock(place, wait=3 * lease):
            pass
        theirs.check()


def test_an_owner_that_lost_its_lock_is_told(place: Location) -> None:
    with table_lock(place) as lock:
        place.delete(name_of(place))
        with pytest.raises(LockLostError, match="another writer has it"):
            lock.check()
        other = put_lock(place, elsewhere())
        with pytest.raises(LockLostError, match="another writer has it"):
            lock.check()
        assert not lock.renew()
    assert place.read(name_of(place)) == other, "not ours to give back"


def test_an_owner_that_did_not_renew_in_time_is_told(
    place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TableLock, "renew", lambda self: True)
    with table_lock(place, lease=0.05) as lock:
        time.sleep(0.1)
        with pytest.raises(LockLostError, match="not renewed"):
            lock.check()


def test_half_a_lease_after_its_renewal_a_lock_does_not_count(
    place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other half is left for what is done under the lock after it was checked."""
    lease = 1000.0  # no thread renews meanwhile
    late = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + late, sleep=time.sleep)
    monkeypatch.setattr("lookupstore.hudi.locking.lock.time", clock)
    with table_lock(place, lease=lease) as lock:
        late = 0.49 * lease
        lock.check()
        late = 0.51 * lease
        with pytest.raises(LockLostError, match="not renewed for 51"):
            lock.check()
        assert lock.renew()
        lock.check()
        late += 0.51 * lease
        with pytest.raises(LockLostError, match="not renewed for 51"):
            lock.check()


def test_a_lock_and_a_heartbeat_are_renewed_twice_in_half_a_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that one renewal may fail, and the next one still comes in time."""
    every: list[float] = []

    @contextmanager
    def noted(renew: Callable[[], bool], seconds: float) -> Iterator[None]:
        every.append(seconds)
        assert renew()
        yield

    monkeypatch.setattr("lookupstore.hudi.locking.lock.renewed", noted)
    monkeypatch.setattr("lookupstore.hudi.locking.heartbeat.renewed", noted)
    place = Location(tmp_path)
    with table_lock(place, lease=80):
        pass
    folder = TimelineFolder(place, "timeline", 9)
    with Heartbeats(place, lease=80).request(folder, "commit"):
        pass
    assert every == [20, 20]


def test_a_lock_is_not_that_of_a_child(tmp_path: Path) -> None:
    with table_lock(Location(tmp_path)) as lock:
        child = os.fork()
        if not child:
            try:
                lock.check()
            except LockLostError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    "content", [b"", b'{"lockCreateTime": "1", "lockThreadName": "main"}', b"[]", b'{"owner": 1}']
)
def test_a_lock_of_another_program_is_not_taken(tmp_path: Path, content: bytes) -> None:
    place = Location(tmp_path)
    place.create(LOCK, content)
    with (
        pytest.raises(LockedError, match="still locked by another program"),
        table_lock(place, wait=0.1),
    ):
        pass
    assert place.read(LOCK) == content


def test_it_waits_until_it_is_free(place: Location) -> None:
    place.create(name_of(place), b"{}")
    threading.Timer(0.2, lambda: place.delete(name_of(place))).start()
    with table_lock(place, wait=20) as lock:
        lock.check()


@pytest.mark.parametrize("kind", KINDS)
def test_no_lock_where_files_cannot_be_made_once(tmp_path: Path, kind: str) -> None:
    place = Remote(tmp_path, kind).location()
    with pytest.raises(FormatError, match="tables cannot be locked here"), table_lock(place):
        pass


def test_a_server_that_passes_over_conditions_is_refused(tmp_path: Path) -> None:
    with object_store(tmp_path) as server:
        careless = Proxy(server)  # it writes whatever the conditions are
        place = Location(careless.store.uri("t"))
        with pytest.raises(FormatError, match="ignores the conditions"), table_lock(place):
            pass
        careless.close()


@pytest.mark.parametrize(("wait", "lease"), [(-1, 30), (1, 0), (1, -1)])
def test_arguments(tmp_path: Path, wait: float, lease: float) -> None:
    with (
        pytest.raises(ValueError, match="give seconds"),
        table_lock(Location(tmp_path), wait=wait, lease=lease),
    ):
        pass


def patched(monkeypatch: pytest.MonkeyPatch, disk: FaultyDisk) -> None:
    monkeypatch.setattr("lookupstore.storage.local.os", disk)
    monkeypatch.setattr("lookupstore.storage.naming.os", disk)
    monkeypatch.setattr("lookupstore.storage.lock_file.os", disk)


def run(place: Location) -> None:
    with table_lock(place, wait=5) as lock:
        lock.check()


@pytest.mark.parametrize("before", ["free", "dead"])
def test_killed_at_every_operation(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whoever is killed while it takes the lock or gives it back: the next one has it at once."""

    def fresh(number: int) -> Location:
        place = Location(tmp_path / str(number))
        (tmp_path / str(number)).mkdir()
        if before == "dead":
            put_lock(place, replace(Owner.here(), started="1"))
        return place

    with monkeypatch.context() as patch:
        disk = FaultyDisk()
        place = fresh(-1)
        patched(patch, disk)
        run(place)
    points = len(disk.done)
    for at in range(points):
        for kill in (True, False):
            with monkeypatch.context() as patch:
                place = fresh(2 * at + kill)
                patched(patch, FaultyDisk(at, kill=kill))
                with suppress(Killed, OSError):
                    run(place)
            began = time.monotonic()
            run(place)
            assert time.monotonic() - began < 2
            assert is_free(place)
    assert points > 5
    with capsys.disabled():
        print(f"\nlock, {before} before: {points} points of failure")


def test_what_time_it_is_where_the_table_is(place: Location) -> None:
    with table_lock(place) as lock:
        now = lock.now()
        lock.check()
    # Arrow does not read each time that this server lists.
    assert (now is None and not place.in_place) or abs((now or 0) - time.time()) < 60
