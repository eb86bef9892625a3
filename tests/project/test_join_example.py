"""The join of flights and planes in pandas, polars, Arrow and DuckDB, without Spark."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lookupstore
from lookupstore import demo

EXAMPLE = Path(__file__).parents[2] / "examples" / "join_in_pandas.py"


@pytest.mark.skipif(
    importlib.util.find_spec(demo.PACKAGE) is None, reason="pip install 'lookupstore[demo]'"
)
def test_the_joins_of_the_flights(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path / "run")],
        env={**os.environ, "PYTHONPATH": str(Path(lookupstore.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "equal to the joins of pandas, polars, Arrow and DuckDB" in ran.stdout
