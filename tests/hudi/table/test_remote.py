"""Tables on file systems that are not local."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from support.hudi.locks import is_free
from support.object_store import ObjectStore, writable_object_store
from support.remote import KINDS, Killed, Remote

from lookupstore.errors import CorruptionError, FormatError, StaleStoreError
from lookupstore.hudi import HudiTable, Instant, State
from lookupstore.hudi.locking.heartbeat import Heartbeats
from lookupstore.hudi.timeline.commit import parse_commit
from lookupstore.hudi.timeline.timeline import TimelineFolder
from lookupstore.storage.uris import open_uri

pytestmark = pytest.mark.drawn(0.4)

SCHEMA = pa.schema({"id": pa.int32(), "day": pa.string()})
TABLES = ("v6_complexkeygen_hivestyle", "v9_txns_simple_nometa", "v9_txns_nonpart_meta")


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with writable_object_store() as server:
        yield server


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TABLES)
def test_a_remote_table_is_read(real_tables: Path, name: str, kind: str) -> None:
    remote = Remote(real_tables, kind)
    table = HudiTable.open(remote.location(name))
    local = HudiTable.open(real_tables / name)
    assert table.scan().equals(local.scan())
    assert table.incremental().equals(local.incremental())
    remote.restart()
    table.scan(columns=["txn_id"] if "txns" in name else ["id"])
    assert not any("/metadata/" in path for _, path in remote.done)


@pytest.mark.parametrize("kind", KINDS)
def test_no_table_is_made_where_none_could_be_written(tmp_path: Path, kind: str) -> None:
    remote = Remote(tmp_path, kind)
    with pytest.raises(FormatError, match=r"tables cannot be locked here: .* disks, S3, Azure"):
        HudiTable.create(remote.location("t"), SCHEMA, record_key=["id"])
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", [6, 9])
def test_an_instant_of_a_remote_table(tmp_path: Path, version: int, kind: str) -> None:
    HudiTable.create(tmp_path / "t", SCHEMA, record_key=["id"], version=version)
    location = Remote(tmp_path, kind).location("t")
    with pytest.raises(FileExistsError):
        HudiTable.create(location, SCHEMA, record_key=["id"], version=version)
    table = HudiTable.open(location)
    assert table.options.name == "t"
    folder = TimelineFolder(location, table.options.timeline, version)
    instant = folder.start(folder.request("commit"))
    with pytest.raises(FileExistsError):
        folder.start(Instant(instant.time, "commit", State.REQUESTED))
    assert HudiTable.open(tmp_path / "t").timeline()[0] == instant


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_system_that_fails_is_no_damage(real_tables: Path, kind: str) -> None:
    """Whichever operation fails: the error is the file system's, and the next try succeeds."""
    remote = Remote(real_tables, kind)
    table = HudiTable.open(remote.location("v9_txns_simple_nometa"))
    remote.restart()
    expected = table.scan(columns=["txn_id"])
    fresh = HudiTable.open(remote.location("v9_txns_simple_nometa"))
    remote.restart()
    assert fresh.scan(columns=["txn_id"]).equals(expected)
    steps = len(remote.done)
    assert steps > 5
    for at in range(steps):
        table = HudiTable.open(remote.location("v9_txns_simple_nometa"))
        remote.restart(fail_at=at)
        with pytest.raises(OSError, match="injected"):
            table.scan(columns=["txn_id"])
        remote.restart()
        assert table.scan(columns=["txn_id"]).equals(expected)


def test_damaged_pages_of_a_remote_file(real_tables: Path, tmp_path: Path) -> None:
    shutil.copytree(real_tables / "v6_nonpartitioned", tmp_path / "t")
    (path,) = (tmp_path / "t").glob("*20240418173551906.parquet")
    good = path.read_bytes()
    table = HudiTable.open(Remote(tmp_path, "hdfs").location("t"))
    group = pq.ParquetFile(path).metadata.row_group(0)
    chunks = [group.column(at) for at in range(group.num_columns)]
    page = next(one for one in chunks if one.path_in_schema == "_hoodie_record_key")
    end = (page.dictionary_page_offset or page.data_page_offset) + page.total_compressed_size
    path.write_bytes(good[: end - 5] + b"\xff" * 5 + good[end:])
    with pytest.raises(OSError, match="could not be read, or is damaged"):
        table.scan()
    # All of a small file comes at once, and then its bytes are to blame.
    path.write_bytes(good[:4] + bytes(1996) + good[2000:])
    with pytest.raises(CorruptionError, match="offset 4: expected headers of pages") as caught:
        table.scan()
    assert caught.value.path.endswith(path.name)


def test_a_remote_file_that_is_gone(real_tables: Path, tmp_path: Path) -> None:
    shutil.copytree(real_tables / "v6_nonpartitioned", tmp_path / "t")
    (path,) = (tmp_path / "t").glob("*20240418173551906.parquet")
    table = HudiTable.open(Remote(tmp_path, "hdfs").location("t"))
    path.unlink()
    with pytest.raises(StaleStoreError, match="deleted by a clean"):
        table.incremental()


def test_s3(server: ObjectStore, real_tables: Path) -> None:
    name = "v9_txns_simple_nometa"
    filesystem, path = open_uri(server.uri(name))
    fs.copy_files(
        str(real_tables / name), path, fs.LocalFileSystem(), filesystem, use_threads=False
    )
    table = HudiTable.open(server.uri(name))
    local = HudiTable.open(real_tables / name)
    assert table.scan().equals(local.scan())
    assert "SECRET" not in repr(table)
    made = HudiTable.create(server.uri("made"), SCHEMA, record_key=["id"], partition_by=["day"])
    assert made.options.name == "made"
    assert HudiTable.open(server.uri("made")).scan().num_rows == 0


