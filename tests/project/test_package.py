"""What is shipped: the source archive, versions, types."""

from __future__ import annotations

import email
import email.policy
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import lookupstore
from lookupstore._built import check_built

ROOT = Path(__file__).parents[2]
PACKAGE = Path(lookupstore.__file__).parent
CYTHONIZED = ROOT / "build" / os.environ.get("LOOKUPSTORE_BUILD", "release") / "cython"
# What a work tree has, and an archive does not.
GENERATED = (
    f"lookupstore/sst/_block{EXTENSION_SUFFIXES[0]}",
    "lookupstore/sst/_block.c",
    "lookupstore/sst/_block.html",
    "lookupstore/sst/__pycache__/reader.cpython-311.pyc",
    "tests/sst/__pycache__/test_block.cpython-311.pyc",
    "build/release/temp/ls_block.o",
    "dist/lookupstore-0.0.0.tar.gz",
    ".venv/bin/python",
    ".hypothesis/examples/one",
)
CAN_BUILD = importlib.util.find_spec("Cython") and importlib.util.find_spec("setuptools")


def relative(paths: list[Path]) -> set[str]:
    return {str(path.relative_to(ROOT)) for path in paths}


def is_a_source(path: Path) -> bool:
    """Return whether a file of a work tree that is no clone is what a build begins with."""
    generated = {"build", "dist", "__pycache__", "node_modules"}
    parts = path.relative_to(ROOT).parts
    if any(part in generated or part.endswith(".egg-info") for part in parts):
        return False
    hidden = parts[0].startswith(".") and parts[0] not in (".ci", ".github", ".clang-format")
    return not hidden and path.suffix not in (".so", ".pyd", ".pyc", ".o")


def sources() -> list[Path]:
    """Return the files of the project, without what git ignores."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:
        named = [ROOT / name for name in listed.stdout.split("\0") if name]
        return [path for path in named if path.is_file()]
    return [path for path in ROOT.rglob("*") if path.is_file() and is_a_source(path)]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project with what builds and runs leave in a work tree."""
    folder = tmp_path_factory.mktemp("tree")
    for path in sources():
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
    # What Cython has made, so that it need not be made once more: in the copy it is as old.
    if CYTHONIZED.is_dir():
        shutil.copytree(CYTHONIZED, folder / CYTHONIZED.relative_to(ROOT))
    for name in GENERATED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def built_files() -> dict[str, int]:
    """Return when each file was changed that a build in the work tree would write."""
    folders = [ROOT, *ROOT.glob("*.egg-info"), CYTHONIZED.parent, CYTHONIZED, ROOT / "dist"]
    files = [path for folder in folders if folder.is_dir() for path in folder.iterdir()]
    return {
        str(path): path.stat().st_mtime_ns
        for path in files
        if path.is_file() or path.name.endswith((".egg-info", "dist"))
    }


@pytest.fixture(scope="module")
def archive(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a freshly made source archive."""
    if not CAN_BUILD:
        pytest.skip("setuptools and Cython are not installed: not an environment that builds")
    folder = tmp_path_factory.mktemp("sdist")
    hook = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    before = built_files()
    run = subprocess.run(
        [sys.executable, "-c", hook],
        cwd=tree,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert run.returncode == 0, run.stdout
    assert built_files() == before, "the work tree is as it was"
    (made,) = folder.glob("lookupstore-*.tar.gz")
    return made


@pytest.fixture(scope="module")
def sdist(archive: Path) -> set[str]:
    """Return the names in the source archive, without its top folder."""
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
            *(ROOT / "examples").rglob("*.py"),
            *(ROOT / ".github").rglob("*.yml"),
            *(ROOT / name for name in ("pyproject.toml", "setup.py", "Makefile", ".clang-format")),
            *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE")),
        ]
    )
    assert sorted(wanted - sdist) == []


def test_the_sdist_has_every_tracked_file(sdist: set[str]) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a clone")
    tracked = {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}
    assert len(tracked) > 300
    assert sorted(tracked - sdist) == []


def test_the_metadata_says_who_and_where_and_has_no_relative_link(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        (member,) = (one for one in tar if re.fullmatch(r"[^/]+/PKG-INFO", one.name))
        content = tar.extractfile(member)
        assert content is not None
        said = email.message_from_bytes(content.read(), policy=email.policy.default)
    assert said["Author"] == "lookupstore developers"
    assert "spark" in said["Keywords"]
    assert said["Description-Content-Type"] == "text/markdown"
    urls = dict(line.split(", ") for line in said.get_all("Project-URL"))
    assert sorted(urls) == ["Changelog", "Documentation", "Homepage", "Repository"]
    text = said.get_content()
    links = re.findall(r"\]\(([^)\s]+)", text) + re.findall(r"(?:href|src)=\"([^\"]+)", text)
    assert len(links) > 5
    assert [link for link in links if not re.match(r"https://|#", link)] == []
    # They are files of ours, which are there.
    ours = [link.split("/blob/main/")[1] for link in links if "/blob/main/" in link]
    assert [link for link in ours if not (ROOT / link.split("#")[0]).exists()] == []


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


def test_a_checkout_that_is_not_built_says_what_to_run(tmp_path: Path) -> None:
    sources = {path for kind in ("*.py", "*.pyx") for path in (ROOT / "lookupstore").rglob(kind)}
    for path in sources:
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for code in ("import lookupstore", "from lookupstore.sst import Reader"):
        run = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        assert run.stderr.splitlines()[-1] == (
            f"ImportError: lookupstore is not built for Python {version} in {tmp_path}: run "
            "'pip install -e .' there, or leave that folder to import an installed one"
        )
    # A source without its extension is one too many; none at all is an installation.
    names = [path.relative_to(ROOT).with_suffix("") for path in sources if path.suffix == ".pyx"]
    for name in names:
        (tmp_path / f"{name}{EXTENSION_SUFFIXES[0]}").touch()
    check_built(tmp_path / "lookupstore")
    (tmp_path / f"{names[0]}{EXTENSION_SUFFIXES[0]}").unlink()
    with pytest.raises(ImportError, match="is not built"):
        check_built(tmp_path / "lookupstore")
    for name in names:
        (tmp_path / f"{name}.pyx").unlink()
    check_built(tmp_path / "lookupstore")


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
