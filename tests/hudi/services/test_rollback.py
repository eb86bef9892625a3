"""What dead writers left is taken back, by whoever comes next, in an order that is never seen."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from support.hudi.in_processes import roll_back_often
from support.hudi.killed_actions import ONE, make
from support.hudi.killed_actions import rows as killed_rows
from support.hudi.kills import (
    base_files,
    copied,
    count_points,
    kill_again_and_again,
    kill_at_each_point,
    leftovers,
    on_disk,
    rows_of,
)
from support.hudi.small_tables import SCHEMA, SmallTable, row
from support.hudi.versions import VERSIONS
from support.remote import FaultyDisk, Killed
from support.samples import some_of
from support.synced import synced_folders

from lookupstore.errors import CommitConflictError, FormatError, LockLostError
from lookupstore.hudi import HudiTable, Instant, State
from lookupstore.hudi.locking.heartbeat import Heartbeat, Heartbeats
from lookupstore.hudi.locking.lock import table_lock
from lookupstore.hudi.locking.owner import Owner
from lookupstore.hudi.services.rollback import check_not_rolled_back, roll_back, roll_back_pending
from lookupstore.hudi.timeline.plans import (
    InstantInfo,
    RollbackMetadata,
    RollbackPlan,
    parse_plan,
    plan_bytes,
)
from lookupstore.hudi.timeline.timeline import ROLLBACK, TimelineFolder
from lookupstore.storage.location import Location
from lookupstore.storage.naming import temporary_name


def die_writing(table: SmallTable, action: str = "commit", *, owner: Owner | None = None) -> str:
    """Begin a write, write files of it into two partitions, and die; return its time."""
    time = ""
    with (
        suppress(Killed),
        Heartbeats(table.table.location).request(table.folder, action, owner=owner) as beat,
    ):
        time = beat.instant.time
        table.folder.start(beat.instant)
        table.write(time, "a-0", [row(1, "never"), row(7, "never")], "p=1")
        table.write(time, "b-0", [row(8, "never")], "p=2")
        marker = table.path / ".hoodie" / ".temp" / time / "p=1" / "a.marker.CREATE"
        marker.parent.mkdir(parents=True)
        marker.touch()
        raise Killed
    return time


def partitioned(path: Path, version: int) -> SmallTable:
    return SmallTable(path, version, partition_by=["id"])


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_dead_writer_left_is_taken_back(tmp_path: Path, version: int) -> None:
    table = partitioned(tmp_path / "t", version)
    table.commit("a-0", [row(1, "old")], "p=1")
    before = base_files(table.path)
    time = die_writing(table)
    assert len(base_files(table.path)) == len(before) + 2
    (done,) = HudiTable.open(table.path).rollback()
    assert (done.action, done.state) == (ROLLBACK, State.COMPLETED)
    assert base_files(table.path) == before
    assert rows_of(table.path) == {1: "old"}
    assert leftovers(table.path) == []
    assert not list((table.path / ".hoodie").rglob(f"{time}*"))
    assert HudiTable.open(table.path).rollback() == []
    path = table.folder.path(done)
    plan = parse_plan(
        RollbackPlan, table.folder.read(Instant(done.time, ROLLBACK, State.REQUESTED)), path
    )
    assert plan.instant_to_rollback is not None
    assert plan.instant_to_rollback.commit_time == time
    assert {one.partition_path for one in plan.requests or ()} == {"p=1", "p=2"}
    metadata = parse_plan(RollbackMetadata, table.folder.read(done), path)
    assert metadata.commits_rollback == (time,)
    assert metadata.total_files_deleted == 2
    for partition, files in metadata.partition_metadata.items():
        assert all(one.startswith(f"file://{table.path}/{partition}/")
                   for one in files.success_delete_files)  # fmt: skip
    # And the table goes on.
    table.commit("a-0", [row(1, "new")], "p=1")
    assert rows_of(table.path) == {1: "new"}


@pytest.mark.few(1)
@pytest.mark.sampled
@pytest.mark.parametrize(("version", "first"), [(6, True), (9, True), (9, False)])
def test_rollback_killed_at_every_operation(
    tmp_path: Path, version: int, first: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also of a write that is older than the first commit: its files must not become rows."""
    table = partitioned(tmp_path / "template", version)
    if not first:
        table.commit("c-0", [row(3, "c")], "p=3")
    die_writing(table)
    table.commit("c-0", [row(3, "old")], "p=3")
    committed = [one for one in base_files(table.path) if "c-0" in one]

    def check(path: Path) -> None:
        assert rows_of(path) == {3: "old"}

    def check_end(path: Path) -> None:
        check(path)
        assert leftovers(path) == []
        assert base_files(path) == committed

    points = kill_at_each_point(table.path, tmp_path, HudiTable.rollback, check, check_end)
    attempts = kill_again_and_again(table.path, tmp_path, HudiTable.rollback, check)
    check_end(tmp_path / "again")
    assert attempts > 5
    assert points > 30
    with capsys.disabled():
        print(f"\nrollback, version {version}: {points} points of failure")


