"""An open store: keys in every form, ranges, processes and threads, and stores that are damaged."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import pickle
import random
import signal
import tempfile
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import hypothesis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xxhash
from hypothesis import strategies as st
from support.forks import fork, in_child
from support.in_processes import ask_in_child

import lookupstore.store.open_version
import lookupstore.store.store
from lookupstore.builder.in_process import build
from lookupstore.errors import ClosedError, CorruptionError, FormatError, StaleStoreError
from lookupstore.keys.arguments import encode_keys
from lookupstore.keys.schema import KeySchema
from lookupstore.sst import Reader, Writer
from lookupstore.storage.location import Location
from lookupstore.store.local_files import files_of
from lookupstore.store.manifest import manifest_bytes, parse_manifest
from lookupstore.store.store import LookupStore
from lookupstore.store.version_files import read_newest

COUNT = 5_000
REGIONS = ["ap", "eu", "sa", "us"]


def plain_table() -> pa.Table:
    """Ids 0, 3, 6, ... in random order: every third number is found."""
    ids = random.Random(1).sample(range(COUNT), COUNT)
    return pa.table(
        {
            "id": pa.array([3 * i for i in ids], pa.int64()),
            "name": pa.array([f"name {i}" if i % 5 else None for i in ids]),
            "tags": pa.array([["t"] * (i % 3) for i in ids], pa.list_(pa.string())),
        }
    )


def pair_table() -> pa.Table:
    rows = [(r, n) for r in REGIONS for n in range(-50, 50)]
    random.Random(2).shuffle(rows)
    return pa.table(
        {
            "region": [r for r, _ in rows],
            "n": pa.array([n for _, n in rows], pa.int32()),
            "text": [f"{r}{n}" for r, n in rows],
        }
    )


@pytest.fixture(scope="module", params=[1, 4], ids=["one_bucket", "four_buckets"])
def plain(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "s"
    with build(plain_table(), path, key="id", buckets=request.param, block_size=2000) as store:
        yield store


@pytest.fixture(scope="module", params=[1, 4], ids=["one_bucket", "four_buckets"])
def pairs(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("pairs") / "s"
    with build(
        pair_table(), path, key=["region", "n"], buckets=request.param, block_size=500
    ) as store:
        yield store


# --- keys in every form


ASKED = [9, 10, -3, 9, 2**40, 0, 14_997, 15_000]
HELD = [True, False, False, True, False, True, True, False]


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(ASKED, id="list"),
        pytest.param([(key,) for key in ASKED], id="tuples"),
        pytest.param([{"id": key} for key in ASKED], id="dicts"),
        pytest.param(pa.array(ASKED), id="arrow"),
        pytest.param(pa.chunked_array([ASKED[:3], [], ASKED[3:]]), id="chunked"),
        pytest.param((pa.array(ASKED),), id="tuple_of_one_column"),
        pytest.param({"id": ASKED, "other": ["x"] * 8}, id="dict_of_columns"),
        pytest.param(pa.table({"other": ["x"] * 8, "id": ASKED}), id="table"),
        pytest.param(pa.record_batch({"id": ASKED}), id="batch"),
        pytest.param(pa.record_batch({"id": ASKED}).to_struct_array(), id="struct"),
        pytest.param(np.array(ASKED), id="numpy"),
        pytest.param(np.array(ASKED, object), id="numpy_objects"),
        pytest.param(np.array([(key,) for key in ASKED], [("id", "<i8")]), id="numpy_structured"),
        pytest.param(pd.Series(ASKED, index=list("abcdefgh")), id="series"),
        pytest.param(pd.Series(ASKED, dtype="Int64"), id="series_nullable"),
        pytest.param(pd.Index(ASKED), id="index"),
        pytest.param(pd.DataFrame({"x": 1.5, "id": ASKED}), id="frame"),
        pytest.param(pl.Series(ASKED), id="polars_series"),
        pytest.param(pl.DataFrame({"x": 1.5, "id": ASKED}), id="polars_frame"),
        pytest.param([*ASKED[:4], 2**90, *ASKED[5:]], id="list_beyond_int64"),
        pytest.param(pa.array([str(key) for key in ASKED]).cast(pa.decimal128(20)), id="decimal"),
        pytest.param([*ASKED[:1], None, *ASKED[2:]], id="null"),
    ],
)
def test_keys_in_every_form(plain, keys):
    model = {row["id"]: row for row in plain_table().to_pylist()}
    assert plain.contains(keys).to_pylist() == HELD
    answer = plain.lookup(keys, ["name", "tags"], found=True).to_pylist()
    for key, held, row in zip(ASKED, HELD, answer, strict=True):
        want = model[key] if held else {"name": None, "tags": None}
        assert row == {"name": want["name"], "tags": want["tags"], "found": held}


PAIRS = [("us", 3), ("eu", -50), ("eu", 50), ("", 0), ("us", 3)]
R, N = [r for r, _ in PAIRS], [n for _, n in PAIRS]


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(PAIRS, id="tuples"),
        pytest.param([{"n": n, "region": r} for r, n in PAIRS], id="dicts"),
        pytest.param((R, N), id="columns"),
        pytest.param((pl.Series(R), np.array(N)), id="mixed_columns"),
        pytest.param({"n": N, "region": R}, id="dict_of_columns"),
        pytest.param(pa.table({"n": N, "region": R}), id="table"),
        pytest.param(pd.DataFrame({"n": N, "region": R}), id="frame"),
        pytest.param(pl.DataFrame({"n": N, "region": R}), id="polars_frame"),
        pytest.param(pd.MultiIndex.from_arrays([R, N]), id="multiindex_by_place"),
        pytest.param(
            pd.MultiIndex.from_arrays([N, R], names=["n", "region"]), id="multiindex_by_name"
        ),
    ],
)
def test_composite_keys_in_every_form(pairs, keys):
    want = ["us3", "eu-50", None, None, "us3"]
    assert pairs.lookup(keys)["text"].to_pylist() == want
    assert pairs.contains(keys).to_pylist() == [text is not None for text in want]


@pytest.mark.parametrize(
    ("keys", "error", "match"),
    [
        ("abc", TypeError, "keys is str; give a list of keys"),
        (["abc"], TypeError, "'id'"),
        ([1, "abc"], TypeError, "'id'"),
        (pa.array(["abc"]), TypeError, "'id'.*int64"),
        ([(1, 2)], TypeError, "2 values"),
        ((1, 2), TypeError, r"a tuple gives one column per key field, here \['id'\]"),
        ((1,), TypeError, r"keys is \(1,\), one key of \['id'\]; give a list of keys, such as"),
        (([1], [2]), TypeError, "a tuple gives one column"),
        ({"idd": [1]}, KeyError, r"no column 'id'; the key has \['id'\], given \['idd'\]"),
        ([{"idd": 1}], KeyError, "idd"),
        ([{"id": 1, "more": 2}], KeyError, "more"),
        (pa.table({"x": [1]}), KeyError, "no column 'id'"),
        (pd.DataFrame({"x": [1]}), KeyError, "no column 'id'"),
        (np.zeros((2, 2)), TypeError, "2 dimensions"),
        ({"id": 5}, TypeError, "a column is int"),
        (42, TypeError, "keys is int"),
    ],
)
def test_wrong_keys_are_named(plain, keys, error, match):
    for ask in (plain.lookup, plain.contains):
        with pytest.raises(error, match=match):
            ask(keys)


@pytest.mark.parametrize(
    ("keys", "error", "match"),
    [
        (["us"], TypeError, "region"),
        ([("us", 1, 2)], TypeError, "3 values"),
        (pa.array(["us"]), TypeError, r"one column of string; the key has 2 fields.*'region', 'n'"),
        ((["us"],), TypeError, "a tuple gives one column"),
        ((["us"], [1, 2]), ValueError, "'n' has 2 values"),
        (
            ("us", 3),
            TypeError,
            r"one key of \['region', 'n'\].* such as \[\('us', 3\)\], or call get",
        ),
        (pd.MultiIndex.from_arrays([["us"]] * 3), TypeError, "3 levels"),
    ],
)
def test_wrong_composite_keys_are_named(pairs, keys, error, match):
    with pytest.raises(error, match=match):
        pairs.lookup(keys)


def test_no_keys_give_no_rows(plain, pairs):
    for store in (plain, pairs):
        empty = store.lookup([], found=True)
        assert empty.num_rows == 0
        assert empty.schema.names == [*store.value_schema.names, "found"]
        assert len(store.contains([])) == 0


def test_one_field_lists_are_encoded_as_arrays_are():
    schema = KeySchema(pa.schema({"t": pa.timestamp("ns")}))
    moments = [datetime(2024, 5, 17, 3), datetime(1950, 1, 1)]
    assert encode_keys(moments, schema).equals(schema.encode([pa.array(moments)]))


# --- answers


def test_get(plain, pairs):
    assert plain.get(9) == {"name": "name 3", "tags": []}
    assert plain.get(15) == {"name": None, "tags": ["t", "t"]}
    assert plain.get({"id": 9}) == plain.get((9,)) == plain.get(9)
    assert [plain.get(key) for key in (10, -1, 2**80, None)] == [None] * 4
    assert pairs.get(("eu", -50)) == pairs.get({"n": -50, "region": "eu"}) == {"text": "eu-50"}
    assert pairs.get(("eu", None)) is None
    with pytest.raises(TypeError, match="id"):
        plain.get("nine")
    with pytest.raises(TypeError, match="region"):
        pairs.get("eu")
    with pytest.raises(KeyError, match="region"):
        pairs.get({"reg": "eu", "n": 1})


def test_lookup_against_a_model_in_any_order(plain):
    model = {row["id"]: row["name"] for row in plain_table().to_pylist()}
    rng = np.random.default_rng(5)
    keys = rng.integers(-10, 3 * COUNT + 10, 20_000)
    table = plain.lookup(keys, ["name"])
    assert table.schema == pa.schema({"name": pa.string()})
    assert table["name"].to_pylist() == [model.get(key) for key in keys.tolist()]


def test_columns_of_a_lookup(plain):
    assert plain.lookup([9]).schema.names == ["name", "tags"]
    assert plain.lookup([9], ["tags", "name"]).schema.names == ["tags", "name"]
    assert plain.lookup([9], "name").schema.names == ["name"]
    assert plain.lookup([9, 1], []).num_rows == 2
    said = r"no value column 'nmae'; did you mean 'name'\? Value columns: \['name', 'tags'\]"
    with pytest.raises(KeyError, match=said):
        plain.lookup([9], ["nmae"])
    with pytest.raises(KeyError, match=r"'id' \(it is a key column, not a value column"):
        plain.lookup([9], ["id"])
    with pytest.raises(ValueError, match="columns names 'name' twice"):
        plain.lookup([9], ["name", "name"])


def test_a_value_column_called_found(tmp_path):
    table = pa.table({"id": [1], "found": ["a"]})
    with build(table, tmp_path / "s", key="id") as store:
        assert store.lookup([1]).to_pylist() == [{"found": "a"}]
        with pytest.raises(ValueError, match="there is a value column 'found'"):
            store.lookup([1], found=True)
        assert store.lookup([1, 2], [], found=True)["found"].to_pylist() == [True, False]


# --- ranges


def in_range(row, start=None, stop=None, prefix=None) -> bool:
    key = (row["region"], row["n"])
    return (
        (start is None or key >= start)
        and (stop is None or key < stop)
        and (prefix is None or key[: len(prefix)] == prefix)
    )


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "bounds",
    [
        {},
        {"start": ("eu", 10)},
        {"stop": ("eu", 10)},
        {"start": ("eu",), "stop": ("us", -49)},
        {"start": ("eu", 5), "stop": ("eu", 5)},
        {"start": ("b",), "stop": ("t",)},
        {"start": ("zz",)},
        {"prefix": ("eu",)},
        {"prefix": ("eu", 7)},
        {"prefix": ("nowhere",)},
        {"prefix": ("eu", 2**40)},
    ],
)
def test_scan_against_a_sorted_list(pairs, bounds, reverse):
    rows = [row for row in pair_table().to_pylist() if in_range(row, **bounds)]
    rows.sort(key=lambda row: (row["region"], row["n"]), reverse=reverse)
    reader = pairs.scan(**bounds, reverse=reverse)
    assert reader.schema == pairs.schema
    assert reader.read_all().to_pylist() == rows


def test_scan_by_one_value(plain, pairs):
    assert plain.scan(start=6, stop=13).read_all()["id"].to_pylist() == [6, 9, 12]
    assert plain.scan(start=6.5, stop=9.5).read_all()["id"].to_pylist() == [9]
    assert plain.scan(prefix=9).read_all()["id"].to_pylist() == [9]
    assert pairs.scan(start="us").read_all().num_rows == 100
    assert pairs.scan(prefix="us").read_all().num_rows == 100
    assert pairs.scan(prefix=("us", 1)).read_all().num_rows == 1
    assert pairs.scan(starts_with="u").read_all().num_rows == 100
    assert pairs.scan(prefix=(), starts_with="").read_all().num_rows == len(pairs)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_from_and_to_a_bound_between_two_values_of_the_first_column(tmp_path, reverse):
    """(2.5, "m") comes before (3, "a"), and no whole number equals it."""
    rows = [(number, text) for number in (1, 2, 3, 4) for text in ("a", "m", "z")]
    table = pa.table({"n": [row[0] for row in rows], "s": [row[1] for row in rows]})
    with build(table, tmp_path / "s", key=["n", "s"], buckets=2) as store:
        bounds = [None, (2, "m"), (2.5,), (2.5, ""), (2.5, "m"), (2.5, "zz"), (3, "m"), (-1.5, "m")]
        for start, stop in itertools.product(bounds, bounds):
            found = store.scan(start=start, stop=stop, reverse=reverse).read_all()
            expected = [
                row
                for row in sorted(rows, reverse=reverse)
                if (start is None or row >= start) and (stop is None or row < stop)
            ]
            assert list(zip(*found.to_pydict().values(), strict=True)) == expected, (start, stop)


TEXTS = {
    pa.string(): st.text("ab\0\U0010ffff", max_size=4),
    pa.large_string(): st.text("ab\0\x7f", max_size=4),
    pa.dictionary(pa.int8(), pa.string()): st.text("ab", max_size=3),
    pa.binary(): st.binary(max_size=4) | st.lists(st.sampled_from([0, 1, 255])).map(bytes),
    pa.binary(2): st.lists(st.sampled_from([0, 1, 255]), min_size=2, max_size=2).map(bytes),
}


def by_key(rows: pa.Table) -> dict[tuple, int]:
    """Return the column `v` by the values of the columns before it."""
    *keys, values = (column.to_pylist() for column in rows.columns)
    return dict(zip(zip(*keys, strict=True), values, strict=True))


@hypothesis.given(st.data())
@hypothesis.settings(max_examples=40)
def test_scans_of_text_keys_against_a_dict(data):
    """Whole values and beginnings, in the first and the last field, with nulls, NUL and 0xFF."""
    kinds = data.draw(st.lists(st.sampled_from(list(TEXTS)), min_size=1, max_size=3))
    names = [f"k{i}" for i in range(len(kinds))]
    nullable = [name for name in names if data.draw(st.booleans())]
    cells = [
        TEXTS[kind] | st.none() if name in nullable else TEXTS[kind]
        for name, kind in zip(names, kinds, strict=True)
    ]
    keys = data.draw(st.lists(st.tuples(*cells), min_size=1, max_size=30, unique=True))
    model = {key: i for i, key in enumerate(keys)}
    columns = [
        pa.array(column, kind) for column, kind in zip(zip(*keys, strict=True), kinds, strict=True)
    ]
    table = pa.table([*columns, pa.array(range(len(keys)))], names=[*names, "v"])
    with (
        tempfile.TemporaryDirectory() as folder,
        build(table, f"{folder}/s", key=names, nullable_keys=nullable, buckets=2) as store,
        warnings.catch_warnings(record=True) as said,
    ):
        warnings.simplefilter("always")
        for _ in range(8):
            chosen = data.draw(st.sampled_from(keys))
            count = data.draw(st.integers(0, len(names)))
            prefix = data.draw(
                st.sampled_from([chosen[:count], tuple(map(data.draw, cells[:count]))])
            )
            wanted = {key: v for key, v in model.items() if key[:count] == prefix}
            said.clear()
            found = store.scan(prefix=prefix).read_all()
            assert by_key(found) == wanted
            near = (
                prefix
                and prefix[-1] is not None
                and any(
                    key[: count - 1] == prefix[:-1]
                    and key[count - 1] is not None
                    and key[count - 1].startswith(prefix[-1])
                    for key in keys
                )
            )
            assert bool(said) == (not wanted and bool(near)), (prefix, keys)
            if count == len(names):
                continue
            whole = data.draw(st.sampled_from([chosen[count], data.draw(TEXTS[kinds[count]])]))
            beginning = (whole or data.draw(TEXTS[kinds[count]]))[: data.draw(st.integers(0, 3))]
            wanted = {
                key: v
                for key, v in model.items()
                if key[:count] == prefix
                and key[count] is not None
                and key[count].startswith(beginning)
            }
            found = store.scan(prefix=prefix, starts_with=beginning).read_all()
            assert by_key(found) == wanted


def test_a_prefix_that_is_no_whole_value_says_so(tmp_path):
    table = pa.table({"city": ["Bath", "Bath", "Bern"], "day": [1, 2, 1]})
    with build(table, tmp_path / "s", key=["city", "day"]) as store:
        with pytest.warns(UserWarning, match=r"no row has city = 'Ba', but .*starts_with='Ba'"):
            assert store.scan(prefix="Ba").read_all().num_rows == 0
        assert store.scan(starts_with="Ba").read_all().num_rows == 2
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert store.scan(prefix="Rome").read_all().num_rows == 0
            assert store.scan(prefix=("Bath", 9)).read_all().num_rows == 0
    table = pa.table({"region": ["eu", "us"], "city": ["Bath", "Reno"]})
    with build(table, tmp_path / "t", key=["region", "city"]) as store:
        with pytest.warns(UserWarning, match=r"give prefix=\('eu',\), starts_with='Ba'"):
            assert store.scan(prefix=("eu", "Ba")).read_all().num_rows == 0
        found = store.scan(prefix=("eu",), starts_with="Ba").read_all()
        assert found["city"].to_pylist() == ["Bath"]


def test_a_store_reads_like_a_mapping(plain, pairs):
    assert plain[9] == plain.get(9)
    assert pairs["us", 1] == pairs.get(("us", 1))
    assert (9 in plain, 10 in plain, ("us", 1) in pairs) == (True, False, True)
    with pytest.raises(KeyError, match="no key 10"):
        plain[10]
    with pytest.raises(TypeError, match="the key field 'id' is int64; found str 'x'"):
        _ = "x" in plain
    assert list(plain) == list(range(0, 3 * COUNT, 3))
    assert list(pairs) == sorted((row["region"], row["n"]) for row in pair_table().to_pylist())


def test_a_scan_takes_keyword_arguments_and_tuples_only(plain, pairs):
    form = r"scan\(start=\.\.\., stop=\.\.\., prefix=\.\.\., starts_with=\.\.\., columns=\.\.\."
    with pytest.raises(TypeError, match=f"scan takes keyword arguments only: {form}"):
        plain.scan(6, 13)
    with pytest.raises(TypeError, match=f"scan takes keyword arguments only: {form}.*got list"):
        plain.scan(["tags"])
    with pytest.raises(TypeError, match=f"scan has no argument 'limit': {form}"):
        plain.scan(limit=3)
    for name in ("start", "stop", "prefix"):
        with pytest.raises(TypeError, match=f"{name} is a list, which is not a key; give a tuple"):
            pairs.scan(**{name: ["us", 1]})
    with pytest.raises(TypeError, match="the key field 'id' is int64, and only text and bytes"):
        plain.scan(starts_with="1")
    with pytest.raises(TypeError, match="the key field 'region' is string; found bytes"):
        pairs.scan(starts_with=b"u")


def test_scan_of_some_columns(plain):
    batch = plain.scan(columns=["tags"]).read_next_batch()
    assert batch.schema.names == ["id", "tags"]
    assert plain.scan(columns=[]).read_all()["id"].to_pylist() == list(range(0, 3 * COUNT, 3))
    with pytest.raises(KeyError, match="no value column 'x'"):
        plain.scan(columns=["x"])
    with pytest.raises(ValueError, match="start or stop is given with prefix"):
        plain.scan(start=1, prefix=2)
    with pytest.raises(TypeError, match="id"):
        plain.scan(start="one")


# --- descriptions


def test_info_repr_and_html(plain, tmp_path):
    info = plain.info()
    assert info.key == {"id": "int64"}
    assert info.values == {"name": "string", "tags": "list<item: string>"}
    assert info.num_rows == COUNT
    assert info.files == info.buckets
    assert info.bytes == sum(p.stat().st_size for p in Path(plain.path, "data").iterdir())
    assert json.loads(json.dumps(info.to_json()))["options"]["block_size"] == 2000
    assert repr(plain) == (
        f"<LookupStore {plain.path!r}: key (id: int64), 2 value columns, 5,000 rows>"
    )
    with build(pa.table({"<k>": [1], "v": [2]}), tmp_path / "s", key="<k>") as store:
        page = store._repr_html_()
        assert "<td>&lt;k&gt;</td><td>int64</td><td>key</td>" in page
        assert "1 value column, 1 row>" in repr(store)
        assert "<td>num_rows</td><td>1</td>" in store.info()._repr_html_()
        assert "<th>row 1</th></tr>" in page
    assert "row, closed>" in repr(store)
    assert "row 1" not in store._repr_html_()  # it is closed


def test_a_file_is_no_store(tmp_path):
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(FormatError, match=r"t\.parquet: a file, but a store is a folder"):
        lookupstore.open(path)


def test_paths(tmp_path, monkeypatch):
    build(pa.table({"id": [1]}), tmp_path / "a b", key="id").close()
    uri = (tmp_path / "a b").as_uri()
    assert Location(uri).uri == str(tmp_path / "a b")
    monkeypatch.chdir(tmp_path)
    for path in (uri, "a b", Path("a b"), str(tmp_path / "a b" / "")):
        with lookupstore.store.store.open(path) as store:
            assert store.path == str(tmp_path / "a b")
    with pytest.raises(FileNotFoundError, match="nowhere: no such store folder"):
        LookupStore("nowhere")
    with pytest.raises(FormatError, match="not a lookupstore store: no version found"):
        LookupStore(tmp_path)
    with pytest.raises(ValueError, match="path 'nfs://host/store': Unrecognized filesystem"):
        LookupStore("nfs://host/store")
    with pytest.raises(ValueError, match="path is empty"):
        LookupStore("")
    with pytest.raises(TypeError, match="path is bytes"):
        LookupStore(b"a b")


# --- life and processes


@pytest.mark.parametrize(("buckets", "block_size"), [(1, 500), (3, 1 << 20)])
def test_use_after_close(tmp_path, buckets, block_size):
    # With one block a bucket, what is left of a merge is in memory, and still the store is closed.
    table = plain_table()
    store = build(table, tmp_path / "s", key="id", buckets=buckets, block_size=block_size)
    reader = store.scan()
    reader.read_next_batch()
    store.close()
    store.close()
    for use in (
        lambda: store.get(9),
        lambda: store.lookup([9]),
        lambda: store.contains([9]),
        lambda: store.scan(),
        lambda: store.verify(),
        lambda: store.__enter__(),
        lambda: reader.read_next_batch(),
    ):
        with pytest.raises(ClosedError):
            use()
    assert store.num_rows == COUNT


def test_pickled_stores_open_again(plain):
    with pickle.loads(pickle.dumps(plain)) as copy:
        assert copy.get(9) == plain.get(9)
        assert copy.id == plain.id


def test_a_pickled_store_that_was_replaced_says_so(tmp_path):
    store = build(plain_table(), tmp_path / "s", key="id")
    pickled = pickle.dumps(store)
    build(plain_table(), tmp_path / "s", key="id", overwrite=True, retain=0).close()
    with pytest.raises(StaleStoreError, match="replaced since the store was pickled"):
        pickle.loads(pickled)
    assert store.get(9) is not None
    with pytest.raises(
        StaleStoreError, match="replaced after it was opened, and removed; the newest is 2"
    ):
        store.verify()
    store.close()


@pytest.mark.parametrize("retain", [0, 3600])
def test_verify_of_a_store_that_is_replaced_meanwhile(tmp_path, monkeypatch, retain):
    """Its files go while it is read: it has been replaced, and nothing is wrong with it."""
    store = build(plain_table(), tmp_path / "s", key="id", buckets=2)
    hashed = []

    real = Location.hash

    def replace_before_the_second(location, name):
        if len(hashed) == 1:
            hashed.append("no more")
            build(
                plain_table(), tmp_path / "s", key="id", overwrite=True, buckets=1, retain=retain
            ).close()
        hashed.append(name)
        return real(location, name)

    monkeypatch.setattr(Location, "hash", replace_before_the_second)
    if retain:
        assert store.verify().num_rows == COUNT
        return
    with pytest.raises(StaleStoreError, match=r"replaced after it was opened.*open it again"):
        store.verify()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_children_use_the_open_store(plain):
    want = ask_in_child(plain, [9, 10, 33])
    for _ in range(4):
        child = os.fork()
        if child == 0:
            # os._exit: nothing of the test session may run in the child.
            os._exit(0 if ask_in_child(plain, [9, 10, 33]) == want and plain.get(9) else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert ask_in_child(plain, [9, 10, 33]) == want


def test_spawned_workers_open_the_store_they_are_sent(plain):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        got = pool.apply(ask_in_child, (plain, [9, 10, 33]))
    assert got == ask_in_child(plain, [9, 10, 33])


def test_threads_share_a_store(plain):
    model = {row["id"]: row["name"] for row in plain_table().to_pylist()}
    barrier = threading.Barrier(8)

    def work(seed: int) -> bool:
        barrier.wait(10)
        rng = np.random.default_rng(seed)
        for _ in range(15):
            keys = rng.integers(0, 3 * COUNT, 500)
            names = plain.lookup(keys, ["name"])["name"].to_pylist()
            if names != [model.get(key) for key in keys.tolist()]:
                return False
            key = int(keys[0])
            row = plain.get(key)
            if (row["name"] if row else None) != model.get(key):
                return False
        return plain.scan(stop=300, columns=[]).read_all().num_rows == 100

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_a_cache_of_its_own(tmp_path):
    build(plain_table(), tmp_path / "s", key="id").close()
    with LookupStore(tmp_path / "s", cache_bytes=1 << 20) as store:
        assert store.get(9) == {"name": "name 3", "tags": []}
        with pickle.loads(pickle.dumps(store)) as copy:
            assert copy._cache_bytes == 1 << 20


def test_opening_survives_a_build_that_replaces_the_store(tmp_path, monkeypatch):
    build(pa.table({"id": [1]}), tmp_path / "s", key="id").close()
    real = lookupstore.store.open_version.read_newest

    def replaced_at_once(location):
        manifest = real(location)
        monkeypatch.setattr(lookupstore.store.open_version, "read_newest", real)
        build(pa.table({"id": [1, 2]}), location, key="id", overwrite=True, retain=0).close()
        return manifest

    monkeypatch.setattr(lookupstore.store.open_version, "read_newest", replaced_at_once)
    with LookupStore(tmp_path / "s") as store:
        assert len(store) == 2


# --- damage


@pytest.fixture
def small(tmp_path):
    build(plain_table(), tmp_path / "s", key="id", buckets=2, block_size=4000).close()
    return tmp_path / "s"


def manifest_of(folder: Path) -> Path:
    """Return the file of the only version."""
    (path,) = (folder / "versions").iterdir()
    return path


def rewrite(folder: Path, change, *, sign: bool = True) -> None:
    """Change the manifest's fields; sign it, so that only the change itself can be noticed."""
    path = manifest_of(folder)
    fields = json.loads(path.read_text())
    change(fields)
    if sign and "xxh64" in fields:
        del fields["xxh64"]
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        fields["xxh64"] = xxhash.xxh64_hexdigest(text.encode())
    path.write_text(json.dumps(fields))


