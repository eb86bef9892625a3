"""Paimon tables as sources: tables of pypaimon, and random histories beside a model."""

from __future__ import annotations

import datetime
import json
import pickle
import random
import shutil
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.histories.paimon import ROWS, TYPES, PaimonHistory
from support.paimon_tables import BITMAP, BITMAP64, PaimonTable

import lookupstore
from lookupstore import CorruptionError, FormatError, LookupStoreError, StaleStoreError
from lookupstore.columnar import ColumnarFiles
from lookupstore.source.opening import open_source
from lookupstore.source.table_objects import source_at
from lookupstore.tables.paimon import merge
from lookupstore.tables.paimon.avro_file import records_of


def rows_of(source: Any) -> Counter[str]:
    """Return the rows of a source, however often it has each."""
    opened = open_source(source)
    batches = opened.batches(opened.schema.names)
    return counted(pa.Table.from_batches(batches, opened.schema).to_pylist())


def counted(rows: Sequence[Mapping[str, Any]]) -> Counter[str]:
    return Counter(str(sorted(row.items())) for row in rows)


def table_of(ids: Sequence[int], name: str = "n", at: int | None = 0) -> pa.Table:
    rows = {"id": ids, "name": [f"{name}{one}" for one in ids], "at": [at] * len(ids)}
    return pa.table(rows, schema=TYPES)


@pytest.mark.parametrize("number", range(12))
def test_every_snapshot_of_a_random_history_is_merged(
    tmp_path: Path, seed: int, number: int
) -> None:
    history = PaimonHistory(tmp_path / "t", seed + number)
    fingerprints = set()
    for turn in range(8):
        history.change()
        source = open_source(tmp_path / "t")
        expected = history.expected()
        found = pa.Table.from_batches(source.batches(source.schema.names), source.schema)
        assert counted(found.to_pylist()) == counted(expected), (number, turn)
        assert source.count_rows() in (None, len(expected))
        fingerprints.add(source.fingerprint)
        some = [row for row in expected if (row["at"] or 0) > 1]
        with lookupstore.build(
            tmp_path / "t",
            tmp_path / "s",
            key=history.table.primary_keys,
            nullable_keys=history.table.partition_keys,
            where=pc.field("at") > 1,
            overwrite=True,
            allow_empty=True,
        ) as store:
            assert counted(store.scan().read_all().to_pylist()) == counted(some)
    assert len(fingerprints) == 8


def test_lookups_in_files_leave_out_replaced_rows(tmp_path: Path, seed: int) -> None:
    history = PaimonHistory(tmp_path / "t", seed)
    for _ in range(8):
        history.change()
    keys = history.table.primary_keys
    rows = [row for row in history.expected() if None not in [row[name] for name in keys]]
    given = pa.table({
        name: pa.array([row[name] for row in rows], pa.int32() if name == "id" else pa.string())
        for name in keys
    })  # fmt: skip
    with ColumnarFiles(tmp_path / "t", key=keys) as files:
        assert files.lookup(given).column("name").to_pylist() == [row["name"] for row in rows]
        wanted = {tuple(row[name] for name in keys) for row in rows}
        gone = [one for one in range(30) if not any(key[0] == one for key in wanted)]
        if gone and keys == ["id"]:
            assert files.lookup(gone).column("name").to_pylist() == [None] * len(gone)


def test_other_processes_find_replaced_rows(tmp_path: Path, seed: int) -> None:
    history = PaimonHistory(tmp_path / "t", seed)
    for _ in range(6):
        history.change()
    files = [file for file in snapshot_files(tmp_path) if file.deleted is not None]
    for file in files:
        sent = pickle.loads(pickle.dumps(file))
        assert sent.deleted.load().identity == file.deleted.load().identity
        assert sent.identity == file.identity


