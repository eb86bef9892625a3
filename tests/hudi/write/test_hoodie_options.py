"""Options under Hudi's names: each is what it says, or an error that names it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.hudi.oracle import assert_same_rows, other_scan

from lookupstore.hudi import HudiTable, TableServices, WriteOptions
from lookupstore.hudi.write.hoodie.meaning import given_options

TRIPS = pa.table({"uuid": ["a", "b"], "city": ["rome", "oslo"], "ts": pa.array([1, 2], pa.int64())})
# What a guide to Apache Hudi lets a writer be given.
GUIDE = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "uuid",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.table.name": "trips",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.upsert.shuffle.parallelism": 2,
    "hoodie.insert.shuffle.parallelism": 2,
}


@pytest.mark.parametrize("version", [6, 8, 9])
def test_the_options_of_a_guide(tmp_path: Path, version: int) -> None:
    said = {"hoodie.datasource.write.hive_style_partitioning": True, **GUIDE}
    table = HudiTable.create(tmp_path / "t", TRIPS, version=version, options=said)
    ours = table.options
    assert (ours.name, ours.record_key, ours.partition_by) == ("trips", ("uuid",), ("city",))
    assert (ours.ordering, ours.hive_style, ours.version) == (("ts",), True, version)
    assert table.upsert(TRIPS, options=said).rows_inserted == 2
    older = TRIPS.slice(0, 1).set_column(2, "ts", pa.array([0], pa.int64()))
    table.upsert(older, options=GUIDE)
    assert table.scan(columns=["ts"]).sort_by("ts")["ts"].to_pylist() == [1, 2]
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))


@pytest.fixture
def table(tmp_path: Path) -> HudiTable:
    return HudiTable.create(tmp_path / "t", TRIPS, options=GUIDE)


@pytest.mark.parametrize(
    ("given", "operation", "wanted"),
    [
        ({"hoodie.index.type": "SIMPLE"}, "UPSERT", {"index": "simple"}),
        ({"hoodie.index.type": "INMEMORY"}, "UPSERT", {"index": "in-memory"}),
        ({"hoodie.index.type": "GLOBAL_BLOOM"}, "UPSERT", {"index": "global-bloom"}),
        ({"hoodie.index.type": "GLOBAL_BLOOM",
          "hoodie.bloom.index.update.partition.path": "false"}, "UPSERT",
         {"index": "global-bloom", "update_partition_path": False}),
        ({"hoodie.index.type": "GLOBAL_SIMPLE",
          "hoodie.simple.index.update.partition.path": False}, "UPSERT",
         {"index": "global-simple", "update_partition_path": False}),
        ({"hoodie.index.type": "GLOBAL_SIMPLE",
          "hoodie.simple.index.update.partition.path": "true",
          "hoodie.bloom.index.update.partition.path": "false"}, "UPSERT",
         {"index": "global-simple"}),
        ({"hoodie.simple.index.update.partition.path": "false"}, "UPSERT", {}),
        ({"hoodie.datasource.insert.dup.policy": "drop"}, "INSERT", {"duplicates": "drop"}),
        ({"hoodie.write.num.retries.on.conflict.failures": "3"}, "UPSERT", {"retries": 3}),
        ({"hoodie.datasource.write.insert.drop.duplicates": True}, "INSERT",
         {"duplicates": "drop"}),
        ({"hoodie.combine.before.insert": "true"}, "INSERT", {"combine": True}),
        ({"hoodie.combine.before.insert": "true"}, "UPSERT", {"combine": None}),
        ({"hoodie.combine.before.upsert": False}, "UPSERT", {"combine": False}),
        ({"hoodie.combine.before.delete": "false"}, "DELETE", {"combine": None}),
        ({"hoodie.write.ignore.failed": "true"}, "UPSERT", {"on_error": "collect"}),
        ({"hoodie.write.ignore.failed": False}, "UPSERT", {"on_error": "raise"}),
        ({"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}, "BULK_INSERT",
         {"sort_mode": "global_sort"}),
        ({"hoodie.bulkinsert.user.defined.partitioner.sort.columns": "city,ts"}, "BULK_INSERT",
         {"sort_mode": "global_sort", "sort_by": ("city", "ts")}),
    ],
)  # fmt: skip
def test_options_of_a_write(
    table: HudiTable, given: dict[str, Any], operation: str, wanted: dict[str, Any]
) -> None:
    assert given_options(given, table.options, operation) == WriteOptions(**wanted)


BY_COMMITS, BY_HOURS, BY_VERSIONS = (
    {"hoodie.clean.policy": f"KEEP_LATEST_{what}"}
    for what in ("COMMITS", "BY_HOURS", "FILE_VERSIONS")
)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, {}),
        ({"hoodie.clean.automatic": "false"}, {}),
        ({"hoodie.clean.automatic": True}, {"retain_commits": 10}),
        (BY_HOURS, {"retain_hours": 24}),
        (BY_VERSIONS, {"retain_versions": 3}),
        ({"hoodie.cleaner.policy": "keep_latest_file_versions"}, {"retain_versions": 3}),
        ({"hoodie.clean.commits.retained": 4}, {"retain_commits": 4}),
        ({"hoodie.cleaner.commits.retained": "4"}, {"retain_commits": 4}),
        # One number says the policy; of several, that of the policy counts.
        ({"hoodie.clean.hours.retained": 7}, {"retain_hours": 7}),
        ({"hoodie.cleaner.hours.retained": 7}, {"retain_hours": 7}),
        ({"hoodie.clean.fileversions.retained": 2}, {"retain_versions": 2}),
        ({"hoodie.cleaner.fileversions.retained": 2}, {"retain_versions": 2}),
        (BY_VERSIONS | {"hoodie.clean.commits.retained": 4}, {"retain_versions": 3}),
        (BY_COMMITS | {"hoodie.clean.hours.retained": 4}, {"retain_commits": 10}),
        (
            {"hoodie.clean.hours.retained": 4, "hoodie.clean.fileversions.retained": 2},
            {"retain_commits": 10},
        ),
        (BY_VERSIONS | {"hoodie.clean.automatic": False}, {}),
        ({"hoodie.archive.automatic": "true"}, {"archive": True}),
        ({"hoodie.archive.automatic": "false", "hoodie.keep.max.commits": 50}, {}),
        (
            {"hoodie.keep.min.commits": 5, "hoodie.keep.max.commits": 9},
            {"archive": True, "min_commits": 5, "max_commits": 9},
        ),
    ],
)
def test_services_after_a_write(
    table: HudiTable, given: dict[str, Any], wanted: dict[str, Any]
) -> None:
    options = given_options(given, table.options, "UPSERT")
    assert options == WriteOptions(services=TableServices(**wanted))


def test_clustering_after_writes(table: HudiTable) -> None:
    """As Hudi does it unless it is told otherwise, which is not what our verb does."""
    usual = TableServices(
        cluster_by=["city", "ts"],
        cluster_curve="linear",
        cluster_mapping="value",
        cluster_file_size=1 << 30,
        cluster_small_file_limit=300 << 20,
        cluster_commits=4,
    )
    told = {
        "hoodie.clustering.inline.max.commits": "2",
        "hoodie.layout.optimize.strategy": "Z-ORDER",
        "hoodie.layout.optimize.curve.build.method": "sample",
        "hoodie.clustering.plan.strategy.target.file.max.bytes": 1000,
        "hoodie.clustering.plan.strategy.small.file.limit": "500",
        "hoodie.clustering.plan.strategy.max.num.groups": 7,
    }
    other = TableServices(
        cluster_by=("city", "ts"),
        cluster_curve="zorder",
        cluster_mapping="sample",
        cluster_file_size=1000,
        cluster_small_file_limit=500,
        cluster_commits=2,
    )
    cases: list[tuple[Mapping[str, Any], TableServices]] = [
        (CLUSTERED, usual),
        (CLUSTERED | told, other),
        (CLUSTERED | {"hoodie.clustering.inline": False}, TableServices()),
        (told, TableServices()),
    ]
    for given, wanted in cases:
        options = given_options(given, table.options, "UPSERT")
        assert options == WriteOptions(services=wanted)


def test_a_clustering_by_name(table: HudiTable) -> None:
    table.insert(TRIPS)
    by_city = {"hoodie.clustering.plan.strategy.sort.columns": "city"}
    with pytest.raises(ValueError, match=r"by is \('ts',\), but options say \('city',\)"):
        table.cluster("ts", curve="linear", options=by_city)
    with pytest.raises(ValueError, match="curve is 'linear', but options say 'hilbert'"):
        table.cluster("ts", curve="linear", options={"hoodie.layout.optimize.strategy": "hilbert"})
    named = by_city | {"hoodie.layout.optimize.strategy": "linear"}
    done = table.cluster(options=named)
    assert done.rows == TRIPS.num_rows
    assert table.cluster("city", curve="linear").instant is None


def test_a_metadata_table_by_name(table: HudiTable) -> None:
    for value, wanted in ((True, "maintain"), ("false", "refuse")):
        options = given_options({"hoodie.metadata.enable": value}, table.options, "UPSERT")
        assert options.metadata == wanted
    # There is none to maintain, and none is made.
    table.upsert(TRIPS, options={"hoodie.metadata.enable": True})
    assert HudiTable.open(table.location).options.metadata_partitions == ()


def test_sizes_and_formats(table: HudiTable) -> None:
    given = {
        "hoodie.parquet.max.file.size": "1000",
        "hoodie.parquet.small.file.limit": 0,
        "hoodie.copyonwrite.record.size.estimate": "7",
        "hoodie.copyonwrite.insert.split.size": "8",
        "hoodie.copyonwrite.insert.auto.split": "false",
        "hoodie.record.size.estimation.threshold": "0.5",
        "hoodie.parquet.compression.codec": "ZSTD",
        "hoodie.parquet.block.size": "4096",
        "hoodie.index.bloom.fpp": "0.01",
    }
    options = given_options(given, table.options, "UPSERT")
    sizing, written = options.sizing, options.format
    assert (sizing.max_file_size, sizing.small_file_limit, sizing.record_size) == (1000, 0, 7)
    assert (sizing.split_size, sizing.auto_split, sizing.threshold) == (8, False, 0.5)
    assert (written.compression, written.row_group_bytes) == ("zstd", 4096)
    assert written.error_rate == 0.01


def test_files_are_as_options_say(table: HudiTable) -> None:
    rows = pa.table({"uuid": list("abcdef"), "city": ["rome"] * 6, "ts": list(range(6))})
    small = {"hoodie.copyonwrite.insert.split.size": 2,
             "hoodie.copyonwrite.insert.auto.split": False}  # fmt: skip
    assert table.insert(rows, options=small).files_new == 3


CLUSTERED = {"hoodie.clustering.inline": "true",
             "hoodie.clustering.plan.strategy.sort.columns": "city, ts"}  # fmt: skip
GENERATOR = "hoodie.datasource.write.keygenerator.class"
WRONG: dict[str, tuple[Mapping[str, Any], str]] = {
    "own": ({"evolve": True}, r"'evolve'; a dict needs Hudi's option names; pass .*\(evolve="),
    "misspelt": ({"sort_mod": "none"}, r"'sort_mod'; .*; pass WriteOptions\(sort_mode="),
    "service": (
        {"retain_commits": 3},
        r"'retain_commits'; .*; pass WriteOptions\(services=TableServices\(retain_commits=",
    ),
    "far from any": ({"path": "/lake/visits"}, "options: unknown names 'path'; leave it out$"),
    "unknown": (
        {"hoodie.parquet.max.filesize": 1, "spark.x": 2},
        r"unknown names 'hoodie.parquet.max.filesize' \(nearest: hoodie.parquet.max.file.size\)"
        r", 'spark.x'; leave out 'spark.x'$",
    ),
    "value": ({"hoodie.parquet.max.file.size": "big"}, "is 'big'; give a whole number"),
    "flag": ({"hoodie.combine.before.upsert": "yes"}, "is 'yes'; give true or false"),
    "rate": ({"hoodie.index.bloom.fpp": "low"}, "is 'low'; give a number"),
    "index": ({"hoodie.index.type": "BUCKET"}, "is 'BUCKET'; give bloom or simple or inmemory"),
    "no flag": ({"hoodie.bloom.index.update.partition.path": "no"}, "give true or false"),
    "fixed": ({"hoodie.clustering.async.enabled": "true"}, "is 'true'; supported: false"),
    "strategy": (
        {"hoodie.clustering.execution.strategy.class": "x.SortStrategy"},
        "supported: org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecution",
    ),
    "no columns": ({"hoodie.clustering.inline": "true"}, "name the columns in hoodie.clustering.p"),
    "commits": (CLUSTERED | {"hoodie.clustering.inline.max.commits": 0}, "cluster_commits is 0"),
    "curve": (
        CLUSTERED | {"hoodie.layout.optimize.strategy": "grid"},
        "is 'grid'; give linear or z-order or hilbert",
    ),
    "metadata": ({"hoodie.metadata.enable": "yes"}, "is 'yes'; give true or false"),
    "policy": ({"hoodie.clean.policy": "ALL"}, "is 'ALL'; give keep_latest_commits or"),
    "retained": ({"hoodie.clean.commits.retained": 0}, "retain_commits is 0; the last commit"),
    "two names": (
        {"hoodie.clean.commits.retained": 4, "hoodie.cleaner.commits.retained": 5},
        "is '5', but hoodie.clean.commits.retained is '4'; give one of them",
    ),
    "archive": ({"hoodie.keep.min.commits": 31}, "min_commits is 31, max_commits 30"),
    "type": (
        {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}, "supported: copy_on_write",
    ),
    "key": (
        {"hoodie.datasource.write.recordkey.field": "id"}, "is 'id'; the table has 'uuid': leave",
    ),
    "ordering": ({"hoodie.datasource.write.precombine.field": ""}, "the table has 'ts': leave"),
    "verb": ({"hoodie.datasource.write.operation": "insert"}, "is 'insert', but this is upsert"),
    "two": (
        {"hoodie.datasource.insert.dup.policy": "fail",
         "hoodie.datasource.write.insert.drop.duplicates": "true"},
        "is 'fail', but hoodie.datasource.write.insert.drop.duplicates is 'true'",
    ),
    "generator": ({GENERATOR: "org.apache.hudi.keygen.ComplexKeyGenerator"},
                  "the table has SIMPLE: leave the option out"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_named_and_nothing_is_written(table: HudiTable, what: str) -> None:
    given, message = WRONG[what]
    with pytest.raises(ValueError, match=message):
        table.upsert(TRIPS, options=given)
    assert table.timeline() == []


def test_a_mapping_without_a_curve(table: HudiTable) -> None:
    """The curve that is the default otherwise, a grid, is not by value."""
    table.upsert(TRIPS)
    direct = {"hoodie.layout.optimize.curve.build.method": "direct"}
    assert table.cluster(["ts", "city"], options=direct).instant is not None
    same = table.cluster(["ts", "city"], curve="hilbert", mapping="value", dry_run=True)
    assert same.files_before == 0


def test_strategies_of_clustering_that_are_the_default(table: HudiTable) -> None:
    package = "org.apache.hudi.client.clustering"
    given = CLUSTERED | {
        "hoodie.clustering.inline.max.commits": 1,
        "hoodie.clustering.plan.strategy.class": f"{package}.plan.strategy."
        "SparkSizeBasedClusteringPlanStrategy",
        "hoodie.clustering.execution.strategy.class": f"{package}.run.strategy."
        "SparkSortAndSizeExecutionStrategy",
        "hoodie.clustering.updates.strategy": f"{package}.update.strategy."
        "SparkRejectUpdateStrategy",
    }
    assert table.upsert(TRIPS, options=given).clustering is not None
    del given["hoodie.clustering.inline"], given["hoodie.clustering.inline.max.commits"]
    assert table.cluster(options=given | {"hoodie.layout.optimize.strategy": "hilbert"}).instant


def test_a_new_table_and_its_arguments(tmp_path: Path) -> None:
    said = {**GUIDE, GENERATOR: "org.apache.hudi.keygen.SimpleKeyGenerator"}
    made = HudiTable.create(tmp_path / "a", TRIPS, record_key="uuid", options=said)
    assert made.options.record_key == ("uuid",)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"record_key": ["ts"], "options": GUIDE}, r"record_key is \('ts',\), but options say"),
        ({"name": "x", "options": GUIDE}, "name is 'x', but options say 'trips'"),
        ({"options": {}}, "record_key is empty"),
        ({"options": {**GUIDE, GENERATOR: "x.NonpartitionedKeyGenerator"}}, "leave the option out"),
        ({"options": {**GUIDE, "hoodie.parquet.block.size": "x"}}, "give a whole number"),
        (
            {"options": {**GUIDE, "hoodie.datasource.write.precombine.field": "ts,city"}},
            r"\('ts', 'city'\) are ordering columns; give one",
        ),
    ]
    for arguments, message in wrong:
        with pytest.raises(ValueError, match=message):
            HudiTable.create(tmp_path / "b", TRIPS, **arguments)
    with pytest.raises(TypeError, match="options is list; give WriteOptions, or a dict"):
        made.upsert(TRIPS, options=["hoodie.index.type"])  # type: ignore[arg-type]
    assert not (tmp_path / "b").exists()
