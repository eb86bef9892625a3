"""Compressed files that are larger than the cache: lookups beside RocksDB with zstd.

Every cache holds an eighth of what the records have before compression.

get               a Python loop of single gets of hits in random order
10,000 a call     calls of 10,000 hits each; with fewer queries, as many as there are
random            one call with all keys: hits in random order
hot random, get   the same with a cache for everything
build zstd        store all records from sorted Arrow, until they are on the disk
size zstd         disk space of what was stored
open              the first answer: open, get one key, close

Last, for each workload, where the time of our `get` goes: what the checksum of its block takes
alone, and with zstd after it, called from Python, and what it takes if the block is in the cache.

`large blocks` is a file as it was written before: blocks of 64 KiB, level 1. RocksDB has blocks of
4 KiB, without
and with a dictionary of 16 KiB: larger ones are slower (README.md).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bars import OURS, Bar, Subject, bar
from core import calls, gets, many
from crc32c import crc32c
from harness import (
    Run,
    add_choice,
    add_json_lines,
    add_workload,
    chosen_workloads,
    clocked,
    command_line,
    in_turns,
)
from measures import Measuring, Verb, lacking
from report import aligned
from rivals import CACHE_BYTES, Contender, Lookupstore, Rocksdict
from workloads import SEED, WORKLOADS, Workload

from lookupstore.sst import Reader
from lookupstore.sst.cache import BlockCache
from lookupstore.sst.format import unpack_varint

#: What all records have before compression is so many times what a cache holds.
TIMES = 8

HOT = "everything cached"
HOT_LARGE = "large blocks, cached"
LARGE = "large blocks"
ROCKSDB = "rocksdict"
ROCKSDB_DICTIONARY = "rocksdict, dictionary"


class Compressed(Lookupstore):
    """Our own file with zstd; its options are the default ones but those that are given."""

    @property
    def usual_codec(self) -> str:
        return "zstd"


class CompressedRocksdict(Rocksdict):
    """RocksDB with zstd, a cache of a given size, and perhaps a dictionary in each file."""

    def __init__(self, name: str, cache_bytes: int, dictionary: int) -> None:
        self.name = name
        self.cache_bytes = cache_bytes
        self.dictionary = dictionary

    def options(self, codec: str) -> Any:
        import rocksdict

        options = super().options(codec)
        blocks = rocksdict.BlockBasedOptions()
        blocks.set_bloom_filter(10, False)
        blocks.set_block_cache(rocksdict.Cache(self.cache_bytes))
        options.set_block_based_table_factory(blocks)
        if self.dictionary:
            options.set_compression_options(-14, 1, 0, self.dictionary)
        return options


def room_of(workload: Workload) -> int:
    """Return how large a cache is beside the records of a workload."""
    size: int = workload.keys.nbytes + workload.values.nbytes
    return size // TIMES


def contenders(workload: Workload) -> dict[str, Contender]:
    """Return everybody, whose caches are as large as the records of a workload say."""
    room = room_of(workload)
    every: tuple[Contender, ...] = (
        Compressed(OURS, cache_bytes=room),
        Compressed(HOT, cache_bytes=CACHE_BYTES),
        Compressed(LARGE, cache_bytes=room, block_size=1 << 16, level=1),
        Compressed(HOT_LARGE, cache_bytes=CACHE_BYTES, block_size=1 << 16, level=1),
        CompressedRocksdict(ROCKSDB, room, 0),
        CompressedRocksdict(ROCKSDB_DICTIONARY, room, 16 << 10),
    )
    return {one.name: one for one in every}


ANSWERS: dict[str, Verb] = {
    "get": partial(gets, most=20_000),
    "10,000 a call": partial(calls, size=10_000, most=10),
    "random": partial(many, order="random"),
}
PHASES = (("build zstd", "size zstd"), tuple(ANSWERS), ("open",))

BARS: tuple[Bar, ...] = (
    *(
        one
        for verb in ("get", "10,000 a call")
        for rival in (ROCKSDB, ROCKSDB_DICTIONARY)
        for one in bar(f"{verb} / {rival}", verb, OURS, rival, w1=2, w2=2)
    ),
    *bar("size / large blocks", "size zstd", OURS, LARGE, w1=1.08, w2=1.08, at_most=True),
)

#: Measured without a bar.
INFORMATION = tuple(
    Subject(workload, verb, name)
    for workload in WORKLOADS
    for verb, name in (
        ("random", OURS),
        ("random", LARGE),
        ("get", LARGE),
        ("10,000 a call", LARGE),
        ("random", HOT),
        ("get", HOT),
        ("build zstd", OURS),
        ("build zstd", LARGE),
        ("random", HOT_LARGE),
        ("get", HOT_LARGE),
        ("open", OURS),
        ("open", LARGE),
        ("open", ROCKSDB),
    )
)


def stages(
    path: Path, room: int, keys: list[bytes], stack: ExitStack
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what a `get` with a small cache consists of: the stage, what runs it for many keys."""
    small, large = (
        stack.enter_context(Reader(path, cache=BlockCache(size))) for size in (room, CACHE_BYTES)
    )
    data, handles = memoryview(path.read_bytes()), small._handles
    zstd = small._check_open().frames.take()
    blocks = []
    for offset, size in random.Random(SEED).choices([*handles], k=len(keys)):
        payload = data[offset : offset + size]
        plain, at = unpack_varint(payload, 0)
        blocks.append((data[offset : offset + size + 1], payload[at:], plain))  # the codec, too
    for key in keys:
        large.get(key)

    def each(run: Callable[..., object], items: Iterable[Any]) -> Callable[[], object]:
        # Nothing is kept: new memory for all blocks would take longer than they do.
        return lambda: deque(map(run, items), maxlen=0)

    def decoded(block: tuple[memoryview, memoryview, int]) -> None:
        crc32c(block[0])
        zstd.decompress(block[1], block[2])

    yield "all", each(small.get, keys)
    yield "checksum of a block", each(lambda block: crc32c(block[0]), blocks)
    yield "checksum and zstd of a block", each(decoded, blocks)
    yield "all, if the block is in the cache", each(large.get, keys)


