"""Footers through structs and back: what Arrow wrote comes out as the same bytes."""

from __future__ import annotations

import contextlib
import io
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.footers import footer_in, read_struct, with_footer

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.parquet.footer import (
    ColumnChunk,
    ParquetFooter,
    footer_bytes,
    footer_of,
    read_footer,
)
from lookupstore.parquet.structs import (
    BINARY,
    BOOL,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    Struct,
    get,
    write_struct,
)

DOUBLE = 7
# Those that hold others come last.
KINDS = [BOOL, I16, I32, I64, DOUBLE, BINARY, LIST, STRUCT]

ROWS = pa.table(
    {
        "number": pa.array([3, None, 1], pa.int32()),
        "text": ["b", "ä", None],
        "nested": [{"text": "x", "list": [1, 2]}, None, {"text": None, "list": []}],
        "when": pa.array([1, 2, 3], pa.timestamp("us", "UTC")),
        "price": pa.array([Decimal(1), None, Decimal(3)], pa.decimal128(9, 2)),
        "flag": [True, False, None],
    }
)


def file_of(rows: pa.Table, **how: Any) -> bytes:
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, rows.schema, write_page_checksum=True, **how) as writer:
        writer.write_table(rows, row_group_size=2)
        writer.add_key_value_metadata({"key": "value" * 1000, "none": ""})
    return sink.getvalue()


def footer_or_error(data: bytes) -> ParquetFooter | CorruptionError | FormatError:
    try:
        return read_footer(pa.BufferReader(data), "broken")
    except (CorruptionError, FormatError) as error:
        return error


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("index", [False, True])
def test_a_struct_is_written_as_it_was_read(compression: str, index: bool) -> None:
    footer = footer_in(file_of(ROWS, compression=compression, write_page_index=index))
    assert write_struct(read_struct(footer, "f", 0)) == footer


def test_a_footer_says_what_arrow_says() -> None:
    data = file_of(ROWS)
    footer = read_footer(pa.BufferReader(data), "f")
    metadata = pq.read_metadata(io.BytesIO(data))
    assert footer.created_by == metadata.created_by
    assert footer.nullable == {"number", "text", "when", "price", "flag"}
    assert [one.rows for one in footer.groups] == [2, 1]
    for at, group in enumerate(footer.groups):
        said = metadata.row_group(at)
        assert group.plain_bytes == said.total_byte_size
        assert len(group.columns) == said.num_columns
        for number, chunk in enumerate(group.columns):
            column = said.column(number)
            assert ".".join(chunk.path) == column.path_in_schema
            assert (chunk.codec or "uncompressed").upper() == column.compression
            assert chunk.rows == column.num_values
            assert chunk.nbytes == column.total_compressed_size
            assert chunk.plain_bytes == column.total_uncompressed_size
            assert chunk.has_dictionary == column.has_dictionary_page
            assert chunk.has_no_null == (column.statistics.null_count == 0)
            assert chunk.offset == (column.dictionary_page_offset or column.data_page_offset)


def test_nested_columns_are_not_those_of_the_same_name() -> None:
    inner = pa.struct([pa.field("a", pa.int8()), pa.field("b", pa.struct({"a": pa.int8()}))])
    schema = pa.schema([pa.field("s", inner), pa.field("a", pa.int8(), nullable=False)])
    data = file_of(pa.table([[None, None, None], [1, 2, 3]], schema=schema))
    assert read_footer(pa.BufferReader(data), "f").nullable == frozenset()


def test_a_footer_of_its_own_groups_is_the_file_again() -> None:
    data = file_of(ROWS)
    footer = read_footer(pa.BufferReader(data), "f")
    groups = [(one.rows, [chunk.moved(chunk.offset) for chunk in one.columns])
              for one in footer.groups]  # fmt: skip
    body = data[: -8 - len(footer_in(data))]
    again = body + footer_bytes(footer, groups, {b"key": b"\xff\x00"})
    assert pq.read_table(io.BytesIO(again)).equals(ROWS)
    assert pq.read_metadata(io.BytesIO(again)).metadata == {b"key": b"\xff\x00"}


