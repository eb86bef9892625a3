"""What became of rows between two versions: against a full comparison of dicts, and replayed."""

from __future__ import annotations

import importlib
import math
import random
import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.changelog import Model, applied, check_changes
from support.object_store import writable_object_store
from support.random_columns import random_type, random_value
from support.remote import KINDS, Remote

import lookupstore
from lookupstore import (
    ClosedError,
    CorruptionError,
    Location,
    LookupStore,
    StaleStoreError,
    build,
    expire,
    publish,
    upsert,
)
from lookupstore.store.manifest import Manifest
from lookupstore.store.version_files import (
    VersionName,
    list_names,
    read_newest,
    read_version,
    read_versions,
)
from lookupstore.store.version_times import version_at

changelog = importlib.import_module("lookupstore.store.changelog")
steps = importlib.import_module("lookupstore.store.steps")

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("s", pa.string())])
#: So that nothing is compacted unless a test says so.
KEEP = {"max_runs": 64, "max_run_share": math.inf}
FOREVER = {"retain": "30d"}


def rows_of(store: LookupStore) -> Model:
    return {
        key: tuple(rest) for key, *rest in map(dict.values, store.scan().read_all().to_pylist())
    }


def table_of(model: Model, schema: pa.Schema = SCHEMA) -> pa.Table:
    rows = [(key, *row) for key, row in model.items()]
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def random_model(rng: random.Random, count: int, most: int) -> Model:
    return {
        rng.randrange(most): (
            rng.choice([None, rng.randrange(5)]),
            rng.choice(["", "x" * 40, None]),
        )
        for _ in range(count)
    }


class History:
    """A store with some versions, and what each of them has."""

    def __init__(self, place: Any, rng: random.Random, **options: Any) -> None:
        self.place, self.rng, self.options = place, rng, options
        self.models: dict[int, Model] = {}
        model = random_model(rng, rng.choice([0, 500]), 800)
        build(table_of(model), place, key="id", **options, **FOREVER).close()
        self.models[1] = model

    def step(self, verb: str) -> None:
        rng, version = self.rng, max(self.models)
        model = dict(self.models[version])
        with lookupstore.open(self.place) as store:
            if verb == "compact":
                new = store.compact(**FOREVER)
            elif verb == "build":
                model |= random_model(rng, 30, 800)
                new = build(table_of(model), self.place, key="id", overwrite=True, **self.options,
                            **FOREVER)  # fmt: skip
            else:
                changes = random_model(rng, rng.choice([0, 1, 60]), 900)
                changes[rng.randrange(900)] = (version, "always one")
                # Some rows are as they are, some are deleted, of these some that are not there.
                changes |= {
                    key: model[key] for key in rng.sample(sorted(model), min(9, len(model)))
                }
                gone = [key for key in rng.sample(range(900), 30) if key not in changes]
                limits = {"max_runs": 0} if verb == "upsert and compact" else KEEP
                new = store.upsert(table_of(changes), deletes=gone, **limits, **FOREVER)
                model |= changes
                for key in gone:
                    model.pop(key, None)
            with new:
                if new.version > version:
                    self.models[new.version] = model

    def check(self) -> None:
        """Compare the changes between any two versions that there are, in both directions."""
        known = [one.number for one in lookupstore.versions(self.place)]
        assert len(known) > 1
        for until in known:
            with lookupstore.open(self.place, version=until) as store:
                check_changes(store.changes(), {}, self.models[until])
                for since in known:
                    if since <= until:
                        changes = store.changes(since)
                        check_changes(changes, self.models[since], self.models[until])
        with lookupstore.open(self.place) as store:
            since, until = sorted(self.rng.sample(known, 2))
            check_changes(store.changes(since, until), self.models[since], self.models[until])


VERBS = ("upsert", "upsert", "upsert", "upsert and compact", "compact")


@pytest.mark.few(1)
@pytest.mark.parametrize("buckets", [1, 4])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_changes_are_those_of_a_full_comparison(tmp_path, seed, buckets, compression):
    rng = random.Random(seed)
    history = History(tmp_path / "s", rng, buckets=buckets, compression=compression, block_size=500)
    while len(history.models) < 7:
        history.step(rng.choice(VERBS))
    history.check()
    for _ in range(3):
        history.step(rng.choice([*VERBS, "build"]))
    history.step("upsert")
    history.step("upsert")
    history.check()
    expire(tmp_path / "s", retain=0, keep=2)
    history.check()


