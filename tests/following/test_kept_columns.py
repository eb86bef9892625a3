"""Followers of tables on an object store read the keys of deleted rows on their own host.

What is read is counted at the server. The rows are those that deltalake and pyiceberg read, and for
Paimon those of a model.
"""

from __future__ import annotations

import logging
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.changelog import check_changes
from support.delta_tables import with_vectors
from support.histories.model import Model, model_of
from support.object_store import (
    BUCKET,
    FOR_WRITES,
    KEY,
    SECRET,
    Proxy,
    deltalake_names,
    object_store,
)
from support.paimon_tables import PaimonTable
from support.quick_store import QuickStore, quick_store

from lookupstore import LookupStore, follow
from lookupstore.hostcache.cache import Residency
from lookupstore.hostcache.folder import MAKING
from lookupstore.tables import kept_columns, rows

deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
from pyiceberg.catalog.memory import InMemoryCatalog  # noqa: E402
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat  # noqa: E402
from pyiceberg.typedef import Record  # noqa: E402
from support.iceberg_tables import positions_file  # noqa: E402

#: Rows of a page of the tables here.
PAGE = 256


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let a test have a cache of its own, and keep columns of files of any size."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(folder))
    monkeypatch.setattr(kept_columns, "_LEAST_BYTES", 0)
    monkeypatch.setattr(rows, "SMALL", 0)
    return folder


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[QuickStore]:
    with quick_store(tmp_path / "s3", 0) as quick:
        yield quick


def stored(store: LookupStore) -> Model:
    return model_of(store.scan().read_all())


def rebuilt(store: LookupStore) -> str | None:
    return (store.info().follows or {}).get("rebuilt")


def kept(cache: Path) -> list[Path]:
    """Return the files in the cache."""
    return sorted(cache.glob("*.sst"))


class Delta:
    """A Delta table on an object store, with deletion vectors and pages of a few rows.

    Args:
        quick: The server.
        columns: Columns besides `id` of rows with some ids.
    """

    def __init__(
        self, quick: QuickStore, columns: Callable[[Sequence[int]], dict[str, Any]], **more: Any
    ) -> None:
        self.quick = quick
        self.folder = quick.store.folder / "t"
        self.uri, self.options = f"s3://{BUCKET}/t", deltalake_names(quick.store)
        self._columns, self._more = columns, more
        self.gone: dict[str, set[int]] = {}

    def append(self, ids: Sequence[int]) -> None:
        properties = deltalake.WriterProperties(
            data_page_row_count_limit=PAGE,
            write_batch_size=PAGE,
            max_row_group_size=PAGE * 4,
            default_column_properties=deltalake.ColumnProperties(dictionary_enabled=False),
        )
        deltalake.write_deltalake(
            self.folder,
            pa.table({"id": ids, **self._columns(ids)}),
            mode="append",
            writer_properties=properties,
            **self._more,
        )
        if len(list((self.folder / "_delta_log").glob("*.json"))) == 1:
            with_vectors(self.folder, {})

    @property
    def files(self) -> list[str]:
        actions = pa.table(deltalake.DeltaTable(self.folder).get_add_actions())
        return sorted(actions["path"].to_pylist())

    def delete(self, positions: Sequence[int]) -> None:
        """Delete rows of each file, besides those that are."""
        for one in self.files:
            self.gone[one] = self.gone.get(one, set()) | {*positions}
        with_vectors(self.folder, {one: sorted(self.gone[one]) for one in self.files})

    def restore(self, positions: Sequence[int]) -> None:
        """Bring rows of each file back."""
        for one in self.files:
            self.gone[one] -= {*positions}
        with_vectors(self.folder, {one: sorted(self.gone[one]) for one in self.files})

    def follow(self, path: Path, **more: Any) -> LookupStore:
        more = {"key": "id", **more}
        return follow(self.uri, path, storage_options=self.options, **more)

    def scanned(self, names: Sequence[str] = ()) -> Model:
        """Return the rows that the engine of deltalake reads."""
        table = deltalake.DeltaTable(self.folder)
        found = pa.RecordBatchReader.from_stream(table.scan()).read_all()
        names = names or pa.schema(table.schema().to_arrow()).names
        return model_of(found.select(names))

    def read(self) -> tuple[int, int]:
        """Return the number of requests for data files since the last call, and their bytes."""
        asked = [
            one
            for one, _ in self.quick.asked()
            if one.path.endswith(".parquet") and "_delta_log" not in one.path
        ]
        return len(asked), sum(one.size for one in asked)


def texts(ids: Sequence[int]) -> dict[str, Any]:
    return {"s": [f"{one:030}" for one in ids]}


