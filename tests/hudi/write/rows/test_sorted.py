"""Bulk inserts that sort: the order of rows in files, against a sorted list, in bounded memory."""

from __future__ import annotations

import errno
import itertools
import random
import re
import sys
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from support.hudi.kills import copied, count_points, on_disk
from support.hudi.memory_peak import grown_by
from support.hudi.oracle import assert_same_rows, other_scan
from support.hudi.versions import VERSIONS
from support.hudi.written import check_files
from support.remote import FaultyDisk, Killed
from support.samples import some_of

from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.write.partitioner import FileSizing
from lookupstore.sorting import runs

SCHEMA = pa.schema(
    {
        "id": pa.int32(),
        "day": pa.string(),
        "rank": pa.int16(),
        "name": pa.string(),
        "many": pa.list_(pa.float32()),
    }
)
Row = dict[str, Any]


def make(path: Path, version: int = 9) -> HudiTable:
    return HudiTable.create(
        path, SCHEMA, record_key=["id"], partition_by=["day"], version=version, name="t"
    )


def random_rows(rng: random.Random, count: int) -> list[Row]:
    return [
        {
            "id": rng.randrange(-99, 999),
            "day": rng.choice(["mo", "tu", "", "we"]),
            "rank": rng.choice([None, -3, 0, 2, 7]),
            "name": rng.choice([None, "", "b", "ba", "é", "z"]),
            "many": rng.choice([None, [], [1.5, None]]),
        }
        for _ in range(count)
    ]


def batches(rows: list[Row], size: int) -> list[pa.RecordBatch]:
    given = pa.Table.from_pylist(rows, SCHEMA)
    return given.to_batches(max_chunksize=size)


def folder_of(row: Row) -> str:
    return row["day"] or "__HIVE_DEFAULT_PARTITION__"


def place(row: Row, sort_by: tuple[str, ...]) -> tuple[Any, ...]:
    """Return what rows of a partition are sorted by: nulls first, text by its bytes."""
    if not sort_by:
        return (str(row["id"]).encode(),)
    values = (row[name] for name in sort_by)
    return tuple(
        (one is not None, one.encode() if isinstance(one, str) else one or 0) for one in values
    )


def files_of(table: HudiTable) -> dict[str, list[list[Row]]]:
    """Return the rows of each file by partition, files in the order in which they were written."""
    scanned = table.scan(columns=["_hoodie_file_name", "_hoodie_partition_path", *SCHEMA.names])
    found: dict[str, dict[str, list[Row]]] = {}
    for row in scanned.to_pylist():
        name, path = row.pop("_hoodie_file_name"), row.pop("_hoodie_partition_path")
        found.setdefault(path, {}).setdefault(name, []).append(row)
    return {
        path: [files[name] for name in sorted(files, key=lambda one: int(re.split("[_-]", one)[6]))]
        for path, files in found.items()
    }


ORDERS = [(), ("rank",), ("name", "rank")]


@pytest.mark.few(2)
@pytest.mark.parametrize("sort_by", ORDERS)
@pytest.mark.parametrize("version", VERSIONS)
def test_all_rows_are_sorted(
    tmp_path: Path, version: int, sort_by: tuple[str, ...], seed: int, monkeypatch: Any
) -> None:
    rng = random.Random(seed)
    spills: list[int] = []
    close = runs.RunSorter.close

    def closed(self: runs.RunSorter) -> None:
        spills.append(self.spills)
        close(self)

    monkeypatch.setattr(runs.RunSorter, "close", closed)
    rows = random_rows(rng, 3000)
    table = make(tmp_path / "t", version)
    options = WriteOptions(
        sort_mode="global_sort",
        sort_by=sort_by,
        memory=1 << 16,
        sizing=FileSizing(max_file_size=6000),
    )
    result = table.bulk_insert(batches(rows, 700), options=options)
    assert (result.rows_inserted, result.operation) == (3000, "BULK_INSERT")
    assert spills[0] > 1
    found = files_of(table)
    assert sum(map(len, found.values())) == result.files_new > len(found) == 4
    for path, files in found.items():
        # The sort is stable, also where a key is several times.
        wanted = [row for row in rows if folder_of(row) == path]
        wanted.sort(key=lambda row: place(row, sort_by))
        assert list(itertools.chain(*files)) == wanted
    assert check_files(tmp_path / "t") == result.files_new
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))


