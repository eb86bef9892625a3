"""Stores built with Spark: equal to those of one process, whatever happens to the tasks."""

from __future__ import annotations

import datetime
import decimal
import inspect
import os
import random
import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import types as sql_types
from support.object_store import BUCKET, pandas_names, writable_object_store

import lookupstore
from lookupstore import CorruptionError
from lookupstore.builder import bucket_count
from lookupstore.builder.plan import plan_build
from lookupstore.hudi import HudiTable
from lookupstore.spark import build_store, lookup_join, update_store
from lookupstore.spark.build import build as spark_build
from lookupstore.spark.build.packs import unpack
from lookupstore.spark.build.plan_size import plan_bytes
from lookupstore.spark.types import TIME_SETTING, arrow_schema
from lookupstore.storage.location import Location
from lookupstore.store.data_files import FileOptions
from lookupstore.store.store import LookupStore
from lookupstore.store.version_files import read_newest

pytestmark = [
    pytest.mark.spark,
    # PySpark 4.0 leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

UTC = datetime.timezone.utc
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("region", pa.string()),
        ("rank", pa.float64()),
        ("name", pa.string()),
        ("price", pa.decimal128(12, 3)),
        ("seen", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("lat", pa.float32()), ("codes", pa.list_(pa.int16()))])),
        ("raw", pa.binary()),
    ]
)


def rows_of(rng: random.Random, count: int, keys: int) -> pa.Table:
    """Make rows whose keys repeat about `count / keys` times, with nulls in every value column."""

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.1 else value

    return pa.Table.from_pylist(
        [
            {
                "id": rng.randrange(keys) - keys // 2,
                "region": rng.choice(["eu", "us", "é\0", ""]),
                "rank": maybe(rng.choice([float("nan"), -0.0, 0.0, 1.5, float("-inf")])),
                "name": maybe(f"{i:x}" * rng.randrange(4)),
                "price": maybe(decimal.Decimal(rng.randrange(-(10**9), 10**9)).scaleb(-3)),
                "seen": maybe(datetime.datetime.fromtimestamp(rng.randrange(2**31), UTC)),
                # Later than 1582: Spark reads older days of ORC in another calendar.
                "day": maybe(datetime.date.fromordinal(rng.randrange(600_000, 800_000))),
                "tags": maybe([maybe(str(j)) for j in range(rng.randrange(3))]),
                "place": maybe({"lat": rng.random(), "codes": maybe([i % 100])}),
                "raw": maybe(rng.randbytes(rng.randrange(5))),
            }
            for i in range(count)
        ],
        schema=SCHEMA,
    )


def write_files(table: pa.Table, folder: Path, sizes: list[int]) -> list[str]:
    """Write the table as Parquet files of that many rows, with small row groups."""
    paths = []
    for i, size in enumerate(sizes):
        start = sum(sizes[:i])
        paths.append(str(folder / f"part {i:02d} %é.parquet"))
        pq.write_table(table.slice(start, size), paths[-1], row_group_size=50)
    return paths


def content(store: LookupStore) -> tuple[pa.Schema, str]:
    """Return schema and all rows; as text, so that NaN equals NaN."""
    return store.schema, repr(store.scan().read_all().to_pylist())


