"""Limit the number of levels and parts of a filter.

Arrow processes an expression by recursion, and an expression that is too deep crashes the process.
Therefore each filter is measured before it is used.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.filters.parsed_expression import tokens_of

#: Maximum depth of nested calls. Arrow needs some hundred bytes of stack for each, also in its
#: threads.
MOST_LEVELS = 500
#: Maximum number of calls, columns and values. A list of values counts as one value.
MOST_PARTS = 100_000
#: Maximum depth of nested lists, and of nested conditions in SQL.
MOST_NESTED = 100
_REMEDY = "give a list of filters, or a list of values as ('column', 'in', [...])"
# Size of a stack in bytes with which Arrow can serialize an expression of 200,000 levels.
_STACK = 1 << 26
# The stack size is a setting of the process, which applies to all new threads.
_stack_sizes = threading.Lock()


def check_size(expression: pc.Expression, *, may_be_deep: bool) -> None:
    """Raise an error if a filter has too many levels or parts.

    Args:
        expression: Filter to measure.
        may_be_deep: Whether the filter may have more levels than the stack of this thread allows.

    Raises:
        ValueError: If the filter has too many levels or parts.
    """
    try:
        levels, parts = _in_large_stack(expression) if may_be_deep else _measured(expression)
    except (ValueError, TypeError, KeyError, pa.ArrowException):
        return  # Arrow cannot serialize it
    if levels > MOST_LEVELS:
        raise ValueError(f"filter: it has {levels:,} levels, more than {MOST_LEVELS:,}; {_REMEDY}")
    check_parts(parts)


def check_parts(parts: int) -> None:
    """Raise an error if a filter has too many parts.

    Args:
        parts: Number of parts of the filter, or of those that were counted so far.

    Raises:
        ValueError: If the filter has too many parts.
    """
    if parts > MOST_PARTS:
        raise ValueError(f"filter: it has {parts:,} parts, more than {MOST_PARTS:,}; {_REMEDY}")


def balanced(
    parts: Sequence[pc.Expression], join: Callable[[pc.Expression, pc.Expression], pc.Expression]
) -> pc.Expression:
    """Join parts in pairs, so that n parts make log n levels.

    >>> a, b, c = map(pc.field, "abc")
    >>> balanced([a, b, c], lambda one, other: one & other)
    <pyarrow.compute.Expression ((a and b) and c)>
    """
    while len(parts) > 1:
        pairs = [parts[at : at + 2] for at in range(0, len(parts), 2)]
        parts = [join(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return parts[0]


def _measured(expression: pc.Expression) -> tuple[int, int]:
    """Return the number of levels and parts of an expression."""
    levels = most = parts = 0
    for kind, value in tokens_of(expression)[0]:
        if kind == "end":
            levels -= 1
        elif kind == "nested_field_ref":
            parts -= int(value) - 1  # its fields are tokens, too
        elif kind != "options":
            parts += 1
            levels += kind == "call"
            most = max(most, levels)
    return most, parts


def _in_large_stack(expression: pc.Expression) -> tuple[int, int]:
    measured: list[tuple[int, int]] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            measured.append(_measured(expression))
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="lookupstore-filter", daemon=True)
    with _stack_sizes:
        before = threading.stack_size(_STACK)
        try:
            thread.start()
        finally:
            threading.stack_size(before)
    thread.join()
    if errors:
        raise errors[0]
    return measured[0]


def _after_fork() -> None:
    global _stack_sizes
    _stack_sizes = threading.Lock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_after_fork)
