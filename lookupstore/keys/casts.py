"""Callers' Arrow columns to the types of a key: which casts keep every value, and which values fit.

What one type can say of another without a choice of rounding is cast value by value; a value that
the key's type cannot hold is found here, before C sees the batch.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import concat, family_of, limits, unwrap, validity
from lookupstore.keys.fields import KeyField

KeyColumns: TypeAlias = (
    "pa.Table | pa.RecordBatch | pa.Array | Sequence[pa.Array | pa.ChunkedArray]"
)

# What of one family can be told to a key of another, value by value, without a choice of rounding.
_KINDRED = {
    "float": ("integer",),
    "integer": ("float", "decimal"),
    "decimal": ("integer",),
    # What pandas and NumPy have for dates: the day, at midnight.
    "date": ("timestamp",),
}


def column_batches(
    columns: KeyColumns, fields: Sequence[KeyField], what: str
) -> Iterator[list[pa.Array]]:
    """Yield the columns as one array per field, of equal length, chunk by chunk.

    Args:
        columns: one Arrow array or chunked array per field, in order; or a table or record batch
            that holds the fields by name.
        fields: the fields of the key.
        what: what to call the columns in an error.

    Raises:
        KeyError: a table without a field.
        TypeError: another number of columns, or one that is not an Arrow array.
        ValueError: columns of different lengths.

    >>> from lookupstore.keys.fields import key_field
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
                    f"{what}: no single column {name!r} among "
                    f"{', '.join(map(repr, columns.schema.names))}"
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
    """Bring one array per field to the plain types of the fields, where every value has to fit.

    Args:
        fields: the fields of the key.
        arrays: one per field.
        what: what to call the columns in an error.
        row: the number of the first row, for an error.

    Raises:
        TypeError: an array is of another kind than its field.
        ValueError: a value that the type of its field cannot hold.

    >>> from lookupstore.keys.fields import key_field
    >>> fields = [key_field(pa.field("id", pa.int8()), nullable=False)]
    >>> fit_strictly(fields, [pa.array([1, 300])], "keys", row=0)
    Traceback (most recent call last):
    ValueError: keys: the field 'id' is int8, which cannot hold 300 of row 1
    """
    plain = []
    for field, array in zip(fields, arrays, strict=True):
        values, fits = fit(field, array, what)
        if fits is not None:
            i = pc.index(fits, False).as_py()
            raise ValueError(
                f"{what}: the field {field.name!r} is {field.type}, which cannot hold "
                f"{array[i].as_py()!r} of row {row + i}"
            )
        plain.append(values)
    return plain


def fit(field: KeyField, array: pa.Array, what: str) -> tuple[pa.Array, pa.Array | None]:
    """Bring an array to the plain type of the field, where every value survives.

    Returns:
        The array, null where a value does not fit; and which do fit (true for null), or None if
        all do.

    Raises:
        TypeError: the array is of another kind than the field.

    >>> from lookupstore.keys.fields import key_field
    >>> field = key_field(pa.field("id", pa.int8()), nullable=False)
    >>> [found.to_pylist() for found in fit(field, pa.array([1, 300]), "keys")]
    [[1, None], [True, False]]
    """
    given = array.type
    array = unwrap(array)
    wanted = field.plain
    if array.type == wanted:
        return array, None
    family = family_of(array.type)
    if family == "null":
        return pa.nulls(len(array), wanted), None
    if family != field.family and family not in _KINDRED.get(field.family, ()):
        raise TypeError(
            f"{what}: the field {field.name!r} is {field.type}; found {given}; give it as "
            f"{field.plain}"
        )
    if family == "string" or (family == "binary" and field.variable):
        if pa.types.is_fixed_size_binary(array.type):
            array = array.cast(wanted)
        return array, None  # C reads offsets of either width
    if "decimal" in (family, field.family):
        return _fit_decimals(array, wanted)
    if family == "float":
        fits = _float_fits(array, wanted)
    elif family == "binary":
        fits = pc.equal(pc.binary_length(array), wanted.byte_width)
    elif field.family == "float":
        fits = _integer_fits_float(array, wanted)
    elif family == "integer":
        fits = _in_range(array, wanted)
    else:  # other units of the same time: what overflows or is cut does not come back
        fits = pc.equal(array.cast(wanted, safe=False).cast(array.type, safe=False), array)
    fits = pc.fill_null(fits, True)
    if pc.all(fits).as_py() is not False:
        return array.cast(wanted, safe=False), None
    return _nulled(array, fits).cast(wanted, safe=False), fits


