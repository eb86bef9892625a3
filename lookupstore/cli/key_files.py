"""Keys of a file or of standard input, batch by batch, in the order of the file."""

from __future__ import annotations

import json
import os
import sys
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import click
import pyarrow as pa

from lookupstore.cli.csv_text import csv_texts
from lookupstore.cli.failures import message_of
from lookupstore.cli.key_text import key_types, parse_columns
from lookupstore.cli.sources import TextFlags, has_zone
from lookupstore.errors import FormatError, listed
from lookupstore.source.csv_dialect import CsvDialect
from lookupstore.source.csv_rows import CsvRows, names_at
from lookupstore.source.opening import open_source
from lookupstore.source.search import STREAM_FORMATS, format_of, is_stream
from lookupstore.source.source import Source
from lookupstore.source.streams import (
    BOM,
    FROM_THE_END,
    IPC_FILE,
    IPC_STREAM,
    NOT_UTF8,
    first_line,
    open_stream,
    rejoined,
)
from lookupstore.source.text_limits import TextLimits
from lookupstore.storage.home import expanded
from lookupstore.storage.uris import shown_uri

# Bytes of text that are read at a time.
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Keys:
    """Keys as tables with the key columns.

    Attributes:
        schema: Columns of each table.
        tables: Tables of the keys, which can be read once.
    """

    schema: pa.Schema
    tables: Iterable[pa.Table]


def check_one_of(typed: Sequence[str], keys_file: str | None, text: TextFlags) -> None:
    """Check that keys were either typed or given as a file.

    Args:
        typed: Keys as they were typed.
        keys_file: Path of a file with keys. None: there is none.
        text: Options about files of keys.

    Raises:
        UsageError: If both were given, or neither, or if options are about a file that is not
            given.
    """
    if typed and keys_file is not None:
        raise click.UsageError("give KEY... or --keys, one of them")
    if not typed and keys_file is None:
        raise click.UsageError("Missing argument 'KEY...', or --keys FILE")
    if keys_file is None:
        check_no_notation(text, "keys are typed")


def check_no_notation(text: TextFlags, what: str) -> None:
    """Check that no option about the notation of CSV is given for other keys.

    Args:
        text: Options about files of keys.
        what: Beginning of the error, which says what keys there are.

    Raises:
        UsageError: If one is given.
    """
    if not text.is_usual:
        raise click.UsageError(
            f"{what}; --delimiter, --quote, --null, --names, --types and --zone are for CSV that "
            "--keys names"
        )


@contextmanager
def read_keys(
    given: str, key: pa.Schema, text: TextFlags, also: Sequence[pa.Field] = ()
) -> Iterator[Keys]:
    """Open the file or input that `--keys` names, for as long as keys are read.

    The path is `-`, a file of Arrow IPC, CSV or lines, or a source that `open_source` reads. CSV
    has a first line with the names of the key columns. Values of CSV, and lines, are keys as they
    are typed, except in columns whose types the options give.

    Args:
        given: Path of the file, or `-` for the standard input.
        key: Key columns.
        text: Options about the notation of CSV.
        also: Other columns, which are read if the file has them.

    Raises:
        UsageError: If the file lacks a key column, or cannot be read from the standard input, or if
            it is not CSV and options are about CSV.
    """
    columns = _Columns(key, also, text)
    path = expanded(given)
    named = format_of(given, STREAM_FORMATS) if is_stream(given) else None
    if named == "JSON lines":
        raise _json_error(shown_uri(given))
    with ExitStack() as stack:
        if given == "-":
            yield _of_stream(sys.stdin.buffer, "standard input", columns)
        elif named == "CSV" and (os.path.isfile(path) or not os.path.exists(path)):
            with _said_of_keys():
                source = open_source(given, max_text=text.max_text, dialect=text.dialect)
            yield _of_csv_source(source, shown_uri(given), columns)
        elif os.path.exists(path) and not os.path.isdir(path) and not _is_columnar(path):
            yield _of_stream(stack.enter_context(open(path, "rb")), given, columns)
        else:
            check_no_notation(text, f"--keys {shown_uri(given)} is not CSV")
            with _said_of_keys():
                source = open_source(given)
            schema = columns.given_in(source.schema, shown_uri(given))
            yield Keys(schema, _of_source(source, schema))


@contextmanager
def _said_of_keys() -> Iterator[None]:
    """Add the name of the option to errors of a source, which do not contain it."""
    try:
        yield
    except (ValueError, TypeError, FileNotFoundError, FormatError) as error:
        if not str(error).startswith("source"):
            raise
        said = message_of(error).removeprefix("source").removeprefix(":").lstrip()
        raise click.UsageError(f"--keys: {said}") from error


