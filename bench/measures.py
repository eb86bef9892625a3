"""How the core's verbs are measured: checked first, then timed in rounds that take turns.

build none, zstd   store all records from sorted Arrow, until they are on the disk
size zstd          disk space of what was stored
random             one call with all keys: hits in random order
sorted             one call with the same hits in key order
missing            one call with keys that are not stored
10,000 a call      100 calls, of other hits each; with fewer queries, as many calls as they fill
1,000 a call       200 calls
100 a call         1,000 calls
get                a Python loop of single gets of hits in random order
scan               pass over all records, in key order
open time, memory  a reader in a process of its own, after the imports; nothing is read
lookup             one call with typed hits in random order: four columns
"""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bars import Measurement, Subject
from rivals import Contender, Handle, bytes_in, check_records, check_scan
from workloads import Queries, Workload

#: Loads take seconds, and vary less than lookups do.
MOST_BUILD_ROUNDS = 3

#: Operations a round, and seconds or bytes of each round.
Rounds = tuple[int, tuple[float, ...]]

FRESH_OPEN = Path(__file__).with_name("fresh_open.py")


class Timed(NamedTuple):
    """What is done in a round, and what is made ready for it before the clock starts."""

    operations: int
    run: Callable[[], object]
    set_up: Callable[[], object] | None = None


def many(handle: Handle, workload: Workload, order: str) -> Timed:
    """Check and return one call with all keys."""
    queries: Queries = getattr(workload, order)
    keys = handle.prepare(queries)
    assert handle.answers(handle.get_many(keys)).equals(queries.expected)
    return Timed(len(queries), lambda: handle.get_many(keys))


def calls(handle: Handle, workload: Workload, size: int, most: int) -> Timed:
    """Check and return calls of some keys each, all of them hits."""
    parts = workload.random.calls(size, most)
    prepared = [handle.prepare(part) for part in parts]
    for keys, part in zip(prepared, parts, strict=True):
        assert handle.answers(handle.get_many(keys)).equals(part.expected)

    def run() -> None:
        for keys in prepared:
            handle.get_many(keys)

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
    ids, expected = workload.ids, workload.expected_rows
    found = handle.get_many(ids)
    assert found.column_names == expected.column_names
    assert found.cast(expected.schema).equals(expected)
    return Timed(len(ids), lambda: handle.get_many(ids))


LOOKUPS: dict[str, Callable[[Handle, Workload], Timed]] = {
    "random": partial(many, order="random"),
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
    ("build none",),
    ("build zstd", "size zstd"),
    tuple(verb for verb in LOOKUPS if verb != "lookup"),
    ("open time", "open memory"),
    ("lookup",),
)


def in_turns(timed: Mapping[str, Timed], rounds: int) -> dict[str, tuple[float, ...]]:
    """Return seconds a round: everybody's first, then everybody's second, and so on.

    So what slows the machine down for a while slows all down alike.
    """
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, (_, run, set_up) in timed.items():
                if set_up is not None:
                    set_up()
                start = time.perf_counter()
                run()
                seconds[name].append(time.perf_counter() - start)
    finally:
        gc.enable()
    return {name: tuple(found) for name, found in seconds.items()}


class Measuring:
    """The measuring of one workload.

    Args:
        workload: what is stored and asked for.
        folder: where everybody keeps their files.
        contenders: all that can run, by name.
        rounds: how many are counted.
    """

    def __init__(
        self, workload: Workload, folder: Path, contenders: Mapping[str, Contender], rounds: int
    ) -> None:
        self.workload = workload
        self.folder = folder
        self.contenders = contenders
        self.rounds = rounds
        self.handles: dict[str, Handle] = {}
        self.opened = ExitStack()

    def run(self, wanted: Collection[Subject]) -> Iterator[Measurement]:
        """Measure these subjects, and yield each as soon as it is known."""
        for phase in PHASES:
            with self.opened:
                for verb in phase:
                    names = [one.contender for one in wanted if one.verb == verb]
                    found = self.measure(verb, names) if names else {}
                    for name, (operations, rounds) in found.items():
                        subject = Subject(self.workload.name, verb, name)
                        yield Measurement(subject, rounds, operations)
                self.handles.clear()

    def measure(self, verb: str, names: Iterable[str]) -> dict[str, Rounds]:
        """Return operations a round and what each round needed, of everybody at one verb."""
        if verb in LOOKUPS:
            return self.lookups(verb, names)
        if verb.startswith("build "):
            return self.builds(verb.removeprefix("build "), names)
        if verb == "size zstd":
            return {name: (1, (bytes_in(self.filled(name, "zstd")),)) for name in names}
        return {name: (1, self.fresh_opens(verb, name)) for name in names}

    def lookups(self, verb: str, names: Iterable[str]) -> dict[str, Rounds]:
        timed = {name: LOOKUPS[verb](self.handle(name), self.workload) for name in names}
        self.workload.release()
        seconds = in_turns(timed, 1 + self.rounds)  # one round to warm what others have cooled
        return {name: (timed[name].operations, seconds[name][1:]) for name in timed}

    def builds(self, codec: str, names: Iterable[str]) -> dict[str, Rounds]:
        def timed(name: str) -> Timed:
            contender, folder = self.contenders[name], self.folder / "build" / name

            def set_up() -> None:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)

            return Timed(
                len(self.workload), lambda: contender.fill(folder, self.workload, codec), set_up
            )

        every = {name: timed(name) for name in names}
        for name in every:
            check_records(self.contenders[name], self.filled(name, codec), self.workload)
        self.workload.prepare()
        seconds = in_turns(every, min(self.rounds, MOST_BUILD_ROUNDS))
        self.workload.release()
        shutil.rmtree(self.folder / "build", ignore_errors=True)
        return {name: (len(self.workload), seconds[name]) for name in every}

    def fresh_opens(self, verb: str, name: str) -> tuple[float, ...]:
        contender = self.contenders[name]
        path = self.filled(name, contender.usual_codec) / "records.sst"
        found = []
        for _ in range(1 + self.rounds):
            done = subprocess.run(
                [sys.executable, FRESH_OPEN, path], stdout=subprocess.PIPE, check=True
            )
            found.append(json.loads(done.stdout)[verb])
        return tuple(found[1:])

    def handle(self, name: str) -> Handle:
        """Return what a contender answers with, opened when it is first asked for."""
        if name not in self.handles:
            contender = self.contenders[name]
            folder = self.filled(name, contender.usual_codec)
            self.handles[name] = self.opened.enter_context(contender.open(folder, self.workload))
        return self.handles[name]

    def filled(self, name: str, codec: str) -> Path:
        """Return the folder of a contender's files, filled when it is first asked for."""
        contender = self.contenders[name]
        folder = self.folder / f"{contender.files} {codec}"
        if not folder.exists():
            folder.mkdir()
            if contender.codecs:
                contender.fill(folder, self.workload, codec)
        return folder
