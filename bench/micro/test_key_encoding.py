"""Key columns to the bytes of keys and back, by type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from columns import PLAIN, column, name
from conftest import SINGLE_KEYS

from lookupstore.keys.schema import KeySchema

KEYS = {
    **{name(kind): (kind,) for kind in PLAIN},
    "string-and-int64": (pa.string(), pa.int64()),
}
kinds = pytest.mark.parametrize("kinds", list(KEYS.values()), ids=list(KEYS))


def table_of(kinds: tuple[pa.DataType, ...], rows: int) -> pa.RecordBatch:
    """Return key columns of some types."""
    columns = [column(kind, rows) for kind in kinds]
    return pa.RecordBatch.from_arrays(columns, names=[f"k{i}" for i in range(len(kinds))])


@kinds
def test_key_encode(kinds: tuple[pa.DataType, ...], benchmark: Any, records: int) -> None:
    """Measure `csrc/ls_keys.c` by `KeySchema.encode`."""
    batch = table_of(kinds, records)
    assert len(benchmark(KeySchema(batch.schema).encode, batch)) == records


@kinds
def test_key_decode(kinds: tuple[pa.DataType, ...], benchmark: Any, records: int) -> None:
    """Measure `csrc/ls_keys.c` by `KeySchema.decode`."""
    batch = table_of(kinds, records)
    schema = KeySchema(batch.schema)
    assert benchmark(schema.decode, schema.encode(batch)).equals(batch)


@kinds
def test_key_encode_one(
    kinds: tuple[pa.DataType, ...], each: Callable[..., None], records: int
) -> None:
    """Measure `KeyEncoder.encode` by `KeySchema.encode_one`, in a loop over 1,000 keys."""
    batch = table_of(kinds, min(records, SINGLE_KEYS))
    schema = KeySchema(batch.schema)
    keys = [tuple(row.values()) if len(kinds) > 1 else row["k0"] for row in batch.to_pylist()]
    assert list(map(schema.encode_one, keys)) == schema.encode(batch).to_pylist()
    each(schema.encode_one, keys)
