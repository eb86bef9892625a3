"""Columnar files on an object store, and lookup files that are published beside them."""

from __future__ import annotations

import json
import logging
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs, orc
from support.columnar import plans_of
from support.object_store import BUCKET, FOR_WRITES, ObjectStore, Proxy, has_server, object_store

from lookupstore.columnar import ColumnarFiles, published
from lookupstore.columnar.rent import BUILDS
from lookupstore.errors import CorruptionError
from lookupstore.hostcache.cache import Residency
from lookupstore.storage.location import Location
from lookupstore.store.local_files import files_of

pytestmark = pytest.mark.drawn(0.5)

MAKING = "building a lookup file"
ROWS = 30_000
SMALL = 1000  # rows of a local file
UNREADABLE = 1_700_000_000_120_000_000  # nanoseconds since 1970


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    if not has_server():
        pytest.skip("rclone is not installed: pip install 'lookupstore[test]'")
    with object_store(tmp_path_factory.mktemp("s3"), etags=True) as behind:
        proxy = Proxy(behind)
        yield proxy.store
        proxy.close()


@pytest.fixture(autouse=True)
def _written_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the checksums behind the content, which the server does not take."""
    for name, value in FOR_WRITES.items():
        monkeypatch.setenv(name, value)


class Dimension:
    """Two files of a dimension on the server, and what is in the folder beside them."""

    def __init__(self, server: ObjectStore, name: str) -> None:
        self.server = server
        self.name = name
        self.filesystem: fs.FileSystem = server.filesystem()
        for part in range(2):
            self.write(part, "value")

    def write(self, part: int, word: str) -> None:
        ids = range(part * ROWS, (part + 1) * ROWS)
        table = pa.table({"id": ids, "v": [f"{word} {key}" for key in ids]})
        path = f"{BUCKET}/{self.name}/{part}.parquet"
        pq.write_table(table, path, filesystem=self.filesystem, row_group_size=2000)

    def published(self, extension: str) -> list[str]:
        selector = fs.FileSelector(f"{BUCKET}/{self.name}/_lookup", allow_not_found=True)
        found = self.filesystem.get_file_info(selector)
        return sorted(info.path for info in found if info.path.endswith(extension))

    def read(self, path: str) -> bytes:
        with self.filesystem.open_input_stream(path) as stream:
            return bytes(stream.read())

    def put(self, path: str, content: bytes) -> None:
        with self.filesystem.open_output_stream(path) as stream:
            stream.write(content)

    def files(self, cache: Path, **options: Any) -> ColumnarFiles:
        uri = self.server.uri(f"{self.name}/*.parquet")
        return ColumnarFiles(uri, key="id", residency=Residency(cache, quota=64 << 20), **options)


@pytest.fixture
def dim(server: ObjectStore, request: Any) -> Dimension:
    return Dimension(server, request.node.name.replace("[", "-").replace("]", ""))


def check(given: ColumnarFiles) -> None:
    got = given.lookup([0, ROWS + 7, 2 * ROWS, 2 * ROWS - 1])["v"].to_pylist()
    assert got == ["value 0", f"value {ROWS + 7}", None, f"value {2 * ROWS - 1}"]


@pytest.mark.parametrize("build", ["always", "never"])
def test_files_of_an_object_store(
    server: ObjectStore, dim: Dimension, tmp_path: Path, build: Any
) -> None:
    check(dim.files(tmp_path / "a", build=build))
    # The server of one object says whole seconds: the same file, though, for all requests.
    listed = dim.files(tmp_path / "a")
    for part in range(2):
        uri = server.uri(f"{dim.name}/{part}.parquet")
        one = ColumnarFiles(uri, key="id", residency=Residency(tmp_path / "a", quota=64 << 20))
        assert plans_of(one)[0].name == plans_of(listed)[part].name
        plans_of(one)[0].source.check_unchanged()


def test_others_fetch_what_is_published(
    dim: Dimension,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO, logger="lookupstore")
    first = dim.files(tmp_path / "a")
    assert first.publish() == 2
    assert caplog.text.count(MAKING) == 2
    assert first.publish() == 0
    caplog.clear()
    other = dim.files(tmp_path / "b")
    check(other)
    assert MAKING not in caplog.text
    assert files_of(other).counts().bytes_fetched > 0
    # One of them changes: that one is made, and published again.
    dim.write(1, "other")
    changed = dim.files(tmp_path / "b", build="always")
    assert changed.lookup([1, ROWS])["v"].to_pylist() == ["value 1", f"other {ROWS}"]
    assert caplog.text.count(MAKING) == 1
    assert changed.publish() == 1
    assert len(dim.published(".sst")) == 3
    # What is of the file before goes after a day, and nothing else does.
    monkeypatch.setattr(published, "KEPT_SECONDS", -60)
    # One listed time in ten has two digits after the point, which Arrow does not read.
    now = time.time_ns()
    monkeypatch.setattr(
        "lookupstore.storage.object_store.written_ns", lambda info: info.mtime_ns or now
    )
    changed.publish()
    assert len(dim.published(".sst")) == len(dim.published(".json")) == 2
    third = dim.files(tmp_path / "c")
    caplog.clear()
    assert third.lookup([1, ROWS])["v"].to_pylist() == ["value 1", f"other {ROWS}"]
    assert MAKING not in caplog.text


def test_a_time_that_cannot_be_read_is_not_old(
    server: ObjectStore, dim: Dimension, tmp_path: Path
) -> None:
    # Listed as .12 of a second, which Arrow's client takes for 1970.
    for part in range(2):
        os.utime(server.folder / f"{dim.name}/{part}.parquet", ns=(UNREADABLE, UNREADABLE))
    listed = dim.files(tmp_path / "a")
    assert listed.publish() == 2
    one = ColumnarFiles(
        server.uri(f"{dim.name}/0.parquet"),
        key="id",
        residency=Residency(tmp_path / "a", quota=64 << 20),
    )
    assert plans_of(one)[0].name == plans_of(listed)[0].name
    plans_of(listed)[0].source.check_unchanged()
    for lookup_file in (server.folder / f"{dim.name}/_lookup").iterdir():
        os.utime(lookup_file, ns=(UNREADABLE, UNREADABLE))
    location = Location(f"{BUCKET}/{dim.name}/_lookup", filesystem=dim.filesystem)
    assert [file.modified for file in location.files()] == [None] * 4
    dim.write(1, "other")
    assert dim.files(tmp_path / "b").publish() == 1
    assert len(dim.published(".sst")) == 3


def test_a_lookup_file_that_came_halfway_is_not_published(
    dim: Dimension, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError("the machine is gone")

    given = dim.files(tmp_path / "a")
    with monkeypatch.context() as patched:
        patched.setattr(published, "described_name", fails)
        with pytest.raises(OSError, match="the machine is gone"):
            published.publish_file(
                published.location_of(plans_of(given)[0].source),
                plans_of(given)[0].name,
                plans_of(given)[0].source,
                files_of(given).asked()[0].reader().path,
            )
    assert len(dim.published(".sst")) == 1
    (plan, *_) = plans_of(dim.files(tmp_path / "b"))
    assert published.published_files(published.location_of(plan.source), [plan.name]) == {}
    check(dim.files(tmp_path / "b"))


def test_damaged_published_files(
    dim: Dimension, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dim.files(tmp_path / "a").publish()
    data, described = dim.published(".sst")[0], dim.published(".json")[0]
    name = Path(described).stem
    content, right = dim.read(data), dim.read(described)
    flipped = bytearray(content)
    flipped[100] ^= 1
    cases = {
        data: (flipped, content[:-1], content + b"?"),
        described: (b"{}", b"[1]", b"no JSON", right.replace(name.encode(), b"0" * 32)),
    }
    damaged = [(path, wrong) for path, contents in cases.items() for wrong in contents]
    for number, (path, wrong) in enumerate(damaged):
        dim.put(path, wrong)
        caplog.clear()
        other = dim.files(tmp_path / f"b{number}")
        got = other.lookup(list(range(2 * ROWS)))["v"].to_pylist()
        assert got == [f"value {key}" for key in range(2 * ROWS)]
        (warned,) = [one for one in caplog.messages if "published lookup file is not used" in one]
        assert f"{path}: " in warned
        dim.put(data, content)
        dim.put(described, right)


def write_parts(folder: Path, suffix: str = ".parquet") -> dict[int, str]:
    """Write the two files of a dimension in a local folder, and return their rows."""
    folder.mkdir()
    for part in range(2):
        ids = range(part * SMALL, (part + 1) * SMALL)
        table = pa.table({"id": ids, "v": [f"value {key}" for key in ids]})
        if suffix == ".orc":
            orc.write_table(table, folder / f"{part}.orc")
        else:
            pq.write_table(table, folder / f"{part}.parquet", row_group_size=200)
    return {key: f"value {key}" for key in range(2 * SMALL)}


def opened(folder: Path, cache: Path, **options: Any) -> ColumnarFiles:
    return ColumnarFiles(folder, key="id", residency=Residency(cache, quota=64 << 20), **options)


def check_rows(files: ColumnarFiles, rows: dict[int, str], asked: list[int]) -> None:
    assert files.lookup(asked)["v"].to_pylist() == [rows.get(key) for key in asked]


def seen(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return inode, time and content of each published file and description, by name."""
    return {
        path.name: (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
        for path in (folder / "_lookup").iterdir()
    }


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    "left", ["a file", "half a file", "a description", "a damaged description", "a longer file"]
)
def test_a_publish_replaces_what_is_incomplete_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, left: str
) -> None:
    caplog.set_level(logging.INFO, logger="lookupstore")
    folder = tmp_path / "dim"
    rows = write_parts(folder)
    with opened(folder, tmp_path / "a") as first:
        assert first.publish() == 2
    before = seen(folder)
    data = min((folder / "_lookup").glob("*.sst"))
    described = data.with_suffix(".json")
    content = data.read_bytes()
    if left in ("a file", "half a file"):
        described.unlink()
    if left == "half a file":
        data.write_bytes(content[: len(content) // 2])
    if left == "a longer file":
        data.write_bytes(content + bytes(9))
    if left == "a description":
        data.unlink()
    if left == "a damaged description":
        described.write_bytes(described.read_bytes()[:-9])
    with opened(folder, tmp_path / "b") as second:
        assert second.publish() == 1
    after = seen(folder)
    assert {name: one[2] for name, one in after.items()} == {
        name: one[2] for name, one in before.items()
    }
    for name in before.keys() - {data.name, described.name}:
        assert after[name] == before[name]
    caplog.clear()
    with opened(folder, tmp_path / "c", build="always") as third:
        check_rows(third, rows, [0, SMALL, 2 * SMALL, -1])
        assert third.verify().lookup_files == 2
        assert third.publish() == 0
    assert MAKING not in caplog.text
    assert not warnings_of(caplog)
    assert seen(folder) == after


def test_of_two_publishers_at_once_both_succeed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "dim"
    rows = write_parts(folder)
    first, second = opened(folder, tmp_path / "a"), opened(folder, tmp_path / "b")
    hashed = published.file_hash
    before: dict[str, tuple[int, int, bytes]] = {}

    def after_the_other(path: str) -> str:
        monkeypatch.setattr(published, "file_hash", hashed)
        assert second.publish() == 2
        before.update(seen(folder))
        return hashed(path)

    monkeypatch.setattr(published, "file_hash", after_the_other)
    first.publish()
    assert len(before) == 4
    assert seen(folder) == before  # hosts may have begun to read these
    with opened(folder, tmp_path / "c") as third:
        check_rows(third, rows, list(rows))
        assert third.verify().lookup_files == 2


@pytest.mark.parametrize("suffix", [".parquet", ".orc"])
@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("damage", ["block", "footer", "cut", "gone"])
def test_hosts_do_without_a_damaged_file(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    suffix: str,
    build: Any,
    damage: str,
    seed: int,
) -> None:
    """Damage that a host finds after it has listed the files, wherever it is."""
    rng = random.Random(seed)
    caplog.set_level(logging.INFO, logger="lookupstore")
    folder = tmp_path / "dim"
    rows = write_parts(folder, suffix)
    with opened(folder, tmp_path / "a") as first:
        first.publish()
    files = opened(folder, tmp_path / "b", build=build)
    hurt = rng.choice(sorted((folder / "_lookup").glob("*.sst")))
    content = bytearray(hurt.read_bytes())
    at = {
        "block": rng.randrange(1000),
        "footer": len(content) - 1 - rng.randrange(8),
        "cut": rng.randrange(len(content)),
    }.get(damage, 0)
    content[at] ^= 1 << rng.randrange(8)
    hurt.write_bytes(content[:at] if damage == "cut" else content)
    if damage == "gone":
        hurt.unlink()
    caplog.clear()
    with files:
        check_rows(files, rows, rng.sample(range(2 * SMALL), 3))
        check_rows(files, rows, list(range(-1, 2 * SMALL + 1)))
        check_rows(files, rows, rng.sample(range(2 * SMALL), 3))
    warned = [one for one in warnings_of(caplog) if "published lookup file is not used" in one]
    assert len(warned) == 1
    assert str(hurt) in warned[0]
    assert caplog.text.count(MAKING) == (0 if (build, suffix) == ("never", ".parquet") else 1)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_goes_on_where_a_published_file_is_damaged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, reverse: bool
) -> None:
    caplog.set_level(logging.INFO, logger="lookupstore")
    folder = tmp_path / "dim"
    folder.mkdir()
    keys = list(range(40_000))
    pq.write_table(
        pa.table({"id": keys, "v": [f"{key} " * 9 for key in keys]}), folder / "a.parquet"
    )
    with opened(folder, tmp_path / "a") as first:
        first.publish()
    (path,) = (folder / "_lookup").glob("*.sst")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    caplog.clear()
    with opened(folder, tmp_path / "b") as files:
        table = files.scan(reverse=reverse).read_all()
    assert table["id"].to_pylist() == (keys[::-1] if reverse else keys)
    assert table["v"].to_pylist() == [f"{key} " * 9 for key in table["id"].to_pylist()]
    assert caplog.text.count(MAKING) == 1
    assert sum(str(path) in one for one in warnings_of(caplog)) >= 1


@pytest.mark.parametrize("build", BUILDS)
def test_a_damaged_source_of_a_damaged_published_file_is_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, build: Any
) -> None:
    folder = tmp_path / "dim"
    write_parts(folder)
    for path in folder.glob("*.parquet"):
        table = pq.read_table(path)
        pq.write_table(table, path, compression="none", use_dictionary=False,
                       write_page_checksum=True)  # fmt: skip
    with opened(folder, tmp_path / "a") as first:
        first.publish()
    for path in (folder / "_lookup").glob("*.sst"):
        path.write_bytes(bytes(path.stat().st_size))
    source = folder / "0.parquet"
    status = source.stat()
    pages = bytearray(source.read_bytes())
    pages[pages.index(b"value 7")] ^= 1
    with open(source, "r+b") as file:
        file.write(pages)
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    with (
        opened(folder, tmp_path / "b", build=build) as files,
        pytest.raises(CorruptionError, match=r"0\.parquet"),
    ):
        files.lookup(list(range(SMALL)))
    assert any("published lookup file is not used" in one for one in warnings_of(caplog))


