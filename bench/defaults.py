"""Measure what block size, codec and filter rate cost and gain: the table behind the defaults.

Cold lookups start with the file out of the page cache, in a reader that has read nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness import clocked, command_line, median_seconds
from report import print_head
from workloads import WORKLOADS, Queries, Workload

from lookupstore.sst import Reader, Writer
from lookupstore.sst.cache import BlockCache

BLOCK_SIZES = (4 << 10, 16 << 10, 64 << 10, 256 << 10)
CODECS = (("none", None), ("lz4", None), ("zstd", 1), ("zstd", 3))
RATES = (0.0, 0.1, 0.05, 0.01, 0.001)
COLD_KEYS = 1000
HEADER = (
    "block", "codec", "filter", "bytes per record", "build M/s", "hot random M/s", "hot misses M/s",
    "hot get us", "cold get us", "cold batch us per key",
)  # fmt: skip


def choices() -> Iterator[dict[str, Any]]:
    """Yield the options that are compared: one of the three varies at a time."""
    for size in BLOCK_SIZES:
        for codec, level in CODECS:
            yield {"block_size": size, "compression": codec, "level": level}
    for rate in RATES:
        yield {"bloom_fpp": rate, "compression": "none"}


def forget(path: Path) -> None:
    """Have the system drop its copy of a file, which has been written to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def ask(reader: Reader, keys: list[bytes]) -> None:
    get = reader.get
    for key in keys:
        get(key)


def cold(path: Path, ask_all: Callable[[Reader], object]) -> float:
    """Return the seconds of a call on a file that is on the disk only."""
    forget(path)
    with Reader(path, cache=BlockCache(4 << 30)) as reader:
        return clocked(lambda: ask_all(reader))()


def measure(
    path: Path, workload: Workload, chosen: Mapping[str, Any], rounds: int
) -> Iterator[str]:
    """Yield one line of the table, field by field."""

    def build() -> None:
        with Writer(path, overwrite=True, **chosen) as writer:
            writer.put_many(workload.keys, workload.values)

    def million(queries: Queries, reader: Reader) -> str:
        seconds = median_seconds(lambda: reader.lookup(queries.keys), rounds, uncounted=1)
        return f"{len(queries.keys) / seconds / 1e6:.2f}"

    yield f"{chosen.get('block_size', 64 << 10) >> 10} KiB"
    yield chosen["compression"] + (f" {chosen['level']}" if chosen.get("level") else "")
    yield f"{chosen.get('bloom_fpp', 0.05):.1%}"
    built = median_seconds(build, rounds)
    yield f"{path.stat().st_size / len(workload):.1f}"
    yield f"{len(workload) / built / 1e6:.2f}"
    with Reader(path, cache=BlockCache(4 << 30)) as reader:
        yield million(workload.random, reader)
        yield million(workload.missing, reader)
        some = workload.random.keys[: 20 * COLD_KEYS].to_pylist()
        yield f"{median_seconds(lambda: ask(reader, some), rounds) / len(some) * 1e6:.2f}"
    few = workload.random.keys[:COLD_KEYS]
    listed = few.to_pylist()
    yield f"{cold(path, lambda reader: ask(reader, listed)) / COLD_KEYS * 1e6:.0f}"
    yield f"{cold(path, lambda reader: reader.lookup(few)) / COLD_KEYS * 1e6:.0f}"


def main(given: Sequence[str] | None = None) -> None:
    parser = command_line(
        "make bench-defaults", __doc__, records=2_000_000, queries=500_000, rounds=3
    )
    chosen = parser.parse_args(given)
    print_head({name: getattr(chosen, name) for name in ("records", "queries", "rounds")})
    for name, make in WORKLOADS.items():
        workload = make(chosen.records, chosen.queries)
        print(f"\n{name}, {chosen.records:,} records, {chosen.queries:,} queries\n")
        print("| " + " | ".join(HEADER) + " |\n" + "|---" * len(HEADER) + "|")
        with TemporaryDirectory() as folder:
            for one in choices():
                line = measure(Path(folder) / "records.sst", workload, one, chosen.rounds)
                print("| " + " | ".join(line) + " |", flush=True)


if __name__ == "__main__":
    main()
