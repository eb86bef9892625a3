"""Which zone a table's instants are told by: from random files, and from those that say nothing."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from lookupstore.errors import FormatError
from lookupstore.hudi.timeline.instant_times import print_time
from lookupstore.hudi.timeline.timeline import Zone
from lookupstore.hudi.timeline.zone import find_zone, saved_zone

NOW = datetime(2026, 11, 1, 12, 0, 0, 0, timezone.utc)
HOUR = timedelta(hours=1)
SEEDS = 200


def hours(count: float) -> timedelta:
    return timedelta(hours=count)


def header(offset: timedelta, at: datetime = NOW, name: str = "CST") -> list[str]:
    clock = at + offset
    return [f"Updated at {at:%Y-%m-%dT%H:%M:%S}.123456Z", f"{clock:%a %b %d %H:%M:%S} {name} 2026"]


def made(*ages: float, offset: timedelta, late: float = 0.2) -> dict[str, float]:
    """Return when requested files were made, so many minutes ago."""
    moments = [NOW - timedelta(minutes=age) for age in ages]
    return {print_time(one + offset): one.timestamp() + late for one in moments}


def find(
    requested: dict[str, float],
    saved: list[str] | None = None,
    *,
    said: str | None = None,
    ours: Any = (),
) -> Zone:
    return find_zone(said, requested, saved or [], set(ours).__contains__, NOW, "t", "the.zone")


def exactly(offset: timedelta) -> Zone:
    return Zone(offset, offset)


def test_the_zone_of_writers_is_found_from_their_files(seed_of_the_day: int) -> None:
    for seed in range(seed_of_the_day * SEEDS, (seed_of_the_day + 1) * SEEDS):
        rng = random.Random(seed)
        offset = rng.randrange(-48, 57) * timedelta(minutes=15)
        ages = sorted(rng.sample(range(1, 3000), rng.randrange(2, 8)))
        requested: dict[str, float] = {}
        for age in ages:
            requested |= made(age, offset=offset, late=rng.uniform(0, 3))
        saved = header(offset, NOW - timedelta(days=3)) if rng.random() < 0.5 else None
        found = find(requested, saved)
        wanted = exactly(offset)
        # Summer may have begun or ended since.
        if NOW.timestamp() - max(requested.values()) >= HOUR.total_seconds():
            wanted = Zone(offset - HOUR, offset + HOUR)
        assert found == wanted, f"seed {seed}"


def test_copies_say_nothing() -> None:
    """All files of a copy are of one moment, whatever their names say.

    One in some thousand happens to look as if it were no copy: these seeds stay.
    """
    for seed in range(SEEDS):
        rng = random.Random(seed)
        copied = NOW.timestamp() - rng.uniform(0, 86400)
        ages = rng.sample(range(1, 3000), rng.randrange(2, 8))
        requested = dict.fromkeys(made(*ages, offset=hours(-6)), copied)
        with pytest.raises(FormatError, match=r"unknown: .*the\.zone=UTC"):
            print(f"seed {seed}:", find(requested))


@pytest.mark.parametrize("offset", [hours(-6), hours(5.5), hours(0)])
def test_properties_that_java_saved_say_it(offset: timedelta) -> None:
    assert find({}, header(offset)) == exactly(offset)
    old = header(offset, NOW - timedelta(days=200))
    assert find({}, old) == Zone(offset - HOUR, offset + HOUR)
    # One instant agrees, and is new.
    assert find(made(1, offset=offset), old) == exactly(offset)
    winter = find(made(1, offset=offset), header(offset + HOUR, NOW - timedelta(days=200)))
    assert winter == Zone(offset, offset + HOUR)


def test_utc_has_no_summer() -> None:
    assert find({}, header(hours(0), NOW - timedelta(days=200), "UTC")) == Zone()
    assert find({}, header(hours(0), NOW - timedelta(days=200), "GMT")) == Zone(-HOUR, HOUR)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["Properties saved on 2026-03-07T13:56:57.661Z"],  # from here
        ["Updated at 2026-03-07T13:56:57.661Z", "Sat Mar 07 13:33:00 CST 2026"],
        ["Updated at 2026-03-07T13:56:57.661Z", "Sat Mrz 07 13:56:57 CET 2026"],
        ["Updated at 2026-02-30T13:56:57.661Z", "Sat Mar 07 13:56:57 CET 2026"],
        ["Sat Mar 07 13:56:57 CET 2026", "Sat Mar 07 13:56:57 CET 2026"],
    ],
)
def test_comments_that_say_nothing(lines: list[str]) -> None:
    assert saved_zone(lines) is None


def test_what_does_not_agree_is_refused() -> None:
    two = made(1, 3, offset=hours(-6)) | made(2, 4, offset=hours(0))
    with pytest.raises(FormatError, match=r"are of zones UTC-06:00 and UTC; .*the\.zone=UTC"):
        find(two, header(hours(-6)))
    with pytest.raises(FormatError, match="saved, and its instants made, in UTC-06:00 and UTC"):
        find(made(2, offset=hours(0)), header(hours(-6)))
    for requested in ({}, made(2, offset=hours(-6))):
        with pytest.raises(FormatError, match="neither its instants nor its properties"):
            find(requested)
    # Proven instants of others count more than who saved the properties.
    assert find(made(1, 3, offset=hours(0)), header(hours(-6))) == Zone()


def test_files_that_are_made_late_say_it() -> None:
    for late in (-119, 119):
        assert find(made(1, 3, offset=hours(-6), late=late)) == exactly(hours(-6))
    with pytest.raises(FormatError, match="neither its instants nor its properties"):
        find(made(1, 3, offset=hours(-6), late=121))


def test_our_own_instants_do_not_say_the_zone_of_others() -> None:
    """Before, they were in UTC in every table."""
    ours, theirs = made(1, 2, 3, offset=hours(0)), made(10, 20, offset=hours(-6))
    assert find(ours | theirs, ours=ours) == exactly(hours(-6))
    with pytest.raises(FormatError, match="in UTC-06:00 and UTC"):
        find(ours, header(hours(-6)), ours=ours)


def test_a_table_that_says_utc() -> None:
    for said in ("UTC", "utc"):
        assert find({}, said=said) == Zone()
        assert find(made(1, 3, offset=hours(0)), header(hours(-6)), said=said) == Zone()
    theirs = made(5, 8, offset=hours(-6))
    with pytest.raises(FormatError, match=r"of another writer is of UTC-06:00: .*user\.timezone"):
        find(theirs | made(1, offset=hours(0)), said="UTC", ours=made(1, offset=hours(0)))
    # Set right, or copied, or made with a clock of a test's.
    assert find(theirs | made(1, offset=hours(0)), said="UTC") == Zone()
    assert find(dict.fromkeys(theirs, NOW.timestamp()), said="UTC") == Zone()
    assert find(theirs, said="UTC", ours=theirs) == Zone()
