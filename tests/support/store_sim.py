"""Publishers, expirers and readers of one store, as a seed draws it; the code is the real one.

Publishers build, or change the version that is current; what each change is called is in the
`source` of all versions that have it in them.

Each operation of files is a step, before which any other may do any number of its own, a process
may stand still for minutes or hours, fail, lose the answer, or die. The store is on a local disk
(real files in memory: links that fail if the name is there, renames of folders) or on an object
store that knows put, list and delete. A listing is not one moment: what comes or goes meanwhile is
in it or not.

What is checked after each change and at the end are the promises of `docs/reference/guarantees.md`.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest
import xxhash
from pyarrow import fs

from lookupstore.errors import (
    CommitConflictError,
    CommitUnknownError,
    FormatError,
    StaleStoreError,
)
from lookupstore.storage.local import LocalFolder
from lookupstore.storage.location import FoundFile, Location
from lookupstore.storage.object_store import RemoteFolder
from lookupstore.store.changing import retried
from lookupstore.store.expiry import expire
from lookupstore.store.file_checks import missing_file_error
from lookupstore.store.manifest import DataFile, Manifest
from lookupstore.store.marks import MARK_AGE
from lookupstore.store.new_version import NewVersion, is_whole
from lookupstore.store.open_version import open_version
from lookupstore.store.version_files import VERSIONS_FOLDER, name_of, read_newest
from support.remote import Killed

HOUR = 3600.0
BUCKETS = 2
# All that a run takes together is less than the age at which a mark is a dead build's.
_LONGEST = MARK_AGE.total_seconds() / 2
# Far more than any run takes: one that is longer goes round in circles.
_MOST_STEPS = 20_000
_START = 1_700_000_000.0

_modules = {
    name: importlib.import_module(f"lookupstore.{name}")
    for name in (
        "storage.local",
        "storage.naming",
        "store.changing",
        "store.expiry",
        "store.marks",
        "store.new_version",
        "store.open_version",
        "store.publish_step",
        "store.version_files",
    )
}
_versions = _modules["store.version_files"]

Plant = Callable[[pytest.MonkeyPatch], None]


class InjectedError(OSError):
    """An error of an operation that failed because the simulation wanted it to."""


@dataclass(eq=False)
class Actor:
    """Who publishes, expires or reads.

    Attributes:
        name: of the actor.
        run: what it does.
        retain: seconds that it lets replaced versions stay.
        keep: versions that it lets stay.
        still: it does nothing until so many steps were done.
        is_dead: it was killed.
        is_done: it has come to its end.
        ours: versions that its last build has written.
        turn: held while others have theirs.
    """

    name: str
    run: Callable[[Actor], None]
    retain: float = 0.0
    keep: int = 1
    still: int = 0
    is_dead: bool = False
    is_done: bool = False
    ours: set[str] = field(default_factory=set)
    turn: Any = field(default_factory=threading.Lock)
    thread: threading.Thread | None = None


class Steps:
    """Steps of actors, one at a time, in an order that a seed draws.

    Attributes:
        random: draws; who asks others makes runs that nobody can repeat.
        now: what time it is, in seconds since 1970.
        fail: how often an operation fails, and how often its answer is lost.
        kill: how often an actor dies at one.
        still: how often it stands still, while others do many.
        change: how often another one goes on.
        actor: whose turn it is; None where nothing takes time.
        count: steps that were made.
        trace: what was done: time, actor, operation.
    """

    def __init__(self, chance: random.Random) -> None:
        self.random = chance
        self.now = _START
        self.fail = chance.choice([0.0, 0.0, 0.02, 0.1])
        self.kill = chance.choice([0.0, 0.0, 0.01, 0.05])
        self.still = chance.choice([0.05, 0.1, 0.2])
        self.change = chance.choice([0.05, 0.2, 0.6])
        self.actor: Actor | None = None
        self.count = 0
        self.trace: list[tuple[float, str, str]] = []
        self.errors: list[BaseException] = []
        self._actors: list[Actor] = []
        self._threads = {threading.current_thread()}
        self._end = threading.Lock()
        self._began = self.now

    def run(self, actors: list[Actor]) -> None:
        """Let actors act until all have come to their ends."""
        self._actors = list(actors)
        threads = [threading.Thread(target=self._body, args=(one,), daemon=True) for one in actors]
        self._threads.update(threads)
        for actor, thread in zip(actors, threads, strict=True):
            actor.turn.acquire()
            thread.start()
        self._end.acquire()
        self._go_on(None)
        self._end.acquire()
        self._end.release()
        for thread in threads:
            thread.join()

    def step(self, what: str, still: float = 0.0) -> None:
        """Let others go first, perhaps; then the operation is done, unless this raises.

        Args:
            what: it is.
            still: how often the actor stands still, if that is more often than at others.

        Raises:
            Killed: the actor is dead.
            InjectedError: the operation fails.
        """
        actor = self.actor
        if actor is None or not self.is_acting():
            return  # also of what a test before has left in the background
        if actor.is_dead:
            raise Killed(actor.name)
        chance = self.random
        self.count += 1
        if self.count > _MOST_STEPS:
            raise AssertionError(f"{what}: no end after {self.count} steps")
        self.now += 0.01
        if chance.random() < max(still, self.still):
            actor.still = self.count + int(10 ** chance.uniform(0.3, 2))
            if chance.random() < 0.3:
                self.now += min(
                    chance.choice([3, 100, 1.2 * HOUR]), self._began + _LONGEST - self.now
                )
        if len(self._actors) > 1 and (actor.still > self.count or chance.random() < self.change):
            self._go_on(actor)
        fate = chance.random()
        if fate < self.kill:
            self.note(f"killed at {what}")
            actor.is_dead = True
            raise Killed(actor.name)
        if fate > 1 - self.fail:
            self.note(f"failed: {what}")
            raise InjectedError(5, f"injected into {what}")
        self.note(what)

    def answer(self, what: str) -> None:
        """Lose the answer of what was done, perhaps."""
        if self.is_acting() and self.random.random() < self.fail:
            self.note(f"answer lost: {what}")
            raise InjectedError(5, f"answer lost: {what}")

    def note(self, what: str) -> None:
        """Write down what the actor whose turn it is does."""
        if self.actor is not None and self.is_acting():
            self.trace.append((self.now, self.actor.name, what))

    def is_ours(self) -> bool:
        """Return whether this thread is an actor, or the one that simulates."""
        return threading.current_thread() in self._threads

    def is_acting(self) -> bool:
        """Return whether this thread is the actor whose turn it is."""
        return self.actor is not None and self.actor.thread is threading.current_thread()

    def _go_on(self, before: Actor | None) -> None:
        able = [one for one in self._actors if one.still <= self.count]
        chosen = self.random.choice(able) if able else min(self._actors, key=lambda one: one.still)
        self.actor = chosen
        if chosen is not before:
            chosen.turn.release()
            if before is not None:
                before.turn.acquire()

    def _body(self, actor: Actor) -> None:
        actor.thread = threading.current_thread()
        actor.turn.acquire()
        try:
            actor.run(actor)
        except Killed:
            pass
        except BaseException as error:
            self.errors.append(error)
        actor.is_done = True
        self._actors.remove(actor)
        if self._actors:
            self._go_on(None)
        else:
            self.actor = None
            self._end.release()


class _Place(Location):
    """A location where to look at files is a step."""

    sim: Simulation

    def look(self) -> dict[str, tuple[int, float]]:
        """Return size and time of each file, by name, now."""
        raise NotImplementedError

    def files(self, folder: str = "", *, recursive: bool = False) -> list[FoundFile]:
        steps = self.sim.steps
        steps.step(f"list {folder}")
        first = self._below(folder, recursive)
        before = steps.count
        steps.step(f"end of the list of {folder}", still=0.2)
        found = dict(first)
        if steps.count > before + 1:
            last = self._below(folder, recursive)
            for name in sorted(first.keys() | last.keys()):
                if name in first and name in last:
                    found[name] = last[name]
                elif steps.random.random() < 0.5:
                    found[name] = last.get(name) or first[name]
                else:
                    found.pop(name, None)
        return [FoundFile(name, *found[name]) for name in sorted(found)]

    def _below(self, folder: str, recursive: bool) -> dict[str, tuple[int, float]]:
        start = f"{folder}/" if folder else ""
        return {
            name: file
            for name, file in self.look().items()
            if name.startswith(start) and (recursive or "/" not in name[len(start) :])
        }

    def names(self) -> list[str]:
        self.sim.steps.step("list .")
        return sorted({name.partition("/")[0] for name in self.look()})

    def is_file(self) -> bool:
        return False

    def is_there(self) -> bool:
        self.sim.steps.step("look at .")
        return bool(self.look())

    def size(self, name: str) -> int | None:
        self.sim.steps.step(f"look at {name}")
        found = self.look().get(name)
        return None if found is None else found[0]

    def resolve(self, name: str) -> Any:
        # Only asked what else is there if there is no store.
        return fs.LocalFileSystem(), ""

    def work_folder(self, *_: Any) -> Any:
        return nullcontext("")


class _Disk(_Place, LocalFolder):
    """A store in a folder of this machine."""

    def look(self) -> dict[str, tuple[int, float]]:
        return self.sim.files

    def chunks(self, name: str) -> Iterator[bytes]:
        self.sim.steps.step(f"read {name}")
        with open(f"{self.sim.folder}/{name}", "rb") as file:
            yield file.read()

    def hash(self, name: str) -> str:
        return xxhash.xxh64_hexdigest(self.read(name))


class _Bucket(_Place, RemoteFolder):
    """A store on an object store."""

    def _open(self) -> tuple[Any, str]:
        return SimpleNamespace(type_name="s3"), "bucket/s"

    def look(self) -> dict[str, tuple[int, float]]:
        return {name: (len(one), at) for name, (one, at) in self.sim.objects.items()}

    def chunks(self, name: str) -> Iterator[bytes]:
        self.sim.steps.step(f"read {name}")
        if name not in self.sim.objects:
            raise FileNotFoundError(name)
        yield self.sim.objects[name][0]

    def read(self, name: str, most: int = 0) -> bytes:
        return b"".join(self.chunks(name))

    def write(self, name: str, chunks: Any) -> None:
        content = b"".join(chunks)
        self.sim.steps.step(f"put {name}")
        self.sim.objects[name] = content, self.sim.steps.now
        self.sim.seen(name, True)
        self.sim.steps.answer(f"put {name}")

    def delete(self, name: str) -> None:
        self.sim.steps.step(f"delete {name}")
        if self.sim.objects.pop(name, None) is not None:
            self.sim.seen(name, False)
        self.sim.steps.answer(f"delete {name}")


class _System:
    """A stand-in for `os`, and for `open`, where files of a local store are named.

    Files are real ones, in memory; sizes and times are those of the simulation.
    """

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim

    def __getattribute__(self, name: str) -> Any:
        # A thread that a test before has left in the background has files of its own.
        is_known = name.startswith("_") or (hasattr(_System, name) and self._sim.steps.is_ours())
        return object.__getattribute__(self, name) if is_known else getattr(os, name)

    def open_file(self, path: str, mode: str, **named: Any) -> Any:
        file = open(path, mode, **named)  # noqa: SIM115
        if self._sim.steps.is_ours():
            self._sim.files[self._short(path)] = 0, self._sim.steps.now
        return file

    def _short(self, path: str) -> str:
        return path[len(self._sim.folder) + 1 :]

    def _step(self, name: str, path: str) -> str:
        short = self._short(path)
        self._sim.steps.step(f"{name} {short}")
        return short

    def fsync(self, descriptor: int) -> None:
        self._sim.steps.step("fsync")

    def utime(self, path: str, times: tuple[float, float]) -> None:
        short = self._step("utime", path)
        os.utime(path)
        self._sim.files[short] = self._sim.files[short][0], times[1]

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self._step("makedirs", path)
        os.makedirs(path, exist_ok=exist_ok)

    def mkdir(self, path: str) -> None:
        self._step("mkdir", path)
        os.mkdir(path)

    def rmdir(self, path: str) -> None:
        self._step("rmdir", path)
        os.rmdir(path)

    def link(self, source: str, path: str) -> None:
        short = self._step("link", path)
        os.link(source, path)
        written = self._sim.files[self._short(source)][1]
        self._sim.files[short] = os.stat(path).st_size, written
        self._sim.seen(short, True)

    def rename(self, source: str, path: str) -> None:
        short = self._step("rename", path)
        os.rename(source, path)
        start = f"{self._short(source)}/"
        for name in [name for name in self._sim.files if name.startswith(start)]:
            new = f"{short}/{name[len(start) :]}"
            self._sim.files[new] = self._sim.files.pop(name)
            self._sim.seen(new, True)

    def unlink(self, path: str) -> None:
        short = self._step("unlink", path)
        os.unlink(path)
        self._sim.files.pop(short)
        self._sim.seen(short, False)


class _Files:
    """A stand-in for the open files of a version: all are there, or an error says why not."""

    def __init__(self, location: Location, manifest: Manifest, *_: Any) -> None:
        for file in manifest.files:
            if location.size(file.name) is None:
                raise missing_file_error(location, manifest, file)


@dataclass
class Removed:
    """A version that was removed by others than its publisher.

    Attributes:
        name: of the version.
        when: it was.
        newer: the newer ones that there were.
        actor: who did it.
    """

    name: str
    when: float
    newer: list[str]
    actor: Actor


@dataclass
class Report:
    """What came of a seed.

    Attributes:
        seed: of the run.
        problems: what is wrong; nothing should be.
        trace: what was done, a line each.
        told: how often who was told what.
        steps: that it took.
    """

    seed: int
    problems: list[str]
    trace: list[str]
    told: Counter[str]
    steps: int

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {problem}" for problem in self.problems]
        return "\n".join([*lines, *self.trace, *lines])


class Simulation:
    """Actors who meet at one store as a seed says.

    Args:
        seed: of everything.
        plant: puts a mistake into the code, for this run.
    """

    def __init__(self, seed: int, plant: Plant | None = None) -> None:
        self.seed = seed
        self._plant = plant
        chance = random.Random(seed)
        self.steps = Steps(chance)
        self.is_disk = chance.random() < 0.5
        self.folder = ""
        self.objects: dict[str, tuple[bytes, float]] = {}
        self.files: dict[str, tuple[int, float]] = {}
        self.problems: list[str] = []
        self.told: Counter[str] = Counter()
        self._manifests: dict[bytes, Manifest] = {}
        self._by_file: dict[str, Manifest] = {}
        # Versions that there are, by file, with the time since when; after each change of that all
        # of them, and the current one.
        self._there: dict[str, float] = {}
        self._written: dict[str, float] = {}
        self._written_by: dict[str, Actor] = {}
        self._all: list[tuple[str, ...]] = [()]
        self._current: list[str | None] = [None]
        self._changed_by: list[str] = [""]
        self._data: set[str] = set()
        self._temporary: dict[str, str] = {}
        self._published: set[str] = set()
        self._withdrawn: set[str] = set()
        self._removed: list[Removed] = []
        # Changes that were published, with the version; and those of which their makers were told
        # that they were not.
        self._changes_made: list[tuple[str, str]] = []
        self._changes_refused: set[str] = set()
        # Builds of which their makers were told that they were published.
        self._builds_made: list[str] = []
        # Versions that were opened, by whom, and the first and the last change meanwhile.
        self._opened: list[tuple[str, str, int, int]] = []

    def run(self) -> Report:
        """Run it, and say what is wrong."""
        steps, chance = self.steps, self.steps.random
        with ExitStack() as stack:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            if self.is_disk:
                parent = "/dev/shm" if os.path.isdir("/dev/shm") else None
                top = tempfile.mkdtemp(dir=parent)
                stack.callback(shutil.rmtree, top, ignore_errors=True)
                self.folder = f"{top}/s"
            self._install(patch)
            main = chance.choice(["build", "upsert"])
            for _ in range(chance.choice([0, 1, 1, 2] if main == "build" else [1, 1, 2])):
                self._build(Actor("first", nothing), overwrite=True, retain=HOUR)
                steps.now += chance.choice([1, 1.5 * HOUR])
            was_there = bool(self._there)
            actors = self._actors(main)
            steps.run(actors)
            is_calm = self.is_disk and not steps.fail and not steps.kill
            if is_calm and not was_there and not self._published:
                self.problems.append("nobody's first version was published")
            self.problems += [f"an error at the end: {error!r}" for error in steps.errors]
            self._check_removed()
            self._check_opened()
            self._check_changes()
            self._end()
        trace = [f"{when - _START:12.2f}  {who:10} {what}" for when, who, what in steps.trace]
        return Report(self.seed, self.problems, trace, self.told, steps.count)

    # What the code under test meets.

    def _install(self, patch: pytest.MonkeyPatch) -> None:
        steps = self.steps
        clock = SimpleNamespace(now=lambda zone: datetime.fromtimestamp(steps.now, timezone.utc))
        step = _modules["store.publish_step"]
        patch.setattr(step, "datetime", clock)
        for name in ("store.expiry", "store.marks"):
            patch.setattr(_modules[name], "time", SimpleNamespace(time=lambda: steps.now + 0.001))
        ids = SimpleNamespace(
            uuid4=lambda: SimpleNamespace(hex=f"{steps.random.getrandbits(128):032x}")
        )
        for name in ("storage.naming", "store.new_version"):
            patch.setattr(_modules[name], "uuid", ids)
        sleep = SimpleNamespace(sleep=lambda _: steps.step("pause", still=0.5))
        patch.setattr(_modules["store.changing"], "time", sleep)
        patch.setattr(step, "manifest_bytes", self._to_bytes)
        patch.setattr(_versions, "parse_manifest", lambda _, one: self._manifests[one])
        patch.setattr(_versions, "TableSearch", _NoTables)
        publish = _modules["store.new_version"].publish_version

        def publish_version(*given: Any, **named: Any) -> Manifest:
            published: Manifest = publish(*given, **named)
            self._published.add(name_of(published).file)
            return published

        patch.setattr(_modules["store.new_version"], "publish_version", publish_version)
        patch.setattr(_modules["store.open_version"], "BucketFiles", _Files)
        if self.is_disk:
            system = _System(self)
            for name in ("storage.local", "storage.naming", "store.new_version"):
                patch.setattr(_modules[name], "os", system)
            opened = object.__getattribute__(system, "open_file")
            patch.setattr(_modules["storage.local"], "open", opened, raising=False)
        if self._plant is not None:
            self._plant(patch)

    def _to_bytes(self, manifest: Manifest) -> bytes:
        content = f"{manifest.version} {manifest.id} {manifest.created} {manifest.files}".encode()
        self._manifests[content] = manifest
        return content

    def location(self) -> Location:
        """Return the store's place as a new process finds it."""
        if self.is_disk:
            location: _Place = _Disk(self.folder)
        else:
            location = _Bucket("s3://bucket/s")
        location.sim = self
        return location

    def seen(self, name: str, is_there: bool) -> None:
        """Note that a file came or went."""
        steps = self.steps
        actor = "" if steps.actor is None else steps.actor.name
        folder, _, last = name.partition("/")
        if "." in last[:1] + folder[:1]:
            return
        if folder == VERSIONS_FOLDER:
            if is_there:
                self._there[name] = self._written[name] = steps.now
                self._withdrawn.discard(name)
                self._by_file[name] = self._manifests[self._content(name)]
                if steps.actor is not None:
                    steps.actor.ours.add(name)
                    self._written_by[name] = steps.actor
                for file in self._by_file[name].files:
                    if file.name not in self._data:
                        self.problems.append(f"{name} names {file.name}, which is not there")
            else:
                self._there.pop(name)
                self._note_removed(name)
            self._all.append(tuple(self._there))
            self._current.append(max(self._there, default=None))
            self._changed_by.append(actor)
        elif folder == "data":
            if is_there:
                self._data.add(name)
                return
            self._data.discard(name)
            for version in self._there:
                if any(file.name == name for file in self._by_file[version].files):
                    self.problems.append(f"{actor} deleted {name} of {version}")

    def _content(self, name: str) -> bytes:
        if not self.is_disk:
            return self.objects[name][0]
        with open(f"{self.folder}/{name}", "rb") as file:
            return file.read()

    def _note_removed(self, name: str) -> None:
        actor = self.steps.actor
        if actor is None:
            return
        if name in self._published and not self._there:
            self.problems.append(f"{actor.name} removed {name}, the last version")
        if name in actor.ours and name not in self._published:
            self._withdrawn.add(name)
        else:
            newer = [one for one in self._there if one > name]
            self._removed.append(Removed(name, self.steps.now, newer, actor))

    # What actors do.

    def _actors(self, main: str) -> list[Actor]:
        chance = self.steps.random
        actors = []
        all_may_overwrite = chance.random() < 0.85
        for number in range(chance.randint(2, 4)):
            kind = chance.choice([main] * 3 + ["build", "expire", "read"])
            if number == 0:
                kind = main
            retain = chance.choice([0.0, 0.0, HOUR])
            overwrite = all_may_overwrite or chance.random() < 0.3
            runs: dict[str, Callable[[Actor], None]] = {
                "build": lambda actor, overwrite=overwrite: self._builds(actor, overwrite),
                "upsert": self._upserts,
                "expire": self._expires,
                "read": self._reads,
            }
            actors.append(Actor(f"{kind} {number}", runs[kind], retain, chance.choice([1, 1, 2])))
        return actors

    def _builds(self, actor: Actor, overwrite: bool) -> None:
        actor.keep = 1
        # What is published from elsewhere has the identity that it has there. Of two who do that
        # at once on an object store nothing is promised.
        copied = f"{1:032x}" if self.is_disk and self.steps.random.random() < 0.2 else None
        for _ in range(self.steps.random.choice([1, 1, 2])):
            self._build(actor, overwrite=overwrite, retain=actor.retain, copied=copied)

    def _build(
        self, actor: Actor, *, overwrite: bool, retain: float, copied: str | None = None
    ) -> None:
        steps = self.steps
        began = len(self._current) - 1
        steps.note("builds")
        actor.ours = set()
        told = "died"
        try:
            with NewVersion(
                self.location(), overwrite=overwrite, retain=retain, version_id=copied
            ) as new:
                files = tuple(self._data_files(new))
                # A copy is a change of a version that may be nowhere here.
                parent = None if copied is None else f"{2:032x}"
                published = new.publish(
                    replace(_MANIFEST, id=copied or new.id, parent=parent, files=files)
                )
            told = "yes"
            name = name_of(published).file
            self._builds_made.append(name)
            if name not in self._current[began:]:
                self.problems.append(f"{actor.name} was told yes, but {name} never was current")
            if not overwrite and name != min(self._published):
                self.problems.append(f"{actor.name} was told yes, but {name} is not the first")
            if name in self._withdrawn:
                self.problems.append(f"{actor.name} was told yes, but {name} was withdrawn")
        except CommitUnknownError:
            told = "unknown"
        except CommitConflictError:
            told = "conflict"
            if not any(who != actor.name for who in self._changed_by[began + 1 :]):
                self.problems.append(f"{actor.name} was told of a conflict with nobody")
        except FileExistsError as error:
            told = "exists"
            if overwrite or "already a store" not in str(error):
                self.problems.append(f"{actor.name}: {error!r}")
        except InjectedError:
            told = "failed"
        except Killed:
            raise
        except Exception as error:
            told = type(error).__name__
            if not isinstance(error, StaleStoreError) or self._changes(began) < 5:
                self.problems.append(f"{actor.name}: {error!r}")
        finally:
            steps.note(f"told {told}")
            self.told[told] += 1
        if told not in ("yes", "unknown"):
            left = [
                one
                for one in actor.ours - self._published
                if one in self._there and self._written_by[one] is actor
            ]
            if left:
                self.problems.append(f"{actor.name} was told {told}, but {left} are there")

    def _upserts(self, actor: Actor) -> None:
        actor.keep = 1
        for number in range(self.steps.random.choice([1, 1, 2])):
            self._upsert(actor, f"{actor.name} {number}".replace(" ", "-"))

    def _upsert(self, actor: Actor, change: str) -> None:
        steps = self.steps
        began = len(self._current) - 1
        steps.note(f"changes {change}")
        actor.ours = set()
        told = "died"

        def publish() -> Manifest:
            with NewVersion(
                self.location(),
                overwrite=True,
                allow_empty=True,
                retain=actor.retain,
                change=True,
            ) as new:
                current = read_newest(new.location)
                files = list(current.files)
                files[bucket] = self._data_file(new, bucket)
                changed = replace(
                    current,
                    id=new.version_id,
                    parent=current.id,
                    source=f"{current.source} {change}",
                    files=tuple(files),
                )
                return new.publish(changed, replaces=name_of(current))

        bucket = steps.random.randrange(BUCKETS)
        try:
            name = name_of(retried(publish)).file
            told = "changed"
            if name not in self._current[began:]:
                self.problems.append(f"{actor.name} was told yes, but {name} never was current")
            self._changes_made.append((change, name))
        except CommitUnknownError:
            told = "unknown change"
        except CommitConflictError:
            told = "conflicts"
        except InjectedError:
            told = "change failed"
        except Killed:
            raise
        except StaleStoreError:
            told = "stale change"
            self._check_stale(actor, began)
        except (FileNotFoundError, FormatError) as error:
            told = "nothing to change"
            self._check_none(actor, began, error)
        except Exception as error:
            told = type(error).__name__
            self.problems.append(f"{actor.name}: {error!r}")
        finally:
            steps.note(f"told {told}")
            self.told[told] += 1
        if told not in ("changed", "unknown change"):
            self._changes_refused.add(change)

    def _data_files(self, new: NewVersion) -> Iterator[DataFile]:
        current = new.current()
        for bucket in range(BUCKETS):
            old = None if current is None else current.files[bucket]
            is_same = old is not None and self.steps.random.random() < 0.5
            if old is not None and is_same and is_whole(new.location, old):
                yield old
            else:
                yield self._data_file(new, bucket)

    def _data_file(self, new: NewVersion, bucket: int) -> DataFile:
        name = f"data/{new.id}-{bucket:05d}.sst"
        content = name.encode()
        new.location.write(name, [content])
        return DataFile(name, bucket, 1, len(content), xxhash.xxh64_hexdigest(content), "", "")

    def _expires(self, actor: Actor) -> None:
        for _ in range(self.steps.random.choice([1, 2])):
            began = len(self._current) - 1
            try:
                expire(self.location(), retain=actor.retain, keep=actor.keep)
                self.told["expired"] += 1
            except InjectedError:
                self.told["expire failed"] += 1
            except StaleStoreError:
                self._check_stale(actor, began)
            except (FileNotFoundError, FormatError) as error:
                self._check_none(actor, began, error)

    def _reads(self, actor: Actor) -> None:
        for _ in range(3):
            began = len(self._current) - 1
            try:
                manifest = open_version(self.location(), None, None, None).manifest
                self.told["read"] += 1
                name = name_of(manifest).file
                self._opened.append((name, actor.name, began, len(self._current)))
            except InjectedError:
                self.told["read failed"] += 1
            except StaleStoreError:
                self._check_stale(actor, began)
            except (FileNotFoundError, FormatError) as error:
                self._check_none(actor, began, error)

    # What has to be true.

    def _changes(self, began: int) -> int:
        return len(self._current) - 1 - began

    def _check_stale(self, actor: Actor, began: int) -> None:
        self.told["stale"] += 1
        if self._changes(began) < 5:
            self.problems.append(f"{actor.name} was told that versions come and go, but few did")

    def _check_none(self, actor: Actor, began: int, error: Exception) -> None:
        self.told["no store"] += 1
        if None not in self._current[began:]:
            self.problems.append(f"{actor.name}: {error!r}, but there was always a version")

    def _check_opened(self) -> None:
        for name, who, began, end in self._opened:
            # One that its publisher does not keep may be opened for the moments that it is there.
            there = self._all[began:end]
            newest = max((one for one in there[0] if one in self._published), default="")
            if name < newest or not any(name in names for names in there):
                self.problems.append(f"{who} opened {name}, but there was {newest or None} before")

    def _check_removed(self) -> None:
        for one in self._removed:
            if self._is_void(one.name):
                continue
            newer = [name for name in one.newer if name not in self._withdrawn]
            who = f"{one.actor.name} removed {one.name}"
            if len(newer) < one.actor.keep:
                self.problems.append(f"{who}; of newer ones {newer} stayed")
            elif one.when - min(self._written[name] for name in newer) < one.actor.retain - 1:
                self.problems.append(f"{who} before it had been replaced for {one.actor.retain} s")

    def _check_changes(self) -> None:
        """Check that each change is in all versions after it, once, or in none."""
        kept = set(self._published)
        if self._there:
            kept.add(name_of(read_newest(self.location())).file)
        last_build = max((self._root(name) for name in kept), default="")
        for name in sorted(kept):
            done = self._by_file[name].source.split()
            if len(set(done)) < len(done):
                self.problems.append(f"a change is twice in {name}: {done}")
            refused = self._changes_refused.intersection(done)
            # What a build has replaced since is of no account.
            if refused and name in self._published and self._root(name) == last_build:
                self.problems.append(f"{name} has {refused}, which was not published")
        for build in self._builds_made:
            for later in sorted(kept):
                if later > build > self._root(later):
                    self.problems.append(f"{build} is hidden by {later}, which is not made of it")
        for change, name in self._changes_made:
            for later in sorted(kept):
                # A build replaces what was before it.
                if later > name > self._root(later):
                    done = self._by_file[later].source.split()
                    if change not in done:
                        self.problems.append(f"{change} of {name} is lost in {later}: {done}")

    def _is_void(self, name: str) -> bool:
        """Return whether a change was not published, but another version of its number."""
        number = self._by_file[name].version
        return (
            name not in self._published
            and self._by_file[name].source != ""
            and any(self._by_file[one].version == number for one in self._published)
        )

    def _root(self, name: str) -> str:
        """Return the build that a version is of, by changes."""
        by_id = {one.id: file for file, one in self._by_file.items()}
        while (parent := by_id.get(self._by_file[name].parent or "")) is not None:
            name = parent
        return name

    def _end(self) -> None:
        """Build when everybody else is gone, and put away what they left."""
        if self.problems:
            return
        if self._published and not self._there:
            self.problems.append("all versions are lost")
            return
        self.steps.fail = self.steps.kill = 0.0
        self.steps.now += MARK_AGE.total_seconds() + 10
        before = self.told["yes"]
        self._build(Actor("last", nothing), overwrite=True, retain=0)
        if self.told["yes"] != before + 1:
            self.problems.append("the last build was not published")
        left = sorted(self.location().look())  # type: ignore[attr-defined]
        if len(self._there) != 1 or len(left) != 1 + BUCKETS:
            self.problems.append(f"left at the end: {left}")


