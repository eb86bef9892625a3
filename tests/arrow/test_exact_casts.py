"""Casts that keep each value; the oracle is Python, which compares numbers of all classes."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from lookupstore.arrow.exact_casts import cast_exactly, has_all_fields, is_castable
from lookupstore.arrow.fitting import UnfitValueError

KINDS = [pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(12, 2)]
GIVEN = [*KINDS, pa.uint64(), pa.float16(), pa.decimal128(38, 0), pa.decimal128(30, 12)]


def is_held(value: Any, kind: pa.DataType) -> bool:
    """Return whether a type has a number."""
    number = Fraction(value)
    if pa.types.is_integer(kind):
        return number.denominator == 1 and abs(2 * number + 1) < 2**kind.bit_width
    if pa.types.is_decimal(kind):
        return (number * 100).denominator == 1 and abs(number) < 10**10
    try:
        return Fraction(pa.scalar(float(value), kind).as_py()) == number
    except OverflowError:
        return False


def test_a_number_is_the_same_or_refused(seed: int) -> None:
    rng = random.Random(seed)
    pool = [0, 1, -1, 2**31 - 1, 2**31, 2**53 + 1, 2**62, 0.5, 0.1, -2.25, 65504.0, 2.0**40,
            Decimal("0.25"), Decimal("1.005"), Decimal(8), rng.randrange(2**63)]  # fmt: skip
    seen = set()
    for value in pool:
        for given in GIVEN:
            try:
                column = pa.array([None, 1, value], given)
            except (pa.ArrowException, OverflowError, TypeError):
                continue
            real = column[2].as_py()
            if math.isinf(real) or Fraction(real) != Fraction(value):
                continue
            for kind in KINDS:
                assert is_castable(given, kind)
                try:
                    found = cast_exactly(column, kind)
                except UnfitValueError as error:
                    found, row = None, error.row
                if found is None:
                    # Fractions of two are no decimals, even where these are equal.
                    is_float = pa.types.is_floating(given) and pa.types.is_decimal(kind)
                    assert is_float or not is_held(real, kind) or given.bit_width > 64
                    assert row == 2
                    seen.add("refused")
                    continue
                assert found.type == kind
                assert found.to_pylist()[:2] == [None, 1]
                assert Fraction(found[2].as_py()) == Fraction(real), (value, given, kind)
                seen.add("same")
    assert seen == {"same", "refused"}


def test_nan_is_a_value_of_floats_alone() -> None:
    nan = pa.array([math.nan, 2.0, None])
    assert math.isnan(cast_exactly(nan, pa.float32())[0].as_py())
    assert cast_exactly(nan, pa.int64()).to_pylist() == [None, 2, None]
    assert cast_exactly(nan[:1], pa.string()).to_pylist() == [None]
    with pytest.raises(UnfitValueError, match=r"string cannot hold 2\.0"):
        cast_exactly(nan, pa.string())


def test_values_at_any_depth() -> None:
    lists = pa.array([[{"a": 1.0}], None, [], [{"a": None}, {"a": 0.5}]])
    kind = pa.list_(pa.struct({"a": pa.int32(), "b": pa.string()}))
    assert cast_exactly(lists[:3], kind).to_pylist() == [[{"a": 1, "b": None}], None, []]
    assert cast_exactly(lists[1:3], kind).to_pylist() == [None, []]
    with pytest.raises(UnfitValueError) as caught:
        cast_exactly(lists, kind)
    assert caught.value.row == 3
    assert not has_all_fields(lists.type, kind)
    pairs = pa.array([[{"key": "x", "value": 1.0}], None])
    found = cast_exactly(pairs, pa.map_(pa.string(), pa.int32()))
    assert found.to_pylist() == [[("x", 1)], None]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (pa.string(), pa.int32()),
        (pa.int32(), pa.string()),
        (pa.bool_(), pa.int32()),
        (pa.binary(), pa.string()),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.timestamp("us"), pa.date32()),
        (pa.int64(), pa.date32()),
        (pa.array(pd.period_range("2026-01", periods=1, freq="M")).type, pa.int64()),
        (pa.struct({"b": pa.int32()}), pa.struct({"a": pa.int32()})),
        (pa.list_(pa.struct({"k": pa.string(), "v": pa.int8()})), pa.map_(pa.string(), pa.int8())),
    ],
)
def test_what_means_something_else(given: pa.DataType, kind: pa.DataType) -> None:
    assert not is_castable(given, kind)
    assert is_castable(pa.null(), kind)
