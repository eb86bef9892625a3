"""Values of runs: kinds before rows, and rows without them, compared with lists of bytes."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from lookupstore.errors import FormatError
from lookupstore.store._kinds import cut_kinds, join_kinds
from lookupstore.store.kinds import rows_or_null, split_kinds, with_kinds


@pytest.mark.parametrize("kind", [pa.large_binary(), pa.binary(), pa.binary(5), pa.binary(0)])
def test_random_rows(seed: int, kind: pa.DataType) -> None:
    chance = random.Random(seed)
    for _ in range(50):
        count = chance.randrange(40)
        width = kind.byte_width if pa.types.is_fixed_size_binary(kind) else None
        rows = [
            chance.randbytes(chance.randrange(9) if width is None else width) for _ in range(count)
        ]
        gone = [chance.random() < 0.3 for _ in range(count)]
        skipped = chance.randrange(count + 1)
        array = pa.array(rows, kind).slice(skipped)
        rows, gone = rows[skipped:], gone[skipped:]
        values = with_kinds(array, np.array(gone, np.bool_))
        values.validate(full=True)
        pairs = list(zip(rows, gone, strict=True))
        assert values.to_pylist() == [b"\1" if out else b"\0" + row for row, out in pairs]
        at = chance.randrange(len(values) + 1)
        kinds, found = split_kinds(values.slice(at))
        assert kinds.to_pylist() == [bytes([out]) for out in gone[at:]]
        assert found.to_pylist() == [b"" if out else row for row, out in pairs[at:]]
        assert rows_or_null(values).to_pylist() == [None if out else row for row, out in pairs]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([b"\0a", b""], "value 1 of a run has no kind"),
        ([b"\0a", b"", b""], "value 1 of a run has no kind"),
        ([b"\1", b"\1a"], "value 1 of a run has the kind 1 and 2 bytes"),
        ([b"\2"], "value 0 of a run has the kind 2 and 1 bytes"),
    ],
)
def test_what_no_run_has(values: list[bytes], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        split_kinds(pa.array(values, pa.large_binary()))


@pytest.mark.parametrize("offsets", [[0, 3, 2], [1, 2, 3], [0, 2, 99], [-1, 0, 1], []])
def test_offsets_outside_of_the_bytes(offsets: list[int]) -> None:
    places, data = np.array(offsets, np.int64), np.zeros(3, np.uint8)
    with pytest.raises(ValueError, match="offsets"):
        cut_kinds(places, data)
    with pytest.raises(ValueError, match="offsets"):
        join_kinds(places, data, np.zeros(2, np.uint8), 1)


def test_the_first_value_without_a_kind_is_named() -> None:
    with pytest.raises(ValueError, match="value 1 of a run has no kind"):
        cut_kinds(np.array([0, 2, 2, 2], np.int64), np.zeros(2, np.uint8))
