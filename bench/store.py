"""Stores as the README builds and asks them, beside what keeps typed rows under a key in a process.

build           a Parquet file in random order becomes a store, an index, or a table with a key
size            disk space of it
lookup          the four columns at many typed keys in random order, all of them stored; Arrow in,
                Arrow out
lookup 10,000   the same, 10,000 keys per call
contains        which of many keys are stored, in one call; none of them is
get row         a Python loop of single keys, all of them stored; a row of Python values

Ours are the calls of the README with its options: `readme_lines` reads them there.
"""

from __future__ import annotations

import sqlite3
import sys
from abc import ABC
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bars import OURS, Subject
from core import lookup
from harness import Run, add_choice, add_json_lines, add_workload, chosen_workloads, command_line
from measures import Measuring, Timed, Verb, lacking
from readme_lines import options_of
from rivals import Contender, Handle, InMemory, StoreHandle, check_rows
from workloads import WORKLOADS, Workload

import lookupstore

#: Single keys in a round: a loop of more takes long, and says no more.
MOST_GETS = 20_000
#: Keys in a call of `lookup 10,000`.
KEYS_PER_CALL = 10_000

# ---- contenders ---------------------------------------------------------------------------------


class FromParquet(Contender, ABC):
    """A contender that is built from Parquet and gives rows at typed keys.

    Args:
        sources: folder with a Parquet file of each workload, by its name.
    """

    def __init__(self, sources: Path) -> None:
        self.sources = sources

    def source(self, workload: Workload) -> Path:
        """Return the file that is built from."""
        return self.sources / f"{workload.name}.parquet"

    def prepare_build(self, workload: Workload) -> None:
        """Leave the file as it is."""

    def check(self, folder: Path, workload: Workload) -> None:
        """Compare the rows at all keys with those of the workload."""
        with self.open(folder, workload) as handle:
            check_rows(handle, workload.ids, workload.expected_rows)


class OfReadme(FromParquet):
    """Our own store, as the README builds it and asks it."""

    name = module = OURS

    def build(self, folder: Path, workload: Workload, codec: str) -> None:
        options = options_of("lookupstore.build", {"key": "id"})
        lookupstore.build(self.source(workload), folder / "store", **options).close()

    @contextmanager
    def open(self, folder: Path, workload: Workload) -> Iterator[Handle]:
        with lookupstore.open(folder / "store") as store:
            yield StoreHandle(store)


class FrameHandle(Handle):
    def __init__(self, frame: Any) -> None:
        self.frame = frame

    def lookup(self, keys: pa.Array) -> pa.Table:
        return pa.Table.from_pandas(self.frame.reindex(keys.to_pandas()), preserve_index=False)

    def contains(self, keys: pa.Array) -> pa.Array:
        return pa.array(self.frame.index.get_indexer(keys.to_pandas()) >= 0)


class Frame(FromParquet, InMemory):
    """A frame in memory under its hash index; nothing is stored."""

    name = module = "pandas"

    def load(self, workload: Workload) -> Handle:
        frame = pq.read_table(self.source(workload)).to_pandas().set_index("id")
        assert frame.index.is_unique  # makes the hash table
        return FrameHandle(frame)


class DuckdbHandle(Handle):
    # The order of the keys is part of the question, as it is for the others.
    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def asked(self, keys: pa.Array, columns: str) -> pa.Table:
        asked = pa.table({"id": keys, "row": np.arange(len(keys))})
        self.connection.register("asked", asked)
        return self.connection.sql(
            f"SELECT {columns} FROM asked LEFT JOIN records USING (id) ORDER BY asked.row"
        ).to_arrow_table()

    def lookup(self, keys: pa.Array) -> pa.Table:
        return self.asked(keys, "records.* EXCLUDE id")

    def contains(self, keys: pa.Array) -> pa.Array:
        return self.asked(keys, "records.id IS NOT NULL AS found")["found"].combine_chunks()


class Duckdb(FromParquet):
    """A table in a file, joined.

    A primary key would double the time to build, and join no faster.
    """

    name = module = "duckdb"

    def build(self, folder: Path, workload: Workload, codec: str) -> None:
        import duckdb

        with duckdb.connect(str(folder / "table.duckdb")) as connection:
            connection.execute(f"CREATE TABLE records AS SELECT * FROM '{self.source(workload)}'")

    @contextmanager
    def open(self, folder: Path, workload: Workload) -> Iterator[Handle]:
        import duckdb

        with duckdb.connect(str(folder / "table.duckdb"), read_only=True) as connection:
            yield DuckdbHandle(connection)


class SqliteHandle(Handle):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def get(self, key: Any) -> Any:
        query = "SELECT * FROM records WHERE id = ?"
        return self.connection.execute(query, (key,)).fetchone()

    def lookup(self, keys: pa.Array) -> pa.Table:
        rows = [self.get(key)[1:] for key in keys.to_pylist()]
        columns = [pa.array(column) for column in zip(*rows, strict=True)]
        cursor = self.connection.execute("SELECT * FROM records LIMIT 0")
        names = [one[0] for one in cursor.description]
        return pa.table(columns, names[1:])


