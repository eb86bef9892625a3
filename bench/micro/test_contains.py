"""Whether keys are stored: one key a call, and many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from workloads import Workload

from lookupstore import LookupStore
from lookupstore.sst import Reader


@pytest.mark.parametrize("asked", ["random", "missing"])
def test_contains_bytes(asked: str, benchmark: Any, reader: Reader, workload: Workload) -> None:
    """Measure `Reader.contains`."""
    queries = getattr(workload, asked)
    assert benchmark(reader.contains, queries.keys).equals(queries.expected.is_valid())


@pytest.mark.parametrize("asked", ["ids", "missing_ids"])
def test_contains_keys(asked: str, benchmark: Any, store: LookupStore, workload: Workload) -> None:
    """Measure `LookupStore.contains`."""
    keys = getattr(workload, asked)
    stored = len(keys) if asked == "ids" else 0
    assert benchmark(store.contains, keys).true_count == stored


def test_contains_one(each: Callable[..., None], store: LookupStore, workload: Workload) -> None:
    """Measure `key in store`, in a Python loop over 1,000 keys."""
    keys = workload.ids.to_pylist()
    assert all(key in store for key in keys)
    each(store.__contains__, keys)
