"""Stores that follow Paimon tables, beside models that know rules of Paimon, and no files."""

from __future__ import annotations

import importlib
import logging
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.changelog import check_changes
from support.histories.paimon import ROWS, TYPES, PaimonHistory
from support.paimon_tables import PaimonTable

from lookupstore import LookupStore, StaleStoreError, follow
from lookupstore.store.changed_bucket import CompactionRule

pytest.importorskip("fastavro")

Model = dict[Any, tuple[Any, ...]]


def model_of(rows: Sequence[dict[str, Any]], keys: Sequence[str]) -> Model:
    """Return rows by their keys, each of which has one."""
    found = {}
    for row in rows:
        own = tuple(row[name] for name in keys)
        found[own if len(own) > 1 else own[0]] = tuple(
            value for name, value in row.items() if name not in keys
        )
    assert len(found) == len(rows)
    return found


def stored(store: LookupStore) -> Model:
    return model_of(store.scan().read_all().to_pylist(), store.key_schema.names)


def rebuilt(store: LookupStore) -> str | None:
    """Return why all rows were read."""
    return (store.info().follows or {}).get("rebuilt")


def rows_of(ids: Sequence[int], name: str = "n") -> pa.Table:
    rows = {"id": ids, "name": [name] * len(ids), "at": [1] * len(ids)}
    return pa.table(rows, schema=TYPES)


@pytest.mark.parametrize("number", range(16))
def test_a_store_has_the_rows_of_each_snapshot_of_a_random_history(
    tmp_path: Path, seed: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed + number)
    follower = importlib.import_module("lookupstore.following.follower")
    monkeypatch.setattr(follower, "_COMPACTION", CompactionRule(3, 0.5))
    writes = PaimonHistory(tmp_path / "t", seed + number)
    keys, nullable = list(writes.table.primary_keys), list(writes.table.partition_keys)
    where = chance.choice([None, None, "at > 1"])

    def expected() -> Model:
        rows = writes.expected()
        return model_of([row for row in rows if not where or (row["at"] or 0) > 1], keys)

    writes.change()
    store = follow(
        tmp_path / "t", tmp_path / "s", key=keys, nullable_keys=nullable, where=where,
        buckets=chance.choice([1, 3]), memory=1 << 17,
    )  # fmt: skip
    before = stored(store)
    assert before == expected()
    for _ in range(10):
        done = {writes.change() for _ in range(chance.choice([1, 1, 3]))}
        newer = store.sync()
        after = stored(newer)
        assert after == expected()
        assert rebuilt(newer) is None
        assert newer.version == store.version + 1
        check_changes(newer.changes(store.version), before, after, len(keys))
        if done == {"compact"}:
            assert newer.info().rewritten_buckets == 0
        assert newer.sync() is newer
        store, before = newer, after
    store.verify()


def test_only_buckets_with_other_files_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = PaimonTable(tmp_path / "t", ROWS, ["id"])
    first = [table.add(rows_of([at, at + 2]), bucket=at, level=5) for at in (0, 1)]
    table.commit(*first)
    store = follow(tmp_path / "t", tmp_path / "s", key="id")
    read: list[tuple[str, list[str]]] = []
    rows = importlib.import_module("lookupstore.tables.rows")
    real = rows._open

    def noted(snapshot: Any, file: Any, names: Sequence[str], **more: Any) -> Any:
        read.append((file.address.path.rpartition("/")[2], sorted(names)))
        return real(snapshot, file, names, **more)

    monkeypatch.setattr(rows, "_open", noted)
    new = table.add(rows_of([0], "new"), bucket=0, sequence=[7])
    table.commit(new)
    newer = store.sync()
    assert stored(newer) == {0: ("new", 1), 1: ("n", 1), 2: ("n", 1), 3: ("n", 1)}
    merged = ["_SEQUENCE_NUMBER", "_VALUE_KIND", "id"]
    assert sorted(read) == sorted([
        (first[0].name, merged), (new.name, merged),  # which row of a key is the newest
        (first[0].name, ["id"]), (new.name, ["at", "id", "name"]),
    ])  # fmt: skip


@pytest.mark.parametrize("number", range(4))
def test_rows_of_an_append_table_that_vectors_delete(
    tmp_path: Path, seed: int, number: int
) -> None:
    chance = random.Random(seed + number)
    table = PaimonTable(tmp_path / "t", ROWS, options={"deletion-vectors.enabled": "true"})
    files = [table.add(rows_of(range(at, at + 100))) for at in (0, 100, 200)]
    ids = {file.name: file.rows["id"].to_pylist() for file in files}
    table.commit(*files)
    store = follow(tmp_path / "t", tmp_path / "s", key="id")
    for turn in range(6):
        vectors = {name: sorted(chance.sample(range(100), chance.choice([1, 30, 100])))
                   for name in chance.sample(sorted(ids), 2)}  # fmt: skip
        more = []
        if chance.random() < 0.5:
            more = [table.add(rows_of([1000 + turn]))]
            ids[more[0].name] = [1000 + turn] * 1
        table.commit(*more, vectors={name: gone for name, gone in vectors.items()
                                     if len(ids[name]) == 100})  # fmt: skip
        left = {one for name, those in ids.items() for at, one in enumerate(those)
                if len(those) == 1 or at not in vectors.get(name, ())}  # fmt: skip
        newer = store.sync()
        assert stored(newer) == dict.fromkeys(left, ("n", 1))
        assert rebuilt(newer) is None
        check_changes(newer.changes(store.version), stored(store), stored(newer))
        store = newer


