"""The times of instants, as digits: read, write and order them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

_LENGTHS = (14, 17)
#: Times that are not dates: Hudi's beginning of a table, and the instants of a bootstrap. Those of
#: metadata tables begin with `BEGINNING`.
BOOTSTRAPS = frozenset(f"{number:014d}" for number in range(3))
BEGINNING = "00000000000000"
_SECONDS = "%Y%m%d%H%M%S"
_MILLISECOND = timedelta(milliseconds=1)


def is_time(text: str) -> bool:
    """Return whether a text is the time of an instant: a moment, or one of a bootstrap's.

    >>> is_time("20240418173550988"), is_time("20240418173560988")
    (True, False)
    """
    if len(text) not in _LENGTHS or not (text.isascii() and text.isdigit()):
        return False
    # A metadata table adds three digits to a time, for each of its partitions.
    if text in BOOTSTRAPS or (len(text) > len(BEGINNING) and text.startswith(BEGINNING)):
        return True
    try:
        _parse(text)
    except ValueError:
        return False
    return True


def moment_of(time: str) -> datetime:
    """Return the local time of an instant, as if it were in UTC.

    >>> moment_of("20240418173550988").isoformat()
    '2024-04-18T17:35:50.988000+00:00'
    """
    return _parse(time)


def print_time(moment: datetime) -> str:
    """Return a moment as the time of an instant, in UTC.

    >>> print_time(datetime(2026, 3, 7, 13, 56, 57, 661999, timezone.utc))
    '20260307135657661'
    """
    utc = moment.astimezone(timezone.utc)
    return f"{utc:{_SECONDS}}{utc.microsecond // 1000:03d}"


def next_time(after: str, now: datetime) -> str:
    """Return a time for a new instant: now, or a millisecond after `after`.

    The later of the two is used.

    Raises:
        OverflowError: If `after` is at the end of the year 9999.

    >>> next_time("20260307135657999", datetime(2026, 3, 7, tzinfo=timezone.utc))
    '20260307135658000'
    """
    time = print_time(now)
    if time > after:
        return time
    # A time without milliseconds sorts before each time within its second.
    return print_time(_parse(after) + _MILLISECOND)


def _parse(text: str) -> datetime:
    # strptime is not used: it takes longer than all other work for a file of the timeline.
    day = int(text[:4]), int(text[4:6]), int(text[6:8])
    time = int(text[8:10]), int(text[10:12]), int(text[12:14]), int(text[14:] or 0) * 1000
    return datetime(*day, *time, tzinfo=timezone.utc)
