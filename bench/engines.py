"""Lookups inside other engines, beside the joins of these engines themselves.

flights       left joins of 336,776 flights with two columns of their planes, which are there: in
              memory as the engine has them for its own join, in an open store for ours
1,000 facts   left joins of few facts with two columns of a large dimension on disk: in a Parquet
              file, which the engine reads for its own join, in a store, which is opened for ours

Ours are the lines of three pages in docs/how-to (join-pandas-and-arrow.md, polars.md, duckdb.md):
`store.join` for pandas and Arrow, `lookup` for polars, the function of `register` for DuckDB, all
of the same store. What these pages say of many facts and a small store is measured for flights:
`rows of a store`, which polars (`scan_store`) and DuckDB (the table of `register`) join themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from bars import OURS, Measurement, Subject
from everyday import table_of
from harness import Run, add_choice, add_json_lines, clocked, command_line, in_turns

import lookupstore
from lookupstore.demo import write_data

THEIRS = "the engine's join"
ROWS = "rows of a store"
ENGINES = ("pandas", "polars", "DuckDB", "Arrow")


@dataclass(frozen=True)
class Case:
    """Facts and a dimension, which every engine joins.

    Attributes:
        name: of the workload.
        facts: the facts, with a column `fact` that numbers them.
        key: the column of the key, of facts and dimension.
        columns: those that are appended.
        file: the dimension as a Parquet file, with the key and these columns.
        store: the path of the dimension as a store.
        in_memory: whether the dimension is read, and the store opened, before the clock starts.
    """

    name: str
    facts: pa.Table
    key: str
    columns: tuple[str, ...]
    file: Path
    store: Path
    in_memory: bool

    def expected(self) -> pa.Table:
        """Return the columns that are appended, in the order of the facts."""
        dimension = pq.read_table(self.file)
        places = pc.index_in(self.facts[self.key], dimension[self.key].combine_chunks())
        return dimension.select(list(self.columns)).take(places.combine_chunks())


Rounds = Iterator[tuple[str, Callable[[], Any]]]


def flights_case(folder: Path, most: int) -> Case:
    """Return the flights, or the first of them, with their planes."""
    files = write_data(folder)
    flights = pq.read_table(files["flights"]).slice(0, most)
    flights = flights.append_column("fact", pa.array(np.arange(len(flights))))
    columns = ("seats", "model")
    planes = pq.read_table(files["planes"], columns=["tailnum", *columns])
    return case_of(folder, "flights", flights, planes, "tailnum", columns, in_memory=True)


def large_case(folder: Path, rows: int, few: int) -> Case:
    """Return few facts, half of them with a partner, with a large dimension."""
    dimension = table_of(rows).select(["id", "a", "c"])
    ids = np.random.default_rng(31).integers(0, 2 * rows, few)
    facts = pa.table({"fact": np.arange(few), "id": ids})
    name = f"{few:,} facts"
    return case_of(folder, name, facts, dimension, "id", ("a", "c"), in_memory=False)


def case_of(
    folder: Path,
    name: str,
    facts: pa.Table,
    dimension: pa.Table,
    key: str,
    columns: tuple[str, ...],
    *,
    in_memory: bool,
) -> Case:
    """Write a dimension both ways, and return the case."""
    file, store = folder / f"{name}.parquet", folder / f"{name} store"
    pq.write_table(dimension, file)
    lookupstore.build(dimension, store, key=key, progress=False).close()
    return Case(name, facts, key, columns, file, store, in_memory)


def of_pandas(case: Case, stack: ExitStack) -> Rounds:
    """Yield both joins of a DataFrame."""
    import pandas

    facts = case.facts.to_pandas()
    read = read_once(case, lambda: pandas.read_parquet(case.file))
    opened = store_of(case, stack)
    yield OURS, lambda: opened().join(facts, case.key, columns=case.columns)
    yield THEIRS, lambda: facts.merge(read(), on=case.key, how="left")


def of_polars(case: Case, stack: ExitStack) -> Rounds:
    """Yield both joins of a DataFrame, lazily: polars plans as it would in a larger query."""
    import polars

    from lookupstore.polars import lookup, scan_store

    facts = polars.DataFrame(case.facts)
    read = read_once(case, lambda: polars.read_parquet(case.file).lazy())
    scanned = read if case.in_memory else lambda: polars.scan_parquet(case.file)
    opened = store_of(case, stack)

    def ours() -> polars.DataFrame:
        found = lookup(case.key, opened(), columns=case.columns).alias("found")
        return facts.lazy().with_columns(found).unnest("found").collect()

    def ours_by_rows() -> polars.DataFrame:
        rows = scan_store(opened()).select(case.key, *case.columns)
        return facts.lazy().join(rows, on=case.key, how="left").collect()

    yield OURS, ours
    if case.in_memory:
        yield ROWS, ours_by_rows
    yield THEIRS, lambda: facts.lazy().join(scanned(), on=case.key, how="left").collect()


def of_duckdb(case: Case, stack: ExitStack) -> Rounds:
    """Yield both joins of a table of DuckDB's own, whose rows come back as Arrow has them."""
    import duckdb

    from lookupstore.duckdb import register

    con = stack.enter_context(duckdb.connect())
    con.register("given", case.facts)
    con.execute("CREATE TABLE facts AS FROM given")
    dimension = f"'{case.file}'"
    if case.in_memory:
        con.execute(f"CREATE TABLE dimension AS FROM {dimension}")
        dimension = "dimension"
    opened = store_of(case, stack)

    def ours() -> pa.Table:
        register(con, "rows", opened(), columns=case.columns)
        fields = ", ".join(f"found.{name}" for name in case.columns)
        inner = f"SELECT *, rows({case.key}) AS found FROM facts"
        return con.sql(f"SELECT * EXCLUDE found, {fields} FROM ({inner})").to_arrow_table()

    query = f"FROM facts LEFT JOIN {{}} USING ({case.key})"
    yield OURS, ours
    if case.in_memory:  # before the clock starts, as the engine's own table is made
        register(con, "planes", opened(), columns=case.columns)
        yield ROWS, lambda: con.sql(query.format("planes")).to_arrow_table()
    yield THEIRS, lambda: con.sql(query.format(dimension)).to_arrow_table()


