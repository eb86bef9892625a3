"""Where the rows of an upsert go: to the rows of their keys, to their own partitions, or to both.

Only an index for all partitions finds a key in another one than that of its row. Then the row
moves, or the table's row changes where it is.

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
from lookupstore.hudi.write.rows.in_memory import Places

Codes = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PlacedRows:
    """Rows of a write, each once for every place that it goes to.

    Attributes:
        rows: number of the row; None: they are all rows in order, each once.
        places: where it goes.
        partitions: path of the partition that this is in.
        moved: whether the row only comes to delete the one that is there; its place is another.
        columns: what columns of rows are to be, by their names: partition columns of rows that
            stay in another partition, and what rows that move keep; None: each row has its own.
    """

    rows: Rows | None
    places: Places
    partitions: pa.DictionaryArray
    moved: Mask
    columns: pa.Table | None = None

    def of(self, incoming: Incoming) -> Incoming:
        """Return the rows, as often as they go somewhere."""
        taken = incoming if self.rows is None else incoming.take(self.rows)
        deleted = taken.deleted
        if self.moved.any():
            deleted = self.moved if deleted is None else self.moved | deleted
        rows = self.with_columns(taken.rows)
        return replace(taken, rows=rows, partitions=self.partitions, deleted=deleted)

    def with_columns(self, rows: pa.Table) -> pa.Table:
        """Return some columns of the rows, with those that they are to have."""
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
    """Return where rows go.

    A row goes to every row of its key in its own partition. One that moves deletes those of other
    partitions that are not newer, as the merge of a deletion decides it; and it is new in its own
    if the key is not there, and no other one is newer.

    Args:
        view: of the table.
        incoming: the rows, with the columns of partition and order.
        tagged: where their keys are.
        moves: whether rows move whose key is in other partitions only; if not, they change the rows
            there, whose partition columns stay.
        kept: columns that rows keep as they are stored, of which rows that move bring the values.

    Raises:
        CorruptionError: a base file is damaged.
        StaleStoreError: it is gone.
    """
    rows = np.arange(len(incoming)) if tagged.rows is None else tagged.rows
    numbers, positions = tagged.slice_numbers, tagged.positions
    own, there, paths = _partitions(incoming, tagged)
    elsewhere = own[rows] != there
    if not moves or not elsewhere.any():
        columns = None
        if elsewhere.any():
            columns = _staying(view, incoming, tagged, rows, np.flatnonzero(elsewhere))
        places = Places(tagged.slices, numbers, positions)
        coded = _coded(there, paths)
        return PlacedRows(tagged.rows, places, coded, np.zeros(len(rows), bool), columns)
    lost = _lost(view, incoming, tagged, rows, np.flatnonzero(elsewhere))
    stays = (numbers >= 0) & ~elsewhere
    new = np.setdiff1d(rows[elsewhere], rows[lost | stays])
    old, nowhere = ~lost, Places.nowhere(len(new))
    # In the order in which rows were given, since new ones are written in that.
    order = np.argsort(np.concatenate([rows[old], new]), kind="stable")
    placed = np.concatenate([rows[old], new])[order]
    columns = None
    if kept.fields and len(new):
        given = incoming.rows.select(list(kept.fields))
        brought = _brought(view, tagged, given, rows, np.flatnonzero(elsewhere), new, kept)
        sources = np.concatenate([rows[old], len(incoming) + np.arange(len(new))])[order]
        columns = pa.concat_tables([given, brought]).take(pa.array(sources))
    places = Places(
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
    """Check that the rows that were found have the keys of those for which they were looked for.

    Args:
        view: of the table.
        incoming: the rows, with the columns of the key.
        tagged: where their keys are.

    Raises:
        ValueError: a stored row has other values, and the same record key.
        CorruptionError: a base file is damaged.
        StaleStoreError: it is gone.
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
    """Return the partition of each row, of each of its places, and the paths that they are."""
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
    """Return the partition columns of rows, those of some as the table has them.

    Filters on partition columns go by folders, so that a row must not contradict its own.
    """
    own = incoming.rows.select(view.options.partition_by)
    stored = _stored(view, tagged, staying, own.schema)
    numbers = rows.copy()
    numbers[staying] = len(incoming) + np.arange(len(staying))
    return pa.concat_tables([own, stored]).take(pa.array(numbers))


def _lost(view: TableView, incoming: Incoming, tagged: Tagged, rows: Rows, moving: Rows) -> Mask:
    """Return which of the places of rows have a newer row than those that would move."""
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
    """Return columns of rows that move, with what they keep of the first place they come from.

    Args:
        view: of the table.
        tagged: where keys are.
        own: these columns of all rows.
        rows: the row of each place.
        elsewhere: the places that are in other partitions than their rows.
        new: the rows that move, ascending.
        kept: what they keep.
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
    """Return columns of some of the rows that a tag found, as a merge reads them."""
    order = which[np.lexsort((tagged.positions[which], tagged.slice_numbers[which]))]
    batches: list[pa.RecordBatch] = []
    for number in np.unique(tagged.slice_numbers[order]).tolist():
        positions = tagged.positions[order[tagged.slice_numbers[order] == number]]
        batches += rows_at(view.location, tagged.slices[number], positions, schema)
    places = np.empty(len(order), np.int64)
    places[np.searchsorted(which, order)] = np.arange(len(order))
    return pa.Table.from_batches(batches, schema).take(pa.array(places))
