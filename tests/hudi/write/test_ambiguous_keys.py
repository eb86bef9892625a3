"""Different keys of several columns whose texts are equal: refused, in one write and beside a row.

The oracle is the tuple of values.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.samples import amount

from lookupstore.hudi import HudiTable, WriteOptions

SCHEMA = pa.schema({"a": pa.string(), "b": pa.string(), "p": pa.string(), "v": pa.int64()})
Key = tuple[str | None, str | None]
PAIRS: list[tuple[Key, Key, str]] = [
    (("x,b:y", "z"), ("x", "y,b:z"), r"\(a='x,b:y', b='z'\).*\(a='x', b='y,b:z'\).*'a:x,b:y,b:z'"),
    (("x", None), ("x", "__null__"), r"\(a='x', b=None\).*\(a='x', b='__null__'\)"),
    (("", "z"), ("__empty__", "z"), r"\(a='', b='z'\).*\(a='__empty__', b='z'\)"),
]


def make(path: Path) -> HudiTable:
    return HudiTable.create(path, SCHEMA, record_key=["a", "b"], partition_by="p")


def rows_of(*keys: Key, partition: str = "p") -> pa.Table:
    columns = zip(*((*key, partition, at) for at, key in enumerate(keys)), strict=True)
    return pa.table([list(one) for one in columns], schema=SCHEMA)


@pytest.mark.parametrize(("one", "other", "said"), PAIRS)
def test_two_of_one_write(tmp_path: Path, one: Key, other: Key, said: str) -> None:
    table = make(tmp_path)
    both = rows_of(("k", "k"), one, ("x", "y"), other)
    for verb in ("upsert", "insert", "bulk_insert", "insert_overwrite"):
        for options in (None, WriteOptions(memory=1 << 16)):
            with pytest.raises(ValueError, match=f"^row 2, {said}|^row 2, .*row 4, "):
                getattr(table, verb)(both, options=options)
        with pytest.raises(ValueError, match=said):
            getattr(table, verb)(both, dry_run=True)
    assert not [one for one in table.timeline() if one.is_completed and one.is_write]
    # Neither alone, nor the same key twice, nor in another partition.
    table.upsert(rows_of(one, ("x", "y"), one))
    table.upsert(rows_of(other, partition="q"))
    assert table.scan().num_rows == 3


@pytest.mark.parametrize(("one", "other", "said"), PAIRS)
def test_one_beside_a_stored_row(tmp_path: Path, one: Key, other: Key, said: str) -> None:
    table = make(tmp_path)
    table.insert(rows_of(one, ("x", "y")))
    stored = table.scan()
    for first in (rows_of(other), rows_of(("x", "y"), other)):
        with pytest.raises(ValueError, match=r"the row .* of .*parquet, have different"):
            table.upsert(first)
        with pytest.raises(ValueError, match="have different keys"):
            table.insert(first, options=WriteOptions(duplicates="drop"))
    anywhere = WriteOptions(index="global-bloom")
    with pytest.raises(ValueError, match="have different keys"):
        table.upsert(rows_of(other, partition="q"), options=anywhere)
    assert table.scan() == stored
    assert table.upsert(rows_of(one)).rows_updated == 1


@pytest.mark.sampled
def test_random_keys(tmp_path: Path, seed: int) -> None:
    """Refused if and only if two tuples have one text."""
    rng = random.Random(seed)
    values = ["x", "y", "x,b:y", "y,b:z", "z", ",b:", "__null__", "__empty__", "", None]
    refused = 0
    for case in range(amount(12, 500)):
        table = make(tmp_path / f"t{case}")
        stored: dict[str, Key] = {}
        for _ in range(3):
            given = [(rng.choice(values), rng.choice(values)) for _ in range(rng.randrange(1, 5))]
            if not refused:  # whatever is drawn, one is refused
                given = [("x", None), ("x", "__null__")]
            given = [one for one in given if any(one)]
            if not given:
                continue
            texts: dict[str, set[Key]] = {text: {key} for text, key in stored.items()}
            for key in given:
                texts.setdefault(text_of(key), set()).add(key)
            if any(len(keys) > 1 for keys in texts.values()):
                with pytest.raises(ValueError, match="have different keys and one record key"):
                    table.upsert(rows_of(*given))
                refused += 1
                continue
            table.upsert(rows_of(*given))
            stored |= {text_of(key): key for key in given}
        found: list[dict[str, Any]] = table.scan(columns=["a", "b"]).to_pylist()
        assert Counter((row["a"], row["b"]) for row in found) == Counter(stored.values())
    assert refused


def text_of(key: Key) -> str:
    shown = ["__null__" if one is None else one or "__empty__" for one in key]
    return f"a:{shown[0]},b:{shown[1]}"


@pytest.mark.parametrize(("one", "other", "said"), PAIRS)
def test_keys_to_delete(tmp_path: Path, one: Key, other: Key, said: str) -> None:
    """A row is not deleted by the key of another one, whose text is the same."""
    table = make(tmp_path)
    table.insert(rows_of(one, ("x", "y")))
    table.insert(rows_of(("k", "k"), partition="q"))
    stored = table.scan()
    both = rows_of(("k", "k"), ("k", "k"), one, other)
    for options in (None, WriteOptions(memory=1 << 16), WriteOptions(index="global-bloom")):
        for columns in (["a", "b"], ["a", "b", "p"]):
            with pytest.raises(ValueError, match=f"^row 3, {said}.*have different keys|row 4, "):
                table.delete(both.select(columns), options=options)
            with pytest.raises(ValueError, match=r"^row 2, .*, and the row .*parquet, have diff"):
                table.delete(rows_of(("k", "k"), other).select(columns), options=options)
    assert table.scan() == stored
    assert table.delete(rows_of(one, ("k", "k"), one).select(["a", "b"])).rows_deleted == 2
    assert table.scan(columns=["a", "b"]).to_pylist() == [{"a": "x", "b": "y"}]
