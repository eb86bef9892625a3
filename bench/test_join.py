"""Joins in Spark: facts with a store, beside Spark's own joins with the Parquet file.

join          as many facts as the store has records, with keys of which half are stored, left join
              with four columns; all rows are made, and thrown away by Spark's noop sink
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from workloads import SEED, Workload

import lookupstore

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'lookupstore[spark]'")

Measure = Callable[..., None]

#: Each has to pay for what a broadcast, a shuffle or the start of a Python worker costs.
JOINS = ("lookupstore", "broadcast", "sort-merge")

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from lookupstore.spark import session
    from lookupstore.spark.sessions import check_java

    try:
        check_java()
    except RuntimeError as error:
        pytest.skip(str(error))
    # A broadcast of the largest workload has to fit into the driver, which is the executor, too.
    started = session("lookupstore bench", **{"spark.driver.memory": "4g"})
    yield started
    started.stop()


@pytest.fixture(scope="module")
def parquet(workload: Workload, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write facts and records, and build the store; return their folder."""
    folder = tmp_path_factory.mktemp("join")
    pq.write_table(workload.table, folder / "records.parquet")
    pq.write_table(facts_of(workload), folder / "facts.parquet")
    lookupstore.build(workload.table, folder / "store", key="id", progress=False).close()
    return folder


def facts_of(workload: Workload) -> pa.Table:
    """Return n facts: `fact` from 0 to n - 1 and an `id` each, of which half are stored."""
    random = np.random.default_rng(SEED)
    stored = workload.table["id"].combine_chunks()
    hits = stored.take(pa.array(random.integers(0, len(stored), len(stored) - len(stored) // 2)))
    misses = workload.missing_ids.take(
        pa.array(random.integers(0, len(workload.missing_ids), len(stored) // 2))
    )
    ids = pa.concat_arrays([hits, misses]).take(pa.array(random.permutation(len(stored))))
    return pa.table({"fact": np.arange(len(stored)), "id": ids})


def joined(spark: Any, folder: Path, how: str) -> Any:
    """Return the left join of the facts as a DataFrame that has not run yet."""
    from lookupstore.spark import lookup_join

    facts = spark.read.parquet(str(folder / "facts.parquet"))
    if how == "lookupstore":
        return lookup_join(facts, str(folder / "store"), on="id")
    records = spark.read.parquet(str(folder / "records.parquet"))
    return facts.join(records.hint(how.replace("sort-", "")), "id", "left")


def check_rows(rows: pa.Table, workload: Workload) -> None:
    """Compare all rows with the same join made by Arrow."""
    facts = facts_of(workload)
    at = pc.index_in(facts["id"], workload.table["id"].combine_chunks())
    expected = workload.table.drop_columns(["id"]).take(at.combine_chunks())
    rows = rows.sort_by("fact")
    assert rows["fact"].to_pylist() == facts["fact"].to_pylist()
    assert rows["id"].cast(pa.string()).equals(facts["id"].cast(pa.string()))
    for field in expected.schema:
        found = rows[field.name].cast(field.type).combine_chunks()
        assert found.equals(expected[field.name].combine_chunks()), field.name


@pytest.mark.parametrize("how", JOINS)
def test_join(how: str, spark: Any, parquet: Path, workload: Workload, measure: Measure) -> None:
    check_rows(joined(spark, parquet, how).toArrow(), workload)
    measure(
        lambda: joined(spark, parquet, how).write.format("noop").mode("overwrite").save(),
        workload=workload.name,
        verb="join",
        contender=how,
        operations=len(workload),
    )
