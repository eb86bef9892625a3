"""The table of what lookups did on a host."""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import sqlite3
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from support.in_processes import add_many

import lookupstore
from lookupstore.hostcache import stats
from lookupstore.hostcache.counts import Counts
from lookupstore.sst import Reader
from lookupstore.store.local_files import files_of


def test_counts_add_up_by_query_and_version(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    rows: Counter[tuple[str, int]] = Counter()
    for _ in range(60):
        query, version, count = (
            f"execution {rng.randrange(3)}",
            rng.randrange(1, 3),
            rng.randrange(9),
        )
        rows[query, version] += count
        stats.add(tmp_path, "app", query, "/s", version, Counts(1, count, count // 2, seconds=0.5))
    found = stats.read(tmp_path)
    assert {(one.query, one.version): one.counts.rows for one in found} == dict(rows)
    assert sum(one.counts.tasks for one in found) == 60
    assert all(one.counts.misses == one.counts.rows - one.counts.hits for one in found)
    assert [one.last for one in found] == sorted((one.last for one in found), reverse=True)
    assert len(stats.read(tmp_path, limit=2)) == 2


def test_files_without_a_version_differ_from_version_0_of_a_table(tmp_path: Path) -> None:
    for version in (None, 0, None):
        stats.add(tmp_path, "app", "execution 1", "/s", version, Counts(rows=1))
    found = {one.version: one.counts.rows for one in stats.read(tmp_path)}
    assert found == {None: 2, 0: 1}
    assert {one.to_json()["version"] for one in stats.read(tmp_path)} == {None, 0}


def test_processes_share_the_table(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=add_many, args=(tmp_path, n % 2)) for n in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(one.counts.rows for one in stats.read(tmp_path)) == [100, 100]


def test_what_is_a_week_old_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = stats.time.time()
    monkeypatch.setattr(stats.time, "time", lambda: now - 8 * 24 * 3600)
    stats.add(tmp_path, "app", "old", "/s", 1, Counts(tasks=1))
    monkeypatch.setattr(stats.time, "time", lambda: now)
    stats.add(tmp_path, "app", "new", "/s", 1, Counts(tasks=1))
    assert [one.query for one in stats.read(tmp_path)] == ["new"]


def test_a_table_that_cannot_be_written_fails_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / stats.FILE_NAME).write_bytes(b"no SQLite at all" * 99)
    with caplog.at_level(logging.WARNING):
        stats.add(tmp_path, "app", "q", "/s", 1, Counts(tasks=1))
        stats.add(tmp_path / "file" / "below", "app", "q", "/s", 1, Counts(tasks=1))
    assert [record.message.count("could not save") for record in caplog.records] == [1, 1]
    with pytest.raises(OSError, match=r"stats\.sqlite: the statistics cannot be read: file is not"):
        stats.read(tmp_path)
    assert stats.read(tmp_path / "nowhere") == []


def test_one_store_alone(tmp_path: Path) -> None:
    for number, store in enumerate(["/a", "/b", "/a"]):
        stats.add(tmp_path, "app", f"execution {number}", store, 1, Counts(rows=number))
    assert {one.counts.rows for one in stats.read(tmp_path, store="/a")} == {0, 2}
    assert [one.query for one in stats.read(tmp_path, store="/b")] == ["execution 1"]


def test_programs_with_other_counts_share_the_table(tmp_path: Path) -> None:
    """A table of an older version is read, and what it lacks is added; it can go on writing."""
    older = "INSERT INTO task (ended, application, query, store, version, rows) VALUES "
    with sqlite3.connect(tmp_path / stats.FILE_NAME) as table:
        table.execute(
            "CREATE TABLE task (ended REAL NOT NULL, application TEXT NOT NULL, query TEXT NOT "
            "NULL, store TEXT NOT NULL, version INTEGER NOT NULL, rows INTEGER)"
        )
        table.execute(older + f"({stats.time.time()}, 'app', 'q', '/s', 1, 5)")
    assert [one.counts for one in stats.read(tmp_path)] == [Counts(rows=5)]
    stats.add(tmp_path, "app", "q", "/s", 1, Counts(rows=7, block_uses=3))
    with sqlite3.connect(tmp_path / stats.FILE_NAME) as table:
        table.execute(older + f"({stats.time.time()}, 'app', 'q', '/s', 1, 5)")
    table.close()
    assert [one.counts for one in stats.read(tmp_path)] == [Counts(rows=17, block_uses=3)]


def test_who_reads_needs_no_right_to_write(tmp_path: Path) -> None:
    stats.add(tmp_path, "app", "q", "/s", 1, Counts(rows=7))
    before = os.stat(tmp_path / stats.FILE_NAME)
    with stats._table(tmp_path, "ro") as table, pytest.raises(sqlite3.OperationalError):
        table.execute("DELETE FROM task")
    assert stats.read(tmp_path)[0].counts.rows == 7
    assert os.stat(tmp_path / stats.FILE_NAME).st_mtime_ns == before.st_mtime_ns


def test_the_cache_hit_rate_is_what_a_model_of_the_blocks_says(tmp_path: Path, seed: int) -> None:
    """Blocks of a file without compression stay; each key that is there is in one of them."""
    rng = random.Random(seed)
    everyone = list(range(3000))
    table = pa.table({"id": everyone, "v": [bytes(50)] * 3000})
    with lookupstore.build(table, tmp_path / "s", key="id", block_size=1024) as store:
        assert files_of(store).counts().cache_hit_rate is None
        uses = 0
        for _ in range(5):
            keys = rng.choices(everyone, k=rng.choice([1, 30, 2000]))
            store.lookup(keys)
            store.get(keys[0])
            uses += len(keys) + 1
            counts = files_of(store).counts()
            assert counts.block_uses == uses
            assert counts.cache_hit_rate == 1 - counts.blocks_read / uses
        files = list((tmp_path / "s" / "data").glob("*.sst"))
        store.lookup(everyone)
        (blocks,) = (Reader(path).info().data_blocks for path in files)
        assert files_of(store).counts().blocks_read == blocks
        before = files_of(store).counts()
        store.lookup([None, *range(5000, 6000)])  # the greatest key is below them, or a filter is
        store.contains([*everyone, None])
        assert (files_of(store).counts() - before) == Counts(
            block_uses=3000, filter_negatives=files_of(store).counts().filter_negatives
        )
