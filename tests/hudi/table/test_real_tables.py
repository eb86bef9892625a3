"""What Apache Hudi wrote, changed by every operation of ours; hudi-rs reads what we read.

They are upserted in write/test_write.py, read in read/test_read.py; their filters are in
file_group/test_bloom.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from support.hudi.kills import leftovers
from support.hudi.oracle import assert_same_rows, other_scan
from support.hudi.written import check_files

import lookupstore
from lookupstore.errors import FormatError
from lookupstore.hudi import HudiTable, TableLookup, WriteOptions
from lookupstore.hudi.meta_columns import META_COLUMNS

NAMES = [
    "v6_complexkeygen_hivestyle",
    "v6_nonpartitioned",
    "v8_nonpartitioned",
    "v9_txns_complex_meta",
    "v9_txns_nonpart_meta",
    "v9_txns_simple_nometa",
]


def commits(table: HudiTable) -> list[str]:
    return [one.time for one in table.timeline() if one.is_completed and one.is_write]


def by_key(rows: pa.Table) -> dict[tuple[str, str], dict[str, object]]:
    """Return the data columns of each row by partition path and record key."""
    found = {
        (row["_hoodie_partition_path"], row["_hoodie_record_key"]): {
            name: value for name, value in row.items() if name not in META_COLUMNS
        }
        for row in rows.to_pylist()
    }
    assert len(found) == rows.num_rows
    return found


def both(path: Path, as_of: str | None = None) -> dict[tuple[str, str], dict[str, object]]:
    """Return the rows that both readers see."""
    ours = HudiTable.open(path).scan(as_of=as_of)
    assert_same_rows(ours, other_scan(path, as_of))
    return by_key(ours)


def opened(path: Path) -> HudiTable:
    """Open a table, and let the metadata table go, if there is one."""
    table = HudiTable.open(path)
    table.delete(table.scan().slice(0, 0), options=WriteOptions(metadata="drop"))
    return table


def test_columnar_files_of_tables_with_log_files_are_refused(merge_on_read_tables: Path) -> None:
    """What log files have is missed by nobody who did not ask for that; see read_optimized."""
    path = merge_on_read_tables / "mor_v6_nonpartitioned"
    with pytest.raises(FormatError, match=r"MERGE_ON_READ.*query_type='read_optimized'"):
        lookupstore.ColumnarFiles(path, key="id")
    rows = {row["id"]: row for row in HudiTable.open(path).scan().to_pylist()}
    with TableLookup(path) as lookup:
        found = lookup.lookup(list(rows), ["name", "isActive"]).to_pylist()
    assert found == [{name: row[name] for name in ("name", "isActive")} for row in rows.values()]


@pytest.mark.few(2)
@pytest.mark.parametrize("name", NAMES)
def test_commits_of_apache_hudi_are_rolled_back_one_by_one(
    real_table: Callable[[str], Path], name: str
) -> None:
    """Inserts, updates, deletes, overwrites and clustering: each time the state before is back."""
    path = real_table(name)
    table = opened(path)
    states = {time: both(path, time) for time in commits(table)}
    while len(states) > 1:
        last = list(states)[-1]
        done = table.rollback(last)
        assert len(done) == 1
        del states[last]
        assert commits(table) == list(states)
        assert both(path) == states[commits(table)[-1]]
        assert leftovers(path) == []
    assert all(both(path, time) == rows for time, rows in states.items())
    assert table.verify().findings == ()
    # And it goes on from there.
    table.upsert(table.scan())
    assert both(path) == next(iter(states.values()))


@pytest.mark.few(2)
@pytest.mark.parametrize("name", NAMES)
def test_tables_of_apache_hudi_take_every_operation(
    real_table: Callable[[str], Path], name: str
) -> None:
    path = real_table(name)
    table = opened(path)
    before = table.scan()
    expected = by_key(before)
    ours = set(commits(table)[-1:])
    first = before.slice(0, 1)
    partition, key = next(iter(by_key(first)))

    def check() -> None:
        assert both(path) == expected
        assert leftovers(path) == []

    states = {time: both(path, time) for time in commits(table)[-2:]}
    saved = table.savepoint(commits(table)[-2], user="me").time
    with pytest.raises(ValueError, match="have keys that the table already has"):
        table.insert(first, options=WriteOptions(duplicates="fail"))
    for verb in ("insert", "bulk_insert"):
        assert table.delete(first).rows_deleted == 1
        del expected[partition, key]
        check()
        result = getattr(table, verb)(first)
        assert result.rows_inserted == 1
        expected[partition, key] = by_key(first)[partition, key]
        check()
        ours |= set(commits(table)[-2:])
    table.insert_overwrite(first)
    expected = {at: row for at, row in expected.items() if at[0] != partition} | by_key(first)
    check()
    ours.add(commits(table)[-1])
    if partition:
        table.delete_partition([partition])
        expected = {at: row for at, row in expected.items() if at[0] != partition}
        check()
        table.rollback(commits(table)[-1])
        expected |= by_key(first)
        check()
    table.insert_overwrite_table(before)
    expected = by_key(before)
    check()
    ours.add(commits(table)[-1])
    check_files(path, ours)
    assert len(table.clean(retain_commits=1)) == 1
    check()
    assert both(path, saved) == states[saved]
    # Back to it, from a copy: what comes after this goes on with the rows of now.
    copy = path.with_name("restored")
    shutil.copytree(path, copy)
    restored = opened(copy)
    restored.restore(saved)
    assert both(copy) == states[saved]
    assert restored.verify().findings == ()
    assert leftovers(copy) == []
    table.delete_savepoint(saved)
    assert len(table.clean(retain_commits=1)) == 1
    check()
    assert len(list(path.rglob("*.parquet"))) == len(table.file_groups())
    assert table.verify().findings == ()
