"""Stores that follow Delta tables, beside what deltalake's own engine reads at each version."""

from __future__ import annotations

import io
import logging
import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.changelog import check_changes
from support.delta_tables import with_vectors
from support.histories.model import Model, model_of
from support.object_store import BUCKET, deltalake_names
from support.quick_store import quick_store

import lookupstore
from lookupstore import (
    DuplicateKeyError,
    FormatError,
    LookupStore,
    StaleStoreError,
    follow,
    upsert,
)
from lookupstore.following.changes import SnapshotChanges
from lookupstore.tables import delta

deltalake = pytest.importorskip("deltalake")
from support.histories.delta import DeltaHistory  # noqa: E402


def scanned(path: Path, version: int | None = None) -> Model:
    """Return the rows that the engine of deltalake reads."""
    table = deltalake.DeltaTable(path, version=version)
    names = pa.schema(table.schema().to_arrow()).names
    return model_of(pa.RecordBatchReader.from_stream(table.scan()).read_all().select(names))


def scanned_columns(path: Path, *names: str) -> Model:
    """Return some columns of the rows that the engine of deltalake reads."""
    table = pa.RecordBatchReader.from_stream(deltalake.DeltaTable(path).scan()).read_all()
    return model_of(table.select(["id", *names]))


def stored(store: LookupStore) -> Model:
    return model_of(store.scan().read_all())


def rebuilt(store: LookupStore) -> str | None:
    """Return why all rows were read."""
    followed = store.info().follows
    assert followed is not None
    return followed.get("rebuilt")


@pytest.mark.drawn(0.2)
@pytest.mark.parametrize("number", range(24))
def test_a_store_has_the_rows_of_each_version_of_a_random_history(
    tmp_path: Path, seed: int, number: int
) -> None:
    chance = random.Random(seed + number)
    history = DeltaHistory(tmp_path / "t", seed + number)
    buckets = chance.choice([1, 3])
    store = follow(history.path, tmp_path / "s", key="id", buckets=buckets, memory=1 << 17)
    before = stored(store)
    assert before == scanned(history.path)
    for _ in range(12):
        done = [history.change() for _ in range(chance.choice([1, 1, 2, 4]))]
        version = deltalake.DeltaTable(history.path).version()
        newer = store.sync()
        after = stored(newer)
        assert after == scanned(history.path), done
        assert newer.num_rows == len(after)
        followed = newer.info().follows
        assert followed is not None
        assert followed["snapshot"] == str(version)
        assert newer.version - store.version == (newer is not store)
        reason = rebuilt(newer)
        if newer is not store and not {"column", "replace", "vacuum", "restore"} & set(done):
            assert reason is None, (done, reason)
        if newer.value_schema == store.value_schema:
            check_changes(newer.changes(store.version), before, after)
            if set(done) <= {"compact", "z-order", "nothing"} and newer is not store:
                assert newer.info().rewritten_buckets == 0
        store, before = newer, after
        newer.verify()
    if chance.random() < 0.5:
        compacted = store.compact()
        assert store.sync().version == compacted.version
        history.change()
        assert stored(store.sync()) == scanned(history.path)


def test_a_second_call_of_follow_applies_what_changed(tmp_path: Path) -> None:
    table = tmp_path / "t"
    deltalake.write_deltalake(table, pa.table({"id": [1, 2, 3], "s": ["a", "b", "c"]}))
    with follow(table, tmp_path / "s", key="id") as store:
        assert (store.version, store.get(2)) == (1, {"s": "b"})
        assert store.sync() is store
    with follow(deltalake.DeltaTable(table), tmp_path / "s", key="id") as same:
        assert same.version == 1
    old = deltalake.DeltaTable(table)
    deltalake.DeltaTable(table).update(updates={"s": "'new'"}, predicate="id = 2")
    with follow(old, tmp_path / "s", key="id") as store:  # a handle is looked at anew
        assert (store.version, store.get(2), rebuilt(store)) == (2, {"s": "new"}, None)
        found = store.changes(1).read_all().to_pylist()
        assert [(row["change"], row["id"]) for row in found] == [
            ("update_before", 2), ("update_after", 2)
        ]  # fmt: skip
        newest = store.newest()
        assert newest is store
    with lookupstore.open(tmp_path / "s") as plain:
        # It was followed as an object.
        assert plain.info().follows == {"table": str(old.metadata().id), "snapshot": "1"}
    with lookupstore.open(tmp_path / "s", version=1) as first:
        assert first.info().source == "Delta table at version 0"


