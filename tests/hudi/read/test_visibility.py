"""What is seen and what is not, in tables written for that, with hudi-rs as the second opinion."""

from __future__ import annotations

import decimal
import os
import pickle
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.footers import with_footer
from support.hudi.oracle import assert_same_rows, other, other_incremental, other_scan
from support.hudi.small_tables import SCHEMA, SmallTable, row
from support.hudi.versions import VERSIONS

from lookupstore.errors import CorruptionError, FormatError, StaleStoreError
from lookupstore.hudi import HudiTable
from lookupstore.hudi.file_group import scan as base_files
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.hudi.timeline.instant_times import next_time
from lookupstore.hudi.view import table_view
from lookupstore.parquet.structs import BINARY, I32, I64, LIST, STRUCT, Struct
from lookupstore.storage.location import Location

OLD = "20200101000000000"


def agree(table: SmallTable) -> None:
    """Compare with hudi-rs now, at every commit, and over every range."""
    opened = HudiTable.open(table.path)
    assert_same_rows(opened.scan(), other_scan(table.path))
    positions = ["20000101000000000"]
    for instant in opened.timeline():
        if instant.is_completed and instant.is_write:
            ours = opened.scan(as_of=instant.time)
            assert_same_rows(ours, other_scan(table.path, instant.time))
            positions.append(instant.position)
    for at, since in enumerate(positions):
        for until in positions[at + 1 :]:
            ours = opened.incremental(since, until)
            assert_same_rows(ours, other_incremental(table.path, since, until))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_last_slice_of_each_group_counts(tmp_path: Path, version: int) -> None:
    table = SmallTable(tmp_path / "t", version)
    first = table.commit("a-0", [row(1, "one"), row(2, "two")])
    table.commit("b-0", [row(3, "three")])
    table.commit("a-0", [row(1, "uno")])
    assert table.values() == {1: "uno", 3: "three"}
    assert table.values(first.time) == {1: "one", 2: "two"}
    groups = HudiTable.open(table.path).file_groups()
    assert [(one.id.file_id, len(one.slices)) for one in groups] == [("a-0", 2), ("b-0", 1)]
    agree(table)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_not_completed_is_not_seen(tmp_path: Path, version: int) -> None:
    table = SmallTable(tmp_path / "t", version)
    first = table.begin()
    stat = table.write(first.time, "a-0", [row(1, "one")])
    assert table.values() == {}
    table.finish(first, [stat])
    assert table.values() == {1: "one"}
    pending = table.begin()
    table.write(pending.time, "a-0", [row(1, "never")])
    table.write(pending.time, "b-0", [row(2, "never")])
    # A file of nobody's, whose instant was rolled back, or comes only now.
    table.write(
        next_time(pending.time, datetime(1970, 1, 1, tzinfo=timezone.utc)), "c-0", [row(3, "never")]
    )
    assert table.values() == {1: "one"}
    agree(table)


@pytest.mark.parametrize("version", VERSIONS)
def test_files_that_are_older_than_the_timeline_count(tmp_path: Path, version: int) -> None:
    """Their commits were archived; unless it is their instant that is pending."""
    table = SmallTable(tmp_path / "t", version)
    table.write(OLD, "a-0", [row(1, "archived")])
    assert table.values() == {}  # no commit says yet that it is old
    commit = table.commit("b-0", [row(2, "two")])
    assert table.values() == {1: "archived", 2: "two"}
    assert table.values(OLD) == {1: "archived"}
    assert table.values(commit.time) == {1: "archived", 2: "two"}
    agree(table)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_pending_instant_is_not_seen(tmp_path: Path, version: int) -> None:
    table = SmallTable(tmp_path / "t", version)
    pending = table.begin()
    table.write(pending.time, "a-0", [row(1, "never")])
    table.commit("b-0", [row(2, "two")])
    assert table.values() == {2: "two"}
    agree(table)


