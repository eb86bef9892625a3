"""Decide where an upsert writes rows: over stored rows, as new rows, or both.

Only a global index finds a key in another partition than that of the given row. Then the row moves
to its own partition, or the stored row changes in the partition where it is.

Source: org.apache.hudi.index.HoodieIndexUtils (tagGlobalLocationBackToRecords,
mergeForPartitionUpdatesIfNeeded).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import concat
from lookupstore.hudi.file_group.merging import wins
from lookupstore.hudi.file_group.reader import rows_at
from lookupstore.hudi.index.tagging import Tagged
from lookupstore.hudi.keys.ambiguous_keys import (
    ambiguous_keys,
    exact_values,
    same_text_error,
    shown_values,
)
from lookupstore.hudi.keys.incoming import Incoming, ordering_of
from lookupstore.hudi.keys.missing_columns import NOTHING_MISSING, MissingColumns
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.rows.in_memory import RowPlaces

Codes = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PlacedRows:
    """Rows of a write, each once for every place in the table that it changes.

    Attributes:
        rows: Number of the given row of each entry, int64. None: every row in order, once.
        places: Place of each entry in the table.
        partitions: Path of the partition of each entry, dictionary-encoded.
        moved: Whether an entry only deletes the stored row, because the given row moves to another
            partition.
        columns: Columns with values that replace the given ones: partition columns of rows that
            stay in another partition, and columns that keep their stored values in rows that move.
            None: every row has the given values.
    """

    rows: Rows | None
    places: RowPlaces
    partitions: pa.DictionaryArray
    moved: Mask
    columns: pa.Table | None = None

    def of(self, incoming: Incoming) -> Incoming:
        """Return each row as often as it is written."""
        taken = incoming if self.rows is None else incoming.take(self.rows)
        deleted = taken.deleted
        if self.moved.any():
            deleted = self.moved if deleted is None else self.moved | deleted
        rows = self.with_columns(taken.rows)
        return replace(taken, rows=rows, partitions=self.partitions, deleted=deleted)

    def with_columns(self, rows: pa.Table) -> pa.Table:
        """Return columns of the rows, with the values that replace given ones."""
        if self.columns is None:
            return rows
        for name in self.columns.column_names:
            at = rows.schema.get_field_index(name)
            field = rows.schema.field(at)
            rows = rows.set_column(at, field, self.columns[name].cast(field.type))
        return rows


def place_rows(
    view: TableView,
    incoming: Incoming,
    tagged: Tagged,
    *,
    moves: bool,
    kept: MissingColumns = NOTHING_MISSING,
) -> PlacedRows:
    """Return the places where rows are written.

    A row changes every stored row with its key in its own partition. A row that moves deletes the
    stored rows of other partitions that are not newer by their ordering values. It is inserted into
    its own partition if the key is not there, and no stored row of the key is newer.

    Args:
        view: View of the table.
        incoming: Given rows, with their partition and ordering columns.
        tagged: Places of their keys in the table.
        moves: Whether a row deletes the stored rows with its key in other partitions, and moves to
            its own. If not, it changes these stored rows, which keep their partition columns.
        kept: Columns that keep their stored values, also in rows that move.

    Raises:
        CorruptionError: If a base file is damaged.
        StaleStoreError: If a base file was deleted.
    """
    rows = np.arange(len(incoming)) if tagged.rows is None else tagged.rows
    numbers, positions = tagged.slice_numbers, tagged.positions
    own, there, paths = _partitions(incoming, tagged)
    elsewhere = own[rows] != there
    if not moves or not elsewhere.any():
        columns = None
        if elsewhere.any():
            columns = _staying(view, incoming, tagged, rows, np.flatnonzero(elsewhere))
        places = RowPlaces(tagged.slices, numbers, positions)
        coded = _coded(there, paths)
        return PlacedRows(tagged.rows, places, coded, np.zeros(len(rows), bool), columns)
    lost = _lost(view, incoming, tagged, rows, np.flatnonzero(elsewhere))
    stays = (numbers >= 0) & ~elsewhere
    new = np.setdiff1d(rows[elsewhere], rows[lost | stays])
    old, nowhere = ~lost, RowPlaces.nowhere(len(new))
    # Entries are in the order of the given rows, in which new rows are written.
    order = np.argsort(np.concatenate([rows[old], new]), kind="stable")
    placed = np.concatenate([rows[old], new])[order]
    columns = None
    if kept.fields and len(new):
        given = incoming.rows.select(list(kept.fields))
        brought = _brought(view, tagged, given, rows, np.flatnonzero(elsewhere), new, kept)
        sources = np.concatenate([rows[old], len(incoming) + np.arange(len(new))])[order]
        columns = pa.concat_tables([given, brought]).take(pa.array(sources))
    places = RowPlaces(
        tagged.slices,
        np.concatenate([numbers[old], nowhere.numbers])[order],
        np.concatenate([positions[old], nowhere.positions])[order],
    )
    return PlacedRows(
        placed,
        places,
        _coded(np.concatenate([there[old], own[new]])[order], paths),
        np.concatenate([elsewhere[old], np.zeros(len(new), bool)])[order],
        columns,
    )


def check_same_keys(view: TableView, incoming: Incoming, tagged: Tagged) -> None:
    """Check that stored rows with the record key of given rows have their key values.

    Args:
        view: View of the table.
        incoming: Given rows, with their key columns.
        tagged: Places of their keys in the table.

    Raises:
        ValueError: If a stored row has the same record key, but other values in the key columns.
        CorruptionError: If a base file is damaged.
        StaleStoreError: If a base file was deleted.
    """
    fields = view.options.record_key
    doubtful = ambiguous_keys(incoming.rows, fields)
    if not len(doubtful):
        return
    rows = np.arange(len(incoming)) if tagged.rows is None else tagged.rows
    which = np.flatnonzero(tagged.found & np.isin(rows, doubtful))
    if not len(which):
        return
    schema = pa.schema([incoming.rows.schema.field(name) for name in fields])
    stored = exact_values(_stored(view, tagged, which, schema), fields)
    given = exact_values(incoming.rows.select(fields).take(pa.array(rows[which])), fields)
    at = pc.index(pc.equal(stored, given), False).as_py()
    if at >= 0:
        row, file = rows[which[at]], tagged.slices[tagged.slice_numbers[which[at]]]
        number = row if incoming.numbers is None else incoming.numbers[row]
        raise same_text_error(
            incoming.keys[int(row)].as_py(),
            f"row {number + 1}, {shown_values(given[at].as_py(), fields)}",
            f"the row {shown_values(stored[at].as_py(), fields)} of "
            f"{view.location.show(file.path)}",
        )


def _partitions(incoming: Incoming, tagged: Tagged) -> tuple[Codes, Codes, list[str]]:
    """Return the partition codes of rows and of places, and the path of each code."""
    of_slices = [one.group.partition for one in tagged.slices]
    given = incoming.partitions
    of_rows = given.dictionary.to_pylist()
    paths = list(dict.fromkeys([*of_rows, *of_slices]))
    codes = {path: code for code, path in enumerate(paths)}
    own = np.array([codes[path] for path in of_rows], np.int32)[given.indices.to_numpy()]
    there = own if tagged.rows is None else own[tagged.rows]
    found = tagged.found
    if found.any():
        there = there.copy()
        there[found] = np.array([codes[path] for path in of_slices], np.int32)[
            tagged.slice_numbers[found]
        ]
    return own, there, paths


def _coded(codes: Codes, paths: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(paths, pa.string()))


def _staying(
    view: TableView, incoming: Incoming, tagged: Tagged, rows: Rows, staying: Rows
) -> pa.Table:
    """Return the partition columns of rows, with the stored values for rows that stay.

    Filters on partition columns skip folders, so that a row must not contradict its folder.
    """
    own = incoming.rows.select(view.options.partition_by)
    stored = _stored(view, tagged, staying, own.schema)
    numbers = rows.copy()
    numbers[staying] = len(incoming) + np.arange(len(staying))
    return pa.concat_tables([own, stored]).take(pa.array(numbers))


def _lost(view: TableView, incoming: Incoming, tagged: Tagged, rows: Rows, moving: Rows) -> Mask:
    """Return which places have a newer stored row than the given row that would move."""
    lost = np.zeros(len(rows), bool)
    name = ordering_of(view.options)
    if name is not None and len(moving):
        column = incoming.rows.select([name])
        stored = _stored(view, tagged, moving, column.schema)
        given = column.take(pa.array(rows[moving]))
        lost[moving] = ~wins(
            concat(given[name].chunks, given[name].type),
            concat(stored[name].chunks, stored[name].type),
        )
    return lost


def _brought(
    view: TableView,
    tagged: Tagged,
    own: pa.Table,
    rows: Rows,
    elsewhere: Rows,
    new: Rows,
    kept: MissingColumns,
) -> pa.Table:
    """Return columns of rows that move, with the stored values of their first place.

    Args:
        view: View of the table.
        tagged: Places of the keys in the table.
        own: Given values of these columns, for all rows.
        rows: Number of the given row of each place.
        elsewhere: Indices of the places in other partitions than their given rows.
        new: Numbers of the rows that move, ascending.
        kept: Columns that keep their stored values.
    """
    known, first = np.unique(rows[elsewhere], return_index=True)
    which = elsewhere[first[np.searchsorted(known, new)]]
    order = np.argsort(which)
    stored = _stored(view, tagged, which[order], own.schema)
    stored, fresh = stored.take(pa.array(np.argsort(order))), own.take(pa.array(new))
    columns = [
        kept.filled(
            one.name,
            concat(fresh[one.name].chunks, one.type),
            concat(stored[one.name].chunks, one.type),
        )
        for one in own.schema
    ]
    return pa.Table.from_arrays(columns, schema=own.schema)


def _stored(view: TableView, tagged: Tagged, which: Rows, schema: pa.Schema) -> pa.Table:
    """Return columns of some of the stored rows that were found."""
    order = which[np.lexsort((tagged.positions[which], tagged.slice_numbers[which]))]
    batches: list[pa.RecordBatch] = []
    for number in np.unique(tagged.slice_numbers[order]).tolist():
        positions = tagged.positions[order[tagged.slice_numbers[order] == number]]
        batches += rows_at(view.location, tagged.slices[number], positions, schema)
    places = np.empty(len(order), np.int64)
    places[np.searchsorted(which, order)] = np.arange(len(order))
    return pa.Table.from_batches(batches, schema).take(pa.array(places))
