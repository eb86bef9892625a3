"""Files that are read from their beginning: CSV, JSON lines and Arrow IPC.

CSV and JSON lines do not say what types their columns have: those of the first megabyte of rows
decide, and a later value that is of another type is an error, not a guess. Text is cut into pieces
of whole rows, each of which Arrow parses in this thread: a reader of Arrow's would read ahead in
others, which outlive a command that waits for its standard input.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, BinaryIO

import pyarrow as pa

from lookupstore.arrow.texts import check_texts
from lookupstore.source.csv_rows import CsvRows
from lookupstore.source.json_rows import JsonRows
from lookupstore.source.reading import check_names, check_once, check_there, fitted
from lookupstore.source.text_limits import BY_DEFAULT, TextLimits

#: What Arrow IPC begins with: files, which are read from their end, and streams.
IPC_FILE, IPC_STREAM = b"ARROW1", b"\xff\xff\xff\xff"
#: Files of other formats that are read from their end.
FROM_THE_END = {b"PAR1": "Parquet", b"ORC": "ORC"}

# What else is not text, and what to do about it.
_REFUSED = {
    b"FEA1": "Feather of version 1; write it again as version 2",
    b"\x1f\x8b": "compressed by gzip; decompress it, or name a file .csv.gz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; decompress it, or name a file .csv.zst",
    b"\xff\xfe": "text in UTF-16; give UTF-8, as `iconv -f utf-16 -t utf-8` makes it",
    b"\xfe\xff": "text in UTF-16; give UTF-8, as `iconv -f utf-16 -t utf-8` makes it",
    b"[": "a JSON array; give JSON lines, an object in each",
}
#: The byte-order mark that a text in UTF-8 may begin with.
BOM = b"\xef\xbb\xbf"
# Bytes of text that are read at a time.
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Stream:
    """The rows of a file that is read from its beginning.

    Attributes:
        schema: of its rows: their types as the file says them, or its first rows.
        is_text: whether the types are those of the first rows, and could be others.
        read: yields the columns of another schema, or of this one, in its types; call it once.
    """

    schema: pa.Schema
    is_text: bool
    read: Callable[[pa.Schema], Iterator[pa.RecordBatch]]


def open_stream(file: BinaryIO, name: str, limits: TextLimits = BY_DEFAULT) -> Stream:
    """Open a file at its beginning, whose first bytes say what it is.

    A first line that is an object is of JSON lines; other text is CSV with a line of names, whose
    separator is a comma, or a tab where there are more of these or the name says `.tsv`.

    Args:
        file: that is read, and closed by the caller.
        name: of the file, for errors.
        limits: how much text one value, and one row, of CSV and JSON lines may have.

    Raises:
        TypeError: it gives texts.
        FormatError: its first row is longer than the limits, or JSON that is nested too deeply; or
            while it is read: a later one is.
        ValueError: it is empty, of a format that is read from its end, text that is not CSV or
            JSON lines in UTF-8, or names a column twice; or while it is read: a column is missing,
            or a value is not of its type.
        pyarrow.ArrowInvalid: it is not the Arrow IPC that its first bytes say.

    >>> stream = open_stream(io.BytesIO(b"id,zip\\n1,02134\\n"), "users.csv")
    >>> next(stream.read(stream.schema)).to_pylist()
    [{'id': 1, 'zip': '02134'}]
    """
    start = file.tell() if file.seekable() else None
    head = first_line(file)
    for magic, kind in FROM_THE_END.items():
        if head.startswith(magic):
            raise ValueError(f"source: {kind} is not read from {name}; name the file")
    if head.startswith(IPC_FILE):
        if start is None:
            raise ValueError(
                f"source: an Arrow IPC file is not read from {name}; name the file, or give a "
                "stream"
            )
        file.seek(start)
        opened = pa.ipc.open_file(file if start == 0 else io.BytesIO(file.read()))
        batches = (opened.get_batch(i) for i in range(opened.num_record_batches))
        return _of_ipc(opened.schema, batches, name)
    if head.startswith(IPC_STREAM):
        reader = pa.ipc.open_stream(rejoined(head, file))
        return _of_ipc(reader.schema, reader, name)
    text = head.removeprefix(BOM).lstrip()
    for magic, said in _REFUSED.items():
        if head.startswith(magic) or text.startswith(magic):
            raise ValueError(f"source: {name} is {said}")
    if not text:
        raise ValueError(
            f"source: {name} is empty; leave it out, or write the line with the names of the "
            "columns, which CSV without rows has"
        )
    blocks = chain([head.removeprefix(BOM)], iter(lambda: _some_of(file, _BLOCK), b""))
    if text.startswith(b"{"):
        objects = JsonRows(blocks, name, limits)
        check_once(objects.schema.names, name)
        return Stream(objects.schema, True, objects.read)
    rows = CsvRows(blocks, name, limits)
    check_once(rows.names, name)

    def read(wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        check_there(rows.names, wanted, name)
        yield from rows.read(wanted)

    return Stream(rows.schema(), True, read)


def first_line(file: BinaryIO) -> bytes:
    """Read the first line of a file with what came with it, a megabyte at the most.

    Raises:
        TypeError: the file gives texts.
    """
    head = b""
    while len(head) < _BLOCK and b"\n" not in head:
        block = _some_of(file, _BLOCK)
        if isinstance(block, str):
            raise TypeError("source: the file is open for text; open it for bytes")
        if not block:
            break
        head += block
    return head


def rejoined(head: bytes, rest: BinaryIO) -> io.BufferedReader:
    """Return a file from its beginning, of which the head has been read."""
    return io.BufferedReader(_Rejoined(head, rest), _BLOCK)


def _of_ipc(schema: pa.Schema, batches: Iterable[pa.RecordBatch], name: str) -> Stream:
    check_names(schema)
    check_once(schema.names, name)

    def read(wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        row = 0
        try:
            for batch in batches:
                check_there(batch.schema.names, wanted, name)
                batch = batch.select(wanted.names)
                _check_batch(batch, name, row)
                yield _as_known(batch, wanted, name, row)
                row += batch.num_rows
        except MemoryError:  # sizes in a damaged file are any number
            raise pa.ArrowInvalid("a batch that takes more memory than there is") from None

    return Stream(schema.remove_metadata(), False, read)


def _check_batch(batch: pa.RecordBatch, name: str, row: int) -> None:
    """Check what Arrow believes: offsets, indices, and that texts are UTF-8."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" in str(error):  # which no file is damaged by
            check_texts(batch, f"source: {name}", row)
        raise


def _as_known(batch: pa.RecordBatch, known: pa.Schema, name: str, rows: int) -> pa.RecordBatch:
    """Return a batch, behind so many rows, with columns as they are known."""
    columns = [fitted(batch.column(field.name), field, name, rows_before=rows) for field in known]
    return pa.RecordBatch.from_arrays(columns, schema=known)


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
