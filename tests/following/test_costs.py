"""What a sync reads of the metadata of a table and a store: each file once, however many there are.

Calls and requests are counted, not timed.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.object_store import BUCKET, deltalake_names
from support.paimon_tables import PaimonTable
from support.quick_store import quick_store

from lookupstore import LookupStore, follow
from lookupstore.tables.paimon import deletion_vectors

pytest.importorskip("pyiceberg")
pytest.importorskip("fastavro")
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.manifest import DataFileContent, ManifestFile
from pyiceberg.table import Table
from support.iceberg_tables import described, positions_file

from lookupstore.tables.iceberg import deletes, manifests
from lookupstore.tables.iceberg.planner import _Planner
from lookupstore.tables.recently_read import RecentlyRead

PATH_ID = 2147483546


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = InMemoryCatalog("w", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("w")
    return catalog.create_table("w.t", pa.schema({"id": pa.int64()}))


def data_files(table: Table) -> list[str]:
    paths: list[str] = table.inspect.data_files()["file_path"].to_pylist()
    return sorted(paths)


def ids_of(store: LookupStore) -> list[int]:
    ids: list[int] = store.scan().read_all()["id"].to_pylist()
    return sorted(ids)


def delete(table: Table, folder: Path, position: int, *, bounds: bool) -> None:
    """Delete a row of each data file by a delete file of its own."""
    paths = data_files(table)
    with table.transaction() as changes, changes.update_snapshot().fast_append() as update:
        for at, path in enumerate(paths):
            name = folder / f"deletes-{position}-{at}.parquet"
            positions_file(name, path, [position])
            ends = {PATH_ID: path.encode()} if bounds else None
            update.append_data_file(described(
                table, name, DataFileContent.POSITION_DELETES, 1, lower_bounds=ends,
                upper_bounds=ends,
            ))  # fmt: skip


@pytest.fixture
def manifests_read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each manifest of an Iceberg table was read."""
    read: Counter[str] = Counter()
    real = ManifestFile.fetch_manifest_entry

    def noted(manifest: ManifestFile, io: Any, discard_deleted: bool = True) -> Any:
        read[manifest.manifest_path] += 1
        return real(manifest, io, discard_deleted)

    monkeypatch.setattr(ManifestFile, "fetch_manifest_entry", noted)
    return read


def test_a_process_reads_a_manifest_of_iceberg_once(
    table: Table, tmp_path: Path, manifests_read: Counter[str]
) -> None:
    for start in range(0, 50, 10):
        table.append(pa.table({"id": range(start, start + 10)}))
    manifests_read.clear()
    store = follow(table, tmp_path / "s", key="id")
    assert [*manifests_read.values()] == [1] * 5
    for start in (50, 60):
        table.append(pa.table({"id": range(start, start + 10)}))
        manifests_read.clear()
        store = store.sync()
        assert [*manifests_read.values()] == [1]
        assert ids_of(store) == [*range(start + 10)]
    other = follow(table, tmp_path / "other", key="id")
    assert [*manifests_read.values()] == [1]
    assert ids_of(other) == [*range(70)]


