"""Files of the newest commit that are gone: rows without them are the rows of an older commit."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.hudi.log_tables import LogTable
from support.hudi.versions import VERSIONS

from lookupstore.errors import CorruptionError, StaleStoreError
from lookupstore.hudi import HudiTable, TableLookup
from lookupstore.hudi.log.slices import MergedSlice
from lookupstore.hudi.timeline.plans import CleanerPlan, CleanFile, plan_bytes

ROWS = [{"id": key, "ts": 1, "value": "old"} for key in (1, 2)]
NEWS = {"id": [1], "day": ["mo"], "value": ["new"]}

READS: list[Callable[[HudiTable], Any]] = [
    lambda table: table.scan(),
    lambda table: table.scan(filter="id = 2"),
    lambda table: table.get(2),
    lambda table: TableLookup(table).get(2),
    len,
]
WRITES: list[Callable[[HudiTable], Any]] = [
    lambda table: table.upsert(NEWS),
    lambda table: table.insert(NEWS),
    lambda table: table.delete([2]),
    lambda table: table.delete(where="id = 2"),
    lambda table: table.update({"value": "'x'"}),
    lambda table: table.merge(NEWS).when_matched_update().execute(),
    lambda table: table.cluster("value"),
    lambda table: table.tag({"id": [2], "day": ["mo"]}),
    lambda table: table.dataset(),
]


def with_logs(path: Path, version: int) -> tuple[LogTable, Path]:
    """Return a table with two log files, and that of the newest commit."""
    table = LogTable(path, version)
    table.base("a-0", ROWS)
    table.delta("a-0", lambda time: table.data(time, [{"id": 1, "ts": 2, "value": "one"}]))
    instant = table.delta("b-0", lambda time: table.data(time, [{"id": 3, "ts": 2, "value": "b"}]))
    (log,) = path.glob(f".b-0_{table.name_time(instant.time)}.log.*")
    return table, log


@pytest.mark.parametrize("version", [6, 9])
def test_a_log_file_of_the_newest_commit(tmp_path: Path, version: int) -> None:
    """Missing, empty, or without a block at its end."""
    table, log = with_logs(tmp_path / "t", version)
    rows = table.rows()
    content = log.read_bytes()
    assert set(rows) == {"1", "2", "3"}
    log.unlink()
    said = rf"{re.escape(str(log))}: .*a file that the commit \d+ wrote, found none"
    for read in READS:
        with pytest.raises(CorruptionError, match=said):
            read(table.opened())
    assert ("missing", log.name) in [
        (one.kind, one.path) for one in table.opened().verify().findings
    ]
    before = table.opened().timeline()[-2]
    assert set(table.rows(as_of=before)) == {"1", "2"}
    assert HudiTable.open(table.path, query_type="read_optimized").scan().num_rows == 2
    for left in (b"", content[:-1]):
        log.write_bytes(left)
        with pytest.raises(CorruptionError, match=f"{len(content)} bytes, as its commit says"):
            table.rows()
    log.write_bytes(content)
    assert table.rows() == rows


def test_a_clean_that_has_deleted_nothing_yet(tmp_path: Path) -> None:
    """A reader with an older timeline goes on as long as it finds the files of its slices."""
    table = LogTable(tmp_path / "t", 9)
    table.base("a-0", ROWS)
    table.delta("a-0", lambda time: table.data(time, [{"id": 1, "ts": 2, "value": "one"}]))
    view = table.view()
    (before,) = view.slices(None)
    assert isinstance(before, MergedSlice)
    assert before.base is not None
    paths = [before.base.path, *(log.path for log in before.logs)]
    table.base("a-0", ROWS)
    files = tuple(CleanFile(table.table.location.full(path)) for path in paths)
    plan = CleanerPlan(None, policy="KEEP_LATEST_FILE_VERSIONS", files={"": files})
    table.folder.request("clean", plan_bytes(plan))
    assert view.slices(None) == [before]
    (table.path / paths[0]).unlink()
    with pytest.raises(StaleStoreError, match=r"removed by the clean \d+ while"):
        view.slices(None)


def copy_on_write(path: Path, version: int) -> tuple[HudiTable, Path]:
    """Return a table with two commits, and the file that the second one wrote."""
    rows = {"id": [1, 2], "day": ["mo", "mo"], "value": ["a", "b"]}
    table = HudiTable.create(path, rows, record_key="id", partition_by="day", version=version)
    table.insert(rows)
    written = table.upsert(NEWS)
    (file,) = path.glob(f"mo/*_{written.instant.time}.parquet")
    return table, file


@pytest.mark.parametrize("version", VERSIONS)
def test_a_base_file_of_the_newest_commit(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers would return the older values, and writes would make them the newest."""
    monkeypatch.chdir(tmp_path)
    table, file = copy_on_write(tmp_path / "t", version)
    file.unlink()
    timeline = table.timeline()
    said = rf"{re.escape(str(file))}: .*a file that the commit \d+ wrote, found none"
    for call in (*READS, *WRITES):
        with pytest.raises(CorruptionError, match=said):
            call(table)
    assert table.timeline() == timeline
    (one,) = (one for one in table.verify().findings if one.is_damage)
    assert (one.kind, one.path) == ("missing", f"mo/{file.name}")
    assert table.scan(columns="value", as_of=timeline[0])["value"].to_pylist() == ["a", "b"]


@pytest.mark.parametrize("version", VERSIONS)
def test_remedies(tmp_path: Path, version: int) -> None:
    """What the page on recovery names works although the file is gone."""
    table, file = copy_on_write(tmp_path / "one", version)
    file.unlink()
    table.rollback(table.timeline()[-1])
    assert table.scan(columns="value")["value"].to_pylist() == ["a", "b"]

    table, file = copy_on_write(tmp_path / "two", version)
    file.unlink()
    table.insert_overwrite(NEWS)
    assert table.scan(columns="value")["value"].to_pylist() == ["new"]

    table, file = copy_on_write(tmp_path / "three", version)
    file.unlink()
    table.delete_partition("mo")
    assert len(table) == 0


def test_no_commit_is_read_for_it(tmp_path: Path) -> None:
    copy_on_write(tmp_path / "t", 9)
    view = HudiTable.open(tmp_path / "t").view()
    assert view.current()
    assert view.slices(view.timeline.writes()[0].time)
    assert not view.commits
