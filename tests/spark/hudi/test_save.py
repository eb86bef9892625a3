"""`df.write.format("lookupstore.hudi")`: the verbs of `HudiTable`, on rows that tasks have.

The oracles are these verbs on a copy of the table, and hudi-rs.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from support.hudi.oracle import assert_same_rows, other_scan
from support.hudi.spark_rows import COLUMNS, SCHEMA, Row, check, instants, local_rows, make
from support.hudi.spark_rows import spark_rows as rows_in

from lookupstore.errors import CorruptionError
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.timeline.work_files import ROWS
from lookupstore.hudi.write.rows.spilled import SpilledRows
from lookupstore.hudi.write.rows.staged import FORGOTTEN, StagedRows

pytest.importorskip("pyspark.sql.datasource", reason="sources came with Spark 4.0")

from lookupstore.spark.hudi import save

pytestmark = [
    pytest.mark.spark,
    # PySpark 4.0 leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

FORMAT = "lookupstore.hudi"
HOODIE = "hoodie"
WRITE = f"{HOODIE}.datasource.write"
NEW = {
    f"{HOODIE}.table.name": "t",
    f"{WRITE}.recordkey.field": "id",
    f"{WRITE}.partitionpath.field": "day",
    f"{WRITE}.precombine.field": "ts",
}


def saved(df: DataFrame, path: Path, mode: str = "append", **options: Any) -> None:
    df.write.format(FORMAT).mode(mode).options(**options).save(str(path))


def all_rows(path: Path) -> Counter[Row]:
    rows = HudiTable.open(path).scan(columns=SCHEMA.names).to_pylist()
    return Counter(tuple(one.values()) for one in rows)


def some_rows(rng: random.Random, count: int, value: str) -> list[Row]:
    """Return rows with repeated keys, of which some delete; all ordering values are different."""
    return [
        (rng.randrange(60), rng.choice("abc"), float(rng.randrange(99) * 1000 + n), value,
         rng.random() < 0.1)
        for n in range(count)
    ]  # fmt: skip


def test_every_operation_is_that_of_one_process(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    ours = tmp_path / "t"
    steps: list[tuple[str, str, dict[str, Any], WriteOptions]] = [
        ("upsert", "append", NEW, WriteOptions()),  # which makes the table
        ("upsert", "append", {}, WriteOptions()),
        ("insert", "append", {"operation": "insert"}, WriteOptions()),
        (
            "insert",
            "append",
            {f"{WRITE}.operation": "insert", f"{HOODIE}.combine.before.insert": "true"},
            WriteOptions(combine=True),
        ),
        (
            "insert",
            "append",
            {"operation": "insert", "duplicates": "drop"},
            WriteOptions(duplicates="drop"),
        ),
        ("delete", "append", {f"{WRITE}.operation": "delete"}, WriteOptions()),
        (
            "bulk_insert",
            "append",
            {"operation": "bulk_insert", "sort_mode": "global_sort", "sort_by": "value,ts"},
            WriteOptions(sort_mode="global_sort", sort_by=["value", "ts"]),
        ),
        ("insert_overwrite", "overwrite", {"operation": "insert_overwrite"}, WriteOptions()),
        ("insert_overwrite", "append", {"operation": "insert_overwrite"}, WriteOptions()),
        ("delete_partition", "append", {"operation": "delete_partition"}, WriteOptions()),
        ("insert_overwrite_table", "overwrite", {"combine": "false"}, WriteOptions(combine=False)),
    ]
    for step, (verb, mode, given, options) in enumerate(steps):
        rows = some_rows(rng, 4 if verb.startswith("delete") else 80, f"{step}")
        if verb.startswith(("delete", "insert_overwrite")):
            rows = [(row[0], "b", *row[2:]) for row in rows]
        local = tmp_path / f"local-{step}"
        if step:
            shutil.copytree(ours, local)
        else:
            make(local, ordering="ts")
        expected: Any = ["b"] if verb == "delete_partition" else local_rows(rows)
        getattr(HudiTable.open(local), verb)(expected, options=options)
        saved(rows_in(spark, rows), ours, mode, **given)
        assert all_rows(ours) == all_rows(local), (step, verb)
        assert len(instants(ours)) == step + 1
        assert_same_rows(HudiTable.open(ours).scan(), other_scan(ours))
        assert not list((ours / ROWS).iterdir())
    assert HudiTable.open(ours).options.ordering == ("ts",)
    saved(rows_in(spark, []), ours, "overwrite")
    assert not all_rows(ours)
    check(ours)


def test_the_order_of_rows_is_that_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    make(tmp_path / "t")
    rows = [(1, "a", float(n), f"{n}") for n in range(500)]
    saved(rows_in(spark, rows, 5), tmp_path / "t")
    assert all_rows(tmp_path / "t") == Counter([(1, "a", 499.0, "499")])


def test_a_job_that_fails_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path).upsert(local_rows([(1, "a", 1.0, "x")]))
    before = all_rows(path)

    def fails(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if 7 in batch.column("id").to_pylist():
                raise RuntimeError("a task fails for a test")

    rows = rows_in(spark, [(n, "a", 1.0, "y") for n in range(9)])
    with pytest.raises(PySparkException, match="a task fails for a test"):
        saved(rows.mapInArrow(fails, COLUMNS), path)
    for bad, text in (
        (rows_in(spark, [(None, "a", 1.0, "y"), (2, "a", 1.0, "y")]), "has no record key"),
        (
            rows.selectExpr("*", "1 AS n"),
            r"the table has no column 'n'; to add it, set option\('evolve', True\); to leave",
        ),
        (rows.drop("day"), "rows have no column 'day'"),
    ):
        with pytest.raises(PySparkException, match=text):
            saved(bad, path)
    assert all_rows(path) == before
    assert len(instants(path)) == 1
    assert not list((path / ROWS).iterdir())
    check(path)
    dated = rows.selectExpr("*", "current_date() AS d")
    with pytest.raises(PySparkException, match=r"'d' is date32.*; cast it to string"):
        saved(dated, tmp_path / "new", **NEW | {f"{WRITE}.partitionpath.field": "d"})


def test_bad_options_say_what_is_right(spark: SparkSession, tmp_path: Path) -> None:
    df = rows_in(spark, [(1, "a", 1.0, "x")])
    path = tmp_path / "t"
    refused: list[tuple[str, dict[str, Any], str]] = [
        ("append", {"no": 1}, "no option 'no'; writing a Hudi table has path, operation"),
        ("append", {"operatoin": "insert"}, r"'operatoin'; did you mean 'operation'\? Writing a"),
        ("append", {"operation": "merge"}, "operation is 'merge'; give one of upsert, .*HudiTable"),
        ("overwrite", {"operation": "upsert"}, r"mode\('overwrite'\) replaces all rows"),
        ("append", {"operation": "delete"}, "not a Hudi table|no Hudi table|hoodie.properties"),
        ("append", {}, "record_key is empty.* it is hoodie.table.recordkey.fields"),
        ("append", NEW | {f"{WRITE}.no": "x"}, "options: unknown names"),
    ]
    for mode, options, text in refused:
        with pytest.raises(PySparkException, match=text):
            saved(df, path, mode, **options)
    assert not path.exists()
    make(path)
    for options, text in (
        ({"combine": "maybe"}, "combine is 'maybe'; give true or false"),
        ({"duplicates": "no"}, "duplicates is 'no'; give one of 'allow'"),
        ({f"{WRITE}.operation": "insert", "operation": "upsert"}, "but this is upsert"),
        ({f"{WRITE}.recordkey.field": "ts"}, "the table has "),
    ):
        with pytest.raises(PySparkException, match=text):
            saved(df, path, **options)
    assert not (path / ROWS).exists()


def schema_of(spark: SparkSession) -> StructType:
    return rows_in(spark, []).schema


def test_a_job_that_is_killed_is_not_seen(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(path)
    table.upsert(local_rows([(1, "a", 1.0, "x")]))
    writer = save.planned_write({"path": str(path)}, schema_of(spark), overwrite=False)
    told = writer.write(iter(local_rows([(1, "a", 1.0, "y")]).to_batches()))
    assert told.file is not None
    assert all_rows(path) == Counter([(1, "a", 1.0, "x")])
    assert_same_rows(table.scan(), other_scan(path))
    left = {one.path for one in table.verify().findings}
    assert told.file.name in left
    assert table.verify().is_ok
    # Others do not take it away, until it must be forgotten.
    table.upsert(local_rows([(2, "a", 1.0, "x")]))
    second = StagedRows.begin(table.location)
    assert (path / told.file.name).exists()
    for file in (path / told.file.name).parent.iterdir():
        os.utime(file, (0, os.stat(file).st_mtime - FORGOTTEN - 60))
    StagedRows.begin(table.location).delete()
    assert not (path / told.file.name).exists()
    assert (path / second.folder).exists()
    second.delete()
    with pytest.raises(FileNotFoundError, match=told.file.name.rpartition("/")[2]):
        writer.commit([told])
    assert all_rows(path) == Counter([(1, "a", 1.0, "x"), (2, "a", 1.0, "x")])
    check(path)


def test_damaged_rows_are_not_written(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path / "t"
    make(path)
    # Of values that nothing compresses, most damage is nothing but another value.
    rows = local_rows([(n, "a", rng.random(), f"{rng.random()}") for n in range(300)])
    for kind in ("cut", "empty", "bytes", "bytes", "bytes"):
        writer = save.planned_write({"path": str(path)}, schema_of(spark), overwrite=False)
        told = writer.write(iter(rows.to_batches(max_chunksize=50)))
        assert told.file is not None
        file = path / told.file.name
        content = file.read_bytes()
        cut = {"cut": rng.randrange(1, len(content)), "empty": 0, "bytes": len(content)}[kind]
        content = content[:cut]
        if kind == "bytes":
            at = rng.randrange(len(content))
            flipped = content[at] ^ (1 << rng.randrange(8))
            content = content[:at] + bytes([flipped]) + content[at + 1 :]
        file.write_bytes(content)
        with pytest.raises(CorruptionError) as raised:
            writer.commit([told])
        assert raised.value.path == str(file)
        assert not instants(path)


def test_more_rows_than_there_is_memory_for(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of the driver spills them."""
    path = tmp_path / "t"
    make(path)
    rows = local_rows([(n % 900, "a", 1.0 + n, "x" * 100) for n in range(5000)])
    spilled: list[str] = []
    begin = SpilledRows.__enter__
    monkeypatch.setattr(
        SpilledRows, "__enter__", lambda self: spilled.append("rows") or begin(self)
    )
    given = {"path": str(path), "operation": "upsert", "memory": "128KB"}
    writer = save.planned_write(given, schema_of(spark), overwrite=False)
    told = [writer.write(iter(rows.slice(at, 2500).to_batches(100))) for at in (0, 2500)]
    writer.commit(list(told))
    assert spilled == ["rows"]
    assert len(all_rows(path)) == 900
    check(path)


