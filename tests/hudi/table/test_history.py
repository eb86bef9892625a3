"""`HudiTable.history`: what it says of instants, against results, raw files, and the archive."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from support.hudi import java
from support.hudi.small_tables import SmallTable, row
from support.hudi.versions import VERSIONS

from lookupstore.errors import CorruptionError
from lookupstore.hudi import HudiTable, WriteOptions, WriteResult
from lookupstore.hudi.services import archiver
from lookupstore.hudi.timeline.timeline import TimelineFolder
from lookupstore.hudi.write.partitioner import FileSizing

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string(), "value": pa.int64()})
COUNTS = ["rows_inserted", "rows_updated", "rows_deleted", "rows_written", "files_new",
          "files_rewritten", "files_replaced", "bytes_written"]  # fmt: skip
SMALL = WriteOptions(sizing=FileSizing(small_file_limit=0, split_size=10, auto_split=False))


def make(path: Path, version: int) -> HudiTable:
    return HudiTable.create(path, SCHEMA, record_key="id", partition_by="p", version=version)


def drawn(chance: random.Random, most: int = 40) -> pa.Table:
    count = chance.randrange(1, most)
    ids = chance.sample(range(60), count)
    values = [chance.randrange(9)] * count
    return pa.table({"id": ids, "p": [f"p{one % 3}" for one in ids], "value": values}, SCHEMA)


def listed(table: HudiTable, limit: int | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.history(limit).to_pylist()
    return found


def done(result: WriteResult) -> dict[str, Any]:
    """Return what a history has to say of a write."""
    assert result.instant is not None
    said = {name: getattr(result, name) for name in COUNTS}
    said |= {name: len(said[name]) for name in ("files_rewritten", "files_replaced")}
    return {"instant": result.instant.time, "completed": result.instant.completed,
            "action": result.instant.action, "operation": result.operation, **said}  # fmt: skip


def without(rows: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [{name: one[name] for name in one if name not in names} for one in rows]


@pytest.mark.parametrize("version", VERSIONS)
def test_random_histories(tmp_path: Path, version: int, seed: int) -> None:
    """Each write is told as its result tells it, also when it is archived."""
    chance = random.Random(seed)
    table = make(tmp_path / "t", version)
    writes: list[dict[str, Any]] = []
    writes.append(done(table.insert(drawn(chance), options=SMALL)))
    for _ in range(12):
        verb: Callable[..., WriteResult] = chance.choice(
            [
                table.upsert,
                table.insert,
                table.bulk_insert,
                table.delete,
                table.insert_overwrite,
                table.insert_overwrite_table,
            ]
        )
        writes.append(done(verb(drawn(chance), options=SMALL)))
        partitions = {one.id.partition for one in table.file_groups()}
        if partitions and chance.random() < 0.2:
            writes.append(done(table.delete_partition(min(partitions))))
        if chance.random() < 0.2:
            table.clean(retain_commits=2)
    before = listed(table)
    told = [{name: one[name] for name in writes[0]} for one in before if one["operation"]]
    assert told == writes[::-1]
    assert {one["action"] for one in before if not one["operation"]} <= {"clean"}
    assert {one["archived"] for one in before} == {False}
    for limit in (0, 1, 5, 100):
        assert listed(table, limit) == before[:limit]
    table.clean(retain_commits=1)
    assert table.archive(min_commits=3, max_commits=3).instants
    names = ("archived", *(["completed"] if version == 6 else []))
    after = listed(table)
    times = {one.time for one in table.timeline()}
    assert [one["archived"] for one in after] == [one["instant"] not in times for one in after]
    cleans = len(after) - len(before)
    assert without(after, *names)[cleans:] == without(before, *names)
    for limit in (0, 2, 4, len(after) - 2, len(after)):
        assert listed(table, limit) == after[:limit]


def raw(path: Path, name: str, version: int) -> dict[str, Any]:
    """Return what a commit's file holds, by none of our readers."""
    content = (java.timeline_of(path) / name).read_bytes()
    if version == 6:
        found: dict[str, Any] = json.loads(content)
        return found
    (record,) = fastavro.reader(io.BytesIO(content))
    assert isinstance(record, dict)
    return record


@pytest.mark.parametrize(
    "name", ["v6_complexkeygen_hivestyle", "v8_nonpartitioned", "v9_txns_complex_meta"]
)
def test_tables_of_apache_hudi(real_table: Callable[[str], Path], name: str) -> None:
    path = real_table(name)
    table = HudiTable.open(path)
    instants = {one.time: one for one in table.timeline()}
    found = [one for one in listed(table) if one["action"] in ("commit", "replacecommit")]
    assert len(found) > 1
    for one in found:
        said = raw(path, instants[one["instant"]].file_name, table.options.version)
        stats = [stat for many in said["partitionToWriteStats"].values() for stat in many]
        assert one["operation"] == said["operationType"]
        inserts = sum(stat["numInserts"] for stat in stats)
        assert one["rows_inserted"] == (0 if one["operation"] == "CLUSTER" else inserts)
        assert one["rows_updated"] == sum(stat["numUpdateWrites"] for stat in stats)
        assert one["rows_deleted"] == sum(stat["numDeletes"] for stat in stats)
        assert one["bytes_written"] == sum(stat["totalWriteBytes"] for stat in stats)
        assert one["files_new"] == sum(stat["prevCommit"] == "null" for stat in stats)
        assert one["files_rewritten"] == len(stats) - one["files_new"]
        assert one["partitions"] >= len({stat["partitionPath"] for stat in stats})
        assert one["writer"] is None


