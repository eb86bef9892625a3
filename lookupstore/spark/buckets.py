"""Rows of a bucket in one task: Spark moves them there, and tasks separate several buckets."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

#: Name of the column of the bucket of a row.
BUCKET = "bucket"


def in_buckets(rows: DataFrame, count: int, column: str = BUCKET) -> DataFrame:
    """Move rows to the tasks of their buckets.

    Args:
        rows: Rows to move.
        count: Number of buckets.
        column: Name of the column with the bucket of each row, from 0, as int.

    Returns:
        The rows, with all rows of a bucket in one task. Before Spark 4.1 a task may get several
        buckets.
    """
    if has_a_task_each(rows):
        return rows.repartitionById(count, column)
    return rows.repartition(count, column)


def has_a_task_each(rows: DataFrame) -> bool:
    """Return whether Spark can assign a task to each bucket, which requires Spark 4.1."""
    return hasattr(rows, "repartitionById")


def by_bucket(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Cut batches with adjacent rows of each bucket into parts where the bucket changes."""
    for batch in batches:
        if not batch.num_rows:
            continue
        buckets = batch.column(BUCKET).to_numpy()
        cuts = (np.flatnonzero(np.diff(buckets)) + 1).tolist()
        for start, stop in itertools.pairwise([0, *cuts, len(buckets)]):
            yield int(buckets[start]), batch.slice(start, stop - start)
