"""Writers and readers that stand still in a wrong moment: what others do then is done in the test.

The simulator (`test_simulated_writers`) found each of these; here they come without chance.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lookupstore.errors import CommitConflictError, LockLostError, StaleStoreError
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.locking.heartbeat import Heartbeats, heartbeat_name
from lookupstore.hudi.locking.lock import TableLock, table_lock
from lookupstore.hudi.locking.owner import Owner
from lookupstore.hudi.timeline.plans import InstantInfo, RollbackPlan, plan_bytes
from lookupstore.hudi.timeline.timeline import TimelineFolder
from lookupstore.hudi.write import transaction
from lookupstore.hudi.write.transaction import Transaction
from lookupstore.storage.local import LocalFolder
from lookupstore.storage.location import Location
from lookupstore.storage.lock_file import LocalLockFile

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string(), "value": pa.string()})
LOCK = ".hoodie/lock"
ONCE = WriteOptions(retries=0)


def rows(ids: list[int], value: str) -> pa.Table:
    values = [value] * len(ids)
    return pa.table({"id": ids, "p": ["a"] * len(ids), "value": values}, schema=SCHEMA)


@pytest.fixture(params=[6, 9])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> HudiTable:
    made = HudiTable.create(
        tmp_path / "t", SCHEMA, record_key=["id"], partition_by=["p"], version=request.param
    )
    made.upsert(rows([1, 2], "first"))
    return made


def values(table: HudiTable) -> dict[int, str]:
    found = table.scan(columns=["id", "value"])
    ids = found["id"].to_pylist()
    assert len(ids) == len(set(ids))
    return dict(zip(ids, found["value"].to_pylist(), strict=True))


def write_as_if_dead(location: Location) -> str:
    """Write to the table as another writer does after the lease of the present one has ended.

    Returns:
        Time of the instant of the present writer, which is rolled back.
    """
    (time,) = Heartbeats(location).times()
    path = Path(f"{location.uri}/{heartbeat_name(time)}")
    path.write_bytes(replace(Owner.here("far away"), machine="another", pid=1).to_json())
    at = path.stat().st_mtime
    os.utime(path, (at, at - 3600))
    HudiTable.open(location).upsert(rows([2], "other"))
    return time


def before_it_ends(patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let somebody act when the next write has done all but to commit."""
    real = Transaction.complete

    def complete(*args: Any) -> Any:
        patch.setattr(Transaction, "complete", real)
        act()
        return real(*args)

    patch.setattr(Transaction, "complete", complete)


