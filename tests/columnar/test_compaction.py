"""Lookup compaction of levels, compared with a dict of all rows, and with DuckDB's full merge."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from support.object_store import BUCKET, ObjectStore, writable_object_store
from support.remote import FaultyDisk, Killed
from support.samples import some_of

from lookupstore.columnar import Levels, lookup_compact, parquet_rows
from lookupstore.columnar.source_file import SourceFile
from lookupstore.errors import (
    CorruptionError,
    DuplicateKeyError,
    LookupStoreError,
    StaleStoreError,
)
from lookupstore.hostcache.cache import Residency
from lookupstore.storage import local, naming
from lookupstore.storage.uris import open_uri

pytestmark = pytest.mark.drawn(0.5)

KIND = "_VALUE_KIND"
KEYS = 300
NEW = pa.schema({"id": pa.int64(), "v": pa.int64(), "w": pa.string(), KIND: pa.int8()})
OLD = pa.schema({"id": pa.int32(), "v": pa.int64(), "w": pa.string()})
#: A row: its value columns.
Row = tuple[int | None, str | None]


@pytest.fixture
def residency(tmp_path: Path) -> Residency:
    return Residency(tmp_path / "cache", quota=64 << 20)


def write(path: Path, table: pa.Table, **options: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".orc":
        orc.write_table(table, path)
    else:
        pq.write_table(table, path, **options)
    return str(path)


def random_row(rng: random.Random) -> Row:
    return rng.choice((None, rng.randrange(5))), rng.choice((None, "", "a", "b" * 30))


class Given:
    """Random levels, and what they come to by key.

    Attributes:
        level0: paths, the newest first.
        levels: paths of each level after it.
        new: the rows of level 0 by key, the oldest first; None is a tombstone.
        old: the row of each key in the levels.
    """

    def __init__(self, folder: Path, rng: random.Random) -> None:
        hidden: dict[int, Row | None] = {}
        self.levels: list[list[str]] = []
        self.new: dict[int, list[Row | None]] = {}
        self.level0: list[str] = []
        for level in range(rng.randrange(4)):
            ids = sorted(rng.sample(range(KEYS), rng.randrange(KEYS)))
            cut = rng.randrange(KEYS)
            paths = []
            rows = {key: random_row(rng) for key in ids}
            gone = {key for key in ids if rng.random() < 0.1}
            for number, part in enumerate(
                ([key for key in ids if key < cut], [key for key in ids if key >= cut])
            ):
                if not part:
                    continue
                table = table_of([(key, *rows[key]) for key in part], OLD)
                if gone:
                    kinds = pa.array([3 if key in gone else 0 for key in part], pa.int8())
                    table = table.append_column(KIND, kinds)
                suffix = rng.choice(("parquet", "orc"))
                name = folder / f"{level}-{number}.{suffix}"
                paths.append(write(name, table, row_group_size=rng.choice((20, 200))))
            # Newer levels come first, and so decide; a tombstone hides what is below.
            for key in ids:
                hidden.setdefault(key, None if key in gone else rows[key])
            self.levels.append(paths)
        self.old: dict[int, Row] = {key: row for key, row in hidden.items() if row is not None}
        for number in range(rng.randrange(2, 5)):
            ids = rng.sample(range(KEYS), rng.randrange(1, KEYS // 2))
            rows = []
            for key in ids:
                # Some do not change.
                row = self.old.get(key, (0, "")) if rng.random() < 0.2 else random_row(rng)
                kind = rng.choice((0, 0, 2, 2, 1, 3))
                rows.append((key, *row, kind))
                self.new.setdefault(key, []).append(None if kind in (1, 3) else row)
            suffix = rng.choice(("parquet", "orc"))
            path = folder / f"new-{number}.{suffix}"
            self.level0.insert(0, write(path, table_of(rows, NEW)))


def table_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
    return pa.table(columns, schema=schema)


#: What each rule makes of an older and a newer value.
RULES: dict[str, Callable[[Any, Any], Any]] = {
    "replace": lambda old, new: new,
    "first": lambda old, new: old,
    "partial": lambda old, new: old if new is None else new,
    "sum": lambda old, new: old if new is None else new if old is None else old + new,
    "max": lambda old, new: old if new is None else new if old is None else max(old, new),
}


def folded(rows: Sequence[Row | None], old: Row | None, rules: Sequence[str]) -> Row | None:
    """Return what the rules make of a row and those that come after it; None is a tombstone."""
    row = old
    for one in rows:
        if one is None or row is None:
            row = one
        else:
            row = tuple(  # type: ignore[assignment]
                RULES[rule](*values) for rule, *values in zip(rules, row, one, strict=True)
            )
    return row


def applied(state: dict[int, Row], changelog: pa.Table) -> dict[int, Row]:
    """Return a dict of rows with a changelog applied, row by row, each of which must fit."""
    state = dict(state)
    before: int | None = None
    for row in changelog.to_pylist():
        key, values = row["id"], (row["v"], row["w"])
        assert (before is not None) == (row["change"] == "update_after")
        match row["change"]:
            case "insert":
                assert key not in state
                state[key] = values
            case "delete":
                assert state.pop(key) == values
            case "update_before":
                assert state[key] == values
                before = key
            case "update_after":
                assert key == before
                assert state[key] != values, "no change, no row"
                state[key] = values
                before = None
    return state


def paths_in(folder: Path) -> dict[str, Path]:
    return {"merged": folder / "merged.parquet", "changelog": folder / "changelog.parquet"}


@pytest.mark.parametrize("memory", ["64KiB", "128MiB"])
@pytest.mark.parametrize(
    "rules",
    [("replace", "replace"), ("partial", "partial"), ("first", "first"), ("sum", "replace"),
     ("max", "partial")],
)  # fmt: skip
def test_a_compaction_is_what_a_dict_becomes(
    tmp_path: Path,
    residency: Residency,
    monkeypatch: pytest.MonkeyPatch,
    rules: tuple[str, str],
    memory: str,
    seed: int,
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(parquet_rows, "GROUP_ROWS", rng.choice((1, 50, 1000)))
    given = Given(tmp_path / "files", rng)
    rule: Any = rules[0] if rules[0] == rules[1] else dict(zip("vw", rules, strict=True))
    done = lookup_compact(
        given.level0, given.levels, **paths_in(tmp_path / "out"), key="id", rule=rule,
        build=rng.choice(("auto", "always", "never")), memory=memory, residency=residency,
    )  # fmt: skip
    expected = dict(given.old)
    for key, rows in given.new.items():
        row = folded(rows, given.old.get(key), rules)
        if row is None:
            expected.pop(key, None)
        else:
            expected[key] = row
    changelog = pq.read_table(done.changelog)
    assert changelog.column_names == ["change", "id", "v", "w"]
    assert applied(given.old, changelog) == expected
    keys = changelog["id"].to_pylist()
    assert keys == sorted(keys)
    changes = changelog["change"].to_pylist()
    assert [changes.count(name) for name in ("insert", "update_after", "delete")] == [
        done.inserted,
        done.updated,
        done.deleted,
    ]
    merged = pq.read_table(done.merged)
    wanted = {
        key: (*(expected.get(key) or ()), key not in expected)
        for key in given.new
        if key in expected or key in given.old
    }
    assert merged["id"].to_pylist() == sorted(wanted)
    for row in merged.to_pylist():
        is_gone = row[KIND] == 3
        assert is_gone == wanted[row["id"]][-1]
        assert is_gone or (row["v"], row["w"], False) == wanted[row["id"]]
    assert (done.num_rows, done.tombstones) == (
        len(wanted),
        sum(row[-1] for row in wanted.values()),
    )
    # The merged file takes the place of the files of level 0.
    with Levels([done.merged], given.levels, key="id", residency=residency) as levels:
        got = levels.lookup(list(range(KEYS)), found=True)
        assert got["found"].to_pylist() == [key in expected for key in range(KEYS)]
        rows = [expected.get(key, (None, None)) for key in range(KEYS)]
        assert list(zip(*(got[name].to_pylist() for name in "vw"), strict=True)) == rows


def test_a_compaction_is_what_duckdb_merges(
    tmp_path: Path, residency: Residency, seed: int
) -> None:
    rng = random.Random(seed)
    old = pa.table({"id": range(0, 40_000, 2), "v": [i % 7 for i in range(20_000)]})
    runs = [
        write(tmp_path / f"run/{i}.parquet", old.slice(5000 * i, 5000), row_group_size=1000)
        for i in range(4)
    ]
    ids = rng.sample(range(40_000), 3000)
    kinds = [rng.choice((0, 2, 3)) for _ in ids]
    new = pa.table({"id": ids, "v": [rng.randrange(7) for _ in ids], KIND: pa.array(kinds)})
    done = lookup_compact(
        [write(tmp_path / "new.parquet", new)], [runs], **paths_in(tmp_path), key="id",
        memory="64KiB", residency=residency,
    )  # fmt: skip
    full = duckdb.sql(
        f"""
        select new.id, old.v before, case when new.{KIND} in (0, 2) then new.v end after,
        from new left join old using (id)
        where before is distinct from after
        order by id
        """
    ).to_arrow_table()
    expected = []
    for key, before, after in zip(*(column.to_pylist() for column in full.columns), strict=True):
        if before is None:
            expected.append(("insert", key, after))
        elif after is None:
            expected.append(("delete", key, before))
        else:
            expected += [("update_before", key, before), ("update_after", key, after)]
    changelog = pq.read_table(done.changelog)
    found = zip(*(changelog[name].to_pylist() for name in ("change", "id", "v")), strict=True)
    assert list(found) == expected


@pytest.mark.parametrize("rule", ["replace", "first", "partial", {"w": "min"}])
def test_text_in_views(tmp_path: Path, residency: Residency, rule: Any) -> None:
    """Files whose text is in views, as polars writes it, come to what those of plain text do."""
    found = []
    for name, text in (("plain", pa.string()), ("views", pa.string_view())):
        folder = tmp_path / name
        schema = pa.schema({"id": pa.int64(), "w": text, "t": pa.list_(text), KIND: pa.int8()})
        files = [
            write(
                folder / f"{level}.parquet",
                pa.table(
                    [ids, [level * (i % 3) or None for i in ids], [[level]] * len(ids),
                     [3 if kinds and i % 4 == 0 else 0 for i in ids]],
                    schema=schema,
                ),
            )
            for level, ids, kinds in (
                ("new", [9, 3, 4, 90], True), ("newer", [4, 5, 8, 91], True),
                ("low", list(range(40)), False), ("high", list(range(20, 60)), False),
            )
        ]  # fmt: skip
        given = ([files[1], files[0]], [[files[2]], [files[3]]])
        out = [str(folder / "merged.parquet"), str(folder / "changelog.parquet")]
        lookup_compact(*given, *out, key="id", rule=rule, residency=residency)
        with Levels(*given, key="id", residency=residency) as levels:
            rows = [levels.lookup([3, 4, 5, 25, 50, 99]), levels.scan().read_all()]
        found.append([*(pq.read_table(path) for path in out), *rows])
    plain, views = found
    assert [one.to_pylist() for one in views] == [one.to_pylist() for one in plain]
    assert all(one.schema.field("w").type == pa.string_view() for one in views)
    assert plain[1].num_rows >= 4


def test_changes_of_ignored_columns_have_no_row(tmp_path: Path, residency: Residency) -> None:
    old = pa.table({"id": [1, 2], "v": [1, 2], "at": [10, 10]})
    new = pa.table({"id": [1, 2], "v": [1, 3], "at": [20, 20]})
    level0 = [write(tmp_path / "new.parquet", new)]
    levels = [[write(tmp_path / "old.parquet", old)]]
    done = lookup_compact(
        level0, levels, **paths_in(tmp_path), key="id", ignore=["at"], residency=residency
    )
    changelog = pq.read_table(done.changelog)
    assert changelog["change"].to_pylist() == ["update_before", "update_after"]
    assert changelog["at"].to_pylist() == [10, 20]
    merged = pq.read_table(done.merged)
    assert merged.column_names == ["id", "v", "at"]  # no file has row kinds
    assert merged["at"].to_pylist() == [20, 20]


def test_only_row_groups_of_changed_keys_are_read(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of five files of a level, those that can have none of the keys are not opened at all."""
    runs = [
        write(tmp_path / f"{i}.parquet", pa.table({"id": range(100 * i, 100 * i + 100)}))
        for i in range(5)
    ]
    new = write(tmp_path / "new.parquet", pa.table({"id": [250, 7000]}))
    opened = []
    really = SourceFile.open
    monkeypatch.setattr(
        SourceFile, "open", lambda file: opened.append(Path(file.path).name) or really(file)
    )
    done = lookup_compact([new], [runs], **paths_in(tmp_path), key="id", residency=residency)
    assert set(opened) == {"new.parquet", "2.parquet"}
    assert (done.inserted, done.updated, done.deleted) == (1, 0, 0)


