"""Single keys of a store: what `get`, `[]` and `in` answer is what a dict of the rows answers.

Values change each day; LOOKUPSTORE_TEST_SEED=N repeats a run that printed N.
"""

from __future__ import annotations

import datetime as dt
import os
import random

import pyarrow as pa
import pytest
from support.forks import fork, in_child

from lookupstore.builder.in_process import build
from lookupstore.errors import ClosedError, CorruptionError
from lookupstore.store.local_files import files_of
from lookupstore.store.store import LookupStore

NAMES = ["text", "number", "tags", "day"]
SCHEMA = pa.schema(
    [
        ("region", pa.string()),
        ("id", pa.int32()),
        ("text", pa.string()),
        pa.field("number", pa.float64(), nullable=False),
        ("tags", pa.list_(pa.string())),
        ("day", pa.date32()),
    ]
)


def random_row(rng, key):
    """Return a row of the schema at a key."""
    text = None if rng.random() < 0.2 else "é" * rng.randrange(5)
    day = dt.date(2013, 1, 1) + dt.timedelta(rng.randrange(999))
    values = [text, rng.random(), rng.choice([None, [], ["a", "b"]]), rng.choice([None, day])]
    return dict(zip(SCHEMA.names, [*key, *values], strict=True))


def random_key(rng):
    return rng.choice(["eu", "us", "", "a\0b"]), rng.randrange(-150, 150)


def check(rng, store, rows):
    """Compare a store with a dict of its rows, at keys that are there and that are not."""
    for size in (0, 1, 7, 64, 65, 300):
        keys = [random_key(rng) for _ in range(size)]
        for names in (NAMES, ["number", "text"], ["day"], ["tags"]):
            expected = [{name: rows.get(key, {}).get(name) for name in names} for key in keys]
            as_columns = tuple(pa.array(column) for column in zip(*keys, strict=True))
            for asked in (keys, as_columns) if keys else (keys,):
                assert store.lookup(asked, names).to_pylist() == expected
    for _ in range(400):
        key = random_key(rng)
        expected = rows.get(key)
        columns = rng.choice([None, rng.sample(NAMES, rng.randrange(5))])
        wanted = NAMES if columns is None else columns
        missing = rng.choice([None, {}, "none"])
        found = store.get(key, missing, columns)
        if expected is None:
            assert found is missing
        else:
            assert list(found.items()) == [(name, expected[name]) for name in wanted]
        assert (key in store) == (expected is not None)
        if expected is not None:
            assert store[key] == {name: expected[name] for name in NAMES}
            continue
        with pytest.raises(KeyError, match="no key"):
            store[key]


@pytest.mark.parametrize("buckets", [1, 8])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_answers_are_those_of_a_dict_before_and_after_changes(
    tmp_path, buckets, compression, seed_of_the_day
):
    rng = random.Random(seed_of_the_day)
    rows = {key: random_row(rng, key) for key in (random_key(rng) for _ in range(500))}
    table = pa.Table.from_pylist(list(rows.values()), SCHEMA)
    options = {"buckets": buckets, "compression": compression, "block_size": 2000}
    store = build(table, tmp_path / "s", key=["region", "id"], **options)
    check(rng, store, rows)
    for _ in range(3):
        gone = rng.sample(list(rows), 20)
        for key in gone:
            del rows[key]
        changed = [random_row(rng, random_key(rng)) for _ in range(40)]
        changed = {(row["region"], row["id"]): row for row in changed}
        changed = {key: row for key, row in changed.items() if key not in gone}
        rows |= changed
        before = store
        changes = pa.Table.from_pylist(list(changed.values()), SCHEMA)
        store = before.upsert(changes, deletes=gone, max_run_share=9)
        before.close()
        check(rng, store, rows)
    assert store.info().runs
    store.close()


@pytest.fixture
def store(tmp_path):
    table = pa.table({"id": [1, 2], "name": ["one", None], "size": [0.5, 1.5]})
    with build(table, tmp_path / "s", key="id", buckets=3) as store:
        yield store


def test_columns_are_given_in_any_form(store):
    assert store.get(1, columns="size") == {"size": 0.5}
    assert store.get(1, columns=("size", "name")) == {"size": 0.5, "name": "one"}
    assert list(store.get(1, columns=["size", "name"])) == ["size", "name"]
    assert store.get(1, columns=(name for name in ["name"])) == {"name": "one"}
    assert store.get(1, columns={"size": 1}) == {"size": 0.5}
    assert store.get(1, columns=[]) == store.get(1, columns=()) == {}
    for _ in range(2):  # also when other columns are remembered
        for columns, error in (
            (["id"], KeyError), (["nothing"], KeyError), ("nothing", KeyError),
            (["size", "size"], ValueError),
            ([["size"]], TypeError), (7, TypeError), ([None], TypeError),
        ):  # fmt: skip
            with pytest.raises(error):
                store.get(1, columns=columns)
            with pytest.raises(error):
                store.get(9, columns=columns)
    for i in range(100):  # more than are remembered
        assert store.get(1, i, ["size", "name"][: i % 3]) is not i


