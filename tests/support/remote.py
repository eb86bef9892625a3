"""File systems that are not local, over a local folder: they count, fail, die and lag behind.

`Remote` is a handler of pyarrow's, so that a store reaches it as it reaches any file system. As
``s3`` it keeps an object whole when its stream is closed; as ``hdfs`` a file is seen while it is
written, and can be moved.
"""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from lookupstore.storage.location import Location

KINDS = ("s3", "hdfs")


class Killed(BaseException):
    """A stand-in for the death of the process: whatever is tried after it fails, too."""


class Remote(fs.FileSystemHandler):
    """A server of a local folder that does what a test asks for.

    Attributes:
        done: operations, each with its path.
        fail_at: number of the operation that fails; None for none.
        kill: whether it is the last one of all.
        late: listings leave these names out.
    """

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = str(folder)
        self.kind = kind
        self.restart()

    def restart(self, fail_at: int | None = None, *, kill: bool = False) -> None:
        """Forget what was done and asked for."""
        self.done: list[tuple[str, str]] = []
        self.fail_at = fail_at
        self.kill = kill
        self.late: set[str] = set()

    def location(self, path: str = "bucket/store") -> Location:
        return Location(path, filesystem=fs.PyFileSystem(self))

    def count(self, operation: str) -> int:
        return sum(name == operation for name, _ in self.done)

    def step(self, name: str, path: str) -> str:
        if self.fail_at is not None:
            if self.kill and len(self.done) >= self.fail_at:
                self.done.append((name, path))
                raise Killed(name)
            if len(self.done) == self.fail_at:
                self.done.append((name, path))
                raise OSError(f"injected into {name}")
        self.done.append((name, path))
        return os.path.join(self.folder, path)

    def _info(self, path: str) -> fs.FileInfo:
        real = Path(self.folder, path)
        if real.is_dir():
            return fs.FileInfo(path, fs.FileType.Directory)
        if not real.exists():
            return fs.FileInfo(path, fs.FileType.NotFound)
        found = real.stat()
        return fs.FileInfo(path, fs.FileType.File, size=found.st_size, mtime=found.st_mtime)

    def get_type_name(self) -> str:
        return self.kind

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        for path in paths:
            self.step("info", path)
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        top = Path(self.step("list", selector.base_dir))
        if not top.is_dir():
            if selector.allow_not_found:
                return []
            raise FileNotFoundError(selector.base_dir)
        below = top.rglob("*") if selector.recursive else top.iterdir()
        return [
            self._info(path.relative_to(self.folder).as_posix())
            for path in below
            if path.name not in self.late
        ]

    def create_dir(self, path: str, recursive: bool) -> None:
        assert self.kind != "s3", "an object store has no folders"
        os.makedirs(self.step("mkdir", path), exist_ok=True)

    def delete_file(self, path: str) -> None:
        real = self.step("delete", path)
        if self.kind == "s3" and not os.path.exists(real):
            return  # to delete what is not there is no error
        os.unlink(real)

    def move(self, src: str, dest: str) -> None:
        assert self.kind != "s3", "moving an object is copying it"
        real = os.path.join(self.folder, dest)
        os.rename(self.step("move", src), real)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return pa.OSFile(self.step("read", path), "rb")

    def open_input_file(self, path: str) -> pa.NativeFile:
        return self.open_input_stream(path)

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        real = self.step("write", path)
        if self.kind == "s3":
            return pa.PythonFile(_Object(self, path, real), mode="w")
        return pa.PythonFile(open(real, "xb"), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        raise NotImplementedError

    def delete_dir(self, path: str) -> None:
        raise NotImplementedError

    def delete_dir_contents(self, path: str, missing_dir_ok: bool) -> None:
        raise NotImplementedError

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def copy_file(self, src: str, dest: str) -> None:
        assert self.kind == "s3", "files are moved"
        real = os.path.join(self.folder, dest)
        os.makedirs(os.path.dirname(real), exist_ok=True)
        shutil.copyfile(self.step("copy", src), real)


class _Object(io.BytesIO):
    """An object that is there when it is closed."""

    def __init__(self, remote: Remote, path: str, real: str) -> None:
        super().__init__()
        self._target = (remote, path, real)

    def close(self) -> None:
        if not self.closed:
            remote, path, real = self._target
            content = self.getvalue()
            super().close()
            remote.step("put", path)
            os.makedirs(os.path.dirname(real), exist_ok=True)
            Path(real + "~").write_bytes(content)
            os.replace(real + "~", real)


class FaultyDisk:
    """A stand-in for `os` where files of a local store are named: it counts, fails or dies."""

    STEPS = ("mkdir", "link", "rename", "replace", "unlink", "rmdir", "fsync", "makedirs")

    def __init__(self, fail_at: int | None = None, *, kill: bool = False) -> None:
        self.fail_at = fail_at
        self.kill = kill
        self.done: list[tuple[str, str]] = []

    def die(self, name: str) -> None:
        """Be as dead as a process can be that goes on."""
        raise Killed(name)

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in self.STEPS:
            return real

        def step(*args: Any, **named: Any) -> Any:
            at = len(self.done)
            self.done.append((name, str(args[0])))
            if self.fail_at is not None:
                if self.kill and at >= self.fail_at:
                    self.die(name)
                if at == self.fail_at:
                    raise OSError(5, f"injected into {name}")
            return real(*args, **named)

        return step
