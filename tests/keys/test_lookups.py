"""Stores, columnar files and Hudi tables answer alike; the model is a dict."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest
from support.lookups import KINDS

from lookupstore.keys.lookups import Lookups

Model: TypeAlias = "dict[int, dict[str, object]]"
Opened: TypeAlias = "tuple[Lookups, Model]"


@pytest.fixture(params=KINDS)
def opened(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> Iterator[Opened]:
    rng = random.Random(seed)
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "cache"))
    ids = rng.sample(range(1000), 300)
    model: Model = {key: {"a": rng.choice([None, rng.random()]), "b": f"row {key}"} for key in ids}
    rows = [{"id": key, **row} for key, row in model.items()]
    types = {"id": pa.int64(), "a": pa.float64(), "b": pa.string()}
    table = pa.Table.from_pylist(rows, pa.schema(types))
    make: Callable[[pa.Table, Path], Lookups] = request.param
    with make(table, tmp_path) as lookups:
        yield lookups, model


def test_the_end_of_a_block_closes(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    lookups, model = opened
    closed = []
    close = type(lookups).close

    def counted(self: Lookups) -> None:
        closed.append(self)
        close(self)

    monkeypatch.setattr(type(lookups), "close", counted)
    key = next(iter(model))
    with lookups as inside:
        assert inside is lookups
        assert inside.get(key) == model[key]
        assert closed == []
    assert len(closed) == 1


def test_one_key(opened: Opened) -> None:
    lookups, model = opened
    for key in range(0, 1000, 3):
        assert lookups.get(key) == model.get(key)
        assert lookups.get(key, "none") == model.get(key, "none")
        assert (key in lookups) == (key in model)
        if key in model:
            assert lookups[key] == lookups[(key,)] == lookups[{"id": key}] == model[key]
            assert lookups.get(key, columns=["b"]) == {"b": model[key]["b"]}
            assert list(lookups.get(key, {}, ["b", "a"])) == ["b", "a"]
            assert lookups.get(key, columns=[]) == {}
        else:
            with pytest.raises(
                KeyError, match=re.escape(f"{lookups.path}: no key {key}")
            ) as missing:
                lookups[key]
            assert missing.value.args == (key,)
    assert lookups.get(None) is None
    assert 2**70 not in lookups
    with pytest.raises(TypeError):
        lookups.get("7")


def test_many_keys(opened: Opened, seed: int) -> None:
    lookups, model = opened
    keys = random.Random(seed).choices(range(1000), k=500)
    found = lookups.lookup(keys, ["b", "a"], found=True).to_pylist()
    none = {"a": None, "b": None}
    assert found == [{**model.get(key, none), "found": key in model} for key in keys]
    assert lookups.lookup(keys, [], found="there")["there"].to_pylist() == [
        key in model for key in keys
    ]
    assert lookups.lookup(keys, []).num_rows == 500
    assert lookups.contains(keys).to_pylist() == [key in model for key in keys]


def test_what_they_are(opened: Opened) -> None:
    lookups, model = opened
    assert len(lookups) == lookups.num_rows == len(model)
    assert lookups.key == ("id",)
    assert lookups.schema.names == ["id", "a", "b"]
    assert lookups.value_schema.names == ["a", "b"]


def test_columns_that_are_wrong(opened: Opened) -> None:
    lookups, _ = opened
    for ask in (
        lambda names: lookups.lookup([1], names),
        lambda names: lookups.get(1, None, names),
    ):
        with pytest.raises(KeyError, match=r"no value column 'c'; value columns: \['a', 'b'\]"):
            ask(["c"])
        with pytest.raises(KeyError, match=r"'id' \(it is a key column, not a value column\)"):
            ask(["id"])
        with pytest.raises(ValueError, match="columns names 'a' twice"):
            ask(["a", "a"])
    with pytest.raises(ValueError, match="there is a value column 'a'; give another name"):
        lookups.lookup([1], ["a"], found="a")


def test_scans(opened: Opened, seed: int) -> None:
    lookups, model = opened
    rng = random.Random(seed)
    ordered = [{"id": key, **model[key]} for key in sorted(model)]
    assert list(lookups) == sorted(model)
    assert lookups.scan().read_all().to_pylist() == ordered
    assert lookups.scan().schema.names == ["id", "a", "b"]
    assert lookups.scan(reverse=True).read_all().to_pylist() == ordered[::-1]
    for _ in range(20):
        low, high = rng.randrange(-10, 1010), rng.randrange(-10, 1010)
        reverse = rng.random() < 0.5
        inside = [row for row in ordered if low <= row["id"] < high]
        found = lookups.scan(start=low, stop=high, columns=["b"], reverse=reverse).read_all()
        expected = [{"id": row["id"], "b": row["b"]} for row in inside]
        assert found.to_pylist() == (expected[::-1] if reverse else expected), (low, high)
    key = rng.choice(sorted(model))
    assert lookups.scan(prefix=key).read_all().to_pylist() == [{"id": key, **model[key]}]
    assert lookups.scan(start=2**70).read_all().num_rows == 0
    with pytest.raises(TypeError, match="keyword arguments only"):
        lookups.scan(3)  # type: ignore[misc]
    with pytest.raises(KeyError, match="no value column 'c'"):
        lookups.scan(columns=["c"])
    with pytest.raises(ValueError, match="give one or the other"):
        lookups.scan(start=1, prefix=1)


def test_what_they_say(opened: Opened) -> None:
    lookups, model = opened
    lookups.lookup(list(model))
    said = lookups.info().to_json()
    assert json.loads(json.dumps(said)) == said
    assert (said["path"], said["num_rows"]) == (lookups.path, len(model))
    assert said["key"] == {"id": "int64"}
    assert said["values"] == {"a": "double", "b": "string"}
    assert said["bytes"] > 0
    checked = lookups.verify().to_json()
    assert json.loads(json.dumps(checked)) == checked
    assert (checked["num_rows"], checked["files"]) == (len(model), said["files"])
    assert checked["bytes"] == said["bytes"]
    lookups.close()
