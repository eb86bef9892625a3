"""docs/reference/format.md: its dumps are made here, and a reader written from it alone works.

LOOKUPSTORE_REWRITE=1 writes the dumps that the code gives now.
"""

from __future__ import annotations

import math
import os
import random
import re
import struct
import zlib
from pathlib import Path

import crc32c
import pyarrow as pa
import pytest
import xxhash
import zstandard

from lookupstore.sst import Writer
from lookupstore.sst.dump import hexdump, layout

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "reference" / "format.md"
DUMP = re.compile(r"(<!-- dump: (\w+) -->\n).*?(<!-- end of dump -->)", re.DOTALL)
RECORDS = {b"berlin": b"3.9", b"oslo": b"0.7", b"rome": b"2.8"}


def test_the_dumps_of_three_records(tmp_path: Path) -> None:
    def dump(match: re.Match[str]) -> str:
        path = tmp_path / match[2]
        with Writer(path, dialect=match[2]) as writer:
            for key, value in RECORDS.items():
                writer.put(key, value)
        return f"{match[1]}```text\n{hexdump(layout(path, records=True))}```\n{match[3]}"

    document = DOCUMENT.read_text()
    found = DUMP.sub(dump, document)
    assert found.count("berlin") == 4
    if os.environ.get("LOOKUPSTORE_REWRITE") == "1":
        DOCUMENT.write_text(found)
    else:
        assert found == document


def test_the_document_names_real_files() -> None:
    named = re.findall(r"`((?:csrc|lookupstore|tests)/[\w/.]+)`", DOCUMENT.read_text())
    assert len(named) >= 8
    assert [name for name in named if not (ROOT / name).exists()] == []


PROMISES = "\n".join(
    (ROOT / "docs" / "reference" / name).read_text()
    for name in ("guarantees.md", "guarantees-hudi.md")
)
TESTS = (ROOT / "docs" / "contributing" / "promises-and-tests.md").read_text()


def test_the_guarantees_name_real_tests() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TESTS)
    assert len(named) > 600
    for path, name in named:
        assert f"def {name}(" in (ROOT / path).read_text(), f"{path}::{name}"


def test_each_promise_has_its_tests() -> None:
    promised = {
        name: re.findall(r"^\d+\. ", text, re.M)
        for name, text in sections(PROMISES)
        if not name.startswith("Not guaranteed")
    }
    shown = {
        name: re.findall(r"^\d+\. ", text, re.M)
        for name, text in sections(TESTS.partition("\n## Security")[0])
    }
    # A heading above others has no promises of its own.
    assert {name: numbers for name, numbers in promised.items() if numbers} == {
        name: numbers for name, numbers in shown.items() if numbers
    }


def sections(text: str) -> list[tuple[str, str]]:
    """Return the headings of a page, each with the text below it."""
    parts = re.split(r"^##+ (.+)$", text, flags=re.M)
    return list(zip(parts[1::2], parts[2::2], strict=True))


# ---- a reader of native and paimon files as the document describes them, and nothing else

SALT = [
    *(0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D),
    *(0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31),
]


def varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return number, at


def payload_of(file: bytes, offset: int, size: int, native: bool) -> tuple[int, bytes]:
    payload = file[offset : offset + size]
    codec, checksum = struct.unpack_from("<BI", file, offset + size)
    covered = payload + bytes([codec])
    assert checksum == (crc32c.crc32c(covered) if native else zlib.crc32(covered))
    return codec, payload


def block_of(
    file: bytes, offset: int, size: int, native: bool, dictionary: bytes | None = None
) -> list[tuple[bytes, bytes]]:
    codec, block = payload_of(file, offset, size, native)
    if codec:
        plain, at = varint(block, 0)
        if codec == 1:
            known = None if dictionary is None else zstandard.ZstdCompressionDict(dictionary)
            zstd = zstandard.ZstdDecompressor(dict_data=known)
            block = zstd.decompress(block[at:], max_output_size=plain)
        else:
            packed, again = struct.unpack_from("<ii", block, at)
            assert (packed, again) == (len(block) - at - 8, plain)
            block = pa.Codec("lz4_raw").decompress(block[at + 8 :], plain, asbytes=True)
        assert len(block) == plain
    number, flag = struct.unpack("<iB", block[-5:])
    if flag:
        starts = struct.unpack_from(f"<{number}i", block, len(block) - 5 - 4 * number)
    else:
        starts = tuple(range(0, len(block) - 5, number))
    records = []
    for start in starts:
        size, at = varint(block, start)
        key, at = block[at : at + size], at + size
        size, at = varint(block, at)
        records.append((key, block[at : at + size]))
    return records


def rate(m: float) -> float:
    """Return the rate of false positives of a split-block filter with m keys per block."""
    if m > 600:
        return 1.0  # nearly so, and exp(-m) has no digits left
    chances = [math.exp(-m)]
    for i in range(1, 1200):
        chances.append(chances[-1] * m / i)
    return sum(chance * (1 - (31 / 32) ** i) ** 8 for i, chance in enumerate(chances))


