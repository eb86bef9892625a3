"""Files that are read from their beginning: CSV, JSON lines and Arrow IPC.

CSV and JSON lines do not say what types their columns have: those of the first megabyte of rows
decide, and a later value that is of another type is an error, not a guess. Text is cut into pieces
of whole rows, each of which Arrow parses in this thread: a reader of Arrow's would read ahead in
others, which outlive a command that waits for its standard input.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from lookupstore.source.reading import check_names, fitted

#: What Arrow IPC begins with: files, which are read from their end, and streams.
IPC_FILE, IPC_STREAM = b"ARROW1", b"\xff\xff\xff\xff"
#: Files of other formats that are read from their end.
FROM_THE_END = {b"PAR1": "Parquet", b"ORC": "ORC"}

# What else is not text, and what to do about it.
_REFUSED = {
    b"FEA1": "Feather of version 1; write it again as version 2",
    b"\x1f\x8b": "compressed by gzip; decompress it, or name a file .csv.gz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; decompress it, or name a file .csv.zst",
    b"\xff\xfe": "text in UTF-16; give UTF-8",
    b"\xfe\xff": "text in UTF-16; give UTF-8",
    b"[": "a JSON array; give JSON lines, an object in each",
}
#: The byte-order mark that a text in UTF-8 may begin with.
BOM = b"\xef\xbb\xbf"
# Bytes of text that are read at a time, and of which a piece of whole rows has about as many.
_BLOCK = 1 << 20
# Texts that are numbers, and the same texts when they are written again but for zeros at the end
# and exponents: no codes such as 02134, phone numbers, or more digits than a float has.
_INTEGER = r"^(0|-?[1-9][0-9]*)$"
_FLOAT = r"^-?(0|[1-9][0-9]{0,14})?(\.[0-9]+([eE][+-]?[0-9]+)?|[eE][+-][0-9]+)?$"
_NOT_FINITE = r"^(nan|-?inf)$"
# What a column of text may be, in this order: the first that takes all of its values.
_TYPES = (
    pa.int64(),
    pa.float64(),
    pa.bool_(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
)


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


def open_stream(file: BinaryIO, name: str) -> Stream:
    """Open a file at its beginning, whose first bytes say what it is.

    A first line that is an object is of JSON lines; other text is CSV with a line of names, whose
    separator is a comma, or a tab where there are more of these or the name says `.tsv`.

    Args:
        file: that is read, and closed by the caller.
        name: of the file, for errors.

    Raises:
        TypeError: it gives texts.
        ValueError: it is empty, of a format that is read from its end, or names a column twice; or
            while it is read: a column is missing, or a value is not of its type.
        pyarrow.ArrowInvalid: it is not of the format that its first bytes say.

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
        raise ValueError(f"source: {name} is empty; CSV has a line with the names of its columns")
    blocks = chain([head.removeprefix(BOM)], iter(lambda: _some_of(file, _BLOCK), b""))
    return _of_json(blocks, name) if text.startswith(b"{") else _of_csv(blocks, name, _ends(head))


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


def names_in(line: bytes, separator: str = ",") -> list[str]:
    """Return the fields of the first row of CSV, which is more than a line where one is quoted.

    Raises:
        pyarrow.ArrowInvalid: it is not one.
    """
    text = line.removeprefix(BOM).decode(errors="replace")
    try:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=separator), [])
    except csv.Error as error:
        raise pa.ArrowInvalid(f"a first line of CSV: {error}") from None


def _ends(head: bytes) -> bytes:
    """Return what the lines of a text end with, at the end."""
    return b"\n" if b"\n" in head or b"\r" not in head else b"\r"


def _pieces(blocks: Iterable[bytes], ends: bytes, *, quotes: bool) -> Iterator[bytes]:
    """Yield text in pieces of whole rows; with quotes, a row ends where none is open.

    Raises:
        pyarrow.ArrowInvalid: the text ends within quotes.
    """
    held: list[bytes] = []
    size, are_open = 0, False
    for block in blocks:
        are_open = quotes and are_open != bool(block.count(b'"') % 2)
        end = _last_end(block, ends, are_open) if quotes else block.rfind(ends)
        if end < 0 or size + end < _BLOCK // 2:
            held.append(block)
            size += len(block)
            continue
        yield b"".join([*held, block[: end + 1]])
        held, size = [block[end + 1 :]], len(block) - end - 1
    if are_open:
        raise pa.ArrowInvalid("text that ends within quotes")
    if last := b"".join(held):
        yield last


