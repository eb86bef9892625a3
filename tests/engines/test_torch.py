"""Datasets of stores without PyTorch: rows by position and by key, in several processes."""

from __future__ import annotations

import gc
import os
import pickle
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lookupstore
from lookupstore import torch as lookup_torch
from lookupstore.torch import LookupBatch, LookupDataset


def built(
    folder: Path, count: int, seed: int
) -> tuple[lookupstore.LookupStore, list[dict[str, Any]]]:
    """Build a store of random rows in random order; return its rows by key."""
    chance = random.Random(seed)
    ids = chance.sample(range(10 * count), count)
    rows = [
        {
            "id": at,
            "label": chance.randrange(9),
            "name": chance.choice(["", "ü", None, str(at)]),
            "vector": [chance.random() for _ in range(4)],
            "tags": [chance.choice("ab")] * chance.randrange(3),
        }
        for at in ids
    ]
    types = {"id": pa.int64(), "label": pa.int32(), "name": pa.string(),
             "vector": pa.list_(pa.float64(), 4), "tags": pa.list_(pa.string())}  # fmt: skip
    table = pa.Table.from_pylist(rows, pa.schema(types))
    store = lookupstore.build(table, folder / "store", key="id", buckets=3)
    return store, sorted(rows, key=lambda row: row["id"])


def without_key(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "id"} for row in rows]


def test_positions_are_those_of_the_keys_in_order(tmp_path: Path, seed: int) -> None:
    store, rows = built(tmp_path, 300, seed)
    wanted = without_key(rows)
    dataset = LookupDataset(store)
    assert len(dataset) == 300
    assert [dataset[at] for at in range(300)] == wanted
    assert dataset[-1] == wanted[-1]
    asked = [random.Random(seed).randrange(-300, 300) for _ in range(100)]
    batch = dataset.__getitems__(asked)
    assert isinstance(batch, LookupBatch)
    assert list(batch) == [wanted[at] for at in asked]
    assert (len(batch), batch[3], batch[2:4]) == (100, wanted[asked[3]], list(batch)[2:4])
    for wrong in (300, -301):
        with pytest.raises(IndexError, match=f"index {wrong}: the dataset has 300 rows"):
            dataset.__getitems__([0, wrong])


def test_given_keys_and_columns(tmp_path: Path, seed: int) -> None:
    store, rows = built(tmp_path, 100, seed)
    some = [rows[at] for at in (7, 3, 3, 50)]
    dataset = LookupDataset(store, ["label"], keys=[row["id"] for row in some])
    assert [dataset[at] for at in range(4)] == [{"label": row["label"]} for row in some]
    with pytest.raises(KeyError, match="no key -1 in "):
        LookupDataset(store, keys=[rows[0]["id"], -1])
    read_once = LookupDataset(store, "label", keys=iter([row["id"] for row in some]))
    assert list(read_once.__getitems__([0, 3])) == [{"label": some[at]["label"]} for at in (0, 3)]
    for wrong in ([1.5], [True], ["1"]):
        with pytest.raises(TypeError, match="positions are integers"):
            dataset.__getitems__(wrong)
    with pytest.raises(KeyError, match="no value column 'nope'"):
        LookupDataset(store, "nope")
    with pytest.raises(ValueError, match="samplers give the keys"):
        LookupDataset(store, keys=[1], by_key=True)


def test_rows_by_key(tmp_path: Path, seed: int) -> None:
    _, rows = built(tmp_path, 100, seed)
    wanted = {row["id"]: row for row in rows}
    dataset = LookupDataset(str(tmp_path / "store"), by_key=True)
    asked = random.Random(seed).choices([*wanted], k=30)
    assert list(dataset.__getitems__(asked)) == without_key([wanted[key] for key in asked])
    assert [dataset[asked[0]]] == without_key([wanted[asked[0]]])
    assert len(dataset) == 100
    with pytest.raises(KeyError, match="no key -7 in"):
        dataset.__getitems__([asked[0], -7])
    found = pa.table({"k": [1], "found": [True], "found_": [5]})
    with lookupstore.build(found, tmp_path / "found", key="k") as other:
        assert LookupDataset(other, by_key=True)[1] == {"found": True, "found_": 5}


def test_keys_of_several_columns(tmp_path: Path) -> None:
    rows = pa.table({"a": [2, 1, 1], "b": ["x", "z", "y"], "v": [1, 2, 3]})
    with lookupstore.build(rows, tmp_path / "s", key=["a", "b"]) as store:
        assert [row["v"] for row in LookupDataset(store).__getitems__([0, 1, 2])] == [3, 2, 1]
        assert LookupDataset(store, keys=[(2, "x")])[0] == {"v": 1}
        assert LookupDataset(store, by_key=True)[1, "z"] == {"v": 2}


@pytest.mark.parametrize("large", [False, True])
def test_other_processes_map_large_keys(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(lookup_torch, "_LARGE", 1000 if large else 1 << 20)
    store, rows = built(tmp_path, 300, seed)
    dataset = LookupDataset(store)
    pickled = pickle.dumps(dataset)
    assert pickle.dumps(dataset) == pickled  # one file for all workers
    files = list((tmp_path / "temporary").iterdir())
    assert len(files) == large
    assert (len(pickled) < 2000) == large
    program = (
        "import pickle, sys\n"
        "dataset = pickle.load(sys.stdin.buffer)\n"
        "sys.stdout.buffer.write(pickle.dumps(list(dataset.__getitems__([5, 299, 0]))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=pickled, capture_output=True, check=True,
        env={**os.environ, "PYTHONPATH": str(Path(lookupstore.__file__).parents[1])},
    )  # fmt: skip
    assert pickle.loads(done.stdout) == without_key([rows[5], rows[299], rows[0]])
    assert list((tmp_path / "temporary").iterdir()) == files  # no other process removes it
    del dataset
    gc.collect()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_batches_of_another_dataset_are_refused() -> None:
    """PyTorch gives a list of rows, for example those of a `ConcatDataset`."""
    rows: Any = [{"n": 1}]
    with pytest.raises(TypeError, match="batch is list; collate takes batches of a LookupDataset"):
        lookup_torch.collate(rows)
