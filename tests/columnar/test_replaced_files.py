"""Columnar files that are replaced by others of their size and footer: no row of two files."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from support.columnar import plans_of
from support.object_store import (
    ObjectStore,
    Proxy,
    has_server,
    object_store,
)
from support.replaced import ROWS, WAYS, replace_file, two_versions, write_in_place

from lookupstore._version import __version__
from lookupstore.arrow.types import schema_to_json
from lookupstore.columnar import ColumnarFiles, rent
from lookupstore.columnar.lookup_file import LookupFilePlan
from lookupstore.errors import StaleStoreError
from lookupstore.hostcache.cache import Residency
from lookupstore.sst import Writer

OLD, NEW = two_versions()


@pytest.fixture
def residency(tmp_path: Path) -> Residency:
    return Residency(tmp_path / "cache", quota=64 << 20)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.parquet"
    path.write_bytes(OLD)
    # Whole seconds, as some file systems have them.
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


def opened(path: Path, residency: Residency, **options: Any) -> ColumnarFiles:
    return ColumnarFiles(path, key="id", residency=residency, **options)


def words(files: ColumnarFiles) -> set[str]:
    found = files.lookup(range(ROWS))["v"].to_pylist()
    assert [text[4:] for text in found] == [f"{key:06}" for key in range(ROWS)]
    return {text[:3] for text in found}


@pytest.mark.parametrize("build", rent.BUILDS)
@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_is_replaced_after_it_was_listed(
    path: Path, residency: Residency, build: rent.Build, way: str
) -> None:
    files = opened(path, residency, build=build)
    WAYS[way](path, NEW)
    for _ in range(2):
        with pytest.raises(StaleStoreError, match=r"a\.parquet: rewritten since the files were"):
            files.lookup([1])
    with pytest.raises(StaleStoreError, match="rewritten"):
        files.verify()
    assert words(opened(path, residency, build=build)) == {"new"}


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_is_replaced_after_it_was_read(
    path: Path, residency: Residency, tmp_path: Path, way: str
) -> None:
    looked = opened(path, Residency(tmp_path / "other", quota=64 << 20), build="never")
    made = opened(path, residency, build="always")
    assert words(looked) == words(made) == {"old"}
    WAYS[way](path, NEW)
    with pytest.raises(StaleStoreError, match="rewritten"):
        looked.lookup([1])
    # By its lookup file it answers as the file was; who lists it again gets another one.
    assert words(made) == {"old"}
    assert words(opened(path, residency, build="always")) == {"new"}
    with pytest.raises(StaleStoreError, match="rewritten"):
        made.verify()


@pytest.mark.parametrize("build", ["always", "never"])
def test_a_file_that_is_written_while_it_is_read(
    path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch, build: rent.Build
) -> None:
    really = LookupFilePlan.encode

    def encode(plan: LookupFilePlan, batch: pa.RecordBatch, positions: np.ndarray) -> Any:
        write_in_place(path, NEW)
        return really(plan, batch, positions)

    files = opened(path, residency, build=build)
    with monkeypatch.context() as patch:
        patch.setattr(LookupFilePlan, "encode", encode)
        with pytest.raises(StaleStoreError, match="rewritten"):
            files.lookup([1])
    assert not list(Path(residency.folder).glob("*.sst"))
    assert words(opened(path, residency, build=build)) == {"new"}


@pytest.mark.parametrize("build", ["always", "never"])
def test_pages_of_two_files_are_not_called_damage(
    path: Path, residency: Residency, build: rent.Build
) -> None:
    files = opened(path, residency, build=build)
    if build == "never":
        files.lookup([1])  # the file is open
    write_in_place(path, OLD[:4] + bytes(len(OLD) // 2) + OLD[4 + len(OLD) // 2 :])
    with pytest.raises(StaleStoreError, match="rewritten"):
        files.lookup([ROWS // 4])


def test_lookup_files_of_the_rule_before_are_not_found(path: Path, residency: Residency) -> None:
    """They were named by path, size, time and footer, and may be of other rows."""
    files = opened(path, residency, build="always")
    (plan,) = plans_of(files)
    stored = plan.source.stored
    identity: tuple[Any, ...] = (stored.path, stored.nbytes, stored.written, stored.footer, [])
    schemas = [
        schema_to_json(one.schema, ()) for one in (plan.build.key_schema, plan.build.row_schema)
    ]
    parts = [__version__, identity, *schemas, plan.build.keep]
    name = xxhash.xxh3_128_hexdigest(json.dumps(parts).encode())
    Path(residency.folder).mkdir(mode=0o700, exist_ok=True)
    with Writer(f"{residency.folder}/{name}.sst", compression="none"):
        pass
    assert words(files) == {"old"}


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    if not has_server():
        pytest.skip("rclone is not installed: pip install 'lookupstore[test]'")
    with object_store(tmp_path_factory.mktemp("s3"), etags=True) as server:
        yield server


@pytest.mark.parametrize("build", rent.BUILDS)
def test_an_object_that_is_replaced_within_a_second(
    tagged: ObjectStore, residency: Residency, build: rent.Build
) -> None:
    """Its name, size, footer and time stay."""
    path = tagged.folder / f"{build}.parquet"
    path.write_bytes(OLD)

    def listed() -> ColumnarFiles:
        uri = tagged.uri(path.name)
        return ColumnarFiles(uri, key="id", residency=residency, build=build)

    first, second = listed(), listed()
    assert plans_of(first)[0].name == plans_of(second)[0].name
    assert words(first) == {"old"}
    replace_file(path, NEW)
    third = listed()
    assert plans_of(first)[0].source.stored.written == plans_of(third)[0].source.stored.written
    assert words(third) == {"new"}
    for files in (first, second):
        if build != "always":  # the first look at a small object makes no lookup file
            with pytest.raises(StaleStoreError, match="rewritten"):
                files.lookup([1])
        else:
            assert words(files) == {"old"}
        with pytest.raises(StaleStoreError, match="rewritten"):
            files.verify()


@pytest.mark.parametrize("etags", [True, False])
def test_requests_of_a_lookup(tmp_path: Path, residency: Residency, etags: bool) -> None:
    if not has_server():
        pytest.skip("rclone is not installed: pip install 'lookupstore[test]'")
    with object_store(tmp_path / "s3", etags=etags) as server:
        path = server.folder / "a.parquet"
        path.write_bytes(OLD)
        os.utime(path, (1_700_000_000, 1_700_000_000))
        proxy = Proxy(server)

        def asked(action: Callable[[], object]) -> str:
            proxy.requests.clear()
            action()
            return " ".join(request.method for request in proxy.requests)

        uri = proxy.store.uri("a.parquet")
        listed = ColumnarFiles(uri, key="id", residency=residency, build="never")
        listed.lookup([1])  # opens the file
        # Rows of a small file are in memory; then its ETag is compared, or its time and footer.
        assert asked(lambda: listed.lookup([1])) == ("HEAD" if etags else "HEAD GET")
        # It is read by one request.
        assert asked(listed.prepare) == ("HEAD GET HEAD" if etags else "HEAD GET HEAD GET")
        proxy.close()


@pytest.fixture
def untagged(tmp_path: Path) -> Iterator[Proxy]:
    if not has_server():
        pytest.skip("rclone is not installed: pip install 'lookupstore[test]'")
    with object_store(tmp_path / "s3") as server:
        proxy = Proxy(server)
        yield proxy
        proxy.close()


def test_young_objects_without_etags_are_not_settled(
    untagged: Proxy, residency: Residency, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody could tell whether they change again within the second."""
    path = untagged.store.folder / "a.parquet"
    path.write_bytes(OLD)
    uri = untagged.store.uri("a.parquet")
    one, other = (
        ColumnarFiles(uri, key="id", residency=residency, build="always") for _ in range(2)
    )
    assert words(one) == {"old"}
    times = path.stat()
    path.write_bytes(NEW)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    # What this host has made is for who listed the file as it was.
    assert words(one) == {"old"}
    assert words(other) == {"new"}
    caplog.set_level(logging.WARNING, logger="lookupstore")
    assert one.publish() == 0
    assert "a.parquet: not published: written a moment ago" in caplog.text
    assert not (path.parent / "_lookup").exists()
