"""Tensors of batches, and loaders with workers: `make test-torch` runs this with PyTorch."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch.utils.data import DataLoader

import lookupstore
from lookupstore.torch import LookupBatch, LookupDataset, collate


def test_tensors_of_each_kind_of_column(seed: int) -> None:
    chance = np.random.default_rng(seed)
    matrix = chance.random((20, 6), dtype=np.float32)
    flat = pa.array(matrix.ravel())
    nested = pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(flat, 3), 2)
    table = pa.table(
        {
            "i": pa.array(range(20), pa.int32()),
            "f": chance.random(20),
            "b": [at % 3 == 0 for at in range(20)],
            "v": pa.FixedSizeListArray.from_arrays(flat, 6),
            "m": nested,
            "t": pa.FixedShapeTensorArray.from_numpy_ndarray(matrix.reshape(20, 2, 3)),
            "s": [str(at) for at in range(20)],
            "l": [[at] for at in range(20)],
        }
    )
    for part in (table, table.slice(5, 7)):
        found = collate(LookupBatch(part))
        assert [*found] == table.column_names
        rows = slice(5, 12) if part is not table else slice(0, 20)
        assert torch.equal(found["i"], torch.arange(20, dtype=torch.int32)[rows])
        assert found["f"].numpy().tolist() == part["f"].to_pylist()
        assert found["b"].tolist() == part["b"].to_pylist()
        assert np.array_equal(found["v"].numpy(), matrix[rows])
        for name in ("m", "t"):
            assert np.array_equal(found[name].numpy(), matrix.reshape(20, 2, 3)[rows])
        assert found["s"] == part["s"].to_pylist()
        assert found["l"] == part["l"].to_pylist()


def test_numbers_use_the_memory_of_the_batch() -> None:
    numbers = pa.array(range(1000), pa.int64())
    found = collate(LookupBatch(pa.table({"n": numbers})))["n"]
    assert found.data_ptr() == numbers.buffers()[1].address


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None]),
        pa.array([[1.0, None], [1.0, 2.0]], pa.list_(pa.float64(), 2)),
        pa.array([None, [1.0, 2.0]], pa.list_(pa.float64(), 2)),
        pa.array([[[1, 2], None]], pa.list_(pa.list_(pa.int8(), 2), 2)),
        pa.array([True, None]),
    ],
)
def test_nulls_are_refused(column: pa.Array) -> None:
    with pytest.raises(ValueError, match="column 'n' has nulls, which no tensor has"):
        collate(LookupBatch(pa.table({"n": column})))


@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_loaders_with_workers(tmp_path: Path, seed: int, context: str) -> None:
    count = 5000
    ids = random.Random(seed).sample(range(count), count)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(4.0 * count)), 4)
    rows = pa.table({"id": ids, "label": ids, "vector": vectors.take(pa.array(ids))})
    with lookupstore.build(rows, tmp_path / "s", key="id") as store:
        dataset = LookupDataset(store)
        loader = DataLoader(
            dataset, batch_size=128, shuffle=True, num_workers=2, collate_fn=collate,
            multiprocessing_context=context,
        )  # fmt: skip
        seen = []
        for batch in loader:
            labels = batch["label"]
            seen += labels.tolist()
            assert torch.equal(batch["vector"][:, 0], 4.0 * labels)
        assert sorted(seen) == list(range(count))
        plain = next(iter(DataLoader(dataset, batch_size=3)))  # with PyTorch's own collation
        assert plain["label"].tolist() == [0, 1, 2]
