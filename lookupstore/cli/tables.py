"""Tables for users: no line is wider than the terminal, and only long texts are cut or folded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from lookupstore.cli.json_text import json_texts
from lookupstore.errors import printable
from lookupstore.quantities import counted, number_text
from lookupstore.sst.dump import text

# Maximum number of rows that are printed below each other if they are too wide; more rows are
# printed as a table with cut texts.
RECORDS = 10

# Maximum length of a text of one word that is not cut: an id, an instant, a path or a file name.
_WORD = 80
# Minimum number of characters shown of other texts.
_READABLE = 20


@dataclass(frozen=True)
class _Column:
    """A column of a printed table.

    Attributes:
        name: Header of the column.
        cells: Values of the column.
        is_number: Whether the values are aligned to the right.
        is_text: Whether long values may be cut or folded.
    """

    name: str
    cells: Sequence[Text]
    is_number: bool
    is_text: bool

    @property
    def header(self) -> int:
        """The width of the name, which is never cut."""
        return cell_len(self.name)

    @property
    def least(self) -> int:
        """The width that its values need if long texts are cut."""
        if not self.is_text:
            return self.whole
        return max(map(_least, self.cells), default=0)

    @property
    def whole(self) -> int:
        """The width of the longest value."""
        return max((one.cell_len for one in self.cells), default=0)


def rows_table(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    width: int,
    counts: Collection[str] = (),
    telling: Collection[str] = (),
) -> Table:
    """Return rows as a table that is no wider than the terminal.

    If it would be wider and has few rows, each value has a line of its own. With many rows, long
    texts are cut. Columns that still do not fit are left out, and counted below the table.

    Args:
        schema: Columns of the rows.
        batches: Rows to show.
        width: Width of the terminal, in characters.
        counts: Columns of counts, which have separators of thousands.
        telling: Columns that are left out last, if many rows are shown.
    """
    columns = _columns(schema, batches, counts)
    rows = len(columns[0].cells) if columns else 0
    if 0 < rows <= RECORDS and 1 + sum(max(one.header, one.whole) + 3 for one in columns) > width:
        return _records(columns, width, "column")
    return _beside(columns, width, {printable(name) for name in telling})


def list_table(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], width: int, counts: Collection[str] = ()
) -> Table:
    """Return rows as a table with the most important columns first."""
    return _beside(_columns(schema, batches, counts), width)


def fields_table(fields: Mapping[str, object], width: int) -> Table:
    """Return names and values as a table of two columns; numbers are counts."""
    columns = [
        _Column(printable(name), [Text(printable(_field(value)))], is_number=False, is_text=True)
        for name, value in fields.items()
    ]
    return _records(columns, width, "field")


def _beside(columns: Sequence[_Column], width: int, telling: Collection[str] = ()) -> Table:
    """Return the columns that fit next to each other, each row in one line."""
    least = [max(one.header, one.least) for one in columns]
    fit, left = [], width - 1
    for i in sorted(range(len(columns)), key=lambda i: columns[i].name not in telling):
        if least[i] + 3 <= left:
            fit.append(i)
            left -= least[i] + 3
    # If the terminal has no room for any column, one is shown so that the rows are visible.
    fit = sorted(fit) or [*range(len(columns))][:1]
    table = _table(len(columns) - len(fit), "column")
    # The remaining room is shared by the cut texts.
    widths = dict.fromkeys(fit, 0)
    shortest = sorted(fit, key=lambda i: columns[i].whole - least[i])
    for place, i in enumerate(shortest):
        more = min(max(columns[i].whole - least[i], 0), max(left, 0) // (len(shortest) - place))
        widths[i] = least[i] + more
        left -= more
    for i in fit:
        one = columns[i]
        table.add_column(
            Text(one.name),
            justify="right" if one.is_number else "left",
            width=min(widths[i], max(width - 4, 1)),
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in zip(*(columns[i].cells for i in fit), strict=True):
        table.add_row(*row)
    return table


def _records(columns: Sequence[_Column], width: int, noun: str) -> Table:
    """Return rows below each other, each as its names and values; long texts are folded."""
    shown: list[_Column] = []
    header = least = 0
    for one in columns:
        wider, longer = max(header, one.header), max(least, one.least)
        if wider + longer + 7 <= width:
            shown.append(one)
            header, least = wider, longer
    if not shown:  # a cut value is marked as such, a value in two lines is not
        return _beside(columns, width)
    table = _table(len(columns) - len(shown), noun)
    table.show_header = False
    table.add_column(style="bold", overflow="fold")
    whole = max((one.whole for one in shown), default=0)
    table.add_column(width=max(min(whole, width - header - 7), 1), overflow="fold")
    for row in zip(*(one.cells for one in shown), strict=True):
        for one, value in zip(shown, row, strict=True):
            table.add_row(Text(one.name), value)
        table.add_section()
    return table


def _table(left_out: int, noun: str) -> Table:
    caption = f"… {counted(left_out, f'more {noun}')}" if left_out else None
    return Table(caption=caption, caption_justify="left")


def _least(cell: Text) -> int:
    """Return the width that a text needs: all of it if it is short, or one word."""
    whole = cell.cell_len
    is_long = whole > _WORD or " " in cell.plain
    return min(whole, _READABLE) if is_long else whole


def _columns(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], counts: Collection[str]
) -> list[_Column]:
    rows = pa.Table.from_batches(batches, schema)
    columns = []
    for field, column in zip(schema, rows.columns, strict=True):
        texts = [
            shown
            for chunk in column.chunks
            for shown in (_counts(chunk) if field.name in counts else _texts(chunk))
        ]
        cells = [
            Text("null", style="dim") if one is None else Text(printable(one)) for one in texts
        ]
        kind = _stored(field.type)
        columns.append(_Column(printable(field.name), cells, _is_number(kind), not _is_one(kind)))
    return columns


def _field(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return number_text(value) if isinstance(value, int) else str(value)


def _counts(column: pa.Array) -> list[str | None]:
    return [None if one is None else number_text(one) for one in column.to_pylist()]


def _texts(column: pa.Array) -> list[str | None]:
    """Return values in the form in which users type them: numbers plain, others as in JSON."""
    kind = _stored(column.type)
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    types = pa.types
    is_json = types.is_boolean(kind) or types.is_nested(kind) or _is_number(kind)
    if is_json or types.is_date(kind) or types.is_time(kind) or types.is_timestamp(kind):
        quoted = json_texts(column).to_pylist()
        shown = quoted if types.is_nested(kind) else [one.strip('"') for one in quoted]
        if types.is_timestamp(kind):
            shown = [one.replace("T", " ") for one in shown]
        there = column.is_valid().to_pylist()
        return [one if is_there else None for one, is_there in zip(shown, there, strict=True)]
    if types.is_duration(kind) and kind.unit == "ns":  # a type that Python lacks
        column = column.cast(pa.int64())
    return [_text(one) for one in column.to_pylist()]


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return text(value) if isinstance(value, bytes) else str(value)


def _stored(kind: pa.DataType) -> pa.DataType:
    return _stored(kind.value_type) if pa.types.is_dictionary(kind) else kind


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _is_one(kind: pa.DataType) -> bool:
    """Return whether values are of use as a whole only: numbers, times and truths."""
    types = pa.types
    return bool(_is_number(kind) or types.is_temporal(kind) or types.is_boolean(kind))
