"""Stored Bloom filters against plain Python, Hadoop's classes and files of Apache Hudi.

`Oracle` is written from the text of the format note, section 4, and shares nothing with the C code.
"""

from __future__ import annotations

import gzip
import json
import math
import pickle
import random
import struct
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi.file_group._bloom import MOST_HASHES, BloomMaker, StoredBloom
from lookupstore.hudi.file_group._key_ranges import high_characters
from lookupstore.hudi.file_group.bloom import BloomBuilder, BloomFilter, bloom_bits, bloom_hashes
from lookupstore.hudi.write._md5 import md5_numbers

# Eight keys of at most 67 bytes are added at once, others one after the other.
KEYS = st.lists(
    st.binary(min_size=1, max_size=40) | st.binary(min_size=60, max_size=75), max_size=60
)


def murmur(key: bytes, seed: int) -> int:
    h = seed ^ len(key)
    whole = len(key) - len(key) % 4
    for i in range(0, whole, 4):
        k = int.from_bytes(key[i : i + 4], "little") * 0x5BD1E995 % 2**32
        k = (k ^ k >> 24) * 0x5BD1E995 % 2**32
        h = (h * 0x5BD1E995 % 2**32) ^ k
    tail = [byte - 256 if byte > 127 else byte for byte in key]
    if len(key) - whole >= 3:
        h ^= tail[-3] << 16
    if len(key) - whole >= 2:
        h ^= tail[-2] << 8
    if len(key) - whole >= 1:
        h = (h ^ tail[-1]) % 2**32 * 0x5BD1E995
    h %= 2**32
    h = (h ^ h >> 13) * 0x5BD1E995 % 2**32
    return h ^ h >> 15


def jenkins(key: bytes, seed: int) -> int:
    """Hash as Bob Jenkins' hashlittle of lookup3 does."""

    def rotated(word: int, by: int) -> int:
        return (word << by | word >> (32 - by)) % 2**32

    a = b = c = (0xDEADBEEF + len(key) + seed) % 2**32
    while True:
        part, key = key[:12].ljust(12, b"\0"), key[12:]
        a, b, c = (
            (word + int.from_bytes(part[at : at + 4], "little")) % 2**32
            for word, at in ((a, 0), (b, 4), (c, 8))
        )
        if not key:
            break
        for by in (4, 6, 8, 16, 19, 4):  # which come round: a, b, c and again
            a = (a - c) % 2**32 ^ rotated(c, by)
            c = (c + b) % 2**32
            a, b, c = b, c, a
    for by in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - rotated(b, by)) % 2**32
        a, b, c = b, c, a
    return b


