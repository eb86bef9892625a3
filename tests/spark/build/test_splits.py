"""Parquet that tasks read by Arrow: the rows that Spark would read, or left to Spark."""

from __future__ import annotations

import datetime
import decimal
import itertools
import logging
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from support.replaced import ROWS, WAYS, two_versions

import lookupstore
from lookupstore import CorruptionError
from lookupstore.builder.plan import plan_build
from lookupstore.spark import build_store
from lookupstore.spark.build import build as build_module
from lookupstore.spark.build import splits as spark_splits
from lookupstore.spark.build.packs import unpack
from lookupstore.spark.build.splits import Split, Splits
from lookupstore.spark.build.task import BuildTask, encode_splits
from lookupstore.storage.file_identity import FileIdentity
from lookupstore.storage.location import Location
from lookupstore.store.data_files import FileOptions
from lookupstore.store.store import LookupStore

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

#: What it imports is put in its place here.
spark_build: Any = build_module

LOG = "lookupstore.spark.build.splits"
UTC = datetime.timezone.utc
PLACE = pa.struct(
    [("lat", pa.float32()), ("kind", pa.dictionary(pa.int8(), pa.string())), ("at", pa.date32())]
)
#: Types of Parquet's writers, whether Spark has them or a wider one.
TYPES = {
    "i8": pa.int8(),
    "u8": pa.uint8(),
    "i16": pa.int16(),
    "u16": pa.uint16(),
    "i32": pa.int32(),
    "u32": pa.uint32(),
    "u64": pa.uint64(),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "yes": pa.bool_(),
    "text": pa.string(),
    "long text": pa.large_string(),
    "city": pa.dictionary(pa.int32(), pa.string()),
    "raw": pa.binary(),
    "raw4": pa.binary(4),
    "price": pa.decimal128(5, 2),
    "wide.price": pa.decimal128(38, 10),
    "day": pa.date32(),
    "at": pa.timestamp("us"),
    "seen": pa.timestamp("us", "UTC"),
    "seen there": pa.timestamp("ms", "America/New_York"),
    "tags": pa.list_(pa.large_string()),
    "views": pa.list_(pa.string_view()),
    "pair": pa.list_(pa.uint32(), 2),
    "place": PLACE,
    "places": pa.list_(PLACE),
    "by name": pa.map_(pa.string(), pa.int16()),
}


def value_of(kind: pa.DataType, rng: random.Random) -> Any:
    """Return a random value of a type, or None."""
    types = pa.types
    if rng.random() < 0.1:
        return None
    if types.is_dictionary(kind):
        return value_of(kind.value_type, rng)
    if types.is_integer(kind):
        signed = types.is_signed_integer(kind)
        return rng.randrange(1 << kind.bit_width) - (signed << (kind.bit_width - 1))
    if types.is_floating(kind):
        return rng.choice([float("nan"), -0.0, 0.0, 1.5, float("-inf"), rng.randrange(99) / 4])
    if types.is_boolean(kind):
        return rng.random() < 0.5
    if kind in (pa.string(), pa.large_string(), pa.string_view()):
        return rng.choice(["", "é\0", "x" * rng.randrange(40)])
    if types.is_binary(kind) or types.is_fixed_size_binary(kind):
        return rng.randbytes(4)
    if types.is_decimal(kind):
        most = 10**kind.precision - 1
        exact = decimal.Context(prec=40)
        return decimal.Decimal(rng.randrange(-most, most)).scaleb(-kind.scale, exact)
    if types.is_date(kind):
        return datetime.date.fromordinal(rng.randrange(1, 3_000_000))
    if types.is_timestamp(kind):
        zone = None if kind.tz is None else UTC
        at = datetime.datetime.fromtimestamp(rng.randrange(-(10**10), 10**10), UTC)
        return at.replace(tzinfo=zone)
    if types.is_struct(kind):
        return {field.name: value_of(field.type, rng) for field in kind}
    if types.is_map(kind):
        return [(str(key), value_of(kind.item_type, rng)) for key in range(rng.randrange(3))]
    count = 2 if types.is_fixed_size_list(kind) else rng.randrange(4)
    return [value_of(kind.value_type, rng) for _ in range(count)]


