"""Stores that follow Hudi tables, beside what hudi-rs reads at each instant."""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.changelog import check_changes
from support.hudi.log_history import LogHistory, by_key
from support.hudi.log_history import row as log_row
from support.hudi.log_tables import COMMIT, EVENT, LogTable
from support.hudi.oracle import other_scan
from support.hudi.small_tables import SmallTable, row

import lookupstore
from lookupstore import LookupStore, follow
from lookupstore.hudi import HudiTable, Instant, WriteOptions
from lookupstore.hudi.read.scan_plan import ScanPlan
from lookupstore.hudi.timeline.commit import WriteStat
from lookupstore.hudi.write.partitioner import FileSizing

VERSIONS = (6, 8, 9)
Model = dict[Any, tuple[Any, ...]]


def model_of(rows: pa.Table, key: str) -> Model:
    """Return rows by their key, which each has alone."""
    others = [name for name in rows.column_names if name != key]
    values = zip(*(rows[name].to_pylist() for name in others), strict=True)
    keys = rows[key].to_pylist()
    found = dict(zip(keys, values if others else [()] * len(keys), strict=True))
    assert len(found) == len(keys)
    return found


def scanned(path: Path, columns: Sequence[str], as_of: str | None = None) -> Model:
    """Return the rows that hudi-rs reads."""
    found = other_scan(path, as_of)
    return {} if found is None else model_of(found.select(list(columns)), columns[0])


def stored(store: LookupStore) -> Model:
    return model_of(store.scan().read_all(), store.key_schema.names[0])


def columns_of(store: LookupStore) -> list[str]:
    return [*store.key_schema.names, *store.value_schema.names]


def rebuilt(store: LookupStore) -> str | None:
    """Return why all rows were read."""
    return (store.info().follows or {}).get("rebuilt")


class Writes:
    """A table with unique ids, to which random changes are made."""

    def __init__(self, path: Path, seed: int, version: int) -> None:
        self.path, self._chance = path, random.Random(seed)
        schema = pa.schema({"id": pa.int64(), "s": pa.string(), "part": pa.string()})
        self.table = HudiTable.create(
            path, schema, record_key="id", version=version, name="t",
            partition_by=self._chance.choice([[], ["part"]]),
        )  # fmt: skip
        self._options = WriteOptions(
            sizing=FileSizing(max_file_size=3, small_file_limit=0, record_size=1), threads=1
        )

    def _rows(self, ids: Sequence[int]) -> pa.Table:
        chance = self._chance
        return pa.table({
            "id": pa.array(ids, pa.int64()),
            "s": pa.array([chance.choice(["a", "ü", None]) for _ in ids], pa.string()),
            "part": pa.array(["xy"[one % 2] for one in ids], pa.string()),
        })  # fmt: skip

    def change(self) -> str:
        """Change the table in one way out of several, and return which."""
        chance, table, options = self._chance, self.table, self._options
        ids = chance.sample(range(40), chance.choice([1, 8, 20]))
        commits = [one for one in table.timeline() if one.is_completed and one.is_write]
        what = chance.choice(["upsert", "upsert", "upsert", "delete", "overwrite", "table",
                              "cluster", "clean", "rollback", "restore", "failed"])  # fmt: skip
        match what:
            case "upsert":
                table.upsert(self._rows(ids), options=options)
            case "delete":
                table.delete(self._rows(ids).select(["id", "part"]), options=options)
            case "overwrite":
                table.insert_overwrite(self._rows(ids[:4]), options=options)
            case "table" if chance.random() < 0.5:
                table.insert_overwrite_table(self._rows(ids), options=options)
            case "cluster" if commits:
                table.cluster(by="s")
            case "clean" if commits:
                table.clean(retain_commits=chance.choice([1, 3]))
            case "rollback" if commits:
                with suppress(ValueError):  # a clean has removed what it replaced
                    table.rollback(commits[-1].time)
            case "restore" if len(commits) > 1:
                with suppress(ValueError):
                    table.savepoint(commits[-2].time, user="me")
                    table.restore(commits[-2].time)
                    table.delete_savepoint(commits[-2].time)
            case "failed":

                def broken() -> Iterator[pa.RecordBatch]:
                    yield from self._rows(ids).to_batches()
                    raise RuntimeError("stopped")

                with suppress(RuntimeError):
                    table.bulk_insert(broken(), options=options)
        return what


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("number", range(4))
def test_a_store_has_the_rows_of_each_instant_of_a_random_history(
    tmp_path: Path, seed: int, version: int, number: int
) -> None:
    chance = random.Random(seed + number)
    writes = Writes(tmp_path / "t", seed + number, version)
    where = chance.choice([None, "part = 'x' or s = 'a'"])

    def expected(columns: Sequence[str]) -> Model:
        found = scanned(writes.path, columns)
        return {one: values for one, values in found.items()
                if where is None or values[0] == "a" or values[1] == "x"}  # fmt: skip

    store = follow(tmp_path / "t", tmp_path / "s", key="id", where=where, buckets=2)
    assert (store.info().follows or {})["snapshot"] == "none"
    before = stored(store)
    assert before == {}
    for _ in range(12):
        done = [writes.change() for _ in range(chance.choice([1, 1, 2]))]
        newer = store.sync()
        after = stored(newer)
        assert after == expected(columns_of(newer)), done
        reason = rebuilt(newer)
        if newer is not store and not {"clean", "rollback", "restore"} & set(done):
            assert reason is None, done
        check_changes(newer.changes(store.version), before, after)
        if done == ["cluster"] and reason is None and newer is not store:
            assert newer.info().rewritten_buckets == 0
        assert newer.sync() is newer
        store, before = newer, after
    store.verify()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", [EVENT, COMMIT])
