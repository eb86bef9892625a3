"""Join a stream with a dimension that changes while the query runs.

Prices are published as versions of a store. Each micro-batch takes the newest one, the same in all
of its tasks; prices that are more than a day old would stop the query.
"""

from __future__ import annotations

import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

import lookupstore
from lookupstore.spark import lookup_join, session


def publish_prices(path: Path, factor: int) -> lookupstore.LookupStore:
    """Publish the next version of the prices of 1,000 items."""
    prices = pa.table({"item": range(1000), "price": [factor * item for item in range(1000)]})
    return lookupstore.build(prices, path, key="item", overwrite=path.exists(), retain=3600)


def main(folder: Path) -> None:
    """Run the stream over two versions, with all files below a folder."""
    spark = session("stream with a changing dimension")
    store = publish_prices(folder / "prices", 1)
    arriving = folder / "arriving"
    spark.createDataFrame([(1, 10), (2, 999)], "sale int, item int").write.parquet(str(arriving))

    sales = spark.readStream.schema("sale int, item int").parquet(str(arriving))
    priced = lookup_join(
        sales,
        store,
        on="item",
        refresh="per_batch",
        max_staleness=timedelta(days=1),
        on_miss=("retry", 3, 0.2),  # an item may be sold before its price is published
    )
    query = (
        priced.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start(str(folder / "priced"))
    )
    query.processAllAvailable()
    print("first batch:", sorted(spark.read.parquet(str(folder / "priced")).collect()))

    newer = publish_prices(folder / "prices", 100)
    print(f"published version {newer.version}")
    time.sleep(2)  # a version answers when it is a second old
    more = spark.createDataFrame([(3, 10), (4, 5)], "sale int, item int")
    more.write.mode("append").parquet(str(arriving))
    query.processAllAvailable()
    query.stop()

    got = sorted(tuple(row) for row in spark.read.parquet(str(folder / "priced")).collect())
    print("all batches:", got)
    assert got == [(1, 10, 10), (2, 999, 999), (3, 10, 1000), (4, 5, 500)]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
