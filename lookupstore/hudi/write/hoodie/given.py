"""Parse and check the options under Hudi's names that a caller gave."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from lookupstore.errors import listed
from lookupstore.hudi.services.inline import TableServices
from lookupstore.hudi.write.hoodie.known import PLACES, nearest, option_of
from lookupstore.hudi.write.hoodie.option import HudiOption, OptionPart
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.quantities import bytes_of

# Minimum similarity of an unknown name to the name that an error suggests.
_ALIKE = 0.8
_log = logging.getLogger(__name__)
# Sets of names without effect that were logged already.
_logged: set[frozenset[str]] = set()


@dataclass(frozen=True)
class Said:
    """One option that a caller gave.

    Attributes:
        name: Name as it was given.
        text: Value as it was given, as text.
        option: Description of the option.
        value: Parsed value.
    """

    name: str
    text: str
    option: HudiOption
    value: Any


def told_apart(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split options into those under Hudi's names, and the others.

    >>> told_apart({"hoodie.index.type": "BLOOM", "path": "visits"})
    ({'hoodie.index.type': 'BLOOM'}, {'path': 'visits'})
    """
    named = {name: text for name, text in options.items() if name.startswith("hoodie.")}
    return named, {name: text for name, text in options.items() if name not in named}


def operation_in(given: Mapping[str, Any]) -> str | None:
    """Return the operation in options under Hudi's names; None: there is none."""
    for name, text in given.items():
        option = option_of(str(name))
        if option is not None and option.part is OptionPart.OPERATION:
            return str(text)
    return None


def said_in(given: Mapping[str, Any], *, reads: bool = False) -> list[Said]:
    """Return the options that affect writes, or reads, without the others.

    Args:
        given: Values by Hudi's names.
        reads: Whether the options are given to a read.

    Raises:
        TypeError: If `given` is not a dict of values by name.
        ValueError: If a name is not known, or a value is refused.
    """
    if not isinstance(given, Mapping):
        raise TypeError(
            f"options is {type(given).__name__}; give WriteOptions, or a dict of Hudi's names"
        )
    said, unknown, nameless, idle = [], [], [], []
    for name, value in given.items():
        option = option_of(str(name))
        if option is None:
            near = nearest(str(name))
            unknown.append(f"{name!r}" + (f" (nearest: {near})" if near else ""))
            nameless += [] if near else [name]
            continue
        if value is None:
            raise ValueError(f"options: {name} is None; give a value, or leave the option out")
        if option.reads != reads or option.verdict == "nothing to do":
            idle.append(str(name))
            continue
        text = str(value).lower() if isinstance(value, bool) else str(value).strip()
        said.append(Said(str(name), text, option, option.parsed(str(name), text)))
    if unknown:
        leave = f"; leave out {listed(nameless)}" if len(unknown) > 1 else "; leave it out"
        others = leave if nameless else ""
        remedy = next(filter(None, map(_remedy, map(str, given))), others)
        raise ValueError(f"options: unknown names {', '.join(unknown)}{remedy}")
    _log_once(frozenset(idle), "reading" if reads else "writing")
    return sorted(said, key=lambda one: PLACES[one.option.names])


def _remedy(name: str) -> str:
    """Return how to pass an option by lookupstore's name. Empty: no such name is similar."""
    services = {one.name for one in fields(TableServices)}
    near = get_close_matches(name, services | {one.name for one in fields(WriteOptions)}, 1, _ALIKE)
    if not near:
        return ""
    own = f"{near[0]}=..."
    if near[0] in services:
        own = f"services=TableServices({own})"
    return f"; a dict needs Hudi's option names; pass WriteOptions({own})"


def fields_of(said: Iterable[Said], *parts: OptionPart) -> dict[str, Any]:
    """Return the values of the options of some parts, by lookupstore's field names.

    Raises:
        ValueError: If two options contradict each other.
    """
    found: dict[str, Said] = {}
    for one in said:
        if one.option.part not in parts:
            continue
        other = found.setdefault(one.option.field, one)
        if other.value != one.value:
            raise ValueError(
                f"options: {one.name} is {one.text!r}, but {other.name} is {other.text!r}; "
                "give one of them"
            )
    return {field: one.value for field, one in found.items()}


def with_said(
    said: Iterable[Said], arguments: Mapping[str, Any], *parts: OptionPart
) -> dict[str, Any]:
    """Return the arguments that a caller gave, with those from options.

    Args:
        said: Options that the caller gave.
        arguments: Arguments that the caller gave.
        parts: Parts of the options that correspond to arguments.

    Raises:
        ValueError: If an option contradicts an argument, or another option.
    """
    said = list(said)
    fields = fields_of(said, *parts)
    for name, value in fields.items():
        if name not in arguments:
            continue
        there = arguments[name]
        if isinstance(value, tuple) and there is not None:
            there = (there,) if isinstance(there, str) else tuple(there)
        if isinstance(value, int) and isinstance(there, str):
            there = bytes_of(there, name)
        if there != value and (there is not None or value):
            by = next(one.name for one in said if one.option.field == name)
            raise ValueError(
                f"{name} is {there!r}, but options say {value!r} in {by}; give one of them"
            )
    return {**arguments, **fields}


def _log_once(names: frozenset[str], doing: str) -> None:
    if names and names not in _logged:
        _logged.add(names)
        _log.info(
            "nothing to do when %s for the options %s: docs/reference/hudi-options.md says why",
            doing,
            ", ".join(sorted(names)),
        )
