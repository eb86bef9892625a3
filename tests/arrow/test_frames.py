"""Frames of pandas and polars as sources and keys: every type is stored, or refused by name."""

from __future__ import annotations

import datetime
import random
import string
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lookupstore
from lookupstore.arrow.frames import pandas_frame

D = datetime.date
T = datetime.datetime


@pytest.mark.parametrize("kind", ["categorical", "enum"])
def test_categories_of_polars_are_keys_and_values(kind: str, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    words = sorted({"".join(rng.choices(string.ascii_lowercase, k=3)) for _ in range(300)})
    rng.shuffle(words)
    dtype = pl.Categorical() if kind == "categorical" else pl.Enum(words)
    values = [rng.choice([*words, None]) for _ in words]
    frame = pl.DataFrame(
        {
            "k": pl.Series(words, dtype=dtype),
            "v": pl.Series(values, dtype=dtype),
            "list": pl.Series([[one] if one else None for one in values], dtype=pl.List(dtype)),
            "in": pl.Series(
                [{"it": one, "n": i} for i, one in enumerate(values)],
                dtype=pl.Struct({"it": dtype, "n": pl.Int64}),
            ),
        }
    )
    model = dict(zip(words, values, strict=True))
    asked = [rng.choice([*words, "nothing"]) for _ in range(200)]
    known = [one for one in asked if one in model]
    with lookupstore.build(frame, tmp_path / "s", key="k") as store:
        wanted = [model.get(one) for one in asked]
        assert store.lookup(asked)["v"].to_pylist() == wanted
        assert store.lookup(pl.Series(known, dtype=dtype))["v"].to_pylist() == [
            model[one] for one in known
        ]
        assert store.lookup(pl.Series(asked, dtype=pl.Categorical))["v"].to_pylist() == wanted
        assert store.lookup(pd.Series(asked, dtype="category"))["v"].to_pylist() == wanted
        assert store.lookup(pl.DataFrame({"k": asked}))["v"].to_pylist() == wanted
        assert store.lookup(frame.head(9))["list"].to_pylist() == frame.head(9)["list"].to_list()
        assert store.lookup(frame)["in"].to_pylist() == frame["in"].to_list()
        assert store.get(words[0])["v"] == values[0]
        rows = store.scan().read_all()
        assert rows["k"].to_pylist() == sorted(words)
        assert pl.from_arrow(rows)["v"].to_list() == [model[one] for one in sorted(words)]
        found = store.scan(starts_with="b").read_all()["k"].to_pylist()
        assert found == sorted(one for one in words if one.startswith("b"))
        assert store.verify().num_rows == len(words)


REFUSED = {
    "Object": pl.Series("v", [object(), object()], dtype=pl.Object),
    "Int128": pl.Series("v", [1, 2], dtype=pl.Int128),
    "UInt128": pl.Series("v", [1, 2]).cast(getattr(pl, "UInt128", pl.Int128)),
    "List(Int128)": pl.Series("v", [[1], [2]], dtype=pl.List(pl.Int128)),
    "Struct": pl.Series("v", [{"a": 1}, {"a": 2}], dtype=pl.Struct({"a": pl.Int128})),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_arrow_does_not_have_is_refused_by_name(name: str, tmp_path: Path) -> None:
    column = REFUSED[name]
    frame = pl.DataFrame({"k": [1, 2], "v": column})
    for key in ("k", "v"):
        with pytest.raises(
            TypeError, match=r"source: the column 'v' is .*(make it text|\.cast it)"
        ):
            lookupstore.build(frame, tmp_path / "s", key=key)
    assert list(tmp_path.iterdir()) == []
    with lookupstore.build(frame.drop("v"), tmp_path / "s", key="k") as store:
        assert store.lookup(frame, found=True)["found"].to_pylist() == [True, True]
        with pytest.raises(TypeError, match="keys: the column 'k' is"):
            store.lookup(frame.select(pl.col("v").alias("k")))
        with pytest.raises(TypeError, match="keys: the column 'v' is"):
            store.lookup(column)


def test_keys_are_to_be_collected(tmp_path: Path) -> None:
    lazy = pl.LazyFrame({"k": [1, 2]})
    with lookupstore.build(lazy.collect(), tmp_path / "s", key="k") as store:
        with pytest.raises(TypeError, match=r"keys is a polars LazyFrame.*give its \.collect\(\)"):
            store.lookup(lazy)
        assert store.contains(lazy.collect()).to_pylist() == [True, True]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            [1, 2**70],
            r"the column 'v' has integers beyond 64 bits, such as 1180591620717411303424;",
        ),
        (
            [-(2**70), None],
            r"the column 'v' has integers beyond 64 bits, such as -118059162071741130",
        ),
        (["a", 1], r"the column 'v' of dtype object has no type of Arrow: .*\.astype\('string'\)"),
        ([object(), 1], r"the column 'v' of dtype object has no type of Arrow: Could not convert"),
        ([1j, 2j], r"the column 'v' of dtype complex128 has no type of Arrow"),
    ],
)
def test_errors_of_pandas_columns_name_them(column: list, message: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"k": [1, 2], "v": column, "w": [1, 2]})
    for key in ("k", "v"):
        with pytest.raises((TypeError, ValueError), match=f"^source: {message}"):
            lookupstore.build(frame, tmp_path / "s", key=key)
    assert list(tmp_path.iterdir()) == []
    objects = pd.Series([*column, None], dtype=object)
    frame = pd.DataFrame({"k": [1, 2, 3], "v": objects.astype("string")})
    with lookupstore.build(frame, tmp_path / "s", key="k") as store:
        assert store.get(3, columns="v") == {"v": None}


