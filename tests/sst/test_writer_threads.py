"""Writers with several threads: the same bytes, errors that come out, nothing left behind."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.forks import fork, in_child
from support.sst_files import DIALECTS, fresh

from lookupstore.errors import ClosedError
from lookupstore.sst import Writer, pipeline
from lookupstore.sst import writer as writer_module
from lookupstore.sst._load import BlockLoad
from lookupstore.sst.codec import Compressor, Packed
from lookupstore.sst.format import Dialect


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    before = threading.active_count()
    yield
    gc.collect()
    assert threading.active_count() == before


@pytest.fixture
def small_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand each block over alone."""
    monkeypatch.setattr(pipeline, "LOAD", 1)


def records_of(seed: int, count: int = 4000) -> tuple[pa.Array, pa.Array]:
    rng = random.Random(seed)
    keys = sorted({rng.randbytes(5) for _ in range(count)})
    values = [bytes([rng.randrange(4)]) * rng.randrange(60) for _ in keys]
    return pa.array(keys, pa.binary()), pa.array(values, pa.binary())


def workers() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name.startswith("lookupstore-writer")]


class Hooked(Compressor):
    """A stand-in for the writer's compressor, which calls `hook` before each load."""

    def packed(self, load: BlockLoad, dialect: Dialect) -> Packed:
        type(self).hook()
        return super().packed(load, dialect)

    @staticmethod
    def hook() -> None:
        raise NotImplementedError


def use(monkeypatch: pytest.MonkeyPatch, hook: Any) -> None:
    monkeypatch.setattr(writer_module, "Compressor", Hooked)
    monkeypatch.setattr(Hooked, "hook", staticmethod(hook))


@pytest.mark.few(2)
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("compression", ["none", "zstd", "lz4"])
@pytest.mark.parametrize("load", [1, 3000, 1 << 30])
def test_the_bytes_do_not_depend_on_the_threads(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dialect: str,
    compression: str,
    load: int,
    seed: int,
) -> None:
    monkeypatch.setattr(pipeline, "LOAD", load)
    monkeypatch.setattr(pipeline, "SAMPLE_BYTES", 50_000)
    keys, values = records_of(seed)
    rng = random.Random(seed)
    files = []
    for threads in (1, 2, 5):
        path = tmp_path / str(threads)
        with Writer(
            path, dialect=dialect, compression=compression, block_size=700, threads=threads
        ) as writer:
            at = 0
            while at < len(keys):
                end = at + rng.randrange(900)
                writer.put_many(keys[at:end], values[at:end])
                if end < len(keys):
                    writer.put(keys[end].as_py(), values[end].as_py())
                at = end + 1
            assert load != 1 or len(workers()) == threads - 1
        assert workers() == []
        files.append(path.read_bytes())
        info = fresh(path).verify()
        assert (info.num_records, info.codecs) == (len(keys), writer.info().codecs)
    assert files[0] == files[1] == files[2]


def test_few_records_start_no_thread(tmp_path: Path) -> None:
    with Writer(tmp_path / "few.sst", block_size=100, threads=4) as writer:
        writer.put_many(*records_of(1, 50))
        assert workers() == []
    assert len(fresh(tmp_path / "few.sst")) == 50


class InjectedError(Exception):
    pass


@pytest.mark.parametrize("where", ["put", "put_many", "close"])
def test_what_fails_in_a_thread_is_raised_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_loads: None, where: str
) -> None:
    failed = threading.Event()
    error = InjectedError("injected")
    main = threading.current_thread()

    def hook() -> None:
        if threading.current_thread() is not main:
            failed.set()
            raise error

    use(monkeypatch, hook)
    writer = Writer(tmp_path / "x.sst", block_size=1, threads=2)
    writer.put(b"a", b"1")
    assert failed.wait(10)
    while not writer._blocks._stopped:
        time.sleep(0.001)
    calls = {
        "put": lambda: writer.put(b"b", b"2"),
        "put_many": lambda: writer.put_many([b"b", b"c"], [b"2", b"3"]),
        "close": writer.close,
    }
    with pytest.raises(InjectedError) as caught:
        calls[where]()
    assert caught.value is error
    assert os.listdir(tmp_path) == []
    assert workers() == []
    for call in (lambda: writer.put(b"z", b""), writer.close):
        with pytest.raises(ClosedError):
            call()