@pytest.mark.parametrize("kind", KINDS)
def test_changes_of_a_remote_store(tmp_path, monkeypatch, seed, kind):
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "copies"))
    rng = random.Random(seed)
    remote = Remote(tmp_path, kind)
    history = History(remote.location(), rng, buckets=rng.choice([1, 3]), block_size=500)
    for verb in ("upsert", "upsert and compact", "compact", "upsert"):
        history.step(verb)
    history.check()


def test_changes_of_a_store_at_a_uri(tmp_path, monkeypatch, seed):
    """At a server of S3's protocol, and published from there to a folder."""
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "copies"))
    with writable_object_store() as server:
        uri = server.uri("store")
        history = History(uri, random.Random(seed), buckets=3, block_size=500)
        for verb in ("upsert", "upsert and compact", "upsert"):
            history.step(verb)
        with lookupstore.open(uri) as store:
            last = store.version
            for since in (1, last - 1):
                check_changes(store.changes(since), history.models[since], history.models[last])
            for number in (1, last):
                with lookupstore.open(uri, version=number) as one:
                    publish(one, tmp_path / "here", overwrite=True, allow_empty=True).close()
        with lookupstore.open(tmp_path / "here") as copy:
            check_changes(copy.changes(1), history.models[1], history.models[last])


def test_changes_of_a_published_store(tmp_path, seed):
    """Each version with its runs, one in three left out, and the same run twice."""
    rng = random.Random(seed)
    history = History(tmp_path / "s", rng, buckets=2, block_size=500)
    for verb in ("upsert", "upsert and compact", "upsert", "compact", "upsert"):
        history.step(verb)
    for n in (1, 2, 1):
        model = {7: (n, "again"), 8: (n, "again")}
        upsert(tmp_path / "s", table_of(model), **KEEP, **FOREVER).close()
        version = max(history.models)
        history.models[version + 1] = history.models[version] | model
    there = tmp_path / "there"
    models = {}
    for number in history.models:
        if number % 3 != 2:
            with (
                lookupstore.open(tmp_path / "s", version=number) as store,
                publish(store, there, overwrite=True, allow_empty=True, **FOREVER) as copy,
            ):
                models[copy.version] = history.models[number]
    history.place, history.models = there, models
    history.check()


def test_steps_are_looked_up_and_never_all_of_the_base(tmp_path, monkeypatch):
    """Of a store with many blocks only those are read that have a changed key."""
    stored = importlib.import_module("lookupstore.sst.stored").StoredFile
    read: list[str] = []
    real = stored.data_block

    def data_block(self: Any, *args: Any) -> Any:
        read.append(Path(self.path).name)
        return real(self, *args)

    rows = pa.table({"id": range(20000), "v": [1] * 20000})
    options = {"buckets": 2, "block_size": 500}
    store = build(rows, tmp_path / "s", key="id", **options, **FOREVER)
    for number, limits in enumerate((KEEP, {"max_runs": 0}, KEEP, KEEP), 1):
        changes = pa.table({"id": [5, 9000, 19000, 30000], "v": [number * 10] * 4})
        store = store.upsert(changes, deletes=[number], **limits, **FOREVER)
    store = store.compact(**FOREVER)
    store.close()
    monkeypatch.setattr(stored, "data_block", data_block)
    with lookupstore.open(tmp_path / "s") as store:
        assert len(read) < 20  # footers
        for since, expected in ((1, 3 * 2 + 5), (2, 4 * 2 + 3), (5, 0)):
            read.clear()
            assert store.changes(since).read_all().num_rows == expected
            assert len(read) < 100
        # Without what came in between, each bucket with other files is read once.
        expire(store, retain=0, keep=2)
        upsert(store, pa.table({"id": [5], "v": [5]}), **KEEP, **FOREVER).close()
        with lookupstore.open(tmp_path / "s") as newer:
            read.clear()
            assert newer.changes(6).read_all().num_rows == 2
            assert len(read) < 20


