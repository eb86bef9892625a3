"""Keys without names: deletes and tags take the forms that lookups take."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lookupstore.hudi import HudiTable

ROWS = pa.table({"id": [1, 2, 3, 1], "city": ["Berlin", "Bonn", "Ulm", "Ulm"], "v": [1, 2, 3, 4]})
PAIRS = [(1, "Ulm"), (2, "Bonn")]

# Keys 1 and 2 in each form; functions, because some can be read once.
KEYS: dict[str, Callable[[], Any]] = {
    "list": lambda: [1, 2],
    "set": lambda: {1, 2},
    "range": lambda: range(1, 3),
    "iterator": lambda: iter([1, 2]),
    "view": lambda: {1: 0, 2: 0}.keys(),
    "numpy": lambda: np.array([1, 2]),
    "numpy of another byte order": lambda: np.array([1, 2], ">i8"),
    "numpy of objects": lambda: np.array([1, 2], object),
    "numpy with names": lambda: np.array([(1,), (2,)], [("id", "i8")]),
    "pandas": lambda: pd.Series([1, 2]),
    "pandas index": lambda: pd.Index([1, 2]),
    "pandas categorical": lambda: pd.Categorical([1, 2]),
    "polars": lambda: pl.Series([1, 2]),
    "arrow": lambda: pa.array([1, 2]),
    "arrow chunks": lambda: pa.chunked_array([[1], [2]]),
    "arrow structs": lambda: pa.array([{"id": 1}, {"id": 2}]),
    "tuple of columns": lambda: ([1, 2],),
    "dicts": lambda: [{"id": 1}, {"id": 2}],
}
# The same with their partitions.
PLACED: dict[str, Callable[[], Any]] = {
    "list": lambda: PAIRS,
    "set": lambda: {*PAIRS},
    "iterator": lambda: iter(PAIRS),
    "levels": lambda: pd.MultiIndex.from_tuples(PAIRS),
    "levels with names": lambda: pd.MultiIndex.from_tuples(PAIRS, names=["id", "city"]),
    "index of a frame": lambda: pd.DataFrame({"x": 0, "id": [1, 2], "city": ["Ulm", "Bonn"]})
    .set_index(["id", "city"]),
    "tuple of columns": lambda: (np.array([1, 2]), pl.Series(["Ulm", "Bonn"])),
    "arrow structs": lambda: pa.array([{"id": one, "city": city} for one, city in PAIRS]),
}  # fmt: skip


def make(folder: Path, **options: Any) -> HudiTable:
    table = HudiTable.create(folder, ROWS, record_key="id", **options)
    table.insert(ROWS if options else ROWS.slice(0, 3))
    return table


@pytest.mark.parametrize("form", KEYS)
def test_deletes_and_tags_take_what_lookups_take(tmp_path: Path, form: str) -> None:
    table = make(tmp_path)
    keys = KEYS[form]
    assert sorted(table.lookup(keys())["v"].to_pylist()) == [1, 2]
    assert table.tag(keys())["_pos"].null_count == 0
    assert table.explain_tag(keys()).found == 2
    for _ in range(2):
        assert table.delete(keys(), dry_run=True).rows_deleted == 2
    assert table.delete(keys()).rows_deleted == 2
    assert table.scan(columns="id")["id"].to_pylist() == [3]


@pytest.mark.parametrize("form", PLACED)
def test_partitions_of_keys_count(tmp_path: Path, form: str) -> None:
    table = make(tmp_path, partition_by="city")
    keys = PLACED[form]
    assert sorted(table.lookup(keys())["v"].to_pylist()) == [2, 4]
    assert sorted(table.tag(keys())["_partition"].to_pylist()) == ["Bonn", "Ulm"]
    assert table.delete(keys()).rows_deleted == 2
    left = table.scan(columns=["id", "city"]).to_pylist()
    assert left == [{"id": 1, "city": "Berlin"}, {"id": 3, "city": "Ulm"}]


def test_one_column_can_be_given_again(tmp_path: Path) -> None:
    """It is not read up, as an iterator is."""
    table = make(tmp_path)
    keys = pl.Series([1])
    assert [table.delete(keys).rows_deleted for _ in range(2)] == [1, 0]


@pytest.mark.parametrize("verb", ["delete", "tag", "lookup"])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (1, "is int; give a list of keys, an Arrow, "),
        (np.int64(1), "is numpy.int64; give a list of keys, an Arrow, "),
        (1.5, "is float; give a list of keys, an Arrow, "),
        (b"1", "is bytes; give a list of keys, an Arrow, "),
        ((1, "Berlin"), "got a tuple of int, str; for a batch of keys, give a list$"),
        (np.array([[1]]), "keys: an array of 2 dimensions; give one dimension$"),
        (pd.MultiIndex.from_tuples(PAIRS), r"the MultiIndex has 2 levels; the key has \['id'\]$"),
        (pl.Series([1], dtype=pl.Int128), "Int128, which Arrow does not have"),
    ],
)
def test_other_values_are_refused(tmp_path: Path, verb: str, given: Any, said: str) -> None:
    table = make(tmp_path)
    with pytest.raises(TypeError, match=said) as raised:
        getattr(table, verb)(given)
    assert len(str(raised.value).split()) < 35
    assert len(table) == 3


def test_a_text_is_a_file_or_else_a_key(tmp_path: Path) -> None:
    texts = pa.table({"id": ["a", "b"], "v": [1, 2]})
    table = HudiTable.create(tmp_path, texts, record_key="id")
    table.insert(texts)
    with pytest.raises(FileNotFoundError, match=r"if it is a key, give a list of keys: \['a'\]$"):
        table.delete("a")
    for condition in ("id = 'a'", "v>=2", "id IN ('a')"):
        with pytest.raises(FileNotFoundError, match="pass it to delete as where=") as raised:
            table.delete(condition)
        given = str(raised.value).split("where=")[1]
        assert table.delete(where=ast.literal_eval(given), dry_run=True).rows_deleted == 1
    assert table.delete(["a"], dry_run=True).rows_deleted == 1
    assert table.delete(pd.Series(["a", None]).dropna(), dry_run=True).rows_deleted == 1
    assert table.delete({"a"}).rows_deleted == 1
