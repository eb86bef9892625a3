"""Footers checked in C, beside the same rules in Python; chunks are decoded where they are used."""

from __future__ import annotations

import io
import random
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.footers import footer_in, read_struct, with_footer

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.parquet import structs
from lookupstore.parquet.claims import look_at_claims
from lookupstore.parquet.footer import (
    ColumnChunk,
    Leaf,
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
    items,
    write_struct,
)

ROWS = pa.table(
    {
        "number": pa.array([3, None, 1], pa.int32()),
        "text": ["b", "ä", None],
        "nested": [{"text": "x", "list": [1, 2]}, None, {"text": None, "list": []}],
        "price": pa.array([Decimal(1), None, Decimal(3)], pa.decimal128(9, 2)),
        "flag": [True, False, None],
    }
)


def of_arrow(**how: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(ROWS, sink, row_group_size=2, **how)
    return sink.getvalue()


def of_polars() -> bytes:
    sink = io.BytesIO()
    pl.from_arrow(ROWS).write_parquet(sink, row_group_size=2)  # type: ignore[union-attr]
    return sink.getvalue()


def of_duckdb(folder: Path) -> bytes:
    rows = ROWS  # noqa: F841
    path = folder / "duckdb.parquet"
    duckdb.connect().execute(f"copy (from rows) to '{path}' (format parquet)")
    return path.read_bytes()


def files(folder: Path) -> list[bytes]:
    return [
        of_arrow(),
        of_arrow(compression="none", write_page_index=True, data_page_version="2.0"),
        of_arrow(write_statistics=False, use_dictionary=False, store_schema=False),
        of_polars(),
        of_duckdb(folder),
    ]


# ---- the rules in Python, on a struct that is decoded as a whole --------------------------------


def chunk_of(struct: Struct) -> ColumnChunk | None:
    """Return a chunk that says where it is, and of which column."""
    chunk = ColumnChunk(get(struct, 3, STRUCT) or {})
    numbers = [get(chunk.meta, field, I64) for field in (5, 6, 7, 9)]
    is_whole = all(one is not None and one >= 0 for one in numbers[:3]) and numbers[3] is not None
    is_here = not get(struct, 1, BINARY) and get(struct, 8, STRUCT) is None
    return chunk if is_here and is_whole and chunk.offset >= 0 and chunk.path else None


def fits(chunk: ColumnChunk, leaf: Leaf, rows: int) -> bool:
    if (chunk.kind, chunk.name) != (leaf.kind, leaf.name):
        return False
    if chunk.rows < rows or (chunk.rows > rows and not leaf.repetition):
        return False
    bounds: Struct = get(chunk.meta, 12, STRUCT) or {}
    for field in (1, 2, 5, 6):
        is_cut = field in bounds and len(get(bounds, field, BINARY) or b"") < leaf.width
        if is_cut and leaf.kind != 7:
            return False
    sizes: Struct = get(chunk.meta, 16, STRUCT) or {}
    levels = [len((get(sizes, field, LIST) or (I64, []))[1]) for field in (2, 3)]
    most = leaf.repetition, leaf.definition
    return not (1 in sizes and leaf.kind != 6) and all(
        found in (0, one + 1) for found, one in zip(levels, most, strict=True)
    )


def by_the_rules(data: bytes, end: int | None) -> list[tuple[int, list[Struct]]] | None:
    """Return rows and chunks of each row group; None: the footer is damaged."""
    try:
        meta = read_struct(data, "f", 0)
    except CorruptionError:
        return None
    leaves = ParquetFooter(meta, [], {}).leaves
    found = []
    for group in items(meta, 4, STRUCT):
        rows = get(group, 3, I64)
        chunks = [chunk_of(one) for one in items(group, 1, STRUCT)]
        if rows is None or len(chunks) != len(leaves):
            return None
        for chunk, leaf in zip(chunks, leaves, strict=True):
            if chunk is None or not fits(chunk, leaf, rows):
                return None
            is_nothing = chunk.rows == chunk.nbytes == 0
            inside = end is None or 4 <= chunk.offset <= chunk.offset + chunk.nbytes <= end
            if not (is_nothing or inside):
                return None
        found.append((rows, [one.meta for one in chunks if one is not None]))
    return found


def same_as_by_the_rules(data: bytes, end: int | None) -> bool:
    """Compare what is found; return whether there is a footer."""
    wanted = by_the_rules(data, end)
    try:
        if end is None:
            footer = footer_of(data, "f", 0)
        else:
            file = b"PAR1" + bytes(end - 4) + data + len(data).to_bytes(4, "little") + b"PAR1"
            footer = read_footer(pa.BufferReader(file), "f")
    except (CorruptionError, FormatError):
        assert wanted is None
        return False
    assert wanted is not None
    assert [(one.rows, [chunk.meta for chunk in one.columns]) for one in footer.groups] == wanted
    for group in footer.groups:
        for total, field in ((group.nbytes, 7), (group.plain_bytes, 6)):
            sizes = [chunk.meta[field][1] for chunk in group.columns]
            assert total == min(sum(sizes), (1 << 63) - 1)
    meta = read_struct(data, "f", 0)
    assert footer.meta == {field: one for field, one in meta.items() if field not in (4, 5)}
    return True


def test_files_of_several_writers(tmp_path: Path) -> None:
    for data in files(tmp_path):
        footer = footer_in(data)
        assert same_as_by_the_rules(footer, None)
        assert same_as_by_the_rules(footer, len(data) - 8 - len(footer))


def test_any_bytes_have_the_same_verdict(tmp_path: Path, seed: int) -> None:
    chosen = random.Random(seed)
    verdicts = {True: 0, False: 0}
    for data in files(tmp_path):
        footer = footer_in(data)
        end = len(data) - 8 - len(footer)
        for _ in range(80):
            changed = bytearray(footer)
            for _ in range(chosen.choice([1, 1, 2, 5])):
                changed[chosen.randrange(len(changed))] = chosen.randrange(256)
            if chosen.random() < 0.1:
                del changed[chosen.randrange(len(changed)) :]
            verdicts[same_as_by_the_rules(bytes(changed), chosen.choice([None, end]))] += 1
    assert min(verdicts.values()) > 20


# What may be instead of the value of a field.
VALUES: list[tuple[int, Any]] = [
    *[(I64, one) for one in (0, 1, 2, 3, -1, 50, -(1 << 63), (1 << 63) - 1)],
    *[(kind, one) for kind in (I32, I16) for one in (-1, 0, 2, 6, 7)],
    *[(BINARY, bytes(size)) for size in (0, 1, 4, 8)],
    (BOOL, True),
    *[(LIST, (I64, [0] * count)) for count in (0, 1, 2, 3, 4)],
    (LIST, (BINARY, [b"nested", b"text"])),
    (LIST, (BINARY, [])),
    (LIST, (STRUCT, [])),
    (LIST, (STRUCT, [{}])),
    (LIST, (BOOL, [True, False])),
    (STRUCT, {}),
    *[(STRUCT, {field: (BINARY, bytes(4))}) for field in (1, 2, 5, 6)],
    *[(STRUCT, {field: (LIST, (I64, [1, 1]))}) for field in (2, 3)],
]


def structs_in(value: tuple[int, Any]) -> list[Struct]:
    kind, held = value
    if kind == STRUCT:
        return [held, *(one for field in held.values() for one in structs_in(field))]
    if kind == LIST:
        return [one for item in held[1] for one in structs_in((held[0], item))]
    return []


def test_any_fields_have_the_same_verdict(tmp_path: Path, seed: int) -> None:
    """Fields that are missing, of other types, or have other values."""
    chosen = random.Random(seed)
    verdicts = {True: 0, False: 0}
    for data in files(tmp_path):
        footer = footer_in(data)
        end = len(data) - 8 - len(footer)
        for _ in range(80):
            meta = read_struct(footer, "f", 0)
            # Half of the changes are in the row groups.
            where = chosen.choice([(STRUCT, meta), meta[4]])
            struct = chosen.choice(structs_in(where))
            field = chosen.choice([*struct, *range(1, 17)])
            if chosen.random() < 0.2:
                struct.pop(field, None)
            else:
                struct[field] = chosen.choice(VALUES)
            changed = bytes(write_struct(meta))
            verdicts[same_as_by_the_rules(changed, chosen.choice([None, end]))] += 1
    assert min(verdicts.values()) > 20


@pytest.mark.parametrize("value", [b"\x0a\x0a\x08", b"\x0b\x0a\x00", b"\x0d\x0a" + bytes(16)])
def test_bounds_of_types_that_parquet_does_not_have_are_none(value: bytes) -> None:
    """Field 5 of statistics as a set, a map or a UUID is passed over, in C as in Python."""
    footer = footer_in(of_arrow(compression="none"))
    meta = read_struct(footer, "f", 0)
    chunk = meta[4][1][1][0][1][1][1][0]
    marked = {9: (BINARY, b"mark")}
    chunk[3][1][12] = STRUCT, marked
    made = bytes(write_struct(meta)).replace(b"\x98\x04mark", value)
    assert value in made
    assert same_as_by_the_rules(made, None)


@pytest.mark.parametrize("field", [2, 4])
def test_of_a_field_that_comes_twice_the_last_one_counts(field: int) -> None:
    footer = footer_in(of_arrow())
    meta = read_struct(footer, "f", 0)
    rest = {one: value for one, value in meta.items() if one != field}
    for other in ((LIST, (STRUCT, [])), (I32, 7)):
        for order, is_whole in (((other, meta[field]), True), ((meta[field], other), False)):
            data = bytes(write_struct(rest))[:-1]
            for kind, value in order:
                # A field whose id is said, not counted from the one before.
                one = bytes(write_struct({field: (kind, value)}))
                data += bytes([kind, 2 * field]) + one[1:-1]
            found = same_as_by_the_rules(data + b"\0", None)
            assert found == (is_whole or field == 4)


def test_columns_of_a_row_group_that_come_twice() -> None:
    footer = footer_in(of_arrow())
    meta = read_struct(footer, "f", 0)
    group = meta[4][1][1][0]
    whole = bytes(write_struct({1: group[1]}))[1:-1]
    empty = bytes(write_struct({1: (LIST, (STRUCT, [{}]))}))[1:-1]
    rows = bytes(write_struct({3: group[3]}))[1:-1]
    rest = bytes(write_struct({one: value for one, value in meta.items() if one != 4}))[:-1]
    for columns, is_whole in (((empty, whole), True), ((whole, empty), False)):
        data = b"".join(bytes([LIST, 2]) + one for one in columns) + bytes([I64, 6]) + rows + b"\0"
        made = rest + bytes([LIST, 8]) + bytes([1 << 4 | STRUCT]) + data + b"\0"
        assert same_as_by_the_rules(made, None) == is_whole


def test_more_row_groups_than_bytes() -> None:
    """Counts that would take gigabytes are refused before memory is taken for them."""
    columns = [{3: (I32, 0), 4: (BINARY, b"c"), 1: (I32, 1)}] * 1000
    root = {4: (BINARY, b"schema"), 5: (I32, 1000)}
    meta: Struct = {
        2: (LIST, (STRUCT, [root, *columns])),
        4: (LIST, (STRUCT, [{3: (I64, 0)}] * 100_000)),
    }
    with pytest.raises(CorruptionError, match="column chunks as the schema has them"):
        footer_of(bytes(write_struct(meta)), "f", 0)


# ---- only what is used is decoded ---------------------------------------------------------------


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give the places of the structs that are decoded."""
    places: list[int] = []
    really = structs.struct_at

    def struct_at(data: bytes, place: int) -> Mapping[int, Any]:
        places.append(place)
        return really(data, place)

    monkeypatch.setattr("lookupstore.parquet.footer.struct_at", struct_at)
    return places


def test_a_chunk_is_decoded_when_it_is_used(decoded: list[int]) -> None:
    footer = read_footer(pa.BufferReader(of_arrow()), "f")
    assert sum(group.nbytes for group in footer.groups) > 0
    assert not decoded
    columns = footer.groups[1].columns
    assert columns[0].path == ("number",)
    assert columns[0] is columns[0]
    assert columns[-1].path == ("flag",)
    assert len(decoded) == 2
    assert [one.name for one in columns[1:3]] == [b"text", b"text"]
    assert [one.name for one in columns] == [one.name for one in footer.leaves]
    with pytest.raises(IndexError):
        columns[len(columns)]


def test_claims_decode_the_chunks_of_columns_that_are_read(decoded: list[int]) -> None:
    data = of_arrow()
    for names, count in ((["text"], 1), (["nested", "flag"], 3), ([], 0)):
        decoded.clear()
        look_at_claims(pa.BufferReader(data), names, "f")
        assert len(decoded) == 2 * count, "of two row groups"


def test_claims_are_of_columns_that_arrow_reads() -> None:
    """Arrow finds chunks by the schema, whatever outer names they have."""
    data = of_arrow(use_dictionary=False)
    other: Struct = {3: (LIST, (BINARY, [b"other", b"text"]))}
    made = with_footer(data, lambda _, path: other if path == ("nested", "text") else {})
    assert pq.read_table(io.BytesIO(made), columns=["nested"]).num_rows == 3
    claims = [look_at_claims(pa.BufferReader(one), ["nested"], "f")[1] for one in (data, made)]
    assert claims[0] == claims[1]


def test_a_footer_is_written_of_chunks_that_were_not_used() -> None:
    data = of_arrow()
    footer = read_footer(pa.BufferReader(data), "f")
    groups = [
        (one.rows, [chunk.moved(chunk.offset) for chunk in one.columns]) for one in footer.groups
    ]
    body = data[: -8 - len(footer_in(data))]
    made = body + footer_bytes(footer, groups, footer.entries)
    assert pq.read_table(io.BytesIO(made)).equals(ROWS)
