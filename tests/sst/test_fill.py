"""Readers of a local copy that is not all there: what is asked for, when, and what if it is wrong.

The copy is a sparse file that the test fills itself; the model is a dict.
"""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.sst_files import written

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.sst import Reader, stored
from lookupstore.sst._answers import Values
from lookupstore.sst.cache import BlockCache
from lookupstore.sst.layers import Layers

BLOCK = 500
RECORDS = [(b"%06d" % (7 * i), b"%03d" % (i % 1000) * (1 + i % 13)) for i in range(8000)]
MODEL = dict(RECORDS)


class SparseCopy:
    """A copy that gets ranges of a file when they are asked for, and notes each call."""

    name = "s3://bucket/object"

    def __init__(self, source: Path, path: Path) -> None:
        self.source = source.read_bytes()
        self.right = self.source
        self.path = path
        self.calls: list[list[tuple[int, int]]] = []
        self.repairs: list[tuple[int, int]] = []
        self.expected: list[int] = []
        self.present = bytearray(len(self.source))
        with open(path, "wb") as file:
            file.truncate(len(self.source))

    @property
    def complete(self) -> bool:
        return all(self.present)

    def open(self) -> int:
        return os.open(self.path, os.O_RDONLY)

    def __call__(self, ranges: Sequence[tuple[int, int]]) -> None:
        missing = [(at, size) for at, size in ranges if not all(self.present[at : at + size])]
        if not missing:
            return
        self.calls.append(missing)
        with open(self.path, "r+b") as file:
            for at, size in missing:
                file.seek(at)
                file.write(self.source[at : at + size])
                self.present[at : at + size] = b"\1" * size

    def expect(self, size: int) -> None:
        self.expected.append(size)

    def repair(self, offset: int, size: int, is_right: Callable[[bytes], bool]) -> bool:
        self.repairs.append((offset, size))
        stored = self.right[offset : offset + size]
        if not is_right(stored):
            return False
        with open(self.path, "r+b") as file:
            file.seek(offset)
            file.write(stored)
        return True


KINDS: dict[str, dict[str, Any]] = {
    "plain": {"compression": "none"},
    "zstd": {"compression": "zstd"},
    "paimon": {"dialect": "paimon", "compression": "none"},
}


@pytest.fixture(params=KINDS)
def copy(request: Any, tmp_path: Path) -> SparseCopy:
    source = written(tmp_path / "x.sst", RECORDS, block_size=BLOCK, **KINDS[request.param])
    return SparseCopy(source, tmp_path / "copy.sst")


def opened(copy: SparseCopy, capacity: int = 1 << 20) -> Reader:
    return Reader(copy.path, fill=copy, cache=BlockCache(capacity))


def test_open_asks_for_the_end_and_then_for_all_regions_at_once(copy: SparseCopy) -> None:
    reader = opened(copy)
    # A Paimon file does not say its least key: its first block does.
    assert len(copy.calls) == (3 if reader.info().dialect == "paimon" else 2)
    assert reader.path == copy.name
    assert sum(copy.present) < len(copy.present) / 2


def test_random_access_is_that_of_a_dict(copy: SparseCopy, seed: int) -> None:
    rng = random.Random(seed)
    reader = opened(copy, capacity=20_000)
    keys = [*MODEL, *(b"%06d" % rng.randrange(60_000) for _ in range(500))]
    for _ in range(60):
        some = rng.choices(keys, k=rng.choice([1, 2, 40, 300]))
        low, high = sorted(rng.sample(keys, 2))
        match rng.randrange(5):
            case 0:
                assert [reader.get(key) for key in some] == [MODEL.get(key) for key in some]
            case 1:
                assert reader.lookup(some).to_pylist() == [MODEL.get(key) for key in some]
            case 2:
                assert reader.contains(some).to_pylist() == [key in MODEL for key in some]
            case 3:
                high = min(high, low[:4] + b"99")
                within = [(key, MODEL[key]) for key in sorted(MODEL) if low <= key < high]
                assert list(reader.items(start=low, stop=high)) == within
                assert list(reader.items(start=low, stop=high, reverse=True)) == within[::-1]
            case 4:
                values = Values(len(some))
                Layers(1, {0: [reader]}).lookup(some, values)
                assert values.array().to_pylist() == [MODEL.get(key) for key in some]
    assert list(reader.items()) == RECORDS
    assert reader.verify().num_records == len(RECORDS)
    assert copy.repairs == []


def test_a_batch_asks_once_for_all_its_blocks(copy: SparseCopy, seed: int) -> None:
    reader = opened(copy)
    rng = random.Random(seed)
    keys = rng.sample(sorted(MODEL), 300)
    copy.calls.clear()
    assert reader.lookup(keys).to_pylist() == [MODEL[key] for key in keys]
    (ranges,) = copy.calls
    assert len(ranges) > 50
    assert ranges == sorted(set(ranges))
    copy.calls.clear()
    assert reader.lookup(keys).to_pylist() == [MODEL[key] for key in keys]
    assert copy.calls == []


