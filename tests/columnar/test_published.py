"""Columnar files on an object store, and lookup files that are published beside them."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from support.columnar import plans_of
from support.object_store import BUCKET, FOR_WRITES, ObjectStore, Proxy, has_server, object_store

from lookupstore.columnar import ColumnarFiles, published
from lookupstore.errors import CorruptionError
from lookupstore.hostcache.cache import Residency
from lookupstore.storage.location import Location
from lookupstore.store.local_files import files_of

MAKING = "building a lookup file"
ROWS = 30_000
UNREADABLE = 1_700_000_000_120_000_000  # nanoseconds since 1970


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    if not has_server():
        pytest.skip("rclone is not installed: pip install 'lookupstore[test]'")
    with object_store(tmp_path_factory.mktemp("s3"), etags=True) as behind:
        proxy = Proxy(behind)
        yield proxy.store
        proxy.close()


@pytest.fixture(autouse=True)
def _written_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the checksums behind the content, which the server does not take."""
    for name, value in FOR_WRITES.items():
        monkeypatch.setenv(name, value)


class Dimension:
    """Two files of a dimension on the server, and what is in the folder beside them."""

    def __init__(self, server: ObjectStore, name: str) -> None:
        self.server = server
        self.name = name
        self.filesystem: fs.FileSystem = server.filesystem()
        for part in range(2):
            self.write(part, "value")

    def write(self, part: int, word: str) -> None:
        ids = range(part * ROWS, (part + 1) * ROWS)
        table = pa.table({"id": ids, "v": [f"{word} {key}" for key in ids]})
        path = f"{BUCKET}/{self.name}/{part}.parquet"
        pq.write_table(table, path, filesystem=self.filesystem, row_group_size=2000)

    def published(self, extension: str) -> list[str]:
        selector = fs.FileSelector(f"{BUCKET}/{self.name}/_lookup", allow_not_found=True)
        found = self.filesystem.get_file_info(selector)
        return sorted(info.path for info in found if info.path.endswith(extension))

    def read(self, path: str) -> bytes:
        with self.filesystem.open_input_stream(path) as stream:
            return bytes(stream.read())

    def put(self, path: str, content: bytes) -> None:
        with self.filesystem.open_output_stream(path) as stream:
            stream.write(content)

    def files(self, cache: Path, **options: Any) -> ColumnarFiles:
        uri = self.server.uri(f"{self.name}/*.parquet")
        return ColumnarFiles(uri, key="id", residency=Residency(cache, quota=64 << 20), **options)


@pytest.fixture
def dim(server: ObjectStore, request: Any) -> Dimension:
    return Dimension(server, request.node.name.replace("[", "-").replace("]", ""))


def check(given: ColumnarFiles) -> None:
    got = given.lookup([0, ROWS + 7, 2 * ROWS, 2 * ROWS - 1])["v"].to_pylist()
    assert got == ["value 0", f"value {ROWS + 7}", None, f"value {2 * ROWS - 1}"]


@pytest.mark.parametrize("build", ["always", "never"])
def test_files_of_an_object_store(
    server: ObjectStore, dim: Dimension, tmp_path: Path, build: Any
) -> None:
    check(dim.files(tmp_path / "a", build=build))
    # The server of one object says whole seconds: the same file, though, for all requests.
    listed = dim.files(tmp_path / "a")
    for part in range(2):
        uri = server.uri(f"{dim.name}/{part}.parquet")
        one = ColumnarFiles(uri, key="id", residency=Residency(tmp_path / "a", quota=64 << 20))
        assert plans_of(one)[0].name == plans_of(listed)[part].name
        plans_of(one)[0].source.check_unchanged()


def test_others_fetch_what_is_published(
    dim: Dimension,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO, logger="lookupstore")
    first = dim.files(tmp_path / "a")
    assert first.publish() == 2
    assert caplog.text.count(MAKING) == 2
    assert first.publish() == 0
    caplog.clear()
    other = dim.files(tmp_path / "b")
    check(other)
    assert MAKING not in caplog.text
    assert files_of(other).counts().bytes_fetched > 0
    # One of them changes: that one is made, and published again.
    dim.write(1, "other")
    changed = dim.files(tmp_path / "b", build="always")
    assert changed.lookup([1, ROWS])["v"].to_pylist() == ["value 1", f"other {ROWS}"]
    assert caplog.text.count(MAKING) == 1
    assert changed.publish() == 1
    assert len(dim.published(".sst")) == 3
    # What is of the file before goes after a day, and nothing else does.
    monkeypatch.setattr(published, "KEPT_SECONDS", -60)
    # One listed time in ten has two digits after the point, which Arrow does not read.
    now = time.time_ns()
    monkeypatch.setattr(
        "lookupstore.storage.object_store.written_ns", lambda info: info.mtime_ns or now
    )
    changed.publish()
    assert len(dim.published(".sst")) == len(dim.published(".json")) == 2
    third = dim.files(tmp_path / "c")
    caplog.clear()
    assert third.lookup([1, ROWS])["v"].to_pylist() == ["value 1", f"other {ROWS}"]
    assert MAKING not in caplog.text


