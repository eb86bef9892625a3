"""The timeline: names, order, and that of those who do one thing at once, one succeeds."""

from __future__ import annotations

import multiprocessing
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hudi.in_processes import request_some
from support.hudi.versions import VERSIONS
from support.synced import synced_folders

from lookupstore.errors import CommitConflictError, CorruptionError
from lookupstore.hudi.timeline.instant_times import is_time, next_time, print_time
from lookupstore.hudi.timeline.timeline import Instant, State, TimelineFolder, parse_instant
from lookupstore.storage.location import Location

NOW = datetime(2026, 3, 7, 13, 56, 57, 661000, timezone.utc)
T, C = "20260307135657661", "20260307135657662"


@pytest.mark.parametrize(
    ("version", "name", "instant"),
    [
        (6, f"{T}.commit.requested", Instant(T, "commit", State.REQUESTED)),
        (6, f"{T}.inflight", Instant(T, "commit", State.INFLIGHT)),
        (6, f"{T}.commit", Instant(T, "commit", State.COMPLETED)),
        (9, f"{T}_{C}.commit", Instant(T, "commit", State.COMPLETED, C)),
        (6, f"{T}.replacecommit.inflight", Instant(T, "replacecommit", State.INFLIGHT)),
        (8, f"{T}_{C}.replacecommit", Instant(T, "replacecommit", State.COMPLETED, C)),
        (8, f"{T}.clustering.requested", Instant(T, "clustering", State.REQUESTED)),
        (8, f"{T}.rollback.inflight", Instant(T, "rollback", State.INFLIGHT)),
        (6, "20240418173550.clean", Instant("20240418173550", "clean", State.COMPLETED)),
        (9, f"{T}_{C}.savepoint", Instant(T, "savepoint", State.COMPLETED, C)),
        (9, f"{T}_{C}.indexing", Instant(T, "indexing", State.COMPLETED, C)),
    ],
)
def test_names(version: int, name: str, instant: Instant) -> None:
    assert parse_instant(name, "", version) == instant
    assert instant.file_name == name


@pytest.mark.parametrize(
    "name",
    [
        "index.json",
        f".{T}.commit.crc",
        f"{T}.commit.tmp",
        f"{T}",
        f"{T}.requested",
        "history",
    ],
)
def test_names_of_no_instant(name: str) -> None:
    assert parse_instant(name, "", 9) is None


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (9, f"{T}.commit"),
        (6, f"{T}_{C}.commit"),
        (9, f"{T}_{C}.commit.requested"),
        (9, f"{T[:-1]}_{C}.commit"),
        (9, f"{T}_{C}0.commit"),
        (6, "20260307135660661.commit"),
        (6, "20260230135600661.commit"),
    ],
)
def test_names_that_others_would_pass_over(version: int, name: str) -> None:
    with pytest.raises(CorruptionError):
        parse_instant(name, "path", version)


@given(
    st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)),
    st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)),
)
def test_the_next_time_is_greater(last: datetime, now: datetime) -> None:
    after = print_time(last.replace(tzinfo=timezone.utc))
    time = next_time(after, now.replace(tzinfo=timezone.utc))
    assert is_time(time)
    assert time > after
    assert next_time(after[:14], now.replace(tzinfo=timezone.utc)) > after[:14]


def test_digits_of_other_scripts_are_no_time() -> None:
    assert not is_time("٢٠٢٦٠٣٠٧١٣٥٦٥٧٦٦١")


@pytest.mark.parametrize("version", VERSIONS)
def test_an_instant_goes_from_state_to_state(tmp_path: Path, version: int) -> None:
    folder = TimelineFolder(Location(tmp_path), "timeline", version, clock=lambda: NOW)
    requested = folder.request("commit", b"")
    assert requested == Instant(T, "commit", State.REQUESTED)
    with pytest.raises(ValueError, match="is requested, not inflight"):
        folder.complete(requested, b"")
    inflight = folder.start(requested, b"profile")
    with pytest.raises(FileExistsError):
        folder.start(requested, b"profile")
    assert folder.load().pending() == [inflight]
    completed = folder.complete(inflight, b"what it did")
    assert completed.completed == (None if version == 6 else C)
    assert folder.read(completed) == b"what it did"
    assert folder.read(inflight) == b"profile"
    with pytest.raises(FileExistsError):
        folder.complete(inflight, b"again")
    assert list(folder.load()) == [completed]
    assert len(list((tmp_path / "timeline").iterdir())) == 3
    # The clock stands, instants go on: after every time that there is.
    second = folder.request("clustering")
    assert second.time == (C if version == 6 else "20260307135657663")
    done = folder.complete(folder.start(second), b"")
    assert done.action == "replacecommit"
    assert [one.time for one in folder.load().writes()] == [T, second.time]
    assert folder.load().writes(as_of=T) == [completed]


def test_an_instant_that_was_rolled_back_does_not_go_on(tmp_path: Path) -> None:
    folder = TimelineFolder(Location(tmp_path), "timeline", 9, clock=lambda: NOW)
    requested = folder.request("commit")
    (tmp_path / "timeline" / requested.file_name).unlink()
    with pytest.raises(CommitConflictError, match="rolled back"):
        folder.start(requested)


@pytest.mark.parametrize("version", [6, 9])
def test_a_deletion_is_on_disk_before_the_next_one(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an inflight file may be gone after a power failure, and the completed one be there."""
    folder = TimelineFolder(Location(tmp_path), "timeline", version, clock=lambda: NOW)
    inflight = folder.start(folder.request("commit"))
    completed = folder.complete(inflight, b"")
    requested = Instant(T, "commit", State.REQUESTED)
    names = {one.file_name for one in (requested, inflight, completed)}
    synced = synced_folders(monkeypatch)
    folder.delete(completed)
    assert synced == [(tmp_path / "timeline", names - {completed.file_name})]
    folder.delete(inflight, requested)
    assert synced[1:] == [(tmp_path / "timeline", set())]


def test_a_savepoint_has_the_time_of_its_commit(tmp_path: Path) -> None:
    for name in ("commit", "commit.requested", "savepoint", "savepoint.inflight"):
        (tmp_path / f"{T}.{name}").touch()
    timeline = TimelineFolder(Location(tmp_path), "", 6).load()
    assert [(one.action, one.is_completed) for one in timeline] == [
        ("commit", True), ("savepoint", True),
    ]  # fmt: skip


def test_an_instant_that_is_completed_twice_is_an_error(tmp_path: Path) -> None:
    (tmp_path / f"{T}_{C}.commit").touch()
    (tmp_path / f"{T}_20260307135657663.commit").touch()
    with pytest.raises(CorruptionError, match="completed once"):
        TimelineFolder(Location(tmp_path), "", 9).load()


def test_of_writers_at_once_none_has_the_time_of_another(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        runs = pool.starmap(request_some, [(str(tmp_path), 30, NOW)] * 2)
    for times in runs:
        assert times == sorted(set(times))
    assert len({time for times in runs for time in times}) == 60


def test_times_are_in_utc() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=5)))
    assert print_time(there) == T
