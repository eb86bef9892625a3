"""Clean and savepoints: what is retained or saved stays readable, whenever a clean is killed."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from time import sleep

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.hudi import java
from support.hudi.kills import (
    base_files,
    kill_again_and_again,
    kill_at_each_point,
    leftovers,
    rows_of,
)
from support.hudi.small_tables import SmallTable, row
from support.hudi.versions import VERSIONS
from support.remote import Killed

from lookupstore.hudi import HudiTable, Instant, State
from lookupstore.hudi.locking.heartbeat import Heartbeats
from lookupstore.hudi.timeline.instant_times import print_time
from lookupstore.hudi.timeline.plans import CleanerPlan, CleanMetadata, parse_plan
from lookupstore.hudi.timeline.timeline import CLEAN, SAVEPOINT


def history(path: Path, version: int = 9) -> tuple[SmallTable, list[Instant]]:
    """Write two groups, one of them three times, and then replace the other one."""
    table = SmallTable(path, version)
    done = [
        table.commit("a-0", [row(1, "one")]),
        table.commit("b-0", [row(2, "b")]),
        table.commit("a-0", [row(1, "two")]),
    ]
    overwrite = table.begin("replacecommit")
    stat = table.write(overwrite.time, "c-0", [row(3, "c")])
    done.append(table.finish(overwrite, [stat], {"": ("b-0",)}))
    done.append(table.commit("a-0", [row(1, "three")]))
    return table, done


def groups_left(path: Path) -> list[tuple[str, str]]:
    names = [name.removesuffix(".parquet").split("_") for name in base_files(path)]
    return sorted((file_id, time) for file_id, _, time in names)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_last_commits_do_not_need_goes(tmp_path: Path, version: int) -> None:
    table, done = history(tmp_path / "t", version)
    times = [one.time for one in done]
    assert table.table.clean(retain_commits=5) == []
    states = {time: rows_of(table.path, time) for time in times}
    (first,) = table.table.clean(retain_commits=3)
    assert (first.action, first.state) == (CLEAN, State.COMPLETED)
    assert groups_left(table.path) == [
        ("a-0", times[2]), ("a-0", times[4]), ("b-0", times[1]), ("c-0", times[3]),
    ]  # fmt: skip
    for time in times[2:]:
        assert rows_of(table.path, time) == states[time]
    assert table.table.clean(retain_commits=3) == []
    table.table.clean(retain_commits=2)
    assert ("b-0", times[1]) not in groups_left(table.path)
    (last,) = table.table.clean(retain_commits=1)
    assert groups_left(table.path) == [("a-0", times[4]), ("c-0", times[3])]
    assert rows_of(table.path) == states[times[4]]
    assert leftovers(table.path) == []
    path = table.folder.path(last)
    plan = parse_plan(
        CleanerPlan, table.folder.read(Instant(last.time, CLEAN, State.REQUESTED)), path
    )
    assert plan.earliest_instant_to_retain is not None
    assert plan.earliest_instant_to_retain.timestamp == times[4]
    result = parse_plan(CleanMetadata, table.folder.read(last), path)
    assert result.earliest_commit_to_retain == result.last_completed_commit_timestamp == times[4]
    assert result.total_files_deleted == 1
    deleted = result.partition_metadata[""].success_delete_files
    assert deleted == (f"a-0_0-1-2_{times[2]}.parquet",)
    assert result.partition_metadata[""].delete_path_patterns == deleted
    # Readers of version 6 take the plan from here, too.
    inflight = table.folder.read(Instant(last.time, CLEAN, State.INFLIGHT))
    requested = table.folder.read(Instant(last.time, CLEAN, State.REQUESTED))
    assert inflight == (requested if version == 6 else b"")


def test_more_commits_are_retained_than_there_are(tmp_path: Path) -> None:
    table, done = history(tmp_path / "t")
    states = {one.time: rows_of(table.path, one.time) for one in done}
    for count in range(5, 12):
        assert table.table.clean(retain_commits=count) == []
        assert {time: rows_of(table.path, time) for time in states} == states


@pytest.mark.few(1)
@pytest.mark.sampled
@pytest.mark.parametrize("version", [6, 9])
def test_clean_killed_at_every_operation(
    tmp_path: Path, version: int, capsys: pytest.CaptureFixture[str]
) -> None:
    table, done = history(tmp_path / "template", version)
    kept = done[0].time
    table.table.savepoint(kept)
    times = [done[0].time, *(one.time for one in done[3:])]
    states = {time: rows_of(table.path, time) for time in times}
    expected = [("a-0", done[0].time), ("a-0", done[2].time), ("a-0", done[4].time),
                ("c-0", done[3].time)]  # fmt: skip

    def act(opened: HudiTable) -> None:
        opened.clean(retain_commits=2)

    def check(path: Path) -> None:
        for time, rows in states.items():
            assert rows_of(path, time) == rows

    def check_end(path: Path) -> None:
        HudiTable.open(path).rollback()  # a heartbeat that nothing came of
        check(path)
        assert groups_left(path) == expected
        assert leftovers(path) == []

    points = kill_at_each_point(table.path, tmp_path, act, check, check_end)
    kill_again_and_again(table.path, tmp_path, act, check)
    check_end(tmp_path / "again")
    assert points > 20
    with capsys.disabled():
        print(f"\nclean, version {version}: {points} points of failure")


def tree(path: Path) -> dict[str, int]:
    """Return all files of a table, and when each was written."""
    return {
        one.relative_to(path).as_posix(): one.stat().st_mtime_ns
        for one in path.rglob("*")
        if one.is_file()
    }


def check_dry_run(table: SmallTable, **retained: int) -> list[str]:
    """Check that a dry run changes nothing, and names what the clean then deletes."""
    before = tree(table.path)
    found = table.table.clean(**retained, dry_run=True)
    assert tree(table.path) == before
    assert [one.bytes for one in found] == [(table.path / one.path).stat().st_size for one in found]
    there = set(base_files(table.path))
    table.table.clean(**retained)
    assert sorted(there - set(base_files(table.path))) == [one.path for one in found]
    assert table.table.clean(**retained, dry_run=True) == []
    return [one.path for one in found]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_dry_run_names_what_would_go(tmp_path: Path, version: int) -> None:
    for count, deleted in ((5, 0), (3, 1), (1, 3)):
        table, _ = history(tmp_path / f"{count}", version)
        assert len(check_dry_run(table, retain_commits=count)) == deleted
    table, done = history(tmp_path / "saved", version)
    table.table.savepoint(done[0].time)
    assert len(check_dry_run(table, retain_commits=1)) == 2
    table, _ = history(tmp_path / "versions", version)
    assert len(check_dry_run(table, retain_versions=2)) == 2
    table, _ = history(tmp_path / "hours", version)
    sleep(0.1)  # quick commits have instants of the next milliseconds
    assert len(check_dry_run(table, retain_hours=0)) == 3


def test_a_dry_run_names_what_the_dead_left(tmp_path: Path) -> None:
    """The clean of a dead writer, and files that never committed and that readers would count."""
    table, _ = history(tmp_path / "dead")
    die_cleaning(table)
    found = table.table.clean(retain_commits=5, dry_run=True)
    assert len(found) == 3
    assert check_dry_run(table, retain_commits=5) == [one.path for one in found]

    table = SmallTable(tmp_path / "stray", 9)
    table.commit("a-0", [row(1, "a")])
    stray = table.begin()
    table.write(stray.time, "a-0", [row(1, "never")])
    assert java.roll_back(table.path, stray.time) == []
    for number in range(3):
        table.commit("b-0", [row(3, f"b{number}")])
    # Its commit is archived, so that readers take the file for one of an archived commit.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lookupstore.hudi.services.archiver.delete_never_completed", lambda _: None)
        table.table.archive(min_commits=1, max_commits=1)
    written = [one for one in base_files(table.path) if stray.time in one]
    older = sorted(one for one in base_files(table.path) if one.startswith("b-0"))[:-1]
    assert (len(written), len(older)) == (1, 2)
    assert check_dry_run(table, retain_versions=1) == [*written, *older]
    assert rows_of(table.path) == {1: "a", 3: "b2"}


def test_a_dry_run_checks_its_arguments(tmp_path: Path) -> None:
    table, _ = history(tmp_path / "t")
    with pytest.raises(ValueError, match="give retain_commits, retain_hours or both"):
        table.table.clean(dry_run=True)
    with pytest.raises(ValueError, match="metadata is 'all'"):
        table.table.clean(retain_commits=1, metadata="all", dry_run=True)


def test_hours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table stays readable as of every moment of that time, also one between two commits."""
    table, done = history(tmp_path / "t")
    at = datetime.now(timezone.utc)
    assert table.table.clean(retain_hours=1) == []
    moment = at + timedelta(hours=5)

    class Later(datetime):
        @classmethod
        def now(cls, zone: object = None) -> datetime:
            return moment

    monkeypatch.setattr("lookupstore.hudi.table.services.datetime", Later)
    assert table.table.clean(retain_hours=6) == []
    assert table.table.clean(retain_hours=1, retain_commits=5) == [], "whichever is more"
    assert len(table.table.clean(retain_hours=4.9)) == 1
    assert rows_of(table.path) == {1: "three", 3: "c"}
    assert [time for _, time in groups_left(table.path)] == [done[4].time, done[3].time]
    earliest = print_time(moment - timedelta(hours=4.9))
    assert done[4].time < earliest, "what was current at that time was committed before"


