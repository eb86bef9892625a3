"""What notebooks show of whatever has rows: its columns, and which are the key."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore.columnar import ColumnarFiles, Levels
from lookupstore.errors import CorruptionError
from lookupstore.hudi import HudiTable, TableLookup
from lookupstore.sst import Reader

ROWS = pa.table({"<id>": [1, 2], "b & c": ["x", "y"]})


@pytest.mark.parametrize("kind", ["store", "files", "table", "lookup"])
def test_columns_and_key(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "a <b>"
    folder.mkdir()
    key = "<id>"
    if kind == "store":
        shown = lookupstore.build(ROWS, folder / "s", key=key)
    elif kind == "files":
        pq.write_table(ROWS, folder / "f.parquet")
        shown = ColumnarFiles(folder / "f.parquet", key=key)
    else:
        key = "id"  # names of Avro are words
        rows = ROWS.rename_columns(["id", "b"])
        table = HudiTable.create(folder / "t", rows.schema, record_key=["id"])
        table.upsert(rows)
        shown = table if kind == "table" else TableLookup(folder / "t", key="id")
    page = ElementTree.fromstring(shown._repr_html_())
    caption = page.find("caption")
    assert caption is not None
    assert str(folder) in (caption.text or "")
    cells = [[cell.text or "" for cell in row] for row in page.findall("tbody/tr")]
    assert [name for name, _, role, *_ in cells if role == "key"] == [key]
    assert [name for name, *_ in cells] == shown.schema.names
    assert all(kind == str(shown.schema.field(name).type) for name, kind, *_ in cells)
    heads = [cell.text or "" for cell in page.findall("thead/tr/th")]
    assert heads == ["column", "type", "", "row 1", "row 2"]
    values = {name: row for name, _, _, *row in cells if not name.startswith("_hoodie")}
    for name, row in zip(values, ROWS.to_pydict().values(), strict=True):
        assert values[name] == [str(value) for value in row]


def test_captions_count_one_file_and_many(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.parquet" for number in range(3)]
    for number, path in enumerate(paths):
        pq.write_table(pa.table({"id": [number]}), path)
    for files, said in ((paths[:1], "1 file"), (paths, "3 files")):
        assert f": {said}, {len(files)} row" in ColumnarFiles(files, key="id")._repr_html_()
    one = Levels(paths[0], key="id")
    assert f"{tmp_path}/0.parquet: 1 file (by level: 1), 1 row, key id" in one._repr_html_()
    more = Levels(paths[0], [paths[1:]], key="id")
    assert ": 3 files (by level: 1, 2), 3 rows, key id" in more._repr_html_()


def test_columns_are_shown_whatever_became_of_the_rows(
    tmp_path: Path,
) -> None:
    """A store with a damaged block, and a file that has changed."""
    store = lookupstore.build(ROWS, tmp_path / "s", key="<id>")
    (path,) = (tmp_path / "s" / "data").iterdir()
    damaged = bytearray(path.read_bytes())
    damaged[3] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(CorruptionError):
        lookupstore.open(tmp_path / "s").scan().read_all()
    pq.write_table(ROWS, tmp_path / "f.parquet")
    files = ColumnarFiles(tmp_path / "f.parquet", key="<id>")
    pq.write_table(ROWS.slice(0, 1), tmp_path / "f.parquet")
    store.close()
    for shown in (lookupstore.open(tmp_path / "s"), files):
        page = ElementTree.fromstring(shown._repr_html_())
        assert [cell.text or "" for cell in page.findall("thead/tr/th")] == ["column", "type", ""]
        assert len(page.findall("tbody/tr")) == len(shown.schema.names)


def test_funnels(tmp_path: Path) -> None:
    """What tags and scans left at each step says the same as its text."""
    table = HudiTable.create(tmp_path / "t", pa.schema({"id": pa.int64()}), record_key="id")
    table.upsert(pa.table({"id": list(range(1500))}))
    table.collect_statistics()
    tagged = table.explain_tag([3, 4, 5000])
    scanned = table.explain_scan(pc.field("id") < -1)
    for shown in (tagged, scanned):
        page = ElementTree.fromstring(f"<p>{shown._repr_html_()}</p>")
        cells = [[cell.text or "" for cell in row] for row in page.findall("table/tbody/tr")]
        lines = [line.split() for line in str(shown).splitlines()]
        assert [row[:2] for row in cells] == [line[:2] for line in lines[: len(cells)]]
        notes = [note.text for note in page.findall("div")]
        assert notes == [line.strip() for line in str(shown).splitlines()[len(cells) :]]
    assert "<td>found</td><td>2</td>" in tagged._repr_html_()
    assert "id &lt; -1" in scanned._repr_html_()


def test_files_and_writes(tmp_path: Path) -> None:
    """A list of file groups, a write, and a sorted file are tables as well."""
    schema = pa.schema({"id": pa.int64(), "day": pa.string()})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id", partition_by="day")
    rows = pa.table({"id": list(range(1200)), "day": ["<b>", "c"] * 600})
    table.insert(rows)
    written = table.upsert(rows)
    tried = table.upsert(rows.slice(0, 4), dry_run=True)
    groups = table.file_groups()
    shown = [groups, written, tried]
    pages = [ElementTree.fromstring(one._repr_html_()) for one in shown]
    cells = [[[cell.text or "" for cell in row] for row in page.iter("tr")] for page in pages]
    heads, *lines = cells[0]
    assert heads == ["partition", "file id", "instant", "bytes", "slices"]
    assert [(line[1], line[3], line[4]) for line in lines] == [
        (one.id.file_id, f"{one.current.bytes:,}", "2") for one in groups
    ]
    assert "&lt;b&gt;" in groups._repr_html_()
    said = dict(cells[1])
    assert said["instant"] == written.instant.time
    assert (said["rows_read"], said["rows_updated"]) == ("1,200", "1,200")
    assert said["files_rewritten"] == ", ".join(written.files_rewritten)
    assert "errors" not in said
    assert "read: " in said["seconds"]
    assert dict(cells[2])["instant"] == "none: it was only tried"


def test_sorted_files(tmp_path: Path) -> None:
    lookupstore.build(ROWS, tmp_path / "s", key="<id>").close()
    (path,) = (tmp_path / "s").rglob("*.sst")
    with Reader(path) as reader:
        page = ElementTree.fromstring(reader._repr_html_())
        said = {row[0].text: row[1].text for row in page.iter("tr")}
        assert said["key_schema"] == "<id>: int64"
        assert said["file_bytes"] == f"{path.stat().st_size:,}"
        caption = page.find("caption")
        assert caption is not None
        assert caption.text == repr(reader)[1:-1]
