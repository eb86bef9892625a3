"""Delta tables as sources, beside what deltalake's own engine reads."""

from __future__ import annotations

import datetime
import decimal
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from support.delta_tables import with_deleted

import lookupstore
from lookupstore import CorruptionError, FormatError, StaleStoreError
from lookupstore.source.opening import open_source
from lookupstore.tables import delta

deltalake = pytest.importorskip("deltalake")

KINDS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "id": (pa.int64(), range(40)),
    # An empty text of a partition is null in the protocol; the engine of deltalake 1.6 differs.
    "text": (pa.string(), ["x", "x y", "ü%", "a/b=c", None]),
    "small": (pa.int8(), [-128, 0, 127, None]),
    # deltalake 1.6 writes negative decimals of partitions as "-3.-25".
    "price": (pa.decimal128(9, 2), [decimal.Decimal("1.50"), decimal.Decimal("0.01"), None]),
    "day": (pa.date32(), [datetime.date(1969, 12, 31), datetime.date(2024, 2, 29), None]),
    "at": (pa.timestamp("us", "UTC"), [0, 1_582_934_400_000_001, None]),
    "local": (pa.timestamp("us"), [0, -1, None]),
    "flag": (pa.bool_(), [True, False, None]),
    "real": (pa.float64(), [1.5, -0.0, None]),
    "nested": (
        pa.struct({"n": pa.int32(), "s": pa.list_(pa.string())}),
        [{"n": 1, "s": ["a", None]}, {"n": None, "s": []}, None],
    ),
}
PARTITIONS = ["text", "small", "price", "day", "at", "local", "flag"]


def rows_of(source: Any) -> Counter[str]:
    """Return the rows of a table, however often it has each."""
    opened = open_source(source)
    batches = opened.batches(opened.schema.names)
    return counted(pa.Table.from_batches(batches, opened.schema))


def counted(table: pa.Table) -> Counter[str]:
    return Counter(str(sorted(row.items())) for row in table.to_pylist())


def scanned(table: Any) -> Counter[str]:
    """Return the rows that the engine of deltalake reads, in the types of the table."""
    schema = pa.schema([one.remove_metadata() for one in pa.schema(table.schema().to_arrow())])
    read = pa.RecordBatchReader.from_stream(table.scan()).read_all()
    return counted(read.select(schema.names).cast(schema))


