"""What is written to an object store, against a server that takes uploads as S3 does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from support.object_store import BUCKET, ObjectStore, writable_object_store
from support.replaced import two_versions

import lookupstore
from lookupstore import ColumnarFiles, StaleStoreError
from lookupstore.storage.location import Location
from lookupstore.storage.uris import open_uri
from lookupstore.store.local_files import files_of

ROWS = 200_000


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with writable_object_store() as server:
        yield server


@pytest.fixture(autouse=True)
def own_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "cache"))


def table(word: str, rows: int = ROWS) -> pa.Table:
    return pa.table({"id": range(rows), "v": [f"{word} {i}" for i in range(rows)]})


def names(server: ObjectStore, folder: str) -> list[str]:
    filesystem, _ = open_uri(server.uri(""))
    found = filesystem.get_file_info(fs.FileSelector(f"{BUCKET}/{folder}", recursive=True))
    return sorted(info.path for info in found if info.is_file)


def test_an_object_gets_another_name(server: ObjectStore) -> None:
    place = Location(server.uri("moved"))
    place.write(".hoodie/.temp/1/a", [b"one"])
    place.move(".hoodie/.temp/1/a", "day=1/a")
    assert (place.size(".hoodie/.temp/1/a"), place.read("day=1/a")) == (None, b"one")
    with pytest.raises(OSError, match="does not exist"):
        place.move(".hoodie/.temp/1/a", "day=1/b")


def test_the_name_of_a_bucket_that_does_not_exist(
    server: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    with pytest.raises(FileNotFoundError, match="s3://bukket/users: no such bucket 'bukket'; ch"):
        lookupstore.open("s3://bukket/users")
    with pytest.raises(FileNotFoundError, match="'bukket'"):
        lookupstore.versions("s3://bukket")
    with pytest.raises(FileNotFoundError, match="no such store folder"):
        lookupstore.open(f"s3://{BUCKET}/no-users")


def test_versions_are_written_read_and_removed(server: ObjectStore, tmp_path: Path) -> None:
    uri = server.uri("store")
    first = lookupstore.build(table("a"), uri, key="id", buckets=2)
    assert first.lookup([0, ROWS - 1, ROWS])["v"].to_pylist() == ["a 0", f"a {ROWS - 1}", None]
    with pytest.raises(FileExistsError):
        lookupstore.build(table("b"), uri, key="id", buckets=2)
    second = lookupstore.build(table("b"), uri, key="id", buckets=2, overwrite=True)
    assert (first.version, second.version) == (1, 2)
    assert second.get(7) == {"v": "b 7"}
    with lookupstore.open(uri, version=1) as old:
        assert old.get(7) == {"v": "a 7"}
    # More than a part of an upload, so that there are several.
    large = pa.table({"id": range(1000), "v": [bytes([i % 251]) * 30_000 for i in range(1000)]})
    lookupstore.build(large, server.uri("large"), key="id").close()
    with lookupstore.open(server.uri("large")) as opened:
        assert opened.verify().num_rows == 1000
    removed = lookupstore.expire(uri, retain=0)
    assert removed.versions == (1,)
    with lookupstore.open(uri) as opened:
        assert opened.verify().stray == ()
    copy = lookupstore.publish(second, tmp_path / "copy")
    assert copy.verify().num_rows == ROWS
    there = lookupstore.publish(copy, server.uri("there"))
    assert there.id == second.id
    assert there.verify().num_rows == ROWS
    for store in (first, second, copy, there):
        store.close()


def test_lookup_files_are_published_beside_columnar_files(
    server: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filesystem, _ = open_uri(server.uri(""))
    pq.write_table(table("c"), f"{BUCKET}/dim/0.parquet", filesystem=filesystem)
    files = ColumnarFiles(server.uri("dim/*.parquet"), key="id")
    assert files.publish() == 1
    assert [name.rpartition(".")[2] for name in names(server, "dim/_lookup")] == ["json", "sst"]
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "other host"))
    with ColumnarFiles(server.uri("dim/*.parquet"), key="id", build="always") as other:
        assert other.lookup([5, ROWS])["v"].to_pylist() == ["c 5", None]
        assert files_of(other).counts().bytes_fetched > 0


def test_an_object_that_is_put_twice_in_a_second(server: ObjectStore) -> None:
    """The time of an object has seconds, and its size and footer stay: its ETag does not."""
    old, new = two_versions()
    path = f"{BUCKET}/twice.parquet"
    filesystem = server.filesystem()

    def put(content: bytes) -> int:
        with filesystem.open_output_stream(path) as stream:
            stream.write(content)
        return int(filesystem.get_file_info(path).mtime_ns)

    def listed() -> ColumnarFiles:
        return ColumnarFiles(server.uri("twice.parquet"), key="id", build="always")

    while True:
        before = put(old)
        first, second = listed(), listed()
        if put(new) == before:
            break
    for files in (first, second):
        with pytest.raises(StaleStoreError, match="rewritten since the files were listed"):
            files.lookup([1])
    assert listed().lookup([1])["v"].to_pylist() == ["new 000001"]
