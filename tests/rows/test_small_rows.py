"""Columns of a few rows in one piece of memory: they are those that each column by itself gives.

Values change each day; LOOKUPSTORE_TEST_SEED=N repeats a run that printed N.
"""

from __future__ import annotations

import decimal
import gc
import random

import pyarrow as pa
import pytest

from lookupstore.errors import FormatError
from lookupstore.rows._codec import BadRowError
from lookupstore.rows._small import SmallRows, is_plain
from lookupstore.rows.schema import RowSchema
from lookupstore.sst import Reader, Writer
from lookupstore.sst.layers import Layers

TYPES = (
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64(),
    pa.float32(), pa.float64(),
    pa.decimal32(7, 2), pa.decimal128(38, 10), pa.decimal256(76, 30), pa.date32(), pa.date64(),
    pa.time64("ns"),
    pa.timestamp("ns"), pa.timestamp("us", "Asia/Kathmandu"), pa.duration("s"),
    pa.month_day_nano_interval(),
    pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(3), pa.binary(0),
)  # fmt: skip
NOT_PLAIN = (
    pa.null(), pa.string_view(), pa.binary_view(), pa.uuid(), pa.dictionary(pa.int8(), pa.string()),
    pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.list_(pa.int8(), 2),
)  # fmt: skip


def values_of(rng, kind, count, nulls):
    """Return an array of random values of a type; bits for those that are bits in Arrow."""
    types = pa.types
    if types.is_boolean(kind):
        values = [rng.random() < 0.5 for _ in range(count)]
    elif types.is_decimal(kind):
        digits = [rng.randrange(10 ** min(kind.precision, 20)) for _ in range(count)]
        values = [decimal.Decimal(one).scaleb(-kind.scale) for one in digits]
    elif kind == pa.month_day_nano_interval():
        values = [pa.MonthDayNano([rng.randrange(9)] * 3) for _ in range(count)]
    elif types.is_fixed_size_binary(kind):
        values = [rng.randbytes(kind.byte_width) for _ in range(count)]
    elif types.is_string(kind) or types.is_large_string(kind):
        letters = rng.choice(["abc", "aé€\U0001f600", ""])
        values = [
            "".join(rng.choices(letters, k=rng.randrange(9) if letters else 0))
            for _ in range(count)
        ]
    elif types.is_binary(kind) or types.is_large_binary(kind):
        values = [rng.randbytes(rng.randrange(40)) for _ in range(count)]
    elif types.is_date64(kind):
        values = [rng.randrange(20_000) * 86_400_000 for _ in range(count)]
    elif types.is_floating(kind):
        values = [float(rng.randrange(-9, 9)) for _ in range(count)]
    else:
        values = [rng.randrange(100) for _ in range(count)]
    return pa.array([None if rng.random() < nulls else one for one in values], kind)


def random_batch(rng, count):
    """Return a batch of plain columns, some of which have nulls or may have some."""
    fields, arrays = [], []
    for i in range(rng.randrange(1, 9)):
        kind = rng.choice(TYPES)
        nulls = rng.choice([0, 0, 0.3])
        nullable = nulls > 0 or rng.random() < 0.5
        fields.append(pa.field(f"c{i}", kind, nullable))
        arrays.append(values_of(rng, kind, count, nulls))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, {"made": "here"}))


def written(path, packed):
    """Return a reader of a file with these rows, numbered from 0."""
    with Writer(path, overwrite=True, block_size=2000) as writer:
        for i, row in enumerate(packed):
            writer.put(i.to_bytes(4, "big"), row)
    return Reader(path)


def asked(rng, count):
    """Return keys in random order, repeated, and missing."""
    keys = [
        rng.randrange(count + count // 3 + 1) for _ in range(rng.choice([0, 1, 7, 8, 100, 3000]))
    ]
    return pa.array([key.to_bytes(4, "big") for key in keys], pa.binary(4))


def both(rows, names, reader, keys):
    """Return what the two ways make of the rows at some keys; None of a way that refuses them."""

    def find(answers):
        Layers(1, {0: [reader]}).lookup(keys, answers)

    try:
        expected = rows.read(len(keys), names, find)[1]
    except FormatError:
        expected = None
    answers = SmallRows(len(keys), rows.small_plan(names))
    try:
        find(answers)
    except BadRowError:
        return None, expected
    return answers.batch(), expected


def test_columns_are_those_of_one_column_after_the_other(tmp_path, seed_of_the_day):
    rng = random.Random(seed_of_the_day)
    for _ in range(25):
        count = rng.choice([0, 1, 50, 700])
        batch = random_batch(rng, count)
        rows = RowSchema(batch.schema)
        names = rng.sample(batch.schema.names, rng.randrange(1, batch.num_columns + 1))
        with written(tmp_path / "s", [row.as_py() for row in rows.pack(batch)]) as reader:
            for _ in range(4):
                found, expected = both(rows, names, reader, asked(rng, count))
                found.validate(full=True)
                assert found.equals(expected, check_metadata=True)


def test_damaged_rows_are_refused_where_the_other_way_refuses_them(tmp_path, seed_of_the_day):
    rng = random.Random(seed_of_the_day + 1)
    refused = 0
    for _ in range(120):
        batch = random_batch(rng, 20)
        rows = RowSchema(batch.schema)
        packed = [bytearray(row.as_py()) for row in rows.pack(batch)]
        for bad in rng.sample(packed, 2):
            if bad and rng.random() < 0.8:
                bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
            else:
                del bad[rng.randrange(len(bad) + 1) :]
        names = rng.sample(batch.schema.names, rng.randrange(1, batch.num_columns + 1))
        with written(tmp_path / "s", map(bytes, packed)) as reader:
            keys = pa.array([i.to_bytes(4, "big") for i in range(25)])
            found, expected = both(rows, names, reader, keys)
        # Of what is nearly right, such as a bool of 7 under a null, the other is asked again.
        assert found is None or expected is not None
        refused += expected is None
        if found is not None:
            found.validate()
            for mine, theirs in zip(found.columns, expected.columns, strict=True):
                assert mine.equals(theirs) or "float" in str(mine.type)  # NaN
    assert refused > 10


def test_columns_outlive_their_batch_and_the_file(tmp_path):
    schema = pa.schema([("name", pa.string()), ("on", pa.bool_()), ("size", pa.int64())])
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["é", None]), pa.array([True, False]), pa.array([5, 7])], schema=schema
    )
    rows = RowSchema(schema)
    with written(tmp_path / "s", [row.as_py() for row in rows.pack(batch)]) as reader:
        found, _ = both(rows, schema.names, reader, pa.array([b"\0\0\0\0", b"\0\0\0\1", b"none"]))
    kept = [found.column("size"), found.column("name")[1:], found.slice(1).column("on")]
    del found, reader
    gc.collect()
    assert [one.to_pylist() for one in kept] == [[5, 7, None], [None, None], [False, None]]


def test_a_batch_is_given_once():
    rows = RowSchema(pa.schema([("a", pa.int8())]))
    answers = SmallRows(0, rows.small_plan(["a"]))
    assert answers.batch().num_rows == 0
    with pytest.raises(ValueError, match="given away"):
        answers.batch()


@pytest.mark.parametrize("kind", NOT_PLAIN, ids=str)
def test_types_that_are_not_in_rows_as_in_arrow_have_no_plan(kind):
    assert not is_plain(kind)
    rows = RowSchema(pa.schema([("a", pa.int8()), ("b", kind)]))
    assert rows.small_plan(["a", "b"]) is None
    assert rows.small_plan(["a"]) is not None
    assert rows.small_plan([]) is None
