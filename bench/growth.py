"""A store of more and more rows: its build, its first keys, and what each further process needs.

build     seconds and bytes of the files; rows are an int64 key and two int64, in order
cold      random keys in one call of a new process, one of ten missing, the files on the disk only
calls     calls of a million such keys, in a new process on a host without a table of places; the
          files are in memory. Hot is the first call within 1.3 times the median of the last three
warm      `store.warm()` in such a process
workers   processes that start one after the other and ask as the first one did, which keeps the
          store open, as they do: speed of their first call beside the last three of the first
          process, and memory, the mean of the workers so far

Private memory is anonymous memory less that before the store was opened, when keys and answers are
freed. Lines of 1,000,000,000 rows are reckoned from those of the two largest sizes: on a straight
line by the rows, and for rates, ratios and numbers per key by their logarithm. It needs Linux.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from bars import OURS, Bar, Measurement, Subject
from defaults import forget
from growth_once import CALLS, COLD, WARM, memory, rows_of
from harness import Run, add_json_lines, command_line, in_a_process

import lookupstore
from lookupstore.builder.bucket_count import bucket_count

ROWS = (10_000_000, 100_000_000, 300_000_000)
RECKONED = 1_000_000_000
COUNTS = (1_000, 10_000)
WORKERS = (1, 2, 4, 8)
HOT, WORKER = "hot process", "further worker"
HEADER = (
    "build, s", "MB",
    *(f"{count:,} cold, {what}" for count in COUNTS for what in ("ms", "KiB a key")),
    "calls until hot", "hot, M keys/s", "warm, s",
)  # fmt: skip
WORKERS_HEADER = (
    "first call / hot", "RSS, MB", "PSS, MB", "private, MB", "private, B a row",
)  # fmt: skip

#: Numbers that grow with the rows; others grow with their logarithm, or not at all.
GROWING = {
    *("build, s", "MB", "calls until hot", "warm, s"),
    *("RSS, MB", "PSS, MB", "private, MB"),
}

_CHUNK = 1 << 20
#: Bytes of a row, for the number of buckets that a build would choose.
_ROW = 24
#: Bytes on the disk per row at most: sorted runs, the store, a table of places or two.
_ROOM = 90
#: Tables of places are not shared of files that are younger than two seconds.
_SECONDS = 2.1
_ONCE = "growth_once.py"


class Found(NamedTuple):
    """What was measured of one number of rows.

    Attributes:
        numbers: Numbers in the line of the table.
        workers: numbers of the line in the table of workers, by how many there are.
    """

    numbers: list[float]
    workers: dict[int, list[float]]


class Amounts(NamedTuple):
    """How much is asked for.

    Attributes:
        keys: in a call, until calls are hot.
        calls: Number of calls of each process.
        rounds: Number of rounds of what new processes do alone.
        workers: numbers of further processes for which there is a line.
    """

    keys: int
    calls: int
    rounds: int
    workers: list[int]


class Worker:
    """A process that has asked a store, and keeps it open until it is closed.

    Attributes:
        seconds: Seconds of each call.
        processor: seconds of processors of each call.
        private: bytes of private memory after its calls.
    """

    def __init__(self, cache: Path, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name(_ONCE)), CALLS, *arguments],
            env=os.environ | {"LOOKUPSTORE_CACHE": str(cache)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        found = json.loads(self._process.stdout.readline())
        self.seconds: list[float] = found["seconds"]
        self.processor: list[float] = found["processor"]
        self.private: int = found["private"]

    def memory(self) -> dict[str, int]:
        """Return the bytes of memory that the process has now."""
        return memory(self._process.pid)

    def close(self) -> None:
        self._process.communicate()


class Growth:
    """The measurements of one number of rows.

    Args:
        run: keeps what is measured.
        folder: an empty one, for all files.
        rows: Number of rows of the store.
        amounts: Number of keys, calls, rounds and workers.
    """

    def __init__(self, run: Run, folder: Path, rows: int, amounts: Amounts) -> None:
        self._run, self._folder, self._path = run, folder, folder / "store"
        self._rows, self._amounts = rows, amounts
        self._asked = (str(self._path), str(rows))

    def measure(self) -> Found:
        """Return all that is measured."""
        built = self._build()
        time.sleep(_SECONDS)
        cold = [number for count in COUNTS for number in self._cold(count)]
        self._read()
        warm = self._warm()
        with ExitStack() as stack:
            first = self._worker(stack, 0)
            until, speed = self._hot(first)
            workers = self._workers(stack, statistics.median(first.seconds[-3:]))
        return Found([*built, *cold, until, speed, warm], workers)

    def _add(
        self, verb: str, contender: str, rounds: Iterable[float], operations: int = 1
    ) -> float:
        subject = Subject(named(self._rows), verb, contender)
        one = Measurement(subject, tuple(rounds), operations)
        self._run.add(one)
        return one.value

    def _build(self) -> tuple[float, float]:
        schema = rows_of(np.arange(0)).schema
        source = pa.RecordBatchReader.from_batches(schema, batches(self._rows))
        buckets = bucket_count(self._rows * _ROW)
        start = time.perf_counter()
        options: dict[str, Any] = {"key": "key", "buckets": buckets, "progress": False}
        lookupstore.build(source, self._path, **options).close()
        seconds = self._add("build seconds", OURS, [time.perf_counter() - start])
        nbytes = self._add("size", OURS, [sum(path.stat().st_size for path in self._files())])
        return seconds, nbytes / 1e6

    def _files(self) -> list[Path]:
        return [path for path in self._path.rglob("*") if path.is_file()]

    def _cold(self, count: int) -> tuple[float, float]:
        found = []
        for number in range(self._amounts.rounds):
            for path in self._files():
                forget(path)
            found.append(self._once(COLD, str(count), str(number)))
        seconds = self._add(f"cold {count:,}", OURS, [one["seconds"] for one in found])
        per_key = [one["bytes"] / 1024 / count for one in found]
        return seconds * 1e3, self._add(f"KiB of {count:,}", OURS, per_key)

    def _read(self) -> None:
        """Bring the files into memory, as a build or a copy leaves them there."""
        for path in self._files():
            forget(path)
            with path.open("rb", buffering=0) as file:
                while file.read(_CHUNK):
                    pass

    def _warm(self) -> float:
        rounds = [self._once(WARM)["seconds"] for _ in range(self._amounts.rounds)]
        return self._add("warm seconds", OURS, rounds)

    def _once(self, verb: str, *arguments: str) -> dict[str, Any]:
        """Return what a process finds that shares nothing with others."""
        with TemporaryDirectory(dir=self._folder) as cache:
            return in_a_process(_ONCE, verb, *self._asked, *arguments, LOOKUPSTORE_CACHE=cache)

    def _worker(self, stack: ExitStack, number: int) -> Worker:
        arguments = (*self._asked, str(self._amounts.keys), str(number), str(self._amounts.calls))
        one = Worker(self._folder / "cache", *arguments)
        stack.callback(one.close)
        return one

    def _hot(self, first: Worker) -> tuple[float, float]:
        for what, every in (("seconds", first.seconds), ("processor seconds", first.processor)):
            text = ", ".join(f"{one:.3f}" for one in every)
            print(f"{named(self._rows)}: {what} of the calls of a new process: {text}")
        until = self._add("calls until hot", OURS, [calls_until_hot(first.seconds)])
        return until, self._add("keys", HOT, first.seconds[-3:], self._amounts.keys) / 1e6

    def _workers(self, stack: ExitStack, hot: float) -> dict[int, list[float]]:
        workers: list[Worker] = []
        found = {}
        for number in range(1, max(self._amounts.workers) + 1):
            workers.append(self._worker(stack, number))
            if number in self._amounts.workers:
                found[number] = self._numbers(workers, hot)
        text = ", ".join(f"{one.processor[0]:.3f}" for one in workers)
        print(f"{named(self._rows)}: processor seconds of the first call of each worker: {text}")
        self._add("keys", WORKER, [one.seconds[0] for one in workers], self._amounts.keys)
        self._add("private memory", WORKER, [one.private for one in workers])
        return found

    def _numbers(self, workers: Sequence[Worker], hot: float) -> list[float]:
        every = [one.memory() for one in workers]
        first = hot / statistics.median(one.seconds[0] for one in workers)
        rss, pss = (statistics.mean(one[name] for one in every) / 1e6 for name in ("Rss", "Pss"))
        private = statistics.mean(one.private for one in workers)
        return [first, rss, pss, private / 1e6, private / self._rows]


def named(rows: int) -> str:
    """Return what a number of rows is called in measurements and bars."""
    return f"{rows:,} rows"


def batches(rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a store in the order of their keys."""
    for start in range(0, rows, _CHUNK):
        yield rows_of(2 * np.arange(start, min(start + _CHUNK, rows)))


