"""Clustering: the same rows, meta columns included, in new files, as both readers see them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.hudi.kills import base_files, leftovers
from support.hudi.metadata import MAINTAIN, REDUCE, check_listed
from support.hudi.oracle import assert_same_rows, other, other_incremental, other_scan
from support.hudi.small_tables import SmallTable, row
from support.hudi.versions import VERSIONS
from support.hudi.written import check_files

from lookupstore.errors import CommitConflictError, CorruptionError
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.clustering import ClusterResult
from lookupstore.hudi.clustering.rewrite import Rewrite
from lookupstore.hudi.layout.sample import Sample
from lookupstore.hudi.layout.statistics.versions import KeptColumns, kept_columns
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.hudi.options import SORT_COLUMNS
from lookupstore.hudi.services import TableServices
from lookupstore.hudi.timeline.avro_file import read_record
from lookupstore.hudi.timeline.plans import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    RequestedReplace,
    plan_bytes,
)
from lookupstore.hudi.timeline.timeline import CLUSTERING, State
from lookupstore.hudi.write.partitioner import FileSizing
from lookupstore.hudi.write.transaction import Transaction

pytestmark = pytest.mark.drawn(0.4)

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string(), "a": pa.int32(), "s": pa.string()})
SMALL = WriteOptions(sizing=FileSizing(max_file_size=10_000, small_file_limit=0))
BEGINNING = "20000101000000000"
NAME = META_COLUMNS[4]
Real = Callable[[str], Path]


def some(ids: range, chance: random.Random) -> pa.Table:
    return pa.table(
        {
            "id": list(ids),
            "p": [f"p{at % 3}" for at in ids],
            "a": [chance.choice([None, chance.randint(-50, 50)]) for _ in ids],
            "s": [chance.choice(["", "x", "ü" * 30, str(chance.random())]) for _ in ids],
        },
        schema=SCHEMA,
    )


def made(path: Path, version: int = 9, *, partitioned: bool = True, seed: int = 0) -> HudiTable:
    """Make a table of several files, some of whose rows were changed, deleted, or are of others."""
    chance = random.Random(seed)
    table = HudiTable.create(
        path,
        SCHEMA,
        record_key="id",
        partition_by=["p"] if partitioned else [],
        version=version,
        name="t",
    )
    for at in range(3):
        table.bulk_insert(some(range(at * 500, at * 500 + 500), chance), options=SMALL)
    table.upsert(some(range(400, 600), chance), options=SMALL)
    table.delete(list(range(100, 110)), options=SMALL)
    return table


def clustered(table: HudiTable, **arguments: Any) -> ClusterResult:
    given = {"curve": "linear", "target_file_size": 20_000, **arguments}
    return table.cluster(given.pop("by", ["a", "id"]), **given)


def without_files(rows: pa.Table) -> list[dict[str, Any]]:
    """Return all that rows say of themselves, in one order."""
    return rows.drop_columns([NAME]).sort_by(META_COLUMNS[1]).to_pylist()


def commits(table: HudiTable) -> list[str]:
    return [one.time for one in table.timeline() if one.is_completed and one.is_write]


@pytest.mark.few(2)
@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_changes_but_where_rows_are(
    tmp_path: Path, version: int, partitioned: bool, seed: int
) -> None:
    path = tmp_path / "t"
    table = made(path, version, partitioned=partitioned, seed=seed)
    times = commits(table)
    before = {time: table.scan(as_of=time) for time in times}
    positions = [one.position for one in table.timeline() if one.is_completed and one.is_write]
    changed = {at: table.incremental(at) for at in [BEGINNING, *positions]}
    files = len(table.file_groups())
    tried = clustered(table, dry_run=True)
    result = clustered(table, options=WriteOptions(memory=1 << 16, threads=2))
    assert (tried.instant, tried.rows, tried.files_before) == (None, 1490, files)
    assert (result.rows, result.files_before) == (1490, files)
    assert result.partitions == tried.partitions == (3 if partitioned else 1)
    assert result.files_after == len(table.file_groups())
    assert abs(result.files_after - tried.files_after) <= result.partitions
    assert result.bytes_spilled > 0
    assert result.instant is not None
    assert set(result.seconds) == {"plan", "sample", "sort", "write", "commit"}

    now = table.scan()
    assert without_files(now) == without_files(before[times[-1]])
    theirs = other(path)
    assert_same_rows(now, other_scan(theirs))
    for time, rows in before.items():
        assert table.scan(as_of=time).sort_by(META_COLUMNS[1]) == rows.sort_by(META_COLUMNS[1])
        assert_same_rows(table.scan(as_of=time), other_scan(theirs, time))
    # Nothing is news: neither what came with it, nor what came before, twice.
    for at, rows in changed.items():
        assert without_files(table.incremental(at)) == without_files(rows)
        assert_same_rows(table.incremental(at), other_incremental(theirs, at))
    assert table.incremental(positions[-1]).num_rows == 0
    check_files(path)
    assert table.verify().findings == ()
    assert leftovers(path) == []
    # What comes next, comes as ever.
    table.upsert(some(range(300, 700), random.Random(seed)))
    table.delete([0, 1499])
    assert_same_rows(table.scan(), other_scan(path))
    assert table.scan().num_rows == 1488
    check_files(path)


def key(rows: pa.Table, at: int) -> tuple[Any, ...]:
    a, number = rows["a"][at].as_py(), rows["id"][at].as_py()
    return (a is not None, a, number) if a is not None else (False, number)


def test_files_are_in_order_and_of_one_size(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = made(path, partitioned=False)
    clustered(table, options=WriteOptions(memory=1 << 16, threads=2))
    parts = []
    sizes = []
    for group in table.file_groups():
        rows = pq.read_table(path / group.current.path)
        keys = [key(rows, at) for at in range(len(rows))]
        assert keys == sorted(keys)
        parts.append((keys[0], keys[-1]))
        sizes.append(len(rows))
    parts.sort()
    assert all(one[1] < other[0] for one, other in pairwise(parts))
    assert len(sizes) > 2
    assert max(sizes) < 1.5 * min(sizes)


def test_a_value_of_many_files(tmp_path: Path) -> None:
    """Its rows have no order, and files of the size that was asked for nevertheless."""
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id", name="t")
    count = 4000
    rows = some(range(count), random.Random(1))
    same = np.where(np.arange(count) % 8 == 0, np.arange(count) % 100, 7)
    rows = rows.set_column(2, "a", pa.array(same, pa.int32()))
    table.bulk_insert(rows)
    result = clustered(table, by="a", options=WriteOptions(memory=1 << 16))
    assert result.files_after > 5
    now = sorted(group.current.bytes for group in table.file_groups())
    assert now[-1] < 3 * now[0]
    assert sorted(table.scan()["id"].to_pylist()) == list(range(count))


def test_rows_of_files_are_even(tmp_path: Path) -> None:
    table = made(tmp_path / "t", partitioned=False)
    result = clustered(table, by="p", target_file_size=8000)
    counts = [
        pq.read_metadata(tmp_path / "t" / group.current.path).num_rows
        for group in table.file_groups()
    ]
    assert len(counts) == result.files_after > 5
    assert max(counts) <= 1.5 * min(counts)


@pytest.mark.parametrize("version", VERSIONS)
def test_its_files_in_the_timeline(tmp_path: Path, version: int, real_table: Real) -> None:
    table = made(tmp_path / "t", version)
    before = {group.id: group.current for group in table.file_groups()}
    instant = clustered(table).instant
    assert instant is not None
    folder = tmp_path / "t" / table.options.timeline
    names = sorted(one.name for one in folder.iterdir() if one.name.startswith(instant.time))
    action = "replacecommit" if version == 6 else "clustering"
    done = instant.time if version == 6 else f"{instant.time}_{instant.completed}"
    assert names == sorted(
        [f"{instant.time}.{action}.requested", f"{instant.time}.{action}.inflight",
         f"{done}.replacecommit"]
    )  # fmt: skip
    assert (folder / f"{instant.time}.{action}.inflight").read_bytes() == b""

    # As one of Java's says it, but for names, numbers, and the columns to sort by.
    def shape(record: Any) -> Any:
        if isinstance(record, dict):
            return {name: shape(value) for name, value in record.items()}
        if isinstance(record, list):
            return [shape(record[0])] if record else []
        return type(record).__name__ if isinstance(record, (str, float)) else record

    (theirs,) = real_table("v9_txns_simple_nometa").rglob("*.clustering.requested")
    schema = "HoodieRequestedReplaceMetadata"
    ours = read_record((folder / f"{instant.time}.{action}.requested").read_bytes(), "", schema)
    java = read_record(theirs.read_bytes(), "", schema)
    strategy = ours["clusteringPlan"]["strategy"]
    assert strategy["strategyClassName"] == java["clusteringPlan"]["strategy"]["strategyClassName"]
    assert strategy["strategyParams"] == {SORT_COLUMNS: "a,id"}
    strategy["strategyParams"] = {}
    for group in (*ours["clusteringPlan"]["inputGroups"], *java["clusteringPlan"]["inputGroups"]):
        assert group.pop("numOutputFileGroups") >= 1
    assert shape(ours) == shape(java)
    planned = [one for group in ours["clusteringPlan"]["inputGroups"] for one in group["slices"]]
    assert {(one["partitionPath"], one["fileId"]) for one in planned} == set(before)
    assert {one["dataFilePath"] for one in planned} == {
        table.location.full(one.path) for one in before.values()
    }
    commit = table.view().commit(instant)
    assert commit.operation == "CLUSTER"
    assert commit.schema == table.view().table_schema.avro
    replaced = {(path, one) for path, ids in (commit.replaced or {}).items() for one in ids}
    assert replaced == set(before)


def test_only_some_files(tmp_path: Path) -> None:
    table = made(tmp_path / "t")

    def groups(path: str) -> set[str]:
        return {one.id.file_id for one in table.file_groups() if one.id.partition == path}

    before = {path: groups(path) for path in ("p0", "p1", "p2")}
    result = clustered(table, partitions="p1")
    assert (result.partitions, result.files_before) == (1, len(before["p1"]))
    assert result.files_unchanged == len(before["p0"]) + len(before["p2"])
    assert (groups("p0"), groups("p2")) == (before["p0"], before["p2"])
    assert not groups("p1") & before["p1"]
    result = clustered(table, where=pc.field("p") > "p1")
    assert result.partitions == 1
    assert groups("p0") == before["p0"]
    assert not groups("p2") & before["p2"]
    assert clustered(table, where=pc.field("p") > "p5").instant is None
    before = {path: groups(path) for path in ("p0", "p1", "p2")}
    for number, where in enumerate(("p >= 'p1'", ("p", ">=", "p1"), pc.field("p") >= "p1")):
        # By other columns each time: what is in order stays.
        again = {"by": ["a", "id", "s"][number], "where": where, "partitions": ["p0", "p2"]}
        assert clustered(table, **again).partitions == 1
        assert (groups("p0"), groups("p1")) == (before["p0"], before["p1"])
        assert groups("p2") != before["p2"]
    # Only those that are small enough; of each partition, what is new since the last time.
    size = min(one.current.bytes for one in table.file_groups() if one.id.partition == "p0")
    assert clustered(table, small_file_limit=size, dry_run=True).files_before == 0
    assert clustered(table, small_file_limit=size + 1).files_before == 1


def test_by_value_it_is_no_grid(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    size = 20_000
    first = table.cluster(["a", "id"], mapping="value", target_file_size=size)
    assert first.partitions == 3
    # That is what it was.
    again = table.cluster(["a", "id"], curve="hilbert", mapping="value", target_file_size=size)
    assert again.instant is None


def test_what_is_in_order_stays(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    assert clustered(table).partitions == 3
    again = clustered(table)
    assert (again.instant, again.files_before) == (None, 0)
    assert again.files_unchanged == len(table.file_groups())
    table.upsert(table.scan(filter=pc.field("p") == "p1").slice(0, 1))
    assert clustered(table).partitions == 1
    # Another choice is another clustering.
    assert clustered(table, by="s").partitions == 3
    assert clustered(table, by="s", target_file_size=9000).partitions == 3


def test_an_empty_table(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id", name="t")
    assert clustered(table).instant is None
    assert table.timeline() == []
    table.insert(some(range(3), random.Random(1)))
    table.delete([0, 1, 2])
    result = clustered(table)
    assert (result.rows, result.files_before, result.files_after) == (0, 1, 0)
    assert table.scan().num_rows == 0
    assert other_scan(tmp_path / "t") is None
    table.insert(some(range(3), random.Random(1)))
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"by": "b"}, KeyError, r"no column 'b'; it has 'id', 'p', 'a', 's'"),
        ({"by": []}, ValueError, "give the columns"),
        ({"by": 5}, TypeError, "by is 5; give names of columns"),
        ({"by": None}, TypeError, "by is None; give names of columns"),
        ({"by": [5]}, TypeError, r"by is \[5\]; give names of columns"),
        ({"by": ["a", "a"]}, ValueError, "each once"),
        ({"by": "a", "curve": "peano"}, ValueError, "curve is 'peano'; give one of 'grid', "),
        ({"by": "a", "mapping": "rank"}, ValueError, "mapping is 'rank'; give one of 'sample'"),
        ({"by": "a", "curve": "grid", "mapping": "value"}, ValueError, "a grid is cut by sample"),
        ({"by": list("abcdefghi"), "curve": "zorder"}, ValueError, "9 columns; give at most 8"),
        ({"by": "a", "target_file_size": 0}, ValueError, "target_file_size"),
        ({"by": "a", "small_file_limit": "x"}, ValueError, "small_file_limit"),
        ({"by": "a", "partitions": "p9"}, KeyError, r"no partition 'p9'; it has 'p0'"),
        ({"by": "a", "where": pc.field("a") > 1}, ValueError, "filter on '_hoodie_part.*'p'"),
        ({"by": "a", "where": "a > 1"}, ValueError, "^where: 'a' is not a partition column.*'p'"),
        ({"by": "a", "where": "nope = 1"}, ValueError, "^where: nope is no column; .* on .*'p'$"),
        ({"by": "a", "where": ("no", "=", 1)}, ValueError, "^where: 'no' is no column, .*'p'$"),
        ({"by": "a", "where": 5}, ValueError, "^where: 5 is no filter"),
        ({"by": "a", "where": "p = 'p0'", "partitions": "p9"}, KeyError, "no partition 'p9'"),
    ],
)
def test_what_is_asked_for_wrongly(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception], says: str
) -> None:
    table = made(tmp_path / "t")
    before = table.timeline()
    with pytest.raises(error, match=says):
        clustered(table, **arguments)
    assert table.timeline() == before


def test_a_column_without_an_order(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "many": pa.list_(pa.int64())})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id", name="t")
    table.insert(pa.table({"id": [1], "many": [[1]]}, schema=schema))
    before = table.timeline()
    with pytest.raises(TypeError, match="many"):
        clustered(table, by="many")
    with pytest.raises(TypeError, match="many"):
        table.cluster("many", dry_run=True)
    assert table.timeline() == before
    assert leftovers(tmp_path / "t") == []
    assert table.scan().num_rows == 1


@pytest.mark.parametrize("name", ["v6_nonpartitioned", "v8_nonpartitioned"])
def test_tables_of_java(real_table: Real, name: str) -> None:
    path = real_table(name)
    table = HudiTable.open(path)
    before = table.scan()
    assert table.cluster("name", curve="linear").rows == before.num_rows
    assert without_files(table.scan()) == without_files(before)
    assert_same_rows(table.scan(), other_scan(path))
    assert table.scan()["name"].to_pylist() == sorted(before["name"].to_pylist())


@pytest.mark.parametrize("name", ["v9_txns_nonpart_meta", "v9_txns_complex_meta"])
def test_a_metadata_table_knows_the_files(real_table: Real, name: str) -> None:
    path = real_table(name)
    table = HudiTable.open(path)
    before = table.scan()
    table.cluster(["amount", "txn_id"], curve="linear", options=REDUCE)
    assert without_files(check_listed(path)) == without_files(before)
    table.upsert(before.slice(0, 2), options=MAINTAIN)
    table.cluster("txn_id", curve="linear", options=MAINTAIN)
    check_listed(path)
    table.rollback(commits(table)[-1], metadata="maintain")
    check_listed(path)
    table.cluster("txn_id", curve="linear", options=MAINTAIN)
    table.clean(retain_versions=1, metadata="maintain")
    assert without_files(check_listed(path))[0].keys() == without_files(before)[0].keys()


# Others at work.


class Meanwhile:
    """What others do while a clustering has its plan, and is writing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
        real = Rewrite.write
        self.done = 0

        def write(rewrite: Rewrite, plan: Any) -> Any:
            if not self.done:
                self.done += 1
                act()
            return real(rewrite, plan)

        monkeypatch.setattr(Rewrite, "write", write)


