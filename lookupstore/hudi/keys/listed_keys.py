"""Keys that are given without names, in a list or in columns, as a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lookupstore.errors import columns_example, listed
from lookupstore.hudi.keys.asked_key import key_columns
from lookupstore.hudi.options import TableOptions
from lookupstore.keys.arguments import columns_of, is_nameless, keys_in_list
from lookupstore.source.parts import is_table


def named_columns(what: str, given: Any, columns: pa.Schema, options: TableOptions) -> Any:
    """Return keys without names as a table of key columns, and rows with names unchanged.

    Args:
        what: Name of the argument, for errors.
        given: Values or a column, for a key of one column; a list of tuples with the values of the
            record key, or of these and then of the partition; a tuple of these columns; or rows
            with names.
        columns: Columns of the table.
        options: Options of the table.

    Raises:
        TypeError: If the values do not have one type, or are not those of the key columns.

    >>> from lookupstore.hudi.options import new_options
    >>> columns, options = pa.schema({"id": pa.int64()}), new_options(name="t", record_key="id")
    >>> named_columns("keys", {7}, columns, options)["id"].to_pylist()
    [7]
    """
    key = list(options.record_key)
    both = list(dict.fromkeys([*key, *options.partition_by]))
    given = _in_list(given)
    if isinstance(given, (pa.StructArray, pa.ChunkedArray)) and pa.types.is_struct(given.type):
        chunks = given.chunks if isinstance(given, pa.ChunkedArray) else [given]
        return pa.Table.from_batches(
            map(pa.RecordBatch.from_struct_array, chunks), pa.schema(list(given.type))
        )
    if isinstance(given, list) and not given:
        return pa.schema([columns.field(name) for name in both]).empty_table()
    if isinstance(given, list) and not _has_names(given[0]):
        values = _places(what, given)
    elif is_nameless(given):
        values = list(columns_of(given, key_columns(given, options)))
    else:
        return given  # rows
    if len(values) not in (len(key), len(both)):
        found = "a single column" if len(values) == 1 else f"tuples of {len(values)} values"
        raise TypeError(
            f"{what} is {found}; give a table with {listed(both)}, such as "
            f"{columns_example(both)}, or a list of tuples of these"
        )
    named = dict(zip(both if len(values) == len(both) else key, values, strict=True))
    for name, column in named.items():
        if isinstance(column, (list, tuple)):
            try:
                # The type is not that of the column, in which 1.5 would become 1.
                named[name] = pa.array(column)
            except (pa.ArrowException, OverflowError) as error:
                kind = columns.field(name).type
                raise TypeError(
                    f"{what}: {name!r}: not values of one type ({error}); give {kind}"
                ) from error
    return pa.table(named)


def _in_list(given: Any) -> Any:
    """Return an iterator or set of keys as a list, and one of tables or dicts unchanged."""
    if not isinstance(given, Iterator) or is_table(given) or hasattr(given, "read"):
        return keys_in_list(given)
    first = list(itertools.islice(given, 1))
    whole = itertools.chain(first, given)
    return whole if any(map(_has_names, first)) else list(whole)


def _has_names(one: Any) -> bool:
    return isinstance(one, dict) or is_table(one)


def _places(what: str, given: list[Any]) -> list[Any]:
    """Return a list of values as the only column, or the columns in a list of tuples."""
    kinds = set(map(type, given))  # not a loop in Python
    if not any(issubclass(kind, tuple) for kind in kinds):
        return [given]
    if not all(issubclass(kind, tuple) for kind in kinds) or len(set(map(len, given))) > 1:
        raise TypeError(f"{what}: tuples and values, or tuples of several lengths; give one form")
    return list(zip(*given, strict=True))
