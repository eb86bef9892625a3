"""Branches and tags of Paimon tables."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from support.histories.paimon import ROWS, TYPES
from support.paimon_tables import PaimonTable

import lookupstore
from lookupstore import FormatError, StaleStoreError
from lookupstore.columnar import ColumnarFiles

NEW = {**ROWS, "more": "INT"}


def rows_of(ids: Sequence[int], name: str) -> pa.Table:
    rows = {"id": ids, "name": [name] * len(ids), "at": [1] * len(ids)}
    return pa.table(rows, schema=TYPES)


def branched(folder: Path) -> tuple[PaimonTable, PaimonTable]:
    """Return a table and a branch of it, which have changed since."""
    table = PaimonTable(folder, ROWS, ["id"], options={"bucket": "1"})
    table.commit(table.add(rows_of([1, 2], "both")))
    home = folder / "branch" / "branch-b"
    for name in ("schema", "snapshot"):
        shutil.copytree(folder / name, home / name)
    # The branch writes snapshots and schemas in its folder, and all other files in the table's.
    branch = PaimonTable(folder, ROWS, ["id"], options={"bucket": "1"})
    branch.snapshot, branch._base = table.snapshot, list(table._base)
    branch.files = dict(table.files)
    kept = json.loads((folder / "snapshot" / "snapshot-1").read_text())
    more = rows_of([2, 3], "branch").append_column("more", pa.array([7, 8], pa.int32()))
    branch.evolve(NEW)
    branch.commit(branch.add(more, sequence=[5, 6]))
    for name in ("schema/schema-1", "snapshot/snapshot-2"):
        shutil.move(folder / name, home / name)
    assert json.loads((folder / "snapshot" / "snapshot-1").read_text()) == kept
    table.commit(table.add(rows_of([2, 4], "main"), sequence=[7, 8]))
    return table, branch


def names(given: Path | str, **said: int) -> dict[int, str]:
    with ColumnarFiles(given, key="id", **said) as files:
        found = files.lookup(range(6)).column("name").to_pylist()
    return {one: name for one, name in enumerate(found) if name is not None}


def test_a_branch_has_rows_and_columns_of_its_own(tmp_path: Path) -> None:
    branched(tmp_path / "t")
    assert names(tmp_path / "t") == {1: "both", 2: "main", 4: "main"}
    folder = tmp_path / "t" / "branch" / "branch-b"
    assert names(folder) == {1: "both", 2: "branch", 3: "branch"}
    assert names(f"{folder}/", version=1) == {1: "both", 2: "both"}
    with lookupstore.build(folder, tmp_path / "s", key="id") as store:
        assert store[2] == {"name": "branch", "at": 1, "more": 7}
        assert store.info().source == f"Paimon table {folder} at snapshot 2"
    assert names(f"file://{folder}") == {1: "both", 2: "branch", 3: "branch"}


def test_a_store_follows_a_branch_and_notices_another_one(tmp_path: Path) -> None:
    branched(tmp_path / "t")
    folder = tmp_path / "t" / "branch" / "branch-b"
    store = lookupstore.follow(folder, tmp_path / "s", key="id", columns=["name"])
    assert {key: row["name"] for key, row in store.items()} == names(folder)
    assert store.sync() is store
    main = {"table": tmp_path / "t", "path": tmp_path / "s", "key": "id", "columns": ["name"]}
    with pytest.raises(FileExistsError, match="branch-b; give each table its own store, or pass"):
        lookupstore.follow(**main)
    store = lookupstore.follow(**main, overwrite=True)
    assert (store.info().follows or {})["rebuilt"] == "overwrite is set"
    assert {key: row["name"] for key, row in store.items()} == names(tmp_path / "t")


def test_the_name_of_a_branch_in_a_catalog_is_refused_with_its_folder(tmp_path: Path) -> None:
    branched(tmp_path / "t")
    folder = f"{tmp_path}/t/branch/branch-b"
    with pytest.raises(FormatError, match=rf"give the folder of the branch: '{folder}'"):
        lookupstore.build(f"{tmp_path}/t$branch_b", tmp_path / "s", key="id")
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        lookupstore.build(f"{tmp_path}/other$branch_b", tmp_path / "s", key="id")


def test_an_option_that_names_another_branch_is_refused(tmp_path: Path) -> None:
    options = {"branch": "b"}
    table = PaimonTable(tmp_path / "t", ROWS, ["id"], options=options)
    table.commit(table.add(rows_of([1], "a")))
    with pytest.raises(FormatError, match=r"the option 'branch' \('b'\)"):
        names(tmp_path / "t")
    (tmp_path / "t" / "branch").mkdir()
    for name, is_read in (("b", True), ("c", False)):
        home = tmp_path / "t" / "branch" / f"branch-{name}"
        for part in ("schema", "snapshot"):
            shutil.copytree(tmp_path / "t" / part, home / part)
        if is_read:
            assert names(home) == {1: "a"}
        else:
            with pytest.raises(FormatError, match="the option 'branch'"):
                names(home)


def test_a_tag_keeps_its_snapshot(tmp_path: Path) -> None:
    table = PaimonTable(tmp_path / "t", ROWS, ["id"])
    table.commit(table.add(rows_of([1, 2], "old")))
    table.commit(table.add(rows_of([2], "new"), sequence=[5]))
    table.commit(table.add(rows_of([3], "newer"), sequence=[6]))
    first = tmp_path / "t" / "snapshot" / "snapshot-1"
    (tmp_path / "t" / "tag").mkdir()
    said = {**json.loads(first.read_text()), "tagCreateTime": [2026, 1, 1], "tagTimeRetained": 1.0}
    tag = tmp_path / "t" / "tag" / "tag-v1.0"
    tag.write_text(json.dumps(said))
    os.unlink(first)
    os.unlink(tmp_path / "t" / "snapshot" / "snapshot-2")
    assert names(tmp_path / "t") == {1: "old", 2: "new", 3: "newer"}
    assert names(tmp_path / "t", version=1) == {1: "old", 2: "old"}
    with lookupstore.build(tmp_path / "t", tmp_path / "s", key="id", version=1) as store:
        assert {key: row["name"] for key, row in store.items()} == {1: "old", 2: "old"}
    with pytest.raises(ValueError, match=r"version is 2, but the Paimon table .* has the"):
        names(tmp_path / "t", version=2)
    with pytest.raises(FormatError, match="the number of the snapshot of the tag as version="):
        lookupstore.build(tag, tmp_path / "s", key="id")
    tag.unlink()
    with pytest.raises(ValueError, match="version is 1"):
        names(tmp_path / "t", version=1)
    table = PaimonTable(tmp_path / "u", ROWS, ["id"])
    table.commit(table.add(rows_of([1], "a")))
    os.unlink(tmp_path / "u" / "snapshot" / "snapshot-1")
    with pytest.raises(StaleStoreError):
        names(tmp_path / "u")
