"""Dumps of Parquet and ORC files, beside what pyarrow says of them, and of damaged ones."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from lookupstore.columnar.dump import ColumnarLayout, columnar_layout, columnar_text
from lookupstore.errors import LookupStoreError
from lookupstore.source.reading import check_file
from lookupstore.storage.file_address import FileAddress

ROWS = pa.table(
    {
        "id": pa.array(range(900), pa.int32()),
        "a.b": [f"{i:04d}" if i % 3 else None for i in range(900)],
        "nested": [{"x": [i, None], "y": i / 3} for i in range(900)],
        "raw": [b"\xff" * 40] * 900,
    }
)


def layout(path: Path) -> ColumnarLayout:
    return columnar_layout(FileAddress.on(fs.LocalFileSystem(), str(path)))


def check_covered(found: ColumnarLayout) -> None:
    """Check that each byte of a file is in one region."""
    at = 0
    for region in found.regions:
        assert region.offset == at
        at += region.size
    assert at == found.size


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("extra", [{}, {"write_page_index": True}])
def test_regions_of_parquet_are_what_pyarrow_says(
    version: str, extra: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(
        ROWS, path, row_group_size=400, compression="zstd", data_page_version=version, **extra
    )
    found = layout(path)
    check_covered(found)
    metadata = pq.read_metadata(path)
    assert (found.ok, found.rows, found.size) == (True, 900, path.stat().st_size)
    assert found.writer == metadata.created_by
    assert found.columns[:2] == ("id: int32", "a.b: string")
    chunks = [one for one in found.regions if one.kind == "column chunk"]
    assert len(chunks) == metadata.num_row_groups * metadata.num_columns
    for i, one in enumerate(chunks):
        group, leaf = divmod(i, metadata.num_columns)
        said = metadata.row_group(group).column(leaf)
        assert (one.group, one.leaf, one.codec) == (group, said.path_in_schema, "zstd")
        assert (one.size, one.plain_size) == (
            said.total_compressed_size,
            said.total_uncompressed_size,
        )
        assert (one.values, one.nulls) == (said.num_values, said.statistics.null_count)
    assert [(one.least, one.greatest) for one in chunks if one.column == "id"] == [
        ("0", "399"), ("400", "799"), ("800", "899"),
    ]  # fmt: skip
    assert {one.greatest for one in chunks if one.column == "raw"} == {f"{'ff' * 11}f..."[-24:]}
    kinds = {one.kind for one in found.regions}
    assert kinds == {"magic", "column chunk", "footer", *(["other"] if extra else [])}
    text = columnar_text(found)
    assert text.startswith(f"Parquet file of {found.size:,} bytes, 900 rows: ok\n\noffset")
    assert "  a.b: string\n" in text
    assert "row group 0, nested.x.list.element" in text
    assert json.loads(json.dumps(found.to_json()))["regions"][1]["least"] == "0"


def test_regions_of_orc_are_its_stripes(tmp_path: Path) -> None:
    path = tmp_path / "rows.orc"
    orc.write_table(pa.concat_tables([ROWS] * 400), path, stripe_size=64 << 10)
    found = layout(path)
    check_covered(found)
    stripes = [one for one in found.regions if one.kind == "stripe"]
    assert len(stripes) == orc.ORCFile(path).nstripes > 1
    assert sum(one.values or 0 for one in stripes) == found.rows == 360_000
    assert found.ok
    assert columnar_text(found).startswith(f"ORC file of {found.size:,} bytes, 360,000 rows: ok\n")


def test_damage_is_said_where_it_is(tmp_path: Path, seed: int) -> None:
    path, bad = tmp_path / "rows.parquet", tmp_path / "bad.parquet"
    pq.write_table(ROWS, path, row_group_size=300, write_page_checksum=True, use_dictionary=False)
    content, whole = path.read_bytes(), layout(path)
    draw = random.Random(seed)
    in_chunks = 0
    for _ in range(150):
        at = draw.randrange(len(content))
        changed = bytearray(content)
        changed[at] ^= 1 << draw.randrange(8)
        bad.write_bytes(changed)
        found = layout(bad)
        with bad.open("rb") as raw, pa.PythonFile(raw) as file:
            try:
                check_file(file, "parquet", str(bad))
                reads = True
            except (LookupStoreError, pa.ArrowException, OSError, ValueError, TypeError):
                reads = False
        assert found.ok == reads, f"byte {at}"
        region = next(one for one in whole.regions if one.offset <= at < one.offset + one.size)
        if region.kind == "column chunk" and not reads:
            check_covered(found)  # of a footer that is wrong, chunks may lie anywhere
            (marked,) = [one for one in found.regions if one.errors]
            assert (marked.group, marked.column) == (region.group, region.column), f"byte {at}"
            assert marked.name == region.name or "or in another chunk of nested" in marked.errors[0]
            assert f"! {marked.name} at offset {marked.offset}: " in columnar_text(found)
            in_chunks += 1
    assert in_chunks > 30


def test_a_bound_that_is_not_utf8_is_shown_in_hex(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"text": ["least", "most"]}), path)
    content = path.read_bytes()
    at = content.rindex(b"least")
    path.write_bytes(content[:at] + b"l\xb0ast" + content[at + 5 :])
    found = layout(path)
    assert [one.least for one in found.regions if one.leaf == "text"] == ["6cb0617374"]
    assert found.ok
    assert pq.read_table(path)["text"].to_pylist() == ["least", "most"]


def test_each_damaged_row_group_is_marked(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(ROWS, path, row_group_size=300, write_page_checksum=True, use_dictionary=False)
    changed = bytearray(path.read_bytes())
    ids = [one for one in layout(path).regions if one.column == "id"]
    for region in (ids[0], ids[2]):
        changed[region.offset + region.size - 5] ^= 1
    path.write_bytes(changed)
    found = layout(path)
    assert [one.name for one in found.regions if one.errors] == [ids[0].name, ids[2].name]


@pytest.mark.parametrize("name", ["rows.parquet", "rows.orc"])
def test_a_file_that_was_cut_is_one_region(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    (pq if name.endswith("parquet") else orc).write_table(ROWS, path)
    content = path.read_bytes()
    for keep in (0, 1, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:keep])
        found = layout(path)
        assert [(one.kind, one.offset, one.size) for one in found.regions] == [("other", 0, keep)]
        assert (found.ok, found.rows) == (False, None)
        assert "! other at offset 0: " in columnar_text(found)
