"""HFiles, in which a metadata table keeps its records: sorted keys and values.

Files are small, and are read into memory as a whole. Their data blocks are read one after the
other, without the index, which only contains their offsets.

Source: HFile version 3, as written by org.apache.hudi.io.hfile (HFileWriterImpl, HFileTrailer);
Apache HBase's documentation for other writers.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import crc32c

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi.log.cursor import Cursor

_DATA, _INDEX, _INFO, _TRAILER = b"DATABLK*", b"IDXROOT2", b"FILEINF2", b'TRABLK"$'
# Header of a block: magic, sizes on disk and uncompressed, offset of the block before, kind of
# checksum, bytes per checksum, size without checksums.
_HEADER = struct.Struct(">8siiqBii")
_TRAILER_BYTES = 4096
_VERSION = 3
_GZIP, _PLAIN = 1, 2
_GZIP_WINDOW = 31
_CHECKSUMS: Mapping[int, Callable[[bytes], int]] = {1: zlib.crc32, 2: crc32c.crc32c}
_CHECKSUM_BYTES = 4
_CHECKED_BYTES = 16384
# Maximum uncompressed size of a block, which suffices for a partition with some million files.
_MOST_BYTES = 256 << 20
# Uncompressed size in bytes at which a new block begins.
_BLOCK_BYTES = 1 << 20
# Bytes of a key after the row: no family, no time, put.
_KEY_END = b"\x00" + b"\x7f" + b"\xff" * 7 + b"\x04"
_COMPARATOR = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
_NO_VERSION = b"\x00"
_PROTOBUF = b"PBUF"

# Numbers of the fields of the trailer.
_AT_INFO, _AT_INDEX, _RAW, _BLOCKS, _METAS, _ENTRIES, _LEVELS = 1, 2, 3, 5, 6, 7, 8
_FIRST, _LAST, _ORDER, _CODEC = 9, 10, 11, 12


class Entry(NamedTuple):
    """A key and its value.

    Attributes:
        key: Key, by which entries are sorted.
        value: Value of the key.
        at: Offset of the entry's block in the file.
    """

    key: bytes
    value: bytes
    at: int


class HFile(NamedTuple):
    """The content of an HFile.

    Attributes:
        entries: Keys and values, in the order of the keys.
        info: Metadata of the file, by name.
    """

    entries: Sequence[Entry]
    info: Mapping[bytes, bytes]


class _Block(NamedTuple):
    """A block of a file: its kind, its raw content, and the offset of the next one."""

    magic: bytes
    content: bytes
    end: int


def read_hfile(content: bytes, path: str, start: int = 0) -> HFile:
    """Parse an HFile.

    Args:
        content: Content of the file, or of a log block with it.
        path: Path of the file, for errors.
        start: Offset of the content in this file, for errors.

    Raises:
        CorruptionError: If the file is damaged.
        FormatError: If the version or the compression is not one that Hudi writes.
    """
    return _Reading(content, path, start).file()


class _Reading:
    """A read of one HFile."""

    def __init__(self, content: bytes, path: str, start: int) -> None:
        self._content = content
        self._path = path
        self._start = start
        self._end = len(content) - _TRAILER_BYTES
        self._trailer = self._read_trailer()

    def file(self) -> HFile:
        """Read the whole file."""
        wanted = self._trailer.get(_ENTRIES, 0)
        entries: list[Entry] = []
        if wanted:
            at, last = self._offset(_FIRST), self._offset(_LAST)
            while at <= last:
                block = self._block(at)
                if block.magic == _DATA:
                    entries += self._entries(block.content, at)
                at = block.end
        if len(entries) != wanted:
            raise self._error(self._end, f"{wanted} entries, as the trailer says", len(entries))
        for one, other in pairwise(entries):
            if one.key >= other.key:
                raise CorruptionError(self._path, other.at, f"a key after {one.key!r}", other.key)
        return HFile(entries, self._info(self._offset(_AT_INFO)))

    def _read_trailer(self) -> Mapping[int, int]:
        if self._end < 0:
            raise self._error(0, f"{_TRAILER_BYTES} bytes of a trailer", len(self._content))
        rest = self._cursor(self._content[self._end :], self._end, "the trailer")
        rest.expect(_TRAILER)
        fields = self._cursor_of(rest, rest.varint())
        found: dict[int, int] = {}
        while fields.left:
            tag = fields.varint()
            if tag & 7 == 0:
                found[tag >> 3] = fields.varint(10)
            elif tag & 7 == 2:
                fields.take(fields.varint())
            else:
                raise fields.error("a field of a trailer", f"one of kind {tag & 7}")
        version = self._cursor(self._content[-4:], len(self._content) - 4, "the version").int32()
        if version & 0xFFFFFF != _VERSION:
            shown = f"{self._path}: HFile version {version & 0xFFFFFF}"
            raise FormatError(f"{shown} is not supported; Hudi writes version {_VERSION}")
        codec = found.get(_CODEC, _PLAIN)
        if codec not in (_GZIP, _PLAIN):
            raise FormatError(
                f"{self._path}: the compression {codec} of HFiles is not supported; Hudi writes "
                "gzip, or none"
            )
        return {**found, _CODEC: codec}

    def _offset(self, field: int) -> int:
        at = self._trailer.get(field, -1)
        if not 0 <= at < self._end:
            raise self._error(self._end, f"an offset below {self._end} in field {field}", at)
        return at

    def _block(self, at: int) -> _Block:
        header = self._cursor(self._content[at : self._end], at, "a block's header")
        fields = _HEADER.unpack(header.take(_HEADER.size))
        magic, on_disk, raw, _, kind, each, without = fields
        size = without - _HEADER.size
        if not (0 <= size <= on_disk and 0 <= raw <= _MOST_BYTES):
            raise self._error(at, "the sizes of a block", f"{on_disk}, {raw}, {without}")
        body = header.take(on_disk)
        self._check(at, self._content[at : at + without], body[size:], kind, each)
        stored = body[:size]
        if self._trailer[_CODEC] == _GZIP:
            stored = self._unzipped(at, stored, raw)
        elif len(stored) != raw:
            raise self._error(at, f"a block of {raw} bytes", len(stored))
        return _Block(magic, stored, at + _HEADER.size + on_disk)

    def _check(self, at: int, checked: bytes, sums: bytes, kind: int, each: int) -> None:
        """Compare the checksums of a block if it has some; Hudi writes none."""
        sum_of = _CHECKSUMS.get(kind)
        if sum_of is None:
            return
        if each <= 0 or len(sums) != -(-len(checked) // each) * _CHECKSUM_BYTES:
            raise self._error(at, f"checksums of each {each} bytes", f"{len(sums)} bytes of them")
        found = b"".join(
            struct.pack(">I", sum_of(checked[first : first + each]))
            for first in range(0, len(checked), each)
        )
        if found != sums:
            raise self._error(at, f"a block with the checksums {sums.hex()}", found.hex())

    def _unzipped(self, at: int, stored: bytes, raw: int) -> bytes:
        unzip = zlib.decompressobj(_GZIP_WINDOW)
        try:
            content = unzip.decompress(stored, raw + 1)
        except zlib.error as error:
            raise self._error(at, "gzip", error) from error
        if len(content) != raw or not unzip.eof or unzip.unused_data:
            raise self._error(at, f"a block of {raw} bytes", f"{len(content)}, or more")
        return content

    def _entries(self, content: bytes, at: int) -> Iterator[Entry]:
        block = self._cursor(content, at, "a data block")
        # Offsets in a compressed block are not offsets in the file: the offset of the block is.
        while block.left:
            key_bytes, value_bytes = block.int32(), block.int32()
            key = self._cursor(block.take(key_bytes), at, "a key")
            row = key.take(key.int16())
            value = block.take(value_bytes)
            # Version of the key, which is 0.
            block.expect(_NO_VERSION)
            yield Entry(row, value, self._start + at)

    def _info(self, at: int) -> Mapping[bytes, bytes]:
        block = self._block(at)
        if block.magic != _INFO:
            raise self._error(at, repr(_INFO), repr(block.magic))
        rest = self._cursor(block.content, at, "the info")
        rest.expect(_PROTOBUF)
        pairs = self._cursor_of(rest, rest.varint())
        found = {}
        while pairs.left:
            pairs.expect(b"\x0a")
            pair = self._cursor_of(pairs, pairs.varint())
            pair.expect(b"\x0a")
            name = pair.take(pair.varint())
            pair.expect(b"\x12")
            found[name] = pair.take(pair.varint())
        return found

    def _cursor(self, content: bytes, at: int, what: str) -> Cursor:
        return Cursor(content, self._path, self._start + at, what)

    def _cursor_of(self, cursor: Cursor, size: int) -> Cursor:
        at = cursor.at
        return Cursor(cursor.take(size), self._path, at, "a message")

    def _error(self, at: int, expected: str, found: object) -> CorruptionError:
        return CorruptionError(self._path, self._start + at, expected, found)


def hfile_bytes(entries: Iterable[tuple[bytes, bytes]], schema: bytes, millis: int) -> bytes:
    """Return an HFile as Hudi writes it.

    Args:
        entries: Keys and values, in the order of the keys; at least one.
        schema: Schema of the values.
        millis: Time of the write, in milliseconds since 1970.
    """
    pairs = list(entries)
    parts: list[bytes] = []
    index: list[bytes] = []
    raw_bytes, at, before = 0, 0, -1
    for rows in _blocks(pairs):
        raw = b"".join(_entry(key, value) for key, value in rows)
        block = _block_bytes(_DATA, raw, before)
        key = _row(rows[0][0])
        index.append(struct.pack(">qi", at, len(block)) + _vint(len(key)) + key)
        parts.append(block)
        raw_bytes, before, at = raw_bytes + len(raw), at, at + len(block)
    at_index = at
    for content in (b"".join(index), b""):  # index of the data, and an empty one
        parts.append(_block_bytes(_INDEX, content))
        at += len(parts[-1])
    count = len(pairs)
    info = {
        b"schema": schema,
        b"hfile.LASTKEY": _row(pairs[-1][0]),
        b"hfile.AVG_VALUE_LEN": struct.pack(">i", sum(len(value) for _, value in pairs) // count),
        b"hfile.AVG_KEY_LEN": struct.pack(">i", sum(len(key) for key, _ in pairs) // count),
        b"KEY_VALUE_VERSION": struct.pack(">i", 1),
        b"MAX_MEMSTORE_TS_KEY": struct.pack(">q", 0),
        b"hfile.CREATE_TIME_TS": struct.pack(">q", millis),
    }
    said = b"".join(_field(1, _field(1, name) + _field(2, value)) for name, value in info.items())
    parts.append(_block_bytes(_INFO, _PROTOBUF + _varint(len(said)) + said))
    numbers = {
        _AT_INFO: at, _AT_INDEX: at_index, _RAW: raw_bytes, _BLOCKS: len(index), _METAS: 0,
        _ENTRIES: count, _LEVELS: 1, _FIRST: 0, _LAST: before,
    }  # fmt: skip
    fields = b"".join(_varint(name << 3) + _varint(number) for name, number in numbers.items())
    fields += _field(_ORDER, _COMPARATOR) + _varint(_CODEC << 3) + _varint(_GZIP)
    trailer = _TRAILER + _varint(len(fields)) + fields
    parts.append(trailer.ljust(_TRAILER_BYTES - 4, b"\x00") + struct.pack(">i", _VERSION))
    return b"".join(parts)


def _blocks(pairs: Sequence[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    block: list[tuple[bytes, bytes]] = []
    size = 0
    for key, value in pairs:
        block.append((key, value))
        size += len(key) + len(value)
        if size >= _BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block


def _entry(key: bytes, value: bytes) -> bytes:
    full = _row(key) + _KEY_END
    return struct.pack(">ii", len(full), len(value)) + full + value + _NO_VERSION


def _row(key: bytes) -> bytes:
    return struct.pack(">h", len(key)) + key


def _block_bytes(magic: bytes, raw: bytes, before: int = -1) -> bytes:
    zip_ = zlib.compressobj(wbits=_GZIP_WINDOW)
    zipped = zip_.compress(raw) + zip_.flush()
    size = _HEADER.size + len(zipped)
    # There are no checksums, but there is room for them.
    sums = bytes(-(-size // _CHECKED_BYTES) * _CHECKSUM_BYTES)
    on_disk = len(zipped) + len(sums)
    header = _HEADER.pack(magic, on_disk, len(raw), before, 0, _CHECKED_BYTES, size)
    return header + zipped + sums


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Return a number as Protocol Buffers write it.

    >>> _varint(1), _varint(300)
    (b'\\x01', b'\\xac\\x02')
    """
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def _vint(number: int) -> bytes:
    """Return a length as Hadoop writes it (WritableUtils).

    >>> _vint(3), _vint(300)
    (b'\\x03', b'\\x8e\\x01,')
    """
    if number <= 127:
        return bytes([number])
    digits = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return struct.pack(">b", -112 - len(digits)) + digits
