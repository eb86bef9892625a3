"""Clean by versions of file groups: the last ones stay, and what savepoints and writes need."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from support.hudi.kills import (
    base_files,
    copied,
    count_points,
    leftovers,
    on_disk,
    rows_of,
)
from support.hudi.small_tables import SmallTable, row
from support.hudi.versions import VERSIONS
from support.remote import FaultyDisk, Killed
from support.samples import some_of

from lookupstore.errors import StaleStoreError
from lookupstore.hudi import HudiTable, Instant, State
from lookupstore.hudi.timeline.plans import CleanerPlan, CleanMetadata, parse_plan
from lookupstore.hudi.timeline.timeline import CLEAN

POLICY = "KEEP_LATEST_FILE_VERSIONS"


def left(path: Path) -> set[tuple[str, str]]:
    """Return the groups and instants of the base files that are there."""
    names = [
        name.rpartition("/")[2].removesuffix(".parquet").split("_") for name in base_files(path)
    ]
    return {(file_id, time) for file_id, _, time in names}


def three(path: Path, version: int) -> tuple[SmallTable, list[str]]:
    """Write one group four times, and a second one after the first two."""
    table = SmallTable(path, version)
    order = enumerate(["a-0", "a-0", "b-0", "a-0", "a-0"])
    times = [table.commit(one, [row(ord(one[0]), str(at))]).time for at, one in order]
    return table, times


@pytest.mark.parametrize("version", VERSIONS)
def test_the_last_versions_of_each_group_stay(tmp_path: Path, version: int, seed: int) -> None:
    """Groups of different ages, some replaced, some saved, in random order."""
    chosen = random.Random(seed)
    for turn in range(8):
        table = SmallTable(tmp_path / f"{turn}", version)
        slices: dict[str, list[str]] = {}
        numbers: dict[str, int] = {}
        saved: set[tuple[str, str]] = set()
        for at in range(chosen.randint(1, 12)):
            group = chosen.choice([f"new{at}-0", *slices, *slices])
            if chosen.random() < 0.2 and slices:
                gone = chosen.choice(sorted(slices))
                group = f"over{at}-0"
                instant = table.begin("replacecommit")
                numbers[group] = at
                stat = table.write(instant.time, group, [row(at, "over")])
                table.finish(instant, [stat], {"": (gone,)})
                del slices[gone]
            else:
                instant = table.commit(group, [row(numbers.setdefault(group, 100 + at), "one")])
            slices.setdefault(group, []).append(instant.time)
            if chosen.random() < 0.2:
                table.table.savepoint()
                saved |= {(one, found[-1]) for one, found in slices.items()}
        rows = rows_of(table.path)
        count = chosen.randint(1, 3)
        expected = {(group, time) for group, found in slices.items() for time in found[-count:]}
        table.table.clean(retain_versions=count)
        assert left(table.path) == expected | saved
        assert rows_of(table.path) == rows
        assert table.table.clean(retain_versions=count) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_plan_and_result_are_those_of_java(tmp_path: Path, version: int) -> None:
    """They name no commit, since none is retained but the last."""
    table, times = three(tmp_path / "t", version)
    (done,) = table.table.clean(retain_versions=2)
    path = table.folder.path(done)
    requested = Instant(done.time, CLEAN, State.REQUESTED)
    plan = parse_plan(CleanerPlan, table.folder.read(requested), path)
    assert (plan.policy, plan.earliest_instant_to_retain) == (POLICY, None)
    result = parse_plan(CleanMetadata, table.folder.read(done), path)
    assert (result.policy, result.earliest_commit_to_retain) == (POLICY, "")
    assert result.last_completed_commit_timestamp == times[-1]
    names = tuple(f"a-0_0-1-2_{time}.parquet" for time in times[:2])
    assert result.partition_metadata[""].success_delete_files == names
    assert result.partition_metadata[""].policy == POLICY
    assert result.total_files_deleted == 2
    assert table.table.verify().findings == ()


def test_what_a_pending_write_may_read_stays(tmp_path: Path) -> None:
    table, times = three(tmp_path / "t", 9)
    pending = table.begin()
    table.commit("a-0", [row(1, "later")])
    table.table.clean(retain_versions=1)
    # As of the last commit before it, and what came since.
    assert left(table.path) == {("b-0", times[2]), ("a-0", times[4]), *(
        one for one in left(table.path) if one[1] > pending.time
    )}  # fmt: skip
    assert len(left(table.path)) == 3
    table.folder.delete(pending, replace(pending, state=State.REQUESTED))
    table.table.clean(retain_versions=1)
    assert len(left(table.path)) == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_promised_after_it(tmp_path: Path, version: int) -> None:
    """The result does not say from which commit on all files are there: those that went do."""
    table, times = three(tmp_path / "t", version)
    table.table.clean(retain_versions=2)
    opened = HudiTable.open(table.path)
    for time in times[:3]:
        # As of the third commit there is only one group left of two.
        with pytest.raises(ValueError, match=f"commits from {times[3]} on are complete"):
            opened.savepoint(time)
    kept = opened.savepoint(times[3]).time
    assert opened.rollback(times[4])
    assert rows_of(table.path) == {97: "3", 98: "2"} == rows_of(table.path, kept)
    opened.delete_savepoint(kept)
    with pytest.raises(ValueError, match="a clean removed files that it replaced"):
        opened.rollback(times[3])
    done = opened.archive(min_commits=1, max_commits=1)
    assert [one.time for one in done.commits] == times[:3]


def test_replaced_groups_that_went_are_not_promised(tmp_path: Path) -> None:
    table, times = three(tmp_path / "t", 9)
    instant = table.begin("replacecommit")
    stat = table.write(instant.time, "c-0", [row(3, "c")])
    table.finish(instant, [stat], {"": ("a-0", "b-0")})
    table.table.clean(retain_versions=5)
    assert left(table.path) == {("c-0", instant.time)}
    with pytest.raises(ValueError, match=f"commits from {instant.time} on are complete"):
        table.table.savepoint(times[-1])
    with pytest.raises(ValueError, match="a clean removed files that it replaced"):
        table.table.rollback(instant.time)


@pytest.mark.sampled
@pytest.mark.parametrize("version", VERSIONS)
def test_a_clean_by_versions_killed_at_every_operation(tmp_path: Path, version: int) -> None:
    template, times = three(tmp_path / "template", version)
    template.table.savepoint(times[0])
    rows = rows_of(template.path)
    expected = {("a-0", times[0]), ("a-0", times[4]), ("b-0", times[2])}

    def act(table: HudiTable) -> None:
        table.clean(retain_versions=1)

    points = count_points(template.path, tmp_path, act)
    for at in some_of(range(points)):
        table = copied(template.path, path := tmp_path / f"{at}")
        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            on_disk(patch, FaultyDisk(at, kill=True))
            act(table)
        assert rows_of(path) == rows
        act(table)
        assert left(path) == expected
        assert rows_of(path) == rows
        table.rollback()  # a heartbeat that nothing came of
        assert leftovers(path) == []
    assert points > 15


def test_what_happens_between_plan_and_end_counts(tmp_path: Path) -> None:
    """A killed clean removes nothing that is current when it is ended."""
    table, times = three(tmp_path / "t", 9)

    def die(*args: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr("lookupstore.hudi.services.cleaner.finish", die)
        table.table.clean(retain_versions=1)
    with pytest.raises(ValueError, match="a clean removed files"):
        table.table.rollback(times[-1])
    # Another program does it all the same.
    for path in (table.path / ".hoodie" / "timeline").glob(f"{times[-1]}*"):
        path.unlink()
    table.table.clean(retain_versions=3)
    assert rows_of(table.path) == {97: "3", 98: "2"}
    assert ("a-0", times[3]) in left(table.path)


def test_arguments(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    assert table.table.clean(retain_versions=1) == []
    with pytest.raises(ValueError, match="retain_versions is 0; the last one always stays: give 1"):
        table.table.clean(retain_versions=0)
    with pytest.raises(ValueError, match="give retain_versions, or else retain_commits"):
        table.table.clean(retain_versions=1, retain_commits=1)
    with pytest.raises(ValueError, match="or both, or else retain_versions"):
        table.table.clean()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_clean_between_the_timeline_and_the_list_of_files(
    tmp_path: Path, version: int, seed: int
) -> None:
    """A read has all slices of its commits, or is told that a clean removed one."""
    chosen = random.Random(seed)
    refused = 0
    for turn in range(12):
        table = SmallTable(tmp_path / f"{turn}", version)
        ids = ["a-0", "b-0", "c-0"]
        expected: dict[str, str] = {}
        for _ in range(chosen.randint(1, 4)):
            group = chosen.choice(ids)
            expected[group] = table.commit(group, [row(ord(group[0]), "old")]).time
        as_of = chosen.choice([None, max(expected.values())])
        view = table.view()
        for _ in range(chosen.randint(1, 4)):
            group = chosen.choice(ids)
            if chosen.random() < 0.2 and group in expected:
                instant = table.begin("replacecommit")
                stat = table.write(instant.time, f"over{instant.time}-0", [row(1, "over")])
                table.finish(instant, [stat], {"": (group,)})
                ids.remove(group)
                break
            table.commit(group, [row(ord(group[0]), "new")])
        kept = chosen.choice(
            [{"retain_versions": 1}, {"retain_versions": 2}, {"retain_commits": 1}]
        )
        table.table.clean(**kept)
        if set(expected.items()) <= left(table.path):
            slices = view.slices(as_of)
            assert {one.group.file_id: one.time for one in slices} == expected, (turn, kept)
        else:
            refused += 1
            with pytest.raises(StaleStoreError, match=r"by the clean \d+ while the table was read"):
                view.slices(as_of)
    assert 0 < refused < 12
