"""Threads over readers whose blocks come and go under them: every answer against a dict."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from support.sst_files import run_all, written

from lookupstore.errors import ClosedError, CorruptionError
from lookupstore.processors import processors
from lookupstore.sst import Reader
from lookupstore.sst._block import Block
from lookupstore.sst._layer import Layer
from lookupstore.sst._lookup import Lookup
from lookupstore.sst.cache import BlockCache
from lookupstore.sst.stored import StoredFile

SECONDS = float(os.environ.get("LOOKUPSTORE_TEST_THREADS_SECONDS", "5"))
RECORDS = [(b"%06d" % (3 * i), b"%d " % i * (i % 30)) for i in range(20_000)]
MODEL = dict(RECORDS)
LARGEST = 3 * len(RECORDS) + 3
BLOCK = 1000  # bytes: about a thousand blocks
CAPACITY = 60_000  # bytes: a tenth of the file


@pytest.fixture(params=["native", "paimon"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = written(
        tmp_path / "x.sst", RECORDS, block_size=BLOCK, compression="zstd", dialect=request.param
    )
    # A young file is nobody's but its reader's: an old one has one table for all its readers.
    an_hour_ago = time.time() - 3600
    os.utime(path, (an_hour_ago, an_hour_ago))
    return path


def key_of(rng: random.Random) -> bytes:
    """Return one of three keys that could be there; one of them is."""
    return b"%06d" % rng.randrange(LARGEST)


def keys_of(rng: random.Random) -> list[bytes]:
    """Return 1 to 5000 keys, of the whole file or of a few blocks."""
    count = int(5000 ** rng.random())
    if rng.random() < 0.5:
        return [key_of(rng) for _ in range(count)]
    start = rng.randrange(LARGEST)
    return [b"%06d" % ((start + rng.randrange(300)) % LARGEST) for _ in range(count)]


def get(reader: Reader, rng: random.Random) -> None:
    for key in [key_of(rng) for _ in range(30)]:
        assert reader.get(key) == MODEL.get(key)


def lookup(reader: Reader, rng: random.Random) -> None:
    keys = keys_of(rng)
    answers = reader.lookup(pa.array(keys, pa.binary()))
    answers.validate(full=True)
    assert answers.to_pylist() == [MODEL.get(key) for key in keys]


def contains(reader: Reader, rng: random.Random) -> None:
    keys = keys_of(rng)
    assert reader.contains(keys).to_pylist() == [key in MODEL for key in keys]


def scan(reader: Reader, rng: random.Random) -> None:
    start = rng.randrange(len(RECORDS))
    wanted = RECORDS[start : start + 200]
    stop = RECORDS[start + 200][0] if start + 200 < len(RECORDS) else None
    assert list(reader.items(start=wanted[0][0], stop=stop)) == wanted


def resize(reader: Reader, rng: random.Random) -> None:
    reader.cache.resize(rng.choice([0, 1, CAPACITY // 9, CAPACITY]))


CALLS = [get, lookup, lookup, contains, scan, resize]


def work_on(readers: list[Reader], seed: int, number: int, end: float) -> None:
    """Call one after the other until the time is over and every block has come twice."""
    rng = random.Random(seed + number)
    loads = 2 * readers[0].info().data_blocks
    while time.monotonic() < end or readers[0].cache.misses < loads:
        rng.choice(CALLS)(rng.choice(readers), rng)


@pytest.mark.parametrize("shared", [1, 2], ids=["one reader", "two readers of one table"])
def test_threads_while_blocks_come_and_go(path: Path, shared: int, seed: int) -> None:
    cache = BlockCache(CAPACITY)
    readers = [Reader(path, cache=cache) for _ in range(shared)]
    tables = {id(reader._search().data.table) for reader in readers}
    assert len(tables) == 1
    end = time.monotonic() + SECONDS / 4
    run_all([lambda n=n: work_on(readers, seed, n, end) for n in range(4)])  # type: ignore[misc]
    # All is quiet, and no block is held by a pin that nobody took back.
    assert 0 <= cache.nbytes <= cache.capacity
    cache.resize(0)
    assert cache.nbytes == 0
    table = readers[0]._search().data.table
    assert [number for number in range(table.count) if table.block(number) is not None] == []


def test_a_batch_whose_blocks_are_asked_to_go(path: Path, seed: int) -> None:
    """Batches search without the GIL while a cache looks again and again whether it may evict."""
    rng = random.Random(seed)
    cache = BlockCache(1)
    reader = Reader(path, cache=cache)
    keys = pa.array([b"%06d" % rng.randrange(500) for _ in range(100_000)], pa.binary())
    right = pa.array([MODEL.get(key) for key in keys.to_pylist()], pa.large_binary())
    end = time.monotonic() + SECONDS / 8
    done = threading.Event()

    def look() -> None:
        while time.monotonic() < end:
            assert reader.lookup(keys).equals(right)
        done.set()

    def press() -> None:
        while not done.is_set():
            cache.resize(0)

    run_all([look, press])


Read = Callable[[StoredFile, tuple[int, int], int, str], Block]


def after_reading(monkeypatch: pytest.MonkeyPatch, number: int, step: Callable[[], None]) -> None:
    """Have a step done by another thread when a block was read and is not ready yet, once."""
    read: Read = StoredFile.data_block
    steps = [step]

    def read_and_wait(file: StoredFile, handle: tuple[int, int], which: int, order: str) -> Block:
        block = read(file, handle, which, order)
        if which == number and steps:
            run_all([steps.pop()])
        return block

    monkeypatch.setattr(StoredFile, "data_block", read_and_wait)


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("call", ["get", "lookup"])
def test_of_two_threads_with_one_block_the_first_makes_it_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, compression: str
) -> None:
    """A batch may be looking into it already: the second one uses it, and nothing counts twice."""
    path = written(
        tmp_path / "x.sst", RECORDS, block_size=BLOCK, compression=compression, dialect="paimon"
    )
    cache = BlockCache(CAPACITY)
    reader = Reader(path, cache=cache)
    table, number = reader._search().data.table, 3
    key = reader._index.record(number)[0]
    seen: list[tuple[Block | None, int, int]] = []

    def get_first() -> None:
        assert reader.get(key) == MODEL[key]
        seen.append((table.block(number), cache.nbytes, cache.misses))

    after_reading(monkeypatch, number, get_first)
    if call == "get":
        assert reader.get(key) == MODEL[key]
    else:
        assert reader.lookup([key, b"?", key]).to_pylist() == [MODEL[key], None, MODEL[key]]
    ((first, nbytes, misses),) = seen
    assert first is not None
    assert table.block(number) is first
    assert (cache.nbytes, cache.misses) == (nbytes, misses)
    assert (nbytes > 0) == (compression == "zstd")  # the others lie in the map of the file
    assert reader.get(key) == MODEL[key]
    cache.resize(0)
    assert cache.nbytes == 0


def test_a_block_that_a_batch_has_found_stays_while_it_reads_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that looks whether it may evict it is told that it is in use, as often as it asks."""
    path = written(
        tmp_path / "x.sst", RECORDS, block_size=BLOCK, compression="zstd", dialect="paimon"
    )
    cache = BlockCache(CAPACITY)
    reader = Reader(path, cache=cache)
    table = reader._search().data.table
    keys = [reader._index.record(number)[0] for number in (3, 7)]
    assert reader.get(keys[0]) == MODEL[keys[0]]
    block, nbytes = table.block(3), cache.nbytes
    assert block is not None
    seen = []

    def evict() -> None:
        for _ in range(3):
            cache.resize(0)
            seen.append(table.block(3) is block and cache.nbytes == nbytes)

    after_reading(monkeypatch, 7, evict)
    assert reader.lookup(keys).to_pylist() == [MODEL[key] for key in keys]
    assert seen == [True] * 3
    assert table.block(3) is None  # it went when the batch was done
    assert cache.nbytes == 0
    assert reader.get(keys[0]) == MODEL[keys[0]]


