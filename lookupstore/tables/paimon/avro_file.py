"""Avro files with many records, as Paimon writes manifests.

fastavro decodes each record. Blocks are found and decompressed here: fastavro needs another package
for zstd, which Paimon chooses by default, and trusts the lengths in a file.

Source: Avro 1.11, "Object Container Files".
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import zstandard

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.storage.json_text import parse_json

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_VARINT_BYTES = 10
_MOST_SCHEMA = 1 << 20
# Largest size of a block once it is decompressed.
_MOST_BLOCK = 1 << 30
# Least number of bytes of a value of each type.
_LEAST = {
    "null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1,
}  # fmt: skip


def records_of(content: bytes, path: str, what: str) -> Iterator[Any]:
    """Yield the records of an Avro file.

    Args:
        content: Content of the file.
        path: Path of the file, for errors.
        what: Description of the file, for errors.

    Raises:
        CorruptionError: If the file is damaged.
        FormatError: If the file is not Avro, or has a compression that is not known.
    """
    import fastavro

    if not content.startswith(_MAGIC):
        raise FormatError(
            f"source: {path} is not Avro; a {what} in another format is not supported; pass the "
            "rows that Spark reads"
        )
    file = _File(content, path, what)
    schema = file.schema
    for start, count, block in file.blocks():
        if count > len(block):
            raise CorruptionError(path, start, f"at most {len(block)} records", count)
        stream = io.BytesIO(block)
        for _ in range(count):
            try:
                record = fastavro.schemaless_reader(stream, schema, None)
            except MemoryError:
                raise
            except Exception as error:  # fastavro trusts bytes; wrong ones may raise any error
                found = f"{type(error).__name__}: {error}"
                raise CorruptionError(path, start, f"a record of a {what}", found) from error
            yield record
        if stream.tell() != len(block):
            found = f"{len(block) - stream.tell()} bytes after them"
            raise CorruptionError(path, start, f"{count} records of a {what}", found)


class _File:
    """The parts of an Avro file.

    Attributes:
        schema: Schema of the records, as fastavro has it.
    """

    def __init__(self, content: bytes, path: str, what: str) -> None:
        import fastavro

        self._content, self._path, self._what = content, path, what
        self._at = len(_MAGIC)
        header = self._header()
        self._marker = self._take(_SYNC_BYTES)
        self._codec = header.get("avro.codec", b"null").decode("ascii", "replace")
        if self._codec not in ("null", "deflate", "zstandard"):
            raise FormatError(
                f"source: {path} is compressed with {self._codec!r}, which is not supported for a "
                f"{what}; pass the rows that Spark reads"
            )
        text = header.get("avro.schema", b"")
        given = parse_json(text, path, "an Avro schema", most_bytes=_MOST_SCHEMA)
        try:
            if not _least_bytes(given, {}):
                raise ValueError("records without bytes")
            self.schema: Any = fastavro.parse_schema(given)
        except Exception as error:  # an error in a type or name
            found = f"{type(error).__name__}: {error}"
            expected = f"the Avro schema of a {what}"
            raise CorruptionError(path, len(_MAGIC), expected, found) from None

    def blocks(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the offset of each block, the number of its records, and their bytes."""
        while self._at < len(self._content):
            start = self._at
            count = self._long()
            block = self._decompressed(self._take(self._long()), start)
            if self._take(_SYNC_BYTES) != self._marker:
                at = self._at - _SYNC_BYTES
                raise CorruptionError(self._path, at, "the marker of the file", "another")
            if count < 0:
                raise CorruptionError(self._path, start, "a number of records", count)
            yield start, count, block

    def _header(self) -> Mapping[str, bytes]:
        """Read the entries of the header, by name."""
        pairs = {}
        while count := self._long():
            if count < 0:  # the size of the pairs follows
                count = -count
                self._long()
            for _ in range(count):
                name = self._take(self._long())
                pairs[name.decode("utf-8", "replace")] = self._take(self._long())
        return pairs

    def _decompressed(self, block: bytes, start: int) -> bytes:
        if self._codec == "null":
            return block
        try:
            if self._codec == "deflate":
                decompressor = zlib.decompressobj(-zlib.MAX_WBITS)
                found = decompressor.decompress(block, _MOST_BLOCK + 1)
            else:
                with zstandard.ZstdDecompressor().stream_reader(block) as reader:
                    found = reader.read(_MOST_BLOCK + 1)
        except (zlib.error, zstandard.ZstdError) as error:
            raise CorruptionError(self._path, start, f"a block in {self._codec}", error) from None
        if len(found) > _MOST_BLOCK:
            expected = f"a block of at most {_MOST_BLOCK} bytes"
            raise CorruptionError(self._path, start, expected, "more")
        return found

    def _take(self, size: int) -> bytes:
        left = len(self._content) - self._at
        if not 0 <= size <= left:
            found = f"{left} left in a {self._what}"
            raise CorruptionError(self._path, self._at, f"{size} bytes", found)
        self._at += size
        return self._content[self._at - size : self._at]

    def _long(self) -> int:
        """Read a number in Avro's zigzag form."""
        number, start = 0, self._at
        for shift, digit in enumerate(self._content[start : start + _VARINT_BYTES]):
            number |= (digit & 0x7F) << 7 * shift
            if digit < 0x80:
                self._at += shift + 1
                return (number >> 1) ^ -(number & 1)
        raise CorruptionError(self._path, start, f"a number in a {self._what}", "other bytes")


def _least_bytes(kind: Any, known: dict[str, int]) -> int:
    """Return the least number of bytes of a value of a type.

    Args:
        kind: The type.
        known: Least numbers of bytes of the records before it, by their names.

    Raises:
        ValueError: If the type is not one of manifests, or is an array of values without bytes, of
            which a few bytes could be any number.
    """
    if isinstance(kind, list):
        for one in kind:
            _least_bytes(one, known)
        return 1
    if not isinstance(kind, dict):
        known = {**_LEAST, **known}
        if kind not in known:
            raise ValueError(f"the type {kind!r}")
        return known[kind]
    if kind["type"] == "record":
        least = sum(_least_bytes(field["type"], known) for field in kind["fields"])
        known[kind["name"]] = known[kind["name"].rpartition(".")[2]] = least
        return least
    if kind["type"] == "array":
        if not _least_bytes(kind["items"], known):
            raise ValueError("an array of values without bytes")
        return 1
    return _least_bytes(kind["type"], known)