def test_a_table_that_does_not_say_its_zone(tmp_path: Path) -> None:
    """Its times may be those of a clock that is twelve hours behind."""
    table, _ = history(tmp_path / "t")
    (properties,) = (table.path / ".hoodie").glob("*.properties")
    lines = properties.read_text().splitlines(keepends=True)
    properties.write_text("".join(line for line in lines if "timezone" not in line))
    assert table.table.clean(retain_hours=0) == []
    assert len(table.table.clean(retain_commits=1)) == 1


def test_what_a_pending_write_may_read_stays(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    table.commit("a-0", [row(1, "one")])
    table.commit("a-0", [row(1, "two")])
    pending = table.begin()
    table.commit("a-0", [row(1, "three")])
    table.table.clean(retain_commits=1)
    assert len(base_files(table.path)) == 2
    table.finish(pending)
    table.table.clean(retain_commits=1)
    assert len(base_files(table.path)) == 1


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({}, "give retain_commits, retain_hours or both"),
        ({"retain_commits": 0}, "give 1"),
        ({"retain_hours": -1}, "at least 0"),
        ({"retain_hours": float("nan")}, "at least 0"),
    ],
)
def test_arguments(tmp_path: Path, named: dict[str, float], message: str) -> None:
    table = SmallTable(tmp_path / "t", 9)
    with pytest.raises(ValueError, match=message):
        table.table.clean(**named)  # type: ignore[arg-type]


