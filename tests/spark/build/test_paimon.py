"""Stores of Paimon tables that executors build, beside models of the rules of Paimon."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from support.histories.paimon import ROWS, TYPES, PaimonHistory
from support.histories.paimon_engines import EngineHistory
from support.paimon_tables import PaimonTable

import lookupstore
from lookupstore import CorruptionError, DuplicateKeyError
from lookupstore.spark import build_store

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.mark.parametrize("history_of", [PaimonHistory, EngineHistory])
@pytest.mark.parametrize("number", range(3))
def test_executors_merge_the_rows_of_random_histories(
    spark: SparkSession,
    tmp_path: Path,
    seed: int,
    number: int,
    history_of: Callable[[Path, int], PaimonHistory | EngineHistory],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each part of the table is a task.
    module = importlib.import_module("lookupstore.spark.build.table_parts")
    monkeypatch.setattr(module, "TASK_BYTES", (1, 1))
    history = history_of(tmp_path / "t", seed + number)
    for _ in range(9):
        history.change()
    keys, nullable = history.table.primary_keys, history.table.partition_keys
    given = {"key": keys, "nullable_keys": nullable}
    chance = random.Random(seed)
    columns = chance.choice([None, ["at"]])
    with (
        build_store(
            str(tmp_path / "t"), tmp_path / "s", columns=columns, buckets=3, spark=spark, **given
        ) as store,
        lookupstore.build(tmp_path / "t", tmp_path / "here", columns=columns, **given) as here,
    ):
        rows = store.scan().read_all()
        assert rows.equals(here.scan().read_all())
        assert rows.num_rows == len(history.expected())
        assert store.info().source == here.info().source
        assert store.info().buckets == 3
        store.verify()


def test_executors_read_former_snapshots(spark: SparkSession, tmp_path: Path) -> None:
    table = PaimonTable(tmp_path / "t", ROWS, ["id"])
    for number in (1, 2, 3):
        ids = sorted({1, number})
        rows = pa.table({"id": ids, "name": [f"n{number}"] * len(ids), "at": ids}, schema=TYPES)
        file = table.add(rows, sequence=[2 * number + one for one in range(len(ids))])
        table.commit(file, milliseconds=number * 60_000)
    path, given = str(tmp_path / "t"), {"key": "id", "spark": spark, "overwrite": True}
    for chosen in ({"version": 2}, {"as_of": "1970-01-01 00:02:30Z"}):
        with build_store(path, tmp_path / "s", **given, **chosen) as store:
            assert {key: row["name"] for key, row in store.items()} == {1: "n2", 2: "n2"}
    with build_store(path, tmp_path / "s", **given) as store:
        assert {key: row["name"] for key, row in store.items()} == {1: "n3", 2: "n2", 3: "n3"}


def test_rules_for_repeated_keys(spark: SparkSession, tmp_path: Path) -> None:
    table = PaimonTable(tmp_path / "t", ROWS)
    rows = [
        pa.table({"id": ids, "name": names, "at": at}, schema=TYPES)
        for ids, names, at in (
            ([1, 2, 3], ["a", "b", "c"], [5, 1, None]),
            ([1, 2, 3], ["d", "e", "f"], [4, 1, 0]),
        )
    ]
    table.commit(*(table.add(one) for one in rows))
    path = str(tmp_path / "t")
    with pytest.raises(DuplicateKeyError, match=r"id=.* occurs more than once.*max"):
        build_store(path, tmp_path / "s", key="id", spark=spark)
    for rule in ("first", "last"):
        with pytest.raises(ValueError, match=rf"on_duplicate is '{rule}', .* have no order"):
            build_store(path, tmp_path / "s", key="id", on_duplicate=rule, spark=spark)
    rule = ("max", "at")
    with (
        build_store(path, tmp_path / "s", key="id", on_duplicate=rule, spark=spark) as store,
        lookupstore.build(path, tmp_path / "here", key="id", on_duplicate=rule) as here,
    ):
        assert store.scan().read_all().equals(here.scan().read_all())
        assert [store[one]["name"] for one in (1, 3)] == ["a", "f"]
        assert store.info().source == f"Paimon table {path} at snapshot 1"


def test_damage_that_an_executor_finds_is_named(spark: SparkSession, tmp_path: Path) -> None:
    table = PaimonTable(tmp_path / "t", ROWS, ["id"])
    rows = pa.table({"id": [1], "name": ["a"], "at": [5]}, schema=TYPES)
    file = table.add(rows)
    table.commit(file)
    path = table.path(file)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptionError, match=file.name):
        build_store(str(tmp_path / "t"), tmp_path / "s", key="id", spark=spark)
    assert not list((tmp_path / "s").rglob("*.sst"))
