"""Tables of version 10, which differ from those of version 9 in log files and a few properties."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.hudi.log_tables import LogTable, Row
from support.hudi.metadata import WITH_METADATA

from lookupstore.errors import FormatError
from lookupstore.hudi import HudiTable, TableLookup
from lookupstore.hudi.options import names

ROWS = pa.table({"id": [1, 2, 3], "n": [10, 20, 30]})


def upgraded(path: Path, name: str = names.META_FIELDS_MODE, value: str = "ALL") -> None:
    """Change the version of a table as an upgrade by Java does, and a property."""
    (file,) = (path / ".hoodie").glob("*.properties")
    said = file.read_text().replace(f"{names.VERSION}=9", f"{names.VERSION}=10")
    file.write_text(f"{said}{name}={value}\n")


def test_copy_on_write_tables_are_read_and_not_written(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", ROWS, record_key="id")
    first = table.insert(ROWS).instant
    assert first is not None
    table.upsert({"id": [2], "n": [21]})
    wanted, changes = table.scan(), table.changes(first.position).read_all()
    upgraded(tmp_path / "t")
    new = HudiTable.open(tmp_path / "t")
    assert new.options.version == 10
    assert new.scan() == wanted
    assert new.scan(columns=ROWS.column_names, as_of=first) == ROWS
    assert new.changes(first.position).read_all() == changes
    assert TableLookup(new).lookup([2, 9])["n"].to_pylist() == [21, None]
    assert not new.verify().findings
    for write in (lambda: new.insert(ROWS), lambda: new.clean(), lambda: new.cluster(by="id")):
        with pytest.raises(FormatError, match=r"version is '10'; supported: 6, 8 or 9 for writing"):
            write()
    assert new.scan() == wanted


@pytest.mark.parametrize("mode", ["NONE", "COMMIT_TIME_ONLY", "none"])
def test_tables_without_all_meta_columns(tmp_path: Path, mode: str) -> None:
    table = HudiTable.create(tmp_path / "t", ROWS, record_key="id")
    table.insert(ROWS)
    upgraded(tmp_path / "t", value=mode)
    new = HudiTable.open(tmp_path / "t")
    assert new.scan(columns=ROWS.column_names) == ROWS
    with pytest.raises(FormatError, match="no meta columns"):
        new.incremental()
    with pytest.raises(FormatError, match="no record keys"):
        new.lookup([1])


def test_a_metadata_table_is_not_read(real_tables: Path, tmp_path: Path) -> None:
    """Its newest records may be in log files of another kind."""
    path = real_tables / next(name for name in WITH_METADATA if name.startswith("v9"))
    where = "txn_id = 'TXN-001'"
    before = HudiTable.open(path).explain_scan(where)
    assert before.statistics.count < before.partitions.count
    rows = HudiTable.open(path).scan()
    copy = Path(shutil.copytree(path, tmp_path / "t"))
    upgraded(copy)
    table = HudiTable.open(copy)
    after = table.explain_scan(where)
    assert after.statistics == after.partitions == before.partitions
    assert table.scan() == rows
    assert table.scan(filter=where) == rows.filter(pc.equal(rows["txn_id"], "TXN-001"))
    for file in (copy / ".hoodie" / "metadata" / "files").iterdir():
        file.write_bytes(b"another format")
    assert not [one for one in table.verify().findings if one.is_damage]


def test_log_files_and_sorted_layouts_are_refused_by_name(tmp_path: Path) -> None:
    merged = LogTable(tmp_path / "m", 9)
    row: Row = {"id": 1, "ts": 1, "value": "a"}
    merged.base("a-0", [row])
    upgraded(merged.path)
    for query_type in ("snapshot", "read_optimized"):
        with pytest.raises(FormatError, match=r"'MERGE_ON_READ'; supported: COPY_ON_WRITE in a ta"):
            HudiTable.open(merged.path, query_type=query_type)
    table = HudiTable.create(tmp_path / "t", ROWS, record_key="id")
    table.insert(ROWS)
    upgraded(tmp_path / "t")
    # Changes for CDC queries, in the format of version 10.
    (base,) = (tmp_path / "t").glob("*.parquet")
    native = base.with_name(f"{base.stem}_1.cdc.parquet")
    native.write_bytes(base.read_bytes())
    with pytest.raises(FormatError, match="a Parquet file that no Hudi table has"):
        HudiTable.open(tmp_path / "t").scan()
    native.unlink()
    upgraded(tmp_path / "t", names.STORAGE_LAYOUT, "LSM_TREE")
    with pytest.raises(FormatError, match=r"storage\.layout is 'LSM_TREE'; supported: default"):
        HudiTable.open(tmp_path / "t")
