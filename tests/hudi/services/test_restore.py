"""Back to a savepoint: its rows and files, whatever was done since, and wherever that is killed."""

from __future__ import annotations

import io
import json
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from support.hudi.kills import (
    base_files,
    copied,
    count_points,
    leftovers,
    on_disk,
    rows_of,
)
from support.hudi.metadata import MAINTAIN, check_listed, compact, data_of, last_commit
from support.hudi.small_tables import SmallTable, row
from support.hudi.versions import VERSIONS
from support.remote import FaultyDisk, Killed
from support.samples import LONG, some_of

from lookupstore.errors import CommitConflictError, CorruptionError
from lookupstore.hudi import HudiTable, State, WriteOptions
from lookupstore.hudi.locking.heartbeat import Heartbeats
from lookupstore.hudi.timeline.plans import (
    InstantInfo,
    RestoreMetadata,
    RestorePlan,
    RollbackPlan,
    parse_plan,
    plan_bytes,
)
from lookupstore.hudi.timeline.timeline import RESTORE, ROLLBACK, Instant

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string(), "value": pa.string()})
ONE = WriteOptions(threads=1)
OLD: dict[int, object] = {1: "old", 2: "old", 3: "old"}


def some(ids: range, value: str) -> pa.Table:
    return pa.table(
        {"id": list(ids), "p": [f"p{one % 3}" for one in ids], "value": [value] * len(ids)}
    )


def made(path: Path, version: int) -> tuple[HudiTable, str]:
    """Return a table of two commits, and the savepoint of the second."""
    table = HudiTable.create(path, SCHEMA, record_key="id", partition_by="p", version=version)
    table.insert(some(range(1, 3), "older"), options=ONE)
    table.upsert(some(range(1, 4), "old"), options=ONE)
    return table, table.savepoint(user="me").time


def writes(table: HudiTable) -> list[Instant]:
    return [one for one in table.timeline() if one.is_completed and one.is_write]


def saved_files(table: HudiTable, saved: str) -> set[str]:
    partitions = table.savepoints()[saved].partition_metadata
    return {f"{at}/{name}" for at, one in partitions.items() for name in one.savepoint_data_file}


@pytest.mark.few(1)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_table_is_as_it_was(tmp_path: Path, version: int, seed: int) -> None:
    """Whatever was done since, with cleans and rollbacks among it."""
    chosen = random.Random(seed)
    path = tmp_path / "t"
    table, saved = made(path, version)
    for turn in range(3):
        known = saved_files(table, saved)
        verbs: dict[str, Callable[[], object]] = {
            "upsert": lambda turn=turn: table.upsert(some(range(2, 9), f"new{turn}"), options=ONE),
            "insert": lambda turn=turn: table.insert(some(range(20, 24), "new"), options=ONE),
            "delete": lambda: table.delete([1, 2], options=ONE),
            "insert_overwrite": lambda: table.insert_overwrite(some(range(3, 5), "over")),
            "insert_overwrite_table": lambda: table.insert_overwrite_table(some(range(7), "all")),
            "delete_partition": lambda: table.delete_partition([table.file_groups()[0].id[0]]),
            "clean": lambda: table.clean(retain_commits=1),
            "rollback": lambda: roll_back(table),
        }
        order = [*verbs, "upsert", "clean"]
        chosen.shuffle(order)
        for verb in order:
            verbs[verb]()
        later = [one for one in writes(table) if one.time > saved]
        assert rows_of(path) != OLD
        done = table.restore(saved)
        assert [(one.action, one.state) for one in done] == [
            *[(ROLLBACK, State.COMPLETED)] * len(later),
            (RESTORE, State.COMPLETED),
        ]
        assert rows_of(path) == rows_of(path, saved) == OLD
        assert writes(table)[-1].time == saved
        assert {name for name in base_files(path) if name in known} == known
        assert not any(one.time in name for one in later for name in base_files(path))
        assert leftovers(path) == []
        assert table.verify().findings == ()
        assert table.restore(saved) == []
    # And it goes on from there.
    table.upsert(some(range(3, 6), "next"))
    assert rows_of(path) == {1: "old", 2: "old", 3: "next", 4: "next", 5: "next"}
    table.delete_savepoint(saved)
    table.clean(retain_commits=1)
    table.archive(min_commits=1, max_commits=1)
    assert rows_of(path) == {1: "old", 2: "old", 3: "next", 4: "next", 5: "next"}
    assert table.verify().findings == ()


