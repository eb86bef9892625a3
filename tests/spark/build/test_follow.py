"""Stores that follow tables with Spark: executors build them, the driver applies what changes."""

from __future__ import annotations

import importlib
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from support.histories.paimon import PaimonHistory

import lookupstore
from lookupstore import CorruptionError, DuplicateKeyError, LookupStore
from lookupstore.hudi import HudiTable
from lookupstore.spark import follow
from lookupstore.store.version_files import read_newest

deltalake = pytest.importorskip("deltalake")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def rows_of(store: LookupStore) -> list[dict[str, Any]]:
    store.verify()
    return store.scan().read_all().to_pylist()


def written(path: Path, seed: int) -> None:
    """Write a table of several files, some rows of which are deleted."""
    chance = random.Random(seed)
    ids = chance.sample(range(1000), 400)
    for start in range(0, 400, 100):
        some = ids[start : start + 100]
        rows = pa.table({"id": some, "s": [f"{one % 7}" for one in some], "n": some})
        deltalake.write_deltalake(path, rows, mode="append")
    deltalake.DeltaTable(path).delete("id < 50")


@pytest.mark.parametrize("where", [None, "s > '3'"])
def test_executors_build_and_the_driver_follows(
    spark: SparkSession,
    tmp_path: Path,
    seed: int,
    where: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, here = tmp_path / "t", importlib.import_module("lookupstore.tables.rows")
    written(table, seed)
    read: list[str] = []
    real = here.read_to_store

    def noted(handle: Any, file_format: str, names: Sequence[str], path: str, **more: Any) -> Any:
        read.append(path)
        return real(handle, file_format, names, path, **more)

    monkeypatch.setattr(here, "read_to_store", noted)
    given: dict[str, Any] = {"key": "id", "columns": ["s"], "where": where, "buckets": 3}
    store = follow(table, tmp_path / "s", **given, spark=spark)
    assert read == []  # by the driver
    alone = lookupstore.follow(table, tmp_path / "alone", **given)
    assert rows_of(store) == rows_of(alone)
    assert read_newest(store.location).follows == read_newest(alone.location).follows
    assert store.info().source == alone.info().source
    read.clear()
    deltalake.DeltaTable(table).update(updates={"s": "'9'"}, predicate="id < 300")
    newer = store.sync()
    assert read != []
    assert rows_of(newer) == rows_of(alone.sync())
    assert "rebuilt" not in (newer.info().follows or {})
    assert newer.sync() is newer
    with lookupstore.follow(table, tmp_path / "s", **given) as same:
        assert same.version == newer.version
    read.clear()
    again = follow(table, tmp_path / "s", key="id", where=where, spark=spark)
    reason = (again.info().follows or {})["rebuilt"]
    assert reason.startswith("the value column 'n' (int64) is new, and each stored row has ")
    assert (again.version, again.info().buckets, read) == (newer.version + 1, 3, [])
    assert again.value_schema.names == ["s", "n"]


def test_tables_of_all_kinds(
    spark: SparkSession, tmp_path: Path, merge_on_read_tables: Path, seed: int
) -> None:
    writes = PaimonHistory(tmp_path / "paimon", seed)
    for _ in range(6):
        writes.change()
    path = merge_on_read_tables / "mor_v6_nonpartitioned"
    shutil.copytree(path, tmp_path / "hudi")
    HudiTable.create(tmp_path / "empty", pa.schema({"id": pa.int64()}), record_key="id")
    keys = writes.table.primary_keys
    for name, key, nullable in (
        ("paimon", keys, [name for name in keys if name != "id"]),
        ("hudi", "id", []),
        ("empty", "id", []),
    ):
        given: dict[str, Any] = {"key": key, "nullable_keys": nullable}
        store = follow(tmp_path / name, tmp_path / f"{name}.store", **given, spark=spark)
        alone = lookupstore.follow(tmp_path / name, tmp_path / f"{name}.alone", **given)
        assert rows_of(store) == rows_of(alone)
        assert read_newest(store.location).follows == read_newest(alone.location).follows
        assert (len(store) == 0) == (name == "empty")
    writes.change()
    store = lookupstore.follow(
        tmp_path / "paimon", tmp_path / "paimon.store", key=keys,
        nullable_keys=[name for name in keys if name != "id"],
    )  # fmt: skip
    assert "rebuilt" not in (store.info().follows or {})
    assert len(store) == len(writes.expected())


def test_errors_of_executors_are_those_of_follow(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    table = tmp_path / "t"
    written(table, seed)
    with pytest.raises(DuplicateKeyError, match=r"the key s='\d' .* name more key columns"):
        follow(table, tmp_path / "s", key="s", spark=spark)
    for file in table.glob("*.parquet"):
        file.write_bytes(b"x" * file.stat().st_size)
    with pytest.raises(CorruptionError, match="parquet"):
        follow(table, tmp_path / "s", key="id", spark=spark)
    assert not (tmp_path / "s" / "data").exists() or not any((tmp_path / "s" / "data").iterdir())
    lookupstore.build(pa.table({"id": [9]}), tmp_path / "own", key="id").close()
    with pytest.raises(FileExistsError, match="a store, which follows no table"):
        follow(table, tmp_path / "own", key="id", spark=spark)