@pytest.mark.parametrize("sort_by", ORDERS)
def test_stretches_are_sorted_without_a_spill(
    tmp_path: Path, sort_by: tuple[str, ...], seed: int
) -> None:
    rows = random_rows(random.Random(seed), 3000)
    table = make(tmp_path / "t")
    options = WriteOptions(
        sort_mode="partition_sort",
        sort_by=sort_by,
        memory=1 << 16,
        spill_folder=str(tmp_path / "is not there"),
    )
    table.bulk_insert(batches(rows, 700), options=options)
    found = files_of(table)
    # The last stretch may have so few rows that none is of some partition.
    stretches = {len(files) for files in found.values()}
    assert min(stretches) >= max(stretches) - 1
    assert min(stretches) > 3
    for path, files in found.items():
        for file in files:
            assert file == sorted(file, key=lambda row: place(row, sort_by))
        assert sorted(itertools.chain(*files), key=str) == sorted(
            (row for row in rows if folder_of(row) == path), key=str
        )
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))


def test_rows_keep_their_order_unless_told(tmp_path: Path, seed: int) -> None:
    rows = random_rows(random.Random(seed), 300)
    table = make(tmp_path / "t")
    table.bulk_insert(batches(rows, 70))
    for path, (file,) in files_of(table).items():
        assert file == [row for row in rows if folder_of(row) == path]


def test_no_rows_and_rows_that_delete(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    options = WriteOptions(sort_mode="global_sort")
    assert table.bulk_insert(SCHEMA.empty_table(), options=options).files_new == 0
    given = pa.Table.from_pylist(random_rows(random.Random(1), 2), SCHEMA)
    flagged = given.append_column("_hoodie_is_deleted", pa.array([True, False]))
    assert table.bulk_insert(flagged, options=options).rows_inserted == 1
    assert table.scan(columns=SCHEMA.names).to_pylist() == given.slice(1).to_pylist()


def test_what_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    given = pa.Table.from_pylist(random_rows(random.Random(1), 2), SCHEMA)
    for arguments, kind, said in [
        ({"sort_by": "nam"}, KeyError, "sort_by: the table has no column 'nam'; did you mean"),
        ({"sort_by": ["many"]}, TypeError, r"sort_by: .*'many'.*list"),
        ({"combine": True}, ValueError, "combine=True: a bulk insert does not compare rows; "),
    ]:
        options = WriteOptions(sort_mode="global_sort", **arguments)
        with pytest.raises(kind, match=said):
            table.bulk_insert(given, options=options)
    assert table.timeline() == []
    for arguments, said in [
        ({"sort_mode": "global"}, "sort_mode is 'global'; give one of 'none', 'global_sort', "),
        ({"sort_by": ["id"]}, "sort_by names columns, but sort_mode is 'none'; give 'global_sort'"),
        ({"memory": 1}, "memory is 1; give at least 65536 bytes"),
        ({"memory": "much"}, "memory is 'much'; give bytes, or a size such as 512MiB"),
    ]:
        with pytest.raises(ValueError, match=said):
            WriteOptions(**arguments)


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t")
    rows = random_rows(random.Random(1), 3000)

    def full(self: Any, batch: pa.RecordBatch) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(runs.SpillFile, "append", full)
    options = WriteOptions(sort_mode="global_sort", memory=1 << 16)
    with pytest.raises(OSError, match="No space left"):
        table.bulk_insert(batches(rows, 700), options=options)
    assert not list((tmp_path / "t").rglob("*.parquet"))
    assert all(one.is_completed for one in table.timeline())
    assert table.scan().num_rows == 0


@pytest.mark.sampled
def test_a_sorted_bulk_insert_that_dies_shows_nothing(tmp_path: Path) -> None:
    rows = random_rows(random.Random(1), 600)
    template = tmp_path / "t"
    make(template)
    options = WriteOptions(
        sort_mode="partition_sort", memory=1 << 16, sizing=FileSizing(max_file_size=6000)
    )

    def act(table: HudiTable) -> object:
        return table.bulk_insert(batches(rows, 200), options=options)

    points = count_points(template, tmp_path, act)
    assert points > 20
    for at in some_of(range(points), 3):
        path = tmp_path / str(at)
        table = copied(template, path)
        with pytest.MonkeyPatch.context() as patch:
            on_disk(patch, FaultyDisk(at, kill=True))
            with pytest.raises(Killed):
                act(table)
        opened = [Path(one.path) for one in psutil.Process().open_files()]
        assert not [one for one in opened if path in one.parents]
        there = table.scan().num_rows
        assert there in (0, 600)
        assert table.upsert(batches(rows[:1], 1)).rows_deleted == 0
        assert_same_rows(table.scan(), other_scan(path))


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is in /proc")
@pytest.mark.parametrize("mode", ["global_sort", "partition_sort"])
def test_memory_does_not_grow_with_rows(tmp_path: Path, mode: str) -> None:
    """Six million rows are 200 MB as they come, and 1 GB where the sort keeps them all."""
    # Of a file its keys are in memory until it is whole.
    sizing = {"max_file_size": "4MiB"}
    options = {"sort_mode": mode}
    assert grown_by(tmp_path / "t", "bulk_insert", 600, sizing=sizing, options=options) < 250
