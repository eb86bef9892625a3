"""What each write does, and what it refuses."""

from __future__ import annotations

import itertools
import re
import resource
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.hudi.kills import copied, count_points, on_disk
from support.hudi.oracle import assert_same_rows, other_scan
from support.hudi.versions import VERSIONS
from support.hudi.written import check_files
from support.remote import FaultyDisk, Killed, Remote
from support.samples import some_of

from lookupstore.errors import CommitConflictError, CorruptionError, FormatError
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.timeline.commit import parse_commit
from lookupstore.hudi.timeline.timeline import TimelineFolder
from lookupstore.hudi.write import files as file_writes
from lookupstore.hudi.write.partitioner import FileSizing
from lookupstore.storage.location import Location

pytestmark = pytest.mark.drawn(0.4)

NULL = pa.array([None], pa.float64())
METADATA = r"[h]oodie\.table\.metadata\.partitions"
ADDED = f"{METADATA[1]}oodie.table.metadata.partitions=files\n"
SCHEMA = pa.schema({"id": pa.int32(), "day": pa.string(), "ts": pa.float64(), "value": pa.string()})
ONCE = WriteOptions(retries=0)


def make(path: Path, **arguments: Any) -> HudiTable:
    return HudiTable.create(
        path, SCHEMA, **{"record_key": ["id"], "partition_by": ["day"], **arguments}
    )


