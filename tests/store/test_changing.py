"""Stores that change by what changed: rules, runs, lookups through them, compaction, writers.

The oracle is a dict, folded in Python a row after the other, and for compaction a fresh build.
"""

from __future__ import annotations

import datetime
import decimal
import importlib
import json
import math
import multiprocessing
import os
import random
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.changelog import applied, check_changes
from support.in_processes import add_often
from support.remote import KINDS, FaultyDisk, Killed, Remote
from support.samples import amount, some_of

import lookupstore
from lookupstore import (
    CommitConflictError,
    CorruptionError,
    FormatError,
    Location,
    LookupStore,
    build,
    expire,
    publish,
    upsert,
)
from lookupstore.keys._codec import bucket_of
from lookupstore.keys.schema import KeySchema
from lookupstore.source.opening import open_source
from lookupstore.store.kinds import rows_or_null, split_kinds, with_kinds
from lookupstore.store.manifest import fields_hash, manifest_bytes
from lookupstore.store.marks import MARK_AGE, mark_name
from lookupstore.store.version_files import list_names, read_newest

pytestmark = pytest.mark.drawn(0.5)

changing = importlib.import_module("lookupstore.store.changing")
version_files = importlib.import_module("lookupstore.store.version_files")
publish_step = importlib.import_module("lookupstore.store.publish_step")
os_modules = [
    importlib.import_module(f"lookupstore.{name}")
    for name in ("storage.local", "storage.naming", "store.new_version", "store.changed_bucket")
]

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("s", pa.string()), ("at", pa.int32())])
RULES = ("replace", "first", "partial", "sum", "min", "max")
#: So that nothing is compacted unless a test says so.
KEEP = {"max_runs": 64, "max_run_share": math.inf}

Row = tuple[Any, ...]
Model = dict[int, Row]


@pytest.fixture(autouse=True)
def own_copies(tmp_path, monkeypatch):
    """Keep a test from finding the local copies of another one, which has the same content."""
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "copies-of-this-test"))


# --- the oracle


def folded(rule_of: str, values: list[Any]) -> Any:
    """Return what a rule makes of the values of one key, the oldest first."""
    known = [value for value in values if value is not None]
    if rule_of in ("replace", "first"):
        return values[-1 if rule_of == "replace" else 0]
    if not known:
        return None
    if rule_of == "partial":
        return known[-1]
    return {"sum": sum, "min": min, "max": max}[rule_of](known)


def apply(
    model: Model,
    rows: list[Row],
    deletes: list[int],
    rules: Any,
    sequence: int | None,
    names: list[str],
) -> None:
    """Change a model as an upsert changes a store: rows are (key, value, ...)."""
    groups: dict[int, list[Row]] = {}
    for key, *values in rows:
        groups.setdefault(key, []).append(tuple(values))
    for key, changes in groups.items():
        history = ([model[key]] if key in model else []) + changes
        if sequence is not None:
            history.sort(
                key=lambda row: (row[sequence] is not None, row[sequence] or 0)
            )  # stable: of equal ones the later is newer
        new = []
        for i, name in enumerate(names):
            one = rules if isinstance(rules, str) else rules.get(name, "replace")
            if i == sequence:
                whole_first = all(
                    (rules if isinstance(rules, str) else rules.get(each, "replace")) == "first"
                    for j, each in enumerate(names)
                    if j != sequence
                )
                one = "first" if whole_first and len(names) > 1 else "replace"
            new.append(folded(one, [row[i] for row in history]))
        model[key] = tuple(new)
    for key in deletes:
        model.pop(key, None)


def table(rows: list[Row], schema: pa.Schema = SCHEMA) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [[] for _ in schema]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def table_of(model: Model, schema: pa.Schema = SCHEMA) -> pa.Table:
    return table([(key, *model[key]) for key in model], schema)


def check(store: LookupStore, model: Model, asked: list[int]) -> None:
    """Ask a store in every way, and compare with a dict."""
    names = store.value_schema.names
    assert len(store) == len(model)
    found = store.lookup(asked, found=True).to_pylist()
    for key, row in zip(asked, found, strict=True):
        assert row["found"] == (key in model), key
        assert tuple(row[name] for name in names) == model.get(key, (None,) * len(names)), key
    assert store.contains(asked).to_pylist() == [key in model for key in asked]
    scanned = [tuple(row.values()) for row in store.scan().read_all().to_pylist()]
    assert scanned == [(key, *model[key]) for key in sorted(model)]
    for key in asked[:20]:
        row = store.get(key)
        assert (None if row is None else tuple(row.values())) == model.get(key)
        assert (key in store) == (key in model)
    low, high = sorted(asked[:2]) if len(asked) > 1 else (0, 0)
    backwards = store.scan(start=low, stop=high, reverse=True, columns=names[:1]).read_all()
    inside = [key for key in sorted(model, reverse=True) if low <= key < high]
    assert backwards["id"].to_pylist() == inside


def bucket_of_key(key: int, buckets: int = 2) -> int:
    encoded = KeySchema(pa.schema([SCHEMA.field("id")])).encode([pa.array([key])])
    return int(bucket_of(encoded, buckets)[0])


def data_of(place: Any) -> dict[int, tuple[str, int]]:
    """Return what the base of each bucket is, by hash and size."""
    manifest = read_newest(Location(place) if isinstance(place, (str, Path)) else place)
    assert not manifest.runs
    return {file.bucket: (file.xxh64, file.bytes) for file in manifest.files}


# --- a machine of upserts, deletes, compactions, expiry, publishing, reopening and kills


#: Two of the versions that there are. A draw must not depend on how many: that follows from when a
#: process died, and the garbage collector may close a file more before it does.
PAIRS = st.tuples(st.integers(0, 59), st.integers(0, 59))


