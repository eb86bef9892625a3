"""Look planes and airlines up in Spark SQL, by functions that stores have become.

The session is Spark's own, without a line that says lookupstore: it finds the format by itself. The
result is compared with what Spark's joins make of the same flights.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import lookupstore
from lookupstore.demo import write_data
from lookupstore.spark import register_lookup

BY_FUNCTIONS = """
    SELECT airline(carrier).name AS airline, plane(tailnum).manufacturer AS maker,
        count(*) AS flights, sum(plane(tailnum).seats) AS seats
    FROM flights
    WHERE plane(tailnum).seats > 100
    GROUP BY ALL
    """
BY_JOINS = """
    SELECT airlines.name AS airline, manufacturer AS maker, count(*) AS flights,
        sum(seats) AS seats
    FROM flights
    JOIN planes ON flights.tailnum = planes.tailnum
    LEFT JOIN airlines ON flights.carrier = airlines.carrier
    WHERE seats > 100
    GROUP BY ALL
    """


def main(folder: Path) -> None:
    """Build stores below a folder, and ask for the same by functions and by joins."""
    files = write_data(folder)
    spark = SparkSession.builder.master("local[2]").appName("lookups").getOrCreate()
    for name, key in (("flights", None), ("planes", "tailnum"), ("airlines", "carrier")):
        spark.read.parquet(f"file://{files[name]}").createOrReplaceTempView(name)
        if key is not None:
            lookupstore.build(files[name], folder / f"{name}.store", key=key).close()
    register_lookup(spark, "plane", folder / "planes.store")
    register_lookup(spark, "airline", folder / "airlines.store")
    found, expected = (rows_of(spark.sql(query)) for query in (BY_FUNCTIONS, BY_JOINS))
    assert found == expected
    for row in sorted(found, key=lambda row: -row[2])[:5]:
        print(*row, sep="\t")
    print(f"{len(found)} rows, equal to those of Spark's joins")

    # A store is a table, too, in this session as in any other.
    store = spark.read.format("lookupstore").load(str(folder / "planes.store"))
    assert rows_of(store.selectExpr("tailnum", "seats")) == rows_of(
        spark.table("planes").selectExpr("tailnum", "seats")
    )
    spark.stop()


def rows_of(df: DataFrame) -> set[tuple[object, ...]]:
    """Return the rows of a DataFrame, each of which is there once."""
    rows = [tuple(row) for row in df.collect()]
    assert len(set(rows)) == len(rows)
    return set(rows)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
