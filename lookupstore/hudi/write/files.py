"""The base files of a write: those of a plan, some at the same time, and those of a bulk insert.

Each file is of one task, whose number is in its name and in its rows.

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
    Changes,
    ComingChanges,
    ComingInserts,
    Inserts,
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

#: Bytes of rows of a bulk insert that wait in memory for their files.
WAITING_BYTES = 256 << 20
#: Files of a bulk insert that are open at once, if the process may have so many.
OPEN_FILES = 256

Rows = npt.NDArray[np.int64]
_NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class FileRows:
    """Which rows come to one base file.

    Attributes:
        changes: numbers of the rows that change rows of the current slice.
        positions: of these in the slice, ascending.
        inserts: numbers of the rows that are new.
    """

    changes: Rows
    positions: Rows
    inserts: Rows

    @classmethod
    def new(cls, inserts: Rows) -> FileRows:
        """Return those of the first file of a file group."""
        return cls(_NO_ROWS, _NO_ROWS, inserts)

    @property
    def all(self) -> Rows:
        """Return the numbers of all, the changes first."""
        return np.concatenate([self.changes, self.inserts])


@dataclass(frozen=True, eq=False)
class FilePlan:
    """What one new base file is made of."""

    file: PlannedFile
    rows: FileRows


@dataclass(frozen=True)
class NewSlices:
    """A writer of the slices of one write.

    Attributes:
        location: of the table.
        schema: of the new files.
        format: of these.
        instant: time of the write.
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
        """Write one, and return what is said of it.

        Args:
            number: of the task.
            planned: the file.
            changes: in the rows of the slice before; nothing if there is none.
            inserts: that come after these.
            attempt: what tells attempts of the task apart; see `NewFile`.
            folder: in which the file waits for its name; see `NewFile`.
            threads: whether Arrow's threads help.
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
    """A writer of the files of a plan, some at the same time.

    Args:
        view: of the table.
        incoming: rows, by whose numbers the plan names them.
        schema: of the new files.
        options: of the write.
        instant: time of the write.
        explicit: whether rows that are found are deleted, whatever comes with them.
        kept: columns that rows keep as they are stored.
        ordered: whether a stored row stays that has a greater ordering value.
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
        """Write all, and return what is said of each; `advance` is told of each that is there."""

        def write_one(number: int) -> WriteStat:
            stat = self.one(number, files[number])
            advance(1)
            return stat

        threads = min(self._options.threads or processors(), len(files))
        # Arrow's own threads help one file; several files have one each.
        self._is_alone = threads < 2
        if self._is_alone:
            return [write_one(number) for number in range(len(files))]
        # The largest first, so that no thread is left alone with one at the end.
        order = sorted(range(len(files)), key=lambda number: -_work(files[number]))
        with ThreadPoolExecutor(threads, thread_name_prefix="lookupstore-hudi") as pool:
            stats = dict(zip(order, pool.map(write_one, order), strict=True))
        return [stats[number] for number in range(len(files))]

    def one(self, number: int, plan: FilePlan, attempt: str = "0-0", folder: str = "") -> WriteStat:
        """Write one file, and return what is said of it.

        Args:
            number: of the task.
            plan: of the file.
            attempt: what tells attempts of the task apart; see `NewFile`.
            folder: in which the file waits for its name; see `NewFile`.
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

    def _changes(self, rows: FileRows) -> Changes:
        if self._explicit:
            return Changes(rows.positions, None)
        deleted = self._incoming.deleted
        return Changes(
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
    """Rows of a bulk insert whose files get no others.

    Attributes:
        rows: none of which deletes.
        most_rows: that a file may have; None: files are as large as the options of the write say.
    """

    rows: Iterable[Incoming]
    most_rows: int | None = None


class BulkInsert:
    """A writer of rows as they come, to files of their partitions of at most some size.

    Args:
        view: of the table.
        schema: of the files.
        options: of the write.
        new_file: gives the next file of a partition, by how many there are before it.
        by_partition: whether rows of a stretch come one partition after the other.
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
        """Write rows, and return what is said of the files of each stretch."""
        found = []
        try:
            for stretch in stretches:
                self._stats = []
                self._most_rows = stretch.most_rows
                self._add_all(stretch.rows)
                found.append(self._stats)
        except BaseException:
            with ExitStack() as rest:  # each file is closed, whatever comes of the others
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
            # Those before this one are whole.
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
                # The one that is nearest to its size anyway.
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
        """Write what waits for many partitions as smaller row groups, before it is too much."""
        writers = sorted((one for _, one in self._open.values()), key=lambda one: one.waiting_bytes)
        waiting = sum(one.waiting_bytes for one in writers)
        while waiting > WAITING_BYTES:
            largest = writers.pop()
            waiting -= largest.waiting_bytes
            largest.flush()


def changed_twice_error(key: pa.Scalar) -> ValueError:
    """Return the error of a row of the table that two rows would change."""
    return ValueError(
        f"rows repeat the key {key.as_py()!r}, and would change a row of the table twice; pass "
        "options=WriteOptions(combine=True), or rows with each key once"
    )


def _work(plan: FilePlan) -> int:
    """Return about how long a file takes: bytes to copy, and rows to insert."""
    current = plan.file.current
    return (current.bytes if current is not None else 0) + 50 * len(plan.rows.inserts)


def stat_of(file: FileSlice, before: FileSlice | None, counts: RowCounts) -> WriteStat:
    """Return what a commit says of a file.

    Args:
        file: that was written.
        before: the slice that it replaces; None: its group is a new one.
        counts: of its rows.
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
