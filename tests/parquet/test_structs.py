"""Footers through structs and back: what Arrow wrote comes out as the same bytes."""

from __future__ import annotations

import io
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lookupstore.errors import CorruptionError
from lookupstore.parquet.footer import ColumnChunk, Footer, footer_bytes, footer_of, read_footer
from lookupstore.parquet.structs import I32, I64, STRUCT, get, read_struct, write_struct

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


def footer_or_error(data: bytes) -> Footer | CorruptionError:
    try:
        return read_footer(pa.BufferReader(data), "broken")
    except CorruptionError as error:
        return error


def footer_in(data: bytes) -> bytes:
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


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


@pytest.mark.parametrize("by", [-1, 1])
def test_a_chunk_that_is_not_in_the_file(by: int) -> None:
    data = file_of(ROWS)
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
        if isinstance(found, CorruptionError):
            assert found.path == "broken"
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
    """The filter of some million keys is longer than what Thrift takes for a sane text."""
    entry = random.randbytes(20 << 20)
    footer = read_footer(pa.BufferReader(file_of(ROWS)), "f")
    data = b"PAR1" + footer_bytes(footer, [], {b"filter": entry})
    assert pq.read_metadata(io.BytesIO(data)).metadata == {b"filter": entry}
    assert read_footer(pa.BufferReader(data), "f").groups == []


def test_structs_in_each_other_without_end() -> None:
    with pytest.raises(CorruptionError, match="in each other"):
        read_struct(b"\x1c" * 100_000, "f", 7)
    with pytest.raises(CorruptionError, match="f: offset 7: expected the footer"):
        footer_of(write_struct({4: (15, (12, [{}]))}), "f", 7)
