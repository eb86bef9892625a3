"""``WritePipeline``: the steps of a write, from the places of rows to a commit.

This module has the order of the steps, and everything that needs only numbers of rows. `FoundRows`
handles the rows themselves: `rows.in_memory` those in memory, and `lookupstore.spark` those of a
DataFrame, which never reach the driver.

Source: org.apache.hudi.table.action.commit.BaseCommitActionExecutor, which Hudi's engines share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa

from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.keys.table_schema import TableSchema
from lookupstore.hudi.layout import KeptLayout, optional_layout
from lookupstore.hudi.services.never_completed import check_completed
from lookupstore.hudi.timeline.commit import CommitMetadata, WriteStat
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.boxes import Boxes, NewRows, layouts_of
from lookupstore.hudi.write.conflict import check_not_clustered
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.partitioner import Load, Packing
from lookupstore.hudi.write.plan import (
    BULK_INSERT,
    INSERT,
    PlannedFile,
    Replaced,
    WritePlan,
    plan_files,
    planned_files,
)
from lookupstore.hudi.write.result import ChangedFiles, GivenRows, WriteResult
from lookupstore.hudi.write.steps import Steps
from lookupstore.hudi.write.transaction import KeysToInsert, Outcome, Transaction, begun
from lookupstore.progress import Advance, Bars, not_shown


@dataclass(frozen=True)
class WrittenFile:
    """A base file that was written.

    Attributes:
        file: Planned file.
        stat: Commit entry of the file.
        keys: A few keys of the rows that were written to the file.
    """

    file: PlannedFile
    stat: WriteStat
    keys: Sequence[str]


class FoundRows(ABC):
    """The rows of a write, with their places in the table.

    Attributes:
        schema: Schema of the table after the write.
        slices: Current base files, which the rows change or may be inserted into.
        loads: Numbers of rows to insert and to update, by partition path and file.
    """

    schema: TableSchema
    slices: Sequence[FileSlice]
    loads: Mapping[str, Load]

    @abstractmethod
    def known_keys(self) -> Sequence[str]:
        """Return a few keys of the rows that are in the table, each once."""

    @abstractmethod
    def new_positions(self, layouts: Mapping[str, KeptLayout]) -> Mapping[str, pa.Array]:
        """Return the positions of new rows, or of a sample of them, by partition path.

        Args:
            layouts: Layouts of the partitions, by path.
        """

    @abstractmethod
    def assign(self, packing: Packing) -> Sequence[int]:
        """Assign rows to buckets, and return the numbers of buckets that may have rows."""

    @abstractmethod
    def write(
        self, files: Sequence[PlannedFile], transaction: Transaction, advance: Advance
    ) -> Sequence[WrittenFile]:
        """Write the files of the buckets that have rows, under their final names.

        Args:
            files: Files of the buckets that `assign` returned, in the same order.
            transaction: Transaction of the write.
            advance: Function that is called with the number of files written since the last call.
        """

    @abstractmethod
    def keys_to_insert(self) -> KeysToInsert:
        """Return the keys of the new rows, which must not be in the table."""


class WritePipeline:
    """The steps of one write.

    Args:
        view: Current view of the table, which can be written to.
        options: Options of the write.
        bars: Function that opens progress bars. None: no progress bars.
    """

    def __init__(self, view: TableView, options: WriteOptions, bars: Bars | None = None) -> None:
        self._view = view
        self._options = options
        self._bars = bars
        #: Counts of the given rows.
        self.given: GivenRows = GivenRows()
        #: Number of current base files; None: unknown.
        self.files: int | None = None
        steps = Steps()
        #: Function that adds the time of a block to a step.
        self.step: Callable[[str], AbstractContextManager[None]] = steps.step
        #: Elapsed seconds by step.
        self.seconds: dict[str, float] = steps.seconds

    def bar(self, title: str, total: Callable[[], int | None], unit: str = "rows") -> Advance:
        """Open a progress bar if bars are shown, and return the function that moves it."""
        if self._bars is None or (count := total()) == 0:
            return not_shown
        return self._bars(title, count, unit)

    def plan(self, operation: str, rows: FoundRows, replaced: Replaced | None = None) -> WritePlan:
        """Plan the files of a write.

        Args:
            operation: Hudi's name of the write, such as `UPSERT`.
            rows: Rows to write.
            replaced: File groups that the write removes. None: no file groups.

        Raises:
            ValueError: If rows are inserted, and the table has some of their keys.
            CorruptionError: If a current base file is from a commit that was rolled back.
        """
        check_completed(self._view, rows.slices)
        if self.files is None and rows.slices:
            self.files = len(rows.slices)
        found = sum(sum(load.updates.values()) for load in rows.loads.values())
        if operation == INSERT and found:
            raise _keys_are_there_error(rows.known_keys())
        with self.step("plan"):
            packing, boxes, numbers = self._packed(rows)
            buckets = [packing.buckets[number] for number in numbers]
            files = planned_files(buckets, rows.slices, self._options.new_file_id)
        return WritePlan(operation, files, rows.loads, replaced, boxes, numbers)

    def _packed(self, rows: FoundRows) -> tuple[Packing, Mapping[str, Boxes], Sequence[int]]:
        """Return the buckets, the boxes by partition, and the numbers of used buckets.

        If a layout causes a failure, rows are assigned again without layouts.
        """
        new_rows: dict[str, NewRows] = {}
        with optional_layout(self._view.location):
            new_rows = self._new_rows(rows)
        if new_rows:
            with optional_layout(self._view.location):
                return self._assigned(rows, new_rows)
        return self._assigned(rows, {})

    def _assigned(
        self, rows: FoundRows, new_rows: Mapping[str, NewRows]
    ) -> tuple[Packing, Mapping[str, Boxes], Sequence[int]]:
        sizing = self._options.sizing
        packing, boxes = plan_files(self._view, rows.loads, rows.slices, sizing, new_rows)
        return packing, boxes, rows.assign(packing)

    def _new_rows(self, rows: FoundRows) -> dict[str, NewRows]:
        """Return the new rows of partitions that keep a layout, by path."""
        into = [path for path, load in rows.loads.items() if load.inserts]
        layouts = layouts_of(self._view, into, rows.schema.columns)
        positions = rows.new_positions(layouts) if layouts else {}
        return {
            path: NewRows(layouts[path], found, rows.loads[path].inserts)
            for path, found in positions.items()
        }

    def run(self, plan: WritePlan, rows: FoundRows) -> WriteResult:
        """Write the files of a plan, and commit.

        Raises:
            CommitConflictError: If another writer committed a conflicting change.
            FormatError: If the table was changed to one that cannot be written to.
            LockedError: If other writers held the lock of the table for too long.
            CommitUnknownError: If it is unknown whether the instant was completed.
            OSError: If a file cannot be written.
        """
        replaces = plan.replaced is not None
        replaced = Replaced((), ()) if plan.replaced is None else plan.replaced
        # Otherwise the conflict would be found at the commit, after all files are written.
        gone = (*plan.rewritten, *replaced.slices)
        check_not_clustered(self._view, {one.group: () for one in gone})
        with begun(self._view, plan.operation, plan.profile(), replaces=replaces) as transaction:
            with self.step("write"):
                advance = self.bar("Writing", lambda: len(plan.files), "files")
                written = rows.write(plan.files, transaction, advance)
            inserts = any(load.inserts for load in plan.loads.values())
            # Rows of an overwrite replace existing rows.
            are_new = inserts and self._options.looks_up(plan.operation)
            placed: dict[str, KeptLayout] = {}
            with optional_layout(self._view.location):
                placed = _placed(plan, written, transaction.time)
            outcome = Outcome(
                [one.stat for one in written],
                rows.schema.avro,
                {one.group for one in replaced.slices},
                {one.file.group: one.keys for one in written},
                rows.keys_to_insert() if are_new else None,
                replaced.partitions,
                placed,
            )
            current = [one.file.current for one in written]
            rewritten = [one for one in current if one is not None]
            changed = ChangedFiles(rewritten, replaced.slices, self.files)
            return self._complete(transaction, outcome, changed)

    def run_unplanned(self, write: Callable[[Transaction], Outcome]) -> WriteResult:
        """Write the rows of a bulk insert without a plan of its files, and commit.

        Args:
            write: Function that writes the rows to new files.

        Raises:
            CommitConflictError: If another writer committed a conflicting change.
            FormatError: If the table was changed to one that cannot be written to.
            LockedError: If other writers held the lock of the table for too long.
            CommitUnknownError: If it is unknown whether the instant was completed.
            OSError: If a file cannot be written.
        """
        profile = CommitMetadata(operation=BULK_INSERT)
        with begun(self._view, BULK_INSERT, profile, replaces=False) as transaction:
            with self.step("write"):
                outcome = write(transaction)
            return self._complete(transaction, outcome, ChangedFiles())

    def _complete(
        self, transaction: Transaction, outcome: Outcome, changed: ChangedFiles
    ) -> WriteResult:
        """Commit the files of a write, and return its result.

        Args:
            transaction: Transaction of the write.
            outcome: Files and keys of the write.
            changed: Earlier files that the write changed.
        """
        with self.step("commit"):
            instant = transaction.complete(outcome, self._options.extra_metadata)
        operation = transaction.operation
        return WriteResult.of(instant, operation, self.given, outcome.stats, changed, self.seconds)


def _placed(plan: WritePlan, written: Sequence[WrittenFile], time: str) -> dict[str, KeptLayout]:
    """Return the layouts of partitions, with the new files that follow them, by path."""
    number_of = {file.file_id: at for file, at in zip(plan.files, plan.numbers, strict=True)}
    stats = {number_of[one.file.file_id]: one.stat for one in written}
    return {path: boxes.placed(stats, time) for path, boxes in plan.boxes.items() if boxes.new}


def _keys_are_there_error(keys: Sequence[str]) -> ValueError:
    named = ", ".join(map(repr, sorted(keys)))
    return ValueError(
        f"rows have keys that the table already has, such as {named}; to change these "
        "rows, upsert them; to leave them out, pass options=WriteOptions(duplicates='drop')"
    )
