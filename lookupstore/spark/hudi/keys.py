"""The search for keys of a Hudi table in the Python workers of executors: from rows to places.

In Spark, the rows have these columns: `row`, their number; `key` and `partition`; `slice` and
`pos`, the current base file with the key, as its index in the plan, and the row in it, both null
for a new key; `moved`, whether they only delete that row, since the new row is in another
partition; and their own columns, numbered. Keys are never sent to the driver.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import concat
from lookupstore.hudi import FileSlice
from lookupstore.hudi.index import Tagged, index_of, keys_of, partitions_of, tag, with_places
from lookupstore.hudi.keys import (
    IS_DELETED,
    NOTHING_MISSING,
    Incoming,
    IncomingRows,
    MissingColumns,
    TableSchema,
    precombine_of,
    read_keys,
    rows_to_keep,
)
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write import (
    DELETE,
    INSERT,
    SAMPLE,
    UPSERT,
    KeyTexts,
    PlacedRows,
    check_same_keys,
    place_rows,
)
from lookupstore.sorting.runs import MIN_MEMORY

Batches = Iterable[pa.RecordBatch]

# Number of rows, and their bytes, that a worker looks up at once: each time it searches all files
# that may have a key.
_TABLE_ROWS = 1 << 20
_TABLE_BYTES = 128 << 20
_TEXT = pa.string()


@dataclass(frozen=True)
class KeyTask:
    """The keys that executors look up, and the files to look in.

    Attributes:
        view: View of the table that the lookup was planned on.
        slices: Current base files, by partition path and file identifier.
        index: Name of the index.
        named: Whether a record key of one column is written `name:value`. None: unknown.
        columns: Columns of the rows.
    """

    view: TableView
    slices: tuple[FileSlice, ...]
    index: str
    named: bool | None
    columns: pa.Schema

    def rows(self, batch: pa.RecordBatch | pa.Table) -> pa.Table:
        """Return the rows' own columns, which are the last ones of a batch, by their names."""
        first = batch.num_columns - len(self.columns)
        return pa.Table.from_arrays(batch.columns[first:], names=self.columns.names)

    def tag(self, rows: pa.Table, *, repeated: bool = False) -> Tagged:
        """Find the places of rows with the columns `key` and `partition`; see `tag`."""
        index = index_of(self.index)
        keys, partitions = rows.column("key"), rows.column("partition")
        return tag(self.view, partitions, keys, index=index, slices=self.slices, repeated=repeated)


@dataclass(frozen=True)
class RowTask(KeyTask):
    """The rows to write, with their keys and files.

    Attributes:
        operation: Hudi's name of the write: `UPSERT`, `INSERT` and so on.
        schema: Columns of the table after the write.
        combines: Whether to write only one of the rows with the same key.
        drops: Whether to leave out rows with keys that the table has.
        moves: Whether rows with keys in other partitions move to their own; see `place_rows`.
        kept: Columns in which rows keep the stored values.
        ordered: Whether to keep a stored row that has a greater ordering value.
    """

    operation: str
    schema: TableSchema
    combines: bool
    drops: bool
    moves: bool
    kept: MissingColumns = NOTHING_MISSING
    ordered: bool = True

    @property
    def together(self) -> tuple[str, ...]:
        """Return the columns in which rows of one key are equal."""
        return ("key",) if index_of(self.index).is_global else ("partition", "key")

    @property
    def brings(self) -> bool:
        """Return whether rows that move need columns with their stored values."""
        return bool(self.kept) and self.moves and index_of(self.index).is_global

    @property
    def told_apart(self) -> pa.Schema:
        """Return the columns of a composite key to delete: texts of different keys may be equal."""
        names = self.view.options.record_key
        return pa.schema([self.schema.columns.field(name) for name in names if len(names) > 1])

    def row_reader(self) -> IncomingRows:
        """Return the reader of rows with all their columns."""
        return IncomingRows(
            self.columns.empty_table(),
            self.schema,
            self.view.options,
            named=self.named,
            evolve=False,
            missing="null",  # the driver has checked the choice
        )

    def reader(self) -> IncomingRows:
        """Return the reader of only the columns that decide the places and duplicates of rows."""
        options = self.view.options
        needed = {*options.record_key, *options.partition_by, precombine_of(options)}
        known = pa.schema([one for one in self.schema.columns if one.name in needed])
        given = pa.schema([one for one in self.columns if one.name in {*needed, IS_DELETED}])
        return IncomingRows(
            given.empty_table(),
            TableSchema(known, self.schema.avro),
            options,
            named=self.named,
            evolve=False,
        )


