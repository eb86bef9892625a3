"""``SpilledRows``: the rows of a write that do not fit into memory.

Rows are found in pieces, counted, and kept in an unnamed temporary file until the file of each row
is planned. Then they are sorted by file and by position in the file, and the files are written one
after the other. The rows of each file are the same as from memory. Only the ends of row groups may
differ, and of new files in a partition that keeps a layout, which are planned from a sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow._binary import as_binary
from lookupstore.arrow.types import concat
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.merging import Inserts, RowChanges
from lookupstore.hudi.index.names import index_of
from lookupstore.hudi.keys.incoming import Incoming, ordering_of
from lookupstore.hudi.keys.missing_columns import NOTHING_MISSING, MissingColumns
from lookupstore.hudi.keys.table_schema import TableSchema
from lookupstore.hudi.layout import KeptLayout
from lookupstore.hudi.layout.sample import Sample
from lookupstore.hudi.meta_columns import PARTITION_PATH, RECORD_KEY
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.boxes import SAMPLE_ROWS, positions_in
from lookupstore.hudi.write.conflict import SAMPLE
from lookupstore.hudi.write.files import NewSlices, changed_twice_error
from lookupstore.hudi.write.inserted_keys import InsertedKeys
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.partitioner import Load, Packing, summed, workload
from lookupstore.hudi.write.pipeline import FoundRows, WrittenFile
from lookupstore.hudi.write.plan import PlannedFile
from lookupstore.hudi.write.rows.in_memory import RowPlaces
from lookupstore.hudi.write.rows.packing import (
    DELETED,
    KEY_FIELDS,
    NUMBER,
    TEXT,
    RowPacking,
    batch_of,
    cut,
    incoming_of,
)
from lookupstore.hudi.write.transaction import Transaction
from lookupstore.progress import Advance
from lookupstore.sorting.runs import BATCH_BYTES, MIN_MEMORY, RunSorter, SpillFile

# Columns of the place of a row: its file among the current ones, or -1, and its row in the file.
_FILE = pa.field("#file", pa.int32())
_POSITION = pa.field("#position", pa.int64())
# Columns of the written file of a row, and of its position in it: new rows are last.
_BUCKET = pa.field("#bucket", pa.int32())
_PLACE = pa.field("#place", pa.int64())
_LAST = np.iinfo(np.int64).max
# Maximum size of the sample of positions of a partition, even if there is little memory.
_SAMPLE_BYTES = 1 << 20


class SpilledRows(FoundRows):
    """Rows on disk, and their places. Leaving the context frees them.

    Args:
        view: Table as the write found it.
        options: Options of the write.
        schema: Schema of the table after the write.
        slices: Current base files, which the rows change or may be inserted into.
        pieces: Numbered rows, with their places.
        folder: Folder of the temporary files.
        explicit: Whether to delete all rows that are found. The rows then consist of keys only.
        kept: Columns that keep their stored values.
        ordered: Whether a stored row with a greater ordering value is kept.
    """

    def __init__(
        self,
        view: TableView,
        options: WriteOptions,
        schema: TableSchema,
        slices: Sequence[FileSlice],
        pieces: Iterable[tuple[Incoming, RowPlaces]],
        folder: str,
        *,
        explicit: bool = False,
        kept: MissingColumns = NOTHING_MISSING,
        ordered: bool = True,
    ) -> None:
        self.schema = schema
        self.slices = slices
        self._view = view
        self._options = options
        self._columns = pa.schema([]) if explicit else schema.columns
        self._explicit = explicit
        self._kept = kept
        self._ordering = None if explicit or not ordered else ordering_of(view.options)
        self._folder = folder
        self._numbers = {one.group: number for number, one in enumerate(slices)}
        self._known: list[str] = []
        self._flags = 0
        self._spill: SpillFile | None = None
        self._batches = 0
        self._sorted: RunSorter | None = None
        self._packing: RowPacking | None = None
        self._assigned: list[tuple[int, int, bool]] = []
        with ExitStack() as stack:
            self.loads: dict[str, Load] = summed(self._keep(*piece, stack) for piece in pieces)
            if self._spill is not None:
                self._spill.end()
            self._stack = stack.pop_all()

    def __enter__(self) -> SpilledRows:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def deleted(self) -> int:
        """Return the number of stored rows to delete, as known before the merge."""
        if self._explicit:
            return sum(sum(load.updates.values()) for load in self.loads.values())
        return self._flags

    def known_keys(self) -> Sequence[str]:
        """Return a few keys of the rows that are in the table, each once."""
        return self._known

    def new_positions(self, layouts: Mapping[str, KeptLayout]) -> dict[str, pa.Array]:
        """Return the positions of a sample of the new rows, by partition path."""
        samples: dict[str, Sample] = {}
        for batch in self._waiting():
            new = batch.filter(pc.less(batch.column(_FILE.name), 0))
            for path, kept in layouts.items():
                own = new.filter(pc.equal(new.column(PARTITION_PATH), path))
                if own.num_rows:
                    positions = positions_in(kept, own)
                    schema = pa.schema([pa.field("position", positions.type)])
                    if path not in samples:
                        samples[path] = Sample(schema, _SAMPLE_BYTES, SAMPLE_ROWS)
                    samples[path].add(pa.RecordBatch.from_arrays([positions], schema=schema))
        return {
            path: concat(rows.column(0).chunks, rows.column(0).type)
            for path, sample in samples.items()
            if (rows := sample.rows()).num_rows
        }

    def assign(self, packing: Packing) -> Sequence[int]:
        """Assign each row to a bucket, and return the numbers of the buckets with rows."""
        counts = np.zeros((3, len(packing.buckets)), np.int64)  # changes, inserts, deletions
        if self._sorted is not None:  # from an attempt that failed
            self._sorted.close()
        sorter = RunSorter("error", memory=self._memory, folder=self._folder)
        self._sorted = self._stack.enter_context(closing(sorter))
        for batch in self._waiting():
            files = self._file_ids(batch.column(_FILE.name))
            incoming = incoming_of(batch, self._columns)
            buckets = packing.assign(incoming.partitions, files, incoming.keys, incoming.rows)
            is_new = batch.column(_FILE.name).to_numpy() < 0
            flags = np.zeros(len(is_new), bool) if incoming.deleted is None else incoming.deleted
            for number, which in enumerate((~is_new, is_new, flags)):
                counts[number] += np.bincount(buckets[which], minlength=counts.shape[1])
            places = np.where(is_new, _LAST, batch.column(_POSITION.name).to_numpy())
            also = {_BUCKET.name: pa.array(buckets), _PLACE.name: pa.array(places)}
            if self._packing is None:
                self._packing = self._by_place(incoming.deleted is not None)
            for piece in self._packing.pieces(batch_of(incoming, **also)):
                sorter.add(piece)
        changes, inserts, deletes = counts
        self._assigned = [
            (number, int(inserts[number]), bool(deletes[number]) or self._explicit)
            for number in np.flatnonzero(changes + inserts).tolist()
        ]
        return [number for number, _, _ in self._assigned]

    def write(
        self, files: Sequence[PlannedFile], transaction: Transaction, advance: Advance
    ) -> Sequence[WrittenFile]:
        """Write the files of the buckets, one after the other."""
        assert self._sorted is not None
        slices = NewSlices(self._view.location, self.schema, self._options.format, transaction.time)
        rows: Iterator[pa.RecordBatch] = iter(())
        if self._packing is not None:
            rows = self._packing.unpacked(self._sorted.sorted_batches(0))
        stream = _Stream(rows)
        written = []
        for number, file in enumerate(files):
            bucket, new, may_delete = self._assigned[number]
            transaction.open_partition(file.partition)
            stream.begin(bucket)
            changes = _SpilledChanges(
                stream, self._columns, may_delete, self._explicit, self._ordering, self._kept
            )
            inserts = _SpilledInserts(stream, self._columns, new)
            stat = slices.write(number, file, changes, inserts, threads=True)
            written.append(WrittenFile(file, stat, stream.keys))
            advance(1)
        return written

    def keys_to_insert(self) -> SpilledKeys:
        """Return the keys of the new rows."""
        is_global = index_of(self._options.index).is_global
        return SpilledKeys(self._waiting(), self._memory, is_global=is_global)

    @property
    def _memory(self) -> int:
        """Return the bytes for the sort: half of the memory, at least the minimum."""
        return max(MIN_MEMORY, self._options.memory // 2)

    def _keep(self, incoming: Incoming, places: RowPlaces, stack: ExitStack) -> dict[str, Load]:
        """Spill rows, and return the numbers of rows to insert and to update."""
        loads = workload(incoming.partitions, places.file_ids())
        if not len(incoming):
            return loads
        if incoming.deleted is not None:
            self._flags += int(np.count_nonzero(incoming.deleted))
        if len(self._known) < SAMPLE:
            some = incoming.keys.filter(pa.array(places.numbers >= 0)).unique()[:SAMPLE]
            self._known = list(dict.fromkeys([*self._known, *some.to_pylist()]))[:SAMPLE]
        known = [self._numbers[one.group] for one in places.slices]
        # The last number is that of rows without a stored row.
        files = np.array([*known, -1], np.int32)[places.numbers]
        also = {_FILE.name: pa.array(files), _POSITION.name: pa.array(places.positions)}
        batch = batch_of(incoming, **also)
        if self._spill is None:
            self._spill = stack.enter_context(closing(SpillFile(self._folder, batch.schema)))
        most = min(BATCH_BYTES, self._options.memory // 16)
        for piece in cut(batch, max(1, most)):
            self._spill.append(piece)
            self._batches += 1
        return loads

    def _waiting(self) -> Iterator[pa.RecordBatch]:
        return iter(()) if self._spill is None else self._spill.read(range(self._batches))

    def _file_ids(self, files: pa.Array) -> pa.DictionaryArray:
        """Return the file group id of each row; null for a new row."""
        known = files.to_numpy()
        return pa.DictionaryArray.from_arrays(
            pa.array(known, mask=known < 0),
            pa.array([one.group.file_id for one in self.slices], pa.string()),
        )

    def _by_place(self, flagged: bool) -> RowPacking:
        key = KEY_FIELDS[1]
        flags = [DELETED] if flagged else []
        return RowPacking(
            pa.schema([_BUCKET, _PLACE, *flags, key, *self._columns]),
            pa.schema([_BUCKET, _PLACE, NUMBER]),
            memory=self._memory,
        )


class SpilledKeys:
    """Inserted keys on disk.

    Args:
        batches: Spilled rows, with their places.
        most: Size of the keys to look for at once, in bytes. Each time, files are read again.
        is_global: Whether keys are looked for in all partitions.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], most: int, *, is_global: bool) -> None:
        self._batches = batches
        self._most = most
        self._is_global = is_global

    def found_in(
        self, view: TableView, files: Sequence[FileSlice]
    ) -> Iterator[tuple[FileSlice, Sequence[str]]]:
        """Yield the base files that contain some of the keys, each with a few of these."""
        wanted = [field.name for field in KEY_FIELDS]
        waiting: list[pa.RecordBatch] = []
        for batch in self._batches:
            new = batch.filter(pc.less(batch.column(_FILE.name), 0)).select(wanted)
            waiting.append(new)
            if sum(one.nbytes for one in waiting) >= self._most:
                yield from self._keys_of(waiting).found_in(view, files)
                waiting.clear()
        yield from self._keys_of(waiting).found_in(view, files)

    def _keys_of(self, batches: Sequence[pa.RecordBatch]) -> InsertedKeys:
        """Return the keys of batches by partition path."""
        rows = pa.Table.from_batches(batches, pa.schema(KEY_FIELDS))
        if self._is_global:
            return InsertedKeys({None: as_binary(rows.column(RECORD_KEY))})
        paths = rows.column(PARTITION_PATH)
        return InsertedKeys(
            {
                path: as_binary(rows.filter(pc.equal(paths, path)).column(RECORD_KEY))
                for path in paths.unique().to_pylist()
            }
        )


