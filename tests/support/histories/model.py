"""The rows of a table with unique ids, as Python values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

Model = dict[int, tuple[Any, ...]]


def model_of(rows: pa.Table) -> Model:
    """Return rows by their id, which each has alone."""
    others = [name for name in rows.column_names if name != "id"]
    values = zip(*(rows[name].to_pylist() for name in others), strict=True)
    ids = rows["id"].to_pylist()
    found = dict(zip(ids, values if others else [()] * len(ids), strict=True))
    assert len(found) == len(ids)
    return found