class Oracle:
    """A filter as Java would add to it, key by key."""

    def __init__(
        self,
        bits: int,
        hashes: int,
        row_keys: int = 0,
        most: int = 0,
        hashed: Callable[[bytes, int], int] = murmur,
    ) -> None:
        self.bits, self.hashes, self.row_keys, self.most = bits, hashes, row_keys, most
        self.hashed = hashed
        self.rows = [bytearray((bits + 7) // 8)]
        self.last, self.turn = 0, -1

    def positions(self, key: bytes) -> list[int]:
        h, found = 0, []
        for _ in range(self.hashes):
            h = self.hashed(key, h)
            found.append(abs(h - 2**32 if h >= 2**31 else h) % self.bits)
        return found

    def row(self) -> bytearray:
        if not self.row_keys:
            return self.rows[0]
        if self.turn >= 0:
            self.turn += 1
            return self.rows[(self.turn - 1) % len(self.rows)]
        if self.last >= self.row_keys:
            if len(self.rows) * self.row_keys >= self.most:
                self.turn = 0
                return self.rows[0]
            self.rows.append(bytearray(len(self.rows[0])))
            self.last = 0
        return self.rows[-1]

    def add(self, key: bytes) -> None:
        row = self.row()
        self.last += 1
        for at in self.positions(key):
            row[at // 8] |= 1 << at % 8

    def has(self, key: bytes) -> bool:
        places = self.positions(key)
        return any(all(row[at // 8] >> at % 8 & 1 for at in places) for row in self.rows)

    def stored(self) -> bytes:
        header = struct.pack(">iibi", -1, self.hashes, self.hashed is murmur, self.bits)
        rows = b"".join(header + row for row in self.rows)
        if not self.row_keys:
            return rows
        return header + struct.pack(">iii", self.row_keys, self.last, len(self.rows)) + rows


def column(keys: list[bytes]) -> BinaryColumn:
    return BinaryColumn(pa.array(keys, pa.binary()))


@given(
    keys=KEYS,
    others=KEYS,
    bits=st.integers(1, 700),
    hashes=st.integers(1, 9),
    row_keys=st.integers(0, 9),
    most=st.integers(1, 30),
    cut=st.integers(0, 60),
)
def test_filters_are_byte_for_byte_those_of_plain_python(
    keys: list[bytes],
    others: list[bytes],
    bits: int,
    hashes: int,
    row_keys: int,
    most: int,
    cut: int,
) -> None:
    oracle = Oracle(bits, hashes, row_keys, most)
    for key in keys:
        oracle.add(key)
    limit = max(1, math.ceil(most / row_keys)) if row_keys else 1
    maker = BloomMaker(bits, hashes, row_keys, limit)
    maker.add(column(keys[:cut]))
    maker.add(column(keys[cut:]))
    assert len(maker) == len(keys)
    assert maker.finish() == oracle.stored()
    stored = StoredBloom(oracle.stored(), row_keys > 0, "f")
    assert stored.test(column(keys)).all()
    assert stored.test(column(others)).tolist() == [oracle.has(key) for key in others]


@pytest.mark.parametrize("hashes", [1, 31, 32, 33, 100])
@pytest.mark.parametrize("bits", [1, 2, 64, 2**20 + 7])
def test_many_keys_at_once_are_added_as_one_by_one(hashes: int, bits: int, seed: int) -> None:
    draw = random.Random(seed)
    keys = [draw.randbytes(draw.choice([1, 2, 3, 4, 19, 36, 66, 67, 68])) for _ in range(150)]
    at_once, oracle = BloomMaker(bits, hashes), Oracle(bits, hashes)
    at_once.add(column(keys))
    for key in keys:
        oracle.add(key)
    assert at_once.finish() == oracle.stored()
    assert StoredBloom(at_once.finish(), False, "f").test(column(keys)).all()


def test_more_keys_than_rows_take_go_to_the_rows_in_turn(seed: int) -> None:
    draw = random.Random(seed)
    oracle = Oracle(900, 4, 5, 12)
    builder = BloomMaker(900, 4, 5, 3)
    for _ in range(40):
        keys = [draw.randbytes(draw.randint(1, 20)) for _ in range(draw.randint(0, 3))]
        builder.add(column(keys))
        for key in keys:
            oracle.add(key)
        assert builder.finish() == oracle.stored()
    assert len(oracle.rows) == 3
    assert oracle.last > 5


def golden_lines(golden: Path) -> list[dict[str, Any]]:
    with gzip.open(golden / "hudi" / "filters.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def test_hashes_are_those_of_hadoop(golden: Path) -> None:
    lines = [line for line in golden_lines(golden) if "hash" in line]
    assert {len(line["hash"]) // 2 % 4 for line in lines} == {0, 1, 2, 3}
    for line in lines:
        key = bytes.fromhex(line["hash"])
        assert murmur(key, line["seed"] % 2**32) == line["murmur"] % 2**32
        assert jenkins(key, line["seed"] % 2**32) == line["jenkins"] % 2**32
        if key:  # has positions, which come of the hash before each
            for hashed in (murmur, jenkins):
                maker, oracle = BloomMaker(9001, 9, jenkins=hashed is jenkins), Oracle(9001, 9)
                oracle.hashed = hashed
                maker.add(column([key]))
                oracle.add(key)
                assert maker.finish() == oracle.stored()


def test_filters_are_those_of_hadoop(golden: Path) -> None:
    """Hadoop's dynamic filter never stops adding rows; its bytes are those of Hudi's."""
    lines = [line for line in golden_lines(golden) if "stored" in line]
    old_forms = 0
    for line in lines:
        keys = [bytes.fromhex(key) for key in line["keys"]]
        others = [bytes.fromhex(key) for key in line["others"]]
        answers = [digit == "1" for digit in line["answers"]]
        data = bytes.fromhex(line["stored"])
        row_keys = line["each"] if line["dynamic"] else 0
        jenkins = line["type"] == 0
        maker = BloomMaker(line["bits"], line["hashes"], row_keys, 10**6, jenkins=jenkins)
        maker.add(column(keys))
        assert maker.finish() == data
        forms = [data]
        if line["old"]:
            forms.append(bytes.fromhex(line["old"]))
            old_forms += 1
        for form in forms:
            stored = StoredBloom(form, line["dynamic"], "f")
            assert stored.jenkins == jenkins
            assert stored.old == (form is not data)
            assert stored.test(column(others)).tolist() == answers
            assert stored.test(column(keys)).all()
    assert old_forms > 5


def test_the_old_form_of_rows() -> None:
    """Rows of which each, and the whole, has a header without version and hash."""
    maker = BloomMaker(40, 3, 2, 9, jenkins=True)
    keys = [b"k%d" % i for i in range(7)]
    maker.add(column(keys))
    new = maker.finish()
    header = struct.pack(">iibi", -1, 3, 0, 40)
    old = struct.pack(">ii", 3, 40)
    stored = StoredBloom(new.replace(header, old), True, "f")
    assert (stored.old, stored.rows, stored.last_keys) == (True, 4, 1)
    probes = column([b"%d" % i for i in range(500)])
    assert (stored.test(probes) == StoredBloom(new, True, "f").test(probes)).all()
    assert not stored.test(probes).all()


def test_filters_of_apache_hudi_are_rebuilt_byte_for_byte(real_base_files: list[Path]) -> None:
    filters = keys_seen = 0
    for path in real_base_files:
        name, file = path.name, pq.ParquetFile(path)
        bloom = BloomFilter.from_footer(file.metadata.metadata, name)
        assert bloom is not None, name
        filters += 1
        keys = file.read(["_hoodie_record_key"]).column(0)
        keys_seen += len(keys)
        assert bloom.test(keys).all(), name
        assert bloom.kind == "DYNAMIC_V0"
        assert bloom.row_keys is not None
        assert bloom.bits == bloom_bits(bloom.row_keys, 1e-9)
        assert bloom.hashes == bloom_hashes(bloom.bits, bloom.row_keys)
        builder = BloomBuilder(bloom.row_keys)
        builder.add(keys)
        again = builder.finish()
        assert again.to_bytes() == bloom.to_bytes(), name
        for key, value in again.footer().items():
            assert file.metadata.metadata[key] == value, name
    print(f"{filters} filters, {keys_seen} keys")
    assert filters > 20


def test_sizes() -> None:
    assert (bloom_bits(60_000, 1e-9), bloom_hashes(2587966, 60_000)) == (2587966, 30)
    assert bloom_bits(1, 0.5) == 2
    assert bloom_bits(49_787_124, 1e-9) <= 2**31 - 1
    for entries, rate in [(0, 0.1), (-1, 0.1), (5, 0.0), (5, 1.0), (5, math.nan), (10**8, 1e-9)]:
        with pytest.raises(ValueError, match=r"entries|error_rate"):
            bloom_bits(entries, rate)


@given(keys=st.lists(st.text(min_size=1), min_size=1), rate=st.sampled_from([0.3, 1e-3, 1e-9]))
def test_a_filter_of_exactly_these_keys(keys: list[str], rate: float) -> None:
    keys = [key for key in keys if key.isprintable()] or ["k"]
    expected = Oracle(
        bloom_bits(len(keys), rate), bloom_hashes(bloom_bits(len(keys), rate), len(keys)), len(keys)
    )
    for key in keys:
        expected.add(key.encode())
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view()):
        array = pa.array([key.encode() for key in keys], pa.binary()).cast(kind)
        made = BloomFilter.of(array, error_rate=rate)
        assert made.to_bytes() == expected.stored()
        assert made.test(array[1:]).all()
    simple = BloomFilter.of(pa.chunked_array([keys[:1], keys[1:]], pa.string()), kind="SIMPLE")
    assert simple.row_keys is None
    assert simple.last_keys is None
    assert simple.test(pa.array(keys)).all()
    assert pickle.loads(pickle.dumps(simple)).to_bytes() == simple.to_bytes()


@given(keys=KEYS, chosen=st.lists(st.integers(0, 10**9), max_size=3000))
def test_rows_that_are_asked_for(keys: list[bytes], chosen: list[int]) -> None:
    keys = [b"k", *keys]
    rows = np.array([number % len(keys) for number in chosen], np.uint32)
    bloom = BloomFilter.of(pa.array(keys[::2]), error_rate=0.2)
    maybe = bloom.test(pa.array(keys))
    expected = [row for row in rows.tolist() if maybe[row]]
    for asked in (pa.array(keys), pa.chunked_array([keys], pa.large_binary()), column(keys)):
        assert (bloom.test(asked) == maybe).all()
        found = bloom.select(asked, rows)
        assert found.dtype == np.uint32
        assert found.tolist() == expected


def test_more_rows_than_are_tested_at_once(seed: int) -> None:
    draw = random.Random(seed)
    keys = pa.array([f"k{i}" for i in range(500)])
    bloom = BloomFilter.of(keys[::3], error_rate=0.1)
    maybe = bloom.test(keys)
    rows = np.array([draw.randrange(500) for _ in range(2500)], np.uint32)
    for count in (1023, 1024, 1025, 2048, 2500):
        expected = [row for row in rows[:count].tolist() if maybe[row]]
        assert bloom.select(keys, rows[:count]).tolist() == expected


def test_bad_rows() -> None:
    bloom = BloomFilter.of(pa.array(["a"]))
    keys = pa.array(["a", "b", None, ""])
    assert bloom.select(keys, np.array([1, 0, 0], np.uint32)).tolist() == [0, 0]
    many = np.zeros(2000, np.uint32)
    assert bloom.select(keys, many).tolist() == [0] * 2000
    for row, error, message in [
        (4, IndexError, "beyond the 4 of keys"),
        (2, ValueError, r"keys\[2\] is null"),
        (3, ValueError, r"keys\[3\] is empty"),
    ]:
        many[1500] = row
        with pytest.raises(error, match=message):
            bloom.select(keys, many)


def test_the_rate_of_false_positives_is_met(seed: int) -> None:
    draw = random.Random(seed)
    made = BloomFilter.of(pa.array([f"k{i}" for i in range(5000)]), error_rate=0.01)
    others = pa.array([f"n{draw.getrandbits(64)}" for _ in range(50_000)])
    assert 300 < made.test(others).sum() < 700


def test_footers() -> None:
    made = BloomFilter.of(pa.array(["k1"]))
    simple = BloomFilter.of(pa.array(["k1"]), kind="SIMPLE")
    assert sorted(simple.footer()) == [b"org.apache.hudi.bloomfilter"]
    assert BloomFilter.from_footer(None) is None
    assert BloomFilter.from_footer({b"other": b"x"}) is None
    old = {b"com.uber.hoodie.bloomfilter": simple.to_text().encode()}
    read = BloomFilter.from_footer(old)
    assert read is not None
    assert (read.kind, read.hash, read.nbytes) == ("SIMPLE", "murmur", len(simple.to_bytes()))
    both = BloomFilter.from_footer(old | made.footer())
    assert both is not None
    assert both.to_bytes() == made.to_bytes()
    with pytest.raises(FormatError, match=r"f\.parquet: .*'DYNAMIC_V9'"):
        BloomFilter.from_footer(
            made.footer() | {b"hoodie_bloom_filter_type_code": b"DYNAMIC_V9"}, "f.parquet"
        )
    for text in (b"%%%%", b"////w", "/////é".encode(), b"AAAA AAAA"):
        with pytest.raises(CorruptionError, match=r"f\.parquet: offset 0: expected base64"):
            BloomFilter.from_footer({b"org.apache.hudi.bloomfilter": text}, "f.parquet")


def test_bad_arguments() -> None:
    made = BloomFilter.of(pa.array(["k1"]))
    with pytest.raises(ValueError, match=r"keys\[1\] is null"):
        made.test(pa.array(["a", None]))
    with pytest.raises(ValueError, match=r"keys\[70\] is empty"):
        made.test(pa.array(["a"] * 70 + [""]))
    with pytest.raises(TypeError, match="int64"):
        made.test(pa.array([1]))
    assert made.test(pa.array([], pa.string())).tolist() == []
    with pytest.raises(ValueError, match="kind"):
        BloomBuilder(5, kind="OTHER")  # type: ignore[arg-type]
    for numbers in [(0, 1), (2**31, 1), (1, 0), (1, MOST_HASHES + 1), (1, 1, 2**31), (1, 1, 1, 0)]:
        with pytest.raises(ValueError, match=r"bits|hashes|row"):
            BloomMaker(*numbers)


def test_a_refused_key_adds_nothing() -> None:
    maker = BloomMaker(100, 3, 2, 9)
    maker.add(column([b"a", b"b"]))
    before = maker.finish()
    with pytest.raises(ValueError, match=r"keys\[5\] is empty"):
        maker.add(column([b"c", b"d", b"e", b"f", b"g", b""]))
    assert (maker.finish(), len(maker)) == (before, 2)


# ---- Stored bytes that are wrong


def stored_filters() -> list[tuple[bytes, bool]]:
    keys = column([b"k%d" % i for i in range(5)])
    simple, rows = BloomMaker(50, 3), BloomMaker(50, 3, 2, 9)
    jenkins = BloomMaker(50, 3, jenkins=True)
    for maker in (simple, rows, jenkins):
        maker.add(keys)
    old = struct.pack(">ii", 3, 50) + jenkins.finish()[13:]
    return [(simple.finish(), False), (rows.finish(), True), (old, False)]


@pytest.mark.parametrize(("data", "dynamic"), stored_filters(), ids=["simple", "dynamic", "old"])
def test_every_truncation_and_every_longer_one_is_told(data: bytes, dynamic: bool) -> None:
    for size in range(len(data)):
        with pytest.raises(CorruptionError) as caught:
            StoredBloom(data[:size], dynamic, "f")
        assert caught.value.offset <= size
    with pytest.raises(CorruptionError, match="expected the end of the filter"):
        StoredBloom(data + b"\0", dynamic, "f")
    with pytest.raises(CorruptionError):
        StoredBloom(data, not dynamic, "f")


@pytest.mark.parametrize(("data", "dynamic"), stored_filters(), ids=["simple", "dynamic", "old"])
def test_every_wrong_byte_of_a_header_is_told_or_harmless(data: bytes, dynamic: bool) -> None:
    """All values of all bytes: a header that passes describes exactly these bytes."""
    probes = column([b"k%d" % i for i in range(20)])
    whole = StoredBloom(data, dynamic, "f")
    refused = 0
    for at in range(len(data)):
        for value in range(256):
            changed = data[:at] + bytes([value]) + data[at + 1 :]
            try:
                stored = StoredBloom(changed, dynamic, "f")
            except CorruptionError:
                refused += 1
                continue
            stored.test(probes)
            assert stored.hashes <= MOST_HASHES
            assert (stored.bits + 7) // 8 == (whole.bits + 7) // 8
            assert stored.rows == whole.rows
    assert refused > 1000


@pytest.mark.parametrize(
    ("at", "number", "message"),
    [
        (0, -2, "offset 0: expected the version -1"),
        (0, 0, "offset 0: expected the version -1"),
        (0, 2**31 - 1, "offset 0: expected 1 to 1100 hashes"),
        (4, 0, "offset 4: expected 1 to 1100 hashes"),
        (4, 2**31 - 1, "offset 4: expected 1 to 1100 hashes"),
        (9, 0, "offset 9: expected 1 to 2147483647 bits"),
        (9, -8, "offset 9: expected 1 to 2147483647 bits"),
        (9, 2**31 - 1, "offset 25: expected a row like"),
        (13, 0, "offset 13: expected 1 or more keys per row"),
        (17, -1, "offset 17: expected 0 or more keys"),
        (21, 0, "offset 21: expected 1 or more rows"),
        (21, 2**31 - 1, "offset 85: expected the version -1"),
        (21, 2, "offset 65: expected the end of the filter"),
        (29, 4, "offset 25: expected a row like"),
    ],
)
def test_hostile_numbers_neither_allocate_nor_loop(at: int, number: int, message: str) -> None:
    data = stored_filters()[1][0]
    assert len(data) == 85
    hostile = data[:at] + struct.pack(">i", number) + data[at + 4 :]
    tracemalloc.start()
    try:
        with pytest.raises(CorruptionError, match=message):
            StoredBloom(hostile, True, "f")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_an_unknown_hash_is_told() -> None:
    data = bytearray(stored_filters()[0][0])
    data[8] = 2
    with pytest.raises(CorruptionError, match=r"offset 8: expected the hash 0 .* found .* 02"):
        StoredBloom(bytes(data), False, "f")


def test_threads_that_add_at_once_are_refused() -> None:
    maker = BloomMaker(5000, 5, 50, 1000)
    batches = [column([b"%d-%d" % (n, i) for i in range(20_000)]) for n in range(4)]
    done: list[int] = []

    def work(n: int) -> None:
        while len(done) < len(batches):
            try:
                maker.add(batches[n])
            except RuntimeError:
                continue
            done.append(n)
            return

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(batches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = BloomMaker(5000, 5, 50, 1000)
    for n in done:
        expected.add(batches[n])
    assert maker.finish() == expected.finish()


def test_offsets_that_leave_the_data_are_told() -> None:
    offsets = pa.py_buffer(struct.pack("<4i", 0, 1, 99, 2))
    broken = pa.Array.from_buffers(pa.binary(), 3, [None, offsets, pa.py_buffer(b"ab")])
    bloom = BloomFilter.of(pa.array(["a"]))
    calls: list[Callable[[], object]] = [
        lambda: bloom.test(broken),
        lambda: bloom.select(broken, np.array([1], np.uint32)),
        lambda: BloomFilter.of(broken),
        lambda: high_characters(BinaryColumn(broken)),
        lambda: md5_numbers(BinaryColumn(broken)),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"keys\[1\]: the Arrow offsets point outside"):
            call()
