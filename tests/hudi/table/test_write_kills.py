"""Actions that are killed, or fail, at each of their file operations."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from shutil import copytree, rmtree

import pytest
from support.hudi.killed_actions import (
    ACTIONS,
    OLD,
    ONE,
    SCHEMA,
    Act,
    make,
    rows,
)
from support.hudi.kills import (
    WatchedDisk,
    check_statistics,
    copied,
    count_points,
    kill_again_and_again,
    leftovers,
    on_disk,
    rows_of,
)
from support.hudi.written import check_files
from support.remote import FaultyDisk
from support.samples import some_of

from lookupstore.errors import CommitUnknownError
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.timeline.timeline import TimelineFolder

ACTIONS_PROGRAM = Path(__file__).parents[2] / "support" / "hudi" / "killed_actions.py"
VERSIONS = (6, 8, 9)
Dying = Callable[[Path, str, int | None], int]
CASES = list(product(ACTIONS, VERSIONS))


def known(act: Act) -> Act:
    """Let a write whose end is unknown be one that failed."""

    def tried(table: HudiTable) -> None:
        try:
            act(table)
        except CommitUnknownError as error:
            raise OSError(str(error)) from error

    return tried


@pytest.fixture(scope="module")
def dying() -> Iterator[Dying]:
    """Return what does an action in a process that dies in it, and returns the exit code."""
    with subprocess.Popen(
        [sys.executable, ACTIONS_PROGRAM],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        to, answers = server.stdin, server.stdout

        def act(path: Path, action: str, at: int | None) -> int:
            to.write(json.dumps([str(path), action, at]) + "\n")
            to.flush()
            return int(answers.readline())

        yield act
        to.close()


def prepared(
    path: Path, action: str, version: int, dying: Dying, *, statistics: bool = False
) -> str:
    """Make a table that an action can be tried on; return the time of the commit before it."""
    table = make(path, version)
    if statistics:
        table.collect_statistics()
    assert dying(path, action, None) == (-signal.SIGKILL if ACTIONS[action].is_of_dead else 0)
    return [one.time for one in table.timeline() if one.is_completed and one.is_write][1]


@pytest.mark.few(2)
@pytest.mark.parametrize(("action", "version"), CASES)
def test_an_action_killed_again_and_again(
    tmp_path: Path,
    action: str,
    version: int,
    dying: Dying,
) -> None:
    """Each attempt also takes back what the one before left, so the operations become more."""
    kept = prepared(tmp_path / "template", action, version, dying)
    case = ACTIONS[action]

    def check(path: Path) -> None:
        assert rows_of(path) in (case.before, case.new)
        assert rows_of(path, kept) == OLD

    attempts = kill_again_and_again(tmp_path / "template", tmp_path, known(case.act), check)
    path = tmp_path / "again"
    # Whatever comes next puts away what one left that died after its last step.
    HudiTable.open(path).delete([])
    assert rows_of(path) == case.new
    assert leftovers(path) == []
    assert not list(path.glob(".*.parquet.*.tmp"))
    check_files(path)
    assert attempts > (5 if case.is_left or "rollback" in action else 30)
    print(f"{action}, version {version}: killed at {attempts} operations")


@pytest.mark.few(1)
@pytest.mark.parametrize(("action", "version"), CASES)
def test_statistics_of_an_action_killed_again_and_again(
    tmp_path: Path,
    action: str,
    version: int,
    dying: Dying,
) -> None:
    """Nothing wrong is ever used, filters lose no row, and nothing of dead writers is left."""
    prepared(tmp_path / "template", action, version, dying, statistics=True)
    case = ACTIONS[action]
    path = tmp_path / "again"
    attempts = kill_again_and_again(
        tmp_path / "template", tmp_path, known(case.act), check_statistics
    )
    table = HudiTable.open(path)
    table.delete([])
    check_statistics(path)
    assert rows_of(path) == case.new
    versions = list(path.glob(".hoodie/.lookupstore/statistics/*.stats"))
    assert len(versions) <= 2
    assert {one.stem.partition("_")[2] for one in versions} <= {
        one.time for one in table.timeline() if one.is_completed and one.is_write
    }
    assert not list(path.glob(".*.stats.*.tmp"))
    # They are of all files again.
    left = table.explain_scan(("id", "=", 1_000_000))
    assert left.files.count > 0
    assert (left.without_statistics.count, left.statistics.count) == (0, 0)
    print(f"{action}, version {version}, with statistics: killed at {attempts} operations")


@pytest.mark.sampled
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("action", "version"),
    # Nobody else writes before a restore is completed.
    [one for one in CASES if one[0] != "restore"],
)
def test_a_process_killed_at_every_operation(
    tmp_path: Path,
    action: str,
    version: int,
    dying: Dying,
) -> None:
    """By a signal, each time on a table of its own; then somebody else writes."""
    kept = prepared(tmp_path / "template", action, version, dying)
    case = ACTIONS[action]
    path = tmp_path / "t"
    points = count_points(tmp_path / "template", tmp_path, case.act)
    seen = []
    for at in some_of(range(points + 1), 8):
        copytree(tmp_path / "template", path)
        code = dying(path, action, at)
        assert code in (0, -signal.SIGKILL)
        seen.append(rows_of(path))
        assert rows_of(path, kept) == OLD
        HudiTable.open(path).upsert(rows(range(9, 10), "next"), options=ONE)
        assert rows_of(path) == {**seen[-1], 9: "next"}
        if case.is_left:
            case.act(HudiTable.open(path))
        assert rows_of(path) == {**seen[-1], 9: "next"}
        assert leftovers(path) == []
        rmtree(path)
        assert (code == 0) == (at == points)
    # Old up to some operation, and new from there on.
    place = seen.index(case.new)
    assert seen == [case.before] * place + [case.new] * (len(seen) - place)
    assert points > 5
    print(
        f"{action}, version {version}: a process killed at {len(seen) - 1} of {points} operations"
    )


@pytest.mark.sampled
@pytest.mark.few(1)
@pytest.mark.parametrize(("action", "version"), CASES)
def test_an_action_of_which_each_operation_fails(
    tmp_path: Path, action: str, version: int, dying: Dying, caplog: pytest.LogCaptureFixture
) -> None:
    """Who is told that a write failed can do it again; who is told nothing has written.

    A clustering that cannot start statistics is done, and says so in the log.
    """
    kept = prepared(tmp_path / "template", action, version, dying)
    case = ACTIONS[action]
    points = count_points(tmp_path / "template", tmp_path, case.act)
    for at in some_of(range(points), 8):
        table = copied(tmp_path / "template", tmp_path / "t")
        expected = [case.new]
        with pytest.MonkeyPatch.context() as patch:
            # Who waits for a lock that is its own would wait for minutes.
            patch.setattr(time, "sleep", asleep)
            on_disk(patch, FaultyDisk(at))
            try:
                case.act(table)
            except CommitUnknownError:
                expected = [case.before, case.new]
            except OSError:
                # A rollback of a commit that has begun is one that the next writer ends.
                has_begun = "rollback" in action or action == "restore"
                expected = [case.before, *[case.new] * has_begun]
        assert rows_of(tmp_path / "t") in expected
        assert rows_of(tmp_path / "t", kept) == OLD
        case.act(table)
        table.delete([])
        assert rows_of(tmp_path / "t") == case.new
        assert leftovers(tmp_path / "t") == []
        check_files(tmp_path / "t")
        rmtree(tmp_path / "t")
    assert points > 5
    print(f"{action}, version {version}: some or all of {points} operations failed")


_SLEEP = time.sleep


def asleep(seconds: float) -> None:
    if threading.current_thread() is threading.main_thread():
        raise AssertionError("it waits for somebody")
    _SLEEP(seconds)  # what another test has left in this process, as py4j's threads


@pytest.mark.few(5)
@pytest.mark.parametrize("action", ACTIONS)
def test_every_change_is_an_operation_that_is_counted(
    tmp_path: Path, action: str, dying: Dying
) -> None:
    prepared(tmp_path / "t", action, 9, dying)
    disk = WatchedDisk(tmp_path / "t")
    with pytest.MonkeyPatch.context() as patch:
        on_disk(patch, disk)
        ACTIONS[action].act(HudiTable.open(tmp_path / "t"))
    disk.check()
    assert len(disk.done) > 5


@pytest.mark.parametrize("partition_by", [[], ["p"]])
def test_files_that_were_not_finished_are_deleted(tmp_path: Path, partition_by: list[str]) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key=["id"], partition_by=partition_by)
    first = table.insert(rows(range(3), "old")).instant
    assert first is not None
    folder = TimelineFolder(table.location, table.options.timeline, 9)
    alive = folder.start(folder.request("commit"))
    beat = tmp_path / "t" / ".hoodie" / ".heartbeat" / alive.time
    beat.parent.mkdir(exist_ok=True)
    beat.touch()
    names = [
        f".a-0_0-0-0_{time}.parquet.{'0123456789abcdef' * 2}.tmp"
        for time in (first.time, "20200101000000000", alive.time)
    ]
    # What would complete an instant was made under the lock: who has that now deletes it.
    names += [".20200101000000000.commit.0123456789abcdef0123456789abcdef.tmp", ".mine.tmp"]
    for name in names:
        (tmp_path / "t" / name).write_bytes(b"PAR1")
    table.upsert(rows(range(3), "new"), dry_run=True)
    assert all((tmp_path / "t" / name).exists() for name in names)
    table.upsert(rows(range(3), "new"))
    left = [name for name in names if (tmp_path / "t" / name).exists()]
    assert left == [names[2], names[4]]


def test_a_metadata_table_that_goes_in_two_steps(
    real_tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = real_tables / "v9_txns_nonpart_meta"
    before = HudiTable.open(template).scan(columns=["txn_id", "amount"])
    one = HudiTable.open(template).scan().slice(0, 1)
    options = WriteOptions(threads=1, metadata="drop")

    def act(table: HudiTable) -> None:
        table.upsert(one, options=options)

    def check(path: Path) -> None:
        now = HudiTable.open(path).scan(columns=["txn_id", "amount"])
        assert now.sort_by("txn_id").equals(before.sort_by("txn_id"))

    def check_end(path: Path) -> None:
        check(path)
        assert HudiTable.open(path).options.metadata_partitions == ()
        assert not (path / ".hoodie" / "metadata").exists()

    attempts = kill_again_and_again(template, tmp_path, known(act), check)
    check_end(tmp_path / "again")
    with capsys.disabled():
        print(f"\nmetadata table: killed {attempts} times")
