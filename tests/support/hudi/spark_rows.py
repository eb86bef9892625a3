"""Rows of small Hudi tables, in Spark and in Arrow, and what a table has of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from support.hudi.oracle import assert_same_rows, other_scan
from support.hudi.written import check_files

from lookupstore.hudi import HudiTable
from lookupstore.hudi.timeline.commit import CommitMetadata, parse_commit
from lookupstore.hudi.timeline.timeline import TimelineFolder

SCHEMA = pa.schema({"id": pa.int32(), "day": pa.string(), "ts": pa.float64(), "value": pa.string()})
COLUMNS = "id int, day string, ts double, value string"
DELETED = "_hoodie_is_deleted"
Row = tuple[Any, ...]


def make(path: Path, **arguments: Any) -> HudiTable:
    arguments = {"record_key": ["id"], "partition_by": ["day"], "name": "t", **arguments}
    return HudiTable.create(path, SCHEMA, **arguments)


def local_rows(rows: Sequence[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    table = pa.table(
        [pa.array(one, field.type) for one, field in zip(columns, SCHEMA, strict=False)],
        names=SCHEMA.names,
    )
    if len(columns) > len(SCHEMA):
        table = table.append_column(DELETED, pa.array(columns[-1], pa.bool_()))
    return table


def spark_rows(spark: SparkSession, rows: Sequence[Row], parts: int = 3) -> DataFrame:
    """Return rows in their order, in some partitions."""
    columns = COLUMNS if not rows or len(rows[0]) == 4 else f"{COLUMNS}, {DELETED} boolean"
    slices = spark.sparkContext.parallelize(list(rows), parts)
    return spark.createDataFrame(slices, columns)


def values(path: Path) -> dict[tuple[int, str], tuple[float, str]]:
    rows = HudiTable.open(path).scan(columns=SCHEMA.names).to_pylist()
    found = {(one["id"], one["day"]): (one["ts"], one["value"]) for one in rows}
    assert len(found) == len(rows)
    return found


def commits(path: Path) -> list[tuple[CommitMetadata, CommitMetadata]]:
    """Return what each commit planned, and what it did."""
    table = HudiTable.open(path)
    folder = TimelineFolder(table.location, table.options.timeline, table.options.version)
    return [
        (parse_commit(folder.read(folder.before(one)), ""), parse_commit(folder.read(one), ""))
        for one in table.timeline()
        if one.is_completed and one.is_write
    ]


def numbers(commit: CommitMetadata) -> Counter[Any]:
    """Return what a commit says of its files, but for their names and sizes."""
    return Counter(
        (
            partition, one.num_writes, one.num_inserts, one.num_update_writes, one.num_deletes,
            one.prev_commit == "null",
        )
        for partition, many in (commit.stats or {}).items()
        for one in many
    )  # fmt: skip


def keys_by_file(path: Path) -> Counter[Any]:
    rows = HudiTable.open(path).scan(
        columns=["_hoodie_file_name", "_hoodie_record_key", "day", "value"]
    )
    files: dict[str, list[Any]] = {}
    for row in rows.to_pylist():
        files.setdefault(row.pop("_hoodie_file_name"), []).append(tuple(row.values()))
    return Counter(map(tuple, files.values()))


def instants(path: Path) -> list[Any]:
    return [one for one in HudiTable.open(path).timeline() if one.is_write]


def check(path: Path) -> None:
    """Check all that there is: files, statistics, what is left, and the other reader."""
    check_files(path)
    found = HudiTable.open(path).verify()
    assert found.is_ok, found
    assert not found.findings, found
    assert_same_rows(HudiTable.open(path).scan(), other_scan(path))
