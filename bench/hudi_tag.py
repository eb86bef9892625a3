"""Measure tagging: which file of a Hudi table has each of many keys, and in which row.

    python bench/hudi_tag.py                       # 10,000,000 rows in 16 files, 1,000,000 keys
    python bench/hudi_tag.py --rows 1000000 --files 4 --keys 100000

Everybody is checked against what was written before its time counts. `index_in` and DuckDB have the
key columns in memory already; ours reads lookup files that are on the disk (warm), or the base
files themselves (cold).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from bars import Bar, Measurement, Subject
from harness import Run, add_json_lines, clocked, command_line, median_seconds
from hudi_tables import SEED, write_hudi

from lookupstore.hostcache.cache import Residency
from lookupstore.hudi.index.bloom import BloomIndex
from lookupstore.hudi.index.interface import KeyIndex
from lookupstore.hudi.index.tagging import Tagged, tag
from lookupstore.hudi.view import TableView

SCHEMA = pa.schema({"id": pa.int64(), "value": pa.int64()})
INDEX_IN = "index_in"
DUCKDB = "duckdb join, 2 threads"
TESTS = "filter tests"
BARS = (
    Bar("warm / index_in", "tag", "keys", "warm", 6, INDEX_IN),
    Bar("warm / duckdb", "tag", "keys", "warm", 1, DUCKDB),
    Bar("cold / index_in", "tag", "keys", "cold, first", 1 / 1.2, INDEX_IN),
    Bar("new keys, warm", "tag", TESTS, "all new, warm, one thread", 5e6),
    Bar("new keys, cold", "tag", TESTS, "all new, cold, one thread", 5e6),
)


@dataclass(frozen=True, eq=False)
class Table:
    """A table, and the keys that each of its files has."""

    view: TableView
    keys: list[pa.Array]

    @property
    def file_keys(self) -> pa.ChunkedArray:
        """Return all keys, file by file."""
        return pa.chunked_array(self.keys)


def write_table(folder: Path, ids: list[npt.NDArray[np.int64]]) -> Table:
    """Write a table with some ids in each file."""
    written = (pa.table([own, own * 7], schema=SCHEMA) for own in ids)
    table = write_hudi(folder, written, SCHEMA)
    return Table(table.view(), [pa.array(own).cast(pa.string()) for own in ids])


def tagged(table: Table, keys: pa.Array, index: str | KeyIndex) -> Tagged:
    """Return where keys are."""
    partitions = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(len(keys), np.int32)), pa.array([""])
    )
    return tag(table.view, partitions, keys, index=index)


def check(table: Table, keys: pa.Array, found: Tagged, present: int) -> None:
    """Check that every key is where it was found, and that as many as there are were found."""
    hits = found.found
    assert int(hits.sum()) == present
    starts = np.cumsum([0, *map(len, table.keys)])
    rows = starts[found.slice_numbers[hits]] + found.positions[hits]
    assert table.file_keys.take(pa.array(rows)).combine_chunks().equals(keys.filter(pa.array(hits)))


def index_in(table: Table, keys: pa.Array) -> None:
    """Find keys with Arrow, file by file."""
    for own in table.keys:
        pc.index_in(keys, value_set=own)


def duckdb_join(table: Table, keys: pa.Array) -> Callable[[], object] | None:
    """Return what finds keys with DuckDB on two threads; None if it is not installed."""
    try:
        import duckdb
    except ImportError:
        return None
    connection = duckdb.connect()
    connection.execute("set threads = 2")
    sizes = list(map(len, table.keys))
    base = pa.table(
        {
            "key": table.file_keys,
            "file": np.repeat(np.arange(len(sizes), dtype=np.int32), sizes),
            "row": np.concatenate([np.arange(size) for size in sizes]),
        }
    )
    wanted = pa.table({"key": keys})
    connection.register("base_arrow", base)
    connection.register("wanted_arrow", wanted)
    connection.execute("create table base as select * from base_arrow")
    connection.execute("create table wanted as select * from wanted_arrow")

    def run() -> Any:
        query = "select key, file, row from wanted left join base using (key)"
        return connection.sql(query).to_arrow_table()

    return run


def measure(run: Run, arguments: argparse.Namespace, folder: Path) -> None:
    """Measure everybody at a table in a folder."""
    rng = np.random.default_rng(SEED)
    count, rounds = arguments.keys, arguments.rounds
    ids = np.unique(rng.integers(1 << 40, 1 << 62, int(arguments.rows * 1.02) + 10))
    texts = np.sort(ids[: arguments.rows].astype("S"))  # the order of texts, not of numbers
    ordered = np.array_split(texts.astype(np.int64), arguments.files)
    ids = texts.astype(np.int64)
    rng.shuffle(ids)
    table = write_table(folder / "random", np.array_split(ids, arguments.files))
    keys = pa.array(rng.choice(ids, count, replace=False)).cast(pa.string())
    new = pa.array(rng.integers(1 << 40, 1 << 62, count)).cast(pa.string())

    def show(name: str, seconds: float, more: str = "") -> None:
        run.add(
            Measurement(Subject("tag", "keys", name), (seconds,), count),
            f"{name:<28} {seconds:8.3f} s {count / seconds / 1e6:8.2f} M keys/s  {more}",
        )

    arrow = median_seconds(lambda: index_in(table, keys), min(rounds, 3))
    show(INDEX_IN, arrow)
    join = duckdb_join(table, keys)
    duckdb = None
    if join is not None:
        duckdb = median_seconds(join, rounds, uncounted=1)
        show(DUCKDB, duckdb)

    def against(seconds: float) -> str:
        text = f"index_in / ours {arrow / seconds:.2f}"
        return text if duckdb is None else f"{text}  duckdb / ours {duckdb / seconds:.2f}"

    local = Residency(folder / "local", quota=arguments.quota)
    warm = BloomIndex(build="always", residency=local)
    seconds = clocked(lambda: check(table, keys, tagged(table, keys, warm), count))()
    show("making lookup files", seconds, f"{local.used:,} bytes")
    seconds = median_seconds(lambda: tagged(table, keys, warm), rounds)
    show("warm", seconds, against(seconds))
    print(tagged(table, keys, warm).funnel)
    one = BloomIndex(build="always", residency=local, threads=1)
    tagged(table, keys, one)
    seconds = median_seconds(lambda: tagged(table, keys, one), rounds)
    show("warm, one thread", seconds, against(seconds))

    cold = BloomIndex(build="never", residency=Residency(folder / "none"))
    seconds = clocked(lambda: check(table, keys, tagged(table, keys, cold), count))()
    show("cold, first", seconds, against(seconds))
    seconds = median_seconds(lambda: tagged(table, keys, cold), rounds)
    show("cold, footers known", seconds, against(seconds))
    print(tagged(table, keys, cold).funnel)
    seconds = median_seconds(lambda: tagged(table, keys, "simple"), min(rounds, 3))
    show("simple", seconds, against(seconds))

    for name, index in (("warm", one), ("cold", BloomIndex(build="never", threads=1))):
        tagged(table, new, index)
        seconds = median_seconds(lambda index=index: tagged(table, new, index), rounds)
        tests = tagged(table, new, index).funnel.filter_tests
        subject = Subject("tag", TESTS, f"all new, {name}, one thread")
        show(subject.contender, seconds, f"{tests / seconds / 1e6:.1f} M tests/s")
        run.measured[subject] = Measurement(subject, (seconds,), tests)

    table = write_table(folder / "ordered", ordered)
    own = pa.array(rng.choice(ordered[-1], min(count, len(ordered[-1])))).cast(pa.string())
    found = tagged(table, own, cold)
    check(table, own, found, len(own))
    print(f"ordered, keys of one file: {found.funnel.files_in_range} of {arguments.files} files")


def main(given: list[str] | None = None) -> None:
    """Measure as the command line says."""
    parser = command_line(
        "python bench/hudi_tag.py", __doc__, rows=10_000_000, files=16, keys=1_000_000, rounds=5
    )
    parser.add_argument("--quota", type=int, default=4 << 30, help="bytes of lookup files")
    parser.add_argument("--folder", type=Path, help="an empty one, which stays")
    add_json_lines(parser, "bench-hudi.jsonl")
    asked = parser.parse_args(given)
    run = Run({name: getattr(asked, name) for name in ("rows", "files", "keys", "rounds")})
    with ExitStack() as stack:
        folder = asked.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        measure(run, asked, folder)
    run.judge(BARS, {Subject("tag", "keys", DUCKDB): "not installed"})
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