def test_integers_beyond_64_bits_as_decimals(tmp_path: Path) -> None:
    frame = pd.DataFrame({"k": [1, 2], "v": [Decimal(2**70), Decimal(1)]})
    with lookupstore.build(frame, tmp_path / "s", key="k") as store:
        assert store.get(1) == {"v": 2**70}
        asked = pd.DataFrame({"k": [2**70, 2]})
        assert store.lookup(asked)["v"].to_pylist() == [None, 1]


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    frame = pd.DataFrame([[1, 2, 3]], columns=["k", "v", "v"])
    with pytest.raises(ValueError, match="source: two columns have the name 'v'; rename one"):
        lookupstore.build(frame, tmp_path / "s", key="k")


def test_an_index_with_a_name_is_a_column(tmp_path: Path) -> None:
    index = pd.MultiIndex.from_tuples([("eu", 1), ("us", 2)], names=["region", "id"])
    frame = pd.DataFrame({"v": ["a", "b"]}, index=index)
    with lookupstore.build(frame, tmp_path / "s", key=["region", "id"]) as store:
        assert store.lookup(frame)["v"].to_pylist() == ["a", "b"]
        assert store.lookup(frame.reset_index())["v"].to_pylist() == ["a", "b"]
        assert store.lookup(frame.reset_index("id"))["v"].to_pylist() == ["a", "b"]
        # A column goes before a level of its name.
        other = frame.assign(id=[7, 2])
        assert store.lookup(other)["v"].to_pylist() == [None, "b"]
        with pytest.raises(KeyError, match=r"keys: no column 'region'; .*given no columns"):
            store.lookup(pd.DataFrame(index=[1, 2]))


DAYS = [D(1969, 12, 31), D(1970, 1, 1), D(2013, 1, 31), D(2024, 2, 29)]


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_days_are_found_by_datetimes_at_midnight(kind: pa.DataType, tmp_path: Path) -> None:
    table = pa.table({"day": pa.array(DAYS, kind), "v": range(len(DAYS))})
    moments = [T.combine(day, datetime.time(hour)) for day in DAYS for hour in (0, 5)]
    wanted = [i // 2 if i % 2 == 0 else None for i in range(len(moments))]
    with lookupstore.build(table, tmp_path / "s", key="day") as store:
        forms = [moments, pd.Series(moments), pd.DatetimeIndex(moments), pl.Series(moments)]
        forms += [
            np.array(moments, dtype=f"datetime64[{unit}]") for unit in ("s", "ms", "us", "ns")
        ]
        forms += [pd.DataFrame({"day": moments}), [*moments[:-1], moments[-1]]]
        for form in forms:
            assert store.lookup(form)["v"].to_pylist() == wanted, type(form)
        for moment, right in zip(moments, wanted, strict=True):
            for one in (moment, pd.Timestamp(moment), np.datetime64(moment)):
                assert store.get(one) == (None if right is None else {"v": right})
            after = [day for day in DAYS if T.combine(day, datetime.time()) >= moment]
            assert store.scan(start=moment).read_all().num_rows == len(after)
            assert store.scan(stop=moment).read_all().num_rows == len(DAYS) - len(after)
        assert store.lookup([DAYS[0], moments[0], pd.NaT])["v"].to_pylist() == [0, 0, None]
        zoned = moments[0].replace(tzinfo=datetime.timezone.utc)
        with pytest.raises(TypeError, match=r"the key field 'day' is date.*give a datetime.date"):
            store.get(zoned)
        with pytest.raises(TypeError, match=r"the field 'day' is date.*UTC.*; give it as date"):
            store.lookup([zoned])
        with pytest.raises(TypeError, match=r"the key field 'day' is date.*give a datetime.date"):
            store.get("2013-01-31")


def test_lists_of_text_from_polars_in_pandas(tmp_path: Path) -> None:
    """Polars has lists of views, of which pyarrow makes no column of pandas."""
    frame = pl.DataFrame({"k": [1, 2, 3], "tags": [["a", "b"], None, []], "name": ["x", "y", None]})
    with lookupstore.build(frame, tmp_path / "s", key="k") as store:
        whole = store.to_pandas()
        assert [None if one is None else list(one) for one in whole["tags"]] == [
            ["a", "b"],
            None,
            [],
        ]
        for dtype in ("int64", "int64[pyarrow]"):
            facts = pd.DataFrame({"k": pd.Series([3, 1, 9], dtype=dtype)})
            joined = store.join(facts, on="k")
            assert joined["name"].tolist()[1] == "x"
            assert list(joined["tags"][1]) == list(store.map(facts["k"], "tags")[1]) == ["a", "b"]
            assert joined[joined["k"] == 1]["name"].tolist() == ["x"]
        mapped = store.join({"k": np.array([1, 3])}, on="k")["tags"]
        assert [list(one) for one in mapped] == [["a", "b"], []]


def test_an_index_that_arrow_does_not_have(tmp_path: Path) -> None:
    frame = pd.DataFrame({"k": [1]}, index=pd.Index([object()], name="at"))
    with pytest.raises(TypeError, match=r"source: pandas gives no Arrow table: .*object"):
        lookupstore.build(frame, tmp_path / "s", key="k")


def test_a_frame_of_pandas_names_the_package_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="needs pandas: pip install pandas"):
        pandas_frame(pa.table({"n": [1]}))
