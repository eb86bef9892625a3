"""Find fields of structs by their paths, such as `address.city`."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lookupstore.errors import listed, meant


def type_at(path: Sequence[str], columns: pa.Schema) -> pa.DataType:
    """Return the type of a column, or of a field in it.

    Args:
        path: Name of the column, and then of a field at each level.
        columns: Columns of the table, with the column.

    Raises:
        ValueError: If there is no such field; the error names it and the fields there are.

    >>> columns = pa.schema({"address": pa.struct({"city": pa.string(), "zip": pa.int32()})})
    >>> type_at(["address", "zip"], columns)
    DataType(int32)
    >>> type_at(["address", "town"], columns)
    Traceback (most recent call last):
    ValueError: 'address' has no field 'town'; it has 'city', 'zip', whose case counts
    """
    kind = columns.field(path[0]).type
    for level, name in enumerate(path[1:], 1):
        above = ".".join(path[:level])
        if not pa.types.is_struct(kind):
            raise ValueError(
                f"{above!r} is {kind}, not a struct with a field {name!r}; name a column, or a "
                "field of a struct"
            )
        at = kind.get_field_index(name)
        if at < 0:
            names = [field.name for field in kind]
            remedy = meant(name, names, f"it has {listed(names)}, whose case counts")
            raise ValueError(f"{above!r} has no field {name!r}{remedy}")
        kind = kind.field(at).type
    return kind


def path_of(name: str, columns: pa.Schema) -> tuple[str, ...]:
    """Return the path that a name with dots stands for.

    A column whose own name has dots comes first. The path of an unknown column is its name.

    Raises:
        ValueError: If the name begins with that of a struct, which has no such field.

    >>> columns = pa.schema({"a": pa.struct({"b": pa.int8()}), "x.y": pa.int8()})
    >>> path_of("a.b", columns), path_of("x.y", columns), path_of("x.z", columns)
    (('a', 'b'), ('x.y',), ('x.z',))
    """
    found = _path_in(name, columns)
    if found is not None:
        return found
    path = name.split(".")
    at = columns.get_field_index(path[0])
    if path[1:] and at >= 0 and pa.types.is_struct(columns.field(at).type):
        type_at(path, columns)  # raises the error
    return (name,)


def _path_in(name: str, fields: pa.Schema | pa.StructType) -> tuple[str, ...] | None:
    if fields.get_field_index(name) >= 0:
        return (name,)
    for field in fields:
        if pa.types.is_struct(field.type) and name.startswith(f"{field.name}."):
            rest = _path_in(name[len(field.name) + 1 :], field.type)
            if rest is not None:
                return (field.name, *rest)
    return None
