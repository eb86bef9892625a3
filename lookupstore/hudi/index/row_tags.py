"""Tags of rows: their record keys, and the places of these keys.

Source: org.apache.hudi.table.action.commit.AbstractWriteHelper (tag).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lookupstore.errors import FormatError, columns_example, listed
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.key_files import read_key_file
from lookupstore.hudi.index.funnel import Funnel
from lookupstore.hudi.index.interface import KeyIndex
from lookupstore.hudi.index.names import index_of
from lookupstore.hudi.index.tagging import Tagged, tag
from lookupstore.hudi.keys.key_generator import paths_of, record_keys
from lookupstore.hudi.keys.listed_keys import named_columns
from lookupstore.hudi.meta_columns import PARTITION_PATH, RECORD_KEY
from lookupstore.hudi.options import TableOptions
from lookupstore.hudi.view import TableView
from lookupstore.keys.arguments import unknown_form_error
from lookupstore.source.python_rows import table_of

#: Names of the columns of a row's place: partition path, file id and instant of the base file, and
#: position of the row in it, from 0.
PLACE_COLUMNS = ("_partition", "_file_id", "_instant", "_pos")


def tag_rows(view: TableView, given: Any, index: str | KeyIndex) -> tuple[pa.Table, Funnel]:
    """Return rows with the places of their keys in four more columns.

    Args:
        view: Table with the keys.
        given: Rows with the columns of the key and the partition, or their meta columns: an Arrow
            table, a record batch, a dict of columns, or an object with `__arrow_c_stream__`; or
            keys without names, see `named_columns`.
        index: Name of an index, see `lookupstore.hudi.index.names`, or an index object.

    Returns:
        The rows with `PLACE_COLUMNS`, which are null for keys that the table does not have; and the
        counts of each step.

    Raises:
        KeyError: If a column of the key is missing, or of the partition, unless the index is
            global.
        TypeError: If `given` has a form other than those above, or a key has an unsupported type.
        ValueError: If the rows already have one of `PLACE_COLUMNS`, or `tag` raises it.
        FormatError, CorruptionError, StaleStoreError: See `tag`.
    """
    rows = _table(named_columns("rows", given, view.table_schema.columns, view.options), view)
    check_place_columns("rows", rows.column_names)
    chosen = index_of(index)
    check_known_partitions(view, rows.column_names, chosen)
    _check_key_columns(rows.column_names, view.options, chosen)
    named = None if RECORD_KEY in rows.column_names else named_key(view)
    keys = keys_of(rows, view.options, named)
    partitions = partitions_of(rows, view.options, is_global=chosen.is_global)
    tagged = tag(view, partitions, keys, index=chosen)
    return with_places(rows, tagged), tagged.funnel


def check_place_columns(what: str, names: Sequence[str]) -> None:
    """Check that rows have none of the columns that a tag adds.

    Args:
        what: Name of the argument with the columns, for the error.
        names: Names of the columns.

    Raises:
        ValueError: If a column has the name of one that a tag adds.
    """
    for name in PLACE_COLUMNS:
        if name in names:
            raise ValueError(
                f"{what}: a column is called {name!r}, as one that tagging adds; leave it out, or, "
                f"if it is of the key, give {RECORD_KEY} and {PARTITION_PATH} instead"
            )


def check_known_partitions(view: TableView, names: Sequence[str], index: KeyIndex) -> None:
    """Check that the partitions of rows are known, if the index needs them.

    Args:
        view: State of the table.
        names: Names of the columns of the rows.
        index: Index to look for their keys with.

    Raises:
        FormatError: If the partitions are unknown.
    """
    if not (index.is_global or PARTITION_PATH in names):
        view.check_partitions(f"pass an index for all partitions, or a column {PARTITION_PATH}")


def with_places(rows: pa.Table, tagged: Tagged) -> pa.Table:
    """Append `PLACE_COLUMNS` to rows, from a tag of their keys."""
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
    """Return whether one-column record keys are written `name:value`; None: unknown.

    Versions of Hudi differ for complex keys with one column, so that this function reads a row of
    an oldest current file, and one of a newest.

    Args:
        view: Table with the keys.

    Raises:
        CorruptionError: If a base file is damaged.
        FormatError: If the two rows differ, because several versions of Hudi wrote the table.
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
    """The record key of a row, and whether it contains the column's name."""

    path: str
    key: str
    named: bool