def table_of(rng: random.Random, ids: list[int]) -> pa.Table:
    """Make rows of all types, one for each id."""
    columns = {name: [value_of(kind, rng) for _ in ids] for name, kind in TYPES.items()}
    return pa.table({"id": ids, **columns}, pa.schema({"id": pa.int64(), **TYPES}))


def content(store: LookupStore) -> tuple[pa.Schema, str]:
    """Return schema and all rows; as text, so that NaN equals NaN."""
    with store:
        return store.schema, repr(store.scan().read_all().to_pylist())


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Splits]:
    """Give the list of what builds let tasks read, and tasks little to read."""
    found: list[Splits] = []
    real = spark_build.plan_splits

    def plan(*given: Any, **named: Any) -> Splits:
        found.append(real(*given, **named))
        return found[-1]

    monkeypatch.setattr(spark_build, "plan_splits", plan)
    monkeypatch.setattr(spark_splits, "TASK_BYTES", (1, 4000))
    return found


def test_all_types_are_those_that_spark_reads(
    spark: SparkSession, tmp_path: Path, planned: list[Splits], seed: int
) -> None:
    rng = random.Random(seed)
    ids = rng.sample(range(10_000), 300)
    for number, at in enumerate((0, 20, 150)):
        rows = table_of(rng, ids[at : (20, 150, 300)[number]])
        name = tmp_path / "in" / f"part {number} %é.parquet"
        name.parent.mkdir(exist_ok=True)
        pq.write_table(rows, name, row_group_size=30, version=rng.choice(["1.0", "2.6"]))
    by_spark = build_store(spark.read.parquet(f"{tmp_path}/in"), tmp_path / "a", key="id")
    given = rng.choice(["{}/in", "{}/in/*.parquet", "file://{}/in"]).format(tmp_path)
    by_tasks = build_store(given, tmp_path / "b", key="id", spark=spark)
    assert content(by_tasks) == content(by_spark)
    (tasks,) = planned
    assert len(tasks) > 3
    assert sum(len(split.groups) for task in tasks for split in task) == 1 + 5 + 5


def test_timestamps_as_spark_writes_them(
    spark: SparkSession, tmp_path: Path, planned: list[Splits]
) -> None:
    """Those of 96 bits are instants to Spark, whatever its time zone; others have no zone."""
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        written = spark.sql(
            "SELECT id, timestamp'1500-03-01 00:00:00.123456Z' + make_dt_interval(id * 9999) AS at,"
            " timestamp_ntz'2020-01-01 01:02:03.4' AS local, nullif(timestamp_seconds(id),"
            " timestamp_seconds(7)) AS `seen.at`,"
            " named_struct('at', timestamp_seconds(id)) AS inside,"
            " array(timestamp_seconds(id), null) AS several FROM range(100)"
        )
        written.write.parquet(f"{tmp_path}/in")
        by_spark = build_store(spark.read.parquet(f"{tmp_path}/in"), tmp_path / "a", key="id")
        by_tasks = build_store(tmp_path / "in", tmp_path / "b", key="id", spark=spark)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    file = next((tmp_path / "in").glob("*.parquet"))
    assert pq.ParquetFile(file).schema.column(1).physical_type == "INT96"
    assert content(by_tasks) == content(by_spark)
    assert planned[0] != ()


