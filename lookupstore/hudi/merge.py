"""One file group: the rows that it has and what changes in them become the rows of a new slice.

Rows keep their order. Those that nothing changes keep commit time and sequence number, so that a
reader of what changed does not see them again.

Source: org.apache.hudi.io.HoodieMergeHandle, DefaultHoodieRecordPayload
(combineAndGetUpdateValue, needUpdatingPersistedRecord).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow_types import concat, unwrap
from lookupstore.errors import CorruptionError
from lookupstore.hudi.base_file_writer import ROW_COLUMNS, BaseFileWriter, in_type
from lookupstore.hudi.slice_rows import SHARED_TEXT, SliceRows

# Rows to insert are added in pieces, of which the writer makes row groups.
_PIECE_ROWS = 1 << 16

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Changes:
    """Hold what changes in rows that a file group has.

    Attributes:
        positions: of the rows in the current slice, int64, ascending, each once.
        rows: the new data columns of each; None: all are deleted, whatever they hold.
        deleted: which of them are deleted if they win; None: none.
        ordering: column by which they win; None: they do in any case.
    """

    positions: npt.NDArray[np.int64]
    rows: pa.RecordBatch | None
    deleted: Mask | None = None
    ordering: str | None = None


@dataclass(frozen=True, eq=False)
class Inserts:
    """Hold rows that are new: record keys, and data columns."""

    keys: pa.Array
    rows: pa.RecordBatch


@dataclass(frozen=True)
class RowCounts:
    """Count the rows of a new slice: all, those that are new, changed, and deleted."""

    written: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


def row_schema(columns: pa.Schema) -> pa.Schema:
    """Return what a merge reads of a slice: the rows' own meta columns, and the data columns."""
    time, number, key = ROW_COLUMNS
    meta = [pa.field(time, SHARED_TEXT), pa.field(number, pa.string()), pa.field(key, pa.string())]
    return pa.schema([*meta, *columns])


def merge(
    current: SliceRows, changes: Changes, inserts: Inserts, into: BaseFileWriter, *, threads: bool
) -> RowCounts:
    """Write the rows of the next slice.

    Args:
        current: rows of the current slice, as `row_schema` says.
        changes: in these.
        inserts: what comes after them.
        into: the new file.
        threads: whether columns are decoded at the same time.

    Raises:
        CorruptionError: the current slice is damaged, or ends before a row that changes.
        FormatError: it has a column whose type is no narrower one than that of the table.
    """
    into.share(current.shared)
    first, updated, deleted = 0, 0, 0
    for batch in current.batches(threads=threads):
        low, high = np.searchsorted(changes.positions, [first, first + batch.num_rows])
        if low == high:
            into.add(batch.columns)
        else:
            replaced, gone = _decide(changes, batch, first, slice(low, high))
            updated += int(np.count_nonzero(replaced))
            deleted += int(np.count_nonzero(gone))
            places = changes.positions[low:high] - first
            rows = None if changes.rows is None else changes.rows.slice(low, high - low)
            into.add(_merged(batch, rows, places, replaced, gone, into))
        first += batch.num_rows
    if len(changes.positions) and changes.positions[-1] >= first:
        raise CorruptionError(
            current.shown, 0, f"a row {changes.positions[-1]}, which changes", f"{first} rows"
        )
    write_inserts(inserts, into)
    return RowCounts(into.rows, len(inserts.keys), updated, deleted)


def write_inserts(inserts: Inserts, into: BaseFileWriter) -> RowCounts:
    """Write rows that are new, after those that are in a file."""
    count = len(inserts.keys)
    for start in range(0, count, _PIECE_ROWS):
        rows = inserts.rows.slice(start, _PIECE_ROWS)
        keys = inserts.keys.slice(start, _PIECE_ROWS)
        into.add([*into.new_rows(keys, into.rows), *rows.columns])
    return RowCounts(into.rows, count)


def wins(incoming: pa.Array, stored: pa.Array) -> Mask:
    """Return which rows are at least as new as those that are stored, by their ordering values.

    Args:
        incoming: values without nulls.
        stored: as many values; a row without one is older than any.

    >>> wins(pa.array([1, 2, 3]), pa.array([None, 2, 4])).tolist()
    [True, True, False]
    """
    newer = pc.less_equal(stored, incoming)
    if pa.types.is_floating(incoming.type):
        # As in the batch, and in Java, what is no number is above all numbers.
        newer = pc.or_(newer, pc.is_nan(incoming))
    found: Mask = pc.fill_null(newer, True).to_numpy(zero_copy_only=False)
    return found


def _decide(changes: Changes, batch: pa.RecordBatch, first: int, part: slice) -> tuple[Mask, Mask]:
    """Return which of some changes replace their row, and which delete it."""
    count = part.stop - part.start
    if changes.rows is None:
        return np.zeros(count, bool), np.ones(count, bool)
    won = np.ones(count, bool)
    if changes.ordering is not None:
        at = batch.schema.get_field_index(changes.ordering)
        stored = unwrap(batch.column(at)).take(pa.array(changes.positions[part] - first))
        incoming = changes.rows.slice(part.start, count).column(changes.ordering)
        won = wins(incoming, stored)
    gone = np.zeros(count, bool) if changes.deleted is None else changes.deleted[part] & won
    return won & ~gone, gone


def _merged(
    batch: pa.RecordBatch,
    rows: pa.RecordBatch | None,
    places: npt.NDArray[np.int64],
    replaced: Mask,
    gone: Mask,
    into: BaseFileWriter,
) -> list[pa.Array]:
    """Return the columns of stored rows after some were replaced and others left out."""
    source = np.arange(batch.num_rows)
    new = np.flatnonzero(replaced)
    source[places[new]] = batch.num_rows + np.arange(len(new))
    if gone.any():
        source = np.delete(source, places[gone])
    if rows is None or not len(new):
        return list(batch.take(pa.array(source)).columns)
    # Of a row that changes, the key stays; its number is its place in the new file.
    taken = rows if len(new) == len(rows) else rows.take(pa.array(new))
    keys = batch.column(2).take(pa.array(places[new]))
    numbers = np.flatnonzero(source >= batch.num_rows) + into.rows
    fresh = [*into.new_rows(keys, numbers), *taken.columns]
    order = pa.array(source)
    return [
        concat([old, in_type(changed, old.type)], old.type).take(order)
        for old, changed in zip(batch.columns, fresh, strict=True)
    ]
