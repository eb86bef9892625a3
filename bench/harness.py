"""The harness of all topics: rounds that take turns, processes of their own, options, and a run.

A topic says its contenders, its verbs and its bars; everything else about a run is here.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from bars import (
    Bar,
    Measurement,
    Outcome,
    Subject,
    bars_table,
    judge,
    measurement_text,
    verbs_table,
)
from report import print_head
from workloads import WORKLOADS

Key = TypeVar("Key")
Found = TypeVar("Found")

HERE = Path(__file__).parent

#: What the sizes of topics are, for their options.
SIZES = {
    "records": "stored",
    "queries": "asked for",
    "few": "facts",
    "many": "facts",
    "rows": "in the table",
    "files": "that they are in",
    "columns": "of the file",
    "groups": "row groups of the file",
    "commits": "of the table",
    "changes": "in a batch",
    "keys": "to look for, or to upsert",
}


# ---- rounds -------------------------------------------------------------------------------------


def clocked(
    run: Callable[[], object], set_up: Callable[[], object] | None = None
) -> Callable[[], float]:
    """Return what runs something, after something that is not counted, and says its seconds."""

    def seconds() -> float:
        if set_up is not None:
            set_up()
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    return seconds


def in_turns(
    runs: Mapping[Key, Callable[[], Found]],
    rounds: int,
    *,
    uncounted: int = 0,
    to_and_fro: bool = False,
) -> dict[Key, tuple[Found, ...]]:
    """Return what each run found in each round: everybody's first, then everybody's second.

    So what slows the machine down for a while slows all down alike. Python's collector is off, as
    in timeit: some contenders make millions of objects.

    Args:
        runs: does one round, and returns what it found.
        rounds: how many are counted.
        uncounted: rounds before them, which warm what others have cooled.
        to_and_fro: who comes first in a round comes last in the next one.
    """
    found: dict[Key, list[Found]] = {key: [] for key in runs}
    turns = list(runs.items())
    gc.collect()
    gc.disable()
    try:
        for _ in range(uncounted + rounds):
            for key, run in turns:
                found[key].append(run())
            if to_and_fro:
                turns.reverse()
    finally:
        gc.enable()
    return {key: tuple(every[uncounted:]) for key, every in found.items()}


def median_seconds(run: Callable[[], object], rounds: int, *, uncounted: int = 0) -> float:
    """Return the median time of rounds in a row, in seconds."""
    return statistics.median(in_turns({"": clocked(run)}, rounds, uncounted=uncounted)[""])


def in_a_process(script: str, *arguments: str, **environment: str) -> dict[str, Any]:
    """Run a script of the bench in a process of its own, and return the JSON that it prints."""
    done = subprocess.run(
        [sys.executable, str(HERE / script), *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{script} {' '.join(arguments)}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def shares(rounds: Iterable[Mapping[str, Any]]) -> str:
    """Return what share of its seconds each step of ours takes, as text.

    Args:
        rounds: what processes printed, with the seconds of all and of their steps.
    """
    steps: dict[str, float] = {}
    total = 0.0
    for found in rounds:
        total += found["seconds"]
        for name, seconds in found["steps"].items():
            steps[name] = steps.get(name, 0.0) + seconds
    return ", ".join(f"{name} {seconds / total:.0%}" for name, seconds in steps.items())


# ---- options ------------------------------------------------------------------------------------


def command_line(
    program: str, about: str | None, *, rounds: int, **sizes: int
) -> argparse.ArgumentParser:
    """Return a parser of the options that all topics have: sizes, with their defaults, and rounds.

    Args:
        program: the command, as people type it.
        about: the topic's own words.
    """
    parser = argparse.ArgumentParser(
        prog=program, description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_sizes(parser, **sizes)
    parser.add_argument("--rounds", type=int, default=rounds, help="that are counted (%(default)s)")
    return parser


def add_sizes(parser: argparse.ArgumentParser, **sizes: int) -> None:
    """Add options of sizes, with their defaults."""
    for name, size in sizes.items():
        parser.add_argument(
            f"--{name}", type=int, default=size, help=f"{SIZES[name]} (%(default)s)"
        )


def add_workload(parser: argparse.ArgumentParser) -> None:
    """Add the option that chooses workloads."""
    parser.add_argument("--workload", choices=[*WORKLOADS, "both"], default="both")


def chosen_workloads(asked: argparse.Namespace) -> list[str]:
    """Return the names of the workloads that are asked for."""
    return list(WORKLOADS) if asked.workload == "both" else [asked.workload]


def add_choice(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the option that chooses bars or verbs."""
    parser.add_argument(
        "--only", default="", metavar="TEXT", help=f"{what} with this in their name"
    )


def add_json_lines(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the option of the file that keeps all that a run finds."""
    parser.add_argument(
        "--json-lines",
        type=Path,
        default=Path("build", default),
        metavar="FILE",
        help="where to add a line for every measurement and every bar (%(default)s)",
    )


# ---- a run --------------------------------------------------------------------------------------


class Run:
    """One run of a topic: what it measured, and how that met its bars.

    Args:
        settings: what numbers depend on beside code and machine.

    Attributes:
        measured: what was measured so far.
        outcomes: how its bars were met.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.start = time.perf_counter()
        started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        machine = print_head(settings)
        self.about = {"started": started, "machine": machine, "settings": dict(settings)}
        self.measured: dict[Subject, Measurement] = {}
        self.outcomes: list[Outcome] = []

    def add(self, one: Measurement, text: str | None = None) -> None:
        """Keep a measurement, and print it: as this text, if one is given."""
        self.measured[one.subject] = one
        print(measurement_text(one) if text is None else text, flush=True)

    def judge(self, bars: Iterable[Bar], lacking: Mapping[Subject, str]) -> None:
        """Say how bars were met; `lacking` says why something could not be measured."""
        self.outcomes = [judge(one, self.measured, lacking) for one in bars]
        print(f"\n{bars_table(self.outcomes, self.measured)}")

    def tables(self, title: str, verbs: Iterable[str], lacking: Mapping[Subject, str]) -> None:
        """Print a table per workload of these verbs; `lacking` is as for `judge`."""
        for why in dict.fromkeys(f"{one.contender}: {why}" for one, why in lacking.items()):
            print(why)
        for workload in sorted({one.workload for one in self.measured}):
            print(f"\n{verbs_table(workload, title, verbs, self.measured)}")

    def end(self, path: Path) -> None:
        """Say what the run took, and add all that it found to the JSON lines of a file."""
        seconds = time.perf_counter() - self.start
        print(f"\n{seconds:.0f} s, at most {peak_memory() / 1e9:.1f} GB of memory")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            for one in (*self.measured.values(), *self.outcomes):
                file.write(json.dumps({**one.to_json(), "run": self.about}) + "\n")


def peak_memory() -> int:
    """Return the most bytes that this process has had in memory, mapped files among them."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
