"""Moments of a table that callers give, as times of instants."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date, datetime, timezone
from typing import TypeAlias

from lookupstore.hudi.timeline.instant_times import is_time, print_time
from lookupstore.hudi.timeline.timeline import Instant, Timeline

#: A moment of a table: an instant or its time; a local time as text in ISO 8601 or as a datetime
#: without a zone; or a day, which stands for its beginning.
When: TypeAlias = "str | date | datetime | Instant"

_ISO = re.compile(r"\d{4}-\d\d-\d\d")


def given_instant(argument: str, instant: str | Instant) -> str:
    """Check an instant that a caller names, and return its time.

    Raises:
        ValueError: If it is not the time of an instant.

    >>> given_instant("savepoint", "20240418173550988")
    '20240418173550988'
    """
    time = instant.time if isinstance(instant, Instant) else instant
    if not isinstance(time, str) or not is_time(time):
        raise _time_error(argument, time, "")
    return time


def given_time(argument: str, time: When | None, zone: str | None) -> str | None:
    """Return a moment that a caller gave as the time of an instant.

    Args:
        argument: Name of the argument, for errors.
        time: Instant, its time, a date, or what a clock shows, as a datetime or as text in ISO
            8601. None: the result is None.
        zone: Zone of instants that the table's properties name: `UTC` or `LOCAL`. None: they name
            none.

    Source: HoodieSqlCommonUtils.formatQueryInstant of Apache Hudi, for texts.

    Raises:
        ValueError: If `time` is not a moment, or has a zone and the table does not say that its
            instants are in UTC.

    >>> given_time("as_of", "20240418173550988", None)
    '20240418173550988'
    >>> given_time("as_of", "2024-04-18 17:35:50", None)
    '20240418173550000'
    >>> given_time("as_of", "2024-04-18T17:35:50+02:00", "UTC")
    '20240418153550000'
    >>> given_time("as_of", date(2024, 4, 18), "UTC")
    '20240418000000000'
    """
    if time is None:
        return None
    if isinstance(time, Instant) or (isinstance(time, str) and is_time(time)):
        return given_instant(argument, time)
    moment = time
    if isinstance(time, str) and _ISO.match(time.strip()):
        with suppress(ValueError):
            moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", time.strip()))
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if not isinstance(moment, datetime):
        raise _time_error(
            argument,
            time,
            "; or a time in the zone of these, such as '2026-03-07 13:56:57', or a date",
        )
    if moment.tzinfo is not None and zone != "UTC":
        raise ValueError(
            f"{argument} is {time!r}, with a zone, and the table does not say that its instants "
            "are in UTC; give what the clock shows by which it names them, without a zone"
        )
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return print_time(moment.astimezone(timezone.utc))


def given_position(
    argument: str, position: When | None, zone: str | None, timeline: Timeline
) -> str | None:
    """Return a moment that a caller gave as a position in the timeline.

    An instant stands for its position, and so does the request time of a commit of the timeline,
    which rows have as `_hoodie_commit_time`; see `given_time` for other values.

    >>> from lookupstore.hudi.timeline.timeline import COMMIT, State
    >>> commit = Instant("20240418173550988", COMMIT, State.COMPLETED, "20240418173551123")
    >>> given_position("since", commit, None, Timeline(()))
    '20240418173551123'
    >>> given_position("since", commit.time, None, Timeline((commit,)))
    '20240418173551123'
    """
    time = position.position if isinstance(position, Instant) else position
    if isinstance(time, str) and is_time(time):
        writes = timeline.writes()
        requested = [one.position for one in writes if one.time == time]
        if requested and all(one.position != time for one in writes):
            return requested[0]
    return given_time(argument, time, zone)


def _time_error(argument: str, time: object, other: str) -> ValueError:
    if isinstance(getattr(time, "instant", None), Instant):
        return ValueError(f"{argument} is a {type(time).__name__}; pass its attribute `instant`")
    digits = "17 digits as a text" if isinstance(time, int) else "17 digits"
    return ValueError(
        f"{argument} is {time!r}; give the time of an instant, {digits}: timeline() lists "
        f"them{other}"
    )
