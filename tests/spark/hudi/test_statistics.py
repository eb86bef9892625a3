"""Statistics of columns in Spark: by which it skips files, and which its writes keep.

The oracles are the same table without statistics, and files that are gone: who opens one fails.
Executors are processes of their own.
"""

from __future__ import annotations

import functools
import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from support.hudi.spark_rows import SCHEMA, Row, check, local_rows, make, spark_rows

from lookupstore.filters import filter_expression
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.write.partitioner import FileSizing
from lookupstore.spark import read_table, upsert

try:
    from pyspark.sql import datasource
except ImportError:
    datasource = None

pytestmark = [
    pytest.mark.spark,
    # PySpark 4.0 leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
needs_filters = pytest.mark.skipif(
    not hasattr(datasource, "EqualTo"), reason="filters come since Spark 4.1"
)

#: As Spark has it, and what files it leaves of `in_ranges`, by the hundred of their ids.
CONDITIONS: Mapping[str, set[int]] = {
    "id < 150": {0, 1},
    "id >= 399 AND id <= 400": {3, 4},
    "id IN (7, 505, NULL)": {0, 5},
    "id <=> 205": {2},
    "value = 'v0317'": {3},
    "value > 'v0399' AND value <= 'v0400'": {4},
    "value IS NULL": {1},
    "value IS NOT NULL AND id < 200": {0, 1},
    "id > 5000": set(),
    "ts < 100.0": {0},
    "ts IN (1.0, 502.0)": {0, 5},
    "ts = 251.0 AND NOT ts = 7.0": {2},
    "value LIKE 'v03%'": {3},
    "value NOT LIKE 'v03%'": {0, 1, 2, 4, 5},
    "NOT value <=> 'v0317' AND id > 350": {3, 4, 5},
    "id NOT IN (7, 8) AND day != 'a' AND id <= 99": {0},
    # To Spark NaN, which is in every file, is more than any number.
    "ts = double('NaN')": set(range(6)),
    "day = 'b' AND id < 100": {0},
    # What Spark does not push, or what is no part of statistics, leaves all.
    "ts > 560.0": set(range(6)),
    "id % 100 = 7": set(range(6)),
    "id < 100 OR value LIKE '%17'": set(range(6)),
}


def in_ranges(path: Path) -> HudiTable:
    """Make a table with a file of a hundred ids in each of two partitions, for each hundred."""
    table = make(path)
    for hundred in range(6):
        ids = range(hundred * 100, hundred * 100 + 100)
        rows: list[Row] = [
            (at, "ab"[at % 2], float("nan") if at % 10 == 0 else float(at),
             None if hundred == 1 and at % 9 < 2 else f"v{at:04d}")
            for at in ids
        ]  # fmt: skip
        table.bulk_insert(local_rows(rows))
    assert len(table.file_groups()) == 12
    return table


def hundreds(table: HudiTable) -> dict[str, int]:
    """Return of which hundred the ids of each base file are."""
    rows = table.scan(columns=["_hoodie_file_name", "id"]).to_pylist()
    return {one["_hoodie_file_name"]: one["id"] // 100 for one in rows}


def pushed(spark: SparkSession, path: Path) -> DataFrame:
    source = spark.read.format("lookupstore.hudi").option("pushdown", "true")
    return source.option("columns", ",".join(SCHEMA.names)).load(str(path))


def rows_of(df: DataFrame) -> list[str]:
    return sorted(repr(tuple(row)) for row in df.collect())  # NaN equals itself so


def filtered(tables: Sequence[DataFrame]) -> list[str]:
    """Return the rows that each condition leaves of a table of its own."""
    parts = [
        table.where(one).select(F.lit(one), "*")
        for one, table in zip(CONDITIONS, tables, strict=True)
    ]
    return rows_of(functools.reduce(DataFrame.union, parts))


@needs_filters
def test_filters_of_spark_skip_files(spark: SparkSession, tmp_path: Path) -> None:
    """Files that they leave out may be gone: nobody opens one; of any other all is read."""
    table = in_ranges(tmp_path / "t")
    with_files = {
        one.current.path: hundreds(table)[one.current.name] for one in table.file_groups()
    }
    theirs = spark.createDataFrame(pushed(spark, tmp_path / "t").toArrow())
    shutil.copytree(tmp_path / "t", tmp_path / "plain")
    assert table.collect_statistics() == 12
    asked = []
    for at, left in enumerate(CONDITIONS.values()):
        path = tmp_path / f"left-{at}"
        shutil.copytree(tmp_path / "t", path)
        asked.append(pushed(spark, path))  # lists the files
        for file, hundred in with_files.items():
            if hundred not in left:
                (path / file).unlink()
    assert filtered(asked) == filtered([theirs] * len(CONDITIONS))
    # Without statistics they are opened, and so is what is left when one of these is gone.
    for path, gone in ((tmp_path / "plain", 3), (tmp_path / "t", 1)):
        one = pushed(spark, path).where("id < 150")
        for file, hundred in with_files.items():
            if hundred == gone:
                (path / file).unlink()
        with pytest.raises(PythonException, match=r"StaleStoreError: "):
            one.collect()


def test_a_filter_of_read_table_skips_files(spark: SparkSession, tmp_path: Path) -> None:
    table = in_ranges(tmp_path / "t")
    both = [("id", "between", 250, 349), ("value", "is not null")]
    where = filter_expression(both, table.schema)
    expected = rows_of(read_table(spark, table, columns=["id", "value"], filter=where))
    sql = "id between 250 and 349 and value is not null"
    assert rows_of(read_table(spark, table, columns=["id", "value"], filter=sql)) == expected
    table.collect_statistics()
    funnel = table.explain_scan(where)
    assert (funnel.files.count, funnel.statistics.count, funnel.without_statistics.count) == (
        12, 4, 0,
    )  # fmt: skip
    by_name = hundreds(table)
    found = read_table(spark, tmp_path / "t", columns=["id", "value"], filter=where)
    for group in table.file_groups():
        if by_name[group.current.name] not in (2, 3):
            (tmp_path / "t" / group.current.path).unlink()
    assert rows_of(found) == expected
    assert len(expected) == 100


@needs_filters
def test_random_tables_with_and_without_statistics(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    table = make(tmp_path / "t", version=rng.choice([6, 8, 9]))
    collect_at = rng.randrange(4)
    for step in range(6):
        rows: list[Row] = [
            (id, rng.choice("ab"), rng.choice([float("nan"), -0.0, 1.5, None, float(id)]),
             rng.choice([None, "", f"é{id}", "x" * 80 + str(id), f"v{rng.randrange(30):02d}"]))
            for id in range(step * 20, step * 20 + 30)
        ]  # fmt: skip
        rng.choice([table.upsert, table.bulk_insert, table.insert])(local_rows(rows))
        if step == collect_at:
            table.collect_statistics()
    shutil.copytree(tmp_path / "t", tmp_path / "plain")
    shutil.rmtree(tmp_path / "plain" / ".hoodie" / ".lookupstore")
    nan = "double('NaN')"
    conditions = []
    for _ in range(4):
        id, text = rng.randrange(-5, 140), rng.choice(["", "é50", "x" * 80 + "7", "v15"])
        conditions += [
            f"id {rng.choice(['<', '<=', '=', '>', '>=', '<=>', '!='])} {id}",
            f"value {rng.choice(['<', '<=', '=', '>', '>=', '<=>'])} '{text}'",
            f"id BETWEEN {id} AND {id + 9} AND value IS {rng.choice(['', 'NOT '])}NULL",
            f"id IN ({id}, {id + 40}, NULL) AND value != '{text}'",
            f"value LIKE '{text[:2]}%' AND NOT id = {id}",
            f"ts {rng.choice(['<', '>=', '='])} {rng.choice(['0.0', id, nan])}",
        ]

    def left(path: Path, push: bool) -> list[str]:
        def load() -> DataFrame:
            return pushed(spark, path) if push else read_table(spark, path, columns=SCHEMA.names)

        parts = [load().where(one).select(F.lit(one), "*") for one in conditions]
        return rows_of(functools.reduce(DataFrame.union, parts))

    assert left(tmp_path / "t", True) == left(tmp_path / "plain", False)
    # Inserts may repeat keys.
    assert {one.kind for one in table.verify().findings} <= {"duplicate"}


def test_writes_of_spark_keep_statistics(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path / "t"
    table = make(path, ordering="ts")
    # Several files in a partition.
    sizing = FileSizing(max_file_size=8_000, small_file_limit=2_000, record_size=200)
    options = WriteOptions(sizing=sizing)
    table.bulk_insert(local_rows([(0, "a", 0.0, "first")]))
    table.collect_statistics()
    by_source = spark_rows(spark, [(5000, "c", 1.0, "saved")])
    steps = [
        lambda: upsert(given(rng, 0), path, options=options),
        lambda: upsert(given(rng, 1), path, operation="bulk_insert", options=options),
        lambda: upsert(given(rng, 1), path, options=options),
        lambda: upsert(given(rng, 2), path, operation="insert_overwrite", options=options),
        lambda: by_source.write.format("lookupstore.hudi").mode("append").save(str(path)),
    ]

    def given(rng: random.Random, thousand: int) -> DataFrame:
        ids = rng.sample(range(thousand * 1000, thousand * 1000 + 100), 80)
        rows: list[Row] = [
            (id, rng.choice("ab"), rng.random(), f"s{id}", rng.random() < 0.1) for id in ids
        ]
        return spark_rows(spark, rows)

    for number, step in enumerate(steps[: None if datasource is not None else -1]):
        step()
        now = HudiTable.open(path)
        everything = now.explain_scan(pc.field("id") > 1_000_000)
        # Of all files something is known, and by it all are skipped.
        assert everything.files.count == len(now.file_groups()) > 0, number
        assert (everything.without_statistics.count, everything.statistics.count) == (0, 0)
        rows = now.scan(columns=["id", "value"])
        for id in rng.sample(rows["id"].to_pylist(), 3):
            where = pc.field("id") == id
            found = now.scan(columns=["id", "value"], filter=where)
            assert found.equals(rows.filter(where))
        assert now.verify().findings == ()
    check(path)
