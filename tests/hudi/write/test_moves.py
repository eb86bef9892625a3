"""Upserts with an index for all partitions: rows that move, and rows that stay where they are.

The oracle is a list of rows, in which a key may be in several partitions; the other reader is
hudi-rs.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.hudi.kills import leftovers, on_disk
from support.hudi.oracle import assert_same_rows, other_scan
from support.hudi.versions import VERSIONS
from support.hudi.written import check_files
from support.remote import FaultyDisk, Killed
from support.samples import amount

from lookupstore.errors import CommitConflictError, FormatError
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.index.bloom import BloomIndex
from lookupstore.hudi.write.options import new_file_id
from lookupstore.hudi.write.partitioner import FileSizing

SCHEMA = pa.schema({"id": pa.int32(), "day": pa.string(), "ts": pa.int32(), "value": pa.string()})
Row = tuple[int, str | None, int, str]
NEW_FILES = FileSizing(small_file_limit=0)
GLOBAL = WriteOptions(index="global-bloom", threads=1)
STAYS = replace(GLOBAL, update_partition_path=False)


def make(path: Path, **arguments: Any) -> HudiTable:
    given = {"record_key": ["id"], "partition_by": ["day"], "ordering": "ts", **arguments}
    return HudiTable.create(path, SCHEMA, **given)


def arrow(rows: list[Row], deleted: list[bool] | None = None) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * 4
    arrays = [pa.array(list(one), kind) for one, kind in zip(columns, SCHEMA.types, strict=True)]
    table = pa.table(arrays, schema=SCHEMA)
    return table if deleted is None else table.append_column("_hoodie_is_deleted", [deleted])


def stored(table: HudiTable) -> Counter[Row]:
    """Return the rows as both readers see them, each in the folder that its columns say."""
    found = table.scan()
    assert_same_rows(found, other_scan(Path(table.location.uri.removeprefix("file://"))))
    for row in found.to_pylist():
        assert row["_hoodie_partition_path"] == (row["day"] or "__HIVE_DEFAULT_PARTITION__")
        assert row["_hoodie_record_key"] == str(row["id"])
    return Counter(tuple(one.values()) for one in found.select(SCHEMA.names).to_pylist())


def upserted(
    rows: list[Row], given: list[tuple[Row, bool]], *, moves: bool, compares: bool
) -> list[Row]:
    """Return the rows after an upsert of rows of which some delete."""
    wanted: dict[int, tuple[Row, bool]] = {}
    for row, gone in given:
        if row[0] not in wanted or not compares or row[2] >= wanted[row[0]][0][2]:
            wanted[row[0]] = row, gone
    after = [row for row in rows if row[0] not in wanted]
    for key, (row, gone) in wanted.items():
        mine = [one for one in rows if one[0] == key]
        newer = [one for one in mine if compares and one[2] > row[2]]
        older = [one for one in mine if one not in newer]
        after += newer
        if gone:
            continue
        if not mine:
            after.append(row)
        elif not moves:
            after += [(key, one[1], row[2], row[3]) for one in older]
        else:
            there = [one for one in older if one[1] == row[1]]
            if not newer and not there:
                there = [row]
            elif any(one[1] == row[1] for one in newer):
                assert not any(one[1] == row[1] for one in older)
            after += [row] * len(there)
    return after


@pytest.mark.sampled
@pytest.mark.few(1)
@pytest.mark.parametrize("mode", [None, "COMMIT_TIME_ORDERING"])
@pytest.mark.parametrize("version", VERSIONS)
def test_histories(tmp_path: Path, version: int, mode: str | None, seed: int) -> None:
    """Also killed at some of their file operations: a row is moved wholly, or not at all."""
    rng = random.Random(seed)
    path = tmp_path / "t"
    table = make(path, version=version, merge_mode=mode)
    # In version 6 rows of a batch are compared in either mode: the batch has each key once there.
    compares = mode is None
    model: list[Row] = []
    serial, kills = itertools.count(1), 0
    days = ["a", "b", "c/d", None]

    def some(most: int) -> list[Row]:
        # Ordering values are different, so that no rule for equal ones matters.
        found = [
            (rng.randrange(14), rng.choice(days), rng.randrange(1000) * 10_000 + at, f"v{at}")
            for at in itertools.islice(serial, rng.randint(1, most))
        ]
        return found if compares else list({row[0]: row for row in found}.values())

    for turn in range(amount(25, 60)):
        options = WriteOptions(
            index=rng.choice(["global-bloom", "global-simple"]),
            update_partition_path=rng.random() < 0.7,
            sizing=FileSizing() if rng.random() < 0.5 else NEW_FILES,
            format=FileFormat(row_group_bytes=1000) if rng.random() < 0.3 else FileFormat(),
            threads=1,
            new_file_id=lambda: f"f{next(serial):07}-0000-0000-0000-000000000000-0",
        )
        verb = rng.choice(["upsert"] * 6 + ["insert", "delete", "repeat"])
        rows = some(10)
        flags = [rng.random() < 0.15 for _ in rows]
        # What keys there were in several partitions does the bloom index.
        repeated = [row for row in some(3) if (row[0], row[1]) not in {one[:2] for one in model}]
        repeated = list({row[:2]: row for row in repeated}.values())
        there = {row[0] for row in model}
        given = list(zip(rows, flags, strict=True))
        if verb == "insert":
            options = replace(options, duplicates="drop")
            given = [(row, False) for row in rows if row[0] not in there]
        after = upserted(model, given, moves=options.update_partition_path, compares=compares)
        keys = arrow(rows, flags if verb == "upsert" else None)
        if verb == "delete":
            keys = keys.select(["id", "day"])
            after = [row for row in model if row[0] not in {one[0] for one in rows}]
        elif verb == "repeat":
            verb, options = "upsert", replace(options, index="bloom")
            keys, after = arrow(repeated), model + repeated
        before = Counter(model)
        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            if turn % 2:
                on_disk(patch, FaultyDisk(rng.randrange(60), kill=True))
            getattr(table, verb)(keys, options=options)
        now = stored(table)
        assert now in (before, Counter(after)), verb
        kills += now != Counter(after)
        model = list(now.elements())
    table.delete([])
    assert leftovers(path) == []
    check_files(path)
    assert table.verify().is_ok
    assert kills > 1


def test_what_is_said_of_a_move(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.insert(arrow([(1, "a", 1, "x"), (2, "a", 5, "x"), (3, "b", 1, "x")]))
    given = arrow([(1, "b", 2, "y"), (2, "b", 3, "y"), (4, "c", 1, "y")])
    planned = table.upsert(given, options=GLOBAL, dry_run=True)
    assert len(planned.files_rewritten) == 2
    assert (planned.files_new, planned.instant) == (1, None)
    done = table.upsert(given, options=GLOBAL)
    assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (2, 0, 1)
    assert stored(table) == Counter(
        [(2, "a", 5, "x"), (3, "b", 1, "x"), (1, "b", 2, "y"), (4, "c", 1, "y")]
    )
    # What did not change was not written by this commit.
    assert done.instant is not None
    new = table.scan(filter=pc.field("_hoodie_commit_time") == done.instant.time)
    assert sorted(new["id"].to_pylist()) == [1, 4]


def test_filters_on_partitions_find_rows_that_stayed(tmp_path: Path) -> None:
    """Java leaves the column as it came, so that it contradicts the folder."""
    table = make(tmp_path / "t", hive_style=True)
    table.insert(arrow([(1, "a", 1, "x")]))
    table.upsert(arrow([(1, "b", 2, "y")]), options=STAYS)
    assert table.scan(filter=pc.field("day") == "a", columns=SCHEMA.names).to_pylist() == [
        {"id": 1, "day": "a", "ts": 2, "value": "y"}
    ]
    assert table.scan(filter=pc.field("day") == "b").num_rows == 0
    assert table.verify().is_ok


def test_columns_that_widen_as_rows_move(tmp_path: Path) -> None:
    table = make(tmp_path / "t", partition_by=["id", "day"], record_key=["value"])
    narrow = arrow([(1, "a", 2_000_000_000, "k"), (1, "a", 7, "m")])
    table.insert(narrow)
    wide = pa.table({"id": pa.array([2, 2, 2], pa.int32()), "day": ["b", "b", "b"],
                     "ts": pa.array([2**33, 2**34, 5], pa.int64()),
                     "value": ["k", "l", "m"], "more": [1, 2, 3]})  # fmt: skip
    table.upsert(wide, options=replace(GLOBAL, evolve=True))
    found = table.scan(columns=["id", "ts", "value", "more"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [
        (1, 7, "m", None), (2, 2**33, "k", 1), (2, 2**34, "l", 2),
    ]  # fmt: skip
    assert table.verify().is_ok


def test_rows_of_one_key_are_combined_whatever_their_partitions(tmp_path: Path) -> None:
    rows = arrow([(1, "a", 3, "x"), (1, "b", 5, "y"), (1, "c", 4, "z")])
    for verb, options in (
        ("upsert", GLOBAL),
        ("insert", replace(GLOBAL, combine=True)),
        ("insert", replace(GLOBAL, duplicates="drop")),
        ("insert_overwrite", GLOBAL),
    ):
        table = make(tmp_path / f"{verb} {options.combine} {options.duplicates}")
        getattr(table, verb)(rows, options=options)
        assert stored(table) == Counter([(1, "b", 5, "y")])
    with pytest.raises(ValueError, match=r"^rows have keys that the table already has"):
        table.insert(arrow([(1, "c", 9, "z")]), options=replace(GLOBAL, duplicates="fail"))
    index = replace(GLOBAL, index=BloomIndex(is_global=True))
    assert table.upsert(arrow([(1, "c", 9, "z")]), options=index).rows_inserted == 1
    assert stored(table) == Counter([(1, "c", 9, "z")])
    # A question, unlike a write, does not say which of two rows is meant.
    table.upsert(arrow([(1, "d", 9, "z")]))
    with pytest.raises(FormatError, match="pass index='bloom'"):
        table.tag([1], index="global-simple")


@pytest.mark.parametrize("version", [6, 9])
def test_two_writers_at_once(tmp_path: Path, version: int) -> None:
    """What another one commits between the look for keys and the commit."""
    start = [(1, "a", 1, "x"), (2, "a", 1, "x"), (3, "b", 1, "x")]
    other: Row
    for name, other, options, given, conflict in (
        # Both insert a key, each in a partition of its own.
        ("insert", (9, "b", 5, "other"), WriteOptions(), (9, "c", 6, "y"), "'9'"),
        # The other one moved, or changed, a row of the file that this one moves a row from.
        ("from", (2, "d", 5, "other"), GLOBAL, (1, "c", 6, "y"), "changed file groups"),
        ("same", (1, "a", 5, "other"), GLOBAL, (1, "c", 6, "y"), "changed file groups"),
        ("apart", (3, "b", 5, "other"), GLOBAL, (1, "c", 6, "y"), None),
    ):
        table = make(tmp_path / name, version=version)
        table.insert(arrow(start), options=replace(GLOBAL, sizing=NEW_FILES))
        todo = [lambda: table.upsert(arrow([other]), options=options)]  # noqa: B023

        def racing() -> str:
            while todo:  # noqa: B023
                todo.pop()()  # noqa: B023
            return new_file_id()

        mine = replace(GLOBAL, new_file_id=racing, retries=0)
        if conflict is None:
            table.upsert(arrow([given]), options=mine)
            assert {(1, "c", 6, "y"), (3, "b", 5, "other")} <= set(stored(table))
            continue
        with pytest.raises(CommitConflictError, match=conflict):
            table.upsert(arrow([given]), options=mine)
        assert other in stored(table)
        assert given not in stored(table)
        table.upsert(arrow([given]), options=GLOBAL)
        assert stored(table)[given] == 1
        assert sum(count for row, count in stored(table).items() if row[0] == given[0]) == 1
