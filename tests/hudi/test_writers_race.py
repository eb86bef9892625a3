"""Writers in processes of their own, some of them killed: nothing is lost, and nothing is twice."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from kills import leftovers
from oracle import assert_same_rows, other_scan

from lookupstore.errors import CommitConflictError, StaleStoreError
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.commit import parse_commit
from lookupstore.hudi.partitioner import FileSizing

# So many writers are killed; more of them find rarer faults.
KILLS = int(os.environ.get("LOOKUPSTORE_RACE_KILLS", "4"))
SCHEMA = pa.schema({"id": pa.int64(), "value": pa.string()})
TOKEN = "test.token"
KEYS = 40

spawn = multiprocessing.get_context("spawn")


def write_for_ever(path: str, log: str, seed: int) -> None:
    """Upsert and delete random keys, each time with a token; note first what, and then that."""
    chance = random.Random(seed)
    number = 0
    with open(log, "a", encoding="utf-8") as file:

        def note(*what: object) -> None:
            file.write(json.dumps(what) + "\n")
            file.flush()

        while True:
            number += 1
            token = f"{seed}-{number}"
            # A delete that does not find a key may come before the write that inserts it, as well
            # as after: only keys that nobody else writes tell whether one is lost.
            ours = range(KEYS * (seed + 1), KEYS * (seed + 1) + 5)
            is_delete = chance.random() < 0.2
            known = ours if is_delete else [*range(KEYS), *ours]
            keys = chance.sample(known, chance.randint(1, 4))
            note("tries", token, keys, is_delete)
            # Small files, so that there are several groups to meet in.
            options = WriteOptions(
                sizing=FileSizing(small_file_limit=0, split_size=10, auto_split=False),
                extra_metadata={TOKEN: token},
                threads=1,
            )
            table = HudiTable.open(path)
            with suppress(CommitConflictError, StaleStoreError):
                if is_delete:
                    table.delete(pa.array(keys), options=options)
                else:
                    rows = pa.table({"id": keys, "value": [token] * len(keys)}, schema=SCHEMA)
                    table.upsert(rows, options=options)
                note("did", token)
            if chance.random() < 0.1:
                table.clean(retain_commits=5)


@dataclass(frozen=True)
class Writer:
    """A process that writes, and what it noted."""

    process: multiprocessing.context.SpawnProcess
    log: Path

    def kill(self) -> None:
        """Kill it in the middle of whatever it does."""
        assert self.process.is_alive(), "a writer has failed"
        os.kill(self.process.pid or 0, signal.SIGKILL)
        self.process.join()


def notes(folder: Path) -> Iterator[list[object]]:
    for path in folder.glob("*.log"):
        for line in path.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):  # the last line of one that was killed
                yield json.loads(line)


@pytest.mark.parametrize("version", [6, 9])
def test_writers_that_are_killed(
    tmp_path: Path, version: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t"
    HudiTable.create(path, SCHEMA, record_key=["id"], version=version)
    seeds = iter(range(1000))

    def start() -> Writer:
        seed = next(seeds)
        log = tmp_path / f"{seed}.log"
        process = spawn.Process(target=write_for_ever, args=(str(path), str(log), seed))
        process.start()
        return Writer(process, log)

    chance = random.Random(version)
    writers = [start() for _ in range(3)]
    for _ in range(KILLS):
        victim = writers.pop(chance.randrange(len(writers)))
        while not victim.log.exists():  # it takes a second until it is at work
            assert victim.process.is_alive(), "a writer has failed"
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.6))
        victim.kill()
        writers.append(start())
        with suppress(StaleStoreError):
            check_rows(path)
    # On a slow machine nobody may have come to an end yet.
    while not any(what[0] == "did" for what in notes(tmp_path)):
        assert all(one.process.is_alive() for one in writers), "a writer has failed"
        time.sleep(0.01)
    for one in writers:
        one.kill()

    table = HudiTable.open(path)
    table.rollback()
    table.clean(retain_commits=3)
    assert leftovers(path) == []
    check_history(path, tmp_path)
    commits = sum(one.is_write for one in table.timeline())
    with capsys.disabled():
        print(f"\nwriters, version {version}: {commits} commits, {KILLS} killed")


def check_rows(path: Path) -> pa.Table:
    rows = HudiTable.open(path).scan()
    ids = rows["id"].to_pylist()
    assert len(ids) == len(set(ids)), "a key twice"
    return rows


def check_history(path: Path, logs: Path) -> None:
    """Replay what the timeline says in the order in which it was completed."""
    tried = {what[1]: (what[2], what[3]) for what in notes(logs) if what[0] == "tries"}
    acknowledged = {what[1] for what in notes(logs) if what[0] == "did"}
    view = HudiTable.open(path)._view()
    state: dict[int, str] = {}
    tokens = []
    writes = view.timeline.writes()
    if view.options.version == 6:
        # The name does not say when; the file does.
        writes.sort(key=lambda one: (path / ".hoodie" / one.file_name).stat().st_mtime_ns)
    else:
        writes.sort(key=lambda one: one.position)
    for instant in writes:
        commit = parse_commit(view.folder.read(instant), instant.time)
        token = (commit.extra_metadata or {})[TOKEN]
        tokens.append(token)
        keys, is_delete = tried[token]
        for key in keys:  # type: ignore[attr-defined]
            state.pop(key, None)
            if not is_delete:
                state[key] = token
    assert len(tokens) == len(set(tokens)), "once each"
    # A delete of keys that are not there is no commit.
    lost = {token for token in acknowledged - set(tokens) if not tried[token][1]}
    assert not lost
    rows = check_rows(path)
    assert dict(zip(rows["id"].to_pylist(), rows["value"].to_pylist(), strict=True)) == state
    assert_same_rows(rows, other_scan(path))
    found = HudiTable.open(path).verify()
    assert [one for one in found.findings if one.kind != "leftover"] == []
