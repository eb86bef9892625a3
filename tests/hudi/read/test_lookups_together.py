"""Lookups in Hudi tables by open lookup files that answer together, compared with dicts."""

from __future__ import annotations

import logging
import pickle
import random
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.hudi.log_history import row
from support.hudi.log_tables import LogTable, Row
from support.together import aged, looked_up_in_threads, one_by_one, wait
from support.together import answered_together as answered_by

from lookupstore.columnar import open_lookups
from lookupstore.errors import DuplicateKeyError, FormatError
from lookupstore.hostcache.cache import Residency
from lookupstore.hudi import HudiTable, TableLookup, WriteOptions
from lookupstore.hudi.read import slice_lookups
from lookupstore.sst import owners
from lookupstore.store.local_files import files_of

INNER = pa.struct({"a": pa.int32()})
WIDER_INNER = pa.struct({"a": pa.int64(), "b": pa.string()})
SCHEMA = pa.schema(
    {"id": pa.int64(), "s": pa.string(), "day": pa.string(), "n": pa.int32(), "t": INNER}
)
WIDER = pa.schema(
    [*list(SCHEMA)[:3], ("n", pa.float64()), ("t", WIDER_INNER), ("new", pa.string())]
)
KEYS = {"number": ["id"], "text": ["s"], "both": ["id", "s"]}
DAYS = ["mo", "tu", "we"]
MOST = 600

Rows = dict[int, dict[str, Any]]

answered_together = partial(answered_by, by=TableLookup, methods=("_found_together",))


