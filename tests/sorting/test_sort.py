"""`lookupstore.sorting._sort` against Python's own sort and comparison of bytes."""

from __future__ import annotations

import bisect
import random
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookupstore.sorting._sort import (
    Gather,
    Scatter,
    argsort,
    is_ascending,
    sort_keys,
    upper_bound,
)

KEYS = st.one_of(
    st.lists(st.binary(max_size=4), max_size=80),
    st.lists(st.lists(st.sampled_from([0, 0, 1, 255]), max_size=20).map(bytes), max_size=80),
    st.lists(st.integers(0, 600).map(lambda n: b"p" * n), max_size=80),
)
KINDS = [pa.binary(), pa.large_binary(), pa.binary_view()]


def expected(keys: list[bytes]) -> list[int]:
    return sorted(range(len(keys)), key=lambda i: keys[i])


@given(keys=KEYS, kind=st.sampled_from(KINDS), before=st.integers(0, 3))
def test_argsort(keys: list[bytes], kind: pa.DataType, before: int) -> None:
    order = argsort(pa.array([b"\xff"] * before + keys, kind).slice(before))
    assert order.dtype == np.uint32
    assert order.tolist() == expected(keys)


@pytest.mark.parametrize("shared", [0, 5, 8, 30, 255, 256, 264, 900])
@pytest.mark.parametrize("letters", [b"\0", b"\0a", b"ab", bytes(range(256))], ids=len)
def test_argsort_of_many(seed: int, shared: int, letters: bytes) -> None:
    """Long shared starts and trailing zeros, which the eight bytes at a time do not tell apart."""
    rng = random.Random(seed)
    keys = [b"s" * shared + bytes(rng.choices(letters, k=rng.randrange(24))) for _ in range(700)]
    assert argsort(keys).tolist() == expected(keys)


def test_argsort_of_fixed_size(seed: int) -> None:
    rng = random.Random(seed)
    for width in (0, 1, 7, 8, 9, 16, 40):
        keys = [bytes(rng.choices(b"\0\1\xff", k=width)) for _ in range(500)]
        array = pa.array([bytes(width), *keys], pa.binary(width)).slice(1)
        assert argsort(array).tolist() == expected(keys)


@given(KEYS)
def test_neighbours(keys: list[bytes]) -> None:
    keys = sorted(keys) if len(keys) % 3 else keys
    rising = all(low < high for low, high in pairwise(keys))
    assert is_ascending(keys) == rising


@given(
    keys=KEYS, key=st.one_of(st.binary(max_size=4), st.lists(st.sampled_from([0, 255])).map(bytes))
)
def test_upper_bound(keys: list[bytes], key: bytes) -> None:
    keys.sort()
    for one in [key, *keys[:5]]:
        assert upper_bound(pa.array(keys, pa.binary()), one) == bisect.bisect_right(keys, one)


def test_nothing() -> None:
    assert argsort([]).tolist() == []
    assert is_ascending([])
    assert upper_bound([], b"a") == 0


def test_refusals() -> None:
    wild = pa.Array.from_buffers(
        pa.binary(), 2, [None, pa.py_buffer(np.array([0, 99, 1], np.int32)), pa.py_buffer(b"a")]
    )
    bad: Any
    for call in (argsort, is_ascending):
        with pytest.raises(ValueError, match=r"values\[1\] is null"):
            call(pa.array([b"a", None]))
        with pytest.raises(ValueError, match=r"values\[0\]: the Arrow offsets point outside"):
            call(wild)
        for bad in (None, "ab", pa.array([1]), [1]):
            with pytest.raises(TypeError, match="values"):
                call(bad)
    with pytest.raises(ValueError, match=r"values\[1\]: the Arrow offsets point outside"):
        upper_bound(wild, b"a")


@given(keys=st.lists(st.binary(max_size=20) | st.sampled_from([b"", b"\0", b"a" * 17, b"a" * 18])))
def test_sort_keys_says_which_repeat(keys: list[bytes]) -> None:
    order, same = sort_keys(pa.array(keys, pa.binary()))
    assert order.tolist() == expected(keys)
    ordered = sorted(keys)
    repeats = [i > 0 and ordered[i] == ordered[i - 1] for i in range(len(keys))]
    assert (same is None and not any(repeats)) or (same is not None and same.tolist() == repeats)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(3), pa.binary(0)])
def test_gather_against_take(seed: int, kind: pa.DataType) -> None:
    rng = random.Random(seed)
    width = kind.byte_width if pa.types.is_fixed_size_binary(kind) else None
    parts = []
    for count in (5, 0, 300, 1, 40):
        size = lambda: rng.randrange(90) if width is None else width  # noqa: E731
        values = [rng.randbytes(size()) for _ in range(count + 2)]
        parts.append(pa.array(values, kind).slice(1, count))
    whole = pa.concat_arrays(parts)
    gather = Gather(parts)
    for count in (0, 1, 7, 1000):
        rows = np.array([rng.randrange(len(whole)) for _ in range(count)], np.int64)
        assert gather.take(rows).equals(whole.take(pa.array(rows)))
    for wrong in (-1, len(whole)):
        with pytest.raises(IndexError, match=rf"row {wrong} of {len(whole)}"):
            gather.take(np.array([0, wrong], np.int64))


def test_gather_refuses() -> None:
    with pytest.raises(ValueError, match="arrays is empty"):
        Gather([])
    with pytest.raises(TypeError, match=r"arrays\[1\] is large_binary, the first one binary"):
        Gather([pa.array([b""], pa.binary()), pa.array([b""], pa.large_binary())])
    with pytest.raises(ValueError, match=r"arrays\[0\] contains a null"):
        Gather([pa.array([None], pa.binary())])


@given(keys=KEYS, cuts=KEYS, kind=st.sampled_from(KINDS), before=st.integers(0, 3))
def test_scatter(keys: list[bytes], cuts: list[bytes], kind: pa.DataType, before: int) -> None:
    cuts.sort()
    values = pa.array([b"\xff"] * before + keys, kind).slice(before)
    rows, ends, mixed = Scatter(pa.array(cuts, kind)).rows(values)
    wanted: list[list[int]] = [[] for _ in range(len(cuts) + 1)]
    for row, key in enumerate(keys):
        wanted[bisect.bisect_left(cuts, key)].append(row)
    assert [rows[start:end].tolist() for start, end in pairwise(ends.tolist())] == wanted
    assert mixed.tolist() == [len({keys[row] for row in one}) > 1 for one in wanted]


def test_scatter_refuses() -> None:
    wild = pa.Array.from_buffers(
        pa.binary(), 2, [None, pa.py_buffer(np.array([0, 99, 1], np.int32)), pa.py_buffer(b"a")]
    )
    scatter = Scatter([b"b"])
    with pytest.raises(ValueError, match=r"values\[1\] is null"):
        scatter.rows(pa.array([b"a", None]))
    for call in (scatter.rows, Scatter):
        with pytest.raises(ValueError, match=r"values\[0\]: the Arrow offsets point outside"):
            call(wild)
        with pytest.raises(TypeError, match="values"):
            call(pa.array([1]))


def test_scatter_refuses_more_rows_than_32_bits_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of no bytes take no memory, however many there are; an answer would take 16 GiB."""
    scatter = Scatter([b"b"])
    many = pa.Array.from_buffers(pa.binary(0), 1 << 32, [None, pa.py_buffer(b"")])

    def refuse(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(np, "empty", refuse)
    with pytest.raises(ValueError, match="4294967296 values; scatter at most 4294967295 at once"):
        scatter.rows(many)
