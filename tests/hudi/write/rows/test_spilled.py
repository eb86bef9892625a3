"""Writes whose rows do not fit into memory: against the same from memory, and a model of dicts."""

from __future__ import annotations

import errno
import gc
import random
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.hudi.kills import copied, count_points, leftovers, on_disk
from support.hudi.memory_peak import grown_by
from support.hudi.oracle import assert_same_rows, other_scan
from support.hudi.table_model import LEVELS, TIME, Layout, Model, Row
from support.hudi.written import check_files
from support.remote import FaultyDisk, Killed
from support.samples import amount, some_of

from lookupstore.errors import CommitConflictError
from lookupstore.hudi import HudiTable, WriteOptions, WriteResult
from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.write import write as writes
from lookupstore.hudi.write.partitioner import FileSizing
from lookupstore.hudi.write.rows.spilled import SpilledRows
from lookupstore.sorting import runs

pytestmark = pytest.mark.drawn(0.4)

SMALL = 1 << 16
LAYOUTS = [
    Layout(9, ("id",), ("p",), False, "ts", False),
    Layout(9, ("id", "name"), ("p", "q"), True, None, True),
    Layout(8, ("id",), (), False, "ts", False),
    Layout(6, ("id",), ("p",), False, "ts", False),
    Layout(6, ("id",), ("p",), False, "ts", False, "COMMIT_TIME_ORDERING"),
]
ROWS = 600


def make(path: Path, layout: Layout) -> HudiTable:
    return HudiTable.create(
        path,
        pa.schema(LEVELS[0]),
        record_key=layout.record_key,
        partition_by=layout.partition_by,
        ordering=layout.ordering,
        merge_mode=layout.merge_mode,
        version=layout.version,
        hive_style=layout.hive_style,
        url_encode=layout.url_encode,
        name="t",
    )


def random_rows(rng: random.Random, rows: int, keys: int, *, deletes: bool = True) -> list[Row]:
    return [
        {
            "id": rng.randrange(keys),
            "name": rng.choice(["x", "", "ü", None]),
            "p": rng.choice(["a", "b/c", None]),
            "q": rng.choice([1, 2]),
            "ts": rng.randrange(4),
            "value": rng.choice([None, "u" * 200, "v" * rng.randrange(100, 300), "w" * 240]),
            "many": rng.choice([None, [], [1, None]]),
            "_hoodie_is_deleted": deletes and rng.choice([None, False, False, True]),
            "more": rng.randrange(9),
            "ratio": rng.randrange(9),
        }
        for _ in range(rows)
    ]


def arrow(rows: list[Row], level: int = 0) -> pa.Table:
    return pa.Table.from_pylist(
        rows, pa.schema({**LEVELS[level], "_hoodie_is_deleted": pa.bool_()})
    )


def streamed(rows: pa.Table, size: int) -> pa.RecordBatchReader:
    """Return rows as a stream that can be read once."""
    return pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(max_chunksize=size))


class Pair:
    """Two tables to which the same is done, once with much memory, once with little."""

    def __init__(self, folder: Path, layout: Layout) -> None:
        self.paths = [folder / "large", folder / "small"]
        self.tables = [make(path, layout) for path in self.paths]
        self._clocks = [self._clock(), self._clock()]
        self._ids = [count(), count()]

    @staticmethod
    def _clock() -> Callable[[], datetime]:
        start, ticks = datetime(2026, 3, 7, 13, tzinfo=timezone.utc), count()
        return lambda: start + timedelta(seconds=next(ticks))

    def do(
        self, verb: str, give: Callable[[], Any], options: WriteOptions, *, dry_run: bool = False
    ) -> WriteResult:
        """Do something to both, and compare what is there afterwards."""
        results = []
        for table, clock, ids, memory in zip(
            self.tables, self._clocks, self._ids, [options.memory, SMALL], strict=True
        ):
            chosen = replace(
                options,
                memory=memory,
                clock=clock,
                new_file_id=lambda ids=ids: f"f{next(ids)}-0",
            )
            results.append(getattr(table, verb)(give(), options=chosen, dry_run=dry_run))
        one_group = options.format.row_group_bytes > 1 << 20
        if one_group:
            assert results[0] == results[1]
        one, other = map(self._files, self.paths)
        assert one.keys() == other.keys()
        for name, path in one.items():
            if one_group:
                assert path.read_bytes() == other[name].read_bytes(), name
            else:
                assert pq.read_table(path).equals(pq.read_table(other[name])), name
        return results[1]

    @staticmethod
    def _files(path: Path) -> dict[str, Path]:
        return {str(one.relative_to(path)): one for one in path.rglob("*.parquet")}