def test_many_row_groups_of_dictionaries_inside_of_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Tasks as they are: with more than one row group."""
    words = pa.dictionary(pa.int32(), pa.string())
    table = rows(
        *range(300),
        tags=pa.array([[str(at % 7)] for at in range(300)], pa.list_(words)),
        place=pa.array([{"kind": str(at)} for at in range(300)], pa.struct([("kind", words)])),
        by_name=pa.array([[(str(at), "x")] for at in range(300)], pa.map_(pa.string(), words)),
    )
    pq.write_table(table, tmp_path / "1.parquet", row_group_size=100)
    by_spark = build_store(spark.read.parquet(str(tmp_path)), tmp_path / "a", key="id")
    by_tasks = build_store(tmp_path / "1.parquet", tmp_path / "b", key="id", spark=spark)
    assert content(by_tasks) == content(by_spark)


def test_values_that_spark_cannot_hold_name_the_file(
    spark: SparkSession, tmp_path: Path, planned: list[Splits]
) -> None:
    path = tmp_path / "1.parquet"
    pq.write_table(rows(1, 2, v=pa.array([1, 2**62], pa.timestamp("ms"))), path)
    message = rf"^{path}: the column 'v' is timestamp\[ms\], and Spark, which has timestamp\[us\], "
    with pytest.raises(ValueError, match=message):
        build_store(path, tmp_path / "store", key="id", spark=spark)
    assert planned[0] != ()


def test_text_that_is_not_utf8_names_the_file_and_the_row(
    spark: SparkSession, tmp_path: Path, planned: list[Splits]
) -> None:
    path = tmp_path / "1.parquet"
    texts = pa.array([b"a", b"b", b"Z\xfc"], pa.binary()).view(pa.string())
    pq.write_table(rows(1, 2, 3, v=texts), path, row_group_size=2)
    message = rf"^source: {path}: the column 'v' has text that is not UTF-8 in row 3: b'Z\\xfc'"
    with pytest.raises(ValueError, match=message):
        build_store(path, tmp_path / "store", key="id", spark=spark)
    assert planned[0] != ()


@pytest.mark.parametrize("rule", ["first", "last", ("max", "f64")], ids=str)
def test_rows_count_in_the_order_of_a_build_without_spark(
    spark: SparkSession, tmp_path: Path, planned: list[Splits], seed: int, rule: Any
) -> None:
    rng = random.Random(seed)
    paths: list[Path] = []
    for size in (200, 10, 90):
        paths.append(tmp_path / f"{len(paths)}.parquet")
        rows = table_of(rng, [rng.randrange(60) for _ in range(size)])
        pq.write_table(rows.select(["id", "f64", "text"]), paths[-1], row_group_size=25)
    rng.shuffle(paths)
    arguments = {"key": "id", "on_duplicate": rule, "buckets": 3}
    alone = lookupstore.build(paths, tmp_path / "a", **arguments)
    by_tasks = build_store(paths, tmp_path / "b", spark=spark, **arguments)
    assert content(by_tasks) == content(alone)
    assert planned[0] != ()


def test_small_files_may_have_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with Spark: what a task holds of them does not depend on how many there are."""
    monkeypatch.setattr("lookupstore.source.reading.MOST_ROWS_OF_SMALL", 100)
    path = tmp_path / "1.parquet"
    pq.write_table(rows(*range(200)), path)
    footer = spark_splits._footer(str(path))
    split = Split(footer.stored, 0, range(1), 0)
    (batch,) = split.batches(footer.schema)
    assert batch["id"].to_pylist() == list(range(200))


def test_rows_of_many_batches_are_counted_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lookupstore.source.reading._BATCH_ROWS", 7)
    path = tmp_path / "1.parquet"
    pq.write_table(rows(*(at % 10 for at in range(200))), path, row_group_size=50)
    footer = spark_splits._footer(str(path))
    plan = plan_build(footer.schema, key="id", on_duplicate="first")
    splits: Splits = (
        (Split(footer.stored, 0, range(1, 3), 50),),
        (Split(footer.stored, 0, range(3, 4), 150),),
    )
    task = BuildTask(
        plan, footer.schema, (), Location("nowhere"), "0", 1, FileOptions(), {}, reads=True
    )
    numbers = pa.record_batch({"id": pa.array([0, 1])})
    (packs,) = encode_splits(task, splits, iter([numbers]))
    found = unpack(packs, task.packed)
    ranks = found["rank"].to_pylist()
    # The first row of a key has the greatest rank, and no two have the same.
    assert len(ranks) == 150
    assert ranks == sorted(set(ranks), reverse=True)


