"""Measure the clustering of a table against Delta Lake, and what queries gain by it.

    python bench/layout_clustering.py               # 20,000,000 rows in 110 files
    python bench/layout_clustering.py --rows 200000 --files 8 --rounds 1 --only cluster
    python bench/layout_clustering.py --rows 200000 --files 8 --rounds 1 --only duckdb

Rows have two columns of random int64, `a` and `b`, and are put in order by both, into about as many
files as there were: ours by `HudiTable.cluster`, Delta Lake by `optimize.z_order`, both with their
defaults. Each round of each contender is a process of its own, on a fresh copy of its table (links,
no bytes), and contenders take turns. The rows of the new files are compared with those that were
there before a time counts.

A query is the count and the sum of the amounts of those rows whose `a`, `b` or both are in ranges,
which is known from the rows themselves. Each one opens the table anew. A round asks several of a
kind, and is the mean of their seconds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from bars import OURS, Bar, Measurement, Subject
from harness import Run, add_choice, add_json_lines, command_line, in_a_process, in_turns, shares
from hudi_tables import (
    SEED,
    Sum,
    base_files,
    delta_files,
    linked_copy,
    sum_of_files,
    sum_of_rows,
    write_delta,
    write_hudi,
)
from workload_joins import missing

from lookupstore.hudi import HudiTable, WriteOptions

DELTA, LESS = "deltalake", f"{OURS}, 128 MiB"
CLUSTER, CLUSTERED, UNCLUSTERED = "cluster", "clustered", "not clustered"
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "a": pa.int64(),
        "b": pa.int64(),
        "amount": pa.int64(),
        "kind": pa.string(),
    }
)
_KINDS = pa.array(["order", "return", "transfer", "correction", "fee"])
#: All values of `a` and `b` are below it.
MOST = 1 << 62
#: What each contender may keep in memory; of others, that is their own affair.
MEMORY = {OURS: WriteOptions().memory, LESS: 128 << 20}
#: Beside what it may keep, to have 1.2 GB with the default.
_BESIDE = 1.2e9 - MEMORY[OURS]


@dataclass(frozen=True)
class Query:
    """Ranges of columns, with what rows in them come to.

    Attributes:
        ranges: the least and the greatest value of columns, by name.
    """

    ranges: dict[str, tuple[int, int]]

    @property
    def filter(self) -> pc.Expression:
        """Return what tells the rows, for Arrow."""
        every = pc.scalar(True)
        for name, (low, high) in self.ranges.items():
            every = every & (pc.field(name) >= low) & (pc.field(name) <= high)
        return every

    @property
    def sql(self) -> str:
        """Return what tells the rows, as SQL."""
        parts = (f"{name} between {low} and {high}" for name, (low, high) in self.ranges.items())
        return " and ".join(parts)

    def of(self, rows: pa.Table) -> tuple[int, int]:
        """Return how many of some rows are in the ranges, and the sum of their amounts."""
        inside = np.ones(len(rows), bool)
        for name, (low, high) in self.ranges.items():
            values = rows[name].to_numpy()
            inside &= (values >= low) & (values <= high)
        return int(inside.sum()), int(rows["amount"].to_numpy()[inside].sum())


def random_queries(count: int) -> dict[str, list[Query]]:
    """Return as many queries of each kind, by verb: 1 % of a column's values, or 10 % of both."""
    random = np.random.default_rng(SEED)

    def part(share: float) -> tuple[int, int]:
        low = int(random.random() * (1 - share) * MOST)
        return low, low + int(share * MOST)

    return {
        "query by a": [Query({"a": part(0.01)}) for _ in range(count)],
        "query by b": [Query({"b": part(0.01)}) for _ in range(count)],
        "query of a box": [Query({"a": part(0.1), "b": part(0.1)}) for _ in range(count)],
    }


# ---- engines: a table and a query, to a count and a sum ------------------------------------------


def ask_scan(table: Path, query: Query) -> tuple[int, int]:
    """Ask `HudiTable.scan`."""
    return _counted(HudiTable.open(table).scan(columns=["amount"], filter=query.filter))


def ask_dataset(table: Path, query: Query) -> tuple[int, int]:
    """Ask Arrow's dataset."""
    rows = HudiTable.open(table).dataset().to_table(columns=["amount"], filter=query.filter)
    return _counted(rows)


def _counted(rows: pa.Table) -> tuple[int, int]:
    return rows.num_rows, pc.sum(rows["amount"]).as_py() or 0


