"""Batches of training data as tensors: `lookupstore.torch`, LMDB with pickle, and Ray's dataset.

Each row has a vector of float32 and a label; a batch is of random rows. The seconds are those from
the positions to the tensors. Ray's dataset is asked for the same keys if ray is installed and has
it. `--workers` processes then read batches in a spawned worker each; the table has the memory of
each that is its own, beyond that of a worker which has read a small dataset.
"""

from __future__ import annotations

import multiprocessing
import pickle
import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lmdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from bars import Bar, Measurement, Subject
from growth_once import private
from harness import Run, add_json_lines, clocked, command_line, in_turns

import lookupstore
from lookupstore.torch import LookupDataset, collate

OURS, LMDB, RAY = "lookupstore", "LMDB and pickle", "Ray's RandomAccessDataset"
ITEMS = "items"

BARS = [Bar("batches as tensors", "rows", ITEMS, OURS, 10, LMDB)]
#: Largest share of the files and keys that a further worker may have as memory of its own.
MOST_SHARE = 0.05

Batch = dict[str, Any]
Positions = npt.NDArray[np.int64]


def rows_of(numbers: Positions, width: int) -> pa.Table:
    """Return rows by number: the vector of row i begins with i."""
    vectors = np.random.default_rng(1).random((len(numbers), width), dtype=np.float32)
    vectors[:, 0] = numbers
    flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), width)
    return pa.table({"id": numbers, "vector": flat, "label": numbers % 10})


def check(batch: Batch, positions: Positions) -> None:
    """Check that tensors are those of the asked rows."""
    assert np.array_equal(batch["vector"][:, 0].numpy(), positions.astype(np.float32))
    assert np.array_equal(batch["label"].numpy(), positions % 10)


class LmdbDataset:
    """A dataset as its users write it: a transaction that stays open, and a pickle for each row.

    Args:
        path: Folder of the environment.
        count: Number of rows.
    """

    def __init__(self, path: str, count: int) -> None:
        self._environment = lmdb.open(path, readonly=True, lock=False, readahead=False)
        self._transaction = self._environment.begin(buffers=True)
        self._count = count

    @staticmethod
    def write(path: str, table: pa.Table, width: int) -> None:
        """Write the rows of a table."""
        vectors = table["vector"].combine_chunks().flatten().to_numpy().reshape(-1, width)
        labels = table["label"].to_numpy()
        with (
            lmdb.open(path, map_size=1 << 36, writemap=True) as environment,
            environment.begin(write=True) as transaction,
        ):
            for number, label in enumerate(labels):
                value = pickle.dumps((vectors[number], int(label)))
                transaction.put(number.to_bytes(8, "big"), value, append=True)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, position: int) -> dict[str, Any]:
        found = self._transaction.get(int(position).to_bytes(8, "big"))
        vector, label = pickle.loads(found)
        return {"vector": torch.from_numpy(vector), "label": label}


def of_lmdb(dataset: LmdbDataset, positions: Positions) -> Batch:
    """Return a batch by torch's own collation."""
    batch: Batch = torch.utils.data.default_collate([dataset[one] for one in positions.tolist()])
    return batch


def of_ours(dataset: LookupDataset, positions: Positions) -> Batch:
    """Return a batch by ours."""
    return collate(dataset.__getitems__(positions))


def of_ray(dataset: Any, positions: Positions) -> Batch:
    """Return a batch of Ray's, whose rows have lists."""
    rows = dataset.multiget(positions.tolist())
    vectors = np.array([row["vector"] for row in rows], np.float32)
    labels = np.array([row["label"] for row in rows])
    return {"vector": torch.from_numpy(vectors), "label": torch.from_numpy(labels)}


def ray_dataset(table: pa.Table) -> Any:
    """Return Ray's dataset of the rows. None: ray is not installed, or has no such dataset."""
    try:
        import ray.data
    except ImportError:
        return None
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    made = ray.data.from_arrow(table)
    if not hasattr(made, "to_random_access_dataset"):
        return None
    return made.to_random_access_dataset("id", num_workers=2)


