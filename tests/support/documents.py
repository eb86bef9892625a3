"""The examples of documents, and how they are run: by the tests, and by strangers (.ci/stranger).

In README.md and docs/**/*.md:

- each ```python block is executed; the blocks of one file share their names, in file order;
- each line ``$ lookupstore ...`` of a ```console block is run, and must end with status 0;
- a comment right before a block changes that: ``<!-- needs: spark -->`` runs it only in the test
  that is marked so, ``<!-- status: 1 -->`` expects that status of the block's last command, and
  ``<!-- not run: reason -->`` shows code that cannot be run here, ``<!-- recorded -->`` a terminal
  (`support/recording.py`).

As a program: run those of a document, in the current folder, that need no more than some extras.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(
    r"(?:^<!--\s*(?P<notes>.*?)\s*-->\n+)?^```(?P<language>python|console)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


EXTRA = re.compile(r"lookupstore[. ](spark|hudi)\b")


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
    def needs(self) -> set[str]:
        """The extras that it needs, by what it imports or runs."""
        return set(EXTRA.findall(self.body))

    @property
    def is_run(self) -> bool:
        return "not run:" not in self.notes and self.notes != "recorded"

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


def main(document: str, *extras: str) -> None:
    """Run the examples that need no other extras; there must be some that need all of these."""
    blocks = [block for block in blocks_of(Path(document)) if block.is_run]
    wanted = [block for block in blocks if block.needs <= set(extras)]
    assert any(block.needs == set(extras) for block in wanted), f"no example needs {extras}"
    run_blocks(wanted, dict(os.environ))
    print(f"{len(wanted)} of {len(blocks)} examples of {document} ran")


if __name__ == "__main__":
    main(*sys.argv[1:])
