"""Single rows without Arrow: the decoder in C gives what `as_py` gives of columns.

Values change each day; LOOKUPSTORE_TEST_SEED=N repeats a run that printed N.
"""

from __future__ import annotations

import datetime as dt
import decimal
import random

import numpy as np
import pyarrow as pa
import pytest
from support.random_columns import Wrapped

from lookupstore.errors import FormatError
from lookupstore.rows.schema import RowSchema

#: Types of values that are decoded in C.
PLAIN = (
    pa.null(), pa.bool_(),
    *(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)),
    pa.float16(), pa.float32(), pa.float64(),
    pa.decimal32(7, 2), pa.decimal64(18, 0), pa.decimal128(38, 10), pa.decimal128(5, -2),
    pa.decimal256(76, 30),
    pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"),
    pa.time64("ns"), *(pa.duration(u) for u in ("s", "ms", "us", "ns")),
    pa.month_day_nano_interval(),
    *(pa.timestamp(u, zone) for u in ("s", "ms", "us", "ns") for zone in (None, "UTC",
    "Asia/Kathmandu", "America/New_York")),
    pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()),
    pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3), pa.binary(0),
    pa.uuid(), pa.bool8(), pa.json_(), Wrapped(pa.date32()),
    pa.fixed_shape_tensor(pa.int8(), [3]), pa.opaque(pa.string(), "a", "b"),
)  # fmt: skip


def nested(inner, other):
    """Return each kind of nested type of a type; structs have another field."""
    return (
        pa.list_(inner), pa.large_list(inner), pa.list_view(inner), pa.large_list_view(inner),
        pa.list_(inner, 2), pa.list_(inner, 0), pa.struct([("a", inner), ("b", other)]),
        pa.struct([pa.field("a", inner, nullable=pa.types.is_null(inner)), ("b", other)]),
        pa.map_(pa.string(), inner), pa.map_(pa.int16(), pa.list_(inner)),
        pa.list_(pa.field("item", inner, nullable=pa.types.is_null(inner))),
        Wrapped(pa.list_(inner)),
    )  # fmt: skip


DIRECT = (
    *PLAIN,
    *nested(pa.int64(), pa.string()),
    *nested(pa.string(), pa.int8()),
    *nested(pa.null(), pa.null()),
    pa.struct([]),
    pa.list_(pa.struct([])),
    pa.struct([(f"f{i}", pa.int8()) for i in range(20)]),
)


class Shout(pa.ExtensionScalar):
    """A value of a type that knows what it is in Python."""

    def as_py(self, **_):
        """Return the text in capitals."""
        return None if self.value is None else self.value.as_py().upper()


class Loud(pa.ExtensionType):
    """Texts that are read in capitals."""

    def __init__(self):
        super().__init__(pa.string(), "lookupstore.tests.loud")

    def __arrow_ext_serialize__(self):
        """Return nothing."""
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        """Return the type."""
        return cls()

    def __arrow_ext_scalar_class__(self):
        """Return what values are."""
        return Shout


BY_ARROW = (
    Loud(), pa.list_(Loud()), pa.struct([("a", pa.list_(Loud()))]), pa.map_(pa.string(), Loud()),
)  # fmt: skip