def test_keys_alone_of_several_fields(tmp_path: Path, residency: Residency) -> None:
    old = pa.table({"a": ["x", "y"], "b": [1, 2]})
    new = pa.table({"b": [1, 2, 3], KIND: [0, 3, 0], "a": ["x", "y", "z"]})
    level0 = [write(tmp_path / "new.parquet", new)]
    levels = [[write(tmp_path / "old.parquet", old)]]
    done = lookup_compact(level0, levels, **paths_in(tmp_path), key=["a", "b"], residency=residency)
    changelog = pq.read_table(done.changelog).to_pylist()
    assert changelog == [
        {"change": "delete", "a": "y", "b": 2},
        {"change": "insert", "a": "z", "b": 3},
    ]
    assert pq.read_table(done.merged).to_pydict() == {
        "a": ["x", "y", "z"], "b": [1, 2, 3], KIND: [0, 3, 0],
    }  # fmt: skip


def small(tmp_path: Path) -> tuple[list[str], list[list[str]]]:
    old = pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]})
    new = pa.table({"id": [3, 2, 9], "v": ["C", "", "n"], KIND: [2, 3, 0]})
    files = tmp_path / "files"
    return [write(files / "new.parquet", new)], [[write(files / "old.parquet", old)]]


@pytest.mark.parametrize(
    ("options", "kind", "error"),
    [
        ({"merged": "a.orc"}, ValueError, "merged is 'a.orc'; give the path of a file that ends"),
        ({"merged": "a"}, ValueError, "source: a has the extension 'none'|merged is 'a'"),
        ({"changelog": ""}, ValueError, "changelog is ''; give the path of a file"),
        ({"changelog": "merged.parquet"}, ValueError, "merged and changelog are one path"),
        ({"level0": []}, ValueError, "level0 names no files"),
        ({"rule": "last"}, ValueError, "rule is 'last' for 'v'; give one of replace, first"),
        ({"rule": {"w": "sum"}}, KeyError, "rule: no value column 'w'"),
        ({"rule": "sum"}, TypeError, "rule: 'sum' of the column 'v', which is string"),
        ({"ignore": ["id"]}, KeyError, "ignore: no value column 'id'"),
        ({"key": "x"}, KeyError, "no column 'x'"),
        ({"memory": 5}, ValueError, "memory"),
    ],
)
def test_bad_arguments(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    kind: type[Exception],
    error: str,
) -> None:
    level0, levels = small(tmp_path)
    monkeypatch.chdir(tmp_path)
    given = {
        "level0": level0, "levels": levels, "merged": "merged.parquet",
        "changelog": "changelog.parquet", "key": "id", **options,
    }  # fmt: skip
    with pytest.raises(kind, match=error):
        lookup_compact(**given)
    assert os.listdir(tmp_path) == ["files"]


