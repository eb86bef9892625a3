"""Measure lookup joins in Spark against their bars in one run; README.md says how to read it.

Ours is what the project's README tells people to type: `readme_lines` takes the options from there.
Each other way to a store that the documents show is a contender of its own, with default options.

A dimension (int64 key and four columns) is joined with facts of which nine in ten have a partner.
Everybody's rows go to Spark's noop sink. The floor is an Arrow UDF that looks nothing up: it takes
the key and answers with a struct of four columns. What is called cold has its store on an S3 server
of this machine, and nothing of it on the host.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import joins_rivals
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bars import OURS, Bar, Measurement, Subject, measurement_text
from harness import Run, add_choice, add_json_lines, clocked, command_line, in_turns
from joins_rivals import to_nowhere
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from readme_lines import options_of
from workloads import SEED

import lookupstore
from lookupstore.spark import build_store, explain_join, lookup_join, session

# The S3 server that the tests use, too; `readme_lines` has made it known.
from support.object_store import FOR_WRITES, Proxy, has_server, object_store  # isort: skip

#: Ways to a store beside the README's lines, which are ours.
WRITTEN, BUILT, PUBLISHED, BUILT_AWAY, ZSTD = WAYS = (
    "df.write.format",
    "lookupstore.build",
    "publish to a URI",
    "build_store at a URI",
    "zstd in a folder",
)
AWAY = (PUBLISHED, BUILT_AWAY)
FLOOR = "floor"
IDENTITY = "identity"
NATIVE = ("broadcast", "shuffle-hash", "sort-merge")
COLUMNS = ("a", "b", "c", "d")
# Keys of the dimension are multiples of it; those of facts without a partner are not.
STEP = 7919
PART = 1 << 20
#: Most seconds until a store is warm.
WARM_SECONDS = 600
#: Characters of an error that a run shows.
SHOWN = 200

#: Facts of the two sizes, as the lines of the table call them.
SIZES = {"few": 1_000_000, "many": 10_000_000}


def bars() -> Iterator[Bar]:
    """Yield what has to be as fast as what; ratios are of rows per second."""
    for facts in SIZES:
        yield Bar("join / floor", facts, "join", OURS, 1 / 1.25, FLOOR)
        for way in WAYS:
            yield Bar(f"{way} / floor", facts, "join", way, 1 / 1.25, FLOOR)
    for name, bound in zip(NATIVE, (30, 10, 10), strict=True):
        yield Bar(f"join / {name}", "few", "join", OURS, bound, name)
    yield Bar("join / rocksdict", "few", "join", OURS, 3, "rocksdict")
    for name in NATIVE:
        yield Bar(f"join / {name}", "many", "join", OURS, 2.5, name)
    yield Bar("first 1,000 keys, cold", "few", "cold keys", OURS, 2, at_most=True)
    yield Bar("cold join / sort-merge", "few", "cold join", OURS, 1, "sort-merge")
    yield Bar("build / sorted Parquet", "few", "spark build", OURS, 1, "parquet")
    yield Bar("worker memory", "few", "worker memory", OURS, 300e6, at_most=True)


def write_dimension(path: Path, records: int) -> None:
    """Write the dimension in random order, a row group a million rows."""
    random = np.random.default_rng(SEED)
    ids = random.permutation(records).astype(np.int64) * STEP
    writer: pq.ParquetWriter | None = None
    for start in range(0, records, PART):
        part = ids[start : start + PART]
        table = pa.table(
            {
                "id": part,
                "a": random.integers(0, 1 << 40, len(part)),
                "b": random.random(len(part)),
                "c": random.integers(0, 1000, len(part)).astype(np.int32),
                "d": pa.array(random.integers(0, 100_000, len(part))).cast(pa.string()),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def write_facts(path: Path, facts: int, records: int) -> None:
    """Write facts with random keys in eight row groups: Spark cuts files between them."""
    random = np.random.default_rng(SEED + 1)
    ids = random.integers(0, records, facts) * STEP
    ids[random.random(facts) < 0.1] += 1
    table = pa.table({"fact": np.arange(facts), "id": ids, "x": random.random(facts)})
    pq.write_table(table, path, row_group_size=max(1, facts // 8))


class Bench:
    """The session and the files of a run, whose queries are timed."""

    def __init__(self, folder: Path, asked: argparse.Namespace) -> None:
        self.folder = folder
        self.records: int = asked.records
        self.facts = {"few": asked.few, "many": asked.many}
        self.rounds: int = asked.rounds
        self.cache = folder / "cache"
        os.environ.update(FOR_WRITES, LOOKUPSTORE_CACHE=str(self.cache))  # of workers, too
        self.running = ExitStack()
        self.driver_memory: str = asked.driver_memory
        self.stores: dict[str, str] = {}
        self.start_spark()
        write_dimension(folder / "dimension.parquet", self.records)
        self.dimension = str(folder / "dimension.parquet")
        for name, count in self.facts.items():
            write_facts(folder / f"{name}.parquet", count, self.records)

    def start_spark(self) -> None:
        """Start the session of all contenders: the README's, with room for the rivals."""
        self.spark = session(
            "lookupstore bench",
            "local[2,4]",  # a task is tried again when its worker was restarted
            **{
                "spark.driver.memory": self.driver_memory,
                "spark.local.dir": str(self.folder / "spark"),
                "spark.log.level": "ERROR",
                **options_of("session", {}),
            },
        )
        self.spark.sparkContext.addPyFile(joins_rivals.__file__)

    def start_spark_again(self) -> None:
        """Start Spark anew after a failure, which may have taken its process along."""
        with suppress(Py4JError, ConnectionError):
            self.spark.stop()
        with suppress(Py4JError, ConnectionError):
            SparkContext._gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = None
        self.start_spark()

    def close(self) -> None:
        """Stop Spark, and the S3 server if there is one."""
        self.spark.stop()
        self.running.close()

    @functools.cached_property
    def proxy(self) -> Proxy:
        """Return what takes uploads before the S3 server, which is started."""
        server = self.running.enter_context(object_store(self.folder / "s3"))
        proxy = Proxy(server)
        self.running.callback(proxy.close)
        return proxy

    def store(self, way: str) -> str:
        """Return path or URI of the store that was made in a way, which is done the first time."""
        if way not in self.stores:
            self.stores[way] = self.made(way)
        return self.stores[way]

    def made(self, way: str) -> str:
        """Make a store in a documented way, with default options; return its path or URI."""
        if way == OURS:
            self.build(OURS, "ours")
            return str(self.folder / "ours")
        name = way.replace(" ", "-")
        if way in AWAY:
            there = self.proxy.store.uri(name)
            if way == PUBLISHED:
                lookupstore.publish(self.store(OURS), there).close()
            else:
                build_store(self.dimension, there, key="id").close()
            return self.proxy.server.uri(name)
        path = str(self.folder / name)
        if way == WRITTEN:
            rows = self.frame("dimension").write.format("lookupstore")
            rows.option("key", "id").mode("append").save(path)
        elif way == BUILT:
            lookupstore.build(self.dimension, path, key="id").close()
        else:
            build_store(self.dimension, path, key="id", compression="zstd").close()
        return path

    def forget(self) -> None:
        """Leave nothing of remote stores on this host."""
        joins_rivals.restart_workers(self.spark)
        shutil.rmtree(self.cache, ignore_errors=True)

    def frame(self, name: str) -> Any:
        """Return facts or dimension as Spark reads them."""
        return self.spark.read.parquet(str(self.folder / f"{name}.parquet"))

    def joined(self, contender: str, facts: str) -> Any:
        """Return the left join of a contender as a DataFrame that has not run yet."""
        rows = self.frame(facts)
        if contender == OURS:
            return self.ours(rows, self.store(OURS))
        if contender in WAYS:
            return lookup_join(rows, self.store(contender), on="id")
        if contender in NATIVE:
            hint = {"sort-merge": "merge", "shuffle-hash": "shuffle_hash"}.get(contender, contender)
            return rows.join(self.frame("dimension").hint(hint), "id", "left")
        return joins_rivals.JOINS[contender](rows, self.folder)

    @staticmethod
    def ours(rows: Any, store: str) -> Any:
        """Return the README's join, its columns named as everybody's."""
        joined = lookup_join(
            rows, store, **options_of("lookup_join", {"on": "id", "columns": list(COLUMNS)})
        )
        return joined.toDF(*rows.columns, *COLUMNS)

    def warm(self, way: str) -> None:
        """Join until the host has made all that lookups in the store use from then on."""
        facts = self.frame("few")
        until = time.monotonic() + WARM_SECONDS
        while not explain_join(facts, self.store(way), on="id").warm:
            if time.monotonic() > until:
                raise AssertionError(f"{way}: not warm after {WARM_SECONDS} s")
            to_nowhere(self.joined(way, "few"))

    def missing(self, subject: Subject) -> str | None:
        """Return why something cannot be measured, None if it can."""
        needs_server = subject.verb.startswith("cold") or subject.contender in AWAY
        if needs_server and not has_server():
            return "rclone is not installed"
        return joins_rivals.missing(subject.contender)

    def check(self, contender: str, facts: str) -> None:
        """Compare sums over all rows with what the dimension says: a wrong answer cannot win."""
        if contender in (FLOOR, IDENTITY):
            return
        expected = self.sums(self.joined("sort-merge", facts))
        found = self.sums(self.joined(contender, facts))
        if found != expected:
            raise AssertionError(f"{contender}, {facts}: {found}, not {expected}")

    @staticmethod
    def sums(rows: Any) -> tuple[Any, ...]:
        sums = ("count(*)", "count(a)", "sum(hash(fact, id, a, b, c, d))")
        return tuple(rows.selectExpr(*sums).first())

    def first_keys(self) -> None:
        """Open the remote store in this process, and look up a thousand random keys."""
        keys = np.random.default_rng(SEED + 2).integers(0, self.records, 1000) * STEP
        with lookupstore.open(self.store(PUBLISHED)) as store:
            assert store.contains(keys).true_count == len(keys)

    def round(self, subject: Subject) -> Callable[[], float]:
        """Return what runs one contender at one verb and says its seconds (of memory: its bytes).

        Its answers are checked first.
        """
        facts, verb, contender = subject
        if verb == "worker memory":
            return lambda: self.worker_memory(facts)
        if verb == "cold keys":
            return clocked(self.first_keys, self.forget)
        if verb == "spark build":
            return clocked(lambda: self.build(contender, "built"))
        if verb == "cold join" and contender == OURS:
            joined = lookup_join(self.frame(facts), self.store(PUBLISHED), on="id")
            return clocked(lambda: to_nowhere(joined), self.forget)
        if verb == "join":
            self.check(contender, facts)
            if contender in (OURS, *WAYS):
                self.warm(contender)
        return clocked(lambda: to_nowhere(self.joined(contender, facts)))

    def measure(self, subjects: Sequence[Subject]) -> Iterator[Measurement]:
        """Measure contenders that differ by less than a process does in its first minute, or one.

        Others do not take turns, as those of the core do: a join of one throws out of the caches,
        and out of memory, what makes the next one a warm one.
        """
        runs = {subject: self.round(subject) for subject in subjects}
        together = len(subjects) > 1
        once = any(one.verb == "worker memory" for one in subjects)
        rounds, uncounted = (1, 0) if once else (self.rounds, 2 if together else 1)
        found = in_turns(runs, rounds, uncounted=uncounted, to_and_fro=together)
        for subject, taken in found.items():
            yield Measurement(subject, taken, self.items(subject))

    def items(self, subject: Subject) -> int:
        """Return how many rows a round has, 1 where they are not counted."""
        if subject.verb in ("cold keys", "worker memory"):
            return 1
        return self.records if subject.verb == "spark build" else self.facts[subject.workload]

    def build(self, contender: str, name: str) -> None:
        """Build a store, or what it is compared with: Parquet of the same rows in order of keys."""
        path = self.folder / name
        if contender == OURS:
            shutil.rmtree(path, ignore_errors=True)
            options = options_of("build_store", {"key": "id"})
            build_store(self.dimension, str(path), **options).close()
        else:
            sorted_rows = self.frame("dimension").repartition(2, "id").sortWithinPartitions("id")
            sorted_rows.write.mode("overwrite").parquet(f"{path}.parquet")

    def worker_memory(self, facts: str) -> float:
        """Return the most private memory of a worker in our join beyond that of the floor."""
        found = {}
        for contender in (FLOOR, OURS):
            joins_rivals.restart_workers(self.spark)
            to_nowhere(self.joined(contender, facts))
            found[contender] = max(joins_rivals.private_memory(self.spark))
        return found[OURS] - found[FLOOR]


