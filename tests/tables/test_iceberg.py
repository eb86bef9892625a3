"""Iceberg tables as sources, beside what pyiceberg reads, and beside a model where it refuses."""

from __future__ import annotations

import datetime
import decimal
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import lookupstore
from lookupstore import CorruptionError, FormatError, StaleStoreError
from lookupstore.source.opening import open_source
from lookupstore.tables.iceberg import deletes, planner
from lookupstore.tables.recently_read import RecentlyRead

pytest.importorskip("pyiceberg")
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import DecimalType, DoubleType, LongType, StringType
from support.iceberg_tables import (
    add_deletes,
    described,
    positions_file,
    table_of,
    vectors_file,
)
from support.iceberg_writer import Column, IcebergTable, Part

ROWS = pa.schema({
    "id": pa.int32(),
    "name": pa.string(),
    "price": pa.decimal128(9, 2),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "real": pa.float32(),
    "tags": pa.list_(pa.string()),
    "pair": pa.struct({"a": pa.int32(), "b": pa.string()}),
})  # fmt: skip
VALUES: dict[str, Sequence[Any]] = {
    "name": ["", "x y", "ü%", "a/b=c", None],
    "price": [decimal.Decimal("-1.50"), decimal.Decimal("0.01"), None],
    "day": [datetime.date(1969, 12, 31), datetime.date(2024, 2, 29), None],
    "at": [0, 1_582_934_400_000_001, None],
    "real": [1.5, -0.25, None],
    "tags": [["a", None], [], None],
    "pair": [{"a": 1, "b": "x"}, {"a": None, "b": None}, None],
}


@pytest.fixture
def catalog(tmp_path: Path) -> InMemoryCatalog:
    catalog = InMemoryCatalog("w", warehouse=f"file://{tmp_path}/top w")
    catalog.create_namespace("w")
    return catalog


def counted(table: pa.Table) -> Counter[str]:
    return Counter(str(sorted(row.items())) for row in table.to_pylist())


def rows_of(source: Any) -> Counter[str]:
    """Return the rows of a source, however often it has each."""
    opened = open_source(source)
    batches = opened.batches(opened.schema.names)
    return counted(pa.Table.from_batches(batches, opened.schema))


class History:
    """A table to which random changes are made by pyiceberg."""

    def __init__(self, catalog: InMemoryCatalog, seed: int, version: int) -> None:
        self._chance = random.Random(seed)
        properties = {"format-version": str(version)}
        self.table = catalog.create_table("w.t", ROWS, properties=properties)
        self._names = {name: name for name in ROWS.names}  # now, by the first name
        self._types = {field.name: field.type for field in ROWS}
        self._append()

    def _rows(self) -> pa.Table:
        chance, count = self._chance, self._chance.choice([0, 1, 3, 20])
        columns = {
            self._names[name]: pa.array(
                chance.choices(VALUES[name], k=count) if name in VALUES
                else [chance.randint(0, 40) for _ in range(count)],
                self._types[name],
            )
            for name in self._names
        }  # fmt: skip
        return pa.table(columns)

    def _append(self) -> None:
        self.table.append(self._rows())

    def change(self) -> None:
        """Change the table in one way out of several."""
        chance, names = self._chance, self._names
        match chance.choice(["append", "append", "overwrite", "delete", "rename", "drop", "add",
                             "widen", "nested", "partition"]):  # fmt: skip
            case "append":
                self._append()
            case "overwrite":
                self.table.overwrite(self._rows())
            case "delete":
                self.table.delete(f"{names['id']} < {chance.randint(0, 40)}")
            case "rename":
                name = chance.choice(sorted(names))
                new = f"{name}{chance.randint(0, 10**9)}"
                with self.table.update_schema() as update:
                    update.rename_column(names[name], new)
                names[name] = new
            case "drop" if len(names) > 3:
                name = chance.choice(sorted(set(names) - {"id"}))
                if not any(one.source_id == self._id(names[name]) for one in self._parts()):
                    with self.table.update_schema(allow_incompatible_changes=True) as update:
                        update.delete_column(names.pop(name))
            case "add":
                name = f"n{len(self._types)}"
                with self.table.update_schema() as update:
                    update.add_column(name, LongType())
                names[name], self._types[name] = name, pa.int64()
            case "widen":
                wider = {"id": LongType(), "price": DecimalType(12, 2), "real": DoubleType()}
                name = chance.choice(sorted(wider))
                if name in names:
                    with self.table.update_schema() as update:
                        update.update_column(names[name], wider[name])
                    kinds = {"id": pa.int64(), "price": pa.decimal128(12, 2), "real": pa.float64()}
                    self._types[name] = kinds[name]
            case "nested" if "pair" in names and len(self._types["pair"]) == 2:
                with self.table.update_schema() as update:
                    update.add_column((names["pair"], "c"), StringType())
                self._types["pair"] = pa.struct([*self._types["pair"], ("c", pa.string())])
            case "partition" if not self._parts():
                name = chance.choice(["name", "day", "price", "at", "id"])
                if name in names:
                    with self.table.update_spec() as update:
                        update.add_identity(names[name])

    def _id(self, name: str) -> int:
        return int(self.table.schema().find_field(name).field_id)

    def _parts(self) -> Sequence[Any]:
        return self.table.spec().fields