class Changes(RuleBasedStateMachine):
    """A store and a dict that are changed alike; of each version there is a dict."""

    keys = st.integers(0, 60)
    numbers = st.one_of(st.none(), st.integers(-5, 5))

    @initialize(
        buckets=st.sampled_from([1, 3]),
        rows=st.dictionaries(keys, st.tuples(numbers, st.sampled_from(["a", None]), numbers)),
        compression=st.sampled_from(["none", "zstd"]),
        block_size=st.sampled_from([64, 4096]),
    )
    def start(self, buckets: int, rows: dict[int, Row], compression: str, block_size: int) -> None:
        self.folder = tempfile.mkdtemp()
        self.model = dict(rows)
        self.options = {"key": "id", "buckets": buckets, "compression": compression,
                        "block_size": block_size}  # fmt: skip
        self.store = build(table_of(self.model), f"{self.folder}/s", **self.options)
        self.models = {1: self.model}
        self.published: dict[int, Model] = {}

    def changed(self, model: Model) -> None:
        """Take the version that is open now as one with these rows."""
        self.model = model
        self.models[self.store.version] = model
        if not self.store.info().runs:
            self.check_files()

    def check_files(self) -> None:
        """Compare the files of a compacted version with those of a fresh build."""
        other = tempfile.mkdtemp(dir=self.folder)
        with build(table_of(self.model), other, **self.options) as fresh:
            assert data_of(fresh.location) == data_of(self.store.location)

    @rule(
        rows=st.lists(st.tuples(keys, numbers, st.sampled_from(["b", "", None]), numbers)),
        deletes=st.lists(keys, max_size=8),
        rules=st.one_of(
            st.sampled_from(["replace", "first", "partial"]),
            st.fixed_dictionaries(
                {}, optional={"n": st.sampled_from(RULES), "s": st.sampled_from(["partial", "max"])}
            ),
        ),
        sequence=st.sampled_from([None, None, "at"]),
        limits=st.sampled_from([KEEP, KEEP, {"max_runs": 2}, {"max_runs": 0}]),
    )
    def upsert(
        self, rows: list[Row], deletes: list[int], rules: Any, sequence: Any, limits: Any
    ) -> None:
        taken = {row[0] for row in rows}
        deletes = [key for key in deletes if key not in taken]
        names = ["n", "s", "at"]
        before = self.store
        self.store = before.upsert(
            table(rows), deletes=deletes, rule=rules, sequence=sequence, **limits
        )
        assert before.version <= self.store.version <= before.version + 1
        before.close()
        model = dict(self.model)
        apply(model, rows, deletes, rules, 2 if sequence else None, names)
        self.changed(model)

    @rule(
        rows=st.lists(st.tuples(keys, numbers, st.just("c"), numbers), min_size=1),
        deletes=st.lists(keys, max_size=4),
        limits=st.sampled_from([KEEP, {"max_runs": 0}]),
        at=st.integers(0, 24),
        kill=st.booleans(),
    )
    def fail(self, rows: list[Row], deletes: list[int], limits: Any, at: int, kill: bool) -> None:
        """Fail, or die, at one of the operations on files: old or new, and never half."""
        taken = {row[0] for row in rows}
        deletes = [key for key in deletes if key not in taken]
        disk = FaultyDisk(at, kill=kill)
        with pytest.MonkeyPatch.context() as patch:
            for module in os_modules:
                patch.setattr(module, "os", disk)
            raised = outcome(
                lambda: upsert(
                    f"{self.folder}/s", table(rows), deletes=deletes, rule="partial", **limits
                ).close()
            )
        assert isinstance(raised, (Killed, OSError, lookupstore.LookupStoreError, type(None)))
        before = self.store.version
        self.reopen()
        assert raised is not None or self.store.version == before + 1
        if self.store.version > before:
            model = dict(self.model)
            apply(model, rows, deletes, "partial", None, ["n", "s", "at"])
            self.changed(model)

    @rule()
    def compact(self) -> None:
        before = self.store
        self.store = before.compact()
        before.close()
        assert self.store.info().runs == 0
        self.changed(self.model)

    @rule(retain=st.sampled_from([0, 3600]))
    def expire(self, retain: int) -> None:
        expire(self.store, retain=retain)
        known = {one.number for one in lookupstore.versions(self.store)}
        assert known <= set(self.models)
        self.models = {number: self.models[number] for number in known}

    @rule(between=PAIRS)
    def changes(self, between: tuple[int, int]) -> None:
        self.check_replay(self.store, self.models, between)

    def check_replay(
        self, store: LookupStore, models: dict[int, Model], between: tuple[int, int]
    ) -> None:
        """Compare the changelog between two versions with theirs, and replay it."""
        known = [0, *models]
        first, last = sorted(known[place % len(known)] for place in between)
        if last:
            changes = store.changes(first or None, last)
            check_changes(changes, models.get(first, {}), models[last])

    @rule(between=PAIRS)
    def publish(self, between: tuple[int, int]) -> None:
        with publish(self.store, f"{self.folder}/there", overwrite=True, allow_empty=True) as copy:
            check(copy, self.model, list(range(0, 60, 7)))
            self.published[copy.version] = self.model
            self.check_replay(copy, self.published, between)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = lookupstore.open(f"{self.folder}/s")

    @rule()
    def verify(self) -> None:
        assert self.store.verify().num_rows == len(self.model)

    @invariant()
    def is_equal(self) -> None:
        check(self.store, self.model, list(range(-3, 63)))

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)


# What is done in the background dies with its process, which is none here.
TestChanges = pytest.mark.filterwarnings(
    "ignore:(?s).*support.remote.Killed:pytest.PytestUnhandledThreadExceptionWarning"
)(Changes.TestCase)
# A tenth of a second each.
TestChanges.settings = settings(max_examples=amount(15, 600), stateful_step_count=15, deadline=None)


# --- larger ones, with every kind of value


def random_rows(rng: random.Random, count: int, most: int) -> list[Row]:
    return [
        (
            rng.randrange(most),
            rng.choice([None, rng.randrange(-(2**40), 2**40)]),
            rng.choice([None, "x" * rng.randrange(40), "é"]),
            rng.choice([None, rng.randrange(100)]),
        )
        for _ in range(count)
    ]


def test_rows_without_order_have_one_result_or_are_refused(tmp_path, seed):
    """Where they are read, any order of them gives the same rows."""
    rng = random.Random(seed)
    read = refused = 0
    with build(table([]), tmp_path / "s", key="id", allow_empty=True) as store:
        for number in range(amount(24, 1000)):
            rows = random_rows(rng, rng.choice([2, 3, 8]), rng.choice([2, 20]))
            rows += rng.sample(rows, rng.choice([0, 1]))  # a row may come twice
            rows = [(1000 * number + key, n, s, at and at % 5) for key, n, s, at in rows]
            rules = rng.choice(["replace", "first", "partial", "max", {"n": "sum", "s": "min"}])
            sequence = rng.choice([None, "at"])
            results = []
            for _ in range(6):
                model: Model = {}
                order = rng.sample(rows, len(rows))
                apply(model, order, [], rules, sequence and 2, ["n", "s", "at"])
                results.append(model)
            source = replace(open_source(table(rows)), in_order=False)
            try:
                store.upsert(source, rule=rules, sequence=sequence, max_runs=64).close()
            except ValueError as error:
                refused += 1
                found = re.search(r"the key id=(\d+) has rows .* have no order; ", str(error))
                assert found
                assert len({row for row in rows if row[0] == int(found[1])}) > 1
            else:
                read += 1
                with store.newest() as newer:
                    names = newer.value_schema.names
                    for key in results[0]:
                        for model in results:
                            assert newer[key] == dict(zip(names, model[key], strict=True)), rules
    assert read > 0
    assert refused > 0


def test_events_without_order_are_refused(tmp_path):
    """Those of different keys, or the same one twice, need none."""
    events = table([(1, 1, "a", 1), (2, 2, "b", 2), (1, 1, "a", 1)])
    events = events.append_column("change", pa.array(["insert", "delete", "insert"]))
    with build(table([(2, 0, "", 0)]), tmp_path / "s", key="id") as store:
        with store.upsert(replace(open_source(events), in_order=False)) as newer:
            assert list(newer) == [1]
        for more in ({"change": ["delete"]}, {"n": [7]}):
            row = {"id": [1], "n": [1], "s": ["a"], "at": pa.array([1], pa.int32())}
            other = pa.table({**row, "change": ["insert"], **more})
            both = pa.concat_tables([events, other])
            with pytest.raises(
                ValueError, match=r"id=1 has changes that differ.*sort the changelog"
            ):
                store.upsert(replace(open_source(both), in_order=False))


@pytest.mark.few(2)
@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("buckets", [1, 7])
def test_many_upserts_are_one_store(tmp_path, seed, buckets, compression):
    rng = random.Random(seed)
    names = SCHEMA.names[1:]
    model: Model = {row[0]: row[1:] for row in random_rows(rng, 3000, 5000)}
    options = {"key": "id", "buckets": buckets, "compression": compression, "block_size": 1000}
    store = build(table_of(model), tmp_path / "s", **options)
    for _ in range(6):
        rows = random_rows(rng, rng.choice([1, 300, 2000]), 6000)
        taken = {row[0] for row in rows}
        deletes = [key for key in rng.sample(range(6000), 200) if key not in taken]
        rules = rng.choice([*RULES[:3], {"n": rng.choice(RULES), "s": rng.choice(RULES[:3])}])
        sequence = rng.choice([None, "at"])
        before, store = (
            store,
            store.upsert(
                table(rows), deletes=deletes, rule=rules, sequence=sequence, memory=1 << 16, **KEEP
            ),
        )
        before.close()
        apply(model, rows, deletes, rules, 2 if sequence else None, names)
        check(store, model, rng.sample(range(-10, 6100), 3000))
    assert store.info().runs > buckets
    assert store.verify().num_rows == len(model)
    compacted = store.compact(threads=2)
    check(compacted, model, rng.sample(range(-10, 6100), 3000))
    build(table_of(model), tmp_path / "fresh", **options).close()
    assert data_of(tmp_path / "s") == data_of(tmp_path / "fresh")
    # A build over it has nothing to write again.
    with build(table_of(model), tmp_path / "s", overwrite=True, **options) as built:
        assert built.info().rewritten_buckets == 0


