"""`cache`: what the cache folder holds, and its removal, beside the files in the folder."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import click.testing
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from pyarrow import fs

from lookupstore.cli import main
from lookupstore.columnar import ColumnarFiles
from lookupstore.hostcache.cache import Residency
from lookupstore.hostcache.pinned_copy import PinnedCopy

CONTENT = b"of an object" * 9000
WEEK = 7 * 86400


@pytest.fixture(autouse=True)
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the cache, which has a lookup file."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(folder))
    pq.write_table(pa.table({"k": range(1000), "v": range(1000)}), tmp_path / "rows.parquet")
    with ColumnarFiles(tmp_path / "rows.parquet", key="k") as files:
        assert files.lookup([7])["v"].to_pylist() == [7]
    assert len(list(folder.glob("*.sst"))) == 1
    return folder


def pinned(tmp_path: Path) -> PinnedCopy:
    """Return the copy of an object, which this process has open."""
    (tmp_path / "object").write_bytes(CONTENT)
    copy = Residency().pin(
        fs.LocalFileSystem(),
        str(tmp_path / "object"),
        nbytes=len(CONTENT),
        xxh64=xxhash.xxh64(CONTENT).hexdigest(),
    )
    assert copy.wait()
    return copy


def run(*line: str) -> str:
    done = click.testing.CliRunner().invoke(main, ["cache", *line])
    assert done.exit_code == 0, done.output
    return done.stdout


def shown(*line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*line, "--output", "json"))
    return found


def taken(paths: list[Path]) -> int:
    return sum(512 * path.stat().st_blocks for path in paths)


def test_copies_and_files_that_were_made_are_counted(cached: Path, tmp_path: Path) -> None:
    made = list(cached.glob("*.sst"))
    pinned(tmp_path).close()
    copies = [path for path in cached.glob("*.sst") if path not in made]
    assert shown() == {
        "folder": str(cached),
        "copies": 1,
        "copies_bytes": taken(copies),
        "made": 1,
        "made_bytes": taken(made),
        "quota": pytest.approx(Residency().quota, rel=0.2),
    }
    lines = run().splitlines()
    assert lines[0] == str(cached)
    assert [line.split()[1] for line in lines if "1 file, " in line] == ["copies", "made"]


def test_what_a_process_has_open_is_kept(cached: Path, tmp_path: Path) -> None:
    with pinned(tmp_path) as copy:
        nbytes = taken([path for path in cached.glob("*.sst") if str(path) != copy.path])
        assert shown("--clear") == {
            "folder": str(cached),
            "removed": 1,
            "removed_bytes": nbytes,
            "in_use": 1,
            "in_use_bytes": taken([Path(copy.path)]),
        }
        assert [str(path) for path in cached.glob("*.sst")] == [copy.path]
        assert run("--clear").splitlines()[1].startswith("kept 1 file, ")
    assert run("--clear").startswith(f"{cached}: removed 1 file, ")
    assert not list(cached.glob("*.sst"))
    assert shown()["copies"] == shown()["made"] == 0


def test_only_what_was_not_used_for_a_time_is_removed(cached: Path, tmp_path: Path) -> None:
    (made,) = cached.glob("*.sst")
    pinned(tmp_path).close()
    then = time.time() - WEEK - 60
    os.utime(made, (then, made.stat().st_mtime))
    old = "--unused-for", "7d"
    assert (shown(*old)["copies"], shown(*old)["made"]) == (0, 1)
    assert shown("--clear", "--unused-for", "8 days")["removed"] == 0
    assert shown("--clear", *old)["removed"] == 1
    assert not made.exists()
    assert shown()["copies"] == 1


def test_a_folder_that_is_not_there_stays_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "none"))
    assert shown("--clear")["removed"] == 0
    assert shown()["copies_bytes"] == 0
    assert not (tmp_path / "none").exists()


def test_a_wrong_time_names_the_option() -> None:
    done = click.testing.CliRunner().invoke(main, ["cache", "--unused-for", "long"])
    assert done.exit_code == 2
    assert "--unused-for is 'long'" in done.stderr
