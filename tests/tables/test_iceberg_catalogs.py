"""Iceberg tables of catalogs by their names, with branches and tags, beside pyiceberg."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lookupstore
from lookupstore import FormatError, LookupStore, follow
from lookupstore.columnar import ColumnarFiles
from lookupstore.store.version_files import read_newest

pytest.importorskip("pyiceberg")
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """Return a catalog that pyiceberg finds by its name."""
    home = tmp_path / "home"
    home.mkdir()
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/top"
    (home / ".pyiceberg.yaml").write_text(
        f"catalog:\n  prod:\n    type: sql\n    uri: {uri}\n    warehouse: {warehouse}\n"
    )
    monkeypatch.setenv("PYICEBERG_HOME", str(home))
    found = SqlCatalog("prod", uri=uri, warehouse=warehouse)
    found.create_namespace("sales")
    return found


def table_of(catalog: Catalog, *ids: int, name: str = "sales.users") -> Table:
    rows = pa.table({"id": ids, "s": [f"s{one}" for one in ids]})
    table = catalog.create_table(name, rows.schema)
    table.append(rows)
    return table


def more(table: Table, *ids: int, branch: str = "main") -> None:
    rows = pa.table({"id": ids, "s": [f"s{one}" for one in ids]})
    table.append(rows, branch=branch)


def rebuilt(store: LookupStore) -> str | None:
    followed = store.info().follows
    assert followed is not None
    return followed.get("rebuilt")


def test_a_table_is_read_by_its_name(catalog: Catalog, tmp_path: Path) -> None:
    table = table_of(catalog, 1, 2)
    name = "iceberg:prod.sales.users"
    with lookupstore.build(name, tmp_path / "s", key="id") as store:
        assert dict(store.items()) == {1: {"s": "s1"}, 2: {"s": "s2"}}
    with ColumnarFiles(name, key="id") as files:
        assert files.lookup([2, 3])["s"].to_pylist() == ["s2", None]
        more(table, 3)
        assert files.newest().lookup([2, 3])["s"].to_pylist() == ["s2", "s3"]
        other = pickle.loads(pickle.dumps(files))
        position = other.position_at(datetime.now(timezone.utc))
        assert other.at(position).contains([3]).to_pylist() == [True]
    first = table.metadata.snapshots[0].snapshot_id
    with ColumnarFiles(name, key="id", version=first) as files:
        assert files.contains([1, 3]).to_pylist() == [True, False]


def test_a_store_follows_a_table_by_its_name(catalog: Catalog, tmp_path: Path) -> None:
    table = table_of(catalog, 1, 2)
    store = follow("iceberg:prod.sales.users", tmp_path / "s", key="id")
    assert list(store) == [1, 2]
    more(table, 3)
    table.delete("id = 1")
    store = store.sync()
    assert (list(store), rebuilt(store)) == ([2, 3], None)
    more(table, 4)
    with lookupstore.open(tmp_path / "s") as store:
        assert list(store.sync()) == [2, 3, 4]


def test_a_store_does_not_record_the_options_of_a_name(catalog: Catalog, tmp_path: Path) -> None:
    table_of(catalog, 1, 2)
    secret = {"access_key": "KEY", "secret_key": "SECRET"}
    for given, options in (
        ("iceberg:prod.sales.users?access_key=KEY&secret_key=SECRET", None),
        ("iceberg:prod.sales.users", secret),
    ):
        with follow(
            given, tmp_path / "s", key="id", overwrite=True, storage_options=options
        ) as store:
            assert "SECRET" not in str(store.info())
            follows = read_newest(store.location).follows
            assert follows is not None
            assert follows.place == "iceberg:prod.sales.users"
        written = [path.read_bytes() for path in (tmp_path / "s").rglob("*") if path.is_file()]
        assert not any(b"SECRET" in content for content in written)


def test_a_new_branch_is_followed_from_its_first_snapshot_on(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = table_of(catalog, 1)
    follow("iceberg:prod.sales.users", tmp_path / "s", key="id").close()
    first = table.current_snapshot()
    assert first is not None
    with table.manage_snapshots() as changes:
        changes.create_branch(first.snapshot_id, "audit")
    follow("iceberg:prod.sales.users.branch_audit", tmp_path / "s", key="id").close()
    more(table, 2)
    more(table, 10, branch="audit")
    with lookupstore.open(tmp_path / "s") as store, store.sync() as newer:
        assert list(newer) == [1, 10]


def test_a_branch_and_a_tag_are_read_and_a_branch_is_followed(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = table_of(catalog, 1, 2)
    first = table.current_snapshot()
    assert first is not None
    with table.manage_snapshots() as changes:
        changes.create_branch(first.snapshot_id, "audit")
        changes.create_tag(first.snapshot_id, "v1.0")
    more(table, 3)
    more(table, 10, branch="audit")
    assert list(table.scan().use_ref("audit").to_arrow()["id"].to_pylist()) == [10, 1, 2]
    names = {"": [1, 2, 3], ".branch_audit": [1, 2, 10], ".tag_v1.0": [1, 2]}
    for ref, ids in names.items():
        name = f"iceberg:prod.sales.users{ref}"
        with lookupstore.build(name, tmp_path / "b", key="id", overwrite=True) as built:
            assert list(built) == ids, ref
        with ColumnarFiles(name, key="id") as files:
            assert files.contains([1, 3, 10]).to_pylist() == [one in ids for one in (1, 3, 10)]
    branch = ColumnarFiles("iceberg:prod.sales.users.branch_audit", key="id")
    tag = ColumnarFiles("iceberg:prod.sales.users.tag_v1.0", key="id")
    store = follow("iceberg:prod.sales.users.branch_audit", tmp_path / "s", key="id")
    more(table, 11, branch="audit")
    more(table, 4)
    store = store.sync()
    assert (list(store), rebuilt(store)) == ([1, 2, 10, 11], None)
    assert store.sync() is store
    assert branch.newest().contains([11, 4]).to_pylist() == [True, False]
    assert tag.newest() is tag
    now = datetime.now(timezone.utc)
    elsewhere = pickle.loads(pickle.dumps(branch))
    assert elsewhere.at(elsewhere.position_at(now)).contains([11, 4]).to_pylist() == [True, False]
    with ColumnarFiles("iceberg:prod.sales.users.branch_audit", key="id", as_of=now) as files:
        assert files.contains([11, 4]).to_pylist() == [True, False]
    with pytest.raises(ValueError, match="a tag, which never changes; give the table or a branch"):
        follow("iceberg:prod.sales.users.tag_v1.0", tmp_path / "t", key="id")
    with pytest.raises(ValueError, match="opened with a tag, and so never changes"):
        tag.position_at(now)
    with pytest.raises(
        ValueError, match=r"\('audit'\), which never changes; leave .* use_ref.*\.branch_NAME"
    ):
        follow(catalog.load_table("sales.users").scan().use_ref("audit"), tmp_path / "t", key="id")
    # Main and the branch have one history: the store goes over by what differs.
    store = follow("iceberg:prod.sales.users", tmp_path / "s", key="id")
    assert (list(store), rebuilt(store)) == ([1, 2, 3, 4], None)
    with catalog.load_table("sales.users").manage_snapshots() as changes:
        changes.remove_branch("audit")
    with pytest.raises(FileNotFoundError, match="no branch or tag 'audit' any more"):
        branch.newest()


def test_a_table_whose_name_is_that_of_a_branch_comes_first(catalog: Catalog) -> None:
    table = table_of(catalog, 1)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    with table.manage_snapshots() as changes:
        changes.create_branch(snapshot.snapshot_id, "x")
    more(table, 2, branch="x")
    catalog.create_namespace("sales.users")
    table_of(catalog, 7, name="sales.users.branch_x")
    with ColumnarFiles("iceberg:prod.sales.users.branch_x", key="id") as files:
        assert files.contains([1, 2, 7]).to_pylist() == [False, False, True]


def test_names_that_lead_nowhere(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table_of(catalog, 1)

    def refused(name: str, error: type[Exception], match: str) -> None:
        with pytest.raises(error, match=match):
            lookupstore.build(name, tmp_path / "s", key="id")
        with pytest.raises(error, match=match):
            ColumnarFiles(name, key="id")
        with pytest.raises(error, match=match):
            follow(name, tmp_path / "s", key="id")

    refused("iceberg:users", ValueError, "does not name a table; give iceberg:CATALOG.NAMESPACE")
    refused("iceberg:prod..users", ValueError, "does not name a table")
    refused("iceberg:other.sales.users", ValueError, r"no catalog 'other'; .*\.pyiceberg\.yaml")
    refused("iceberg:prd.sales.users", ValueError, r"no catalog 'prd'; did you mean 'prod'\?")
    refused("iceberg:prd.sales.users", ValueError, r"\['prod'\]; to add 'prd', describe it in \.py")
    refused(
        "iceberg:prod.sales.gone",
        FileNotFoundError,
        r"the catalog 'prod' has no table 'gone' in the namespace 'sales'; it has \['users'\]",
    )
    refused(
        "iceberg:prod.sales.usrs",
        FileNotFoundError,
        r"no table 'usrs' in the namespace 'sales'; did you mean 'users'\? It has \['users'\]",
    )
    refused(
        "iceberg:prod.gone.users",
        FileNotFoundError,
        r"the catalog 'prod' has no namespace 'gone'; it has \['sales'\]",
    )
    refused("iceberg:prod.sales.users.branch_b", FormatError, r"no branch 'b'; it has \['main'\]")
    refused("iceberg:prod.sales.users.tag_main", FormatError, r"no tag 'main'; it has \[\]")
    with pytest.raises(FormatError, match="names a table of a catalog; give it alone"):
        lookupstore.build(["iceberg:prod.sales.users", "x.parquet"], tmp_path / "s", key="id")
    assert not (tmp_path / "s").exists()
    monkeypatch.setenv("PYICEBERG_CATALOG__DOWN__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__DOWN__URI", "sqlite:////no/such/folder/catalog.db")
    refused("iceberg:down.sales.users", OSError, "its catalog raised")


def test_options_of_the_storage_are_given_to_the_catalog(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table_of(catalog, 1)
    module = pytest.importorskip("pyiceberg.catalog")
    real, given = module.load_catalog, {}

    def noted(name: str, **properties: Any) -> Catalog:
        given.update(properties)
        return real(name, **properties)

    monkeypatch.setattr(module, "load_catalog", noted)
    options = {"key": "K", "secret": "verysecret", "client_kwargs": {"region_name": "eu-west-1",
               "endpoint_url": "http://localhost:9000"}, "anon": False}  # fmt: skip
    name = "iceberg:prod.sales.users"
    with lookupstore.build(name, tmp_path / "s", key="id", storage_options=options) as store:
        assert list(store) == [1]
    assert {name: value for name, value in given.items() if name.startswith("s3.")} == {
        "s3.access-key-id": "K", "s3.secret-access-key": "verysecret", "s3.region": "eu-west-1",
        "s3.endpoint": "http://localhost:9000",
    }  # fmt: skip
    for wrong in ("sales.gone", "sales.users.branch_b"):
        with pytest.raises((FileNotFoundError, FormatError)) as raised:
            ColumnarFiles(f"iceberg:prod.{wrong}", key="id", storage_options=options)
        assert "verysecret" not in str(raised.value)
    with ColumnarFiles(name, key="id", storage_options=options) as files:
        assert "verysecret" not in f"{files!r} {files.path}"
    with pytest.raises(ValueError, match=r"pyiceberg has no option \['external_id'\]"):
        ColumnarFiles(name, key="id", storage_options={"external_id": "x"})


def test_the_shell_reads_and_follows_a_table_of_a_catalog(catalog: Catalog, tmp_path: Path) -> None:
    table = table_of(catalog, 1, 2)
    name, path = "iceberg:prod.sales.users", str(tmp_path / "s")

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "lookupstore", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("follow", name, path, "--key", "id")
    more(table, 3)
    run("follow", name, path, "--key", "id")
    assert run("get", path, "3", "--output", "json") == '{"id": 3, "s": "s3"}\n'
    assert '"id": 2' in run("head", name, "--output", "json")


def test_a_read_of_all_rows_says_why(
    catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    table = table_of(catalog, 1)
    store = follow("iceberg:prod.sales.users", tmp_path / "s", key="id")
    kept = follow("iceberg:prod.sales.users", tmp_path / "kept", key="id", columns=["s"])
    with table.update_schema() as update:
        update.rename_column("s", "t")
    store = store.sync()
    assert rebuilt(store) == (
        "the value column 's' (large_string) is gone, and each stored row has all columns; to read "
        "only what changed, keep the columns, or name those to store in columns="
    )
    assert str(rebuilt(store)) in caplog.text
    with table.update_schema() as update:
        update.rename_column("t", "s")
    with table.update_schema() as update:
        from pyiceberg.types import LongType

        update.add_column("n", LongType())
    kept = kept.sync()  # a new column is none of its columns
    assert (list(kept), rebuilt(kept)) == ([1], None)
