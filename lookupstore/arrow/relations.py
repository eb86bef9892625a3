"""Relations of DuckDB: columns of types that Arrow does not have, and that it gives as others.

Who gives a relation has DuckDB; it is not imported here. Its results as Arrow do not say any more
what types they had, so that these are asked of the relation.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

# What DuckDB writes in an Arrow type that means something else, by the names of its types.
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
# Of which some values are beyond those of the Arrow type.
_PARTLY = {"hugeint", "time", "time_ns"}


def check_relation(value: Any, what: str) -> dict[str, str]:
    """Refuse columns of a DuckDB relation whose types Arrow does not have; pass all else.

    Args:
        value: anything.
        what: what to call it in an error.

    Returns:
        The types of columns of which some values are beyond those of Arrow, by their names; see
        `checked`.

    Raises:
        TypeError: such a column; the error names it, its type and what to do.

    >>> import duckdb
    >>> check_relation(duckdb.sql("SELECT '101'::BIT AS flags"), "source")
    Traceback (most recent call last):
    TypeError: source: the column 'flags' is BIT, whose bits Arrow would have as bytes; ...
    """
    duckdb = sys.modules.get("duckdb")
    if duckdb is None or not isinstance(value, duckdb.DuckDBPyRelation):
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
    """Yield the batches of a relation, whose values are all those of their Arrow types.

    Args:
        batches: rows of the relation, from the first on.
        partly: what `check_relation` returned.
        what: what to call the relation in an error.

    Raises:
        ValueError: a value is beyond those of its type, such as 24:00 or a number of 39 digits.
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
    """Return the index of the first value that is none of the type, by halving."""
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
    """Yield a type of DuckDB and those inside it."""
    yield kind
    if str(kind.id) in ("list", "array", "struct", "map", "union"):
        for _, inner in kind.children:
            if hasattr(inner, "id"):  # an array also has its size
                yield from _types_in(inner)
