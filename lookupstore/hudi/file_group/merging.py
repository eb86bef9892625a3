"""The merge of one file group: its rows and their changes become the rows of a new slice.

Rows keep their order. Unchanged rows keep commit time and sequence number, so that readers of
changes do not read them again.

Source: org.apache.hudi.io.HoodieMergeHandle, DefaultHoodieRecordPayload
(combineAndGetUpdateValue, needUpdatingPersistedRecord).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import concat, unwrap
from lookupstore.errors import CorruptionError
from lookupstore.hudi.file_group.group_copy import GroupCopy
from lookupstore.hudi.file_group.reader import SHARED_TEXT, SliceRows
from lookupstore.hudi.file_group.writer import ROW_COLUMNS, BaseFileWriter, in_type
from lookupstore.hudi.keys.missing_columns import NOTHING_MISSING, MissingColumns
from lookupstore.hudi.meta_columns import RECORD_KEY

#: Number of rows to insert that are added at a time; the writer makes row groups of them.
PIECE_ROWS = 1 << 16

Mask = npt.NDArray[np.bool_]


class ComingChanges(Protocol):
    """The changes of the rows of a file group, in memory or not."""

    @property
    def may_delete(self) -> bool:
        """Return whether rows may be deleted."""

    def within(self, first: int, count: int) -> RowChanges:
        """Return the changes in some consecutive rows, with positions relative to them.

        It is called once for each row, in the order of rows.
        """

    def beyond(self, rows: int) -> int | None:
        """Return the position of a changed row after some first rows; None: there is none."""


class ComingInserts(Protocol):
    """New rows, in memory or not."""

    @property
    def count(self) -> int:
        """Return the number of new rows."""

    def pieces(self) -> Iterator[Inserts]:
        """Yield the new rows in their order, in batches; call it once."""


@dataclass(frozen=True, eq=False)
class RowChanges:
    """The changes of the rows of a file group.

    Attributes:
        positions: Positions of the rows in the current slice, int64, ascending, each once.
        rows: New data columns of each row. None: all of the rows are deleted, whatever they hold.
        deleted: Mask of the rows that are deleted if their change wins. None: no row is deleted.
        ordering: Column whose values decide whether a change wins. None: every change wins.
        kept: Columns, or fields of them, that rows keep as they are stored.
    """

    positions: npt.NDArray[np.int64]
    rows: pa.RecordBatch | None
    deleted: Mask | None = None
    ordering: str | None = None
    kept: MissingColumns = NOTHING_MISSING

    def within(self, first: int, count: int) -> RowChanges:
        """Return the changes in some consecutive rows, with positions relative to them."""
        low, high = np.searchsorted(self.positions, [first, first + count])
        return RowChanges(
            self.positions[low:high] - first,
            None if self.rows is None else self.rows.slice(low, high - low),
            None if self.deleted is None else self.deleted[low:high],
            self.ordering,
            self.kept,
        )

    def beyond(self, rows: int) -> int | None:
        """Return the position of a changed row after some first rows; None: there is none."""
        if not len(self.positions) or self.positions[-1] < rows:
            return None
        return int(self.positions[-1])

    @property
    def may_delete(self) -> bool:
        """Return whether rows may be deleted."""
        if self.rows is None:
            return len(self.positions) > 0
        return self.deleted is not None and bool(self.deleted.any())


@dataclass(frozen=True, eq=False)
class Inserts:
    """New rows: record keys and data columns."""

    keys: pa.Array
    rows: pa.RecordBatch

    @property
    def count(self) -> int:
        """Return the number of new rows."""
        return len(self.keys)

    def pieces(self) -> Iterator[Inserts]:
        """Yield the new rows in their order, in batches."""
        for start in range(0, len(self.keys), PIECE_ROWS):
            yield Inserts(self.keys.slice(start, PIECE_ROWS), self.rows.slice(start, PIECE_ROWS))


@dataclass(frozen=True)
class RowCounts:
    """The row counts of a new slice: all, and those inserted, updated and deleted."""

    written: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


def row_schema(columns: pa.Schema) -> pa.Schema:
    """Return the columns that a merge reads from a slice.

    They are the meta columns that belong to rows, then the data columns.
    """
    time, number, key = ROW_COLUMNS
    meta = [pa.field(time, SHARED_TEXT), pa.field(number, pa.string()), pa.field(key, pa.string())]
    return pa.schema([*meta, *columns])


def merge(
    current: SliceRows, changes: ComingChanges, inserts: ComingInserts, into: BaseFileWriter
) -> RowCounts:
    """Write the rows of the next slice.

    Args:
        current: Rows of the current slice, in the columns of `row_schema`.
        changes: Changes in the rows of the current slice.
        inserts: New rows, which follow the rows of the current slice.
        into: Writer of the new file.

    Raises:
        CorruptionError: If the current slice is damaged, or ends before a row that changes.
        FormatError: If the current slice has a column whose type cannot be widened to that of the
            table.
    """
    into.share(current.shared)
    if current.is_ours and not changes.may_delete:
        rows = sum(current.group_rows)
        into.keep_keys(current.footer.entries, current.shown, rows, inserts.count)
    copies = GroupCopy(current, into)
    first, updated, deleted = 0, 0, 0
    for group, rows in enumerate(current.group_rows):
        part = changes.within(first, rows)
        if copies.can(group) and not part.may_delete:
            updated += _copy_group(group, part, current, copies, into)
        else:
            start = 0
            for batch in current.batches(group):
                piece = part.within(start, batch.num_rows)
                replaced, gone = _add_merged(batch, piece, into)
                updated += replaced
                deleted += gone
                start += batch.num_rows
        first += rows
    if (missing := changes.beyond(first)) is not None:
        raise CorruptionError(current.shown, 0, f"a row {missing} to change", f"{first} rows")
    write_inserts(inserts, into)
    return RowCounts(into.rows, inserts.count, updated, deleted)


def write_inserts(inserts: ComingInserts, into: BaseFileWriter) -> RowCounts:
    """Write new rows after the rows of a file."""
    for piece in inserts.pieces():
        places = np.arange(into.rows, into.rows + len(piece.keys))
        into.add([*into.new_rows(places), piece.keys, *piece.rows.columns])
    return RowCounts(into.rows, inserts.count)


def wins(incoming: pa.Array, stored: pa.Array) -> Mask:
    """Return which rows are at least as new as the stored ones, by ordering values.

    Args:
        incoming: Ordering values of the rows, without nulls.
        stored: Ordering values of as many stored rows. A row without one is older than any.

    >>> wins(pa.array([1, 2, 3]), pa.array([None, 2, 4])).tolist()
    [True, True, False]
    """
    newer = pc.less_equal(stored, incoming)
    if pa.types.is_floating(incoming.type):
        # As among the rows of a batch, and in Java, NaN is greater than all numbers.
        newer = pc.or_(newer, pc.is_nan(incoming))
    found: Mask = pc.fill_null(newer, True).to_numpy(zero_copy_only=False)
    return found


def _copy_group(
    group: int, changes: RowChanges, current: SliceRows, copies: GroupCopy, into: BaseFileWriter
) -> int:
    """Write a row group without deletes, and return how many rows change."""
    keys = None if into.keeps_keys else current.read_group(group, [RECORD_KEY])[RECORD_KEY]
    stored = None
    if changes.ordering is not None and len(changes.positions):
        stored = current.read_group(group, [changes.ordering])[changes.ordering]
    replaced, _ = _decide(changes, stored)
    places = changes.positions[replaced]
    fresh = {}
    if len(places):
        columns = _fresh(changes, replaced, places + into.rows, into)
        names = [name for name in current.schema.names if name != RECORD_KEY]
        fresh = dict(zip(names, columns, strict=True))
        for name, inside in changes.kept.fields.items():
            if inside is None:
                del fresh[name]
            else:
                old = current.read_group(group, [name])[name].take(pa.array(places))
                fresh[name] = changes.kept.filled(name, fresh[name], old)
    copies.copy(group, keys, places, fresh)
    return len(places)


def _add_merged(
    batch: pa.RecordBatch, changes: RowChanges, into: BaseFileWriter
) -> tuple[int, int]:
    """Write stored rows, and return the numbers of replaced and deleted rows."""
    if not len(changes.positions):
        into.add(batch.columns, stored=True)
        return 0, 0
    stored = None if changes.ordering is None else batch.column(changes.ordering)
    replaced, gone = _decide(changes, stored)
    into.add(_merged(batch, changes, replaced, gone, into), stored=True)
    return int(np.count_nonzero(replaced)), int(np.count_nonzero(gone))


def _decide(changes: RowChanges, stored: pa.Array | None) -> tuple[Mask, Mask]:
    """Return which changes replace their row, and which delete it.

    Args:
        changes: Changes in some rows.
        stored: Ordering values of these rows. None: every change wins.
    """
    count = len(changes.positions)
    if changes.rows is None:
        return np.zeros(count, bool), np.ones(count, bool)
    won = np.ones(count, bool)
    if changes.ordering is not None and stored is not None:
        before = unwrap(stored).take(pa.array(changes.positions))
        won = wins(changes.rows.column(changes.ordering), before)
    gone = np.zeros(count, bool) if changes.deleted is None else changes.deleted & won
    return won & ~gone, gone


def _fresh(
    changes: RowChanges,
    replaced: Mask,
    numbers: npt.NDArray[np.int64],
    into: BaseFileWriter,
) -> list[pa.Array]:
    """Return the new columns of the rows that changes replace, without the record key.

    Args:
        changes: Changes in some rows.
        replaced: Mask of the changes that replace a row.
        numbers: Positions in the new file of the rows that are replaced.
        into: Writer of the new file.
    """
    assert changes.rows is not None  # at least one row is replaced
    new = np.flatnonzero(replaced)
    taken = changes.rows if len(new) == len(replaced) else changes.rows.take(pa.array(new))
    return [*into.new_rows(numbers), *taken.columns]


def _merged(
    batch: pa.RecordBatch, changes: RowChanges, replaced: Mask, gone: Mask, into: BaseFileWriter
) -> list[pa.Array]:
    """Return the columns of stored rows, with some rows replaced and others removed."""
    source = np.arange(batch.num_rows)
    count = np.count_nonzero(replaced)
    source[changes.positions[replaced]] = batch.num_rows + np.arange(count)
    if gone.any():
        source = np.delete(source, changes.positions[gone])
    if not count:
        return list(batch.take(pa.array(source)).columns)
    # The number of a changed row is its position in the new file.
    numbers = np.flatnonzero(source >= batch.num_rows) + into.rows
    fresh = _fresh(changes, replaced, numbers, into)
    places = pa.array(changes.positions[replaced])
    fresh.insert(2, batch.column(2).take(places))
    for name in changes.kept.fields:
        at = batch.schema.get_field_index(name)
        fresh[at] = changes.kept.filled(name, fresh[at], batch.column(at).take(places))
    order = pa.array(source)
    return [
        concat([old, in_type(changed, old.type)], old.type).take(order)
        for old, changed in zip(batch.columns, fresh, strict=True)
    ]