def test_tables_of_pypaimon_have_the_rows_that_it_reads(golden: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(golden / "paimon" / "tables" / "pypaimon.zip") as archive:
        archive.extractall(tmp_path)
    tables = sorted(tmp_path.rglob("rows.json"))
    assert len(tables) == 6
    for expected in tables:
        source = open_source(expected.parent)
        found = pa.Table.from_batches(source.batches(source.schema.names), source.schema)
        plain = json.loads(json.dumps(found.to_pylist(), default=str))
        assert counted(plain) == counted(json.loads(expected.read_text())), expected.parent.name


def test_tables_of_java_have_the_rows_that_it_reads(golden: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(golden / "paimon" / "tables" / "java.zip") as archive:
        archive.extractall(tmp_path)
    snapshots = 0
    for expected in sorted(tmp_path.rglob("rows.json")):
        for number, rows in json.loads(expected.read_text()).items():
            source = source_at(str(expected.parent), version=int(number), as_of=None)
            found = pa.Table.from_batches(source.batches(source.schema.names), source.schema)
            plain = json.loads(json.dumps(found.to_pylist(), default=str))
            assert counted(plain) == counted(rows), (expected.parent.name, number)
            snapshots += 1
    assert snapshots == 105


def test_a_replaced_row_of_pypaimon(golden: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(golden / "paimon" / "tables" / "replaced-row.zip") as archive:
        archive.extractall(tmp_path)
    with lookupstore.build(tmp_path / "t", tmp_path / "s", key="id") as store:
        assert len(store) == 3
        assert store[1]["name"] == "new"
        assert store.info().source == f"Paimon table {tmp_path}/t at snapshot 2"


def test_the_number_of_deletions_in_new_files_is_not_believed(tmp_path: Path) -> None:
    """pypaimon writes 0, whatever the rows are."""
    table = PaimonTable(tmp_path / "t", ROWS, ["id"])
    table.commit(table.add(table_of([1, 2, 3, 4]), kinds=[0, 3, 2, 1], _DELETE_ROW_COUNT=0))
    with lookupstore.build(tmp_path / "t", tmp_path / "s", key="id") as store:
        assert list(store) == [1, 3]


# ---- deletion vectors


@pytest.mark.parametrize("magic", [BITMAP, BITMAP64])
@pytest.mark.parametrize("merge_on_read", [True, False])
def test_deletion_vectors_of_a_table_with_a_key(
    tmp_path: Path, magic: int, merge_on_read: bool
) -> None:
    options = {
        "deletion-vectors.enabled": "true",
        "deletion-vectors.merge-on-read": str(merge_on_read).lower(),
    }
    table = PaimonTable(tmp_path / "t", ROWS, ["id"], options=options)
    old = table.add(table_of(range(10), "old"), level=5, sequence=range(10))
    new = table.add(table_of([3, 4], "new"), level=4, sequence=[10, 11])
    # Level 0 is not compacted: it counts for merge-on-read only.
    newest = table.add(table_of([4, 20], "newest"), sequence=[12, 13])
    table.commit(old, new, newest, vectors={old.name: [3, 4, 7]}, magic=magic)
    expected = {one: f"old{one}" for one in range(10) if one != 7}
    expected |= {3: "new3", 4: "new4"} | ({4: "newest4", 20: "newest20"} if merge_on_read else {})
    with lookupstore.build(tmp_path / "t", tmp_path / "s", key="id") as store:
        assert {key: row["name"] for key, row in store.items()} == expected
    counts = [one.count for one in (file.deleted for file in snapshot_files(tmp_path)) if one]
    assert counts == [None, None, None] if merge_on_read else counts == [3]


def snapshot_files(tmp_path: Path) -> Sequence[Any]:
    from lookupstore.tables.paimon.planner import table_snapshot

    return table_snapshot(str(tmp_path / "t")).files


def test_deletion_vectors_of_an_append_table(tmp_path: Path) -> None:
    table = PaimonTable(tmp_path / "t", ROWS, options={"deletion-vectors.enabled": "true"})
    files = [table.add(table_of(range(200_000))), table.add(table_of([1, 1, 2]))]
    gone = [*range(50, 70_000), *range(80_000, 120_000, 2), 199_999]
    table.commit(*files, vectors={files[0].name: gone})
    source = open_source(tmp_path / "t")
    assert source.count_rows() == 200_003 - len(gone)
    rows = pa.Table.from_batches(source.batches(["id"]))["id"].to_pylist()
    assert Counter(rows) == Counter([*sorted(set(range(200_000)) - set(gone)), 1, 1, 2])


# ---- schemas


def test_columns_are_found_by_their_ids(tmp_path: Path) -> None:
    pair = {
        "type": "ROW",
        "fields": [
            {"id": 10, "name": "a", "type": "INT"},
            {"id": 11, "name": "b", "type": "STRING"},
        ],
    }
    fields: dict[str, Any] = {**ROWS, "pair": pair, "list": {"type": "ARRAY", "element": "INT"}}
    table = PaimonTable(tmp_path / "t", fields, ["id"])
    nested = pa.array([{"a": 1, "b": "x"}, None], pa.struct({"a": pa.int32(), "b": pa.string()}))
    first = table_of([1, 2], "old", 7).append_column("pair", nested)
    first = first.append_column("list", pa.array([[1, None], None], pa.list_(pa.int32())))
    one = table.add(first, sequence=[0, 1])
    table.commit(one)
    # `name` becomes `called`, `at` is dropped, another `at` is added, the struct has other names.
    swapped = {
        "type": "ROW NOT NULL",
        "fields": [
            {"id": 11, "name": "a2", "type": "STRING"},
            {"id": 12, "name": "c", "type": "DOUBLE"},
            {"id": 10, "name": "b2", "type": "BIGINT"},
        ],
    }
    fields = {"called": "STRING", "id": "INT NOT NULL", "pair": swapped}
    table.evolve(fields, {"called": "name"})
    table.evolve({**fields, "list": {"type": "ARRAY", "element": "BIGINT"}, "at": "BIGINT"})
    assert len(set(table.ids.values())) == 5
    table.ids["list"] = 4
    table.write_schema()
    kinds = pa.struct({"a2": pa.string(), "c": pa.float64(), "b2": pa.int64()})
    second = pa.table({
        "called": ["new"], "id": pa.array([2], pa.int32()),
        "pair": pa.array([{"a2": "y", "c": 0.5, "b2": 2}], kinds),
        "list": pa.array([[5]], pa.list_(pa.int64())), "at": [9],
    })  # fmt: skip
    table.commit(table.add(second, sequence=[5]))
    assert rows_of(tmp_path / "t") == counted([
        {"called": "old1", "id": 1, "pair": {"a2": "x", "c": None, "b2": 1}, "list": [1, None],
         "at": None},
        {"called": "new", "id": 2, "pair": {"a2": "y", "c": 0.5, "b2": 2}, "list": [5], "at": 9},
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("then", "now", "is_read"),
    [
        ("INT", "BIGINT", True),
        ("FLOAT", "DOUBLE", True),
        ("VARCHAR(5)", "STRING", True),
        ("DECIMAL(5, 2)", "DECIMAL(9, 2)", True),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", True),
        ("BIGINT", "INT", False),
        ("INT", "STRING", False),
        ("STRING", "VARCHAR(2)", False),
        ("DECIMAL(9, 2)", "DECIMAL(9, 1)", False),
        ("TIMESTAMP(3)", "TIMESTAMP(0)", False),
        ("TIMESTAMP(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", False),
        ("INT", {"type": "ARRAY", "element": "INT"}, False),
    ],
)
def test_types_become_wider_or_are_refused(
    tmp_path: Path, then: str, now: Any, is_read: bool
) -> None:
    from lookupstore.compacted.schema import paimon_schema

    table = PaimonTable(tmp_path / "t", {"id": "INT", "v": then})
    kind = paimon_schema([{"name": "v", "type": then}]).field("v").type
    values = pa.array(["12345"]) if pa.types.is_string(kind) else pa.array([3])
    values = values.cast(pa.decimal128(21, 2)) if "DECIMAL" in then else values
    values = values.cast(kind)
    table.commit(table.add(pa.table({"id": pa.array([1], pa.int32()), "v": values})))
    table.evolve({"id": "INT", "v": now})
    if is_read:
        source = open_source(tmp_path / "t")
        (batch,) = source.batches(["v"])
        assert batch.schema.types == [paimon_schema([{"name": "v", "type": now}]).field("v").type]
        assert batch.column(0).cast(kind) == values
    else:
        with pytest.raises(FormatError, match=r"a changed type \('v' was .*not supported; pass"):
            open_source(tmp_path / "t")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("STRING", ["x", "ü/%=", "", None, "a longer text"]),
        ("INT", [-1, 2**31 - 1, None]),
        ("BIGINT", [-(2**40), 5]),
        ("BOOLEAN", [True, False]),
        ("DATE", [0, 19_000, None]),
    ],
)
@pytest.mark.parametrize("writer", ["Java", "Java, new names", "pypaimon"])
def test_values_of_partitions_are_those_of_the_manifest(
    tmp_path: Path, kind: str, values: list[Any], writer: str
) -> None:
    table = PaimonTable(tmp_path / "t", {"id": "INT", "p": kind}, partition_keys=["p"])
    expected = []
    for number, value in enumerate(values):
        kinds = {"STRING": pa.string(), "BOOLEAN": pa.bool_(), "DATE": pa.date32()}
        arrow = kinds.get(kind, pa.int64())
        stored = pa.scalar(value, pa.int32()).cast(arrow) if kind == "DATE" else pa.scalar(value)
        text = str(stored.as_py() if "new" in writer or writer == "pypaimon" else value)
        if "Java" in writer:
            text = text.lower() if kind == "BOOLEAN" else text
            for one in "%/=":
                text = text.replace(one, f"%{ord(one):02X}")
        elif value == "ü/%=":
            continue  # it makes folders of its own there
        # The file has another value of the column, which does not count.
        rows = pa.table({"id": pa.array([number], pa.int32()), "p": pa.array(["?"])})
        shown = None if value in (None, "") else text
        file = table.add(rows, partition=[shown], values=[value])
        table.commit(file)
        expected.append({"id": number, "p": stored.as_py() if value is not None else None})
    assert rows_of(tmp_path / "t") == counted(expected)


def test_a_folder_of_two_values_is_found(tmp_path: Path) -> None:
    fields = {"id": "INT", "day": "DATE", "p": "STRING"}
    table = PaimonTable(tmp_path / "t", fields, partition_keys=["day", "p"])
    for at, day in enumerate(["1", "1970-01-02"]):  # the older names, and the newer
        rows = pa.table({"id": pa.array([at], pa.int32())})
        table.commit(table.add(rows, partition=[day, "a%2Fb"], values=[1, "a/b"], bucket=at))
    expected = {"day": datetime.date(1970, 1, 2), "p": "a/b"}
    assert rows_of(tmp_path / "t") == counted([{"id": at, **expected} for at in range(2)])


# ---- what is not read


@pytest.mark.parametrize(
    ("option", "value", "what"),
    [
        ("merge-engine", "mine", "the merge engine 'mine'"),
        ("record-level.expire-time", "1 d", "the option 'record-level.expire-time'"),
        ("sequence.field.sort-order", "upward", "the option 'sequence.field.sort-order'"),
        ("sequence.snapshot-ordering", "true", "the option 'sequence.snapshot-ordering'"),
        ("row-tracking.enabled", "true", "the option 'row-tracking.enabled'"),
        ("data-evolution.enabled", "true", "the option 'data-evolution.enabled'"),
        ("fields.name.default-value", "x", "the option 'fields.name.default-value'"),
        ("scan.fallback-branch", "b", "the option 'scan.fallback-branch'"),
        ("scan.snapshot-id", "1", "the option 'scan.snapshot-id'"),
        ("bucket", "-2", "postponed buckets"),
        ("type", "format-table", "the option 'type'"),
    ],
)
def test_options_that_change_what_is_read_are_refused_by_name(
    tmp_path: Path, option: str, value: str, what: str
) -> None:
    table = PaimonTable(tmp_path / "t", ROWS, ["id"], options={option: value})
    table.commit(table.add(table_of([1])))
    with pytest.raises(FormatError, match=rf"Paimon table .* uses {what}.*; pass the rows that"):
        open_source(tmp_path / "t")


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("VARIANT", "a column of type VARIANT"),
        ("TIMESTAMP(9)", "timestamps finer than microseconds"),
        ("BLOB", "a type that is not known"),
        ({"type": "VECTOR", "element": "FLOAT", "length": 3}, "a type that is not known"),
        ({"type": "ARRAY", "element": "TIMESTAMP(9)"}, "timestamps finer than microseconds"),
    ],
)
def test_types_that_are_not_read_are_refused_by_name(tmp_path: Path, kind: Any, what: str) -> None:
    table = PaimonTable(tmp_path / "t", {**ROWS, "x": kind})
    table.commit(table.add(table_of([1])))
    with pytest.raises(FormatError, match=what):
        open_source(tmp_path / "t")


