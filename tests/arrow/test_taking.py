"""Rows by places and by masks, in columns of random types, beside Python's own lists."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from support.changelog import same
from support.random_columns import Wrapped, random_type, random_value

from lookupstore.arrow.taking import keep, keep_rows, take, take_rows


@pytest.mark.parametrize("number", range(200))
def test_random_columns(number: int, seed: int) -> None:
    rng = random.Random(seed + number)
    kind = random_type(rng, 3)
    start = rng.randrange(3)
    column = pa.array([random_value(kind, rng) for _ in range(12)], kind)[start:]
    values = column.to_pylist()
    places = [rng.choice([None, rng.randrange(len(values))]) for _ in range(rng.randrange(20))]
    mask = [rng.random() < 0.5 for _ in values]
    taken = [None if place is None else values[place] for place in places]
    kept = [value for value, stays in zip(values, mask, strict=True) if stays]
    at = pa.array(places, pa.int64())
    chunked = pa.chunked_array([column[:4], column[4:]])
    rows = pa.record_batch({"n": pa.array(range(len(values))), "v": column})
    table = pa.Table.from_batches([rows])
    for found, expected in (
        (take(column, at), taken),
        (take(chunked, at), taken),
        (take_rows(rows, at).column("v"), taken),
        (take_rows(table, at).column("v"), taken),
        (keep(column, pa.array(mask)), kept),
        (keep(chunked, pa.array(mask)), kept),
        (keep_rows(rows, pa.array(mask)).column("v"), kept),
        (keep_rows(table, pa.array(mask)).column("v"), kept),
    ):
        assert found.type == kind
        found.validate(full=True)
        assert same(found.to_pylist(), expected), kind


def test_a_type_without_a_hash() -> None:
    kind = Wrapped(pa.int32())
    with pytest.raises(TypeError, match="unhashable"):
        hash(kind)
    column = pa.ExtensionArray.from_storage(kind, pa.array([1, 2, None], pa.int32()))
    rows = pa.record_batch({"v": column, "text": pa.array(["a", "b", "c"], pa.string_view())})
    found = keep_rows(rows, pa.array([False, True, True]))
    assert found.schema == rows.schema
    assert found.column("v").storage.to_pylist() == [2, None]
    assert take(column, pa.array([1])).storage.to_pylist() == [2]
