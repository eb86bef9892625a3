"""Files of archives: those of Java are read, and what is damaged is said with path and offset."""

from __future__ import annotations

import json
import random
import shutil
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.hudi import java, java_archive
from support.hudi.small_tables import SmallTable, row
from support.hudi.versions import VERSIONS

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi import HudiTable, Instant, State
from lookupstore.hudi.timeline.archive import Archive, completed_writes

LOG = ".commits_.archive.1_1-0-1"


def archived(path: Path, version: int, *, by_java: bool = True) -> tuple[HudiTable, list[Instant]]:
    """Return a table with an archive of three commits and a rollback, and these."""
    small = SmallTable(path, version)
    for number in range(2):
        small.commit("a-0", [row(1, str(number))])
    pending = small.begin()
    java.roll_back(path, pending.time)
    for number in range(3):
        small.commit("a-0", [row(1, str(number))])
    before = {one.time: one for one in small.table.timeline()}
    if by_java:
        gone = list(java.archive(path, keep=1, rollbacks=True, is_kept=True))
    else:
        gone = [one.time for one in small.table.archive(min_commits=1, max_commits=1).instants]
    assert len(gone) == 5
    return small.table, [before[time] for time in gone]


def everything(archive: Archive) -> tuple[object, ...]:
    return list(archive.instants()), list(archive.commits()), list(archive.rollbacks())


