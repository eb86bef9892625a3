"""Single rows without Arrow: the decoder in C gives what `as_py` gives of columns.

Values change each day; LOOKUPSTORE_TEST_SEED=N repeats a run that printed N.
"""

from __future__ import annotations

import datetime as dt
import decimal
import random

import pyarrow as pa
import pytest

from lookupstore.errors import FormatError
from lookupstore.rows.schema import RowSchema

#: Types that are decoded in C, with what one value of each is in Arrow's integers or as it is.
DIRECT = (
    pa.null(), pa.bool_(),
    *(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)),
    pa.float32(), pa.float64(),
    pa.decimal32(7, 2), pa.decimal64(18, 0), pa.decimal128(38, 10), pa.decimal128(5, -2),
    pa.decimal256(76, 30),
    pa.date32(), pa.date64(),
    *(pa.timestamp(u, zone) for u in ("s", "ms", "us") for zone in (None, "UTC", "Asia/Kathmandu",
    "America/New_York")),
    pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()),
    pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3), pa.binary(0),
)  # fmt: skip
BY_ARROW = (
    pa.float16(), pa.timestamp("ns"), pa.time32("s"), pa.time64("us"), pa.duration("us"), pa.uuid(),
    pa.list_(pa.int64()), pa.struct([("a", pa.int8())]), pa.month_day_nano_interval(),
)  # fmt: skip


def random_value(rng, kind):
    """Return a value of the type as `pa.array` takes it."""
    types = pa.types
    if types.is_null(kind) or rng.random() < 0.15:
        return None
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
        return dt.time(rng.randrange(24), rng.randrange(60))
    if types.is_duration(kind):
        return dt.timedelta(rng.randrange(-9, 9), rng.randrange(9))
    if types.is_timestamp(kind):
        span = dt.timedelta(rng.randrange(80_000), rng.randrange(86_400), rng.randrange(10**6))
        fine = (dt.datetime(1890, 1, 1) + span).replace(tzinfo=kind.tz and dt.timezone.utc)
        return {"s": fine.replace(microsecond=0), "ms": fine.replace(microsecond=5000)}.get(
            kind.unit, fine
        )
    if types.is_list(kind):
        return rng.choices(range(9), k=rng.randrange(3))
    if types.is_struct(kind):
        return {"a": rng.randrange(9)}
    if kind == pa.month_day_nano_interval():
        return pa.MonthDayNano([1, 2, 3])
    if kind == pa.uuid():
        return rng.randbytes(16)
    if types.is_fixed_size_binary(kind):
        return rng.randbytes(kind.byte_width)
    if "string" in str(kind):
        return "".join(rng.choices("aZ\0é€\U0001f600", k=rng.randrange(9)))
    return rng.randbytes(rng.randrange(9))


def random_rows(rng, kinds, count):
    """Return a batch of columns of some types, some of which are never null."""
    fields, arrays = [], []
    for i, kind in enumerate(kinds):
        nullable = pa.types.is_null(kind) or rng.random() < 0.7
        values = [random_value(rng, kind) for _ in range(count)]
        if not nullable:
            values = [(v if v is not None else default(rng, kind)) for v in values]
        fields.append(pa.field(f"c{i}", kind, nullable))
        arrays.append(pa.array(values, kind))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


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
