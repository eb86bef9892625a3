"""Incremental clustering: the same rows, of new files and of those that overlap, and no others."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.hudi.kills import base_files, leftovers
from support.hudi.oracle import assert_same_rows, other, other_incremental, other_scan
from support.hudi.versions import VERSIONS
from support.hudi.written import check_files

from lookupstore.errors import CommitConflictError
from lookupstore.hudi import HudiTable, TableServices, WriteOptions
from lookupstore.hudi.clustering import ClusterResult
from lookupstore.hudi.clustering.rewrite import Rewrite
from lookupstore.hudi.layout import known_bounds
from lookupstore.hudi.layout.kept.kept_layout import LAYOUTS_FOLDER
from lookupstore.hudi.write.partitioner import FileSizing

pytestmark = pytest.mark.drawn(0.4)

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string(), "a": pa.int64(), "b": pa.string()})
# Small files stay as they are, so that what comes is in new ones.
NEW = WriteOptions(sizing=FileSizing(small_file_limit=0))
Row = dict[str, Any]


def some(ids: range, chance: random.Random, partitions: int = 1) -> list[Row]:
    return [
        {
            "id": at,
            "p": f"p{at % partitions}",
            "a": chance.choice([None, 7, chance.randint(-(2**40), 2**40)]),
            "b": chance.choice([None, "", "x" * 40, str(chance.random())]),
        }
        for at in ids
    ]


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def clustered(table: HudiTable, **arguments: Any) -> ClusterResult:
    given = {"target_file_size": 40_000, "incremental": True, **arguments}
    return table.cluster(given.pop("by", ["a", "b"]), **given)


def made(path: Path, rows: list[Row], version: int = 9, partitions: int = 1) -> HudiTable:
    table = HudiTable.create(
        path,
        SCHEMA,
        record_key="id",
        partition_by=["p"] if partitions > 1 else [],
        version=version,
        name="t",
    )
    table.bulk_insert(table_of(rows), options=NEW)
    return table


def rows_in(table: HudiTable) -> dict[int, Row]:
    """Return the rows by key, none of which is there twice."""
    rows = table.scan(columns=SCHEMA.names).to_pylist()
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def files(table: HudiTable) -> set[str]:
    return {group.current.path for group in table.file_groups()}


@pytest.mark.few(2)
@pytest.mark.parametrize("curve", ["hilbert", "zorder", "linear"])
@pytest.mark.parametrize("version", VERSIONS)
def test_rows_are_those_of_a_dict(tmp_path: Path, version: int, curve: str, seed: int) -> None:
    """Inserts, upserts, deletes, with a clustering after some of them."""
    chance = random.Random(seed)
    path = tmp_path / "t"
    partitions = chance.choice([1, 2])
    expected = {row["id"]: row for row in some(range(3000), chance, partitions)}
    table = made(path, list(expected.values()), version, partitions)
    table.collect_statistics()
    assert clustered(table, curve=curve).rows == 3000
    did = 0
    for at in range(6):
        verb = chance.choice(["bulk_insert", "bulk_insert", "insert", "upsert", "delete"])
        if verb == "delete":
            gone = chance.sample(sorted(expected), 50)
            table.delete(gone)
            for one in gone:
                del expected[one]
        else:
            first = 10_000 * (at + 1)
            ids = range(first, first + chance.choice([5, 400]))
            rows = some(ids, chance, partitions)
            if verb == "upsert":
                rows += [
                    {**new, "p": expected[one]["p"]}
                    for one in chance.sample(sorted(expected), 100)
                    for new in some(range(one, one + 1), chance, partitions)
                ]
            options = chance.choice([NEW, WriteOptions()])
            getattr(table, verb)(table_of(rows), options=options)
            expected |= {row["id"]: row for row in rows}
        if chance.random() < 0.7:
            tried = clustered(table, curve=curve, dry_run=True)
            before = files(table)
            position = [one.position for one in table.timeline() if one.is_completed][-1]
            result = clustered(table, curve=curve, options=WriteOptions(memory=1 << 18, threads=2))
            assert (tried.rows, tried.files_before) == (result.rows, result.files_before)
            assert result.files_unchanged + result.files_before == len(before)
            assert len(before & files(table)) == result.files_unchanged
            assert table.incremental(position).num_rows == 0
            assert_same_rows(table.incremental(position), other_incremental(other(path), position))
            did += result.instant is not None
            again = clustered(table, curve=curve)
            assert again.instant is None or again.rows < sum(1 for _ in expected)
        assert rows_in(table) == expected
        assert_same_rows(table.scan(), other_scan(path))
    # Whatever came, some of it has to be put in order.
    for at in range(12):
        rows = some(range(200_000 + 100 * at, 200_100 + 100 * at), chance, partitions)
        table.bulk_insert(table_of(rows), options=NEW)
        expected |= {row["id"]: row for row in rows}
    assert clustered(table, curve=curve).instant is not None
    assert rows_in(table) == expected
    assert_same_rows(table.scan(), other_scan(path))
    assert table.verify().findings == ()
    assert leftovers(path) == []
    check_files(path)


def uniform(ids: range, random: np.random.Generator) -> pa.Table:
    columns = [random.integers(0, 1 << 40, len(ids)) for _ in range(2)]
    texts = [f"{one:013}" for one in columns[1]]
    return pa.table([list(ids), ["p"] * len(ids), columns[0], texts], schema=SCHEMA)


def shares_read(table: HudiTable, random: np.random.Generator) -> float:
    """Return how many files queries for a value of either column read, by all bounds."""
    view = table.view()
    current = [group.current for group in view.groups(None)]
    known = known_bounds(view, current, ["a", "b"])
    read = 0
    for name in ("a", "b"):
        pairs = list(zip(known[name].least, known[name].greatest, strict=True))
        for value in random.integers(0, 1 << 40, 100).tolist():
            one = value if name == "a" else f"{value:013}"
            read += sum(least.as_py() <= one <= greatest.as_py() for least, greatest in pairs)
    return read / 200 / len(current)


def test_bounds_of_what_is_read_and_written(tmp_path: Path, seed: int) -> None:
    """Counted: by a table of fifty files, to which a twentieth of the rows comes ten times."""
    random = np.random.default_rng(seed)
    count, wanted = 20_000, 50
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id", name="t")
    table.bulk_insert(uniform(range(count), random), options=NEW)
    table.collect_statistics()
    size = sum(group.current.bytes for group in table.file_groups()) // wanted
    first = clustered(table, target_file_size=size)
    assert (first.rows, first.files_unchanged) == (count, 0)
    written = 0
    for at in range(10):
        start = count + at * count // 20
        table.bulk_insert(uniform(range(start, start + count // 20), random), options=NEW)
        written += clustered(table, target_file_size=size).rows
        share = shares_read(table, random)
        # An ideal grid reads as many as the square root; here are whole files, and one more.
        assert share < 2.1 / len(table.file_groups()) ** 0.5
    appended = count // 2
    assert appended * 0.9 < written < 2.9 * appended
    assert table.scan().num_rows == count + appended


def test_only_what_overlaps_is_taken(tmp_path: Path, seed: int) -> None:
    """New rows of a corner: the files of other places stay, whatever their size."""
    random = np.random.default_rng(seed)
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id", name="t")
    table.bulk_insert(uniform(range(20_000), random), options=NEW)
    size = table.file_groups()[0].current.bytes // 64
    clustered(table, target_file_size=size)
    before = table.file_groups()
    for at in range(30):
        rows = uniform(range(30_000 + 300 * at, 30_300 + 300 * at), random)
        low = pa.array(random.integers(0, 1 << 36, 300))
        texts = pa.array([f"{one:013}" for one in random.integers(0, 1 << 36, 300)])
        rows = rows.set_column(2, "a", low).set_column(3, "b", texts)
        table.bulk_insert(rows, options=NEW)
    result = clustered(table, target_file_size=size)
    assert result.instant is not None
    stayed = {group.current.path for group in before} & files(table)
    assert len(stayed) >= len(before) * 0.6
    assert result.files_before >= 30


def test_files_that_changed_are_looked_into(tmp_path: Path, seed: int) -> None:
    """Changes within a file's box leave it where it is; others make it one that overlaps."""
    chance = random.Random(seed)
    table = made(tmp_path / "t", some(range(4000), chance))
    clustered(table, target_file_size=15_000)
    rows = table.scan(columns=SCHEMA.names)
    count = len(files(table))
    assert count > 4
    # The same values: nothing moved.
    table.upsert(rows.slice(0, 2000))
    assert clustered(table, target_file_size=15_000, dry_run=True).files_before == 0
    # Other values, of all files.
    moved = [{**new, "id": old} for old in range(0, 4000, 7) for new in some(range(1), chance)]
    table.upsert(table_of(moved))
    result = clustered(table, target_file_size=15_000)
    assert result.files_before > count // 2
    assert rows_in(table) == {
        **{row["id"]: row for row in rows.to_pylist()},
        **{row["id"]: row for row in moved},
    }


