"""`hudi_merge` of a DataFrame, compared with `HudiTable.merge` of the same rows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.table import TableMerge
from lookupstore.spark import hudi_merge

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    {"id": pa.int64(), "day": pa.string(), "ts": pa.int64(), "v": pa.int32(), "w": pa.string()}
)
NEWS = "id long, day string, ts long, v int, w string, op string"


def rows_of(rng: random.Random, ids: list[int]) -> list[dict[str, Any]]:
    return [
        {
            "id": at,
            "day": rng.choice("ab"),
            "ts": rng.randrange(9),
            "v": rng.choice([None, rng.randrange(99)]),
            "w": rng.choice([None, "p", "q"]),
            "op": rng.choice("UID"),
        }
        for at in ids
    ]


def with_clauses(merge: TableMerge) -> TableMerge:
    return (
        merge.when_matched_delete("source.op = 'D' and target.v is not null")
        .when_matched_update(
            {"v": "coalesce(target.v, 0) + source.ts", "w": "source.w"}, where="source.op = 'U'"
        )
        .when_matched_update({"ts": "source.ts - 1"})
        .when_not_matched_insert(
            {"v": "source.v", "w": "'new'", "ts": "source.ts"}, where="source.op != 'D'"
        )
    )


def stored(path: Path) -> list[dict[str, Any]]:
    table = HudiTable.open(path)
    assert not table.verify().findings
    rows: list[dict[str, Any]] = table.scan(columns=SCHEMA.names).to_pylist()
    return sorted(rows, key=lambda row: (row["id"], row["day"]))


@pytest.mark.few(2)
@pytest.mark.parametrize("partitioned", [True, False])
@pytest.mark.parametrize("index", ["bloom", "global-simple"])
def test_a_table_is_as_after_a_local_merge(
    spark: SparkSession, tmp_path: Path, index: str, partitioned: bool, seed: int
) -> None:
    rng = random.Random(seed)
    first = pa.Table.from_pylist(rows_of(rng, list(range(60))), SCHEMA)
    news = rows_of(rng, rng.sample(range(90), 50))
    paths = ours, local = tmp_path / "spark", tmp_path / "local"
    version = rng.choice([6, 9])
    for path in paths:
        arguments: dict[str, Any] = {"partition_by": "day"} if partitioned else {}
        made = HudiTable.create(
            path, SCHEMA, record_key="id", ordering="ts", version=version, name="t", **arguments
        )
        made.insert(first)
    df = spark.createDataFrame([tuple(row.values()) for row in news], NEWS).repartition(3)
    on = rng.choice([None, "id"])
    options = WriteOptions(index=index)
    dry = with_clauses(hudi_merge(df, ours, on)).execute(options=options, dry_run=True)
    assert dry.instant is None
    done = with_clauses(hudi_merge(df, ours, on)).execute(options=options)
    given = pa.Table.from_pylist(news)
    expected = with_clauses(HudiTable.open(local).merge(given, on)).execute(options=options)
    assert stored(ours) == stored(local)
    for name in ("rows_inserted", "rows_updated", "rows_deleted", "operation"):
        assert getattr(done, name) == getattr(expected, name)
    assert done.rows_deleted == dry.rows_deleted > 0


def test_what_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id")
    table.insert(pa.Table.from_pylist(rows_of(random.Random(1), [1, 2, 3]), SCHEMA))
    before = stored(tmp_path / "t")
    df = spark.createDataFrame([(1, 5), (1, 6)], "id long, v int")
    with pytest.raises(ValueError, match=r"df: several rows have the key '1'.*dropDuplicates"):
        hudi_merge(df, table).when_matched_update().execute()
    with pytest.raises(ValueError, match=r"not supported in Spark; use HudiTable\.merge"):
        hudi_merge(df, table).when_not_matched_by_source_delete().execute()
    with pytest.raises(ValueError, match=r"on is \['v'\]; rows are matched by key"):
        hudi_merge(df, table, on="v")
    two = df.selectExpr("id + 1 as id", "v").limit(1)
    merge = hudi_merge(two, table).when_matched_update({"v": "source.v * 1000000000"})
    with pytest.raises(ValueError, match="'v' of the row with the key '2': the value does not fit"):
        merge.execute()
    with pytest.raises(ValueError, match="no column 'id'"):
        hudi_merge(df.select("v"), table).when_matched_delete().execute()
    with pytest.raises(ValueError, match="z is no column"):
        hudi_merge(df, table).when_matched_delete("source.z = 1").execute()
    assert stored(tmp_path / "t") == before
