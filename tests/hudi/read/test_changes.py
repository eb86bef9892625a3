"""`HudiTable.changes` on tables of Java, and where it says no.

On random histories it is compared with a dict: tests/hudi/table/test_write_histories.py.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.hudi.oracle import other, other_scan
from support.hudi.small_tables import SmallTable, row
from support.hudi.versions import VERSIONS

from lookupstore.errors import DuplicateKeyError, FormatError, StaleStoreError
from lookupstore.hudi import HudiTable, TableLookup, WriteOptions
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.hudi.view import opening
from lookupstore.hudi.write.partitioner import FileSizing

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string(), "a": pa.int64(), "b": pa.float64()})
PLACE = META_COLUMNS[2:4]
Key = tuple[str, str]
Real = Callable[[str], Path]


def rows(*values: tuple[int, str, int | None, float]) -> pa.Table:
    columns = zip(*values, strict=True)
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA)


@pytest.fixture(params=VERSIONS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> HudiTable:
    return HudiTable.create(
        tmp_path / "t", SCHEMA, record_key="id", partition_by="p", version=request.param, name="t"
    )


def said(table: HudiTable, *arguments: Any, **options: Any) -> list[tuple[Any, ...]]:
    found = table.changes(*arguments, **options).read_all().to_pylist()
    return [tuple(one.values()) for one in found]


def test_each_kind_of_change(table: HudiTable) -> None:
    nan = float("nan")
    first = table.insert(
        rows((1, "x", 1, nan), (2, "x", 2, 0.5), (3, "y", 3, 0.5), (4, "y", None, 0.5))
    ).instant
    assert first is not None
    table.upsert(rows((2, "x", 9, 0.5), (4, "y", None, 0.5), (5, "y", 5, 0.5), (1, "x", 1, nan)))
    table.delete(rows((3, "y", 0, 0.0)))
    last = table.upsert(rows((2, "x", 10, 0.25))).instant
    assert last is not None
    assert said(table, first.position) == [
        ("delete", 3, "y", 3, 0.5),
        ("update_before", 2, "x", 2, 0.5),
        ("update_after", 2, "x", 10, 0.25),
        ("insert", 5, "y", 5, 0.5),
    ]
    assert said(table, first.position, columns=["b", "id"], ignore=["a"]) == [
        ("delete", 0.5, 3),
        ("update_before", 0.5, 2),
        ("update_after", 0.25, 2),
        ("insert", 0.5, 5),
    ]
    assert [one[0] for one in said(table, first.position, ignore=["a", "b"])] == [
        "delete",
        "insert",
    ]
    assert said(table, last.position) == []
    assert {one[:3] for one in said(table)} == {
        ("insert", 1, "x"), ("insert", 2, "x"), ("insert", 4, "y"), ("insert", 5, "y"),
    }  # fmt: skip
    reader = table.changes(first.position, columns=[])
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema.names == ["change"]
    assert reader.read_all()["change"].to_pylist() == [
        "delete", "update_before", "update_after", "insert",
    ]  # fmt: skip


def test_rows_that_only_moved_did_not_change(table: HudiTable) -> None:
    written = table.bulk_insert(rows(*((at, "xy"[at % 2], at, 0.5) for at in range(40)))).instant
    assert written is not None
    table.cluster("a", target_file_size=1)
    assert said(table, written.position) == []
    # The same rows again, in new files, but for one.
    table.insert_overwrite(rows(*((at, "x", -1 if at == 8 else at, 0.5) for at in range(0, 40, 2))))
    table.delete(rows((7, "y", 0, 0.0)))
    assert said(table, written.position) == [
        ("delete", 7, "y", 7, 0.5),
        ("update_before", 8, "x", 8, 0.5),
        ("update_after", 8, "x", -1, 0.5),
    ]


def test_rows_that_updates_put_into_another_partition(table: HudiTable) -> None:
    written = table.insert(rows((1, "x", 1, 0.5), (2, "y", 2, 0.5))).instant
    assert written is not None
    moving = WriteOptions(index="global-simple", update_partition_path=True)
    table.upsert(rows((2, "a", 3, 0.5)), options=moving)
    # The delete comes first, though its partition does not.
    assert said(table, written.position) == [("delete", 2, "y", 2, 0.5), ("insert", 2, "a", 3, 0.5)]


def by_key(found: pa.Table | None) -> dict[Key, dict[str, Any]]:
    made = {}
    for one in [] if found is None else found.to_pylist():
        key = one["_hoodie_partition_path"], one["_hoodie_record_key"]
        made[key] = {name: value for name, value in one.items() if name not in META_COLUMNS}
    return made


def compared(before: dict[Key, Any], after: dict[Key, Any]) -> Iterator[tuple[str, Key, Any]]:
    for key in {**before, **after}:
        if key not in after:
            yield "delete", key, before[key]
        elif key not in before:
            yield "insert", key, after[key]
        elif before[key] != after[key]:
            yield "update_before", key, before[key]
            yield "update_after", key, after[key]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "name",
    [
        "v6_complexkeygen_hivestyle",
        "v6_nonpartitioned",
        "v8_nonpartitioned",
        "v9_txns_complex_meta",
        "v9_txns_nonpart_meta",
        "v9_txns_simple_nometa",
    ],
)
def test_tables_of_java(real_table: Real, name: str) -> None:
    """A comparison of all rows that hudi-rs reads, as of each two commits."""
    path = real_table(name)
    table = HudiTable.open(path)
    instants = [one for one in table.timeline() if one.is_completed and one.is_write]
    theirs = other(path)
    states = {one.time: by_key(other_scan(theirs, one.time)) for one in instants}
    names = [one for one in table.schema.names if one not in META_COLUMNS]
    ranges = [(None, one) for one in instants] + list(combinations(instants, 2))
    counts = 0
    for since, until in ranges:
        try:
            found = table.changes(
                None if since is None else since.position, until.position, columns=[*PLACE, *names]
            ).read_all()
        except StaleStoreError:
            continue
        changes = [
            (one["change"], (one[PLACE[1]], one[PLACE[0]]), {name: one[name] for name in names})
            for one in found.to_pylist()
        ]
        before = {} if since is None else states[since.time]
        expected = list(compared(before, states[until.time]))
        assert sorted(changes, key=repr) == sorted(expected, key=repr)
        counts += len(changes)
    assert counts


def test_many_files(tmp_path: Path) -> None:
    """Values come from the rows that they are of, whatever file and row group."""
    small = WriteOptions(sizing=FileSizing(max_file_size=20_000, small_file_limit=0))
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id", name="t")
    before = rows(*((at, "x", at, at / 2) for at in range(5000)))
    first = table.bulk_insert(before, options=small).instant
    assert first is not None
    after = rows(*((at, "x", -at, at / 2) for at in range(2500, 7500, 3)))
    table.upsert(after, options=small)
    table.delete(before.filter(pc.equal(pc.bit_wise_and(before["id"], 15), 1)))
    table.cluster("a", target_file_size=20_000)
    found = table.changes(first.position).read_all()
    now = {one["id"]: one for one in before.to_pylist()}
    for one in found.to_pylist():
        change = one.pop("change")
        if change in ("delete", "update_before"):
            assert now.pop(one["id"]) == one
        else:
            assert one["id"] not in now
            now[one["id"]] = one
    assert now == {one["id"]: one for one in table.scan(columns=SCHEMA.names).to_pylist()}
    assert len(set(found["id"].to_pylist())) < len(before)


def test_all_rows_again_in_another_order(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    small = WriteOptions(sizing=FileSizing(max_file_size=5_000, small_file_limit=0))
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id", name="t")
    place = [rng.random() for _ in range(700)]
    before, after = (rng.sample(range(700), 600) for _ in range(2))
    table.insert(rows(*((at, "x", at, place[at]) for at in before)), options=small)
    # Files are in the order of keys, unless a clustering puts them in another one.
    first = table.cluster("b", target_file_size=5_000).instant
    assert first is not None
    changed = rows(*((at, "x", at + at % 2, place[at]) for at in after))
    table.insert_overwrite_table(changed, options=small)
    assert len(table.file_groups()) > 2
    expected = [("delete", at, "x", at, place[at]) for at in {*before} - {*after}]
    expected += [("insert", at, "x", at + at % 2, place[at]) for at in {*after} - {*before}]
    for at in {*before} & {*after}:
        if at % 2:
            expected.append(("update_before", at, "x", at, place[at]))
            expected.append(("update_after", at, "x", at + 1, place[at]))
    assert sorted(said(table, first.position)) == sorted(expected)


def test_a_key_that_is_there_twice(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", 9)
    small.commit("f-0", [row(1, "a"), row(1, "b"), row(2, "c")])
    first = small.table.timeline()[-1].position
    small.commit("f-0", [row(1, "a"), row(1, "b"), row(2, "d")])
    with pytest.raises(DuplicateKeyError, match=r"'1' is in several rows of .*f-0"):
        small.table.changes(first).read_all()


def test_a_key_that_was_there_twice(tmp_path: Path) -> None:
    """Of two rows before and one after, nobody can tell which was updated."""
    small = SmallTable(tmp_path / "t", 9)
    small.commit("f-0", [row(1, "a"), row(1, "b"), row(2, "c")])
    first = small.table.timeline()[-1].position
    small.commit("f-0", [row(1, "d"), row(2, "c")])
    later = r"'1' is in several rows of .*f-0.*; to have one row of it.*; then give a later since$"
    with pytest.raises(DuplicateKeyError, match=later):
        small.table.changes(first).read_all()
    small.commit("f-0", [row(1, "e"), row(2, "c")])
    second = small.table.timeline()[-2].position
    assert said(small.table, second) == [("update_before", 1, "d"), ("update_after", 1, "e")]


def test_a_key_that_two_file_groups_bring_in_one_range(tmp_path: Path) -> None:
    """Each file has it once; together they have two rows of one key, in the same partition."""
    small = SmallTable(tmp_path / "t", 9)
    small.commit("f-0", [row(1, "a")])
    first = small.table.timeline()[-1].position
    small.commit("f-1", [row(7, "b"), row(2, "c")])
    second = small.table.timeline()[-1].position
    small.commit("f-2", [row(7, "d"), row(3, "e")])
    with pytest.raises(DuplicateKeyError, match=r"'7' is in several rows of .*/t\b"):
        small.table.changes(first).read_all()
    # In a range of one of the two commits it is an insert.
    assert said(small.table, first, second) == [("insert", 7, "b"), ("insert", 2, "c")]
    assert said(small.table, second) == [("insert", 7, "d"), ("insert", 3, "e")]


def test_a_key_that_one_file_group_lost_and_another_got_is_one_update(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", 9)
    begin = small.begin()
    small.finish(begin, [small.write(begin.time, "f-0", [row(1, "a"), row(2, "b"), row(3, "c")])])
    first = small.table.timeline()[-1].position

    def without(*left: Any) -> None:
        """Rewrite the file, whose rows are as old as they were."""
        instant = small.begin()
        times = [begin.time] * len(left)
        small.finish(instant, [small.write(instant.time, "f-0", left, times=times)])

    without(row(1, "a"), row(3, "c"))
    small.commit("f-1", [row(2, "d")])
    without(row(1, "a"))
    small.commit("f-2", [row(3, "c"), row(4, "e")])
    # The third row has its old value again, and did not change.
    assert said(small.table, first) == [
        ("update_before", 2, "b"),
        ("update_after", 2, "d"),
        ("insert", 4, "e"),
    ]


def test_keys_that_are_there_twice_and_only_move(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id", name="t")
    first = table.bulk_insert(rows(*((at % 3, "x", at, 0.5) for at in range(9)))).instant
    assert first is not None
    table.cluster("a", target_file_size=1)
    assert said(table, first.position) == []


@pytest.mark.parametrize("version", [6, 9])
def test_moments_in_other_words(tmp_path: Path, version: int) -> None:
    """Instants, texts of a clock, datetimes and days, beside the 17 digits."""
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id", name="t", version=version)
    instants = []
    for at in range(3):
        instants.append(table.upsert(rows((1, "x", at, 0.5))).instant)
        time.sleep(0.002)
    first = instants[0]
    assert first is not None
    clock = datetime.strptime(first.time + "000", "%Y%m%d%H%M%S%f")
    for when in (first, first.time, clock, str(clock), clock.isoformat(), f" {clock} "):
        assert table.scan(as_of=when)["a"].to_pylist() == [0]
        assert len(table.file_groups(when)) == 1
        assert TableLookup(table.location, key="id", columns=["a"], as_of=when).get(1) == {"a": 0}
    tomorrow = clock.date() + timedelta(days=1)
    for when in (tomorrow, tomorrow.isoformat()):
        assert table.scan(as_of=when)["a"].to_pylist() == [2]
    for ask in (table.scan, table.dataset, partial(table.lookup, [1])):
        with pytest.raises(ValueError, match=f"no commit yet; .* the first commit is {first.time}"):
            ask(as_of=clock.date())
    expected = table.changes(first.position).read_all()
    assert expected.num_rows == 2
    moment = datetime.strptime(first.position + "000", "%Y%m%d%H%M%S%f")
    for since in (first, moment, str(moment)):
        assert table.changes(since).read_all().equals(expected)
        assert table.incremental(since, instants[1])["a"].to_pylist() == [1]
    tokyo = timezone(timedelta(hours=9))
    for zone in (timezone.utc, tokyo):
        zoned = moment.replace(tzinfo=timezone.utc).astimezone(zone)
        for since in (zoned, zoned.isoformat()):
            assert table.changes(since).read_all().equals(expected)
            assert table.scan(as_of=since).equals(table.scan(as_of=moment))
            assert len(table.file_groups(since)) == 1
    with pytest.MonkeyPatch.context() as patch:  # as a table of Java's that says nothing
        read = opening.read_options
        patch.setattr(opening, "read_options", lambda place: replace(read(place), timezone=None))
        for ask in (table.scan, table.file_groups, table.changes):
            with pytest.raises(ValueError, match="does not say that its instants are in UTC; give"):
                ask(**{"since" if ask == table.changes else "as_of": zoned})
    for wrong in ("2026-13-01", "2026-03-07 25:00", "20260307", "07.03.2026", 5):
        with pytest.raises(ValueError, match="give the time of an instant, 17 digits"):
            table.scan(as_of=wrong)
    with pytest.raises(ValueError, match=f"as_of is {first.time}; give .*, 17 digits as a text: "):
        table.scan(as_of=int(first.time))
    table.savepoint(first, user="u", comment="c")
    assert [one.time for one in table.timeline() if one.action == "savepoint"] == [first.time]
    table.delete_savepoint(first)
    table.rollback(instants[2])
    assert table.scan()["a"].to_pylist() == [1]


def test_what_is_gone(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id", name="t")
    instants = [table.upsert(rows((1, "x", at, 0.5))).instant for at in range(4)]
    positions = [one.position for one in instants if one is not None]
    table.clean(retain_commits=2)
    with pytest.raises(StaleStoreError, match=r"removed by the clean .* give a later since"):
        table.changes(positions[0])
    times = [one.time for one in instants if one is not None]
    with pytest.raises(StaleStoreError, match=r"removed by the clean .* give a later as_of"):
        table.scan(as_of=times[0])
    assert said(table, positions[2]) == [
        ("update_before", 1, "x", 2, 0.5),
        ("update_after", 1, "x", 3, 0.5),
    ]
    assert table.scan(as_of=times[2])["a"].to_pylist() == [2]


def test_a_commit_that_was_taken_back(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id", name="t")
    kept = table.insert(rows((1, "x", 1, 0.5))).instant
    table.savepoint()
    gone = table.upsert(rows((1, "x", 2, 0.5))).instant
    assert kept is not None
    assert gone is not None
    table.restore(kept.time)
    with pytest.raises(StaleStoreError, match="not the position of a commit, and the restore"):
        table.changes(gone.position)
    assert said(table, kept.position) == []


def test_request_times_stand_for_positions(table: HudiTable) -> None:
    done = [table.upsert(rows((1, "x", at, 0.5), (at + 2, "x", at, 0.5))) for at in range(3)]
    first, second, _ = (one.instant for one in done)
    assert first is not None
    assert second is not None
    assert said(table, first.time, second.time) == said(table, first, second)
    assert len(said(table, first.time, second.time)) == 3
    new = table.incremental(first.time, second.time, columns=["id", "_hoodie_commit_time"])
    assert new.equals(table.incremental(first, second, columns=["id", "_hoodie_commit_time"]))
    assert set(new["_hoodie_commit_time"].to_pylist()) == {second.time}


def test_a_rollback_of_what_began_later(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id", name="t")
    kept = table.insert(rows((1, "x", 1, 0.5))).instant
    assert kept is not None
    # A position after the commit, and before the next one is requested.
    after = datetime.strptime(kept.position, "%Y%m%d%H%M%S%f") + timedelta(milliseconds=1)
    between = after.strftime("%Y%m%d%H%M%S%f")[:-3]
    gone = table.upsert(rows((1, "x", 2, 0.5))).instant
    assert gone is not None
    assert gone.time > between
    table.rollback(gone)
    assert said(table, "2026-01-01") == [("insert", 1, "x", 1, 0.5)]
    assert said(table, between) == []
    with pytest.raises(StaleStoreError, match=f"the rollback .* removed {gone.time}, which may"):
        table.changes(gone.position)


def test_what_is_asked_for_wrongly(table: HudiTable, tmp_path: Path) -> None:
    one, two = (table.upsert(rows((1, "x", at, 0.5))).instant for at in range(2))
    assert one is not None
    assert two is not None
    with pytest.raises(ValueError, match="since is 'yesterday'; give the time"):
        table.changes("yesterday")
    with pytest.raises(ValueError, match="before since"):
        table.changes(two.position, one.position)
    with pytest.raises(KeyError, match="no column 'c'"):
        table.changes(columns=["c"])
    with pytest.raises(KeyError, match="no column 'c'"):
        table.changes(ignore=["c"])
    named = pa.schema({"id": pa.int64(), "change": pa.string()})
    other_table = HudiTable.create(tmp_path / "n", named, record_key="id", name="n")
    other_table.insert(pa.table({"id": [1], "change": ["x"]}))
    with pytest.raises(ValueError, match="a column 'change'"):
        other_table.changes()
    assert said(other_table, columns=["id"]) == [("insert", 1)]


def test_tables_that_do_not_say_when_rows_changed(merge_on_read_tables: Path) -> None:
    path = merge_on_read_tables / "mor_v6_nonpartitioned"
    table = HudiTable.open(path, query_type="read_optimized")
    with pytest.raises(FormatError, match="log files"):
        table.changes()