class Sqlite(FromParquet):
    """A table in a file whose key is its primary key, asked for one row at a time."""

    name, module = "sqlite", "sqlite3"

    def build(self, folder: Path, workload: Workload, codec: str) -> None:
        table = pq.read_table(self.source(workload))
        for at, field in enumerate(table.schema):
            if pa.types.is_timestamp(field.type):  # which SQLite has no type for
                table = table.set_column(at, field.name, table[field.name].cast(pa.int64()))
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        marks = ", ".join("?" * table.num_columns)
        kind = "INTEGER" if pa.types.is_integer(table["id"].type) else "TEXT"
        names = ", ".join(f'"{name}"' for name in table.column_names[1:])
        with closing(sqlite3.connect(folder / "table.sqlite")) as connection:
            connection.execute(f"CREATE TABLE records (id {kind} PRIMARY KEY, {names})")
            connection.executemany(f"INSERT INTO records VALUES ({marks})", rows)
            connection.commit()

    @contextmanager
    def open(self, folder: Path, workload: Workload) -> Iterator[Handle]:
        # Mapped and without locks, since it is complete.
        uri = f"file:{folder / 'table.sqlite'}?immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.execute("PRAGMA cache_size = -4000000")  # room for all of it, as others have
            connection.execute("PRAGMA mmap_size = 4000000000")
            yield SqliteHandle(connection)


# ---- verbs --------------------------------------------------------------------------------------


def calls(handle: Handle, workload: Workload) -> Timed:
    """Check and return calls of some typed keys each."""
    ids, expected = workload.ids, workload.expected_rows
    size = min(KEYS_PER_CALL, len(ids))
    starts = range(0, len(ids) - size + 1, size)
    parts = [ids.slice(at, size) for at in starts]
    for at, part in zip(starts, parts, strict=True):
        check_rows(handle, part, expected.slice(at, size))
    return Timed(size * len(parts), lambda: [handle.lookup(part) for part in parts])


def contains(handle: Handle, workload: Workload) -> Timed:
    """Check and return one call with typed keys that are not stored."""
    missing = workload.missing_ids
    assert handle.contains(missing).true_count == 0
    assert handle.contains(workload.ids).true_count == len(workload.ids)
    return Timed(len(missing), lambda: handle.contains(missing))


def gets(handle: Handle, workload: Workload) -> Timed:
    """Check and return a loop of single typed keys."""
    ids = workload.ids.slice(0, MOST_GETS)
    check_rows(handle, ids, workload.expected_rows.slice(0, MOST_GETS))
    get, keys = handle.get, ids.to_pylist()
    assert get(keys[0]) is not None
    assert get(workload.missing_ids[0].as_py()) is None
    return Timed(len(keys), lambda: [get(key) for key in keys])


ANSWERS: dict[str, Verb] = {
    "lookup": lookup,
    "lookup 10,000": calls,
    "contains": contains,
    "get row": gets,
}

PHASES = (("build", "size"), tuple(ANSWERS))

#: Verbs of the table, and who takes part.
TABLE = {
    "build": (OURS, "pandas", "duckdb"),
    "size": (OURS, "duckdb"),
    "lookup": (OURS, "pandas", "duckdb"),
    "lookup 10,000": (OURS, "pandas", "duckdb"),
    "contains": (OURS, "pandas", "duckdb"),
    "get row": (OURS, "sqlite"),
}


def main(given: Sequence[str] | None = None) -> None:
    """Measure the verbs that are asked for, print a table of them, and keep them."""
    parser = command_line(
        "make bench-store", __doc__, records=10_000_000, queries=1_000_000, rounds=3
    )
    add_workload(parser)
    add_choice(parser, "verbs")
    add_json_lines(parser, "bench-store.jsonl")
    asked = parser.parse_args(given)
    names = chosen_workloads(asked)
    verbs = {verb: who for verb, who in TABLE.items() if asked.only in verb}
    if not verbs:
        sys.exit(f"--only {asked.only!r} is in the name of no verb")
    subjects = [Subject(w, verb, one) for w in names for verb in verbs for one in verbs[verb]]
    run = Run({name: getattr(asked, name) for name in ("records", "queries", "rounds")})
    with TemporaryDirectory(prefix="bench-store-") as folder:
        every = {
            one.name: one
            for one in (kind(Path(folder)) for kind in (OfReadme, Frame, Duckdb, Sqlite))
        }
        absent = lacking(subjects, every)
        for name in names:
            workload = WORKLOADS[name](asked.records, asked.queries)
            pq.write_table(workload.table, Path(folder, f"{name}.parquet"))
            wanted = [one for one in subjects if one.workload == name and one not in absent]
            (own := Path(folder, name)).mkdir()
            measuring = Measuring(workload, own, every, ANSWERS, asked.rounds, hot=True)
            for one in measuring.run(PHASES, wanted):
                run.add(one)
            del workload, measuring  # before the next one is made
    run.tables("store", verbs, absent)
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
