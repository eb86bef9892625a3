"""Tag rows: their record keys, and the places of these beside the rows.

Source: org.apache.hudi.table.action.commit.AbstractWriteHelper (tag).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lookupstore.errors import FormatError
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.key_files import read_key_file
from lookupstore.hudi.index.funnel import Funnel
from lookupstore.hudi.index.interface import KeyIndex
from lookupstore.hudi.index.names import index_of
from lookupstore.hudi.index.tagging import Tagged, tag
from lookupstore.hudi.keys.key_generator import paths_of, record_keys
from lookupstore.hudi.meta_columns import PARTITION_PATH, RECORD_KEY
from lookupstore.hudi.options import TableOptions
from lookupstore.hudi.view import TableView

#: Where a row is: partition path, file id and instant of the base file, and its row there, from 0.
PLACE_COLUMNS = ("_partition", "_file_id", "_instant", "_pos")


def tag_rows(view: TableView, given: Any, index: str | KeyIndex) -> tuple[pa.Table, Funnel]:
    """Return rows with the places of their keys in four more columns, null where there is none.

    Args:
        view: the table.
        given: rows, as an Arrow table, record batch, dict of columns or anything with
            `__arrow_c_stream__`; of a key of one column also an Arrow array or list of its values.
            They have the columns of key and partition, or the meta columns of these.
        index: as of `tag`.

    Returns:
        the rows and `PLACE_COLUMNS`; and what was looked at.

    Raises:
        KeyError: a column of the key is missing, or of the partition, unless the index is for all.
        TypeError: `given` gives no rows, or a key has a type that keys do not have.
        ValueError: there are columns of these names already, or as of `tag`.
        FormatError, CorruptionError, StaleStoreError: as of `tag`.
    """
    rows = _table(given, view.options.record_key)
    check_place_columns("rows", rows.column_names)
    chosen = index_of(index)
    check_known_partitions(view, rows.column_names, chosen)
    named = None if RECORD_KEY in rows.column_names else named_key(view)
    keys = keys_of(rows, view.options, named)
    partitions = partitions_of(rows, view.options, everywhere=chosen.everywhere)
    tagged = tag(view, partitions, keys, index=chosen)
    return with_places(rows, tagged), tagged.funnel


def check_place_columns(what: str, names: Sequence[str]) -> None:
    """Check that rows have none of the columns that a tag adds.

    Args:
        what: has the columns.
        names: of the columns.

    Raises:
        ValueError: they have one.
    """
    for name in PLACE_COLUMNS:
        if name in names:
            raise ValueError(
                f"{what}: a column is called {name!r}, as one that tagging adds; leave it out, or, "
                f"if it is of the key, give {RECORD_KEY} and {PARTITION_PATH} instead"
            )


def check_known_partitions(view: TableView, names: Sequence[str], index: KeyIndex) -> None:
    """Check that the partitions of rows are known, if an index looks only there.

    Args:
        view: of the table.
        names: of the columns of the rows.
        index: that looks for their keys.

    Raises:
        FormatError: they are not.
    """
    if not (index.everywhere or PARTITION_PATH in names):
        view.check_partitions(f"pass an index for all partitions, or a column {PARTITION_PATH}")


def with_places(rows: pa.Table, tagged: Tagged) -> pa.Table:
    """Return rows with `PLACE_COLUMNS`, as a tag of their keys found them."""
    missing = ~tagged.found
    numbers = pa.array(tagged.slice_numbers, mask=missing)
    for name, values in zip(
        PLACE_COLUMNS[:3],
        (
            [file.group.partition for file in tagged.slices],
            [file.group.file_id for file in tagged.slices],
            [file.time for file in tagged.slices],
        ),
        strict=True,
    ):
        rows = rows.append_column(name, pa.array(values, pa.string()).take(numbers))
    positions = pa.array(tagged.positions, mask=missing)
    return rows.append_column(PLACE_COLUMNS[3], positions)


def named_key(view: TableView) -> bool | None:
    """Return whether a record key of one column is written `name:value`; None: unknown.

    Of complex keys with one column Hudi's versions differ, so that rows of the table have to tell:
    one of its oldest current file, and one of its newest.

    Args:
        view: the table.

    Raises:
        CorruptionError: a base file is damaged.
        FormatError: the two differ: writers of several versions of Hudi wrote the table.
    """
    options = view.options
    if len(options.record_key) > 1 or options.key_generator != "COMPLEX":
        return None
    files = sorted((group.current for group in view.groups(None)), key=lambda one: one.time)
    oldest, newest = _first_key(view, files), _first_key(view, files[::-1])
    if oldest is None or newest is None:
        return None
    if oldest.named != newest.named:
        raise FormatError(
            f"{view.location.uri}: record keys are {oldest.key!r} in {oldest.path} and "
            f"{newest.key!r} in {newest.path}: versions of Hudi that write them differently wrote "
            "the table, and one key may be two rows; write all rows again with one of them"
        )
    return oldest.named


@dataclass(frozen=True)
class _FirstKey:
    """The record key of a row, and whether it has the column's name."""

    path: str
    key: str
    named: bool


