"""Keys of a file or of standard input, batch by batch, in the order in which they are there."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import click
import pyarrow as pa
import pyarrow.csv as pa_csv

from lookupstore.cli.key_text import NULL, key_types, parse_columns
from lookupstore.source.source import open_source
from lookupstore.storage.home import expanded

# Bytes of text that are read at once, and the most of a first line.
_BLOCK = 1 << 20
# What Arrow IPC files begin with, streams of it, and files that are read from their end.
_FILE, _STREAM = b"ARROW1", b"\xff\xff\xff\xff"
_FROM_THE_END = {b"PAR1": "Parquet", b"ORC": "ORC"}


@dataclass(frozen=True)
class Keys:
    """Keys as tables that have the key columns.

    Attributes:
        schema: of each table.
        tables: the keys; to be read once.
    """

    schema: pa.Schema
    tables: Iterable[pa.Table]


@contextmanager
def read_keys(given: str, key: pa.Schema) -> Iterator[Keys]:
    """Open what `--keys` names, for as long as the keys are read.

    It is `-`, a file of Arrow IPC, CSV or lines, or what `open_source` reads. CSV has a first line
    with the names of the key columns; lines are keys as they are typed.

    Raises:
        UsageError: it lacks a key column, or is not read from standard input.
    """
    path = expanded(given)
    with ExitStack() as stack:
        if given == "-":
            yield _of_stream(sys.stdin.buffer, "standard input", key)
        elif os.path.exists(path) and not os.path.isdir(path) and not _is_columnar(path):
            yield _of_stream(stack.enter_context(open(path, "rb")), given, key)
        else:
            source = open_source(given)
            schema = _key_fields(source.schema, given, key)
            batches = source.batches(schema.names)
            yield Keys(schema, (pa.Table.from_batches([one], schema) for one in batches))


def _is_columnar(path: str) -> bool:
    """Return whether a file is Parquet or ORC; a pipe, which is read once, is neither."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(4).startswith(tuple(_FROM_THE_END))


def _of_stream(file: BinaryIO, name: str, key: pa.Schema) -> Keys:
    """Return the keys of a stream, whose first bytes say what it is."""
    head = b""
    while len(head) < _BLOCK and b"\n" not in head:
        block = _some_of(file, _BLOCK)
        if not block:
            break
        head += block
    for magic, kind in _FROM_THE_END.items():
        if head.startswith(magic):
            raise click.UsageError(f"--keys: {kind} is not read from {name}; name the file")
    whole = io.BufferedReader(_Rejoined(head, file), _BLOCK)
    if head.startswith(_FILE):
        if not file.seekable():
            raise click.UsageError(
                f"--keys: an Arrow IPC file is not read from {name}; name the file, or give a "
                "stream"
            )
        file.seek(0)
        opened = pa.ipc.open_file(file)
        batches = (opened.get_batch(i) for i in range(opened.num_record_batches))
        return _of_batches(opened.schema, batches, name, key)
    if head.startswith(_STREAM):
        reader = pa.ipc.open_stream(whole)
        return _of_batches(reader.schema, reader, name, key)
    schema = key_types(key)
    if not head:
        return Keys(schema, ())
    columns = _text_columns(head, whole, name, key)
    return Keys(schema, (parse_columns(one, key) for one in columns))


def _of_batches(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], name: str, key: pa.Schema
) -> Keys:
    fields = _key_fields(schema, name, key)
    tables = (pa.Table.from_batches([one.select(fields.names)], fields) for one in batches)
    return Keys(fields, tables)


def _key_fields(schema: pa.Schema, name: str, key: pa.Schema) -> pa.Schema:
    for field in key.names:
        if field not in schema.names:
            raise click.UsageError(f"--keys {name}: no key column {field!r}; it has {schema.names}")
    return pa.schema([schema.field(field).remove_metadata() for field in key.names])


def _text_columns(
    head: bytes, whole: BinaryIO, name: str, key: pa.Schema
) -> Iterator[list[pa.Array]]:
    """Yield the key columns of CSV, or of lines, as texts."""
    first = head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0].rstrip(b"\r")
    is_csv = set(key.names) <= set(next(csv.reader([first.decode(errors="replace")]), []))
    if len(key) == 1 and not is_csv:
        return ([lines] for lines in _lines(whole, name))
    return _csv_columns(whole, key.names, has_header=is_csv)


def _lines(whole: BinaryIO, name: str) -> Iterator[pa.Array]:
    rest = b""
    while block := whole.read(_BLOCK):
        *lines, rest = (rest + block).replace(b"\r\n", b"\n").split(b"\n")
        yield _texts(lines, name)
    if rest:
        yield _texts([rest], name)


def _texts(lines: list[bytes], name: str) -> pa.Array:
    try:
        return pa.array(lines, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        raise click.ClickException(f"--keys: {name} is not text in UTF-8") from None


def _csv_columns(
    whole: BinaryIO, names: list[str], *, has_header: bool
) -> Iterator[list[pa.Array]]:
    reader = pa_csv.open_csv(
        whole,
        read_options=pa_csv.ReadOptions(
            column_names=None if has_header else names, block_size=_BLOCK
        ),
        parse_options=pa_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=names,
            null_values=[NULL],
            strings_can_be_null=True,
        ),
    )
    return (batch.columns for batch in reader)


def _some_of(file: BinaryIO, most: int) -> bytes:
    """Return what there is by now, at most so many bytes; at the end of the file none.

    To wait for all of them would be one step to Python, in which an interrupt is not heard.
    """
    return file.read1(most) if isinstance(file, io.BufferedReader) else file.read(most)


class _Rejoined(io.RawIOBase):
    """A stream from its beginning, of which some bytes have been read."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = io.BytesIO(head)
        self._rest = rest

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what there is, at most a buffer of it."""
        view = memoryview(buffer)
        piece = self._head.read(len(view)) or _some_of(self._rest, len(view))
        view[: len(piece)] = piece
        return len(piece)
