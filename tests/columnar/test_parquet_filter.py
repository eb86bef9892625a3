"""Bloom filters that Arrow and DuckDB write into Parquet files, read by `read_filter`."""

from __future__ import annotations

import io
import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lookupstore.columnar.parquet_filter import none_of, read_filter

ROWS = 2000


def of_arrow(path: Path, keys: pa.Array) -> None:
    pq.write_table(
        pa.table({"k": keys}), path, bloom_filter_options={"k": {"ndv": ROWS, "fpp": 0.01}}
    )


def of_duckdb(path: Path, keys: pa.Array) -> None:
    """Write repeated keys, too: DuckDB makes filters for columns with dictionaries."""
    rows = pa.table({"k": pa.concat_arrays([keys] * 10)})
    database = duckdb.connect()
    database.register("rows", rows)
    database.execute(f"copy (select k from rows) to '{path}' (format parquet)")


@pytest.mark.parametrize("writer", [of_arrow, of_duckdb])
@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.string()], ids=str)
def test_keys_that_are_there_may_be_and_most_others_are_not(
    writer: object, kind: pa.DataType, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    numbers = rng.sample(range(1 << 30), 2 * ROWS)
    there, missing = (pa.array(half).cast(kind) for half in (numbers[:ROWS], numbers[ROWS:]))
    path = tmp_path / "x.parquet"
    writer(path, there)  # type: ignore[operator]
    content = path.read_bytes()
    column = pq.read_metadata(path).row_group(0).column(0)
    offset, length = column.bloom_filter_offset, column.bloom_filter_length
    assert offset is not None
    # With what follows the filter, and as the end of what there is.
    for end in (len(content), offset + (length or len(content) - offset)):
        file = pa.PythonFile(io.BytesIO(content[:end]), mode="r")
        found = read_filter(file, offset, length, end)
        assert found is not None
        assert not any(none_of(found, there[i : i + 1], column.physical_type) for i in range(ROWS))
        ruled_out = sum(
            none_of(found, missing[i : i + 1], column.physical_type) for i in range(ROWS)
        )
        assert ruled_out > 0.9 * ROWS


def test_headers_that_are_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    of_arrow(path, pa.array(range(ROWS)))
    content = path.read_bytes()
    column = pq.read_metadata(path).row_group(0).column(0)
    offset, length = column.bloom_filter_offset, column.bloom_filter_length

    def read(data: bytes, length: int | None, nbytes: int) -> object:
        return read_filter(pa.PythonFile(io.BytesIO(data), mode="r"), offset, length, nbytes)

    assert read(content, None, len(content)) is not None
    assert read(content, length, len(content)) is not None
    assert read(content, length + 1, len(content)) is None
    assert read(content, None, offset + length - 1) is None  # it would end behind the file
    assert read(content, None, offset) is None
    odd = bytearray(content)
    odd[offset + 1] ^= 2  # a size that is one more or less
    assert read(bytes(odd), None, len(content)) is None
    for at in range(offset, offset + 16):  # the header; its first bytes are the size
        damaged = bytearray(content)
        damaged[at] ^= 0x40
        assert read(bytes(damaged), length, len(content)) is None, at - offset
