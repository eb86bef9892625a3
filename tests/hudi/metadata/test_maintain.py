"""The metadata table beside each verb: hudi-rs reads through it what it reads by the folders."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.hudi.kills import kill_again_and_again, leftovers
from support.hudi.metadata import (
    MAINTAIN,
    REDUCE,
    WITH_METADATA,
    check_listed,
    check_seen,
    compact,
    data_of,
    last_commit,
    listed_scan,
    renamed,
)
from support.hudi.oracle import assert_same_rows, other_scan
from support.remote import Killed

from lookupstore.errors import (
    CommitConflictError,
    CommitUnknownError,
    FormatError,
    LockLostError,
)
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.locking.lock import table_lock
from lookupstore.hudi.metadata.files_partition import files_partition
from lookupstore.hudi.metadata.group_files import TIMELINE
from lookupstore.hudi.metadata.maintain import forget_instant
from lookupstore.hudi.options import METADATA_CHOICES
from lookupstore.hudi.timeline.timeline import NEWEST, Instant, TimelineFolder

pytestmark = pytest.mark.drawn(0.4)

Real = Callable[[str], Path]
NAMES = pytest.mark.parametrize("name", WITH_METADATA)


def as_version_8(path: Path) -> None:
    """Let a table of version 9 be one of version 8, and its metadata table, too."""
    for folder in (path, path / ".hoodie" / "metadata"):
        properties = folder / ".hoodie/hoodie.properties"
        text = properties.read_text().replace("table.version=9", "table.version=8")
        properties.write_text(text.replace("table.ordering.fields", "table.precombine.field"))


@pytest.mark.few(1)
@pytest.mark.parametrize("version", [8, 9])
@NAMES
def test_histories_are_listed_as_they_are(
    real_table: Real, name: str, version: int, seed: int
) -> None:
    """Every verb, in an order that changes from run to run."""
    path = real_table(name)
    if version == 8:
        as_version_8(path)
        assert HudiTable.open(path).options.version == 8
    table = HudiTable.open(path)
    assert table.verify().findings == ()
    chosen = random.Random(seed)
    stored = data_of(table.scan())
    partitioned = bool(table.options.partition_by)
    table.upsert(stored.slice(0, 3), options=REDUCE)
    check_listed(path)
    numbers = iter(range(10_000))

    def new(count: int) -> object:
        return renamed(table.scan(), *(f"new-{next(numbers)}" for _ in range(count)))

    def delete_partition() -> None:
        found = table.file_groups()
        table.delete_partition(chosen.choice(found).id.partition, options=MAINTAIN)
        table.upsert(stored, options=MAINTAIN)

    def keep() -> None:
        if last_commit(table) not in table.savepoints():
            saved = table.savepoint(metadata="maintain")
            check_listed(path)
            table.delete_savepoint(saved.time, metadata="maintain")

    def roll_back() -> None:
        table.upsert(new(1), options=MAINTAIN)
        table.rollback(last_commit(table), metadata="maintain")

    verbs = [
        lambda: table.upsert(stored.slice(chosen.randrange(8), 2), options=MAINTAIN),
        lambda: table.upsert(new(2), options=MAINTAIN),
        lambda: table.insert(new(1), options=MAINTAIN),
        lambda: table.bulk_insert(new(2), options=MAINTAIN),
        lambda: table.delete(table.scan().slice(chosen.randrange(3), 1), options=MAINTAIN),
        lambda: table.insert_overwrite(stored.slice(chosen.randrange(8), 3), options=MAINTAIN),
        lambda: table.insert_overwrite_table(stored, options=MAINTAIN),
        lambda: table.clean(retain_commits=chosen.randint(1, 3), metadata="maintain"),
        lambda: table.archive(min_commits=1, max_commits=1, metadata="maintain"),
        keep,
        roll_back,
        *([delete_partition] if partitioned else []),
    ]
    chosen.shuffle(verbs)
    for verb in verbs:
        verb()
        check_listed(path)
    assert leftovers(path) == []


@pytest.mark.few(1)
@NAMES
def test_a_write_that_dies_between_the_two_commits(
    real_table: Real, name: str, tmp_path: Path
) -> None:
    path = real_table(name)
    table = HudiTable.open(path)
    table.upsert(data_of(table.scan()).slice(0, 1), options=REDUCE)
    before = table.scan()
    key = renamed(before, "killed")

    def act(table: HudiTable) -> None:
        try:
            table.upsert(key, options=MAINTAIN)
        except CommitUnknownError as error:
            raise OSError(str(error)) from error

    def check(path: Path) -> None:
        rows = check_seen(path)
        assert rows.num_rows in (before.num_rows, before.num_rows + 1)

    def check_end(path: Path) -> None:
        assert check_listed(path).num_rows == before.num_rows + 1

    assert kill_again_and_again(path, tmp_path, act, check) > 20
    check_end(tmp_path / "again")


@NAMES
def test_what_a_dead_writer_left_is_passed_over_and_taken_back(
    real_table: Real, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It died when the metadata table had its commit, and the table had not."""
    path = real_table(name)
    table = HudiTable.open(path)
    table.upsert(renamed(table.scan(), "one"), options=REDUCE)
    before = table.scan()
    complete = TimelineFolder.complete

    def die(self: TimelineFolder, instant: Instant, *given: Any) -> Instant:
        if instant.action == "commit":
            raise Killed("between the two")
        return complete(self, instant, *given)

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(TimelineFolder, "complete", die)
        table.upsert(renamed(before, "killed"), options=MAINTAIN)
    view = table.view()
    (pending,) = view.timeline.pending()
    folder = view.folder.beside(TIMELINE)
    assert [one.action for one in folder.load() if one.time == pending.time] == ["deltacommit"]
    partition = files_partition(view.location, view.timeline, folder)
    assert partition.log_times
    assert pending.time not in partition.log_times
    assert_same_rows(before, other_scan(path))
    table.upsert(renamed(before, "next"), options=MAINTAIN)
    assert check_listed(path).num_rows == before.num_rows + 1
    assert not any(pending.time in one.name for one in (path / ".hoodie").rglob("*log*"))
    (undone,) = [one for one in folder.load() if one.action == "rollback"]
    assert undone.is_completed
    assert leftovers(path) == []


