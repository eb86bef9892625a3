"""Recorded terminals in the documents: commands, each with all that it printed.

A ```console block after ``<!-- recorded -->`` has lines ``$ command``, and below each what it
printed in a terminal of 80 columns. The commands of one page run in one folder, which is empty at
first. The tests run them again and compare, but for what differs from run to run (`steady`).

As a program: run the commands of every recorded page, and write what they print into the page.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path for path in (ROOT / "docs").rglob("*.md") if "<!-- recorded -->" in path.read_text()
)

_BLOCK = re.compile(r"(?<=^<!-- recorded -->\n```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n", re.MULTILINE)

# What differs from run to run, and what stands for it. Spaces and lines fill what is left of a row.
_UNSTEADY = [
    (re.compile(pattern), name)
    for pattern, name in (
        (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.\d]*(Z|[+-]\d\d:?\d\d)?", "TIME"),
        (r"\b20\d{15}\b", "INSTANT"),
        (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "ID"),
        (r"\b[0-9a-f]{32}\b", "ID"),
        (r"\b\d[\d,.]* (bytes|[kKMG]i?B|s|ms)\b", "SIZE"),
        (r"│ bytes +│ [\d,]+", "SIZE"),
        (r"[ ─━]+", " "),
    )
]


def steady(text: str) -> str:
    """Return a text without what differs from run to run: times, ids, sizes, widths of columns."""
    for pattern, name in _UNSTEADY:
        text = pattern.sub(name, text)
    return text


def recorded(page: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Run the commands of a page, and return the page with what they printed.

    Args:
        page: Text of the page.
        folder: Folder in which the commands run. The page calls it `/srv/shop`.
        environment: Environment of the commands.
    """

    def again(block: re.Match[str]) -> str:
        commands = _COMMAND.findall(block[0])
        return "".join(
            f"$ {command}\n{printed(command, folder, environment)}" for command in commands
        ).replace(str(folder), "/srv/shop")

    return _BLOCK.sub(again, page)


def printed(command: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Run a command in a terminal; return what it printed there, and then on standard error."""
    ours, theirs = pty.openpty()
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            ["sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=errors,
            cwd=folder,
            env={**environment, "COLUMNS": "80", "TERM": "dumb"},
        ),
    ):
        os.close(theirs)
        output = b""
        while piece := _read(ours):
            output += piece
        os.close(ours)
        errors.seek(0)
        output += errors.read()
    return "".join(
        f"{line.rstrip()}\n" for line in output.decode().replace("\r\n", "\n").splitlines()
    )


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # on Linux, if the other side is closed
        return b""


def main() -> None:
    """Write what the commands of each page print into the page."""
    for page in PAGES:
        with tempfile.TemporaryDirectory() as work:
            folder, programs = Path(work, "shop"), Path(work, "bin")
            folder.mkdir()
            programs.mkdir()
            command = programs / "lookupstore"
            words = shlex.join([sys.executable, "-m", "lookupstore"])
            command.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            command.chmod(0o755)
            environment = {
                **os.environ,
                "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                "LOOKUPSTORE_CACHE": str(Path(work, "cache")),
            }
            page.write_text(recorded(page.read_text(), folder, environment))


if __name__ == "__main__":
    main()
