"""A column that ends too early in a damaged file is an error, and not fewer rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore.errors import LookupStoreError
from lookupstore.hudi import HudiTable
from lookupstore.hudi.file_group.reader import SliceRows
from lookupstore.hudi.view import read_view
from lookupstore.source.reading import read_file
from lookupstore.storage.location import Location

ROWS = 900
ONLY_ID = pa.schema({"id": pa.int64()})


def by_arrow(path: Path, column: str) -> int | None:
    """Return how many rows Arrow reads of one column, without a word; None: it raises."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            return sum(batch.num_rows for batch in file.iter_batches(columns=[column]))
    except (pa.ArrowException, OSError):
        return None


def silently_damaged(path: Path, column: str, start: int) -> Iterator[None]:
    """Flip bits of the header of a page, one at a time; stop where Arrow reads other rows."""
    content, silent = path.read_bytes(), 0
    for bit in range(8 * start, 8 * (start + 20)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        if by_arrow(path, column) not in (None, ROWS):
            silent += 1
            yield
    assert silent > 0


def test_headers_of_pages_that_end_a_column(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    rows = pa.table({"id": range(ROWS), "name": [f"{i:04d}" for i in range(ROWS)]})
    pq.write_table(rows, path, row_group_size=300, write_page_checksum=True, use_dictionary=False)
    for _ in silently_damaged(path, "id", 4):
        with pytest.raises(LookupStoreError, match=r"rows\.parquet"):
            lookupstore.build(path, tmp_path / "s", key="id", columns=[]).close()
        with path.open("rb") as raw, pa.PythonFile(raw) as file, pytest.raises(LookupStoreError):
            list(read_file(file, "parquet", ["id"], str(path)))


def test_base_files_of_hudi(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "name": pa.string()})
    table = HudiTable.create(tmp_path / "t", schema, record_key=["id"], name="users")
    table.insert(pa.table({"id": range(ROWS), "name": ["n"] * ROWS}))
    location = Location(tmp_path / "t")
    (file,) = read_view(location).files()
    path = tmp_path / "t" / file.path
    said = pq.read_metadata(path).row_group(0)
    names = [said.column(i).path_in_schema for i in range(said.num_columns)]
    chunk = said.column(names.index("id"))
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    for _ in silently_damaged(path, "id", start):
        for read in (
            lambda: SliceRows(location, file, ONLY_ID, threads=False).read_group(0, ["id"]),
            lambda: list(SliceRows(location, file, ONLY_ID, threads=False).batches(0)),
            lambda: table.scan(columns=["id"]),
            lambda: list(table.scan_batches(columns=["id"])),
        ):
            with pytest.raises(LookupStoreError, match=path.stem):
                read()


@pytest.mark.parametrize("columns", [["id"], ["id", "name"], []])
def test_whole_files_have_their_rows(columns: list[str], tmp_path: Path) -> None:
    rows = pa.table(
        {"id": range(ROWS), "name": [None] * ROWS, "l": [[i] * (i % 3) for i in range(ROWS)]}
    )
    rows = rows.set_column(1, "name", rows["name"].cast(pa.string()))
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=7)
    orc.write_table(rows, tmp_path / "rows.orc")
    for name, group in (("rows.parquet", None), ("rows.orc", None), ("rows.parquet", 3)):
        with (tmp_path / name).open("rb") as raw, pa.PythonFile(raw) as file:
            kind = name.partition(".")[2]
            groups = None if group is None else [group]
            found = list(read_file(file, kind, columns, name, groups=groups))
        assert sum(batch.num_rows for batch in found) == (ROWS if group is None else 7)


def test_dictionaries_inside_of_others_in_many_row_groups(tmp_path: Path) -> None:
    """Arrow puts those of one row group together, and not those of several."""
    words = pa.dictionary(pa.int32(), pa.string())
    rows = pa.table({"l": pa.array([[str(at % 5)] for at in range(ROWS)], pa.list_(words))})
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=7)
    with (tmp_path / "rows.parquet").open("rb") as raw, pa.PythonFile(raw) as file:
        found = [row for batch in read_file(file, "parquet", ["l"], "rows.parquet")
                 for row in batch["l"].to_pylist()]  # fmt: skip
    assert found == rows["l"].to_pylist()
