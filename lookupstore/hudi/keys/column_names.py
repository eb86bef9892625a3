"""Column names that differ only by case, which a table must not have.

Hive, and Spark by default, do not distinguish such names: they read neither column, or the values
of the other one.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lookupstore.arrow.types import plain_type
from lookupstore.hudi.meta_columns import META_COLUMNS


def check_names(columns: pa.Schema, where: str) -> None:
    """Check the names of the columns of a new table, and of fields in these.

    Args:
        columns: Columns of the new table.
        where: Source of the columns, for errors.

    Raises:
        ValueError: If two names differ only by case.

    >>> check_names(pa.schema({"id": pa.int64(), "ID": pa.int64()}), "schema")
    Traceback (most recent call last):
    ValueError: schema: the names 'id' and 'ID' differ by case only, and Spark and Hive ...
    """
    check_new_names(columns, pa.schema([]), where)


def check_new_names(given: pa.Schema, known: pa.Schema, where: str) -> None:
    """Check the names of columns that rows add to a table.

    Args:
        given: Columns of the rows.
        known: Columns of the table.
        where: Source of the new columns, for errors.

    Raises:
        ValueError: If a new name differs from another one only by case.
    """
    _check(given, [*META_COLUMNS, *known.names], where)
    for field in given:
        at = known.get_field_index(field.name)
        _check_inside(field.type, known.field(at).type if at >= 0 else None, where, field.name)


def _check(
    fields: Iterable[pa.Field], known: Iterable[str], where: str, path: str | None = None
) -> None:
    names = {name.casefold(): name for name in known}
    taken = set(names.values())
    for field in fields:
        other = names.setdefault(field.name.casefold(), field.name)
        if other != field.name and field.name not in taken:
            within = "" if path is None else f" in {path!r}"
            raise ValueError(
                f"{where}: the names {other!r} and {field.name!r}{within} differ by case only, and "
                "Spark and Hive take them for one; rename one of them"
            )


def _check_inside(given: pa.DataType, known: pa.DataType | None, where: str, path: str) -> None:
    """Check the fields of structs in a type, some of which a table may have."""
    given, types = plain_type(given), pa.types
    if known is None or given.id != known.id:
        known = None
    if types.is_struct(given):
        fields = {field.name: field.type for field in known} if known is not None else {}
        _check(given, fields, where, path)
        for field in given:
            _check_inside(field.type, fields.get(field.name), where, f"{path}.{field.name}")
    elif types.is_map(given):
        item = known.item_type if known is not None else None
        _check_inside(given.item_type, item, where, path)
    elif types.is_nested(given) and given.num_fields == 1:
        inner = known.value_type if known is not None else None
        _check_inside(given.field(0).type, inner, where, path)
