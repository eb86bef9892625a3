"""Streams of ORC: chunks of every compression, and runs of lengths as Arrow writes them."""

from __future__ import annotations

import io
import random

import pyarrow as pa
import pytest
from pyarrow import orc
from support.orc_files import LENGTH, LZ4, NONE, SNAPPY, ZLIB, ZSTD, OrcFile, chunk

from lookupstore.orc._runs import lengths_in
from lookupstore.orc.chunks import Compression
from lookupstore.orc.footer import read_footer, read_stripe_footer
from lookupstore.orc.messages import read_message, varint

KINDS = [NONE, ZLIB, SNAPPY, LZ4, ZSTD]
PACKED = KINDS[1:]


@pytest.mark.parametrize("kind", KINDS)
def test_chunks(kind: int) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(200):
        words = [rng.randbytes(rng.randrange(1, 30)) for _ in range(rng.randrange(1, 9))]
        data = b"".join(rng.choices(words, k=rng.randrange(300)))
        block = rng.choice([100, 1000, 5000])
        stored = OrcFile([], [], kind, block).packed(data)
        compression = Compression(kind, block)
        assert compression.plain(stored, len(data)) == data
        if kind == NONE or not data:
            continue
        with pytest.raises(ValueError, match="a stream that becomes too large"):
            compression.plain(stored, len(data) - 1)
        for less in range(1, min(4, len(stored))):
            with pytest.raises(ValueError, match=r"a chunk of \d+ bytes where|a broken chunk"):
                compression.plain(stored[:-less], len(data))
        # What else may be in the file: an answer or an error, of a size that is known before.
        changed = bytearray(stored)
        changed[rng.randrange(len(changed))] = rng.randrange(256)
        try:
            assert len(compression.plain(bytes(changed), 1 << 20)) <= 1 << 20
        except ValueError:
            continue


@pytest.mark.parametrize("kind", PACKED)
def test_a_chunk_that_is_larger_than_blocks_are(kind: int) -> None:
    stored = chunk(kind, bytes(100_000))
    assert Compression(kind, 100_000).plain(stored, 100_000) == bytes(100_000)
    with pytest.raises(ValueError, match=r"a chunk of \d+ bytes in blocks of 99999"):
        Compression(kind, 99_999).plain(stored, 100_000)


def test_numbers_have_at_most_64_bits() -> None:
    """Protobuf has ten bytes for such a number, which could be of 70 bits."""
    most = bytes([0xFF] * 9 + [1])
    assert varint(most + b"next", 0) == (2**64 - 1, 10)
    assert read_message(b"\x08" + most) == {1: [2**64 - 1]}
    for tenth in (2, 0x7F, 0x81):
        with pytest.raises(ValueError, match="a number that does not end"):
            varint(bytes([0xFF] * 9 + [tenth, 0, 0]), 0)


def test_lengths_as_arrow_writes_them() -> None:
    """Runs of each kind, by what lengths are: equal, ascending, few, or with one that is long."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(300):
        lengths: list[int] = []
        for _ in range(rng.randrange(1, 12)):
            n, start, most = rng.randrange(1, 600), rng.randrange(50), rng.choice([1, 5, 60])
            kind = rng.randrange(5)
            if kind == 0:
                lengths += [start] * n
            elif kind == 1:
                lengths += range(start, start + n // 8 + 1)
            elif kind == 2:
                lengths += sorted((rng.randrange(most) for _ in range(n)), reverse=True)
            else:
                lengths += [rng.randrange(most) for _ in range(n)]
            if kind == 4:
                lengths[-1 - rng.randrange(n)] = rng.choice([3000, 70_000])
        texts = pa.array([bytes(one) for one in lengths], pa.binary())
        sink = io.BytesIO()
        version = rng.choice(["0.11", "0.12"])
        orc.write_table(
            pa.table({"t": texts}),
            sink,
            file_version=version,
            compression=rng.choice(["uncompressed", "zlib", "zstd", "lz4", "snappy"]),
        )
        file = pa.BufferReader(sink.getvalue())
        footer = read_footer(file, "f")
        (stripe,) = footer.stripes
        said = read_stripe_footer(file, footer, stripe, "f")
        offset, nbytes = said.streams[LENGTH, 1]
        stored = file.read_at(nbytes, offset)
        runs = footer.compression.plain(stored, 1 << 20)
        found = lengths_in(runs, 1 if said.encodings[1][0] == 0 else 2)
        assert found == (len(lengths), sum(lengths), max(lengths))
