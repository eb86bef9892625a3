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
from support.paimon_tables import PaimonTable

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


def keyed_files(folder: Path, engine: str) -> dict[str, Path]:
    """Write a Paimon table of two sections, and return some of its files.

    The file `all` has a newer row for a key of each of the files `low` and `middle`. No other file
    has keys of `high`, which has two row groups.
    """
    fields = {"id": "INT NOT NULL", "name": "STRING"}
    options = {"merge-engine": engine}
    if engine == "aggregation":
        options["fields.name.aggregate-function"] = "last_value"
    table = PaimonTable(folder, fields, ["id"], options=options)
    files = {}
    for at, (name, ids) in enumerate([
        ("low", [1, 2, 3]), ("middle", [50, 51]), ("all", [2, 51]), ("high", [90, 99]),
    ]):  # fmt: skip
        kinds = pa.schema([pa.field("id", pa.int32(), nullable=False), ("name", pa.string())])
        rows = pa.table({"id": ids, "name": [name] * len(ids)}, schema=kinds)
        level = 0 if name in ("all", "high") else 5
        files[name] = table.add(
            rows, level=level, sequence=[at * 10 + one for one in range(len(ids))]
        )
        pq.write_table(files[name].rows, table.path(files[name]), row_group_size=1)
        files[name].entry["_FILE"]["_FILE_SIZE"] = table.path(files[name]).stat().st_size
    table.commit(*files.values())
    return {name: table.path(file) for name, file in files.items()}


def damage_row_group(path: Path, number: int) -> None:
    group = pq.read_metadata(path).row_group(number)
    content = bytearray(path.read_bytes())
    for at in range(group.num_columns):
        start = group.column(at).dictionary_page_offset or group.column(at).data_page_offset
        content[start : start + 8] = b"\xff" * 8
    path.write_bytes(content)


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation"])
@pytest.mark.parametrize(
    ("damaged", "where", "expected"),
    [
        ({"high": [0, 1]}, "id < 60", {1: "low", 2: "all", 3: "low", 50: "middle", 51: "all"}),
        ({"low": [0, 1, 2], "all": [0]}, "id > 60", {90: "high", 99: "high"}),
        ({"high": [0]}, "id > 95", {99: "high"}),
        ({"middle": [0, 1], "all": [1]}, "id < 10", {1: "low", 2: "all", 3: "low"}),
        ({"low": [0, 1, 2]}, "id in (50, 51)", {50: "middle", 51: "all"}),
        ({"low": [2]}, "id < 3 and name <> 'low'", {2: "all"}),
    ],
)
def test_a_condition_on_the_key_leaves_out_what_is_merged(
    engine: str,
    damaged: dict[str, list[int]],
    where: str,
    expected: dict[int, str],
    tmp_path: Path,
) -> None:
    files = keyed_files(tmp_path / "t", engine)
    for name, groups in damaged.items():
        for number in groups:
            damage_row_group(files[name], number)
    with lookupstore.build(tmp_path / "t", tmp_path / "s", key="id", where=where) as store:
        assert store.to_arrow().to_pydict() == {"id": [*expected], "name": [*expected.values()]}
    with pytest.raises(CorruptionError):
        lookupstore.build(tmp_path / "t", tmp_path / "all", key="id")


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation"])
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("name = 'low'", [1, 3]),
        ("id <= 2 and name = 'low'", [1]),
        ("id = 2 or name = 'middle'", [2, 50]),
    ],
)
def test_rows_that_do_not_meet_a_condition_still_replace_others(
    engine: str, where: str, expected: list[int], tmp_path: Path
) -> None:
    keyed_files(tmp_path / "t", engine)
    with lookupstore.build(tmp_path / "t", tmp_path / "s", key="id", where=where) as store:
        assert list(store) == expected


def test_lookups_merge_only_files_that_may_have_keys_of_the_condition(tmp_path: Path) -> None:
    files = keyed_files(tmp_path / "t", "deduplicate")
    for name in ("low", "high"):
        files[name].unlink()
    with ColumnarFiles(tmp_path / "t", key="id", where="id in (50, 51)") as found:
        assert found.num_files == 2
        table = found.lookup([1, 50, 51])
    assert table.column("name").to_pylist() == [None, "middle", "all"]


def test_rows_of_files_that_are_ruled_out_still_replace_others(
    golden: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(golden / "paimon" / "tables" / "replaced-row.zip") as archive:
        archive.extractall(tmp_path)
    for name, keys in (("old", []), ("new", [1])):
        where = ("name", "=", name)
        with lookupstore.build(tmp_path / "t", tmp_path / name, key="id", where=where) as store:
            assert list(store) == keys
