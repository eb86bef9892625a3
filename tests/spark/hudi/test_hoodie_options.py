"""Options by Hudi's names in Spark: of writes, of reads, of streams, beside options of ours."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType
from support.hudi.choice_texts import TEXTS

from lookupstore.hudi import HudiTable, TableServices, WriteOptions
from lookupstore.hudi.write import WRITE_CHOICES
from lookupstore.spark import cluster_table

pytest.importorskip("pyspark.sql.datasource", reason="sources came with Spark 4.0")

from lookupstore.spark.hudi.changes import changes_of
from lookupstore.spark.hudi.save import planned_write
from lookupstore.spark.hudi.source import read_options

pytestmark = [
    pytest.mark.spark,
    # PySpark 4.0 leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

FORMAT = "lookupstore.hudi"
HOODIE = "hoodie"
READ = f"{HOODIE}.datasource.read"
QUERY = f"{HOODIE}.datasource.query.type"
SKIPPING = f"{HOODIE}.enable.data.skipping"
NEW = {
    f"{HOODIE}.table.name": "t",
    f"{HOODIE}.datasource.write.recordkey.field": "id",
    f"{HOODIE}.datasource.write.precombine.field": "ts",
    f"{HOODIE}.datasource.write.payload.class":
    "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    f"{HOODIE}.datasource.hive_sync.enable": "false",
    f"{HOODIE}.bloom.index.prune.by.ranges": "false",
    f"{HOODIE}.metrics.on": "true",
    QUERY: "snapshot",
}  # fmt: skip


def ids(spark: SparkSession, path: Path, **options: Any) -> list[int]:
    rows = spark.read.format(FORMAT).options(**options).load(str(path)).select("id").collect()
    return sorted(row.id for row in rows)


def test_what_a_guide_gives_is_written_and_read(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for first in (0, 2):
        rows = spark.range(first, first + 3).selectExpr("id", "id AS ts")
        rows.write.format(FORMAT).options(**NEW).mode("append").save(str(path))
    first_commit = HudiTable.open(path).timeline()[0].position
    since = {f"{READ}.begin.instanttime": first_commit}
    assert ids(spark, path, **NEW) == [0, 1, 2, 3, 4]
    assert ids(spark, path, **{QUERY: "incremental"}, **since) == [2, 3, 4]
    beginning = {f"{READ}.begin.instanttime": "0", f"{READ}.end.instanttime": first_commit}
    assert ids(spark, path, **{QUERY: "incremental"}, **beginning) == [0, 1, 2]
    with pytest.raises(PySparkException, match=r"hive_sync\.enable is 'true'; supported: false"):
        rows.write.format(FORMAT).options(
            **{**NEW, f"{HOODIE}.datasource.hive_sync.enable": "true"}
        ).mode("append").save(str(path))
    direct = {f"{HOODIE}.layout.optimize.curve.build.method": "direct"}
    with pytest.raises(ValueError, match="mapping is 'sample', but options say 'value' in"):
        cluster_table(spark, str(path), "ts", mapping="sample", options=direct)


def test_options_of_a_read() -> None:
    at = "20260307135657661"
    known: list[tuple[dict[str, str], dict[str, str]]] = [
        ({QUERY: "read_optimized"}, {"query_type": "read_optimized"}),
        ({QUERY: "snapshot", SKIPPING: "false"}, {"query_type": "snapshot", "skipping": "false"}),
        ({SKIPPING: "true"}, {"skipping": "true"}),
        ({QUERY: "INCREMENTAL", f"{READ}.begin.instanttime": at}, {"since": at}),
        ({QUERY: "incremental", f"{READ}.begin.instanttime": "earliest"}, {}),
        # Those of writes are known, and ignored.
        ({f"{HOODIE}.index.type": "SIMPLE", f"{HOODIE}.metadata.enable": "true"}, {}),
        ({f"{HOODIE}.datasource.view.type": "read_optimized", "query_type": "read_optimized"},
         {"query_type": "read_optimized"}),
    ]  # fmt: skip
    for given, wanted in known:
        assert read_options({"path": "t", **given}) == {"path": "t", **wanted}


WRONG: list[tuple[dict[str, str], str]] = [
    ({f"{READ}.begin.instanttime": "20260307135657661"}, "is for the query type 'incremental'"),
    ({QUERY: "incremental"}, "give the position after which rows are wanted in"),
    ({QUERY: "incremental", f"{READ}.begin.instanttime": "20260307135657661",
      "since": "20260307135657662"}, "since is '20260307135657662', but options under Hudi's"),
    ({QUERY: "snapshot", "query_type": "read_optimized"}, "query_type is 'read_optimized', but"),
    ({SKIPPING: "false", "skipping": "true"}, "skipping is 'true', but options under Hudi's names"),
    ({f"{HOODIE}.datasource.query.incremental.format": "cdc"}, "supported: latest_state; read"),
    ({f"{READ}.paths": "a,b"}, "is not supported: rows are chosen by filters"),
    ({f"{HOODIE}.datasource.query.types": "snapshot"}, "nearest: hoodie.datasource.query.type"),
]  # fmt: skip


def test_options_of_a_read_that_are_refused() -> None:
    for given, message in WRONG:
        with pytest.raises(ValueError, match=message):
            read_options({"path": "t", **given})


def test_options_of_ours_beside_hudis(tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {"path": str(path), **NEW}
    simple = {f"{HOODIE}.index.type": "SIMPLE"}
    rows = StructType([StructField("id", LongType()), StructField("ts", LongType())])
    same = {**options, **simple, "index": "simple", "memory": "1GB"}
    writer = planned_write(same, rows, overwrite=False)
    assert writer._options == WriteOptions(index="simple", memory=10**9)
    for ours, message in (
        ({"index": "bloom"}, "index is 'bloom', but options say 'simple' in hoodie.index.type"),
        ({"operation": "insert", f"{HOODIE}.datasource.write.operation": "upsert"},
         "is 'upsert', but this is insert"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            planned_write({**options, **simple, **ours}, rows, overwrite=False)


def test_every_choice_of_a_write_is_an_option(tmp_path: Path) -> None:
    rows = StructType([StructField("id", LongType()), StructField("ts", LongType())])
    options = {"path": str(tmp_path / "t"), **NEW}
    services = {one.name for one in dataclasses.fields(TableServices)}
    beside = {"sort_by": {"sort_mode": "global_sort"}}
    for name, choice in WRITE_CHOICES.items():
        text, value = TEXTS[name]
        given = {**options, "operation": choice.operation or "upsert", **beside.get(name, {})}
        if not choice.in_spark:
            with pytest.raises(ValueError, match=f"no option {name!r}"):
                planned_write({**given, name: text}, rows, overwrite=False)
            continue
        writer = planned_write({**given, name: text}, rows, overwrite=False)
        holder = writer._options.services if name in services else writer._options
        assert getattr(holder, name) == value, name
    with pytest.raises(ValueError, match="duplicates is for operation insert, but this is upsert"):
        planned_write({**options, "duplicates": "drop"}, rows, overwrite=False)


def test_options_of_a_stream(tmp_path: Path) -> None:
    HudiTable.create(tmp_path / "t", {"id": [1]}, record_key="id")
    path = {"path": str(tmp_path / "t")}
    schema = StructType([StructField("id", LongType())])
    assert changes_of({**path, QUERY: "incremental", SKIPPING: "true"}, schema)
    with pytest.raises(ValueError, match=r"is not for a stream; give option\('start', ...\)"):
        changes_of({**path, f"{READ}.begin.instanttime": "0"}, schema)