def split_block_filter(keys: list[bytes], entries: int, p: float) -> bytes:
    blocks = next(count for count in range(1, 10**6) if rate(entries / count) <= p)
    words = [0] * (8 * blocks)
    for key in keys:
        h = xxhash.xxh64_intdigest(key, 0)
        block = ((h >> 32) * blocks) >> 32
        for w in range(8):
            words[8 * block + w] |= 1 << (((h & 0xFFFFFFFF) * SALT[w] % 2**32) >> 27)
    return struct.pack(f"<{len(words)}I", *words)


def signed(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def murmur(key: bytes) -> int:
    def mix(h: int, w: int) -> int:
        w = w * 0xCC9E2D51 % 2**32
        w = (w << 15 | w >> 17) * 0x1B873593 % 2**32
        h ^= w
        return ((h << 13 | h >> 19) % 2**32 * 5 + 0xE6546B64) % 2**32

    h = 42
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        h = mix(h, int.from_bytes(key[at : at + 4], "little"))
    for byte in key[whole:]:
        h = mix(h, signed(byte | 0xFFFFFF00 if byte >= 0x80 else byte) % 2**32)
    h ^= len(key)
    h = (h ^ h >> 16) * 0x85EBCA6B % 2**32
    h = (h ^ h >> 13) * 0xC2B2AE35 % 2**32
    return h ^ h >> 16


def paimon_filter(keys: list[bytes], entries: int, p: float) -> bytes:
    size = math.ceil(int(-entries * math.log(p) / math.log(2) ** 2) / 8)
    k = max(1, math.floor(8 * size / entries * math.log(2) + 0.5))
    bits = bytearray(size)
    for key in keys:
        h1 = murmur(key)
        for i in range(1, k + 1):
            c = signed(h1 + i * (h1 >> 16))
            bit = (~c if c < 0 else c) % (8 * size)
            bits[bit >> 3] |= 1 << (bit & 7)
    return bytes(bits)


@pytest.mark.parametrize("compression", ["none", "zstd", "lz4"])
@pytest.mark.parametrize("dialect", ["native", "paimon"])
def test_a_reader_written_from_the_document(
    dialect: str, compression: str, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    records = {
        rng.randbytes(rng.randrange(12)): rng.randbytes(8) * rng.randrange(9) for _ in range(3000)
    }
    keys = sorted(records)
    p = rng.choice([0.3, 0.05, 0.001])
    entries = rng.choice([None, 1, 10_000])
    path = tmp_path / "file.sst"
    with Writer(path, dialect=dialect, compression=compression, block_size=rng.randrange(1, 4000),
                bloom_fpp=p, expected_entries=entries) as writer:  # fmt: skip
        writer.put_many(keys, [records[key] for key in keys])
    file = path.read_bytes()
    native = dialect == "native"
    dictionary = None
    footer_size = 36
    if native:
        (version,) = struct.unpack("<I", file[-16:-12])
        footer_size = {1: 64, 2: 80}[version]
        footer = struct.unpack("<6q4I" if version == 1 else "<8q4I", file[-footer_size:])
        assert footer[-4:-2] == (version, 0)
        assert footer[-2] == crc32c.crc32c(file[-footer_size:-8] + file[-4:])
        if version == 2:
            codec, dictionary = payload_of(file, *footer[6:8], native)
            assert (codec, dictionary[:4]) == (0, bytes.fromhex("37a430ec"))
        assert file[-4:] == bytes.fromhex("4c4f4f4b")
        filter_at, index_at = footer[0:2], footer[2:4]
    else:
        footer = struct.unpack("<qiqqiI", file[-36:])
        assert file[-4:] == bytes.fromhex("61fd4e58")
        assert footer[2] == (entries or len(keys))
        filter_at, index_at = footer[0:2], footer[3:5]
    found = []
    end = 0
    for last, handle in block_of(file, *index_at, native):
        offset, at = varint(handle, 0)
        size, at = varint(handle, at)
        assert (offset, at) == (end, len(handle))
        block = block_of(file, offset, size, native, dictionary)
        assert block[-1][0] == last
        found += block
        end = offset + size + 5
    assert found == [(key, records[key]) for key in keys]
    if dictionary is not None:
        assert footer[6] == end
        end += len(dictionary) + 5
    assert filter_at[0] == end
    if native:
        codec, bits = payload_of(file, *filter_at, native)
        assert (codec, bits) == (0, split_block_filter(keys, entries or len(keys), p))
        assert index_at[0] == end + filter_at[1] + 5
        assert footer[4] == index_at[0] + index_at[1] + 5
        assert footer[4] + footer[5] + 5 == len(file) - footer_size
        properties = dict(block_of(file, *footer[4:6], native))
        assert properties[b"records"] == str(len(keys)).encode()
        assert (properties[b"key.min"], properties[b"key.max"]) == (keys[0], keys[-1])
    else:
        bits = file[filter_at[0] : sum(filter_at)]
        assert bits == paimon_filter(keys, entries or len(keys), p)
        assert index_at[0] == end + filter_at[1]
        assert sum(index_at) + 5 == len(file) - 36
