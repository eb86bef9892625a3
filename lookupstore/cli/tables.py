"""Tables for people: no line is wider than the terminal, and only long texts are cut or folded."""

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

# Rows that are told one below the other where they are too wide: more are a table that is cut.
RECORDS = 10

# A text of one word is an id, an instant, a path or the name of a file, up to so many letters.
_WORD = 80
# Of other texts so many letters at least are shown.
_READABLE = 20


@dataclass(frozen=True)
class _Column:
    """A column as it is printed.

    Attributes:
        name: its header.
        cells: its values.
        is_number: whether they stand at the right.
        is_text: whether they may be cut or folded where they are long.
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
        """The width that its values need, those cut that may be."""
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
    """Return rows as a table no wider than that.

    A few rows that are wider have each value in a line of its own. Of many, long texts are cut, and
    the columns that do not fit even so are left out, and counted below.

    Args:
        schema: of the rows.
        batches: the rows.
        width: of the terminal.
        counts: columns of counts, which have separators of thousands.
        telling: columns that are left out last, where many rows are shown.
    """
    columns = _columns(schema, batches, counts)
    rows = len(columns[0].cells) if columns else 0
    if 0 < rows <= RECORDS and 1 + sum(max(one.header, one.whole) + 3 for one in columns) > width:
        return _records(columns, width, "column")
    return _beside(columns, width, {printable(name) for name in telling})


def list_table(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], width: int, counts: Collection[str] = ()
) -> Table:
    """Return rows as a table whose columns stand from the most to the least telling."""
    return _beside(_columns(schema, batches, counts), width)


def fields_table(fields: Mapping[str, object], width: int) -> Table:
    """Return names and values as a table of two columns; numbers are counts."""
    columns = [
        _Column(printable(name), [Text(printable(_field(value)))], is_number=False, is_text=True)
        for name, value in fields.items()
    ]
    return _records(columns, width, "field")


def _beside(columns: Sequence[_Column], width: int, telling: Collection[str] = ()) -> Table:
    """Return the columns that fit beside each other, each row in one line."""
    least = [max(one.header, one.least) for one in columns]
    fit, left = [], width - 1
    for i in sorted(range(len(columns)), key=lambda i: columns[i].name not in telling):
        if least[i] + 3 <= left:
            fit.append(i)
            left -= least[i] + 3
    # Of a terminal with room for none there is still to be seen that there are rows.
    fit = sorted(fit) or [*range(len(columns))][:1]
    table = _table(len(columns) - len(fit), "column")
    # What room is left the cut texts share.
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
    """Return rows one below the other, each as its names and values, of which texts are folded."""
    shown: list[_Column] = []
    header = least = 0
    for one in columns:
        wider, longer = max(header, one.header), max(least, one.least)
        if wider + longer + 7 <= width:
            shown.append(one)
            header, least = wider, longer
    if not shown:  # a cut value says that it is one, and one in two lines does not
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
    """Return values as they are typed: numbers plain, and as JSON and CSV have them."""
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
    if types.is_duration(kind) and kind.unit == "ns":  # which Python has not
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
