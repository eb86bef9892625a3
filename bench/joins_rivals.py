"""Who else joins in Spark's Python workers: RocksDB and NumPy, and what the transfer alone costs.

Workers import this module: what a contender opens there stays open for the tasks that follow.
"""

from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Batches = Iterator[pa.RecordBatch]
#: A row of the dimension as RocksDB keeps it.
ROW = np.dtype([("a", "<i8"), ("b", "<f8"), ("c", "<i4"), ("d", "S8")])
ROWS = pa.struct([("a", pa.int64()), ("b", pa.float64()), ("c", pa.int32()), ("d", pa.string())])
DDL = "fact long, id long, x double, a long, b double, c int, d string"


def missing(contender: str) -> str | None:
    """Return why a contender cannot run, None if it can."""
    if contender == "rocksdict" and find_spec("rocksdict") is None:
        return "not installed"
    if contender == "floor":
        try:
            from pyspark.sql.pandas.functions import arrow_udf  # noqa: F401
        except ImportError:
            return "Arrow UDFs came with Spark 4.1"
    return None


def floor(rows: Any, folder: Path) -> Any:
    """Take the key and give a struct of four columns, which takes no look at anything."""
    from pyspark.sql.pandas.functions import arrow_udf

    def answer(keys: pa.Array) -> pa.Array:
        count = len(keys)
        constants = [pa.scalar(0.5), pa.scalar(1, pa.int32()), pa.scalar("12345")]
        columns = [keys, *(pa.repeat(value, count) for value in constants)]
        return pa.StructArray.from_arrays(columns, ["a", "b", "c", "d"])

    answer.__annotations__ = {"keys": pa.Array, "return": pa.Array}
    row = arrow_udf(answer, "a long, b double, c int, d string")("id").alias("row")
    return rows.select("*", row).select("fact", "id", "x", "row.*")


def identity(rows: Any, folder: Path) -> Any:
    """Send all rows through Python and back."""

    def same(batches: Batches) -> Batches:
        yield from batches

    return rows.mapInArrow(same, rows.schema)


def by_numpy(rows: Any, folder: Path) -> Any:
    """Search sorted keys in memory, which all workers map from the same files."""
    if not (folder / "id.npy").exists():
        save_sorted(folder)
    return rows.mapInArrow(functools.partial(join_by_numpy, str(folder)), DDL)


def save_sorted(folder: Path) -> None:
    """Write each column of the dimension, in order of keys, into a file that can be mapped."""
    table = pq.read_table(folder / "dimension.parquet")
    order = np.argsort(table["id"].to_numpy())
    for name in table.column_names:
        values = table[name].to_numpy()[order]
        np.save(folder / f"{name}.npy", values.astype("S8") if name == "d" else values)


def join_by_numpy(folder: str, batches: Batches) -> Batches:
    """Join batches of facts in a worker."""
    held = mapped(folder)
    ids = held["id"]
    for batch in batches:
        keys = batch.column("id").to_numpy()
        places = np.minimum(np.searchsorted(ids, keys), len(ids) - 1)
        absent = ids[places] != keys
        columns = [pa.array(held[name][places], mask=absent) for name in "abc"]
        text = pa.array(held["d"][places], pa.binary(), mask=absent).cast(pa.string())
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, *columns, text], names=[*batch.schema.names, *"abcd"]
        )


@functools.lru_cache(maxsize=1)
def mapped(folder: str) -> dict[str, npt.NDArray[Any]]:
    """Return the sorted columns of the dimension, mapped once a worker."""
    return {name: np.load(Path(folder, f"{name}.npy"), mmap_mode="r") for name in ("id", *"abcd")}


def by_rocksdict(rows: Any, folder: Path) -> Any:
    """Ask RocksDB, which every worker opens read-only with a cache for everything."""
    if not (folder / "rocks").exists():
        fill_rocksdict(folder)
    return rows.mapInArrow(functools.partial(join_by_rocksdict, str(folder)), DDL)


