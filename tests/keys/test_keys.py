"""Keys: byte order is typed order, exact types come back, and bad bytes are a FormatError."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import pickle
import random
import struct
import uuid

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from lookupstore.arrow.types import plain_type
from lookupstore.errors import FormatError
from lookupstore.keys._codec import KINDS, bucket_of, by_bucket, encode_alone
from lookupstore.keys.schema import KeySchema
from lookupstore.keys.types import KEY_TYPES, key_field

UTC = dt.timezone.utc
EDGES = (0, 1, -1, 2, 127, 128, 255, 256, -128, -129, 2**15, 2**16, 2**31 - 1, 2**31, 2**63 - 1)

# Types that Arrow holds as integers, with the least and the greatest of them.
INTEGERS = {
    **{
        getattr(pa, f"int{bits}")(): (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        for bits in (8, 16, 32, 64)
    },
    **{getattr(pa, f"uint{bits}")(): (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    pa.date32(): (-700_000, 2_900_000),
    pa.time32("s"): (0, 86_399),
    pa.time32("ms"): (0, 86_399_999),
    pa.time64("us"): (0, 86_400 * 10**6 - 1),
    pa.time64("ns"): (0, 86_400 * 10**9 - 1),
    **{
        pa.timestamp(unit, zone): (-(2**63), 2**63 - 1)
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Asia/Kathmandu")
    },
    **{pa.duration(unit): (-(2**63), 2**63 - 1) for unit in ("s", "ms", "us", "ns")},
}
DECIMALS = (
    pa.decimal32(7, 2),
    pa.decimal64(18, 0),
    pa.decimal128(38, 10),
    pa.decimal128(5, -2),
    pa.decimal256(76, 30),
)
BYTES = (
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
    pa.binary(3),
    pa.binary(16),
)
PLAIN = (
    pa.bool_(),
    *INTEGERS,
    pa.date64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    *DECIMALS,
    *BYTES,
)
TYPES = (
    *PLAIN,
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.int64()),
    pa.dictionary(pa.uint16(), pa.timestamp("us", "UTC"), ordered=True),
    pa.uuid(),
)


def integer_array(values, kind):
    """Build an array of any integer-like type from the integers that it holds."""
    width = kind.bit_width // 8
    storage = {1: pa.int8, 2: pa.int16, 4: pa.int32, 8: pa.int64}[width]()
    if pa.types.is_unsigned_integer(kind):
        return pa.array(values, kind)
    return pa.array(values, storage).view(kind)


def random_values(rng, kind, size, null=0.0):
    """Return (array, order): random values, and for each what Python orders as they should."""

    def some(make):
        return [None if rng.random() < null else make() for _ in range(size)]

    if isinstance(kind, pa.BaseExtensionType):
        array, order = random_values(rng, kind.storage_type, size, null)
        return pa.ExtensionArray.from_storage(kind, array), order
    if pa.types.is_dictionary(kind):
        array, order = random_values(rng, kind.value_type, size, null)
        coded = array.dictionary_encode()
        array = pa.DictionaryArray.from_arrays(
            coded.indices.cast(kind.index_type), coded.dictionary, ordered=kind.ordered
        )
        return array, order
    if kind in INTEGERS or kind == pa.date64():
        low, high = INTEGERS.get(kind, (-9000, 9000))

        def whole():
            near = rng.choice((low, high, 0)) + rng.choice(EDGES)
            return near if low <= near <= high and rng.random() < 0.5 else rng.randint(low, high)

        values = some(whole)
        if kind == pa.date64():
            values = [None if v is None else v * 86_400_000 for v in values]
        return integer_array(values, kind), values
    if pa.types.is_boolean(kind):
        values = some(lambda: rng.random() < 0.5)
        return pa.array(values, kind), values
    if pa.types.is_floating(kind):
        pack, unpack = {2: ("<H", "<e"), 4: ("<I", "<f"), 8: ("<Q", "<d")}[kind.bit_width // 8]

        def real():
            edge = rng.choice((0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0))
            raw = struct.pack(pack, rng.getrandbits(kind.bit_width))
            return edge if rng.random() < 0.4 else struct.unpack(unpack, raw)[0]

        values = some(real)
        dtype = {2: np.float16, 4: np.float32, 8: np.float64}[kind.bit_width // 8]
        mask = np.array([v is None for v in values], bool)
        array = pa.array(np.array([v or 0.0 if v is None else v for v in values], dtype), mask=mask)
        return array, [
            None if v is None else (math.isnan(v), 0.0 if math.isnan(v) else v) for v in values
        ]
    if pa.types.is_decimal(kind):
        top = 10**kind.precision - 1
        context = decimal.Context(prec=100)

        def scaled():
            number = rng.choice((0, 1, -1, top, -top, rng.randint(-top, top), rng.randint(-99, 99)))
            return decimal.Decimal(number).scaleb(-kind.scale, context)

        values = some(scaled)
        return pa.array(values, kind), values
    if pa.types.is_fixed_size_binary(kind):
        values = some(lambda: bytes(rng.choice((0, 1, 127, 255)) for _ in range(kind.byte_width)))
        return pa.array(values, kind), values
    if kind in (pa.string(), pa.large_string(), pa.string_view()):
        values = some(
            lambda: "".join(
                rng.choice("\0\x01aZé日\U0001f600\x7f") for _ in range(rng.randrange(4))
            )
        )
        return pa.array(values, kind), [None if v is None else v.encode() for v in values]
    values = some(lambda: bytes(rng.choice((0, 0, 1, 254, 255)) for _ in range(rng.randrange(5))))
    return pa.array(values, kind), values


def assert_order(keys, rows):
    """Assert for every pair of rows that the keys compare as the rows do."""
    for key, row in zip(keys, rows, strict=True):
        for other_key, other in zip(keys, rows, strict=True):
            assert (key < other_key, key == other_key) == (row < other, row == other), (row, other)


def nulls_first(column):
    return [
        (value is not None, value if value is not None else 0) if value is None else (True, value)
        for value in column
    ]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_one_field_sorts_as_its_values(kind):
    rng = random.Random(f"order {kind}")
    array, order = random_values(rng, kind, 60)
    schema = KeySchema(pa.schema([("k", kind)]))
    keys = schema.encode([array])
    assert_order(keys.to_pylist(), order)
    if schema.width is not None:
        assert keys.type == pa.binary(schema.width)
    else:
        assert keys.type == pa.large_binary()


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_a_plain_column_is_encoded_as_columns_of_a_key_are(kind):
    rng = random.Random(f"alone {kind}")
    keys = KeySchema(pa.schema([("k", kind)]))
    column, _ = random_values(rng, plain_type(kind), 90)
    nulls, _ = random_values(rng, plain_type(kind), 90, null=0.5)
    for part in (column, column.slice(13, 40), column.slice(90), column[:0]):
        found = keys.encode_plain(part)
        found.validate(full=True)
        assert found.equals(keys.encode([part]))
    found = keys.encode_plain(nulls)
    if nulls.type in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary()):
        assert found.equals(keys.encode_masked([nulls])[0])
        assert found.is_valid().equals(nulls.is_valid())
    else:
        assert found is None
    assert keys.encode_plain(pa.array([None, None])) is None
    nullable = KeySchema(pa.schema([("k", kind)]), nullable=["k"])
    assert nullable.encode_plain(column).equals(nullable.encode([column]))
    two = KeySchema(pa.schema([("k", kind), ("l", kind)]))
    assert two.encode_plain(column) is None


def test_an_array_without_values_is_encoded_and_one_too_short_is_refused():
    class Array:  # pyarrow checks what it makes itself
        def __init__(self, length, offset):
            self.length, self.offset = length, offset

        def __len__(self):
            return self.length

        def buffers(self):
            return [None, pa.py_buffer(bytes(31))]

    code = (KINDS["signed"], 8, False)
    assert len(encode_alone(code, Array(2, 1), pa.binary(8))) == 2
    for length, offset in ((4, 0), (1, 3), (2, 2), (2, 2**60)):
        with pytest.raises(ValueError, match="longer than its data buffer"):
            encode_alone(code, Array(length, offset), pa.binary(8))
    empty = pa.Array.from_buffers(pa.int64(), 0, [None, None], 0)
    assert encode_alone(code, empty, pa.binary(8)).equals(pa.array([], pa.binary(8)))


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_nulls_sort_first(kind):
    rng = random.Random(f"nulls {kind}")
    array, order = random_values(rng, kind, 60, null=0.2)
    schema = KeySchema(pa.schema([("k", kind)]), nullable=["k"])
    assert schema.width is None
    keys = schema.encode([array])
    assert_order(keys.to_pylist(), nulls_first(order))
    assert keys.null_count == 0


@pytest.mark.parametrize("number", range(60))
def test_composite_keys_sort_field_by_field(number, seed_of_the_day):
    rng = random.Random(seed_of_the_day * 1000 + number)
    kinds = [rng.choice(TYPES) for _ in range(rng.randint(2, 4))]
    names = [f"k{i}" for i in range(len(kinds))]
    nullable = [name for name in names if rng.random() < 0.4]
    # Few values in all but the last field, so that the later fields decide often.
    columns = []
    for name, kind in zip(names, kinds, strict=True):
        array, order = random_values(rng, kind, 3, null=0.3 if name in nullable else 0)
        picks = [rng.randrange(3) for _ in range(40)]
        picked = pa.concat_arrays([array.slice(i, 1) for i in picks])
        columns.append((picked, [nulls_first(order)[i] for i in picks]))
    schema = KeySchema(pa.schema(list(zip(names, kinds, strict=True))), nullable=nullable)
    keys = schema.encode([array for array, _ in columns])
    assert_order(keys.to_pylist(), list(zip(*(order for _, order in columns), strict=True)))
    assert (schema.width is None) == (keys.type == pa.large_binary())


def same(found, wanted):
    """Assert equality where -0.0 has become 0.0 and NaN equals NaN."""
    assert found.type == wanted.type
    found.validate(full=True)
    kind = wanted.type
    if pa.types.is_floating(kind):
        found, wanted = found.to_numpy(zero_copy_only=False), wanted.to_numpy(zero_copy_only=False)
        np.testing.assert_array_equal(found, wanted)
        zeros = found[found == 0]
        assert not np.signbit(zeros.astype(float)).any()
    elif pa.types.is_dictionary(kind):
        assert found.cast(kind.value_type).equals(wanted.cast(kind.value_type))
    else:
        assert found.equals(wanted)


@pytest.mark.parametrize("number", range(80))
def test_round_trip_of_any_schema(number, seed_of_the_day):
    rng = random.Random(seed_of_the_day * 1000 + number)
    kinds = [rng.choice(TYPES) for _ in range(rng.randint(1, 5))]
    fields = [pa.field(f"k{i}", kind, metadata={"a": "b"}) for i, kind in enumerate(kinds)]
    nullable = [field.name for field in fields if rng.random() < 0.4]
    schema = KeySchema(pa.schema(fields, metadata={"x": "y"}), nullable=nullable)
    size = rng.choice((0, 1, 7, 8, 65))
    start = rng.choice((0, 0, 1, 9))
    arrays = [
        random_values(rng, field.type, size + start, 0.3 if field.name in nullable else 0)[0][
            start:
        ]
        for field in fields
    ]
    keys = schema.encode(arrays)
    assert len(keys) == size
    keys.validate(full=True)
    padded = pa.concat_arrays([keys.slice(0, min(1, size)), keys])[min(1, size) :]
    for stored in (
        keys,
        padded,
        keys.cast(pa.binary()),
        keys.cast(pa.binary()).cast(pa.large_binary()),
    ):
        decoded = schema.decode(stored)
        assert decoded.schema.equals(schema.schema, check_metadata=True)
        for found, wanted in zip(decoded.columns, arrays, strict=True):
            same(found, wanted)


def test_chunked_columns_tables_and_names():
    schema = KeySchema(pa.schema([("a", pa.string()), ("b", pa.int32())]))
    a, b = ["x", "y", "", "z"], [3, -1, 2, 0]
    whole = schema.encode([pa.array(a), pa.array(b, pa.int32())])
    chunked = [
        pa.chunked_array([a[:1], [], a[1:]], pa.string()),
        pa.chunked_array([b[:3], b[3:]], pa.int32()),
    ]
    assert schema.encode(chunked).equals(whole)
    table = pa.table({"b": chunked[1], "other": b, "a": chunked[0]})
    assert schema.encode(table).equals(whole)
    assert schema.encode(table.slice(1)).equals(whole[1:])
    assert schema.encode(table.slice(4)).equals(whole[:0])
    assert schema.encode(table.schema.empty_table()).equals(whole[:0])
    assert schema.encode(table.combine_chunks().to_batches()[0]).equals(whole)
    assert KeySchema(pa.schema([("a", pa.string())])).encode(pa.array(a)).to_pylist() == [
        text.encode() for text in a
    ]


def test_exact_bytes():
    schema = KeySchema(
        pa.schema(
            [
                ("s", pa.string()),
                ("d", pa.decimal128(20, 2)),
                ("n", pa.int16()),
                ("f", pa.float32()),
                ("b", pa.bool_()),
                ("t", pa.binary()),
            ]
        ),
        nullable=["n", "t"],
    )
    row = {"s": "a\0b", "d": decimal.Decimal("-0.01"), "n": None, "f": 1.5, "b": True, "t": b"\0"}
    wanted = bytes.fromhex(
        "6100ff620000"  # a, escaped zero, b, end
        "7fffffffffffffffffffffffffffffff"  # -1 with its sign flipped
        "00"  # null
        "bfc00000"  # 1.5 with its sign flipped
        "01"
        "0100"  # there, and raw since nothing follows
    )
    batch = pa.RecordBatch.from_pylist([row], schema=schema.schema)
    assert schema.encode(batch).to_pylist() == [wanted]
    assert schema.encode_one(row) == wanted
    assert schema.encode_one(tuple(row.values())) == wanted


# ---- Bad bytes -------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(150))
def test_mutated_keys_decode_or_raise(number, seed_of_the_day):
    rng = random.Random(seed_of_the_day * 1000 + number)
    kinds = [rng.choice(TYPES) for _ in range(rng.randint(1, 4))]
    names = [f"k{i}" for i in range(len(kinds))]
    nullable = [name for name in names if rng.random() < 0.5]
    schema = KeySchema(pa.schema(list(zip(names, kinds, strict=True))), nullable=nullable)
    arrays = [
        random_values(rng, kind, 5, 0.2 if name in nullable else 0)[0]
        for name, kind in zip(names, kinds, strict=True)
    ]
    keys = schema.encode(arrays).to_pylist()
    for _ in range(20):
        mutated = list(keys)
        at = rng.choice((len(keys) - 1, rng.randrange(len(keys))))
        mutated[at] = mutate(rng, mutated[at])
        bad = None
        try:
            schema.decode(exact(mutated)).validate()
        except FormatError as error:
            bad = str(error)
        assert bad is None or bad.startswith(f"key {at}: ")


def exact(values):
    """Return an array whose data ends with the last value: what is read behind it, ASan sees."""
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.frombuffer(b"".join(values), np.uint8))]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


def mutate(rng, stored):
    """Return the bytes with a bit flipped, cut short, made longer, or with a wild field."""
    stored = bytearray(stored)
    way = rng.randrange(4)
    if way == 0 and stored:
        stored[rng.randrange(len(stored))] ^= 1 << rng.randrange(8)
    elif way == 1 and stored:
        del stored[rng.randrange(len(stored)) :]
    elif way == 2 and len(stored) >= 4:
        at = rng.randrange(len(stored) - 3)
        stored[at : at + 4] = rng.choice(
            (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f", b"\0\0\0\x80")
        )
    else:
        stored += rng.randbytes(rng.randint(1, 5))
    return bytes(stored)


def test_bad_bytes_name_field_and_row():
    fixed = KeySchema(pa.schema([("a", pa.int32()), ("b", pa.bool_())]))
    with pytest.raises(FormatError, match=r"key 1: 4 bytes, where the key schema \(a, b\) needs 5"):
        fixed.decode(pa.array([b"12345"[:4] + b"\1", b"1234"]))
    with pytest.raises(FormatError, match=r"key 1: .* key field 'b': a bool is 0 or 1"):
        fixed.decode(pa.array([b"1234\0", b"1234\2"]))
    text = KeySchema(pa.schema([("a", pa.string()), ("b", pa.string())]), nullable=["b"])
    good = text.encode_one(("x", "y"))
    for bad, match in (
        (b"x\0\0", "key 1: .* 'b'"),  # no marker
        (b"x\0\0\2y", "key 1: .* 'b'"),  # neither null nor value
        (b"x\0", "key 1: .* 'a'"),  # no end
        (b"x\0\7\0\0\1y", "key 1: .* 'a'"),  # neither end nor escape
        (b"\xff\0\0\1y", "key 1: .* 'a'.*UTF8"),
        (b"x\0\0\1\xff", "key 1: .* 'b'.*UTF8"),
        (b"x\0\0\0y", "key 1: bytes are left over after its last field, 'b'"),
    ):
        with pytest.raises(FormatError, match=match):
            text.decode(pa.array([good, bad]))
    with pytest.raises(ValueError, match=r"keys\[1\] is null"):
        fixed.decode(pa.array([b"1234\0", None]))


# ---- Lookups: what cannot match ---------------------------------------------------------------


def test_more_bytes_than_an_array_of_the_type_can_hold():
    """The buffer is not touched, so that it takes no memory."""
    offsets = pa.array([0, 1 << 30, 1 << 31], pa.int64()).buffers()[1]
    keys = pa.Array.from_buffers(pa.large_binary(), 2, [None, offsets, pa.allocate_buffer(1 << 31)])
    for kind in (pa.binary(), pa.string()):
        field = key_field(pa.field("k", kind), False)
        with pytest.raises(ValueError, match=rf"2 keys .* 'k' .* {kind} array .*; decode fewer"):
            field.from_cells(keys)


def test_masked_rows_match_nothing():
    schema = KeySchema(pa.schema([("a", pa.int32()), ("b", pa.string())]), nullable=["b"])
    columns = [pa.array([1, 2**40, None, 4, -(2**31)]), pa.array(["x", "y", "z", None, ""])]
    keys, mask = schema.encode_masked(columns)
    assert mask.dtype == bool
    assert mask.tolist() == [True, False, False, True, True]
    assert keys.is_valid().to_pylist() == mask.tolist()
    kept = schema.encode([pa.array([1, 4, -(2**31)]), pa.array(["x", None, ""])])
    assert keys.drop_null().equals(kept)
    assert schema.encode_masked([columns[0][3:], columns[1][3:]])[1] is None
    chunked = [pa.chunked_array([column[:2], column[2:]]) for column in columns]
    chunked_keys, chunked_mask = schema.encode_masked(chunked)
    assert chunked_keys.equals(keys)
    assert chunked_mask.tolist() == mask.tolist()
    fixed = KeySchema(pa.schema([("a", pa.int64())]))
    keys, mask = fixed.encode_masked([pa.array([None, 5, None], pa.int8())])
    assert keys.to_pylist() == [None, fixed.encode_one(5), None]
    assert mask.tolist() == [False, True, False]


D = decimal.Decimal
DAY = dt.date(2024, 2, 29)
CASTS = [  # given, wanted, values given, which survive
    (pa.int64(), pa.int8(), [127, 128, -128, -129, None], [127, None, -128, None, None]),
    (pa.uint64(), pa.int64(), [2**63 - 1, 2**63, 0], [2**63 - 1, None, 0]),
    (pa.int8(), pa.uint64(), [-1, 5], [None, 5]),
    (pa.int8(), pa.int64(), [-1, 5], [-1, 5]),
    (
        pa.float64(),
        pa.int64(),
        [1.0, 1.5, math.nan, 2.0**63, -(2.0**63), math.inf],
        [1, None, None, None, -(2**63), None],
    ),
    (pa.float32(), pa.uint8(), [255.0, 256.0, -1.0, -0.0], [255, None, None, 0]),
    (
        pa.int64(),
        pa.float64(),
        [2**53, 2**53 + 1, 2**60, 2**63 - 1, -(2**63)],
        [2.0**53, None, 2.0**60, None, -(2.0**63)],
    ),
    (pa.int32(), pa.float32(), [2**24, 2**24 + 1], [2.0**24, None]),
    (pa.int32(), pa.float16(), [2048, 2049, 70000], [2048.0, None, None]),
    (pa.float64(), pa.float32(), [0.5, 0.1, 1e300, math.inf], [0.5, None, None, math.inf]),
    (pa.float32(), pa.float64(), [0.5, math.inf], [0.5, math.inf]),
    (pa.int64(), pa.decimal128(5, 2), [999, 1000, -999, -1000], [D(999), None, D(-999), None]),
    (
        pa.decimal128(10, 3),
        pa.decimal32(5, 2),
        [D("1.230"), D("1.234"), D("1000.000")],
        [D("1.23"), None, None],
    ),
    (
        pa.decimal32(5, 2),
        pa.decimal256(70, 30),
        [D("1.23"), D("-999.99")],
        [D("1.23"), D("-999.99")],
    ),
    (pa.decimal128(20, 2), pa.int16(), [D("7.00"), D("7.01"), D("32768")], [7, None, None]),
    (pa.date32(), pa.date64(), [DAY], [DAY]),
    (
        pa.timestamp("us"),
        pa.timestamp("ms"),
        [dt.datetime(2020, 1, 1, 0, 0, 0, 1000), dt.datetime(2020, 1, 1, 0, 0, 0, 1)],
        [dt.datetime(2020, 1, 1, 0, 0, 0, 1000), None],
    ),
    (
        pa.timestamp("s"),
        pa.timestamp("ns"),
        [dt.datetime(2020, 1, 1), dt.datetime(2999, 1, 1)],
        [dt.datetime(2020, 1, 1), None],
    ),
    (
        pa.time64("us"),
        pa.time32("s"),
        [dt.time(1, 2, 3), dt.time(1, 2, 3, 4)],
        [dt.time(1, 2, 3), None],
    ),
    (
        pa.duration("us"),
        pa.duration("s"),
        [dt.timedelta(seconds=-3), dt.timedelta(microseconds=5)],
        [dt.timedelta(seconds=-3), None],
    ),
    (pa.string(), pa.large_string(), ["a", None], ["a", None]),
    (pa.string_view(), pa.string(), ["a", None], ["a", None]),
    (pa.binary(2), pa.binary(), [b"ab"], [b"ab"]),
    (pa.large_binary(), pa.binary(2), [b"ab", b"a", b"abc", None], [b"ab", None, None, None]),
    (pa.dictionary(pa.int8(), pa.int64()), pa.int16(), [5, 2**20, None], [5, None, None]),
    (pa.null(), pa.decimal32(3, 1), [None], [None]),
]


@pytest.mark.parametrize(("given_type", "wanted", "values", "kept"), CASTS, ids=str)
def test_kindred_types_keep_what_survives(given_type, wanted, values, kept):
    schema = KeySchema(pa.schema([("k", wanted)]))
    array = pa.array(values, given_type)
    keys, mask = schema.encode_masked([array])
    found = schema.encode([pa.array([value for value in kept if value is not None], wanted)])
    assert keys.drop_null().equals(found)
    assert keys.is_valid().to_pylist() == [value is not None for value in kept]
    assert (mask is None) == (None not in kept)
    # The same row by row from Python, where every kept value has a key and no other has.
    for value, key in zip(values, keys.to_pylist(), strict=True):
        if not isinstance(value, float) or pa.types.is_floating(wanted):
            assert schema.encode_one(value) == key
    lost = [
        value
        for value, keeps in zip(values, kept, strict=True)
        if value is not None and keeps is None
    ]
    if lost:
        with pytest.raises(ValueError, match=r"'k' is .*, which cannot hold .* of row "):
            schema.encode([array.drop_null()])
    else:
        assert schema.cast([array]).schema.equals(schema.schema)


def test_cast_names_row_and_value():
    schema = KeySchema(pa.schema([("k", pa.int8())]))
    column = pa.chunked_array([[1, 2], [3, 400]])
    with pytest.raises(ValueError, match=r"facts: .* 'k' is int8, which cannot hold 400 of row 4"):
        schema.cast([column], "facts")
    cast = schema.cast([pa.chunked_array([[1, 2], [3, None]])])
    assert cast.to_pydict() == {"k": [1, 2, 3, None]}
    coded = KeySchema(pa.schema([("k", pa.dictionary(pa.int8(), pa.string()))]))
    assert coded.cast([pa.array(["a", "b", "a"])]).column(0).indices.to_pylist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("given_array", "wanted", "match"),
    [
        (["x"], pa.int64(), "'k' is int64; found string"),
        ([1], pa.string(), "'k' is string; found int64"),
        ([True], pa.int64(), "'k' is int64; found bool"),
        ([b"x"], pa.string(), "'k' is string; found binary"),
        ([1.5], pa.decimal128(5, 2), "found double"),
        ([DAY], pa.timestamp("us"), "found date32"),
        (
            pa.array([0], pa.timestamp("us", "UTC")),
            pa.timestamp("us"),
            "found timestamp.us, tz=UTC",
        ),
        (pa.array([[1]]), pa.int64(), "found list"),
    ],
)
def test_another_kind_is_a_type_error(given_array, wanted, match):
    schema = KeySchema(pa.schema([("k", wanted)]))
    array = given_array if isinstance(given_array, pa.Array) else pa.array(given_array)
    for verb in (schema.encode, schema.encode_masked, schema.cast):
        with pytest.raises(TypeError, match=match):
            verb([array])
    with pytest.raises(TypeError, match="the key field 'k' is"):
        schema.encode_one(array[0].as_py() if not pa.types.is_list(array.type) else {1, 2})


# ---- One key -----------------------------------------------------------------------------------


def python_values(kind):
    """Return a strategy of Python values that pa.array takes for the type."""
    types = pa.types
    if types.is_boolean(kind):
        return st.booleans()
    if types.is_integer(kind):
        return st.integers(*INTEGERS[kind])
    if types.is_floating(kind):
        return st.floats(width=kind.bit_width)
    if types.is_decimal(kind):
        top = 10**kind.precision - 1
        context = decimal.Context(prec=100)
        return st.integers(-top, top).map(lambda n: D(n).scaleb(-kind.scale, context))
    if types.is_date(kind):
        return st.dates()
    if types.is_time(kind):
        return st.times().map(lambda t: cut(t, kind.unit))
    if types.is_timestamp(kind):
        zones = (
            st.none()
            if kind.tz is None
            else st.sampled_from([UTC, dt.timezone(dt.timedelta(hours=-7, minutes=30))])
        )
        low, high = dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)
        return st.datetimes(low, high, timezones=zones).map(lambda t: cut(t, kind.unit))
    if types.is_duration(kind):
        unit = {"s": "seconds", "ms": "milliseconds"}.get(kind.unit, "microseconds")
        return st.integers(-(10**12), 10**12).map(lambda n: dt.timedelta(**{unit: n}))
    if types.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if kind in (pa.string(), pa.large_string(), pa.string_view()):
        return st.text(max_size=8)
    return st.binary(max_size=8)


def cut(value, unit):
    step = {"s": 10**6, "ms": 1000}.get(unit, 1)
    return value.replace(microsecond=value.microsecond // step * step)


@pytest.mark.parametrize("kind", PLAIN, ids=str)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data())
def test_encode_one_is_encode_of_one_row(kind, data):
    value = data.draw(python_values(kind))
    array = pa.array([value], kind)
    for nullable in ((), ("k",)):
        schema = KeySchema(pa.schema([("k", kind)]), nullable)
        wanted = schema.encode([array])[0].as_py()
        assert schema.encode_one(value) == wanted
        assert schema.encode_one((value,)) == wanted
        assert schema.encode_one({"k": value}) == wanted
        assert schema.encode_one(array[0]) == wanted
        inner = KeySchema(pa.schema([("k", kind), ("z", pa.int8())]), nullable)
        columns = [array, pa.array([7], pa.int8())]
        assert inner.encode_one((value, 7)) == inner.encode(columns)[0].as_py()


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    kind=st.sampled_from(
        [
            *(k for k in INTEGERS if pa.types.is_integer(k)),
            pa.float16(),
            pa.float32(),
            pa.float64(),
            *DECIMALS,
        ]
    ),
    value=st.one_of(
        st.integers(-(2**63), 2**63 - 1),
        st.sampled_from(EDGES),
        st.floats(),
        st.decimals(places=3, min_value=-(10**9), max_value=10**9),
    ),
)
def test_encode_one_matches_what_encode_masked_matches(kind, value):
    schema = KeySchema(pa.schema([("k", kind)]))
    try:
        wanted = schema.encode_masked([pa.array([value])])[0][0].as_py()
    except TypeError:
        with pytest.raises(TypeError):
            schema.encode_one(value)
    else:
        assert schema.encode_one(value) == wanted


@pytest.mark.parametrize(
    ("kind", "value", "like"),
    [
        (pa.int64(), np.int8(-3), -3),
        (pa.int64(), np.float32(4), 4),
        (pa.float32(), np.float64(0.5), 0.5),
        (pa.bool_(), np.bool_(True), True),
        (pa.string(), np.str_("x"), "x"),
        (pa.binary(), np.bytes_(b"x"), b"x"),
        (pa.binary(), bytearray(b"x"), b"x"),
        (pa.date32(), np.datetime64("2024-02-29"), DAY),
        (
            pa.timestamp("ms"),
            np.datetime64("2024-02-29T01:02:03"),
            dt.datetime(2024, 2, 29, 1, 2, 3),
        ),
        (
            pa.timestamp("ns"),
            pd.Timestamp("2024-02-29T01:02:03"),
            dt.datetime(2024, 2, 29, 1, 2, 3),
        ),
        (
            pa.timestamp("s", "UTC"),
            pd.Timestamp("2024-02-29T01:00", tz="Europe/Paris"),
            dt.datetime(2024, 2, 29, tzinfo=UTC),
        ),
        (pa.duration("ms"), np.timedelta64(3, "s"), dt.timedelta(seconds=3)),
        (pa.duration("ns"), pd.Timedelta(seconds=3), dt.timedelta(seconds=3)),
    ],
)
def test_encode_one_of_numpy_and_pandas(kind, value, like):
    schema = KeySchema(pa.schema([("k", kind)]))
    assert (
        schema.encode_one(value)
        == schema.encode_one(like)
        == schema.encode([pa.array([like], kind)])[0].as_py()
    )


def test_encode_one_of_uuid_and_nanoseconds():
    schema = KeySchema(pa.schema([("k", pa.uuid())]))
    value = uuid.UUID(int=7)
    assert schema.encode_one(value) == value.bytes
    nanos = KeySchema(pa.schema([("k", pa.timestamp("ns"))]))
    moment = pd.Timestamp("2024-02-29T01:02:03.000000001")
    stored = pa.array([moment.value]).view(pa.timestamp("ns"))
    assert nanos.encode_one(moment) == nanos.encode([stored])[0].as_py()
    micros = KeySchema(pa.schema([("k", pa.timestamp("us"))]))
    assert micros.encode_one(moment) is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int8(), 128),
        (pa.uint8(), -1),
        (pa.int64(), 2.5),
        (pa.int64(), math.nan),
        (pa.int64(), math.inf),
        (pa.int64(), D("1E+999999")),
        (pa.int64(), D("1E-999999")),
        (pa.float32(), 0.1),
        (pa.float64(), 2**53 + 1),
        (pa.float64(), 10**400),
        (pa.float16(), 1e9),
        (pa.decimal128(5, 2), D("0.001")),
        (pa.decimal128(5, 2), D("1000")),
        (pa.decimal128(5, 2), D("NaN")),
        (pa.string(), "\ud800"),
        (pa.binary(2), b"abc"),
        (pa.timestamp("s"), dt.datetime(2020, 1, 1, 0, 0, 0, 1)),
        (pa.int64(), None),
        (pa.timestamp("ns"), dt.datetime(9999, 1, 1)),
    ],
)
def test_encode_one_is_none_for_what_no_key_holds(kind, value):
    assert KeySchema(pa.schema([("k", kind)])).encode_one(value) is None


def test_encode_one_names_what_is_right():
    schema = KeySchema(pa.schema([("a", pa.string()), ("b", pa.int64())]))
    with pytest.raises(TypeError, match=r"found int 5, give a str"):
        schema.encode_one((5, 5))
    with pytest.raises(TypeError, match=r"'b' is int64; found str 'x', give an int"):
        schema.encode_one(("x", "x"))
    with pytest.raises(
        TypeError, match=r"is a tuple of 1 value; give a tuple of its 2 fields \(a, b\)"
    ):
        schema.encode_one(("x",))
    with pytest.raises(TypeError, match=r"the key is str 'x'; give a tuple of its 2 fields"):
        schema.encode_one("x")
    with pytest.raises(KeyError, match=r"the key has the names 'a', 'c'; its fields are 'a', 'b'"):
        schema.encode_one({"a": "x", "c": 1})
    with pytest.raises(TypeError, match="with a time zone"):
        KeySchema(pa.schema([("t", pa.timestamp("us", "UTC"))])).encode_one(dt.datetime(2020, 1, 1))
    with pytest.raises(TypeError, match="without a time zone"):
        KeySchema(pa.schema([("t", pa.timestamp("us"))])).encode_one(
            dt.datetime(2020, 1, 1, tzinfo=UTC)
        )
    with pytest.raises(TypeError, match=r"give a datetime\.date"):
        KeySchema(pa.schema([("t", pa.date32())])).encode_one("2020-01-01")
    with pytest.raises(TypeError, match="found bool True, give an int"):
        KeySchema(pa.schema([("t", pa.int8())])).encode_one(True)


# ---- Ranges ------------------------------------------------------------------------------------

RANGE_TYPES = (
    pa.int8(),
    pa.uint8(),
    pa.float16(),
    pa.float64(),
    pa.decimal128(4, 1),
    pa.string(),
    pa.binary(),
    pa.binary(2),
    pa.bool_(),
    pa.date32(),
)
BOUNDS = {
    "number": st.one_of(
        st.integers(-300, 300),
        st.integers(-3000, 3000).map(lambda n: n / 8),
        st.floats(-300, 300),
        st.sampled_from([10**400, -(10**400), math.inf, -math.inf, 70000]),
    ),
    "decimal": st.one_of(
        st.integers(-2000, 2000), st.integers(-(10**6), 10**6).map(lambda n: D(n).scaleb(-3))
    ),
    "text": st.text(alphabet="ab\0\x01é", max_size=3),
    "bytes": st.binary(max_size=3).map(lambda b: bytes(c // 64 * 85 for c in b)),
    "bool": st.booleans(),
    "date": st.dates(dt.date(2020, 1, 1), dt.date(2020, 1, 9)),
}


def bound_kind(kind):
    for test, name in (
        (pa.types.is_decimal, "decimal"),
        (pa.types.is_string, "text"),
        (pa.types.is_boolean, "bool"),
        (pa.types.is_date, "date"),
        (pa.types.is_binary, "bytes"),
        (pa.types.is_fixed_size_binary, "bytes"),
    ):
        if test(kind):
            return name
    return "number"


def range_values(kind):
    name = bound_kind(kind)
    if pa.types.is_integer(kind):
        return st.integers(*INTEGERS[kind])
    if pa.types.is_floating(kind):
        return st.integers(-3000, 3000).map(lambda n: n / 8).filter(
            lambda x: float(np.float16(x)) == x
        ) | st.sampled_from([math.inf, -math.inf])
    if pa.types.is_decimal(kind):
        return st.integers(-9999, 9999).map(lambda n: D(n).scaleb(-1))
    if pa.types.is_fixed_size_binary(kind):
        return BOUNDS["bytes"].map(lambda b: b.ljust(kind.byte_width, b"\xff")[: kind.byte_width])
    return BOUNDS[name]


def typed(value):
    """Return what Python orders as the key does: nulls first, strings by their UTF-8 bytes."""
    if value is None:
        return (0,)
    return (1, value.encode() if isinstance(value, str) else value)


def test_each_type_is_of_one_class_and_each_class_of_loops_that_c_has():
    held = {kind: [one for one in KEY_TYPES if one.holds(plain_type(kind))] for kind in TYPES}
    assert {kind: found for kind, found in held.items() if len(found) != 1} == {}
    assert {found[0] for found in held.values()} == set(KEY_TYPES)
    for kind in (pa.null(), pa.list_(pa.int8()), pa.struct([]), pa.month_day_nano_interval()):
        assert not any(one.holds(kind) for one in KEY_TYPES), kind
    assert {one.kind for one in KEY_TYPES} == set(KINDS)
    assert sorted(KINDS.values()) == list(range(len(KINDS)))


@settings(max_examples=400, deadline=None, derandomize=True)
@given(data=st.data())
def test_bounds_cut_what_a_filter_cuts(data):
    kinds = data.draw(st.lists(st.sampled_from(RANGE_TYPES), min_size=1, max_size=3))
    names = [f"k{i}" for i in range(len(kinds))]
    nullable = data.draw(st.lists(st.sampled_from(names), unique=True))
    schema = KeySchema(pa.schema(list(zip(names, kinds, strict=True))), nullable)

    def maybe(values, name):
        return st.none() | values if name in nullable else values

    row = st.tuples(*(maybe(range_values(k), n) for k, n in zip(kinds, names, strict=True)))
    rows = data.draw(st.lists(row, min_size=1, max_size=12))

    def bound():
        whole = st.tuples(
            *(maybe(BOUNDS[bound_kind(k)], n) for k, n in zip(kinds, names, strict=True))
        )
        near = st.sampled_from(rows)
        size = st.integers(1, len(kinds))
        return st.none() | st.tuples(whole | near, size).map(lambda pair: pair[0][: pair[1]])

    start, stop = data.draw(bound()), data.draw(bound())
    low, high = schema.encode_bounds(start, stop)
    for one in rows:
        key = schema.encode_one(one)
        inside = (low is None or key >= low) and (high is None or key < high)
        values = tuple(map(typed, one))
        wanted = (start is None or values >= tuple(map(typed, start))) and (
            stop is None or values < tuple(map(typed, stop))
        )
        assert inside == wanted, (one, start, stop)
    prefix = data.draw(st.sampled_from(rows))[: data.draw(st.integers(0, len(kinds)))]
    low, high = schema.encode_prefix(prefix)
    for one in rows:
        key = schema.encode_one(one)
        inside = key >= low and (high is None or key < high)
        assert inside == (one[: len(prefix)] == prefix), (one, prefix)
    texts = [i for i, kind in enumerate(kinds) if kind in (pa.string(), pa.binary(), pa.binary(3))]
    if not texts:
        return
    place = data.draw(st.sampled_from(texts))
    *prefix, whole = data.draw(st.sampled_from(rows))[: place + 1]
    if whole is None:
        return
    beginning = whole[: data.draw(st.integers(0, 4))]
    low, high = schema.encode_prefix(tuple(prefix), beginning)
    for one in rows:
        key = schema.encode_one(one)
        inside = key >= low and (high is None or key < high)
        has = one[:place] == tuple(prefix) and one[place] is not None
        assert inside == (has and one[place].startswith(beginning)), (one, prefix, beginning)


def moment(tenths: int, microseconds: int = 0) -> dt.datetime:
    return dt.datetime(2020, 1, 1) + dt.timedelta(0, tenths / 10, microseconds)


# Values of a type, and bounds that lie between them, or before or behind all.
BETWEEN = {
    pa.int32(): ([1, 2, 3, 4], [0.5, 2.5, D("2.5"), D("3.999"), 4.5, -(2.0**40), 2**40]),
    pa.uint8(): ([0, 1, 254, 255], [-0.5, 0.25, 254.5, 255.5]),
    pa.float32(): (
        [0.0, float(np.float32(0.1)), 1.0, 1 + 2.0**-23],
        [0.1, 1 + 2.0**-40, -(2.0**-200), 2**24 + 1],
    ),
    pa.decimal128(5, 1): ([D("-0.1"), D("0.0"), D("2.5"), D("2.6")], [D("-0.05"), D("2.55")]),
    pa.timestamp("s"): ([moment(10 * n) for n in range(4)], [moment(1), moment(15), moment(29)]),
    pa.timestamp("ms", "UTC"): (
        [moment(0, 1000 * n).replace(tzinfo=UTC) for n in range(3)],
        [moment(0, 1000 * n + 1).replace(tzinfo=UTC) for n in (-1, 0, 1, 2)],
    ),
    pa.time32("s"): ([dt.time(0, 0, n) for n in range(3)], [dt.time(0, 0, 1, 1), dt.time(0, 0, 9)]),
    pa.date32(): (
        [dt.datetime(2020, 1, n) for n in (1, 2, 3)],
        [dt.datetime(2020, 1, n, 12) for n in (1, 2, 3)],
    ),
    pa.duration("ms"): (
        [dt.timedelta(milliseconds=n) for n in range(-1, 2)],
        [dt.timedelta(microseconds=n) for n in (-1500, -1, 1, 999, 1001)],
    ),
    pa.binary(2): ([b"aa", b"ab", b"bb"], [b"a", b"aab", b"abz", b"b", b"\xff\xff\xff"]),
}


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("kind", BETWEEN, ids=str)
def test_a_bound_between_two_values_of_a_field_with_more_fields_behind_it(
    kind: pa.DataType, nullable: bool
) -> None:
    """(2.5, "m") comes before (3, "a"): Python's tuples, sorted, say which rows are inside."""
    values, bounds = BETWEEN[kind]
    schema = KeySchema(pa.schema([("a", kind), ("b", pa.string())]), ["a"] if nullable else [])
    rows = sorted((value, text) for value in values for text in ("a", "m", "z"))
    keys = [schema.encode_one(row) for row in rows]
    assert keys == sorted(keys)
    for first in [*bounds, *values]:
        for bound in [(first,), *((first, text) for text in ("", "a", "m", "mm", "zz"))]:
            for name, wanted in (
                ("start", [row for row in rows if row >= bound]),
                ("stop", [row for row in rows if row < bound]),
            ):
                given = (bound, None) if name == "start" else (None, bound)
                low, high = schema.encode_bounds(*given)
                found = [
                    row
                    for row, key in zip(rows, keys, strict=True)
                    if (low is None or key >= low) and (high is None or key < high)
                ]
                assert found == wanted, (name, bound)


