"""Writes that are killed, or fail, at each of their file operations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from kills import kill_again_and_again, leftovers, rows_of
from written import check_files

from lookupstore.errors import CommitUnknownError
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.timeline import TimelineFolder

SCHEMA = pa.schema({"id": pa.int32(), "p": pa.string(), "value": pa.string()})
# One after the other, so that operations have an order.
ONE = WriteOptions(threads=1)
Write = Callable[[HudiTable], object]


def rows(ids: range, value: str) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(list(ids), pa.int32()),
            "p": [f"p{at % 2}" for at in ids],
            "value": [value] * len(ids),
        }
    )


def known(write: Write) -> Write:
    """Let a write whose end is unknown be one that failed."""

    def tried(table: HudiTable) -> None:
        try:
            write(table)
        except CommitUnknownError as error:
            raise OSError(str(error)) from error

    return tried


OLD = {0: "old", 1: "old", 2: "old"}
WRITES = {
    "upsert": (
        lambda table: table.upsert(rows(range(1, 4), "new"), options=ONE),
        {0: "old", 1: "new", 2: "new", 3: "new"},
    ),
    "delete": (lambda table: table.delete([0, 1], options=ONE), {2: "old"}),
    "insert overwrite": (
        lambda table: table.insert_overwrite(rows(range(4, 5), "new"), options=ONE),
        {1: "old", 4: "new"},
    ),
    "bulk insert": (
        # Of what was inserted before it died nobody but its writer knows.
        lambda table: (
            len(rows_of(Path(str(table.location.local)))) > 3
            or table.bulk_insert(rows(range(5, 7), "new"), options=ONE)
        ),
        {**OLD, 5: "new", 6: "new"},
    ),
}


@pytest.mark.parametrize(
    ("verb", "version"), [(verb, 9) for verb in WRITES] + [("upsert", 6)], ids=str
)
def test_a_write_killed_at_every_operation(
    tmp_path: Path, verb: str, version: int, capsys: pytest.CaptureFixture[str]
) -> None:
    write, new = WRITES[verb]
    table = HudiTable.create(
        tmp_path / "template", SCHEMA, record_key=["id"], partition_by=["p"], version=version
    )
    table.insert(rows(range(3), "old"))

    def check(path: Path) -> None:
        assert rows_of(path) in (OLD, new)

    def check_end(path: Path) -> None:
        # Whatever comes next puts away what one left that died after its last step.
        HudiTable.open(path).delete([])
        assert rows_of(path) == new
        assert leftovers(path) == []
        assert not list(path.glob(".*.parquet.*.tmp"))
        check_files(path)

    act = known(write)
    # Each attempt also takes back what the one before left, so the operations become more.
    attempts = kill_again_and_again(tmp_path / "template", tmp_path, act, check)
    check_end(tmp_path / "again")
    assert attempts > 30
    with capsys.disabled():
        print(f"\n{verb}, version {version}: killed at {attempts} operations")


@pytest.mark.parametrize("partition_by", [[], ["p"]])
def test_files_that_were_not_finished_are_deleted(tmp_path: Path, partition_by: list[str]) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key=["id"], partition_by=partition_by)
    first = table.insert(rows(range(3), "old")).instant
    assert first is not None
    folder = TimelineFolder(table.location, table.options.timeline, 9)
    alive = folder.start(folder.request("commit"))
    names = [
        f".a-0_0-0-0_{time}.parquet.{'0123456789abcdef' * 2}.tmp"
        for time in (first.time, "20200101000000000", alive.time)
    ]
    others = [".20200101000000000.commit.0123456789abcdef0123456789abcdef.tmp", ".mine.tmp"]
    for name in names + others:
        (tmp_path / "t" / name).write_bytes(b"PAR1")
    table.upsert(rows(range(3), "new"), dry_run=True)
    assert all((tmp_path / "t" / name).exists() for name in names)
    table.upsert(rows(range(3), "new"))
    left = [name for name in names + others if (tmp_path / "t" / name).exists()]
    assert left == [names[2], *others]


def test_a_metadata_table_that_goes_in_two_steps(
    real_tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = real_tables / "v9_txns_nonpart_meta"
    before = HudiTable.open(template).scan(["txn_id", "amount"])
    one = HudiTable.open(template).scan().slice(0, 1)
    options = WriteOptions(threads=1, drop_metadata_table=True)

    def act(table: HudiTable) -> None:
        table.upsert(one, options=options)

    def check(path: Path) -> None:
        now = HudiTable.open(path).scan(["txn_id", "amount"])
        assert now.sort_by("txn_id").equals(before.sort_by("txn_id"))

    def check_end(path: Path) -> None:
        check(path)
        assert HudiTable.open(path).options.metadata_partitions == ()
        assert not (path / ".hoodie" / "metadata").exists()

    attempts = kill_again_and_again(template, tmp_path, known(act), check)
    check_end(tmp_path / "again")
    with capsys.disabled():
        print(f"\nmetadata table: killed {attempts} times")
