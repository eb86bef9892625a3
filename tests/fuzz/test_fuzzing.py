"""`make fuzz`, with the same few inputs each time, and whether it would find something."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

RUN = Path(__file__).with_name("run.py")


def fuzz(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, RUN, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def test_changed_files_do_no_harm() -> None:
    # By number, not by time: a slow machine tries the same inputs as a fast one.
    run = fuzz("--seed", "16", "--inputs", "40", "--seconds", "100000", "--patience", "600")
    assert run.returncode == 0, run.stdout
    inputs = re.findall(r"(\w+): 40 inputs, (\d+) answered", run.stdout)
    assert len(inputs) == 9
    # Changes are small: of each kind of file, some inputs are still read.
    assert all(int(answered) > 0 for _, answered in inputs), run.stdout


def test_what_does_harm_is_found_and_repeated() -> None:
    line = ("--module", "harmful", "--seed", "1")
    run = fuzz(*line, "--inputs", "5", "--seconds", "100000", "--patience", "20")
    assert run.returncode == 1
    assert "fine: 5 inputs, 5 answered" in run.stdout
    kinds = {
        "wrong": "UnicodeDecodeError in harmful.py:wrong",
        "crash": "SIGABRT",
        "hang": "20 s and no end",
        "memory": "memory",
    }
    for target, kind in kinds.items():
        assert f"FOUND in {target}: {kind}" in run.stdout, run.stdout
        assert f"{target}: 5 inputs" in run.stdout
        if target != "hang":
            number = re.search(rf"FUZZ_SEED=1 FUZZ_ONLY=({target}:\d+) make fuzz", run.stdout)
            assert number is not None
            again = fuzz(*line, "--only", number[1])
            assert again.returncode == 1
            assert f"FOUND in {target}: {kind}" in again.stdout
