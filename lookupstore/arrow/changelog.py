"""Make changelogs in Arrow: inserted, deleted and updated rows, in order.

The first column names the change of a row: `insert`, `delete`, or `update_before` and right after
it `update_after`. The other columns are those of the rows.

Flink and Paimon have the same four kinds of rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow.differences import differing
from lookupstore.arrow.taking import take

#: Column of a changelog with the kind of change of a row, and its values.
CHANGE = "change"
INSERT, BEFORE, AFTER, DELETE = "insert", "update_before", "update_after", "delete"
#: Kinds of changes, in the order of their numbers.
KINDS: tuple[str, ...] = (INSERT, BEFORE, AFTER, DELETE)

_TYPE = pa.dictionary(pa.int8(), pa.string())
_Flags = npt.NDArray[np.bool_]


def changelog_schema(columns: Iterable[pa.Field]) -> pa.Schema:
    """Return the schema of a changelog: the column of the change, then other columns.

    >>> changelog_schema([pa.field("id", pa.int64())]).names
    ['change', 'id']
    """
    return pa.schema([pa.field(CHANGE, _TYPE, nullable=False), *columns])


def said_changes(kinds: npt.NDArray[np.int8]) -> pa.DictionaryArray:
    """Return the column of changes for indices in `KINDS`.

    >>> said_changes(np.array([3, 0], np.int8)).to_pylist()
    ['delete', 'insert']
    """
    return pa.DictionaryArray.from_arrays(pa.array(kinds), pa.array(KINDS))


def told(kinds: npt.NDArray[np.int8], rows: pa.Table) -> pa.Table:
    """Return rows of a changelog.

    Args:
        kinds: Indices in `KINDS`, one for each of n rows.
        rows: Table of the n rows.
    """
    columns = [said_changes(kinds), *rows.columns]
    return pa.Table.from_arrays(columns, schema=changelog_schema(rows.schema))


def changes_between(
    before: pa.RecordBatch,
    after: pa.RecordBatch,
    was: _Flags,
    stays: _Flags,
    compared: Collection[str],
) -> pa.Table:
    """Return the changes of rows as a changelog, without the rows that did not change.

    Args:
        before: Batch of n rows before the change, with any values where there was no row.
        after: Batch of the same n rows after the change, with any values where there is no row.
        was: Whether each of the n rows existed before, bool.
        stays: Whether each of the n rows exists afterwards, bool.
        compared: Names of the columns in which a change counts.

    >>> before = pa.record_batch({"id": [1, 2, 3], "v": ["a", "b", None]})
    >>> after = pa.record_batch({"id": [1, 2, 3], "v": ["a", "B", "c"]})
    >>> was, stays = np.array([True, True, False]), np.array([True, True, True])
    >>> changes_between(before, after, was, stays, ["v"]).to_pydict()
    {'change': ['update_before', 'update_after', 'insert'], 'id': [2, 2, 3], 'v': ['b', 'B', 'c']}
    """
    count = len(was)
    differs = np.zeros(count, bool)
    for name in compared:
        differs |= differing(before.column(name), after.column(name))
    updates = was & stays & differs
    kinds = np.empty((count, 2), np.int8)
    kinds[:, 0] = np.where(updates, KINDS.index(BEFORE), KINDS.index(DELETE))
    kinds[:, 1] = np.where(updates, KINDS.index(AFTER), KINDS.index(INSERT))
    chosen = np.stack([updates | (was & ~stays), updates | (stays & ~was)], axis=1).ravel()
    turns = np.arange(2 * count).reshape(2, count).T.ravel()[chosen]
    both = [
        take(pa.concat_arrays([one, other]), pa.array(turns))
        for one, other in zip(before.columns, after.columns, strict=True)
    ]
    return told(kinds.ravel()[chosen], pa.Table.from_arrays(both, schema=after.schema))
