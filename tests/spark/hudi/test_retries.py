"""Writes from Spark whose files another writer removes meanwhile: they are done again.

The files are found to be gone by executors, or by the driver. The oracle is a dict.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from support.hudi.spark_rows import check, local_rows, make, spark_rows, values

from lookupstore.errors import StaleStoreError
from lookupstore.hudi import HudiTable, WriteOptions, WriteResult
from lookupstore.hudi.view import table_view
from lookupstore.hudi.write import retries
from lookupstore.spark import hudi_merge, hudi_sink, upsert
from lookupstore.spark.hudi import merge as hudi_merge_module
from lookupstore.spark.hudi import write as hudi_write

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

MINE = [(1, "a", 9.0, "mine"), (7, "a", 9.0, "mine")]


def merged(df: DataFrame, path: Path, options: WriteOptions) -> WriteResult:
    clauses = hudi_merge(df, path).when_matched_update().when_not_matched_insert()
    return clauses.execute(options=options)


def streamed(df: DataFrame, path: Path, options: WriteOptions) -> None:
    hudi_sink(path, query="q", options=options)(df, 0)


Write = Callable[[DataFrame, Path, WriteOptions], WriteResult | None]
WRITES: dict[str, Write] = {
    "upsert": lambda df, path, options: upsert(df, path, options=options),
    "delete": lambda df, path, options: upsert(df, path, operation="delete", options=options),
    "merge": merged,
    "sink": streamed,
}


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "_PAUSE", 0)


def table_and_acts(path: Path) -> list[Callable[[], None]]:
    """Make a table, and return what another writer does to it, the last first."""
    make(path).insert(local_rows([(1, "a", 1.0, "old"), (2, "a", 1.0, "old")]))

    def act(number: int) -> None:
        other = HudiTable.open(path)
        other.upsert(local_rows([(2, "a", 2.0 + number, f"{number}"), (3, "a", 1.0, "new")]))
        assert other.clean(retain_versions=1)

    return [lambda: act(1), lambda: act(0)]


def expected(verb: str) -> dict[Any, Any]:
    others = {(2, "a"): (3.0, "1"), (3, "a"): (1.0, "new")}
    mine = {} if verb == "delete" else {(1, "a"): (9.0, "mine"), (7, "a"): (9.0, "mine")}
    return {**others, **mine}


@pytest.mark.parametrize("verb", WRITES)
def test_files_that_executors_do_not_find(
    spark: SparkSession, tmp_path: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    acts = table_and_acts(path)
    plan = hudi_write.numbered_rows

    def late(*args: Any) -> DataFrame:
        if acts:  # before the executors read the files that the driver lists
            acts.pop()()
        return plan(*args)

    for module in (hudi_write, hudi_merge_module):
        monkeypatch.setattr(module, "numbered_rows", late)
    df = spark_rows(spark, MINE, 1)
    with pytest.raises(StaleStoreError, match=r"\.parquet"):
        WRITES[verb](df, path, WriteOptions(retries=0))
    assert len(acts) == 1
    done = WRITES[verb](df, path, WriteOptions(retries=1))
    assert done is None or done.retries == 1
    assert values(path) == expected(verb)
    check(path)


@pytest.mark.parametrize("verb", WRITES)
def test_files_that_the_driver_does_not_find(
    spark: SparkSession, tmp_path: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the timeline, and lists files after a clean."""
    path = tmp_path / "t"
    acts = table_and_acts(path)
    listed = table_view.list_data_files

    def late(*args: Any, **options: Any) -> Any:
        if acts:
            act = acts.pop()
            left, acts[:] = acts[:], []  # the other writer lists files, too
            act()
            acts[:] = left
        return listed(*args, **options)

    monkeypatch.setattr(table_view, "list_data_files", late)
    df = spark_rows(spark, MINE, 1)
    with pytest.raises(StaleStoreError, match="removed by the clean"):
        WRITES[verb](df, path, WriteOptions(retries=0))
    assert len(acts) == 1
    done = WRITES[verb](df, path, WriteOptions(retries=1))
    assert done is None or done.retries == 1
    assert values(path) == expected(verb)
    check(path)


def test_a_file_that_is_gone_for_good_is_not_waited_for(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There was no other writer: trying again would fail as well."""
    path, tries = tmp_path / "t", []
    make(path).insert(local_rows([(1, "a", 1.0, "old")]))
    (file,) = path.rglob("a/*.parquet")
    plan = hudi_write.numbered_rows

    def late(*args: Any) -> DataFrame:
        tries.append(1)
        file.unlink(missing_ok=True)
        return plan(*args)

    monkeypatch.setattr(hudi_write, "numbered_rows", late)
    with pytest.raises(StaleStoreError, match=file.name):
        upsert(spark_rows(spark, MINE, 1), path, options=WriteOptions(retries=3))
    assert len(tries) == 1
