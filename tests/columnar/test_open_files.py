"""Open lookup files that answer a call together, compared with a dict, and with one by one."""

from __future__ import annotations

import gc
import logging
import os
import pickle
import random
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.forks import fork, in_child
from support.together import aged, answered_together, looked_up_in_threads, one_by_one, wait

from lookupstore.columnar import ColumnarFiles
from lookupstore.columnar.encoded_keys import EncodedKeys
from lookupstore.columnar.file_lookup import FileLookup
from lookupstore.columnar.open_files import OpenFiles
from lookupstore.errors import DuplicateKeyError
from lookupstore.hostcache.cache import Residency
from lookupstore.hostcache.counts import Counts
from lookupstore.hostcache.folder import COPY
from lookupstore.hostcache.lookup_files import LookupFiles, PinnedLookupFile
from lookupstore.sst import Reader, owners
from lookupstore.storage import descriptors
from lookupstore.store.local_files import files_of

pytestmark = pytest.mark.drawn(0.5)

#: Makes the columns of a key of a number, in the order of the numbers.
KEYS: dict[str, Callable[[int], dict[str, Any]]] = {
    "int": lambda number: {"k": number - 500},
    "text": lambda number: {"k": f"customer-{number:06}"},
    "two columns": lambda number: {"k": f"n{number // 40:03}", "l": number % 40 - 20},
}
TYPES = {
    "int": [pa.int64(), pa.int32()],
    "text": [pa.string(), pa.large_string()],
    "two columns": [pa.string()],
}
MOST = 1200
Model = list[tuple[str, dict[int, dict[str, Any]]]]


@pytest.fixture
def residency(tmp_path: Path) -> Residency:
    return Residency(tmp_path / "cache", quota=64 << 20)


@pytest.fixture(autouse=True)
def _told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="lookupstore")


def spans_of(rng: random.Random, shape: str) -> list[list[int]]:
    """Return the numbers of the keys of some files."""
    count = rng.randrange(1, 7)
    if shape == "overlapping":
        return [rng.sample(range(MOST), rng.randrange(300)) for _ in range(count)]
    if shape == "spread":  # no key is in two files, whose ranges overlap
        numbers = rng.sample(range(MOST), 900)
        return [numbers[at::count] for at in range(count)]
    cuts = sorted(rng.sample(range(MOST), count + 1))
    return [
        rng.sample(range(first, end), rng.randrange(end - first + 1))
        for first, end in pairwise(cuts)
    ]


def write_files(
    folder: Path, rng: random.Random, kind: str, spans: Sequence[Sequence[int]], *, evolve: bool
) -> Model:
    """Write files, and return the rows of each, by the numbers of their keys."""
    folder.mkdir(parents=True)
    model: Model = []
    for at, numbers in enumerate(spans):
        rows = {
            number: {"n": rng.choice([None, *range(9)]), "name": rng.choice(["", "ü", None])}
            for number in numbers
        }
        types = {"n": pa.int64(), "name": pa.string()}
        if evolve and rng.random() < 0.5:
            types["n"] = pa.int16()
        if evolve and rng.random() < 0.3:
            del types["name"]
            rows = {number: {**row, "name": None} for number, row in rows.items()}
        table = pa.Table.from_pylist(list(rows.values()), pa.schema(types))
        given = [KEYS[kind](number) for number in rows]
        for name in KEYS[kind](0):
            of = rng.choice(TYPES[kind]) if name == "k" and evolve else TYPES[kind][0]
            of = pa.int64() if name == "l" else of
            table = table.append_column(name, pa.array([one[name] for one in given], of))
        path = folder / f"{at}.parquet"
        pq.write_table(table, path, row_group_size=100)
        model.append((str(path), rows))
    return model


def asked_of(rng: random.Random, kind: str) -> tuple[list[int | None], dict[str, list[Any]]]:
    """Return numbers of keys, some of which are null or no file's, and the keys."""
    numbers: list[int | None] = [
        None if rng.random() < 0.02 else rng.randrange(MOST + 20)
        for _ in range(rng.choice([1, 5, 700]))
    ]
    empty = dict.fromkeys(KEYS[kind](0))
    keys = [empty if number is None else KEYS[kind](number) for number in numbers]
    return numbers, {name: [key[name] for key in keys] for name in empty}


