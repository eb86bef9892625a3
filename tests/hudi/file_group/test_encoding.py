"""Row groups that are encoded in memory, also where that takes more than the rows do."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lookupstore.hudi.file_group.encoding import ColumnEncoding
from lookupstore.parquet.new_file import NewParquetFile


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_rows_that_are_larger_when_they_are_encoded(codec: str, monkeypatch: Any) -> None:
    """A text that 200,000 rows share is there as often in pages without a dictionary."""
    growing = []
    stream = pa.BufferOutputStream
    monkeypatch.setattr(pa, "BufferOutputStream", lambda: growing.append(1) or stream())
    few = pa.table({"n": pa.array(range(1000)), "text": ["a", "b"] * 500})
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * 200_000, pa.int32()), ["x" * 50])
    for rows, is_larger in ((few, False), (pa.table({"text": shared}), codec == "none")):
        encoded = ColumnEncoding([], codec).encode(rows)
        assert bool(growing) == is_larger
        file = io.BytesIO()
        into = NewParquetFile(file, encoded.footer)
        for count, chunks in encoded.groups():
            into.append(count, chunks)
        into.finish({})
        found = pq.read_table(file)
        assert found.equals(rows.cast(found.schema))
