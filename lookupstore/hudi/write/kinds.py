"""``ValueKind``: the values that an option or flag accepts as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lookupstore.quantities import bytes_of


@dataclass(frozen=True)
class ValueKind:
    """A kind of values, with its parser.

    Attributes:
        words: Description of the values, for errors.
        parse: Function that returns the value of a text, or raises `ValueError`.
        refused: Reasons why well-known values are refused, by value in lower case.
        choices: The only values, if there are few.
        least: Smallest value of a number. None: any.
        fraction: Whether a number may have a fraction.
    """

    words: str
    parse: Callable[[str], Any]
    refused: Mapping[str, str] = field(default_factory=dict)
    choices: tuple[str, ...] = ()
    least: int | None = None
    fraction: bool = False


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def _columns(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


FLAG = ValueKind("true or false", _flag)
NUMBER = ValueKind("a whole number", int)
RATE = ValueKind("a number", float, fraction=True)
TEXT = ValueKind("a text", str)
COLUMNS = ValueKind("columns with commas between", _columns)
SIZE = ValueKind("bytes, or a size such as 512MiB", lambda text: bytes_of(text, "size"))


def at_least(least: int, kind: ValueKind = NUMBER) -> ValueKind:
    """Return a kind of numbers with a smallest value.

    >>> at_least(1).parse("0")
    Traceback (most recent call last):
    ValueError
    """

    def parse(text: str) -> Any:
        value = kind.parse(text)
        if not value >= least:
            raise ValueError
        return value

    words = f"{kind.words}, at least {least}"
    return ValueKind(words, parse, least=least, fraction=kind.fraction)


def one_of(*known: str) -> ValueKind:
    """Return a kind with a few words as values.

    >>> one_of("keep", "null").words
    "one of 'keep', 'null'"
    """

    def parse(text: str) -> str:
        if text not in known:
            raise ValueError
        return text

    return ValueKind(f"one of {', '.join(map(repr, known))}", parse, choices=known)
