"""Ways to go wrong in Spark, as in test_ways_to_go_wrong.py: each remedy is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from support.ways import Way, check_way

import lookupstore
from lookupstore.spark import build_store, lookup_join, register

pytestmark = pytest.mark.spark


def days(folder: Path) -> str:
    table = pa.table({"city": ["Bath", "Bern"], "day": [1, 1], "n": [10, 20]})
    path = str(folder / "days")
    lookupstore.build(table, path, key=["city", "day"], overwrite=True).close()
    return path


def rows_of_spark(spark: SparkSession) -> list[Way]:
    facts = spark.createDataFrame([("Bath", 1)], "city string, day long")

    def write(df: DataFrame, folder: Path, mode: str = "append", **options: str) -> None:
        df.write.format("lookupstore").mode(mode).options(**options).save(str(folder / "new"))

    def read(folder: Path, **options: str) -> int:
        return spark.read.format("lookupstore").options(**options).load(days(folder)).count()

    def join(folder: Path, on: Any) -> int:
        return lookup_join(facts, days(folder), on).count()

    def build(folder: Path, df: DataFrame = facts, **options: Any) -> None:
        build_store(df, str(folder / "new"), key="city", buckets=2, **options).close()

    none = facts.limit(0)
    other = facts.selectExpr("day AS city")
    return [
        Way("df.write without key", lambda here: write(facts, here), PySparkException,
            ("no key; give option('key', 'a,b')",), lambda here: write(facts, here, key="city")),
        Way("df.write over a store", lambda here: [build(here), write(facts, here, key="city")],
            PySparkException, ("there is already a store", "overwrite"),
            lambda here: write(facts, here, "overwrite", key="city")),
        Way("df.write of no rows over rows",
            lambda here: [build(here), write(none, here, "overwrite", key="city")],
            PySparkException, ("would replace version 1", '.option("allow_empty", "true")'),
            lambda here: write(none, here, "overwrite", key="city", allow_empty="True")),
        Way("df.write.option('retain', 'soon')",
            lambda here: write(facts, here, key="city", retain="soon"), PySparkException,
            ("retain is 'soon'", "1h"), lambda here: write(facts, here, key="city", retain="1h")),
        Way("build_store of no rows over rows",
            lambda here: [build(here), build(here, none, overwrite=True)], ValueError,
            ("no rows, and would replace version 1", "allow_empty=True"),
            lambda here: build(here, none, overwrite=True, allow_empty=True)),
        Way("df.write of another key",
            lambda here: [build(here), write(facts, here, "overwrite", key="day")],
            PySparkException, ("version 1 is city: string", '.option("allow_new_key", "true")'),
            lambda here: write(facts, here, "overwrite", key="day", allow_new_key="true")),
        Way("build_store of another key",
            lambda here: [build(here), build(here, other, overwrite=True)], ValueError,
            ("version 1 is city: string", "allow_new_key=True"),
            lambda here: build(here, other, overwrite=True, allow_new_key=True)),
        Way("spark.read.option('starts_with', ...) of a number",
            lambda here: read(here, prefix='"Bath"', starts_with="1"), PySparkException,
            ("starts_with: the key field 'day' is int64", "give prefix= whole values"),
            lambda here: read(here, prefix='["Bath", 1]')),
        Way("lookup_join(on=) of one key column of two", lambda here: join(here, "city"),
            (ValueError, KeyError, TypeError), ("day",), lambda here: join(here, ["city", "day"])),
    ]  # fmt: skip


def test_ways_to_go_wrong_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    for number, way in enumerate(rows_of_spark(spark)):
        folder = tmp_path / str(number)
        folder.mkdir()
        print(check_way(way, folder))


def test_beginnings_of_keys_are_read(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    path = days(tmp_path)

    def cities(**options: str) -> list[str]:
        df = spark.read.format("lookupstore").options(**options).load(path)
        return sorted(row.city for row in df.collect())

    assert cities(starts_with="B") == ["Bath", "Bern"]
    assert cities(starts_with="Ba") == ["Bath"]
    assert cities(prefix='"Ba"') == []
    assert cities(prefix='"Bath"') == ["Bath"]
