"""Let writers of one Hudi table race, as processes or as simulated ones, for as long as wanted.

As processes (`make hudi-soak`): two to eight of them write overlapping and disjoint keys for
minutes, and some are killed at random moments. In between no key is twice; in the end every write
that was acknowledged is in the timeline, once, none that was refused is, and the rows are those of
the writes in its order.

Simulated (`make hudi-sim`): the same code, with clocks that disagree, operations that take minutes
or fail, and processes that stand still, on a shared disk or an object store; `simulated.py` says
how. A seed is some minutes of up to five writers in a fraction of a second. One that found
something is printed, with the operations that led there; `--seeds 7:8` repeats that of 7.

The exit status is 1 if anything was found.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from support.hudi.race import race
from support.hudi.simulated import Report, simulate


def run_race(writers: list[int], seconds: float, version: int, seed: int) -> bool:
    """Let processes race; return whether all was well."""
    for number in writers:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="lookupstore-race-") as folder:
            try:
                outcome = race(Path(folder), version, number, seed, seconds=seconds, pause=3)
            except Exception:
                print(f"FOUND, seed {seed}: {traceback.format_exc()}")
                return False
        took = time.monotonic() - began
        print(f"{number} writers, version {version}, seed {seed}, {took:.0f} s: {outcome}")
    return True


def simulated(seed: int) -> tuple[Report, float]:
    """Run one seed, and say what it took of a processor; a trace is kept if something was found."""
    began = time.process_time()
    report = simulate(seed)
    if not report.problems:
        report.trace.clear()
    return report, time.process_time() - began


def run_simulation(seeds: range, processes: int) -> bool:
    """Simulate writers; return whether all was well."""
    began, steps, seconds, commits, found, used = time.monotonic(), 0, 0.0, 0, 0, 0.0
    told: Counter[str] = Counter()
    # What runs is made for one process that nothing else goes on in.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=spawn) as pool:
        for report, taken in pool.map(simulated, seeds):
            used += taken
            steps += report.steps
            seconds += report.seconds
            commits += report.commits
            told += report.told
            if report.problems:
                found += 1
                text = str(report) if found == 1 else f"seed {report.seed}: {report.problems}"
                print(f"FOUND: {text}", flush=True)
    took = time.monotonic() - began
    print(
        f"seeds {seeds.start}:{seeds.stop}, {took:.0f} s: {steps:,} operations of files in "
        f"{seconds:,.0f} simulated seconds, {seconds / used:,.0f} times as fast as the "
        f"{used:,.0f} s of a processor that it took; {commits:,} "
        f"commits; writers were told "
        + ", ".join(f"{what}: {count:,}" for what, count in sorted(told.items()))
    )
    print(f"{found} seeds found something" if found else "nothing found")
    return not found


def seed_range(text: str) -> range:
    """Return the seeds of `N` (from 0) or `FROM:TO`."""
    first, colon, last = text.partition(":")
    return range(int(first), int(last)) if colon else range(int(first))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=180, help="of each race")
    parser.add_argument("--writers", type=int, nargs="+", default=[2, 8], help="of each race")
    parser.add_argument("--version", type=int, default=9, choices=[6, 8, 9], help="of the table")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--seeds", type=seed_range, help="simulate: N, or FROM:TO")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="that simulate")
    arguments = parser.parse_args()
    if arguments.seeds is not None:
        is_well = run_simulation(arguments.seeds, arguments.processes)
    else:
        is_well = run_race(arguments.writers, arguments.seconds, arguments.version, arguments.seed)
    sys.exit(not is_well)


if __name__ == "__main__":
    main()
