"""The soak test, for some seconds: tests/support/soak.py says what it does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.samples import amount

SOAK = Path(__file__).parents[1] / "support" / "soak.py"


@pytest.mark.sampled
def test_a_store_is_read_while_it_is_replaced(seed: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    times = ("--seconds", f"{amount(3, 30)}", "--interval", "0.3")
    run = subprocess.run(
        [sys.executable, SOAK, *times, "--seed", str(seed)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert run.returncode == 0, run.stdout
    assert "nothing found" in run.stdout