class _Stream:
    """A stream of rows sorted by bucket and place; each row is taken once."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: pa.RecordBatch | None = None
        self._bucket = 0
        #: Some keys of the rows that were taken from the bucket.
        self.keys: list[str] = []

    def begin(self, bucket: int) -> None:
        """Begin the rows of a bucket."""
        self._bucket = bucket
        self.keys = []

    def take(self, below: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the bucket with places below a limit."""
        while (batch := self._head()) is not None:
            buckets = batch.column(_BUCKET.name).to_numpy()
            places = batch.column(_PLACE.name).to_numpy()
            # Rows are sorted: those to be taken are first.
            count = int(np.count_nonzero((buckets == self._bucket) & (places < below)))
            self._rest = batch.slice(count)
            if not count:
                return
            taken = batch.slice(0, count)
            lacks = SAMPLE - len(self.keys)
            if lacks:
                self.keys += taken.column(RECORD_KEY).slice(0, lacks).to_pylist()
            yield taken

    def place(self) -> int | None:
        """Return the place of the next row of the bucket; None: no rows are left."""
        batch = self._head()
        if batch is None or batch.column(_BUCKET.name)[0].as_py() != self._bucket:
            return None
        place: int = batch.column(_PLACE.name)[0].as_py()
        return place

    def _head(self) -> pa.RecordBatch | None:
        while self._rest is None or not self._rest.num_rows:
            batch = next(self._batches, None)
            if batch is None:
                return None
            self._rest = batch
        return self._rest


