"""Blocks to stored payloads and back: zstd, lz4, lzo.

A compressed payload starts with the varint length of the block. Payload layouts: docs/format.md,
"Compression".
"""

from __future__ import annotations

import struct
import threading

import pyarrow as pa
import zstandard

from lookupstore.errors import FormatError
from lookupstore.extras import require
from lookupstore.sst.format import CODEC_IDS, CODECS, MAX_BLOCK, pack_varint, unpack_varint

_LENGTHS = struct.Struct("<ii")

# The most bytes that one compressed byte can stand for: a zstd block of 4 bytes holds at most
# 128 KiB (RFC 8878, 3.1.1.2); LZ4 and LZO1X lengths grow by 255 a byte. A larger claim is a lie,
# and refused before memory is asked for.
_MOST_EXPANSION = {"zstd": 1 << 15, "lz4": 255, "lzo": 255}
# A block that is larger than this is a few large records, of which one byte stands for less.
_LARGE = 256 << 20
_LARGE_EXPANSION = 1 << 10

# zstandard's contexts are not to be shared between threads.
_local = threading.local()


class Compressor:
    """A compressor of the blocks of one file.

    Args:
        codec: ``none``, ``zstd`` or ``lz4``.
        level: of zstd; None is its level 1, as in Paimon.
        java: make zstd frames as zstd-jni does, as a stream that says no content size, so that the
            bytes are Java Paimon's.
    """

    def __init__(self, codec: str, level: int | None, *, java: bool) -> None:
        if codec not in ("none", "zstd", "lz4"):
            raise ValueError(f"compression must be 'none', 'zstd' or 'lz4', not {codec!r}")
        if level is not None and codec != "zstd":
            raise ValueError(f"level={level} needs compression='zstd', not {codec!r}")
        if level is not None and not -131072 <= level <= zstandard.MAX_COMPRESSION_LEVEL:
            raise ValueError(f"level={level} is beyond zstd's {zstandard.MAX_COMPRESSION_LEVEL}")
        self._codec = codec
        self._java = java
        if codec == "zstd":
            self._zstd = zstandard.ZstdCompressor(
                level=1 if level is None else level, write_content_size=not java
            )
        elif codec == "lz4":
            # Arrow's raw codec is LZ4_compress_default, which lz4-java calls too.
            self._lz4 = pa.Codec("lz4_raw")

    def compress(self, block: bytes) -> tuple[int, bytes]:
        """Return codec id and payload; codec 0 where compression saves 12.5 % or less."""
        plain = len(block)
        if self._codec == "none":
            return 0, block
        if self._codec == "zstd":
            if self._java:
                stream = self._zstd.compressobj()
                body = stream.compress(block) + stream.flush()
            else:
                body = self._zstd.compress(block)
            prefix = pack_varint(plain)
        else:
            body = self._lz4.compress(block, asbytes=True)
            prefix = pack_varint(plain) + _LENGTHS.pack(len(body), plain)
        if len(prefix) + len(body) >= plain - plain // 8:
            return 0, block
        return CODEC_IDS[self._codec], prefix + body


def decompress(
    codec: int, payload: bytes | memoryview, most: int | None = None
) -> bytes | memoryview:
    """Return the block in a payload; that of codec 0 is the payload itself.

    Args:
        codec: its id.
        payload: as it is stored.
        most: bytes that the block may have; None: nobody knows.

    Raises:
        FormatError: no library for this codec.
        ValueError: the payload does not hold what it says; the text is what was found.
    """
    if codec == 0:
        return payload
    if codec not in CODECS:
        raise ValueError(f"codec id {codec}")
    name = CODECS[codec]
    plain, at = unpack_varint(payload, 0)
    if plain > MAX_BLOCK:
        raise ValueError(f"a block of {plain} bytes")
    if most is not None and plain > most:
        raise ValueError(f"a block of {plain} bytes in a file that holds {most}")
    if name != "zstd":
        if len(payload) - at < _LENGTHS.size:
            raise ValueError("a payload without its two lengths")
        packed, original = _LENGTHS.unpack_from(payload, at)
        at += _LENGTHS.size
        if original != plain or packed != len(payload) - at:
            raise ValueError(
                f"lengths {packed} and {original} for {len(payload) - at} and {plain} bytes"
            )
    body = payload[at:]
    expanded = _MOST_EXPANSION[name] * (len(body) + 64)
    if plain > min(expanded, max(_LARGE, _LARGE_EXPANSION * len(body))):
        raise ValueError(f"{len(body)} bytes that claim to be {plain}")
    block = _DECODERS[name](body, plain)
    if len(block) != plain:
        raise ValueError(f"{len(block)} bytes where {plain} were promised")
    return block


def _decode_zstd(body: bytes | memoryview, plain: int) -> bytes:
    if not hasattr(_local, "zstd"):
        _local.zstd = zstandard.ZstdDecompressor()
    try:
        promised = zstandard.get_frame_parameters(body).content_size
        if promised not in (plain, zstandard.CONTENTSIZE_UNKNOWN):
            raise ValueError(f"a frame of {promised} bytes where {plain} were promised")
        block: bytes = _local.zstd.decompress(body, max_output_size=plain, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise ValueError(f"a broken zstd frame ({error})") from None
    return block


def _decode_lz4(body: bytes | memoryview, plain: int) -> bytes:
    try:
        block: bytes = pa.Codec("lz4_raw").decompress(body, plain, asbytes=True)
    except OSError as error:
        raise ValueError(f"a broken LZ4 block ({error})") from None
    return block


def _decode_lzo(body: bytes | memoryview, plain: int) -> bytes:
    try:
        require("lzo", "codec lzo")
    except ImportError as error:
        raise FormatError(f"{error} (Python 3.11 or later)") from None
    from lzallright import LZOCompressor, LZOError

    try:
        block: bytes = LZOCompressor.decompress(bytes(body), output_size_hint=plain)
    except LZOError as error:
        raise ValueError(f"a broken LZO stream ({error})") from None
    return block


_DECODERS = {"zstd": _decode_zstd, "lz4": _decode_lz4, "lzo": _decode_lzo}
