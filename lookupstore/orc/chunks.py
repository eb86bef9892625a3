"""Streams of an ORC file as they were before they were compressed, chunk by chunk.

Source: ORC specification v1, Compression.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import pyarrow as pa
import zstandard

from lookupstore.orc._runs import lz4_size
from lookupstore.orc.messages import varint

NONE, ZLIB, SNAPPY, LZO, LZ4, ZSTD = range(6)

_HEADER = 3
#: Bytes of a chunk at most: its header has 23 bits for them.
MOST_BLOCK = 1 << 23


@dataclass(frozen=True)
class Compression:
    """How streams are compressed.

    Attributes:
        kind: as ORC numbers them.
        block: bytes of a chunk, at most, when it is not compressed.
    """

    kind: int
    block: int

    def plain(self, stored: bytes, most: int) -> bytes:
        """Return a stream that is not compressed.

        Args:
            stored: the stream as the file has it.
            most: bytes that it may have.

        Raises:
            ValueError: it makes no sense, or has more.
        """
        if self.kind == NONE:
            return stored
        pieces = []
        at = 0
        while at < len(stored):
            header = int.from_bytes(stored[at : at + _HEADER], "little")
            at += _HEADER
            size = header >> 1
            if size > len(stored) - at:
                raise ValueError(f"a chunk of {size} bytes where {len(stored) - at} are left")
            piece = stored[at : at + size]
            at += size
            if not header & 1:
                piece = self._piece(piece)
            most -= len(piece)
            if most < 0:
                raise ValueError("a stream that becomes too large")
            pieces.append(piece)
        return b"".join(pieces)

    def _piece(self, piece: bytes) -> bytes:
        """Return a chunk that is not compressed."""
        try:
            if self.kind == ZLIB:
                inflate = zlib.decompressobj(-zlib.MAX_WBITS)
                plain = inflate.decompress(piece, self.block + 1)
                self._check(len(plain))
                if not inflate.eof:
                    raise ValueError("a chunk that does not end")
                return plain
            if self.kind == ZSTD:
                self._check(zstandard.frame_content_size(piece))
                codec = zstandard.ZstdDecompressor()
                return bytes(codec.decompress(piece, max_output_size=self.block))
            size = varint(piece, 0)[0] if self.kind == SNAPPY else lz4_size(piece)
            self._check(size)
            name = "snappy" if self.kind == SNAPPY else "lz4_raw"
            return bytes(pa.decompress(piece, size, name, asbytes=True)) if size else b""
        except (zlib.error, zstandard.ZstdError, pa.ArrowException, OSError) as error:
            raise ValueError(f"a broken chunk: {error}") from None

    def _check(self, size: int) -> None:
        """Refuse a chunk that is larger than chunks are."""
        if size > self.block:
            raise ValueError(f"a chunk of {size} bytes in blocks of {self.block}")
