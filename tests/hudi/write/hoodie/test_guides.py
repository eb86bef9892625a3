"""The options of public guides: how many are taken, and which are refused.

Each pair was read in the guide, or in a public copy of its code. Where a guide names an option
without a value, it is the default of Hudi.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lookupstore.hudi.write.hoodie.given import said_in
from lookupstore.hudi.write.hoodie.known import option_of

PAGE = Path(__file__).parents[4] / "docs" / "contributing" / "hudi-options-of-guides.md"
SITE = "https://hudi.apache.org/docs/1.1.1"
WRITE = "hoodie.datasource.write."
SYNC = "hoodie.datasource.hive_sync."
READ = "hoodie.datasource.read."
LOCK = "hoodie.write.lock."
PLAN = "hoodie.clustering.plan.strategy."
LOCKS = "org.apache.hudi.client.transaction.lock."
CLUSTERING = "org.apache.hudi.client.clustering."
EXTRACTOR = "org.apache.hudi.hive.MultiPartKeysValueExtractor"


@dataclass(frozen=True)
class Guide:
    """One guide: what it gives writes and reads, and what of that is refused."""

    title: str
    url: str
    writes: list[tuple[str, str]]
    reads: list[tuple[str, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


GUIDES = [
    Guide(
        "Hudi, Spark quick start",
        f"{SITE}/quick-start-guide",
        [
            ("hoodie.table.name", "trips_table"),
            (f"{WRITE}partitionpath.field", "city"),
            (f"{WRITE}recordkey.field", "uuid"),
            (f"{WRITE}operation", "upsert"),
            (f"{WRITE}operation", "delete"),
            ("hoodie.write.record.merge.mode", "COMMIT_TIME_ORDERING"),
            ("hoodie.table.ordering.fields", "ts"),
            ("hoodie.spark.sql.insert.into.operation", "bulk_insert"),
            (f"{LOCK}provider", f"{LOCKS}InProcessLockProvider"),
            ("hoodie.metadata.record.index.enable", "true"),
            ("hoodie.metadata.record.index.enable", "false"),
            ("hoodie.table.cdc.enabled", "true"),
            (f"{WRITE}table.type", "MERGE_ON_READ"),
        ],
        [
            ("hoodie.datasource.query.type", "incremental"),
            (f"{READ}begin.instanttime", "0"),
            ("hoodie.datasource.query.incremental.format", "cdc"),
        ],
        [
            "hoodie.metadata.record.index.enable=true",
            "hoodie.table.cdc.enabled=true",
            f"{WRITE}table.type=MERGE_ON_READ",
            "hoodie.datasource.query.incremental.format=cdc",
        ],
    ),
    Guide(
        "Hudi, performance",
        f"{SITE}/performance",
        [
            (f"{WRITE}operation", "BULK_INSERT"),
            ("hoodie.populate.meta.fields", "false"),
            ("hoodie.metadata.enable", "false"),
            ("hoodie.metadata.enable", "true"),
            ("hoodie.metadata.index.column.stats.enable", "true"),
            ("hoodie.parquet.compression.codec", "snappy"),
            ("hoodie.sql.insert.mode", "non-strict"),
            ("hoodie.sql.bulk.insert.enable", "true"),
            ("hoodie.parquet.small.file.limit", "104857600"),
            ("hoodie.parquet.max.file.size", "125829120"),
            ("hoodie.parquet.compression.ratio", "0.1"),
            ("hoodie.logfile.max.size", "1073741824"),
            ("hoodie.cleaner.commits.retained", "10"),
            ("hoodie.bulkinsert.shuffle.parallelism", "200"),
            ("hoodie.index.type", "BLOOM"),
            ("hoodie.parquet.bloom.filter.enabled", "true"),
        ],
        [
            ("hoodie.enable.data.skipping", "true"),
            ("hoodie.metadata.enable", "true"),
            ("hoodie.metadata.index.column.stats.enable", "true"),
        ],
        ["hoodie.populate.meta.fields=false", "hoodie.metadata.index.column.stats.enable=true"],
    ),
    Guide(
        "Hudi, concurrency control",
        f"{SITE}/concurrency_control",
        [
            ("hoodie.table.name", "trips"),
            ("hoodie.table.ordering.fields", "ts"),
            (f"{WRITE}recordkey.field", "uuid"),
            (f"{WRITE}partitionpath.field", "partitionpath"),
            ("hoodie.write.concurrency.mode", "optimistic_concurrency_control"),
            ("hoodie.write.concurrency.mode", "single_writer"),
            ("hoodie.cleaner.policy.failed.writes", "LAZY"),
            ("hoodie.cleaner.policy.failed.writes", "EAGER"),
            ("hoodie.write.concurrency.early.conflict.detection.enable", "true"),
            (f"{LOCK}provider", f"{LOCKS}FileSystemBasedLockProvider"),
            (f"{LOCK}filesystem.expire", "10"),
            (f"{LOCK}storage.validity.timeout.secs", "300"),
            (f"{LOCK}storage.renew.interval.secs", "30"),
            (f"{LOCK}wait_time_ms", "60000"),
            (f"{LOCK}num_retries", "15"),
            (f"{LOCK}client.wait_time_ms", "10000"),
            (f"{LOCK}client.num_retries", "50"),
            (f"{WRITE}insert.drop.duplicates", "true"),
            ("hoodie.combine.before.insert", "true"),
            ("hoodie.aws.access.key", "key"),
            ("hoodie.aws.secret.key", "secret"),
            ("hoodie.aws.session.token", "token"),
            (f"{LOCK}provider", f"{LOCKS}ZookeeperBasedLockProvider"),
            (f"{LOCK}zookeeper.url", "zookeeper"),
            (f"{LOCK}zookeeper.port", "2181"),
            (f"{LOCK}zookeeper.base_path", "/test"),
            (f"{LOCK}hivemetastore.database", "default"),
            (f"{LOCK}hivemetastore.table", "trips"),
            (f"{LOCK}dynamodb.endpoint_url", "http://localhost:8000"),
        ],
        refused=[
            f"{LOCK}provider={LOCKS}ZookeeperBasedLockProvider",
            f"{LOCK}zookeeper.url=zookeeper",
            f"{LOCK}zookeeper.port=2181",
            f"{LOCK}zookeeper.base_path=/test",
            f"{LOCK}hivemetastore.database=default",
            f"{LOCK}hivemetastore.table=trips",
            f"{LOCK}dynamodb.endpoint_url=http://localhost:8000",
        ],
    ),
    Guide(
        "Amazon EMR, work with a Hudi dataset",
        "https://docs.aws.amazon.com/emr/latest/ReleaseGuide/emr-hudi-work-with-dataset.html",
        [
            ("hoodie.table.name", "my_hudi_table"),
            (f"{WRITE}table.type", "COPY_ON_WRITE"),
            (f"{WRITE}recordkey.field", "id"),
            (f"{WRITE}partitionpath.field", "creation_date"),
            (f"{WRITE}precombine.field", "last_update_time"),
            (f"{WRITE}operation", "insert"),
            (f"{WRITE}operation", "upsert"),
            (f"{SYNC}enable", "true"),
            (f"{SYNC}table", "my_hudi_table"),
            (f"{SYNC}partition_fields", "creation_date"),
            (f"{SYNC}partition_extractor_class", EXTRACTOR),
            (f"{WRITE}payload.class", "org.apache.hudi.common.model.EmptyHoodieRecordPayload"),
        ],
        [
            ("hoodie.datasource.query.type", "incremental"),
            (f"{READ}begin.instanttime", "20200101000000000"),
        ],
        [
            f"{SYNC}enable=true",
            f"{WRITE}payload.class=org.apache.hudi.common.model.EmptyHoodieRecordPayload",
        ],
    ),
    Guide(
        "AWS Glue, use the Hudi framework",
        "https://docs.aws.amazon.com/glue/latest/dg/aws-glue-programming-etl-format-hudi.html",
        [
            ("hoodie.table.name", "t"),
            (f"{WRITE}storage.type", "COPY_ON_WRITE"),
            (f"{WRITE}operation", "upsert"),
            (f"{WRITE}recordkey.field", "id"),
            (f"{WRITE}precombine.field", "ts"),
            (f"{WRITE}partitionpath.field", "day"),
            (f"{WRITE}hive_style_partitioning", "true"),
            (f"{SYNC}enable", "true"),
            (f"{SYNC}database", "d"),
            (f"{SYNC}table", "t"),
            (f"{SYNC}partition_fields", "day"),
            (f"{SYNC}partition_extractor_class", EXTRACTOR),
            (f"{SYNC}use_jdbc", "false"),
            (f"{SYNC}mode", "hms"),
        ],
        refused=[f"{SYNC}enable=true"],
    ),
    Guide(
        "Open Telekom Cloud, clustering of Hudi",
        "https://docs.otc.t-systems.com/mapreduce-service/operation-guide-lts/using_hudi/"
        "basic_operations/hudi_configuration_reference/clustering_configuration.html",
        [
            ("hoodie.clustering.inline", "false"),
            ("hoodie.clustering.inline.max.commits", "4"),
            (f"{PLAN}target.file.max.bytes", "1073741824"),
            (f"{PLAN}small.file.limit", "314572800"),
            (f"{PLAN}sort.columns", "day"),
            ("hoodie.layout.optimize.strategy", "z-order"),
            ("hoodie.layout.optimize.enable", "true"),
            (f"{PLAN}class", f"{CLUSTERING}plan.strategy.SparkSizeBasedClusteringPlanStrategy"),
            (f"{PLAN}class", f"{CLUSTERING}plan.strategy.SparkSingleFileSortPlanStrategy"),
        ],
        refused=[f"{PLAN}class={CLUSTERING}plan.strategy.SparkSingleFileSortPlanStrategy"],
    ),
]


def is_taken(name: str, value: str, *, reads: bool) -> bool:
    assert option_of(name) is not None, name
    try:
        said_in({name: value}, reads=reads)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("guide", GUIDES, ids=lambda one: one.title)
def test_the_options_of_a_guide_are_taken_or_refused_by_value(guide: Guide) -> None:
    given = [(*pair, False) for pair in guide.writes] + [(*pair, True) for pair in guide.reads]
    refused = [
        f"{name}={value}" for name, value, reads in given if not is_taken(name, value, reads=reads)
    ]
    assert refused == guide.refused
    line = f"| [{guide.title}]({guide.url}) | {len(given)} | {len(given) - len(refused)} | "
    assert line in PAGE.read_text(), line
