"""Tables of Apache Hudi, read beside hudi-rs at every instant."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.hudi.oracle import assert_same_rows, other, other_incremental, other_scan

from lookupstore.hudi import HudiTable
from lookupstore.hudi.read.scan_plan import plan_scan

# Rows as of each completed commit, from the README of the tables.
ROWS = {
    "v6_nonpartitioned": {"20240418173550988": 3, "20240418173551906": 4},
    "v6_complexkeygen_hivestyle": {"20240418173213674": 3, "20240418173235694": 4},
    "v9_txns_simple_nometa": {
        "20260307135657661": 8, "20260307135700696": 8, "20260307135702545": 7,
        "20260307135703515": 7, "20260307135704448": 6, "20260307135705338": 6,
        "20260307135706094": 8, "20260307135707243": 6, "20260307135708004": 8,
        "20260307135708654": 10, "20260307135709297": 10, "20260307135709890": 12,
    },
    "v9_txns_nonpart_meta": {
        "20260307162533871": 8, "20260307162538726": 8, "20260307162540399": 7,
        "20260307162541730": 7, "20260307162543114": 6, "20260307162544384": 6,
        "20260307162545400": 8, "20260307162546580": 10, "20260307162548096": 12,
        "20260307162549239": 12, "20260307162550266": 14,
    },
    "v8_nonpartitioned": {"20250713010535797": 3, "20250713010536861": 4},
    "v9_txns_complex_meta": {
        "20260307162504409": 8, "20260307162510692": 8, "20260307162512677": 7,
        "20260307162514316": 7, "20260307162515958": 6, "20260307162517629": 6,
        "20260307162518815": 8, "20260307162520620": 6, "20260307162522041": 8,
        "20260307162523110": 10, "20260307162524292": 10, "20260307162525778": 12,
    },
}  # fmt: skip
EVERY_INSTANT = [(name, time) for name, times in ROWS.items() for time in times]


@pytest.mark.parametrize(("name", "time"), EVERY_INSTANT)
def test_every_instant_is_what_hudi_rs_reads(real_tables: Path, name: str, time: str) -> None:
    ours = HudiTable.open(real_tables / name).scan(as_of=time)
    assert ours.num_rows == ROWS[name][time]
    assert_same_rows(ours, other_scan(real_tables / name, time))


@pytest.mark.parametrize("name", ROWS)
def test_the_newest_state_is_what_hudi_rs_reads(real_tables: Path, name: str) -> None:
    table = HudiTable.open(real_tables / name)
    ours = table.scan()
    assert_same_rows(ours, other_scan(real_tables / name))
    assert ours.num_rows == list(ROWS[name].values())[-1]
    assert pa.Table.from_batches(table.scan_batches(), ours.schema).equals(ours)
    assert table.dataset().to_table().equals(ours)
    assert table.schema == ours.schema


@pytest.mark.parametrize("name", ROWS)
def test_the_timeline_has_the_commits(real_tables: Path, name: str) -> None:
    table = HudiTable.open(real_tables / name)
    writes = [one for one in table.timeline() if one.is_completed and one.is_write]
    assert [one.time for one in writes] == list(ROWS[name])
    theirs = other(real_tables / name).get_timeline()
    commits = theirs.get_completed_commits() + theirs.get_completed_replacecommits()
    assert sorted((one.timestamp, one.action) for one in commits) == [
        (one.time, one.action) for one in writes
    ]


@pytest.mark.parametrize(("name", "time"), EVERY_INSTANT)
def test_file_groups_are_those_of_hudi_rs(real_tables: Path, name: str, time: str) -> None:
    from hudi import HudiReadOptions

    theirs = other(real_tables / name).get_file_slices(HudiReadOptions().with_as_of_timestamp(time))
    ours = HudiTable.open(real_tables / name).file_groups(as_of=time)
    assert sorted(one.current.path for one in ours) == sorted(
        one.base_file_relative_path() for one in theirs
    )
    for group in ours:
        assert (real_tables / name / group.current.path).stat().st_size == group.current.bytes
        assert [one.time for one in group.slices] == sorted(one.time for one in group.slices)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ROWS)
def test_every_range_is_what_hudi_rs_says_changed(real_tables: Path, name: str) -> None:
    """Compare all pairs of positions: completion times, in version 6 request times."""
    table = HudiTable.open(real_tables / name)
    positions = [one.position for one in table.timeline() if one.is_completed and one.is_write]
    before = "20000101000000000"
    for since, until in combinations([before, *positions], 2):
        ours = table.incremental(since, until)
        assert_same_rows(ours, other_incremental(real_tables / name, since, until))
    assert table.incremental(positions[-1]).num_rows == 0
    assert_same_rows(table.incremental(), other_incremental(real_tables / name, before))


def test_columns_and_filters(real_tables: Path) -> None:
    table = HudiTable.open(real_tables / "v9_txns_simple_nometa")
    ours = table.scan(columns=["amount", "txn_id"], filter=pc.field("region") == "us")
    assert ours.schema.names == ["amount", "txn_id"]
    everything = table.scan()
    expected = everything.filter(pc.field("region") == "us").select(["amount", "txn_id"])
    assert 0 < ours.num_rows < everything.num_rows
    assert ours.equals(expected)
    assert table.scan(columns=[]).num_rows == everything.num_rows
    assert table.scan(columns="txn_id").schema.names == ["txn_id"]
    first = everything["_hoodie_commit_time"][0].as_py()
    some = table.scan(filter=pc.field("_hoodie_commit_time") == first)
    assert some.num_rows == everything["_hoodie_commit_time"].to_pylist().count(first)
    changed = table.incremental(columns=["txn_id"], filter=pc.field("region") == "us")
    assert sorted(changed["txn_id"].to_pylist()) == sorted(ours["txn_id"].to_pylist())


def test_arguments_that_mean_nothing(real_tables: Path) -> None:
    table = HudiTable.open(real_tables / "v6_nonpartitioned")
    with pytest.raises(KeyError, match="no column 'nam'"):
        table.scan(columns=["nam"])
    unread = pc.field("name", "a") == 1
    for given in (
        pc.field("nam") == 1,
        unread & (pc.field("nam") == 1),
        ("nam", "=", 1),
        [("name", "=", "a"), ("nam", "=", 1)],
    ):
        with pytest.raises(ValueError, match="filter: 'nam' is no column; did you mean 'name'"):
            table.scan(filter=given)
    with pytest.raises(ValueError, match="ailed to parse string"):
        table.scan(filter=pc.field("name").cast("int32") == 1)
    with pytest.raises(ValueError, match="as_of is '2024'"):
        table.scan(as_of="2024")
    with pytest.raises(ValueError, match="since is 5"):
        table.incremental(5)  # type: ignore[arg-type]
    first = table.timeline()[0].time
    with pytest.raises(ValueError, match=f"no commit yet; .* the first commit is {first}"):
        table.scan(as_of="20240418173550987")


def test_a_uri_is_a_path(real_tables: Path) -> None:
    table = HudiTable.open(f"file://{real_tables}/v6_nonpartitioned")
    assert table.scan().num_rows == 4
    assert "version 6" in repr(table)


def test_files_are_put_into_groups_for_tasks(tmp_path: Path) -> None:
    """Each file is in one group, in order; a group of several is no larger than what was asked."""
    rows = pa.table({"id": range(6), "v": range(6)})
    table = HudiTable.create(tmp_path / "t", rows, record_key="id")
    for at in range(6):
        table.bulk_insert(rows.slice(at, 1))
    plan = plan_scan(table.view())
    most = max(file.bytes for file in plan.files)
    opening = 4 << 20  # as Spark reckons for a file
    for nbytes, tasks, counts in (
        (1 << 30, 1, [6]),
        (1, 1, [1] * 6),
        (2 * (most + opening), 1, [2, 2, 2]),
        (5 * (most + opening), 1, [5, 1]),
        (1 << 30, 100, [1] * 6),
    ):
        parts = plan.parts(nbytes, tasks)
        assert [len(part) for part in parts] == counts
        assert tuple(file for part in parts for file in part) == plan.files
