"""The public names: those in `__all__` of six modules, and of one for each other engine."""

from __future__ import annotations

import builtins
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lookupstore

ROOT = Path(__file__).parents[2]
MODULES = (
    "lookupstore",
    "lookupstore.sst",
    "lookupstore.columnar",
    "lookupstore.hudi",
    "lookupstore.spark",
    "lookupstore.errors",
)
# Each needs an engine that is installed apart; their few names are not counted.
ENGINES = (
    "lookupstore.duckdb",
    "lookupstore.opentelemetry",
    "lookupstore.polars",
    "lookupstore.torch",
)


@pytest.mark.few(3)
@pytest.mark.parametrize("module", [*MODULES, *ENGINES])
def test_import_star(module: str) -> None:
    """Every name is there, sorted and documented, and none takes the place of one of Python's."""
    imported = importlib.import_module(module)
    names = imported.__all__
    assert names == sorted(set(names))
    assert not set(names) & set(dir(builtins))
    for name in names:
        assert getattr(imported, name).__doc__, name
    code = f"from {module} import *; print(*sorted(set(dir()) - {{'annotations'}}))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = {name for name in ran.stdout.split() if re.fullmatch("[A-Za-z].*|__version__", name)}
    assert found == set(names)


def test_names_that_are_imported_when_they_are_used() -> None:
    """They are there as if they were imported: for `dir`, for types, and if a name is wrong."""
    for package in (lookupstore, importlib.import_module("lookupstore.spark")):
        text = Path(str(package.__file__)).read_text()
        line = rf"^    from {re.escape(package.__name__)}\.(\S+) import (.+)$"
        typed = {
            name.split(" as ")[0]: module
            for module, names in re.findall(line, text, re.M)
            for name in names.split(", ")
        }
        assert typed == vars(package)["_MODULES"]
    assert {*lookupstore.__all__, "open", "sst", "columnar", "errors"} <= set(dir(lookupstore))
    code = (
        "import lookupstore; assert 'build' not in vars(lookupstore); "
        "assert lookupstore.sst.Reader and lookupstore.columnar.ColumnarFiles; "
        "assert lookupstore.build is lookupstore.build and 'build' in vars(lookupstore); "
        "assert not hasattr(lookupstore, 'bulid'); lookupstore.bulid"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "AttributeError: module 'lookupstore' has no attribute 'bulid'" in ran.stderr


def test_workers_of_joins_with_stores_import_little() -> None:
    """Each Python worker of an executor pays for its imports, in time and memory."""
    code = """
import sys
import lookupstore.spark.join.worker
others = ("builder", "columnar", "following", "hudi", "orc", "parquet", "spark.build")
others += ("spark.hudi", "store.changelog", "store.changing", "tables")
names = [f"lookupstore.{name}" for name in others]
print(*(name for name in sys.modules if name.startswith(tuple(names))))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


def test_they_are_few() -> None:
    """Some forty: what a person can learn. Errors are in two of the modules."""
    names = {name for module in MODULES for name in importlib.import_module(module).__all__}
    assert len(names) <= 52, sorted(names)


def test_documents_import_nothing_else() -> None:
    """The documents import names from these modules, and from no module inside of them."""
    files = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.py")]
    found = 0
    for file in files:
        for module, names in re.findall(
            r"^\s*from (lookupstore[\w.]*) import ([\w, ]+)", file.read_text(), flags=re.MULTILINE
        ):
            for name in names.split(","):
                found += 1
                # The data of the demo serve an example, too.
                known = (*MODULES, *ENGINES, "lookupstore.demo")
                assert module in known, f"{file.name}: {module} {names}"
                assert hasattr(importlib.import_module(module), name.strip().split(" as ")[0])
    assert found > 20


def test_each_class_name_is_used_once() -> None:
    """No two classes of the package share a name, unless it begins with an underscore."""
    files: dict[str, list[str]] = {}
    package = ROOT / "lookupstore"
    for file in sorted([*package.rglob("*.py"), *package.rglob("*.pyx")]):
        for name in re.findall(
            r"^\s*(?:cdef\s+)?class\s+([A-Za-z]\w*)\s*[(:]", file.read_text(), flags=re.MULTILINE
        ):
            files.setdefault(name, []).append(str(file.relative_to(package)))
    assert len(files) > 400
    assert {name: where for name, where in files.items() if len(where) > 1} == {}
