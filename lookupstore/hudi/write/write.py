"""``Write``: the verbs that write rows of this process to a table.

A verb checks columns, combines rows with the same key and finds keys. Then `pipeline` plans and
writes files, and commits.

Source: org.apache.hudi.table.action.commit (BaseWriteHelper, BaseSparkCommitActionExecutor,
SparkInsertOverwriteCommitActionExecutor, SparkDeletePartitionCommitActionExecutor).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.writer import NewFile
from lookupstore.hudi.index.names import index_of
from lookupstore.hudi.index.row_tags import written_name
from lookupstore.hudi.index.tagging import Tagged, tag
from lookupstore.hudi.keys.incoming import (
    Incoming,
    IncomingKeys,
    IncomingRows,
    ordering_of,
    precombine_of,
)
from lookupstore.hudi.keys.missing_columns import NOTHING_MISSING
from lookupstore.hudi.layout import KeptLayout, optional_layout
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.assignments import Assignments
from lookupstore.hudi.write.files import BulkInsert, Stretch
from lookupstore.hudi.write.merge import FindRows, MergedRows
from lookupstore.hudi.write.merge_plan import GivenMerge
from lookupstore.hudi.write.named_partitions import check_partitions
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.pipeline import WritePipeline
from lookupstore.hudi.write.placing import check_same_keys, place_rows
from lookupstore.hudi.write.plan import (
    BULK_INSERT,
    DELETE,
    DELETE_PARTITION,
    INSERT,
    INSERT_OVERWRITE,
    INSERT_OVERWRITE_TABLE,
    UPSERT,
    Replaced,
    WritePlan,
)
from lookupstore.hudi.write.result import WriteResult
from lookupstore.hudi.write.rows.combined import combined
from lookupstore.hudi.write.rows.in_layout import LayoutOrder
from lookupstore.hudi.write.rows.in_memory import MemoryRows, RowPlaces
from lookupstore.hudi.write.rows.key_texts import KeyTexts
from lookupstore.hudi.write.rows.parts import Counted, held, let_go, numbered, pieces
from lookupstore.hudi.write.rows.sorted import RowOrder, bulk_order
from lookupstore.hudi.write.rows.spilled import SpilledRows
from lookupstore.hudi.write.rows.stored import (
    Found,
    StoredRows,
    found_rows,
    held_rows,
    joined_rows,
)
from lookupstore.hudi.write.statements import Clause, ClauseRows, kept_columns
from lookupstore.hudi.write.transaction import Outcome, Transaction
from lookupstore.progress import Advance, Bars
from lookupstore.sorting.runs import MIN_MEMORY

# Divisor of the memory for keys that are looked up at once, which take several times their bytes.
_PIECES = 4


class Write:
    """One write of rows to a table.

    Args:
        view: Current view of the table, which can be written to.
        options: Options of the write.
        dry_run: Whether to return what the write would do, without writing.
        bars: Function that opens progress bars. None: no progress bars.
    """

    def __init__(
        self, view: TableView, options: WriteOptions, *, dry_run: bool, bars: Bars | None = None
    ) -> None:
        self._view = view
        self._options = options
        self._dry_run = dry_run
        self._index = index_of(options.index)
        self._pipeline = WritePipeline(view, options, bars)
        self._slices: list[FileSlice] | None = None
        self._at_once = False  # whether rows are looked up in one piece
        self._kept = NOTHING_MISSING

    @property
    def view(self) -> TableView:
        """Return the view of the table from which the write began."""
        return self._view

    def upsert(self, given: Any) -> WriteResult:
        """Update the rows whose keys are in the table, and insert the others."""
        return self._change(UPSERT, self._incoming(given, UPSERT), self._upserted)

    def insert(self, given: Any) -> WriteResult:
        """Insert rows. Keys are looked up unless the options allow duplicates."""
        return self._change(INSERT, self._incoming(given, INSERT), self._inserted)

    def delete(self, given: Any) -> WriteResult:
        """Delete the rows of given keys. Keys that are not in the table are ignored."""
        view = self._view
        is_global = self._index.is_global
        keys = IncomingKeys(
            given,
            view.table_schema.columns,
            view.options,
            named=written_name(view),
            is_global=is_global,
        )

        def found(incoming: Incoming) -> Found:
            if not (keys.has_partitions or is_global):
                incoming = self._in_all_partitions(incoming)
            return self._to_delete(incoming)

        return self._change(DELETE, keys, found)

    def delete_stored(
        self, stored: Iterable[StoredRows], current: Sequence[FileSlice]
    ) -> WriteResult:
        """Delete stored rows whose places are known.

        Args:
            stored: Rows to delete, each base file at most once.
            current: Current base files of the table, sorted by partition path and file group id.
        """
        self._list(current)
        with self._held(found_rows(stored), deletes=True) as rows:
            self._pipeline.given.count(rows.deleted, rows.deleted)
            return self._run(DELETE, rows)

    def update(
        self, stored: Iterable[StoredRows], current: Sequence[FileSlice], sets: Assignments
    ) -> WriteResult:
        """Update stored rows whose places are known.

        Args:
            stored: Rows to update, each base file at most once.
            current: Current base files of the table, sorted by partition path and file group id.
            sets: Columns to set, and their values.
        """
        self._list(current)
        clauses = [Clause(None, sets)]
        columns = self._view.table_schema.columns
        self._kept = kept_columns(columns, clauses)
        changed = ClauseRows(self._view.location, columns, clauses, "", flagged=False)
        found = chain.from_iterable(changed.of_file(*one) for one in stored)
        with self._held(found, deletes=False) as rows:
            self._pipeline.given.count(changed.count, changed.count)
            return self._run(UPSERT, rows)

    def merge(
        self, given: Any, clauses: GivenMerge, on: Sequence[str] | None, find_rows: FindRows
    ) -> WriteResult:
        """Update, delete and insert rows by the clauses of a merge.

        Args:
            given: Given rows, in any form that `HudiTable.upsert` takes.
            clauses: Clauses of the merge.
            on: Key columns that rows are matched by. None: the record key, and the partition
                columns if the given rows have them.
            find_rows: Function that finds the stored rows that meet a condition.
        """
        with self._pipeline.step("read"):
            is_global = self._index.is_global
            merged = MergedRows(
                given, clauses, self._view, self._options, on=on, is_global=is_global
            )
        self._kept = merged.kept
        found = merged.found(self._keys_found, find_rows)
        with self._held(found, deletes=False) as rows:
            count = len(merged.keys)
            self._pipeline.given.count(count, count)
            return self._run(UPSERT, rows)

    def _keys_found(
        self, keys: Incoming, has_partitions: bool
    ) -> tuple[Tagged, npt.NDArray[np.int64]]:
        """Return the places of keys, and the number of the key at each place."""
        incoming = keys
        if not (has_partitions or self._index.is_global):
            incoming = self._in_all_partitions(keys)
        tagged = self._tagged(incoming)
        rows = np.arange(len(incoming)) if tagged.rows is None else tagged.rows
        return tagged, rows % max(1, len(keys))

    def bulk_insert(self, given: Any) -> WriteResult:
        """Insert rows in the given order or sorted, without looking up keys."""
        rows = self._incoming(given, BULK_INSERT)
        order = bulk_order(self._view, rows.schema.columns, self._options)
        if self._dry_run:
            with self._found(BULK_INSERT, rows, self._new, ()) as found:
                return self._run(BULK_INSERT, found)

        def write(transaction: Transaction) -> Outcome:
            def new_file(partition: str, number: int) -> NewFile:
                transaction.open_partition(partition)
                return NewFile(partition, self._options.new_file_id(), number, transaction.time)

            insert = BulkInsert(
                self._view, rows.schema, self._options, new_file, by_partition=order is not None
            )
            with closing(self._stretches(rows, order)) as stretches:
                stats = insert.write(stretches)
            counts = self._pipeline.given
            counts.count(rows.read, rows.read - counts.errors.count)
            placed: dict[str, KeptLayout] = {}
            if isinstance(order, LayoutOrder):
                with optional_layout(self._view.location):
                    placed = order.files(stats, transaction.time)
            return Outcome(list(chain(*stats)), rows.schema.avro, placed=placed)

        return self._pipeline.run_unplanned(write)

    def overwrite(self, given: Any, *, whole_table: bool) -> WriteResult:
        """Replace all rows of the given rows' partitions, or of the table."""
        operation = INSERT_OVERWRITE_TABLE if whole_table else INSERT_OVERWRITE
        with self._found(operation, self._incoming(given, operation), self._new, ()) as rows:
            if whole_table:
                failed = self._pipeline.given.errors.count
                if failed and not rows.loads:
                    raise ValueError(
                        f"rows: none of {failed:,} rows can be written, and the table would lose "
                        "its rows; correct them"
                    )
                return self._run(operation, rows, Replaced(self._replaceable(), None))
            slices = [one for one in self._replaceable() if one.group.partition in rows.loads]
            return self._run(operation, rows, Replaced(slices, set(rows.loads)))

    def delete_partitions(self, partitions: str | Sequence[str]) -> WriteResult:
        """Delete all rows of partitions."""
        partitions = [partitions] if isinstance(partitions, str) else partitions
        slices = self._replaceable()
        check_partitions(partitions, {one.group.partition for one in slices})
        slices = [one for one in slices if one.group.partition in partitions]
        schema = self._view.table_schema
        none = Incoming.joined([], schema.columns)
        rows = MemoryRows(self._view, self._options, schema, none, RowPlaces.nowhere(0), ())
        self._pipeline.given.count(0, 0)
        # Without rows there is nothing to plan.
        plan = WritePlan(DELETE_PARTITION, (), {}, Replaced(slices, partitions))
        return self._done(plan, rows)

    def _stretches(
        self, rows: IncomingRows, order: RowOrder | LayoutOrder | None
    ) -> Generator[Stretch, None, None]:
        """Yield the rows of a bulk insert in the order in which they are written."""
        given = (incoming.without_deleted() for incoming in self._read(rows))
        if order is None:
            yield Stretch(given)
        else:
            folder = self._options.spill_folder or self._view.location.spill_folder()
            advance, written = self._pipeline.bar("Writing", rows.count_rows), 0
            for stretch in order.sorted(given, folder):
                counted = Counted(_told(stretch.rows, advance))
                yield replace(stretch, rows=counted)
                written += counted.rows
            advance(rows.read - written)  # the other rows are not written

    def _incoming(self, given: Any, operation: str) -> IncomingRows:
        options, table = self._options, self._view.options
        ordering = precombine_of(table) if options.combines(operation) else None
        if ordering is None and operation == UPSERT:
            ordering = ordering_of(table)
        rows = IncomingRows(
            given,
            self._view.table_schema,
            table,
            named=written_name(self._view),
            evolve=options.evolve,
            missing=options.missing,
            keeps=operation == UPSERT,
            ordering=ordering,
            errors=self._pipeline.given.errors if options.on_error == "collect" else None,
        )
        self._kept = rows.kept
        self._pipeline.given.missing = rows.missing.names()
        return rows

    def _read(self, given: IncomingRows | IncomingKeys) -> Iterator[Incoming]:
        """Return the given rows as an iterator that moves a progress bar."""
        advance = self._pipeline.bar("Reading", given.count_rows)

        def batches() -> Iterator[Incoming]:
            before = 0
            for incoming in given.batches():
                advance(given.read - before)
                before = given.read
                yield incoming

        texts = KeyTexts(
            self._view.options.record_key,
            is_global=self._index.is_global,
            memory=max(MIN_MEMORY, self._options.memory // _PIECES),
            folder=self._options.spill_folder or self._view.location.spill_folder(),
        )
        return texts.watched(batches())

    @property
    def _current(self) -> list[FileSlice]:
        """Return the current base files, whose rows are needed. They are listed once."""
        # A `cached_property` would block other writes that list files before Python 3.12.
        if self._slices is None:
            self._list(self._view.current())
        return self._slices or []

    def _list(self, current: Sequence[FileSlice]) -> None:
        self._slices = list(current)
        self._pipeline.files = len(self._slices)

    def _replaceable(self) -> list[FileSlice]:
        """Return the current base files, whose rows are not needed: files may be missing."""
        if self._slices is None:
            self._list([group.current for group in self._view.groups(None)])
        return self._slices or []

    def _change(
        self, operation: str, given: IncomingRows | IncomingKeys, find: Callable[[Incoming], Found]
    ) -> WriteResult:
        """Combine and find rows, then update, delete and insert them."""
        with self._found(operation, given, find, self._current) as rows:
            return self._run(operation, rows)

    @contextmanager
    def _found(
        self,
        operation: str,
        given: IncomingRows | IncomingKeys,
        find: Callable[[Incoming], Found],
        slices: Sequence[FileSlice],
    ) -> Iterator[MemoryRows | SpilledRows]:
        """Combine rows if the write does that, and find them, in memory if they fit.

        Args:
            operation: Hudi's name of the write, such as `UPSERT`.
            given: Rows or keys that the caller gave.
            find: Function that finds some of the rows, which have different keys if rows are
                combined.
            slices: Current base files, which the rows change or may be inserted into.
        """
        step, options, view = self._pipeline.step, self._options, self._view
        is_global = self._index.is_global
        counts = self._pipeline.given
        explicit = isinstance(given, IncomingKeys)
        combines = explicit or options.combines(operation)
        schema = view.table_schema if isinstance(given, IncomingKeys) else given.schema
        columns = given.columns if isinstance(given, IncomingKeys) else schema.columns
        batches = self._read(given)
        with step("read"):
            parts, fit = held(batches, options.memory)
        if fit:
            with step("read"):
                incoming = Incoming.joined(parts, columns)
                if combines:
                    incoming = incoming.combined(view.options, is_global=is_global)
            if combines and isinstance(given, IncomingRows):
                given.check_order(len(incoming))
            counts.count(given.read, len(incoming))
            self._at_once = True
            incoming, places = find(incoming)
            with step("plan"):
                rows = MemoryRows(
                    view,
                    options,
                    schema,
                    incoming,
                    places,
                    slices,
                    explicit=explicit,
                    kept=self._kept,
                )
            yield rows
            return
        folder = options.spill_folder or view.location.spill_folder()
        all_rows = numbered(chain(let_go(parts), batches))
        # A row that moves deletes the stored row, which only some pieces may have.
        may_move = is_global and not explicit
        flagged = may_move or parts[0].deleted is not None
        if may_move:
            all_rows = (part.flagged() for part in all_rows)
        with ExitStack() as stack:
            if combines:
                memory = max(MIN_MEMORY, options.memory // 2)
                kept = combined(
                    all_rows,
                    columns,
                    view.options,
                    is_global=is_global,
                    flagged=flagged,
                    memory=memory,
                    folder=folder,
                )
                all_rows = stack.enter_context(closing(kept))
            counted = Counted(pieces(all_rows, columns, options.memory // _PIECES))
            title = "Finding keys" if options.looks_up(operation) else "Sorting"
            advance = self._pipeline.bar(title, given.count_rows)
            placed = (find(one) for one in _told(counted, advance))
            with step("read"):
                spilled = SpilledRows(
                    view,
                    options,
                    schema,
                    slices,
                    placed,
                    folder,
                    explicit=explicit,
                    kept=self._kept,
                )
            advance(given.read - counted.rows)  # the other rows were dropped in favor of these
            counts.count(given.read, counted.rows)
        with spilled:
            if combines and isinstance(given, IncomingRows):
                given.check_order(counted.rows)
            yield spilled

    @contextmanager
    def _held(self, found: Iterator[Found], *, deletes: bool) -> Iterator[MemoryRows | SpilledRows]:
        """Hold rows whose places are known, in memory if they fit.

        Args:
            found: Rows with their places.
            deletes: Whether all of the rows are deleted, and consist of keys only. If not, each row
                may have a flag for its deletion, and the others replace stored rows regardless of
                their ordering values.
        """
        step, options, view = self._pipeline.step, self._options, self._view
        arguments = view, options, view.table_schema
        columns = pa.schema([]) if deletes else view.table_schema.columns
        with step("read"):
            parts, fit = held_rows(found, options.memory)
        if fit:
            with step("plan"):
                rows = MemoryRows(
                    *arguments,
                    *joined_rows(parts, columns),
                    self._current,
                    explicit=deletes,
                    kept=self._kept,
                    ordered=False,
                )
            yield rows
            return
        folder = options.spill_folder or view.location.spill_folder()
        with step("read"):
            spilled = SpilledRows(
                *arguments,
                self._current,
                chain(let_go(parts), found),
                folder,
                explicit=deletes,
                kept=self._kept,
                ordered=False,
            )
        with spilled:
            yield spilled

    def _upserted(self, incoming: Incoming) -> Found:
        """Find rows, without deletions of rows that are not in the table."""
        tagged = self._tagged(incoming)
        with self._pipeline.step("tag"):
            check_same_keys(self._view, incoming, tagged)
            moves = self._options.update_partition_path
            placed = place_rows(self._view, incoming, tagged, moves=moves, kept=self._kept)
            incoming, places = placed.of(incoming), placed.places
        if incoming.deleted is None:
            return incoming, places
        kept = np.flatnonzero(~incoming.deleted | (places.numbers >= 0))
        places = RowPlaces(places.slices, places.numbers[kept], places.positions[kept])
        return incoming.take(kept), places

    def _inserted(self, incoming: Incoming) -> Found:
        """Find rows if duplicates are not allowed, and drop duplicates if asked to."""
        incoming, places = self._new(incoming)
        if self._options.looks_up(INSERT):
            tagged = self._tagged(incoming)
            check_same_keys(self._view, incoming, tagged)
            if tagged.rows is not None:
                incoming = incoming.take(tagged.rows)
            places = RowPlaces(tagged.slices, tagged.slice_numbers, tagged.positions)
        if self._options.duplicates == "drop":
            return self._new(incoming.take(np.flatnonzero(places.numbers < 0)))
        return incoming, places

    def _new(self, incoming: Incoming) -> Found:
        """Return rows as new rows, without looking up their keys."""
        incoming = incoming.without_deleted()
        return incoming, RowPlaces.nowhere(len(incoming))

    def _to_delete(self, incoming: Incoming) -> Found:
        """Find keys, and return those in the table, without columns."""
        tagged = self._tagged(incoming)
        if incoming.rows.num_columns:
            check_same_keys(self._view, incoming, tagged)
        found = np.flatnonzero(tagged.found)
        places = RowPlaces(tagged.slices, tagged.slice_numbers[found], tagged.positions[found])
        paths = list(dict.fromkeys(one.group.partition for one in places.slices))
        places_of = {path: number for number, path in enumerate(paths)}
        numbers = np.array([places_of[one.group.partition] for one in places.slices], np.int32)
        incoming = incoming.take(found if tagged.rows is None else tagged.rows[found])
        coded = _coded(numbers[places.numbers], paths)
        return replace(incoming, rows=pa.table({}), partitions=coded), places

    def _in_all_partitions(self, incoming: Incoming) -> Incoming:
        """Return keys once for each partition of the table, for keys without partitions."""
        paths = sorted({one.group.partition for one in self._current})
        count = len(incoming)
        repeated = incoming.numbered().take(np.tile(np.arange(count), len(paths)))
        codes = np.repeat(np.arange(len(paths), dtype=np.int32), count)
        return replace(repeated, partitions=_coded(codes, paths))

    def _tagged(self, incoming: Incoming) -> Tagged:
        """Return every place of the keys in the table."""
        with self._pipeline.step("tag"):
            return tag(
                self._view,
                incoming.partitions,
                incoming.keys,
                index=self._index,
                slices=self._current,
                repeated=True,
                bar=self._files_bar if self._at_once else None,
            )

    def _files_bar(self, files: int) -> Advance:
        return self._pipeline.bar("Finding keys", lambda: files, "files")

    def _run(
        self,
        operation: str,
        rows: MemoryRows | SpilledRows,
        replaced: Replaced | None = None,
    ) -> WriteResult:
        return self._done(self._pipeline.plan(operation, rows, replaced), rows)

    def _done(self, plan: WritePlan, rows: MemoryRows | SpilledRows) -> WriteResult:
        if self._dry_run:
            done = self._pipeline
            return WriteResult.planned(plan, done.given, rows.deleted, done.files, done.seconds)
        return self._pipeline.run(plan, rows)


def _told(rows: Iterable[Incoming], advance: Advance) -> Iterator[Incoming]:
    """Yield rows, and move a progress bar."""
    for one in rows:
        yield one
        advance(len(one))


def _coded(codes: npt.NDArray[np.int32], paths: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(paths, pa.string()))