def roll_back(table: HudiTable) -> None:
    """Take back a commit, unless a clean, also one before a restore, may have come between."""
    last = table.upsert(some(range(5), "gone")).instant
    assert last is not None
    with suppress(ValueError):
        table.rollback(last.time)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_restore_writes_down_is_what_java_does(tmp_path: Path, version: int) -> None:
    table, saved = made(tmp_path / "t", version)
    for value in ("b", "c"):
        table.upsert(some(range(1, 3), value))
    table.delete_partition(["p0"])
    going = list(reversed(writes(table)[-3:]))
    done = table.restore(saved)
    folder = table.view().folder
    timeline = Path(folder.path(done[-1])).parent
    time = done[-1].time
    names = sorted(one.name for one in timeline.iterdir() if "restore" in one.name)
    completed = f"{time}.restore" if version == 6 else f"{time}_{done[-1].completed}.restore"
    assert names == sorted([completed, f"{time}.restore.inflight", f"{time}.restore.requested"])
    assert (timeline / f"{time}.restore.inflight").read_bytes() == b""
    (plan,) = read(timeline / f"{time}.restore.requested")
    infos = [{"commitTime": one.time, "action": one.action} for one in going]
    assert plan == {
        "instantsToRollback": infos,
        "version": 2,
        "savepointToRestoreTimestamp": saved,
    }
    (result,) = read(timeline / completed)
    assert list(result) == [
        "startRestoreTime",
        "timeTakenInMillis",
        "instantsToRollback",
        "hoodieRestoreMetadata",
        "version",
        "restoreInstantInfo",
    ]
    assert result["startRestoreTime"] == time
    assert result["instantsToRollback"] == [one.time for one in going]
    assert result["restoreInstantInfo"] == infos
    assert result["version"] == 1
    rollbacks = result["hoodieRestoreMetadata"]
    assert rollbacks.keys() == {one.time for one in going}
    assert [rollbacks[one.time][0]["commitsRollback"] for one in going] == [
        [one.time] for one in going
    ]
    # Its rollbacks stay: they say that files of these instants, should some come back, are none.
    assert [one.time for one in table.timeline() if one.action == ROLLBACK] == [
        one.time for one in done[:-1]
    ]


def read(path: Path) -> list[Any]:
    return list(fastavro.reader(io.BytesIO(path.read_bytes())))


@pytest.mark.few(1)
@pytest.mark.sampled
@pytest.mark.parametrize("version", VERSIONS)
def test_a_restore_that_is_killed_is_ended_by_the_next(tmp_path: Path, version: int) -> None:
    template = tmp_path / "template"
    table, saved = made(template, version)
    table.insert_overwrite(some(range(3, 5), "over"), options=ONE)
    table.upsert(some(range(2, 9), "new"), options=ONE)
    states = [rows_of(template, one.time) for one in writes(table)[1:]]
    assert len({json.dumps(one) for one in states}) == 3
    seen = set()

    def check(path: Path) -> None:
        """It goes from the last to the savepoint, and nothing can be written on the way."""
        at = states.index(rows_of(path))
        assert rows_of(path, saved) == OLD
        found = HudiTable.open(path)
        pending = [one for one in found.view().timeline.pending() if one.action == RESTORE]
        if at == 1:
            assert pending
        if pending:
            seen.add(at)
            with pytest.raises(CommitConflictError, match="another program restores"):
                found.upsert(some(range(1, 3), "x"))
            assert any("restore" in one.path for one in found.verify().findings)

    def check_end(path: Path) -> None:
        assert rows_of(path) == OLD
        found = HudiTable.open(path)
        found.upsert(some(range(1, 2), "next"), options=ONE)
        assert rows_of(path) == {**OLD, 1: "next"}
        assert leftovers(path) == []
        findings = found.verify().findings
        assert [one for one in findings if not one.path.endswith(".tmp")] == []
        restores = [one for one in found.timeline() if one.action == RESTORE]
        assert len(restores) == 1
        content = found.view().folder.read(restores[0])
        metadata = parse_plan(RestoreMetadata, content, "")
        assert metadata.rollbacks.keys() == set(metadata.instants_to_rollback)
        assert len(metadata.rollbacks) == 2

    points = count_points(template, tmp_path, lambda table: table.restore(saved))
    for at in some_of(range(points)):
        table = copied(template, path := tmp_path / "t")
        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            on_disk(patch, FaultyDisk(at, kill=True))
            table.restore(saved)
        check(path)
        table.restore(saved)
        check_end(path)
        shutil.rmtree(path)
    assert seen == {0, 1, 2} or (seen < {0, 1, 2} and not LONG)
    assert points > 30


