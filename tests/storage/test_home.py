"""Where files go by default: `~` in paths, and hosts where the home folder can't be written."""

from __future__ import annotations

import errno
import logging
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyarrow import fs

import lookupstore
from lookupstore.cli import main
from lookupstore.columnar import ColumnarFiles
from lookupstore.hostcache import folder as host_folder
from lookupstore.hostcache.cache import Residency
from lookupstore.sst import Reader, Writer
from lookupstore.storage.home import expanded
from lookupstore.storage.location import Location

TABLE = pa.table({"id": [1, 2], "name": ["a", "b"]})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home folder, away from the folder that the test runs in."""
    folder = tmp_path / "home"
    folder.mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(folder))
    return folder


def test_a_tilde_is_the_home_folder_everywhere(home: Path) -> None:
    pq.write_table(TABLE, home / "t.parquet")
    (home / "spill").mkdir()
    lookupstore.build("~/t.parquet", "~/s", key="id", temp_dir="~/spill").close()
    assert (home / "s" / "versions").is_dir()
    with lookupstore.open("~/s") as store:
        assert (store.path, store.get(2)) == (str(home / "s"), {"name": "b"})
    lookupstore.publish("~/s", "~/copy").close()
    assert len(lookupstore.versions("~/copy")) == 1
    assert lookupstore.expire(Path("~/copy")).versions == ()
    with ColumnarFiles("~/t.parquet", key="id") as files:
        assert files.lookup([1])["name"].to_pylist() == ["a"]
    with Writer("~/ages.sst") as writer:
        writer.put(b"ada", b"36")
    assert Reader("~/ages.sst").get(b"ada") == b"36"
    assert (home / "ages.sst").is_file()
    for words in (
        ["build", "~/t.parquet", "~/t", "--key", "id"],
        ["get", "~/t", "1"],
        ["scan", "~/ages.sst"],
        ["dump", "~/ages.sst"],
        ["verify", "~/s"],
        ["stats", "--cache", "~"],
    ):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, (words, done.output)
    assert os.listdir() == []


def test_a_tilde_elsewhere_is_a_name(home: Path) -> None:
    lookupstore.build(TABLE, "x/~/s", key="id").close()
    lookupstore.build(TABLE, "./~old", key="id").close()
    assert sorted(os.listdir()) == ["x", "~old"]
    assert os.listdir(home) == []
    assert Location("s3://bucket/~/s").uri == "s3://bucket/~/s"
    assert expanded("~nobody-has-this-name/x") == "~nobody-has-this-name/x"


@pytest.mark.parametrize("nowhere", ["/dev/null/x", "/nonexistent", "/", ""])
def test_a_home_folder_that_cannot_be_written(
    nowhere: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("LOOKUPSTORE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", nowhere)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    host_folder.temporary_folder.cache_clear()
    expected = tmp_path / f"lookupstore-{os.getuid()}"
    with caplog.at_level(logging.WARNING):
        lookupstore.build(TABLE, tmp_path / "s", key="id").close()
        assert not caplog.records  # nothing of it is remote
        assert {Residency().folder for _ in range(3)} == {str(expected)}
    assert stat.S_IMODE(expected.stat().st_mode) == 0o700
    (said,) = caplog.messages
    assert said.startswith("local copies and lookup files are kept in ")
    assert "LOOKUPSTORE_CACHE" in said
    assert str(expected) in said
    host_folder.temporary_folder.cache_clear()
    expected.chmod(0o755)  # others may have put something there
    with pytest.raises(PermissionError, match="LOOKUPSTORE_CACHE to a writable folder") as caught:
        _ = Residency().folder
    assert caught.value.filename == str(expected)


def test_a_cache_folder_below_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "file" / "cache"))
    host = host_folder.HostFolder(None, quota=1 << 20)
    with pytest.raises(
        NotADirectoryError, match="LOOKUPSTORE_CACHE to a writable folder"
    ) as caught:
        host.locked().__enter__()
    assert caught.value.filename == str(tmp_path / "file" / "cache")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_somebody_whose_home_is_anothers(tmp_path: Path) -> None:
    """As in a container that runs as a user who is not in its list of users."""
    code = (
        "import os, tempfile\n"
        "from lookupstore.hostcache.cache import Residency\n"
        f"os.environ['HOME'] = {str(tmp_path)!r}\n"
        "os.setgid(54321); os.setuid(54321)  # who may not read this Python\n"
        "print(Residency(quota='1MB').folder, Residency(quota='1MB').folder)\n"
    )
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    temporary.chmod(0o777)
    root = Path(tempfile.gettempdir())
    for folder in (tmp_path, *tmp_path.parents):
        if root in folder.parents:
            folder.chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LOOKUP", "XDG"))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **environment,
            "TMPDIR": str(temporary),
            "PYTHONPATH": str(Path(lookupstore.__file__).parent.parent),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(temporary / "lookupstore-54321")] * 2
    assert done.stderr.count("LOOKUPSTORE_CACHE") == 1


def test_there_is_no_folder_that_can_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A container with a read-only root: the store is not damaged."""

    def nowhere() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    place = Location("s", filesystem=fs._MockFileSystem())
    lookupstore.build(TABLE, place, key="id", temp_dir=tmp_path).close()
    pq.write_table(TABLE, tmp_path / "a.parquet")
    for name in ("LOOKUPSTORE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/dev/null/x")
    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    host_folder.temporary_folder.cache_clear()
    with lookupstore.open(place) as store:
        for look in (lambda: store.get(1), lambda: store.lookup([1]), store.warm):
            with pytest.raises(PermissionError, match="LOOKUPSTORE_CACHE to a writable folder"):
                look()
        with pytest.raises(OSError, match="set TMPDIR to a writable folder, or pass temp_dir"):
            store.upsert(TABLE)
    assert [one.number for one in lookupstore.versions(place)] == [1]
    with ColumnarFiles(tmp_path / "a.parquet", key="id", build="never") as files:
        assert files.lookup([2, 3])["name"].to_pylist() == ["b", None]
    with (
        ColumnarFiles(tmp_path / "a.parquet", key="id", build="always") as files,
        pytest.raises(PermissionError, match="LOOKUPSTORE_CACHE to a writable folder"),
    ):
        files.lookup([2])