def rows(*values: tuple[int, str, float, str]) -> pa.Table:
    columns = list(zip(*values, strict=True)) or [()] * 4
    return pa.table(
        [pa.array(list(one), field.type) for one, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )


def properties_of(path: Path) -> Path:
    (found,) = (path / ".hoodie").glob("*.properties")
    return found


def values(table: HudiTable) -> dict[Any, str]:
    found = {one["id"]: one["value"] for one in table.scan(columns=["id", "value"]).to_pylist()}
    assert len(found) == table.scan(columns=["id"]).num_rows
    return found


def base_paths(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*.parquet") if ".hoodie" not in path.parts)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_result_says_what_was_done(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", version=version)
    first = table.insert(rows((1, "a", 1, "x"), (2, "a", 1, "x"), (3, "b", 1, "x")))
    assert (first.rows_inserted, first.files_new, first.rows_written) == (3, 2, 3)
    assert first.bytes_written == sum(one.current.bytes for one in table.file_groups())
    there = {path.relative_to(tmp_path / "t").as_posix() for path in base_paths(tmp_path / "t")}
    assert len(first.files_written) == len(there) == 2
    assert set(first.files_written) == there
    tried = table.upsert(rows((1, "a", 1, "y"), (9, "a", 1, "y"), (9, "c", 1, "y")), dry_run=True)
    assert tried.instant is None
    assert table.timeline()[-1] == first.instant
    assert (tried.rows_inserted, tried.rows_updated, tried.files_new) == (2, 1, 1)
    (changed,) = [one.current for one in table.file_groups() if one.id.partition == "a"]
    assert tried.files_rewritten == (changed.path,)
    assert (tried.bytes_rewritten, tried.bytes_written) == (changed.bytes, 0)
    second = table.upsert(rows((1, "a", 1, "y"), (9, "a", 1, "y"), (9, "c", 1, "y")))
    assert second.files_rewritten == tried.files_rewritten
    now = {path.relative_to(tmp_path / "t").as_posix() for path in base_paths(tmp_path / "t")}
    assert second.files_written == tuple(sorted(now - there))
    assert tried.files_written == ()
    assert (second.rows_inserted, second.rows_updated, second.files_new) == (2, 1, 1)
    assert table.delete([1, 100], dry_run=True).rows_deleted == 1
    third = table.delete([1, 100])
    assert (third.rows_deleted, third.rows_written, third.operation) == (1, 2, "DELETE")
    gone = table.delete_partition(["a", "b"], dry_run=True).files_replaced
    assert gone == table.delete_partition(["a", "b"]).files_replaced
    assert len(gone) == 2
    assert values(table) == {9: "y"}
    assert check_files(tmp_path / "t") == 1
    assert set(second.seconds) == {"read", "tag", "plan", "write", "commit"}


@pytest.mark.parametrize("given", [{"batch": 17}, {"batch": None}, {17: "batch"}, ["batch"], "17"])
def test_extra_metadata_is_texts(given: Any) -> None:
    """Other values would fail in the commit, after all files are written."""
    with pytest.raises(
        TypeError, match=r"^extra_metadata (is|has) .*; give a (text|dict of texts)"
    ):
        WriteOptions(extra_metadata=given)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_timeline_says(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", version=version)
    options = WriteOptions(extra_metadata={"batch": "17"})
    first = table.upsert(rows((1, "a", 1, "x"), (2, "a", 1, "x"), (3, "b", 1, "x")))
    second = table.upsert(rows((1, "a", 1, "y"), (4, "b", 1, "y")), options=options)
    third = table.insert_overwrite(rows((5, "a", 1, "z")))
    folder = TimelineFolder(table.location, table.options.timeline, version)
    commits = []
    for instant in table.timeline():
        assert instant.is_completed
        inflight = folder.read(folder.before(instant))
        commits.append((parse_commit(inflight, ""), parse_commit(folder.read(instant), "")))
    planned, done = commits[1]
    assert second.instant == table.timeline()[1]
    assert (done.operation, planned.operation) == ("UPSERT", "UPSERT")
    extra = done.extra_metadata or {}
    assert extra["batch"] == "17"
    assert done.schema == table.options.create_schema
    (insert,), (nothing, update) = planned.stats["b"], planned.stats["a"]
    assert (insert.num_inserts, insert.file_id, nothing.num_inserts) == (1, "", 0)
    assert (update.num_update_writes, update.prev_commit) == (1, first.instant.time)
    assert commits[2][0].operation == commits[2][1].operation == "INSERT_OVERWRITE"
    assert list(commits[2][1].replaced or ()) == ["a"]
    assert third.instant.action == "replacecommit"
    assert done.replaced is None


@pytest.mark.parametrize("version", VERSIONS)
def test_the_newer_row_stays(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", version=version, ordering="ts", partition_by=[])
    table.upsert(rows((1, "", 5, "old"), (2, "", 5, "old"), (3, "", float("nan"), "old")))
    before = table.scan(columns=["id", "_hoodie_commit_time", "_hoodie_commit_seqno"]).to_pylist()
    result = table.upsert(
        rows(
            (1, "", 4, "late"),
            (2, "", 5, "tie"),
            (3, "", 9, "late"),
            (4, "", 1, "a"),
            (4, "", 1, "b"),
        )
    )
    assert (result.rows_updated, result.rows_inserted) == (1, 1)
    # Of two rows of a batch, versions differ; a row that is there loses a tie in all of them.
    tie = "a" if version == 6 else "b"
    assert values(table) == {1: "old", 2: "tie", 3: "old", 4: tie}
    after = table.scan(columns=["id", "_hoodie_commit_time", "_hoodie_commit_seqno"]).to_pylist()
    assert [after[0], after[2]] == [before[0], before[2]]
    assert after[1]["_hoodie_commit_time"] == result.instant.time
    table.upsert(rows((3, "", float("nan"), "new")))
    assert values(table)[3] == "new"
    # A delete by key wins against any value; one by a flag is a row like others.
    flagged = rows((1, "", 4, "x"), (2, "", 6, "x"), (99, "", 6, "x"))
    flagged = flagged.append_column("_hoodie_is_deleted", pa.array([True, True, True]))
    assert table.upsert(flagged).rows_deleted == 1
    assert sorted(values(table)) == [1, 3, 4]
    assert table.delete(pa.array([1, 3])).rows_deleted == 2
    assert sorted(values(table)) == [4]
    given = pa.table({"id": pa.array([1, 2], pa.int32()), "ts": [1.0, None]})
    with pytest.raises(ValueError, match="row 2: the ordering column 'ts' is null"):
        table.upsert(given, missing="null")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stored_null_is_older_than_any_value(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", version=version, ordering="ts", partition_by=[])
    nulls = rows((1, "", 1, "old")).set_column(
        2, SCHEMA.field("ts"), pa.array([None], pa.float64())
    )
    table.bulk_insert(nulls)
    table.upsert(rows((1, "", -1, "new")))
    assert values(table) == {1: "new"}


def test_the_later_write_stays_without_an_order(tmp_path: Path) -> None:
    table = make(tmp_path / "t", ordering="ts", merge_mode="COMMIT_TIME_ORDERING")
    table.upsert(rows((1, "a", 5, "old")))
    table.upsert(rows((1, "a", 4, "new"), (1, "a", 3, "newest")))
    assert values(table) == {1: "newest"}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_without_rows_has_a_file(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", version=version, partition_by=[])
    table.insert(rows((1, "", 1, "x"), (2, "", 1, "x")))
    table.delete([1, 2])
    (group,) = table.file_groups()
    assert len(group.slices) == 2
    assert pq.ParquetFile(tmp_path / "t" / group.current.path).metadata.num_rows == 0
    assert check_files(tmp_path / "t") == 2
    assert table.scan().num_rows == 0
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))
    table.insert(rows((3, "", 1, "y")))
    assert len(table.file_groups()) == 1
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))


def test_writes_without_rows_are_commits(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for write in (table.upsert, table.insert, table.bulk_insert, table.insert_overwrite):
        assert write(rows()).rows_written == 0
    table.upsert(pa.RecordBatchReader.from_batches(SCHEMA, []))
    table.delete([])
    table.delete([5])
    table.insert_overwrite_table(rows())
    assert len(table.timeline()) == 8
    assert table.scan().num_rows == 0
    assert other_scan(tmp_path / "t") is None


def test_inputs_of_every_kind(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    table = make(tmp_path / "t")
    one = rows((1, "a", 1, "x"), (2, "b", 1, "x"))
    table.upsert(one.to_batches())
    table.upsert(one.to_reader())
    table.upsert(one.to_batches()[0])
    table.upsert(polars.from_arrow(one))
    table.upsert(one.select(["value", "day", "id"]), missing="null")
    table.upsert(table.scan())  # meta columns are no data
    assert table.scan(columns=["id", "ts"]).to_pylist() == [
        {"id": 1, "ts": None},
        {"id": 2, "ts": None},
    ]
    dictionary = one.set_column(1, "day", one["day"].dictionary_encode())
    table.upsert(dictionary)
    assert table.scan(columns=["ts"])["ts"].to_pylist() == [1, 1]
    with pytest.raises(TypeError, match=r"^rows is int"):
        table.upsert(5)
    with pytest.raises(TypeError, match=r"^rows: item 1 is int, not a table or a frame"):
        table.upsert([rows((1, "a", 1, "x")), 5])
    with pytest.raises(FileNotFoundError, match=r"^rows: no\.parquet: no such file or folder"):
        table.upsert("no.parquet")
    with pytest.raises(FileNotFoundError, match=r"^keys: no\.parquet: .* give a list of keys"):
        table.delete("no.parquet")
    with pytest.raises(FileNotFoundError, match=r"^schema: no\.parquet: no such file"):
        HudiTable.create(tmp_path / "u", "no.parquet", record_key="id")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "evolve",
            r"to add columns that the table lacks, pass options=WriteOptions\(evolve=True\)",
        ),
        ("mergeSchema", r"to add columns that the table lacks, .*WriteOptions\(evolve=True\)"),
        ("schema_evolution", r"to add columns that the table lacks"),
        ("duplicates", r"pass options=WriteOptions\(duplicates=\.\.\.\)"),
        ("nope", "upsert has no argument 'nope'; it has 'rows', 'missing', 'options', 'dry_run'$"),
        ("mising", r"upsert has no argument 'mising'; did you mean 'missing'\? It has 'rows'"),
    ],
)
def test_options_of_a_write_are_not_its_arguments(tmp_path: Path, name: str, said: str) -> None:
    table = make(tmp_path / "t")
    with pytest.raises(TypeError, match=said):
        table.upsert(rows((1, "a", 1, "x")), **{name: True})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda table: table.upsert(rows(), retain_commits=2),
            "pass options=WriteOptions(services=TableServices(retain_commits=...))",
        ),
        (lambda _: WriteOptions(archive=True), "pass services=TableServices(archive=...)"),
        (
            lambda _: WriteOptions(evolv=True),
            "WriteOptions has no argument 'evolv'; did you mean 'evolve'? It has 'duplicates', ",
        ),
        (
            lambda table: table.upsert(rows(), WriteOptions()),
            "upsert takes 1 positional argument, found 2; call "
            "upsert(rows, missing=..., options=..., dry_run=...)",
        ),
        (
            lambda table: table.delete([1], "id = 1"),
            "delete takes 1 positional argument, found 2; ",
        ),
        (lambda table: table.delete(filter="id = 1"), "give the filter as where="),
        (lambda table: table.update({"value": None}, condition="id = 1"), "the filter as where="),
        (lambda table: table.delete([1], index="simple"), "options=WriteOptions(index=...)"),
        (
            lambda table: table.merge(rows(), options=WriteOptions()),
            "merge has no argument 'options'; pass it to the last call of the merge: .execute(",
        ),
        (lambda table: table.merge(rows(), evolve=True), "(evolve=True) to .execute(), the last"),
        (lambda table: table.merge(rows(), condition="id = 1"), "rows are matched by key; "),
        (
            lambda table: table.merge(rows()).execute(index="simple"),
            "execute has no argument 'index'; pass options=WriteOptions(index=...)",
        ),
        (lambda table: table.upsert(), "upsert needs the argument 'rows'; call upsert(rows, "),
        (lambda table: table.restore(), "restore needs the argument 'savepoint'; call restore("),
        (lambda table: table.restore(timeout=3), "restore has no argument 'timeout'; give wait="),
        (lambda table: table.clean(retain=3), "clean has no argument 'retain'; give retain_"),
        (lambda table: table.savepoint(coment="a"), "did you mean 'comment'"),
        (lambda table: table.scan(where="id = 1"), "scan has no argument 'where'; give the filter"),
        (lambda table: table.scan(timestamp="2026"), "give as_of="),
        (lambda table: table.changes(filter="id = 1"), "incremental(filter=...)"),
        (lambda table: table.cluster("id", strategy="zorder"), "such as curve='zorder'"),
        (lambda table: table.cluster(columns=["id"]), "give by=, the columns to order rows by"),
        (lambda _: HudiTable.create("t", SCHEMA, precombine="id"), "give ordering="),
        (lambda _: HudiTable.create("t", SCHEMA, partition="id"), "give partition_by="),
        (lambda _: HudiTable.create("t", SCHEMA, key="id"), "create has no argument 'key'"),
    ],
)
def test_arguments_by_names_of_other_tools(
    tmp_path: Path, call: Callable[[HudiTable], object], said: str
) -> None:
    table = make(tmp_path / "t")
    with pytest.raises(TypeError, match=re.escape(said)):
        call(table)


