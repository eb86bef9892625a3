"""Casts that keep what values mean; the oracle is Python, which compares values across types."""

from __future__ import annotations

import collections
import datetime
import decimal
import math
import random
from fractions import Fraction

import pyarrow as pa
import pytest

from lookupstore.arrow.fitting import UnfitValueError, fit, is_kindred, shown_value

NUMBERS = [
    pa.int8(), pa.int64(), pa.uint8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(),
    pa.decimal128(9, 2), pa.decimal128(38, 0), pa.decimal256(60, 20),
]  # fmt: skip
POINT = pa.struct([("x", pa.int64()), ("y", pa.float64())])


def some_numbers(rng: random.Random) -> list[object]:
    """Return numbers near the limits of types, as Python has them."""
    whole = [0, 1, -1, 127, 128, 255, 2**24, 2**24 + 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
    floats = [0.5, 0.1, -2.25, 1e300, 65504.0, 65520.0, 1e38, 2.0**-149, 2.0**64, rng.random()]
    decimals = [decimal.Decimal(text) for text in ("0.1", "0.125", "2.50", "1234567.25")]
    return rng.sample([*whole, rng.randrange(2**63), *floats, *decimals], 12)


def test_a_number_is_the_same_or_refused(seed):
    rng = random.Random(seed)
    for value in some_numbers(rng):
        for given in NUMBERS:
            try:
                column = pa.array([None, value], given)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError):
                continue
            number = Fraction(column[1].as_py()) if math.isfinite(column[1].as_py()) else None
            for wanted in NUMBERS:
                try:
                    found = fit(column, wanted)
                except (TypeError, UnfitValueError):
                    continue
                assert found.type == wanted
                assert found[0].as_py() is None
                if number is not None:
                    assert Fraction(found[1].as_py()) == number, (value, given, wanted)
                else:
                    assert found[1].as_py() == column[1].as_py()


def test_numbers_that_fit_are_not_refused():
    for values, given, wanted in (
        ([2, -7], pa.int64(), pa.decimal128(9, 2)),
        ([2**53], pa.int64(), pa.float64()),
        ([decimal.Decimal("2.75")], pa.decimal128(38, 30), pa.float32()),
        ([0.5, math.inf], pa.float64(), pa.float16()),
        ([2048], pa.int64(), pa.float16()),
        ([3.0], pa.float64(), pa.uint8()),
        ([decimal.Decimal("7.00")], pa.decimal128(9, 2), pa.int8()),
    ):
        assert fit(pa.array(values, given), wanted).to_pylist() == values
    assert math.isnan(fit(pa.array([math.nan]), pa.float32())[0].as_py())


@pytest.mark.parametrize(
    ("values", "given", "wanted", "row"),
    [
        ([0.0, 1e300], pa.float64(), pa.float32(), 1),
        ([0.5, 0.5, 0.1], pa.float64(), pa.float32(), 2),
        ([2**53, 2**53 + 1], pa.int64(), pa.float64(), 1),
        ([decimal.Decimal("0.125")], pa.decimal128(9, 3), pa.decimal128(9, 2), 0),
        ([decimal.Decimal("0.10")], pa.decimal128(9, 2), pa.float64(), 0),
        ([1.0, math.nan], pa.float64(), pa.int64(), 1),
        ([datetime.datetime(2020, 1, 1, 0, 0, 0, 5)], pa.timestamp("us"), pa.timestamp("ms"), 0),
        ([datetime.time(1, 2, 3, 4)], pa.time64("us"), pa.time32("s"), 0),
        ([b"a", b"\xff"], pa.binary(), pa.string(), 1),
        ([b"abc", b"ab"], pa.binary(), pa.binary(3), 1),
        ([[1], None, [2, 300]], pa.list_(pa.int64()), pa.list_(pa.int8()), 2),
        ([[1, 2], [1]], pa.list_(pa.int8()), pa.list_(pa.int8(), 2), 1),
        ([[("a", 1)], [("b", 300)]], pa.map_(pa.string(), pa.int64()),
         pa.map_(pa.string(), pa.int8()), 1),
        ([{"x": 1, "y": 0.5}, {"x": 1, "y": 0.1}], POINT,
         pa.struct([("y", pa.float32()), ("x", pa.int64())]), 1),
    ],
)  # fmt: skip
def test_the_first_value_that_does_not_fit_is_named(values, given, wanted, row):
    # Behind a null, and as a part of something longer.
    column = pa.array([values[0], None, *values], given)[1:]
    with pytest.raises(UnfitValueError) as caught:
        fit(column, wanted)
    assert caught.value.row == row + 1
    assert caught.value.shown == repr(values[row])


