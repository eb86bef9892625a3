"""The tables that Java alone wrote, beside what Java itself said of each.

They have the checksums that Hadoop's local file system leaves next to every file; those of
hudi-rs, in test_real_tables.py, have none.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.hudi.oracle import other_scan

from lookupstore.errors import CommitConflictError, StaleStoreError
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.hudi.properties import parse_properties

pytestmark = pytest.mark.drawn(0.4)

# hudi-rs panics at times without a zone; docs/how-to/hudi-create.md says so.
LOCAL_TIMES = "v9-local-timestamp"
MAINTAIN = WriteOptions(metadata="maintain", threads=1)
DROP = WriteOptions(metadata="drop", threads=1)
ALONE = WriteOptions(threads=1)
# An id that no table has.
NEW = 4711

Rows = list[dict[str, Any]]
Said = dict[str, Any]


@pytest.fixture(scope="session")
def said(golden: Path) -> dict[str, Said]:
    """Return what Java said of each table, by its name."""
    files = sorted((golden / "hudi" / "java").glob("*.json"))
    assert len(files) == 16
    return {path.stem: json.loads(path.read_text()) for path in files}


def as_json(rows: pa.Table | None) -> Rows:
    """Return rows as the JSON of a table has them, in the order of their keys."""
    if rows is None:
        return []
    columns = {
        name: [plain(value, column.type) for value in numbered(column).to_pylist()]
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    }
    rows_of = zip(*columns.values(), strict=True)
    return in_order([dict(zip(columns, values, strict=True)) for values in rows_of])


def numbered(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return days and timestamps as the numbers that they are stored as."""
    if pa.types.is_date(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def plain(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_decimal(kind):
        # As many bytes as the greatest number needs, and its sign.
        size = ((10**kind.precision - 1).bit_length() + 8) // 8
        return int(value.scaleb(kind.scale)).to_bytes(size, "big", signed=True).hex()
    if pa.types.is_map(kind):
        return dict(value)
    return value.hex() if isinstance(value, bytes) else value


def in_order(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: (row["_hoodie_partition_path"], row["_hoodie_record_key"]))


def by_id(rows: Rows) -> dict[int, dict[str, Any]]:
    """Return the data columns of each row; no id is in two partitions."""
    found = {
        row["id"]: {name: row[name] for name in row if name not in META_COLUMNS} for row in rows
    }
    assert len(found) == len(rows)
    return found


def wrong_rows(name: str, path: Path, model: dict[int, dict[str, Any]]) -> Iterator[str]:
    """Yield what is wrong with the rows of a table: beside a model, and beside hudi-rs."""
    now = as_json(HudiTable.open(path).scan())
    if by_id(now) != model:
        yield "rows"
    if name != LOCAL_TIMES and as_json(other_scan(path)) != now:
        yield "rows of hudi-rs"


def options_of(table: HudiTable) -> WriteOptions:
    """Return how a table is written: its metadata table is maintained, if that is written here."""
    if not table.options.metadata_partitions:
        return ALONE
    return DROP if table.options.version == 6 else MAINTAIN


def wrong_checksums(path: Path) -> Iterator[str]:
    """Yield the checksums below a folder whose file is gone, or has other bytes: Java refuses it.

    Source: ChecksumFileSystem of Apache Hadoop: 4 bytes, the size of a chunk, and the CRC-32 of
    each.
    """
    for checksums in path.rglob(".*.crc"):
        file = checksums.with_name(checksums.name[1:-4])
        content = file.read_bytes() if file.exists() else None
        stored = checksums.read_bytes()
        assert stored[:8] == b"crc\0" + struct.pack(">i", 512)
        starts = range(0, len(content or b""), 512)
        sums = [zlib.crc32((content or b"")[at : at + 512]) for at in starts]
        if content is None or stored[8:] != struct.pack(f">{len(sums)}I", *sums):
            yield str(checksums.relative_to(path))


def test_rows_files_timelines_and_properties_are_what_java_says(
    java_tables: Path, said: dict[str, Said]
) -> None:
    wrong: list[object] = []
    for name, java in said.items():
        table = HudiTable.open(java_tables / name)
        if as_json(table.scan()) != in_order(java["rows"]):
            wrong.append((name, "rows"))
        slices = [
            (group.id.partition, group.id.file_id, group.current.time, group.current.name)
            for group in table.file_groups()
        ]
        if sorted(slices) != sorted(
            (partition, one["file_id"], one["instant"], one["base"])
            for partition, found in java["slices"].items()
            for one in found
        ):
            wrong.append((name, "file slices"))
        # In version 6 an instant is completed when its file is written, which no archive keeps.
        has_times = table.options.version > 6
        timeline = [
            (one.time, one.action, one.state.name, one.completed if has_times else None)
            for one in table.timeline()
        ]
        if timeline != [
            (one["time"], one["action"], one["state"], one["completed"] if has_times else None)
            for one in java["timeline"]
        ]:
            wrong.append((name, "timeline"))
        file = java_tables / name / ".hoodie" / "hoodie.properties"
        if parse_properties(file.read_bytes(), str(file)) != java["properties"]:
            wrong.append((name, "properties"))
        ours = [str(table.options.version), *table.options.record_key, *table.options.partition_by]
        if ours != [
            one
            for key in ("version", "recordkey.fields", "partition.fields")
            for one in java["properties"].get(f"hoodie.table.{key}", "").split(",")
            if one
        ]:
            wrong.append((name, "options"))
    assert wrong == []


def test_time_travel_gives_as_many_rows_as_java_at_each_instant(
    java_tables: Path, said: dict[str, Said]
) -> None:
    """Where Java refuses, its files are gone, or there are all that hudi-rs needs as well."""
    wrong: list[object] = []
    refused = 0
    for name in said:
        table = HudiTable.open(java_tables / name)
        for time, count in said[name]["rows_as_of"].items():
            try:
                rows = table.scan(as_of=time)
            except StaleStoreError:
                refused += 1
                if count is not None:
                    wrong.append((name, time, "refused"))
                continue
            if count not in (None, rows.num_rows):
                wrong.append((name, time, f"{rows.num_rows} rows"))
            if name == LOCAL_TIMES:
                continue
            if as_json(rows) != as_json(other_scan(java_tables / name, time)):
                wrong.append((name, time, "hudi-rs has other rows"))
    assert wrong == []
    # The first three instants of the tables with a metadata table, whose files were cleaned.
    assert refused == 9


def test_partitions_are_those_of_the_rows_that_hudi_rs_reads(java_tables: Path) -> None:
    for name in sorted(one.name for one in java_tables.iterdir()):
        if name == LOCAL_TIMES:
            continue  # hudi-rs does not open it
        table = HudiTable.open(java_tables / name)
        for time in (None, table.view().timeline.writes()[-1].time):
            rows = other_scan(java_tables / name, time)
            assert table.partitions(time) == sorted(set(rows["_hoodie_partition_path"].to_pylist()))


def test_nothing_is_damaged(java_tables: Path, said: dict[str, Said]) -> None:
    checks = {name: HudiTable.open(java_tables / name).verify() for name in said}
    assert {name: check.findings for name, check in checks.items() if check.findings} == {}
    assert {name: check.rows for name, check in checks.items()} == {
        name: len(java["rows"]) for name, java in said.items()
    }
    assert [file for name in said for file in wrong_checksums(java_tables / name)] == []


def test_an_upsert_changes_the_rows_that_it_names(
    java_table: Callable[[str], Path], said: dict[str, Said]
) -> None:
    """Two rows change and one is new, as in a dict; what is pending is rolled back first."""
    wrong: list[object] = []
    for name in said:
        path = java_table(name)
        table = HudiTable.open(path)
        model = by_id(said[name]["rows"])
        measure = "d" if name.endswith("-types") else "x"
        rows = table.scan().drop_columns(list(META_COLUMNS)).slice(0, 2)
        first, second = rows["id"].to_pylist()
        rows = pa.concat_tables([rows, rows.slice(0, 1)])
        for column, values in (
            ("id", [first, second, NEW]), ("seen", [1000] * 3), (measure, [-1.5] * 3)
        ):  # fmt: skip
            field = rows.schema.field(column)
            at = rows.schema.get_field_index(column)
            rows = rows.set_column(at, field, pa.array(values, field.type))
        model[NEW] = {**model[first], "id": NEW}
        for key in (first, second, NEW):
            model[key] |= {"seen": 1000, measure: -1.5}
        if name == "v6-pending-clustering":
            with pytest.raises(CommitConflictError, match=r"rollback\('20261127092128834'\)"):
                table.upsert(rows)
            table.rollback("20261127092128834")
        if name == "v9-pending":
            with pytest.raises(CommitConflictError, match=r"rollback\('20261127092110991'\)"):
                table.upsert(rows)
            table.rollback("20261127092110991")
        result = table.upsert(rows, options=options_of(table))
        if (result.rows_updated, result.rows_inserted) != (2, 1):
            wrong.append((name, "the result"))
        wrong.extend((name, one) for one in wrong_rows(name, path, model))
        wrong.extend((name, finding) for finding in table.verify().findings)
        wrong.extend((name, file) for file in wrong_checksums(path))
    assert wrong == []


def test_updates_and_merges_change_the_rows_that_they_name(
    java_table: Callable[[str], Path], said: dict[str, Said]
) -> None:
    """An update changes one row; a merge changes one, deletes one, and inserts one."""
    pending = {"v6-pending-clustering": "20261127092128834", "v9-pending": "20261127092110991"}
    wrong: list[object] = []
    for name in said:
        path = java_table(name)
        table = HudiTable.open(path)
        if name in pending:
            table.rollback(pending[name])
        options = options_of(table)
        model = by_id(said[name]["rows"])
        measure = "d" if name.endswith("-types") else "x"
        rows = table.scan().drop_columns(list(META_COLUMNS)).slice(0, 3)
        first, second, third = rows["id"].to_pylist()
        table.update(
            {measure: -1.5, "seen": "1000 + 1"}, where=pc.field("id") == first, options=options
        )
        model[first] |= {measure: -1.5, "seen": 1001}
        news = pa.concat_tables([rows.slice(1, 2), rows.slice(1, 1)])
        ids = pa.array([second, third, NEW], rows.schema.field("id").type)
        news = news.set_column(rows.schema.get_field_index("id"), rows.schema.field("id"), ids)
        merge = table.merge(news).when_matched_delete(pc.field("source.id") == third)
        merge = merge.when_matched_update({measure: -2.5}).when_not_matched_insert()
        done = merge.execute(options=options)
        model[NEW] = {**model[second], "id": NEW}
        model[second] |= {measure: -2.5}
        del model[third]
        if (done.rows_updated, done.rows_deleted, done.rows_inserted) != (1, 1, 1):
            wrong.append((name, "the result"))
        wrong.extend((name, one) for one in wrong_rows(name, path, model))
        keys = rows.select(table.options.record_key).to_pylist()
        answers = table.get(keys[1])[measure], keys[2] in table, len(table)
        if answers != (-2.5, False, len(model)):
            wrong.append((name, "answers"))
        wrong.extend((name, finding) for finding in table.verify().findings)
        wrong.extend((name, file) for file in wrong_checksums(path))
    assert wrong == []


@pytest.mark.parametrize("name", ["v6-services", "v9-services", "v9-metadata", "v9-archived"])
def test_no_file_has_the_checksums_of_other_bytes_after_any_write(
    java_table: Callable[[str], Path], name: str
) -> None:
    """Java refuses such a file; what is deleted takes its checksums with it."""
    path = java_table(name)
    table = HudiTable.open(path)
    options = options_of(table)
    choice = options.metadata
    rows = table.scan().drop_columns(list(META_COLUMNS))
    wrong: list[object] = []

    def check(what: str) -> None:
        wrong.extend((what, file) for file in wrong_checksums(path))

    if name != "v9-archived":  # whose clean took what the last commit replaced
        last = [one.time for one in table.timeline() if one.is_completed and one.is_write][-1]
        table.rollback(last, metadata=choice)
        check("rollback")
        # The plan and the result name the files, not their checksums.
        assert [one for one in path.rglob("*.rollback*") if b".crc" in one.read_bytes()] == []
    for savepoint, before in table.savepoints().items():
        table.delete_savepoint(savepoint)
        check("deleted savepoint")
        # Its files have the names of those that were deleted.
        table.savepoint(savepoint, user="me", comment="of other bytes")
        assert table.savepoints()[savepoint] != before
        check("savepoint")
        table.restore(savepoint)
        check("restore")
        table.delete_savepoint(savepoint)
    assert table.upsert(rows, options=options).rows_written > 0
    check("upsert")
    assert table.delete(rows.slice(0, 1), options=options).rows_deleted == 1
    check("delete")
    table.delete_partition(["day=2026-01-01"], options=options)
    check("deleted partition")
    table.insert_overwrite(rows.slice(0, 2), options=options)
    check("overwrite")
    assert table.clean(retain_commits=1, metadata=choice)
    check("clean")
    table.cluster("n", options=options)
    check("clustering")
    for _ in range(2):
        table.upsert(rows.slice(0, 1), options=options)
    assert table.clean(retain_commits=1, metadata=choice)
    archived = table.archive(min_commits=2, max_commits=3, metadata=choice).instants
    check("archive")
    table.upsert(rows.slice(0, 1), options=DROP)
    check("upsert without the metadata table")
    archived += table.archive(min_commits=2, max_commits=3).instants
    check("archive without the metadata table")
    assert archived
    assert wrong == []
    assert table.verify().findings == ()
    assert as_json(table.scan()) == as_json(other_scan(path))
