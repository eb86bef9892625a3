"""Writers of one table in simulated processes: what is there is a seed, what runs is the real code.

Machines have clocks of their own, operations of the table's files take long, fail or never end,
processes stand still or die, all as a seed draws it (`turns`). The table is on a disk that machines
share, or on an object store in memory. In the end, and whenever a reader looks, the rows are those
of the commits one after the other, in the order in which they became visible; and every writer was
told the truth. No lock is lost by an owner that lives and renews it. In some there is one in Java
that has the lock now and then, and nothing is completed meanwhile.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import json
import math
import os
import random
import re
import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs
from support.hudi.java import FileLock, StorageLock
from support.hudi.locks import AUXILIARY, LOCK, STORAGE
from support.hudi.oracle import assert_same_rows, other_scan
from support.hudi.turns import InjectedError, Machine, Process, Turns, Weather
from support.remote import Killed, Remote

from lookupstore.errors import (
    CommitConflictError,
    CommitUnknownError,
    LockedError,
    LockLostError,
    StaleStoreError,
)
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.locking.heartbeat import LEASE as HEART_LEASE
from lookupstore.hudi.locking.places import LEASE
from lookupstore.hudi.timeline.commit import parse_commit
from lookupstore.hudi.timeline.timeline import Instant, State, parse_instant
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.partitioner import FileSizing
from lookupstore.storage.local import LocalFolder
from lookupstore.storage.location import FoundFile, Location
from lookupstore.storage.object_store import RemoteFolder

SCHEMA = pa.schema({"id": pa.int64(), "value": pa.string()})
TOKEN = "test.token"
SHARED_KEYS = 6
# Longer than all leases.
LONG = 3600.0

# What is promised of a store without links holds if a request is over before half a lease is.
_QUICK = LEASE / 2 - 1
_COMPLETED = re.compile(r"\d+(_\d+)?\.(?!inflight)[a-z]+")

Rows = dict[int, str]
Plant = Callable[[pytest.MonkeyPatch], None]


class _Place(Location):
    """A location where to look at files is a step.

    Steps are made before Arrow is called, not in it: who waits there may keep others waiting.
    """

    turns: Turns

    def names(self) -> list[str]:
        self.turns.step("list .")
        return super().names()

    def files(
        self, folder: str = "", *, recursive: bool = False, complete: bool = False
    ) -> list[FoundFile]:
        self.turns.step(f"list {folder}")
        return super().files(folder, recursive=recursive, complete=complete)

    def folders(self, folder: str = "", *, complete: bool = False) -> list[str]:
        self.turns.step(f"list {folder}")
        return super().folders(folder, complete=complete)

    def size(self, name: str) -> int | None:
        self.turns.step(f"look at {name}")
        return super().size(name)

    def chunks(self, name: str) -> Iterator[bytes]:
        self.turns.step(f"read {name}")
        return super().chunks(name)

    def resolve(self, name: str) -> tuple[fs.FileSystem, str]:
        self.turns.step(f"open {name}")
        return super().resolve(name)


class _DiskPlace(_Place, LocalFolder):
    """A folder where to look at files is a step."""


class SharedDisk:
    """A folder that machines share: it has links, and one clock that tells when files changed."""

    kind = "disk"

    def __init__(self, turns: Turns, seen: Callable[[str, bool], None]) -> None:
        self._turns = turns
        self._seen = seen
        self._folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.path = Path(self._folder, "t")

    def location(self) -> Location:
        """Return the table's folder as a new process finds it."""
        location = _DiskPlace(self.path)
        location.turns = self._turns
        return location

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let file operations of local tables be steps."""
        system = _StandIn(
            os, {name: self._operation(name) for name in ("link", "replace", "rename", "utime")}
        )
        system.unlink = self._unlink
        system.fsync = lambda descriptor: None
        patch.setattr("lookupstore.storage.local.os", system)
        patch.setattr("lookupstore.storage.naming.os", system)
        steps = {name: self._operation(name) for name in ("open", "stat", "utime")}
        lock_system = _StandIn(os, steps)
        lock_system.unlink = self._unlink
        patch.setattr("lookupstore.storage.lock_file.os", lock_system)
        files = _StandIn(fcntl, {"flock": self._flock})
        patch.setattr("lookupstore.storage.lock_file.fcntl", files)

    def java_lock(self, chance: random.Random) -> FileLock:
        """Return the lock of a writer in Java, in one of its folders."""
        return FileLock(self.path, chance.choice([".hoodie", ".hoodie/.aux"]))

    def names(self) -> list[str]:
        """Return what there is in the folder of the table."""
        return os.listdir(self.path)

    def remove(self) -> None:
        """Delete everything."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _operation(self, name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def operation(target: Any, *others: Any, **named: Any) -> Any:
            last = others[0] if others and name in ("link", "replace", "rename") else target
            self._turns.step(f"{name} {self._short(last)}")
            if name == "utime":
                self._set_time(target)
                # Only the lock is renewed by its descriptor, also by one that has lost it.
                if isinstance(target, int) and self._is_first(target):
                    self._seen("lock", True)
                return None
            done = real(target, *others, **named)
            if name in ("link", "replace"):
                self._set_time(last)
                self._seen(self._name(last), True)
            return done

        return operation

    def _unlink(self, path: str) -> None:
        # One that fails is a file that stays, and hidden ones always may.
        self._turns.step(f"unlink {self._short(path)}", may_fail=not path.endswith(".tmp"))
        os.unlink(path)
        self._seen(self._name(path), False)

    def _name(self, path: str) -> str:
        """Return the name of a file; a second place is not the lock, but comes with it."""
        return "" if path == str(self.path / AUXILIARY) else os.path.basename(path)

    def _is_first(self, descriptor: int) -> bool:
        """Return whether an open file is the lock in its first place."""
        with suppress(FileNotFoundError):
            return os.path.samestat(os.stat(self.path / LOCK), os.fstat(descriptor))
        return False

    def _flock(self, descriptor: int, how: int) -> None:
        if how != fcntl.LOCK_UN:
            self._turns.step("flock")
        fcntl.flock(descriptor, how)

    def _set_time(self, target: Any) -> None:
        now = round(self._turns.now * 1e9)
        os.utime(target, ns=(now, now))

    def _short(self, path: Any) -> str:
        return "an open file" if isinstance(path, int) else str(path).removeprefix(f"{self.path}/")


