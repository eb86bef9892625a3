"""Small Parquet files that would take much memory: read a few rows at a time, or an error."""

from __future__ import annotations

import io
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.footers import footer_in, with_footer

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.file_group import reader as slice_rows
from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.parquet import claims
from lookupstore.parquet.claims import Claims, look_at_claims
from lookupstore.parquet.structs import I64
from lookupstore.source import reading
from lookupstore.source.reading import read_file

pytestmark = pytest.mark.drawn(0.4)


def parquet(table: pa.Table, **options: Any) -> bytes:
    """Return a table as a file, without statistics: these hold a long value twice."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **{"write_statistics": False, "store_schema": False} | options)
    return sink.getvalue()


def claims_in(data: bytes, names: list[str]) -> Claims:
    return look_at_claims(pa.BufferReader(data), names, "f")[1]


def pages_of_long_texts() -> bytes:
    """Return a file with three texts of 100 MB, in one page that is compressed."""
    texts = ["a" * (100 << 20)] * 3
    table = pa.table({"k": [1, 2, 3], "v": texts})
    return parquet(table, compression="zstd", use_dictionary=False)


def one_text_of_many_rows() -> bytes:
    """Return a file of 8,000 rows that all have one text of 512 KB, as a dictionary has it."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 8000, pa.int32()), ["x" * (1 << 19)])
    return parquet(pa.table({"k": range(8000), "v": texts}), compression="zstd")


def one_prefix_of_many_rows() -> bytes:
    """Return a file of 8,000 rows that all have one text of 128 KB: the one before, and no more."""
    table = pa.table({"k": range(8000), "v": ["x" * (1 << 17)] * 8000})
    encodings = {"v": "DELTA_BYTE_ARRAY", "k": "PLAIN"}
    return parquet(table, compression="none", use_dictionary=False, column_encoding=encodings)


def one_list() -> bytes:
    """Return a file of one row, a list of 20 million numbers that are all the same."""
    numbers = pa.array(np.zeros(20_000_000, dtype=np.int32))
    lists = pa.ListArray.from_arrays([0, len(numbers)], numbers)
    return parquet(pa.table({"k": [1], "v": lists}), compression="zstd")


# Row groups are copied, and columns of them read at once, if they are as large as they should be.
SMALL_GROUPS = WriteOptions(format=FileFormat(row_group_bytes="100kB"))

PAGES = [pages_of_long_texts, one_list]
ROWS = [one_text_of_many_rows, one_prefix_of_many_rows]


@pytest.mark.few(1)
@pytest.mark.parametrize("make", PAGES)
def test_what_does_not_fit_is_an_error(tmp_path: Path, make: Callable[[], bytes]) -> None:
    path = tmp_path / "f.parquet"
    path.write_bytes(make())
    assert path.stat().st_size < 1 << 20
    files = {mode: ColumnarFiles(path, key="k", build=mode) for mode in ("always", "never")}
    for action in (
        lambda: lookupstore.build(path, tmp_path / "store", key="k"),
        lambda: files["always"].lookup([1]),
        lambda: files["never"].lookup([1]),
    ):
        with pytest.raises(FormatError, match="give its rows in place of the file") as caught:
            action()
        assert str(caught.value).startswith(f"{path}: a file of ")
    # What is not read may be anything.
    lookupstore.build(path, tmp_path / "store", key="k", columns=[])
    for one in files.values():
        one.close()