PARTED = SCHEMA.append(pa.field("p", pa.int32()))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("action", ["replacecommit", "clustering"])
def test_replaced_groups_are_gone_from_then_on(tmp_path: Path, version: int, action: str) -> None:
    if version == 6 and action == "clustering":
        action = "replacecommit"  # its name there
    table = SmallTable(tmp_path / "t", version, PARTED, ["p"])
    one, two, three = (
        {"id": key, "value": value, "p": p}
        for key, value, p in ((1, "a", 1), (2, "b", 1), (3, "c", 2))
    )
    first = table.commit("a-0", [one], "p=1", PARTED)
    other_group = table.commit("b-0", [two], "p=1", PARTED)
    kept = table.commit("a-0", [three], "p=2", PARTED)
    replace = table.begin(action)
    times = [first.time, other_group.time]
    stat = table.write(replace.time, "c-0", [one, two], "p=1", PARTED, times)
    before = table.values()
    table.finish(replace, [stat], {"p=1": ("a-0", "b-0")}, PARTED)
    assert table.values() == before
    paths = [one.current.path for one in HudiTable.open(table.path).file_groups()]
    assert [path.split("_")[0] for path in paths] == ["p=1/c-0", "p=2/a-0"]
    assert table.values(kept.time) == before
    delete = table.begin("replacecommit")
    table.finish(delete, [], {"p=2": ("a-0",)}, PARTED)
    assert table.values() == {1: "a", 2: "b"}
    agree(table)
    # Rows that were moved have not changed.
    moved = HudiTable.open(table.path).incremental(kept.position)
    assert moved.num_rows == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_commit_that_ends_late_is_found_by_its_completion(tmp_path: Path, version: int) -> None:
    """In version 6 only request times are known, and a reader that has gone on misses it."""
    table = SmallTable(tmp_path / "t", version)
    late = table.begin()
    early = table.commit("b-0", [row(2, "two")])
    stat = table.write(late.time, "a-0", [row(1, "one")])
    table.finish(late, [stat])
    opened = HudiTable.open(table.path)
    after = opened.incremental(early.position)
    assert after["id"].to_pylist() == ([] if version == 6 else [1])
    assert sorted(opened.incremental()["id"].to_pylist()) == [1, 2]
    agree(table)


@pytest.mark.parametrize("version", [8, 9])
def test_a_range_that_ends_before_a_commit_is_completed(tmp_path: Path, version: int) -> None:
    """Who reads up to a completion time sees what was there then, in the older file."""
    table = SmallTable(tmp_path / "t", version)
    table.commit("a-0", [row(1, "one")])
    late = table.begin()
    between = table.commit("b-0", [row(2, "two")])
    table.finish(late, [table.write(late.time, "a-0", [row(1, "uno")])])
    opened = HudiTable.open(table.path)
    first = opened.incremental(until=between.position)
    assert sorted(first["value"].to_pylist()) == ["one", "two"]
    assert opened.incremental(between.position)["value"].to_pylist() == ["uno"]
    assert sorted(opened.incremental()["value"].to_pylist()) == ["two", "uno"]


WIDE = pa.schema(
    {"id": pa.int64(), "added": pa.struct({"x": pa.int32()}), "value": pa.string(),
     "more": pa.list_(pa.decimal128(12, 3))}
)  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_columns_are_those_of_the_latest_commit(tmp_path: Path, version: int) -> None:
    table = SmallTable(tmp_path / "t", version)
    first = table.commit("a-0", [row(1, "one"), row(2, None)])
    many = {"added": {"x": 5}, "more": [decimal.Decimal("1.250"), None]}
    table.commit("b-0", [{"id": 2**40, "value": "wide", **many}], schema=WIDE)
    assert table.values() == {1: "one", 2: None, 2**40: "wide"}
    # Time travel, too, gives the columns of today.
    old = HudiTable.open(table.path).scan(as_of=first.time)
    assert old.schema.names[5:] == ["id", "added", "value", "more"]
    assert old.schema.field("id").type == pa.int64()
    assert old["added"].null_count == old["more"].null_count == 2
    agree(table)


