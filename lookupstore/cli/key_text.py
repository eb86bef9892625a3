"""Keys as people type them, to typed keys.

A key of one field is its text, whole. A key of several fields is a line of CSV: ``eu,42``, and
``"a, b",42`` for a field with a comma. ``\\N`` is null, in fields that may hold it. Numbers, dates,
times and timestamps are written as Arrow prints them (``2013-01-01T05:00:00Z`` or with a space);
durations as a whole number of their unit; binary fields as text, or as ``0x`` and hex digits.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

NULL = "\\N"
_FRACTION = {"s": "", "ms": ".089", "us": ".089101", "ns": ".089101112"}


def parse_keys(texts: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Parse whole keys.

    Args:
        texts: n keys.
        schema: the key fields.

    Returns:
        Table of n rows with the fields by name; dictionary fields as their values.

    Raises:
        ValueError: a text with a wrong number of fields, or that is not a value of a field's type.

    >>> schema = pa.schema([("region", pa.string()), ("id", pa.int32())])
    >>> parse_keys(["eu,42"], schema).to_pylist()
    [{'region': 'eu', 'id': 42}]
    """
    rows = [_split(text, schema) for text in texts]
    for text, row in zip(texts, rows, strict=True):
        if len(row) != len(schema):
            raise ValueError(
                f"key {text!r} has {len(row)} of {len(schema)} fields; "
                f"give all, separated by commas: {','.join(schema.names)}"
            )
    columns = [
        _parse([row[i] for row in rows], field) for i, field in enumerate(schema)
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, names=schema.names)


def parse_bound(text: str, schema: pa.Schema) -> tuple[Any, ...]:
    """Parse the first fields of a key, for a scan.

    Raises:
        ValueError: too many fields, or a text that is not a value of a field's type.

    >>> parse_bound("eu", pa.schema([("region", pa.string()), ("id", pa.int32())]))
    ('eu',)
    """
    row = _split(text, schema)
    if len(row) > len(schema):
        raise ValueError(
            f"key {text!r} has {len(row)} fields; the key has {len(schema)} "
            f"({', '.join(schema.names)})"
        )
    return tuple(
        _parse([one], field)[0].as_py() for one, field in zip(row, schema, strict=False)
    )  # fmt: skip


def parse_beginning(text: str, field: pa.Field) -> str | bytes:
    """Parse the beginning of a key field: of bytes text, or 0x and hex digits; else the text.

    Raises:
        ValueError: not hex digits after 0x.

    >>> parse_beginning("0xff", pa.field("raw", pa.binary(16))), parse_beginning(
    ...     "eu", pa.field("region", pa.string())
    ... )
    (b'\\xff', 'eu')
    """
    if not _is_binary(_plain(field.type)):
        return text
    try:
        return _bytes(text)
    except ValueError:
        raise ValueError(
            f"{text!r} begins with 0x but is not hex digits, two per byte; write that text as "
            f"0x{text.encode().hex()}"
        ) from None


def _split(text: str, schema: pa.Schema) -> list[str]:
    if len(schema) == 1:
        return [text]
    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error:
        raise ValueError(
            f"key {text!r} is not a line of CSV; put a field with a comma, a quote or a line break "
            'in double quotes, and double the quotes in it: "a, ""b""",42'
        ) from None


def _parse(texts: list[str], field: pa.Field) -> pa.Array:
    kind = _plain(field.type)
    values = [None if text == NULL else text for text in texts]
    try:
        return _cast(values, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        for value in values:
            try:
                _cast([value], kind)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
                null = f" (null is {NULL})" if str(value).lower() in ("", "null", "none") else ""
                raise ValueError(
                    f"{value!r} is not {kind}, the type of the key field {field.name!r}; "
                    f"write {_wanted(kind)}{null}"
                ) from None
        raise


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values that are typed."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _wanted(kind: pa.DataType) -> str:
    """Return how a value of the type is written."""
    types = pa.types
    if types.is_boolean(kind):
        return "true or false"
    if types.is_integer(kind):
        bits = kind.bit_width - types.is_signed_integer(kind)
        lowest = -(2**bits) if types.is_signed_integer(kind) else 0
        return f"a whole number from {lowest} to {2**bits - 1}"
    if types.is_date(kind):
        return "YYYY-MM-DD, such as 2013-01-31"
    if types.is_time(kind):
        return f"HH:MM:SS, such as 05:06:07{_FRACTION[kind.unit]}"
    if types.is_timestamp(kind):
        form = f"2013-01-31T05:06:07{_FRACTION[kind.unit]}"
        if kind.tz is None:
            return f"one without a time zone, such as {form}"
        return f"one with a time zone, such as {form}Z or {form}+01:00"
    if types.is_duration(kind):
        return f"a whole number of {kind.unit}"
    if types.is_decimal(kind):
        return f"a number of at most {kind.precision} digits, {kind.scale} after the point"
    if types.is_fixed_size_binary(kind):
        return f"{kind.byte_width} bytes, as text or as 0x and {2 * kind.byte_width} hex digits"
    if _is_binary(kind):
        return "text, or 0x and an even number of hex digits"
    return "a number" if types.is_floating(kind) else "text"


def _cast(values: list[str | None], kind: pa.DataType) -> pa.Array:
    if pa.types.is_duration(kind):
        return pa.array(values, pa.string()).cast(pa.int64()).cast(kind)
    if pa.types.is_time(kind):  # Arrow reads a timestamp of any unit, but not a time
        days = [None if one is None else f"1970-01-01T{one}" for one in values]
        return pa.array(days, pa.string()).cast(pa.timestamp(kind.unit)).cast(kind)
    if pa.types.is_float16(kind):
        return pa.array(values, pa.string()).cast(pa.float32()).cast(kind)
    if _is_binary(kind):
        return pa.array([None if one is None else _bytes(one) for one in values], kind)
    return pa.array(values, pa.string()).cast(kind)


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:]) if text.startswith("0x") else text.encode()
