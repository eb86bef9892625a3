"""Statistics of data files in the metadata of tables: around the values, and files left out."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table as IcebergTable
from support.delta_tables import with_deleted
from support.histories.delta import DeltaHistory
from support.histories.delta_log import DeltaLogHistory
from support.histories.iceberg import IcebergHistory

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.errors import CorruptionError, StaleStoreError
from lookupstore.tables import delta
from lookupstore.tables.iceberg import planner as iceberg
from lookupstore.tables.paimon import planner as paimon
from lookupstore.tables.rows import rows_of
from lookupstore.tables.snapshot import Snapshot


def check(snapshot: Snapshot) -> int:
    """Compare the statistics of all files with their rows, and return how many bounds there are."""
    found = 0
    for file in snapshot.files:
        if file.statistics is None or file.merged is not None:
            continue
        for name in snapshot.columns.names:
            said = file.statistics.of(name)
            if said is None:
                continue
            whole = replace(file, deleted=None, deleted_keys=())
            batches = rows_of(replace(snapshot, filter=None), whole, [name])
            rows = pa.Table.from_batches(batches, pa.schema([snapshot.columns.field(name)]))
            values = rows.column(0)
            if said.nulls in (0, file.num_rows):
                assert values.null_count == (said.nulls if values.null_count else 0)
            values = values.drop_null()
            if pa.types.is_floating(values.type):
                values = values.filter(pc.invert(pc.is_nan(values)))
            for bound, compare in ((said.least, pc.less_equal), (said.greatest, pc.greater_equal)):
                if bound is not None and len(values):
                    bound = bound.cast(values.type)
                    assert pc.all(compare(bound, values)).as_py(), (name, said)
                    found += 1
    return found


def test_bounds_in_tables_of_deltalake(tmp_path: Path, seed: int) -> None:
    found = 0
    for number in range(3):
        history = DeltaHistory(tmp_path / f"{number}", seed + number)
        for _ in range(6):
            history.change()
        found += check(delta.table_snapshot(str(tmp_path / f"{number}")))
    assert found


def test_bounds_in_tables_with_vectors_and_mapped_columns(tmp_path: Path, seed: int) -> None:
    for number in range(3):
        history = DeltaLogHistory(tmp_path / f"{number}", seed + number)
        for _ in range(6):
            history.change()
        check(delta.table_snapshot(str(tmp_path / f"{number}")))


def test_bounds_in_tables_of_spark(golden: Path, tmp_path: Path) -> None:
    for name in ("column-mapping", "deletion-vectors"):
        with zipfile.ZipFile(golden / "delta" / f"{name}.zip") as archive:
            archive.extractall(tmp_path / name)
    tables = [log.parent for log in tmp_path.rglob("_delta_log")]
    assert sum(check(delta.table_snapshot(str(one))) for one in tables)


@pytest.mark.filterwarnings("ignore:Delete operation did not match:UserWarning")
def test_bounds_in_tables_of_pyiceberg(tmp_path: Path, seed: int) -> None:
    found = 0
    for number in range(3):
        catalog = InMemoryCatalog("w", warehouse=f"file://{tmp_path}/{number}")
        catalog.create_namespace("w")
        history = IcebergHistory(catalog, seed + number)
        for _ in range(6):
            history.change()
        found += check(iceberg.table_snapshot(history.table))
    assert found


@pytest.mark.parametrize("archive", ["java", "pypaimon", "engines"])
def test_bounds_in_tables_of_paimon(archive: str, golden: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(golden / "paimon" / "tables" / f"{archive}.zip") as given:
        given.extractall(tmp_path)
    tables = [rows.parent for rows in tmp_path.rglob("rows.json")]
    assert tables
    assert sum(check(paimon.table_snapshot(str(one))) for one in tables)


def test_greatest_times_that_the_log_has_rounded_down(tmp_path: Path) -> None:
    moment = datetime.datetime(2024, 1, 1, 0, 0, 0, 123456, datetime.timezone.utc)
    rows = pa.table({"id": [1], "at": pa.array([moment], pa.timestamp("us", "UTC"))})
    deltalake.write_deltalake(tmp_path / "t", rows)
    where = ("at", ">=", moment)
    with lookupstore.build(tmp_path / "t", tmp_path / "s", key="id", where=where) as store:
        assert list(store) == [1]


def rows_from(first: int) -> pa.Table:
    return pa.table({"id": range(first, first + 100), "name": [f"n{first}"] * 100})


def delta_files(folder: Path) -> tuple[str, Callable[[pa.Table], object]]:
    def append(rows: pa.Table) -> None:
        deltalake.write_deltalake(folder, rows, mode="append")

    return str(folder), append


def iceberg_files(folder: Path) -> tuple[IcebergTable, Callable[[pa.Table], object]]:
    catalog = InMemoryCatalog("w", warehouse=f"file://{folder}")
    catalog.create_namespace("w")
    table = catalog.create_table("w.t", rows_from(0).schema)
    return table, table.append


def path_of_rows(folder: Path, first: int) -> Path:
    """Return the path of the data file with the rows of `rows_from`."""
    paths = [one for one in folder.rglob("*.parquet") if "metadata" not in one.parts]
    (found,) = [one for one in paths if pq.read_table(one)["id"][0].as_py() == first]
    return found


@pytest.mark.parametrize("make", [delta_files, iceberg_files])
def test_files_that_statistics_rule_out_may_be_gone(
    make: Callable[[Path], tuple[str, Callable[[pa.Table], object]]], tmp_path: Path
) -> None:
    table, append = make(tmp_path / "t")
    for first in (0, 100, 200):
        append(rows_from(first))
    path_of_rows(tmp_path / "t", 0).unlink()
    where = "id between 150 and 249"
    with lookupstore.build(table, tmp_path / "s", key="id", where=where) as store:
        assert list(store) == [*range(150, 250)]
    with ColumnarFiles(table, key="id", where=where) as files:
        assert files.num_files == 2
        assert files.contains([0, 149, 150, 249, 250]).to_pylist() == [
            False, False, True, True, False,
        ]  # fmt: skip
    with pytest.raises(StaleStoreError, match="gone"):
        lookupstore.build(table, tmp_path / "all", key="id")


@pytest.mark.parametrize("make", [delta_files, iceberg_files])
def test_a_store_that_follows_reads_no_file_that_is_ruled_out(
    make: Callable[[Path], tuple[str, Callable[[pa.Table], object]]], tmp_path: Path
) -> None:
    table, append = make(tmp_path / "t")
    append(rows_from(0))
    store = lookupstore.follow(table, tmp_path / "s", key="id", where="id >= 50 and id < 450")
    append(rows_from(400))
    append(rows_from(900))
    path_of_rows(tmp_path / "t", 900).unlink()
    store = store.sync()
    assert list(store) == [*range(50, 100), *range(400, 450)]
    assert "rebuilt" not in store.info().follows
    append(rows_from(300))
    assert len(store.sync()) == 200


def test_deleted_rows_behind_row_groups_that_are_ruled_out(tmp_path: Path) -> None:
    groups = deltalake.WriterProperties(max_row_group_size=100)
    rows = pa.table({"id": range(400)})
    for name in "tu":
        deltalake.write_deltalake(tmp_path / name, rows, writer_properties=groups)
    with_deleted(tmp_path / "t", [5, 201, 399])
    given = str(tmp_path / "t")
    (file,) = deltalake.DeltaTable(given).file_uris()
    assert pq.read_metadata(file.removeprefix("file://")).num_row_groups == 4
    with lookupstore.build(
        given, tmp_path / "s", key="id", where="id between 200 and 203"
    ) as store:
        assert list(store) == [200, 202, 203]
    with_deleted(tmp_path / "u", [400], claimed=500)
    with pytest.raises(CorruptionError, match="at least 401 rows"):
        lookupstore.build(tmp_path / "u", tmp_path / "w", key="id", where="id = 1")


def test_rows_of_files_that_are_ruled_out_still_replace_others(
    golden: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(golden / "paimon" / "tables" / "replaced-row.zip") as archive:
        archive.extractall(tmp_path)
    for name, keys in (("old", []), ("new", [1])):
        where = ("name", "=", name)
        with lookupstore.build(tmp_path / "t", tmp_path / name, key="id", where=where) as store:
            assert list(store) == keys