def test_rows_are_written_to_s3(server: ObjectStore) -> None:
    table = HudiTable.create(
        server.uri("rows"), SCHEMA, record_key=["id"], partition_by=["day"], hive_style=True
    )

    def rows(ids: list[int], days: list[str]) -> pa.Table:
        return pa.table({"id": pa.array(ids, pa.int32()), "day": days})

    table.insert(rows([1, 2, 3], ["mo", "mo", "tu"]))
    result = table.upsert(rows([2, 4], ["mo", "mo"]))
    assert (result.rows_updated, result.rows_inserted) == (1, 1)
    table.bulk_insert(rows([9], ["we"]))
    table.delete([1])
    assert table.delete(where="day = 'mo' and id > 100 or id = 9").rows_deleted == 1
    table.bulk_insert(rows([9], ["we"]))
    table.insert_overwrite(rows([5], ["tu"]))
    told = table.history(4)["operation"].to_pylist()
    assert told == ["INSERT_OVERWRITE", "BULK_INSERT", "DELETE", "DELETE"]
    again = HudiTable.open(server.uri("rows"))
    assert sorted(again.scan(columns=["id"])["id"].to_pylist()) == [2, 4, 5, 9]
    sizes = {one.current.path: one.current.bytes for one in again.file_groups()}
    assert all(again.location.size(path) == size for path, size in sizes.items())
    folder = TimelineFolder(again.location, again.options.timeline, 9)
    stats = parse_commit(folder.read(result.instant), "").stats or {}
    assert [one.num_writes for one in stats["day=mo"]] == [3]
    assert again.location.size("day=we/.hoodie_partition_metadata")


def test_s3_writes_rolls_back_and_cleans(server: ObjectStore) -> None:
    """Of two who request one time one succeeds; a dead one is known by its heartbeat."""
    table = HudiTable.create(server.uri("written"), SCHEMA, record_key=["id"])
    rows = pa.table({"id": [1, 2], "day": ["a", "b"]}, schema=SCHEMA)
    first = table.upsert(rows).instant
    assert first is not None
    folder = TimelineFolder(table.location, table.options.timeline, 9)
    with pytest.raises(FileExistsError):
        folder.request_at(first.time, "commit")
    with (
        suppress(Killed),
        Heartbeats(table.location, lease=0.4).request(folder, "commit") as beat,
    ):
        folder.start(beat.instant)
        name = f"a-0_0-0-0_{beat.instant.time}.parquet"
        table.location.write(name, [b"half a file"])
        before = table.location.read(f".hoodie/.heartbeat/{beat.instant.time}")
        time.sleep(0.3)  # it is touched meanwhile, and stays what it is
        assert table.location.read(f".hoodie/.heartbeat/{beat.instant.time}") == before
        raise Killed
    assert not table.verify().findings[0].is_damage
    table.upsert(rows.slice(0, 1))
    assert table.location.size(name) is None
    assert [one.action for one in table.timeline()] == ["commit", "rollback", "commit"]
    assert table.scan().num_rows == 2
    (done,) = table.clean(retain_commits=1)
    assert done.action == "clean"
    archived = table.archive(min_commits=1, max_commits=1)
    assert archived.instants == (first,)
    assert set(table.view().archive.instants()) == set(archived.instants)
    assert table.scan().num_rows == 2
    assert table.verify().findings == ()
    assert is_free(table.location)
    assert table.location.files(".hoodie/.heartbeat") == []


def test_s3_rows_are_put_in_order(server: ObjectStore) -> None:
    table = HudiTable.create(server.uri("clustered"), SCHEMA, record_key=["id"])
    for at in range(3):
        rows = pa.table({"id": [at, at + 10], "day": [f"d{9 - at}", "e"]}, schema=SCHEMA)
        table.bulk_insert(rows)
    before = table.scan().drop_columns(["_hoodie_file_name"])
    done = table.cluster(["day", "id"], curve="linear")
    assert (done.rows, done.files_before, done.files_after) == (6, 3, 1)
    now = table.scan()
    assert now["day"].to_pylist() == ["d7", "d8", "d9", "e", "e", "e"]
    number = "_hoodie_commit_seqno"
    left = now.drop_columns(["_hoodie_file_name"]).sort_by(number)
    assert left.equals(before.sort_by(number))
    assert table.verify().findings == ()
    assert is_free(table.location)


def test_s3_writers_at_once(server: ObjectStore) -> None:
    uri = server.uri("race")
    HudiTable.create(uri, SCHEMA, record_key=["id"])

    def write(number: int) -> int:
        retries = 0
        for key in range(3):
            rows = pa.table({"id": [number, 10 + key], "day": ["a", "b"]}, schema=SCHEMA)
            retries += HudiTable.open(uri).upsert(rows).retries
        return retries

    with ThreadPoolExecutor(2) as pool:
        retries = sum(pool.map(write, range(2)))
    found = HudiTable.open(uri)
    assert sorted(found.scan(columns=["id"])["id"].to_pylist()) == [0, 1, 10, 11, 12]
    assert len([one for one in found.timeline() if one.is_write]) == 6
    assert len([one for one in found.timeline() if one.action == "rollback"]) == retries
    assert found.verify().findings == ()