def test_rules_of_every_type(tmp_path, seed):
    """A column for each rule and type that it knows, against Python's own arithmetic."""
    rng = random.Random(seed)
    day = datetime.date(2020, 1, 1)

    def decimal_of(number: int) -> decimal.Decimal:
        return decimal.Decimal(number).scaleb(-2)

    kinds: dict[str, tuple[pa.DataType, Any, tuple[str, ...]]] = {
        "i8": (pa.int8(), lambda n: n % 4, RULES),
        "u64": (pa.uint64(), lambda n: n * 2**40, RULES),
        "i64": (pa.int64(), lambda n: (n - 50) * 2**50, RULES),
        "f32": (pa.float32(), float, RULES),
        "f64": (pa.float64(), lambda n: n / 4, RULES),
        "dec": (pa.decimal128(20, 2), decimal_of, RULES),
        "text": (pa.string(), str, ("replace", "first", "partial", "min", "max")),
        "view": (pa.string_view(), str, ("replace", "first", "partial", "min", "max")),
        "views": (pa.list_(pa.string_view()), lambda n: [str(n)], ("replace", "partial")),
        "day": (pa.date32(), lambda n: day + datetime.timedelta(n), ("partial", "min", "max")),
        "flag": (pa.bool_(), lambda n: n % 2 == 0, ("partial", "min", "max")),
        "list": (pa.list_(pa.int8()), lambda n: [n % 100], ("replace", "first", "partial")),
        "dict": (
            pa.dictionary(pa.int8(), pa.string()),
            lambda n: f"d{n % 9}",
            ("replace", "partial"),
        ),
    }
    columns = {
        f"{name}_{each}": (kind, make, each)
        for name, (kind, make, rules) in kinds.items()
        for each in rules
    }
    schema = pa.schema([("id", pa.int64()), *((name, one[0]) for name, one in columns.items())])
    rules = {name: one[2] for name, one in columns.items()}

    def rows(count: int) -> list[Row]:
        return [
            (
                rng.randrange(40),
                *(
                    None if rng.random() < 0.3 else make(rng.randrange(100))
                    for _, make, _ in columns.values()
                ),
            )
            for _ in range(count)
        ]

    model = {row[0]: row[1:] for row in rows(30)}
    store = build(table_of(model, schema), tmp_path / "s", key="id", buckets=2)
    for _ in range(3):
        changes = rows(rng.choice([1, 20]))
        store = store.upsert(table(changes, schema), rule=rules, **KEEP)
        apply(model, changes, [], rules, None, list(columns))
        check(store, model, list(range(45)))


def test_nan_is_greatest_and_a_sum_of_it_is_nan(tmp_path):
    nan = float("nan")
    stored = pa.table({"id": [1], "least": [nan], "most": [1.0], "sum": [1.0]})
    build(stored, tmp_path / "s", key="id").close()
    changes = pa.table({"id": [1], "least": [2.0], "most": [nan], "sum": [nan]})
    rules = {"least": "min", "most": "max", "sum": "sum"}
    with upsert(tmp_path / "s", changes, rule=rules) as store:
        row = store.get(1)
    assert row is not None
    assert row["least"] == 2.0
    assert math.isnan(row["most"])
    assert math.isnan(row["sum"])


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int8(), (127, 1)),
        (pa.int64(), (2**63 - 1, 1)),
        (pa.int64(), (-(2**63), -1)),
        (pa.uint64(), (2**64 - 1, 1)),
        (pa.uint8(), (255, 1)),
        (pa.decimal128(3, 0), (999, 1)),
    ],
)
def test_a_sum_that_does_not_fit(tmp_path, kind, values):
    rows = [pa.table({"id": [1], "n": pa.array([value], kind)}) for value in values]
    with build(rows[0], tmp_path / "s", key="id") as store:
        with pytest.raises(ValueError, match="sum of the column 'n' is beyond what"):
            store.upsert(rows[1], rule="sum")
        assert lookupstore.open(tmp_path / "s").version == 1
        assert store.verify().stray == ()


def test_keys_of_several_fields_with_nulls(tmp_path):
    stored = pa.table({"a": ["x", None, "y\0"], "b": [1.5, 2.5, None], "v": [1, 2, 3]})
    with build(stored, tmp_path / "s", key=["a", "b"], nullable_keys=["a", "b"]) as store:
        changes = pa.table({"v": [5, 6], "b": [2.5, 9.0], "a": pa.array([None, "z"])})
        newer = store.upsert(changes, deletes=[("x", 1.5), ("nobody", 1.0)], **KEEP)
        assert newer.lookup([("x", 1.5), (None, 2.5), ("y\0", None), ("z", 9.0)])[
            "v"
        ].to_pylist() == [None, 5, 3, 6]
        assert len(newer) == 3
        assert read_newest(newer.location).runs[0].tombstones == 1


def test_a_store_without_value_columns(tmp_path):
    with build(pa.table({"id": [1, 2]}), tmp_path / "s", key="id") as store:
        newer = store.upsert(pa.table({"id": [3]}), deletes=[1], **KEEP)
        assert list(newer) == [2, 3]
        assert newer.contains([1, 2, 3]).to_pylist() == [False, True, True]
        assert list(newer.compact()) == [2, 3]


def test_every_row_may_be_deleted_and_come_back(tmp_path):
    with build(pa.table({"id": range(50), "v": range(50)}), tmp_path / "s", key="id") as store:
        empty = store.upsert(deletes=list(range(50)), **KEEP)
        assert len(empty) == 0
        assert empty.scan().read_all().num_rows == 0
        assert empty.get(3) is None
        compacted = empty.compact()
        assert compacted.info().files == 0
        back = compacted.upsert(pa.table({"id": [7], "v": [70]}), **KEEP)
        assert back.lookup([7, 8])["v"].to_pylist() == [70, None]
        assert back.get(7) == {"v": 70}
        assert len(back) == 1
        assert back.verify().num_rows == 1


def test_without_a_change_no_version_is_published(tmp_path):
    rows = pa.table({"id": [1], "v": [1], "at": [5]})
    with build(rows, tmp_path / "s", key="id") as store:
        assert store.upsert(rows.slice(0, 0)).version == 1
        assert store.upsert(deletes=[2]).version == 1
        assert store.upsert(rows, rule="first").version == 1
        older = pa.table({"id": [1], "v": [2], "at": [4]})
        assert store.upsert(older, sequence="at").version == 1
        assert store.compact().version == 1
        assert len(list(Location(tmp_path / "s").files(recursive=True))) == 2


def test_rows_are_read_where_a_rule_needs_them(tmp_path, monkeypatch):
    reads = importlib.import_module("lookupstore.store.buckets").BucketReads
    asked: list[list[str]] = []
    real = reads.lookup

    def lookup(self: Any, keys: Any, names: Any) -> Any:
        asked.append(list(names))
        return real(self, keys, names)

    monkeypatch.setattr(reads, "lookup", lookup)
    rows = pa.table({"id": [1], "v": [1], "at": [5]})
    build(rows, tmp_path / "s", key="id").close()
    for rule_of, sequence, expected in (
        ("replace", None, []),
        ("first", None, []),
        ("replace", "at", [["at"]]),
        ("first", "at", [["at"]]),
        ("partial", None, [["v", "at"]]),
    ):
        asked.clear()
        upsert(tmp_path / "s", rows, rule=rule_of, sequence=sequence).close()
        assert asked == expected


