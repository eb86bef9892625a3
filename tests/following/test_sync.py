"""Stores that are opened by their path alone, and brought to the newest snapshot of their table."""

from __future__ import annotations

import pickle
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lookupstore
from lookupstore import LookupStore, follow
from lookupstore.filters.recorded_filter import filter_of, recorded_filter
from lookupstore.following.recorded import recorded_place
from lookupstore.storage.location import Location
from lookupstore.store.version_files import read_newest

deltalake = pytest.importorskip("deltalake")
from support.histories.delta import DeltaHistory  # noqa: E402

Rows = dict[Any, dict[str, Any]]


def rows_of(store: LookupStore) -> Rows:
    return {row.pop("id"): row for row in store.scan().read_all().to_pylist()}


def written(path: Path, *rows: dict[str, Any]) -> Path:
    columns = pa.schema({"id": pa.int64(), "s": pa.string(), "n": pa.int64()})
    table = pa.Table.from_pylist(list(rows), schema=columns)
    deltalake.write_deltalake(path, table, mode="append")
    return path


@pytest.mark.parametrize("number", range(4))
def test_an_opened_store_is_synced_as_that_of_follow(
    tmp_path: Path, seed: int, number: int
) -> None:
    chance = random.Random(seed + number)
    history = DeltaHistory(tmp_path / "t", seed + number)
    paths = [tmp_path / "followed", tmp_path / "opened"]
    stores = [follow(history.path, path, key="id", buckets=2) for path in paths]
    plain = lookupstore.open(paths[1])
    for _ in range(8):
        for _ in range(chance.choice([1, 2])):
            history.change()
        newer = stores[0].sync()
        synced = plain.sync()
        assert type(synced) is LookupStore
        assert rows_of(synced) == rows_of(newer)
        assert synced.version == newer.version
        own, other = (read_newest(store.location) for store in (synced, newer))
        assert own.follows == other.follows
        assert (own.options, own.buckets) == (other.options, other.buckets)
        assert synced.sync() is synced
        plain = synced


def test_what_follow_was_told_is_recorded(tmp_path: Path) -> None:
    table = written(tmp_path / "t", {"id": 1, "s": "a", "n": 1}, {"id": 2, "s": "b", "n": 5})
    for where in ("n > 1", ("n", ">", 1), [("n", ">", 1), ("s", "in", ["b", "c"])],
                  [[("n", "=", 5)], [("s", "=", "c")]]):  # fmt: skip
        path = tmp_path / "s"
        follow(
            table, path, key="id", columns=["s"], where=where, buckets=3, compression="zstd"
        ).close()
        written(table, {"id": 3, "s": "c", "n": 9}, {"id": 4, "s": "d", "n": 0})
        with lookupstore.open(path) as store, store.sync() as synced:
            assert synced.version == 2
            assert rows_of(synced) == {2: {"s": "b"}, 3: {"s": "c"}}
            assert synced.info().follows == {**(store.info().follows or {}), "snapshot": "1"}
            assert (synced.info().follows or {})["path"] == str(table)
            assert synced.info().options["compression"] == "zstd"
            assert synced.info().buckets == 3
        deltalake.DeltaTable(table).restore(0)
        with lookupstore.open(path) as store, store.sync() as synced:  # all rows are read again
            assert rows_of(synced) == {2: {"s": "b"}}
            assert synced.info().options["compression"] == "zstd"
        shutil.rmtree(path)
        shutil.rmtree(table)
        written(table, {"id": 1, "s": "a", "n": 1}, {"id": 2, "s": "b", "n": 5})


def test_columns_that_the_table_gets_later(tmp_path: Path) -> None:
    table = written(tmp_path / "t", {"id": 1, "s": "a", "n": 1})
    follow(table, tmp_path / "all", key="id").close()
    follow(table, tmp_path / "some", key="id", columns=["s", "n"]).close()
    more = pa.table({"id": [2], "s": ["b"], "n": [2], "more": [7]})
    deltalake.write_deltalake(table, more, mode="append", schema_mode="merge")
    with lookupstore.open(tmp_path / "all") as store, store.sync() as synced:
        assert synced.get(2) == {"s": "b", "n": 2, "more": 7}
    with lookupstore.open(tmp_path / "some") as store, store.sync() as synced:
        assert synced.get(2) == {"s": "b", "n": 2}


def test_old_versions_and_pickles_of_a_followed_store(tmp_path: Path) -> None:
    table = written(tmp_path / "t", {"id": 1, "s": "a", "n": 1})
    store = follow(table, tmp_path / "s", key="id", retain="1d")
    written(table, {"id": 2, "s": "b", "n": 2})
    store.sync().close()
    written(table, {"id": 3, "s": "c", "n": 3})
    with lookupstore.open(tmp_path / "s", version=1) as first, first.sync(retain="1d") as newest:
        assert (newest.version, len(newest), len(first)) == (3, 3, 1)
    written(table, {"id": 4, "s": "d", "n": 4})
    with pickle.loads(pickle.dumps(newest_of(tmp_path / "s"))) as again:
        assert len(again.sync(retain=0)) == 4
    assert [one.number for one in lookupstore.versions(tmp_path / "s")] == [4]