@pytest.mark.parametrize("version", VERSIONS)
def test_writers_while_it_is_pending(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    table = made(path, version)
    before = without_files(table.scan())
    chance = random.Random(5)

    def others() -> None:
        mine = HudiTable.open(path)
        pending = [one for one in mine.timeline() if not one.is_completed]
        assert [one.state for one in pending] == [State.INFLIGHT]
        files = base_files(path)
        for refused in (
            lambda: mine.upsert(some(range(3), chance)),
            lambda: mine.delete([1]),
            lambda: mine.insert_overwrite(some(range(3), chance)),
            lambda: mine.delete_partition("p0"),
            lambda: clustered(mine),
        ):
            with pytest.raises(CommitConflictError, match="wait until the clustering is") as error:
                refused()
            assert error.value.instant == pending[0].time
        # Nothing was written that would have been for nothing, and had to be taken back.
        assert base_files(path) == files
        assert all(one.action != "rollback" for one in mine.timeline())
        # There are small files, none of which may grow.
        assert mine.insert(some(range(5000, 5003), chance)).files_new == 3
        mine.upsert(some(range(6000, 6003), chance))
        assert_same_rows(mine.scan(), other_scan(path))

    meanwhile = Meanwhile(monkeypatch, others)
    result = clustered(table)
    assert meanwhile.done == 1
    now = table.scan()
    assert now.num_rows == len(before) + 6
    old = now.filter(pc.less(now["id"], 5000))
    assert without_files(old) == before
    assert_same_rows(now, other_scan(path))
    assert table.verify().findings == ()
    check_files(path)
    assert result.rows == len(before)
    table.upsert(some(range(3), chance))


def test_a_write_that_began_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It found its rows in file groups that are gone when it is about to commit."""
    path = tmp_path / "t"
    table = made(path)
    before = without_files(table.scan())
    real = Transaction.complete
    tried: list[ClusterResult] = []

    def complete(transaction: Transaction, *arguments: Any) -> Any:
        if transaction.operation == "UPSERT" and not tried:
            tried.append(clustered(HudiTable.open(path)))
        return real(transaction, *arguments)

    monkeypatch.setattr(Transaction, "complete", complete)
    with pytest.raises(CommitConflictError, match="changed file groups that this write replaces"):
        table.upsert(some(range(3), random.Random(5)), options=WriteOptions(retries=0))
    assert without_files(table.scan()) == before
    table.upsert(some(range(3), random.Random(5)))
    assert_same_rows(table.scan(), other_scan(path))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_writer_that_does_not_look(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it committed is not lost: the clustering is, and leaves nothing."""
    small = SmallTable(tmp_path / "t", version)
    for at in range(3):
        small.commit(f"a{at}-0", [row(at, "old")])
    table = HudiTable.open(tmp_path / "t")
    files: list[str] = []

    def commit() -> None:
        small.commit("a1-0", [row(1, "new")])
        files.extend(base_files(tmp_path / "t"))

    Meanwhile(monkeypatch, commit)
    with pytest.raises(CommitConflictError, match="changed file groups"):
        clustered(table, by="value")
    assert base_files(tmp_path / "t") == files
    assert leftovers(tmp_path / "t") == []
    assert small.values() == {0: "old", 1: "new", 2: "old"}
    clustered(table, by="value")
    assert small.values() == {0: "old", 1: "new", 2: "old"}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plan_of_another_program(tmp_path: Path, version: int) -> None:
    """Nobody but its caller knows whether that one is dead."""
    small = SmallTable(tmp_path / "t", version)
    small.commit("a-0", [row(1, "old")])
    small.commit("b-0", [row(2, "old")])
    group = ClusteringGroup((ClusteringSlice("file:///x.parquet", "a-0", ""),), 1)
    plan = RequestedReplace("CLUSTER", ClusteringPlan((group,), None), {}, 1)
    action = "replacecommit" if version == 6 else CLUSTERING
    pending = small.folder.start(small.folder.request(action, plan_bytes(plan)))
    table = HudiTable.open(tmp_path / "t")
    table.rollback()
    for refused in (
        lambda: table.delete([1]),
        lambda: clustered(table, by="id"),
    ):
        with pytest.raises(CommitConflictError, match=rf"rollback\('{pending.time}'\) ends it"):
            refused()
    table.delete([2])
    assert [one.time for one in table.timeline() if not one.is_completed] == [pending.time]
    table.rollback(pending.time)
    assert clustered(table, by="id").files_before == 2
    assert small.values() == {1: "old"}


def test_it_fails_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t")
    files, before = base_files(tmp_path / "t"), table.scan()
    real = Rewrite._write_files
    written = iter(range(100))

    def broken(*arguments: Any) -> Any:
        if next(written) == 3:
            raise RuntimeError("stopped")
        return real(*arguments)

    monkeypatch.setattr(Rewrite, "_write_files", broken)
    with pytest.raises(RuntimeError, match="stopped"):
        clustered(table, target_file_size=5000, options=WriteOptions(threads=3))
    assert base_files(tmp_path / "t") == files
    assert leftovers(tmp_path / "t") == []
    assert table.scan() == before
    assert_same_rows(before, other_scan(tmp_path / "t"))


def test_a_file_that_does_not_have_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path / "t")
    before = table.scan()
    real = Rewrite._read

    def short(*arguments: Any) -> Iterator[pa.RecordBatch]:
        batches = real(*arguments)
        next(batches)
        return batches

    monkeypatch.setattr(Rewrite, "_read", short)
    with pytest.raises(CorruptionError, match="rows, as footers say"):
        clustered(table)
    assert table.scan() == before


