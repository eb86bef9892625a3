"""Columns of any reader as Python values that can be compared exactly.

| type | value |
|---|---|
| integers, booleans, texts, binaries | as they are; text that is not UTF-8 with surrogates |
| floats | as they are; NaN and -0.0 are texts, so that NaN equals NaN and -0.0 differs from 0.0 |
| decimals | by value, whatever their scale |
| dates | days since 1970 |
| timestamps, times, durations | nanoseconds; timestamps since 1970, in UTC if they have a zone |
| lists, maps, structs | tuples |
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
DAY_MS = 86_400_000


@dataclass(frozen=True)
class Rows:
    """The rows that a reader found.

    Attributes:
        names: Names of the columns.
        families: Kinds of type of the columns, without widths and units.
        types: Full types of the columns, as text.
        columns: Values of the columns.
    """

    names: list[str]
    families: list[str]
    types: list[str]
    columns: list[list[Any]]

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.columns[0]) if self.columns else 0

    def take(self, rows: Sequence[int]) -> Rows:
        """Return some of the rows, in the given order."""
        columns = [[column[row] for row in rows] for column in self.columns]
        return Rows(self.names, self.families, self.types, columns)

    def select(self, names: Sequence[str]) -> Rows:
        """Return some of the columns, in the given order."""
        at = [self.names.index(name) for name in names]
        return Rows(
            list(names),
            [self.families[i] for i in at],
            [self.types[i] for i in at],
            [self.columns[i] for i in at],
        )


def rows_of(table: pa.Table) -> Rows:
    """Return the rows of an Arrow table."""
    return Rows(
        list(table.schema.names),
        [family(field.type) for field in table.schema],
        [shown_type(field.type) for field in table.schema],
        [values(column) for column in table.columns],
    )


def without_views(table: pa.Table) -> pa.Table:
    """Return a table with views of text and binary as texts and binaries, which Arrow can take."""
    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    fields = [field.with_type(plain.get(field.type, field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def plain_type(one: pa.DataType) -> pa.DataType:
    """Return the type of the values of a type that only stores them in another way."""
    if isinstance(one, pa.BaseExtensionType):
        return plain_type(one.storage_type)
    if pa.types.is_dictionary(one) or pa.types.is_run_end_encoded(one):
        return plain_type(one.value_type)
    return one


def is_list(one: pa.DataType) -> bool:
    """Whether a type is a list of any layout."""
    test = pa.types
    return (
        test.is_list(one)
        or test.is_large_list(one)
        or test.is_fixed_size_list(one)
        or test.is_list_view(one)
        or test.is_large_list_view(one)
    )


def family(given: pa.DataType) -> str:
    """Return the kind of a type, without its width or unit.

    >>> family(pa.list_(pa.dictionary(pa.int8(), pa.large_string())))
    'list<text>'
    """
    one, test = plain_type(given), pa.types
    for name, holds in (
        ("null", test.is_null),
        ("bool", test.is_boolean),
        ("int", test.is_integer),
        ("float", test.is_floating),
        ("decimal", test.is_decimal),
        ("date", test.is_date),
        ("time", test.is_time),
        ("duration", test.is_duration),
        ("union", test.is_union),
        ("interval", test.is_interval),
    ):
        if holds(one):
            return name
    if is_text(one):
        return "text"
    if is_binary(one):
        return "binary"
    if test.is_timestamp(one):
        return "local" if one.tz is None else "instant"
    if test.is_map(one):
        return f"map<{family(one.key_type)}, {family(one.item_type)}>"
    if is_list(one):
        return f"list<{family(one.value_type)}>"
    if test.is_struct(one):
        return f"struct<{', '.join(f'{part.name}: {family(part.type)}' for part in one)}>"
    return str(one)


def is_text(one: pa.DataType) -> bool:
    """Whether a type is text of any layout."""
    test = pa.types
    return test.is_string(one) or test.is_large_string(one) or test.is_string_view(one)


def is_binary(one: pa.DataType) -> bool:
    """Whether a type is binary of any layout."""
    test = pa.types
    return (
        test.is_binary(one)
        or test.is_large_binary(one)
        or test.is_fixed_size_binary(one)
        or test.is_binary_view(one)
    )


def shown_type(given: pa.DataType) -> str:
    """Return a type as text, the same for each layout of text and binary."""
    one = plain_type(given)
    if is_text(one) or is_binary(one):
        return family(one)
    if is_list(one) or pa.types.is_struct(one) or pa.types.is_map(one):
        return family(one)
    return str(one)


def values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return the values of a column."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return list(itertools.chain.from_iterable(_of_array(chunk) for chunk in chunks))


def _of_array(array: pa.Array) -> list[Any]:
    one, test = array.type, pa.types
    if isinstance(array, pa.ExtensionArray):
        return _of_array(array.storage)
    if test.is_dictionary(one):
        known = _of_array(array.dictionary)
        return [None if at is None else known[at] for at in array.indices.to_pylist()]
    if test.is_run_end_encoded(one):
        return _of_array(pc.run_end_decode(array))
    if test.is_floating(one):
        return [float_value(value) for value in array.to_pylist()]
    if is_text(one):
        return [text_value(value) for value in array.cast(pa.large_binary()).to_pylist()]
    if test.is_date32(one):
        return array.cast(pa.int32()).to_pylist()
    if test.is_date64(one):
        whole = array.cast(pa.int64()).to_pylist()
        return [v // DAY_MS if v is not None and v % DAY_MS == 0 else v for v in whole]
    if test.is_timestamp(one) or test.is_time(one) or test.is_duration(one):
        integers = array.cast(pa.int32()) if test.is_time32(one) else array.cast(pa.int64())
        unit = NANOSECONDS[one.unit]
        return [None if value is None else value * unit for value in integers.to_pylist()]
    if test.is_interval(one):
        return [None if value is None else tuple(value) for value in array.to_pylist()]
    if test.is_map(one):
        entries = list(zip(_of_array(array.keys), _of_array(array.items), strict=True))
        ends, there = array.offsets.to_pylist(), array.is_valid().to_pylist()
        return [
            tuple(entries[begin:end]) if valid else None
            for begin, end, valid in zip(ends, ends[1:], there, strict=False)
        ]
    if is_list(one):
        inner = iter(_of_array(array.flatten()))
        return [None if n is None else tuple(itertools.islice(inner, n)) for n in _sizes(array)]
    if test.is_struct(one):
        parts = [_of_array(part) for part in array.flatten()]
        names = [part.name for part in one]
        there = array.is_valid().to_pylist()
        rows = zip(*parts, strict=True) if parts else itertools.repeat((), len(array))
        return [
            tuple(zip(names, row, strict=True)) if valid else None
            for valid, row in zip(there, rows, strict=True)
        ]
    return array.to_pylist()


def _sizes(array: pa.Array) -> list[int | None]:
    if pa.types.is_fixed_size_list(array.type):
        there = array.is_valid().to_pylist()
        return [array.type.list_size if valid else None for valid in there]
    return pc.list_value_length(array).to_pylist()


def float_value(value: float | None) -> float | str | None:
    """Return a float so that equal values are equal bits, but for NaN, of which there is one."""
    if value is None:
        return None
    if math.isnan(value):
        return "NaN"
    if value == 0 and math.copysign(1, value) < 0:
        return "-0.0"
    return float(value)


def text_value(value: bytes | None) -> str | None:
    """Return the text of bytes, also if they are not UTF-8."""
    return None if value is None else value.decode("utf-8", "surrogateescape")
