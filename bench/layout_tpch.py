"""Measure what two queries of TPC-H gain by a clustering of lineitem.

    python bench/layout_tpch.py                     # scale 10: 60,000,000 rows
    python bench/layout_tpch.py --scale 0.01 --file-bytes 100000 --rounds 1

lineitem is written as a Hudi table in the order in which TPC-H gives it, and clustered on a copy by
ship date and part, as a grid. Q6 is TPC-H's own: what discounts of a year came to. Q14 is the scan
of TPC-H's: the sum over the parts of a month, here of a tenth of all parts, in the place of a join.

Each query is asked before and after by `HudiTable.scan`, Arrow's use of `dataset()`, DuckDB's use
of that, and Spark by our format. Answers are those of DuckDB on TPC-H's own Parquet file, to the
last digit. Each query opens the table anew.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from bars import Measurement, Subject
from harness import Run, add_choice, add_json_lines, command_line, in_turns
from hudi_tables import linked_copy
from layout_clustering import CLUSTERED, SPARK, UNCLUSTERED, spark_running
from tpch import generate
from workload_joins import missing

from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.write.partitioner import FileSizing

BY = ("l_shipdate", "l_partkey")
#: Parts of scale 1.
PARTS = 200_000
# That are written at once: a file that is full ends with these.
_ROWS = 1 << 13
_MONEY = pa.decimal128(15, 2)


@dataclass(frozen=True, eq=False)
class Query:
    """A sum over some rows.

    Attributes:
        name: of it.
        columns: that it needs.
        sql: which rows.
        filter: the same, for Arrow.
        total: what is summed, as SQL.
        of: the same of rows.
    """

    name: str
    columns: tuple[str, ...]
    sql: str
    filter: pc.Expression
    total: str
    of: Callable[[pa.Table], pa.ChunkedArray]


def queries(scale: float) -> tuple[Query, ...]:
    """Return the queries on tables of a scale."""
    shipped, part = pc.field(BY[0]), pc.field(BY[1])
    discount, quantity = pc.field("l_discount"), pc.field("l_quantity")
    first = int(0.4 * PARTS * scale)
    last = first + max(1, int(0.1 * PARTS * scale)) - 1

    def day(year: int, month: int) -> pa.Scalar:
        return pa.scalar(datetime.date(year, month, 1))

    def money(text: str) -> pa.Scalar:
        return pa.scalar(Decimal(text), _MONEY)

    return (
        Query(
            "TPC-H Q6",
            ("l_shipdate", "l_discount", "l_quantity", "l_extendedprice"),
            "l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01' "
            "and l_discount between 0.05 and 0.07 and l_quantity < 24",
            (shipped >= day(1994, 1)) & (shipped < day(1995, 1)) & (discount >= money("0.05"))
            & (discount <= money("0.07")) & (quantity < money("24")),
            "sum(l_extendedprice * l_discount)",
            lambda rows: pc.multiply(rows["l_extendedprice"], rows["l_discount"]),
        ),
        Query(
            "TPC-H Q14",
            ("l_shipdate", "l_partkey", "l_discount", "l_extendedprice"),
            "l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-10-01' "
            f"and l_partkey between {first} and {last}",
            (shipped >= day(1995, 9)) & (shipped < day(1995, 10)) & (part >= first)
            & (part <= last),
            "sum(l_extendedprice * (1 - l_discount))",
            lambda rows: pc.multiply(
                rows["l_extendedprice"], pc.subtract(money("1"), rows["l_discount"])
            ),
        ),
    )  # fmt: skip


# ---- engines: a table and a query, to a sum ------------------------------------------------------


def ask_scan(table: Path, query: Query) -> Decimal:
    """Ask `HudiTable.scan`."""
    rows = HudiTable.open(table).scan(columns=query.columns, filter=query.filter)
    return Decimal(pc.sum(query.of(rows)).as_py() or 0)


def ask_dataset(table: Path, query: Query) -> Decimal:
    """Ask Arrow's dataset."""
    dataset = HudiTable.open(table).dataset()
    rows = dataset.to_table(columns=list(query.columns), filter=query.filter)
    return Decimal(pc.sum(query.of(rows)).as_py() or 0)


def ask_duckdb(table: Path, query: Query) -> Decimal:
    """Ask DuckDB, by the dataset."""
    with duckdb.connect() as connection:
        connection.register("given", HudiTable.open(table).dataset())
        return _sum(connection, "given", query)


def ask_spark(table: Path, query: Query) -> Decimal:
    """Ask Spark, by our format."""
    from lookupstore.spark import session

    reader = session().read.format("lookupstore.hudi").option("pushdown", "true")
    rows = reader.option("columns", ",".join(query.columns)).load(str(table))
    ((total,),) = rows.where(query.sql).selectExpr(query.total).collect()
    return Decimal(total or 0)


def _sum(connection: duckdb.DuckDBPyConnection, rows: str, query: Query) -> Decimal:
    asked = f"select {query.total} from {rows} where {query.sql}"
    ((total,),) = connection.execute(asked).fetchall()
    return Decimal(total or 0)