def nothing(*_: Any) -> None:
    """Do nothing."""


class _NoTables:
    def __init__(self, filesystem: Any) -> None:
        """Know nothing of it."""

    def at(self, root: str) -> None:
        """Find nothing."""


_MANIFEST = Manifest(0, "", "", "", None, None, BUCKETS, 1, "", None, {}, 0, ())  # type: ignore[arg-type]


def simulate(seed: int, plant: Plant | None = None) -> Report:
    """Run one seed, perhaps with a mistake in the code."""
    return Simulation(seed, plant).run()


def simulate_range(seeds: range) -> tuple[list[str], Counter[str], int]:
    """Run some seeds; return what was found, what was told, and the number of steps."""
    logging.disable()
    found: list[str] = []
    told: Counter[str] = Counter()
    steps = 0
    for seed in seeds:
        report = simulate(seed)
        told += report.told
        steps += report.steps
        if report.problems:
            found.append(str(report) if not found else f"seed {seed}: {report.problems}")
    return found, told, steps


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--seeds", default="100000", help="N, from 0, or FROM:TO")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    first, colon, last = arguments.seeds.partition(":")
    seeds = range(int(first), int(last)) if colon else range(int(first))
    parts = [range(at, min(at + 500, seeds.stop)) for at in range(seeds.start, seeds.stop, 500)]
    began, steps, found = time.monotonic(), 0, 0
    told: Counter[str] = Counter()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.processes, mp_context=spawn) as pool:
        for problems, said, count in pool.map(simulate_range, parts):
            for problem in problems:
                if found < 3:
                    print(f"FOUND: {problem}", flush=True)
                found += 1
            told += said
            steps += count
    took = time.monotonic() - began
    print(
        f"{len(seeds):,} interleavings, {steps:,} operations of files, {took:.0f} s, "
        f"{len(seeds) / took:,.0f} interleavings a second; "
        + ", ".join(f"{what}: {count:,}" for what, count in sorted(told.items()))
    )
    print(f"{found} interleavings found something" if found else "nothing found")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