def test_a_chunk_elsewhere_does_not_point_into_its_old_file() -> None:
    data = file_of(ROWS)
    chunk = read_footer(pa.BufferReader(data), "f").groups[0].columns[1]
    old = {10: (I64, 17), 14: (I64, 18), 15: (I32, 19)}  # an index page, and a filter
    moved = get(ColumnChunk(chunk.meta | old).moved(chunk.offset + 1000), 3, STRUCT)
    assert not moved.keys() & old.keys()
    assert ColumnChunk(moved).offset == chunk.offset + 1000
    assert moved[9][1] == chunk.meta[9][1] + 1000


LEVELS = pa.schema(
    [
        pa.field("sure", pa.int64(), nullable=False),
        pa.field("text", pa.string()),
        pa.field(
            "nested",
            pa.struct(
                [
                    pa.field("list", pa.list_(pa.field("element", pa.int8(), nullable=False))),
                    pa.field("sure", pa.int32(), nullable=False),
                ]
            ),
        ),
        pa.field("last", pa.list_(pa.struct([("a", pa.list_(pa.string()))])), nullable=False),
        pa.field("end", pa.float64()),
    ]
)


def test_levels_are_those_that_arrow_knows() -> None:
    data = file_of(LEVELS.empty_table())
    leaves = read_footer(pa.BufferReader(data), "f").leaves
    schema = pq.read_metadata(io.BytesIO(data)).schema
    said = [schema.column(at) for at in range(len(schema))]
    assert [(one.definition, one.repetition) for one in leaves] == [
        (one.max_definition_level, one.max_repetition_level) for one in said
    ]
    assert [one.name.decode() for one in leaves] == [one.name for one in said]


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("number", 1, (I32, 2)),  # another type
        ("number", 1, (I32, 99)),
        ("number", 16, (STRUCT, {1: (I64, 5)})),  # bytes of text
        ("number", 16, (STRUCT, {2: (LIST, (I64, [2, 1]))})),
        ("number", 16, (STRUCT, {3: (LIST, (I64, [2]))})),
        ("text", 16, (STRUCT, {3: (LIST, (I32, [2, 1, 0]))})),
        # Bounds that are shorter than a value: of 4 bytes, 8, and one bit.
        *[
            (name, 12, (STRUCT, {field: (BINARY, b"\1\0\0\0\0\0\0"[:short])}))
            for name, short in (("number", 3), ("when", 7), ("flag", 0))
            for field in (1, 2, 5, 6)
        ],
    ],
)
def test_chunks_at_which_arrow_ends_the_process(name: str, field: int, value: Any) -> None:
    data = file_of(ROWS)
    for changed in ({}, {field: value}):
        made = with_footer(data, lambda _, path, new=changed: new if path[0] == name else {})
        found = footer_or_error(made)
        assert isinstance(found, CorruptionError) == bool(changed)
    assert isinstance(found, CorruptionError)
    assert found.expected == "column chunks as the schema has them"


@pytest.mark.parametrize("field", [1, 2, 5, 6])
def test_bounds_of_fixed_length_values_may_be_cut(field: int) -> None:
    cut = {12: (STRUCT, {field: (BINARY, b"\1\0\0")})}
    made = with_footer(file_of(ROWS), lambda _, path: cut if path[0] == "price" else {})
    footer = read_footer(pa.BufferReader(made), "f")
    (chunk,) = [one for one in footer.groups[0].columns if one.path == ("price",)]
    assert not chunk.has_bounds_of(4)
    assert pq.read_table(io.BytesIO(made)).equals(ROWS)


def test_bounds_as_wide_as_values_are_taken() -> None:
    whole = b"\1\0\0\0\0\0\0\0"
    for name, width in (("number", 4), ("when", 8), ("price", 4), ("flag", 1), ("text", 0)):
        bounds: Struct = {12: (STRUCT, {field: (BINARY, whole[:width]) for field in (1, 2, 5, 6)})}

        def changes(_: int, path: tuple[str, ...], of: str = name, new: Struct = bounds) -> Struct:
            return new if path[0] == of else {}

        made = with_footer(file_of(ROWS), changes)
        assert isinstance(footer_or_error(made), ParquetFooter)