def test_the_part_that_does_not_fit_is_named(seed):
    """In random nested values with one time that has nanoseconds."""
    rng = random.Random(seed)
    counts = collections.Counter()
    for _ in range(300):
        wrong = []  # the path of the time

        def value(kind, path, wrong=wrong):
            if pa.types.is_timestamp(kind):
                if not wrong and rng.random() < 0.2:
                    wrong.append(path)
                    return 1001
                return 1000
            if rng.random() < 0.1:
                return None
            if pa.types.is_struct(kind):
                return {one.name: value(one.type, f"{path}.{one.name}") for one in kind}
            count = rng.randrange(4)
            if pa.types.is_map(kind):
                return [(str(at), value(kind.item_type, f"{path}.value")) for at in range(count)]
            return [value(kind.value_type, f"{path}[]") for _ in range(count)]

        column = pa.array([value(_times("ns"), "") for _ in range(3)], _times("ns"))
        if not wrong:
            assert fit(column, _times("us")).cast(_times("ns")).equals(column)
            continue
        with pytest.raises(UnfitValueError) as caught:
            fit(column, _times("us"))
        part = caught.value.part
        assert (part.path, part.given, part.kind) == (
            wrong[0], pa.timestamp("ns"), pa.timestamp("us")
        )  # fmt: skip
        assert "000001001" in part.shown
        counts[part.path] += 1
    assert len(counts) > 3


def _times(unit):
    time = pa.timestamp(unit)
    part = pa.struct({"at": time, "m": pa.map_(pa.string(), pa.list_(time))})
    return pa.struct({"at": time, "all": pa.list_(part), "big": pa.large_list(time)})


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pa.timestamp("us"), pa.date32()),
        (pa.timestamp("us"), pa.time64("us")),
        (pa.date32(), pa.timestamp("us")),
        (pa.timestamp("us", "UTC"), pa.timestamp("us")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.int64(), pa.timestamp("us")),
        (pa.int32(), pa.date32()),
        (pa.int64(), pa.bool_()),
        (pa.bool_(), pa.int8()),
        (pa.string(), pa.int64()),
        (pa.int64(), pa.string()),
        (pa.float64(), pa.decimal128(9, 2)),
        (POINT, pa.struct([("x", pa.int64()), ("z", pa.float64())])),
        (POINT, pa.struct([("x", pa.int64())])),
        (POINT, pa.struct([*POINT, ("z", pa.int8())])),
        (pa.list_(pa.string()), pa.list_(pa.int8())),
        (pa.list_(pa.int8()), pa.int8()),
        (pa.dictionary(pa.int8(), pa.string()), pa.int8()),
        (pa.uuid(), pa.json_()),
    ],
)
def test_types_of_another_meaning(given, wanted):
    assert not is_kindred(given, wanted)
    with pytest.raises(TypeError):
        fit(pa.nulls(1, given), wanted)


def test_what_wraps_values_is_no_other_meaning():
    point = {"y": 0.5, "x": 1}
    swapped = pa.struct([("y", pa.float32()), ("x", pa.dictionary(pa.int8(), pa.int8()))])
    for values, given, wanted in (
        (["a", None], pa.string(), pa.dictionary(pa.int8(), pa.large_string())),
        (["a", None], pa.dictionary(pa.int8(), pa.string()), pa.string_view()),
        ([point, None], POINT, swapped),
        ([[point], None, []], pa.list_(POINT), pa.large_list(swapped)),
        ([[1, 2], None], pa.list_(pa.int64(), 2), pa.list_(pa.int8())),
        ([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64()),
         pa.map_(pa.large_string(), pa.int8())),
    ):  # fmt: skip
        found = fit(pa.array([values[0], *values], given)[1:], wanted)
        assert found.type == wanted
        assert found.to_pylist() == values
        found.validate(full=True)
    assert fit(pa.array([b"x" * 16], pa.binary(16)), pa.uuid())[0].as_py().bytes == b"x" * 16
    assert fit(pa.nulls(2), POINT).to_pylist() == [None, None]


def test_values_that_python_does_not_have_are_shown() -> None:
    days = pa.array([2**31 - 2], pa.int32()).cast(pa.date32())
    assert shown_value(days[0]) == "<value out of range: 2147483646>"
    lists = pa.ListArray.from_arrays([0, 1], days)
    assert shown_value(lists[0]) == "a list<item: date32[day]> that Python does not have"
