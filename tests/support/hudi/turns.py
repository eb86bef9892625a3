"""Threads that take turns: one runs at a time, in the order of a simulated time that a seed draws.

Whoever is about to touch what others see calls `Turns.step`: there it may take long, fail, or die
with its process, and others go first. `Turns.threading` and `Turns.time` stand for the modules, so
that code which starts threads, waits for them and sleeps runs as it is, without waiting.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

from support.remote import Killed

_NEVER = float("inf")
# Far more than any run takes: one that is longer goes round in circles.
_MOST_STEPS = 200_000


class InjectedError(OSError):
    """An error of an operation that failed because the simulation wanted it to."""


@dataclass
class Machine:
    """A machine where processes run, whose clock is wrong by some seconds."""

    name: str
    skew: float


@dataclass
class Process:
    """A simulated process.

    Attributes:
        number: of the process, which no other has.
        machine: that it runs on.
        slowness: by which each of its operations takes longer.
        is_dead: it was killed, or has come to its end.
        until: it stands still until then.
        is_quick: now it does not.
    """

    number: int
    machine: Machine
    slowness: float = 1.0
    is_dead: bool = False
    until: float = 0.0
    is_quick: bool = False


@dataclass
class Weather:
    """How often each thing goes wrong at a step.

    Attributes:
        slow: an operation takes long.
        still: its process stands still.
        fail: it fails.
        kill: its process dies.
        longest: seconds that anything takes.
    """

    slow: float = 0.0
    still: float = 0.0
    fail: float = 0.0
    kill: float = 0.0
    longest: float = 400.0


@dataclass(eq=False)
class _Task:
    process: Process
    wake: float
    ready: Callable[[], bool] | None = None
    is_done: bool = False
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    thread: threading.Thread | None = None


class Turns:
    """Turns of tasks; the same seed and the same tasks give the same turns.

    Args:
        seed: of everything random.

    Attributes:
        random: draws; who asks others makes runs that nobody can repeat.
        now: what time it is, in seconds since 1970, where no clock is wrong.
        weather: what goes wrong.
        steps: so many were made.
        trace: what was done: time, process, operation.
        errors: what ended a task, which nothing should.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 1_700_000_000.0
        self.weather = Weather()
        self.steps = 0
        self.trace: list[tuple[float, int, str]] = []
        self.errors: list[BaseException] = []
        self.outside = Process(1, Machine("outside", 0.0))
        self._numbers = 1
        self.tasks: list[_Task] = []
        self._running: _Task | None = None
        self._ended = threading.Event()
        self.time = SimpleNamespace(
            monotonic=self.monotonic, sleep=self.sleep, time=self.wall_clock
        )
        self.threading = SimpleNamespace(
            Lock=lambda: _Lock(self),
            Event=lambda: _Event(self),
            Thread=lambda **named: _Thread(self, **named),
        )

    @property
    def process(self) -> Process:
        """Return the process that has its turn."""
        return self.outside if self._running is None else self._running.process

    def new_process(self, machine: Machine) -> Process:
        """Make a process, whose tasks are still to be started."""
        self._numbers += 1
        return Process(self._numbers, machine, 10 ** self.random.uniform(-0.5, 1))

    def start(self, process: Process, run: Callable[[], None], after: float = 0.0) -> _Task:
        """Let a function run in a process, after some seconds."""
        task = _Task(process, self.now + after)

        def body() -> None:
            task.turn.acquire()
            try:
                if not process.is_dead:
                    run()
            except Killed:
                pass
            except BaseException as error:
                self.errors.append(error)
            task.is_done = True
            self._hand_over(task)

        task.thread = threading.Thread(target=body, daemon=True)
        self.tasks.append(task)
        task.thread.start()
        return task

    def run(self) -> None:
        """Give turns until all tasks have come to their ends."""
        self._ended.clear()
        if self.tasks:
            self._hand_over(None)
            self._ended.wait()

    def step(self, what: str, may_fail: bool = True, most: float = _NEVER) -> None:
        """Let others go first, perhaps; then the operation is done, unless this raises.

        Args:
            what: it is.
            may_fail: whether it may, and the process live on.
            most: seconds that it takes.

        Raises:
            Killed: the process is dead.
            InjectedError: the operation fails.
        """
        task = self._running
        # Threads of Arrow work for the task that has its turn.
        if task is None or task.thread is not threading.current_thread():
            return
        self._check_alive(task)
        chance, weather, process = self.random, self.weather, task.process
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise AssertionError(f"{what}: no end after {self.steps} steps")
        dice = chance.random()
        wait = process.slowness * 10 ** chance.uniform(-3, -1)
        if dice < weather.slow:
            wait = self._long()
        elif dice < weather.slow + weather.still and not process.is_quick and most == _NEVER:
            process.until = self.now + self._long()
        fate = chance.random()
        process.is_quick = most < _NEVER
        self._wait(task, self.now + min(wait, most))
        process.is_quick = False
        if fate < weather.kill:
            self.note(f"killed at {what}")
            process.is_dead = True
            self._check_alive(task)
        if may_fail and fate > 1 - weather.fail:
            self.note(f"failed: {what}")
            raise InjectedError(5, f"injected into {what}")
        self.note(what)

    def _long(self) -> float:
        seconds = self.random.choice([3, 20, 50, 150, 400]) * self.random.random()
        return min(seconds, self.weather.longest)

    def note(self, what: str) -> None:
        """Write down what the process whose turn it is does."""
        self.trace.append((self.now, self.process.number, what))

    def monotonic(self) -> float:
        """Return seconds from some moment on; each machine has its own."""
        return self.now + 1000 * self.process.machine.skew

    def wall_clock(self) -> float:
        """Return what time the machine says that it is."""
        return self.now + self.process.machine.skew

    def sleep(self, seconds: float) -> None:
        """Stand for `time.sleep`."""
        self.wait_for(None, seconds)

    def wait_for(self, ready: Callable[[], bool] | None, seconds: float | None) -> None:
        """Wait until something is so, or a time is over."""
        task = self._running
        if task is None or task.thread is not threading.current_thread():
            assert ready is None or ready(), "nobody else is at work"
            return
        self._check_alive(task)
        self._wait(task, _NEVER if seconds is None else self.now + seconds, ready)

    def _wait(self, task: _Task, wake: float, ready: Callable[[], bool] | None = None) -> None:
        task.wake, task.ready = wake, ready
        self._hand_over(task)
        task.ready = None
        self._check_alive(task)

    def _check_alive(self, task: _Task) -> None:
        if task.process.is_dead:
            raise Killed(task.process.number)

    def _hand_over(self, before: _Task | None) -> None:
        self.tasks = [task for task in self.tasks if not task.is_done]
        if not self.tasks:
            self._running = None
            self._ended.set()
            return
        chosen = min(self.tasks, key=self._when)
        when = self._when(chosen)
        if when == _NEVER:
            self.errors.append(AssertionError("all wait for each other"))
            for task in self.tasks:
                task.process.is_dead = True
            when = self.now
        self.now = max(self.now, when)
        self._running = chosen
        if chosen is not before:
            chosen.turn.release()
            if before is not None and not before.is_done:
                before.turn.acquire()

    def _when(self, task: _Task) -> float:
        if task.process.is_dead:
            return self.now
        when = self.now if task.ready is not None and task.ready() else task.wake
        return max(when, task.process.until)


class _Lock:
    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._is_held = False

    def __enter__(self) -> None:
        self._turns.wait_for(lambda: not self._is_held, None)
        self._is_held = True

    def __exit__(self, *_: object) -> None:
        self._is_held = False


class _Event:
    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def wait(self, seconds: float) -> bool:
        self._turns.wait_for(lambda: self._is_set, seconds)
        return self._is_set


class _Thread:
    def __init__(self, turns: Turns, *, target: Callable[[], None], name: str, daemon: bool):
        self._turns = turns
        self._target = target
        self._task: _Task | None = None

    def start(self) -> None:
        # Outside of any turn nothing takes time, so there is nothing to renew.
        if self._turns.process is not self._turns.outside:
            self._task = self._turns.start(self._turns.process, self._target)

    def join(self) -> None:
        task = self._task
        if task is not None:
            self._turns.wait_for(lambda: task.is_done, None)