@pytest.mark.parametrize("at", [0, 3, 40])
def test_a_failure_at_any_block_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_loads: None, at: int
) -> None:
    """In whichever thread it happens, the caller's or another."""
    seen = iter(range(1 << 30))

    def hook() -> None:
        if next(seen) == at:
            raise InjectedError

    use(monkeypatch, hook)
    with pytest.raises(InjectedError), Writer(tmp_path / "x", block_size=500, threads=3) as writer:
        writer.put_many(*records_of(2))
    assert os.listdir(tmp_path) == []
    assert workers() == []


def test_blocks_on_the_way_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_loads: None
) -> None:
    """While the oldest block is stuck, the caller may run ahead by a few blocks and no more."""
    stuck, go_on = threading.Event(), threading.Event()
    compressed = []

    def hook() -> None:
        compressed.append(1)
        if threading.current_thread().name == "lookupstore-writer-0" and not stuck.is_set():
            stuck.set()
            assert go_on.wait(10)

    use(monkeypatch, hook)
    keys, values = records_of(3)
    threads = 2
    most = pipeline.LOADS_A_THREAD * threads + 1
    with Writer(tmp_path / "x.sst", block_size=500, threads=threads) as writer:
        held = []

        def watch() -> None:
            assert stuck.wait(10)
            for _ in range(50):
                time.sleep(0.002)
                held.append((len(writer._blocks._on_the_way), len(compressed)))
            go_on.set()

        watcher = threading.Thread(target=watch)
        watcher.start()
        writer.put_many(keys, values)
        watcher.join()
    assert max(way for way, _ in held) <= most
    assert held[-1][1] - held[0][1] <= most < writer.info().data_blocks  # it did wait
    assert len(fresh(tmp_path / "x.sst")) == len(keys)


@pytest.mark.few(2)
@pytest.mark.parametrize("how", ["abort", "with", "drop"])
def test_no_thread_outlives_a_writer_that_is_given_up(
    tmp_path: Path, small_loads: None, how: str
) -> None:
    keys, values = records_of(4)
    writer = Writer(tmp_path / "x.sst", block_size=300, threads=3)
    writer.put_many(keys, values)
    assert len(workers()) == 2
    if how == "abort":
        writer.abort()
        writer.abort()
    elif how == "with":
        with pytest.raises(KeyboardInterrupt), writer:
            raise KeyboardInterrupt
    else:
        del writer
        gc.collect()
    assert workers() == []
    assert os.listdir(tmp_path) == []


def test_a_refused_record_does_not_end_the_file(tmp_path: Path, small_loads: None) -> None:
    keys, values = records_of(5)
    with Writer(tmp_path / "x.sst", block_size=300, threads=2) as writer:
        writer.put_many(keys[:2000], values[:2000])
        with pytest.raises(ValueError, match=r"record 2000: key .* comes after"):
            writer.put_many(keys[:1], values[:1])
        writer.put_many(keys[2000:], values[2000:])
    assert list(fresh(tmp_path / "x.sst")) == keys.to_pylist()


@fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_of_fork_leaves_the_threads_of_its_parent_alone(
    tmp_path: Path, small_loads: None
) -> None:
    keys, values = records_of(6)
    writer = Writer(tmp_path / "x.sst", block_size=300, threads=2)
    writer.put_many(keys[:2000], values[:2000])

    def work() -> bool:
        try:
            writer.put_many(keys[2000:], values[2000:])
        except RuntimeError as error:
            told = "use a writer only in the process that made it" in str(error)
        writer.abort()
        writer.__del__()
        writer._blocks.stop()
        return told

    assert in_child(work)
    writer.put_many(keys[2000:], values[2000:])
    writer.close()
    assert list(fresh(tmp_path / "x.sst")) == keys.to_pylist()


NEVER_CLOSED = """
import sys
from lookupstore.sst import Writer
writer = Writer(sys.argv[1], block_size=100, threads=3)
for i in range(20_000):
    writer.put(b"%09d" % i, b"v" * 50)
import threading
assert threading.active_count() == 3
keep = [writer]
keep.append(keep)
sys.modules["keeps it to the end"] = keep
"""


def test_a_writer_that_is_never_closed_does_not_keep_the_interpreter(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NEVER_CLOSED, str(tmp_path / "x.sst")],
        timeout=60,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "x.sst").exists()


@pytest.mark.parametrize("threads", [0, -1, 65, 1.5, "2", None])
def test_bad_numbers_of_threads(tmp_path: Path, threads: Any) -> None:
    with pytest.raises(ValueError, match=r"threads must be a number from 1 to 64, not"):
        Writer(tmp_path / "x.sst", threads=threads)
    assert os.listdir(tmp_path) == []
