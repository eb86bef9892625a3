"""Builds: every kind of source, every rule for repeated keys, failures and kills."""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc
from support.remote import Remote

import lookupstore
from lookupstore.builder.in_process import build
from lookupstore.builder.plan import plan_build
from lookupstore.columnar import ColumnarFiles
from lookupstore.errors import CommitUnknownError, FormatError
from lookupstore.keys.schema import KeySchema
from lookupstore.source.opening import open_source
from lookupstore.storage.local import LocalFolder
from lookupstore.storage.location import Location
from lookupstore.store.manifest import Manifest
from lookupstore.store.publishing import publish
from lookupstore.store.store import LookupStore
from lookupstore.store.version_files import read_newest

# The package gives the function under the module's name.
build_module = importlib.import_module("lookupstore.builder.in_process")
data_files_module = importlib.import_module("lookupstore.store.data_files")
local_module = importlib.import_module("lookupstore.storage.local")
new_version_module = importlib.import_module("lookupstore.store.new_version")

TABLE = pa.table(
    {
        "id": pa.array([3, 1, 2, 5, 4], pa.int64()),
        "name": pa.array(["three", "one", None, "five", "four"]),
        "price": pa.array([3.5, 1.5, 2.5, None, 4.5]),
    }
)


def rows_of(store: LookupStore) -> list[dict]:
    """Read a store whole and close it."""
    with store:
        return store.scan().read_all().to_pylist()


def sorted_rows(table: pa.Table, by: str = "id") -> list[dict]:
    return table.sort_by(by).to_pylist()


