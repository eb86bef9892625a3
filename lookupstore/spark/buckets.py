"""Rows of a bucket in one task: moved there by Spark, told apart where several buckets meet."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

#: The column that has the number of a row's bucket.
BUCKET = "bucket"


def in_buckets(rows: DataFrame, count: int, column: str = BUCKET) -> DataFrame:
    """Move rows to the tasks of their buckets.

    Args:
        rows: a DataFrame.
        count: number of buckets.
        column: has the bucket of each row, from 0, as int.

    Returns:
        the rows, those of each bucket in one task. Before Spark 4.1 several buckets may meet there.
    """
    if has_a_task_each(rows):
        return rows.repartitionById(count, column)
    return rows.repartition(count, column)


def has_a_task_each(rows: DataFrame) -> bool:
    """Return whether Spark can give each bucket a task of its own, which came with Spark 4.1."""
    return hasattr(rows, "repartitionById")


def by_bucket(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Cut batches, in which the rows of a bucket stand together, where the bucket changes."""
    for batch in batches:
        if not batch.num_rows:
            continue
        buckets = batch.column(BUCKET).to_numpy()
        cuts = (np.flatnonzero(np.diff(buckets)) + 1).tolist()
        for start, stop in itertools.pairwise([0, *cuts, len(buckets)]):
            yield int(buckets[start]), batch.slice(start, stop - start)
