"""Snapshots of merge-on-read tables: base files with the changes of log files."""

from __future__ import annotations

import datetime
import io
import json
import pickle
import random
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.hudi.log_history import LogHistory, by_key, row
from support.hudi.log_tables import (
    AVRO,
    CDC,
    COMMIT,
    COMPACTED,
    EVENT,
    PARQUET,
    PARTIAL,
    SCHEMA,
    LogTable,
    Row,
    block,
    deletes_content,
)
from support.hudi.oracle import assert_same_rows, other_scan

import lookupstore
from lookupstore.errors import CorruptionError, FormatError, StaleStoreError
from lookupstore.hudi import HudiTable
from lookupstore.hudi.file_group import scan
from lookupstore.hudi.log import merged_rows
from lookupstore.hudi.log.slices import MergedSlice
from lookupstore.hudi.options import names
from lookupstore.hudi.read import plan_scan

VERSIONS = (6, 8, 9)
NAMES = {"mor_v6_nonpartitioned": "id", "mor_v9_txns_nonpart_nometa": "txn_id"}


@pytest.mark.parametrize("name", NAMES)
def test_every_instant_is_what_hudi_rs_reads(merge_on_read_tables: Path, name: str) -> None:
    """Updates in Avro and Parquet blocks, deletes, a compaction, a clustering."""
    path = merge_on_read_tables / name
    table = HudiTable.open(path)
    times = [one.time for one in table.view().timeline.writes()]
    counts = {
        "mor_v6_nonpartitioned": [3, 4],
        "mor_v9_txns_nonpart_nometa": [8, 8, 7, 7, 6, 6, 8, 10, 12, 12, 12, 14],
    }
    for time, count in zip([*times, None], [*counts[name], counts[name][-1]], strict=True):
        rows = table.scan(as_of=time)
        assert rows.num_rows == count
        assert_same_rows(rows, other_scan(path, time))
    assert len(table) == counts[name][-1]
    assert table.partitions() == [""]


@pytest.mark.parametrize("name", NAMES)
def test_other_reads_have_the_same_rows(
    merge_on_read_tables: Path, name: str, tmp_path: Path
) -> None:
    path, key = merge_on_read_tables / name, NAMES[name]
    table = HudiTable.open(path)
    # Before the compaction, more rows are in log files.
    time = table.view().timeline.writes()[min(5, len(table.timeline()) - 1)].time
    everything = table.scan(as_of=time)
    some = list(reversed(everything.column_names[5:9]))
    assert table.scan(columns=some, as_of=time) == everything.select(some)
    assert table.scan_batches(as_of=time).read_all() == everything
    assert table.scan(columns=[], as_of=time).num_rows == everything.num_rows
    assert table.scan(as_of=time, limit=2) == everything.slice(0, 2)
    for value in [*everything[key].to_pylist(), None]:
        wanted = everything.filter(pc.equal(everything[key], value))
        assert table.scan(filter=pc.field(key) == value, as_of=time) == wanted
        assert table.scan(filter=pc.field(key) == value, as_of=time, audit=1) == wanted
    plan = pickle.loads(pickle.dumps(plan_scan(table.view(), as_of=time)))
    parts = [batch for part in plan.parts(1, 9) for batch in plan.batches(part)]
    assert pa.Table.from_batches(parts, everything.schema) == everything
    rows = table.scan(columns=table.view().table_schema.columns.names)
    with lookupstore.build(path, tmp_path / "store", key=key) as store:
        values = store.lookup(rows[key].to_pylist())
        assert values == rows.select(values.column_names)
        assert len(store) == rows.num_rows


def test_what_reads_base_files_only_is_refused_by_name(merge_on_read_tables: Path) -> None:
    path, key = merge_on_read_tables / "mor_v6_nonpartitioned", "id"
    table = HudiTable.open(path)
    asked = table.scan(columns=[key])
    for call in (
        lambda: lookupstore.ColumnarFiles(path, key=key),
        lambda: table.tag(asked),
        lambda: table.file_groups(),
        lambda: table.layout_health(),
    ):
        with pytest.raises(FormatError, match=r"MERGE_ON_READ.*query_type='read_optimized'"):
            call()
    assert table.verify() == HudiTable.open(path, query_type="read_optimized").verify()
    for changes in (table.changes, table.incremental):
        with pytest.raises(FormatError, match=r"MERGE_ON_READ.*log files"):
            changes()


