"""Followers that are killed, that fail, and that are not alone: each snapshot is applied once."""

from __future__ import annotations

import importlib
import math
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.paimon_tables import PaimonTable
from support.remote import FaultyDisk, Killed, Remote
from support.samples import some_of

import lookupstore
from lookupstore import Location, LookupStoreError, expire, follow
from lookupstore.hudi import HudiTable
from lookupstore.store.changed_bucket import CompactionRule
from lookupstore.store.version_files import read_newest, read_versions

deltalake = pytest.importorskip("deltalake")

follower = importlib.import_module("lookupstore.following.follower")
os_modules = [
    importlib.import_module(f"lookupstore.{name}")
    for name in ("storage.local", "storage.naming", "store.new_version", "store.changed_bucket")
]

BEFORE = pa.table({"id": range(60), "v": ["old"] * 60})
AFTER = pa.table({"id": range(30, 90), "v": ["old"] * 15 + ["new"] * 45})


@pytest.fixture(autouse=True)
def own_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a test from finding the local copies of another one, which has the same content."""
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "copies-of-this-test"))


def rows_of(place: Any) -> list[tuple[int, str]]:
    with lookupstore.open(place) as store:
        store.verify()
        rows = store.scan().read_all()
        return list(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


def pairs(table: pa.Table) -> list[tuple[int, str]]:
    return list(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


def written(table: Path, *, widened: bool = False) -> None:
    """Replace the rows of a table; `widened` adds a column, so that all rows are read."""
    rows = AFTER.append_column("more", [[1] * 60]) if widened else AFTER
    deltalake.write_deltalake(table, rows, mode="overwrite", schema_mode="overwrite")


VERBS = ["build", "sync", "rebuild"]


@pytest.mark.sampled
@pytest.mark.parametrize("kill", [False, True], ids=["fail", "kill"])
@pytest.mark.parametrize("kind", ["s3", "hdfs", "local"])
@pytest.mark.parametrize("verb", VERBS)
def test_every_operation_on_the_store_fails_once(
    tmp_path: Path, verb: str, kind: str, kill: bool
) -> None:
    tables = {}
    for name in ("old", "new"):
        tables[name] = tmp_path / name
        deltalake.write_deltalake(tables[name], BEFORE)
    table = tables["new"]

    def run(place: Location) -> None:
        columns = ["v"] if verb != "rebuild" else None
        follow(table, place, key="id", columns=columns, buckets=2, retain=0).close()

    def start(folder: Path) -> tuple[Location, Remote]:
        folder.mkdir()
        remote = Remote(folder, "s3" if kind == "local" else kind)
        place = Location(folder / "store") if kind == "local" else remote.location()
        if verb != "build":  # of the first version of the table
            folder_now = table / "_delta_log" / f"{1:020}.json"
            kept = folder_now.rename(tmp_path / "1.json") if folder_now.exists() else None
            follow(table, place, key="id", columns=["v"], buckets=2).close()
            if kept is not None:
                kept.rename(folder_now)
        return place, remote

    def steps(place: Location, remote: Remote, at: int | None) -> tuple[Any, list[Any]]:
        disk = FaultyDisk(at, kill=kill)
        remote.restart(at, kill=kill)
        raised: BaseException | None = None
        with pytest.MonkeyPatch.context() as patch:
            for module in os_modules if kind == "local" else ():
                patch.setattr(module, "os", disk)
            try:
                run(place)
            except (Killed, OSError, LookupStoreError) as error:
                raised = error
        done = disk.done if kind == "local" else list(remote.done)
        remote.restart()
        return raised, done

    if verb != "build":
        written(table, widened=verb == "rebuild")
    models = [[] if verb == "build" else pairs(BEFORE), pairs(BEFORE if verb == "build" else AFTER)]
    raised, operations = steps(*start(tmp_path / "clean"), None)
    assert raised is None
    assert len(operations) > 8
    for at, operation in some_of(enumerate(operations)):
        folder = tmp_path / str(at)
        place, remote = start(folder)
        raised, _ = steps(place, remote, at)
        print(at, operation, raised)
        try:
            found = rows_of(place)
            follows = read_newest(place).follows
        except FileNotFoundError:
            found, follows = [], None
        except lookupstore.FormatError:  # a folder without versions
            assert verb == "build"
            found, follows = [], None
        assert found in models
        if raised is None:
            assert found == models[1]
        if verb != "build":
            assert follows is not None
            assert follows.snapshot == str(int(found == models[1]))
        run(place)
        assert rows_of(place) == models[1]
        versions = [one.follows for one in read_versions(place)]
        assert len({one and one.snapshot for one in versions}) == len(versions)


def paimon_tables(folder: Path) -> Iterator[None]:
    """Make a table with the rows before, and replace them when asked again."""
    fields = {"id": "BIGINT NOT NULL", "v": "STRING"}
    table = PaimonTable(folder, fields, ["id"])
    for at, rows in enumerate((BEFORE, AFTER)):
        table.commit(table.add(rows, sequence=range(60 * at, 60 * at + 60)))
        if at:  # rows of the first 30 keys are deleted
            kinds = [3] * 30
            table.commit(table.add(BEFORE.slice(0, 30), sequence=range(200, 230), kinds=kinds))
        yield


def hudi_tables(folder: Path) -> Iterator[None]:
    """Make a table with the rows before, and replace them when asked again."""
    table = HudiTable.create(folder, BEFORE.schema, record_key="id", name="t")
    table.insert(BEFORE)
    yield
    table.insert_overwrite_table(AFTER)
    yield


def store_tables(folder: Path) -> Iterator[None]:
    """Make a store with the rows before, and replace them when asked again."""
    lookupstore.build(BEFORE, folder, key="id").close()
    yield
    lookupstore.build(AFTER, folder, key="id", overwrite=True).close()
    yield


@pytest.mark.sampled
@pytest.mark.parametrize("kill", [False, True], ids=["fail", "kill"])
@pytest.mark.parametrize("tables", [paimon_tables, hudi_tables, store_tables])
def test_a_follower_of_other_tables_that_fails_once(
    tmp_path: Path, tables: Callable[[Path], Iterator[None]], kill: bool
) -> None:
    """The table does not change meanwhile, so that each operation fails with the same one."""
    turns = tables(tmp_path / "t")
    next(turns)
    run = partial(follow, tmp_path / "t", key="id", buckets=2, retain=0)
    run(tmp_path / "old").close()
    next(turns)

    def steps(place: Path, at: int | None) -> list[Any]:
        disk = FaultyDisk(at, kill=kill)
        shutil.copytree(tmp_path / "old", place)
        with pytest.MonkeyPatch.context() as patch:
            for module in os_modules:
                patch.setattr(module, "os", disk)
            with suppress(Killed, OSError, LookupStoreError):
                run(place).close()
        return disk.done

    operations = steps(tmp_path / "clean", None)
    assert rows_of(tmp_path / "clean") == pairs(AFTER)
    assert len(operations) > 8
    for at, _ in some_of(enumerate(operations)):
        place = tmp_path / str(at)
        steps(place, at)
        assert rows_of(place) in (pairs(BEFORE), pairs(AFTER))
        with run(place) as store:
            assert "rebuilt" not in (store.info().follows or {})
        assert rows_of(place) == pairs(AFTER)
        versions = [one.follows for one in read_versions(Location(place))]
        assert len({one and one.snapshot for one in versions}) == len(versions)


@pytest.mark.parametrize("newer", [False, True], ids=["the same", "a newer one"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_follower_that_was_overtaken_applies_nothing_twice(
    tmp_path: Path,
    verb: str,
    newer: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Another one publishes the same snapshot, or a newer one, after this one has read the rows."""
    table, path = tmp_path / "t", tmp_path / "s"
    deltalake.write_deltalake(table, BEFORE)
    columns = None if verb == "rebuild" else ["v"]
    again = partial(follow, table, path, key="id", columns=columns, buckets=2)
    if verb != "build":
        follow(table, path, key="id", columns=["v"], buckets=2).close()
        written(table, widened=verb == "rebuild")
    name = "publish_changes" if verb == "sync" else "publish_build"
    real: Callable[..., Any] = getattr(follower, name)
    calls: list[str] = []

    def overtaken(*args: Any, **named: Any) -> Any:
        calls.append(name)
        if len(calls) == 1:
            if newer:
                more = {"more": [1]} if verb == "rebuild" else {}
                rows = pa.table({"id": [1000], "v": ["last"], **more})
                deltalake.write_deltalake(table, rows, mode="append")
            again().close()
        return real(*args, **named)

    monkeypatch.setattr(follower, name, overtaken)
    with again() as store:
        assert len(calls) == 2
        assert store.version == (1 if verb == "build" else 2)
    assert ("built of all rows" in caplog.text) == (verb == "rebuild")
    expected = pairs(BEFORE if verb == "build" else AFTER)
    assert rows_of(path) == expected + [(1000, "last")] * newer


