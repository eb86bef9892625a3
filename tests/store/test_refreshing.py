"""Newer versions that come to a host while the older one answers: what is fetched, and when."""

from __future__ import annotations

import logging
import math
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs
from support.remote import Remote

import lookupstore
from lookupstore import ClosedError, FormatError, Location, LookupStore
from lookupstore.store.manifest import manifest_bytes
from lookupstore.store.version_files import read_newest

KEEP = {"max_runs": 64, "max_run_share": math.inf}
ROWS = 4000


class Gated(Remote):
    """A server whose data files come when a test lets them come."""

    def __init__(self, folder: Path) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.nbytes = 0
        self.fails = False
        super().__init__(folder, "s3")

    def open_input_file(self, path: str) -> Any:
        if path.endswith(".sst"):
            self.gate.wait(120)
            if self.fails:
                raise OSError("the network is gone")
        return pa.PythonFile(_Counted(super().open_input_file(path), self), mode="r")


class _Counted:
    """A file that adds what is read of it to the bytes of a server."""

    def __init__(self, file: Any, server: Gated) -> None:
        self._file = file
        self._server = server
        self.closed = False

    def read(self, nbytes: int = -1) -> bytes:
        found: bytes = self._file.read(None if nbytes < 0 else nbytes)
        self._server.nbytes += len(found)
        return found

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, place: int, whence: int = 0) -> int:
        return int(self._file.seek(place, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def size(self) -> int:
        return int(self._file.size())

    def close(self) -> None:
        self.closed = True
        self._file.close()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gated]:
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "copies-of-this-test"))
    server = Gated(tmp_path / "remote")
    yield server
    server.gate.set()


def rows(ids: Any, rng: random.Random) -> pa.Table:
    return pa.table({"id": list(ids), "text": [rng.randbytes(50).hex() for _ in ids]})


def started(server: Gated, seed: int, **options: Any) -> tuple[LookupStore, Location]:
    """Return a store all of which is here, and where it is."""
    place = Location("bucket/store", filesystem=fs.PyFileSystem(server))
    options = {"key": "id", "buckets": 4, "compression": "none", **options}
    lookupstore.build(rows(range(ROWS), random.Random(seed)), place, **options).close()
    store = lookupstore.open(place)
    store.lookup(list(range(ROWS)))
    wait_until(lambda: store.info().bytes_here == store.info().bytes)
    server.nbytes = 0
    return store, place


def wait_until(done: Callable[[], Any]) -> None:
    until = time.monotonic() + 120
    while not done():
        assert time.monotonic() < until
        time.sleep(0.01)


def refreshed(store: LookupStore) -> LookupStore:
    found = []

    def is_newer() -> bool:
        found.append(store.refresh())
        return found[-1] is not store

    wait_until(is_newer)
    return found[-1]


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_of_changes_only_the_runs_are_fetched(server: Gated, seed: int, compression: str) -> None:
    rng = random.Random(seed)
    store, place = started(server, seed, compression=compression)
    changes = rows(rng.sample(range(ROWS), 200), rng)
    lookupstore.upsert(place, changes, **KEEP).close()
    server.nbytes = 0  # the upsert has looked whether keys are there
    with store, refreshed(store) as newer:
        manifest = read_newest(place)
        assert newer.version == store.version + 1
        assert newer.info().bytes_fetched == manifest.run_bytes
        others = server.nbytes - manifest.run_bytes - 2 * len(manifest_bytes(manifest))
        assert 0 <= others <= 0.05 * manifest.run_bytes
        before = server.nbytes
        expected = dict(zip(*(changes[name].to_pylist() for name in ("id", "text")), strict=True))
        asked = list(range(ROWS))
        found = newer.lookup(asked)["text"].to_pylist()
        old = store.lookup(asked)["text"].to_pylist()
        assert found == [expected.get(id, text) for id, text in enumerate(old)]
        assert server.nbytes == before
        assert newer.refresh() is newer