def test_bounds_and_prefixes_of_the_impossible():
    schema = KeySchema(pa.schema([("a", pa.int8()), ("b", pa.string())]))
    assert schema.encode_prefix((300,)) is None
    assert schema.encode_prefix((None, "x")) is None
    fixed = KeySchema(pa.schema([("a", pa.binary(3)), ("b", pa.binary(3))]))
    assert fixed.encode_prefix((b"abc",), b"xy") == (b"abcxy", b"abcxz")
    assert fixed.encode_prefix((b"abc",), b"wxyz") is None
    assert fixed.encode_prefix((b"ab",)) is None
    assert fixed.encode_prefix((b"abc", b"xy")) is None
    assert fixed.encode_prefix((), b"ab") == (b"ab", b"ac")
    with pytest.raises(TypeError, match=r"starts_with: the key field 'a' is int8, and only text"):
        schema.encode_prefix((), "x")
    with pytest.raises(ValueError, match=r"leave the last one out of prefix"):
        schema.encode_prefix((1, "x"), "y")
    for bad in (["x"], {"a": 1}):
        refused = r"is not a key; give a tuple .*: \(a, b\)"
        with pytest.raises(TypeError, match=refused):
            schema.encode_prefix(bad)
        with pytest.raises(TypeError, match=refused):
            schema.encode_bounds(bad, None)
        with pytest.raises(TypeError, match=refused):
            schema.encode_bounds(None, bad)
    assert fixed.encode_one((b"abc", b"xy")) is None
    assert schema.encode_bounds(1000, None) == (b"", b"")
    assert schema.encode_bounds(-1000, 1000) == (b"\0", None)
    assert schema.encode_bounds(None, None) == (None, None)
    with pytest.raises(TypeError, match=r"stop has 3 values; the key has 2 \(a, b\)"):
        schema.encode_bounds(None, (1, "x", 2))
    with pytest.raises(ValueError, match=r"start\[1\] is None, but .* 'b' is not nullable"):
        schema.encode_bounds((1, None), None)
    with pytest.raises(TypeError, match="'a' is int8; found str 'x', give an int"):
        schema.encode_bounds("x", None)
    with pytest.raises(ValueError, match="not UTF-8"):
        schema.encode_bounds((1, "\ud800"), None)


