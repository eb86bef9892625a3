"""Paths that are tables, or parts of tables: one path means one thing, and never raw files."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from support.remote import Remote

import lookupstore
from lookupstore import CorruptionError, FormatError
from lookupstore.columnar import ColumnarFiles
from lookupstore.hostcache.cache import Residency
from lookupstore.hudi import HudiTable
from lookupstore.source import search as file_search
from lookupstore.source.opening import open_source
from lookupstore.store.path_kind import PathKind, kind_of

pytestmark = pytest.mark.drawn(0.4)

SCHEMA = pa.schema({"id": pa.int64(), "day": pa.string(), "name": pa.string()})


@pytest.fixture
def residency(tmp_path: Path) -> Residency:
    return Residency(tmp_path / "local", quota=1 << 30)


def hudi_table(
    folder: Path, seed: int, *, version: int = 9, partitioned: bool = True
) -> dict[int, str]:
    """Make a table with superseded and deleted rows; return the names that it has."""
    rng = random.Random(seed)
    table = HudiTable.create(
        folder,
        SCHEMA,
        record_key=["id"],
        partition_by=["day"] if partitioned else [],
        hive_style=True,
        version=version,
    )
    expected: dict[int, str] = {}
    for turn in range(3):
        ids = rng.sample(range(60), 30)
        expected |= {one: f"{one} in turn {turn}" for one in ids}
        names, days = [expected[one] for one in ids], [str(one % 2) for one in ids]
        table.upsert(pa.table({"id": ids, "day": days, "name": names}, SCHEMA))
        gone = rng.sample(sorted(expected), 5)
        table.delete(gone)
        for one in gone:
            del expected[one]
    return expected


def rows_of(store: lookupstore.LookupStore) -> dict[int, str]:
    return {row["id"]: row["name"] for row in store.scan().read_all().to_pylist()}


def cli(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lookupstore.cli", *map(str, arguments)]
    code = "from lookupstore.cli import main; main()"
    command[1:3] = ["-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def callers(tmp_path: Path) -> dict[str, Callable[[Any], Any]]:
    """Return what takes a path of columnar files."""
    return {
        "build": lambda path: lookupstore.build(path, tmp_path / "never", key="id"),
        "build of a list": lambda path: lookupstore.build([path], tmp_path / "never", key="id"),
        "ColumnarFiles": lambda path: ColumnarFiles(path, key="id"),
        "kind_of": kind_of,
    }


def built_as_told(tmp_path: Path, command: tuple[object, ...], ids: list[int]) -> None:
    """Run a command that is refused, and then the one that its error names."""
    refused = cli(*command)
    assert refused.returncode == 1
    line = re.search("; run: lookupstore (build .*)$", refused.stderr)
    assert line, refused.stderr
    told = {"STORE": str(tmp_path / "as told"), "COLUMN": "id"}
    built = cli(*(told.get(word, word) for word in shlex.split(line[1])))
    assert built.returncode == 0, built.stderr
    with lookupstore.open(tmp_path / "as told") as store:
        assert list(store) == ids


@pytest.mark.few(1)
@pytest.mark.parametrize("partitioned", [True, False])
@pytest.mark.parametrize("version", [6, 9])
def test_a_hudi_table_is_its_current_rows(
    tmp_path: Path, residency: Residency, seed: int, version: int, partitioned: bool
) -> None:
    folder = tmp_path / "w" / "users"
    expected = hudi_table(folder, seed, version=version, partitioned=partitioned)
    assert len(list(folder.rglob("*.parquet"))) > 3
    for given in (folder, str(folder), f"file://{folder}", [folder]):
        with lookupstore.build(given, tmp_path / "store", key="id", overwrite=True) as store:
            assert rows_of(store) == expected
            assert store.value_schema.names == ["day", "name"]
            assert "Hudi table" in store.info().source
        with ColumnarFiles(given, key="id", residency=residency) as files:
            found = files.lookup(list(range(60)), ["name"]).column("name").to_pylist()
            assert found == [expected.get(one) for one in range(60)]
            assert files.value_schema.names == ["day", "name"]
    assert kind_of(folder) is PathKind.HUDI_TABLE
    assert open_source(folder).count_rows() == len(expected)
    # By any column, and by a list of values, also in a process of its own.
    with ColumnarFiles(folder, key="name", residency=residency) as files:
        keys = [*expected.values(), "nobody"]
        assert files.lookup(keys).column("id").to_pylist() == [*expected, None]
    one = next(iter(expected))
    got = cli("get", folder, one, "--output", "json")
    assert (got.returncode, json.loads(got.stdout)["name"]) == (0, expected[one])
    gone = next(key for key in range(60) if key not in expected)
    assert cli("get", folder, gone).returncode == 1
    built = cli("build", folder, tmp_path / "by-cli", "--key", "id")
    assert built.returncode == 0, built.stderr
    with lookupstore.open(tmp_path / "by-cli") as store:
        assert rows_of(store) == expected


def test_an_evolved_table_has_the_columns_of_the_latest_commit(
    tmp_path: Path, residency: Residency
) -> None:
    table = HudiTable.create(
        tmp_path / "t", SCHEMA, record_key=["id"], partition_by=["day"], hive_style=True
    )
    table.insert(pa.table({"id": [1, 2], "day": ["a", "a"], "name": ["x", "y"]}, SCHEMA))
    from lookupstore.hudi import WriteOptions

    wider = pa.table({"id": [3], "day": ["b"], "name": ["z"], "price": [2.5]})
    table.upsert(wider, options=WriteOptions(evolve=True))
    expected = [{"name": "x", "price": None}, {"name": "z", "price": 2.5}]
    with lookupstore.build(tmp_path / "t", tmp_path / "s", key="id") as store:
        assert store.lookup([1, 3], ["name", "price"]).to_pylist() == expected
    with ColumnarFiles(tmp_path / "t", key="id", residency=residency) as files:
        assert files.lookup([1, 3], ["name", "price"]).to_pylist() == expected
    with ColumnarFiles(tmp_path / "t", key="price", residency=residency) as files:
        assert files.lookup([2.5, 1.0]).column("id").to_pylist() == [3, None]


def test_an_empty_table_has_no_rows(tmp_path: Path, residency: Residency) -> None:
    HudiTable.create(tmp_path / "t", SCHEMA, record_key=["id"])
    assert open_source(tmp_path / "t").count_rows() == 0
    with ColumnarFiles(tmp_path / "t", key="id", residency=residency) as files:
        assert files.lookup([1, 2]).column("name").to_pylist() == [None, None]
        assert files.contains([1]).to_pylist() == [False]


def test_the_latest_partition_of_a_table(tmp_path: Path, residency: Residency) -> None:
    table = HudiTable.create(
        tmp_path / "t", SCHEMA, record_key=["id"], partition_by=["day"], hive_style=True
    )
    for day in ("9", "10"):
        table.upsert(pa.table({"id": [1], "day": [day], "name": [f"of {day}"]}, SCHEMA))
    given: dict[str, Any] = {"key": "id", "residency": residency}
    with ColumnarFiles(tmp_path / "t", latest_partition="day", **given) as files:
        assert files.lookup([1], ["name"]).to_pylist() == [{"name": "of 10"}]
    with pytest.raises(ValueError, match="no folders hour="):
        ColumnarFiles(tmp_path / "t", latest_partition="hour", **given)


def test_nothing_is_published_beside_the_files_of_a_table(
    tmp_path: Path, residency: Residency, seed: int
) -> None:
    hudi_table(tmp_path / "t", seed)
    with (
        ColumnarFiles(tmp_path / "t", key="id", residency=residency) as files,
        pytest.raises(FormatError, match=r"lookupstore\.build\("),
    ):
        files.publish()
    assert not list((tmp_path / "t").rglob("_lookup"))


def test_an_unchanged_table_is_not_read_again(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hudi_table(tmp_path / "t", seed)
    lookupstore.build(tmp_path / "t", tmp_path / "s", key="id").close()
    with monkeypatch.context() as patched:
        patched.setattr("lookupstore.hudi.file_group.scan.BaseFiles.batches", None)
        with lookupstore.build(tmp_path / "t", tmp_path / "s", key="id", overwrite=True) as store:
            assert (store.info().version, store.info().rewritten_buckets) == (2, 0)
    table = HudiTable.open(tmp_path / "t")
    table.upsert(pa.table({"id": [1], "day": ["1"], "name": ["now"]}, SCHEMA))
    with lookupstore.build(tmp_path / "t", tmp_path / "s", key="id", overwrite=True) as store:
        assert store.get(1) == {"day": "1", "name": "now"}


def test_a_damaged_base_file_is_named(tmp_path: Path, residency: Residency, seed: int) -> None:
    hudi_table(tmp_path / "t", seed)
    current = HudiTable.open(tmp_path / "t").file_groups()[-1].current
    bad = tmp_path / "t" / current.path
    bad.write_bytes(bad.read_bytes()[: bad.stat().st_size // 2])
    with pytest.raises(CorruptionError, match=current.name):
        lookupstore.build(tmp_path / "t", tmp_path / "s", key="id", progress=True)
    with pytest.raises(CorruptionError, match=current.name):
        ColumnarFiles(tmp_path / "t", key="id", residency=residency)
    assert not (tmp_path / "s").exists()


def test_an_instant_that_ends_after_a_later_one_changes_the_fingerprint(tmp_path: Path) -> None:
    """In version 6 a position is a request time: the newest one does not say that all is known."""
    from support.hudi.small_tables import SmallTable

    small = SmallTable(tmp_path / "t", 6)
    first, second = small.begin(), small.begin()
    stats = [small.write(second.time, "b-0", [{"id": 2, "value": "b"}])]
    small.finish(second, stats)
    before = open_source(tmp_path / "t")
    stats = [small.write(first.time, "a-0", [{"id": 1, "value": "a"}])]
    small.finish(first, stats)
    after = open_source(tmp_path / "t")
    assert (before.count_rows(), after.count_rows()) == (1, 2)
    assert before.fingerprint != after.fingerprint


def test_log_files_of_merge_on_read_tables(merge_on_read_tables: Path, tmp_path: Path) -> None:
    path = merge_on_read_tables / "mor_v6_nonpartitioned"
    rows = HudiTable.open(path).scan(columns=["id", "name"])
    with callers(tmp_path)["build"](path) as store:
        names = store.lookup(rows["id"].to_pylist(), ["name"])
        assert names["name"].to_pylist() == rows["name"].to_pylist()
        assert len(store) == rows.num_rows
    with pytest.raises(FormatError, match=r"MERGE_ON_READ.*log files"):
        callers(tmp_path)["ColumnarFiles"](path)


def parts_of(folder: Path) -> dict[str, str]:
    """Return paths of parts of a table, and of what it is part of."""
    base = sorted(path for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts)[0]
    parts = {
        "file": str(base),
        "URI of a file": f"file://{base}",
        "glob": f"{folder}/**/*.parquet",
        "above": str(folder.parent),
        "URI above": f"file://{folder.parent}",
        "far above": str(folder.parent.parent),
        "glob above": f"{folder.parent}/*",
        "glob over": f"{folder.parent}/*/**/*.parquet",
        "glob of its name": f"{folder.parent}/{folder.name[:-1]}?",
    }
    if base.parent != folder:
        parts |= {"partition": str(base.parent), "glob of folders": f"{folder}/*"}
    return parts


def remedy_of(message: str) -> str:
    """Return the line that an error names."""
    match = re.search(r"its rows: (?P<line>.*)$", message)
    assert match, message
    return match["line"]


def test_a_part_of_a_hudi_table_is_refused(tmp_path: Path, seed: int) -> None:
    folder = tmp_path / "top" / "w" / "users"
    hudi_table(folder, seed)
    with contextlib.chdir(tmp_path) if sys.version_info >= (3, 11) else contextlib.nullcontext():
        for what, path in parts_of(folder).items():
            for name, call in callers(tmp_path).items():
                if name == "kind_of" and file_search.names_files(path):
                    continue  # it does not look: who opens the files does
                with pytest.raises(FormatError, match="the Hudi table") as raised:
                    call(path)
                assert str(folder) in str(raised.value), (what, name)

            import lookupstore.hudi

            names = {"lookupstore": lookupstore, "pyarrow": pa}
            rows = eval(remedy_of(str(raised.value)), names)
            whole = HudiTable.open(folder).scan()
            part = what in ("file", "URI of a file", "partition")
            assert (0 < rows.num_rows < whole.num_rows) if part else rows.equals(whole), what
    said = f"give '{folder}' alone, which is read as the table"
    for path in (folder.parent, next(folder.rglob("*.parquet"))):
        refused = cli("build", path, tmp_path / "never", "--key", "id")
        assert (refused.returncode, said in refused.stderr) == (1, True)
        refused = cli("get", path, 1, "--key", "id")
        assert (refused.returncode, said in refused.stderr) == (1, True)
    refused = cli("scan", folder)
    assert (refused.returncode, f"lookupstore hudi scan {folder}" in refused.stderr) == (2, True)
    assert not (tmp_path / "never").exists()
    with pytest.raises(FormatError, match="not a lookupstore store, but a Hudi table"):
        lookupstore.open(folder)
    # Alone among others it is not read, either.
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    with pytest.raises(FormatError, match="alone"):
        open_source([folder, tmp_path / "a.parquet"])


def test_links_into_a_table_lead_to_it(tmp_path: Path, seed: int) -> None:
    hudi_table(tmp_path / "t", seed)
    base = next((tmp_path / "t").rglob("*.parquet"))
    (tmp_path / "link").symlink_to(base.parent)
    (tmp_path / "whole").symlink_to(tmp_path / "t")
    with pytest.raises(FormatError, match="is inside the Hudi table"):
        open_source(tmp_path / "link")
    assert kind_of(tmp_path / "whole") is PathKind.HUDI_TABLE


def test_files_beside_a_table_are_read(tmp_path: Path, seed: int) -> None:
    hudi_table(tmp_path / "w" / "users", seed)
    pq.write_table(pa.table({"id": [7]}), tmp_path / "w" / "plain.parquet")
    (tmp_path / "w" / "facts").mkdir()
    pq.write_table(pa.table({"id": [8, 9]}), tmp_path / "w" / "facts" / "facts.parquet")
    (tmp_path / "w" / "facts" / "metadata").mkdir()
    pq.write_table(pa.table({"id": [10]}), tmp_path / "w" / "facts" / "metadata" / "x.parquet")
    for path, rows in (
        ("w/*.parquet", 1),
        ("w/*/facts.parquet", 2),
        ("w/**/facts.parquet", 2),
        ("w/facts", 3),
        ("w/plain.parquet", 1),
    ):
        assert open_source(f"{tmp_path}/{path}").count_rows() == rows, path
    # What is hidden is not read, whatever it is.
    hudi_table(tmp_path / "w" / "facts" / "_old", seed)
    assert open_source(tmp_path / "w" / "facts").count_rows() == 3


def test_a_part_of_a_delta_table_is_refused_with_its_rows(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    folder = tmp_path / "top" / "w" / "users"
    rows = pa.table({"id": [1, 2, 3], "day": ["a", "a", "b"]})
    deltalake.write_deltalake(str(folder), rows, partition_by=["day"])
    deltalake.DeltaTable(str(folder)).delete("id = 1")
    for what, path in parts_of(folder).items():
        for name, call in callers(tmp_path).items():
            if name == "kind_of" and file_search.names_files(path):
                continue
            with pytest.raises(FormatError, match="Delta table") as raised:
                call(path)
            line = remedy_of(str(raised.value))
            assert line == f"deltalake.DeltaTable({str(folder)!r})" or (
                what.startswith("URI") and "file://" in line
            )
    table = eval(line, {"deltalake": deltalake})
    with lookupstore.build(table, tmp_path / "s", key="id") as store:
        assert store.scan().read_all().column("id").to_pylist() == [2, 3]
    for key, found in ((1, ""), (3, "b")):
        answer = cli("get", folder, key, "--key", "id", "--output", "json")
        assert found in answer.stdout
        assert answer.returncode == (0 if found else 1)
    assert [json.loads(line)["id"] for line in head_of(folder)] == [2, 3]
    built_as_told(tmp_path, ("get", folder / "day=a", 1, "--key", "id"), [2, 3])


def head_of(folder: Path) -> list[str]:
    """Return the lines that `head` prints of a table, in the order of their text."""
    printed = cli("head", folder, "--output", "json")
    assert printed.returncode == 0, printed.stderr
    return sorted(printed.stdout.splitlines())


def test_the_folder_of_a_delta_table_is_its_newest_version(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    folder = tmp_path / "w" / "a table"
    deltalake.write_deltalake(folder, pa.table({"id": [1, 2, 3], "day": ["a", "a", "b"]}))
    deltalake.DeltaTable(folder).delete("id = 1")
    for given in (folder, str(folder), f"file://{folder}".replace(" ", "%20"), [folder]):
        with lookupstore.build(given, tmp_path / "s", key="id", overwrite=True) as store:
            assert list(store) == [2, 3]
            assert store.info().source == "Delta table at version 1"
    built = cli("build", folder, tmp_path / "by-cli", "--key", "id")
    assert built.returncode == 0, built.stderr
    with lookupstore.open(tmp_path / "by-cli") as store:
        assert dict(store.items()) == {2: {"day": "a"}, 3: {"day": "b"}}
        with store.upsert(folder) as same:
            assert same.version == store.version + 1
    for log in (folder / "_delta_log").glob("*.json"):
        log.write_text("{")
    with pytest.raises(FormatError, match="deltalake does not open this Delta table"):
        open_source(folder)


def test_an_open_delta_table_is_a_source(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    rows = pa.table({"id": [1, 2, 3], "name": ["a", "b", None], "day": ["x", "x", "y"]})
    deltalake.write_deltalake(str(tmp_path / "t"), rows, partition_by=["day"])
    deltalake.DeltaTable(str(tmp_path / "t")).delete("id = 1")
    for version, ids in ((0, [1, 2, 3]), (1, [2, 3])):
        table = deltalake.DeltaTable(str(tmp_path / "t"), version=version)
        source = open_source(table)
        assert (source.description, source.count_rows()) == (
            f"Delta table at version {version}", len(ids)
        )  # fmt: skip
        with lookupstore.build(table, tmp_path / "s", key="id", overwrite=True) as store:
            assert list(store) == ids
            assert store.get(3) == {"name": None, "day": "y"}
            assert store.upsert(table).version == store.version + 1


@pytest.fixture
def delta_tables(golden: Path, tmp_path: Path) -> Path:
    """Return a folder with tables that Databricks wrote; the README says what is in them."""
    for archive in (golden / "delta").glob("*.zip"):
        unpack(archive, tmp_path / "delta")
    return tmp_path / "delta"


def unpack(archive: Path, folder: Path) -> Path:
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(folder)
    return folder


def test_a_delta_table_with_column_mapping_has_its_values(
    delta_tables: Path, tmp_path: Path
) -> None:
    deltalake = pytest.importorskip("deltalake")
    folder = delta_tables / "table_with_column_mapping"
    # The files have names of their own for both columns.
    files = pa.concat_tables(map(pq.read_table, sorted(folder.rglob("*.parquet"))))
    (physical,) = (name for name in files.column_names if name.startswith("col-3877fd94"))
    table = deltalake.DeltaTable(str(folder))
    with lookupstore.build(table, tmp_path / "s", key="Super Name") as store:
        rows = store.scan().read_all()
    with ColumnarFiles(table, key="Super Name") as lookups:
        assert lookups.lookup(rows["Super Name"]).equals(rows.drop_columns("Super Name"))
    assert sorted(rows["Super Name"].to_pylist()) == sorted(files[physical].to_pylist())
    assert set(rows["Company Very Short"].to_pylist()) == {"BMS", "BME"}
    assert rows.schema.types == [pa.string(), pa.string()]
    source = open_source(table)
    assert [batch.num_columns for batch in source.batches([])] != []
    assert sum(batch.num_rows for batch in source.batches(["Super Name"])) == 5


def test_a_delta_table_with_deletion_vectors_lacks_the_deleted_rows(
    delta_tables: Path, tmp_path: Path
) -> None:
    deltalake = pytest.importorskip("deltalake")
    folder = delta_tables / "table-with-dv-small"
    assert sum(pq.read_metadata(file).num_rows for file in folder.rglob("*.parquet")) == 10
    table = deltalake.DeltaTable(folder)
    for given in (table, folder):
        with lookupstore.build(given, tmp_path / "s", key="value", overwrite=True) as store:
            assert list(store) == [1, 2, 3, 4, 5, 6, 7, 8]
        with ColumnarFiles(given, key="value", build="never") as files:
            assert files.contains(range(10)).to_pylist() == [
                one in range(1, 9) for one in range(10)
            ]
    assert open_source(table).count_rows() == 8
    for rule in ("first", "last"):
        with pytest.raises(ValueError, match=rf"on_duplicate is '{rule}'.* no order; give \('max'"):
            lookupstore.build(table, tmp_path / "other", key="value", on_duplicate=rule)


def test_repeated_keys_of_rows_without_order_are_not_decided_by_chance(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "t")
    for rows in ({"id": [1, 2], "at": [1, 1]}, {"id": [2, 2], "at": [2, 3]}):
        with_vectors = {"delta.enableDeletionVectors": "true"}
        deltalake.write_deltalake(path, pa.table(rows), mode="append", configuration=with_vectors)
    table = deltalake.DeltaTable(path)
    with lookupstore.build({"id": [0], "at": [0]}, tmp_path / "s", key="id") as store:
        said = (
            r"changes: the key id=2 has rows that differ.* Delta table at version 1 have no order"
        )
        for rule in ("replace", "first", "partial"):
            with pytest.raises(ValueError, match=said + "; pass sequence="):
                store.upsert(table, rule=rule)
        assert [one.number for one in lookupstore.versions(store)] == [1]
        with store.upsert(table, sequence="at") as newer:
            assert {key: newer[key]["at"] for key in newer} == {0: 0, 1: 1, 2: 3}
        with store.upsert(table, rule="sum") as newer:
            assert {key: newer[key]["at"] for key in newer} == {0: 0, 1: 2, 2: 9}


def test_a_set_of_paths_has_no_order(tmp_path: Path) -> None:
    for name in "ab":
        pq.write_table(pa.table({"id": [1], "name": [name]}), tmp_path / name)
    given = {tmp_path / "a", tmp_path / "b"}
    with pytest.raises(ValueError, match=r"on_duplicate is 'last'.* have no order"):
        lookupstore.build(given, tmp_path / "s", key="id", on_duplicate="last")
    with lookupstore.build({tmp_path / "a"}, tmp_path / "s", key="id") as store:
        with pytest.raises(ValueError, match=r"the key id=1 has rows that differ.* no order"):
            store.upsert(given)
        with store.upsert(sorted(given)) as newer:
            assert newer[1] == {"name": "b"}


def refused_everywhere(folder: Path, tmp_path: Path, match: str) -> None:
    """Check that neither a folder, nor what is in it or above it, is read as files."""
    for path in parts_of(folder).values():
        for name, call in callers(tmp_path).items():
            if name == "kind_of" and file_search.names_files(path):
                continue
            with pytest.raises(FormatError, match=match):
                call(path)
    for words in (
        ["get", folder, "1", "--key", "id"],
        ["build", folder, tmp_path / "never", "--key", "id"],
    ):
        refused = cli(*words)
        assert refused.returncode == 1
        assert re.search(match, refused.stderr), refused.stderr
    assert not (tmp_path / "never").exists()


def test_a_part_of_a_paimon_table_is_refused(golden: Path, tmp_path: Path) -> None:
    archive = golden / "paimon" / "tables" / "replaced-row.zip"
    folder = unpack(archive, tmp_path / "top" / "w") / "t"
    for path in parts_of(folder).values():
        for name, call in callers(tmp_path).items():
            if name == "kind_of" and file_search.names_files(path):
                continue
            with pytest.raises(FormatError, match="Paimon table") as raised:
                call(path)
            assert re.search(rf"give '.*{folder}' alone", str(raised.value))
    with lookupstore.build([folder], tmp_path / "s", key="id") as store:
        assert len(store) == 3
    assert not (tmp_path / "never").exists()
    # Without a snapshot, or a schema, folders of these names are anybody's.
    (tmp_path / "other" / "schema").mkdir(parents=True)
    (tmp_path / "other" / "snapshot").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "other" / "snapshot" / "snapshot-1.parquet")
    assert open_source(tmp_path / "other").count_rows() == 1


def test_the_sink_of_a_stream_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "top" / "w" / "sink"
    (folder / "_spark_metadata").mkdir(parents=True)
    for name in ("part-0.parquet", "part-1.parquet"):  # of which the second was of a failed attempt
        pq.write_table(pa.table({"id": [1]}), folder / name)
    entry = {"path": f"file://{folder}/part-0.parquet", "isDir": False, "action": "add"}
    (folder / "_spark_metadata" / "0").write_text(f"v1\n{json.dumps(entry)}")
    refused_everywhere(
        folder, tmp_path, r"sink of a Spark stream.*_spark_metadata.*spark\.read\.parquet\('"
    )


def test_an_open_iceberg_table_is_a_source(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    from pyiceberg.catalog.memory import InMemoryCatalog

    catalog = InMemoryCatalog("w", warehouse=f"file://{tmp_path}/top")
    catalog.create_namespace("w")
    rows = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"], "n": [1.5, 2.5, 3.5]})
    table = catalog.create_table("w.users", rows.schema)
    table.append(rows)
    for source, ids in ((table, [1, 2, 3]), (table.scan("id > 1"), [2, 3])):
        path = tmp_path / "s"
        with lookupstore.build(source, path, key="id", columns=["n"], overwrite=True) as store:
            assert list(store) == ids
            assert store.get(2) == {"n": 2.5}
    assert open_source(table.scan(selected_fields=("id",))).schema.names == ["id"]
    table.delete("id = 2")
    with lookupstore.build(table, tmp_path / "after", key="id") as store:
        assert list(store) == [1, 3]
        assert store.get(1) == {"name": "a", "n": 1.5}


def test_an_iceberg_table_is_refused_with_its_rows(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    from pyiceberg.catalog.memory import InMemoryCatalog

    (tmp_path / "top").mkdir()
    catalog = InMemoryCatalog("w", warehouse=f"file://{tmp_path}/top")
    catalog.create_namespace("w")
    rows = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
    table = catalog.create_table("w.users", rows.schema)
    table.append(rows)
    table.overwrite(pa.table({"id": [4, 5], "name": ["d", "e"]}))
    folder = Path(table.location().removeprefix("file://"))
    for path in ({"itself": str(folder)} | parts_of(folder)).values():
        for name, call in callers(tmp_path).items():
            if name == "kind_of" and file_search.names_files(path):
                continue
            with pytest.raises(FormatError, match="Iceberg table") as raised:
                call(path)
    import pyiceberg.table

    line = str(raised.value).rpartition("metadata file: ")[2]
    with lookupstore.build(eval(line, {"pyiceberg": pyiceberg}), tmp_path / "s", key="id") as store:
        assert store.scan().read_all().column("id").to_pylist() == [4, 5]
    refused = cli("head", folder)
    assert refused.stderr.endswith("; give iceberg:CATALOG.NAMESPACE.TABLE\n")
    # Of a table without a catalog, the newest file is the state.
    newest = table.metadata_location.removeprefix("file://")
    shutil.copy(newest, folder / "metadata" / "v9.metadata.json")
    assert [json.loads(line)["id"] for line in head_of(folder)] == [4, 5]
    built_as_told(tmp_path, ("head", folder / "data"), [4, 5])


@pytest.mark.parametrize(
    ("mark", "name"),
    [
        ("_delta_log/00000000000000000000.json", "Delta"),
        ("metadata/00001-a.metadata.json", "Iceberg"),
        ("metadata/v3.metadata.json", "Iceberg"),
        ("metadata/00007-a.gz.metadata.json", "Iceberg"),
        (".hoodie/hoodie.properties", "Hudi"),
        (".hoodie/hoodie.properties.backup", "Hudi"),
    ],
)
def test_marks_of_tables(tmp_path: Path, mark: str, name: str) -> None:
    (tmp_path / "t" / "data").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), tmp_path / "t" / "data" / "0.parquet")
    assert open_source(tmp_path / "t").count_rows() == 1
    (tmp_path / "t" / mark).parent.mkdir()
    (tmp_path / "t" / mark).touch()
    for path in ("t/data", "t/data/0.parquet", "t/*/*.parquet", "*", "."):
        with pytest.raises(FormatError, match=f"the {name} table"):
            open_source(f"{tmp_path}/{path}")


def test_the_newest_metadata_file_of_an_iceberg_table_is_named(tmp_path: Path) -> None:
    (tmp_path / "metadata").mkdir()
    for number in (2, 10, 9):
        (tmp_path / "metadata" / f"{number:05}-{'abc'[number % 3]}.metadata.json").touch()
    (tmp_path / "metadata" / "snap-99999.avro").touch()
    with pytest.raises(FormatError, match=r"/metadata/00010-b\.metadata\.json"):
        open_source(tmp_path)


@pytest.mark.parametrize("kind", ["s3", "hdfs"])
def test_a_remote_table_takes_few_requests(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bucket" / "a" / "plain"
    folder.mkdir(parents=True)
    for number in range(100):
        (folder / f"day={number}").mkdir()
        pq.write_table(pa.table({"id": [number]}), folder / f"day={number}" / "0.parquet")
    (tmp_path / "bucket" / "a" / "users").mkdir()
    (tmp_path / "bucket" / "a" / "users" / "_delta_log").mkdir()
    (tmp_path / "bucket" / "a" / "users" / "_delta_log" / "0.json").touch()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "bucket" / "a" / "users" / "0.parquet")
    remote = Remote(tmp_path, kind)

    def opened(uri: str) -> tuple[fs.FileSystem, str]:
        return fs.PyFileSystem(remote), uri.partition("://")[2]

    monkeypatch.setattr(file_search, "open_uri", opened)
    found = file_search.find_source(["s3://bucket/a/plain"])
    assert isinstance(found, list)
    assert len(found[0].files) == 100
    assert remote.count("list") == 1
    # Five marks in each of three folders, and the folder itself.
    assert remote.count("info") <= 1 + 5 * 3
    remote.restart()
    found = file_search.find_source(
        [f"s3://bucket/a/plain/day={at}/0.parquet" for at in range(100)]
    )
    assert remote.count("info") <= 100 + 5 * 103
    remote.restart()
    file_search.find_source(["s3://bucket/a/plain/day=*/*.parquet"])
    assert remote.count("list") <= 1 + 100
    assert remote.count("info") <= 101 + 5 * 3
    for path in ("bucket/a/users", "bucket/a", "bucket/a/users/0.parquet", "bucket/a/*/*.parquet"):
        with pytest.raises(FormatError, match=r"DeltaTable\('s3://bucket/a/users'\)"):
            file_search.find_source([f"s3://{path}"])


def test_who_may_not_see_the_folders_above_reads_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bucket" / "a"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), folder / "0.parquet")

    class Narrow(Remote):
        def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
            for path in paths:
                if not path.startswith("bucket/a"):
                    raise PermissionError(13, "Access Denied", path)
            return super().get_file_info(paths)

    def opened(uri: str) -> tuple[fs.FileSystem, str]:
        return fs.PyFileSystem(Narrow(tmp_path, "s3")), uri.partition("://")[2]

    monkeypatch.setattr(file_search, "open_uri", opened)
    (found,) = file_search.find_source(["s3://bucket/a/0.parquet"])
    assert isinstance(found, file_search.FoundFiles)
    assert found.files == ["bucket/a/0.parquet"]


def test_a_path_is_of_one_kind(tmp_path: Path) -> None:
    lookupstore.build(pa.table({"id": [1], "v": [2]}), tmp_path / "store", key="id").close()
    (sorted_file,) = (tmp_path / "store" / "data").glob("*.sst")
    (tmp_path / "files").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "files" / "0.parquet")
    (tmp_path / "spark.parquet").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "spark.parquet" / "0.parquet")
    (tmp_path / "empty").mkdir()
    kinds = {
        "store": PathKind.STORE,
        "files": PathKind.COLUMNAR_FILES,
        "files/0.parquet": PathKind.COLUMNAR_FILES,
        "files/*": PathKind.COLUMNAR_FILES,
        "spark.parquet": PathKind.COLUMNAR_FILES,
        "empty": PathKind.STORE,
        "nothing": PathKind.STORE,
        os.path.relpath(sorted_file, tmp_path): PathKind.SORTED_FILE,
    }
    assert {path: kind_of(tmp_path / path) for path in kinds} == kinds