def _first_key(view: TableView, files: Sequence[FileSlice]) -> _FirstKey | None:
    """Return the first key of the first file that has rows."""
    (name,) = view.options.record_key
    for one in files:
        file, _ = read_key_file(view.location, one)
        for batch in file.source.batches([RECORD_KEY, name]):
            if batch.num_rows:
                key, value = (batch.column(i)[0].as_py() for i in range(2))
                return _FirstKey(one.path, key, bool(key == f"{name}:{value}"))
    return None


def written_name(view: TableView) -> bool | None:
    """Return whether keys that are written have the name of their one column; see `named_key`."""
    options = view.options
    if len(options.record_key) > 1 or options.key_generator != "COMPLEX":
        return None
    named = named_key(view)
    # Hudi 0.x and 1.1 write the name, if there is nothing to go by.
    return True if named is None else named


def keys_of(rows: pa.Table, options: TableOptions, named: bool | None) -> pa.ChunkedArray:
    """Return the record keys of rows: those of their meta column, or made of the key's columns.

    Args:
        rows: of a scan, or of the columns of the key.
        options: of the table.
        named: as of `named_key`.

    Raises:
        KeyError: a column of the key is missing.
        TypeError: a key has a type that keys do not have.
        ValueError: a row has no key.
    """
    if RECORD_KEY in rows.column_names:
        return rows.column(RECORD_KEY)
    return record_keys(rows, options.record_key, named=named)


def partitions_of(
    rows: pa.Table, options: TableOptions, *, everywhere: bool
) -> pa.Array | pa.ChunkedArray:
    """Return the partition paths of rows; empty texts if they are not needed.

    Args:
        rows: of a scan, or of the columns of key and partition.
        options: of the table.
        everywhere: whether keys are looked for in all partitions.

    Raises:
        KeyError, TypeError, ValueError: as of `keys_of`, of the columns of the partition.
    """
    names = rows.column_names
    if PARTITION_PATH in names and RECORD_KEY in names:
        return rows.column(PARTITION_PATH)
    if everywhere and not set(options.partition_by) <= set(names):
        zeros = pa.array(np.zeros(rows.num_rows, np.int32))
        return pa.DictionaryArray.from_arrays(zeros, pa.array([""]))
    return paths_of(rows, options)


def _table(given: Any, key: Sequence[str]) -> pa.Table:
    is_column = isinstance(given, (pa.Array, pa.ChunkedArray)) and not pa.types.is_struct(
        given.type
    )
    if is_column or isinstance(given, list):
        if len(key) > 1:
            names = ", ".join(map(repr, key))
            raise TypeError(
                f"rows is a single column, but a key has {names}; give a table with these"
            )
        return pa.table({key[0]: given})
    try:
        return pa.table(given)
    except TypeError as error:
        raise TypeError(
            f"rows is {type(given).__name__}; give an Arrow table, or an object with its columns"
        ) from error