# --- what is refused


def test_arguments_that_are_refused(tmp_path):
    kinds = {"id": pa.int64(), "v": pa.int32(), "name": pa.string(), "l": pa.list_(pa.int8())}
    schema = pa.schema([pa.field(name, kind, nullable=name != "v") for name, kind in kinds.items()])
    rows = pa.table({"id": [1], "v": [1], "name": ["a"], "l": [[1]]}, schema=schema)
    store = build(rows, tmp_path / "s", key="id")
    for error, said, changes, options in (
        (ValueError, "neither changes nor deletes", None, {}),
        (KeyError, "no key column 'id'", rows.drop_columns("id"), {}),
        (KeyError, "no column 'v'", rows.drop_columns("v"), {}),
        (KeyError, "no value column 'w'", rows, {"rule": {"w": "sum"}}),
        (ValueError, "give one of replace, first", rows, {"rule": "last"}),
        (TypeError, "or a dict by column", rows, {"rule": 3}),
        (TypeError, "'sum' of the column 'name', .* rule={'name': 'partial', 'hits': 'sum'}",
         rows, {"rule": {"name": "sum"}}),
        (TypeError, "whose type list", rows, {"rule": {"l": "max"}}),
        (KeyError, "sequence: no value column 'at'", rows, {"sequence": "at"}),
        (KeyError, "sequence: the changes have no column", rows.drop_columns("name"),
         {"sequence": "name", "rule": "partial"}),
        (ValueError, "max_runs is 65", rows, {"max_runs": 65}),
        (ValueError, "max_run_share is -1", rows, {"max_run_share": -1}),
        (ValueError, "id=1 is in changes and in deletes", rows, {"deletes": [1]}),
        (ValueError, "row 1: the column 'v' is int64 with the value 1099511627776, which",
         rows.set_column(1, "v", pa.array([2**40])), {}),
        (TypeError, "in the store it is int32", rows.set_column(1, "v", pa.array([[1]])), {}),
        (ValueError, "'v' may not be null, .* id=9; give a value, or build the store again from",
         pa.table({"id": [9], "name": ["b"], "l": [[1]]}), {"rule": "partial"}),
        (ValueError, "row 1: the key column 'id' is null",
         rows.set_column(0, "id", pa.array([None], pa.int64())), {}),
    ):  # fmt: skip
        with pytest.raises(error, match=said):
            store.upsert(changes, **options)
    with pytest.raises(FileNotFoundError, match="no such store folder"):
        upsert(tmp_path / "t", rows)
    assert not (tmp_path / "t").exists()
    assert lookupstore.open(tmp_path / "s").version == 1
    assert store.verify().stray == ()


def test_nanoseconds_inside_of_other_values_are_named(tmp_path):
    def rows(unit, value):
        kind = pa.struct({"at": pa.timestamp(unit), "all": pa.list_(pa.timestamp(unit))})
        return pa.table({"id": [1], "s": pa.array([value], kind)})

    store = build(rows("us", None), tmp_path / "s", key="id")
    for value, said in (
        (
            {"at": 1001, "all": None},
            r"row 1: the field 's.at' is timestamp\[ns\] with the value .*1",
        ),
        ({"at": 1000, "all": [1000, 1002]}, r"the field 's.all\[\]' is timestamp\[ns\] .*1002"),
    ):
        with pytest.raises(
            ValueError, match=rf"{said}.* timestamp\[us\] of .*; round the value to"
        ):
            store.upsert(rows("ns", value))
    fits = rows("ns", {"at": 1000, "all": [2000]})
    found = pa.array([store.upsert(fits)[1]["s"]], fits["s"].type)
    assert found.to_pylist() == fits["s"].to_pylist()


def test_a_frame_without_rows_changes_nothing(tmp_path):
    rows = pa.table({"id": [1], "v": [1], "at": pa.array([0], pa.timestamp("us"))})
    store = build(rows, tmp_path / "s", key="id")
    for kind in (object, "float64", "datetime64[ns]"):
        frame = pd.DataFrame({name: pd.Series(dtype=kind) for name in rows.column_names})
        assert store.upsert(frame).version == 1
    with pytest.raises(KeyError, match="no key column 'id'"):
        store.upsert(frame[["v"]])
    with pytest.raises(KeyError, match="no column 'v'"):
        store.upsert(frame[["id", "at"]])


def test_errors_about_changes_name_them(tmp_path):
    store = build(pa.table({"id": [1], "v": [1]}), tmp_path / "s", key="id")
    with pytest.raises(FileNotFoundError, match=r"^changes: .*no\.parquet: no such file"):
        store.upsert(tmp_path / "no.parquet")
    with pytest.raises(TypeError, match=r"^changes is int; give a path"):
        store.upsert(5)
    with pytest.raises(FileNotFoundError, match=r"^table: .*no: no such file or folder"):
        lookupstore.follow(tmp_path / "no", tmp_path / "f", key="id")


def test_columns_are_cast_and_others_are_left_out_by_name(tmp_path):
    stored = pa.table({"id": pa.array([1], pa.int16()), "v": pa.array([1.5], pa.float32())})
    with build(stored, tmp_path / "s", key="id") as store:
        rows = pa.table({"more": ["x"], "v": [2], "id": [1]})
        assert store.upsert(rows, columns=["v"]).get(1) == {"v": 2.0}
        assert store.upsert(rows, columns="v", rule="sum").get(1) == {"v": 4.0}


# --- the manifest, and damage


def rewritten(store: LookupStore, change: Any) -> None:
    """Change fields of a manifest, and its hash as well."""
    path = Path(store.path, version_files.name_of(read_newest(store.location)).file)
    fields = json.loads(path.read_text())
    del fields["xxh64"]
    change(fields)
    path.write_text(json.dumps({**fields, "xxh64": fields_hash(fields)}))


@pytest.fixture
def with_runs(tmp_path) -> LookupStore:
    rows = pa.table({"id": range(300), "v": range(300)})
    store = build(rows, tmp_path / "s", key="id", buckets=2, block_size=200)
    store = store.upsert(pa.table({"id": range(200, 400), "v": range(200)}), **KEEP)
    return store.upsert(deletes=list(range(0, 300, 2)), **KEEP)


def test_the_format_of_a_manifest_says_whether_there_are_runs(tmp_path, with_runs):
    def version_of(number: int) -> int:
        (path,) = Path(tmp_path, "s", "versions").glob(f"{number:010d}-*.json")
        return int(json.loads(path.read_text())["format_version"])

    assert [version_of(number) for number in (1, 2, 3)] == [2, 4, 4]
    with_runs.compact().close()
    assert version_of(4) == 4
    rows = pa.table({"id": range(3), "v": range(3)})
    build(rows, tmp_path / "s", key="id", overwrite=True).close()
    assert version_of(5) == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: f["runs"][0].update(new_rows=7), "num_rows|new_rows"),
        (lambda f: f["runs"][0].update(tombstones=-1), "tombstones"),
        (lambda f: f["runs"][0].update(tombstones=10**6), "tombstones"),
        (lambda f: f["runs"][0].update(more=1), "no such field"),
        (lambda f: f["runs"][0]["file"].update(bucket=9), "bucket"),
        (lambda f: f["runs"][0]["file"].update(name="../x.sst"), "name"),
        (lambda f: f["runs"].reverse(), "ascending buckets"),
        (lambda f: f["runs"].extend([f["runs"][-1]] * 70), "at most 64"),
        (lambda f: f.update(parent="x"), "parent"),
        (lambda f: f.update(runs={}), "runs"),
        (lambda f: f["runs"][0].update(created="yesterday"), "runs.*created"),
        (lambda f: f.pop("applied"), "applied"),
        (lambda f: f.update(applied=f["runs"][:1]), "applied.*without other runs"),
        (lambda f: f.update(applied=f["runs"][:1] * 2), "applied.*one run each"),
        (lambda f: f.update(applied=[{**f["runs"][0], "new_rows": 10**6}]), "applied.*new_rows"),
    ],
)
def test_a_manifest_whose_runs_contradict_it(with_runs, change, said):
    rewritten(with_runs, change)
    with pytest.raises(CorruptionError, match=said):
        lookupstore.open(with_runs.path)