@pytest.mark.parametrize("by", [-1, 1])
def test_a_chunk_that_is_not_in_the_file(by: int) -> None:
    data = file_of(ROWS.select(["number"]))
    footer = read_footer(pa.BufferReader(data), "f")
    chunk = footer.groups[0].columns[0]
    body = data[: -8 - len(footer_in(data))]
    for place, fits in ((4 if by < 0 else len(body) - chunk.nbytes, True), (None, False)):
        at = place if place is not None else (3 if by < 0 else len(body) - chunk.nbytes + 1)
        made = body + footer_bytes(footer, [(2, [chunk.moved(at)])], {})
        found = footer_or_error(made)
        assert isinstance(found, CorruptionError) != fits


def test_bytes_that_are_no_footer_are_told(seed: int) -> None:
    """Whatever bytes there are, it is an error with the path, or a footer of chunks in the file."""
    data = file_of(ROWS)
    chosen = random.Random(seed)
    refused = 0
    length = len(footer_in(data)) + 8
    for _ in range(1500):
        changed = bytearray(data)
        for _ in range(chosen.randint(1, 4)):
            changed[-chosen.randint(1, length)] = chosen.randrange(256)
        found = footer_or_error(bytes(changed))
        if isinstance(found, (CorruptionError, FormatError)):
            assert str(found).startswith("broken: ")
            refused += 1
            continue
        for group in found.groups:
            for chunk in group.columns:
                assert 4 <= chunk.offset <= chunk.offset + chunk.nbytes <= len(changed)
    assert refused > 300
    for short in range(40):
        with pytest.raises(CorruptionError, match="the end of a Parquet file"):
            read_footer(pa.BufferReader(data[:short]), "broken")


def test_an_entry_may_be_long() -> None:
    """The filter of some million keys is longer than what Thrift's library takes for sane."""
    entry = random.randbytes(20 << 20)
    footer = read_footer(pa.BufferReader(file_of(ROWS)), "f")
    data = b"PAR1" + footer_bytes(footer, [], {b"filter": entry})
    assert pq.read_metadata(io.BytesIO(data)).metadata == {b"filter": entry}
    assert read_footer(pa.BufferReader(data), "f").groups == []


def any_value(kind: int, chosen: random.Random, depth: int) -> Any:
    if kind == STRUCT:
        return any_struct(chosen, depth + 1)
    if kind == LIST:
        item = chosen.choice(KINDS[: 6 if depth > 3 else None])
        count = chosen.choice([0, 1, 14, 15, 40] if depth < 2 else [0, 1])
        return item, [any_value(item, chosen, depth + 1) for _ in range(count)]
    if kind == BINARY:
        return chosen.randbytes(chosen.choice([0, 1, 127, 128, 3000]))
    if kind == BOOL:
        return chosen.random() < 0.5
    if kind == DOUBLE:
        return chosen.uniform(-1e9, 1e9)
    most = 1 << ({I16: 16, I32: 32, I64: 64}[kind] - 1)
    return chosen.choice([0, -1, 63, 64, -65, most - 1, -most])


def any_struct(chosen: random.Random, depth: int = 0) -> Struct:
    fields = [*chosen.sample(range(1, 40), chosen.randint(0, 9)), chosen.choice([300, 32766])]
    found: Struct = {}
    for field in sorted(fields):
        kind = chosen.choice(KINDS[: 6 if depth > 3 else None])
        found[field] = kind, any_value(kind, chosen, depth + 1)
    return found


def test_any_struct_comes_back(seed: int) -> None:
    chosen = random.Random(seed)
    for _ in range(300):
        struct = any_struct(chosen)
        data = bytes(write_struct(struct))
        assert read_struct(data, "f", 0) == struct
        for _ in range(5):
            with pytest.raises(CorruptionError, match="a Thrift struct"):
                read_struct(data[: chosen.randrange(len(data))], "f", 0)
            changed = bytearray(data)
            changed[chosen.randrange(len(data))] = chosen.randrange(256)
            with contextlib.suppress(CorruptionError):
                read_struct(bytes(changed), "f", 0)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "other bytes at 0"),
        (b"\x19\xf8\xff\xff\xff\xff\x0f", "other bytes"),  # a list of 4 billion texts
        (b"\x18\xff\xff\xff\xff\x0f\x00", "4294967295 bytes at 6: 1 are left"),
        (b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", "bytes at 11: 1 are left"),
        (b"\x15" + b"\xff" * 10 + b"\x00", "other bytes"),  # a number without end
        (b"\x15\x80\x80\x80\x80\x10\x00", "2147483648 in a narrower integer"),
        (b"\x14\x80\x80\x04\x00", "32768 in a narrower integer"),
        (b"\x18\x02a", "2 bytes at 2: 1 are left"),
        (b"\x05\x81\x80\x04\x02\x00", "other bytes"),  # field -32,769
        (b"\x05\x80\x80\x08\x02\x00", "other bytes"),  # field 65,536
        (b"\x1e\x00\x00", "of type 14"),  # there is none
        (b"\x1b\x05\x88\x00", "other bytes"),  # a map of five pairs in a byte
        (b"\x1a\x3c" + b"\x2c" * 20, "other bytes"),  # a set of structs without end
        (b"\x19\x10", "other bytes"),  # a list of one that is not there
        (b"\x17\x00\x00", "8 bytes at 1: 2 are left"),
    ],
)
def test_bytes_that_are_no_struct(data: bytes, said: str) -> None:
    with pytest.raises(CorruptionError, match=said) as error:
        read_struct(data, "f", 7)
    assert (error.value.path, error.value.offset) == ("f", 7)


