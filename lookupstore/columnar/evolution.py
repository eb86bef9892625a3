"""The columns of several files together: a rule for missing, added and widened columns.

Columns with equal names are the same column. The result has every column of every file, in the
order of their first occurrence in the files sorted by path. If a file lacks a column, its values
are null. If types differ, the result has the smallest type that holds the values of all, as
determined by Arrow (`pyarrow.unify_schemas`, "permissive"): wider integers, wider or exact floats,
decimals of more digits, finer times, the values of a dictionary. Types of different kinds raise an
error. A value that the wider type cannot hold exactly raises an error when it is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

import pyarrow as pa

from lookupstore.arrow.fitting import is_kindred
from lookupstore.arrow.types import plain_type


def common_schema(
    schemas: Iterable[tuple[str, pa.Schema]], names: Collection[str] | None = None
) -> pa.Schema:
    """Return the columns of all files together.

    Args:
        schemas: Path and columns of each file, in the order of the paths.
        names: Names of the columns to return. Default: all.

    Raises:
        ValueError: If a column has types of different kinds. The error names two files.

    >>> common_schema([
    ...     ("a", pa.schema({"id": pa.int32()})),
    ...     ("b", pa.schema({"id": pa.int64(), "name": pa.string()})),
    ... ])
    id: int64
    name: string
    """
    common: dict[str, tuple[str, pa.DataType]] = {}
    for path, schema in schemas:
        for field in schema:
            if names is not None and field.name not in names:
                continue
            first, kind = common.setdefault(field.name, (path, field.type))
            if kind != field.type:
                common[field.name] = (first, _common_type(field.name, common, path, field.type))
    return pa.schema({name: kind for name, (_, kind) in common.items()})


def agreeing_schema(schemas: Iterable[tuple[str, pa.Schema]]) -> pa.Schema:
    """Return the columns of all files together, without those of different kinds.

    Args:
        schemas: Path and columns of each file, in the order of the paths.

    >>> agreeing_schema([("a", pa.schema({"x": pa.int8(), "y": pa.int8()})),
    ...                  ("b", pa.schema({"x": pa.int16(), "y": pa.string()}))])
    x: int16
    """
    given = list(schemas)
    names = dict.fromkeys(name for _, schema in given for name in schema.names)
    fields = []
    for name in names:
        with suppress(ValueError):
            fields += list(common_schema(given, [name]))
    return pa.schema(fields)


def _common_type(
    name: str, common: Mapping[str, tuple[str, pa.DataType]], path: str, given: pa.DataType
) -> pa.DataType:
    first, known = common[name]
    # Text, bytes and dictionaries have several layouts in Arrow; readers of values need not
    # distinguish them.
    sides = [pa.schema([(name, plain_type(kind))]) for kind in (known, given)]
    try:
        kind = pa.unify_schemas(sides, promote_options="permissive").field(0).type
    except pa.ArrowException:
        kind = None
    if kind is None or not (is_kindred(known, kind) and is_kindred(given, kind)):
        raise ValueError(
            f"source: the column {name!r} is {known} in {first} and {given} in {path}; give files "
            "whose types agree, or leave the column out with columns="
        )
    return kind
