"""Files of many columns: a lookup reads the columns that it answers with, and little else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lookupstore.columnar import ColumnarFiles, source_file
from lookupstore.columnar.key_ranges import Range, range_of
from lookupstore.columnar.source_file import SourceFile
from lookupstore.errors import StaleStoreError
from lookupstore.hostcache.cache import Residency
from lookupstore.parquet import claims

COLUMNS, ROWS, GROUPS = 120, 400, 8
COMPARED = 4 << 10


def table(add: int = 0) -> pa.Table:
    columns = {f"c{i}": [i * row + add for row in range(ROWS)] for i in range(COLUMNS)}
    texts = [f"t{row:04}" for row in range(ROWS)]
    return pa.table({"id": range(ROWS), **columns, "text": texts, "pair": [{"x": 1}] * ROWS})


def write(path: Path, rows: pa.Table) -> None:
    size = ROWS // GROUPS
    pq.write_table(rows, path, row_group_size=size, compression="none", use_dictionary=False)


@pytest.fixture
def wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a file with a footer longer than what is compared of it after a look."""
    monkeypatch.setattr(source_file, "_COMPARED_BYTES", COMPARED)
    monkeypatch.setattr(claims, "SMALL", 1000)
    path = tmp_path / "wide.parquet"
    write(path, table())
    return path


@pytest.fixture
def opened(tmp_path: Path, wide: Path) -> Callable[..., ColumnarFiles]:
    residency = Residency(tmp_path / "cache", quota=64 << 20)

    def files(**options: Any) -> ColumnarFiles:
        return ColumnarFiles(wide, key="id", residency=residency, **options)

    return files


class Counted:
    """A file that counts the bytes that are read of it."""

    def __init__(self, path: str, counts: list[int]) -> None:
        self._file = open(path, "rb")  # noqa: SIM115
        self._counts = counts

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._counts.append(len(data))
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give the sizes of what lookups read of columnar files."""
    counts: list[int] = []

    def open_counted(file: SourceFile) -> pa.NativeFile:
        return pa.PythonFile(Counted(file.path, counts), mode="r")

    monkeypatch.setattr(SourceFile, "open", open_counted)
    return counts


def chunk_sizes(path: Path, group: int, names: list[str]) -> int:
    said = pq.read_metadata(path).row_group(group)
    chunks = [said.column(i) for i in range(said.num_columns)]
    return sum(
        one.total_compressed_size for one in chunks if one.path_in_schema.split(".")[0] in names
    )


@pytest.mark.parametrize("names", [["c7", "c99"], ["pair", "text"], []])
def test_a_lookup_reads_the_columns_that_it_answers_with(
    wide: Path, opened: Callable[..., ColumnarFiles], reads: list[int], names: list[str]
) -> None:
    rows = table().select(names)
    with opened(columns=names, build="never") as files:
        files.lookup([3])  # opens the file
        for key, group in ((60, 1), (399, 7)):
            reads.clear()
            assert files.lookup([key]).to_pylist() == rows.slice(key, 1).to_pylist()
            most = 2 * chunk_sizes(wide, group, ["id"]) + chunk_sizes(wide, group, names)
            # Headers of pages are read ahead.
            assert sum(reads) <= most + COMPARED + 1024 * (len(names) + 1)


def test_all_columns_are_answered(opened: Callable[..., ColumnarFiles]) -> None:
    rows = table().drop_columns(["id"])
    keys = [399, 0, 77, 1000]
    for mode in ("never", "always"):
        with opened(build=mode) as files:
            found = files.lookup(keys)
            assert found.slice(0, 3).equals(rows.take([399, 0, 77]).cast(found.schema))
            assert set(found.slice(3).to_pylist()[0].values()) == {None}
            assert files.get(77) == rows.slice(77, 1).to_pylist()[0]


def test_statistics_and_sizes_are_asked_for_once(
    opened: Callable[..., ColumnarFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def counted(said: pq.Statistics | None) -> Range | None:
        asked.append(said)
        return range_of(said)

    monkeypatch.setattr("lookupstore.columnar.probe.range_of", counted)
    with opened(columns=["c1"], build="never") as files:
        for key in (5, 100, 399, 5000):
            files.lookup([key])
    assert len(asked) == GROUPS


def test_a_wide_file_that_is_written_again(
    wide: Path, opened: Callable[..., ColumnarFiles]
) -> None:
    footer = int.from_bytes(wide.read_bytes()[-8:-4], "little")
    assert footer > 4 * COMPARED
    with opened(columns=["c1"], build="never") as files:
        assert files.lookup([5])["c1"].to_pylist() == [5]
        write(wide, table(add=1))  # as many bytes
        with pytest.raises(StaleStoreError, match="rewritten"):
            files.lookup([5])


def test_a_wide_file_with_another_ending(wide: Path, opened: Callable[..., ColumnarFiles]) -> None:
    """The file system does not say that it was written."""
    with opened(columns=["c1"], build="never") as files:
        assert files.lookup([5])["c1"].to_pylist() == [5]
        times = wide.stat()
        data = wide.read_bytes()
        for place, is_seen in ((len(data) - COMPARED - 8, False), (len(data) - COMPARED, True)):
            wide.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            os.utime(wide, ns=(times.st_atime_ns, times.st_mtime_ns))
            if is_seen:
                with pytest.raises(StaleStoreError, match="rewritten"):
                    files.lookup([5])
            else:
                assert files.lookup([5])["c1"].to_pylist() == [5]


def test_what_makes_a_lookup_file_compares_the_whole_footer(
    wide: Path, opened: Callable[..., ColumnarFiles]
) -> None:
    data = wide.read_bytes()
    footer = int.from_bytes(data[-8:-4], "little")
    with opened(columns=["c1"], build="always") as files:
        times = wide.stat()
        # The created_by of the footer's end stays; the first name in its schema is another one.
        place = data.index(b"schema", len(data) - 8 - footer)
        wide.write_bytes(data[:place] + b"Schema" + data[place + 6 :])
        os.utime(wide, ns=(times.st_atime_ns, times.st_mtime_ns))
        with pytest.raises(StaleStoreError, match="rewritten"):
            files.lookup([5])