@pytest.mark.parametrize("version", VERSIONS)
def test_a_killed_restore_goes_to_its_own_savepoint_only(tmp_path: Path, version: int) -> None:
    path = tmp_path / "t"
    table, saved = made(path, version)
    first = writes(table)[0].time
    table.savepoint(first)
    table.upsert(some(range(1, 3), "new"))
    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr("lookupstore.hudi.services.restore.withdraw", killed)
        table.restore(saved)
    (pending,) = table.view().timeline.pending()
    assert pending.action == RESTORE
    with pytest.raises(ValueError, match=f"savepoints keep later commits, {saved}"):
        table.restore(first)
    # One that kept no later commit, had somebody deleted that savepoint.
    shutil.move(next(path.rglob(f"{saved}*savepoint")), tmp_path / "moved")
    (
        path / Path(f".hoodie/{'' if version == 6 else 'timeline'}/{saved}.savepoint.inflight")
    ).unlink()
    with pytest.raises(ValueError, match=f"to another savepoint is not completed, to {saved}"):
        table.restore(first)


def killed(*args: object) -> None:
    raise Killed


@pytest.mark.parametrize("version", VERSIONS)
def test_what_cannot_be_restored_is_refused(tmp_path: Path, version: int) -> None:
    path = tmp_path / "t"
    table, saved = made(path, version)
    first = writes(table)[0].time
    table.upsert(some(range(1, 3), "new"))
    advice = rf"make one with savepoint\('{first}'\), then restore to it"
    refused(path, first, ValueError, f"has no savepoint; savepoints: {saved}; {advice}")
    with pytest.raises(ValueError, match="savepoint is 'yesterday'; give the time of an instant"):
        table.restore("yesterday")
    last = table.savepoint().time
    refused(path, saved, ValueError, f"savepoints keep later commits, {last}; delete them first")
    table.delete_savepoint(last)
    # One that is half made keeps its commit, too.
    table.view().folder.start_savepoint(last)
    refused(path, saved, ValueError, f"savepoints keep later commits, {last}; delete them first")
    table.delete_savepoint(last)
    # Nobody knows of a writer in Java whether it lives.
    folder = table.view().folder
    java = folder.start(folder.request("commit"))
    refused(path, saved, CommitConflictError, "another program is, or may be, still writing it")
    folder.delete(java, replace(java, state=State.REQUESTED))
    heartbeats = Heartbeats(table.location)
    with heartbeats.request(folder, "commit") as beat:
        ours = folder.start(beat.instant)
        refused(path, saved, CommitConflictError, "is, or may be, still writing it")
        folder.delete(ours, replace(ours, state=State.REQUESTED))
    table.restore(saved)
    assert rows_of(path) == OLD


