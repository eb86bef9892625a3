"""Read rows of CSV: cut text between rows, and parse each piece with Arrow.

Errors count rows of the whole text: row 1 is the first row after the line of names.
"""

from __future__ import annotations

import csv
import io
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from lookupstore.arrow.types import first_invalid
from lookupstore.errors import FormatError
from lookupstore.source._csv import RowEnds
from lookupstore.source.csv_dialect import POINT, USUAL, CsvDialect
from lookupstore.source.text_limits import BY_DEFAULT, TextLimits
from lookupstore.source.text_values import MISFITS, RECODE, type_of, typed, typed_or_null
from lookupstore.source.time_formats import likely_formats

# Minimum size of a piece in bytes.
_PIECE = 1 << 19
# Maximum number of bytes of a row, and of a text, that errors show.
_SHOWN = 60
# Number of values that show the notation of dates.
_FEW = 100
# Arrow's error about a row with another number of fields than names.
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", re.DOTALL)
# Numbers that may have points between thousands, and a comma before the fraction.
_WITH_COMMA = r"^[+-]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+)(,[0-9]+)?$"

_log = logging.getLogger(__name__)


class CsvRows:
    """The rows of a CSV file.

    Args:
        blocks: Blocks of the text, without a byte-order mark, from its line of names on.
        name: Name of the file, which errors show.
        limits: Limits for the size of one value and one row.
        dialect: Separator, quotes, nulls, names and decimal separator.

    Raises:
        ValueError: If the first lines are not CSV in UTF-8, or are separated by semicolons or
            vertical bars, or columns lack a name.
        FormatError: If the first row is too long.

    >>> rows = CsvRows([b"id,zip\\n1,02134\\n"], "users.csv")
    >>> next(rows.read(pa.schema([("zip", pa.string())]))).to_pylist()
    [{'zip': '02134'}]
    """

    def __init__(
        self,
        blocks: Iterable[bytes],
        name: str,
        limits: TextLimits = BY_DEFAULT,
        dialect: CsvDialect = USUAL,
    ) -> None:
        blocks = iter(blocks)
        self._name = name
        self._limits = limits
        self._dialect = dialect
        self.names: list[str] = list(dialect.names or ())
        head = next(blocks, b"")
        self._separator = _separator(head, name, dialect)
        self._pieces = self._cut(chain([head], blocks))
        if dialect.names is not None:
            self._rows = 0
            self._first = next(self._pieces, b"")
            return
        self._rows = -1  # number of rows read, after the line of names
        first = next(self._pieces).lstrip(b"\r\n")
        line, self._first = self._split(first)
        self.names = self._names(line)
        self._rows = 0

    def schema(self) -> pa.Schema:
        """Return the schema, in types that fit all values of the first piece."""
        kinds = [pa.string()] * len(self.names)
        if self._first.strip(b"\r\n"):
            columns = self._parsed(self._first, self.names, pa.binary())
            kinds = [_type_of(one, self._dialect) for one in columns]
            for name, kind, column in zip(self.names, kinds, columns, strict=True):
                if kind == pa.string():
                    self._note_numbers(name, column)
                    self._note_dates(name, column)
        return pa.schema(zip(self.names, kinds, strict=True))

    def _note_numbers(self, name: str, column: pa.Array) -> None:
        """Log that a column is text because its numbers have a comma, or points in thousands.

        Args:
            name: Name of the column.
            column: Its first values, as bytes.
        """
        values = column.drop_null()
        if not len(values) or not pc.all(pc.match_substring_regex(values, _WITH_COMMA)).as_py():
            return
        fractions = values.filter(pc.match_substring(values, ","))
        if not len(fractions):
            return
        thousands = values.filter(pc.match_substring(values, POINT))
        remedies = ["take out points between thousands"] if len(thousands) else []
        if self._dialect.decimal == POINT:
            remedies.append("give --decimal ','")
        shown = _text((thousands if len(thousands) else fractions)[0].as_py())
        _log.info(
            "%s: the column %r is text, because its numbers are written as %r; to read numbers, %s",
            self._name,
            name,
            shown,
            " and ".join(remedies),
        )

    def _note_dates(self, name: str, column: pa.Array) -> None:
        """Log that a column is text because its dates or times are not ISO 8601.

        Texts such as 31.01.2026 are not in the order of their dates.

        Args:
            name: Name of the column.
            column: Its first values, as bytes.
        """
        texts = [_text(one) for one in column[:_FEW].drop_null().to_pylist()]
        forms = likely_formats(texts)
        if not forms:
            return
        kind = "timestamp_ntz" if "%M" in forms[0] else "date"
        _log.info(
            "%s: the column %r is text, because its %s are written as %r; to read %s, give %s",
            self._name,
            name,
            "times" if kind == "timestamp_ntz" else "dates",
            texts[0],
            "times" if kind == "timestamp_ntz" else "dates",
            " or ".join(f"--types '{name}={kind}({form})'" for form in forms),
        )

    def read(self, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield columns of the rows in the types of a schema.

        Call this method once.

        Args:
            wanted: Columns to read. A column `MISFITS` has the reason for which a row has a value
                that is not of its type; that value is null.

        Raises:
            ValueError: If a row has more or fewer fields than the line of names, a quote is wrong,
                a value is not UTF-8, or it is not of its type and `MISFITS` is not wanted.
            FormatError: If a value or a row is too long.
        """
        for piece in chain([self._first], self._pieces):
            if not piece.strip(b"\r\n"):
                continue
            batch = self._batch(piece, wanted)
            self._rows += batch.num_rows
            yield batch

    def _batch(self, piece: bytes, wanted: pa.Schema) -> pa.RecordBatch:
        """Return columns of a piece in the types of a schema; see `read`."""
        reports = MISFITS not in self.names  # otherwise it is a column of the file
        fields = [field for field in wanted if not (reports and field.name == MISFITS)]
        columns = self._texts(piece, [field.name for field in fields])
        name, row = self._name, self._rows + 1
        zone, decimal, form = self._dialect.zone, self._dialect.decimal, self._dialect.format_of
        if len(fields) == len(wanted):
            values = [
                typed(texts, field, name, row, zone, decimal, form(field.name))
                for texts, field in zip(columns, fields, strict=True)
            ]
            return pa.RecordBatch.from_arrays(values, schema=wanted)
        found: dict[str, pa.Array] = {}
        misfits: dict[int, str] = {}
        for texts, field in zip(columns, fields, strict=True):
            found[field.name], bad = typed_or_null(
                texts, field, name, row, zone, decimal, form(field.name)
            )
            misfits = bad | misfits  # the first reason of each row counts
        rows = range(len(columns[0]))
        found[MISFITS] = pa.array([misfits.get(row) for row in rows], pa.string())
        return pa.RecordBatch.from_arrays([found[name] for name in wanted.names], schema=wanted)

    def _cut(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the text in pieces of whole rows.

        Raises:
            ValueError: If a quote is wrong, after all rows before it were yielded.
            FormatError: If a value or a row is too long, after all rows before it were yielded.
        """
        ends = RowEnds(self._separator, self._dialect.quote)
        held: list[bytes] = []
        size = whole = 0  # bytes held, and bytes of whole rows among them
        is_long = False
        for block in blocks:
            end = ends.move(block)
            whole = size + end if end else whole
            held.append(block)
            size += len(block)
            is_long = ends.field_bytes > self._limits.text or size - whole > self._limits.row
            if ends.is_wrong or is_long:
                break
            if whole >= _PIECE:
                text = b"".join(held)
                yield text[:whole]
                held, size, whole = [text[whole:]], size - whole, 0
        text = b"".join(held)
        if not (ends.is_wrong or ends.is_open or is_long):
            if text:
                yield text
            return
        if whole:
            yield text[:whole]
        # The error is raised only now: the rows before it have been counted.
        if is_long:
            raise self._long_error(text[whole:], ends.field_bytes)
        what = "has a quote that is never closed"
        if ends.is_wrong:
            what = "has text after the quote that closes a field; two quotes within quotes are one"
        raise self._row_error(text[whole:], what)

    def _where(self) -> str:
        return "the line of names" if self._rows < 0 else f"row {self._rows + 1}"

    def _long_error(self, row: bytes, field_bytes: int) -> FormatError:
        """Return the error for a row that is cut within a field."""
        where = f"source: {self._name}: {self._where()}"
        if field_bytes <= self._limits.text:
            return self._limits.row_error(where)
        at = len(self._fields(row[:-field_bytes])) - 1
        column = f", column {self.names[at]!r}" if 0 <= at < len(self.names) else ""
        return self._limits.text_error(f"{where}{column}")

    def _row_error(self, text: bytes, what: str) -> ValueError:
        row = self._where()
        shown = text.lstrip(b"\r\n")[:_SHOWN]
        return ValueError(
            f"source: {self._name}: {row} {what}: {_text(shown)!r}; if these quotes are text, pass "
            "pyarrow.csv.read_csv(...) with ParseOptions(quote_char=False)"
        )

    def _split(self, text: bytes) -> tuple[bytes, bytes]:
        """Return the first row of a piece without its line end, and the rest of the piece."""
        ends, start = RowEnds(self._separator, self._dialect.quote), 0
        while start < len(text):
            found = [at for at in (text.find(b"\n", start), text.find(b"\r", start)) if at >= 0]
            stop = min(found, default=len(text) - 1) + 1
            if ends.move(text[start:stop]):
                return text[: stop - 1], text[stop:]
            start = stop
        return text, b""

    def _names(self, line: bytes) -> list[str]:
        try:
            line.decode()
        except UnicodeDecodeError:
            raise ValueError(
                f"source: {self._name}: the line of names is not UTF-8: {line[:_SHOWN]!r}; {RECODE}"
            ) from None
        if b"\0" in line:
            raise ValueError(
                f"source: {self._name}: the line of names has zero bytes, as text in UTF-16 has: "
                f"{line[:_SHOWN]!r}; convert it to UTF-8, such as by `iconv -f utf-16 -t utf-8`"
            )
        names = self._fields(line)
        if names.count("") > 1:
            raise ValueError(
                f"source: {self._name}: the first line does not name all columns: "
                f"{line[:_SHOWN].decode(errors='replace')!r}; delete the lines before the line of "
                "names, or name each column"
            )
        return names

    def _fields(self, line: bytes) -> list[str]:
        return _fields(line, self._separator, self._dialect.quote)

    def _texts(self, piece: bytes, names: Sequence[str]) -> list[pa.Array]:
        """Return columns of a piece as strings."""
        try:
            columns = self._parsed(piece, names, pa.string())
        except pa.ArrowInvalid as error:  # it has numbers of columns, and of rows in the piece
            for name, column in zip(names, self._parsed(piece, names, pa.binary()), strict=True):
                try:
                    column.cast(pa.string())
                except pa.ArrowInvalid:
                    at = first_invalid(column, pa.string())
                    raise ValueError(
                        f"source: {self._name}: the column {name!r} is not UTF-8 in row "
                        f"{self._rows + 1 + at}: {column[at].as_py()[:_SHOWN]!r}; {RECODE}, or "
                        "pass pyarrow.csv.read_csv(...) with ReadOptions(encoding=...)"
                    ) from None
            raise ValueError(f"source: {self._name}: {error}") from None
        if len(piece) > self._limits.text:
            self._check_lengths(columns, names)
        return columns

    def _check_lengths(self, columns: Sequence[pa.Array], names: Sequence[str]) -> None:
        for name, column in zip(names, columns, strict=True):
            is_long = pc.greater(pc.binary_length(column), self._limits.text)
            at = pc.index(is_long, True).as_py()
            if at >= 0:
                raise self._limits.text_error(
                    f"source: {self._name}: row {self._rows + 1 + at}, column {name!r}"
                )

    def _parsed(self, piece: bytes, names: Sequence[str], kind: pa.DataType) -> list[pa.Array]:
        """Return columns of a piece as strings or as bytes."""
        try:
            table = pa_csv.read_csv(
                pa.BufferReader(piece),
                pa_csv.ReadOptions(
                    use_threads=False, block_size=len(piece) + 1, column_names=self.names
                ),
                pa_csv.ParseOptions(
                    delimiter=self._separator,
                    quote_char=self._dialect.quote or False,
                    newlines_in_values=True,
                ),
                pa_csv.ConvertOptions(
                    include_columns=names,
                    column_types=dict.fromkeys(names, kind),
                    null_values=self._dialect.nulls,
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            # Arrow does not report rows that are not UTF-8 to a handler of invalid rows.
            wrong = _RAGGED.search(str(error))
            if wrong is None:
                raise
            number, expected, found, text = wrong.groups()
            names = "the line of names" if self._dialect.names is None else "there are names for"
            raise ValueError(
                f"source: {self._name}: row {self._rows + int(number)} has {found} fields, and "
                f"{names} {expected}: {text[:_SHOWN]!r}; quote fields that have a "
                f"{self._separator!r}, or pass pyarrow.csv.read_csv(...) with an "
                "invalid_row_handler"
            ) from None
        return [one.combine_chunks() for one in table]


def names_at(head: bytes, name: str, dialect: CsvDialect = USUAL) -> list[str]:
    """Return the names in the first line of a text, read as a line of names.

    Args:
        head: Beginning of the text, as far as it was read, without a byte-order mark.
        name: Name of the file, which errors show. An extension `.tsv` means that tabs separate
            names.
        dialect: Separator and quotes.

    Raises:
        ValueError: If semicolons or vertical bars separate the names without being the separator,
            or a quote is wrong.

    >>> names_at(b"id\\tzip\\n1\\t2\\n", "users.csv")
    ['id', 'zip']
    """
    separator = _separator(head, name, dialect)
    return _fields(_first_line(head, dialect.quote), separator, dialect.quote)


def _fields(line: bytes, separator: str, quote: str | None) -> list[str]:
    """Return the fields of the first row of CSV, which may span several lines.

    Raises:
        ValueError: If the text is not a row of CSV.
    """
    try:
        text = io.StringIO(_text(line), newline="")
        if quote is None:
            rows = csv.reader(text, delimiter=separator, quoting=csv.QUOTE_NONE)
        else:
            rows = csv.reader(text, delimiter=separator, quotechar=quote)
        return next(rows, [])
    except csv.Error as error:
        raise ValueError(f"source: a first line of CSV: {error}") from None


def _text(text: bytes) -> str:
    return text.decode(errors="replace")


def _first_line(head: bytes, quote: str | None) -> bytes:
    """Return the first row of a text, up to a line end after an even number of quotes."""
    head = head.lstrip(b"\r\n")
    ends = b"\n" if b"\n" in head else b"\r"
    start, is_open = 0, False
    while (end := head.find(ends, start)) >= 0:
        if quote is not None:
            is_open ^= head.count(quote.encode(), start, end) % 2 == 1
        if not is_open:
            return head[:end]
        start = end + 1
    return head


def _separator(head: bytes, name: str, dialect: CsvDialect) -> str:
    """Return the separator of the fields in a text that begins with `head`.

    Raises:
        ValueError: If the separator is a semicolon, since numbers may then have a comma, or is
            another sign than a comma or tab.
    """
    if dialect.separator is not None:
        return dialect.separator
    line = _first_line(head, dialect.quote)
    if ".tsv" in name.lower()[-8:] or line.count(b"\t") > line.count(b","):
        return "\t"
    for sign in ";|":
        if sign.encode() in line and b"," not in line:
            raise ValueError(
                f"source: {name} is separated by {sign!r}; pass pyarrow.csv.open_csv(...) with "
                "parse_options, and with convert_options where codes such as 02134 are text"
            )
    return ","


def _type_of(column: pa.Array, dialect: CsvDialect) -> pa.DataType:
    """Return the type of a column of bytes, which is text if it is not UTF-8."""
    try:
        return type_of(column.cast(pa.string()), dialect.decimal, dialect.zone)
    except pa.ArrowInvalid:
        return pa.string()
