"""Change the code a little, at random, and see whether the tests of its wing fail: `make mutants`.

| variable | meaning |
|---|---|
| MUTANTS | the number of changes |
| MUTANTS_SEED | the seed that draws them; a new one by default |
| MUTANTS_ONLY | wings, files or lines: `sst`, `store/buckets.py`, `store/buckets.py:120` |
| MUTANTS_ARGS | `--show` prints the changes and runs nothing; `--number 7` tries one again |

`--number` needs the same MUTANTS, MUTANTS_SEED and MUTANTS_ONLY; the report prints the whole
command. The wing `spark`, the demo, progress bars and HTML are left out. The work tree is only
read, except for measurements and verdicts, which are kept in `build/mutants`.

Each verdict is printed and kept when it is known. The command of an interrupted run, with its seed,
continues it and reports all verdicts; `--number` tries a change again. When the code or the tests
change, the kept verdicts are discarded.

A mutant is killed if a test fails. It is timed out if the tests take three times as long as without
the change; this counts as killed. Otherwise it survives: the line may be wrong and no test would
detect it. A mutant is not executed if no test of its wing reaches its line. Survivors are no error:
the exit status is 0.

The changes are this project's own (`changes.py`), because no tool on PyPI that was looked at
changes Python, Cython and C: mutmut and cosmic-ray change Python, and universalmutator changes C by
regular expressions on lines, comments included. `coverage` finds the tests that execute a line.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import queue
import random
import secrets
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mutants.changes import Change, changes_of
from mutants.workshop import (
    NotAMutantError,
    Outcome,
    Project,
    Workshop,
    wing_of,
)
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

# Spark's tests take minutes each; texts, bars and the demo are for people.
LEFT_OUT = (
    "lookupstore/spark/",
    "lookupstore/demo.py",
    "lookupstore/html_table.py",
    "lookupstore/progress.py",
    "csrc/test_threads.c",
    "csrc/tests/",
)
VERDICTS = ("killed", "timed out", "survived", "not executed")
# How many changes of one number are tried until one can be compiled.
TRIES = 20


@dataclass(frozen=True)
class Mutant:
    """One of the mutants that were drawn.

    Attributes:
        number: Position in the run.
        wing: Wing of the changed file.
        changes: The change to try, and its replacements if it cannot be compiled.
    """

    number: int
    wing: str
    changes: Sequence[Change]


def all_changes(project: Project, only: Sequence[str] = ()) -> dict[str, list[Change]]:
    """Return every change of the package and csrc, by wing."""
    found: dict[str, list[Change]] = defaultdict(list)
    for name in project.files:
        if not name.startswith(("lookupstore/", "csrc/")) or name.startswith(LEFT_OUT):
            continue
        if not name.endswith((".py", ".pyx", ".c", ".h")) or not selected(name, only):
            continue
        source = (project.root / name).read_bytes()
        changes = [one for one in changes_of(name, source) if in_lines(one, source, only)]
        if changes:
            found[wing_of(name)].extend(changes)
    return dict(sorted(found.items()))


def selected(name: str, only: Sequence[str]) -> bool:
    """Whether a file is asked for, as a wing, folder, file or line."""
    short = name.removeprefix("lookupstore/")
    for one in only:
        asked = one.partition(":")[0].removeprefix("lookupstore/")
        if short == asked or wing_of(name) == asked or short.startswith(asked.rstrip("/") + "/"):
            return True
        if Path(asked).suffix == "" and str(Path(short).with_suffix("")) == asked:
            return True
    return not only


def in_lines(change: Change, source: bytes, only: Sequence[str]) -> bool:
    """Whether a change is in a line that is asked for, if lines are."""
    lines = {int(line) for one in only if (line := one.partition(":")[2])}
    return not lines or change.line(source) in lines


def draw(found: dict[str, list[Change]], count: int, seed: int) -> list[Mutant]:
    """Draw mutants: each wing has its quota, and in a wing all kinds of change are as frequent.

    The same changes, count and seed give the same mutants.
    """
    mutants: list[Mutant] = []
    for wing, quota in quotas({wing: len(found[wing]) for wing in found}, count).items():
        order = shuffled(found[wing], random.Random(f"{seed}:{wing}"))
        for place in range(quota):
            changes = order[place::quota][:TRIES]
            mutants.append(Mutant(len(mutants) + 1, wing, changes))
    return mutants


def quotas(sizes: dict[str, int], count: int) -> dict[str, int]:
    """Return how many mutants each wing gets: one at least, while there are any.

    By the square root of its size, so that a small wing has enough of them for a score.
    """
    total = sum(sizes.values())
    roots = sum(map(math.sqrt, sizes.values()))
    shares = {
        wing: min(size, max(1, int(count * math.sqrt(size) / roots)))
        for wing, size in sizes.items()
    }
    by_size = sorted(sizes, key=lambda wing: (-sizes[wing], wing))
    while sum(shares.values()) > count:
        most = max(by_size, key=lambda wing: shares[wing])
        shares[most] -= 1
    while sum(shares.values()) < min(count, total):
        for wing in by_size:
            if shares[wing] < sizes[wing] and sum(shares.values()) < count:
                shares[wing] += 1
    return {wing: share for wing, share in shares.items() if share}


def shuffled(changes: Iterable[Change], drawn: random.Random) -> list[Change]:
    """Return changes in random order, so that no kind is more frequent while others are left."""
    by_kind: dict[str, list[Change]] = defaultdict(list)
    for change in sorted(changes):
        by_kind[change.kind].append(change)
    for kind in by_kind.values():
        drawn.shuffle(kind)
    order = []
    while by_kind:
        kinds = sorted(by_kind)
        drawn.shuffle(kinds)
        for name in kinds:
            order.append(by_kind[name].pop())
            if not by_kind[name]:
                del by_kind[name]
    return order


def compiles(change: Change, source: bytes) -> bool:
    """Whether a change of Python can be compiled, to something else than before."""
    if not change.file.endswith(".py"):
        return True
    try:
        changed = compile(change.apply(source), change.file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return changed != compile(source, change.file, "exec", dont_inherit=True)


@dataclass(frozen=True)
class Result:
    """What became of a mutant, and the change that it was in the end."""

    mutant: Mutant
    change: Change
    outcome: Outcome


class Verdicts:
    """What became of changes, in a file to which each verdict is added when it is known.

    Args:
        path: The file. It is valid for exactly the code and tests that the changes were tried on.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # None: the change is no mutant.
        self.known: dict[Change, Outcome | None] = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            change, outcome = json.loads(line)
            self.known[Change(**change)] = None if outcome is None else Outcome(**outcome)

    def add(self, change: Change, outcome: Outcome | None) -> None:
        """Keep a verdict; a later one of the same change replaces it."""
        found = None if outcome is None else dataclasses.asdict(outcome)
        # One write of a short line is whole, even if the process is killed.
        with self.path.open("a") as file:
            file.write(json.dumps([dataclasses.asdict(change), found]) + "\n")


