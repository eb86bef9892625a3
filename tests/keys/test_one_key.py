"""Single keys of Python values: the encoder in C gives what the road of every class gives.

Values change each day; LOOKUPSTORE_TEST_SEED=N repeats a run that printed N.
"""

from __future__ import annotations

import datetime as dt
import decimal
import random
import uuid

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lookupstore.keys.arguments import encode_keys
from lookupstore.keys.schema import KeySchema

UTC = dt.timezone.utc
D = decimal.Decimal

TYPES = (
    pa.bool_(),
    *(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)),
    pa.float16(), pa.float32(), pa.float64(),
    pa.decimal32(7, 2), pa.decimal64(18, 0), pa.decimal128(38, 10), pa.decimal128(5, -2),
    pa.decimal256(76, 30),
    pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
    *(pa.timestamp(u, zone) for u in ("s", "ms", "us", "ns") for zone in (None, "UTC",
    "Asia/Kathmandu")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()),
    pa.binary(), pa.binary_view(), pa.binary(3), pa.binary(16), pa.uuid(),
)  # fmt: skip


class Number(int):
    """An int of another class, which may mean what it likes."""


HOSTILE = (
    None, True, False, 0, 1, -1, Number(7), 2**7, -(2**7), 2**8, 2**15, 2**31, 2**32, 2**53 + 1,
    2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 2**200, -(2**200),
    0.0, -0.0, 1.0, 1.5, 0.1, -2.5, float("nan"), -float("nan"), float("inf"), -float("inf"),
    5e-324, 1e300,
    3.4028234663852886e38, 3.4028235677973366e38, 2.0**63, np.float32(1.5), np.float64("nan"),
    np.int8(5), np.int64(5), np.uint64(2**64 - 1), np.bool_(True), np.str_("x"), np.bytes_(b"abc"),
    np.datetime64("2013-01-31"), np.datetime64("NaT"), np.timedelta64(5, "s"),
    "", "a", "a\0b", "\0", "ü", "\ud800", "é" * 300, "x" * 509, "x" * 510, "x" * 511, "\0" * 300,
    b"", b"abc", b"\0\xff", b"a\0b", b"z" * 600, bytes(16), bytearray(b"abc"), memoryview(b"abc"),
    D(0), D("-0"), D("0E+5"), D("1.00"), D("1.005"), D("-12.5"), D("NaN"), D("Infinity"), D("sNaN"),
    D(10**17), D(10**18), D(-(10**18)), D("1E+30"), D("1E-999999"), D("1E+999999"),
    D("99999.99"), D("100000.00"), D("12300"), D("123"), D("0.0000000001"),
    dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2000, 2, 29),
    dt.date(9999, 12, 31),
    dt.datetime(1, 1, 1), dt.datetime(2013, 1, 31), dt.datetime(2013, 1, 31, 5, 6, 7, 89_101),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
    dt.datetime(2013, 1, 31, 5, 6, 7, 89_000), dt.datetime(2013, 1, 31, fold=1),
    dt.datetime(2262, 4, 11, 23, 47, 16, 854_775), dt.datetime(2262, 4, 11, 23, 47, 16, 854_776),
    dt.datetime(1677, 9, 21, 0, 12, 43, 145_224), dt.datetime(1677, 9, 21, 0, 12, 43, 145_225),
    dt.datetime(2013, 1, 31, tzinfo=UTC), dt.datetime(2013, 1, 31, 1,
    tzinfo=dt.timezone(dt.timedelta(hours=1))),
    pd.Timestamp("2013-01-31 05:06:07.089101112"), pd.Timestamp("2013-01-31", tz="UTC"), pd.NaT,
    pd.NA,
    pd.Timedelta(5, "ns"),
    dt.time(), dt.time(5, 6, 7), dt.time(5, 6, 7, 89_000), dt.time(5, 6, 7, 89_101),
    dt.time(5, tzinfo=UTC),
    dt.timedelta(), dt.timedelta(5), dt.timedelta(-5, 3, 89_000), dt.timedelta.max,
    dt.timedelta.min,
    dt.timedelta(microseconds=-1), dt.timedelta(106_751, 85_636, 854_775), dt.timedelta(-106_752),
    uuid.UUID(int=7), pa.scalar(7), pa.scalar("x"), pa.scalar(None), object, [], {}, (), (1,), [1],
    (1, 2), {"k": 1}, {"x": 1}, {"k": "a"}, ("a",), (None,),
)  # fmt: skip


def outcome(call, *values):
    """Return what a call returns, or its error as class and text."""
    try:
        return call(*values)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("nullable", [False, True], ids=["never null", "or null"])
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_one_field_has_the_bytes_of_the_road_of_every_class(kind, nullable, seed_of_the_day):
    schema = KeySchema(pa.schema([("k", kind)]), ["k"] if nullable else [])
    rng = random.Random(seed_of_the_day)
    values = [*HOSTILE, *(random_value(rng) for _ in range(300))]
    for value in values:
        assert outcome(schema.encode_one, value) == outcome(schema.encode_slowly, value), value