def test_without_log_files_base_files_have_all_rows(merge_on_read_tables: Path) -> None:
    """The newest slices of the table were compacted, or written by a clustering."""
    path = merge_on_read_tables / "mor_v9_txns_nonpart_nometa"
    table = HudiTable.open(path)
    rows = table.scan()
    assert table.dataset().count_rows() == rows.num_rows
    assert len(table.file_groups()) == len(set(rows["_hoodie_file_name"].to_pylist()))
    found = table.lookup(rows["txn_id"].to_pylist(), ["amount"])
    assert found["amount"] == rows["amount"]
    with pytest.raises(FormatError, match=r"MERGE_ON_READ.*log files"):
        table.changes()
    time = table.view().timeline.writes()[1].time
    with pytest.raises(FormatError, match=r"MERGE_ON_READ.*query_type='read_optimized'"):
        table.file_groups(as_of=time)


def test_statistics_and_datasets_are_of_base_files(
    merge_on_read_tables: Path, tmp_path: Path
) -> None:
    path = Path(shutil.copytree(merge_on_read_tables / "mor_v6_nonpartitioned", tmp_path / "t"))
    HudiTable.open(path, query_type="read_optimized").collect_statistics()
    table = HudiTable.open(path)
    rows = table.scan()
    for name in ("id", "intField"):
        for value in [*rows[name].to_pylist(), -1]:
            assert table.scan(filter=(name, "=", value)) == rows.filter(pc.equal(rows[name], value))
    with pytest.raises(FormatError, match="log files"):
        table.dataset()
    with pytest.raises(FormatError, match="log files"):
        table.explain_scan(("id", "=", 1), row_groups=True)
    assert table.explain_scan(("id", "=", -1)).statistics.count == 1


@pytest.mark.parametrize("mode", [EVENT, COMMIT])
@pytest.mark.parametrize("version", VERSIONS)
def test_random_histories_are_merged_as_by_hudi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, mode: str, seed: int
) -> None:
    rng = random.Random(seed)
    for number in range(8):
        read_in_parts(monkeypatch, rng.choice([1, 3, 100]))
        history = LogHistory(tmp_path / str(number), rng, version, mode)
        if rng.random() < 0.8 or version == 6:
            history.insert()
        for _ in range(rng.randrange(1, 12)):
            (history.compact if rng.random() < 0.15 else history.delta)()
            assert history.table.rows() == history.rows()


def random_changes(table: LogTable, time: str, rng: random.Random) -> bytes:
    """Return blocks with rows and, where they are not refused, deletes with ordering values."""
    rows = [row(key, rng.randrange(90, 110), "new") for key in rng.sample(range(12), 4)]
    deletes = [(str(key), "long", rng.randrange(90, 110)) for key in rng.sample(range(12), 2)]
    data = table.data(time, rows, rng.choice([AVRO, PARQUET]))
    return data if table.version == 6 else data + table.deletes(time, deletes)


@pytest.mark.parametrize("version", VERSIONS)
def test_hudi_rs_merges_random_changes_alike(tmp_path: Path, version: int, seed: int) -> None:
    """By ordering values; it reads neither HFile blocks nor the merge mode of the properties."""
    rng = random.Random(seed)
    for number in range(6):
        table = LogTable(tmp_path / str(number), version)
        table.base("a-0", [row(key, rng.randrange(90, 110), "old") for key in range(8)])
        for _ in range(3):
            table.delta("a-0", lambda time, table=table: random_changes(table, time, rng))
        assert_same_rows(table.opened().scan(), other_scan(table.path))