def test_a_file_of_two_snapshots_is_planned_once(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in range(0, 50, 10):
        table.append(pa.table({"id": range(start, start + 10)}))
    delete(table, tmp_path, 0, bounds=True)
    store = follow(table, tmp_path / "s", key="id")
    delete(table, tmp_path, 1, bounds=True)
    table.overwrite(pa.table({"id": range(10)}), "id < 10")
    new_file, planned = _Planner._new_file, []

    def noted(planner: _Planner, entry: Any) -> Any:
        planned.append(entry.data_file.file_path)
        return new_file(planner, entry)

    monkeypatch.setattr(_Planner, "_new_file", noted)
    store = store.sync()
    assert Counter(planned) == Counter(set(planned))
    # Six data files, and two delete files for each of the first five.
    assert len(planned) == 6 + 10
    assert ids_of(store) == [*range(10), *(one for one in range(10, 50) if one % 10 > 1)]


def test_manifests_that_memory_has_no_room_for_are_read_at_once_and_in_order(
    table: Table, manifests_read: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifests, "_loaded", RecentlyRead(1, manifests._count))
    for start in range(0, 50, 10):
        table.append(pa.table({"id": range(start, start + 10)}))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    manifests_read.clear()
    found = manifests.manifests_of(snapshot, table.scan())
    paths = [one.data_file.file_path for one in manifests.entries_of(found, table.io)]
    expected = [
        one.data_file.file_path
        for manifest in snapshot.manifests(table.io)
        for one in manifest.fetch_manifest_entry(table.io)
    ]
    assert paths == expected
    assert [*manifests_read.values()] == [2] * 5


@pytest.mark.parametrize("bounds", [True, False])
def test_a_process_reads_a_delete_file_once(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bounds: bool
) -> None:
    for start in range(0, 40, 10):
        table.append(pa.table({"id": range(start, start + 10)}))
    read: Counter[str] = Counter()
    real = deletes._positions

    def noted(description: str, file: Any) -> Any:
        read[file.address.path] += 1
        return real(description, file)

    monkeypatch.setattr(deletes, "_positions", noted)
    delete(table, tmp_path, 0, bounds=bounds)
    store = follow(table, tmp_path / "s", key="id")
    assert [*read.values()] == [1] * 4
    for position in (1, 2):
        delete(table, tmp_path, position, bounds=bounds)
        read.clear()
        store = store.sync()
        assert [*read.values()] == [1] * 4
        assert ids_of(store) == [one for one in range(40) if one % 10 > position]
        assert (store.info().follows or {}).get("rebuilt") is None


def test_delete_files_of_one_data_file_are_not_compared_with_all(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in range(0, 100, 5):
        table.append(pa.table({"id": range(start, start + 5)}))
    compared = 0
    real = deletes._may_name

    def noted(one: Any, path: str) -> bool:
        nonlocal compared
        compared += 1
        return real(one, path)

    monkeypatch.setattr(deletes, "_may_name", noted)
    delete(table, tmp_path, 3, bounds=True)
    store = follow(table, tmp_path / "s", key="id")
    assert ids_of(store) == [one for one in range(100) if one % 5 != 3]
    assert compared == 20


@pytest.mark.parametrize("is_small", [True, False])
def test_a_sync_asks_once_for_each_metadata_file_of_paimon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_small: bool
) -> None:
    """Two index files, of the former and the newest snapshot, have vectors of all data files."""
    if not is_small:
        monkeypatch.setattr(deletion_vectors, "_SMALL", 0)
    with quick_store(tmp_path / "s3", 0) as quick:
        options = {"bucket": "1", "deletion-vectors.enabled": "true"}
        fields = {"id": "BIGINT NOT NULL"}
        table = PaimonTable(quick.store.folder / "t", fields, ["id"], options=options)
        starts = range(0, 50, 10)
        made = [table.add(pa.table({"id": range(one, one + 10)}), level=5) for one in starts]
        table.commit(*made)
        table.commit(vectors={one.name: [0] for one in made})
        own = deltalake_names(quick.store)
        store = follow(f"s3://{BUCKET}/t", tmp_path / "s", key="id", storage_options=own)
        for last in (1, 2):
            table.commit(vectors={one.name: [*range(last + 1)] for one in made})
            quick.asked()
            store = store.sync()
            asked = Counter(
                one.path.partition("?")[0] for one, _ in quick.asked() if one.method == "GET"
            )
            indexes = {path: count for path, count in asked.items() if "/index/" in path}
            manifests = {path: count for path, count in asked.items() if "/manifest/" in path}
            assert len(indexes) == 2
            assert manifests
            assert {*manifests.values()} == {1}
            if is_small:
                assert {*indexes.values()} == {1}
            assert ids_of(store) == [one for one in range(50) if one % 10 > last]
            assert (store.info().follows or {}).get("rebuilt") is None