def refused(path: Path, saved: str, kind: type[Exception], match: str) -> None:
    """Check that a restore is refused before anything is changed."""
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    with pytest.raises(kind, match=match):
        HudiTable.open(path).restore(saved)
    assert before == {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize("version", VERSIONS)
def test_files_that_a_savepoint_lost_or_others_left(tmp_path: Path, version: int) -> None:
    path = tmp_path / "t"
    table, saved = made(path, version)
    table.upsert(some(range(1, 3), "new"))
    # Another program's clean, that did not look at savepoints.
    gone = path / min(saved_files(table, saved))
    shutil.move(gone, tmp_path / "gone")
    refused(path, saved, ValueError, rf"{gone.name}: gone; the table cannot be restored to {saved}")
    shutil.move(tmp_path / "gone", gone)
    # What a commit that was archived wrote counts, if it is older than all that is there.
    old = gone.with_name("stray-0_0-1-2_20200101000000000.parquet")
    shutil.copy(gone, old)
    refused(path, saved, ValueError, f"{old.name}: not a file of the savepoint")
    old.unlink()
    # An inflight file that somebody deleted.
    last = writes(table)[-1]
    inflight = Path(table.view().folder.path(table.view().folder.before(last)))
    content = inflight.read_bytes()
    inflight.unlink()
    refused(path, saved, ValueError, "the instant has no inflight file")
    inflight.write_bytes(content)
    table.restore(saved)
    assert rows_of(path) == OLD


@pytest.mark.parametrize("version", VERSIONS)
def test_a_later_commit_that_java_archived(tmp_path: Path, version: int) -> None:
    """As with `hoodie.archive.beyond.savepoint`: the savepoint stays, and later commits go."""
    path = tmp_path / "t"
    table, saved = made(path, version)
    for at in range(4):
        table.upsert(some(range(at + 1), f"new{at}"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lookupstore.hudi.services.archiver.savepoints", lambda _view: {})
        done = table.archive(min_commits=2, max_commits=2)
    assert done.first is not None
    assert done.first > saved
    refused(path, saved, ValueError, f"the commit {saved} is archived")
    # Java leaves the commit that the savepoint keeps, and takes those after it.
    folder = table.view().folder
    commit = next(one for one in done.commits if one.time == saved)
    Path(folder.path(commit)).write_bytes(b"")
    refused(path, saved, ValueError, f"which came after {saved}, is archived, in .*cannot be")


@pytest.mark.parametrize("version", [8, 9])
def test_a_commit_that_was_requested_before_and_completed_after(
    tmp_path: Path, version: int
) -> None:
    table = SmallTable(tmp_path / "t", version, partition_by=["id"])
    early = table.begin()
    table.commit("a-0", [row(1, "old")], "p=1")
    saved = table.table.savepoint().time
    stat = table.write(early.time, "b-0", [row(2, "late")], "p=2")
    table.finish(early, [stat])
    assert rows_of(table.path) == {1: "old", 2: "late"}
    done = table.table.restore(saved)
    assert [one.action for one in done] == [ROLLBACK, RESTORE]
    assert rows_of(table.path) == {1: "old"}
    assert [one.time for one in writes(table.table)] == [saved]


def begin_as_java(
    table: HudiTable, saved: str | None, infos: list[InstantInfo], state: State, version: int = 2
) -> Instant:
    """Begin a restore as a program in Java, which has no heartbeat of ours."""
    folder = table.view().folder
    plan = RestorePlan(tuple(infos), version, saved)
    begun = folder.request(RESTORE, plan_bytes(plan))
    return folder.start(begun) if state is State.INFLIGHT else begun


@pytest.mark.few(2)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
def test_a_restore_that_java_began(tmp_path: Path, version: int, state: State) -> None:
    """It had rolled back one commit of three, and let another be pending."""
    path = tmp_path / "t"
    table, saved = made(path, version)
    for value in ("b", "c", "d"):
        table.upsert(some(range(1, 3), value))
    later = [InstantInfo(one.time, one.action) for one in reversed(writes(table)[-3:])]
    table.rollback(later[0].commit_time)
    begun = begin_as_java(table, saved, later, state)
    folder = table.view().folder
    if state is State.INFLIGHT:
        folder.delete(next(one for one in writes(table) if one.time == later[1].commit_time))
    done = table.restore(saved)
    assert done[-1].time == begun.time
    assert rows_of(path) == OLD
    assert leftovers(path) == []
    assert table.verify().findings == ()
    metadata = parse_plan(RestoreMetadata, folder.read(done[-1]), "")
    assert metadata.restore_instant_info == tuple(later)
    assert metadata.rollbacks.keys() == {one.commit_time for one in later}


@pytest.mark.few(2)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
@pytest.mark.parametrize("reverts", [True, False])
def test_a_restore_of_java_that_died_in_a_rollback(
    tmp_path: Path, version: int, state: State, reverts: bool
) -> None:
    """It plans one, then lets the commit be inflight, then deletes files."""
    path = tmp_path / "t"
    table, saved = made(path, version)
    for value in ("b", "c"):
        table.upsert(some(range(1, 3), value))
    later = [InstantInfo(one.time, one.action) for one in reversed(writes(table)[-2:])]
    begin_as_java(table, saved, later, State.INFLIGHT)
    folder = table.view().folder
    rollback = folder.request(ROLLBACK, plan_bytes(RollbackPlan(later[0], ())))
    if reverts:
        folder.delete(writes(table)[-1])
    if state is State.INFLIGHT:
        folder.start(rollback)
    done = table.restore(saved)
    assert [one.action for one in done] == [ROLLBACK, ROLLBACK, RESTORE]
    assert rollback.time in {one.time for one in done}
    assert rows_of(path) == OLD
    assert leftovers(path) == []
    assert not any(later[0].commit_time in name for name in base_files(path))
    metadata = parse_plan(RestoreMetadata, folder.read(done[-1]), "")
    assert metadata.rollbacks.keys() == {one.commit_time for one in later}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plan_that_names_what_is_not_later(tmp_path: Path, version: int) -> None:
    table, saved = made(tmp_path / "t", version)
    table.upsert(some(range(1, 3), "new"))
    first, _, last = (InstantInfo(one.time, one.action) for one in writes(table))
    for infos in (
        [last, first],
        [last, replace(first, action="clean")],
        [replace(last, action="deltacommit")],
    ):
        begun = begin_as_java(table, saved, infos, State.REQUESTED)
        refused(table_path(table), saved, CorruptionError, "instantsToRollback: commits after")
        table.view().folder.delete(begun)
    begun = begin_as_java(table, None, [last], State.REQUESTED, version=1)
    refused(table_path(table), saved, ValueError, "to one that it does not name")
    table.view().folder.delete(begun)
    begun = begin_as_java(table, saved, [last], State.REQUESTED)
    Path(table.view().folder.path(begun)).write_bytes(b"Obj\x01")
    refused(table_path(table), saved, CorruptionError, "restore.requested")


def table_path(table: HudiTable) -> Path:
    return Path(table.location.uri.removeprefix("file://"))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_that_a_restore_of_java_left(tmp_path: Path, version: int) -> None:
    """Java deletes the rollbacks of a restore: then that says which commits never were."""
    path = tmp_path / "t"
    table, saved = made(path, version)
    table.upsert(some(range(1, 3), "never"), options=ONE)
    last = writes(table)[-1].time
    (left, *_) = (path / name for name in base_files(path) if last in name)
    shutil.copy(left, tmp_path / "left")
    done = table.restore(saved)
    folder = table.view().folder
    for one in done[:-1]:
        states = (replace(one, state=state, completed=None) for state in list(State)[:2])
        folder.delete(one, *states)
    table.upsert(some(range(3, 4), "new"), options=ONE)
    table.delete_savepoint(saved)
    # Without the commits before it, it counts: other readers see its rows.
    table.archive(min_commits=1, max_commits=1)
    shutil.copy(tmp_path / "left", left)
    assert "uncommitted" in {one.kind for one in table.verify().findings}
    table.rollback()
    assert not left.exists()
    assert rows_of(path) == {1: "old", 2: "old", 3: "new"}


@pytest.mark.few(2)
@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize("name", ["v9_txns_complex_meta", "v9_txns_nonpart_meta"])
def test_the_metadata_table_stays_true_or_goes(
    real_table: Callable[[str], Path], name: str, compacts: bool
) -> None:
    path = real_table(name)
    table = HudiTable.open(path)
    stored = data_of(table.scan())
    table.upsert(stored.slice(0, 3), options=WriteOptions(metadata="reduce"))
    saved = table.savepoint(metadata="maintain").time
    expected = table.scan()
    table.upsert(stored.slice(2, 3), options=MAINTAIN)
    table.insert_overwrite_table(stored.slice(0, 2), options=MAINTAIN)
    table.clean(retain_commits=1, metadata="maintain")
    if compacts:
        compact(path)
    table.upsert(stored.slice(5, 1), options=MAINTAIN)
    assert table.scan().num_rows != expected.num_rows
    table.restore(saved, metadata="maintain")
    if compacts:
        assert HudiTable.open(path).options.metadata_partitions == ()
        assert not (path / ".hoodie" / "metadata").exists()
    else:
        check_listed(path)
        table.upsert(stored.slice(0, 0), options=MAINTAIN)
        check_listed(path)
    assert last_commit(table) >= saved
    assert table.scan().sort_by("_hoodie_record_key").equals(expected.sort_by("_hoodie_record_key"))
    assert leftovers(path) == []