def test_runs_that_a_manifest_counts_wrong_are_found(with_runs):
    def one_row_less(fields: dict[str, Any]) -> None:
        run = next(run for run in fields["runs"] if run["tombstones"])
        run["new_rows"] += 1
        fields["num_rows"] += 1

    rewritten(with_runs, one_row_less)
    with lookupstore.open(with_runs.path) as store, pytest.raises(CorruptionError, match="rows in"):
        store.verify()


@pytest.mark.parametrize("merged", [False, True], ids=["a run", "a run merged at once"])
@pytest.mark.parametrize("more", [-1, 1])
def test_tombstones_that_a_manifest_counts_wrong_are_found(tmp_path, merged, more):
    """The wrong number contradicts nothing else in the manifest: only the run's records do."""
    rows = pa.table({"id": range(60), "v": range(60)})
    changes = pa.table({"id": range(50, 70), "v": [0] * 20})
    with build(rows, tmp_path / "s", key="id", buckets=2, block_size=200) as store:
        new = store.upsert(changes, deletes=[*range(20)], **({"max_runs": 0} if merged else KEEP))
    new.close()
    name = "applied" if merged else "runs"

    def add_tombstones(number: int, count: int) -> None:
        def change(fields: dict[str, Any]) -> None:
            fields[name][number]["tombstones"] += count

        rewritten(new, change)

    for number in range(2):
        add_tombstones(number, more)
        run = getattr(read_newest(new.location), name)[number]
        said = rf"{run.file.name}.*{run.tombstones - more} tombstones.*has {run.tombstones}"
        with lookupstore.open(new.path) as store, pytest.raises(CorruptionError, match=said):
            store.verify()
        add_tombstones(number, -more)
    with lookupstore.open(new.path) as store:
        assert store.verify().num_rows == 50


def test_damage_of_a_run_is_an_error(with_runs, seed):
    """Of random bytes of a run changed, verify says so; lookups are right or an error."""
    rng = random.Random(seed)
    model = {row["id"]: row["v"] for row in with_runs.scan().read_all().to_pylist()}
    with_runs.close()
    for run in read_newest(Location(with_runs.path)).runs:
        path = Path(with_runs.path, run.file.name)
        good = path.read_bytes()
        for _ in range(6):
            bad = bytearray(good)
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
            path.unlink()
            path.write_bytes(bad)
            try:
                with lookupstore.open(with_runs.path) as store:
                    with pytest.raises(CorruptionError):
                        store.verify()
                    found = store.lookup(list(range(-5, 405)))["v"]
                    assert found.to_pylist() == [model.get(key) for key in range(-5, 405)]
            except (CorruptionError, FormatError):
                pass
        path.unlink()
        path.write_bytes(good)


@pytest.mark.parametrize("value", [b"", b"\x02abc", b"\x01row", b"\x00abc"])
def test_a_run_whose_values_are_no_changes(tmp_path, value):
    """A run that is a whole sorted file, but not one of rows or tombstones behind their kind."""
    has_kind = value == b"\x00abc"  # of which only those say the file who unpack its rows alone
    with build(pa.table({"id": [1], "v": [1]}), tmp_path / "s", key="id") as store:
        store = store.upsert(pa.table({"id": [1], "v": [2]}), **KEEP)
    run = read_newest(store.location).runs[0]
    path = Path(store.path, run.file.name)
    with lookupstore.sst.Reader(path) as reader:
        info = reader.info()
        (key,) = list(reader)
    path.unlink()
    with lookupstore.sst.Writer(
        path, key_schema=info.key_schema, value_schema=info.value_schema, bloom_fpp=0.001
    ) as writer:
        writer.put(key, value)
    digest = Location(store.path).hash(run.file.name)
    size = path.stat().st_size
    rewritten(store, lambda f: f["runs"][0]["file"].update(bytes=size, xxh64=digest))
    with lookupstore.open(store.path) as damaged:
        for ask in (
            lambda: damaged.get(1),
            lambda: damaged.lookup([1]),
            lambda: damaged.changes(1).read_all(),
            lambda: damaged.contains([1]),
            lambda: damaged.scan().read_all(),
            lambda: damaged.verify(),
            lambda: damaged.compact(),
        )[: 3 if has_kind else None]:
            with pytest.raises(CorruptionError, match=r"-run\.sst"):
                ask()


def test_kinds_of_values(seed):
    rng = random.Random(seed)
    rows = [rng.randbytes(rng.randrange(5)) for _ in range(rng.choice([0, 1, 50]))]
    gone = np.array([rng.random() < 0.3 for _ in rows], np.bool_)
    padded = pa.array([b"pad", *rows], pa.large_binary()).slice(1)
    values = with_kinds(padded, gone)
    expected = [b"\1" if one else b"\0" + row for row, one in zip(rows, gone, strict=True)]
    assert values.to_pylist() == expected
    kinds, back = split_kinds(pa.concat_arrays([values, values]).slice(len(rows)))
    assert kinds.to_pylist() == [b"\1" if one else b"\0" for one in gone]
    assert back.to_pylist() == [b"" if one else row for row, one in zip(rows, gone, strict=True)]
    found = rows_or_null(values)
    found.validate(full=True)
    assert found.to_pylist() == [None if one else row for row, one in zip(rows, gone, strict=True)]
    for wrong in (b"", b"\2", b"\1x"):
        with pytest.raises(FormatError):
            split_kinds(pa.array([b"\0", wrong], pa.large_binary()))


# --- versions: expiry, publishing, hosts


def test_files_go_when_no_version_names_them(tmp_path, with_runs):
    named = {file.name for file in read_newest(with_runs.location).data_files}
    expire(with_runs, retain=0)
    data = {f.name for f in with_runs.location.files("data") if not f.name.startswith("data/.")}
    assert data == named
    compacted = with_runs.compact()
    expire(compacted, retain=0)
    named = {file.name for file in read_newest(with_runs.location).data_files}
    data = {f.name for f in with_runs.location.files("data") if not f.name.startswith("data/.")}
    assert data == named
    assert len(named) == 2


def test_a_run_that_was_merged_at_once_stays_as_long_as_its_version(tmp_path, with_runs):
    changes = pa.table({"id": [1, *range(1000, 1009)], "v": [1] * 10})
    compacted = with_runs.upsert(changes, max_runs=0)
    manifest = read_newest(compacted.location)
    assert not manifest.runs
    assert [run.file.bucket for run in manifest.applied] == [0, 1]
    assert sum(run.new_rows for run in manifest.applied) == 9 + (1 not in with_runs)
    assert {file.bucket for file in manifest.files} == {0, 1}
    info = compacted.info()
    assert info.applied_bytes == sum(run.file.bytes for run in manifest.applied) > 0
    assert (info.files, info.bytes) == (2, sum(file.bytes for file in manifest.files))
    expire(compacted, retain=0)
    assert compacted.verify().files == 2 + len(manifest.applied)
    assert compacted.verify().stray == ()
    there = tmp_path / "there"
    with publish(compacted, there) as copy:
        assert copy.info().rewritten_buckets == 2
        assert copy.verify().bytes == info.bytes + info.applied_bytes
    path = Path(there, read_newest(Location(there)).applied[0].file.name)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 3] ^= 1
    path.unlink()
    with lookupstore.open(there) as copy:
        with pytest.raises(CorruptionError, match="no file"):
            copy.verify()
        path.write_bytes(damaged)
        with pytest.raises(CorruptionError, match=path.name):
            copy.verify()
    # A version that nothing was changed in names no such runs.
    assert compacted.upsert(pa.table({"id": [1], "v": [2]}), **KEEP).info().applied_bytes == 0
    expire(there, retain=0)
    named = {file.name for file in read_newest(compacted.location).named_files}
    expire(compacted, retain=0)
    data = {f.name for f in compacted.location.files("data") if not f.name.startswith("data/.")}
    assert data == named


