"""Decompress streams of an ORC file, chunk by chunk.

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
#: Largest size of a chunk in bytes: its header has 23 bits for it.
MOST_BLOCK = 1 << 23


@dataclass(frozen=True)
class Compression:
    """The compression of streams.

    Attributes:
        kind: Number of the codec in ORC.
        block: Largest size of a chunk before compression, in bytes.
    """

    kind: int
    block: int

    def plain(self, stored: bytes, most: int) -> bytes:
        """Return a stream after decompression.

        Args:
            stored: Bytes of the stream in the file.
            most: Largest size of the result, in bytes.

        Raises:
            ValueError: If the stream is damaged, or the result is larger.
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
        """Return a chunk after decompression."""
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
        """Check that a chunk is not larger than `block`."""
        if size > self.block:
            raise ValueError(f"a chunk of {size} bytes in blocks of {self.block}")