def _of_csv_source(source: Source, name: str, wanted: _Columns) -> Keys:
    """Return the keys of CSV files: values are texts until they are parsed as keys."""
    fields = wanted.among(wanted.given_in(source.schema, name).names)
    assert source.in_types is not None
    texts = source.in_types(wanted.as_given(fields, source.schema.names, name))
    return _parsed(texts.batches(fields.names), fields)


def _parsed(batches: Iterator[pa.RecordBatch], fields: pa.Schema) -> Keys:
    """Return keys whose fields are columns of texts, or of types that can be written as keys."""

    def tables() -> Iterator[pa.Table]:
        while True:
            with _said_of_keys():
                batch = next(batches, None)
            if batch is None:
                return
            yield parse_columns([_typed(column) for column in batch.columns], fields)

    return Keys(key_types(fields), tables())


def _typed(column: pa.Array) -> pa.Array:
    """Return values as users type them in keys."""
    return column if column.type == pa.string() else csv_texts(column).cast(pa.string())


def _of_source(source: Source, schema: pa.Schema) -> Iterator[pa.Table]:
    with _said_of_keys():
        for batch in source.batches(schema.names):
            yield pa.Table.from_batches([batch], schema)


@dataclass(frozen=True)
class _Columns:
    """The wanted columns of a file of keys.

    Attributes:
        key: Columns that the file must have.
        also: Columns that the file may have.
        text: Options about the notation of CSV.
    """

    key: pa.Schema
    also: Sequence[pa.Field]
    text: TextFlags

    def among(self, names: Collection[str]) -> pa.Schema:
        """Return the wanted columns, as far as they exist."""
        others = (one for one in self.also if one.name in names and one.name not in self.key.names)
        return pa.schema([*self.key, *others])

    def given_in(self, schema: pa.Schema, name: str) -> pa.Schema:
        """Return the wanted columns of a file, with their types in it.

        Raises:
            UsageError: If a key column is missing.
        """
        for field in self.key.names:
            if field not in schema.names:
                raise self.missing_error(name, schema.names)
        wanted = self.among(schema.names).names
        return pa.schema([schema.field(field).remove_metadata() for field in wanted])

    def as_given(self, fields: pa.Schema, names: Collection[str], name: str) -> pa.Schema:
        """Return the types in which columns of CSV are read: texts, unless an option says more.

        Times that `--zone` is about have the type of the key.

        Args:
            fields: Columns to read.
            names: Columns of the file.
            name: Name of the file, for errors.

        Raises:
            UsageError: If an option is about a column that the file lacks.
        """
        types = self.text.types
        for column in types:
            if column not in names:
                raise click.UsageError(
                    f"--types: {name} has no column {column!r}; it has [{listed(names)}]"
                )
        if self.text.dialect.zone is not None:
            zoned = {one.name: one.type for one in fields if has_zone(one.type)}
            types = {**zoned, **types}
        found = pa.schema((one, types.get(one, pa.string())) for one in fields.names)
        self.text.check_zone(found, f"--keys {name}", fields)
        return found

    def missing_error(self, name: str, names: Collection[str]) -> click.UsageError:
        """Return the error for a file with these columns, which are not all of the key."""
        field = next(field for field in self.key.names if field not in names)
        said = f"--keys {name}: no key column {field!r}; it has [{listed(names)}]"
        return click.UsageError(said)