def test_rows_marked_as_deleted(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))

    def marked(key: int, ts: int | None, deleted: bool | None) -> Row:
        return {**row(key, ts), "_hoodie_is_deleted": deleted}

    table = LogTable(tmp_path / "t", 9, EVENT, schema)
    base = [marked(key, 10, None) for key in range(5)]
    table.base("a-0", base)
    rows = [marked(0, 11, True), marked(1, 9, True), marked(2, 11, False), marked(3, None, True)]
    table.delta("a-0", lambda time: table.data(time, [*rows, marked(8, 5, True)]))
    assert table.rows() == by_key(base[1], rows[2], base[4])


def test_zero_of_the_type_int_is_no_ordering_value_of_a_delete(tmp_path: Path) -> None:
    schema = pa.schema(
        {"id": pa.int32(), "ts": pa.int32(), "value": pa.string(), "_hoodie_is_deleted": pa.bool_()}
    )
    table = LogTable(tmp_path / "t", 9, EVENT, schema)
    base = [{**row(key, 10), "_hoodie_is_deleted": None} for key in (1, 2, 3)]
    table.base("a-0", base)
    marked = [{**row(key, ts), "_hoodie_is_deleted": True} for key, ts in ((1, 0), (2, 1))]
    table.delta("a-0", lambda time: table.data(time, marked))
    assert table.rows() == by_key(*base[1:])


@pytest.mark.parametrize(
    ("kind", "values", "name"),
    [
        (pa.int32(), (1, 2, 3), "int"),
        (pa.string(), ("a", "b", "c"), "string"),
        (pa.float64(), (-1.5, 0.0, 2.5), "double"),
        (pa.date32(), (1, 2, 3), "date"),
        (pa.timestamp("us", "UTC"), (1, 2, 3), "long"),
    ],
)
@pytest.mark.parametrize("encoding", [AVRO, PARQUET])
def test_types_of_ordering_values(
    tmp_path: Path, kind: pa.DataType, values: tuple[Any, ...], name: str, encoding: int
) -> None:
    schema = pa.schema({"id": pa.int32(), "ts": kind, "value": pa.string()})
    stored = pa.array(values, pa.int32() if pa.types.is_date32(kind) else None)
    low, middle, _ = stored.cast(kind).to_pylist()
    table = LogTable(tmp_path / "t", 9, EVENT, schema)
    base = [row(key, middle, "old") for key in range(5)]
    table.base("a-0", base)
    table.delta(
        "a-0",
        lambda time: (
            table.data(time, [row(0, low, "new"), row(1, middle, "new")], encoding)
            + table.deletes(time, [("2", name, values[0]), ("3", name, values[2]), ("4", "int", 0)])
        ),
    )
    wanted = by_key(base[0], row(1, middle, "new"), base[2])
    assert table.rows() == wanted
    other = ("string", "a") if name != "string" else ("long", 7)
    table.delta("a-0", lambda time: table.deletes(time, [("1", *other)]))
    with pytest.raises(FormatError, match=f"ordering value of the type {other[0]}"):
        table.rows()


