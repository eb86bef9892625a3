"""A folder in place of a file: what is found, where, and what to do."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click.testing
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore import ColumnarFiles
from lookupstore.cli import main
from lookupstore.sst import Reader

MESSAGE = "a folder, not a file; give the path of a file, or remove the folder"


def replaced(path: Path) -> Path:
    path.unlink()
    path.mkdir()
    return path


@pytest.mark.parametrize(
    "attempt",
    [
        lambda path: lookupstore.open(path).get(1),
        lambda path: lookupstore.open(path).verify(),
        lambda path: lookupstore.upsert(path, {"id": [1], "v": [3]}, max_runs=0),
    ],
)
def test_a_folder_for_a_file_of_a_store(tmp_path: Path, attempt: Callable[[Path], Any]) -> None:
    """Its size was compared with that of the file, and the store called damaged."""
    lookupstore.build({"id": [1], "v": [2]}, tmp_path / "s", key="id").close()
    (file,) = (tmp_path / "s" / "data").iterdir()
    replaced(file)
    with pytest.raises(IsADirectoryError, match=MESSAGE) as raised:
        attempt(tmp_path / "s")
    assert raised.value.filename == str(file)


@pytest.mark.parametrize("verb", ["get", "scan", "verify", "dump", "info", "compact"])
def test_commands_say_it(tmp_path: Path, verb: str) -> None:
    lookupstore.build({"id": [1], "v": [2]}, tmp_path / "s", key="id").close()
    (file,) = (tmp_path / "s" / "data").iterdir()
    replaced(file)
    words = [verb, str(tmp_path / "s"), *(["1"] if verb == "get" else [])]
    result = click.testing.CliRunner().invoke(main, words)
    assert f"Error: {file}: {MESSAGE}" in result.stderr, result.output


def test_a_folder_for_a_lookup_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this host, and published next to the files."""
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "cache"))
    files = tmp_path / "files"
    files.mkdir()
    pq.write_table(pa.table({"id": [1], "v": [2]}), files / "a.parquet")
    os.utime(files / "a.parquet", (10**9, 10**9))
    with ColumnarFiles(files, key="id") as opened:
        assert opened.get(1) == {"v": 2}
        opened.publish()
    (made,) = (tmp_path / "cache").rglob("*.sst")
    replaced(made)
    with ColumnarFiles(files, key="id") as opened, pytest.raises(IsADirectoryError, match=MESSAGE):
        opened.get(1)
    made.rmdir()
    (published,) = (files / "_lookup").glob("*.sst")
    replaced(published)
    (files / "_lookup" / f"{published.stem}.json").unlink()
    with (
        ColumnarFiles(files, key="id") as opened,
        pytest.raises(IsADirectoryError, match=MESSAGE) as raised,
    ):
        opened.publish()
    assert raised.value.filename == str(published)


def test_a_folder_for_a_sorted_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=r"not a sorted file; lookupstore.open opens store"):
        Reader(tmp_path)
    with pytest.raises(lookupstore.FormatError, match=r"not a lookupstore store: .*build makes"):
        lookupstore.open(tmp_path)
    with pytest.raises(FileNotFoundError, match="no file below it ends in"):
        ColumnarFiles(tmp_path, key="id")
