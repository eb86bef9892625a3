"""Archival: what leaves the timeline is in the archive, no row goes, and nothing goes silently."""

from __future__ import annotations

import json
import os
import random
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.hudi import java, java_archive
from support.hudi.kills import (
    base_files,
    copied,
    count_points,
    kill_again_and_again,
    on_disk,
    rows_of,
)
from support.hudi.oracle import assert_same_rows, other_incremental, other_scan
from support.hudi.small_tables import SCHEMA, SmallTable, row
from support.hudi.versions import VERSIONS
from support.remote import FaultyDisk, Killed
from support.samples import some_of

from lookupstore.errors import (
    CommitConflictError,
    CorruptionError,
    LockLostError,
    StaleStoreError,
)
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.services.archiver import Archival
from lookupstore.hudi.timeline.lsm_timeline import LsmTimeline
from lookupstore.hudi.timeline.plans import CleanerPlan, CleanMetadata, plan_bytes
from lookupstore.hudi.timeline.timeline import CLEAN, ROLLBACK, Instant
from lookupstore.hudi.write.transaction import Transaction

pytestmark = pytest.mark.drawn(0.5)

ONE = WriteOptions(threads=1)


def some(ids: range | list[int], value: str) -> pa.Table:
    return pa.table({"id": list(ids), "value": [value] * len(ids)}, schema=SCHEMA)


def many(path: Path, version: int, count: int = 8) -> tuple[HudiTable, list[str]]:
    """Return a table of some commits to one file group, and their times."""
    table = SmallTable(path, version).table
    times = []
    for number in range(count):
        done = table.upsert(some([0, number], f"v{number}"[:2]), options=ONE) if number else (
            table.upsert(some([0], "v0"), options=ONE))  # fmt: skip
        assert done.instant is not None
        times.append(done.instant.time)
    return table, times


def active(path: Path) -> list[str]:
    return [one.time for one in HudiTable.open(path).timeline() if one.is_write]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_leaves_the_timeline_is_in_the_archive(tmp_path: Path, version: int) -> None:
    """As a reader finds it that is not ours; and every reader finds the same rows as before."""
    table, times = many(tmp_path, version)
    expected = rows_of(tmp_path)
    instants = {one.time: one for one in table.timeline()}
    said = {time: table.view().commit(instants[time]) for time in times}
    assert table.archive(min_commits=3, max_commits=8) == Archival()
    assert java_archive.known(tmp_path) == {}
    done = table.archive(min_commits=3, max_commits=7)
    assert [one.time for one in done.instants] == times[:5]
    assert (done.first, done.kept_by) == (times[5], None)
    assert active(tmp_path) == times[5:] == sorted(java.instants(tmp_path))
    assert rows_of(tmp_path) == expected
    found = java_archive.known(tmp_path)
    assert list(found) == times[:5]
    for time, (action, completed, record) in found.items():
        assert (action, completed) == ("commit", instants[time].completed)
        assert record["extraMetadata"] == said[time].extra_metadata
        assert record["operationType"] == "UPSERT"
        (stat,) = record["partitionToWriteStats"][""]
        assert (stat["path"], stat["numWrites"]) == (
            said[time].stats[""][0].path, said[time].stats[""][0].num_writes,
        )  # fmt: skip
    archive = table.view().archive
    assert sorted(archive.instants(), key=lambda one: one.time) == [
        instants[time] for time in times[:5]
    ]
    assert list(archive.commits()) == [said[time] for time in reversed(times[:5])]
    assert table.verify().findings == ()
    # What comes next goes to another file.
    for number in range(5):
        table.upsert(some([number], "w"), options=ONE)
    expected = rows_of(tmp_path)
    table.archive(min_commits=1, max_commits=1)
    assert rows_of(tmp_path) == expected
    assert len(java_archive.known(tmp_path)) == 12
    assert HudiTable.open(tmp_path).upsert(some([1], "x"), options=ONE).rows_updated == 1
    assert rows_of(tmp_path) == {**expected, 1: "x"}
    assert table.verify().findings == ()


