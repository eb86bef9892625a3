"""Files that are read from their beginning: CSV, JSON lines and Arrow IPC.

CSV and JSON lines do not say what types their columns have: those of the first megabyte of rows
decide, and a later value that is of another type is an error, not a guess.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from lookupstore.source.reading import check_names, fitted

#: What Arrow IPC begins with: files, which are read from their end, and streams.
IPC_FILE, IPC_STREAM = b"ARROW1", b"\xff\xff\xff\xff"
#: Files of other formats that are read from their end.
FROM_THE_END = {b"PAR1": "Parquet", b"ORC": "ORC"}

# Bytes of text that are read at a time, and the most of a first line.
_BLOCK = 1 << 20
# Text that is not a number, though Arrow reads it as one: codes such as 02134, phone numbers, and
# for a float integers of more digits than it has.
_CODE = r"^\+|^-?0[0-9xX]"
_LONG = r"|^-?[0-9]{16,}$"
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
        schema: of its rows.
        batches: of rows, to be read once.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def open_stream(file: BinaryIO, name: str, schema: pa.Schema | None = None) -> Stream:
    """Open a file at its beginning, whose first bytes say what it is.

    A first line that is an object is of JSON lines; other text is CSV with a line of names, after
    whose separator is asked: a tab, if there is one and no comma.

    Args:
        file: that is read, and closed by the caller.
        name: of the file, for errors.
        schema: the columns that are wanted, in their types; None: all of them, in the types that
            the first rows say.

    Raises:
        ValueError: it is empty, of a format that is read from its end, or names a column twice; or
            while it is read: a value has another type than the rows before.
        pyarrow.ArrowInvalid: it is not of the format that its first bytes say.

    >>> stream = open_stream(io.BytesIO(b"id,zip\\n1,02134\\n"), "users.csv")
    >>> next(stream.batches).to_pylist()
    [{'id': 1, 'zip': '02134'}]
    """
    head = first_line(file)
    for magic, kind in FROM_THE_END.items():
        if head.startswith(magic):
            raise ValueError(f"source: {kind} is not read from {name}; name the file")
    whole = rejoined(head, file)
    if head.startswith(IPC_FILE):
        if not file.seekable():
            raise ValueError(
                f"source: an Arrow IPC file is not read from {name}; name the file, or give a "
                "stream"
            )
        file.seek(0)
        opened = pa.ipc.open_file(file)
        batches = (opened.get_batch(i) for i in range(opened.num_record_batches))
        return _of_ipc(opened.schema, batches, name, schema)
    if head.startswith(IPC_STREAM):
        reader = pa.ipc.open_stream(whole)
        return _of_ipc(reader.schema, reader, name, schema)
    if not head.strip():
        raise ValueError(f"source: {name} is empty; CSV has a line with the names of its columns")
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return _of_json(whole, name, schema)
    return _of_csv(head, whole, name, schema)


def first_line(file: BinaryIO) -> bytes:
    """Read the first line of a file with what came with it, a megabyte at the most."""
    head = b""
    while len(head) < _BLOCK and b"\n" not in head:
        block = _some_of(file, _BLOCK)
        if not block:
            break
        head += block
    return head


def rejoined(head: bytes, rest: BinaryIO) -> io.BufferedReader:
    """Return a file from its beginning, of which the head has been read."""
    return io.BufferedReader(_Rejoined(head, rest), _BLOCK)


def names_in(head: bytes, separator: str = ",") -> list[str]:
    """Return the fields of the first line of CSV."""
    line = head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0].rstrip(b"\r")
    return next(csv.reader([line.decode(errors="replace")], delimiter=separator), [])


def _of_ipc(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], name: str, known: pa.Schema | None
) -> Stream:
    check_names(schema)

    def checked() -> Iterator[pa.RecordBatch]:
        try:
            for batch in batches:
                batch.validate(full=True)  # Arrow believes offsets, whatever they are
                yield batch if known is None else _as_known(batch, known, name)
        except MemoryError:  # sizes in a damaged file are any number
            raise pa.ArrowInvalid("a batch that takes more memory than there is") from None

    return Stream(schema.remove_metadata() if known is None else known, checked())


def _of_json(whole: BinaryIO, name: str, known: pa.Schema | None) -> Stream:
    try:
        import pyarrow.json as pa_json

        open_json = pa_json.open_json
    except AttributeError:
        raise ImportError(f"{name}: JSON lines need pyarrow 20 or later") from None
    reader = open_json(whole, read_options=pa_json.ReadOptions(block_size=_BLOCK))
    check_names(reader.schema)
    schema = reader.schema if known is None else known

    def read() -> Iterator[pa.RecordBatch]:
        while True:
            try:
                batch = next(iter(reader), None)
            except pa.ArrowInvalid as error:
                raise ValueError(
                    f"source: {name}: {error}; give tables or pyarrow.json.open_json(...) with an "
                    "explicit_schema in its place"
                ) from None
            if batch is None:
                return
            batch.validate(full=True)  # that texts are UTF-8
            yield _as_known(batch, schema, name)

    return Stream(schema, read())


def _as_known(batch: pa.RecordBatch, known: pa.Schema, name: str) -> pa.RecordBatch:
    """Return a batch with columns as they are known, of which it has to have all."""
    columns = []
    for field in known:
        if batch.schema.names.count(field.name) != 1:
            raise _lacks(name, field.name)
        columns.append(fitted(batch.column(field.name), field, name))
    return pa.RecordBatch.from_arrays(columns, schema=known)


def _lacks(name: str, column: str) -> ValueError:
    return ValueError(f"source: {name} lacks the column {column!r}, which the first file has")


def _of_csv(head: bytes, whole: BinaryIO, name: str, known: pa.Schema | None) -> Stream:
    line = head.partition(b"\n")[0]
    separator = "\t" if b"\t" in line and b"," not in line else ","
    names = names_in(head, separator)
    if twice := {one for one in names if names.count(one) > 1}:
        raise ValueError(f"source: {name} names columns twice: {', '.join(sorted(twice))}")
    wanted = names if known is None else known.names
    if missing := [one for one in wanted if one not in names]:
        raise _lacks(name, missing[0])
    reader = pa_csv.open_csv(
        whole,
        read_options=pa_csv.ReadOptions(block_size=_BLOCK),
        parse_options=pa_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            include_columns=wanted,
            column_types=dict.fromkeys(wanted, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    texts = iter(reader)
    first = next(texts, None)
    if known is not None:
        schema = known
    elif first is None:
        schema = pa.schema([(one, pa.string()) for one in names])
    else:
        schema = pa.schema(zip(names, map(_type_of, first.columns), strict=True))

    def read() -> Iterator[pa.RecordBatch]:
        batch = first
        while batch is not None:
            typed = map(_typed, batch.columns, schema, [name] * len(schema))
            yield pa.RecordBatch.from_arrays(list(typed), schema=schema)
            batch = next(texts, None)

    return Stream(schema, read())


def _type_of(texts: pa.Array) -> pa.DataType:
    """Return the type of a column by its first texts."""
    for kind in _TYPES if texts.null_count < len(texts) else ():
        if _casts(texts, kind):
            return kind
    return pa.string()


def _casts(texts: pa.Array, kind: pa.DataType) -> bool:
    """Return whether texts are of a type, and come back from it as what they mean."""
    is_float = pa.types.is_floating(kind)
    if is_float or pa.types.is_integer(kind):
        code = _CODE + _LONG if is_float else _CODE
        if pc.any(pc.match_substring_regex(texts, code)).as_py():
            return False
    try:
        texts.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _typed(texts: pa.Array, field: pa.Field, name: str) -> pa.Array:
    """Return texts as values of a type.

    Raises:
        ValueError: one of them is of another type.
    """
    if _casts(texts, field.type):
        return texts.cast(field.type)
    wrong = next(one for one in texts if not _casts(pa.array([one], pa.string()), field.type))
    raise ValueError(
        f"source: {name}: the column {field.name!r} is {field.type} by its first rows, and then "
        f"has {wrong.as_py()!r}; give pyarrow.csv.open_csv(...) with column_types in its place"
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
