"""What notebooks show of whatever has rows: its columns, and which are the key."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.hudi import HudiTable, TableLookup

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
    assert [name for name, _, role in cells if role == "key"] == [key]
    assert [name for name, *_ in cells] == shown.schema.names
    assert all(kind == str(shown.schema.field(name).type) for name, kind, _ in cells)


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