@pytest.mark.parametrize("version", VERSIONS)
def test_other_actions(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", version)
    first = table.insert(pa.table({"id": [1, 2], "p": ["a", "b"], "value": [1, 2]}))
    assert first.instant is not None
    table.savepoint()
    second = table.upsert(pa.table({"id": [1], "p": ["a"], "value": [5]}))
    assert second.instant is not None
    table.cluster("value", curve="linear")
    found = listed(table)
    clustering, upsert, savepoint, insert = found
    assert [one["instant"] for one in (insert, upsert)] == [
        first.instant.time, second.instant.time,
    ]  # fmt: skip
    assert (savepoint["action"], savepoint["instant"]) == ("savepoint", first.instant.time)
    # Rows that lie elsewhere are not new.
    assert (clustering["operation"], clustering["action"]) == ("CLUSTER", "replacecommit")
    assert (clustering["rows_inserted"], clustering["rows_written"]) == (0, 2)
    assert (clustering["files_new"], clustering["files_replaced"]) == (2, 2)
    assert [one["partitions"] for one in found] == [2, 1, None, 2]
    assert savepoint["rows_inserted"] is savepoint["operation"] is savepoint["writer"] is None
    assert upsert["writer"] == insert["writer"] != ""
    assert {one["state"] for one in found} == {"completed"}
    # What incremental reads and time travel take.
    assert table.incremental(insert["completed"] or insert["instant"]).num_rows == 1
    assert table.scan(as_of=insert["instant"])["value"].to_pylist() == [1, 2]
    table.delete_partition(["a"])
    gone = listed(table, 1)[0]
    assert (gone["operation"], gone["partitions"], gone["files_replaced"]) == (
        "DELETE_PARTITION", 1, 1,
    )  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_pending_comes_first(tmp_path: Path, version: int) -> None:
    small = SmallTable(tmp_path / "t", version)
    small.commit("a-0", [row(1, "x")])
    pending = small.begin()
    last = small.commit("a-0", [row(1, "y")])
    small.commit("b-0", [row(2, "y")])
    found = listed(small.table)
    assert [one["instant"] for one in found][:2] == [pending.time, found[1]["instant"]]
    assert (found[0]["state"], found[0]["completed"]) == ("inflight", None)
    assert found[0]["operation"] is found[0]["rows_written"] is None
    assert found[2]["instant"] == last.time
    assert listed(small.table, 1) == found[:1]


@pytest.mark.parametrize("version", VERSIONS)
def test_who_ends_last_is_the_newest(tmp_path: Path, version: int) -> None:
    small = SmallTable(tmp_path / "t", version)
    slow = small.begin()
    quick = small.commit("a-0", [row(1, "x")])
    stat = small.write(slow.time, "b-0", [row(2, "x")])
    small.finish(slow, [stat])
    times = [slow.time, quick.time]
    # What version 6 has no name for, no reader can go by.
    assert [one["instant"] for one in listed(small.table)] == times[:: -1 if version == 6 else 1]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_archived_by_a_writer_that_died(tmp_path: Path, version: int) -> None:
    """Instants that are in the archive, and still in the timeline, are told once."""
    table = make(tmp_path / "t", version)
    for number in range(4):
        table.upsert(pa.table({"id": [number], "p": ["a"], "value": [1]}))
    before = listed(table)
    folder = java.timeline_of(tmp_path / "t")
    files = {one: one.read_bytes() for one in folder.iterdir() if one.is_file()}
    table.archive(min_commits=1, max_commits=1)
    assert sum(one["archived"] for one in listed(table)) == 3
    for path, content in files.items():
        path.write_bytes(content)
    assert listed(table) == before


def test_limits(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 9)
    assert table.history().num_rows == 0
    assert table.history().schema == table.history(0).schema
    with pytest.raises(ValueError, match="limit is -1; give"):
        table.history(-1)


@pytest.mark.parametrize("version", VERSIONS)
def test_damage_is_named(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", version)
    for number in range(3):
        result = table.upsert(pa.table({"id": [number], "p": ["a"], "value": [1]}))
    folder = TimelineFolder(table.location, table.options.timeline, version)
    assert result.instant is not None
    path = Path(folder.path(result.instant))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(CorruptionError) as caught:
        HudiTable.open(tmp_path / "t").history()
    assert caught.value.path == str(path)
    path.write_bytes(content)
    table.archive(min_commits=1, max_commits=1)
    archive = tmp_path / "t" / ".hoodie" / ("archived" if version == 6 else "timeline/history")
    (file,) = [
        one for one in archive.iterdir() if one.suffix == ".parquet" or ".archive." in one.name
    ]
    file.write_bytes(file.read_bytes()[:-30])
    # The newest is in the timeline: nobody asks for more.
    assert table.history(1).num_rows == 1
    with pytest.raises(CorruptionError) as caught:
        table.history(2)
    assert caught.value.path == str(file)


@pytest.mark.parametrize("version", VERSIONS)
def test_cleans_that_are_archived_before_older_commits(tmp_path: Path, version: int) -> None:
    """Java counts cleans for themselves: the newest rows may be in the archive, then."""
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id", version=version)
    for value in range(6):
        table.upsert(pa.table({"id": [1], "p": ["p"], "value": [value]}, SCHEMA))
        table.clean(retain_commits=1)
    view = table.view()
    old = [one for one in view.timeline if one.action == "clean"][:3]
    for batch in archiver._batches(view, old):
        view.archive.add(batch, lambda: None)
    for one in old:
        for path in (tmp_path / "t" / ".hoodie").rglob(f"{one.time}*clean*"):
            if not {"archived", "history"} & set(path.parts):
                path.unlink()
    full = listed(table)
    assert sum(one["archived"] for one in full) == 3
    for limit in range(len(full) + 2):
        assert listed(table, limit) == full[:limit]