@pytest.fixture
def spilled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the verbs that spilled rows, of which the file has got some."""
    done: list[str] = []
    end = SpilledRows.__exit__

    def ended(self: SpilledRows, *error: Any) -> None:
        done.append("spilled")
        end(self, *error)

    monkeypatch.setattr(SpilledRows, "__exit__", ended)
    return done


@pytest.mark.sampled
@pytest.mark.few(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda one: f"{one.version}-{one.merge_mode}")
def test_histories(tmp_path: Path, layout: Layout, seed: int, spilled: list[str]) -> None:
    rng = random.Random(seed)
    pair, model, level = Pair(tmp_path, layout), Model(layout), 0
    format = rng.choice([FileFormat(), FileFormat(row_group_bytes=9000)])
    for number in range(amount(5, 7)):
        verb = rng.choice(["upsert", "upsert", "insert", "delete", "insert_overwrite", "upsert"])
        verb = "upsert" if number == 0 else "insert_overwrite_table" if number == 4 else verb
        level = 1 if number > 2 else 0
        rows = random_rows(rng, ROWS, rng.choice([200, 600, 2500]))
        if verb == "insert_overwrite":
            rows = [{**row, "p": "a"} for row in rows]
        options = WriteOptions(
            evolve=True,
            duplicates="drop",
            format=format,
            sizing=rng.choice([FileSizing(), FileSizing(max_file_size=5000, record_size=20)]),
            index=rng.choice(["bloom", "simple", "in-memory"]),
        )
        given = arrow(rows, level)
        if verb == "delete":
            given = given.select([*layout.record_key, *layout.partition_by])
            given = pa.concat_tables([given] * 60)
        size, before = rng.choice([100, 5000]), set(model.now.rows)
        kept = rows
        if verb == "insert":
            kept = [row for key, row in model.distinct(rows).items() if key not in before]
        model.commit(str(number), model.after(verb, kept, level, []))
        pair.do(verb, lambda: streamed(given, size), options, dry_run=True)  # noqa: B023
        result = pair.do(verb, lambda: streamed(given, size), options)  # noqa: B023
        after = set(model.now.rows)
        if verb in ("upsert", "insert", "delete"):
            assert result.rows_inserted == len(after - before)
            assert result.rows_deleted == len(before - after)
        assert len(spilled) == 2 * (number + 1), verb
    found = pair.tables[1].scan(columns=list(LEVELS[level])).to_pylist()
    wanted = [
        {name: value for name, value in row.items() if name != TIME}
        for row in model.now.at_level(level).values()
    ]
    assert sorted(map(str, found)) == sorted(map(str, wanted))
    assert check_files(pair.paths[1])
    assert_same_rows(pair.tables[1].scan(), other_scan(pair.paths[1]))


@pytest.mark.few(1)
@pytest.mark.parametrize("combine", [None, False, True])
def test_keys_of_several_rows(
    tmp_path: Path, combine: bool | None, seed: int, spilled: list[str]
) -> None:
    """Rows that are there more than once are changed, and deleted, as often."""
    rng = random.Random(seed)
    pair = Pair(tmp_path, LAYOUTS[0])
    options = WriteOptions(sizing=FileSizing(max_file_size=9000, record_size=20))
    inserts = arrow(random_rows(rng, ROWS, 500, deletes=False))
    options = replace(options, combine=combine)
    pair.do("insert", lambda: streamed(inserts, 333), options)
    pair.do("insert", lambda: inserts, options)
    rows = {row["id"]: row for row in random_rows(rng, 4 * ROWS, 700, deletes=False)}
    wide = [{**row, "value": "v" * 100} for row in rows.values()]
    result = pair.do("upsert", lambda: streamed(arrow(wide), 50), options)
    assert result.rows_updated + result.rows_inserted > len(wide)
    ids = pa.table({"id": pa.array([*range(250)] * 80)})
    result = pair.do("delete", lambda: ids, options)
    assert result.rows_deleted > 250
    result = pair.do("bulk_insert", lambda: inserts, replace(options, combine=None), dry_run=True)
    assert result.rows_inserted == ROWS
    assert len(spilled) == 5


def test_a_global_index_deletes_once(tmp_path: Path, spilled: list[str]) -> None:
    """Of a key that comes with several partitions there is one row to delete."""
    pair = Pair(tmp_path, LAYOUTS[0])
    rows = [
        {**row, "id": number, "value": "v" * 90}
        for number, row in enumerate(random_rows(random.Random(1), ROWS, 1, deletes=False))
    ]
    pair.do("upsert", lambda: arrow(rows), WriteOptions())
    keys = pa.table({"id": [*range(500)] * 36, "p": ["a", "b", "c"] * 6000})
    result = pair.do("delete", lambda: keys, WriteOptions(index="global-bloom"))
    assert (result.rows_deleted, len(spilled)) == (500, 2)


@pytest.mark.few(1)
@pytest.mark.parametrize("update_partition_path", [True, False])
@pytest.mark.parametrize("index", ["global-bloom", "global-simple"])
def test_rows_that_move(
    tmp_path: Path, index: str, update_partition_path: bool, seed: int, spilled: list[str]
) -> None:
    """A global index finds keys in other partitions; some pieces move rows, and some do not."""
    rng = random.Random(seed)
    pair = Pair(tmp_path, rng.choice([one for one in LAYOUTS if one.record_key == ("id",)]))
    options = WriteOptions(
        index=index,
        update_partition_path=update_partition_path,
        sizing=rng.choice([FileSizing(), FileSizing(max_file_size=9000, record_size=20)]),
    )
    first = random_rows(rng, 2 * ROWS, 900, deletes=False)
    pair.do("upsert", lambda: arrow(first), options)
    flags = rng.choice([True, False])
    second = [
        # The first pieces are of keys that stay where they are.
        {**row, "p": "a"} if number < ROWS and not number % 5 else row
        for number, row in enumerate(random_rows(rng, 2 * ROWS, 1200, deletes=flags))
    ]
    given = arrow(second) if flags else arrow(second).drop_columns(["_hoodie_is_deleted"])
    pair.do("upsert", lambda: streamed(given, 77), options, dry_run=True)
    pair.do("upsert", lambda: streamed(given, 77), options)
    rows = pair.tables[1].scan(columns=["id"])["id"].to_pylist()
    assert len(rows) == len(set(rows))
    pair.do("insert", lambda: given, replace(options, duplicates="drop"))
    rows = pair.tables[1].scan(columns=["id"])["id"].to_pylist()
    assert len(rows) == len(set(rows))
    assert len(spilled) == 4
    assert check_files(pair.paths[1])
    assert_same_rows(pair.tables[1].scan(), other_scan(pair.paths[1]))


def test_what_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path / "t", LAYOUTS[0])
    rows = random_rows(random.Random(1), ROWS, 9000, deletes=False)
    options = WriteOptions(memory=SMALL)
    table.upsert(arrow(rows), options=options)
    before = table.timeline()
    with pytest.raises(ValueError, match=r"^rows have keys that .* has, such as '\d+'") as caught:
        table.insert(arrow(rows), options=replace(options, duplicates="fail"))
    named = set(re.findall(r"'(\d+)'", str(caught.value)))
    assert named <= {str(one["id"]) for one in rows}
    lacking = [*rows, {**rows[0], "ts": None}]
    with pytest.raises(ValueError, match="row 601: the ordering column 'ts' is null; give a "):
        table.upsert(streamed(arrow(lacking), 500), options=options)
    with pytest.raises(
        ValueError, match=r"rows repeat the key '.*', and would change a row of the"
    ):
        table.upsert(arrow(rows * 2), options=replace(options, combine=False))
    assert [one for one in table.timeline() if one.action != "rollback"] == before
    assert table.scan().num_rows == len(Model(LAYOUTS[0]).distinct(rows))
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))


def test_others_inserted_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t", LAYOUTS[0])
    rows = random_rows(random.Random(1), ROWS, 9000, deletes=False)
    write = SpilledRows.write

    def late(self: SpilledRows, *arguments: Any) -> Any:
        other = HudiTable.open(tmp_path / "t")
        other.insert(arrow(rows[300:301]))
        return write(self, *arguments)

    monkeypatch.setattr(SpilledRows, "write", late)
    with pytest.raises(CommitConflictError, match=f"'{rows[300]['id']}'"):
        table.upsert(arrow(rows), options=WriteOptions(memory=SMALL, retries=0))
    assert table.scan(columns=["id"]).to_pylist() == [{"id": rows[300]["id"]}]


@pytest.mark.parametrize("at", [0, 3, 40])
def test_a_full_disk_leaves_nothing(
    tmp_path: Path, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path / "t", LAYOUTS[0])
    append, calls = runs.SpillFile.append, count()

    def full(self: Any, batch: pa.RecordBatch) -> int:
        if next(calls) == at:
            raise OSError(errno.ENOSPC, "No space left on device")
        return append(self, batch)

    monkeypatch.setattr(runs.SpillFile, "append", full)
    rows = arrow(random_rows(random.Random(1), ROWS, 9000))
    with pytest.raises(OSError, match="No space left"):
        table.upsert(rows, options=WriteOptions(memory=SMALL))
    assert not leftovers(tmp_path / "t")
    assert not list((tmp_path / "t").rglob("*.parquet"))
    opened = [Path(one.path) for one in psutil.Process().open_files()]
    assert not [one for one in opened if tmp_path in one.parents]


def test_where_it_spills(tmp_path: Path) -> None:
    table = make(tmp_path / "t", LAYOUTS[0])
    rows = arrow(random_rows(random.Random(1), ROWS, 9000))
    options = WriteOptions(memory=SMALL, spill_folder=str(tmp_path / "is not there"))
    missing = "spill_folder is not a folder; make it, or give another one: .*is not there'$"
    with pytest.raises(FileNotFoundError, match=missing):
        table.upsert(rows, options=options)
    with pytest.raises(FileNotFoundError, match=missing):
        table.upsert(rows.to_reader(), options=options)
    # Rows that fit go nowhere.
    table.upsert(rows, options=replace(options, memory=1 << 20))


def rows_of(table: HudiTable) -> list[str]:
    return sorted(map(str, table.scan(columns=["id", "p", "ts", "value"]).to_pylist()))


@pytest.mark.sampled
def test_a_write_that_dies_shows_nothing(tmp_path: Path) -> None:
    rng = random.Random(1)
    template = tmp_path / "t"
    before = arrow(random_rows(rng, ROWS, 900, deletes=False))
    make(template, LAYOUTS[0]).upsert(before)
    rows = arrow(random_rows(rng, ROWS, 900))
    options = WriteOptions(memory=SMALL, sizing=FileSizing(max_file_size=9000, record_size=20))

    def act(table: HudiTable) -> object:
        return table.upsert(rows, options=options)

    act(copied(template, tmp_path / "whole"))
    states = [rows_of(HudiTable.open(one)) for one in (template, tmp_path / "whole")]
    points = count_points(template, tmp_path, act)
    assert points > 20
    for at in some_of(range(points), 3):
        path = tmp_path / str(at)
        table = copied(template, path)
        with pytest.MonkeyPatch.context() as patch:
            on_disk(patch, FaultyDisk(at, kill=True))
            with pytest.raises(Killed):
                act(table)
        gc.collect()  # readers that the error holds
        opened = [Path(one.path) for one in psutil.Process().open_files()]
        assert not [one for one in opened if path in one.parents]
        assert rows_of(table) in states
        act(table)
        assert_same_rows(table.scan(), other_scan(path))


def test_pieces_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked for at once is a part of the memory."""
    sizes = []
    tag = writes.tag

    def tagged(*arguments: Any, **named: Any) -> Any:
        sizes.append(len(arguments[2]))
        return tag(*arguments, **named)

    monkeypatch.setattr(writes, "tag", tagged)
    table = make(tmp_path / "t", LAYOUTS[0])
    rows = random_rows(random.Random(1), 4 * ROWS, 90000)
    table.upsert(arrow(rows), options=WriteOptions(memory=SMALL))
    assert len(sizes) > 10
    assert max(sizes) < ROWS


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is in /proc")
@pytest.mark.parametrize("verb", ["upsert", "insert_overwrite_table"])
def test_memory_does_not_grow_with_rows(tmp_path: Path, verb: str) -> None:
    """Two million rows are 100 MB as they come, and four times that where they are all kept."""
    # Of a file its keys are in memory until it is whole.
    sizing = {"max_file_size": "4MiB", "record_size": 20}
    assert grown_by(tmp_path / "t", verb, 200, sizing=sizing) < 250
