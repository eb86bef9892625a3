"""The table of Hudi's options: what guides give is taken, by value, or refused with a remedy."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lookupstore.hudi import HudiTable, TableServices, WriteOptions
from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.write.hoodie import given
from lookupstore.hudi.write.hoodie.known import all_options, nearest, option_of
from lookupstore.hudi.write.hoodie.meaning import given_options
from lookupstore.hudi.write.hoodie.option import OptionPart
from lookupstore.hudi.write.partitioner import FileSizing

DOCS = Path(__file__).parents[4] / "docs"
ROWS = pa.table({"id": [1, 2], "day": ["mo", "tu"], "ts": pa.array([1, 2], pa.int64())})
LOCKS = "org.apache.hudi.client.transaction.lock."
# With what they say in guides; all of these were refused once.
OF_GUIDES = {
    "hoodie.layout.optimize.enable": "true",
    "hoodie.bloom.index.use.treebased.filter": "true",
    "hoodie.bloom.index.prune.by.ranges": "false",
    "hoodie.bloom.index.parallelism": "200",
    "hoodie.bloom.index.use.caching": True,
    "hoodie.bloom.index.bucketized.checking": "true",
    "hoodie.bloom.index.keys.per.bucket": 10000000,
    "hoodie.bloom.index.filter.type": "DYNAMIC_V0",
    "hoodie.index.bloom.num_entries": "60000",
    "hoodie.bloom.index.filter.dynamic.max.entries": "100000",
    "hoodie.index.class": "",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": f"{LOCKS}FileSystemBasedLockProvider",
    "hoodie.write.lock.wait_time_ms": "12000",
    "hoodie.write.lock.num_retries": 4,
    "hoodie.write.lock.wait_time_ms_between_retry": "2000",
    "hoodie.write.lock.client.num_retries": "10",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.auto.commit": "true",
    "hoodie.markers.delete.parallelism": "100",
    "hoodie.metrics.on": "true",
    "hoodie.metrics.reporter.type": "GRAPHITE",
    "hoodie.datasource.hive_sync.enable": "false",
    "hoodie.datasource.hive_sync.database": "default",
    "hoodie.datasource.hive_sync.partition_fields": "day",
    "hoodie.datasource.meta.sync.enable": False,
    "hoodie.datasource.query.type": "snapshot",
    "hoodie.datasource.read.begin.instanttime": "20260101000000000",
    "hoodie.enable.data.skipping": "true",
    "hoodie.datasource.write.row.writer.enable": "true",
    "hoodie.datasource.write.payload.class":
    "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    "hoodie.memory.merge.max.size": "1073741824",
    "hoodie.compact.inline": "false",
    "hoodie.embed.timeline.server": "false",
}  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> HudiTable:
    return HudiTable.create(tmp_path / "t", ROWS, record_key="id", ordering="ts")


def test_what_guides_give_is_taken(table: HudiTable) -> None:
    assert given_options(OF_GUIDES, table.options, "UPSERT") == WriteOptions()
    assert table.upsert(ROWS, options=OF_GUIDES).rows_inserted == 2


REFUSED: dict[str, tuple[str, Any, str]] = {
    "hive": ("hoodie.datasource.hive_sync.enable", "true",
             "is 'true'; supported: false; run Hudi's HiveSyncTool"),
    "meta sync": ("hoodie.datasource.meta.sync.enable", True, "supported: false; run"),
    "bucket": ("hoodie.index.type", "BUCKET", "BLOOM finds the same keys"),
    "record index": ("hoodie.index.type", "RECORD_INDEX", "GLOBAL_BLOOM finds the same keys"),
    "class": ("hoodie.index.class", "a.B", "supported: no value; pass WriteOptions.index="),
    "payload": ("hoodie.datasource.write.payload.class",
                "org.apache.hudi.common.model.PartialUpdateAvroPayload", "missing='keep'"),
    "merge on read": ("hoodie.write.concurrency.mode", "NON_BLOCKING_CONCURRENCY_CONTROL",
                      "supported: optimistic_concurrency_control or single_writer"),
    "lock": ("hoodie.write.lock.provider", f"{LOCKS}ZookeeperBasedLockProvider",
             "FileSystemBasedLockProvider or .*hold it yourself .* pass lock='external'"),
    "zookeeper": ("hoodie.write.lock.zookeeper.url", "zk", "is not supported: .*lock='external'"),
    "lock folder": ("hoodie.write.lock.filesystem.path", "/elsewhere", "give the folder .hoodie"),
    "lease": ("hoodie.write.lock.storage.renew.interval.secs", 60, "at most 30"),
    "never": ("hoodie.cleaner.policy.failed.writes", "NEVER", "supported: lazy or eager"),
    "commit": ("hoodie.auto.commit", "false", "supported: true; leave it out: a call that"),
    "filter": ("hoodie.bloom.index.filter.type", "SIMPLE", "supported: dynamic_v0"),
    "cdc": ("hoodie.table.cdc.enabled", "true", r"read changes with changes\(\)"),
    "sort": ("hoodie.bulkinsert.sort.mode", "PARTITION_PATH_REPARTITION", "GLOBAL_SORT"),
    "lz4": ("hoodie.parquet.compression.codec", "LZ4", "lz4_raw is the standard one"),
    "async": ("hoodie.clean.async", "true", r"call clean\(\) in a process of its own"),
    "record": ("hoodie.metadata.record.index.enable", "true", "hoodie.index.type=GLOBAL_BLOOM"),
    "schema": ("hoodie.write.schema", "{}", "cast rows before you write them"),
    "None": ("hoodie.index.type", None, "is None; give a value, or leave the option out"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_value_that_asks_for_something_else_is_refused(table: HudiTable, what: str) -> None:
    name, value, message = REFUSED[what]
    with pytest.raises(ValueError, match=f"^options: {name}.*{message}"):
        table.upsert(ROWS, options={name: value})
    assert table.timeline() == []


def test_values_that_mean_something(table: HudiTable) -> None:
    known: list[tuple[dict[str, Any], WriteOptions]] = [
        ({"hoodie.datasource.write.reconcile.schema": "true"}, WriteOptions(missing="null")),
        (
            {"hoodie.table.services.enabled": "false", "hoodie.clean.automatic": "true"},
            WriteOptions(services=TableServices()),
        ),
        (
            {"hoodie.parquet.compression.codec": "LZ4_RAW"},
            WriteOptions(format=FileFormat(compression="lz4")),
        ),
    ]
    for options, wanted in known:
        assert given_options(options, table.options, "UPSERT") == wanted
    latest = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
    with pytest.raises(ValueError, match="the table has 'EVENT_TIME_ORDERING'"):
        table.upsert(ROWS, options={"hoodie.datasource.write.payload.class": latest})


def test_a_payload_class_makes_the_merge_mode(tmp_path: Path) -> None:
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.payload.class":
        "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
        "hoodie.datasource.write.keygenerator.class":
        "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.table.timeline.timezone": "utc",
    }  # fmt: skip
    made = HudiTable.create(tmp_path / "t", ROWS, options=options)
    assert made.options.merge_mode == "COMMIT_TIME_ORDERING"
    assert made.upsert(ROWS, options=options).rows_inserted == 2
    local = {**options, "hoodie.table.timeline.timezone": "LOCAL"}
    with pytest.raises(ValueError, match="is 'LOCAL'; new tables have UTC; leave it out"):
        HudiTable.create(tmp_path / "u", ROWS, options=local)


def test_what_there_is_nothing_to_do_for_is_logged_once(
    table: HudiTable, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given, "_logged", set())
    caplog.set_level(logging.INFO, logger=given.__name__)
    both = {"hoodie.metrics.on": "true", "hoodie.bloom.index.parallelism": 3}
    for options in (both, both, {"hoodie.metrics.on": "true"}, {"hoodie.auto.commit": "true"}):
        given_options(options, table.options, "UPSERT")
    told = [one.getMessage() for one in caplog.records]
    assert len(told) == 2
    assert "options hoodie.bloom.index.parallelism, hoodie.metrics.on:" in told[0]
    assert "options hoodie.metrics.on:" in told[1]


def test_the_nearest_name_is_proposed_if_it_is_near(table: HudiTable) -> None:
    slips = {
        "hoodie.parquet.max.filesize": "hoodie.parquet.max.file.size",
        "hoodie.cleaner.commit.retained": "hoodie.cleaner.commits.retained",
        "hoodie.datasource.write.recordkey.fields": "hoodie.datasource.write.recordkey.field",
        "hoodie.upsert.parallelism": "hoodie.upsert.shuffle.parallelism",
        "hoodie.upsert.speed": None,
        "hoodie.table.speed": None,
        "hoodie.index.type.of.mine": None,
    }
    assert {name: nearest(name) for name in slips} == slips
    with pytest.raises(ValueError, match=r"'hoodie\.table\.speed'; leave it out$"):
        table.upsert(ROWS, options={"hoodie.table.speed": 7})


def test_each_option_is_described_once_and_is_a_field_of_ours() -> None:
    fields = {
        OptionPart.WRITE: {one.name for one in dataclasses.fields(WriteOptions)},
        OptionPart.SIZING: {one.name for one in dataclasses.fields(FileSizing)},
        OptionPart.FORMAT: {one.name for one in dataclasses.fields(FileFormat)},
        OptionPart.TABLE: {*inspect.signature(HudiTable.create).parameters, "timezone"},
        OptionPart.LAYOUT: set(inspect.signature(HudiTable.cluster).parameters),
    }
    names = [name.lower() for one in all_options() for name in one.names]
    assert len(names) == len(set(names))
    for one in all_options():
        assert one.here
        assert one.only is None or one.instead, one.names
        assert one.part not in fields or one.field in fields[one.part], one.names
        assert all(option_of(name.upper()) is one for name in one.names)


def test_what_our_page_recommends_for_java_is_taken(table: HudiTable) -> None:
    text = (DOCS / "how-to" / "hudi-with-java-writers.md").read_text()
    found = re.findall(r"^#?(hoodie[\w.]+)=([\w.]+)$", text, flags=re.MULTILINE)
    assert len(found) == 9
    for name, value in found:
        given_options({name: value}, table.options, "UPSERT")
