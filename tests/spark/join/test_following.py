"""Which version answers in a worker while a compacted one is on its way; no session is needed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.remote import Remote

import lookupstore
from lookupstore import LookupStore
from lookupstore.spark.join.following import Following
from lookupstore.store.standing_in import fetch_all
from lookupstore.store.version_files import list_names

pytestmark = pytest.mark.spark

KEYS = 2000
KEEP: dict[str, Any] = {"max_runs": 64, "max_run_share": 100}


class Gated(Remote):
    """A server whose data files come when a test lets them come."""

    def __init__(self, folder: Path) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.fails = False
        super().__init__(folder, "s3")

    def open_input_file(self, path: str) -> Any:
        if path.endswith(".sst"):
            self.gate.wait(60)
            if self.fails:
                raise OSError("the network is gone")
        return super().open_input_file(path)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gated]:
    """Give a server with three versions: a build, one with a run, and that one compacted."""
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "another host"))
    server = Gated(tmp_path)
    rows = pa.table({"id": range(KEYS), "v": [f"{i:050d}" for i in range(KEYS)]})
    place = server.location()
    lookupstore.build(rows, place, key="id", buckets=3).close()
    changes = pa.table({"id": range(7, 107), "v": ["changed"] * 100})
    with lookupstore.upsert(place, changes, **KEEP) as changed:
        changed.compact().close()
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "copies"))
    yield server
    server.gate.set()


def opened(server: Gated, version: int, *, here: bool = False) -> LookupStore:
    store = LookupStore(server.location(), version=version)
    if here:
        coming = fetch_all(store)
        wait_until(lambda: coming.is_here)
    return store


def wait_until(done: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not done():
        assert time.monotonic() < until
        time.sleep(0.01)


def requests(server: Gated) -> list[tuple[str, str]]:
    """Return what was asked for, but for data files, which come in a thread."""
    return [(name, path) for name, path in server.done if not path.endswith(".sst")]


def test_the_version_before_answers_until_the_new_one_is_here(server: Gated) -> None:
    before, compacted = opened(server, 2, here=True), opened(server, 3)
    one = Following()
    assert one.answering(before) is before
    server.gate.clear()
    assert one.answering(compacted) is one.answering(compacted) is before
    assert before.lookup(range(KEYS)).num_rows == KEYS  # without waiting
    server.gate.set()
    wait_until(lambda: one.answering(compacted) is compacted)
    server.restart()
    server.fails = True
    assert compacted.contains(range(KEYS)).true_count == KEYS
    assert one.answering(before) is before  # who asks for it gets it


def test_a_worker_that_begins_goes_on_with_what_others_brought(server: Gated) -> None:
    opened(server, 2, here=True)
    compacted = opened(server, 3)
    server.gate.clear()
    one = Following()
    before = one.answering(compacted)
    assert before.version == 2
    assert before.contains(range(KEYS)).true_count == KEYS  # without waiting
    server.restart()
    assert one.answering(compacted) is before
    assert not requests(server)  # the next task knows it
    server.gate.set()
    wait_until(lambda: one.answering(compacted) is compacted)
    assert Following().answering(compacted) is compacted  # which is here


def test_a_worker_that_begins_on_a_cold_host_asks_for_nothing(server: Gated) -> None:
    compacted = opened(server, 3)
    server.restart()
    assert Following().answering(compacted) is compacted
    assert not requests(server)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_worker_that_begins_on_a_host_without_the_version_before(
    server: Gated, number: int
) -> None:
    opened(server, 1, here=True)  # whose rows are others
    chosen = opened(server, number)
    assert Following().answering(chosen) is chosen


def test_a_worker_that_begins_when_the_version_before_is_gone(
    server: Gated, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opened(server, 2, here=True)
    compacted = opened(server, 3)
    name = next(name for name in list_names(server.location()) if name.number == 2)
    file = tmp_path / "bucket" / "store" / name.file
    file.write_bytes(b"damaged")
    assert Following().answering(compacted) is compacted
    assert "version 3 answers at once: " in caplog.text
    file.unlink()
    assert Following().answering(compacted) is compacted


@pytest.mark.parametrize("here", [False, True])
def test_other_rows_are_another_version(server: Gated, here: bool) -> None:
    built, changed = opened(server, 1, here=True), opened(server, 2, here=here)
    one = Following()
    assert one.answering(built) is built
    assert one.answering(changed) is changed


def test_what_is_not_here_stands_for_nothing(server: Gated) -> None:
    before, compacted = opened(server, 2), opened(server, 3)
    one = Following()
    assert one.answering(before) is before
    assert one.answering(compacted) is compacted


def test_copies_that_go_meanwhile(server: Gated, tmp_path: Path) -> None:
    before, compacted = opened(server, 2, here=True), opened(server, 3)
    one = Following()
    one.answering(before)
    server.gate.clear()
    assert one.answering(compacted) is before
    for path in (tmp_path / "copies").glob("*.sst"):
        path.unlink()  # as another process does for room
    assert one.answering(compacted) is compacted


def test_without_room_for_both_nothing_is_fetched_ahead(
    server: Gated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = opened(server, 2, here=True)
    # Plain copies come in the background, some now and some later: they are no part of the version.
    copies = [one for one in (tmp_path / "copies").glob("*.sst") if "-plain" not in one.name]
    used = sum(path.stat().st_blocks * 512 for path in copies)
    monkeypatch.setenv("LOOKUPSTORE_CACHE_BYTES", str(2 * used - 4096))
    before, compacted = opened(server, 2, here=True), opened(server, 3)
    one = Following()
    one.answering(before)
    assert one.answering(compacted) is compacted


def test_what_goes_wrong_is_said_and_the_chosen_version_answers(
    server: Gated, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before, compacted = opened(server, 2, here=True), opened(server, 3)
    one = Following()
    one.answering(before)
    server.fails = True
    assert one.answering(compacted) is before
    wait_until(lambda: one.answering(compacted) is compacted)
    assert "version 3: not fetched: " in caplog.text
    server.fails = False
    name = next(name for name in list_names(server.location()) if name.number == 2)
    (tmp_path / "bucket" / "store" / name.file).write_bytes(b"damaged")
    one = Following()
    one.answering(before)
    fresh = opened(server, 3)
    assert one.answering(fresh) is fresh
    assert "version 3 answers at once: " in caplog.text


def test_versions_that_take_turns_ask_for_nothing(server: Gated) -> None:
    """Two queries, each planned on its version, in one worker."""
    versions = [opened(server, number, here=True) for number in (1, 2, 3)]
    one = Following()
    server.restart()
    for _ in range(3):
        for version in (*versions, *reversed(versions)):
            assert one.answering(version) is version
    assert server.count("open_input_stream") <= 6  # from the first to the second, each time
