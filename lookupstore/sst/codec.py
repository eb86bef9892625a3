"""Blocks to stored payloads and back: one record for each codec, and what derives from all.

A compressed payload starts with the varint length of the block. Payload layouts: docs/format.md,
"Compression". A new codec is a record here, and nothing elsewhere.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import zstandard

from lookupstore.errors import FormatError
from lookupstore.extras import require
from lookupstore.sst.format import MAX_BLOCK, pack_varint, unpack_varint

_LENGTHS = struct.Struct("<ii")

# A block that is larger than this is a few large records, of which one byte stands for less.
_LARGE = 256 << 20
_LARGE_EXPANSION = 1 << 10

# zstandard's contexts are not to be shared between threads.
_local = threading.local()

_Body: TypeAlias = "bytes | memoryview"


@dataclass(frozen=True)
class Codec:
    """One codec of blocks.

    Attributes:
        name: as `compression` and the properties of a file have it.
        id: in a block's trailer.
        expansion: the most bytes that one compressed byte can stand for. A larger claim is a lie,
            and refused before memory is asked for.
        decode: returns the block of a body and a length; ValueError says what is broken.
        encoder: returns a function from blocks to bodies, made for a level and the choice to write
            Java's bytes; None: files of this codec are read only.
        has_lengths: whether lz4-java's two lengths, of body and block, are before the body.
        levels: that `encoder` takes besides None.
    """

    name: str
    id: int
    expansion: int
    decode: Callable[[_Body, int], _Body]
    encoder: Callable[[int | None, bool], Callable[[bytes], bytes]] | None
    has_lengths: bool = False
    levels: range = range(0)


def _plain_encoder(level: int | None, java: bool) -> Callable[[bytes], bytes]:
    return lambda block: block


def _zstd_encoder(level: int | None, java: bool) -> Callable[[bytes], bytes]:
    # Level 1 is Paimon's. zstd-jni makes frames as a stream, which says no content size.
    zstd = zstandard.ZstdCompressor(
        level=1 if level is None else level, write_content_size=not java
    )

    def in_a_stream(block: bytes) -> bytes:
        stream = zstd.compressobj()
        return stream.compress(block) + stream.flush()

    return in_a_stream if java else zstd.compress


def _decode_zstd(body: _Body, plain: int) -> bytes:
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


def _lz4_encoder(level: int | None, java: bool) -> Callable[[bytes], bytes]:
    # Arrow's raw codec is LZ4_compress_default, which lz4-java calls too.
    lz4 = pa.Codec("lz4_raw")
    return lambda block: lz4.compress(block, asbytes=True)


def _decode_lz4(body: _Body, plain: int) -> bytes:
    try:
        block: bytes = pa.Codec("lz4_raw").decompress(body, plain, asbytes=True)
    except OSError as error:
        raise ValueError(f"a broken LZ4 block ({error})") from None
    return block


def _decode_lzo(body: _Body, plain: int) -> bytes:
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


#: Every codec by its id.
CODECS = {
    codec.id: codec
    for codec in (
        Codec("none", 0, 1, lambda body, plain: body, _plain_encoder),
        # A zstd block of 4 bytes holds at most 128 KiB (RFC 8878, 3.1.1.2).
        Codec(
            "zstd",
            1,
            1 << 15,
            _decode_zstd,
            _zstd_encoder,
            levels=range(-131072, zstandard.MAX_COMPRESSION_LEVEL + 1),
        ),
        # Lengths of LZ4 and of LZO1X grow by 255 a byte.
        Codec("lz4", 2, 255, _decode_lz4, _lz4_encoder, has_lengths=True),
        Codec("lzo", 3, 255, _decode_lzo, None, has_lengths=True),
    )
}
_WRITTEN = {codec.name: codec for codec in CODECS.values() if codec.encoder is not None}
#: What `compression` can be: the names of the codecs that are written, too.
COMPRESSIONS = tuple(_WRITTEN)


def codec_name(codec: int) -> str | None:
    """Return the name of the codec of an id; None: there is no such codec."""
    return CODECS[codec].name if codec in CODECS else None


class Compressor:
    """A compressor of the blocks of one file.

    Args:
        compression: name of the codec, one of `COMPRESSIONS`.
        level: of a codec that has levels; None is its usual one.
        java: make the bytes that Java Paimon makes.
    """

    def __init__(self, compression: str, level: int | None, *, java: bool) -> None:
        if compression not in COMPRESSIONS:
            raise ValueError(f"compression must be {_one_of(COMPRESSIONS)}, not {compression!r}")
        codec = _WRITTEN[compression]
        levels = codec.levels
        if level is not None and not levels:
            with_levels = _one_of([one.name for one in _WRITTEN.values() if one.levels])
            raise ValueError(f"level={level} needs compression={with_levels}, not {compression!r}")
        if level is not None and not levels[0] <= level <= levels[-1]:
            raise ValueError(f"level={level} is beyond {compression}'s {levels[-1]}")
        assert codec.encoder is not None
        self._codec = codec
        self._encode = codec.encoder(level, java)

    def compress(self, block: bytes) -> tuple[int, bytes]:
        """Return codec id and payload; codec 0 where compression saves 12.5 % or less."""
        if self._codec.id == 0:
            return 0, block
        plain = len(block)
        body = self._encode(block)
        prefix = pack_varint(plain)
        if self._codec.has_lengths:
            prefix += _LENGTHS.pack(len(body), plain)
        if len(prefix) + len(body) >= plain - plain // 8:
            return 0, block
        return self._codec.id, prefix + body


def _one_of(names: Sequence[str]) -> str:
    *most, last = map(repr, names)
    return f"{', '.join(most)} or {last}" if most else last


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
    known = CODECS[codec]
    plain, at = unpack_varint(payload, 0)
    if plain > MAX_BLOCK:
        raise ValueError(f"a block of {plain} bytes")
    if most is not None and plain > most:
        raise ValueError(f"a block of {plain} bytes in a file that holds {most}")
    if known.has_lengths:
        if len(payload) - at < _LENGTHS.size:
            raise ValueError("a payload without its two lengths")
        packed, original = _LENGTHS.unpack_from(payload, at)
        at += _LENGTHS.size
        if original != plain or packed != len(payload) - at:
            raise ValueError(
                f"lengths {packed} and {original} for {len(payload) - at} and {plain} bytes"
            )
    body = payload[at:]
    expanded = known.expansion * (len(body) + 64)
    if plain > min(expanded, max(_LARGE, _LARGE_EXPANSION * len(body))):
        raise ValueError(f"{len(body)} bytes that claim to be {plain}")
    block = known.decode(body, plain)
    if len(block) != plain:
        raise ValueError(f"{len(block)} bytes where {plain} were promised")
    return block
