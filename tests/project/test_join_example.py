"""The examples of flights and planes without Spark: in frames, in DuckDB, in pipes, in services."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lookupstore
from lookupstore import demo

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.long
@pytest.mark.skipif(
    importlib.util.find_spec(demo.PACKAGE) is None, reason="pip install 'lookupstore[demo]'"
)
@pytest.mark.parametrize(
    ("program", "said"),
    [
        (
            [sys.executable, str(EXAMPLES / "join_in_pandas.py")],
            "equal to the joins of pandas, polars, Arrow and DuckDB",
        ),
        ([str(EXAMPLES / "pipes.sh")], "equal to DuckDB's join"),
        (
            [sys.executable, str(EXAMPLES / "flight_server.py")],
            "336,776 keys over Flight: equal to what the store answers",
        ),
        (
            [sys.executable, str(EXAMPLES / "lookups_in_asyncio.py")],
            "5,000 requests, 723 without a plane: equal to what get answers",
        ),
    ],
    ids=["pandas", "pipes", "flight", "asyncio"],
)
def test_the_joins_of_the_flights(tmp_path: Path, program: list[str], said: str) -> None:
    ran = subprocess.run(
        [*program, str(tmp_path / "run")],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(lookupstore.__file__).parents[1]),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert said in ran.stdout
