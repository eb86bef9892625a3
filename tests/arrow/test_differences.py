"""Rows with different values, beside what Python says of the same values."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from support.changelog import same
from support.random_columns import random_type, random_value

from lookupstore.arrow.differences import differing


@pytest.mark.parametrize("number", range(300))
def test_random_columns(number: int, seed: int) -> None:
    rng = random.Random(seed + number)
    kind = random_type(rng, 3)
    values = [random_value(kind, rng) for _ in range(rng.randrange(3, 15))]
    others = [one if rng.random() < 0.5 else random_value(kind, rng) for one in values]
    # Slices: not all of what an array holds counts.
    start = rng.randrange(3)
    one, other = (pa.array(column, kind)[start:] for column in (values, others))
    expected = [not same(*pair) for pair in zip(one.to_pylist(), other.to_pylist(), strict=True)]
    assert differing(one, other).tolist() == expected, kind
