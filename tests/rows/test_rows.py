"""Rows: what is packed comes back in exactly its types, and bad bytes are a FormatError."""

from __future__ import annotations

import decimal
import json
import math
import pickle
import random
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lookupstore.errors import FormatError
from lookupstore.rows.schema import RowSchema

LEAVES = (
    pa.bool_(),
    *(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)),
    pa.float16(), pa.float32(), pa.float64(),
    pa.decimal32(7, 2), pa.decimal64(18, 0), pa.decimal128(38, 10), pa.decimal256(76, 30),
    pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    pa.month_day_nano_interval(),
    pa.string(), pa.large_string(), pa.string_view(),
    pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3), pa.binary(16), pa.binary(0),
    pa.null(), pa.uuid(),
    pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint32(), pa.int64(), ordered=True),
)  # fmt: skip
DEEP = pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.int32())))]))
NESTED = (
    DEEP,
    pa.list_(pa.int64()), pa.large_list(pa.string()), pa.list_view(pa.bool_()),
    pa.large_list_view(pa.string()), pa.list_(pa.null()), pa.list_(pa.struct([])),
    pa.list_(pa.field("e", pa.binary(0), nullable=False)),
    pa.list_(pa.dictionary(pa.int16(), pa.string())), pa.list_(pa.uuid()),
    pa.list_(pa.float32(), 3), pa.list_(pa.field("e", pa.float32(), nullable=False), 4),
    pa.list_(pa.string(), 2), pa.list_(pa.list_(pa.list_(pa.int8(), 1)), 2), pa.list_(pa.int8(), 0),
    pa.list_(pa.field("e", pa.struct([pa.field("s", pa.string(), nullable=False)]), False), 2),
    pa.map_(pa.int32(), pa.string()), pa.map_(pa.string(), pa.map_(pa.string(), pa.bool_())),
    pa.struct([("a", pa.int32()), ("b", pa.float64())]),
    pa.struct([("a", pa.string()), ("b", pa.struct([("c", pa.list_(pa.string_view()))]))]),
    pa.struct([pa.field("a", pa.list_(pa.int8()), nullable=False), ("n", pa.null())]),
    pa.struct([]),
)  # fmt: skip


def random_type(rng, depth):
    """Return a random type, nested at most `depth` deep; some of its fields are never null."""
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(LEAVES)

    def field(name):
        kind = random_type(rng, depth - 1)
        return pa.field(name, kind, nullable=kind == pa.null() or rng.random() < 0.7)

    way = rng.randrange(6)
    if way == 0:
        return pa.struct([field(f"f{i}") for i in range(rng.randrange(4))])
    if way == 1:
        return pa.list_(field("element"))
    if way == 2:
        return pa.large_list(field("element"))
    if way == 3:
        return pa.list_(field("element"), rng.randrange(4))
    if way == 4:
        return pa.list_view(field("element"))
    return pa.map_(
        pa.field("key", rng.choice((pa.string(), pa.int32())), nullable=False), field("v")
    )


def random_value(rng, kind, null):
    """Return a random value of the type, as pa.array takes it; None with the chance `null`."""
    types = pa.types
    if rng.random() < null:
        return None
    if types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return {f.name: random_value(rng, f.type, null * f.nullable) for f in fields}
    if types.is_map(kind):
        return [
            (random_value(rng, kind.key_type, 0),
             random_value(rng, kind.item_type, null * kind.item_field.nullable))
            for _ in range(rng.randrange(3))
        ]  # fmt: skip
    if hasattr(kind, "value_field"):
        size = kind.list_size if types.is_fixed_size_list(kind) else rng.choice((0, 1, 1, 2, 5))
        chance = null * kind.value_field.nullable
        return [random_value(rng, kind.value_type, chance) for _ in range(size)]
    if types.is_null(kind):
        return None
    if types.is_dictionary(kind):  # of few values, as many as the indices can tell apart
        return random_value(random.Random(rng.randrange(100)), kind.value_type, 0)
    if kind == pa.uuid():
        return rng.randbytes(16)
    if types.is_boolean(kind):
        return rng.random() < 0.5
    if types.is_floating(kind):
        return rng.choice((0.0, -0.0, math.inf, -1.5, float(rng.randint(-2000, 2000))))
    if types.is_decimal(kind):
        top = 10**kind.precision - 1
        number = rng.choice((top, -top, 0, rng.randint(-top, top)))
        return decimal.Decimal(number).scaleb(-kind.scale, decimal.Context(prec=100))
    if types.is_interval(kind):
        return pa.MonthDayNano(
            [rng.randint(-9, 9), rng.randint(-9, 9), rng.randint(-(2**40), 2**40)]
        )
    if types.is_fixed_size_binary(kind):
        return rng.randbytes(kind.byte_width)
    if kind in (pa.string(), pa.large_string(), pa.string_view()):
        return "".join(rng.choice("\0aé日\U0001f600") for _ in range(rng.choice((0, 1, 3, 30))))
    if types.is_binary(kind) or types.is_large_binary(kind) or kind == pa.binary_view():
        return rng.randbytes(rng.choice((0, 1, 3, 30)))
    if types.is_date64(kind):
        return rng.randint(-9000, 9000) * 86_400_000
    if types.is_integer(kind):
        bits = kind.bit_width
        least = 0 if types.is_unsigned_integer(kind) else -(2 ** (bits - 1))
        return rng.choice((least, least + 2**bits - 1, least + rng.getrandbits(bits)))
    return rng.randint(0, 80_000)