def of_arrow(case: Case, stack: ExitStack) -> Rounds:
    """Yield both joins of an Arrow table."""
    read = read_once(case, lambda: pq.read_table(case.file))
    opened = store_of(case, stack)
    yield OURS, lambda: opened().join(case.facts, case.key, columns=case.columns)
    yield THEIRS, lambda: case.facts.join(read(), case.key, join_type="left outer")


def read_once(case: Case, read: Callable[[], Any]) -> Callable[[], Any]:
    """Return what gives the dimension: read now, or each time."""
    if not case.in_memory:
        return read
    held = read()
    return lambda: held


def store_of(case: Case, stack: ExitStack) -> Callable[[], lookupstore.LookupStore]:
    """Return what gives the store: opened now, or each time."""
    if case.in_memory:
        held = stack.enter_context(lookupstore.open(case.store))
        return lambda: held
    return lambda: stack.enter_context(lookupstore.open(case.store))


MAKERS: dict[str, Callable[[Case, ExitStack], Rounds]] = dict(
    zip(ENGINES, (of_pandas, of_polars, of_duckdb, of_arrow), strict=True)
)


def check(case: Case, expected: pa.Table, result: Any) -> None:
    """Compare a result with the join that Arrow's `index_in` and `take` make."""
    if isinstance(result, pa.Table):
        table = result
    elif hasattr(result, "to_arrow"):
        table = result.to_arrow()
    else:
        table = pa.Table.from_pandas(result, preserve_index=False)
    table = table.sort_by("fact")
    assert table["fact"].to_pylist() == list(range(len(case.facts)))
    for field in expected.schema:
        found = table[field.name].cast(field.type).combine_chunks()
        assert found.equals(expected[field.name].combine_chunks()), field.name


def measure(case: Case, only: str, rounds: int) -> Iterator[Measurement]:
    """Measure every engine's joins of a case, answers first."""
    expected = case.expected()
    for engine, make in MAKERS.items():
        if only not in engine:
            continue
        with ExitStack() as stack:
            try:
                runs = dict(make(case, stack))
            except ImportError as error:
                print(f"{error.name}: not installed")
                continue
            for run in runs.values():
                check(case, expected, run())
            timed = {name: clocked(run) for name, run in runs.items()}
            for name, found in in_turns(timed, rounds, uncounted=1, to_and_fro=True).items():
                yield Measurement(Subject(case.name, engine, name), found, len(case.facts))


def main(given: Sequence[str] | None = None) -> None:
    """Measure both cases, print a table of each, and keep them."""
    parser = command_line(
        "make bench-engines", __doc__, rounds=7, rows=20_000_000, few=1000, many=336_776
    )
    add_choice(parser, "engines")
    add_json_lines(parser, "bench-engines.jsonl")
    asked = parser.parse_args(given)
    run = Run({name: getattr(asked, name) for name in ("rows", "few", "many", "rounds")})
    with TemporaryDirectory(prefix="bench-engines-") as path:
        for make in (
            lambda: flights_case(Path(path), asked.many),
            lambda: large_case(Path(path), asked.rows, asked.few),
        ):
            for one in measure(make(), asked.only, asked.rounds):
                run.add(one)
    run.tables("facts/s", ENGINES, {})
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
