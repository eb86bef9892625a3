"""Tables with partitions whose properties do not name the columns, as Java's client example makes.

The oracle is the same table before the property was taken out.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.hudi.versions import VERSIONS

from lookupstore.columnar import ColumnarFiles
from lookupstore.errors import FormatError
from lookupstore.hudi import HudiTable, TableLookup
from lookupstore.hudi.options import PARTITION
from lookupstore.hudi.timeline.timeline import COMMIT
from lookupstore.hudi.view import TableView

ROWS = pa.table({"id": [1, 2, 3], "day": ["a", "b", "b"], "value": ["x", "y", "z"]})


def unnamed(path: Path, version: int) -> tuple[HudiTable, pa.Table, list[str]]:
    """Return a table without the property, and what it was with it."""
    table = HudiTable.create(path, ROWS, record_key="id", partition_by="day", version=version)
    table.insert(ROWS)
    table.upsert(ROWS.slice(1, 1))
    rows = table.scan()
    positions = [one.position for one in table.timeline() if one.action == COMMIT]
    (file,) = (path / ".hoodie").glob("*.properties")
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(one for one in lines if not one.startswith(PARTITION)))
    return HudiTable.open(path), rows, positions


@pytest.mark.parametrize("version", VERSIONS)
def test_every_read(tmp_path: Path, version: int) -> None:
    table, rows, positions = unnamed(tmp_path / "t", version)
    assert table.options.partition_by == ()
    assert table.scan() == rows
    assert table.scan(filter="day = 'b'") == rows.filter(pa.array([False, True, True]))
    assert [one.id.partition for one in table.file_groups()] == ["a", "b"]
    assert table.incremental(positions[0])["id"].to_pylist() == [2]
    assert table.changes(positions[0]).read_all().num_rows == 0
    assert table.tag([2, 9], index="global-bloom")["_partition"].to_pylist() == ["b", None]
    assert table.tag(rows)["_partition"].to_pylist() == ["a", "b", "b"]
    with TableLookup(tmp_path / "t") as lookup:
        assert lookup.lookup([3], ["value"]).to_pylist() == [{"value": "z"}]
    with ColumnarFiles(str(tmp_path / "t"), key="id") as files:
        assert files.lookup([3], ["value"]).to_pylist() == [{"value": "z"}]
    assert table.verify().is_ok


def test_every_write_is_refused_by_name(tmp_path: Path) -> None:
    table, rows, _ = unnamed(tmp_path / "t", 9)
    expected = f"commits wrote to the partition '[ab]', but the table has no {PARTITION}"
    for dry_run in (True, False):
        with pytest.raises(FormatError, match=f"{expected}.*write with Apache Hudi"):
            table.upsert(ROWS, dry_run=dry_run)
        with pytest.raises(FormatError, match=expected):
            table.delete([1], dry_run=dry_run)
    with pytest.raises(FormatError, match=f"{expected}.*pass an index for all partitions"):
        table.tag([1])
    assert table.scan() == rows
    # The remedy.
    (file,) = (tmp_path / "t/.hoodie").glob("*.properties")
    file.write_text(file.read_text() + f"{PARTITION}=day\n")
    HudiTable.open(tmp_path / "t").upsert(ROWS.slice(0, 1))
    assert HudiTable.open(tmp_path / "t").scan().num_rows == 3


def test_rows_at_the_top_count_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a writer that did not look put there is of the table, too."""
    table, rows, _ = unnamed(tmp_path / "t", 9)
    with monkeypatch.context() as patched:
        patched.setattr(TableView, "check_partitions", lambda *_: None)
        table.upsert(ROWS.slice(0, 1))
    found = table.scan().sort_by("_hoodie_partition_path")
    assert found["_hoodie_partition_path"].to_pylist() == ["", "a", "b", "b"]
    assert found.slice(1) == rows


def test_other_folders_are_no_partitions(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", ROWS, record_key="id")
    (tmp_path / "t/exports").mkdir()
    table.insert(ROWS)
    table.upsert(ROWS)
    assert table.view().unnamed_partition is None
    assert table.scan().num_rows == 3