def random_array(rng, kind, size, null):
    values = [random_value(rng, kind, null) for _ in range(size)]
    return declared(pa.array(values, storage(kind)), kind)


def children_of(kind):
    if pa.types.is_struct(kind):
        return [kind.field(i) for i in range(kind.num_fields)]
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.value_field] if hasattr(kind, "value_field") else []


def storage(kind):
    """Return the type with extension types as their storage, which is all that pa.array makes."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    fields = [field.with_type(storage(field.type)) for field in children_of(kind)]
    if types.is_struct(kind):
        return pa.struct(fields)
    if types.is_map(kind):
        return pa.map_(*fields)
    if types.is_fixed_size_list(kind):
        return pa.list_(fields[0], kind.list_size)
    for test, make in (
        (types.is_list, pa.list_),
        (types.is_large_list, pa.large_list),
        (types.is_list_view, pa.list_view),
        (types.is_large_list_view, pa.large_list_view),
    ):
        if test(kind):
            return make(fields[0])
    return kind


def declared(array, kind):
    """Return an array without offset, made in the storage type, in the type itself."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, array)
    if array.type == kind:
        return array
    if pa.types.is_dictionary(kind):  # pyarrow before 26 makes int32 of uint32 indices
        indices = array.indices.cast(kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, array.dictionary, ordered=kind.ordered)
    if pa.types.is_struct(kind):
        children = [declared(array.field(i), f.type) for i, f in enumerate(children_of(kind))]
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:1], children=children)
    if pa.types.is_map(kind):
        entries = pa.struct(children_of(kind))
        children = [declared(array.values, entries)]
    else:
        children = [declared(array.values, kind.value_type)]
    views = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    count = 3 if views else 1 if pa.types.is_fixed_size_list(kind) else 2
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:count], children=children)


def random_batch(rng, fields, size, null):
    """Return a random batch, its arrays with an offset in memory half of the time."""
    arrays = []
    for field in fields:
        skip = rng.choice((0, 0, 1, 9))
        array = random_array(rng, field.type, size + skip, null if field.nullable else 0)
        arrays.append(array[skip:])
    schema = pa.schema(fields, metadata={"from": "test"})
    if not arrays:
        return pa.RecordBatch.from_struct_array(
            pa.array([{}] * size, pa.struct([]))
        ).replace_schema_metadata(schema.metadata)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def assert_same(found, wanted):
    """Assert that two batches hold the same values in the same types (nullability aside)."""
    assert found.schema.names == wanted.schema.names
    assert found.num_rows == wanted.num_rows
    found.validate(full=True)
    for name in wanted.schema.names:
        assert found.schema.field(name).type == wanted.schema.field(name).type
        assert found.schema.field(name).nullable
        assert repr(found.column(name).to_pylist()) == repr(wanted.column(name).to_pylist()), name


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("kind", [*LEAVES, *NESTED], ids=str)
def test_every_type_comes_back(kind, nullable):
    rng = random.Random(f"{kind} {nullable}")
    if kind == pa.null() and not nullable:
        pytest.skip("there is no null type without nulls")
    field = pa.field("c", kind, nullable)
    for size in (0, 1, 8, 40):
        batch = random_batch(rng, [field], size, 0.3)
        rows = RowSchema(batch.schema)
        packed = rows.pack(batch)
        packed.validate(full=True)
        wanted = pa.large_binary() if rows.width is None else pa.binary(rows.width)
        assert packed.type == wanted
        assert_same(rows.unpack(packed), batch)


