"""Precombine against a dict that is told the rows one after the other."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookupstore.hudi.keys.dedupe import TIES, Ties, rows_to_keep

ROWS = st.lists(
    st.tuples(st.sampled_from("abcde"), st.sampled_from(["", "p", "q"]), st.integers(-2, 2)),
    max_size=30,
)


def kept(rows: list[tuple[str, str, Any]], ties: Ties, ordered: bool) -> list[int]:
    """Combine pairs as Hudi's reduce does: the row so far, and the next one of the batch."""
    best: dict[tuple[str, str], int] = {}
    for i, (key, path, value) in enumerate(rows):
        at = best.setdefault((key, path), i)
        tie = not ordered or (value == rows[at][2] and ties == "later")
        if tie or value > rows[at][2]:
            best[key, path] = i
    return sorted(best.values())


@pytest.mark.parametrize("ties", ["earlier", "later"])
@pytest.mark.parametrize("ordered", [True, False])
@given(rows=ROWS)
def test_the_row_that_a_dict_keeps(
    ties: Ties, ordered: bool, rows: list[tuple[str, str, int]]
) -> None:
    keys = pa.array([row[0] for row in rows], pa.string())
    paths = pa.array([row[1] for row in rows], pa.string()).dictionary_encode()
    values = pa.array([row[2] for row in rows], pa.int32()) if ordered else None
    found = rows_to_keep(keys, paths, values, ties=ties)
    assert found.dtype == "int64"
    assert found.tolist() == kept(rows, ties, ordered)
    alone = [(key, "", value) for key, _, value in rows]
    assert rows_to_keep(keys, None, values, ties=ties).tolist() == kept(alone, ties, ordered)


def test_ties_by_table_version() -> None:
    keys, values = pa.array(["k", "k", "k"]), pa.array([7, 7, 3])
    for version, row in ((6, 0), (8, 1), (9, 1)):
        assert rows_to_keep(keys, None, values, ties=TIES[version]).tolist() == [row]
    assert rows_to_keep(keys).tolist() == [2]


@pytest.mark.parametrize(
    "values",
    [
        [1.5, float("inf"), -1.0, -0.5],
        ["a", "é", "", "b"],
        [b"\x01", b"\xff", b"", b"\x7f"],
        [False, True, False, False],
        [Decimal("1.10"), Decimal("9.99"), Decimal("-10.00"), Decimal("0.00")],
        [datetime.date(2020, 1, 1), datetime.date(2024, 1, 1), datetime.date(1960, 1, 1)],
        [
            datetime.datetime(2020, 1, 1),
            datetime.datetime(2024, 1, 1),
            datetime.datetime(1960, 1, 1),
        ],
        [-(2**63), 2**63 - 1, 0],
    ],
    ids=str,
)
def test_the_greatest_of_each_type_wins(values: list[Any]) -> None:
    keys = pa.array(["k"] * len(values))
    array = pa.array(values)
    assert rows_to_keep(keys, None, array).tolist() == [1]
    chunks = pa.chunked_array([array[:1], array[1:]])
    split = pa.chunked_array([keys[:2], keys[2:]])
    assert rows_to_keep(split, None, chunks).tolist() == [1]


def test_nan_is_above_all_numbers() -> None:
    values = pa.array([float("inf"), float("nan"), 1.0])
    assert rows_to_keep(pa.array(["k"] * 3), None, values).tolist() == [1]


def test_many_rows(seed: int) -> None:
    draw = random.Random(seed)
    rows = [
        (f"k{draw.randrange(3000)}", draw.choice("pqr"), draw.randrange(4)) for _ in range(5000)
    ]
    keys = pa.array([row[0] for row in rows])
    paths = pa.array([row[1] for row in rows]).dictionary_encode()
    values = pa.array([row[2] for row in rows])
    for ties in ("earlier", "later"):
        found = rows_to_keep(keys, paths, values, ties=ties)
        assert found.tolist() == kept(rows, ties, True)
    distinct = pa.array([str(i) for i in range(5000)])
    assert rows_to_keep(distinct, paths, values).tolist() == list(range(5000))


def test_bad_arguments() -> None:
    keys = pa.array(["a", "a"])
    paths = pa.array(["p", "p"]).dictionary_encode()
    with pytest.raises(ValueError, match="ties is 'last'"):
        rows_to_keep(keys, ties="last")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ordering has 1 rows, keys 2"):
        rows_to_keep(keys, None, pa.array([1]))
    with pytest.raises(ValueError, match="ordering contains a null"):
        rows_to_keep(keys, None, pa.array([1, None]))
    with pytest.raises(ValueError, match="partitions contains a null"):
        rows_to_keep(keys, pa.array(["p", None]).dictionary_encode())
    with pytest.raises(ValueError, match="is null"):
        rows_to_keep(pa.array(["a", None]), paths)
    with pytest.raises(TypeError, match="list"):
        rows_to_keep(keys, None, pa.array([[1], [2]]))
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["p", "p"]))
    with pytest.raises(ValueError, match="repeats a path"):
        rows_to_keep(keys, twice)
