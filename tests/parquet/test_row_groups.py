"""Row groups without rows, as writers make them that are given an empty batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lookupstore import ColumnarFiles, build

SCHEMA = pa.schema({"id": pa.int64(), "b": pa.bool_(), "s": pa.string(), "x": pa.float32()})


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_they_are_nothing(tmp_path: Path, at: int, dictionary: bool) -> None:
    path = tmp_path / "a.parquet"
    rows = pa.table(
        {"id": [1, 2, 3], "b": [True, None, False], "s": ["x", "", None], "x": [0.5, None, 1.5]},
        schema=SCHEMA,
    )
    parts = [rows.slice(0, 2), rows.slice(2)]
    parts.insert(at, rows.slice(0, 0))
    with pq.ParquetWriter(path, SCHEMA, use_dictionary=dictionary) as writer:
        for part in parts:
            writer.write_table(part)
    assert [pq.read_metadata(path).row_group(group).num_rows for group in range(3)].count(0) == 1
    store = build(path, tmp_path / "store", key="id")
    assert pa.Table.from_batches(store.scan()).to_pylist() == rows.to_pylist()
    with ColumnarFiles(path, key="id", columns=["b", "s", "x"]) as files:
        assert files.lookup([3, 9, 1]).to_pylist() == [
            {"b": False, "s": None, "x": 1.5},
            {"b": None, "s": None, "x": None},
            {"b": True, "s": "x", "x": 0.5},
        ]
