"""What sorted files of bytes cost, once, in a process of its own: for `paimon.py --before`.

Arguments: a workload, records, queries. Prints JSON: the seconds of each verb, its operations, and
the folder that the package was imported from. Nothing but what every commit has is used.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from workloads import WORKLOADS, Workload

import lookupstore
from lookupstore.sst import Reader, Writer
from lookupstore.sst.cache import BlockCache

MOST_GETS = 100_000
#: Each verb is done so often, and the least time counts: two commits are compared on one machine,
#: and nothing but others makes one of them slower than it is.
TIMES = 3


def measure(dialect: str, workload: Workload, path: Path) -> dict[str, tuple[int, float]]:
    """Return operations and seconds of each verb."""
    found: dict[str, tuple[int, float]] = {}

    def clock(verb: str, operations: int, run: Callable[[], object]) -> None:
        times = []
        for _ in range(TIMES):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        found[f"bytes {dialect} {verb}"] = operations, min(times)

    def build() -> None:
        with Writer(path, dialect=dialect, overwrite=True) as writer:
            writer.put_many(workload.keys, workload.values)

    clock("build", len(workload), build)
    cache: BlockCache[Any] = BlockCache(4 << 30)
    with Reader(path, cache=cache) as reader:
        assert reader.lookup(workload.random.keys).equals(workload.random.expected)
        clock("lookup", len(workload.random), lambda: reader.lookup(workload.random.keys))
        keys = workload.random.keys[:MOST_GETS].to_pylist()
        clock("get", len(keys), lambda: [reader.get(key) for key in keys])
        clock("scan", len(workload), lambda: deque(reader.scan(), maxlen=0))
    return found


def main(name: str, records: str, queries: str) -> None:
    """Measure both dialects, and print what was found."""
    workload = WORKLOADS[name](int(records), int(queries))
    found: dict[str, tuple[int, float]] = {}
    with TemporaryDirectory(prefix="bench-sst-") as folder:
        for dialect in ("native", "paimon"):
            found |= measure(dialect, workload, Path(folder, f"{dialect}.sst"))
    print(
        json.dumps(
            {
                "package": str(Path(lookupstore.__file__).parents[1]),
                "operations": {verb: one[0] for verb, one in found.items()},
                "seconds": {verb: one[1] for verb, one in found.items()},
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