def ask_duckdb(table: Path, query: Query) -> tuple[int, int]:
    """Ask DuckDB, by the dataset, in a session that is open."""
    given = HudiTable.open(table).dataset()
    asked = f"select count(*), sum(amount) from given where {query.sql}"
    ((count, total),) = duckdb.from_arrow(given).query("given", asked).fetchall()
    return count, int(total or 0)


def ask_spark(table: Path, query: Query) -> tuple[int, int]:
    """Ask Spark, by our format."""
    from lookupstore.spark import session

    reader = session().read.format("lookupstore.hudi").option("pushdown", "true")
    rows = reader.option("columns", ",".join([*query.ranges, "amount"])).load(str(table))
    ((count, total),) = rows.where(query.sql).selectExpr("count(*)", "sum(amount)").collect()
    return count, total or 0


def spark_running() -> AbstractContextManager[Any]:
    """Return the session of all queries of Spark, which ends with the block."""
    from lookupstore.spark import session

    settings = {"spark.driver.memory": "2g", "spark.log.level": "ERROR"}
    return session("lookupstore bench", **settings)  # type: ignore[no-any-return]


SPARK = "spark"
ENGINES = {
    "pyarrow scan": ask_scan,
    "pyarrow dataset": ask_dataset,
    "duckdb": ask_duckdb,
    SPARK: ask_spark,
}
VERBS = tuple(random_queries(0))
BARS = (
    Bar("cluster / deltalake", CLUSTER, "cluster seconds", OURS, 0.4, DELTA, at_most=True),
    *(
        Bar(
            f"cluster, memory {limit >> 20} MiB",
            CLUSTER,
            "cluster memory",
            name,
            limit + _BESIDE,
            at_most=True,
        )
        for name, limit in MEMORY.items()
    ),
    *(
        Bar(f"{engine}, {verb}", engine, verb, CLUSTERED, 0.25, UNCLUSTERED, at_most=True)
        for engine in ENGINES
        for verb in VERBS
    ),
)


class Bench:
    """The tables of a run."""

    def __init__(self, folder: Path, asked: argparse.Namespace) -> None:
        self.folder = folder
        self.rows: int = asked.rows
        self.files: int = asked.files
        self.queries = random_queries(asked.queries)
        self.sum = Sum(0, 0)
        self.answers = {one.sql: (0, 0) for every in self.queries.values() for one in every}
        for rows in self._rows():
            self.sum += sum_of_rows(rows)
            for one in (query for every in self.queries.values() for query in every):
                count, total = one.of(rows)
                before = self.answers[one.sql]
                self.answers[one.sql] = (before[0] + count, before[1] + total)
        write_hudi(folder / UNCLUSTERED, self._rows(), SCHEMA).collect_statistics()

    def _rows(self) -> Iterator[pa.Table]:
        ends = np.linspace(0, self.rows, self.files + 1).astype(np.int64)
        for number, (start, end) in enumerate(pairwise(ends)):
            random, count = np.random.default_rng([SEED, number]), int(end - start)
            columns = [
                np.arange(start, end),
                random.integers(0, MOST, count),
                random.integers(0, MOST, count),
                random.integers(0, 1_000_000, count),
                _KINDS.take(pa.array(random.integers(0, len(_KINDS), count))),
            ]
            yield pa.table(columns, schema=SCHEMA)

    def write_delta(self) -> None:
        """Write the rival's table."""
        write_delta(self.folder / DELTA, self._rows())

    def cluster(self, contender: str) -> dict[str, Any]:
        """Put the rows of a copy of a contender's table in order, and check that all are there."""
        is_ours = contender in MEMORY
        copy, asked = self.folder / "copy", self.folder / "asked.arrow"
        linked_copy(self.folder / (UNCLUSTERED if is_ours else DELTA), copy)
        try:
            settings = pa.table(
                {"bytes": [self._bytes_of_a_file(copy)], "memory": [MEMORY.get(contender)]}
            )
            with pa.OSFile(str(asked), "wb") as file, pa.ipc.new_file(file, settings.schema) as to:
                to.write_table(settings)
            os.sync()  # so that this round does not pay for the one before
            name = OURS if is_ours else DELTA
            arguments = (CLUSTER, name, str(copy), str(asked))
            cache = str(self.folder / "cache")
            found = in_a_process("hudi_once.py", *arguments, LOOKUPSTORE_CACHE=cache)
            files = base_files(HudiTable.open(copy)) if is_ours else delta_files(copy)
            held = sum_of_files(files, SCHEMA)
        finally:
            shutil.rmtree(copy)
        if held != self.sum:
            raise AssertionError(f"{contender} holds {held} afterwards, not {self.sum}")
        return found

    def _bytes_of_a_file(self, table: Path) -> int:
        """Return the size of files of which there are as many as were asked for."""
        return sum(one.stat().st_size for one in table.glob("*.parquet")) // self.files

    def write_clustered(self) -> None:
        """Write the table that queries are to gain by."""
        folder = self.folder / CLUSTERED
        linked_copy(self.folder / UNCLUSTERED, folder)
        size = self._bytes_of_a_file(folder)
        HudiTable.open(folder).cluster(["a", "b"], target_file_size=size)

    def files_read(self, table: str, verb: str) -> float:
        """Return the mean share of files that queries read, in percent."""
        opened = HudiTable.open(self.folder / table)
        found = [opened.explain_scan(one.filter) for one in self.queries[verb]]
        return 100 * statistics.mean(one.statistics.count / one.files.count for one in found)

    def query(self, engine: str, verb: str, table: str) -> float:
        """Ask the queries of a kind, check the answers, and return the mean of their seconds."""
        seconds = 0.0
        for one in self.queries[verb]:
            start = time.perf_counter()
            found = ENGINES[engine](self.folder / table, one)
            seconds += time.perf_counter() - start
            if found != (expected := self.answers[one.sql]):
                raise AssertionError(f"{engine}, {table}, {one.sql}: {found}, not {expected}")
        return seconds / len(self.queries[verb])