# ---- The schema itself ---------------------------------------------------------------------------


def test_schema_describes_itself():
    schema = KeySchema(
        pa.schema(
            [("a", pa.dictionary(pa.int8(), pa.string())), ("b", pa.timestamp("us", "UTC"))],
            metadata={"k": "v"},
        ),
        nullable=["b"],
    )
    assert schema.names == ["a", "b"]
    assert schema.nullable == ("b",)
    assert schema.width is None
    described = json.loads(json.dumps(schema.to_json()))
    assert described["fields"][1] == {
        "name": "b",
        "type": "timestamp[us, tz=UTC]",
        "nullable": True,
    }
    for copy in (KeySchema.from_json(described), pickle.loads(pickle.dumps(schema))):
        assert copy == schema
        assert hash(copy) == hash(schema)
        assert copy.schema.equals(schema.schema, check_metadata=True)
    assert schema != KeySchema(schema.schema)
    assert schema != "schema"
    assert repr(schema).startswith("KeySchema(a: dictionary<")
    assert repr(schema).endswith("b: timestamp[us, tz=UTC] or null)")
    assert KeySchema(pa.schema([("a", pa.int64()), ("b", pa.binary(3))])).width == 11
    for bad in ({}, {"schema": "!!", "fields": []}, {"schema": "aGVsbG8=", "fields": []}):
        with pytest.raises(FormatError, match="not the description of a key schema"):
            KeySchema.from_json(bad)