def test_another_choice_begins_anew(tmp_path: Path) -> None:
    chance = random.Random(3)
    table = made(tmp_path / "t", some(range(2000), chance))
    assert clustered(table).rows == 2000
    assert clustered(table).instant is None
    for arguments in ({"by": ["b"]}, {"curve": "linear"}, {"target_file_size": 30_000}):
        assert clustered(table, **arguments).rows == 2000
        assert clustered(table, **arguments).instant is None
    # One that does not go on with anything leaves no file of those that are known.
    table.cluster(["a", "b"], target_file_size=9000)
    assert clustered(table, target_file_size=30_000).rows == 2000


def test_a_new_partition_and_only_some(tmp_path: Path) -> None:
    chance = random.Random(4)
    table = made(tmp_path / "t", some(range(2000), chance, 2), partitions=2)
    assert clustered(table, partitions="p0").rows == 1000
    assert clustered(table).rows == 1000
    rows = [{**row, "p": "p9"} for row in some(range(5000, 5100), chance)]
    table.bulk_insert(table_of(rows), options=NEW)
    result = clustered(table)
    assert (result.rows, result.partitions) == (100, 1)
    assert len(list((tmp_path / "t" / LAYOUTS_FOLDER).iterdir())) == 3


def test_a_column_of_another_type(tmp_path: Path) -> None:
    """Positions of values that the layout's type does not hold: the layout is made anew."""
    schema = pa.schema({"id": pa.int64(), "a": pa.int32()})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id", name="t")
    table.bulk_insert(pa.table({"id": range(100), "a": range(100)}, schema=schema))
    assert table.cluster("a", incremental=True).rows == 100
    wider = pa.schema({"id": pa.int64(), "a": pa.int64()})
    rows = pa.table({"id": [1], "a": [2**40]}, schema=wider)
    table.upsert(rows, options=WriteOptions(evolve=True))
    result = table.cluster("a", incremental=True)
    assert result.rows == 100
    assert table.scan(filter=("a", "=", 2**40)).num_rows == 1