def test_the_old_version_answers_while_a_compaction_comes(server: Gated, seed: int) -> None:
    rng = random.Random(seed)
    store, place = started(server, seed)
    with lookupstore.upsert(place, rows(range(0, ROWS, 7), rng), max_runs=0) as current:
        expected = current.lookup(list(range(ROWS)))
        wait_until(lambda: current.info().bytes_here == current.info().bytes)
    for path in Path(os.environ["LOOKUPSTORE_CACHE"]).glob("*"):
        # This host had nothing of it: only what the open store has pinned stays.
        if path.name.split("-")[0] in {file.xxh64 for file in read_newest(place).files}:
            path.unlink(missing_ok=True)  # a map goes when its copy is complete
    before = store.lookup(list(range(ROWS)))
    server.gate.clear()
    server.nbytes = 0
    assert store.refresh() is store
    for _ in range(5):
        assert store.refresh() is store
        assert store.lookup(list(range(ROWS))).equals(before)
    server.gate.set()
    with store, refreshed(store) as newer:
        assert newer.info().bytes_here == newer.info().bytes == newer.info().bytes_fetched
        assert server.nbytes <= 1.05 * newer.info().bytes
        server.gate.clear()  # it has all that it needs
        assert newer.lookup(list(range(ROWS))).equals(expected)


def test_buckets_that_nobody_asked_are_not_fetched(server: Gated, seed: int) -> None:
    rng = random.Random(seed)
    place = Location("bucket/store", filesystem=fs.PyFileSystem(server))
    lookupstore.build(rows(range(ROWS), rng), place, key="id", buckets=4).close()
    with lookupstore.open(place) as store:
        store.get(rng.randrange(ROWS))
        asked = store._files.asked
        assert len(asked) == 1
        lookupstore.upsert(place, rows(range(ROWS), rng), **KEEP).close()
        with refreshed(store) as newer:
            runs = {run.file.bucket: run.file.bytes for run in read_newest(place).runs}
            assert newer._files.asked == asked
            assert newer.info().bytes_fetched >= runs[asked.pop()]


