"""What follows a write: as the verbs do it, and never an error of the write."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.hudi.kills import base_files, rows_of
from support.hudi.metadata import check_listed, data_of
from support.hudi.versions import VERSIONS

from lookupstore.errors import CommitUnknownError, LockedError
from lookupstore.hudi import HudiTable, TableServices, WriteOptions, WriteResult
from lookupstore.hudi.locking.heartbeat import Heartbeats
from lookupstore.hudi.locking.lock import TableLock
from lookupstore.hudi.timeline.plans import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    RequestedReplace,
    plan_bytes,
)
from lookupstore.hudi.timeline.timeline import TimelineFolder
from lookupstore.hudi.write.partitioner import FileSizing

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string(), "value": pa.string()})
ALL = TableServices(retain_versions=1, archive=True, min_commits=2, max_commits=3)


def some(ids: range, value: str) -> pa.Table:
    return pa.table({"id": list(ids), "p": ["p"] * len(ids), "value": [value] * len(ids)})


def made(path: Path, version: int = 9) -> HudiTable:
    table = HudiTable.create(path, SCHEMA, record_key="id", partition_by="p", version=version)
    table.insert(some(range(3), "old"))
    return table


def commits(table: HudiTable) -> int:
    return sum(one.is_completed and one.is_write for one in table.timeline())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_table_that_is_written_to_often_stays_small(tmp_path: Path, version: int) -> None:
    path = tmp_path / "t"
    table = made(path, version)
    archived = cleans = 0
    for at in range(12):
        result = table.upsert(some(range(3), str(at)), options=WriteOptions(services=ALL))
        assert result.service_errors == ()
        assert rows_of(path) == dict.fromkeys(range(3), str(at))
        assert len(base_files(path)) == 1
        assert len(result.cleans) == 1
        # Those of cleans come with them.
        assert commits(table) <= 3
        archived += result.archived
        cleans += len(result.cleans)
    assert archived >= 10
    assert table.verify().findings == ()


VERBS: dict[str, Callable[[HudiTable, Any], WriteResult]] = {
    "upsert": lambda table, options: table.upsert(some(range(3), "new"), options=options),
    "insert": lambda table, options: table.insert(some(range(5, 6), "new"), options=options),
    "bulk_insert": lambda table, options: table.bulk_insert(
        some(range(5, 6), "x"), options=options
    ),
    "delete": lambda table, options: table.delete([0], options=options),
    "insert_overwrite": lambda table, options: table.insert_overwrite(
        some(range(2), "new"), options=options
    ),
    "insert_overwrite_table": lambda table, options: table.insert_overwrite_table(
        some(range(2), "new"), options=options
    ),
    "delete_partition": lambda table, options: table.delete_partition("p", options=options),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_write_takes_them(tmp_path: Path, verb: str) -> None:
    table = made(tmp_path / "t")
    for at in range(4):
        table.upsert(some(range(3), str(at)))
    services = TableServices(retain_versions=1, archive=True, min_commits=1, max_commits=2)
    result = VERBS[verb](table, WriteOptions(services=services))
    assert len(result.cleans) == 1
    assert result.archived >= 4
    current = {group.current.path for group in table.file_groups()}
    assert set(base_files(tmp_path / "t")) == current
    assert rows_of(tmp_path / "t") is not None


@pytest.mark.parametrize("retained", [{"retain_commits": 2}, {"retain_hours": 0.0}])
def test_a_clean_is_that_of_the_verb(tmp_path: Path, retained: dict[str, Any]) -> None:
    for at, services in enumerate([TableServices(), TableServices(**retained)]):
        table = made(tmp_path / str(at))
        for value in range(3):
            result = table.upsert(
                some(range(3), str(value)), options=WriteOptions(services=services)
            )
        if not result.cleans:
            table.clean(**retained)
    assert len(base_files(tmp_path / "0")) == len(base_files(tmp_path / "1")) < 4


def test_nothing_follows_by_default_or_what_was_only_tried(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    for _ in range(5):
        assert table.upsert(some(range(3), "a")).cleans == ()
    before = [one.file_name for one in table.timeline()]
    assert (
        table.upsert(some(range(3), "b"), options=WriteOptions(services=ALL), dry_run=True).cleans
        == ()
    )
    assert [one.file_name for one in table.timeline()] == before
    assert len(base_files(tmp_path / "t")) == 6


@pytest.mark.parametrize("error", [LockedError("held"), OSError(5, "injected"), ValueError("x")])
def test_what_fails_is_no_error_of_the_write(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is returned, the failure is seen, and the next service is done all the same."""
    table = made(tmp_path / "t")

    def broken(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("lookupstore.hudi.table.services.clean", broken)
    for at in range(3):
        committed = r"clean\(\) after the write failed, which is comm"
        with pytest.warns(UserWarning, match=committed) as seen:
            result = table.upsert(some(range(3), str(at)), options=WriteOptions(services=ALL))
        assert seen[0].filename == __file__
        assert result.instant is not None
        (said,) = result.service_errors
        assert said == f"clean() after the write failed, which is committed: {error}"
        assert "; do not write the rows again: call clean() when" in str(seen[0].message)
        assert rows_of(tmp_path / "t") == dict.fromkeys(range(3), str(at))
    assert result.archived == 2
    monkeypatch.undo()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            len(table.upsert(some(range(3), "x"), options=WriteOptions(services=ALL)).cleans) == 1
        )