@pytest.mark.few(1)
@pytest.mark.parametrize("verb", ["clean", "rollback"])
def test_a_service_that_dies_while_it_writes_there(
    real_table: Real, verb: str, tmp_path: Path
) -> None:
    path = real_table("v9_txns_complex_meta")
    table = HudiTable.open(path)
    table.upsert(renamed(table.scan(), "one"), options=REDUCE)
    rows = table.scan().num_rows
    if verb == "rollback":
        table.upsert(renamed(table.scan(), "two"), options=MAINTAIN)
    time = last_commit(table)

    def act(table: HudiTable) -> None:
        if verb == "clean":
            table.clean(retain_commits=1, metadata="maintain")
            return
        table.rollback(metadata="maintain")
        if last_commit(table) == time:
            table.rollback(time, metadata="maintain")

    def check(path: Path) -> None:
        found = check_seen(path).num_rows
        assert found in (rows, rows + (verb == "rollback"))

    def check_end(path: Path) -> None:
        assert check_listed(path).num_rows == rows

    assert kill_again_and_again(path, tmp_path, act, check) > 20
    check_end(tmp_path / "again")


def test_what_is_chosen_is_done(real_table: Real) -> None:
    path = real_table("v9_txns_nonpart_meta")
    table = HudiTable.open(path)
    row = renamed(table.scan(), "new")
    folder = path / ".hoodie" / "metadata"
    # It has an index of records, which is not written here: no remedy but those that work.
    for act in (
        lambda: table.upsert(row),
        lambda: table.clean(retain_commits=1),
        lambda: table.rollback(),
        lambda: table.savepoint(),
        lambda: table.archive(),
    ):
        with pytest.raises(FormatError, match=r"pass metadata='reduce', .*metadata='drop'") as said:
            act()
        assert "maintain" not in str(said.value)
    with pytest.raises(FormatError, match=r"only 'files' is written here.*metadata='reduce'"):
        table.upsert(row, options=MAINTAIN)
    with pytest.raises(FormatError, match="metadata='reduce'"):
        table.clean(retain_commits=1, metadata="maintain")
    with pytest.raises(ValueError, match="metadata is 'keep'; give 'refuse', 'maintain'"):
        WriteOptions(metadata="keep")
    with pytest.raises(ValueError, match="metadata is 'keep'"):
        table.rollback(metadata="keep")
    assert (folder / "record_index").is_dir()
    table.upsert(row, options=REDUCE, dry_run=True)
    assert (folder / "record_index").is_dir()
    table.upsert(row, options=REDUCE)
    assert sorted(one.name for one in folder.iterdir()) == [".hoodie", "files"]
    check_listed(path)
    with pytest.raises(FormatError, match="metadata='maintain'"):
        table.rollback()
    table.clean(retain_commits=1, metadata="drop")
    assert not folder.exists()
    assert table.options.metadata_partitions == ()
    assert_same_rows(table.scan(), other_scan(path))


