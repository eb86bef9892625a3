"""CSV as commands print it: quotes only where a field needs them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import plain_type, unwrap
from lookupstore.arrow.uuids import is_uuid, uuid_texts
from lookupstore.cli.json_text import iso_times, plain

# Fields that need quotes, by the separator: without them, an empty text would be null.
_QUOTED = {",": r'^$|[",\r\n]', "\t": r'^$|["\t\r\n]'}


def csv_names(schema: pa.Schema, separator: str = ",") -> bytes:
    """Return the line of names of a CSV file.

    Args:
        schema: Columns of the file.
        separator: Character between the fields: a comma or a tab.

    Raises:
        ValueError: If CSV cannot hold a column.

    >>> csv_names(pa.schema([("id", pa.int64()), ("a,b", pa.string())]))
    b'id,"a,b"\\n'
    """
    for field in schema:
        try:
            csv_texts(pa.nulls(1, plain_type(field.type)))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise ValueError(
                f"column {field.name!r}: CSV cannot hold {field.type}; "
                "choose --columns without it, or --output json or arrow"
            ) from None
    names = [pa.array([name], pa.large_string()) for name in schema.names]
    return _lines(names, separator) if names else b"\n"


def csv_lines(batch: pa.RecordBatch, separator: str = ",") -> bytes:
    """Return the rows of a batch as lines of CSV.

    An empty field is null, and a quoted empty field is an empty text. Bytes are `0x` and hex
    digits, times ISO 8601.

    Args:
        batch: Rows without lists, structs or maps.
        separator: Character between the fields: a comma or a tab.

    >>> csv_lines(pa.record_batch({"id": [1, 2], "v": ["", "a,b"]}))
    b'1,""\\n2,"a,b"\\n'
    """
    if not batch.num_columns:
        return b"\n" * int(batch.num_rows)
    return _lines([csv_texts(column) for column in batch.columns], separator)


def csv_texts(column: pa.Array) -> pa.Array:
    """Return the values of a column as texts: those of `csv_lines`, without quotes."""
    if is_uuid(column.type):
        return uuid_texts(column)
    column = unwrap(column)
    kind = column.type
    if pa.types.is_nested(kind):
        raise pa.ArrowNotImplementedError(f"{kind} in CSV")
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    if is_bytes or pa.types.is_fixed_size_binary(kind):
        return pa.array([plain(value) for value in column.to_pylist()], pa.large_string())
    if pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        return iso_times(column)
    return column.cast(pa.large_string())


def _lines(texts: list[pa.Array], separator: str) -> bytes:
    """Return columns of texts as lines."""
    quoted = (_quoted(column, separator) for column in texts)
    rows = pc.binary_join_element_wise(
        *quoted, pa.scalar(separator, pa.large_string()),
        null_handling="replace", null_replacement="",
    )  # fmt: skip
    ends = pa.scalar("\n", pa.large_string())
    lines = pc.binary_join_element_wise(rows, pa.scalar("", pa.large_string()), ends)
    size = pc.sum(pc.binary_length(lines)).as_py()
    # The lines are one after the other in the buffer of the array, which may be larger.
    return bytes(lines.buffers()[2])[:size] if size else b""


def _quoted(texts: pa.Array, separator: str) -> pa.Array:
    needs = pc.match_substring_regex(texts, _QUOTED[separator])
    if not pc.any(needs).as_py():
        return texts
    doubled = pc.replace_substring(texts, '"', '""')
    quote, nothing = pa.scalar('"', pa.large_string()), pa.scalar("", pa.large_string())
    return pc.if_else(needs, pc.binary_join_element_wise(quote, doubled, quote, nothing), texts)
