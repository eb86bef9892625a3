"""The flights as a Hudi table: the example without its part in Spark, on all flights."""

from __future__ import annotations

import csv
import importlib.util
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import lookupstore
from lookupstore import demo
from lookupstore.hudi import HudiTable

EXAMPLE = Path(__file__).parents[2] / "examples" / "flights_as_hudi_table.py"


@pytest.mark.long
@pytest.mark.skipif(
    importlib.util.find_spec(demo.PACKAGE) is None, reason="pip install 'lookupstore[demo]'"
)
def test_the_flights_as_a_table(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path / "run"), "--no-spark"],
        env={**os.environ, "PYTHONPATH": str(Path(lookupstore.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "hudi-rs: the same rows, now and in June" in ran.stdout
    # Python's own reader, of one airline.
    with zipfile.ZipFile(demo.find_data(tmp_path, demo.Show()) / "flights.csv.zip") as archive:
        lines = csv.DictReader(io.StringIO(archive.read("flights.csv").decode()))
        wanted = sorted(
            tuple(int(one[name]) for name in ("month", "day", "flight", "dep_time"))
            for one in lines
            if one["carrier"] == "HA" and one["dep_time"] != "NA"
        )
    rows = HudiTable.open(tmp_path / "run" / "flights").scan(
        columns=["carrier", "month", "day", "flight", "dep_time"]
    )
    found = [tuple(row.values())[1:] for row in rows.to_pylist() if row["carrier"] == "HA"]
    assert sorted(found) == wanted