def test_hosts_do_not_fetch_runs_that_were_merged(tmp_path):
    remote = Remote(tmp_path, "s3")
    rows = pa.table({"id": range(500), "v": range(500)})
    store = build(rows, remote.location(), key="id", buckets=2, block_size=200)
    store = store.upsert(pa.table({"id": range(5, 600, 7), "v": [0] * 85}), max_runs=0)
    merged = {run.file.name.rpartition("/")[2] for run in read_newest(store.location).applied}
    assert len(merged) == 2
    store.close()
    remote.restart()
    with lookupstore.open(remote.location()) as store:
        assert store.lookup(list(range(700)))["v"].null_count == 700 - len(store)
        assert store.scan().read_all().num_rows == len(store)
        read = {path.rpartition("/")[2] for _, path in remote.done}
        assert read
        assert not read & merged
        store.verify()
        assert merged <= {path.rpartition("/")[2] for _, path in remote.done}


def test_an_upsert_that_compacts_writes_what_a_build_writes(tmp_path):
    """Of so many more, or fewer, rows that the filter has another size."""
    rows = pa.table({"id": range(3000), "v": range(3000)})
    store = build(rows.slice(0, 200), tmp_path / "s", key="id", buckets=2)
    for deletes, left in ((None, rows), (list(range(100, 3000)), rows.slice(0, 100))):
        changes = rows if deletes is None else None
        store = store.upsert(changes, deletes=deletes, max_runs=0)
        other = tmp_path / f"{left.num_rows}"
        build(left, other, key="id", buckets=2).close()
        assert data_of(store.location) == data_of(other)


def test_a_bucket_has_as_many_runs_as_it_may(tmp_path):
    rows = pa.table({"id": range(1000), "v": [0] * 1000})
    store = build(rows, tmp_path / "s", key="id")
    one = pa.table({"id": [1], "v": [1]})
    found = []
    for _ in range(5):
        store = store.upsert(one, max_runs=2, max_run_share=math.inf)
        found.append(store.info().runs)
    assert found == [1, 2, 0, 1, 2]
    store = store.upsert(one, max_runs=64, max_run_share=math.inf)
    run, base = store.info().run_bytes, store.info().bytes - store.info().run_bytes
    # Four runs, one after the next upsert, which all have the same bytes.
    four = (run // 3 * 4 + 0.5) / base
    assert store.upsert(one, max_runs=64, max_run_share=four).info().runs == 4
    assert store.upsert(one, max_runs=64, max_run_share=four).info().runs == 0


def test_a_bucket_whose_oldest_run_is_old_is_compacted(tmp_path):
    def made_older(store: LookupStore, seconds: float) -> None:
        def change(fields: dict[str, Any]) -> None:
            for run in fields["runs"]:
                created = datetime.datetime.fromisoformat(run["created"])
                run["created"] = (created - datetime.timedelta(seconds=seconds)).isoformat()

        rewritten(store, change)

    rows = pa.table({"id": range(100), "v": [0] * 100})
    store = build(rows, tmp_path / "s", key="id", buckets=2)
    one, other = (
        next(key for key in range(100) if bucket_of_key(key) == bucket) for bucket in (0, 1)
    )
    store = store.upsert(pa.table({"id": [one, other], "v": [1, 1]}), max_run_age="1h", **KEEP)
    store = store.upsert(pa.table({"id": [one], "v": [2]}), max_run_age="1h", **KEEP)
    assert store.info().runs == 3
    made_older(store, 3600)
    store = store.upsert(pa.table({"id": [one], "v": [3]}), **KEEP)
    assert store.info().runs == 4
    # Of the bucket that changes; the other one waits for a change.
    store = store.upsert(pa.table({"id": [one], "v": [4]}), max_run_age=3600, **KEEP)
    assert [run.file.bucket for run in read_newest(store.location).runs] == [1]
    assert store.get(one) == {"v": 4}
    store = store.upsert(pa.table({"id": [other], "v": [5]}), max_run_age=0, **KEEP)
    assert store.info().runs == 0
    assert store.get(other) == {"v": 5}
    with pytest.raises(ValueError, match="max_run_age is 'soon'; give seconds, or a time such as"):
        store.upsert(rows, max_run_age="soon")


def test_a_version_with_runs_is_published_by_its_new_files(tmp_path, with_runs):
    there = tmp_path / "there"
    with lookupstore.open(with_runs.path, version=1) as first:
        publish(first, there).close()
    rows = with_runs.scan().read_all()
    with publish(with_runs, there, overwrite=True) as copy:
        assert copy.info().rewritten_buckets == copy.info().runs == 4
        assert copy.scan().read_all().equals(rows)
        assert copy.verify().stray == ()
        newer = copy.upsert(pa.table({"id": [1000], "v": [1]}), **KEEP)
        assert len(newer) == len(rows) + 1
    with publish(newer, with_runs.path, overwrite=True) as back:
        assert back.info().rewritten_buckets == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("buckets", [1, 4])
def test_a_remote_store(tmp_path, seed, kind, buckets):
    rng = random.Random(seed)
    remote = Remote(tmp_path, kind)
    place = remote.location()
    model: Model = {row[0]: row[1:] for row in random_rows(rng, 800, 1500)}
    store = build(table_of(model), place, key="id", buckets=buckets, block_size=500)
    check(store, model, rng.sample(range(1600), 300))
    for _ in range(3):
        rows = random_rows(rng, 100, 1600)
        store = store.upsert(table(rows), rule="partial", **KEEP)
        apply(model, rows, [], "partial", None, SCHEMA.names[1:])
        remote.restart()
        check(store, model, rng.sample(range(1600), 300))
        # Bases were fetched before: of the new version only runs come.
        read = {path for name, path in remote.done if name == "read" and path.endswith(".sst")}
        assert read
        assert all(path.endswith("-run.sst") for path in read)
    assert store.verify().num_rows == len(model)
    store = store.compact()
    check(store, model, rng.sample(range(1600), 300))
    build(table_of(model), tmp_path / "fresh", key="id", buckets=buckets, block_size=500,
          compression="zstd").close()  # fmt: skip
    assert data_of(place) == data_of(tmp_path / "fresh")


# --- failures, kills and other writers

BEFORE = pa.table({"id": range(60), "v": [1] * 60})
AFTER = pa.table({"id": range(30, 90), "v": [2] * 60})


def prepare(place: Location, verb: str) -> None:
    with build(BEFORE, place, key="id", buckets=2) as store:
        if verb == "compact":
            store.upsert(AFTER, deletes=[0], **KEEP).close()


def run_verb(place: Location, verb: str) -> None:
    if verb == "compact":
        with lookupstore.open(place) as store:
            store.compact(retain=0).close()
    else:
        limits = KEEP if verb == "upsert" else {"max_runs": 0}
        upsert(place, AFTER, deletes=[0], retain=0, **limits).close()


VERBS = ("upsert", "upsert and compact", "compact")


def models(verb: str) -> list[dict[int, int]]:
    old = dict.fromkeys(range(60), 1)
    new = {**old, **dict.fromkeys(range(30, 90), 2)}
    del new[0]
    return [new] if verb == "compact" else [old, new]


def check_after_fault(
    place: Location, folder: Path, known: list[dict[int, int]], again: Any, raised: object
) -> None:
    """Old or new, whole; what is left can be removed, and the verb be done again."""
    with lookupstore.open(place) as store:
        found = {row["id"]: row["v"] for row in store.scan().read_all().to_pylist()}
        assert found in (known if raised is not None else known[-1:])
        assert len(store) == len(found) == store.verify().num_rows
        assert store.lookup(list(found))["v"].to_pylist() == list(found.values())
    past = time.time() - MARK_AGE.total_seconds() - 10
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (past, past))
    again()
    with lookupstore.open(place) as store:
        found = {row["id"]: row["v"] for row in store.scan().read_all().to_pylist()}
        assert found == known[-1]
    expire(place, retain=0)
    named = version_files.named_files(place)
    assert {file.name for file in place.files(recursive=True)} == named
    assert [name for name in place.names() if name.startswith(".")] == []


