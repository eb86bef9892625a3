"""Measure what several dimensions of the same facts cost in Spark beside one; README.md says how.

Facts have four keys, each of a dimension with an int64 key, a name and a number; nine facts in ten
have a partner in each. Joins are left joins that take the name. All rows go to Spark's noop sink,
and each contender's rows are compared with those of Spark's own joins first. `alone` is four calls
of `lookup_join` with something between that gives each a trip of its own. The floor is an Arrow
UDF that takes four keys and answers with a struct of four texts, without a look at anything.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import joins_rivals
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bars import Bar, Measurement, Subject
from harness import Run, add_choice, add_json_lines, clocked, command_line, in_turns
from joins_rivals import to_nowhere
from pyspark.sql import DataFrame
from workloads import SEED

import lookupstore
from lookupstore.spark import LookupJoin, lookup_join, lookup_joins, session

VERB = "dimensions"
DIMENSIONS = 4
# Keys of a dimension are multiples of it; those of facts without a partner are not.
STEP = 7919
ONE, CHAINED, TOGETHER, ALONE, FLOOR = OURS = (
    "one",
    "chained",
    "lookup_joins",
    "alone",
    "floor",
)
BROADCAST, SORT_MERGE = RIVALS = ("broadcast", "sort-merge")


def bars() -> Iterator[Bar]:
    """Yield what may take how many times as long as what."""
    for facts in ("few", "many"):
        yield Bar("four chained / one", facts, VERB, CHAINED, 1.4, ONE, at_most=True)
        yield Bar("lookup_joins of four / one", facts, VERB, TOGETHER, 1.4, ONE, at_most=True)


class Bench:
    """The session and the files of a run."""

    def __init__(self, folder: Path, asked: argparse.Namespace) -> None:
        self.folder = folder
        self.rounds: int = asked.rounds
        self.columns: int = asked.columns
        self.facts = {"few": asked.few, "many": asked.many}
        self.spark = session(
            "lookupstore bench",
            "local[2]",
            **{
                "spark.driver.memory": asked.driver_memory,
                "spark.local.dir": str(folder / "spark"),
                "spark.log.level": "ERROR",
            },
        )
        self.spark.sparkContext.addPyFile(joins_rivals.__file__)
        random = np.random.default_rng(SEED)
        for i in range(DIMENSIONS):
            numbers = random.integers(0, 100_000, asked.records)
            columns = {
                f"name{i}": pa.array(numbers).cast(pa.string()),
                f"number{i}": random.integers(0, 1 << 40, asked.records),
            }
            ids = random.permutation(asked.records) * STEP
            rows = pa.table({"id": ids, **columns})
            pq.write_table(rows, folder / f"dimension{i}.parquet")
            lookupstore.build(rows, folder / f"store{i}", key="id").close()
        for name, count in self.facts.items():
            keys = {}
            for i in range(DIMENSIONS):
                keys[f"k{i}"] = random.integers(0, asked.records, count) * STEP
                keys[f"k{i}"][random.random(count) < 0.1] += 1
            table = pa.table({"fact": np.arange(count), **keys, "x": random.random(count)})
            pq.write_table(table, folder / f"{name}.parquet", row_group_size=max(1, count // 8))

    def frame(self, name: str) -> DataFrame:
        """Return facts or a dimension as Spark reads them."""
        return self.spark.read.parquet(str(self.folder / f"{name}.parquet"))

    def taken(self, i: int) -> list[str]:
        """Return the columns that a join takes of a dimension."""
        return [f"name{i}", f"number{i}"][: self.columns]

    def join(self, i: int) -> LookupJoin:
        """Return our join with a dimension."""
        store = str(self.folder / f"store{i}")
        return LookupJoin(store, {f"k{i}": "id"}, columns=self.taken(i))

    def joined(self, contender: str, facts: str) -> DataFrame:
        """Return a contender's left join as a DataFrame that has not run yet."""
        rows = self.frame(facts)
        every = range(DIMENSIONS)
        if contender == ONE:
            return lookup_joins(rows, [self.join(0)])
        if contender == TOGETHER:
            return lookup_joins(rows, [self.join(i) for i in every])
        if contender == FLOOR:
            return self.floor(rows)
        for i in every:
            if contender == CHAINED:
                one = self.join(i)
                rows = lookup_join(rows, one.store, one.on, columns=one.columns)
            elif contender == ALONE:
                rows = lookup_joins(rows.select("*"), [self.join(i)])
            else:
                hint = {SORT_MERGE: "merge"}.get(contender, contender)
                rows = self.by_spark(rows, i, hint)
        return rows

    def by_spark(self, rows: DataFrame, i: int, hint: str) -> DataFrame:
        """Return Spark's own left join with a dimension."""
        other = self.frame(f"dimension{i}").hint(hint).withColumnRenamed("id", f"k{i}")
        kept = other.select(f"k{i}", *self.taken(i))
        return rows.join(kept, f"k{i}", "left").select(*rows.columns, *self.taken(i))

    def floor(self, rows: DataFrame) -> DataFrame:
        """Return what a trip of four keys and as many texts costs without lookups."""
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.pandas.functions import arrow_udf

        def answer(a: pa.Array, b: pa.Array, c: pa.Array, d: pa.Array) -> pa.Array:
            texts = pa.repeat(pa.scalar("12345"), len(a))
            return pa.StructArray.from_arrays([texts] * DIMENSIONS, list("abcd"))

        answer.__annotations__ = {**dict.fromkeys("abcd", pa.Array), "return": pa.Array}
        keys = [f"k{i}" for i in range(DIMENSIONS)]
        row = arrow_udf(answer, "a string, b string, c string, d string")(*keys)
        return rows.select("*", F.inline(F.array(row)))

    def check(self, contender: str, facts: str) -> None:
        """Compare sums over all rows with Spark's own: a wrong answer cannot win."""
        if contender in (FLOOR, BROADCAST):
            return
        rows = self.frame(facts)
        for i in range(1 if contender == ONE else DIMENSIONS):
            rows = self.by_spark(rows, i, "broadcast")
        expected, found = self.sums(rows), self.sums(self.joined(contender, facts))
        if found != expected:
            raise AssertionError(f"{contender}, {facts}: {found}, not {expected}")

    @staticmethod
    def sums(rows: DataFrame) -> tuple[Any, ...]:
        """Return what rows come to."""
        columns = ", ".join(rows.columns)
        return tuple(rows.selectExpr("count(*)", f"sum(hash({columns}))").first() or ())

    def measure(self, facts: str, contenders: Sequence[str]) -> Iterator[Measurement]:
        """Measure contenders, who take turns after three rounds that are not counted."""
        for one in contenders:
            self.check(one, facts)
        runs = {
            one: clocked(lambda one=one: to_nowhere(self.joined(one, facts))) for one in contenders
        }
        found = in_turns(runs, self.rounds, uncounted=3, to_and_fro=True)
        for one, taken in found.items():
            yield Measurement(Subject(facts, VERB, one), taken)