def rows(*ids: int, **columns: Any) -> pa.Table:
    return pa.table({"id": pa.array(ids), **columns})


DAYS = pa.array([datetime.date(1500, 1, 1)])


def by_folder(folder: Path) -> None:
    (folder / "Day=7").mkdir()
    pq.write_table(rows(1), folder / "Day=7" / "1.parquet")


def of_other_case(folder: Path) -> None:
    pq.write_table(rows(1, v=["x"]), folder / "1.parquet")
    pq.write_table(rows(2, V=["y"]), folder / "2.parquet")


def without_a_column(folder: Path) -> None:
    pq.write_table(rows(1, v=["x"]), folder / "1.parquet")
    pq.write_table(rows(2), folder / "2.parquet")


def of_other_types(folder: Path) -> None:
    pq.write_table(rows(1, v=pa.array([7], pa.int64())), folder / "1.parquet")
    pq.write_table(rows(2, v=pa.array([7], pa.int32())), folder / "2.parquet")


def of_durations(folder: Path) -> None:
    pq.write_table(rows(1, d=pa.array([7], pa.duration("us"))), folder / "1.parquet")


def of_the_old_calendar(folder: Path) -> None:
    said = {"org.apache.spark.version": "4.0.0", "org.apache.spark.legacyDateTime": ""}
    pq.write_table(rows(1, d=DAYS).replace_schema_metadata(said), folder / "1.parquet")


def of_old_96_bits(folder: Path) -> None:
    said = {"org.apache.spark.version": "4.0.0", "org.apache.spark.legacyINT96": ""}
    days = DAYS.cast(pa.timestamp("us", "UTC"))
    table = rows(1, at=days).replace_schema_metadata(said)
    pq.write_table(table, folder / "1.parquet", use_deprecated_int96_timestamps=True)


def of_days(folder: Path) -> None:
    pq.write_table(rows(1, d=DAYS), folder / "1.parquet")


def of_orc(folder: Path) -> None:
    orc.write_table(rows(1), folder / "1.orc")


def of_numbers(folder: Path) -> None:
    pq.write_table(rows(1), folder / "1.parquet")


def twice_but_for_case(folder: Path) -> None:
    pq.write_table(rows(1, v=["x"]), folder / "1.parquet")
    pq.write_table(rows(2, v=["y"], V=["z"]), folder / "2.parquet")


def of_other_names(folder: Path) -> None:
    """Columns are the same by number, and have other names."""
    for number, names in ((1, "ab"), (2, "ba")):
        fields = [
            pa.field(name, pa.string(), metadata={"PARQUET:field_id": str(at + 1)})
            for at, name in enumerate(names)
        ]
        given = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "9"})
        table = pa.table([[number], ["first"], ["second"]], pa.schema([given, *fields]))
        pq.write_table(table, folder / f"{number}.parquet")


def of_96_bits(folder: Path) -> None:
    at = pa.array([1577836800123456], pa.timestamp("us"))
    pq.write_table(rows(1, at=at), folder / "1.parquet", use_deprecated_int96_timestamps=True)


