"""Every example in the documents and docstrings is run.

In README.md and docs/**/*.md:

- each ```python block is executed; the blocks of one file share their names, in file order;
- each line ``$ lookupstore ...`` of a ```console block is run, and must end with status 0;
- a comment right before a block changes that: ``<!-- needs: spark -->`` runs it only in the test
  that is marked so, ``<!-- status: 1 -->`` expects that status of the block's last command, and
  ``<!-- not run: reason -->`` shows code that cannot be run here.

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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import lookupstore

ROOT = Path(__file__).parent.parent
PACKAGE = Path(lookupstore.__file__).parent
DOCUMENTS = [path for path in (ROOT / "README.md",) if path.exists()]
DOCUMENTS += sorted((ROOT / "docs").rglob("*.md"))

FENCE = re.compile(
    r"(?:^<!--\s*(?P<notes>.*?)\s*-->\n+)?^```(?P<language>python|console)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced example, and where it stands."""

    path: Path
    line: int
    language: str
    body: str
    notes: str

    @property
    def needs_spark(self) -> bool:
        return "needs: spark" in self.notes

    @property
    def is_run(self) -> bool:
        return "not run:" not in self.notes

    @property
    def status(self) -> int:
        match = re.search(r"status: (\d+)", self.notes)
        return int(match[1]) if match else 0

    @property
    def commands(self) -> list[str]:
        """The lookupstore command lines; a line that ends in a backslash goes on."""
        lines = self.body.replace("\\\n", " ").splitlines()
        return [line[2:] for line in lines if line.startswith("$ lookupstore ")]


def blocks_of(path: Path) -> list[Block]:
    """Return the examples of a document, in order."""
    text = path.read_text()
    return [
        Block(
            path,
            text.count("\n", 0, match.start("body")) + 1,
            match["language"],
            match["body"],
            match["notes"] or "",
        )
        for match in FENCE.finditer(text)
    ]


def run_blocks(blocks: list[Block], environment: dict[str, str]) -> None:
    """Run examples in the current folder."""
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        where = f"{block.path.name}:{block.line}"
        if block.language == "python":
            # Blank lines before the code give a traceback the line numbers of the document.
            source = "\n" * (block.line - 1) + block.body
            exec(compile(source, str(block.path), "exec"), names)
            continue
        for i, command in enumerate(block.commands):
            run = subprocess.run(
                command, shell=True, env=environment, capture_output=True, text=True
            )
            wanted = block.status if i == len(block.commands) - 1 else 0
            assert run.returncode == wanted, f"{where}: $ {command}\n{run.stdout}{run.stderr}"


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Enter an empty folder; return an environment where `lookupstore` is the one under test."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    command = tmp_path / "bin" / "lookupstore"
    command.parent.mkdir()
    main = "import sys; from lookupstore.cli import main; sys.exit(main())"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{main}" "$@"\n')
    command.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(PACKAGE.parent),
    }


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_examples_of_a_document_run(path: Path, environment: dict[str, str]) -> None:
    run_blocks([b for b in blocks_of(path) if b.is_run and not b.needs_spark], environment)


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


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.spark if ".spark" in name else ())
        for name in public_modules()
    ],
)
def test_the_examples_of_a_module_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    module = importlib.import_module(name)
    for number, example in enumerate(doctest.DocTestFinder().find(module, name)):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        output: list[str] = []
        failed = runner.run(example, out=output.append).failed
        assert failed == 0, "".join(output)