# What follows.


@pytest.mark.parametrize("version", VERSIONS)
def test_services_after_it(tmp_path: Path, version: int) -> None:
    path = tmp_path / "t"
    table = made(path, version)
    before = table.scan()
    saved = commits(table)[-1]
    table.savepoint(saved, user="me")
    clustered(table)
    table.upsert(some(range(10), random.Random(1)))
    # A savepoint keeps the files that were replaced.
    assert table.clean(retain_commits=1)
    assert table.scan(as_of=saved).equals(before)
    assert_same_rows(table.scan(), other_scan(path))
    table.restore(saved)
    assert table.scan().equals(before)
    assert_same_rows(table.scan(), other_scan(path))
    assert table.verify().findings == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_it_is_archived_when_what_it_replaced_is_gone(tmp_path: Path, version: int) -> None:
    path = tmp_path / "t"
    table = made(path, version)
    clustered(table)
    rows = without_files(table.scan())
    # Not before the replaced files are gone: both old and new rows would be there.
    table.upsert(some(range(0), random.Random(1)))
    archived = table.archive(min_commits=1, max_commits=1)
    assert "replaced files that are there: clean first" in str(archived.kept_by)
    assert without_files(table.scan()) == rows
    table.clean(retain_commits=1)
    archived = table.archive(min_commits=1, max_commits=1)
    assert "replacecommit" in [one.action for one in archived.instants]
    assert without_files(table.scan()) == rows
    assert_same_rows(table.scan(), other_scan(path))
    assert len(base_files(path)) == len(table.file_groups())
    assert table.verify().findings == ()
    # What the archive has is not asked for.
    clustered(table, by="s")
    assert without_files(table.scan()) == rows