@pytest.mark.parametrize("choice", METADATA_CHOICES)
def test_tables_without_a_metadata_table_take_every_choice(real_table: Real, choice: str) -> None:
    path = real_table("v9_txns_simple_nometa")
    table = HudiTable.open(path)
    rows = table.scan().num_rows
    table.upsert(renamed(table.scan(), "new"), options=WriteOptions(metadata=choice))
    table.clean(retain_commits=1, metadata=choice)
    table.rollback(metadata=choice)
    assert other_scan(path).num_rows == rows + 1
    assert not (path / ".hoodie" / "metadata").exists()


def test_a_metadata_table_that_comes_during_a_write_is_not_written(
    real_table: Real, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody said what is to be done with it, and it may have indexes."""
    path = real_table("v9_txns_simple_nometa")
    table = HudiTable.open(path)
    properties = path / ".hoodie/hoodie.properties"
    text = properties.read_text()

    def come(*_: object) -> None:
        properties.write_text(f"{text}\nhoodie.table.metadata.partitions=files\n")

    monkeypatch.setattr("lookupstore.hudi.write.transaction.Transaction._delete_strays", come)
    with pytest.raises(FormatError, match=r"metadata\.partitions is 'files'"):
        table.upsert(renamed(table.scan(), "new"), options=MAINTAIN)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("table.version=9", "table.version=8", "version is '8', not '9'"),
        ("partitions.inflight=", "partitions.inflight=record_index", "only 'files' is written"),
        ("partitions.inflight=", "partitions.inflight=files", "not listed there, or not yet"),
        ("metadata.partitions=files", "metadata.partitions=column_stats", "not listed there"),
    ],
)
def test_metadata_tables_of_another_kind_are_refused(
    real_table: Real, old: str, new: str, problem: str
) -> None:
    path = real_table("v9_txns_nonpart_meta")
    table = HudiTable.open(path)
    row = renamed(table.scan(), "new")
    table.upsert(row, options=REDUCE)
    folder = path / ".hoodie" / "metadata" if "version" in old else path
    file = folder / ".hoodie/hoodie.properties"
    text = file.read_text()
    # A property that is empty is not kept.
    added = f"{text}hoodie.table.metadata.{new}\n"
    file.write_text(text.replace(old, new) if old in text else added)
    before = sorted(path.rglob("*"))
    for act in (
        lambda: table.upsert(row, options=MAINTAIN),
        lambda: table.clean(retain_commits=1, metadata="maintain"),
    ):
        with pytest.raises(FormatError, match=problem):
            act()
    assert sorted(path.rglob("*")) == before


def test_a_metadata_table_with_many_logs_goes(
    real_table: Real, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = real_table("v9_txns_nonpart_meta")
    table = HudiTable.open(path)
    monkeypatch.setattr("lookupstore.hudi.metadata.maintain._MOST_LOGS", 6)
    for number in range(2):
        table.upsert(renamed(table.scan(), f"new-{number}"), options=REDUCE)
        check_listed(path)
    table.upsert(renamed(table.scan(), "last"), options=MAINTAIN)
    assert table.options.metadata_partitions == ()
    assert not (path / ".hoodie" / "metadata").exists()
    assert_same_rows(table.scan(), other_scan(path))


def test_a_rollback_of_what_was_compacted_deletes_the_metadata_table(real_table: Real) -> None:
    """The first of Java's commits, whose files are in a base file."""
    path = real_table("v9_txns_nonpart_meta")
    table = HudiTable.open(path)
    times = [one.time for one in table.timeline() if one.is_completed and one.is_write]
    (base,) = (path / ".hoodie" / "metadata" / "files").glob("*_2026*.hfile")
    compacted = base.name.removesuffix(".hfile").rpartition("_")[2]
    table.clean(retain_commits=len(times), metadata="reduce")
    check_listed(path)
    while times[-1] > compacted:
        table.rollback(times.pop(), metadata="maintain")
        check_listed(path)
    table.rollback(times.pop(), metadata="maintain")
    assert HudiTable.open(path).options.metadata_partitions == ()
    assert not (path / ".hoodie" / "metadata").exists()
    assert_same_rows(table.scan(), other_scan(path))
    assert_same_rows(table.scan(), listed_scan(path))


def test_nothing_is_taken_back_after_the_lock_is_lost(real_table: Real) -> None:
    """Another writer may have the metadata table, or the commit, that would be taken back."""
    path = real_table("v9_txns_nonpart_meta")
    view = HudiTable.open(path).view()
    first = next(one.time for one in view.timeline if one.is_completed and one.is_write)
    before = contents(path / ".hoodie")
    with table_lock(view.location) as lock:
        (path / ".hoodie" / "lock").unlink()
        with pytest.raises(LockLostError):
            forget_instant(view, first, first, lock)
    assert contents(path / ".hoodie") == before


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "lock" not in path.parts[-1]
    }


