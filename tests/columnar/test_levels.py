"""Lookups in columnar files by level, compared with a dict of the newest row of each key."""

from __future__ import annotations

import datetime
import logging
import os
import pickle
import random
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs, orc
from support.object_store import BUCKET, ObjectStore, writable_object_store
from support.together import aged, answered_together, looked_up_in_threads, one_by_one, wait

from lookupstore.columnar import ColumnarFiles, Levels, rent
from lookupstore.errors import (
    CorruptionError,
    DuplicateKeyError,
    FormatError,
    StaleStoreError,
)
from lookupstore.hostcache.cache import Residency
from lookupstore.sst import owners
from lookupstore.storage.uris import open_uri
from lookupstore.store.local_files import files_of

MAKING = "building a lookup file"
KIND = "_VALUE_KIND"
KEYS = 400

#: Types of the first key field, each with what makes a key of a number; the order is that of
#: numbers.
KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "int64": (pa.int64(), lambda i: i - KEYS // 2),
    "int32": (pa.int32(), lambda i: 3 * i - 500),
    "text": (pa.string(), lambda i: f"é{i:06d}" + "x" * (i % 9)),
    "date": (pa.date32(), lambda i: datetime.date(1969, 6, 1) + datetime.timedelta(i)),
    "double": (pa.float64(), lambda i: i / 8 - 7),
}


@pytest.fixture
def residency(tmp_path: Path) -> Residency:
    return Residency(tmp_path / "cache", quota=64 << 20)


@pytest.fixture(autouse=True)
def _told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="lookupstore")