@pytest.mark.parametrize(
    ("schema", "nullable", "error", "match"),
    [
        (pa.schema([]), (), ValueError, "no fields"),
        (pa.schema([("a", pa.int8()), ("a", pa.int8())]), (), ValueError, "'a' twice"),
        (pa.schema([("a", pa.int8())]), ["b"], ValueError, r"'b', which is not a key field \(a\)"),
        (pa.schema([("a", pa.int8())]), "a", TypeError, "nullable is the string 'a'"),
        (pa.schema([pa.field("a", pa.int8(), nullable=False)]), ["a"], ValueError, "as not null"),
        (pa.schema([("a", pa.list_(pa.int8()))]), (), TypeError, "'a' is list<.*cannot be a key"),
        (pa.schema([("a", pa.month_day_nano_interval())]), (), TypeError, "'a' is month_day"),
        (pa.schema([("a", pa.null())]), (), TypeError, "'a' is null"),
        (
            pa.schema([("a", pa.dictionary(pa.int8(), pa.decimal32(3, 1)))]),
            (),
            TypeError,
            "is dict",
        ),
    ],
)
def test_bad_schemas(schema, nullable, error, match):
    with pytest.raises(error, match=match):
        KeySchema(schema, nullable)


def test_bad_columns():
    schema = KeySchema(pa.schema([("a", pa.int8()), ("b", pa.int8())]))
    one = pa.array([1], pa.int8())
    with pytest.raises(TypeError, match=r"keys: 1 columns; give 2 \(a, b\)"):
        schema.encode([one])
    with pytest.raises(ValueError, match="'b' has 2 values, 'a' has 1"):
        schema.encode([one, pa.array([1, 2], pa.int8())])
    with pytest.raises(TypeError, match="'b' is list; give an Arrow array"):
        schema.encode([one, [1]])
    with pytest.raises(KeyError, match="no single column 'b' among 'a', 'c'"):
        schema.encode(pa.table({"a": one, "c": one}))
    column = pa.chunked_array([[1, 2], [3, None]], pa.int8())
    with pytest.raises(ValueError, match=r"'b' is null in row 4; name it in nullable="):
        schema.encode([column.fill_null(0), column])


