"""Tables on an S3 server, by their libraries' objects and by URIs."""

from __future__ import annotations

import pickle
import random
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError
from pyarrow import fs
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import StaticTable
from support.object_store import (
    BUCKET,
    FOR_WRITES,
    KEY,
    SECRET,
    ObjectStore,
    Proxy,
    deltalake_names,
    object_store,
    pandas_names,
    writable_object_store,
)
from support.opened_paimon import FileStoreTable, stand_in
from support.paimon_tables import PaimonTable
from support.quick_store import QuickStore, quick_store

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.columnar.file_lookup import FileLookup
from lookupstore.hostcache.cache import Residency

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
    position = other.position_at(end)
    assert position.startswith("5:")
    assert other.position_at(datetime.fromtimestamp(start - 2, timezone.utc)) == other._commit
    newest = other.at(position)
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


@pytest.mark.parametrize("names", [pandas_names, deltalake_names])
def test_a_paimon_table_of_a_uri(
    server: ObjectStore, names: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"id": "BIGINT NOT NULL", "name": "STRING", "day": "DATE"}
    table = PaimonTable(tmp_path / "t", fields, ["id", "day"], ["day"], {"bucket": "1"})

    def rows(*ids: int, name: str) -> pa.Table:
        return pa.table({
            "id": pa.array(ids, pa.int64()), "name": [f"{name}{one}" for one in ids],
            "day": pa.array([0] * len(ids), pa.date32()),
        })  # fmt: skip

    # Java names folders by the number of the day, and pypaimon by its date.
    day = {"partition": ["1970-01-01"], "values": [0]}
    table.commit(table.add(rows(1, 2, 3, name="old"), **day))
    table.commit(table.add(rows(2, 3, name="new"), sequence=[9, 10], kinds=[0, 3], **day))
    root = f"{BUCKET}/{names.__name__}/paimon"
    server.filesystem().create_dir(root)
    fs.copy_files(str(tmp_path / "t"), root, destination_filesystem=server.filesystem())
    uri, options = f"s3://{root}", names(server)
    with lookupstore.build(uri, tmp_path / "s", key="id", storage_options=options) as store:
        assert {key: row["name"] for key, row in store.items()} == {1: "old1", 2: "new2"}
    with ColumnarFiles(uri, key="id", storage_options=options) as files:
        assert files.lookup([1, 2, 3])["name"].to_pylist() == ["old1", "new2", None]
    stand_in(monkeypatch)
    io = SimpleNamespace(filesystem=server.filesystem(), to_filesystem_path=lambda uri: uri[5:])
    opened = FileStoreTable(uri, SimpleNamespace(id=0, options={"bucket": "1"}), io)
    with ColumnarFiles(opened, key="id") as files:
        for one in (files, pickle.loads(pickle.dumps(files))):
            assert one.lookup([1, 2, 3])["name"].to_pylist() == ["old1", "new2", None]
    opened = opened.copy({"scan.snapshot-id": "1"})
    with lookupstore.build(opened, tmp_path / "s1", key="id") as store:
        assert list(store) == [1, 2, 3]
    table.commit(table.add(rows(4, name="x"), sequence=[11], **day))
    with server.filesystem().open_output_stream(f"{root}/snapshot/snapshot-3") as file:
        file.write((tmp_path / "t" / "snapshot" / "snapshot-3").read_bytes())
    with pytest.raises(lookupstore.StaleStoreError, match="gone; a vacuum or expiry") as raised:
        lookupstore.build(uri, tmp_path / "never", key="id", storage_options=options)
    assert SECRET not in str(raised.value)
    assert KEY not in str(raised.value)


def requests_of_files(quick: QuickStore) -> list[list[str]]:
    """Return the methods of the requests for each data file, sorted."""
    found: dict[str, list[str]] = {}
    for one, _ in quick.asked():
        if one.path.split("?")[0].endswith(".parquet"):
            found.setdefault(one.path, []).append(one.method)
    return [sorted(methods) for methods in found.values()]


def test_a_data_file_takes_few_requests(tmp_path: Path) -> None:
    """A small file is read at once."""
    folder = tmp_path / "s3" / BUCKET / "t"
    for start in range(0, 60_000, 20_000):
        ids = pa.array(range(start, start + 20_000))
        deltalake.write_deltalake(folder, pa.table({"id": ids, "n": ids}), mode="append")
    with quick_store(tmp_path / "s3", 0) as quick:
        options = deltalake_names(quick.store)
        table = deltalake.DeltaTable(f"s3://{BUCKET}/t", storage_options=options)
        quick.asked()
        with lookupstore.build(table, tmp_path / "s", key="id") as store:
            assert len(store) == 60_000
        # The log has the sizes, so that nothing asks for them.
        assert requests_of_files(quick) == [["GET"]] * 3
        for build in ("never", "always", "auto"):
            residency = Residency(tmp_path / build, quota="1GB")
            given: dict[str, Any] = {"key": "id", "build": build, "residency": residency}
            with ColumnarFiles(quick.store.uri("t"), **given) as files:
                assert files.lookup([5, 25_000, 45_000])["n"].to_pylist() == [5, 25_000, 45_000]
            assert requests_of_files(quick) == [["GET"]] * 3