def answers_of(
    model: Model, numbers: Sequence[int | None], rule: str
) -> list[tuple[str, dict[str, Any]] | None]:
    """Return the file and the row that answers each key."""
    order = model if rule == "last" else model[::-1]
    every = {number: (path, row) for path, rows in order for number, row in rows.items()}
    return [None if number is None else every.get(number) for number in numbers]


def checked(
    files: ColumnarFiles, keys: dict[str, list[Any]], expected: Sequence[tuple[str, Any] | None]
) -> None:
    """Compare the answers to some keys."""
    found = files.lookup(keys, found=True).to_pylist()
    assert files.contains(keys).to_pylist() == [one is not None for one in expected]
    for row, one in zip(found, expected, strict=True):
        assert row.pop("found") == (one is not None)
        assert row.pop("_file", None) == ((one and "position" in files.mode and one[0]) or None)
        row.pop("_pos", None)
        for name, value in row.items():
            assert value == (one and one[1][name])


@pytest.mark.parametrize("shape", ["disjoint", "spread", "overlapping"])
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("mode", ["value", "presence", "value_and_position"])
def test_open_files_answer_as_a_dict(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch, shape: str, kind: str,
    mode: Any, seed: int,
) -> None:  # fmt: skip
    rng = random.Random(seed)
    for turn in range(3):
        folder, evolve = tmp_path / f"t{turn}", rng.random() < 0.6
        model = write_files(folder, rng, kind, spans_of(rng, shape), evolve=evolve)
        if not any(rows for _, rows in model):
            continue
        rule: Any = rng.choice(["first", "last"]) if shape == "overlapping" else "error"
        where = rng.choice([None, None, "n > 3"]) if mode == "value" else None
        if where:
            model = [
                (path, {key: row for key, row in rows.items() if (row["n"] or 0) > 3})
                for path, rows in model
            ]
        with ColumnarFiles(
            folder, key=list(KEYS[kind](0)), mode=mode, on_duplicate=rule, where=where,
            residency=residency, build="always",
        ) as files:  # fmt: skip
            files.prepare()
            for _ in range(4):
                numbers, keys = asked_of(rng, kind)
                expected = answers_of(model, numbers, rule)
                with answered_together(monkeypatch, expected=True):
                    checked(files, keys, expected)
                    together = files.lookup(keys)
                with one_by_one(monkeypatch), answered_together(monkeypatch, expected=False):
                    checked(files, keys, expected)
                    assert together.equals(files.lookup(keys))