@pytest.mark.few(1)
@NAMES
def test_no_commit_is_archived_that_the_metadata_table_did_not_compact(
    real_table: Real, name: str
) -> None:
    """Java reads a log file of it only if the timeline has the instant that wrote it."""
    path = real_table(name)
    table = HudiTable.open(path)
    table.clean(retain_commits=1, metadata="reduce")
    folder = table.view().folder.beside(TIMELINE)
    compacted = max(one.time for one in folder.load() if one.action == "commit")
    # More than say what the zone of the timeline is.
    for number in range(NEWEST + 1):
        table.upsert(renamed(table.scan(), f"new-{number}"), options=MAINTAIN)
        table.clean(retain_commits=1, metadata="maintain")
    done = table.archive(min_commits=1, max_commits=1, metadata="maintain")
    assert "metadata table" in (done.kept_by or "")
    assert all(one.time < compacted for one in done.instants)
    check_listed(path)
    compacted = compact(path)
    for number in range(NEWEST):
        table.upsert(renamed(table.scan(), f"last-{number}"), options=MAINTAIN)
    table.clean(retain_commits=1, metadata="maintain")
    done = table.archive(min_commits=1, max_commits=1, metadata="maintain")
    assert len(done.commits) > 2, done
    assert all(one.time < compacted for one in done.instants)
    left = {one.time for one in table.timeline()}
    view = table.view()
    logs = files_partition(view.location, view.timeline, view.folder.beside(TIMELINE)).log_times
    assert logs
    assert left.issuperset(logs)
    check_listed(path)


@pytest.mark.few(1)
@NAMES
def test_what_another_writer_compacted_is_added_to(real_table: Real, name: str) -> None:
    path = real_table(name)
    table = HudiTable.open(path)
    table.upsert(renamed(table.scan(), "one"), options=REDUCE)
    times = [compact(path)]
    check_listed(path)
    for number in range(3):
        table.upsert(renamed(table.scan(), f"more-{number}"), options=MAINTAIN)
        check_listed(path)
        table.clean(retain_commits=2, metadata="maintain")
        check_listed(path)
    times.append(compact(path))
    check_listed(path)
    # What came before the compaction is in the base file.
    assert last_commit(table) < times[-1]
    table.rollback(last_commit(table), metadata="maintain")
    assert HudiTable.open(path).options.metadata_partitions == ()
    assert_same_rows(table.scan(), other_scan(path))


