"""A key in a list is the key that it is alone: `lookup` of many agrees with `get` of each."""

from __future__ import annotations

import datetime as dt
import random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lookupstore import build
from lookupstore.keys import arguments as key_arguments
from lookupstore.keys._texts import text_array
from lookupstore.keys.arguments import encode_keys
from lookupstore.keys.schema import KeySchema

UTC = dt.timezone.utc
NEPAL = dt.timezone(dt.timedelta(hours=5, minutes=45))
DAY = 86_400 * 10**9
FAMILIES = {
    "date": (pa.date32(), pa.date64()),
    "timestamp": tuple(pa.timestamp(unit) for unit in ("s", "us", "ns")),
    "zoned": tuple(pa.timestamp(unit, "UTC") for unit in ("s", "us", "ns")),
    "duration": tuple(pa.duration(unit) for unit in ("s", "us", "ns")),
    "time": (pa.time64("ns"), pa.time32("s")),
}
TICKS = {"s": 10**9, "us": 10**3, "ns": 1}
# Nanoseconds that differ by what a careless cast would drop, and 2**63 microseconds and more,
# where the fields that Arrow reads wrap around.
NANOSECONDS = (0, 1, 999, 1000, 10**9, 10**9 + 1, 5 * 3600 * 10**9, DAY, DAY + 1, -1, -DAY)


