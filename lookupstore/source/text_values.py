"""Texts as values of a type: which type a column of texts has, and what is not of it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

#: What to do about text that is not UTF-8.
RECODE = "give UTF-8, as `iconv -f latin1 -t utf-8` makes it of Latin-1"
# Texts that are numbers, and the same texts when they are written again but for zeros at the end
# and exponents: no codes such as 02134, phone numbers, or more digits than a float has.
_INTEGER = r"^(0|-?[1-9][0-9]*)$"
_FLOAT = r"^-?(0|[1-9][0-9]{0,14})?(\.[0-9]+([eE][+-]?[0-9]+)?|[eE][+-][0-9]+)?$"
_NOT_FINITE = r"^(nan|-?inf)$"
# What a column of text may be, in this order: the first that takes all of its values.
_TYPES = (
    pa.int64(),
    pa.float64(),
    pa.bool_(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
)


def type_of(texts: pa.Array) -> pa.DataType:
    """Return the type of a column by its first texts.

    >>> type_of(pa.array(["1", "20"])), type_of(pa.array(["1", "02"]))
    (DataType(int64), DataType(string))
    """
    for kind in _TYPES if texts.null_count < len(texts) else ():
        if _casts(texts, kind):
            return kind
    return pa.string()


def typed(texts: pa.Array, field: pa.Field, name: str, row: int) -> pa.Array:
    """Return texts as values of a type.

    Args:
        texts: a column of a file.
        field: the column as it should be.
        name: of the file, for errors.
        row: number of the first one, for errors.

    Raises:
        ValueError: one of them is of another type.
    """
    if field.type == texts.type:
        return texts
    if _casts(texts, field.type):
        return texts.cast(field.type)
    while len(texts) > 1:  # until the one is left that is wrong
        half = texts.slice(0, len(texts) // 2)
        if _casts(half, field.type):
            texts, row = texts.slice(len(half)), row + len(half)
        else:
            texts = half
    raise ValueError(
        f"source: {name}: the column {field.name!r} is {field.type} and has {texts[0].as_py()!r} "
        f"in row {row}; give a reader of the types that are meant in its place, such as "
        "pyarrow.csv.open_csv"
    )


def _casts(texts: pa.Array, kind: pa.DataType) -> bool:
    """Return whether texts are of a type, and mean the same in it."""
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
