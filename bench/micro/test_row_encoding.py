"""Value columns to the bytes of rows and back, by type; and four columns together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from columns import NESTED, PLAIN, column, name
from conftest import SINGLE_KEYS

import lookupstore
from lookupstore.rows.schema import RowSchema

ROWS = {
    **{name(kind): (kind,) for kind in (*PLAIN, *NESTED)},
    "four-columns": (pa.int64(), pa.float64(), pa.timestamp("us"), pa.string()),
}
kinds = pytest.mark.parametrize("kinds", list(ROWS.values()), ids=list(ROWS))


def batch_of(kinds: tuple[pa.DataType, ...], rows: int) -> pa.RecordBatch:
    """Return value columns of some types."""
    columns = [column(kind, rows) for kind in kinds]
    return pa.RecordBatch.from_arrays(columns, names=[f"v{i}" for i in range(len(kinds))])


@kinds
def test_row_pack(kinds: tuple[pa.DataType, ...], benchmark: Any, records: int) -> None:
    """Measure `csrc/ls_rows.c` by `RowSchema.pack`."""
    batch = batch_of(kinds, records)
    assert len(benchmark(RowSchema(batch.schema).pack, batch)) == records


@kinds
def test_row_unpack(kinds: tuple[pa.DataType, ...], benchmark: Any, records: int) -> None:
    """Measure `csrc/ls_rows.c` by `RowSchema.unpack`."""
    batch = batch_of(kinds, records)
    schema = RowSchema(batch.schema)
    unpacked = benchmark(schema.unpack, schema.pack(batch))
    assert unpacked.num_rows == records
    assert unpacked[:SINGLE_KEYS].to_pylist() == batch[:SINGLE_KEYS].to_pylist()


@kinds
def test_row_get(
    kinds: tuple[pa.DataType, ...], each: Callable[..., None], records: int, tmp_path: Path
) -> None:
    """Measure the decoding of one row to Python values by `LookupStore.get`, over 1,000 keys."""
    batch = batch_of(kinds, min(records, SINGLE_KEYS))
    keys = range(batch.num_rows)
    table = pa.Table.from_batches([batch]).add_column(0, "id", pa.array(keys))
    lookupstore.build(table, tmp_path / "store", key="id", buckets=1, progress=False)
    with lookupstore.open(tmp_path / "store") as store:
        assert list(map(store.get, keys)) == batch.to_pylist()
        each(store.get, list(keys))
