"""Ask for keys of a file, some in each call, for `limited.py`: prints JSON.

Arguments: the contender, its file, a NumPy file of numbers, the keys in a call. The first third of
the calls is not counted.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import lmdb
import numpy as np
import pyarrow as pa
from cold_disk_once import LMDB, OURS, from_disk, keys_of, values_of

from lookupstore.sst import Reader


def ours(path: str) -> Callable[[pa.Array], object]:
    return Reader(path).lookup


def theirs(path: str) -> Callable[[list[bytes]], object]:
    environment = lmdb.open(
        path, map_size=64 << 30, subdir=False, readonly=True, lock=False, readahead=False
    )
    get = environment.begin().get
    return lambda keys: [get(key) for key in keys]


def listed(one: object) -> object:
    """Return an Arrow array as a list, and a list as it is."""
    return one.to_pylist() if isinstance(one, pa.Array) else one


def main(name: str, path: str, numbers: str, count: str) -> None:
    ask = {OURS: ours, LMDB: theirs}[name](path)
    batches = np.load(numbers).reshape(-1, int(count))
    seconds, read = [], []
    for batch in batches:
        keys = keys_of(batch)
        asked = listed(keys) if name == LMDB else keys
        before, start = from_disk(), time.perf_counter()
        answers = ask(asked)
        seconds.append(time.perf_counter() - start)
        read.append(from_disk() - before)
        assert listed(answers) == listed(values_of(batch))
    counted = len(batches) - len(batches) // 3
    total = {"seconds": sum(seconds[-counted:]), "bytes": sum(read[-counted:])}
    print(json.dumps({**total, "keys": counted * int(count)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