def random_type(rng, depth):
    """Return a type that is nested so deep at most."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(PLAIN)
    return rng.choice(nested(random_type(rng, depth - 1), random_type(rng, 0)))


def random_value(rng, kind):
    """Return a value of the type as `pa.array` takes it."""
    types = pa.types
    if types.is_null(kind) or rng.random() < 0.15:
        return None
    if isinstance(kind, pa.BaseExtensionType):
        return default(rng, kind.storage_type)
    if types.is_struct(kind):
        return {one.name: inner_value(rng, one) for one in kind}
    if types.is_map(kind):
        keys = [default(rng, kind.key_type) for _ in range(rng.randrange(3))]
        return [(key, inner_value(rng, kind.item_field)) for key in keys]
    if types.is_nested(kind):
        fixed = types.is_fixed_size_list(kind)
        count = kind.list_size if fixed else rng.randrange(4)
        return [inner_value(rng, kind.value_field) for _ in range(count)]
    if types.is_boolean(kind):
        return rng.random() < 0.5
    if types.is_integer(kind):
        signed = types.is_signed_integer(kind)
        return rng.getrandbits(kind.bit_width) - (2 ** (kind.bit_width - 1) if signed else 0)
    if types.is_floating(kind):
        return float(rng.choice([0.0, -0.0, 1.5, float("inf"), rng.randrange(-9, 9)]))
    if types.is_decimal(kind):
        digits = rng.randrange(-(10**kind.precision) + 1, 10**kind.precision)
        digits //= 10 ** rng.randrange(kind.precision)
        with decimal.localcontext() as context:
            context.prec = 90
            return decimal.Decimal(digits).scaleb(-kind.scale)
    if types.is_date(kind):
        return dt.date.fromordinal(rng.randrange(1, dt.date.max.toordinal() + 1))
    if types.is_time(kind):
        micros = {"s": 0, "ms": 7000}.get(kind.unit, 123_456)
        return dt.time(rng.randrange(24), rng.randrange(60), rng.randrange(60), micros)
    if types.is_duration(kind):
        millis = 0 if kind.unit == "s" else rng.randrange(1000)
        return dt.timedelta(rng.randrange(-9, 9), rng.randrange(86_400), 0, millis)
    if types.is_timestamp(kind):
        span = dt.timedelta(rng.randrange(80_000), rng.randrange(86_400), rng.randrange(10**6))
        fine = (dt.datetime(1890, 1, 1) + span).replace(tzinfo=kind.tz and dt.timezone.utc)
        return {"s": fine.replace(microsecond=0), "ms": fine.replace(microsecond=5000)}.get(
            kind.unit, fine
        )
    if kind == pa.month_day_nano_interval():
        return pa.MonthDayNano([rng.randrange(-9, 9), 2, rng.randrange(-(2**40), 2**40)])
    if types.is_fixed_size_binary(kind):
        return rng.randbytes(kind.byte_width)
    if "string" in str(kind):
        return "".join(rng.choices("aZ\0é€\U0001f600", k=rng.randrange(9)))
    return rng.randbytes(rng.randrange(9))


def array_of(values, kind):
    """Return an array, which `pa.array` does not make of extension types inside others."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, array_of(values, kind.storage_type))
    if not pa.types.is_nested(kind):
        return pa.array(values, kind)
    buffers = [pa.array([value is not None for value in values], pa.bool_()).buffers()[1]]
    if pa.types.is_struct(kind):
        children = [
            array_of([None if value is None else value[one.name] for value in values], one.type)
            for one in kind
        ]
        return pa.Array.from_buffers(kind, len(values), buffers, children=children)
    is_fixed = pa.types.is_fixed_size_list(kind)
    is_view = str(kind).startswith(("list_view", "large_list_view"))
    gone = [None] * kind.list_size if is_fixed else []
    lists = [gone if value is None else value for value in values]
    items = [item for one in lists for item in one]
    if not is_fixed:
        width = np.int64 if str(kind).startswith("large") else np.int32
        ends = np.cumsum([0, *map(len, lists)], dtype=width)
        buffers.append(pa.py_buffer(ends))
        buffers += [pa.py_buffer(np.diff(ends))] if is_view else []
    if pa.types.is_map(kind):
        parts = [array_of([item[i] for item in items], kind.field(0).type[i].type) for i in (0, 1)]
        entries = kind.field(0).type
        child = pa.Array.from_buffers(entries, len(items), [None], children=parts)
    else:
        child = array_of(items, kind.value_type)
    return pa.Array.from_buffers(kind, len(values), buffers, children=[child])


def random_rows(rng, kinds, count):
    """Return a batch of columns of some types, some of which are never null."""
    fields, arrays = [], []
    for i, kind in enumerate(kinds):
        nullable = pa.types.is_null(kind) or rng.random() < 0.7
        values = [random_value(rng, kind) for _ in range(count)]
        if not nullable:
            values = [(v if v is not None else default(rng, kind)) for v in values]
        fields.append(pa.field(f"c{i}", kind, nullable))
        arrays.append(array_of(values, kind))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def inner_value(rng, field):
    """Return a value of a field that is in another."""
    return random_value(rng, field.type) if field.nullable else default(rng, field.type)


def default(rng, kind):
    """Return a value that is not null."""
    while (value := random_value(rng, kind)) is None:
        continue
    return value