def test_keys_of_several_fields_have_the_bytes_of_the_road_of_every_class(seed_of_the_day):
    rng = random.Random(seed_of_the_day + 1)
    written = 0
    for _ in range(300):
        kinds = rng.choices(TYPES, k=rng.randrange(2, 5))
        names = [f"f{i}" for i in range(len(kinds))]
        nullable = [name for name in names if rng.random() < 0.3]
        schema = KeySchema(pa.schema(list(zip(names, kinds, strict=True))), nullable)
        for _ in range(30):
            key = tuple(fitting_value(rng, kind) for kind in kinds)
            if rng.random() < 0.1:
                key = key[1:]
            if rng.random() < 0.1:
                key = rng.choice([list(key), dict(zip(names, key, strict=False))])
            found = outcome(schema.encode_one, key)
            assert found == outcome(schema.encode_slowly, key), (schema, key)
            written += isinstance(found, bytes)
    assert written > 500  # most of what is compared are keys, not errors


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.bool_(), True), (pa.int8(), -128), (pa.int64(), -7), (pa.uint64(), 2**64 - 1),
        (pa.float64(), 1.5),
        (pa.float32(), -1.5), (pa.string(), "a"), (pa.binary(), b"a"), (pa.binary(3), b"abc"),
        (pa.date32(), dt.date(2013, 1, 31)), (pa.date64(), dt.date(2013, 1, 31)),
        (pa.timestamp("us"), dt.datetime(2013, 1, 31)), (pa.timestamp("us", "UTC"),
        dt.datetime(2013, 1, 31, tzinfo=UTC)),
        (pa.time64("us"), dt.time(5)), (pa.duration("s"), dt.timedelta(5)),
        (pa.decimal128(38, 10), D("-1.5")),
    ],
    ids=str,
)  # fmt: skip
def test_values_of_pythons_own_types_never_take_the_slow_road(kind, value):
    for nullable in ([], ["k"]):
        schema = KeySchema(pa.schema([("k", kind), ("l", kind)]), nullable)
        direct = schema.encoder.encode((value, value))
        array = pa.array([value], kind)
        assert direct == schema.encode([array, array])[0].as_py()


def random_value(rng):
    """Return a value of any of the classes that keys have."""
    return fitting_value(rng, rng.choice(TYPES))


def fitting_value(rng, kind):
    """Return a value of the class that a key of the type wants, which the type may not hold."""
    types = pa.types
    if rng.random() < 0.05:
        return rng.choice(HOSTILE)
    if types.is_boolean(kind):
        return rng.random() < 0.5
    if types.is_integer(kind):
        return rng.choice([-1, 1]) * rng.getrandbits(rng.choice([1, 7, 8, 16, 31, 32, 63, 64]))
    if types.is_floating(kind):
        return rng.choice([rng.random(), float(rng.randrange(-9, 9)), rng.gauss(0, 1e30)])
    if types.is_decimal(kind):
        return D(rng.randrange(-(10 ** rng.randrange(1, 25)), 10**20)).scaleb(rng.randrange(-12, 4))
    if types.is_date(kind):
        return dt.date.fromordinal(rng.randrange(1, dt.date.max.toordinal() + 1))
    if types.is_time(kind):
        return (dt.datetime.min + moment(rng)).time()
    if types.is_timestamp(kind):
        return (dt.datetime(1700, 1, 1) + moment(rng)).replace(tzinfo=kind.tz and UTC)
    if types.is_duration(kind):
        return moment(rng) - moment(rng)
    size = (
        3
        if kind == pa.binary(3)
        else 16
        if kind in (pa.binary(16), pa.uuid())
        else rng.randrange(6)
    )
    if "string" in str(kind):
        return "".join(rng.choices("ab\0éZ\U0001f600", k=size))
    return bytes(rng.choices(b"ab\0\xff", k=size))


def moment(rng):
    """Return a time since another, of full seconds or of parts."""
    parts = rng.choice([0, rng.randrange(10**6), 1000 * rng.randrange(1000)])
    return dt.timedelta(rng.randrange(200_000), rng.randrange(86_400), parts)


def test_a_list_of_keys_has_the_bytes_of_each(seed_of_the_day):
    rng = random.Random(seed_of_the_day + 2)
    direct = 0
    for _ in range(200):
        kinds = rng.choices(TYPES, k=rng.randrange(1, 4))
        names = [f"f{i}" for i in range(len(kinds))]
        nullable = [name for name in names if rng.random() < 0.3]
        schema = KeySchema(pa.schema(list(zip(names, kinds, strict=True))), nullable)
        keys = [tuple(fitting_value(rng, kind) for kind in kinds) for _ in range(60)]
        if len(kinds) == 1 and rng.random() < 0.8:
            keys = [key for (key,) in keys]
        each = [outcome(schema.encode_slowly, key) for key in keys]
        keys = [key for key, one in zip(keys, each, strict=True) if isinstance(one, bytes)]
        expected = [one for one in each if isinstance(one, bytes)]
        found = schema.encoder.encode_list(keys)
        if found is not NotImplemented:
            direct += len(keys) > 0
            assert found.to_pylist() == expected
        assert encode_keys(keys, schema).to_pylist() == expected
    assert direct > 20


def test_a_list_of_long_keys_finds_room():
    schema = KeySchema(pa.schema([("a", pa.string()), ("b", pa.binary())]))
    keys = [("x" * i, b"\0" * i) for i in (0, 5000, 1, 100_000, 3)]
    assert schema.encoder.encode_list(keys).to_pylist() == [schema.encode_one(k) for k in keys]
    assert schema.encoder.encode_list([]).to_pylist() == []


def test_keys_that_no_store_holds_are_null_in_a_list():
    schema = KeySchema(pa.schema([("k", pa.int8())]))
    assert encode_keys([1, 300, None, 1.0], schema).to_pylist() == [b"\x81", None, None, b"\x81"]


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.timestamp("us"), pa.float64()])
def test_na_of_pandas_is_null(kind):
    """`frame["id"].tolist()` has it for the nulls of a column with nullable integers."""
    one = pa.array([1], pa.int64()).cast(kind)[0].as_py()
    for nullable in ([], ["k"]):
        schema = KeySchema(pa.schema([("k", kind)]), nullable)
        assert schema.encode_one(pd.NA) == schema.encode_one(None)
        found = encode_keys([one, pd.NA], schema)
        assert found.to_pylist() == encode_keys([one, None], schema).to_pylist()
