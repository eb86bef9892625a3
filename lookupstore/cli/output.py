"""What the commands print: tables for people, JSON lines, CSV and Arrow streams for pipes."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import click
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lookupstore.sst.dump import text

#: Rows that a table shows unless `--limit` says otherwise.
TABLE_ROWS = 50

# A cell of fewer letters in a line is a nuisance to read; a date has as many.
_READABLE = 10

_ISO = (
    (r"^(\d{4,}-\d\d-\d\d) ", r"\1T"),
    (r"Z$", "+00:00"),
    (r"([+-]\d\d)(\d\d)$", r"\1:\2"),
    (r"\.(\d{6})000", r".\1"),
    (r"\.000000($|[+-])", r"\1"),
)


class OutputConsole(Console):
    """A console as wide as the terminal; in a pipe, as wide as what is printed."""

    def __init__(self) -> None:
        super().__init__(width=None if sys.stdout.isatty() else 10_000, highlight=False)

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to the main command, which ends silently."""
        raise BrokenPipeError


def write_rows(schema: pa.Schema, batches: Iterable[pa.RecordBatch], output: str) -> None:
    """Print rows as ``table``, ``json`` (an object per line), ``csv`` or ``arrow`` (an IPC stream).

    In a terminal too narrow for the columns beside each other a table has them one below the other.
    Bytes are ``0x`` and hex digits in JSON and CSV, as the commands read them in keys.

    Raises:
        ValueError: a column that CSV can not hold; nothing is printed then.
    """
    if output == "json":
        for batch in batches:
            for line in json_lines(batch):
                click.echo(line)
    elif output == "table":
        console = OutputConsole()
        console.print(rows_table(schema, batches, console.width))
    elif output == "arrow":
        with pa.ipc.new_stream(sys.stdout.buffer, schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
    else:
        schema = _csv_schema(schema)
        with pa_csv.CSVWriter(sys.stdout.buffer, schema) as writer:
            for batch in batches:
                writer.write_batch(_csv_batch(batch, schema))


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


def write_first_rows(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], output: str, limit: int | None
) -> None:
    """Write rows up to a limit; as a table without one, the first few, and say if there are more.

    Args:
        schema: of the rows.
        batches: all of them.
        output: as of `write_rows`.
        limit: how many; None: all, unless they are a table.
    """
    if output != "table" or limit is not None:
        write_rows(schema, limited(batches, limit), output)
        return
    # One row more than is shown tells whether there are more.
    rows = pa.Table.from_batches(limited(batches, TABLE_ROWS + 1), schema)
    write_rows(schema, rows.slice(0, TABLE_ROWS).to_batches(), output)
    if rows.num_rows > TABLE_ROWS:
        click.echo(f"first {TABLE_ROWS} rows; --limit N shows more", err=True)


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


def size_text(nbytes: int) -> str:
    """Return a size for people.

    >>> size_text(999), size_text(9_712_345), size_text(53_000_000_000)
    ('999 bytes', '9.7 MB', '53.0 GB')
    """
    if nbytes < 1000:
        return counted(nbytes, "byte")
    power = min((len(str(nbytes)) - 1) // 3, 4)
    return f"{nbytes / 1000**power:,.1f} {('kB', 'MB', 'GB', 'TB')[power - 1]}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> counted(1, "file"), counted(2000, "file")
    ('1 file', '2,000 files')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def json_lines(batch: pa.RecordBatch) -> Iterator[str]:
    """Yield each row as a JSON object.

    >>> list(json_lines(pa.RecordBatch.from_pylist([{"id": 1, "raw": b"\\xff"}])))
    ['{"id": 1, "raw": "0xff"}']
    """
    columns = [_json_column(column) for column in batch.columns]
    for row in pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist():
        yield json.dumps(plain(row), ensure_ascii=False)


def plain(value: Any) -> Any:
    """Return a Python value as JSON has it.

    Dates and times are ISO 8601 text, decimals and infinities text, durations seconds; bytes are
    ``0x`` and hex digits.
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
        return f"0x{value.hex()}"
    return value


def _csv_schema(schema: pa.Schema) -> pa.Schema:
    fields = []
    for field in schema:
        kind = _csv_type(field.type)
        try:
            pa_csv.write_csv(pa.table({field.name: pa.nulls(1, kind)}), pa.BufferOutputStream())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise ValueError(
                f"column {field.name!r}: CSV cannot hold {field.type}; "
                "choose --columns without it, or --output json or arrow"
            ) from None
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def _csv_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _csv_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _csv_type(kind.value_type)
    return pa.string() if _is_bytes(kind) else kind


def _csv_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for column in batch.columns:
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        if isinstance(column, pa.DictionaryArray):
            column = column.dictionary_decode()
        if _is_bytes(column.type):
            column = pa.array([plain(value) for value in column.to_pylist()], pa.string())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def _json_column(column: pa.Array) -> pa.Array:
    """Return the column with nanoseconds, which Python lacks, in the form of other units."""
    kind = column.type
    if getattr(kind, "unit", None) != "ns":
        return column
    if pa.types.is_duration(kind):
        return pc.divide(column.cast(pa.int64()).cast(pa.float64(), safe=False), 1e9)
    # As isoformat() writes microseconds: a "T", no fraction of zeros, a colon in the offset.
    shown = column.cast(pa.string())
    for pattern, form in _ISO:
        shown = pc.replace_substring_regex(shown, pattern, form)
    return shown


def rows_table(schema: pa.Schema, batches: Iterable[pa.RecordBatch], width: int) -> Table:
    """Return rows as a table, each value in a line of its own if they are wider than that."""
    rows = [
        [_cell(value) for value in row]
        for batch in batches
        for row in zip(
            *(column.to_pylist() for column in _without_nanoseconds(batch).columns), strict=True
        )
    ]
    longest = [
        max(len(name), *(min(len(row[i]), _READABLE) for row in rows), 0)
        for i, name in enumerate(schema.names)
    ]
    if rows and sum(longest) + 3 * len(longest) + 1 > width:
        return _records_table(schema.names, rows)
    table = Table()
    for field in schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        table.add_column(field.name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _records_table(names: Sequence[str], rows: Sequence[Sequence[Text]]) -> Table:
    """Return rows one below the other, each as its names and values."""
    table = Table(show_header=False)
    table.add_column(style="bold", overflow="fold")
    table.add_column(overflow="fold")
    for row in rows:
        for name, value in zip(names, row, strict=True):
            table.add_row(Text(name), value)
        table.add_section()
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
