"""Local copies of objects: an S3 server, several processes, faults; models are a dict and bytes.

The proxy before the server counts what all processes ask for.
"""

from __future__ import annotations

import errno
import faulthandler
import gc
import hashlib
import itertools
import json
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import xxhash
from pyarrow import fs
from support.object_store import SECRET, ObjectStore, Proxy, Request, has_server, object_store

from lookupstore.errors import ClosedError, CorruptionError, DiskQuotaError, LookupStoreError
from lookupstore.hostcache import chunk_map as chunks
from lookupstore.hostcache import copy as local_copy
from lookupstore.hostcache import lookup_files
from lookupstore.hostcache.cache import Residency, shared_copies
from lookupstore.hostcache.folder import MAKING
from lookupstore.hostcache.pinned_copy import PinnedCopy
from lookupstore.sst import Reader, Writer
from lookupstore.sst.cache import BlockCache
from lookupstore.storage import remote_file as remote
from lookupstore.storage.uris import shown_uri

pytestmark = [
    pytest.mark.drawn(0.4),
    pytest.mark.skipif(not has_server(), reason="rclone is not installed"),
    # Python 3.12 and later say so of every fork of a process with threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

COUNT = 30_000
# Half of a value can be compressed.
MODEL = {b"%08d" % (7 * i): hashlib.blake2b(b"%d" % i).digest() + bytes(80) for i in range(COUNT)}


def make_object(path: Path, seed: int = 0, **options: Any) -> None:
    with Writer(path, overwrite=True, block_size=16384, **options) as writer:
        writer.put_many(list(MODEL), [b"%02d" % seed + value for value in MODEL.values()])


def value_of(key: bytes, seed: int = 0) -> bytes | None:
    value = MODEL.get(key)
    return None if value is None else b"%02d" % seed + value


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("s3")) as server:
        make_object(server.folder / "a.sst")
        make_object(server.folder / "z.sst", compression="zstd")
        yield server


@pytest.fixture
def proxy(store: ObjectStore) -> Iterator[Proxy]:
    proxy = Proxy(store)
    yield proxy
    proxy.close()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(local_copy, "REST", 0.1)
    monkeypatch.setattr(local_copy, "REQUEST_CHUNKS", 256)


@pytest.fixture
def residency(tmp_path: Path) -> Residency:
    return Residency(tmp_path / "copies", quota=100 << 20)


def no_download(copy: local_copy.LocalCopy) -> None:
    pass


def pin(
    residency: Residency, store: ObjectStore, name: str = "a.sst", timeout: float = 5
) -> PinnedCopy:
    content = (store.folder / name).read_bytes()
    return residency.pin(
        store.filesystem(timeout),
        f"bucket/{name}",
        nbytes=len(content),
        xxh64=xxhash.xxh64_hexdigest(content),
        uri=store.uri(name),
    )


def downloading(copy: PinnedCopy) -> PinnedCopy:
    """Begin the download, as lookups do that have paid for it."""
    copy.fill.download()
    return copy


def opened(copy: PinnedCopy) -> Reader:
    return Reader(copy.path, fill=copy.fill, cache=BlockCache(1 << 20))


def check_answers(reader: Reader, rng: random.Random, rounds: int = 5, seed: int = 0) -> None:
    keys = [*MODEL, *(b"%08d" % rng.randrange(8 * COUNT) for _ in range(COUNT))]
    for _ in range(rounds):
        some = rng.choices(keys, k=rng.choice([1, 10, 200]))
        assert reader.lookup(some).to_pylist() == [value_of(key, seed) for key in some]
        assert reader.get(some[0]) == value_of(some[0], seed)


def files_of(residency: Residency) -> set[str]:
    return {path.suffix for path in Path(residency.folder).iterdir()} - {""}


# -- one copy