def test_files_that_cannot_be_compacted(tmp_path: Path, residency: Residency) -> None:
    def compact(table: pa.Table) -> None:
        path = write(tmp_path / "new.parquet", table)
        lookup_compact([path], [], **paths_in(tmp_path), key="id", residency=residency)

    with pytest.raises(DuplicateKeyError, match=r"new\.parquet: the key id=7 .* once in each file"):
        compact(pa.table({"id": [7, 1, 7]}))
    with pytest.raises(ValueError, match=r"new\.parquet has a null in the key column 'id'"):
        compact(pa.table({"id": [7, None]}))
    with pytest.raises(CorruptionError, match=r"new\.parquet.*row kinds from 0 to 3"):
        compact(pa.table({"id": [7], KIND: [9]}))
    with pytest.raises(ValueError, match="the files have a column 'change'"):
        compact(pa.table({"id": [7], "change": [9]}))
    assert os.listdir(tmp_path) == ["new.parquet"]


def test_files_that_are_there_stay(tmp_path: Path, residency: Residency) -> None:
    level0, levels = small(tmp_path)
    for name, path in paths_in(tmp_path).items():
        path.write_text("mine")
        with pytest.raises(FileExistsError, match=rf"{name}\.parquet exists; give the path of a"):
            lookup_compact(level0, levels, **paths_in(tmp_path), key="id", residency=residency)
        assert path.read_text() == "mine"
        path.unlink()


