"""Contents of files that a process reads once, within a bound."""

from __future__ import annotations

import pickle
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.forks import fork, in_child

from lookupstore.tables.recently_read import RecentlyRead


def test_the_contents_used_last_stay_within_the_bound(seed: int) -> None:
    """A model has the names in the order of their last use."""
    chance = random.Random(seed)
    kept: RecentlyRead[bytes] = RecentlyRead(100, len)
    model: list[str] = []
    read: Counter[str] = Counter()
    expected: Counter[str] = Counter()
    for _ in range(2_000):
        name = chance.choice("abcdefghij")
        size = 5 * (1 + "abcdefghij".index(name))

        def content(name: str = name, size: int = size) -> bytes:
            read[name] += 1
            return name.encode() * size

        assert kept.get(name, content) == name.encode() * size
        if name in model:
            model.remove(name)
        else:
            expected[name] += 1
        model.append(name)
        while sum(5 * (1 + "abcdefghij".index(one)) for one in model) > 100:
            del model[0]
        assert read == expected


def test_a_content_above_the_bound_stays_until_the_next() -> None:
    kept: RecentlyRead[bytes] = RecentlyRead(10, len)
    read: list[str] = []
    for name in ("large", "large", "small", "large"):
        kept.get(name, lambda name=name: read.append(name) or bytes(50 if name == "large" else 1))
    assert read == ["large", "small", "large"]


def test_many_threads_fetch_and_one_parses() -> None:
    kept: RecentlyRead[bytes] = RecentlyRead(100, len)
    fetched, parsing = threading.Barrier(4, timeout=30), threading.Semaphore(1)

    def fetch(name: str) -> str:
        fetched.wait()  # until all files are being fetched
        return name

    def parse(name: str) -> bytes:
        assert parsing.acquire(blocking=False)
        time.sleep(0.01)
        parsing.release()
        return name.encode()

    def get(name: str) -> bytes:
        return kept.parsed(name, lambda: fetch(name), parse)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(get, "abcd")) == [b"a", b"b", b"c", b"d"]
    assert kept.get("a", bytes) == b"a"


def test_threads_read_a_file_once_and_others_at_once() -> None:
    kept: RecentlyRead[bytes] = RecentlyRead(100, len)
    read: list[str] = []
    both = threading.Barrier(2, timeout=30)

    def content(name: str) -> bytes:
        both.wait()  # until the other file is being read, too
        read.append(name)
        return name.encode()

    def get(name: str) -> None:
        assert kept.get(name, lambda: content(name)) == name.encode()

    threads = [threading.Thread(target=get, args=(name,)) for name in "ababab"]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(read) == ["a", "b"]


def test_a_file_that_cannot_be_read_is_tried_again() -> None:
    kept: RecentlyRead[bytes] = RecentlyRead(100, len)

    def fails() -> bytes:
        raise FileNotFoundError("a")

    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            kept.get("a", fails)
    assert kept.get("a", lambda: b"x") == b"x"
    assert kept.get("a", fails) == b"x"


def test_a_pickle_has_the_bound_and_no_contents() -> None:
    kept: RecentlyRead[bytes] = RecentlyRead(10, len)
    kept.get("a", lambda: b"1")
    other = pickle.loads(pickle.dumps(kept))
    assert other.get("a", lambda: b"2") == b"2"
    other.get("b", lambda: bytes(9))
    other.get("c", lambda: bytes(1))
    assert other.get("a", lambda: b"3") == b"3"
    assert kept.get("a", lambda: b"4") == b"1"


@fork
def test_a_child_of_fork_waits_for_no_thread_of_its_parent() -> None:
    kept: RecentlyRead[bytes] = RecentlyRead(100, len)
    reads, forked = threading.Event(), threading.Event()

    def content() -> bytes:
        reads.set()
        forked.wait(30)
        return b"parent"

    def parse(_: object) -> bytes:
        return content()

    # It holds the lock of the file, and that of parsing.
    thread = threading.Thread(target=kept.parsed, args=("a", lambda: None, parse))
    thread.start()
    assert reads.wait(30)
    try:
        assert in_child(lambda: kept.get("a", lambda: b"child") == b"child")
        assert in_child(lambda: kept.parsed("b", lambda: b"child", bytes) == b"child")
    finally:
        forked.set()
        thread.join()
    assert kept.get("a", lambda: b"again") == b"parent"
