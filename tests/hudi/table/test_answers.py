"""A table that answers: `get`, `in`, `lookup`, `len`, `head` and `limit`, compared with a dict."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lookupstore.errors import DuplicateKeyError, FormatError
from lookupstore.hudi import HudiTable, TableLookup

SCHEMA = pa.schema({"id": pa.int64(), "day": pa.string(), "v": pa.int32(), "w": pa.string()})


def rows_of(rng: random.Random, ids: list[int]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": at, "day": "ab"[at % 2], "v": rng.randrange(99), "w": f"w{at}"} for at in ids],
        SCHEMA,
    )


@pytest.fixture
def table(tmp_path: Path, seed: int) -> HudiTable:
    made = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id", partition_by="day")
    made.insert(rows_of(random.Random(seed), list(range(40))))
    return made


def test_answers_are_those_of_a_dict_and_follow_the_table(table: HudiTable, seed: int) -> None:
    rng = random.Random(seed + 1)
    model = {row["id"]: row for row in table.head(99).to_pylist()}
    assert sorted(model) == list(range(40))
    assert list(model[0]) == SCHEMA.names
    for _ in range(3):
        changed = rows_of(rng, rng.sample(range(60), 8))
        table.upsert(changed)
        model |= {row["id"]: row for row in changed.to_pylist()}
        gone = rng.sample(sorted(model), 2)
        table.delete(gone)
        for key in gone:
            del model[key]
        assert len(table) == len(model)
        asked = [rng.randrange(70) for _ in range(30)]
        answers = table.lookup(asked, found=True).to_pylist()
        for key, answer in zip(asked, answers, strict=True):
            row = model.get(key, dict.fromkeys(SCHEMA.names))
            assert answer == {**{n: row[n] for n in ("day", "v", "w")}, "found": key in model}
        assert table.contains(asked).to_pylist() == [key in model for key in asked]
        key = rng.choice(sorted(model))
        expected = {name: model[key][name] for name in ("day", "v", "w")}
        assert key in table
        assert table[key] == table.get(key) == expected
        assert gone[0] not in table
        assert table.get(gone[0], "none") == "none"
        with pytest.raises(KeyError) as error:
            table[gone[0]]
        assert error.value.args == (gone[0],)
        assert table.get(key, columns=["w"]) == {"w": model[key]["w"]}


def test_keys_with_and_without_the_partition(table: HudiTable) -> None:
    one = table.get(3)
    assert (
        one == {**table.get((3, "b")), "day": "b"} == {**table[{"day": "b", "id": 3}], "day": "b"}
    )
    assert table.get((3, "a")) is None
    assert (3, "b") in table
    assert (3, "a") not in table
    values = table.lookup([3, 4], "v")["v"].to_pylist()
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"id": [3, 4], "day": ["b", "a"]}
    right: list[Any] = [
        [(3, "b"), (4, "a")],
        iter([(3, "b"), (4, "a")]),
        [{"day": "b", "id": 3}, {"day": "a", "id": 4}],
        columns,
        pa.table(columns),
        pa.record_batch(columns),
        pa.table(columns).to_struct_array().combine_chunks(),
        pandas.DataFrame(columns),
        polars.DataFrame(columns),
        np.array([(3, "b"), (4, "a")], [("id", "i8"), ("day", "U1")]),
    ]
    for keys in right:
        assert table.lookup(keys, ["v"])["v"].to_pylist() == values
    for keys in [[(3, "a"), (4, "b")], {"id": [3, 4], "day": ["a", "b"]}]:
        assert table.lookup(keys, ["v"])["v"].to_pylist() == [None, None]
    for keys in (np.array([3, 4]), pa.array([3, 4]), pandas.Series([3, 4]), {"id": [3, 4]}):
        found = table.contains(keys)
        assert all(found.to_pylist())


def test_a_tuple_of_too_few_or_too_many_values(table: HudiTable) -> None:
    said = r"has 3 values; give 1, of the record key \(id\), or 2, with the .* \(id, day\)"
    for ask in (table.get, table.__contains__, lambda key: table.lookup([key])):
        with pytest.raises(TypeError, match=said):
            ask((1, "a", 2))
    with pytest.raises(TypeError, match="has 0 values"):
        table.get(())


def test_the_first_rows(table: HudiTable) -> None:
    everything = table.scan()
    for limit in (0, 1, 19, 20, 21, 40, 41):
        assert table.scan(limit=limit).equals(everything.slice(0, limit))
        assert table.scan_batches(limit=limit).read_all().equals(everything.slice(0, limit))
        head = table.head(limit)
        assert head.equals(everything.select(SCHEMA.names).slice(0, limit))
    assert table.head(columns=["v"]).equals(everything.select(["v"]).slice(0, 5))
    odd = table.scan(filter="day = 'b' and v >= 0", columns="id", limit=3)
    assert odd.num_rows == 3
    assert all(key % 2 for key in odd["id"].to_pylist())
    assert table.to_arrow(limit=2).num_rows == 2
    for wrong, kind in ((-1, ValueError), (1.5, TypeError), (True, TypeError), ("3", TypeError)):
        with pytest.raises(kind, match=r"limit is .*; give a (whole )?number of rows"):
            table.scan(limit=wrong)  # type: ignore[arg-type]


def test_few_rows_read_one_file(table: HudiTable, monkeypatch: pytest.MonkeyPatch) -> None:
    from lookupstore.hudi.file_group.scan import BaseFiles

    read: list[str] = []
    true = BaseFiles.__init__

    def noted(self: BaseFiles, location: Any, paths: Any, *more: Any) -> None:
        read.extend(paths)
        true(self, location, paths, *more)

    monkeypatch.setattr(BaseFiles, "__init__", noted)
    assert table.head(20).num_rows == 20
    assert len(read) == 1
    assert table.head(21).num_rows == 21
    assert len(read) == 3


def test_what_is_asked_again_plans_nothing_while_nothing_happens(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lookupstore.hudi.read import table_lookup

    planned: list[Any] = []
    true = table_lookup.plan_lookup
    monkeypatch.setattr(
        table_lookup, "plan_lookup", lambda *given: planned.append(given) or true(*given)
    )
    assert [table.get(key)["w"] for key in (1, 2, 3)] == ["w1", "w2", "w3"]
    assert len(planned) == 1
    table.upsert(rows_of(random.Random(1), [2]).set_column(3, "w", pa.array(["new"])))
    assert [table.get(key)["w"] for key in (1, 2, 3)] == ["w1", "new", "w3"]
    assert len(planned) == 2


def test_an_open_table_is_looked_up_in(table: HudiTable) -> None:
    lookup = TableLookup(table)
    assert lookup.key == ("id", "day")
    assert lookup.lookup([(3, "b")]).num_rows == 1
    assert lookup == TableLookup(table.location)
    assert pickle.loads(pickle.dumps(lookup)).get((3, "b")) == table.get((3, "b"))
    again = pickle.loads(pickle.dumps(table))
    assert again.get(3) == table.get(3)
    with pytest.raises(ValueError, match="query_type: the table is open, and has its own"):
        TableLookup(table, query_type="snapshot")
    with pytest.raises(ValueError, match="storage_options: the table is open"):
        TableLookup(table, storage_options={})
    with pytest.raises(TypeError, match="path is a int; give an open HudiTable"):
        TableLookup(3)  # type: ignore[arg-type]


def test_as_of(table: HudiTable) -> None:
    first = table.timeline()[-1].time
    before = table.lookup([1, 2, 3])
    table.delete([2])
    assert table.lookup([1, 2, 3], as_of=first).equals(before)
    assert table.get(2, as_of=first) == before.to_pylist()[1]
    assert table.contains([2], as_of=first).to_pylist() == [True]
    assert table.get(2) is None
    assert table.contains([1, 2, 3]).to_pylist() == [True, False, True]


def test_keys_of_several_rows(table: HudiTable) -> None:
    table.insert(pa.Table.from_pylist([{"id": 3, "day": "a", "v": 1, "w": "x"}], SCHEMA))
    with pytest.raises(FormatError, match="also give the partition columns 'day'"):
        table.get(3)
    assert table.get((3, "a")) == {"v": 1, "w": "x"}
    table.insert(pa.Table.from_pylist([{"id": 3, "day": "a", "v": 2, "w": "y"}], SCHEMA))
    with pytest.raises(DuplicateKeyError):
        table.get((3, "a"))


def test_an_empty_table_is_a_table_and_none_is_iterated(tmp_path: Path, table: HudiTable) -> None:
    empty = HudiTable.create(tmp_path / "e", SCHEMA, record_key="id")
    assert empty
    assert len(empty) == 0
    assert empty.head().num_rows == 0
    assert 3 not in empty
    assert empty.lookup([1, 2])["v"].to_pylist() == [None, None]
    with pytest.raises(TypeError, match="not iterable"):
        list(table)  # type: ignore[call-overload]
    # Where rows are wanted it is its rows, and no list of keys.
    assert pa.table(table).num_rows == 40