def setting(*where, value):
    def change(fields):
        *path, last = where
        for step in path:
            fields = fields[step]
        fields[last] = value

    return change


def dropping(*where):
    def change(fields):
        *path, last = where
        for step in path:
            fields = fields[step]
        del fields[last]

    return change


FIELDS = [
    "version",
    "id",
    "created",
    "writer",
    "key",
    "values",
    "bucket_function",
    "buckets",
    "num_rows",
    "source",
    "options",
    "rewritten_buckets",
    "files",
]
FILE_FIELDS = ["name", "bucket", "num_records", "bytes", "xxh64", "min_key", "max_key"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        *[pytest.param(dropping(f), f, id=f"no {f}") for f in FIELDS],
        *[pytest.param(setting(f, value=None), f, id=f"null {f}") for f in FIELDS],
        *[
            pytest.param(dropping("files", 1, f), rf"files\[1\].{f}", id=f"no file {f}")
            for f in FILE_FIELDS
        ],
        *[
            pytest.param(
                setting("files", 0, f, value=1.5), rf"files\[0\].{f}", id=f"1.5 as file {f}"
            )
            for f in FILE_FIELDS
        ],
        (setting("buckets", value=True), "buckets"),
        (setting("buckets", value=0), "buckets"),
        (setting("buckets", value=1), r"files\[1\].bucket"),
        (setting("num_rows", value=4999), "num_rows"),
        (setting("files", 0, "name", value="../x.sst"), r"files\[0\].name"),
        (setting("files", 0, "name", value="/etc/x.sst"), r"files\[0\].name"),
        (setting("files", 0, "name", value="data/../../x.sst"), r"files\[0\].name"),
        (setting("files", 0, "name", value="data/x.sst\n"), r"files\[0\].name"),
        (setting("files", 0, "bucket", value=1), "files"),
        (setting("files", 0, "min_key", value="zz"), r"files\[0\].min_key"),
        (setting("files", 0, "max_key", value="00"), r"files\[0\].max_key"),
        (setting("files", 0, value="x"), r"files\[0\]"),
        (setting("files", 0, "more", value=1), r"files\[0\].more"),
        (setting("more", value=1), "more"),
        (setting("id", value="../../x"), "id"),
        (setting("id", value="0" * 32), "id"),
        (setting("version", value=0), "version"),
        (setting("version", value=2), "version"),
        (setting("created", value="yesterday"), "created"),
        (setting("created", value="2026-01-01T00:00:00"), "created"),
        (setting("rewritten_buckets", value=-1), "rewritten_buckets"),
        (dropping("source_fingerprint"), "source_fingerprint"),
        (setting("source_fingerprint", value="x"), "source_fingerprint"),
        (setting("bucket_function", value="murmur"), "bucket_function"),
        (setting("key", "schema", value="!"), "key"),
        (setting("key", value={}), "key"),
        (setting("values", "schema", value="AAAA"), "values"),
    ],
)
def test_a_manifest_that_contradicts_itself(small, change, field):
    rewrite(small, change)
    with pytest.raises(CorruptionError, match=rf"0000000001-\w+\.json: .*\b{field}:"):
        LookupStore(small)


