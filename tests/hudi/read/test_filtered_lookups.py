"""`where=` in lookups and builds of Hudi tables, and the files that it leaves out."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.hudi.log_history import row as logged_row
from support.hudi.log_tables import LogTable
from support.hudi.small_tables import SmallTable, row

import lookupstore
from lookupstore.errors import DuplicateKeyError, StaleStoreError
from lookupstore.filters.row_filter import row_filter
from lookupstore.hostcache.cache import Residency
from lookupstore.hudi import HudiTable, TableLookup
from lookupstore.hudi.read.snapshot import table_source
from lookupstore.source.source import where_rows

DAYS = ["mo", "tu", "we"]
SCHEMA = pa.schema({"id": pa.int64(), "day": pa.string(), "n": pa.int64(), "s": pa.string()})
CONDITIONS: list[tuple[Any, Any]] = [
    ("day = 'tu'", lambda one: one["day"] == "tu"),
    ("day <> 'tu' and n >= 40", lambda one: one["day"] != "tu" and (one["n"] or 0) >= 40),
    (("n", "<", 10), lambda one: one["n"] is not None and one["n"] < 10),
    (("n", "is null"), lambda one: one["n"] is None),
    ([("s", "in", ["a", "b"]), ("id", ">", 20)], lambda one: one["s"] in "ab" and one["id"] > 20),
    (pc.field("n") > 1000, lambda one: False),
    ("true", lambda one: True),
]  # fmt: skip


def ruin(table: HudiTable, kept: set[str]) -> int:
    """Overwrite base files, so that reading one raises an error; return their number."""
    ruined = 0
    for group in table.file_groups():
        path = Path(table.location.uri) / group.current.path
        if group.current.path not in kept:
            path.write_bytes(b"\0" * path.stat().st_size)
            ruined += 1
    return ruined


@pytest.mark.few(3)
def test_rows_that_do_not_meet_the_condition_are_not_found(
    tmp_path: Path, residency: Residency, seed: int
) -> None:
    rng = random.Random(seed)
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id", partition_by="day",
                             version=rng.choice([6, 8, 9]))  # fmt: skip
    model: dict[int, dict[str, Any]] = {}
    for _ in range(3):
        rows = [{"id": key, "day": model.get(key, {"day": rng.choice(DAYS)})["day"],
                 "n": rng.choice([None, *range(60)]), "s": rng.choice("abc")}
                for key in rng.sample(range(60), 25)]  # fmt: skip
        table.upsert(pa.Table.from_pylist(rows, SCHEMA))
        model |= {one["id"]: one for one in rows}
    if rng.random() < 0.5:
        table.collect_statistics()
    asked = list(range(60))
    for where, is_met in CONDITIONS:
        met = {key: one for key, one in model.items() if is_met(one)}
        names = rng.sample(["day", "n", "s"], rng.randrange(4))
        wanted = [{name: met[key][name] if key in met else None for name in names}
                  for key in asked]  # fmt: skip
        for build in ("never", "always"):
            opened = TableLookup(table, key="id", columns=names, where=where, build=build,
                                 residency=residency)  # fmt: skip
            for one in (opened, pickle.loads(pickle.dumps(opened))):
                found = one.lookup(asked, found=True)
                assert found.select(names).to_pylist() == wanted
                assert found["found"].to_pylist() == [key in met for key in asked]
            assert list(opened) == sorted(met)
        keyed = TableLookup(table, columns=names, where=where, residency=residency)
        both = {"id": asked, "day": [model[key]["day"] if key in model else "mo" for key in asked]}
        assert keyed.contains(both).to_pylist() == [key in met for key in asked]
        assert table.lookup(asked, names, where=where).to_pylist() == wanted
        assert table.contains(asked, where=where).to_pylist() == [key in met for key in asked]
        for key in rng.sample(asked, 5):
            row = dict.fromkeys(names)
            expected = {name: met[key][name] for name in row} if key in met else "none"
            assert table.get(key, "none", list(row), where=where) == expected


def test_files_that_cannot_match_are_not_read(tmp_path: Path, residency: Residency) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id", partition_by="day")
    table.insert({"id": [1, 2], "day": ["mo", "tu"], "n": [1, 2], "s": ["a", "b"]})
    for low in (100, 200):
        table.bulk_insert({"id": [low, low + 1], "day": ["we"] * 2, "n": [low, low + 1],
                           "s": ["c", "d"]})  # fmt: skip
    table.collect_statistics()
    files = {group.current.path for group in table.file_groups()}
    (monday,) = (path for path in files if "mo" in path.split("/")[0])
    few = [("n", ">=", 100), ("n", "<=", 150)]
    (hundred,) = (one.path for one in TableLookup(table, where=few)._plan.files)
    assert len(files) == 4
    assert TableLookup(table, key="id", where="day = 'mo'").num_files == 1
    assert ruin(table, {monday, hundred}) == 2
    for where, keys in (("day = 'mo'", [1]), (few, [100, 101])):
        store = lookupstore.build(table.location, tmp_path / f"s{len(keys)}", key="id", where=where)
        assert list(store.keys()) == keys
        opened = TableLookup(table, key="id", where=where, build="always", residency=residency)
        assert opened.contains([1, 2, 100, 101, 200]).true_count == len(keys)
    with pytest.raises(lookupstore.CorruptionError):
        lookupstore.build(table.location, tmp_path / "all", key="id", where="n > 0")


def test_a_filtered_source_has_the_rows_of_the_condition(
    tmp_path: Path, merge_on_read_tables: Path
) -> None:
    path = merge_on_read_tables / "mor_v6_nonpartitioned"
    table = HudiTable.open(path)
    columns = table.view().table_schema.columns.names
    rows = table.scan(columns=columns)
    source = table_source(str(path))
    for value in [*rows["id"].to_pylist(), -1]:
        condition = row_filter(("id", "=", value), source.schema)
        found = where_rows(source, condition)
        assert found.count_rows() is None
        assert found.fingerprint not in (None, source.fingerprint)
        batches = [batch for batch in found.batches(columns) if batch.num_rows]
        wanted = rows.filter(pc.equal(rows["id"], value))
        assert pa.Table.from_batches(batches, wanted.schema) == wanted
        other = where_rows(found, row_filter(("id", "!=", value), source.schema))
        assert sum(batch.num_rows for batch in other.batches(["name"])) == 0


def test_the_condition_is_met_by_the_merged_row(tmp_path: Path, residency: Residency) -> None:
    """A stored row that a change replaces must not count, nor a change that loses."""
    table = LogTable(tmp_path / "t", 9)
    table.base("a-0", [logged_row(key, 10, "old") for key in range(4)])
    table.delta("a-0", lambda time: table.data(
        time, [logged_row(1, 11, "new"), logged_row(2, 9, "new")]))  # fmt: skip
    for value, keys in (("old", [0, 2, 3]), ("new", [1])):
        opened = TableLookup(table.path, where=("value", "=", value), columns="ts",
                             residency=residency)  # fmt: skip
        found = opened.lookup(list(range(5)), found=True)["found"].to_pylist()
        assert [key for key in range(5) if found[key]] == keys
        store = lookupstore.build(
            table.path, tmp_path / value, key="id", where=("value", "=", value)
        )
        assert list(store.keys()) == keys


def test_a_condition_chooses_a_row_of_a_repeated_key(tmp_path: Path, residency: Residency) -> None:
    small = SmallTable(tmp_path / "t", 9)
    instant = small.begin()
    stats = [small.write(instant.time, "a-0", [row(1, "a"), row(2, "b"), row(2, "c")]),
             small.write(instant.time, "b-0", [row(1, "d")])]  # fmt: skip
    small.finish(instant, stats)
    for build in ("never", "always"):
        for value, wanted in (("b", [None, "b"]), ("c", [None, "c"]), ("d", ["d", None])):
            opened = TableLookup(small.path, where=("value", "=", value), build=build,
                                 residency=residency)  # fmt: skip
            assert opened.lookup([1, 2])["value"].to_pylist() == wanted
        both = TableLookup(small.path, where="value <> 'a'", build=build, residency=residency)
        with pytest.raises(DuplicateKeyError, match="'2' is in several rows of"):
            both.lookup([2])


def test_conditions_on_columns_that_came_later_or_were_widened(
    tmp_path: Path, residency: Residency
) -> None:
    schema = pa.schema({"id": pa.int32(), "n": pa.int32()})
    table = SmallTable(tmp_path / "t", 9, schema)
    table.commit("a-0", [{"id": 1, "n": 5}, {"id": 2, "n": 6}], schema=schema)
    opened = TableLookup(table.path, where="n > 5", residency=residency)
    assert opened.contains([1, 2, 3]).to_pylist() == [False, True, False]
    table.commit("b-0", [{"id": 3, "n": 7}], schema=schema)
    assert opened.at().contains([1, 2, 3]).to_pylist() == [False, True, True]
    later = pa.schema({"id": pa.int32(), "n": pa.string(), "new": pa.string()})
    table.commit("c-0", [{"id": 4, "n": "55", "new": "x"}], schema=later)
    with pytest.raises(StaleStoreError, match=r"types.*look up again"):
        opened.at()
    for build in ("never", "always"):
        text = TableLookup(table.path, where="n > '55'", build=build, residency=residency)
        assert text.contains([1, 2, 3, 4]).to_pylist() == [False, True, True, False]
        newer = TableLookup(table.path, where="new is null", columns="n", build=build,
                            residency=residency)  # fmt: skip
        assert newer.lookup([1, 2, 4])["n"].to_pylist() == ["5", "6", None]


def test_conditions_are_told_apart(tmp_path: Path, residency: Residency) -> None:
    """Also those that differ in the middle of a long list."""
    small = SmallTable(tmp_path / "t", 9)
    small.commit("a-0", [row(key, "a") for key in range(300)])
    lists = [list(range(0, 300, 2)), [*range(0, 100, 2), 101, *range(102, 300, 2)]]
    opened = [TableLookup(small.path, where=("id", "in", one), residency=residency)
              for one in lists]  # fmt: skip
    assert opened[0] != opened[1]
    for one, ids in zip(opened, lists, strict=True):
        assert one.contains(list(range(300))).true_count == len(ids)
        assert list(one) == ids
    assert opened[0] == TableLookup(small.path, where=("id", "in", lists[0]))
    assert opened[0] != TableLookup(small.path)


def test_wrong_conditions(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", 9)
    small.commit("a-0", [row(1, "a")])
    with pytest.raises(ValueError, match=r"where: there is no column 'valu'; did you mean 'value'"):
        TableLookup(small.path, where=("valu", "=", "a"))
    with pytest.raises((TypeError, ValueError), match="where: "):
        HudiTable.open(small.path).lookup([1], where=("value", "=", 3))