def test_the_footer_of_a_large_file_is_read_once(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    ids = pa.array([chance.randrange(1 << 62) for _ in range(600_000)])
    deltalake.write_deltalake(tmp_path / "s3" / BUCKET / "t", pa.table({"id": ids, "n": ids}))
    (file,) = (tmp_path / "s3" / BUCKET / "t").glob("*.parquet")
    size = file.stat().st_size
    assert size > 8 << 20
    with quick_store(tmp_path / "s3", 0) as quick:
        options = deltalake_names(quick.store)
        table = deltalake.DeltaTable(f"s3://{BUCKET}/t", storage_options=options)
        with lookupstore.build(table, tmp_path / "s", key="id", on_duplicate=("max", "n")) as store:
            assert len(store) == len(set(ids.to_pylist()))
        asked = [one for one, _ in quick.asked() if one.path.endswith(".parquet")]
    ends = [one for one in asked if one.method == "GET" and one.start + one.size == size]
    assert len(ends) == 1, asked


def test_small_files_are_read_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "s3" / BUCKET / "t"
    for start in (0, 10):
        rows = pa.table({"id": range(start, start + 10)})
        deltalake.write_deltalake(folder, rows, mode="append")
    both, real = Barrier(2, timeout=30), FileLookup.lookup

    def lookup(one: FileLookup, *given: Any) -> Any:
        both.wait()  # raises an error if the other file waits for this one
        return real(one, *given)

    monkeypatch.setattr(FileLookup, "lookup", lookup)
    residency = Residency(tmp_path / "cache", quota="1GB")
    with (
        quick_store(tmp_path / "s3", 0) as quick,
        ColumnarFiles(quick.store.uri("t"), key="id", residency=residency) as files,
    ):
        assert files.contains([*range(-3, 25)]).true_count == 20


@pytest.mark.parametrize("name", ["Delta", "Iceberg"])
def test_the_first_keys_of_larger_files_take_few_requests(
    tmp_path: Path, seed: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many keys take one. A few take one for the footer, one for keys and one for values."""
    chance = random.Random(seed)
    each, files = 80_000, 3
    parts = [
        pa.table({
            "id": range(start, start + each),
            "a": [chance.randrange(1 << 62) for _ in range(each)],
            "b": [f"b{one}" for one in range(each)],
        })
        for start in range(0, files * each, each)
    ]  # fmt: skip
    folder = tmp_path / "s3" / BUCKET
    if name == "Delta":
        for rows in parts:
            deltalake.write_deltalake(folder / "t", rows, mode="append")
    else:
        metadata = written_by_pyiceberg(tmp_path / "s3", parts, monkeypatch)
    paths = sorted(folder.rglob("*.parquet"))
    assert len(paths) == files
    assert min(path.stat().st_size for path in paths) > 1 << 20
    residency = Residency(tmp_path / "cache", quota="1GB")
    with quick_store(tmp_path / "s3", 0) as quick:
        given: Any = quick.store.uri("t")
        if name == "Iceberg":
            given = StaticTable.from_metadata(metadata, pyiceberg_names(quick.store))
        with ColumnarFiles(given, key="id", residency=residency) as lookups:
            quick.asked()
            assert lookups.lookup([each + 5])["b"].to_pylist() == ["b5"]
            assert requests_of_files(quick) == [["GET", "GET", "GET"]]
        with ColumnarFiles(given, key="id", residency=residency) as lookups:
            keys = chance.sample(range(files * each), 1000)
            expected = [f"b{key % each}" for key in keys]
            quick.asked()
            assert lookups.lookup(keys)["b"].to_pylist() == expected
            assert requests_of_files(quick) == [["GET"]] * files
            # The second look at most of a file makes its lookup file, after it has read the footer.
            assert not any(residency.lookup_files.has(one.name) for one in lookups._plans)
            assert lookups.lookup(keys)["b"].to_pylist() == expected
            assert requests_of_files(quick) == [["GET", "GET"]] * files
            assert lookups.lookup(keys)["b"].to_pylist() == expected
            assert requests_of_files(quick) == []


def written_by_pyiceberg(
    folder: Path, parts: list[pa.Table], monkeypatch: pytest.MonkeyPatch
) -> str:
    """Write an Iceberg table to a bucket, and return its metadata file."""
    for name, value in FOR_WRITES.items():
        monkeypatch.setenv(name, value)
    with object_store(folder) as server, closing(Proxy(server)) as proxy:
        catalog = InMemoryCatalog("w", warehouse=f"s3://{BUCKET}/w", **pyiceberg_names(proxy.store))
        catalog.create_namespace("w")
        table = catalog.create_table("w.t", parts[0].schema)
        for rows in parts:
            table.append(rows)
        return str(table.metadata_location)


def pyiceberg_names(server: ObjectStore) -> dict[str, str]:
    return {
        "s3.endpoint": f"http://{server.address}",
        "s3.access-key-id": KEY,
        "s3.secret-access-key": SECRET,
        "s3.region": "us-east-1",
    }
