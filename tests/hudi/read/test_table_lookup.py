"""Lookups in Hudi tables, compared with dicts, and how many lookup files they make."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.hudi.small_tables import SmallTable, row
from support.remote import Remote

import lookupstore
from lookupstore import LookupStore
from lookupstore.columnar import ColumnarFiles, open_lookups
from lookupstore.errors import CorruptionError, DuplicateKeyError, FormatError, StaleStoreError
from lookupstore.hostcache.cache import Residency
from lookupstore.hudi import HudiTable, TableLookup, WriteOptions
from lookupstore.hudi.keys.key_generator import partition_paths, record_keys
from lookupstore.hudi.properties import print_properties

TYPES = {
    "id": pa.int32(),
    "s": pa.string(),
    "p": pa.string(),
    "q": pa.int64(),
    "v": pa.int32(),
}
# Texts of which several make the same record key, or the same folder.
TEXTS = ["a", "b", "a,s:b", "", "__null__", "__empty__", "ü", "\U0001f600", "z"]
FOLDERS = ["mo", "tu", "__HIVE_DEFAULT_PARTITION__", ""]


def made(residency: Residency) -> set[str]:
    return {path.name for path in Path(residency.folder).glob("*.sst")}


@pytest.mark.few(3)
@pytest.mark.parametrize("partition_by", [[], ["p"], ["p", "q"]], ids="-".join)
@pytest.mark.parametrize("record_key", [["id"], ["s"], ["id", "s"]], ids="-".join)
def test_keys_are_those_of_a_dict(
    tmp_path: Path, residency: Residency, record_key: list[str], partition_by: list[str], seed: int
) -> None:
    rng = random.Random(seed)
    table = HudiTable.create(
        tmp_path / "t",
        pa.schema(TYPES),
        record_key=record_key,
        partition_by=partition_by,
        version=rng.choice([6, 8, 9]),
        hive_style=rng.random() < 0.5,
        url_encode=rng.random() < 0.5,
    )
    key = record_key + partition_by
    model: dict[tuple[Any, ...], dict[str, Any]] = {}
    owners: dict[str, tuple[Any, ...]] = {}
    for _ in range(3):
        rows = [
            {
                "id": rng.randrange(30),
                "s": rng.choice([None, *TEXTS]) if len(record_key) > 1 else rng.choice(TEXTS),
                "p": rng.choice([None, *FOLDERS]),
                "q": rng.randrange(2),
                "v": rng.randrange(1000),
            }
            for _ in range(40)
        ]
        rows = [one for one in rows if record_key != ["s"] or one["s"]]
        batch = pa.Table.from_pylist(rows, pa.schema(TYPES))
        # Of several keys that have one text a table takes the first only.
        texts = record_keys(batch, record_key).to_pylist()
        owned = [
            owners.setdefault(text, values) == values
            for text, one in zip(texts, rows, strict=True)
            for values in [tuple(one[name] for name in record_key)]
        ]
        batch = batch.filter(pa.array(owned))
        rows = [one for one, is_owner in zip(rows, owned, strict=True) if is_owner]
        table.upsert(batch)
        paths = partition_paths(
            batch, partition_by, hive_style=table.options.hive_style,
            url_encode=table.options.url_encode,
        )  # fmt: skip
        for one in zip(
            record_keys(batch, record_key).to_pylist(), paths.to_pylist(), rows, strict=True
        ):
            model[one[:2]] = one[2]  # of one key the last row stays
    wanted = {tuple(one[name] for name in key): one for one in model.values()}
    assert len(wanted) == len(model)
    asked = [
        {
            "id": rng.choice([None, *range(-5, 40), 2**40]),
            "s": rng.choice([None, "other", *TEXTS]),
            "p": rng.choice([None, "..", "a//b", ".hoodie", "we", *FOLDERS]),
            "q": rng.randrange(3),
        }
        for _ in range(400)
    ]
    asked += [{name: one[name] for name in asked[0]} for one in model.values()]
    given = pa.Table.from_pylist(asked, pa.schema(TYPES | {"id": pa.int64(), "q": pa.int32()}))
    expected = []
    for one in asked:
        values = tuple(one[name] for name in key)
        # Keys with nulls, and those without a text, are not found.
        has_key = None not in values and any(one[name] != "" for name in record_key)
        expected.append(wanted[values]["v"] if has_key and values in wanted else None)
    assert sum(one is not None for one in expected) > 10
    ordered = sorted((*values, one["v"]) for values, one in wanted.items() if None not in values)
    for build in ("never", "auto", "always"):
        opened = TableLookup(tmp_path / "t", build=build, residency=residency)
        assert opened.verify().num_rows == len(model)
        for reverse in (False, True):
            rows = opened.scan(columns=["v"], reverse=reverse).read_all().to_pylist()
            assert [tuple(row.values()) for row in rows] == ordered[:: -1 if reverse else 1]
        assert list(opened) == [row[0] if len(key) == 1 else row[:-1] for row in ordered]
        first = rng.choice(ordered)[0]
        rows = opened.scan(prefix=(first,)).read_all().to_pylist()
        assert [row["v"] for row in rows] == [row[-1] for row in ordered if row[0] == first]
        assert opened.key == tuple(key)
        assert opened.num_rows == len(model)
        found = opened.lookup(given.select(list(given.column_names)), ["v"], found=True)
        assert found["v"].to_pylist() == expected
        assert found["found"].to_pylist() == [one is not None for one in expected]
        assert opened.contains(given).to_pylist() == found["found"].to_pylist()
        opened.close()
        again = pickle.loads(pickle.dumps(opened))
        assert again == opened
        assert hash(again) == hash(opened)


def test_a_commit_makes_lookup_files_of_its_file_groups_only(
    tmp_path: Path, residency: Residency
) -> None:
    table = HudiTable.create(
        tmp_path / "t",
        pa.schema({"id": pa.int64(), "day": pa.string(), "v": pa.int64()}),
        record_key=["id"],
        partition_by=["day"],
    )
    days = [f"d{number}" for number in range(6)]
    table.insert(pa.table({"id": range(60), "day": days * 10, "v": range(60)}))
    keys = {"id": list(range(60)), "day": days * 10}

    def values() -> list[int]:
        opened = TableLookup(tmp_path / "t", build="always", residency=residency)
        assert opened.num_files == len(table.file_groups())
        found: list[int] = opened.lookup(keys)["v"].to_pylist()
        return found

    assert values() == list(range(60))
    before = made(residency)
    assert len(before) == len(table.file_groups()) == 6
    assert values() == list(range(60))
    assert made(residency) == before
    table.upsert(pa.table({"id": [1, 2], "day": ["d1", "d2"], "v": [-1, -2]}))
    assert values() == [0, -1, -2, *range(3, 60)]
    assert len(made(residency) - before) == 2
    before = made(residency)
    table.delete(pa.table({"id": [3], "day": ["d3"]}))
    assert values() == [0, -1, -2, None, *range(4, 60)]
    assert len(made(residency) - before) == 1


def test_few_lookup_files_stay_open(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_lookups, "MOST_OPEN", 3)
    table = HudiTable.create(
        tmp_path / "t",
        pa.schema({"id": pa.int64(), "day": pa.string()}),
        record_key=["id"],
        partition_by=["day"],
    )
    table.insert(pa.table({"id": range(8), "day": [f"d{number}" for number in range(8)]}))
    kept = []
    for _ in range(3):  # as a worker keeps those of several micro-batches
        table.insert(pa.table({"id": [table.scan(columns=["id"]).num_rows], "day": ["more"]}))
        kept.append(TableLookup(tmp_path / "t", key="id", build="always", residency=residency))
        assert kept[-1].contains(list(range(8))).true_count == 8
        paths = {file.path for file in psutil.Process().open_files()}
        assert 0 < sum(path.startswith(str(residency.folder)) for path in paths) <= 3


def test_only_files_that_may_have_keys_get_lookup_files(
    tmp_path: Path, residency: Residency
) -> None:
    """Key ranges leave files out, and so do filters, of which some are positive by chance."""
    schema = pa.schema({"id": pa.string(), "v": pa.int64()})
    table = HudiTable.create(tmp_path / "t", schema, record_key=["id"])
    for low in range(0, 1000, 100):
        ids = [f"{key:04}" for key in range(low, low + 100, 2)]
        table.bulk_insert(pa.table({"id": ids, "v": range(50)}))
    opened = TableLookup(tmp_path / "t", build="always", residency=residency)
    assert opened.num_files == 10
    odd = [f"{key:04}" for key in range(1, 1000, 2)]
    assert opened.contains(odd).true_count == 0
    assert len(made(residency)) < 5
    fresh = Residency(Path(residency.folder).with_name("fresh"))
    opened = TableLookup(tmp_path / "t", build="always", residency=fresh)
    assert opened.contains([f"{key:04}" for key in range(300, 400, 2)]).true_count == 50
    assert len(made(fresh)) == 1


def test_an_instant_is_what_is_looked_up(tmp_path: Path, residency: Residency) -> None:
    small = SmallTable(tmp_path / "t", 9)
    first = small.commit("a-0", [row(1, "old"), row(2, "b")])
    opened = TableLookup(small.path, residency=residency)
    small.commit("a-0", [row(1, "new"), row(2, "b")])
    pending = small.begin()
    small.write(pending.time, "a-0", [row(1, "not yet")])
    assert opened.lookup([1])["value"].to_pylist() == ["old"]
    assert TableLookup(small.path).lookup([1])["value"].to_pylist() == ["new"]
    past = TableLookup(small.path, as_of=first.time, residency=residency)
    assert past.lookup([1])["value"].to_pylist() == ["old"]
    assert past == opened


def test_columns_that_came_later_or_were_widened(tmp_path: Path, residency: Residency) -> None:
    inner = pa.struct({"a": pa.int32()})
    schema = pa.schema({"id": pa.int32(), "n": pa.int32(), "s": inner, "t": pa.string()})
    table = HudiTable.create(tmp_path / "t", schema, record_key=["id"])
    table.bulk_insert(pa.table({"id": [1], "n": [10], "s": [{"a": 1}], "t": ["x"]}, schema))
    wider = pa.struct({"a": pa.int64(), "b": pa.string()})
    later = pa.schema(
        {"id": pa.int64(), "n": pa.float64(), "s": wider, "t": pa.binary(), "new": pa.string()}
    )
    rows = {"id": [2**40], "n": [0.5], "s": [{"a": 2**40, "b": "b"}], "t": [b"\xff"], "new": ["c"]}
    table.bulk_insert(pa.table(rows, later), options=WriteOptions(evolve=True))
    opened = TableLookup(tmp_path / "t", residency=residency, build="always")
    assert opened.value_schema == pa.schema([field for field in later if field.name != "id"])
    assert opened.lookup([1, 2**40]).to_pylist() == [
        {"n": 10.0, "s": {"a": 1, "b": None}, "t": b"x", "new": None},
        {"n": 0.5, "s": {"a": 2**40, "b": "b"}, "t": b"\xff", "new": "c"},
    ]
    assert opened.lookup(np.array([1]), ["n"]).to_pylist() == [{"n": 10.0}]


@pytest.mark.parametrize("is_global", [False, True])
def test_a_key_in_two_partitions(tmp_path: Path, residency: Residency, is_global: bool) -> None:
    table = HudiTable.create(
        tmp_path / "t",
        pa.schema({"id": pa.int64(), "day": pa.string(), "v": pa.int64()}),
        record_key=["id"],
        partition_by=["day"],
    )
    table.insert(pa.table({"id": [1, 1, 2], "day": ["a", "b", "b"], "v": [1, 2, 3]}))
    opened = TableLookup(
        tmp_path / "t", key=["id"] if is_global else ["day", "id"], residency=residency
    )
    if not is_global:
        found = opened.lookup({"id": [1, 1, 2, 2], "day": ["a", "b", "a", "b"]})
        assert found["v"].to_pylist() == [1, 2, None, 3]
        return
    assert opened.lookup([2, 3]).to_pylist() == [{"day": "b", "v": 3}, {"day": None, "v": None}]
    for ask in (lambda: opened.lookup([2, 1]), lambda: opened.scan(start=2).read_all()):
        with pytest.raises(FormatError, match=r"key '1' is in .*give the partition columns 'day'"):
            ask()
    assert not list(Path(residency.folder).glob("making/*")), "nothing is left of the sorted file"


def test_keys_with_their_names(real_tables: Path) -> None:
    """Some versions of Hudi write a complex key of one column as `id:1`."""
    for name in ("v6_complexkeygen_hivestyle", "v6_nonpartitioned", "v9_txns_simple_nometa"):
        table = HudiTable.open(real_tables / name)
        rows = table.scan()
        key = [*table.options.record_key, *table.options.partition_by]
        values = [
            column for column in rows.column_names if column not in (*key, "_hoodie_record_key")
        ]
        opened = TableLookup(real_tables / name, build="always", columns=values)
        assert opened.key == tuple(key)
        assert opened.lookup(rows.select(key), values).equals(rows.select(values))


def test_damage(tmp_path: Path, residency: Residency) -> None:
    small = SmallTable(tmp_path / "t", 9)
    instant = small.begin()
    stats = [
        small.write(instant.time, "a-0", [row(1, "a"), row(2, "b"), row(2, "c")]),
        small.write(instant.time, "b-0", [row(1, "b"), row(3, "c")]),
    ]
    small.finish(instant, stats)

    def lookup(key: int, build: Any) -> Any:
        opened = TableLookup(small.path, build=build, residency=residency)
        return opened.lookup([key])["value"].to_pylist()

    for build in ("never", "always"):
        with pytest.raises(
            DuplicateKeyError, match=r"record key '1' is in .*parquet and in .*parquet"
        ):
            TableLookup(small.path, build="never", residency=residency).lookup([1])
        with pytest.raises(DuplicateKeyError, match=r"'2' is in several rows of .*; to have one"):
            lookup(2, build)
    with pytest.raises(DuplicateKeyError, match=r"is in several rows of|parquet and in "):
        TableLookup(small.path, residency=residency).scan().read_all()
    assert lookup(3, "never") == ["c"]
    planned = TableLookup(small.path, residency=residency)
    for stat in stats:
        (small.path / str(stat.path)).unlink()
    fresh = pickle.loads(pickle.dumps(planned))
    with pytest.raises(StaleStoreError, match="deleted since the files were listed"):
        fresh.lookup([3])
    with pytest.raises(StaleStoreError, match="deleted by a clean or a rollback"):
        planned.scan().read_all()


def test_scans_sort_a_table_once(tmp_path: Path, residency: Residency) -> None:
    table = HudiTable.create(tmp_path / "t", pa.schema({"id": pa.int64()}), record_key=["id"])
    table.insert(pa.table({"id": range(50)}))
    opened = TableLookup(tmp_path / "t", residency=residency)
    assert list(opened) == list(range(50))
    (path,) = (Path(residency.folder) / name for name in made(residency))
    written = path.stat().st_mtime_ns, path.stat().st_ino
    assert [row["id"] for row in opened.scan(start=40).read_all().to_pylist()] == [*range(40, 50)]
    assert (path.stat().st_ino, len(made(residency))) == (written[1], 1)
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptionError) as caught:
        list(opened)
    assert caught.value.path == str(path)
    assert list(opened) == list(range(50)), "it was removed, and is made again"
    table.insert(pa.table({"id": [50]}))
    assert list(opened) == list(range(50))
    assert list(TableLookup(tmp_path / "t", residency=residency)) == list(range(51))


def test_bad_arguments(tmp_path: Path, real_tables: Path) -> None:
    table = HudiTable.create(
        tmp_path / "t",
        pa.schema({"id": pa.int64(), "day": pa.string(), "v": pa.float64()}),
        record_key=["id"],
        partition_by=["day"],
    )
    path = table.location
    for key in ("day", "v", ["id", "v"], []):
        with pytest.raises(KeyError, match=r"give these columns, or these and the partition colum"):
            TableLookup(path, key=key)
    with pytest.raises(KeyError, match="columns: the table has no column 'w'"):
        TableLookup(path, columns=["w"])
    with pytest.raises(KeyError, match="columns: '_hoodie_record_key' is computed from the key"):
        TableLookup(path, columns=["_hoodie_record_key"])
    with pytest.raises(ValueError, match="build is 'soon'; give 'auto'"):
        TableLookup(path, build="soon")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="as_of is 'now'; give the time of an instant"):
        TableLookup(path, as_of="now")
    with pytest.raises(FileNotFoundError):
        TableLookup(tmp_path / "none")
    with pytest.raises(TypeError, match=r"is HudiTable; .*; for a HudiTable, give its path; for"):
        ColumnarFiles(table, key="id")  # type: ignore[arg-type]
    opened = TableLookup(path)
    assert opened.lookup({"id": [1], "day": ["a"]}).to_pylist() == [{"v": None}]
    with pytest.raises(KeyError, match="columns: no value column 'id'"):
        opened.lookup({"id": [1], "day": ["a"]}, ["id"])
    floats = HudiTable.create(
        tmp_path / "f", pa.schema({"k": pa.float64(), "v": pa.int64()}), record_key=["v"]
    )
    floats.insert(pa.table({"k": [1.5, 2.5], "v": [1, 2]}))
    # As Hudi makes it; here nobody does.
    options = replace(floats.options, record_key=("k",))
    (properties,) = (tmp_path / "f" / ".hoodie").glob("*.properties")
    properties.write_bytes(print_properties(options.to_properties()))
    with pytest.raises(TypeError, match=r"'k' is double, whose text .*lookupstore\.build"):
        TableLookup(floats.location)
    store = lookupstore.build(floats.scan_batches(columns=["k", "v"]), tmp_path / "store", key="k")
    assert store.lookup([2.5]).to_pydict() == {"v": [2]}


def test_keys_that_are_not_made_of_columns(tmp_path: Path, residency: Residency) -> None:
    """Rows say how their key generator made them, whatever the properties say."""
    small = SmallTable(
        tmp_path / "t", 9, pa.schema({"id": pa.int32(), "value": pa.string()}), ["value"]
    )
    small.commit("a-0", [row(1, "x")], "value=y")
    with pytest.raises(
        FormatError, match=r"make the partition path 'value=x'.*give the record key"
    ):
        TableLookup(small.path)
    alone = TableLookup(small.path, key="id", residency=residency)
    assert alone.lookup([1]).to_pylist() == [{"value": "x"}]
    strange = SmallTable(tmp_path / "s", 9)
    instant = strange.begin()
    stat = strange.write(instant.time, "a-0", [row(7, "x")])
    stored = pq.read_table(strange.path / str(stat.path), partitioning=None)
    at = stored.column_names.index("_hoodie_record_key")
    stored = stored.set_column(at, "_hoodie_record_key", pa.array(["seven"]))
    pq.write_table(stored, strange.path / str(stat.path), store_schema=False)
    strange.finish(instant, [stat])
    with pytest.raises(FormatError, match="the record key 'seven' is not what Hudi's key generat"):
        TableLookup(strange.path)


def test_whoever_has_room_gives_way_to_whoever_needs_it(tmp_path: Path) -> None:
    """A store, columnar files and a Hudi table of one process, with room for one of them."""
    ids = [f"{number:04}" for number in range(2048)]  # in order: to sort would take more room
    values = [random.Random(number).randbytes(1024) for number in range(2048)]
    rows = pa.table({"id": ids, "v": values})
    answer = values[:3]
    place = Remote(tmp_path, "s3").location()
    lookupstore.build(rows, place, key="id", compression="none").close()
    (tmp_path / "files").mkdir()
    pq.write_table(rows, tmp_path / "files" / "a.parquet")
    HudiTable.create(tmp_path / "t", rows.schema, record_key=["id"]).insert(rows)
    quota = 7 << 19
    residency = Residency(tmp_path / "local", quota=quota)
    with (
        LookupStore(place, residency=residency) as store,
        ColumnarFiles(tmp_path / "files", key="id", build="always", residency=residency) as files,
        TableLookup(tmp_path / "t", key="id", build="always", residency=residency) as table,
    ):
        users: list[Any] = [store, files, table]
        for one in (*users, *reversed(users)):
            assert one.lookup(ids[:3])["v"].to_pylist() == answer
            assert 2 << 20 < residency.used <= quota


def test_lookups_go_on_to_later_commits(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3], "v": ["a"] * 3})
    table = HudiTable.create(tmp_path / "t", rows, record_key="id")
    start = datetime.now(timezone.utc)
    empty = TableLookup(tmp_path / "t")
    assert empty.at() is empty
    assert list(empty) == []
    states: list[tuple[str, datetime, list[str | None]]] = []
    known: dict[int, str] = {}
    for number in range(4):
        changed = {one: f"{number}" for one in range(number + 1)}
        instant = table.upsert(pa.table({"id": [*changed], "v": [*changed.values()]})).instant
        assert instant is not None
        known |= changed
        sleep(0.01)
        now = datetime.now(timezone.utc)
        states.append((instant.position, now, [known.get(one) for one in range(5)]))
    for position, moment, values in states:
        assert empty.position_at(moment) == position
        assert empty.at(position).lookup(list(range(5)))["v"].to_pylist() == values
    assert empty.position_at(start - timedelta(days=1)) == ""
    assert empty.lookup(list(range(5)))["v"].to_pylist() == [None] * 5
    newest = empty.at()
    assert newest.lookup(list(range(5)))["v"].to_pylist() == states[-1][2]
    assert pickle.loads(pickle.dumps(newest)).at() == newest
    assert newest.position_at(start) == states[-1][0], "never an older one"
    table.upsert(pa.table({"id": [1], "v": ["z"], "w": [1]}), options=WriteOptions(evolve=True))
    assert newest.at().lookup([1]).to_pydict() == {"v": ["z"]}


def test_lookups_as_of_a_moment_do_not_go_on(tmp_path: Path) -> None:
    rows = pa.table({"id": [1]})
    table = HudiTable.create(tmp_path / "t", rows, record_key="id", version=6)
    instant = table.insert(rows).instant
    for act in (TableLookup.at, lambda one: one.position_at(datetime.now(timezone.utc))):
        with pytest.raises(ValueError, match="opened with as_of, and so never change"):
            act(TableLookup(tmp_path / "t", as_of=instant))
    with pytest.raises(FormatError, match="version 6 do not say when they were completed"):
        TableLookup(tmp_path / "t").position_at(datetime.now(timezone.utc))