def stored_files(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


def clean(store: LookupStore) -> None:
    """Check that the store is whole, and that nothing else is in its folder."""
    assert store.verify().stray == ()
    assert len(stored_files(Path(store.path))) == store.info().files + 1


@pytest.mark.few(1)
@pytest.mark.parametrize("on_duplicate", ["first", "last", ("max", "rank")], ids=str)
def test_equal_to_one_process(spark, tmp_path, seed, on_duplicate):
    rng = random.Random(seed)
    source = tmp_path / "source"
    source.mkdir()
    # Sizes that grow, because Spark reads large files first and our order is by name.
    write_files(rows_of(rng, 900, 250), source, [10, 90, 300, 500])
    arguments = {"key": ["region", "id"], "on_duplicate": on_duplicate, "buckets": 3}
    alone = lookupstore.build(source, tmp_path / "alone", **arguments)
    spark.conf.set("spark.sql.files.maxPartitionBytes", 16384)
    try:
        store = build_store(str(source), tmp_path / "store", **arguments)
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert content(store) == content(alone)
    assert store.num_rows < 900
    assert store.info().options == alone.info().options
    assert [f.num_records for f in read_newest(store.location).files] == [
        f.num_records for f in read_newest(alone.location).files
    ]
    clean(store)


def test_files_count_in_the_order_they_are_listed(spark, tmp_path, seed):
    table = rows_of(random.Random(seed), 300, 20)
    paths = write_files(table, tmp_path, [100, 150, 50])[::-1]
    arguments = {"key": "id", "on_duplicate": "last", "columns": ["name", "region"]}
    alone = lookupstore.build(paths, tmp_path / "alone", **arguments)
    store = build_store(paths, tmp_path / "store", **arguments)
    assert content(store) == content(alone)
    assert store.value_schema.names == ["name", "region"]


def test_a_file_that_was_not_there_when_planned():
    schema = pa.schema([("id", pa.int64())])
    plan = plan_build(schema, key="id", on_duplicate="last")
    task = spark_build.BuildTask(
        plan, schema, ("file:/a", "file:/b"), Location("nowhere"), "0", 1, FileOptions(), {}
    )
    rows = {"id": [1, 1], "file": ["file:/b", "file:/a"], "split": [0, 0], "row": [0, 1]}
    (packs,) = spark_build.encode_batches(task, iter([pa.record_batch(rows)]))
    later, earlier = unpack(packs, task.packed)["rank"].to_pylist()
    assert later > earlier
    rows["file"][1] = "file:/c"
    with pytest.raises(ValueError, match="the source files changed while the build ran"):
        list(spark_build.encode_batches(task, iter([pa.record_batch(rows)])))


def test_orc_unique_keys(spark, tmp_path, seed):
    table = rows_of(random.Random(seed), 400, 10).set_column(0, "id", pa.array(range(400)))
    table = table.drop_columns(["seen"])  # Spark 4.0 cannot read zoned timestamps of ORC
    source = tmp_path / "rows.orc"
    pyarrow.orc.write_table(table, str(source))
    store = build_store(source, tmp_path / "store", key="id")
    assert content(store)[1] == content(lookupstore.build(table, tmp_path / "a", key="id"))[1]
    assert store.info().source == str(source)


@pytest.mark.parametrize("kind", ["path", "DataFrame", "join"])
def test_buckets_are_chosen_by_the_size_of_the_source(spark, tmp_path, monkeypatch, kind):
    rows = {"id": range(4000), "text": [f"{i * 7919:040d}" for i in range(4000)]}
    table = pa.table(rows)
    pq.write_table(table, tmp_path / "rows.parquet", compression="none", use_dictionary=False)
    df = spark.read.parquet(str(tmp_path / "rows.parquet"))
    if kind == "join":  # the statistics of which are the product of its sides
        df = df.join(spark.range(4000), "id")
    source = tmp_path / "rows.parquet" if kind == "path" else df
    # The setting, which is 2 in this session, does not count.
    monkeypatch.setattr(bucket_count, "FILE_BYTES", 150_000)
    with build_store(source, tmp_path / "s", key="id") as store:
        assert 3 <= store.info().buckets <= 6
        assert store.to_arrow().to_pylist() == table.to_pylist()
    with build_store(source, tmp_path / "s", key="id", overwrite=True, buckets=1) as store:
        assert store.info().buckets == 1
    with build_store(source, tmp_path / "s", key="id", overwrite=True) as store:
        assert store.info().buckets == 1
    monkeypatch.undo()
    if kind == "DataFrame":
        with build_store(source, tmp_path / "one", key="id") as store:
            assert store.info().buckets == 1


def test_buckets_of_a_hudi_table_are_chosen_by_its_files(spark, tmp_path, monkeypatch):
    schema = pa.schema({"id": pa.int64(), "text": pa.string()})
    table = HudiTable.create(tmp_path / "t", schema, record_key=["id"])
    table.insert(pa.table({"id": range(900), "text": ["x"] * 900}, schema=schema))
    monkeypatch.setattr(bucket_count, "FILE_BYTES", 20_000)
    (size,) = (path.stat().st_size for path in (tmp_path / "t").glob("*.parquet"))
    with build_store(tmp_path / "t", tmp_path / "s", key="id") as store:
        assert store.info().buckets == -(-3 * size // 20_000) > 1
        assert list(store) == list(range(900))


def test_what_spark_knows_of_sizes(spark, tmp_path):
    pq.write_table(pa.table({"id": range(1000), "v": range(1000)}), tmp_path / "a.parquet")
    size = (tmp_path / "a.parquet").stat().st_size
    files = spark.read.parquet(str(tmp_path / "a.parquet"))
    assert plan_bytes(files) == pytest.approx(3 * size, rel=0.05)
    assert plan_bytes(files.select("id")) < plan_bytes(files)
    assert plan_bytes(files.union(files)) == pytest.approx(6 * size, rel=0.05)
    assert plan_bytes(spark.range(1 << 20)) == 8 << 20
    assert plan_bytes(spark.range(50).join(spark.range(60), "id")) <= (50 + 60) * 8
    # It does not know what a function makes, nor the rows of Python's lists that it got as an RDD.
    assert plan_bytes(spark.range(9).mapInArrow(lambda rows: rows, "id long")) is None
    assert plan_bytes(spark.sparkContext.parallelize([(1,)]).toDF(["id"])) is None
    with build_store(spark.range(9).mapInArrow(lambda rows: rows, "id long"), tmp_path / "s",
                     key="id") as store:  # fmt: skip
        assert store.info().buckets == 8
        assert list(store) == list(range(9))


def test_times_of_orc_are_those_of_its_clock(spark, tmp_path, monkeypatch):
    source = Path(__file__).parents[2] / "golden" / "sources" / "writer-in-shanghai.orc"
    with build_store(source, tmp_path / "spark", key="ts") as store:
        (found,) = store.to_arrow()["ts"].cast(pa.timestamp("us")).to_pylist()
    with lookupstore.build(source, tmp_path / "one", key="ts") as store:
        (wanted,) = store.to_arrow()["ts"].cast(pa.timestamp("us")).to_pylist()
    assert found == wanted
    # In a JVM of another zone Spark has other instants.
    monkeypatch.setattr("lookupstore.spark.build.clocks._UTC", {"Asia/Shanghai"})
    with pytest.raises(ValueError, match=r"the ORC column 'ts' .* -Duser\.timezone=UTC"):
        build_store(source, tmp_path / "other", key="ts")
    build_store(spark.read.orc(str(source)), tmp_path / "other", key="ts").close()


def test_dataframe_order_decides(spark, tmp_path):
    df = spark.range(1000, numPartitions=4).selectExpr("id % 100 AS `the.id`", "id AS `v``x`")
    for rule, expected in [("first", 7), ("last", 907), (("max", "v`x"), 907)]:
        store = build_store(
            df,
            tmp_path / "store",
            key="the.id",
            on_duplicate=rule,
            overwrite=True,
            retain=0,
            buckets=2,
        )
        assert store.get(7) == {"v`x": expected}
        assert store.num_rows == 100
        clean(store)


def test_null_keys_and_few_keys_for_many_buckets(spark, tmp_path):
    df = spark.createDataFrame([("a", 1), (None, 2)], "k string, v int")
    store = build_store(df, tmp_path / "store", key="k", nullable_keys=["k"], buckets=5)
    assert store.scan().read_all().to_pylist() == [{"k": None, "v": 1 + 1}, {"k": "a", "v": 1}]
    assert store.info().buckets == 5
    assert store.info().files <= 2


def test_no_rows(spark, tmp_path):
    store = build_store(spark.range(0), tmp_path / "store", key="id", buckets=2)
    assert store.num_rows == 0
    assert store.get(1) is None
    assert store.schema.names == ["id"]


def test_repartition_where_spark_lacks_repartition_by_id(spark, tmp_path, monkeypatch):
    """Spark 4.0 may send several buckets to one task."""
    df = spark.range(500).selectExpr("id", "cast(id AS string) AS name")
    plain = build_store(df, tmp_path / "plain", key="id", buckets=7)
    for kind in {type(df), *type(df).__mro__[:-1]}:
        if "repartitionById" in vars(kind):
            monkeypatch.delattr(kind, "repartitionById")
    hashed = build_store(df, tmp_path / "hashed", key="id", buckets=7)
    assert content(hashed) == content(plain)
    assert hashed.info().files == 7


def killed(real: Any, when: str) -> Any:
    """Wrap a task so that the Python worker of the first attempt of the first task is killed."""

    def run(task: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        doomed = context.attemptNumber() == 0 and context.partitionId() == 0

        def cut(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for i, batch in enumerate(batches):
                if doomed and when == "half read" and i == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                yield batch

        for batch in real(task, cut(batches)):
            if doomed and when == "done":
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    return run


@pytest.mark.parametrize("when", ["half read", "done"])
@pytest.mark.parametrize("stage", ["encode_batches", "write_batches"])
def test_first_attempt_is_killed(spark, tmp_path, monkeypatch, stage, when):
    df = spark.range(0, 2000, numPartitions=2).selectExpr("id", "id * 2 AS double")
    monkeypatch.setattr(spark_build, stage, killed(getattr(spark_build, stage), when))
    store = build_store(df, tmp_path / "store", key="id", buckets=2)
    clean(store)
    assert store.scan().read_all().to_pylist() == [{"id": i, "double": 2 * i} for i in range(2000)]


def test_every_attempt_is_killed(spark, tmp_path, monkeypatch):
    def die(task, batches):
        os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    monkeypatch.setattr(spark_build, "write_batches", die)
    with pytest.raises(Exception, match="Python worker exited unexpectedly"):
        build_store(spark.range(10), tmp_path / "store", key="id")
    assert not (tmp_path / "store").exists()


def test_attempts_that_both_end_leave_one_file_a_bucket(spark, tmp_path, monkeypatch):
    """What speculation does: the same task runs to its end twice, and one result is taken."""
    real = spark_build.write_batches

    def twice(task, batches):
        rows = list(batches)
        list(real(task, iter(rows)))
        yield from real(task, iter(rows))

    monkeypatch.setattr(spark_build, "write_batches", twice)
    store = build_store(spark.range(300), tmp_path / "store", key="id", buckets=3)
    clean(store)
    assert store.info().files == 3
    assert store.num_rows == 300


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "id % 50 AS id",
            r"the key id=\d+ occurs more than once in the source; pass on_duplicate=",
        ),
        ("nullif(id, 77) AS id", "key column 'id' is null in a row of the source; pass nullable_"),
        (
            "CAST(if(id = 7, X'5AFC', X'61') AS string) AS id",
            r"the source: the column 'id' has text that is not UTF-8: b'Z\\xfc'; write it again",
        ),
    ],
    ids=["repeated", "null", "not UTF-8"],
)
def test_errors_of_executors_come_out_as_raised(spark, tmp_path, sql, message):
    old = lookupstore.build(pa.table({"id": [1]}), tmp_path / "store", key="id")
    df = spark.range(100).selectExpr(sql)
    with pytest.raises(ValueError, match=message) as error:
        build_store(df, old.path, key="id", buckets=2, overwrite=True, allow_new_key=True)
    assert "\n" not in str(error.value)
    assert error.value.__cause__ is None
    with LookupStore(old.path) as again:
        assert again.id == old.id
        clean(again)


def test_error_of_the_users_own_function_is_left_alone(spark, tmp_path):
    def fail(batches):
        for _ in batches:
            raise ValueError("mine")
        yield from batches

    df = spark.range(10).mapInArrow(fail, "id long")
    with pytest.raises(Exception, match="in fail\n") as error:
        build_store(df, tmp_path / "store", key="id")
    assert not isinstance(error.value, ValueError)
    assert not (tmp_path / "store").exists()


def test_files_that_the_driver_does_not_see(spark, tmp_path, monkeypatch):
    real = spark_build.write_batches

    def elsewhere(task, batches):
        for batch in real(task, batches):
            for name in batch.column("name").to_pylist():
                task.location.delete(name)
            yield batch

    monkeypatch.setattr(spark_build, "write_batches", elsewhere)
    with pytest.raises(FileNotFoundError, match="a file system that both share"):
        build_store(spark.range(10), tmp_path / "store", key="id")


def test_errors_before_anything_runs(spark, tmp_path):
    df = spark.range(3).selectExpr("id", "make_interval(1) AS i", "named_struct('a', 1) AS s")
    path = tmp_path / "store"
    with pytest.raises(KeyError, match=r"no column 'nope'; it has \['id', 's'\]"):
        build_store(df.drop("i"), path, key="nope")
    with pytest.raises(TypeError, match="column 'i' is interval, which Spark cannot give"):
        build_store(df, path, key="id")
    with pytest.raises(TypeError, match="key field 's' is struct"):
        build_store(df.drop("i"), path, key="s")
    with pytest.raises(ValueError, match="on_duplicate is 'any'"):
        build_store(df.drop("i"), path, key="id", on_duplicate="any")
    with pytest.raises(ValueError, match="buckets is 0; give a number from 1"):
        build_store(df.drop("i"), path, key="id", buckets=0)
    with pytest.raises(TypeError, match="df_or_path: found a int; give a Spark DataFrame"):
        build_store(5, path, key="id")
    with pytest.raises(FileNotFoundError, match=r"none\.parquet: no such file or folder"):
        build_store(tmp_path / "none.parquet", path, key="id")
    assert not path.exists()
    build_store(df.drop("i"), path, key="id")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        build_store(df.drop("i"), path, key="id")


def test_a_flipped_byte_of_a_spark_built_file_is_seen(spark, tmp_path):
    store = build_store(spark.range(100), tmp_path / "store", key="id", buckets=1)
    (file,) = (tmp_path / "store" / "data").iterdir()
    held = bytearray(file.read_bytes())
    held[20] ^= 1
    file.write_bytes(held)
    with pytest.raises(CorruptionError, match=file.name):
        LookupStore(store.path).verify()


def test_arrow_schema_is_what_spark_gives(spark: SparkSession):
    df = spark.sql(
        "SELECT 1Y a, 1S b, 1 c, 1L d, 1F e, 1D f, true g, 'x' h, X'00' i, 1.50BD j,"
        " DATE'2020-01-01' k, TIMESTAMP'2020-01-01 00:00:00' l,"
        " TIMESTAMP_NTZ'2020-01-01 00:00:00' m, INTERVAL '1' DAY n, NULL o,"
        " array(1, null) p, map('k', array(1L)) q, named_struct('u', 1, 'v', array('w')) r"
    )

    def types(batches):
        for batch in batches:
            yield pa.record_batch({"schema": [batch.schema.serialize().to_pybytes()]})

    (row,) = df.mapInArrow(types, "schema binary").collect()
    given = pa.ipc.read_schema(pa.py_buffer(row.schema))
    assert given.remove_metadata() == arrow_schema(df.schema)
    assert [field.nullable for field in given] == [f.nullable for f in arrow_schema(df.schema)]


def test_sources_of_another_kind_are_named_and_not_printed(spark, tmp_path):
    table = pa.table({"id": [1, 2]})
    remedy = r"give .*, or a table of Delta, .*; for a HudiTable, give its path; for an Arrow .*"
    for source in (table, table.to_pandas(), [tmp_path, table]):
        with pytest.raises(
            TypeError, match=rf"^df_or_path: found a (pyarrow|pandas)\S*; {remedy}$"
        ):
            build_store(source, tmp_path / "store", key="id")
    lookupstore.build(table, tmp_path / "store", key="id").close()  # as the error says
    with pytest.raises(TypeError, match="df_or_path is empty; give a Spark DataFrame"):
        build_store([], tmp_path / "store", key="id")


def test_a_missing_local_source_is_found_before_spark_is_asked(monkeypatch, tmp_path):
    def asked(*_: Any) -> None:
        raise AssertionError("Spark was asked")

    monkeypatch.setattr(spark_build, "session", asked)
    pq.write_table(pa.table({"id": [1]}), tmp_path / "there.parquet")
    for source in (tmp_path / "nope.parquet", [tmp_path / "there.parquet", f"{tmp_path}/nope"]):
        with pytest.raises(FileNotFoundError, match=r"^df_or_path: .*/nope.*: no such file or"):
            build_store(source, tmp_path / "store", key="id")
    for source, right in (
        (f"file:{tmp_path}/there.parquet", f"'file://{tmp_path}/there.parquet'"),
        ("dbfs:/users", "'/dbfs/users'"),
    ):
        with pytest.raises(ValueError, match=f"^path .*; give {re.escape(right)}$"):
            build_store(source, tmp_path / "store", key="id")
        with pytest.raises(ValueError, match=f"^path .*; give {re.escape(right)}$"):
            build_store(tmp_path / "there.parquet", source, key="id")
    with pytest.raises(AssertionError, match="Spark was asked"):
        build_store(tmp_path / "*.parquet", tmp_path / "store", key="id")


def test_other_sources_name_what_to_give(spark, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"catalog, give spark\.table\('some\.table'\)$"):
        build_store("some.table", tmp_path / "store", key="id")
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "part-0.json").write_text('{"id": 1}\n')
    message = r"^df_or_path: .*/rows: no file below it .*; give the DataFrame .* spark\.read\.json"
    with pytest.raises(FileNotFoundError, match=message):
        build_store(tmp_path / "rows", tmp_path / "store", key="id")
    stream = spark.readStream.schema("id long").json((tmp_path / "rows").as_uri())
    with pytest.raises(ValueError, match=r"^df_or_path is a stream; call .* in foreachBatch$"):
        build_store(stream, tmp_path / "store", key="id")
    build_store(spark.range(1), tmp_path / "store", key="id").close()
    with pytest.raises(ValueError, match=r"^df is a stream; call update_store"):
        update_store(stream, tmp_path / "store")


