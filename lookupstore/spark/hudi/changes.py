"""The reader of ``spark.readStream.format("lookupstore.hudi")``: changed rows, commit by commit.

With the option `changes`, it returns the change of each row, including deletes and both images of
updates. An offset is the position of the last commit whose rows were returned, which a checkpoint
stores. Spark asks for offsets and partitions in one Python process of the driver, as long as the
query runs, and reads partitions in workers of executors. A batch is the result of
`HudiTable.incremental`, or `HudiTable.changes`, between two offsets: it is the same if it is
planned again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.types import StructType

from lookupstore.arrow.changelog import CHANGE
from lookupstore.errors import StaleStoreError
from lookupstore.hudi import HudiTable
from lookupstore.hudi.read import (
    ChangePlan,
    ScanPlan,
    plan_changes,
    plan_row_changes,
    positions_after,
)
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write import check_stream, told_apart
from lookupstore.spark.hudi.read import change_columns, change_rows, part_rows, spark_columns
from lookupstore.spark.options import (
    given_location,
    given_names,
    given_number,
    unknown_option_error,
)
from lookupstore.spark.types import arrow_schema

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # limits, and the trigger that needs them, exist since Spark 4.2
    ReadMaxFiles = None  # type: ignore[assignment, misc]

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """A class without members, for versions of Spark that do not ask for it."""


STREAM_OPTIONS = (
    "path", "columns", "start", "max_commits", "changes", "ignore", "storage_options",
)  # fmt: skip
#: Options that only a stream has.
ONLY_STREAM = ("start", "max_commits", "changes", "ignore")
_EARLIEST, _LATEST = "earliest", "latest"
_POSITION = "position"
# Maximum size of the files that one task reads, if there are several, in bytes.
_TASK_BYTES = 32 << 20

Offset = dict[str, Any]


@dataclass
class ChangesPartition(datasource.InputPartition):
    """The files that one task reads, and the parts of them."""

    plan: ScanPlan | ChangePlan


def stream_columns(options: Mapping[str, str]) -> StructType:
    """Return the columns that a stream reads; raise the errors of `changes_of`."""
    view = _table(options).view()
    if _wants_changes(options):
        # Only the columns are needed: from the last commit on there is nothing to plan.
        positions = positions_after(view, None)
        last = positions[-1] if positions else None
        asked = given_names(options, "columns")
        return change_columns(plan_row_changes(view, last, None, asked, _ignored(options)))
    names = view.names(given_names(options, "columns"))
    return spark_columns(pa.schema([view.schema.field(name) for name in names]))


def changes_of(options: Mapping[str, str], schema: StructType) -> ChangesReader:
    """Return a reader of the changes of a table.

    Raises:
        ValueError: If an option is unknown or has a bad value.
        FileNotFoundError: If there is no table.
        FormatError: If the table is of an unsupported kind.
    """
    table = _table(options)
    most = given_number(options, "max_commits")
    if most is not None and most < 1:
        raise ValueError(f"max_commits is {most}; give at least 1")
    if most is not None and ReadMaxFiles is None:
        raise ValueError("max_commits: Spark has limits of streams since 4.2; leave it out")
    start = options.get("start", _EARLIEST)
    if start not in (_EARLIEST, _LATEST) and not start.isdecimal():
        raise ValueError(
            f"start is {start!r}; give earliest, latest, or the position of the last commit whose "
            "rows are known already"
        )
    ignore = _ignored(options) if _wants_changes(options) else None
    return ChangesReader(table, schema, start, most, ignore)


class ChangesReader(datasource.DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader of the changes of a table, which `changes_of` creates.

    Args:
        table: Table to read the changes of.
        schema: Columns of the result, in Spark's types.
        start: Start of a new query: `earliest`, `latest`, or the position to begin after.
        max_commits: Greatest number of commits in one batch. None: all commits.
        ignore: Columns in which a difference is not a change. None: the rows in their newest state
            are returned, instead of their changes.
    """

    def __init__(
        self,
        table: HudiTable,
        schema: StructType,
        start: str,
        max_commits: int | None,
        ignore: Sequence[str] | None,
    ) -> None:
        self._table = table
        self._schema = schema
        self._start = start
        self._most = max_commits
        self._ignore = ignore
        self._last: str | None = None

    def initialOffset(self) -> Offset:  # noqa: N802  (the names are Spark's)
        """Return the offset at which a new query begins."""
        if self._start == _EARLIEST:
            return {_POSITION: ""}
        if self._start == _LATEST:
            positions = positions_after(self._table.view(), None)
            return {_POSITION: positions[-1] if positions else ""}
        return {_POSITION: self._start}

    def latestOffset(  # noqa: N802
        self, start: Offset | None = None, limit: ReadLimit | None = None
    ) -> Offset:
        """Return the end of the next batch.

        Args:
            start: End of the batch before. None: unknown, as in Spark before 4.2.
            limit: Limit of the size of the batch. None: no limit.
        """
        since = None if start is None else start[_POSITION]
        positions = positions_after(self._table.view(), since or None)
        if self._last is not None:
            positions = [one for one in positions if one <= self._last]
        if not positions:
            return start or self.initialOffset()
        most = len(positions)
        if ReadMaxFiles is not None and isinstance(limit, ReadMaxFiles):
            most = limit.max_files
        return {_POSITION: positions[:most][-1]}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of a batch: a commit counts as a file, the unit of Spark."""
        return ReadAllAvailable() if self._most is None else ReadMaxFiles(self._most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Treat the present commits as all available ones."""
        positions = positions_after(self._table.view(), None)
        self._last = positions[-1] if positions else ""

    def partitions(self, start: Offset, end: Offset) -> Sequence[datasource.InputPartition]:
        """Return partitions of the files with the changes between two offsets.

        Raises:
            StaleStoreError: If commits between the offsets are archived.
            TypeError: If a column has another type since the query started.
            KeyError: If a column is gone.
        """
        since, until = start[_POSITION], end[_POSITION]
        if since == until:
            return []
        view = self._table.view()
        plan: ScanPlan | ChangePlan
        parts: Sequence[ScanPlan | ChangePlan]
        try:
            if self._ignore is None:
                plan = plan_changes(view, self._schema.names, since=since or None, until=until)
                columns = spark_columns(plan.wanted)
                parts = [replace(plan, files=part) for part in plan.parts(_TASK_BYTES)]
            else:
                names = [name for name in self._schema.names if name != CHANGE]
                plan = plan_row_changes(view, since or None, until, names, self._ignore)
                columns, parts = change_columns(plan), plan.parts()
        except StaleStoreError as error:
            raise _behind_error(view, str(error)) from None
        for given, now in zip(self._schema, columns, strict=True):
            if given.dataType != now.dataType:
                raise TypeError(
                    f"the column {given.name!r} was {given.dataType.simpleString()} when the query "
                    f"started, and is {now.dataType.simpleString()}; start the query again, with "
                    "its checkpoint"
                )
        return [ChangesPartition(part) for part in parts]

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition.

        Raises:
            StaleStoreError: If a clean removed a file.
            CorruptionError: If a file is damaged.
        """
        if not isinstance(partition, ChangesPartition):
            return  # Spark passes this if there are no partitions
        plan, schema = partition.plan, arrow_schema(self._schema)
        try:
            if isinstance(plan, ChangePlan):
                yield from change_rows(plan, schema)
            else:
                yield from part_rows(plan, plan.files, schema)
        except StaleStoreError as error:
            raise _behind_error(self._table.view(), str(error)) from None


def _wants_changes(options: Mapping[str, str]) -> bool:
    given = options.get("changes", "false").lower()
    if given not in ("true", "false"):
        raise ValueError(f"changes is {options['changes']!r}; give true or false")
    if given == "false" and "ignore" in options:
        raise ValueError(
            "ignore is for option('changes', True), whose rows may have only changed there"
        )
    return given == "true"


def _ignored(options: Mapping[str, str]) -> list[str]:
    return given_names(options, "ignore") or []


def _behind_error(view: TableView, why: str) -> StaleStoreError:
    """Return the error of a query whose next commits are no longer available."""
    last = (positions_after(view, None) or ["earliest"])[-1]
    return StaleStoreError(
        f"{why}: the query is behind what the table retains; read all rows once, and begin anew "
        f"after them: with option('start', '{last}') and another checkpoint"
    )


def _table(options: Mapping[str, str]) -> HudiTable:
    hudi, ours = told_apart(options)
    unknown = sorted(set(ours) - set(STREAM_OPTIONS))
    if unknown:
        raise unknown_option_error(
            unknown[0], (*STREAM_OPTIONS, "and hoodie.*"), "a stream of a Hudi table"
        )
    check_stream(hudi)
    table = HudiTable.open(given_location(ours, "load() the folder or URI of a Hudi table"))
    table.view().check_changes_are_known()
    return table