def files_below(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def manifest_in(folder: Path) -> Manifest:
    """Return the manifest of the current version."""
    return read_newest(Location(folder))


def names_in(folder: Path) -> tuple[str, ...]:
    """Return the names of the data files of the current version."""
    return tuple(file.name for file in manifest_in(folder).files)


# --- sources


def parquet_by_pyarrow(folder: Path):
    pq.write_table(TABLE, folder / "t.parquet", row_group_size=2)
    return str(folder / "t.parquet")


def parquet_as_path(folder: Path):
    return Path(parquet_by_pyarrow(folder))


def parquet_by_duckdb(folder: Path):
    path = folder / "t.parquet"
    duckdb.from_arrow(TABLE).write_parquet(str(path))
    return str(path)


def parquet_by_polars(folder: Path):
    pl.from_arrow(TABLE).write_parquet(folder / "t.parquet")
    return str(folder / "t.parquet")


def orc_file(folder: Path):
    orc.write_table(TABLE, folder / "t.orc")
    return str(folder / "t.orc")


def file_uri(folder: Path):
    (folder / "with space").mkdir()
    parquet_by_pyarrow(folder / "with space")
    return (folder / "with space" / "t.parquet").as_uri()


def plain_folder(folder: Path):
    (folder / "sub").mkdir()
    pq.write_table(TABLE[:2], folder / "a.parquet")
    pq.write_table(TABLE[2:], folder / "sub" / "b.parquet")
    for name in ("_SUCCESS", ".a.parquet.crc", "_hidden.parquet", "_notes.txt"):
        (folder / name).write_text("not data")
    return str(folder)


def listed_files(folder: Path):
    plain_folder(folder)
    return [folder / "sub" / "b.parquet", str(folder / "a.parquet")]


def glob_of_files(folder: Path):
    plain_folder(folder)
    return f"{folder}/**/[ab].parquet"


def glob_uri(folder: Path):
    plain_folder(folder)
    return f"{folder.as_uri()}/**/[ab].parquet"


def odd_name(folder: Path):
    pq.write_table(TABLE, folder / "odd[1].parquet")
    return str(folder / "odd[1].parquet")


def arrow_batches(folder: Path):
    return iter(TABLE.to_batches(max_chunksize=2))


SOURCES = [
    parquet_by_pyarrow,
    parquet_as_path,
    parquet_by_duckdb,
    parquet_by_polars,
    orc_file,
    file_uri,
    plain_folder,
    listed_files,
    glob_of_files,
    glob_uri,
    odd_name,
    arrow_batches,
    pytest.param(lambda folder: TABLE, id="table"),
    pytest.param(lambda folder: TABLE.combine_chunks().to_batches()[0], id="record_batch"),
    pytest.param(lambda folder: TABLE.to_reader(max_chunksize=2), id="reader"),
    pytest.param(lambda folder: TABLE.to_batches(max_chunksize=2), id="list_of_batches"),
    pytest.param(lambda folder: ds.dataset(TABLE), id="dataset"),
    pytest.param(lambda folder: pl.from_arrow(TABLE), id="polars"),
    pytest.param(lambda folder: TABLE.to_pandas(), id="pandas"),
    pytest.param(lambda folder: TABLE.to_pandas().iloc[[3, 0, 4, 1, 2]], id="pandas_odd_index"),
    pytest.param(lambda folder: TABLE.to_pandas().set_index("id"), id="pandas_named_index"),
    pytest.param(lambda folder: duckdb.from_arrow(TABLE), id="duckdb"),
]


def test_the_order_of_rows_without_one_decides_nothing(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [(int(rng.integers(3)), int(rng.integers(2)), f"{rng.integers(99)}") for _ in range(30)]
    most = {key: max(at for other, at, _ in rows if other == key) for key, _, _ in rows}
    kept = []
    for _ in range(3):
        rng.shuffle(rows)
        source = open_source(dict(zip(("id", "at", "name"), zip(*rows, strict=True), strict=True)))
        source = replace(source, in_order=False)
        rule = ("max", "at")
        with build(source, tmp_path / "s", key="id", on_duplicate=rule, overwrite=True) as store:
            kept.append({key: (store[key]["at"], store[key]["name"]) for key in store})
    assert kept[0] == kept[1] == kept[2]
    assert {key: at for key, (at, _) in kept[0].items()} == most
    assert {(key, *row) for key, row in kept[0].items()} <= {tuple(row) for row in rows}
    for rule in ("first", "last"):
        with pytest.raises(ValueError, match=f"on_duplicate is '{rule}', .* have no order"):
            build(source, tmp_path / "t", key="id", on_duplicate=rule)


@pytest.mark.parametrize("make", SOURCES)
@pytest.mark.parametrize("buckets", [None, 3])
def test_every_source_gives_the_same_store(tmp_path, make, buckets):
    (tmp_path / "in").mkdir()
    source = make(tmp_path / "in")
    store = build(source, tmp_path / "store", key="id", buckets=buckets)
    assert store.num_rows == len(store) == 5
    assert store.schema.names == ["id", "name", "price"]
    assert rows_of(store) == sorted_rows(TABLE)


def test_hive_folders_become_columns(tmp_path):
    tmp_path = tmp_path / "outer=1"
    for year in (2023, 2024):
        for region in ("eu", "us"):
            part = tmp_path / "in" / f"year={year}" / f"region={region}"
            part.mkdir(parents=True)
            pq.write_table(pa.table({"id": [1, 2], "v": [year, 7]}), part / "x.parquet")
    for i, source in enumerate(
        [tmp_path / "in", f"{tmp_path}/in/year=*/*/x.parquet", f"{tmp_path}/in/year=202[34]"]
    ):
        with build(source, tmp_path / f"s{i}", key=["region", "year", "id"]) as store:
            assert store.schema.names == ["region", "year", "id", "v"]
            assert store.get(("us", 2024, 1)) == {"v": 2024}
            assert len(store) == 8
    one = tmp_path / "in" / "year=2023" / "region=eu" / "x.parquet"
    with build(str(one), tmp_path / "s", key="id") as store:
        assert store.schema.names == ["id", "v"]


def test_source_order_is_file_order_and_list_order(tmp_path):
    for name, value in [("b", 1), ("a", 2), ("c", 3)]:
        pq.write_table(pa.table({"id": [7], "v": [value]}), tmp_path / f"{name}.parquet")
    with build(tmp_path, tmp_path / "f", key="id", on_duplicate="first") as store:
        assert store.get(7) == {"v": 2}
    listed = [tmp_path / "c.parquet", tmp_path / "b.parquet"]
    with build(listed, tmp_path / "l", key="id", on_duplicate="last") as store:
        assert store.get(7) == {"v": 1}


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_files_whose_columns_differ(tmp_path, kind):
    def write(name: str, table: pa.Table) -> None:
        path = tmp_path / "in" / f"part={name}" / f"x.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        (pq if kind == "parquet" else orc).write_table(table, path)

    write("a", pa.table({"id": pa.array([1], pa.int32()), "v": ["one"]}))
    write("b", pa.table({"id": pa.array([2, 3], pa.int64()), "more": [0, 0], "v": ["two", None]}))
    with pytest.raises(
        ValueError, match=rf"part=b/x\.{kind} has the column 'more', which the first"
    ):
        build(tmp_path / "in", tmp_path / "s", key="id")
    with build(tmp_path / "in", tmp_path / "s", key="id", columns=["v", "part"]) as store:
        assert store.schema == pa.schema(
            [pa.field("id", "int32", nullable=False), ("v", pa.string()), ("part", pa.string())]
        )
        assert [tuple(row.values()) for row in store.scan().read_all().to_pylist()] == [
            (1, "one", "a"),
            (2, "two", "b"),
            (3, None, "b"),
        ]
    with build(
        tmp_path / "in", tmp_path / "p", key="part", columns=[], on_duplicate="last"
    ) as store:
        assert store.contains(["a", "b", "c"]).to_pylist() == [True, True, False]
    write("c", pa.table({"id": [2**40], "w": ["x"]}))
    with pytest.raises(ValueError, match=rf"part=c/x\.{kind}: the column 'id' is int64, .*int32"):
        build(tmp_path / "in", tmp_path / "t", key="id", columns=[])
    write("c", pa.table({"id": [4]}))
    with pytest.raises(
        ValueError, match=rf"part=c/x\.{kind} lacks the column 'v', which the first"
    ):
        build(tmp_path / "in", tmp_path / "t", key="id", columns=["v"])
    listed = [tmp_path / "in" / f"part={name}" / f"x.{kind}" for name in "ac"]
    with pytest.raises(
        ValueError, match=rf"part=c/x\.{kind} lacks the column 'v', which the first"
    ):
        build(listed, tmp_path / "t", key="id")
    with build(listed, tmp_path / "t", key="id", columns=[]) as store:
        assert store.num_rows == 2


def test_a_folder_of_the_null_partition_is_null(tmp_path):
    for name in ("a", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / "in" / f"part={name}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [name]}), tmp_path / "in" / f"part={name}" / "x.parquet")
    with build(tmp_path / "in", tmp_path / "s", key="id") as store:
        assert store.get("a") == {"part": "a"}
        assert store.get("__HIVE_DEFAULT_PARTITION__") == {"part": None}


MOMENT = datetime(2020, 1, 2, 3, 4, 5)
FIRST_AND_LATER = [
    # type in the first file, type and value in a later one, what the store says (None: an error)
    (pa.int32(), pa.int64(), 7, 7),
    (pa.int64(), pa.int32(), 7, 7),
    (pa.int64(), pa.float64(), 7.0, 7),
    (pa.int64(), pa.float64(), 7.5, None),
    (pa.float64(), pa.int64(), 7, 7.0),
    (pa.float64(), pa.int64(), 2**60 + 1, None),
    (pa.float32(), pa.float64(), 0.1, None),
    (pa.decimal128(9, 2), pa.float64(), 0.125, None),
    (pa.float64(), pa.decimal128(9, 2), Decimal("7.25"), 7.25),
    (pa.float64(), pa.decimal128(9, 2), Decimal("0.10"), None),
    (pa.string(), pa.large_string(), "a", "a"),
    (pa.string(), pa.int64(), 7, None),
    (pa.int64(), pa.string(), "7", None),
    (pa.int64(), pa.bool_(), True, None),
    (pa.string(), pa.date32(), MOMENT.date(), None),
    (pa.string(), pa.dictionary(pa.int32(), pa.string()), "a", "a"),
    (pa.dictionary(pa.int32(), pa.string()), pa.string(), "a", "a"),
    (pa.dictionary(pa.int32(), pa.string()), pa.int64(), 7, None),
    (pa.timestamp("us"), pa.timestamp("ms"), MOMENT, MOMENT),
    (pa.timestamp("us"), pa.timestamp("us", "America/New_York"), MOMENT, None),
    (pa.timestamp("us", "America/New_York"), pa.timestamp("us"), MOMENT, None),
    (
        pa.timestamp("us", "America/New_York"),
        pa.timestamp("us", "UTC"),
        MOMENT.replace(tzinfo=timezone.utc),
        MOMENT.replace(tzinfo=timezone.utc),
    ),
    (pa.list_(pa.int64()), pa.list_(pa.int8()), [7], [7]),
    (pa.list_(pa.string()), pa.list_(pa.int8()), [7], None),
    (pa.list_(pa.float32()), pa.list_(pa.float64()), [0.1], None),
]


@pytest.mark.parametrize(("first", "later", "value", "stored"), FIRST_AND_LATER)
def test_a_later_file_of_another_type(tmp_path, first, later, value, stored):
    (tmp_path / "in").mkdir()
    for name, kind, one in [("a", first, None), ("b", later, value)]:
        table = pa.table({"id": [name], "v": pa.array([one], kind)})
        pq.write_table(table, tmp_path / "in" / f"{name}.parquet")
    if stored is None:
        with pytest.raises(ValueError, match=r"b\.parquet: the column 'v' is .*in the first file"):
            build(tmp_path / "in", tmp_path / "s", key="id")
        return
    with build(tmp_path / "in", tmp_path / "s", key="id") as store:
        assert store.value_schema.field("v").type == first
        assert store.get("b") == {"v": stored}
        assert store.get("a") == {"v": None}


def test_a_value_of_a_later_file_is_named_with_its_row(tmp_path):
    pq.write_table(
        pa.table({"id": [-1], "v": pa.array([1.0], pa.float32())}), tmp_path / "a.parquet"
    )
    values = np.zeros(200_000)
    values[150_000] = 0.1
    later = pa.table({"id": range(len(values)), "v": values})
    pq.write_table(later, tmp_path / "b.parquet", row_group_size=70_000)
    with pytest.raises(ValueError, match=r"b\.parquet: .* cannot hold 0\.1 of row 150001$"):
        build([tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path / "s", key="id")


def test_columns_are_chosen_and_ordered(tmp_path):
    with build(TABLE, tmp_path / "s", key=["id"], columns=["price", "id", "name"]) as store:
        assert store.schema.names == ["id", "price", "name"]
    with build(TABLE, tmp_path / "none", key=["id"], columns=[]) as store:
        assert store.get(3) == {}
        assert store.get(9) is None
        assert store.lookup([3, 9], found=True).to_pydict() == {"found": [True, False]}
        assert rows_of(store) == [{"id": i} for i in range(1, 6)]


def test_no_rows_do_not_replace_rows_without_a_word(tmp_path):
    none = TABLE.slice(0, 0)
    path = tmp_path / "s"
    build(none, path, key="id").close()  # the first version may be empty
    build(none, path, key="id", overwrite=True).close()  # and so may one that replaces no rows
    build(TABLE, path, key="id", overwrite=True).close()
    names = sorted(os.listdir(path / "versions")), sorted(os.listdir(path / "data"))
    wanted = r"no rows, and would replace version 3, which has \d.*; pass allow_empty=True"
    with pytest.raises(ValueError, match=wanted):
        build(none, path, key="id", overwrite=True)
    assert names == (sorted(os.listdir(path / "versions")), sorted(os.listdir(path / "data")))
    build(none, tmp_path / "empty", key="id").close()
    with pytest.raises(ValueError, match=wanted):
        publish(tmp_path / "empty", path, overwrite=True)
    with LookupStore(path) as store:
        assert store.num_rows > 0
    build(none, path, key="id", overwrite=True, allow_empty=True).close()
    with LookupStore(path) as store:
        assert (store.version, store.num_rows) == (4, 0)
    build(TABLE, path, key="id", overwrite=True).close()
    publish(tmp_path / "empty", path, overwrite=True, allow_empty=True).close()
    with LookupStore(path) as store:
        assert store.num_rows == 0


@pytest.mark.parametrize(
    ("schema", "key", "is_other"),
    [
        ({"a": pa.int32(), "b": pa.string()}, ["a", "b"], False),
        ({"a": pa.float64(), "b": pa.large_string()}, ["a", "b"], False),
        ({"a": pa.string(), "b": pa.string()}, ["a", "b"], True),
        ({"a": pa.int64(), "b": pa.binary()}, ["a", "b"], True),
        ({"a": pa.int64(), "b": pa.string()}, ["b", "a"], True),
        ({"a": pa.int64(), "b": pa.string()}, ["a"], True),
        ({"a": pa.int64(), "c": pa.string()}, ["a", "c"], True),
    ],
)
def test_another_key_does_not_replace_one_without_a_word(tmp_path, schema, key, is_other):
    """Another key is one with which lookups of the former key fail."""
    path = tmp_path / "s"
    build(pa.table({"a": [1], "b": ["x"]}), path, key=["a", "b"]).close()
    rows = pa.table({"a": [1], "b": ["x"], "c": ["x"]}).select([*schema]).cast(pa.schema(schema))
    before = sorted(path.rglob("*"))
    if not is_other:
        with build(rows, path, key=key, overwrite=True) as store:
            assert store.lookup(pa.table({"a": [1], "b": ["x"]}), found=True)["found"][0].as_py()
            assert store.get((1, "x")) == {}
        return
    wanted = r"is a: int64, b: string; convert .* pass allow_new_key=True"
    with pytest.raises(ValueError, match=wanted):
        build(rows, path, key=key, overwrite=True)
    build(rows, tmp_path / "other", key=key).close()
    with pytest.raises(ValueError, match=wanted):
        publish(tmp_path / "other", path, overwrite=True)
    assert sorted(path.rglob("*")) == before
    build(rows, path, key=key, overwrite=True, allow_new_key=True).close()
    with LookupStore(path) as store:
        assert store.version == 2
    build(pa.table({"a": [1], "b": ["x"]}), tmp_path / "first", key=["a", "b"]).close()
    publish(tmp_path / "first", path, overwrite=True, allow_new_key=True).close()


def test_an_empty_source_gives_an_empty_store(tmp_path):
    for buckets in (1, 4):
        with build(TABLE[:0], tmp_path / str(buckets), key="id", buckets=buckets) as store:
            assert len(store) == 0
            assert store.get(1) is None
            assert store.lookup([1]).to_pylist() == [{"name": None, "price": None}]
            assert store.contains([1, 2]).to_pylist() == [False, False]
            assert store.scan().read_all().num_rows == 0
            assert store.verify().files == 0


# --- random typed data against a dict

MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))
KINDS = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "string": (pa.string(), st.text(max_size=4)),
    "binary": (pa.large_binary(), st.binary(max_size=4)),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us"), MOMENTS),
    "zoned": (
        pa.timestamp("us", "Europe/Paris"),
        MOMENTS.map(lambda m: m.replace(tzinfo=timezone.utc)),
    ),
    "bool": (pa.bool_(), st.booleans()),
    "decimal": (pa.decimal128(9, 2), st.decimals(-9999, 9999, places=2)),
    "duration": (pa.duration("us"), st.timedeltas(timedelta(-999), timedelta(999))),
    "category": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["", "a", "b\0", "ü"])),
}
VALUES = {
    **KINDS,
    "float": (pa.float64(), st.floats(allow_nan=False)),
    "list": (pa.list_(pa.string()), st.lists(st.none() | st.text(max_size=3), max_size=3)),
    "struct": (
        pa.struct({"x": pa.int16(), "y": pa.string()}),
        st.fixed_dictionaries({"x": st.none() | st.integers(0, 9), "y": st.text(max_size=3)}),
    ),
}


