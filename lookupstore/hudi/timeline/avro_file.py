"""Avro in the timeline: uncompressed files with one record and its schema, and single records.

Log files contain records without such a file.
"""

from __future__ import annotations

import functools
import importlib.resources
import io
import json
import os
from collections.abc import Callable
from typing import Any

import fastavro

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi.timeline.file_schema import MOST_BYTES, checked_schema
from lookupstore.hudi.timeline.resolution import Change, resolution
from lookupstore.storage.json_text import parse_json

MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_VARINT_BYTES = 10


def read_record(content: bytes, path: str, name: str, *others: str) -> dict[str, Any]:
    """Return the record of an Avro file, with the fields and types of Hudi's schema.

    Args:
        content: Content of the file.
        path: Path of the file, for errors.
        name: Name of Hudi's record, which has a schema in the folder `avro`.
        others: Names of other records that are read as this one.

    Raises:
        CorruptionError: If the content is not an Avro file, is damaged, or is not one record of
            these names with values that Hudi's schema allows.
        FormatError: If the file is compressed. Files that Hudi writes are not.
    """
    if not content.startswith(MAGIC):
        raise CorruptionError(path, 0, f"an Avro file, {MAGIC!r}", repr(content[:4]))
    file = _File(content, path)
    header = file.header()
    codec = header.get("avro.codec", b"null")
    if codec != b"null":
        raise FormatError(
            f"{path}: the Avro codec {codec!r} is not supported; Hudi writes such files without one"
        )
    start, block = file.block()
    schema = header.get("avro.schema", b"")
    return record_decoder(schema, path, len(MAGIC), name, *others)(block, start)


def record_decoder(
    text: bytes, path: str, offset: int, name: str, *others: str, fields: tuple[str, ...] = ()
) -> Callable[[bytes, int], dict[str, Any]]:
    """Return a function that decodes a record from bytes and their offset.

    The records that it returns have the fields and types of Hudi's schema.

    Args:
        text: Schema that the records were written with, as JSON.
        path: Path of the file, for errors.
        offset: Offset of the schema in the file.
        name: Name of Hudi's record, which has a schema in the folder `avro`.
        others: Names of other records that are read as this one.
        fields: Names of the fields of Hudi's record to return. Empty: all fields.

    Raises:
        CorruptionError: If the schema is not one of such records. The function raises it for
            damaged records.
    """
    try:
        schema, change = _file_schema(text, (name, *others), fields)
    except ValueError as error:
        raise CorruptionError(path, offset, f"the Avro schema of {name}", error) from error

    def decode(block: bytes, start: int) -> dict[str, Any]:
        return _decoded(schema, change, block, path, start, name)

    return decode


def stored_record_decoder(
    text: bytes, path: str, offset: int, name: str
) -> Callable[[bytes, int], dict[str, Any]]:
    """Return a function that decodes a record by the writer's schema.

    The function takes bytes and their offset. The caller checks which fields the record has, and
    their types.

    Args:
        text: Schema of the writer, as JSON.
        path: Path of the file, for errors.
        offset: Offset of the schema in the file.
        name: Name of the record.

    Raises:
        CorruptionError: If the schema is not one of such records. The function raises it for
            damaged records.
    """
    try:
        schema = _stored_schema(text, (name,))[0]
    except ValueError as error:
        raise CorruptionError(path, offset, f"the Avro schema of {name}", error) from error

    def decode(block: bytes, start: int) -> dict[str, Any]:
        return _decoded(schema, None, block, path, start, name)

    return decode


def decoded(schema: Any, content: bytes, path: str, at: int) -> Any:
    """Return a value that has all of some bytes.

    Args:
        schema: Schema of the value, for the decoder.
        content: Bytes of the value.
        path: Path of the file, for errors.
        at: Offset of the bytes in the file, for errors.

    Raises:
        CorruptionError: If the bytes are damaged.
    """
    stream = io.BytesIO(content)
    try:
        value: Any = fastavro.schemaless_reader(stream, schema, None)
    except MemoryError:
        raise
    except Exception as error:  # fastavro trusts bytes; wrong ones may raise any error
        found = f"{type(error).__name__}: {error}"
        raise CorruptionError(path, at + stream.tell(), "an Avro record", found) from error
    if stream.tell() != len(content):
        found = f"one of {stream.tell()} bytes in {len(content)}"
        raise CorruptionError(path, at, "one Avro record", found)
    return value


def _decoded(
    schema: Any, change: Change | None, block: bytes, path: str, start: int, name: str
) -> dict[str, Any]:
    record = decoded(schema, block, path, start)
    try:
        made: dict[str, Any] = record if change is None else change(record)
    except ValueError as error:
        raise CorruptionError(path, start, name, error) from error
    return made


