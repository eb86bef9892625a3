"""The estimate of a store's size beside stores that are built."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lookupstore import build
from lookupstore.builder.size import store_size

ROWS = 40_000
NUMBERS = pa.array(np.arange(ROWS))
TEXTS = pa.array([f"key-{i:016d}" for i in range(ROWS)])
SHAPES = {
    "numbers": (NUMBERS, 8, {"a": NUMBERS, "b": NUMBERS}, 16),
    "keys alone": (NUMBERS.cast(pa.int32()), 4, {}, 0),
    "text keys": (TEXTS, 20, {"a": NUMBERS}, 8),
    "text values": (TEXTS, 20, {"a": NUMBERS, "b": pa.array(["x" * 200] * ROWS)}, 212),
    "long rows": (NUMBERS, 8, {"a": pa.array(["x" * 3000] * ROWS)}, 3004),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_estimate_is_near_what_is_built(tmp_path: Path, shape: str) -> None:
    keys, key_bytes, columns, value_bytes = SHAPES[shape]
    build(pa.table({"key": keys, **columns}), tmp_path / "s", key="key").close()
    (file,) = (tmp_path / "s" / "data").glob("*.sst")
    found = store_size(ROWS, key_bytes, value_bytes)
    assert found.data_bytes == pytest.approx(file.stat().st_size, rel=0.02)
    assert found.buckets == 1
    assert found.table_bytes == 8 * ROWS


def test_many_rows_need_many_buckets() -> None:
    found = store_size(10_000_000_000, 8, 16)
    assert found.buckets == -(-found.data_bytes // (512 << 20)) > 500


@pytest.mark.parametrize("name", ["rows", "key_bytes", "value_bytes"])
def test_negative_numbers_are_refused(name: str) -> None:
    given = {"rows": 1, "key_bytes": 1, "value_bytes": 1, name: -1}
    with pytest.raises(ValueError, match=f"{name} is -1; give a number of at least 0"):
        store_size(**given)