def test_files_that_are_not_read_are_refused_by_name(tmp_path: Path) -> None:
    def refused(what: str, fields: Any = ROWS, keys: Sequence[str] = ("id",), **said: Any) -> None:
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        table = PaimonTable(tmp_path / "t", fields, keys)
        table.commit(table.add(table_of([1]), **said))
        with pytest.raises(FormatError, match=what):
            open_source(tmp_path / "t")

    refused("avro files", file_format="avro")
    refused("external paths", _EXTERNAL_PATH="s3://elsewhere/x.parquet")
    refused("some of the columns", _WRITE_COLS=["id"])
    refused("the bucket -1", bucket=-1)
    refused("TIME.* in ORC files", {**ROWS, "x": "TIME(0)"}, file_format="orc")
    refused("LOCAL TIME ZONE in ORC", {**ROWS, "x": "TIMESTAMP(3) WITH LOCAL TIME ZONE"},
            file_format="orc")  # fmt: skip
    refused("CHAR.* in ORC files", {**ROWS, "x": "CHAR(3)"}, file_format="orc")
    refused("a key or sequence of floats", {**ROWS, "id": "DOUBLE"})
    shutil.rmtree(tmp_path / "t")
    options = {"merge-engine": "first-row"}
    table = PaimonTable(tmp_path / "t", ROWS, ["id"], options=options)
    table.commit(table.add(table_of([1]), level=5, kinds=[3]))
    with pytest.raises(FormatError, match="deleted rows with the merge engine 'first-row'"):
        open_source(tmp_path / "t")
    for enabled, elsewhere, what in (
        ("false", None, "deletion vectors that 'deletion-vectors.enabled' turns off"),
        ("true", "s3://elsewhere/index", r"deletion vectors outside its folder \(external paths\)"),
    ):
        shutil.rmtree(tmp_path / "t")
        options = {"deletion-vectors.enabled": enabled}
        table = PaimonTable(tmp_path / "t", ROWS, ["id"], options=options)
        file = table.add(table_of([1, 2]), level=5)
        table.commit(file, vectors={file.name: [0]}, vectors_at=elsewhere)
        with pytest.raises(FormatError, match=what):
            open_source(tmp_path / "t")
    # Rows of the same key and sequence number, as of two writers at once.
    shutil.rmtree(tmp_path / "t")
    table = PaimonTable(tmp_path / "t", ROWS, ["id"])
    table.commit(table.add(table_of([1, 2])), table.add(table_of([1])))
    with pytest.raises(FormatError, match="one key and one sequence number"):
        rows_of(tmp_path / "t")
    table = PaimonTable(tmp_path / "u", ROWS, partition_keys=["at"])
    table.fields = {**ROWS, "at": "TIMESTAMP(3)"}
    table.write_schema()
    table.commit(table.add(table_of([1]), partition=[5]))
    with pytest.raises(FormatError, match="partitions by a column of type timestamp"):
        open_source(tmp_path / "u")