class Run:
    """A run of some mutants, in as many copies as there are workers."""

    def __init__(self, project: Project, workers: int, told: Callable[[str], None]) -> None:
        self.project = project
        self.told = told
        self.workers = workers
        self.shops: list[Workshop] = []
        self.sources: dict[str, bytes] = {}
        self.results: list[Result] = []
        self.verdicts = Verdicts(project.kept / "verdicts")

    def source(self, change: Change) -> bytes:
        if change.file not in self.sources:
            self.sources[change.file] = (self.project.root / change.file).read_bytes()
        return self.sources[change.file]

    def first(self, mutant: Mutant) -> Change | None:
        """Return the change that is tried first: Cython and C are not compiled for it."""
        return next((one for one in mutant.changes if compiles(one, self.source(one))), None)

    def resume(self, mutants: Sequence[Mutant]) -> list[Mutant]:
        """Add the results that earlier runs kept; return the mutants that are left to be tried."""
        left = []
        for mutant in mutants:
            result = self.judged(mutant)
            if result is None:
                left.append(mutant)
            else:
                self.results.append(result)
        return left

    def judged(self, mutant: Mutant) -> Result | None:
        """Return what became of a mutant in an earlier run, if that is known."""
        for change in mutant.changes:
            if not compiles(change, self.source(change)):
                continue
            if change not in self.verdicts.known:
                return None
            outcome = self.verdicts.known[change]
            if outcome is not None:
                return Result(mutant, change, outcome)
        return None

    def measure(self, mutants: Sequence[Mutant], done: Callable[[], None]) -> None:
        """Measure the suites that the mutants need and that were not measured before.

        Those of C are measured when the first mutant survives the C test.
        """
        suites = self.missing(mutants)

        def one(shop: Workshop, suite: str) -> None:
            begin = time.monotonic()
            shop.measure(suite)
            self.told(f"measured {suite} in {time.monotonic() - begin:.0f} s")
            done()

        self.share(suites, one)

    def missing(self, mutants: Sequence[Mutant]) -> list[str]:
        """Return the suites that are still to be measured."""
        first = [change for one in mutants if (change := self.first(one)) is not None]
        needed = dict.fromkeys(
            suite
            for one in first
            if not one.file.startswith("csrc/")
            for suite in self.project.suites(one)
        )
        return [suite for suite in needed if not self.project.measurement(suite).exists()]

    def attempt(self, mutants: Sequence[Mutant], done: Callable[[Result], None]) -> list[Result]:
        """Try the mutants; return what became of all that were tried."""
        results = self.results

        def one(shop: Workshop, mutant: Mutant) -> None:
            for change in mutant.changes:
                if not compiles(change, self.source(change)):
                    continue
                try:
                    outcome = shop.attempt(change)
                except NotAMutantError as error:
                    self.verdicts.add(change, None)
                    said = str(error).strip().splitlines() or [""]
                    reason = next((one for one in said if "error" in one), said[-1])
                    line = change.line(self.source(change))
                    self.told(f"{mutant.number}: {change.file}:{line} is drawn again: {reason}")
                    continue
                self.verdicts.add(change, outcome)
                results.append(Result(mutant, change, outcome))
                done(results[-1])
                return

        self.share(mutants, one)
        return results

    def share(self, jobs: Iterable[object], work: Callable[..., None]) -> None:
        """Do jobs in the workshops, each in a thread of its own."""
        waiting: queue.SimpleQueue[object] = queue.SimpleQueue()
        for job in jobs:
            waiting.put(job)
        while len(self.shops) < min(self.workers, waiting.qsize()):
            self.shops.append(Workshop(self.project, len(self.shops)))
        errors: list[BaseException] = []

        ended: queue.SimpleQueue[None] = queue.SimpleQueue()

        def worker(shop: Workshop) -> None:
            try:
                while not errors and not self.project.stopped:
                    work(shop, waiting.get_nowait())
            except queue.Empty:
                pass
            except BaseException as error:
                errors.append(error)
            finally:
                ended.put(None)

        left = len(self.shops)
        for shop in self.shops:
            threading.Thread(target=worker, args=(shop,)).start()
        # Not by `join`: until Python 3.12, one that a signal interrupts takes the thread for ended.
        try:
            while left:
                ended.get()
                left -= 1
        except BaseException:
            self.project.stop()
            while left:
                ended.get()
                left -= 1
            raise
        if errors:
            raise errors[0]


