"""Pipes, sockets, devices and folders in place of files: an error at once, and no wait."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore import ColumnarFiles
from lookupstore.errors import FormatError
from lookupstore.sst import Reader
from lookupstore.sst.dump import layout
from lookupstore.storage.location import Location
from lookupstore.storage.regular_file import check_regular, open_regular

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no named pipes")


def pipe(path: Path) -> Path:
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("use", [open_regular, check_regular, Reader, layout])
def test_what_is_no_regular_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[str], object]
) -> None:
    with pytest.raises(FormatError, match=r"pipe: a named pipe, not a regular file"):
        use(str(pipe(tmp_path / "pipe")))
    with pytest.raises(FormatError, match=r"^/dev/zero: a device, not a regular file"):
        use("/dev/zero")
    with pytest.raises(IsADirectoryError):
        use(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        use(str(tmp_path / "nothing"))
    with socket.socket(socket.AF_UNIX) as bound:
        monkeypatch.chdir(tmp_path)  # the path of a socket is short
        bound.bind("socket")
        with pytest.raises(FormatError, match="socket: a socket, not a regular file"):
            use("socket")


def test_links_to_regular_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "link").symlink_to("file")
    check_regular(str(tmp_path / "link"))
    descriptor = open_regular(str(tmp_path / "link"))
    assert os.read(descriptor, 9) == b"1"
    os.close(descriptor)


def test_pipes_in_stores(tmp_path: Path) -> None:
    table = pa.table({"id": range(9), "v": range(9)})
    lookupstore.build(table, tmp_path / "s", key="id").close()
    (manifest,) = (tmp_path / "s" / "versions").iterdir()
    content = manifest.read_bytes()
    pipe(manifest)
    with pytest.raises(FormatError, match="a named pipe"):
        Location(str(tmp_path / "s")).read(f"versions/{manifest.name}")
    with pytest.raises((FormatError, FileNotFoundError)):
        lookupstore.open(tmp_path / "s")
    manifest.unlink()
    manifest.write_bytes(content)
    (data,) = (tmp_path / "s" / "data").glob("*.sst")
    pipe(data)
    with pytest.raises(FormatError, match=rf"{data.name}: a named pipe"):
        lookupstore.open(tmp_path / "s").lookup([1])


def test_pipes_as_columnar_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    path = pipe(tmp_path / "b.parquet")
    for given in (path, tmp_path / "b*.parquet"):
        with pytest.raises(FileNotFoundError):
            ColumnarFiles(given, key="id")
        with pytest.raises(FileNotFoundError):
            lookupstore.build(given, tmp_path / "s", key="id")
    # Among others it is none of the files.
    assert ColumnarFiles(tmp_path, key="id").lookup([1]).num_rows == 1
    assert ColumnarFiles(tmp_path / "*.parquet", key="id").lookup([1]).num_rows == 1


@pytest.mark.few(1)
@pytest.mark.parametrize("command", ["info", "dump", "get"])
def test_commands_do_not_wait(tmp_path: Path, command: str) -> None:
    for path in (pipe(tmp_path / "pipe"), Path("/dev/zero")):
        line = [sys.executable, "-c", "from lookupstore.cli import main; main()"]
        line += [command, str(path), *(["1"] if command == "get" else [])]
        done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == (1 if command == "dump" else 2)
        said = "not a regular file" if command == "dump" else f"lookupstore build {path} STORE"
        assert said in done.stderr
