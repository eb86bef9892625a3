"""Blocks of log files; a metadata table writes one per instant.

    file    block*
    block   b"#HUDI#", i64 bytes of all that follows, i32 1, i32 kind,
            headers, i64 bytes of the content, content, footers, i64 bytes of all that is before
    headers i32 count, of each: i32 kind, i32 bytes, text

All numbers are big-endian. Footers are as headers, and empty.

A writer that was killed leaves the beginning of a block. Another writer may append blocks after it.

Source: org.apache.hudi.common.table.log (HoodieLogFormatWriter, HoodieLogFileReader,
HoodieLogBlock).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi.log.cursor import Cursor

_MAGIC = b"#HUDI#"
_VERSION = 1
_SIZE = struct.Struct(">q")
# Bytes of a block before what its size counts.
_HEAD = len(_MAGIC) + _SIZE.size
#: Kinds of blocks: commands to readers; keys that are deleted; rows as Avro, in an HFile and in a
#: Parquet file; changes for Hudi's CDC queries.
COMMAND, DELETES, AVRO, HFILE, PARQUET, CDC = 0, 1, 3, 4, 5, 6
#: Headers of blocks: instants that a log compaction merged, and whether rows lack columns.
COMPACTED, PARTIAL = 4, 7
#: Headers of blocks: request time of the instant, and schema of the records, as JSON.
INSTANT_HEADER, SCHEMA_HEADER = 0, 2
_TARGET, _COMMAND = 1, 3
# The only command: ignore the blocks of an instant that was rolled back.
_ROLLBACK = b"0"
# Versions of the content of Avro data blocks that have the number of records.
_AVRO_VERSIONS = (1, 2, 3)
# An empty list of keys, after its version and length; a new file group begins with one.
NO_DELETES = b"\x00\x00\x00\x03\x00\x00\x00\x01\x00"
# Number of bytes to search at a time for the next block after damage, and to read for its headers.
_SEARCHED = 1 << 20


class LogBlock(NamedTuple):
    """One block of a log file.

    Attributes:
        kind: Kind of the content, such as `DELETES` or `HFILE`.
        time: Request time of the instant that wrote the block.
        schema: Schema of the records, as JSON.
        at_schema: Offset of the schema in the file.
        content: Content of the block.
        at: Offset of the content in the file.
        headers: Headers of the block, by number.
    """

    kind: int
    time: str
    schema: bytes
    at_schema: int
    content: bytes
    at: int
    headers: Mapping[int, bytes]


class DamagedBlock(NamedTuple):
    """The beginning of a block whose end is missing.

    Attributes:
        at: Offset of the block in the file.
        error: Error that describes the damage.
        time: Request time of the instant that wrote the block. None: it cannot be read.
        is_followed: Whether another block follows.
    """

    at: int
    error: CorruptionError
    time: str | None
    is_followed: bool


def read_blocks(content: bytes, path: str) -> Iterator[LogBlock]:
    """Yield the blocks of a log file without damage.

    Args:
        content: Content of the file.
        path: Path of the file, for errors.

    Raises:
        CorruptionError: If the file is damaged.
        FormatError: If the version of a block is unknown.
    """
    for block in log_blocks(pa.BufferReader(content), path):
        if isinstance(block, DamagedBlock):
            raise block.error
        yield block


def log_blocks(stream: pa.NativeFile, path: str) -> Iterator[LogBlock | DamagedBlock]:
    """Yield the blocks of a log file, one after the other.

    Args:
        stream: Open file.
        path: Path of the file, for errors.

    Raises:
        CorruptionError: If the file is damaged in another way than by a writer that was killed.
        FormatError: If the version of a block is unknown.
    """
    at, end = 0, stream.size()
    while at < end:
        head = Cursor(stream.read_at(min(_HEAD, end - at), at), path, at, "the log file")
        if head.left >= len(_MAGIC):
            head.expect(_MAGIC)
        try:
            size = _whole_size(stream, head, at, end)
        except CorruptionError as error:
            following = _next_block(stream, at + len(_MAGIC), end)
            time = _time_of(stream, path, at, end)
            yield DamagedBlock(at, error, time, following is not None)
            at = end if following is None else following
            continue
        block = Cursor(stream.read_at(size, at + _HEAD), path, at + _HEAD, "the block")
        yield _block(block, path)
        at += _HEAD + size


def _whole_size(stream: pa.NativeFile, head: Cursor, at: int, end: int) -> int:
    """Return the number of bytes of a block after its head.

    Raises:
        CorruptionError: If the block does not end where it says, for readers from either end, or
            something other than a block follows.
    """
    if head.left < _SIZE.size:
        raise head.error(f"the head of a block, {_HEAD} bytes", f"{end - at}")
    size = head.int64()
    stop = head.at + size
    if size < _SIZE.size or stop > end:
        raise head.error(f"{size} bytes", f"{end - head.at} left in the log file")
    (again,) = _SIZE.unpack(stream.read_at(_SIZE.size, stop - _SIZE.size))
    if again != len(_MAGIC) + size:
        expected = f"{len(_MAGIC) + size}, the size of the block"
        raise CorruptionError(head.path, stop - _SIZE.size, expected, again)
    following = stream.read_at(min(len(_MAGIC), end - stop), stop)
    if len(following) == len(_MAGIC) and following != _MAGIC:
        raise CorruptionError(head.path, stop, repr(_MAGIC), repr(following))
    return size


def _next_block(stream: pa.NativeFile, at: int, end: int) -> int | None:
    """Return the offset of the next block after damage. None: there is none."""
    while at < end:
        found = stream.read_at(min(_SEARCHED + len(_MAGIC), end - at), at).find(_MAGIC)
        if found >= 0:
            return int(at + found)
        at += _SEARCHED
    return None


def _time_of(stream: pa.NativeFile, path: str, at: int, end: int) -> str | None:
    """Return the instant in the headers of a damaged block. None: they are damaged."""
    start = at + _HEAD
    if start >= end:
        return None
    with suppress(CorruptionError):
        content = stream.read_at(min(_SEARCHED, end - start), start)
        rest = Cursor(content, path, start, "the block")
        if rest.int32() == _VERSION:
            rest.int32()
            for _ in range(rest.int32()):
                name, value = rest.int32(), rest.take(rest.int32())
                if name == INSTANT_HEADER:
                    return value.decode("utf-8", "replace")
    return None


def _block(block: Cursor, path: str) -> LogBlock:
    """Return a block whose end is where it says."""
    version = block.int32()
    if version != _VERSION:
        raise FormatError(
            f"{path}: a log block of version {version}; only version 1 is supported, which Apache "
            "Hudi writes up to 1.1"
        )
    kind = block.int32()
    headers = _pairs(block)
    content_bytes = block.int64()
    at = block.at
    content = block.take(content_bytes)
    _pairs(block)
    # The size follows again, for readers that start at the end.
    if block.left != _SIZE.size:
        raise block.error("the size of the block", f"{block.left} bytes")
    time, _ = headers.get(INSTANT_HEADER, (b"", at))
    schema, at_schema = headers.get(SCHEMA_HEADER, (b"", at))
    values = {name: value for name, (value, _) in headers.items()}
    return LogBlock(kind, time.decode("utf-8", "replace"), schema, at_schema, content, at, values)


def rolled_back(block: LogBlock, path: str) -> str:
    """Return the request time of the instant whose blocks a command block takes back.

    Raises:
        FormatError: If the block has another command.
        CorruptionError: If the block does not name the instant.
    """
    command = block.headers.get(_COMMAND)
    if command != _ROLLBACK:
        raise FormatError(
            f"{path}: the command {command!r} of a log block is not supported; compact the table "
            "with Apache Hudi"
        )
    target = block.headers.get(_TARGET)
    if target is None:
        raise CorruptionError(path, block.at, "the instant that was rolled back", "none")
    return target.decode("utf-8", "replace")


def avro_records(block: LogBlock, path: str) -> Iterator[tuple[bytes, int]]:
    """Yield the bytes of each record of a block of the kind `AVRO`, with their offset in the file.

    Args:
        block: Block of a log file.
        path: Path of the file, for errors.

    Raises:
        CorruptionError: If the block is damaged.
        FormatError: If the version of the content is not supported.
    """
    rest = Cursor(block.content, path, block.at, "the block")
    version = rest.int32()
    if version not in _AVRO_VERSIONS:
        raise FormatError(
            f"{path}: version {version} of Avro data blocks is not supported; compact the table "
            "with Apache Hudi"
        )
    for _ in range(rest.int32()):
        size = rest.int32()
        at = rest.at
        yield rest.take(size), at
    if rest.left:
        raise rest.error("the end of the block", f"{rest.left} bytes")


def _pairs(block: Cursor) -> Mapping[int, tuple[bytes, int]]:
    """Return the headers of a block with their offsets, by number."""
    found = {}
    for _ in range(block.int32()):
        name, size = block.int32(), block.int32()
        at = block.at
        found[name] = block.take(size), at
    return found


def block_bytes(kind: int, headers: Mapping[int, bytes], content: bytes) -> bytes:
    """Return a block.

    Args:
        kind: Kind of the content.
        headers: Headers of the block, by number.
        content: Content of the block.
    """
    body = struct.pack(">iii", _VERSION, kind, len(headers))
    body += b"".join(
        struct.pack(">ii", name, len(value)) + value for name, value in headers.items()
    )
    body += struct.pack(">q", len(content)) + content + struct.pack(">i", 0)
    size = len(body) + _SIZE.size
    return _MAGIC + _SIZE.pack(size) + body + _SIZE.pack(len(_MAGIC) + size)