def test_a_manifest_that_was_changed(small):
    rewrite(small, setting("created", value="yesterday"), sign=False)
    with pytest.raises(CorruptionError, match="field xxh64"):
        LookupStore(small)
    rewrite(small, dropping("xxh64"), sign=False)
    with pytest.raises(CorruptionError, match=r"field xxh64: .*no such field"):
        LookupStore(small)


def test_a_manifest_of_another_format(small):
    for version in (1, 3, 7):
        rewrite(small, setting("format_version", value=version))
        match = f"format_version is {version}; this lookupstore reads 2, 4, 5 and 6"
        with pytest.raises(FormatError, match=match):
            LookupStore(small)
    for text, match in [("[]", "an object"), ("{", "JSON"), ("", "JSON"), ("\x80", "JSON")]:
        manifest_of(small).write_text(text)
        with pytest.raises(CorruptionError, match=match):
            LookupStore(small)
    manifest_of(small).write_bytes(b'{"a": "\xff"}')
    with pytest.raises(CorruptionError, match="offset 7: expected a manifest, in UTF-8"):
        LookupStore(small)


def test_every_truncation_of_a_manifest(small):
    text = manifest_of(small).read_bytes()
    for size in range(0, len(text) - 2, 37):
        manifest_of(small).write_bytes(text[:size])
        with pytest.raises(CorruptionError):
            LookupStore(small)


