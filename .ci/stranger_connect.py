"""A lookup join over Spark Connect, with the extra `connect` alone: the client has no JVM."""

import os
import sys

import pyarrow as pa
from pyspark.sql import SparkSession

import lookupstore
from lookupstore.spark import lookup_join

os.environ["PYSPARK_PYTHON"] = sys.executable
users = pa.table({"id": [2, 1], "name": ["Ada", "Ann"]})
lookupstore.build(users, "users", key="id").close()
spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert "connect" in type(spark).__module__
facts = spark.createDataFrame([(1, 1.5), (3, 2.5)], "id bigint, paid double")
joined = lookup_join(facts, os.path.abspath("users"), on="id").orderBy("id").collect()
assert [tuple(row) for row in joined] == [(1, 1.5, "Ann"), (3, 2.5, None)]
print("a join over Spark Connect")
spark.stop()
