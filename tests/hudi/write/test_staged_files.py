"""Files that wait for their names: one of each group gets it, the others go."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.hudi.oracle import assert_same_rows, other_scan
from support.hudi.small_tables import SmallTable, row
from support.hudi.versions import VERSIONS

from lookupstore.hudi import HudiTable
from lookupstore.hudi.locking.lock import table_lock
from lookupstore.hudi.services.rollback import roll_back
from lookupstore.hudi.timeline.work_files import marker_name, staging_folder
from lookupstore.hudi.write.staged_files import name_staged_files


@pytest.mark.parametrize("partition", ["", "p=1"])
@pytest.mark.parametrize("version", VERSIONS)
def test_of_two_attempts_one_is_named(tmp_path: Path, version: int, partition: str) -> None:
    table = SmallTable(tmp_path, version, partition_by=["value"] if partition else [])
    first = table.commit("a-0", [row(1, "old")], partition)
    instant = table.begin()
    stat = table.write(instant.time, "a-0", [row(1, "new")], partition)
    assert stat.path is not None
    path = stat.path
    # As two attempts leave it: whole files of one group and instant, of which none is named.
    waiting = tmp_path / staging_folder(instant.time) / path
    waiting.parent.mkdir(parents=True)
    content = (tmp_path / path).read_bytes()
    (tmp_path / path).rename(waiting)
    other = waiting.with_name(waiting.name.replace("_0-1-2_", "_0-1-3_"))
    other.write_bytes(content)
    assert_same_rows(HudiTable.open(tmp_path).scan(), other_scan(tmp_path))
    absent = path.replace("_0-1-2_", "_9-9-9_")
    with pytest.raises(FileNotFoundError):
        name_staged_files(table.table.location, instant.time, {absent: True})
    assert other.exists()
    name_staged_files(table.table.location, instant.time, {path: True})
    assert (tmp_path / marker_name(path, instant.time, replaces=True)).read_bytes() == b""
    assert not (tmp_path / staging_folder(instant.time)).exists()
    found = {one.name for one in (tmp_path / partition).glob("*.parquet")}
    assert found == {path.rpartition("/")[2], f"a-0_0-1-2_{first.time}.parquet"}
    assert table.values() == {1: "old"}
    table.finish(instant, [stat])
    assert table.values() == {1: "new"}
    assert_same_rows(HudiTable.open(tmp_path).scan(), other_scan(tmp_path))


def test_a_rollback_deletes_what_waits(tmp_path: Path) -> None:
    table = SmallTable(tmp_path, 9)
    table.commit("a-0", [row(1, "old")])
    instant = table.begin()
    stat = table.write(instant.time, "a-0", [row(1, "new")])
    waiting = tmp_path / staging_folder(instant.time)
    waiting.mkdir(parents=True)
    (tmp_path / str(stat.path)).rename(waiting / str(stat.path))
    with table_lock(table.table.location) as lock:
        roll_back(table.view(), instant, lock)
    assert not waiting.exists()
    assert table.values() == {1: "old"}
