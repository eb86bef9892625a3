"""Find texts that are not UTF-8, which Arrow does not check."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow._texts import first_not_utf8
from lookupstore.arrow.types import plain_type


@dataclass(frozen=True)
class BadText:
    """A text that is not UTF-8.

    Attributes:
        row: Index of the value that contains the text.
        path: Name of the column and of the fields inside it, joined with dots.
        value: Bytes of the text.
    """

    row: int
    path: str
    value: bytes


def first_bad_text(array: pa.Array, name: str) -> BadText | None:
    """Return the first text in a column that is not UTF-8.

    None: All are.

    Args:
        array: Column of any type. Texts may be inside lists, structs and maps.
        name: Name of the column.

    >>> texts = pa.array([b"EWR", b"Zo\\xeb"]).view(pa.string())
    >>> first_bad_text(texts, "city")
    BadText(row=1, path='city', value=b'Zo\\xeb')
    """
    kind = array.type
    if not has_texts(kind):
        return None
    if isinstance(array, pa.ExtensionArray):
        return first_bad_text(array.storage, name)
    if isinstance(array, pa.DictionaryArray):
        return _in_dictionary(array, name)
    types = pa.types
    if types.is_struct(kind):
        for at, child in enumerate(array.flatten()):
            found = first_bad_text(child, f"{name}.{kind.field(at).name}")
            if found is not None:
                return found
        return None
    if types.is_map(kind):
        array = _as_list(array)
    if types.is_nested(kind):
        found = first_bad_text(array.flatten(), name)
        if found is None:
            return None
        counts = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        row = int(np.searchsorted(np.cumsum(counts), found.row, side="right"))
        return BadText(row, found.path, found.value)
    row = first_not_utf8(array)
    if row < 0:
        return None
    return BadText(row, name, array[row : row + 1].cast(pa.large_binary())[0].as_py())


def _as_list(array: pa.MapArray) -> pa.ListArray:
    """Return maps as lists of their entries."""
    entries = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
    return pa.Array.from_buffers(
        pa.list_(entries.type),
        len(array),
        array.buffers()[:2],
        array.null_count,
        array.offset,
        [entries],
    )


def _in_dictionary(array: pa.DictionaryArray, name: str) -> BadText | None:
    """Return the first text that is not UTF-8 among the values that rows use."""
    start = 0
    while True:
        found = first_bad_text(array.dictionary.slice(start), name)
        if found is None:
            return None
        row = pc.index(array.indices, start + found.row).as_py()
        if row >= 0:
            return BadText(row, found.path, found.value)
        start += found.row + 1


def has_texts(kind: pa.DataType) -> bool:
    """Return whether a type is or contains strings.

    >>> has_texts(pa.list_(pa.string())), has_texts(pa.binary())
    (True, False)
    """
    plain = plain_type(kind)
    if pa.types.is_nested(plain):
        return any(has_texts(plain.field(at).type) for at in range(plain.num_fields))
    return bool(pa.types.is_string(plain) or pa.types.is_large_string(plain))


def check_texts(batch: pa.RecordBatch, what: str, row: int | None = 0) -> None:
    """Check that the texts of a batch are UTF-8.

    Args:
        batch: Rows to check.
        what: Name of the source of the rows, which errors show.
        row: Number of rows before the batch, by which errors count rows. None: Errors name no row.

    Raises:
        ValueError: If a text is not UTF-8. The error names the column, the row (from 1 on) and a
            remedy.

    >>> texts = pa.array([b"Zo\\xeb"]).view(pa.string())
    >>> check_texts(pa.record_batch([texts], ["city"]), "users.parquet")
    Traceback (most recent call last):
    ValueError: users.parquet: the column 'city' has text that is not UTF-8 in row 1: ...
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        found = first_bad_text(column, name)
        if found is not None:
            where = "" if row is None else f" in row {row + found.row + 1}"
            raise ValueError(
                f"{what}: the column {found.path!r} has text that is not UTF-8{where}: "
                f"{found.value[:60]!r}; write it again in UTF-8, or read the rows, cast the "
                "column to binary, and give these in its place"
            )
