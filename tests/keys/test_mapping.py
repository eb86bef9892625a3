"""Lookups as a mapping, and on their way out to other libraries; the model is a dict."""

from __future__ import annotations

import pickle
import random
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import polars.testing
import pyarrow as pa
import pytest
from support.lookups import KINDS

import lookupstore
from lookupstore.hudi import HudiTable
from lookupstore.keys.lookups import Lookups
from lookupstore.store.buckets import BucketReads
from lookupstore.store.store import LookupStore

KEY = pa.field("id", pa.int64(), nullable=False)


@pytest.fixture(params=KINDS)
def opened(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> Iterator[tuple[Any, pa.Table]]:
    """Lookups, and their rows in the order of the key."""
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "cache"))
    rng = random.Random(seed)
    ids = rng.sample(range(10**6), 400)
    table = pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "n": pa.array([rng.choice([None, rng.random()]) for _ in ids], pa.float64()),
            "text": [rng.choice([None, "", f"text {key}"]) for key in ids],
        },
        pa.schema(
            [pa.field("id", pa.int64(), nullable=False), ("n", pa.float64()), ("text", pa.string())]
        ),
    )
    make: Callable[[pa.Table, Path], Lookups] = request.param
    with make(table, tmp_path) as lookups:
        yield lookups, table.sort_by("id")


def test_a_mapping(opened: tuple[Any, pa.Table]) -> None:
    lookups, table = opened
    rows = table.to_pylist()
    model = {row.pop("id"): row for row in rows}
    assert len(lookups) == len(lookups.keys()) == len(lookups.items()) == len(model)
    assert list(lookups) == list(lookups.keys()) == list(model)
    assert list(lookups.values()) == list(model.values())
    assert list(lookups.items()) == list(model.items())
    assert dict(lookups) == model
    key = next(iter(model))
    assert key in lookups.keys()  # noqa: SIM118
    assert -1 not in lookups.keys()  # noqa: SIM118
    assert lookups.keys() & {key, -1} == {key}
    assert (key, model[key]) in lookups.items()
    assert (key, {}) not in lookups.items()
    assert model[key] in lookups.values()
    assert {"n": "none"} not in lookups.values()
    with pytest.raises(KeyError) as missing:
        lookups[-1]
    assert missing.value.args == (-1,)
    assert str(pickle.loads(pickle.dumps(missing.value))) == f"{lookups.path}: no key -1"
    shown = traceback.format_exception_only(type(missing.value), missing.value)
    assert shown == [f"KeyError: {lookups.path}: no key -1\n"]
    assert lookups.get(-1, "none") == "none"
    assert lookups == lookups
    assert lookups != model
    assert len({lookups, lookups}) == 1


