"""The same folders to Spark, and to what builds and joins by Spark."""

from __future__ import annotations

import functools
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from support.folders import CASES, Case, comparable

from lookupstore import FormatError
from lookupstore.spark import build_store, lookup_join
from lookupstore.spark.build import build as spark_build
from lookupstore.spark.paths import plan_reading

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

TYPES = {"id": pa.int64(), "v": pa.string()}
#: Queries that ask about all cases.
PARTS = 5
#: Folders of which `build_store` makes stores: all that Spark reads as the others do.
BUILT = [
    pytest.param(case, id=case.name)
    for case in CASES
    if not case.refused and "%C3" not in case.name
]


@pytest.fixture
def other_zone(spark: SparkSession) -> Iterator[None]:
    """Let the session be in a zone in which a time without one would be another."""
    was = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield
    spark.conf.set("spark.sql.session.timeZone", was)


def rows_of(df: DataFrame) -> list[dict[str, Any]]:
    # By Arrow, which has times with their zone.
    rows = df.toArrow().to_pylist()
    return sorted(map(comparable, rows), key=lambda row: str(row["v"]))


def types_of(df: DataFrame) -> dict[str, pa.DataType]:
    in_utc = pa.timestamp("us", "UTC")
    return {
        field.name: in_utc if pa.types.is_timestamp(field.type) else field.type
        for field in to_arrow_schema(df.schema, timezone="UTC")
    }


def written(tmp_path: Path, cases: list[Case]) -> Iterator[tuple[Case, str]]:
    for number, case in enumerate(cases):
        yield case, case.write(tmp_path / f"case {number}")


def test_spark_finds_what_the_cases_say(spark: SparkSession, tmp_path: Path) -> None:
    for case, given in written(tmp_path, CASES):
        if not case.spark:
            continue
        options = dict(case.options)
        if "basePath" in options:
            options["basePath"] = given.removesuffix(case.given)
        reader = spark.read.options(timeZone="UTC", **options)
        if case.refused:
            with pytest.raises((PySparkException, Py4JError)):
                reader.parquet(given).collect()
            continue
        df = reader.format(case.file_format).load(given)
        assert types_of(df) == {**TYPES, **case.types}, case.name
        assert rows_of(df) == case.expected(), case.name


@pytest.mark.long
def test_a_build_tells_spark_how_to_read(
    spark: SparkSession, tmp_path: Path, other_zone: None
) -> None:
    for case, given in written(tmp_path, CASES):
        if case.refused:
            with pytest.raises(FormatError, match=case.refused):
                build_store(given, tmp_path / "store", key="v", spark=spark)
            continue
        if "%C3" in case.name:
            with pytest.raises(FormatError, match="letters other than ASCII"):
                build_store(given, tmp_path / "store", key="v", spark=spark)
            continue
        df = spark_build._read(spark, [given], plan_reading([given]))
        assert types_of(df) == {**TYPES, **case.types}, case.name
        assert rows_of(df) == case.expected(), case.name


@pytest.mark.few(1)
@pytest.mark.parametrize("part", range(PARTS))
def test_joins_find_what_the_cases_say(
    spark: SparkSession, tmp_path: Path, other_zone: None, part: int
) -> None:
    """In one query: the columns of many cases side by side, each by its name and type."""
    joins: list[DataFrame] = []
    cases = []
    for case, given in written(tmp_path, CASES[part::PARTS]):
        facts = spark.createDataFrame(pa.table({"v": pa.array(list(case.rows), pa.string())}))
        if case.refused:
            with pytest.raises(FormatError, match=case.refused):
                lookup_join(facts, given, on="v")
            continue
        joined = lookup_join(facts, given, on="v")
        types = types_of(joined)
        assert types == {**TYPES, **case.types}, case.name
        columns = {name: f"{name}: {kind}" for name, kind in types.items()}
        own = [F.col(f"`{name}`").alias(column) for name, column in columns.items()]
        joins.append(joined.select(F.lit(len(cases)).alias("case"), *own))
        cases.append((case, columns))
    together = functools.reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), joins)
    found = together.toArrow()
    for number, (case, columns) in enumerate(cases):
        rows = found.filter(pc.equal(found["case"], number)).select(list(columns.values()))
        expected = [{columns[name]: row[name] for name in columns} for row in case.expected()]
        of_case = sorted(map(comparable, rows.to_pylist()), key=lambda row: row[columns["v"]])
        assert of_case == expected, case.name


@pytest.mark.few(3)
@pytest.mark.parametrize("case", BUILT)
def test_stores_have_the_same_rows(
    spark: SparkSession, tmp_path: Path, other_zone: None, case: Case
) -> None:
    given = case.write(tmp_path / "in")
    with build_store(given, tmp_path / "store", key="v", spark=spark) as store:
        found = store.scan().read_all()
        kinds = dict(zip(found.schema.names, found.schema.types, strict=True))
        assert kinds == {**TYPES, **case.types}
        assert (
            sorted(map(comparable, found.to_pylist()), key=lambda row: row["v"]) == case.expected()
        )


def test_folders_of_tables_that_are_not_read(
    spark: SparkSession, tmp_path: Path, golden: Path
) -> None:
    with zipfile.ZipFile(golden / "paimon" / "tables" / "replaced-row.zip") as archive:
        archive.extractall(tmp_path / "paimon")
    query = (
        spark.readStream.format("rate")
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(once=True)
        .start(str(tmp_path / "sink"))
    )
    query.awaitTermination()
    assert (tmp_path / "sink" / "_spark_metadata").is_dir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "sink" / "left.parquet")
    calls: list[Callable[[str], Any]] = [
        lambda path: build_store(path, tmp_path / "store", key="id", spark=spark),
        lambda path: lookup_join(spark.range(3), path, on="id"),
    ]
    for call in calls:
        for path in ("sink", "sink/*.parquet", "sink/left.parquet"):
            with pytest.raises(FormatError, match=r"sink of a Spark stream.*spark\.read\.parquet"):
                call(str(tmp_path / path))
        with pytest.raises(FormatError, match="is inside the Paimon table"):
            call(str(tmp_path / "paimon" / "t" / "bucket-0"))
    paths = [str(tmp_path / "paimon" / "t"), str(tmp_path / "sink" / "left.parquet")]
    with pytest.raises(FormatError, match="is a Paimon table; give it alone"):
        build_store(paths, tmp_path / "store", key="id", spark=spark)