def newest_of(path: Path) -> LookupStore:
    return lookupstore.open(path)


def test_a_path_is_recorded_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "t", {"id": 1, "s": "a", "n": 1})
    monkeypatch.chdir(tmp_path)
    follow("t", "s", key="id").close()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    written(tmp_path / "t", {"id": 2, "s": "b", "n": 2})
    with lookupstore.open(tmp_path / "s") as store:
        assert len(store.sync()) == 2


def test_secrets_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for uri in (
        "s3://bucket/t",
        "s3://KEY:SECRET@bucket/t?region=eu-west-1",
        "s3://bucket/t?access_key=KEY&secret_key=SECRET&region=eu-west-1",
        Location("s3://bucket/t", storage_options={"key": "KEY", "secret": "SECRET"}),
    ):
        assert recorded_place(uri) == "s3://bucket/t"
    from pyarrow import fs

    inside = fs.SubTreeFileSystem("/data", fs.LocalFileSystem())
    assert recorded_place(Location("t", filesystem=inside)) is None


@pytest.mark.parametrize(
    ("where", "shown"), [("id > 1", "id > 1"), (("id", ">", 1), "('id', '>', 1)"), (None, None)]
)
def test_the_description_of_a_store_has_its_filter(
    where: Any, shown: str | None, tmp_path: Path
) -> None:
    deltalake.write_deltalake(tmp_path / "t", pa.table({"id": [1, 2]}))
    with lookupstore.follow(tmp_path / "t", tmp_path / "s", key="id", where=where) as store:
        assert (store.info().follows or {}).get("where") == shown


def test_filters_come_back_as_they_were() -> None:
    for where in (None, "a > 'ä'", ("a", "in", (1, 2.5, None)), [("a", "=", 1), "b is null"], []):
        assert filter_of(recorded_filter(where)) == where
    for where in (pc.field("a") > 1, ("a", "=", pa.scalar(1)), [("a", "in", {1})]):
        with pytest.raises(TypeError):
            recorded_filter(where)


def test_a_store_that_cannot_be_synced_says_what_to_do(tmp_path: Path) -> None:
    table = written(tmp_path / "t", {"id": 1, "s": "a", "n": 1})
    with (
        lookupstore.build({"id": [1]}, tmp_path / "built", key="id") as store,
        pytest.raises(ValueError, match="the store follows no table; make one that does"),
    ):
        store.sync()
    given: list[tuple[Any, Any]] = [
        (deltalake.DeltaTable(table), None), (table, pc.field("n") > 0)
    ]  # fmt: skip
    for number, (one, where) in enumerate(given):
        path = tmp_path / str(number)
        follow(one, path, key="id", where=where).close()
        written(table, {"id": 2 + number, "s": "b", "n": 2})
        with lookupstore.open(path) as store:
            with pytest.raises(ValueError, match=r"does not record where its table is.*'id'"):
                store.sync()
            with follow(one, store, key=["id"], where=where) as newer:  # the remedy
                assert len(newer) == 2 + number
                assert newer.sync() is newer


def test_another_place_is_recorded_although_no_row_has_changed(tmp_path: Path) -> None:
    table = written(tmp_path / "t", {"id": 1, "s": "a", "n": 1})
    follow(deltalake.DeltaTable(table), tmp_path / "s", key="id").close()
    follow(table, tmp_path / "s", key="id").close()
    for columns, version in ((None, 2), (["s", "n"], 3), (["s", "n"], 3)):
        follow(table, tmp_path / "s", key="id", columns=columns).close()
        with lookupstore.open(tmp_path / "s") as store, store.sync() as same:
            assert (same.version, len(same)) == (version, 1)
    with follow(deltalake.DeltaTable(table), tmp_path / "s", key="id") as same:
        assert same.version == 3
    deltalake.write_deltalake(
        table, pa.table({"id": [2], "s": ["b"], "n": [2], "m": [2]}), mode="append",
        schema_mode="merge",
    )  # fmt: skip
    with lookupstore.open(tmp_path / "s") as store, store.sync() as newer:
        assert dict(newer.items()) == {1: {"s": "a", "n": 1}, 2: {"s": "b", "n": 2}}


def test_an_open_store_is_followed_by_another_one(tmp_path: Path) -> None:
    source = lookupstore.build({"id": [1, 2], "s": ["a", "b"]}, tmp_path / "s", key="id")
    store = follow(source, tmp_path / "t", key="s")
    source.upsert({"id": [3], "s": ["c"]}).close()
    assert (store.sync().get("c"), store.get("c")) == ({"id": 3}, None)  # not at its open version
    with lookupstore.open(tmp_path / "t") as opened:
        assert opened.sync().get("c") == {"id": 3}
    for one in (source, store.sync(), tmp_path / "s"):
        with pytest.raises(ValueError, match="the store itself; give the table to follow"):
            follow(one, one, key="id", overwrite=True)
