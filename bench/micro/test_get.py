"""One key a call, in a Python loop over 1,000 keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from workloads import Workload

from lookupstore import LookupStore
from lookupstore.sst import Reader


@pytest.mark.parametrize("asked", ["random", "missing"])
def test_get_bytes(
    asked: str, each: Callable[..., None], reader: Reader, workload: Workload
) -> None:
    """Measure `Reader.get`."""
    queries = getattr(workload, asked)
    assert [reader.get(key) for key in queries.listed] == queries.expected.to_pylist()
    each(reader.get, queries.listed)


@pytest.mark.parametrize("columns", [None, 1], ids=["all-columns", "one-column"])
def test_get_row(
    columns: int | None, each: Callable[..., None], store: LookupStore, workload: Workload
) -> None:
    """Measure `LookupStore.get`, which returns four columns or one as Python values."""
    wanted: Any = workload.expected_rows.column_names[:columns]
    keys = workload.ids.to_pylist()
    get = partial(store.get, columns=wanted)
    right = workload.expected_rows.select(wanted).to_pylist()
    assert [get(key) for key in keys] == right
    each(get, keys)
