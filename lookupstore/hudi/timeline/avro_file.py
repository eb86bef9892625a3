"""Avro of the timeline: files of one record of Hudi's, its schema, no compression; and records.

Log files hold records without these around them: see `archived_log`.
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
        content: of the file.
        path: of the file, for errors.
        name: of Hudi's record, one of the schemas in this folder.
        others: names of records that are read as it.

    Raises:
        CorruptionError: it is no Avro file, is damaged, or has not one record of that name, whose
            values are Hudi's.
        FormatError: it is compressed, which Hudi's are not.
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
    """Return what decodes records of a schema to those of Hudi's, given bytes and their offset.

    Args:
        text: of the schema that the records were written by.
        path: of the file, for errors.
        offset: of the schema in it.
        name: of Hudi's record, one of the schemas in this folder.
        others: names of records that are read as it.
        fields: of Hudi's record that are wanted; none: all.

    Raises:
        CorruptionError: it is no such schema; and so with what decodes, of records.
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
    """Return a function that decodes a record by the writer's schema, from bytes and their offset.

    The caller checks which fields the record has, and their types.

    Args:
        text: the writer's schema, as JSON.
        path: path of the file, for errors.
        offset: offset of the schema in the file.
        name: name of the record.

    Raises:
        CorruptionError: the schema is not one of such records; the decoder raises it for damaged
            records.
    """
    try:
        schema = _stored_schema(text, (name,))[0]
    except ValueError as error:
        raise CorruptionError(path, offset, f"the Avro schema of {name}", error) from error

    def decode(block: bytes, start: int) -> dict[str, Any]:
        return _decoded(schema, None, block, path, start, name)

    return decode


def _decoded(
    schema: Any, change: Change | None, block: bytes, path: str, start: int, name: str
) -> dict[str, Any]:
    stream = io.BytesIO(block)
    try:
        record: Any = fastavro.schemaless_reader(stream, schema, None)
    except MemoryError:
        raise
    except Exception as error:  # fastavro trusts bytes: what it raises for wrong ones is anything
        found = f"{type(error).__name__}: {error}"
        raise CorruptionError(path, start + stream.tell(), "an Avro record", found) from error
    if stream.tell() != len(block):
        found = f"one of {stream.tell()} bytes in {len(block)}"
        raise CorruptionError(path, start, "one Avro record", found)
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
        """Read what the file says of itself, by name."""
        pairs = {}
        while count := self._long():
            if count < 0:  # the bytes of the pairs come next
                count = -count
                self._long()
            for _ in range(count):
                name = self._bytes()
                pairs[name.decode("utf-8", "replace")] = self._bytes()
        self._marker = self._take(_SYNC_BYTES)
        return pairs

    def block(self) -> tuple[int, bytes]:
        """Return the only block, which has one record, and where its bytes begin."""
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


# As few as there are kinds of plans, of some versions: their texts are kept with them.
@functools.lru_cache(maxsize=32)
def _file_schema(
    text: bytes, names: tuple[str, ...], fields: tuple[str, ...]
) -> tuple[Any, Change | None]:
    """Return the schema of a file for the decoder, and what makes its records those of Hudi.

    Args:
        text: of the schema.
        names: that its record may have; the first one's schema is Hudi's.
        fields: of Hudi's that are wanted; none: all.

    Raises:
        ValueError: it is none, is not safe to decode by, or has fields that cannot be Hudi's.
    """
    schema, checked = _stored_schema(text, names)
    wanted = json.loads(schema_text(names[0]))
    if fields:
        wanted["fields"] = [one for one in wanted["fields"] if one["name"] in fields]
    return schema, resolution(checked, wanted)


@functools.lru_cache(maxsize=32)
def _stored_schema(text: bytes, names: tuple[str, ...]) -> tuple[Any, Any]:
    """Return the schema of a file for the decoder, and as it is checked; raises as above."""
    try:
        given = parse_json(text, "", "a schema", most_bytes=MOST_BYTES)
    except CorruptionError as error:
        raise ValueError(f"{error.found} in place of {error.expected}") from None
    checked = checked_schema(given)
    try:
        schema = fastavro.parse_schema(checked)
    except Exception as error:  # of a name, or a symbol
        raise ValueError(f"{type(error).__name__}: {error}") from None
    if not isinstance(checked, dict) or checked["type"] != "record":
        raise ValueError("a type that is no record")
    if checked["name"].rpartition(".")[2] not in names:
        raise ValueError(f"that of {checked['name']}")
    return schema, checked


def avro_bytes(name: str, record: dict[str, Any]) -> bytes:
    """Return an Avro file with one record, byte for byte as Hudi writes it but for the marker.

    fastavro's own writer names the codec even if there is none, which Hudi's files do not.

    Args:
        name: of the record, one of the schemas in this folder.
        record: to write.
    """
    marker = os.urandom(_SYNC_BYTES)
    header = _long(1) + _text(b"avro.schema") + _text(schema_text(name).encode()) + _long(0)
    return b"".join((MAGIC, header, marker, _long(1), _text(record_bytes(name, record)), marker))


def record_bytes(name: str, record: dict[str, Any]) -> bytes:
    """Return a record by itself.

    Args:
        name: of the record, one of the schemas in this folder.
        record: to write.
    """
    body = io.BytesIO()
    fastavro.schemaless_writer(body, _schema(name)[1], record)
    return body.getvalue()


def schema_text(name: str) -> str:
    """Return the schema of a record of Hudi's, as its files have it."""
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