def test_results_of_writes_are_no_instants(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    done = table.insert(rows((1, "a", 1, "x")))
    assert done.instant is not None
    for argument, call in {
        "instant": table.rollback, "savepoint": table.restore,
        "as_of": lambda one: table.scan(as_of=one), "since": table.changes,
    }.items():  # fmt: skip
        with pytest.raises(
            ValueError, match=f"{argument} is a WriteResult; pass its attribute `instant`"
        ):
            call(done)  # type: ignore[operator]
    assert table.scan(as_of=done.instant).num_rows == 1


def test_deletes_name_keys_in_tuples(tmp_path: Path) -> None:
    """As lookups take them: the key, or the key and its partition."""
    table = make(tmp_path / "t")
    table.insert(rows((1, "a", 1, "x"), (2, "a", 1, "x"), (2, "b", 1, "y"), (3, "b", 1, "z")))
    assert table.lookup([(1, "a"), (3, "a")])["value"].to_pylist() == ["x", None]
    assert table.delete([(1, "a"), (3, "a")]).rows_deleted == 1
    assert table.delete([(2, "b")]).rows_deleted == 1
    assert table.scan(columns=["id", "day"]).sort_by("id").to_pylist() == [
        {"id": 2, "day": "a"}, {"id": 3, "day": "b"},
    ]  # fmt: skip
    assert table.delete([(3,)], dry_run=True).rows_deleted == 1
    anywhere = WriteOptions(index="global-bloom")
    assert table.delete([(3, "c")], options=anywhere, dry_run=True).rows_deleted == 1
    shape = r"give a table with 'id', 'day', such as {'id': \[...\], 'day': \[...\]}"
    for given, said in (
        ([(1, "a", 1.0)], f"keys is tuples of 3 values; {shape}"),
        ([(1, "a"), (2,)], "keys: tuples and values, or tuples of several lengths"),
        ([(1, "a"), 2], "keys: tuples and values, or tuples of several lengths"),
        ([(1, "a"), ("b", 2)], "keys: 'id': not values of one type .*; give int32"),
        ([("a", 1)], "'id' is string; give int32"),
    ):
        with pytest.raises(TypeError, match=said):
            table.delete(given)
    with pytest.raises(ValueError, match=r"keys: 'id' has 1\.5 in row 1, which int32 cannot"):
        table.delete([(1.5, "a")])
    composite = make(tmp_path / "c", record_key=["id", "value"])
    composite.insert(rows((1, "a", 1, "x"), (1, "b", 1, "x"), (1, "a", 1, "y")))
    assert composite.delete([(1, "x")], dry_run=True).rows_deleted == 2
    assert composite.delete([(1, "x", "b")]).rows_deleted == 1
    with pytest.raises(TypeError, match="keys is a single column; give a table with 'id', 'value'"):
        composite.delete([1])
    for nothing in ([], set(), iter([])):
        assert composite.delete(nothing).rows_deleted == 0
    missing = r"no column 'value'; give all columns of the record key, such as {'id': \[...\], 'va"
    with pytest.raises(ValueError, match=missing):
        composite.delete({"id": [1]})


def test_deletes_name_keys_in_several_ways(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.insert(rows(*((at, "ab"[at % 2], 1, "x") for at in range(8))))
    table.delete([0])
    table.delete(pa.array([1]))
    table.delete(pa.chunked_array([[2], [2]]))
    table.delete(pa.table({"id": [3]}))
    # With the partition, only that one is looked into.
    table.delete(pa.table({"id": [4, 5], "day": ["a", "a"], "other": [1, 2]}))
    assert sorted(values(table)) == [5, 6, 7]
    anywhere = WriteOptions(index="global-bloom")
    assert table.delete(pa.table({"id": [5, 5], "day": ["a", "b"]}), options=anywhere).rows_deleted
    table.insert(rows((5, "b", 1, "x")))
    assert table.delete([5, 6, 99], options=anywhere).rows_deleted == 2
    table.insert(rows((5, "b", 1, "x"), (5, "a", 1, "x"), (6, "a", 1, "x")))
    assert table.delete([5], options=anywhere).rows_deleted == 2
    with pytest.raises(ValueError, match="keys have no column 'id'"):
        table.delete(pa.table({"day": ["a"]}))
    with pytest.raises(ValueError, match=r"keys have no column 'id'; did you mean 'ID'\?"):
        table.delete(pa.table({"ID": [5]}))
    # Without its partition, a key is deleted in all of them.
    others = pa.table({"id": pa.array([7], pa.int32()), "Day": ["a"]})
    for delete in (table.delete, lambda keys: table.merge(keys).when_matched_delete().execute()):
        with pytest.raises(ValueError, match=r"have the column 'Day', but .* is 'day'; rename it"):
            delete(others)
    with pytest.raises(TypeError, match="'id' is string; give int32"):
        table.delete(pa.array(["5"]))
    composite = make(tmp_path / "c", record_key=["id", "value"], partition_by=["day", "value"])
    composite.insert(rows((1, "a", 1, "x"), (1, "a", 1, "y")))
    with pytest.raises(TypeError, match="give a table with 'id', 'value'"):
        composite.delete([1])
    assert (
        composite.delete(
            pa.table({"id": [1], "value": ["x"]}).cast(
                pa.schema({"id": pa.int32(), "value": pa.string()})
            )
        ).rows_deleted
        == 1
    )
    assert composite.scan(columns=["value"])["value"].to_pylist() == ["y"]


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        (
            {"id": [1], "day": ["a"], "new": [1]},
            ValueError,
            "the table has no column 'new'; to add",
        ),
        ({"day": ["a"]}, ValueError, "no column 'id'"),
        ({"id": [1]}, ValueError, "no column 'day'"),
        ({"id": ["1"], "day": ["a"]}, TypeError, "'id' is string; give int32"),
        (
            {"id": [2**40], "day": ["a"]},
            ValueError,
            "'id' has 1099511627776 in row 1, which int32 cannot hold",
        ),
        ({"id": [None], "day": ["a"]}, ValueError, "row 1 has no record key"),
        ({"id": [1], "day": ["../x"]}, ValueError, "does not name a folder of its own"),
        ({"id": [1], "day": ["a"], "_hoodie_is_deleted": [1]}, TypeError, "give bool"),
    ],
    ids=str,
)
def test_rows_that_do_not_fit(
    tmp_path: Path, given: dict[str, list[Any]], error: type[Exception], match: str
) -> None:
    table = make(tmp_path / "t")
    made = pa.table(given)
    if "id" in given and given["id"] != ["1"] and given["id"] != [2**40]:
        made = made.set_column(0, "id", made["id"].cast(pa.int32()))
    for write in (table.upsert, table.insert, table.bulk_insert, table.insert_overwrite):
        with pytest.raises(error, match=match):
            write(made, missing="null")
    # Nothing was begun, or it was taken back.
    assert not any(one.is_write for one in table.timeline())


