"""Check and show the arguments of methods and classes.

`keyword_only` makes errors name the keywords. `with_advice` makes errors about an unknown keyword,
too many positional ones or too few say what to write instead, and `with_init_advice` those of a
class.
`shows_init` shows the arguments of a class.
`KEY_ADVICE`, `WHERE_ADVICE` and `JOIN_ADVICE` name the arguments that other tools call otherwise.
`column_names` checks names of columns. `ABSENT` is the value of an argument that was not given: an
option that can also be set elsewhere counts if the caller wrote it, even with the default value.
"""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, ParamSpec, TypeVar

from lookupstore.errors import listed, meant
from lookupstore.quantities import counted

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class _Absence(enum.Enum):
    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


#: What to write instead of names that other tools have for the key, and for a condition on rows.
KEY_ADVICE = dict.fromkeys(("keys", "on", "by", "primary_key", "record_key"), "give key=")
WHERE_ADVICE = dict.fromkeys(("filter", "filters", "condition"), "give where=")
#: What to write instead of names that other tools have for the arguments of a join.
JOIN_ADVICE = {
    **dict.fromkeys(("key", "keys", "by"), "give on="),
    **dict.fromkeys(
        ("left_on", "right_on"), "give on=, such as on={'column_of_rows': 'key_column'}"
    ),
    **dict.fromkeys(("suffix", "suffixes"), "give prefix= for the columns that are added"),
    "indicator": "give found=, the name of a column that is true where the key was found",
}
#: Type of an argument that was not given.
Absent = Literal[_Absence.ABSENT]
ABSENT: Final = _Absence.ABSENT


def column_names(argument: str, given: str | Iterable[str]) -> list[str]:
    """Return the names of columns that were given as one text or as several.

    Args:
        argument: Name of the argument, for errors.
        given: One name, or several.

    Raises:
        TypeError: If it is something else, such as an expression of polars or Spark.
        ValueError: If a name is given twice.

    >>> column_names("key", "id"), column_names("key", ("a", "b"))
    (['id'], ['a', 'b'])
    """
    try:
        names = [given] if isinstance(given, str) else list(given)
    except TypeError:
        module = type(given).__module__.partition(".")[0]
        kind = f"{module} {type(given).__name__}".removeprefix("builtins ")
        raise TypeError(
            f"{argument} is {kind}; give the name of a column, such as {argument}='id'"
        ) from None
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{argument} contains {name!r}; give column names")
        if name in seen:
            raise ValueError(f"{argument} names the column {name!r} twice")
        seen.add(name)
    return names


def only_given(**arguments: Any) -> dict[str, Any]:
    """Return the arguments that were given.

    >>> only_given(version=9, name=ABSENT)
    {'version': 9}
    """
    return {name: value for name, value in arguments.items() if value is not ABSENT}


def keyword_only(method: Callable[P, R]) -> Callable[P, R]:
    """Make a method with keyword-only arguments name them in its errors.

    >>> class Shelf:
    ...     @keyword_only
    ...     def scan(self, *, start=None, stop=None):
    ...         return start, stop
    >>> Shelf().scan(stop=7)
    (None, 7)
    >>> Shelf().scan(7)  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    TypeError: scan takes keyword arguments only: scan(start=..., stop=...);
        got int 7 without a name
    >>> Shelf().scan(end=7)
    Traceback (most recent call last):
    TypeError: scan has no argument 'end': scan(start=..., stop=...)
    """
    names = list(inspect.signature(method).parameters)[1:]
    form = f"{method.__name__}({', '.join(f'{name}=...' for name in names)})"

    @functools.wraps(method)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if len(args) > 1:
            raise TypeError(
                f"{method.__name__} takes keyword arguments only: {form}; got "
                f"{type(args[1]).__name__} {args[1]!r} without a name"
            )
        for name in kwargs:
            if name not in names:
                raise TypeError(f"{method.__name__} has no argument {name!r}: {form}")
        return method(*args, **kwargs)

    return checked


def with_advice(advice: Callable[[str], str | None]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function say what to write instead of a wrong argument.

    The function names all its arguments, without `*args` and `**kwargs`.

    Args:
        advice: Function that returns what to write instead of a name, or None.

    >>> @with_advice({"reverse": "give start and stop in the other order"}.get)
    ... def scan(start, *, stop=None): ...
    >>> scan(1, reverse=True)
    Traceback (most recent call last):
    TypeError: scan has no argument 'reverse'; give start and stop in the other order
    >>> scan(1, stpo=2)
    Traceback (most recent call last):
    TypeError: scan has no argument 'stpo'; did you mean 'stop'? It has 'start', 'stop'
    >>> scan(1, 2)
    Traceback (most recent call last):
    TypeError: scan takes 1 positional argument, found 2; call scan(start, stop=...)
    >>> scan(stop=2)
    Traceback (most recent call last):
    TypeError: scan needs the argument 'start'; call scan(start, stop=...)
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        parameters = inspect.signature(function).parameters
        named = [one.name for one in parameters.values() if one.kind is one.KEYWORD_ONLY]
        plain = [name for name in parameters if name not in named]
        known = [*plain, *named]
        needed = [name for name in plain if parameters[name].default is inspect.Parameter.empty]
        called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
        if plain[:1] in (["self"], ["cls"]):
            known = known[1:]
        form = ", ".join(f"{name}=..." if name in named else name for name in known)

        def check(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            for name in kwargs:
                if name in parameters:
                    continue
                said = advice(name)
                if said is not None:
                    raise TypeError(f"{called} has no argument {name!r}; {said}")
                others = meant(name, known, f"it has {listed(known)}")
                raise TypeError(f"{called} has no argument {name!r}{others}")
            if len(args) > len(plain):
                shown = [name for name in known if name in plain]
                found = len(args) - len(plain) + len(shown)  # without `self`
                raise TypeError(
                    f"{called} takes {counted(len(shown), 'positional argument')}, found {found}; "
                    f"call {called}({form})"
                )
            for name in needed[len(args) :]:
                if name not in kwargs:
                    raise TypeError(f"{called} needs the argument {name!r}; call {called}({form})")

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            check(args, kwargs)
            return function(*args, **kwargs)

        return checked

    return decorated


def with_init_advice(advice: Callable[[str], str | None]) -> Callable[[type[T]], type[T]]:
    """Make a class say what to write instead of an unknown keyword argument; see `with_advice`.

    >>> @with_init_advice({"rows": "give lines"}.get)
    ... class Shelf:
    ...     def __init__(self, lines): ...
    >>> Shelf(rows=3)
    Traceback (most recent call last):
    TypeError: Shelf has no argument 'rows'; give lines
    """

    def decorated(kind: type[T]) -> type[T]:
        kind.__init__ = with_advice(advice)(kind.__init__)  # type: ignore[method-assign]
        return kind

    return decorated


def shows_init(kind: type[R]) -> type[R]:
    """Make a class with its own `__new__` show the arguments of its `__init__`.

    >>> @shows_init
    ... class Shelf:
    ...     def __new__(cls, *_):
    ...         return object.__new__(cls)
    ...
    ...     def __init__(self, path): ...
    >>> inspect.signature(Shelf)
    <Signature (path)>
    """
    init = vars(kind)["__init__"]
    parameters = list(inspect.signature(init).parameters.values())
    kind.__signature__ = inspect.Signature(parameters[1:])  # type: ignore[attr-defined]
    return kind