def test_a_sample_is_of_all_rows(seed: int) -> None:
    schema = pa.schema({"n": pa.int64()})
    sample = Sample(schema, 80_000)
    for at in range(100):
        sample.add(pa.record_batch({"n": np.arange(at * 1000, at * 1000 + 1000)}))
    rows = sample.rows()["n"].to_numpy()
    assert 2_000 < len(rows) <= 10_000
    assert (np.diff(rows) > 0).all()
    shares = np.histogram(rows, 10, (0, 100_000))[0] / len(rows)
    assert (abs(shares - 0.1) < 0.03).all()
    wide = Sample(pa.schema({"text": pa.string()}), 10)
    wide.add(pa.record_batch({"text": ["x" * 100] * 9}))
    assert wide.rows().num_rows <= 1


def files_read(table: HudiTable, where: pc.Expression) -> int:
    return table.explain_scan(where).statistics.count


def test_a_clustering_starts_statistics_of_its_columns(tmp_path: Path, seed: int) -> None:
    table = made(tmp_path / "t", 9, partitioned=False, seed=seed)
    where = (pc.field("a") >= 40) & (pc.field("s") == "x")
    before = table.scan(filter=where).num_rows
    assert files_read(table, where) == len(table.file_groups())
    table.cluster(["a"], target_file_size=9_000)
    files = len(table.file_groups())
    assert files > 3
    assert files_read(table, pc.field("a") >= 40) < files
    assert files_read(table, pc.field("s") == "no such text") == files  # no statistics of it
    # Another order adds its column to those that are kept; a later write keeps both.
    table.cluster(["s", "p"], curve="linear", target_file_size=9_000)
    table.upsert(some(range(5000, 5010), random.Random(seed)), options=SMALL)
    assert kept_columns(table.location) == KeptColumns(("a", "s", "p"))
    assert files_read(table, pc.field("s") == "no such text") < len(table.file_groups())
    assert files_read(table, pc.field("a") > 50) == 0
    assert table.scan(filter=where).num_rows >= before
    assert table.verify().is_ok