def test_a_time_that_cannot_be_read_is_not_old(
    server: ObjectStore, dim: Dimension, tmp_path: Path
) -> None:
    # Listed as .12 of a second, which Arrow's client takes for 1970.
    for part in range(2):
        os.utime(server.folder / f"{dim.name}/{part}.parquet", ns=(UNREADABLE, UNREADABLE))
    listed = dim.files(tmp_path / "a")
    assert listed.publish() == 2
    one = ColumnarFiles(
        server.uri(f"{dim.name}/0.parquet"),
        key="id",
        residency=Residency(tmp_path / "a", quota=64 << 20),
    )
    assert plans_of(one)[0].name == plans_of(listed)[0].name
    plans_of(listed)[0].source.check_unchanged()
    for lookup_file in (server.folder / f"{dim.name}/_lookup").iterdir():
        os.utime(lookup_file, ns=(UNREADABLE, UNREADABLE))
    location = Location(f"{BUCKET}/{dim.name}/_lookup", filesystem=dim.filesystem)
    assert [file.modified for file in location.files()] == [None] * 4
    dim.write(1, "other")
    assert dim.files(tmp_path / "b").publish() == 1
    assert len(dim.published(".sst")) == 3


def test_a_lookup_file_that_came_halfway_is_not_published(
    dim: Dimension, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError("the machine is gone")

    given = dim.files(tmp_path / "a")
    with monkeypatch.context() as patched:
        patched.setattr(published, "described_name", fails)
        with pytest.raises(OSError, match="the machine is gone"):
            published.publish_file(
                published.location_of(plans_of(given)[0].source),
                plans_of(given)[0].name,
                plans_of(given)[0].source,
                files_of(given).asked()[0].reader().path,
            )
    assert len(dim.published(".sst")) == 1
    (plan, *_) = plans_of(dim.files(tmp_path / "b"))
    assert published.published_files(published.location_of(plan.source), [plan.name]) == {}
    check(dim.files(tmp_path / "b"))


def test_damaged_published_files(dim: Dimension, tmp_path: Path) -> None:
    dim.files(tmp_path / "a").publish()
    data = dim.published(".sst")[0]
    content = bytearray(dim.read(data))
    content[100] ^= 1
    dim.put(data, content)
    other = dim.files(tmp_path / "b")
    with pytest.raises(CorruptionError, match="_lookup"):
        other.lookup(list(range(2 * ROWS)))
    described = dim.published(".json")[0]
    name = Path(described).stem
    right = dim.read(described)
    for wrong in (b"{}", b"[1]", b"no JSON", right.replace(name.encode(), b"0" * 32)):
        dim.put(described, wrong)
        with pytest.raises(CorruptionError, match=rf"_lookup/{name}\.json"):
            dim.files(tmp_path / "b")


@pytest.mark.long
def test_an_object_store_that_fails_is_no_damage(
    server: ObjectStore, dim: Dimension, tmp_path: Path
) -> None:
    proxy = Proxy(server)
    try:
        dim.server = proxy.store
        given = dim.files(tmp_path / "a", build="always")
        proxy.fault = lambda request: "busy" if request.number % 3 == 0 else "ok"
        check(given)  # Arrow's client asks again
        given = dim.files(tmp_path / "b", build="always")
        proxy.fault = lambda request: "busy"
        with pytest.raises(OSError, match="parquet"):
            given.lookup([1])
        assert not list((tmp_path / "b").glob("*.sst"))
        proxy.fault = lambda request: "ok"
        check(given)
    finally:
        proxy.close()


def test_every_file_of_an_older_source_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "KEPT_SECONDS", -60)
    location = Location(tmp_path)
    for name, source in {"a": "x", "b": "y", "c": "x", "d": "another"}.items():
        said = asdict(published.PublishedFile(name, source, 1, "0" * 16))
        location.write(published.data_name(name), [b"?"])
        location.write(published.described_name(name), [json.dumps(said).encode()])
    assert sorted(published.forget_old(location, ["x", "y"], ["b"])) == ["a", "c"]
    assert {Path(file.name).stem for file in location.files(published.FOLDER)} == {"b", "d"}
