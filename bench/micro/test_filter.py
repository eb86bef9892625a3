"""The filter of a file, in each of its kinds: tests of keys, and its making."""

from __future__ import annotations

from typing import Any

import pytest
from workloads import Workload

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.sst._filter import Filter, FilterBuilder, paimon_size, split_block_size

FALSE_POSITIVES = 0.05
SIZES = {"split-block-xxh64": split_block_size, "paimon-murmur3": paimon_size}
kinds = pytest.mark.parametrize("kind", list(SIZES))


def made(kind: str, keys: BinaryColumn) -> bytes:
    """Return the filter of some keys."""
    builder = FilterBuilder(kind)
    builder.add_many(keys, 0, len(keys))
    return builder.finish(SIZES[kind](len(keys), FALSE_POSITIVES), len(keys))


@kinds
def test_filter_make(kind: str, benchmark: Any, workload: Workload) -> None:
    """Measure `ls_filter_hash` and the filter's `add_many` by `FilterBuilder`."""
    assert benchmark(made, kind, BinaryColumn(workload.keys))


@kinds
@pytest.mark.parametrize("asked", ["random", "missing"])
def test_filter_test(kind: str, asked: str, benchmark: Any, workload: Workload) -> None:
    """Measure `ls_filter_test` by `Filter.hides`, which counts the keys that are absent."""
    keys = BinaryColumn(workload.keys)
    filter = Filter(kind, made(kind, keys), len(keys))
    queries = BinaryColumn(getattr(workload, asked).keys)
    hidden = benchmark(filter.hides, queries)
    assert hidden == 0 if asked == "random" else hidden > 0.8 * len(queries)
