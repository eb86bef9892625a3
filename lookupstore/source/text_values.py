"""Infer the type of a column of texts, and convert texts to values of a type."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.uuids import is_uuid, uuids_of
from lookupstore.source.csv_dialect import POINT
from lookupstore.source.time_formats import parsed

#: Column of the reasons for which rows have values that are not of their type; see `typed_or_null`.
MISFITS = "_lookupstore_misfits"
#: Remedy for text that is not UTF-8.
RECODE = (
    "convert it to UTF-8, such as by `iconv -f cp1252 -t utf-8` if it is Windows-1252 or Latin-1"
)
# Texts that are numbers and are equal to the text of these numbers, except for zeros at the end and
# exponents. Not matched: codes such as 02134, phone numbers, numbers with more digits than a float
# has.
_INTEGER = r"^(0|-?[1-9][0-9]*)$"
_FLOAT = r"^-?(0|[1-9][0-9]{0,14})?(\.[0-9]+([eE][+-]?[0-9]+)?|[eE][+-][0-9]+)?$"
_NOT_FINITE = r"^(nan|-?inf)$"
# Whole numbers with a fraction of zeros. Its groups are the integer, without the sign of a zero.
_WHOLE = r"^(?:-?(0)|(-?[1-9][0-9]*))%s0+$"
_INSTANT = pa.timestamp("us", "UTC")
# Times with zeros after the digits of a unit, as pandas writes 20.002000 for milliseconds. Its
# groups are what is left.
_ZEROS = {
    "s": r"(:[0-9]{2}:[0-9]{2})\.0+($|[Z+-])",
    "ms": r"(\.[0-9]{3})0+($|[Z+-])",
    "us": r"(\.[0-9]{6})0+($|[Z+-])",
}
# Types of a column of text, in order: the first that accepts all of its values is used.
_TYPES = (pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us"), _INSTANT)


def type_of(texts: pa.Array, decimal: str = POINT, zone: str | None = None) -> pa.DataType:
    """Return the type of a column, inferred from its first texts.

    Args:
        texts: Texts of the column.
        decimal: Character before the fraction of a number.
        zone: Time zone of times that name none. None: such times have no zone.

    >>> type_of(pa.array(["1", "20"])), type_of(pa.array(["1", "02"]))
    (DataType(int64), DataType(string))
    >>> type_of(pa.array(["2026-05-19 07:40:00"]), zone="Europe/Berlin")
    TimestampType(timestamp[us, tz=UTC])
    """
    for kind in _TYPES if texts.null_count < len(texts) else ():
        if _cast(texts, kind, decimal) is not None:
            is_instant = zone is not None and pa.types.is_timestamp(kind)
            return _INSTANT if is_instant else kind
    return pa.string()


def typed(
    texts: pa.Array,
    field: pa.Field,
    name: str,
    row: int,
    zone: str | None = None,
    decimal: str = POINT,
    form: str | None = None,
) -> pa.Array:
    """Return texts as values of a type.

    Args:
        texts: Column of a file, as texts.
        field: Field with the wanted name and type.
        name: Name of the file, which errors show.
        row: Number of the first row, by which errors count rows.
        zone: Time zone of times that name none. None: such times are refused.
        decimal: Character before the fraction of a number.
        form: Format of dates and timestamps. None: ISO 8601.

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
    values = _fitted(texts, field.type, decimal, form)
    if values is not None:
        return values
    is_zoned = pa.types.is_timestamp(field.type) and field.type.tz is not None
    kinds = [field.type]
    if is_zoned and zone:
        kinds.append(pa.timestamp(field.type.unit))
        times = _fitted(texts, kinds[1], decimal, form)
        if times is not None:
            return _in_zone(times, texts, field, name, row, zone).cast(field.type)
    # Times without a zone are no values of the one kind, those with a zone none of the other.
    place = max(_first_misfit(texts, kind, decimal, form) for kind in kinds)
    texts, row = texts.slice(place), row + place
    is_number = pa.types.is_integer(field.type) or _has_fractions(field.type)
    how = f" with decimal={decimal!r}" if decimal != POINT and is_number else ""
    if form is not None:
        lacks_zone = is_zoned and not zone
        why = "names no zone; give the zone" if lacks_zone else f"is not in the format {form!r}"
        raise ValueError(f"source: {name}: {_misfit(texts, field, row)}, which {why}")
    remedy = (
        "correct it, or pass a reader with the right types, such as pyarrow.csv.open_csv(...) with "
        "convert_options"
    )
    if is_zoned and _fitted(texts[:1], pa.timestamp(field.type.unit), decimal, form) is not None:
        # Arrow's reader refuses such times, too.
        remedy = (
            "write the zone after each time, such as Z for UTC, or pass a frame whose times have "
            "it, such as by pandas.to_datetime(column, utc=True, format='ISO8601')"
        )
    raise ValueError(f"source: {name}: {_misfit(texts, field, row)}{how}; {remedy}")


