"""Object stores that do not answer while a table is written: never called damage."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs
from support.remote import Remote

from lookupstore.errors import CorruptionError
from lookupstore.hudi import HudiTable
from lookupstore.storage.location import Location

SCHEMA = pa.schema({"id": pa.int64(), "value": pa.string()})
ROWS = 2000


class Unanswered(Remote):
    """A remote folder of whose reads of base files one does not succeed."""

    fail_read: int | None = None
    reads = 0

    def open_input_file(self, path: str) -> pa.NativeFile:
        real = self.step("read", path)
        if not path.endswith(".parquet"):
            return pa.OSFile(real, "rb")
        return pa.PythonFile(_Stream(self, Path(real).read_bytes()), "r")


class _Stream(io.BytesIO):
    def __init__(self, remote: Unanswered, content: bytes) -> None:
        super().__init__(content)
        self._remote = remote

    def read(self, size: int | None = -1, /) -> bytes:
        remote = self._remote
        remote.reads += 1
        if remote.fail_read == remote.reads:
            raise OSError("HTTP 503 Service Unavailable")
        return super().read(size)


def changed() -> Any:
    return pa.table({"id": range(0, ROWS, 7), "value": ["new"] * len(range(0, ROWS, 7))}, SCHEMA)


def new_table(folder: Path) -> tuple[HudiTable, Path]:
    table = HudiTable.create(folder, SCHEMA, record_key=["id"])
    table.insert(pa.table({"id": range(ROWS), "value": [f"v{at}" for at in range(ROWS)]}, SCHEMA))
    (base,) = folder.rglob("*.parquet")
    return table, base


def test_a_read_without_an_answer_is_no_damage_in_an_upsert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locks need a local disk or S3: so only what reads base files is given a remote one."""
    remote = Unanswered(Path("/"), "s3")
    real = Location.resolve

    def resolve(self: Location, name: str) -> tuple[fs.FileSystem, str]:
        filesystem, path = real(self, name)
        return (fs.PyFileSystem(remote) if name.endswith(".parquet") else filesystem), path

    monkeypatch.setattr(Location, "resolve", resolve)
    table, _ = new_table(tmp_path / "dry")
    remote.reads = 0
    table.upsert(changed())
    steps = remote.reads
    assert steps > 4
    for at in range(1, steps + 1):
        table, base = new_table(tmp_path / str(at))
        remote.reads, remote.fail_read = 0, at
        with pytest.raises(OSError, match="HTTP 503") as raised:
            table.upsert(changed())
        assert base.name in str(raised.value), at
        remote.fail_read = None
        assert table.upsert(changed()).rows_updated == changed().num_rows


def test_damage_is_still_damage_in_an_upsert(tmp_path: Path) -> None:
    table, base = new_table(tmp_path / "t")
    content = bytearray(base.read_bytes())
    middle = len(content) // 3
    content[middle : middle + 64] = bytes(64)
    base.write_bytes(content)
    with pytest.raises(CorruptionError, match=base.name):
        table.upsert(changed())
