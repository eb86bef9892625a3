"""Writers in processes of their own, some of them killed, and what their table has to be then."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from support.hudi.kills import leftovers
from support.hudi.oracle import assert_same_rows, other_scan

from lookupstore.errors import CommitConflictError, CommitUnknownError, StaleStoreError
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.timeline.commit import parse_commit
from lookupstore.hudi.write.partitioner import FileSizing

SCHEMA = pa.schema({"id": pa.int64(), "value": pa.string()})
TOKEN = "test.token"
KEYS = 40

spawn = multiprocessing.get_context("spawn")


def write_for_ever(path: str, log: str, seed: int) -> None:
    """Upsert, merge and delete random keys, each with a token; note first what, and then that."""
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
            try:
                if is_delete:
                    done = table.delete(pa.array(keys), options=options)
                else:
                    rows = pa.table({"id": keys, "value": [token] * len(keys)}, schema=SCHEMA)
                    if number % 3:
                        done = table.upsert(rows, options=options)
                    else:  # which makes the same of the table
                        merge = table.merge(rows).when_matched_update().when_not_matched_insert()
                        done = merge.execute(options=options)
                note("did", token, done.retries)
            except (CommitConflictError, StaleStoreError):
                note("did not", token)
            except CommitUnknownError:
                note("may have done", token)
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


@dataclass(frozen=True)
class Outcome:
    """What came of a race."""

    tries: int
    commits: int
    retries: int
    refused: int
    killed: int
    checks: int

    def __str__(self) -> str:
        return (
            f"{self.tries} writes tried, {self.commits} committed, {self.retries} tried again, "
            f"{self.refused} refused, {self.killed} writers killed, {self.checks} checks: "
            "nothing lost, nothing twice"
        )


def race(
    folder: Path,
    version: int,
    writers: int,
    seed: int,
    *,
    kills: int = 0,
    seconds: float = 0,
    pause: float = 0.6,
) -> Outcome:
    """Let writers race, kill some, look at the table each time, and at its history in the end.

    Args:
        folder: empty, for table and notes.
        version: of the table.
        writers: that are at work at once.
        seed: by which writers are killed.
        kills: so many are, at least.
        seconds: that it takes, at least.
        pause: seconds until the next one is killed, at most.
    """
    path = folder / "t"
    HudiTable.create(path, SCHEMA, record_key=["id"], version=version)
    seeds = iter(range(1_000_000))

    def start() -> Writer:
        seed = next(seeds)
        log = folder / f"{seed}.log"
        process = spawn.Process(target=write_for_ever, args=(str(path), str(log), seed))
        process.start()
        return Writer(process, log)

    chance = random.Random(seed)
    end = time.monotonic() + seconds
    killed = checks = 0
    at_work = [start() for _ in range(writers)]
    try:
        while killed < kills or time.monotonic() < end:
            victim = at_work.pop(chance.randrange(len(at_work)))
            while not victim.log.exists():  # it takes a second until it is at work
                assert victim.process.is_alive(), "a writer has failed"
                time.sleep(0.01)
            time.sleep(chance.uniform(0, pause))
            victim.kill()
            killed += 1
            at_work.append(start())
            with suppress(StaleStoreError):
                check_rows(path)
                checks += 1
        # On a slow machine nobody may have come to an end yet.
        while not any(what[0] == "did" for what in notes(folder)):
            assert all(one.process.is_alive() for one in at_work), "a writer has failed"
            time.sleep(0.01)
    finally:
        for one in at_work:
            one.process.kill()
            one.process.join()
    assert all(one.process.exitcode == -signal.SIGKILL for one in at_work), "a writer has failed"

    table = HudiTable.open(path)
    table.rollback()
    table.clean(retain_commits=3)
    assert leftovers(path) == []
    check_history(path, folder)
    said = Counter(what[0] for what in notes(folder))
    commits = sum(one.is_write and one.is_completed for one in table.timeline())
    retries = sum(what[2] for what in notes(folder) if what[0] == "did")  # type: ignore[misc]
    return Outcome(said["tries"], commits, retries, said["did not"], killed, checks + 1)


def check_rows(path: Path) -> pa.Table:
    rows = HudiTable.open(path).scan()
    ids = rows["id"].to_pylist()
    assert len(ids) == len(set(ids)), "a key twice"
    return rows


def check_history(path: Path, logs: Path) -> None:
    """Replay what the timeline says in the order in which it was completed."""
    tried = {what[1]: (what[2], what[3]) for what in notes(logs) if what[0] == "tries"}
    acknowledged = {what[1] for what in notes(logs) if what[0] == "did"}
    view = HudiTable.open(path).view()
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
    refused = {what[1] for what in notes(logs) if what[0] == "did not"}
    assert not refused & set(tokens), "told that nothing was changed"
    # A delete of keys that are not there is no commit.
    lost = {token for token in acknowledged - set(tokens) if not tried[token][1]}
    assert not lost
    rows = check_rows(path)
    assert dict(zip(rows["id"].to_pylist(), rows["value"].to_pylist(), strict=True)) == state
    assert_same_rows(rows, other_scan(path))
    found = HudiTable.open(path).verify()
    assert [one for one in found.findings if one.kind != "leftover"] == []
