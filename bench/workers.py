"""The memory of each of several processes of one host that look up in one store.

service   workers of gunicorn, forked from a process that has opened the store
spark     Python workers of an executor, in a join with `strategy="replicated"`

Every worker looks up so many keys that the store is hot, and then keeps it open. Private memory is
the anonymous memory that a worker has more than before: before its first lookup, or, in Spark,
before the join, when it had passed on some rows in Arrow batches. It needs Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from bars import Bar, Measurement, Subject
from growth import WORKERS, batches, cell, head, named, numbers_of
from growth_once import memory, rows_of
from harness import HERE, Run, add_json_lines, add_sizes
from joins_rivals import workers as python_workers
from pyspark.sql import functions as f

import lookupstore
from lookupstore.spark import lookup_join, session

KINDS = SERVICE, SPARK = "service", "spark"
HEADER = ("kind", "workers", "RSS, MB", "PSS, MB", "private, MB", "private, B a row")

#: Bytes that a further worker may need beside 0.2 for each row.
_MOST = 20e6
#: Tables of places are not shared of files that are younger than two seconds.
_SECONDS = 2.1


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def service(store: Path, rows: int, workers: int, cache: Path) -> Iterator[str]:
    """Run the service as long as the block does, and yield its address."""
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "gunicorn", "--preload", "--log-level", "error"]
    command += ["--bind", address, "--workers", str(workers), "workers_service:app"]
    environment = {"BENCH_STORE": str(store), "BENCH_ROWS": str(rows)}
    environment["LOOKUPSTORE_CACHE"] = str(cache)
    with subprocess.Popen(command, cwd=HERE, env=os.environ | environment) as process:
        try:
            yield address
        finally:
            process.terminate()


def asked(address: str, keys: int) -> dict[str, int]:
    """Ask the service for random keys; it may still be starting."""
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"http://{address}/?keys={keys}", timeout=60) as answer:
                found: dict[str, int] = json.load(answer)
                return found
        except urllib.error.URLError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def of_service(
    store: Path, rows: int, workers: int, keys: int, calls: int, cache: Path
) -> list[dict[str, int]]:
    """Return the memory of each worker of a service once all have answered so many calls."""
    seen: dict[int, list[dict[str, int]]] = {}
    with service(store, rows, workers, cache) as address, ThreadPoolExecutor(workers) as pool:
        for _ in range(50 * calls):
            for one in pool.map(lambda _: asked(address, keys), range(workers)):
                seen.setdefault(one["pid"], []).append(one)
            if len(seen) == workers and min(map(len, seen.values())) >= calls:
                return [
                    {**memory(pid), "private": answers[-1]["private"]}
                    for pid, answers in seen.items()
                ]
    raise RuntimeError(f"of {workers} workers only {len(seen)} answered {calls} calls")


def passed_on(some: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches as they come, for a worker that does nothing else."""
    yield from some


def of_spark(
    store: Path, rows: int, workers: int, keys: int, calls: int, cache: Path
) -> list[dict[str, int]]:
    """Return the memory of each Python worker of an executor after a join."""
    os.environ["LOOKUPSTORE_CACHE"] = str(cache)
    spark = session("bench-workers", f"local[{workers}]", **{"spark.log.level": "ERROR"})
    try:
        facts = spark.range(0, workers * calls * keys, 1, workers)
        facts = facts.select((2 * (f.rand(1) * rows).cast("long")).alias("key"))
        facts.mapInArrow(passed_on, "key long").write.format("noop").mode("overwrite").save()
        before = {pid: memory(pid)["Anonymous"] for pid in python_workers(spark)}
        joined = lookup_join(facts, str(store), on="key", strategy="replicated")
        wrong = joined.where("b is null or b != key").count()
        assert wrong == 0, wrong
        after = {pid: memory(pid) for pid in python_workers(spark)}
    finally:
        spark.stop()
    usual = int(statistics.median(before.values()))
    return [
        {**one, "private": one["Anonymous"] - before.get(pid, usual)} for pid, one in after.items()
    ]


class Workers:
    """The measurements of one store.

    Args:
        run: keeps what is measured.
        folder: an empty one, for all files.
        rows: Number of rows of the store.
        keys: Number of keys in a call.
        calls: Number of calls of each worker.
    """

    def __init__(self, run: Run, folder: Path, rows: int, keys: int, calls: int) -> None:
        self._run, self._rows, self._keys, self._calls = run, rows, keys, calls
        self._store, self._cache = folder / "store", folder / "cache"
        source = pa.RecordBatchReader.from_batches(rows_of(np.arange(0)).schema, batches(rows))
        lookupstore.build(source, self._store, key="key", progress=False).close()
        time.sleep(_SECONDS)

    def measure(self, kind: str, workers: int) -> list[float]:
        """Return the numbers of a line of the table."""
        of_kind = of_service if kind == SERVICE else of_spark
        found = of_kind(self._store, self._rows, workers, self._keys, self._calls, self._cache)
        private = [float(one["private"]) for one in found]
        subject = Subject(workload(self._rows, workers), "private memory", kind)
        self._run.add(Measurement(subject, tuple(private)))
        rss, pss = (statistics.mean(one[name] for one in found) / 1e6 for name in ("Rss", "Pss"))
        mean = statistics.mean(private)
        return [rss, pss, mean / 1e6, mean / self._rows]


def workload(rows: int, workers: int) -> str:
    """Return what so many workers of a store are called in measurements and bars."""
    return f"{named(rows)}, {workers} workers"


def bars(rows: int, kinds: Sequence[str], workers: Sequence[int]) -> Iterator[Bar]:
    """Yield what several workers have to reach; the first one makes the table of places."""
    for kind in kinds:
        for count in (one for one in workers if one > 1):
            most = 0.2 * rows + _MOST
            subject = workload(rows, count)
            yield Bar(
                f"private memory, {kind}", subject, "private memory", kind, most, at_most=True
            )


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="make bench-workers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_sizes(parser, rows=20_000_000)
    parser.add_argument(
        "--kinds", nargs="+", choices=KINDS, default=KINDS, help="of workers (both)"
    )
    default = ",".join(map(str, WORKERS))
    parser.add_argument(
        "--workers", type=numbers_of, default=default, help="of each kind (%(default)s)"
    )
    parser.add_argument("--keys", type=int, default=1_000_000, help="in a call (%(default)s)")
    parser.add_argument("--calls", type=int, default=6, help="of each worker (%(default)s)")
    add_json_lines(parser, "workers.jsonl")
    chosen = parser.parse_args(given)
    run = Run({name: getattr(chosen, name) for name in ("rows", "workers", "keys", "calls")})
    lines = []
    with TemporaryDirectory() as folder:
        measured = Workers(run, Path(folder), chosen.rows, chosen.keys, chosen.calls)
        for kind in chosen.kinds:
            for count in chosen.workers:
                numbers = map(cell, measured.measure(kind, count))
                lines.append("| " + " | ".join([kind, str(count), *numbers]) + " |")
    print(head(HEADER))
    print("\n".join(lines))
    run.judge(bars(chosen.rows, chosen.kinds, chosen.workers), {})
    run.end(chosen.json_lines)


if __name__ == "__main__":
    main()
