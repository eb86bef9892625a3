"""Files that are chosen by the ranges of their keys, compared with a dict of all records."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.errors import CorruptionError
from lookupstore.sst import Reader, Writer
from lookupstore.sst._answers import Found, Values
from lookupstore.sst._batch import answer
from lookupstore.sst._hits import FileHits, SeveralRowsError
from lookupstore.sst._layer import FileRanges, Layer
from lookupstore.sst.ranged_files import RangedFiles
from lookupstore.sst.reader import lookup_of, reads_of

#: Shapes of the ranges of files.
SHAPES = ["disjoint", "equal borders", "overlapping", "nested", "one key each", "equal"]
#: Makes a key of a number; the order of the keys is that of the numbers.
KEYS = {
    "8 bytes": lambda number: number.to_bytes(8, "big"),
    "text": lambda number: b"%d" % (10**6 + number),
    "shared": lambda number: b"customer-%07d" % number,
    "long shared": lambda number: b"x" * 40 + b"%07d" % number + b"y" * (number % 3),
    "short": lambda number: number.to_bytes(3, "big"),
}
Records = dict[bytes, bytes]


def shaped(rng: random.Random, shape: str, count: int, most: int) -> list[list[int]]:
    """Return the ascending numbers of the keys of some files."""
    if shape == "one key each":
        return [[number] for number in rng.sample(range(most), count)]
    if shape in ("overlapping", "equal"):
        return [sorted(rng.sample(range(most), rng.randrange(most // 4))) for _ in range(count)]
    cuts = sorted(rng.sample(range(most), count + 1))
    files = []
    for first, end in pairwise(cuts):
        own = [one for one in range(first, end) if rng.random() < 0.7]
        if shape == "equal borders":
            own = sorted({first, *own, end})
        files.append(own)
    if shape == "nested":
        files.append([cuts[0], *rng.sample(range(cuts[0], cuts[-1]), 3), cuts[-1]])
        files[-1] = sorted(set(files[-1]))
    rng.shuffle(files)
    return files


def written(
    folder: Path, files: Sequence[Sequence[int]], kind: str, rng: random.Random
) -> tuple[list[Reader], list[Records]]:
    """Write files, and return their readers and records."""
    readers, models = [], []
    for at, numbers in enumerate(files):
        model = {KEYS[kind](number): rng.randbytes(rng.choice([0, 1, 30])) for number in numbers}
        options: dict[str, Any] = {"compression": "none", "block_size": 1000, "overwrite": True}
        with Writer(folder / f"{at}.sst", **options) as writer:
            writer.put_many(list(model), list(model.values()))
        readers.append(Reader(folder / f"{at}.sst"))
        models.append(model)
    return readers, models


def asked_of(rng: random.Random, kind: str, most: int) -> pa.Array:
    """Return keys in any order, some of which no file has."""
    count = rng.choice([0, 1, 7, 128, 3000])
    keys = [KEYS[kind](rng.randrange(most + 10)) for _ in range(count)]
    if kind == "8 bytes" and rng.random() < 0.5:
        return pa.array(keys, pa.binary(8))
    others = [None, b"", b"\0", b"\xff" * 9, KEYS[kind](3)[:2], KEYS[kind](most // 2) + b"\0"]
    kinds = [pa.binary(), pa.large_binary()]
    return pa.array(
        [rng.choice(others) if rng.random() < 0.1 else key for key in keys], rng.choice(kinds)
    )


def found_in(files: RangedFiles, keys: pa.Array, first: int) -> list[tuple[int, int, bytes]]:
    """Return the number of the key, number of the file, and row of each hit."""
    hits = FileHits(len(keys))
    files.find(keys, hits, first)
    order = np.arange(len(hits))[::-1].copy()
    rows = Values(len(hits))
    hits.read(order, rows)
    by_key = np.full(len(keys), -1)
    by_key[hits.keys().to_numpy()] = np.arange(len(hits))
    several = len(set(hits.keys().to_pylist())) < len(hits)
    answered = hits.by_key()
    assert answered is None if several else answered.to_pylist() == by_key.tolist()
    at, owners = hits.keys().to_pylist()[::-1], hits.files().to_pylist()[::-1]
    numbers = [files.numbers[owner - first] for owner in owners]
    return sorted(zip(at, numbers, rows.array().to_pylist(), strict=True))


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("shape", SHAPES)
def test_all_files_with_a_key_are_found(tmp_path: Path, shape: str, kind: str, seed: int) -> None:
    rng = random.Random(seed)
    most = 2000
    readers, models = written(tmp_path, shaped(rng, shape, 1 + rng.randrange(9), most), kind, rng)
    files = RangedFiles(readers)
    for _ in range(6):
        keys = asked_of(rng, kind, most)
        expected = [
            (at, number, model[key])
            for at, key in enumerate(keys.to_pylist())
            for number, model in enumerate(models)
            if key in model
        ]
        assert found_in(files, keys, rng.choice([0, 5])) == expected
        if not files.are_disjoint or not files.numbers:
            continue
        values, found = Values(len(keys)), Found(len(keys))
        files.lookup(keys, values)
        files.lookup(keys, found)
        every = {key: row for model in models for key, row in model.items()}
        assert values.array().to_pylist() == [every.get(key) for key in keys.to_pylist()]
        assert found.array().to_pylist() == [key in every for key in keys.to_pylist()]
        owners = [files.numbers[one] for one in files.owners(keys).to_pylist()]
        for at, number, _ in expected:
            assert owners[at] == number


def test_overlapping_files_are_in_few_layers(tmp_path: Path, seed: int) -> None:
    """As many as there are files at one key, and files that only touch are in two."""
    rng = random.Random(seed)
    readers, _ = written(tmp_path, [[1, 5], [5, 9], [6, 7], [10]], "text", rng)
    assert not RangedFiles(readers).are_disjoint
    assert not RangedFiles(readers[:2]).are_disjoint
    assert RangedFiles([readers[0], readers[2], readers[3]]).are_disjoint
    assert RangedFiles([readers[0]]).are_disjoint
    assert RangedFiles([]).are_disjoint
    assert found_in(RangedFiles([]), pa.array([b"a"]), 0) == []
    spans = shaped(rng, "overlapping", 20, 300)
    readers, _ = written(tmp_path, spans, "8 bytes", rng)
    layer = RangedFiles(readers)._layer
    assert layer is not None
    assert layer.ranges is not None
    known = [(span[0], span[-1]) for span in spans if span]
    assert layer.ranges.count == max(
        sum(first <= at <= last for first, last in known) for at in range(300)
    )


def test_many_keys_that_all_files_have(tmp_path: Path, seed: int) -> None:
    """More candidates than there is room for at a time are looked up in several steps."""
    rng = random.Random(seed)
    readers, models = written(tmp_path, [list(range(200))] * 7, "text", rng)
    keys = pa.array([KEYS["text"](rng.randrange(210)) for _ in range(150_000)])
    files = RangedFiles(readers)
    hits = FileHits(len(keys))
    files.find(keys, hits, 0)
    every = sum(key in models[0] for key in keys.to_pylist())
    assert len(hits) == 7 * every
    pairs = {*zip(hits.keys().to_pylist(), hits.files().to_pylist(), strict=True)}
    assert len(pairs) == len(hits)
    rows = Values(len(hits))
    hits.read(np.arange(len(hits)), rows)
    asked = keys.to_pylist()
    for at, file, row in zip(
        hits.keys().to_pylist(), hits.files().to_pylist(), rows.array().to_pylist(), strict=True
    ):
        assert models[files.numbers[file]][asked[at]] == row


def test_rows_of_many_keys_of_overlapping_files(tmp_path: Path, seed: int) -> None:
    """They are passed on stretch by stretch; a key in two files is refused, in any stretch."""
    rng = random.Random(seed)
    spans: list[list[int]] = [[] for _ in range(5)]
    for number in range(4000):
        spans[rng.randrange(6) % 5].append(number)
    spans[0] = sorted({*spans[0], 1, spans[1][7]})
    readers, models = written(tmp_path, spans, "text", rng)
    files = RangedFiles(readers)
    assert not files.are_disjoint
    both = {key for key in models[0] if any(key in model for model in models[1:])}
    every = {key: row for model in models for key, row in model.items() if key not in both}
    some = [key for key in map(KEYS["text"], range(4100)) if key not in both]
    keys = rng.choices(some, k=150_001)
    rows, found = Values(len(keys)), Found(len(keys))
    files.lookup(pa.array(keys), rows)
    files.lookup(pa.array(keys), found)
    assert rows.array().to_pylist() == [every.get(key) for key in keys]
    assert found.array().to_pylist() == [key in every for key in keys]
    with pytest.raises(ValueError, match="room for 1 answers to 150001 keys"):
        files.lookup(pa.array(keys), Values(1))
    for at in (0, 70_000, len(keys) - 1):
        with pytest.raises(SeveralRowsError, match="several files have one of the keys"):
            files.lookup(pa.array([*keys[:at], min(both), *keys[at + 1 :]]), Values(len(keys)))


def test_a_negative_number_is_no_hit(tmp_path: Path, seed: int) -> None:
    readers, models = written(tmp_path, [list(range(50))] * 2, "text", random.Random(seed))
    keys = pa.array(list(models[0]))
    hits = FileHits(len(keys))
    RangedFiles(readers).find(keys, hits, 0)
    for numbers in ([-1, 3, -7], [-1] * 200, [5, -1] * 100):
        rows = Values(len(numbers))
        hits.read(np.array(numbers), rows)
        asked, files = hits.keys().to_pylist(), hits.files().to_pylist()
        assert rows.array().to_pylist() == [
            None if number < 0 else models[files[number]][keys[asked[number]].as_py()]
            for number in numbers
        ]


def test_lookups_are_counted(tmp_path: Path, seed: int) -> None:
    """A key counts where it is looked up, and files out of whose range it is are not asked."""
    rng = random.Random(seed)
    spans = [list(range(0, 1000, 2)), list(range(0, 1000, 4)), list(range(2000, 3000))]
    readers, _ = written(tmp_path, spans, "8 bytes", rng)
    files = RangedFiles(readers)
    keys = pa.array([KEYS["8 bytes"](number) for number in range(1000)])
    found_in(files, keys, 0)
    reads = [reads_of(reader) for reader in readers]
    assert [one.block_uses >= count for one, count in zip(reads, (500, 250, 0), strict=True)]
    for one, inside in zip(reads, (999, 997, 0), strict=True):
        assert one.block_uses + one.filter_negatives == inside
    RangedFiles([readers[0], readers[2]]).lookup(keys, Found(len(keys)))
    assert reads_of(readers[0]).block_uses >= 2 * 500


def test_hot_files_answer_by_their_places(tmp_path: Path, seed: int) -> None:
    """Files that are often asked have a table of their records, in one layer and in several."""
    rng = random.Random(seed)
    for number, spans in enumerate(([range(5000), range(5000, 10_000)], [range(10_000)] * 3)):
        (tmp_path / str(number)).mkdir()
        readers, models = written(tmp_path / str(number), list(map(list, spans)), "8 bytes", rng)
        files = RangedFiles(readers)
        keys = pa.array([KEYS["8 bytes"](rng.randrange(10_100)) for _ in range(60_000)])
        expected = [
            (at, number, model[key])
            for at, key in enumerate(keys.to_pylist())
            for number, model in enumerate(models)
            if key in model
        ]
        for _ in range(4):
            assert found_in(files, keys, 0) == expected
        assert all(lookup_of(reader).data.table.places is not None for reader in readers)


def test_a_file_that_is_cut_before_its_rows_are_read(tmp_path: Path, seed: int) -> None:
    readers, _ = written(tmp_path, [list(range(50_000))] * 2, "8 bytes", random.Random(seed))
    keys = pa.array([KEYS["8 bytes"](number) for number in range(50_000)])
    hits = FileHits(len(keys))
    RangedFiles(readers).find(keys, hits, 0)
    path = tmp_path / "1.sst"
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(CorruptionError, match=r"1\.sst.*found"):
        hits.read(np.arange(len(hits)), Values(len(hits)))


def test_a_damaged_file_is_named(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    readers, _ = written(tmp_path, [list(range(3000))] * 2, "8 bytes", rng)
    content = bytearray((tmp_path / "1.sst").read_bytes())
    content[100] ^= 1
    (tmp_path / "1.sst").write_bytes(content)
    files = RangedFiles([readers[0], Reader(tmp_path / "1.sst")])
    with pytest.raises(CorruptionError, match=r"1\.sst"):
        found_in(files, pa.array([KEYS["8 bytes"](number) for number in range(3000)]), 0)


def test_rows_stay_when_their_files_are_closed(tmp_path: Path, seed: int) -> None:
    readers, models = written(tmp_path, [list(range(3000))] * 2, "8 bytes", random.Random(seed))
    keys = pa.array(list(models[0]))
    files = RangedFiles(readers)
    hits = FileHits(len(keys))
    files.find(keys, hits, 0)
    for number, reader in enumerate(readers):
        reader.close()
        (tmp_path / f"{number}.sst").unlink()
    del files, readers
    rows = Values(len(hits))
    hits.read(np.arange(len(hits)), rows)
    assert sorted(rows.array().to_pylist()) == sorted(
        row for model in models for row in model.values()
    )


def test_arguments_are_checked(tmp_path: Path, seed: int) -> None:
    with pytest.raises(ValueError, match="layer 0: the ranges of files overlap, or do not"):
        FileRanges([[(b"b", b"c"), (b"c", b"d")]])
    with pytest.raises(ValueError, match="layer 1: the ranges of files overlap, or do not"):
        FileRanges([[(b"b", b"c")], [(b"b", b"a")]])
    with pytest.raises(ValueError, match="layer 0 has no files"):
        FileRanges([[]])
    readers, _ = written(tmp_path, [[1, 2], [2, 3]], "8 bytes", random.Random(seed))
    lookups = tuple(map(lookup_of, readers))
    with pytest.raises(ValueError, match="1 ranges of 2 files; give one of each"):
        Layer(lookups, ranges=FileRanges([[(b"a", b"b")]]))
    ranges = FileRanges([[(b"a", b"b")], [(b"b", b"c")]])
    layered = Layer(lookups, ranges=ranges)
    one = BinaryColumn([b"a"])
    with pytest.raises(ValueError, match="2 layers; a key has one file in one layer only"):
        ranges.owners(one)
    with pytest.raises(ValueError, match="4294967296 keys in one call; give at most 4294967295"):
        FileHits(1 << 32)
    hits = FileHits(1)
    with pytest.raises(ValueError, match="2 keys; give 1"):
        hits.find(layered, BinaryColumn([b"a", b"b"]))
    with pytest.raises(ValueError, match="give files that are used in place and have ranges"):
        hits.find(Layer(lookups), one)
    with pytest.raises(ValueError, match="give files that are used in place and have ranges"):
        hits.find(Layer(lookups, frozenset({1}), ranges=ranges), one)
    with Writer(tmp_path / "compressed.sst", compression="zstd") as writer:
        writer.put_many([b"a"], [b"1" * 100])
    compressed = lookup_of(Reader(tmp_path / "compressed.sst"))
    with pytest.raises(ValueError, match="give files that are used in place and have ranges"):
        hits.find(Layer((lookups[0], compressed), ranges=ranges), one)
    with pytest.raises(IndexError, match="hit 0 of 0"):
        hits.read(np.zeros(1, np.int64), Values(1))
    with pytest.raises(ValueError, match="ranges of one layer, without runs, choose the file"):
        answer(layered, one, Values(1))
