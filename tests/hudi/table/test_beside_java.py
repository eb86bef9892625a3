"""What writers of Apache Hudi do to tables beside us: what never committed is no row."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.hudi import java
from support.hudi.kills import (
    base_files,
    copied,
    count_points,
    leftovers,
    on_disk,
    rows_of,
)
from support.hudi.small_tables import SCHEMA, SmallTable, row
from support.hudi.versions import VERSIONS
from support.remote import FaultyDisk, Killed
from support.samples import some_of

from lookupstore.errors import CommitConflictError, CorruptionError
from lookupstore.hudi import HudiTable, State, WriteOptions
from lookupstore.hudi.locking.heartbeat import Heartbeats
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.hudi.services.never_completed import never_completed
from lookupstore.hudi.timeline.commit import parse_commit
from lookupstore.hudi.timeline.timeline import RESTORE, TimelineFolder
from lookupstore.hudi.timeline.work_files import mark, staging_folder
from lookupstore.hudi.write.transaction import Transaction
from lookupstore.storage.location import Location

ONE = WriteOptions(threads=1)
# Bytes of what ends each block of an Avro file: random ones.
MARKER = 16
VERBS: dict[str, Callable[[HudiTable], object]] = {
    "upsert": lambda table: table.upsert(some(range(1, 6)), options=ONE),
    "insert": lambda table: table.insert(some(range(3, 7)), options=ONE),
    "bulk_insert": lambda table: table.bulk_insert(some(range(3, 7)), options=ONE),
    "insert_overwrite": lambda table: table.insert_overwrite(some(range(1, 6)), options=ONE),
    "delete": lambda table: table.delete(pa.table({"id": [1], "value": ["p"]}), options=ONE),
}


def some(ids: range) -> pa.Table:
    """Return rows that are never committed, of the partition that is there, and of another."""
    values = ["p" if at < 4 else "q" for at in ids]
    return pa.table({"id": list(ids), "value": values}, schema=SCHEMA)


def made(path: Path, version: int) -> SmallTable:
    """Return a table of a folder for each value, as Java left it."""
    table = SmallTable(path, version, partition_by=["value"])
    table.commit("a-0", [row(1, "p"), row(2, "p")], "value=p")
    return table


def die_at_the_end(table: HudiTable, act: Callable[[HudiTable], object]) -> str:
    """Do something, die when all of its files are there, and return the time of its instant."""

    def die(*args: object) -> NoReturn:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TimelineFolder, "complete", die)
        with pytest.raises(Killed):
            act(table)
    (time,) = java.pending(Path(table.location.uri))
    return time


def java_goes_on(table: SmallTable) -> None:
    """Commit in a file group of its own, and archive what was before."""
    for count in range(2):
        table.commit("j-0", [row(90, "j"), row(91 + count, "j")], "value=j")
    java.archive(table.path, keep=1)


JAVAS = {90: "j", 92: "j"}


def no_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write as versions did that had no markers."""
    writers = ("file_group.writer", "write.staged_files")
    for module in writers:
        monkeypatch.setattr(f"lookupstore.hudi.{module}.mark", lambda *args, **named: None)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("verb", VERBS)
def test_a_dead_writer_that_java_rolls_back(tmp_path: Path, verb: str, version: int) -> None:
    table = made(tmp_path / "t", version)
    before = base_files(table.path)
    time = die_at_the_end(table.table, VERBS[verb])
    written = [one for one in base_files(table.path) if time in one]
    assert written
    # Each has the marker that its kind of file has in Java.
    markers = table.path / ".hoodie" / ".temp" / time
    kinds = {one.relative_to(markers).as_posix() for one in markers.rglob("*.marker.*")}
    assert kinds == {f"{one}.marker.{'MERGE' if '/a-0_' in one else 'CREATE'}" for one in written}
    assert sorted(java.roll_back(table.path, time)) == written
    assert base_files(table.path) == before
    java_goes_on(table)
    assert rows_of(table.path) == {1: "p", 2: "p", **JAVAS}
    # What is left of it is its heartbeat, and the next write is in nobody's way.
    HudiTable.open(table.path).upsert(pa.table({"id": [7], "value": ["p"]}, schema=SCHEMA))
    assert leftovers(table.path) == []
    assert rows_of(table.path) == {1: "p", 2: "p", 7: "p", **JAVAS}
    assert not HudiTable.open(table.path).verify().findings


