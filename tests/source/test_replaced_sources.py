"""Sources whose files change between their listing and their last row: an error, or rows of one."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyarrow import fs, orc
from support.remote import Remote
from support.replaced import WAYS, replace_file, two_versions, write_in_place

import lookupstore
from lookupstore.errors import StaleStoreError
from lookupstore.source.opening import open_source
from lookupstore.storage.location import Location

ROWS = 150_000  # more than is read at a time


def parquet(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows, sink, compression="none", use_dictionary=False, row_group_size=10_000,
        write_statistics=False,
    )  # fmt: skip
    return bytes(sink.getvalue())


def orc_file(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    orc.write_table(rows, sink)
    return bytes(sink.getvalue())


def csv(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pa.csv.write_csv(rows, sink)
    return sink.getvalue()


def gzipped(rows: pa.Table) -> bytes:
    return gzip.compress(csv(rows), compresslevel=0, mtime=0)


MAKERS: dict[str, Callable[[pa.Table], bytes]] = {
    "a.parquet": parquet, "a.orc": orc_file, "a.csv": csv, "a.csv.gz": gzipped,
}  # fmt: skip


def rows_of(word: str) -> pa.Table:
    return pa.table({"id": range(ROWS), "v": [word] * ROWS})


@pytest.fixture(scope="module")
def contents() -> dict[str, tuple[bytes, bytes]]:
    """Give two files of each kind, which have one size."""
    found = {}
    for name, make in MAKERS.items():
        old, new = make(rows_of("old")), make(rows_of("new"))
        assert len(old) == len(new)
        found[name] = old, new
    return found


def put(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("way", WAYS)
def test_files_that_change_after_they_were_listed(
    tmp_path: Path, contents: dict[str, tuple[bytes, bytes]], name: str, way: str
) -> None:
    old, new = contents[name]
    path = put(tmp_path / name, old)
    source = open_source(path)
    WAYS[way](path, new)
    with pytest.raises(StaleStoreError, match=f"{name}: rewritten while it was read; read it"):
        next(iter(source.batches(["v"])))
    # Rows of the new file with the fingerprint of the old one would be taken for those of the old.
    assert source.fingerprint != open_source(path).fingerprint


@pytest.mark.parametrize("name", MAKERS)
def test_files_that_are_written_while_they_are_read(
    tmp_path: Path, contents: dict[str, tuple[bytes, bytes]], name: str
) -> None:
    old, new = contents[name]
    path = put(tmp_path / name, old)
    batches = iter(open_source(path).batches(["v"]))
    assert next(batches)["v"][0].as_py() == "old"
    write_in_place(path, new)
    with pytest.raises(StaleStoreError, match=f"{name}: rewritten while it was read"):
        list(batches)


@pytest.mark.parametrize("name", MAKERS)
def test_files_that_are_replaced_while_they_are_read(
    tmp_path: Path, contents: dict[str, tuple[bytes, bytes]], name: str
) -> None:
    old, new = contents[name]
    path = put(tmp_path / name, old)
    batches = iter(open_source(path).batches(["v"]))
    found = [next(batches)]
    replace_file(path, new)
    found += batches
    assert set(pa.Table.from_batches(found)["v"].unique().to_pylist()) == {"old"}


@pytest.mark.parametrize("way", WAYS)
def test_a_store_is_built_again_of_a_file_that_was_replaced(tmp_path: Path, way: str) -> None:
    """With the size and footer of the one before, and under its time."""
    old, new = two_versions()
    path = put(tmp_path / "a.parquet", old)

    def build() -> dict[str, Any] | None:
        with lookupstore.build(path, tmp_path / "s", key="id", overwrite=True) as store:
            return store.get(7)

    assert build() == build() == {"v": "old 000007"}
    WAYS[way](path, new)
    assert build() == {"v": "new 000007"}


def test_an_object_that_is_replaced_while_it_is_read(tmp_path: Path) -> None:
    old, new = parquet(rows_of("old")), parquet(rows_of("new"))
    path = put(tmp_path / "a.parquet", old)
    handler = Remote(tmp_path, "s3")
    place = Location("a.parquet", filesystem=fs.PyFileSystem(handler))
    source = open_source(place)
    handler.restart()
    assert sum(batch.num_rows for batch in source.batches(["v"])) == ROWS
    # This file system says nothing when it opens a file: it is asked then, and at the end.
    assert [name for name, _ in handler.done] == ["read", "info", "info"]
    batches = iter(source.batches(["v"]))
    next(batches)
    path.write_bytes(new)
    with pytest.raises(StaleStoreError, match=r"a\.parquet: rewritten while it was read"):
        list(batches)