def test_buckets_with_the_same_files_are_not_read(tmp_path, monkeypatch):
    rows = {key: (key, "x") for key in range(500)}
    build(table_of(rows), tmp_path / "s", key="id", buckets=8, **FOREVER).close()
    rows[7] = (0, "y")
    build(table_of(rows), tmp_path / "s", key="id", buckets=8, overwrite=True, **FOREVER).close()
    reads = importlib.import_module("lookupstore.store.buckets").BucketReads
    asked: list[int] = []
    real = reads.sorted_rows

    def sorted_rows(self: Any, bucket: int, newest: Any = None) -> Any:
        asked.append(bucket)
        return real(self, bucket, newest)

    monkeypatch.setattr(reads, "sorted_rows", sorted_rows)
    with lookupstore.open(tmp_path / "s") as store:
        told = store.changes(1).read_all()
    assert [list(row.values()) for row in told.to_pylist()] == [
        ["update_before", 7, 7, "x"],
        ["update_after", 7, 0, "y"],
    ]
    assert len(asked) == 2
    assert len(set(asked)) == 1


def test_another_number_of_buckets(tmp_path, seed):
    rng = random.Random(seed)
    history = History(tmp_path / "s", rng, buckets=3)
    history.step("upsert")
    history.options["buckets"] = 5
    history.step("build")
    history.step("upsert")
    history.check()


# --- columns


def test_rows_come_in_key_order_of_their_bucket_with_the_wanted_columns(tmp_path):
    with build(
        table_of({1: (1, "a"), 2: (2, "b"), 3: (3, "c")}), tmp_path / "s", key="id"
    ) as store:
        newer = store.upsert(table_of({0: (0, "z"), 2: (2, "B"), 3: (3, "c")}), deletes=[1])
    changes = newer.changes(1, columns=["s"])
    kind = pa.dictionary(pa.int8(), pa.string())
    assert changes.schema == pa.schema(
        [
            pa.field("change", kind, nullable=False),
            newer.key_schema.schema.field(0),
            SCHEMA.field(2),
        ]
    )
    assert changes.read_all().to_pylist() == [
        {"change": "insert", "id": 0, "s": "z"},
        {"change": "delete", "id": 1, "s": "a"},
        {"change": "update_before", "id": 2, "s": "b"},
        {"change": "update_after", "id": 2, "s": "B"},
    ]
    # Whether a row changed does not depend on the columns that are shown.
    assert newer.changes(1, columns=["n"]).read_all()["id"].to_pylist() == [0, 1, 2, 2]
    assert newer.changes(1, columns=[]).read_all().column_names == ["change", "id"]
    assert newer.changes(1, ignore=["s"]).read_all()["id"].to_pylist() == [0, 1]
    assert newer.changes(1, ignore=["n"]).read_all()["id"].to_pylist() == [0, 1, 2, 2]
    assert newer.changes(1, ignore=["n", "s"]).read_all()["id"].to_pylist() == [0, 1]
    assert newer.changes(2).read_all().num_rows == 0
    assert newer.changes(1, 1).read_all().num_rows == 0
    assert newer.changes(None, 1).read_all()["change"].to_pylist() == ["insert"] * 3


@pytest.mark.few(8)
@pytest.mark.parametrize("number", range(20))
def test_changes_of_columns_of_any_type(tmp_path, seed, number):
    """Also of those whose rows Arrow does not move: views of text, as polars has, in any depth."""
    rng = random.Random(seed + number)
    kinds = {"text": pa.string_view(), "any": random_type(rng, 2), "more": random_type(rng, 3)}
    schema = pa.schema([("id", pa.int64()), *kinds.items()])

    def random_rows(count: int) -> Model:
        ids = rng.sample(range(60), count)
        return {key: tuple(random_value(kind, rng) for kind in kinds.values()) for key in ids}

    model = random_rows(40)
    store = build(table_of(model, schema), tmp_path / "s", key="id", buckets=2, **FOREVER)
    for rule in ("replace", "partial", "first"):
        before, version = model, store.version
        new = random_rows(30)
        deletes = [key for key in rng.sample(range(60), 10) if key not in new]
        with store:
            store = store.upsert(table_of(new, schema), deletes=deletes, rule=rule, **KEEP)
        model = {key: row for key, row in before.items() if key not in deletes}
        for key, row in new.items():
            old = before.get(key, row)
            partial = tuple(o if n is None else n for o, n in zip(old, row, strict=True))
            model[key] = {"replace": row, "first": old, "partial": partial}[rule]
        check_changes(store.changes(version), before, model)
    with store, store.compact() as compacted:
        check_changes(
            compacted.changes(1), rows_of(lookupstore.open(tmp_path / "s", version=1)), model
        )


