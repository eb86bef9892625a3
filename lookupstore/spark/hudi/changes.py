"""What ``spark.readStream.format("lookupstore.hudi")`` reads: rows that changed, commit by commit.

With the option `changes` they are what became of each row, deletes and both images of updates too.
An offset is the position of the last commit whose rows were given, which a checkpoint keeps. Spark
asks for offsets and partitions in one Python process of the driver, as long as the query runs, and
reads partitions in workers of executors. A batch is what `HudiTable.incremental`, or
`HudiTable.changes`, gives between two offsets: it is the same when it is planned again.
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
from lookupstore.spark.options import given_location, given_names, given_number
from lookupstore.spark.types import arrow_schema

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # limits, and the trigger that needs them, came with Spark 4.2
    ReadMaxFiles = None  # type: ignore[assignment, misc]

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Nothing, where Spark does not ask for it."""


STREAM_OPTIONS = (
    "path", "columns", "start", "max_commits", "changes", "ignore", "storage_options",
)  # fmt: skip
#: Those that only a stream has.
ONLY_STREAM = ("start", "max_commits", "changes", "ignore")
_EARLIEST, _LATEST = "earliest", "latest"
_POSITION = "position"
# Most bytes of files that one task reads, if they are several.
_TASK_BYTES = 32 << 20

Offset = dict[str, Any]


@dataclass
class ChangesPartition(datasource.InputPartition):
    """The files that one task reads, and what of them."""

    plan: ScanPlan | ChangePlan


def stream_columns(options: Mapping[str, str]) -> StructType:
    """Return the columns that a stream reads; raises what `changes_of` does."""
    view = _table(options).view()
    if _wants_changes(options):
        # Of the columns alone: from the last commit on there is nothing to plan.
        positions = positions_after(view, None)
        last = positions[-1] if positions else None
        asked = given_names(options, "columns")
        return change_columns(plan_row_changes(view, last, None, asked, _ignored(options)))
    names = view.names(given_names(options, "columns"))
    return spark_columns(pa.schema([view.schema.field(name) for name in names]))


def changes_of(options: Mapping[str, str], schema: StructType) -> ChangesReader:
    """Return what reads the changes of a table.

    Raises:
        ValueError: an option that there is not, or of a bad value.
        FileNotFoundError: there is no table.
        FormatError: it is of a kind that is not read.
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
    """A reader of what changes; made by `changes_of`.

    Args:
        table: whose changes are read.
        schema: columns as Spark takes them.
        start: `earliest`, `latest`, or the position after which a new query begins.
        max_commits: in one batch; None: all that there are.
        ignore: columns in which a change does not count; None: rows in their newest state are
            wanted, not what became of them.
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
        """Return where a new query begins."""
        if self._start == _EARLIEST:
            return {_POSITION: ""}
        if self._start == _LATEST:
            positions = positions_after(self._table.view(), None)
            return {_POSITION: positions[-1] if positions else ""}
        return {_POSITION: self._start}

    def latestOffset(  # noqa: N802
        self, start: Offset | None = None, limit: ReadLimit | None = None
    ) -> Offset:
        """Return up to where the next batch goes.

        Args:
            start: up to where the one before went; None: Spark before 4.2 does not say.
            limit: how much it may have.
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
        """Return the limit of a batch: a commit counts as a file, which is what Spark has."""
        return ReadAllAvailable() if self._most is None else ReadMaxFiles(self._most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take what there is now for all that there is."""
        positions = positions_after(self._table.view(), None)
        self._last = positions[-1] if positions else ""

    def partitions(self, start: Offset, end: Offset) -> Sequence[datasource.InputPartition]:
        """Return partitions of the files that have what changed between two offsets.

        Raises:
            StaleStoreError: commits between them are archived.
            TypeError: a column has another type since the query started.
            KeyError: a column is gone.
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
            StaleStoreError: a clean took a file.
            CorruptionError: a file is damaged.
        """
        if not isinstance(partition, ChangesPartition):
            return  # what Spark makes of no partitions
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
    """Return the error of a query that comes too late for what it has to read next."""
    last = (positions_after(view, None) or ["earliest"])[-1]
    return StaleStoreError(
        f"{why}: the query is behind what the table retains; read all rows once, and begin anew "
        f"after them: with option('start', '{last}') and another checkpoint"
    )


def _table(options: Mapping[str, str]) -> HudiTable:
    hudi, ours = told_apart(options)
    unknown = sorted(set(ours) - set(STREAM_OPTIONS))
    if unknown:
        known = ", ".join(STREAM_OPTIONS)
        raise ValueError(
            f"no option {unknown[0]!r}; a stream of a Hudi table has {known}, and hoodie.*"
        )
    check_stream(hudi)
    return HudiTable.open(given_location(ours, "load() the folder or URI of a Hudi table"))