@pytest.mark.few(1)
@pytest.mark.sampled
@pytest.mark.parametrize("version", [6, 9])
def test_rollback_of_the_last_commit_killed_at_every_operation(
    tmp_path: Path, version: int, capsys: pytest.CaptureFixture[str]
) -> None:
    table = partitioned(tmp_path / "template", version)
    table.commit("a-0", [row(1, "old")], "p=1")
    old = base_files(table.path)
    last = table.commit("a-0", [row(1, "new")], "p=1")

    def act(opened: HudiTable) -> None:
        # Whoever comes next ends what has begun, and does not know what was wanted.
        opened.rollback()
        assert opened.view().timeline.pending() == []
        if any(one.time == last.time for one in opened.timeline()):
            opened.rollback(last.time)

    def check(path: Path) -> None:
        # It is there, or it is gone.
        is_there = any(
            one.time == last.time for one in HudiTable.open(path).view().timeline.writes()
        )
        assert rows_of(path) == {1: "new" if is_there else "old"}

    def check_end(path: Path) -> None:
        assert rows_of(path) == {1: "old"}
        assert leftovers(path) == []
        assert base_files(path) == old

    points = kill_at_each_point(table.path, tmp_path, act, check, check_end)
    kill_again_and_again(table.path, tmp_path, act, check)
    check_end(tmp_path / "again")
    with capsys.disabled():
        print(f"\nrollback of a commit, version {version}: {points} points of failure")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_replaced_group_comes_back(tmp_path: Path, version: int) -> None:
    table = SmallTable(tmp_path / "t", version)
    table.commit("a-0", [row(1, "old")])
    overwrite = table.begin("replacecommit")
    stat = table.write(overwrite.time, "b-0", [row(1, "new")])
    overwrite = table.finish(overwrite, [stat], {"": ("a-0",)})
    assert rows_of(table.path) == {1: "new"}
    table.table.rollback(overwrite.time)
    assert rows_of(table.path) == {1: "old"}
    clustering = table.begin("replacecommit" if version == 6 else "clustering")
    stat = table.write(clustering.time, "c-0", [row(1, "old")])
    clustering = table.finish(clustering, [stat], {"": ("a-0",)})
    table.table.rollback(clustering.time)
    assert [one.id.file_id for one in table.table.file_groups()] == ["a-0"]
    assert leftovers(table.path) == []