def _nulled(array: pa.Array, kept: pa.Array) -> pa.Array:
    return pc.if_else(kept, array, pa.scalar(None, array.type))


def _in_range(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    low, high = limits(wanted)
    least, most = limits(array.type)
    return pc.and_(
        pc.greater_equal(array, pa.scalar(max(low, least), array.type)),
        pc.less_equal(array, pa.scalar(min(high, most), array.type)),
    )


def _float_fits(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_floating(wanted):
        back = array.cast(wanted, safe=False).cast(array.type, safe=False)
        return pc.or_(pc.equal(back, array), pc.is_nan(array))
    wide = array.cast(pa.float64())
    low, high = limits(wanted)
    inside = pc.and_(
        pc.greater_equal(wide, float(low)), pc.less(wide, float(high + 1))
    )  # false for NaN; both limits are powers of two, so exact
    return pc.and_(inside, pc.equal(pc.floor(wide), wide))


def _integer_fits_float(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    wide = array.cast(wanted, safe=False).cast(pa.float64())
    low, high = limits(array.type)
    inside = pc.and_(pc.greater_equal(wide, float(low)), pc.less(wide, float(high + 1)))
    back = pc.if_else(inside, wide, 0.0).cast(array.type, safe=False)
    return pc.and_(inside, pc.equal(back, array))


def _fit_decimals(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, pa.Array | None]:
    """Bring decimals or integers to decimals or integers, by way of the widest decimal."""
    whole = pa.types.is_integer(wanted)
    scale = 0 if whole else wanted.scale
    given_scale = getattr(array.type, "scale", 0)
    wide = array.cast(pa.decimal256(76, given_scale))
    target = wide.cast(pa.decimal256(76, scale), safe=False)
    back = target.cast(wide.type, safe=False)  # what overflowed or was cut does not come back
    low, high = limits(wanted)
    digits = _digits(target)
    fits = pc.and_(
        pc.equal(_digits(back), _digits(wide)),
        pc.and_(
            pc.greater_equal(digits, pa.scalar(decimal.Decimal(low), digits.type)),
            pc.less_equal(digits, pa.scalar(decimal.Decimal(high), digits.type)),
        ),
    )
    fits = pc.fill_null(fits, True)
    missing = None if pc.all(fits).as_py() is not False else fits
    kept = digits if missing is None else _nulled(digits, fits)
    if whole:
        return kept.cast(wanted), missing
    return _narrowed(kept, wanted), missing


def _digits(array: pa.Array) -> pa.Array:
    """Return the digits of 256-bit decimals as integers (Arrow compares no negative scales)."""
    kind = pa.decimal256(76, 0)
    return pa.Array.from_buffers(kind, len(array), array.buffers(), array.null_count, array.offset)


def _narrowed(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return 256-bit digits that are known to fit as decimals of the wanted width and scale.

    Arrow's own cast from decimal256 to decimal32 gives zeros (pyarrow 26).
    """
    length, width = len(array), wanted.bit_width // 8
    words = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * 32 :][: length * 32]
    cut = np.ascontiguousarray(words.reshape(length, 32)[:, :width])
    return pa.Array.from_buffers(wanted, length, [validity(array), pa.py_buffer(cut)])
