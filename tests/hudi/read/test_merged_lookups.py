"""Lookups in merge-on-read tables: what log files change is applied to rows of lookup files."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.hudi.log_history import LogHistory, by_key, row
from support.hudi.log_tables import AVRO, CDC, COMMIT, EVENT, PARQUET, SCHEMA, LogTable, Row, block
from support.hudi.oracle import other_scan

from lookupstore.errors import CorruptionError, DuplicateKeyError, FormatError, StaleStoreError
from lookupstore.hostcache.cache import Residency
from lookupstore.hudi import HudiTable, TableLookup
from lookupstore.hudi.meta_columns import RECORD_KEY

VERSIONS = (6, 8, 9)
KEYS = {"mor_v6_nonpartitioned": "id", "mor_v9_txns_nonpart_nometa": "txn_id"}
ASKED = [*range(-1, 14), 3, 3, None]


def made(residency: Residency) -> set[str]:
    return {path.name for path in Path(residency.folder).glob("*.sst")}


def answers(rows: dict[str, Row], names: list[str]) -> list[Row]:
    """Return what a lookup of `ASKED` finds in rows by their keys."""
    missing = dict.fromkeys(names)
    found = [rows.get(str(key), missing) for key in ASKED]
    return [{name: one[name] for name in names} for one in found]


@pytest.mark.parametrize("build", ["never", "always"])
@pytest.mark.parametrize("name", KEYS)
def test_rows_of_every_instant(
    merge_on_read_tables: Path, name: str, build: Any, residency: Residency
) -> None:
    """The rows are those of scans, which equal those of hudi-rs."""
    path, key = merge_on_read_tables / name, KEYS[name]
    table = HudiTable.open(path)
    columns = table.view().table_schema.columns.names
    values = [one for one in columns if one != key]
    every = {one for time in table.view().timeline.writes()
             for one in table.scan(columns=key, as_of=time)[key].to_pylist()}  # fmt: skip
    assert len(every) > 3
    asked = [*sorted(every), None]
    for time in [*(one.time for one in table.view().timeline.writes()), None]:
        rows = {one[key]: one for one in table.scan(columns=columns, as_of=time).to_pylist()}
        theirs = other_scan(path, time)
        assert theirs is not None
        assert sorted(rows) == sorted(theirs[key].to_pylist())
        opened = TableLookup(path, as_of=time, build=build, residency=residency)
        found = opened.lookup(asked, values, found=True)
        assert found["found"].to_pylist() == [one in rows for one in asked]
        missing = dict.fromkeys(values)
        wanted = [rows.get(one, missing) for one in asked]
        assert found.select(values).to_pylist() == [
            {name: one[name] for name in values} for one in wanted
        ]
        assert opened.contains(asked) == found["found"].combine_chunks()
        assert opened.num_rows == len(rows)
        assert opened.verify().num_rows == len(rows)
        assert list(opened) == sorted(rows)
        assert pickle.loads(pickle.dumps(opened)).lookup(asked) == opened.lookup(asked)
    one = next(iter(rows))
    assert table.get(one) == {name: rows[one][name] for name in values}
    assert one in table


@pytest.mark.parametrize("mode", [EVENT, COMMIT])
@pytest.mark.parametrize("version", VERSIONS)
def test_random_histories(
    tmp_path: Path, residency: Residency, version: int, mode: str, seed: int
) -> None:
    rng = random.Random(seed)
    for number in range(4):
        history = LogHistory(tmp_path / str(number), rng, version, mode)
        path = history.table.path
        if rng.random() < 0.8 or version == 6:
            history.insert()
        states = {}
        first: TableLookup | None = None
        for _ in range(rng.randrange(1, 10)):
            (history.compact if rng.random() < 0.15 else history.delta)()
            rows = history.rows()
            names = rng.sample(["ts", "value"], rng.randrange(3))
            opened = TableLookup(path, columns=names, build=rng.choice(["never", "always"]),
                                 residency=residency)  # fmt: skip
            found = opened.lookup(ASKED, found=True)
            assert found.select(names).to_pylist() == answers(rows, names)
            assert found["found"].to_pylist() == [str(key) in rows for key in ASKED]
            least = rng.randrange(90, 110)
            met = {key: one for key, one in rows.items()
                   if one["ts"] >= least and one["value"] is not None}  # fmt: skip
            where = [("ts", ">=", least), ("value", "is not null")]
            some = TableLookup(path, where=where, residency=residency)
            assert some.lookup(ASKED).to_pylist() == answers(met, ["ts", "value"])
            kept = some.scan().read_all().to_pylist()
            assert kept == sorted(met.values(), key=lambda one: one["id"])
            writes = history.table.opened().view().timeline.writes()
            if writes:
                states[max(one.position for one in writes)] = rows
            if first is None and writes:
                first = TableLookup(path, residency=residency)
        if first is None:
            continue
        for position, rows in states.items():
            assert first.at(position).lookup(ASKED).to_pylist() == answers(rows, ["ts", "value"])


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_are_the_rows_of_hudi_rs(
    tmp_path: Path, residency: Residency, version: int, seed: int
) -> None:
    """It merges by ordering values, whatever the merge mode."""
    rng = random.Random(seed)
    for number in range(4):
        table = LogTable(tmp_path / str(number), version)
        table.base("a-0", [row(key, rng.randrange(90, 110), "old") for key in range(8)])
        for _ in range(3):
            new = [row(key, rng.randrange(90, 110), "new") for key in rng.sample(range(12), 4)]
            table.delta("a-0", lambda time, table=table, new=new: table.data(time, new))
        theirs = other_scan(table.path)
        assert theirs is not None
        rows = {str(one["id"]): one for one in theirs.select(SCHEMA.names).to_pylist()}
        opened = TableLookup(table.path, build="always", residency=residency)
        assert opened.lookup(ASKED).to_pylist() == answers(rows, ["ts", "value"])
        # The ordering column decides also where it is not asked for.
        opened = TableLookup(table.path, columns="value", residency=residency)
        assert opened.lookup(ASKED).to_pylist() == answers(rows, ["value"])


def test_instants_of_one_log_file(tmp_path: Path, residency: Residency) -> None:
    """In version 6, the file is the same for lookups as of each of them."""
    table = LogTable(tmp_path / "t", 6)
    table.base("a-0", [row(1, 1)])
    times = [table.delta("a-0", lambda time, key=key: table.data(time, [row(key, 1)])).time
             for key in (2, 3)]  # fmt: skip
    found = [TableLookup(table.path, as_of=time, residency=residency) for time in times]
    assert [list(one) for one in found] == [[1, 2], [1, 2, 3]]
    assert found[0] != found[1]
    assert found[1] != TableLookup(table.path, where="id = 1", as_of=times[1])


def test_a_position_before_an_instant_that_was_requested_first(
    tmp_path: Path, residency: Residency
) -> None:
    table = LogTable(tmp_path / "t", 9)
    late = table.begin("deltacommit")
    base = table.base("a-0", [row(1, 1, "old")])
    opened = TableLookup(table.path, residency=residency)
    table.log("a-0", late.time, table.data(late.time, [row(1, 2, "late")]))
    table.log("b-0", late.time, table.data(late.time, [row(2, 2, "late")]))
    table.finish(late, schema=SCHEMA)
    assert opened.at().lookup([1, 2])["value"].to_pylist() == ["late", "late"]
    newer = TableLookup(table.path, residency=residency)
    assert newer.at(base.position).lookup([1, 2])["value"].to_pylist() == ["old", None]


def test_lookup_files_do_not_depend_on_log_files(tmp_path: Path, residency: Residency) -> None:
    table = LogTable(tmp_path / "t", 9)
    table.base("a-0", [row(key, 10, "old") for key in range(4)])
    table.base("b-0", [row(key, 10, "old") for key in range(4, 8)])

    def values() -> list[str | None]:
        opened = TableLookup(table.path, build="always", residency=residency)
        found: list[str | None] = opened.lookup(list(range(9)))["value"].to_pylist()
        return found

    assert values() == ["old"] * 8 + [None]
    before = made(residency)
    assert len(before) == 2
    table.delta("a-0", lambda time: table.data(time, [row(1, 11, "new"), row(8, 1, "more")]))
    table.delta("b-0", lambda time: table.deletes(time, [("5", "long", 11), ("6", "long", 9)]))
    assert values() == ["old", "new", "old", "old", "old", None, "old", "old", "more"]
    assert made(residency) == before
    table.base("a-0", [row(key, 12, "compacted") for key in (0, 1, 2, 3, 8)], "compaction")
    assert values() == ["compacted"] * 4 + ["old", None, "old", "old", "compacted"]
    assert len(made(residency) - before) == 1


def test_rows_of_files_without_a_base_file(tmp_path: Path, residency: Residency) -> None:
    table = LogTable(tmp_path / "t", 9)
    table.delta("a-0", lambda time: table.data(time, [row(1, 1), row(2, 1)]))
    table.delta("a-0", lambda time: table.deletes(time, [("2", "int", 0)]))
    opened = TableLookup(table.path, residency=residency)
    assert opened.lookup([1, 2])["value"].to_pylist() == ["a", None]
    assert (opened.num_files, opened.num_rows) == (2, 1)
    assert opened.info().files == opened.verify().files == 2
    assert list(opened) == [1]
    table.base("b-0", [row(1, 5, "other")])
    with pytest.raises(DuplicateKeyError, match=r"'1' is in .*\.log\.1_.* and in .*parquet"):
        TableLookup(table.path, residency=residency).lookup([1])
    # One of the two rows meets the condition.
    chosen = TableLookup(table.path, where=("value", "=", "other"), residency=residency)
    assert chosen.lookup([1, 2])["value"].to_pylist() == ["other", None]


def test_a_key_that_a_base_file_has_twice(tmp_path: Path, residency: Residency) -> None:
    """Hudi changes the first of the rows; a lookup has one row for a key."""
    table = LogTable(tmp_path / "t", 9, COMMIT)
    table.base("a-0", [row(1, 1, "one"), row(1, 1, "two"), row(2, 1)])
    table.delta("a-0", lambda time: table.data(time, [row(1, 5, "new")]))
    for build in ("never", "always"):
        opened = TableLookup(table.path, build=build, residency=residency)
        with pytest.raises(DuplicateKeyError, match=r"'1' is in several rows of"):
            opened.lookup([1])


@pytest.mark.parametrize("partition_key", [False, True])
def test_keys_of_partitions(tmp_path: Path, residency: Residency, partition_key: bool) -> None:
    schema = SCHEMA.append(pa.field("day", pa.string()))
    table = LogTable(tmp_path / "t", 9, EVENT, schema, partition_by=["day"])

    def rows(day: str, *some: Row) -> list[Row]:
        return [{**one, "day": day} for one in some]

    instant = table.begin("deltacommit")
    stats = []
    for key, day in enumerate(("mo", "tu")):
        some = rows(day, row(key, 10), row(9, 10))
        stats.append(table.write(instant.time, f"{day}-0", some, f"day={day}", schema=schema))
    table.finish(instant, stats, schema=schema)
    new, gone = rows("mo", row(5, 11, "new")), ("9", "long", 11)
    table.delta("mo-0", lambda time: table.data(time, new), partition="day=mo")
    table.delta("tu-0", lambda time: table.deletes(time, [gone]), partition="day=tu")
    if not partition_key:
        opened = TableLookup(table.path, key="id", residency=residency)
        found = opened.lookup([0, 1, 5, 9])
        assert found["day"].to_pylist() == ["mo", "tu", "mo", "mo"]
        assert found["value"].to_pylist() == ["a", "a", "new", "a"]
        return
    opened = TableLookup(table.path, residency=residency)
    asked = {"id": [0, 0, 5, 5, 9, 9], "day": ["mo", "tu"] * 3}
    assert opened.lookup(asked)["value"].to_pylist() == ["a", None, "new", None, "a", None]


@pytest.mark.parametrize(("version", "kind"), [(6, AVRO), (8, AVRO), (9, AVRO), (9, PARQUET)])
def test_damaged_log_files(tmp_path: Path, residency: Residency, version: int, kind: int) -> None:
    """Lookups and `verify` find the damage that scans find, and never return less."""
    table = LogTable(tmp_path / "t", version)
    table.base("a-0", [row(1, 1), row(2, 1)])
    table.delta("a-0", lambda time: table.data(time, [row(1, 2, "new")], kind))
    table.delta("a-0", lambda time: table.deletes(time, [("2", "long", 2)]))
    logs = sorted(table.path.glob(".a-0*.log.*"))
    true = [log.read_bytes() for log in logs]
    wanted = by_key(row(1, 2, "new"))
    changed = 0
    for log, content in zip(logs, true, strict=True):
        cuts = [content[:length] for length in range(0, len(content), 13)]
        flips = [content[:at] + bytes([content[at] ^ 0x40]) + content[at + 1 :]
                 for at in range(0, len(content), 11)]  # fmt: skip
        for damaged in (*cuts, *flips):
            log.write_bytes(damaged)

            def opened() -> TableLookup:
                return TableLookup(table.path, residency=residency)

            try:
                scanned = table.opened().scan(columns=[RECORD_KEY, "ts", "value"])
                rows: Any = {one[RECORD_KEY]: one for one in scanned.to_pylist()}
            except (CorruptionError, FormatError) as error:
                with pytest.raises(type(error)):
                    opened().lookup([1, 2])
                with pytest.raises(type(error)):
                    opened().verify()
                changed += isinstance(error, CorruptionError)
            else:
                assert opened().lookup([1, 2]).to_pylist() == [
                    {name: rows.get(key, {}).get(name) for name in ("ts", "value")}
                    for key in ("1", "2")
                ]
        log.write_bytes(content)
    assert changed > 20
    whole = TableLookup(table.path, residency=residency)
    assert whole.lookup([1, 2])["value"].to_pylist() == [wanted["1"]["value"], None]
    logs[0].unlink()
    with pytest.raises(StaleStoreError, match="deleted by a clean or a rollback"):
        TableLookup.lookup(pickle.loads(pickle.dumps(whole)), [1])
    whole.close()  # forgets the changes
    with pytest.raises(StaleStoreError, match="deleted by a clean or a rollback"):
        whole.lookup([1])


def test_what_scans_refuse_is_refused(tmp_path: Path, residency: Residency) -> None:
    table = LogTable(tmp_path / "t", 9)
    table.base("a-0", [row(1, 1)])
    opened = TableLookup(table.path, residency=residency)
    table.delta("a-0", lambda time: block(CDC, table.headers(time), b""))
    with pytest.raises(FormatError, match=r"\.log\.1_.*CDC"):
        opened.at().lookup([1])
    older = LogTable(tmp_path / "older", 6)
    older.properties(lambda said: "".join(
        line for line in said.splitlines(keepends=True) if "payload" not in line))  # fmt: skip
    older.base("a-0", [row(1, 10, "old"), row(2, 10)])
    older.delta("a-0", lambda time: older.data(time, [row(1, 5, "new")]))
    with pytest.raises(FormatError, match="versions of Hudi return different rows"):
        TableLookup(older.path, residency=residency).lookup([1])
    assert TableLookup(older.path, residency=residency).lookup([2])["value"].to_pylist() == ["a"]


def test_an_open_table_keeps_its_query_type(tmp_path: Path, residency: Residency) -> None:
    table = LogTable(tmp_path / "t", 9)
    table.base("a-0", [row(1, 1, "old")])
    table.delta("a-0", lambda time: table.data(time, [row(1, 2, "new")]))
    base_files = HudiTable.open(table.path, query_type="read_optimized")
    assert base_files.get(1)["value"] == "old"
    assert (
        TableLookup(base_files, residency=residency).at().lookup([1])["value"][0].as_py() == "old"
    )
    assert HudiTable.open(table.path).get(1)["value"] == "new"
