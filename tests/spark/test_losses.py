"""What Spark's columns lose on their way, as `lookupstore.source.losses` lists it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lookupstore
from lookupstore.spark import register_lookup
from lookupstore.spark.types import arrow_schema

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def test_a_function_compares_collated_text_as_bytes(spark: SparkSession, tmp_path: Path) -> None:
    lookupstore.build({"k": ["a"], "v": [1]}, tmp_path / "s", key="k").close()
    register_lookup(spark, "at_key", str(tmp_path / "s"))
    query = "SELECT at_key('A' COLLATE UTF8_LCASE).v AS found, at_key('a').v AS same"
    (row,) = spark.sql(query).collect()
    assert (row.found, row.same) == (None, 1)


@pytest.mark.parametrize("value", ["parse_json('{}')", "INTERVAL '1' YEAR", "make_interval(1, 2)"])
def test_types_that_spark_does_not_give_to_arrow(spark: SparkSession, value: str) -> None:
    schema = spark.sql(f"SELECT 1 AS id, {value} AS v").schema
    with pytest.raises(TypeError, match=r"column 'v' is .*, which Spark cannot give to Arrow; "):
        arrow_schema(schema)
