"""Write the base files of a plan, several at the same time, or of a bulk insert.

One task writes each file. The number of the task is in the name and in the rows of the file.

Source: org.apache.hudi.execution (BulkInsertWriterHelper), org.apache.hudi.io.HoodieCreateHandle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow.types import concat
from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.merging import (
    ComingChanges,
    ComingInserts,
    Inserts,
    RowChanges,
    RowCounts,
    merge,
    row_schema,
    write_inserts,
)
from lookupstore.hudi.file_group.reader import SliceRows
from lookupstore.hudi.file_group.writer import BaseFileWriter, NewFile
from lookupstore.hudi.keys.incoming import Incoming, ordering_of
from lookupstore.hudi.keys.missing_columns import NOTHING_MISSING, MissingColumns
from lookupstore.hudi.keys.table_schema import TableSchema
from lookupstore.hudi.timeline.commit import WriteStat
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.plan import PlannedFile
from lookupstore.processors import processors
from lookupstore.progress import Advance
from lookupstore.storage.descriptors import most
from lookupstore.storage.location import Location

#: Maximum size of rows of a bulk insert that wait in memory for their files, in bytes.
WAITING_BYTES = 256 << 20
#: Maximum number of open files of a bulk insert, if the process may have as many.
OPEN_FILES = 256

Rows = npt.NDArray[np.int64]
_NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class FileRows:
    """The numbers of the rows that one base file receives.

    Attributes:
        changes: Numbers of the rows that change rows of the current slice, int64.
        positions: Position in the slice of each row that changes, int64, ascending.
        inserts: Numbers of the new rows, int64.
    """

    changes: Rows
    positions: Rows
    inserts: Rows

    @classmethod
    def new(cls, inserts: Rows) -> FileRows:
        """Return the rows of the first file of a file group, all of them new."""
        return cls(_NO_ROWS, _NO_ROWS, inserts)

    @property
    def all(self) -> Rows:
        """Return the numbers of all rows, the changes first."""
        return np.concatenate([self.changes, self.inserts])


@dataclass(frozen=True, eq=False)
class FilePlan:
    """One new base file, and the numbers of its rows."""

    file: PlannedFile
    rows: FileRows


@dataclass(frozen=True)
class NewSlices:
    """A writer of the slices of one write.

    Attributes:
        location: Location of the table.
        schema: Schema of the new files.
        format: Format of the new files.
        instant: Time of the write's instant.
    """

    location: Location
    schema: TableSchema
    format: FileFormat
    instant: str

    def write(
        self,
        number: int,
        planned: PlannedFile,
        changes: ComingChanges,
        inserts: ComingInserts,
        attempt: str = "0-0",
        folder: str = "",
        *,
        threads: bool,
    ) -> WriteStat:
        """Write one slice, and return its entry for the commit.

        Args:
            number: Number of the task.
            planned: File to write.
            changes: Changes to the rows of the previous slice. Ignored in a new file group.
            inserts: New rows, which follow the rows of the previous slice.
            attempt: Suffix that distinguishes attempts of the task: two integers joined by `-`.
            folder: Folder in which the file waits until it is renamed. Empty: the file is written
                under its own name.
            threads: Whether to read with Arrow's threads.
        """
        file = NewFile(
            planned.partition,
            planned.file_id,
            number,
            self.instant,
            attempt,
            folder,
            replaces=planned.current is not None,
        )
        with BaseFileWriter(self.location, file, self.schema, self.format) as into:
            if planned.current is None:
                counts = write_inserts(inserts, into)
            else:
                rows = row_schema(self.schema.columns)
                current = SliceRows(self.location, planned.current, rows, threads=threads)
                counts = merge(current, changes, inserts, into)
        return stat_of(into.result(), planned.current, counts)


class FileWrites:
    """A writer of the files of a plan, several at the same time.

    Args:
        view: Table as the write found it.
        incoming: Rows to write. The plan refers to them by number.
        schema: Schema of the new files.
        options: Options of the write.
        instant: Time of the write's instant.
        explicit: Whether to delete all rows that are found, regardless of the columns given.
        kept: Columns that keep their stored values.
        ordered: Whether a stored row with a greater ordering value is kept.
    """

    def __init__(
        self,
        view: TableView,
        incoming: Incoming,
        schema: TableSchema,
        options: WriteOptions,
        instant: str,
        explicit: bool,
        kept: MissingColumns = NOTHING_MISSING,
        *,
        ordered: bool = True,
    ) -> None:
        self._slices = NewSlices(view.location, schema, options.format, instant)
        self._incoming = incoming
        self._options = options
        self._explicit = explicit
        self._kept = kept
        self._ordering = ordering_of(view.options) if ordered else None
        self._is_alone = True

    def write(self, files: Sequence[FilePlan], advance: Advance) -> list[WriteStat]:
        """Write all files, and return their entries for the commit.

        `advance` is called with 1 after each file.
        """

        def write_one(number: int) -> WriteStat:
            stat = self.one(number, files[number])
            advance(1)
            return stat

        threads = min(self._options.threads or processors(), len(files))
        # Arrow's threads help if there is one file; several files have one thread each.
        self._is_alone = threads < 2
        if self._is_alone:
            return [write_one(number) for number in range(len(files))]
        # The largest file is first, so that no thread is busy with one alone at the end.
        order = sorted(range(len(files)), key=lambda number: -_work(files[number]))
        with ThreadPoolExecutor(threads, thread_name_prefix="lookupstore-hudi") as pool:
            stats = dict(zip(order, pool.map(write_one, order), strict=True))
        return [stats[number] for number in range(len(files))]

    def one(self, number: int, plan: FilePlan, attempt: str = "0-0", folder: str = "") -> WriteStat:
        """Write one file, and return its entry for the commit.

        Args:
            number: Number of the task.
            plan: File to write, and its rows.
            attempt: Suffix that distinguishes attempts of the task: two integers joined by `-`.
            folder: Folder in which the file waits until it is renamed. Empty: the file is written
                under its own name.
        """
        new = plan.rows.inserts
        again = np.flatnonzero(np.diff(plan.rows.positions) == 0)
        if len(again):
            raise changed_twice_error(self._incoming.keys[int(plan.rows.changes[again[0]])])
        return self._slices.write(
            number,
            plan.file,
            self._changes(plan.rows),
            Inserts(self._taken_keys(new), self._taken(new)),
            attempt,
            folder,
            threads=self._is_alone,
        )

    def _changes(self, rows: FileRows) -> RowChanges:
        if self._explicit:
            return RowChanges(rows.positions, None)
        deleted = self._incoming.deleted
        return RowChanges(
            rows.positions,
            self._taken(rows.changes),
            None if deleted is None else deleted[rows.changes],
            self._ordering,
            self._kept,
        )

    def _taken(self, rows: Rows) -> pa.RecordBatch:
        table = self._incoming.rows.take(pa.array(rows))
        columns = [concat(column.chunks, column.type) for column in table.columns]
        return pa.RecordBatch.from_arrays(columns, schema=table.schema)

    def _taken_keys(self, rows: Rows) -> pa.Array:
        return concat(self._incoming.keys.take(pa.array(rows)).chunks, pa.string())


@dataclass(frozen=True, eq=False)
class Stretch:
    """Rows of a bulk insert that share their files with no other rows.

    Attributes:
        rows: Rows to insert, none of which is a deletion.
        most_rows: Number of rows after which a file is full. None: the write's options limit the
            size of files in bytes.
    """

    rows: Iterable[Incoming]
    most_rows: int | None = None


class BulkInsert:
    """A writer of rows in the order given, to files of limited size by partition.

    Args:
        view: Table as the write found it.
        schema: Schema of the files.
        options: Options of the write.
        new_file: Function that returns the next file, given the path of its partition and the
            number of files opened so far in all partitions.
        by_partition: Whether the rows of each stretch are grouped by partition.
    """

    def __init__(
        self,
        view: TableView,
        schema: TableSchema,
        options: WriteOptions,
        new_file: Callable[[str, int], NewFile],
        *,
        by_partition: bool,
    ) -> None:
        self._location = view.location
        self._schema = schema
        self._options = options
        self._new_file = new_file
        self._by_partition = by_partition
        self._open: dict[str, tuple[ExitStack, BaseFileWriter]] = {}
        self._stats: list[WriteStat] = []
        self._most_rows: int | None = None
        self._files = 0

    def write(self, stretches: Iterable[Stretch]) -> list[list[WriteStat]]:
        """Write rows, and return the commit entries of the files of each stretch."""
        found = []
        try:
            for stretch in stretches:
                self._stats = []
                self._most_rows = stretch.most_rows
                self._add_all(stretch.rows)
                found.append(self._stats)
        except BaseException:
            with ExitStack() as rest:  # each file is closed, even if closing others fails
                for stack, _ in self._open.values():
                    rest.push(stack)
                raise
        return found

    def _add_all(self, batches: Iterable[Incoming]) -> None:
        for incoming in batches:
            self._add(incoming)
            self._limit_memory()
        for partition in list(self._open):
            self._close(partition)

    def _add(self, incoming: Incoming) -> None:
        codes = incoming.partitions.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        cuts = np.flatnonzero(np.diff(codes[order])) + 1
        parts = np.split(order, cuts) if len(order) else []
        if self._by_partition:
            # Files of earlier partitions are complete.
            now = set(incoming.partitions.dictionary.to_pylist())
            for partition in [one for one in self._open if one not in now]:
                self._close(partition)
        for rows in parts:
            part = incoming if len(rows) == len(incoming) else incoming.take(rows)
            partition = part.partitions[0].as_py()
            writer = self._writer(partition)
            for batch, keys in zip(part.rows.to_batches(), part.keys.chunks, strict=True):
                write_inserts(Inserts(keys, batch), writer)
            if self._is_full(writer):
                self._close(partition)

    def _is_full(self, writer: BaseFileWriter) -> bool:
        if self._most_rows is None:
            return writer.expected_bytes >= self._options.sizing.max_file_size
        return writer.rows >= self._most_rows

    def _writer(self, partition: str) -> BaseFileWriter:
        if partition not in self._open:
            if len(self._open) >= min(OPEN_FILES, most()):
                # Close the file that is closest to its intended size.
                self._close(max(self._open, key=lambda one: self._open[one][1].expected_bytes))
            file = self._new_file(partition, self._files)
            self._files += 1
            stack = ExitStack()
            writer = stack.enter_context(
                BaseFileWriter(self._location, file, self._schema, self._options.format)
            )
            self._open[partition] = stack, writer
        return self._open[partition][1]

    def _close(self, partition: str) -> None:
        stack, writer = self._open.pop(partition)
        stack.close()
        self._stats.append(stat_of(writer.result(), None, RowCounts(writer.rows, writer.rows)))

    def _limit_memory(self) -> None:
        """Write waiting rows as smaller row groups if they exceed the memory limit."""
        writers = sorted((one for _, one in self._open.values()), key=lambda one: one.waiting_bytes)
        waiting = sum(one.waiting_bytes for one in writers)
        while waiting > WAITING_BYTES:
            largest = writers.pop()
            waiting -= largest.waiting_bytes
            largest.flush()


def changed_twice_error(key: pa.Scalar) -> ValueError:
    """Return the error for a stored row that two given rows would change."""
    return ValueError(
        f"rows repeat the key {key.as_py()!r}, and would change a row of the table twice; pass "
        "options=WriteOptions(combine=True), or rows with each key once"
    )


def _work(plan: FilePlan) -> int:
    """Return the estimated cost of a file: bytes to copy, and rows to insert."""
    current = plan.file.current
    return (current.bytes if current is not None else 0) + 50 * len(plan.rows.inserts)


def stat_of(file: FileSlice, before: FileSlice | None, counts: RowCounts) -> WriteStat:
    """Return the entry of a file for its commit.

    Args:
        file: File that was written.
        before: Slice that the file replaces. None: the file group is new.
        counts: Row counts of the file.
    """
    stat = WriteStat(
        file_id=file.group.file_id,
        path=file.path,
        partition_path=file.group.partition,
        num_writes=counts.written,
        num_inserts=counts.inserted,
        num_update_writes=counts.updated,
        num_deletes=counts.deleted,
        total_write_bytes=file.bytes,
        file_size_in_bytes=file.bytes,
    )
    if before is None:
        return stat
    return replace(stat, prev_commit=before.time, prev_base_file=before.name)
