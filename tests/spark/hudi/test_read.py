"""Hudi tables in Spark, compared with hudi-rs, with Spark's own Parquet reader, and with dicts."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from support.hudi.versions import VERSIONS
from support.object_store import FOR_WRITES, has_server, object_store

from lookupstore.hostcache.folder import default_folder
from lookupstore.hudi import HudiTable, TableLookup, WriteOptions
from lookupstore.keys.joins import HOWS
from lookupstore.spark import (
    LookupMetrics,
    explain_join,
    lookup_join,
    read_table,
    tag_location,
)

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

try:
    from pyspark.sql import datasource
except ImportError:
    datasource = None
needs_source = pytest.mark.skipif(datasource is None, reason="sources came with Spark 4.0")

ORDER = ["_hoodie_partition_path", "_hoodie_record_key", "_hoodie_file_name"]
SCHEMA = pa.schema(
    {
        "id": pa.int32(),
        "day": pa.string(),
        "n": pa.int32(),
        "at": pa.timestamp("us", "UTC"),
        "x": pa.float64(),
    }
)
DAYS = ["2026-11-19", "2026-11-20", "2026-11-21"]


def by_source(spark: SparkSession, path: Path | str, **options: Any) -> DataFrame:
    return spark.read.format("lookupstore.hudi").options(**options).load(str(path))


def both_ways(
    spark: SparkSession, path: Path | str, columns: Sequence[str] | None = None, **options: str
) -> list[DataFrame]:
    """Return a table by `read_table` and, where Spark has it, by the data source."""
    ways = [read_table(spark, path, columns=columns, **options)]
    if datasource is not None:
        named = {} if columns is None else {"columns": ",".join(columns)}
        ways.append(by_source(spark, path, **named, **options))
    return ways


def rows_of(df: DataFrame) -> list[str]:
    """Return rows in an order, and so that NaN equals itself."""
    # Before Spark 4.1 binary values are byte arrays.
    plain = [[bytes(v) if isinstance(v, bytearray) else v for v in row] for row in df.collect()]
    return sorted(repr(tuple(row)) for row in plain)


def rows_of_table(table: pa.Table) -> list[str]:
    """Return rows as `rows_of` gives them."""
    given = table.cast(
        pa.schema([(f.name, plain(f.type)) for f in table.schema])  # Spark gives naive datetimes
    )
    return sorted(repr(tuple(one.values())) for one in given.to_pylist())


def plain(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us") if pa.types.is_timestamp(kind) else kind


def by_parquet(spark: SparkSession, table: HudiTable, as_of: str | None = None) -> DataFrame:
    """Return the rows as Spark reads the base files, which have all columns, by itself."""
    local = table.location.uri
    paths = [f"{local}/{group.current.path}" for group in table.file_groups(as_of)]
    # Else it makes columns of folders, and Spark 3.5 asks by which calendar old dates are.
    options = {"recursiveFileLookup": "true", "datetimeRebaseMode": "CORRECTED"}
    return spark.read.options(**options).parquet(*paths)


def random_rows(rng: random.Random, count: int) -> pa.Table:
    rows = [
        {
            "id": rng.randrange(60),
            "day": rng.choice(DAYS),
            "n": rng.choice([None, *range(-5, 5)]),
            "at": datetime(2026, 1, rng.randrange(1, 28), 12, 0, 0, 123456, timezone.utc),
            "x": rng.choice([None, float("nan"), -0.0, 1.5, float("-inf")]),
        }
        for _ in range(count)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def random_table(path: Path, rng: random.Random, version: int, writes: int = 5) -> HudiTable:
    table = HudiTable.create(
        path,
        SCHEMA,
        record_key=["id"],
        partition_by=rng.choice([[], ["day"]]),
        version=version,
        hive_style=rng.random() < 0.5,
    )
    for _ in range(writes):
        if rng.random() < 0.3 and table.timeline():
            keys = random_rows(rng, 10).select(["id", "day"])
            table.delete(keys if table.options.partition_by else keys.select(["id"]))
        else:
            table.upsert(random_rows(rng, 30))
    return table


NAMES = (
    "v6_nonpartitioned",
    "v6_complexkeygen_hivestyle",
    "v9_txns_simple_nometa",
    "v9_txns_nonpart_meta",
)


@pytest.mark.parametrize("name", NAMES)
def test_tables_of_apache_hudi_are_what_hudi_rs_reads(
    spark: SparkSession, real_tables: Path, name: str
) -> None:
    from hudi import HudiReadOptions, HudiTableBuilder

    path = real_tables / name
    other = HudiTableBuilder.from_base_uri(str(path)).build()
    times = [one.time for one in HudiTable.open(path).timeline() if one.is_write]
    expected = []
    columns = [*ORDER, "_hoodie_commit_time"]
    parts = []
    for time in times:
        options = HudiReadOptions().with_as_of_timestamp(time)
        batches = [pa.record_batch(batch) for batch in other.read(options)]
        expected += [
            repr((time, *one.values()))
            for batch in batches
            for one in batch.select(columns).to_pylist()
        ]
        past = read_table(spark, path, as_of=time, columns=columns)
        parts.append(past.select(F.lit(time), "*"))
    assert len(times) > 1
    assert rows_of(functools.reduce(DataFrame.union, parts)) == sorted(expected)
    theirs = pa.Table.from_batches(
        [pa.record_batch(batch) for batch in other.read(HudiReadOptions())]
    )
    for ours in both_ways(spark, path):
        assert ours.columns == theirs.column_names
        values = [field.name for field in theirs.schema if not pa.types.is_nested(field.type)]
        assert rows_of(ours.select(values)) == rows_of_table(theirs.select(values))


@pytest.mark.parametrize("version", VERSIONS)
def test_random_tables_are_what_spark_reads_of_their_files(
    spark: SparkSession, tmp_path: Path, version: int, seed: int
) -> None:
    rng = random.Random(seed)
    table = random_table(tmp_path / "t", rng, version)
    writes = [one for one in table.timeline() if one.is_write]
    as_of = rng.choice(writes).time
    assert rows_of(read_table(spark, table)) == rows_of(by_parquet(spark, table))
    expected = rows_of(by_parquet(spark, table, as_of))
    for ours in both_ways(spark, tmp_path / "t", as_of=as_of):
        assert rows_of(ours) == expected
    since, until = sorted(rng.sample([one.position for one in writes], 2))
    names = ["id", "day", "n", "at", "x"]
    for start, end in ((since, until), (None, until)):
        changed = table.incremental(start, end, columns=names)
        ours = read_table(spark, tmp_path / "t", columns=names, since=start, until=end)
        assert rows_of(ours) == rows_of_table(changed)
    became = table.changes(since, until, columns=names, ignore=["x"]).read_all()
    asked = {"columns": names, "since": since, "until": until, "ignore": ["x"]}
    assert rows_of(read_table(spark, table, changes=True, **asked)) == rows_of_table(became)
    for ours in both_ways(spark, tmp_path / "t", names, since=since):
        assert rows_of(ours) == rows_of_table(table.incremental(since, columns=names))
    few = read_table(spark, table, columns=["n", "id"], filter=pc.field("n") > 2)
    assert few.columns == ["n", "id"]
    assert rows_of(few) == rows_of(by_parquet(spark, table).where("n > 2").select("n", "id"))


@pytest.mark.parametrize("version", [6, 9])
def test_rows_of_older_schemas(spark: SparkSession, tmp_path: Path, version: int) -> None:
    inner = pa.struct({"a": pa.int32()})
    schema = pa.schema({"id": pa.int32(), "n": pa.int32(), "s": inner, "t": pa.string()})
    table = HudiTable.create(tmp_path / "t", schema, record_key=["id"], version=version)
    rows = [{"id": 1, "n": 10, "s": {"a": 1}, "t": "x"}, {"id": 2, "n": 2, "s": None, "t": None}]
    first = table.bulk_insert(pa.Table.from_pylist(rows, schema))
    wider = pa.struct({"a": pa.int64(), "b": pa.string()})
    later = pa.schema(
        {"id": pa.int64(), "n": pa.float64(), "s": wider, "t": pa.binary(), "new": pa.date32()}
    )
    more = [{"id": 2**40, "n": 0.5, "s": {"a": 2**40, "b": "b"}, "t": b"\xff", "new": date.max}]
    table.bulk_insert(pa.Table.from_pylist(more, later), options=WriteOptions(evolve=True))
    old = [(1, 10.0, (1, None), bytearray(b"x"), None), (2, 2.0, None, None, None)]
    new = [(2**40, 0.5, (2**40, "b"), bytearray(b"\xff"), date.max)]
    for time, expected in ((None, old + new), (first.instant.time, old)):
        options = {} if time is None else {"as_of": time}
        for df in both_ways(spark, tmp_path / "t", later.names, **options):
            assert df.schema.simpleString() == (
                "struct<id:bigint,n:double,s:struct<a:bigint,b:string>,t:binary,new:date>"
            )
            rows = df.orderBy("id").collect()
            found = [tuple(tuple(v) if n == "s" and v else v for n, v in one.asDict().items())
                     for one in rows]  # fmt: skip
            assert found == expected
    joined = lookup_join(spark.createDataFrame([(2**40,), (1,), (3,)], "id long"), table, "id")
    found = sorted((one.id, one.n, one.s and one.s.a, one.new) for one in joined.collect())
    assert found == [(1, 10.0, 1, None), (3, None, None, None), (2**40, 0.5, 2**40, date.max)]


def test_types_are_those_that_spark_reads_of_the_files(spark: SparkSession, tmp_path: Path) -> None:
    values = {
        "i": pa.array([1, None, -(2**31)], pa.int32()),
        "b": pa.array([True, None, False]),
        "f": pa.array([1.5, None, float("nan")], pa.float32()),
        "bin": pa.array([b"", None, b"\x00\xff"]),
        "d": pa.array([Decimal("1.20"), None, Decimal("-99999.99")], pa.decimal128(7, 2)),
        "day": pa.array([date(1, 1, 1), None, date(9999, 12, 31)]),
        "ms": pa.array([0, None, 1], pa.timestamp("ms", "UTC")),
        "us": pa.array([0, None, -1], pa.timestamp("us", "UTC")),
        "l": pa.array([[1, None], None, []], pa.list_(pa.int64())),
        "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "s": pa.array([{"x": "ü"}, None, {"x": None}]),
        "fixed": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    }
    rows = pa.table({"id": ["a", "b", "c"], **values})
    table = HudiTable.create(tmp_path / "t", rows.schema, record_key=["id"])
    table.insert(rows)
    theirs = by_parquet(spark, table)
    for ours in both_ways(spark, tmp_path / "t"):
        assert ours.dtypes == theirs.dtypes
        assert rows_of(ours) == rows_of(theirs)


CONDITIONS = (
    "n > 0", "n <= 0 AND day >= '2026-11-20'", "n IN (1, 2, NULL)", "n IS NULL", "n <=> NULL",
    "x = double('NaN')", "x > 1", "x <=> NULL OR n = 1", "NOT n = 1", "n = 3000000000",
    "day LIKE '2026-11-2%'", "at > timestamp'2026-01-15 12:00:00 UTC'", "id IN (3, 4, 5)",
    "_hoodie_partition_path LIKE '%20'", "_hoodie_partition_path = '2026-11-20' AND n > 0",
    "_hoodie_partition_path IN ('day=2026-11-19', 'day=2026-11-20')",
    "_hoodie_partition_path IS NULL", "_hoodie_partition_path > '2026-11-20' AND id < 30",
    "_hoodie_commit_time > '2020'",
)  # fmt: skip


@needs_source
def test_filters_leave_what_spark_leaves(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    table = random_table(tmp_path / "t", rng, 9, writes=3)
    # Rows that Spark has at hand: what it filters files and its cache by has no NaN.
    theirs = spark.createDataFrame(by_parquet(spark, table).toArrow())

    def left(load: Callable[[], DataFrame]) -> list[str]:
        parts = [load().where(one).select(F.lit(one), "*") for one in CONDITIONS]
        return rows_of(functools.reduce(DataFrame.union, parts))

    ours = left(lambda: by_source(spark, tmp_path / "t", pushdown="true"))
    assert ours == left(lambda: theirs)
    # Without pushing, two scans of one loaded DataFrame are apart.
    loaded = by_source(spark, tmp_path / "t")
    both = loaded.where("id < 30").union(loaded.where("id >= 30"))
    assert both.count() == theirs.count()


@pytest.mark.skipif(not hasattr(datasource, "EqualTo"), reason="filters come since Spark 4.1")
def test_filters_are_pushed_to_files(spark: SparkSession, tmp_path: Path) -> None:
    """A file that filters leave out may be gone."""
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key=["id"], partition_by=["day"])
    rng = random.Random(1)
    for day in DAYS:
        rows = random_rows(rng, 20)
        day_column = pa.array([day] * 20)
        table.upsert(rows.set_column(1, "day", day_column))
    load = functools.partial(by_source, spark, tmp_path / "t", pushdown="true", columns=",".join(
        ["id", "_hoodie_partition_path"]))  # fmt: skip
    everything, wanted = load(), load().where(f"_hoodie_partition_path = '{DAYS[1]}'")
    by_column = load().select("id").where(f"_hoodie_partition_path = '{DAYS[1]}' AND id >= 0")
    by_filter = read_table(
        spark, table, columns=["id"], filter=(pc.field("day") == DAYS[1]) & (pc.field("id") >= 0)
    )
    expected = table.scan(columns="id", filter=pc.field("day") == DAYS[1])
    found = expected.filter(pc.field("id") >= 0)
    for group in table.file_groups():
        if group.id.partition != DAYS[1]:
            (tmp_path / "t" / group.current.path).unlink()
    (kept,) = (group for group in table.file_groups() if group.id.partition == DAYS[1])
    assert wanted.count() == expected.num_rows
    assert kept.id.partition == DAYS[1]
    for read in (by_column, by_filter):
        assert sorted(one.id for one in read.collect()) == sorted(found["id"].to_pylist())
    with pytest.raises(PythonException, match=r"StaleStoreError: .*deleted (by a clean|since)"):
        everything.count()


def test_a_loaded_table_stays_at_its_instant(spark: SparkSession, tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key=["id"])
    table.insert(pa.table({"id": [1], "day": ["a"]}), missing="null")
    before = both_ways(spark, tmp_path / "t", ["id"])
    table.insert(pa.table({"id": [2], "day": ["a"]}), missing="null")
    assert {df.count() for df in before} == {1}
    assert {df.count() for df in both_ways(spark, tmp_path / "t", ["id"])} == {2}
    assert read_table(spark, table).count() == 2
    HudiTable.create(tmp_path / "e", SCHEMA, record_key=["id"])
    assert {df.count() for df in both_ways(spark, tmp_path / "e")} == {0}


def test_small_files_share_a_task(spark: SparkSession, tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key=["id"], partition_by=["day"])
    days = [f"d{number}" for number in range(12)]
    table.insert(pa.table({"id": range(12), "day": days}), missing="null")
    assert len(table.file_groups()) == 12
    if datasource is not None:
        assert by_source(spark, tmp_path / "t").rdd.getNumPartitions() == 2
    assert read_table(spark, table).rdd.getNumPartitions() >= 2
    assert read_table(spark, table).count() == 12


def test_errors_of_reading(spark: SparkSession, tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key=["id"])
    table.insert(random_rows(random.Random(1), 20))
    path = tmp_path / "t"
    with pytest.raises(FileNotFoundError):
        read_table(spark, tmp_path / "none")
    with pytest.raises(KeyError, match="columns: the table has no column 'm'"):
        read_table(spark, path, columns=["m"])
    with pytest.raises(ValueError, match="columns is empty; name at least one column"):
        read_table(spark, path, columns=[])
    with pytest.raises(ValueError, match="columns names 'id' twice"):
        read_table(spark, path, columns=["id", "id"])
    with pytest.raises(ValueError, match="as_of is '2026'; give the time of an instant, 17 digits"):
        read_table(spark, path, as_of="2026")
    time = table.timeline()[0].time
    with pytest.raises(ValueError, match="as_of cannot be combined with since or until"):
        read_table(spark, path, as_of=time, since=time)
    with pytest.raises(ValueError, match="changes cannot be combined with filter or as_of"):
        read_table(spark, path, as_of=time, changes=True)
    with pytest.raises(ValueError, match="ignore is for changes=True"):
        read_table(spark, path, since=time, ignore=["n"])
    with pytest.raises(ValueError, match="filter: "):
        read_table(spark, path, filter=pc.field("m") > 1)
    (group,) = table.file_groups()
    file = path / group.current.path
    planned = read_table(spark, path)
    content = file.read_bytes()
    file.write_bytes(content[:200] + bytes(8) + content[208:])
    with pytest.raises(PythonException, match=r"CorruptionError: .*a Parquet file"):
        planned.collect()


@needs_source
def test_moments_as_hudi_writes_them(spark: SparkSession, tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key=["id"])
    first = table.insert(random_rows(random.Random(1), 20)).instant
    assert first is not None
    count = table.scan().num_rows
    table.delete(table.scan())
    clock = datetime.strptime(first.time + "000", "%Y%m%d%H%M%S%f")
    for name in ("as_of", "as.of.instant", "timestampAsOf"):
        assert by_source(spark, tmp_path / "t", **{name: str(clock)}).count() == count
    assert read_table(spark, tmp_path / "t", as_of=clock).count() == count
    assert read_table(spark, tmp_path / "t", as_of=first).count() == count
    assert read_table(spark, tmp_path / "t").count() == 0


@needs_source
def test_errors_of_the_source(spark: SparkSession, tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key=["id"])
    table.insert(random_rows(random.Random(1), 20))
    path = tmp_path / "t"
    for options, message in (
        ({"version": "1"}, "no option 'version'; reading a Hudi table has path, columns, query_t"),
        ({"asof": "1"}, r"no option 'asof'; did you mean 'as_of'\? Reading a Hudi table has path"),
        ({"query_type": "fast"}, "query_type is 'fast'; give 'snapshot' or 'read_optimized'"),
        ({"pushdown": "no"}, "pushdown is 'no'; give true or false"),
        ({"until": "soon"}, "until is 'soon'; give the time of an instant"),
        ({"as_of": "2026-01-01", "as.of.instant": "2026-01-01"}, "are one option; give one"),
        ({"timestampAsOf": "2026-01-01", "as.of.instant": "2026-01-01"}, "are one option; give"),
        ({"columns": "id,m"}, "the table has no column 'm'"),
        ({"versionAsOf": "1"}, "commits of Hudi tables have times; give timestampAsOf, an instant"),
        ({"timestampAsOf": "2020-01-01"}, "when the table had no commit yet; give a later time"),
    ):
        with pytest.raises(AnalysisException, match=message):
            by_source(spark, path, **options)
    with pytest.raises(AnalysisException, match="no path; give load"):
        spark.read.format("lookupstore.hudi").load()
    given = spark.read.format("lookupstore.hudi").schema("n int, id int").load(str(path))
    assert given.columns == ["n", "id"]
    assert given.count() == table.scan(columns=["id"]).num_rows
    with pytest.raises(Exception, match="'id' is string; in the table it is int"):
        spark.read.format("lookupstore.hudi").schema("id string").load(str(path)).count()


@pytest.fixture
def facts(spark: SparkSession, seed: int) -> DataFrame:
    rng = random.Random(seed)
    rows = [
        (n, rng.choice([None, *range(-10, 80)]), rng.choice([None, "2026-11-22", *DAYS]))
        for n in range(1000)
    ]
    return spark.createDataFrame(rows, "k int, id long, day string").repartition(4).cache()


@pytest.mark.parametrize(("how", "partitioned"), [(how, how in ("left", "semi")) for how in HOWS])
def test_a_table_is_a_dimension(
    spark: SparkSession,
    tmp_path: Path,
    facts: DataFrame,
    how: str,
    partitioned: bool,
    seed: int,
) -> None:
    rng = random.Random(seed)
    table = HudiTable.create(
        tmp_path / "t",
        SCHEMA,
        record_key=["id"],
        partition_by=["day"] if partitioned else [],
        version=rng.choice([6, 8, 9]),
        hive_style=rng.random() < 0.5,
    )
    for _ in range(3):
        table.upsert(random_rows(rng, 40))
    on = ["day", "id"] if partitioned else ["id"]
    own = facts if partitioned else facts.drop("day")
    theirs = by_parquet(spark, table).select("id", "day", "n", "at", "x")
    columns = own.columns
    if how in ("left", "inner"):
        columns = columns + [name for name in theirs.columns if name not in columns]
    expected = rows_of(own.join(theirs, on, how).select(columns))
    metrics = LookupMetrics(spark)
    store = table if how in ("left", "anti") else str(tmp_path / "t")
    joined = lookup_join(own, store, on, how, metrics=metrics).select(columns)
    assert rows_of(joined) == expected
    assert metrics.counts.rows == 1000
    if how == "left":
        lookup = TableLookup(tmp_path / "t", key=on, columns=["n"], build="never")
        few = lookup_join(own, lookup, on, prefix="dim_", found="known")
        assert few.columns == [*own.columns, "dim_n", "known"]
        known = own.join(theirs, on, "semi").count()
        assert few.where("known").count() == known
        said = explain_join(own, table, on)
        assert (said.rows, said.files) == (theirs.count(), len(table.file_groups()))
        assert "Hudi tables: each host builds the lookup files" in said.reason
        assert f"\n  versions   {said.version}\n" in str(said)


def lookup_files() -> set[str]:
    return {path.name for path in Path(default_folder()).glob("*.sst")}


def test_a_stream_takes_a_commit_and_makes_lookup_files_of_what_changed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In foreachBatch, each batch joins with the table of then: docs/how-to/hudi-spark-read.md."""
    table = HudiTable.create(tmp_path / "dim", SCHEMA, record_key=["id"], partition_by=["day"])
    days = [f"d{number}" for number in range(5)]
    table.insert(
        pa.table({"id": range(5), "day": days, "n": pa.array(range(5), pa.int32())}), missing="null"
    )
    found: dict[int, list[Any]] = {}

    def batch(df: DataFrame, number: int) -> None:
        rows = lookup_join(df, table, ["id", "day"], columns=["n"], on_miss="raise").collect()
        found[number] = sorted((one.id, one.n) for one in rows)

    facts = spark.createDataFrame([(id, f"d{id}") for id in range(5)], "id int, day string")
    (tmp_path / "facts").mkdir()
    stream = spark.readStream.schema(facts.schema).parquet(str(tmp_path / "facts"))

    def run() -> int:
        before = lookup_files()
        facts.coalesce(1).write.mode("append").parquet(str(tmp_path / "facts"))
        query = (
            stream.writeStream.foreachBatch(batch)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return len(lookup_files() - before)

    assert run() == 5
    table.upsert(
        pa.table({"id": [1, 3], "day": ["d1", "d3"], "n": pa.array([-1, -3], pa.int32())}),
        missing="keep",
    )
    assert run() == 2
    assert found[max(found)] == [(0, 0), (1, -1), (2, 2), (3, -3), (4, 4)]
    assert run() == 0


def test_errors_of_joins(spark: SparkSession, tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key=["id"], partition_by=["day"])
    table.insert(
        pa.table({"id": [1, 1], "day": ["a", "b"], "n": pa.array([1, 2], pa.int32())}),
        missing="null",
    )
    facts = spark.createDataFrame([(1, "a")], "id int, day string")
    with pytest.raises(ValueError, match="bucketed', but Hudi tables have none; build a store"):
        lookup_join(facts, table, ["id", "day"], strategy="bucketed")
    with pytest.raises(KeyError, match="give these columns, or these and the partition columns"):
        lookup_join(facts, table, "day")
    with pytest.raises(TypeError, match="fact column 'day' is string, the key column 'id'"):
        lookup_join(facts, table, {"day": "id"})
    with pytest.raises(FileNotFoundError):
        lookup_join(facts, tmp_path / "none", "id")
    with pytest.raises(PythonException, match=r"FormatError: .*give the partition columns 'day'"):
        lookup_join(facts.drop("day"), table, "id").collect()
    with pytest.raises(PythonException, match=r"MissingKeyError: .*has no rows for 1 of"):
        lookup_join(facts.select("id", F.lit("c").alias("day")), table, ["id", "day"],
                    on_miss="raise").collect()  # fmt: skip
    planned = lookup_join(facts, table, ["id", "day"], columns=["n", "x"])
    for group in table.file_groups():
        (tmp_path / "t" / group.current.path).unlink()
    with pytest.raises(PythonException, match=r"StaleStoreError: .*deleted (by a clean|since)"):
        planned.collect()


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if not has_server():
        pytest.skip("rclone is not installed")
    with pytest.MonkeyPatch.context() as patched:
        for name, value in FOR_WRITES.items():
            patched.setenv(name, value)
        with object_store(tmp_path_factory.mktemp("s3")) as server:
            yield server


def test_executors_read_a_table_behind_s3(
    spark: SparkSession, bucket: Any, facts: DataFrame, seed: int
) -> None:
    """Nothing but the plan and the URI comes to executors, which are other processes."""
    assert spark.sparkContext.master.startswith("local-cluster")
    table = random_table(bucket.folder / "t", random.Random(seed), 9)
    uri = bucket.uri("t")
    expected = rows_of(by_parquet(spark, table))
    for ours in both_ways(spark, uri):
        assert rows_of(ours) == expected
    key = [*table.options.record_key, *table.options.partition_by]
    own = facts.select("k", *key)
    theirs = by_parquet(spark, table).select("id", "day", "n")
    columns = ["k", *key, "n"]
    joined = lookup_join(own, uri, key, columns=["n"])
    assert rows_of(joined.select(columns)) == rows_of(own.join(theirs, key, "left").select(columns))


def test_base_files_of_merge_on_read_tables(
    spark: SparkSession, merge_on_read_tables: Path
) -> None:
    path = merge_on_read_tables / "mor_v9_txns_nonpart_nometa"
    table = HudiTable.open(path, query_type="read_optimized")
    wanted = rows_of_table(table.scan(columns=["txn_id", "txn_type"]))
    ways = [read_table(spark, table, columns=["txn_id", "txn_type"])]
    if datasource is not None:
        ways.append(by_source(spark, path, query_type="read_optimized", columns="txn_id,txn_type"))
    for way in ways:
        assert rows_of(way) == wanted
    tagged = tag_location(ways[0], table).select("txn_id", "_file_id", "_pos")
    ours = table.tag(table.scan(columns=["txn_id"])).select(["txn_id", "_file_id", "_pos"])
    assert rows_of(tagged) == rows_of_table(ours)


def test_rows_of_merge_on_read_tables(spark: SparkSession, merge_on_read_tables: Path) -> None:
    path = merge_on_read_tables / "mor_v6_nonpartitioned"
    table = HudiTable.open(path)
    wanted = rows_of_table(table.scan(columns=["id", "name"]))
    ways = [read_table(spark, table, columns=["id", "name"])]
    if datasource is not None:
        ways.append(by_source(spark, path, columns="id,name"))
    for way in ways:
        assert rows_of(way) == wanted
        one = table.scan(columns=["id", "name"], filter=("id", "=", 1))
        assert rows_of(way.where("id = 1")) == rows_of_table(one)


def test_files_of_another_type(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "x": ["a", "b"]})
    table = HudiTable.create(tmp_path / "t", rows, record_key="id")
    table.insert(rows)
    (file,) = (tmp_path / "t").glob("*.parquet")
    stored = pq.read_table(file)
    at = stored.column_names.index("x")
    pq.write_table(stored.set_column(at, "x", pa.array([5.0, 1e20])), file)
    found = read_table(spark, tmp_path / "t", columns=["id", "x"]).collect()
    assert sorted(tuple(row) for row in found) == [(1, "5.0"), (2, "1.0E20")]
    few = read_table(spark, tmp_path / "t", columns=["id"], filter=pc.field("x") == "5.0")
    assert [row.id for row in few.collect()] == [1]