def test_a_compaction_in_between_is_no_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "t"
    deltalake.write_deltalake(table, BEFORE)
    store = follow(table, tmp_path / "s", key="id", buckets=2)
    monkeypatch.setattr(follower, "_COMPACTION", CompactionRule(64, math.inf))
    deltalake.write_deltalake(table, pa.table({"id": [100], "v": ["x"]}), mode="append")
    store = store.sync()
    assert store.info().runs == 1
    written(table)
    real = follower.publish_changes

    def compacted(*args: Any, **named: Any) -> Any:
        store.compact().close()
        return real(*args, **named)

    monkeypatch.setattr(follower, "publish_changes", compacted)
    newer = store.sync()
    assert newer.version == store.version + 2
    assert rows_of(newer) == pairs(AFTER)


def test_followers_at_once_while_the_table_changes(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    table, path = tmp_path / "t", tmp_path / "s"
    deltalake.write_deltalake(table, BEFORE)
    ended = threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        while not ended.is_set():
            try:
                follow(table, path, key="id", buckets=2).close()
            except lookupstore.CommitConflictError:
                time.sleep(0.01)
            except BaseException as error:
                errors.append(error)
                raise

    def keep() -> None:
        while not ended.is_set():
            time.sleep(0.05)
            try:
                with lookupstore.open(path) as store:
                    store.compact().close()
                expire(path, keep=30)
            except (lookupstore.CommitConflictError, FileNotFoundError, lookupstore.FormatError):
                continue
            except BaseException as error:
                errors.append(error)
                raise

    threads = [threading.Thread(target=one) for one in (run, run, run, keep)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            low = chance.randint(0, 60)
            deltalake.DeltaTable(table).update(
                updates={"v": f"'{chance.random()}'"}, predicate=f"id >= {low} and id < {low + 9}"
            )
            time.sleep(chance.choice([0, 0.1]))
    finally:
        time.sleep(0.2)
        ended.set()
        for thread in threads:
            thread.join()
    assert not errors
    follow(table, path, key="id", buckets=2).close()
    rows = pa.RecordBatchReader.from_stream(deltalake.DeltaTable(table).scan()).read_all()
    assert rows_of(path) == sorted(pairs(rows))
    numbers = [int(one.follows.snapshot or -1) for one in read_versions(Location(path))
               if one.follows]  # fmt: skip
    assert numbers == sorted(numbers)
    assert numbers[-1] == deltalake.DeltaTable(table).version()
