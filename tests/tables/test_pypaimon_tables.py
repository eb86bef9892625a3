"""Open tables of pypaimon wherever tables of other libraries are accepted.

pypaimon needs an older pyarrow than other tests. Where it is not installed, a class with the same
attributes stands for its table: see `support.opened_paimon`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.opened_paimon import Opened, library

import lookupstore
from lookupstore import FormatError
from lookupstore.columnar import ColumnarFiles

# pypaimon passes an argument that newer versions of pyarrow deprecate.
pytestmark = pytest.mark.filterwarnings("ignore:.*null_placement.*:FutureWarning")

OLD, NEW = {1: "a1", 2: "a2"}, {1: "a1", 2: "b2", 3: "b3"}


@pytest.fixture(params=["pypaimon", "stand-in"])
def opened(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: Any) -> Opened:
    """Give a table with two snapshots, of which the first one has a tag."""
    made = library(request.param, tmp_path / "wh", monkeypatch)
    made.write([1, 2], "a")
    made.tag("v1")
    made.write([2, 3], "b")
    return made


def found(given: Any, **said: Any) -> dict[int, str]:
    with ColumnarFiles(given, key="id", **said) as files:
        names = files.lookup(range(9)).column("name").to_pylist()
    return {key: name for key, name in enumerate(names) if name is not None}


def built(given: Any, path: Path, **said: Any) -> dict[int, str]:
    with lookupstore.build(given, path, key="id", overwrite=True, **said) as store:
        return {key: row["name"] for key, row in store.items()}


def test_the_newest_snapshot_is_read_without_options(opened: Opened, tmp_path: Path) -> None:
    table = opened.table()
    assert built(table, tmp_path / "s") == found(table) == NEW
    with lookupstore.open(tmp_path / "s") as store:
        assert store.info().source == f"Paimon table {opened.folder} at snapshot 2"
    opened.write([4], "c")
    assert found(table) == {**NEW, 4: "c4"}


def test_options_choose_the_snapshot(opened: Opened, tmp_path: Path) -> None:
    for options in ({"scan.snapshot-id": "1"}, {"scan.tag-name": "v1"}):
        table = opened.table(**options)
        assert built(table, tmp_path / "s") == found(table) == OLD
        (name,) = options
        with pytest.raises(ValueError, match=rf"opened with the option '{name}' \('.*'\); leave"):
            built(table, tmp_path / "s", version=2)
        with pytest.raises(ValueError, match=rf"table is open with the option '{name}' .* without"):
            lookupstore.follow(table, tmp_path / "f", key="id")
        with ColumnarFiles(table, key="id") as files:
            assert files.newest() is files
    mode = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1", "read.batch-size": "7"}
    assert found(opened.table(**mode)) == OLD
    assert found(opened.table(**{"scan.mode": "latest-full", "write-only": "true"})) == NEW


def test_arguments_choose_the_snapshot(opened: Opened, tmp_path: Path) -> None:
    table = opened.table()
    assert built(table, tmp_path / "s", version=1) == found(table, version=1) == OLD
    assert found(table, as_of="2999-01-01") == NEW
    with pytest.raises(ValueError, match="before the first commit"):
        found(table, as_of="1969-01-01")
    with pytest.raises(ValueError, match="storage_options is given with a Paimon table that is op"):
        found(table, storage_options={"key": "k"})


def test_options_that_are_not_known_are_refused_by_name(opened: Opened, tmp_path: Path) -> None:
    for name, value in (
        ("scan.timestamp-millis", "9999999999999"),
        ("scan.version", "1"),
        ("merge-engine", "first-row"),
        ("scan.fallback-branch", "b"),
        ("scan.mode", "from-snapshot"),
    ):
        table = opened.table(**{name: value})
        said = rf"source: .* open with the option '{name}' \('{value}'\).* without this option"
        for act in (
            lambda table=table: built(table, tmp_path / "s"),
            lambda table=table: found(table),
            lambda table=table: lookupstore.follow(table, tmp_path / "s", key="id"),
        ):
            with pytest.raises(FormatError, match=said.replace("source", "(source|table)")):
                act()
    with pytest.raises(FormatError, match=r"open without the option 'merge-engine' .*open it with"):
        found(opened.table(**{"merge-engine": None}))
    with pytest.raises(ValueError, match=r"'scan.snapshot-id', 'scan.tag-name', which both"):
        found(opened.table(**{"scan.snapshot-id": "1", "scan.tag-name": "v1"}))
    with pytest.raises(ValueError, match=r"'scan.snapshot-id' \('7'\), but has '1', '2'; open it"):
        found(opened.table(**{"scan.snapshot-id": "7"}))
    with pytest.raises(ValueError, match=r"'scan.tag-name' \('v2'\), but has 'v1'; open it"):
        found(opened.table(**{"scan.tag-name": "v2"}))
    shutil.rmtree(opened.folder / "tag")
    with pytest.raises(ValueError, match=r"\('v2'\), but has none; open it without this option"):
        found(opened.table(**{"scan.tag-name": "v2"}))


def test_a_branch_is_read_where_it_is(opened: Opened, tmp_path: Path) -> None:
    opened.branch("b", "v1")
    table = opened.table(branch="b")
    assert built(table, tmp_path / "s") == found(table) == OLD
    assert found(opened.table()) == NEW


def test_a_store_follows_the_table(opened: Opened, tmp_path: Path) -> None:
    table = opened.table()
    store = lookupstore.follow(table, tmp_path / "s", key="id")
    assert {key: row["name"] for key, row in store.items()} == NEW
    assert store.sync() is store
    opened.write([1, 5], "c")
    newer = store.sync()
    assert {key: row["name"] for key, row in newer.items()} == {**NEW, 1: "c1", 5: "c5"}
    assert (newer.info().follows or {}).get("rebuilt") is None
    with ColumnarFiles(table, key="id") as files:
        opened.write([6], "d")
        assert 6 in files.newest()


def test_file_systems_and_catalogs_of_pypaimon_are_refused(opened: Opened, tmp_path: Path) -> None:
    table = opened.table()
    table.catalog_environment.supports_version_management = True
    with pytest.raises(FormatError, match="uses a REST catalog, which is not supported; pass"):
        found(table)
    table.catalog_environment.supports_version_management = False
    table.table_path = "hdfs://host/t"
    table.file_io = opened.foreign_files()
    with pytest.raises(FormatError, match=r"ForeignFiles\) which pyarrow .*storage_options"):
        built(table, tmp_path / "s")