def stored(kind):
    """Return an Arrow array of every moment that the type can hold, each once."""
    if pa.types.is_date(kind):
        days = sorted({n // DAY for n in NANOSECONDS})
        return pa.array([dt.date(1970, 1, 1) + dt.timedelta(days=n) for n in days], kind)
    scale = TICKS[kind.unit]
    ticks = sorted({n // scale for n in NANOSECONDS if n % scale == 0})
    if pa.types.is_time(kind):
        ticks = [n for n in ticks if 0 <= n * scale < DAY]
    return pa.array(ticks, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)


def random_value(rng, family, wild):
    """Return a Python, NumPy or pandas value of the family; sometimes of another one if `wild`."""
    if wild and rng.random() < 0.1:
        family = rng.choice(list(FAMILIES))
    nanos = rng.choice(NANOSECONDS)
    span = dt.timedelta(microseconds=nanos // 1000)
    if family == "date":
        return dt.date(1970, 1, 1) + dt.timedelta(days=nanos // DAY)
    if family == "time":
        return (dt.datetime(1970, 1, 1) + span).time()
    if family == "duration":
        far = pd.Timedelta(np.timedelta64(rng.choice((2**64 // 10**6, 10**15)), "s"))
        return rng.choice((span, pd.Timedelta(nanos, "ns"), far))
    if family == "zoned":
        moment = rng.choice(
            (dt.datetime(1970, 1, 1, tzinfo=UTC) + span, pd.Timestamp(nanos, tz="UTC"))
        )
        return moment.astimezone(rng.choice((UTC, NEPAL)))
    far = pd.Timestamp(np.datetime64("20000-01-01", "s"))
    return rng.choice(
        (
            dt.datetime(1970, 1, 1) + span,
            pd.Timestamp(nanos),
            far,
            np.datetime64(nanos, "ns"),
            np.datetime64(nanos // 1000, "us"),
        )
    )


def random_values(rng, family):
    """Return values of one Python type, of a few, or of other families as well."""
    values = [random_value(rng, family, wild=False) for _ in range(40)]
    way = rng.randrange(4)
    if way == 0:
        first = type(values[0])
        values = [value for value in values if type(value) is first]
    elif way == 1:
        values = [random_value(rng, family, wild=True) for _ in values]
    values = values[: rng.choice((1, 2, 4, 9))]
    if rng.random() < 0.2:
        values[rng.randrange(len(values))] = None
    return values


def outcome(ask):
    """Return the answer, or TypeError."""
    try:
        return ask()
    except TypeError:
        return TypeError


def forms(values, name):
    """Yield the values as keys of one field in every form that holds Python values."""
    objects = np.empty(len(values), object)
    objects[:] = values
    series = pd.Series(objects, dtype=object)
    yield "scalars", values
    yield "tuples", [(value,) for value in values]
    yield "lists", [[value] for value in values]
    yield "dicts", [{name: value} for value in values]
    yield "dict of columns", {name: values}
    yield "tuple of columns", (values,)
    yield "numpy objects", objects
    yield "series", series
    yield "series of tuples", pd.Series([(value,) for value in values])
    yield "index", pd.Index(objects, dtype=object)
    yield "frame", pd.DataFrame({name: series})
    codes, categories = pd.factorize(objects)
    categories = pd.Index(categories, dtype=object)
    if categories.is_unique:  # to pandas, a datetime64 may be equal to what hashes otherwise
        yield "categorical", pd.Series(pd.Categorical.from_codes(codes, categories=categories))


@pytest.mark.parametrize("family", FAMILIES)
def test_lookup_of_a_list_is_get_of_each(family, seed, tmp_path):
    rng = random.Random(seed)
    for kind in FAMILIES[family]:
        keys = stored(kind)
        table = pa.table({"k": keys, "v": pa.array(range(len(keys)))})
        with build(table, tmp_path / str(kind), key="k") as store:
            hits = 0
            for _ in range(30):
                values = random_values(rng, family)
                rows = [outcome(lambda value=value: store.get(value)) for value in values]
                want = TypeError if TypeError in rows else [row and row["v"] for row in rows]
                for form, asked in forms(values, "k"):
                    found = outcome(lambda asked=asked: store.lookup(asked)["v"].to_pylist())
                    assert found == want, (form, values)
                hits += want is not TypeError and any(v is not None for v in want)
            assert hits > 5


@pytest.mark.parametrize("family", FAMILIES)
def test_keys_of_two_fields_and_nulls(family, seed):
    rng = random.Random(seed)
    kind = FAMILIES[family][-1]
    schema = KeySchema(pa.schema([("n", pa.int8()), ("k", kind)]), nullable=["k"])
    for _ in range(100):
        values = random_values(rng, family)
        numbers = [rng.choice((1, 2)) for _ in values]
        rows = list(zip(numbers, values, strict=True))
        want = outcome(lambda rows=rows: [schema.encode_one(row) for row in rows])
        for asked in (
            rows,
            [{"k": value, "n": number} for number, value in rows],
            {"k": values, "n": numbers},
            {"k": values, "n": pa.array([*numbers, None])[:-1]},
            (np.array(numbers), values),
            pd.DataFrame({"n": numbers, "k": pd.Series(values, dtype=object)}),
        ):
            found = outcome(lambda asked=asked: encode_keys(asked, schema).to_pylist())
            assert found == want, (asked, values)


@pytest.mark.parametrize("kind", FAMILIES["date"], ids=str)
def test_a_moment_that_is_not_midnight_is_no_date(kind):
    schema = KeySchema(pa.schema({"k": kind}))
    midnight = dt.datetime(1970, 1, 2)
    day = schema.encode_one(dt.date(1970, 1, 2))
    for whole, later in (
        (midnight, midnight + dt.timedelta(hours=5)),
        (np.datetime64(midnight, "ns"), np.datetime64(midnight, "ns") + np.timedelta64(1, "ns")),
        (pd.Timestamp(midnight), pd.Timestamp(midnight) + pd.Timedelta(hours=5)),
    ):
        assert (schema.encode_one(whole), schema.encode_one(later)) == (day, None)
        moments = pa.array([whole, later], pa.timestamp("ns"))
        assert encode_keys(moments, schema).to_pylist() == [day, None]


def test_a_null_beside_values_for_themselves():
    schema = KeySchema(pa.schema([("n", pa.int8()), ("k", pa.timestamp("ns"))]))
    late = [pd.Timestamp(1), pd.Timestamp(2)]
    found = encode_keys((pa.array([None, 5], pa.int8()), late), schema)
    assert found.to_pylist() == [None, schema.encode_one((5, pd.Timestamp(2)))]
    with pytest.raises(ValueError, match="'k' has 2 values, 'n' has 1"):
        encode_keys(([5], late), schema)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.binary(), ["a", b"b"]),
        (pa.date32(), [dt.date(1970, 1, 1), dt.datetime(1970, 1, 2, 5, tzinfo=UTC)]),
        (pa.timestamp("us", "UTC"), [dt.datetime(1970, 1, 1, tzinfo=UTC), dt.datetime(1970, 1, 1)]),
        (pa.timestamp("us"), [dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 1, tzinfo=UTC)]),
        (pa.time64("us"), [dt.time(1), dt.time(1, tzinfo=UTC)]),
        (pa.time64("us"), [dt.time(1, tzinfo=UTC)]),
    ],
    ids=str,
)
def test_a_wrong_kind_is_named_wherever_it_stands(kind, values):
    schema = KeySchema(pa.schema({"k": kind}))
    for order in (values, values[::-1]):
        for form, asked in forms(order, "k"):
            print(form)
            with pytest.raises(TypeError, match=r"the key field 'k' is .*; found "):
                encode_keys(asked, schema)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), list(range(1000))),
        (pa.float64(), [1, 2.5] * 500),
        (pa.string(), ["a", None] * 500),
        (pa.timestamp("us"), [dt.datetime(1970, 1, 1)] * 1000),
        (pa.timestamp("ns"), [pd.Timestamp(5000)] * 1000),
    ],
    ids=str,
)
def test_lists_of_one_kind_are_encoded_in_one_batch(kind, values, monkeypatch):
    schema = KeySchema(pa.schema({"k": kind}))
    want = [schema.encode_one(value) for value in values]

    def slow(*_):
        raise AssertionError("encoded one by one")

    monkeypatch.setattr(key_arguments, "encode_each", slow)
    for form, asked in forms(values, "k"):
        assert encode_keys(asked, schema).to_pylist() == want, form


def test_what_gives_keys_one_after_the_other():
    schema = KeySchema(pa.schema({"id": pa.int64()}))
    expected = encode_keys([3, 4, 5], schema)
    numbers = {3: "a", 4: "b", 5: "c"}
    for keys in (
        range(3, 6),
        {3, 4, 5},
        frozenset([3, 4, 5]),
        numbers.keys(),
        {"a": 3, "b": 4, "c": 5}.values(),
        (key for key in numbers),
        map(int, "345"),
        iter([3, 4, 5]),
        pd.array([3, 4, 5], dtype="Int64"),
        (range(3, 6),),
    ):
        assert encode_keys(keys, schema).equals(expected), type(keys)
    assert encode_keys(range(5, 2, -1), schema).equals(encode_keys([5, 4, 3], schema))
    assert len(encode_keys(range(0), schema)) == 0
    # Beyond what the key holds: found nowhere, as in a list.
    assert encode_keys(range(2**63 - 1, 2**63 + 1), schema).is_valid().to_pylist() == [True, False]
    assert encode_keys(range(2**70, 2**70 + 2), schema).null_count == 2


def test_arrays_of_pandas_and_keys_of_several_fields():
    texts = KeySchema(pa.schema({"k": pa.string()}))
    expected = encode_keys(["a", "b", None, "a"], texts)
    for values in (
        pd.Categorical(["a", "b", None, "a"]),
        pd.array(["a", "b", None, "a"], dtype="string"),
        pd.array(["a", "b", None, "a"], dtype=pd.ArrowDtype(pa.string())),
    ):
        assert encode_keys(values, texts).equals(expected), values.dtype
        assert encode_keys((values,), texts).equals(expected), values.dtype
    both = KeySchema(pa.schema({"k": pa.string(), "n": pa.int64()}))
    expected = encode_keys([("a", 0), ("b", 1)], both)
    assert encode_keys(zip("ab", range(2), strict=True), both).equals(expected)
    assert encode_keys((pd.Categorical(["a", "b"]), range(2)), both).equals(expected)
    assert encode_keys({"k": ["a", "b"], "n": range(2)}, both).equals(expected)


def test_a_pandas_frame_without_rows_is_no_keys_whatever_its_types():
    schema = KeySchema(pa.schema({"name": pa.string(), "at": pa.timestamp("us")}))
    kinds = {"name": "float64", "at": "float64", "other": "object"}
    frame = pd.DataFrame(columns=list(kinds)).astype(kinds)
    for keys in (frame, frame.set_index("name"), frame.set_index(["name", "at"])):
        assert len(encode_keys(keys, schema)) == 0
    with pytest.raises(KeyError, match="no column 'name'"):
        encode_keys(frame[["at"]], schema)
    with pytest.raises(TypeError, match="'name' is string; found double"):
        encode_keys(pd.DataFrame({"name": [1.0], "at": [None]}), schema)


def test_a_file_is_no_keys(tmp_path):
    """Its lines would be keys with their ends."""
    schema = KeySchema(pa.schema({"k": pa.string()}))
    (tmp_path / "keys").write_text("a\nb\n")
    with open(tmp_path / "keys") as file, pytest.raises(TypeError, match=r"keys is _io\.TextIO"):
        encode_keys(file, schema)


def test_columns_of_texts_are_what_their_values_are():
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    print(f"seed {seed}")
    missing = [None, float("nan"), np.float64("nan"), pd.NA, pd.NaT, np.datetime64("NaT")]

    class Text(str):
        __slots__ = ()

    some = ["", "a", "N14228", "ü", "漢字" * 9, "x" * 1000, "\0", Text("own"), np.str_("theirs")]
    for count in (1, 2, 7, 8, 9, 64, 1000):
        values = [rng.choice(missing if rng.random() < 0.3 else some) for _ in range(count)]
        texts = [str(one) if isinstance(one, str) else None for one in values]
        found = text_array(values, pd.isna)
        if not any(isinstance(one, str) for one in values):
            assert found is None
            continue
        found.validate(full=True)
        assert found.to_pylist() == texts
        column = key_arguments.column_of(pd.Series(values, dtype=object))
        assert column.equals(found)
        schema = KeySchema(pa.schema({"k": pa.string()}))
        wanted = schema.encode_masked([pa.array(texts)])[0]
        assert encode_keys(pd.Series(values, dtype=object), schema).equals(wanted)


@pytest.mark.parametrize(
    "values", [[], [None], ["a", 1], ["a", b"a"], ["a", "\ud800"], ["a", ["b"]], ["a", np.bool_(1)]]
)
def test_a_column_with_anything_but_texts_is_no_text_array(values):
    assert text_array(values, pd.isna) is None


def test_a_list_of_texts_may_change_while_it_is_read():
    values = ["a", pd.NA]

    def grows(_):
        values.append("b")
        return True

    def shrinks(_):
        values.clear()
        return True

    assert text_array(values, grows) is None
    assert text_array(["a", pd.NA, pd.NA], lambda _: True).to_pylist() == ["a", None, None]
    assert text_array(values, shrinks) is None


def test_arrays_in_another_order_of_bytes(tmp_path):
    kinds = [("id", ">i8"), ("v", ">f4"), ("t", ">U3"), ("at", ">M8[us]")]
    rows = np.array([(1, 2.5, "x", 0), (3, 4.5, "yy", 5)], dtype=kinds)
    wanted = rows.astype([(name, np.dtype(kind).newbyteorder("=")) for name, kind in kinds])
    with build(rows, tmp_path / "a", key="id") as store:
        with build(
            {name: wanted[name] for name in wanted.dtype.names}, tmp_path / "b", key="id"
        ) as same:
            assert store.scan().read_all().equals(same.scan().read_all())
        for keys in (
            np.array([3, 9], ">i8"),
            np.array([3, 9], "<i8"),
            {"id": np.array([3, 9], ">i4")},
        ):
            assert store.lookup(keys)["t"].to_pylist() == ["yy", None]
        assert store.lookup(rows)["v"].to_pylist() == [2.5, 4.5]
        assert store.map(np.array([1], ">i2"), "t").tolist() == ["x"]
        joined = store.join(rows[["id"]], "id")
        assert joined["t"].tolist() == ["x", "yy"]
    frame = pd.DataFrame({"id": np.array([3, 1], ">i8"), "v": np.array([4.5, 2.5], ">f4")})
    with build(frame, tmp_path / "c", key="id") as store:
        assert store.value_schema == pa.schema({"v": pa.float32()})
        facts = frame.rename(columns={"v": "own"})
        for keys in (frame["id"], pd.Index(frame["id"]), {"id": frame["id"]}, facts):
            assert store.lookup(keys)["v"].to_pylist() == [4.5, 2.5]
        assert store.map(frame["id"], "v").tolist() == [4.5, 2.5]
        assert store.join(facts, "id")["v"].tolist() == [4.5, 2.5]