def test_verify_of_damaged_published_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    """What hosts would download is an error; what they leave out is a warning."""
    rng = random.Random(seed)
    folder = tmp_path / "dim"
    write_parts(folder)
    with opened(folder, tmp_path / "a") as first:
        first.publish()
    path, _ = (folder / "_lookup").glob("*.sst")
    right = path.read_bytes()
    for number, at in enumerate([len(right) - 1, *rng.sample(range(len(right)), 20)]):
        content = bytearray(right)
        content[at] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        with opened(folder, tmp_path / f"b{number}") as files:
            with pytest.raises(CorruptionError) as caught:
                files.verify()
            assert caught.value.path == str(path), at
    path.write_bytes(right[:-1])
    caplog.clear()
    with opened(folder, tmp_path / "c") as files:
        assert files.verify().lookup_files == 1
    # Downloads for the files before may still run, and find the file too short.
    (warned,) = [one for one in warnings_of(caplog) if "attempt" not in one]
    assert f"{path}: " in warned
    assert "is not used" in warned


def test_published_files_that_were_downloaded_count(tmp_path: Path) -> None:
    folder = tmp_path / "dim"
    rows = write_parts(folder)
    with opened(folder, tmp_path / "a") as first:
        assert first.info().lookup_files == 0
        first.publish()
        assert first.info().lookup_files == 2
    with opened(folder, tmp_path / "b") as other:
        assert other.info().lookup_files == 0
        check_rows(other, rows, [1])
        other.prepare()
        assert other.info().lookup_files == 2
    with opened(folder, tmp_path / "b") as again:
        assert again.info().lookup_files == 2