def test_damaged_levels_are_errors_and_leave_nothing(
    tmp_path: Path, residency: Residency, seed: int
) -> None:
    rng = random.Random(seed)
    rows = pa.table({"id": range(2000), "v": range(2000)})
    files = {
        name: Path(write(tmp_path / f"{name}.parquet", rows, write_page_checksum=True,
                         compression="none", use_dictionary=False))
        for name in ("new", "old")
    }  # fmt: skip
    for name, path in files.items():
        content = path.read_bytes()
        pages = pq.ParquetFile(path).metadata.row_group(0).column(0)
        # Behind the header of the only page: its checksum is of all that is there.
        at = pages.data_page_offset + pages.total_compressed_size - 1 - rng.randrange(8000)
        damaged = bytearray(content)
        damaged[at] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(CorruptionError, match=rf"{name}\.parquet"):
            lookup_compact(
                [files["new"]], [str(files["old"])], **paths_in(tmp_path / "out"), key="id",
                build=rng.choice(("always", "never")), residency=residency,
            )  # fmt: skip
        assert not list((tmp_path / "out").glob("*"))
        path.write_bytes(content)


def test_a_file_that_goes_while_it_is_compacted(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    level0, levels = small(tmp_path)
    really = SourceFile.check_unchanged

    def check(file: SourceFile) -> None:
        os.unlink(file.path)
        really(file)

    monkeypatch.setattr(SourceFile, "check_unchanged", check)
    with pytest.raises(StaleStoreError, match=r"new\.parquet"):
        lookup_compact(level0, levels, **paths_in(tmp_path), key="id", residency=residency)
    assert os.listdir(tmp_path) == ["files"]


@pytest.mark.sampled
@pytest.mark.parametrize("kill", [False, True], ids=["fail", "kill"])
def test_every_operation_on_files_fails_once(tmp_path: Path, kill: bool) -> None:
    """What has a name is whole, and the merged file has none before the changelog has."""
    level0, levels = small(tmp_path)
    residency = Residency(tmp_path / "cache", quota=64 << 20)
    with Levels([], levels, key="id", build="always", residency=residency) as below:
        below.prepare()

    def run(folder: Path, disk: FaultyDisk) -> BaseException | None:
        with pytest.MonkeyPatch.context() as patch:
            for module in (local, naming):
                patch.setattr(module, "os", disk)
            try:
                lookup_compact(level0, levels, **paths_in(folder), key="id", residency=residency)
            except BaseException as error:
                return error
        return None

    clean = FaultyDisk()
    assert run(tmp_path / "clean", clean) is None
    expected = {name: pq.read_table(path) for name, path in paths_in(tmp_path / "clean").items()}
    assert {name for name, _ in clean.done} >= {"link", "fsync", "unlink"}
    for at, operation in some_of(enumerate(clean.done)):
        folder = tmp_path / str(at)
        raised = run(folder, FaultyDisk(at, kill=kill))
        assert isinstance(raised, (Killed, OSError, LookupStoreError, type(None)))
        print(at, operation, raised)
        seen = {name for name, path in paths_in(folder).items() if path.exists()}
        for name in seen:
            assert pq.read_table(paths_in(folder)[name]).equals(expected[name])
        assert "changelog" in seen or "merged" not in seen
        if "merged" not in seen:
            (folder / "changelog.parquet").unlink(missing_ok=True)
            assert run(folder, FaultyDisk()) is None
            assert pq.read_table(folder / "merged.parquet").equals(expected["merged"])


def test_who_is_killed_leaves_nothing(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    rows = pa.table({"id": range(600_000), "v": range(600_000)})
    new = write(tmp_path / "new.parquet", rows)
    paths = paths_in(tmp_path)
    script = (
        "from lookupstore.columnar import lookup_compact\n"
        f"lookup_compact([{new!r}], [], {str(paths['merged'])!r}, {str(paths['changelog'])!r}, "
        "key='id')\n"
    )
    environment = {**os.environ, "LOOKUPSTORE_CACHE": str(tmp_path / "cache")}
    worker = subprocess.Popen([sys.executable, "-c", script], env=environment)
    until = time.monotonic() + 60
    while not list(tmp_path.glob(".*merged*")) and worker.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.002)
    time.sleep(rng.random() * 0.3)
    worker.kill()
    worker.wait()
    if not paths["merged"].exists():
        paths["changelog"].unlink(missing_ok=True)
        done = lookup_compact([new], [], **paths, key="id")
        assert done.inserted == 600_000
    assert pq.read_table(paths["merged"]).cast(rows.schema).equals(rows)
    assert pq.read_table(paths["changelog"])["v"].equals(rows["v"])


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with writable_object_store() as server:
        yield server


def test_an_object_store(server: ObjectStore, tmp_path: Path, residency: Residency) -> None:
    filesystem, _ = open_uri(server.uri(""))
    level0, levels = small(tmp_path)
    for name in (level0[0], levels[0][0]):
        table = pq.read_table(name)
        pq.write_table(table, f"{BUCKET}/c/{Path(name).name}", filesystem=filesystem)
    there = {name: server.uri(f"c/out/{name}.parquet") for name in ("merged", "changelog")}
    given: tuple[Any, Any] = [server.uri("c/new.parquet")], [server.uri("c/old.parquet")]
    done = lookup_compact(*given, **there, key="id", residency=residency)
    here = lookup_compact(level0, levels, **paths_in(tmp_path), key="id", residency=residency)
    for name, path in paths_in(tmp_path).items():
        found = pq.read_table(f"{BUCKET}/c/out/{name}.parquet", filesystem=filesystem)
        assert found.equals(pq.read_table(path))
    assert (done.num_rows, done.deleted) == (here.num_rows, here.deleted) == (3, 1)
    with pytest.raises(FileExistsError, match=r"merged\.parquet.* exists"):
        lookup_compact(*given, **there, key="id", residency=residency)
    with Levels([there["merged"]], given[1], key="id", residency=residency) as after:
        assert after.lookup([1, 2, 3, 9])["v"].to_pylist() == ["a", None, "C", "n"]