def print_stages(measuring: Measuring, rounds: int) -> None:
    """Print the microseconds of each stage."""
    workload = measuring.workload
    (queries,) = workload.random.calls(20_000, 1)
    with ExitStack() as stack:
        path = measuring.built(OURS) / "records.sst"
        found = stages(path, room_of(workload), queries.listed, stack)
        times = in_turns({stage: clocked(run) for stage, run in found}, rounds, uncounted=1)
    lines: list[Sequence[str]] = [("", "stage of a get", "us")]
    for stage, taken in times.items():
        median = sorted(taken)[len(taken) // 2] / len(queries) * 1e6
        lines.append((workload.name, stage, f"{median:.2f}"))
    print(f"\n{aligned(lines, left=(0, 1))}")


def main(given: Sequence[str] | None = None) -> None:
    """Measure compressed files beside RocksDB's, and print how they meet the bars."""
    parser = command_line(
        "make bench-compressed", __doc__, records=2_000_000, queries=200_000, rounds=3
    )
    add_workload(parser)
    add_choice(parser, "bars")
    add_json_lines(parser, "bench-compressed.jsonl")
    asked = parser.parse_args(given)
    names = chosen_workloads(asked)
    bars = [one for one in BARS if one.workload in names and asked.only in one.name]
    run = Run({name: getattr(asked, name) for name in ("records", "queries", "rounds")})
    absent: dict[Subject, str] = {}
    for name in names:
        workload = WORKLOADS[name](asked.records, asked.queries)
        every = contenders(workload)
        subjects = [subject for one in bars for subject in one.subjects]
        subjects += [one for one in INFORMATION if asked.only in one.verb]
        wanted = [one for one in dict.fromkeys(subjects) if one.workload == name]
        absent |= lacking(wanted, every)
        wanted = [one for one in wanted if one not in absent]
        with TemporaryDirectory(prefix="bench-compressed-") as folder:
            measuring = Measuring(workload, Path(folder), every, ANSWERS, asked.rounds)
            for one in measuring.run(PHASES, wanted):
                run.add(one)
            if not asked.only or "get" in asked.only:
                print_stages(measuring, asked.rounds)
        del workload, measuring  # before the next one is made
    run.judge(bars, absent)
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