class _StandIn(SimpleNamespace):
    """A stand-in for a module of which some functions are others."""

    def __init__(self, module: Any, instead: dict[str, Callable[..., Any]]) -> None:
        super().__init__(**instead)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class Bucket:
    """An object store in memory that keeps conditions, and loses answers."""

    kind = "s3"
    path = None

    def __init__(self, turns: Turns, seen: Callable[[str, bool], None]) -> None:
        self.turns = turns
        self.seen = seen
        self.objects: dict[str, tuple[bytes, str, float]] = {}
        self._filesystem = fs.PyFileSystem(_BucketFiles(self))
        self._tags = 0

    def location(self) -> Location:
        """Return the table's place as a new process finds it."""
        location = _BucketPlace("bucket/t", filesystem=self._filesystem)
        location.turns, location.bucket = self.turns, self
        return location

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Do nothing: locations lead here."""

    def java_lock(self, chance: random.Random) -> StorageLock:
        """Return the lock of a writer in Java."""
        return StorageLock(_QuickPuts(self), f"bucket/t/{STORAGE}", clock=lambda: self.turns.now)

    def names(self) -> list[str]:
        """Return what there is, by whole paths."""
        return list(self.objects)

    def remove(self) -> None:
        """Delete everything."""
        self.objects.clear()

    def put(self, path: str, content: bytes) -> str:
        """Let an object be there."""
        self._tags += 1
        self.objects[path] = content, str(self._tags), self.turns.now
        if path.endswith(f"/{STORAGE}"):
            self.seen("lock", not json.loads(content)["expired"])
        else:
            self.seen(path.rpartition("/")[2], True)
        return str(self._tags)

    # What `ConditionalPuts` has.

    def create(self, path: str, content: bytes) -> str:
        """Put a new object."""
        # One that is completed is on its way for less than half a lease: nothing else is promised.
        is_last = _COMPLETED.fullmatch(path.rpartition("/")[2]) is not None
        self.turns.step(f"create {path[9:]}", most=_QUICK if is_last else math.inf)
        if path in self.objects:
            raise FileExistsError(path)
        tag = self.put(path, content)
        self._answer(path)
        return tag

    def replace(self, path: str, content: bytes, tag: str) -> str | None:
        """Put an object in the place of a known one."""
        self.turns.step(f"replace {path[9:]}")
        if path not in self.objects or self.objects[path][1] != tag:
            return None
        tag = self.put(path, content)
        self._answer(path)
        return tag

    def read(self, path: str) -> tuple[bytes, str]:
        """Return an object and its tag."""
        self.turns.step(f"read {path[9:]}")
        if path not in self.objects:
            raise FileNotFoundError(path)
        return self.objects[path][:2]

    def server(self, path: str) -> tuple[str, ...]:
        """Return what tells this bucket from others."""
        return (path.partition("/")[0],)

    def check(self, folder: str) -> None:
        """Do nothing: conditions are kept."""

    def _answer(self, path: str) -> None:
        self.turns.step(f"answer {path[9:]}")


class _QuickPuts:
    """Conditional puts of a process to which nothing happens."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def create(self, path: str, content: bytes) -> str:
        if path in self._bucket.objects:
            raise FileExistsError(path)
        return self._bucket.put(path, content)

    def replace(self, path: str, content: bytes, tag: str) -> str | None:
        found = self._bucket.objects.get(path)
        return self._bucket.put(path, content) if found and found[1] == tag else None

    def read(self, path: str) -> tuple[bytes, str]:
        if path not in self._bucket.objects:
            raise FileNotFoundError(path)
        return self._bucket.objects[path][:2]


