"""Tables on an S3 server, by their libraries' objects and by URIs."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError
from pyiceberg.catalog.memory import InMemoryCatalog
from support.object_store import (
    BUCKET,
    KEY,
    SECRET,
    ObjectStore,
    deltalake_names,
    pandas_names,
    writable_object_store,
)

import lookupstore
from lookupstore.columnar import ColumnarFiles

ROWS = pa.table({"id": [1, 2, 3], "day": ["a b", "a b", "ü%"]})


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with writable_object_store() as server:
        yield server


@pytest.fixture(autouse=True)
def without_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave nothing but the options to say where the server is, and who asks."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("names", [pandas_names, deltalake_names])
def test_a_delta_table_of_a_uri(server: ObjectStore, names: Any, tmp_path: Path) -> None:
    uri, own = f"s3://{BUCKET}/{names.__name__}/users", deltalake_names(server)
    deltalake.write_deltalake(
        uri, ROWS, partition_by=["day"],
        storage_options={**own, "aws_s3_allow_unsafe_rename": "true"},
    )  # fmt: skip
    options = names(server)
    with lookupstore.build(uri, tmp_path / "s", key="id", storage_options=options) as store:
        assert dict(store.items()) == {1: {"day": "a b"}, 2: {"day": "a b"}, 3: {"day": "ü%"}}
    table = deltalake.DeltaTable(uri, storage_options=own)
    with lookupstore.build(table, tmp_path / "t", key="id") as store:
        assert list(store) == [1, 2, 3]
    table.delete("id = 2")
    with lookupstore.upsert(store, uri, storage_options=options) as newer:
        assert newer.version == 2
    for path in ("users/_delta_log", "users/day=a%20b"):
        with pytest.raises((lookupstore.FormatError, OSError)) as raised:
            lookupstore.build(
                f"s3://{BUCKET}/{names.__name__}/{path}", tmp_path / "never", key="id",
                storage_options=options,
            )  # fmt: skip
        assert SECRET not in str(raised.value)
        assert KEY not in str(raised.value)


def test_versions_of_a_delta_table_of_a_uri(server: ObjectStore) -> None:
    """The times are those of the server, in whole seconds."""
    uri, own = f"s3://{BUCKET}/followed/users", deltalake_names(server)

    def write(at: int) -> None:
        rows = pa.table({"id": [at]})
        options = {**own, "aws_s3_allow_unsafe_rename": "true"}
        deltalake.write_deltalake(uri, rows, mode="overwrite", storage_options=options)

    start = time.time()
    write(0)
    files = ColumnarFiles(uri, key="id", storage_options=pandas_names(server))
    for at in range(1, 6):
        write(at)
    end = datetime.fromtimestamp(time.time() + 1, timezone.utc)
    other = pickle.loads(pickle.dumps(files))
    assert other.position_at(end) == "5"
    assert other.position_at(datetime.fromtimestamp(start - 2, timezone.utc)) == "0"
    newest = other.at("5")
    assert newest.contains([0, 5]).to_pylist() == [False, True]
    assert start - 1 <= (newest.committed_at() or 0) <= end.timestamp()
    assert files.refresh() == files.newest() == newest

    def fails(version: int) -> float:
        raise DeltaError("503 Slow Down")

    commits: Any = other._commits()
    commits._written = fails
    with pytest.raises(OSError, match=r"Delta table s3://.*/followed/users: 503 Slow Down"):
        other.position_at(end)


def test_an_iceberg_table_of_a_server(server: ObjectStore, tmp_path: Path) -> None:
    own = deltalake_names(server)
    catalog = InMemoryCatalog(
        "w",
        warehouse=f"s3://{BUCKET}/warehouse",
        **{
            "s3.endpoint": own["AWS_ENDPOINT_URL"],
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
            "s3.region": "us-east-1",
        },
    )
    catalog.create_namespace("w")
    table = catalog.create_table("w.users", ROWS.schema)
    with table.update_spec() as update:
        update.add_identity("day")
    table.append(ROWS)
    table.delete("id = 2")
    with lookupstore.build(table, tmp_path / "s", key="id") as store:
        assert dict(store.items()) == {1: {"day": "a b"}, 3: {"day": "ü%"}}
    bytes_of_it = table.io.new_input(table.metadata_location).open().read()
    with table.io.new_output(f"{table.location()}/metadata/v9.metadata.json").create() as file:
        file.write(bytes_of_it)
    for names in (deltalake_names, pandas_names):
        options = names(server)
        folder = table.location()
        with lookupstore.build(folder, tmp_path / "t", key="id", overwrite=True,
                               storage_options=options) as store:  # fmt: skip
            assert list(store) == [1, 3]
