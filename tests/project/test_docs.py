"""Every example in the documents and docstrings is run; `support/documents.py` says how.

The examples of one file run in one temporary folder, those of each docstring in their own.
"""

from __future__ import annotations

import doctest
import importlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.documents import Block, blocks_of, run_blocks
from support.recording import PAGES, recorded, steady

import lookupstore

ROOT = Path(__file__).parents[2]
PACKAGE = Path(lookupstore.__file__).parent
COMMAND_SERVER = ROOT / "tests" / "support" / "command_server.py"
DOCUMENTS = [path for path in (ROOT / "README.md",) if path.exists()]
DOCUMENTS += sorted((ROOT / "docs").rglob("*.md"))


@pytest.fixture(scope="module")
def commands() -> Iterator[Path]:
    """Return the socket of a server of commands."""
    with tempfile.TemporaryDirectory() as folder:  # the path of a socket has to be short
        path = Path(folder, "commands")
        server = subprocess.Popen(
            [sys.executable, COMMAND_SERVER, "serve", path],
            env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert server.stdout is not None
        with server.stdout:
            assert server.stdout.readline() == b"ready\n"
            yield path
            server.kill()
            server.wait()


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commands: Path) -> dict[str, str]:
    """Enter an empty folder; return an environment where `lookupstore` is the one under test."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    command = tmp_path / "bin" / "lookupstore"
    command.parent.mkdir()
    words = [sys.executable, "-IS", str(COMMAND_SERVER), "run", str(commands)]
    command.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    command.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(PACKAGE.parent),
    }


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_examples_of_a_document_run(path: Path, environment: dict[str, str]) -> None:
    run_blocks([b for b in blocks_of(path) if b.is_run and not b.needs_spark], environment)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize(
    "path",
    [path for path in DOCUMENTS if any(block.needs_spark for block in blocks_of(path))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
@pytest.mark.filterwarnings("default")  # Spark's own code warns
def test_the_examples_of_a_document_run_with_spark(path: Path, environment: dict[str, str]) -> None:
    # Examples before a Spark one may make what it reads.
    run_blocks([block for block in blocks_of(path) if block.is_run], environment)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_recorded_terminal_is_what_the_commands_print(
    path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environment["LOOKUPSTORE_CACHE"] = str(tmp_path / "cache")
    page = path.read_text()
    now = recorded(page, Path.cwd(), environment)
    assert steady(now) == steady(page), "run make recording"


def test_a_recording_keeps_what_differs_from_run_to_run_out_of_a_comparison(
    environment: dict[str, str],
) -> None:
    page = (
        "# A\n\n<!-- recorded -->\n```console\n$ printf 'a  b\\n'; \\\n  echo bad >&2\nold\n"
        "$ lookupstore get nothing 1\n```\n\n```console\n$ echo not recorded\n```\n"
    )
    now = recorded(page, Path.cwd(), environment)
    assert now == page.replace("old\n", "a  b\nbad\n").replace(
        "nothing 1\n", "nothing 1\nError: /srv/shop/nothing: No such file or directory\n"
    )
    assert steady(now) != steady(page)
    one = "at 2026-11-29T10:11:12.5+00:00 20261129101112345 │ 1,234 bytes ──┼ 5 rows"
    two = "at 2027-01-02 03:04:05Z 20270102030405678    │ 99.5 MiB ─────┼ 5 rows"
    assert steady(one) == steady(two) != steady(two.replace("5 rows", "6 rows"))


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 800


def test_the_links_of_the_documents_lead_somewhere() -> None:
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in DOCUMENTS
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text())
        if "://" not in target and not (path.parent / target).exists()
    ]
    assert not broken


def test_a_wrong_example_fails(environment: dict[str, str], tmp_path: Path) -> None:
    document = tmp_path / "wrong.md"
    document.write_text(
        "```python\nx = 1\n```\n\n<!-- needs: spark -->\n```python\nimport nothing\n```\n\n"
        "```python\nassert x == 2\n```\n\n<!-- status: 2 -->\n```console\n"
        "$ lookupstore no-such-verb\ntext\n$ ls\n```\n"
    )
    first, spark, second, console = blocks_of(document)
    assert [b.needs_spark for b in (first, spark, second, console)] == [False, True, False, False]
    assert (first.line, second.line, console.status) == (2, 11, 2)
    assert console.commands == ["lookupstore no-such-verb"]
    with pytest.raises(AssertionError):
        run_blocks([first, second], environment)
    with pytest.raises(AssertionError, match=r"wrong\.md:16: \$ lookupstore no-such-verb"):
        run_blocks([Block(document, 16, "console", console.body, "")], environment)


def public_modules() -> Iterator[str]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if not any(part.startswith("_") and part != "__init__" for part in parts):
            yield ".".join(part for part in parts if part != "__init__")


def failed_examples(modules: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the examples in the docstrings of modules; return what those that failed print."""
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    output: list[str] = []
    for name in modules:
        for example in doctest.DocTestFinder(exclude_empty=True).find(
            importlib.import_module(name), name
        ):
            if example.examples:
                folder = tmp_path / example.name
                folder.mkdir()
                monkeypatch.chdir(folder)
                runner.run(example, out=output.append)
    assert runner.tries > 0
    return "".join(output)


def test_the_examples_of_docstrings_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = [name for name in public_modules() if ".spark" not in name]
    failed = failed_examples(modules, tmp_path, monkeypatch)
    assert not failed, failed


@pytest.mark.spark
def test_the_examples_of_docstrings_run_with_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = [name for name in public_modules() if ".spark" in name]
    failed = failed_examples(modules, tmp_path, monkeypatch)
    assert not failed, failed