class _BucketPlace(_Place, RemoteFolder):
    bucket: Bucket

    def delete(self, name: str) -> None:
        self.turns.step(f"delete {name}")
        super().delete(name)

    @property
    def creates_once(self) -> bool:
        return True

    def conditional_puts(self) -> Any:
        return self.bucket


class _BucketFiles(Remote):
    """An object store as a file system."""

    def __init__(self, bucket: Bucket) -> None:
        super().__init__(Path("/"), "s3")
        self._bucket = bucket

    def _info(self, path: str) -> fs.FileInfo:
        found = self._bucket.objects.get(path)
        if found is not None:
            return fs.FileInfo(path, fs.FileType.File, size=len(found[0]), mtime=found[2])
        if any(name.startswith(f"{path}/") for name in self._bucket.objects):
            return fs.FileInfo(path, fs.FileType.Directory)
        return fs.FileInfo(path, fs.FileType.NotFound)

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        top = f"{selector.base_dir.rstrip('/')}/"
        found: dict[str, None] = {}
        for path in self._bucket.objects:
            if path.startswith(top):
                parts = path.removeprefix(top).split("/")
                last = len(parts) if selector.recursive else 1
                for count in range(1, last + 1):
                    found[top + "/".join(parts[:count])] = None
        return [self._info(path) for path in found]

    def delete_file(self, path: str) -> None:
        if self._bucket.objects.pop(path, None) is not None:
            self._bucket.seen(path.rpartition("/")[2], False)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        if path not in self._bucket.objects:
            # As pyarrow's file system for S3 does: with a number.
            raise FileNotFoundError(errno.ENOENT, "no such object", path)
        return pa.BufferReader(self._bucket.objects[path][0])

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        return pa.PythonFile(_Object(self._bucket, path), mode="w")


