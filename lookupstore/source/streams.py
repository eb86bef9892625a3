"""Read files from their beginning: CSV, JSON lines and Arrow IPC.

CSV and JSON lines contain no types of columns. The first megabyte of rows decides these, and a
later value of another type raises an error. Text is cut into pieces of whole rows, and Arrow parses
each piece in this thread. A reader of Arrow's would read ahead in other threads, which outlive a
command that waits for its standard input.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, BinaryIO

import pyarrow as pa

from lookupstore.arrow.texts import check_texts
from lookupstore.source.csv_dialect import USUAL, CsvDialect
from lookupstore.source.csv_rows import CsvRows
from lookupstore.source.json_rows import JsonRows
from lookupstore.source.reading import check_names, check_once, check_there, fitted
from lookupstore.source.source import NeededFields
from lookupstore.source.text_limits import BY_DEFAULT, TextLimits
from lookupstore.source.text_values import MISFITS

#: First bytes of Arrow IPC files, which are read from their end, and of streams.
IPC_FILE, IPC_STREAM = b"ARROW1", b"\xff\xff\xff\xff"
#: First bytes of other formats that are read from their end, and their names.
FROM_THE_END = {b"PAR1": "Parquet", b"ORC": "ORC"}

#: First bytes of files that are not text in UTF-8, and the remedies in errors.
NOT_UTF8 = {
    b"\x1f\x8b": "compressed by gzip; decompress it, or give a file named *.csv.gz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; decompress it, or give a file named *.csv.zst",
    b"\xff\xfe": "text in UTF-16; convert it to UTF-8, such as by `iconv -f utf-16 -t utf-8`",
    b"\xfe\xff": "text in UTF-16; convert it to UTF-8, such as by `iconv -f utf-16 -t utf-8`",
}
# First bytes of all files that are not rows of text, and the remedies in errors.
_REFUSED = {
    **NOT_UTF8,
    b"FEA1": "Feather of version 1; write it again as version 2",
    b"[": "a JSON array; convert it to JSON lines, such as by `jq -c '.[]'`",
}
#: Byte-order mark with which a text in UTF-8 may begin.
BOM = b"\xef\xbb\xbf"
# Number of bytes of text to read at a time.
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Stream:
    """The rows of a file that is read from its beginning.

    Attributes:
        schema: Schema of the rows, with types from the file or, for text, from its first rows.
        is_text: Whether the types were inferred from the first rows, so that others are possible.
        read: Function that yields the columns of `schema`, or of a part of it, in the types of the
            schema that it is called with. Call it once.
        reports_misfits: Whether `read` can report values that are not of their type in `MISFITS`.
        read_needing: Function like `read` that refuses rows without needed fields. None: Every row
            has every column.
    """

    schema: pa.Schema
    is_text: bool
    read: Callable[[pa.Schema], Iterator[pa.RecordBatch]]
    reports_misfits: bool = False
    read_needing: Callable[[pa.Schema, NeededFields], Iterator[pa.RecordBatch]] | None = None


def open_stream(
    file: BinaryIO, name: str, limits: TextLimits = BY_DEFAULT, dialect: CsvDialect = USUAL
) -> Stream:
    """Open a file at its beginning, by the format of its first bytes.

    If the first line begins with `{`, the file is JSON lines. Other text is CSV with a line of
    names. The separator is a comma, or a tab if the line has more tabs or the name of the file has
    the extension `.tsv`.

    Args:
        file: File to read. The caller closes it.
        name: Name of the file, which errors show.
        limits: Limits for the size of one value and one row of CSV and JSON lines.
        dialect: Separator, quotes and so on of CSV.

    Raises:
        TypeError: If the file returns text.
        FormatError: If the first row is longer than the limits, or JSON is nested too deeply; while
            rows are read, if a later row is.
        ValueError: If the file is empty, of a format that is read from its end, or text that is not
            CSV or JSON lines in UTF-8, or if it names a column twice; while rows are read, if a
            column is missing or a value is not of its type.
        pyarrow.ArrowInvalid: If the file begins like Arrow IPC, but is not.

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
        if not dialect.is_usual_csv:
            raise ValueError(f"source: {name} is JSON lines; separators and such are of CSV")
        objects = JsonRows(blocks, name, limits, dialect)
        check_once(objects.schema.names, name)
        return Stream(objects.schema, True, objects.read, read_needing=objects.read)
    rows = CsvRows(blocks, name, limits, dialect)
    check_once(rows.names, name)

    def read(wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        check_there([*rows.names, MISFITS], wanted, name)
        yield from rows.read(wanted)

    return Stream(rows.schema(), True, read, reports_misfits=True)


def first_line(file: BinaryIO) -> bytes:
    """Read a file up to the block with its first line end, less than two megabytes.

    Raises:
        TypeError: If the file returns text.
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
    """Return a file from its beginning, given the head that was already read."""
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
        except MemoryError:  # sizes in a damaged file may be any number
            raise pa.ArrowInvalid("a batch that takes more memory than there is") from None

    return Stream(schema.remove_metadata(), False, read)


def _check_batch(batch: pa.RecordBatch, name: str, row: int) -> None:
    """Check offsets, indices, and that texts are UTF-8, which Arrow does not check."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" in str(error):  # this does not mean that the file is damaged
            check_texts(batch, f"source: {name}", row)
        raise


def _as_known(batch: pa.RecordBatch, known: pa.Schema, name: str, rows: int) -> pa.RecordBatch:
    """Return a batch, which follows `rows` rows, in the types of a known schema."""
    columns = [fitted(batch.column(field.name), field, name, rows_before=rows) for field in known]
    return pa.RecordBatch.from_arrays(columns, schema=known)


def _some_of(file: BinaryIO, most: int) -> bytes:
    """Return the bytes that are available now, at most `most`, or none at the end.

    Waiting for all of them would be one step for Python, during which it handles no interrupt.
    """
    return file.read1(most) if isinstance(file, io.BufferedReader) else file.read(most)


class _Rejoined(io.RawIOBase):
    """A stream from its beginning, although some bytes were already read."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = io.BytesIO(head)
        self._rest = rest

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the bytes that are available now into a buffer."""
        view = memoryview(buffer)
        piece = self._head.read(len(view)) or _some_of(self._rest, len(view))
        view[: len(piece)] = piece
        return len(piece)