def test_what_cannot_be_taken_back(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    first = table.commit("a-0", [row(1, "one")])
    last = table.commit("a-0", [row(1, "two")])
    with pytest.raises(ValueError, match="came after it"):
        table.table.rollback(first.time)
    with pytest.raises(ValueError, match="give the time of a commit"):
        table.table.rollback("20200101000000000")
    with pytest.raises(ValueError, match="17 digits"):
        table.table.rollback("yesterday")
    table.table.savepoint(last.time)
    with pytest.raises(ValueError, match="a savepoint keeps it"):
        table.table.rollback(last.time)
    table.table.delete_savepoint(last.time)
    table.table.clean(retain_commits=1)
    with pytest.raises(ValueError, match="a clean removed files"):
        table.table.rollback(last.time)
    assert rows_of(table.path) == {1: "two"}
    third = table.commit("b-0", [row(2, "three")])
    inflight = table.path / ".hoodie" / "timeline" / f"{third.time}.inflight"
    inflight.rename(tmp_path / "inflight")
    with pytest.raises(ValueError, match="no inflight file"):
        table.table.rollback(third.time)
    (tmp_path / "inflight").rename(inflight)
    table.table.rollback(third.time)
    assert rows_of(table.path) == {1: "two"}
    with pytest.raises(ValueError, match="is rolled back already; give the time of a commit"):
        table.table.rollback(third.time)


def test_an_archived_commit_is_named_as_such(tmp_path: Path) -> None:
    """Neither a rollback nor a savepoint reaches it, so the remedy is another one."""
    table = HudiTable.create(tmp_path / "t", pa.schema({"id": pa.int64()}), record_key="id")
    first = table.insert({"id": [1]}).instant
    assert first is not None
    for at in (2, 3, 4):
        table.insert({"id": [at]})
    table.archive(min_commits=1, max_commits=1)
    with pytest.raises(ValueError, match=r"is archived, in .*; write rows that undo what it did$"):
        table.rollback(first)
    with pytest.raises(ValueError, match="its commit is archived: write rows that undo what came"):
        table.restore(first)
    # The remedy.
    table.delete([2, 3, 4])
    assert table.scan(columns=["id"])["id"].to_pylist() == [1]


@pytest.mark.parametrize("action", ["commit", "replacecommit"])
def test_what_was_replaced_is_gone(tmp_path: Path, action: str) -> None:
    """Whoever removed it, by whatever rule."""
    table = SmallTable(tmp_path / "t", 9)
    first = table.commit("a-0", [row(1, "one")])
    instant = table.begin(action)
    if action == "commit":
        stat = table.write(instant.time, "a-0", [row(1, "two")])
        instant = table.finish(instant, [replace(stat, prev_commit=first.time)])
    else:
        stat = table.write(instant.time, "b-0", [row(1, "two")])
        instant = table.finish(instant, [stat], {"": ("a-0",)})
    (old,) = table.path.glob(f"*_{first.time}.parquet")
    old.unlink()
    with pytest.raises(ValueError, match="in file group a-0 are gone"):
        table.table.rollback(instant.time)
    assert rows_of(table.path) == {1: "two"}


def test_those_at_work_and_those_of_others_are_left_alone(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    foreign = table.begin()
    java = table.begin()
    (table.path / ".hoodie" / ".heartbeat").mkdir()
    (table.path / ".hoodie" / ".heartbeat" / java.time).touch()
    elsewhere = replace(Owner.here("far away"), machine="another", pid=1)
    theirs = die_writing(table, owner=elsewhere)
    with Heartbeats(table.table.location).request(table.folder, "commit") as beat:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert table.table.rollback() == []
        assert [str(one.message).partition(": still pending: ")[2] for one in said] == [
            f"commit {time} of another program; if you know that it died, call rollback({time!r})"
            for time in (foreign.time, java.time)
        ]
        with pytest.raises(ValueError, match="may be, still writing it"):
            table.table.rollback(beat.instant.time)
        with pytest.raises(ValueError, match="far away is, or may be"):
            table.table.rollback(theirs)
        beat.check()
        pending = {one.time for one in table.folder.load().pending()}
        assert pending == {foreign.time, java.time, theirs, beat.instant.time}
        # Who says that it is dead takes the word for it.
        with pytest.warns(UserWarning, match=f"still pending: commit {java.time} of another"):
            table.table.rollback(foreign.time)
        table.folder.start(beat.instant)
        table.finish(Instant(beat.instant.time, "commit", State.INFLIGHT), [])
    assert {one.time for one in table.folder.load().pending()} == {java.time, theirs}


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("is_inflight", [False, True])
def test_a_rollback_that_java_began_is_finished(
    tmp_path: Path, version: int, is_inflight: bool
) -> None:
    """A writer in Java requests one, and fails: it does not go past a later commit."""
    table = SmallTable(tmp_path / "t", version)
    table.commit("a-0", [row(1, "one")])
    foreign = table.begin()
    table.write(foreign.time, "b-0", [row(2, "two")])
    info = InstantInfo(foreign.time, "commit")
    rollback = table.folder.request(ROLLBACK, plan_bytes(RollbackPlan(info, ())))
    if is_inflight:
        table.folder.start(rollback)
    with pytest.warns(UserWarning, match="still pending: commit .* of another program"):
        assert table.table.rollback() == []
    (done,) = table.table.rollback(foreign.time)
    assert (done.time, done.is_completed) == (rollback.time, True)
    assert table.folder.load().pending() == []
    assert leftovers(table.path) == []
    assert rows_of(table.path) == {1: "one"}


def test_a_rollback_at_which_somebody_works_is_left_to_it(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    foreign = table.begin()
    plan = plan_bytes(RollbackPlan(InstantInfo(foreign.time, "commit"), ()))
    with Heartbeats(table.table.location).request(table.folder, ROLLBACK, plan):
        with pytest.raises(ValueError, match="may be, still rolling it back"):
            table.table.rollback(foreign.time)
        assert len(table.folder.load().pending()) == 2


@pytest.mark.parametrize("version", [6, 9])
def test_nothing_is_written_past_a_write_without_a_heartbeat(tmp_path: Path, version: int) -> None:
    """Java's only writer of a table keeps none, and cannot roll back what others wrote past."""
    table = SmallTable(tmp_path / "t", version)
    table.commit("a-0", [row(1, "one")])
    foreign = table.begin()
    rows = pa.table({"id": [1], "value": ["two"]}, schema=SCHEMA)
    for verb in (table.table.upsert, table.table.insert_overwrite_table, table.table.delete):
        with pytest.raises(CommitConflictError, match=rf"rollback\('{foreign.time}'\)") as caught:
            verb(rows)
        assert caught.value.instant == foreign.time
    with pytest.raises(CommitConflictError, match=r"nothing was written.*keeps no heartbeat"):
        table.table.upsert(rows, dry_run=True)
    assert table.folder.load().pending() == [foreign]
    beat = table.path / ".hoodie" / ".heartbeat" / foreign.time
    beat.parent.mkdir(exist_ok=True)
    beat.touch()  # as a writer in Java keeps one that has others beside it
    table.table.upsert(rows)
    beat.unlink()
    table.table.rollback(foreign.time)
    table.table.upsert(rows)
    assert rows_of(table.path) == {1: "two"}


def test_a_write_that_ends_while_heartbeats_are_listed_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its heartbeat is gone when the timeline, as it was listed, says that it is pending."""
    table = SmallTable(tmp_path / "t", 9)
    pending = table.begin()
    times = Heartbeats.times

    def late(self: Heartbeats) -> list[str]:
        if pending in table.folder.load().pending():
            table.finish(pending, [])
        return times(self)

    monkeypatch.setattr(Heartbeats, "times", late)
    table.table.upsert(pa.table({"id": [1], "value": ["two"]}, schema=SCHEMA))
    assert rows_of(table.path) == {1: "two"}


def test_an_instant_of_another_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must not look like one of ours, whose owner is dead."""
    table = SmallTable(tmp_path / "t", 9)
    times = ["20260101000000000", "20260101000000001", "20260101000000002"]
    monkeypatch.setattr(TimelineFolder, "free_times", lambda self: iter(times))
    foreign = table.folder.request_at(times[0], "commit")
    Heartbeats(table.table.location).claim(times[1])
    with (
        suppress(Killed),
        Heartbeats(table.table.location).request(table.folder, "commit") as beat,
    ):
        assert beat.instant.time == times[2]
        raise Killed
    monkeypatch.undo()
    with pytest.warns(UserWarning, match=f"still pending: commit {foreign.time} of another"):
        assert len(table.table.rollback()) == 1
    assert table.folder.load().pending() == [foreign]


def test_an_owner_elsewhere_is_dead_when_its_heart_does_not_beat(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    elsewhere = replace(Owner.here("far away"), machine="another", pid=1)
    time = die_writing(table, owner=elsewhere)
    beat = table.path / ".hoodie" / ".heartbeat" / time
    now = beat.stat().st_mtime
    heartbeats = Heartbeats(table.table.location, lease=100)
    assert not heartbeats.is_dead(time, now + 99)
    assert heartbeats.is_dead(time, now + 101)
    assert not heartbeats.is_dead(time, None)
    os.utime(beat, (now - 1000, now - 1000))
    assert len(table.table.rollback()) == 1
    assert leftovers(table.path) == []


def test_a_heart_beats_while_the_block_runs(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    with Heartbeats(table.table.location, lease=0.2).request(table.folder, "commit") as beat:
        path = table.path / ".hoodie" / ".heartbeat" / beat.instant.time
        os.utime(path, (1, 1))
        while path.stat().st_mtime < 2:
            pass
        table.finish(table.folder.start(beat.instant), [])
    assert leftovers(table.path) == []


def test_a_writer_that_was_taken_for_dead_is_told(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    location = table.table.location
    owner = Owner.here()
    stalled = Heartbeat(Heartbeats(location), Instant("", "commit", State.REQUESTED), owner)
    with suppress(Killed), Heartbeats(location).request(table.folder, "commit", owner=owner) as one:
        stalled = one
        raise Killed
    stalled.check()
    inflight = table.folder.start(stalled.instant)
    view = table.table.view()
    check_not_rolled_back(view, inflight)
    # A rollback that dies after its plan: files may be gone, though the inflight file is there.
    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr("lookupstore.hudi.services.rollback.finish", _die)
        table.table.rollback()
    with pytest.raises(CommitConflictError, match="of it has begun"):
        check_not_rolled_back(view.reloaded(), inflight)
    assert len(table.table.rollback()) == 1
    with pytest.raises(CommitConflictError, match="rolled it back"):
        check_not_rolled_back(view.reloaded(), inflight)
    with pytest.raises(CommitConflictError, match="had seen no heartbeat"):
        stalled.check()


def _die(*args: object) -> None:
    raise Killed


def test_a_writer_takes_back_what_it_began_itself(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    with Heartbeats(table.table.location).request(table.folder, "commit") as beat:
        inflight = table.folder.start(beat.instant)
        table.write(inflight.time, "a-0", [row(1, "never")])
        with table_lock(table.table.location) as lock:
            done = roll_back(table.table.view(), inflight, lock)
        assert done.action == ROLLBACK
    assert leftovers(table.path) == []
    assert base_files(table.path) == []
    with (
        table_lock(table.table.location) as lock,
        pytest.raises(ValueError, match="completed roll"),
    ):
        roll_back(table.table.view(), done, lock)


def test_nothing_is_taken_back_without_the_lock(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    die_writing(table)
    files = base_files(table.path)
    with table_lock(table.table.location) as lock:
        (table.path / ".hoodie" / "lock").unlink()
        with pytest.raises(LockLostError):
            roll_back_pending(table.table.view(), lock)
    assert base_files(table.path) == files


@pytest.mark.parametrize("version", VERSIONS)
def test_deleted_files_are_on_disk_before_their_instant_is(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power failure, no deleted file may come back once its instant is gone."""
    table = partitioned(tmp_path / "t", version)
    table.commit("a-0", [row(1, "kept")], "p=1")
    dead = die_writing(table)
    synced = synced_folders(monkeypatch)
    with table_lock(table.table.location) as lock:
        roll_back_pending(table.table.view(), lock)

    def first_without(folder: Path) -> int:
        """Return when a folder was put on disk, after which no file of the dead writer is there."""
        seen = [
            (one, at)
            for at, (one, names) in enumerate(synced)
            if one == folder and not any(dead in name for name in names)
        ]
        assert seen, folder
        return seen[0][1]

    timeline = tmp_path / "t" / table.table.options.timeline
    files = [first_without(table.path / partition) for partition in ("p=1", "p=2")]
    assert max(files) < first_without(timeline)
    # Of its two files there, the later state goes first.
    assert any(
        one == timeline and [name for name in names if dead in name] == [f"{dead}.commit.requested"]
        for one, names in synced
    )


def test_a_table_that_is_not_written_is_not_rolled_back(real_tables: Path, tmp_path: Path) -> None:
    table = copied(real_tables / "v9_txns_nonpart_meta", tmp_path / "t")
    for verb in (table.rollback, table.savepoint, lambda: table.clean(retain_commits=1)):
        with pytest.raises(FormatError, match=r"metadata\.partitions"):
            verb()


def write_and_die(path: str) -> None:
    """Begin a write in a process of its own, and be gone."""
    table = HudiTable.open(path)
    view = table.view()
    with Heartbeats(Location(path)).request(view.folder, "commit") as beat:
        view.folder.start(beat.instant)
        os._exit(0)


def test_processes_that_roll_back_at_once(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    table.commit("a-0", [row(1, "old")])
    fork = multiprocessing.get_context("fork")
    for _ in range(5):
        writer = fork.Process(target=write_and_die, args=(str(table.path),))
        writer.start()
        writer.join()
    assert len(table.folder.load().pending()) == 5
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        done = pool.map(roll_back_often, [str(table.path)] * 3)
    assert sum(done) == 5, "each by one of them"
    assert leftovers(table.path) == []
    assert rows_of(table.path) == {1: "old"}


@pytest.mark.parametrize("kill", [True, False])
def test_an_instant_that_is_killed_while_it_is_requested(tmp_path: Path, kill: bool) -> None:
    """Before there is an instant there is its heartbeat, so that it is known whose it was."""
    table = SmallTable(tmp_path / "t", 9)
    table.commit("a-0", [row(1, "old")])
    for at in range(60):
        with pytest.MonkeyPatch.context() as patch, suppress(Killed, OSError):
            disk = on_disk(patch, FaultyDisk(at, kill=kill))
            with Heartbeats(table.table.location).request(table.folder, "commit") as beat:
                table.finish(table.folder.start(beat.instant), [])
            if len(disk.done) <= at:
                break
        table.table.rollback()
        assert leftovers(table.path) == []
    else:
        raise AssertionError("more operations than were tried")


@pytest.mark.sampled
def test_a_rollback_removes_what_a_killed_writer_left(tmp_path: Path) -> None:
    """Also what no instant names yet: files without a name, of locks, heartbeats and instants."""
    template = tmp_path / "template"
    make(template, 9)

    def act(table: HudiTable) -> None:
        table.upsert(killed_rows(range(1, 4), "new"), options=ONE)

    points = count_points(template, tmp_path, act)
    assert points > 30
    for at in some_of(range(points)):
        path = tmp_path / str(at)
        table = copied(template, path)
        with pytest.MonkeyPatch.context() as patch:
            on_disk(patch, FaultyDisk(at, kill=True))
            with pytest.raises(Killed):
                act(table)
        HudiTable.open(path).rollback()
        assert HudiTable.open(path).verify().findings == (), at
        assert [one for one in path.rglob("*.tmp") if one.is_file()] == [], at
        shutil.rmtree(path)


def test_a_rollback_leaves_unfinished_files_of_the_living(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 9)
    owner = Owner.here()
    heartbeats = Heartbeats(table.location)
    with heartbeats.request(table.view().folder, "commit") as beat, owner.at_work():
        names = {
            temporary_name(f"a-0_0-0-0_{beat.instant.time}.parquet"): b"",
            temporary_name(f"{beat.instant.time}.inflight"): b"",
            temporary_name("lock"): owner.to_json(),
            temporary_name("anything"): b"",
        }
        for name, content in names.items():
            (tmp_path / "t" / name).write_bytes(content)
        table.rollback()
        assert {one.name for one in (tmp_path / "t").glob("*.tmp")} == {*names}
        table.view().folder.delete(beat.instant)
    table.rollback()
    (left,) = (tmp_path / "t").glob("*.tmp")
    assert ".anything." in left.name, "whose it is, nobody knows"
    os.utime(left, (1e9, 1e9))
    table.rollback()
    assert list((tmp_path / "t").glob("*.tmp")) == []
