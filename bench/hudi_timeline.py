"""Measure a Hudi table with many commits, before and after its old ones are archived.

    python bench/hudi_timeline.py                   # 10,000 commits
    python bench/hudi_timeline.py --commits 500 --rounds 1

Each verb begins with a table that is opened anew, as in a process of its own. Base files are few
and small, so that what is measured is the timeline: the files of the oldest commits are gone, as
after a clean.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
from bars import Bar, Measurement, Subject
from harness import Run, add_choice, add_json_lines, clocked, command_line, in_turns
from hudi_tables import SCHEMA, random_rows

from lookupstore.hudi import HudiTable, Instant, State
from lookupstore.hudi.timeline.commit import commit_bytes
from lookupstore.hudi.timeline.instant_times import print_time

ROWS = 10_000
VERSIONS = (6, 9)
LONG, SHORT = "all commits", "archived"
VERBS = ("open", "upsert", "time travel")
BARS = [
    Bar(f"{verb}, version {version}, before / after", f"version {version}", f"timeline {verb}",
        LONG, 20, SHORT)
    for version in VERSIONS
    for verb in VERBS
]  # fmt: skip


def with_commits(path: Path, version: int, commits: int) -> HudiTable:
    """Return a table whose last commits are real, and the others are there in the timeline only."""
    table = HudiTable.create(path, SCHEMA, record_key="id", version=version, name="t")
    rows = random_rows(np.arange(ROWS), seed=0)
    last = table.insert(rows).instant
    assert last is not None
    said = table.view().commit(last)
    profile = b"" if said.stats is None else commit_bytes(replace(said, stats={}), version)
    content = commit_bytes(said, version)
    folder = path / table.options.timeline
    start = datetime.now(timezone.utc) - timedelta(seconds=60 * commits + 3600)
    for number in range(commits - 4):
        begun, ended = (
            print_time(start + timedelta(seconds=60 * number + more)) for more in (0, 1)
        )
        done = Instant(begun, "commit", State.COMPLETED, None if version == 6 else ended)
        for state, held in ((State.REQUESTED, b""), (State.INFLIGHT, profile)):
            one = replace(done, state=state, completed=None)
            (folder / one.file_name).write_bytes(held)
        (folder / done.file_name).write_bytes(content)
    for number in range(3):
        table.upsert(rows.slice(number, 1))
    return table


def verbs(path: Path) -> dict[str, Callable[[], float]]:
    """Return what does each verb with a table, and says its seconds."""
    change = random_rows(np.arange(10), seed=1)
    time = HudiTable.open(path).timeline()[-2].time

    def of(rows: pa.Table) -> None:
        if rows.num_rows != ROWS:
            raise AssertionError(f"{path}: {rows.num_rows} rows, not {ROWS}")

    return {
        "open": clocked(lambda: HudiTable.open(path).file_groups()),
        "upsert": clocked(lambda: HudiTable.open(path).upsert(change)),
        "time travel": clocked(lambda: of(HudiTable.open(path).scan(as_of=time))),
    }


def main(given: list[str] | None = None) -> None:
    """Measure as the command line says."""
    parser = command_line("python bench/hudi_timeline.py", __doc__, rounds=5, commits=10_000)
    add_choice(parser, "bars")
    add_json_lines(parser, "bench-hudi.jsonl")
    asked = parser.parse_args(given)
    chosen = [one for one in BARS if asked.only in one.name]
    if not chosen:
        sys.exit(f"--only {asked.only!r} is in the name of no bar")
    run = Run({name: getattr(asked, name) for name in ("commits", "rounds")})
    with tempfile.TemporaryDirectory(prefix="bench-hudi-") as given_folder:
        folder = Path(given_folder)
        for version in VERSIONS:
            workload = f"version {version}"
            if not any(one.subjects[0].workload == workload for one in chosen):
                continue
            long, short = folder / f"{version}-long", folder / f"{version}-short"
            with_commits(long, version, asked.commits)
            shutil.copytree(long, short)
            start = time.perf_counter()
            done = HudiTable.open(short).archive()
            took = time.perf_counter() - start
            print(f"{workload}: {len(done.commits):,} commits archived in {took:.1f} s")
            runs = {
                (verb, contender): act
                for contender, path in ((LONG, long), (SHORT, short))
                for verb, act in verbs(path).items()
            }
            for (verb, contender), found in in_turns(runs, asked.rounds, uncounted=1).items():
                run.add(Measurement(Subject(workload, f"timeline {verb}", contender), found))
    run.judge(chosen, {})
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