@pytest.mark.parametrize("by_java", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_what_an_archive_has(tmp_path: Path, version: int, by_java: bool) -> None:
    table, gone = archived(tmp_path, version, by_java=by_java)
    archive = table.view().archive
    assert not archive.is_empty()
    assert list(archive.instants()) == gone[::-1]
    assert archive.added_last() == set(gone)
    assert len(list(archive.commits())) == 4
    assert all(one.schema for one in archive.commits())
    (rollback,) = archive.rollbacks()
    assert rollback.start_rollback_time == gone[2].time
    commits = {one.time for one in gone if one.action == "commit"}
    others = {gone[2].time, "20200101000000000"}
    assert completed_writes(archive, commits | others) == commits
    assert completed_writes(archive, set()) == set()


@pytest.mark.parametrize("version", VERSIONS)
def test_no_archive(tmp_path: Path, version: int) -> None:
    table = SmallTable(tmp_path, version).table
    shutil.rmtree(tmp_path / table.options.archive)
    archive = table.view().archive
    assert archive.is_empty()
    assert everything(archive) == ([], [], [])
    assert archive.added_last() == set()


def test_blocks_of_a_real_log(merge_on_read_tables: Path) -> None:
    """The reader that tests have agrees with what Java writes, not only with us."""
    logs = sorted((merge_on_read_tables / "mor_v9_txns_nonpart_nometa").rglob(".*.log.*"))
    kinds = [kind for log in logs for kind, _, _ in java_archive.blocks(log.read_bytes())]
    assert len(logs) > 3
    assert 3 in kinds
    for log in logs:
        if all(kind == 3 for kind, _, _ in java_archive.blocks(log.read_bytes())):
            assert list(java_archive.records(log.read_bytes()))


def test_logs_with_other_blocks_and_old_entries(tmp_path: Path) -> None:
    """Commands are passed over; what has no state was completed."""
    table, gone = archived(tmp_path, 6)
    log = tmp_path / table.options.archive / LOG
    content = log.read_bytes()
    body = struct.pack(">iiiqi", 1, 0, 0, 0, 0)
    size = len(body) + 8
    command = b"#HUDI#" + struct.pack(">q", size) + body + struct.pack(">q", size + 6)
    log.write_bytes(command + content + command)
    assert list(table.view().archive.instants()) == gone[::-1]
    # A name of Java's that is none of a log.
    shutil.copy(log, log.with_name("mergeArchivePlan"))
    shutil.copy(log, log.with_name(LOG.replace(".1_", ".10_")))
    shutil.copy(log, log.with_name(LOG.replace(".1_", ".9_")))
    assert len(list(table.view().archive.instants())) == 15
    table.upsert(pa.table({"id": pa.array([1], pa.int32()), "value": ["x"]}))
    table.archive(min_commits=1, max_commits=1)
    assert (log.with_name(LOG.replace(".1_", ".11_"))).exists()


@pytest.mark.few(1)
@pytest.mark.parametrize("version", [6, 9])
def test_every_damaged_byte_is_said_or_harmless(tmp_path: Path, version: int, seed: int) -> None:
    """Cut anywhere, or with another byte anywhere: an error with a path, or a value."""
    table, _ = archived(tmp_path, version, by_java=False)
    folder = tmp_path / table.options.archive
    (file,) = (one for one in folder.iterdir() if one.suffix == ".parquet" or one.name == LOG)
    content = file.read_bytes()
    chosen = random.Random(seed)
    cuts = [content[:at] for at in chosen.sample(range(1, len(content)), 150)]
    changed = []
    for at in chosen.sample(range(len(content)), 400):
        other = bytes([content[at] ^ chosen.randint(1, 255)])
        changed.append(content[:at] + other + content[at + 1 :])
    said, refused = [], []
    for damaged in changed:
        file.write_bytes(damaged)
        try:
            everything(table.view().archive)
        except CorruptionError as error:
            said.append(error)
        except FormatError as error:  # another version of blocks
            refused.append(str(error))
    assert all(one.startswith(str(file)) for one in refused)
    assert len(said) > 20
    for error in said:
        assert error.path.startswith(str(file))
        assert error.offset >= 0
    for damaged in cuts:
        file.write_bytes(damaged)
        with pytest.raises(CorruptionError):
            everything(table.view().archive)


def test_manifests_that_are_damaged(tmp_path: Path) -> None:
    table, gone = archived(tmp_path, 9)
    folder = tmp_path / table.options.archive
    good = (folder / "manifest_1").read_text()
    file = {"fileName": "20200101000000000_20200101000000001_0.parquet", "fileLen": 1}
    for bad in (
        [], {"files": 3}, {"files": [3]}, {"files": [{"fileName": "a"}]},
        {"files": [{**file, "fileLen": "1"}]}, {"files": [{**file, "fileLen": True}]},
        {"files": [{**file, "fileName": "../20200101000000000_2_0.parquet"}]},
        {"files": [{**file, "fileName": "/1_2_0.parquet"}]},
        {"files": [{**file, "fileName": "1_2_10.parquet"}]},
    ):  # fmt: skip
        (folder / "manifest_1").write_text(json.dumps(bad))
        with pytest.raises(CorruptionError, match="a manifest of the archive") as raised:
            everything(table.view().archive)
        assert raised.value.path == str(folder / "manifest_1")
    (folder / "manifest_1").write_text(json.dumps({"files": [file]}))
    with pytest.raises(CorruptionError, match="a file that the manifest names"):
        everything(table.view().archive)
    (folder / "manifest_1").write_text("{")
    with pytest.raises(CorruptionError, match="in JSON"):
        everything(table.view().archive)
    for number in ("", "-1", "1\n", "x", "9" * 30):
        (folder / "_version_").write_text(number)
        with pytest.raises(CorruptionError, match="the number of a manifest"):
            everything(table.view().archive)
    (folder / "_version_").write_text("2")
    with pytest.raises(CorruptionError, match=r"manifest_2: .*no file"):
        everything(table.view().archive)
    # As Java reads an empty one.
    (folder / "manifest_2").write_text("")
    assert table.view().archive.is_empty()
    (folder / "_version_").unlink()
    assert table.view().archive.is_empty()
    (folder / "manifest_2").unlink()
    (folder / "manifest_1").write_text(good)
    assert list(table.view().archive.instants()) == gone[::-1]


def test_rows_that_are_no_instants(tmp_path: Path) -> None:
    table, _ = archived(tmp_path, 9)
    folder = tmp_path / table.options.archive
    (file,) = folder.glob("*.parquet")
    rows = pq.read_table(file)
    for name, value in (("instantTime", "now"), ("action", "dance"), ("completionTime", "1")):
        at = rows.schema.get_field_index(name)
        bad = rows.set_column(at, name, pa.array([value] * len(rows)))
        pq.write_table(bad, file)
        with pytest.raises(CorruptionError, match="an instant") as raised:
            list(table.view().archive.instants())
        assert raised.value.path == str(file)
    pq.write_table(rows.drop_columns(["metadata"]), file)
    assert len(list(table.view().archive.instants())) == 5
    with pytest.raises(CorruptionError, match="a column metadata"):
        list(table.view().archive.commits())
    # Of tables that Hudi brought from version 6, it is not known when all ended.
    pq.write_table(rows.set_column(1, "completionTime", pa.nulls(len(rows), pa.string())), file)
    assert {one.completed for one in table.view().archive.instants()} == {None}
    assert {one.state for one in table.view().archive.instants()} == {State.COMPLETED}
