"""`make fuzz`, with the same few inputs each time, and whether it would find something."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")

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


@pytest.mark.long
def test_changed_files_do_no_harm() -> None:
    # By number, not by time: a slow machine tries the same inputs as a fast one.
    run = fuzz("--seed", "16", "--inputs", "40", "--seconds", "100000", "--patience", "600")
    assert run.returncode == 0, run.stdout
    inputs = re.findall(r"(\w+): 40 inputs, (\d+) answered", run.stdout)
    assert len(inputs) == 16
    # Changes are small: of each kind of file, some inputs are still read.
    assert all(int(answered) > 0 for _, answered in inputs), run.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("fine", None),
        ("wrong", "UnicodeDecodeError in harmful.py:wrong"),
        ("crash", "SIGABRT"),
        ("hang", "5 s and no end"),
        ("memory", "memory"),
    ],
)
def test_what_does_harm_is_found_and_repeated(target: str, kind: str | None) -> None:
    line = ("--module", "harmful", "--seed", "9")
    line += ("--patience", "5" if target == "hang" else "600")
    run = fuzz(*line, "--only", target, "--inputs", "4", "--seconds", "100000")
    assert f"{target}: 4 inputs" in run.stdout
    assert run.returncode == (kind is not None)
    if kind is not None:
        assert f"FOUND in {target}: {kind}" in run.stdout
        number = re.search(rf"FUZZ_SEED=9 FUZZ_ONLY=({target}:\d+) make fuzz", run.stdout)
        assert number is not None
        again = fuzz(*line, "--only", number[1])
        assert again.returncode == 1
        assert f"FOUND in {target}: {kind}" in again.stdout