def test_values_that_are_equal_in_other_bytes_do_not_change(tmp_path):
    """NaNs with other bits, and zeros of both signs: by runs, and by a full comparison."""
    strange = float.fromhex("0x0p0")
    kinds = {"f": pa.float64(), "l": pa.list_(pa.float32()), "h": pa.float16()}
    schema = pa.schema([("id", pa.int64()), *kinds.items()])

    def table(rows: list[tuple[Any, ...]]) -> pa.Table:
        columns = list(zip(*rows, strict=True))
        return pa.table(
            [pa.array(one, kind) for one, kind in zip(columns, schema.types, strict=True)],
            schema=schema,
        )

    nan = math.nan
    old = [(1, 0.0, [0.0, nan], 0.0), (2, nan, None, nan), (3, 0.0, [0.0], 1.0), (4, None, [], 0.0)]
    new = [(1, -0.0, [-0.0, -nan], -strange), (2, -nan, None, -nan), (3, 0.0, [0.0, 0.0], 1.0),
           (4, nan, [], 0.0)]  # fmt: skip
    for verb in ("upsert", "build"):
        place = tmp_path / verb
        with build(table(old), place, key="id", **FOREVER) as store:
            newer = (
                store.upsert(table(new), **KEEP)
                if verb == "upsert"
                else build(table(new), place, key="id", overwrite=True, **FOREVER)
            )
        assert newer.changes(1).read_all()["id"].to_pylist() == [3, 3, 4, 4]


def test_keys_of_several_fields_and_no_values(tmp_path):
    stored = pa.table({"a": ["x", None, "y"], "b": [1, 2, 3]})
    with build(stored, tmp_path / "s", key=["a", "b"], nullable_keys=["a"], buckets=3) as store:
        newer = store.upsert(
            pa.table({"a": pa.array([None, "x"]), "b": [9, 1]}), deletes=[("y", 3)], **KEEP
        )
        assert applied({("x", 1): (), (None, 2): (), ("y", 3): ()}, newer.changes(1), keys=2) == {
            ("x", 1): (), (None, 2): (), (None, 9): ()
        }  # fmt: skip
        assert newer.changes(1).read_all().num_rows == 2
        assert newer.changes().read_all().num_rows == 3


def test_rows_of_a_megabyte_come_a_few_at_a_time(tmp_path):
    def rows(value: str) -> pa.Table:
        return pa.table({"id": range(40), "v": [value * (1 << 20)] * 40})

    with build(rows("a"), tmp_path / "s", key="id") as store:
        newer = store.upsert(rows("b"), **KEEP)
        batches = list(newer.changes(1))
    assert sum(batch.num_rows for batch in batches) == 80
    assert max(batch.nbytes for batch in batches) < 24 << 20


# --- versions and times


@pytest.fixture
def three(tmp_path) -> LookupStore:
    """A store with versions 1, 2 and 3, each of which has one row more."""
    store = build(table_of({1: (1, "a")}), tmp_path / "s", key="id", **FOREVER)
    for number in (2, 3):
        with store:
            store = store.upsert(table_of({number: (number, "a")}), **KEEP, **FOREVER)
    return store


