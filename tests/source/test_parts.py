"""Sources that Python programs have at hand: dicts, LazyFrames, and many tables or frames."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from polars.io.plugins import register_io_source

import lookupstore
from lookupstore.source.opening import open_source


@pytest.fixture
def rows(seed: int) -> dict[int, dict[str, Any]]:
    rng = random.Random(seed)
    return {
        key: {"n": rng.choice([None, rng.random()]), "text": f"row {key}"}
        for key in rng.sample(range(100_000), 3000)
    }


def table_of(rows: dict[int, dict[str, Any]], keys: list[int]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(keys, pa.int64()),
            "n": pa.array([rows[key]["n"] for key in keys], pa.float64()),
            "text": [rows[key]["text"] for key in keys],
        }
    )


AS: dict[str, Callable[[pa.Table], Any]] = {
    "tables": lambda table: table,
    "pandas": lambda table: table.to_pandas().astype({"text": object}),
    "polars": pl.from_arrow,
}


@pytest.mark.parametrize("kind", AS)
def test_parts_are_one_source(tmp_path: Path, rows: dict[int, dict[str, Any]], kind: str) -> None:
    """Also of a generator, each part of which may go when the next one comes."""
    keys = list(rows)

    def parts() -> Iterator[Any]:
        for start in range(0, len(keys), 700):
            yield AS[kind](table_of(rows, keys[start : start + 700]))

    with lookupstore.build(parts(), tmp_path / "s", key="id") as store:
        found = dict(store.items())
    assert {key: row["text"] for key, row in found.items()} == {
        key: row["text"] for key, row in rows.items()
    }
    assert {key: row["n"] for key, row in found.items()} == {
        key: row["n"] for key, row in rows.items()
    }
    assert list(found) == sorted(rows)
    again = [AS[kind](table_of(rows, keys[:5])), AS[kind](table_of(rows, keys[5:9]))]
    with lookupstore.build(again, tmp_path / "few", key="id", columns=["n"]) as store:
        assert list(store) == sorted(keys[:9])


def test_columns_by_name(tmp_path: Path, rows: dict[int, dict[str, Any]]) -> None:
    table = table_of(rows, list(rows))
    columns = {
        "id": table["id"].to_numpy(),
        "n": pd.Series(table["n"].to_pylist()),
        "text": table["text"].to_pylist(),
        "more": pl.Series(table["text"].to_pylist()),
        "arrow": table["n"],
    }
    with lookupstore.build(columns, tmp_path / "s", key="id") as store:
        assert store.get(table["id"][7].as_py()) == {
            "n": table["n"][7].as_py(),
            "text": table["text"][7].as_py(),
            "more": table["text"][7].as_py(),
            "arrow": table["n"][7].as_py(),
        }
        assert len(store) == len(rows)
    assert open_source({"a": np.arange(3)}).count_rows() == 3


def test_a_lazy_frame_gives_what_is_asked_for(
    tmp_path: Path, rows: dict[int, dict[str, Any]]
) -> None:
    asked: list[list[str] | None] = []
    frame = pl.from_arrow(table_of(rows, list(rows)))
    assert isinstance(frame, pl.DataFrame)

    def batches(
        columns: list[str] | None, predicate: pl.Expr | None, count: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        asked.append(columns)
        some = frame.head(frame.height if count is None else count)
        some = some if predicate is None else some.filter(predicate)
        yield some if columns is None else some.select(columns)

    lazy = register_io_source(batches, schema=frame.schema)
    even = lazy.filter(pl.col("id") % 2 == 0)
    with lookupstore.build(even, tmp_path / "s", key="id", columns=["text"]) as store:
        assert {key: row["text"] for key, row in store.items()} == {
            key: row["text"] for key, row in rows.items() if key % 2 == 0
        }
    assert sorted(asked[-1] or []) == ["id", "text"]
    with pytest.raises(ValueError, match="null key"):
        lookupstore.build(pl.LazyFrame({"id": [1, None]}), tmp_path / "t", key="id")
