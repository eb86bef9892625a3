"""Row groups that are copied are what Arrow would have written: values, nulls, and statistics."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.footers import with_footer
from support.hudi.oracle import other_scan

from lookupstore.errors import CorruptionError
from lookupstore.hudi import HudiTable
from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.file_group.group_copy import GroupCopy
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.parquet.structs import BINARY, I32, I64, LIST, Struct

pytestmark = pytest.mark.drawn(0.4)

ROWS = 4000
FORMAT = FileFormat(row_group_bytes=128 << 10)
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("ts", pa.int64()),
        pa.field("sure", pa.float64(), nullable=False),
        pa.field("int32", pa.int32()),
        pa.field("float", pa.float32()),
        pa.field("double", pa.float64()),
        pa.field("text", pa.string()),
        pa.field("bytes", pa.binary()),
        pa.field("kind", pa.string()),
        pa.field("zeros", pa.float64()),
        pa.field("early", pa.int32()),
        pa.field("late", pa.string()),
        pa.field("flag", pa.bool_()),
        pa.field("day", pa.date32()),
        pa.field("clock", pa.time64("us")),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("price", pa.decimal128(12, 2)),
        pa.field("parts", pa.list_(pa.int32())),
        pa.field("place", pa.struct([("text", pa.string()), ("ts", pa.int64())])),
    ]
)


def rows_with(ids: Any, chosen: random.Random, *, ts: int, first: bool = False) -> pa.Table:
    """Return random rows; the first ones have nulls in one column, the others in another."""

    def row(number: int) -> dict[str, Any]:
        real = chosen.choice([chosen.gauss(0, 9), 0.0, -0.0])
        is_null = chosen.random() < 0.1
        return {
            "id": number,
            "ts": ts + chosen.randint(0, 2),
            "sure": real,
            "int32": chosen.randint(-(1 << 31), (1 << 31) - 1),
            "float": chosen.choice([real, float("nan"), float("-inf")]),
            "double": real if chosen.random() < 0.9 else float("nan"),
            "text": chosen.randbytes(chosen.randint(0, 9)).hex() + chosen.choice(["", "ä", "😀"]),
            "bytes": chosen.randbytes(chosen.randint(0, 12)),
            "kind": chosen.choice(["order", "return", "fee"]),
            "zeros": -chosen.random() if first else chosen.choice([0.0, -0.0, -chosen.random()]),
            "early": None if first and is_null else chosen.randint(0, 1 << 30),
            "late": None if not first and is_null else chosen.randbytes(5).hex(),
            "flag": chosen.choice([None, True, False]),
            "day": date(2026, 1, 1) + timedelta(chosen.randint(0, 30000)),
            "clock": time(chosen.randint(0, 23), 59, 1, chosen.randint(0, 999999)),
            "at": START + timedelta(microseconds=chosen.randint(0, 1 << 50)),
            "price": Decimal(chosen.randint(-(10**11), 10**11)) / 100,
            "parts": chosen.choice([None, [], [1, None], [chosen.randint(0, 1 << 30)]]),
            "place": chosen.choice([None, {"text": chosen.choice(["x", None]), "ts": number}]),
        }  # fmt: skip

    return pa.Table.from_pylist([row(int(number)) for number in ids], schema=COLUMNS)


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Note how many rows change in each row group that is copied."""
    done: list[int] = []
    copy = GroupCopy.copy

    def noted(self: GroupCopy, group: int, keys: Any, places: Any, fresh: Any) -> None:
        done.append(len(places))
        copy(self, group, keys, places, fresh)

    monkeypatch.setattr(GroupCopy, "copy", noted)
    return done


def lines(rows: pa.Table | None) -> list[str]:
    """Return rows but for the name of their file, by key; NaN and -0 are what they are."""
    assert rows is not None
    rows = rows.drop_columns(["_hoodie_file_name"])
    return [repr(row) for row in rows.sort_by("_hoodie_record_key").to_pylist()]


