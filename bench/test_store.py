"""Verbs on typed stores, beside what keeps typed rows under a key in one process.

build           a Parquet file in random order becomes a store, an index, or a table with a key
lookup          the four columns at many typed keys in random order, all of them stored; Arrow in,
                Arrow out
lookup 10,000   the same, 10,000 keys per call
contains        which of many keys are stored, in one call; none of them is
get row         a Python loop of single keys, all of them stored; a row of Python values

Ours are the calls of the README with its options: `readme_lines` reads them there.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from readme_lines import options_of
from workloads import Workload

import lookupstore

Measure = Callable[..., None]

#: Single keys in a round: a loop of more takes long, and says no more.
MOST_GETS = 20_000
#: Keys in a call of `lookup 10,000`.
KEYS_PER_CALL = 10_000


@dataclass(frozen=True)
class TypedHandle:
    """The calls of a contender that is open.

    Attributes:
        lookup: keys to a table of the four columns.
        contains: keys to Arrow booleans; None where nobody would ask like that.
        get: one key to a row of Python values, in a tuple or by column; None where nobody would.
    """

    lookup: Callable[[pa.Array], pa.Table]
    contains: Callable[[pa.Array], pa.Array] | None = None
    get: Callable[[Any], Any] | None = None


class TypedContender(ABC):
    """One that is built from Parquet and gives rows at keys.

    Attributes:
        name: of the column in the tables.
        module: what has to be installed.
    """

    name: str
    module: str

    @abstractmethod
    def build(self, source: Path, folder: Path) -> Any:
        """Build from the file; what is returned is given to `open`."""

    @abstractmethod
    def open(self, folder: Path, built: Any) -> AbstractContextManager[TypedHandle]:
        """Return a context manager that gives the calls."""


class Lookupstore(TypedContender):
    """Our own store, as the README builds it and asks it."""

    name = module = "lookupstore"

    def build(self, source: Path, folder: Path) -> None:
        options = options_of("lookupstore.build", {"key": "id"})
        lookupstore.build(source, folder / "store", **options).close()

    @contextmanager
    def open(self, folder: Path, built: None) -> Iterator[TypedHandle]:
        with lookupstore.open(folder / "store") as store:
            yield TypedHandle(store.lookup, store.contains, store.get)


class Pandas(TypedContender):
    """A frame in memory under its hash index; nothing is stored."""

    name = module = "pandas"

    def build(self, source: Path, folder: Path) -> Any:
        frame = pq.read_table(source).to_pandas().set_index("id")
        assert frame.index.is_unique  # makes the hash table
        return frame

    @contextmanager
    def open(self, folder: Path, built: Any) -> Iterator[TypedHandle]:
        def lookup(keys: pa.Array) -> pa.Table:
            return pa.Table.from_pandas(built.reindex(keys.to_pandas()), preserve_index=False)

        def contains(keys: pa.Array) -> pa.Array:
            return pa.array(built.index.get_indexer(keys.to_pandas()) >= 0)

        yield TypedHandle(lookup, contains)


class Duckdb(TypedContender):
    """A table in a file, joined. A primary key would double the time to build, and join no faster.

    The order of the keys is part of the question, as it is for the others.
    """

    name = module = "duckdb"

    def build(self, source: Path, folder: Path) -> None:
        import duckdb

        with duckdb.connect(str(folder / "table.duckdb")) as connection:
            connection.execute(f"CREATE TABLE records AS SELECT * FROM '{source}'")

    @contextmanager
    def open(self, folder: Path, built: None) -> Iterator[TypedHandle]:
        import duckdb

        with duckdb.connect(str(folder / "table.duckdb"), read_only=True) as connection:

            def asked(keys: pa.Array, columns: str) -> pa.Table:
                connection.register("asked", pa.table({"id": keys, "row": np.arange(len(keys))}))
                return connection.sql(
                    f"SELECT {columns} FROM asked LEFT JOIN records USING (id) ORDER BY asked.row"
                ).to_arrow_table()

            def lookup(keys: pa.Array) -> pa.Table:
                return asked(keys, "records.* EXCLUDE id")

            def contains(keys: pa.Array) -> pa.Array:
                return asked(keys, "records.id IS NOT NULL AS found")["found"].combine_chunks()

            yield TypedHandle(lookup, contains)


class Sqlite(TypedContender):
    """A table in a file whose key is its primary key, asked for one row at a time."""

    name, module = "sqlite", "sqlite3"

    def build(self, source: Path, folder: Path) -> None:
        table = pq.read_table(source)
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
    def open(self, folder: Path, built: None) -> Iterator[TypedHandle]:
        with closing(sqlite3.connect(folder / "table.sqlite")) as connection:
            connection.execute("PRAGMA cache_size = -4000000")  # room for all of it, as others have

            def get(key: Any) -> Any:
                return connection.execute("SELECT * FROM records WHERE id = ?", (key,)).fetchone()

            def lookup(keys: pa.Array) -> pa.Table:
                rows = [get(key)[1:] for key in keys.to_pylist()]
                columns = [pa.array(column) for column in zip(*rows, strict=True)]
                cursor = connection.execute("SELECT * FROM records LIMIT 0")
                names = [one[0] for one in cursor.description]
                return pa.table(columns, names[1:])

            yield TypedHandle(lookup, get=get)


CONTENDERS = {one.name: one for one in (Lookupstore(), Pandas(), Duckdb(), Sqlite())}


def contenders(*rivals: str) -> pytest.MarkDecorator:
    """Return what gives a test ours and some rivals."""
    names = ["lookupstore", *rivals]
    return pytest.mark.parametrize(
        "contender", [CONTENDERS[name] for name in names], ids=names, indirect=True
    )


@pytest.fixture(scope="session")
def parquet(workload: Workload, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parquet") / "records.parquet"
    pq.write_table(workload.table, path)
    return path


def check_lookup(handle: TypedHandle, workload: Workload) -> None:
    """Compare the rows at all keys with those of the workload."""
    found, expected = handle.lookup(workload.ids), workload.expected_rows
    assert found.column_names == expected.column_names
    assert found.cast(expected.schema).equals(expected)


@contenders("pandas", "duckdb")
def test_build(
    contender: TypedContender,
    workload: Workload,
    parquet: Path,
    tmp_path_factory: pytest.TempPathFactory,
    measure: Measure,
) -> None:
    folders: list[Path] = []
    built: list[Any] = []

    def new_folder() -> tuple[tuple[Any, ...], dict[str, Any]]:
        folders.append(tmp_path_factory.mktemp("build"))
        return (), {}

    measure(
        lambda: built.append(contender.build(parquet, folders[-1])),
        setup=new_folder,
        workload=workload.name,
        verb="build",
        contender=contender.name,
        operations=len(workload),
        folder=lambda: folders[-1],
    )
    with contender.open(folders[-1], built[-1]) as handle:
        check_lookup(handle, workload)


@pytest.fixture(scope="session")
def opened(
    workload: Workload, parquet: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[TypedContender], TypedHandle]]:
    """Give what opens a contender; each is built once, and its answers are checked."""
    handles: dict[str, TypedHandle] = {}
    with ExitStack() as stack:

        def handle_of(contender: TypedContender) -> TypedHandle:
            if contender.name not in handles:
                folder = tmp_path_factory.mktemp(contender.name)
                handle = stack.enter_context(
                    contender.open(folder, contender.build(parquet, folder))
                )
                check_lookup(handle, workload)
                handles[contender.name] = handle
            return handles[contender.name]

        yield handle_of


@pytest.fixture
def timed(workload: Workload, contender: TypedContender, measure: Measure) -> Measure:
    """Give what times rounds of a verb of the contender."""
    return partial(measure, workload=workload.name, contender=contender.name)


Opened = Callable[[TypedContender], TypedHandle]


@contenders("pandas", "duckdb")
def test_lookup(
    contender: TypedContender, workload: Workload, opened: Opened, timed: Measure
) -> None:
    lookup, ids = opened(contender).lookup, workload.ids
    timed(lambda: lookup(ids), verb="lookup", operations=len(ids))


@contenders("pandas", "duckdb")
def test_lookup_of_some_keys(
    contender: TypedContender, workload: Workload, opened: Opened, timed: Measure
) -> None:
    lookup, ids = opened(contender).lookup, workload.ids
    size = min(KEYS_PER_CALL, len(ids))
    calls = [ids.slice(at, size) for at in range(0, len(ids) - size + 1, size)]
    timed(
        lambda: [lookup(keys) for keys in calls], verb="lookup 10,000", operations=size * len(calls)
    )


@contenders("pandas", "duckdb")
def test_missing(
    contender: TypedContender, workload: Workload, opened: Opened, timed: Measure
) -> None:
    contains, missing = opened(contender).contains, workload.missing_ids
    assert contains is not None
    assert contains(missing).true_count == 0
    assert contains(workload.ids).true_count == len(workload.ids)
    timed(lambda: contains(missing), verb="contains", operations=len(missing))


@contenders("sqlite")
def test_get(contender: TypedContender, workload: Workload, opened: Opened, timed: Measure) -> None:
    get, keys = opened(contender).get, workload.ids.slice(0, MOST_GETS).to_pylist()
    assert get is not None
    assert get(keys[0]) is not None
    assert get(workload.missing_ids[0].as_py()) is None
    timed(lambda: [get(key) for key in keys], verb="get row", operations=len(keys))
