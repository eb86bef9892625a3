"""What the commands print: tables for people, JSON lines, CSV and Arrow streams for pipes."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

import click
import pyarrow as pa
import pyarrow.csv as pa_csv
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lookupstore.sst.dump import text

#: Rows that a table shows unless `--limit` says otherwise.
TABLE_ROWS = 50


class OutputConsole(Console):
    """Print to a terminal in its width, to a pipe in the width of what is printed."""

    def __init__(self) -> None:
        super().__init__(width=None if sys.stdout.isatty() else 10_000, highlight=False)

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to the main command, which ends silently."""
        raise BrokenPipeError


def write_rows(schema: pa.Schema, batches: Iterable[pa.RecordBatch], output: str) -> None:
    """Print rows as ``table``, ``json`` (one object a line), ``csv`` or ``arrow`` (an IPC stream).

    Raises:
        ValueError: a column that CSV can not hold.
    """
    if output == "json":
        for batch in batches:
            for line in json_lines(batch):
                click.echo(line)
    elif output == "table":
        OutputConsole().print(_rows_table(schema, batches))
    elif output == "arrow":
        with pa.ipc.new_stream(sys.stdout.buffer, schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
    else:
        try:
            with pa_csv.CSVWriter(sys.stdout.buffer, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{error}; choose columns, or --output json or arrow") from None


def limited(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the first `limit` rows."""
    for batch in batches:
        if limit is None:
            yield batch
            continue
        if batch.num_rows:
            yield batch.slice(0, limit)
        limit -= min(limit, batch.num_rows)
        if limit == 0:
            return


def write_json(value: object) -> None:
    """Print one JSON value, indented."""
    click.echo(json.dumps(value, indent=2, default=str, ensure_ascii=False))


def write_fields(title: str, fields: Mapping[str, object]) -> None:
    """Print names and values as a table of two columns."""
    table = Table(show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in fields.items():
        # Text, because rich takes the brackets of timestamp[us] for its markup.
        table.add_row(name, Text(f"{value:,}" if isinstance(value, int) else str(value)))
    click.echo(title)
    OutputConsole().print(table)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> counted(1, "file"), counted(2000, "file")
    ('1 file', '2,000 files')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def json_lines(batch: pa.RecordBatch) -> Iterator[str]:
    """Yield each row as a JSON object.

    >>> list(json_lines(pa.RecordBatch.from_pylist([{"id": 1, "raw": b"\\xff"}])))
    ['{"id": 1, "raw": {"hex": "ff"}}']
    """
    for row in _without_nanoseconds(batch).to_pylist():
        yield json.dumps(plain(row), ensure_ascii=False)


def plain(value: Any) -> Any:
    """Return a Python value as JSON has it.

    Dates and times are ISO 8601 text, decimals and infinities text, durations seconds; bytes are
    text where they are UTF-8, else ``{"hex": digits}``.
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
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"hex": value.hex()}
    return value


def _rows_table(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Table:
    table = Table()
    for field in schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        table.add_column(field.name, justify="right" if number else "left", overflow="fold")
    for batch in batches:
        for row in _without_nanoseconds(batch).to_pylist():
            table.add_row(*(_cell(value) for value in row.values()))
    return table


def _cell(value: Any) -> Text:
    if value is None:
        return Text("null", style="dim")
    if isinstance(value, bytes):
        return Text(text(value))
    if isinstance(value, datetime.datetime):
        return Text(value.isoformat(" "))
    if isinstance(value, (dict, list)):
        return Text(json.dumps(plain(value), ensure_ascii=False))
    return Text(str(value))


def _without_nanoseconds(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with nanosecond times as text, as Python has none."""
    columns = []
    for column in batch.columns:
        kind = column.type
        if getattr(kind, "unit", None) == "ns":
            column = column.cast(pa.int64() if pa.types.is_duration(kind) else pa.string())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