class _Object:
    """An object that is there when it is closed."""

    def __init__(self, bucket: Bucket, path: str) -> None:
        self._bucket = bucket
        self._path = path
        self._parts: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def tell(self) -> int:
        return sum(map(len, self._parts))

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._bucket.turns.step(f"put {self._path[9:]}")
            self._bucket.put(self._path, b"".join(self._parts))
            self._bucket._answer(self._path)


@dataclass
class Try:
    """What a writer wanted, and what it was told.

    Attributes:
        token: which the commit keeps, and the values of its rows.
        verb: of the table.
        keys: of the rows.
        told: `yes`, `no`, `unknown`, or nothing, for one that died.
    """

    token: str
    verb: str
    keys: list[int]
    told: str = ""


@dataclass
class Look:
    """What a reader saw, and how many changes there were before and after."""

    before: int
    after: int
    rows: Rows


@dataclass
class Holding:
    """Who has the table's lock.

    Attributes:
        process: that has it.
        renewed: when, last.
        silence: the longest time without a renewal.
    """

    process: Process
    renewed: float
    silence: float = 0.0

    def silent(self, now: float) -> float:
        """Return the longest time without a renewal until now."""
        return max(self.silence, now - self.renewed)


@dataclass
class Report:
    """What came of a seed.

    Attributes:
        seed: of the run.
        problems: what is wrong; nothing should be.
        trace: what was done, a line each.
        told: how often writers were told what.
        commits: of the run.
        steps: that it took.
        seconds: simulated ones.
    """

    seed: int
    problems: list[str]
    trace: list[str]
    told: Counter[str]
    commits: int
    steps: int
    seconds: float

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {problem}" for problem in self.problems]
        return "\n".join([*lines, *self.trace, *lines])


