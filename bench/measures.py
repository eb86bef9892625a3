"""How contenders are measured with a workload: each verb checked first, then timed in turns.

A topic gives the verbs of what is open; these are everybody's:

build             store all records, until they are on the disk
build none, zstd  the same with a compression; `build` alone takes the contender's own
size              disk space of what `build` stored; with a compression likewise
open              open, answer one key, close
open time, memory a reader in a process of its own, after the imports; nothing is read
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bars import Measurement, Subject
from harness import clocked, in_a_process, in_turns
from rivals import Contender, Handle, bytes_in
from workloads import Workload

#: Loads take seconds, and vary less than lookups do.
MOST_BUILD_ROUNDS = 3

#: Operations a round, and seconds or bytes of each round.
Rounds = tuple[int, tuple[float, ...]]


class Timed(NamedTuple):
    """What is done in a round, and how many records or keys that is."""

    operations: int
    run: Callable[[], object]


#: Checks a verb of a contender that is open, and returns what is timed.
Verb = Callable[[Handle, Workload], Timed]


def lacking(subjects: Iterable[Subject], contenders: Mapping[str, Contender]) -> dict[Subject, str]:
    """Return what cannot be measured here, and why."""
    reasons = {name: one.lacks() for name, one in contenders.items()}
    return {one: why for one in subjects if (why := reasons[one.contender]) is not None}


class Measuring:
    """The measuring of one workload.

    Args:
        workload: what is stored and asked for.
        folder: where everybody keeps their files.
        contenders: all that can run, by name.
        verbs: of contenders that are open, by name.
        rounds: how many are counted.
        hot: each round follows another of the same contender that is not counted, so that nobody
            pays for what others threw out of the processor's caches.
    """

    def __init__(
        self,
        workload: Workload,
        folder: Path,
        contenders: Mapping[str, Contender],
        verbs: Mapping[str, Verb],
        rounds: int,
        *,
        hot: bool = False,
    ) -> None:
        self.workload = workload
        self.folder = folder
        self.contenders = contenders
        self.verbs = verbs
        self.rounds = rounds
        self.hot = hot
        self.handles: dict[str, Handle] = {}
        self.opened = ExitStack()

    def run(
        self, phases: Iterable[Sequence[str]], wanted: Collection[Subject]
    ) -> Iterator[Measurement]:
        """Measure these subjects, and yield each as soon as it is known.

        Args:
            phases: verbs in the order of the run; after each phase all that was open is closed, and
                its memory free.
            wanted: what is measured, of this workload and of contenders that can run.
        """
        for phase in phases:
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
        if verb in self.verbs:
            return self.answers(self.verbs[verb], names)
        word, _, codec = verb.partition(" ")
        if word == "build":
            return self.builds(codec, names)
        if word == "size":
            return {name: (1, (bytes_in(self.built(name, codec)),)) for name in names}
        if verb == "open":
            return self.opens(names)
        return {name: (1, self.fresh_opens(verb, name)) for name in names}

    def answers(self, verb: Verb, names: Iterable[str]) -> dict[str, Rounds]:
        timed = {name: verb(self.handle(name), self.workload) for name in names}
        self.workload.release()
        runs = {
            name: clocked(one.run, one.run if self.hot else None) for name, one in timed.items()
        }
        seconds = in_turns(runs, self.rounds, uncounted=0 if self.hot else 1)
        return {name: (timed[name].operations, seconds[name]) for name in timed}

    def builds(self, codec: str, names: Iterable[str]) -> dict[str, Rounds]:
        kept: list[object] = []  # what is freed in a round would count

        def round_of(name: str) -> Callable[[], float]:
            contender, folder = self.contenders[name], self.folder / "build" / name

            def set_up() -> None:
                kept.clear()
                contender.prepare_build(self.workload)
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)

            chosen = codec or contender.usual_codec
            return clocked(
                lambda: kept.append(contender.build(folder, self.workload, chosen)), set_up
            )

        runs = {name: round_of(name) for name in names}
        for name in runs:
            self.contenders[name].check(self.built(name, codec), self.workload)
        seconds = in_turns(runs, min(self.rounds, MOST_BUILD_ROUNDS))
        self.workload.release()
        shutil.rmtree(self.folder / "build", ignore_errors=True)
        return {name: (len(self.workload), seconds[name]) for name in runs}

    def opens(self, names: Iterable[str]) -> dict[str, Rounds]:
        key, value = self.workload.random.listed[0], self.workload.random.expected[0].as_py()

        def open_and_get(name: str) -> Callable[[], object]:
            contender, folder = self.contenders[name], self.built(name)

            def run() -> object:
                with contender.open(folder, self.workload) as handle:
                    return handle.get(key)

            assert run() == value
            return run

        runs = {name: clocked(open_and_get(name)) for name in names}
        seconds = in_turns(runs, self.rounds, uncounted=1)
        return {name: (1, seconds[name]) for name in runs}

    def fresh_opens(self, verb: str, name: str) -> tuple[float, ...]:
        path = str(self.built(name) / "records.sst")
        runs = {name: lambda: float(in_a_process("fresh_open.py", path)[verb])}
        return in_turns(runs, self.rounds, uncounted=1)[name]

    def handle(self, name: str) -> Handle:
        """Return what a contender answers with, opened when it is first asked for."""
        if name not in self.handles:
            opening = self.contenders[name].open(self.built(name), self.workload)
            self.handles[name] = self.opened.enter_context(opening)
        return self.handles[name]

    def built(self, name: str, codec: str = "") -> Path:
        """Return the folder of a contender's files, built when it is first asked for."""
        contender = self.contenders[name]
        codec = codec or contender.usual_codec
        folder = self.folder / f"{contender.files} {codec}"
        if not folder.exists():
            folder.mkdir()
            if contender.codecs:
                contender.build(folder, self.workload, codec)
        return folder
