"""Stores that follow Iceberg tables, beside pyiceberg, and beside a model where it refuses."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.changelog import check_changes
from support.histories.model import Model, model_of

from lookupstore import LookupStore, follow

pytest.importorskip("pyiceberg")
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import StaticTable, Table
from pyiceberg.typedef import Record
from pyiceberg.types import LongType
from support.histories.iceberg import SCHEMA_CHANGES, IcebergHistory
from support.iceberg_tables import positions_file, vectors_file


@pytest.fixture
def catalog(tmp_path: Path) -> InMemoryCatalog:
    catalog = InMemoryCatalog("w", warehouse=f"file://{tmp_path}/top w")
    catalog.create_namespace("w")
    return catalog


def stored(store: LookupStore) -> Model:
    return model_of(store.scan().read_all())


def rebuilt(store: LookupStore) -> str | None:
    followed = store.info().follows
    assert followed is not None
    return followed.get("rebuilt")


@pytest.mark.drawn(0.2)
@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@pytest.mark.parametrize("number", range(24))
def test_a_store_has_the_rows_of_each_snapshot_of_a_random_history(
    catalog: InMemoryCatalog, tmp_path: Path, seed: int, number: int
) -> None:
    chance = random.Random(seed + number)
    columns = chance.choice([None, ["s", "part"]])
    names = ["id", *columns] if columns else None
    history = IcebergHistory(catalog, seed + number, keeps=columns or ())
    given = catalog.load_table("w.t")
    store = follow(given, tmp_path / "s", key="id", columns=columns, buckets=chance.choice([1, 3]))
    before = stored(store)
    for _ in range(10):
        had_names = history.table.name_mapping() is not None
        done = [history.change() for _ in range(chance.choice([1, 1, 2, 4]))]
        newer = store.sync()
        read = history.table.scan().to_arrow()
        after = stored(newer)
        assert after == model_of(read.select(names or read.column_names)), done
        assert newer.version - store.version == (newer is not store)
        is_kept = "expire" not in done and (columns or not SCHEMA_CHANGES & set(done))
        if not had_names and history.table.name_mapping() is not None:
            assert rebuilt(newer) is not None  # the first added file gives a table this mapping
        elif newer is not store and is_kept:
            assert rebuilt(newer) is None, done
            check_changes(newer.changes(store.version), before, after)
        newer.verify()
        store, before = newer, after


def committed(
    table: Table, path: Path, content: DataFileContent, rows: int, **details: Any
) -> None:
    """Commit a delete file to a table, as pyiceberg commits a data file."""
    file = DataFile.from_args(
        content=content,
        file_path=f"file://{path}",
        file_format=details.pop("file_format", FileFormat.PARQUET),
        partition=Record(),
        record_count=rows,
        file_size_in_bytes=path.stat().st_size,
        **details,
    )
    file.spec_id = table.spec().spec_id
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as update:
        update.append_data_file(file)


@pytest.mark.parametrize("number", range(6))
def test_deletes_of_every_kind_remove_their_rows_only(
    catalog: InMemoryCatalog, tmp_path: Path, seed: int, number: int
) -> None:
    """The table merges on read: positions, vectors and keys are deleted, in any order."""
    chance = random.Random(seed + number)
    table = catalog.create_table("w.t", pa.schema({"id": pa.int64(), "s": pa.string()}))
    model: Model = {}
    files: dict[str, list[int]] = {}  # ids of each data file, in its order
    homes: dict[int, str] = {}  # the newest file that has each id

    def append(ids: Sequence[int]) -> None:
        values = [chance.choice(["a", "b", "c"]) for _ in ids]
        known = set(files)
        table.append(pa.table({"id": ids, "s": values}))
        for entry in table.inspect.data_files()["file_path"].to_pylist():
            if entry not in known:
                files[entry] = list(ids)
                homes.update(dict.fromkeys(ids, entry))
        model.update(zip(ids, ((one,) for one in values), strict=True))

    def is_in(one: int, file: str) -> bool:
        return one in model and homes[one] == file

    def remove(file: str, gone: Sequence[int]) -> None:
        for one in [files[file][at] for at in gone]:
            if is_in(one, file):
                del model[one]

    append(range(40))
    store = follow(table, tmp_path / "s", key="id", buckets=2)
    next_id = 40
    field_ids = {one.name: str(one.field_id) for one in table.schema().fields}
    vectors: dict[str, Sequence[int]] = {}
    for step in range(12):
        what = chance.choice(["append", "positions", "keys", "values", "upsert", "vectors"])
        path = tmp_path / f"{step}.parquet"
        if what == "append":
            append(range(next_id, next_id + 10))
            next_id += 10
        elif what == "positions":
            file = chance.choice(sorted(set(files) - set(vectors)) or sorted(files))
            if file in vectors:
                continue
            gone = sorted(chance.sample(range(len(files[file])), 3))
            positions_file(path, file, gone)
            committed(table, path, DataFileContent.POSITION_DELETES, 3)
            remove(file, gone)
        elif what == "vectors":
            file = chance.choice(sorted(files))
            alive = [at for at, one in enumerate(files[file]) if is_in(one, file)]
            dead = [at for at, one in enumerate(files[file]) if not is_in(one, file)]
            gone = chance.sample(alive, min(2, len(alive)))
            vectors[file] = sorted({*dead, *gone})
            if not vectors[file]:
                del vectors[file]
                continue
            vectors_file(path, {file: vectors[file]})
            committed(
                table, path, DataFileContent.POSITION_DELETES, len(vectors[file]),
                file_format=FileFormat.PUFFIN,
            )  # fmt: skip
            remove(file, gone)
        else:
            name = "s" if what == "values" else "id"
            kind = pa.string() if what == "values" else pa.int64()
            values: Any = [chance.choice(["a", "b"])]
            if what != "values":
                values = chance.sample(range(next_id), 3)
            schema = pa.schema([pa.field(name, kind, True, {"PARQUET:field_id": field_ids[name]})])
            pq.write_table(pa.table([values], schema=schema), path)
            committed(
                table, path, DataFileContent.EQUALITY_DELETES, len(values),
                equality_ids=[int(field_ids[name])],
            )  # fmt: skip
            if what == "values":
                for one in [one for one, row in model.items() if row[0] in values]:
                    del model[one]
            else:
                for one in values:
                    model.pop(one, None)
            if what == "upsert":  # the rows with these keys are in a newer file now
                append(values)
        if chance.random() < 0.6:
            before = stored(store)
            newer = store.sync()
            assert stored(newer) == model, (step, what)
            assert rebuilt(newer) is None
            check_changes(newer.changes(store.version), before, model)
            store = newer
    assert stored(store.sync()) == model
    with follow(table, tmp_path / "again", key="id") as again:
        assert stored(again) == model


def test_a_filter_of_a_scan_is_followed(catalog: InMemoryCatalog, tmp_path: Path) -> None:
    table = catalog.create_table("w.t", pa.schema({"id": pa.int64(), "n": pa.int64()}))
    table.append(pa.table({"id": range(10), "n": range(10)}))
    scan = table.scan("n >= 5", selected_fields=("id", "n"))
    store = follow(scan, tmp_path / "s", key="id")
    assert list(store) == [5, 6, 7, 8, 9]
    table.upsert(pa.table({"id": [1, 6], "n": [100, 0]}), join_cols=["id"])
    store = store.sync()
    assert (list(store), rebuilt(store)) == ([1, 5, 7, 8, 9], None)
    store = follow(table.scan("n >= 7"), tmp_path / "s", key="id")
    assert list(store) == [1, 7, 8, 9]
    assert "the filter" in str(rebuilt(store))
    first = table.metadata.snapshots[0].snapshot_id
    with pytest.raises(ValueError, match=r"table is a scan of snapshot \d+, which never changes"):
        follow(table.scan(snapshot_id=first), tmp_path / "s", key="id")


def test_a_column_of_the_same_name_is_another_one(catalog: InMemoryCatalog, tmp_path: Path) -> None:
    """Its values are null in files that had the former column."""
    table = catalog.create_table("w.t", pa.schema({"id": pa.int64(), "n": pa.int64()}))
    table.append(pa.table({"id": [1], "n": [1]}))
    store = follow(table, tmp_path / "s", key="id")
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("n")
    with table.update_schema() as update:
        update.add_column("n", LongType())
    store = store.sync()
    assert stored(store) == {1: (None,)}
    assert "of its name" in str(rebuilt(store))
    with table.update_schema() as update:
        update.rename_column("n", "m")
    store = store.sync()
    assert str(rebuilt(store)).startswith("the value column 'n' (int64) is gone")
    assert store.value_schema.names == ["m"]


def test_the_documentation_of_columns_may_change(catalog: InMemoryCatalog, tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "at": pa.struct({"x": pa.int64()})})
    table = catalog.create_table("w.t", schema)
    for at, name in enumerate(["id", "at", "at.x", "id"]):
        table.append(pa.Table.from_pylist([{"id": at, "at": {"x": at}}], schema))
        with follow(table, tmp_path / "s", key="id") as store:
            assert stored(store)[at] == ({"x": at},)
            assert rebuilt(store) is None
        with table.update_schema() as update:
            update.update_column(name, doc=f"what {name} is")


def test_a_snapshot_that_expired_or_lost_files(catalog: InMemoryCatalog, tmp_path: Path) -> None:
    table = catalog.create_table("w.t", pa.schema({"id": pa.int64(), "n": pa.int64()}))
    table.append(pa.table({"id": [1, 2], "n": [1, 1]}))
    store = follow(table, tmp_path / "s", key="id")
    (old,) = table.inspect.data_files()["file_path"].to_pylist()
    table.upsert(pa.table({"id": [1], "n": [5]}), join_cols=["id"])
    Path(old.removeprefix("file://")).unlink()
    store = store.sync()
    assert stored(store) == {1: (5,), 2: (1,)}
    assert "gone; a vacuum or expiry" in str(rebuilt(store))
    has = (store.info().follows or {})["snapshot"]
    table.append(pa.table({"id": [3], "n": [3]}))
    table.maintenance.expire_snapshots().by_id(int(has)).commit()
    store = store.sync()
    assert stored(store) == {1: (5,), 2: (1,), 3: (3,)}
    assert f"snapshot {has}, which the store has, is no longer in" in str(rebuilt(store))
    catalog.drop_table("w.t")
    again = catalog.create_table("w.t", pa.schema({"id": pa.int64(), "n": pa.int64()}))
    again.append(pa.table({"id": [7], "n": [7]}))
    store = store.sync()
    assert stored(store) == {7: (7,)}
    assert "another table" in str(rebuilt(store))


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
def test_a_file_that_is_replaced_and_added_again_is_another_one(
    catalog: InMemoryCatalog, tmp_path: Path
) -> None:
    """Its path and size stay, as of a file that a job exports each day."""
    table = catalog.create_table("w.t", pa.schema({"id": pa.int64(), "s": pa.string()}))
    table.append(pa.table({"id": [9], "s": ["z"]}))
    path, sizes = tmp_path / "part-0.parquet", []
    for value in "ab":
        pq.write_table(pa.table({"id": [1, 2], "s": [value, "c"]}), path)
        table.delete("id < 9")
        table.add_files([f"file://{path}"])
        store = follow(table, tmp_path / "s", key="id")
        sizes.append(path.stat().st_size)
        assert stored(store) == {1: (value,), 2: ("c",), 9: ("z",)}
    assert (sizes[0], store.version, rebuilt(store)) == (sizes[1], 2, None)


def test_a_table_without_rows_and_without_a_catalog(
    catalog: InMemoryCatalog, tmp_path: Path
) -> None:
    table = catalog.create_table("w.t", pa.schema({"id": pa.int64(), "n": pa.int64()}))
    folder = Path(table.location().removeprefix("file://"))

    def newest() -> None:
        """Name the newest metadata file as tables without a catalog do."""
        file = catalog.load_table("w.t").metadata_location.removeprefix("file://")
        number = len(list((folder / "metadata").glob("v*.metadata.json"))) + 1
        shutil.copyfile(file, folder / "metadata" / f"v{number}.metadata.json")

    newest()
    store = follow(folder, tmp_path / "s", key="id")
    assert list(store) == []
    table.append(pa.table({"id": [1], "n": [1]}))
    assert store.sync() is store
    newest()
    store = store.sync()
    assert (stored(store), rebuilt(store)) == ({1: (1,)}, None)
    static = StaticTable.from_metadata(catalog.load_table("w.t").metadata_location)
    with follow(static, tmp_path / "s", key="id") as same:
        assert same.version == store.version
