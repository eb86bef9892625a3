"""Output of the commands: tables for users, JSON lines, CSV and Arrow streams for pipes."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from typing import Any, NoReturn

import click
import pyarrow as pa
from click.core import ParameterSource
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from lookupstore.cli.csv_text import csv_lines, csv_names
from lookupstore.cli.json_text import json_lines, json_of
from lookupstore.cli.tables import fields_table, list_table, rows_table
from lookupstore.cli.terminal import STANDARD_OUTPUT, echo
from lookupstore.columnar.parquet_rows import ParquetRowWriter
from lookupstore.errors import printable
from lookupstore.progress import watched
from lookupstore.storage.home import expanded
from lookupstore.storage.naming import naming, temporary_name

#: Maximum number of rows of a table without `--limit`.
TABLE_ROWS = 50


class OutputConsole(Console):
    """A console as wide as the terminal; in a pipe, as wide as the output."""

    def __init__(self) -> None:
        super().__init__(
            width=None if sys.stdout.isatty() else 10_000,
            highlight=False,
            markup=False,
            emoji=False,
        )

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Yield the output, escaping texts that were not escaped before."""
        for one in super().render(renderable, options):
            text, style, control = one
            plain = text if control else printable(text, but="\n")
            yield one if plain == text else Segment(plain, style)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects; an error of writing names the output."""
        with naming(STANDARD_OUTPUT):
            super().print(*objects, **options)

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to the main command, which ends silently."""
        raise BrokenPipeError


def write_rows(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    output: str,
    telling: Collection[str] = (),
) -> None:
    """Print rows as a table, JSON, CSV, TSV or a stream of Arrow IPC.

    If a terminal is too narrow for the columns of a few rows next to each other, a table has them
    one below the other. Bytes are ``0x`` and hex digits in JSON and CSV, UUIDs have dashes, as the
    commands read them in keys. Tables, and CSV in a terminal, are for people: characters that a
    terminal would obey are shown as escapes. CSV in a pipe or file has these characters as they
    are, and JSON has its own escapes.

    Args:
        schema: Columns of the rows.
        batches: Rows to print.
        output: Form of the output: ``table``, ``json`` (an object per line), ``csv``, ``tsv`` or
            ``arrow`` (an IPC stream).
        telling: Columns that a table leaves out last, if not all fit.

    Raises:
        ValueError: If CSV cannot hold a column. Nothing is printed then.
        UsageError: If a stream of Arrow would go to a terminal.
    """
    if output == "json":
        write_text(json_lines(batch) for batch in batches)
    elif output == "table":
        console = OutputConsole()
        console.print(rows_table(schema, batches, console.width, telling=telling))
    elif not sys.stdout.isatty():
        _write_binary(schema, batches, output, _OutputFile())
    elif output in ("csv", "tsv"):
        _write_binary(schema, batches, output, _TerminalFile("\n" if output == "csv" else "\n\t"))
    else:
        raise click.UsageError(
            "--output arrow is bytes, which a terminal cannot show; redirect it to a file or a pipe"
        )