def test_parquet_types_that_spark_does_not_read(spark, tmp_path):
    at = pa.array([1001], pa.timestamp("ns"))
    pq.write_table(pa.table({"id": [1], "at": at, "b": at, "c": ["x"]}), tmp_path / "ns.parquet")
    message = r"^df_or_path: .*ns\.parquet: .* columns 'at', 'b'; build with lookupstore.build"
    with pytest.raises(TypeError, match=message + "[^\n]*$"):
        build_store(tmp_path / "ns.parquet", tmp_path / "store", key="id", spark=spark)
    assert not (tmp_path / "store").exists()


def test_parquet_times_where_the_session_has_them_off(spark, tmp_path):
    if not hasattr(sql_types, "TimeType"):
        pytest.skip("times came with Spark 4.1")
    source = tmp_path / "times.parquet"
    pq.write_table(pa.table({"id": [1], "t": pa.array([7], pa.time64("us"))}), source)
    store = build_store(source, tmp_path / "on", key="id", spark=spark)
    assert store.get(1) == {"t": datetime.time(0, 0, 0, 7)}
    spark.conf.set(TIME_SETTING, "false")
    try:
        with pytest.raises(TypeError, match=f"times.parquet: .* times off; set {TIME_SETTING}"):
            build_store(source, tmp_path / "off", key="id", spark=spark)
    finally:
        spark.conf.set(TIME_SETTING, "true")


