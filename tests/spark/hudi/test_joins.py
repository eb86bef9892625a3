"""Joins with Hudi tables: log files are merged, and conditions leave out files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from support.hudi.log_history import row
from support.hudi.log_tables import LogTable

from lookupstore.hudi import HudiTable, TableLookup
from lookupstore.spark import lookup_join
from lookupstore.spark.join.freshness import SETTLE_SECONDS

pytestmark = [
    pytest.mark.spark,
    # PySpark 4.0 leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def values(joined: DataFrame) -> list[Any]:
    """Return the joined values in the order of keys."""
    return [one.value for one in joined.orderBy("id").collect()]


def test_log_files_are_merged(spark: SparkSession, tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", 9)
    table.base("a-0", [row(key, 10, "old") for key in range(4)])
    table.delta("a-0", lambda at: table.data(at, [row(1, 11, "new"), row(2, 9, "late")]))
    facts = spark.range(0, 6, numPartitions=2).selectExpr("cast(id as int) id")
    joined = {refresh: lookup_join(facts, tmp_path / "t", "id", columns=["value"], refresh=refresh)
              for refresh in ("never", "per_batch")}  # fmt: skip
    before = ["old", "new", "old", "old", None, None]
    assert {name: values(one) for name, one in joined.items()} == dict.fromkeys(joined, before)
    table.delta("a-0", lambda at: table.deletes(at, [("0", "long", 12)])
                + table.data(at, [row(4, 1, "more")]))  # fmt: skip
    time.sleep(SETTLE_SECONDS + 0.1)
    assert values(joined["never"]) == before
    assert values(joined["per_batch"]) == [None, "new", "old", "old", "more", None]
    some = lookup_join(facts, tmp_path / "t", "id", "semi", where="value = 'old'")
    assert [one.id for one in some.orderBy("id").collect()] == [2, 3]
    base_files = HudiTable.open(tmp_path / "t", query_type="read_optimized")
    assert values(lookup_join(facts, base_files, "id", columns=["value"])) == [
        *["old"] * 4, None, None]  # fmt: skip


def test_a_condition_leaves_out_rows_and_files(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "day": pa.string(), "value": pa.string()})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id", partition_by="day")
    table.insert(
        {"id": [1, 2, 3, 1], "day": ["mo", "mo", "tu", "tu"], "value": ["a", "b", "c", "d"]}
    )
    facts = spark.range(0, 4)
    for given in (table, tmp_path / "t", TableLookup(table, key="id", where="day = 'mo'")):
        # Without the condition, the key 1 is in two partitions.
        where = None if isinstance(given, TableLookup) else "day = 'mo'"
        joined = lookup_join(facts, given, "id", columns=["value"], where=where)
        assert values(joined) == [None, "a", "b", None]
    kept = lookup_join(facts, table, "id", "anti", where=[("day", "=", "mo"), ("value", "!=", "b")])
    assert [one.id for one in kept.orderBy("id").collect()] == [0, 2, 3]
    for group in table.file_groups():
        if group.id.partition == "tu":
            path = tmp_path / "t" / group.current.path
            path.write_bytes(b"\0" * path.stat().st_size)
    assert values(lookup_join(facts, table, "id", columns=["value"], where="day = 'mo'")) == [
        None, "a", "b", None]  # fmt: skip