def test_bytes_of_one_length(tmp_path: Path) -> None:
    """Engines without a type for these give others, which must have the length."""
    schema = pa.schema({"id": pa.int32(), "fixed": pa.binary(2)})
    table = HudiTable.create(tmp_path / "t", schema, record_key=["id"])
    ids = pa.array([1, 2], pa.int32())
    for kind in (pa.binary(), pa.large_binary(), pa.binary(2)):
        table.upsert(pa.table({"id": ids, "fixed": pa.array([b"ab", None], kind)}))
        assert table.scan(columns=["fixed"])["fixed"].to_pylist() == [b"ab", None]
    longer = pa.table({"id": ids, "fixed": pa.array([b"ab", b"abc"])})
    with pytest.raises(
        ValueError, match=r"'fixed' has b'abc' in row 2, which fixed_size_.* cannot hold"
    ):
        table.upsert(longer)


def test_an_insert_of_a_key_that_is_there(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.insert(rows((1, "a", 1, "x")))
    with pytest.raises(
        ValueError, match=r"^rows have keys that the table already has, such as '1'"
    ):
        table.insert(
            rows((1, "a", 1, "y"), (2, "a", 1, "y")), options=WriteOptions(duplicates="fail")
        )
    assert values(table) == {1: "x"}
    with pytest.raises(KeyError, match="no partition 'z'"):
        table.delete_partition(["z"])
    assert table.delete_partition("a").files_replaced
    assert values(table) == {}


def test_a_folder_that_contains_partitions(tmp_path: Path) -> None:
    given = pa.table({"id": [1, 2, 3], "c": ["us", "us", "de"], "day": ["mo", "tu", "mo"]})
    table = HudiTable.create(tmp_path / "t", given, record_key="id", partition_by=["c", "day"])
    table.insert(given)
    for path in ("us", "us/", "us/*"):
        with pytest.raises(KeyError, match=r"not a partition, but contains 2: 'us/mo', 'us/tu'; "):
            table.delete_partition(path)
    with pytest.raises(KeyError, match="no partition 'u'; it has 'de/mo', 'us/mo', 'us/tu'"):
        table.delete_partition("u")
    assert table.delete(where="c = 'us'").rows_deleted == 2
    assert table.scan(columns="id")["id"].to_pylist() == [3]


@pytest.mark.parametrize("version", VERSIONS)
def test_columns_come_and_types_widen(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", version=version)
    table.insert(rows((1, "a", 1, "x"), (2, "b", 1, "x")))
    more = pa.table(
        {
            "id": pa.array([2**40, 2], pa.int64()),
            "day": ["a", "b"],
            "value": pa.array([b"\xff", b"y"]),
            "extra": pa.array([{"n": 1}, None], pa.struct({"n": pa.int32()})),
        }
    )
    with pytest.raises(TypeError, match="'value' is binary, in the table string; to widen it"):
        table.upsert(more.drop_columns(["id", "extra"]).append_column("id", pa.array([1, 2])))
    evolve = WriteOptions(evolve=True, missing="null")
    table.upsert(more, options=evolve)
    assert [str(one.type) for one in table.schema][5:] == [
        "int64", "string", "double", "binary", "struct<n: int32>",
    ]  # fmt: skip
    assert values(table) == {1: b"x", 2: b"y", 2**40: b"\xff"}
    nested = pa.table(
        {
            "id": pa.array([7], pa.int64()),
            "day": ["a"],
            "extra": pa.array(
                [{"n": 2**40, "m": "new"}], pa.struct({"n": pa.int64(), "m": pa.string()})
            ),
        }
    )
    table.upsert(nested, options=evolve)
    extra = {one["id"]: one["extra"] for one in table.scan(columns=["id", "extra"]).to_pylist()}
    assert extra == {1: None, 2: None, 7: {"n": 2**40, "m": "new"}, 2**40: {"n": 1, "m": None}}
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))
    check_files(tmp_path / "t")
    # Narrower values are cast, so that old writers go on.
    table.upsert(rows((1, "a", 1, "again")), missing="keep")
    assert values(table)[1] == b"again"


