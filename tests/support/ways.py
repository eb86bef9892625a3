"""What a row of the table of ways to go wrong is, for the files that have such rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Way:
    """One way to go wrong, the error that it gives, and what that says to do.

    Attributes:
        what: was done, as it was typed.
        provoke: does it in a folder, and so raises the error.
        error_type: of the error.
        says: texts that the error has: what is wrong (argument, column, file), and the remedy.
        remedy: does in the same folder what the error says; it succeeds.
    """

    what: str
    provoke: Callable[[Any], object]
    error_type: type[BaseException] | tuple[type[BaseException], ...]
    says: tuple[str, ...]
    remedy: Callable[[Any], object]


def text_of(error: BaseException) -> str:
    """Return what an error says, on one line."""
    said = error.args[0] if type(error) is KeyError and error.args else error
    return " ".join(str(said).split())


def check_way(way: Way, folder: Any) -> str:
    """Go wrong, check what the error says, and do that; return the row for people."""
    try:
        way.provoke(folder)
    except way.error_type as error:
        said, kind = text_of(error), type(error).__name__
    else:
        raise AssertionError(f"{way.what}: no error")
    for part in way.says:
        assert part in said, f"{way.what}: {part!r} is not in {said!r}"
    way.remedy(folder)
    return f"{way.what}\n    {kind}: {said}"
