"""Whether lookups ask open lookup files together, or files one by one."""

from __future__ import annotations

import os
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
