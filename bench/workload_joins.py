"""Joins of both workloads in Spark: facts with a store, beside Spark's own joins with the Parquet.

join          as many facts as the store has records, with keys of which half are stored, left join
              with four columns; all rows are made, and thrown away by Spark's noop sink
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from bars import OURS, Measurement, Subject
from harness import (
    Run,
    add_json_lines,
    add_workload,
    chosen_workloads,
    clocked,
    command_line,
    in_turns,
)
from joins_rivals import to_nowhere
from workloads import SEED, WORKLOADS, Workload

import lookupstore

#: Each has to pay for what a broadcast, a shuffle or the start of a Python worker costs.
JOINS = (OURS, "broadcast", "sort-merge")


def missing() -> str | None:
    """Return why nothing can be joined here, None if it can."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed: pip install 'lookupstore[spark]'"
    from lookupstore.spark.sessions import check_java

    try:
        check_java()
    except RuntimeError as error:
        return str(error)
    return None


def write_tables(folder: Path, workload: Workload) -> None:
    """Write facts and records, and build the store."""
    pq.write_table(workload.table, folder / "records.parquet")
    pq.write_table(facts_of(workload), folder / "facts.parquet")
    lookupstore.build(workload.table, folder / "store", key="id", progress=False).close()


def facts_of(workload: Workload) -> pa.Table:
    """Return n facts: `fact` from 0 to n - 1 and an `id` each, of which half are stored."""
    random = np.random.default_rng(SEED)
    stored = workload.table["id"].combine_chunks()
    hits = stored.take(pa.array(random.integers(0, len(stored), len(stored) - len(stored) // 2)))
    misses = workload.missing_ids.take(
        pa.array(random.integers(0, len(workload.missing_ids), len(stored) // 2))
    )
    ids = pa.concat_arrays([hits, misses]).take(pa.array(random.permutation(len(stored))))
    return pa.table({"fact": np.arange(len(stored)), "id": ids})


def joined(spark: Any, folder: Path, how: str) -> Any:
    """Return the left join of the facts as a DataFrame that has not run yet."""
    from lookupstore.spark import lookup_join

    facts = spark.read.parquet(str(folder / "facts.parquet"))
    if how == OURS:
        return lookup_join(facts, str(folder / "store"), on="id")
    records = spark.read.parquet(str(folder / "records.parquet"))
    return facts.join(records.hint(how.replace("sort-", "")), "id", "left")


def check_rows(rows: pa.Table, workload: Workload) -> None:
    """Compare all rows with the same join made by Arrow."""
    facts = facts_of(workload)
    at = pc.index_in(facts["id"], workload.table["id"].combine_chunks())
    expected = workload.table.drop_columns(["id"]).take(at.combine_chunks())
    rows = rows.sort_by("fact")
    assert rows["fact"].to_pylist() == facts["fact"].to_pylist()
    assert rows["id"].cast(pa.string()).equals(facts["id"].cast(pa.string()))
    for field in expected.schema:
        found = rows[field.name].cast(field.type).combine_chunks()
        assert found.equals(expected[field.name].combine_chunks()), field.name


def measure(spark: Any, folder: Path, workload: Workload, rounds: int) -> Iterator[Measurement]:
    """Measure everybody at the join of a workload, answers first."""
    write_tables(folder, workload)
    for how in JOINS:
        check_rows(joined(spark, folder, how).toArrow(), workload)
    for how in JOINS:  # in a row: a join of one throws out of memory what makes the next one warm
        run = clocked(lambda how=how: to_nowhere(joined(spark, folder, how)))
        (seconds,) = in_turns({how: run}, rounds, uncounted=1).values()
        yield Measurement(Subject(workload.name, "join", how), seconds, len(workload))


def main(given: Sequence[str] | None = None) -> None:
    """Measure the joins, print a table of them, and keep them."""
    parser = command_line(
        "python bench/workload_joins.py", __doc__, records=1_000_000, queries=100_000, rounds=5
    )
    add_workload(parser)
    add_json_lines(parser, "bench-joins.jsonl")
    asked = parser.parse_args(given)
    if (why := missing()) is not None:
        print(f"nothing is joined: {why}")
        return
    from lookupstore.spark import session

    run = Run({name: getattr(asked, name) for name in ("records", "queries", "rounds")})
    # A broadcast of the largest workload has to fit into the driver, which is the executor, too.
    spark = session("lookupstore bench", **{"spark.driver.memory": "4g"})
    try:
        for name in chosen_workloads(asked):
            workload = WORKLOADS[name](asked.records, asked.queries)
            with TemporaryDirectory(prefix="bench-joins-") as folder:
                for one in measure(spark, Path(folder), workload, asked.rounds):
                    run.add(one)
    finally:
        spark.stop()
    run.tables("Spark", ["join"], {})
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
