"""Key columns of given keys: the record key, with or without the partition."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from lookupstore.hudi.options import TableOptions


def asked_key(keys: Any, options: TableOptions) -> list[str]:
    """Return the names of the key columns that many keys contain.

    Args:
        keys: Keys, in any form that `HudiTable.lookup` takes.
        options: Options of the table.
    """
    given = keys[0] if isinstance(keys, list) and keys else keys
    return key_columns(given, options)


def key_columns(given: Any, options: TableOptions) -> list[str]:
    """Return the names of the key columns that a key or a table of keys contains.

    Args:
        given: One key, as a value, a tuple or a dict; or a table or frame of keys.
        options: Options of the table.

    Raises:
        TypeError: If a tuple has neither the values of the record key alone nor those of all
            partition columns, too.
    """
    both = list(dict.fromkeys([*options.record_key, *options.partition_by]))
    if isinstance(given, tuple):
        has_partition = len(given) == len(both)
        few = len(options.record_key)
        if few < len(both) and len(given) not in (few, len(both)):
            raise TypeError(
                f"the key {given!r} has {len(given)} value{'s'[: len(given) != 1]}; give {few}, of "
                f"the record key ({', '.join(options.record_key)}), or {len(both)}, with the "
                f"partition columns ({', '.join(both)})"
            )
    elif _has_levels(given) and None in given.names:
        has_partition = given.nlevels == len(both)
    else:
        has_partition = set(both) <= _names_of(given)
    return both if has_partition else list(options.record_key)


def _has_levels(given: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(given, pandas.MultiIndex)


def _names_of(given: Any) -> set[str]:
    """Return the names of columns or fields; none where values have no names."""
    if isinstance(given, Mapping):
        return set(given)
    if _has_levels(given):
        return set(given.names)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(given, pandas.DataFrame):
        return {*given.columns, *given.index.names}
    dtype = getattr(given, "dtype", None)  # of a NumPy array
    names = getattr(dtype, "names", None) or getattr(given, "column_names", None)
    if names is None and getattr(given, "ndim", 2) == 2:  # a frame of pandas or polars
        names = getattr(given, "columns", None)
    if names is None:  # a record batch or a struct array
        schema = getattr(given, "schema", None) or getattr(given, "type", None)
        names = getattr(schema, "names", None)
    return set() if names is None else {name for name in names if isinstance(name, str)}
