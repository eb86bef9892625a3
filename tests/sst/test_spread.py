"""Keys of files that are asked one after the other, in one answer; the model is a dict."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lookupstore.errors import CorruptionError
from lookupstore.sst import Reader, Writer
from lookupstore.sst._answers import Found, Values
from lookupstore.sst._spread import Spread
from lookupstore.sst.cache import BlockCache
from lookupstore.sst.layers import Layers
from lookupstore.sst.reader import reads_of

FILES = 3


class Fill:
    """A local copy, all of which is here."""

    name = "object"
    complete = True

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self) -> int:
        return os.open(self.path, os.O_RDONLY)

    def __call__(self, ranges: Sequence[tuple[int, int]]) -> None:
        return

    def repair(self, *_: Any) -> bool:
        return False


def write(path: Path, number: int, count: int, **options: Any) -> dict[bytes, bytes]:
    """Write a file of keys that belong to it; return what it has."""
    rng = random.Random(number)
    keys = [b"%07d" % (FILES * i + number) for i in range(count)]
    rows = {key: rng.randbytes(rng.choice([0, 1, 30, 200])) for key in keys}
    with Writer(path, **options) as writer:
        writer.put_many(list(rows), list(rows.values()))
    return rows


def one_file(reader: Reader) -> Layers:
    return Layers(1, {0: [reader]})


def which_of(readers: Sequence[Reader], keys: list[bytes | None]) -> list[bool]:
    """Ask each reader which of its keys there are, without their values."""
    owners = np.array([0 if key is None else int(key) % FILES for key in keys])
    rows = Spread(len(keys), values=False)
    for number, reader in enumerate(readers):
        places = np.flatnonzero(owners == number).astype(np.uint32)
        one_file(reader).lookup(pa.array(keys, pa.binary()), rows.part(places))
    found = Found(len(keys))
    rows.answer(found)
    answers: list[bool] = found.array().to_pylist()
    return answers


def spread_over(readers: Sequence[Reader], keys: list[bytes | None]) -> list[bytes | None]:
    """Ask each reader for the keys that are its own, and return all answers."""
    owners = np.array([0 if key is None else int(key) % FILES for key in keys])
    rows = Spread(len(keys))
    for number, reader in enumerate(readers):
        places = np.flatnonzero(owners == number).astype(np.uint32)
        one_file(reader).lookup(pa.array(keys, pa.binary()), rows.part(places))
    answers = Values(len(keys))
    rows.answer(answers)
    found: list[bytes | None] = answers.array().to_pylist()
    return found


@pytest.mark.parametrize("dialect", ["native", "paimon"])
@pytest.mark.parametrize("kind", ["in place", "cached", "copy"])
@pytest.mark.parametrize("count", [0, 1, 20_000])
def test_answers_come_in_the_order_of_the_keys(
    tmp_path: Path, dialect: str, kind: str, count: int, seed: int
) -> None:
    rng = random.Random(seed)
    model: dict[bytes | None, bytes] = {}
    readers = []
    for number in range(FILES):
        path = tmp_path / f"{number}.sst"
        codec = "zstd" if kind == "cached" else "none"
        options = {"compression": codec, "block_size": 1000, "dialect": dialect}
        model |= write(path, number, 5000, **options)
        # The blocks of a call do not fit into the cache.
        cache = BlockCache(100_000)
        readers.append(Reader(path, cache=cache, fill=Fill(path) if kind == "copy" else None))
    keys = [*model, None, *(b"%07d" % rng.randrange(90_000) for _ in range(5000))]
    asked = rng.choices(keys, k=count)
    assert spread_over(readers, asked) == [model.get(key) for key in asked]
    assert which_of(readers, asked) == [key in model for key in asked]
    if count > 1:  # keys that are no file's are asked first, so that the filter goes on being asked
        asked.sort(key=lambda key: key in model)
        assert spread_over(readers, asked) == [model.get(key) for key in asked]
        assert all(reads_of(reader).filter_negatives > 0 for reader in readers)
    for reader in readers:
        reader.close()


def test_a_file_is_asked_again_after_another_has_answered_part_of_it(tmp_path: Path) -> None:
    """What the first reader has found, whose other blocks are damaged, is no answer of the next."""
    stored = write(tmp_path / "good.sst", 0, 5000, block_size=1000)
    other = {key: b"other" for key in list(stored)[::2]}
    with Writer(tmp_path / "half.sst") as writer:
        writer.put_many(list(other), list(other.values()))
    rows = Spread(len(stored))
    part = rows.part(np.arange(len(stored), dtype=np.uint32))
    with Reader(tmp_path / "good.sst") as good, Reader(tmp_path / "half.sst", cache=None) as half:
        one_file(good).lookup(list(stored), part)
        one_file(half).lookup(list(stored), rows.part(np.arange(len(stored), dtype=np.uint32)))
        answers = Values(len(stored))
        rows.answer(answers)
    assert answers.array().to_pylist() == [other.get(key) for key in stored]


def test_files_may_be_closed_before_all_have_answered(tmp_path: Path, seed: int) -> None:
    """What has been found is kept; of a copy, whose file may go with its room, it is copied."""
    rng = random.Random(seed)
    for kind in ("in place", "copy"):
        path = tmp_path / f"{kind}.sst"
        model = write(path, 0, 5000, compression="none")
        keys = rng.choices(list(model), k=2000)
        rows = Spread(len(keys))
        reader = Reader(path, fill=Fill(path) if kind == "copy" else None)
        one_file(reader).lookup(keys, rows.part(np.arange(len(keys), dtype=np.uint32)))
        reader.close()
        path.unlink()
        answers = Values(len(keys))
        rows.answer(answers)
        assert answers.array().to_pylist() == [model[key] for key in keys]


def test_a_file_that_is_cut_before_all_have_answered(tmp_path: Path) -> None:
    path = tmp_path / "a.sst"
    model = write(path, 0, 50_000, compression="none")
    rows = Spread(len(model))
    with Reader(path) as reader:
        one_file(reader).lookup(list(model), rows.part(np.arange(len(model), dtype=np.uint32)))
        os.truncate(path, path.stat().st_size // 2)
        with pytest.raises(CorruptionError, match=r"a\.sst.*found"):
            rows.answer(Values(len(model)))


def test_room_and_places_are_checked(tmp_path: Path) -> None:
    rows = Spread(3)
    with pytest.raises(IndexError, match="place 3 of 3"):
        rows.part(np.array([0, 3], dtype=np.uint32))
    for wrong in ([1, 1], [2, 0]):
        with pytest.raises(ValueError, match="places do not ascend"):
            rows.part(np.array(wrong, dtype=np.uint32))
    with pytest.raises(ValueError, match="room for 2 answers to 3 keys"):
        rows.answer(Values(2))
    write(tmp_path / "a.sst", 0, 10)
    part = rows.part(np.array([0], dtype=np.uint32))
    with (
        Reader(tmp_path / "a.sst") as reader,
        pytest.raises(ValueError, match="1 keys; give all 3 of the files"),
    ):
        one_file(reader).lookup([b"1"], part)


@pytest.mark.parametrize("damaged", range(FILES))
def test_a_damaged_file_is_named(tmp_path: Path, damaged: int, seed: int) -> None:
    rng = random.Random(seed)
    model: dict[bytes | None, bytes] = {}
    for number in range(FILES):
        model |= write(tmp_path / f"{number}.sst", number, 5000, compression="none")
    path = tmp_path / f"{damaged}.sst"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    readers = [Reader(tmp_path / f"{number}.sst") for number in range(FILES)]
    keys = rng.choices(list(model), k=20_000)
    with pytest.raises(CorruptionError, match=path.name):
        spread_over(readers, keys)
    others = [key for key in keys if int(key or 0) % FILES != damaged]
    assert spread_over(readers, others) == [model[key] for key in others]
    for reader in readers:
        reader.close()


def test_lookups_are_counted(tmp_path: Path) -> None:
    readers = []
    for number in range(FILES):
        path = tmp_path / f"{number}.sst"
        model = write(path, number, 5000, compression="none")
        readers.append(Reader(path))
    keys: list[bytes | None] = [*model] * 2  # all of the last file
    assert spread_over(readers, keys) == [model[key] for key in keys if key]
    assert [reads_of(reader).block_uses for reader in readers] == [0, 0, len(keys)]