def test_a_host_publishes_again_what_it_had_downloaded(tmp_path: Path) -> None:
    folder = tmp_path / "dim"
    rows = write_parts(folder)
    with opened(folder, tmp_path / "a") as first:
        first.publish()
    before = seen(folder)
    with opened(folder, tmp_path / "b") as files:
        files.prepare()
        for path in (folder / "_lookup").iterdir():
            path.unlink()
        assert files.publish() == 2
        check_rows(files, rows, list(rows))
    assert {name: one[2] for name, one in seen(folder).items()} == {
        name: one[2] for name, one in before.items()
    }


@pytest.mark.long
def test_an_object_store_that_fails_is_no_damage(
    server: ObjectStore, dim: Dimension, tmp_path: Path
) -> None:
    proxy = Proxy(server)
    try:
        dim.server = proxy.store
        given = dim.files(tmp_path / "a", build="always")
        proxy.fault = lambda request: "busy" if request.number % 3 == 0 else "ok"
        check(given)  # Arrow's client asks again
        given = dim.files(tmp_path / "b", build="always")
        proxy.fault = lambda request: "busy"
        with pytest.raises(OSError, match="parquet"):
            given.lookup([1])
        assert not list((tmp_path / "b").glob("*.sst"))
        proxy.fault = lambda request: "ok"
        check(given)
    finally:
        proxy.close()


