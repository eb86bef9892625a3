"""The footer of a Parquet file, read by as few reads as it takes."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lookupstore import CorruptionError, FormatError
from lookupstore.parquet.ending import read_metadata


class Counted:
    """A file that counts its reads."""

    def __init__(self, content: bytes) -> None:
        self._file = pa.BufferReader(content)
        self.reads: list[tuple[int, int]] = []

    def size(self) -> int:
        return int(self._file.size())

    def read_at(self, nbytes: int, offset: int) -> bytes:
        self.reads.append((offset, nbytes))
        return bytes(self._file.read_at(nbytes, offset))


def written(columns: int, rows: int) -> bytes:
    table = pa.table({f"column {at}": range(rows) for at in range(columns)})
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


@pytest.mark.parametrize(("columns", "rows"), [(1, 1), (3, 100_000), (900, 5)])
def test_a_footer_is_read_once(columns: int, rows: int) -> None:
    content = written(columns, rows)
    file = Counted(content)
    found = read_metadata(file, "x.parquet")
    assert found.equals(pq.read_metadata(pa.BufferReader(content)))
    nbytes = int.from_bytes(content[-8:-4], "little") + 8
    assert len(file.reads) == (1 if nbytes <= 64 << 10 else 2)
    assert sum(size for _, size in file.reads) == min(len(content), max(64 << 10, nbytes))
    # Each byte is read once.
    assert sum(size for _, size in file.reads) + min(start for start, _ in file.reads) == (
        len(content)
    )


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda content: content[:-1] + b"2", CorruptionError),
        (lambda content: content[:-1] + b"E", FormatError),
        (lambda content: content[:-8] + b"\xff\xff\xff\x7fPAR1", CorruptionError),
        (lambda content: b"PAR1", CorruptionError),
        (lambda content: b"", CorruptionError),
    ],
)
def test_other_endings_are_named(change: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"x\.parquet"):
        read_metadata(Counted(change(written(2, 10))), "x.parquet")