def _is_columnar(path: str) -> bool:
    """Return whether a file is Parquet or ORC; a pipe, which can be read only once, is neither."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(4).startswith(tuple(FROM_THE_END))


def _of_stream(file: BinaryIO, name: str, wanted: _Columns) -> Keys:
    """Return the keys of a stream, whose format is determined by its first bytes."""
    head = first_line(file)
    for magic, kind in FROM_THE_END.items():
        if head.startswith(magic):
            raise click.UsageError(f"--keys: {kind} is not read from {name}; name the file")
    for magic, said in NOT_UTF8.items():
        if head.startswith(magic):
            raise click.UsageError(f"--keys: {name} is {said}")
    whole = rejoined(head, file)
    if head.startswith((IPC_FILE, IPC_STREAM)):
        check_no_notation(wanted.text, f"--keys {name} is not CSV")
    if head.startswith(IPC_FILE):
        if not file.seekable():
            raise click.UsageError(
                f"--keys: an Arrow IPC file is not read from {name}; name the file, or give a "
                "stream"
            )
        file.seek(0)
        opened = pa.ipc.open_file(file)
        batches = (opened.get_batch(i) for i in range(opened.num_record_batches))
        return _of_batches(opened.schema, batches, name, wanted)
    if head.startswith(IPC_STREAM):
        reader = pa.ipc.open_stream(whole)
        return _of_batches(reader.schema, reader, name, wanted)
    if not head:
        return Keys(key_types(wanted.key), ())
    return _of_text(head, whole, name, wanted)


def _of_batches(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], name: str, wanted: _Columns
) -> Keys:
    fields = wanted.given_in(schema, name)
    tables = (pa.Table.from_batches([one.select(fields.names)], fields) for one in batches)
    return Keys(fields, tables)


def _of_text(head: bytes, whole: BinaryIO, name: str, wanted: _Columns) -> Keys:
    """Return the keys of CSV with a line of names, or of lines without names."""
    key, dialect = wanted.key, wanted.text.dialect
    names = _names_in(head.removeprefix(BOM), name, dialect)
    with _said_of_keys():
        if set(key.names) <= set(names):
            fields = wanted.among(names)
            limits = TextLimits(wanted.text.max_text)
            stream = open_stream(whole, name, limits, dialect)
            return _parsed(stream.read(wanted.as_given(fields, names, name)), fields)
        for sign in ";|":
            other = CsvDialect(separator=sign)
            if set(key.names) <= set(_names_in(head.removeprefix(BOM), name, other)):
                raise click.UsageError(
                    f"--keys: {name} is separated by {sign!r}; give --delimiter {sign!r}"
                )
        if not wanted.text.is_usual or name.lower().endswith(".csv"):
            raise wanted.missing_error(name, names)
        if _is_json(head, key.names):
            raise _json_error(name)
        if _has_names_in_other_case(names, key):
            raise wanted.missing_error(name, names)
        if len(key) == 1:
            return Keys(key_types(key), _parsed_lines(_lines(whole, name), key, name))
        lines = CsvDialect(separator=",", names=tuple(key.names))
        rows = CsvRows(_blocks(whole), name, dialect=lines)
        return _parsed(rows.read(wanted.as_given(key, key.names, name)), key)


def _names_in(head: bytes, name: str, dialect: CsvDialect) -> Sequence[str]:
    """Return the names of the columns of CSV, or no names for lines without them."""
    if dialect.names is not None:
        return dialect.names
    try:
        return names_at(head, name, dialect)
    except ValueError:  # a key in the form in which users type it
        return ()


def _has_names_in_other_case(names: Sequence[str], key: pa.Schema) -> bool:
    """Return whether a first line has the key columns' names in other case, and is not a key."""
    if sorted(one.lower() for one in names) != sorted(one.lower() for one in key.names):
        return False
    try:
        parse_columns([pa.array([one]) for one in names], key)
    except ValueError:
        return True
    return False


def _json_error(name: str) -> click.UsageError:
    return click.UsageError(
        f"--keys: JSON is not read from {name}; give Parquet, ORC, Arrow IPC, CSV or lines"
    )


def _is_json(head: bytes, names: Collection[str]) -> bool:
    """Return whether the first line is an object that has all of these fields."""
    try:
        value = json.loads(head.splitlines()[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and set(names) <= set(value)


def _blocks(whole: BinaryIO) -> Iterator[bytes]:
    """Yield a text in blocks, without a byte-order mark."""
    yield whole.read(_BLOCK).removeprefix(BOM)
    yield from iter(lambda: whole.read(_BLOCK), b"")


def _lines(whole: BinaryIO, name: str) -> Iterator[pa.Array]:
    rest = b""
    for block in _blocks(whole):
        *lines, rest = (rest + block).replace(b"\r\n", b"\n").split(b"\n")
        yield _texts(lines, name)
    if rest:
        yield _texts([rest], name)


def _parsed_lines(texts: Iterator[pa.Array], key: pa.Schema, name: str) -> Iterator[pa.Table]:
    """Yield the keys of lines.

    Raises:
        UsageError: If a line is not a key. The error names the line.
    """
    before = 0
    for lines in texts:
        try:
            yield parse_columns([lines], key)
        except ValueError as error:
            at = bisect_left(range(1, len(lines)), True, key=lambda n: _is_wrong(lines[:n], key))
            where = f"--keys: {name}: line {before + at + 1}"
            if lines[at].as_py() == "":
                raise click.UsageError(
                    f"{where} is empty; delete the line, or write \\N for null"
                ) from None
            raise click.UsageError(f"{where}: {error}") from None
        before += len(lines)


def _is_wrong(texts: pa.Array, key: pa.Schema) -> bool:
    """Return whether one of several texts is not a key."""
    try:
        parse_columns([texts], key)
    except ValueError:
        return True
    return False


def _texts(lines: list[bytes], name: str) -> pa.Array:
    try:
        return pa.array(lines, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        raise click.ClickException(
            f"--keys: {name} is not text in UTF-8; convert it, such as by `iconv -f cp1252 -t "
            "utf-8` if it is Windows-1252 or Latin-1"
        ) from None
