"""Writing a file, from its first record to its name; fsync is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import SINGLE_KEYS
from workloads import Workload

from lookupstore.sst import Reader, Writer


@pytest.mark.parametrize("options", [{}, {"compression": "zstd"}], ids=["none", "zstd"])
def test_put_many(options: Any, benchmark: Any, workload: Workload, tmp_path: Path) -> None:
    """Measure `Writer.put_many` of all records."""
    path = tmp_path / "records.sst"

    def write() -> None:
        with Writer(path, overwrite=True, **options) as writer:
            writer.put_many(workload.keys, workload.values)

    benchmark(write)
    with Reader(path) as reader:
        assert len(reader) == len(workload)


def test_put(benchmark: Any, workload: Workload, tmp_path: Path) -> None:
    """Measure `Writer.put` in a Python loop over 1,000 records."""
    path = tmp_path / "records.sst"
    keys, values = (listed[:SINGLE_KEYS] for listed in workload.listed)

    def write() -> None:
        with Writer(path, overwrite=True) as writer:
            for key, value in zip(keys, values, strict=True):
                writer.put(key, value)

    benchmark(write)
    with Reader(path) as reader:
        assert dict(reader.items()) == dict(zip(keys, values, strict=True))