@pytest.mark.parametrize(
    "value",
    [
        b"\x08\xff\xff\x01\x03abc",  # Databricks' extension: text, its id as parquet-format has it
        b"\x08\xfe\xff\x03\x03abc",  # the same field by the protocol's own count
        b"\x2a\x25\x02\x04",  # a set of two numbers
        b"\x2b\x02\x85\x01a\x02\x01b\x04",  # a map of two texts to numbers
        b"\x2b\x00",  # a map of nothing
        b"\x2d" + bytes(range(16)),  # a UUID
        b"\x0c\xff\xff\x01\x15\x02\x2b\x01\xcb\x00\x00\x00",  # structs and maps in each other
    ],
)
def test_what_no_version_of_parquet_has_is_passed_over(value: bytes) -> None:
    """Fields of other types, and extensions, wherever they are among the others."""
    assert read_struct(b"\x15\x02" + value + b"\x00", "f", 0) == {1: (I32, 1)}
    nested = b"\x1c\x15\x02" + value + b"\x00" + b"\x00"
    assert read_struct(nested, "f", 0) == {1: (STRUCT, {1: (I32, 1)})}
    for short in range(2, len(value) + 2):
        with pytest.raises(CorruptionError, match="a Thrift struct"):
            read_struct((b"\x15\x02" + value)[:short], "f", 0)


def test_lists_of_what_parquet_does_not_have() -> None:
    sets = b"\x19\x2a\x25\x02\x04\x00\x15\x02\x00"  # two sets, of two numbers and of none
    assert read_struct(sets, "f", 0) == {1: (LIST, (10, [None, None])), 2: (I32, 1)}


def test_a_list_of_booleans_by_either_type() -> None:
    for kind in (b"\x21", b"\x22"):
        struct = read_struct(b"\x19" + kind + b"\x01\x02\x00", "f", 0)
        assert struct == {1: (LIST, (BOOL, [True, False]))}


@pytest.mark.parametrize(
    "struct", [{1: (99, 1)}, {1: (LIST, (99, [1]))}, {1: (BINARY, "text")}, {1: (I64, 1 << 64)}]
)
def test_what_no_struct_can_hold(struct: Struct) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)):
        write_struct(struct)


def test_structs_in_each_other_without_end() -> None:
    with pytest.raises(CorruptionError, match="nested more than"):
        read_struct(b"\x1c" * 100_000, "f", 7)
    with pytest.raises(CorruptionError, match="f: offset 7: expected the footer"):
        footer_of(bytes(write_struct({4: (LIST, (STRUCT, [{}]))})), "f", 7)


def test_a_schema_without_names() -> None:
    """What Thrift lets be missing is missing, and no `AttributeError`."""
    meta = read_struct(footer_in(file_of(ROWS)), "f", 0)
    for one in meta[2][1][1]:
        one.pop(4, None)
    meta[4] = LIST, (STRUCT, [])
    footer = footer_of(bytes(write_struct(meta)), "f", 0)
    assert footer.nullable == {""}
    assert {leaf.name for leaf in footer.leaves} == {b""}


def test_a_chunk_of_another_name() -> None:
    data = file_of(ROWS)
    made = with_footer(
        data, lambda _, path: {3: (LIST, (BINARY, [b"other"]))} if path == ("number",) else {}
    )
    assert isinstance(footer_or_error(made), CorruptionError)