def outcome(run: Any) -> BaseException | None:
    try:
        run()
    except BaseException as error:
        return error
    return None


@pytest.mark.few(4)
@pytest.mark.sampled
@pytest.mark.parametrize("kill", [False, True], ids=["fail", "kill"])
@pytest.mark.parametrize("verb", VERBS)
def test_every_remote_operation_fails_once(tmp_path, verb, kill):
    def start(folder: Path) -> Remote:
        folder.mkdir()
        remote = Remote(folder, "s3")
        prepare(remote.location(), verb)
        remote.restart()
        return remote

    clean = start(tmp_path / "clean")
    run_verb(clean.location(), verb)
    assert len(clean.done) > 12
    for at in some_of(range(len(clean.done))):
        folder = tmp_path / str(at)
        remote = start(folder)
        remote.restart(at, kill=kill)
        raised = outcome(lambda remote=remote: run_verb(remote.location(), verb))
        assert isinstance(raised, (Killed, OSError, lookupstore.LookupStoreError, type(None)))
        remote.restart()
        print(at, clean.done[at], raised)
        place = remote.location()
        check_after_fault(place, folder, models(verb), partial(run_verb, place, verb), raised)


@pytest.mark.sampled
@pytest.mark.parametrize("kill", [False, True], ids=["fail", "kill"])
@pytest.mark.parametrize("verb", VERBS)
def test_every_local_operation_fails_once(tmp_path, verb, kill):
    def run(folder: Path, disk: FaultyDisk) -> None:
        with pytest.MonkeyPatch.context() as patch:
            for module in os_modules:
                patch.setattr(module, "os", disk)
            run_verb(Location(folder / "store"), verb)

    clean = FaultyDisk()
    prepare(Location(tmp_path / "clean" / "store"), verb)
    run(tmp_path / "clean", clean)
    assert {name for name, _ in clean.done} >= {"link", "fsync", "unlink"}
    for at, operation in some_of(enumerate(clean.done)):
        folder = tmp_path / str(at)
        prepare(Location(folder / "store"), verb)
        raised = outcome(lambda folder=folder, at=at: run(folder, FaultyDisk(at, kill=kill)))
        assert isinstance(raised, (Killed, OSError, lookupstore.LookupStoreError, type(None)))
        print(at, operation, raised)
        place = Location(folder / "store")
        check_after_fault(place, folder, models(verb), partial(run_verb, place, verb), raised)


@pytest.fixture
def source(tmp_path) -> LookupStore:
    """A store whose current version has a run, and one that was merged at once."""
    store = build(BEFORE, tmp_path / "source", key="id", buckets=2)
    some = [key for key in range(30, 90) if bucket_of_key(key) == 0]
    first = [key for key in range(30, 90) if key != some[0]]
    store = store.upsert(pa.table({"id": first, "v": [2] * len(first)}), deletes=[0], **KEEP)
    limits = {**KEEP, "max_runs": 1}
    store = store.upsert(pa.table({"id": some, "v": [2] * len(some)}), **limits)
    manifest = read_newest(store.location)
    assert len(manifest.runs) == len(manifest.applied) == 1
    return store


@pytest.mark.sampled
@pytest.mark.parametrize("kill", [False, True], ids=["fail", "kill"])
@pytest.mark.parametrize("kind", ["s3", "hdfs", "local"])
def test_every_operation_of_publishing_fails_once(tmp_path, source, kind, kill):
    """Of a version with runs, over one that shares files with it."""

    def start(folder: Path) -> tuple[Location, Remote]:
        folder.mkdir()
        remote = Remote(folder, "s3" if kind == "local" else kind)
        place = Location(folder / "store") if kind == "local" else remote.location()
        with lookupstore.open(source.path, version=1) as first:
            publish(first, place).close()
        remote.restart()
        return place, remote

    def run(place: Location) -> None:
        publish(source, place, overwrite=True, retain=0).close()

    def steps(place: Location, remote: Remote, at: int | None) -> tuple[Any, list[Any]]:
        disk = FaultyDisk(at, kill=kill)
        remote.restart(at, kill=kill)
        with pytest.MonkeyPatch.context() as patch:
            for module in os_modules if kind == "local" else ():
                patch.setattr(module, "os", disk)
            raised = outcome(lambda: run(place))
        done = disk.done if kind == "local" else list(remote.done)
        remote.restart()
        return raised, done

    raised, operations = steps(*start(tmp_path / "clean"), None)
    assert raised is None
    assert len(operations) > 12
    for at, operation in some_of(enumerate(operations)):
        folder = tmp_path / str(at)
        place, remote = start(folder)
        raised, _ = steps(place, remote, at)
        assert isinstance(raised, (Killed, OSError, lookupstore.LookupStoreError, type(None)))
        print(at, operation, raised)
        check_after_fault(place, folder, models("upsert"), partial(run, place), raised)


def changed_remote(folder: Path) -> tuple[Remote, list[int], list[Any], list[Any]]:
    """Return a server with two versions, some keys, and what is at them before and after."""
    remote = Remote(folder, "s3")
    prepare(remote.location(), "compact")
    asked = list(range(100))
    old, new = ([one.get(key) for key in asked] for one in models("upsert"))
    return remote, asked, old, new


@pytest.mark.parametrize("kill", [False, True], ids=["fail", "kill"])
def test_every_operation_of_a_refresh_fails_once(tmp_path, monkeypatch, kill):
    """A host that has the version before: the old store answers on, and a new one when asked."""
    remote, asked, old, new = changed_remote(tmp_path)

    def refreshed(at: int | None) -> int:
        monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / f"copies-{at}"))
        remote.restart()
        with lookupstore.open(remote.location(), version=1) as store:
            assert store.lookup(asked)["v"].to_pylist() == old
            remote.restart(at, kill=kill)
            newer = None
            try:
                newer = store.newest()
                assert newer.lookup(asked)["v"].to_pylist() == new
            except (Killed, OSError, lookupstore.LookupStoreError) as error:
                print(at, remote.done[at or 0 :], error)
            done = len(remote.done)
            remote.restart()
            assert store.lookup(asked)["v"].to_pylist() == old
            for one in (store.newest(), newer):
                if one is not None:
                    assert one.version == 2
                    assert one.lookup(asked)["v"].to_pylist() == new
                    one.close()
        return done

    count = refreshed(None)
    assert count > 3
    for at in range(count):
        refreshed(at)


def test_every_operation_of_a_refresh_in_the_background_fails_once(tmp_path, monkeypatch):
    """No call raises, the old store answers, and a later call returns the new one."""
    remote, asked, old, new = changed_remote(tmp_path)

    def refreshed(at: int | None) -> int:
        monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / f"copies-{at}"))
        remote.restart()
        with lookupstore.open(remote.location(), version=1) as store:
            assert store.lookup(asked)["v"].to_pylist() == old
            remote.restart(at)
            for _ in range(2000):
                newer = store.refresh()
                if newer is not store:
                    break
                assert store.lookup(asked)["v"].to_pylist() == old
                time.sleep(0.002)
            with newer:
                assert newer.version == 2
                assert newer.lookup(asked)["v"].to_pylist() == new
        return len(remote.done)

    count = refreshed(None)
    assert count > 3
    for at in range(count):
        refreshed(at)


