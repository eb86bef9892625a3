"""Join flights with planes over Spark Connect: joins and functions are sent, and run on the server.

Give a folder that both see and the address of a server, such as sc://host:15002, whose Python has
lookupstore; without these a server is started here. The result is compared with what Spark's own
join makes of the flights.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import lookupstore
from lookupstore.demo import write_data
from lookupstore.spark import lookup_join, register_lookup

COLUMNS = ["model", "seats"]


def main(folder: Path, server: str = "local[2]") -> None:
    """Build a store below a folder, which the server sees too, and join the flights with it."""
    files = write_data(folder)
    lookupstore.build(files["planes"], folder / "planes.store", key="tailnum").close()
    spark = SparkSession.builder.remote(server).getOrCreate()
    flights = spark.read.parquet(f"file://{files['flights']}")
    planes = spark.read.parquet(f"file://{files['planes']}").select("tailnum", *COLUMNS)

    joined = lookup_join(flights, folder / "planes.store", on="tailnum", columns=COLUMNS)
    own = flights.join(planes, "tailnum", "left").select(joined.columns)
    assert joined.exceptAll(own).count() == own.exceptAll(joined).count() == 0
    print(f"{joined.count():,} flights, equal to those of Spark's join")

    # The store as a function, of expressions and in SQL.
    plane = register_lookup(spark, "plane", folder / "planes.store", columns=COLUMNS)
    flights.createOrReplaceTempView("flights")
    seats = flights.select(sf.sum(plane("tailnum")["seats"]))
    in_sql = spark.sql("SELECT sum(plane(tailnum).seats) FROM flights")
    assert first_of(seats) == first_of(in_sql) == first_of(own.select(sf.sum("seats")))
    print(f"{first_of(seats):,} seats, by a function as by the join")
    spark.stop()


def first_of(df: DataFrame) -> int:
    """Return the one value of a DataFrame."""
    return int(df.collect()[0][0])


if __name__ == "__main__":
    server = sys.argv[2] if len(sys.argv) > 2 else "local[2]"
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]), server)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary), server)