@pytest.mark.few(1)
@pytest.mark.parametrize("compression", ["snappy", "zstd", "none"])
@pytest.mark.parametrize("ordering", [None, "ts"])
def test_a_copy_is_what_arrow_would_have_written(
    tmp_path: Path,
    copied: list[int],
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    compression: str,
    ordering: str | None,
) -> None:
    chosen = random.Random(seed)
    first = rows_with(range(0, 2 * ROWS, 2), chosen, ts=1, first=True)
    changes = [
        rows_with(sorted(chosen.sample(range(2 * ROWS), share)), chosen, ts=chosen.choice([0, 1]))
        for share in (1, ROWS // 20, ROWS)
    ]
    found = []
    for copies in (True, False):
        if not copies:
            monkeypatch.setattr(GroupCopy, "can", lambda self, group: False)
        number = iter(range(1000))
        options = WriteOptions(
            format=FileFormat(compression=compression, row_group_bytes=128 << 10),
            new_file_id=lambda number=number: f"{next(number):04}-0",
            threads=1,
        )
        folder = tmp_path / str(copies)
        table = HudiTable.create(folder, COLUMNS, record_key=["id"], name="t", ordering=ordering)
        table.insert(first, options=options)
        before = len(copied)
        states = []
        for rows in changes:
            table.upsert(rows, options=options)
            states.append(without_times(lines(table.scan()), table))
        assert (len(copied) > before) == copies
        found.append(states)
        if copies:
            assert max(copied) > 50
            assert 0 in copied  # groups in which nothing changes
            check_statistics(table)
            assert lines(other_scan(folder)) == lines(table.scan())
    assert found[0] == found[1]


def without_times(rows: list[str], table: HudiTable) -> list[str]:
    """Return rows with numbers in place of the instants, which differ from run to run."""
    for number, instant in enumerate(table.timeline()):
        rows = [row.replace(instant.time, f"<{number}>") for row in rows]
    return rows


def check_statistics(table: HudiTable) -> None:
    """Compare the statistics of each row group with those that Arrow writes of its rows."""
    for group in table.file_groups():
        file = pq.ParquetFile(f"{table.location.uri}/{group.current.path}")
        assert file.metadata.num_row_groups > 2
        for at in range(file.metadata.num_row_groups):
            sink = pa.BufferOutputStream()
            pq.write_table(file.read_row_group(at), sink, store_schema=False)
            arrows = pq.read_metadata(pa.BufferReader(sink.getvalue())).row_group(0)
            ours = file.metadata.row_group(at)
            for number in range(ours.num_columns):
                one, other = ours.column(number), arrows.column(number)
                name = one.path_in_schema
                assert (name, one.num_values) == (other.path_in_schema, other.num_values)
                said, expected = one.statistics, other.statistics
                if said is None or expected is None:
                    assert said is expected
                    continue
                assert (name, said.null_count) == (name, expected.null_count)
                assert (name, said.has_min_max) == (name, expected.has_min_max)
                if said.has_min_max:
                    assert (name, repr(said.min), repr(said.max)) == (
                        name, repr(expected.min), repr(expected.max)
                    )  # fmt: skip


def test_rows_that_go_and_columns_that_come_are_not_copied(
    tmp_path: Path, copied: list[int]
) -> None:
    chosen = random.Random(1)
    options = WriteOptions(format=FORMAT, threads=1, evolve=True)
    table = HudiTable.create(tmp_path / "t", COLUMNS, record_key=["id"], name="t")
    table.insert(rows_with(range(ROWS), chosen, ts=1), options=options)
    table.delete([5], options=options)
    # The row goes with all of its row group, the others stay as they are.
    groups = len(copied)
    assert groups > 1
    assert table.scan(columns=["id"])["id"].to_pylist() == [n for n in range(ROWS) if n != 5]
    more = rows_with([7], chosen, ts=1).append_column("new", pa.array([1.5]))
    table.upsert(more, options=options)
    assert len(copied) == groups
    result = table.scan(columns=["id", "new"])
    assert result.filter(pc.field("new").is_valid()).to_pylist() == [{"id": 7, "new": 1.5}]
    table.upsert(
        rows_with([9], chosen, ts=1).append_column("new", pa.array([2.5])), options=options
    )
    assert len(copied) > groups
    result = table.scan(columns=["id", "new"])
    assert result.filter(pc.field("new").is_valid())["new"].to_pylist() == [1.5, 2.5]


def test_what_is_inserted_again_and_again_grows_together(tmp_path: Path, copied: list[int]) -> None:
    options = WriteOptions(format=FORMAT, threads=1)
    schema = pa.schema({"id": pa.int64(), "text": pa.string()})
    table = HudiTable.create(tmp_path / "t", schema, record_key=["id"], name="t")
    groups = []
    for start in range(0, 3000, 100):
        ids = np.arange(start, start + 100)
        table.insert(pa.table([ids, [f"{at:050}" for at in ids]], schema=schema), options=options)
        (group,) = table.file_groups()
        groups.append(pq.read_metadata(tmp_path / "t" / group.current.path).num_row_groups)
    assert groups[0] == 1
    assert 3 < groups[-1] < 8  # of about 100,000 bytes, and not one an insert
    assert copied
    assert table.scan(columns=["id"])["id"].to_pylist() == list(range(3000))


def test_files_of_other_writers_are_not_copied(
    tmp_path: Path, copied: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = random.Random(2)
    options = WriteOptions(format=FORMAT, threads=1)
    table = HudiTable.create(tmp_path / "t", COLUMNS, record_key=["id"], name="t")
    table.insert(rows_with(range(ROWS), chosen, ts=1), options=options)
    (group,) = table.file_groups()
    path = tmp_path / "t" / group.current.path
    content = path.read_bytes()
    other = content.replace(b"parquet-cpp-arrow", b"parquet-mrx-arrow")
    assert other != content
    path.write_bytes(other)
    table.upsert(rows_with([3], chosen, ts=1), options=options)
    assert copied == []
    table.upsert(rows_with([3], chosen, ts=1), options=options)
    assert copied != []


def in_first_group(name: str, new: Struct) -> Callable[[int, tuple[str, ...]], Struct]:
    return lambda group, path: new if (group, path) == (0, (name,)) else {}


def test_a_footer_that_contradicts_itself_is_not_copied(tmp_path: Path, copied: list[int]) -> None:
    """Nobody decodes what is copied: what the footer says of it has to hold by itself."""
    chosen = random.Random(4)
    options = WriteOptions(format=FORMAT, threads=1)
    table = HudiTable.create(tmp_path / "t", COLUMNS, record_key=["id"], name="t")
    table.insert(rows_with(range(ROWS), chosen, ts=1), options=options)
    (file,) = table.file_groups()
    path = tmp_path / "t" / file.current.path
    content = path.read_bytes()
    no_such_codec = {4: (I32, 99)}
    fewer_rows = {5: (I64, 7)}
    another_name = {3: (LIST, (BINARY, [b"float"]))}
    for changed in (no_such_codec, fewer_rows, another_name):
        path.write_bytes(with_footer(content, in_first_group("double", changed)))
        with pytest.raises(CorruptionError):
            table.upsert(rows_with([ROWS - 1], chosen, ts=1), options=options)
    path.write_bytes(content)
    table.upsert(rows_with([ROWS - 1], chosen, ts=1), options=options)
    assert table.scan().num_rows == ROWS


def test_a_damaged_page_stops_the_copy(tmp_path: Path) -> None:
    """A column in which nothing changes is not read by anybody else."""
    chosen = random.Random(3)
    options = WriteOptions(format=FORMAT, threads=1)
    table = HudiTable.create(tmp_path / "t", COLUMNS, record_key=["id"], name="t")
    table.insert(rows_with(range(ROWS), chosen, ts=1), options=options)
    (group,) = table.file_groups()
    path = tmp_path / "t" / group.current.path
    metadata = pq.read_metadata(path)
    content = path.read_bytes()
    for number in range(metadata.num_columns):
        column = metadata.row_group(1).column(number)
        start = column.dictionary_page_offset or column.data_page_offset
        damaged = bytearray(content)
        damaged[start + column.total_compressed_size - 1] ^= 0x10
        path.write_bytes(damaged)
        if column.path_in_schema == "_hoodie_file_name":
            continue  # each file has its own
        with pytest.raises(CorruptionError):
            table.upsert(rows_with([1], chosen, ts=1), options=options)
    path.write_bytes(content)
    table.upsert(rows_with([1], chosen, ts=1), options=options)
    assert table.scan().num_rows == ROWS
    assert np.array_equal(np.sort(table.scan()["id"].to_numpy()), np.arange(ROWS))
