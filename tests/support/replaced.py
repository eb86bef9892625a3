"""Files that differ in nothing but rows, and ways to put one in the place of another."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from support.footers import footer_in

ROWS = 1000


def version_of(word: str, rows: int = ROWS) -> bytes:
    """Return a Parquet file; those of words of one length have one size and one footer."""
    table = pa.table({"id": range(rows), "v": [f"{word} {key:06}" for key in range(rows)]})
    sink = pa.BufferOutputStream()
    pq.write_table(
        table, sink, compression="none", write_statistics=False, use_dictionary=False,
        row_group_size=200,
    )  # fmt: skip
    return bytes(sink.getvalue())


def two_versions() -> tuple[bytes, bytes]:
    """Return two files of other rows, with one size and one footer."""
    old, new = version_of("old"), version_of("new")
    assert old != new
    assert len(old) == len(new)
    assert footer_in(old) == footer_in(new)
    return old, new


def replace_file(path: Path, content: bytes) -> None:
    """Put a new file in the place of one, with the time of that."""
    before = path.stat()
    other = path.with_name(f".{path.name}")
    other.write_bytes(content)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(path)
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert after.st_ino != before.st_ino


def write_in_place(path: Path, content: bytes) -> None:
    """Write other bytes into a file, whose time becomes a nanosecond more."""
    before = path.stat()
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    after = path.stat()
    assert (after.st_size, after.st_ino) == (before.st_size, before.st_ino)


WAYS = {"another inode": replace_file, "another time": write_in_place}
