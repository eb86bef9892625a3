"""What every test shares: Hypothesis profiles, seeds, and the folder of golden files.

LOOKUPSTORE_TEST_PROFILE=thorough runs forty times the examples;
LOOKUPSTORE_TEST_SEED=N repeats the random inputs of a run that printed N. Large suites run a sample
that changes each day (tests/support/samples.py).
"""

from __future__ import annotations

import gc
import importlib.util
import os
import secrets
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import hypothesis
import pytest
from support import samples

import lookupstore

ROOT = Path(__file__).parent.parent
GOLDEN = Path(__file__).parent / "golden"
PROFILE = os.environ.get("LOOKUPSTORE_TEST_PROFILE", "default")

# Blocks and files are written and read for each example: slow, and slower under sanitizers.
hypothesis.settings.register_profile(
    "default",
    deadline=None,
    print_blob=True,
    max_examples=samples.amount(50, 500),
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "thorough", hypothesis.settings.get_profile("default"), max_examples=2000
)
hypothesis.settings.load_profile(PROFILE)

# The JVMs of tests live too short to gain from a second compiler, or from threads that collect.
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Of `make test-long`. Another Java or Spark does not use it, and is not to print so.
CLASSES = ROOT / "build" / "spark.jsa"
if CLASSES.exists():
    JVM_OPTIONS += f" -XX:SharedArchiveFile={CLASSES} -Xlog:disable"

# `make test` looks for tests of Spark in these places only.
SPARK = ROOT / "tests" / "spark"
EXAMPLES = ROOT / "tests" / "project" / "test_docs.py"

# The suite without Spark also runs where pyspark is not installed (`make test-wheel`).
HAS_PYSPARK = importlib.util.find_spec("pyspark") is not None
collect_ignore = [] if HAS_PYSPARK else ["spark"]
# PyTorch is gigabytes in size: `make test-torch` installs it.
if importlib.util.find_spec("torch") is None:
    collect_ignore.append("engines/test_torch_tensors.py")


def pytest_configure(config: pytest.Config) -> None:
    """Keep local copies and statistics of this run to itself; processes that it starts as well."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", JVM_OPTIONS)  # for the driver of every session
    os.environ.setdefault(samples.DAY, datetime.now(timezone.utc).strftime("%Y%m%d"))
    folder = tempfile.mkdtemp(prefix="lookupstore-tests-")
    os.environ["LOOKUPSTORE_CACHE"] = folder
    # Clients of S3 that are told no region, or no credentials, ask the cloud machine that they
    # would run on. Outside of a cloud nothing answers at its address, and they wait for seconds.
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    # Nothing here lives longer than the machine has power, and hundreds of thousands of times the
    # disk was waited for. Programs that tests start still do: examples, the command line.
    patched = pytest.MonkeyPatch()
    patched.setattr(os, "fsync", os.fstat)  # a wrong descriptor is an error of it, too
    config.add_cleanup(patched.undo)


@pytest.hookimpl(tryfirst=True)  # before pytest looks at marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests of the cluster first: Spark's JVM keeps the environment it starts in."""
    samples.mark_not_drawn(items)
    for item in items:
        is_spark = item.get_closest_marker("spark") and not item.get_closest_marker("long")
        if is_spark and SPARK not in item.path.parents and item.path != EXAMPLES:
            raise pytest.UsageError(f"{item.nodeid} needs Spark: put it below tests/spark")
    items.sort(key=lambda item: SPARK not in item.path.parents)


def pytest_collection_finish() -> None:
    """Exclude tests and modules, which stay, from garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_report_header() -> list[str]:
    """Say what is tested and how, in the first lines of the output."""
    return [
        f"lookupstore: {lookupstore.__version__} in {Path(lookupstore.__file__).parent}",
        f"hypothesis profile: {PROFILE}; pyspark: {'yes' if HAS_PYSPARK else 'not installed'}",
        f"cases of {samples.DAY}={os.environ[samples.DAY]}",
    ]


@pytest.fixture
def seed() -> int:
    """Draw a seed for the test's random inputs, and print it where a failure shows it."""
    fixed = os.environ.get("LOOKUPSTORE_TEST_SEED")
    value = int(fixed) if fixed else secrets.randbits(32)
    print(repeat_with(value))
    return value


@pytest.fixture
def seed_of_the_day() -> int:
    """Return a seed that all runs of a day share, and print it where a failure shows it."""
    value = samples.seed_of_the_day()
    print(repeat_with(value))
    return value


def repeat_with(seed: int) -> str:
    """Return the variables that repeat a test's cases and random inputs."""
    day = os.environ[samples.DAY]
    return f"repeat with {samples.DAY}={day} LOOKUPSTORE_TEST_SEED={seed}"


@pytest.fixture(scope="session")
def golden() -> Path:
    """Return the folder of golden files; each folder in it has a README that says its origin."""
    return GOLDEN


@pytest.fixture(scope="session")
def real_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with copy-on-write tables of Apache Hudi, which tests do not write to."""
    return unpacked("v*.zip", tmp_path_factory.mktemp("hudi"))


@pytest.fixture
def real_table(real_tables: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Return what copies one of the tables, for a test that writes to it."""

    def copied(name: str) -> Path:
        return Path(shutil.copytree(real_tables / name, tmp_path / name))

    return copied


@pytest.fixture(scope="session")
def real_table_archive() -> Path:
    """Return the archive of a table of Apache Hudi that has a metadata table."""
    return GOLDEN / "hudi" / "hudi-rs" / "v9_txns_nonpart_meta.zip"


@pytest.fixture(scope="session")
def merge_on_read_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with merge-on-read tables of Apache Hudi."""
    return unpacked("mor_*.zip", tmp_path_factory.mktemp("hudi"))


@pytest.fixture(scope="session")
def java_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the tables that Java alone wrote; tests do not write to them."""
    folder = tmp_path_factory.mktemp("java")
    for path in archives_of("java", "*.zip"):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder / path.stem)
    return folder


@pytest.fixture
def java_table(java_tables: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Return what copies one of the tables that Java wrote, for a test that writes to it."""

    def copied(name: str) -> Path:
        return Path(shutil.copytree(java_tables / name, tmp_path / name))

    return copied


def unpacked(pattern: str, folder: Path) -> Path:
    """Unpack archives of hudi-rs, of one table each, into folders that are called as they are."""
    for path in archives_of("hudi-rs", pattern):
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if "__MACOSX" not in name]
            (top,) = {name.partition("/")[0] for name in names}
            archive.extractall(folder, names)
        (folder / top).rename(folder / path.stem)
    return folder


def archives_of(origin: str, pattern: str) -> list[Path]:
    """Return the archives of tables of Apache Hudi that are in a folder of golden files."""
    archives = sorted((GOLDEN / "hudi" / origin).glob(pattern))
    assert archives, pattern
    return archives
