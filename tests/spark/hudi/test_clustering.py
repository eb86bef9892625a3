"""Clustering by Spark: what it does to a table is what it does in one process.

The oracles are the rows that Spark SQL reads of the files, hudi-rs, and the local verb on a copy.
Executors are processes of their own.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from statistics import mean
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql import SparkSession
from support.hudi.oracle import other_scan
from support.hudi.spark_rows import local_rows, make
from support.hudi.written import check_files

from lookupstore.errors import CommitConflictError, CorruptionError
from lookupstore.hudi import HudiTable, State, WriteOptions
from lookupstore.hudi.clustering import ClusterFiles
from lookupstore.hudi.options import SORT_COLUMNS
from lookupstore.hudi.timeline.work_files import STAGED, staging_folder
from lookupstore.hudi.write.partitioner import FileSizing
from lookupstore.hudi.write.staged_files import name_staged_files
from lookupstore.spark import cluster_table
from lookupstore.spark.hudi import clustering as hudi_clustering
from lookupstore.spark.hudi import files as hudi_files
from lookupstore.storage.location import Location

pytestmark = [
    pytest.mark.spark,
    # PySpark 4.0 leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
# Executors cannot import this module: what they run of it is sent to them.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "day": pa.string(),
        "a": pa.int32(),
        "b": pa.float64(),
        "price": pa.decimal128(15, 2),
        "ms": pa.timestamp("ms", "UTC"),
        "fixed": pa.binary(2),
        "many": pa.list_(pa.float32()),
        "pair": pa.struct({"x": pa.int64(), "y": pa.string()}),
    }
)
NAME = "_hoodie_file_name"
SMALL = WriteOptions(sizing=FileSizing(max_file_size=20_000, small_file_limit=0))


def some(ids: range, rng: random.Random) -> pa.Table:
    nothing = [None, float("nan"), -0.0]
    rows = [
        (
            id, "ab"[id % 2], rng.choice([None, *[rng.randrange(-500, 500)] * 9]),
            rng.choice([*nothing, *[rng.gauss(0, 100)] * 9]), Decimal(id) / 4,
            datetime(2026, 1, 1 + id % 9, tzinfo=timezone.utc), b"%02d" % (id % 90),
            rng.choice([None, [], [1.5, None]]), rng.choice([None, {"x": id, "y": "é"}]),
        )
        for id in ids
    ]  # fmt: skip
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def made(path: Path, rng: random.Random, version: int = 9) -> HudiTable:
    """Make a table of several files, some of whose rows were changed, or are of others."""
    table = HudiTable.create(
        path, SCHEMA, record_key="id", partition_by="day", version=version, name="t"
    )
    for at in range(3):
        table.bulk_insert(some(range(at * 600, at * 600 + 600), rng), options=SMALL)
    table.upsert(some(range(500, 700), rng), options=SMALL)
    table.collect_statistics()
    return table


def by_sql(spark: SparkSession, path: Path) -> Counter[str]:
    """Return the rows that Spark SQL reads of the current files, but for the names of these."""
    files = [str(path / one.current.path) for one in HudiTable.open(path).file_groups()]
    rows = spark.read.parquet(*files).drop(NAME).collect()
    return Counter(repr(row) for row in rows)  # NaN equals itself so


def check(path: Path) -> None:
    """Check all that there is: files, statistics, what is left, and the other reader."""
    check_files(path)
    table = HudiTable.open(path)
    assert table.verify().findings == ()
    ours, theirs = table.scan(), other_scan(path)
    assert ours.column_names == theirs.column_names
    assert sorted(map(repr, ours.to_pylist())) == sorted(map(repr, theirs.to_pylist()))


def files_read(table: HudiTable, rng: random.Random) -> dict[str, float]:
    """Return how many files queries read, in the mean: some by each column, and by both."""
    parts = [(rng.randrange(-500, 500), rng.gauss(0, 100)) for _ in range(40)]
    asked = {
        "a": [pc.field("a").isin(pa.array([a], pa.int32())) for a, _ in parts],
        "b": [(pc.field("b") > b) & (pc.field("b") < b + 5) for _, b in parts],
        "both": [
            (pc.field("a") > a) & (pc.field("a") < a + 100) & (pc.field("b") > b)
            & (pc.field("b") < b + 20)
            for a, b in parts
        ],
    }  # fmt: skip
    return {
        name: mean(table.explain_scan(one).statistics.count for one in every)
        for name, every in asked.items()
    }


@pytest.mark.few(1)
@pytest.mark.parametrize(("version", "curve"), [(6, "hilbert"), (9, "grid")])
def test_a_table_is_as_after_a_local_clustering(
    spark: SparkSession, tmp_path: Path, version: int, curve: Any, seed: int
) -> None:
    rng = random.Random(seed)
    path = tmp_path / "t"
    table = made(path, rng, version)
    local = HudiTable.open(shutil.copytree(path, tmp_path / "local"))
    before, theirs = by_sql(spark, path), other_scan(path)
    position = table.timeline()[-1].position
    asked: dict[str, Any] = {"curve": curve, "target_file_size": 9_000}
    unchanged = len(table.file_groups())
    tried = cluster_table(spark, path, ["a", "b"], **asked, dry_run=True)
    assert tried == local.cluster(["a", "b"], **asked, dry_run=True)
    assert len(table.file_groups()) == unchanged
    done = cluster_table(spark, path, ["a", "b"], **asked)
    expected = local.cluster(["a", "b"], **asked)
    assert done.instant == table.timeline()[-1]
    assert set(done.seconds) == {"plan", "sample", "write", "commit"}
    written = {"instant": None, "bytes_after": 0, "bytes_spilled": 0}
    assert replace(done, **written) == replace(expected, **written)
    assert done.bytes_after == sum(one.current.bytes for one in table.file_groups())
    assert (done.partitions, done.rows) == (2, 1800)
    assert done.files_after > 8
    # The same rows, with all that they say of themselves.
    assert by_sql(spark, path) == before
    assert other_scan(path).num_rows == theirs.num_rows
    assert table.scan().schema == local.scan().schema
    assert table.incremental(position).num_rows == 0
    check(path)
    # Files are skipped by statistics that nobody had to collect.
    for one in (table, local):
        assert one.explain_scan("a > 1000000").statistics.count == 0
    # In files of one size, which queries skip as well.
    counts = [pq.read_metadata(path / one.current.path).num_rows for one in table.file_groups()]
    assert max(counts) <= 1.5 * min(counts)
    of = {name: files_read(one, random.Random(seed)) for name, one in (("", table), ("l", local))}
    for name, files in of[""].items():
        assert files <= 1.25 * of["l"][name] + 0.5 < done.files_after, of
    # What is in order stays.
    assert cluster_table(spark, path, ["a", "b"], **asked).instant is None
    commit, theirs_of_it = (
        one.view().commit(one.timeline()[-1]) for one in (HudiTable.open(path), local)
    )
    assert commit.operation == theirs_of_it.operation == "CLUSTER"
    assert commit.replaced == theirs_of_it.replaced
    assert commit.schema == theirs_of_it.schema
    # What comes next, comes as ever.
    table.upsert(some(range(1700, 1900), rng))
    assert table.scan().num_rows == 1900
    check(path)


def test_some_partitions_and_a_value_of_many_files(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(path)
    rows = [(n, "ab"[n % 2], float(n % 50) if n % 16 < 3 else 7.0, "x") for n in range(4000)]
    table.bulk_insert(local_rows(rows))
    before = {one.id for one in table.file_groups() if one.id.partition == "a"}
    done = cluster_table(spark, path, "ts", target_file_size=8_000, where=pc.field("day") == "b")
    assert (done.partitions, done.rows, done.files_unchanged) == (1, 2000, 1)
    assert before < {one.id for one in table.file_groups()}
    now = [one.current for one in table.file_groups() if one.id.partition == "b"]
    counts = []
    for one in now:
        stored = pq.read_table(path / one.path, columns=["ts", "id"], partitioning=None)
        rows_of_it = list(zip(stored["ts"].to_pylist(), stored["id"].to_pylist(), strict=True))
        # Of equal values the first comes first.
        assert rows_of_it == sorted(rows_of_it)
        counts.append(len(rows_of_it))
    assert len(counts) == done.files_after > 5
    assert max(counts) <= 1.3 * min(counts)
    assert sorted(table.scan()["id"].to_pylist()) == list(range(4000))
    check(path)


class Faults:
    """Faults of first attempts of tasks, after their files are written."""

    def __init__(self, folder: Path, kind: str) -> None:
        folder.mkdir()
        self._folder = str(folder)
        self._kind = kind

    def __call__(self, task: Any, coming: Any, batches: Any) -> Iterator[pa.RecordBatch]:
        from lookupstore.spark.hudi.clustering import write_ordered

        context = TaskContext.get()
        assert context is not None
        written = list(write_ordered(task, coming, batches))
        yield from written[1:]
        number = context.partitionId()
        with open(f"{self._folder}/{number}-{context.taskAttemptId()}", "x"):
            pass
        first = sum(name.startswith(f"{number}-") for name in os.listdir(self._folder)) == 1
        if first and self._kind == "fails":
            raise RuntimeError("a task fails for a test")
        if first and self._kind == "dies" and number == 2:
            daemon = psutil.Process().parent()
            assert daemon is not None
            os.kill(daemon.ppid(), signal.SIGKILL)
        yield from written[:1]

    def attempts(self) -> Counter[str]:
        return Counter(name.partition("-")[0] for name in os.listdir(self._folder))


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["fails", "dies"])
def test_attempts_that_wrote_their_files_and_went_wrong(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, seed: int
) -> None:
    """An executor that is killed takes what it has of the shuffle with it, too."""
    path = tmp_path / "t"
    table = made(path, random.Random(seed))
    before = by_sql(spark, path)
    faults = Faults(tmp_path / "faults", kind)
    monkeypatch.setattr(hudi_clustering, "write_ordered", faults)
    staged: list[set[str]] = []

    def name_and_note(location: Location, time: str, files: Mapping[str, bool]) -> None:
        found = location.files(staging_folder(time), recursive=True)
        staged.append({one.name.rpartition("/")[2] for one in found})
        name_staged_files(location, time, files)

    monkeypatch.setattr(hudi_files, "name_staged_files", name_and_note)
    done = cluster_table(spark, path, ["a", "b"], target_file_size=15_000)
    assert done.instant is not None
    groups = table.file_groups()
    assert len(groups) == done.files_after == len(faults.attempts()) > 4
    assert sum(faults.attempts().values()) > len(groups)
    # More files than groups were written, and one of each is there.
    assert len(staged[0]) > len(groups)
    named = list(path.rglob(f"*_{done.instant.time}.parquet"))
    assert {one.name.partition("_")[0] for one in named} == {one.id.file_id for one in groups}
    assert len(named) == len(groups)
    assert not list(path.glob(f"{STAGED}/*"))
    assert by_sql(spark, path) == before
    check(path)


def test_others_meanwhile(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    path = tmp_path / "t"
    rng = random.Random(seed)
    table = made(path, rng)
    before = without_files(table)
    new = some(range(5000, 5010), rng)

    def name_and_meet(location: Location, time: str, files: Mapping[str, bool]) -> None:
        (pending,) = [one for one in table.timeline() if not one.is_completed]
        assert (pending.time, pending.state) == (time, State.INFLIGHT)
        with pytest.raises(CommitConflictError, match=f"clustering.*{time}|{time}.*clustering"):
            table.upsert(some(range(3), rng))
        table.insert(new)
        name_staged_files(location, time, files)

    with monkeypatch.context() as patched:
        patched.setattr(hudi_files, "name_staged_files", name_and_meet)
        done = cluster_table(spark, table, "a")
    assert done.rows == 1800
    assert without_files(table, pc.field("id") < 5000) == before
    assert table.scan().num_rows == 1810
    check(path)

    # Rows that are not those of the footers: nothing is lost, and nothing is committed.
    class Short(ClusterFiles):
        def batches(self, file: Any) -> Iterator[pa.RecordBatch]:
            for batch in super().batches(file):
                yield batch.slice(1)

    instants = [one for one in table.timeline() if one.is_write]
    monkeypatch.setattr(hudi_clustering, "ClusterFiles", Short)
    with pytest.raises(CorruptionError, match="rows, as footers say"):
        cluster_table(spark, table, "b")
    assert [one for one in table.timeline() if one.is_write] == instants
    assert not list(path.glob(f"{STAGED}/*"))
    assert table.scan().num_rows == 1810
    check(path)


def without_files(table: HudiTable, where: Any = None) -> list[str]:
    """Return all that rows say of themselves, in one order."""
    rows = table.scan(filter=where).drop_columns([NAME]).to_pylist()
    return sorted(map(repr, rows))


def test_errors(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(path)
    table.bulk_insert(local_rows([(n, "a", float(n), "x") for n in range(50)]))
    before = table.timeline()
    refused: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"by": "no"}, KeyError, "no column 'no'; it has 'id', 'day', 'ts', 'value'"),
        ({"by": "ts", "partitions": "z"}, KeyError, "no partition 'z'; it has 'a'"),
        ({}, ValueError, "give the columns to order rows by"),
        ({"by": "ts", "where": pc.field("ts") > 1}, ValueError, "give a filter on"),
        ({"by": "ts", "where": "ts > 1"}, ValueError, "'ts' is not a partition column"),
        ({"by": "ts", "where": "day = 'a'", "partitions": "z"}, KeyError, "no partition 'z'"),
    ]
    for arguments, kind, text in refused:
        for dry_run in (True, False):
            with pytest.raises(kind, match=text):
                cluster_table(spark, path, **arguments, dry_run=dry_run)
    assert table.timeline() == before
    # What a worker finds is raised as what it is.
    (group,) = table.file_groups()
    damaged = path / group.current.path
    content = damaged.read_bytes()
    damaged.write_bytes(content[: len(content) // 2])
    with pytest.raises(CorruptionError) as error:
        cluster_table(spark, path, "ts")
    assert error.value.path.endswith(group.current.name)
    damaged.write_bytes(content)
    named = {SORT_COLUMNS: "ts,id"}
    assert cluster_table(spark, path, options=named).files_after == 1
    check(path)