def test_only_files_that_differ_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "t"
    for start in range(0, 50, 10):
        rows = pa.table({"id": range(start, start + 10), "s": ["x"] * 10})
        deltalake.write_deltalake(table, rows, mode="append")
    store = follow(table, tmp_path / "s", key="id")
    deltalake.DeltaTable(table).update(updates={"s": "'y'"}, predicate="id = 33")
    read: list[tuple[str, list[str]]] = []
    module = pytest.importorskip("lookupstore.tables.rows")
    real = module.read_to_store

    def noted(handle: Any, file_format: str, names: Sequence[str], path: str, **more: Any) -> Any:
        read.append((path, sorted(names)))
        return real(handle, file_format, names, path, **more)

    monkeypatch.setattr(module, "read_to_store", noted)
    newer = store.sync()
    assert newer.get(33) == {"s": "y"}
    assert sorted(names for _, names in read) == [["id"], ["id", "s"]]
    read.clear()
    deltalake.DeltaTable(table).optimize.compact()
    compacted = newer.sync()
    assert rebuilt(compacted) is None
    assert compacted.info().rewritten_buckets == 0
    assert list(compacted.changes(newer.version).read_all()["id"]) == []


@pytest.mark.parametrize("number", range(4))
def test_rows_that_deletion_vectors_remove_and_bring_back(
    tmp_path: Path, seed: int, number: int
) -> None:
    chance = random.Random(seed + number)
    table = tmp_path / "t"
    for start in range(0, 400, 100):
        rows = pa.table({"id": range(start, start + 100), "s": ["x"] * 100})
        properties = deltalake.WriterProperties(max_row_group_size=30)
        deltalake.write_deltalake(table, rows, mode="append", writer_properties=properties)
    files = {
        name: pq.read_table(table / name)["id"].to_pylist()
        for name in (path.name for path in table.glob("*.parquet"))
    }
    assert pq.ParquetFile(table / next(iter(files))).num_row_groups > 1
    store = follow(table, tmp_path / "s", key="id", buckets=2)
    deleted: dict[str, Sequence[int]] = {}
    for _ in range(6):
        some = {
            name: sorted(chance.sample(range(100), chance.choice([0, 1, 30, 100])))
            for name in chance.sample(sorted(files), 2)
        }
        # A commit must not remove and add one file with the same deletes.
        some = {name: gone for name, gone in some.items() if gone != deleted.get(name, [])}
        deleted |= some
        with_vectors(table, some)
        left = {
            one
            for name, ids in files.items()
            for at, one in enumerate(ids)
            if at not in deleted.get(name, ())
        }
        newer = store.sync()
        assert stored(newer) == dict.fromkeys(left, ("x",)) == scanned(table)
        assert rebuilt(newer) is None
        check_changes(newer.changes(store.version), stored(store), stored(newer))
        store = newer


def test_a_process_reads_each_version_once_unless_its_log_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int | None] = []
    real = delta.opened_at

    def opened_at(uri: str, options: Any, version: int | None = None) -> Any:
        opened.append(version)
        return real(uri, options, version)

    monkeypatch.setattr(delta, "opened_at", opened_at)
    path = tmp_path / "t"
    for start in (0, 100):
        table = pa.table({"id": range(start, start + 100), "a": range(100)})
        deltalake.write_deltalake(path, table, mode="append")
    files = pa.table(deltalake.DeltaTable(path).get_add_actions())["path"].to_pylist()
    gone: set[int] = set()

    def delete(position: int) -> None:
        gone.add(position)
        with_vectors(path, dict.fromkeys(files, sorted(gone)))

    delete(3)
    store = follow(path, tmp_path / "s", key="id")
    version = deltalake.DeltaTable(path).version()
    for position, log, expected in [
        (4, "as it was", [None]),
        (5, "replaced", [None, version + 1]),
        (6, "not told", [None, version + 2]),
        (7, "as it was", [None, version + 3]),  # which the call before could not keep
        (8, "as it was", [None]),
    ]:
        file = path / "_delta_log" / f"{version + position - 4:020}.json"
        if log == "replaced":
            os.utime(file, ns=(0, file.stat().st_mtime_ns - 1_000_000_000))
        delete(position)
        opened.clear()
        with monkeypatch.context() as patch:
            if log == "not told":
                patch.setattr(delta, "written_ns", lambda info: None)
            store = store.sync()
        assert opened == expected
        assert (stored(store), rebuilt(store)) == (scanned(path), None)