@pytest.mark.parametrize(
    ("name", "verb"), [("lookupstore", "update_store"), ("lookupstore.hudi", "hudi_sink")]
)
def test_a_stream_is_written_by_its_batches(
    spark: SparkSession, tmp_path: Path, name: str, verb: str
) -> None:
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    writer = stream.writeStream.format(name).option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(PySparkException, match=rf"foreachBatch.*{verb}|{verb}.*foreachBatch"):
        writer.trigger(availableNow=True).start(str(tmp_path / "t")).awaitTermination()


def test_rows_that_lack_columns(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path).insert(local_rows([(1, "a", 1.0, "x")]))
    df = rows_in(spark, [(1, "a", 2.0, "new"), (2, "a", 2.0, "new")]).drop("value")
    with pytest.raises(PySparkException, match="rows lack columns of the table: 'value'; set miss"):
        saved(df, path)
    with pytest.raises(PySparkException, match="'value'; set missing to 'null'"):
        saved(df, path, operation="insert")
    saved(df, path, missing="keep")
    assert all_rows(path) == Counter([(1, "a", 2.0, "x"), (2, "a", 2.0, None)])
    saved(df, path, **{f"{HOODIE}.write.set.null.for.missing.columns": "true"})
    assert all_rows(path) == Counter([(1, "a", 2.0, None), (2, "a", 2.0, None)])


