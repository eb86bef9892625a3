"""Lookup joins with columnar files as they are, compared with Spark SQL's own joins."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from support.opened_paimon import FileStoreTable, stand_in
from support.paimon_tables import PaimonTable

from lookupstore.columnar import ColumnarFiles
from lookupstore.keys.joins import HOWS
from lookupstore.spark import LookupMetrics, build_store, lookup_join

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(scope="module")
def dim(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """Write a dimension as Spark does: several files, in no order of the key."""
    folder = tmp_path_factory.mktemp("dim")
    rows = spark.range(0, 3000, 2).select(
        F.col("id").alias("user"),
        F.concat(F.lit("user "), F.col("id")).alias("name"),
        (F.col("id") % 5).cast("int").alias("grade"),
        F.when(F.col("id") % 3 == 0, F.lit(None)).otherwise(F.col("id") / 7).alias("score"),
    )
    rows.repartition(5).write.mode("overwrite").parquet(str(folder))
    return folder


@pytest.fixture
def facts(spark: SparkSession, seed: int) -> DataFrame:
    rng = random.Random(seed)
    rows = [(i, rng.randrange(-100, 3200) if rng.random() < 0.95 else None) for i in range(2000)]
    return spark.createDataFrame(rows, "n int, user long").repartition(4)


def rows_of(df: DataFrame) -> list[Any]:
    return sorted(map(tuple, df.collect()), key=repr)


def expected(spark: SparkSession, facts: DataFrame, dim: Path, how: str) -> list[Any]:
    return rows_of(
        facts.join(spark.read.parquet(str(dim)), "user", how).select(
            "n", "user", *(() if how in ("semi", "anti") else ("name", "grade", "score"))
        )
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("how", HOWS)
def test_a_glob_is_a_dimension(spark: SparkSession, facts: DataFrame, dim: Path, how: str) -> None:
    got = lookup_join(facts, f"{dim}/*.parquet", "user", how)
    assert rows_of(got) == expected(spark, facts, dim, how)


@pytest.mark.few(1)
@pytest.mark.parametrize("build", ["auto", "always", "never"])
def test_files_with_options_are_a_dimension(
    spark: SparkSession, facts: DataFrame, dim: Path, build: Any
) -> None:
    files = ColumnarFiles(dim, key="user", build=build)
    metrics = LookupMetrics(spark)
    got = lookup_join(facts, files, "user", metrics=metrics)
    assert rows_of(got) == expected(spark, facts, dim, "left")
    assert metrics.counts.rows == 2000
    few = lookup_join(facts, files, {"user": "user"}, "inner", ["grade"], "user_")
    assert few.columns == ["n", "user", "user_grade"]
    wanted = [(n, user, grade) for n, user, _, grade, _ in expected(spark, facts, dim, "inner")]
    assert rows_of(few) == sorted(wanted, key=repr)
    placed = lookup_join(
        facts, ColumnarFiles(dim, key="user", mode="position", build=build), "user", "inner"
    )
    for row in placed.limit(20).collect():
        assert pq.read_table(row._file)["user"][row._pos].as_py() == row.user


def test_in_a_stream_each_batch_lists_the_files(spark: SparkSession, tmp_path: Path) -> None:
    """A stream has a dimension of files that change: docs/how-to/spark-follow-a-store.md."""
    dim, facts, out = (tmp_path / name for name in ("dim", "facts", "out"))
    facts.mkdir()
    dim.mkdir()

    def batch(df: DataFrame, _: int) -> None:
        lookup_join(df, f"{dim}/*.parquet", "id").write.mode("append").parquet(str(out))

    def run(number: int) -> Iterator[tuple[int, int | None]]:
        pq.write_table(pa.table({"id": [1, 2]}), facts / f"{number}.parquet")
        stream = spark.readStream.schema("id long").parquet(str(facts))
        query = (
            stream.writeStream.foreachBatch(batch)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)
        return (tuple(row) for row in spark.read.parquet(str(out)).collect())  # type: ignore[misc]

    pq.write_table(pa.table({"id": [1], "v": [10]}), dim / "a.parquet")
    assert sorted(run(0), key=repr) == [(1, 10), (2, None)]
    pq.write_table(pa.table({"id": [2], "v": [20]}), dim / "b.parquet")
    assert sorted(run(1), key=repr) == [(1, 10), (1, 10), (2, 20), (2, None)]


def test_the_remedy_of_a_repeated_key_is_an_object_that_a_join_takes(
    spark: SparkSession, tmp_path: Path
) -> None:
    """`lookup_join` itself has no `on_duplicate`."""
    pq.write_table(pa.table({"id": [2, 2, 3], "v": [0, 1, 2]}), tmp_path / "twice.parquet")
    (tmp_path / "two").mkdir()
    for number in range(2):
        pq.write_table(pa.table({"id": [2], "v": [number]}), tmp_path / f"two/{number}.parquet")
    facts = spark.createDataFrame([(2,)], "id long")
    for path in (tmp_path / "twice.parquet", tmp_path / "two"):
        said = r"the key id=2 .*; .* ColumnarFiles\(\.\.\., on_duplicate='first' or 'last'\)"
        with pytest.raises(PythonException, match=said):
            lookup_join(facts, str(path), "id").collect()
        for rule, kept in (("first", 0), ("last", 1)):
            files = ColumnarFiles(path, key="id", on_duplicate=rule)
            assert [row.v for row in lookup_join(facts, files, "id").collect()] == [kept]


def test_errors(spark: SparkSession, facts: DataFrame, dim: Path, tmp_path: Path) -> None:
    (tmp_path / "arriving").mkdir()
    stream = spark.readStream.schema(facts.schema).parquet(str(tmp_path / "arriving"))
    with pytest.warns(UserWarning, match="at the files as they are now.*leave refresh out, or"):
        lookup_join(stream, f"{dim}/*.parquet", "user", refresh="never")
    with pytest.raises(ValueError, match="bucketed', but columnar files have none; build a store"):
        lookup_join(facts, f"{dim}/*.parquet", "user", strategy="bucketed")
    with pytest.raises(KeyError, match="the files have no column 'n'"):
        lookup_join(facts, f"{dim}/*.parquet", "n")
    with pytest.raises(PythonException, match=r"MissingKeyError: .*has no rows for"):
        lookup_join(facts, f"{dim}/*.parquet", "user", on_miss="raise").collect()
    copy = tmp_path / "copy.parquet"
    pq.write_table(pa.table({"user": [1], "v": [1]}), copy)
    planned = lookup_join(facts, copy, "user")
    pq.write_table(pa.table({"user": [1, 2], "v": [1, 1]}), copy)
    with pytest.raises(PythonException, match=r"StaleStoreError: .*rewritten since the files"):
        planned.collect()


def test_timestamps_of_96_bits_are_those_that_spark_shows(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "times")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        dim = spark.sql(
            "SELECT id, timestamp('2020-01-01 10:00:00') + make_interval(id * 3000) AS at "
            "FROM range(3)"
        )
        dim.repartition(1).write.parquet(path)
        facts = spark.range(4)
        shown = ["id", "cast(at AS string) AS at"]
        wanted = rows_of(facts.join(spark.read.parquet(path), "id", "left").selectExpr(*shown))
        assert wanted[0] == (0, "2020-01-01 10:00:00")
        assert wanted[2] == (2, "8020-01-01 10:00:00")
        assert rows_of(lookup_join(facts, path, "id").selectExpr(*shown)) == wanted
        found = lookup_join(dim, path, "at", columns=["id"], prefix="found_")
        assert rows_of(found.selectExpr("id", "found_id")) == [(0, 0), (1, 1), (2, 2)]
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_text_of_a_collation_is_no_key(spark: SparkSession, tmp_path: Path) -> None:
    """Spark finds `ABC` at `abc`; a store compares bytes."""
    pq.write_table(pa.table({"k": ["abc"], "v": [1]}), tmp_path / "f.parquet")
    facts = spark.sql("SELECT 'ABC' COLLATE UTF8_LCASE AS k, 'x' COLLATE UNICODE AS other")
    for action in (
        lambda: lookup_join(facts, str(tmp_path), "k"),
        lambda: build_store(facts.select("k"), str(tmp_path / "s"), key="k"),
        lambda: build_store(
            facts.selectExpr("1 AS id", "array(k) AS k"), str(tmp_path / "s"), key="id"
        ),
    ):
        with pytest.raises(TypeError, match=r"UTF8_LCASE.*F\.collate\(.*'UTF8_BINARY'\)"):
            action()
    plain = facts.select(F.collate("k", "UTF8_BINARY").alias("k"), "other")
    got = lookup_join(plain, str(tmp_path), "k")
    assert rows_of(got) == [("ABC", "x", None)]
    assert got.schema["other"].dataType == facts.schema["other"].dataType


@pytest.mark.parametrize("is_path", [True, False])
def test_a_delta_table_is_a_dimension(
    spark: SparkSession, facts: DataFrame, dim: Path, tmp_path: Path, is_path: bool
) -> None:
    rows = pq.read_table(dim)
    path = str(tmp_path / "table")
    for start in range(0, rows.num_rows, 400):
        deltalake.write_deltalake(path, rows.slice(start, 400), mode="append")
    deltalake.DeltaTable(path).delete("user < 300")
    table = path if is_path else deltalake.DeltaTable(path)
    left = spark.read.parquet(str(dim)).where("user >= 300")
    for how in ("left", "semi"):
        got = lookup_join(facts, table, "user", how)
        assert rows_of(got) == rows_of(facts.join(left, "user", how).select(*got.columns))
    deltalake.DeltaTable(path).delete("user < 600")
    again = lookup_join(facts, path, "user", "semi")
    assert rows_of(again) == rows_of(
        facts.join(left.where("user >= 600"), "user", "semi").select("n", "user")
    )


def test_a_paimon_table_is_a_dimension(
    spark: SparkSession,
    facts: DataFrame,
    dim: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Executors merge the rows of a key that several files have, and need no pypaimon."""
    fields = {"user": "BIGINT NOT NULL", "name": "STRING"}
    table = PaimonTable(tmp_path / "t", fields, ["user"], options={"bucket": "1"})
    users = pq.read_table(dim)["user"].cast(pa.int64()).to_pylist()

    def rows(ids: list[int], name: str) -> pa.Table:
        return pa.table({"user": pa.array(ids, pa.int64()), "name": [f"{name}{i}" for i in ids]})

    count = len(users)
    table.commit(table.add(rows(users, "old"), level=5))
    again = users[::3]
    kinds = [3 if at % 2 else 0 for at in range(len(again))]
    sequence = range(count, count + len(again))
    table.commit(table.add(rows(again, "new"), sequence=sequence, kinds=kinds))
    names = {one: f"old{one}" for one in users} | {one: f"new{one}" for one in again}
    for one in again[1::2]:
        del names[one]
    got = lookup_join(facts, str(tmp_path / "t"), "user", "inner")
    wanted = [(row.n, row.user, names[row.user]) for row in facts.collect() if row.user in names]
    assert wanted
    assert rows_of(got) == sorted(wanted, key=repr)
    stand_in(monkeypatch)
    io = SimpleNamespace(to_filesystem_path=str)
    opened = FileStoreTable(str(tmp_path / "t"), SimpleNamespace(id=0, options={"bucket": "1"}), io)
    assert rows_of(lookup_join(facts, opened, "user", "inner", refresh="1m")) == rows_of(got)
    for given in (str(tmp_path / "t"), opened):
        path = tmp_path / f"store of {type(given).__name__}"
        with build_store(given, path, key="user", spark=spark) as store:
            assert {key: row["name"] for key, row in store.items()} == names
    first = opened.copy({"scan.snapshot-id": "1"})
    old = lookup_join(facts, first, "user", "inner", columns=["name"])
    assert {row.name for row in old.collect()} <= {f"old{one}" for one in users}
    with pytest.raises(ValueError, match=r"opened with the option 'scan.snapshot-id'"):
        lookup_join(facts, first, "user", refresh="per_batch")