def test_the_rows_of_many_files_are_sorted_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    for start in range(0, 600, 100):
        deltalake.write_deltalake(path, pa.table({"id": range(start, start + 100)}), mode="append")
    files = pa.table(deltalake.DeltaTable(path).get_add_actions())["path"].to_pylist()
    store = follow(path, tmp_path / "s", key="id")
    with_vectors(path, {one: [1, 50] for one in files})
    removed: list[int] = []
    real = SnapshotChanges.remove

    def remove(changes: SnapshotChanges, keys: pa.RecordBatch) -> None:
        removed.append(keys.num_rows)
        real(changes, keys)

    monkeypatch.setattr(SnapshotChanges, "remove", remove)
    store = store.sync()
    assert removed == [12]
    assert stored(store) == scanned(path)


def test_columns_that_are_not_in_the_store_may_change(tmp_path: Path) -> None:
    table = tmp_path / "t"
    deltalake.write_deltalake(table, pa.table({"id": [1], "s": ["a"], "n": [1]}))
    store = follow(table, tmp_path / "s", key="id", columns=["s"])
    more = pa.table({"id": [2], "s": ["b"], "n": [2], "more": [2]})
    deltalake.write_deltalake(table, more, mode="append", schema_mode="merge")
    store = store.sync()
    assert (stored(store), rebuilt(store)) == ({1: ("a",), 2: ("b",)}, None)


@pytest.mark.parametrize("number", range(4))
def test_only_rows_that_meet_the_condition_are_in_the_store(
    tmp_path: Path, seed: int, number: int
) -> None:
    chance = random.Random(seed + number)
    table = tmp_path / "t"
    rows = pa.table({"id": range(60), "n": [one % 9 for one in range(60)], "p": ["x", "y"] * 30})
    deltalake.write_deltalake(table, rows, partition_by=chance.choice([None, ["p"]]))
    where = chance.choice(["n > 4", "p = 'x' and n < 7", "p = 'y' or n is null"])
    conditions = {
        "n > 4": lambda n, _: n is not None and n > 4,
        "p = 'x' and n < 7": lambda n, p: p == "x" and n is not None and n < 7,
        "p = 'y' or n is null": lambda n, p: p == "y" or n is None,
    }

    def expected() -> Model:
        return {one: (n,) for one, (n, p) in scanned_columns(table, "n", "p").items()
                if conditions[where](n, p)}  # fmt: skip

    store = follow(table, tmp_path / "s", key="id", columns=["n"], where=where, buckets=2)
    assert stored(store) == expected()
    for _ in range(8):
        low = chance.randint(0, 50)
        value = chance.choice(["1", "6", "null"])
        match chance.choice(["update", "update", "delete", "part", "compact"]):
            case "update":
                predicate = f"id >= {low} and id < {low + 12}"
                deltalake.DeltaTable(table).update(updates={"n": value}, predicate=predicate)
            case "delete":
                deltalake.DeltaTable(table).delete(f"id = {low}")
            case "part":
                deltalake.DeltaTable(table).update(updates={"p": "'x'"}, predicate=f"id = {low}")
            case "compact":
                deltalake.DeltaTable(table).optimize.compact()
        newer = store.sync()
        assert stored(newer) == expected()
        assert rebuilt(newer) is None
        if newer is not store:
            check_changes(newer.changes(store.version), stored(store), stored(newer))
        store = newer
    for other in (f"({where}) and (n < 100 or n is null)", "id < 5"):
        again = follow(table, tmp_path / "s", key="id", columns=["n"], where=other)
        assert str(rebuilt(again)).startswith("the filter has changed; ")
        if "n < 100" in other:
            assert stored(again) == expected()
    assert set(stored(again)) == set(scanned(table)) & set(range(5))