@pytest.mark.parametrize("verb", ["insert_overwrite", "insert_overwrite_table", "delete_partition"])
def test_rows_that_come_while_all_are_replaced(
    table: HudiTable, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = HudiTable.open(table.location)
    before_it_ends(monkeypatch, lambda: other.bulk_insert(rows([3], "other")))
    given = ["a"] if verb == "delete_partition" else rows([3], "mine")
    with pytest.raises(CommitConflictError, match="added rows to what this write replaces") as told:
        getattr(table, verb)(given)
    assert told.value.instant == other.timeline()[-2].time
    assert values(table) == {1: "first", 2: "first", 3: "other"}
    getattr(table, verb)(given)
    assert values(table) == ({} if verb == "delete_partition" else {3: "mine"})


def test_rows_that_come_to_another_partition(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = rows([3], "other").set_column(1, "p", pa.array(["b"]))
    before_it_ends(monkeypatch, lambda: HudiTable.open(table.location).insert(theirs))
    table.insert_overwrite(rows([4], "mine"))
    assert values(table) == {3: "other", 4: "mine"}


@pytest.mark.parametrize("what", ["heartbeat", "lock"])
def test_what_fails_after_a_commit_is_no_error(
    table: HudiTable, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise OSError(5, "injected")

    place = (Heartbeats, "delete") if what == "heartbeat" else (LocalLockFile, "give_back")
    with monkeypatch.context() as patch:
        before_it_ends(patch, lambda: patch.setattr(*place, broken))
        done = table.upsert(rows([2, 3], "new"))
    assert done.instant is not None
    assert values(table) == {1: "first", 2: "new", 3: "new"}
    # The next one puts away what is left.
    table.upsert(rows([3], "newer"))
    assert not [one for one in table.verify().findings]


def test_a_commit_whose_lock_another_takes_in_the_last_moment(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = table.location
    real = TableLock.check

    def check(lock: TableLock) -> None:
        real(lock)
        # Here it stands still, until another has taken it for dead, and is done.
        monkeypatch.setattr(TableLock, "check", real)
        location.delete(LOCK)
        HudiTable.open(location).upsert(rows([2], "other"))

    before_it_ends(monkeypatch, lambda: monkeypatch.setattr(TableLock, "check", check))
    with pytest.raises(LockLostError, match="another writer has the table's lock"):
        table.upsert(rows([1, 2], "mine"), options=ONCE)
    assert values(table) == {1: "first", 2: "other"}
    assert table.verify().is_ok


@pytest.mark.parametrize("then", ["gone", "taken"])
def test_a_lock_that_is_taken_over_before_it_is_open(
    tmp_path: Path, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Location(tmp_path)
    real = LocalFolder.create

    def create(location: LocalFolder, name: str, content: bytes) -> None:
        real(location, name, content)
        monkeypatch.setattr(LocalFolder, "create", real)
        location.delete(name)
        if then == "taken":
            real(location, name, b"theirs")

    monkeypatch.setattr(LocalFolder, "create", create)
    lock = LocalLockFile(place, LOCK)
    assert not lock.create(b"ours")
    assert lock.create(b"ours") == (then == "gone")


def test_a_lock_that_was_lost_explains_what_is_there_already(tmp_path: Path) -> None:
    place = Location(tmp_path)

    def work(*, is_lost: bool) -> None:
        with table_lock(place):
            if is_lost:
                place.delete(LOCK)
            raise FileExistsError("done by somebody else")

    with pytest.raises(LockLostError):
        work(is_lost=True)
    with pytest.raises(FileExistsError):
        work(is_lost=False)
    assert place.size(LOCK) is None


def test_a_time_that_another_action_got_meanwhile(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times are chosen from a timeline that is old by now; heartbeats of those done are gone."""
    other = HudiTable.open(table.location)
    real = TimelineFolder.free_times

    def free_times(folder: TimelineFolder) -> Iterator[str]:
        for time in real(folder):
            monkeypatch.setattr(TimelineFolder, "free_times", real)
            theirs = other.insert_overwrite(rows([1, 2], "theirs"))
            assert theirs.instant is not None
            yield theirs.instant.time
            yield time

    monkeypatch.setattr(TimelineFolder, "free_times", free_times)
    # The same times, but not the same files: strays are told by their times.
    with pytest.raises(CommitConflictError):
        table.upsert(rows([1], "mine"), options=ONCE)
    table.upsert(rows([1], "mine"))
    assert values(table) == {1: "mine", 2: "theirs"}
    times = [one.time for one in table.timeline()]
    assert len(times) == len(set(times))
    assert table.verify().is_ok


def test_a_heartbeat_that_goes_before_its_instant_is_there(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one nobody would take the instant back when its writer dies."""
    real = TimelineFolder.request_at

    def request_at(folder: TimelineFolder, time: str, *others: Any) -> Any:
        monkeypatch.setattr(TimelineFolder, "request_at", real)
        table.location.delete(heartbeat_name(time))
        return real(folder, time, *others)

    monkeypatch.setattr(TimelineFolder, "request_at", request_at)
    folder = table.view().folder
    with Heartbeats(table.location).request(folder, "commit", owner=Owner.here()) as beat:
        beat.check()
        assert [one.time for one in folder.load().pending()] == [beat.instant.time]
        folder.delete(beat.instant)


def test_a_clean_between_timeline_and_files(table: HudiTable) -> None:
    old = table.view()
    for number in range(3):
        table.upsert(rows([1, 2], str(number)))
    table.clean(retain_commits=3)
    assert values(table) == {1: "2", 2: "2"}
    with pytest.raises(StaleStoreError, match=r"removed by the clean \d+ while"):
        old.groups(None)
    now = table.view()
    table.upsert(rows([1], "later"))
    table.clean(retain_commits=2)
    # The clean retained what this one needs.
    assert len(now.groups(None)) == 1


def test_a_rollback_that_is_planned_when_its_instant_is_done(table: HudiTable) -> None:
    """Who planned it had lost the lock, and is dead: nobody may do what the plan says."""
    done = table.upsert(rows([1, 3], "new"))
    assert done.instant is not None
    target = InstantInfo(done.instant.time, "commit")
    plan = plan_bytes(RollbackPlan(target, ()))
    folder = table.view().folder
    heartbeats = Heartbeats(table.location)
    with pytest.raises(ZeroDivisionError), heartbeats.request(folder, "rollback", plan):
        raise ZeroDivisionError
    assert table.rollback() == []
    assert values(table) == {1: "new", 2: "first", 3: "new"}
    assert not folder.load().pending()
    assert table.verify().findings == ()


def test_a_rollback_between_timeline_and_files(table: HudiTable) -> None:
    done = table.upsert(rows([1, 3], "new"))
    assert done.instant is not None
    old = table.view()
    table.rollback(done.instant.time)
    with pytest.raises(StaleStoreError, match="rolled back"):
        old.groups(None)


def test_a_file_that_is_deleted_while_its_writer_stands_still(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever took the writer for dead has rolled it back, and says so by no error of its own."""
    location = table.location
    real = LocalFolder.new_file

    @contextmanager
    def new_file(where: LocalFolder, name: str) -> Iterator[Any]:
        monkeypatch.setattr(LocalFolder, "new_file", real)
        with real(where, name) as stream:
            yield stream
            write_as_if_dead(location)

    monkeypatch.setattr(LocalFolder, "new_file", new_file)
    with pytest.raises(CommitConflictError, match="was rolled back by another writer"):
        table.upsert(rows([1, 2], "mine"), options=ONCE)
    assert values(table) == {1: "first", 2: "other"}
    assert table.verify().findings == ()


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_request_that_is_deleted_before_it_has_its_name(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """Another writer takes its file for one of a dead writer: another time is requested."""
    real, lost = TimelineFolder.request_at, []

    def request_at(folder: TimelineFolder, time: str, *rest: Any) -> Any:
        if len(lost) < times:
            lost.append(time)
            raise FileNotFoundError(time)
        return real(folder, time, *rest)

    monkeypatch.setattr(TimelineFolder, "request_at", request_at)
    if times == 3:
        with pytest.raises(FileNotFoundError):
            table.upsert(rows([1], "mine"), options=ONCE)
        assert values(table) == {1: "first", 2: "first"}
    else:
        done = table.upsert(rows([1], "mine"), options=ONCE)
        assert done.instant is not None
        assert done.instant.time not in lost
        assert values(table) == {1: "mine", 2: "first"}
        assert Heartbeats(table.location).times() == []
    assert len(set(lost)) == times


def test_an_inflight_file_that_is_deleted_before_it_has_its_name(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = table.location
    real = TimelineFolder.start

    def start(folder: TimelineFolder, *rest: Any) -> Any:
        monkeypatch.setattr(TimelineFolder, "start", real)
        time = write_as_if_dead(location)
        raise FileNotFoundError(time)

    monkeypatch.setattr(TimelineFolder, "start", start)
    with pytest.raises(CommitConflictError, match="was rolled back by another writer"):
        table.upsert(rows([1, 2], "mine"), options=ONCE)
    assert values(table) == {1: "first", 2: "other"}
    assert not table.view().folder.load().pending()
    assert table.verify().findings == ()


@pytest.mark.parametrize("by", ["write", "rollback"])
def test_an_inflight_file_that_is_named_after_its_rollback(table: HudiTable, by: str) -> None:
    """Its writer, which stood still meanwhile, is killed before it can delete the file."""
    other = HudiTable.open(table.location)
    folder = table.view().folder
    with Heartbeats(table.location).request(folder, "commit") as beat:
        folder.start(beat.instant, b"never")
        folder.delete(beat.instant)
    time = beat.instant.time
    assert [one.time for one in folder.load().pending()] == [time]
    assert Heartbeats(table.location).times() == []
    if by == "write":
        assert other.upsert(rows([2], "other"), dry_run=True).instant is None
        other.upsert(rows([2], "other"))
        assert values(table) == {1: "first", 2: "other"}
    else:
        assert [one.action for one in other.rollback()] == ["rollback"]
    assert not folder.load().pending()
    assert Heartbeats(table.location).times() == []
    assert table.verify().findings == ()


def test_an_instant_of_another_program_that_is_requested_stays(table: HudiTable) -> None:
    folder = table.view().folder
    inflight = folder.start(folder.request("commit"), b"theirs")
    assert not folder.is_unrequested(inflight)
    with pytest.warns(UserWarning, match=f"still pending: commit {inflight.time} of another"):
        assert HudiTable.open(table.location).rollback() == []
    with pytest.raises(CommitConflictError, match="keeps no heartbeat"):
        table.upsert(rows([2], "mine"), options=ONCE)
    assert folder.load().pending() == [inflight]


def test_a_writer_that_requests_after_it_was_taken_for_dead_and_dies(table: HudiTable) -> None:
    """Its heartbeat stays for that; one whose owner has not come for days goes."""
    owner = replace(Owner.here("far away"), machine="another", pid=1)
    folder = table.view().folder
    woken, gone = islice(folder.free_times(), 2)
    for time, hours in ((woken, 1), (gone, 25)):
        table.location.create(heartbeat_name(time), owner.to_json())
        at = os.stat(path := f"{table.location.uri}/{heartbeat_name(time)}").st_mtime
        os.utime(path, (at, at - 3600 * hours))
    table.upsert(rows([1], "other"))
    assert Heartbeats(table.location).times() == [woken]
    folder.request_at(woken, "commit")
    table.upsert(rows([2], "new"))
    assert values(table) == {1: "other", 2: "new"}
    assert not folder.load().pending()
    assert Heartbeats(table.location).times() == []
    assert table.verify().is_ok


def test_a_write_is_taken_back_where_that_fails_once(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If its heartbeat is gone by then, nobody else knows whose it is."""
    folder = table.view().folder
    locks = []

    def complete(*args: Any) -> None:
        (time,) = Heartbeats(table.location).times()
        table.location.delete(heartbeat_name(time))
        monkeypatch.setattr(transaction, "table_lock", lock)
        raise OSError("the disk is away")

    def lock(*args: Any, **options: Any) -> Any:
        locks.append(args)
        if len(locks) == 1:
            raise OSError("the disk is away")
        return table_lock(*args, **options)

    monkeypatch.setattr(Transaction, "complete", complete)
    with pytest.raises(OSError, match="the disk is away"):
        table.upsert(rows([1], "mine"))
    assert len(locks) == 2
    assert not folder.load().pending()
    assert values(table) == {1: "first", 2: "first"}
    assert table.verify().is_ok