def test_a_scan_asks_ahead(copy: SparseCopy, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = 64 * BLOCK
    monkeypatch.setattr(stored, "AHEAD", ahead)
    monkeypatch.setattr("lookupstore.sst.scans._BATCH", 1)  # each batch is a block
    for reverse in (False, True):
        fresh = SparseCopy(copy.path.parent / "x.sst", copy.path)
        reader = opened(fresh)
        fresh.calls.clear()
        batches = reader.scan(reverse=reverse)
        next(batches)
        # The first block of a Paimon file is there since it was opened.
        (ranges,) = fresh.calls
        assert ahead - 2 * BLOCK <= sum(size for _, size in ranges) <= ahead + 2 * BLOCK
        blocks = 1 + sum(1 for _ in batches)
        assert blocks == reader.info().data_blocks
        nbytes = reader.info().data_bytes
        assert fresh.expected == [nbytes]
        assert nbytes // (ahead + 2 * BLOCK) <= len(fresh.calls) <= nbytes // ahead + 1


def test_a_block_that_is_asked_for_is_not_asked_for_again(tmp_path: Path) -> None:
    source = written(tmp_path / "x.sst", RECORDS, block_size=BLOCK, compression="none")
    asked = 0

    class Counting(SparseCopy):
        def __call__(self, ranges: Sequence[tuple[int, int]]) -> None:
            nonlocal asked
            asked += 1
            super().__call__(ranges)

    reader = opened(Counting(source, tmp_path / "copy.sst"))
    keys = list(MODEL)
    reader.lookup(keys)
    asked = 0
    reader.lookup(keys)
    reader.get(keys[0])
    assert asked == 0


def test_damage_of_the_copy_is_repaired(copy: SparseCopy, seed: int) -> None:
    """Bytes lost anywhere: the footer, the regions of the end, blocks."""
    rng = random.Random(seed)
    size = len(copy.right)
    source = copy.path.parent / "x.sst"
    whole = Reader(source)
    if whole.info().dialect == "paimon":  # no checksum over its filter and footer
        places = rng.sample(range(whole.info().data_bytes), 30)
    else:
        places = [*rng.sample(range(size), 30), size - 1, size - 30]
    for at in places:
        damaged = SparseCopy(source, copy.path)
        bit = 1 << rng.randrange(8)
        damaged.source = (
            damaged.right[:at] + bytes([damaged.right[at] ^ bit]) + damaged.right[at + 1 :]
        )
        reader = opened(damaged)
        assert reader.lookup(list(MODEL)).to_pylist() == list(MODEL.values()), at
        assert len(damaged.repairs) == 1, at
        assert copy.path.read_bytes() == damaged.right


def test_damage_of_the_source_is_an_error_that_names_it(tmp_path: Path, seed: int) -> None:
    source = written(tmp_path / "x.sst", RECORDS, block_size=BLOCK)
    rng = random.Random(seed)
    size = source.stat().st_size
    for at in [*rng.sample(range(size), 20), size - 1]:
        copy = SparseCopy(source, tmp_path / "copy.sst")
        copy.source = copy.right = (
            copy.right[:at] + bytes([copy.right[at] ^ 1]) + copy.right[at + 1 :]
        )
        with pytest.raises((CorruptionError, FormatError), match=copy.name):
            opened(copy).lookup(list(MODEL))
        assert len(copy.repairs) == 1, at


def test_a_fill_that_fails_fails_the_call_and_not_the_next_one(copy: SparseCopy) -> None:
    reader = opened(copy)
    keys = list(MODEL)
    call = SparseCopy.__call__

    def fail(self: SparseCopy, ranges: Sequence[tuple[int, int]]) -> None:
        raise TimeoutError("injected")

    SparseCopy.__call__ = fail  # type: ignore[method-assign]
    try:
        for attempt in (reader.lookup, reader.contains):
            with pytest.raises(TimeoutError):
                attempt(keys)
        with pytest.raises(TimeoutError):
            reader.get(keys[4000])
        with pytest.raises(TimeoutError):
            next(reader.scan())
    finally:
        SparseCopy.__call__ = call  # type: ignore[method-assign]
    assert reader.lookup(keys).to_pylist() == list(MODEL.values())


def test_such_a_reader_is_not_pickled(copy: SparseCopy) -> None:
    with pytest.raises(TypeError, match="s3://bucket/object"):
        pickle.dumps(opened(copy))


def test_a_map_that_cannot_be_made_reads_the_same(
    copy: SparseCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, size: int) -> None:
        raise OSError(os.strerror(19))

    monkeypatch.setattr("lookupstore.sst.stored.FileMap", refuse)
    reader = opened(copy)
    assert reader.lookup(list(MODEL)).to_pylist() == list(MODEL.values())
