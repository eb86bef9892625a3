"""Paths that are tables, given to Spark: read as tables, or refused with the line to write."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lookupstore import CorruptionError, FormatError
from lookupstore.hudi import HudiTable
from lookupstore.spark import build_store, explain_join, lookup_join

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

SCHEMA = pa.schema({"id": pa.int64(), "day": pa.string(), "name": pa.string()})


def written(folder: Path, seed: int) -> dict[int, str]:
    """Make a Hudi table with superseded and deleted rows; return the names that it has."""
    rng = random.Random(seed)
    table = HudiTable.create(
        folder, SCHEMA, record_key=["id"], partition_by=["day"], hive_style=True
    )
    expected: dict[int, str] = {}
    for turn in range(3):
        ids = rng.sample(range(60), 30)
        expected |= {one: f"{one} in turn {turn}" for one in ids}
        names = [expected[one] for one in ids]
        days = [str(one % 2) for one in ids]
        table.upsert(pa.table({"id": ids, "day": days, "name": names}, SCHEMA))
        gone = rng.sample(sorted(expected), 5)
        table.delete(gone)
        for one in gone:
            del expected[one]
    return expected


def inside(folder: Path) -> dict[str, str]:
    """Return paths inside of a table, and of it."""
    base = sorted(folder.rglob("*.parquet"))[0]
    return {
        "partition": str(base.parent),
        "file": str(base),
        "glob": f"{folder}/*/*.parquet",
        "braces": f"{folder}/{{{base.parent.name},other}}/*.parquet",
        "above": str(folder.parent),
        "glob above": f"{folder.parent}/*/*",
    }


def test_a_hudi_table_is_read_as_the_table(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    expected = written(tmp_path / "w" / "users", seed)
    for given in (tmp_path / "w" / "users", f"file://{tmp_path}/w/users"):
        with build_store(given, tmp_path / "store", key="id", overwrite=True, spark=spark) as store:
            assert store.value_schema.names == ["day", "name"]
            rows = store.scan().read_all().to_pylist()
            assert {row["id"]: row["name"] for row in rows} == expected
            assert "Hudi table" in store.info().source
        with pytest.raises(ValueError, match="when the table had no commit yet; give a later"):
            build_store(given, tmp_path / "n", key="id", as_of="2000-01-01", spark=spark)
        assert not (tmp_path / "n").exists()
    facts = spark.range(70).withColumnRenamed("id", "user")
    joined = lookup_join(facts, str(tmp_path / "w" / "users"), on={"user": "id"}, how="inner")
    assert {row.user: row.name for row in joined.collect()} == expected
    assert "Hudi" in str(explain_join(facts, str(tmp_path / "w" / "users"), on={"user": "id"}))


def test_what_is_part_of_a_table_is_refused(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    expected = written(tmp_path / "w" / "users", seed)
    calls: list[Callable[[str], Any]] = [
        lambda path: build_store(path, tmp_path / "store", key="id", spark=spark),
        lambda path: build_store([path, path], tmp_path / "store", key="id", spark=spark),
    ]
    for what, path in inside(tmp_path / "w" / "users").items():
        for call in calls:
            with pytest.raises(FormatError, match="the Hudi table") as raised:
                call(path)
            assert f"{tmp_path}/w/users" in str(raised.value), what
            assert not (tmp_path / "store").exists()
        if what != "braces":  # to all but Spark that is a name
            with pytest.raises(FormatError, match="the Hudi table"):
                lookup_join(spark.range(3), path, on="id")
    table = str(tmp_path / "w" / "users")
    with pytest.raises(FormatError, match="give it alone"):
        build_store([table, table], tmp_path / "store", key="id", spark=spark)
    # Beside it, files are read.
    pq.write_table(pa.table({"id": [1]}), tmp_path / "w" / "plain.parquet")
    with build_store(f"{tmp_path}/w/*.parquet", tmp_path / "s", key="id", spark=spark) as store:
        assert store.info().num_rows == 1
    assert expected


def test_parts_of_a_delta_table_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    folder = tmp_path / "w" / "users"
    deltalake.write_deltalake(str(folder), pa.table({"id": [1, 2]}))
    deltalake.DeltaTable(str(folder)).delete("id = 1")
    with build_store(folder, tmp_path / "store", key="id", spark=spark) as store:
        assert list(store) == [2]
    joined = lookup_join(spark.range(3), str(folder), on="id", how="semi")
    assert [row.id for row in joined.collect()] == [2]
    for path in (f"{folder}/*.parquet", str(folder.parent)):
        for call in (
            lambda path: build_store(path, tmp_path / "store", key="id", spark=spark),
            lambda path: lookup_join(spark.range(3), path, on="id"),
        ):
            with pytest.raises(FormatError, match=r"deltalake\.DeltaTable\(.*\)$"):
                call(path)


def test_a_folder_of_files_is_joined_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(2):
        pq.write_table(pa.table({"id": [number], "v": [f"v{number}"]}), tmp_path / f"{number}.pq")
    joined = lookup_join(spark.range(3), str(tmp_path), on="id")
    assert {row.id: row.v for row in joined.collect()} == {0: "v0", 1: "v1", 2: None}


@pytest.mark.parametrize("number", [0, 13])
def test_one_damaged_file_of_many_is_named(
    spark: SparkSession, tmp_path: Path, number: int
) -> None:
    (tmp_path / "in here").mkdir()
    for at in range(20):
        rows = pa.table({"id": range(at * 1000, at * 1000 + 1000)})
        pq.write_table(rows, tmp_path / "in here" / f"{at:02}.parquet")
    bad = tmp_path / "in here" / f"{number:02}.parquet"
    bad.write_bytes(bad.read_bytes()[: bad.stat().st_size // 2])
    with pytest.raises(CorruptionError, match=bad.name) as raised:
        build_store(tmp_path / "in here", tmp_path / "store", key="id", spark=spark)
    assert raised.value.path == str(bad)
    assert not (tmp_path / "store").exists()


def test_a_file_of_another_type_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(5):
        pq.write_table(pa.table({"id": [number]}), tmp_path / "in" / f"{number}.parquet")
    pq.write_table(pa.table({"id": ["text"]}), tmp_path / "in" / "3.parquet")
    with pytest.raises(FormatError, match=r"3\.parquet.*id") as raised:
        build_store(tmp_path / "in", tmp_path / "store", key="id", spark=spark)
    assert "STRING" in str(raised.value).upper() or "BINARY" in str(raised.value).upper()


#: A file system that Spark can open, and pyarrow cannot.
MOUNTED = "viewfs://lookupstore"


@pytest.fixture
def mounted(spark: SparkSession, tmp_path: Path) -> str:
    conf: Any = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set("fs.viewfs.mounttable.lookupstore.link./w", f"file://{tmp_path}/w")
    conf.set("fs.viewfs.impl.disable.cache", "true")
    return f"{MOUNTED}/w"


@pytest.mark.parametrize("kind", ["hudi", "delta", "iceberg"])
def test_a_table_that_only_spark_can_read_is_refused(
    spark: SparkSession, tmp_path: Path, mounted: str, kind: str
) -> None:
    folder = tmp_path / "w" / "all users"
    if kind == "hudi":
        written(folder, 1)
    elif kind == "delta":
        deltalake = pytest.importorskip("deltalake")
        rows = pa.table({"id": [1, 2], "day": ["1", "2"]})
        deltalake.write_deltalake(str(folder), rows, partition_by=["day"])
    else:  # what Iceberg's readers find a table by
        (folder / "metadata").mkdir(parents=True)
        (folder / "data" / "day=1").mkdir(parents=True)
        pq.write_table(pa.table({"id": [1]}), folder / "data" / "day=1" / "1.parquet")
        (folder / "metadata" / "00001-x.metadata.json").write_text("{}")
    table = f"{mounted}/all users"
    base = sorted(folder.rglob("*.parquet"))[0].relative_to(folder)
    glob = "/".join(["*" for _ in base.parts] + ["*.parquet"])
    paths = [table, f"{table}/{base.parent}", f"{table}/{base}", f"{mounted}/{glob}"]
    for path in paths:
        with pytest.raises(FormatError) as raised:
            build_store(path, tmp_path / "store", key="id", spark=spark)
        assert f"spark.read.format('{kind}').load('{table}')" in str(raised.value), path
        assert not (tmp_path / "store").exists()


def test_files_that_only_spark_can_read_are_a_source(
    spark: SparkSession, tmp_path: Path, mounted: str
) -> None:
    for day in range(3):
        folder = tmp_path / "w" / "files" / f"day={day}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [day]}), folder / "1.parquet")
    with build_store(f"{mounted}/files", tmp_path / "store", key="id", spark=spark) as store:
        assert store.get(2) == {"day": 2}
