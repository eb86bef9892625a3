"""Convert keys as users type them to typed keys.

A key of one field is its text, whole. A key of several fields is a line of CSV: ``eu,42``, and
``"a, b",42`` for a field with a comma. ``\\N`` is null, in fields that may hold it. Numbers, dates,
times and timestamps are written as Arrow prints them (``2013-01-01T05:00:00Z`` or with a space);
durations as a whole number of their unit; binary fields as text, or as ``0x`` and hex digits; UUIDs
with dashes, or as bytes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import restore
from lookupstore.arrow.uuids import is_uuid
from lookupstore.cli.csv_text import csv_texts
from lookupstore.keys.types import key_field

NULL = "\\N"
#: Number of missing keys that an error names.
MOST_NAMED = 10


def parse_keys(texts: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Parse whole keys.

    Args:
        texts: Texts of n keys.
        schema: Key fields.

    Returns:
        Table of n rows with the fields by name; dictionary fields as their values.

    Raises:
        ValueError: If a text has a wrong number of fields, or is not a value of a field's type.

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
    return parse_columns(
        [pa.array([row[i] for row in rows], pa.string()) for i in range(len(schema))], schema
    )


def parse_columns(columns: Sequence[pa.Array], schema: pa.Schema) -> pa.Table:
    r"""Parse whole keys, with the fields in separate columns.

    Args:
        columns: Texts of each key field, where null is null too.
        schema: Key fields.

    Raises:
        ValueError: If a text is not a value of a field's type.

    >>> schema = pa.schema([("id", pa.int32())])
    >>> parse_columns([pa.array(["42", r"\N"])], schema)["id"].to_pylist()
    [42, None]
    """
    arrays = [_parse(texts, field) for texts, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=key_types(schema))


def key_texts(keys: pa.Table) -> list[str]:
    r"""Return keys as users type them, for any fields that can be parsed.

    >>> key_texts(pa.table({"zip": ["52093", None], "city": ["Bath, Maine", ""]}))
    ['52093,"Bath, Maine"', '\\N,']
    """
    columns = [csv_texts(one.combine_chunks()).to_pylist() for one in keys.columns]
    rows = [[NULL if one is None else one for one in row] for row in zip(*columns, strict=True)]
    if keys.num_columns == 1:
        return [row[0] for row in rows]
    found = []
    for row in rows:
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(row)
        found.append(line.getvalue())
    return found


def missing_text(keys: Iterable[str], *, has_more: bool = False) -> str:
    """Return the first different keys in quotes, as errors name them.

    Args:
        keys: Keys as they are typed.
        has_more: Whether there are keys beyond these.
    """
    different = [f"'{one}'" for one in dict.fromkeys(keys)]
    return ", ".join(different[:MOST_NAMED]) + (
        ", ..." if has_more or len(different) > MOST_NAMED else ""
    )


def key_types(schema: pa.Schema) -> pa.Schema:
    """Return the key fields in the types that they have after parsing.

    >>> key_types(pa.schema([("id", pa.dictionary(pa.int8(), pa.string()))])).field("id").type
    DataType(string)
    """
    return pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])


def parse_bound(text: str, schema: pa.Schema) -> tuple[Any, ...]:
    """Parse the first fields of a key, for a scan.

    Raises:
        ValueError: If there are too many fields, or a text is not a value of a field's type.

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
        _parse(pa.array([one]), field)[0].as_py() for one, field in zip(row, schema, strict=False)
    )  # fmt: skip


def parse_beginning(text: str, field: pa.Field) -> str | bytes:
    """Parse the beginning of a key field: text, or for bytes also 0x and hex digits.

    Raises:
        ValueError: If 0x is not followed by hex digits.

    >>> parse_beginning("0xff", pa.field("raw", pa.binary(16))), parse_beginning(
    ...     "eu", pa.field("region", pa.string())
    ... )
    (b'\\xff', 'eu')
    """
    try:
        return key_field(field, nullable=True).read_beginning(text)
    except ValueError:
        if is_uuid(field.type):
            raise ValueError(
                f"{text!r} is not the beginning of a UUID; write an even number of hex digits"
            ) from None
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


def _parse(texts: pa.Array, field: pa.Field) -> pa.Array:
    kind = _plain(field.type)
    key = key_field(pa.field(field.name, kind), nullable=True)
    values = pc.if_else(pc.equal(texts, NULL), None, texts)
    try:
        return restore(key.read(values), kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        for value in values.to_pylist():
            try:
                key.read(pa.array([value], pa.string()))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
                raise ValueError(
                    f"{value!r} is not {kind}, the type of the key field {field.name!r}; "
                    f"write {key.form}{_hint(str(value), field.name)}"
                ) from None
        raise


def _hint(text: str, name: str) -> str:
    """Return advice about a text that is not a key, or an empty text."""
    if text.lower() in ("", "null", "none"):
        return f" (null is {NULL})"
    if text.startswith(f"{name}="):
        return ", without the name"
    if text == "-":
        return "; --keys - of 'lookupstore get' reads keys from standard input"
    return ", and spaces between keys" if "," in text else ""


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values that are typed."""
    if isinstance(kind, pa.BaseExtensionType) and not is_uuid(kind):
        kind = kind.storage_type
    return kind.value_type if pa.types.is_dictionary(kind) else kind
