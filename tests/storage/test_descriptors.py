"""Stores and columnar files of more files than a process may have open."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.remote import Remote

import lookupstore
from lookupstore import LookupStore
from lookupstore.columnar import ColumnarFiles
from lookupstore.hostcache.cache import Residency
from lookupstore.sst import Reader, Writer, stored
from lookupstore.sst.cache import BlockCache
from lookupstore.storage import descriptors
from lookupstore.store.local_files import files_of
from lookupstore.store.store import version_of

FILES = 120
LIMIT = 100  # fewer than the files, and more than Python and pyarrow have open
MODEL = {3 * i: f"{i} " * 20 for i in range(2400)}
ROWS = pa.table({"id": list(MODEL), "v": list(MODEL.values())})

pytestmark = [
    pytest.mark.drawn(0.4),
    pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc"),
]


def open_now(folder: Path | None = None) -> int:
    """Count the open descriptors, or those of the files in a folder."""
    if folder is None:
        return len(os.listdir("/proc/self/fd"))
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing
            found += os.readlink(f"/proc/self/fd/{name}").startswith(f"{folder}/")
    return found


def local_store(folder: Path) -> LookupStore:
    return lookupstore.build(ROWS, folder / "s", key="id", buckets=FILES, compression="none")


def compressed_store(folder: Path) -> LookupStore:
    return lookupstore.build(ROWS, folder / "z", key="id", buckets=FILES, compression="zstd",
                             block_size=256)  # fmt: skip


def unmapped_store(folder: Path) -> LookupStore:
    """Open a store where files cannot be mapped, or would be too many maps."""
    stored.most_maps = lambda: 3
    return local_store(folder)


def remote_store(compression: str) -> Callable[[Path], LookupStore]:
    def make(folder: Path) -> LookupStore:
        place = Remote(folder, "s3").location()
        lookupstore.build(ROWS, place, key="id", buckets=FILES, compression=compression).close()
        return LookupStore(place)

    return make


def columnar_files(build: str) -> Callable[[Path], ColumnarFiles]:
    def make(folder: Path) -> ColumnarFiles:
        source = folder / "source"
        source.mkdir()
        each = len(ROWS) // FILES
        for i in range(FILES):
            pq.write_table(ROWS.slice(i * each, each), source / f"{i:04}.parquet")
        return ColumnarFiles(str(source), key="id", build=build)

    return make


KINDS = {
    "local": local_store,
    "compressed": compressed_store,
    "unmapped": unmapped_store,
    "remote": remote_store("none"),
    "remote compressed": remote_store("zstd"),
    "columnar made": columnar_files("always"),
    "columnar looks": columnar_files("never"),
}


def check(opened: LookupStore | ColumnarFiles, rng: random.Random, count: int = 500) -> None:
    asked = rng.choices(range(3 * len(MODEL)), k=count)
    assert opened.lookup(asked)["v"].to_pylist() == [MODEL.get(key) for key in asked]


def check_under_limit(kind: str, folder: str) -> None:
    """Look up in all files, again and again; called in a process that may open few."""
    rng = random.Random(7)
    with KINDS[kind](Path(folder)) as opened:
        for _ in range(2):
            check(opened, rng)
            assert open_now() < LIMIT
        if kind == "compressed":  # when lookups have paid for plain copies, threads make them
            check(opened, rng, 9000)
            check(opened, rng, 3000)
            for thread in threading.enumerate():
                if thread.name == "lookupstore-recode":
                    thread.join()
            check(opened, rng, 3000)
            assert any(one.recoded for one in files_of(opened).opened.values())
        if isinstance(opened, LookupStore):
            assert opened.scan().read_all().num_rows == len(MODEL)
            opened.verify()


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
def test_more_files_than_a_process_may_open(kind: str, tmp_path: Path) -> None:
    code = (
        "import resource, test_descriptors as t\n"
        "_, most = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT}, most))\n"
        f"t.check_under_limit({kind!r}, {str(tmp_path)!r})\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        "LOOKUPSTORE_CACHE": str(tmp_path / "cache"),
        "LOOKUPSTORE_CACHE_BYTES": "1GB",
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True,
                          text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


class Files(descriptors.Holder):
    """A stand-in for files that are open, some of which are never given back."""

    def __init__(self, stays: bool = False) -> None:
        self.stays = stays

    def give_way(self) -> None:
        if not self.stays:
            descriptors.gave(self)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let all files that are open take 16 descriptors; those of other tests do not count."""
    most = 16
    monkeypatch.setattr(descriptors, "most", lambda: most)
    monkeypatch.setattr(descriptors, "holders", {})
    monkeypatch.setattr(descriptors, "total", 0)
    return most