@pytest.mark.parametrize("name", ["a.sst", "z.sst"])
def test_lookups_before_and_after_the_download(
    residency: Residency, proxy: Proxy, name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    content = (proxy.store.folder / name).read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(local_copy.LocalCopy, "download", no_download)
        copy = pin(residency, proxy.store, name)
        reader = opened(copy)
        for key in [*rng.sample(sorted(MODEL)[: COUNT // 4], 5), b"x"]:
            assert reader.get(key) == value_of(key)
        assert not copy.complete
        assert 0 < proxy.nbytes < len(content)
        assert copy.counts.bytes_fetched == proxy.nbytes
        assert files_of(residency) == {".sst", ".map"}
    inode = os.stat(copy.path).st_ino
    assert copy.wait(60)
    assert copy.complete
    assert Path(copy.path).read_bytes() == content
    assert os.stat(copy.path).st_ino == inode
    assert files_of(residency) == {".sst"}
    check_answers(reader, rng)
    assert proxy.nbytes == len(content), "no byte is fetched twice"


def test_a_copy_that_is_there_is_not_fetched_again(residency: Residency, proxy: Proxy) -> None:
    with pin(residency, proxy.store) as copy:
        assert copy.wait(60)
    asked = len(proxy.requests)
    with pin(Residency(residency.folder), proxy.store) as copy:
        assert copy.complete
        check_answers(opened(copy), random.Random(1))
    assert len(proxy.requests) == asked


def test_the_content_is_the_name(residency: Residency, store: ObjectStore) -> None:
    """Two objects of one content are one copy, whatever they are called."""
    (store.folder / "b.sst").write_bytes((store.folder / "a.sst").read_bytes())
    with pin(residency, store) as copy, pin(residency, store, "b.sst") as other:
        assert copy.path == other.path
        assert copy.wait(60)
        assert other.complete


def test_what_is_here_is_told_without_a_copy(
    residency: Residency, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = (proxy.store.folder / "a.sst").read_bytes()
    nbytes, xxh64 = len(content), xxhash.xxh64_hexdigest(content)
    assert residency.coverage(nbytes=nbytes, xxh64=xxh64) == (False, 0)
    assert not os.path.exists(residency.folder)
    with monkeypatch.context() as patched:
        patched.setattr(local_copy.LocalCopy, "download", no_download)
        copy = pin(residency, proxy.store)
        assert residency.coverage(nbytes=nbytes, xxh64=xxh64) == (False, 0)
        page = 4096  # what a disk gives at a time
        copy.fill([(0, page), (20 * page, page)])
        assert residency.coverage(nbytes=nbytes, xxh64=xxh64) == (False, proxy.nbytes)
    # A process that opened and closed the map would lose its claims to another one.
    assert copy.fill.chunks is not None
    assert copy.fill.chunks.claim([(5, 6)]) == [(5, 6)]
    residency.coverage(nbytes=nbytes, xxh64=xxh64)
    code = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    path = copy.path.replace(".sst", ".map")
    other = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert "BlockingIOError" in other.stderr
    copy.fill.chunks.give_back([(5, 6)])
    assert copy.wait(60)
    # The map goes a moment after its last chunk came.
    end = time.monotonic() + 30
    while os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.01)
    assert residency.coverage(nbytes=nbytes, xxh64=xxh64) == (True, nbytes)


def test_a_batch_asks_for_its_chunks_at_once(
    residency: Residency, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_copy.LocalCopy, "download", no_download)
    monkeypatch.setattr(local_copy, "GAP_CHUNKS", 0)
    copy = pin(residency, proxy.store)
    reader = opened(copy)
    proxy.delay = 0.2
    before = len(proxy.gets)
    keys = list(MODEL)[:: COUNT // 12]
    started = time.monotonic()
    assert reader.lookup(keys).to_pylist() == [value_of(key) for key in keys]
    asked = len(proxy.gets) - before
    assert asked >= 10
    assert time.monotonic() - started < 0.2 * asked / 3


def test_small_gaps_are_read_where_requests_wait_for_others(
    residency: Residency, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_copy.LocalCopy, "download", no_download)
    monkeypatch.setattr(local_copy, "GAP_CHUNKS", 4)
    with pin(residency, proxy.store) as copy:
        size = chunks.CHUNK_BYTES
        ranges = [(0, 10), (3 * size, 10), (20 * size, 10), (26 * size, 10)]
        copy.fill(ranges[:2])
        assert [each.size for each in proxy.gets] == [size] * 2, "all at once: nothing waits"
        monkeypatch.setattr(local_copy, "AT_ONCE", 2)
        copy.fill([(at + 100 * size, count) for at, count in ranges])
        assert sorted((each.start // size, each.size // size) for each in proxy.gets[2:]) == [
            (100, 4),
            (120, 1),
            (126, 1),
        ]
        asked = len(proxy.gets)
        copy.fill([(101 * size, 2 * size), (120 * size + 5, 7)])
        assert len(proxy.gets) == asked


def test_a_download_stands_back_for_lookups(monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds() -> float:
        started = time.monotonic()
        local_copy.stand_back()
        return time.monotonic() - started

    monkeypatch.setattr(local_copy, "COURTESY", 0.4)
    monkeypatch.setattr(local_copy, "PAUSE", 0.1)
    with local_copy.lookups_wait():
        assert seconds() >= 0.39, "but it does not starve"
    assert 0.05 < seconds() < 0.39
    assert seconds() < 0.05


def test_a_closed_copy(residency: Residency, store: ObjectStore) -> None:
    copy = pin(residency, store)
    copy.close()
    copy.close()
    for use in (lambda: copy.fill, lambda: copy.complete, copy.wait, lambda: copy.counts):
        with pytest.raises(ClosedError, match=r"s3://\*\*\*@bucket/a\.sst"):
            use()


def test_a_copy_whose_file_is_being_closed_is_not_given_out(
    residency: Residency, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was, to a thread that asked between the close and the end of the object."""
    copy = pin(residency, store)
    assert copy.wait()
    (pinned,) = open_copies(copy.path)
    pinned.join(60)  # the thread of the download has it, too
    file = pinned.descriptor
    del pinned
    seen = []

    def closing(descriptor: int) -> None:
        if descriptor == file:
            seen.append(open_copies(copy.path))
        os.close(descriptor)

    monkeypatch.setattr(local_copy, "os", SimpleNamespace(**{**vars(os), "close": closing}))
    copy.close()
    gc.collect()
    assert seen == [[]]


def open_copies(path: str) -> list[local_copy.LocalCopy]:
    return [pinned for pinned in shared_copies.values() if pinned.path == path]


def test_a_download_stops_when_nobody_uses_the_copy(residency: Residency, proxy: Proxy) -> None:
    proxy.delay = 0.3
    copy = downloading(pin(residency, proxy.store))
    while not proxy.gets:
        time.sleep(0.01)
    size = copy.nbytes
    copy.close()
    del copy
    time.sleep(2.5)  # enough for all of it
    assert 0 < proxy.nbytes < size
    proxy.delay = 0
    before = proxy.nbytes
    with pin(residency, proxy.store) as copy:
        assert copy.wait(60)
        assert proxy.nbytes - before < copy.nbytes, "it went on where it had stopped"


def test_threads_share_a_copy(residency: Residency, proxy: Proxy, seed: int) -> None:
    proxy.delay = 0.01
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with pin(residency, proxy.store) as copy:
                check_answers(opened(copy), random.Random(seed + number))
        except BaseException as error:
            failed.append(error)

    with pin(residency, proxy.store) as copy:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert copy.wait(60)
        assert proxy.nbytes == copy.nbytes


# -- several processes

CHILD = """
import json, os, random, sys, time
import test_residency as t
from lookupstore.hostcache import copy as local_copy
from lookupstore.hostcache.cache import Residency
from support.object_store import ObjectStore
from pathlib import Path

local_copy.REQUEST_CHUNKS = 256
folder, address, cache, seed = sys.argv[1:5]
store = ObjectStore(Path(folder), address)
"""


def start_child(code: str, proxy: Proxy, residency: Residency, seed: int) -> subprocess.Popen[str]:
    paths = [str(Path(__file__).parent), *sys.path]
    return subprocess.Popen(
        [sys.executable, "-c", CHILD + code, str(proxy.store.folder), proxy.store.address,
         residency.folder, str(seed)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def test_processes_fetch_each_chunk_once(residency: Residency, proxy: Proxy) -> None:
    """Each looks keys up in another quarter of the file."""
    code = """
print("ready", flush=True)
sys.stdin.readline()
with t.pin(Residency(cache, quota=100 << 20), store) as copy:
    reader = t.opened(copy)
    quarter = t.COUNT // 4
    for key in sorted(t.MODEL)[int(seed) * quarter : (int(seed) + 1) * quarter : 300]:
        assert reader.get(key) == t.value_of(key)
    assert copy.wait(60)
    print(json.dumps(copy.counts.bytes_fetched))
"""
    proxy.delay = 0.1
    children = [start_child(code, proxy, residency, number) for number in range(4)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    outputs = [child.communicate(timeout=120) for child in children]
    assert [child.returncode for child in children] == [0] * 4, outputs
    fetched = [json.loads(out) for out, _ in outputs]
    size = (proxy.store.folder / "a.sst").stat().st_size
    assert sum(fetched) == proxy.nbytes == size
    assert sum(map(bool, fetched)) > 1, "several of them took part"
    assert files_of(residency) == {".sst"}


def test_a_downloader_that_is_killed(residency: Residency, proxy: Proxy, seed: int) -> None:
    code = """
copy = t.downloading(t.pin(Residency(cache, quota=100 << 20), store))
time.sleep(60)
"""
    proxy.delay = 0.1
    size = (proxy.store.folder / "a.sst").stat().st_size
    child = start_child(code, proxy, residency, seed)
    while proxy.nbytes < size / 3:
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)
    # Here another one waits for the download of the first.
    copy = pin(residency, proxy.store)
    assert not copy.wait(0.05)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    before = proxy.nbytes
    assert not copy.complete
    check_answers(opened(copy), random.Random(seed))
    assert copy.wait(60)
    assert Path(copy.path).read_bytes() == (proxy.store.folder / "a.sst").read_bytes()
    # What was on its way when it was killed is lost, and nothing more.
    assert proxy.nbytes <= size + local_copy.REQUESTS * 256 * chunks.CHUNK_BYTES
    assert before > size / 4


def in_child(work: Callable[[], object], beside: Callable[[], object] | None = None) -> int:
    """Run in a child of fork, and something else in its parent; return its exit status."""
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(30, file=sys.__stderr__)
        try:
            work()
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if beside is not None:
        beside()
    for _ in range(600):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return -1


def test_a_child_of_fork_uses_the_copy_of_its_parent(
    residency: Residency, proxy: Proxy, seed: int
) -> None:
    """Also while its parent downloads, and when its parent does not."""
    proxy.delay = 0.03
    copy = downloading(pin(residency, proxy.store))
    reader = opened(copy)

    def work() -> None:
        check_answers(reader, random.Random(seed))
        assert copy.wait(60)

    assert in_child(work) == 0
    assert copy.wait(60)
    assert proxy.nbytes <= copy.nbytes + local_copy.REQUESTS * 256 * chunks.CHUNK_BYTES


def test_a_child_of_fork_takes_a_download_over(
    residency: Residency, proxy: Proxy, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(local_copy.LocalCopy, "download", no_download)
        copy = pin(residency, proxy.store)
        reader = opened(copy)
        check_answers(reader, random.Random(seed), 1)

    def work() -> None:
        assert copy.wait(20)

    assert in_child(work) == 0
    assert copy.complete
    assert proxy.nbytes == copy.nbytes


def test_a_child_of_fork_goes_on_where_its_parent_stops(residency: Residency, proxy: Proxy) -> None:
    proxy.delay = 0.2
    copy = downloading(pin(residency, proxy.store))
    while not proxy.gets:
        time.sleep(0.01)
    forked, begun = os.pipe()

    def work() -> None:
        os.write(begun, b".")
        assert copy.wait(20)

    def stop() -> None:
        os.read(forked, 1)  # a child of a copy that is closed has none
        copy.close()

    assert in_child(work, stop) == 0
    os.close(forked)
    os.close(begun)
    with pin(residency, proxy.store) as again:
        assert again.complete


def test_a_fork_while_a_request_does_not_end(
    residency: Residency, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child says so. It would hang in the client, whose locks nobody gives back."""
    monkeypatch.setattr(remote, "FORK_WAIT", 0.2)
    proxy.fault = lambda request: "stall" if request.size else "ok"
    copy = downloading(pin(residency, proxy.store, timeout=30))
    while not proxy.gets:
        time.sleep(0.01)

    def work() -> None:
        with pytest.raises(RuntimeError, match=r"s3://\*\*\*@bucket/a\.sst.*spawn"):
            opened(copy)

    assert in_child(work) == 0
    copy.close()
    proxy.close()


class OneProcess:
    """A file system, and its files, that only the process that opened it may use."""

    def __init__(self) -> None:
        self.pid = os.getpid()

    def __reduce__(self) -> tuple[Any, ...]:
        return OneProcess, ()

    def open_input_file(self, path: str) -> OneProcess:
        assert self.pid == os.getpid()
        return OneProcess()

    def size(self) -> int:
        return 100

    def close(self) -> None:
        """Close nothing: there is no file."""

    def read_at(self, size: int, offset: int) -> bytes:
        assert self.pid == os.getpid(), "of the parent"
        return bytes(range(offset, offset + size))


class ShortReads(OneProcess):
    """Reads that give less than was asked for, some times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    def open_input_file(self, path: str) -> ShortReads:
        return self

    def read_at(self, size: int, offset: int) -> bytes:
        self.left -= 1
        return super().read_at(size - (self.left >= 0), offset)


def test_what_comes_short_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    sleep = time.sleep

    def wait(seconds: float) -> None:
        if threading.current_thread() is threading.main_thread():
            waits.append(seconds)
        else:  # a download that a test before this one has begun
            sleep(seconds)

    monkeypatch.setattr(remote.time, "sleep", wait)
    file = remote.RemoteFile(ShortReads(3), "x", nbytes=100, uri="x://x")
    assert file.read(5, 3) == b"\5\6\7"
    assert (file.nbytes_read, file.requests, file.retries) == (3, 4, 3)
    # Each time the most is twice as much, and the least half of the most.
    assert len(waits) == 3
    assert all(1 <= wait / (remote.FIRST_WAIT * 2**n / 2) <= 2 for n, wait in enumerate(waits))
    file = remote.RemoteFile(ShortReads(remote.ATTEMPTS), "x", nbytes=100, uri="x://a:b@x/y?z=c")
    with pytest.raises(
        OSError, match=r"^x://\*\*\*@x/y\?\*\*\*: 3 bytes at offset 5.*: received 2 bytes$"
    ):
        file.read(5, 3)


def test_a_child_of_fork_opens_the_file_system_again() -> None:
    file = remote.RemoteFile(OneProcess(), "x", nbytes=100, uri="x://x")
    assert file.read(3, 2) == b"\3\4"

    def work() -> None:
        assert file.read(7, 1) == b"\7"

    assert in_child(work) == 0
    assert file.read(8, 1) == b"\10"


def test_a_child_of_fork_does_not_keep_the_locks_of_its_parent(
    residency: Residency, proxy: Proxy
) -> None:
    proxy.delay = 0.05
    copy = downloading(pin(residency, proxy.store))
    while not proxy.gets:
        time.sleep(0.01)
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    try:
        assert copy.wait(30)
        with pin(residency, proxy.store, "z.sst") as other:
            assert other.wait(30)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_claims_keep_threads_and_processes_apart(tmp_path: Path) -> None:
    path = str(tmp_path / "x.map")
    chunks.ChunkMap.create(path, 10, 0)
    one = chunks.ChunkMap(path, 10)
    assert one.claim([(1, 3), (5, 6)]) == [(1, 3), (5, 6)]
    assert one.claim([(2, 4)]) == [(3, 4)]

    def other() -> None:
        assert one.claim([(1, 5)]) == [(4, 5)]
        assert one.claim([(0, 10)]) == [(0, 1), (6, 10)]
        assert not one.claim_download()

    assert one.claim_download()
    assert in_child(other) == 0
    one.mark(1, 3)
    one.give_back([(1, 4)])
    assert one.missing() == [(0, 1), (3, 10)]
    assert one.missing([(1, 4), (6, 7)]) == [(3, 4), (6, 7)]
    assert one.claim([(1, 4), (5, 6)]) == [(3, 4)]
    one.end_download()

    def after() -> None:
        assert one.claim_download()
        assert one.claim([(1, 3)]) == []

    assert in_child(after) == 0


def test_spans_of_chunks_are_sets_of_them(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    count = 200
    for number in range(30):
        path = str(tmp_path / f"{number}.map")
        chunks.ChunkMap.create(path, count, 0)
        one = chunks.ChunkMap(path, count)
        there: set[int] = set()
        claimed: set[int] = set()
        for _ in range(30):
            ranges = [
                (rng.randrange(190 * chunks.CHUNK_BYTES), rng.randrange(1, 9000))
                for _ in range(rng.randrange(1, 9))
            ]
            asked = {
                at // chunks.CHUNK_BYTES
                for first, size in ranges
                for at in range(first, first + size)
            }
            spans = chunks.spans_of(ranges)
            assert numbers_of(spans) == asked
            missing = one.missing(spans)
            assert numbers_of(missing) == asked - there
            gap = rng.randrange(6)
            assert numbers_of(one.missing_with_gaps(missing, gap)) == with_gaps(
                asked - there, there, gap
            )
            assert one.count_there(0, count) == len(there)
            mine = one.claim(spans)
            assert numbers_of(mine) == asked - there - claimed
            if mine and rng.random() < 0.8:
                for first, end in chunks.pieces(mine, 3):
                    assert 1 <= end - first <= 3
                    one.mark(first, end)
                one.give_back(mine)
                there |= numbers_of(mine)
            else:
                claimed |= numbers_of(mine)
        steps = list(chunks.steps(one.missing(), 7))
        assert all(sum(end - first for first, end in step) <= 7 for step in steps)
        assert numbers_of(span for step in steps for span in step) == set(range(count)) - there


def numbers_of(spans: Iterable[tuple[int, int]]) -> set[int]:
    found = [number for first, end in spans for number in range(first, end)]
    assert found == sorted(set(found))
    return set(found)


def with_gaps(missing: set[int], there: set[int], gap: int) -> set[int]:
    ascending = sorted(missing)
    between = {
        number
        for first, last in itertools.pairwise(ascending)
        if last - first - 1 <= gap and not there & set(range(first, last))
        for number in range(first, last)
    }
    return missing | between


# -- the folder


def test_the_least_recently_used_goes_first(
    tmp_path: Path, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        make_object(store.folder / f"{number}.sst", number)
    size = (store.folder / "0.sst").stat().st_size
    residency = Residency(tmp_path / "copies", quota=3 * size + (100 << 10))
    paths = []
    for number in range(3):
        with pin(residency, store, f"{number}.sst") as copy:
            assert copy.wait(60)
            paths.append(copy.path)
        time.sleep(0.02)
    with pin(residency, store, "0.sst"):
        pass
    with pin(residency, store, "3.sst") as copy:
        assert copy.wait(60)
        assert [os.path.exists(path) for path in [*paths, copy.path]] == [True, False, True, True]
        assert residency.used <= residency.quota


def test_what_is_in_use_stays(tmp_path: Path, proxy: Proxy, seed: int) -> None:
    """In this process, in others, and by a reader whose copy was closed."""
    for number in range(4):
        make_object(proxy.store.folder / f"{number}.sst", number)
    size = (proxy.store.folder / "0.sst").stat().st_size
    residency = Residency(tmp_path / "copies", quota=3 * size + (100 << 10))
    pinned = pin(residency, proxy.store, "0.sst")
    with pin(residency, proxy.store, "1.sst") as closed:
        reader = opened(closed)
    code = """
copy = t.pin(Residency(cache, quota=100 << 20), store, "2.sst")
print("pinned", flush=True)
sys.stdin.read()
"""
    child = start_child(code, proxy, residency, seed)
    assert child.stdout is not None
    assert child.stdout.readline() == "pinned\n"
    before = len(proxy.requests)
    with pytest.raises(DiskQuotaError, match=rf"3\.sst.*{size} bytes.*are in use"):
        pin(residency, proxy.store, "3.sst")
    check_answers(opened(pinned), random.Random(seed), seed=0)
    check_answers(reader, random.Random(seed), seed=1)
    child.kill()
    child.communicate()
    with pin(residency, proxy.store, "3.sst") as copy:
        assert copy.wait(60), "the copy of the process that died went"
    assert os.path.exists(pinned.path)
    assert len(proxy.requests) > before
    assert residency.used <= residency.quota


def test_a_disk_rounds_up_what_files_take(tmp_path: Path, seed: int) -> None:
    """Many small files, whose maps and last blocks count, come never to more than the quota."""
    rng = random.Random(seed)
    residency = Residency(tmp_path / "copies", quota=100_000)
    for number in range(40):
        content = rng.randbytes(rng.choice([1, 4096, 4097, 8000]))
        path = tmp_path / f"{number}.bytes"
        path.write_bytes(content)
        with residency.pin(
            fs.LocalFileSystem(),
            str(path),
            nbytes=len(content),
            xxh64=xxhash.xxh64_hexdigest(content),
        ) as copy:
            assert residency.used <= residency.quota
            assert copy.wait(60)
            assert residency.used <= residency.quota
    assert residency.used > residency.quota - 16_000, "as many as there is room for"


def test_a_file_larger_than_the_quota(tmp_path: Path, proxy: Proxy) -> None:
    residency = Residency(tmp_path / "copies", quota=1 << 20)
    size = (proxy.store.folder / "a.sst").stat().st_size
    with pytest.raises(DiskQuotaError) as caught:
        pin(residency, proxy.store)
    for part in (
        "s3://***@bucket/a.sst",
        str(size),
        str(1 << 20),
        "LOOKUPSTORE_CACHE_BYTES",
        "buckets",
    ):
        assert part in str(caught.value)
    assert proxy.requests == []
    assert files_of(residency) == set()


def test_retention(tmp_path: Path, store: ObjectStore) -> None:
    residency = Residency(tmp_path / "copies", retention=timedelta(days=3))
    with pin(residency, store) as used, pin(residency, store, "z.sst") as unused:
        assert used.wait(60)
        assert unused.wait(60)
    old = time.time() - timedelta(days=4).total_seconds()
    for copy in (used, unused):
        os.utime(copy.path, (old, old))
    make_object(store.folder / "new.sst", 9)
    with pin(residency, store), pin(residency, store, "new.sst"):
        assert os.path.exists(used.path)
        assert not os.path.exists(unused.path)
    forever = Residency(tmp_path / "copies", retention=None)
    os.utime(used.path, (old, old))
    with pin(forever, store, "z.sst"):
        assert os.path.exists(used.path)


def test_defaults_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOOKUPSTORE_CACHE", raising=False)
    monkeypatch.delenv("LOOKUPSTORE_CACHE_BYTES", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    residency = Residency()
    assert residency.folder == str(tmp_path / "xdg" / "lookupstore")
    assert 0 < residency.quota < 1 << 60
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("LOOKUPSTORE_CACHE_BYTES", "12345")
    residency = Residency()
    assert (residency.folder, residency.quota) == (str(tmp_path / "own"), 12345)
    monkeypatch.setenv("LOOKUPSTORE_CACHE_BYTES", "5 GB")
    assert Residency().quota == 5 * 10**9
    assert Residency(tmp_path, quota="1.5MiB").quota == 3 << 19
    monkeypatch.setenv("LOOKUPSTORE_CACHE_BYTES", "plenty")
    with pytest.raises(ValueError, match="LOOKUPSTORE_CACHE_BYTES is 'plenty'; give bytes, or a"):
        Residency()
    with pytest.raises(ValueError, match="quota is 0; give at least 1 bytes"):
        Residency(tmp_path, quota=0)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOOKUPSTORE_CACHE", "~/own")
    assert Residency(quota="1GB").folder == str(tmp_path / "own")
    assert Residency("~/other", quota="1GB").folder == str(tmp_path / "other")
    with pytest.raises(ValueError, match="retention"):
        Residency(tmp_path, quota=1, retention=timedelta(-1))


def test_arguments_of_hold(residency: Residency) -> None:
    local = fs.LocalFileSystem()
    with pytest.raises(ValueError, match="nbytes=0"):
        residency.pin(local, "x", nbytes=0, xxh64="0" * 16)
    with pytest.raises(ValueError, match=r"xxh64='\.\./\.\./x'"):
        residency.pin(local, "x", nbytes=1, xxh64="../../x")


def test_other_files_of_the_folder_are_left_alone(tmp_path: Path, store: ObjectStore) -> None:
    folder = tmp_path / "copies"
    folder.mkdir()
    (folder / "mine.sst").write_bytes(b"x" * 1000)
    size = (store.folder / "a.sst").stat().st_size
    residency = Residency(folder, quota=size + (40 << 10), retention=timedelta(0))
    for name in ("a.sst", "z.sst"):
        with pin(residency, store, name) as copy:
            assert copy.wait(60)
    assert (folder / "mine.sst").stat().st_size == 1000


# -- faults of the disk


class FullDisk:
    """A stand-in for `os` in the module that writes: it refuses bytes until copies were evicted."""

    def __init__(self, until: Callable[[], bool]) -> None:
        self.until = until

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        if not self.until():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.pwrite(descriptor, data[:5000], offset)  # disks may take less, too


def test_a_full_disk_is_relieved_by_eviction(
    residency: Residency, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pin(residency, store, "z.sst") as unused:
        assert unused.wait(60)
    path = unused.path
    del unused
    monkeypatch.setattr(local_copy, "os", FullDisk(lambda: not os.path.exists(path)))
    with pin(residency, store) as copy:
        check_answers(opened(copy), random.Random(1))
        assert copy.wait(60)


def test_a_full_disk_is_one_clear_error_and_no_more(
    residency: Residency, store: ObjectStore, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(local_copy.LocalCopy, "download", no_download)
    copy = pin(residency, store)
    reader = opened(copy)
    with monkeypatch.context() as patched:
        patched.setattr(local_copy, "os", FullDisk(lambda: False))
        with pytest.raises(
            OSError, match=r"s3://\*\*\*@bucket/a\.sst.*LOOKUPSTORE_CACHE"
        ) as caught:
            reader.lookup(list(MODEL))
        assert caught.value.errno == errno.ENOSPC
    check_answers(reader, random.Random(seed))


def test_a_real_full_disk(tmp_path: Path, store: ObjectStore, seed: int) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    size = (store.folder / "a.sst").stat().st_size
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size // 2},mode=700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("only root may mount a small disk")
    try:
        copy = pin(Residency(folder, quota=2 * size), store)
        reader = opened(copy)
        with pytest.raises(OSError, match="No space left"):
            copy.wait(60)
        rng, right = random.Random(seed), 0
        refused: list[int | None] = []
        full: set[str] = set()
        for key in rng.sample(sorted(MODEL), 50):
            try:
                assert reader.get(key) == value_of(key)
                right += 1
            except OSError as error:
                refused.append(error.errno)
                full.add(error.filename)
        assert right > 0
        assert set(refused) <= {errno.ENOSPC}
        # A caller that writes a file itself does not take this error for one of its own disk.
        assert full == {str(folder)}
        copy.close()
        del copy, reader
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_complete_copy_whose_bits_rot(residency: Residency, proxy: Proxy, seed: int) -> None:
    rng = random.Random(seed)
    with pin(residency, proxy.store) as copy:
        assert copy.wait(60)
    content = Path(copy.path).read_bytes()
    path = copy.path
    del copy
    for at in [*rng.sample(range(len(content)), 10), len(content) - 1]:
        with open(path, "r+b") as file:
            file.seek(at)
            file.write(bytes([content[at] ^ 4]))
        before = proxy.nbytes
        with pin(residency, proxy.store) as copy:
            assert opened(copy).lookup(list(MODEL)).to_pylist() == [*map(value_of, MODEL)]
        assert 0 < proxy.nbytes - before < 300_000
        assert Path(path).read_bytes() == content
        del copy


def test_a_copy_of_another_size_is_fetched_again(
    residency: Residency, store: ObjectStore, seed: int
) -> None:
    for size in (0, 5000):
        with pin(residency, store) as copy:
            assert copy.wait(60)
            path = copy.path
        del copy
        gone = time.monotonic() + 60  # threads hold the copy for a moment after its download
        while open_copies(path) and time.monotonic() < gone:
            time.sleep(0.01)
        os.truncate(path, size)
        with pin(residency, store) as copy:
            check_answers(opened(copy), random.Random(seed))
            assert copy.wait(60)
        del copy


@pytest.mark.parametrize("waited", [False, True])
def test_chunks_that_a_power_failure_took(
    residency: Residency, store: ObjectStore, seed: int, waited: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The map says that they are there, and the file has zeros."""
    rng = random.Random(seed)
    with monkeypatch.context() as patched:
        patched.setattr(local_copy.LocalCopy, "download", no_download)
        with pin(residency, store) as copy:
            copy.fill([(0, copy.nbytes)])
            path, size = copy.path, copy.nbytes
        del copy
        with open(path, "r+b") as file:
            for at in [*rng.sample(range(size - 4096), 5), size - 4096]:
                file.seek(at)
                file.write(bytes(4096))
        copy = pin(residency, store)
        if not waited:
            reader = opened(copy)
            assert reader.lookup(list(MODEL)).to_pylist() == [*map(value_of, MODEL)]
    assert copy.wait(60)
    assert Path(copy.path).read_bytes() == (store.folder / "a.sst").read_bytes()


# -- faults of the object store


def faults(rng: random.Random, share: float, *kinds: str) -> Callable[[Request], str]:
    # What fails as often as it is asked for is an error, and should be. An attempt is a GET, and a
    # HEAD before it where the file is opened again: both together fail in fewer attempts than all.
    heads = remote.ATTEMPTS // 2
    gets = remote.ATTEMPTS - 1 - heads
    failed: Counter[tuple[int, int] | str] = Counter()

    def fault(request: Request) -> str:
        is_head = request.method == "HEAD"
        asked = request.method if is_head else (request.start, request.size)
        wrong = rng.random() < share or request.number == 2
        if wrong and failed[asked] < (heads if is_head else gets):
            failed[asked] += 1
            return rng.choice(kinds)
        if not is_head:
            failed[asked] = 0
        return "ok"

    return fault


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["busy", "cut", "stall", "slow"])
def test_an_object_store_that_fails_now_and_then(
    residency: Residency, proxy: Proxy, kind: str, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    rng = random.Random(seed)
    proxy.fault = faults(rng, 0.15, kind)
    with pin(residency, proxy.store, timeout=0.5) as copy:
        check_answers(opened(copy), random.Random(seed))
        assert copy.wait(120)
        assert copy.counts.retries > 0 or kind == "slow"
        assert Path(copy.path).read_bytes() == (proxy.store.folder / "a.sst").read_bytes()
        copy.fill.join(10)
    warned = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert warned or kind == "slow"
    assert all("s3://***@bucket/a.sst" in each.getMessage() for each in warned)
    assert any("downloaded" in each.getMessage() for each in caplog.records)
    assert SECRET not in caplog.text


def test_an_object_store_that_is_gone_for_a_while(
    residency: Residency, proxy: Proxy, seed: int
) -> None:
    proxy.fault = lambda request: "busy"
    copy = pin(residency, proxy.store)
    with pytest.raises(OSError, match=r"s3://\*\*\*@bucket/a\.sst.*attempts") as caught:
        opened(copy)
    assert SECRET not in str(caught.value)
    with pytest.raises(OSError, match=r"s3://\*\*\*@bucket/a\.sst.*attempts"):
        copy.wait(60)
    assert isinstance(copy.error, OSError)
    asked = len(proxy.requests)
    assert asked <= 4 * remote.ATTEMPTS * local_copy.REQUESTS
    proxy.fault = lambda request: "ok"
    time.sleep(0.2)
    check_answers(opened(copy), random.Random(seed))
    assert copy.wait(60)
    assert copy.error is None


def test_a_transfer_that_goes_wrong_is_made_again(
    residency: Residency, proxy: Proxy, seed: int
) -> None:
    """Whatever comes wrong, in lookups or in the download: no wrong answer, and a right copy."""
    rng = random.Random(seed)
    spoiled = set(rng.sample(range(5, 15), 4))  # all of them in the first attempt at the whole

    flipped: list[tuple[int, int]] = []

    def fault(request: Request) -> str:
        if not request.size or request.number not in spoiled:
            return "ok"
        # Bytes that come wrong three times are an error, and should be.
        start, end = request.start, request.start + request.size
        if sum(first < end and start < last for first, last in flipped) == 2:
            return "ok"
        flipped.append((start, end))
        return "flip"

    proxy.fault = fault
    with pin(residency, proxy.store) as copy:
        reader = opened(copy)
        for number in range(30):
            check_answers(reader, random.Random(seed + number), 1)
        assert reader.lookup(list(MODEL)).to_pylist() == [*map(value_of, MODEL)]
        assert copy.wait(60)
        assert Path(copy.path).read_bytes() == (proxy.store.folder / "a.sst").read_bytes()
    assert files_of(residency) == {".sst"}


def test_a_download_that_comes_wrong_once(residency: Residency, proxy: Proxy) -> None:
    proxy.fault = lambda request: "flip" if request.start == 0 and request.number < 9 else "ok"
    with pin(residency, proxy.store) as copy:
        assert copy.wait(60)
        assert copy.complete
        assert Path(copy.path).read_bytes() == (proxy.store.folder / "a.sst").read_bytes()
        assert proxy.nbytes >= 2 * copy.nbytes


def spoiled_object(store: ObjectStore, change: Callable[[bytes], bytes]) -> dict[str, Any]:
    """Put an object that is not what the manifest says; return the arguments of `hold`."""
    content = (store.folder / "a.sst").read_bytes()
    (store.folder / "bad.sst").write_bytes(change(content))
    return {
        "filesystem": store.filesystem(),
        "path": "bucket/bad.sst",
        "nbytes": len(content),
        "xxh64": xxhash.xxh64_hexdigest(content),
        "uri": store.uri("bad.sst"),
    }


@pytest.mark.parametrize("change", [
    lambda content: content[:-1], lambda content: content[: 1 << 20], lambda content: b"",
    lambda content: content + b"x",
], ids=["one less", "half", "none", "one more"])  # fmt: skip
def test_an_object_of_another_size(
    residency: Residency, store: ObjectStore, change: Callable[[bytes], bytes]
) -> None:
    arguments = spoiled_object(store, change)
    copy = residency.pin(**arguments)
    for use in (lambda: opened(copy), lambda: copy.wait(60)):
        with pytest.raises(CorruptionError, match=rf"bad\.sst.*{arguments['nbytes']} bytes") as e:
            use()
        assert e.value.path == shown_uri(store.uri("bad.sst"))


def test_an_object_with_a_changed_bit(residency: Residency, store: ObjectStore, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(4):
        at = rng.randrange((store.folder / "a.sst").stat().st_size)
        arguments = spoiled_object(
            store, lambda content, at=at: content[:at] + bytes([content[at] ^ 1]) + content[at + 1:]
        )  # fmt: skip
        with residency.pin(**arguments) as copy:
            with pytest.raises(LookupStoreError, match=r"s3://\*\*\*@bucket/bad\.sst"):
                opened(copy).lookup(list(MODEL))
            with pytest.raises(CorruptionError, match=r"bad\.sst.*XXH64"):
                copy.wait(60)
            assert not copy.complete
            assert isinstance(copy.error, CorruptionError)


def test_another_good_file_in_the_place_of_an_object(
    residency: Residency, store: ObjectStore
) -> None:
    """All its blocks are right in themselves: only the hash of the whole tells."""
    make_object(store.folder / "other.sst", 77)
    other = (store.folder / "other.sst").read_bytes()
    arguments = spoiled_object(store, lambda content: other)
    copy = residency.pin(**arguments)
    with pytest.raises(CorruptionError, match=r"bad\.sst.*XXH64"):
        copy.wait(60)
    assert files_of(residency) == set()
    with pytest.raises(CorruptionError, match=r"bad\.sst.*XXH64"):
        opened(copy)


def test_an_object_that_is_not_there(residency: Residency, store: ObjectStore) -> None:
    copy = residency.pin(
        store.filesystem(), "bucket/no.sst", nbytes=5, xxh64="0" * 16, uri=store.uri("no.sst")
    )
    with pytest.raises(FileNotFoundError, match=r"s3://\*\*\*@bucket/no\.sst"):
        opened(copy)


def test_a_uri_is_enough(residency: Residency, store: ObjectStore) -> None:
    filesystem, path = fs.FileSystem.from_uri(store.uri("a.sst"))
    content = (store.folder / "a.sst").read_bytes()
    with residency.pin(
        filesystem, path, nbytes=len(content), xxh64=xxhash.xxh64_hexdigest(content)
    ) as copy:
        assert copy.wait(60)


def test_a_maker_that_finishes_while_another_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder goes between two looks at it; that was a FileExistsError once."""
    real = os.makedirs
    folders: list[str] = []

    def late(folder: str, mode: int = 0o777, exist_ok: bool = False) -> None:
        if os.path.basename(os.path.dirname(folder)) == MAKING:
            folders.append(folder)
            if len(folders) == 1:
                raise FileExistsError(errno.EEXIST, "File exists", folder)
        real(folder, mode, exist_ok)

    monkeypatch.setattr(lookup_files.os, "makedirs", late)
    target = tmp_path / "copies" / f"{'0' * 16}-3.sst"
    residency = Residency(tmp_path / "copies", quota=1 << 20)

    def write(path: str, room: Any) -> None:
        Path(path).write_bytes(b"abc")

    residency.lookup_files.make_at(str(target), 3, write)
    assert target.read_bytes() == b"abc"
    assert len(folders) == 2
