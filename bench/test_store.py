"""Verbs on typed stores, beside what keeps typed rows under a key in one process.

build         a Parquet file in random order becomes a store, an index, or a table with a key
lookup        the four columns at many typed keys in random order, all of them stored; Arrow in,
              Arrow out
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from workloads import Workload

import lookupstore

Measure = Callable[..., None]
Lookup = Callable[[pa.Array], pa.Table]


class TypedContender(ABC):
    """Build something from Parquet that gives rows at keys.

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
    def open(self, folder: Path, built: Any) -> AbstractContextManager[Lookup]:
        """Return a context manager that gives the lookup: keys to a table of four columns."""


class Lookupstore(TypedContender):
    """Our own store, with default options."""

    name = module = "lookupstore"

    def build(self, source: Path, folder: Path) -> None:
        lookupstore.build(source, folder / "store", key="id", progress=False).close()

    @contextmanager
    def open(self, folder: Path, built: None) -> Iterator[Lookup]:
        with lookupstore.open(folder / "store", cache_bytes=4 << 30) as store:
            yield store.lookup


class Pandas(TypedContender):
    """A frame in memory under its hash index; nothing is stored."""

    name = module = "pandas"

    def build(self, source: Path, folder: Path) -> Any:
        frame = pq.read_table(source).to_pandas().set_index("id")
        assert frame.index.is_unique  # makes the hash table
        return frame

    @contextmanager
    def open(self, folder: Path, built: Any) -> Iterator[Lookup]:
        def lookup(keys: pa.Array) -> pa.Table:
            return pa.Table.from_pandas(built.reindex(keys.to_pandas()), preserve_index=False)

        yield lookup


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
    def open(self, folder: Path, built: None) -> Iterator[Lookup]:
        import duckdb

        with duckdb.connect(str(folder / "table.duckdb"), read_only=True) as connection:

            def lookup(keys: pa.Array) -> pa.Table:
                asked = pa.table({"id": keys, "row": np.arange(len(keys))})
                connection.register("asked", asked)
                return connection.sql(
                    "SELECT records.* EXCLUDE id FROM asked LEFT JOIN records USING (id) "
                    "ORDER BY asked.row"
                ).to_arrow_table()

            yield lookup


CONTENDERS = {one.name: one for one in (Lookupstore(), Pandas(), Duckdb())}

contenders = pytest.mark.parametrize(
    "contender", CONTENDERS.values(), ids=CONTENDERS.keys(), indirect=True
)


@pytest.fixture(scope="session")
def parquet(workload: Workload, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parquet") / "records.parquet"
    pq.write_table(workload.table, path)
    return path


def check_lookup(lookup: Lookup, workload: Workload) -> None:
    """Compare the rows at all keys with those of the workload."""
    found, expected = lookup(workload.ids), workload.expected_rows
    assert found.column_names == expected.column_names
    assert found.cast(expected.schema).equals(expected)


@contenders
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
    with contender.open(folders[-1], built[-1]) as lookup:
        check_lookup(lookup, workload)


@contenders
def test_lookup(
    contender: TypedContender, workload: Workload, parquet: Path, tmp_path: Path, measure: Measure
) -> None:
    built = contender.build(parquet, tmp_path)
    with contender.open(tmp_path, built) as lookup:
        check_lookup(lookup, workload)
        measure(
            lambda: lookup(workload.ids),
            workload=workload.name,
            verb="lookup",
            contender=contender.name,
            operations=len(workload.ids),
        )