@pytest.fixture(autouse=True)
def early_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of owners of few records are made soon, and shared."""
    monkeypatch.setattr(owners, "LEAST_BYTES", 0)
    monkeypatch.setattr(owners, "LOOKS_APART", 50)


def made(residency: Residency) -> int:
    """Return the number of lookup files on this host."""
    return len(list(Path(residency.folder).glob("*.sst")))


def new_row(rng: random.Random, number: int) -> dict[str, Any]:
    """Return a row, whose key columns follow from the number of its key."""
    # Texts with commas and colons make the same record keys of different values.
    text = f"{number % 7},s:{number}" if number % 3 else f"ü{number:04}"
    return {
        "id": number - MOST // 2, "s": text, "day": DAYS[number % len(DAYS)],
        "n": rng.choice([None, *range(9)]), "t": rng.choice([None, {"a": number}]),
    }  # fmt: skip


def spans_of(rng: random.Random) -> list[list[int]]:
    """Return the numbers of the keys of some files."""
    numbers = rng.sample(range(MOST), MOST // 2)
    if rng.random() < 0.5:
        numbers.sort()
    count = rng.randrange(1, 9)
    step = len(numbers) // count
    return [numbers[at * step : (at + 1) * step] for at in range(count)]


def write(table: HudiTable, rng: random.Random, *, evolve: bool) -> Rows:
    """Write files, and return the rows by the numbers of their keys."""
    model: Rows = {}
    for at, numbers in enumerate(spans_of(rng)):
        rows = {number: new_row(rng, number) for number in numbers}
        schema = SCHEMA
        if evolve and at > 1:
            schema = WIDER
            rows = {
                number: {**one, "t": {"a": -number, "b": "é"}, "new": str(number)}
                for number, one in rows.items()
            }
        batch = pa.Table.from_pylist(list(rows.values()), schema)
        table.bulk_insert(batch, options=WriteOptions(evolve=evolve))
        model |= rows
    if "new" in table.view().table_schema.columns.names:
        model = {
            number: {**one, "t": None if one["t"] is None else {"b": None, **one["t"]}}
            for number, one in model.items()
        }
    return model


def asked_of(
    rng: random.Random, key: Sequence[str], count: int
) -> tuple[list[int | None], dict[str, list[Any]]]:
    """Return numbers of keys, some of which no file has, and the keys, some of them null."""
    numbers: list[int | None] = [
        None if rng.random() < 0.02 else rng.randrange(MOST + 20) for _ in range(count)
    ]
    rows = [new_row(rng, 0 if number is None else number) for number in numbers]
    pairs = list(zip(numbers, rows, strict=True))
    return numbers, {
        name: [None if number is None else one[name] for number, one in pairs] for name in key
    }


def checked(
    lookup: TableLookup, model: Rows, numbers: Sequence[int | None], keys: dict[str, list[Any]]
) -> pa.Table:
    """Compare the answers to some keys, and return them."""
    rows = [None if number is None else model.get(number) for number in numbers]
    found = lookup.lookup(keys, found=True)
    assert lookup.contains(keys).to_pylist() == [one is not None for one in rows]
    assert found["found"].to_pylist() == [one is not None for one in rows]
    for name in lookup.value_schema.names:
        assert found[name].to_pylist() == [one and one.get(name) for one in rows]
    return found


@pytest.mark.few(3)
@pytest.mark.parametrize("by_day", ["", "each", "all"])
@pytest.mark.parametrize("kind", KEYS)
def test_open_files_answer_as_a_dict(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch, kind: str, by_day: str,
    seed: int,
) -> None:  # fmt: skip
    """The same as one by one, with and without partitions, conditions and columns added later."""
    rng = random.Random(seed)
    for turn in range(2):
        table = HudiTable.create(
            tmp_path / f"{turn}", SCHEMA, record_key=KEYS[kind],
            partition_by=["day"] if by_day else [], version=rng.choice([6, 8, 9]),
        )  # fmt: skip
        model = write(table, rng, evolve=rng.random() < 0.5)
        key = [*KEYS[kind], *(["day"] if by_day == "each" else [])]
        where = rng.choice([None, "n > 3"])
        if where:
            model = {number: one for number, one in model.items() if (one["n"] or 0) > 3}
        options: dict[str, Any] = {"key": key, "where": where, "residency": residency}
        with TableLookup(table, build="always", **options) as lookup:
            numbers, keys = asked_of(rng, key, 3 * MOST)
            checked(lookup, model, numbers, keys)
        aged(Path(residency.folder))
        lookup = TableLookup(table, **options)
        checked(pickle.loads(pickle.dumps(lookup)), model, *asked_of(rng, key, 100))
        for one in (lookup, lookup):
            for count in (1, 5, 400, 400, 400):
                numbers, keys = asked_of(rng, key, count)
                with answered_together(
                    monkeypatch, expected=any(one is not None for one in numbers)
                ):
                    together = checked(one, model, numbers, keys)
                with one_by_one(monkeypatch):
                    assert together.equals(checked(one, model, numbers, keys))
            one.close()


def test_tables_of_owners_outlive_commits(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id")
    numbers = rng.sample(range(MOST), MOST)
    model: Rows = {}
    for at in range(6):
        model |= (rows := {number: new_row(rng, number) for number in numbers[at::8]})
        table.bulk_insert(pa.Table.from_pylist(list(rows.values()), SCHEMA))
    lookup = TableLookup(table, build="always", residency=residency)
    for at in (6, 7, None):
        every, keys = [*range(MOST)], {"id": [number - MOST // 2 for number in range(MOST)]}
        checked(lookup, model, every, keys)
        lookup.close()  # lookup files get an identity when they are opened
        aged(Path(residency.folder))
        for _ in range(8):
            with answered_together(monkeypatch, expected=True):
                checked(lookup, model, every, keys)
        tables = [one for known in lookup._slices.owners.values() for one in known.values()]
        (found,) = (one for some in tables for one in some.in_use)
        assert len(found.names) == 6
        if at is not None:
            model |= (rows := {number: new_row(rng, number) for number in numbers[at::8]})
            table.bulk_insert(pa.Table.from_pylist(list(rows.values()), SCHEMA))
            known = lookup._slices.owners
            lookup = lookup.newest()
            assert lookup._slices.owners is known


@pytest.mark.parametrize("where", [None, "ts > 99"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_changes_of_log_files_are_merged(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch, version: int,
    where: str | None, seed: int,
) -> None:  # fmt: skip
    """The rows are those of scans. Some slices have log files, and some have only these."""
    rng = random.Random(seed)
    for turn in range(3):
        table = LogTable(tmp_path / f"{turn}", version)
        keys = rng.sample(range(100, 300), 160)
        for at in range(4):
            rows = [row(key, 100, rng.choice(["old", None])) for key in keys[at * 40 :][:30]]
            table.base(f"{'abcd'[at]}-0", rows)
        ts = 100  # in version 6, ordering values grow
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(4)
            ts += 1
            new = [row(key, ts if version == 6 else rng.randrange(95, 105), "new")
                   for key in rng.sample(keys[at * 40 :][:40], 9)]  # fmt: skip
            gone = [(str(one["id"]), "long", ts) for one in new[:2]]
            name = f"{'abcd'[at]}-0"
            table.delta(name, lambda time, new=new, table=table: table.data(time, new[2:]))
            table.delta(name, lambda time, gone=gone, table=table: table.deletes(time, gone))
        if version != 6:
            new = [row(key, 100, "logged") for key in range(400, 405)]
            table.delta("e-0", lambda time, new=new, table=table: table.data(time, new))
        model: dict[int, Row] = {one["id"]: one for one in table.opened().scan().to_pylist()}
        if where:
            model = {key: one for key, one in model.items() if one["ts"] > 99}
        for columns in (None, ["value"], []):
            lookup = TableLookup(table.path, columns=columns, where=where, build="always",
                                 residency=residency)  # fmt: skip
            files = lookup._slices.footers(range(4))
            for at in rng.sample(range(4), 2):  # files are opened in any order
                file = files[at]
                assert file is not None
                lookup._slices._lookup_of(at, file)
            for expected in (False, True, True):
                asked = [rng.randrange(97, 410) for _ in range(700)]
                way = answered_together(monkeypatch, expected=True) if expected else nullcontext()
                with way:
                    together = lookup.lookup(asked, found=True)
                assert together["found"].to_pylist() == [key in model for key in asked]
                for name in lookup.value_schema.names:
                    wanted = [model[key][name] if key in model else None for key in asked]
                    assert together[name].to_pylist() == wanted
                with one_by_one(monkeypatch):
                    assert together.equals(lookup.lookup(asked, found=True))


@pytest.mark.parametrize("partition_by", [[], ["day"]], ids=str)
def test_a_key_in_two_open_files_is_refused(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch, partition_by: list[str]
) -> None:
    """By the same error as one by one; other keys, and keys of one partition, are answered."""
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id", partition_by=partition_by)
    rng = random.Random(0)
    for numbers, day in (([3, 6], "mo"), ([3, 9], "tu")):
        rows = [{**new_row(rng, number), "day": day} for number in numbers]
        table.bulk_insert(pa.Table.from_pylist(rows, SCHEMA))
    kind = FormatError if partition_by else DuplicateKeyError
    with TableLookup(table, key="id", build="always", residency=residency) as lookup:
        others = [number - MOST // 2 for number in (6, 9, 12)]
        for expected in (False, True):
            with answered_together(monkeypatch, expected=expected):
                assert lookup.contains(others).to_pylist() == [True, True, False]
        errors = []
        for way in (nullcontext(), one_by_one(monkeypatch)):
            with way, pytest.raises(kind, match=r"is in .*parquet and in .*parquet") as raised:
                lookup.lookup([3 - MOST // 2])
            errors.append(str(raised.value))
        assert errors[0] == errors[1]
    if partition_by:
        lookup = TableLookup(table, build="always", residency=residency)
        given = {"id": [3 - MOST // 2] * 3, "day": ["mo", "tu", "we"]}
        for expected in (False, True):
            with answered_together(monkeypatch, expected=expected):
                assert lookup.contains(given).to_pylist() == [True, True, False]


def test_a_key_that_log_files_moved_to_another_file(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = LogTable(tmp_path / "t", 9)
    table.base("a-0", [row(1, 1, "old"), row(2, 1, "old")])
    table.delta("a-0", lambda time: table.deletes(time, [("1", "long", 2)]))
    table.base("b-0", [row(1, 3, "moved")])
    lookup = TableLookup(table.path, build="always", residency=residency)
    for _ in range(2):
        assert lookup.lookup([1, 2])["value"].to_pylist() == ["moved", "old"]
        assert lookup.lookup([2])["value"].to_pylist() == ["old"]
    table.delta("b-0", lambda time: table.data(time, [row(2, 5, "twice")]))
    lookup = TableLookup(table.path, build="always", residency=residency)
    for way in (nullcontext(), one_by_one(monkeypatch)):
        with way, pytest.raises(DuplicateKeyError, match=r"'2' is in .*a-0.*b-0"):
            lookup.lookup([2])


def test_other_values_with_the_same_record_key(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = pa.schema({"a": pa.string(), "b": pa.string(), "v": pa.int64()})
    table = HudiTable.create(tmp_path / "t", schema, record_key=["a", "b"])
    table.bulk_insert(pa.table({"a": ["x", "y"], "b": ["1,b:2", "3"], "v": [1, 2]}, schema))
    lookup = TableLookup(table, build="always", residency=residency)
    asked = {"a": ["x,b:1", "y"], "b": ["2", "3"]}
    for expected in (False, True):
        with answered_together(monkeypatch, expected=expected):
            found = lookup.lookup(asked, found=True)
        assert found.to_pydict() == {"v": [None, 2], "found": [False, True]}
    with answered_together(monkeypatch, expected=True):
        assert lookup.lookup({"a": ["y", "x,b:1"], "b": ["3", "2"]})["v"].to_pylist() == [2, None]


def test_files_that_cannot_have_the_keys_may_be_closed(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their key range excludes them, or their filter."""
    schema = pa.schema({"id": pa.string(), "v": pa.int64()})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id")
    for numbers in (range(1, 100, 2), (20, 80), range(101, 200, 2), range(201, 300, 2)):
        ids = [f"{number:04}" for number in numbers]
        table.bulk_insert(pa.table({"id": ids, "v": [int(one) for one in ids]}, schema))
    lookup = TableLookup(table, build="always", residency=residency)
    few = ["0003", "0049", "0051", "0151"]
    for expected in (False, True):
        with answered_together(monkeypatch, expected=expected):
            assert lookup.lookup(few)["v"].to_pylist() == [3, 49, 51, 151]
    assert made(residency) == 2
    more = [*few, "0299"]
    for expected in (False, True):
        with answered_together(monkeypatch, expected=expected):
            assert lookup.lookup(more)["v"].to_pylist() == [3, 49, 51, 151, 299]
    # A closed file with the key whose lookup file was not made is asked alone.
    with answered_together(monkeypatch, expected=False):
        assert lookup.lookup([*more, "0080"])["v"].to_pylist() == [3, 49, 51, 151, 299, 80]
    assert made(residency) == 4


