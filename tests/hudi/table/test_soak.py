"""The races of `make hudi-soak` and `make hudi-sim`, for some seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "support" / "hudi" / "soak.py"


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seeds", "3:6", "--processes", "1"], "nothing found"),
        (["--writers", "2", "--seconds", "1"], "nothing lost, nothing twice"),
    ],
    ids=["simulated", "processes"],
)
def test_writers_race(arguments: list[str], said: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, SOAK, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert run.returncode == 0, run.stdout
    assert said in run.stdout
