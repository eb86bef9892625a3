"""The table of what lookups did on a host."""

from __future__ import annotations

import logging
import multiprocessing
import random
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from lookupstore import stats
from lookupstore.stats import Counts


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


def add_many(folder: Path, number: int) -> None:
    for _ in range(25):
        stats.add(folder, "app", f"execution {number}", "/s", 1, Counts(tasks=1, rows=2))


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
    assert [record.message.count("are lost") for record in caplog.records] == [1, 1]
    with pytest.raises(sqlite3.Error):
        stats.read(tmp_path)
    assert stats.read(tmp_path / "nowhere") == []