def test_a_store_has_the_rows_that_log_files_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, mode: str, seed: int
) -> None:
    chance = random.Random(seed)
    for number in range(5):
        history = LogHistory(tmp_path / f"t{number}", chance, version, mode)

        def expected(history: LogHistory = history) -> Model:
            return {one["id"]: (one["ts"], one["value"]) for one in history.rows().values()}

        history.insert()
        store = follow(history.table.path, tmp_path / f"s{number}", key="id")
        before = stored(store)
        assert before == expected()
        for _ in range(8):
            for _ in range(chance.choice([1, 1, 2])):
                (history.compact if chance.random() < 0.2 else history.delta)()
            newer = store.sync()
            after = stored(newer)
            assert after == expected()
            assert rebuilt(newer) is None
            check_changes(newer.changes(store.version), before, after)
            store, before = newer, after


@pytest.fixture
def replayed(tmp_path: Path) -> Callable[[Path], Iterator[Instant]]:
    """Return what copies a table to `t`, and completes its writes one by one."""

    def steps(table: Path) -> Iterator[Instant]:
        copy = Path(shutil.copytree(table, tmp_path / "t"))
        view = HudiTable.open(copy).view()
        writes = sorted(view.timeline.writes(), key=lambda one: one.position)
        hidden = {}
        for one in writes:
            path = Path(view.folder.path(one))
            hidden[path] = path.rename(tmp_path / path.name)
        for path, one in zip(hidden, writes, strict=True):
            hidden[path].rename(path)
            yield one

    return steps


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("v6_nonpartitioned", "id"),
        ("v8_nonpartitioned", "id"),
        ("v9_txns_simple_nometa", "txn_id"),
        ("mor_v6_nonpartitioned", "id"),
        ("mor_v9_txns_nonpart_nometa", "txn_id"),
    ],
)
def test_a_store_follows_tables_of_hudi_instant_by_instant(
    real_tables: Path,
    merge_on_read_tables: Path,
    replayed: Callable[[Path], Iterator[Instant]],
    tmp_path: Path,
    name: str,
    key: str,
) -> None:
    table = (merge_on_read_tables if name.startswith("mor") else real_tables) / name
    store = None
    for instant in replayed(table):
        newer = follow(tmp_path / "t", tmp_path / "s", key=key)
        assert stored(newer) == scanned(table, columns_of(newer), instant.time)
        assert rebuilt(newer) is None
        if store is not None:
            assert newer.version == store.version + 1
            check_changes(newer.changes(store.version), stored(store), stored(newer))
        store = newer
    assert store is not None
    assert store.version > 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_write_that_completes_late_is_not_missed(tmp_path: Path, version: int) -> None:
    table = SmallTable(tmp_path / "t", version)
    table.commit("a-0", [row(1, "one"), row(2, "two")])
    late = table.begin()
    stat = table.write(late.time, "b-0", [row(3, "late")])
    table.commit("a-0", [row(1, "new")])
    store = follow(tmp_path / "t", tmp_path / "s", key="id")
    assert stored(store) == {1: ("new",)}
    table.finish(late, [stat])
    store = store.sync()
    assert (stored(store), rebuilt(store)) == ({1: ("new",), 3: ("late",)}, None)
    table.commit("c-0", [row(4, "last")])
    store = store.sync()
    assert rebuilt(store) is None
    assert stored(store) == {1: ("new",), 3: ("late",), 4: ("last",)}


def test_a_compaction_that_completes_late_changes_nothing(tmp_path: Path) -> None:
    """In version 6, later changes are in log files with the time of the compaction."""
    table = LogTable(tmp_path / "t", 6)

    def delta(instant: Instant, *rows: dict[str, Any]) -> None:
        path = table.log("a-0", table.slice, table.data(instant.time, list(rows)))
        stat = WriteStat(file_id="a-0", path=path.name, partition_path="")
        table.finish(instant, [stat], schema=table.schema)

    table.base("a-0", [log_row(1, 1), log_row(2, 1)])
    delta(table.begin("deltacommit"), log_row(1, 2, "changed"))
    compaction = table.begin("compaction")
    table.slice = compaction.time
    delta(table.begin("deltacommit"), log_row(2, 3, "after"), log_row(3, 3))
    store = follow(tmp_path / "t", tmp_path / "s", key="id")
    expected = {1: (2, "changed"), 2: (3, "after"), 3: (3, "a")}
    assert stored(store) == expected
    rows = list(by_key(log_row(1, 2, "changed"), log_row(2, 1)).values())
    stat = table.write(compaction.time, "a-0", rows, schema=table.schema)
    table.finish(compaction, [stat], schema=table.schema)
    newer = store.sync()
    assert (stored(newer), rebuilt(newer)) == (expected, None)
    assert newer.info().rewritten_buckets == 0
    delta(table.begin("deltacommit"), log_row(1, 4, "last"))
    newest = newer.sync()
    assert (stored(newest), rebuilt(newest)) == ({**expected, 1: (4, "last")}, None)