def test_what_does_not_widen(tmp_path: Path) -> None:
    table = make(tmp_path / "t", record_key=["value"], partition_by=[])
    evolve = WriteOptions(evolve=True)
    for column, given in (
        ("value", pa.array([b"k"])),  # keys are texts
        ("ts", pa.array(["1"])),
    ):
        made = pa.table({"value": ["k"]})
        made = made.drop_columns([column]) if column == "value" else made
        with pytest.raises(TypeError, match=f"'{column}' is "):
            table.upsert(made.append_column(column, given), options=evolve)
    halves = pa.table({"value": ["k"], "id": pa.array([1.5], pa.float32())})
    with pytest.raises(
        ValueError, match=r"'id' has 1\.5 in row 1, which int32 cannot hold; give wh"
    ):
        table.upsert(halves, missing="null", options=evolve)
    with pytest.raises(ValueError, match="a name that Avro does not allow"):
        table.upsert(pa.table({"value": ["k"], "a b": [1]}), options=evolve)
    finer = pa.array([1], pa.timestamp("ns"))
    with pytest.raises(ValueError, match=r"'when' has .*000000001.* in row 1, which timestamp\[us"):
        table.upsert(pa.table({"value": ["k"], "when": finer}), missing="null", options=evolve)
    assert table.timeline() == []
    assert "when" not in table.schema.names


def fixed_clock() -> Callable[[], datetime]:
    ticks = itertools.count()
    return lambda: datetime(2026, 3, 7, tzinfo=timezone.utc) + timedelta(seconds=next(ticks))