def test_nothing_leaves_the_timeline_after_the_lock_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer may be at work on the same instants: what is archived stays where it is."""
    table, times = many(tmp_path, 9)
    add = LsmTimeline.add

    def added(self: LsmTimeline, *arguments: Any) -> None:
        add(self, *arguments)
        (tmp_path / ".hoodie" / "lock").unlink()

    before = {path.name for path in (tmp_path / ".hoodie" / "timeline").iterdir()}
    with monkeypatch.context() as patched:
        patched.setattr(LsmTimeline, "add", added)
        with pytest.raises(LockLostError):
            table.archive(min_commits=3, max_commits=7)
    assert list(java_archive.known(tmp_path)) == times[:5]
    assert before <= {path.name for path in (tmp_path / ".hoodie" / "timeline").iterdir()}
    # The next archival goes on.
    assert [one.time for one in table.archive(min_commits=3, max_commits=7).instants] == times[:5]
    assert active(tmp_path) == times[5:]
    assert list(java_archive.known(tmp_path)) == times[:5]


def test_every_file_of_an_instant_is_in_a_log(tmp_path: Path) -> None:
    """Archives of version 6 have what was requested and planned, too."""
    table, _ = many(tmp_path, 6, 2)
    table.insert_overwrite_table(some([1, 2], "o"), options=ONE)
    for number in range(4):
        table.upsert(some([number], "w"), options=ONE)
        table.clean(retain_commits=1)
    done = table.archive(min_commits=1, max_commits=1)
    actions = [one.action for one in done.instants]
    assert actions == ["commit", "commit", "replacecommit", "commit", "clean", "commit", "clean",
                       "commit"]  # fmt: skip
    (file,) = (tmp_path / ".hoodie" / "archived").glob(".commits_.archive.1_1-0-1")
    entries = list(java_archive.records(file.read_bytes()))
    assert [one["actionState"] for one in entries] == ["REQUESTED", "INFLIGHT", "COMPLETED"] * 8
    fields: dict[tuple[str, str], set[str]] = {}
    for one in entries:
        has = {name for name, value in one.items() if isinstance(value, dict)}
        fields.setdefault((one["actionType"], one["actionState"]), set()).update(has)
    assert fields == {
        ("commit", "REQUESTED"): set(),
        ("commit", "INFLIGHT"): {"hoodieCommitMetadata"},
        ("commit", "COMPLETED"): {"hoodieCommitMetadata"},
        ("replacecommit", "REQUESTED"): {"hoodieRequestedReplaceMetadata"},
        ("replacecommit", "INFLIGHT"): {"HoodieInflightReplaceMetadata"},
        ("replacecommit", "COMPLETED"): {"hoodieReplaceCommitMetadata"},
        ("clean", "REQUESTED"): {"hoodieCleanerPlan"},
        ("clean", "INFLIGHT"): {"hoodieCleanerPlan"},
        ("clean", "COMPLETED"): {"hoodieCleanMetadata"},
    }


def test_a_log_says_when_each_state_was_reached(tmp_path: Path) -> None:
    """Java takes the time for that of completion when it upgrades the table, and needs one."""
    table, times = many(tmp_path, 6, 4)
    folder = tmp_path / ".hoodie"
    moved = datetime(2026, 3, 7, 13, 56, 57, 661000, timezone.utc).timestamp()
    os.utime(folder / f"{times[0]}.commit.requested", (moved, moved))  # before the instant
    later = datetime(2036, 3, 7, 13, 56, 57, 661999, timezone.utc).timestamp()
    os.utime(folder / f"{times[0]}.commit", (later, later))
    began = {
        time: datetime.fromtimestamp((folder / f"{time}.inflight").stat().st_mtime, timezone.utc)
        for time in times
    }
    table.archive(min_commits=1, max_commits=1)
    (file,) = (folder / "archived").glob(".commits_.archive.1_1-0-1")
    reached = {
        (one["commitTime"], one["actionState"]): one["stateTransitionTime"]
        for one in java_archive.records(file.read_bytes())
    }
    assert len(reached) == 9
    assert reached[times[0], "REQUESTED"] == times[0]
    assert reached[times[0], "COMPLETED"] == "20360307135657661"
    for time in times[:3]:
        moment = began[time]
        shown = f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03d}"
        assert reached[time, "INFLIGHT"] == max(time, shown)


@pytest.mark.parametrize("version", VERSIONS)
def test_time_travel_and_changes_from_before_are_errors(tmp_path: Path, version: int) -> None:
    table, times = many(tmp_path, version)
    positions = [one.position for one in table.timeline()]
    states = {time: rows_of(tmp_path, time) for time in times}
    changes = [table.incremental(since) for since in positions]
    table.archive(min_commits=3, max_commits=3)
    for at, (time, position) in enumerate(zip(times, positions, strict=True)):
        if at < 5:
            with pytest.raises(StaleStoreError, match=f"give {times[5]} or later") as raised:
                table.scan(as_of=time)
            assert table.view().archive.shown in str(raised.value)
        else:
            assert rows_of(tmp_path, time) == states[time]
        if at < 4:
            with pytest.raises(StaleStoreError, match=f"commits up to {positions[4]} are archived"):
                table.incremental(position)
        else:
            # From the last one that is archived, nothing is missing.
            assert_same_rows(table.incremental(position), changes[at])
            assert_same_rows(table.incremental(position), other_incremental(tmp_path, position))
        # What the table was before, it needs a commit of the timeline for.
        if at < 5:
            with pytest.raises(StaleStoreError, match="are archived"):
                table.changes(position)
        else:
            was = states[time]
            for row in table.changes(position).read_all().to_pylist():
                if row["change"] in ("insert", "update_after"):
                    was[row["id"]] = row["value"]
                else:
                    assert was.pop(row["id"]) == row["value"]
            assert was == states[times[-1]]
    with pytest.raises(StaleStoreError, match=f"until is {positions[4]}, but commits before"):
        table.view().groups_until(positions[4])
    with pytest.raises(StaleStoreError, match="since is not given, but commits"):
        table.incremental()
    with pytest.raises(ValueError, match=r"whose commit is archived, in .*; write rows that undo"):
        table.rollback(times[4])
    with pytest.raises(StaleStoreError, match="are archived"):
        table.file_groups(times[0])


@pytest.mark.parametrize("version", VERSIONS)
def test_changes_since_a_savepoint_that_stayed(tmp_path: Path, version: int) -> None:
    """Java archives commits behind a savepoint, and leaves what is saved in the timeline."""
    table, times = many(tmp_path, version)
    positions = [one.position for one in table.timeline()]
    since = table.incremental(positions[4])
    table.savepoint(times[1])
    folder = tmp_path / table.options.timeline
    saved = {one: one.read_bytes() for one in folder.glob(f"{times[1]}*")}
    table.delete_savepoint(times[1])
    table.archive(min_commits=3, max_commits=3)
    for file, content in saved.items():
        file.write_bytes(content)
    assert active(tmp_path) == [times[1], *times[5:]]
    for at in range(4):
        with pytest.raises(StaleStoreError, match=f"commits up to {positions[4]} are archived"):
            table.incremental(positions[at])
    assert_same_rows(table.incremental(positions[4]), since)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_keeps_commits(tmp_path: Path, version: int) -> None:
    table, times = many(tmp_path / "saved", version)
    table.savepoint(times[2])
    done = table.archive(min_commits=1, max_commits=1)
    assert ([one.time for one in done.instants], done.first) == (times[:2], times[2])
    assert done.kept_by == f"the savepoint of {times[2]}"
    saved = rows_of(tmp_path / "saved", times[2])
    assert table.archive(min_commits=1, max_commits=1).kept_by == done.kept_by
    assert rows_of(tmp_path / "saved", times[2]) == saved
    table.delete_savepoint(times[2])
    assert table.archive(min_commits=1, max_commits=1).kept_by is None
    assert active(tmp_path / "saved") == times[7:]

    small = SmallTable(tmp_path / "pending", version)
    first, second = small.commit("a-0", [row(1, "a")]), small.commit("a-0", [row(1, "b")])
    pending = small.begin()
    small.commit("b-0", [row(2, "b")])
    small.commit("b-0", [row(2, "c")])
    done = small.table.archive(min_commits=1, max_commits=1)
    # Of what is pending, files do not count; those of the commit before it do.
    assert ([one.time for one in done.instants], done.first) == ([first.time], second.time)
    assert done.kept_by is not None
    assert done.kept_by.endswith(f"{pending.file_name}, which is not completed")
    assert rows_of(small.path) == {1: "b", 2: "c"}

    table, times = many(tmp_path / "cleaned", version)
    table.clean(retain_commits=3)
    done = table.archive(min_commits=1, max_commits=1)
    assert (done.first, done.kept_by) == (
        times[5], f"the last clean, which keeps commits from {times[5]} on",
    )  # fmt: skip
    # The clean says so, and stays.
    assert [one.action for one in table.timeline()] == ["commit"] * 3 + [CLEAN]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_replaced_files_stays_until_these_are_gone(tmp_path: Path, version: int) -> None:
    """Without it both would show, the files and those that took their place."""
    table, _ = many(tmp_path, version, 2)
    overwrite = table.insert_overwrite_table(some([8, 9], "o"), options=ONE).instant
    assert overwrite is not None
    for number in (8, 9):
        table.upsert(some([number], "u"), options=ONE)
    done = table.archive(min_commits=1, max_commits=1)
    assert done.first == overwrite.time
    assert done.kept_by is not None
    assert "which replaced files that are there: clean first" in done.kept_by
    assert rows_of(tmp_path) == {8: "u", 9: "u"}
    table.clean(retain_commits=1)
    assert table.archive(min_commits=1, max_commits=1).kept_by is None
    assert len(active(tmp_path)) == 1
    assert rows_of(tmp_path) == {8: "u", 9: "u"}
    found = java_archive.known(tmp_path)[overwrite.time]
    assert found[0] == "replacecommit"
    assert list(found[2]["partitionToReplaceFileIds"]) == [""]


def test_numbers_of_commits(tmp_path: Path) -> None:
    table, times = many(tmp_path, 9, 4)
    for least, most in ((0, 1), (3, 2), (-1, 5)):
        with pytest.raises(ValueError, match="give at least 1"):
            table.archive(min_commits=least, max_commits=most)
    assert table.archive() == Archival()
    assert table.archive(min_commits=4, max_commits=4) == Archival()
    assert active(tmp_path) == times


def test_what_shows_the_zone_stays(real_table: Any) -> None:
    """In tables that do not say UTC, the newest requested files are all that shows it."""
    path = real_table("v9_txns_simple_nometa")
    table = HudiTable.open(path)
    before = table.scan()
    assert table.options.timezone != "UTC"
    writes = [one.time for one in table.timeline() if one.is_write]
    done = table.archive(min_commits=1, max_commits=1)
    assert ([one.time for one in done.commits], done.kept_by) == (writes[:-8], None)
    assert active(path) == writes[-8:]
    assert_same_rows(table.scan(), before)
    assert_same_rows(before, other_scan(path))
    assert list(java_archive.known(path)) == writes[:-8]


def test_a_commit_that_ended_late(tmp_path: Path) -> None:
    """It is in ranges that begin after commits that came later, and ended before."""
    small = SmallTable(tmp_path, 9)
    late = small.begin()
    stat = small.write(late.time, "a-0", [row(1, "late")])
    others = [small.commit("b-0", [row(2, f"b{at}")]) for at in range(3)]
    small.finish(late, [stat])
    last = small.commit("b-0", [row(2, "end")])
    since = others[-1].position
    changed = small.table.incremental(since)
    assert set(changed["id"].to_pylist()) == {1, 2}
    assert small.table.archive(min_commits=2, max_commits=2) == Archival()
    assert_same_rows(small.table.incremental(since), changed)
    # With all that it was late for, it goes.
    done = small.table.archive(min_commits=1, max_commits=1)
    assert (len(done.instants), done.first) == (4, last.time)


@pytest.mark.parametrize("version", VERSIONS)
def test_rollbacks_and_cleans_go_with_commits(tmp_path: Path, version: int) -> None:
    table, times = many(tmp_path, version, 4)
    table.rollback(times[3])
    for number in range(3):
        table.upsert(some([number], "n"), options=ONE)
        table.clean(retain_commits=2)
    actions = [one.action for one in table.timeline()]
    assert actions.count(ROLLBACK) == 1
    assert actions.count(CLEAN) == 3
    expected = rows_of(tmp_path)
    done = table.archive(min_commits=2, max_commits=2)
    assert [one.action for one in done.instants].count(ROLLBACK) == 1
    left = [one.action for one in table.timeline()]
    # Those after the last commit that went stay.
    assert left == [CLEAN, "commit", CLEAN, "commit", CLEAN]
    assert rows_of(tmp_path) == expected
    (metadata,) = table.view().archive.rollbacks()
    assert metadata.commits_rollback == (times[3],)
    assert table.verify().findings == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_files_that_never_committed_go_before_they_would_count(
    tmp_path: Path, version: int
) -> None:
    """They are of no instant, and older than what is left."""
    small = SmallTable(tmp_path, version)
    small.commit("a-0", [row(1, "a")])
    stray = small.begin()
    small.write(stray.time, "a-0", [row(1, "never"), row(2, "never")])
    assert java.roll_back(tmp_path, stray.time) == []
    for number in range(3):
        small.commit("b-0", [row(3, f"b{number}")])
    small.table.archive(min_commits=1, max_commits=1)
    assert rows_of(tmp_path) == {1: "a", 3: "b2"}
    assert not [one for one in base_files(tmp_path) if stray.time in one]


def test_the_last_clean_stays(tmp_path: Path) -> None:
    """Java plans by it, also by one that retains versions of files, and so says no commit."""
    table, _ = many(tmp_path, 9, 2)
    folder = table.view().folder
    policy = "KEEP_LATEST_FILE_VERSIONS"
    cleans = []
    for _ in range(2):
        plan = plan_bytes(CleanerPlan(None, policy, {}))
        started = folder.start(folder.request(CLEAN, plan))
        done = CleanMetadata(policy, started.time, 1, 0, "", "", {})
        cleans.append(folder.complete(started, plan_bytes(done)))
        table.upsert(some([1], "x"), options=ONE)
    table.upsert(some([1], "y"), options=ONE)
    archived = table.archive(min_commits=1, max_commits=1)
    assert [one for one in archived.instants if one.action == CLEAN] == cleans[:1]
    assert [one for one in table.timeline() if one.action == CLEAN] == cleans[1:]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_only_commit_left_is_not_undone(tmp_path: Path, version: int) -> None:
    """Without any, no file counts that is of an archived one: the table would be empty."""
    table, times = many(tmp_path, version)
    table.archive(min_commits=1, max_commits=1)
    expected = rows_of(tmp_path)
    with pytest.raises(ValueError, match="the commits before it are archived"):
        table.rollback(times[-1])
    assert rows_of(tmp_path) == expected
    done = table.upsert(some([0], "x"), options=ONE).instant
    assert done is not None
    table.rollback(done.time)
    assert rows_of(tmp_path) == expected


@pytest.mark.parametrize("by_java", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_writers_and_readers_go_on_while_others_archive(
    tmp_path: Path, version: int, by_java: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is gone from the timeline since they looked was not rolled back."""
    table, times = many(tmp_path, version)
    reader = table.view()
    expected = [group.current.path for group in reader.groups(None)]
    real = Transaction.complete
    left = []

    def complete(self: Transaction, *args: object) -> Instant:
        if by_java:
            java.archive(tmp_path, 2, is_kept=True)
        else:
            # What is pending keeps the commit before it.
            HudiTable.open(tmp_path).archive(min_commits=1, max_commits=1)
        left.extend(active(tmp_path))
        return real(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Transaction, "complete", complete)
    before = rows_of(tmp_path)
    table.upsert(some([3], "x"), options=ONE)
    assert len(left) == (3 if by_java else 2)
    assert rows_of(tmp_path) == {**before, 3: "x"}
    assert [group.current.path for group in reader.groups(times[-1])] == expected
    monkeypatch.undo()
    # If the archive does not have it, it may have been rolled back.
    for file in (tmp_path / table.options.archive).iterdir():
        file.unlink()
    with pytest.raises(StaleStoreError, match="was rolled back; read again"):
        reader.groups(times[-1])

    def rolled_back(self: Transaction, *args: object) -> Instant:
        for name in java.instants(tmp_path)[active(tmp_path)[0]]:
            (java.timeline_of(tmp_path) / name).unlink()
        return real(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Transaction, "complete", rolled_back)
    with pytest.raises(CommitConflictError, match="was rolled back since this write began"):
        table.upsert(some([4], "y"), options=replace(ONE, retries=0))