def test_an_empty_table(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    assert table.table.clean(retain_commits=1, retain_hours=0) == []
    assert table.table.rollback() == []
    with pytest.raises(ValueError, match="no commit"):
        table.table.savepoint()


def die_cleaning(table: SmallTable) -> None:
    """Plan a clean, and die before the first file goes."""

    def die(*args: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr("lookupstore.hudi.services.cleaner.finish", die)
        table.table.clean(retain_commits=1)
    assert [one.action for one in table.folder.load().pending()] == [CLEAN]


def test_a_commit_that_is_taken_back_after_a_clean_was_planned(tmp_path: Path) -> None:
    """What it had replaced is the table again, and not what was planned to go."""
    table, done = history(tmp_path / "t")
    die_cleaning(table)
    with pytest.raises(ValueError, match="a clean removed files"):
        table.table.rollback(done[-1].time)
    # Another program does it all the same.
    for path in (table.path / ".hoodie" / "timeline").glob(f"{done[-1].time}*"):
        path.unlink()
    assert rows_of(table.path) == {1: "two", 3: "c"}
    assert len(table.table.clean(retain_commits=1)) >= 1
    assert rows_of(table.path) == {1: "two", 3: "c"}
    assert leftovers(table.path) == []


def test_a_savepoint_after_a_clean_was_planned(tmp_path: Path) -> None:
    table, done = history(tmp_path / "t")
    die_cleaning(table)
    with pytest.raises(ValueError, match="a clean removed files of it"):
        table.table.savepoint(done[0].time)
    table.table.savepoint(done[-1].time)


def test_a_clean_of_another_program_is_left_to_it(tmp_path: Path) -> None:
    table, _ = history(tmp_path / "t")
    die_cleaning(table)
    Heartbeats(table.table.location).delete(table.folder.load().pending()[0].time)
    assert table.table.clean(retain_commits=5) == []
    assert [one.action for one in table.folder.load().pending()] == [CLEAN]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_savepoint_keeps_its_files(tmp_path: Path, version: int) -> None:
    table, done = history(tmp_path / "t", version)
    kept = done[1].time
    rows = rows_of(table.path, kept)
    made = table.table.savepoint(kept, comment="before the overwrite", user="me")
    assert (made.time, made.action, made.state) == (kept, SAVEPOINT, State.COMPLETED)
    (saved,) = table.table.savepoints().values()
    assert (saved.savepointed_by, saved.comments) == ("me", "before the overwrite")
    assert len(saved.partition_metadata[""].savepoint_data_file) == 2
    with pytest.raises(ValueError, match="there is already a savepoint of it"):
        table.table.savepoint(kept)
    table.table.clean(retain_commits=1)
    assert rows_of(table.path, kept) == rows
    assert rows_of(table.path) == {1: "three", 3: "c"}
    assert (groups_left(table.path).count(("a-0", done[2].time))) == 0
    table.table.delete_savepoint(kept)
    assert table.table.savepoints() == {}
    with pytest.raises(ValueError, match="; savepoints: none"):
        table.table.delete_savepoint(kept)
    with pytest.raises(ValueError, match="a clean removed files of it"):
        table.table.savepoint(kept)
    table.table.clean(retain_commits=1)
    assert len(base_files(table.path)) == 2
    assert table.table.savepoint().time == done[-1].time
    with pytest.raises(ValueError, match="give the time of a completed commit"):
        table.table.savepoint("20200101000000000")


@pytest.mark.few(1)
@pytest.mark.sampled
@pytest.mark.parametrize("version", [6, 9])
def test_savepoints_killed_at_every_operation(
    tmp_path: Path, version: int, capsys: pytest.CaptureFixture[str]
) -> None:
    table, done = history(tmp_path / "template", version)
    kept = done[0].time
    rows, states = rows_of(table.path), rows_of(table.path, kept)

    def make(opened: HudiTable) -> None:
        if kept not in opened.savepoints():
            opened.savepoint(kept, user="me")

    def delete(opened: HudiTable) -> None:
        if any(one.action == SAVEPOINT for one in opened.timeline()):
            opened.delete_savepoint(kept)

    def check(path: Path) -> None:
        assert rows_of(path) == rows
        assert rows_of(path, kept) == states

    def check_made(path: Path) -> None:
        check(path)
        HudiTable.open(path).rollback()  # the lock of one who died after the savepoint was made
        assert list(HudiTable.open(path).savepoints()) == [kept]
        assert leftovers(path) == []

    def check_deleted(path: Path) -> None:
        check(path)
        assert not any(one.action == SAVEPOINT for one in HudiTable.open(path).timeline())

    points = kill_at_each_point(table.path, tmp_path, make, check, check_made)
    make(table.table)
    points += kill_at_each_point(table.path, tmp_path / "deleted", delete, check, check_deleted)
    with capsys.disabled():
        print(f"\nsavepoint and its deletion, version {version}: {points} points of failure")


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(0, 2)),
            st.tuples(st.just("replace"), st.integers(0, 2)),
            st.tuples(st.just("clean"), st.integers(1, 3)),
            st.tuples(st.just("save"), st.integers(0, 5)),
            st.tuples(st.just("undo"), st.just(0)),
        ),
        max_size=14,
    ),
    version=st.sampled_from([6, 9]),
)
def test_clean_against_a_model(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], version: int
) -> None:
    """Whatever happens, what is retained and what is saved reads as it did when it was written."""
    table = SmallTable(tmp_path_factory.mktemp("clean") / "t", version)
    states: dict[str, dict[int, object]] = {}
    saved: set[str] = set()
    current: dict[int, object] = {}
    groups: dict[int, str] = {}
    retained = 0
    for number, (what, value) in enumerate(steps):
        times = sorted(states)
        if what == "write":
            group = groups.setdefault(value, f"g{number}-0")
            done = table.commit(group, [row(value, str(number))])
            current = {**current, value: str(number)}
            states[done.time] = current
        elif what == "replace":
            instant = table.begin("replacecommit")
            stat = table.write(instant.time, f"g{number}-0", [row(value, str(number))])
            gone = tuple(groups.values())
            table.finish(instant, [stat], {"": gone} if gone else {})
            groups, current = {value: f"g{number}-0"}, {value: str(number)}
            states[instant.time] = current
        elif what == "clean":
            table.table.clean(retain_commits=value)
            retained = max(retained, len(times) - value)
        elif what == "save" and times:
            with suppress(ValueError):
                saved.add(table.table.savepoint(times[value % len(times)]).time)
        elif what == "undo" and times and len(times) - 2 >= retained:
            with suppress(ValueError):
                table.table.rollback(times[-1])
                del states[times[-1]]
                current = states[times[-2]] if len(times) > 1 else {}
                files = (
                    HudiTable.open(table.path).scan(columns=["id", "_hoodie_file_name"]).to_pylist()
                )
                groups = {one["id"]: one["_hoodie_file_name"].partition("_")[0] for one in files}
        times = sorted(states)
        for time in {*times[max(0, retained) :], *times[-1:], *saved}:
            assert table.values(time) == states[time]
        assert table.values() == current
