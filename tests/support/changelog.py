"""Changelogs of stores, checked in Python: applied row by row, and beside a full comparison."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

Row = tuple[Any, ...]
Model = dict[Any, Row]


def same(one: Any, other: Any) -> bool:
    """Return whether two values are one: as Python has it, but NaN is itself."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (one != one and other != other)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return type(one) is type(other) and one == other


def applied(model: Model, changes: Iterable[pa.RecordBatch], keys: int = 1) -> Model:
    """Return a model with all rows of a changelog applied, each of which has to fit.

    Args:
        model: rows by key, before.
        changes: `change`, `keys` key columns, and value columns.
        keys: how many key columns there are; a key of several is a tuple.
    """
    found = dict(model)
    waits: tuple[Any, Row] | None = None
    seen = set()
    for batch in changes:
        columns = [column.to_pylist() for column in batch.columns]
        for change, *rest in zip(*columns, strict=True):
            key = rest[0] if keys == 1 else tuple(rest[:keys])
            row = tuple(rest[keys:])
            if change == "update_after":
                assert waits is not None
                assert waits[0] == key
                assert not same(waits[1], row)
                found[key], waits = row, None
                continue
            assert waits is None, "an update without what it became"
            assert key not in seen, "more than one change of a key"
            seen.add(key)
            if change == "insert":
                assert key not in found
                found[key] = row
                continue
            assert same(found[key], row), "not what was there"
            if change == "delete":
                del found[key]
            else:
                assert change == "update_before"
                waits = key, row
    assert waits is None
    return found


def check_changes(
    changes: pa.RecordBatchReader, before: Model, after: Model, keys: int = 1
) -> None:
    """Check a changelog against two models: all that changed is there, and nothing else.

    Args:
        changes: `change`, `keys` key columns, and value columns.
        before: rows by key, before.
        after: rows by key, after.
        keys: how many key columns there are; a key of several is a tuple.
    """
    batches = list(changes)
    found = applied(before, batches, keys)
    assert found.keys() == after.keys()
    assert all(same(found[key], after[key]) for key in after)
    other = [key for key in {*before, *after}
             if not same(before.get(key), after.get(key))]  # fmt: skip
    updates = sum(key in before and key in after for key in other)
    assert sum(batch.num_rows for batch in batches) == len(other) + updates
