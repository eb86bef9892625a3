"""Readers of tables in a process of another environment: `foreign_reader`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pyarrow as pa


class ForeignError(Exception):
    """The other process cannot read a table."""


class ForeignReader:
    """A process that reads tables by pypaimon and DuckDB, in another environment.

    Args:
        python: Interpreter of the environment.
    """

    def __init__(self, python: str) -> None:
        self._python = python
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        program = Path(__file__).with_name("foreign_reader.py")
        environment = {**os.environ, "PYTHONPATH": str(program.parents[2])}
        return subprocess.Popen(
            [self._python, program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )

    def rows(self, reader: str, path: str, snapshot: int) -> pa.Table:
        """Return the rows of a snapshot.

        Args:
            reader: `paimon`, `delta` or `iceberg`; `write`, which writes a table by pypaimon; or
                `insert`, which appends to a Delta table by DuckDB.
            path: Folder of the table, or its metadata file.
            snapshot: Number of the snapshot.

        Raises:
            ForeignError: If the other process cannot read the table.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps([reader, path, snapshot]).encode() + b"\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            self.close()
            self._process = self._started()
            raise ForeignError("the process of the reader ended")
        answer = stdout.read(abs(int(line)))
        if int(line) < 0:
            raise ForeignError(answer.decode())
        return pa.ipc.open_stream(answer).read_all()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