@pytest.mark.parametrize("damage", [lambda content: content[:-3], lambda _: b""])
def test_a_damaged_layout_is_made_anew(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    table = made(tmp_path / "t", some(range(500), random.Random(5)))
    clustered(table)
    (file,) = (tmp_path / "t" / LAYOUTS_FOLDER).iterdir()
    file.write_bytes(damage(file.read_bytes()))
    with pytest.warns(UserWarning, match="cannot be read, so that all of it"):
        assert clustered(table).rows == 500
    assert clustered(table).instant is None
    assert table.verify().findings == ()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"curve": "grid"}, "a grid is for one number of files"),
        ({"small_file_limit": 10}, "they are chosen by overlap"),
    ],
)
def test_what_is_asked_for_wrongly(tmp_path: Path, arguments: dict[str, Any], says: str) -> None:
    table = made(tmp_path / "t", some(range(5), random.Random(5)))
    with pytest.raises(ValueError, match=says):
        clustered(table, **arguments)
    with pytest.raises(ValueError, match="a grid is for one"):
        TableServices(cluster_by="a", cluster_curve="grid", cluster_incremental=True)
    with pytest.raises(KeyError, match="no column 'c'"):
        clustered(table, by="c")


def test_after_writes(tmp_path: Path) -> None:
    """As a service: the first one takes all, the next ones what came."""
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id", name="t")
    services = TableServices(
        cluster_by=["a", "b"], cluster_incremental=True, cluster_commits=2, cluster_file_size=40_000
    )
    options = WriteOptions(sizing=FileSizing(small_file_limit=0), services=services)
    chance = random.Random(6)
    did = []
    for at in range(8):
        rows = some(range(1000 * at, 1000 * at + 1000), chance)
        did.append(table.bulk_insert(table_of(rows), options=options).clustering)
    assert sum(one is not None for one in did) >= 2
    assert sorted(rows_in(table)) == list(range(8000))
    assert table.verify().findings == ()


def test_writers_while_it_is_pending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inserts go on, and are put in order next time; changes of what it takes are refused."""
    path = tmp_path / "t"
    chance = random.Random(7)
    table = made(path, some(range(2000), chance))
    clustered(table)
    stays = files(table)
    for at in range(10):
        rows = some(range(3000 + 50 * at, 3050 + 50 * at), chance)
        table.bulk_insert(table_of(rows), options=NEW)
    real = Rewrite.write
    done: list[int] = []

    def write(rewrite: Rewrite, plan: Any) -> Any:
        if not done:
            done.append(1)
            mine = HudiTable.open(path)
            with pytest.raises(CommitConflictError, match="wait until the clustering is"):
                mine.upsert(table_of(some(range(3000, 3003), chance)))
            # Another one takes what is left, which is nothing that overlaps.
            there = base_files(path)
            mine.bulk_insert(table_of(some(range(5000, 5050), chance)), options=NEW)
            assert len(base_files(path)) == len(there) + 1
        return real(rewrite, plan)

    monkeypatch.setattr(Rewrite, "write", write)
    result = clustered(table)
    assert done
    assert result.rows >= 500
    assert sorted(rows_in(table)) == [*range(2000), *range(3000, 3500), *range(5000, 5050)]
    assert_same_rows(table.scan(), other_scan(path))
    assert table.verify().findings == ()
    assert len(stays & files(table)) == len(stays) - (result.files_before - 10)
    # What came meanwhile waits, as one file of a few rows that all queries read.
    table.bulk_insert(table_of(some(range(6000, 6010), chance)), options=NEW)
    assert clustered(table, dry_run=True).rows < 2000