def test_conditions_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path / "t", pa.table({"id": [1], "s": ["a"]}))
    with pytest.raises(ValueError, match="where: x is no column"):
        follow(tmp_path / "t", tmp_path / "s", key="id", where="x = 1")
    with pytest.raises(TypeError, match="where: "):
        follow(tmp_path / "t", tmp_path / "s", key="id", where=("id", "=", "a"))
    assert not (tmp_path / "s").exists()


def test_comments_on_fields_of_structs_are_no_columns(tmp_path: Path) -> None:
    """deltalake returns them in another order each time it opens a table."""
    said = {name: name for name in ("comment", "unit", "owner", "source")}
    fields = [deltalake.Field(name, "long", metadata=said) for name in "abcd"]
    columns = {"id": "long", "at": deltalake.schema.StructType(fields), "old": "long"}
    schema = deltalake.Schema([deltalake.Field(name, kind) for name, kind in columns.items()])
    deltalake.DeltaTable.create(tmp_path / "t", schema)
    inner = pa.struct([(name, pa.int64()) for name in "abcd"])
    kinds = pa.schema({"id": pa.int64(), "at": inner, "old": pa.int64()})
    for at in range(3):
        row = {"id": at, "at": dict.fromkeys("abcd", at), "old": None}
        deltalake.write_deltalake(tmp_path / "t", pa.Table.from_pylist([row], kinds), mode="append")
        with follow(tmp_path / "t", tmp_path / "s", key="id") as store:
            assert len(store) == at + 1
            assert rebuilt(store) is None


def test_what_makes_a_store_read_all_rows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table, path = tmp_path / "t", tmp_path / "s"

    def rows(**columns: Any) -> None:
        deltalake.write_deltalake(
            table, pa.table(columns), mode="overwrite", schema_mode="overwrite"
        )

    def said(store: LookupStore) -> str:
        reason = rebuilt(store)
        assert reason is not None
        assert reason in caplog.text
        caplog.clear()
        return reason.replace(", and each stored row has all columns", "")

    caplog.set_level(logging.WARNING)
    rows(id=[1, 2], s=["a", "b"])
    store = follow(table, path, key="id")
    rows(id=[1, 2], s=["a", "b"], n=[1, 2])
    store = store.sync()
    assert said(store).startswith("the value column 'n' (int64) is new; to read only what changed")
    rows(id=[1, 2], s=[1, 2], n=[1, 2])
    store = store.sync()
    assert said(store).startswith("the value column 's' was string and is int64; ")
    store = follow(table, path, key="id", columns=["n"])
    assert said(store).startswith("the value column 's' (int64) is gone; ")
    upsert(path, pa.table({"id": [1], "n": [0]})).close()
    assert "snapshot" not in (lookupstore.open(path).info().follows or {})
    store = store.sync()
    assert said(store).startswith(
        f"version {store.version - 1} has changes that follow did not make; "
    )
    assert stored(store) == {1: (1,), 2: (2,)}
    rows(id=[3], s=[1], n=[1])
    deltalake.DeltaTable(table).vacuum(0, dry_run=False, enforce_retention_duration=False)
    store = store.sync()
    assert "gone; a vacuum" in said(store)
    for log in (table / "_delta_log").glob("*.json"):  # a table of the same name
        log.unlink()
    rows(id=[4], s=[1], n=[1])
    store = store.sync()
    assert said(store).endswith("; overwrite the rows of a table instead of creating it again")
    assert stored(store) == {4: (1,)}
    rows(id=[5], s=[1], n=[1])
    store = store.sync()
    assert rebuilt(store) is None
    (table / "_delta_log" / f"{1:020}.json").unlink()  # a backup came back
    store = store.sync()
    assert "snapshot 1, which the store has, is no longer in the table; " in said(store)
    assert stored(store) == {4: (1,)}
    rows(id=[6], s=[1], n=[1])  # another version 1 than that of before
    store = store.sync()
    assert rebuilt(store) is None
    assert stored(store) == {6: (1,)}
    for more in (0, 1):  # the newest version is the recorded one, or follows it
        number = int((store.info().follows or {})["snapshot"])
        for version in range(1, number + 1):
            (table / "_delta_log" / f"{version:020}.json").unlink()
        for version in range(1, number + more + 1):
            rows(id=[6, 7 + version + 10 * more], s=[1, 1], n=[1, 1])
        store = store.sync()
        assert f"snapshot {number}, which the store has, has other files" in said(store)
        assert stored(store) == scanned_columns(table, "n")
    store = follow(table, path, key="id", columns=["n"], overwrite=True)
    assert (rebuilt(store), caplog.text) == ("overwrite is set", "")


