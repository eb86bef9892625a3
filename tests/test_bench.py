"""Every verb of the bench runs, tiny, so that it cannot rot; no time is asserted."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import lookupstore

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "bench"

pytest.importorskip("pytest_benchmark")


def run(folder: Path, *arguments: str) -> str:
    """Run the bench outside of the work tree and return what it prints."""
    # A worker of xdist tells its children that they are workers, too: then nothing would be timed.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
    }
    # The child imports the lookupstore of this process, installed or in place.
    found = [str(Path(lookupstore.__file__).parents[1]), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, found))
    command = [
        *(sys.executable, "-m", "pytest", str(BENCH), "-c", str(ROOT / "pyproject.toml")),
        *("--rootdir", str(ROOT), "-p", "no:cacheprovider", "--basetemp", str(folder / "temp")),
        *("--records", "500", "--queries", "100", *arguments),
    ]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def report() -> Iterator[ModuleType]:
    """Give the bench's report module, which is in no package."""
    spec = importlib.util.spec_from_file_location("bench_report", BENCH / "report.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_every_verb_runs_and_is_reported(tmp_path: Path, report: ModuleType) -> None:
    lines = tmp_path / "results.jsonl"
    shown = run(tmp_path, "-m", "not spark", "--rounds", "1", "--json-lines", str(lines))
    head, *results = map(json.loads, lines.read_text().splitlines())
    assert head["settings"] == {"records": 500, "queries": 100, "rounds": 1}
    assert head["machine"]["cores"] == os.cpu_count()
    verbs = {verb for topic in ("file", "store") for verb in report.TOPICS[topic]}
    ours = {(one["workload"], one["verb"]) for one in results if one["contender"] == "lookupstore"}
    assert ours == {(workload, verb) for workload in ("W1", "W2") for verb in verbs}
    assert all(one["rate"] == one["operations"] / one["median"] for one in results)
    for contender in {one["contender"] for one in results}:
        assert contender in shown
    assert report.tables([report.Result(**without_rate(one)) for one in results]) in shown


def without_rate(result: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in result.items() if name != "rate"}


def test_answers_are_checked_without_a_clock(tmp_path: Path) -> None:
    shown = run(tmp_path, "-m", "not spark", "-k", "sst and lookupstore", "--benchmark-disable")
    assert "operations a second" not in shown
    assert "failed" not in shown


@pytest.mark.spark
def test_the_join_runs(tmp_path: Path) -> None:
    lines = tmp_path / "results.jsonl"
    run(tmp_path, "-m", "spark", "-k", "W1", "--rounds", "1", "--json-lines", str(lines))
    _, *results = map(json.loads, lines.read_text().splitlines())
    assert {(one["verb"], one["contender"]) for one in results} == {
        ("join", "lookupstore"),
        ("join", "broadcast"),
        ("join", "sort-merge"),
    }


def test_table_of_known_results(report: ModuleType) -> None:
    results = [
        report.Result("W1", "random", "lookupstore", 1_000_000, 0.1, 0.1, 3),
        report.Result("W1", "random", "lmdb", 1_000_000, 1.25, 1.0, 3),
        report.Result("W1", "open", "lmdb", 1, 0.004, 0.004, 3),
        report.Result("W1", "fill none", "lookupstore", 1000, 0.001, 0.001, 3, stored=42_000),
        report.Result("W2", "join", "lookupstore", 100, 1.0, 1.0, 3),
    ]
    assert report.tables(results).splitlines() == [
        "W1 file           lookupstore             lmdb",
        "fill none              1.00 M",
        "  bytes a record         42.0",
        "open                                       250",
        "random                10.00 M  0.800 M (12.5x)",
        "",
        "W2 Spark  lookupstore",
        "join              100",
    ]