def test_the_same_input_gives_the_same_files(tmp_path: Path) -> None:
    contents = []
    for name in ("one", "two"):
        numbers = itertools.count()
        options = WriteOptions(
            new_file_id=lambda numbers=numbers: f"id{next(numbers)}-0",
            clock=fixed_clock(),
            sizing=FileSizing(max_file_size=50, small_file_limit=0, record_size=1),
        )
        table = make(tmp_path / name, name="t")
        table.upsert(rows(*((at, "ab"[at % 2], 1, "x") for at in range(300))), options=options)
        table.upsert(rows(*((at, "ab"[at % 2], 1, "y") for at in range(200, 400))), options=options)
        files = sorted((tmp_path / name).rglob("*.parquet"))
        contents.append({str(one.relative_to(tmp_path / name)): one.read_bytes() for one in files})
    assert contents[0] == contents[1]
    assert len(contents[0]) > 8


def test_rows_come_in_any_order(tmp_path: Path) -> None:
    table = make(tmp_path / "t", partition_by=[])
    table.insert(rows(*((at, "", at, "x") for at in range(100))))
    turned = [(at * 37) % 100 for at in range(100)]
    table.upsert(rows(*((at, "", at, f"y{at}") for at in turned[:60])))
    table.delete([at for at in turned[80:]])
    # Rows stay where they are.
    found = table.scan(columns=["id", "value"]).to_pylist()
    expected = [
        {"id": at, "value": f"y{at}" if at in turned[:60] else "x"}
        for at in range(100)
        if at not in turned[80:]
    ]
    assert found == expected


def test_inserts_fill_small_files_up(tmp_path: Path) -> None:
    table = make(tmp_path / "t", partition_by=[])
    table.insert(rows(*((at, "", 1, "x") for at in range(10))))
    table.insert(rows(*((at, "", 1, "x") for at in range(10, 20))))
    assert [len(one.slices) for one in table.file_groups()] == [2]
    full = WriteOptions(sizing=FileSizing(small_file_limit=0))
    table.insert(rows(*((at, "", 1, "x") for at in range(20, 30))), options=full)
    assert [len(one.slices) for one in table.file_groups()] in ([1, 2], [2, 1])
    assert sorted(values(table)) == list(range(30))


def test_bulk_inserts_keep_order_and_begin_new_files(tmp_path: Path) -> None:
    table = make(tmp_path / "t", partition_by=[])
    options = WriteOptions(sizing=FileSizing(max_file_size=100_000, small_file_limit=0))
    batches = [rows(*((at + 10 * part, "", 1, "x") for at in range(10))) for part in range(5)]
    result = table.bulk_insert(
        (batch for one in batches for batch in one.to_batches()), options=options
    )
    assert (result.rows_inserted, result.files_new) == (50, 1)
    check_files(tmp_path / "t")
    tight = WriteOptions(
        sizing=FileSizing(max_file_size=1, small_file_limit=0),
        format=FileFormat(row_group_bytes=1),
    )
    result = table.bulk_insert(
        (batch for one in batches for batch in one.to_batches()), options=tight
    )
    assert result.files_new == 5
    assert check_files(tmp_path / "t") == 6


@pytest.mark.sampled
def test_a_bulk_insert_that_fails_closes_all_its_files(tmp_path: Path) -> None:
    """Also where removing the first of them ends the thread, as a signal may."""
    given = pa.table({"id": range(30), "day": ["a", "b", "c"] * 10})
    template = tmp_path / "t"
    HudiTable.create(template, given.schema, record_key=["id"], partition_by=["day"])
    points = count_points(template, tmp_path, lambda table: table.bulk_insert(given))
    assert points > 20
    for at in some_of(range(points), 12):
        path = tmp_path / str(at)
        table = copied(template, path)
        with pytest.MonkeyPatch.context() as patch:
            on_disk(patch, FaultyDisk(at, kill=True))
            with pytest.raises(Killed):
                table.bulk_insert(given)
        opened = [Path(one.path) for one in psutil.Process().open_files()]
        assert not [one for one in opened if path in one.parents]


def test_a_bulk_insert_has_few_files_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_writes, "OPEN_FILES", 2)
    monkeypatch.setattr(file_writes, "WAITING_BYTES", 500)
    table = make(tmp_path / "t")
    given = [rows(*((at, f"p{at % 5}", 1, "x") for at in range(10 * part, 10 * part + 10)))
             for part in range(3)]  # fmt: skip
    result = table.bulk_insert([batch for one in given for batch in one.to_batches()])
    assert result.files_new > 5
    assert sorted(values(table)) == list(range(30))
    assert check_files(tmp_path / "t") == result.files_new
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))


def test_a_bulk_insert_of_more_partitions_than_a_process_may_have_files(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    # This process may have files open for other tests; a write takes half of the others at most.
    most = 2 * psutil.Process().num_fds() + 200
    count = most + 4
    given = rows(*((at, f"p{at}", 1, "x") for at in range(count)))
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, limits[1]))
    try:
        result = table.bulk_insert(given)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert result.files_new == count
    assert sorted(values(table)) == list(range(count))


