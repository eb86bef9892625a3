"""Sorted files: every verb of one file beside its rivals, and the bars that it has to reach.

build none, zstd   store all records from sorted Arrow, until they are on the disk
size none, zstd    disk space of what was stored
open               the first answer: open, get one key, close
random             one call with all keys: hits in random order
sorted             one call with the same hits in key order
random, alone      the same of one and of two threads, with nobody else in between
missing            one call with keys that are not stored, all between those that are
10,000 a call      100 calls, of other hits each; with fewer queries, as many calls as they fill
1,000 a call       200 calls
100 a call         1,000 calls
get                a Python loop of single gets of hits in random order
scan               pass over all records, in key order
open time, memory  a reader in a process of its own, after the imports; nothing is read
lookup             one call with typed hits in random order: four columns of a store

Bars are measured, or with --table every verb beside every rival. README.md says how to read it.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bars import OURS, Bar, Subject, bar
from harness import Run, add_choice, add_json_lines, add_workload, chosen_workloads, command_line
from measures import Measuring, Timed, Verb, lacking
from rivals import (
    CACHE_BYTES,
    Contender,
    Copy,
    Dict,
    Handle,
    Lmdb,
    Lookupstore,
    Numpy,
    Pandas,
    Plyvel,
    Rocksdict,
    Store,
    TwoThreads,
    check_rows,
    check_scan,
)
from workloads import WORKLOADS, Queries, Workload

# ---- contenders ---------------------------------------------------------------------------------

DEFAULT_CACHE = "lookupstore, default cache"
TWO_THREADS = "lookupstore, 2 threads"
TWO_WRITING = "lookupstore, threads=2"
COPY = "copy of known rows"
COPY_TWO_THREADS = "copy of known rows, 2 threads"
PAIMON = "lookupstore, paimon"
STORE = "store"
STORE_DEFAULT_CACHE = "store, default cache"

#: Everybody with files, everybody who answers one key at a time, and everybody.
FILES = (OURS, "rocksdict", "lmdb", "plyvel")
LOOPS = (*FILES, "dict")
EVERYBODY = (*LOOPS, "numpy", "pandas")


def contenders(cache_bytes: int | None) -> dict[str, Contender]:
    """Return everybody by the names that the bars use.

    Args:
        cache_bytes: of our own cache, where no other is named; None for the default one.
    """
    every: tuple[Contender, ...] = (
        Lookupstore(OURS, cache_bytes=cache_bytes),
        Lookupstore(DEFAULT_CACHE, cache_bytes=None),
        Lookupstore(PAIMON, cache_bytes=cache_bytes, dialect="paimon"),
        Lookupstore(TWO_WRITING, cache_bytes=cache_bytes, threads=2),
        TwoThreads(TWO_THREADS, cache_bytes=cache_bytes),
        Store(STORE, cache_bytes=cache_bytes),
        Store(STORE_DEFAULT_CACHE, cache_bytes=None),
        Rocksdict(),
        Lmdb(),
        Plyvel(),
        Dict(),
        Numpy(),
        Pandas(),
        Copy(COPY, threads=1),
        Copy(COPY_TWO_THREADS, threads=2),
    )
    return {one.name: one for one in every}


# ---- verbs --------------------------------------------------------------------------------------


def many(handle: Handle, workload: Workload, order: str) -> Timed:
    """Check and return one call with all keys."""
    queries: Queries = getattr(workload, order)
    keys = handle.prepare(queries)
    assert handle.answers(handle.lookup(keys)).equals(queries.expected)
    for _ in range(handle.ramp):
        handle.lookup(keys)
    return Timed(len(queries), lambda: handle.lookup(keys))


def calls(handle: Handle, workload: Workload, size: int, most: int) -> Timed:
    """Check and return calls of some keys each, all of them hits."""
    parts = workload.random.calls(size, most)
    prepared = [handle.prepare(part) for part in parts]
    for keys, part in zip(prepared, parts, strict=True):
        assert handle.answers(handle.lookup(keys)).equals(part.expected)

    def run() -> None:
        for keys in prepared:
            handle.lookup(keys)

    return Timed(sum(map(len, parts)), run)


def gets(handle: Handle, workload: Workload, most: int) -> Timed:
    """Check and return a loop of single gets."""
    (queries,) = workload.random.calls(most, 1)
    keys = queries.listed
    assert [handle.get(key) for key in keys] == queries.expected.to_pylist()
    assert handle.get(workload.missing.listed[0]) is None

    def run() -> None:
        get = handle.get
        for key in keys:
            get(key)

    return Timed(len(keys), run)


def scan(handle: Handle, workload: Workload) -> Timed:
    """Check and return a pass over all records."""
    check_scan(handle, workload)
    return Timed(len(workload), lambda: deque(handle.scan(), maxlen=0))


def lookup(handle: Handle, workload: Workload) -> Timed:
    """Check and return one call of typed keys."""
    ids = workload.ids
    check_rows(handle, ids, workload.expected_rows)
    return Timed(len(ids), lambda: handle.lookup(ids))


ANSWERS: dict[str, Verb] = {
    "random": partial(many, order="random"),
    "random, alone": partial(many, order="random"),
    "sorted": partial(many, order="sorted"),
    "missing": partial(many, order="missing"),
    "10,000 a call": partial(calls, size=10_000, most=100),
    "1,000 a call": partial(calls, size=1_000, most=200),
    "100 a call": partial(calls, size=100, most=1_000),
    "get": partial(gets, most=200_000),
    "scan": scan,
    "lookup": lookup,
}

#: Verbs in the order of a run. After each line all that was open is closed, and its memory free.
PHASES: tuple[tuple[str, ...], ...] = (
    ("build none", "size none"),
    ("build zstd", "size zstd"),
    tuple(verb for verb in ANSWERS if verb not in ("random, alone", "lookup")),
    ("random, alone",),
    ("open", "open time", "open memory"),
    ("lookup",),
)

#: Verbs of the table, and who takes part. Others have no files, no codecs, or no single gets.
TABLE = {
    "build none": FILES,
    "size none": FILES,
    "build zstd": (OURS, "rocksdict"),
    "size zstd": (OURS, "rocksdict"),
    "open": FILES,
    "get": LOOPS,
    "random": EVERYBODY,
    "sorted": EVERYBODY,
    "missing": EVERYBODY,
    "scan": LOOPS,
}

# ---- bars ---------------------------------------------------------------------------------------

MILLION = 1e6

# Java Paimon cannot run beside us: its millions a second of another day, as multiples of what LMDB
# did beside it then, times what we want to be of it.
JAVA_RANDOM = 8 * 1.0 / 0.98
JAVA_SORTED = 3 * 3.9 / 2.9

BARS: tuple[Bar, ...] = (
    # Of these two, one is enough: a machine is fast or slow for both.
    *bar("random: rate", "random", OURS, w1=30 * MILLION, w2=11 * MILLION),
    *bar("random / lmdb", "random", OURS, "lmdb", w1=38, w2=17),
    *bar("random / rocksdict", "random", OURS, "rocksdict", w1=35, w2=14),
    *bar("random / pandas", "random", OURS, "pandas", w1=2),
    *bar("sorted / lmdb", "sorted", OURS, "lmdb", w1=8, w2=5),
    *bar("sorted / numpy", "sorted", OURS, "numpy", w1=2),
    *bar("missing / rocksdict", "missing", OURS, "rocksdict", w1=10, w2=6),
    *bar("missing / pandas", "missing", OURS, "pandas", w1=1.4),
    *bar("10,000 a call: rate", "10,000 a call", OURS, w1=6 * MILLION),
    *bar("10,000 a call / lmdb", "10,000 a call", OURS, "lmdb", w1=6, w2=4),
    *bar("1,000 a call / lmdb", "1,000 a call", OURS, "lmdb", w1=5, w2=4),
    *bar("100 a call / lmdb", "100 a call", OURS, "lmdb", w1=3, w2=2),
    *bar("get / lmdb", "get", OURS, "lmdb", w1=1.2, w2=1.1),
    *bar("lookup: rate", "lookup", STORE, w1=8 * MILLION, w2=3 * MILLION),
    *bar("build none / rocksdict", "build none", OURS, "rocksdict", w1=2, w2=1.8),
    *bar("build zstd / rocksdict", "build zstd", OURS, "rocksdict", w1=1.7, w2=1.5),
    *bar(
        "build zstd, 2 threads / rocksdict",
        "build zstd",
        TWO_WRITING,
        "rocksdict",
        w1=2.8,
        w2=2.4,
    ),
    *bar("build zstd, 2 threads / 1", "build zstd", TWO_WRITING, OURS, w1=1.8, w2=1.8),
    *bar("size zstd / rocksdict", "size zstd", OURS, "rocksdict", w1=1, w2=1, at_most=True),
    *bar("paimon random / lmdb", "random", PAIMON, "lmdb", w1=JAVA_RANDOM),
    *bar("paimon sorted / lmdb", "sorted", PAIMON, "lmdb", w1=JAVA_SORTED),
    *bar("paimon missing / native", "missing", PAIMON, OURS, w1=0.5),
    *bar("random, 2 threads / 1", "random, alone", TWO_THREADS, OURS, w1=1.8, w2=1.8),
    *bar("open: time", "open time", OURS, w1=0.05, w2=0.05, at_most=True),
    *bar("open: memory", "open memory", OURS, w1=30 * MILLION, w2=30 * MILLION, at_most=True),
)

#: Measured without a bar: what a scan does, what the lookups do in the cache of 256 MB that readers
#: and stores share by default, and how much faster two threads copy rows than one.
INFORMATION: tuple[Subject, ...] = tuple(
    Subject(workload, verb, contender)
    for workload in ("W1", "W2")
    for verb, contender in (
        ("scan", OURS),
        ("random", DEFAULT_CACHE),
        ("lookup", STORE_DEFAULT_CACHE),
        ("random, alone", COPY),
        ("random, alone", COPY_TWO_THREADS),
    )
)


# ---- a run --------------------------------------------------------------------------------------


def wanted_subjects(bars: Sequence[Bar], workloads: Sequence[str], only: str) -> list[Subject]:
    """Return what is measured for some bars, and what is measured without one."""
    subjects = [subject for one in bars for subject in one.subjects]
    subjects += [one for one in INFORMATION if one.workload in workloads and only in one.verb]
    return list(dict.fromkeys(subjects))  # each once


def main(given: Sequence[str] | None = None) -> None:
    """Measure what is asked for, print how it meets the bars or the table, and keep it."""
    parser = command_line(
        "make bench-core", __doc__, records=10_000_000, queries=1_000_000, rounds=5
    )
    add_workload(parser)
    add_choice(parser, "bars (with --table, verbs)")
    parser.add_argument("--table", action="store_true", help="every verb beside every rival")
    parser.add_argument(
        "--cache",
        choices=["hot", "default"],
        default="hot",
        help="of our readers: hot has room for everything, as the rivals' (%(default)s)",
    )
    add_json_lines(parser, "bench-core.jsonl")
    asked = parser.parse_args(given)
    names = chosen_workloads(asked)
    bars = [one for one in BARS if one.workload in names and asked.only in one.name]
    if asked.table:
        verbs = {verb: who for verb, who in TABLE.items() if asked.only in verb}
        subjects = [Subject(w, verb, one) for w in names for verb in verbs for one in verbs[verb]]
    else:
        subjects = wanted_subjects(bars, names, asked.only) if bars else []
    if not subjects:
        kind = "verb" if asked.table else "bar"
        sys.exit(f"--only {asked.only!r} is in the name of no {kind} of {' and '.join(names)}")
    every = contenders(None if asked.cache == "default" else CACHE_BYTES)
    absent = lacking(subjects, every)

    run = Run({name: getattr(asked, name) for name in ("records", "queries", "rounds", "cache")})
    for name in names:
        workload = WORKLOADS[name](asked.records, asked.queries)
        wanted = [one for one in subjects if one.workload == name and one not in absent]
        with TemporaryDirectory(prefix="bench-core-") as folder:
            measuring = Measuring(workload, Path(folder), every, ANSWERS, asked.rounds)
            for one in measuring.run(PHASES, wanted):
                run.add(one)
        del workload, measuring  # before the next one is made
    if asked.table:
        run.tables("file", verbs, absent)
    else:
        run.judge(bars, absent)
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
