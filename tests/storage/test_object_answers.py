"""Errors of buckets that do not exist, or may not be read, with a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click.testing
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.object_store import BUCKET, SECRET, ObjectStore, has_server, object_store

import lookupstore
from lookupstore.cli import main
from lookupstore.columnar import ColumnarFiles

pytestmark = pytest.mark.skipif(not has_server(), reason="needs rclone")

CALLS: dict[str, Callable[[str, Path], Any]] = {
    "open": lambda uri, _: lookupstore.open(uri),
    "build": lambda uri, folder: lookupstore.build(uri, folder / "s", key="id"),
    "follow": lambda uri, folder: lookupstore.follow(uri, folder / "s", key="id"),
    "files": lambda uri, _: ColumnarFiles(uri, key="id"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("server")) as found:
        pq.write_table(pa.table({"id": [1]}), found.folder / "rows.parquet")
        yield found


@pytest.mark.parametrize("call", CALLS)
def test_a_bucket_that_does_not_exist(call: str, server: ObjectStore, tmp_path: Path) -> None:
    missing = server.uri("users").replace(f"@{BUCKET}/", "@buckett/")
    with pytest.raises(FileNotFoundError) as caught:
        CALLS[call](missing, tmp_path)
    assert "no such bucket 'buckett'; check its name, and the storage option" in str(caught.value)
    assert SECRET not in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"no such (file or|store) folder"):
        CALLS[call](server.uri("users"), tmp_path)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("call", CALLS)
def test_a_bucket_that_may_not_be_read(call: str, server: ObjectStore, tmp_path: Path) -> None:
    refused = server.uri("rows.parquet").replace(SECRET, "another")
    with pytest.raises(OSError, match=r": check the (credentials|key)") as caught:
        CALLS[call](refused, tmp_path)
    assert "another" not in str(caught.value)
    assert not (tmp_path / "s").exists()


def test_the_shell_says_so(
    server: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    for line in (
        "follow s3://buckett/users s --key id",
        "build s3://buckett/users s --key id",
        "get s3://buckett/users 1",
        "sync s3://buckett/users",
    ):
        result = click.testing.CliRunner().invoke(main, line.split())
        assert (result.exit_code, result.stdout) == (2, ""), line
        assert result.stderr.startswith("Error: s3://buckett/users: no such bucket 'buckett'; ")