def test_what_makes_a_store_read_all_rows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "s"

    def said(store: LookupStore) -> str:
        reason = rebuilt(store)
        assert reason is not None
        assert reason in caplog.text
        caplog.clear()
        return reason

    schema = pa.schema({"id": pa.int64(), "s": pa.string()})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id", name="t")

    def upsert(**columns: Any) -> str:
        result = table.upsert(pa.table(columns), options=WriteOptions(evolve=True))
        assert result.instant is not None
        return result.instant.position

    with caplog.at_level(logging.WARNING):
        upsert(id=[1, 2], s=["a", "b"])
        store = follow(tmp_path / "t", path, key="id")
        assert (store.info().follows or {})["table"] == "t"
        last = upsert(id=[1], s=["new"])
        store = store.sync()
        assert rebuilt(store) is None
        assert (store.info().follows or {})["snapshot"] == last
        table.rollback(table.timeline()[-1].time)
        store = store.sync()
        assert f"snapshot {last}, which the store has, is no longer in" in said(store)
        assert stored(store) == {1: ("a",), 2: ("b",)}
        before = (store.info().follows or {})["snapshot"]
        upsert(id=[1], s=["w"])
        (tmp_path / "t" / table.file_groups()[0].slices[0].path).unlink()
        store = store.sync()
        assert f"snapshot {before}, which the store has, has other files" in said(store)
        for name in ("x", "y", "z"):
            upsert(id=[1], s=[name])
        before = (store.info().follows or {})["snapshot"]
        assert table.clean(retain_commits=1)
        store = store.sync()
        assert f"snapshot {before}, which the store has, is no longer in" in said(store)
        assert stored(store) == {1: ("z",), 2: ("b",)}
        upsert(id=[3], s=["c"])
        upsert(id=[3], s=["d"], more=[1])
        store = store.sync()
        assert said(store).startswith("the value column 'more' (int64) is new, and each stored")
    with lookupstore.open(path) as plain:
        assert stored(plain) == {1: ("z", None), 2: ("b", None), 3: ("d", 1)}


def test_only_slices_that_differ_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = SmallTable(tmp_path / "t", 9)
    for at in range(3):
        table.commit(f"{at}-0", [row(at, "old"), row(at + 10, "old")])
    store = follow(tmp_path / "t", tmp_path / "s", key="id")
    table.commit("1-0", [row(1, "new"), row(11, "old")])
    read: list[tuple[list[str], tuple[str, ...]]] = []
    real = ScanPlan.batches

    def noted(plan: ScanPlan, files: Any = None, **more: Any) -> Any:
        read.append(([file.group.file_id for file in files], plan.columns))
        return real(plan, files, **more)

    monkeypatch.setattr(ScanPlan, "batches", noted)
    newer = store.sync()
    assert newer.get(1) == {"value": "new"}
    assert read == [(["1-0"], ("id",)), (["1-0"], ("id", "value"))]


def test_partitions_that_the_condition_excludes_are_not_read(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "day": pa.int32()})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id", partition_by="day", name="t")
    table.insert(pa.table({"id": range(6), "day": [0, 0, 1, 1, 2, 2]}))
    with follow(tmp_path / "t", tmp_path / "s", key="id", where="day = 1") as store:
        assert list(store) == [2, 3]
    table.insert(pa.table({"id": [7, 8], "day": [0, 1]}))
    for file in (tmp_path / "t").rglob("0/*.parquet"):
        file.write_bytes(b"damaged")
    with follow(tmp_path / "t", tmp_path / "s", key="id", where="day = 1") as store:
        assert list(store) == [2, 3, 8]
    with follow(tmp_path / "t", tmp_path / "s", key="id", where="day = 1 and day < 9") as store:
        assert (rebuilt(store) or "").startswith("the filter has changed; ")
    with lookupstore.build(tmp_path / "t", tmp_path / "built", key="id", where="day = 1") as built:
        assert list(built) == [2, 3, 8]


def test_an_open_table_is_followed_by_its_path(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", pa.schema({"id": pa.int64()}), record_key="id")
    table.insert(pa.table({"id": [1, 2]}))
    store = follow(table, tmp_path / "s", key="id")
    assert list(store) == [1, 2]
    table.upsert(pa.table({"id": [5]}))
    with lookupstore.open(tmp_path / "s") as opened:
        newer = opened.sync()  # the path of the table is recorded
    assert list(newer) == list(store.sync()) == [1, 2, 5]
    assert rebuilt(newer) is None
    some = HudiTable.open(tmp_path / "t", query_type="read_optimized")
    with pytest.raises(ValueError, match=r"query_type='read_optimized'.*without query_type"):
        follow(some, tmp_path / "s", key="id")