def data_file(folder: Path, bucket: int) -> Path:
    return folder / read_newest(Location(folder)).files[bucket].name


def test_a_data_file_that_is_gone_or_cut(small):
    path = data_file(small, 1)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(CorruptionError, match=rf"{path}: .*expected {len(content)} bytes"):
        LookupStore(small)
    path.unlink()
    with pytest.raises(CorruptionError, match=rf"{path}: .*expected a data file.*found no file"):
        LookupStore(small)


def test_record_counts_are_those_of_the_files(small):
    def move(fields):
        a, b = fields["files"]
        a["num_records"] += 1
        b["num_records"] -= 1

    path = data_file(small, 0)
    rewrite(small, move)
    with pytest.raises(
        CorruptionError, match=rf"{path}: .*expected \d+ records, found \d+ records"
    ):
        LookupStore(small)


def test_files_swapped_between_buckets(small):
    def swap(fields):
        a, b = fields["files"]
        a["bucket"], b["bucket"] = 1, 0
        fields["files"] = [b, a]

    rewrite(small, swap)
    with LookupStore(small) as store, pytest.raises(CorruptionError, match="keys of bucket 0"):
        store.verify()


@pytest.mark.parametrize("bucket", [0, 1])
def test_rows_that_do_not_fit_name_their_file(small, bucket):
    """The file is right in itself, but a row in it is too short for the store's columns."""
    path = data_file(small, bucket)
    with Reader(path) as reader:
        records = [tuple(row.values()) for batch in reader.scan() for row in batch.to_pylist()]
    with Writer(path, overwrite=True) as writer:
        for i, (key, value) in enumerate(records):
            writer.put(key, value[:3] if i == 7 else value)

    def change(fields):
        fields["files"][bucket]["bytes"] = path.stat().st_size

    rewrite(small, change)
    bad = int.from_bytes(records[7][0], "big") - (1 << 63)
    with LookupStore(small) as store:
        for ask in (lambda: store.lookup(list(range(5000))), lambda: store.get(bad)):
            with pytest.raises(
                CorruptionError, match="rows of the store's value columns"
            ) as caught:
                ask()
            assert caught.value.path == str(path)
        assert store.contains([bad]).to_pylist() == [True]


