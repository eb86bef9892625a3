"""Chosen rows of Parquet files, beside rows taken from the whole table."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lookupstore import CorruptionError
from lookupstore.parquet.arrow_file import ParquetRows
from lookupstore.parquet.chosen_rows import ChosenRows
from lookupstore.parquet.ending import ParquetEnding


class Parts:
    """A file of which parts are read, and counted."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.nbytes = 0
        self.calls = 0

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.calls += 1
        self.nbytes += sum(size for _, size in ranges)
        return [self.content[offset : offset + size] for offset, size in ranges]


def written(rows: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(rows, file, **options)
    return file.getvalue()


def in_groups(chosen: np.ndarray[Any, Any], counts: Sequence[int]) -> list[tuple[int, Any]]:
    found, start = [], 0
    for number, count in enumerate(counts):
        own = chosen[(chosen >= start) & (chosen < start + count)] - start
        if len(own):
            found.append((number, own))
        start += count
    return found


def chosen_of(
    content: bytes, names: list[str], chosen: np.ndarray[Any, Any], nbytes: int = 64 << 10
) -> tuple[pa.Table, Parts]:
    ending = ParquetEnding(pa.BufferReader(content), "x.parquet", nbytes)
    there = ParquetRows(pa.BufferReader(content), "x.parquet").schema
    rows = ChosenRows(ending, names, there, "x.parquet")
    groups = in_groups(chosen, [one.rows for one in ending.footer.groups])
    assert rows.can_be_read(groups)
    parts = Parts(content)
    batches = list(rows.batches(groups, parts.read))
    schema = pa.schema([there.field(name) for name in names])
    return pa.Table.from_batches(batches, schema), parts


def random_rows(chance: random.Random, count: int) -> pa.Table:
    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.1 else value

    ids = [chance.randrange(1 << 40) for _ in range(count)]
    return pa.table({
        "id": pa.array(ids, pa.int64()),
        "small": pa.array([maybe(one % 50) for one in ids], pa.int32()),
        "nested": pa.array([{"a": one} for one in ids]),
        "text": pa.array([maybe(f"t{one % chance.choice([9, 10**9])}") for one in ids]),
        "wide": pa.array([f"w{one}" for one in ids], pa.large_string()),
        "bytes": pa.array([maybe(str(one).encode()) for one in ids]),
        "at": pa.array(ids, pa.timestamp("us", "UTC")),
        "money": pa.array([maybe(Decimal(one) / 100) for one in ids], pa.decimal128(20, 2)),
        "flag": pa.array([maybe(one % 2 == 0) for one in ids]),
        "fixed": pa.array([(one % 251).to_bytes(4, "big") for one in ids], pa.binary(4)),
        "none": pa.nulls(count, pa.float64()),
    })  # fmt: skip


@pytest.mark.parametrize("number", range(30))
def test_chosen_rows_are_those_of_the_table(seed: int, number: int) -> None:
    chance = random.Random(seed + number)
    count = chance.choice([1, 10, 3000])
    rows = random_rows(chance, count)
    content = written(
        rows,
        row_group_size=chance.choice([1, 700, 5000]) if count > 10 else 5000,
        data_page_size=chance.choice([100, 5000, 1 << 20]),
        write_page_index=chance.random() < 0.8,
        data_page_version=chance.choice(["1.0", "2.0"]),
        use_dictionary=chance.choice([True, False, ["text", "id"]]),
        dictionary_pagesize_limit=chance.choice([500, 1 << 20]),
        compression=chance.choice(["snappy", "zstd", "none", "gzip"]),
        write_page_checksum=chance.random() < 0.5,
        store_schema=chance.random() < 0.7,
        write_batch_size=chance.choice([10, 1024]),
    )
    names = [name for name in rows.column_names if name != "nested" and chance.random() < 0.5]
    names = names or ["id"]
    chance.shuffle(names)
    chosen = np.array(sorted(chance.sample(range(count), chance.randint(1, min(count, 40)))))
    found, _ = chosen_of(content, names, chosen, chance.choice([8, 64 << 10]))
    expected = pq.read_table(pa.BufferReader(content)).select(names).take(pa.array(chosen))
    assert found.to_pylist() == expected.to_pylist()
    assert found.schema.types == expected.schema.types


def test_only_pages_of_the_rows_are_read() -> None:
    ids = pa.array(np.random.default_rng(3).permutation(100_000))
    rows = pa.table({"id": ids, "n": ids})
    for index, most in ((True, 0.03), (False, 0.6)):
        content = written(
            rows, write_page_index=index, use_dictionary=False, data_page_size=8192,
            compression="none", row_group_size=50_000,
        )  # fmt: skip
        found, parts = chosen_of(content, ["id"], np.array([7, 99_000]))
        assert found["id"].to_pylist() == [ids[7].as_py(), ids[99_000].as_py()]
        assert parts.calls == 1
        assert parts.nbytes < most * len(content)


def test_a_large_index_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip("lookupstore.parquet.chosen_rows")
    rows = pa.table({"id": range(10_000)})
    content = written(
        rows, write_page_index=True, use_dictionary=False, data_page_size=400,
        compression="none", write_batch_size=10,
    )  # fmt: skip
    chosen = np.array([7, 9000])
    for most, is_read in ((1 << 20, True), (2000, False)):
        monkeypatch.setattr(module, "_MOST_INDEX", most)
        found, parts = chosen_of(content, ["id"], chosen)
        assert found["id"].to_pylist() == chosen.tolist()
        assert (parts.nbytes < 3000) == is_read


def test_pages_of_many_groups_are_read_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip("lookupstore.parquet.chosen_rows")
    monkeypatch.setattr(module, "_MOST_BYTES", 9000)
    rows = pa.table({"id": range(10_000)})
    content = written(rows, use_dictionary=False, compression="none", row_group_size=1000)
    chosen = np.arange(0, 10_000, 250)
    found, parts = chosen_of(content, ["id"], chosen)
    assert found["id"].to_pylist() == chosen.tolist()
    assert parts.calls == 10


def test_an_index_that_does_not_agree_is_not_used(seed: int) -> None:
    """Every bit of an index is changed; the rows stay the same."""
    rows = pa.table({"id": range(0, 3000, 3)})
    content = written(
        rows, write_page_index=True, use_dictionary=False, data_page_size=400,
        compression="none", write_batch_size=10,
    )  # fmt: skip
    ending = ParquetEnding(pa.BufferReader(content), "x.parquet")
    module = pytest.importorskip("lookupstore.parquet.chosen_rows")
    reader = ChosenRows(ending, ["id"], rows.schema, "x.parquet")
    (index,) = reader._indexes_of([(0, 0)], Parts(content).read)
    assert len(module._pages(index, ending.footer.groups[0].columns[0], 1000)) > 10
    start = content.index(index)
    chosen = np.array([1, 400, 990])
    for bit in range(8 * len(index)):
        changed = bytearray(content)
        changed[start + bit // 8] ^= 1 << bit % 8
        found, _ = chosen_of(bytes(changed), ["id"], chosen)
        assert found["id"].to_pylist() == [3, 1200, 2970], bit


def test_columns_that_are_not_flat_are_left_to_arrow() -> None:
    rows = pa.table({
        "id": [1, 2], "list": [[1], [2]], "struct": [{"a": 1}, {"a": 2}],
        "kind": pa.array(["a", "b"]).dictionary_encode(),
    })  # fmt: skip
    ending = ParquetEnding(pa.BufferReader(written(rows)), "x.parquet")
    for names in (["list"], ["id", "struct"], ["kind"]):
        reader = ChosenRows(ending, names, rows.schema, "x.parquet")
        assert not reader.can_be_read([(0, np.array([0]))])
    assert ChosenRows(ending, ["id"], rows.schema, "x.parquet").can_be_read([])


def test_damaged_pages_are_named() -> None:
    rows = pa.table({"id": range(1000)})
    content = bytearray(
        written(rows, write_page_index=True, use_dictionary=False, compression="none",
                write_page_checksum=True)
    )  # fmt: skip
    content[500] ^= 1
    with pytest.raises((CorruptionError, OSError), match=r"CRC|checksum|x\.parquet"):
        chosen_of(bytes(content), ["id"], np.array([3]))