@pytest.mark.drawn(0.2)
@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@pytest.mark.parametrize("number", range(24))
def test_every_snapshot_of_a_random_history_is_what_pyiceberg_reads(
    catalog: InMemoryCatalog, seed: int, number: int
) -> None:
    history = History(catalog, seed + number, 1 + number % 2)
    for _ in range(10):
        history.change()
        scan = history.table.scan()
        source = open_source(history.table)
        expected = counted(scan.to_arrow())
        assert rows_of(history.table) == expected
        assert source.schema == scan.to_arrow_batch_reader().schema.remove_metadata()
        assert source.count_rows() == expected.total()
        assert sum(batch.num_rows for batch in source.batches([])) == expected.total()
    for snapshot in history.table.metadata.snapshots:
        scan = history.table.scan(snapshot_id=snapshot.snapshot_id)
        assert rows_of(scan) == counted(scan.to_arrow())


def data_files(table: Table) -> list[str]:
    return sorted(task.file.file_path for task in table.scan().plan_files())


def test_rows_that_are_deleted_by_position_are_left_out(
    catalog: InMemoryCatalog, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    rows = pa.table({"id": range(300), "name": [str(one) for one in range(300)]})
    table = table_of(catalog, rows)
    (first,) = data_files(table)
    for number in range(3):
        positions = sorted(chance.sample(range(300), 40))
        positions_file(tmp_path / f"{number}.parquet", first, positions)
        add_deletes(table, tmp_path / f"{number}.parquet", DataFileContent.POSITION_DELETES, 40)
        before = open_source(table).fingerprint
        table.append(pa.table({"id": [1000 + number], "name": ["new"]}))
        expected = table.scan().to_arrow()
        assert rows_of(table) == counted(expected)
        assert open_source(table).fingerprint != before
    with lookupstore.build(table, tmp_path / "s", key="id") as store:
        assert list(store) == sorted(expected["id"].to_pylist())
    scan = table.scan("id > 100 and name != '200'", selected_fields=("id",))
    assert rows_of(scan) == counted(scan.to_arrow())
    assert open_source(scan).count_rows() is None


def test_a_deletion_vector_counts_instead_of_older_deletes(
    catalog: InMemoryCatalog, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    table = table_of(catalog, pa.table({"id": range(100)}))
    table.append(pa.table({"id": range(100, 200)}))
    first, second = sorted(data_files(table), key=lambda one: rows_in(one)[0])
    positions_file(tmp_path / "0.parquet", first, [1, 2])
    add_deletes(table, tmp_path / "0.parquet", DataFileContent.POSITION_DELETES, 2)
    vectors = {one: sorted(chance.sample(range(3, 100), 30)) for one in (first, second)}
    vectors[first] += [99] * (99 not in vectors[first])
    vectors_file(tmp_path / "1.puffin", vectors)
    add_deletes(
        table, tmp_path / "1.puffin", DataFileContent.POSITION_DELETES, 60,
        file_format=FileFormat.PUFFIN,
    )  # fmt: skip
    gone = {*vectors[first], *(100 + one for one in vectors[second])}
    assert rows_of(table) == counted(pa.table({"id": sorted(set(range(200)) - gone)}))


def test_a_data_file_has_only_the_vectors_that_its_snapshot_names_for_it(tmp_path: Path) -> None:
    """Vectors are in files of three, and a vector of each of these is removed again."""
    table = IcebergTable(tmp_path / "t", [Column(1, "id", "long")], version=3)
    starts = range(0, 90, 10)
    files = [
        table.data_file(pa.table({"id": range(one, one + 10)}).cast(table.arrow)) for one in starts
    ]
    table.commit(files)
    vectors = []
    for at in range(0, 9, 3):
        vectors.append(
            table.vector_files({one.path: ([2, 5], 0, ()) for one in files[at : at + 3]})
        )
        table.commit(vectors[-1])
    found = planner.table_snapshot(str(tmp_path / "t")).files
    numbers = {str(one.path): at for at, one in enumerate(files)}
    assert {numbers[file.address.path]: file.deleted.paths for file in found} == {
        at: (f"file://{vectors[at // 3][0].path}",) for at in range(9)
    }
    whole = [one for one in range(90) if one % 10 not in (2, 5)]
    assert rows_of(tmp_path / "t") == counted(pa.table({"id": whole}))
    table.commit([], removed=[some[0] for some in vectors])
    restored = [one for one in range(90) if one // 10 % 3 == 0 or one % 10 not in (2, 5)]
    assert rows_of(tmp_path / "t") == counted(pa.table({"id": restored}))


def rows_in(file: str) -> list[int]:
    found: list[int] = pq.read_table(file.removeprefix("file://"))["id"].to_pylist()
    return found


def test_deletes_are_of_rows_that_were_there(catalog: InMemoryCatalog, tmp_path: Path) -> None:
    """Equality deletes apply to older files only, and null equals null."""
    rows = pa.table({"id": [1, 2, 3, None], "name": ["a", None, "c", None], "n": [1, 2, 3, 4]})
    table = table_of(catalog, rows)
    by_id = table.schema().find_field("id").field_id
    by_name = table.schema().find_field("name").field_id
    kinds = {"id": pa.int64(), "name": pa.string()}
    fields = {
        name: pa.field(name, kinds[name], True, {"PARQUET:field_id": str(number)})
        for name, number in (("id", by_id), ("name", by_name))
    }

    def delete(number: int, values: dict[str, list[Any]]) -> None:
        path = tmp_path / f"{number}.parquet"
        schema = pa.schema([fields[name] for name in values])
        pq.write_table(pa.table(list(values.values()), schema=schema), path)
        ids = [int(field.metadata[b"PARQUET:field_id"]) for field in schema]
        add_deletes(table, path, DataFileContent.EQUALITY_DELETES, 1, equality_ids=ids)

    def left() -> list[int]:
        opened = open_source(table)
        batches = opened.batches(["n"])
        assert opened.count_rows() is None
        return sorted(pa.Table.from_batches(batches)["n"].to_pylist())

    delete(0, {"id": [2]})
    assert left() == [1, 3, 4]
    table.append(pa.table({"id": [2, 1], "name": ["new", "new"], "n": [5, 6]}))
    assert left() == [1, 3, 4, 5, 6]
    delete(1, {"id": [None, 1], "name": [None, "new"]})  # not 1 of "a"
    assert left() == [1, 3, 5]
    with table.update_schema() as update:
        update.rename_column("id", "key")
    delete(2, {"name": ["c"]})
    assert left() == [1, 5]
    with lookupstore.build(table, tmp_path / "s", key="key") as store:
        assert list(store) == [1, 2]
        assert store.get(2) == {"name": "new", "n": 5}


def test_keys_of_a_spec_without_partitions_are_deleted_everywhere(tmp_path: Path) -> None:
    """A spec whose partitions were all removed has void fields, as in tables of version 1."""
    table = IcebergTable(tmp_path / "t", [Column(1, "id", "long"), Column(2, "part", "string")])
    for parts in ([Part(1000, 2, "part", "identity", "string")], [Part(1000, 2, "part", "void",
                  "string")]):  # fmt: skip
        table.place_by(parts)
        place = "x" if table.spec == 1 else None
        rows = pa.table([[table.spec, 10], ["x", "x"]], schema=table.arrow)
        table.commit([table.data_file(rows, (place,))])
    table.commit([table.keys_file(pa.table({"id": [10]}), table.spec, (None,))])
    assert rows_of(tmp_path / "t") == counted(pa.table({"id": [1, 2], "part": ["x", "x"]}))


def test_an_upsert_in_one_commit_deletes_the_older_row(
    catalog: InMemoryCatalog, tmp_path: Path
) -> None:
    """Flink writes the delete and the new row at one sequence number."""
    table = table_of(catalog, pa.table({"id": [1, 2], "n": [1, 2]}))
    fields = {
        name: pa.field(name, pa.int64(), True, {"PARQUET:field_id": str(number)})
        for number, name in enumerate(("id", "n"), 1)
    }
    pq.write_table(pa.table([[2]], schema=pa.schema([fields["id"]])), tmp_path / "d.parquet")
    rows = pa.table([[2], [20]], schema=pa.schema(list(fields.values())))
    pq.write_table(rows, tmp_path / "new.parquet")
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as update:
        update.append_data_file(described(
            table, tmp_path / "d.parquet", DataFileContent.EQUALITY_DELETES, 1, equality_ids=[1]
        ))  # fmt: skip
        update.append_data_file(described(table, tmp_path / "new.parquet", DataFileContent.DATA, 1))
    assert rows_of(table) == counted(pa.table({"id": [1, 2], "n": [1, 20]}))


def test_a_position_delete_of_one_commit_counts(catalog: InMemoryCatalog, tmp_path: Path) -> None:
    """A writer may delete rows of a file that the same commit adds."""
    table = table_of(catalog, pa.table({"id": [1]}))
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    new = tmp_path / "new.parquet"
    pq.write_table(pa.table([[2, 3, 4]], schema=pa.schema([field])), new)
    positions_file(tmp_path / "d.parquet", f"file://{new}", [1])
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as update:
        update.append_data_file(described(table, new, DataFileContent.DATA, 3))
        update.append_data_file(
            described(table, tmp_path / "d.parquet", DataFileContent.POSITION_DELETES, 1)
        )
    assert (
        rows_of(table) == counted(pa.table({"id": [1, 2, 4]})) == counted(table.scan().to_arrow())
    )


@pytest.mark.parametrize("most", [None, 150])
def test_delete_files_of_many_data_files_are_read_once(
    catalog: InMemoryCatalog, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch,
    most: int | None,
) -> None:  # fmt: skip
    """Spark may write a delete file per task, with rows of all data files of a partition."""
    chance, files, each, writers = random.Random(seed), 12, 100, 10
    table = catalog.create_table("w.t", pa.schema({"id": pa.int64()}))
    for at in range(files):
        table.append(pa.table({"id": range(at * each, (at + 1) * each)}))
    firsts = {path: rows_in(path)[0] for path in data_files(table)}
    left = set(range(files * each))
    for number in range(writers):
        chosen = sorted((path, chance.randrange(each)) for path in firsts for _ in range(5))
        chance.shuffle(chosen)
        ids = {name: str(2147483546 - at) for at, name in enumerate(("file_path", "pos"))}
        schema = pa.schema([
            pa.field(name, kind, False, {"PARQUET:field_id": ids[name]})
            for name, kind in (("file_path", pa.string()), ("pos", pa.int64()))
        ])  # fmt: skip
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table([list(one) for one in zip(*chosen, strict=True)], schema), path)
        add_deletes(table, path, DataFileContent.POSITION_DELETES, len(chosen))
        left -= {firsts[file] + position for file, position in chosen}
    read: list[str] = []
    real = deletes._positions

    def noted(description: str, file: Any) -> Any:
        read.append(file.address.path)
        return real(description, file)

    monkeypatch.setattr(deletes, "_positions", noted)
    if most is not None:
        monkeypatch.setattr(deletes, "_loaded", RecentlyRead(most, deletes._count))
    assert rows_of(table) == counted(pa.table({"id": sorted(left)}))
    assert rows_of(table) == counted(table.scan().to_arrow())
    assert (len(read) == writers) == (most is None)


def test_equality_deletes_of_a_partition_leave_the_others(
    catalog: InMemoryCatalog, tmp_path: Path
) -> None:
    rows = pa.table({"id": [1, 1], "day": ["a", "b"]})
    table = catalog.create_table("w.t", rows.schema)
    with table.update_spec() as update:
        update.add_identity("day")
    table.append(rows)
    number = table.schema().find_field("id").field_id
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": str(number)})
    pq.write_table(pa.table([[1]], schema=pa.schema([field])), tmp_path / "d.parquet")
    add_deletes(
        table, tmp_path / "d.parquet", DataFileContent.EQUALITY_DELETES, 1,
        equality_ids=[number], partition=Record("b"),
    )  # fmt: skip
    assert rows_of(table) == counted(pa.table({"id": [1], "day": ["a"]}))


def test_columns_of_files_without_field_ids_are_found_by_the_name_mapping(
    catalog: InMemoryCatalog, tmp_path: Path
) -> None:
    rows = pa.table({
        "id": [1, 2], "pair": [{"a": 1, "b": "x"}, None], "many": [[{"a": 1, "b": "y"}], []],
    })  # fmt: skip
    pq.write_table(rows, tmp_path / "foreign.parquet")
    table = catalog.create_table("w.t", rows.schema)
    table.add_files([f"file://{tmp_path}/foreign.parquet"])
    with table.update_schema() as update:
        update.rename_column("id", "key")
        update.rename_column("pair.a", "first")
    assert rows_of(table) == counted(table.scan().to_arrow())
    with lookupstore.build(table, tmp_path / "s", key="key") as store:
        assert store[1] == {"pair": {"first": 1, "b": "x"}, "many": [{"a": 1, "b": "y"}]}
    with table.transaction() as transaction:
        transaction.remove_properties("schema.name-mapping.default")
    with pytest.raises(FormatError, match=r"foreign\.parquet: the table finds columns by field"):
        lookupstore.build(table, tmp_path / "never", key="key")


def test_a_partition_value_stands_for_a_column_that_a_file_lacks(
    catalog: InMemoryCatalog, tmp_path: Path
) -> None:
    """Source: "Column Projection" in the specification."""
    folder = tmp_path / "day=2024-02-29"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), folder / "foreign.parquet")
    schema = pa.schema({"id": pa.int64(), "day": pa.date32()})
    table = catalog.create_table("w.t", schema)
    with table.update_spec() as update:
        update.add_identity("day")
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{folder}/foreign.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(19782),
        record_count=2,
        file_size_in_bytes=(folder / "foreign.parquet").stat().st_size,
    )
    file.spec_id = table.spec().spec_id
    with table.transaction() as transaction:
        mapping = table.schema().name_mapping.model_dump_json()
        transaction.set_properties(**{"schema.name-mapping.default": mapping})
        with transaction.update_snapshot().fast_append() as update:
            update.append_data_file(file)
    day = datetime.date(2024, 2, 29)
    assert rows_of(table) == counted(pa.table({"id": [1, 2], "day": [day, day]}))
    assert rows_of(table) == counted(table.scan().to_arrow())


