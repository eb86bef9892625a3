"""Writes to Hudi tables from Spark: the same as in one process, also where tasks fail or run twice.

The oracles are a dict, hudi-rs, and the local upsert of the same rows.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from support.hudi import time_tables
from support.hudi.oracle import assert_same_rows, other_scan
from support.hudi.spark_rows import (
    COLUMNS,
    SCHEMA,
    Row,
    check,
    commits,
    instants,
    keys_by_file,
    local_rows,
    make,
    numbers,
    spark_rows,
    values,
)
from support.object_store import writable_object_store

from lookupstore.errors import CommitConflictError, CorruptionError
from lookupstore.hudi import HudiTable, State, TableServices, WriteOptions
from lookupstore.hudi.index.bloom import BloomIndex
from lookupstore.hudi.timeline.work_files import staging_folder
from lookupstore.hudi.view import read_view
from lookupstore.hudi.write.partitioner import FileSizing
from lookupstore.hudi.write.staged_files import name_staged_files
from lookupstore.spark import hudi_sink, tag_location, upsert
from lookupstore.spark.hudi import files as hudi_files
from lookupstore.spark.hudi import write as hudi_write
from lookupstore.spark.hudi.stream import CHECKPOINT, committed_batch
from lookupstore.storage.location import Location

pytestmark = [
    pytest.mark.spark,
    # PySpark 4.0 leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
# Executors cannot import this module: what they run of it is sent to them.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def model_upsert(
    model: dict[tuple[int, str], tuple[float, str]],
    rows: Sequence[Row],
    *,
    version: int,
    event_time: bool,
) -> None:
    """Do what an upsert to a table with an ordering column does, one row after the other."""
    winners: dict[tuple[int, str], Row] = {}
    for row in rows:
        other = winners.get(row[:2])
        if other is not None and (event_time or version == 6):
            is_newer = row[2] > other[2] if version == 6 else row[2] >= other[2]
            if not is_newer:
                continue
        winners[row[:2]] = row
    for key, row in winners.items():
        if event_time and key in model and model[key][0] > row[2]:
            continue
        if row[4]:
            model.pop(key, None)
        else:
            model[key] = row[2], row[3]


BY_COMMIT = {"ordering": "ts", "merge_mode": "COMMIT_TIME_ORDERING"}
CASES = [
    (9, {"ordering": "ts", "hive_style": True}),
    (8, {"partition_by": [], "record_key": ["id", "day"], **BY_COMMIT}),
    (6, {"ordering": "ts"}),
    (6, BY_COMMIT),  # which compares rows of a batch, and not those that are stored
]


@pytest.mark.few(2)
@pytest.mark.parametrize(("version", "arguments"), CASES)
def test_a_table_is_as_after_a_local_upsert(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    arguments: dict[str, Any],
    seed: int,
) -> None:
    by_event = "merge_mode" not in arguments
    if version == 6 and by_event:  # as before Spark 4.1
        for kind in type(spark.range(1)).__mro__:
            if "repartitionById" in vars(kind):
                monkeypatch.delattr(kind, "repartitionById")
    rng = random.Random(seed)
    ours = tmp_path / "spark"
    table = make(ours, version=version, **arguments)
    model: dict[tuple[int, str], tuple[float, str]] = {}
    # Files that are full soon: inserts go to small ones, and to several new ones.
    sizing = FileSizing(max_file_size=24_000, small_file_limit=18_000, record_size=100)
    options = WriteOptions(sizing=sizing, extra_metadata={"who": "me"})
    for step in range(2):
        rows = [
            (rng.randrange(900), rng.choice("ab"), float(rng.randrange(5)), f"{step}-{n}",
             rng.random() < 0.2)
            for n in range(700)
        ]  # fmt: skip
        model_upsert(model, rows, version=version, event_time=by_event)
        # Of the same files: by their ids and bytes it is decided how many rows go to each.
        local = tmp_path / f"local-{step}"
        shutil.copytree(ours, local)
        done = upsert(spark_rows(spark, rows), ours, options=options)
        expected = HudiTable.open(local).upsert(local_rows(rows), options=options)
        assert values(ours) == values(local) == model
        assert (done.rows_inserted, done.rows_updated, done.rows_deleted, done.rows_written) == (
            expected.rows_inserted, expected.rows_updated, expected.rows_deleted,
            expected.rows_written,
        )  # fmt: skip
        assert (done.files_new, len(done.files_rewritten)) == (
            expected.files_new, len(expected.files_rewritten),
        )  # fmt: skip
        assert len(done.files_written) == done.files_new + len(done.files_rewritten)
        assert all((ours / one).is_file() for one in done.files_written)
        planned, written = commits(ours)[-1]
        local_plan, local_written = commits(local)[-1]
        assert numbers(planned) == numbers(local_plan)
        assert numbers(written) == numbers(local_written)
        assert (written.operation, written.schema) == ("UPSERT", local_written.schema)
        assert (written.extra_metadata or {})["who"] == "me"
        # The same rows, in the same order, in files of their own.
        assert keys_by_file(ours) == keys_by_file(local)
    assert done.instant == instants(ours)[-1]
    assert done.bytes_written == sum(
        one.current.bytes
        for one in table.file_groups()
        if one.current.time == instants(ours)[-1].time
    )
    assert set(done.seconds) == {"tag", "plan", "write", "commit"}
    check(ours)


def test_columns_of_all_kinds(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema(
        {
            "id": pa.int64(),
            "text": pa.string(),
            "yes": pa.bool_(),
            "small": pa.int8(),
            "price": pa.decimal128(15, 2),
            "day": pa.date32(),
            "at": pa.timestamp("us", "UTC"),
            "ms": pa.timestamp("ms", "UTC"),
            "raw": pa.binary(),
            "fixed": pa.binary(2),
            "many": pa.list_(pa.float32()),
            "by_name": pa.map_(pa.string(), pa.int32()),
            "pair": pa.struct({"x": pa.int64(), "y": pa.string()}),
        }
    )
    ddl = (
        "id long, text string, yes boolean, small tinyint, price decimal(15,2), day date, "
        "at timestamp, ms timestamp, raw binary, fixed binary, many array<float>, "
        "by_name map<string,int>, pair struct<x:long,y:string>"
    )
    moment = datetime(2024, 5, 1, 12, 30, 1, 250_000, timezone.utc)
    full = (
        1, "z", True, -3, Decimal("12.30"), date(2024, 5, 1), moment, moment, b"\0\1", b"ab",
        [1.5, None], {"k": None}, (5, "q"),
    )  # fmt: skip
    rows = [full, (2, *[None] * 12), (3, *full[1:])]
    ours, local = tmp_path / "spark", tmp_path / "local"
    for path in (ours, local):
        HudiTable.create(path, schema, record_key=["id"], name="t")
    df = spark.createDataFrame(rows, ddl)
    dicts = [dict(zip(schema.names, row, strict=True)) for row in rows]
    for one in dicts:
        one["pair"] = one["pair"] and dict(zip("xy", one["pair"], strict=True))
        one["by_name"] = one["by_name"] and list(one["by_name"].items())
    for _ in range(2):  # inserted, then merged
        upsert(df, ours)
        HudiTable.open(local).upsert(pa.Table.from_pylist(dicts, schema))
        found, expected = (HudiTable.open(one).scan(columns=schema.names) for one in (ours, local))
        assert found.schema == expected.schema
        for name in schema.names:
            assert found[name].to_pylist() == expected[name].to_pylist(), name
    check(ours)
    # Of a pandas frame with a null, Spark has floats.
    floats = df.selectExpr("id", "cast(small as double) as small").na.fill(float("nan"))
    upsert(floats, ours, missing="keep")
    found = HudiTable.open(ours).scan(columns=schema.names)
    assert found["small"].to_pylist() == expected["small"].to_pylist()
    halves = floats.withColumn("small", floats.small + 0.5)
    with pytest.raises(Exception, match=r"'small' has -2\.5, which int32 cannot hold; give whole"):
        upsert(halves, ours, missing="keep")
    evolved = df.select("id", "small").withColumnRenamed("small", "new")
    with pytest.raises(ValueError, match="the table has no column 'new'; to add it, pass options="):
        upsert(evolved, ours)
    upsert(evolved, ours, options=WriteOptions(evolve=True, missing="null"))
    assert HudiTable.open(ours).scan(columns=["new"])["new"].to_pylist() == [-3, None, -3]
    check(ours)


def test_what_follows_a_write(spark: SparkSession, tmp_path: Path) -> None:
    """The driver cleans and archives after the commit."""
    table = make(tmp_path / "t")
    services = TableServices(retain_versions=1, archive=True, min_commits=1, max_commits=1)
    options = WriteOptions(services=services)
    rows = spark.createDataFrame([(1, "a", 1.0, "x")], COLUMNS)
    first = upsert(rows, table, options=options)
    assert (first.cleans, first.archived) == ((), 0)
    second = upsert(rows, table, options=options)
    assert (len(second.cleans), second.archived, second.service_errors) == (1, 1, ())
    assert len(list((tmp_path / "t" / "a").glob("*.parquet"))) == 1
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))


def test_deletes(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    ours, local = tmp_path / "spark", tmp_path / "local"
    rows = [(n, rng.choice("abc"), float(n), "x") for n in range(300)]
    for path in (ours, local):
        make(path, ordering="ts").insert(local_rows(rows))
    # Keys of which nobody says the partition are looked for in all of them.
    for columns in ("id", "id, day"):
        keys = [(rng.randrange(400), rng.choice("abc")) for _ in range(60)]
        df = spark.createDataFrame(keys, "id int, day string").selectExpr(*columns.split(", "))
        done = upsert(df, ours, operation="delete")
        expected = HudiTable.open(local).delete(
            local_rows([(*key, 0.0, "") for key in keys]).select(columns.split(", "))
        )
        assert (done.rows_deleted, done.operation) == (expected.rows_deleted, "DELETE")
        assert done.rows_deleted > 0
        assert values(ours) == values(local)
        assert keys_by_file(ours) == keys_by_file(local)
        assert numbers(commits(ours)[-1][1]) == numbers(commits(local)[-1][1])
    anywhere = WriteOptions(index="global-bloom")
    gone = next(iter(values(ours)))
    df = spark.createDataFrame([(gone[0],)], "id int")
    assert upsert(df, ours, operation="delete", options=anywhere).rows_deleted == 1
    assert gone not in values(ours)
    check(ours)


@pytest.mark.few(1)
@pytest.mark.parametrize("version", [6, 9])
def test_inserts_as_in_one_process(
    spark: SparkSession, tmp_path: Path, version: int, seed: int
) -> None:
    """Rows of one key lie beside each other, and what is written to them later reaches each."""
    rng = random.Random(seed)
    paths = ours, local = tmp_path / "spark", tmp_path / "local"
    for path in paths:
        make(path, ordering="ts", version=version)
    filled, apart = FileSizing(), FileSizing(small_file_limit=0)
    steps: list[tuple[Any, WriteOptions]] = [
        ("insert", WriteOptions(sizing=filled)),
        ("insert", WriteOptions(sizing=apart)),
        ("insert", WriteOptions(sizing=filled, combine=True)),
        ("insert", WriteOptions(sizing=filled, duplicates="drop")),
        ("upsert", WriteOptions(sizing=filled)),
        ("delete", WriteOptions()),
    ]
    for step, (verb, options) in enumerate(steps):
        # Ordering values are different: of equal ones, which stays depends on the version.
        rows = [
            (rng.randrange(60), rng.choice("ab"), float(rng.randrange(99) * 1000 + n), f"{step}",
             rng.random() < 0.1)
            for n in range(8 if verb == "delete" else 50)
        ]  # fmt: skip
        done = upsert(spark_rows(spark, rows), ours, operation=verb, options=options)
        expected = getattr(HudiTable.open(local), verb)(local_rows(rows), options=options)
        assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (
            expected.rows_inserted, expected.rows_updated, expected.rows_deleted,
        ), verb  # fmt: skip
        both = [
            Counter(
                tuple(one.values())
                for one in HudiTable.open(path).scan(columns=SCHEMA.names).to_pylist()
            )
            for path in paths
        ]
        assert both[0] == both[1], verb
        assert_same_rows(HudiTable.open(ours).scan(), other_scan(ours))
    twice = spark_rows(spark, [(1, "a", 1.0, "x")] * 2, 1)
    upsert(twice, ours)
    with pytest.raises(ValueError, match=r"repeat the key '1', and would change a row .* twice"):
        upsert(twice, ours, options=WriteOptions(combine=False))


@pytest.mark.few(1)
@pytest.mark.parametrize("version", [6, 9])
def test_moves_as_in_one_process(
    spark: SparkSession, tmp_path: Path, version: int, seed: int
) -> None:
    """An index for all partitions: rows move to theirs, or stay where their keys are."""
    rng = random.Random(seed)
    paths = ours, local = tmp_path / "spark", tmp_path / "local"
    for path in paths:
        make(path, ordering="ts", version=version)
    for step in range(6):
        options = WriteOptions(
            index=rng.choice(["global-bloom", "global-simple"]),
            update_partition_path=step % 3 != 2,
            duplicates="drop" if step == 4 else "allow",
            sizing=FileSizing(small_file_limit=0),
        )
        # At first there are keys in several partitions.
        options = replace(options, index="bloom") if step == 0 else options
        verb: Any = "insert" if step == 4 else "upsert"
        rows = [
            (rng.randrange(60), rng.choice("abc"), float(rng.randrange(99) * 1000 + n), f"{step}",
             rng.random() < 0.1)
            for n in range(60)
        ]  # fmt: skip
        done = upsert(spark_rows(spark, rows), ours, operation=verb, options=options)
        expected = getattr(HudiTable.open(local), verb)(local_rows(rows), options=options)
        assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (
            expected.rows_inserted, expected.rows_updated, expected.rows_deleted,
        ), step  # fmt: skip
        assert values(ours) == values(local), step
        assert_same_rows(HudiTable.open(ours).scan(), other_scan(ours))
        check(ours)
    assert expected.rows_updated or expected.rows_inserted
    # Another writer inserts a key that is inserted here, into another partition.
    anywhere = WriteOptions(index="global-bloom", retries=0)

    def name_and_lose(location: Location, time: str, files: Mapping[str, bool]) -> None:
        name_staged_files(location, time, files)
        HudiTable.open(ours).insert(local_rows([(99, "b", 1.0, "other")]))

    df = spark_rows(spark, [(99, "a", 2.0, "mine")], 1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(hudi_files, "name_staged_files", name_and_lose)
        with pytest.raises(CommitConflictError, match="inserted keys that this write inserts"):
            upsert(df, ours, options=anywhere)
    assert upsert(df, ours, options=anywhere).rows_deleted == 1
    assert values(ours)[99, "a"] == (2.0, "mine")
    assert (99, "b") not in values(ours)


def test_folders_of_times(spark: SparkSession, tmp_path: Path) -> None:
    """Executors name folders as one process does."""
    schema = "id int, a string, t string, value string"
    for types in (False, True):
        paths = [tmp_path / f"{who} {types}" for who in ("spark", "local")]
        for path in paths:
            time_tables.made(path, 9, "texts", types=types)
        times = [time for time, _ in time_tables.CASES["texts"][2]]
        for index in ("bloom", "global-bloom"):
            given = [(at, "x", times[at % 3 - 1], index) for at in range(40)]
            done = upsert(
                spark.createDataFrame(given, schema), paths[0], options=WriteOptions(index=index)
            )
            expected = HudiTable.open(paths[1]).upsert(
                time_tables.rows(time_tables.TEXTS, *given), options=WriteOptions(index=index)
            )
            assert done.rows_inserted == expected.rows_inserted
            found = [
                HudiTable.open(path).scan(columns=["_hoodie_partition_path", "id", "t", "value"])
                for path in paths
            ]
            assert found[0].sort_by("id").to_pylist() == found[1].sort_by("id").to_pylist()
        assert HudiTable.open(paths[0]).verify().is_ok


def test_what_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(path, ordering="ts")
    df = spark_rows(spark, [(1, "a", 1.0, "x"), (2, "a", 1.0, "x")], 1)
    assert upsert(df, table, operation="insert").rows_inserted == 2
    before = table.timeline()
    null = spark_rows(spark, [(3, "a", 1.0, "x"), (None, "a", 1.0, "x")], 1)
    unordered = spark_rows(spark, [(3, "a", None, "x")], 1)
    bloom = WriteOptions(index=BloomIndex())
    refused: list[tuple[DataFrame, dict[str, Any], type[Exception], str]] = [
        (df, {"operation": "merge"}, ValueError, "operation is 'merge'; give one of 'upsert', "),
        (
            df,
            {"operation": "insert", "options": WriteOptions(duplicates="fail")},
            ValueError,
            "rows have keys .* such as '1', '2'; to change",
        ),
        (df, {"options": bloom}, TypeError, r"options\.index is BloomIndex.*; give a name"),
        (df, {"options": WriteOptions(index="no.Such")}, ValueError, "index is 'no.Such'; give"),
        (df.drop("id"), {}, ValueError, "rows have no column 'id', which is required"),
        (df.drop("id"), {"operation": "delete"}, ValueError, "keys have no column 'id'"),
        (df.selectExpr("*", "1 AS n"), {}, ValueError, "the table has no column 'n'"),
        (null, {}, ValueError, "a row has no record key: id is null or empty"),
        (unordered, {}, ValueError, "the ordering column 'ts' is null"),
    ]
    for rows, arguments, kind, text in refused:
        with pytest.raises(kind, match=text):
            upsert(rows, table, **arguments)
    assert table.timeline() == before
    (file,) = (one.current.path for one in table.file_groups())
    (path / file).write_bytes((path / file).read_bytes()[:-4] + b"PAR2")
    with pytest.raises(CorruptionError) as damaged:
        upsert(spark_rows(spark, [(1, "a", 1.0, "y")], 1), table)
    assert damaged.value.path == str(path / file)


def test_an_empty_dataframe_is_an_empty_commit(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    done = upsert(spark_rows(spark, []), table)
    assert (done.rows_written, done.files_new) == (0, 0)
    assert values(tmp_path / "t") == {}
    assert other_scan(tmp_path / "t") is None


class Faults:
    """Faults of attempts of tasks, after their files are written."""

    def __init__(self, folder: Path, kind: str) -> None:
        folder.mkdir()
        self._folder = str(folder)
        self._kind = kind

    def __call__(self, task: Any, batches: Any) -> Iterator[pa.RecordBatch]:
        from lookupstore.spark.hudi.files import write_files

        context = TaskContext.get()
        assert context is not None
        yield from (written := list(write_files(task, batches)))[1:]
        number = context.partitionId()
        with open(f"{self._folder}/{number}-{context.taskAttemptId()}", "x"):
            pass
        first = sum(name.startswith(f"{number}-") for name in os.listdir(self._folder)) == 1
        if first and self._kind == "fails":
            raise RuntimeError("a task fails for a test")
        if first and self._kind == "dies" and number == 0:
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
    rng = random.Random(seed)
    path = tmp_path / "t"
    make(path, ordering="ts").insert(local_rows([(n, "ab"[n % 2], 1.0, "x") for n in range(200)]))
    model = values(path)
    rows = [(rng.randrange(400), rng.choice("abc"), 2.0, "y", False) for _ in range(300)]
    model_upsert(model, rows, version=9, event_time=True)
    faults = Faults(tmp_path / "faults", kind)
    monkeypatch.setattr(hudi_write, "write_files", faults)
    staged: list[set[str]] = []

    def name_and_note(location: Location, time: str, files: Mapping[str, bool]) -> None:
        found = location.files(staging_folder(time), recursive=True)
        staged.append({one.name.rpartition("/")[2] for one in found})
        name_staged_files(location, time, files)

    monkeypatch.setattr(hudi_files, "name_staged_files", name_and_note)
    done = upsert(spark_rows(spark, [row[:4] for row in rows]), path)
    attempts = faults.attempts()
    assert attempts["0"] >= 2
    # More files than groups were written, and one of each is there.
    groups = HudiTable.open(path).file_groups()
    assert len(groups) == len(attempts) == 3
    assert len(staged[0]) > len(groups)
    assert {one.partition("_")[0] for one in staged[0]} == {one.id.file_id for one in groups}
    assert done.instant is not None
    named = list(path.rglob(f"*_{done.instant.time}.parquet"))
    assert Counter(one.name.partition("_")[0] for one in named) == Counter(
        one.id.file_id for one in groups
    )
    assert not (path / staging_folder(done.instant.time)).exists()
    assert values(path) == model
    check(path)


def test_an_attempt_that_ends_after_the_commit_is_not_seen(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for partition_by in ([], ["day"]):
        path = tmp_path / f"t{len(partition_by)}"
        make(path, partition_by=partition_by)
        written: dict[str, bytes] = {}

        def name_and_keep(
            location: Location,
            time: str,
            files: Mapping[str, bool],
            kept: dict[str, bytes] = written,
        ) -> None:
            folder = staging_folder(time)
            kept.update((f"{folder}/{one}", location.read(f"{folder}/{one}")) for one in files)
            name_staged_files(location, time, files)

        monkeypatch.setattr(hudi_files, "name_staged_files", name_and_keep)
        upsert(spark_rows(spark, [(1, "a", 1.0, "x")], 1), path)
        location = HudiTable.open(path).location
        for name, content in written.items():
            head, _, tail = name.rpartition("_")
            location.write(f"{head[:-1]}x_{tail}", [content])
        assert values(path) == {(1, "a"): (1.0, "x")}
        assert_same_rows(HudiTable.open(path).scan(), other_scan(path))
        assert [one.kind for one in HudiTable.open(path).verify().findings] == ["leftover"]
        HudiTable.open(path).upsert(local_rows([(1, "a", 1.0, "y")]))
        assert_same_rows(HudiTable.open(path).scan(), other_scan(path))


def test_rows_that_change_between_two_looks_are_not_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    make(path).insert(local_rows([(n, "a", 1.0, "x") for n in range(50)]))
    before = values(path)

    seen = tmp_path / "seen"
    seen.mkdir()

    def more_and_more(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            count = len(os.listdir(seen))
            (seen / uuid.uuid4().hex).touch()
            yield batch.slice(0, 1 + count)

    rows = spark_rows(spark, [(n, "a", 1.0, "y") for n in range(200)], 3)
    # As if Spark lost what it keeps.
    monkeypatch.setattr(type(rows), "persist", lambda self, level: self)
    with pytest.raises(ValueError, match="df had other rows when Spark computed it again"):
        upsert(rows.mapInArrow(more_and_more, COLUMNS), path)
    assert values(path) == before
    assert len(instants(path)) == 1
    check(path)
    # The remedy that the error names.
    kept = rows.mapInArrow(more_and_more, COLUMNS).localCheckpoint()
    upsert(kept, path)
    assert values(path) == {
        **before,
        **{(row.id, row.day): (row.ts, row.value) for row in kept.collect()},
    }
    check(path)


def test_rows_that_cannot_be_written_fail_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    with pytest.raises(ValueError, match="on_error is 'collect'; in Spark a row that cannot be"):
        upsert(spark.range(1), table, options=WriteOptions(on_error="collect"))
    assert table.timeline() == []


@pytest.mark.few(1)
@pytest.mark.parametrize("in_table", [True, False])
def test_others_that_commit_meanwhile(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_table: bool
) -> None:
    """Once they touch the same file group, once they insert the same key into one of their own."""
    path = tmp_path / "t"
    table = make(path)
    if in_table:
        table.insert(local_rows([(5, "a", 1.0, "x")]))
    others = [(5, "a", 1.0, "other"), (99, "b", 1.0, "other")]

    def name_and_lose(location: Location, time: str, files: Mapping[str, bool]) -> None:
        name_staged_files(location, time, files)
        HudiTable.open(path).upsert(local_rows(others))

    rows = [(n, "a", 2.0, "y") for n in range(10)]
    with monkeypatch.context() as patched:
        patched.setattr(hudi_files, "name_staged_files", name_and_lose)
        with pytest.raises(CommitConflictError) as conflict:
            upsert(spark_rows(spark, rows), path, options=WriteOptions(retries=0))
    what = "changed file groups" if in_table else "inserted keys that this write inserts, too"
    assert what in str(conflict.value)
    assert set(conflict.value.keys) <= {str(row[0]) for row in rows}
    assert conflict.value.keys
    assert in_table or conflict.value.keys == ("5",)
    assert values(path)[5, "a"] == (1.0, "other")
    check(path)
    with monkeypatch.context() as patched:
        names = [name_and_lose, name_and_lose, name_staged_files]
        patched.setattr(hudi_files, "name_staged_files", lambda *args: names.pop(0)(*args))
        assert upsert(spark_rows(spark, rows), path).retries == 2
    assert values(path) == {(row[0], "a"): (2.0, "y") for row in rows} | {(99, "b"): (1.0, "other")}
    check(path)


@pytest.mark.few(1)
@pytest.mark.parametrize("index", ["bloom", "global-bloom"])
def test_places_are_those_of_a_local_tag(
    spark: SparkSession, tmp_path: Path, index: str, seed: int
) -> None:
    rng = random.Random(seed)
    table = make(tmp_path / "t", hive_style=True)
    sizing = FileSizing(max_file_size=10_000, small_file_limit=0, record_size=100)
    stored = [(n, "abc"[n % 3], 1.0, "x") for n in rng.sample(range(1000), 500)]
    table.insert(local_rows(stored), options=WriteOptions(sizing=sizing))
    assert len(table.file_groups()) > 3
    rows = [(rng.randrange(1000), rng.choice("abcd"), float(n), "y") for n in range(600)]
    df = tag_location(spark_rows(spark, rows), table, index=index)
    expected = table.tag(local_rows(rows), index=index)
    assert df.columns == expected.column_names
    assert Counter(map(tuple, df.collect())) == Counter(
        tuple(row.values()) for row in expected.to_pylist()
    )
    assert df.where("_pos IS NULL").count() == expected["_pos"].null_count > 0
    if index == "bloom":
        # The table is as it was, and rows may have meta columns for keys.
        table.delete([row[0] for row in stored])
        assert df.where("_pos IS NULL").count() == expected["_pos"].null_count
        keys = df.selectExpr(
            "cast(id AS string) AS _hoodie_record_key", "'day=a' AS _hoodie_partition_path"
        )
        assert tag_location(keys, table).where("_pos IS NOT NULL").count() == 0
        with pytest.raises(KeyError, match="no single column 'id'"):
            tag_location(df.select("day"), table)
        with pytest.raises(ValueError, match="df: a column is called '_partition', as one"):
            tag_location(df, table)
        with pytest.raises(TypeError, match="give a name, so that executors can create it"):
            tag_location(df.select("id", "day"), table, index=BloomIndex())  # type: ignore


def test_a_stream_that_fails_between_commit_and_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    make(path)
    (tmp_path / "facts").mkdir()
    # A batch that came again would insert keys that are there.
    sink = hudi_sink(path, operation="insert", options=WriteOptions(extra_metadata={"of": "us"}))
    seen: list[int] = []

    def write(rows: DataFrame, batch: int, *, fails: bool) -> None:
        sink(rows, batch)
        seen.append(batch)
        if fails and batch == 1:
            raise RuntimeError("the driver dies for a test")

    def run(fails: bool) -> Any:
        stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
        query = (
            stream.json(f"file://{tmp_path}/facts")
            .writeStream.foreachBatch(partial(write, fails=fails))
            .option("checkpointLocation", f"file://{tmp_path}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        return query

    def give(batch: int) -> None:
        lines = [
            json.dumps(dict(zip(SCHEMA.names, (10 * batch + n, "a", 1.0, "x"), strict=True)))
            for n in range(3)
        ]
        (tmp_path / "facts" / f"{batch}.json").write_text("\n".join(lines))
        os.utime(tmp_path / "facts" / f"{batch}.json", (batch, batch))

    give(0), give(1)
    with pytest.raises(Exception, match="the driver dies for a test"):
        run(fails=True)
    assert seen == [0, 1]
    assert len(instants(path)) == 2
    # Others write as well, and say nothing of the query.
    HudiTable.open(path).upsert(local_rows([(100, "a", 1.0, "z")]))
    give(2)
    query = run(fails=False)
    assert seen == [0, 1, 1, 2]
    assert [one.state for one in instants(path)] == [State.COMPLETED] * 4
    said = [(done.extra_metadata or {}) for _, done in commits(path)]
    assert [one.get(CHECKPOINT) for one in said] == [
        json.dumps({query.id: "0"}), json.dumps({query.id: "1"}), None,
        json.dumps({query.id: "2"}),
    ]  # fmt: skip
    assert said[-1]["of"] == "us"
    assert sorted(key for key, _ in values(path)) == [0, 1, 2, 10, 11, 12, 20, 21, 22, 100]
    view = read_view(HudiTable.open(path).location)
    assert committed_batch(view, query.id) == (2, query.id)
    assert committed_batch(view, "another") is None
    # Also when it is archived.
    archived = HudiTable.open(shutil.copytree(path, tmp_path / "archived"))
    archived.upsert(local_rows([(101, "a", 1.0, "z")]))
    archived.archive(min_commits=1, max_commits=1)
    assert [one.time for one in archived.timeline()][-1:] == [archived.timeline()[0].time]
    assert committed_batch(archived.view(), query.id) == (2, query.id)
    assert committed_batch(archived.view(), "another") is None
    check(path)
    with pytest.raises(ValueError, match="query: cannot tell which streaming query"):
        sink(spark_rows(spark, []), 3)
    named = hudi_sink(HudiTable.open(path), query="mine")
    for _ in range(2):
        named(spark_rows(spark, [(7, "a", 1.0, "mine")], 1), 0)
    assert len(instants(path)) == 5


def test_a_table_behind_s3(spark: SparkSession) -> None:
    with writable_object_store() as server:
        uri = server.uri("t")
        table = HudiTable.create(
            uri, SCHEMA, record_key=["id"], partition_by=["day"], ordering="ts", name="t"
        )
        table.insert(local_rows([(n, "ab"[n % 2], 1.0, "x") for n in range(20)]))
        rows = [(n, "ab"[n % 2], 2.0, "y") for n in range(10, 30)]
        done = upsert(spark_rows(spark, rows), uri)
        assert (done.rows_updated, done.rows_inserted, len(done.files_rewritten)) == (10, 10, 2)
        found = table.scan(columns=["id", "value"]).sort_by("id").to_pylist()
        assert found == [{"id": n, "value": "x" if n < 10 else "y"} for n in range(30)]
        assert not table.location.files(".hoodie/.temp", recursive=True)
        assert not table.location.files(".hoodie/.lookupstore", recursive=True)
        assert not table.verify().findings


@pytest.mark.few(2)
@pytest.mark.parametrize("index", ["bloom", "global-bloom"])
@pytest.mark.parametrize("ordering", ["ts", None])
def test_what_rows_lack_is_kept_as_in_one_process(
    spark: SparkSession, tmp_path: Path, index: str, ordering: str | None, seed: int
) -> None:
    rng = random.Random(seed)
    schema = SCHEMA.append(pa.field("at", pa.struct({"x": pa.int32(), "y": pa.string()})))
    paths = ours, local = tmp_path / "spark", tmp_path / "local"
    first = pa.Table.from_pylist(
        [{"id": at, "day": rng.choice("ab"), "ts": float(rng.randrange(9)), "value": f"{at}",
          "at": {"x": at, "y": f"{at}"}} for at in range(20)],
        schema,
    )  # fmt: skip
    for path in paths:
        arguments: dict[str, Any] = {"record_key": "id", "partition_by": "day", "name": "t"}
        HudiTable.create(path, schema, ordering=ordering, **arguments).insert(first)
    rows = [(at, rng.choice("abc"), float(rng.randrange(9)), (-at,)) for at in range(10, 30)]
    rows[0] = (10, first["day"][10].as_py(), 9.0, (-10,))  # whatever is drawn, one row is updated
    df = spark.createDataFrame(rows, "id int, day string, ts double, at struct<x:int>")
    given = pa.Table.from_pylist(
        [dict(zip(df.columns, (*row[:3], {"x": row[3][0]}), strict=True)) for row in rows],
        pa.schema([*list(SCHEMA)[:3], pa.field("at", pa.struct({"x": pa.int32()}))]),
    )
    with pytest.raises(ValueError, match=r"rows lack columns of the table: 'value', 'at\.y'; "):
        upsert(df, ours)
    options = WriteOptions(index=index)
    done = upsert(df, ours, missing="keep", options=options)
    assert done.columns_missing == ("value", "at.y")
    HudiTable.open(local).upsert(given, missing="keep", options=options)
    found, expected = (
        HudiTable.open(path).scan(columns=schema.names).sort_by("id").to_pylist() for path in paths
    )
    assert found == expected
    assert any(row["at"]["x"] < 0 and row["value"] for row in found)


def test_a_named_query_whose_checkpoint_was_deleted(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path)
    (tmp_path / "facts").mkdir()

    def run(checkpoint: str, name: str) -> None:
        stream = spark.readStream.schema(COLUMNS).json(f"file://{tmp_path}/facts")
        query = (
            stream.writeStream.foreachBatch(hudi_sink(path, query=name))
            .option("checkpointLocation", f"file://{tmp_path}/{checkpoint}")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)

    def give(key: int) -> None:
        line = json.dumps(dict(zip(SCHEMA.names, (key, "a", 1.0, "x"), strict=True)))
        (tmp_path / "facts" / f"{key}.json").write_text(line)

    give(1)
    run("first", "visits")
    give(2)
    with pytest.raises(Exception, match="'visits': batch 0 is of another checkpoint than the comm"):
        run("second", "visits")
    assert {key for key, _ in values(path)} == {1}
    # Both remedies.
    run("first", "visits")
    assert {key for key, _ in values(path)} == {1, 2}
    give(3)
    run("third", "visits again")
    assert {key for key, _ in values(path)} == {1, 2, 3}


def test_batches_of_a_query_without_an_id(spark: SparkSession, tmp_path: Path) -> None:
    """Over Spark Connect nobody tells the id: an earlier number than the last is of another."""
    path = tmp_path / "t"
    make(path)
    named = hudi_sink(path, query="mine")
    rows = spark_rows(spark, [(7, "a", 1.0, "mine")], 1)
    for batch in (0, 1, 1):
        named(rows, batch)
    assert len(instants(path)) == 2
    with pytest.raises(ValueError, match="'mine': batch 0 is of another checkpoint"):
        named(rows, 0)


def test_a_data_column_that_is_called_as_a_position(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int32(), "_pos": pa.int32(), "slice": pa.int32()})
    HudiTable.create(tmp_path / "t", schema, record_key="id")
    for rows in ([(1, 10, 5), (2, 20, 5)], [(2, 21, 6)]):
        df = spark.createDataFrame(rows, "id int, _pos int, slice int")
        upsert(df, tmp_path / "t")
    found = HudiTable.open(tmp_path / "t").scan(columns=schema.names).to_pylist()
    assert found == [{"id": 1, "_pos": 10, "slice": 5}, {"id": 2, "_pos": 21, "slice": 6}]
    places = tag_location(df.select("id"), tmp_path / "t").collect()
    assert [row["_pos"] for row in places] == [1]


def test_keys_of_one_text(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema({"a": pa.string(), "b": pa.string(), "v": pa.int32()})
    table = HudiTable.create(tmp_path / "t", schema, record_key=["a", "b"])
    both = spark.createDataFrame(
        [("x", None, 1), ("x", "__null__", 2)], "a string, b string, v int"
    )
    with pytest.raises(
        ValueError, match=r"\(a='x', b=None\).*have different keys and one record k"
    ):
        upsert(both, table)
    upsert(both.where("v = 1"), table)
    with pytest.raises(ValueError, match=r"the row \(a='x', b=None\) of .*parquet, have different"):
        upsert(both.where("v = 2"), table)
    assert table.scan(columns=["v"])["v"].to_pylist() == [1]
