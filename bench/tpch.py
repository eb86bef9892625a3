"""Join TPC-H's tables by lookup and by Spark's own joins; results are compared by checksum.

lineitem with orders by key, and orders with customer: the first is two tables in the same order,
the second random keys. The store is built once, which is timed apart.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness import clocked, command_line, median_seconds
from joins_rivals import to_nowhere
from report import print_head

from lookupstore.spark import build_store, lookup_join, session

HINTS = {"broadcast": "broadcast", "shuffle-hash": "shuffle_hash", "sort-merge": "merge"}


@dataclass(frozen=True)
class Query:
    """One join: columns of the facts, and key and columns of the dimension."""

    facts: str
    fact_columns: tuple[str, ...]
    on: str
    dimension: str
    key: str
    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.facts} x {self.dimension}"


QUERIES = (
    Query(
        "lineitem",
        ("l_orderkey", "l_linenumber", "l_quantity", "l_extendedprice", "l_shipdate", "l_comment"),
        "l_orderkey",
        "orders",
        "o_orderkey",
        ("o_custkey", "o_totalprice", "o_orderdate", "o_orderpriority"),
    ),
    Query(
        "orders",
        ("o_orderkey", "o_custkey", "o_totalprice", "o_orderdate"),
        "o_custkey",
        "customer",
        "c_custkey",
        ("c_name", "c_nationkey", "c_acctbal", "c_mktsegment"),
    ),
)


def generate(folder: Path, scale: float, tables: str = "lineitem,orders,customer") -> None:
    """Write tables as Parquet."""
    command = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent)) or shutil.which(
        "tpchgen-cli"
    )
    if command is None:
        sys.exit("tpchgen-cli: not installed: pip install 'lookupstore[bench]'")
    subprocess.run(
        [command, "parquet", f"-s={scale:g}", f"--tables={tables}", f"--output-dir={folder}"],
        check=True,
    )


class Bench:
    """The session and the tables, whose joins are timed."""

    def __init__(self, folder: Path, asked: argparse.Namespace) -> None:
        self.folder = folder
        self.spark = session(
            "lookupstore TPC-H",
            "local[2]",
            **{
                "spark.driver.memory": asked.driver_memory,
                "spark.local.dir": str(folder / "spark"),
                "spark.log.level": "OFF",  # a broadcast that is too large fails on purpose
                "spark.sql.autoBroadcastJoinThreshold": -1,
            },
        )

    def table(self, name: str, columns: Sequence[str]) -> Any:
        return self.spark.read.parquet(str(self.folder / f"{name}.parquet")).select(*columns)

    def joined(self, query: Query, contender: str) -> Any:
        """Return an inner join as a DataFrame that has not run yet."""
        facts = self.table(query.facts, query.fact_columns)
        if contender == "lookupstore":
            path = str(self.folder / f"{query.dimension}.store")
            return lookup_join(facts, path, on={query.on: query.key}, how="inner")
        dimension = self.table(query.dimension, (query.key, *query.columns))
        right = dimension.withColumnRenamed(query.key, query.on).hint(HINTS[contender])
        return facts.join(right, query.on).select(*query.fact_columns, *query.columns)

    def build(self, query: Query) -> float:
        """Build the store of a dimension, and return the seconds."""
        dimension = self.table(query.dimension, (query.key, *query.columns))
        path = self.folder / f"{query.dimension}.store"
        return clocked(
            lambda: build_store(
                dimension, path, key=query.key, buckets=2, compression="none"
            ).close()
        )()


def checksum(rows: Any) -> tuple[Any, ...]:
    """Return the number of rows and a sum over the hashes of all their columns."""
    hashed = f"sum(cast(xxhash64({', '.join(rows.columns)}) as decimal(38, 0)))"
    return tuple(rows.selectExpr("count(*)", hashed).first())


def main(given: Sequence[str] | None = None) -> None:
    """Generate the tables, join them by everybody and print a table."""
    parser = command_line("make bench-tpch", __doc__, rounds=3)
    parser.add_argument("--scale", type=float, default=10, help="of TPC-H (%(default)s)")
    parser.add_argument("--driver-memory", default="10g", help="of Spark (%(default)s)")
    asked = parser.parse_args(given)
    print_head({"scale": asked.scale, "rounds": asked.rounds})
    with TemporaryDirectory(prefix="bench-tpch-") as folder:
        generate(Path(folder), asked.scale)
        bench = Bench(Path(folder), asked)
        print(
            "| join | build s | by | s | rows | checksum |\n|---|---|---|---|---|---|", flush=True
        )
        wrong = []
        try:
            for query in QUERIES:
                built = bench.build(query)
                expected = checksum(bench.joined(query, "sort-merge"))
                for contender in ("lookupstore", *HINTS):
                    try:
                        found = checksum(bench.joined(query, contender))
                        rows = bench.joined(query, contender)
                        seconds = median_seconds(
                            lambda rows=rows: to_nowhere(rows), asked.rounds, uncounted=1
                        )
                    except Exception as error:  # out of memory, as broadcasts are
                        print(f"| {query.name} | | {contender} | {type(error).__name__} | | |")
                        continue
                    wrong += [] if found == expected else [f"{query.name} by {contender}"]
                    shown = f"{built:.1f}" if contender == "lookupstore" else ""
                    verdict = "equal" if found == expected else "NOT EQUAL"
                    line = (
                        query.name,
                        shown,
                        contender,
                        f"{seconds:.2f}",
                        f"{found[0]:,}",
                        verdict,
                    )
                    print(f"| {' | '.join(line)} |", flush=True)
        finally:
            bench.spark.stop()
    if wrong:
        sys.exit(f"other rows than sort-merge gives: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