def test_processes_at_once_and_one_is_killed(tmp_path, seed):
    """Two add to all rows, again and again: each upsert is there once, whole, or not at all."""
    rng = random.Random(seed)
    ids = list(range(20))
    build(pa.table({"id": ids, "n": [0] * 20}), tmp_path / "s", key="id", buckets=3).close()
    told = [tmp_path / "one", tmp_path / "other"]
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=add_often, args=(str(tmp_path / "s"), ids, 10**6 * at + 1 - at, one))
        for at, one in enumerate(told)
    ]
    for process in processes:
        process.start()

    def wait_for(one: Path, count: int) -> None:
        end = time.monotonic() + 120
        while not one.exists() or len(one.read_text().splitlines()) < count:
            assert time.monotonic() < end, "nothing was published for two minutes"
            time.sleep(0.01)

    try:
        for one in told:
            wait_for(one, 2)
        time.sleep(rng.random() / 4)
        processes[0].kill()
        processes[0].join()
        # The other one goes on, whatever is left.
        wait_for(told[1], len(told[1].read_text().splitlines()) + 2)
    finally:
        for process in processes:
            process.kill()
            process.join()
    with lookupstore.open(tmp_path / "s") as store:
        (total,) = set(store.lookup(ids)["n"].to_pylist())
        store.verify()
        replayed = [applied({}, store.changes(None, one.number))
                    for one in lookupstore.versions(store)]  # fmt: skip
        assert replayed[-1] == {key: (total,) for key in ids}
    for found, one in zip((total % 10**6, total // 10**6), told, strict=True):
        said = len(one.read_text().splitlines())
        # Who is killed has published, and did not come to say so.
        assert found in (said, said + 1)


def test_writers_at_once_all_apply(tmp_path):
    """Threads that upsert sums, one of which compacts: each change is there once."""
    build(pa.table({"id": range(20), "n": [0] * 20}), tmp_path / "s", key="id", buckets=2).close()
    done: list[int] = []
    failed: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for _ in range(4):
                try:
                    upsert(
                        tmp_path / "s",
                        pa.table({"id": range(20), "n": [10**number] * 20}),
                        rule="sum",
                        max_runs=3,
                    ).close()
                    done.append(number)
                except CommitConflictError:
                    continue  # nothing was changed
                if number == 2:
                    with lookupstore.open(tmp_path / "s") as store:
                        try:
                            store.compact().close()
                        except CommitConflictError:
                            continue
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    with lookupstore.open(tmp_path / "s") as store:
        total = sum(10**number for number in done)
        assert store.lookup(list(range(20)))["n"].to_pylist() == [total] * 20
        store.verify()
    assert len(done) > 3


@pytest.fixture
def overtaken(tmp_path, monkeypatch) -> Iterator[Any]:
    """Let something happen right before, or right after, the step that publishes."""

    def arrange(when: str, happen: Any) -> None:
        real = getattr(publish_step, "_write" if when == "after" else "publish_version")

        def instead(*args: Any, **named: Any) -> Any:
            monkeypatch.undo()
            if when == "before":
                happen()
                return real(*args, **named)
            result = real(*args, **named)
            happen()
            return result

        if when == "before":
            module = importlib.import_module("lookupstore.store.new_version")
            monkeypatch.setattr(module, "publish_version", instead)
        else:
            monkeypatch.setattr(publish_step, "_write", instead)

    return arrange


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_upsert_that_is_overtaken_applies_to_the_newer_version(tmp_path, overtaken, when):
    build(pa.table({"id": [1], "n": [1]}), tmp_path / "s", key="id").close()
    one = pa.table({"id": [1], "n": [10]})
    other = pa.table({"id": [1], "n": [100]})
    overtaken(when, lambda: upsert(tmp_path / "s", other, rule="sum", **KEEP).close())
    with upsert(tmp_path / "s", one, rule="sum", **KEEP) as store:
        assert store.get(1) == {"n": 111}
        assert store.version == 3


def test_a_version_that_may_be_withdrawn_is_not_changed(tmp_path, monkeypatch):
    """Two changes of one version whose writers were killed before they looked."""
    rows = pa.table({"id": [1], "n": [1]})
    with build(rows, tmp_path / "s", key="id") as store:
        store.upsert(pa.table({"id": [2], "n": [2]}), **KEEP).close()
    place = Location(tmp_path / "s")
    first = read_newest(place)
    second = replace(first, id="f" * 32)
    place.write(version_files.name_of(second).file, [manifest_bytes(second)])
    for one in (first, second):
        place.write(mark_name(one.id, change=True), [])
    monkeypatch.setattr(changing, "ATTEMPTS", 1)
    with pytest.raises(CommitConflictError, match=r"may still be withdrawn by its writer.*a day"):
        upsert(place, pa.table({"id": [3], "n": [3]}), **KEEP)
    assert [name.number for name in list_names(place)] == [1, 2, 2]
    # The first one was published, so the second is void.
    place.delete(mark_name(first.id, change=True))
    assert read_newest(place).id == first.id
    with upsert(place, pa.table({"id": [3], "n": [3]}), **KEEP) as store:
        assert list(store) == [1, 2, 3]
    assert [name.number for name in list_names(place)] == [1, 2, 3]


def test_a_change_of_a_version_proves_that_it_was_published(tmp_path, monkeypatch):
    """A build that is looked at late finds a change of its own version, and was the current one."""
    build(pa.table({"id": [1], "n": [1]}), tmp_path / "s", key="id").close()
    real = publish_step.find_rival

    def late(*args: Any, **named: Any) -> Any:
        monkeypatch.undo()
        upsert(tmp_path / "s", pa.table({"id": [1], "n": [7]}), rule="sum").close()
        return real(*args, **named)

    monkeypatch.setattr(publish_step, "find_rival", late)
    with build(pa.table({"id": [1], "n": [5]}), tmp_path / "s", key="id", overwrite=True) as store:
        assert store.get(1) == {"n": 12}
    assert [name.number for name in list_names(Location(tmp_path / "s"))] == [1, 2, 3]


def test_a_store_that_became_another_one(tmp_path, overtaken):
    build(pa.table({"id": [1], "n": [1]}), tmp_path / "s", key="id").close()
    other = pa.table({"id": [1], "n": ["x"]})
    overtaken("before", lambda: build(other, tmp_path / "s", key="id", overwrite=True).close())
    with pytest.raises(ValueError, match="the value column 'n' was int64 and is string"):
        upsert(tmp_path / "s", pa.table({"id": [1], "n": [2]}))


@pytest.mark.parametrize(
    ("unknown", "values"), [([None], ["x"]), ([[]], [["x"]]), ([{"a": None}], [{"a": 1}])]
)
def test_a_column_that_had_no_values(
    tmp_path: Path, unknown: Any, values: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Its type is null: the build says so, and an upsert says what to do."""
    lookupstore.build({"id": [1], "v": pa.array(unknown)}, tmp_path / "s", key="id").close()
    assert "the column 'v' is" in caplog.text
    assert "upserts cannot give it any" in caplog.text
    caplog.clear()
    with pytest.raises(TypeError, match="all its values were null; build the store again"):
        lookupstore.upsert(tmp_path / "s", {"id": [2], "v": pa.array(values)})
    lookupstore.build({"id": [1], "v": pa.array(values)}, tmp_path / "t", key="id").close()
    assert caplog.text == ""
