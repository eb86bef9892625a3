"""Read-optimized queries: rows of base files, of merge-on-read tables that Apache Hudi wrote."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.hudi.oracle import assert_same_rows, other_base_files, other_scan

from lookupstore.errors import FormatError
from lookupstore.hudi import HudiTable, TableLookup, TableOptions
from lookupstore.hudi.timeline.timeline import COMMIT

KEYS = {"mor_v6_nonpartitioned": "id", "mor_v9_txns_nonpart_nometa": "txn_id"}


def tree(path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def optimized(path: Path) -> HudiTable:
    return HudiTable.open(path, query_type="read_optimized")


@pytest.mark.parametrize("name", KEYS)
def test_every_instant_is_what_hudi_rs_reads_of_base_files(
    merge_on_read_tables: Path, name: str
) -> None:
    """Delta commits that insert and that change, a delete, a compaction, a clustering."""
    path = merge_on_read_tables / name
    table = optimized(path)
    times = [one.time for one in table.view().timeline.writes()]
    assert len(times) in (2, 12)
    for time in [None, *times]:
        assert_same_rows(table.scan(as_of=time), other_base_files(path, time))
    assert table.verify().findings == ()


def test_changes_that_only_log_files_have_are_not_shown(merge_on_read_tables: Path) -> None:
    path = merge_on_read_tables / "mor_v9_txns_nonpart_nometa"
    time = optimized(path).timeline()[1].time
    ours, all_rows = optimized(path).scan(as_of=time), other_scan(path, time)
    assert all_rows is not None
    kinds = [
        dict(zip(rows["txn_id"].to_pylist(), rows["txn_type"].to_pylist(), strict=True))
        for rows in (ours, all_rows)
    ]
    assert {key for key in kinds[0] if kinds[0][key] != kinds[1][key]} == {"TXN-001"}


def test_a_compaction_counts_when_it_is_completed(
    merge_on_read_tables: Path, tmp_path: Path
) -> None:
    path = Path(
        shutil.copytree(merge_on_read_tables / "mor_v9_txns_nonpart_nometa", tmp_path / "t")
    )
    (compaction,) = [
        one for one in optimized(path).timeline() if one.action == COMMIT and one.is_completed
    ]
    (path / ".hoodie/timeline" / compaction.file_name).unlink()
    pending = [one.action for one in optimized(path).view().timeline.pending()]
    assert pending == ["compaction"]
    groups = optimized(path).file_groups(compaction.time)
    assert compaction.time not in {one.time for group in groups for one in group.slices}
    rows = optimized(path).scan(as_of=compaction.time)
    assert_same_rows(rows, other_base_files(path, compaction.time))


@pytest.mark.parametrize("name", KEYS)
def test_keys_are_found_in_base_files(merge_on_read_tables: Path, name: str) -> None:
    path, key = merge_on_read_tables / name, KEYS[name]
    rows = optimized(path).scan()
    missing = -1 if pa.types.is_integer(rows.schema.field(key).type) else "none"
    keys = [*rows[key].to_pylist(), missing]
    asked = pa.table({key: pa.array(keys, rows.schema.field(key).type)})
    tagged = optimized(path).tag(asked)
    files = [*rows["_hoodie_file_name"].to_pylist()]
    assert tagged["_file_id"].to_pylist() == [*(name.split("_")[0] for name in files), None]
    with TableLookup(path, key=key, query_type="read_optimized") as lookup:
        name = lookup.value_schema.names[0]
        assert lookup.lookup(keys)[name].to_pylist() == [*rows[name].to_pylist(), None]


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.upsert(table.scan()),
        lambda table: table.bulk_insert(table.scan()),
        lambda table: table.delete_partition([""]),
        lambda table: table.rollback(),
        lambda table: table.savepoint(),
        lambda table: table.clean(retain_commits=1),
    ],
)
@pytest.mark.parametrize("name", KEYS)
def test_such_tables_are_not_changed(
    merge_on_read_tables: Path, name: str, change: Callable[[HudiTable], Any]
) -> None:
    path = merge_on_read_tables / name
    before = tree(path)
    with pytest.raises(FormatError, match=r"hoodie\.table\.type.*MERGE_ON_READ.*only be read"):
        change(optimized(path))
    assert tree(path) == before


@pytest.mark.parametrize("name", KEYS)
def test_what_changed_is_not_known_without_log_files(merge_on_read_tables: Path, name: str) -> None:
    with pytest.raises(FormatError, match="log files"):
        optimized(merge_on_read_tables / name).incremental()


def test_of_copy_on_write_tables_they_are_all_rows(real_tables: Path) -> None:
    path = real_tables / "v9_txns_simple_nometa"
    assert optimized(path).scan().equals(HudiTable.open(path).scan())


def test_other_queries_are_refused_by_name(real_tables: Path) -> None:
    path = real_tables / "v9_txns_simple_nometa"
    for ask in (HudiTable.open, TableLookup):
        with pytest.raises(ValueError, match=r"query_type is 'fast'.*'snapshot'.*'read_optimized'"):
            ask(path, query_type="fast")  # type: ignore[operator]


def test_options_keep_the_type_of_a_table(merge_on_read_tables: Path) -> None:
    options: TableOptions = optimized(merge_on_read_tables / "mor_v6_nonpartitioned").options
    assert options.table_type == "MERGE_ON_READ"
    assert "MERGE_ON_READ" in options.to_properties().values()


@pytest.mark.parametrize("name", KEYS)
def test_files_are_skipped_by_statistics_of_base_files(
    merge_on_read_tables: Path, tmp_path: Path, name: str
) -> None:
    path = Path(shutil.copytree(merge_on_read_tables / name, tmp_path / "t"))
    before = tree(path)
    table, key = optimized(path), KEYS[name]
    everything = table.scan()
    assert table.collect_statistics() == len(table.file_groups())
    absent = "~" if pa.types.is_string(everything[key].type) else -1
    for value in [*everything[key].to_pylist()[:3], absent]:
        found = table.scan(filter=(key, "=", value))
        assert found == everything.filter(pc.equal(everything[key], value))
    assert table.explain_scan((key, "=", absent)).statistics.count == 0
    assert table.verify().findings == ()
    now = tree(path)
    assert {one: now[one] for one in before} == before
    assert all(".lookupstore" in one.parts for one in now.keys() - before.keys())