def test_a_clustering_leaves_statistics_that_have_its_columns(tmp_path: Path, seed: int) -> None:
    table = made(tmp_path / "t", 9, partitioned=False, seed=seed)
    table.collect_statistics()
    table.cluster(["a"], target_file_size=9_000)
    assert kept_columns(table.location) == KeptColumns(None)
    assert files_read(table, pc.field("id") < 0) == 0


def test_a_clustering_after_a_write_starts_them_too(tmp_path: Path, seed: int) -> None:
    table = made(tmp_path / "t", 9, partitioned=False, seed=seed)
    services = TableServices(cluster_by="a", cluster_commits=1, cluster_file_size=9_000)
    rows = some(range(5000, 5010), random.Random(seed))
    done = table.upsert(rows, options=replace(SMALL, services=services))
    assert done.clustering is not None
    assert files_read(table, pc.field("a") > 50) == 0
    assert files_read(table, pc.field("a") >= 45) < len(table.file_groups())


def test_without_its_statistics_a_clustering_is_done(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    table = made(tmp_path / "t", 9, partitioned=False, seed=seed)
    monkeypatch.setattr("lookupstore.hudi.clustering.clustering.start", full)
    with pytest.warns(UserWarning, match=r"not kept.*No space.*collect_statistics\(\) makes them"):
        done = table.cluster(["a"], target_file_size=9_000)
    assert done.instant == table.timeline()[-1]
