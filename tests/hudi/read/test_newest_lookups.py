"""Lookups in a Hudi table that go on to newer commits: beside the table as `scan` reads it."""

from __future__ import annotations

import logging
import random
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest

from lookupstore.hostcache.cache import Residency
from lookupstore.hudi import HudiTable, TableLookup, WriteOptions

COLUMNS = pa.schema({"id": pa.int64(), "day": pa.string(), "v": pa.string()})
KEYS = 40


def scanned(table: HudiTable) -> dict[int, str]:
    rows = table.scan_batches().read_all().to_pylist()
    return {row["id"]: row["v"] for row in rows}


def looked_up(lookup: TableLookup) -> dict[int, str]:
    found = lookup.lookup([*range(KEYS)], ["v"], found=True).to_pylist()
    return {key: row["v"] for key, row in enumerate(found) if row["found"]}


def rows(chance: random.Random, number: int) -> pa.Table:
    keys = chance.sample(range(KEYS), 6)
    days = ["mo" if key % 2 else "tu" for key in keys]
    return pa.table([keys, days, [f"{number} {key}" for key in keys]], schema=COLUMNS)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_newer_commits_are_found(
    tmp_path: Path, residency: Residency, seed: int, version: int
) -> None:
    chance = random.Random(seed + version)
    table = HudiTable.create(
        tmp_path / "t", COLUMNS, record_key="id", partition_by="day", version=version
    )
    lookup = TableLookup(table.location, key="id", residency=residency, build="always")
    before: dict[int, str] = {}
    for number in range(6):
        if chance.random() < 0.3 and (keys := sorted(scanned(table))):
            table.delete(keys[:2])
        else:
            table.upsert(rows(chance, number))
        newest, refreshed = lookup.newest(), lookup.refresh()
        for _ in range(1000):
            if refreshed is not lookup:
                break
            time.sleep(0.01)
            refreshed = lookup.refresh()
        expected = scanned(table)
        assert looked_up(newest) == looked_up(refreshed) == expected
        assert newest == refreshed
        assert newest.newest() is newest
        assert refreshed.refresh() is refreshed
        assert looked_up(lookup) == before  # it stays open
        before, lookup = expected, refreshed


def test_a_refresh_makes_the_lookup_files_that_are_missing(
    tmp_path: Path, residency: Residency, caplog: pytest.LogCaptureFixture
) -> None:
    table = HudiTable.create(tmp_path / "t", COLUMNS, record_key="id", partition_by="day")
    days = ["mo", "tu"]
    table.insert(pa.table([[1, 2], days, ["a", "b"]], schema=COLUMNS))
    lookup = TableLookup(table.location, residency=residency, build="always")
    table.upsert(pa.table([[1, 2], days, ["c", "d"]], schema=COLUMNS))
    plain = lookup.refresh()  # it has no lookup files yet
    assert plain is not lookup
    assert plain.get((1, "mo"))["v"] == "c"
    assert plain.info().lookup_files == 1  # only those of the partition that was asked
    table.upsert(pa.table([[1, 2], days, ["e", "f"]], schema=COLUMNS))
    assert plain.refresh() is plain
    for _ in range(1000):
        newer = plain.refresh()
        if newer is not plain:
            break
        time.sleep(0.01)
    assert newer.info().lookup_files == 1
    assert newer.get((1, "mo"))["v"] == "e"
    assert newer.get((2, "tu"))["v"] == "f"
    assert newer.stats()["keys"] == 3  # counts go on
    plain.close()
    (tmp_path / "t").rename(tmp_path / "gone")
    with caplog.at_level(logging.WARNING):
        assert newer.refresh() is newer
    assert "lookups still use the older commit" in caplog.text


def test_columns_that_come_later(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", COLUMNS, record_key="id")
    table.insert(pa.table([[1], ["mo"], ["a"]], schema=COLUMNS))
    every, some = TableLookup(table.location), TableLookup(table.location, columns=["v"])
    filtered = TableLookup(table.location, columns=["v"], where=("v", "=", "b"))
    more = pa.table({"id": [1], "day": ["mo"], "v": ["b"], "w": [7]})
    table.upsert(more, options=WriteOptions(evolve=True))
    assert every.newest().get(1) == {"day": "mo", "v": "b", "w": 7}
    assert some.newest().get(1) == {"v": "b"}
    assert (filtered.get(1), filtered.newest().get(1)) == (None, {"v": "b"})
    assert every.at().newest().get(1) == {"day": "mo", "v": "b"}
    fixed = TableLookup(table.location, as_of=table.timeline()[0])
    assert (fixed.newest() is fixed, fixed.refresh() is fixed) == (True, True)


def test_a_commit_of_version_6_that_completes_late(tmp_path: Path) -> None:
    """It has the time of its request, which may be before that of a commit that was seen."""
    table = HudiTable.create(
        tmp_path / "t", COLUMNS, record_key="id", partition_by="day", version=6
    )
    first = table.insert(pa.table([[1], ["mo"], ["a"]], schema=COLUMNS)).instant
    second = table.insert(pa.table([[2], ["tu"], ["b"]], schema=COLUMNS)).instant
    assert first is not None
    assert second is not None
    folder = tmp_path / "t" / ".hoodie"
    (done,) = (path for path in folder.glob(f"{first.time}.*") if path.suffix == ".commit")
    done.rename(tmp_path / "later")
    lookup = TableLookup(table.location, key="id")
    assert looked_up(lookup) == {2: "b"}
    (tmp_path / "later").rename(done)
    assert looked_up(lookup.newest()) == looked_up(lookup.at()) == {1: "a", 2: "b"}


@pytest.mark.parametrize("version", [6, 8])
def test_the_time_of_the_newest_commit(tmp_path: Path, version: int) -> None:
    table = HudiTable.create(tmp_path / "t", COLUMNS, record_key="id", version=version)
    empty = TableLookup(table.location)
    assert (empty.committed_at(), empty.position) == (None, "")
    instants = [
        table.insert(pa.table([[key], ["mo"], ["a"]], schema=COLUMNS)).instant for key in (1, 2)
    ]
    for instant in instants:
        assert instant is not None
        lookup = TableLookup(table.location, as_of=instant)
        moment = datetime.strptime(instant.position[:14], "%Y%m%d%H%M%S")
        moment = moment.replace(tzinfo=timezone.utc)
        moment += timedelta(milliseconds=int(instant.position[14:]))
        assert lookup.committed_at() == pytest.approx(moment.timestamp(), abs=1e-4)
        assert lookup.position == instant.position
    newest = TableLookup(table.location)
    assert newest.position == instants[-1].position  # type: ignore[union-attr]
    assert newest.committed_at() == lookup.committed_at()
