"""Lines of JSON, made by columns: the same values as Python's json gives of each row."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import random
import unicodedata
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lookupstore.cli.json_text import json_lines, json_texts, plain

#: Of a character that a terminal does not show as itself: controls, formats and ends of lines.
UNSEEN = ("Cc", "Cf", "Zl", "Zp")

TEXTS = [
    "",
    "plain",
    'a "quoted" \\ one',
    "two\nlines\t\r",
    "é ☃ 𝄞",
    "\x00\x1f\x7f\u2028",
    "/",
    "nan",
]
ZONES = [None, "UTC", "+05:30", "Europe/Amsterdam", "America/New_York"]


def numbers(least: int, most: int) -> Callable[[random.Random], int]:
    return lambda rng: rng.choice([0, least, most, rng.randint(least, most)])


def a_float(rng: random.Random) -> float:
    return rng.choice([
        0.0, -0.0, 1.0, 0.1, 3e10, 1e15, 1e16, 1e300, 5e-324, math.nan, math.inf, -math.inf,
        rng.gauss(0, 1), rng.gauss(0, 1) * 10.0 ** rng.randint(-300, 300),
        float(rng.randint(-99, 99)),
    ])  # fmt: skip


def decimals(scale: int) -> Callable[[random.Random], decimal.Decimal]:
    return lambda rng: decimal.Decimal(
        rng.choice([0, 1, -1, rng.randint(-(10**12), 10**12)])
    ).scaleb(-scale)


def a_moment(rng: random.Random) -> int:
    """Return microseconds: of days without an hour, too, and of whole seconds."""
    unit = rng.choice([1, 1000, 10**6, 86400 * 10**6])
    return rng.randint(-6 * 10**16, 10**17) // unit * unit


def arrow_times(kind: pa.DataType) -> Callable[[random.Random], Any]:
    per_second = {"s": 1, "ms": 1000, "us": 10**6}[kind.unit]

    def make(rng: random.Random) -> Any:
        moment = a_moment(rng)
        if pa.types.is_time(kind):
            moment %= 86400 * 10**6
        return pa.scalar(moment * per_second // 10**6, pa.int64())

    return make


KINDS: dict[pa.DataType, Callable[[random.Random], Any]] = {
    pa.null(): lambda rng: None,
    pa.bool_(): lambda rng: rng.random() < 0.5,
    pa.int8(): numbers(-128, 127),
    pa.uint64(): numbers(0, 2**64 - 1),
    pa.int64(): numbers(-(2**63), 2**63 - 1),
    pa.float64(): a_float,
    pa.string(): lambda rng: rng.choice(TEXTS),
    pa.large_string(): lambda rng: "".join(rng.choices(TEXTS, k=2)),
    pa.string_view(): lambda rng: rng.choice(TEXTS),
    pa.binary(): lambda rng: rng.randbytes(rng.randrange(5)),
    pa.binary(3): lambda rng: rng.randbytes(3),
    pa.binary_view(): lambda rng: rng.randbytes(rng.randrange(20)),
    pa.date32(): lambda rng: datetime.date.fromordinal(rng.randint(1, 3_652_059)),
    pa.date64(): lambda rng: datetime.date.fromordinal(rng.randint(1, 3_652_059)),
    **{pa.decimal128(20, scale): decimals(scale) for scale in (0, 2, 10)},
}


def column_of(kind: pa.DataType, length: int, rng: random.Random) -> pa.Array:
    """Return values of any type, some of them null, in an array that may begin within another."""
    before = rng.choice([0, 0, 3])
    count = before + length
    nulls = [rng.random() < rng.choice([0, 0.3]) for _ in range(count)]
    types = pa.types
    if types.is_timestamp(kind) or types.is_time(kind) or types.is_duration(kind):
        make = arrow_times(kind)
        raw = [None if null else make(rng).as_py() for null in nulls]
        width = pa.int32() if types.is_time32(kind) else pa.int64()
        column = pa.array(raw, width).cast(kind)
    elif types.is_struct(kind):
        children = [column_of(field.type, count, rng) for field in kind]
        column = pa.StructArray.from_arrays(
            children, fields=list(kind), mask=pa.array(nulls, pa.bool_())
        )
    elif types.is_map(kind) or types.is_list(kind) or types.is_large_list(kind):
        lengths = [0 if null else rng.randrange(4) for null in nulls]
        places = np.cumsum([0, *lengths]).tolist()
        offsets = [
            None if null else place for null, place in zip([*nulls, False], places, strict=True)
        ]
        if types.is_map(kind):
            keys = pa.array([f"k{i}" for i in range(places[-1])], pa.string())
            column = pa.MapArray.from_arrays(
                pa.array(offsets, pa.int32()), keys, column_of(kind.item_type, places[-1], rng)
            )
        else:
            values = column_of(kind.value_type, places[-1], rng)
            made, width = (
                (pa.LargeListArray, pa.int64()) if types.is_large_list(kind)
                else (pa.ListArray, pa.int32())
            )  # fmt: skip
            column = made.from_arrays(pa.array(offsets, width), values)
    elif types.is_fixed_size_list(kind):
        values = column_of(kind.value_type, count * kind.list_size, rng)
        column = pa.FixedSizeListArray.from_arrays(
            values, kind.list_size, mask=pa.array(nulls, pa.bool_())
        )
    elif types.is_dictionary(kind):
        column = column_of(kind.value_type, count, rng).dictionary_encode()
    else:
        column = pa.array([None if null else KINDS[kind](rng) for null in nulls], kind)
    return column.slice(before)


def any_type(rng: random.Random, depth: int = 2) -> pa.DataType:
    if depth and rng.random() < 0.35:
        inner = any_type(rng, depth - 1)
        return rng.choice([
            pa.list_(inner), pa.large_list(inner), pa.list_(inner, 2), pa.map_(pa.string(), inner),
            pa.struct([("a", inner), ('"b"', any_type(rng, depth - 1))]),
        ])  # fmt: skip
    simple = [
        *KINDS,
        pa.time32("s"), pa.time32("ms"), pa.time64("us"),
        *(pa.duration(unit) for unit in ("s", "ms", "us")),
        *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us") for zone in ZONES),
        pa.dictionary(pa.int32(), pa.string()),
    ]  # fmt: skip
    return rng.choice(simple)


@pytest.mark.parametrize("part", range(20))
def test_rows_of_every_type(part: int, seed: int) -> None:
    rng = random.Random(f"{seed} {part}")
    for _ in range(20):
        length = rng.choice([0, 1, 7, 40])
        kinds = [any_type(rng) for _ in range(rng.randint(1, 5))]
        columns = [column_of(kind, length, rng) for kind in kinds]
        batch = pa.RecordBatch.from_arrays(columns, [f"c\n{i}" for i in range(len(kinds))])
        found = json_lines(batch)
        wanted = [json.dumps(plain(row), ensure_ascii=False) for row in batch.to_pylist()]
        lines = found.split("\n") if length else []
        assert len(lines) == len(wanted)
        for one, other in zip(lines, wanted, strict=True):
            # repr, because 1 and 1.0 and true are equal, and -0.0 and 0.0
            assert repr(json.loads(one)) == repr(json.loads(other)), (kinds, one, other)


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32()])
def test_short_floats_are_the_shortest_text_that_reads_back(kind: pa.DataType, seed: int) -> None:
    numpy_kind = np.dtype(kind.to_pandas_dtype())
    bits = np.random.default_rng(seed).integers(0, 1 << 8 * numpy_kind.itemsize, 5000)
    values = bits.astype(f"u{numpy_kind.itemsize}").view(numpy_kind)
    values = values[np.isfinite(values)]
    texts = json_texts(pa.array(values, kind)).to_pylist()
    for text, value in zip(texts, values, strict=True):
        number = json.loads(text)
        assert isinstance(number, float)
        assert numpy_kind.type(number) == value
        assert number == float(str(value))
    assert json_texts(pa.array(np.array([0.1, -np.inf, np.nan], numpy_kind))).to_pylist() == [
        "0.1", '"-inf"', '"nan"'
    ]  # fmt: skip
    nested = pa.array([[{"x": 0.1}], None], pa.list_(pa.struct([("x", kind)])))
    assert json_texts(nested).to_pylist() == ['[{"x": 0.1}]', "null"]


def test_nanoseconds_within_others() -> None:
    at = pa.array([1_700_000_000_123_456_789, None, 1_700_000_000_000_000_000]).cast(
        pa.timestamp("ns")
    )
    assert json_texts(pa.StructArray.from_arrays([at], ["at"])).to_pylist() == [
        '{"at": "2023-11-14T22:13:20.123456789"}', '{"at": null}', '{"at": "2023-11-14T22:13:20"}'
    ]  # fmt: skip


def test_rows_that_are_not_there_are_null() -> None:
    batch = pa.RecordBatch.from_pydict({"id": [1, 2, None]})
    there = pa.array([False, True, True])
    assert json_lines(batch, there) == 'null\n{"id": 2}\n{"id": null}'
    assert json_lines(batch.slice(0, 0)) == ""
    assert json_lines(batch.select([])) == "{}\n{}\n{}"


def test_latin_characters_that_a_terminal_shows_stay() -> None:
    for sign in map(chr, range(0x7F, 0x100)):
        line = json_lines(pa.record_batch({"x": [sign]}))
        assert json.loads(line) == {"x": sign}
        assert (sign in line) == (unicodedata.category(sign) not in UNSEEN), hex(ord(sign))