def calls_until_hot(seconds: Sequence[float]) -> int:
    """Return how many calls come before the first that is as fast as the last ones.

    >>> calls_until_hot([3.0, 1.4, 1.3, 1.5, 1.0, 0.9, 1.1])
    2
    """
    hot = statistics.median(seconds[-3:])
    return next(number for number, one in enumerate(seconds) if one <= 1.3 * hot)


def bars(rows: int) -> list[Bar]:
    """Return what a store of so many rows has to reach."""
    workload, most = named(rows), 0.2 * rows + 20e6
    return [
        Bar("private memory", workload, "private memory", WORKER, most, at_most=True),
        Bar("first call / hot", workload, "keys", WORKER, 0.8, HOT),
        Bar("calls until hot", workload, "calls until hot", OURS, 4, at_most=True),
    ]


def reckoned(what: str, few: tuple[int, float], many: tuple[int, float]) -> float:
    """Return the number of the line that is reckoned from those of two others.

    Args:
        what: the name of the number.
        few: rows, and their number.
        many: the same of more rows.
    """
    scale: Callable[[float], float] = float if what in GROWING else math.log
    share = (scale(RECKONED) - scale(many[0])) / (scale(many[0]) - scale(few[0]))
    return many[1] + share * (many[1] - few[1])


