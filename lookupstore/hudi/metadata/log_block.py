"""Blocks of log files; a metadata table writes one per instant.

Source: org.apache.hudi.common.table.log (HoodieLogFormatWriter, HoodieLogFileReader).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from lookupstore.errors import FormatError
from lookupstore.hudi.metadata.cursor import Cursor

_MAGIC = b"#HUDI#"
_VERSION = 1
#: Kinds of blocks: keys that are deleted, and records in an HFile.
DELETES, HFILE = 1, 4
_INSTANT, _SCHEMA = 0, 2
# An empty list of keys, after its version and length; a new file group begins with one.
NO_DELETES = b"\x00\x00\x00\x03\x00\x00\x00\x01\x00"


class LogBlock(NamedTuple):
    """One block of a log file.

    Attributes:
        kind: Kind of the content, such as `DELETES` or `HFILE`.
        time: Request time of the instant that wrote the block.
        schema: Schema of the records, as JSON.
        at_schema: Offset of the schema in the file.
        content: Content of the block.
        at: Offset of the content in the file.
    """

    kind: int
    time: str
    schema: bytes
    at_schema: int
    content: bytes
    at: int


def read_blocks(content: bytes, path: str) -> list[LogBlock]:
    """Parse the blocks of a log file.

    Args:
        content: Content of the file.
        path: Path of the file, for errors.

    Raises:
        CorruptionError: If the file is damaged.
        FormatError: If the version of a block is unknown.
    """
    rest = Cursor(content, path, 0, "the log file")
    blocks = []
    while rest.left:
        rest.expect(_MAGIC)
        size = rest.int64()
        block = Cursor(content[rest.at : rest.at + max(0, size)], path, rest.at, "the block")
        rest.take(size)
        blocks.append(_block(block, path, len(_MAGIC) + size))
    return blocks


def _block(block: Cursor, path: str, size: int) -> LogBlock:
    version = block.int32()
    if version != _VERSION:
        raise FormatError(f"{path}: version {version} of log blocks is not supported")
    kind = block.int32()
    headers = _pairs(block)
    content_bytes = block.int64()
    at = block.at
    content = block.take(content_bytes)
    _pairs(block)
    # For readers that start at the end.
    if block.left != struct.calcsize(">q"):
        raise block.error("the size of the block", f"{block.left} bytes")
    again = block.int64()
    if again != size:
        raise block.error(f"{size}, the size of the block", again)
    time, _ = headers.get(_INSTANT, (b"", at))
    schema, at_schema = headers.get(_SCHEMA, (b"", at))
    return LogBlock(kind, time.decode("utf-8", "replace"), schema, at_schema, content, at)


def _pairs(block: Cursor) -> Mapping[int, tuple[bytes, int]]:
    """Return the headers of a block with their offsets, by number."""
    found = {}
    for _ in range(block.int32()):
        name, size = block.int32(), block.int32()
        at = block.at
        found[name] = block.take(size), at
    return found


def block_bytes(time: str, schema: bytes, content: bytes) -> bytes:
    """Return a log file with one block of records.

    Args:
        time: Request time of the instant.
        schema: Schema of the records, as JSON.
        content: Records, as an HFile.
    """
    headers = b"".join(
        struct.pack(">ii", name, len(value)) + value
        for name, value in ((_INSTANT, time.encode()), (_SCHEMA, schema))
    )
    body = struct.pack(">iii", _VERSION, HFILE, 2) + headers
    body += struct.pack(">q", len(content)) + content + struct.pack(">i", 0)
    size = len(body) + 8
    return _MAGIC + struct.pack(">q", size) + body + struct.pack(">q", len(_MAGIC) + size)
