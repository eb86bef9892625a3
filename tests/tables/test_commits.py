"""The newest commit of a table up to a time, and lookups that follow tables."""

from __future__ import annotations

import json
import logging
import os
import pickle
import random
import re
import shutil
import time
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import lookupstore
from lookupstore import StaleStoreError
from lookupstore.columnar import ColumnarFiles
from lookupstore.hostcache.cache import Residency
from lookupstore.hudi import HudiTable
from lookupstore.tables.commits import moment_of

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("fastavro")
import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import StaticTable
from pyiceberg.types import LongType
from support.changing_tables import CHANGES, ROWS, DeltaChanges, IcebergChanges, arrow

KEYS = range(12)


@pytest.fixture
def residency(tmp_path: Path) -> Residency:
    return Residency(tmp_path / "cache", quota=64 << 20)


@pytest.fixture(params=sorted(CHANGES))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return CHANGES[request.param](tmp_path)


def utc(moment: float) -> datetime:
    return datetime.fromtimestamp(moment, timezone.utc)


def rows_in(files: ColumnarFiles) -> dict[int, int]:
    found = files.lookup(list(KEYS), found=True).to_pylist()
    return {key: row["v"] for key, row in zip(KEYS, found, strict=True) if row["found"]}


def random_rows(chance: random.Random) -> dict[int, int]:
    keys = chance.sample(list(KEYS), chance.randint(1, len(KEYS)))
    return {key: chance.randrange(1000) for key in keys}


@pytest.mark.parametrize("number", range(4))
def test_processes_choose_the_newest_commit_up_to_a_moment(
    table: Any, residency: Residency, seed: int, number: int
) -> None:
    """The oracle is a list of all commits; each process begins with another one of them."""
    chance = random.Random(seed + number)
    moment = 1_700_000_000_000
    history: list[tuple[float, dict[int, int]]] = []
    begun: list[ColumnarFiles] = []
    for _ in range(chance.randint(2, 8)):
        rows = random_rows(chance)
        moment += chance.choice([1, 1000, 500_000])
        table.commit(rows, moment / 1000)
        history.append((table.latest()[0], rows))
        begun.append(ColumnarFiles(table.given, key="id", residency=residency))
    times = [time for time, _ in history]
    for _ in range(30):
        first = chance.randrange(len(begun))
        asked = chance.choice(times) + chance.choice([-1000, -0.0005, 0, 0.0005, 1000])
        expected = max([first, *(at for at, time in enumerate(times) if time <= asked)])
        other = pickle.loads(pickle.dumps(begun[first]))
        position = other.position_at(utc(asked))
        assert position.split(":")[:2] == begun[expected]._commit.split(":")[:2]
        chosen = other.at(position)
        assert rows_in(chosen) == history[expected][1]
        assert chosen.committed_at() == pytest.approx(times[expected], abs=1e-6)
        assert (chosen is other) == (expected == first)


def test_a_service_follows_a_table(table: Any, residency: Residency) -> None:
    table.commit({1: 10, 2: 20})
    first = ColumnarFiles(table.given, key="id", build="never", residency=residency)
    assert first.newest() is first is first.refresh()
    table.commit({2: 21})
    assert rows_in(first) == {1: 10, 2: 20}, "an open object does not change"
    assert rows_in(first.newest()) == {2: 21}
    assert rows_in(first.refresh()) == {2: 21}, "without lookup files, nothing is waited for"
    files = ColumnarFiles(table.given, key="id", residency=residency)
    files.prepare()
    table.commit({3: 30})
    assert files.refresh() is files, "a thread makes the lookup file"
    for _ in range(600):
        if (newer := files.refresh()) is not files:
            break
        time.sleep(0.01)
    assert rows_in(newer) == {3: 30}
    assert newer.info().lookup_files == newer.num_files == 1
    assert rows_in(first) == {1: 10, 2: 20}


