"""Bounds of columns: a file that has a row for a filter is kept, whatever is unknown of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lookupstore.filters.column_bounds import Answers, ColumnBounds, may_be
from lookupstore.filters.predicates import predicate_of

NAN = float("nan")
V = pc.field("v")
# Which of the bounds, the number of nulls and the number of NaNs are unknown.
UNKNOWN = list(itertools.product((False, True), repeat=3))

FLOATS: list[list[float | None]] = [
    [1.0, NAN], [5.0, NAN], [NAN], [NAN, None], [1.0, None], [1.0, 2.0], [4.0, 9.0], [3.0],
    [0.0], [-0.0], [-0.0, 0.0], [0.0, 7.0], [None, None],
]  # fmt: skip
TEXTS: list[list[str | None]] = [
    ["ab"], ["abx", "abzx"], ["abx", "aby"], ["aby", "abz"], ["aa", "abx"], ["ac"], ["b", None],
    ["ab", None], [None],
]  # fmt: skip


def bounds_of(files: list[pa.Array], unknown: tuple[bool, bool, bool]) -> ColumnBounds:
    """Return what is known of files with some values, counted without the package."""
    kind = files[0].type
    ends, nulls, nans = [], [], []
    for values in files:
        some = [one for one in values.to_pylist() if one is not None]
        numbers = [one for one in some if one == one]
        ends.append((min(numbers, default=None), max(numbers, default=None)))
        nulls.append(values.null_count)
        nans.append(len(some) - len(numbers))
    without_ends, without_nulls, without_nans = unknown
    count = len(files)
    nothing = pa.nulls(count, kind)
    none = pa.nulls(count, pa.int64())
    return ColumnBounds(
        nothing if without_ends else pa.array([low for low, _ in ends], kind),
        nothing if without_ends else pa.array([high for _, high in ends], kind),
        none if without_nulls else pa.array(nulls, pa.int64()),
        none if without_nans else pa.array(nans, pa.int64()),
        pa.array([len(one) for one in files], pa.int64()),
    )


def answers(
    where: pc.Expression, files: list[pa.Array], unknown: tuple[bool, bool, bool]
) -> tuple[Answers, Answers]:
    return may_be(predicate_of(where), {"v": bounds_of(files, unknown)}, len(files))


def check_no_row_is_lost(
    where: pc.Expression, files: list[pa.Array], unknown: tuple[bool, bool, bool]
) -> None:
    """Compare with Arrow, which is asked about the rows."""
    kept, kept_for_not = answers(where, files, unknown)
    for number, values in enumerate(files):
        rows = pa.table({"v": values})
        said = f"{where} of {values.to_pylist()}, unknown {unknown}"
        assert kept[number] or not rows.filter(where).num_rows, said
        assert kept_for_not[number] or not rows.filter(~where).num_rows, f"not {said}"


@pytest.mark.parametrize("unknown", UNKNOWN, ids=str)
def test_no_row_is_lost_of_numbers_with_nan_and_of_both_zeros(
    unknown: tuple[bool, bool, bool],
) -> None:
    files = [pa.array(one, pa.float64()) for one in FLOATS]
    for where in (
        V > 3, V >= 3, V < 3, V <= 3, V == 1, V == 0.0, V.isin([0.0]), V.isin([-0.0]),
        V.isin([1.0, 2.0]), V.isin([0.0, None]), V.isin([NAN]), V.is_null(), V.is_valid(),
        V.is_null(nan_is_null=True), pc.is_nan(V),
    ):  # fmt: skip
        check_no_row_is_lost(where, files, unknown)


@pytest.mark.parametrize("unknown", UNKNOWN, ids=str)
def test_no_row_is_lost_of_texts(unknown: tuple[bool, bool, bool]) -> None:
    files = [pa.array(one, pa.string()) for one in TEXTS]
    for where in (
        pc.match_like(V, "ab%"), pc.match_like(V, "ab%x"), pc.match_like(V, "ab_"),
        pc.match_like(V, "ab"), pc.starts_with(V, "ab"), V == "ab", V.isin(["ab", "b"]),
        V.isin(["ab", None]), V.is_null(), V.is_valid(),
    ):  # fmt: skip
        check_no_row_is_lost(where, files, unknown)


def test_files_without_a_row_are_skipped() -> None:
    """What is known is used: a rule that keeps every file loses no row either."""
    numbers = [pa.array(one, pa.float64()) for one in ([1.0, 2.0], [5.0, NAN], [5.0], [None])]
    texts = [pa.array(one, pa.string()) for one in (["ab", "aby"], ["aa", "ab"], ["ac"], [None])]
    known = (False, False, False)
    cases: list[tuple[pc.Expression, list[pa.Array], list[bool]]] = [
        (V > 3, numbers, [False, True, True, False]),
        (~(V > 3), numbers, [True, True, False, False]),
        (V.is_null(), numbers, [False, False, False, True]),
        (pc.is_nan(V), numbers, [False, True, False, False]),
        (V.isin([1.5]), numbers, [True, False, False, False]),
        (pc.starts_with(V, "ab"), texts, [True, True, False, False]),
        (~pc.starts_with(V, "ab"), texts, [False, True, True, False]),
        (~pc.match_like(V, "ab%x"), texts, [True, True, True, False]),
    ]
    for where, files, expected in cases:
        assert answers(where, files, known)[0].tolist() == expected, str(where)


# Numbers beside each other where one of the types rounds.
_NEAR: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int32(), [2**24 - 1, 2**24, 2**24 + 1, 2**31 - 1, -(2**24) - 1]),
    (pa.int64(), [2**24 + 1, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**53) - 1]),
    (pa.float32(), [0.1, 2.0**24, -(2.0**24), 2.0**53, 2.0**63]),
    (pa.float64(), [0.1, float(np.float32(0.1)), 2.0**24 + 1, 2.0**53, 2.0**53 + 2, 2.0**63]),
    (pa.decimal128(20, 1), [Decimal(2**24 + 1), Decimal(2**53 + 1), Decimal("0.1")]),
]
_ROUNDED: list[Callable[[Any], Any]] = [lambda one: one, float, np.float32]
_ORDERS: list[tuple[Callable[[Any, Any], Any], Callable[[Any, Any], bool]]] = [
    (lambda field, value: field == value, lambda a, b: bool(a == b)),
    (lambda field, value: field < value, lambda a, b: bool(a < b)),
    (lambda field, value: field <= value, lambda a, b: bool(a <= b)),
    (lambda field, value: field > value, lambda a, b: bool(a > b)),
    (lambda field, value: field >= value, lambda a, b: bool(a >= b)),
]


@pytest.mark.parametrize("kind", [one for one, _ in _NEAR], ids=str)
def test_numbers_of_two_types_are_compared_with_a_margin(kind: pa.DataType) -> None:
    """Both may be rounded to a double or to a float; the answer has to be right in each case."""
    values = dict(_NEAR)[kind]
    files = [pa.array([one], kind) for one in values]
    for other in (pa.float32(), pa.float64()):
        if other == kind:
            continue
        for literal, (asked, compare) in itertools.product(dict(_NEAR)[other], _ORDERS):
            value = pa.scalar(literal, other)
            where = asked(V, pc.scalar(value))
            kept, kept_for_not = answers(where, files, (False, False, False))
            for number, file in enumerate(files):
                stored = file[0].as_py()
                said = {compare(one(stored), one(value.as_py())) for one in _ROUNDED}
                assert kept[number] or True not in said, f"{where} of {stored} in {kind}"
                assert kept_for_not[number] or False not in said, f"not {where} of {stored}"


def test_integers_are_compared_with_integers_as_they_are() -> None:
    files = [pa.array([one], pa.int64()) for one in (2**53, 2**53 + 1, 2**53 + 2)]
    for value in (pa.scalar(2**53 + 1), pa.scalar(2**53 + 1, pa.uint64())):
        kept, _ = answers(pc.scalar(value) == V, files, (False, False, False))
        assert kept.tolist() == [False, True, False]