def exactly(row):
    """Return a row such that only those of the same types and bits are equal."""
    return [(name, type(value), repr(value)) for name, value in row.items()]


def test_rows_are_what_arrow_makes_of_their_columns(seed_of_the_day):
    rng = random.Random(seed_of_the_day)
    for _ in range(60):
        kinds = rng.choices((*DIRECT, *BY_ARROW), k=rng.randrange(1, 12))
        kinds.append(random_type(rng, 3))
        batch = random_rows(rng, kinds, 8)
        rows = RowSchema(batch.schema)
        packed = rows.pack(batch)
        columns = rng.sample(batch.schema.names, rng.randrange(len(kinds) + 1))
        decoder = rows.decoder(columns)
        assert set(decoder.others) <= {
            field.name for field in batch.schema if field.type in BY_ARROW
        }
        for expected, row in zip(batch.select(columns).to_pylist(), packed, strict=True):
            expected |= dict.fromkeys(decoder.others)
            assert exactly(decoder.decode(row.as_py())) == exactly(expected)


@pytest.mark.parametrize("kind", DIRECT, ids=str)
def test_every_type_of_c_is_decoded_there(kind, seed_of_the_day):
    rng = random.Random(seed_of_the_day)
    batch = random_rows(rng, [kind], 50)
    rows = RowSchema(batch.schema)
    decoder = rows.decoder(["c0"])
    assert decoder.others == []
    for value, row in zip(batch.column(0), rows.pack(batch), strict=True):
        assert exactly(decoder.decode(row.as_py())) == exactly({"c0": value.as_py()})


def test_values_nested_at_random_are_what_arrow_makes_of_them(seed_of_the_day):
    rng = random.Random(seed_of_the_day + 3)
    for _ in range(60):
        batch = random_rows(rng, [random_type(rng, 4)], 6)
        rows = RowSchema(batch.schema)
        decoder = rows.decoder(["c0"])
        assert decoder.others == []
        for value, row in zip(batch.column(0), rows.pack(batch), strict=True):
            assert exactly(decoder.decode(row.as_py())) == exactly({"c0": value.as_py()})


@pytest.mark.parametrize("kind", BY_ARROW, ids=str)
def test_types_with_values_of_their_own_are_left_to_arrow(kind):
    rows = RowSchema(pa.schema([("c", kind), ("d", pa.int8())]))
    arrays = [array_of([None], kind), pa.array([3], pa.int8())]
    batch = pa.RecordBatch.from_arrays(arrays, schema=rows.schema)
    decoder = rows.decoder(["d", "c"])
    assert decoder.others == ["c"]
    assert decoder.decode(rows.pack(batch)[0].as_py()) == {"d": 3, "c": None}


def test_names_that_a_dict_would_lose_are_left_to_arrow():
    twice = pa.struct([("a", pa.int8()), ("a", pa.int8())])
    same = pa.map_(pa.field("x", pa.int8(), nullable=False), pa.field("x", pa.int8()))
    rows = RowSchema(pa.schema([("s", twice), ("l", pa.list_(twice)), ("m", same)]))
    assert rows.decoder(["s", "l"]).others == ["s", "l"]
    assert rows.decoder(["m"]).others in ([], ["m"])  # Arrow may name the fields of maps itself


def test_zones_that_nobody_knows_are_left_to_arrow():
    kind = pa.timestamp("us", "Nowhere/There")
    rows = RowSchema(pa.schema([("at", kind), ("all", pa.list_(kind)), ("n", pa.int8())]))
    assert rows.decoder(rows.schema.names).others == ["at", "all"]


@pytest.mark.parametrize("wrap", [pa.list_, lambda kind: pa.struct([("a", kind)])])
def test_the_deepest_type_is_decoded(wrap):
    kind, value = pa.int8(), 7
    for _ in range(100):
        kind = wrap(kind)
        value = [value] if pa.types.is_list(kind) else {"a": value}
    rows = RowSchema(pa.schema([("c", kind)]))
    batch = pa.RecordBatch.from_arrays([pa.array([value], kind)], schema=rows.schema)
    assert rows.decoder(["c"]).decode(rows.pack(batch)[0].as_py()) == {"c": value}