# ---- what is printed ---------------------------------------------------------------------------


def score(counts: Counter[str]) -> str:
    """Return which share of mutants was killed, in percent."""
    caught = counts["killed"] + counts["timed out"]
    return f"{100 * caught / counts.total():.0f}%" if counts.total() else ""


def rows_of(results: Sequence[Result]) -> Iterator[list[str]]:
    """Yield the rows of the table: one a wing, and all."""
    by_wing: dict[str, Counter[str]] = defaultdict(Counter)
    for one in results:
        by_wing[one.mutant.wing][one.outcome.verdict] += 1
    total: Counter[str] = sum(by_wing.values(), Counter())
    for wing, counts in [*sorted(by_wing.items()), ("all", total)]:
        yield [
            wing,
            str(counts.total()),
            *(str(counts[verdict]) for verdict in VERDICTS),
            score(counts),
        ]


HEADERS = ["wing", "mutants", *VERDICTS, "score"]
LANGUAGES = {".py": "Python", ".pyx": "Cython", ".c": "C", ".h": "C header"}


def times_of(results: Sequence[Result]) -> Iterator[str]:
    """Yield how long a mutant took, by language."""
    for ending, language in LANGUAGES.items():
        took = [one.outcome.seconds for one in results if Path(one.change.file).suffix == ending]
        if took:
            yield f"{language}: {len(took)} tried, {sum(took) / len(took):.1f} s each"


