"""Infer the type of a column of texts, and convert texts to values of a type."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

#: Remedy for text that is not UTF-8.
RECODE = "give UTF-8, as `iconv -f latin1 -t utf-8` makes it of Latin-1"
# Texts that are numbers and are equal to the text of these numbers, except for zeros at the end and
# exponents. Not matched: codes such as 02134, phone numbers, numbers with more digits than a float
# has.
_INTEGER = r"^(0|-?[1-9][0-9]*)$"
_FLOAT = r"^-?(0|[1-9][0-9]{0,14})?(\.[0-9]+([eE][+-]?[0-9]+)?|[eE][+-][0-9]+)?$"
_NOT_FINITE = r"^(nan|-?inf)$"
# Types of a column of text, in order: the first that accepts all of its values is used.
_TYPES = (
    pa.int64(),
    pa.float64(),
    pa.bool_(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
)


def type_of(texts: pa.Array) -> pa.DataType:
    """Return the type of a column, inferred from its first texts.

    >>> type_of(pa.array(["1", "20"])), type_of(pa.array(["1", "02"]))
    (DataType(int64), DataType(string))
    """
    for kind in _TYPES if texts.null_count < len(texts) else ():
        if _casts(texts, kind):
            return kind
    return pa.string()


def typed(
    texts: pa.Array, field: pa.Field, name: str, row: int, zone: str | None = None
) -> pa.Array:
    """Return texts as values of a type.

    Args:
        texts: Column of a file, as texts.
        field: Field with the wanted name and type.
        name: Name of the file, which errors show.
        row: Number of the first row, by which errors count rows.
        zone: Time zone of times that name none. None: such times are refused.

    Raises:
        ValueError: If a text is not a value of the type, or texts have no values of the type.
    """
    if field.type == texts.type:
        return texts
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), field.type)
    if pa.types.is_nested(field.type):
        raise ValueError(
            f"source: {name}: the column {field.name!r} is {field.type}, which text such as "
            f"{_first(texts)!r} cannot have; choose the other columns, or give rows as JSON lines, "
            "Parquet or Arrow"
        )
    if _casts(texts, field.type):
        return texts.cast(field.type)
    local = pa.timestamp(field.type.unit) if zone and pa.types.is_timestamp(field.type) else None
    if local is not None and field.type.tz is not None and _casts(texts, local):
        return _in_zone(texts.cast(local), field, name, zone).cast(field.type)
    while len(texts) > 1:  # until only the wrong value is left
        half = texts.slice(0, len(texts) // 2)
        if _casts(half, field.type):
            texts, row = texts.slice(len(half)), row + len(half)
        else:
            texts = half
    raise ValueError(
        f"source: {name}: the column {field.name!r} is {field.type} and has {texts[0].as_py()!r} "
        f"in row {row}; pass a reader with the right types, such as "
        "pyarrow.csv.open_csv(...) with convert_options"
    )


def _in_zone(times: pa.Array, field: pa.Field, name: str, zone: str | None) -> pa.Array:
    try:
        return pc.assume_timezone(times, zone)
    except pa.ArrowInvalid as error:  # the clocks were changed
        raise ValueError(f"source: {name}: the column {field.name!r}: {error}") from None


def _first(texts: pa.Array) -> str | None:
    """Return the first text that is not null."""
    found = texts.drop_null()
    return found[0].as_py() if len(found) else None


def _casts(texts: pa.Array, kind: pa.DataType) -> bool:
    """Return whether texts are values of a type, with the same meaning."""
    if pa.types.is_integer(kind):
        if not _all(pc.match_substring_regex(texts, _INTEGER)):
            return False
    elif pa.types.is_floating(kind):
        special = pc.match_substring_regex(texts, _NOT_FINITE)
        if not _all(pc.or_(special, pc.match_substring_regex(texts, _FLOAT))):
            return False
    try:
        values = texts.cast(kind)
    except pa.ArrowInvalid:
        return False
    return not pa.types.is_floating(kind) or _all(pc.or_(special, pc.is_finite(values)))


def _all(flags: pa.Array) -> bool:
    return pc.all(flags).as_py() is not False
