"""Blocks to zstd frames and back, and how the frames of one file are made.

Frames of small blocks have little to learn from. What they have in common is in a dictionary, which
is trained on the first blocks of a file and stored in it once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import zstandard

#: A level that leaves out what takes longest to decompress.
QUICK = -1
#: The usual one, as Paimon's.
USUAL = 1
LEVELS = range(-131072, zstandard.MAX_COMPRESSION_LEVEL + 1)

# Bytes of a dictionary: one for so many of the sample, 16 KiB for a whole one.
_SAMPLE_FOR_A_BYTE = 64
_SMALLEST = 256
# Of fewer blocks a dictionary costs what it saves, and the first ones say little of the others.
_FEWEST = 64
# How much smaller the other levels have to be for the time that they take: 1 / 16.
_QUICK_PAYS = 17 / 16
# How the parts of a dictionary are looked for: in a table of 2^f counters, of which the usual one
# (f = 20) takes longer to clear than the sample to read.
_TRAINING = {"k": 200, "d": 8, "f": 16}

_Body: TypeAlias = "bytes | memoryview"


class Tuning(NamedTuple):
    """How the blocks of one file are compressed.

    Attributes:
        level: of the compression; None is the usual one.
        dictionary: of the file, if it has one.
    """

    level: int | None
    dictionary: bytes | None = None


def encoder(tuning: Tuning, java: bool) -> Callable[[list[bytes]], Sequence[Any]]:
    """Return a function from blocks to frames, which have buffers.

    With `java` they are the bytes that zstd-jni makes. Without it all blocks of a call are
    compressed in one step, without the GIL.
    """
    level = USUAL if tuning.level is None else tuning.level
    known = None
    if tuning.dictionary is not None:
        known = zstandard.ZstdCompressionDict(tuning.dictionary)
        known.precompute_compress(level=level)
    zstd = zstandard.ZstdCompressor(
        level=level, dict_data=known, write_content_size=not java, write_dict_id=False
    )

    def in_a_stream(block: bytes) -> bytes:
        # zstd-jni makes frames as a stream, which says no content size.
        stream = zstd.compressobj()
        return stream.compress(block) + stream.flush()

    def together(blocks: list[Any]) -> Any:  # it is no Sequence, but has items and a length
        return zstd.multi_compress_to_buffer(blocks, threads=1)

    return (lambda blocks: list(map(in_a_stream, blocks))) if java else together


def tune(level: int | None, sample: Sequence[bytes]) -> Tuning:
    """Return how to compress the blocks of a file that begins with these: nothing else decides it.

    The smallest of all ways is taken, but without a level of the caller's the quick one if it is
    nearly as small: what it leaves out makes decompressing two to four times as long.
    """
    usual = Tuning(level)
    if len(sample) < _FEWEST:
        return usual
    best, least = usual, _size(usual, sample)
    dictionary = _train(level, sample)
    if dictionary is not None:
        trained = Tuning(level, dictionary)
        size = _size(trained, sample) + len(dictionary)
        if size < least:
            best, least = trained, size
    if level is None and _size(Tuning(QUICK), sample) <= _QUICK_PAYS * least:
        best = Tuning(QUICK)
    return best


def _train(level: int | None, sample: Sequence[bytes]) -> bytes | None:
    """Return a dictionary for blocks like these; None: they have nothing in common."""
    size = max(_SMALLEST, sum(map(len, sample)) // _SAMPLE_FOR_A_BYTE)
    try:
        trained = zstandard.train_dictionary(
            size, list(sample), level=USUAL if level is None else level, **_TRAINING
        )
    except zstandard.ZstdError:
        return None
    found: bytes = trained.as_bytes()
    return found


def _size(tuning: Tuning, sample: Sequence[bytes]) -> int:
    return sum(map(len, encoder(tuning, java=False)(list(sample))))


class Frames:
    """What decompresses the frames of one file, for any number of threads.

    Args:
        dictionary: of the file, if it has one.

    Attributes:
        idle: decompressors that nobody uses now. Who is done with one puts it here.

    Raises:
        ValueError: it is not a dictionary.
    """

    def __init__(self, dictionary: bytes | memoryview | None = None) -> None:
        self._dictionary = (
            None
            if dictionary is None
            else zstandard.ZstdCompressionDict(dictionary, dict_type=zstandard.DICT_TYPE_FULLDICT)
        )
        # zstandard's contexts are not to be shared between threads: each is in one hand or here.
        self.idle: list[zstandard.ZstdDecompressor] = []
        if dictionary is not None:
            try:
                self.idle.append(self.take())
            except zstandard.ZstdError as error:
                raise ValueError(f"no dictionary of zstd ({error})") from None

    def decode(self, body: _Body, plain: int) -> bytes:
        """Return the block of `plain` bytes in a frame.

        Raises:
            ValueError: the frame is broken, or of another size.
        """
        try:
            promised = zstandard.get_frame_parameters(body).content_size
            if promised not in (plain, zstandard.CONTENTSIZE_UNKNOWN):
                raise ValueError(f"a frame of {promised} bytes where {plain} were promised")
            zstd = self.take()
            try:
                block: bytes = zstd.decompress(body, max_output_size=plain, allow_extra_data=False)
            finally:
                self.idle.append(zstd)
        except zstandard.ZstdError as error:
            raise ValueError(f"a broken zstd frame ({error})") from None
        return block

    def take(self) -> zstandard.ZstdDecompressor:
        """Return a decompressor that nobody else uses."""
        try:
            return self.idle.pop()
        except IndexError:
            return zstandard.ZstdDecompressor(dict_data=self._dictionary)


#: Of files without a dictionary.
PLAIN_FRAMES = Frames()
