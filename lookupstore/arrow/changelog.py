"""The column that says what became of a row: its name, its words, and how it is told.

Flink and Paimon have the same four kinds of rows.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

#: Column of a changelog that says what became of a row, and its values.
CHANGE = "change"
INSERT, BEFORE, AFTER, DELETE = "insert", "update_before", "update_after", "delete"
#: In the order of their numbers.
KINDS: tuple[str, ...] = (INSERT, BEFORE, AFTER, DELETE)

_TYPE = pa.dictionary(pa.int8(), pa.string())


def changelog_schema(columns: Iterable[pa.Field]) -> pa.Schema:
    """Return the schema of a changelog with some columns behind the one that says the change.

    >>> changelog_schema([pa.field("id", pa.int64())]).names
    ['change', 'id']
    """
    return pa.schema([pa.field(CHANGE, _TYPE, nullable=False), *columns])


def said_changes(kinds: npt.NDArray[np.int8]) -> pa.DictionaryArray:
    """Return the column of some rows, whose kinds are places in `KINDS`.

    >>> said_changes(np.array([3, 0], np.int8)).to_pylist()
    ['delete', 'insert']
    """
    return pa.DictionaryArray.from_arrays(pa.array(kinds), pa.array(KINDS))
