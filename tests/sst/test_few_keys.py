"""Blocks of a plain file that are asked for few keys: each is checked once.

The model is a dict. Blocks have about 500 records, of which up to 7 are few.
"""

from __future__ import annotations

import dataclasses
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from support.sst_files import run_all

from lookupstore.errors import CorruptionError
from lookupstore.sst import Reader, Writer
from lookupstore.sst.format import Info, pack_properties
from lookupstore.sst.reader import reads_of

COUNT = 200_000


def key_of(number: int) -> bytes:
    return struct.pack(">Q", number)


KEYS = [key_of(2 * at) for at in range(COUNT)]
MODEL = {key: b"%d" % (at % 977) * 3 for at, key in enumerate(KEYS)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Writer(tmp_path / "x.sst", block_size=9000, compression="none") as writer:
        writer.put_many(KEYS, list(MODEL.values()))
    return tmp_path / "x.sst"


def some_of_each(reader: Reader, chance: random.Random) -> list[bytes]:
    """Return one or two keys of each block or so, in random order."""
    each = COUNT // reader.info().data_blocks
    assert each > 400
    keys = KEYS[chance.randrange(each) :: each]
    return chance.sample(keys, len(keys))


def read_for(reader: Reader, keys: list[bytes]) -> int:
    """Look keys up; return how many blocks were read for it."""
    before = reads_of(reader).blocks_read
    assert reader.lookup(keys).to_pylist() == [MODEL.get(key) for key in keys]
    return reads_of(reader).blocks_read - before


def test_a_block_is_checked_once(path: Path, seed: int) -> None:
    with Reader(path) as reader:
        keys = some_of_each(reader, random.Random(seed))
        blocks = read_for(reader, keys)
        assert 0.9 * len(keys) <= blocks <= reader.info().data_blocks
        assert [read_for(reader, keys) for _ in range(3)] == [0, 0, 0]


def test_a_block_of_many_keys_is_ready_at_once(path: Path) -> None:
    with Reader(path) as reader:
        assert [read_for(reader, KEYS[100:150]) for _ in range(2)] == [1, 0]


def test_a_call_of_many_pieces_is_one(path: Path, seed: int) -> None:
    """A block that two pieces of a call look into is checked once."""
    with Reader(path) as reader:
        keys = some_of_each(reader, random.Random(seed)) * 5
        assert len(keys) > 1600  # more than a piece
        blocks, *others = [read_for(reader, keys) for _ in range(3)]
        assert others == [0, 0]
        assert 0.9 * len(keys) / 5 <= blocks <= reader.info().data_blocks


@pytest.mark.parametrize("threads", [1, 3])
def test_random_calls(path: Path, seed: int, threads: int) -> None:
    """Calls of few and of many keys, near each other or not, until all blocks are ready."""
    with Reader(path) as reader:

        def calls(own: int) -> Callable[[], None]:
            chance = random.Random(seed + own)

            def go() -> None:
                for _ in range(60):
                    span = 2 * COUNT // chance.choice([1, 50, 5000])
                    start = chance.randrange(2 * COUNT)
                    count = int(10 ** chance.uniform(0, 4))
                    keys = [key_of(start + chance.randrange(span)) for _ in range(count)]
                    assert reader.lookup(keys).to_pylist() == [MODEL.get(key) for key in keys]
                    assert reader.contains(keys).to_pylist() == [key in MODEL for key in keys]
                    assert reader.get(keys[0]) == MODEL.get(keys[0])

            return go

        run_all([calls(own) for own in range(threads)])
        before = reads_of(reader).blocks_read
        assert 0 < before <= 2 * (threads + 1) * reader.info().data_blocks


def test_damaged_blocks(path: Path, seed: int) -> None:
    """Each is refused with its offset, and all others answer, whatever is asked at one time."""
    chance = random.Random(seed)
    stored = bytearray(path.read_bytes())
    with Reader(path) as reader:
        keys = some_of_each(reader, chance)
    bad = chance.sample(keys, 20)
    for key in bad:
        at = stored.index(key + bytes([len(MODEL[key])]) + MODEL[key])
        stored[at + chance.randrange(len(key))] ^= 1 << chance.randrange(8)
    path.write_bytes(stored)
    with Reader(path) as reader:
        refused = set()
        for key in keys:
            try:
                found = reader.lookup([key]).to_pylist()
            except CorruptionError as error:
                refused.add((error.path, error.offset))
            else:
                assert found == [MODEL[key]]
        assert 15 <= len(refused) <= 20  # two may be in one block
        assert {name for name, _ in refused} == {str(path)}
        with pytest.raises(CorruptionError) as caught:
            reader.lookup(keys)
        assert (caught.value.path, caught.value.offset) in refused
        for key in bad:
            with pytest.raises(CorruptionError):
                reader.lookup([key])


def test_compressed_blocks_of_a_file_that_says_it_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is found in them lies in no map, and stays as long as the answers."""

    def lying(info: Info) -> dict[bytes, bytes]:
        return pack_properties(dataclasses.replace(info, codecs={"none": info.data_blocks}))

    monkeypatch.setattr("lookupstore.sst.writer.pack_properties", lying)
    with Writer(tmp_path / "x.sst", block_size=9000, compression="zstd") as writer:
        writer.put_many(KEYS, list(MODEL.values()))
    with Reader(tmp_path / "x.sst") as reader:
        keys = KEYS[::300]
        for _ in range(3):
            assert reader.lookup(keys).to_pylist() == [MODEL[key] for key in keys]
