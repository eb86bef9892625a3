"""Cast the Arrow columns of callers to the types of a key, with no value changed.

A type is cast to another one if no value has to be rounded. A value that the key's type cannot hold
is found here, before C reads the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import concat, unwrap
from lookupstore.arrow.uuids import is_uuid
from lookupstore.errors import listed
from lookupstore.keys.fields import KeyField

KeyColumns: TypeAlias = (
    "pa.Table | pa.RecordBatch | pa.Array | Sequence[pa.Array | pa.ChunkedArray]"
)


def column_batches(
    columns: KeyColumns, fields: Sequence[KeyField], what: str
) -> Iterator[list[pa.Array]]:
    """Yield one array per field, of equal length, chunk by chunk.

    Args:
        columns: Arrow arrays or chunked arrays, one per field, in order; or a table or record batch
            that holds the fields by name.
        fields: Fields of the key.
        what: Name of the columns, which errors show.

    Raises:
        KeyError: If a table lacks a field.
        TypeError: If the number of columns is wrong, or one is not an Arrow array.
        ValueError: If columns have different lengths.

    >>> from lookupstore.keys.types import key_field
    >>> fields = [key_field(pa.field("id", pa.int64()), nullable=False)]
    >>> [[len(array) for array in arrays] for arrays in column_batches(
    ...     pa.chunked_array([[1, 2], [3]]), fields, "keys")]
    [[2], [1]]
    """
    names = [field.name for field in fields]
    if isinstance(columns, (pa.Table, pa.RecordBatch)):
        for name in names:
            if columns.schema.get_field_index(name) < 0:
                raise KeyError(
                    f"{what}: no single column {name!r} among {listed(columns.schema.names)}"
                )
        columns = [columns.column(name) for name in names]
    elif isinstance(columns, (pa.Array, pa.ChunkedArray)):
        columns = [columns]
    if len(columns) != len(fields):
        raise TypeError(f"{what}: {len(columns)} columns; give {len(fields)} ({', '.join(names)})")
    for column, field in zip(columns, fields, strict=True):
        if not isinstance(column, (pa.Array, pa.ChunkedArray)):
            raise TypeError(
                f"{what}: the field {field.name!r} is {type(column).__name__}; give an Arrow array"
            )
        if len(column) != len(columns[0]):
            raise ValueError(
                f"{what}: the field {field.name!r} has {len(column)} values, "
                f"{names[0]!r} has {len(columns[0])}"
            )
    if all(isinstance(column, pa.Array) for column in columns):
        yield list(columns)
        return
    table = pa.Table.from_arrays(list(columns), names=names)
    if table.num_rows == 0:
        table = table.schema.empty_table()
        yield [concat([], field.type) for field in table.schema]
    for batch in table.to_batches():
        if batch.num_rows:
            yield batch.columns


def fit_strictly(
    fields: Sequence[KeyField], arrays: Sequence[pa.Array], what: str, row: int
) -> list[pa.Array]:
    """Cast one array per field to the plain type of the field, if all values fit.

    Args:
        fields: Fields of the key.
        arrays: Arrow arrays, one per field.
        what: Name of the columns, which errors show.
        row: Number of the first row, from 0, by which errors count rows.

    Raises:
        TypeError: If an array is of another kind than its field.
        ValueError: If the type of a field cannot hold a value.

    >>> from lookupstore.keys.types import key_field
    >>> fields = [key_field(pa.field("id", pa.int8()), nullable=False)]
    >>> fit_strictly(fields, [pa.array([1, 300])], "keys", row=0)
    Traceback (most recent call last):
    ValueError: keys: the field 'id' is int8, which cannot hold 300 of row 2
    """
    plain = []
    for field, array in zip(fields, arrays, strict=True):
        values, fits = fit(field, array, what)
        if fits is not None:
            i = pc.index(fits, False).as_py()
            raise ValueError(
                f"{what}: the field {field.name!r} is {field.type}, which cannot hold "
                f"{array[i].as_py()!r} of row {row + i + 1}"
            )
        plain.append(values)
    return plain


def fit(field: KeyField, array: pa.Array, what: str) -> tuple[pa.Array, pa.Array | None]:
    """Cast an array to the plain type of the field, without changing a value.

    Returns:
        The array, null where a value does not fit; and whether each value fits (true for null), or
        None if all do.

    Raises:
        TypeError: If the array is of another kind than the field.

    >>> from lookupstore.keys.types import key_field
    >>> field = key_field(pa.field("id", pa.int8()), nullable=False)
    >>> [found.to_pylist() for found in fit(field, pa.array([1, 300]), "keys")]
    [[1, None], [True, False]]
    """
    given = array.type
    array = unwrap(array)
    if array.type == field.plain:
        return array, None
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), field.plain), None
    if not field.accepts(array.type):
        wanted = (
            "uuid.UUID objects or their 16 bytes" if is_uuid(field.type) else f"it as {field.plain}"
        )
        raise TypeError(
            f"{what}: the field {field.name!r} is {field.type}; found {given}; give {wanted}"
        )
    return field.fit(array)