def in_every_page(first: int, each: int) -> list[int]:
    return [*range(first, each, PAGE)]


def test_a_commit_that_deletes_rows_in_every_page_reads_no_data_file(
    quick: QuickStore, tmp_path: Path, cache: Path
) -> None:
    table = Delta(quick, texts)
    chance = random.Random(7)
    ids = chance.sample(range(1 << 40), 6_000)
    for start in range(0, 6_000, 2_000):
        table.append(ids[start : start + 2_000])
    assert pq.ParquetFile(table.folder / table.files[0]).num_row_groups == 2
    store = table.follow(tmp_path / "s")
    _, whole = table.read()
    assert whole > 6_000 * 8
    assert len(kept(cache)) == 3
    assert sum(file.stat().st_size for file in kept(cache)) < 6_000 * 8 + 3 * 2_000
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in kept(cache))
    assert not list((cache / MAKING).iterdir())
    for first in (3, 4):
        table.delete(in_every_page(first, 2_000))
        newer = store.sync()
        assert table.read() == (0, 0)
        assert rebuilt(newer) is None
        assert stored(newer) == table.scanned()
        check_changes(newer.changes(store.version), stored(store), stored(newer))
        store = newer
    # Rows that come back are read with all columns, and can be deleted again.
    table.restore(in_every_page(3, 2_000))
    store = store.sync()
    requests, nbytes = table.read()
    assert requests
    assert nbytes
    assert stored(store) == table.scanned()
    table.delete(in_every_page(3, 2_000))
    store = store.sync()
    assert table.read() == (0, 0)
    assert stored(store) == table.scanned()
    assert len(store) == 6_000 - 2 * 3 * 8


def test_rows_that_are_deleted_when_a_store_is_built_may_come_back_and_go(
    quick: QuickStore, tmp_path: Path
) -> None:
    """The kept columns have them, as the file does."""
    table = Delta(quick, texts)
    table.append(range(2_000))
    table.delete(in_every_page(5, 2_000))
    store = table.follow(tmp_path / "s")
    assert stored(store) == table.scanned()
    table.restore(in_every_page(5, 2_000))
    store = store.sync()
    assert stored(store) == table.scanned()
    table.read()
    table.delete(in_every_page(5, 2_000))
    store = store.sync()
    assert table.read() == (0, 0)
    assert stored(store) == table.scanned()
    assert len(store) == 2_000 - 8


def test_removed_files_are_not_read_either(quick: QuickStore, tmp_path: Path) -> None:
    table = Delta(quick, texts)
    for start in (0, 2_000):
        table.append(range(start, start + 2_000))
    store = table.follow(tmp_path / "s")
    (first, second) = table.files
    log = sorted((table.folder / "_delta_log").glob("*.json"))
    line = f'{{"remove": {{"path": "{first}", "dataChange": true, "deletionTimestamp": 1}}}}\n'
    log[-1].with_name(f"{len(log):020}.json").write_text(line)
    table.read()
    store = store.sync()
    assert table.read() == (0, 0)
    assert (stored(store), rebuilt(store), len(store)) == (table.scanned(), None, 2_000)
    # Even if it is gone, which otherwise takes a build.
    log[-1].with_name(f"{len(log) + 1:020}.json").write_text(line.replace(first, second))
    (table.folder / second).unlink()
    store = store.sync()
    assert (len(store), rebuilt(store)) == (0, None)


@pytest.mark.parametrize("number", range(4))
def test_keys_of_any_types_and_filters(
    quick: QuickStore, tmp_path: Path, seed: int, number: int
) -> None:
    chance = random.Random(seed + number)

    def columns(ids: Sequence[int]) -> dict[str, Any]:
        return {
            "name": pa.array([f"{one % 97}é" * (one % 4) for one in ids], pa.large_string()),
            "day": pa.array([one % 30_000 for one in ids], pa.int32()).cast(pa.date32()),
            "n": pa.array([None if one % 5 == 0 else one % 9 for one in ids], pa.int64()),
            "p": ["x" if one % 3 else "y" for one in ids],
        }

    parts = chance.choice([{}, {"partition_by": ["p"]}])
    table = Delta(quick, columns, **parts)
    for start in range(0, 3_000, 1_000):
        table.append(chance.sample(range(start, start + 1_000), 1_000))
    key = chance.choice([["id"], ["name", "id"], ["day", "id"], ["p", "id"]])
    where = chance.choice([None, "n > 4", "n is null", "p = 'x' and n < 7"])
    conditions: dict[str | None, Callable[[Any, Any], bool]] = {
        None: lambda n, p: True,
        "n > 4": lambda n, p: n is not None and n > 4,
        "n is null": lambda n, p: n is None,
        "p = 'x' and n < 7": lambda n, p: p == "x" and n is not None and n < 7,
    }

    def expected() -> set[int]:
        found = table.scanned(["id", "n", "p"]).items()
        return {one for one, (n, p) in found if conditions[where](n, p)}

    def ids(store: LookupStore) -> set[int]:
        return {*store.scan().read_all()["id"].to_pylist()}

    store = table.follow(tmp_path / "s", key=key, where=where)
    assert ids(store) == expected()
    for _ in range(3):
        table.delete(chance.sample(range(300), 40))
        table.read()
        store = store.sync()
        assert table.read() == (0, 0)
        assert ids(store) == expected()
        assert rebuilt(store) is None
        assert store.num_rows == len(expected())


