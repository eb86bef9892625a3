"""What a table's files name stays in the table: nothing else is deleted, written or read."""

from __future__ import annotations

import os
import shutil
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from support.hudi.kills import rows_of
from support.hudi.small_tables import SmallTable, row

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi import HudiTable, Instant, State, WriteOptions, options
from lookupstore.hudi.locking.heartbeat import heartbeat_name
from lookupstore.hudi.locking.owner import Owner, parse_owner
from lookupstore.hudi.timeline.commit import CommitMetadata, WriteStat, commit_bytes
from lookupstore.hudi.timeline.instant_times import is_time, next_time
from lookupstore.hudi.timeline.plans import (
    ActionInstant,
    CleanerPlan,
    CleanFile,
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    InstantInfo,
    RequestedReplace,
    RollbackPlan,
    RollbackRequest,
    parse_plan,
    plan_bytes,
)
from lookupstore.hudi.timeline.timeline import CLEAN, CLUSTERING, COMMIT, ROLLBACK

FIRST = "20240101000000000"
LATER = "20240101000000005"
ROWS = pa.table({"id": pa.array([1], pa.int32()), "value": ["new"]})


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """Return a folder beside the table, which nobody may change."""
    folder = tmp_path / "home" / "important"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "kept").write_text("kept")
    return folder


@pytest.fixture
def table(tmp_path: Path, beside: Path) -> SmallTable:
    table = SmallTable(tmp_path / "tables" / "t", 9)
    committed_at(table, FIRST)
    return table


def committed_at(table: SmallTable, time: str) -> None:
    """Commit a row at a time."""
    instant = table.folder.start(table.folder.request_at(time, COMMIT))
    table.finish(instant, [table.write(time, "a-0", [row(1, "old")])])


def dead(table: SmallTable, time: str, action: str, content: bytes) -> Path:
    """Leave a pending instant of an owner that is known to be dead; return the path of its plan."""
    location = table.table.location
    location.write(heartbeat_name(time), [Owner.here().to_json()])
    requested = Instant(time, action, State.REQUESTED)
    table.folder.request_at(time, action, content)
    table.folder.start(requested)
    return Path(table.folder.path(requested))


def is_kept(beside: Path) -> bool:
    return {path.name: path.read_text() for path in beside.rglob("*") if path.is_file()} == {
        "kept": "kept"
    }


@pytest.mark.parametrize(
    "time",
    ["../../../../home/important", "../../../home/important", "..", "", ".", "/etc", "2024",
     "20240101000000005/..", "\x1b[31m"],
)  # fmt: skip
def test_the_instant_of_a_rollback_plan(table: SmallTable, beside: Path, time: str) -> None:
    # A path leads up from the markers of others: the first one to the folder beside the table.
    (table.path / ".hoodie" / ".temp").mkdir()
    path = dead(table, LATER, ROLLBACK, plan_bytes(RollbackPlan(InstantInfo(time, COMMIT), ())))
    before = rows_of(table.path)
    with pytest.raises(CorruptionError, match="instantToRollback") as raised:
        table.table.upsert(ROWS)
    assert is_kept(beside)
    assert raised.value.path == str(path)
    assert "\x1b" not in str(raised.value)
    assert (rows_of(table.path), path.exists()) == (before, True)


@pytest.mark.parametrize("action", ["", "../commit", "commit/..", "savepoint", "clean"])
def test_the_action_of_a_rollback_plan(table: SmallTable, action: str) -> None:
    plan = RollbackPlan(InstantInfo("20240101000000001", action), ())
    dead(table, LATER, ROLLBACK, plan_bytes(plan))
    with pytest.raises(CorruptionError, match="instantToRollback"):
        table.table.rollback()


def test_actions_are_looked_at_in_plans_that_others_follow() -> None:
    plan = plan_bytes(RollbackPlan(InstantInfo("20240101000000001", "../commit"), ()))
    with pytest.raises(CorruptionError, match="a known action"):
        parse_plan(RollbackPlan, plan, "a plan")
    plan = plan_bytes(RollbackPlan(InstantInfo("20240101000000001", "deltacommit"), ()))
    assert parse_plan(RollbackPlan, plan, "a plan").instant_to_rollback is not None


def test_a_rollback_plan_without_an_instant(table: SmallTable) -> None:
    dead(table, LATER, ROLLBACK, plan_bytes(RollbackPlan(None, ())))
    with pytest.raises(CorruptionError, match="instantToRollback"):
        table.table.rollback()


