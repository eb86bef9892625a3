"""How compressed files are written: which level, whether with a dictionary, and its bytes.

The oracle decodes a file by the format page with `struct` and `zstandard` alone.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
import zstandard
from support.sst_files import Record, block, fresh

from lookupstore.sst import Writer, pipeline
from lookupstore.sst.dump import dump_text, hexdump, layout

WORDS = [b"ship", b"port", b"berth", b"crane", b"container", b"manifest", b"customs", b"quay"]


def speaking(rng: random.Random, count: int = 9000) -> list[Record]:
    """Return records of words and numbers: small blocks of them have little to learn from."""
    return [
        (
            b"%08d" % (3 * i),
            b" ".join(rng.choices(WORDS, k=4)) + b" %d %.3f" % (rng.randrange(999), rng.random()),
        )
        for i in range(count)
    ]


def noisy(rng: random.Random, count: int = 9000) -> list[Record]:
    """Return records whose values are random, with keys that are not."""
    return [(b"%016d" % i, rng.randbytes(24)) for i in range(count)]


def write(path: Path, records: list[Record], **options: object) -> bytes:
    with Writer(path, **{"compression": "zstd", **options}) as writer:  # type: ignore[arg-type]
        keys, values = zip(*records, strict=True)
        writer.put_many(list(keys), list(values))
    assert fresh(path).verify() == writer.info()
    return path.read_bytes()


def footer_of(stored: bytes) -> tuple[int, ...]:
    """Return the fields of a footer of version 2."""
    return struct.unpack("<8q4I", stored[-80:])


def test_a_dictionary_where_blocks_have_much_in_common(tmp_path: Path, seed: int) -> None:
    records = speaking(random.Random(seed))
    stored = write(tmp_path / "a.sst", records)
    *_, offset, size, version, reserved, _, magic = footer_of(stored)
    assert (version, reserved, magic) == (2, 0, 0x4B4F4F4C)
    assert fresh(tmp_path / "a.sst").info().format_version == 2
    dictionary = zstandard.ZstdCompressionDict(
        stored[offset : offset + size], dict_type=zstandard.DICT_TYPE_FULLDICT
    )
    # It is behind the data blocks, and before the filter.
    assert (offset, offset + size + 5) == (fresh(tmp_path / "a.sst").info().data_bytes,
                                           footer_of(stored)[0])  # fmt: skip
    first = fresh(tmp_path / "a.sst")._handles[0]
    body = stored[: first[1]]
    plain = body[0] & 0x7F | body[1] << 7
    some = records[:1]
    while len(block(some)) < plain:
        some.append(records[len(some)])
    frame = body[2:]
    with_it = zstandard.ZstdDecompressor(dict_data=dictionary)
    assert with_it.decompress(frame, max_output_size=plain) == block(some)
    with pytest.raises(zstandard.ZstdError):
        zstandard.ZstdDecompressor().decompress(frame, max_output_size=plain)
    # Frames do not repeat which dictionary they need.
    assert zstandard.get_frame_parameters(frame).dict_id == 0
    large = write(tmp_path / "large.sst", records, block_size=65536)
    assert len(stored) < 1.08 * len(large)


def test_every_byte_of_a_dictionary_is_in_the_dump(tmp_path: Path, seed: int) -> None:
    stored = write(tmp_path / "a.sst", speaking(random.Random(seed)))
    found = layout(tmp_path / "a.sst")
    assert found.ok
    region = found.region("dictionary")
    assert region is not None
    offset, size = footer_of(stored)[6:8]
    assert (region.offset, region.size, region.codec) == (offset, size + 5, "none")
    assert "dictionary offset" in dump_text(found)
    assert f"  {offset:04x}  37 a4 30 ec" in hexdump(found)
    # The tables of its codes, what it says, and its checksum; blocks are not blamed for it.
    for at in (*range(8, size, size // 9), size + 1):
        damaged = bytearray(stored)
        damaged[offset + at] ^= 1
        (tmp_path / "a.sst").write_bytes(damaged)
        (wrong,) = [one for one in layout(tmp_path / "a.sst").regions if one.errors]
        assert wrong.kind == "dictionary"


def test_no_dictionary_where_blocks_have_nothing_in_common(tmp_path: Path, seed: int) -> None:
    """There the level is the quick one, whose frames have no codes of variable length."""
    records = noisy(random.Random(seed))
    stored = write(tmp_path / "a.sst", records)
    assert fresh(tmp_path / "a.sst").info().format_version == 1
    quick = write(tmp_path / "quick.sst", records, level=-1)
    data_bytes = fresh(tmp_path / "quick.sst").info().data_bytes
    assert quick[:data_bytes] == stored[:data_bytes]
    speaks = speaking(random.Random(seed))
    usual, quick = (write(tmp_path / str(level), speaks, level=level) for level in (None, -1))
    assert len(usual) < 0.9 * len(quick)


def test_a_level_is_what_was_asked_for(tmp_path: Path, seed: int) -> None:
    records = speaking(random.Random(seed))
    sizes = [len(write(tmp_path / str(level), records, level=level)) for level in (1, 9)]
    assert len(write(tmp_path / "usual", records)) == sizes[0]
    assert sizes[1] < sizes[0]


def test_few_blocks_have_no_dictionary(tmp_path: Path, seed: int) -> None:
    records = speaking(random.Random(seed))
    # 63 blocks of one record each, and 64.
    for count, version in ((63, 1), (64, 2)):
        same = [(key, b" ".join(WORDS) * 20 + value) for key, value in records[:count]]
        write(tmp_path / str(count), same, block_size=1)
        assert fresh(tmp_path / str(count)).info().format_version == version


def test_the_sample_is_bounded(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes behind the sample changes nothing before it, however it comes."""
    monkeypatch.setattr(pipeline, "SAMPLE_BYTES", 300_000)
    rng = random.Random(seed)
    records = speaking(rng)
    stored = write(tmp_path / "a.sst", records)
    longer = [*records, *((b"9" + key, value) for key, value in noisy(rng))]
    again = write(tmp_path / "b.sst", longer)
    last = fresh(tmp_path / "a.sst")._handles[-1][0]
    assert again[:last] == stored[:last]
    regions = [(one, footer_of(one)[6:8]) for one in (stored, again)]
    dictionaries = [one[offset : offset + size] for one, (offset, size) in regions]
    assert dictionaries[0] == dictionaries[1]
    assert 3000 < len(dictionaries[0]) < 5000
    for threads in (2, 3):
        with Writer(tmp_path / f"t{threads}", compression="zstd", threads=threads) as writer:
            for key, value in longer:
                writer.put(key, value)
        assert (tmp_path / f"t{threads}").read_bytes() == again


@pytest.mark.parametrize("options", [{"dialect": "paimon"}, {"compression": "lz4"}], ids=str)
def test_other_files_have_none(tmp_path: Path, options: dict[str, str], seed: int) -> None:
    path = tmp_path / "a.sst"
    stored = write(path, speaking(random.Random(seed)), **options)
    assert layout(path).region("dictionary") is None
    assert fresh(path).info().format_version in (None, 1)
    if "dialect" in options:  # and their bytes are what they were
        again = write(tmp_path / "b.sst", speaking(random.Random(seed)),
                      **options, block_size=65536, level=1)  # fmt: skip
        assert again == stored


@pytest.mark.parametrize(
    ("options", "most"),
    [({"compression": "none"}, 8192), ({}, 4608), ({"dialect": "paimon"}, 65536)],
    ids=str,
)
def test_usual_sizes_of_blocks(tmp_path: Path, options: dict[str, str], most: int) -> None:
    path = tmp_path / "a.sst"
    write(path, speaking(random.Random(1)), **options)
    sizes = [one.plain_size or 0 for one in layout(path).regions if one.kind == "data block"]
    assert all(most < size < most + 100 for size in sizes[:-1])
