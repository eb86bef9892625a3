"""Avro files of the timeline: one record, its schema, no compression."""

from __future__ import annotations

import functools
import importlib.resources
import io
import json
import os
from typing import Any

import fastavro

from lookupstore.errors import CorruptionError

MAGIC = b"Obj\x01"
_SYNC_BYTES = 16


def read_record(content: bytes, path: str) -> dict[str, Any]:
    """Return the record of an Avro file.

    Args:
        content: of the file.
        path: of the file, for errors.

    Raises:
        CorruptionError: it is no Avro file, is damaged, or has not one record.
    """
    if not content.startswith(MAGIC):
        raise CorruptionError(path, 0, f"an Avro file, {MAGIC!r}", repr(content[:4]))
    stream = io.BytesIO(content)
    try:
        records = list(fastavro.reader(stream))
    except Exception as error:  # fastavro trusts bytes: what it raises for wrong ones is anything
        found = f"{type(error).__name__}: {error}"
        raise CorruptionError(path, stream.tell(), "an Avro record", found) from error
    if len(records) != 1 or not isinstance(records[0], dict):
        raise CorruptionError(path, 0, "one Avro record", f"{len(records)} records")
    return records[0]


def avro_bytes(name: str, record: dict[str, Any]) -> bytes:
    """Return an Avro file with one record, byte for byte as Hudi writes it but for the marker.

    fastavro's own writer names the codec even if there is none, which Hudi's files do not.

    Args:
        name: of the record, one of the schemas in this folder.
        record: to write.
    """
    text, schema = _schema(name)
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, record)
    marker = os.urandom(_SYNC_BYTES)
    header = _long(1) + _text(b"avro.schema") + _text(text.encode()) + _long(0)
    return b"".join((MAGIC, header, marker, _long(1), _text(body.getvalue()), marker))


@functools.cache
def _schema(name: str) -> tuple[str, Any]:
    file = importlib.resources.files("lookupstore.hudi") / "avro" / f"{name}.avsc"
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