class _File:
    """The parts of an Avro file.

    Source: Avro 1.11, Object Container Files.
    """

    def __init__(self, content: bytes, path: str) -> None:
        self._content = content
        self._path = path
        self._at = len(MAGIC)
        self._marker = b""

    def header(self) -> dict[str, bytes]:
        """Read the entries of the header, by name."""
        pairs = {}
        while count := self._long():
            if count < 0:  # the size of the pairs follows
                count = -count
                self._long()
            for _ in range(count):
                name = self._bytes()
                pairs[name.decode("utf-8", "replace")] = self._bytes()
        self._marker = self._take(_SYNC_BYTES)
        return pairs

    def block(self) -> tuple[int, bytes]:
        """Return the offset and the bytes of the only block, which has one record."""
        start = self._at
        count = self._long() if start < len(self._content) else 0
        if count != 1:
            raise CorruptionError(self._path, start, "one Avro record", f"{count} records")
        block = self._bytes()
        start = self._at - len(block)
        if self._take(_SYNC_BYTES) != self._marker:
            raise CorruptionError(self._path, self._at, "the marker of the file", "another")
        if self._at != len(self._content):
            raise CorruptionError(self._path, self._at, "one Avro record", "several")
        return start, block

    def _bytes(self) -> bytes:
        return self._take(self._long())

    def _take(self, size: int) -> bytes:
        left = len(self._content) - self._at
        if not 0 <= size <= left:
            raise CorruptionError(
                self._path, self._at, f"{size} bytes", f"{left} left in an Avro file"
            )
        self._at += size
        return self._content[self._at - size : self._at]

    def _long(self) -> int:
        """Read a number in Avro's zigzag form."""
        number = 0
        start = self._at
        for shift, digit in enumerate(self._content[start : start + _VARINT_BYTES]):
            number |= (digit & 0x7F) << 7 * shift
            if digit < 0x80:
                self._at += shift + 1
                return (number >> 1) ^ -(number & 1)
        raise CorruptionError(
            self._path, start, "a number in an Avro file", "the end of the file, or other bytes"
        )


# Size of the cache: the number of kinds of plans in some versions; their texts are kept with them.
@functools.lru_cache(maxsize=32)
def _file_schema(
    text: bytes, names: tuple[str, ...], fields: tuple[str, ...]
) -> tuple[Any, Change | None]:
    """Return a file's schema for the decoder, and the function that converts its records.

    Args:
        text: Schema of the file, as JSON.
        names: Names that its record may have. The first one names Hudi's schema.
        fields: Names of the fields of Hudi's schema to keep. Empty: all fields.

    Raises:
        ValueError: If the text is not a schema, is not safe to decode with, or has fields whose
            values cannot be Hudi's.
    """
    schema, checked = _stored_schema(text, names)
    wanted = json.loads(schema_text(names[0]))
    if fields:
        wanted["fields"] = [one for one in wanted["fields"] if one["name"] in fields]
    return schema, resolution(checked, wanted)


@functools.lru_cache(maxsize=32)
def _stored_schema(text: bytes, names: tuple[str, ...]) -> tuple[Any, Any]:
    """Return a file's schema for the decoder, and in the form that was checked.

    Raises:
        ValueError: If the text is not a schema, is not safe to decode with, or names another
            record.
    """
    try:
        given = parse_json(text, "", "a schema", most_bytes=MOST_BYTES)
    except CorruptionError as error:
        raise ValueError(f"{error.found} in place of {error.expected}") from None
    checked = checked_schema(given)
    try:
        schema = fastavro.parse_schema(checked)
    except Exception as error:  # an error in a name, or a symbol
        raise ValueError(f"{type(error).__name__}: {error}") from None
    if not isinstance(checked, dict) or checked["type"] != "record":
        raise ValueError("a type that is no record")
    if checked["name"].rpartition(".")[2] not in names:
        raise ValueError(f"that of {checked['name']}")
    return schema, checked


def avro_bytes(name: str, record: dict[str, Any]) -> bytes:
    """Return an Avro file with one record, as Hudi writes it except for the marker.

    fastavro's own writer names the codec even if there is none, which Hudi's files do not.

    Args:
        name: Name of the record, which has a schema in the folder `avro`.
        record: Record to write, as a dictionary.
    """
    marker = os.urandom(_SYNC_BYTES)
    header = _long(1) + _text(b"avro.schema") + _text(schema_text(name).encode()) + _long(0)
    return b"".join((MAGIC, header, marker, _long(1), _text(record_bytes(name, record)), marker))


def record_bytes(name: str, record: dict[str, Any]) -> bytes:
    """Return the Avro bytes of a record, without a file around it.

    Args:
        name: Name of the record, which has a schema in the folder `avro`.
        record: Record to write, as a dictionary.
    """
    body = io.BytesIO()
    fastavro.schemaless_writer(body, _schema(name)[1], record)
    return body.getvalue()


def schema_text(name: str) -> str:
    """Return the schema of a record of Hudi, as in its files."""
    return _schema(name)[0]


@functools.cache
def _schema(name: str) -> tuple[str, Any]:
    file = importlib.resources.files("lookupstore.hudi.timeline") / "avro" / f"{name}.avsc"
    text = file.read_text(encoding="utf-8").rstrip("\n")
    return text, fastavro.parse_schema(json.loads(text))


def _text(content: bytes) -> bytes:
    return _long(len(content)) + content


def _long(number: int) -> bytes:
    """Return a number in Avro's zigzag form.

    >>> _long(1), _long(64)
    (b'\\x02', b'\\x80\\x01')
    """
    rest = number << 1
    digits = bytearray()
    while rest > 0x7F:
        digits.append(rest & 0x7F | 0x80)
        rest >>= 7
    digits.append(rest)
    return bytes(digits)