def test_versions_by_time(three, monkeypatch):
    version_times = importlib.import_module("lookupstore.store.version_times")
    first = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
    real = version_times.read_version

    def dated(location: Any, name: Any) -> Any:
        manifest = real(location, name)
        created = first + timedelta(days=name.number - 1)
        return replace(manifest, created=version_times.time_text(created))

    monkeypatch.setattr(version_times, "read_version", dated)

    def ids(since: Any, until: Any = None) -> list[int]:
        return list(three.changes(since, until).read_all()["id"].to_pylist())

    day = timedelta(days=1)
    assert ids(first) == [2, 3]
    assert ids(None) == [1, 2, 3]
    with pytest.raises(
        FileNotFoundError, match=r"before version 1 \(2026-03-01T12:00:00.000.*leave since out"
    ):
        three.changes(first - day)
    assert ids(first + day / 2) == [2, 3]
    assert ids(first + day) == [3]
    assert ids(first + 9 * day) == []
    assert ids(first, first + day) == [2]
    assert ids(1, "2026-03-02T12:00:00Z") == [2]
    assert ids("2026-03-02T12:00:00") == [3]
    assert ids("2026-03-02") == [2, 3]
    assert ids("2026-03-02T13:30+02:00") == [2, 3]
    assert ids("2026-03-02T13:30+01:00") == [3]
    with pytest.raises(FileNotFoundError, match="no version is as old"):
        three.changes(None, "2020-01-01")
    with pytest.raises(ValueError, match=r"until is '2026-03-01T12:00Z', before since, 3"):
        three.changes(3, "2026-03-01T12:00Z")
    expire(three, retain=0, keep=2)
    with pytest.raises(FileNotFoundError, match="the oldest that is left is 2"):
        three.changes(first)
    assert ids(first + day) == [3]


@pytest.mark.parametrize(
    ("since", "until", "options", "error", "said"),
    [
        (3, 2, {}, ValueError, "until is 2, before since, 3; give them the other way round"),
        (9, None, {}, FileNotFoundError, "no version 9; the store has 1, 2, 3"),
        (0, None, {}, FileNotFoundError, "no version 0"),
        (1, 9, {}, FileNotFoundError, "no version 9"),
        ("soon", None, {}, ValueError, "since is 'soon'; give the number of a version, or a time"),
        (1, "soon", {}, ValueError, "until is 'soon'"),
        ("1", None, {}, ValueError, "since is '1'; give 1 as an integer, not as a text, in Spark"),
        ("9999-01-01Z", None, {}, ValueError, "since is 9999-01-01T00:00:00.000.00:00, after now"),
        ("9999-01-01+05:00", None, {}, ValueError, "since is 9999-01-01T00:00:00.000.05:00, after"),
        ("9999-01-01", None, {}, ValueError, "since is 9999-01-01T.* after now .*leave since out"),
        (1.5, None, {}, TypeError, r"since is 1.5; give the number of a version, a datetime"),
        (True, None, {}, TypeError, "since is True"),
        (datetime(2026, 1, 1), None, {}, ValueError, "without a zone"),
        (1, None, {"columns": ["x"]}, KeyError, "no value column 'x'"),
        (1, None, {"ignore": ["id"]}, KeyError, "no value column 'id'"),
    ],
)
def test_arguments_that_are_refused(three, since, until, options, error, said):
    with pytest.raises(error, match=said):
        three.changes(since, until, **options)


def test_what_changes_cannot_be_told_of(tmp_path, three):
    with lookupstore.open(three.path, version=2) as pinned:
        with pytest.raises(ValueError, match="until is the open version, 2, before since, 3"):
            pinned.changes(3)
        assert pinned.changes(1).read_all()["id"].to_pylist() == [2]
        assert pinned.changes(1, 3).read_all()["id"].to_pylist() == [2, 3]
    other = pa.table({"id": [1], "n": ["x"]})
    with (
        build(other, three.path, key="id", overwrite=True, **FOREVER) as built,
        pytest.raises(
            ValueError,
            match=r"versions 3 and 4 differ: the value column 's' \(string\) is gone; ask",
        ),
    ):
        built.changes(3)
    said = pa.table({"id": [1], "change": ["x"]})
    with build(said, tmp_path / "c", key="id") as store:
        with pytest.raises(ValueError, match="has a column 'change', as the result has"):
            store.changes()
        assert store.changes(columns=[]).read_all().num_rows == 1


def test_a_store_that_is_closed_tells_no_more(three):
    changes = three.changes()
    three.close()
    with pytest.raises(ClosedError):
        changes.read_all()
    with pytest.raises(ClosedError):
        three.changes()