@pytest.mark.parametrize("field", ["xxh64", "min_key", "max_key"])
def test_verify_compares_files_with_the_manifest(small, field):
    def change(fields):
        text = fields["files"][1][field]
        wrong = {"xxh64": "0" * 16, "min_key": "00" * 8, "max_key": "ff" * 8}[field]
        assert text != wrong
        fields["files"][1][field] = wrong

    rewrite(small, change)
    with LookupStore(small) as store, pytest.raises(CorruptionError) as caught:
        store.verify()
    assert caught.value.path == str(data_file(small, 1))


def test_every_changed_byte_is_found(small):
    """A wrong byte anywhere in a data file: verify fails, and no answer is ever wrong."""
    path = data_file(small, 0)
    content = path.read_bytes()
    model = {row["id"]: row["name"] for row in plain_table().to_pylist()}
    rng = random.Random(4)
    for at in [0, len(content) - 1, *rng.sample(range(len(content)), 40)]:
        wrong = bytearray(content)
        wrong[at] ^= 1 << rng.randrange(8)
        path.write_bytes(wrong)
        with pytest.raises((CorruptionError, FormatError)), LookupStore(small) as store:
            store.verify()
        try:
            with LookupStore(small, cache_bytes=0) as store:
                names = store.lookup(list(model), ["name"])["name"].to_pylist()
        except (CorruptionError, FormatError):
            continue
        assert names == list(model.values()), f"byte {at} of {path}"
    path.write_bytes(content)
    with LookupStore(small) as store:
        assert store.verify().num_rows == COUNT