class _SpilledChanges:
    """The changes of a file group, from a stream."""

    def __init__(
        self,
        stream: _Stream,
        columns: pa.Schema,
        may_delete: bool,
        explicit: bool,
        ordering: str | None,
        kept: MissingColumns,
    ) -> None:
        self._stream = stream
        self._columns = columns
        self._explicit = explicit
        self._ordering = ordering
        self._kept = kept
        #: Whether rows may be deleted.
        self.may_delete: bool = may_delete

    def within(self, first: int, count: int) -> RowChanges:
        """Return the changes of consecutive rows; positions are relative to the first."""
        parts = list(self._stream.take(first + count))
        places = [part.column(_PLACE.name).to_numpy() for part in parts]
        positions = np.concatenate([np.empty(0, np.int64), *places]) - first
        again = np.flatnonzero(np.diff(positions) == 0)
        if len(again):
            keys = concat([part.column(RECORD_KEY) for part in parts], TEXT)
            raise changed_twice_error(keys[int(again[0])])
        if self._explicit:
            return RowChanges(positions, None)
        deleted = None
        if parts and DELETED.name in parts[0].schema.names:
            flags = [part.column(DELETED.name).to_numpy(zero_copy_only=False) for part in parts]
            deleted = np.concatenate(flags)
        rows = _rows(parts, self._columns)
        return RowChanges(positions, rows, deleted, self._ordering, self._kept)

    def beyond(self, rows: int) -> int | None:
        """Return the position of a change beyond the first rows; None: there is none."""
        place = self._stream.place()
        return None if place == _LAST else place


class _SpilledInserts:
    """New rows of a file, from a stream."""

    def __init__(self, stream: _Stream, columns: pa.Schema, count: int) -> None:
        self._stream = stream
        self._columns = columns
        #: Number of new rows.
        self.count: int = count

    def pieces(self) -> Iterator[Inserts]:
        """Yield the new rows in their order, a few at a time."""
        for part in self._stream.take(_LAST + 1):
            yield Inserts(part.column(RECORD_KEY), _rows([part], self._columns))


def _rows(parts: Sequence[pa.RecordBatch], columns: pa.Schema) -> pa.RecordBatch:
    """Return the table's columns of some batches, joined to one batch."""
    whole = [concat([part.column(one.name) for part in parts], one.type) for one in columns]
    return pa.RecordBatch.from_arrays(whole, schema=columns)
