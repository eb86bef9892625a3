"""Objects of Python for a known type; the oracle is the objects."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lookupstore.arrow.exact_casts import cast_exactly
from lookupstore.arrow.typed_objects import is_of_objects, typed_column

DAY = dt.date(2026, 1, 2)
KIND = pa.struct(
    {
        "m": pa.map_(pa.string(), pa.list_(pa.int32())),
        "l": pa.list_(pa.struct({"d": pa.date32(), "p": pa.decimal128(9, 2)})),
        "n": pa.int64(),
    }
)


def some(rng: random.Random, values: list[Any]) -> Any:
    return rng.choice([None, *values])


def random_row(rng: random.Random) -> Any:
    def integers() -> Any:
        return some(rng, [[rng.choice([1, None, 2.0, Decimal(3), np.int8(4)]) for _ in range(3)]])

    return some(
        rng,
        [
            {
                "m": some(rng, [{key: integers() for key in rng.sample("abcd", rng.randrange(4))}]),
                "l": some(rng, [[some(rng, [{"d": some(rng, [DAY]), "p": some(rng, [1, Decimal(
                    "0.5")])}]) for _ in range(rng.randrange(3))]]),
                "n": some(rng, [1, 2.0, 2**53 + 1, np.int64(-7), Decimal(10)]),
            }
        ]
        * 4,
    )  # fmt: skip


def plain(value: Any) -> Any:
    """Return what was made as it was given: maps as dicts."""
    if isinstance(value, dict):
        maps = {"m": dict(value["m"])} if value.get("m") is not None else {}
        return value | maps
    return value


@pytest.mark.parametrize("form", [list, tuple, pd.Series])
def test_random_objects(form: Any, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        rows = [random_row(rng) for _ in range(rng.randrange(1, 8))]
        given = form(rows, dtype=object) if form is pd.Series else form(rows)
        assert is_of_objects(given)
        found = cast_exactly(typed_column(given, KIND, "c", "source"), KIND)
        assert list(map(plain, found.to_pylist())) == rows


@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [
        ([1, "x"], pa.int64(), "has 'x' in row 2, which int64 cannot hold; give the column one"),
        ([1, 2**70, 1], pa.int64(), "has 1180591620717411303424 in row 2"),
        (
            [{}, {"a": {"b": 1}}, {"a": 5}],
            pa.map_(pa.string(), pa.map_(pa.string(), pa.int8())),
            "has 5 in row 3, which map<string, int8> cannot hold",
        ),
        ([[("a", 1)], [("b",)]], pa.map_(pa.string(), pa.int8()), r"has \('b',\) in row 2"),
        ([{"a": 1}, {None: 1}], pa.map_(pa.string(), pa.int8()), "the key None in row 2"),
        (
            [{"a": DAY}, {"a": dt.datetime(2026, 1, 2, 5)}],
            pa.map_(pa.string(), pa.date32()),
            r"has datetime.datetime\(2026, .*\) in row 2, which date32",
        ),
        ([DAY, dt.datetime(2026, 1, 2)], pa.date32(), "a datetime in row 2, but its first value"),
        ([True, 1], pa.bool_(), "has 1 in row 2, which bool cannot hold"),
    ],
)
def test_the_object_is_named(values: list[Any], kind: pa.DataType, said: str) -> None:
    for given in (values, pd.Series(values, dtype=object)):
        with pytest.raises(TypeError, match=f"^source: the column 'c' .*{said}"):
            typed_column(given, kind, "c", "source")


def test_what_no_library_calls_a_value_is_null() -> None:
    for nothing in (None, pd.NA, pd.NaT, float("nan")):
        for kind in (pa.map_(pa.string(), pa.int8()), pa.string(), pa.int64(), pa.date32()):
            found = typed_column(pd.Series([nothing, None], dtype=object), kind, "c", "source")
            assert cast_exactly(found, kind).null_count == 2