def test_only_buckets_that_changed_are_written_again(spark, tmp_path, seed):
    """The source text changes with each, and the rows of one bucket."""
    keys = random.Random(seed).sample(range(10_000), 600)
    arguments = {"key": "id", "buckets": 4, "overwrite": True}
    first = build_store(spark.createDataFrame([(k, 1) for k in keys], "id long, v int"),
                        tmp_path / "store", **arguments)  # fmt: skip
    assert first.info().rewritten_buckets == 4
    before = {file.bucket: file.name for file in read_newest(first.location).files}
    changed = [(k, 2 if k == keys[0] else 1) for k in keys]
    second = build_store(spark.createDataFrame(changed[::-1], "id long, v int"),
                         tmp_path / "store", **arguments)  # fmt: skip
    assert second.info().rewritten_buckets == 1
    after = {file.bucket: file.name for file in read_newest(second.location).files}
    assert len(set(before.values()) & set(after.values())) == 3
    assert second.scan().read_all().to_pylist() == [{"id": k, "v": v} for k, v in sorted(changed)]
    assert second.verify().stray == ()
    assert first.get(keys[0]) == {"v": 1}


def test_a_store_that_is_not_local(spark, tmp_path, seed):
    """Executors upload what they wrote; nothing else is left, here or there."""
    remote = Location("there", filesystem=fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()))
    assert not remote.in_place
    keys = random.Random(seed).sample(range(10_000), 600)
    df = spark.createDataFrame([(k, str(k)) for k in keys], "id long, v string")
    before = set(os.listdir(tempfile.gettempdir()))
    with build_store(df, remote, key="id", buckets=3) as store:
        assert store.path == "subtree://there"
        assert store.lookup(keys)["v"].to_pylist() == [str(k) for k in keys]
        assert store.verify().stray == ()
        assert len(stored_files(tmp_path / "there")) == 4
    left = {name for name in set(os.listdir(tempfile.gettempdir())) - before if "lookupst" in name}
    assert left == set()
    with pytest.raises(ValueError, match="occurs more than once"):
        build_store(df.union(df), remote, key="id", buckets=3, overwrite=True)
    assert len(stored_files(tmp_path / "there")) == 4


