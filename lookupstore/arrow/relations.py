"""Refuse columns of DuckDB relations that have no Arrow type of the same meaning.

A caller that passes a relation has imported DuckDB; it is not imported here. The results in Arrow
no longer show the original types, so these are read from the relation.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

# Types of DuckDB that it writes in an Arrow type of another meaning, with the advice of errors.
_REFUSED = {
    "bit": "whose bits Arrow would have as bytes; cast it in SQL: NAME::VARCHAR",
    "time with time zone": "whose zone Arrow would not have; cast it in SQL: NAME::VARCHAR",
    "uhugeint": (
        "whose greater half Arrow would have as negative numbers; cast it in SQL: NAME::HUGEINT, "
        "or NAME::VARCHAR beyond that"
    ),
    "bignum": "which Arrow would have as bytes; cast it in SQL: NAME::HUGEINT or NAME::VARCHAR",
    "variant": "which Arrow would have as bytes; cast it in SQL: NAME::VARCHAR",
}
# Types of DuckDB with some values outside their Arrow types.
_PARTLY = {"hugeint", "time", "time_ns"}


def is_relation(value: Any) -> bool:
    """Return whether a value is a DuckDB relation."""
    duckdb = sys.modules.get("duckdb")
    return duckdb is not None and isinstance(value, duckdb.DuckDBPyRelation)


def check_relation(value: Any, what: str) -> dict[str, str]:
    """Check that Arrow has the types of a DuckDB relation, if the value is one.

    Args:
        value: Value of any type. Other values than relations are accepted.
        what: Name of the value, which errors show.

    Returns:
        DuckDB types of the columns that may have values which their Arrow types cannot hold, by
        name of the column. Pass them to `checked`.

    Raises:
        TypeError: If Arrow does not have the type of a column. The error names the column, its type
            and a remedy.

    >>> import duckdb
    >>> check_relation(duckdb.sql("SELECT '101'::BIT AS flags"), "source")
    Traceback (most recent call last):
    TypeError: source: the column 'flags' is BIT, whose bits Arrow would have as bytes; ...
    """
    if not is_relation(value):
        return {}
    partly = {}
    for name, kind in zip(value.columns, value.types, strict=True):
        for inner in _types_in(kind):
            if str(inner.id) in _REFUSED:
                where = f"is {kind}" if inner is kind else f"is {kind}, with {inner} in it"
                remedy = _REFUSED[str(inner.id)].replace("NAME", name)
                raise TypeError(f"{what}: the column {name!r} {where}, {remedy}")
            if str(inner.id) in _PARTLY:
                partly[name] = str(inner.id)
    return partly


def checked(
    batches: Iterable[pa.RecordBatch], partly: dict[str, str], what: str
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a relation, and check that Arrow types hold their values.

    Args:
        batches: Batches of the relation, from its first row on.
        partly: Types of the columns to check, as `check_relation` returned them.
        what: Name of the relation, which errors show.

    Raises:
        ValueError: If a value is outside its Arrow type, such as 24:00 or a number of 39 digits.
    """
    row = 0
    for batch in batches:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name in partly and not _is_valid(column):
                raise ValueError(
                    f"{what}: the column {name!r} has a {partly[name].upper()} in row "
                    f"{row + _first_invalid(column) + 1} that {column.type} does not have; cast "
                    f"it in SQL: {name}::VARCHAR"
                )
        row += batch.num_rows
        yield batch


def _first_invalid(column: pa.Array) -> int:
    """Return the index of the first value that is outside its type, by bisection."""
    at, count = 0, len(column)
    while count > 1:
        half = count // 2
        if _is_valid(pa.concat_arrays([column.slice(at, half)])):
            at, count = at + half, count - half
        else:
            count = half
    return at


def _is_valid(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _types_in(kind: Any) -> Iterator[Any]:
    """Yield a DuckDB type and the types inside it."""
    yield kind
    if str(kind.id) in ("list", "array", "struct", "map", "union"):
        for _, inner in kind.children:
            if hasattr(inner, "id"):  # an array also has its size
                yield from _types_in(inner)