def test_iteration_reads_a_batch_at_a_time(
    opened: tuple[Any, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups, table = opened
    read = 0
    batches = table.to_batches(max_chunksize=10)

    def scan(names: list[str], *_: object) -> Iterator[pa.RecordBatch]:
        nonlocal read
        for batch in batches:
            read += 1
            yield batch.select(["id", *names])

    stored = BucketReads._stored

    def in_pieces(self: BucketReads, *range_of_keys: Any) -> Iterator[pa.RecordBatch]:
        nonlocal read
        for batch in stored(self, *range_of_keys):
            for row in range(0, len(batch), 10):
                read += 1
                yield batch.slice(row, 10)

    # A store makes dicts of rows as they are stored, and scans these as well.
    if isinstance(lookups, LookupStore):
        monkeypatch.setattr(BucketReads, "_stored", in_pieces)
    else:
        monkeypatch.setattr(type(lookups), "_scan", lambda _, *args: scan(*args))
    for verb in ("keys", "values", "items", "__iter__"):
        read = 0
        one = iter(getattr(lookups, verb)())
        for _ in range(11):
            next(one)
        assert read == 2


def test_keys_of_several_fields(tmp_path: Path) -> None:
    table = pa.table({"a": ["x", "x", "y"], "b": [1, 2, 1], "n": [7, 8, 9]})
    with lookupstore.build(table, tmp_path / "store", key=["a", "b"]) as store:
        wanted = {("x", 1): {"n": 7}, ("x", 2): {"n": 8}, ("y", 1): {"n": 9}}
        assert dict(store) == dict(store.items()) == wanted
        with pytest.raises(KeyError) as missing:
            store["z", 1]
        assert missing.value.args == (("z", 1),)
    with lookupstore.build(table.select(["b", "a"]), tmp_path / "keys", key=["b", "a"]) as keys:
        assert list(keys.items()) == [((1, "x"), {}), ((1, "y"), {}), ((2, "x"), {})]
        assert list(keys.values()) == [{}, {}, {}]


def test_out(opened: tuple[Any, pa.Table]) -> None:
    store, table = opened
    assert store.to_arrow().equals(table)
    pd.testing.assert_frame_equal(store.to_pandas(), table.to_pandas())
    polars.testing.assert_frame_equal(store.to_polars(), pl.DataFrame(table))
    assert pa.table(store).equals(table)
    polars.testing.assert_frame_equal(pl.DataFrame(store), pl.DataFrame(table))
    scan = store.scan(columns=["text"])  # noqa: F841  (duckdb finds it by its name)
    with duckdb.connect() as connection:
        assert connection.sql("FROM store").fetchall() == list(
            zip(*table.to_pydict().values(), strict=True)
        )
        assert connection.sql("SELECT sum(id), count(text) FROM store").fetchall() == [
            (sum(table["id"].to_pylist()), len(table) - table["text"].null_count)
        ]
        assert connection.sql("FROM scan").fetchall() == list(
            zip(*table.select(["id", "text"]).to_pydict().values(), strict=True)
        )


def test_some_rows_out(opened: tuple[Any, pa.Table]) -> None:
    store, table = opened
    middle = table["id"][len(table) // 2].as_py()
    some = {"start": middle, "columns": ["text"], "reverse": True}
    wanted = store.scan(**some).read_all()
    assert 0 < len(wanted) < len(table)
    assert wanted.schema.names == ["id", "text"]
    assert store.to_arrow(**some).equals(wanted)
    pd.testing.assert_frame_equal(store.to_pandas(**some), wanted.to_pandas())
    polars.testing.assert_frame_equal(store.to_polars(**some), pl.DataFrame(wanted))
    with pytest.raises(TypeError, match="where"):
        store.to_pandas(where="id > 3")


def test_the_schema_that_is_asked_for(opened: tuple[Any, pa.Table]) -> None:
    store, table = opened
    wanted = pa.schema([KEY, ("n", pa.float64()), ("text", pa.large_string())])
    reader = pa.RecordBatchReader.from_stream(store, wanted)
    assert reader.schema == wanted
    assert reader.read_all().equals(table.cast(wanted))
    of_ours = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    wrong = pa.schema([("id", pa.int64())])
    with pytest.raises(ValueError, match="names") as own:
        pa.RecordBatchReader.from_stream(of_ours, wrong)
    with pytest.raises(ValueError, match="names") as ours:
        pa.RecordBatchReader.from_stream(store, wrong)
    assert str(ours.value) == str(own.value)


def test_a_table_of_hudi_goes_out(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    rows = pa.table({"id": rng.sample(range(1000), 50), "n": [rng.random() for _ in range(50)]})
    table = HudiTable.create(tmp_path / "table", rows.schema, record_key="id")
    hudi_table = table  # noqa: F841  (duckdb finds it by its name)
    table.insert(rows)
    names = ["id", "n"]
    wanted = rows.sort_by("id")
    with duckdb.connect() as connection:
        found = connection.sql("SELECT id, n FROM hudi_table ORDER BY id")
        assert found.to_arrow_table().equals(wanted)
    assert pa.table(table).equals(table.scan())
    assert table.to_arrow().equals(table.scan())
    assert pl.DataFrame(table).select(names).sort("id").equals(pl.DataFrame(wanted))
    assert table.to_polars().equals(pl.DataFrame(table))
    assert table.to_pandas()[names].equals(table.scan(columns=names).to_pandas())
    batches = table.scan_batches(columns=names)
    assert isinstance(batches, pa.RecordBatchReader)
    assert batches.read_all().sort_by("id").equals(wanted)


def test_some_rows_of_a_table_of_hudi_go_out(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    rows = pa.table({"id": rng.sample(range(1000), 50), "n": [rng.random() for _ in range(50)]})
    table = HudiTable.create(tmp_path / "table", rows.schema, record_key="id")
    table.insert(rows)
    inserted = table.history()["instant"][0].as_py()
    table.delete(rows["id"].to_pylist()[:10])
    before = {"columns": ["id", "n"], "as_of": inserted, "filter": "n < 0.5"}
    few = table.scan(**before)
    assert few.num_rows == sum(one < 0.5 for one in rows["n"].to_pylist())
    assert table.to_arrow(**before).equals(few)
    assert table.to_pandas(**before).equals(few.to_pandas())
    assert table.to_polars(**before).equals(pl.DataFrame(few))
    assert table.to_pandas(columns=[]).shape == (40, 0)