@pytest.mark.parametrize("number", range(120))
def test_random_schemas_come_back(number, seed_of_the_day):
    rng = random.Random(seed_of_the_day * 1000 + number)
    fields = []
    for i in range(rng.choice((0, 1, 3, 9, 17))):
        kind = random_type(rng, 4)
        nullable = kind == pa.null() or rng.random() < 0.7
        fields.append(pa.field(f"c{i}", kind, nullable, metadata={"i": str(i)}))
    batch = random_batch(rng, fields, rng.choice((0, 1, 7, 30)), rng.choice((0, 0.1, 0.5)))
    rows = RowSchema(batch.schema)
    packed = rows.pack(batch)
    unpacked = rows.unpack(packed)
    assert_same(unpacked, batch)
    assert unpacked.schema.metadata == batch.schema.metadata
    # Any columns, in any order.
    names = [f.name for f in fields if rng.random() < 0.5]
    rng.shuffle(names)
    assert_same(rows.unpack(packed, names), batch.select(names) if names else only_rows(batch))
    # Rows in any kind of binary array, with an offset, and with rows that are missing.
    start = min(3, batch.num_rows)
    for stored in (
        packed,
        packed.cast(pa.binary()),
        packed.cast(pa.binary()).cast(pa.large_binary()),
    ):
        assert_same(rows.unpack(stored[start:]), batch.slice(start))
    picks = [rng.choice((None, *range(batch.num_rows))) for _ in range(10)]
    found = rows.unpack(packed.take(pa.array(picks, pa.int64())))
    for name in batch.schema.names:
        values = batch.column(name).to_pylist()
        wanted = [None if i is None else values[i] for i in picks]
        assert repr(found.column(name).to_pylist()) == repr(wanted)


def only_rows(batch):
    return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))


def test_tables_chunks_and_other_columns():
    chunks = pa.chunked_array([["a"], [], ["bb", None]], pa.string())
    table = pa.table({"x": [1, 2, 3], "s": chunks, "other": [0, 0, 0]})
    rows = RowSchema(pa.schema([("s", pa.string()), ("x", pa.int64())]))
    packed = rows.pack(table)
    assert rows.unpack(packed).to_pydict() == {"s": ["a", "bb", None], "x": [1, 2, 3]}
    assert rows.pack(table.slice(1)).equals(packed[1:])
    assert rows.pack(table.slice(3)).to_pylist() == []
    assert rows.pack(table.schema.empty_table()).type == pa.large_binary()
    assert rows.unpack(pa.chunked_array([packed[:1], packed[1:]])).equals(rows.unpack(packed))


def test_nan_bits_and_negative_zero_survive():
    bits = [0x7FF8000000000001, 0xFFF0000000000001, 0x8000000000000000]
    batch = pa.record_batch({"f": pa.array(bits, pa.uint64()).view(pa.float64())})
    rows = RowSchema(batch.schema)
    found = rows.unpack(rows.pack(batch)).column("f")
    assert found.view(pa.uint64()).to_pylist() == bits


def test_what_lies_under_nulls_is_not_packed():
    child = pa.array(["secret", "b"])
    validity = pa.py_buffer(b"\x02")
    hidden = pa.Array.from_buffers(pa.struct([("s", pa.string())]), 2, [validity], children=[child])
    text = pa.Array.from_buffers(pa.string(), 2, [validity, *child.buffers()[1:]])
    lists = pa.Array.from_buffers(
        pa.list_(pa.string()), 2, [validity, pa.array([0, 1, 2], pa.int32()).buffers()[1]],
        children=[child],
    )  # fmt: skip
    never = pa.field("s", pa.string(), nullable=False)
    gone = pa.Array.from_buffers(pa.struct([never]), 2, [validity],
                                 children=[pa.array([None, "b"])])  # fmt: skip
    batch = pa.record_batch({"h": hidden, "t": text, "l": lists, "g": gone})
    rows = RowSchema(batch.schema)
    packed = rows.pack(batch)
    assert b"secret" not in packed[0].as_py()
    assert rows.unpack(packed).to_pylist() == [
        {"h": None, "t": None, "l": None, "g": None},
        {"h": {"s": "b"}, "t": "b", "l": ["b"], "g": {"s": "b"}},
    ]


