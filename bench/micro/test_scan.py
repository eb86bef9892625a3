"""All records, in key order."""

from __future__ import annotations

from typing import Any

from workloads import Workload

from lookupstore import LookupStore
from lookupstore.sst import Reader


def test_scan_bytes(benchmark: Any, reader: Reader, workload: Workload) -> None:
    """Measure `Reader.scan`."""
    batches = benchmark(lambda: list(reader.scan()))
    assert sum(batch.num_rows for batch in batches) == len(workload)


def test_scan_rows(benchmark: Any, store: LookupStore, workload: Workload) -> None:
    """Measure `LookupStore.scan` of the key and four columns."""
    batches = benchmark(lambda: list(store.scan()))
    assert sum(batch.num_rows for batch in batches) == len(workload)


def test_scan_items(benchmark: Any, reader: Reader, workload: Workload) -> None:
    """Measure `Reader.items`, which makes two Python objects of each record."""
    pairs = benchmark(lambda: list(reader.items()))
    assert len(pairs) == len(workload)