class _OutputFile(io.RawIOBase):
    """The standard output as a file of bytes, which its errors name."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with naming(STANDARD_OUTPUT):
            return sys.stdout.buffer.write(data)


class _TerminalFile(io.RawIOBase):
    """A text file for the terminal, whose lines stay single lines.

    Args:
        plain: Control characters that are printed as they are; others are escaped.
    """

    def __init__(self, plain: str) -> None:
        self._plain = plain
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        text = self._decoder.decode(bytes(data))
        click.echo(printable(text, but=self._plain), nl=False)
        return len(data)


def write_report(rows: pa.Table, output: str, counts: Collection[str]) -> None:
    """Print rows that describe data, as `write_rows` does.

    Args:
        rows: Rows to print.
        output: Form of the output: ``table``, ``json`` (an object per line), ``csv``, ``tsv`` or
            ``arrow`` (an IPC stream).
        counts: Columns of counts, which have separators of thousands in a table.
    """
    if output != "table":
        write_rows(rows.schema, rows.to_batches(), output)
        return
    console = OutputConsole()
    console.print(rows_table(rows.schema, rows.to_batches(), console.width, counts))


def write_list(rows: pa.Table, counts: Collection[str]) -> None:
    """Print a list of things as a table, with the most telling columns first.

    Args:
        rows: Rows to print.
        counts: Columns of counts, which have separators of thousands.
    """
    console = OutputConsole()
    console.print(list_table(rows.schema, rows.to_batches(), console.width, counts))


def write_text(blocks: Iterable[str]) -> None:
    """Print blocks of lines, except empty ones."""
    for block in blocks:
        if block:
            with naming(STANDARD_OUTPUT):
                click.echo(block)


#: Formats of output files, by the extension of the name.
FILE_FORMATS = {
    ".parquet": "parquet",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "json",
}
# Formats that may be compressed, with another ending.
_TEXTS = ("csv", "tsv", "json")


def file_format(path: str) -> str:
    """Return the format of a file to write, by the ending of its name.

    Raises:
        UsageError: If the ending is unknown, or the path is a URI.
    """
    plain = path.lower().removesuffix(".gz")
    kind = FILE_FORMATS.get(os.path.splitext(plain)[1])
    is_packed = len(plain) < len(path)
    if kind is None or (is_packed and kind not in _TEXTS) or "://" in path:
        raise click.UsageError(
            f"-o {path}: name a file of this machine that ends in {', '.join(FILE_FORMATS)}, or in "
            ".csv.gz, .tsv.gz, .json.gz, .jsonl.gz"
        )
    return kind


def check_out(out: str | None) -> None:
    """Refuse a file for the rows with an unknown format, or together with `--output`.

    Raises:
        UsageError: If the name of the file has no known ending, or `--output` is also given.
    """
    if out is None:
        return
    asked = click.get_current_context().get_parameter_source("output")
    if asked is not ParameterSource.DEFAULT:
        raise click.UsageError("give --output or -o FILE; the ending of FILE sets the format")
    if out in ("-", "/dev/stdout"):
        raise click.UsageError(f"-o {out}: give -o the name of a file; to print rows, use --output")
    file_format(out)
    folder = os.path.dirname(expanded(out))
    if folder and not os.path.lexists(folder):
        raise click.UsageError(
            f"-o {out}: there is no folder {folder!r}; make it: mkdir -p {shlex.quote(folder)}"
        )


def write_file(
    path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], lines: Iterable[str]
) -> None:
    """Write rows to a file, which replaces an older file when it is complete.

    Args:
        path: Path of the file, with an ending that names the format.
        schema: Columns of the rows.
        batches: Rows to write.
        lines: Rows to write as blocks of lines of JSON.
    """
    given, path = path, expanded(path)
    kind = file_format(path)
    folder, name = os.path.split(os.path.abspath(path))
    temporary = os.path.join(folder, temporary_name(name))
    try:
        with naming(given), open(temporary, "xb") as file:
            with ExitStack() as packing:
                packed: Any = file
                if path.lower().endswith(".gz"):  # without its name and time: the same each time
                    gz = gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0)
                    packed = packing.enter_context(gz)
                if kind == "json":
                    packed.writelines(f"{block}\n".encode() for block in lines if block)
                else:
                    _write_binary(schema, batches, kind, packed)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):  # it would hide the first error
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = given
        raise


def write_found(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    output: str,
    out: str | None,
    limit: int | None = None,
) -> None:
    """Write rows to a file, or print the first ones.

    Args:
        schema: Columns of the rows.
        batches: All rows.
        output: Form of the output: ``table``, ``json`` (an object per line), ``csv``, ``tsv`` or
            ``arrow`` (an IPC stream).
        out: Path of the file. None: the rows are printed.
        limit: Greatest number of rows. None: all rows, or the first few of a table.
    """
    if out is None:
        write_first_rows(
            schema, batches, output, limit, "--limit N shows more, and -o FILE writes all"
        )
        return
    with closing(watched(limited(batches, limit), "Writing")) as written:
        write_file(out, schema, written, (json_lines(batch) for batch in written))


def _write_binary(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], kind: str, file: Any
) -> None:
    """Write rows as a stream or file of Arrow IPC, as CSV, with tabs or as Parquet."""
    if kind in ("csv", "tsv"):
        separator = "," if kind == "csv" else "\t"
        file.write(csv_names(schema, separator))
        for batch in batches:
            file.write(csv_lines(batch, separator))
    elif kind == "parquet":
        with ParquetRowWriter(file, schema) as rows:
            for batch in batches:
                rows.write(pa.Table.from_batches([batch]))
    else:
        opened = pa.ipc.new_stream if kind == "arrow" else pa.ipc.new_file
        with opened(file, schema) as stream:
            for batch in batches:
                stream.write_batch(batch)


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
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    output: str,
    limit: int | None,
    more: str = "--limit N shows more",
    telling: Collection[str] = (),
) -> None:
    """Print rows up to a limit; without one, a table has the first few rows.

    Args:
        schema: Columns of the rows.
        batches: All rows.
        output: Form of the output: ``table``, ``json`` (an object per line), ``csv``, ``tsv`` or
            ``arrow`` (an IPC stream).
        limit: Greatest number of rows. None: all rows, or the first few of a table.
        more: Advice to see more rows, for a table that has left out some.
        telling: Columns that a table leaves out last, if not all fit.
    """
    if output != "table" or limit is not None:
        write_rows(schema, limited(batches, limit), output, telling)
        return
    # One row more than is shown reveals whether there are more.
    rows = pa.Table.from_batches(limited(batches, TABLE_ROWS + 1), schema)
    write_rows(schema, rows.slice(0, TABLE_ROWS).to_batches(), output, telling)
    if rows.num_rows > TABLE_ROWS:
        echo(f"first {TABLE_ROWS} rows; {more}", err=True)


def write_json(value: object) -> None:
    """Print one JSON value, indented."""
    write_text([json_of(value, indent=2)])


def write_fields(title: str, fields: Mapping[str, object]) -> None:
    """Print names and values as a table of two columns."""
    echo(title)
    console = OutputConsole()
    console.print(fields_table(fields, console.width))