def markdown(results: Sequence[Result], command: str) -> str:
    """Return the table as Markdown."""
    right = ["---:"] * (len(HEADERS) - 1)
    lines = [HEADERS, ["---", *right], *rows_of(results)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"`{command}`\n\n{table}\n"


def command_of(given: argparse.Namespace, seed: int, number: int | None = None) -> str:
    """Return what repeats a run, or one mutant of it."""
    line = f"make mutants MUTANTS={given.count} MUTANTS_SEED={seed}"
    line += f" MUTANTS_ONLY={','.join(given.only)}" if given.only else ""
    return line if number is None else f"{line} MUTANTS_ARGS='--number {number}'"


def described(result: Result, source: bytes) -> str:
    """Return one line about a result."""
    change, outcome = result.change, result.outcome
    by = f"  {outcome.by}" if outcome.by else ""
    return (
        f"{result.mutant.number}: {outcome.verdict}  {change.file}:{change.line(source)}  "
        f"{change.kind}  {outcome.seconds:.1f} s{by}"
    )


def show(change: Change, source: bytes) -> str:
    """Return a change as a place and its two lines."""
    return f"{change.file}:{change.line(source)} ({change.kind})\n{change.diff(source)}"


def report(
    console: Console, run: Run, results: Sequence[Result], given: argparse.Namespace
) -> None:
    """Print the survivors, the table and how long it took."""
    for one in results:
        if one.outcome.verdict in ("survived", "not executed"):
            command = command_of(given, given.seed, one.mutant.number)
            print(f"\n{one.mutant.number}: {one.outcome.verdict}: ", end="")
            print(f"{show(one.change, run.source(one.change))}\n  {command}")
    table = Table(title=f"Mutants, seed {given.seed}")
    for header in HEADERS:
        table.add_column(header, justify="left" if header == "wing" else "right")
    *wings, total = rows_of(results)
    for row in wings:
        table.add_row(*row)
    table.add_section()
    table.add_row(*total)
    print()
    console.print(table)
    for line in times_of(results):
        print(line)
    print(command_of(given, given.seed), flush=True)


def arguments(line: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300, help="mutants to draw (default: 300)")
    parser.add_argument("--seed", type=int, help="default: drawn, and printed")
    parser.add_argument(
        "--only",
        type=lambda text: [one for one in text.split(",") if one],
        default=[],
        help="wings, files or lines (FILE:LINE), separated by commas (default: all)",
    )
    parser.add_argument("--number", type=int, help="try this one of the mutants alone")
    parser.add_argument("--show", action="store_true", help="print the mutants, and try none")
    parser.add_argument("--markdown", type=Path, help="file to write the table to")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="copies at a time")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2], help="the checkout")
    return parser.parse_args(line)


def main(line: Sequence[str] | None = None) -> int:
    """Run the command."""
    given = arguments(line)
    if given.seed is None:
        given.seed = secrets.randbelow(1 << 32)
    print(f"seed {given.seed}", flush=True)
    project = Project(given.root.resolve())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return work(project, given)
    finally:
        project.close()


def work(project: Project, given: argparse.Namespace) -> int:
    """Draw the mutants, and show or try them."""
    mutants = draw(all_changes(project, given.only), given.count, given.seed)
    if given.number is not None:
        mutants = [one for one in mutants if one.number == given.number]
    if not mutants:
        print("no mutant is drawn: --only or --number names none", file=sys.stderr)
        return 2
    console = Console()
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )

    def told(text: str) -> None:
        if console.is_terminal:
            bars.console.print(text, highlight=False, markup=False)
        else:
            print(text, flush=True)

    run = Run(project, given.workers, told)
    if given.show:
        for mutant in mutants:
            change = run.first(mutant)
            if change is not None:
                print(f"{mutant.number}: {show(change, run.source(change))}")
        return 0
    drawn = len(mutants)
    if given.number is None:
        mutants = run.resume(mutants)
    if len(mutants) < drawn:
        told(f"{drawn - len(mutants)} of {drawn} mutants were tried by an earlier run")
    with bars:
        measuring = bars.add_task("tests measured", total=len(run.missing(mutants)))
        run.measure(mutants, lambda: bars.advance(measuring))
        trying = bars.add_task("mutants tried", total=drawn, completed=drawn - len(mutants))

        def done(result: Result) -> None:
            told(described(result, run.source(result.change)))
            bars.advance(trying)

        try:
            run.attempt(mutants, done)
        finally:
            # A run that is interrupted has found something, too.
            bars.stop()
            results = sorted(run.results, key=lambda one: one.mutant.number)
            report(console, run, results, given)
            if given.markdown:
                given.markdown.write_text(markdown(results, command_of(given, given.seed)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