def wrapped(rng, inner, nullable, mask):
    """Return an array of lists of one, or of structs, around each value; null where `mask` is."""
    size = len(inner)
    field = pa.field("e", inner.type, nullable)
    nulls = pa.array(mask)
    offsets = pa.array(range(size + 1), pa.int32())
    way = rng.randrange(6)
    if way == 0:
        return pa.StructArray.from_arrays([inner], fields=[field], mask=nulls)
    if way == 1:
        return pa.ListArray.from_arrays(offsets, inner, type=pa.list_(field), mask=nulls)
    if way == 2:
        return pa.FixedSizeListArray.from_arrays(inner, type=pa.list_(field, 1), mask=nulls)
    if way == 3:
        kind, ones = pa.list_view(field), pa.array([1] * size, pa.int32())
        return pa.ListViewArray.from_arrays(offsets[:-1], ones, inner, type=kind, mask=nulls)
    validity = pa.array(~mask).buffers()[1]
    if way == 4:
        entries = pa.StructArray.from_arrays(
            [pa.array(range(size)), inner],
            fields=[pa.field("key", pa.int64(), nullable=False), field],
        )
        kind = pa.map_(pa.int64(), field)
        return pa.Array.from_buffers(
            kind, size, [validity, offsets.buffers()[1]], children=[entries]
        )
    struct = pa.StructArray.from_arrays([inner], fields=[field], mask=nulls)
    return pa.ExtensionArray.from_storage(pa.opaque(struct.type, "boxed", "test"), struct)


def test_nulls_in_what_is_never_null_are_allowed_below_a_null_parent(seed):
    rng = random.Random(seed)
    refused = packed = 0
    for _ in range(300):
        size = rng.choice((1, 2, 9, 30))
        leaf = [rng.choice((None, "", "a", "bc")) for _ in range(size)]
        array = pa.array(leaf, pa.string())
        if rng.random() < 0.5:  # nulls in the dictionary, which no index shows
            array = pa.DictionaryArray.from_arrays(pa.array(range(size)), array)
        nulls = np.array([value is None for value in leaf])
        wrong = np.zeros(size, bool)
        for level in range(rng.randrange(1, 5)):
            nullable = level > 0 and rng.random() < 0.5
            mask = np.array([rng.random() < 0.3 for _ in range(size)])
            if rng.random() < 0.6:
                mask |= wrong if nullable else wrong | nulls
            array = wrapped(rng, array, nullable, mask)
            wrong = (wrong if nullable else wrong | nulls) & ~mask
            nulls = mask
        skip = rng.randrange(size)
        batch = pa.record_batch({"c": array})[skip:]
        rows = RowSchema(batch.schema)
        if wrong[skip:].any():
            refused += 1
            with pytest.raises(ValueError, match="is not nullable, but null in row ") as caught:
                rows.pack(batch)
            assert wrong[skip + int(str(caught.value).split()[-1]) - 1]
        else:
            packed += 1
            assert_same(rows.unpack(rows.pack(batch)), batch)
    assert refused > 20
    assert packed > 20


def test_what_is_never_null_has_no_nulls_below_a_null_parent():
    """Parquet and Arrow's own readers refuse a null in a field that is not nullable."""
    fields = [pa.field("number", pa.int64(), False), pa.field("text", pa.string(), False)]
    kind = pa.struct([*fields, pa.field("flag", pa.bool_(), False), pa.field("maybe", pa.int8())])
    value = {"number": 1, "text": "a", "flag": True, "maybe": 2}
    batch = pa.record_batch({"s": pa.array([value, None, value], kind)})
    rows = RowSchema(batch.schema)
    found = rows.unpack(rows.pack(batch))["s"]
    assert found.to_pylist() == [value, None, value]
    assert [found.field(at).null_count for at in range(4)] == [0, 0, 0, 1]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"s": found}), sink)
    assert pq.read_table(sink.getvalue())["s"].to_pylist() == [value, None, value]


