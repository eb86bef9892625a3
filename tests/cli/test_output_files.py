"""`-o FILE` of all commands that print rows: the same rows, and a whole file or none."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click.testing
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore.cli import main
from lookupstore.hudi import HudiTable
from lookupstore.sst import Writer

ROWS = pa.table({"id": range(60), "name": [f"n{i}" for i in range(60)]})
# Each command with arguments, and the number of its rows.
COMMANDS = {
    "get store 1 7": 2,
    "scan store": 60,
    "scan store --limit 7 --reverse": 7,
    "scan rows.parquet --key id": 60,
    "scan one.sst": 1,
    "head store": 10,
    "head rows.parquet -n 55": 55,
    "head one.sst": 1,
    "head table -n 3": 3,
    "head table --as-of NOW": 10,
    "join rows.parquet store --on id --prefix s_": 60,
    "changes store": 60,
    "changes store --limit 3": 3,
    "hudi scan table": 60,
    "hudi scan table --limit 4": 4,
    "hudi get table 1 7": 2,
    "hudi incremental table": 60,
    "hudi changes table": 60,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    pq.write_table(ROWS, folder / "rows.parquet")
    lookupstore.build(ROWS, folder / "store", key="id").close()
    with Writer(folder / "one.sst") as writer:
        writer.put(b"k", b"v")
    HudiTable.create(folder / "table", ROWS, record_key="id", name="t").insert(ROWS)
    return folder


@pytest.fixture(autouse=True)
def here(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return made


def run(line: str) -> click.testing.Result:
    instant = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    words = [instant if word == "NOW" else word for word in line.split()]
    return click.testing.CliRunner().invoke(main, words)


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_file_has_the_rows_that_are_printed(line: str, tmp_path: Path) -> None:
    time.sleep(1 if "NOW" in line else 0)  # a time without a fraction is after the commit
    printed = run(f"{line} --output json")
    assert printed.exit_code == 0, printed.output
    wanted = in_order([json.loads(one) for one in printed.stdout.splitlines()])
    assert len(wanted) == COMMANDS[line]
    for name in ("o.json", "o.csv", "o.parquet", "o.arrow"):
        written = run(f"{line} -o {tmp_path / name}")
        assert (written.exit_code, written.output) == (0, "")
    lines = (tmp_path / "o.json").read_text().splitlines()
    assert in_order([json.loads(one) for one in lines]) == wanted
    parquet = pq.read_table(tmp_path / "o.parquet")
    assert pa.ipc.open_file(tmp_path / "o.arrow").read_all().num_rows == len(wanted)
    if "one.sst" not in line:  # bytes are hex digits in JSON
        assert in_order(parquet.to_pylist()) == wanted
    assert pa_csv.read_csv(tmp_path / "o.csv").num_rows == len(wanted)
    assert sorted(os.listdir(tmp_path)) == ["o.arrow", "o.csv", "o.json", "o.parquet"]


@pytest.mark.parametrize("line", COMMANDS)
def test_files_that_are_refused(line: str, tmp_path: Path) -> None:
    for more, said in (
        (f"-o {tmp_path}/o.txt", "name a file of this machine that ends in .parquet"),
        (f"-o {tmp_path}/o.csv --output csv", "give --output or -o"),
        (f"-o {tmp_path}/o.parquet.gz", "or in .csv.gz, .tsv.gz, .json.gz, .jsonl.gz"),
        (f"-o {tmp_path}/none/o.csv", f"none'; make it: mkdir -p {tmp_path}/none (see"),
    ):
        result = run(f"{line} {more}")
        assert (result.exit_code, result.stdout) == (2, ""), result.output
        assert said in result.stderr
    assert os.listdir(tmp_path) == []
    source = line.split()[2 if line.startswith("hudi") else 1]
    inside = source if source == "rows.parquet" else f"{source}/o.csv"
    if source == "one.sst":
        return
    if inside != source:
        Path(inside).touch()
    assert "is in what is read" in run(f"{line} -o {inside}").stderr
    if inside != source:
        os.unlink(inside)


def test_tabs_and_compressed_text(tmp_path: Path) -> None:
    """Python reads what is written, and a command reads the same rows from each file."""
    texts = ["a\tb", 'say "x"', "", None, "two\nlines", "a,b", "plain"]
    lookupstore.build({"id": range(7), "t": texts}, tmp_path / "s", key="id").close()
    wanted = [json.loads(one) for one in run(f"scan {tmp_path}/s --output json").stdout.split("\n")
              if one]  # fmt: skip
    for name in ("o.tsv", "o.tsv.gz", "o.csv.gz", "o.json.gz", "o.JSONL.GZ"):
        out = tmp_path / name
        assert run(f"scan {tmp_path}/s -o {out}").output == ""
        first = out.read_bytes()
        text = (gzip.decompress(first) if name.lower().endswith("gz") else first).decode()
        if name.lower().endswith("gz"):
            assert first[4:8] == bytes(4)  # no time of the compression
        if "json" in name.lower():
            assert [json.loads(one) for one in text.splitlines()] == wanted
        else:
            rows = csv.reader(io.StringIO(text), delimiter="\t" if "tsv" in name else ",")
            assert [*rows] == [["id", "t"], *([str(i), one or ""] for i, one in enumerate(texts))]
        if name != "o.JSONL.GZ":
            read = run(f"head {out} --output json").stdout
            assert [json.loads(one) for one in read.splitlines()] == wanted
        run(f"scan {tmp_path}/s -o {out}")
        assert out.read_bytes() == first  # a job that compares files finds nothing new


def test_a_killed_command_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    """The rows of a pipe that stays open are never complete."""
    out = tmp_path / "o.csv"
    out.write_text("before\n")
    line = ["head", "-", "-n", "100000000", "-o", str(out)]
    for number in (signal.SIGKILL, signal.SIGINT):
        process = subprocess.Popen(
            [sys.executable, "-m", "lookupstore", *line], stdin=subprocess.PIPE, cwd=tmp_path
        )
        assert process.stdin is not None
        process.stdin.write(b"id,name\n" + b"".join(b"%d,x\n" % i for i in range(1_000_000)))
        process.stdin.flush()
        until = time.monotonic() + 60
        while len(os.listdir(tmp_path)) < 2:  # the new file, under another name
            assert time.monotonic() < until
            time.sleep(0.02)
        process.send_signal(number)
        process.stdin.close()
        process.wait(60)
        assert out.read_text() == "before\n"
        hidden = [name for name in os.listdir(tmp_path) if name != "o.csv"]
        assert all(name.startswith(".") for name in hidden)
        if number == signal.SIGINT:
            assert hidden == []
        for name in hidden:
            os.unlink(tmp_path / name)


@pytest.mark.parametrize("line", ["get store 1 7", "scan store", "hudi changes table"])
def test_tabs_are_printed_as_they_are_written(
    line: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made)
    run = click.testing.CliRunner().invoke
    printed = run(main, [*line.split(), "--output", "tsv"])
    assert run(main, [*line.split(), "-o", str(tmp_path / "o.tsv")]).exit_code == 0
    assert printed.stdout_bytes == (tmp_path / "o.tsv").read_bytes()
    assert b"\t" in printed.stdout_bytes
