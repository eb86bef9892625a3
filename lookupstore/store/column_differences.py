"""Name the columns that differ between two versions of a store."""

from __future__ import annotations

import pyarrow as pa

from lookupstore.arrow.fitting import is_kindred
from lookupstore.store.data_files import Schemas


def column_difference(before: Schemas, after: Schemas) -> str | None:
    """Describe the first column that differs between two versions. None: all columns are equal."""
    if before.key_schema != after.key_schema:
        return _difference("key", before.key_schema.schema, after.key_schema.schema)
    if before.row_schema != after.row_schema:
        return _difference("value", before.row_schema.schema, after.row_schema.schema)
    return None


def lost_columns(before: Schemas, after: Schemas) -> list[str]:
    """Describe the value columns of a version that a newer one lacks, or has with another kind.

    Readers of such a column fail, or get values of another kind. Columns of the same kind, such as
    numbers of two sizes, do not count.
    """
    old, new = before.row_schema.schema, after.row_schema.schema
    lost = []
    for field in old:
        if field.name not in new.names:
            lost.append(f"{field.name!r} ({field.type}) is gone")
        elif not is_kindred(kind := new.field(field.name).type, field.type):
            lost.append(f"{field.name!r} was {field.type} and is {kind}")
    return lost


def _difference(kind: str, before: pa.Schema, after: pa.Schema) -> str:
    for field in before:
        if field.name not in after.names:
            return f"the {kind} column {field.name!r} ({_type_text(field)}) is gone"
    for field in after:
        if field.name not in before.names:
            return f"the {kind} column {field.name!r} ({_type_text(field)}) is new"
    if before.names != after.names:
        return f"the {kind} columns are in another order"
    for old, new in zip(before, after, strict=True):
        if _type_text(old) != _type_text(new):
            return f"the {kind} column {old.name!r} was {_type_text(old)} and is {_type_text(new)}"
    return f"the {kind} columns have other metadata"


def _type_text(field: pa.Field) -> str:
    return f"{field.type}{'' if field.nullable else ' not null'}"