def test_a_dictionary_without_values_is_allowed_below_a_null_parent():
    """Arrow makes an index of 0 there, where the dictionary is never null, and no value for it."""
    inner = pa.field("x", pa.dictionary(pa.int8(), pa.string()), nullable=False)
    for kind in (pa.list_(inner, 2), pa.struct([inner])):
        batch = pa.record_batch({"a": pa.array([None, None], kind)})
        rows = RowSchema(batch.schema)
        assert rows.unpack(rows.pack(batch))["a"].to_pylist() == [None, None]


def test_a_null_in_a_dictionary_is_a_null():
    array = pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array([None, "a"]))
    rows = RowSchema(pa.schema([pa.field("d", array.type)]))
    batch = pa.RecordBatch.from_arrays([array], schema=rows.schema)
    assert rows.unpack(rows.pack(batch)).to_pydict() == {"d": ["a", None]}
    never = RowSchema(pa.schema([pa.field("d", array.type, nullable=False)]))
    with pytest.raises(ValueError, match="the column 'd' is not nullable, but null in row 2"):
        never.pack(batch)


def test_list_views_in_any_order():
    values = pa.array(["a", "b", "c", None])
    kind = pa.list_view(pa.string())
    views = pa.ListViewArray.from_arrays([2, 0, 1], [2, 3, 0], values)
    batch = pa.record_batch({"v": pa.concat_arrays([pa.array([None], kind), views])[1:]})
    rows = RowSchema(batch.schema)
    assert rows.unpack(rows.pack(batch)).to_pydict() == {"v": [["c", None], ["a", "b", "c"], []]}
    never = pa.list_view(pa.field("e", pa.string(), nullable=False))
    buffers = views.buffers()[:3]
    for starts, error in ((views, "null in row 1"), (views[1:], None)):
        forced = pa.Array.from_buffers(
            never, len(starts), buffers, 0, starts.offset, children=[values]
        )
        batch = pa.record_batch({"v": forced})
        if error is None:
            packed = RowSchema(batch.schema).pack(batch)
            assert RowSchema(batch.schema).unpack(packed).to_pydict() == {
                "v": [["a", "b", "c"], []]
            }
        else:
            with pytest.raises(ValueError, match=rf"column 'v\.e' is not nullable, but {error}"):
                RowSchema(batch.schema).pack(batch)


def test_exact_bytes():
    schema = pa.schema(
        [
            ("i", pa.int16()),
            ("s", pa.string()),
            ("b", pa.bool_()),
            ("l", pa.list_(pa.field("e", pa.string(), nullable=False))),
            ("p", pa.struct([pa.field("x", pa.uint8(), nullable=False)])),
        ]
    )
    batch = pa.RecordBatch.from_pylist(
        [{"i": -2, "s": "ab", "b": True, "l": ["x", ""], "p": {"x": 9}},
         {"i": None, "s": None, "b": None, "l": [], "p": None}],
        schema=schema,
    )  # fmt: skip
    first = bytes.fromhex(
        "00"  # no nulls
        "feff"  # i
        "02000000"  # s ends at 2
        "01"  # b
        "17000000"  # l ends at 23
        "09"  # p: a row of one byte
        "6162"  # s
        "02000000" "05000000" "09000000"  # l: two elements, which end at 5 and 9
        "01000000" "78"  # a row whose string ends at 1
        "00000000"  # a row whose string is empty
    )  # fmt: skip
    second = bytes.fromhex("17" "0000" "00000000" "00" "04000000" "00" "00000000")  # fmt: skip
    rows = RowSchema(schema)
    assert rows.pack(batch).to_pylist() == [first, second]
    assert rows.unpack(pa.array([first, second])).equals(batch)
    never = RowSchema(pa.schema([pa.field("i", pa.int32(), nullable=False)]))
    assert never.width == 4
    assert RowSchema(pa.schema([])).width == 0


# ---- Bad bytes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(150))
def test_mutated_rows_decode_or_raise(number, seed_of_the_day):
    rng = random.Random(seed_of_the_day * 1000 + number)
    fields = [pa.field(f"c{i}", random_type(rng, 3)) for i in range(rng.randint(1, 4))]
    fields.append(pa.field("d", rng.choice(NESTED)))
    batch = random_batch(rng, fields, 4, 0.1)
    rows = RowSchema(batch.schema)
    stored = rows.pack(batch).to_pylist()
    for _ in range(15):
        mutated = list(stored)
        at = rng.choice((len(stored) - 1, rng.randrange(len(stored))))
        mutated[at] = mutate(rng, mutated[at])
        bad = None
        try:
            rows.unpack(exact(mutated)).validate()
        except FormatError as error:
            bad = str(error)
        assert bad is None or bad.startswith(f"row {at}: its bytes do not fit "), (bad, at)