@pytest.mark.parametrize(
    ("narrow", "wide", "values"),
    [
        (pa.int32(), pa.int64(), [1, None]),
        (pa.int32(), pa.float32(), [1, None]),
        (pa.int32(), pa.float64(), [1, None]),
        (pa.int64(), pa.float64(), [2**40, None]),
        (pa.float32(), pa.float64(), [1.5, None]),
        (pa.string(), pa.binary(), ["é", None]),
        (pa.decimal128(10, 2), pa.decimal128(15, 2), [decimal.Decimal("1.25"), None]),
        (pa.struct({"x": pa.int32()}), pa.struct({"x": pa.int64()}), [{"x": 1}, None]),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), [[1, None], None]),
    ],
    ids=str,
)
def test_types_that_are_widened(
    tmp_path: Path, narrow: pa.DataType, wide: pa.DataType, values: list[object]
) -> None:
    before, after = (pa.schema({"id": pa.int32(), "value": kind}) for kind in (narrow, wide))
    table = SmallTable(tmp_path / "t", 9, before)
    table.commit("a-0", [row(at, value) for at, value in enumerate(values)], schema=before)
    table.finish(table.begin(), schema=after)
    ours = HudiTable.open(table.path).scan()
    assert ours.schema.field("value").type == wide
    assert ours["value"].to_pylist() == pa.array(values, narrow).cast(wide).to_pylist()
    assert_same_rows(ours, other_scan(table.path))


@pytest.mark.parametrize("wrap", [lambda kind: kind, pa.list_], ids=["struct", "list"])
def test_a_field_that_is_added_to_a_struct(tmp_path: Path, wrap: Callable[[Any], Any]) -> None:
    before, after = (
        pa.schema({"id": pa.int32(), "value": wrap(pa.struct(fields))})
        for fields in ({"x": pa.int32()}, {"x": pa.int32(), "y": pa.string()})
    )
    old, new = ({"x": 1}, {"x": 1, "y": None})
    stored, expected = (old, new) if wrap is not pa.list_ else ([old, None], [new, None])
    table = SmallTable(tmp_path / "t", 9, before)
    table.commit("a-0", [row(1, stored), row(2, None)], schema=before)
    table.finish(table.begin(), schema=after)
    assert table.values() == {1: expected, 2: None}
    assert_same_rows(HudiTable.open(table.path).scan(), other_scan(table.path))


def test_a_type_of_another_kind_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    table.commit("a-0", [row(1, "one")])
    table.finish(table.begin(), schema=pa.schema({"id": pa.int32(), "value": pa.int32()}))
    with pytest.raises(FormatError, match=r"a-0_0-1-2_\d+\.parquet: the column 'value' is "):
        HudiTable.open(table.path).scan()


def test_a_value_that_the_wider_type_cannot_hold_is_an_error(tmp_path: Path) -> None:
    narrow, wide = (
        pa.schema({"id": pa.int32(), "value": kind}) for kind in (pa.int64(), pa.float64())
    )
    table = SmallTable(tmp_path / "t", 9, narrow)
    table.commit("a-0", [row(1, 2**53 + 1)], schema=narrow)
    table.finish(table.begin(), schema=wide)
    with pytest.raises(FormatError, match=r"a-0_0-1-2_\d+\.parquet: the column 'value' is "):
        HudiTable.open(table.path).scan()


