"""Columns of a data file in the names and types of its table.

A table may rename a column without writing its files again. Its files then have columns under
other names, or under numbers: the field ids of Parquet. This holds for fields of structs as well.
A field that a file lacks was added later: its values are null.

Source: "Column Mapping" in the protocol of Delta; "Column Projection" in the specification of
Iceberg.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import pyarrow as pa

from lookupstore.arrow.fitting import is_list
from lookupstore.errors import FormatError

#: Metadata of an Arrow field with the id of the column of a Parquet file.
FIELD_ID = b"PARQUET:field_id"
# The same of an ORC file.
_ORC_ID = b"iceberg.id"


def field_in_file(stored: pa.Field, there: Iterable[pa.Field], path: str) -> int | None:
    """Return the index of a field of a table among the fields of a file.

    Args:
        stored: The field as the files of the table name it.
        there: Fields of the file.
        path: Path of the file, which errors name.

    Returns:
        The index. None: The file lacks the field.

    Raises:
        FormatError: If several fields of the file are the field.

    >>> there = pa.schema([("b", pa.int64()), ("a", pa.int64())])
    >>> field_in_file(pa.field("a", pa.int64()), there, "x.parquet")
    1
    """
    wanted = _id(stored)
    if wanted is None:
        found = [at for at, field in enumerate(there) if field.name == stored.name]
    else:
        found = [at for at, field in enumerate(there) if _id(field) == wanted]
    if len(found) > 1:
        what = f"the name {stored.name!r}" if wanted is None else f"the field id {wanted.decode()}"
        raise FormatError(f"{path}: several columns have {what}; pass the rows that Spark reads")
    return found[0] if found else None


def with_ids(
    there: pa.Schema,
    stored: pa.Schema,
    ids_of_names: Mapping[tuple[str, ...], int] | None,
    path: str,
) -> pa.Schema:
    """Return the columns of a file with field ids, if its table finds columns by these.

    Args:
        there: Columns of the file.
        stored: Columns of the table as its files name them.
        ids_of_names: Ids of the columns of a file without ids, by the names that lead to each.
            Names of elements are `element`, `key` and `value`. None: the table has none.
        path: Path of the file, which errors name.

    Raises:
        FormatError: If the file has no ids, and the table none for its names.

    Source: "Column Projection" and "Name Mapping Serialization" in the specification of Iceberg.
    """
    if any(_id(field) is None for field in stored) or any(_id(field) for field in there):
        return there
    if ids_of_names is None:
        raise FormatError(
            f"{path}: the table finds columns by field ids, which this file does not have, and has "
            "no name mapping; give the rows as another program reads them"
        )
    return pa.schema([_numbered(field, (field.name,), ids_of_names) for field in there])


def _numbered(
    field: pa.Field, names: tuple[str, ...], ids: Mapping[tuple[str, ...], int]
) -> pa.Field:
    """Return a field of a file, and those in it, with the ids of their names."""
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_numbered(one, (*names, one.name), ids) for one in kind])
    elif is_list(kind):
        kind = pa.list_(_numbered(kind.value_field, (*names, "element"), ids))
    elif pa.types.is_map(kind):
        key = _numbered(kind.key_field, (*names, "key"), ids)
        kind = pa.map_(key, _numbered(kind.item_field, (*names, "value"), ids))
    known = ids.get(names)
    return pa.field(field.name, kind, field.nullable, known and {FIELD_ID: str(known)})


def in_table_names(
    column: pa.Array, there: pa.Field, stored: pa.Field, wanted: pa.Field, path: str
) -> pa.Array:
    """Return a column of a file with the nested fields that its table has, under their names.

    Types of values are those of the file.

    Args:
        column: Column of the file.
        there: Its field in the file.
        stored: Field of the table as its files name it.
        wanted: Field of the table.
        path: Path of the file, which errors name.

    >>> column = pa.array([{"x": 1}, None])
    >>> stored, wanted = pa.struct({"x": pa.int64()}), pa.struct({"n": pa.int64()})
    >>> fields = [pa.field("c", kind) for kind in (column.type, stored, wanted)]
    >>> in_table_names(column, *fields, "x.parquet").to_pylist()
    [{'n': 1}, None]
    """
    kinds = one, two, three = there.type, stored.type, wanted.type
    types = pa.types
    if all(map(types.is_struct, kinds)):
        return _struct(column, one, two, three, path)
    if all(map(is_list, kinds)):
        given = column.values
        values = in_table_names(given, one.value_field, two.value_field, three.value_field, path)
        return column if values is given else _with_child(column, values)
    if all(map(types.is_map, kinds)):
        keys, items = column.keys, column.items
        named = [
            in_table_names(keys, one.key_field, two.key_field, three.key_field, path),
            in_table_names(items, one.item_field, two.item_field, three.item_field, path),
        ]
        if named[0] is keys and named[1] is items:
            return column
        return _with_child(column, pa.StructArray.from_arrays(named, ["key", "value"]))
    return column


def _struct(
    column: pa.StructArray,
    there: pa.StructType,
    stored: pa.StructType,
    wanted: pa.StructType,
    path: str,
) -> pa.Array:
    places = [field_in_file(field, there, path) for field in stored]
    given = [column.field(at) for at in range(there.num_fields)]
    children = [
        pa.nulls(len(column), other.type)
        if at is None
        else in_table_names(given[at], there.field(at), one, other, path)
        for at, one, other in zip(places, stored, wanted, strict=True)
    ]
    names = [field.name for field in wanted]
    same = names == [field.name for field in there] and len(children) == len(given)
    if same and all(one is other for one, other in zip(children, given, strict=True)):
        return column
    return pa.StructArray.from_arrays(children, names, mask=column.is_null())


def _with_child(column: pa.Array, values: pa.Array) -> pa.Array:
    """Return a column of lists or maps with other values in the same places."""
    kind = column.type
    if pa.types.is_map(kind):
        made = pa.map_(values.type.field(0).type, values.type.field(1).type)
    elif pa.types.is_fixed_size_list(kind):
        made = pa.list_(values.type, kind.list_size)
    elif pa.types.is_large_list(kind):
        made = pa.large_list(values.type)
    else:
        made = pa.list_(values.type)
    own = column.buffers()[: made.num_buffers]
    return pa.Array.from_buffers(
        made, len(column), own, column.null_count, column.offset, children=[values]
    )


def without_metadata(schema: pa.Schema, *, but: Collection[bytes] = ()) -> pa.Schema:
    """Return columns without the metadata of their fields, also of nested ones.

    Args:
        schema: The columns.
        but: Names of metadata that fields keep.
    """
    return pa.schema([_plain(field, but) for field in schema])


def _plain(field: pa.Field, but: Collection[bytes]) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_plain(one, but) for one in kind])
    elif pa.types.is_large_list(kind):
        kind = pa.large_list(_plain(kind.value_field, but))
    elif pa.types.is_list(kind):
        kind = pa.list_(_plain(kind.value_field, but))
    elif pa.types.is_map(kind):
        kind = pa.map_(_plain(kind.key_field, but), _plain(kind.item_field, but))
    kept = {name: value for name, value in (field.metadata or {}).items() if name in but}
    return pa.field(field.name, kind, field.nullable, kept or None)


def _id(field: pa.Field) -> bytes | None:
    metadata = field.metadata or {}
    found: bytes | None = metadata.get(FIELD_ID, metadata.get(_ORC_ID))
    return found
