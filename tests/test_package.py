"""What is shipped: the source archive, versions, types."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tarfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import lookupstore

ROOT = Path(__file__).parent.parent
PACKAGE = Path(lookupstore.__file__).parent
CAN_BUILD = importlib.util.find_spec("Cython") and importlib.util.find_spec("setuptools")


def relative(paths: list[Path]) -> set[str]:
    return {str(path.relative_to(ROOT)) for path in paths}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the names in a freshly made source archive, without its top folder."""
    if not CAN_BUILD:
        pytest.skip("setuptools and Cython are not installed: not an environment that builds")
    folder = tmp_path_factory.mktemp("sdist")
    hook = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    run = subprocess.run(
        [sys.executable, "-c", hook],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert run.returncode == 0, run.stdout
    (archive,) = folder.glob("lookupstore-*.tar.gz")
    with tarfile.open(archive) as tar:
        return {name.split("/", 1)[1] for name in tar.getnames() if "/" in name}


def test_the_sdist_has_all_that_a_build_and_its_tests_need(sdist: set[str]) -> None:
    wanted = relative(
        [
            *(ROOT / "csrc").glob("*.[ch]"),
            *(path for path in ROOT.glob("lookupstore/**/*.p[yx]*") if path.suffix != ".pyc"),
            ROOT / "lookupstore" / "py.typed",
            *(ROOT / "lookupstore").rglob("*.avsc"),
            *(path for path in (ROOT / "tests").rglob("*.py")),
            *(path for path in (ROOT / "tests" / "golden").rglob("*") if path.is_file()),
            *(ROOT / "docs").rglob("*.md"),
            *(ROOT / "bench").rglob("*.py"),
            *(ROOT / name for name in ("pyproject.toml", "setup.py", "Makefile", ".clang-format")),
            *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE")),
        ]
    )
    assert sorted(wanted - sdist) == []


def test_the_sdist_has_nothing_generated(sdist: set[str]) -> None:
    generated = re.compile(
        r"^lookupstore/.*\.c$|\.(so|o|pyc|html)$|__pycache__|^(build|dist|\.venv|\.hypothesis)(/|$)"
    )
    assert [name for name in sorted(sdist) if generated.search(name)] == []


def test_the_version_is_one() -> None:
    try:
        installed = importlib.metadata.version("lookupstore")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("lookupstore is imported from a work tree that is not installed")
    assert installed == lookupstore.__version__
    changelog = (ROOT / "CHANGELOG.md").read_text()
    newest = re.search(r"^## (\d\S*)", changelog, re.MULTILINE)
    assert newest is not None
    assert newest[1] == lookupstore.__version__


def test_the_command_is_installed() -> None:
    try:
        scripts = importlib.metadata.distribution("lookupstore").entry_points
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("lookupstore is imported from a work tree that is not installed")
    (command,) = scripts.select(group="console_scripts", name="lookupstore")
    assert callable(command.load())


def test_types_are_shipped() -> None:
    assert (PACKAGE / "py.typed").exists()


def test_every_extension_has_its_types() -> None:
    extensions = {
        path.with_name(path.name.split(".")[0])
        for suffix in EXTENSION_SUFFIXES
        for path in PACKAGE.rglob(f"*{suffix}")
    }
    assert extensions, f"no extension modules in {PACKAGE}"
    missing = [path for path in extensions if not path.with_suffix(".pyi").exists()]
    assert sorted(str(path.relative_to(PACKAGE)) for path in missing) == []
