"""Choose the key of a store among the columns of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from zoo.values import Rows

# How many leading columns may make up a key.
MOST_KEY_COLUMNS = 4
KEY_FAMILIES = [
    "int",
    "text",
    "decimal",
    "date",
    "local",
    "instant",
    "binary",
    "time",
    "bool",
    "float",
    "duration",
    "untyped",
]


@dataclass(frozen=True)
class Key:
    """A choice of key columns, and what is done with repeated keys."""

    columns: tuple[str, ...]
    is_unique: bool


def keys_to_try(rows: Rows) -> Iterator[Key]:
    """Yield keys: a short unique column, few leading ones, the last row of repeated ones."""
    able = [
        (name, column)
        for name, kind, column in zip(rows.names, rows.families, rows.columns, strict=True)
        if kind in KEY_FAMILIES
        and rows.names.count(name) == 1
        and not any(isinstance(value, (list, dict)) for value in column)
    ]
    unique = [one for one in able if None not in one[1] and is_unique([one[1]])]
    # Text whose type is guessed may repeat as numbers; floats have two zeros.
    unique.sort(key=lambda one: sum(len(str(value)) for value in one[1][:100]))
    for name, _ in unique[:2]:
        yield Key((name,), True)
    for count in range(2, min(len(able), MOST_KEY_COLUMNS) + 1):
        if not unique and is_unique([column for _, column in able[:count]]):
            yield Key(tuple(name for name, _ in able[:count]), True)
            break
    for name, _ in able:
        yield Key((name,), False)


def key_values(rows: Rows, key: Key) -> list[tuple[Any, ...]]:
    """Return the keys of rows; both zeros are one key."""
    columns = rows.select(key.columns).columns
    return [tuple(0.0 if v == "-0.0" else v for v in row) for row in zip(*columns, strict=True)]


def is_unique(columns: list[list[Any]]) -> bool:
    """Whether no row of some columns comes twice."""
    rows = list(zip(*columns, strict=True))
    return len(set(rows)) == len(rows)