def measure_clustering(run: Run, bench: Bench, contenders: list[str], rounds: int) -> None:
    """Time the clustering of contenders."""
    if DELTA in contenders:
        bench.write_delta()
    runs: dict[str, Callable[[], dict[str, Any]]] = {
        name: partial(bench.cluster, name) for name in contenders
    }
    # Memory is slow until a virtual machine has it: the first turn is for that.
    every = in_turns(runs, rounds, uncounted=1, to_and_fro=True)
    for name, found in every.items():
        for what, key in (("seconds", "seconds"), ("memory", "peak"), ("cpu", "cpu")):
            numbers = tuple(one[key] or 0 for one in found)
            run.add(Measurement(Subject(CLUSTER, f"cluster {what}", name), numbers))
        print(f"{name}: {found[-1]['files']} files")
        if name in MEMORY:
            print(f"{name}: spilled {found[-1]['spilled']:,} bytes; {shares(found)}")


def measure_queries(run: Run, bench: Bench, subjects: list[Subject], rounds: int) -> None:
    """Time queries before and after a clustering, and count the files that they read."""
    bench.write_clustered()
    for verb in dict.fromkeys(one.verb for one in subjects):
        for table in (UNCLUSTERED, CLUSTERED):
            files = Subject("files", verb.replace("query", "files"), table)
            run.add(Measurement(files, (bench.files_read(table, verb),)))
    with ExitStack() as running:
        if any(one.workload == SPARK for one in subjects):
            running.enter_context(spark_running())
        runs = {one: partial(bench.query, *one) for one in subjects}
        for one, seconds in in_turns(runs, rounds, uncounted=1, to_and_fro=True).items():
            run.add(Measurement(one, seconds))


def main(given: list[str] | None = None) -> None:
    """Measure as the command line says."""
    program = "python bench/layout_clustering.py"
    parser = command_line(program, __doc__, rows=20_000_000, files=110, queries=5, rounds=3)
    add_choice(parser, "bars")
    add_json_lines(parser, "bench-layout.jsonl")
    asked = parser.parse_args(given)
    chosen = [one for one in BARS if asked.only in one.name]
    if not chosen:
        sys.exit(f"--only {asked.only!r} is in the name of no bar")
    run = Run({name: getattr(asked, name) for name in ("rows", "files", "queries", "rounds")})
    lacking = {}
    for one in dict.fromkeys(subject for bar in chosen for subject in bar.subjects):
        if one.contender == DELTA and find_spec(DELTA) is None:
            lacking[one] = "not installed"
        if one.workload == SPARK and (why := missing()) is not None:
            lacking[one] = why
    subjects = [one for bar in chosen for one in bar.subjects if one not in lacking]
    with tempfile.TemporaryDirectory(prefix="bench-layout-") as folder:
        bench = Bench(Path(folder), asked)
        contenders = list(dict.fromkeys(s.contender for s in subjects if s.workload == CLUSTER))
        if contenders:
            measure_clustering(run, bench, contenders, asked.rounds)
        queries = [one for one in subjects if one.workload != CLUSTER]
        if queries:
            measure_queries(run, bench, queries, asked.rounds)
    run.judge(chosen, lacking)
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