def test_files_of_a_folder_are_listed_again(tmp_path: Path, residency: Residency) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    pq.write_table(arrow({1: 10}), folder / "1.parquet")
    files = ColumnarFiles(folder, key="id", residency=residency)
    assert files.newest() is files is files.refresh()
    pq.write_table(arrow({2: 20}), folder / "2.parquet")
    assert rows_in(files.refresh()) == {1: 10, 2: 20}
    (folder / "1.parquet").unlink()
    (folder / "2.parquet").unlink()
    with pytest.raises(FileNotFoundError):
        files.newest()
    assert files.refresh() is files


def test_a_look_that_fails_is_logged(
    table: Any, tmp_path: Path, residency: Residency, caplog: pytest.LogCaptureFixture
) -> None:
    table.commit({1: 10})
    with ColumnarFiles(table.given, key="id", residency=residency) as files:
        assert rows_in(files) == {1: 10}
        commits: Any = files._commits()

        def fails() -> str:
            raise OSError("503 Slow Down")

        commits.newest = fails
        with caplog.at_level(logging.WARNING):
            assert files.refresh() is files
        assert "503 Slow Down" in caplog.text


def test_reads_of_a_file_count_in_newer_snapshots(tmp_path: Path, residency: Residency) -> None:
    """A file that every snapshot has gets its lookup file as if there were one snapshot."""
    path = str(tmp_path / "t")
    groups = deltalake.WriterProperties(max_row_group_size=1000)
    rows = pa.table({"id": range(20_000), "v": range(20_000)})
    deltalake.write_deltalake(path, rows, writer_properties=groups)
    files = ColumnarFiles(path, key="id", residency=residency)
    # One row group of 20 is read at a time: three times the file are 60 reads.
    for snapshot in range(8):
        large = max(files._lookups, key=lambda one: one.plan.source.num_rows)
        for at in range(10):
            files.lookup([(snapshot + at) % 20 * 1000])
        assert large.is_on_host() == (snapshot >= 6)
        deltalake.write_deltalake(path, arrow({100_000 + snapshot: 1}), mode="append")
        files = files.newest()