def test_rows_that_cannot_be_deleted_after_the_commit_are_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark would say that the write failed, and its caller would write the rows again."""
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id", partition_by="day")
    first: list[Any] = [1, "a", 1.0, "x", None]
    rows = pa.Table.from_pylist([dict(zip(SCHEMA.names, first, strict=False))], schema=SCHEMA)
    staged = StagedRows.begin(table.location)
    writer = save.HudiWriter(table, "upsert", WriteOptions(), rows.schema, staged)
    done = writer.write(iter(rows.to_batches()))

    def broken(*_: Any) -> None:
        raise KeyError("injected")

    monkeypatch.setattr(StagedRows, "delete", broken)
    with pytest.warns(UserWarning, match="rows that waited for a write stay: KeyError: 'injected'"):
        writer.commit([done])
    assert len(instants(tmp_path / "t")) == 1
    assert sum(all_rows(tmp_path / "t").values()) == 1


def test_save_as_table_is_refused_before_it_writes(spark: SparkSession, tmp_path: Path) -> None:
    """Spark would write the rows, and then read the table of its catalog without a path."""
    df = rows_in(spark, [])
    for name, write in (
        (FORMAT, lambda one: one.format(FORMAT).saveAsTable("refused_visits")),
        ("lookupstore", lambda one: one.saveAsTable("refused_visits", format="lookupstore")),
    ):
        given = df.write.mode("append").option("path", str(tmp_path / "t")).options(**NEW)
        with pytest.raises(ValueError, match=rf"nothing was written: .*format\('{name}'\)\.save"):
            write(given)
    assert list(tmp_path.iterdir()) == []
    assert not spark.catalog.tableExists("refused_visits")