def damages() -> dict[str, Callable[[bytes], bytes]]:
    return {
        "first byte": lambda data: bytes([data[0] ^ 1]) + data[1:],
        "a key": lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 4])
        + data[len(data) // 2 + 1 :],
        "hash": lambda data: data[:-1] + bytes([data[-1] ^ 0x80]),
        "cut": lambda data: data[:-100],
        "short": lambda data: data[:9],
        "empty": lambda data: b"",
        "zeros": lambda data: bytes(len(data)),
        "longer": lambda data: data + b"\0" * 16,
    }  # fmt: skip


@pytest.mark.parametrize("damage", damages())
def test_damaged_columns_are_read_from_the_table_and_kept_again(
    quick: QuickStore, tmp_path: Path, cache: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    table = Delta(quick, texts)
    table.append(range(2_000))
    store = table.follow(tmp_path / "s")
    (file,) = kept(cache)
    right = file.read_bytes()
    file.write_bytes(damages()[damage](right))
    table.delete(in_every_page(3, 2_000))
    table.read()
    with caplog.at_level(logging.WARNING, "lookupstore.tables"):
        store = store.sync()
    requests, _ = table.read()
    assert requests
    assert f"{file}: damaged: " in caplog.text
    assert stored(store) == table.scanned()
    assert rebuilt(store) is None
    assert file.read_bytes() == right
    table.delete(in_every_page(4, 2_000))
    store = store.sync()
    assert table.read() == (0, 0)
    assert stored(store) == table.scanned()


def test_another_host_keeps_columns_once_it_has_read_all_of_them(
    quick: QuickStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Delta(quick, texts)
    table.append(range(2_000))
    table.follow(tmp_path / "s").close()
    other = tmp_path / "other"
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(other))
    monkeypatch.setattr(rows, "_PAGE_ROWS", PAGE)
    size = (table.folder / table.files[0]).stat().st_size
    table.delete([3])  # one page
    table.read()
    store = table.follow(tmp_path / "s")
    assert table.read() > (0, 0)
    assert not kept(other)
    monkeypatch.setattr(rows, "SMALL", size)
    for first, asked, files in ((4, True, 0), (5, True, 1), (6, False, 1)):
        table.delete(in_every_page(first, 2_000))
        store = store.sync()
        requests, _ = table.read()
        assert bool(requests) == asked
        assert len(kept(other)) == files
        assert stored(store) == table.scanned()
        monkeypatch.setattr(rows, "SMALL", size - 1)


def unwritable(cache: Path, patch: pytest.MonkeyPatch) -> None:
    cache.write_bytes(b"")


def without_quota(cache: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("LOOKUPSTORE_CACHE_BYTES", "1")


def with_little_quota(cache: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("LOOKUPSTORE_CACHE_BYTES", "10000")


@pytest.mark.parametrize("prepare", [unwritable, without_quota, with_little_quota])
def test_a_cache_that_cannot_be_written_is_not_needed(
    quick: QuickStore,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    prepare: Callable[[Path, pytest.MonkeyPatch], None],
) -> None:
    prepare(cache, monkeypatch)
    table = Delta(quick, texts)
    for start in (0, 2_000):
        table.append(range(start, start + 2_000))
    with caplog.at_level(logging.INFO, "lookupstore.tables"):
        store = table.follow(tmp_path / "s")
    assert caplog.text.count("its columns are not kept on this host: ") == 1
    assert not kept(cache)
    if cache.is_dir():
        assert Residency().used == 0
    for first in (3, 4):
        table.delete(in_every_page(first, 2_000))
        store = store.sync()
        assert stored(store) == table.scanned()
        assert rebuilt(store) is None


def test_a_full_disk_leaves_nothing(
    quick: QuickStore, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lookupstore.hostcache.file_series import SeriesFile

    table = Delta(quick, texts)
    for start in (0, 2_000):
        table.append(range(start, start + 2_000))
    real = SeriesFile.write
    for at in range(1, 12):
        left = at

        def write(self: SeriesFile, data: Any) -> int:
            nonlocal left
            left -= 1
            if left == 0:
                raise OSError(28, "No space left on device")
            return real(self, data)

        monkeypatch.setattr(SeriesFile, "write", write)
        for file in kept(cache):
            file.unlink()
        store = table.follow(tmp_path / f"store-{at}")
        assert left <= 0
        assert stored(store) == table.scanned()
        assert len(kept(cache)) < 2
        assert not list((cache / MAKING).iterdir())
        monkeypatch.setattr(SeriesFile, "write", real)
        for file in kept(cache):
            assert kept_columns.KeptFile(file.read_bytes()).schema.names == ["id"]


@pytest.mark.parametrize("what", ["plain", "local", "small"])
def test_columns_of_other_files_are_not_kept(
    quick: QuickStore, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """No position can be deleted in them, or to read them costs little."""
    table = Delta(quick, texts)
    if what == "plain":
        deltalake.write_deltalake(table.folder, pa.table({"id": range(2_000)}))
    else:
        table.append(range(2_000))
    if what == "small":
        size = (table.folder / table.files[0]).stat().st_size
        monkeypatch.setattr(kept_columns, "_LEAST_BYTES", size + 1)
    if what == "local":
        follow(table.folder, tmp_path / "s", key="id").close()
    else:
        table.follow(tmp_path / "s").close()
    assert not kept(cache)
    monkeypatch.undo()
    assert kept_columns._LEAST_BYTES == 64 << 10


def test_followers_at_once_keep_the_same_columns(
    quick: QuickStore, tmp_path: Path, cache: Path
) -> None:
    table = Delta(quick, texts)
    for start in range(0, 6_000, 2_000):
        table.append(range(start, start + 2_000))
    program = """if True:
        import sys
        from lookupstore import follow
        from lookupstore.tables import kept_columns
        kept_columns._LEAST_BYTES = 0
        uri, path, *options = sys.argv[1:]
        options = dict(one.split("=", 1) for one in options)
        print(len(follow(uri, path, key="id", storage_options=options)))
    """
    options = [f"{name}={value}" for name, value in table.options.items()]

    def run(path: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", program, table.uri, str(path), *options]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    for rows_left in (6_000, 6_000 - 3 * 8):
        running = [run(tmp_path / f"store-{number}") for number in range(3)]
        assert [one.communicate()[0] for one in running] == [f"{rows_left}\n"] * 3
        assert len(kept(cache)) == 3
        for file in kept(cache):
            kept_columns.KeptFile(file.read_bytes())
        assert not list((cache / MAKING).iterdir())
        if rows_left == 6_000:
            table.read()
            table.delete(in_every_page(3, 2_000))
    assert table.read() == (0, 0)


def test_a_killed_follower_leaves_nothing_that_is_read(
    quick: QuickStore, tmp_path: Path, cache: Path
) -> None:
    table = Delta(quick, texts)
    for start in (0, 2_000):
        table.append(range(start, start + 2_000))
    program = """if True:
        import os, signal, sys
        from lookupstore import follow
        from lookupstore.hostcache.file_series import SeriesFile
        from lookupstore.tables import kept_columns
        kept_columns._LEAST_BYTES = 0
        uri, path, *options = sys.argv[1:]
        options = dict(one.split("=", 1) for one in options)
        real, left = SeriesFile.finish, [2]
        def finish(file):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            real(file)
        SeriesFile.finish = finish
        follow(uri, path, key="id", storage_options=options)
    """
    options = [f"{name}={value}" for name, value in table.options.items()]
    command = [sys.executable, "-c", program, table.uri, str(tmp_path / "s"), *options]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert len(kept(cache)) == 1
    assert len(list((cache / MAKING).iterdir())) == 1
    store = table.follow(tmp_path / "s")
    assert not list((cache / MAKING).iterdir())  # the next one that needs room removes it
    assert len(kept(cache)) == 2
    table.delete(in_every_page(3, 2_000))
    table.read()
    store = store.sync()
    assert table.read() == (0, 0)
    assert stored(store) == table.scanned()


def test_position_deletes_of_an_iceberg_table(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key is a text, and files have two row groups."""
    for name, value in FOR_WRITES.items():
        monkeypatch.setenv(name, value)
    with object_store(tmp_path / "s3") as server, closing(Proxy(server)) as proxy:
        catalog = InMemoryCatalog(
            "w",
            warehouse=f"s3://{BUCKET}/w",
            **{
                "s3.endpoint": f"http://{proxy.store.address}",
                "s3.access-key-id": KEY,
                "s3.secret-access-key": SECRET,
                "s3.region": "us-east-1",
            },
        )
        catalog.create_namespace("w")

        def rows_of(start: int) -> pa.Table:
            ids = range(start, start + 2_000)
            return pa.table({"n": ids, "id": [f"key {one:020}" for one in ids]})

        table = catalog.create_table(
            "w.t", rows_of(0).schema,
            properties={"write.parquet.row-group-limit": "1024"},
        )  # fmt: skip
        table.append(rows_of(0))
        table.append(rows_of(2_000))
        data = sorted(table.inspect.data_files()["file_path"].to_pylist())

        def delete(number: int, positions: Sequence[int]) -> None:
            with table.transaction() as changes, changes.update_snapshot().fast_append() as update:
                for at, path in enumerate(data):
                    name = tmp_path / f"deletes-{number}-{at}.parquet"
                    positions_file(name, path, positions)
                    target = f"{table.location()}/data/{name.name}"
                    with table.io.new_output(target).create() as out:
                        out.write(name.read_bytes())
                    file = DataFile.from_args(
                        content=DataFileContent.POSITION_DELETES,
                        file_path=target,
                        file_format=FileFormat.PARQUET,
                        partition=Record(),
                        record_count=len(positions),
                        file_size_in_bytes=name.stat().st_size,
                    )
                    file.spec_id = table.spec().spec_id
                    update.append_data_file(file)

        def read() -> int:
            """Return the number of requests for data files since the last call."""
            names = [one.rpartition("/")[2] for one in data]
            found = sum(any(name in one.path for name in names) for one in proxy.requests)
            proxy.requests.clear()
            return found

        def scanned() -> Model:
            return model_of(table.scan().to_arrow().select(["id", "n"]))

        store = follow(table, tmp_path / "s", key="id")
        assert read()
        assert len(kept(cache)) == 2
        for number in range(2):
            delete(number, [*range(number, 2_000, 100)])
            expected = scanned()
            read()
            store = store.sync()
            assert read() == 0
            assert stored(store) == expected
            assert rebuilt(store) is None
        assert len(store) == 2 * (2_000 - 40)
        # The table renames a column that is not a key: its files have the old name.
        with table.update_schema() as update:
            update.rename_column("n", "m")
        other = follow(table, tmp_path / "other", key="id", where="m < 3000")
        delete(2, [7, 8])
        expected = {key: row for key, row in scanned_as(table, "m").items() if row[0] < 3_000}
        other = other.sync()
        assert stored(other) == expected
        assert rebuilt(other) is None


def scanned_as(table: Any, name: str) -> Model:
    return model_of(table.scan().to_arrow().select(["id", name]))


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
@pytest.mark.parametrize("primary", [True, False])
def test_deletion_vectors_of_a_paimon_table(
    quick: QuickStore, tmp_path: Path, cache: Path, primary: bool, file_format: str
) -> None:
    folder = quick.store.folder / "t"
    fields = {"id": "BIGINT NOT NULL", "s": "STRING"}
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "file.format": file_format}
    if not primary:
        options["bucket"] = "-1"
    table = PaimonTable(folder, fields, ["id"] if primary else [], options=options)

    def rows_of(start: int) -> pa.Table:
        ids = range(start, start + 2_000)
        return pa.table({"id": pa.array(ids), "s": [f"text {one}" for one in ids]})

    level = {"level": 5} if primary else {}
    made = [table.add(rows_of(start), **level) for start in (0, 2_000)]
    table.commit(*made)
    uri, own = f"s3://{BUCKET}/t", deltalake_names(quick.store)
    store = follow(uri, tmp_path / "s", key="id", storage_options=own)
    assert len(store) == 4_000
    assert len(kept(cache)) == 2
    gone: set[int] = set()
    for number in range(2):
        gone |= {*range(number, 2_000, 90)}
        table.commit(vectors={one.name: sorted(gone) for one in made})
        quick.asked()
        store = store.sync()
        asked = [one for one, _ in quick.asked() if any(file.name in one.path for file in made)]
        assert asked == []
        left = [one for start in (0, 2_000) for one in range(start, start + 2_000)
                if one - start not in gone]  # fmt: skip
        assert stored(store) == {one: (f"text {one}",) for one in left}
        assert rebuilt(store) is None
