"""Measure the core against its bars in one run; README.md says how to read it."""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bars import (
    BARS,
    DEFAULT_CACHE,
    INFORMATION,
    OURS,
    PAIMON,
    STORE,
    STORE_DEFAULT_CACHE,
    TWO_THREADS,
    TWO_WRITING,
    Measurement,
    Subject,
    bars_table,
    judge,
    measurement_text,
)
from measures import Measuring
from report import machine, machine_lines
from rivals import (
    CACHE_BYTES,
    Contender,
    Lmdb,
    Lookupstore,
    Numpy,
    Pandas,
    Rocksdict,
    Store,
    TwoThreads,
)
from workloads import WORKLOADS, Workload


def contenders(cache_bytes: int | None) -> dict[str, Contender]:
    """Return everybody by the names that the bars use.

    Args:
        cache_bytes: of our own cache, where no other is named; None for the default one.
    """
    every: tuple[Contender, ...] = (
        Lookupstore(OURS, cache_bytes=cache_bytes),
        Lookupstore(DEFAULT_CACHE, cache_bytes=None),
        Lookupstore(PAIMON, cache_bytes=cache_bytes, dialect="paimon"),
        Lookupstore(TWO_WRITING, cache_bytes=cache_bytes, threads=2),
        TwoThreads(TWO_THREADS, cache_bytes=cache_bytes),
        Store(STORE, cache_bytes=cache_bytes),
        Store(STORE_DEFAULT_CACHE, cache_bytes=None),
        Rocksdict(),
        Lmdb(),
        Numpy(),
        Pandas(),
    )
    return {one.name: one for one in every}


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-core", description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000, help="stored (%(default)s)")
    parser.add_argument("--queries", type=int, default=1_000_000, help="asked for (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="that are counted (%(default)s)")
    parser.add_argument("--workload", choices=[*WORKLOADS, "both"], default="both")
    parser.add_argument("--only", default="", metavar="TEXT", help="bars with this in their name")
    parser.add_argument(
        "--cache",
        choices=["hot", "default"],
        default="hot",
        help="of our readers: hot has room for everything, as the rivals' (%(default)s)",
    )
    parser.add_argument(
        "--json-lines",
        type=Path,
        default=Path("build/bench-core.jsonl"),
        metavar="FILE",
        help="where to add a line for every measurement and every bar (%(default)s)",
    )
    return parser.parse_args(given)


def measure(
    workload: Workload, wanted: Collection[Subject], present: Mapping[str, Contender], rounds: int
) -> Iterator[Measurement]:
    """Measure what is wanted of one workload, and leave no file behind."""
    with TemporaryDirectory(prefix="bench-core-") as folder:
        yield from Measuring(workload, Path(folder), present, rounds).run(wanted)


def peak_memory() -> int:
    """Return the most bytes that this process has had in memory, mapped files among them."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def add_json_lines(path: Path, run: dict[str, Any], found: Iterable[dict[str, Any]]) -> None:
    """Add a JSON object per line to a file; each says the whole run that it comes from."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for one in found:
            file.write(json.dumps({**one, "run": run}) + "\n")


def main(given: Sequence[str] | None = None) -> None:
    """Measure the bars that are asked for, print them and add them to the JSON lines."""
    asked = arguments(given)
    names = list(WORKLOADS) if asked.workload == "both" else [asked.workload]
    chosen = [one for one in BARS if one.workload in names and asked.only in one.name]
    if not chosen:
        sys.exit(f"--only {asked.only!r} is in the name of no bar of {' and '.join(names)}")
    every = contenders(None if asked.cache == "default" else CACHE_BYTES)
    lacking = {name: why for name, one in every.items() if (why := one.lacks()) is not None}
    present = {name: one for name, one in every.items() if name not in lacking}
    subjects = [subject for one in chosen for subject in one.subjects]
    subjects += [one for one in INFORMATION if one.workload in names and asked.only in one.verb]
    subjects = list(dict.fromkeys(subjects))  # each once

    sizes = {name: getattr(asked, name) for name in ("records", "queries", "rounds", "cache")}
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    run = {"started": started, "machine": machine(), "settings": sizes}
    print(*machine_lines(), f"bench: {sizes}\n", sep="\n", flush=True)

    start = time.perf_counter()
    measured: dict[Subject, Measurement] = {}
    for name in names:
        wanted = [one for one in subjects if one.workload == name and one.contender in present]
        workload = WORKLOADS[name](asked.records, asked.queries)
        for one in measure(workload, wanted, present, asked.rounds):
            print(measurement_text(one), flush=True)
            measured[one.subject] = one
        del workload  # before the next one is made
    outcomes = [judge(one, measured, lacking) for one in chosen]
    print(f"\n{bars_table(outcomes, measured)}\n")
    print(f"{time.perf_counter() - start:.0f} s, at most {peak_memory() / 1e9:.1f} GB of memory")
    found = [one.to_json() for one in measured.values()] + [one.to_json() for one in outcomes]
    add_json_lines(asked.json_lines, run, found)


if __name__ == "__main__":
    main()