def test_columns_of_newer_commits(tmp_path: Path, residency: Residency) -> None:
    """`newest` has the columns of the table, and `at` those that were asked for at first."""
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, arrow({1: 10}))
    files = ColumnarFiles(path, key="id", residency=residency)
    wider = pa.table({"id": [2], "v": [20], "w": ["x"]})
    deltalake.write_deltalake(path, wider, mode="append", schema_mode="merge")
    assert files.newest().lookup([1, 2]).to_pylist() == [{"v": 10, "w": None}, {"v": 20, "w": "x"}]
    assert files.at().lookup([1, 2]).to_pylist() == [{"v": 10}, {"v": 20}]
    other = pa.table({"id": [2], "v": ["20"]})
    deltalake.write_deltalake(path, other, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(StaleStoreError, match="columns have other types since it was opened; open"):
        files.at()
    other = pa.table({"id": [2], "w": ["20"]})
    deltalake.write_deltalake(path, other, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(StaleStoreError, match="the files have no column 'v'"):
        files.at()


def test_the_newest_partition_of_each_commit_is_read(tmp_path: Path, residency: Residency) -> None:
    path = str(tmp_path / "t")

    def write(day: int) -> None:
        rows = pa.table({"id": [1, day], "day": [day, day]})
        deltalake.write_deltalake(path, rows, mode="append", partition_by=["day"])

    write(8)
    files = ColumnarFiles(path, key="id", latest_partition="day", residency=residency)
    assert files.lookup([1, 8, 9])["day"].to_pylist() == [8, 8, None]
    assert files != ColumnarFiles(path, key="id", residency=residency), "they differ later"
    assert files == ColumnarFiles(path, key="id", latest_partition="day", residency=residency)
    write(9)
    assert files.at().lookup([1, 8, 9])["day"].to_pylist() == [9, None, 9]
    deltalake.DeltaTable(path).delete()
    assert files.at().lookup([1])["day"].to_pylist() == [None]


def test_a_version_or_a_time_is_read(table: Any, residency: Residency) -> None:
    """What is opened by its number or its time never changes."""
    known: list[tuple[float, int, dict[int, int]]] = []
    for at in range(4):
        rows = {1: at, 2 + at: at}
        table.commit(rows, 1_700_000_000 + 10 * at)
        known.append((*table.latest(), rows))
    for moment, version, rows in known:
        # A text has whole seconds or milliseconds; both forms of a time mean the same.
        time = utc(moment + 0.0005)
        for options in ({"version": version}, {"as_of": time}, {"as_of": time.isoformat()}):
            files = ColumnarFiles(table.given, key="id", residency=residency, **options)
            assert rows_in(files) == rows
            assert files.newest() is files
            (name,) = options
            with pytest.raises(ValueError, match=f"was opened with {name}, and so never changes"):
                files.position_at(utc(moment))
            assert files.committed_at() == pytest.approx(moment, abs=1e-6)
    early = utc(known[0][0] - 100)
    message = r"as_of is .*before the first commit that the .* still has \(\w+ \d+ of (.*)\);"
    with pytest.raises(ValueError, match=message) as refused:
        ColumnarFiles(table.given, key="id", as_of=early)
    named = re.search(message, str(refused.value))[1]  # type: ignore[index]
    assert rows_in(ColumnarFiles(table.given, key="id", as_of=named)) == known[0][2]
    with pytest.raises(ValueError, match=r"version is 1234567, but the .* has .*; give one of"):
        ColumnarFiles(table.given, key="id", version=1234567)
    with pytest.raises(ValueError, match="version and as_of both choose a commit; give one"):
        ColumnarFiles(table.given, key="id", version=1, as_of=early)
    with pytest.raises(TypeError, match="version is '1'; give a whole number"):
        ColumnarFiles(table.given, key="id", version="1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="as_of is 'yesterday'; give a time such as"):
        ColumnarFiles(table.given, key="id", as_of="yesterday")
    with pytest.raises(TypeError, match="as_of is 5; give a datetime, a date, or a text"):
        ColumnarFiles(table.given, key="id", as_of=5)  # type: ignore[arg-type]


def test_a_date_is_its_beginning_in_utc(tmp_path: Path, residency: Residency) -> None:
    table = DeltaChanges(tmp_path)
    midnight = datetime(2024, 3, 7, tzinfo=timezone.utc).timestamp()
    for at, moment in enumerate((midnight - 5, midnight + 5)):
        table.commit({1: at}, moment)
    as_of: Any
    for as_of, value in (
        (date(2024, 3, 7), 0),
        ("2024-03-07", 0),
        ("2024-03-07T01:00:00+01:00", 0),
        ("2024-03-07 01:00:00", 1),
        (date(2024, 3, 8), 1),
    ):
        files = ColumnarFiles(table.given, key="id", residency=residency, as_of=as_of)
        assert rows_in(files) == {1: value}


def test_lookups_in_a_newer_commit_go_back(table: Any, residency: Residency) -> None:
    """All of them share the table that was opened, which is at one commit at a time."""
    table.commit({1: 1})
    first = ColumnarFiles(table.given, key="id", residency=residency)
    table.commit({1: 2})
    second = first.newest()
    table.commit({1: 3})
    third = second.newest()
    for one in (third, second, first):
        for value, other in enumerate((first, second, third), 1):
            assert rows_in(one.at(other._commit)) == {1: value}


def test_numbers_that_no_version_has(table: Any, residency: Residency) -> None:
    table.commit({1: 1})
    for version in (-1, 2**40, 2**70):
        with pytest.raises(ValueError, match=f"version is {version}, but the .* has .*; give one"):
            ColumnarFiles(table.given, key="id", version=version, residency=residency)
    with pytest.raises(TypeError, match="version is True; give a whole number"):
        ColumnarFiles(table.given, key="id", version=True, residency=residency)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_time_without_a_zone_is_in_utc(monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        wanted = utc(1_772_891_817)
        for given in (wanted, wanted.replace(tzinfo=None), "2026-03-07 13:56:57",
                      " 2026-03-07T13:56:57Z", "2026-03-07 14:56:57+01:00"):  # fmt: skip
            assert moment_of(given) == 1_772_891_817
    finally:
        monkeypatch.undo()
        time.tzset()


def test_files_have_no_versions(tmp_path: Path) -> None:
    pq.write_table(arrow({1: 10}), tmp_path / "1.parquet")
    with pytest.raises(ValueError, match=r"version is given, but .* names files, which have no"):
        ColumnarFiles(tmp_path / "1.parquet", key="id", version=1)
    files = ColumnarFiles(tmp_path / "1.parquet", key="id")
    assert not files.has_commits
    for use in (lambda: files.position_at(utc(0)), lambda: files.at("1")):
        with pytest.raises(ValueError, match="the files belong to no table with commits"):
            use()
    assert files.at() is files
    assert files.committed_at() == pytest.approx((tmp_path / "1.parquet").stat().st_mtime)


def test_in_commit_timestamps_of_a_delta_table(tmp_path: Path, residency: Residency) -> None:
    """A copy of the table has them, and files with other times."""
    table = DeltaChanges(tmp_path)
    for at in range(5):
        table.commit({1: at}, 1_700_000_000 + 10 * at)
    said = {"delta.enableInCommitTimestamps": "true",
            "delta.inCommitTimestampEnablementVersion": "3"}  # fmt: skip
    for version in (3, 4):
        path = table.folder / "_delta_log" / f"{version:020}.json"
        lines = [one for one in path.read_text().splitlines() if "commitInfo" not in one]
        commit = {"inCommitTimestamp": 1_700_000_000_000 + 1000 * version, "note": "x" * 50_000}
        if version == 3:
            first = (table.folder / "_delta_log" / f"{0:020}.json").read_text().splitlines()
            (metadata,) = (json.loads(one) for one in first if "metaData" in one)
            metadata["metaData"]["configuration"] = said
            features = {"minReaderVersion": 1, "minWriterVersion": 7,
                        "writerFeatures": ["inCommitTimestamp"]}  # fmt: skip
            lines = [json.dumps({"protocol": features}), json.dumps(metadata), *lines]
        path.write_text("\n".join([json.dumps({"commitInfo": commit}), *lines]) + "\n")
        os.utime(path, (1_800_000_000, 1_800_000_000))
    for version in range(3):  # the files of these say when they were written
        path = table.folder / "_delta_log" / f"{version:020}.json"
        os.utime(path, (1_700_000_000 + version, 1_700_000_000 + version))
    for seconds, value in ((0, 0), (2.5, 2), (3, 3), (3.999, 3), (4, 4), (1000, 4)):
        time = utc(1_700_000_000 + seconds)
        files = ColumnarFiles(table.given, key="id", residency=residency, as_of=time)
        assert rows_in(files) == {1: value}
    path.with_name(f"{4:020}.json").write_text('{"commitInfo":{}}\n' + "\n".join(lines))
    with pytest.raises(lookupstore.CorruptionError, match=r"expected a commit with its time"):
        ColumnarFiles(table.given, key="id", as_of=utc(1_700_000_003))


def test_a_delta_log_that_was_cleaned(tmp_path: Path, residency: Residency) -> None:
    """The files of old versions are gone from the log, and so are their times."""
    table = DeltaChanges(tmp_path)
    table.commit({1: 1})
    old = ColumnarFiles(table.given, key="id", residency=residency)
    for at in range(2, 9):
        table.commit({1: at}, 1_700_000_000 + at)
    deltalake.DeltaTable(table.given).create_checkpoint()
    for version in range(7):
        (table.folder / "_delta_log" / f"{version:020}.json").unlink()
    assert old.committed_at() is None
    assert old.position_at(utc(1_700_000_009)) == "7:1700000008.0"
    assert old.position_at(utc(1_700_000_007)) == "6:None", "older than all times that are known"
    assert rows_in(old.at("7")) == {1: 8}
    with pytest.raises(StaleStoreError, match=r"Delta table .* at version 2: gone; a vacuum"):
        old.at("2")
    with pytest.raises(ValueError, match="before the first commit that the Delta table"):
        ColumnarFiles(table.given, key="id", as_of=utc(1_700_000_007))


def test_an_object_of_a_library_says_where_a_table_is(tmp_path: Path, residency: Residency) -> None:
    table = DeltaChanges(tmp_path)
    table.commit({1: 1})
    table.commit({1: 2})
    given = deltalake.DeltaTable(table.given, version=0)
    files = ColumnarFiles(given, key="id", residency=residency)
    assert rows_in(files) == {1: 1}
    assert rows_in(files.newest()) == {1: 2}
    assert given.version() == 0, "the object of the caller stays as it is"


def test_a_rollback_of_an_iceberg_table(tmp_path: Path, residency: Residency) -> None:
    """The log of snapshots says what was current when, also if a snapshot is current again."""
    table = IcebergChanges(tmp_path)
    table.commit({1: 1})
    first = ColumnarFiles(table.given, key="id", residency=residency)
    table.commit({1: 2})
    second = ColumnarFiles(table.given, key="id", residency=residency)
    at_second = table.latest()[0]
    number = table.given.metadata.snapshot_log[0].snapshot_id
    table.given.manage_snapshots().rollback_to_snapshot(number).commit()
    rolled_back = table.latest()[0]
    assert rolled_back > at_second
    for files in (first, second):
        assert rows_in(files.at(files.position_at(utc(rolled_back + 1)))) == {1: 1}
    assert rows_in(first.at(first.position_at(utc(at_second)))) == {1: 2}
    later = ColumnarFiles(table.given, key="id", residency=residency)
    assert later.position_at(utc(at_second)) == later._commit, "not before the commit of the plan"


def test_commits_of_an_iceberg_table_whose_old_metadata_is_forgotten(
    tmp_path: Path, residency: Residency
) -> None:
    """The log of snapshots goes back further than that of metadata files."""
    table = IcebergChanges(tmp_path)
    with table.given.transaction() as change:
        change.set_properties({"write.metadata.previous-versions-max": "2"})
    times = []
    for value in range(6):
        table.given.append(arrow({value: value}))
        times.append(table.latest()[0])
        if not value:
            first = ColumnarFiles(table.given, key="id", residency=residency)
        time.sleep(0.002)
    assert len(table.given.metadata.metadata_log) == 2
    for value, moment in enumerate(times):
        rows = {key: key for key in range(value + 1)}
        assert rows_in(first.at(first.position_at(utc(moment)))) == rows


def test_what_an_iceberg_table_cannot_be_asked(tmp_path: Path, residency: Residency) -> None:
    table = IcebergChanges(tmp_path)
    table.commit({1: 1})
    scan = table.given.scan(snapshot_id=table.latest()[1])
    static = StaticTable.from_metadata(table.given.metadata_location)
    for given, name in ((scan, "one snapshot"), (static, "one metadata file")):
        files = ColumnarFiles(given, key="id", residency=residency)
        assert files.newest() is files
        with pytest.raises(ValueError, match=f"was opened with {name}, and so never changes"):
            files.position_at(utc(0))
        with pytest.raises(ValueError, match=f"version is given, but .* opened with {name}; leave"):
            ColumnarFiles(given, key="id", version=1)
    alone = InMemoryCatalog("alone", warehouse=f"file://{tmp_path}/alone")
    alone.create_namespace("w")
    alone.create_table("w.t", ROWS).append(arrow({1: 1}))
    files = ColumnarFiles(alone.load_table("w.t"), key="id", residency=residency)
    alone.load_table("w.t").append(arrow({2: 2}))
    assert rows_in(files.newest()) == {1: 1, 2: 2}, "this process has the catalog"
    with pytest.raises(ValueError, match="its catalog 'alone' does not return it to other"):
        files.position_at(utc(0))


def test_a_scan_keeps_its_filter(tmp_path: Path, residency: Residency) -> None:
    table = IcebergChanges(tmp_path)
    table.commit({1: 1, 2: 2, 3: 3})
    scan = table.given.scan(row_filter="id < 3", selected_fields=("id", "v"))
    files = ColumnarFiles(scan, key="id", where=("v", ">", 1), residency=residency)
    assert rows_in(files) == {2: 2}
    table.commit({1: 1, 2: 1, 3: 3})
    assert rows_in(pickle.loads(pickle.dumps(files)).at()) == {}
    table.commit({1: 4, 2: 1, 3: 3})
    assert rows_in(pickle.loads(pickle.dumps(files)).at()) == {1: 4}


def test_an_empty_iceberg_table_is_followed(tmp_path: Path, residency: Residency) -> None:
    table = IcebergChanges(tmp_path)
    files = ColumnarFiles(table.given, key="id", residency=residency)
    assert rows_in(files) == {}
    assert files.committed_at() is None
    with pytest.raises(
        ValueError, match=r"as_of is .*, before the first commit .* still has \(none\)"
    ):
        ColumnarFiles(table.given, key="id", as_of="2020-01-01")
    table.commit({1: 1})
    assert files.position_at(utc(0)) == files._commit
    assert rows_in(files.at(files.position_at(utc(table.latest()[0])))) == {1: 1}


def test_a_store_is_built_of_a_version_or_a_time(table: Any, tmp_path: Path) -> None:
    for at in range(2):
        table.commit({1: at, 2 + at: at}, 1_700_000_000 + 10 * at)
        if at == 0:
            moment, version = table.latest()
    given: Any
    for given in ({"version": version}, {"as_of": utc(moment + 0.0005)}):
        with lookupstore.build(
            table.given, tmp_path / "store", key="id", overwrite=True, **given
        ) as store:
            assert dict(store) == {1: {"v": 0}, 2: {"v": 0}}
    with lookupstore.build(table.given, tmp_path / "store", key="id", overwrite=True) as store:
        assert dict(store) == {1: {"v": 1}, 3: {"v": 1}}


def test_other_sources_have_no_versions(tmp_path: Path) -> None:
    pq.write_table(arrow({1: 10}), tmp_path / "1.parquet")
    HudiTable.create(tmp_path / "hudi", ROWS, record_key="id")
    for source, text in (
        (arrow({1: 10}), r"version is given, but source is .*Table, which has no versions; leave"),
        (tmp_path / "1.parquet", r"version is given, but .* names files, which have no versions"),
        (
            tmp_path / "hudi",
            r"version is given, but .* is a Hudi table, .*; give the time .* as as_of",
        ),
    ):
        with pytest.raises(ValueError, match=text):
            lookupstore.build(source, tmp_path / "store", key="id", version=1)
    with pytest.raises(ValueError, match=r"as_of is given, but .* is a Hudi table; look keys up"):
        ColumnarFiles(tmp_path / "hudi", key="id", as_of="2020-01-01")


@pytest.mark.parametrize("version", [0, 1, 3])
def test_a_delta_table_that_is_made_again_at_its_place(
    tmp_path: Path, residency: Residency, version: int
) -> None:
    """Its versions have the same numbers as those of the former table, or lower ones."""
    path = str(tmp_path / "t")

    def write(value: int) -> None:
        deltalake.write_deltalake(path, arrow({1: value}), mode="overwrite")

    for value in range(3):
        write(value)
    files = ColumnarFiles(path, key="id", residency=residency)
    given = ColumnarFiles(deltalake.DeltaTable(path), key="id", residency=residency)
    shutil.rmtree(path)
    for value in range(version + 1):
        write(100 + value)
    for one in (files, given, pickle.loads(pickle.dumps(files))):
        assert rows_in(one.newest()) == {1: 100 + version}
        assert rows_in(one.refresh()) == {1: 100 + version}
        with pytest.raises(StaleStoreError, match=r"written again.*call lookup_join again"):
            one.position_at(utc(time.time() + 10))
    assert rows_in(files.newest().newest()) == {1: 100 + version}


def test_columns_of_an_iceberg_table_that_change_without_a_snapshot(
    tmp_path: Path, residency: Residency
) -> None:
    table = IcebergChanges(tmp_path)
    table.commit({1: 10})
    given = table.given
    files = ColumnarFiles(given, key="id", residency=residency)
    with given.update_schema() as update:
        update.rename_column("v", "w")
    newest = files.newest()
    assert newest.lookup([1]).to_pylist() == [{"w": 10}]
    assert newest.newest() is newest
    with given.update_schema() as update:
        update.delete_column("w")
    with given.update_schema() as update:
        update.add_column("w", LongType())
    assert newest.newest().lookup([1]).to_pylist() == [{"w": None}]
    assert newest.position_at(utc(time.time() + 10)) == newest._commit
    table.commit({1: 11})
    with given.update_schema() as update:
        update.rename_column("w", "x")
    moment = utc(time.time() + 10)
    assert newest.position_at(moment) == newest.newest()._commit, "that of the newest columns"


def test_a_time_of_deltalakes_history_is_that_of_its_version(
    tmp_path: Path, residency: Residency
) -> None:
    path = str(tmp_path / "t")
    for value in range(12):
        deltalake.write_deltalake(path, arrow({1: value}), mode="overwrite")
    log = Path(path, "_delta_log")
    for version in range(12):
        at = 1_700_000_000_000_000_000 + version * 1_000_000 + 999_000  # a millisecond apart
        os.utime(log / f"{version:020}.json", ns=(at, at))
    for version in range(12):
        moment = datetime.fromtimestamp(1_700_000_000 + version / 1000, timezone.utc)
        files = ColumnarFiles(path, key="id", as_of=moment, residency=residency)
        assert rows_in(files) == {1: version}


def test_errors_of_a_catalog_are_those_of_storage(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kind of catalog has its own errors, which services cannot all name."""
    table = IcebergChanges(tmp_path)
    table.commit({1: 10})
    files = ColumnarFiles(table.given, key="id", residency=residency)
    store = lookupstore.follow(table.given, tmp_path / "s", key="id")

    class DatabaseError(Exception):
        pass

    def busy(*_: object) -> None:
        raise DatabaseError("database is locked")

    monkeypatch.setattr(type(table.given.catalog), "load_table", busy)
    for call in (files.newest, store.sync):
        with pytest.raises(OSError, match="its catalog raised DatabaseError: database is locked"):
            call()
    assert files.refresh() is files


def test_len_counts_what_lookups_find(table: Any, residency: Residency, tmp_path: Path) -> None:
    table.commit({key: key for key in KEYS})
    table.commit({key: key for key in range(1, 9)})
    for where in (None, "v > 4", "v > 100"):
        files = ColumnarFiles(table.given, key="id", where=where, residency=residency)
        assert len(files) == len(list(files)) == len(rows_in(files))
    folder = tmp_path / "files"
    folder.mkdir()
    for part in range(2):
        pq.write_table(
            pa.table({"id": [1, 2, 3 + part], "v": [1, 2, 3]}), folder / f"{part}.parquet"
        )
    first = ColumnarFiles(folder, key="id", on_duplicate="first", residency=residency)
    assert len(first) == 4