def test_rows_that_do_not_fit_the_schema_name_their_file(small):
    """The file is sound, but another writer's: every answer must say which file it is."""
    manifest = read_newest(Location(small))
    path = data_file(small, 1)
    with LookupStore(small) as store:
        keys = files_of(store).with_reader(1, list)
        ids = [row["id"] for row in store.key_schema.decode(pa.array(keys)).to_pylist()]
    path.unlink()
    with Writer(path) as writer:
        writer.put_many(keys, [b"\x00"] * len(keys))
    content = path.read_bytes()
    changed = [("bytes", len(content)), ("xxh64", xxhash.xxh64_hexdigest(content))]
    for field, value in changed:
        rewrite(small, setting("files", 1, field, value=value))
    with LookupStore(small) as store:
        for ask in (
            lambda: store.get(ids[0]),
            lambda: store.lookup([ids[0]]),
            lambda: store.lookup([*range(0, 3 * COUNT, 3)]),
            lambda: store.scan().read_all(),
            lambda: store.verify(),
        ):
            with pytest.raises(CorruptionError) as caught:
                ask()
            assert caught.value.path == str(path)
    assert manifest.files[1].bytes != len(content)


def test_stray_files_are_reported_and_ignored(small):
    (small / "data" / "left-over.sst").write_bytes(b"x")
    (small / "data" / ".tmp").write_bytes(b"x")
    with LookupStore(small) as store:
        assert store.verify().stray == ("data/.tmp", "data/left-over.sst")
        assert store.verify().to_json() == {
            "files": 2,
            "num_rows": COUNT,
            "bytes": store.info().bytes,
            "stray": ["data/.tmp", "data/left-over.sst"],
        }