@st.composite
def typed_tables(draw):
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3, unique=True))
    values = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=3, unique=True))
    nullable = [f"k_{n}" for n in names if draw(st.booleans())]
    fields = {}
    for name in names:
        kind, strategy = KINDS[name]
        fields[f"k_{name}"] = (kind, strategy | st.none() if f"k_{name}" in nullable else strategy)
    for name in values:
        kind, strategy = VALUES[name]
        fields[f"v_{name}"] = (kind, strategy | st.none())
    rows = draw(st.lists(st.tuples(*(s for _, s in fields.values())), max_size=25))
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = {
        name: pa.array(column, kind)
        for (name, (kind, _)), column in zip(fields.items(), columns, strict=True)
    }
    return pa.table(arrays), [f"k_{n}" for n in names], nullable


@settings(max_examples=60, deadline=None)
@given(typed_tables(), st.sampled_from([1, 2, 7]), st.sampled_from(["first", "last"]))
def test_random_typed_tables_against_a_dict(tmp_path_factory, drawn, buckets, rule):
    table, keys, nullable = drawn
    model: dict[tuple, dict] = {}
    for row in table.to_pylist():
        key = tuple(row.pop(name) for name in keys)
        if rule == "last" or key not in model:
            model[key] = row
    path = tmp_path_factory.mktemp("store") / "s"
    with build(
        table, path, key=keys, buckets=buckets, on_duplicate=rule, nullable_keys=nullable
    ) as store:
        assert store.schema.names == table.schema.names
        assert [f.type for f in store.schema] == [f.type for f in table.schema]
        assert len(store) == len(model)
        for key, value in model.items():
            assert store.get(key if len(keys) > 1 else key[0]) == value
        found = store.lookup(table.select(keys), found=True)
        assert found.column("found").to_pylist() == [True] * table.num_rows
        asked = [tuple(row.values()) for row in table.select(keys).to_pylist()]
        assert found.drop_columns("found").to_pylist() == [model[key] for key in asked]
        assert found.schema.types[:-1] == store.value_schema.types
        scanned = store.scan().read_all()
        assert {
            tuple(row[k] for k in keys): {n: v for n, v in row.items() if n not in keys}
            for row in scanned.to_pylist()
        } == model
        order = [
            (tuple((v is not None, v) for v in (row[k] for k in keys)))
            for row in scanned.to_pylist()
        ]
        for before, after in itertools.pairwise(order):
            assert is_before(before, after)
        assert scanned.to_pylist()[::-1] == store.scan(reverse=True).read_all().to_pylist()
        assert store.verify().num_rows == len(model)