def test_columns_are_found_wherever_they_are_said(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    table.commit("a-0", [row(1, "one")])
    table.finish(table.begin(), schema=None)
    assert table.values() == {1: "one"}
    bare = HudiTable(Location(table.path), table.table.options)
    assert bare.schema.names[5:] == ["id", "value"]


def test_every_type_comes_back(tmp_path: Path) -> None:
    """What a schema of ours says, a file of Arrow's writer holds, and hudi-rs reads."""
    schema = pa.schema(
        {
            "id": pa.int32(), "value": pa.string(), "long": pa.int64(), "float": pa.float32(),
            "double": pa.float64(), "flag": pa.bool_(), "bytes": pa.binary(),
            "fixed": pa.binary(4), "day": pa.date32(), "millis": pa.timestamp("ms", "UTC"),
            "micros": pa.timestamp("us", "UTC"), "time": pa.time64("us"),
            "small": pa.decimal128(2, 1), "large": pa.decimal128(38, 10),
            "list": pa.list_(pa.field("element", pa.list_(pa.field("element", pa.int32())))),
            "map": pa.map_(pa.string(), pa.struct({"x": pa.decimal128(9, 0), "y": pa.string()})),
        }
    )  # fmt: skip
    table = SmallTable(tmp_path / "t", 9, schema)
    assert list(table.table.schema)[5:] == list(schema)
    values = {
        "id": 1, "value": "名", "long": -1, "float": 1.5, "double": 2.5, "flag": True,
        "bytes": b"\x00", "fixed": b"abcd", "day": 20000, "millis": 5, "micros": 6, "time": 7,
        "small": decimal.Decimal("-9.9"), "large": decimal.Decimal("1.0000000001"),
        "list": [[1, None], None], "map": [("k", {"x": decimal.Decimal(3), "y": None})],
    }  # fmt: skip
    empty = dict.fromkeys(schema.names) | {"id": 2}
    table.commit("a-0", [values, empty], schema=schema)
    ours = HudiTable.open(table.path).scan()
    assert ours.drop_columns(ours.column_names[:5]).equals(
        pa.Table.from_pylist([values, empty], schema)
    )
    assert_same_rows(ours, other_scan(table.path))


def test_narrow_and_large_types_are_stored_as_the_format_has_them(tmp_path: Path) -> None:
    given = {
        "a": pa.int8(), "b": pa.uint16(), "c": pa.uint32(), "d": pa.large_string(),
        "e": pa.dictionary(pa.int8(), pa.string()), "f": pa.time32("s"), "g": pa.date64(),
        "h": pa.timestamp("s", "Europe/Vienna"), "i": pa.large_list(pa.int16()),
        "j": pa.large_binary(), "k": pa.string_view(),
    }  # fmt: skip
    table = HudiTable.create(tmp_path, pa.schema(given), record_key=["a"], name="t")
    assert [str(field.type) for field in table.schema][5:] == [
        "int32", "int32", "int64", "string", "string", "time64[us]", "date32[day]",
        "timestamp[ms, tz=UTC]", "list<element: int32>", "binary", "string",
    ]  # fmt: skip
    assert [str(one.type) for one in other(tmp_path).get_schema()] == [
        str(field.type) for field in table.schema
    ][5:]


# ---- files that are not what they should be --------------------------------------------------


def damaged(table: SmallTable, pattern: str) -> Path:
    (path,) = table.path.rglob(pattern)
    return path


@pytest.mark.parametrize("version", VERSIONS)
def test_damaged_timelines(tmp_path: Path, version: int) -> None:
    table = SmallTable(tmp_path / "t", version)
    table.commit("a-0", [row(1, "one")])
    file = damaged(table, "2*.commit")
    content = file.read_bytes()
    for wrong in (b"", content[: len(content) // 2], b"\x00" * len(content), content[1:]):
        file.write_bytes(wrong)
        opened = HudiTable.open(table.path)
        for read in (opened.scan, opened.incremental, opened.dataset):
            with pytest.raises(CorruptionError) as caught:
                read()
            assert caught.value.path == str(file)
    file.write_bytes(content)
    assert table.values() == {1: "one"}


def test_damaged_base_files(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    table.commit("a-0", [row(1, "one")])
    table.commit("b-0", [row(key, str(key)) for key in range(2, 3000)])
    file = damaged(table, "b-0*.parquet")
    content = file.read_bytes()
    zeros = bytearray(content)
    zeros[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    for wrong in (b"", content[:100], content[:-1], b"PAR1" * 5, bytes(zeros), content[4:]):
        file.write_bytes(wrong)
        opened = HudiTable.open(table.path)
        with pytest.raises(CorruptionError) as caught:
            opened.scan()
        assert caught.value.path == str(file)
        with pytest.raises(CorruptionError):
            list(opened.scan_batches())
        with pytest.raises(CorruptionError):
            opened.incremental()


@pytest.mark.parametrize(
    "field", [{1: (I32, 0)}, {16: (STRUCT, {3: (LIST, (I64, [1] * 9))})}], ids=["type", "sizes"]
)
def test_footers_at_which_arrow_ends_the_process(tmp_path: Path, field: Struct) -> None:
    table = SmallTable(tmp_path / "t", 9)
    first = table.commit("a-0", [row(1, "one")])
    table.commit("b-0", [row(key, str(key)) for key in range(2, 3000)])
    file = damaged(table, "b-0*.parquet")
    file.write_bytes(with_footer(file.read_bytes(), lambda *_: field))
    opened = HudiTable.open(table.path)
    where = pc.field("_hoodie_commit_time") > ""
    new = opened.scan(as_of=first.time).drop_columns(list(META_COLUMNS))
    for action in (
        opened.scan,
        lambda: opened.scan(filter=where),
        lambda: list(opened.scan_batches(filter=where)),
        opened.incremental,
        lambda: opened.tag(new, index="simple"),
        lambda: opened.tag(new),
        lambda: opened.upsert(new),
    ):
        with pytest.raises(CorruptionError) as caught:
            action()
        assert caught.value.path == str(file)
    assert opened.scan(filter=where, as_of=first.time).num_rows == 1
    assert opened.verify().findings


def test_bounds_at_which_arrow_ends_the_process(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    table.commit("a-0", [row(key, str(key)) for key in range(3000)])
    file = damaged(table, "a-0*.parquet")
    short = {12: (STRUCT, {5: (BINARY, b"\1"), 6: (BINARY, b"\1")})}
    file.write_bytes(
        with_footer(file.read_bytes(), lambda _, path: short if path == ("id",) else {})
    )
    opened = HudiTable.open(table.path)
    rows = pa.table({"id": [7], "value": ["new"]}, SCHEMA)
    for action in (
        lambda: opened.scan(filter=pc.field("id") == 7),
        lambda: list(opened.scan_batches(filter=pc.field("id") == 7)),
        lambda: opened.tag(rows),
        lambda: opened.upsert(rows),
    ):
        with pytest.raises(CorruptionError) as caught:
            action()
        assert caught.value.path == str(file)


def test_names_of_base_files(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9, PARTED, ["p"])
    commit = table.commit("a-0", [row(1, "one") | {"p": 1}], "p", PARTED)
    (name,) = (path.name for path in (table.path / "p").glob("*.parquet"))
    (table.path / "of_nobody.parquet").touch()  # in no partition
    stray = table.path / "p" / "copy.parquet"
    stray.write_bytes(b"")
    with pytest.raises(FormatError, match=r"p/copy\.parquet: a Parquet file that no Hudi table"):
        table.values()
    stray.unlink()
    (table.path / "p" / f".{name}.tmp").touch()
    (table.path / "README.md").touch()
    assert table.values() == {1: "one"}
    second = table.path / "p" / f"a-0_9-9-9_{commit.time}.parquet"
    second.write_bytes((table.path / "p" / name).read_bytes())
    with pytest.raises(CorruptionError, match=f"one file of a-0 and {commit.time}"):
        table.values()


def test_a_cleaned_file_is_not_an_empty_answer(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    first = table.commit("a-0", [row(1, "one")])
    second = table.commit("b-0", [row(2, "two")])
    os.unlink(damaged(table, "a-0*.parquet"))
    opened = HudiTable.open(table.path)
    assert opened.incremental(first.position)["id"].to_pylist() == [2]
    with pytest.raises(StaleStoreError, match="cleaned"):
        opened.incremental(until=second.position)


def test_paths_that_leave_the_table_are_refused(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    instant = table.begin()
    stat = table.write(instant.time, "a-0", [row(1, "one")], "../elsewhere")
    table.finish(instant, [stat])
    with pytest.raises(CorruptionError, match="below the table"):
        HudiTable.open(table.path).incremental()


# ---- the handle ------------------------------------------------------------------------------


def test_an_open_table_sees_new_commits_and_newer_versions(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 6)
    opened = HudiTable.open(table.path)
    assert opened.scan().num_rows == 0
    table.commit("a-0", [row(1, "one")])
    assert opened.scan().num_rows == 1
    upgraded = SmallTable(tmp_path / "other", 9)
    properties = ".hoodie/hoodie.properties"
    os.replace(upgraded.path / properties, table.path / properties)
    assert opened.scan().num_rows == 0
    assert opened.options.version == 9


def test_a_commit_while_a_table_is_read_does_not_disturb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the timeline and that at the folders, and between that and the rows."""
    table = SmallTable(tmp_path / "t", 9)
    table.commit("a-0", [row(1, "one")])
    opened = HudiTable.open(table.path)
    real_list, real_open = table_view.list_data_files, base_files.BaseFiles.dataset
    commits: list[str] = []

    def listing(*args: Any, **named: Any) -> Any:
        commits.append(table.commit("a-0", [row(1, "uno")]).time)
        commits.append(table.commit("b-0", [row(2, "two")]).time)
        return real_list(*args, **named)

    def opening(files: Any) -> Any:
        commits.append(table.commit("a-0", [row(1, "un")]).time)
        return real_open(files)

    monkeypatch.setattr(table_view, "list_data_files", listing)
    monkeypatch.setattr(base_files.BaseFiles, "dataset", opening)
    assert opened.scan(columns=["value"])["value"].to_pylist() == ["one"]
    monkeypatch.undo()
    assert len(commits) == 3
    assert opened.scan(columns=["value"])["value"].to_pylist() == ["un", "two"]


def test_an_open_table_is_pickled(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    table.commit("a-0", [row(1, "one")])
    opened = pickle.loads(pickle.dumps(HudiTable.open(table.path)))
    assert opened.scan(columns=["value"]).to_pylist() == [{"value": "one"}]


def test_bytes_of_batches_are_bounded(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    for group in ("a-0", "b-0"):
        instant = table.begin()
        stat = table.write(instant.time, group, [row(key, "x") for key in range(1000)])
        table.finish(instant, [stat])
    sizes = [batch.num_rows for batch in HudiTable.open(table.path).scan_batches(columns=["id"])]
    assert sum(sizes) == 2000
    assert len(sizes) >= 2


def test_arrow_schema_in_a_file_does_not_matter(tmp_path: Path) -> None:
    """Another writer may store Arrow's schema, and large types with it."""
    table = SmallTable(tmp_path / "t", 9)
    table.commit("a-0", [row(1, "one")])
    file = damaged(table, "a-0*.parquet")
    stored = pq.read_table(file)
    large = [
        (one.name, pa.large_string() if one.type == pa.string() else one.type)
        for one in stored.schema
    ]
    pq.write_table(stored.cast(pa.schema(large)), file)
    ours = HudiTable.open(table.path).scan()
    assert ours.schema.field("value").type == pa.string()
    assert SCHEMA.field("value").type == pa.string()
    assert ours["value"].to_pylist() == ["one"]
