"""Lookups in open lookup files: whether they answer together, and in threads."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lookupstore.columnar.files_together import FilesTogether
from lookupstore.columnar.open_files import OpenFiles
from lookupstore.hostcache.folder import COPY

_AN_HOUR_AGO = time.time() - 3600


@contextmanager
def answered_together(
    monkeypatch: pytest.MonkeyPatch,
    *,
    expected: bool,
    by: type = OpenFiles,
    methods: tuple[str, ...] = ("lookup", "rows", "contains"),
) -> Iterator[None]:
    """Check whether open files answer the calls together.

    Args:
        monkeypatch: Fixture of the test.
        expected: Whether each of the calls, or none of them, is to be answered together.
        by: Class whose methods answer.
        methods: Names of its methods, which return None if files have to be asked one by one.
    """
    answers: list[bool] = []

    def spied(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            found = method(*arguments)
            answers.append(found is not None)
            return found

        return call

    with monkeypatch.context() as patched:
        for name in methods:
            patched.setattr(by, name, spied(getattr(by, name)))
        yield
    assert (answers and all(answers)) if expected else not any(answers)


def wait() -> None:
    """Give other threads time."""
    time.sleep(0.003)


@contextmanager
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let all calls ask the files one by one."""
    with monkeypatch.context() as patched:
        patched.setattr(FilesTogether, "_open", lambda *_: None)
        yield


def aged(folder: Path) -> None:
    """Make lookup files older: those of a moment ago get no table of owners."""
    for path in folder.glob(f"*{COPY}"):
        os.utime(path, (_AN_HOUR_AGO, _AN_HOUR_AGO))


def looked_up_in_threads(
    look_up: Callable[[random.Random], None], meanwhile: Callable[[], object], seed: int
) -> None:
    """Let three threads look keys up, while something else is done 60 times.

    Args:
        look_up: Function that looks keys up, which it may choose by a generator of its thread.
        meanwhile: Function that is called in this thread.
        seed: Seed of the generators.
    """
    errors: list[BaseException] = []
    stop = threading.Event()

    def look_up_again(own: random.Random) -> None:
        try:
            while not stop.is_set():
                look_up(own)
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=look_up_again, args=(random.Random(seed + at),)) for at in range(3)
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in range(60):
            meanwhile()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not errors
