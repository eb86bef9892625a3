"""Many keys in a call, from Arrow to Arrow."""

from __future__ import annotations

from typing import Any

import pytest
from workloads import Workload

from lookupstore import LookupStore
from lookupstore.sst import Reader


@pytest.mark.parametrize("asked", ["random", "sorted", "missing"])
def test_lookup_bytes(asked: str, benchmark: Any, reader: Reader, workload: Workload) -> None:
    """Measure `Reader.lookup`."""
    queries = getattr(workload, asked)
    assert benchmark(reader.lookup, queries.keys).equals(queries.expected)


def test_lookup_rows(benchmark: Any, store: LookupStore, workload: Workload) -> None:
    """Measure `LookupStore.lookup` of four columns."""
    rows = benchmark(store.lookup, workload.ids)
    assert rows.select(workload.expected_rows.column_names).equals(workload.expected_rows)


def test_lookup_ten_rows(benchmark: Any, store: LookupStore, workload: Workload) -> None:
    """Measure `LookupStore.lookup` of ten keys."""
    rows = benchmark(store.lookup, workload.ids[:10])
    expected = workload.expected_rows.slice(0, 10)
    assert rows.select(expected.column_names).equals(expected)