def batches(rows: int, size: int, count: int, seed: int) -> Iterator[Positions]:
    """Yield positions of random rows."""
    chance = np.random.default_rng(seed)
    for _ in range(count):
        yield chance.integers(0, rows, size)


def read(take: Callable[[Positions], Batch], rows: int, size: int, count: int, seed: int) -> None:
    """Read batches, and use a number of each."""
    for positions in batches(rows, size, count, seed):
        take(positions)["label"].sum()


def touch(dataset: LookupDataset) -> None:
    """Let a process have what it needs for any dataset: modules, and the memory of a batch."""
    few = dataset.store.scan().read_next_batch().slice(0, 100)
    with TemporaryDirectory() as folder:
        with lookupstore.build(few, f"{folder}/few", key="id", progress=False) as store:
            batch = of_ours(LookupDataset(store), np.resize(np.arange(len(few)), 1024))
        torch.utils.data.default_collate([batch])


def worker(name: str, path: str, dataset: Any, rows: int, size: int, count: int, seed: int) -> int:
    """Return how much more memory of its own a process has after reading batches."""
    touch(dataset)
    before = private()
    opened = LmdbDataset(path, rows) if name == LMDB else dataset
    take = partial(of_lmdb if name == LMDB else of_ours, opened)
    read(take, rows, size, count, seed)
    return private() - before


def memory_of(name: str, workers: int, *what: Any) -> list[int]:
    """Return the memory of each of several workers that read at the same time."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers) as pool:
        # One at a time to each: a pool could give two to one process.
        asked = [pool.apply_async(worker, (name, *what, seed)) for seed in range(workers)]
        return [one.get() for one in asked]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print items a second, the bar, and the memory of workers."""
    parser = command_line("make bench-torch", __doc__, rounds=5, rows=1_000_000)
    parser.add_argument("--width", type=int, default=64, help="of a vector (%(default)s)")
    parser.add_argument("--batch", type=int, default=1024, help="rows of a batch (%(default)s)")
    parser.add_argument("--batches", type=int, default=200, help="a round (%(default)s)")
    parser.add_argument("--workers", type=int, default=8, help="for memory (%(default)s)")
    add_json_lines(parser, "torch-dataset.jsonl")
    asked = parser.parse_args(arguments)
    rows, size, count = asked.rows, asked.batch, asked.batches
    run = Run({"rows": rows, "width": asked.width, "batch": size, "torch": torch.__version__})
    table = rows_of(np.arange(rows), asked.width)
    with TemporaryDirectory() as folder:
        store, path = str(Path(folder, "store")), str(Path(folder, "lmdb"))
        lookupstore.build(table, store, key="id", progress=False).close()
        LmdbDataset.write(path, table, asked.width)
        dataset = LookupDataset(store)
        takes: dict[str, Callable[[Positions], Batch]] = {
            OURS: partial(of_ours, dataset), LMDB: partial(of_lmdb, LmdbDataset(path, rows)),
        }  # fmt: skip
        of_ray_made = ray_dataset(table)
        if of_ray_made is not None:
            takes[RAY] = partial(of_ray, of_ray_made)
        for take in takes.values():
            for positions in batches(rows, size, 1, 0):
                check(take(positions), positions)
        runs = {name: clocked(partial(read, take, rows, size, count, 1))
                for name, take in takes.items()}  # fmt: skip
        for name, seconds in in_turns(runs, asked.rounds, uncounted=1).items():
            run.add(Measurement(Subject("rows", ITEMS, name), seconds, size * count))
        lacking = {} if of_ray_made else {Subject("rows", ITEMS, RAY): "not installed, or removed"}
        run.judge(BARS, lacking)
        # What all workers share: the files, and the keys.
        shared = lookupstore.open(store).info().bytes + 8 * rows
        print(f"\nmemory of each of {asked.workers} spawned workers, beside {shared / 1e6:.0f} MB")
        for name in (OURS, LMDB):
            own = memory_of(name, asked.workers, path, dataset, rows, size, count)
            share = statistics.median(own) / shared
            verdict = ("met" if share < MOST_SHARE else "NOT MET") if name == OURS else ""
            print(f"{name:20}{statistics.median(own) / 1e6:8.1f} MB {share:7.1%}  {verdict}")
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