def test_a_key_of_two_rows_is_refused_and_the_store_stays(tmp_path: Path) -> None:
    table, path = tmp_path / "t", tmp_path / "s"
    deltalake.write_deltalake(table, pa.table({"id": [1, 2], "s": ["a", "b"]}))
    store = follow(table, path, key="id")
    for rows in ({"id": [2], "s": ["b"]}, {"id": [3, 3], "s": ["c", "d"]}):
        deltalake.write_deltalake(table, pa.table(rows), mode="append")
        with pytest.raises(DuplicateKeyError, match=r"the key id=\d .* name more key columns"):
            store.sync()
        assert stored(store.newest()) == {1: ("a",), 2: ("b",)}
        assert store.newest().version == 1
        deltalake.DeltaTable(table).restore(0)
    deltalake.write_deltalake(table, pa.table({"id": [4], "s": ["a"]}), mode="append")
    with pytest.raises(DuplicateKeyError, match=r"the key s='a' .* name more key columns"):
        follow(table, tmp_path / "other", key="s")
    assert not (tmp_path / "other").exists()


def test_what_is_not_followed_is_named(tmp_path: Path) -> None:
    table = tmp_path / "t"
    deltalake.write_deltalake(table, pa.table({"id": [1], "s": ["a"]}))
    lookupstore.build(pa.table({"id": [9]}), tmp_path / "own", key="id").close()
    with pytest.raises(FileExistsError, match="a store, which follows no table; pass overwrite="):
        follow(table, tmp_path / "own", key="id")
    with follow(table, tmp_path / "own", key="id", overwrite=True) as store:
        assert list(store) == [1]
    pq.write_table(pa.table({"id": [1]}), tmp_path / "plain.parquet")
    with pytest.raises(FormatError, match=r"is a file, not a table; build a store of it"):
        follow(tmp_path / "plain.parquet", tmp_path / "s", key="id")
    with pytest.raises(FileNotFoundError):
        follow(tmp_path / "missing", tmp_path / "s", key="id")
    with pytest.raises(TypeError, match=r"table is pyarrow\.lib\.Table; give the folder"):
        follow(pa.table({"id": [1]}), tmp_path / "s", key="id")
    with pytest.raises(KeyError, match="no column 'x'"):
        follow(table, tmp_path / "s", key="x")
    assert not (tmp_path / "s").exists()
    follow(table, tmp_path / "s", key="id").close()
    with pytest.raises(ValueError, match="the key of the new version is s: string"):
        follow(table, tmp_path / "s", key="s")
    with follow(table, tmp_path / "s", key="s", allow_new_key=True) as store:
        assert store["a"] == {"id": 1}


def test_a_file_of_the_newest_version_that_is_gone_is_an_error(tmp_path: Path) -> None:
    table = tmp_path / "t"
    deltalake.write_deltalake(table, pa.table({"id": [1]}))
    store = follow(table, tmp_path / "s", key="id")
    before = set(table.glob("*.parquet"))
    deltalake.write_deltalake(table, pa.table({"id": [2]}), mode="append")
    for file in set(table.glob("*.parquet")) - before:
        file.unlink()
    with pytest.raises(StaleStoreError, match="gone; a vacuum"):
        store.sync()
    assert list(store.newest()) == [1]