@pytest.mark.few(1)
@pytest.mark.skipif(sys.platform != "linux", reason="others count memory in other units")
@pytest.mark.parametrize("make", ROWS)
def test_long_rows_are_read_a_few_at_a_time(tmp_path: Path, make: Callable[[], bytes]) -> None:
    path = tmp_path / "f.parquet"
    path.write_bytes(make())
    assert path.stat().st_size < 1 << 20
    # In a process of its own: what another test took counts there, too.
    lines = f"""
import resource, pyarrow as pa, pyarrow.parquet, pyarrow.compute
from lookupstore.source.reading import read_file
from lookupstore.columnar import ColumnarFiles
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = sum(len(one) for one in read_file(pa.OSFile({str(path)!r}), "parquet", ["k", "v"], "f"))
files = ColumnarFiles({str(path)!r}, key="k", build="never")
assert rows == 8000 and len(files.lookup([7999])["v"][0].as_py()) >= 1 << 17
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", lines], check=True, capture_output=True, text=True)
    assert int(done.stdout) << 10 < 600 << 20, "1 GB and 4 GB if they are read at once"


@pytest.mark.few(1)
@pytest.mark.parametrize("make", ROWS)
def test_a_store_takes_some_rows_of_a_small_file(tmp_path: Path, make: Callable[[], bytes]) -> None:
    path = tmp_path / "f.parquet"
    path.write_bytes(make())
    with ColumnarFiles(path, key="k", build="always") as files:
        for action in (
            lambda: lookupstore.build(path, tmp_path / "store", key="k"),
            lambda: files.lookup([1]),
        ):
            with pytest.raises(FormatError, match=r"f\.parquet: .* more than 536,870,912 bytes"):
                action()
    assert not (tmp_path / "store").exists()
    # Columns that take less.
    assert len(lookupstore.build(path, tmp_path / "store", key="k", columns=[])) == 8000


def test_rows_of_a_small_file_are_given_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remedy of the error; and a file that is not small may have any number of rows."""
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"k": range(1000)}), path)
    monkeypatch.setattr(reading, "MOST_ROWS_OF_SMALL", 7999)
    with pytest.raises(FormatError, match="read it yourself and pass its rows"):
        lookupstore.build(path, tmp_path / "store", key="k")
    assert len(lookupstore.build(pq.read_table(path), tmp_path / "rows", key="k")) == 1000
    monkeypatch.setattr(reading, "SMALL", path.stat().st_size - 1)
    assert len(lookupstore.build(path, tmp_path / "store", key="k")) == 1000