def _first_key(view: TableView, files: Sequence[FileSlice]) -> _FirstKey | None:
    """Return the first key of the first file with rows."""
    (name,) = view.options.record_key
    for one in files:
        file, _ = read_key_file(view.location, one)
        for batch in file.source.batches([RECORD_KEY, name]):
            if batch.num_rows:
                key, value = (batch.column(i)[0].as_py() for i in range(2))
                return _FirstKey(one.path, key, bool(key == f"{name}:{value}"))
    return None


def written_name(view: TableView) -> bool | None:
    """Return whether to write one-column keys with their name; see `named_key`."""
    options = view.options
    if len(options.record_key) > 1 or options.key_generator != "COMPLEX":
        return None
    named = named_key(view)
    # Hudi 0.x and 1.1 write the name if no stored key shows the form.
    return True if named is None else named


def keys_of(rows: pa.Table, options: TableOptions, named: bool | None) -> pa.ChunkedArray:
    """Return the record keys of rows, from their meta column or their key columns.

    Args:
        rows: Rows with the meta column of the key, or with the key columns.
        options: Options of the table.
        named: Whether a record key of one column is written `name:value`. None: unknown.

    Raises:
        KeyError: If a column of the key is missing.
        TypeError: If a key has an unsupported type.
        ValueError: If a row has no key.
    """
    if RECORD_KEY in rows.column_names:
        return rows.column(RECORD_KEY)
    return record_keys(rows, options.record_key, named=named)


def partitions_of(
    rows: pa.Table, options: TableOptions, *, is_global: bool
) -> pa.Array | pa.ChunkedArray:
    """Return the partition paths of rows, or empty texts if they are not needed.

    Args:
        rows: Rows with the meta columns, or with the columns of the key and the partition.
        options: Options of the table.
        is_global: Whether the index looks for keys in all partitions.

    Raises:
        KeyError, TypeError, ValueError: If `keys_of` would raise it for the columns of the
            partition.
    """
    names = rows.column_names
    if PARTITION_PATH in names and RECORD_KEY in names:
        return rows.column(PARTITION_PATH)
    if is_global and not set(options.partition_by) <= set(names):
        zeros = pa.array(np.zeros(rows.num_rows, np.int32))
        return pa.DictionaryArray.from_arrays(zeros, pa.array([""]))
    return paths_of(rows, options)


def _check_key_columns(names: Sequence[str], options: TableOptions, index: KeyIndex) -> None:
    """Check that rows have the columns from which `keys_of` and `partitions_of` read."""
    has_key = RECORD_KEY in names
    needed = [] if has_key else list(options.record_key)
    if not (index.is_global or (has_key and PARTITION_PATH in names)):
        needed += [name for name in options.partition_by if name not in needed]
    for name in needed:
        if names.count(name) != 1:
            is_key = name in options.record_key
            anywhere = "" if is_key else ", or pass index='global-bloom'"
            raise KeyError(
                f"rows: no single column {name!r} among {listed(names) or 'none'}; give the "
                f"columns {columns_example(needed)}{anywhere}"
            )


def _table(given: Any, view: TableView) -> pa.Table:
    made = table_of(given, view.table_schema.columns)
    if made is not None:
        return made[0]
    try:
        return pa.table(given)
    except (TypeError, ValueError) as error:
        raise unknown_form_error("rows", given, view.options.record_key) from error
