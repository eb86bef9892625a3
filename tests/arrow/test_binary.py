"""Bytes that C reads belong to their owner: they go when the owner drops them."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lookupstore.arrow._binary import as_binary
from lookupstore.orc._runs import greatest_byte, lengths_in, lz4_size
from lookupstore.parquet._pages import check_pages
from lookupstore.parquet.footer import read_footer
from lookupstore.parquet.structs import struct_at


def pages() -> bytes:
    """Return a column chunk as Arrow writes it."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), sink, compression="none", write_page_checksum=True)
    (chunk,) = read_footer(pa.BufferReader(sink.getvalue()), "f").groups[0].columns
    return sink.getvalue()[chunk.offset : chunk.offset + chunk.nbytes]


READERS: dict[str, tuple[Callable[[], bytes], Callable[[bytes], object]]] = {
    "lengths": (lambda: bytes([0, 0, 5]), lambda data: lengths_in(data, 1)),
    "runs": (lambda: bytes([0xFF, 5]), greatest_byte),
    "runs that are cut": (lambda: bytes([0xF0, 5]), greatest_byte),
    "a block of LZ4": (lambda: pa.compress(b"a" * 99, "lz4_raw", asbytes=True), lz4_size),
    "a struct": (lambda: bytes([0x15, 2, 0]), lambda data: struct_at(data, 0)),
    "pages": (pages, lambda data: check_pages(data, "f", 0)),
}


@pytest.mark.parametrize("what", READERS)
def test_who_has_read_bytes_does_not_keep_them(what: str) -> None:
    make, read = READERS[what]
    data = make()
    before = sys.getrefcount(data)
    for _ in range(3):
        try:
            read(data)
        except ValueError:
            assert what == "runs that are cut"
    assert sys.getrefcount(data) == before


@pytest.mark.parametrize("chunks", [[], [["a"]], [["a", "b"], [], ["c", None]]], ids=len)
def test_chunks_are_one_array(chunks: list[list[str | None]]) -> None:
    array = as_binary(pa.chunked_array(chunks, pa.string()))
    assert array.to_pylist() == [text and text.encode() for chunk in chunks for text in chunk]