@pytest.mark.parametrize("version", VERSIONS)
def test_two_writers_of_one_file_group(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One who has tagged does not overwrite what another commits before it."""
    table = make(tmp_path / "t", version=version)
    table.insert(rows((1, "a", 1, "x"), (2, "b", 1, "x")))
    write = file_writes.FileWrites.write
    between: list[Callable[[], Any]] = []

    def slow(self: Any, files: Any, advance: Any) -> Any:
        stats = write(self, files, advance)
        if between:
            between.pop()()
        return stats

    monkeypatch.setattr(file_writes.FileWrites, "write", slow)
    other = HudiTable.open(tmp_path / "t")
    between.append(lambda: other.upsert(rows((1, "a", 1, "theirs"))))
    with pytest.raises(CommitConflictError, match="keys such as '1'"):
        table.upsert(rows((1, "a", 1, "ours")), options=ONCE)
    assert values(table) == {1: "theirs", 2: "x"}
    # What was written for it is gone, and nothing is pending.
    assert all(one.is_completed for one in table.timeline())
    between.append(lambda: other.upsert(rows((1, "a", 1, "theirs again"))))
    table.upsert(rows((2, "b", 1, "ours")))
    assert values(table) == {1: "theirs again", 2: "ours"}
    # A new key, which both insert into groups of their own.
    between.append(lambda: other.insert(rows((7, "new", 1, "theirs"))))
    with pytest.raises(CommitConflictError, match="keys that this write inserts"):
        table.upsert(rows((7, "new", 1, "ours")), options=ONCE)
    between.append(lambda: other.insert(rows((8, "new", 1, "theirs"))))
    table.upsert(rows((9, "new2", 1, "ours")))
    assert values(table)[8] == "theirs"
    # Columns that came in between must not go with this commit.
    evolve = WriteOptions(evolve=True)
    wide = rows((10, "w", 1, "theirs")).append_column("extra", pa.array([1]))
    between.append(lambda: other.upsert(wide, options=evolve))
    with pytest.raises(CommitConflictError, match="columns of the table changed"):
        table.upsert(rows((2, "b", 1, "ours")), options=ONCE)
    assert "extra" in table.schema.names
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stray_file_of_a_task_is_deleted(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that was run twice leaves a second file of one group and instant."""
    table = make(tmp_path / "t", version=version)
    write = file_writes.FileWrites.write

    def twice(self: Any, files: Any, advance: Any) -> Any:
        stats = write(self, files, advance)
        path = tmp_path / "t" / str(stats[0].path)
        shutil.copy(path, str(path).replace("_0-0-0_", "_0-0-1_"))
        return stats

    monkeypatch.setattr(file_writes.FileWrites, "write", twice)
    table.upsert(rows((1, "a", 1, "x"), (2, "b", 1, "x")))
    assert values(table) == {1: "x", 2: "x"}
    assert len(list((tmp_path / "t").rglob("*.parquet"))) == 2
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))


@pytest.mark.parametrize("verb", ["upsert", "insert", "delete", "insert_overwrite"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_write_that_dies_shows_nothing(
    tmp_path: Path, version: int, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(BaseException):
        """A stand-in for the death of the process."""

    table = make(tmp_path / "t", version=version)
    table.upsert(rows((1, "a", 1, "x"), (2, "b", 1, "x")))
    given = {"delete": [1], "insert": rows((5, "a", 1, "y"))}.get(verb, rows((1, "a", 1, "y")))

    def killed(*_: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(TimelineFolder, "complete", killed)
        with pytest.raises(KilledError):
            getattr(table, verb)(given)
    (pending,) = [one for one in table.timeline() if not one.is_completed]
    if verb != "delete":
        assert list((tmp_path / "t").rglob(f"*_{pending.time}.parquet"))
    assert values(table) == {1: "x", 2: "x"}
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))
    # The next write takes its files away.
    table.upsert(rows((3, "a", 1, "z")))
    assert values(table) == {1: "x", 2: "x", 3: "z"}
    assert not list((tmp_path / "t").rglob(f"*_{pending.time}.parquet"))
    assert all(one.is_completed for one in table.timeline())
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))


def test_a_metadata_table_is_refused_until_it_may_go(
    real_table: Callable[[str], Path], tmp_path: Path
) -> None:
    path = real_table("v9_txns_nonpart_meta")
    table = HudiTable.open(path)
    before = table.scan()
    one = before.slice(0, 1)
    with pytest.raises(FormatError, match=METADATA):
        table.upsert(one)
    options = WriteOptions(metadata="drop")
    table.upsert(one, dry_run=True, options=options)
    assert (path / ".hoodie" / "metadata").is_dir()
    table.upsert(one, options=options)
    assert not (path / ".hoodie" / "metadata").exists()
    assert table.options.metadata_partitions == ()
    assert_same_rows(table.scan(), other_scan(path))
    assert table.scan().num_rows == before.num_rows
    table.upsert(one)
    # Java's writer makes one again, also while we write.
    properties = properties_of(path)
    text = properties.read_text()
    properties.write_text(text + ADDED)
    with pytest.raises(FormatError, match=METADATA):
        table.upsert(one)


def test_a_metadata_table_that_comes_during_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path / "t")
    properties = properties_of(tmp_path / "t")
    text = properties.read_text()
    write = file_writes.FileWrites.write

    def slow(self: Any, files: Any, advance: Any) -> Any:
        properties.write_text(text + ADDED)
        return write(self, files, advance)

    with monkeypatch.context() as patched:
        patched.setattr(file_writes.FileWrites, "write", slow)
        with pytest.raises(FormatError, match=METADATA):
            table.upsert(rows((1, "a", 1, "x")))
    properties.write_text(text)
    assert table.scan().num_rows == 0
    assert not list((tmp_path / "t").rglob("*.parquet"))
    changed = text.replace("hive_style_partitioning=false", "hive_style_partitioning=true")
    with monkeypatch.context() as patched:
        patched.setattr(
            file_writes.FileWrites, "write",
            lambda self, *given: (properties.write_text(changed), write(self, *given))[1],
        )  # fmt: skip
        with pytest.raises(FormatError, match="hive_style_partitioning is True, but was False"):
            table.upsert(rows((1, "a", 1, "x")))