def test_what_is_no_key_is_an_error_or_missing(store):
    for wrong in ("1", b"1", object(), (1, 2), {"name": 1}, True):
        with pytest.raises((TypeError, KeyError)):
            store.get(wrong)
        with pytest.raises((TypeError, KeyError)):
            wrong in store  # noqa: B015
    for missing in (None, 2**70, 1.5, float("nan"), -1):
        assert store.get(missing) is None
        assert missing not in store
    for same in (1, 1.0, (1,), [1], {"id": 1}, pa.scalar(1)):
        assert same in store
        assert store.get(same) == {"name": "one", "size": 0.5}


def test_a_row_is_the_callers_own(store):
    store.get(1)["name"] = "other"
    assert store.get(1) == {"name": "one", "size": 0.5}


def test_a_closed_store_refuses_single_keys(store):
    assert 1 in store
    store.close()
    for ask in (lambda: store.get(1), lambda: store.get(1, columns=["size"]), lambda: 1 in store):
        with pytest.raises(ClosedError, match="the store is closed"):
            ask()
    with pytest.raises(ClosedError):
        store[1]


def test_what_single_keys_read_is_counted(store):
    before = files_of(store).counts()
    assert 1 in store
    assert 2 in store
    assert store.get(1)
    after = files_of(store).counts()
    assert (after - before).block_uses == 3


@fork
def test_a_child_of_fork_asks_the_files_of_its_parent(store):
    assert store.get(1)["name"] == "one"
    assert in_child(lambda: store.get(2) == {"name": None, "size": 1.5} and 9 not in store)


def test_subclasses_have_what_single_keys_need(store, tmp_path):
    class Named(LookupStore):
        """A store with more of its own."""

        def __init__(self, path, name):
            super().__init__(path)
            self.name = name

    with Named(store.path, "mine") as named:
        assert named.name == "mine"
        assert named.get(1) == store.get(1)


@pytest.mark.parametrize("buckets", [1, 3])
def test_few_keys_have_the_answer_of_many(tmp_path, buckets, seed_of_the_day):
    rng = random.Random(seed_of_the_day)
    table = pa.table(
        {"id": range(500), "name": [f"é{i}" for i in range(500)], "even": [True] * 500}
    )
    with build(table, tmp_path / "s", key="id", buckets=buckets) as store:
        for size in (0, 1, 8, 64, 65, 200, 4096, 4097):
            ids = [rng.choice([None, rng.randrange(700)]) for _ in range(size)]
            for keys in (pa.array(ids, pa.int64()), pa.array(ids, pa.int16()), ids):
                for columns in (None, "name", ["even", "name"], ("name",), [], iter(["even"])):
                    found = store.lookup(keys, columns)
                    names = (
                        ["even"]
                        if not isinstance(columns, (str, list, tuple, type(None)))
                        else columns
                    )
                    marked = store.lookup(keys, names, found=True)
                    assert found.equals(marked.drop(["found"]))
                    found.validate(full=True)
        with pytest.raises(KeyError, match="no value column 'other'"):
            store.lookup([1], ["other"])
        with pytest.raises(TypeError):
            store.lookup(["x"])
    with pytest.raises(ClosedError):
        store.lookup([1])


def test_a_file_cut_while_few_keys_are_asked_is_no_answer(tmp_path):
    table = pa.table({"id": range(5000), "name": [f"{i}" for i in range(5000)]})
    with build(table, tmp_path / "s", key="id") as store:
        assert store.lookup([7, 4999])["name"].to_pylist() == ["7", "4999"]
        (path,) = (tmp_path / "s").glob("**/*.sst")
        os.truncate(path, path.stat().st_size - 1)
        with pytest.raises(CorruptionError):
            store.lookup([7, 4999])
        with pytest.raises(CorruptionError):
            store.get(7)


def test_a_store_that_is_closed_while_columns_are_named(tmp_path):
    """Naming them runs what others may run, too: the error is that of a closed store."""
    store = build(pa.table({"id": [1], "name": ["a"]}), tmp_path / "s", key="id")

    class Closing(list):
        def __iter__(self):
            store.close()
            return super().__iter__()

    with pytest.raises(ClosedError):
        store.get(1, columns=Closing(["name"]))