def is_before(before, after) -> bool:
    """Compare nulls first; text by UTF-8 bytes, which is the order of code points as Python's."""
    for (has_a, a), (has_b, b) in zip(before, after, strict=True):
        if has_a != has_b:
            return has_b
        if has_a and a != b:
            return a < b
    return False


# --- threads


@pytest.mark.few(1)
@pytest.mark.parametrize(("memory", "buckets"), [(1 << 16, 3), (512 << 20, 1), (512 << 20, 3)])
def test_the_files_do_not_depend_on_the_threads(tmp_path, memory, buckets):
    table = repeated_table(3, 30_000)
    for i in range(5):
        path = tmp_path / f"in{i}.parquet"
        pq.write_table(table.slice(6_000 * i, 6_000), path, row_group_size=1_000)
    stores = []
    for threads in (1, 2, 4):
        folder = tmp_path / str(threads)
        before = threading.active_count()
        build(
            str(tmp_path / "in*.parquet"),
            folder,
            key=["a", "b"],
            on_duplicate="last",
            memory=memory,
            buckets=buckets,
            block_size=2_000,
            threads=threads,
        ).close()
        files = manifest_in(folder).files
        stores.append([(file.bucket, (folder / file.name).read_bytes()) for file in files])
        assert threading.active_count() == before
    assert len(stores[0]) == buckets
    assert stores[0] == stores[1] == stores[2]


def test_what_fails_while_reading_ahead_fails_the_build(tmp_path):
    for i, name in enumerate(["id", "id", "other"]):
        pq.write_table(pa.table({name: [2 * i, 2 * i + 1]}), tmp_path / f"{i}.parquet")
    before = threading.active_count()
    with pytest.raises(ValueError, match=r"2\.parquet lacks the column 'id'"):
        build(str(tmp_path / "*.parquet"), tmp_path / "s", key="id", threads=2)
    assert threading.active_count() == before
    assert not (tmp_path / "s").exists()


def test_what_a_caller_made_is_read_in_its_own_thread(tmp_path):
    seen = set()

    def batches():
        for i in range(3):
            seen.add(threading.current_thread())
            yield pa.record_batch({"id": [i]})

    build(batches(), tmp_path / "s", key="id", threads=4).close()
    assert seen == {threading.current_thread()}


# --- repeated keys and the memory budget