def _of_ipc(schema: pa.Schema, batches: Iterable[pa.RecordBatch], name: str) -> Stream:
    check_names(schema)
    _check_once(schema.names, name)

    def read(wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        try:
            for batch in batches:
                batch.validate(full=True)  # Arrow believes offsets, whatever they are
                yield _as_known(batch, wanted, name)
        except MemoryError:  # sizes in a damaged file are any number
            raise pa.ArrowInvalid("a batch that takes more memory than there is") from None

    return Stream(schema.remove_metadata(), False, read)


def _of_json(blocks: Iterable[bytes], name: str) -> Stream:
    pieces = _pieces(blocks, b"\n", quotes=False)
    first = next(pieces)
    found = _json_rows(first, None, name).schema
    check_names(found)
    _check_once(found.names, name)
    schema = pa.schema([(field.name, _of_texts(field.type)) for field in found])

    def read(wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        for piece in chain([first], pieces):
            rows = _json_rows(piece, schema, name)
            rows.validate(full=True)  # that texts are UTF-8
            for batch in rows.to_batches():
                _check_floats(batch, name)
                _check_there(batch.schema.names, wanted, name)
                columns = [_of_json_in(batch.column(field.name), field, name) for field in wanted]
                yield pa.RecordBatch.from_arrays(columns, schema=wanted)

    return Stream(schema, True, read)


def _of_json_in(column: pa.Array, field: pa.Field, name: str) -> pa.Array:
    """Return a column in another type: of texts what they say, of all else what it is."""
    given, wanted = column.type, field.type
    if pa.types.is_string(given):
        return _typed(column, field, name)
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        parts = dict(zip((one.name for one in given), column.flatten(), strict=True))
        if parts.keys() == {one.name for one in wanted}:
            columns = [_of_json_in(parts[one.name], one, name) for one in wanted]
            return pa.StructArray.from_arrays(columns, fields=list(wanted), mask=column.is_null())
    return fitted(column, field, name, "where it goes")


def _json_rows(piece: bytes, schema: pa.Schema | None, name: str) -> pa.Table:
    parse = pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    if schema is None:
        parse = pa_json.ParseOptions()
    options = pa_json.ReadOptions(use_threads=False, block_size=len(piece) + 1)
    try:
        return pa_json.read_json(io.BytesIO(piece), options, parse)
    except pa.ArrowInvalid as error:
        if schema is None:
            raise
        raise ValueError(
            f"source: {name}: {error}; by its first rows it has {_one_line(schema)}; give tables "
            "or pyarrow.json.read_json(...) with an explicit_schema in its place"
        ) from None


def _one_line(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def _of_texts(kind: pa.DataType) -> pa.DataType:
    """Return a type that Arrow found in JSON where texts are texts, also those that are times."""
    if pa.types.is_timestamp(kind) or pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_of_texts(kind.value_type))
    if pa.types.is_struct(kind):
        fields = (kind.field(at) for at in range(kind.num_fields))
        return pa.struct([(field.name, _of_texts(field.type)) for field in fields])
    return kind


def _check_floats(batch: pa.RecordBatch, name: str) -> None:
    """Check that no integer became a float that is another number.

    Raises:
        ValueError: a column of floats has what may have been a longer integer.
    """
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if not pa.types.is_float64(field.type):
            continue
        size = pc.abs(column)
        long = pc.and_(pc.greater_equal(size, 2.0**53), pc.less(size, 2.0**64))
        if pc.any(pc.and_(long, pc.equal(pc.floor(column), column))).as_py():
            raise ValueError(
                f"source: {name}: the column {field.name!r} has integers of more digits than a "
                "float, as which Arrow reads them beside floats or beyond int64; give "
                "pyarrow.json.read_json(...) with an explicit_schema in its place"
            )


def _as_known(batch: pa.RecordBatch, known: pa.Schema, name: str) -> pa.RecordBatch:
    """Return a batch with columns as they are known, of which it has to have all."""
    _check_there(batch.schema.names, known, name)
    columns = [fitted(batch.column(field.name), field, name) for field in known]
    return pa.RecordBatch.from_arrays(columns, schema=known)


def _check_there(names: Sequence[str], known: pa.Schema, name: str) -> None:
    missing = [one for one in known.names if one not in names]
    if missing:
        raise ValueError(
            f"source: {name} lacks the column {missing[0]!r}, which the first file has"
        )


def _check_once(names: Sequence[str], name: str) -> None:
    twice = sorted(one for one, count in Counter(names).items() if count > 1)
    if twice:
        raise ValueError(f"source: {name} names columns twice: {', '.join(twice)}")


def _of_csv(blocks: Iterable[bytes], name: str, ends: bytes) -> Stream:
    pieces = _pieces(blocks, ends, quotes=True)
    first = next(pieces).lstrip(b"\r\n")
    end = _end_of_row(first, ends)
    line, first = first[:end].rstrip(b"\r"), first[end + 1 :]
    separator = _separator(line, name)
    names = names_in(line, separator)
    _check_once(names, name)

    def texts(piece: bytes, wanted: Sequence[str]) -> pa.RecordBatch:
        table = pa_csv.read_csv(
            io.BytesIO(piece),
            pa_csv.ReadOptions(
                use_threads=False, block_size=len(piece) + 1, column_names=names
            ),
            pa_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            pa_csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )  # fmt: skip
        return pa.RecordBatch.from_arrays([one.combine_chunks() for one in table], names=wanted)

    kinds = [pa.string()] * len(names)
    if first.strip(b"\r\n"):
        kinds = [_type_of(column) for column in texts(first, names).columns]

    def read(wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        _check_there(names, wanted, name)
        for piece in chain([first], pieces):
            if piece.strip(b"\r\n"):
                columns = texts(piece, wanted.names).columns
                typed = [_typed(*each, name) for each in zip(columns, wanted, strict=True)]
                yield pa.RecordBatch.from_arrays(typed, schema=wanted)

    return Stream(pa.schema(zip(names, kinds, strict=True)), True, read)


def _end_of_row(text: bytes, ends: bytes) -> int:
    """Return where the first row of CSV ends."""
    start, is_open = 0, False
    while True:
        quote = text.find(b'"', start)
        stop = len(text) if quote < 0 else quote
        end = -1 if is_open else text.find(ends, start, stop)
        if end >= 0 or quote < 0:
            return len(text) if end < 0 else end
        start, is_open = quote + 1, not is_open


def _last_end(block: bytes, ends: bytes, is_open: bool) -> int:
    """Return where the last row ends in a block of CSV, -1 if none does.

    Args:
        block: of the text.
        ends: what rows end with.
        is_open: whether the block ends within quotes.
    """
    stop = len(block)
    while True:
        quote = block.rfind(b'"', 0, stop)
        end = -1 if is_open else block.rfind(ends, quote + 1, stop)
        if end >= 0 or quote < 0:
            return end
        stop, is_open = quote, not is_open


def _separator(line: bytes, name: str) -> str:
    """Return what is between the names of a first row.

    Raises:
        ValueError: it is a semicolon, beside which a comma is in numbers.
    """
    if ".tsv" in name.lower()[-8:] or line.count(b"\t") > line.count(b","):
        return "\t"
    if b";" in line and b"," not in line:
        raise ValueError(
            f"source: {name} is separated by ';'; give pyarrow.csv.open_csv(...) with "
            "parse_options in its place"
        )
    return ","


def _type_of(texts: pa.Array) -> pa.DataType:
    """Return the type of a column by its first texts."""
    for kind in _TYPES if texts.null_count < len(texts) else ():
        if _casts(texts, kind):
            return kind
    return pa.string()


def _casts(texts: pa.Array, kind: pa.DataType) -> bool:
    """Return whether texts are of a type, and mean the same in it."""
    if pa.types.is_integer(kind):
        if not _all(pc.match_substring_regex(texts, _INTEGER)):
            return False
    elif pa.types.is_floating(kind):
        special = pc.match_substring_regex(texts, _NOT_FINITE)
        if not _all(pc.or_(special, pc.match_substring_regex(texts, _FLOAT))):
            return False
    try:
        values = texts.cast(kind)
    except pa.ArrowInvalid:
        return False
    return not pa.types.is_floating(kind) or _all(pc.or_(special, pc.is_finite(values)))


def _all(flags: pa.Array) -> bool:
    return pc.all(flags).as_py() is not False


def _typed(texts: pa.Array, field: pa.Field, name: str) -> pa.Array:
    """Return texts as values of a type.

    Raises:
        ValueError: one of them is of another type.
    """
    if field.type == texts.type:
        return texts
    if _casts(texts, field.type):
        return texts.cast(field.type)
    while len(texts) > 1:  # until the one is left that is wrong
        half = texts.slice(0, len(texts) // 2)
        texts = texts.slice(len(half)) if _casts(half, field.type) else half
    raise ValueError(
        f"source: {name}: the column {field.name!r} is {field.type} and has {texts[0].as_py()!r}; "
        "give a reader of the types that are meant in its place, such as pyarrow.csv.open_csv"
    )


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