@pytest.fixture
def early_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of owners of few records are made soon, and shared."""
    monkeypatch.setattr(owners, "LEAST_BYTES", 0)
    monkeypatch.setattr(owners, "LOOKS_APART", 50)


def tables_of(files: ColumnarFiles) -> list[Any]:
    """Return the tables of owners in use."""
    return [one for tables in files._owners.values() for one in tables.in_use]


@pytest.mark.usefixtures("early_tables")
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("where", [None, "n > 3"])
def test_tables_of_owners_answer_as_a_dict(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch, kind: str,
    where: str | None, seed: int,
) -> None:  # fmt: skip
    """Keys are in several files, and files are added and removed between the calls."""
    rng = random.Random(seed)
    rule: Any = rng.choice(["first", "last"])
    spans = [rng.sample(range(MOST), 200 + rng.randrange(200)) for _ in range(9)]
    every = write_files(tmp_path / "all", rng, kind, spans, evolve=False)
    (tmp_path / "t").mkdir()
    numbers = set(range(7))
    for number in numbers:
        os.link(every[number][0], tmp_path / "t" / f"{number}.parquet")
    files = ColumnarFiles(
        tmp_path / "t", key=list(KEYS[kind](0)), mode="value_and_position" if where is None else
        "value", on_duplicate=rule, where=where, residency=residency, build="always",
    )  # fmt: skip
    for commit in range(3):
        files.prepare()
        aged(Path(residency.folder))
        model = [
            (
                str(tmp_path / "t" / f"{number}.parquet"),
                {
                    key: row
                    for key, row in every[number][1].items()
                    if where is None or (row["n"] or 0) > 3
                },
            )
            for number in sorted(numbers)
        ]
        for turn in range(20):
            asked, keys = asked_of(rng, kind)
            if turn % 2 == 0:  # enough keys for a table
                asked = [*range(MOST)]
                every_key = [KEYS[kind](number) for number in range(MOST)]
                keys = {name: [key[name] for key in every_key] for name in every_key[0]}
            with answered_together(monkeypatch, expected=True):
                checked(files, keys, answers_of(model, asked, rule))
        (table,) = tables_of(files)
        assert len(table.names) == 7
        removed, added = rng.choice(sorted(numbers)), 7 + commit
        if added < len(spans):
            numbers = numbers - {removed} | {added}
            (tmp_path / "t" / f"{removed}.parquet").unlink()
            os.link(every[added][0], tmp_path / "t" / f"{added}.parquet")
            files = files.newest()
    files.close()


@pytest.mark.usefixtures("early_tables")
def test_a_key_in_two_files_of_a_table_is_refused(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    spans = [[*range(at, 1000, 8)] for at in range(8)]
    spans[3].append(5)
    write_files(tmp_path / "t", rng, "int", spans, evolve=False)
    with ColumnarFiles(tmp_path / "t", key="k", residency=residency) as files:
        files.prepare()
        aged(Path(residency.folder))
        for _ in range(12):
            keys = [rng.randrange(6, 1000) - 500 for _ in range(700)]
            with answered_together(monkeypatch, expected=True):
                assert all(files.contains(keys).to_pylist())
        assert tables_of(files)
        said = r"the key k=-495 is in .*3\.parquet and in .*5\.parquet"
        with pytest.raises(DuplicateKeyError, match=said):
            files.lookup([-495, 7])


@pytest.mark.usefixtures("early_tables")
def test_a_table_that_is_cut_costs_no_answer(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    spans = [[*range(at, 1000, 8)] for at in range(8)]
    model = write_files(tmp_path / "t", rng, "int", spans, evolve=False)
    with ColumnarFiles(tmp_path / "t", key="k", residency=residency) as files:
        files.prepare()
        aged(Path(residency.folder))
        for _ in range(3):
            for _ in range(10):
                many = [rng.randrange(MOST) for _ in range(700)]
                keys = {"k": [number - 500 for number in many]}
                checked(files, keys, answers_of(model, many, "error"))
            assert tables_of(files)
            for path in Path(residency.folder).glob(f"*{COPY}"):
                if path.read_bytes()[-8:] == b"LSOWNER1":
                    os.truncate(path, 100)
            with answered_together(monkeypatch, expected=False):
                numbers, keys = asked_of(rng, "int")
                expected = answers_of(model, numbers, "error")
                found = files.lookup(keys, found=True)["found"].to_pylist()
                assert found == [one is not None for one in expected]


def test_a_key_in_two_files_is_refused(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """By the same error as if files are asked one by one; other keys are answered."""
    rng = random.Random(seed)
    spans = [range(300), range(299, 600), range(100, 110), range(700, 800)]
    model = write_files(tmp_path / "t", rng, "int", list(map(list, spans)), evolve=False)
    options: dict[str, Any] = {"key": "k", "residency": residency}
    twice = {299, *range(100, 110)}
    with ColumnarFiles(tmp_path / "t", **options) as files:
        files.prepare()
        numbers = [number for number in range(900) if number not in twice]
        with answered_together(monkeypatch, expected=True):
            keys = {"k": [number - 500 for number in numbers]}
            checked(files, keys, answers_of(model, numbers, "error"))
        for number, one, other in ((299, 0, 1), (105, 0, 2)):
            said = rf"the key k={number - 500} is in .*{one}\.parquet and in .*{other}\.parquet"
            with pytest.raises(DuplicateKeyError, match=said) as raised:
                files.lookup([number - 500, 5])
            with one_by_one(monkeypatch), pytest.raises(DuplicateKeyError) as slow:
                files.lookup([number - 500, 5])
            assert str(raised.value) == str(slow.value)
            with pytest.raises(DuplicateKeyError, match=said):
                files.contains([number - 500])


def test_files_that_cannot_have_the_keys_may_be_closed(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The log of a Delta table has the least and greatest key of each file."""
    deltalake = pytest.importorskip("deltalake")
    rng = random.Random(seed)
    for first in range(0, 1000, 100):
        rows = pa.table({"k": range(first, first + 100), "n": range(first, first + 100)})
        deltalake.write_deltalake(tmp_path / "t", rows, mode="append")
    with ColumnarFiles(tmp_path / "t", key="k", build="always", residency=residency) as files:
        keys = [rng.randrange(300, 500) for _ in range(100)]
        with answered_together(monkeypatch, expected=False):
            assert files.lookup(keys)["n"].to_pylist() == keys
        with answered_together(monkeypatch, expected=True):
            assert files.lookup(keys)["n"].to_pylist() == keys
        assert files.info().lookup_files == 2
        keys.append(705)  # for another file, which is opened when the files are asked one by one
        with answered_together(monkeypatch, expected=False):
            assert files.lookup(keys)["n"].to_pylist() == keys
        with answered_together(monkeypatch, expected=True):
            assert files.lookup(keys)["n"].to_pylist() == keys
        assert files.info().lookup_files == 3