def test_the_folder_of_a_table_without_a_catalog_is_its_newest_version(
    catalog: InMemoryCatalog, tmp_path: Path
) -> None:
    """Of a table of a catalog it is not known whether the newest metadata file was committed."""
    table = table_of(catalog, pa.table({"id": [1, 2, 3]}))
    table.delete("id = 2")
    folder = Path(table.location().removeprefix("file://"))
    with pytest.raises(FormatError, match="pass the table of its catalog"):
        open_source(folder)
    written = sorted((folder / "metadata").glob("*.metadata.json"))
    for number, path in enumerate(written, 1):
        path.rename(folder / "metadata" / f"v{number}.metadata.json")
    for given in (folder, str(folder), f"file://{folder}".replace(" ", "%20"), [folder]):
        with lookupstore.build(given, tmp_path / "s", key="id", overwrite=True) as store:
            assert list(store) == [1, 3]
    with pytest.raises(FormatError, match="is inside the Iceberg table"):
        open_source(folder / "data")
    with lookupstore.ColumnarFiles(folder, key="id") as files:
        assert files.contains([1, 2, 3]).to_pylist() == [True, False, True]


def test_what_is_gone_or_damaged_is_named(catalog: InMemoryCatalog, tmp_path: Path) -> None:
    table = table_of(catalog, pa.table({"id": list(range(1000))}))
    path = Path(data_files(table)[0].removeprefix("file://"))
    whole = path.read_bytes()
    for bad in (whole[:-1], whole + b"x", bytes(len(whole))):
        path.write_bytes(bad)
        with pytest.raises(CorruptionError, match=path.name):
            lookupstore.build(table, tmp_path / "s", key="id")
    path.unlink()
    with pytest.raises(StaleStoreError, match=rf"{path.name}: gone; .* open the table again"):
        lookupstore.build(table, tmp_path / "s", key="id")
    assert not (tmp_path / "s").exists()


