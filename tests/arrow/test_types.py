"""Arrays that are one: slices of one memory without a copy, others with; values of no text."""

from __future__ import annotations

import random
from itertools import chain, pairwise

import pyarrow as pa
import pytest

from lookupstore.arrow.types import concat, first_invalid, limits

WHOLES = [
    pa.array(range(100), pa.int32()),
    pa.array([None if at % 7 == 0 else f"text {at}" for at in range(100)]),
    pa.array([at % 3 == 0 for at in range(100)]),
    pa.array([[at] for at in range(100)]),
    pa.array(["a", "b"] * 50).dictionary_encode(),
    pa.array([{"a": at, "b": str(at)} for at in range(100)]),
]


@pytest.mark.parametrize("whole", WHOLES, ids=lambda one: str(one.type))
def test_slices_are_put_together(whole: pa.Array, seed: int) -> None:
    chosen = random.Random(seed)
    for _ in range(30):
        cuts = sorted(chosen.randint(0, 100) for _ in range(4))
        slices = [whole[low:high] for low, high in pairwise(cuts)]
        assert concat(slices, whole.type).equals(whole[cuts[0] : cuts[-1]])
        # In another order, or with one left out, or of another array, they are no slice.
        assert concat(slices[::-1], whole.type).to_pylist() == list(
            chain.from_iterable(one.to_pylist() for one in slices[::-1])
        )
        assert concat([slices[0], slices[2]], whole.type).to_pylist() == (
            slices[0].to_pylist() + slices[2].to_pylist()
        )
        other = pa.concat_arrays([whole.slice(50), whole.slice(0, 50)])
        joined = concat([whole[:10], other[10:20]], whole.type)
        assert joined.to_pylist() == whole[:10].to_pylist() + other[10:20].to_pylist()


def test_nothing_is_copied_of_slices_that_follow_each_other() -> None:
    whole = pa.array([str(at) for at in range(1000)])
    before = pa.total_allocated_bytes()
    joined = concat([whole[100:300], whole[300:300], whole[300:900]], pa.string())
    assert pa.total_allocated_bytes() == before
    assert joined.equals(whole[100:900])


def test_the_first_of_several_values_that_cannot_be_cast(seed: int) -> None:
    chosen = random.Random(seed)
    for _ in range(50):
        values = [b"text"] * chosen.randint(1, 40)
        bad = {chosen.randrange(len(values)) for _ in range(chosen.randint(1, 3))}
        for at in bad:
            values[at] = b"\xff"
        assert first_invalid(pa.array(values), pa.string()) == min(bad)


@pytest.mark.parametrize("kind", [pa.decimal128(1, 0), pa.decimal128(38, 2), pa.decimal256(76, 76)])
def test_limits_of_decimals_are_digits(kind: pa.DataType) -> None:
    assert limits(kind) == (-int("9" * kind.precision), int("9" * kind.precision))