def groups(subjects: Sequence[Subject]) -> list[list[Subject]]:
    """Return what is measured together: joins with our stores, and the floor under them."""
    together: dict[tuple[str, str, object], list[Subject]] = {}
    for one in subjects:
        near = one.verb == "join" and one.contender in (FLOOR, OURS, *WAYS)
        together.setdefault((one.workload, one.verb, near or one.contender), []).append(one)
    return list(together.values())


def main(given: Sequence[str] | None = None) -> None:
    """Measure the bars that are asked for, print how they are met, and keep it."""
    parser = command_line("make bench-spark", __doc__, records=20_000_000, rounds=3, **SIZES)
    parser.add_argument("--driver-memory", default="14g", help="of Spark (%(default)s)")
    add_choice(parser, "bars")
    add_json_lines(parser, "bench-spark.jsonl")
    asked = parser.parse_args(given)
    chosen = [one for one in bars() if asked.only in f"{one.workload} {one.name}"]
    if not chosen:
        sys.exit(f"--only {asked.only!r} is in the name of no bar")
    subjects = dict.fromkeys(subject for one in chosen for subject in one.subjects)
    if not asked.only:  # without a bar: what else there is, and what rows through Python cost
        extra = ("numpy", IDENTITY)
        subjects.update(dict.fromkeys(Subject(f, "join", one) for f in SIZES for one in extra))
        subjects[Subject("many", "join", "rocksdict")] = None
    run = Run({name: getattr(asked, name) for name in ("records", "few", "many", "rounds")})
    with TemporaryDirectory(prefix="bench-spark-") as folder:
        bench = Bench(Path(folder), asked)
        lacking = {one: why for one in subjects if (why := bench.missing(one))}
        try:
            for group in groups([one for one in subjects if one not in lacking]):
                try:
                    found = tuple(bench.measure(group))
                except (Py4JError, PySparkException, ConnectionError) as error:
                    why = str(error).strip().splitlines()[0][:SHOWN]
                    for subject in group:
                        lacking[subject] = f"failed: {why}"
                        print(f"{subject.workload} {subject.verb} {subject.contender}: {why}")
                    bench.start_spark_again()
                    continue
                for one in found:
                    seconds = statistics.median(one.rounds)
                    run.add(one, f"{measurement_text(one)}   {seconds:.2f}")
        finally:
            bench.close()
    run.judge(chosen, lacking)
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
