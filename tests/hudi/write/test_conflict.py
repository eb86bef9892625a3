"""Conflicts: what others committed meanwhile, and whether a write may ignore it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from support.hudi.small_tables import SmallTable, row
from support.hudi.versions import VERSIONS

from lookupstore.errors import CommitConflictError
from lookupstore.hudi.timeline.names import GroupId
from lookupstore.hudi.timeline.plans import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    ClusteringStrategy,
    RequestedReplace,
    plan_bytes,
)
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.conflict import (
    WRITER,
    changes_since,
    check_groups,
    key_conflict_error,
    newer_files,
    pending_clustering,
)

A, B, C = (GroupId("", f"{name}-0") for name in "abc")


def now(table: SmallTable) -> TableView:
    return table.table.view()


def two_groups(path: Path, version: int = 9) -> SmallTable:
    table = SmallTable(path, version)
    table.commit("a-0", [row(1, "a")])
    table.commit("b-0", [row(2, "b")])
    return table


def plan(*slices: ClusteringSlice) -> bytes:
    group = ClusteringGroup(slices, 1)
    strategy = ClusteringStrategy("order")
    return plan_bytes(RequestedReplace("CLUSTER", ClusteringPlan((group,), strategy)))


@pytest.mark.parametrize("version", VERSIONS)
def test_other_groups_are_no_conflict(tmp_path: Path, version: int) -> None:
    table = two_groups(tmp_path / "t", version)
    before = now(table)
    other = table.commit("b-0", [row(2, "new")])
    check_groups(before, now(table), {A: ["1"]})
    (change,) = changes_since(before, now(table))
    assert (change.instant, change.groups) == (other, {B})
    assert changes_since(before, before) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_the_same_group_is_one(tmp_path: Path, version: int) -> None:
    table = two_groups(tmp_path / "t", version)
    before = now(table)
    other = table.commit("b-0", [row(2, "new")])
    with pytest.raises(CommitConflictError) as caught:
        check_groups(before, now(table), {A: ["1"], B: ["2", "4"]})
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.instant == other.time
    assert error.files == (f"b-0_0-1-2_{other.time}.parquet",)
    assert error.keys == ("2", "4")
    for part in (other.time, error.files[0], "'2', '4'", "write again", str(tmp_path)):
        assert part in str(error)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_commit_that_began_before_and_ended_after(tmp_path: Path, version: int) -> None:
    """By request times alone it would be passed over: it is older than the last one then known."""
    table = two_groups(tmp_path / "t", version)
    slow = table.begin()
    table.commit("c-0", [row(3, "c")])
    before = now(table)
    table.finish(slow, [table.write(slow.time, "a-0", [row(1, "slow")])])
    with pytest.raises(CommitConflictError, match=slow.time):
        check_groups(before, now(table), {A: ["1"]})
    check_groups(before, now(table), {C: ["3"]})


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_that_was_replaced(tmp_path: Path, version: int) -> None:
    table = two_groups(tmp_path / "t", version)
    before = now(table)
    overwrite = table.begin("replacecommit")
    stat = table.write(overwrite.time, "c-0", [row(9, "new")])
    table.finish(overwrite, [stat], {"": ("a-0",)})
    with pytest.raises(CommitConflictError, match="replacecommit"):
        check_groups(before, now(table), {A: ["1"]})
    check_groups(before, now(table), {B: ["2"]})
    assert [file.group for _, file in newer_files(before, now(table))] == [C]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_that_is_being_clustered(tmp_path: Path, version: int) -> None:
    """Also if it was planned before the write began: what it makes would replace the write's."""
    table = two_groups(tmp_path / "t", version)
    action = "replacecommit" if version == 6 else "clustering"
    slice_of_a = ClusteringSlice(f"file:///t/a-0_0-1-2_{'2' * 17}.parquet", "a-0", "")
    requested = table.folder.request(action, plan(slice_of_a))
    before = now(table)
    with pytest.raises(CommitConflictError, match="is about to replace"):
        check_groups(before, now(table), {A: ["1"]})
    check_groups(before, now(table), {B: ["2"]})
    table.folder.start(requested)
    (change,) = pending_clustering(now(table))
    assert change.groups == {A}
    assert newer_files(before, now(table)) == []


def test_a_plan_that_names_files_only(tmp_path: Path) -> None:
    table = two_groups(tmp_path / "t")
    name = "a-0_0-1-2_20260101000000000.parquet"
    table.folder.request("clustering", plan(ClusteringSlice(f"file:///t/p=1/{name}", None, "p=1")))
    (change,) = pending_clustering(now(table))
    assert change.groups == {GroupId("p=1", "a-0")}


def test_other_pending_instants_are_no_conflict(tmp_path: Path) -> None:
    table = two_groups(tmp_path / "t")
    table.begin()
    table.begin("replacecommit")
    table.folder.request("replacecommit", plan_bytes(RequestedReplace()))
    assert pending_clustering(now(table)) == []
    before = now(table)
    gone = table.folder.request("clustering", plan(ClusteringSlice("", "a-0", "")))
    view = now(table)
    table.folder.delete(gone)
    assert pending_clustering(view) == []
    check_groups(before, view, {A: []})


def test_a_commit_that_is_gone(tmp_path: Path) -> None:
    """The write may rest on it, whatever it touched."""
    table = two_groups(tmp_path / "t")
    last = table.commit("b-0", [row(2, "new")])
    before = now(table)
    table.table.rollback(last.time)
    with pytest.raises(CommitConflictError, match="was rolled back since") as caught:
        check_groups(before, now(table), {A: ["1"]})
    assert caught.value.instant == last.time


def test_two_writers_that_insert_one_key(tmp_path: Path) -> None:
    """Each has a file group of its own; the second one looks into the first one's file."""
    table = two_groups(tmp_path / "t")
    before = now(table)
    first = table.commit("c-0", [row(7, "first")])
    again = table.commit("b-0", [row(2, "newer")])
    again = table.commit("b-0", [row(2, "newest")])
    found = newer_files(before, now(table))
    assert [(file.group, file.time) for _, file in found] == [(B, again.time), (C, first.time)]
    change, file = found[1]
    error = key_conflict_error(before, change, file, [str(key) for key in range(7, 20)])
    assert (error.instant, error.files) == (first.time, (file.path,))
    assert error.keys == ("7", "8", "9", "10", "11")
    assert "inserted keys that this write inserts, too" in str(error)


def test_the_other_writer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = two_groups(tmp_path / "t")
    before = now(table)
    other = table.commit("a-0", [row(1, "new")])
    after = now(table)
    commit = after.commit(other)
    assert isinstance(commit.extra_metadata, dict)
    commit.extra_metadata[WRITER] = "nightly load"
    with pytest.raises(CommitConflictError, match="of nightly load") as caught:
        check_groups(before, after, {A: ["1"]})
    assert caught.value.writer == "nightly load"
