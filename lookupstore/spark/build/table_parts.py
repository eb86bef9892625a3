"""Tables whose files tasks read, without Spark's readers."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lookupstore.source.table_folders import TableFormat
from lookupstore.source.table_readers import table_commits
from lookupstore.spark.build.plan_size import COLUMNAR_RATIO
from lookupstore.spark.build.splits import TASK_BYTES
from lookupstore.spark.build.task import BuildTask, encode_parts
from lookupstore.spark.jobs import parallelism
from lookupstore.tables.differences import differing_files
from lookupstore.tables.history import RowDifference


@dataclass(frozen=True)
class TableParts:
    """All rows of a table at one moment, in parts.

    Attributes:
        description: Description of the table and the moment, in one line for people.
        schema: Columns of the rows.
        parts: The parts. Those of one bucket of the table are adjacent.
    """

    description: str
    schema: pa.Schema
    parts: Sequence[RowDifference]

    @property
    def nbytes(self) -> int:
        """Return the approximate size of the rows in a store."""
        return COLUMNAR_RATIO * sum(part.nbytes for part in self.parts)

    def packs(self, spark: SparkSession, task: BuildTask) -> DataFrame:
        """Return the encoded rows in packs, which tasks read.

        Args:
            spark: Session of the tasks.
            task: Description of the build.
        """
        groups = _groups(self.parts, parallelism(spark))
        numbers = spark.range(0, len(groups), 1, max(1, len(groups)))
        encode = functools.partial(encode_parts, task, pickle.dumps(groups))
        return numbers.mapInArrow(encode, task.packs)


def table_parts(
    table_format: TableFormat, given: Any, *, version: int | None = None, as_of: Any = None
) -> TableParts:
    """Return the rows of a snapshot of a table.

    Args:
        table_format: Format of the table, which is not Hudi.
        given: Folder, URI or name of the table, or an object of the library of its format.
        version: Number of the snapshot. None: that of the object, or of `as_of`; or the newest one.
        as_of: Time of the snapshot. None: not given.

    Raises the errors of opening the table.
    """
    commits = table_commits(table_format, given, version=version, as_of=as_of)
    snapshot = commits.snapshot(commits.opened)
    return TableParts(snapshot.description, snapshot.schema, differing_files(snapshot, ()))


def _groups(parts: Sequence[RowDifference], tasks: int) -> list[list[RowDifference]]:
    """Return the parts of a table in groups, one for each task that reads.

    Args:
        parts: Parts of the table. Those of one bucket are adjacent.
        tasks: Number of tasks that can run at the same time.
    """
    least, most = TASK_BYTES
    size = max(least, min(most, sum(part.nbytes for part in parts) // max(1, tasks)))
    groups: list[list[RowDifference]] = []
    room = 0
    for part in parts:
        if not groups or part.nbytes > room:
            groups.append([])
            room = size
        groups[-1].append(part)
        room -= part.nbytes
    return groups