def test_bucket_is_xxh64_of_the_key():
    rng = random.Random(5)
    keys = [rng.randbytes(rng.randrange(40)) for _ in range(500)]
    for buckets in (1, 7, 64, 2**32 - 1):
        found = bucket_of(pa.array(keys), buckets)
        assert found.dtype == np.uint32
        assert found.tolist() == [xxhash.xxh64_intdigest(key) % buckets for key in keys]
    assert bucket_of(pa.array(keys).slice(3), 7).tolist() == bucket_of(keys[3:], 7).tolist()
    assert bucket_of(pa.array([None, b"x"]), 1000)[0] == 0
    assert bucket_of([], 3).tolist() == []
    for buckets in (0, -1, 2**32):
        with pytest.raises(ValueError, match=f"buckets is {buckets}"):
            bucket_of(keys, buckets)
        with pytest.raises(ValueError, match=f"buckets is {buckets}"):
            by_bucket(keys, buckets)


@pytest.mark.parametrize("count", [0, 1, 500])
@pytest.mark.parametrize("buckets", [1, 2, 7, 1000])
def test_positions_by_bucket(count, buckets):
    rng = random.Random(count)
    given = [None if i % 11 == 3 else rng.randbytes(rng.randrange(40)) for i in range(count)]
    keys = pa.array(given, pa.binary())
    held = bucket_of(keys, buckets)
    positions, starts = by_bucket(keys, buckets)
    assert positions.dtype == np.uint32
    assert positions.tolist() == np.argsort(held, kind="stable").tolist()
    assert starts.tolist() == np.searchsorted(np.sort(held), np.arange(buckets + 1)).tolist()