REAL = {
    "v6_nonpartitioned": ("id", 1, "name"),
    "v6_complexkeygen_hivestyle": ("id", 1, "doubleField"),
    "v9_txns_simple_nometa": ("txn_id", "TXN-001", "merchant_name"),
    "v9_txns_nonpart_meta": ("txn_id", "TXN-001", "merchant_name"),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", REAL)
def test_tables_of_apache_hudi_are_upserted(real_table: Callable[[str], Path], name: str) -> None:
    """Update, insert and delete by what a scan gives; both readers agree at every instant."""
    path = real_table(name)
    table = HudiTable.open(path)
    key, _, changed = REAL[name]
    stored = table.scan()
    earlier = {
        one.time: table.scan(as_of=one.time)
        for one in table.timeline()
        if one.is_completed and one.is_write
    }
    data = stored.select(stored.schema.names[5:])
    new_key = stored.schema.field(key).type == pa.string()
    update, insert = data.slice(0, 1), data.slice(1, 1)
    field = data.schema.get_field_index(changed)
    kind = data.schema.field(changed)
    value = pa.array(["changed" if kind.type == pa.string() else 7.5], kind.type)
    update = update.set_column(field, kind, value)
    fresh = pa.array(["TXN-ü" if new_key else 4711], data.schema.field(key).type)
    insert = insert.set_column(data.schema.get_field_index(key), data.schema.field(key), fresh)
    options = WriteOptions(metadata="drop")
    result = table.upsert(pa.concat_tables([update, insert]), options=options)
    assert (result.rows_updated, result.rows_inserted) == (1, 1)
    now = table.scan()
    assert now.num_rows == stored.num_rows + 1
    assert_same_rows(now, other_scan(path))
    names = [*table.options.record_key, *table.options.partition_by]
    gone = table.delete(data.slice(2, 1).select(names))
    assert gone.rows_deleted == 1
    assert_same_rows(table.scan(), other_scan(path))
    rest = {
        tuple(one.values()): one
        for one in table.scan(columns=["_hoodie_record_key", "_hoodie_partition_path"]).to_pylist()
    }
    assert len(rest) == stored.num_rows
    for time, rows_then in earlier.items():
        assert table.scan(as_of=time).equals(rows_then)
        assert_same_rows(rows_then, other_scan(path, time))
    check_files(path, {result.instant.time, gone.instant.time})
    added = table.upsert(
        update.append_column("added", pa.array([1], pa.int32())), options=WriteOptions(evolve=True)
    )
    assert_same_rows(table.scan(), other_scan(path))
    check_files(path, {added.instant.time})


def test_complex_keys_of_one_column_follow_the_table(tmp_path: Path) -> None:
    table = make(tmp_path / "t", partition_by=["day", "value"])
    table.insert(rows((1, "a", 1, "x")))
    assert table.scan()["_hoodie_record_key"].to_pylist() == ["id:1"]
    table.upsert(rows((1, "a", 2, "x")))
    assert table.scan(columns=["ts"])["ts"].to_pylist() == [2]
    # Another version of Hudi writes the value alone.
    table = make(tmp_path / "other", partition_by=["day", "value"])
    table.insert(rows((1, "a", 1, "x")))
    (file,) = [one.current for one in table.file_groups()]
    path = tmp_path / "other" / file.path
    old = pq.read_table(path, partitioning=None).replace_schema_metadata()
    pq.write_table(old.set_column(2, "_hoodie_record_key", pa.array(["1"])), path)
    table.upsert(rows((1, "a", 3, "x"), (2, "a", 3, "x")))
    assert table.scan()["_hoodie_record_key"].to_pylist() == ["1", "2"]


def test_writers_need_a_lock(tmp_path: Path) -> None:
    make(tmp_path / "t")
    location: Location = Remote(tmp_path, "hdfs").location("t")
    with pytest.raises(FormatError, match="tables cannot be locked here"):
        HudiTable.open(location).upsert(rows((1, "a", 1, "x")))


def test_many_files_are_written_at_once(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    options = WriteOptions(threads=4)
    many = rows(*((at, f"p{at % 20}", 1, "x") for at in range(200)))
    table.upsert(many, options=options)
    table.upsert(many.slice(50), options=options)
    assert table.scan().num_rows == 200
    assert check_files(tmp_path / "t") == 40
    # One that fails ends the write, and takes the others' files away.
    victim = table.file_groups()[7].current.path
    (tmp_path / "t" / victim).write_bytes(b"PAR1damagedPAR1")
    with pytest.raises(CorruptionError, match="footer"):
        table.upsert(many, options=options)
    assert len(list((tmp_path / "t").rglob("*.parquet"))) == 40


@pytest.mark.parametrize("version", VERSIONS)
def test_files_whose_columns_have_codecs_of_their_own(tmp_path: Path, version: int) -> None:
    """Enough random rows that some columns are not compressed: the other reader reads all."""
    random = np.random.default_rng(version)
    count = 4000
    ids = random.permutation(2 * count)[:count].astype(np.int32)

    def some(ids: Any) -> pa.Table:
        size = len(ids)
        columns = [ids, np.array(["mo"] * size), random.random(size), random.random(size)]
        return pa.table(columns, SCHEMA.names).cast(SCHEMA)

    table = make(tmp_path / "t", version=version)
    first, more = some(ids), some(random.permutation(2 * count)[:count].astype(np.int32))
    table.bulk_insert(first)
    table.upsert(more)
    expected = {row["id"]: row for row in (*first.to_pylist(), *more.to_pylist())}
    found = table.scan()
    assert {row["id"]: row for row in found.select(SCHEMA.names).to_pylist()} == expected
    assert_same_rows(found, other_scan(tmp_path / "t"))
    group = pq.read_metadata(tmp_path / "t" / table.file_groups()[0].current.path).row_group(0)
    codecs = {group.column(at).compression for at in range(group.num_columns)}
    assert codecs == {"SNAPPY", "UNCOMPRESSED"}
