"""Files against a Python dict, with blocks so small that every case meets their borders."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.sst_files import CODECS, fresh, written

from lookupstore.sst import Reader, Writer, _data_blocks
from lookupstore.sst.cache import BlockCache

# Few different bytes, with the extremes: long shared prefixes, keys that are prefixes of others,
# and keys that differ only in trailing zeros.
KEYS = st.one_of(
    st.lists(st.sampled_from([0, 1, 0x61, 0x7F, 0x80, 0xFF]), max_size=12).map(bytes),
    st.binary(max_size=3),
    st.binary(min_size=7, max_size=9).map(lambda tail: b"same start" + tail),
)
VALUES = st.one_of(st.binary(max_size=8), st.binary(min_size=1, max_size=1).map(lambda b: b * 200))
RECORDS = st.dictionaries(KEYS, VALUES, max_size=60)

OPTIONS = st.fixed_dictionaries(
    {
        "dialect": st.sampled_from(["native", "paimon"]),
        "compression": st.sampled_from(CODECS),
        "block_size": st.one_of(st.integers(1, 64), st.just(65536)),
        "bloom_fpp": st.sampled_from([0, 0.01, 0.5]),
    }
)

MODEL = settings(max_examples=3 * settings.default.max_examples)


def as_arrow(keys: list[bytes | None], kind: str, rng: random.Random) -> Any:
    """Give the same keys in one of the forms that a lookup takes."""
    if kind == "list":
        return [key for key in keys if key is not None]
    if kind in ("binary", "large_binary", "binary_view"):
        return pa.array(keys, getattr(pa, kind)())
    if kind == "sliced":
        before, after = rng.randrange(20), rng.randrange(3)
        padded = [b"junk"] * before + keys + [None] * after
        return pa.array(padded, pa.binary()).slice(before, len(keys))
    if kind == "chunked":
        at = rng.randrange(len(keys) + 1)
        return pa.chunked_array([keys[:at], [], keys[at:]], pa.large_binary())
    raise AssertionError(kind)


KINDS = ["list", "binary", "large_binary", "binary_view", "sliced", "chunked"]


def check_lookups(reader: Reader, model: dict[bytes, bytes], asked: list[bytes | None]) -> None:
    for key in asked:
        if key is not None:
            assert reader.get(key) == model.get(key)
            assert reader.get(key, 17) == model.get(key, 17)
            assert (key in reader) == (key in model)
    rng = random.Random(len(asked))
    for kind in KINDS:
        keys = as_arrow(asked, kind, rng)
        wanted = [key for key in asked if key is not None] if kind == "list" else asked
        answers = reader.lookup(keys)
        answers.validate(full=True)
        assert answers.type == pa.large_binary()
        assert answers.to_pylist() == [model.get(key) for key in wanted], kind  # type: ignore[arg-type]
        assert answers.null_count == sum(key not in model for key in wanted)
        there = reader.contains(keys)
        there.validate(full=True)
        assert there.to_pylist() == [key in model for key in wanted], kind


def check_scans(reader: Reader, model: dict[bytes, bytes], bounds: list[bytes]) -> None:
    everything = sorted(model.items())
    assert list(reader.items()) == everything
    assert list(reader) == [key for key, _ in everything]
    assert list(reader.items(reverse=True)) == everything[::-1]
    assert len(reader) == len(model)
    assert reader.info().max_key == max(model, default=None)
    assert reader.info().min_key == min(model, default=None)
    for batch in reader.scan():
        batch.validate(full=True)
        assert batch.schema == pa.schema([("key", pa.large_binary()), ("value", pa.large_binary())])
        assert batch.num_rows > 0
    for low in bounds:
        assert list(reader.items(start=low)) == [one for one in everything if one[0] >= low]
        assert list(reader.items(stop=low)) == [one for one in everything if one[0] < low]
        prefixed = [one for one in everything if one[0].startswith(low)]
        assert list(reader.items(starts_with=low)) == prefixed
        assert list(reader.items(starts_with=low, reverse=True)) == prefixed[::-1]
        for high in bounds:
            within = [one for one in everything if low <= one[0] < high]
            assert list(reader.items(start=low, stop=high)) == within
            assert list(reader.items(start=low, stop=high, reverse=True)) == within[::-1]


@MODEL
@given(
    records=RECORDS,
    options=OPTIONS,
    others=st.lists(KEYS, max_size=10),
    many=st.booleans(),
    group_bytes=st.sampled_from([1, 40, 32 << 20]),
    capacity=st.sampled_from([0, 100, 1 << 20]),
    data=st.data(),
)
def test_a_file_is_a_dict(
    records: dict[bytes, bytes],
    options: dict[str, Any],
    others: list[bytes],
    many: bool,
    group_bytes: int,
    capacity: int,
    data: st.DataObject,
) -> None:
    ordered = sorted(records.items())
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_data_blocks, "GROUP_BYTES", group_bytes)
        path = Path(folder, "model.sst")
        with Writer(path, **options) as writer:
            if many:
                at = data.draw(st.integers(0, len(ordered)))
                for part in (ordered[:at], ordered[at:]):
                    keys, values = ([one[i] for one in part] for i in (0, 1))
                    writer.put_many(keys, pa.array(values, pa.binary()))
            else:
                for key, value in ordered:
                    writer.put(key, value)
        assert writer.info().num_records == len(records)
        reader = Reader(path, cache=BlockCache(capacity))
        near = [key + b"\0" for key in records] + [key[:-1] for key in records]
        asked = data.draw(
            st.lists(st.one_of(st.sampled_from([*records, *near, *others, b"", None])), max_size=90)
        )
        check_lookups(reader, records, asked)
        check_scans(reader, records, [*others[:3], *list(records)[:3], b"", b"\xff", b"\xff\xff"])
        assert reader.verify().num_records == len(records)
        assert reader.cache.nbytes <= capacity


@MODEL
@given(
    numbers=st.sets(st.integers(-128, 127), max_size=100),
    width=st.sampled_from([1, 2, 4, 8]),
    scale=st.booleans(),
    block_size=st.integers(1, 64),
    bloom_fpp=st.sampled_from([0, 0.1]),
    data=st.data(),
)
def test_integer_orders(
    numbers: set[int],
    width: int,
    scale: bool,
    block_size: int,
    bloom_fpp: float,
    data: st.DataObject,
) -> None:
    """Order little-endian keys as numbers, at the ends of the type too."""
    if scale:
        numbers = {n << (8 * width - 8) for n in numbers}

    def key(n: int) -> bytes:
        return n.to_bytes(width, "little", signed=True)

    ordered = sorted(numbers)
    order = f"int{8 * width}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "numbers.sst")
        with Writer(
            path, dialect="paimon", order=order, block_size=block_size, bloom_fpp=bloom_fpp
        ) as writer:
            at = data.draw(st.integers(0, len(ordered)))
            for n in ordered[:at]:
                writer.put(key(n), b"%d" % n)
            writer.put_many(
                pa.array([key(n) for n in ordered[at:]], pa.binary(width)),
                [b"%d" % n for n in ordered[at:]],
            )
        reader = fresh(path, order)
        assert [int(value) for _, value in reader.items()] == ordered
        edges = [-(1 << (8 * width - 1)), (1 << (8 * width - 1)) - 1, 0, -1]
        asked = data.draw(st.lists(st.sampled_from([*ordered, *edges]), max_size=40))
        expected = [b"%d" % n if n in numbers else None for n in asked]
        assert [reader.get(key(n)) for n in asked] == expected
        keys = pa.array([key(n) for n in asked], pa.binary(width))
        assert reader.lookup(keys).to_pylist() == expected
        for low in asked[:3]:
            for high in asked[:3]:
                found = [int(value) for _, value in reader.items(start=key(low), stop=key(high))]
                assert found == [n for n in ordered if low <= n < high]
        reader.verify()


@MODEL
@given(
    counts=st.dictionaries(st.binary(max_size=2), st.integers(1, 9), max_size=12),
    block_size=st.integers(1, 64),
    compression=st.sampled_from(CODECS),
    bloom_fpp=st.sampled_from([0, 0.1]),
    many=st.booleans(),
    group_bytes=st.sampled_from([1, 32 << 20]),
)
def test_repeated_keys(
    counts: dict[bytes, int],
    block_size: int,
    compression: str,
    bloom_fpp: float,
    many: bool,
    group_bytes: int,
) -> None:
    """Look up as the two binary searches of the format note, section 10, written out here."""
    records = [(key, b"%d" % i) for key in sorted(counts) for i in range(counts[key])]

    def search(keys: list[bytes], key: bytes) -> tuple[int, bool]:
        left, right = 0, len(keys) - 1
        while left <= right:
            middle = left + (right - left) // 2
            if keys[middle] == key:
                return middle, True
            if keys[middle] < key:
                left = middle + 1
            else:
                right = middle - 1
        return left, False

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_data_blocks, "GROUP_BYTES", group_bytes)
        patch.setattr("lookupstore.sst.scans._BATCH", 1)  # each batch of a scan is a block
        path = Path(folder, "repeats.sst")
        with Writer(
            path,
            dialect="paimon",
            allow_repeats=True,
            block_size=block_size,
            compression=compression,
            bloom_fpp=bloom_fpp,
        ) as writer:
            if many:
                writer.put_many([key for key, _ in records], [value for _, value in records])
            else:
                for key, value in records:
                    writer.put(key, value)
        reader = fresh(path)
        assert list(reader.items()) == records
        blocks = [list(zip(*batch.to_pydict().values(), strict=True)) for batch in reader.scan()]
        last_keys = [one[-1][0] for one in blocks]
        for key in [*counts, b"\0", b"zzz"]:
            number, _ = search(last_keys, key)
            answer = None
            if number < len(blocks):
                at, found = search([one[0] for one in blocks[number]], key)
                answer = blocks[number][at][1] if found else None
            assert reader.get(key) == answer
            assert reader.lookup([key, key]).to_pylist() == [answer, answer]
        keys = [*counts, b"\0"] * 2
        assert reader.lookup(keys).to_pylist() == [reader.get(key) for key in keys]
        reader.verify()


def test_fixed_size_keys_of_every_arrow_kind(tmp_path: Path) -> None:
    records = {b"%05d" % (2 * i): b"%d" % i for i in range(1000)}
    reader = fresh(written(tmp_path / "fixed.sst", list(records.items()), block_size=300))
    asked = [b"%05d" % i for i in range(2005)]
    random.Random(4).shuffle(asked)
    expected = [records.get(key) for key in asked]
    fixed = pa.array([b"xxxxx", *asked, None], pa.binary(5))
    for keys in (fixed.slice(1, len(asked)), fixed.slice(1), fixed.slice(3, 500)):
        wanted = [records.get(key) for key in keys.to_pylist()]
        assert reader.lookup(keys).to_pylist() == wanted
    texts = [key.decode() for key in asked]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        assert reader.lookup(pa.array(texts, kind)).to_pylist() == expected
    assert reader.lookup(tuple(asked)).to_pylist() == expected
    assert reader.lookup([bytearray(asked[0]), memoryview(asked[1])]).to_pylist() == expected[:2]


def test_no_keys(tmp_path: Path) -> None:
    reader = fresh(written(tmp_path / "few.sst", [(b"a", b"1")]))
    for empty in ([], pa.array([], pa.binary()), pa.chunked_array([], pa.binary())):
        assert reader.lookup(empty).to_pylist() == []
        assert reader.contains(empty).to_pylist() == []
    nulls = pa.array([None] * 9, pa.binary())
    assert reader.lookup(nulls).to_pylist() == [None] * 9
    assert reader.contains(nulls).to_pylist() == [False] * 9
    # Arrow lets an empty array come without offsets.
    nothing = pa.py_buffer(b"")
    bare = pa.Array.from_buffers(pa.binary(), 0, [None, nothing, nothing])
    assert reader.lookup(bare).to_pylist() == []


def test_more_decoded_bytes_than_one_call_holds(tmp_path: Path) -> None:
    """40 MiB of decoded blocks: answers are copied out, group by group, before their blocks go."""
    size = 1 << 20
    values = {b"%03d" % i: bytes([i]) * size for i in range(44)}
    path = written(tmp_path / "long.sst", list(values.items()), block_size=1 << 20)
    assert path.stat().st_size < 1 << 20
    reader = Reader(path, cache=BlockCache(0))
    assert sum(map(len, values.values())) > _data_blocks.GROUP_BYTES
    asked = [*values, b"none", *values][::-1]
    answers = reader.lookup(asked)
    assert len(answers) == len(asked)
    for key, answer in zip(asked, answers, strict=True):
        assert answer.as_py() == values.get(key)
    assert reader.contains(asked).to_pylist() == [key in values for key in asked]


def test_long_answers_before_a_million_missing_ones(tmp_path: Path) -> None:
    """Room is not made for as many more answers of that length: it would be 64 GB."""
    value = bytes(1 << 16)
    path = written(tmp_path / "long.sst", [(b"a", value)], compression="none")
    asked = pa.array([b"a"] * 1024 + [b"b"] * 1_000_000)
    answers = fresh(path).lookup(asked)
    assert answers.null_count == 1_000_000
    assert all(answers[i].as_buffer() == pa.py_buffer(value) for i in range(0, 1024, 100))
    assert answers.buffers()[2].size == 1024 * len(value)
    assert pa.default_memory_pool().max_memory() < 4 << 30


def test_a_large_batch_is_answered_in_the_order_of_the_request(tmp_path: Path) -> None:
    rng = random.Random(20)
    model = {
        rng.randbytes(rng.randrange(1, 20)): rng.randbytes(rng.randrange(30)) for _ in range(9000)
    }
    path = written(tmp_path / "many.sst", sorted(model.items()), block_size=2000)
    known = list(model)
    asked = [
        rng.choice(known) if rng.random() < 0.7 else rng.randbytes(rng.randrange(20))
        for _ in range(40_000)
    ]
    assert fresh(path).lookup(asked).to_pylist() == [model.get(key) for key in asked]