def typed_or_null(
    texts: pa.Array,
    field: pa.Field,
    name: str,
    row: int,
    zone: str | None = None,
    decimal: str = POINT,
    form: str | None = None,
) -> tuple[pa.Array, dict[int, str]]:
    """Return texts as values of a type, and why texts that are not became null.

    Args:
        See `typed`.

    Returns:
        The values, and the reason for each null of a text, by its place in the column.

    Raises:
        ValueError: If texts have no values of the type.
    """
    try:
        return typed(texts, field, name, row, zone, decimal, form), {}
    except ValueError:
        if pa.types.is_nested(field.type):
            raise
    if len(texts) == 1:
        return pa.nulls(1, field.type), {0: f"{name}: {_misfit(texts, field, row)}"}
    half = len(texts) // 2
    first, bad = typed_or_null(texts.slice(0, half), field, name, row, zone, decimal, form)
    rest, others = typed_or_null(texts.slice(half), field, name, row + half, zone, decimal, form)
    bad |= {half + at: reason for at, reason in others.items()}
    return pa.concat_arrays([first, rest]), bad


def _first_misfit(texts: pa.Array, kind: pa.DataType, decimal: str, form: str | None) -> int:
    """Return the place of the first text that is not a value of a type. There is one."""
    place = 0
    while len(texts) > 1:
        half = texts.slice(0, len(texts) // 2)
        if _fitted(half, kind, decimal, form) is None:
            texts = half
        else:
            texts, place = texts.slice(len(half)), place + len(half)
    return place


def _misfit(texts: pa.Array, field: pa.Field, row: int) -> str:
    """Return the reason for which the first of the texts is not of a type."""
    return f"the column {field.name!r} is {field.type} and has {texts[0].as_py()!r} in row {row}"


def _in_zone(
    times: pa.Array, texts: pa.Array, field: pa.Field, name: str, row: int, zone: str
) -> pa.Array:
    """Return local times as instants.

    Raises:
        ValueError: If the clocks were changed at one of them. The row of the error is that of its
            text.
    """
    try:
        return pc.assume_timezone(times, zone)
    except pa.ArrowInvalid:
        pass
    if len(times) > 1:
        half = len(times) // 2
        first = _in_zone(times.slice(0, half), texts, field, name, row, zone)
        rest = _in_zone(times.slice(half), texts.slice(half), field, name, row + half, zone)
        return pa.concat_arrays([first, rest])
    raise ValueError(
        f"source: {name}: {_misfit(texts, field, row)}, which {zone} has twice or not at all, "
        "since clocks were changed; write its offset, such as +01:00, or read the column as "
        "timestamp_ntz"
    )


def _first(texts: pa.Array) -> str | None:
    """Return the first text that is not null."""
    found = texts.drop_null()
    return found[0].as_py() if len(found) else None


def _fitted(texts: pa.Array, kind: pa.DataType, decimal: str, form: str | None) -> pa.Array | None:
    """Return texts as values of a known type, in which zeros may follow the last digit it holds.

    Without them, 3.0 would be an integer in JSON lines and frames, but not in CSV.
    """
    if form is not None and (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        has_zone = pa.types.is_timestamp(kind) and kind.tz is not None
        return None if has_zone and texts.null_count < len(texts) else parsed(texts, kind, form)
    values = _cast(texts, kind, decimal)
    if values is None and pa.types.is_integer(kind):
        integers = pc.replace_substring_regex(texts, _WHOLE % re.escape(decimal), r"\1\2")
        return _cast(integers, kind, decimal)
    if values is None and (pa.types.is_timestamp(kind) or pa.types.is_time(kind)):
        zeros = _ZEROS.get(kind.unit)
        if zeros is not None:
            return _cast(pc.replace_substring_regex(texts, zeros, r"\1\2"), kind, decimal)
    return values


def _cast(texts: pa.Array, kind: pa.DataType, decimal: str) -> pa.Array | None:
    """Return texts as values of a type, with the same meaning. None: a text has no such value."""
    if decimal != POINT and _has_fractions(kind):
        # No number has a letter: a text with a point is not one.
        texts = pc.replace_substring(pc.replace_substring(texts, POINT, "x"), decimal, POINT)
    if pa.types.is_integer(kind):
        if not _all(pc.match_substring_regex(texts, _INTEGER)):
            return None
    elif pa.types.is_floating(kind):
        special = pc.match_substring_regex(texts, _NOT_FINITE)
        if not _all(pc.or_(special, pc.match_substring_regex(texts, _FLOAT))):
            return None
    if is_uuid(kind):
        return uuids_of(texts, kind)
    try:
        if pa.types.is_time(kind):  # Arrow casts texts to times of a day only
            times = pc.binary_join_element_wise("1970-01-01", texts, " ")
            return times.cast(pa.timestamp(kind.unit)).cast(kind)
        values = texts.cast(kind)
    except pa.ArrowInvalid:
        return None
    if pa.types.is_floating(kind) and not _all(pc.or_(special, pc.is_finite(values))):
        return None
    return values


def _has_fractions(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _all(flags: pa.Array) -> bool:
    return pc.all(flags).as_py() is not False
