"""Positions of rows in data files, beside sets."""

from __future__ import annotations

import random

import numpy as np

from lookupstore.tables.positions import RowPositions, absent


def test_positions_among_others_and_within_batches(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(200):
        most = chance.choice([1, 10, 1000])
        others = {chance.randrange(most) for _ in range(chance.randrange(20))}
        given = [chance.randrange(most) for _ in range(chance.randrange(20))]
        found = absent(np.array(given, np.int64), np.array(sorted(others), np.int64))
        assert found.tolist() == [one not in others for one in given]
        if others:
            rows = RowPositions(np.array(sorted(others), np.int64))
            start, count = chance.randrange(most), chance.randrange(most)
            expected = [one - start for one in sorted(others) if start <= one < start + count]
            assert rows.within(start, count).tolist() == expected