def repeated_table(seed: int, count: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    score = rng.choice([0.5, -1.0, np.nan, np.inf, 2.5, 7.0], count)
    return pa.table(
        {
            "a": pa.array([f"g{i}" for i in rng.integers(0, 40, count)]),
            "b": pa.array(rng.integers(-30, 30, count), pa.int32()),
            "row": pa.array(range(count)),
            "score": pa.array(score, mask=rng.random(count) < 0.2),
            "text": pa.array(["x" * int(n) for n in rng.integers(0, 60, count)]),
        }
    )


def kept_by_duckdb(table: pa.Table, rule) -> list[int]:
    """Say which rows stay, by SQL: DuckDB orders NaN above all numbers, as the rule does."""
    order = {
        "first": "row",
        "last": "row DESC",
        ("max", "score"): "score DESC NULLS LAST, row DESC",
    }[rule]
    query = f"""
        SELECT row FROM (SELECT *, row_number() OVER (PARTITION BY a, b ORDER BY {order}) AS n
        FROM input) WHERE n = 1 ORDER BY row
    """
    return [row for (row,) in duckdb.from_arrow(table).query("input", query).fetchall()]


@pytest.mark.few(2)
@pytest.mark.parametrize("rule", ["first", "last", ("max", "score")])
@pytest.mark.parametrize(("memory", "buckets"), [(1 << 16, 1), (1 << 16, 5), (512 << 20, 1)])
def test_rules_for_repeated_keys_against_duckdb(tmp_path, caplog, rule, memory, buckets):
    table = repeated_table(11, 24_000)
    caplog.set_level(logging.INFO, "lookupstore.builder")
    spill = tmp_path / "spill"
    spill.mkdir()
    with build(
        table,
        tmp_path / "s",
        key=["a", "b"],
        columns=["row", "text"],
        on_duplicate=rule,
        memory=memory,
        buckets=buckets,
        temp_dir=spill,
    ) as store:
        stored = store.scan().read_all()
        assert sorted(stored["row"].to_pylist()) == kept_by_duckdb(table, rule)
        rows = table.take(stored["row"])
        assert stored.equals(rows.select(["a", "b", "row", "text"]).cast(stored.schema))
        asked = store.lookup(table.select(["b", "a"]), ["row"])
        best = {
            (a, b): row
            for a, b, row in zip(
                *(stored[n].to_pylist() for n in "ab"), stored["row"].to_pylist(), strict=True
            )
        }
        assert asked["row"].to_pylist() == [
            best[pair] for pair in zip(table["a"].to_pylist(), table["b"].to_pylist(), strict=True)
        ]
        store.verify()
    (spills,) = [one.args[-1] for one in caplog.records if "spills" in one.msg]
    assert spills >= 24 if memory == 1 << 16 else spills == 0
    assert files_below(spill) == []


def test_max_of_the_pandas_oracle(tmp_path):
    frame = repeated_table(5, 3_000).to_pandas()[["a", "row", "text"]]
    want = frame.sort_values(["text", "row"], kind="stable").groupby("a").tail(1)
    with build(frame, tmp_path / "s", key="a", on_duplicate=("max", "text")) as store:
        found = store.scan().read_all().to_pandas()
    assert sorted(found["row"]) == sorted(want["row"])


@pytest.mark.parametrize("memory", [1 << 16, 512 << 20])
def test_a_repeated_key_is_an_error_that_names_it(tmp_path, memory):
    table = pa.table({"a": ["x"] * 9_001, "b": [*range(9_000), 42], "c": ["pad" * 9] * 9_001})
    with pytest.raises(
        ValueError, match=r"the key a='x', b=42 occurs more than once.*on_duplicate"
    ):
        build(table, tmp_path / "s", key=["a", "b"], memory=memory)
    assert not (tmp_path / "s").exists()


# --- arguments


def test_a_null_key_is_named_with_its_row(tmp_path):
    table = pa.table({"k": pa.array([*range(70_000), None]), "v": pa.nulls(70_001)})
    with pytest.raises(ValueError, match=r"'k' is null in row 70001 .*nullable_keys=\['k'\]"):
        build(table, tmp_path / "s", key="k")
    assert os.listdir(tmp_path) == []
    with build(table, tmp_path / "s", key="k", nullable_keys="k", columns=[]) as store:
        assert store.contains([None, 5]).to_pylist() == [True, True]
        assert store.scan().read_next_batch()["k"][0].as_py() is None


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (
            {"key": "idd"},
            KeyError,
            r"key: .*no column 'idd'; did you mean 'id'\? It has \['id', 'name', 'price'\]",
        ),
        ({"key": []}, ValueError, "key is empty"),
        ({"key": [1]}, TypeError, "key contains 1; give column names"),
        ({"key": pl.col("id")}, TypeError, "key is polars Expr; give the name of a column, such"),
        ({"key": 7}, TypeError, "key is int; give the name of a column, such as key="),
        ({"key": ["id", "id"]}, ValueError, "key names the column 'id' twice"),
        ({"key": "id", "columns": ["nope"]}, KeyError, "columns: .*no column 'nope'"),
        ({"key": "id", "columns": ["name", "name"]}, ValueError, "columns names .* twice"),
        ({"key": "id", "on_duplicate": "max"}, ValueError, "on_duplicate is 'max'; give"),
        ({"key": "id", "on_duplicate": ("min", "id")}, ValueError, "on_duplicate is"),
        ({"key": "id", "on_duplicate": ("max", "z")}, KeyError, "on_duplicate: .*no column 'z'"),
        ({"key": "id", "nullable_keys": ["name"]}, KeyError, "nullable_keys: 'name' is not a key"),
        ({"key": "id", "buckets": 0}, ValueError, "buckets is 0; give a number from 1"),
        ({"key": "id", "memory": 99}, ValueError, "memory is 99; give at least 65536"),
        ({"key": "id", "threads": 0}, ValueError, "threads must be a number from 1 to 64, not 0"),
        ({"key": "id", "temp_dir": "/no/such"}, FileNotFoundError, "temp_dir: /no/such"),
    ],
)
def test_bad_arguments_are_named(tmp_path, arguments, error, match):
    with pytest.raises(error, match=match):
        build(TABLE, tmp_path / "s", **arguments)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("option", [{"compression": "rar"}, {"block_size": 0}, {"bloom_fpp": 2}])
def test_bad_file_options_are_refused_before_the_source_is_read(tmp_path, option):
    def batches():
        yield TABLE.to_batches()[0]
        pytest.fail("the source was read")

    with pytest.raises(ValueError, match=str(*option.values())):
        build(batches(), tmp_path / "s", key="id", **option)
    assert os.listdir(tmp_path) == []


def test_bad_sources_are_named(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "data.txt").write_text("id\n1\n")
    pq.write_table(TABLE, tmp_path / "t.parquet")
    orc.write_table(TABLE, tmp_path / "t.orc")
    pq.write_table(TABLE.select(["id"]), tmp_path / "u.parquet")
    cases = [
        (tmp_path / "none.parquet", FileNotFoundError, "no such file or folder"),
        (tmp_path / "in", FileNotFoundError, "no file below it ends in .*data.txt"),
        (tmp_path / "in" / "data.txt", ValueError, "extension '.txt'; supported: .parquet"),
        (str(tmp_path / "*.avro"), FileNotFoundError, "no file matches"),
        (str(tmp_path / "t.*"), ValueError, "mixes Parquet and ORC"),
        ([tmp_path / "t.parquet", tmp_path / "u.parquet"], ValueError, "lacks the column 'name'"),
        ([tmp_path / "t.parquet", 7], TypeError, "item 1 is int, not a path"),
        (42, TypeError, "source is int; give a path"),
        ([], ValueError, "empty list"),
        ([1], TypeError, "item 0 is int"),
        ({"id": [1], "n": [1, 2]}, ValueError, "different lengths: {'id': 1, 'n': 2}"),
        ({"id": [1], "n": [object()]}, TypeError, "the column 'n' has no Arrow type.*pa.array"),
        ({"id": "int64"}, TypeError, "the column 'id' is str; give a list or an array"),
        ([TABLE, TABLE.select(["id"])], TypeError, "item 1 has the schema id: int64"),
        ([TABLE, 7], TypeError, "item 1 is int, not a table or a frame"),
        (
            [TABLE.to_batches()[0], TABLE.select(["id"]).to_batches()[0]],
            TypeError,
            "batch 1 has the schema id: int64",
        ),
    ]
    for source, error, match in cases:
        with pytest.raises(error, match=match):
            build(source, tmp_path / "s", key="id")
        assert not (tmp_path / "s").exists()
    twice = pa.table([[1], [2]], names=["id", "id"])
    with pytest.raises(ValueError, match="2 columns named 'id'"):
        build(twice, tmp_path / "s", key="id")
    with pytest.raises(ValueError, match="path 'nfs://host/store': Unrecognized filesystem"):
        build(TABLE, "nfs://host/store", key="id")


