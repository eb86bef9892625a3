"""Errors of damaged Parquet files name the page, or the chunk, in which the damage is."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.errors import CorruptionError
from lookupstore.hudi import HudiTable
from lookupstore.source.damage import damaged_offset
from lookupstore.source.opening import open_source
from lookupstore.storage.file_address import FileAddress

ROWS = 3000
PAGE = 1024


def rows() -> pa.Table:
    generator = random.Random(7)
    values = [generator.getrandbits(60) for _ in range(ROWS)]
    return pa.table(
        {
            "id": range(ROWS),
            "value": values,
            "pair": [{"a": one, "b": -one} for one in values],
        }
    )


def write(path: Path, **options: Any) -> None:
    """Write three row groups with several pages each."""
    named = {"use_dictionary": False, "data_page_size": PAGE, "write_batch_size": 50, **options}
    pq.write_table(rows(), path, row_group_size=ROWS // 3, **named)


def start_of(path: Path, group: int, leaf: str) -> int:
    """Return the offset of a chunk, as Arrow finds it in the footer."""
    chunks = pq.read_metadata(path).row_group(group)
    every = [chunks.column(at) for at in range(chunks.num_columns)]
    (found,) = [one for one in every if one.path_in_schema == leaf]
    return int(found.data_page_offset)


def damage(path: Path, at: int, size: int = 1) -> None:
    content = bytearray(path.read_bytes())
    for one in range(at, at + size):
        content[one] ^= 0xFF
    path.write_bytes(content)


def offset_of(path: Path, names: list[str] | None, groups: list[int] | None = None) -> int | None:
    return damaged_offset(FileAddress.on(fs.LocalFileSystem(), str(path)), names, groups)


def read(path: Path, name: str) -> None:
    for _ in open_source(path).batches([name]):
        continue


def raised(read: Callable[[], object]) -> CorruptionError:
    with pytest.raises(CorruptionError) as caught:
        read()
    return caught.value


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip"])
@pytest.mark.parametrize("leaf", ["value", "pair.b"])
def test_the_page_of_a_wrong_byte(tmp_path: Path, compression: str, leaf: str, seed: int) -> None:
    path = tmp_path / "a.parquet"
    chosen = random.Random(seed)
    for group in range(3):
        write(path, compression=compression, write_page_checksum=True)
        start = start_of(path, group, leaf)
        # Far enough from the beginning for another page, and within the chunk.
        at = start + 2 * PAGE + chosen.randrange(2 * PAGE)
        # More than a header, in which some bytes mean nothing.
        damage(path, at, 150)
        name = leaf.partition(".")[0]
        found = raised(partial(read, path, name))
        assert found.path == str(path)
        assert start < found.offset <= at + 150
        assert at - found.offset < PAGE + 500
        assert offset_of(path, ["id"]) is None
        assert offset_of(path, [name], [(group + 1) % 3]) is None
        # A damaged header is found before Arrow reads anything, and needs no search.
        is_header = found.expected == "headers of pages"
        assert offset_of(path, None) == (None if is_header else found.offset)


def test_damaged_headers_of_row_groups_that_were_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, write_page_checksum=True)
    damage(path, start_of(path, 0, "value"), 40)
    at = start_of(path, 2, "value") + 3 * PAGE
    damage(path, at)
    found = offset_of(path, ["value"], [2])
    assert found is not None
    assert start_of(path, 2, "value") < found <= at


def test_a_page_that_cannot_be_decompressed(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for compression, magic in (("zstd", b"\x28\xb5\x2f\xfd"), ("gzip", b"\x1f\x8b")):
        write(path, compression=compression)
        start = start_of(path, 1, "value")
        at = path.read_bytes().index(magic, start + 3 * PAGE)
        damage(path, at, 2)
        found = raised(partial(read, path, "value"))
        assert start < found.offset < at
        assert at - found.offset < 120, "the header of the page"


def test_the_chunk_if_no_page_shows_its_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, compression="none")
    values = rows()["value"].to_numpy()[ROWS // 3 :]
    # Before the values, a page says how many bytes its definition levels have.
    damage(path, path.read_bytes().index(values[:4].tobytes()) - 6, 6)
    found = raised(partial(read, path, "value"))
    assert found.offset == start_of(path, 1, "value")
    assert offset_of(path, ["value"], [1]) == found.offset


def test_no_offset_is_guessed(tmp_path: Path) -> None:
    """Of a nested column, any chunk may be the damaged one; and a whole file has no damage."""
    path = tmp_path / "a.parquet"
    write(path, compression="none")
    assert offset_of(path, None) is None
    second = rows()["pair"].combine_chunks().field("b").to_numpy()[ROWS // 3 :]
    damage(path, path.read_bytes().index(second[:4].tobytes()) - 6, 6)
    assert raised(partial(read, path, "pair")).offset == 0
    assert offset_of(tmp_path / "nothing", None) is None
    path.write_bytes(path.read_bytes()[:-9])
    assert offset_of(path, None) is None


def test_every_reader_names_the_page(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, write_page_checksum=True, compression="none")
    start = start_of(path, 0, "value")
    at = start + 3 * PAGE
    damage(path, at)
    files = ColumnarFiles(path, key="id", columns=["value"])
    probed = ColumnarFiles(path, key="id", columns=["value"], build="never")
    for read in (
        lambda: lookupstore.build(path, tmp_path / "store", key="id"),
        files.verify,
        lambda: files.lookup([1]),
        lambda: probed.lookup([1]),
    ):
        assert start < raised(read).offset <= at


def test_reads_of_a_hudi_table_name_the_page(tmp_path: Path) -> None:
    values = pa.table({"id": range(ROWS), "value": rows()["value"]})
    table = HudiTable.create(tmp_path / "t", values, record_key="id")
    table.insert(values)
    (path,) = (tmp_path / "t").glob("*.parquet")
    start = start_of(path, 0, "value")
    at = path.read_bytes().index(values["value"].to_numpy()[-1:].tobytes())
    damage(path, at)
    for read in (table.scan, lambda: table.upsert(values.slice(0, 1)), lambda: table.lookup([1])):
        found = raised(read)
        assert found.path == str(path)
        assert start <= found.offset <= at
