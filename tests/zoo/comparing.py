"""Compare the rows of two readers: columns, kinds of type, number of rows and every value."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from zoo.values import Rows


def difference(
    right: Rows,
    got: Rows,
    right_by: str,
    got_by: str,
    *,
    keys: Collection[str] = (),
    zones: Collection[str] = (),
    families: bool = True,
) -> str | None:
    """Return the first difference between the rows of two readers; None: there is none.

    Args:
        right: Rows of the reader that decides.
        got: Rows of the other reader, in the same order.
        right_by: Name of the reader that decides.
        got_by: Name of the other reader.
        keys: Columns in which -0.0 equals 0.0.
        zones: Columns whose timestamps may have a zone or none.
        families: Whether kinds of type are compared.
    """
    if right.names != got.names:
        if sorted(right.names) != sorted(got.names) or len(set(got.names)) != len(got.names):
            return f"columns {right.names} by {right_by}, {got.names} by {got_by}"
        got = got.select(right.names)
    for name, one, other in zip(right.names, right.families, got.families, strict=True):
        if families and not same_family(one, other, zones=name in zones):
            return f"column {name!r} is {one} by {right_by}, {other} by {got_by}"
    if right.count != got.count:
        return f"{right.count} rows by {right_by}, {got.count} by {got_by}"
    for name, one, other in zip(right.names, right.columns, got.columns, strict=True):
        if one == other and name not in keys:
            continue
        for row, (expected, found) in enumerate(zip(one, other, strict=True)):
            if not same_value(expected, found, zeros=name in keys):
                return (
                    f"column {name!r}, row {row}: {shown(expected)} by {right_by}, "
                    f"{shown(found)} by {got_by}"
                )
    return None


def same_family(one: str, other: str, *, zones: bool) -> bool:
    """Whether two kinds of type are one; a column of nulls may be of any type."""
    if zones:
        one, other = one.replace("instant", "local"), other.replace("instant", "local")
    return one == other or "null" in (one, other)


def same_value(one: Any, other: Any, *, zeros: bool) -> bool:
    """Whether two values are equal, and of one type where Python finds different ones equal."""
    if zeros:
        one, other = (0.0 if value == "-0.0" else value for value in (one, other))
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    return bool(one == other)


def other_types(right: Rows, got: Rows, right_by: str) -> Iterator[str]:
    """Yield the columns whose types have another width or unit."""
    for name, one, other in zip(right.names, right.types, got.types, strict=True):
        if one and one != other:
            yield f"column {name!r} is {other}; by {right_by} {one}"


def shown(value: Any) -> str:
    """Return a value for people, short."""
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:100]}… ({len(text)} characters)"