def test_a_key_type_without_order_is_named(tmp_path):
    with pytest.raises(TypeError, match="'id'"):
        build(pa.table({"id": [[1]]}), tmp_path / "s", key="id")


# --- folders, failures, kills


def test_an_existing_store_stays_unless_overwritten(tmp_path):
    build(TABLE, tmp_path / "s", key="id").close()
    before = files_below(tmp_path)
    with pytest.raises(FileExistsError, match="there is already a store; pass overwrite=True"):
        build(TABLE[:1], tmp_path / "s", key="id")
    assert files_below(tmp_path) == before
    old = LookupStore(tmp_path / "s")
    with build(
        TABLE[:1], tmp_path / "s", key="id", columns=["name"], overwrite=True, retain=0
    ) as new:
        assert len(new) == 1
        # The open store goes on answering from the files that are gone from the folder.
        assert old.lookup([1, 2, 3])["price"].to_pylist() == [1.5, 2.5, 3.5]
        assert old.scan().read_all().num_rows == 5
        assert new.verify().stray == ()
    old.close()
    assert len(files_below(tmp_path / "s")) == 2


def test_other_folders_are_left_alone(tmp_path):
    (tmp_path / "photo.jpg").write_text("")
    with pytest.raises(FileExistsError, match=r"not a store and not empty \(it has 'photo\.jpg'\)"):
        build(TABLE, tmp_path, key="id", overwrite=True)
    with pytest.raises(FileExistsError, match="a file; choose a new or empty folder"):
        build(TABLE, tmp_path / "photo.jpg", key="id")
    assert files_below(tmp_path) == ["photo.jpg"]


def failing_batches(count: int):
    yield from pa.table({"id": range(count), "v": ["x" * 30] * count}).to_batches(1000)
    raise OSError("the network is down")


@pytest.mark.parametrize("memory", [1 << 16, 512 << 20])
def test_a_failed_build_leaves_nothing(tmp_path, memory):
    with pytest.raises(OSError, match="network"):
        build(failing_batches(9_000), tmp_path / "deep" / "s", key="id", memory=memory)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("failing", ["write_bucket", "publish_version", "DataFile"])
def test_a_build_that_fails_late_leaves_the_old_store(tmp_path, monkeypatch, failing):
    build(TABLE, tmp_path / "s", key="id").close()
    before = files_below(tmp_path)
    modules = {"publish_version": new_version_module, "DataFile": data_files_module}
    module = modules.get(failing, build_module)
    real = getattr(module, failing)
    calls = []

    def fail(*args, **kwargs):
        calls.append(args)
        if len(calls) == (1 if failing == "publish_version" else 2):
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(module, failing, fail)
    with pytest.raises(KeyboardInterrupt):
        build(TABLE[:4], tmp_path / "s", key="id", buckets=3, overwrite=True)
    assert files_below(tmp_path) == before
    assert rows_of(LookupStore(tmp_path / "s")) == sorted_rows(TABLE)


def fail_once_published(store: Path, monkeypatch) -> None:
    """Let the first sync of a folder fail that comes when another version is there."""
    versions = store / "versions"

    def there() -> set[str]:
        return set(os.listdir(versions)) if versions.exists() else set()

    before = there()
    real = local_module.sync_folder

    def fail(folder):
        if there() != before:
            monkeypatch.setattr(local_module, "sync_folder", real)
            raise OSError(5, "the disk is going")
        real(folder)

    monkeypatch.setattr(local_module, "sync_folder", fail)


def test_an_error_after_a_new_store_is_published_takes_it_back(tmp_path, monkeypatch):
    fail_once_published(tmp_path / "s", monkeypatch)
    with pytest.raises(OSError, match="the disk is going"):
        build(TABLE, tmp_path / "s", key="id")
    assert os.listdir(tmp_path) == []
    assert rows_of(build(TABLE, tmp_path / "s", key="id")) == sorted_rows(TABLE)


def test_an_error_after_a_store_is_replaced_takes_the_new_version_back(tmp_path, monkeypatch):
    build(TABLE, tmp_path / "s", key="id").close()
    before = files_below(tmp_path)
    fail_once_published(tmp_path / "s", monkeypatch)
    with pytest.raises(OSError, match="the disk is going"):
        build(TABLE[:4], tmp_path / "s", key="id", overwrite=True, retain=0)
    assert files_below(tmp_path) == before
    assert rows_of(LookupStore(tmp_path / "s")) == sorted_rows(TABLE)


def test_a_version_that_cannot_be_taken_back_keeps_its_files(tmp_path, monkeypatch):
    build(TABLE, tmp_path / "s", key="id").close()
    fail_once_published(tmp_path / "s", monkeypatch)
    real = LocalFolder.delete

    def fail(location, name):
        if name.startswith("versions/"):
            raise PermissionError("not yours")
        real(location, name)

    monkeypatch.setattr(LocalFolder, "delete", fail)
    with pytest.raises(CommitUnknownError, match=r"0000000002-.*may be published") as caught:
        build(TABLE[:4], tmp_path / "s", key="id", overwrite=True, retain=0)
    assert "the disk is going" in str(caught.value.__context__)
    with LookupStore(tmp_path / "s") as store:
        assert store.scan().read_all().to_pylist() == sorted_rows(TABLE[:4])
        (mark,) = store.verify().stray  # which keeps `expire` away from the files
        assert mark.endswith("-runs")


