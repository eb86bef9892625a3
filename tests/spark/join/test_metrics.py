"""What LookupMetrics shows: the sum of what tasks wrote into the table of their host."""

from __future__ import annotations

from functools import reduce
from operator import add
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lookupstore
from lookupstore.hostcache import stats
from lookupstore.hostcache.folder import default_folder
from lookupstore.spark import LookupMetrics, lookup_join

pytestmark = pytest.mark.spark


def test_metrics_agree_with_the_table_of_the_host(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"id": range(1000), "v": ["x" * 30] * 1000})
    with lookupstore.build(table, tmp_path / "s", key="id", block_size=1024) as store:
        metrics = LookupMetrics(spark)
        assert metrics.counts.cache_hit_rate is None
        assert "cache_hit_rate=none" in repr(metrics)
        facts = spark.range(0, 1500, numPartitions=4)
        joined = lookup_join(facts, store, "id", how="inner", metrics=metrics)
        for _ in range(2):
            assert joined.count() == 1000
        told = stats.read(default_folder(), store=store.path)
    assert metrics.counts.rows == 3000
    written = reduce(add, (one.counts for one in told))
    # Seconds are sums of floats, whose order counts.
    assert metrics.to_json() == pytest.approx(written.to_json())
    counts = metrics.counts
    assert counts.hits <= counts.block_uses <= counts.rows - counts.filter_negatives
    rate = counts.cache_hit_rate
    assert rate is not None
    assert 0 < rate < 1
    assert f"cache_hit_rate={rate:.3f}" in repr(metrics)
    assert f"<td>cache hit rate</td><td>{rate:.3f}</td>" in metrics._repr_html_()
    assert "<td>rows</td><td>3,000</td>" in metrics._repr_html_()
