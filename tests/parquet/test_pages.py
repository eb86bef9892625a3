"""Values replaced in pages: as Arrow would have written them, statistics included."""

from __future__ import annotations

import io
import struct
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lookupstore.errors import CorruptionError
from lookupstore.parquet._pages import KINDS, PlainChunk, check_pages, plain_values
from lookupstore.parquet.footer import ColumnChunk, ParquetFooter, read_footer
from lookupstore.parquet.new_file import EncodedFile, NewParquetFile

ROWS = 5000
TYPES = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.string(),
}


def values_of(kind: str, count: int, generator: np.random.Generator) -> pa.Array:
    """Return random values; among numbers that have them also those that are none, and -0."""
    if kind == "bytes":
        texts = [generator.bytes(generator.integers(0, 30)).hex() for _ in range(count)]
        return pa.array(texts, TYPES[kind])
    width = TYPES[kind].bit_width // 8
    numbers = np.frombuffer(generator.bytes(count * width), TYPES[kind].to_pandas_dtype()).copy()
    if kind in ("float", "double"):
        numbers[generator.random(count) < 0.1] = np.nan
        numbers[generator.random(count) < 0.1] = -0.0
        numbers[~np.isfinite(numbers)] = np.inf
    return pa.array(numbers, TYPES[kind])


def written(values: pa.Array, *, compression: str = "none", optional: bool = True) -> bytes:
    schema = pa.schema([pa.field("column", values.type, nullable=optional)])
    sink = io.BytesIO()
    pq.write_table(
        pa.table([values], schema=schema),
        sink,
        compression=compression,
        use_dictionary=False,
        write_page_checksum=True,
        store_schema=False,
        data_page_size=8192,
        write_batch_size=100,
    )
    return sink.getvalue()


def chunk_of(data: bytes, kind: str) -> tuple[ParquetFooter, ColumnChunk, PlainChunk]:
    footer = read_footer(pa.BufferReader(data), "f.parquet")
    (chunk,) = footer.groups[0].columns
    pages = PlainChunk(
        data[chunk.offset : chunk.offset + chunk.nbytes],
        "f.parquet",
        chunk.offset,
        kind=kind,
        rows=chunk.rows,
        most=chunk.plain_bytes,
        optional="column" in footer.nullable,
        codec=chunk.codec and pa.Codec(chunk.codec),
    )
    return footer, chunk, pages


def plain(values: pa.Array) -> bytes:
    """Return values as Parquet's Encodings.md has them."""
    if pa.types.is_string(values.type):
        texts = [text.encode() for text in values.to_pylist()]
        return b"".join(struct.pack("<I", len(text)) + text for text in texts)
    numbers = values.to_numpy(zero_copy_only=False)
    return bytes(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes())


def payloads(pages: PlainChunk) -> list[bytes]:
    """Return the pages of a chunk in which nothing is replaced, without their headers."""
    return [bytes(one) for one in pages.replace(np.zeros(0, np.int64), b"")[0][1::2]]


