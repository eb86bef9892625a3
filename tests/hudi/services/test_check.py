"""`verify` finds what is wrong, all of it, and says nothing of what is right."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.hudi.log_tables import DELETES, HFILE, INSTANT, SCHEMA_HEADER, deletes_content
from support.hudi.log_tables import block as log_block
from support.hudi.small_tables import SmallTable, row
from support.hudi.tag_tables import vouched_for
from support.hudi.versions import VERSIONS
from support.remote import Killed

from lookupstore.errors import FormatError
from lookupstore.hudi import HudiTable
from lookupstore.hudi.file_group.bloom import FILTER_KEY, BloomFilter
from lookupstore.hudi.file_group.key_entries import GREATEST_KEY, LEAST_KEY, OWN_KEY
from lookupstore.hudi.locking.heartbeat import Heartbeats
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.hudi.metadata.files_partition import FOLDER, files_partition
from lookupstore.hudi.metadata.group_files import TIMELINE
from lookupstore.hudi.metadata.records import FileInfo, changes_bytes, schema_bytes
from lookupstore.hudi.options import PROPERTIES
from lookupstore.hudi.options.names import META_FIELDS
from lookupstore.hudi.timeline.commit import CommitMetadata, commit_bytes

SCHEMA = pa.schema({"id": pa.int64(), "day": pa.string(), "value": pa.string()})


def rows(*keys: int, value: str = "v", day: str = "d") -> pa.Table:
    made = [{"id": key, "day": day, "value": value} for key in keys]
    return pa.Table.from_pylist(made, SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> HudiTable:
    made = HudiTable.create(
        tmp_path / "t", SCHEMA, record_key=["id"], partition_by=["day"], hive_style=True
    )
    made.upsert(rows(*range(1, 100)))
    made.upsert(rows(5, 200, value="w"))
    made.upsert(rows(1, 2, day="e"))
    return made


def base_file(table: HudiTable, day: str = "d") -> Path:
    """Return the path of the current base file of a partition."""
    (group,) = (one for one in table.file_groups() if one.id.partition == f"day={day}")
    return Path(table.location.uri) / group.current.path


def rewrite(
    path: Path,
    change: Callable[[pa.Table], pa.Table] = lambda data: data,
    keep_types: bool = False,
    **footer: bytes | None,
) -> None:
    """Write a base file again, with other rows or entries of the footer, and as many bytes."""
    data = pq.read_table(path, partitioning=None)
    said = {**pq.read_metadata(path).metadata}
    for key, value in footer.items():
        said.pop(key.encode(), None)
        if value is not None:
            said[key.encode()] = value
    if OWN_KEY.decode() not in footer:
        said |= vouched_for(said, path.name)
    said.pop(b"ARROW:schema", None)
    data = change(data)
    with pq.ParquetWriter(path, data.schema, store_schema=keep_types) as writer:
        writer.write_table(data)
        writer.add_key_value_metadata(said)


def kinds(table: HudiTable) -> set[str]:
    found = table.verify()
    assert found.is_ok == all(one.kind == "leftover" for one in found.findings)
    return {one.kind for one in found.findings} - {"statistics"}


@pytest.mark.parametrize("name", [
    "v6_complexkeygen_hivestyle", "v6_nonpartitioned", "v9_txns_nonpart_meta",
    "v9_txns_simple_nometa",
])  # fmt: skip
def test_tables_of_apache_hudi_are_right(real_tables: Path, name: str) -> None:
    found = HudiTable.open(real_tables / name).verify()
    assert found.findings == ()
    assert found.rows == HudiTable.open(real_tables / name).scan().num_rows


@pytest.mark.parametrize("version", VERSIONS)
def test_our_tables_are_right(tmp_path: Path, version: int) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key=["id"], version=version)
    assert table.verify().findings == ()
    table.upsert(rows(1, 2, 3))
    first = table.upsert(rows(2, 4, value="w")).instant
    table.savepoint(first.time)
    table.insert_overwrite_table(rows(7))
    last = table.upsert(rows(8)).instant
    table.rollback(last.time)
    table.upsert(rows(9))
    table.clean(retain_commits=1)
    with suppress(ValueError):
        table.delete([9])
    found = table.verify()
    assert found.findings == ()
    assert found.to_json() == {
        "ok": True, "instants": len(table.timeline()), "files": 1, "rows": 1,
        "bytes": found.bytes, "findings": [],
    }  # fmt: skip


def swapped(name: str, value: str) -> Callable[[pa.Table], pa.Table]:
    """Return what gives the first row another value of a column."""

    def change(data: pa.Table) -> pa.Table:
        values = data[name].to_pylist()
        return data.set_column(data.schema.names.index(name), name, [[value, *values[1:]]])

    return change


def without(name: str) -> Callable[[pa.Table], pa.Table]:
    def change(data: pa.Table) -> pa.Table:
        nothing = pa.array([None, *data[name].to_pylist()[1:]], pa.string())
        return data.set_column(data.schema.names.index(name), name, nothing)

    return change


def of_type(kind: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    """Return what gives meta columns another type."""

    def change(data: pa.Table) -> pa.Table:
        for at, name in enumerate(META_COLUMNS):
            data = data.set_column(at, name, data[name].cast(kind))
        return data

    return change


OTHER_FILTER = BloomFilter.of(pa.array(["other"])).footer()[FILTER_KEY]


@pytest.mark.parametrize(
    ("change", "footer", "kind", "problem"),
    [
        (
            None,
            {FILTER_KEY.decode(): OTHER_FILTER},
            "filter",
            "the filter rules out keys that the file has",
        ),
        (None, {FILTER_KEY.decode(): b"AAAA"}, "filter", "expected"),
        (None, {OWN_KEY.decode(): b"{}"}, "filter", "a file and chunks in b'lookupstore.record"),
        (None, {LEAST_KEY.decode(): b"2"}, "range", "such as '1'"),
        (None, {GREATEST_KEY.decode(): b"7"}, "range", "such as '8'"),
        (swapped(META_COLUMNS[4], "x"), {}, "row", "a wrong _hoodie_file_name"),
        (swapped(META_COLUMNS[3], "x"), {}, "row", "a wrong _hoodie_partition_path"),
        (swapped(META_COLUMNS[0], "3"), {}, "row", "of no commit up to"),
        (of_type(pa.binary()), {}, "file", "_hoodie_commit_time of type binary, not string"),
        (without(META_COLUMNS[2]), {}, "row", "without a record key, such as None"),
        (swapped(META_COLUMNS[2], "2"), {}, "duplicate", "the key '2' is in two rows of this file"),
    ],
)
def test_what_is_wrong_in_a_file(
    table: HudiTable,
    change: Callable[[pa.Table], pa.Table] | None,
    footer: Mapping[str, bytes],
    kind: str,
    problem: str,
) -> None:
    path = base_file(table)
    rewrite(path, change or (lambda data: data), **footer)
    found = table.verify()
    wrong = [one for one in found.findings if one.kind == kind]
    assert any(problem in one.problem for one in wrong), found.findings
    assert {Path(one.path).name for one in wrong} == {path.name}
    assert kinds(table) == {kind}


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_texts_of_any_type_are_right(table: HudiTable, kind: pa.DataType) -> None:
    rewrite(base_file(table), of_type(kind), keep_types=True)
    assert kinds(table) == set()


def test_the_same_key_in_two_partitions_is_none_twice(table: HudiTable) -> None:
    assert table.verify().findings == ()


def test_duplicates_in_two_files(table: HudiTable) -> None:
    table.bulk_insert(rows(50, 60, 300))
    problems = [one for one in table.verify().findings if one.kind == "duplicate"]
    assert len(problems) == 2
    assert all(one.path not in one.problem for one in problems), "two files"
    assert {one.problem.split("'")[1] for one in problems} == {"50", "60"}


def test_a_damaged_filter_does_not_hide_what_else_is_wrong(table: HudiTable) -> None:
    path = base_file(table)
    said = pq.read_metadata(path).metadata
    own = {OWN_KEY.decode(): said[OWN_KEY], FILTER_KEY.decode(): OTHER_FILTER}
    rewrite(path, swapped(META_COLUMNS[2], "2"), **own)
    assert kinds(table) == {"filter", "duplicate"}


def test_a_damaged_page_does_not_hide_what_else_is_wrong(table: HudiTable) -> None:
    path = base_file(table)
    content = bytearray(path.read_bytes())
    content[4:400] = bytes(396)
    path.write_bytes(content)
    rewrite(base_file(table, "e"), **{LEAST_KEY.decode(): b"2"})
    assert kinds(table) == {"file", "range"}


def test_statistics_against_files(table: HudiTable) -> None:
    path = base_file(table)
    rewrite(path, lambda data: data.slice(1))
    problems = [one.problem for one in table.verify().findings if one.kind == "statistics"]
    assert any(one.startswith("has 99 rows, not 100") for one in problems)
    assert any("bytes, not" in one for one in problems)


def test_a_file_that_is_gone(table: HudiTable) -> None:
    path = base_file(table)
    path.unlink()
    found = [one for one in table.verify().findings if one.kind == "missing"]
    assert [Path(one.path).name for one in found] == [path.name]


def test_a_file_that_its_commit_does_not_name(table: HudiTable) -> None:
    """Readers show its rows: they go by names."""
    path = base_file(table)
    time = path.stem.rpartition("_")[2]
    other = path.with_name(f"aaaa-0_0-0-0_{time}.parquet")
    other.write_bytes(path.read_bytes())
    problems = [one for one in table.verify().findings if one.kind == "statistics"]
    assert [Path(one.path).name for one in problems] == [other.name]
    assert "its commit does not name it" in problems[0].problem


def test_two_files_of_a_group_and_instant(table: HudiTable) -> None:
    path = base_file(table)
    file_id, _, rest = path.name.split("_")
    path.with_name(f"{file_id}_9-9-9_{rest}").write_bytes(path.read_bytes())
    assert "file" in kinds(table)


def test_one_foreign_file_is_no_damage_and_hides_nothing(table: HudiTable) -> None:
    path = base_file(table)
    path.with_name("part-0.parquet").touch()
    found = table.verify()
    assert found.is_ok
    assert (found.files, found.rows) == (2, 102)
    assert {(one.kind, one.path) for one in found.findings} == {("foreign", "day=d/part-0.parquet")}
    with pytest.raises(FormatError, match=r"part-0.parquet: .*move it out of the table's folder"):
        table.scan()
    rewrite(path, swapped(META_COLUMNS[4], "x"))
    assert {one.kind for one in table.verify().findings if one.is_damage} == {"row", "statistics"}


@pytest.mark.parametrize("partition_by", [(), ("day",)])
def test_a_partition_that_java_does_not_find(tmp_path: Path, partition_by: tuple[str]) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key=["id"], partition_by=partition_by)
    table.upsert(rows(1, 2))
    assert table.verify().findings == ()
    marker = tmp_path / "t" / ("d" if partition_by else "") / ".hoodie_partition_metadata"
    marker.rename(marker.with_name(f"{marker.name}.parquet"))  # as an option of Hudi names it
    assert table.verify().findings == ()
    marker.with_name(f"{marker.name}.parquet").unlink()
    (one,) = table.verify().findings
    assert (one.kind, one.path) == ("missing", marker.relative_to(tmp_path / "t").as_posix())
    assert "Apache Hudi finds partitions by this file" in one.problem
    table.upsert(rows(2, 3))
    assert table.verify().findings == ()


def without_meta_columns(path: Path, version: int) -> SmallTable:
    """Make a table whose files, as pyarrow writes them, have only the data columns."""
    table = SmallTable(path, version)
    properties = path / PROPERTIES
    properties.write_text(f"{properties.read_text()}{META_FIELDS}=false\n")
    return table.at(path)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_table_without_meta_columns(tmp_path: Path, version: int) -> None:
    table = without_meta_columns(tmp_path / "t", version)

    def commit(file_id: str, keys: list[int]) -> Path:
        instant = table.begin()
        stat = table.write(instant.time, file_id, [row(key, "v") for key in keys])
        path = table.path / str(stat.path)
        data = pq.read_table(path).drop_columns(list(META_COLUMNS))
        pq.write_table(data, path)
        size = path.stat().st_size
        table.finish(instant, [replace(stat, file_size_in_bytes=size)])
        return path

    commit("a-0", [1, 2, 3])
    found = table.table.verify()
    assert found.findings == ()
    assert (found.files, found.rows) == (1, 3)
    second = commit("b-0", [3, 4])
    (one,) = table.table.verify().findings
    assert (one.kind, "the key '3' is also in a-0_" in one.problem) == ("duplicate", True)
    content = bytearray(second.read_bytes())
    content[4:40] = bytes(36)
    second.write_bytes(content)
    assert "file" in {one.kind for one in table.table.verify().findings}


def test_log_files_beside_a_metadata_table(real_tables: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(real_tables / "v9_txns_nonpart_meta", tmp_path / "t"))
    properties = path / PROPERTIES
    properties.write_text(properties.read_text().replace("COPY_ON_WRITE", "MERGE_ON_READ"))
    table = HudiTable.open(path, query_type="read_optimized")
    assert table.options.table_type == "MERGE_ON_READ"
    view = table.view()
    file_id = view.groups(None)[0].id.file_id
    log = f".{file_id}_{view.timeline.writes()[-1].time}.log.1_0-5-6"
    time = view.timeline.writes()[-1].time
    nothing = log_block(DELETES, {INSTANT: time.encode()}, deletes_content([]))
    (path / log).write_bytes(nothing)
    listed = changes_bytes({"": {log: FileInfo(len(nothing), False)}}, 0)
    folder = view.folder.beside(TIMELINE)
    instant = folder.start(folder.request("deltacommit"))
    before = files_partition(view.location, view.timeline, folder)
    block = log_block(
        HFILE, {INSTANT: instant.time.encode(), SCHEMA_HEADER: schema_bytes()}, listed
    )
    (path / FOLDER / f".{before.file_id}_{instant.time}.log.1_0-1-2").write_bytes(block)
    folder.complete(instant, commit_bytes(CommitMetadata({}), 9))
    assert table.verify().findings == ()
    (path / log).unlink()
    (one,) = table.verify().findings
    assert (one.kind, one.path, "but missing" in one.problem) == ("metadata", log, True)


@pytest.mark.parametrize("name", ["commit", "rollback", "clean", "savepoint", "rollback.requested"])
def test_a_damaged_instant(table: HudiTable, name: str) -> None:
    table.rollback(table.upsert(rows(7)).instant.time)
    table.savepoint()
    table.clean(retain_commits=1)
    timeline = Path(table.location.uri) / ".hoodie" / "timeline"
    path = sorted(timeline.glob(f"*.{name}"))[-1]
    path.write_bytes(path.read_bytes()[:40])
    found = [one for one in table.verify().findings if one.kind == "timeline"]
    assert path.name in {Path(one.path).name for one in found}


def test_what_is_left(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    table.commit("a-0", [row(1, "one")])
    with suppress(Killed), Heartbeats(table.table.location).request(table.folder, "commit") as one:
        raise Killed
    gone = "20300101000000000"
    table.write(gone, "b-0", [row(2, "never")])
    Heartbeats(table.table.location).claim(gone)
    marker = table.path / ".hoodie" / ".temp" / gone / "a.marker"
    marker.parent.mkdir(parents=True)
    marker.touch()
    (table.path / ".a.parquet.0.tmp").touch()
    found = table.table.verify()
    assert found.is_ok
    assert {one.path: one.problem.partition(":")[0] for one in found.findings} == {
        f".hoodie/timeline/{one.instant.file_name}": "of a dead writer",
        f".hoodie/.heartbeat/{gone}": "a heartbeat without a pending instant",
        f"b-0_0-1-2_{gone}.parquet": "a base file without an instant",
        f".hoodie/.temp/{gone}/a.marker": "a marker without a pending instant",
        ".a.parquet.0.tmp": "an unfinished file",
    }
    waiting = table.path / ".hoodie" / ".lookupstore" / "staged" / gone / "b.parquet"
    waiting.parent.mkdir(parents=True)
    waiting.touch()
    assert ("leftover", "a file that waits for its name without a pending instant") in {
        (one.kind, one.problem) for one in table.table.verify().findings
    }
    # Of a dead writer whose instant is gone, all goes; the other file has no name of ours.
    table.table.rollback()
    assert [one.path for one in table.table.verify().findings] == [".a.parquet.0.tmp"]
