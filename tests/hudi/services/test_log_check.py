"""`verify` reads log files, and compares them with the records of commits."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from support.hudi.log_history import row
from support.hudi.log_tables import AVRO, CDC, PARQUET, LogTable, block
from support.hudi.versions import VERSIONS

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi import HudiTable
from lookupstore.hudi.options.names import META_FIELDS
from lookupstore.hudi.services.check import TableCheck


def damage(found: TableCheck) -> set[tuple[str, str]]:
    """Return the kind and path of each finding of damage."""
    assert found.is_ok == (not any(one.is_damage for one in found.findings))
    return {(one.kind, one.path) for one in found.findings if one.is_damage}


def table_with_logs(path: Path, version: int, kind: int = AVRO) -> LogTable:
    table = LogTable(path, version)
    table.base("a-0", [row(1, 1), row(2, 1)])
    table.delta("a-0", lambda time: table.data(time, [row(1, 2, "new")], kind))
    table.base("b-0", [row(3, 1)])
    # In version 6, the name has the time of the slice.
    table.delta("b-0", lambda time: table.deletes(time, [("3", "long", 2)]))
    return table


@pytest.mark.parametrize("name", ["mor_v6_nonpartitioned", "mor_v9_txns_nonpart_nometa"])
def test_log_files_of_apache_hudi_are_right(
    merge_on_read_tables: Path, tmp_path: Path, name: str
) -> None:
    """Compactions and clusterings replaced slices with log files; later ones are read."""
    path = shutil.copytree(merge_on_read_tables / name, tmp_path / "t")
    table = HudiTable.open(path)
    found = table.verify()
    assert damage(found) == set()
    logs = table.view().logs(None)
    assert len(logs) == {"mor_v6_nonpartitioned": 1}.get(name, 0)
    base_files = HudiTable.open(path, query_type="read_optimized").file_groups()
    assert found.files == len(base_files) + len(logs)
    assert found.bytes == sum(one.bytes for one in logs) + sum(
        one.current.bytes for one in base_files
    )
    for log in logs:
        file = path / log.path
        content = file.read_bytes()
        file.unlink()
        assert damage(table.verify()) == {("missing", log.path)}
        file.write_bytes(b"")
        assert damage(table.verify()) == {("statistics", log.path)}
        file.write_bytes(content)
    assert table.verify() == found


@pytest.mark.parametrize("kind", [AVRO, PARQUET])
@pytest.mark.parametrize("version", VERSIONS)
def test_damaged_log_files_are_found(tmp_path: Path, version: int, kind: int) -> None:
    table = table_with_logs(tmp_path / "t", version, kind)
    found = table.opened().verify()
    assert found.findings == ()
    assert (found.files, found.rows) == (4, 3)
    logs = sorted(table.path.glob(".*.log.*"))
    assert len(logs) == 2
    files = [*logs, *table.path.glob("*-0_*.parquet")]
    assert found.bytes == sum(file.stat().st_size for file in files)
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    for log in logs:
        content = log.read_bytes()
        for size in (0, *rng.sample(range(len(content)), 5)):
            log.write_bytes(content[:size])
            said = damage(table.opened().verify())
            assert ("statistics", log.name) in said
            assert {path for _, path in said} == {log.name}
        for at in rng.sample(range(len(content)), 20):
            log.write_bytes(content[:at] + bytes([content[at] ^ 0x40]) + content[at + 1 :])
            try:
                table.opened().scan()
            except CorruptionError:
                assert damage(table.opened().verify()) == {("file", log.name)}
            except FormatError:
                assert table.opened().verify().findings != ()
        log.unlink()
        assert damage(table.opened().verify()) == {("missing", log.name)}
        log.write_bytes(content)
    # The damage of one file does not hide that of another.
    for log in logs:
        log.write_bytes(log.read_bytes()[:-1])
    wanted = {(kind, log.name) for log in logs for kind in ("file", "statistics")}
    assert damage(table.opened().verify()) == wanted
    assert (
        table.opened().verify() == HudiTable.open(table.path, query_type="read_optimized").verify()
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_two_damaged_log_files_of_one_slice(tmp_path: Path, version: int) -> None:
    table = LogTable(tmp_path / "t", version)
    table.base("a-0", [row(1, 1)])
    for number in (1, 2):
        instant = table.begin("deltacommit")
        content = table.data(instant.time, [row(1, number + 1, "new")])
        table.log("a-0", table.name_time(instant.time), content, number)
        table.finish(instant, schema=table.schema)
    logs = sorted(table.path.glob(".*.log.*"))
    for log in logs:
        log.write_bytes(log.read_bytes()[:-1])
    assert damage(table.opened().verify()) == {("file", log.name) for log in logs}


@pytest.mark.parametrize("version", VERSIONS)
def test_log_files_of_earlier_slices_may_be_gone(tmp_path: Path, version: int) -> None:
    """A clean deletes those of a slice that was compacted, and those of replaced groups."""
    table = LogTable(tmp_path / "t", version)
    table.base("a-0", [row(1, 1)])
    table.delta("a-0", lambda time: table.data(time, [row(1, 2, "new")]))
    table.base("a-0", [row(1, 2, "new")], "commit")
    for log in table.path.glob(".*.log.*"):
        log.unlink()
    assert table.opened().verify().findings == ()
    table.delta("a-0", lambda time: table.data(time, [row(1, 3, "newer")]))
    instant = table.begin("replacecommit")
    stat = table.write(instant.time, "c-0", [row(1, 3, "newer")], schema=table.schema)
    table.finish(instant, [stat], {"": ("a-0",)}, schema=table.schema)
    for log in table.path.glob(".*.log.*"):
        log.unlink()
    assert table.opened().verify().findings == ()


def test_unsupported_blocks_are_no_damage(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t", 9)
    table.delta("a-0", lambda time: block(CDC, table.headers(time), b""))
    (one,) = table.opened().verify().findings
    assert (one.kind, one.is_damage, "CDC" in one.problem) == ("unsupported", False, True)
    first = min(table.path.glob(".a-0_*.log.*"))
    first.write_bytes(first.read_bytes()[:-1])
    assert damage(table.opened().verify()) == {("file", first.name), ("statistics", first.name)}


def test_log_files_that_are_not_merged_are_compared_with_their_commits(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t", 9)
    table.properties(lambda said: f"{said}{META_FIELDS}=false\n")
    with pytest.raises(FormatError, match="supported for log files: true"):
        table.opened()
    opened = HudiTable.open(table.path, query_type="read_optimized")
    found = opened.verify()
    assert [one.kind for one in found.findings] == ["unsupported"]
    assert (found.is_ok, found.files) == (True, 2)
    first, second = sorted(table.path.glob(".*.log.*"))
    first.unlink()
    second.write_bytes(b"")
    assert damage(opened.verify()) == {("missing", first.name), ("statistics", second.name)}
