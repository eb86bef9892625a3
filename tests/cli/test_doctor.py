"""`doctor`: what it finds on machines that have more, or less."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import click.testing
import pytest

import lookupstore
from lookupstore.cli import doctor, main
from lookupstore.extras import PACKAGES
from lookupstore.hostcache.folder import HostFolder, temporary_folder


class Usage(NamedTuple):
    """A disk, as `shutil.disk_usage` describes it."""

    total: int
    used: int
    free: int


def found(folder: Path, *words: str, **env: str) -> tuple[int, dict[str, dict[str, str]]]:
    """Return the exit status, and what was found by the thing."""
    result = click.testing.CliRunner().invoke(
        main, ["doctor", "--output", "json", *words],
        env={"LOOKUPSTORE_CACHE": str(folder), **env},
    )  # fmt: skip
    return result.exit_code, {one["what"]: one for one in json.loads(result.stdout)}


def test_a_machine_that_has_all(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    status, said = found(folder)
    assert status == 0
    assert said["cache folder"]["verdict"] == "ok"
    assert said["cache folder"]["found"].startswith(f"{folder}: 0 bytes of ")
    assert "links and maps" in said["its file system"]["found"]
    assert said["pyarrow"]["found"].split(".")[0].isdigit()
    assert said["sqlglot"]["found"].split(".")[0].isdigit()
    assert os.listdir(tmp_path) == []  # nothing is left, and nothing made
    shown = click.testing.CliRunner().invoke(
        main, ["doctor"], env={"LOOKUPSTORE_CACHE": str(folder)}
    )
    assert shown.exit_code == 0
    assert all(what in shown.output for what in said)
    packages = [one for extra in said if extra.startswith("extra ") for one in PACKAGES[extra[6:]]]
    assert not {*packages} & {*said}  # each is told once


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    status, said = found(tmp_path / "file")
    assert status == 1
    assert said["cache folder"]["verdict"] == "error"
    assert "LOOKUPSTORE_CACHE" in said["cache folder"]["remedy"]


def test_there_is_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", nowhere)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    temporary_folder.cache_clear()
    status, said = found(Path(), LOOKUPSTORE_CACHE="", HOME="/dev/null/x")
    assert (status, said["cache folder"]["verdict"]) == (1, "error")
    assert said["cache folder"]["found"].endswith("; set LOOKUPSTORE_CACHE to a writable folder")
    assert said["cache folder"]["remedy"] == ""


def test_a_quota_that_is_none_or_small(tmp_path: Path) -> None:
    status, said = found(tmp_path, LOOKUPSTORE_CACHE_BYTES="abc")
    assert (status, said["cache folder"]["verdict"]) == (1, "error")
    assert "LOOKUPSTORE_CACHE_BYTES is 'abc'" in said["cache folder"]["found"]
    assert said["cache folder"]["remedy"] == ""
    status, said = found(tmp_path, LOOKUPSTORE_CACHE_BYTES="1MB")
    assert (status, said["cache folder"]["verdict"]) == (0, "warning")
    assert "raise LOOKUPSTORE_CACHE_BYTES" in said["cache folder"]["remedy"]


def test_a_folder_that_others_may_write(tmp_path: Path) -> None:
    """Commands refuse it: `doctor` finds it with the same check."""
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    status, said = found(folder)
    assert (status, said["cache folder"]["verdict"]) == (1, "error")
    with pytest.raises(PermissionError) as refused:
        HostFolder(folder, None).make()
    assert said["cache folder"]["found"] == f"{folder}: {refused.value.strerror}"
    assert f"chmod 700 {folder}" in said["cache folder"]["found"]
    assert said["cache folder"]["remedy"] == ""


def test_a_folder_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o555)

    def refuse(path: str, *_: Any) -> None:  # root may write any folder
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, "mkdir", refuse)
    status, said = found(tmp_path)
    assert (status, said["its mode"]["verdict"]) == (1, "error")
    assert said["its mode"]["found"] == f"555: you may not write {tmp_path}"
    assert f"run chmod u+rwx {tmp_path}, or set" in said["its mode"]["remedy"]
    assert "its file system" not in said


def test_a_disk_that_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1 << 30, 1 << 30, 0))

    def refuse(path: str, *_: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system", path)

    monkeypatch.setattr(os, "mkdir", refuse)
    status, said = found(tmp_path)
    assert (status, said["its file system"]["verdict"]) == (1, "error")
    remedy = "set LOOKUPSTORE_CACHE to a folder that can be written"
    assert said["its file system"]["remedy"] == remedy
    assert said["cache folder"]["remedy"] == ""


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A larger quota cannot help where the disk has no room for this one."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1 << 30, 1 << 30, 4096))

    def refuse(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    for quota in ("10MB", "100GB"):
        status, said = found(tmp_path, LOOKUPSTORE_CACHE_BYTES=quota)
        assert (status, said["cache folder"]["verdict"]) == (1, "warning")
        assert said["cache folder"]["remedy"].startswith("free some space, or set LOOKUPSTORE_")
        assert said["its file system"]["found"] == "No space left on device"
        assert said["its file system"]["remedy"] == "free some space, or choose a larger disk"


def test_java_that_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    status, said = found(tmp_path, JAVA_HOME=str(tmp_path))
    assert status == 0
    assert said["Java"]["verdict"] == "warning"
    assert "JAVA_HOME" in said["Java"]["found"]


def test_formats_that_spark_sees(tmp_path: Path) -> None:
    """Spark asks `PYSPARK_PYTHON`, or the `python3` of PATH, not the Python that runs doctor."""
    pytest.importorskip("pyspark")
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    program = "from lookupstore.cli import main; main(['doctor', '--output', 'json'])"
    for chosen, verdict in ((sys.executable, "ok"), (None, "warning"), ("/no/python", "warning")):
        environment = {
            **os.environ, "LOOKUPSTORE_CACHE": str(tmp_path),
            "PYTHONPATH": str(Path(lookupstore.__file__).parents[1]),
            "PATH": f"{other.parent}{os.pathsep}{os.environ['PATH']}",
        }  # fmt: skip
        environment.pop("PYSPARK_PYTHON", None)
        environment |= {} if chosen is None else {"PYSPARK_PYTHON": chosen}
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=environment
        )
        (said,) = (one for one in json.loads(done.stdout) if one["what"] == "formats of Spark")
        assert said["verdict"] == verdict, said
        assert ("register(spark)" in said["remedy"]) == (verdict == "warning")
        assert chosen is None or verdict == "ok" or chosen in said["found"]


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = tmp_path / "enabled"
    setting.write_text("always madvise [never]\n")
    monkeypatch.setattr(doctor, "_HUGE_PAGES", setting)
    monkeypatch.setattr(doctor, "is_there", lambda extra: False)

    def refuse(*_: Any) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    status, said = found(tmp_path)
    assert status == 0
    assert said["huge pages"]["verdict"] == said["its file system"]["verdict"] == "warning"
    assert said["its file system"]["found"] == "no links"
    assert said["Java"]["found"] == "not needed without Spark"
    assert "pip install 'lookupstore[hudi]'" in said["extra hudi"]["found"]


def test_completion_in_bash() -> None:
    """What docs/reference/cli.md puts into ~/.bashrc makes commands and options be completed."""
    program = os.path.join(os.path.dirname(sys.executable), "lookupstore")
    script = f"""
    eval "$(_LOOKUPSTORE_COMPLETE=bash_source {program})"
    COMP_WORDS=({program} do) COMP_CWORD=1
    _lookupstore_completion {program}; echo "${{COMPREPLY[@]}}"
    COMPREPLY=() COMP_WORDS=({program} doctor --out) COMP_CWORD=2
    _lookupstore_completion {program}; echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["doctor", "--output"], "")