def of_a_version(version: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        said = {"org.apache.spark.version": version}
        pq.write_table(rows(1, d=DAYS).replace_schema_metadata(said), folder / "1.parquet")

    return write


BY_NUMBER = "spark.sql.parquet.fieldId.read.enabled"
CONVERTED = "spark.sql.parquet.int96TimestampConversion"
ZONE = "spark.sql.session.timeZone"
CALENDAR = "spark.sql.parquet.datetimeRebaseModeInRead"


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("write", "setting", "reason"),
    [
        (by_folder, {}, "the column 'Day' may be in the names of folders"),
        (of_other_case, {}, "the column 'v' of each file as string"),
        (without_a_column, {}, "the column 'v' of each file as string"),
        (of_other_types, {}, "the column 'v' of each file as bigint"),
        (of_durations, {}, "the column 'd' of each file as bigint"),
        (of_a_version("2.4.8"), {}, "dates may be of an old calendar"),
        (of_a_version("3.0"), {}, "dates may be of an old calendar"),
        (of_a_version(""), {}, "dates may be of an old calendar"),
        (of_the_old_calendar, {}, "dates may be of an old calendar"),
        (of_old_96_bits, {}, "dates may be of an old calendar"),
        (of_days, {CALENDAR: "LEGACY"}, "dates may be of an old calendar"),
        (of_orc, {}, "they are not Parquet"),
        (of_numbers, {"spark.sql.files.ignoreCorruptFiles": "true"}, "ignoreCorruptFiles is set"),
        (
            of_numbers,
            {"spark.hadoop.parquet.crypto.factory.class": "any"},
            "crypto.factory.class is set",
        ),
        (of_other_names, {BY_NUMBER: "true"}, f"{BY_NUMBER} is set"),
        (of_96_bits, {CONVERTED: "true", ZONE: "Asia/Tokyo"}, f"{CONVERTED} is set"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_what_is_left_to_spark(
    spark: SparkSession,
    tmp_path: Path,
    planned: list[Splits],
    caplog: pytest.LogCaptureFixture,
    write: Callable[[Path], None],
    setting: dict[str, str],
    reason: str,
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder)
    kind = "orc" if write is of_orc else "parquet"
    before = {name: spark.conf.get(name, None) for name in setting}
    for name, value in setting.items():
        spark.conf.set(name, value)
    try:
        read = spark.read.format(kind).load(str(folder))
        by_spark = content(build_store(read, tmp_path / "a", key="id"))
        with caplog.at_level(logging.INFO, LOG):
            ours = content(build_store(folder, tmp_path / "b", key="id", spark=spark))
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)
    assert ours == by_spark
    assert planned == [()]
    assert reason in caplog.text


def test_files_of_any_name_in_folders_below(
    spark: SparkSession, tmp_path: Path, planned: list[Splits]
) -> None:
    """Spark alone passes over the folder, which is none of a partition."""
    (tmp_path / "in" / "sub").mkdir(parents=True)
    pq.write_table(rows(1), tmp_path / "in" / "part-0")
    pq.write_table(rows(2), tmp_path / "in" / "sub" / "000001_0")
    read = spark.read.option("recursiveFileLookup", True).parquet(f"{tmp_path}/in")
    by_spark = content(build_store(read, tmp_path / "a", key="id"))
    assert content(build_store(tmp_path / "in", tmp_path / "b", key="id", spark=spark)) == by_spark
    assert planned != [()]


def test_an_empty_file_beside_others_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """Spark leaves it out; it may be what is left of one that was cut."""
    pq.write_table(rows(1), tmp_path / "1.parquet")
    (tmp_path / "2.parquet").write_bytes(b"")
    with pytest.raises(CorruptionError, match=r"2\.parquet: offset 0.* no bytes"):
        build_store(tmp_path, tmp_path / "store", key="id", spark=spark)


def test_names_that_differ_by_case_in_a_later_file(
    spark: SparkSession, tmp_path: Path, planned: list[Splits]
) -> None:
    """Spark does not know which one is meant, unless it is to tell them apart."""
    twice_but_for_case(tmp_path)
    with pytest.raises(Exception, match=r"duplicate field\(s\)"):
        build_store(tmp_path, tmp_path / "store", key="id", spark=spark)
    assert planned == [()]


def test_a_file_that_is_listed_twice_is_read_twice(
    spark: SparkSession, tmp_path: Path, planned: list[Splits]
) -> None:
    of_numbers(tmp_path)
    path = tmp_path / "1.parquet"
    with pytest.raises(lookupstore.DuplicateKeyError, match="id=1 occurs more than once"):
        build_store([path, path], tmp_path / "store", key="id", spark=spark)
    assert planned == [()]


def test_days_whose_calendar_the_file_says(
    spark: SparkSession, tmp_path: Path, planned: list[Splits]
) -> None:
    """Settings are for files of others; of these Spark knows that they are as we read them."""
    said = {"org.apache.spark.version": "3.5.1"}
    pq.write_table(rows(1, d=DAYS).replace_schema_metadata(said), tmp_path / "1.parquet")
    spark.conf.set(CALENDAR, "LEGACY")
    try:
        store = build_store(tmp_path / "1.parquet", tmp_path / "store", key="id", spark=spark)
    finally:
        spark.conf.unset(CALENDAR)
    assert store.get(1) == {"d": datetime.date(1500, 1, 1)}
    assert planned != [()]


def test_each_row_group_is_read_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        footers = [
            spark_splits._Footer(
                FileIdentity(f"/{number}", number),
                pa.schema([]),
                {},
                tuple((rng.randrange(9), rng.randrange(99)) for _ in range(rng.randrange(5))),
            )
            for number in range(rng.randrange(6))
        ]
        least, most, tasks = rng.randrange(1, 80), rng.randrange(80, 300), rng.randrange(1, 9)
        opening = rng.choice([0, 50])
        monkeypatch.setattr(spark_splits, "TASK_BYTES", (least, most))
        monkeypatch.setattr(spark_splits, "_OPEN_BYTES", opening)
        by_task = spark_splits._by_task(footers, tasks)
        splits = list(itertools.chain.from_iterable(by_task))
        groups = [(split.file, group) for split in splits for group in split.groups]
        expected = [(at, g) for at, one in enumerate(footers) for g in range(len(one.groups))]
        assert groups == expected
        for split in splits:
            footer = footers[split.file]
            before = footer.groups[: split.groups.start]
            assert split.first_row == sum(rows for rows, _ in before)
            assert split == Split(footer.stored, split.file, *split_of(split))
        sizes = [
            sum(footers[one.file].groups[g][1] for one in task for g in one.groups)
            + opening * sum(one.groups.start == 0 for one in task)
            for task in by_task
        ]
        # Less than a row group and a file beyond what is asked for; only the last may have little.
        assert all(size < max(least, most) + 99 + opening for size in sizes)
        assert all(size >= least for size in sizes[:-1])
        assert all(task for task in by_task)


def split_of(split: Split) -> tuple[range, int]:
    return split.groups, split.first_row


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ("other rows", ValueError, r"in/2\.parquet changed while the build ran; build again"),
        ("as large", ValueError, r"in/2\.parquet changed while the build ran; build again"),
        ("another inode", ValueError, r"in/2\.parquet changed while the build ran; build again"),
        ("another time", ValueError, r"in/2\.parquet changed while the build ran; build again"),
        ("gone", FileNotFoundError, r"in/2\.parquet"),
        ("cut", ValueError, r"in/2\.parquet changed while the build ran; build again"),
    ],
)
def test_a_file_that_changes_while_the_build_runs(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    error: type[Exception],
    message: str,
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(4):
        numbers = range(number * 10, number * 10 + 10)
        pq.write_table(rows(*numbers), path_of(tmp_path, number), write_statistics=False)
    real = spark_build.plan_splits

    def plan(*given: Any) -> Splits:
        planned: Splits = real(*given)
        assert planned
        path = path_of(tmp_path, 2)
        before = path.read_bytes()
        if change == "other rows":
            pq.write_table(rows(*range(20, 31)), path)
        elif change == "as large":
            pq.write_table(rows(*range(120, 130)), path, write_statistics=False)
            assert path.stat().st_size == len(before)
        elif change == "gone":
            path.unlink()
        elif change in WAYS:
            pq.write_table(rows(*range(29, 19, -1)), tmp_path / "new", write_statistics=False)
            WAYS[change](path, (tmp_path / "new").read_bytes())
        else:
            path.write_bytes(before[:5])
        return planned

    monkeypatch.setattr(spark_build, "plan_splits", plan)
    with pytest.raises(error, match=message):
        build_store(tmp_path / "in", tmp_path / "store", key="id", spark=spark)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("way", WAYS)
def test_a_split_is_of_one_file(tmp_path: Path, way: str) -> None:
    """Of another one with its size and footer, before it is read or after a batch, no row comes."""
    old, new = two_versions()
    path = tmp_path / "1.parquet"
    path.write_bytes(old)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    footer = spark_splits._footer(str(path))
    split = Split(footer.stored, 0, range(5), 0)
    assert sum(batch.num_rows for batch in split.batches(footer.schema)) == ROWS
    batches = split.batches(footer.schema)
    found = [next(batches)]
    WAYS[way](path, new)
    if way == "another inode":  # the file that is open is read to its end
        found += batches
        texts = pa.Table.from_batches(found)["v"].to_pylist()
        assert texts == [f"old {key:06}" for key in range(ROWS)]
    else:
        with pytest.raises(ValueError, match="changed while the build ran; build again"):
            list(batches)
    with pytest.raises(ValueError, match=r"1\.parquet changed while the build ran; build again"):
        next(split.batches(footer.schema))


def test_files_that_may_change_unseen_are_left_to_spark(tmp_path: Path) -> None:
    path = tmp_path / "1.parquet"
    pq.write_table(rows(1), path)
    now = int(time.time())
    os.utime(path, (now, now))  # as a clock with seconds has it
    with pytest.raises(spark_splits._ForSparkError, match=r"1\.parquet was written a moment ago"):
        spark_splits._footer(str(path))


def path_of(folder: Path, number: int) -> Path:
    return folder / "in" / f"{number}.parquet"


def test_a_flipped_byte_of_a_page_is_seen(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    (tmp_path / "in").mkdir()
    for number in range(3):
        texts = [rng.randbytes(8).hex() for _ in range(2000)]
        table = rows(*range(number * 2000, number * 2000 + 2000), text=texts)
        pq.write_table(table, path_of(tmp_path, number), write_page_checksum=True)
    bad = path_of(tmp_path, rng.randrange(3))
    held = bytearray(bad.read_bytes())
    column = pq.read_metadata(bad).row_group(0).column(1)
    page = column.data_page_offset
    # Beyond the header of the page, and of its checksum.
    at = page + rng.randrange(60, column.total_compressed_size - (page - start_of(column)))
    held[at] ^= 1 << rng.randrange(8)
    bad.write_bytes(held)
    with pytest.raises(CorruptionError) as raised:
        build_store(tmp_path / "in", tmp_path / "store", key="id", spark=spark)
    assert raised.value.path == str(bad)
    assert not (tmp_path / "store").exists()


def start_of(column: pq.ColumnChunkMetaData) -> int:
    return int(column.dictionary_page_offset or column.data_page_offset)


def test_a_worker_that_is_killed_after_half_of_its_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planned: list[Splits]
) -> None:
    pq.write_table(rows(*range(5000)), tmp_path / "1.parquet", row_group_size=1000)
    real = spark_build.encode_splits

    def run(
        task: Any, splits: Splits, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for batch in real(task, splits, batches):
            yield batch
            if context.attemptNumber() == 0 and context.partitionId() == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(spark_build, "encode_splits", run)
    with build_store(tmp_path / "1.parquet", tmp_path / "store", key="id", spark=spark) as store:
        assert store.verify().stray == ()
        assert store.scan().read_all()["id"].to_pylist() == list(range(5000))
    assert len(planned[0]) > 1


def test_errors_of_rows_come_out_as_raised(
    spark: SparkSession, tmp_path: Path, planned: list[Splits]
) -> None:
    pq.write_table(pa.table({"id": [1, None], "b": [2, 2]}), tmp_path / "1.parquet")
    with pytest.raises(ValueError, match=r"^key column 'id' is null in a row of the source; "):
        build_store(tmp_path / "1.parquet", tmp_path / "store", key="id", spark=spark)
    with pytest.raises(lookupstore.DuplicateKeyError, match=r"^the key b=2 occurs more than once"):
        build_store(tmp_path / "1.parquet", tmp_path / "store", key="b", spark=spark)
    assert all(planned)