def test_a_first_row_is_what_was_compacted(tmp_path: Path) -> None:
    table = PaimonTable(tmp_path / "t", ROWS, ["id"], options={"merge-engine": "first-row"})
    table.commit(
        table.add(table_of([1, 3], "first"), level=5, sequence=[0, 1]),
        table.add(table_of([2, 9], "second"), level=4, sequence=[2, 3]),
        table.add(table_of([1, 7], "new"), sequence=[4, 5]),
    )
    with lookupstore.build(tmp_path / "t", tmp_path / "s", key="id") as store:
        names = {key: row["name"] for key, row in store.items()}
    assert names == {1: "first1", 2: "second2", 3: "first3", 9: "second9"}
    assert open_source(tmp_path / "t").count_rows() == 4


def test_files_that_overlap_with_none_are_not_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = PaimonTable(tmp_path / "t", ROWS, ["id"])
    ranges = ([1, 2], [3, 9], [10], [9, 9 + 11])
    table.commit(*(
        table.add(table_of(ids), level=5, sequence=range(at * 10, at * 10 + len(ids)))
        for at, ids in enumerate(ranges[:3])
    ))  # fmt: skip
    assert open_source(tmp_path / "t").count_rows() == 5
    assert all(file.deleted is None for file in snapshot_files(tmp_path))
    table.commit(table.add(table_of(ranges[3], "new"), sequence=[90, 91]))
    read = []
    replaced = merge.KeyMerge.replaced
    monkeypatch.setattr(
        merge.KeyMerge,
        "replaced",
        lambda rule, section, asked: read.append(len(section)) or replaced(rule, section, asked),
    )
    assert sum(rows_of(tmp_path / "t").values()) == 6
    assert read == [3]  # once for the bucket, without the first file