@pytest.mark.parametrize("error", [PermissionError("not yours"), KeyboardInterrupt()])
def test_old_files_that_cannot_be_deleted_do_no_harm(tmp_path, monkeypatch, caplog, error):
    build(TABLE, tmp_path / "s", key="id").close()
    old = names_in(tmp_path / "s")
    real = LocalFolder.delete

    def fail(location, name):
        if name in old:
            raise error
        real(location, name)

    monkeypatch.setattr(LocalFolder, "delete", fail)
    if isinstance(error, OSError):
        build(TABLE[:4], tmp_path / "s", key="id", overwrite=True, retain=0).close()
        assert f"could not remove {old[0]}, which is no longer needed: not yours" in caplog.text
    else:
        with pytest.raises(KeyboardInterrupt):
            build(TABLE[:4], tmp_path / "s", key="id", overwrite=True, retain=0)
    with LookupStore(tmp_path / "s") as store:
        assert store.scan().read_all().to_pylist() == sorted_rows(TABLE[:4])
        assert store.verify().stray == old


@pytest.mark.parametrize("rows", [0, 5])
def test_a_build_that_fails_leaves_the_folders_of_another(tmp_path, rows):
    folder = tmp_path / "s"

    def batches():
        yield from TABLE[:rows].to_batches()
        # What the other does at its end, if it was the one that made the folders.
        for made in (folder / "data", folder):
            with suppress(OSError):
                made.rmdir()

    source = pa.RecordBatchReader.from_batches(TABLE.schema, batches())
    with build(source, folder, key="id") as store:
        assert len(store) == rows
        assert store.verify().stray == ()


def test_of_builds_that_overwrite_at_once_the_last_is_the_store(tmp_path, monkeypatch):
    """The inner one deletes no data files, as the outer one runs; the outer one deletes them."""
    build(TABLE, tmp_path / "s", key="id").close()
    real = new_version_module.publish_version
    first = names_in(tmp_path / "s")

    def overtaken(location, manifest, *, overwrite, replaces):
        monkeypatch.setattr(new_version_module, "publish_version", real)
        with build(TABLE[:2], tmp_path / "s", key="id", overwrite=True, retain=0) as inner:
            assert len(inner) == 2
            assert set(first) < set(inner.verify().stray)
        return real(location, manifest, overwrite=overwrite, replaces=replaces)

    monkeypatch.setattr(new_version_module, "publish_version", overtaken)
    with build(TABLE[:4], tmp_path / "s", key="id", overwrite=True, retain=0) as store:
        assert store.scan().read_all().to_pylist() == sorted_rows(TABLE[:4])
        assert store.version == 3
        assert store.verify().stray == ()
    assert len(files_below(tmp_path / "s")) == 2


KILLED = """
import importlib, sys, time
import pyarrow as pa
module = importlib.import_module("lookupstore.builder.in_process")
build = module.build
real = module.write_bucket
def slow(folder, name, bucket, *args, **kwargs):
    entry = real(folder, name, bucket, *args, **kwargs)
    if bucket == 1:
        print("second bucket written", flush=True)
        time.sleep(60)
    return entry
module.write_bucket = slow
table = pa.table({"id": range(20000), "v": ["x" * 30] * 20000})
build(table, sys.argv[1], key="id", buckets=4, memory=1 << 16)
"""


def test_a_killed_build_leaves_no_store_and_no_spill(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "s")], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "second bucket written\n"
    child.send_signal(signal.SIGKILL)
    child.wait(10)
    child.stdout.close()
    left = files_below(tmp_path)
    assert len(left) == 3  # two data files, and the mark of a build that runs
    assert all(name.startswith("s/data/") for name in left), left
    with pytest.raises(FormatError, match="not a lookupstore store: no version found"):
        LookupStore(tmp_path / "s")
    with build(TABLE, tmp_path / "s", key="id") as store:
        assert store.num_rows == 5
        assert store.verify().stray == tuple(name.removeprefix("s/") for name in left)


@pytest.mark.parametrize("where", ["sync", "write_first"])
def test_of_two_builds_at_once_one_wins(tmp_path, monkeypatch, where):
    real = getattr(LocalFolder, where)

    def late(*args):
        monkeypatch.setattr(LocalFolder, where, real)
        build(TABLE[:2], tmp_path / "s", key="id").close()
        return real(*args)

    monkeypatch.setattr(LocalFolder, where, late)
    with pytest.raises(FileExistsError, match="there is already a store"):
        build(TABLE, tmp_path / "s", key="id")
    with LookupStore(tmp_path / "s") as store:
        assert len(store) == 2
        assert store.verify().stray == ()