def test_who_was_used_longest_ago_gives_way(few: int) -> None:
    descriptors.took(Files(), 1)  # is gone at once, and counts no more
    files = [Files() for _ in range(few)]
    for one in files:
        descriptors.took(one, 1)
    assert all(one.descriptors for one in files)
    descriptors.used(files[0])
    files[1].stays = True
    more = Files()
    descriptors.took(more, 1)
    gone = [number for number, one in enumerate(files) if not one.descriptors]
    assert gone == [2, 3, 4]
    assert more.descriptors == 1
    large = Files()
    descriptors.took(large, few)
    assert large.descriptors == few, "it is in use, whatever it takes"
    assert [one.descriptors for one in files].count(1) == 1
    descriptors.took(large, 1)
    again = [Files() for _ in range(few - 2)]
    for one in again:
        descriptors.took(one, 1)
    assert all(one.descriptors for one in again)


def test_the_limit_is_half_of_what_the_process_may_open() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert descriptors.most() == soft // 2


def test_threads_get_right_answers_from_files_that_give_way(
    few: int, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "cache"))
    place = Remote(tmp_path, "s3").location()
    lookupstore.build(ROWS, place, key="id", buckets=40, compression="none").close()
    wrong: list[BaseException] = []

    def ask(number: int) -> None:
        rng = random.Random(seed + number)
        try:
            for _ in range(4):
                check(store, rng, 300)
                key = rng.choice(list(MODEL))
                assert store.get(key) == {"v": MODEL[key]}
        except BaseException as error:
            wrong.append(error)

    with LookupStore(place, residency=Residency(quota="1GB")) as store:
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        assert 0 < len(files_of(store).opened) < 40
        assert descriptors.total <= few
        before = descriptors.total
    assert descriptors.total < before


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_of_more_files_than_may_be_open(
    few: int, tmp_path: Path, reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on behind the last key, of the file and of each range."""
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("lookupstore.sst.scans._BATCH", 1)  # each batch is a block
    place = Remote(tmp_path, "s3").location()
    options = {"buckets": 20, "compression": "none", "block_size": 512}
    lookupstore.build(ROWS, place, key="id", **options).close()
    expected = sorted(MODEL.items(), reverse=reverse)
    with LookupStore(place, residency=Residency(quota="1GB")) as store:
        asked = files_of(store).ready
        times: list[int] = []
        monkeypatch.setattr(files_of(store), "ready", lambda one: times.append(one) or asked(one))
        table = store.scan(reverse=reverse).read_all()
        assert list(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True)) == expected
        assert len(times) > 5 * 20, "each piece is asked for by itself"
        low, high = (store.key_schema.encode(pa.record_batch({"id": [i]}))[0] for i in (99, 3000))
        ranges = [(high.as_py(), None), (None, low.as_py())]
        found = {
            key: value
            for bucket in range(20)
            for batch in version_of(store).reads.scan_bucket(bucket, ranges, ["v"])
            for key, value in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        }
        assert found == {key: v for key, v in MODEL.items() if key < 99 or key >= 3000}


def test_a_file_without_a_map_is_opened_again(
    few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "most_maps", lambda: 0)
    items = [(b"%04d" % i, b"%d" % i) for i in range(2000)]
    paths = [tmp_path / f"{i}.sst" for i in range(3 * few)]
    for path in paths:
        with Writer(path, block_size=512) as writer:
            writer.put_many(*zip(*items, strict=True))
    readers = [Reader(path, cache=BlockCache(0)) for path in paths]
    assert 0 < open_now(tmp_path) <= few
    for _ in range(2):
        for reader in readers:
            assert reader.get(b"1234") == b"1234"
            assert list(reader.items()) == items
            assert open_now(tmp_path) <= few
    # Another file under its name is not read in its place, and neither is none.
    descriptors.all_give_way()
    with Writer(paths[0], block_size=512, overwrite=True) as writer:
        writer.put_many(*zip(*items, strict=True))
    paths[1].unlink()
    for reader, reason in zip(readers, ("replaced since it was opened", "No such"), strict=False):
        with pytest.raises(FileNotFoundError, match=reason):
            reader.get(b"1234")
    readers.clear()
    del reader
    gc.collect()
    assert open_now(tmp_path) == 0