def exact(values):
    """Return an array whose data ends with the last value: what is read behind it, ASan sees."""
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.frombuffer(b"".join(values), np.uint8))]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


def mutate(rng, stored):
    """Return the bytes with a bit flipped, cut short, made longer, or with a wild number."""
    stored = bytearray(stored)
    way = rng.randrange(5)
    if way == 0 and stored:
        stored[rng.randrange(len(stored))] ^= 1 << rng.randrange(8)
    elif way == 1 and stored:
        del stored[rng.randrange(len(stored)) :]
    elif way in (2, 3) and len(stored) >= 4:
        at = rng.randrange(len(stored) - 3)
        (number,) = struct.unpack_from("<I", stored, at)
        wild = rng.choice((2**32 - 1, 2**31, 2**31 - 1, 0, (number + 1) % 2**32, number ^ 0x10))
        struct.pack_into("<I", stored, at, wild)
    else:
        stored += rng.randbytes(rng.randint(1, 5))
    return bytes(stored)


@pytest.mark.parametrize("kind", [
    pa.list_(pa.null()), pa.list_(pa.struct([])), pa.large_list(pa.binary(0)),
    pa.list_(pa.field("e", pa.struct([]), nullable=False)),
    pa.list_(pa.field("e", pa.binary(0), nullable=False)),
    pa.list_(pa.int8()), pa.list_(pa.string()), pa.map_(pa.string(), pa.null()),
    pa.list_view(pa.string()),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("count", [1, 2**16, 2**31 - 1, 2**31, 2**32 - 1])
def test_a_wild_count_takes_no_memory(kind, count):
    rows = RowSchema(pa.schema([pa.field("c", kind, nullable=False)]))
    stored = struct.pack("<II", 4, count)
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(FormatError, match="row 0: its bytes do not fit the column 'c'"):
        rows.unpack(pa.array([stored]))
    assert pa.default_memory_pool().max_memory() - before < 2**20


def test_bad_rows_name_the_column_and_row():
    schema = pa.schema(
        [("i", pa.int32()), ("s", pa.string()), ("t", pa.string()), ("b", pa.bool_())]
    )
    rows = RowSchema(schema)
    good = bytes.fromhex("00 07000000 01000000 02000000 01") + b"xy"
    assert rows.unpack(pa.array([good])).to_pylist() == [{"i": 7, "s": "x", "t": "y", "b": True}]
    for bad, match in (
        (good[:-1], r"row 1: its bytes do not fit the schema \(i, s, t, b\)"),
        (good + b"z", r"row 1: its bytes do not fit the schema"),
        (b"", r"row 1: its bytes do not fit the schema"),
        (good.replace(b"\1\0\0\0\2", b"\3\0\0\0\2"), r"row 1: its bytes do not fit the column 's'"),
        (good.replace(b"\2\0\0\0\1xy", b"\2\0\0\0\2xy"), r"row 1: .* the column 'b': a bool is 2"),
        (good.replace(b"y", b"\xff"), r"row 1: .* the column 't': .*UTF8"),
    ):
        with pytest.raises(FormatError, match=match):
            rows.unpack(pa.array([good, bad]))
    # A column that is not asked for is not looked at.
    assert rows.unpack(pa.array([good.replace(b"y", b"\xff")]), ["s"]).to_pylist() == [{"s": "x"}]
    deep = RowSchema(pa.schema([("d", DEEP)]))
    batch = pa.RecordBatch.from_pylist(
        [{"d": [None, {"m": [("a", [1])]}]}, {"d": [{"m": [("b", []), ("\0c", [7])]}]}],
        schema=deep.schema,
    )
    stored = deep.pack(batch).to_pylist()
    stored[1] = stored[1].replace(b"\0c", b"\0\xfe")
    with pytest.raises(FormatError, match=r"row 1: .* the column 'd\.[a-z]+\.m\.key': .*UTF8"):
        deep.unpack(pa.array(stored))


# ---- Errors and the schema itself ----------------------------------------------------------------


def test_wrong_arguments():
    rows = RowSchema(pa.schema([("a", pa.int32()), pa.field("b", pa.string(), nullable=False)]))
    with pytest.raises(TypeError, match="the column 'a' is int64; in the schema it is int32"):
        rows.pack(pa.table({"a": [1], "b": ["x"]}))
    with pytest.raises(KeyError, match="no single column 'b' among 'a'"):
        rows.pack(pa.table({"a": pa.array([1], pa.int32())}))
    chunks = pa.chunked_array([["x", "y"], ["z", None]])
    table = pa.table({"a": pa.array([1, 2, 3, 4], pa.int32()), "b": chunks})
    with pytest.raises(ValueError, match="the column 'b' is not nullable, but null in row 4"):
        rows.pack(table)
    packed = rows.pack(table.slice(0, 3))
    with pytest.raises(KeyError, match="no column 'c'; the columns are 'a', 'b'"):
        rows.unpack(packed, ["a", "c"])
    with pytest.raises(TypeError, match="columns is the string 'a'"):
        rows.unpack(packed, "a")
    with pytest.raises(TypeError, match="rows has the Arrow type int64"):
        rows.unpack(pa.array([1]))
    nested = pa.struct([pa.field("x", pa.list_(pa.field("e", pa.int8(), nullable=False)))])
    inner = pa.array([{"x": [1]}, {"x": [2, None]}], pa.struct([("x", pa.list_(pa.int8()))]))
    lists = inner.field(0)
    forced = pa.Array.from_buffers(nested.field(0).type, 2, lists.buffers()[:2],
                                   children=[lists.values])  # fmt: skip
    batch = pa.record_batch({"s": pa.StructArray.from_arrays([forced], fields=[nested.field(0)])})
    with pytest.raises(
        ValueError, match=r"the column 's\.x\.e' is not nullable, but null in row 2"
    ):
        RowSchema(batch.schema).pack(batch)


@pytest.mark.parametrize("kind", [
    pa.dense_union([pa.field("a", pa.int8())]), pa.sparse_union([pa.field("a", pa.int8())]),
    pa.run_end_encoded(pa.int32(), pa.int8()), pa.dictionary(pa.int8(), pa.decimal32(3, 1)),
], ids=str)  # fmt: skip
def test_types_that_rows_cannot_hold(kind):
    with pytest.raises(TypeError, match=r"the column 'c' is .*, which a value column cannot have"):
        RowSchema(pa.schema([("c", kind)]))
    with pytest.raises(TypeError, match=r"the column 'x' is .*, which a value column cannot have"):
        RowSchema(pa.schema([("c", pa.list_(pa.struct([("x", kind)])))]))


def test_a_dictionary_that_overflows_says_so():
    kind = pa.dictionary(pa.int8(), pa.int64())
    rows = RowSchema(pa.schema([("c", kind)]))
    parts = [
        rows.pack(pa.record_batch({"c": pa.array(range(start, start + 100), kind)}))
        for start in (0, 100)
    ]
    with pytest.raises(ValueError, match="200 different values in 200 rows are more than a int8"):
        rows.unpack(pa.concat_arrays(parts))


def test_schema_describes_itself():
    schema = pa.schema([("a", DEEP), ("b", pa.timestamp("us", "UTC"))], metadata={"k": "v"})
    rows = RowSchema(schema)
    described = json.loads(json.dumps(rows.to_json()))
    assert described["fields"][1] == {
        "name": "b", "type": "timestamp[us, tz=UTC]", "nullable": True
    }  # fmt: skip
    for copy in (RowSchema.from_json(described), pickle.loads(pickle.dumps(rows))):
        assert copy == rows
        assert hash(copy) == hash(rows)
        assert copy.schema.equals(schema, check_metadata=True)
    assert rows != RowSchema(pa.schema([("a", DEEP)]))
    assert rows != "rows"
    assert repr(RowSchema(pa.schema([("a", pa.int8())]))) == "RowSchema(a: int8)"
    assert RowSchema(pa.schema([("a", pa.int8()), ("b", pa.list_(pa.int16(), 2))])).width == 8
    with pytest.raises(ValueError, match="'a' twice"):
        RowSchema(pa.schema([("a", pa.int8()), ("a", pa.int8())]))
    for bad in ({}, {"schema": "!!"}, {"schema": "aGVsbG8="}):
        with pytest.raises(FormatError, match="not the description of a row schema"):
            RowSchema.from_json(bad)
