"""Keys that are given without names, in a list or in one Arrow column, as a table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lookupstore.errors import columns_example, listed
from lookupstore.hudi.options import TableOptions


def named_columns(what: str, given: Any, columns: pa.Schema, options: TableOptions) -> Any:
    """Return keys without names as a table of key columns, and rows with names unchanged.

    Args:
        what: Name of the argument, for errors.
        given: Values or an Arrow array, for a key of one column; a list of tuples with the values
            of the record key, or of these and then of the partition; or rows with names.
        columns: Columns of the table.
        options: Options of the table.

    Raises:
        TypeError: If the values do not have one type, or are not those of the key columns.
    """
    key = list(options.record_key)
    both = list(dict.fromkeys([*key, *options.partition_by]))
    if isinstance(given, (pa.Array, pa.ChunkedArray)) and not pa.types.is_struct(given.type):
        values: list[Any] = [given]
    elif isinstance(given, list) and not any(
        isinstance(one, (pa.RecordBatch, dict)) for one in given
    ):
        values = _places(what, given)
    else:
        return given
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


def _places(what: str, given: list[Any]) -> list[Any]:
    """Return a list of values as the only column, or the columns in a list of tuples."""
    kinds = set(map(type, given))  # not a loop in Python
    if not any(issubclass(kind, tuple) for kind in kinds):
        return [given]
    if not all(issubclass(kind, tuple) for kind in kinds) or len(set(map(len, given))) > 1:
        raise TypeError(f"{what}: tuples and values, or tuples of several lengths; give one form")
    return list(zip(*given, strict=True))
