"""Rows in Avro, as Arrow columns.

fastavro decodes one record after the other, without logical types: numbers and bytes become columns
of their Arrow types all at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from lookupstore.errors import CorruptionError
from lookupstore.hudi.keys.avro_types import arrow_schema
from lookupstore.hudi.timeline.avro_file import decoded
from lookupstore.hudi.timeline.file_schema import MOST_BYTES, checked_schema
from lookupstore.storage.json_text import parse_json

# Bytes of a decimal in Arrow.
_DECIMAL_BYTES = 16
_MOST_DIGITS = 38
# Types of numbers without their logical type.
_STORED: tuple[tuple[Callable[[pa.DataType], bool], pa.DataType], ...] = (
    (pa.types.is_date32, pa.int32()),
    (pa.types.is_time32, pa.int32()),
    (pa.types.is_time64, pa.int64()),
    (pa.types.is_timestamp, pa.int64()),
    (pa.types.is_decimal, pa.binary()),
)


class AvroRows:
    """A decoder of records of one schema.

    Args:
        text: Schema of the records, as JSON.
        path: Path of the file, for errors.
        at: Offset of the schema in the file, for errors.

    Raises:
        CorruptionError: If the schema is damaged.
        FormatError: If a type is not supported.
    """

    def __init__(self, text: bytes, path: str, at: int) -> None:
        self._path = path
        try:
            self._schema = _decoder_schema(text)
        except ValueError as error:
            raise CorruptionError(path, at, "the Avro schema of rows", error) from error
        #: Columns of the records.
        self.columns: pa.Schema = arrow_schema(text.decode(), path)
        # Kind of the records while they are decoded.
        self._stored = stored_type(pa.struct(list(self.columns)))

    def batch(self, records: Iterable[tuple[bytes, int]], at: int) -> pa.RecordBatch:
        """Return records as rows.

        Args:
            records: Bytes of each record, and their offset in the file.
            at: Offset of all records in the file, for errors.

        Raises:
            CorruptionError: If a record is damaged.
        """
        rows = [decoded(self._schema, content, self._path, one) for content, one in records]
        try:
            found = pa.array(rows, self._stored)
            pairs = zip(found.flatten(), self.columns.types, strict=True)
            columns = [logical(one, kind) for one, kind in pairs]
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise CorruptionError(self._path, at, "values of the columns' types", error) from error
        return pa.RecordBatch.from_arrays(columns, schema=self.columns)


# Number of schemas that are kept: those of some tables, before and after changes of columns.
@functools.lru_cache(maxsize=32)
def _decoder_schema(text: bytes) -> Any:
    """Return a schema for the decoder.

    Raises:
        ValueError: If the text is not the schema of a record, or is not safe to decode with.
    """
    try:
        checked = checked_schema(parse_json(text, "", "a schema", most_bytes=MOST_BYTES))
    except CorruptionError as error:
        raise ValueError(f"{error.found} in place of {error.expected}") from None
    if not isinstance(checked, dict) or checked["type"] != "record":
        raise ValueError("a type that is no record")
    try:
        return fastavro.parse_schema(checked)
    except Exception as error:  # an error in a name, or a symbol
        raise ValueError(f"{type(error).__name__}: {error}") from None


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of values without logical types.

    >>> stored_type(pa.list_(pa.date32()))
    ListType(list<element: int32>)
    """
    types = pa.types
    if types.is_struct(kind):
        return pa.struct([field.with_type(stored_type(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(kind.key_type, stored_type(kind.item_type))
    if types.is_list(kind):
        return pa.list_(pa.field("element", stored_type(kind.value_type)))
    return next((stored for is_kind, stored in _STORED if is_kind(kind)), kind)


def logical(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values with their logical types.

    Args:
        values: Values of the type that `stored_type` returns.
        kind: Type of the result.

    Raises:
        ArrowException: If a value does not fit the type.

    >>> logical(pa.array([b"\\x01\\x00", b"\\xff", None]), pa.decimal128(4, 1)).to_pylist()
    [Decimal('25.6'), Decimal('-0.1'), None]
    """
    types = pa.types
    if values.type == kind:
        return values
    if types.is_struct(kind):
        parts = [
            logical(one, field.type) for one, field in zip(values.flatten(), kind, strict=True)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=values.is_null())
    if types.is_map(kind):
        items = logical(values.items, kind.item_type)
        return pa.MapArray.from_arrays(
            values.offsets, values.keys, items, type=kind, mask=_mask(values)
        )
    if types.is_list(kind):
        inside = logical(values.values, kind.value_type)
        return pa.ListArray.from_arrays(values.offsets, inside, type=kind, mask=_mask(values))
    if types.is_decimal(kind):
        return _decimals(values, kind)
    return values.cast(kind)


def _mask(values: pa.Array) -> pa.BooleanArray | None:
    return values.is_null() if values.null_count else None


def _decimals(values: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Return decimals of their bytes: numbers in two's complement, the highest byte first."""
    values = values.cast(pa.binary())
    _, ends, content = values.buffers()
    count, offset = len(values), values.offset
    limits = (
        np.frombuffer(ends, np.int32)[offset : offset + count + 1] if count else np.zeros(1, int)
    )
    data = np.frombuffer(content or b"\x00", np.uint8)
    starts, stops = limits[:-1].astype(np.int64), limits[1:].astype(np.int64)
    sizes = stops - starts
    if count and int(sizes.max()) > _DECIMAL_BYTES:
        raise pa.ArrowInvalid(f"a decimal of {int(sizes.max())} bytes")
    last = max(len(data) - 1, 0)
    negative = (sizes > 0) & (data[np.clip(starts, 0, last)] >= 0x80)
    filled = np.where(negative, np.uint8(0xFF), np.uint8(0))
    made = np.empty((count, _DECIMAL_BYTES), np.uint8)
    for place in range(_DECIMAL_BYTES):
        digits = data[np.clip(stops - 1 - place, 0, last)]
        made[:, place] = np.where(place < sizes, digits, filled)
    valid = values.is_valid().buffers()[1]
    widest = pa.decimal128(_MOST_DIGITS, kind.scale)
    return pa.Array.from_buffers(widest, count, [valid, pa.py_buffer(made)]).cast(kind)