def test_more_files_than_may_stay_open_are_asked_one_by_one(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(open_lookups, "MOST_OPEN", 3)
    rng = random.Random(seed)
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="s")
    numbers = rng.sample(range(3, MOST, 3), 100)  # in the order of their texts
    numbers.sort()
    model: Rows = {}
    for at in range(0, 100, 20):
        model |= (rows := {number: new_row(rng, number) for number in numbers[at : at + 20]})
        table.bulk_insert(pa.Table.from_pylist(list(rows.values()), SCHEMA))
    lookup = TableLookup(table, build="always", residency=residency)
    for _ in range(3):
        keys = {"s": [model[number]["s"] for number in numbers]}
        with answered_together(monkeypatch, expected=False):
            checked(lookup, model, numbers, keys)
        assert sum(one.open_reader is not None for one in lookup._slices.asked()) <= 3
        at = rng.randrange(40)
        few = {"s": keys["s"][at : at + 20]}
        with answered_together(monkeypatch, expected=True):
            checked(lookup, model, numbers[at : at + 20], few)


def test_a_damaged_lookup_file_is_made_again(
    tmp_path: Path, residency: Residency, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    caplog.set_level(logging.INFO, logger="lookupstore")
    rng = random.Random(seed)
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id")
    model = write(table, rng, evolve=False)
    every = [*range(MOST)]
    keys = {"id": [number - MOST // 2 for number in every]}
    with TableLookup(table, build="always", residency=residency) as lookup:
        checked(lookup, model, every, keys)
        damaged = rng.choice(list(lookup._slices.asked()))
        path = Path(damaged.reader().path)
    content = bytearray(path.read_bytes())
    content[3] ^= 64
    path.write_bytes(content)
    with TableLookup(table, build="always", residency=residency) as lookup:
        checked(lookup, model, every, keys)
    assert "the lookup file is built again" in caplog.text


def test_counts(tmp_path: Path, residency: Residency, seed: int) -> None:
    rng = random.Random(seed)
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id")
    model = write(table, rng, evolve=False)
    with TableLookup(table, build="always", residency=residency) as lookup:
        keys = {"id": [number - MOST // 2 for number in range(MOST)]}
        for turn in (1, 2):
            checked(lookup, model, range(MOST), keys)  # two lookups
            stats = lookup.stats()
            assert (stats["keys"], stats["misses"]) == (
                turn * 2 * MOST, turn * 2 * (MOST - len(model))
            )  # fmt: skip
        assert files_of(lookup).counts().block_uses >= len(model)


def test_threads_while_files_are_released(tmp_path: Path, residency: Residency, seed: int) -> None:
    rng = random.Random(seed)
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id", partition_by="day")
    model = write(table, rng, evolve=False)
    for _ in range(2):
        lookup = TableLookup(table, key="id", build="always", residency=residency)

        def look_up(own: random.Random, lookup: TableLookup = lookup) -> None:
            numbers, keys = asked_of(own, ["id"], own.choice([1, 5, 300]))
            checked(lookup, model, numbers, keys)

        def release(lookup: TableLookup = lookup) -> None:
            opened = [one.give_way for one in lookup._slices.asked()]
            some = [rng.choice(opened)] if opened else []
            rng.choice([files_of(lookup).release, lookup.close, wait, *some])()

        looked_up_in_threads(look_up, release, seed)


def test_lookups_that_threads_make_at_the_same_time(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Each base file has one lookup, in one list."""
    rng = random.Random(seed)
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id")
    model = write(table, rng, evolve=False)
    lookup = TableLookup(table, build="always", residency=residency)
    plan = slice_lookups.plan_lookup_file

    def slowly(*arguments: Any) -> Any:
        time.sleep(0.01)
        return plan(*arguments)

    errors: list[BaseException] = []

    def look_up() -> None:
        try:
            keys = {"id": [number - MOST // 2 for number in range(MOST)]}
            found = lookup.lookup(keys, ["n"], found=True)
            assert found["found"].to_pylist() == [number in model for number in range(MOST)]
        except BaseException as error:
            errors.append(error)

    with monkeypatch.context() as patched:
        patched.setattr(slice_lookups, "plan_lookup_file", slowly)
        threads = [threading.Thread(target=look_up) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors
    files = [one.plan.source.uri for one in lookup._slices._groups[""].lookups]
    assert len(files) == len(set(files)) == len(table.file_groups())