def test_a_manifest_survives_the_round_trip(small):
    manifest = read_newest(Location(small))
    assert parse_manifest("here", manifest_bytes(manifest)) == manifest
    assert manifest_bytes(manifest) == manifest_of(small).read_bytes()


def test_a_store_of_the_former_format_says_what_to_do(small):
    manifest_of(small).rename(small / "manifest.json")
    with pytest.raises(FormatError, match=r"a manifest\.json but no versions.*build the store"):
        LookupStore(small)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_nulls_misses_and_sizes_that_begin_or_end_later(tmp_path, compression, seed):
    """Answers come in pieces of 1,024 keys: what is new in one must not change those before."""
    rng = random.Random(seed)
    count = 8000
    starts = {name: rng.randrange(count) for name in ("a", "b", "long", "missing")}
    rows = [
        {
            "id": key,
            "a": None if 0 <= key - starts["a"] < 900 and rng.random() < 0.3 else key * 7,
            "b": None if key >= starts["b"] and rng.random() < 0.3 else f"text {key}",
            "c": key,
            "d": b"x" * (rng.randrange(500) if key >= starts["long"] else 3),
        }
        for key in range(count)
        if key < starts["missing"] or rng.random() < 0.9
    ]
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("a", pa.int32()),
            ("b", pa.string()),
            pa.field("c", pa.int64(), nullable=False),
            ("d", pa.binary()),
        ]
    )
    model = {row["id"]: {name: row[name] for name in "abcd"} for row in rows}
    table = pa.Table.from_pylist(rows, schema)
    nothing = dict.fromkeys("abcd")
    store = build(table, tmp_path / "s", key="id", compression=compression, block_size=4096)
    with store:
        for keys in (
            range(-3, count + 3),  # in order, so that nothing is null until it begins
            rng.choices(range(-50, count + 50), k=3000),
            range(rng.randrange(1, 1030)),
        ):
            found = store.lookup(pa.array(keys, pa.int64()), found=True)
            found.validate(full=True)
            for key, row in zip(keys, found.to_pylist(), strict=True):
                assert row == {**model.get(key, nothing), "found": key in model}, key


def test_get_of_a_time_that_python_does_not_have(tmp_path: Path) -> None:
    far = pa.array([2**31 - 2], pa.int32()).cast(pa.date32())
    table = pa.table({"id": [1], "day": far, "days": pa.array([[far[0]]], pa.list_(pa.date32()))})
    with lookupstore.build(table, tmp_path / "s", key="id") as store:
        with pytest.raises(ValueError, match=r"the column 'days?' has a .*; take it from lookup"):
            store.get(1)
        assert store.lookup([1]).equals(table.select(["day", "days"]))


@fork
def test_a_child_of_fork_refreshes_while_its_parent_does(tmp_path: Path) -> None:
    """The thread that holds the lock of the parent is not in the child."""
    store = lookupstore.build(pa.table({"id": [1]}), tmp_path / "s", key="id")

    def work() -> bool:
        signal.alarm(20)  # it would wait for ever
        newer = store.refresh()
        store.close()
        return newer.version == 1

    with store._refreshes._lock:
        assert in_child(work)
    store.close()