@pytest.mark.parametrize(
    ("partition", "name"),
    [
        ("", "../../home/important/inner/kept"),
        ("../../home", "a-0_0-0-0_20240101000000001.parquet"),
        ("", "a-0_0-0-0_20240101000000000.parquet"),  # of another instant
        ("", "kept.parquet"),
        ("", "a-0_0-0-0_20240101000000001.parquet\x00"),
        (".hoodie", "a-0_0-0-0_20240101000000001.parquet"),
    ],
)
def test_the_files_of_a_rollback_plan(
    table: SmallTable, beside: Path, partition: str, name: str
) -> None:
    full = f"file://{table.path}/{partition}/{name}"
    plan = RollbackPlan(
        InstantInfo("20240101000000001", COMMIT), (RollbackRequest(partition, (full,)),)
    )
    path = dead(table, LATER, ROLLBACK, plan_bytes(plan))
    with pytest.raises(CorruptionError, match=r"RollbackRequests|partition") as raised:
        table.table.rollback()
    assert (raised.value.path, is_kept(beside)) == (str(path), True)
    assert rows_of(table.path) == {1: "old"}


@pytest.mark.parametrize(
    ("earliest", "name"),
    [
        (None, "a-0_0-0-0_20240101000000000.parquet"),
        ("../..", "a-0_0-0-0_20240101000000000.parquet"),
        (FIRST, "../../home/important/inner/kept"),
        (FIRST, options.PROPERTIES),
    ],
)
def test_a_clean_plan(table: SmallTable, beside: Path, earliest: str | None, name: str) -> None:
    retained = None if earliest is None else ActionInstant(earliest, COMMIT, "COMPLETED")
    files = {"": (CleanFile(f"file://{table.path}/{name}"),)}
    path = dead(table, LATER, CLEAN, plan_bytes(CleanerPlan(retained, "KEEP", files)))
    with pytest.raises(CorruptionError) as raised:
        table.table.clean(retain_commits=1)
    assert (raised.value.path, is_kept(beside)) == (str(path), True)
    assert rows_of(table.path) == {1: "old"}


