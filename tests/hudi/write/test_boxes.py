"""Inserts and upserts into partitions that keep a layout: files whose boxes fit take new rows."""

from __future__ import annotations

import random
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.hudi.oracle import assert_same_rows, other_scan
from support.hudi.written import check_files

from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.layout import MOST_ROWS, KeptLayout, read_layout
from lookupstore.hudi.write.partitioner import FileSizing

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string(), "a": pa.int32(), "b": pa.string()})
NEW = FileSizing(small_file_limit=0)
Row = dict[str, Any]


def some(ids: range, chance: random.Random, partitions: str = "ab") -> list[Row]:
    return [
        {
            "id": at,
            "p": chance.choice(partitions),
            "a": chance.choice([None, 7, chance.randrange(-9999, 9999)]),
            "b": chance.choice([None, "", f"{chance.random():.9f}"]),
        }
        for at in ids
    ]


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def made(path: Path, rows: list[Row], curve: str = "hilbert", version: int = 9) -> HudiTable:
    """Return a table of which the partition `a` keeps a layout, and `b` does not."""
    table = HudiTable.create(
        path, SCHEMA, record_key="id", partition_by="p", name="t", version=version
    )
    table.bulk_insert(table_of(rows))
    table.collect_statistics()
    clustered(table, curve)
    return table


def clustered(table: HudiTable, curve: Any = "hilbert", **arguments: Any) -> Any:
    given = {"curve": curve, "target_file_size": 9000, "partitions": ["a"], **arguments}
    return table.cluster(["a", "b"], incremental=True, **given)


def layout_of(table: HudiTable) -> KeptLayout:
    found = read_layout(table.location, "a")
    assert found is not None
    return found


def places(table: HudiTable) -> dict[str, tuple[str, list[bytes]]]:
    """Return by the id of the file groups of `a` the file and the places of its rows, ascending."""
    layout = layout_of(table).layout
    scanned = table.scan(columns=["_hoodie_file_name", "_hoodie_partition_path", "a", "b"])
    found = {}
    for group in table.file_groups():
        if group.id.partition == "a":
            own = scanned.filter(pc.field("_hoodie_file_name") == group.current.name)
            found[group.id.file_id] = (
                group.current.name,
                sorted(layout.positions(own).to_pylist()),
            )
    return found


def check(table: HudiTable, path: Path, expected: dict[int, Row]) -> None:
    rows = table.scan(columns=SCHEMA.names).to_pylist()
    assert len(rows) == len(expected)
    assert {row["id"]: row for row in rows} == expected
    assert_same_rows(table.scan(), other_scan(path))
    assert table.verify().findings == ()
    check_files(path)


@pytest.mark.few(1)
@pytest.mark.parametrize("curve", ["hilbert", "zorder", "linear"])
@pytest.mark.parametrize("verb", ["insert", "upsert", "insert_overwrite"])
@pytest.mark.parametrize("version", [6, 9])
def test_many_rows_make_files_in_their_order(
    tmp_path: Path, version: int, verb: str, curve: str, seed: int
) -> None:
    chance = random.Random(seed)
    first = some(range(3000), chance)
    made(tmp_path / "t", first, curve, version)
    more = some(range(3000, 6000), chance)
    written = {}
    for memory in (1 << 16, 512 << 20):
        other = HudiTable.open(shutil.copytree(tmp_path / "t", tmp_path / f"t{memory}"))
        options = WriteOptions(memory=memory, sizing=NEW)
        before = layout_of(other).files
        result = getattr(other, verb)(table_of(more), options=options)
        assert result.instant is not None
        kept = layout_of(other)
        new = {one: kept.files[one] for one in kept.files.keys() - before.keys()}
        assert len(new) > 1
        found = places(other)
        for file_id, placed in new.items():
            name, own = found[file_id]
            assert placed.name == name
            assert placed.rows == len(own)
            assert placed.after < own[0] <= own[-1] <= placed.last
            assert kept.region(own[0]) == kept.region(placed.last)
        spans = sorted((own[0], own[-1]) for _, own in (found[one] for one in new))
        assert all(one[1] < two[0] for one, two in pairwise(spans))
        rows = more if verb == "insert_overwrite" else first + more
        check(other, tmp_path / f"t{memory}", {row["id"]: row for row in rows})
        written[memory] = sorted(own for _, own in found.values())
        clustered(other, curve)
        check(other, tmp_path / f"t{memory}", {row["id"]: row for row in rows})
    first_time, second_time = written.values()
    assert first_time == second_time


@pytest.mark.parametrize("memory", [1 << 16, 512 << 20], ids=["spilled", "in memory"])
def test_files_that_change_take_what_is_in_their_boxes(
    tmp_path: Path, memory: int, seed: int
) -> None:
    chance = random.Random(seed)
    first = some(range(3000), chance, "a")
    table = made(tmp_path / "t", first)
    before, was = layout_of(table).files, places(table)
    # Of some files a row is written again, as it is; they take what is where they are.
    changed = dict(chance.sample(sorted(was.items()), 3))
    layout = layout_of(table).layout
    where = layout.positions(table_of(first)).to_pylist()
    again = [
        row
        for row, place in zip(first, where, strict=True)
        if any(place == own[0] for _, own in changed.values())
    ]
    more = some(range(3000, 3060), chance, "a")
    options = WriteOptions(memory=memory, sizing=NEW)
    result = table.upsert(table_of(again + more), options=options)
    now = places(table)
    assert {one for one, (name, _) in was.items() if now[one][0] != name} >= changed.keys()
    taken = 0
    for file_id, (_, own) in now.items():
        if file_id in was:
            placed = before[file_id]
            assert placed.after < own[0] <= own[-1] <= placed.last
            taken += len(own) - len(was[file_id][1])
    assert result.rows_inserted == 60
    rest = [own for one, (_, own) in now.items() if one not in was]
    assert taken + sum(map(len, rest)) == 60
    # What is in no box of these is elsewhere, and what is in one that has room for it is there.
    kept = layout_of(table)
    new = layout.positions(table_of(more)).to_pylist()
    boxes = [
        one
        for one in map(before.__getitem__, changed)
        if one.rows + sum(one.after < place <= one.last for place in new)
        <= MOST_ROWS * kept.rows_per_file
    ]
    assert not any(one.after < place <= one.last for own in rest for place in own for one in boxes)
    assert clustered(table, dry_run=True).files_before <= len(rest)
    check(table, tmp_path / "t", {row["id"]: row for row in first + more})


def test_few_rows_fill_the_file_that_waits(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    first = some(range(3000), chance, "a")
    table = made(tmp_path / "t", first)
    was = places(table)
    for start in range(3000, 3100, 20):
        rows = some(range(start, start + 20), chance, "a")
        first += rows
        table.insert(table_of(rows))
    now = places(table)
    (new,) = now.keys() - was.keys()
    assert len(now[new][1]) == 100
    assert all(now[one] == was[one] for one in was)
    check(table, tmp_path / "t", {row["id"]: row for row in first})


def test_a_full_file_takes_no_more(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    first = some(range(3000), chance, "a")
    table = made(tmp_path / "t", first)
    most = layout_of(table).rows_per_file
    # All new rows are in the box of the row that changes.
    more = [{**first[0], "id": at} for at in range(3000, 6000)]
    table.upsert(table_of([first[0], *more]), options=WriteOptions(sizing=NEW))
    was, now = layout_of(table).files, places(table)
    counts = [len(own) for one, (_, own) in now.items() if one in was and was[one].rows != 3000]
    assert max(counts) <= 4 / 3 * most + 1
    check(table, tmp_path / "t", {row["id"]: row for row in first + more})
