"""Inserts and upserts of DataFrames into a partition that keeps a layout, as in one process."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from support.hudi.oracle import assert_same_rows, other_scan
from support.hudi.written import check_files

from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.layout import KeptLayout, read_layout
from lookupstore.hudi.write.partitioner import FileSizing
from lookupstore.spark.hudi.write import upsert

pytestmark = pytest.mark.spark
SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string(), "a": pa.int32(), "b": pa.string()})
DDL = "id bigint, p string, a int, b string"
Row = dict[str, Any]


def some(ids: range, chance: random.Random) -> list[Row]:
    return [
        {
            "id": at,
            "p": chance.choice("xy"),
            "a": chance.choice([None, 7, chance.randrange(-9999, 9999)]),
            "b": chance.choice([None, "", f"{chance.random():.9f}"]),
        }
        for at in ids
    ]


def layout_of(table: HudiTable) -> KeptLayout:
    found = read_layout(table.location, "x")
    assert found is not None
    return found


def places(table: HudiTable) -> dict[str, list[bytes]]:
    """Return by the name of the files of `x` the places of their rows, ascending."""
    layout = layout_of(table).layout
    rows = table.scan(columns=["_hoodie_file_name", "_hoodie_partition_path", "a", "b"])
    rows = rows.filter(pc.field("_hoodie_partition_path") == "x")
    return {
        name: sorted(
            layout.positions(rows.filter(pc.field("_hoodie_file_name") == name)).to_pylist()
        )
        for name in set(rows["_hoodie_file_name"].to_pylist())
    }


@pytest.mark.few(1)
@pytest.mark.parametrize("operation", ["insert", "upsert"])
def test_files_are_those_of_one_process(
    spark: SparkSession, tmp_path: Path, operation: Any, seed: int
) -> None:
    chance = random.Random(seed)
    path = tmp_path / "t"
    first = some(range(3000), chance)
    table = HudiTable.create(path, SCHEMA, record_key="id", partition_by="p", name="t")
    table.bulk_insert(pa.Table.from_pylist(first, SCHEMA))
    table.collect_statistics()
    table.cluster(["a", "b"], target_file_size=4000, partitions=["x"], incremental=True)
    more = some(range(3000, 5000), chance)
    if operation == "upsert":  # two rows change, and so their files take what is in their boxes
        more += first[:2]
    local = HudiTable.open(shutil.copytree(path, tmp_path / "local"))
    known = layout_of(table).files.keys()
    options = WriteOptions(sizing=FileSizing(small_file_limit=0))
    df = spark.createDataFrame([tuple(row.values()) for row in more], DDL).repartition(3)
    upsert(df, path, operation=operation, options=options)
    getattr(local, operation)(pa.Table.from_pylist(more, SCHEMA), options=options)
    assert sorted(places(table).values()) == sorted(places(local).values())
    layout = layout_of(table)
    new = {one: placed for one, placed in layout.files.items() if one not in known}
    assert len(new) > 1
    spans = places(table)
    for placed in new.values():
        own = spans[placed.name]
        assert placed.rows == len(own)
        assert placed.after < own[0] <= own[-1] <= placed.last
    rows = {row["id"]: row for row in first + more}
    scanned = table.scan(columns=SCHEMA.names).to_pylist()
    assert {row["id"]: row for row in scanned} == rows
    assert len(scanned) == len(rows)
    assert_same_rows(table.scan(), other_scan(path))
    check_files(path)
