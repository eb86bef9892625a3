"""Columns that are objects of Python; the oracle is the objects."""

from __future__ import annotations

import pyarrow as pa

from lookupstore.source.python_rows import table_of


def test_columns_after_one_of_a_known_type_are_there() -> None:
    columns = {"a": [1, None], "b": [2, 3], "c": ["x", "y"]}
    made = table_of(columns, pa.schema({"a": pa.int64()}))
    assert made is not None
    assert made[0].to_pydict() == columns