@pytest.mark.parametrize("completes", [True, False])
def test_a_compaction_between_request_and_commit(
    real_table: Real, completes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log file is of an instant before the base file, and was completed after it."""
    path = real_table("v9_txns_complex_meta")
    table = HudiTable.open(path)
    table.upsert(renamed(table.scan(), "one"), options=REDUCE)
    rows = table.scan().num_rows
    with monkeypatch.context() as patch:
        patch.setattr(
            "lookupstore.hudi.write.transaction.Transaction._delete_strays",
            lambda *_: compact(path, completes=completes),
        )
        table.upsert(renamed(table.scan(), "two"), options=MAINTAIN)
    assert check_listed(path).num_rows == rows + 1
    table.upsert(renamed(table.scan(), "three"), options=MAINTAIN)
    assert check_listed(path).num_rows == rows + 2
    if not completes:
        table.rollback(last_commit(table), metadata="maintain")
        # A compaction before it does not need its files.
        assert check_listed(path).num_rows == rows + 1
        with pytest.raises(FormatError, match="a compaction of the metadata table is pending"):
            table.upsert(renamed(table.scan(), "four"), options=REDUCE)
    table.rollback(last_commit(table), metadata="maintain")
    if not completes:
        # This one has a plan that may name them.
        assert HudiTable.open(path).options.metadata_partitions == ()
    assert_same_rows(table.scan(), other_scan(path))
    assert table.scan().num_rows == (rows if not completes else rows + 1)


def test_a_write_that_conflicts_leaves_the_metadata_table_as_it_is(
    real_table: Real, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = real_table("v9_txns_nonpart_meta")
    table = HudiTable.open(path)
    table.upsert(renamed(table.scan(), "one"), options=REDUCE)

    def others(*_: object) -> None:
        monkeypatch.undo()
        HudiTable.open(path).upsert(renamed(table.scan(), "one"), options=MAINTAIN)
        compact(path)

    monkeypatch.setattr("lookupstore.hudi.write.transaction.Transaction._delete_strays", others)
    with pytest.raises(CommitConflictError):
        table.upsert(renamed(table.scan(), "one"), options=replace(MAINTAIN, retries=0))
    check_listed(path)
    assert leftovers(path) == []


def test_readers_find_what_is_in_many_blocks(
    real_table: Real, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index of an HFile has a key of each block, however long it is."""
    path = real_table("v9_txns_complex_meta")
    table = HudiTable.open(path)
    monkeypatch.setattr("lookupstore.hudi.log.hfile._BLOCK_BYTES", 1)
    rows = renamed(table.scan(), *(f"new-{number}" for number in range(5)))
    regions = pa.array(["A", "B" * 150, "é" * 40, "y" * 200, "z"])
    rows = rows.set_column(rows.schema.get_field_index("region"), "region", regions)
    table.upsert(rows, options=REDUCE)
    assert set(check_listed(path)["region"].to_pylist()) > set(regions.to_pylist())


def test_statistics_beside_a_metadata_table_leave_it_as_it_is(real_table: Real) -> None:
    """Also one with indexes that are not written here."""
    path = real_table("v9_txns_nonpart_meta")

    def others() -> dict[Path, bytes]:
        files = (one for one in path.rglob("*") if one.is_file())
        return {one: one.read_bytes() for one in files if ".lookupstore" not in one.parts}

    before = others()
    table = HudiTable.open(path)
    assert len(table.options.metadata_partitions) > 1
    filters = "amount = 120.5", "amount = 0"  # Java's own bounds of decimals are not used
    expected = {one: table.scan(filter=one) for one in filters}
    assert table.explain_scan(filters[1]).statistics.count > 0
    assert table.collect_statistics(["amount"]) == len(table.file_groups())
    assert table.explain_scan(filters[1]).statistics.count == 0
    assert {one: table.scan(filter=one) for one in filters} == expected
    assert others() == before
    assert table.verify().is_ok
    with pytest.raises(ValueError, match="metadata is 'keep'"):
        table.collect_statistics(metadata="keep")
    with pytest.raises(ValueError, match="lock is 'none'"):
        table.collect_statistics(lock="none")
