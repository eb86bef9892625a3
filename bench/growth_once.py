"""Ask a store in a process of its own, for `growth.py`: prints JSON.

Arguments: what to do, the store, its rows, the keys of a call, a seed, the number of calls. After
its calls the process keeps the store open until its standard input ends.
"""

from __future__ import annotations

import gc
import json
import re
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from cold_disk_once import from_disk

import lookupstore

COLD, CALLS, WARM = "cold", "calls", "warm"
#: Share of the keys of a call that the store does not have.
MISSING = 0.1


def rows_of(numbers: np.ndarray) -> pa.RecordBatch:
    """Return a row for each number: 8 bytes of key and 16 of values."""
    scattered = (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)
    return pa.record_batch({"key": numbers, "a": scattered, "b": numbers})


def memory(process: int | str = "self") -> dict[str, int]:
    """Return the bytes of memory of a process, by the names that Linux has for them."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text()
    return {
        name: 1024 * int(kib)
        for name, kib in re.findall(r"^(Rss|Pss|Anonymous): +(\d+) kB$", text, re.MULTILINE)
    }


def private() -> int:
    """Return the bytes of anonymous memory in use, after what was freed went to the system."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    return memory()["Anonymous"]


class Asker:
    """Random keys of a store, some in each call: one of ten is missing.

    Args:
        path: the store.
        rows: Number of rows of the store; its keys are the first even numbers.
        count: keys in a call.
        seed: Seed of the random numbers.
    """

    def __init__(self, path: str, rows: int, count: int, seed: int) -> None:
        self._rows, self._count = rows, count
        self._chance = np.random.default_rng(seed)
        # What these need once is not the store's.
        self._stored(self._keys())
        assert lookupstore.LookupStore.lookup
        assert lookupstore.build  # which `_touch` calls, and a worker does not import
        self.before = private()
        self.store = lookupstore.open(path)
        self.store.lookup(pa.array([], pa.int64()))  # what the first call of a process imports
        self._touch()

    def _keys(self) -> np.ndarray:
        keys = 2 * self._chance.integers(0, self._rows, self._count)
        keys[self._chance.random(self._count) < MISSING] += 1
        return keys

    @staticmethod
    def _stored(numbers: np.ndarray) -> pa.Array:
        """Return the keys, null where the store does not have them."""
        return pa.array(numbers, mask=numbers % 2 == 1)

    def _touch(self) -> None:
        """Let the process use the memory of an answer, by a call to a small store.

        A virtual machine may take 60 ms to give a process its first 24 MB, whoever asks.
        """
        few = np.arange(1000)
        with TemporaryDirectory() as folder:
            other = lookupstore.build(rows_of(few), f"{folder}/other", key="key", progress=False)
            with other:
                other.lookup(pa.array(np.resize(few, self._count)))

    def call(self) -> tuple[float, float]:
        """Return the seconds of a call, and those of processors; answers are compared."""
        numbers = self._keys()
        keys, stored = pa.array(numbers), self._stored(numbers)
        start, processor = time.perf_counter(), time.process_time()
        answers = self.store.lookup(keys)
        found = time.perf_counter() - start, time.process_time() - processor
        assert answers["b"].combine_chunks().equals(stored)
        return found


def main(
    verb: str, path: str, rows: str, count: str = "0", seed: str = "0", calls: str = "1"
) -> None:
    asker = Asker(path, int(rows), int(count), int(seed))
    if verb == WARM:
        start = time.perf_counter()
        assert asker.store.warm(progress=False)
        print(json.dumps({"seconds": time.perf_counter() - start}))
        return
    if verb == COLD:
        before = from_disk()
        seconds, _ = asker.call()
        print(json.dumps({"seconds": seconds, "bytes": from_disk() - before}))
        return
    seconds, processor = zip(*(asker.call() for _ in range(int(calls))), strict=True)
    used = private() - asker.before
    print(json.dumps({"seconds": seconds, "processor": processor, "private": used}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
