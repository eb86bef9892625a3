"""Pipes as paths, which the shell makes of `<(command)`: they are read once, as `-` is."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click.testing
import pyarrow as pa
import pytest

import lookupstore
from lookupstore.cli import main
from lookupstore.hudi import HudiTable

CSV = "id,zip\n1,02134\n2,10001\n3,94103\n"
ROWS = [{"id": 1, "zip": "02134"}, {"id": 2, "zip": "10001"}, {"id": 3, "zip": "94103"}]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def piped() -> Iterator[Callable[[str], str]]:
    """Return a function that makes what bash makes of `<(echo TEXT)`."""
    ends: list[int] = []

    def pipe_of(text: str) -> str:
        end, start = os.pipe()
        ends.append(end)
        with open(start, "w") as pipe:
            pipe.write(text)
        return f"/dev/fd/{end}"

    yield pipe_of
    for end in ends:
        os.close(end)


def run(*words: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, words)


def rows(*words: str) -> list[dict[str, Any]]:
    result = run(*words, "--output", "json")
    assert result.exit_code == 0, result.output
    return [json.loads(row) for row in result.stdout.splitlines()]


def test_sources(piped: Callable[[str], str]) -> None:
    assert rows("head", piped(CSV)) == ROWS
    built = run("build", piped(CSV), "zips", "--key", "id")
    assert built.exit_code == 0, built.output
    assert rows("scan", "zips") == ROWS
    assert rows("join", piped("n,at\n7,3\n8,4\n"), "zips", "--on", "at=id") == [
        {"n": 7, "at": 3, "zip": "94103"},
        {"n": 8, "at": 4, "zip": None},
    ]
    changed = run("upsert", "zips", piped("id,zip\n4,00501\n"), "--deletes", piped("id\n1\n2\n"))
    assert changed.exit_code == 0, changed.output
    assert rows("scan", "zips") == [ROWS[2], {"id": 4, "zip": "00501"}]


def test_rows_of_a_hudi_table(piped: Callable[[str], str]) -> None:
    HudiTable.create(
        "table", pa.schema([("id", pa.int64()), ("zip", pa.string())]), record_key="id"
    )
    written = run("hudi", "upsert", "table", piped(CSV))
    assert written.exit_code == 0, written.output
    assert rows("hudi", "scan", "table", "--columns", "id,zip") == ROWS


def test_a_named_pipe() -> None:
    os.mkfifo("rows.csv")  # whose extension is that of a file
    feeder = threading.Thread(target=Path("rows.csv").write_text, args=(CSV,))
    feeder.start()
    assert rows("head", "rows.csv") == ROWS
    feeder.join()


def test_pipes_that_stand_alone(piped: Callable[[str], str]) -> None:
    pipe = piped(CSV)
    for line in (f"head {pipe} -", f"build {pipe} {piped(CSV)} s --key id"):
        refused = run(*line.split())
        assert refused.exit_code == 2
        assert f"{pipe} is a pipe, and stands alone" in refused.stderr


def test_no_keys_are_looked_up_in_a_pipe(piped: Callable[[str], str]) -> None:
    lookupstore.build(pa.table({"id": [1]}), "s", key="id").close()
    pipe = piped(CSV)
    for line in (f"get {pipe} 1", f"scan {pipe}", f"join {piped(CSV)} {pipe} --on id"):
        refused = run(*line.split())
        assert refused.exit_code == 2
        assert f"lookupstore build {pipe} STORE --key NAME" in refused.stderr, line
