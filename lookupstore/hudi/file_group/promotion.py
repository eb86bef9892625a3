"""Conversion of values of an older base file to the present types of the table, as in Hudi.

A file keeps the types that the table had when it was written. Hudi reads an int as a long, float,
double or string, a long as a float, double or string, a float as a double or string, a double as a
string, and a string as bytes and back. Numbers become the same texts as in Java. All other
conversions are refused, with the name of the file, although Arrow would cast most of them.

Source: org.apache.hudi.avro.AvroSchemaCompatibility, HoodieAvroUtils.rewritePrimaryType,
java.lang.Double.toString as of Java 19, which gives the fewest digits that a number needs.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import plain_type, unwrap
from lookupstore.errors import FormatError

_TEXT = pa.string()
# Least and greatest number that Java writes without an exponent.
_LEAST, _END = 1e-3, 1e7
# Pattern of a number as Arrow writes it.
_NUMBER = r"^(?P<sign>-?)(?P<whole>\d+)\.?(?P<part>\d*)(?:e\+?(?P<by>.*))?$"
# Numbers below which Java may write two digits if one would suffice; there are few such numbers.
_FEW = {pa.float64(): 1e-321, pa.float32(): 1e-43}


def is_promoted(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether Hudi reads values of one type as values of another, or they are the same.

    >>> is_promoted(pa.int32(), pa.string()), is_promoted(pa.bool_(), pa.int32())
    (True, False)
    """
    stored, wanted, types = plain_type(stored), plain_type(wanted), pa.types
    if stored == wanted or types.is_null(stored):
        return True
    if types.is_integer(stored):
        if types.is_integer(wanted):
            room = wanted.bit_width - int(types.is_unsigned_integer(stored))
            return bool(stored.bit_width <= room)
        return bool(types.is_floating(wanted) or types.is_string(wanted))
    if types.is_floating(stored):
        wider = types.is_floating(wanted) and wanted.bit_width > stored.bit_width
        return bool(wider or types.is_string(wanted))
    if types.is_struct(stored) and types.is_struct(wanted):
        known = {field.name: field.type for field in stored}
        return all(
            field.name not in known or is_promoted(known[field.name], field.type)
            for field in wanted
        )
    if types.is_map(stored) and types.is_map(wanted):
        return is_promoted(stored.key_type, wanted.key_type) and is_promoted(
            stored.item_type, wanted.item_type
        )
    if types.is_list(wanted) and (types.is_list(stored) or types.is_large_list(stored)):
        return is_promoted(stored.value_type, wanted.value_type)
    return any(is_kind(stored) and is_kind(wanted) for is_kind in _KINDS)


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    is_text = types.is_string(kind) or types.is_large_string(kind)
    is_raw = types.is_binary(kind) or types.is_large_binary(kind)
    return bool(is_text or is_raw or types.is_fixed_size_binary(kind))


# Groups of types with the same meaning; their widths and units depend on the writer.
_KINDS = (
    _is_bytes,
    pa.types.is_decimal,
    pa.types.is_timestamp,
    pa.types.is_date,
    pa.types.is_time,
)