def test_readers_that_are_closed_while_blocks_come_and_go(path: Path, seed: int) -> None:
    """A call ends well or is refused, and the other readers of the table go on."""
    cache = BlockCache(CAPACITY)
    readers = [Reader(path, cache=cache) for _ in range(3)]
    end = time.monotonic() + SECONDS / 4
    refused = 0

    def goes_on() -> bool:
        now = time.monotonic()
        return now < end or (refused == 0 and now < end + 60)

    def use(number: int) -> None:
        nonlocal refused
        rng = random.Random(seed + number)
        while goes_on():
            try:
                rng.choice(CALLS)(rng.choice(readers), rng)
            except ClosedError:
                refused += 1

    def close() -> None:
        rng = random.Random(seed + 99)
        while goes_on():
            place = rng.randrange(len(readers))
            closed, readers[place] = readers[place], Reader(path, cache=cache)
            time.sleep(0.002)  # others are inside of its calls, or about to make some
            closed.close()

    run_all([*(lambda n=n: use(n) for n in range(3)), close])
    assert refused > 0
    assert 0 <= cache.nbytes <= cache.capacity


def test_a_reader_that_is_closed_as_its_first_lookup_begins(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lookup ends well, and the closed reader does not keep the file."""
    reader = Reader(path)

    def layer(lookups: tuple[Lookup, ...]) -> Layer:
        reader.close()
        return Layer(lookups)

    monkeypatch.setattr("lookupstore.sst.reader.Layer", layer)
    key, value = RECORDS[7]
    assert reader.lookup([key]).to_pylist() == [value]
    assert reader._alone is None
    with pytest.raises(ClosedError):
        reader.lookup([key])


def check_cut(path: Path, seed: int) -> None:
    """Cut a file while three threads read it."""
    reader = Reader(path, cache=BlockCache(CAPACITY))
    size = path.stat().st_size
    cut = threading.Event()
    errors: list[str] = []

    def use(number: int) -> None:
        rng = random.Random(seed + number)
        while True:
            was_cut = cut.is_set()
            try:
                rng.choice([get, lookup, contains, scan])(reader, rng)
            except CorruptionError as error:
                errors.append(str(error))
                return
            assert not was_cut

    def cut_it() -> None:
        rng = random.Random(seed)
        time.sleep(rng.random() / 20)
        os.truncate(path, rng.randrange(size))
        cut.set()

    run_all([*(lambda n=n: use(n) for n in range(3)), cut_it])
    assert len(errors) == 3
    assert all(f"{path}: " in error and f"a file of {size} bytes" in error for error in errors)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_threads_on_a_file_that_is_cut(tmp_path: Path, compression: str, seed: int) -> None:
    """Each call gives a right answer or says that the file was cut, and from then on only that."""
    for number in range(4):
        path = tmp_path / f"{number}.sst"
        check_cut(written(path, RECORDS, block_size=BLOCK, compression=compression), seed + number)


class Counted(threading.Thread):
    """A thread that is counted, or one that is not to be had."""

    begun = 0
    most = 100

    def start(self) -> None:
        if self.name == "lookupstore-visit":
            if Counted.begun >= Counted.most:
                raise RuntimeError("can't start new thread")
            Counted.begun += 1
        super().start()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[Counted]:
    monkeypatch.setattr(threading, "Thread", Counted)
    monkeypatch.setattr(Counted, "begun", 0)
    monkeypatch.setattr(Counted, "most", 100)
    return Counted


MANY = [(b"%06d" % (3 * i), b"%d " % i * (i % 9)) for i in range(30_000)]


@pytest.fixture
def many_blocks(tmp_path: Path) -> Path:
    return written(tmp_path / "many.sst", MANY, block_size=100, compression="zstd")


@pytest.mark.parametrize("threads", [100, 1, 0])
def test_a_call_for_many_compressed_blocks_has_threads(
    many_blocks: Path, counted: type[Counted], threads: int, seed: int
) -> None:
    rng = random.Random(seed)
    counted.most = threads
    model = dict(MANY)
    with Reader(many_blocks, cache=BlockCache(20_000)) as reader:
        assert reader.info().data_blocks > 4 * 512
        for count in (30_000, 3000, 40, 1):
            keys = [b"%06d" % rng.randrange(3 * len(MANY)) for _ in range(count)]
            answers = reader.lookup(pa.array(keys, pa.binary()))
            answers.validate(full=True)
            assert answers.to_pylist() == [model.get(key) for key in keys]
            present = reader.contains(pa.array(keys, pa.binary()))
            assert present.to_pylist() == [key in model for key in keys]
    if processors() > 1:
        assert min(threads, 2) <= counted.begun <= threads


def test_threads_of_a_call_tell_of_damage(many_blocks: Path, counted: type[Counted]) -> None:
    """Wherever the damaged block is, in the part of which thread, the error has its place."""
    content = many_blocks.read_bytes()
    keys = pa.array([key for key, _ in MANY], pa.binary())
    for share in range(0, 60, 5):  # of the file, whose end is no blocks
        at = len(content) * share // 100
        damaged = bytearray(content)
        damaged[at] ^= 4
        many_blocks.with_suffix(".bad").write_bytes(damaged)
        with (
            Reader(many_blocks.with_suffix(".bad"), cache=BlockCache(20_000)) as reader,
            pytest.raises(CorruptionError) as caught,
        ):
            reader.lookup(keys)
        assert at - 200 < caught.value.offset <= at
    if processors() > 1:
        assert counted.begun >= 12


def test_threads_of_a_call_end_before_it_does(
    many_blocks: Path, counted: type[Counted], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that is interrupted while it waits does not leave threads behind."""
    interrupts = iter([KeyboardInterrupt, None])
    join = threading.Thread.join

    def interrupted(thread: threading.Thread, timeout: float | None = None) -> None:
        if thread.name == "lookupstore-visit" and (raised := next(interrupts, None)):
            raise raised
        join(thread, timeout)

    monkeypatch.setattr(Counted, "join", interrupted)
    keys = pa.array([key for key, _ in MANY], pa.binary())
    with Reader(many_blocks, cache=BlockCache(20_000)) as reader:
        if processors() > 1:
            monkeypatch.setattr(counted, "is_alive", lambda thread: next(alive))
            alive = iter([True, True, False, *[False] * 99])
            with pytest.raises(KeyboardInterrupt):
                reader.lookup(keys)
        monkeypatch.undo()
        assert reader.lookup(keys).to_pylist() == [value for _, value in MANY]
    left = [one.name for one in threading.enumerate() if one.name == "lookupstore-visit"]
    assert left == []
