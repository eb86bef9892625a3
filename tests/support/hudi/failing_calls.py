"""Let any call of some folders of the package raise an exception, whichever function it is of.

`calls_of` runs something once and lists the calls; `failing` runs it again and raises at one of
them. Both are profile functions of Python, so that no function has to be patched, or known.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import lookupstore

_PACKAGE = Path(lookupstore.__file__).parent


@dataclass(frozen=True, order=True)
class Call:
    """A call of a function.

    Attributes:
        function: file below the package, line and name.
        number: how many calls of the function came before.
        door: the function of the folders, or of the rest of the package, by which they were
            entered; the same as `function` in a thread of theirs.
    """

    function: str
    number: int
    door: str


def calls_of(run: Callable[[], Any], folders: tuple[str, ...]) -> list[Call]:
    """Return the calls of functions in folders of the package, in the order in which they came.

    Args:
        run: is called once.
        folders: below the package, such as `hudi/layout`.
    """
    found: list[Call] = []
    counts: dict[str, int] = {}
    lock = threading.Lock()

    def seen(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or (name := _name(frame.f_code, folders)) is None:
            return
        with lock:
            number = counts[name] = counts.get(name, -1) + 1
        found.append(Call(name, number, _door(frame, folders)))

    with _profiled(seen):
        run()
    return found


@contextmanager
def failing(call: Call, error: BaseException, folders: tuple[str, ...]) -> Iterator[list[str]]:
    """Let one call raise an error, and yield a list that has its function once that was done."""
    done: list[str] = []
    lock = threading.Lock()
    left = call.number
    name = call.function.rpartition(" ")[2]

    def seen(frame: FrameType, event: str, _: object) -> None:
        nonlocal left
        # Most calls are of other functions: the name is looked at first.
        if event != "call" or done or frame.f_code.co_name != name:
            return
        if _name(frame.f_code, folders) != call.function:
            return
        with lock:
            left -= 1
            if left >= 0 or done:
                return
            done.append(call.function)
        raise error

    with _profiled(seen):
        yield done


@contextmanager
def _profiled(seen: Callable[[FrameType, str, object], None]) -> Iterator[None]:
    threading.setprofile(seen)
    sys.setprofile(seen)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


_names: dict[tuple[CodeType, tuple[str, ...]], str | None] = {}


def _name(code: CodeType, folders: tuple[str, ...]) -> str | None:
    """Return the name of a function if it is in one of the folders."""
    if (code, folders) not in _names:
        path = Path(code.co_filename)
        name = None
        if path.is_relative_to(_PACKAGE):
            below = path.relative_to(_PACKAGE).as_posix()
            if below.startswith(tuple(f"{folder}/" for folder in folders)):
                name = f"{below}:{code.co_firstlineno} {code.co_name}"
        _names[code, folders] = name
    return _names[code, folders]


def _door(frame: FrameType, folders: tuple[str, ...]) -> str:
    """Return the outermost function of the folders that a call is in."""
    door, at = "", frame
    while at is not None:
        if _name(at.f_code, folders) is not None:
            door = at.f_code.co_name
        at = at.f_back  # type: ignore[assignment]
    return door