class History:
    """A table to which random changes are made by deltalake."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self._chance = str(path), random.Random(seed)
        chance = self._chance
        self._names = ["id", *chance.sample(sorted(set(KINDS) - {"id"}), chance.randint(1, 4))]
        by = [name for name in self._names if name in PARTITIONS]
        self._by = chance.sample(by, min(len(by), chance.choice([0, 0, 1, 2])))
        self._write("append")

    def _rows(self) -> pa.Table:
        count = self._chance.choice([0, 1, 3, 20])
        return pa.table(
            {name: pa.array(self._chance.choices(KINDS[name][1], k=count), KINDS[name][0])
             for name in self._names}
        )  # fmt: skip

    def _write(self, mode: str, **options: Any) -> None:
        deltalake.write_deltalake(
            self.path, self._rows(), mode=mode, partition_by=self._by or None, **options
        )

    def change(self) -> None:
        """Change the table in one way out of several."""
        chance = self._chance
        table = deltalake.DeltaTable(self.path)
        lost = chance.randint(0, 40)
        others = sorted(set(KINDS) - set(self._names))
        match chance.choice(["append", "append", "overwrite", "delete", "update", "merge",
                             "compact", "column", "checkpoint"]):  # fmt: skip
            case "append" | "overwrite" as mode:
                self._write(mode)
            case "delete":
                table.delete(f"id < {lost} and id % 3 = 0")
            case "update":
                table.update(updates={"id": "id + 1"}, predicate=f"id < {lost}")
            case "merge":
                rows = self._rows()
                if len(set(rows["id"].to_pylist())) == len(rows):  # else deltalake refuses them
                    merger = table.merge(rows, "s.id = t.id", "s", "t")
                    merger.when_matched_update_all().when_not_matched_insert_all().execute()
            case "compact":
                table.optimize.compact()
            case "column" if others:
                self._names.append(chance.choice(others))
                self._write("append", schema_mode="merge")
            case "checkpoint":
                table.create_checkpoint()


@pytest.mark.drawn(0.2)
@pytest.mark.parametrize("number", range(24))
def test_every_version_of_a_random_history_is_what_deltalake_reads(
    tmp_path: Path, seed: int, number: int
) -> None:
    history = History(tmp_path / "t", seed + number)
    for _ in range(8):
        history.change()
    newest = deltalake.DeltaTable(history.path).version()
    for version in range(newest + 1):
        table = deltalake.DeltaTable(history.path, version=version)
        source = open_source(table)
        expected = scanned(table)
        assert rows_of(table) == expected, version
        assert source.count_rows() == expected.total()
        assert sum(batch.num_rows for batch in source.batches([])) == expected.total()


def test_values_of_partitions_have_their_types(tmp_path: Path) -> None:
    for name in PARTITIONS:
        kind, values = KINDS[name]
        rows = pa.table({"id": pa.array(range(len(values))), name: pa.array(values, kind)})
        deltalake.write_deltalake(tmp_path / "a b" / name, rows, partition_by=[name])
        source = open_source(deltalake.DeltaTable(tmp_path / "a b" / name))
        found = pa.Table.from_batches(source.batches(["id", name]), source.schema).sort_by("id")
        assert found[name].to_pylist() == rows[name].to_pylist()


def test_an_empty_text_of_a_partition_is_null(tmp_path: Path) -> None:
    """Source: "Partition Value Serialization" of the Delta protocol."""
    rows = pa.table({"id": [1, 2], "text": ["", "a"]})
    deltalake.write_deltalake(tmp_path / "t", rows, partition_by=["text"])
    table = deltalake.DeltaTable(tmp_path / "t")
    with lookupstore.build(table, tmp_path / "s", key="id") as store:
        assert [store.get(1), store.get(2)] == [{"text": None}, {"text": "a"}]


@pytest.mark.parametrize("value", ["plain", "x y", "ü%", "a/b", "100%2F"])
def test_deleted_rows_of_any_folder_are_left_out(tmp_path: Path, seed: int, value: str) -> None:
    chance = random.Random(seed)
    rows = pa.table({"id": list(range(300)), "kind": [value] * 300})
    deltalake.write_deltalake(tmp_path / "t", rows, partition_by=["kind"])
    gone = sorted(chance.sample(range(300), 50))
    with_deleted(tmp_path / "t", gone)
    table = deltalake.DeltaTable(tmp_path / "t")
    source = open_source(table)
    left = sorted(set(range(300)) - set(gone))
    with lookupstore.build(table, tmp_path / "s", key="id") as store:
        assert list(store) == left
        assert store.get(left[0]) == {"kind": value}
    assert rows_of(table) == scanned(table)
    assert sum(batch.num_rows for batch in source.batches([])) == len(left)
    before = open_source(deltalake.DeltaTable(tmp_path / "t", version=0)).fingerprint
    assert source.fingerprint != before


def test_a_deleted_row_that_the_file_does_not_have_is_damage(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path / "t", pa.table({"id": [1, 2, 3]}))
    with_deleted(tmp_path / "t", [1, 7], claimed=9)
    with pytest.raises(CorruptionError, match=r"expected at least 8 rows.*found 3"):
        lookupstore.build(deltalake.DeltaTable(tmp_path / "t"), tmp_path / "s", key="id")


def test_deleted_rows_of_a_file_that_is_not_listed_are_not_ignored(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path / "t", pa.table({"id": [1, 2, 3]}))
    with_deleted(tmp_path / "t", [1])

    class Other(deltalake.DeltaTable):
        def deletion_vectors(self) -> pa.RecordBatchReader:
            rows = {"filepath": ["file:///elsewhere/a.parquet"], "selection_vector": [[False]]}
            return pa.table(rows).to_reader()

    with pytest.raises(FormatError, match=r"deleted rows in /elsewhere/a\.parquet, which"):
        open_source(Other(tmp_path / "t"))


def test_a_large_file_with_deleted_rows_in_each_batch(tmp_path: Path, seed: int) -> None:
    """Rows are read in batches; the position of a row is that in the file."""
    chance = random.Random(seed)
    count = 150_000
    deltalake.write_deltalake(tmp_path / "t", pa.table({"id": range(count)}))
    gone = sorted(chance.sample(range(count), 4000))
    with_deleted(tmp_path / "t", gone)
    source = open_source(deltalake.DeltaTable(tmp_path / "t"))
    batches = list(source.batches(["id"]))
    assert len(batches) > 1
    found = [one for batch in batches for one in batch.column("id").to_pylist()]
    assert found == sorted(set(range(count)) - set(gone))


def test_files_that_a_vacuum_removed_are_named(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path / "t", pa.table({"id": [1, 2, 3]}))
    old = deltalake.DeltaTable(tmp_path / "t")
    deltalake.write_deltalake(tmp_path / "t", pa.table({"id": [4]}), mode="overwrite")
    new = deltalake.DeltaTable(tmp_path / "t")
    new.vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(StaleStoreError, match=r"\.parquet: gone; a vacuum .* open the table again"):
        lookupstore.build(old, tmp_path / "s", key="id")
    with lookupstore.build(new, tmp_path / "s", key="id") as store:
        assert list(store) == [4]


def test_damaged_and_replaced_files_are_named(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path / "t", pa.table({"id": list(range(1000))}))
    (file,) = (tmp_path / "t").glob("*.parquet")
    whole = file.read_bytes()
    holed = whole[:200] + bytes(200) + whole[400:]
    for bad in (whole[:-1], whole + b"x", bytes(len(whole)), holed):
        file.write_bytes(bad)
        with pytest.raises(CorruptionError, match=file.name):
            lookupstore.build(deltalake.DeltaTable(tmp_path / "t"), tmp_path / "s", key="id")
        assert not (tmp_path / "s").exists()


def test_an_unchanged_table_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltalake.write_deltalake(tmp_path / "t", pa.table({"id": [1, 2], "day": ["a", "b"]}))
    table = deltalake.DeltaTable(tmp_path / "t")
    lookupstore.build(table, tmp_path / "s", key="id").close()
    with monkeypatch.context() as patched:
        patched.setattr("lookupstore.tables.rows.rows_of", None)
        with lookupstore.build(table, tmp_path / "s", key="id", overwrite=True) as store:
            assert (store.info().version, store.info().rewritten_buckets) == (2, 0)
    deltalake.write_deltalake(tmp_path / "t", pa.table({"id": [3], "day": ["c"]}), mode="append")
    table = deltalake.DeltaTable(tmp_path / "t")
    with lookupstore.build(table, tmp_path / "s", key="id", overwrite=True) as store:
        assert store.get(3) == {"day": "c"}


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_are_found_by_their_mapping(tmp_path: Path, mode: str) -> None:
    """Columns, also of a struct, have other names in files. Source: "Column Mapping"."""

    def stored(name: str, kind: pa.DataType, number: int) -> pa.Field:
        # In the mode `id`, the names in files do not count.
        shown = f"col-{name}" if mode == "name" else f"any {number}"
        return pa.field(shown, kind, metadata={"PARQUET:field_id": str(number)})

    def said(name: str, kind: Any, number: int) -> dict[str, Any]:
        mapping = {"id": number, "physicalName": f"col-{name}"}
        metadata = {f"delta.columnMapping.{key}": value for key, value in mapping.items()}
        return {"name": name, "type": kind, "nullable": True, "metadata": metadata}

    inner = pa.struct([stored("x", pa.int64(), 3), stored("y", pa.string(), 4)])
    rows = pa.table(
        [[7, 8], [{inner[0].name: 1, inner[1].name: "a"}, None]],
        schema=pa.schema([stored("id", pa.int64(), 1), stored("pair", inner, 2)]),
    )
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    pq.write_table(rows, tmp_path / "t" / "a.parquet")
    pair = {"type": "struct", "fields": [said("x", "long", 3), said("y", "string", 4)]}
    schema = {"type": "struct", "fields": [said("pair", pair, 2), said("id", "long", 1)]}
    lines: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}},
        {"metaData": {
            "id": "x", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [],
            "schemaString": json.dumps(schema), "createdTime": 0,
            "configuration": {
                "delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "4",
            },
        }},
        {"add": {
            "path": "a.parquet", "size": (tmp_path / "t" / "a.parquet").stat().st_size,
            "partitionValues": {}, "modificationTime": 0, "dataChange": True,
        }},
    ]  # fmt: skip
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with lookupstore.build(tmp_path / "t", tmp_path / "s", key="id") as store:
        assert dict(store.items()) == {7: {"pair": {"x": 1, "y": "a"}}, 8: {"pair": None}}


def test_what_is_not_supported_is_named(tmp_path: Path) -> None:
    deltalake.write_deltalake(
        tmp_path / "binary", pa.table({"id": [1], "by": [b"a"]}), partition_by=["by"]
    )
    with pytest.raises(FormatError, match="partitioned by 'by' of type binary"):
        open_source(deltalake.DeltaTable(tmp_path / "binary"))

    deltalake.write_deltalake(tmp_path / "clone", pa.table({"id": [1]}))
    (log,) = (tmp_path / "clone" / "_delta_log").glob("*.json")
    log.write_text(log.read_text().replace('"path":"part-', '"path":"s3://elsewhere/part-'))
    with pytest.raises(FormatError, match=r"s3://elsewhere/part-.* shallow clones"):
        open_source(tmp_path / "clone")
    for kind in ("variant", {"type": "array", "elementType": "variant", "containsNull": True}):
        folder = tmp_path / str(len(str(kind)))
        deltalake.write_deltalake(folder, pa.table({"id": [1], "variant": ["a"]}))
        (log,) = (folder / "_delta_log").glob("*.json")
        assert open_source(deltalake.DeltaTable(folder)).count_rows() == 1
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for line in lines:
            if "metaData" in line:
                schema = json.loads(line["metaData"]["schemaString"])
                schema["fields"].append(
                    {"name": "v", "type": kind, "nullable": True, "metadata": {}}
                )
                line["metaData"]["schemaString"] = json.dumps(schema)
            if "protocol" in line:
                line["protocol"] = {
                    "minReaderVersion": 3, "minWriterVersion": 7,
                    "readerFeatures": ["variantType"], "writerFeatures": ["variantType"],
                }  # fmt: skip
        log.write_text("".join(json.dumps(line) + "\n" for line in lines))
        with pytest.raises(FormatError, match="has a column of type variant"):
            open_source(folder)

    class Later:
        """A table of a feature that this deltalake does not know either."""

        def version(self) -> int:
            return 7

        def protocol(self) -> Any:
            return type("Protocol", (), {"reader_features": ["deletionVectors", "rowCompression"]})

    from lookupstore.tables.delta import snapshot_of

    with pytest.raises(FormatError, match=r"Delta table at version 7 uses .*rowCompression"):
        snapshot_of(Later())

    class Older:
        """A table of a deltalake that does not return deletion vectors."""

        def __init__(self, path: Path) -> None:
            self._table = deltalake.DeltaTable(path)

        def __getattr__(self, name: str) -> Any:
            if name == "deletion_vectors":
                raise AttributeError(name)
            return getattr(self._table, name)

    deltalake.write_deltalake(tmp_path / "vectors", pa.table({"id": [1, 2]}))
    with_deleted(tmp_path / "vectors", [0])
    with pytest.raises(FormatError, match="may have deletion vectors, and this deltalake does not"):
        snapshot_of(Older(tmp_path / "vectors"))


def test_a_table_in_a_file_system_that_deltalake_may_not_open_is_refused(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path / "t", pa.table({"id": [1]}))
    elsewhere = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    with pytest.raises(FormatError, match="a Delta table in a file system whose options deltalake"):
        open_source(lookupstore.Location("t", filesystem=elsewhere))


def test_the_deleted_rows_of_a_vector_are_its_false_values(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(300):
        count = chance.choice([0, 1, 7, 8, 9, 64, 1000])
        share = chance.choice([0, 0.01, 0.5, 1])
        values = [chance.random() >= share for _ in range(count)]
        start = chance.randint(0, count)
        vector = pa.array(values, pa.bool_()).slice(start, chance.randint(0, count - start))
        expected = [at for at, value in enumerate(vector.to_pylist()) if not value]
        found = delta._false_at(vector)
        assert (found.tolist(), found.dtype) == (expected, np.dtype(np.int64))