def test_what_fails_is_told_and_tried_again(
    server: Gated, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(seed)
    store, place = started(server, seed)
    changes = rows(range(50), rng)
    lookupstore.upsert(place, changes, **KEEP).close()
    server.fails = True
    with store, caplog.at_level(logging.WARNING):
        assert store.refresh() is store
        wait_until(lambda: "not fetched: " in caplog.text)
        assert store.lookup([1]).num_rows == 1
        server.fails = False
        with refreshed(store) as newer:
            assert newer.get(7) == {"text": changes["text"][7].as_py()}


def test_closing_ends_a_fetch(server: Gated, seed: int) -> None:
    store, place = started(server, seed)
    lookupstore.upsert(place, rows(range(50), random.Random(seed)), **KEEP).close()
    server.gate.clear()
    assert store.refresh() is store
    threading.Timer(0.3, server.gate.set).start()
    store.close()
    names = [thread.name for thread in threading.enumerate()]
    assert "lookupstore-refresh" not in names
    with pytest.raises(ClosedError):
        store.refresh()


def test_versions_that_follow_each_other(server: Gated, seed: int) -> None:
    """Each refresh hands over a whole version, and no older one than the last."""
    rng = random.Random(seed)
    store, place = started(server, seed)

    def change() -> None:
        for number in range(6):
            table = pa.table({"id": range(ROWS), "text": [f"{number}"] * ROWS})
            lookupstore.upsert(place, table, max_runs=rng.choice([0, 8])).close()

    thread = threading.Thread(target=change)
    thread.start()
    numbers = [store.version]
    try:
        while numbers[-1] < 7:
            newer = refreshed(store)
            store.close()
            store = newer
            assert len(set(store.lookup(list(range(ROWS)))["text"].to_pylist())) == 1
            numbers.append(store.version)
    finally:
        thread.join()
    assert numbers == sorted(set(numbers))
    store.close()


def test_a_store_in_a_folder(tmp_path: Path) -> None:
    store = lookupstore.build(pa.table({"id": [1, 2]}), tmp_path / "s", key="id")
    info = store.info()
    assert (info.bytes_here, info.bytes_fetched) == (info.bytes, 0)
    assert store.refresh() is store
    lookupstore.upsert(store, pa.table({"id": [3]})).close()
    with store, store.refresh() as newer:
        assert newer.version == 2
        assert 3 in newer
        assert 3 not in store


@pytest.mark.parametrize("what", ["folder", "versions"])
def test_a_store_that_was_deleted(
    tmp_path: Path, seed: int, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "store"
    with lookupstore.build(rows(range(9), random.Random(seed)), place, key="id") as store:
        expected = store.get(7)
        (place if what == "folder" else place / "versions").rename(tmp_path / "moved")
        with pytest.raises((FileNotFoundError, FormatError)) as of_open:
            lookupstore.open(place)
        with pytest.raises(of_open.type, match=re.escape(str(of_open.value))):
            store.newest()
        for _ in range(2):
            caplog.clear()
            assert store.refresh() is store
            (told,) = [one for one in caplog.records if one.name.startswith("lookupstore.store")]
            assert (told.levelname, str(of_open.value) in told.message) == ("WARNING", True)
        assert store.get(7) == expected
        # It goes on when the store is there again.
        (tmp_path / "moved").rename(place if what == "folder" else place / "versions")
        lookupstore.upsert(place, {"id": [99], "text": ["new"]}).close()
        with store.refresh() as newer:
            assert newer.get(99) == {"text": "new"}


@pytest.mark.parametrize("versions", [1, 2, 3, 5])
def test_a_store_that_was_deleted_and_built_again(tmp_path: Path, versions: int) -> None:
    """Its versions have the same numbers, or lower ones."""
    place = tmp_path / "store"

    def build(count: int, value: str) -> None:
        for _ in range(count):
            lookupstore.build(
                pa.table({"id": [1], "v": [value]}), place, key="id", overwrite=True
            ).close()

    build(3, "old")
    with lookupstore.open(place) as store:
        shutil.rmtree(place)
        build(versions, "new")
        for newer in (store.newest(), store.refresh()):
            with newer:
                assert newer.get(1) == {"v": "new"}
                assert newer.newest() is newer
        assert store.get(1) == {"v": "old"}


# The first function for the end of the process is the last that is called.
AT_THE_END = """
import atexit, threading, time
@atexit.register
def told():
    print(*(one.name for one in threading.enumerate() if one.name.startswith("lookupstore")))
from lookupstore.store import refreshing, version_files
"""


@pytest.mark.parametrize(
    "code",
    [
        # A service that ends while a version comes, and closes nothing.
        "class Newer:\n    close = print\n"
        "fetch = lambda stop: (stop.wait(60), time.sleep(0.3))\n"
        "refreshes = refreshing.Refreshes()\n"
        "refreshes.next(None, lambda: refreshing.Refresh(Newer(), 'a', fetch))\n",
        # The same, whose fetch needs a thread.
        "from concurrent.futures import ThreadPoolExecutor\n"
        "pool = ThreadPoolExecutor(1)\n"
        "def fetch(stop):\n    while not stop.wait(0.01):\n        pool.submit(int)\n"
        "refreshes = refreshing.Refreshes()\n"
        "refreshes.next(None, lambda: refreshing.Refresh(None, 'a', fetch))\n",
        # A place that is not a store: its newest version is still being asked for.
        "class Slow:\n    def one_request(self):\n"
        "        return lambda name, most: (time.sleep(0.5), b'')[1]\n"
        "version_files._CopyOfNewest(Slow())\n",
    ],
)
def test_no_thread_is_left_at_the_end_of_the_process(code: str) -> None:
    """A thread inside of Arrow or obstore aborts the process while the interpreter shuts down."""
    run = subprocess.run(
        [sys.executable, "-c", AT_THE_END + code], capture_output=True, text=True, timeout=30
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "\n", "")
