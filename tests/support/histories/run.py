"""Read random histories of tables by lookupstore and by other readers: `make histories`.

Each seed makes a history of each format. After each change, all rows, lookups in data files and a
store that follows are compared with the rows that another reader has, as `checks` describes. At
last all snapshots are read by their numbers and compared. With `--only-snapshots`, only this is
done, in about a third of the time.

`--foreign PYTHON` names the interpreter of another environment, which has what `foreign_reader`
needs. There a process reads each snapshot by pypaimon or DuckDB, too.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyiceberg.typedef import IcebergBaseModel

from support.histories.checks import FOREIGN, FORMATS, Others
from support.histories.foreign import ForeignReader

#: Seconds between two lines.
_OFTEN = 60


@dataclass(frozen=True)
class Outcome:
    """What became of a history.

    Attributes:
        name: Name of its format.
        seed: Its seed.
        counts: Number of snapshots, and of comparisons with each reader.
        error: The difference, or the error. Empty: none.
    """

    name: str
    seed: int
    counts: Counter[str]
    error: str


@dataclass
class Totals:
    """What became of all histories.

    Attributes:
        histories: Number of histories of each format.
        counts: Number of snapshots of each format, and of comparisons with each reader.
        differences: Number of histories that failed.
    """

    histories: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    differences: int = 0

    def add(self, one: Outcome) -> None:
        self.histories[one.name] += 1
        self.counts.update({
            f"{one.name} {what}" if what == "snapshots" else what: count
            for what, count in one.counts.items()
        })  # fmt: skip
        self.differences += bool(one.error)

    def __str__(self) -> str:
        return (
            f"{self.histories.total()} histories ({_listed(self.histories)}), "
            f"compared {_listed(self.counts)}; {self.differences} differences"
        )


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


_foreign: ForeignReader | None = None
_only_snapshots = False


def checked(history: tuple[str, int]) -> Outcome:
    """Check the history of a format and a seed."""
    name, seed = history
    others, error = Others(_foreign, only_snapshots=_only_snapshots), ""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="histories-", dir=memory) as folder:
        try:
            FORMATS[name](Path(folder), seed, others)
        except Exception:
            error = traceback.format_exc()
    return Outcome(name, seed, others.counts, error)


def begin(python: str | None, only_snapshots: bool) -> None:
    """Prepare a process that checks histories and does nothing else."""
    global _foreign, _only_snapshots
    _only_snapshots = only_snapshots
    # As in tests/conftest.py: nothing here outlives the machine's power.
    os.fsync = os.fstat  # type: ignore[assignment]
    warnings.filterwarnings("ignore", "Delete operation did not match any records")
    logging.getLogger("lookupstore").setLevel(logging.ERROR)
    # pyiceberg copies all metadata of a table for each change. These objects never change.
    IcebergBaseModel.__deepcopy__ = lambda self, memo=None: self  # type: ignore[method-assign]
    _foreign = ForeignReader(python) if python else None


@contextmanager
def _outcomes(
    histories: Iterable[tuple[str, int]], processes: int, python: str | None, only_snapshots: bool
) -> Iterator[Iterator[Outcome]]:
    """Check histories in this process, or in several."""
    if processes == 1:
        yield map(checked, histories)
        return
    with multiprocessing.get_context("spawn").Pool(
        processes, begin, (python, only_snapshots)
    ) as pool:
        yield pool.imap(checked, histories)


def main(given: Sequence[str] | None = None) -> int:
    """Check histories, print each that fails with its seed, and return an exit status."""
    parser = argparse.ArgumentParser(prog="make histories", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="number of histories of each format")
    parser.add_argument("--first", type=int, default=None, help="first seed; default: random")
    parser.add_argument("--format", choices=[*FORMATS, "all"], default="all")
    parser.add_argument("--processes", type=int, default=1, help="default: 1")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--only-snapshots", action="store_true", help="no lookups, no followers")
    parser.add_argument("--foreign", metavar="PYTHON", help="Python with pypaimon and DuckDB")
    asked = parser.parse_args(given)
    first = random.SystemRandom().randrange(1 << 31) if asked.first is None else asked.first
    names = [name for name in FORMATS if asked.foreign or name not in FOREIGN]
    if asked.format in FOREIGN and not asked.foreign:
        parser.error(f"--format {asked.format} needs --foreign")
    if asked.format != "all":
        names = [asked.format]
    histories = ((name, seed) for seed in range(first, first + asked.seeds) for name in names)
    if __name__ == "__main__" and asked.processes == 1:
        begin(asked.foreign, asked.only_snapshots)
    totals, start = Totals(), time.monotonic()
    said = start

    def say() -> None:
        done = totals.histories.total() // len(names)
        print(
            f"seeds from {first}: {totals}, {time.monotonic() - start:.0f} s "
            f"({time.process_time():.0f} s of this process); continue with "
            f"--first {first + done}",
            flush=True,
        )

    with _outcomes(histories, asked.processes, asked.foreign, asked.only_snapshots) as outcomes:
        for one in outcomes:
            totals.add(one)
            if one.error:
                print(one.error)
                print(f"FAILED: --format {one.name} --first {one.seed} --seeds 1", flush=True)
            now = time.monotonic()
            if now - start > asked.seconds:
                break
            if now - said > _OFTEN:
                said = now
                say()
    say()
    return 1 if totals.differences else 0


if __name__ == "__main__":
    sys.exit(main())
