"""The codecs of blocks: one record for each, and what is derived from these records.

A compressed payload starts with the varint length of the block. Payload layouts:
docs/reference/format.md, "Payload and trailer". A new codec is a record here, and nothing
elsewhere.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from lookupstore.errors import FormatError
from lookupstore.extras import require
from lookupstore.sst import zstd
from lookupstore.sst._load import BlockLoad
from lookupstore.sst._written import pack_blocks, seal_blocks
from lookupstore.sst.format import MAX_BLOCK, Dialect, unpack_varint
from lookupstore.sst.zstd import PLAIN_FRAMES, Frames, Tuning

_LENGTHS = struct.Struct("<ii")

# Size above which a block consists of a few large records; its bytes expand less.
_LARGE = 256 << 20
_LARGE_EXPANSION = 1 << 10

_Body: TypeAlias = "bytes | memoryview"


@dataclass(frozen=True)
class Codec:
    """One codec of blocks.

    Attributes:
        name: Name of the codec, in `compression` and in the properties of a file.
        id: Number of the codec in a block's trailer.
        expansion: Largest number of bytes that one compressed byte can stand for. A larger claim is
            refused before memory is allocated.
        decode: Function that returns the block of a body and a length, with the decompressor of the
            file's frames; ValueError says what is broken.
        encoder: Function that takes a level, perhaps with a dictionary, and whether to write Java's
            bytes, and returns a function from blocks to as many bodies, which have buffers. None:
            files of this codec can only be read, or it is that of blocks that stay as they are.
        has_lengths: Whether lz4-java's two lengths, of body and block, are before the body.
        levels: Levels of the codec; empty: it has none.
        tune: Function that chooses how to compress a file, from the requested level and the first
            blocks. None: there is no choice.
    """

    name: str
    id: int
    expansion: int
    decode: Callable[[_Body, int, Frames], _Body]
    encoder: Callable[[Tuning, bool], Callable[[list[Any]], Sequence[Any]]] | None
    has_lengths: bool = False
    levels: range = range(0)
    tune: Callable[[int | None, Sequence[bytes]], Tuning] | None = None


def _lz4_encoder(tuning: Tuning, java: bool) -> Callable[[list[Any]], Sequence[Any]]:
    # Arrow's raw codec is LZ4_compress_default, which lz4-java calls too.
    lz4 = pa.Codec("lz4_raw")
    return lambda blocks: [lz4.compress(block) for block in blocks]


def _decode_lz4(body: _Body, plain: int, frames: Frames) -> bytes:
    try:
        block: bytes = pa.Codec("lz4_raw").decompress(body, plain, asbytes=True)
    except OSError as error:
        raise ValueError(f"a broken LZ4 block ({error})") from None
    return block


def _decode_lzo(body: _Body, plain: int, frames: Frames) -> bytes:
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


# A zstd block of 4 bytes holds at most 128 KiB (RFC 8878, 3.1.1.2).
ZSTD = Codec(
    "zstd",
    1,
    1 << 15,
    lambda body, plain, frames: frames.decode(body, plain),
    zstd.encoder,
    levels=zstd.LEVELS,
    tune=zstd.tune,
)

#: Every codec by its id.
CODECS = {
    codec.id: codec
    for codec in (
        Codec("none", 0, 1, lambda body, plain, frames: body, None),
        ZSTD,
        # Lengths of LZ4 and of LZO1X grow by 255 a byte.
        Codec("lz4", 2, 255, _decode_lz4, _lz4_encoder, has_lengths=True),
        Codec("lzo", 3, 255, _decode_lzo, None, has_lengths=True),
    )
}
_WRITTEN = {
    codec.name: codec for codec in CODECS.values() if codec.id == 0 or codec.encoder is not None
}
#: Names allowed for `compression`: those of the codecs that can be written.
COMPRESSIONS = tuple(_WRITTEN)


def codec_name(codec: int) -> str | None:
    """Return the name of the codec of an id; None: there is no such codec."""
    return CODECS[codec].name if codec in CODECS else None


#: Default size of an uncompressed block. It overlaps three pages of a disk: a lookup of a key reads
#: 12 KiB.
PLAIN_BLOCK = 8 << 10
#: Default size of a compressed block before compression: a lookup of a key decompresses a whole
#: block.
COMPRESSED_BLOCK = 4608
#: Default size of a block in the Paimon dialect, equal to that of Paimon.
PAIMON_BLOCK = 64 << 10

#: Default rate of false positives of a filter: it takes 1.53 bytes per key.
FALSE_POSITIVES = 0.005
#: Default rate of false positives in the Paimon dialect, equal to that of Paimon: 0.78 bytes per
#: key.
PAIMON_FALSE_POSITIVES = 0.05


def usual_block_size(compression: str, *, java: bool = False) -> int:
    """Return the default block size of a writer.

    >>> usual_block_size("none"), usual_block_size("zstd")
    (8192, 4608)
    """
    if java:
        return PAIMON_BLOCK
    return PLAIN_BLOCK if compression == "none" else COMPRESSED_BLOCK


class Compressor:
    """A compressor of the blocks of one file, for one thread.

    Args:
        compression: Name of the codec, one of `COMPRESSIONS`.
        level: Level of the codec, if it has levels. None: its default level.
        java: Whether to write the same bytes as Java Paimon.
        dictionary: Dictionary of the file, for a codec that supports one.

    Attributes:
        dictionary: Dictionary of the file. None: it has none.
        samples: Whether the first blocks of a file decide how it is compressed.
    """

    def __init__(
        self,
        compression: str,
        level: int | None,
        *,
        java: bool,
        dictionary: bytes | None = None,
    ) -> None:
        if compression not in COMPRESSIONS:
            raise ValueError(f"compression must be {_one_of(COMPRESSIONS)}, not {compression!r}")
        codec = _WRITTEN[compression]
        levels = codec.levels
        if level is not None and not levels:
            with_levels = _one_of([one.name for one in _WRITTEN.values() if one.levels])
            raise ValueError(f"level={level} needs compression={with_levels}, not {compression!r}")
        if level is not None and not levels[0] <= level <= levels[-1]:
            raise ValueError(f"level={level} is beyond {compression}'s {levels[-1]}")
        self._codec = codec
        self._level = level
        self._java = java
        self.dictionary = dictionary
        self.samples: bool = codec.tune is not None and not java
        self._encode = codec.encoder and codec.encoder(Tuning(level, dictionary), java)

    def tuned(self, sample: Sequence[bytes]) -> Compressor:
        """Return a compressor for a file that begins with some blocks."""
        assert self._codec.tune is not None
        level, dictionary = self._codec.tune(self._level, sample)
        return type(self)(self._codec.name, level, java=self._java, dictionary=dictionary)

    def another(self) -> Compressor:
        """Return a compressor with the same settings for another thread."""
        return type(self)(
            self._codec.name, self._level, java=self._java, dictionary=self.dictionary
        )

    def packed(self, load: BlockLoad, dialect: Dialect) -> Packed:
        """Return blocks as written; codec 0 is used if compression saves 12.5 % or less."""
        codec = self._codec
        if self._encode is None:
            sizes = seal_blocks(load, dialect.checksum)
            return Packed(memoryview(load), [0] * len(load), sizes)
        return Packed(
            *pack_blocks(
                load, self._encode(load.blocks()), codec.id, codec.has_lengths, dialect.checksum
            )
        )


class Packed(NamedTuple):
    """The written form of some blocks, one after the other.

    Attributes:
        written: All bytes: payloads, each with its trailer.
        codecs: Codec id of each block.
        sizes: Size of each payload in bytes.
    """

    written: memoryview
    codecs: list[int]
    sizes: list[int]


def _one_of(names: Sequence[str]) -> str:
    *most, last = map(repr, names)
    return f"{', '.join(most)} or {last}" if most else last


def decompress(
    codec: int,
    payload: bytes | memoryview,
    most: int | None = None,
    frames: Frames = PLAIN_FRAMES,
) -> bytes | memoryview:
    """Return the block in a payload; with codec 0, the payload is the block.

    Args:
        codec: Id of the codec.
        payload: Stored payload of the block.
        most: Largest number of bytes that the block may have. None: unknown.
        frames: Decompressor of the zstd frames of the file.

    Raises:
        FormatError: The library for this codec is not installed.
        ValueError: The payload does not match its own lengths or is broken; the text describes what
            was found.
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
    block = known.decode(body, plain, frames)
    if len(block) != plain:
        raise ValueError(f"{len(block)} bytes where {plain} were promised")
    return block