def test_nested_values_in_avro_blocks(tmp_path: Path) -> None:
    decimal = pa.decimal128(12, 3)
    numbers = pa.list_(pa.field("element", pa.int64()))
    schema = pa.schema(
        {
            "id": pa.int32(), "ts": pa.int64(), "flag": pa.bool_(), "ratio": pa.float32(),
            "raw": pa.binary(), "day": pa.date32(), "clock": pa.time64("us"),
            "at": pa.timestamp("ms", "UTC"), "price": decimal,
            "prices": pa.list_(pa.field("element", decimal)),
            "days": pa.map_(pa.string(), pa.date32()),
            "deep": pa.struct({"a": pa.list_(pa.field("element", pa.struct({"d": decimal}))),
                               "m": pa.map_(pa.string(), numbers)}),
        }
    )  # fmt: skip
    utc = datetime.timezone.utc
    full = {
        "id": 1, "ts": 1, "flag": True, "ratio": 0.5, "raw": b"\x00\xff",
        "day": datetime.date(1969, 12, 31), "clock": datetime.time(1, 2, 3, 4),
        "at": datetime.datetime(1960, 1, 2, tzinfo=utc), "price": Decimal("-123456789.012"),
        "prices": [Decimal("0.001"), None, Decimal("-1.000")],
        "days": [("k", None), ("l", datetime.date(2020, 2, 29))],
        "deep": {"a": [{"d": Decimal("7.000")}, None, {"d": None}],
                 "m": [("x", [1, None]), ("y", [])]},
    }  # fmt: skip
    empty = dict.fromkeys(schema.names) | {"id": 2, "ts": 1}
    short = empty | {"id": 3, "prices": [], "days": [], "deep": {"a": None, "m": []}}
    table = LogTable(tmp_path / "t", 9, EVENT, schema)

    def as_avro(one: Row) -> Row:
        """Return a row in which maps are as Avro has them."""
        made = dict(one)
        if made["days"] is not None:
            made["days"] = dict(made["days"])
        if made["deep"] is not None:
            made["deep"] = {**made["deep"], "m": dict(made["deep"]["m"])}
        return made

    rows = [full, empty, short]
    table.delta("a-0", lambda time: table.data(time, [as_avro(one) for one in rows]))
    assert table.rows() == by_key(*rows)
    table.delta("a-0", lambda time: table.data(time, rows, PARQUET))
    assert table.rows() == by_key(*rows)