def test_every_file_of_an_older_source_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of other keys and columns stay while their source does."""
    folder = tmp_path / "dim"
    write_parts(folder)

    def publish(key: str, columns: list[str]) -> set[str]:
        before = set(seen(folder)) if (folder / "_lookup").exists() else set()
        cache = Residency(tmp_path / "cache", quota=64 << 20)
        with ColumnarFiles(folder, key=key, columns=columns, residency=cache) as files:
            assert files.publish() == 2
        return {name.partition(".")[0] for name in set(seen(folder)) - before}

    monkeypatch.setattr(published, "KEPT_SECONDS", -60)
    made = [publish("id", ["v"]), publish("v", ["id"]), publish("id", [])]
    assert len(set().union(*made)) == 6
    assert {name.partition(".")[0] for name in seen(folder)} == set().union(*made)
    changed = pa.table({"id": [-1], "v": ["new"]})
    pq.write_table(changed, folder / "0.parquet")
    monkeypatch.setattr(published, "KEPT_SECONDS", 3600)
    for path in (folder / "_lookup").iterdir():
        os.utime(path, (time.time() - 7200,) * 2)
    again = publish_one(folder, tmp_path)
    assert {name.partition(".")[0] for name in seen(folder)} == {*set().union(*made), *again}
    monkeypatch.setattr(published, "KEPT_SECONDS", -60)
    with opened(folder, tmp_path / "cache", columns=["v"]) as files:
        assert files.publish() == 0
    left = {name.partition(".")[0] for name in seen(folder)}
    assert len(left) == 4
    assert left > again


def publish_one(folder: Path, tmp_path: Path) -> set[str]:
    """Publish the lookup file of a changed file, and return its name."""
    before = set(seen(folder))
    with opened(folder, tmp_path / "cache", columns=["v"]) as files:
        assert files.publish() == 1
    return {name.partition(".")[0] for name in set(seen(folder)) - before}


def test_a_damaged_description_of_an_older_source_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(published, "KEPT_SECONDS", -60)
    folder = tmp_path / "dim"
    write_parts(folder)
    (folder / "_lookup").mkdir()
    wrong = folder / "_lookup" / f"{0:032}.json"
    wrong.write_text(json.dumps({"name": wrong.stem, "source": [], "bytes": 1, "xxh64": "0" * 16}))
    with opened(folder, tmp_path / "a") as files:
        assert files.publish() == 2
    assert wrong.exists()
    (warned,) = warnings_of(caplog)
    assert f"{wrong}: " in warned
