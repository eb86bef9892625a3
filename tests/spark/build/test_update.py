"""Stores changed with Spark: as `lookupstore.upsert` changes them, whatever happens to the tasks.

The oracle is that upsert, in one process and of the same rows: its files are the same to the byte.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from support.object_store import writable_object_store

import lookupstore
from lookupstore import Location, LookupStore, upsert, versions
from lookupstore.spark import update_store
from lookupstore.spark.build import update as spark_update
from lookupstore.store.manifest import MAX_STREAMS
from lookupstore.store.stream_batches import StreamBatch
from lookupstore.store.version_files import NEWEST_COPY, named_files, read_newest

pytestmark = [
    pytest.mark.spark,
    # PySpark 4.0 leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("s", pa.string()), ("at", pa.int32())])
COLUMNS = "id long, n long, s string, at int"
RULES = ("replace", "first", "partial", "sum", "min", "max")
#: So that nothing is compacted unless a test says so.
KEEP = {"max_runs": 64, "max_run_share": math.inf}

Row = tuple[Any, ...]


def random_rows(rng: random.Random, count: int, most: int) -> list[Row]:
    return [
        (
            rng.randrange(most),
            rng.choice([None, rng.randrange(-(2**40), 2**40)]),
            rng.choice([None, "x" * rng.randrange(40), "é"]),
            rng.choice([None, rng.randrange(100)]),
        )
        for _ in range(count)
    ]


def table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA
    )


def build(path: Any, rows: list[Row], buckets: int = 3) -> LookupStore:
    unique = {row[0]: row for row in rows}
    return lookupstore.build(table(list(unique.values())), path, key="id", buckets=buckets)


def content(store: LookupStore) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = store.scan().read_all().to_pylist()
    return rows


def files_of(location: Location) -> list[tuple[int, str, int, int]]:
    """Return what the files of a version are, a bucket after the other, the newest first."""
    manifest = read_newest(location)
    runs = [
        (run.file.bucket, run.file.xxh64, run.tombstones, run.new_rows)
        for run in (*manifest.runs, *manifest.applied)
    ]
    return runs + [(file.bucket, file.xxh64, 0, file.num_records) for file in manifest.files]


def clean(place: Location) -> None:
    """Check that nothing is there but what versions name."""
    assert {file.name for file in place.files(recursive=True)} == named_files(place)
    assert [name for name in place.names() if name.startswith(".")] == []


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


def test_versions_are_those_of_one_process(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    base = random_rows(rng, rng.randrange(400), 500)
    buckets = rng.choice([1, 3, 7])
    build(tmp_path / "here", base, buckets).close()
    build(tmp_path / "spark", base, buckets).close()
    for _ in range(4):
        rows = random_rows(rng, rng.choice([1, 40, 300]), 600)
        taken = {row[0] for row in rows}
        gone = [key for key in rng.sample(range(700), 30) if key not in taken]
        rule: Any = rng.choice(
            ["replace", "first", "partial", {"n": rng.choice(RULES), "s": "max", "at": "partial"}]
        )
        sequence = rng.choice([None, "at"])
        limits: dict[str, Any] = rng.choice([KEEP, {"max_runs": 1}, {"max_runs": 0}, {}])
        df = spark.createDataFrame(
            [(*row, None) for row in rows] + [(key, None, None, None, "d") for key in gone],
            f"{COLUMNS}, op string",
        )
        named = {"rule": rule, "sequence": sequence, **limits}
        with (
            upsert(tmp_path / "here", table(rows), deletes=gone, **named) as here,
            update_store(df, tmp_path / "spark", deletes="op = 'd'", **named) as there,
        ):
            assert there.version == here.version
            assert content(there) == content(here)
            assert files_of(there.location) == files_of(here.location)
            assert there.verify().num_rows == len(here)
            assert there.changes(1).read_all().equals(here.changes(1).read_all())
    clean(Location(tmp_path / "spark"))


def test_a_store_behind_s3(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    base, rows = random_rows(rng, 300, 500), random_rows(rng, 100, 500)
    build(tmp_path / "here", base).close()
    with writable_object_store() as server:
        place = Location(server.uri("store"))
        build(place, base).close()
        df = spark.createDataFrame(rows, COLUMNS)
        for limits in (KEEP, {"max_runs": 0}):
            with (
                upsert(tmp_path / "here", table(rows), rule="partial", **limits) as here,
                update_store(df, server.uri("store"), rule="partial", **limits) as there,
            ):
                assert content(there) == content(here)
                assert there.info().runs == here.info().runs
        assert {file.name for file in place.files(recursive=True)} == {
            *named_files(place),
            NEWEST_COPY,
        }


def test_rows_count_in_the_order_of_partitions(spark: SparkSession, tmp_path: Path) -> None:
    build(tmp_path / "s", [(1, 0, "a", 0)]).close()
    df = spark.range(0, 1000, numPartitions=5).selectExpr(
        "id % 10 AS id", "id AS n", "string(id) AS s", "0 AS at"
    )
    with update_store(df, tmp_path / "s") as store:
        assert store.lookup(list(range(10)))["n"].to_pylist() == list(range(990, 1000))


def test_spark_without_tasks_by_bucket(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """What Spark before 4.1 does: buckets meet in tasks, and are told apart there."""
    rng = random.Random(seed)
    base, rows = random_rows(rng, 300, 500), random_rows(rng, 200, 500)
    build(tmp_path / "here", base, 7).close()
    build(tmp_path / "spark", base, 7).close()
    df = spark.createDataFrame(rows, COLUMNS)
    for kind in {type(df), *type(df).__mro__[:-1]}:
        if "repartitionById" in vars(kind):
            monkeypatch.delattr(kind, "repartitionById")
    upsert(tmp_path / "here", table(rows), **KEEP).close()
    with update_store(df, tmp_path / "spark", **KEEP) as store:
        assert files_of(store.location) == files_of(Location(tmp_path / "here"))


@pytest.mark.few(2)
@pytest.mark.parametrize("limits", [KEEP, {"max_runs": 0}], ids=["runs", "compacts"])
@pytest.mark.parametrize("when", ["half read", "done"])
@pytest.mark.parametrize("stage", ["encode_changes", "change_buckets"])
def test_first_attempt_is_killed(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
    when: str,
    limits: dict[str, Any],
) -> None:
    build(tmp_path / "s", [(id, 1, "", 0) for id in range(500)], 2).close()
    monkeypatch.setattr(spark_update, stage, killed(getattr(spark_update, stage), when))
    df = spark.range(0, 2000, numPartitions=2).selectExpr("id", "id AS n", "'' AS s", "0 AS at")
    with update_store(df, tmp_path / "s", rule={"n": "sum"}, **limits) as store:
        found = {row["id"]: row["n"] for row in content(store)}
        assert found == {id: id + (id < 500) for id in range(2000)}
        clean(store.location)


def test_attempts_that_both_end_leave_one_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What speculation does: the same task runs to its end twice, and one result is taken."""
    real = spark_update.change_buckets

    def twice(task: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = list(batches)
        list(real(task, iter(rows)))
        yield from real(task, iter(rows))

    monkeypatch.setattr(spark_update, "change_buckets", twice)
    build(tmp_path / "s", [(1, 1, "", 0)], 3).close()
    df = spark.range(300).selectExpr("id", "1 AS n", "'' AS s", "0 AS at")
    with update_store(df, tmp_path / "s", rule={"n": "sum"}, **KEEP) as store:
        assert sum(row["n"] for row in content(store)) == 301
        assert store.info().runs == 3
        clean(store.location)


def test_every_attempt_is_killed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(task: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    monkeypatch.setattr(spark_update, "change_buckets", die)
    build(tmp_path / "s", [(1, 1, "", 0)]).close()
    with pytest.raises(Exception, match="Python worker exited unexpectedly"):
        update_store(spark.createDataFrame([(1, 2, "", 0)], COLUMNS), tmp_path / "s")
    with lookupstore.open(tmp_path / "s") as store:
        assert store.version == 1
        clean(store.location)


def test_text_that_is_not_utf8(spark: SparkSession, tmp_path: Path) -> None:
    lookupstore.build(pa.table({"id": [5], "v": ["a"]}), tmp_path / "s", key="id").close()
    df = spark.sql("SELECT 6 AS id, CAST(X'5AFC' AS string) AS v")
    message = r"df: the column 'v' has text that is not UTF-8: b'Z\\xfc'; write it again"
    with pytest.raises(ValueError, match=message):
        update_store(df, tmp_path / "s")
    with lookupstore.open(tmp_path / "s") as store:
        assert store.version == 1


def test_two_writers_both_apply(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path / "s", [(1, 1, "", 0)]).close()
    real = spark_update.check_seen

    def overtaken(*args: Any) -> None:
        monkeypatch.undo()
        other = pa.table({"id": [1], "n": [100], "s": [""], "at": [0]})
        upsert(tmp_path / "s", other, rule={"n": "sum"}).close()
        real(*args)

    monkeypatch.setattr(spark_update, "check_seen", overtaken)
    df = spark.createDataFrame([(1, 10, "", 0)], COLUMNS)
    with update_store(df, tmp_path / "s", rule={"n": "sum"}) as store:
        assert store.version == 3
        assert store.get(1, columns=["n"]) == {"n": 111}
        clean(store.location)


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("sql", "named", "kind", "message"),
    [
        (["null AS id", "n"], {}, ValueError, "the key column 'id' is null"),
        (["id", "'x' AS n"], {}, TypeError, "column 'n' is string, but in the store it is int64"),
        (["id", "array(1) AS n"], {}, TypeError, "column 'n' is list.*cast it"),
        (["id"], {}, KeyError, "changes: no column 'n'"),
        (["n"], {}, KeyError, "no key column 'id'"),
        (["id", "n"], {"rule": "sums"}, ValueError, "rule is 'sums'"),
        (["id", "n"], {"sequence": "when"}, KeyError, "no value column 'when'"),
        (["id", "n"], {"deletes": True}, TypeError, r"deletes is True; give a condition.*\"true\""),
        (["id", "n"], {"deletes": "n"}, TypeError, "deletes is a column of type int"),
        (["id", "n"], {"deletes": "n = 1"}, ValueError, "id=1 is in changes and in deletes"),
        (["id"], {"deletes": "id > 7"}, ValueError, "df has the key columns alone"),
        (["id", "n"], {"max_runs": -1}, ValueError, "max_runs is -1"),
        (["id", "n"], {"batch": 3}, ValueError, "cannot tell which streaming query"),
        (["id", "n"], {"batch": ("", 3)}, ValueError, "batch: the stream is ''"),
        (["id", "n"], {"batch": ("s", -1)}, ValueError, "batch: the number is -1"),
        (["id", "n"], {"batch": "3"}, TypeError, "batch is '3'; give a number"),
        (["id", "double('1e300') AS n"], {}, ValueError, "row with id=1: .* int64 .* cannot hold"),
        (["id", "n", "n AS m"], {}, KeyError, "no column 'm'; .*columns="),
        (["id", "n", "n AS m", "n AS m0"], {"deletes": "m0 = 1"}, KeyError, "no column 'm'"),
        (["id", "n", "n AS m"], {"deletes": "m0 = 1"}, KeyError, "deletes is 'm0 = 1': .*`m0`"),
        (["id", "n > 1 AS n"], {}, TypeError, "'n' is boolean, .* int64; cast it to bigint"),
        (["'a' AS id", "n"], {}, TypeError, "'id' is string, .* int64; cast it to bigint"),
        (["id", "'x' AS n"], {"deletes": "n = 'y'"}, TypeError, "'n' is string, .* to bigint"),
        (["id", "n", "'delete' AS change"], {"deletes": "n = 1"}, ValueError, "of its own"),
    ],
)
def test_what_is_refused_leaves_the_store(
    spark: SparkSession,
    tmp_path: Path,
    sql: list[str],
    named: dict[str, Any],
    kind: type[Exception],
    message: str,
) -> None:
    lookupstore.build(pa.table({"id": [5], "n": [5]}), tmp_path / "s", key="id").close()
    df = spark.createDataFrame([(1, 1), (1, 2)], "id int, n int").selectExpr(*sql)
    with pytest.raises(kind, match=message) as error:
        update_store(df, tmp_path / "s", **named)
    assert "\n" not in str(error.value)
    with lookupstore.open(tmp_path / "s") as store:
        assert content(store) == [{"id": 5, "n": 5}]
        assert store.version == 1
        clean(store.location)


def test_what_is_no_dataframe(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"df is a pyarrow.lib.Table; give a Spark DataF"):
        update_store(pa.table({"id": [1]}), tmp_path)  # type: ignore[arg-type]


def test_keys_alone_are_deletes(spark: SparkSession, tmp_path: Path) -> None:
    build(tmp_path / "s", [(id, 1, "", 0) for id in range(20)]).close()
    keys = spark.createDataFrame([(3,), (3,), (70,), (None,)], "id int")
    with update_store(keys, tmp_path / "s", deletes=F.lit(True), **KEEP) as store:
        assert [row["id"] for row in content(store)] == [id for id in range(20) if id != 3]
    with update_store(keys, tmp_path / "s", deletes="true") as same:  # they are gone already
        assert same.version == 2
    with update_store(spark.range(20), tmp_path / "s", deletes="true") as empty:
        assert len(empty) == 0
    with pytest.raises(KeyError, match=r"deletes is .*: .*`gone`"):
        update_store(keys, tmp_path / "s", deletes=F.col("gone") == 1)


def test_columns_are_cast_and_others_left_out(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema({"k": pa.uint8(), "v": pa.float32(), "t": pa.timestamp("ms")})
    lookupstore.build(pa.table([[1], [0.5], [0]], schema=schema), tmp_path / "s", key="k").close()
    df = spark.sql("SELECT 2L AS k, 'left out' AS x, 3 AS v, TIMESTAMP_NTZ'1970-01-02' AS t")
    with update_store(df, tmp_path / "s", columns=["v", "t"]) as store:
        found = store.scan().read_all()
        assert found.schema.types == schema.types
        assert found["k"].to_pylist() == [1, 2]
        assert found["v"].to_pylist() == [0.5, 3.0]


def test_events_count_in_their_order(spark: SparkSession, tmp_path: Path) -> None:
    """The oracle is the upsert of the same events in one process."""
    rows = [(id, id, "x", 0) for id in range(9)]
    changed = build(tmp_path / "of", rows).upsert(table([(3, 4, "y", 1)]), deletes=[5])
    changes = changed.changes(1).read_all()
    names = ("mine", "own", "by", "debezium", "envelope", "dms", "delta")
    stores = [build(tmp_path / name, rows) for name in names]
    expected = content(stores[0].upsert(changes))
    assert expected == content(changed)
    df = spark.createDataFrame(changes.cast(pa.schema([("change", pa.string()), *SCHEMA])))
    with update_store(df.coalesce(1), tmp_path / "own") as store:
        assert content(store) == expected
    # A condition that reads the column says itself which rows are deletes.
    rest = df.where("change <> 'update_before'")
    with update_store(rest, tmp_path / "by", deletes="change = 'delete'") as store:
        assert content(store) == expected
    row = f"struct<{COLUMNS.replace(' ', ':')}>".replace(",:", ",")
    events = spark.createDataFrame(
        [
            ("u", (3, 3, "x", 0), (3, 9, "w", 1)),
            ("d", (5, 5, "x", 0), None),
            ("d", (6, 6, "x", 0), None),
            ("r", None, (6, 6, "x", 0)),
            ("u", (3, 9, "w", 1), (3, 4, "y", 1)),
        ],
        f"op string, before {row}, after {row}",
    ).coalesce(1)
    with update_store(events, tmp_path / "debezium", changes_by="debezium") as store:
        assert content(store) == expected
    payload = "named_struct('op', op, 'before', before, 'after', after) AS payload"
    wrapped = events.selectExpr("'{}' AS schema", payload)
    with update_store(wrapped, tmp_path / "envelope", changes_by="debezium") as store:
        assert content(store) == expected
    # AWS DMS has rows after changes only.
    dms = rest.selectExpr("upper(left(change, 1)) AS Op", "*").drop("change").coalesce(1)
    with pytest.raises(KeyError, match=r"no column 'Op'.*if it says .*, pass kinds='Op'"):
        update_store(dms, tmp_path / "dms")
    with update_store(dms, tmp_path / "dms", kinds="Op") as store:
        assert content(store) == expected
    # Delta's versions are an order, whatever partitions the rows are in.
    versions = df.coalesce(1).withColumn("_commit_version", F.monotonically_increasing_id())
    feed = versions.selectExpr(
        "replace(replace(change, 'before', 'preimage'), 'after', 'postimage') AS _change_type",
        "current_timestamp() AS _commit_timestamp",
        "*",
    ).drop("change")
    shuffled = feed.orderBy(F.desc("_commit_version")).repartition(5, F.rand(1))
    with update_store(shuffled, tmp_path / "delta") as store:
        assert content(store) == expected


def random_events(rng: random.Random, keys: int, count: int) -> list[Row]:
    """Return rows of a log, each with its position, as AWS DMS writes them."""
    there: set[int] = set()
    events: list[Row] = []
    for position in range(count):
        key = rng.randrange(keys)
        kind = rng.choice("UUD") if key in there else "I"
        (there.discard if kind == "D" else there.add)(key)
        (row,) = random_rows(rng, 1, 1)
        events.append((kind, position, key, *row[1:]))
    return events


@pytest.mark.parametrize("kind", ["long", "timestamp", "string"])
def test_events_in_any_partitions_are_ordered_by_a_column(
    spark: SparkSession, tmp_path: Path, seed: int, kind: str
) -> None:
    """The oracle is the upsert of the events in their order, in one process."""
    rng = random.Random(seed)
    events = random_events(rng, 30, 400)
    build(tmp_path / "one", []).close()
    build(tmp_path / "many", []).close()
    names = ["Op", "at_position", *SCHEMA.names]
    rows = [dict(zip(names, event, strict=True)) for event in events]
    given = pa.Table.from_pylist(
        rows, pa.schema([("Op", pa.string()), ("at_position", pa.int64()), *SCHEMA])
    )
    expected = content(upsert(tmp_path / "one", given.drop(["at_position"]), kinds="Op"))
    rng.shuffle(events)
    df = spark.createDataFrame(events, f"Op string, at_position long, {COLUMNS}").repartition(7)
    text = {
        "long": "at_position * 1000", "timestamp": "timestamp_millis(at_position * 1000)",
        "string": "lpad(at_position, 9, '0')",
    }[kind]  # fmt: skip
    df = df.withColumn("at_position", F.expr(text))
    with update_store(df, tmp_path / "many", kinds="Op", order_by="at_position") as store:
        assert content(store) == expected
        assert expected


def test_events_of_a_key_in_several_partitions_need_an_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    build(tmp_path / "s", [(1, 0, "", 0)]).close()

    def update(*parts: list[Row], **more: Any) -> dict[int, Any]:
        """Update the store with events in one partition for each list."""
        rows = spark.sparkContext.parallelize(parts, len(parts)).flatMap(lambda part: part)
        df = spark.createDataFrame(rows, f"Op string, lsn long, {COLUMNS}")
        assert df.rdd.getNumPartitions() == len(parts)
        if "order_by" not in more:
            df = df.drop("lsn")
        with update_store(df, tmp_path / "s", kinds="Op", **more) as store:
            return {row["id"]: row["n"] for row in content(store)}

    first, second = ("U", 7, 1, 10, "", 0), ("U", 8, 1, 20, "", 0)
    other, gone = ("I", 9, 2, 30, "", 0), ("D", 10, 1, None, None, None)
    unknown = "the key id=1 has events in several partitions .*; pass order_by= with the column"
    for parts in ([[first], [second]], [[second], [first]], [[first], [gone]],
                  [[first, second], [second, first]]):  # fmt: skip
        with pytest.raises(ValueError, match=unknown):
            update(*parts)
    assert update([first], [other], [first]) == {1: 10, 2: 30}  # copies may be anywhere
    assert update([first, second], [other]) == {1: 20, 2: 30}
    for parts in ([[second], [first]], [[first], [second]], [[second, first]]):
        assert update(*parts, order_by="lsn") == {1: 20, 2: 30}
    assert update([gone], [second], order_by="lsn") == {2: 30}
    again = ("U", 7, 1, 11, "", 0)
    same = "the key id=1 has several events with the same 'lsn' in several partitions .*; pass"
    with pytest.raises(ValueError, match=same):
        update([first], [again], order_by="lsn")
    assert update([first, again], [], order_by="lsn") == {1: 11, 2: 30}
    assert update([first], [first], [second], order_by="lsn") == {1: 20, 2: 30}


def test_what_order_by_cannot_be(spark: SparkSession, tmp_path: Path) -> None:
    build(tmp_path / "s", [(1, 0, "", 0)]).close()
    df = spark.createDataFrame([("U", None, 1, 10, "", 0)], f"Op string, lsn long, {COLUMNS}")
    feed = df.selectExpr("'insert' AS _change_type", "1L AS _commit_version", "lsn", *SCHEMA.names)
    wrong: list[tuple[type[Exception], str, DataFrame, dict[str, Any]]] = [
        (ValueError, "order_by: the column 'lsn' is null in an event", df,
         {"kinds": "Op", "order_by": "lsn"}),
        (KeyError, "order_by: the changes have no column 'lsm'; did you mean 'lsn'", df,
         {"kinds": "Op", "order_by": "lsm"}),
        (ValueError, "the changes are rows to upsert; pass sequence=", df.drop("Op"),
         {"order_by": "lsn", "columns": ["n"]}),
        (ValueError, "'_commit_version' orders the rows of the feed; leave order_by out", feed,
         {"order_by": "lsn"}),
        (ValueError, "df is a changelog; pass order_by='n' if the column orders its events",
         df.drop("lsn"), {"kinds": "Op", "sequence": "n"}),
        (TypeError, "the column 'lsn' is struct<a: int32.*>, which has no order",
         df.withColumn("lsn", F.expr("named_struct('a', 1)")), {"kinds": "Op", "order_by": "lsn"}),
    ]  # fmt: skip
    for kind, said, changes, arguments in wrong:
        with pytest.raises(kind, match=said):
            update_store(changes, tmp_path / "s", **arguments)


def test_events_of_debezium_are_ordered_and_decoded(spark: SparkSession, tmp_path: Path) -> None:
    """Their schema may be a text, as `from_json` leaves it; the order is in the event."""
    columns = pa.schema({"id": pa.int64(), "day": pa.date32(), "price": pa.decimal128(9, 2)})
    lookupstore.build(columns.empty_table(), tmp_path / "s", key="id").close()
    fields = [
        {"type": "int32", "name": "io.debezium.time.Date", "field": "day"},
        {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "field": "price",
         "parameters": {"scale": "2"}},
    ]  # fmt: skip
    schema = json.dumps(
        {"fields": [{"field": one, "fields": fields} for one in ("before", "after")]}
    )
    row = "struct<id:bigint,day:int,price:string>"
    events = spark.createDataFrame(
        [
            (schema, ("u", 5, None, (1, 17702, "F3A="))),
            (schema, ("c", 4, None, (1, 1, "AQ=="))),
            (schema, ("d", 6, (2, None, None), None)),
            (schema, ("c", 3, None, (2, 1, "AQ=="))),
        ],
        f"schema string, payload struct<op:string,ts_ms:bigint,before:{row},after:{row}>",
    ).repartition(4)
    with update_store(events, tmp_path / "s", changes_by="debezium", order_by="ts_ms") as store:
        assert content(store) == [
            {"id": 1, "day": date(2018, 6, 20), "price": Decimal("60.00")}
        ]  # fmt: skip


def test_a_batch_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    build(tmp_path / "s", [(1, 0, "", 0)]).close()
    one = spark.createDataFrame([(1, 1, "", 0)], COLUMNS)

    def put(batch: Any) -> int:
        with update_store(one, tmp_path / "s", rule={"n": "sum"}, batch=batch) as store:
            row = store.get(1)
            assert row is not None
            return int(row["n"])

    assert [put(("a", n)) for n in (0, 0, 1, 0, 1, 5)] == [1, 1, 2, 2, 2, 3]
    assert [put(("b", 0)), put(("a", 5)), put(("b", 0))] == [4, 4, 4]
    # What changes a store otherwise keeps them.
    upsert(tmp_path / "s", pa.table({"id": [7], "n": [7], "s": [""], "at": [0]})).close()
    with lookupstore.open(tmp_path / "s") as store:
        store.compact().close()
        lookupstore.publish(store.newest(), tmp_path / "copy").close()
    assert [put(("b", 0)), put(("a", 5)), put(("a", 6))] == [4, 4, 5]
    with update_store(one, tmp_path / "copy", rule={"n": "sum"}, batch=("a", 5)) as store:
        assert store.get(1, columns=["n"]) == {"n": 4}


def test_the_streams_that_came_last_are_known(tmp_path: Path) -> None:
    with build(tmp_path / "s", [(1, 0, "", 0)]) as store:
        manifest = read_newest(store.location)
    for number in range(MAX_STREAMS + 1):
        batch = StreamBatch(f"stream {number}", 7)
        assert not batch.is_in(manifest)
        object.__setattr__(manifest, "batches", batch.added_to(manifest))
        assert batch.is_in(manifest)
        object.__setattr__(manifest, "batches", StreamBatch("always", number).added_to(manifest))
    assert len(manifest.batches) == MAX_STREAMS
    assert not StreamBatch("stream 0", 7).is_in(manifest)
    assert StreamBatch("stream 3", 7).is_in(manifest)
    assert StreamBatch("always", MAX_STREAMS).is_in(manifest)


def test_a_stream_that_fails_after_a_batch_was_published(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The batch comes again when the query starts anew, and is passed over."""
    build(tmp_path / "s", [(1, 0, "", 0)]).close()
    stream = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 10)
        .option("numPartitions", 2)
        .load()
        .selectExpr("value % 3 AS id", "1L AS n", "'' AS s", "0 AS at")
    )
    ran: list[int] = []

    def write(df: DataFrame, batch_id: int, fails: bool) -> None:
        ran.append(batch_id)
        update_store(df, tmp_path / "s", rule={"n": "sum"}, batch=batch_id).close()
        if fails:
            raise RuntimeError("after the batch")

    def run(fails: bool) -> Any:
        return (
            stream.writeStream.foreachBatch(lambda df, number: write(df, number, fails))
            .option("checkpointLocation", f"file://{tmp_path}/checkpoint")
            .trigger(processingTime="100 milliseconds")
            .start()
        )

    for _ in range(2):
        with pytest.raises(Exception, match="after the batch"):
            run(fails=True).awaitTermination(60)
    query = run(fails=False)
    try:
        while len(ran) < 6:
            assert query.exception() is None
            query.awaitTermination(0.1)
    finally:
        query.stop()
    assert ran[:3] == [0, 0, 0]
    with lookupstore.open(tmp_path / "s") as store:
        done = read_newest(store.location).batches[query.id]
        assert store.version == done + 2
        assert sum(row["n"] for row in content(store)) == 10 * (done + 1)
    assert len(versions(tmp_path / "s")) == done + 2