def test_lookup_files_of_this_host_are_opened(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The first call of a process answers from all files together, unless one was not made."""
    deltalake = pytest.importorskip("deltalake")
    rng = random.Random(seed)
    for first in range(0, 1000, 100):
        rows = pa.table({"k": range(first, first + 100), "n": range(first, first + 100)})
        deltalake.write_deltalake(tmp_path / "t", rows, mode="append")
    with ColumnarFiles(tmp_path / "t", key="k", residency=residency) as files:
        files.prepare()
    few = [299, 300, 499]
    with ColumnarFiles(tmp_path / "t", key="k", residency=residency) as files:
        with answered_together(monkeypatch, expected=True):
            assert files.lookup([None])["n"].to_pylist() == [None]
            assert files.lookup(few)["n"].to_pylist() == few
        assert sum(one.open_reader is not None for one in files._lookups) == 3
        keys = [rng.randrange(1100) for _ in range(500)]
        with answered_together(monkeypatch, expected=True):
            expected = [key if key < 1000 else None for key in keys]
            assert files.lookup(keys)["n"].to_pylist() == expected
        assert all(one.open_reader is not None for one in files._lookups)
    bounds = EncodedKeys(few, files.key_schema).bounds(files.key_schema)
    assert bounds is not None
    near = [one for one in files._lookups if not one.is_apart(*bounds)]
    assert len(near) == 3
    residency.lookup_files.discard(near[1].names.made[0])
    with ColumnarFiles(tmp_path / "t", key="k", build="always", residency=residency) as files:
        with answered_together(monkeypatch, expected=False):
            assert files.lookup(few)["n"].to_pylist() == few
        with answered_together(monkeypatch, expected=True):
            assert files.lookup(few)["n"].to_pylist() == few


def test_each_file_is_opened_once_if_not_all_may_be_open(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Files that the next ones of the same call close are not opened for all of them together."""
    deltalake = pytest.importorskip("deltalake")
    rng = random.Random(seed)
    for first in range(0, 1000, 100):
        rows = pa.table({"k": range(first, first + 100), "n": range(first, first + 100)})
        deltalake.write_deltalake(tmp_path / "t", rows, mode="append")
    with ColumnarFiles(tmp_path / "t", key="k", residency=residency) as files:
        files.prepare()
    pins: Counter[str] = Counter()
    real = LookupFiles.pin

    def pin(lookup_files: LookupFiles, name: str) -> PinnedLookupFile | None:
        pins[name] += 1
        return real(lookup_files, name)

    monkeypatch.setattr(LookupFiles, "pin", pin)
    monkeypatch.setattr(descriptors, "holders", {})  # those of other tests do not count
    monkeypatch.setattr(descriptors, "total", 0)
    monkeypatch.setattr(descriptors, "most", partial(int, 4))
    with ColumnarFiles(tmp_path / "t", key="k", residency=residency) as files:
        for _ in range(3):
            pins.clear()
            keys = [*range(0, 1000, 100), *(rng.randrange(1000) for _ in range(100))]
            with answered_together(monkeypatch, expected=False):
                assert files.lookup(keys)["n"].to_pylist() == keys
            assert set(pins.values()) == {1}
        few = [rng.randrange(200) for _ in range(50)]
        with answered_together(monkeypatch, expected=True):
            assert files.lookup(few)["n"].to_pylist() == few


def test_no_file_is_open_if_none_was_made(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    model = write_files(tmp_path / "t", rng, "int", [[1, 2], [3]], evolve=False)
    with ColumnarFiles(tmp_path / "t", key="k", build="never", residency=residency) as files:
        keys = {"k": [number - 500 for number in range(5)]}
        with answered_together(monkeypatch, expected=False):
            checked(files, keys, answers_of(model, range(5), "error"))


def test_a_copy_that_becomes_complete_is_used_with_the_others(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Nothing is opened at that moment, so the next call finds out."""
    rng = random.Random(seed)
    model = write_files(tmp_path / "t", rng, "int", [[1, 2], [3]], evolve=False)
    with ColumnarFiles(tmp_path / "t", key="k", build="always", residency=residency) as files:
        files.prepare()
        keys = {"k": [number - 500 for number in range(5)]}
        expected = answers_of(model, range(5), "error")
        waiting = [files._lookups[1]]
        of_file = vars(FileLookup)["open_reader"].fget
        complete = property(lambda one: None if one in waiting else of_file(one))
        monkeypatch.setattr(FileLookup, "open_reader", complete)
        for _ in range(2):
            with answered_together(monkeypatch, expected=False):
                checked(files, keys, expected)
        waiting.clear()
        checked(files, keys, expected)
        with answered_together(monkeypatch, expected=True):
            checked(files, keys, expected)


def opened(files: ColumnarFiles) -> OpenFiles | None:
    return files._together.files


def test_released_files_are_not_kept(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Nothing refers to files that were released or closed, and the next calls open them again."""
    rng = random.Random(seed)
    model = write_files(tmp_path / "t", rng, "int", spans_of(rng, "spread"), evolve=False)
    with ColumnarFiles(tmp_path / "t", key="k", build="always", residency=residency) as files:
        numbers, keys = asked_of(rng, "int")
        expected = answers_of(model, numbers, "error")
        files.prepare()
        for leave in (
            files_of(files).release, files.close,
            lambda: files._lookups[0].release(), lambda: files._lookups[-1].give_way(),
        ):  # fmt: skip
            with answered_together(monkeypatch, expected=True):
                checked(files, keys, expected)
            kept = opened(files)
            assert kept is not None
            readers = [weakref.ref(lookup.reader()) for lookup in files._lookups]
            of_them, kept = weakref.ref(kept), None
            leave()
            assert opened(files) is None
            gc.collect()
            assert of_them() is None
            gone = [one() is None for one in readers]
            assert all(gone) or (leave not in (files.close, files_of(files).release) and any(gone))
            checked(files, keys, expected)
            files.prepare()


def test_a_damaged_lookup_file_is_made_again(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture, seed: int,
) -> None:  # fmt: skip
    rng = random.Random(seed)
    for shape in ("disjoint", "spread"):
        spans = [one for one in spans_of(rng, shape) if one] or [[7]]
        model = write_files(tmp_path / shape, rng, "int", spans, evolve=False)
        with ColumnarFiles(tmp_path / shape, key="k", build="always", residency=residency) as (
            files
        ):
            files.prepare()
            damaged = rng.choice(files._lookups)
            path = damaged.reader().path
            content = bytearray(Path(path).read_bytes())
            content[3] ^= 64  # in the first block, which was not read
            Path(path).write_bytes(content)
            numbers = [*range(MOST)]
            keys = {"k": [number - 500 for number in numbers]}
            caplog.clear()
            with answered_together(monkeypatch, expected=False):
                files.lookup(keys)
            said = [record.getMessage() for record in caplog.records]
            assert any("the files are asked one by one" in one for one in said)
            assert any("removed: the lookup file is built again" in one for one in said)
            with answered_together(monkeypatch, expected=True):
                checked(files, keys, answers_of(model, numbers, "error"))


def test_counts_of_the_files_are_those_of_their_readers(
    tmp_path: Path, residency: Residency, seed: int
) -> None:
    rng = random.Random(seed)
    spans = [list(range(400)), list(range(400, 800))]
    write_files(tmp_path / "t", rng, "int", spans, evolve=False)
    with ColumnarFiles(tmp_path / "t", key="k", build="always", residency=residency) as files:
        files.prepare()
        before = files.stats()
        assert before["keys"] == 0
        files.lookup({"k": [number - 500 for number in range(1000)]})
        after = files.stats()
        assert (after["keys"], after["misses"]) == (1000, 200)
        read: Counts = files_of(files).counts()
        assert read.block_uses >= 800
        assert read.block_uses + after["filter_negatives"] <= 1000
        files.close()
        assert files.stats() == after  # counts of files that were closed are kept


def test_a_file_that_another_thread_closes_during_a_lookup(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"k": [1, 2], "v": [10, 20]}), tmp_path / "t.parquet")
    with ColumnarFiles(tmp_path / "t.parquet", key="k", build="always", residency=residency) as one:
        one.prepare()
        (lookup,) = one._lookups
        for name in ("_ready", "reader"):
            asked = getattr(FileLookup, name)
            closing = [True]

            def closed(self: FileLookup, asked: Any = asked, closing: list[bool] = closing) -> Any:
                found = asked(self)
                if closing and closing.pop():
                    self.close()
                return found

            with monkeypatch.context() as patched:
                patched.setattr(FileLookup, name, closed)
                if name == "reader":
                    patched.setattr(FileLookup, "_ready", lambda self: None)
                encoded = one.key_schema.encode([pa.array([2, 3])])
                places, _ = lookup.lookup(encoded)
            assert places.tolist() == [0], name
            assert not closing, name


def test_threads_while_files_are_released(tmp_path: Path, residency: Residency, seed: int) -> None:
    rng = random.Random(seed)
    model = write_files(tmp_path / "t", rng, "int", spans_of(rng, "spread"), evolve=False)
    with ColumnarFiles(tmp_path / "t", key="k", build="always", residency=residency) as files:
        files.prepare()

        def look_up(own: random.Random) -> None:
            numbers, keys = asked_of(own, "int")
            checked(files, keys, answers_of(model, numbers, "error"))

        def release() -> None:
            one = rng.choice(files._lookups)
            rng.choice([files_of(files).release, files.close, one.give_way, wait])()

        looked_up_in_threads(look_up, release, seed)


@fork
def test_children_of_fork_and_pickles_answer(
    tmp_path: Path, residency: Residency, seed: int
) -> None:
    rng = random.Random(seed)
    model = write_files(tmp_path / "t", rng, "int", spans_of(rng, "spread"), evolve=False)
    with ColumnarFiles(tmp_path / "t", key="k", build="always", residency=residency) as files:
        files.prepare()
        numbers, keys = asked_of(rng, "int")
        expected = answers_of(model, numbers, "error")
        checked(files, keys, expected)
        assert opened(files) is not None

        def work() -> bool:
            checked(files, keys, expected)
            files_of(files).release()
            checked(files, keys, expected)
            return True

        assert in_child(work)
        checked(files, keys, expected)
        with pickle.loads(pickle.dumps(files)) as other:
            assert opened(other) is None
            checked(other, keys, expected)


def test_a_file_released_while_the_others_are_opened_is_not_kept(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    model = write_files(tmp_path / "t", rng, "int", [[1, 2], [3, 4]], evolve=False)
    with ColumnarFiles(tmp_path / "t", key="k", build="always", residency=residency) as files:
        files.prepare()
        begin = OpenFiles.__init__

        def begun(self: OpenFiles, plans: Any, readers: dict[int, Reader], **rest: Any) -> None:
            begin(self, plans, readers, **rest)
            files._lookups[1].release()

        keys = {"k": [number - 500 for number in range(6)]}
        with monkeypatch.context() as patched:
            patched.setattr(OpenFiles, "__init__", begun)
            checked(files, keys, answers_of(model, range(6), "error"))
            assert opened(files) is None
        checked(files, keys, answers_of(model, range(6), "error"))