# ---- damage


def is_avro(content: bytes) -> bool:
    """Return whether a file of Avro is whole, or was cut between two blocks."""
    try:
        return list(records_of(content, "x", "x")) is not None
    except LookupStoreError:
        return False


def test_a_manifest_that_is_cut_between_two_blocks_is_damage(tmp_path: Path) -> None:
    """Such a file has fewer rows, and the list of manifests has its size."""
    table = PaimonTable(tmp_path / "t", ROWS, ["id"])
    table.write_schema()
    table.commit(table.add(table_of([1, 2, 3]), level=5))
    cut = 0
    for path in table.written:
        whole = path.read_bytes()
        sizes = [size for size in range(5, len(whole)) if is_avro(whole[:size])]
        for size in sizes:
            path.write_bytes(whole[:size])
            if "manifest-list" not in path.name:
                cut += 1
                with pytest.raises(CorruptionError, match=rf"{path.name}.*{len(whole)} bytes"):
                    rows_of(tmp_path / "t")
        path.write_bytes(whole)
    assert cut


def test_cut_metadata_is_damage(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for codec in ("null", "zstandard", "deflate"):
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        table = PaimonTable(tmp_path / "t", ROWS, ["id"], codec=codec)
        table.options = {"deletion-vectors.enabled": "true"}
        table.write_schema()
        files = [table.add(table_of([1, 2, 3]), level=5) for _ in range(4)]
        table.commit(files[0])
        table.commit(*files[1:], removed=files[:1], vectors={files[1].name: [0]})
        paths = [*table.written, *(tmp_path / "t" / "index").iterdir()]
        assert len(paths) == 6
        for path in [*paths, *(tmp_path / "t" / "schema").iterdir()]:
            whole = path.read_bytes()
            path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
            with pytest.raises(CorruptionError, match=path.name):
                rows_of(tmp_path / "t")
            for size in {4, len(whole) - 1, chance.randrange(5, len(whole))}:
                if is_avro(whole[:size]):
                    continue  # a list of manifests whose size no file records: see below
                path.write_bytes(whole[:size])
                with pytest.raises(CorruptionError, match=path.name):
                    rows_of(tmp_path / "t")
            # Any byte may be another: the rows may differ then, but no other error is raised.
            for _ in range(30):
                at = chance.randrange(len(whole))
                path.write_bytes(whole[:at] + bytes([chance.randrange(256)]) + whole[at + 1 :])
                try:
                    rows_of(tmp_path / "t")
                except LookupStoreError:
                    continue
            path.unlink()
            if path.parent.name != "schema":
                with pytest.raises(StaleStoreError, match=path.name):
                    rows_of(tmp_path / "t")
            path.write_bytes(whole)
        vectors = paths[-1]
        whole = vectors.read_bytes()
        for at in range(1, len(whole)):
            vectors.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
            with pytest.raises(CorruptionError, match=vectors.name):
                rows_of(tmp_path / "t")


def test_damaged_rows_are_named(tmp_path: Path) -> None:
    table = PaimonTable(tmp_path / "t", ROWS, ["id"])
    file = table.add(table_of([1, 2]), kinds=[0, 7])
    file.entry["_FILE"]["_DELETE_ROW_COUNT"] = None
    table.commit(file)
    with pytest.raises(CorruptionError, match=rf"{file.name}.*_VALUE_KIND"):
        rows_of(tmp_path / "t")
    path = table.path(file)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptionError, match=file.name):
        rows_of(tmp_path / "t")
    path.unlink()
    with pytest.raises(StaleStoreError, match=file.name):
        rows_of(tmp_path / "t")
    table.commit(removed=[file])
    table.commit(removed=[])
    assert rows_of(tmp_path / "t") == Counter()
    table.files[file.name] = file
    table.commit(removed=[file])
    with pytest.raises(CorruptionError, match="which no manifest before it adds"):
        open_source(tmp_path / "t")
    # A name may not lead out of the table.
    file.entry["_FILE"]["_FILE_NAME"] = "../../../x.parquet"
    table.commit(file)
    said = json.loads((tmp_path / "t" / "snapshot" / f"snapshot-{table.snapshot}").read_text())
    said["baseManifestList"] = said["deltaManifestList"]
    with pytest.raises(LookupStoreError):
        open_source(tmp_path / "t")


def test_newer_versions_of_the_format_are_refused(tmp_path: Path) -> None:
    table = PaimonTable(tmp_path / "t", ROWS, ["id"])
    table.commit(table.add(table_of([1])))
    for name in ("snapshot/snapshot-1", "schema/schema-0"):
        path = tmp_path / "t" / name
        whole = path.read_text()
        path.write_text(whole.replace('"version": 3', '"version": 4'))
        with pytest.raises(FormatError, match=rf"{name} has version 4"):
            open_source(tmp_path / "t")
        path.write_text(whole)
    assert rows_of(tmp_path / "t")