def test_columns_that_are_not_in_the_store_may_change(tmp_path: Path) -> None:
    table = PaimonTable(tmp_path / "t", ROWS, ["id"])
    table.commit(table.add(rows_of([1, 2]), sequence=[0, 1]))
    store = follow(tmp_path / "t", tmp_path / "s", key="id", columns=["name"])
    table.evolve({**ROWS, "more": "INT"})
    more = rows_of([2], "new").append_column("more", pa.array([1], pa.int32()))
    table.commit(table.add(more, sequence=[2]))
    store = store.sync()
    assert (stored(store), rebuilt(store)) == ({1: ("n",), 2: ("new",)}, None)
    table.evolve({"id": "INT NOT NULL", "name": "STRING"}, renamed={"name": "lost"})
    table.commit()
    store = store.sync()  # another column of that name
    assert stored(store) == {1: (None,), 2: (None,)}
    assert (
        rebuilt(store)
        == "a column was replaced by another one of its name, or Iceberg's name mapping changed"
    )


def test_what_makes_a_store_read_all_rows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, path = tmp_path / "t", tmp_path / "s"

    def said(store: LookupStore) -> str:
        reason = rebuilt(store)
        assert reason is not None
        assert reason in caplog.text
        caplog.clear()
        return reason

    table = PaimonTable(folder, ROWS, ["id"])
    table.commit(table.add(rows_of([1])))
    with caplog.at_level(logging.WARNING):
        store = follow(folder, path, key="id")
        assert (store.info().follows or {})["snapshot"] == "1"
        table.commit(table.add(rows_of([2])))
        (folder / "snapshot" / "snapshot-1").unlink()
        store = store.sync()
        assert said(store).startswith("snapshot 1, which the store has, is no longer in")
        old = table.add(rows_of([3], "old"), sequence=[5])
        table.commit(old)
        store = store.sync()
        assert rebuilt(store) is None
        (folder / "snapshot" / "snapshot-3").unlink()  # the table is rolled back
        table.snapshot, table._base = 2, table._base[:-1]
        store = store.sync()
        assert said(store).startswith("snapshot 3, which the store has, is no longer in")
        assert stored(store) == {1: ("n", 1), 2: ("n", 1)}
        for number in (6, 7):
            table.commit(table.add(rows_of([3], "new"), sequence=[number]))
        store = store.sync()
        table.snapshot, table._base = 3, table._base[:-1]
        table.commit(table.add(rows_of([4])))
        table.commit()
        store = store.sync()  # there was another snapshot 4
        assert said(store).startswith("snapshot 4, which the store has, has other files in")
        gone = table.add(rows_of([5]), level=5)
        table.commit(gone)
        store = store.sync()
        table.commit(table.add(rows_of([5], "new"), level=5, sequence=[9]), removed=[gone])
        next(folder.rglob(gone.name)).unlink()
        store = store.sync()
        assert "gone; a vacuum or expiry" in said(store)
        assert stored(store)[5] == ("new", 1)
    for file in (folder / "snapshot").glob("snapshot-*"):
        file.unlink()
    with pytest.raises(StaleStoreError, match="snapshot: gone"):
        store.sync()


def test_another_table_in_the_folder_is_noticed(tmp_path: Path) -> None:
    rows = rows_of([1])
    for created, name in ((1, "one"), (2, "other")):
        table = PaimonTable(tmp_path / name, ROWS, ["id"], created=created)
        table.commit(table.add(rows, sequence=[created]))
    follow(tmp_path / "one", tmp_path / "s", key="id")
    with pytest.raises(FileExistsError, match=r"follows another table, .*/one; give each table"):
        follow(tmp_path / "other", tmp_path / "s", key="id")
    (tmp_path / "one").rename(tmp_path / "moved")
    with pytest.raises(FileExistsError, match=r"the table at .*/one; .* if the table was moved"):
        follow(tmp_path / "moved", tmp_path / "s", key="id")
    store = follow(tmp_path / "moved", tmp_path / "s", key="id", overwrite=True)
    assert rebuilt(store) == "overwrite is set"
    (tmp_path / "moved").rename(tmp_path / "gone")
    (tmp_path / "other").rename(tmp_path / "moved")
    store = follow(tmp_path / "moved", tmp_path / "s", key="id")
    assert str(rebuilt(store)).startswith("the store has the rows of another table, 0-1; over")
    assert (store.info().follows or {})["table"] == "0-2"
