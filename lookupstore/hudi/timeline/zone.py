"""The time zone of a table's instants, which may be any zone.

Writers in Java name instants by the clock of their zone, unless the table's properties set UTC.
Files show which zone that is: a requested file is made right after its time was chosen, and Java
dates the properties in both zones. An instant named by a clock that is ahead hides what other
writers write after it, since the slice with the greatest time counts. An instant named by a clock
that is behind is harmless, since each instant gets a time after the last one.

Source: HoodieInstantTimeGenerator, HoodieTableConfig (storeProperties) of Apache Hudi.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from lookupstore.errors import FormatError
from lookupstore.hudi.timeline.instant_times import moment_of
from lookupstore.hudi.timeline.timeline import Zone

# Offsets of zones are multiples of this.
_STEP = timedelta(minutes=15)
_LEAST, _MOST = timedelta(hours=-12), timedelta(hours=14)
# Difference of the clock of a zone in summer.
_SUMMER = timedelta(hours=1)
# Maximum delay between an instant and its file, and maximum difference of clocks.
_LATE = timedelta(minutes=2)
# Copied files have almost the same date: instants that are further apart show their own dates.
_APART, _ALIKE = timedelta(minutes=1), timedelta(seconds=30)
# Maximum delay of the file of an instant, if instants are closer to each other.
_SOON = timedelta(seconds=5)
# Time for which an observed offset is used as the present one: summer time may have ended since.
_FRESH = timedelta(hours=1)

_SAVED = re.compile(
    r"(?:Updated at|Properties saved on) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?Z"
)
_DATED = re.compile(
    r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) (\d\d) (\d\d):(\d\d):(\d\d) ([A-Za-z0-9:+-]+) (\d{4})"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True)
class Seen:
    """A zone's clock, as one file shows it.

    Attributes:
        time: Request time of the instant; empty if the file is not one of an instant.
        written: Time at which the file was written.
        offset: Offset of the clock from UTC, a multiple of a quarter of an hour.
        late: Duration from the clock's time, less the offset, to the time at which the file was
            written.
        is_utc: Whether the file names the zone UTC, which has no summer time.
    """

    time: str
    written: datetime
    offset: timedelta
    late: timedelta
    is_utc: bool = False


def find_zone(
    said: str | None,
    requested: Mapping[str, float],
    saved: Sequence[str],
    is_ours: Callable[[str], bool],
    now: datetime,
    shown: str,
    setting: str,
) -> Zone:
    """Return the zone of a table's instants.

    Args:
        said: Zone that the table's properties name: `UTC` or `LOCAL`. None: they name none.
        requested: Times at which the requested files of the newest commits were written, in seconds
            since 1970, by the request times of the commits.
        saved: Comments at the head of the table's properties.
        is_ours: Function that returns whether lookupstore requested an instant, given its request
            time.
        now: Current time.
        shown: Path of the table, for errors.
        setting: Name of the property that names the zone, for errors.

    Raises:
        FormatError: If nothing shows the zone, if what shows it is contradictory, or if the table
            says UTC and instants of other writers are of another zone.
    """
    seen = list(_instants(requested))
    if said is not None and said.strip().upper() == "UTC":
        _check_utc(seen, is_ours, shown, setting)
        return Zone()
    properties = saved_zone(saved)
    if _span(seen) > _SUMMER:
        # Earlier versions of lookupstore used UTC in every table before they looked for the zone.
        seen = [one for one in seen if not is_ours(one.time)]
    if _span(seen) > _SUMMER:
        raise _unknown_error(shown, setting, f"its instants are of zones {_zones(seen)}")
    known = list(seen)
    if properties is not None and (
        _span([*seen, properties]) <= _SUMMER or not _is_proven(seen) or _all(seen, is_ours)
    ):
        known.append(properties)
    if _span(known) > _SUMMER:
        raise _unknown_error(
            shown, setting, f"its properties were saved, and its instants made, in {_zones(known)}"
        )
    if not known or (properties is None and not (_is_proven(seen) or _is_prompt(seen))):
        raise _unknown_error(shown, setting, "neither its instants nor its properties show it")
    offsets = [one.offset for one in known]
    zone = Zone(min(offsets), max(offsets))
    is_fresh = any(abs(now - one.written) < _FRESH for one in known)
    if is_fresh or all(one.is_utc or (properties and properties.is_utc) for one in known):
        return zone
    return Zone(zone.least - _SUMMER, zone.most + _SUMMER)


def saved_zone(comments: Sequence[str]) -> Seen | None:
    """Return the zone of the JVM that saved a table's properties; None: unknown.

    >>> lines = ["Updated at 2026-03-07T22:25:28.693750Z", "Sat Mar 07 16:25:28 CST 2026"]
    >>> saved_zone(lines).offset == timedelta(hours=-6)
    True
    """
    if len(comments) < 2:
        return None
    saved, dated = _SAVED.fullmatch(comments[0]), _DATED.fullmatch(comments[1])
    if saved is None or dated is None or dated[1] not in _MONTHS:
        return None
    with suppress(ValueError):
        moment = datetime.fromisoformat(saved[1]).replace(tzinfo=timezone.utc)
        day, hour, minute, second, year = (int(dated[at]) for at in (2, 3, 4, 5, 7))
        month = _MONTHS.index(dated[1]) + 1
        clock = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
        return _seen("", clock, moment, is_utc=dated[6] == "UTC")
    return None


def _check_utc(
    seen: Sequence[Seen], is_ours: Callable[[str], bool], shown: str, setting: str
) -> None:
    """Check that other writers use the zone in the properties, which only some Java writers do."""
    if all(not one.offset for one in seen):
        return
    others = [one for one in seen if not is_ours(one.time)]
    # Only the newest counts: the configuration may have been corrected.
    last = max(others, key=lambda one: one.written, default=None)
    if last is not None and last.offset and _is_proven(others):
        raise FormatError(
            f"{shown}: {setting} is 'UTC', but the instant {last.time} of another writer is of "
            f"{_zones([last])}: of Java's writers only Spark's data source goes by the property; "
            "start the JVM of that one with -Duser.timezone=UTC: after its next commit the table "
            "can be written from here; or let the property be LOCAL"
        )


def _instants(requested: Mapping[str, float]) -> Iterable[Seen]:
    for time, written in requested.items():
        moment = datetime.fromtimestamp(written, timezone.utc)
        one = _seen(time, moment_of(time), moment)
        if one is not None:
            yield one


def _seen(time: str, clock: datetime, written: datetime, *, is_utc: bool = False) -> Seen | None:
    """Return the local time of the writer of a file. None: unknown, as for a copied file."""
    offset = round((clock - written) / _STEP) * _STEP
    late = written - clock + offset
    if not _LEAST <= offset <= _MOST or abs(late) > _LATE:
        return None
    return Seen(time, written, offset, late, is_utc)


def _is_proven(seen: Sequence[Seen]) -> bool:
    """Return whether two files are as far apart as their instants, so they are not copies."""
    return any(
        one.offset == other.offset
        and abs(moment_of(one.time) - moment_of(other.time)) >= _APART
        and abs(one.late - other.late) <= _ALIKE
        for at, one in enumerate(seen)
        for other in seen[:at]
    )


def _is_prompt(seen: Sequence[Seen]) -> bool:
    """Return whether several files were made as soon as copies hardly are."""
    return len(seen) > 1 and all(abs(one.late) <= _SOON for one in seen)


def _all(seen: Sequence[Seen], is_ours: Callable[[str], bool]) -> bool:
    return all(is_ours(one.time) for one in seen)


def _span(seen: Sequence[Seen]) -> timedelta:
    offsets = [one.offset for one in seen]
    return max(offsets) - min(offsets) if offsets else timedelta()


def _zones(seen: Iterable[Seen]) -> str:
    """Return offsets for people.

    >>> _zones([Seen("", datetime(2026, 1, 1), timedelta(hours=-6), timedelta())])
    'UTC-06:00'
    """
    return " and ".join(
        datetime(2000, 1, 1, tzinfo=timezone(one)).tzname() or ""
        for one in sorted({one.offset for one in seen})
    )


def _unknown_error(shown: str, setting: str, why: str) -> FormatError:
    return FormatError(
        f"{shown}: the zone of its instants is unknown: {why}; an instant ahead of other writers' "
        f"clocks would hide what they write. If all its writers are in UTC, or none is in Java, "
        f"add {setting}=UTC to its properties; else let one of them commit twice, a minute apart"
    )