def any_places(count: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    return np.flatnonzero(generator.random(count) < generator.choice([0, 0.01, 0.3, 1]))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_values_are_as_they_are_in_pages(kind: str, seed: int) -> None:
    values = values_of(kind, 500, np.random.default_rng(seed))
    for part in (values, values[:0], values[3:490], values[499:]):
        assert plain_values(part).to_pybytes() == plain(part)
    assert plain_values(pa.array([], values.type)).to_pybytes() == b""


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip", "lz4"])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_replaced_values_are_as_if_arrow_had_written_them(
    kind: str, compression: str, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    for optional in (True, False):
        old = values_of(kind, ROWS, generator)
        places = any_places(ROWS, generator)
        new = values_of(kind, len(places), generator)
        order = np.arange(ROWS)
        order[places] = ROWS + np.arange(len(places))
        expected = pa.concat_arrays([old, new]).take(pa.array(order))
        data = written(old, compression=compression, optional=optional)
        footer, chunk, pages = chunk_of(data, kind)
        pieces, nbytes, least, greatest = pages.replace(places, plain_values(new))
        assert len(pieces) > 5  # several pages
        sink = io.BytesIO()
        made = NewParquetFile(sink, footer)
        stored = sum(map(len, pieces))
        said = chunk.with_values(stored, nbytes, least, greatest)
        assert 16 not in said.meta  # sizes of the old values
        made.append(ROWS, [(said, pieces)])
        made.append(ROWS, [(chunk, [data[chunk.offset : chunk.offset + chunk.nbytes]])])
        made.finish({b"a": b"b"})
        result = pq.ParquetFile(sink, page_checksum_verification=True)
        assert same_bits(result.read_row_group(0)["column"], expected)
        assert same_bits(result.read_row_group(1)["column"], old)
        assert result.metadata.metadata == {b"a": b"b"}
        found = result.metadata.row_group(0).column(0)
        arrows = pq.read_metadata(io.BytesIO(written(expected, optional=optional)))
        assert found.total_uncompressed_size == nbytes
        as_arrow = arrows.row_group(0).column(0).statistics
        if kind in ("float", "double"):  # of 0 and -0 the sign is Arrow's: the range is wider
            assert repr(found.statistics.min) == repr(as_arrow.min)
            assert repr(found.statistics.max) == repr(as_arrow.max)
        else:
            assert (found.statistics.min, found.statistics.max) == (as_arrow.min, as_arrow.max)
        assert found.statistics.null_count == 0


def same_bits(found: pa.ChunkedArray, expected: pa.Array) -> bool:
    if pa.types.is_floating(expected.type):
        return bool(found.to_numpy().tobytes() == expected.to_numpy().tobytes())
    return bool(found.combine_chunks().equals(expected))


@pytest.mark.parametrize("size", [4095, 4096, 4097])
def test_bounds_are_as_long_as_those_of_arrow(size: int) -> None:
    texts = pa.array(["b" * size, "c"])
    data = written(pa.array(["a", "d"]))
    footer, chunk, pages = chunk_of(data, "bytes")
    pieces, nbytes, least, greatest = pages.replace(np.arange(2), plain_values(texts))
    sink = io.BytesIO()
    made = NewParquetFile(sink, footer)
    said = chunk.with_values(sum(map(len, pieces)), nbytes, least, greatest)
    made.append(2, [(said, pieces)])
    made.finish({})
    found, arrows = (
        pq.read_metadata(pa.BufferReader(one)).row_group(0).column(0).statistics
        for one in (sink.getvalue(), written(texts))
    )
    assert found.has_min_max == arrows.has_min_max == (size <= 4096)
    assert (found.min, found.max) == (arrows.min, arrows.max)
    assert found.null_count == 0


def test_another_reader_reads_it(tmp_path: Any) -> None:
    values = pa.array([f"text {number}" for number in range(ROWS)])
    footer, chunk, pages = chunk_of(written(values, compression="snappy"), "bytes")
    pieces, nbytes, *ends = pages.replace(np.array([3, 4999]), plain(pa.array(["", "z"])))
    path = tmp_path / "new.parquet"
    with path.open("wb") as file:
        made = NewParquetFile(file, footer)
        made.append(ROWS, [(chunk.with_values(sum(map(len, pieces)), nbytes, *ends), pieces)])
        made.finish({})
    query = f'select count(*), min("column"), max("column") from \'{path}\''
    assert duckdb.sql(query).fetchall() == [(ROWS, "", "z")]


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip"])
@pytest.mark.parametrize("optional", [True, False])
def test_texts_are_those_that_arrow_reads(compression: str, optional: bool, seed: int) -> None:
    generator = np.random.default_rng(seed)
    for most in (0, 3, 31, 33, 400):
        sizes = generator.integers(0, most, 900, endpoint=True)
        texts = pa.array([generator.bytes(size).hex()[:size] for size in sizes], pa.string())
        data = written(texts, compression=compression, optional=optional)
        found = chunk_of(data, "bytes")[2].texts()
        found.validate(full=True)
        assert found.equals(texts)
    with pytest.raises(ValueError, match="no bytes"):
        chunk_of(written(pa.array([1, 2])), "int64")[2].texts()


def test_texts_that_are_not_as_many(seed: int) -> None:
    """More and fewer values than the footer says, and more bytes; nothing is written beyond."""
    data = written(values_of("bytes", 1000, np.random.default_rng(seed)))
    _, chunk, _ = chunk_of(data, "bytes")
    whole = data[chunk.offset : chunk.offset + chunk.nbytes]
    for rows, most, said in (
        (999, chunk.plain_bytes, "999 values in"),
        (1001, chunk.plain_bytes, "1001 values in the chunk"),
        (1 << 40, chunk.plain_bytes, "1099511627776 values"),
        (1000, chunk.plain_bytes // 2, "found more"),
        (500, 2000, "a page of at most 2000 bytes"),
    ):
        pages = PlainChunk(
            whole, "f.parquet", chunk.offset, kind="bytes", rows=rows, most=most, optional=True,
            codec=None,
        )  # fmt: skip
        with pytest.raises(CorruptionError, match=said):
            pages.texts()


def error_of(
    pages: PlainChunk, data: bytes, offset: int, content: list[bytes], fresh: bytes
) -> CorruptionError | None:
    try:
        check_pages(data, "f.parquet", offset)
        assert payloads(pages) == content
        pages.replace(np.array([0, 299]), fresh)
    except CorruptionError as error:
        return error
    return None


@pytest.mark.parametrize("kind", ["int64", "bytes"])
def test_damage_is_found(kind: str, seed: int) -> None:
    """No changed byte goes unseen, but in fields that no reader needs: the values are the same."""
    generator = np.random.default_rng(seed)
    values = values_of(kind, 300, generator)
    data = written(values)
    _, chunk, pages = chunk_of(data, kind)
    content = payloads(pages)
    fresh = plain(values[:2])
    whole = data[chunk.offset : chunk.offset + chunk.nbytes]
    refused = 0
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1 << generator.integers(8)
        damaged = PlainChunk(
            bytes(changed), "f.parquet", chunk.offset, kind=kind, rows=300,
            most=chunk.plain_bytes, optional=True, codec=None,
        )  # fmt: skip
        error = error_of(damaged, bytes(changed), chunk.offset, content, fresh)
        if error is not None:
            assert error.path == "f.parquet"
            assert chunk.offset <= error.offset <= chunk.offset + chunk.nbytes
            refused += 1
    assert refused > len(whole) * 0.8
    for size in range(len(whole)):
        cut = PlainChunk(
            whole[:size], "f.parquet", 0, kind=kind, rows=300, most=chunk.plain_bytes,
            optional=True, codec=None,
        )  # fmt: skip
        with pytest.raises(CorruptionError):
            payloads(cut)
        if kind == "bytes":
            with pytest.raises(CorruptionError):
                cut.texts()


def test_damage_is_found_in_every_page(seed: int) -> None:
    """A checksum is of one page: each has its own."""
    generator = np.random.default_rng(seed)
    data = written(values_of("int64", ROWS, generator))
    _, chunk, pages = chunk_of(data, "int64")
    whole = data[chunk.offset : chunk.offset + chunk.nbytes]
    check_pages(whole, "f.parquet", chunk.offset)
    contents = payloads(pages)
    assert len(contents) > 3
    for content in contents:
        begin = whole.index(content)
        changed = bytearray(whole)
        changed[begin + generator.integers(len(content))] ^= 1 << generator.integers(8)
        with pytest.raises(CorruptionError, match="another checksum") as raised:
            check_pages(bytes(changed), "f.parquet", chunk.offset)
        assert 0 < chunk.offset + begin - raised.value.offset < 200, "a page's header"


def test_values_that_do_not_fit_their_places() -> None:
    _, _, pages = chunk_of(written(pa.array([1, 2, 3])), "int64")
    one = plain(pa.array([7]))
    for places, fresh, said in (
        ([0, 1], one, "fewer values"),
        ([0], one + one, "differ in length"),
        ([3], one, "differ in length, or places are outside"),
    ):
        with pytest.raises(ValueError, match=said):
            pages.replace(np.array(places), fresh)


def test_what_is_not_plain_is_no_plain_chunk() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"column": ["a", "a"]}), sink, compression="none")
    footer, chunk, pages = chunk_of(sink.getvalue(), "bytes")
    assert not chunk.is_plain
    with pytest.raises(CorruptionError, match="a data page that is PLAIN"):
        payloads(pages)
    assert EncodedFile(pa.py_buffer(sink.getvalue())).footer.columns == footer.columns
