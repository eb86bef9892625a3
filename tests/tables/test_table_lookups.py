"""Lookups in the data files of Delta and Iceberg tables, compared with a dict of their rows."""

from __future__ import annotations

import datetime
import logging
import pickle
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lookupstore import CorruptionError, DuplicateKeyError, FormatError, StaleStoreError
from lookupstore.columnar import ColumnarFiles
from lookupstore.hostcache.cache import Residency

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
import deltalake
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.manifest import DataFileContent
from pyiceberg.types import LongType
from support.delta_tables import with_deleted
from support.iceberg_tables import add_deletes, positions_file

KEYS = 60
MAKING = "building a lookup file"


@pytest.fixture
def residency(tmp_path: Path) -> Residency:
    return Residency(tmp_path / "cache", quota=64 << 20)


@pytest.fixture
def catalog(tmp_path: Path) -> InMemoryCatalog:
    catalog = InMemoryCatalog("w", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("w")
    return catalog


@pytest.fixture(autouse=True)
def _told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="lookupstore")


def made(caplog: pytest.LogCaptureFixture) -> int:
    """Return the number of lookup files that were made since the last call."""
    count = sum(MAKING in record.msg for record in caplog.records)
    caplog.clear()
    return count


class Model:
    """The rows that a table must have, by their keys, and the rows of its next change."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rows: dict[int, dict[str, Any]] = {}

    def new(self) -> list[dict[str, Any]]:
        """Return some rows with other keys than the table has."""
        free = sorted(set(range(KEYS)) - set(self.rows))
        keys = self.chance.sample(free, min(len(free), self.chance.choice([1, 5, 20])))
        rows = [self.row(key) for key in keys]
        self.rows |= {row["id"]: row for row in rows}
        return rows

    def row(self, key: int) -> dict[str, Any]:
        chance = self.chance
        names = ["", "x", "ü", None]
        return {"id": key, "name": chance.choice(names), "n": chance.choice([-1, 0, 7, None])}

    def some(self) -> list[int]:
        """Return some keys of the table."""
        return self.chance.sample(sorted(self.rows), min(len(self.rows), self.chance.randint(1, 9)))

    def check(self, table: Any, residency: Residency, key: str = "id", **names: str) -> None:
        """Compare lookups in a table, in one mode out of several, with the rows."""
        build = self.chance.choice(["auto", "auto", "never", "always"])
        columns = self.chance.choice([None, ["n"]])
        given = {name: names.get(name, name) for name in ("name", "n")}
        columns = columns and [given["n"]]
        with ColumnarFiles(table, key=key, columns=columns, build=build, residency=residency) as (
            files
        ):
            if self.chance.random() < 0.3:
                files = pickle.loads(pickle.dumps(files))
            wanted = self.chance.choices(range(-3, KEYS + 3), k=self.chance.choice([1, 3, 200]))
            found = files.lookup(pa.array(wanted, pa.int64())).to_pylist()
            assert files.contains(wanted).to_pylist() == [one in self.rows for one in wanted]
            chosen = {old: new for old, new in given.items() if columns is None or new in columns}
            missing = dict.fromkeys(chosen)
            for one, row in zip(wanted, found, strict=True):
                expected = self.rows.get(one, missing)
                assert {old: row[new] for old, new in chosen.items()} == {
                    old: expected[old] for old in chosen
                }
            if build != "never" and self.chance.random() < 0.5:
                scanned = [row for batch in files.scan() for row in batch.to_pylist()]
                assert [row[key] for row in scanned] == sorted(self.rows)
            if self.chance.random() < 0.3:
                files.verify()


class DeltaHistory(Model):
    """Random changes of a Delta table with unique keys, by deltalake."""

    def __init__(self, path: Path, seed: int) -> None:
        super().__init__(seed)
        self.path = str(path)
        self._append()

    def _table(self) -> Any:
        return deltalake.DeltaTable(self.path)

    def _append(self) -> None:
        rows = self.new()
        if rows:
            deltalake.write_deltalake(self.path, arrow(rows), mode="append")

    def change(self) -> None:
        match self.chance.choice(["append", "append", "delete", "update", "merge", "compact"]):
            case "append":
                self._append()
            case "delete":
                gone = self.some()
                if gone:
                    self._table().delete(f"id in ({', '.join(map(str, gone))})")
                    self.rows = {key: row for key, row in self.rows.items() if key not in gone}
            case "update":
                keys = self.some()
                if keys:
                    predicate = f"id in ({', '.join(map(str, keys))})"
                    self._table().update(updates={"n": "11"}, predicate=predicate)
                    for key in keys:
                        self.rows[key] = {**self.rows[key], "n": 11}
            case "merge":
                rows = [self.row(key) for key in [*self.some()]]
                if rows:
                    merger = self._table().merge(arrow(rows), "s.id = t.id", "s", "t")
                    merger.when_matched_update_all().when_not_matched_insert_all().execute()
                    self.rows |= {row["id"]: row for row in rows}
            case "compact":
                self._table().optimize.compact()


def arrow(rows: list[dict[str, Any]]) -> pa.Table:
    schema = pa.schema({"id": pa.int64(), "name": pa.string(), "n": pa.int32()})
    return pa.Table.from_pylist(rows, schema)


@pytest.mark.drawn(0.2)
@pytest.mark.parametrize("number", range(16))
def test_every_version_of_a_delta_table_answers_with_its_rows(
    tmp_path: Path, residency: Residency, seed: int, number: int
) -> None:
    history = DeltaHistory(tmp_path / "t", seed + number)
    versions = {history._table().version(): dict(history.rows)}
    for _ in range(8):
        history.change()
        versions[history._table().version()] = dict(history.rows)
        history.check(history.path, residency)
    for version, rows in versions.items():
        history.rows = rows
        history.check(deltalake.DeltaTable(history.path, version=version), residency)


class IcebergHistory(Model):
    """Random changes of an Iceberg table with unique keys, and delete files of all kinds."""

    def __init__(self, catalog: InMemoryCatalog, folder: Path, seed: int) -> None:
        super().__init__(seed)
        properties = {"format-version": "2"}
        self.table = catalog.create_table("w.t", arrow([]).schema, properties=properties)
        self._folder = folder
        self._names = {"id": "id", "name": "name", "n": "n"}
        self._count = 0
        self._has_key_deletes = False
        self._append()

    def _arrow(self, rows: list[dict[str, Any]]) -> pa.Table:
        table = arrow(rows)
        return table.rename_columns([self._names[name] for name in table.schema.names])

    def _append(self) -> None:
        self.table.append(self._arrow(self.new()))

    def _path(self) -> Path:
        self._count += 1
        return self._folder / f"{self._count}.parquet"

    def _forget(self, keys: list[int]) -> None:
        self.rows = {key: row for key, row in self.rows.items() if key not in keys}

    def change(self) -> None:
        ways = ["append", "append", "delete", "positions", "keys", "upsert", "rename", "widen"]
        match self.chance.choice(ways):
            case "append":
                self._append()
            case "delete" if self.rows:
                gone = self.some()
                self._rewrite(gone)
                self._forget(gone)
            case "positions" if self.rows:
                self._forget(self._delete_positions(set(self.some())))
            case "keys" if self.rows:
                gone = self.some()
                self._delete_keys(gone)
                self._forget(gone)
            case "upsert" if self.rows:  # as Flink does: keys first, then the new rows
                keys = self.some()
                self._delete_keys(keys)
                rows = [self.row(key) for key in keys]
                self.table.append(self._arrow(rows))
                self.rows |= {row["id"]: row for row in rows}
            case "rename":
                name = self.chance.choice(sorted(self._names))
                new = f"{name}{self._count}x"
                self._count += 1
                with self.table.update_schema() as update:
                    update.rename_column(self._names[name], new)
                self._names[name] = new
            case "widen":
                with self.table.update_schema() as update:
                    update.update_column(self._names["n"], LongType())

    def _rewrite(self, gone: list[int]) -> None:
        """Delete rows as pyiceberg does, which it refuses for tables with equality deletes."""
        if self._has_key_deletes:
            self._delete_keys(gone)
        else:
            self.table.delete(f"{self._names['id']} in ({', '.join(map(str, gone))})")

    def _delete_keys(self, keys: list[int]) -> None:
        number = self.table.schema().find_field(self._names["id"]).field_id
        field = pa.field("k", pa.int64(), metadata={"PARQUET:field_id": str(number)})
        path = self._path()
        pq.write_table(pa.table([keys], schema=pa.schema([field])), path)
        self._has_key_deletes = True
        kind = DataFileContent.EQUALITY_DELETES
        add_deletes(self.table, path, kind, len(keys), equality_ids=[number])

    def _delete_positions(self, keys: set[int]) -> list[int]:
        """Delete rows of one file by their positions, and return their keys."""
        snapshot = self.table.current_snapshot()
        assert snapshot is not None
        files = [
            entry.data_file.file_path
            for manifest in snapshot.manifests(self.table.io)
            for entry in manifest.fetch_manifest_entry(self.table.io)
            if entry.data_file.content == DataFileContent.DATA
        ]
        for file in self.chance.sample(sorted(files), len(files)):
            ids = pq.read_table(file.removeprefix("file://")).column(0).to_pylist()
            # A row that an upsert has replaced is gone already: its file is an older one.
            positions = [at for at, one in enumerate(ids) if one in keys]
            live = self._live(file)
            gone = [ids[at] for at in positions if at in live]
            if gone:
                path = self._path()
                positions_file(path, file, positions)
                kind = DataFileContent.POSITION_DELETES
                add_deletes(self.table, path, kind, len(positions))
                return gone
        return []

    def _live(self, file: str) -> set[int]:
        """Return the positions of the rows of a file that the table has."""
        from lookupstore.tables.iceberg.planner import table_snapshot
        from lookupstore.tables.rows import placed_rows

        snapshot = table_snapshot(self.table)
        (one,) = [one for one in snapshot.files if file.endswith(one.address.path)]
        placed = placed_rows(snapshot, one, snapshot.schema.names)
        return {int(at) for _, positions in placed for at in positions}


@pytest.mark.drawn(0.2)
@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@pytest.mark.parametrize("number", range(16))
def test_every_snapshot_of_an_iceberg_table_answers_with_its_rows(
    catalog: InMemoryCatalog, tmp_path: Path, residency: Residency, seed: int, number: int
) -> None:
    history = IcebergHistory(catalog, tmp_path, seed + number)
    for _ in range(8):
        history.change()
        names = history._names
        history.check(history.table, residency, names["id"], name=names["name"], n=names["n"])


def test_a_change_of_one_file_makes_one_lookup_file(
    tmp_path: Path, residency: Residency, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "t")
    for start in range(0, 50, 10):
        rows = arrow([{"id": start + at, "n": at} for at in range(10)])
        deltalake.write_deltalake(path, rows, mode="append")
    options: dict[str, Any] = {"key": "id", "build": "always", "residency": residency}
    with ColumnarFiles(path, **options) as files:
        assert files.lookup(range(50))["n"].null_count == 0
    assert made(caplog) == 5
    deltalake.DeltaTable(path).update(updates={"n": "-n"}, predicate="id = 13")
    with ColumnarFiles(path, **options) as files:
        assert files.lookup([12, 13, 14])["n"].to_pylist() == [2, -3, 4]
        assert files.lookup(range(50))["n"].null_count == 0
    assert made(caplog) == 1


def test_deletes_need_no_new_lookup_file(
    catalog: InMemoryCatalog, tmp_path: Path, residency: Residency,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    table = catalog.create_table("w.t", arrow([]).schema)
    table.append(arrow([{"id": at, "n": at} for at in range(20)]))
    options: dict[str, Any] = {"key": "id", "build": "always", "residency": residency}
    with ColumnarFiles(table, **options) as before:
        assert before.contains([3, 4]).to_pylist() == [True, True]
        assert made(caplog) == 1
        (file,) = [task.file.file_path for task in table.scan().plan_files()]
        positions_file(tmp_path / "d.parquet", file, [3])
        add_deletes(table, tmp_path / "d.parquet", DataFileContent.POSITION_DELETES, 1)
        with ColumnarFiles(table, **options) as files:
            assert files.contains([3, 4]).to_pylist() == [False, True]
            assert files != before
            assert [row["id"] for batch in files.scan() for row in batch.to_pylist()] == [
                one for one in range(20) if one != 3
            ]
        assert before.contains([3]).to_pylist() == [True]  # as it was when it was opened
    assert made(caplog) == 0


@pytest.mark.parametrize("build", ["auto", "never", "always"])
def test_a_deleted_row_may_have_the_key_of_another_one(
    tmp_path: Path, residency: Residency, caplog: pytest.LogCaptureFixture, build: Any
) -> None:
    path = tmp_path / "t"
    deltalake.write_deltalake(
        path, arrow([{"id": one, "n": at} for at, one in enumerate([7, 8, 7])])
    )
    options: dict[str, Any] = {"key": "id", "build": build, "residency": residency}
    said = r"id=7 .*; choose the row with where=, or .* on_duplicate=\('max', column\)\)"
    with ColumnarFiles(path, **options) as files, pytest.raises(DuplicateKeyError, match=said):
        files.lookup([7])
    made(caplog)
    with_deleted(path, [0])
    for _ in range(2):
        with ColumnarFiles(path, **options) as files:
            assert files.lookup([7, 8, 9])["n"].to_pylist() == [2, 1, None]
            assert [row["n"] for batch in files.scan() for row in batch.to_pylist()] == [2, 1]
            assert files.verify().lookup_files == 1
            assert files.info().lookup_files == 1
    # The first attempt fails; the second file is found by those that follow.
    assert made(caplog) == 2
    with ColumnarFiles(path, mode="position", **options) as files:
        assert files.lookup([7])["_pos"].to_pylist() == [2]


def test_only_files_that_may_have_the_key_are_opened(tmp_path: Path, residency: Residency) -> None:
    """The log has the least and greatest key of each file."""
    path = tmp_path / "t"
    for start in (0, 100, 200):
        rows = pa.table({"id": [start, start + 50], "name": [f"n{start}", None]})
        deltalake.write_deltalake(path, rows, mode="append")
    for file in path.glob("*.parquet"):
        if pq.read_table(file)["id"][0].as_py() != 100:
            file.unlink()
    for key, present, absent in (("id", 100, 160), ("name", "n100", "n150")):
        with ColumnarFiles(path, key=key, residency=residency) as files:
            assert files.contains([present, absent]).to_pylist() == [True, False]
            with pytest.raises(StaleStoreError, match="open the table again"):
                files.contains([{"id": 0, "name": "n0"}[key]])


def test_a_file_from_before_the_key_was_added_has_no_keys(
    tmp_path: Path, residency: Residency
) -> None:
    path = tmp_path / "t"
    deltalake.write_deltalake(path, pa.table({"n": [1, 2]}))
    rows = pa.table({"n": [3], "id": [5]})
    deltalake.write_deltalake(path, rows, mode="append", schema_mode="merge")
    for build in ("auto", "never", "always"):
        with ColumnarFiles(path, key="id", build=build, residency=residency) as files:  # type: ignore[arg-type]
            assert files.lookup([5, 6])["n"].to_pylist() == [3, None]


def partitioned(tmp_path: Path) -> Path:
    days = [datetime.date(2024, 1, day) for day in (2, 10, 9)]
    rows = pa.table({"id": [1, 2, 1], "day": days})
    deltalake.write_deltalake(tmp_path / "t", rows, partition_by=["day"])
    return tmp_path / "t"


def test_the_latest_partition_is_that_of_the_greatest_value(
    tmp_path: Path, catalog: InMemoryCatalog, residency: Residency
) -> None:
    path = partitioned(tmp_path)
    options: dict[str, Any] = {"key": "id", "residency": residency}
    with ColumnarFiles(path, latest_partition="day", **options) as files:
        assert files.lookup([1, 2])["day"].to_pylist() == [None, datetime.date(2024, 1, 10)]
    with ColumnarFiles(path, **options) as files, pytest.raises(DuplicateKeyError, match="id=1"):
        files.lookup([1])
    with ColumnarFiles(path, key=["day", "id"], residency=residency) as files:
        wanted = {"day": [datetime.date(2024, 1, 2)] * 2, "id": [1, 2]}
        assert files.contains(wanted).to_pylist() == [True, False]
    with pytest.raises(ValueError, match="latest_partition is 'id', by which the Delta table"):
        ColumnarFiles(path, latest_partition="id", **options)
    table = catalog.create_table("w.t", pa.schema({"id": pa.int64(), "day": pa.int64()}))
    table.append(pa.table({"id": [9], "day": [30]}))
    with table.update_spec() as update:
        update.add_identity("day")
    table.append(pa.table({"id": [1, 2], "day": [2, 10]}))
    with pytest.raises(ValueError, match="was written before the table was partitioned by it"):
        ColumnarFiles(table, latest_partition="day", **options)
    table.delete("id = 9")
    with ColumnarFiles(table, latest_partition="day", **options) as files:
        assert files.lookup([1, 2])["day"].to_pylist() == [None, 10]


def test_the_filter_of_a_scan_decides_when_keys_are_looked_up(
    catalog: InMemoryCatalog, residency: Residency
) -> None:
    table = catalog.create_table("w.t", arrow([]).schema)
    rows = [{"id": at % 10, "name": "old" if at < 10 else "new", "n": at} for at in range(20)]
    table.append(arrow(rows))
    for scan, shift in ((table.scan("name = 'new'"), 10), (table.scan("n < 10"), 0)):
        with ColumnarFiles(scan, key="id", columns=["n"], residency=residency) as files:
            assert files.lookup([3, 12])["n"].to_pylist() == [3 + shift, None]
    scan = table.scan("name = 'new'", selected_fields=("id", "n"))
    with ColumnarFiles(scan, key="id", build="always", residency=residency) as files:
        assert files.value_schema.names == ["n"]
        assert [row["n"] for batch in files.scan() for row in batch.to_pylist()] == [*range(10, 20)]


def test_columns_with_the_name_of_positions_are_the_tables(
    tmp_path: Path, residency: Residency
) -> None:
    path = tmp_path / "t"
    deltalake.write_deltalake(path, pa.table({"id": [1, 2], "_pos": ["a", "b"], "_pos_": [8, 9]}))
    with_deleted(path, [0])
    with ColumnarFiles(path, key="id", build="always", residency=residency) as files:
        assert files.lookup([1, 2]).to_pylist() == [
            {"_pos": None, "_pos_": None},
            {"_pos": "b", "_pos_": 9},
        ]
    with pytest.raises(ValueError, match="adds a column '_pos'"):
        ColumnarFiles(path, key="id", mode="value_and_position", residency=residency)


def test_what_a_table_cannot_do_is_refused(tmp_path: Path, residency: Residency) -> None:
    path = tmp_path / "t"
    deltalake.write_deltalake(path, arrow([{"id": 1}]))
    table = deltalake.DeltaTable(path)
    with pytest.raises(ValueError, match="on_duplicate is 'first', but the rows of the Delta"):
        ColumnarFiles(path, key="id", on_duplicate="first")
    with pytest.raises(ValueError, match="storage_options is given with a Delta table that is op"):
        ColumnarFiles(table, key="id", storage_options={"a": "b"})
    with pytest.raises(KeyError, match=r"no column 'idd'; did you mean 'id'\?|no column 'idd'"):
        ColumnarFiles(table, key="idd")
    with ColumnarFiles(table, key="id", residency=residency) as files:
        assert "Delta table at version 0: 1 file, 1 row" in repr(files)
        with pytest.raises(FormatError, match="a Delta table gets no lookup files beside its own"):
            files.publish()
        with pytest.raises(FormatError, match="Paimon"):
            files.write_paimon_files(tmp_path / "out")


def test_damaged_data_files_are_named(tmp_path: Path, residency: Residency) -> None:
    path = tmp_path / "t"
    deltalake.write_deltalake(path, arrow([{"id": at, "n": at} for at in range(1000)]))
    (file,) = path.glob("*.parquet")
    data = bytearray(file.read_bytes())
    data[4:40] = bytes(36)  # deltalake writes no checksums of pages
    file.write_bytes(data)
    for build in ("never", "always"):
        with (
            ColumnarFiles(path, key="id", build=build, residency=residency) as files,  # type: ignore[arg-type]
            pytest.raises(CorruptionError, match=file.name),
        ):
            files.lookup(range(1000))
    file.write_bytes(data[:-9])
    with (
        ColumnarFiles(path, key="id", residency=residency) as files,
        pytest.raises(CorruptionError, match=rf"expected {len(data)} bytes"),
    ):
        files.lookup([1])


def test_an_empty_table_has_no_keys(
    tmp_path: Path, catalog: InMemoryCatalog, residency: Residency
) -> None:
    deltalake.DeltaTable.create(tmp_path / "t", arrow([]).schema)
    table = catalog.create_table("w.t", arrow([]).schema)
    for given in (tmp_path / "t", table):
        with ColumnarFiles(given, key="id", residency=residency) as files:
            assert files.lookup([1]).to_pylist() == [{"name": None, "n": None}]
            assert list(files.scan()) == [] or sum(one.num_rows for one in files.scan()) == 0