def test_an_empty_table_and_one_without_snapshots_have_no_rows(catalog: InMemoryCatalog) -> None:
    table = catalog.create_table("w.t", ROWS)
    assert (open_source(table).count_rows(), rows_of(table).total()) == (0, 0)
    assert "without rows" in open_source(table).description
    table.append(ROWS.empty_table())
    assert (open_source(table).count_rows(), rows_of(table).total()) == (0, 0)


def test_what_is_not_supported_is_named(
    catalog: InMemoryCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(catalog, pa.table({"id": [1], "pair": [{"a": 1}]}))
    (tmp_path / "file").write_bytes(b"x")
    for what, details in (
        ("avro files", {"file_format": FileFormat.AVRO}),
        ("encrypted files", {"key_metadata": b"key"}),
    ):
        before = table.current_snapshot()
        assert before is not None
        add_deletes(table, tmp_path / "file", DataFileContent.DATA, 1, **details)
        with pytest.raises(
            FormatError, match=f"at snapshot .* uses {what}, which is not supported"
        ):
            open_source(table)
        table.manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
    before = table.current_snapshot()
    assert before is not None
    inner = table.schema().find_field("pair.a").field_id
    details = {"equality_ids": [inner]}
    add_deletes(table, tmp_path / "file", DataFileContent.EQUALITY_DELETES, 1, **details)
    with pytest.raises(FormatError, match="uses equality deletes on a nested or dropped column"):
        open_source(table)
    table.manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
    with pytest.raises(FormatError, match="uses a scan limit"):
        open_source(table.scan(limit=1))
    with pytest.raises(FormatError, match="uses a filter on a struct field"):
        open_source(table.scan("pair.a > 0"))
    with monkeypatch.context() as patched:
        patched.delattr("pyiceberg.table.ManifestGroupPlanner")
        with pytest.raises(FormatError, match=r"pyiceberg .* does not list the deletes of a table"):
            open_source(table)


def test_a_table_in_a_file_system_that_pyiceberg_may_not_open_is_refused(
    catalog: InMemoryCatalog, tmp_path: Path
) -> None:
    table = table_of(catalog, pa.table({"id": [1]}))
    folder = Path(table.location().removeprefix("file://"))
    (only,) = sorted((folder / "metadata").glob("*.metadata.json"))[-1:]
    only.rename(folder / "metadata" / "v9.metadata.json")
    elsewhere = fs.SubTreeFileSystem(str(folder.parent), fs.LocalFileSystem())
    with pytest.raises(FormatError, match="in a file system whose options pyiceberg may name"):
        open_source(lookupstore.Location(folder.name, filesystem=elsewhere))


@pytest.mark.parametrize("folder", ["", "/a b/c", "file:///a/x?b", "s3://bucket", "s3a://b/%2F"])
def test_the_address_of_a_file_is_that_of_its_location(folder: str) -> None:
    """Names with a meaning in a URI or a path are among them."""
    io = PyArrowFileIO({"s3.region": "us-east-1"})
    addresses = planner._Addresses(io)
    for name in ("x", "a-1.parquet", "b=2", "x?y", "x#y", "x;y", "x%20y", "ü", "..", ".", ""):
        location = f"{folder}/{name}" if folder else f"n{name}"
        assert addresses.of(location) == planner._address(io, location)