def test_lists_larger_than_any_row_are_left_to_arrow():
    kind = pa.int64()
    for _ in range(4):
        kind = pa.list_(kind, 2**31 - 1)
    rows = RowSchema(pa.schema([("c", pa.list_(kind)), ("n", pa.int8())]))
    assert rows.decoder(["c", "n"]).others == ["c"]


def test_counts_beyond_the_bytes_of_a_list_are_refused():
    for kind, value in ((pa.int64(), 7), (pa.string(), "seven"), (pa.null(), None)):
        rows = RowSchema(pa.schema([("c", pa.list_(kind))]))
        batch = pa.RecordBatch.from_pylist([{"c": [value, value]}], schema=rows.schema)
        good = rows.pack(batch)[0].as_py()
        at = good.index(b"\2\0\0\0", 5)
        decoder = rows.decoder(["c"])
        assert decoder.decode(good) == {"c": [value, value]}
        for count in (0, 1, 3, 2**16, 2**31, 2**32 - 1):
            bad = good[:at] + count.to_bytes(4, "little") + good[at + 4 :]
            assert decoder.decode(bad) is None


def test_damaged_nested_rows_are_refused_or_read_as_arrow_reads_them(seed_of_the_day):
    rng = random.Random(seed_of_the_day + 4)
    refused = read = 0
    for _ in range(150):
        batch = random_rows(rng, [random_type(rng, 3), pa.int8()], 4)
        rows = RowSchema(batch.schema)
        decoder = rows.decoder(["c0"])
        is_fixed = "fixed_size_list" in str(batch.schema.field("c0").type)
        for row in rows.pack(batch):
            bad = bytearray(row.as_py())
            for _ in range(rng.randrange(1, 3)):
                if bad and rng.random() < 0.8:
                    bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
                else:
                    bad = bad[: rng.randrange(len(bad) + 1)] + rng.randbytes(rng.randrange(3))
            found = decoder.decode(bytes(bad))
            try:
                columns = rows.unpack(pa.array([bytes(bad)], pa.large_binary()), ["c0"])
            except FormatError:
                refused += 1
                # Arrow also looks at what is under the nulls of fixed lists.
                assert found is None or is_fixed
                continue
            except ValueError:  # more values than fit into a dictionary
                continue
            if found is not None:
                read += 1
                assert exactly(found) == exactly({"c0": columns.column(0)[0].as_py()})
    assert refused > 50
    assert read > 50


def test_damaged_rows_are_left_to_who_says_what_is_wrong(seed_of_the_day):
    rng = random.Random(seed_of_the_day + 2)
    refused = 0
    for _ in range(300):
        kinds = rng.choices(DIRECT, k=rng.randrange(1, 6))
        batch = random_rows(rng, kinds, 4)
        rows = RowSchema(batch.schema)
        names = rng.sample(batch.schema.names, rng.randrange(1, len(kinds) + 1))
        decoder = rows.decoder(names)
        for row in rows.pack(batch):
            bad = bytearray(row.as_py())
            for _ in range(rng.randrange(1, 3)):
                if bad and rng.random() < 0.8:
                    bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
                else:
                    bad = bad[: rng.randrange(len(bad) + 1)] + rng.randbytes(rng.randrange(3))
            found = decoder.decode(bytes(bad))
            try:
                columns = rows.unpack(pa.array([bytes(bad)], pa.large_binary()), names)
            except FormatError:
                refused += 1
                assert found is None
                continue
            if found is not None:
                expected = {name: columns.column(name)[0].as_py() for name in columns.schema.names}
                assert exactly(found) == exactly(expected)
    assert refused > 50


def test_values_beyond_pythons_are_left_to_arrow():
    schema = pa.schema([("day", pa.date32()), ("at", pa.timestamp("s")), ("ms", pa.date64())])
    rows = RowSchema(schema)
    for day, at, ms in (
        (3_000_000, 0, 0),
        (-800_000, 0, 0),
        (0, 2**60, 0),
        (0, -(2**60), 0),
        (0, 0, 1),
    ):
        arrays = [
            pa.array([day], pa.int32()).view(pa.date32()),
            pa.array([at]).view(pa.timestamp("s")),
            pa.array([ms]).view(pa.date64()),
        ]
        packed = rows.pack(pa.RecordBatch.from_arrays(arrays, schema=schema))
        assert rows.decoder(schema.names).decode(packed[0].as_py()) is None
