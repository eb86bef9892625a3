"""Bitmaps of positions, beside the library that Iceberg and Delta readers use."""

from __future__ import annotations

import random

import pytest
from pyroaring import BitMap, BitMap64

from lookupstore.tables.roaring import bitmap32, bitmap64


def test_bitmaps_are_those_of_roaring(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(50):
        numbers = set(chance.sample(range(1 << 20), chance.choice([0, 1, 100, 9000])))
        for _ in range(chance.randrange(6)):
            start = chance.randrange(1 << 31)
            numbers |= set(range(start, start + chance.choice([1, 5000, 70_000])))
        small = BitMap(numbers)
        if chance.random() < 0.5:
            small.run_optimize()
        content = small.serialize()
        assert bitmap32(content).tolist() == sorted(numbers)
        shift = chance.choice([0, 1 << 40])
        large = BitMap64(one + shift for one in [*numbers, 1])
        assert bitmap64(large.serialize()).tolist() == list(large)
        for wrong in (content[:-1], content + b"\0", b"\0" + content):
            with pytest.raises(ValueError, match=r"."):
                bitmap32(wrong)
