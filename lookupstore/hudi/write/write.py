"""The writes of a table: what each verb does with rows in memory, before they go their way.

Columns are checked, repeated keys resolved, keys found; then `pipeline` says what comes when.

Source: org.apache.hudi.table.action.commit (BaseWriteHelper, BaseSparkCommitActionExecutor,
SparkInsertOverwriteCommitActionExecutor, SparkDeletePartitionCommitActionExecutor).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.writer import NewFile
from lookupstore.hudi.index.names import index_of
from lookupstore.hudi.index.row_tags import written_name
from lookupstore.hudi.index.tagging import Tagged, tag
from lookupstore.hudi.keys.dedupe import rows_to_keep
from lookupstore.hudi.keys.incoming import Incoming, IncomingRows, read_keys
from lookupstore.hudi.keys.table_schema import TableSchema
from lookupstore.hudi.timeline.commit import WriteStat
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.conflict import SAMPLE
from lookupstore.hudi.write.files import BulkInsert
from lookupstore.hudi.write.memory_rows import MemoryRows, Places
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.pipeline import Pipeline
from lookupstore.hudi.write.placing import place_rows
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
from lookupstore.hudi.write.sorted_rows import RowOrder, bulk_order
from lookupstore.hudi.write.transaction import Transaction


class Write:
    """One write.

    Args:
        view: the table as it is now, which can be written to.
        options: of the write.
        dry_run: only find out what it would do.
    """

    def __init__(self, view: TableView, options: WriteOptions, *, dry_run: bool) -> None:
        self._view = view
        self._options = options
        self._dry_run = dry_run
        self._index = index_of(options.index)
        self._pipeline = Pipeline(view, options)

    def upsert(self, given: Any) -> WriteResult:
        """Change rows whose keys are there, and insert the others."""
        with self._pipeline.step("read"):
            incoming, schema = self._read(given, UPSERT)
        incoming, places = self._find(incoming)
        if incoming.deleted is not None:
            # There is nothing to delete of a row that is not there.
            kept = np.flatnonzero(~incoming.deleted | (places.numbers >= 0))
            incoming = incoming.take(kept)
            places = Places(places.slices, places.numbers[kept], places.positions[kept])
        return self._run(UPSERT, self._rows(schema, incoming, places, self._current()))

    def insert(self, given: Any) -> WriteResult:
        """Insert rows, whose keys are looked for only if they may not be there."""
        with self._pipeline.step("read"):
            incoming, schema = self._read(given, INSERT)
            incoming = incoming.without_deleted()
        places = Places.nowhere(len(incoming))
        if self._options.looks_up(INSERT):
            tagged = self._tagged(incoming.partitions, incoming.keys)
            if tagged.rows is not None:
                incoming = incoming.take(tagged.rows)
            places = Places(tagged.slices, tagged.slice_numbers, tagged.positions)
        if self._options.duplicates == "drop":
            incoming = incoming.take(np.flatnonzero(places.numbers < 0))
            places = Places.nowhere(len(incoming))
        return self._run(INSERT, self._rows(schema, incoming, places, self._current()))

    def delete(self, given: Any) -> WriteResult:
        """Delete the rows of keys, which may be missing."""
        view = self._view
        with self._pipeline.step("read"):
            schema = view.table_schema
            keys, partitions = read_keys(
                given, schema.columns, view.options, named=written_name(view)
            )
            if self._index.everywhere:
                partitions = _coded(np.zeros(len(keys), np.int32), [""])
            elif partitions is None:
                keys, partitions = self._everywhere(keys)
            kept = pa.array(rows_to_keep(keys, partitions))
            keys, partitions = keys.take(kept), partitions.take(kept)
        tagged = self._tagged(partitions, keys)
        found = np.flatnonzero(tagged.found)
        places = Places(tagged.slices, tagged.slice_numbers[found], tagged.positions[found])
        paths = list(dict.fromkeys(one.group.partition for one in places.slices))
        places_of = {path: number for number, path in enumerate(paths)}
        numbers = np.array([places_of[one.group.partition] for one in places.slices], np.int32)
        partitions = _coded(numbers[places.numbers], paths)
        rows = found if tagged.rows is None else tagged.rows[found]
        incoming = Incoming(schema.columns.empty_table(), keys.take(pa.array(rows)), partitions)
        deletes = self._rows(schema, incoming, places, self._current(), explicit=True)
        return self._run(DELETE, deletes)

    def bulk_insert(self, given: Any) -> WriteResult:
        """Insert rows as they come, or in an order, without a look at the keys."""
        rows = self._incoming(given)
        order = bulk_order(rows.schema.columns, self._options)
        if self._dry_run:
            incoming = rows.all().without_deleted()
            return self._run(BULK_INSERT, self._new_rows(rows.schema, incoming))

        def write(transaction: Transaction) -> list[WriteStat]:
            def new_file(partition: str, number: int) -> NewFile:
                transaction.open_partition(partition)
                return NewFile(partition, self._options.new_file_id(), number, transaction.time)

            insert = BulkInsert(
                self._view, rows.schema, self._options, new_file, by_partition=order is not None
            )
            with closing(self._stretches(rows, order)) as stretches:
                return insert.write(stretches)

        return self._pipeline.run_unplanned(rows.schema, write)

    def overwrite(self, given: Any, *, whole_table: bool) -> WriteResult:
        """Put rows in the place of all rows of their partitions, or of the table."""
        with self._pipeline.step("read"):
            incoming, schema = self._read(given, INSERT_OVERWRITE)
            incoming = incoming.without_deleted()
        rows = self._new_rows(schema, incoming)
        if whole_table:
            return self._run(INSERT_OVERWRITE_TABLE, rows, Replaced(self._current(), None))
        paths = set(incoming.partitions.unique().to_pylist())
        slices = [one for one in self._current() if one.group.partition in paths]
        return self._run(INSERT_OVERWRITE, rows, Replaced(slices, paths))

    def delete_partitions(self, partitions: str | Sequence[str]) -> WriteResult:
        """Delete all rows of partitions."""
        partitions = [partitions] if isinstance(partitions, str) else partitions
        slices = self._current()
        known = {one.group.partition for one in slices}
        for path in partitions:
            if path not in known:
                some = ", ".join(map(repr, sorted(known)[:SAMPLE])) or "none"
                raise KeyError(f"partitions: the table has no partition {path!r}; it has {some}")
        slices = [one for one in slices if one.group.partition in partitions]
        schema = self._view.table_schema
        none = Incoming(
            schema.columns.empty_table(),
            pa.chunked_array([], pa.string()),
            pa.array([], pa.string()).dictionary_encode(),
        )
        rows = MemoryRows(self._view, self._options, schema, none, Places.nowhere(0), ())
        # There is nothing to plan without rows.
        plan = WritePlan(DELETE_PARTITION, (), {}, Replaced(slices, partitions))
        return self._done(plan, rows)

    def _stretches(
        self, rows: IncomingRows, order: RowOrder | None
    ) -> Generator[Iterable[Incoming], None, None]:
        """Yield the rows of a bulk insert as they are written."""
        given = (incoming.without_deleted() for incoming in rows.batches())
        if order is None:
            yield given
        else:
            folder = self._options.sort_folder or self._view.location.spill_folder()
            yield from order.sorted(given, folder)

    def _incoming(self, given: Any) -> IncomingRows:
        return IncomingRows(
            given,
            self._view.table_schema,
            self._view.options,
            named=written_name(self._view),
            evolve=self._options.evolve,
        )

    def _read(self, given: Any, operation: str) -> tuple[Incoming, TableSchema]:
        """Return rows, combined if the write does that, and the columns of the table with them."""
        rows = self._incoming(given)
        incoming = rows.all()
        if self._options.combines(operation):
            everywhere = self._index.everywhere
            incoming = incoming.deduplicated(self._view.options, everywhere=everywhere)
        return incoming, rows.schema

    def _everywhere(self, keys: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.DictionaryArray]:
        """Return keys once for each partition of the table, since none was given."""
        paths = sorted({one.group.partition for one in self._current()})
        repeated = pa.chunked_array(keys.chunks * len(paths), pa.string())
        return repeated, _coded(np.repeat(np.arange(len(paths), dtype=np.int32), len(keys)), paths)

    def _current(self) -> list[FileSlice]:
        return [group.current for group in self._view.groups(None)]

    def _tagged(self, partitions: pa.DictionaryArray, keys: pa.ChunkedArray) -> Tagged:
        """Return each place that keys have in the table."""
        with self._pipeline.step("tag"):
            return tag(self._view, partitions, keys, index=self._index, repeated=True)

    def _find(self, incoming: Incoming) -> tuple[Incoming, Places]:
        """Return rows with their places: a row once for each that it changes or comes to."""
        tagged = self._tagged(incoming.partitions, incoming.keys)
        with self._pipeline.step("tag"):
            moves = self._options.update_partition_path
            placed = place_rows(self._view, incoming, tagged, moves=moves)
            return placed.of(incoming), placed.places

    def _rows(
        self,
        schema: TableSchema,
        incoming: Incoming,
        places: Places,
        slices: Sequence[FileSlice],
        *,
        explicit: bool = False,
    ) -> MemoryRows:
        with self._pipeline.step("plan"):
            return MemoryRows(
                self._view, self._options, schema, incoming, places, slices, explicit=explicit
            )

    def _new_rows(self, schema: TableSchema, incoming: Incoming) -> MemoryRows:
        """Return rows that are new wherever they come, and come to new files."""
        return self._rows(schema, incoming, Places.nowhere(len(incoming)), ())

    def _run(
        self, operation: str, rows: MemoryRows, replaced: Replaced | None = None
    ) -> WriteResult:
        return self._done(self._pipeline.plan(operation, rows, replaced), rows)

    def _done(self, plan: WritePlan, rows: MemoryRows) -> WriteResult:
        if self._dry_run:
            return WriteResult.planned(plan, rows.deleted, self._pipeline.seconds)
        return self._pipeline.run(plan, rows)


def _coded(codes: npt.NDArray[np.int32], paths: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(paths, pa.string()))
