"""Keep a dimension on an object store: executors fetch what they need, once per host.

Two ways: a store, which Spark builds and publishes under a URI; and the columnar files as they are,
whose lookup files are published beside them, so that no other cluster has to make them.
"""

from __future__ import annotations

import sys

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.spark import build_store, lookup_join, session
from lookupstore.storage.uris import open_uri

ROWS = 200_000


def main(uri: str) -> None:
    """Do both below a URI such as s3://bucket/folder."""
    spark = session("dimension on S3")
    facts = spark.range(0, 2 * ROWS, 1001).select(F.col("id").alias("user_id"))

    # 1. A store: tasks write their buckets, and the driver publishes them as a version.
    users = spark.range(ROWS).select(
        F.col("id").alias("user_id"), F.concat(F.lit("user "), F.col("id")).alias("name")
    )
    store = build_store(users, f"{uri}/users.store", key="user_id", buckets=4, overwrite=True)
    print(f"{store.path}: version {store.version}, {store.info().bytes:,} bytes")
    joined = lookup_join(facts, f"{uri}/users.store", on="user_id")
    expected = facts.join(users, "user_id", "left")
    assert sorted(joined.collect(), key=str) == sorted(expected.collect(), key=str)
    counts = lookupstore.open(f"{uri}/users.store")
    assert counts.get(7) == {"name": "user 7"}

    # 2. Columnar files as they are: lookup files are made on demand, and can be published once.
    filesystem, folder = open_uri(f"{uri}/grades")
    for part in range(2):
        ids = range(part * ROWS // 2, (part + 1) * ROWS // 2)
        table = pa.table({"user_id": ids, "grade": [key % 9 for key in ids]})
        filesystem.create_dir(folder)
        pq.write_table(table, f"{folder}/{part}.parquet", filesystem=filesystem)
    files = ColumnarFiles(f"{uri}/grades/*.parquet", key="user_id")
    print(f"published {files.publish()} lookup files of {files.num_rows:,} rows")
    graded = lookup_join(facts, files, on="user_id", how="inner")
    assert {(row.user_id, row.grade) for row in graded.collect()} == {
        (key, key % 9) for key in range(0, ROWS, 1001)
    }
    print("equal to Spark's own join")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: dimension_on_s3.py s3://bucket/folder")
    main(sys.argv[1].rstrip("/"))
