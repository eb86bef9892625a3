"""A folder into which programs write files; what a program refuses to write is counted."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path


class Made:
    """The files that one program writes.

    Args:
        folder: Folder of the files, made if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.refused: dict[str, str] = {}
        self.count = 0
        folder.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[str]:
        """Yield the path of a file to write; if writing fails, it is removed and counted."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield str(path)
            self.count += 1
        except BaseException as error:  # panics of Rust are not of Exception
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            if path.is_file():
                path.unlink()
            for folder in (path, Path(f"{path}.folder")):  # what is half written
                shutil.rmtree(folder, ignore_errors=True)
            self.refused[name] = " ".join(str(error).split())[:200]
