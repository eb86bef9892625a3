"""Ask for random keys of a file once, in a process of its own, for `cold_disk.py`: prints JSON."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import lmdb
import numpy as np
import pyarrow as pa

from lookupstore.sst import Reader

OURS, LMDB, DISK = "lookupstore", "LMDB", "disk"
_PIECE = 8 << 10


def chunk(start: int, stop: int) -> tuple[pa.Array, pa.Array]:
    """Return the keys and values of some records, in the order of their keys."""
    numbers = np.arange(start, stop, dtype=np.int64)
    return keys_of(numbers), values_of(numbers)


def keys_of(numbers: np.ndarray) -> pa.Array:
    """Return keys of 8 bytes that sort like the numbers."""
    return _binary(numbers.astype(">u8").tobytes(), 8)


def values_of(numbers: np.ndarray) -> pa.Array:
    """Return 16 bytes for each number."""
    pairs = np.empty((len(numbers), 2), np.uint64)
    pairs[:, 0] = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    pairs[:, 1] = numbers
    return _binary(pairs.tobytes(), 16)


def _binary(data: bytes, width: int) -> pa.Array:
    offsets = np.arange(0, len(data) + 1, width, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def from_disk() -> int:
    """Return the bytes that this process has had read from disks."""
    found = re.search(r"^read_bytes: (\d+)$", Path("/proc/self/io").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


def ours(path: str, numbers: np.ndarray) -> Callable[[], object]:
    reader, keys = Reader(path), keys_of(numbers)
    reader.lookup(keys[:0])  # what the first call of a process imports
    return lambda: reader.lookup(keys)


def theirs(path: str, numbers: np.ndarray) -> Callable[[], object]:
    folder, keys = str(Path(path).parent), keys_of(numbers).to_pylist()
    environment = lmdb.open(folder, map_size=64 << 30, readonly=True, lock=False, readahead=False)
    get = environment.begin().get
    return lambda: [get(key) for key in keys]


def disk(path: str, numbers: np.ndarray) -> Callable[[], object]:
    descriptor, size = os.open(path, os.O_RDONLY), os.path.getsize(path)
    # Other places in each round: below a virtual machine, disks have caches, too.
    chance = np.random.default_rng([len(numbers), *numbers[:4]])
    places = sorted(_PIECE * chance.integers(0, size // _PIECE, len(numbers)))

    def read() -> None:
        for place in places:
            os.posix_fadvise(descriptor, place, _PIECE, os.POSIX_FADV_WILLNEED)
        for place in places:
            os.pread(descriptor, _PIECE, place)

    return read


def main(name: str, path: str, records: str, count: str, seed: str) -> None:
    numbers = np.random.default_rng(int(seed)).integers(0, int(records), int(count))
    ask = {OURS: ours, LMDB: theirs, DISK: disk}[name](path, numbers)
    before, start = from_disk(), time.perf_counter()
    answers = ask()
    seconds, read = time.perf_counter() - start, from_disk() - before
    if name != DISK:
        found = answers.to_pylist() if isinstance(answers, pa.Array) else answers
        assert found == values_of(numbers).to_pylist()
    print(json.dumps({"seconds": seconds, "bytes": read}))


if __name__ == "__main__":
    main(*sys.argv[1:])