def test_a_clean_of_a_table_without_commits(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    retained = ActionInstant(FIRST, COMMIT, "COMPLETED")
    dead(table, LATER, CLEAN, plan_bytes(CleanerPlan(retained, "KEEP", {})))
    with pytest.raises(CorruptionError, match="a commit"):
        table.table.clean(retain_commits=1)


@pytest.mark.parametrize("where", ["markers", "markers above", "within", "up"])
def test_links_among_the_markers_are_not_followed(
    table: SmallTable, beside: Path, where: str
) -> None:
    time = "20240101000000001"
    dead(table, time, COMMIT, b"")
    markers = table.path / ".hoodie" / ".temp"
    if where == "markers above":
        markers.symlink_to(beside.parent)
        (beside.parent / time).mkdir()
        (beside.parent / time / "kept").write_text("kept")
    else:
        markers.mkdir()
    if where == "markers":
        (markers / time).symlink_to(beside)
    if where in ("within", "up"):
        (markers / time).mkdir()
        (markers / time / "p").symlink_to(beside if where == "within" else "../../../..")
    if where == "markers above":
        with pytest.raises(FormatError, match="symbolic link"):
            table.table.rollback()
        assert (beside.parent / time / "kept").exists()
    else:
        (done,) = table.table.rollback()
        assert done.is_completed
        assert not os.path.lexists(markers / time)
    assert is_kept(beside)
    assert rows_of(table.path) == {1: "old"}


def test_a_metadata_table_that_is_a_link(table: SmallTable, beside: Path) -> None:
    (table.path / ".hoodie" / "metadata").symlink_to(beside)
    table.table.upsert(ROWS, options=WriteOptions(metadata="drop"))
    assert is_kept(beside)
    assert not os.path.lexists(table.path / ".hoodie" / "metadata")


@pytest.mark.parametrize("name", [options.TIMELINE, options.HISTORY])
@pytest.mark.parametrize("value", ["../../x", "/x", "..", "a/../..", "C:", "a\\\\..\\\\b", "a//b"])
def test_folders_that_properties_name(table: SmallTable, name: str, value: str) -> None:
    properties = table.path / options.PROPERTIES
    lines = [line for line in properties.read_text().splitlines() if not line.startswith(name)]
    properties.write_text("\n".join([*lines, f"{name}={value}", ""]))
    with pytest.raises(CorruptionError, match=name) as raised:
        HudiTable.open(table.path)
    assert raised.value.path == str(properties)


@pytest.mark.parametrize(
    "path",
    [
        "../../home/a-0_0-0-0_20240101000000005.parquet",
        "/a-0_0-0-0_20240101000000005.parquet",
        "p/./a-0_0-0-0_20240101000000005.parquet",
        "p//a-0_0-0-0_20240101000000005.parquet",
        "C:/a-0_0-0-0_20240101000000005.parquet",
        "p\\..\\..\\b/a-0_0-0-0_20240101000000005.parquet",
        "p\x00/a-0_0-0-0_20240101000000005.parquet",
        ".hoodie/a-0_0-0-0_20240101000000005.parquet",
        "p/a\x1b-0_0-0-0_20240101000000005.parquet",
        "p/a-0_../../x_20240101000000005.parquet",
        "p/a-0_x_20240101000000005.parquet",
        "p/a-0_0-0-0_20241301000000005.parquet",
    ],
)
def test_files_that_a_commit_names(table: SmallTable, path: str) -> None:
    stat = WriteStat(file_id="a-0", path=path, partition_path="")
    metadata = CommitMetadata(stats={"": (stat,)}, extra_metadata={})
    requested = table.folder.request_at(LATER, COMMIT)
    done = table.folder.complete(table.folder.start(requested), commit_bytes(metadata, 9))
    with pytest.raises(CorruptionError) as raised:
        table.table.incremental(FIRST)
    assert raised.value.path == table.folder.path(done)
    assert all(character.isprintable() for character in str(raised.value))


@pytest.mark.parametrize("partition", ["..", "a/../b", "/a", ".hoodie", ".hoodie/metadata"])
def test_partitions_that_a_commit_names(table: SmallTable, partition: str) -> None:
    for action, metadata in (
        (COMMIT, CommitMetadata(stats={partition: ()}, extra_metadata={})),
        ("replacecommit", CommitMetadata(stats={}, replaced={partition: ("a-0",)})),
        ("replacecommit", CommitMetadata(stats={}, replaced={"": ("../a",)})),
    ):
        requested = table.folder.request(action)
        inflight = table.folder.start(requested)
        done = table.folder.complete(inflight, commit_bytes(metadata, 9))
        with pytest.raises(CorruptionError, match=r"partition|file id") as raised:
            table.table.view().commit(done)
        assert raised.value.path == table.folder.path(done)


def test_a_base_file_that_is_a_link(table: SmallTable, tmp_path: Path) -> None:
    base = next(table.path.glob("*.parquet"))
    base.rename(tmp_path / base.name)
    base.symlink_to(tmp_path / base.name)
    for act in (table.table.scan, lambda: table.table.upsert(ROWS), table.table.file_groups):
        with pytest.raises(FormatError, match="symbolic link"):
            act()
    (finding, *_) = table.table.verify().findings
    assert "symbolic link" in finding.problem


def test_a_partition_that_is_a_link(tmp_path: Path, beside: Path) -> None:
    table = SmallTable(tmp_path / "t", 9, partition_by=["id"])
    table.commit("a-0", [row(1, "old")], "id=1")
    shutil.move(table.path / "id=1", tmp_path / "elsewhere")
    (table.path / "id=1").symlink_to(tmp_path / "elsewhere")
    # Without the partition, its rows would be missing, and nobody would know.
    with pytest.raises(FormatError, match="symbolic link"):
        table.table.scan()
    before = sorted(os.listdir(tmp_path / "elsewhere"))
    with pytest.raises(FormatError, match="symbolic link"):
        table.table.upsert(ROWS)
    assert sorted(os.listdir(tmp_path / "elsewhere")) == before


def test_folders_that_lead_back_to_the_table(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9, partition_by=["id"])
    table.commit("a-0", [row(1, "old")], "id=1")
    for name in ("x", "y", "z"):
        (table.path / "id=1" / name).symlink_to("..")
    with pytest.raises(FormatError, match="symbolic link"):
        table.table.scan()
    assert not table.table.verify().is_ok


@pytest.mark.parametrize("partition", ["a b", "x=1", "a%2Fb", "日本", "v1.2", "...", "a..b", "a:b"])
def test_odd_partitions_are_read_and_written(tmp_path: Path, partition: str) -> None:
    schema = pa.schema({"id": pa.int32(), "p": pa.string()})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id", partition_by="p")
    table.insert(pa.table({"id": pa.array([1], pa.int32()), "p": [partition]}))
    table.upsert(pa.table({"id": pa.array([1, 2], pa.int32()), "p": [partition] * 2}))
    assert table.scan(columns=["id", "p"]).to_pydict() == {"id": [1, 2], "p": [partition] * 2}
    assert [group.id.partition for group in table.file_groups()] == [partition]
    assert table.verify().is_ok
    assert table.clean(retain_commits=1)


@pytest.mark.parametrize("partition", ["C:", "a\\..\\b", "a\x00b", ".hoodie", "..", "a//b"])
def test_partitions_that_no_reader_takes_are_not_written(tmp_path: Path, partition: str) -> None:
    schema = pa.schema({"id": pa.int32(), "p": pa.string()})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id", partition_by="p")
    with pytest.raises(ValueError, match="partition path"):
        table.insert(pa.table({"id": pa.array([1], pa.int32()), "p": [partition]}))
    assert table.timeline() == []


@pytest.mark.parametrize("version", [6, 9])
def test_an_instant_at_the_end_of_time(tmp_path: Path, version: int) -> None:
    table = SmallTable(tmp_path / "t", version)
    committed_at(table, FIRST)
    last = Instant("99991231235959999", COMMIT, State.REQUESTED)
    path = Path(table.folder.path(last))
    path.write_bytes(b"")
    before = sorted(table.path.rglob("*"))
    for act in (lambda: table.table.upsert(ROWS), lambda: table.table.rollback(last.time)):
        with pytest.raises(FormatError, match=f"{last.file_name}.*the greatest possible"):
            act()
    assert sorted(table.path.rglob("*")) == before
    assert rows_of(table.path) == {1: "old"}


def test_instants_late_in_the_year_9999() -> None:
    now = datetime(2026, 3, 7, tzinfo=timezone.utc)
    assert next_time("99991231235959998", now) == "99991231235959999"
    assert next_time("99991231235959", now) == "99991231235959001"
    with pytest.raises(OverflowError):
        next_time("99991231235959999", now)


def test_a_table_with_an_instant_of_9999_is_read_and_not_written(tmp_path: Path) -> None:
    """What follows it would hide what writers with the right time write."""
    table = SmallTable(tmp_path / "t", 9)
    committed_at(table, "99991231000000000")
    with pytest.raises(FormatError, match=r"99991231000000000_.*commit: its time is ahead"):
        table.table.upsert(ROWS)
    assert rows_of(table.path) == {1: "old"}


def test_times_that_bootstraps_have() -> None:
    """A metadata table counts its partitions in three digits more."""
    assert all(map(is_time, ("00000000000000", "00000000000001", "00000000000002")))
    assert all(map(is_time, ("00000000000000000", "00000000000000010", "00000000000000011")))
    for text in ("00000000000003", "00000000000003010", "2024010100000000", "²0240101000000000"):
        assert not is_time(text)


@pytest.mark.parametrize("pid", [2**31, 2**70, 0, -1])
def test_an_owner_with_a_number_of_no_process(pid: int) -> None:
    owner = Owner.here()
    content = owner.to_json().replace(str(owner.pid).encode(), str(pid).encode())
    assert parse_owner(content) is None


def test_a_lock_that_is_a_link(table: SmallTable, beside: Path) -> None:
    for to in (beside / "inner" / "kept", beside / "nothing"):
        lock = table.path / ".hoodie" / "lock"
        lock.symlink_to(to)
        with pytest.raises(FormatError, match="symbolic link"):
            table.table.upsert(ROWS)
        lock.unlink()
    assert is_kept(beside)


def test_plans_of_conflicts_name_places_of_the_table(table: SmallTable) -> None:
    one = ClusteringSlice("file:///x/../a-0_0-0-0_20240101000000000.parquet", "a-0", "../..")
    plan = RequestedReplace("CLUSTER", ClusteringPlan((ClusteringGroup((one,), 1),), None))
    table.folder.request_at(LATER, CLUSTERING, plan_bytes(plan))
    with pytest.raises(CorruptionError, match="partition"):
        table.table.upsert(ROWS)


def test_properties_with_odd_values_are_read(table: SmallTable) -> None:
    content = (table.path / options.PROPERTIES).read_bytes()
    content = content.replace(b"path=timeline", b"path=my%2Ftime line.d/in=side")
    assert options.parse_options(content, "t").timeline == ".hoodie/my%2Ftime line.d/in=side"