def numbered(table: Path, files: int, each: int) -> None:
    """Write a table with pages of a few kilobytes, in files with random keys and wide texts."""
    chance = random.Random(7)
    ids = chance.sample(range(1 << 40), files * each)
    properties = deltalake.WriterProperties(
        data_page_size_limit=4096,
        write_batch_size=256,
        default_column_properties=deltalake.ColumnProperties(dictionary_enabled=False),
    )
    for start in range(0, len(ids), each):
        own = ids[start : start + each]
        rows = pa.table({"id": own, "s": [f"{one:030}" * 2 for one in own]})
        deltalake.write_deltalake(table, rows, mode="append", writer_properties=properties)


@pytest.mark.parametrize("each", [5_000, 60_000])
def test_only_pages_with_new_deletes_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, each: int
) -> None:
    """Also of a file below 1 MiB, which other readers read whole."""
    table = tmp_path / "t"
    numbered(table, 2, each)
    files = sorted(table.glob("*.parquet"))
    sizes = [file.stat().st_size for file in files]
    assert (max(sizes) < 1 << 20) == (each == 5_000)
    ids = [pq.read_table(file)["id"].to_pylist() for file in files]
    store = follow(table, tmp_path / "s", key="id")
    read: list[int] = []

    class Counted(io.FileIO):
        """A file that notes what is read of it."""

        def read(self, size: int | None = -1) -> bytes:
            data = super().read(-1 if size is None else size) or b""
            read.append(len(data))
            return data

    module = pytest.importorskip("lookupstore.storage.file_address")

    def opened(address: Any, nbytes: int | None = None) -> pa.NativeFile:
        return pa.PythonFile(Counted(address.path), mode="r")

    monkeypatch.setattr(module.FileAddress, "open", opened)
    with_vectors(table, {file.name: [3, each - 7] for file in files})
    newer = store.sync()
    gone = {own[at] for own in ids for at in (3, each - 7)}
    assert set(newer) == {one for own in ids for one in own} - gone
    assert rebuilt(newer) is None
    footers = sum(int.from_bytes(file.read_bytes()[-8:-4], "little") for file in files)
    # Two pages of each file, its footer, and the indexes before that.
    assert sum(read) < 4 * 6_000 + 2 * 8_192 + 4 * footers + 0.05 * sum(sizes), (read, sizes)


def test_deletes_of_files_at_a_uri_take_two_requests_each(tmp_path: Path) -> None:
    """One reads the footer with the page index, and one the pages."""
    folder = tmp_path / "s3" / BUCKET / "t"
    numbered(folder, 3, 5_000)
    files = sorted(folder.glob("*.parquet"))
    with quick_store(tmp_path / "s3", 0) as quick:
        uri, options = f"s3://{BUCKET}/t", deltalake_names(quick.store)
        store = follow(uri, tmp_path / "s", key="id", storage_options=options)
        with_vectors(folder, {file.name: [4_000] for file in files})
        quick.asked()
        newer = store.sync()
        asked = [one for one, _ in quick.asked() if ".parquet" in one.path]
    assert len(newer) == 3 * 4_999
    assert rebuilt(newer) is None
    assert [one.method for one in asked] == ["GET"] * 6
    assert sum(one.size for one in asked) < 0.3 * sum(file.stat().st_size for file in files)


def test_a_copy_of_the_table_does_not_replace_its_rows(tmp_path: Path) -> None:
    """A copy for tests has the id of the table."""
    deltalake.write_deltalake(tmp_path / "t", pa.table({"id": [1, 2]}))
    follow(tmp_path / "t", tmp_path / "s", key="id").close()
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    deltalake.write_deltalake(tmp_path / "copy", pa.table({"id": [3]}), mode="append")
    with pytest.raises(FileExistsError, match=r"the table at .*/t; .* overwrite=True to replace"):
        follow(tmp_path / "copy", tmp_path / "s", key="id")
    with lookupstore.open(tmp_path / "s") as store:
        assert list(store) == [1, 2]
    with follow(tmp_path / "copy", tmp_path / "s", key="id", overwrite=True) as store:
        assert list(store) == [1, 2, 3]
