"""Counts of lookups as metrics of OpenTelemetry, read by its own SDK."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import lookupstore
from lookupstore import ColumnarFiles
from lookupstore.hostcache.cache import Residency
from lookupstore.opentelemetry import observe

TABLE = pa.table({"id": [1, 2], "name": ["one", "two"]})


class Metrics:
    """A provider with one meter, and what its reader finds."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader])
        self.meter = self.provider.get_meter("test")

    def collected(self) -> dict[str, dict[str, int]]:
        """Return the values of all metrics by the attribute of the lookups."""
        data: Any = self._reader.get_metrics_data()
        found: dict[str, dict[str, int]] = {}
        for scope in data.resource_metrics[0].scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    name = point.attributes["lookupstore.name"]
                    found.setdefault(name, {})[metric.name.removeprefix("lookupstore.")] = (
                        point.value
                    )
        return found


def test_counts_of_a_store_and_of_its_next_versions(tmp_path: Path) -> None:
    metrics = Metrics()
    store = lookupstore.build(TABLE, tmp_path / "s", key="id")
    observe(lambda: store, name="users", meter=metrics.meter)
    assert set(metrics.collected()["users"].values()) == {0, 1}  # the version is 1
    store.lookup([1, 9])
    store.get(2)
    own = store.stats()
    found = metrics.collected()["users"]
    assert found == {
        "keys": 3, "misses": 1, "filter_negatives": own["filter_negatives"],
        "blocks_read": own["blocks_read"], "read": own["bytes_read"], "fetched": 0,
        "range_requests": 0, "retries": 0, "version": 1,
    }  # fmt: skip
    older, store = store, store.upsert(pa.table({"id": [3], "name": ["three"]}))
    older.close()
    del older
    store.lookup([3, 4, 5])
    again = metrics.collected()["users"]
    assert (again["keys"], again["misses"], again["version"]) == (6, 3, 2)
    assert again["read"] == found["read"] + store.stats()["bytes_read"]
    assert metrics.collected()["users"] == again  # asking again adds nothing


def test_versions_between_two_collections_are_counted(tmp_path: Path) -> None:
    metrics = Metrics()
    store = lookupstore.build(TABLE, tmp_path / "s", key="id")
    observe(lambda: store, name="users", meter=metrics.meter)
    store.lookup([1, 9])
    before = metrics.collected()["users"]
    assert (before["keys"], before["misses"], before["version"]) == (2, 1, 1)
    kept = []
    for number in range(2, 6):
        lookupstore.upsert(tmp_path / "s", pa.table({"id": [number], "name": ["more"]})).close()
        older, store = store, store.refresh() if number % 2 else store.newest()
        assert store.version == number
        store.lookup([number, 77, 78])
        if number == 3:
            kept.append(older)  # some go on answering, others are closed or just forgotten
        if number == 4:
            older.close()
    del older
    found = metrics.collected()["users"]
    assert (found["keys"], found["misses"], found["version"]) == (14, 9, 5)
    kept[0].get(1)
    kept.clear()
    assert metrics.collected()["users"]["keys"] == store.stats()["keys"] == 15
    assert lookupstore.open(tmp_path / "s").stats()["keys"] == 0
    with store.upsert(pa.table({"id": [9], "name": ["nine"]})) as written:
        assert written.stats()["keys"] == 0  # a writer has its own


def test_files_that_were_replaced_are_counted(tmp_path: Path) -> None:
    residency = Residency(tmp_path / "cache")
    pq.write_table(TABLE, tmp_path / "1.parquet")
    files = ColumnarFiles(tmp_path / "*.parquet", key="id", residency=residency)
    files.contains([1, 9])
    for number in (2, 3):
        pq.write_table(
            pa.table({"id": [number * 10], "name": ["x"]}), tmp_path / f"{number}.parquet"
        )
        files = files.newest()
        files.contains([number * 10])
    assert (files.stats()["keys"], files.stats()["misses"]) == (4, 1)


def test_a_second_call_with_a_name_replaces_the_first(tmp_path: Path) -> None:
    metrics = Metrics()
    first = lookupstore.build(TABLE, tmp_path / "1", key="id")
    second = lookupstore.build(TABLE, tmp_path / "2", key="id")
    for _ in range(2):
        observe(lambda: first, name="users", meter=metrics.meter)
        observe(first, meter=metrics.meter)
    first.lookup([1, 9])
    found = metrics.collected()
    assert {name: counts["keys"] for name, counts in found.items()} == {"users": 2, first.path: 2}
    observe(second, name="users", meter=metrics.meter)
    second.get(2)
    assert metrics.collected()["users"]["keys"] == 3  # counts go on


def test_several_in_one_process(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    metrics = Metrics()
    store = lookupstore.build(TABLE, tmp_path / "s", key="id")
    pq.write_table(TABLE, tmp_path / "rows.parquet")
    files = ColumnarFiles(
        tmp_path / "rows.parquet", key="id", residency=Residency(tmp_path / "cache")
    )
    observe(store, meter=metrics.meter)
    observe(files, name="files", meter=metrics.meter)
    store.get(1)
    files.contains([7, 8])
    found = metrics.collected()
    assert set(found) == {str(tmp_path / "s"), "files"}
    assert found[str(tmp_path / "s")]["keys"] == 1
    assert (found["files"]["keys"], found["files"]["misses"]) == (2, 2)
    assert "version" not in found["files"]  # files have none


def test_the_global_meter_and_wrong_arguments(tmp_path: Path) -> None:
    code = f"""
import lookupstore
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from lookupstore.opentelemetry import observe
store = lookupstore.build({{"id": [1]}}, {str(tmp_path / "s")!r}, key="id")
observe(store)
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
store.get(1)
scope = reader.get_metrics_data().resource_metrics[0].scope_metrics[0]
print(scope.scope.name, scope.scope.version == lookupstore.__version__, len(scope.metrics))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["lookupstore", "True", "9"], run.stderr
    with pytest.raises(TypeError, match="lookups is a str; give an open store, files or a table"):
        observe("users.store")  # type: ignore[arg-type]