def test_older_blocks_have_fewer_columns_and_narrower_types(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", 9)
    table.base("a-0", [row(1, 1), row(2, 1)])
    table.delta("a-0", lambda time: table.data(time, [row(1, 2, "b")]))
    wide = pa.schema({"id": pa.int64(), "ts": pa.int64(), "value": pa.string(), "new": pa.bool_()})
    table.finish(table.begin("deltacommit"), schema=wide)
    rows = table.opened().scan(columns=wide.names)
    assert rows.schema == wide
    assert rows.to_pylist() == [{**row(1, 2, "b"), "new": None}, {**row(2, 1), "new": None}]
    narrow = pa.schema({"id": pa.int32(), "ts": pa.int64(), "value": pa.int32()})
    table.finish(table.begin("deltacommit"), schema=narrow)
    with pytest.raises(FormatError, match="does not promote"):
        table.opened().scan()


def read_in_parts(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Let base files be read, and merged, a few rows at a time."""
    said = {"use_threads": False, "batch_size": rows}
    monkeypatch.setattr(scan, "_ahead", lambda _rows, threads: said)
    monkeypatch.setattr(merged_rows, "_ROWS", rows)


@pytest.mark.parametrize("rows", [1, 100])
def test_of_stored_rows_with_one_key_the_first_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    read_in_parts(monkeypatch, rows)
    table = LogTable(tmp_path / "t", 9)
    table.base("a-0", [row(1, 1, "one"), row(1, 1, "two"), row(2, 1)])
    table.delta("a-0", lambda time: table.data(time, [row(1, 5, "new")]))
    assert table.opened().scan(columns=["value"])["value"].to_pylist() == ["new", "two", "a"]


def test_a_delete_and_a_row_that_is_older_than_the_stored_one(tmp_path: Path) -> None:
    """Hudi compares what is left of the log with the base file, and the stored row is back."""
    table = LogTable(tmp_path / "t", 9)
    table.base("a-0", [row(1, 10, "old")])
    table.delta("a-0", lambda time: table.deletes(time, [("1", "int", 0)]))
    assert table.rows() == {}
    table.delta("a-0", lambda time: table.data(time, [row(1, 5, "new")]))
    assert table.rows() == by_key(row(1, 10, "old"))


def without_payload(said: str) -> str:
    """Return properties that do not name a payload class."""
    kept = [line for line in said.splitlines(keepends=True) if "payload" not in line]
    return "".join(kept)


@pytest.mark.parametrize("mode", [EVENT, COMMIT, None])
def test_what_versions_of_hudi_merge_differently_is_refused(
    tmp_path: Path, mode: str | None
) -> None:
    """In tables of version 6, where a later change has a smaller ordering value."""

    def made(name: str) -> LogTable:
        table = LogTable(tmp_path / name, 6, mode or EVENT)
        if mode is None:
            table.properties(without_payload)
        table.base("a-0", [row(1, 10, "old"), row(2, 10, "old")])
        return table

    below = made("below")
    below.delta("a-0", lambda time: below.data(time, [row(1, 5, "new")]))
    if mode is None:
        with pytest.raises(FormatError, match="versions of Hudi return different rows"):
            below.rows()
    else:
        wanted = row(1, 5, "new") if mode == COMMIT else row(1, 10, "old")
        assert below.rows() == by_key(wanted, row(2, 10, "old"))
    falling = made("falling")
    falling.delta("a-0", lambda time: falling.data(time, [row(1, 20, "new"), row(1, 15, "later")]))
    if mode == EVENT:
        assert falling.rows() == by_key(row(1, 20, "new"), row(2, 10, "old"))
    else:
        with pytest.raises(FormatError, match="versions of Hudi return different rows"):
            falling.rows()
    deleted = made("deleted")
    deleted.delta("a-0", lambda time: deleted.deletes(time, [("1", "long", 5), ("2", "int", 0)]))
    if mode == COMMIT:
        assert deleted.rows() == {}
    else:
        with pytest.raises(FormatError, match="versions of Hudi return different rows"):
            deleted.rows()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        (names.MERGE_MODE, "CUSTOM"),
        (names.PAYLOAD, "com.example.Payload"),
        (names.STRATEGY, "00000000-0000-0000-0000-000000000000"),
        (names.PARTIAL, "IGNORE_DEFAULTS"),
        (f"{names.MERGE_PROPERTY}a.b", "c"),
        (names.LEGACY_PAYLOAD, "com.example.Payload"),
        (names.META_FIELDS, "false"),
    ],
)
def test_other_rules_are_refused_by_name(
    tmp_path: Path, version: int, name: str, value: str
) -> None:
    if version == 6 and name in (names.MERGE_MODE, names.STRATEGY):
        return
    table = LogTable(tmp_path / "t", version)
    table.base("a-0", [row(1, 1)])

    def changed(said: str) -> str:
        kept = [line for line in said.splitlines(keepends=True) if not line.startswith(name)]
        return "".join([*kept, f"{name}={value}\n"])

    table.properties(changed)
    with pytest.raises(FormatError, match=rf"{name} is '{value}'.*read_optimized"):
        table.opened()
    assert HudiTable.open(table.path, query_type="read_optimized").scan().num_rows == 1


def test_several_or_nested_ordering_columns_are_refused_by_name(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", 9)
    table.properties(lambda said: said.replace("ordering.fields=ts", "ordering.fields=ts,value"))
    with pytest.raises(FormatError, match=r"ordering\.fields is 'ts,value'"):
        table.opened()
    other = LogTable(tmp_path / "other", 9)
    other.properties(lambda said: said.replace("ordering.fields=ts", "ordering.fields=ts.a"))
    other.delta("a-0", lambda time: other.data(time, [row(1, 1)]))
    with pytest.raises(FormatError, match=r"ordering\.fields is 'ts.a'"):
        other.rows()


@pytest.mark.parametrize("version", VERSIONS)
def test_blocks_that_are_not_read_are_refused_by_name(tmp_path: Path, version: int) -> None:
    def refused(content: Callable[[LogTable, str], bytes], message: str) -> None:
        number = len(list(tmp_path.iterdir()))
        table = LogTable(tmp_path / str(number), version)
        table.base("a-0", [row(1, 1)])
        table.delta("a-0", lambda time: content(table, time))
        with pytest.raises(FormatError, match=message) as caught:
            table.rows()
        assert ".log.1_" in str(caught.value)
        assert "Apache Hudi" in str(caught.value)

    def with_header(name: int, value: bytes) -> Callable[[LogTable, str], bytes]:
        def made(table: LogTable, time: str) -> bytes:
            return block(AVRO, {**table.headers(time), name: value}, b"\x00\x00\x00\x03" + bytes(4))

        return made

    refused(lambda t, time: block(CDC, t.headers(time), b""), "CDC")
    refused(lambda t, time: block(7, t.headers(time), b""), "of kind 7")
    refused(lambda t, time: block(AVRO, t.headers(time), b"", version=2), "log block of version 2")
    refused(lambda t, time: block(AVRO, t.headers(time), bytes(8)), "version 0 of Avro data")
    refused(lambda t, time: block(1, t.headers(time), b"\x00\x00\x00\x02" + bytes(4)),
            "version 2 of delete blocks")  # fmt: skip
    refused(with_header(PARTIAL, b"true"), "partial updates")
    refused(with_header(COMPACTED, b"1,2"), "log compaction")
    refused(lambda t, time: block(0, {**t.headers(time), 1: b"1", 3: b"1"}, b""), "command b'1'")


def test_flink_operations_and_columns_by_id_are_refused_by_name(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("_hoodie_operation", pa.string()))
    table = LogTable(tmp_path / "t", 9, EVENT, schema)
    table.delta("a-0", lambda time: table.data(time, [{**row(1, 1), "_hoodie_operation": "D"}]))
    with pytest.raises(FormatError, match="_hoodie_operation"):
        table.opened().scan()


def test_rows_without_an_ordering_value_are_refused(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", 9)
    table.base("a-0", [row(1, None, "old")])
    table.delta("a-0", lambda time: table.data(time, [row(1, 3, "new")]))
    assert table.rows() == by_key(row(1, 3, "new"))
    table.delta("a-0", lambda time: table.data(time, [row(2, None)]))
    with pytest.raises(FormatError, match="without a value in the ordering column 'ts'"):
        table.rows()


def test_names_of_log_files(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", 9)
    table.base("a-0", [row(1, 1)])
    instant = table.delta("a-0", lambda time: table.data(time, [row(1, 2, "b")]))
    (log,) = table.path.glob(".a-0*.log.*")
    (table.path / f".{log.name}.crc").write_bytes(b"crc")
    log.with_name(f"{log.name}.cdc").write_bytes(b"for CDC queries")
    assert table.rows() == by_key(row(1, 2, "b"))
    other = log.with_name(f".a-0_{instant.time}.log.one")
    other.write_bytes(b"")
    with pytest.raises(FormatError, match="a log file whose name is not known"):
        table.rows()


def test_log_files_of_other_slices_do_not_count(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", 9)
    table.base("a-0", [row(1, 1)])
    table.delta("a-0", lambda time: table.data(time, [row(1, 2, "b"), row(2, 1)]))
    table.delta("b-0", lambda time: table.data(time, [row(3, 1, "log only")]))
    assert table.rows() == by_key(row(1, 2, "b"), row(2, 1), row(3, 1, "log only"))
    slices = table.opened().view().slices(None)
    assert [(type(one), one.group.file_id) for one in slices] == [
        (MergedSlice, "a-0"), (MergedSlice, "b-0")]  # fmt: skip
    table.base("a-0", [row(1, 9, "compacted")], "compaction")
    assert table.rows() == by_key(row(1, 9, "compacted"), row(3, 1, "log only"))


def test_replaced_groups_have_no_log_files(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", 9)
    table.base("a-0", [row(1, 1)])
    table.delta("a-0", lambda time: table.data(time, [row(1, 2, "b")]))
    instant = table.begin("replacecommit")
    stat = table.write(instant.time, "c-0", [row(7, 1)], schema=SCHEMA)
    table.finish(instant, [stat], {"": ("a-0",)}, schema=SCHEMA)
    assert table.rows() == by_key(row(7, 1))


def test_time_travel(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", 9)
    states = {}
    states[table.base("a-0", [row(1, 1)]).time] = by_key(row(1, 1))
    for ts in (2, 3):
        instant = table.delta("a-0", lambda time, ts=ts: table.data(time, [row(1, ts, "b")]))
        states[instant.time] = by_key(row(1, ts, "b"))
    states[table.base("a-0", [row(1, 3, "b")], "compaction").time] = by_key(row(1, 3, "b"))
    for time, rows in states.items():
        assert table.rows(as_of=time) == rows
    begun = table.opened().scan_batches(as_of=[*states][2])
    min(table.path.glob(".a-0*")).unlink()
    with pytest.raises(StaleStoreError, match="deleted by a clean"):
        begun.read_all()


def test_a_pending_compaction_of_version_6_begins_a_slice_of_log_files(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", 6)
    table.base("a-0", [row(1, 1), row(2, 1)])
    table.delta("a-0", lambda time: table.data(time, [row(1, 2, "b")]))
    compaction = table.begin("compaction")
    table.delta("a-0", lambda time: table.data(time, [row(2, 2, "c")]), compaction.time)
    wanted = by_key(row(1, 2, "b"), row(2, 2, "c"))
    assert table.rows() == wanted
    stat = table.write(compaction.time, "a-0", [row(1, 2, "b"), row(2, 1)], schema=SCHEMA)
    assert table.rows() == wanted
    table.finish(compaction, [stat], schema=SCHEMA)
    assert table.rows() == wanted


def test_blocks_of_archived_instants_count_unless_a_command_takes_them_back(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", 6)
    time = table.base("a-0", [row(1, 1), row(2, 1)]).time
    old, older = "20200101000000000", "20190101000000000"
    table.log("a-0", time, table.data(older, [row(1, 2, "b")]) + table.data(old, [row(2, 2, "c")]))
    assert table.rows() == by_key(row(1, 2, "b"), row(2, 2, "c"))
    table.log("a-0", time, table.rollback_block("20200102000000000", old), 2)
    assert table.rows() == by_key(row(1, 2, "b"), row(2, 1))


def test_deletes_after_a_delete_without_an_ordering_value(tmp_path: Path) -> None:
    """They are ignored until the key has a row again: the first delete keeps winning."""
    table = LogTable(tmp_path / "t", 9)
    table.base("a-0", [row(1, 10), row(2, 10)])
    deletes = [("1", "null", None), ("1", "long", 5), ("2", "long", 5)]
    table.delta("a-0", lambda time: table.deletes(time, deletes))
    assert table.rows() == by_key(row(2, 10))


def test_instants_requested_before_a_compaction_and_completed_after_it(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", 9)
    table.base("a-0", [row(1, 1)])
    late, early = table.begin("deltacommit"), table.begin("deltacommit")
    table.log("a-0", early.time, table.data(early.time, [row(1, 2, "early")]))
    table.finish(early, schema=SCHEMA)
    table.base("a-0", [row(1, 2, "early")], "compaction")
    table.log("a-0", late.time, table.data(late.time, [row(1, 3, "late")]))
    assert table.rows() == by_key(row(1, 2, "early"))
    table.finish(late, schema=SCHEMA)
    assert table.rows() == by_key(row(1, 3, "late"))
    (merged_slice,) = table.opened().view().slices(None)
    assert isinstance(merged_slice, MergedSlice)
    assert [log.time for log in merged_slice.logs] == [late.time]


def test_a_key_that_is_not_one(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", 9)

    def keyless(time: str) -> bytes:
        rows = [{**one, "_hoodie_record_key": None} for one in table.with_meta(time, [row(1, 1)])]

        into = io.BytesIO()
        fastavro.schemaless_writer(into, fastavro.parse_schema(json.loads(table.avro)), rows[0])
        record = into.getvalue()
        content = b"\x00\x00\x00\x03\x00\x00\x00\x01" + len(record).to_bytes(4, "big") + record
        return block(AVRO, table.headers(time), content)

    table.delta("a-0", keyless)
    with pytest.raises(CorruptionError, match="_hoodie_record_key"):
        table.rows()


def test_an_empty_delete_block_deletes_nothing(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", 9)
    table.base("a-0", [row(1, 1)])
    table.delta("a-0", lambda time: table.deletes(time, []))
    assert deletes_content([]) == b"\x00\x00\x00\x03\x00\x00\x00\x01\x00"
    assert table.rows() == by_key(row(1, 1))