@pytest.mark.few(1)
@pytest.mark.sampled
@pytest.mark.parametrize("version", VERSIONS)
def test_an_archival_killed_at_every_operation(
    tmp_path: Path, version: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """At each moment all readers see the same rows; what is left the next one does."""
    template = tmp_path / "template"
    table, times = many(template, version, 6)
    table.clean(retain_commits=3)
    table.upsert(some([1], "z"), options=ONE)
    expected = rows_of(template)
    states = {time: rows_of(template, time) for time in times[3:]}

    def act(opened: HudiTable) -> None:
        opened.archive(min_commits=2, max_commits=3)

    def check(path: Path) -> None:
        assert rows_of(path) == expected
        for time, rows in states.items():
            assert rows_of(path, time) == rows

    def check_end(path: Path) -> None:
        check(path)
        assert active(path)[0] == times[3]
        assert list(java_archive.known(path)) == times[:3]
        opened = HudiTable.open(path)
        assert sorted(one.time for one in opened.view().archive.instants()) == times[:3]
        assert [one for one in opened.verify().findings if one.is_damage] == []
        opened.upsert(some([2], "y"), options=ONE)
        assert rows_of(path) == {**expected, 2: "y"}

    points = count_points(template, tmp_path, act)
    for at in some_of(range(points)):
        for kill in (True, False):
            path = tmp_path / f"{at}-{kill}"
            opened = copied(template, path)
            with pytest.MonkeyPatch.context() as patch, suppress(Killed, OSError):
                on_disk(patch, FaultyDisk(at, kill=kill))
                act(opened)
            check(path)
            # One that was killed late left too few for another to begin.
            HudiTable.open(path).archive(min_commits=1, max_commits=1)
            check_end(path)
    kill_again_and_again(template, tmp_path, act, check)
    HudiTable.open(tmp_path / "again").archive(min_commits=1, max_commits=1)
    check_end(tmp_path / "again")
    assert points > 20
    with capsys.disabled():
        print(f"\narchival, version {version}: {points} points of failure")


@pytest.mark.few(1)
@pytest.mark.parametrize("version", [8, 9])
def test_small_files_are_merged(tmp_path: Path, version: int) -> None:
    """Ten of a level become one of the next; readers of older manifests find theirs for a while."""
    table, times = many(tmp_path / "t", version, 3)
    path = Path(table.location.uri)
    folder = path / ".hoodie" / "timeline" / "history"
    for number in range(24):
        done = table.upsert(some([number % 5], f"m{number}"), options=ONE).instant
        assert done is not None
        times.append(done.time)
        table.archive(min_commits=2, max_commits=2)
        assert list(java_archive.known(path)) == times[:-2]
        manifests = sorted(folder.glob("manifest_*"))
        for one in manifests:
            for file in json.loads(one.read_text())["files"]:
                assert (folder / file["fileName"]).exists()
        assert len(manifests) <= 6
    levels = sorted(one.stem.rpartition("_")[2] for one in folder.glob("*_*_*.parquet"))
    assert levels.count("1") == 2
    assert [one.time for one in table.view().archive.instants()] == times[-3::-1]
    assert table.verify().findings == ()
    # As Java leaves it for a moment.
    (folder / "_version_").unlink()
    assert [one.time for one in table.view().archive.instants()] == times[-3::-1]


def test_merged_files_are_merged_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookupstore.hudi.timeline.lsm_timeline._MERGED", 2)
    table, times = many(tmp_path, 9, 2)
    for number in range(8):
        done = table.upsert(some([number], "m"), options=ONE).instant
        assert done is not None
        times.append(done.time)
        table.archive(min_commits=1, max_commits=1)
        assert sorted(java_archive.known(tmp_path)) == times[:-1]
    folder = tmp_path / table.options.archive
    version = (folder / "_version_").read_text()
    listed = json.loads((folder / f"manifest_{version}").read_text())["files"]
    assert [one["fileName"].rpartition("_")[2] for one in listed] == ["3.parquet"]
    assert [one.time for one in table.view().archive.instants()] == times[-2::-1]


@pytest.mark.few(1)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_random_history_that_archives(tmp_path: Path, version: int, seed: int) -> None:
    """Against a dict of rows, a dict of what is archived, and hudi-rs after every step."""
    chosen = random.Random(seed)
    table = SmallTable(tmp_path, version).table
    rows: dict[int, str] = {}
    commits: list[str] = []
    archived = 0
    for step in range(40):
        act = chosen.choices(
            ["upsert", "delete", "overwrite", "clean", "archive", "savepoint"], [6, 2, 1, 2, 3, 1]
        )[0]
        ids = chosen.sample(range(12), chosen.randint(1, 4))
        done = None
        if act == "upsert":
            done = table.upsert(some(ids, f"s{step}"), options=ONE).instant
            rows |= dict.fromkeys(ids, f"s{step}")
        elif act == "delete":
            done = table.delete(ids, options=ONE).instant
            rows = {key: value for key, value in rows.items() if key not in ids}
        elif act == "overwrite":
            done = table.insert_overwrite_table(some(ids, f"o{step}"), options=ONE).instant
            rows = dict.fromkeys(ids, f"o{step}")
        elif act == "clean":
            table.clean(retain_commits=chosen.randint(1, 4))
        elif act == "savepoint":
            for time in table.savepoints():
                table.delete_savepoint(time)
            if commits and chosen.random() < 0.5:
                table.savepoint()
        else:
            least = chosen.randint(1, 4)
            archived += len(table.archive(min_commits=least, max_commits=least).commits)
            assert active(tmp_path) == commits[archived:]
        if done is not None:
            commits.append(done.time)
        assert rows_of(tmp_path) == rows
        known = java_archive.known(tmp_path)
        found = [time for time, one in sorted(known.items()) if "commit" in one[0]]
        assert found == commits[:archived]
        assert not [one for one in table.verify().findings if one.is_damage]
    # Archival keeps commits for savepoints, and those after the last clean that deleted files.
    # Without savepoints, and with files to clean, every history has something to archive.
    for time in table.savepoints():
        table.delete_savepoint(time)
    for value in ("y", "z"):
        done = table.upsert(some([0], value), options=ONE).instant
        assert done is not None
        commits.append(done.time)
        rows[0] = value
    table.clean(retain_commits=1)
    archived += len(table.archive(min_commits=1, max_commits=1).commits)
    assert active(tmp_path) == commits[archived:] == commits[-1:]
    assert rows_of(tmp_path) == rows
    print(f"version {version}: {len(commits)} commits, {archived} of them archived")


@pytest.mark.parametrize("version", VERSIONS)
def test_an_archive_of_java_and_ours(tmp_path: Path, version: int) -> None:
    """Each adds to what the other has."""
    table, times = many(tmp_path, version, 9)
    expected = rows_of(tmp_path)
    gone = java.archive(tmp_path, keep=6, is_kept=True)
    assert list(gone) == times[:3]
    table.archive(min_commits=3, max_commits=3)
    assert [one.time for one in table.view().archive.instants()] == times[5::-1]
    java.archive(tmp_path, keep=2, is_kept=True)
    assert sorted(java_archive.known(tmp_path)) == times[:7]
    assert rows_of(tmp_path) == expected
    assert other_scan(tmp_path) is not None
    assert table.verify().findings == ()
    assert base_files(tmp_path)


def test_a_damaged_archive_is_said(tmp_path: Path) -> None:
    table, _ = many(tmp_path, 9)
    table.archive(min_commits=1, max_commits=1)
    (tmp_path / ".hoodie" / "timeline" / "history" / "_version_").write_text("one")
    findings = table.verify().findings
    assert [one.kind for one in findings] == ["timeline", "uncommitted"]
    assert all("the number of a manifest" in one.problem for one in findings)
    with pytest.raises(CorruptionError, match="the number of a manifest"):
        table.rollback()
    # Rows are read, and written, without it.
    assert rows_of(tmp_path)
    table.upsert(some([1], "x"), options=ONE)