class Simulation:
    """Writers and readers of one table, which run as a seed says.

    Args:
        seed: of everything.
        plant: puts a mistake into the code, for this run.
    """

    def __init__(self, seed: int, plant: Plant | None = None) -> None:
        self.seed = seed
        self._plant = plant
        self.turns = Turns(seed)
        chance = self.turns.random
        self.version = chance.choice([6, 9])
        self.table = chance.choice([SharedDisk, Bucket])(self.turns, self._seen)
        self.machines = [
            Machine(f"m{number}", chance.choice([0, 0.05, 5, 600, 90_000]) * chance.uniform(-1, 1))
            for number in range(chance.randint(1, 3))
        ]
        self.writers = chance.randint(2, 5)
        self._pause = chance.choice([0, 0.5, 5])
        self.tries: dict[str, Try] = {}
        self.looks: list[Look] = []
        self.problems: list[str] = []
        # Completed files that came (True) and went, in the order in which anybody could see it.
        self.changes: list[tuple[str, bool]] = []
        self._commits: dict[str, tuple[Instant, str]] = {}
        self._holding: Holding | None = None
        # Java compares clocks: it takes an object from one that lives whose clock is far behind.
        is_near = all(abs(one.skew) < 60 for one in self.machines)
        self.has_java = seed % 3 == 2 and (is_near or self.table.kind == "disk")
        self._java_has_it = False
        # Only in some, so that the others are what they were.
        self.has_clustering = seed % 4 == 3

    def run(self) -> Report:
        """Run it, and say what is wrong."""
        turns, chance = self.turns, self.turns.random
        began = turns.now
        with ExitStack() as stack:
            # Files that nobody closed would be closed whenever the collector comes, as a step.
            gc.collect()
            gc.disable()
            stack.callback(gc.enable)
            stack.callback(self.table.remove)
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            self._install(patch)
            if self._plant is not None:
                self._plant(patch)
            HudiTable.create(
                self.table.location(), SCHEMA, record_key=["id"], version=self.version, name="t"
            )
            is_empty = chance.random() < 0.3
            if not is_empty:
                keys = list(range(0, SHARED_KEYS, 2))
                self._try(self.table.location(), "first", "upsert", keys)
            turns.weather = Weather(
                slow=chance.choice([0, 0.002, 0.02]),
                still=chance.choice([0, 0.002, 0.01]),
                fail=chance.choice([0, 0, 0.01]),
                kill=chance.choice([0, 0.002, 0.01]),
                # A file that somebody names who was taken for dead is one of no instant. Those
                # count if they are older than the first commit: nothing else is promised.
                longest=HEART_LEASE / 2 if is_empty else 400,
            )
            for slot in range(self.writers):
                self._start(slot, 0, chance.randint(3, 5))
            turns.start(turns.new_process(chance.choice(self.machines)), self._look)
            if self.has_java:
                turns.start(turns.new_process(Machine("java", 0)), self._be_java)
            turns.run()
            turns.weather = Weather()
            last = turns.new_process(Machine("last", 0))
            turns.start(last, self._end, LONG)
            turns.run()
            self.problems += [
                f"ended with {type(error).__name__}: {error}" for error in turns.errors
            ]
            if not self.problems:
                self._check()
        return Report(
            self.seed,
            self.problems,
            [f"{when - began:10.3f} {number:3} {what}" for when, number, what in turns.trace],
            Counter(one.told or "died" for one in self.tries.values()),
            len(self._commits),
            turns.steps,
            turns.now - began - LONG,
        )

    def _install(self, patch: pytest.MonkeyPatch) -> None:
        turns = self.turns
        self.table.install(patch)
        ids = random.Random(self.seed)
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=ids.getrandbits(128), version=4))
        numbers = _StandIn(os, {"getpid": lambda: turns.process.number})
        for module in ("lock", "owner"):
            patch.setattr(f"lookupstore.hudi.locking.{module}.os", numbers)
        patch.setattr(
            "lookupstore.hudi.locking.owner.machine_of", lambda host: turns.process.machine.name
        )
        patch.setattr("lookupstore.hudi.locking.owner.started_at", self._started)
        for module in ("lock", "places"):
            patch.setattr(f"lookupstore.hudi.locking.{module}.time", turns.time)
        patch.setattr("lookupstore.hudi.locking.lock.threading", turns.threading)
        patch.setattr("lookupstore.hudi.locking.renewal.threading", turns.threading)
        # Who waits for minutes looks less often than that.
        patch.setattr("lookupstore.hudi.locking.lock.LAST_PAUSE", 5.0)
        patch.setattr("lookupstore.hudi.timeline.timeline.utc_now", self._utc_now)
        # Clocks that are wrong by a day would be refused, and what else they do not be seen.
        patch.setattr("lookupstore.hudi.timeline.timeline._AHEAD", timedelta(days=30))
        patch.setattr("lookupstore.hudi.write.retries.time", turns.time)
        patch.setattr("lookupstore.hudi.write.retries.random", turns.random)
        # Before Python 3.12 one lock is held for all views while one of them reads what it caches.
        for name in ("table_schema", "unnamed_partition"):
            patch.setattr(vars(TableView)[name], "lock", nullcontext(), raising=False)

    def _started(self, number: int) -> str | None:
        return "" if number in self._alive else None

    @property
    def _alive(self) -> set[int]:
        machine = self.turns.process.machine
        alive = {
            task.process.number
            for task in self.turns.tasks
            if not task.process.is_dead and task.process.machine is machine
        }
        return alive | {self.turns.process.number}

    def _utc_now(self) -> datetime:
        return datetime.fromtimestamp(self.turns.wall_clock(), timezone.utc)

    def _seen(self, name: str, is_there: bool) -> None:
        """Note when a completed file comes or goes, and look at what is left of a requested one."""
        if name == "lock":
            self._seen_lock(is_there)
            return
        instant = None if name.startswith(".") else parse_instant(name, name, self.version)
        if self._java_has_it and instant is not None and instant.is_completed and is_there:
            self.problems.append(f"{name}: completed while Java has the lock")
        if instant is None or not instant.is_write:
            return
        if instant.is_completed:
            self.changes.append((name, is_there))
        elif instant.state is State.REQUESTED and not is_there:
            left = [one for one in self.table.names() if one.endswith(f"_{instant.time}.parquet")]
            if left:
                self.problems.append(f"files without an instant: {left}")

    def _seen_lock(self, is_there: bool) -> None:
        """Note who has the lock, and that nobody loses it who lives and renews it."""
        now, process, held = self.turns.now, self.turns.process, self._holding
        if held is not None and held.process is process and is_there:
            self._holding = Holding(process, now, held.silent(now))
            return
        if held is not None and not (
            held.process is process or held.process.is_dead or held.silent(now) > LEASE
        ):
            self.problems.append(
                f"{process.number} took the lock of {held.process.number}, which lives and renewed "
                f"it {now - held.renewed:.1f} s ago"
            )
        self._holding = Holding(process, now) if is_there else None

    # What processes do.

    def _start(self, slot: int, number: int, left: int) -> None:
        """Start a process that writes; when it dies, another goes on."""
        turns, chance = self.turns, self.turns.random
        process = turns.new_process(chance.choice(self.machines))

        def run() -> None:
            done = 0
            try:
                while done < left:
                    done += 1
                    turns.sleep(chance.expovariate(1) * self._pause)
                    self._write(slot, f"{slot}-{number}-{done}")
                process.is_dead = True
            except Killed:
                if done < left:
                    self._start(slot, number + 1, left - done)
                raise

        turns.start(process, run, chance.expovariate(0.3) if number else chance.random())

    def _write(self, slot: int, token: str) -> None:
        chance, location = self.turns.random, self.table.location()
        verb = chance.choice(["upsert"] * 6 + ["insert"] * 2 + ["delete"] * 2 + ["overwrite"])
        # Only of keys that nobody else writes a delete tells whether it was lost: one that does
        # not find a key may come before the write that inserts it, as well as after.
        ours = range(SHARED_KEYS * (slot + 1), SHARED_KEYS * (slot + 1) + 3)
        known = list(ours) if verb == "delete" else [*range(SHARED_KEYS), *ours]
        if self.has_clustering and chance.random() < 0.3:
            self._try(location, token, "cluster", [])
            return
        self._try(location, token, verb, sorted(chance.sample(known, chance.randint(1, 3))))
        if chance.random() < 0.2:
            with suppress(LockedError, LockLostError, InjectedError):
                HudiTable.open(location).clean(retain_commits=chance.randint(1, 3))

    def _try(self, location: Location, token: str, verb: str, keys: list[int]) -> None:
        one = self.tries[token] = Try(token, verb, keys)
        # Small files, so that there are several groups to meet in.
        options = WriteOptions(
            duplicates="fail",
            index="simple",
            sizing=FileSizing(small_file_limit=0, split_size=3, auto_split=False),
            extra_metadata={TOKEN: token},
            threads=1,
        )
        self.turns.note(f"{token}: {verb} {keys}")
        rows = pa.table({"id": keys, "value": [token] * len(keys)}, schema=SCHEMA)
        try:
            table = HudiTable.open(location)
            if verb == "delete":
                table.delete(pa.array(keys), options=options)
            elif verb == "overwrite":
                table.insert_overwrite_table(rows, options=options)
            elif verb == "cluster":
                by = self.turns.random.choice([["id"], ["value", "id"]])
                table.cluster(by, curve="linear", target_file_size=8000, options=options)
            else:
                getattr(table, verb)(rows, options=options)
            one.told = "yes"
        except CommitUnknownError:
            one.told = "unknown"
        except (CommitConflictError, LockedError, LockLostError, StaleStoreError, InjectedError):
            one.told = "no"
        except ValueError as error:
            if "have keys that the table already has" not in str(error):
                raise
            one.told = "no"
        finally:
            self.turns.note(f"{token}: told {one.told or 'nothing'}")

    def _look(self) -> None:
        """Read the table now and then."""
        location = self.table.location()
        for _ in range(8):
            self.turns.sleep(self.turns.random.expovariate(0.2))
            before = len(self.changes)
            try:
                found = HudiTable.open(location).scan(columns=["id", "value"])
            except (StaleStoreError, InjectedError):
                continue
            self.looks.append(Look(before, len(self.changes), self._as_dict(found)))

    def _be_java(self) -> None:
        """Have the lock now and then, as a writer in Java that nothing happens to."""
        chance = random.Random(self.seed)
        lock = self.table.java_lock(chance)
        for _ in range(chance.randint(1, 12)):
            self.turns.sleep(chance.expovariate(0.2))
            if lock.try_lock():
                self.turns.note("java: has the lock")
                self._java_has_it = True
                self.turns.sleep(chance.uniform(0, 10))
                self._java_has_it = False
                lock.unlock()

    def _end(self) -> None:
        """Write when everybody else is gone, and put away what they left."""
        location = self.table.location()
        HudiTable.open(location).rollback()
        self._try(location, "last", "upsert", [0])
        HudiTable.open(location).clean(retain_commits=1)

    # What has to be true.

    def _check(self) -> None:
        states = list(self._states())
        if self.problems:
            return
        table = HudiTable.open(self.table.location())
        rows = self._as_dict(table.scan(columns=["id", "value"]))
        if rows != states[-1]:
            self.problems.append(f"the rows are {rows}, by the timeline {states[-1]}")
        for look in self.looks:
            if look.rows not in states[look.before : look.after + 1]:
                self.problems.append(f"a reader saw {look.rows} at {look.before}..{look.after}")
        committed = Counter(token for _, token in self._commits.values())
        for token, one in self.tries.items():
            # A delete that found nothing is no commit, nor a clustering of what is in order.
            may_be_none = one.verb in ("delete", "cluster")
            least, most = {"yes": (1 - may_be_none, 1), "no": (0, 0)}.get(one.told, (0, 1))
            if not least <= committed[token] <= most:
                told = one.told or "nothing"
                self.problems.append(f"{token} was told {told}, and is {committed[token]} commits")
        pending = [one.file_name for one in table.timeline() if not one.is_completed]
        if pending:
            self.problems.append(f"pending at the end: {pending}")
        findings = [one for one in table.verify().findings if one.kind != "leftover"]
        self.problems += [f"verify: {one}" for one in findings]
        if self.table.path is not None:
            try:
                assert_same_rows(table.scan(), other_scan(self.table.path))
            except AssertionError:
                self.problems.append("hudi-rs reads other rows")

    def _states(self) -> Iterator[Rows]:
        """Yield the rows of the table after each change, as its commits say."""
        rows: Rows = {}
        yield dict(rows)
        for name, is_there in self.changes:
            if not is_there:
                self.problems.append(f"{name}: gone")
                continue
            if name in self._commits:
                self.problems.append(f"{name}: twice")
                continue
            instant = parse_instant(name, name, self.version)
            assert instant is not None
            folder = HudiTable.open(self.table.location()).view().folder
            commit = parse_commit(folder.read(instant), name)
            one = self.tries[(commit.extra_metadata or {})[TOKEN]]
            self._commits[name] = instant, one.token
            there = [key for key in one.keys if key in rows]
            if one.verb == "insert" and there:
                self.problems.append(f"{one.token} inserted {there}, which were there")
            if one.verb == "overwrite":
                rows = {}
            for key in one.keys:
                if one.verb == "delete":
                    rows.pop(key, None)
                else:
                    rows[key] = one.token
            yield dict(rows)

    def _as_dict(self, table: pa.Table) -> Rows:
        rows = dict(zip(table["id"].to_pylist(), table["value"].to_pylist(), strict=True))
        if len(rows) != table.num_rows:
            self.problems.append(f"a key twice: {sorted(table['id'].to_pylist())}")
        return rows


def simulate(seed: int, plant: Plant | None = None) -> Report:
    """Run one seed, perhaps with a mistake in the code."""
    return Simulation(seed, plant).run()