def rocks_options() -> Any:
    """Return the options that serve RocksDB best here: as in rivals.py."""
    import rocksdict

    options = rocksdict.Options(raw_mode=True)
    options.set_compression_type(rocksdict.DBCompressionType.none())
    table = rocksdict.BlockBasedOptions()
    table.set_bloom_filter(10, False)
    table.set_block_cache(rocksdict.Cache(4 << 30))
    options.set_block_based_table_factory(table)
    options.create_if_missing(True)
    return options


def fill_rocksdict(folder: Path) -> None:
    """Write the dimension in order of keys into one file, and have RocksDB take it in."""
    import rocksdict

    table = pq.read_table(folder / "dimension.parquet").sort_by("id")
    keys = table["id"].to_numpy().astype(">i8").tobytes()
    values = np.empty(table.num_rows, ROW)
    for name in "abc":
        values[name] = table[name].to_numpy()
    values["d"] = table["d"].to_numpy().astype("S8")
    packed, size = values.tobytes(), ROW.itemsize
    path = str(folder / "rocks.sst")
    writer = rocksdict.SstFileWriter(rocks_options())
    writer.open(path)
    for i in range(table.num_rows):
        writer[keys[8 * i : 8 * i + 8]] = packed[size * i : size * i + size]
    writer.finish()
    database = rocksdict.Rdict(str(folder / "rocks"), rocks_options())
    database.ingest_external_file([path])
    database.close()


def join_by_rocksdict(folder: str, batches: Batches) -> Batches:
    """Join batches of facts in a worker: lists of 100 keys per call are the fastest."""
    database, absent = opened(folder), bytes(ROW.itemsize)
    for batch in batches:
        packed = batch.column("id").to_numpy().astype(">i8").tobytes()
        keys = [packed[i : i + 8] for i in range(0, len(packed), 8)]
        found = []
        for start in range(0, len(keys), 100):
            found += database.get(keys[start : start + 100])
        mask = np.fromiter((one is None for one in found), bool, len(found))
        rows = np.frombuffer(b"".join(one or absent for one in found), ROW)
        columns = [pa.array(rows[name], mask=mask) for name in "abc"]
        text = pa.array(rows["d"], pa.binary(), mask=mask).cast(pa.string())
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, *columns, text], names=[*batch.schema.names, *"abcd"]
        )


@functools.lru_cache(maxsize=1)
def opened(folder: str) -> Any:
    """Return the database, opened once a worker."""
    import rocksdict

    path = str(Path(folder, "rocks"))
    return rocksdict.Rdict(
        path,
        options=rocks_options(),
        column_families={"default": rocks_options()},
        access_type=rocksdict.AccessType.read_only(),
    )


JOINS: dict[str, Callable[[Any, Path], Any]] = {
    "floor": floor,
    "identity": identity,
    "numpy": by_numpy,
    "rocksdict": by_rocksdict,
}


def to_nowhere(rows: Any) -> None:
    """Make all rows, and throw them away."""
    rows.write.format("noop").mode("overwrite").save()


def workers(spark: Any) -> list[int]:
    """Return the process ids of Spark's Python workers on this machine."""
    jvm = spark.sparkContext._gateway.proc.pid
    found, waiting = [], [jvm]
    while waiting:
        parent = waiting.pop()
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            waiting += (children := [int(pid) for pid in task.read_text().split()])
            found += children
    return [pid for pid in found if "pyspark" in Path(f"/proc/{pid}/cmdline").read_text()]


def private_memory(spark: Any) -> list[int]:
    """Return the most memory of its own that each worker has had, in bytes.

    Pages of mapped files are no process's own: the system releases them when it needs room.
    """
    found = []
    for pid in workers(spark):
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        )
        found.append(int(status["RssAnon"].split()[0]) * 1024)
    return found


def restart_workers(spark: Any) -> None:
    """End all Python workers, so that the next ones start with nothing."""
    for pid in workers(spark):
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.5)
