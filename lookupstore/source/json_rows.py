"""Read rows of JSON lines: cut text at line ends, and parse each piece with Arrow.

Arrow reads an integer beyond int64, or in a column with floats, as a float, which may be another
number. The text of such columns is read again. Columns of integers get an exact type. In a column
with floats, an integer that no float equals raises an error.

Errors count rows of the whole text from 1 on.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from lookupstore.arrow.texts import first_bad_text
from lookupstore.source._json import JsonShape, open_value
from lookupstore.source.csv_dialect import USUAL, CsvDialect
from lookupstore.source.reading import check_names, check_there, fitted
from lookupstore.source.source import NeededFields, one_line
from lookupstore.source.text_limits import BY_DEFAULT, MOST_DEPTH, TextLimits, depth_error
from lookupstore.source.text_values import RECODE, typed

# Minimum size of a piece in bytes.
_PIECE = 1 << 19
# Maximum number of bytes of a row, and of a text, that errors show.
_SHOWN = 60
# From this number on, some integers are not equal to any float.
_FLOATS = 2**53
# Integers with at least as many digits as this number, also inside of texts.
_LONG = re.compile(rb"[\s:\[,]-?[0-9]{16,}\s*[,\]}]")
# Position of a value in Arrow's errors, which is relative to the piece.
_PLACE = re.compile(r" in row \d+")
# What Arrow says of a column whose values have two types.
_TWO_TYPES = re.compile(r"\) changed from \w+ to \w+")
_TEXTS = (pa.string(), pa.large_string())
_REMEDY = "give tables or pyarrow.json.read_json(...) with an explicit_schema in its place"
# Position of a value in a column: names of fields, and None for the items of a list.
_Place = tuple[str | None, ...]


class JsonRows:
    """The rows of a file of JSON lines.

    Args:
        blocks: Blocks of the text, without a byte-order mark.
        name: Name of the file, which errors show.
        limits: Limits for the size of one value and one row.
        dialect: Zone and formats of times.

    Raises:
        ValueError: If the first lines are not objects in UTF-8.
        FormatError: If the first row is nested too deeply, or too long.

    >>> rows = JsonRows([b'{"id": 18446744073709551615}\\n'], "users.jsonl")
    >>> rows.schema.field("id").type
    DataType(uint64)
    """

    def __init__(
        self,
        blocks: Iterable[bytes],
        name: str,
        limits: TextLimits = BY_DEFAULT,
        dialect: CsvDialect = USUAL,
    ) -> None:
        self._name = name
        self._dialect = dialect
        self._limits = limits
        self._rows = 0
        self._pieces = self._cut(blocks)
        self._first = next(self._pieces)
        found = self._parsed(self._first, None)
        try:
            check_names(found.schema)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"source: {name}: the name {error.object!r} is not UTF-8; {RECODE}"
            ) from None
        #: Types of the first rows; the type of a column with nothing but nulls is unknown.
        self._first_types = found.schema
        lost = self._numbers(self._first, found)
        fields = [(one.name, _of_texts(one.type)) for one in found.schema]
        self.schema = pa.schema(
            (name, self._exact(kind, name, lost[name])) for name, kind in fields
        )

    def read(
        self, wanted: pa.Schema, needed: NeededFields | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of the rows in the types of a schema.

        Call this method once.

        Args:
            wanted: Columns to read.
            needed: Fields that every row needs, even if its value is null. None: no field; a field
                that a row lacks is null.

        Raises:
            ValueError: If a column is missing, a row lacks a needed field, or a value is not UTF-8
                or not of its type.
            FormatError: If a row is nested too deeply, or too long.
        """
        schema = pa.schema(self._known(field, wanted) for field in self.schema)
        for piece in chain([self._first], self._pieces):
            if piece.isspace():
                continue
            rows = self._parsed(piece, schema)
            self._check_texts(rows)
            for name, places in self._numbers(piece, rows).items():
                for place, numbers in places.items():
                    self._check_floats(name, place, numbers)
            check_there(rows.schema.names, wanted, self._name)
            if needed is not None:
                self._check_fields(piece, rows.select(wanted.names), needed)
            for batch in rows.to_batches():
                columns = [
                    self._fitted(
                        batch.column(field.name), field, self._dialect.format_of(field.name)
                    )
                    for field in wanted
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=wanted)
                self._rows += batch.num_rows

    def _cut(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield text in pieces of whole lines.

        Raises:
            FormatError: If a row is nested too deeply or too long, after all rows before it were
                yielded.
        """
        shape = JsonShape(MOST_DEPTH, self._limits.text)
        held: list[bytes] = []
        size = whole = 0  # bytes held, and bytes of whole lines among them
        for block in blocks:
            bad = shape.move(block)
            end = block.rfind(b"\n") + 1
            if bad >= 0:
                yield from self._rows_before(b"".join([*held, block[:bad]]))
                where = f"source: {self._name}: row {self._rows + 1}"
                raise depth_error(where) if shape.is_too_deep else self._limits.text_error(where)
            if end and size + end >= _PIECE:
                yield b"".join([*held, block[:end]])
                held, size, whole, block = [], 0, 0, block[end:]
            elif end:
                whole = size + end
            held.append(block)
            size += len(block)
            if size - whole > self._limits.row:
                yield from self._rows_before(b"".join(held))
                raise self._limits.row_error(f"source: {self._name}: row {self._rows + 1}")
        if last := b"".join(held):
            yield last

    def _rows_before(self, text: bytes) -> Iterator[bytes]:
        """Yield the rows before the unfinished one at the end of a text, if there are any."""
        before = text[: open_value(text)]
        if before and not before.isspace():
            yield before

    def _known(self, field: pa.Field, wanted: pa.Schema) -> pa.Field:
        """Return the field to parse a column with, of the wanted type if unknown."""
        if field.name not in wanted.names:
            return field
        found = self._first_types.field(field.name).type
        return field.with_type(_with_known(field.type, found, wanted.field(field.name).type))

    def _fitted(self, column: pa.Array, field: pa.Field, form: str | None = None) -> pa.Array:
        """Return a column in another type, with texts parsed as values of that type.

        Args:
            column: Column, or a field of its structs.
            field: Field with the wanted type.
            form: Format of dates and timestamps. None: ISO 8601.
        """
        given, wanted = column.type, field.type
        if pa.types.is_string(given):
            zone = self._dialect.zone
            return typed(column, field, self._name, self._rows + 1, zone, form=form)
        if pa.types.is_struct(given) and pa.types.is_struct(wanted):
            parts = dict(zip((one.name for one in given), column.flatten(), strict=True))
            if parts.keys() == {one.name for one in wanted}:
                columns = [self._fitted(parts[one.name], one) for one in wanted]
                mask = column.is_null()
                return pa.StructArray.from_arrays(columns, fields=list(wanted), mask=mask)
        is_number = pa.types.is_integer(given) or pa.types.is_floating(given)
        if (is_number or pa.types.is_boolean(given)) and wanted in _TEXTS:
            raise ValueError(
                f"source: {self._name}: the column {field.name!r} is to be text, but its first "
                f"rows have values of {given} without quotes; {_one_type(field.name)}"
            )
        return fitted(column, field, self._name, "where it goes", rows_before=self._rows)

    def _parsed(self, piece: bytes, schema: pa.Schema | None) -> pa.Table:
        try:
            return _parsed(piece, schema)
        except pa.ArrowInvalid as error:
            raise self._error(piece, schema, error) from None

    def _error(self, piece: bytes, schema: pa.Schema | None, error: pa.ArrowInvalid) -> ValueError:
        """Return the error for a piece that Arrow cannot parse, with its row and column."""
        lines = piece.splitlines(keepends=True)
        good, bad = 0, len(lines)  # this many lines can be parsed, this many cannot
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                _parsed(b"".join(lines[:middle]), schema)
                good = middle
            except pa.ArrowInvalid as earlier:
                bad, error = middle, earlier
        before, line = _parsed(b"".join(lines[:good]), schema), lines[good]
        name = _bad_column(line, before.schema if schema is None else schema)
        where = f"row {self._rows + before.num_rows + 1}"
        if name is not None:
            where += f", column {name!r}"
        said = _PLACE.sub("", str(error).partition("\n")[0])
        types = "" if schema is None else f"by its first rows it has {one_line(schema)}; "
        shown = line.strip()[:_SHOWN].decode(errors="replace")
        if name is not None and _TWO_TYPES.search(said):  # no schema reads these
            remedy = _one_type(name)
        elif name is not None and schema is not None and name in schema.names:
            kind = schema.field(name).type
            types, remedy = "", f"write values of {kind}, or {_REMEDY}"
        else:
            remedy = f"give an object in each line, or {_REMEDY.removeprefix('give ')}"
        return ValueError(f"source: {self._name}: {said}: {where}: {shown!r}; {types}{remedy}")

    def _check_texts(self, rows: pa.Table) -> None:
        for batch in rows.to_batches():
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                found = first_bad_text(column, name)
                if found is not None:
                    raise ValueError(
                        f"source: {self._name}: the column {found.path!r} is not UTF-8 in row "
                        f"{self._rows + 1 + found.row}: {found.value[:_SHOWN]!r}; {RECODE}"
                    )

    def _check_fields(self, piece: bytes, rows: pa.Table, needed: NeededFields) -> None:
        """Check that no row of a piece lacks a field that other rows have.

        Fields of structs in lists are not checked.
        """
        # Arrow reads a field that is missing as null.
        if not any(_has_nulls(chunk) for column in rows.columns for chunk in column.chunks):
            return
        for row, value in enumerate(_objects(piece), self._rows + 1):
            if value.get(needed.unless) is True:
                continue
            fields = (field for field in rows.schema if field.name not in needed.optional)
            path = _missing_field(value, fields)
            if path is not None:
                raise ValueError(
                    f"source: {self._name}: row {row} has no {path!r}, which other rows have, so "
                    "that its value is not known; put rows with the same fields into a file of "
                    "their own, or write null where a value is to be null"
                )

    def _numbers(self, piece: bytes, rows: pa.Table) -> dict[str, dict[_Place, _Numbers]]:
        """Return the numbers that Arrow may have changed, by column and place.

        A column is missing if Arrow read no such float, or the text contains no such integer.
        """
        found: dict[str, dict[_Place, _Numbers]] = defaultdict(lambda: defaultdict(_Numbers))
        suspects = {
            field.name: field.type
            for field, column in zip(rows.schema, rows.columns, strict=True)
            if any(_may_lose(leaf) for chunk in column.chunks for leaf in _floats(chunk))
        }
        if not suspects or not _LONG.search(piece):
            return found
        for row, value in enumerate(_objects(piece), self._rows + 1):
            for name, kind in suspects.items():
                for place, number in _leaves(value.get(name), kind, ()):
                    found[name][place].add(number, row)
        return found

    def _exact(
        self, kind: pa.DataType, name: str, lost: dict[_Place, _Numbers], place: _Place = ()
    ) -> pa.DataType:
        """Return a type from Arrow, with exact integers instead of floats where needed."""
        if pa.types.is_list(kind):
            return pa.list_(self._exact(kind.value_type, name, lost, (*place, None)))
        if pa.types.is_struct(kind):
            fields = (kind.field(at) for at in range(kind.num_fields))
            return pa.struct(
                (one.name, self._exact(one.type, name, lost, (*place, one.name))) for one in fields
            )
        if place not in lost:
            return kind
        numbers = lost[place]
        if numbers.has_floats:
            self._check_floats(name, place, numbers)
            return kind
        if numbers.least >= 0 and numbers.greatest < 2**64:
            return pa.uint64()
        digits = len(str(max(abs(numbers.least), numbers.greatest)))
        if digits > 76:
            raise ValueError(
                f"source: {self._name}: the column {_path(name, place)!r} has integers of {digits} "
                "digits; a decimal has at most 76: write them as texts"
            )
        return pa.decimal128(38, 0) if digits <= 38 else pa.decimal256(76, 0)

    def _check_floats(self, name: str, place: _Place, numbers: _Numbers) -> None:
        if numbers.inexact is not None:
            number, row = numbers.inexact
            raise ValueError(
                f"source: {self._name}: the column {_path(name, place)!r} is of floats, none of "
                f"which is {number} in row {row}; integers of more than 15 digits beside floats "
                f"are not exact: {_REMEDY}"
            )


@dataclass
class _Numbers:
    """The known facts about the numbers at a place.

    Attributes:
        least: Least integer, or 0 if all are positive.
        greatest: Greatest integer, or 0 if all are negative.
        has_floats: Whether a number is written as a float.
        inexact: First integer that no float equals, and its row. None: There is none.
    """

    least: int = 0
    greatest: int = 0
    has_floats: bool = False
    inexact: tuple[int, int] | None = None

    def add(self, number: int | float, row: int) -> None:
        """Add a number of a row."""
        if isinstance(number, float):
            self.has_floats = True
            return
        self.least, self.greatest = min(self.least, number), max(self.greatest, number)
        if self.inexact is None and int(float(number)) != number:
            self.inexact = number, row


def _parsed(piece: bytes, schema: pa.Schema | None) -> pa.Table:
    if not piece or piece.isspace():  # Arrow refuses such text
        return (pa.schema([]) if schema is None else schema).empty_table()
    parse = pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    if schema is None:
        parse = pa_json.ParseOptions()
    options = pa_json.ReadOptions(use_threads=False, block_size=len(piece) + 1)
    return pa_json.read_json(pa.BufferReader(piece), options, parse)


def _one_type(name: str) -> str:
    """Return the remedy for a column that has texts and other values."""
    return f"write all values of {name!r} in one type, such as text in quotes"


def _bad_column(line: bytes, schema: pa.Schema) -> str | None:
    """Return the column of a row with a wrong type.

    None: The row has another fault.
    """
    try:
        value = json.loads(line)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    for name, one in value.items():
        field = schema.field(name) if name in schema.names else None
        try:
            alone = json.dumps({name: one}).encode()
            _parsed(alone, None if field is None else pa.schema([field]))
        except pa.ArrowInvalid:
            return str(name)
    return next((name for name in value if name not in schema.names), None)


def _path(name: str, place: _Place) -> str:
    return ".".join([name, *(one for one in place if one is not None)])


def _of_texts(kind: pa.DataType) -> pa.DataType:
    """Return a type that Arrow found in JSON, with times as texts."""
    if pa.types.is_timestamp(kind) or pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_of_texts(kind.value_type))
    if pa.types.is_struct(kind):
        fields = (kind.field(at) for at in range(kind.num_fields))
        return pa.struct([(field.name, _of_texts(field.type)) for field in fields])
    return kind


def _in_json(kind: pa.DataType) -> pa.DataType:
    """Return the type that Arrow finds in JSON for values of a type."""
    if pa.types.is_struct(kind):
        return pa.struct([(one.name, _in_json(one.type)) for one in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_in_json(kind.value_type))
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    return pa.bool_() if pa.types.is_boolean(kind) else pa.string()


def _with_known(kind: pa.DataType, found: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """Return a type, with wanted types where the first rows have only nulls, or other numbers."""
    if pa.types.is_null(found):
        return _in_json(wanted)
    if pa.types.is_integer(found) or pa.types.is_floating(found):
        # Later numbers may be fractions, or have more digits than a float.
        if pa.types.is_decimal(wanted):
            return wanted
        return pa.float64() if pa.types.is_floating(wanted) else kind
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        return pa.list_(_with_known(kind.value_type, found.value_type, wanted.value_type))
    if pa.types.is_struct(found) and pa.types.is_struct(wanted):
        others = {one.name: one.type for one in wanted}
        return pa.struct(
            [
                one.with_type(_with_known(one.type, first.type, others.get(one.name, one.type)))
                for one, first in zip(kind, found, strict=True)
            ]
        )
    return kind


def _floats(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the arrays of floats in an array."""
    if pa.types.is_float64(array.type):
        yield array
    elif pa.types.is_list(array.type):
        yield from _floats(array.flatten())
    elif pa.types.is_struct(array.type):
        for child in array.flatten():
            yield from _floats(child)


def _has_nulls(array: pa.Array) -> bool:
    """Return whether an array, or a field of its structs, has a null."""
    if array.null_count:
        return True
    return pa.types.is_struct(array.type) and any(map(_has_nulls, array.flatten()))


def _missing_field(value: dict[str, Any], fields: Iterable[pa.Field]) -> str | None:
    """Return the path of the first field that an object lacks, also inside of structs."""
    for field in fields:
        if field.name not in value:
            return str(field.name)
        one = value[field.name]
        if isinstance(one, dict) and pa.types.is_struct(field.type):
            path = _missing_field(one, field.type)
            if path is not None:
                return f"{field.name}.{path}"
    return None


def _may_lose(floats: pa.Array) -> bool:
    """Return whether a float may have been read from an integer that no float equals."""
    ends = pc.min_max(floats).as_py()
    return ends["min"] is not None and (ends["min"] <= -_FLOATS or ends["max"] >= _FLOATS)


def _objects(piece: bytes) -> Iterator[dict[str, Any]]:
    """Yield the objects of a piece that Arrow has parsed."""
    decoder = json.JSONDecoder(strict=False)
    text = piece.decode(errors="replace").strip()
    at = 0
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        yield value
        while at < len(text) and text[at].isspace():
            at += 1


def _leaves(value: Any, kind: pa.DataType, place: _Place) -> Iterator[tuple[_Place, int | float]]:
    """Yield the numbers of a value where Arrow has floats, and their places."""
    if value is None:
        return
    if pa.types.is_list(kind):
        for one in value:
            yield from _leaves(one, kind.value_type, (*place, None))
    elif pa.types.is_struct(kind):
        for at in range(kind.num_fields):
            field = kind.field(at)
            yield from _leaves(value.get(field.name), field.type, (*place, field.name))
    elif pa.types.is_float64(kind):
        yield place, value