def made(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the names of the files for which lookup files have been made since the last call."""
    names = [
        os.path.basename(record.args[0])  # type: ignore[index,arg-type]
        for record in caplog.records
        if MAKING in record.msg
    ]
    caplog.clear()
    return sorted(names)


def write(path: Path, rows: dict[str, list[Any]], types: pa.Schema, **options: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(rows, schema=types)
    if path.suffix == ".orc":
        orc.write_table(table, path)
    else:
        pq.write_table(table, path, **options)
    return str(path)


class RandomLevels:
    """Levels of random rows: files, and what the newest row of each key is from each level on.

    Attributes:
        level0: paths, the newest first.
        levels: paths of each level after it.
        rows: by level and key, in the order of a search: the path, the row there, and the kind.
    """

    def __init__(self, folder: Path, rng: random.Random, kind: str, *, kinds: bool) -> None:
        self.folder = folder
        self.rng = rng
        self.type, self.key = KINDS[kind]
        self.kinds = kinds
        self.level0: list[str] = []
        self.levels: list[list[str]] = []
        self.rows: list[dict[int, tuple[str, int, int, Any]]] = []
        self.number = 0
        found: dict[int, tuple[str, int, int, Any]] = {}
        for _ in range(rng.randrange(4)):
            numbers = rng.sample(range(KEYS), rng.randrange(1, KEYS // 2))
            path = self.file(numbers, found)
            self.level0.append(path)
        self.rows.append(found)
        for _ in range(rng.randrange(2, 4)):
            found = {}
            numbers = sorted(rng.sample(range(KEYS), rng.randrange(KEYS)))
            cuts = sorted(rng.sample(range(KEYS), rng.randrange(4)))
            parts: dict[int, list[int]] = {}
            for number in numbers:
                parts.setdefault(sum(number >= cut for cut in cuts), []).append(number)
            paths = [self.file(part, found) for part in parts.values()]
            rng.shuffle(paths)
            self.levels.append(paths)
            self.rows.append(found)
        if not any([self.level0, *self.levels]):
            self.level0.append(self.file([3, 5], self.rows[0]))

    def file(self, numbers: list[int], found: dict[int, tuple[str, int, int, Any]]) -> str:
        """Write rows with these keys, and note those that are the newest of their level so far."""
        rng = self.rng
        # Files of level 0 are in any order of keys, too.
        has_kinds = self.kinds and rng.random() < 0.8
        kinds = [rng.choice((0, 1, 2, 3, 0, 2)) if has_kinds else 0 for _ in numbers]
        values = [rng.choice((None, rng.randrange(1000))) for _ in numbers]
        rows = {"id": [self.key(i) for i in numbers], "v": values, "w": [f"w{i}" for i in values]}
        types = pa.schema({"id": self.type, "v": pa.int64(), "w": pa.string()})
        if has_kinds:
            rows[KIND] = kinds
            types = types.append(pa.field(KIND, pa.int8()))
        suffix = rng.choice((".parquet", ".parquet", ".orc"))
        bloom = {"id": {"ndv": 100, "fpp": 0.05}} if rng.random() < 0.5 else None
        options = {"row_group_size": rng.choice([7, 60, 500]), "bloom_filter_options": bloom}
        path = self.folder / f"{self.number}{suffix}"
        self.number += 1
        write(path, rows, types, **options)
        for at, number in enumerate(numbers):
            found.setdefault(number, (str(path), at, kinds[at], (values[at], f"w{values[at]}")))
        return str(path)

    def newest(self, number: int, start_level: int) -> tuple[str, int, Any] | None:
        """Return path, position and values of the newest row of a key; None if there is none."""
        for rows in self.rows[start_level:]:
            if number in rows:
                path, at, kind, values = rows[number]
                return None if kind in (1, 3) else (path, at, values)
        return None


@pytest.mark.few(5)
@pytest.mark.parametrize("build", rent.BUILDS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_newest_row_of_a_key(
    tmp_path: Path, residency: Residency, kind: str, build: rent.Build, seed: int
) -> None:
    rng = random.Random(seed)
    made = RandomLevels(tmp_path / "files", rng, kind, kinds=rng.random() < 0.8)
    model = {number: made.newest(number, 0) for number in range(KEYS)}
    options: dict[str, Any] = {"key": "id", "build": build, "residency": residency}
    with Levels(made.level0, made.levels, memory=64 << 10, **options) as levels:
        assert levels.value_schema.names == ["v", "w"]
        assert levels.num_levels == 1 + len(made.levels)
        for start in range(levels.num_levels):
            for count in (1, 3, 300):
                asked = [rng.randrange(-9, KEYS + 9) for _ in range(count)]
                keys = pa.array([made.key(number) for number in asked] + [None], made.type)
                rows = [made.newest(number, start) for number in asked] + [None]
                got = levels.lookup(keys, found=True, start_level=start)
                assert got["found"].to_pylist() == [row is not None for row in rows]
                expected = [(None, None) if row is None else row[2] for row in rows]
                assert list(zip(*(got[n].to_pylist() for n in "vw"), strict=True)) == expected
                present = levels.contains(keys, start_level=start)
                assert present.to_pylist() == got["found"].to_pylist()
        again = pickle.loads(pickle.dumps(levels))
        assert again == levels
        live = [number for number, row in model.items() if row is not None]
        if build == "always":
            keys = [made.key(number) for number in live]
            assert list(levels) == keys
            scanned = again.scan(reverse=True).read_all()
            assert scanned["id"].to_pylist() == keys[::-1]
            assert scanned["v"].to_pylist() == [model[number][2][0] for number in live[::-1]]  # type: ignore[index]
            low, high = sorted(rng.sample(range(KEYS), 2))
            part = levels.scan(start=made.key(low), stop=made.key(high), columns=["w"]).read_all()
            assert part["id"].to_pylist() == [made.key(i) for i in live if low <= i < high]
            assert levels.verify().lookup_files == levels.num_files
        for number in rng.sample(range(KEYS), 5):
            row = model[number]
            expected_row = None if row is None else dict(zip("vw", row[2], strict=True))
            assert levels.get(made.key(number)) == expected_row


def asked_of(made: RandomLevels, count: int) -> tuple[list[int], pa.Array]:
    """Return numbers of keys, some of which no file has, and the keys with a null after them."""
    numbers = [made.rng.randrange(-9, KEYS + 9) for _ in range(count)]
    return numbers, pa.array([made.key(number) for number in numbers] + [None], made.type)


def checked(levels: Levels, made: RandomLevels, numbers: list[int], keys: pa.Array) -> None:
    """Compare the answers to some keys with the newest rows, from each level on."""
    for start in range(levels.num_levels):
        rows = [made.newest(number, start) for number in numbers] + [None]
        got = levels.lookup(keys, found=True, start_level=start)
        assert got["found"].to_pylist() == [row is not None for row in rows]
        assert levels.contains(keys, start_level=start).to_pylist() == got["found"].to_pylist()
        for at, name in enumerate("vw"):
            if name in got.column_names:
                assert got[name].to_pylist() == [row and row[2][at] for row in rows]
        if "_file" in got.column_names:
            assert got["_file"].to_pylist() == [row and row[0] for row in rows]
            assert got["_pos"].to_pylist() == [row and row[1] for row in rows]


@pytest.mark.few(5)
@pytest.mark.parametrize("mode", ["value", "value_and_position", "presence"])
@pytest.mark.parametrize("kind", KINDS)
def test_open_files_answer_together(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch, kind: str, mode: Any,
    seed: int,
) -> None:  # fmt: skip
    """The same as one by one, with and without tables of owners."""
    monkeypatch.setattr(owners, "LEAST_BYTES", 0)
    monkeypatch.setattr(owners, "LOOKS_APART", 50)
    rng = random.Random(seed)
    for turn in range(3):
        made = RandomLevels(tmp_path / f"{turn}", rng, kind, kinds=rng.random() < 0.7)
        with Levels(
            made.level0, made.levels, key="id", mode=mode, residency=residency
        ) as levels:  # fmt: skip
            levels.prepare()
            aged(Path(residency.folder))
            for count in (1, 5, 300, 300, 300, 300):
                numbers, keys = asked_of(made, count)
                with answered_together(monkeypatch, expected=True):
                    checked(levels, made, numbers, keys)
                    together = levels.lookup(keys)
                with one_by_one(monkeypatch):
                    checked(levels, made, numbers, keys)
                    assert together.equals(levels.lookup(keys))


def test_files_without_lookup_files_are_asked_one_by_one(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of levels that are left out, or that cannot have the keys, do not count."""
    types = pa.schema({"id": pa.int64(), "v": pa.int64()})
    low, high = (
        write(tmp_path / f"{i}.parquet", {"id": [10 * i, 10 * i + 5], "v": [i, i]}, types)
        for i in range(2)
    )
    new = write(tmp_path / "new.parquet", {"id": [0, 10], "v": [7, 8]}, types)
    with Levels([new], [[low, high]], key="id", build="always", residency=residency) as levels:
        with answered_together(monkeypatch, expected=False):
            assert levels.lookup([5], start_level=1)["v"].to_pylist() == [0]
        with answered_together(monkeypatch, expected=True):
            assert levels.lookup([0, 5, 7], start_level=1)["v"].to_pylist() == [0, 0, None]
            assert levels.contains([None, 3], start_level=2).to_pylist() == [False, False]
        for expected in (False, True):
            with answered_together(monkeypatch, expected=expected):
                assert levels.lookup([0, 5])["v"].to_pylist() == [7, 0]
        assert levels.info().lookup_files == 2
        levels.prepare()
        with answered_together(monkeypatch, expected=True):
            assert levels.lookup([10, 15, 0])["v"].to_pylist() == [8, 1, 7]


def test_a_key_in_two_open_files_of_a_level(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a level that decides a key refuses it, by the same error as one by one."""
    types = pa.schema({"id": pa.float64(), "v": pa.int64(), KIND: pa.int8()})
    given = [([5.0], [3]), ([1.0, 5.0, 7.0], [0, 0, 9]), ([5.0, 9.0], [0, 0])]
    new, *paths = [
        write(tmp_path / f"{at}.parquet", {"id": ids, "v": ids, KIND: kinds}, types)
        for at, (ids, kinds) in enumerate(given)
    ]
    said = r"id=5\.0 is in .*1\.parquet and in .*2\.parquet, two files of level 1"
    with Levels([new], [paths], key="id", residency=residency) as levels:
        levels.prepare()
        with answered_together(monkeypatch, expected=True):
            assert levels.lookup([1.0, 5.0, 9.0])["v"].to_pylist() == [1, None, 9]
        errors = []
        for way in (nullcontext(), one_by_one(monkeypatch)):
            with way, pytest.raises(DuplicateKeyError, match=said) as raised:
                levels.lookup([5.0, 9.0], start_level=1)
            errors.append(str(raised.value))
        assert errors[0] == errors[1]
    with Levels(paths, key="id", residency=residency) as levels:  # both are in level 0
        levels.prepare()
        with answered_together(monkeypatch, expected=True):
            assert levels.contains([1.0, 5.0, 9.0]).to_pylist() == [True] * 3
        with pytest.raises(CorruptionError, match=r"1\.parquet.*row kinds from 0 to 3"):
            levels.contains([7.0])


def test_threads_while_files_of_levels_are_released(
    tmp_path: Path, residency: Residency, seed: int
) -> None:
    rng = random.Random(seed)
    made = RandomLevels(tmp_path / "files", rng, "int64", kinds=True)
    with Levels(
        made.level0, made.levels, key="id", build="always", residency=residency
    ) as levels:  # fmt: skip
        levels.prepare()
        asked = [asked_of(made, 200) for _ in range(9)]

        def look_up(own: random.Random) -> None:
            checked(levels, made, *own.choice(asked))

        def release() -> None:
            one = rng.choice(levels._lookups)
            rng.choice([files_of(levels).release, levels.close, one.give_way, wait])()

        looked_up_in_threads(look_up, release, seed)


@pytest.mark.parametrize("mode", ["position", "value_and_position", "presence"])
@pytest.mark.parametrize("build", rent.BUILDS)
def test_modes(
    tmp_path: Path, residency: Residency, mode: Any, build: rent.Build, seed: int
) -> None:
    rng = random.Random(seed)
    made = RandomLevels(tmp_path / "files", rng, rng.choice(list(KINDS)), kinds=True)
    columns = ["w"] if mode == "value_and_position" and rng.random() < 0.5 else None
    levels = Levels(
        made.level0, made.levels, key="id", mode=mode, columns=columns, build=build,
        residency=residency,
    )  # fmt: skip
    asked = [rng.randrange(KEYS) for _ in range(300)]
    keys = [made.key(number) for number in asked]
    rows = [made.newest(number, 0) for number in asked]
    got = levels.lookup(pa.array(keys, made.type), found=True)
    assert got["found"].to_pylist() == [row is not None for row in rows]
    if mode == "presence":
        assert got.column_names == ["found"]
        return
    places = list(zip(got["_file"].to_pylist(), got["_pos"].to_pylist(), strict=True))
    assert places == [(None, None) if row is None else row[:2] for row in rows]
    wanted = {"position": [], "value_and_position": ["v", "w"] if columns is None else ["w"]}[mode]
    assert got.column_names == [*wanted, "_file", "_pos", "found"]
    for name in wanted:
        expected = [None if row is None else row[2]["vw".index(name)] for row in rows]
        assert got[name].to_pylist() == expected


def test_keys_of_two_fields_that_share_a_row_group(
    tmp_path: Path, residency: Residency, seed: int
) -> None:
    rng = random.Random(seed)
    pairs = [(i, f"{j}") for i in range(20) for j in range(5)]
    types = pa.schema({"a": pa.int32(), "b": pa.string(), "v": pa.int64()})
    cut = rng.randrange(1, len(pairs) - 1)  # mostly within the pairs of one number
    paths = []
    for number, part in enumerate((pairs[:cut], pairs[cut:])):
        rows = {"a": [a for a, _ in part], "b": [b for _, b in part], "v": list(range(len(part)))}
        path = tmp_path / f"{number}.parquet"
        paths.append(write(path, rows, types, row_group_size=rng.randrange(1, 9)))
    with Levels([], [paths], key=["a", "b"], residency=residency) as levels:
        got = levels.lookup(pairs, found=True)
        assert got["v"].to_pylist() == [*range(cut), *range(len(pairs) - cut)]
        assert levels.lookup([(3, "x"), (99, "0")], found=True)["found"].to_pylist() == [False] * 2


def test_files_outside_of_the_range_are_not_touched(
    tmp_path: Path, residency: Residency, caplog: pytest.LogCaptureFixture
) -> None:
    types = pa.schema({"id": pa.int64(), "v": pa.int64()})
    runs = [
        write(tmp_path / f"{i}.parquet", {"id": [10 * i, 10 * i + 5], "v": [i, i]}, types)
        for i in range(5)
    ]
    new = write(tmp_path / "new.parquet", {"id": [21], "v": [7]}, types)
    with Levels([new], [runs], key="id", build="always", residency=residency) as levels:
        assert levels.lookup([20, 25, 29])["v"].to_pylist() == [2, 2, None]
        assert made(caplog) == ["2.parquet"]
        # What level 0 has decided, no level below is asked for.
        assert levels.lookup([21])["v"].to_pylist() == [7]
        assert made(caplog) == ["new.parquet"]
        assert levels.lookup([99, -1])["v"].to_pylist() == [None, None]
        assert made(caplog) == []
        assert levels.info().lookup_files == 2
        levels.prepare()
        assert made(caplog) == ["0.parquet", "1.parquet", "3.parquet", "4.parquet"]


def test_a_wider_type_in_a_newer_level(tmp_path: Path, residency: Residency) -> None:
    narrow = pa.schema({"id": pa.int8(), "v": pa.int8()})
    wide = pa.schema({"id": pa.int64(), "v": pa.int64(), "more": pa.string()})
    old = write(tmp_path / "old.parquet", {"id": [1, 2], "v": [10, 20]}, narrow)
    rows = {"id": [2, 1 << 40], "v": [1 << 50, 3], "more": ["x", "y"]}
    new = write(tmp_path / "new.parquet", rows, wide)
    with Levels([new], [old], key="id", residency=residency) as levels:
        assert levels.schema.names == ["id", "v", "more"]
        got = levels.lookup([1, 2, 1 << 40, 300])
        assert got["v"].to_pylist() == [10, 1 << 50, 3, None]
        assert got["more"].to_pylist() == [None, "x", "y", None]


def test_keys_are_those_of_the_files_alone(tmp_path: Path, residency: Residency) -> None:
    """A key column that may be null in a file is not null as a key: no row of it is looked up."""
    types = pa.schema({"id": pa.int64(), "name": pa.string()})
    path = write(tmp_path / "a.parquet", {"id": [1, 2], "name": ["x", "y"]}, types)
    for key in ("id", ["name", "id"]):
        with (
            Levels([path], key=key, residency=residency) as levels,
            ColumnarFiles(path, key=key, residency=residency) as files,
        ):
            assert levels.key_schema == files.key_schema
            assert levels.key_schema.nullable == ()


def two(tmp_path: Path, first: list[int], second: list[int], **options: Any) -> list[str]:
    types = pa.schema({"id": pa.int64()})
    return [
        write(tmp_path / f"{name}.parquet", {"id": ids}, types, **options)
        for name, ids in (("a", first), ("b", second))
    ]


def test_a_level_that_is_no_sorted_run(tmp_path: Path, residency: Residency) -> None:
    paths = two(tmp_path, [1, 5], [5, 9])
    with pytest.raises(FormatError, match=r"a\.parquet and .*b\.parquet of level 1 overlap.*to 5"):
        Levels([], [paths], key="id")
    assert Levels(paths, key="id", residency=residency).contains([5]).to_pylist() == [True]
    mixed = write(
        tmp_path / "c.parquet", {"id": [3, 1]}, pa.schema({"id": pa.int64()}), row_group_size=1
    )
    with pytest.raises(FormatError, match=r"c\.parquet of level 2 is not sorted.*ends at 3"):
        Levels([], [paths[:1], mixed], key="id")


@pytest.mark.parametrize("suffix", [".parquet", ".orc"])
def test_a_key_in_two_files_that_say_no_range(
    tmp_path: Path, residency: Residency, suffix: str
) -> None:
    types = pa.schema({"id": pa.float64()})
    paths = [
        write(tmp_path / f"{name}{suffix}", {"id": ids}, types)
        for name, ids in (("a", [1.0, 5.0]), ("b", [5.0, 9.0]))
    ]
    with Levels([], [[], paths], key="id", residency=residency) as levels:
        assert levels.contains([1.0, 9.0, 2.0]).to_pylist() == [True, True, False]
        with pytest.raises(DuplicateKeyError, match=r"id=5\.0 is in .*a\..*b\..* of level 2; give"):
            levels.contains([1.0, 5.0])
        with pytest.raises(DuplicateKeyError, match="of level 2"):
            list(levels)


def test_a_key_twice_in_a_file(tmp_path: Path, residency: Residency) -> None:
    (path, _) = two(tmp_path, [7, 7], [1])
    for build in rent.BUILDS:
        with (
            Levels([path], key="id", build=build, residency=residency) as levels,
            pytest.raises(DuplicateKeyError, match=r"a\.parquet: the key id=7 .*; a key may be"),
        ):
            levels.contains([7])


@pytest.mark.parametrize("kinds", [[0, 4], [None, 0], [-1, 0]])
@pytest.mark.parametrize("build", rent.BUILDS)
def test_a_row_kind_that_there_is_not(
    tmp_path: Path, residency: Residency, kinds: list[int | None], build: rent.Build
) -> None:
    types = pa.schema({"id": pa.int64(), KIND: pa.int8()})
    path = write(tmp_path / "a.parquet", {"id": [1, 2], KIND: kinds}, types)
    with (
        Levels([path], key="id", build=build, residency=residency) as levels,
        pytest.raises(CorruptionError, match=r"a\.parquet.*row kinds from 0 to 3"),
    ):
        levels.contains([1, 2])


def test_a_file_that_is_gone(tmp_path: Path, residency: Residency) -> None:
    old, new = two(tmp_path, list(range(1000)), list(range(500)))
    with Levels([new], [old], key="id", build="always", residency=residency) as levels:
        Path(old).unlink()
        assert levels.contains([3]).to_pylist() == [True]
        with pytest.raises(StaleStoreError, match=r"a\.parquet"):
            levels.contains([700])


@pytest.mark.parametrize("build", ["always", "never"])
def test_damaged_files(tmp_path: Path, residency: Residency, build: rent.Build, seed: int) -> None:
    rng = random.Random(seed)
    errors = []
    old, new = two(tmp_path, list(range(1000)), list(range(500)), write_page_checksum=True)
    pages = pq.ParquetFile(new).metadata.row_group(0).column(0)
    content = Path(new).read_bytes()
    for at in [rng.randrange(pages.total_compressed_size) for _ in range(30)]:
        damaged = bytearray(content)
        damaged[4 + at] ^= 1 << rng.randrange(8)
        Path(new).write_bytes(damaged)
        try:
            with Levels([new], [old], key="id", build=build, residency=residency) as levels:
                answer = levels.lookup([3, 700, 2000], found=True)["found"].to_pylist()
        except CorruptionError as error:
            errors.append(str(error))
        else:  # a byte of a header that says nothing of rows
            assert answer == [True, True, False]
    assert errors
    assert all("b.parquet" in error for error in errors)
    Path(new).write_bytes(content[: rng.randrange(len(content))])
    with pytest.raises(CorruptionError, match=r"b\.parquet"):
        Levels([new], [old], key="id", build=build)


@pytest.mark.parametrize(
    ("level0", "levels", "options", "kind", "error"),
    [
        ([], [], {}, ValueError, "level0 and levels name no files"),
        ([], [[], []], {}, ValueError, "level0 and levels name no files"),
        (["."], [], {}, ValueError, "level0: .* names 2 files, and not which is newer; list them"),
        (["a.parquet"], ["a.parquet"], {}, ValueError, "a.parquet is given twice"),
        (["a.parquet"], "b.parquet", {}, TypeError, "levels is one path; give a list"),
        (["a.parquet"], [3], {}, TypeError, r"levels\[0\] is int; give a path"),
        (7, [], {}, TypeError, "level0 is int; give a path"),
        (["x.parquet"], [], {}, FileNotFoundError, "x.parquet"),
        (["a.parquet"], [], {"key": "no"}, KeyError, "no column 'no'"),
        (["a.parquet"], [], {"key": []}, ValueError, "key is empty; .* such as key='id'"),
        (["a.parquet"], [], {"columns": ["no"]}, KeyError, "no column 'no'"),
        (["a.parquet"], [], {"mode": "all"}, ValueError, "mode is 'all'; give 'value'"),
        (["a.parquet"], [], {"build": "x"}, ValueError, "build is 'x'; give 'auto'"),
        (["a.parquet"], [], {"memory": 1}, ValueError, "memory"),
        (["a.parquet"], [], {"kind": "id"}, ValueError, "kind is 'id', a key column"),
        (["a.parquet"], [], {"kind": "t"}, TypeError, "kind: the column 't' is string; row kinds"),
    ],
)
def test_bad_arguments(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    level0: Any,
    levels: Any,
    options: dict[str, Any],
    kind: type[Exception],
    error: str,
) -> None:
    types = pa.schema({"id": pa.int64(), "t": pa.string()})
    for name in "ab":
        write(tmp_path / f"{name}.parquet", {"id": [1], "t": ["x"]}, types)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=error):
        Levels(level0, levels, **{"key": "id", **options})


def test_a_level_that_there_is_not(tmp_path: Path, residency: Residency) -> None:
    (path, _) = two(tmp_path, [1], [2])
    with Levels([path], key="id", residency=residency) as levels:
        for start in (-1, 2):
            with pytest.raises(
                ValueError, match=f"start_level is {start}; give a level from 0 to 0"
            ):
                levels.lookup([1], start_level=start)


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with writable_object_store() as server:
        yield server


def test_levels_of_an_object_store(
    server: ObjectStore, tmp_path: Path, residency: Residency
) -> None:
    filesystem, _ = open_uri(server.uri(""))
    assert isinstance(filesystem, fs.FileSystem)
    tables = {
        "new": pa.table({"id": [2, 3], "v": ["B", "C"], KIND: [2, 3]}),
        "run/1": pa.table({"id": [1, 2], "v": ["a", "b"]}),
        "run/2": pa.table({"id": [3, 4], "v": ["c", "d"]}),
    }
    for name, table in tables.items():
        pq.write_table(table, f"{BUCKET}/levels/{name}.parquet", filesystem=filesystem)
    zero, run = [server.uri("levels/new.parquet")], server.uri("levels/run")
    for build in ("never", "always"):
        with Levels(zero, [run], key="id", build=build, residency=residency) as levels:
            assert levels.lookup([1, 2, 3, 4, 5])["v"].to_pylist() == ["a", "B", None, "d", None]
            assert files_of(levels).counts() is not None
