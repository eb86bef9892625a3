"""Write an archive of Spark's classes for the JVMs of tests: `python classes.py ARCHIVE`.

Each test of the bench, of an example or of the command line has a JVM of its own, and half of what
that does until it has an answer is to read and check classes. Java can map them from an archive.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import SparkContext

from lookupstore.spark import build_store, lookup_join, session


def use_spark(folder: Path) -> None:
    """Do what most tests do: read, join in each way, count, sort and write."""
    pq.write_table(pa.table({"id": [1, 2, 3], "a": ["x", "y", "z"]}), folder / "rows.parquet")
    spark = session("classes", "local[2]", **{"spark.log.level": "ERROR"})
    build_store(str(folder / "rows.parquet"), str(folder / "store"), key="id").close()
    rows = spark.read.parquet(str(folder / "rows.parquet"))
    lookup_join(rows.select("id"), str(folder / "store"), on="id").orderBy("id").collect()
    for hint in ("merge", "broadcast", "shuffle_hash"):
        rows.join(rows.hint(hint), "id", "left").write.format("noop").mode("overwrite").save()
    rows.groupBy("a").count().write.parquet(str(folder / "counts"))
    spark.read.format("lookupstore").load(str(folder / "store")).toArrow()
    spark.stop()


def main(archive: str) -> None:
    """Write the archive, which the JVM does when it ends."""
    with TemporaryDirectory() as folder:
        use_spark(Path(folder))
    process: Any = SparkContext._gateway.proc  # type: ignore[union-attr]
    process.stdin.close()
    process.wait()
    if not Path(archive).exists():  # as Javas of other makers: tests only take longer
        print(f"Java wrote no {archive}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
