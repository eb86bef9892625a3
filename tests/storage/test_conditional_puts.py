"""Puts with a condition on Azure and Google Cloud Storage, and Hudi tables that rely on them.

Azure is azurite, of npm, which `make test-long` fetches; Google's is an emulator of PyPI.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs
from support.google_store import BUCKET, google_store
from support.object_store import BUCKET as S3_BUCKET
from support.object_store import (
    Proxy,
    _wait_for,
    free_port,
    object_store,
    writable_object_store,
)

from lookupstore import Location
from lookupstore.errors import FormatError
from lookupstore.hudi import HudiTable
from lookupstore.storage import remote_file
from lookupstore.storage.conditional_puts import ConditionalPuts
from lookupstore.storage.object_store import RemoteFolder
from lookupstore.storage.put_clients import put_clients
from lookupstore.storage.s3_client import reads_of

pytestmark = pytest.mark.drawn(0.4)

ROOT = Path(__file__).parents[2]
ACCOUNT = "devstoreaccount1"
# Of every azurite; it is in its manual.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@pytest.fixture(scope="module")
def google() -> Iterator[fs.FileSystem]:
    with google_store() as address:
        yield fs.GcsFileSystem(anonymous=True, endpoint_override=address, scheme="http")


@pytest.fixture(scope="module")
def azure() -> Iterator[fs.FileSystem]:
    folder = ROOT / "build" / "azurite"
    program = folder / "node_modules" / ".bin" / "azurite-blob"
    if not program.exists():
        npm = shutil.which("npm")
        assert npm is not None, "this test needs npm (Debian, Ubuntu: apt-get install npm)"
        words = [npm, "install", "--no-audit", "--no-fund", "--prefix", folder, "azurite@3"]
        subprocess.run(words, check=True, capture_output=True)
    port = free_port()
    with subprocess.Popen(
        [program, "--inMemoryPersistence", "--blobPort", str(port), "--skipApiVersionCheck",
         "--silent"],
        stdout=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        try:
            _wait_for(f"127.0.0.1:{port}")
            where = {"blob_storage_authority": f"127.0.0.1:{port}", "blob_storage_scheme": "http"}
            where |= {name.replace("blob", "dfs"): value for name, value in where.items()}
            filesystem = fs.AzureFileSystem(ACCOUNT, account_key=KEY, **where)
            filesystem.create_dir(BUCKET)
            yield filesystem
        finally:
            server.kill()


@pytest.fixture(params=["google", pytest.param("azure", marks=pytest.mark.long)])
def filesystem(request: pytest.FixtureRequest) -> fs.FileSystem:
    found: fs.FileSystem = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def folder(filesystem: fs.FileSystem, tmp_path: Path) -> str:
    return f"{BUCKET}/{tmp_path.name}"


def test_an_object_is_put_only_on_its_condition(filesystem: fs.FileSystem, folder: str) -> None:
    place = Location(folder, filesystem=filesystem)
    assert isinstance(place, RemoteFolder)
    assert place.creates_once
    puts = place.conditional_puts()
    puts.check(f"{folder}/checks")
    path = f"{folder}/a ü"
    tag = puts.create(path, b"1")
    with pytest.raises(FileExistsError):
        puts.create(path, b"2")
    assert puts.read(path) == (b"1", tag)
    later = puts.replace(path, b"2", tag)
    assert later is not None
    assert later != tag
    assert puts.replace(path, b"3", tag) is None
    assert puts.replace(f"{folder}/none", b"3", tag) is None
    assert puts.read(path) == (b"2", later)
    with pytest.raises(FileNotFoundError):
        puts.read(f"{folder}/none")
    place.create("new", b"x")
    with pytest.raises(FileExistsError):
        place.create("new", b"y")
    assert place.read("new") == b"x"
    assert place.touch("new")
    assert not place.touch("none")


def test_a_read_is_repeated_while_the_server_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_file, "FIRST_WAIT", 0.01)
    with object_store(tmp_path, etags=True) as server:
        (server.folder / "lock").write_bytes(b"content")
        proxy = Proxy(server)
        puts = ConditionalPuts(proxy.store.filesystem())

        def gets_after(faults: list[str]) -> int:
            proxy.requests.clear()
            left = list(faults)
            proxy.fault = lambda request: left.pop(0) if left else "ok"
            assert puts.read("bucket/lock")[0] == b"content"
            return len(proxy.requests)

        assert gets_after([]) == 1
        assert gets_after(["busy", "cut", "busy"]) == 4
        assert gets_after(["busy"] * (remote_file.ATTEMPTS - 1)) == remote_file.ATTEMPTS
        with pytest.raises(OSError, match="SlowDown"):
            gets_after(["busy"] * remote_file.ATTEMPTS)
        proxy.requests.clear()
        with pytest.raises(FileNotFoundError):
            puts.read("bucket/none")
        assert len(proxy.requests) == 1
        proxy.close()


def test_one_of_many_gets_the_lock(filesystem: fs.FileSystem, folder: str) -> None:
    def taken(number: int) -> bool:
        return Location(folder, filesystem=filesystem).lock_file("lock").create(b"%d" % number)

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(taken, range(16))) == 1


def test_writers_of_a_table_lose_nothing(filesystem: fs.FileSystem, folder: str) -> None:
    schema = pa.schema({"id": pa.int64(), "v": pa.int64()})
    HudiTable.create(Location(folder, filesystem=filesystem), schema, record_key="id")

    def write(number: int) -> int:
        table = HudiTable.open(Location(folder, filesystem=filesystem))
        return table.upsert({"id": [number, 100], "v": [number, number]}).rows_inserted

    with ThreadPoolExecutor(3) as pool:
        inserted = sum(pool.map(write, range(6)))
    assert inserted == 7
    table = HudiTable.open(Location(folder, filesystem=filesystem))
    assert len(table) == 7
    assert sorted(table.scan(columns="id")["id"].to_pylist()) == [0, 1, 2, 3, 4, 5, 100]
    table.update({"v": "v + 1"}, where="id < 3")
    assert table.lookup([0, 1, 2, 3], "v")["v"].to_pylist() == [1, 2, 3, 3]
    assert not table.verify().findings


def test_options_of_azure() -> None:
    found: list[tuple[Any, ...]] = []
    kind = put_clients(fs.AzureFileSystem(ACCOUNT, account_key=KEY))
    assert kind is not None
    for options in (
        {"account_key": KEY},
        {"sas_token": "?sv=1&sig=x"},
        {"client_id": "c", "client_secret": "s", "tenant_id": "t"},
    ):
        client = kind.client({"account_name": ACCOUNT, **options}, "box")
        found.append((client.config.get("endpoint"), sorted(client.config)))
    assert {one for one, _ in found} == {f"https://{ACCOUNT}.blob.core.windows.net"}


def test_a_server_that_passes_over_conditions_is_refused(
    google: fs.FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Location(f"{BUCKET}/passed-over", filesystem=google)
    assert isinstance(place, RemoteFolder)
    puts = place.conditional_puts()
    monkeypatch.setattr(puts, "replace", lambda *given: "1")
    with pytest.raises(FormatError, match=r"ignores the conditions of a put .x-goog-if-generation"):
        puts.check(f"{BUCKET}/passed-over")


def test_the_server_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of AWS_ENDPOINT_URL, pyarrow has the whole URL where it otherwise has host and port."""
    with writable_object_store() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        rows = pa.table({"id": [1, 2], "v": ["a", "b"]})
        uri = f"s3://{S3_BUCKET}/of-the-environment"
        HudiTable.create(uri, rows, record_key="id").insert(rows)
        assert HudiTable.open(uri).lookup([2, 3])["v"].to_pylist() == ["b", None]
        filesystem, _ = fs.FileSystem.from_uri(uri)
        reads = reads_of(filesystem)
        assert reads is not None
        with filesystem.open_output_stream(f"{S3_BUCKET}/object") as file:
            file.write(b"content")
        assert reads.read_whole(f"{S3_BUCKET}/object", 1 << 16, uri) == b"content"


def test_a_check_of_conditions_raises_the_error_of_the_server(
    google: fs.FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that of the deletion of an object that is not there."""
    place = Location(f"{BUCKET}/refused", filesystem=google)
    assert isinstance(place, RemoteFolder)
    puts = place.conditional_puts()

    def refuse(path: str, content: bytes) -> str:
        raise PermissionError("no puts here")

    monkeypatch.setattr(puts, "create", refuse)
    with pytest.raises(PermissionError, match="no puts here"):
        puts.check(f"{BUCKET}/refused")


def test_elsewhere_there_are_no_conditions(tmp_path: Path) -> None:
    place = RemoteFolder(os.fspath(tmp_path), filesystem=fs.LocalFileSystem())
    assert not place.creates_once
    with pytest.raises(FormatError, match="made on S3, Azure and Google Cloud Storage only"):
        place.conditional_puts()