@pytest.mark.parametrize("how", HOWS)
def test_only_rows_that_meet_the_condition_are_joined(
    spark: SparkSession, facts: DataFrame, dim: Path, tmp_path: Path, how: str
) -> None:
    condition = "grade < 3 and score > 20 and user <> 600"
    left = spark.read.parquet(str(dim)).where(condition)
    store = build_store(spark.read.parquet(str(dim)), tmp_path / "s", key="user", buckets=3)
    names = [] if how in ("semi", "anti") else ["name"]
    wanted = rows_of(facts.join(left, "user", how).select("n", "user", *names))
    for dimension in (store, str(dim), ColumnarFiles(dim, key="user")):
        got = lookup_join(facts, dimension, "user", how, names or None, where=condition)
        assert rows_of(got) == wanted
    with pytest.raises(FileNotFoundError, match=r"^store: .*no.parquet: no such file or folder"):
        lookup_join(facts, str(tmp_path / "no.parquet"), "user")
    with pytest.raises(ValueError, match=r"where: there is no column 'grad'; did you mean 'grade'"):
        lookup_join(facts, store, "user", where=("grad", "<", 3))


def test_conditions_on_fields_of_structs(spark: SparkSession, tmp_path: Path) -> None:
    kind = "user int, address struct<city: string, zip: int>"
    rows = [(at, None if at % 5 == 0 else (f"c{at % 3}", at)) for at in range(40)]
    df = spark.createDataFrame(rows, kind).repartition(3)
    df.write.parquet(str(tmp_path / "t"))
    facts = spark.range(50).selectExpr("cast(id as int) user")
    store = build_store(df, tmp_path / "s", key="user", buckets=2)
    for condition in ("address.city = 'c1' and address.zip > 7", "not address.zip < 20"):
        wanted = rows_of(df.where(condition).select("user"))
        for dimension in (store, str(tmp_path / "t")):
            got = lookup_join(facts, dimension, "user", "semi", where=condition)
            assert rows_of(got) == wanted