def test_codecs_and_encodings() -> None:
    """What is said of a file is no less than what Arrow takes, and rows are the same."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(150):
        n = rng.randrange(1, 2000)
        texts = [None if rng.random() < 0.1 else rng.randbytes(rng.randrange(40)) for _ in range(n)]
        few = [rng.choice(["", "Ä", "a text that is longer", "z" * 300]) for _ in range(n)]
        table = pa.table(
            {
                "i": pa.array([rng.randrange(1 << 31) for _ in range(n)], pa.int32()),
                "b": pa.array([rng.random() < 0.5 for _ in range(n)]),
                "t": pa.array(texts, pa.binary()),
                "few": few,
                "d": pa.array([rng.randrange(10**9) for _ in range(n)]).cast(pa.decimal128(19)),
                "l": [[rng.choice(few)] * rng.randrange(4) for _ in range(n)],
                "s": [{"x": rng.random(), "y": None} for _ in range(n)],
            }
        )
        plain = rng.random() < 0.5
        encoding = rng.choice(["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
        data = parquet(
            table,
            compression=rng.choice(["none", "snappy", "gzip", "brotli", "zstd", "lz4"]),
            use_dictionary=not plain and rng.choice([True, ["few"]]),
            column_encoding={"t": encoding} if plain else None,
            data_page_version=rng.choice(["1.0", "2.0"]),
            data_page_size=rng.choice([100, 5000, 1 << 20]),
            write_batch_size=rng.choice([10, 1024]),
            dictionary_pagesize_limit=rng.choice([50, 1 << 20]),
            row_group_size=rng.choice([n, 1 + n // 3]),
        )
        names = rng.sample(table.column_names, rng.randrange(1, len(table.column_names) + 1))
        found = claims_in(data, names)
        file = pq.ParquetFile(pa.BufferReader(data))
        assert len(found.groups) == file.num_row_groups
        for group, said in enumerate(found.groups):
            assert file.read_row_group(group, names).nbytes <= said + 8 * (1 + n)
        batches = list(read_file(pa.BufferReader(data), "parquet", names, "f"))
        assert pa.Table.from_batches(batches).select(names).equals(table.select(names))


def test_a_large_file_is_read_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "SMALL", 1000)
    data = pages_of_long_texts()
    stream = pa.BufferReader(data)
    same, found = look_at_claims(stream, ["k", "v"], "f")
    assert same is stream
    assert found.rows_at_once(5000) == 5000
    assert not found.is_large(0)


def test_chunks_that_lie_on_each_other() -> None:
    """Ten thousand columns of the same bytes would be looked at ten thousand times."""
    data = parquet(pa.table({"a": range(10_000), "b": range(10_000)}), use_dictionary=False)
    pages = len(data) - 8 - len(footer_in(data)) - 4
    assert claims_in(data, ["a", "b"]).row == 2 * 16
    with pytest.raises(CorruptionError, match="found more"):
        claims_in(with_footer(data, lambda *_: {9: (I64, 4), 7: (I64, pages)}), ["a", "b"])


def test_a_dictionary_of_more_values_than_bytes() -> None:
    data = parquet(pa.table({"a": ["x", "y"] * 50}), compression="none")
    assert claims_in(data, ["a"]).row == 16 + 1
    chunk = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0).column(0)
    # Of the header: the values of the dictionary, 2, as a number of one byte.
    start = data.index(b"\x4c\x15\x04", chunk.dictionary_page_offset)
    wrong = data[: start + 2] + b"\x7e" + data[start + 3 :]
    with pytest.raises(CorruptionError, match="63 values in 10 bytes"):
        claims_in(wrong, ["a"])


def test_a_dictionary_that_is_said_to_be_behind_the_data() -> None:
    """As some old writers said of chunks that have none; Arrow begins with the data then."""
    rows = pa.table({"a": range(100)})
    data = parquet(rows, use_dictionary=False)
    wrong = with_footer(data, lambda *_: {11: (I64, len(data) // 2)})
    assert pq.read_table(pa.BufferReader(wrong)).equals(rows)
    batches = read_file(pa.BufferReader(wrong), "parquet", ["a"], "f")
    assert pa.Table.from_batches(batches).equals(rows)


@pytest.fixture
def shared_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[HudiTable, pa.Table]:
    """Return a Hudi table, and rows: a text for all but one, so that they seem large."""
    for module in (claims, slice_rows):
        monkeypatch.setattr(module, "MOST_OF_SMALL", 2 << 20)
    texts = ["y" * 40_000, *(f"text {i % 500}" for i in range(2000))]
    rows = pa.table({"id": range(len(texts)), "t": texts})
    table = HudiTable.create(tmp_path / "t", rows, record_key="id", ordering="t")
    table.bulk_insert(rows, options=SMALL_GROUPS)
    return table, rows


def test_a_group_that_seems_large_is_merged(
    shared_text: tuple[HudiTable, pa.Table], tmp_path: Path
) -> None:
    table, rows = shared_text
    assert any(
        claims_in(path.read_bytes(), ["t"]).is_large(0) for path in tmp_path.glob("t/*.parquet")
    )
    table.upsert(pa.table({"id": [7, 8], "t": ["z", "a"]}), options=SMALL_GROUPS)
    found = table.scan(columns=["id", "t"]).sort_by("id")
    wanted = rows["t"].to_pylist()
    wanted[7] = "z"
    assert found["t"].to_pylist() == wanted
    assert table.scan(columns=["t"], filter=pc.field("id") == 0)["t"].to_pylist() == [wanted[0]]
    assert sum(len(one) for one in table.scan_batches(columns=["t"])) == len(rows)


def test_a_group_that_is_large_is_an_error(
    shared_text: tuple[HudiTable, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _ = shared_text
    monkeypatch.setattr(slice_rows, "MOST_OF_SMALL", 1 << 10)
    monkeypatch.setattr(claims, "BYTES_AT_ONCE", 1 << 10)
    with pytest.raises(CorruptionError, match="a row group of at most 1024 bytes"):
        table.upsert(pa.table({"id": [7], "t": ["z"]}), options=SMALL_GROUPS)


def test_a_scan_of_long_rows_gives_a_few_at_a_time(
    shared_text: tuple[HudiTable, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, rows = shared_text
    assert max(len(one) for one in table.scan_batches(columns=["t"])) > 100
    monkeypatch.setattr(claims, "BYTES_AT_ONCE", 1 << 20)
    batches = [one.column("t") for one in table.scan_batches(columns=["t"])]
    assert max(map(len, batches)) <= (1 << 20) // 40_000
    assert sorted(pa.chunked_array(batches).to_pylist()) == sorted(rows["t"].to_pylist())
