"""Compress blocks as zstd frames and decompress them, and choose the settings of a file.

Small blocks contain little to learn from. What the blocks of a file have in common is stored in a
dictionary, which is trained on the first blocks and stored in the file once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import zstandard

#: Level that leaves out the features that take longest to decompress.
QUICK = -1
#: Default level, equal to that of Paimon.
USUAL = 1
LEVELS = range(-131072, zstandard.MAX_COMPRESSION_LEVEL + 1)

# Bytes of the sample for one byte of the dictionary: 16 KiB for a sample of 1 MiB.
_SAMPLE_FOR_A_BYTE = 64
_SMALLEST = 256
# Minimum number of blocks for a dictionary: with fewer, it costs what it saves, and the first
# blocks predict little about the others.
_FEWEST = 64
# Factor by which the quick level may be larger than the other levels: it saves time for 1 / 16.
_QUICK_PAYS = 17 / 16
# Parameters of the search for parts of a dictionary. It uses a table of 2^f counters; clearing the
# default table (f = 20) takes longer than reading the sample.
_TRAINING = {"k": 200, "d": 8, "f": 16}

_Body: TypeAlias = "bytes | memoryview"


class Tuning(NamedTuple):
    """Settings for compressing the blocks of one file.

    Attributes:
        level: Level of the compression. None: the usual level.
        dictionary: Dictionary of the file. None: it has none.
    """

    level: int | None
    dictionary: bytes | None = None


def encoder(tuning: Tuning, java: bool) -> Callable[[list[bytes]], Sequence[Any]]:
    """Return a function from blocks to frames, which support the buffer protocol.

    With `java` the frames have the bytes that zstd-jni makes. Without it, all blocks of a call are
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
        # zstd-jni makes frames as a stream, which does not record the content size.
        stream = zstd.compressobj()
        return stream.compress(block) + stream.flush()

    def together(blocks: list[Any]) -> Any:  # not a Sequence, but it has items and a length
        return zstd.multi_compress_to_buffer(blocks, threads=1)

    return (lambda blocks: list(map(in_a_stream, blocks))) if java else together


def tune(level: int | None, sample: Sequence[bytes]) -> Tuning:
    """Return the settings for a file that begins with some blocks; only these blocks decide.

    The smallest result is chosen. If the caller did not set a level, the quick level is chosen if
    its result is nearly as small: what it leaves out makes decompression two to four times as long.
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
    """Return a dictionary for blocks like the sample. None: they have nothing in common."""
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
    """Decompressors of the zstd frames of one file, for any number of threads.

    Args:
        dictionary: Dictionary of the file. Default: it has none.

    Attributes:
        idle: Decompressors that no thread uses now. A thread puts its decompressor back after use.

    Raises:
        ValueError: If the bytes are not a dictionary.
    """

    def __init__(self, dictionary: bytes | memoryview | None = None) -> None:
        self._dictionary = (
            None
            if dictionary is None
            else zstandard.ZstdCompressionDict(dictionary, dict_type=zstandard.DICT_TYPE_FULLDICT)
        )
        # Contexts of zstandard must not be shared between threads: each is in use or in this list.
        self.idle: list[zstandard.ZstdDecompressor] = []
        if dictionary is not None:
            try:
                self.idle.append(self.take())
            except zstandard.ZstdError as error:
                raise ValueError(f"no dictionary of zstd ({error})") from None

    def decode(self, body: _Body, plain: int) -> bytes:
        """Return the block of `plain` bytes in a frame.

        Raises:
            ValueError: If the frame is broken, or has another size.
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
        """Return a decompressor that no other thread uses."""
        try:
            return self.idle.pop()
        except IndexError:
            return zstandard.ZstdDecompressor(dict_data=self._dictionary)


#: Decompressors of files without a dictionary.
PLAIN_FRAMES = Frames()