def main(given: Sequence[str] | None = None) -> None:
    """Measure, print how the bars are met, and keep it."""
    sizes = {"records": 1_000_000, "few": 1_000_000, "many": 5_000_000}
    parser = command_line("make bench-dimensions", __doc__, rounds=5, **sizes)
    parser.add_argument("--columns", type=int, default=1, help="taken of each (%(default)s)")
    parser.add_argument("--driver-memory", default="6g", help="of Spark (%(default)s)")
    parser.add_argument("--ours", action="store_true", help="without Spark's own joins")
    add_choice(parser, "bars")
    add_json_lines(parser, "bench-dimensions.jsonl")
    asked = parser.parse_args(given)
    chosen = [one for one in bars() if asked.only in f"{one.workload} {one.name}"]
    if not chosen:
        sys.exit(f"--only {asked.only!r} is in the name of no bar")
    settings = {name: getattr(asked, name) for name in (*sizes, "columns", "rounds")}
    run = Run(settings)
    with TemporaryDirectory(prefix="bench-dimensions-") as folder:
        bench = Bench(Path(folder), asked)
        contenders = [one for one in OURS if joins_rivals.missing(one) is None]
        for facts in dict.fromkeys(one.workload for one in chosen):
            for group in (contenders, *([] if asked.ours else [[one] for one in RIVALS])):
                for one in bench.measure(facts, group):
                    run.add(one)
        bench.spark.stop()
    run.judge(chosen, {})
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