def cell(number: float) -> str:
    """Return a number for a table; one that is reckoned from noise may be negative."""
    return f"{number:.4g}" if number > 0 else "-"


def table(header: Sequence[str], lines: Mapping[int, Sequence[float]], *labels: str) -> str:
    """Return lines of a table in Markdown: one per number of rows, and the one that is reckoned.

    Args:
        header: names of the numbers.
        lines: numbers, by the number of rows.
        labels: Text after the number of rows in each line.
    """
    named_lines = [(f"{rows:,}", list(numbers)) for rows, numbers in lines.items()]
    if len(lines) > 1:
        few, many = sorted(lines)[-2:]
        pairs = zip(header, lines[few], lines[many], strict=True)
        found = [reckoned(what, (few, one), (many, other)) for what, one, other in pairs]
        named_lines.append((f"{RECKONED:,}, reckoned", found))
    return "\n".join(
        "| " + " | ".join([name, *labels, *map(cell, numbers)]) + " |"
        for name, numbers in named_lines
    )


def head(header: Sequence[str]) -> str:
    """Return the head of a table in Markdown."""
    return "\n| " + " | ".join(header) + " |\n" + "|---" * len(header) + "|"


def with_room(every: Sequence[int], folder: Path) -> list[int]:
    """Return the numbers of rows that the disk has room for, and print which it has not."""
    free = shutil.disk_usage(folder).free
    for rows in every:
        if rows * _ROOM > free:
            print(f"{named(rows)} are left out: {rows * _ROOM / 1e9:.0f} GB of disk are needed, "
                  f"{free / 1e9:.0f} GB are free")  # fmt: skip
    return [rows for rows in every if rows * _ROOM <= free]


def numbers_of(text: str) -> list[int]:
    """Return the numbers in an option, in ascending order."""
    return sorted({int(one) for one in text.split(",")})


def main(given: Sequence[str] | None = None) -> None:
    parser = command_line("make bench-growth", __doc__, rounds=3)
    for option, numbers, what in (
        ("--rows", ROWS, "of the stores"),
        ("--workers", WORKERS, "further processes"),
    ):
        default = ",".join(map(str, numbers))
        parser.add_argument(option, type=numbers_of, default=default, help=f"{what} (%(default)s)")
    parser.add_argument("--keys", type=int, default=1_000_000, help="in a call (%(default)s)")
    parser.add_argument("--calls", type=int, default=12, help="of each process (%(default)s)")
    add_json_lines(parser, "growth.jsonl")
    chosen = parser.parse_args(given)
    amounts = Amounts(chosen.keys, chosen.calls, chosen.rounds, chosen.workers)
    run = Run({"rows": chosen.rows, **amounts._asdict()})
    found: dict[int, Found] = {}
    with TemporaryDirectory() as name:
        for rows in with_room(chosen.rows, Path(name)):
            with TemporaryDirectory(dir=name) as folder:
                found[rows] = Growth(run, Path(folder), rows, amounts).measure()
    print(head(["rows", *HEADER]))
    print(table(HEADER, {rows: one.numbers for rows, one in found.items()}))
    print(head(["rows", "workers", *WORKERS_HEADER]))
    for count in amounts.workers:
        numbers = {rows: one.workers[count] for rows, one in found.items()}
        print(table(WORKERS_HEADER, numbers, str(count)))
    run.judge([one for rows in found for one in bars(rows)], {})
    run.end(chosen.json_lines)


if __name__ == "__main__":
    main()