@pytest.mark.sampled
@pytest.mark.parametrize("version", VERSIONS)
def test_a_writer_killed_at_each_operation_that_java_rolls_back(
    tmp_path: Path, version: int
) -> None:
    template = made(tmp_path / "template", version)
    points = count_points(template.path, tmp_path, VERBS["upsert"])
    for point in some_of(range(points)):
        path = tmp_path / str(point)
        opened = copied(template.path, path)
        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            on_disk(patch, FaultyDisk(point, kill=True))
            VERBS["upsert"](opened)
        expected = rows_of(path)
        times = java.pending(path)
        for time in times:
            java.roll_back(path, time)
            assert not [one for one in base_files(path) if time in one]
        java_goes_on(template.at(path))
        assert rows_of(path) == {**expected, **JAVAS}
        if times:
            assert expected == {1: "p", 2: "p"}
    assert points > 30
    print(f"version {version}: {points} operations")


@pytest.mark.sampled
@pytest.mark.parametrize("version", VERSIONS)
def test_a_rollback_of_the_last_commit_that_java_ends(tmp_path: Path, version: int) -> None:
    """Wherever it is killed: the commit is there, or nothing of it is."""
    template = made(tmp_path / "template", version)
    done = template.table.upsert(some(range(1, 6)), options=ONE).instant
    assert done is not None
    new = rows_of(template.path)

    def act(table: HudiTable) -> None:
        table.rollback(done.time)

    ends = set()
    for point in some_of(range(count_points(template.path, tmp_path, act))):
        path = tmp_path / str(point)
        opened = copied(template.path, path)
        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            on_disk(patch, FaultyDisk(point, kill=True))
            act(opened)
        is_there = rows_of(path) == new
        for time in java.pending(path):
            java.roll_back(path, time)
        left = [one for one in base_files(path) if done.time in one]
        assert len(left) == 2 * is_there
        assert rows_of(path) == (new if is_there else {1: "p", 2: "p"})
        ends.add(is_there)
    assert ends == {True, False}


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("named_later", [False, True])
def test_a_living_writer_that_java_rolls_back(
    tmp_path: Path, version: int, named_later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java by default rolls back whatever is inflight; some files may get their names after it."""
    table = made(tmp_path / "t", version)
    before = base_files(table.path)
    real = Transaction.complete
    times = []

    def complete(self: Transaction, *args: object) -> object:
        times.append(self.time)
        contents = {one: (table.path / one).read_bytes() for one in base_files(table.path)}
        java.roll_back(table.path, self.time)
        java_goes_on(table)
        for name, content in contents.items():
            if named_later and self.time in name:
                mark(table.table.location, name, self.time, replaces=False)
                (table.path / name).write_bytes(content)
        return real(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Transaction, "complete", complete)
    with pytest.raises(CommitConflictError, match="rolled it back"):
        VERBS["upsert"](table.table)
    assert [one for one in base_files(table.path) if "j-0" not in one] == before
    assert rows_of(table.path) == {1: "p", 2: "p", **JAVAS}
    assert not (table.path / ".hoodie" / ".temp" / times[0]).exists()
    monkeypatch.undo()
    VERBS["bulk_insert"](HudiTable.open(table.path))
    assert leftovers(table.path) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_files_that_java_did_not_find(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next write deletes them, before or after the commits before them are archived."""
    for is_archived in (False, True):
        table = made(tmp_path / f"t{is_archived}", version)
        no_marks(monkeypatch)
        time = die_at_the_end(table.table, VERBS["upsert"])
        monkeypatch.undo()
        assert java.roll_back(table.path, time) == []
        left = [one for one in base_files(table.path) if time in one]
        assert len(left) == 2
        if is_archived:
            java_goes_on(table)
        found = table.table.verify()
        kinds = {one.path: one.kind for one in found.findings if one.path in left}
        assert kinds == dict.fromkeys(left, "uncommitted" if is_archived else "leftover")
        assert found.is_ok is not is_archived
        if is_archived:
            # As every reader takes them.
            assert {3, 4} <= set(rows_of(table.path))
        HudiTable.open(table.path).bulk_insert(some(range(5, 6)), options=ONE)
        assert not [one for one in base_files(table.path) if time in one]
        java_goes_on(table)
        assert rows_of(table.path) == {1: "p", 2: "p", 5: "q", **JAVAS}
        assert leftovers(table.path) == []
        assert not HudiTable.open(table.path).verify().findings


@pytest.mark.parametrize("is_cleaned", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_files_whose_writer_nobody_knows(
    tmp_path: Path, version: int, is_cleaned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`rollback()` deletes those that never committed, and none that may have; so does a clean."""
    table = made(tmp_path / "t", version)
    no_marks(monkeypatch)
    time = die_at_the_end(table.table, VERBS["upsert"])
    java.roll_back(table.path, time)
    Heartbeats(table.table.location).delete(time)
    java_goes_on(table)
    assert [one.kind for one in table.table.verify().findings] == ["uncommitted"] * 2
    kept = base_files(table.path)
    for verb in ("upsert", "insert", "delete"):
        with pytest.raises(CorruptionError, match=r"which was rolled back; call rollback\(\)"):
            VERBS[verb](table.table)
    assert base_files(table.path) == kept
    if is_cleaned:
        table.table.clean(retain_commits=1)
    else:
        table.table.rollback()
    assert rows_of(table.path) == {1: "p", 2: "p", **JAVAS}
    assert not table.table.verify().findings
    # When the rollback is archived as well, nobody can tell them from those of commits.
    time = die_at_the_end(table.table, VERBS["upsert"])
    java.roll_back(table.path, time)
    java_goes_on(table)
    java.archive(table.path, keep=1, rollbacks=True)
    assert never_completed(table.view()) == []
    kept = base_files(table.path)
    table.table.rollback()
    assert base_files(table.path) == kept


@pytest.mark.parametrize("is_cleaned", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_files_whose_rollback_java_archived(
    tmp_path: Path, version: int, is_cleaned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive says what they are, as long as it is there."""
    table = made(tmp_path / "t", version)
    table.commit("b-0", [row(6, "p")], "value=p")
    no_marks(monkeypatch)
    time = die_at_the_end(table.table, VERBS["upsert"])
    java.roll_back(table.path, time)
    Heartbeats(table.table.location).delete(time)
    for _ in range(2):
        table.commit("j-0", [row(90, "j")], "value=j")
    gone = java.archive(table.path, keep=1, rollbacks=True, is_kept=True)
    assert list(gone.values()) == ["commit", "commit", "rollback", "commit"]
    left = [one for one in base_files(table.path) if time in one]
    assert len(left) == 2
    assert {3, 4} <= set(rows_of(table.path))
    found = table.table.verify()
    assert {one.path: one.kind for one in found.findings} == dict.fromkeys(left, "uncommitted")
    copied(table.path, tmp_path / "without")
    others = [one for one in base_files(table.path) if one not in left]
    if is_cleaned:
        # Before it takes one of them for what replaces another slice.
        table.table.clean(retain_commits=1)
        # The slice of Java's group that another replaced.
        others = [one for one in others if one in base_files(table.path)]
    else:
        table.table.rollback()
    assert base_files(table.path) == others
    assert rows_of(table.path) == {1: "p", 2: "p", 6: "p", 90: "j"}
    assert not table.table.verify().findings
    # Somebody deleted the archive, or all of it that says so.
    alone = HudiTable.open(tmp_path / "without")
    for file in (tmp_path / "without" / alone.options.archive).iterdir():
        file.unlink()
    alone.rollback()
    assert set(left) <= set(base_files(tmp_path / "without"))


@pytest.mark.parametrize("version", VERSIONS)
def test_archived_commits_without_a_rollback_stay(tmp_path: Path, version: int) -> None:
    """That an archive does not have a commit proves nothing: it may be cut."""
    table = made(tmp_path / "t", version)
    for count in range(3):
        table.commit("b-0", [row(6 + count, "p")], "value=p")
    java.archive(table.path, keep=3)
    java.archive(table.path, keep=1, is_kept=True)
    kept = base_files(table.path)
    rows = rows_of(table.path)
    table.table.rollback()
    assert base_files(table.path) == kept
    assert table.table.verify().is_ok
    table.table.clean(retain_commits=1)
    assert rows_of(table.path) == rows


def test_what_was_rolled_back_and_completed_later(tmp_path: Path) -> None:
    """Java rolls back a clustering to its plan, and then does it under the same time."""
    table = made(tmp_path / "t", 6)
    clustering = table.begin("replacecommit")
    table.write(clustering.time, "b-0", [row(1, "p")], "value=p")
    assert java.roll_back(table.path, clustering.time) == []
    again = table.folder.request_at(clustering.time, "replacecommit")
    stat = table.write(again.time, "c-0", [row(1, "p"), row(2, "p")], "value=p")
    (table.path / str(stat.path).replace("c-0", "b-0")).unlink()
    table.finish(table.folder.start(again), [stat], {"value=p": ("a-0",)})
    # A clean comes before an archival of what replaces groups.
    for old in (table.path / "value=p").glob("a-0_*"):
        old.unlink()
    java_goes_on(table)
    assert rows_of(table.path) == {1: "p", 2: "p", **JAVAS}
    assert table.table.verify().is_ok
    Heartbeats(table.table.location).claim(clustering.time)
    table.table.rollback()
    assert rows_of(table.path) == {1: "p", 2: "p", **JAVAS}


def test_what_is_after_a_savepoint_that_stays(tmp_path: Path) -> None:
    """Java can archive beyond a savepoint: files of commits after it may count."""
    table = made(tmp_path / "t", 9)
    table.table.savepoint()
    saved = table.table.timeline()[0].time
    archived = table.commit("b-0", [row(5, "p")], "value=p")
    java_goes_on(table)
    times = [one.time for one in table.table.timeline() if one.is_write]
    assert saved in times
    assert archived.time not in times
    kept = base_files(table.path)
    table.table.rollback()
    assert base_files(table.path) == kept


@pytest.mark.parametrize("version", VERSIONS)
def test_files_that_wait_are_no_markers(tmp_path: Path, version: int) -> None:
    table = made(tmp_path / "t", version)
    time = die_at_the_end(table.table, VERBS["upsert"])
    waiting = table.path / staging_folder(time) / "value=p" / f"a-0_0-1-9_{time}.parquet"
    waiting.parent.mkdir(parents=True)
    waiting.touch()
    assert len(java.roll_back(table.path, time)) == 2
    assert waiting.exists()
    java_goes_on(table)
    assert rows_of(table.path) == {1: "p", 2: "p", **JAVAS}
    HudiTable.open(table.path).bulk_insert(some(range(5, 6)), options=ONE)
    assert not waiting.exists()
    assert not HudiTable.open(table.path).verify().findings


def test_markers_in_the_folder_of_files_that_wait(tmp_path: Path) -> None:
    """So Java ended at what earlier versions had there."""
    table = made(tmp_path / "t", 9)
    time = die_at_the_end(table.table, VERBS["upsert"])
    (table.path / ".hoodie" / ".temp" / time / f"a-0_0-1-9_{time}.parquet").touch()
    with pytest.raises(ValueError, match="No enum constant"):
        java.roll_back(table.path, time)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_an_overwrite_says_when_it_begins(
    tmp_path: Path, real_tables: Path, version: int
) -> None:
    """Java writes what a commit says, with no groups that are replaced, and so do we."""
    table = made(tmp_path / "t", version)
    done = table.table.insert_overwrite(some(range(1, 4)), options=ONE)
    assert done.instant is not None
    begun = replace(done.instant, state=State.INFLIGHT, completed=None)
    content = table.folder.read(begun)
    assert begun.file_name == f"{begun.time}.replacecommit.inflight"
    if version == 6:
        assert list(json.loads(content)) == [
            "partitionToWriteStats", "compacted", "extraMetadata", "operationType",
        ]  # fmt: skip
        return
    (real,) = real_tables.glob("v9_txns_simple_nometa/.hoodie/timeline/*.replacecommit.inflight")
    java_s, ours = real.read_bytes(), content
    assert ours.partition(ours[-MARKER:])[0] == java_s.partition(java_s[-MARKER:])[0]
    said, java_said = parse_commit(ours, ""), parse_commit(java_s, "")
    assert said.operation == java_said.operation == "INSERT_OVERWRITE"
    stats, java_stats = (dict(one.stats or {}) for one in (said, java_said))
    (java_stat,) = java_stats["region=eu"]
    (stat,) = stats["value=p"]
    assert replace(stat, num_inserts=2) == replace(java_stat, num_inserts=2)
    assert (stat.num_inserts, java_stat.num_inserts) == (3, 2)


def test_a_marker_is_there_before_its_file(tmp_path: Path) -> None:
    """Of each base file, whatever else is done at the same time."""
    table = made(tmp_path / "t", 9)
    seen = []
    real = Location(table.path).__class__.new_file

    def new_file(self: Location, name: str) -> object:
        markers = [one.name for one in (table.path / ".hoodie" / ".temp").rglob("*.marker.*")]
        seen.append(name)
        assert any(one.startswith(f"{name.rpartition('/')[2]}.marker.") for one in markers)
        return real(self, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(Location(table.path)), "new_file", new_file)
        table.table.upsert(some(range(1, 5)))
    assert len(seen) == 2


def contents(path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def begin_restore(path: Path, state: State = State.REQUESTED) -> Path:
    """Begin to restore a table, as Java does; return the file of the instant."""
    folder = HudiTable.open(path).view().folder
    instant = folder.request(RESTORE)
    if state is State.INFLIGHT:
        instant = folder.start(instant)
    return Path(folder.path(instant))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
def test_nothing_is_written_while_java_restores(tmp_path: Path, version: int, state: State) -> None:
    path = made(tmp_path / "t", version).path
    table = HudiTable.open(path)
    saved = table.savepoint().time
    file = begin_restore(path, state)
    before = contents(path)
    verbs: list[Callable[[HudiTable], object]] = [
        *VERBS.values(),
        lambda table: table.upsert(some(range(1, 6)), dry_run=True),
        HudiTable.rollback,
        HudiTable.savepoint,
        lambda table: table.delete_savepoint(saved),
        lambda table: table.clean(retain_commits=1),
        HudiTable.archive,
    ]
    for verb in verbs:
        with pytest.raises(CommitConflictError, match=f"{file.name}: another program restores"):
            verb(table)
        assert contents(path) == before
    assert rows_of(path) == {1: "p", 2: "p"}
    for part in file.parent.glob("*.restore.*"):
        part.unlink()
    table.upsert(some(range(1, 3)))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_write_does_not_complete_in_a_restore(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes its own instant back, though the restore is not completed."""
    path = made(tmp_path / "t", version).path
    real = Transaction._delete_strays

    def meanwhile(transaction: Transaction, known: Collection[str | None]) -> None:
        real(transaction, known)
        begin_restore(path)

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "_delete_strays", meanwhile)
        with pytest.raises(CommitConflictError, match="another program restores"):
            HudiTable.open(path).upsert(some(range(1, 6)), options=ONE)
    assert rows_of(path) == {1: "p", 2: "p"}
    assert HudiTable.open(path).verify().findings == ()
    assert java.pending(path) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_the_meta_column_of_flink(tmp_path: Path, version: int) -> None:
    """Its writers can add a sixth, which is not shown, and not in files that are written here."""
    table = SmallTable(tmp_path / "t", version)
    instant = table.begin()
    stat = table.write(instant.time, "a-0", [row(1, "old"), row(2, "old")])
    path = table.path / str(stat.path)
    metadata = pq.read_schema(path).metadata
    rows = pq.ParquetFile(path).read()
    operation = pa.field("_hoodie_operation", pa.string())
    pq.write_table(
        rows.add_column(5, operation, pa.array(["+I", "+U"])).replace_schema_metadata(metadata),
        path,
    )
    nbytes = path.stat().st_size
    table.finish(instant, [replace(stat, file_size_in_bytes=nbytes, total_write_bytes=nbytes)])
    names = [*META_COLUMNS, "id", "value"]
    assert table.table.scan().column_names == names
    assert rows_of(table.path) == {1: "old", 2: "old"}
    change = pa.table({"id": [2, 3], "value": ["new", "new"]}, schema=SCHEMA)
    table.table.upsert(change)
    assert rows_of(table.path) == {1: "old", 2: "new", 3: "new"}
    (written,) = [one for one in table.path.rglob("*.parquet") if one != path]
    assert pq.read_schema(written).names == names
    assert table.table.verify().is_ok
