"""Readers shared by threads, inherited by fork, sent to spawned workers; and closing under use."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import pickle
import random
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from support.forks import fork, in_child
from support.in_processes import ANSWERS, ASKED, MODEL, right
from support.sst_files import fresh, run_all, written

from lookupstore.errors import ClosedError, CorruptionError
from lookupstore.sst import Reader, Writer
from lookupstore.sst.cache import BlockCache


@pytest.fixture(params=["native", "paimon"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return written(
        tmp_path / "shared.sst", list(MODEL.items()), block_size=2000, dialect=request.param
    )


# -- processes


@fork
def test_a_child_of_fork_uses_the_reader_of_its_parent(path: Path) -> None:
    reader = Reader(path)
    assert right(reader)

    def work() -> bool:
        assert reader.cache.nbytes == 0  # starts without the parent's blocks
        found = right(reader)
        reader.close()
        return found

    assert in_child(work)
    assert right(reader)


@fork
def test_fork_while_another_thread_holds_the_lock(path: Path) -> None:
    """The lock that was held in the parent is never let go in the child; it has its own."""
    reader = Reader(path, cache=BlockCache())
    with reader.cache._lock:
        assert in_child(lambda: right(reader))
    assert right(reader)


@fork
def test_a_child_of_fork_that_ends_does_not_touch_the_file_being_written(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "w.sst", block_size=1)
    writer.put(b"a", b"1")

    def work() -> bool:
        writer.__del__()
        return True

    assert in_child(work)
    writer.put(b"b", b"2")
    writer.close()
    assert dict(fresh(tmp_path / "w.sst").items()) == {b"a": b"1", b"b": b"2"}


def test_a_spawned_process_gets_a_pickled_reader(path: Path) -> None:
    reader = Reader(path)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(right, (reader,))
        pool.close()
        pool.join()
    assert right(reader)


def test_pickling(path: Path) -> None:
    reader = fresh(path)
    for other in (pickle.loads(pickle.dumps(reader)), copy.copy(reader), copy.deepcopy(reader)):
        assert other is not reader
        assert other.path == reader.path
        assert right(other)
        other.close()
        assert right(reader)
    reader.close()
    with pytest.raises(ClosedError):
        pickle.dumps(reader)


def test_pickling_keeps_the_order(tmp_path: Path) -> None:
    numbers = sorted(range(-9, 9))
    records = [(n.to_bytes(2, "little", signed=True), b"") for n in numbers]
    path = written(tmp_path / "n.sst", records, dialect="paimon", order="int16")
    other = pickle.loads(pickle.dumps(fresh(path, "int16")))
    assert list(other) == [key for key, _ in records]


def test_an_error_survives_pickling(tmp_path: Path) -> None:
    error = CorruptionError(str(tmp_path), 12, "this", "that")
    other = pickle.loads(pickle.dumps(error))
    assert (str(other), other.offset, other.found) == (str(error), 12, "that")


# -- threads


def test_threads_share_a_reader(path: Path, seed: int) -> None:
    """The cache holds a part of the file only, so that blocks come and go under the threads."""
    reader = Reader(path, cache=BlockCache(20_000))

    def work(number: int) -> None:
        rng = random.Random(seed + number)
        for _ in range(12):
            asked = rng.choices(ASKED, k=200)
            expected = [MODEL.get(key) for key in asked]
            assert reader.lookup(asked).to_pylist() == expected
            assert reader.contains(asked).to_pylist() == [key in MODEL for key in asked]
            assert [reader.get(key) for key in asked[:40]] == expected[:40]
            start = asked[0]
            batch = next(reader.scan(start=start), None)
            if batch is not None:
                assert batch.column(0)[0].as_py() == min(key for key in MODEL if key >= start)

    run_all([lambda n=n: work(n) for n in range(8)])
    assert 0 < reader.cache.nbytes <= 20_000


def check_closing(reader: Reader) -> None:
    started = threading.Barrier(5)
    refused = []

    def read() -> None:
        started.wait()
        for _ in range(10_000):
            try:
                assert reader.lookup(ASKED[::100]).to_pylist() == ANSWERS[::100]
                assert reader.get(ASKED[3]) == ANSWERS[3]
                assert len(list(reader.items(start=b"01", stop=b"011"))) > 5
            except ClosedError as error:
                refused.append(error)
                return

    def close() -> None:
        started.wait()
        reader.close()
        # A new file may get the number of the old descriptor.
        for _ in range(20):
            os.close(os.open(os.devnull, os.O_RDONLY))

    run_all([read, read, read, read, close])
    assert len(refused) == 4


def test_closing_while_others_read(path: Path) -> None:
    """A call is answered right or refused; a descriptor is never used after it was closed."""
    for _ in range(15):
        check_closing(Reader(path, cache=BlockCache(0)))


def test_threads_open_the_same_file(path: Path) -> None:
    def work() -> None:
        for _ in range(5):
            with Reader(path) as reader:
                assert reader.get(b"00003") == MODEL[b"00003"]
                assert reader.lookup(ASKED[:99]).to_pylist() == ANSWERS[:99]

    run_all([work] * 8)


# -- closing


def test_use_after_close(path: Path) -> None:
    reader = fresh(path)
    assert reader.get(b"00003") is not None
    reader.close()
    reader.close()
    for call in (
        lambda: reader.get(b"00003"),
        lambda: reader.lookup([b"00003"]),
        lambda: reader.contains([]),
        reader.scan,
        lambda: list(reader.items()),
        lambda: list(reader),
        lambda: b"00003" in reader,
        reader.verify,
        reader.__enter__,
    ):
        with pytest.raises(ClosedError, match=r"shared\.sst: the reader is closed"):
            call()
    assert reader.info().dialect in ("native", "paimon")
    assert reader.path == str(path)
    assert repr(reader).startswith("<closed lookupstore.sst.Reader ")


def test_close_during_iteration(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookupstore.sst.scans._BATCH", 1)  # each batch is a block
    reader = fresh(path)
    items = iter(reader.items())
    first = next(items)
    batches = reader.scan()
    batch = next(batches)
    reader.close()
    with pytest.raises(ClosedError):
        next(batches)
    with pytest.raises(ClosedError):
        list(items)
    # What was given out before stays.
    assert first == next(iter(MODEL.items()))
    assert batch.column(0).to_pylist() == list(MODEL)[: batch.num_rows]


def test_answers_outlive_reader_and_cache(path: Path) -> None:
    reader = fresh(path)
    answers = reader.lookup(ASKED)
    batches = list(reader.scan())
    reader.close()
    reader.cache.resize(0)
    del reader
    gc.collect()
    junk = [bytes(2000) for _ in range(2000)]
    assert answers.to_pylist() == ANSWERS
    assert pa.Table.from_batches(batches).column("key").to_pylist() == list(MODEL)
    del junk


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
def test_descriptors_are_given_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    readers = [fresh(path) for _ in range(10)]
    assert len(os.listdir("/proc/self/fd")) == before, "a map needs none"
    monkeypatch.setattr("lookupstore.sst.stored.most_maps", lambda: 0)
    readers += [fresh(path) for _ in range(10)]
    assert len(os.listdir("/proc/self/fd")) == before + 10
    for reader in readers[5:15]:
        reader.close()
    del readers, reader
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_removed_file_is_read_on(path: Path) -> None:
    reader = fresh(path)
    path.unlink()
    assert right(reader)
    with pytest.raises(FileNotFoundError):
        pickle.loads(pickle.dumps(reader))