ENGINES = {
    "pyarrow scan": ask_scan,
    "pyarrow dataset": ask_dataset,
    "duckdb": ask_duckdb,
    SPARK: ask_spark,
}
TABLES = (UNCLUSTERED, CLUSTERED)


class Bench:
    """The tables of a run."""

    def __init__(self, folder: Path, asked: argparse.Namespace) -> None:
        self.folder = folder
        generate(folder, asked.scale, "lineitem")
        lineitem = folder / "lineitem.parquet"
        self.queries = {one.name: one for one in queries(asked.scale)}
        with duckdb.connect() as connection:
            given = f"read_parquet('{lineitem}')"
            self.answers = {
                name: _sum(connection, given, one) for name, one in self.queries.items()
            }
        self._write(lineitem, asked.file_bytes)
        lineitem.unlink()
        linked_copy(folder / UNCLUSTERED, folder / CLUSTERED)
        clustered = HudiTable.open(folder / CLUSTERED)
        start = time.perf_counter()
        done = clustered.cluster(BY, target_file_size=asked.file_bytes)
        print(
            f"{done.rows:,} rows, {done.files_before} files before and {done.files_after} after "
            f"a clustering of {time.perf_counter() - start:.1f} s"
        )

    def _write(self, lineitem: Path, file_bytes: int) -> None:
        """Write the table, in files of a size, in the order of the rows."""
        source = pq.ParquetFile(lineitem)
        schema = pa.schema(
            [
                pa.field(one.name, pa.string() if pa.types.is_string_view(one.type) else one.type)
                for one in source.schema_arrow
            ]
        )

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in source.iter_batches(_ROWS):
                yield batch.cast(schema)

        key = ["l_orderkey", "l_linenumber"]
        table = HudiTable.create(self.folder / UNCLUSTERED, schema, record_key=key, name="lineitem")
        options = WriteOptions(sizing=FileSizing(max_file_size=file_bytes))
        rows = pa.RecordBatchReader.from_batches(schema, batches())
        table.bulk_insert(rows, options=options)
        table.collect_statistics()

    def files(self, query: str, table: str) -> tuple[int, int]:
        """Return how many files a query reads, of how many."""
        found = HudiTable.open(self.folder / table).explain_scan(self.queries[query].filter)
        return found.statistics.count, found.files.count

    def ask(self, engine: str, query: str, table: str) -> float:
        """Ask a query, check the answer, and return the seconds."""
        start = time.perf_counter()
        found = ENGINES[engine](self.folder / table, self.queries[query])
        seconds = time.perf_counter() - start
        if found != (expected := self.answers[query]):
            raise AssertionError(f"{engine}, {query}, {table}: {found}, not {expected}")
        return seconds


def shown(run: Run, bench: Bench, engines: Sequence[str]) -> str:
    """Return what was measured as a table for the page."""
    lines = ["| query | by | files | s | clustered: files | s | times |", f"|{'---|' * 7}"]
    for query in bench.queries:
        before, after = (" of ".join(map(str, bench.files(query, one))) for one in TABLES)
        for engine in engines:
            slow, fast = (
                statistics.median(run.measured[Subject(engine, query, one)].rounds)
                for one in TABLES
            )
            times = f"{slow / fast:.1f}"
            cells = (query, engine, before, f"{slow:.2f}", after, f"{fast:.2f}", times)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(given: list[str] | None = None) -> None:
    """Measure as the command line says."""
    parser = command_line("python bench/layout_tpch.py", __doc__, rounds=3)
    parser.add_argument("--scale", type=float, default=10, help="of TPC-H (%(default)s)")
    parser.add_argument(
        "--file-bytes", type=int, default=64 << 20, help="of a file, about (%(default)s)"
    )
    add_choice(parser, "engines")
    add_json_lines(parser, "bench-layout.jsonl")
    asked = parser.parse_args(given)
    if not any(asked.only in one for one in ENGINES):
        sys.exit(f"--only {asked.only!r} is in the name of no engine")
    run = Run({name: getattr(asked, name) for name in ("scale", "file_bytes", "rounds")})
    engines = [one for one in ENGINES if asked.only in one]
    if SPARK in engines and (why := missing()) is not None:
        print(f"{SPARK}: {why}")
        engines.remove(SPARK)
    with tempfile.TemporaryDirectory(prefix="bench-layout-") as folder:
        bench = Bench(Path(folder), asked)
        for query in bench.queries:
            for table in TABLES:
                read, every = bench.files(query, table)
                files = Subject("files", f"files of {query}", table)
                run.add(Measurement(files, (100 * read / every,)))
        with ExitStack() as running:
            if SPARK in engines:
                running.enter_context(spark_running())
            runs = {
                Subject(engine, query, table): partial(bench.ask, engine, query, table)
                for engine in engines
                for query in bench.queries
                for table in TABLES
            }
            # One round is for trying it out.
            warm = int(asked.rounds > 1)
            found = in_turns(runs, asked.rounds, uncounted=warm, to_and_fro=True)
            for one, seconds in found.items():
                run.add(Measurement(one, seconds))
        print(f"\n{shown(run, bench, engines)}")
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
