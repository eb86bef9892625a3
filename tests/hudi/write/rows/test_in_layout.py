"""Bulk inserts into partitions that keep a layout: against a dict, by the places of rows in it."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.hudi.oracle import assert_same_rows, other_scan
from support.hudi.written import check_files

from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.layout import KeptLayout, read_layout
from lookupstore.hudi.write import boxes
from lookupstore.hudi.write.boxes import positions_in
from lookupstore.hudi.write.partitioner import FileSizing
from lookupstore.hudi.write.rows import in_layout, in_memory, spilled

SCHEMA = pa.schema(
    {"id": pa.int64(), "p": pa.string(), "a": pa.int32(), "b": pa.string(), "more": pa.float64()}
)
NEW = WriteOptions(sizing=FileSizing(small_file_limit=0))
Row = dict[str, Any]


def some(ids: range, chance: random.Random) -> list[Row]:
    return [
        {
            "id": at,
            "p": chance.choice(["mo", "tu"]),
            "a": chance.choice([None, 7, chance.randrange(-9999, 9999)]),
            "b": chance.choice([None, "", f"{chance.random():.9f}"]),
            "more": chance.choice([None, 0.5, chance.random()]),
        }
        for at in ids
    ]


def batches(rows: list[Row], size: int) -> Iterator[pa.RecordBatch]:
    yield from pa.Table.from_pylist(rows, SCHEMA).to_batches(max_chunksize=size)


def made(path: Path, rows: list[Row], curve: Any = "hilbert") -> HudiTable:
    """Return a table of which one partition keeps a layout."""
    table = HudiTable.create(path, SCHEMA, record_key="id", partition_by="p", name="t")
    table.bulk_insert(pa.Table.from_pylist(rows, SCHEMA))
    table.collect_statistics()
    cluster(table, curve)
    return table


def cluster(table: HudiTable, curve: Any, by: Any = ("a", "b"), **arguments: Any) -> Any:
    given = {"curve": curve, "target_file_size": 12_000, "partitions": ["mo"], **arguments}
    return table.cluster(by, incremental=True, **given)


def layout_of(table: HudiTable) -> KeptLayout:
    found = read_layout(table.location, "mo")
    assert found is not None
    return found


def new_files(table: HudiTable, time: str) -> dict[str, dict[str, pa.Table]]:
    """Return the rows of the files of an instant, by partition and id of their groups."""
    found: dict[str, dict[str, pa.Table]] = {}
    scanned = table.scan(columns=["_hoodie_file_name", *SCHEMA.names])
    for group in table.file_groups():
        if group.current.time == time:
            own = scanned.filter(pa.compute.field("_hoodie_file_name") == group.current.name)
            found.setdefault(group.id.partition, {})[group.id.file_id] = own
    return found


@pytest.mark.few(1)
@pytest.mark.parametrize("curve", ["hilbert", "zorder", "linear"])
@pytest.mark.parametrize("memory", [1 << 16, 512 << 20], ids=["spilled", "in memory"])
def test_new_files_lie_as_the_layout_says(
    tmp_path: Path, memory: int, curve: str, seed: int
) -> None:
    chance = random.Random(seed)
    first = some(range(4000), chance)
    table = made(tmp_path / "t", first, curve)
    before = layout_of(table)
    assert len(before.files) > 2
    more = some(range(4000, 7000), chance)
    options = WriteOptions(memory=memory)
    result = table.bulk_insert(batches(more, 700), options=options)
    assert result.rows_inserted == 3000
    assert result.instant is not None
    files = new_files(table, result.instant.time)
    assert sum(own.num_rows for own in files["tu"].values()) == sum(r["p"] == "tu" for r in more)
    after = layout_of(table)
    assert (after.ends, after.layout.to_json()) == (before.ends, before.layout.to_json())
    assert len(files["mo"]) > 2
    assert after.files.keys() >= before.files.keys()
    assert after.files.keys() & files["mo"].keys()
    # No two of them overlap, and each is where it is said to be.
    spans = []
    for file_id, rows in files["mo"].items():
        places = sorted(after.layout.positions(rows).to_pylist())
        spans.append((places[0], places[-1]))
        if file_id in after.files:
            placed = after.files[file_id]
            assert (placed.rows, placed.run) == (rows.num_rows, result.instant.time)
            assert placed.after < places[0] <= places[-1] <= placed.last
            assert after.region(places[0]) == after.region(placed.last)
    assert all(one[1] < two[0] for one, two in pairwise(sorted(spans)))
    assert {row["id"] for row in first + more} == set(table.scan()["id"].to_pylist())
    assert table.scan().num_rows == 7000
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))
    assert table.verify().findings == ()
    check_files(tmp_path / "t")
    cluster(table, curve)
    assert table.scan().num_rows == 7000
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))


def test_few_rows_are_one_file(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    table = made(tmp_path / "t", some(range(4000), chance))
    before = layout_of(table)
    result = table.bulk_insert(batches(some(range(4000, 4040), chance), 9))
    assert result.instant is not None
    files = new_files(table, result.instant.time)
    assert {path: len(own) for path, own in files.items()} == {"mo": 1, "tu": 1}
    # It is in several regions, and so waits for the next clustering.
    assert layout_of(table).files.keys() == before.files.keys()
    assert (
        len({*map(before.region, before.layout.positions(*files["mo"].values()).to_pylist())}) > 1
    )


def test_rows_that_are_all_equal_make_files_of_some_size(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    table = made(tmp_path / "t", some(range(4000), chance))
    most = layout_of(table).rows_per_file
    rows = [{**one, "p": "mo", "a": 3, "b": "x"} for one in some(range(4000, 9000), chance)]
    result = table.bulk_insert(batches(rows, 100))
    assert result.instant is not None
    counts = [own.num_rows for own in new_files(table, result.instant.time)["mo"].values()]
    assert sum(counts) == 5000
    assert max(counts) <= 2 * most + 101


def test_a_layout_that_changes_meanwhile_does_not_have_the_files(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    table = made(tmp_path / "t", some(range(4000), chance))
    more = some(range(4000, 7000), chance)

    def given() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches(more, 1000)):
            if number == 2:
                assert cluster(HudiTable.open(tmp_path / "t"), "hilbert", ["b", "a"]).instant
            yield batch

    result = table.bulk_insert(given())
    assert result.instant is not None
    files = new_files(table, result.instant.time)
    after = layout_of(table)
    assert after.layout.by == ("b", "a")
    assert not after.files.keys() & files["mo"].keys()
    assert table.scan().num_rows == 7000
    assert cluster(table, "hilbert", ["b", "a"], dry_run=True).files_before >= len(files["mo"])


def test_a_layout_of_a_column_that_became_wider_is_not_followed(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    table = made(tmp_path / "t", some(range(4000), chance))
    before = layout_of(table).files.keys()
    wide = pa.Table.from_pylist(some(range(4000, 7000), chance), SCHEMA)
    at = wide.schema.get_field_index("a")
    wide = wide.set_column(at, "a", wide["a"].cast(pa.int64()))
    table.bulk_insert(wide, options=WriteOptions(evolve=True))
    assert layout_of(table).files.keys() == before
    assert table.scan().num_rows == 7000


@pytest.mark.parametrize("memory", [1 << 16, 512 << 20], ids=["spilled", "in memory"])
@pytest.mark.parametrize("verb", ["upsert", "bulk_insert"])
@pytest.mark.parametrize("at", [1, 2, 6, 12])
@pytest.mark.few(2)
def test_rows_that_cannot_be_placed_are_written_all_the_same(
    tmp_path: Path, seed: int, at: int, verb: str, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some rows are placed, of others it fails: all of them are there once."""
    chance = random.Random(seed)
    first, more = some(range(2000), chance), some(range(1900, 4000), chance)
    if verb == "bulk_insert":
        more = more[100:]
    table = made(tmp_path / "t", first)
    calls: list[int] = []

    def fails(kept: KeptLayout, rows: Any) -> Any:
        calls.append(1)
        if len(calls) == at:
            raise MemoryError("injected")
        return positions_in(kept, rows)

    monkeypatch.setattr(boxes, "positions_in", fails)
    monkeypatch.setattr(in_layout, "positions_in", fails)
    monkeypatch.setattr(spilled, "positions_in", fails)
    monkeypatch.setattr(in_memory, "positions_in", fails)
    write = getattr(table, verb)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        options = WriteOptions(memory=memory, update_partition_path=False, index="global-bloom")
        write(batches(more, 300), options=options)
    told = [str(one.message) for one in seen]
    assert len(told) == (len(calls) >= at)
    assert all("MemoryError: injected; the next incremental clustering" in one for one in told)
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))
    values = {row["id"]: row["b"] for row in table.scan(columns=["id", "b"]).to_pylist()}
    assert values == {row["id"]: row["b"] for row in [*first, *more]}
    assert table.scan().num_rows == 4000
    assert table.verify().findings == ()