def needs_promotion(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether Arrow would not convert or filter a column as Hudi does.

    >>> needs_promotion(pa.float64(), pa.string()), needs_promotion(pa.string(), pa.string())
    (True, False)
    """
    stored, wanted, types = plain_type(stored), plain_type(wanted), pa.types
    if stored == wanted:
        return False
    if types.is_struct(stored) and types.is_struct(wanted):
        known = {field.name: field.type for field in stored}
        return any(
            field.name in known and needs_promotion(known[field.name], field.type)
            for field in wanted
        )
    if types.is_map(stored) and types.is_map(wanted):
        return needs_promotion(stored.item_type, wanted.item_type)
    if types.is_list(wanted) and types.is_list(stored):
        return needs_promotion(stored.value_type, wanted.value_type)
    return True


def promoted(column: pa.Array, wanted: pa.DataType, name: str, path: str) -> pa.Array:
    """Return a column of a base file in the type of the table.

    Args:
        column: Column in the type that the file has.
        wanted: Type that the table has.
        name: Name of the column, for errors.
        path: Path of the file, for errors.

    Raises:
        FormatError: If Hudi does not promote the column's type to this one, or if a value is not
            exact in it.

    >>> promoted(pa.array([5.0, 1e20]), pa.string(), "n", "f").to_pylist()
    ['5.0', '1.0E20']
    """
    if column.type == wanted:
        return column
    check_promotion(column.type, wanted, name, path)
    try:
        if pa.types.is_dictionary(column.type) or pa.types.is_dictionary(wanted):
            return column.cast(wanted)
        return _cast(unwrap(column), wanted)
    except pa.ArrowException as error:
        raise FormatError(
            f"{path}: the column {name!r} is {column.type}, and has a value that is not exact as "
            f"{wanted}, the table's type: {error}; write the rows of the file again"
        ) from error


def check_promotion(stored: pa.DataType, wanted: pa.DataType, name: str, path: str) -> None:
    """Check that Hudi reads values of one type as values of another; see `promoted`."""
    if not is_promoted(stored, wanted):
        raise FormatError(
            f"{path}: the column {name!r} is {stored}, which Hudi does not promote to {wanted}, "
            "the table's type since a later commit; write the rows of the file again, or read as "
            "of a time before that commit with an earlier copy of the table"
        )


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Cast values, numbers to the texts of Java."""
    types = pa.types
    if types.is_string(wanted) and types.is_floating(column.type):
        return java_texts(column)
    if types.is_struct(wanted) and types.is_struct(column.type):
        known = {field.name: at for at, field in enumerate(column.type)}
        flat = column.flatten()
        children = [
            _cast(flat[known[field.name]], field.type)
            if field.name in known
            else pa.nulls(len(column), field.type)
            for field in wanted
        ]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=column.is_null())
    if types.is_list(wanted) and types.is_list(column.type):
        if not needs_promotion(column.type, wanted):
            return column.cast(wanted)
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        values = _cast(column.flatten(), wanted.value_type)
        return pa.ListArray.from_arrays(offsets, values, type=wanted, mask=column.is_null())
    return column.cast(wanted)


def java_texts(numbers: pa.Array) -> pa.Array:
    """Return numbers as `Double.toString` and `Float.toString` of Java 19 write them.

    >>> java_texts(pa.array([1e7, 0.5, 0.0001, -0.0, float("nan"), 5e-324])).to_pylist()
    ['1.0E7', '0.5', '1.0E-4', '-0.0', 'NaN', '4.9E-324']
    """
    size = pc.abs(numbers.cast(pa.float64()))
    plain = pc.or_(pc.equal(size, 0), pc.and_(pc.greater_equal(size, _LEAST), pc.less(size, _END)))
    # Arrow has the same digits, in another form.
    text = numbers.cast(_TEXT)
    whole = pc.invert(pc.match_substring(text, "."))
    short = pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)
    if pc.all(plain, skip_nulls=True).as_py() is not False:
        return short
    found = pc.if_else(plain, short, _with_exponent(text))
    for wanted, said in (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
        found = pc.if_else(pc.equal(text, wanted), said, found)
    few = pc.and_(pc.greater(size, 0), pc.less(size, _FEW[numbers.type]))
    if few.true_count:
        for number in numbers.filter(few).unique().to_pylist():
            found = pc.if_else(pc.equal(numbers, number), _few_digits(number, numbers.type), found)
    return found


def _with_exponent(text: pa.Array) -> pa.Array:
    """Return numbers in the form with an exponent and one digit before the point."""
    parts = pc.extract_regex(text, _NUMBER)
    sign, whole, part, by = (pc.struct_field(parts, one) for one in ("sign", "whole", "part", "by"))
    digits = pc.utf8_ltrim(pc.binary_join_element_wise(whole, part, ""), "0")
    zeros = pc.subtract(pc.add(pc.utf8_length(whole), pc.utf8_length(part)), pc.utf8_length(digits))
    # Position of the first significant digit before the point, from its index and Arrow's text.
    place = pc.subtract(pc.subtract(pc.utf8_length(whole), zeros), 1)
    by = pc.if_else(pc.equal(by, ""), "0", by).cast(pa.int32())
    rest = pc.utf8_rtrim(pc.utf8_slice_codeunits(digits, 1), "0")
    rest = pc.if_else(pc.equal(rest, ""), "0", rest)
    exponent = pc.add(place, by).cast(_TEXT)
    first = pc.utf8_slice_codeunits(digits, 0, 1)
    return pc.binary_join_element_wise(sign, first, ".", rest, "E", exponent, "")


def _few_digits(number: float, kind: pa.DataType) -> str:
    """Return the text of one of the least numbers, which Java writes with two digits."""
    shortest = _with_exponent(pa.array([number], kind).cast(_TEXT))[0].as_py()
    digits, _, exponent = shortest.partition("E")
    if not digits.endswith(".0"):
        return str(shortest)
    digits, _, exponent = f"{number:.1e}".partition("e")
    return f"{digits}E{int(exponent)}"
