"""Rows as lines of JSON, made column by column, mostly without a Python object per value."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import is_bytes, is_text
from lookupstore.arrow.uuids import is_uuid, uuid_texts

# Characters that JSON may contain unescaped, but that a terminal does not show: control characters,
# text direction, line ends, characters without width, surrogates.
_UNSEEN = (
    (0x7F, 0x9F), (0xAD, 0xAD), (0x61C, 0x61C), (0x180E, 0x180E), (0x200B, 0x200B),
    (0x200E, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0xD800, 0xDFFF), (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB), (0xE0001, 0xE0001), (0xE0020, 0xE007F),
)  # fmt: skip
_UNSEEN_SIGNS = re.compile(f"[{''.join(f'{chr(a)}-{chr(b)}' for a, b in _UNSEEN)}]")
# Characters that are escaped in a text, besides quotes and backslashes; Arrow's have no surrogates.
_ESCAPED = "".join(f"\\x{{{a:x}}}-\\x{{{b:x}}}" for a, b in _UNSEEN if a != 0xD800)
_CONTROLS = rf"[\x00-\x1f{_ESCAPED}]"

# Pattern of a time for the form of isoformat(): a "T", no fraction of zeros, a colon in the offset.
_ISO = (
    (r"^(-?\d{4,}-\d\d-\d\d) ", r"\1T"),
    (r"Z$", "+00:00"),
    (r"([+-]\d\d)(\d\d)$", r"\1:\2"),
    (r"\.(\d{6})000", r".\1"),
    (r"\.000000($|[+-])", r"\1"),
)

# `pa.scalar` is not used: it imports pandas, which takes longer than all other work.
_NULL = pa.nulls(1, pa.large_string())[0]


def json_lines(batch: pa.RecordBatch, there: pa.BooleanArray | None = None) -> str:
    """Return the rows as lines, each a JSON object.

    Args:
        batch: Rows to print.
        there: Whether each row exists. The line of a missing row is null. Default: all rows exist.

    >>> json_lines(pa.RecordBatch.from_pylist([{"id": 1, "raw": b"\\xff"}]))
    '{"id": 1, "raw": "0xff"}'
    """
    rows = _objects(batch.schema.names, batch.columns, batch.num_rows)
    if there is not None:
        rows = pc.if_else(there, rows, _text("null"))
    whole = pa.LargeListArray.from_arrays(pa.array([0, len(rows)], pa.int64()), rows)
    lines: str = pc.binary_join(whole, _text("\n"))[0].as_py()
    return lines


def json_texts(column: pa.Array) -> pa.Array:
    """Return the JSON of each value of a column with the values of `plain`, none of them null.

    >>> json_texts(pa.array([0.1, None, float("inf")], pa.float32())).to_pylist()
    ['0.1', 'null', '"inf"']
    """
    return _texts_of(column).cast(pa.large_string()).fill_null("null")


def iso_times(column: pa.Array) -> pa.Array:
    """Return times of any unit as isoformat() writes them, as text; null for null.

    >>> iso_times(pa.array([0], pa.timestamp("ms", "UTC"))).to_pylist()
    ['1970-01-01T00:00:00+00:00']
    """
    kind = column.type
    unit, zone = kind.unit, getattr(kind, "tz", None)
    if unit != "ns":
        if zone not in (None, "UTC"):  # its offsets may have seconds, which Arrow omits
            return _iso_one_by_one(column)
        is_time = pa.types.is_time(kind)
        column = column.cast(pa.time64("us") if is_time else pa.timestamp("us", zone))
    shown = column.cast(pa.large_string())
    if pc.any(pc.match_substring(shown, "<value out of range")).as_py():
        return _iso_one_by_one(column)
    for pattern, form in _ISO:
        shown = pc.replace_substring_regex(shown, pattern, form)
    return shown


def json_of(value: Any, indent: int | None = None) -> str:
    r"""Return a Python value as JSON that a terminal shows unchanged.

    >>> json_of({"a\u202e": "\x1b\x9b é"})
    '{"a\\u202e": "\\u001b\\u009b é"}'
    """
    text = json.dumps(value, indent=indent, default=str, ensure_ascii=False)
    return _UNSEEN_SIGNS.sub(lambda found: json.dumps(found[0])[1:-1], text)


def plain(value: Any) -> Any:
    """Return a Python value in a form that JSON supports.

    Dates and times are ISO 8601 text, decimals and infinities text, durations seconds; bytes are
    ``0x`` and hex digits.
    """
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return value


def _texts_of(column: pa.Array) -> pa.Array:
    """Return the JSON of each value, null for null."""
    kind = column.type
    if is_uuid(kind):
        return _quoted(uuid_texts(column))
    if isinstance(column, pa.ExtensionArray):
        is_bool = kind.extension_name == "arrow.bool8"
        return _texts_of(column.storage.cast(pa.bool_()) if is_bool else column.storage)
    if isinstance(column, pa.DictionaryArray):
        return json_texts(column.dictionary).take(column.indices)
    for is_kind, texts in _KINDS:
        if is_kind(kind):
            return texts(column)
    return _one_by_one(column)


def _one_by_one(column: pa.Array) -> pa.Array:
    shown = [json_of(plain(value)) for value in column.to_pylist()]
    return pa.array(shown, pa.large_string())


def _iso_one_by_one(column: pa.Array) -> pa.Array:
    return pa.array([plain(value) for value in column.to_pylist()], pa.large_string())


def _quoted(texts: pa.Array) -> pa.Array:
    """Return texts that need no escapes in quotes."""
    return _joined('"', texts.cast(pa.large_string()), '"')


def _strings(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.large_string())
    quoted = texts
    for one in ("\\", '"'):
        if pc.any(pc.match_substring(texts, one)).as_py():
            quoted = pc.replace_substring(quoted, one, f"\\{one}")
    quoted = _quoted(quoted)
    odd = pc.match_substring_regex(texts, _CONTROLS).fill_null(False)
    if not odd.true_count:
        return quoted
    return pc.replace_with_mask(quoted, odd, _one_by_one(texts.filter(odd)))


def _bytes(column: pa.Array) -> pa.Array:
    shown = [None if one is None else f'"0x{one.hex()}"' for one in column.to_pylist()]
    return pa.array(shown, pa.large_string())


def _floats(column: pa.Array) -> pa.Array:
    """Return the shortest text of each number that reads back as the same one of its type."""
    if pa.types.is_float16(column.type):  # Arrow writes every digit of these, NumPy does not
        texts = [str(one) for one in column.to_numpy(zero_copy_only=False)]
        shown = pc.if_else(column.is_valid(), pa.array(texts, pa.large_string()), _NULL)
    else:
        shown = column.cast(pa.large_string())
    shown = pc.replace_substring_regex(shown, r"^(-?\d+)$", r"\1.0")
    return pc.replace_substring_regex(shown, r"^(-?(?:nan|inf))$", r'"\1"')


def _times(column: pa.Array) -> pa.Array:
    return _quoted(iso_times(column))


def _durations(column: pa.Array) -> pa.Array:
    if column.type.unit != "ns":
        return _one_by_one(column)
    # Python has no nanoseconds.
    counts = column.cast(pa.int64()).cast(pa.float64(), safe=False)
    return _floats(pc.divide(counts, 1e9))


def _structs(column: pa.StructArray) -> pa.Array:
    names = [field.name for field in column.type]
    objects = _objects(names, column.flatten(), len(column))
    return pc.if_else(column.is_valid(), objects, _NULL)


def _lists(column: pa.Array) -> pa.Array:
    # A null list has no values in flatten(), even if there are values at its offsets.
    lengths = pc.list_value_length(column).fill_null(0)
    ends = pc.cumulative_sum(lengths.cast(pa.int64()))
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
    texts = pa.LargeListArray.from_arrays(offsets, json_texts(column.flatten()))
    lists = _joined("[", pc.binary_join(texts, _text(", ")), "]")
    return pc.if_else(column.is_valid(), lists, _NULL)


def _maps(column: pa.MapArray) -> pa.Array:
    """Return maps as lists, of lists of a key and its value."""
    pairs = _joined("[", json_texts(column.keys), ", ", json_texts(column.items), "]")
    # The offsets are copied, because Arrow accepts no slice of others with a mask.
    offsets = pa.array(column.offsets.to_numpy().astype("int64"))
    texts = pa.LargeListArray.from_arrays(offsets, pairs, mask=column.is_null())
    return _joined("[", pc.binary_join(texts, _text(", ")), "]")


def _objects(names: list[str], columns: list[pa.Array], length: int) -> pa.Array:
    if not names:
        return pa.array(["{}"] * length, pa.large_string())
    pieces: list[pa.Array | str] = []
    for i, (name, column) in enumerate(zip(names, columns, strict=True)):
        key = json_of(name)
        pieces += [f"{', ' if i else '{'}{key}: ", json_texts(column)]
    return _joined(*pieces, "}")


def _joined(*pieces: pa.Array | str) -> pa.Array:
    """Return texts with separators between them, as one text per row."""
    texts = [_text(one) if isinstance(one, str) else one for one in pieces]
    return pc.binary_join_element_wise(*texts, _text(""))


def _text(one: str) -> pa.Scalar:
    return pa.scalar(one, pa.large_string())


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


_KINDS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], pa.Array]], ...] = (
    (lambda kind: pa.types.is_boolean(kind) or pa.types.is_integer(kind),
     lambda column: column.cast(pa.large_string())),
    (pa.types.is_floating, _floats),
    (is_text, _strings),
    (is_bytes, _bytes),
    (lambda kind: pa.types.is_decimal(kind) or pa.types.is_date(kind), _quoted),
    (lambda kind: pa.types.is_time(kind) or pa.types.is_timestamp(kind), _times),
    (pa.types.is_duration, _durations),
    (pa.types.is_struct, _structs),
    (_is_list, _lists),
    (pa.types.is_map, _maps),
)  # fmt: skip