def test_executors_have_the_options_of_a_uri(spark, tmp_path):
    """Nothing in their environment says where the store is, or who asks for it."""
    assert "AWS_ACCESS_KEY_ID" not in os.environ
    df = spark.createDataFrame([(k, str(k)) for k in range(100)], "id long, v string")
    with writable_object_store() as server:
        options = pandas_names(server)
        with build_store(
            df, f"s3://{BUCKET}/store", key="id", buckets=2, storage_options=options
        ) as store:
            facts = spark.createDataFrame([(k,) for k in range(90, 110)], "id long")
            joined = {row.id: row.v for row in lookup_join(facts, store, on="id").collect()}
    assert joined == {k: str(k) if k < 100 else None for k in range(90, 110)}
    with pytest.raises(ValueError, match="storage_options are for URIs"):
        build_store(df, tmp_path / "store", key="id", storage_options=options)


def test_arguments_are_those_of_build_without_what_spark_settles():
    given = set(inspect.signature(build_store).parameters) - {"df_or_path", "spark"}
    alone = set(inspect.signature(lookupstore.build).parameters)
    settled = {
        "memory", "temp_dir", "progress", "threads", "max_text", "where",
    }  # fmt: skip
    assert alone - given == {"source", *settled}
    assert given <= alone
    for name in ("where", "filter"):
        with pytest.raises(TypeError, match=rf"no argument '{name}'; .*spark.read.*\.where\("):
            build_store("a.parquet", "s", key="id", **{name: "id > 1"})
    with pytest.raises(TypeError, match=r"no argument 'on'; give key=$"):
        build_store("a.parquet", "s", on="id")