MEASURED = """
import sys
import pyarrow as pa
from lookupstore.builder.in_process import build
def peak():  # ru_maxrss would do, but a child inherits its parent's
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))
build(pa.table({"id": [1]}), sys.argv[2], key="id").close()
start = peak()
build(sys.argv[1], sys.argv[2], key="id", memory=8 << 20, compression="none", overwrite=True)
print(peak() - start)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.skipif(
    os.environ.get("LOOKUPSTORE_BUILD") == "sanitize", reason="AddressSanitizer keeps freed memory"
)
@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_memory_follows_the_budget_and_not_the_input(tmp_path, kind):
    """Build from 25 times the budget in a process of its own, and look at its peak memory."""
    rng = np.random.default_rng(0)
    count, width = 500_000, 400
    texts = pa.py_buffer(rng.bytes(count * width))
    offsets = pa.py_buffer(np.arange(0, (count + 1) * width, width, dtype=np.int32))
    texts = pa.Array.from_buffers(pa.binary(), count, [None, offsets, texts])
    table = pa.table({"id": rng.permutation(count), "text": texts})
    path = tmp_path / f"t.{kind}"
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=50_000, use_dictionary=False)
    else:
        orc.write_table(table, path, stripe_size=4 << 20)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path), str(tmp_path / "s")],
        capture_output=True,
        text=True,
        check=True,
        # Arrow's own pools keep up to 70 MiB that nobody uses, more on a busy machine.
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
    )
    peak = int(done.stdout)
    assert path.stat().st_size > 180 << 20
    assert peak < 100, f"{peak} MiB for a budget of 8 MiB"


# --- the pieces that a cluster reuses


def test_the_plan_names_what_it_reads():
    plan = plan_build(
        TABLE.schema,
        key="id",
        columns=["name"],
        on_duplicate=("max", "price"),
    )
    assert plan.columns == ["id", "name", "price"]
    assert plan.on_duplicate == ["max", "price"]
    encoded = plan.encode(TABLE.combine_chunks().to_batches()[0])
    assert encoded.schema.names == ["key", "rank", "value"]
    assert encoded["key"].equals(KeySchema(plan.key_schema.schema).encode([TABLE["id"]]))


def test_the_manifest_says_what_was_built(tmp_path):
    built = build(
        TABLE,
        tmp_path / "s",
        key="id",
        buckets=2,
        compression="zstd",
        level=3,
        on_duplicate="last",
    )
    built.close()
    manifest = manifest_in(tmp_path / "s")
    assert manifest.source == "Arrow table of 5 rows"
    assert manifest.options == {
        "on_duplicate": "last",
        "compression": "zstd",
        "level": 3,
        "block_size": 4608,
        "bloom_fpp": 0.005,
    }
    assert datetime.fromisoformat(manifest.created).tzinfo == timezone.utc
    assert (manifest.version, manifest.rewritten_buckets) == (1, 2)
    assert manifest.source_fingerprint is None
    assert [file.bucket for file in manifest.files] == [0, 1]
    (path,) = (tmp_path / "s" / "versions").iterdir()
    assert path.name == f"0000000001-{manifest.id}.json"
    text = json.loads(path.read_text())
    assert text["num_rows"] == 5


def test_files_are_plain_where_they_are_looked_up_and_zstd_where_they_travel(tmp_path):
    table = pa.table({"id": range(5000), "name": ["a name that comes again"] * 5000})
    remote = Remote(tmp_path, "s3")
    places = {
        "none": [tmp_path / "here", Location(tmp_path / "there"), f"file://{tmp_path}/uri"],
        "zstd": [remote.location()],
    }
    sizes = set()
    for codec, found in places.items():
        for place in found:
            with build(table, place, key="id") as store:
                assert store.info().options["compression"] == codec
                sizes.add((store.info().bytes, codec))
    (small, zstd), (large, none) = sorted(sizes)
    assert (zstd, none) == ("zstd", "none")
    assert small * 2 < large
    with build(table, remote.location("bucket/plain"), key="id", compression="none") as store:
        assert (store.info().bytes, store.info().options["compression"]) == (large, "none")


def test_sizes_of_source_and_store_are_logged(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    for i in range(2):
        pq.write_table(TABLE, tmp_path / f"{i}.parquet")
    opened = open_source([tmp_path / "0.parquet", str(tmp_path / "1.p*")])
    assert open_source(opened) is opened
    assert opened.nbytes == sum(path.stat().st_size for path in tmp_path.glob("*.parquet"))
    with build(opened, tmp_path / "s", key="id", on_duplicate="first") as store:
        said = f"the store has {store.info().bytes} bytes, its source {opened.nbytes} bytes"
    assert said in caplog.text
    assert open_source(TABLE).nbytes is None
    build(TABLE, tmp_path / "t", key="id").close()
    assert "its source is not files" in caplog.text


def test_default_options_keep_the_files_of_buckets_that_did_not_change(tmp_path):
    table = pa.table({"id": range(100), "name": ["a"] * 100})
    changed = table.set_column(1, "name", pa.array(["b"] + ["a"] * 99))
    for place in (tmp_path / "here", Remote(tmp_path, "s3").location()):
        given = {"key": "id", "buckets": 4, "overwrite": True}
        build(table, place, **given, compression="lz4").close()
        for rows, rewritten in ((table, 4), (changed, 1), (changed, 0)):
            with build(rows, place, **given) as store:
                assert store.info().rewritten_buckets == rewritten


def test_progress_is_shown_on_request_only(tmp_path, capfd):
    build(TABLE, tmp_path / "a", key="id").close()
    assert capfd.readouterr() == ("", "")
    build(TABLE, tmp_path / "b", key="id", progress=True).close()
    out, err = capfd.readouterr()
    assert out == ""
    assert "Reading" in err
    assert "5 rows" in err
    assert "left 0:00:00" in err


def test_rich_is_not_imported_for_a_quiet_build(tmp_path):
    script = (
        "import sys, pyarrow as pa; from lookupstore import build;"
        "build(pa.table({'id': [1]}), sys.argv[1], key='id'); assert 'rich' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "s")], check=True)


def test_a_field_of_a_struct_is_no_column_and_the_remedy_makes_one(tmp_path):
    nested = pa.table({"id": [1], "place": [{"zip": "02134"}]})
    pq.write_table(nested, tmp_path / "a.parquet")
    for argument in ({"key": "place.zip"}, {"key": "id", "columns": ["place.zip"]}):
        with pytest.raises(KeyError, match="is a field of the struct 'place'") as raised:
            build(tmp_path / "a.parquet", tmp_path / "s", **argument)
    select = str(raised.value).rpartition("DuckDB: ")[2].strip('"')
    rows = duckdb.sql(f"{select} FROM '{tmp_path}/a.parquet'")
    with build(rows, tmp_path / "s", key="zip") as store:
        assert store.get("02134") == {"id": 1, "place": {"zip": "02134"}}
    with pytest.raises(KeyError, match=r"no column 'id\.x'; did you mean 'id'"):
        build(nested, tmp_path / "t", key="id.x")


def test_arguments_of_other_tools_are_errors_with_ours(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "v": [2]})
    parquet, path = tmp_path / "a.parquet", tmp_path / "s"
    pq.write_table(rows, parquet)
    with lookupstore.build(rows, path, key="id") as store:
        calls: tuple[tuple[str, Any, dict[str, Any]], ...] = (
            ("give key=", lookupstore.build, {"source": rows, "path": path, "on": "id"}),
            ("give key=", lookupstore.follow, {"table": "t", "path": path, "keys": "id"}),
            ("give key=", ColumnarFiles, {"source": parquet, "primary_key": "id"}),
            ("give where=", ColumnarFiles, {"source": parquet, "key": "id", "filter": "v > 1"}),
            ("give where=", lookupstore.build, {"source": rows, "path": path, "filters": "v > 1"}),
            (r"call lookupstore\.follow\(", lookupstore.build, {"source": rows, "follow": True}),
            ("give overwrite=True", lookupstore.build, {"source": rows, "mode": "overwrite"}),
            ("did you mean 'columns'", lookupstore.build, {"source": rows, "colums": ["v"]}),
            ("leave it out", lookupstore.open, {"path": path, "key": "id"}),
            ("leave it out", lookupstore.upsert, {"path": path, "key": "id"}),
            ("give on=", store.join, {"rows": rows, "key": "id"}),
            ("give on=, such as on=", store.join, {"rows": rows, "left_on": "id"}),
            ("give prefix=", store.join, {"rows": rows, "on": "id", "suffixes": ("", "_r")}),
            ("did you mean 'seconds'", store.warm, {"second": 1}),
        )
        for said, call, given in calls:
            with pytest.raises(TypeError, match=f" has no argument '.*{said}"):
                call(**given)
        with pytest.raises(TypeError, match=r"^build takes 2 .* found 3; call build\(source, pa"):
            lookupstore.build(rows, path, "id")  # type: ignore[call-arg, misc]
        assert "kwargs" not in inspect.signature(lookupstore.build).parameters
        assert [*inspect.signature(ColumnarFiles).parameters][:2] == ["source", "key"]