def test_versions_that_go_while_changes_are_read(tmp_path, seed):
    """A local store has them open, as lookups have."""
    rng = random.Random(seed)
    history = History(tmp_path / "s", rng, buckets=3, block_size=500)
    for verb in ("upsert", "upsert and compact", "upsert"):
        history.step(verb)
    with lookupstore.open(tmp_path / "s") as store:
        last = store.version
        changes = store.changes(1)
        direct = store.changes(last - 1)
        upsert(store, table_of({5: (5, "5")}), **KEEP, retain=0).close()
        compacted = store.compact(retain=0)
        expire(compacted, retain=0)
        # What came in between is gone, so that all rows are compared.
        check_changes(changes, history.models[1], history.models[last])
        check_changes(direct, history.models[last - 1], history.models[last])
        compacted.close()


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_a_version_between_that_goes_while_its_run_is_wanted(tmp_path, monkeypatch, kind):
    """Its run is gone with it: the version is missing then, and not damaged."""
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "copies"))
    place = Location(tmp_path / "s") if kind is None else Remote(tmp_path, kind).location()
    build(table_of({key: (key, "x") for key in range(50)}), place, key="id", **FOREVER).close()
    for key in (1, 2):
        upsert(place, table_of({key: (0, "b")}), max_runs=0, **FOREVER).close()
    between = list_names(place)[1]
    (run,) = read_version(place, between).applied
    read = []

    def read_and_removed(location: Location, name: VersionName) -> Manifest:
        manifest = read_version(location, name)
        read.append(name)
        if name == between:
            for file in (name.file, run.file.name):
                location.delete(file)
        return manifest

    with lookupstore.open(place) as store:
        monkeypatch.setattr(steps, "read_version", read_and_removed)
        with pytest.raises(StaleStoreError, match="version 2"):
            store.changes(1).read_all()
    assert between in read


def test_a_damaged_run_is_an_error(tmp_path):
    rows = {key: (key, "x" * 30) for key in range(300)}
    store = build(table_of(rows), tmp_path / "s", key="id", block_size=300, **FOREVER)
    store = store.upsert(table_of({key: (0, "y") for key in range(0, 300, 3)}), max_runs=0,
                         **FOREVER)  # fmt: skip
    run = read_newest(store.location).applied[0]
    path = Path(store.path, run.file.name)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 3] ^= 4
    path.unlink()
    path.write_bytes(damaged)
    with pytest.raises(CorruptionError, match=path.name):
        store.changes(1).read_all()
    path.unlink()
    with pytest.raises(CorruptionError, match=r"(?s)no file"):
        store.changes(1).read_all()


def test_the_manifests_between_are_those_of_the_chain(tmp_path):
    """A version that was made from another one than the one before it is compared."""
    rows = {key: (key, "x") for key in range(50)}
    build(table_of(rows), tmp_path / "s", key="id", **FOREVER).close()
    upsert(tmp_path / "s", table_of({1: (0, "b")}), max_runs=0, **FOREVER).close()
    other = tmp_path / "other"
    with lookupstore.open(tmp_path / "s", version=1) as first:
        publish(first, other).close()
    upsert(other, table_of({2: (0, "c")}), max_runs=0).close()
    publish(other, tmp_path / "s", overwrite=True, **FOREVER).close()
    assert [one.parent is None for one in read_versions(Location(tmp_path / "s"))] == [
        True, False, False,
    ]  # fmt: skip
    with lookupstore.open(tmp_path / "s") as store:
        assert store.changes(1).read_all()["id"].to_pylist() == [2, 2]
        assert store.changes(2).read_all()["id"].to_pylist() == [1, 1, 2, 2]


def test_a_time_without_a_zone_is_refused_with_one_that_is_read(tmp_path: Path) -> None:
    """Spark passes times as text, and no zone with them."""
    store = lookupstore.build({"id": [1]}, tmp_path / "s", key="id")
    for given, example in (
        ("2020-01-01", "2020-01-01T00:00+01:00"),
        ("2020-01-01 07:30", "2020-01-01 07:30+01:00"),
    ):
        with pytest.raises(ValueError, match=f"such as {re.escape(example)}, or Z for UTC"):
            version_at(store.location, given, "timestampAsOf", zone=None)
        assert version_at(store.location, example, "timestampAsOf", zone=None) is None
    for whole in ("2020-01-01+01:00", "2020-01-01Z"):
        assert version_at(store.location, whole, "timestampAsOf", zone=None) is None
