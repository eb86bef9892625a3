"""Enrich a batch of orders from a dimension of customers, and put orders without one aside.

The dimension becomes a store once; each batch after that reads only the store.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812

from lookupstore.spark import LookupMetrics, build_store, lookup_join, session


def main(folder: Path) -> None:
    """Build the store and run one batch, with all files below a folder."""
    spark = session("batch enrichment")

    # The dimension, as some other job has written it: 100,000 customers in Parquet.
    spark.range(100_000).select(
        F.col("id").alias("customer_id"),
        F.concat(F.lit("customer "), F.col("id")).alias("name"),
        F.element_at(F.array(*map(F.lit, ["GB", "US", "SE"])), (F.col("id") % 3 + 1).cast("int"))
        .alias("country"),
    ).write.parquet(str(folder / "customers"))  # fmt: skip
    store = build_store(str(folder / "customers"), folder / "customers.store", key="customer_id")
    print(f"store of {len(store):,} customers: {store.info().bytes:,} bytes")

    # The facts. One order in a hundred has a customer that the dimension does not know.
    orders = spark.range(50_000).select(
        F.col("id").alias("order_id"),
        F.when(F.col("id") % 100 == 0, 1_000_000).otherwise(F.col("id") * 7 % 100_000)
        .alias("customer_id"),
        (F.col("id") % 900 / 10).alias("paid"),
    )  # fmt: skip

    metrics = LookupMetrics(spark)
    enriched = lookup_join(
        orders, store, on="customer_id", columns=["country"], found="known", metrics=metrics
    ).cache()  # two tables are made of it, and each key is looked up once

    by_country = enriched.where("known").groupBy("country").agg(F.sum("paid").alias("paid"))
    by_country.write.parquet(str(folder / "paid_by_country"))
    enriched.where("not known").drop("country").write.parquet(str(folder / "orders_set_aside"))
    print(f"looked up {metrics.counts.rows:,} keys, {metrics.counts.misses:,} of them unknown")

    # The same by Spark's own join.
    expected = (
        orders.join(spark.read.parquet(str(folder / "customers")), "customer_id")
        .groupBy("country")
        .agg(F.sum("paid").alias("paid"))
    )
    got = spark.read.parquet(str(folder / "paid_by_country"))
    assert sorted(got.collect()) == sorted(expected.collect())
    assert spark.read.parquet(str(folder / "orders_set_aside")).count() == 500
    print("equal to Spark's own join")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