def with_keys(task: KeyTask, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Put record key and partition path after the number of each row."""
    is_global = index_of(task.index).is_global
    for batch in batches:
        rows = task.rows(batch)
        keys = keys_of(rows, task.view.options, task.named)
        partitions = partitions_of(rows, task.view.options, is_global=is_global)
        yield _keyed(batch, keys, partitions)


def with_row_keys(task: RowTask, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Put record key and partition path after the number of each row that is to be written."""
    reader = task.reader()
    for batch in batches:
        incoming = reader.incoming(task.rows(batch))
        yield _keyed(batch, incoming.keys, incoming.partitions)


def keys_to_delete(task: RowTask, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield number, record key and partition path of rows, once for each partition of a key.

    After these there are the columns of `task.told_apart`.
    """
    is_global = index_of(task.index).is_global
    paths = sorted({one.group.partition for one in task.slices})
    kept = [0, *(1 + task.columns.names.index(name) for name in task.told_apart.names)]
    for batch in batches:
        keys, partitions = read_keys(
            task.rows(batch), task.schema.columns, task.view.options, named=task.named
        )
        rows = batch.select(kept)
        if partitions is not None and not is_global:
            yield _keyed(rows, keys, partitions)
            continue
        for path in [""] if is_global else paths:
            yield _keyed(rows, keys, pa.repeat(pa.scalar(path), batch.num_rows))


def partitions_in(task: KeyTask, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield the partition paths of rows, each path of a batch once."""
    for batch in batches:
        paths = partitions_of(task.rows(batch), task.view.options, is_global=False)
        yield pa.RecordBatch.from_arrays([_text(paths).unique()], names=["partition"])


def with_place_columns(task: KeyTask, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Append the place of its key to the columns of each row, in the form of `tag_rows`."""
    for table in tables_of(batches, ()):
        yield from with_places(task.rows(table), task.tag(table)).to_batches()


def rows_to_write(task: RowTask, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Leave out rows that others of their key replace, and add the place of each key.

    Args:
        task: Description of the rows.
        batches: Rows sorted by `task.together` and number, with all rows of a key.
    """
    reader = None if task.operation == DELETE else task.reader()
    if task.operation == UPSERT and task.brings:
        reader = task.row_reader()
    numbers = {file: number for number, file in enumerate(task.slices)}
    for table in tables_of(batches, task.together):
        rows, incoming = _resolved(task, reader, table)
        if task.operation == INSERT and incoming is not None and incoming.deleted is not None:
            kept = np.flatnonzero(~incoming.deleted)
            rows, incoming = rows.take(pa.array(kept)), incoming.take(kept)
        found = task.tag(rows, repeated=True)
        if incoming is not None:
            check_same_keys(task.view, incoming, found)
        elif task.told_apart.names:
            check_same_keys(task.view, _to_delete(task, rows), found)
            rows = rows.select([0, 1, 2])
        deleted = moved = None
        if task.operation == UPSERT and incoming is not None:
            placed = place_rows(task.view, incoming, found, moves=task.moves, kept=task.kept)
            rows = rows if placed.rows is None else rows.take(pa.array(placed.rows))
            rows = _with_partitions(task, rows, placed)
            deleted, moved = placed.of(incoming).deleted, placed.moved
            local, positions = placed.places.numbers, placed.places.positions
        else:
            rows = rows if found.rows is None else rows.take(pa.array(found.rows))
            local, positions = found.slice_numbers, found.positions
        there = local >= 0
        at = np.array([numbers[file] for file in found.slices], np.int32)
        slices = np.full(len(there), -1, np.int32)
        slices[there] = at[local[there]]
        places = [pa.array(slices, mask=~there), pa.array(positions, mask=~there)]
        if task.operation == DELETE:
            paths = pa.array([file.group.partition for file in task.slices], _TEXT)
            rows = rows.set_column(2, "partition", paths.take(places[0]))
        # For a missing row there is nothing to delete.
        gone = None if deleted is None else deleted & ~there
        if task.operation == DELETE:
            gone = ~there
        if task.drops:
            gone = there
        to_write = _with_places(rows, places, moved)
        if gone is not None and gone.any():
            to_write = to_write.take(pa.array(np.flatnonzero(~gone)))
        yield from to_write.to_batches()


def rows_to_add(task: RowTask, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Leave out rows that delete, and add an empty place to the others.

    Args:
        task: Description of the rows.
        batches: Rows in any order; if they are combined, sorted by `task.together` and number. The
            table may have their keys.
    """
    reader = task.reader()
    for table in tables_of(batches, task.together if task.combines else ()):
        rows, incoming = _resolved(task, reader, table)
        if incoming is not None and incoming.deleted is not None:
            rows = rows.take(pa.array(np.flatnonzero(~incoming.deleted)))
        nowhere = [pa.nulls(rows.num_rows, kind) for kind in (pa.int32(), pa.int64())]
        yield from _with_places(rows, nowhere, None).to_batches()


def keys_in_files(task: KeyTask, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield files that have keys, by their numbers, with a few of the keys."""
    for table in tables_of(batches, ()):
        found = task.tag(table, repeated=True)
        numbers = {file: number for number, file in enumerate(task.slices)}
        for at in np.unique(found.slice_numbers[found.found]):
            rows = np.flatnonzero(found.slice_numbers == at)[:SAMPLE]
            rows = rows if found.rows is None else found.rows[rows]
            keys = table.column("key").take(pa.array(rows)).to_pylist()
            yield pa.RecordBatch.from_pylist(
                [{"file": numbers[found.slices[at]], "keys": keys}],
                pa.schema({"file": pa.int32(), "keys": pa.list_(_TEXT)}),
            )


def _keyed(
    batch: pa.RecordBatch, keys: pa.ChunkedArray, partitions: pa.Array | pa.ChunkedArray
) -> pa.RecordBatch:
    columns = [batch.column(0), _text(keys), _text(partitions), *batch.columns[1:]]
    names = ["row", "key", "partition", *batch.schema.names[1:]]
    return pa.RecordBatch.from_arrays(columns, names=names)


def _text(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return concat([chunk.cast(_TEXT) for chunk in chunks], _TEXT)


def _with_partitions(task: RowTask, rows: pa.Table, placed: PlacedRows) -> pa.Table:
    """Return rows with the partitions to which they are written."""
    own = placed.with_columns(task.rows(rows))
    first = [*rows.columns[:2], _text(placed.partitions)]
    return pa.Table.from_arrays([*first, *own.columns], names=rows.column_names)


def _with_places(
    rows: pa.Table, places: Sequence[pa.Array], moved: npt.NDArray[np.bool_] | None
) -> pa.Table:
    """Put slice and position of rows before their own columns."""
    gone = np.zeros(rows.num_rows, bool) if moved is None else moved
    columns = [*rows.columns[:3], *places, pa.array(gone), *rows.columns[3:]]
    names = [*rows.column_names[:3], "slice", "pos", "moved", *rows.column_names[3:]]
    return pa.Table.from_arrays(columns, names=names)


def _to_delete(task: RowTask, rows: pa.Table) -> Incoming:
    """Return keys to delete, as `keys_to_delete` has them, with the columns of the key."""
    kinds = task.told_apart
    columns = [one.cast(kind.type) for one, kind in zip(rows.columns[3:], kinds, strict=True)]
    partitions = _text(rows.column("partition")).dictionary_encode()
    return Incoming(pa.table(columns, schema=kinds), rows.column("key"), partitions)


def _key_texts(task: RowTask) -> KeyTexts:
    is_global = index_of(task.index).is_global
    fields, folder = task.view.options.record_key, tempfile.gettempdir()
    return KeyTexts(fields, is_global=is_global, memory=MIN_MEMORY, folder=folder)


def _resolved(
    task: RowTask, reader: IncomingRows | None, table: pa.Table
) -> tuple[pa.Table, Incoming | None]:
    """Return the rows that are kept, and their data; None: only their keys are known."""
    if reader is None:
        if task.told_apart.names:
            _key_texts(task).check(_to_delete(task, table))
        coded = _text(table.column("partition")).dictionary_encode()
        return table.take(pa.array(rows_to_keep(table.column("key"), coded))), None
    incoming = reader.incoming(task.rows(table))
    _key_texts(task).check(incoming)
    if not task.combines:
        return table, incoming
    is_global = index_of(task.index).is_global
    kept = incoming.to_keep(task.view.options, is_global=is_global)
    if len(kept) == len(incoming):
        return table, incoming
    return table.take(pa.array(kept)), incoming.take(kept)


def tables_of(batches: Batches, together: Sequence[str]) -> Iterator[pa.Table]:
    """Collect rows until a search of files pays, with equal rows in one table.

    Args:
        batches: Rows sorted by `together`.
        together: Columns that are equal in rows that belong together.
    """
    held: list[pa.RecordBatch] = []
    rows = nbytes = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        nbytes += batch.nbytes
        if rows < _TABLE_ROWS and nbytes < _TABLE_BYTES:
            continue
        table = pa.Table.from_batches(held)
        end = _last_group(table, together)
        if end:
            yield table.slice(0, end)
            held = table.slice(end).to_batches()
            rows = sum(one.num_rows for one in held)
            nbytes = sum(one.nbytes for one in held)
    if rows:
        yield pa.Table.from_batches(held)


def _last_group(table: pa.Table, together: Sequence[str]) -> int:
    """Return the index of the last rows, which may have the key of later rows."""
    if not together:
        return int(table.num_rows)
    same = np.ones(table.num_rows, bool)
    for name in together:
        column = table.column(name)
        same &= pc.equal(column, column[-1]).to_numpy()
    return int(table.num_rows - np.count_nonzero(same))
