"""Paimon's rows: those that Java wrote are read and written again; so is whatever we make."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from support.paimon_typed import Typed, cases, comparable

from lookupstore.compacted._codec import CompactedRowError
from lookupstore.compacted.rows import CompactedRows
from lookupstore.compacted.schema import ROW_KIND, TIMESTAMP, TYPE, WIDE_TIMESTAMP, paimon_schema

ALL = cases()
by_case = pytest.mark.parametrize("case", ALL, ids=[case.name for case in ALL])
#: Bytes behind the row, by mode.
TAILS = {"value": [8, 1], "position-and-value": [8, 8, 1], "row": []}
#: Values that our codec writes in other bytes, by the reason.
OTHER_BYTES = {
    "value-deep-0.9": "before 1.2, a null in a row in an array kept no room (note, 16.4)"
}


def binary(values: list[bytes]) -> pa.Array:
    return pa.array(values, pa.large_binary())


def in_rows(schema: pa.Schema, columns: list[pa.Array]) -> list[dict[str, Any]]:
    shown = zip(*map(comparable, columns), strict=True)
    return [dict(zip(schema.names, row, strict=True)) for row in shown]


def test_all_cases_are_there() -> None:
    assert len(ALL) == 47


@by_case
def test_keys_of_java(case: Typed) -> None:
    rows = CompactedRows(case.key_types)
    columns, _ = rows.decode(binary(case.keys))
    assert in_rows(case.key_types, columns) == case.key_rows()
    assert rows.encode(columns).to_pylist() == case.keys


@by_case
def test_values_of_java(case: Typed) -> None:
    if case.mode not in TAILS:
        return
    rows, widths = CompactedRows(case.value_types), TAILS[case.mode]
    columns, tails = rows.decode(binary(case.values), widths)
    for column in columns:
        column.validate(full=True)
    assert in_rows(case.value_types, columns) == case.value_rows()
    again = rows.encode(columns, list(zip(tails, widths, strict=True))).to_pylist()
    assert (again == case.values) == (case.name not in OTHER_BYTES)
    # What is in other bytes is the same rows.
    same, _ = rows.decode(binary(again), widths)
    assert in_rows(case.value_types, same) == case.value_rows()


def _time(milliseconds: int) -> datetime.time:
    return (datetime.datetime.min + datetime.timedelta(milliseconds=milliseconds)).time()


LEAVES: list[tuple[pa.DataType, Any]] = [
    (pa.bool_(), lambda rng: rng.random() < 0.5),
    (pa.int8(), lambda rng: rng.randrange(-128, 128)),
    (pa.int16(), lambda rng: rng.randrange(-(2**15), 2**15)),
    (pa.int32(), lambda rng: rng.randrange(-(2**31), 2**31)),
    (pa.int64(), lambda rng: rng.randrange(-(2**63), 2**63)),
    (pa.float32(), lambda rng: float(rng.randrange(-99, 99))),
    (pa.float64(), lambda rng: rng.gauss(0, 1e9)),
    (pa.date32(), lambda rng: datetime.date.fromordinal(rng.randrange(1, 3000000))),
    (pa.time32("ms"), lambda rng: _time(rng.randrange(86400000))),
    (pa.string(), lambda rng: "".join(rng.choices("aé中😀\0", k=rng.randrange(12)))),
    (pa.binary(), lambda rng: rng.randbytes(rng.choice([0, 1, 7, 8, 9, 16, 200]))),
    (pa.decimal128(9, 2), lambda rng: Decimal(rng.randrange(-(10**9) + 1, 10**9)).scaleb(-2)),
    (pa.decimal128(18, 0), lambda rng: Decimal(rng.randrange(-(10**18) + 1, 10**18))),
    (pa.decimal128(38, 0), lambda rng: Decimal(rng.randrange(-(10 ** rng.randrange(1, 39)), 10**19))
     + 1),
    (pa.timestamp("ms"), lambda rng: rng.randrange(-(10**12), 10**12)),
    (pa.timestamp("us", "UTC"), lambda rng: rng.randrange(-(10**15), 10**15)),
    (pa.timestamp("ns"), lambda rng: rng.randrange(-(2**63), 2**63)),
]  # fmt: skip


def random_field(rng: random.Random, name: str, depth: int, *, nullable: bool) -> pa.Field:
    way = rng.randrange(8) if depth else 0
    if way < 5:
        return pa.field(name, rng.choice(LEAVES)[0], nullable)
    if way == 5:
        inner = [
            random_field(rng, f"f{i}", depth - 1, nullable=rng.random() < 0.7)
            for i in range(rng.randrange(1, 11))
        ]
        return pa.field(name, pa.struct(inner), nullable)
    if way == 6:
        return pa.field(
            name, pa.list_(random_field(rng, "e", depth - 1, nullable=rng.random() < 0.7)), nullable
        )
    key = random_field(rng, "key", 0, nullable=False)
    return pa.field(
        name, pa.map_(key, random_field(rng, "value", depth - 1, nullable=True)), nullable
    )


def random_value(rng: random.Random, field: pa.Field) -> Any:
    if field.nullable and rng.random() < 0.25:
        return None
    kind = field.type
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return {one.name: random_value(rng, one) for one in fields}
    if pa.types.is_map(kind):
        pairs = (kind.key_field, kind.item_field)
        return [tuple(random_value(rng, one) for one in pairs) for _ in range(rng.randrange(4))]
    if pa.types.is_list(kind):
        return [random_value(rng, kind.value_field) for _ in range(rng.choice([0, 1, 2, 9, 40]))]
    return next(make for leaf, make in LEAVES if leaf == kind)(rng)


@pytest.mark.parametrize("number", range(40))
def test_what_is_written_is_read(number: int, seed_of_the_day: int) -> None:
    """Also of slices, at any depth, which begin in the middle of a byte of validity."""
    rng = random.Random(seed_of_the_day * 1000 + number)
    schema = pa.schema([
        random_field(rng, f"c{i}", 3, nullable=rng.random() < 0.8)
        for i in range(rng.randrange(1, 20))
    ])  # fmt: skip
    count = rng.randrange(1, 60)
    whole = [
        pa.array([random_value(rng, field) for _ in range(count)], field.type) for field in schema
    ]
    start = rng.randrange(count)
    columns = [column.slice(start) for column in whole]
    rows = CompactedRows(schema)
    encoded = rows.encode(columns)
    decoded, _ = rows.decode(encoded)
    for column, again in zip(columns, decoded, strict=True):
        again.validate(full=True)
        assert again.equals(column), (number, column.type)
    assert encoded.to_pylist() == rows.encode(whole).to_pylist()[start:]
    # Where a lookup has found nothing, all columns are null.
    some = [one if rng.random() < 0.5 else None for one in encoded.to_pylist()]
    gaps = pa.array(some, encoded.type)
    with_gaps, _ = rows.decode(gaps)
    for column, again in zip(columns, with_gaps, strict=True):
        assert again.filter(gaps.is_valid()).equals(column.filter(gaps.is_valid()))
        assert again.filter(gaps.is_null()).null_count == gaps.null_count


@by_case
def test_damaged_values_are_refused_or_read(case: Typed) -> None:
    """Bytes changed at random never crash, and what they give is valid Arrow."""
    if case.mode not in TAILS:
        return
    rng = random.Random(case.name)
    rows, widths = CompactedRows(case.value_types), TAILS[case.mode]
    refused = 0
    for _ in range(60):
        value = bytearray(rng.choice(case.values))
        for _ in range(rng.randrange(1, 3)):
            value[rng.randrange(len(value))] = rng.choice(
                [0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)]
            )
        if rng.random() < 0.2:
            del value[rng.randrange(len(value)) :]
        try:
            columns, _ = rows.decode(binary([case.values[0], bytes(value)]), widths)
        except CompactedRowError as error:
            refused += error.args[0] == 1
        except ValueError as error:
            if "does not fit" not in str(error):
                raise
        else:
            for column in columns:
                column.validate(full=True)
    assert refused > 5


def test_examples_of_the_note() -> None:
    """The bytes that section 16.1 of the format note spells out."""

    def bytes_of(*columns: tuple[Any, pa.DataType]) -> str:
        schema = pa.schema([(f"c{i}", kind) for i, (_, kind) in enumerate(columns)])
        arrays = [pa.array([value], kind) for value, kind in columns]
        row: bytes = CompactedRows(schema).encode(arrays)[0].as_py()
        return row.hex()

    three = pa.int32(), pa.string(), pa.bool_()
    assert bytes_of(*zip((7, "hé", False), three, strict=True)) == "0000070000000368c3a900"
    assert bytes_of(*zip((-2, None, True), three, strict=True)) == "0002feffffff01"
    assert bytes_of((Decimal(128), pa.decimal128(38, 10))) == "000006012a05f20000"
    assert bytes_of((-1, pa.timestamp("us"))) == "0000ffffffffffffffffd8fc3c"


def test_timestamps_that_nanoseconds_do_not_reach() -> None:
    wide = pa.schema([pa.field("t", WIDE_TIMESTAMP, metadata={TYPE: TIMESTAMP})])
    narrow = pa.schema([("t", pa.timestamp("ns"))])
    least, most = -(2**63), 2**63 - 1
    for number in (least, least + 1, -1, 0, most):
        encoded = CompactedRows(narrow).encode([pa.array([number], pa.timestamp("ns"))])
        (decoded,), _ = CompactedRows(wide).decode(encoded)
        millis, nanos = number // 10**6, number % 10**6
        assert decoded.to_pylist() == [{"millisecond": millis, "nanosecond": nanos}]
        assert CompactedRows(narrow).decode(encoded)[0][0].view(pa.int64()).to_pylist() == [number]
    for number in (least - 1, most + 1):
        value = {"millisecond": number // 10**6, "nanosecond": number % 10**6}
        encoded = CompactedRows(wide).encode([pa.array([value], WIDE_TIMESTAMP)])
        with pytest.raises(ValueError, match="row 1: a value of 't' does not fit its type"):
            CompactedRows(narrow).decode(encoded)


def test_bad_schemas() -> None:
    for kind in (pa.uint8(), pa.large_string(), pa.timestamp("s"), pa.list_(pa.float16()),
                 pa.binary(4), pa.timestamp("us", "Europe/Paris"),
                 pa.list_(pa.int8(), 2)):  # fmt: skip
        with pytest.raises(TypeError, match=r"schema\.x.* which Paimon's rows do not have"):
            CompactedRows(pa.schema([("x", kind)]))
    with pytest.raises(TypeError, match=r"give a pyarrow\.Schema"):
        CompactedRows([("x", pa.int8())])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="two columns of one name"):
        CompactedRows(pa.schema([("x", pa.int8()), ("x", pa.int8())]))
    kind = pa.field("a", pa.int8(), metadata={TYPE: ROW_KIND})
    with pytest.raises(TypeError, match="two row kinds"):
        CompactedRows(pa.schema([kind, kind.with_name("b")]))
    with pytest.raises(TypeError, match="VECTOR is not known for int8"):
        CompactedRows(pa.schema([pa.field("x", pa.int8(), metadata={TYPE: b"VECTOR"})]))
    deep: pa.DataType = pa.int8()
    for _ in range(40):
        deep = pa.list_(deep)
    with pytest.raises(TypeError, match="types deep"):
        CompactedRows(pa.schema([("x", deep)]))
    with pytest.raises(TypeError, match=r"keys\.x is list.*no key has such a field"):
        CompactedRows(pa.schema([("x", pa.list_(pa.int8()))]), "keys").order()
    with pytest.raises(ValueError, match="'VECTOR' is not a type that can be read"):
        paimon_schema([{"name": "x", "type": "VECTOR"}])
    with pytest.raises(ValueError, match="not a type of Paimon's"):
        paimon_schema([{"name": "x", "type": "INT NULLABLE"}])


def test_bad_values() -> None:
    def encode(kind: pa.DataType, value: Any, *, nullable: bool = True) -> None:
        array = value if isinstance(value, pa.Array) else pa.array([value], kind)
        CompactedRows(pa.schema([pa.field("x", kind, nullable)])).encode([array])

    with pytest.raises(ValueError, match="row 1: 'x' is null"):
        encode(pa.int8(), None, nullable=False)
    inner = pa.list_(pa.field("e", pa.int8(), nullable=False))
    with pytest.raises(ValueError, match="row 1: 'x' is null, or has a null"):
        encode(inner, [1, None])
    with pytest.raises(ValueError, match="row 1: 'x' is not a value of its type"):
        encode(pa.time32("ms"), pa.array([86400000], pa.int32()).view(pa.time32("ms")))
    with pytest.raises(TypeError, match="'x' is int16, not int8"):
        encode(pa.int8(), pa.array([1], pa.int16()))


def test_pieces_that_overlap_are_refused() -> None:
    """Or a small array of arrays, each the same bytes, takes as long as its author likes."""
    kind = pa.list_(pa.list_(pa.int64()))
    rows = CompactedRows(pa.schema([("x", kind)]))
    encoded = rows.encode([pa.array([[[1], [2]]], kind)])[0].as_py()
    assert rows.decode(binary([encoded]))[0][0].to_pylist() == [[[1], [2]]]
    first = encoded.find(b"\x10\0\0\0")  # the size of each of the two, then where it is
    slots = encoded[first : first + 16]
    twice = encoded.replace(slots, slots[:8] * 2)
    assert twice != encoded
    with pytest.raises(CompactedRowError):
        rows.decode(binary([twice]))


def test_text_is_what_python_decodes() -> None:
    rng = random.Random(3)
    text = CompactedRows(pa.schema([("x", pa.string())]))
    plain = CompactedRows(pa.schema([("x", pa.binary())]))
    ends = ["é", "中", "😀", "\ud7ff", "\ue000", "\U0010ffff", "abcdefgh", "\0"]
    refused = 0
    for _ in range(5000):
        data = bytearray("".join(rng.choices(ends, k=rng.randrange(5))).encode())
        if data and rng.random() < 0.7:
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(2)] = rng.choice(
                [
                    b"",
                    b"\x80",
                    b"\xc0",
                    b"\xc1",
                    b"\xed\xa0",
                    b"\xe0\x9f",
                    b"\xf0\x8f",
                    b"\xf4\x90",
                    b"\xf5",
                ]
            )
        encoded = plain.encode([pa.array([bytes(data)])])
        try:
            expected = bytes(data).decode()
        except UnicodeDecodeError:
            refused += 1
            with pytest.raises(CompactedRowError):
                text.decode(encoded)
        else:
            assert text.decode(encoded)[0][0].to_pylist() == [expected]
    assert 500 < refused < 4500


def test_nan_of_arrays_is_one() -> None:
    """Java writes every NaN alike where it is an element, and leaves it as it is in a row."""
    for kind, bits, one in (
        (pa.float32(), 0x7FC12345, 0x7FC00000),
        (pa.float64(), 0xFFF8000000012345, 0x7FF8000000000000),
    ):
        width = kind.bit_width // 8
        stored = bits.to_bytes(width, "little")
        number = pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(stored)])
        alone = CompactedRows(pa.schema([("x", kind)])).encode([number])[0].as_py()
        assert alone == b"\0\0" + stored
        listed = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), number)
        encoded = CompactedRows(pa.schema([("x", listed.type)])).encode([listed])[0].as_py()
        assert one.to_bytes(width, "little") in encoded
        assert stored not in encoded