def test_a_warning_that_is_made_an_error_is_none_of_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of `python -W error`: the write is committed, and its result is returned."""
    table = made(tmp_path / "t")

    def broken(*_: Any, **__: Any) -> None:
        raise KeyError("x")

    monkeypatch.setattr("lookupstore.hudi.table.services.clean", broken)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = table.upsert(some(range(3), "new"), options=WriteOptions(services=ALL))
    assert result.service_errors == (
        "clean() after the write failed, which is committed: KeyError: 'x'",
    )
    assert "do not write the rows again" in caplog.text
    assert rows_of(tmp_path / "t") == dict.fromkeys(range(3), "new")


@pytest.mark.parametrize("what", ["lock", "heartbeat"])
def test_what_cannot_be_given_back_after_the_commit_is_no_error(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path / "t")
    done: list[int] = []
    complete, release, delete = TimelineFolder.complete, TableLock.release, Heartbeats.delete

    def completed(*arguments: Any) -> Any:
        instant = complete(*arguments)
        done.append(1)
        return instant

    def released(lock: TableLock) -> None:
        release(lock)
        if done:
            raise ValueError("injected")

    def deleted(beats: Heartbeats, time: str) -> None:
        delete(beats, time)
        raise ValueError("injected")

    monkeypatch.setattr(TimelineFolder, "complete", completed)
    if what == "lock":
        monkeypatch.setattr(TableLock, "release", released)
    else:
        monkeypatch.setattr(Heartbeats, "delete", deleted)
    assert table.upsert(some(range(3), "new")).instant is not None
    monkeypatch.undo()
    assert rows_of(tmp_path / "t") == dict.fromkeys(range(3), "new")
    assert table.upsert(some(range(3), "x")).instant is not None


def test_nothing_follows_a_write_that_is_not_known_to_be_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path / "t")
    table.upsert(some(range(3), "a"))

    def broken(*_: Any) -> None:
        raise OSError(5, "injected")

    with monkeypatch.context() as patch:
        patch.setattr(TimelineFolder, "complete", broken)
        with pytest.raises(CommitUnknownError):
            table.upsert(some(range(3), "b"), options=WriteOptions(services=ALL))
    assert len(base_files(tmp_path / "t")) == 3


def test_a_metadata_table_is_maintained_by_what_follows(real_table: Callable[[str], Path]) -> None:
    path = real_table("v9_txns_complex_meta")
    table = HudiTable.open(path)
    stored = data_of(table.scan())
    table.upsert(stored.slice(0, 3), options=WriteOptions(metadata="reduce"))
    services = TableServices(retain_commits=1, archive=True, min_commits=1, max_commits=1)
    options = WriteOptions(metadata="maintain", services=services)
    result = table.upsert(stored.slice(0, 3), options=options)
    assert len(result.cleans) == 1
    assert result.service_errors == ()
    check_listed(path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"retain_commits": 0}, "retain_commits is 0; the last commit always stays: give 1"),
        ({"retain_versions": 1, "retain_hours": 1}, "give retain_versions, or else"),
        ({"min_commits": 5, "max_commits": 4}, "min_commits is 5, max_commits 4"),
        ({"cluster_commits": 0}, "cluster_commits is 0; give at least 1"),
        ({"cluster_by": "a", "cluster_file_size": 0}, "target_file_size"),
    ],
)
def test_numbers_are_checked_before_anything_is_written(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        TableServices(**fields)


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_are_put_in_order_after_some_commits(tmp_path: Path, version: int) -> None:
    path = tmp_path / "t"
    table = made(path, version)
    options = WriteOptions(
        services=TableServices(
            retain_versions=1,
            cluster_by=["value", "id"],
            cluster_curve="linear",
            cluster_commits=3,
        ),
        sizing=FileSizing(small_file_limit=0),
        extra_metadata={"mine": "1"},
    )
    done = []
    for at in range(1, 9):
        result = table.insert(some(range(at * 3, at * 3 + 3), f"{9 - at}"), options=options)
        assert result.service_errors == ()
        done.append(result.clustering is not None)
        if result.clustering is not None:
            # The clean comes after it: of what it replaced nothing is left.
            assert len(base_files(path)) == len(table.file_groups()) == 1
            rows = table.scan(columns=["value", "id"]).to_pylist()
            assert rows == sorted(rows, key=lambda one: (one["value"], one["id"]))
            instant = next(one for one in table.timeline() if one.time == result.clustering)
            commit = table.view().commit(instant)
            assert commit.operation == "CLUSTER"
            assert "mine" not in (commit.extra_metadata or {})
    # Every third commit, the first one included that nothing followed.
    assert done == [False, True, False, False, True, False, False, True]
    assert len(rows_of(path)) == 27
    assert table.verify().findings == ()


def test_no_clustering_beside_another(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    group = ClusteringGroup((ClusteringSlice("", "other-0", "p"),), 1)
    plan = RequestedReplace("CLUSTER", ClusteringPlan((group,), None), {}, 1)
    folder = table.view().folder
    pending = folder.request("clustering", plan_bytes(plan))
    services = TableServices(cluster_by="id", cluster_curve="linear", cluster_commits=1)
    options = WriteOptions(services=services)
    result = table.upsert(some(range(3), "a"), options=options)
    assert (result.clustering, result.service_errors) == (None, ())
    table.rollback(pending.time)
    assert table.upsert(some(range(3), "b"), options=options).clustering is not None
    # A column that is not there is no error of the write.
    services = TableServices(cluster_by="x", cluster_commits=1)
    with pytest.warns(UserWarning, match="no column 'x'"):
        result = table.upsert(some(range(3), "c"), options=WriteOptions(services=services))
    assert "cluster() after the write failed" in result.service_errors[0]
    assert rows_of(tmp_path / "t") == dict.fromkeys(range(3), "c")
