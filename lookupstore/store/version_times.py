"""The version of a store that was current at a time."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timedelta, timezone, tzinfo
from typing import TypeAlias

from lookupstore.storage.location import Location
from lookupstore.store.version_files import (
    VersionName,
    find_version,
    names_of_store,
    read_version,
)

#: A version of a store: its number, or a time at which it was current.
Moment: TypeAlias = "int | str | datetime"

# Largest difference of two clocks: a version of another host may be from the near future.
_CLOCKS = timedelta(minutes=1)


def version_at(
    location: Location,
    moment: Moment,
    argument: str,
    *,
    zone: tzinfo | None = timezone.utc,
    takes_number: bool = True,
) -> VersionName | None:
    """Return the name of a version by its number, or by a time when it was current.

    Args:
        location: Location of the store.
        moment: Number of a version, or a time, as a datetime with its zone or as ISO 8601 text.
        argument: Name of the argument in errors.
        zone: Zone of a text that names none. None: such a text is refused.
        takes_number: Whether errors suggest the number of a version.

    Returns:
        Name of the version. None: the store did not have a version yet.

    Raises:
        TypeError: If `moment` is neither a number nor a time.
        ValueError: If a text is not a time, a datetime has no zone, or the time is in the future.
        FileNotFoundError: There is no such version, or it was removed.
    """
    if isinstance(moment, int) and not isinstance(moment, bool):
        return find_version(location, moment)
    time = _time_of(moment, argument, zone, takes_number)
    now = datetime.now(timezone.utc)
    if time > now + _CLOCKS:
        raise ValueError(
            f"{argument} is {time_text(time)}, after now ({time_text(now)}); leave "
            f"{argument} out for the current version"
        )
    names = names_of_store(location)
    for name in reversed(names):
        with suppress(FileNotFoundError):  # expired meanwhile
            if read_version(location, name).created_at <= time:
                return name
    if names[0].number == 1:
        return None
    raise FileNotFoundError(
        f"{location.uri}: {argument} is {time_text(time)}, and versions of that time have been "
        f"removed; the oldest that is left is {names[0].number}"
    )


def too_early_error(location: Location, moment: Moment, argument: str) -> FileNotFoundError:
    """Return the error for a time before the first version, which the store still has."""
    created = time_text(read_version(location, find_version(location, 1)).created_at)
    return FileNotFoundError(
        f"{location.uri}: {argument} is {str(moment)!r}, before version 1 ({created}); leave "
        f"{argument} out to start from nothing"
    )


def number_at(location: Location, version: int | None, as_of: Moment | None) -> int | None:
    """Return the number of the version that is chosen by its number or a time. None: by neither.

    Args:
        location: Location of the store.
        version: Number of a version. None: not given.
        as_of: Time when a version was current, as `version_at` takes it. None: not given.

    Raises:
        TypeError: If `as_of` is a number, or not a time.
        ValueError: If both are given, or the store had no version yet at the time.

    Also raises the errors of `version_at`.
    """
    if as_of is None:
        return version
    if version is not None:
        raise ValueError("version and as_of both choose a version; give one of them")
    if isinstance(as_of, int):
        raise TypeError(f"as_of is {as_of!r}; give a time, or a number as version")
    found = version_at(location, as_of, "as_of", takes_number=False)
    if found is None:
        raise ValueError(
            f"{location.uri}: as_of is {str(as_of)!r}, when the store had no version yet; give a "
            "later time"
        )
    return found.number


def _time_of(moment: object, argument: str, zone: tzinfo | None, takes_number: bool) -> datetime:
    number = "the number of a version, " if takes_number else ""
    if isinstance(moment, str):
        # Python takes any character between date and time: the sign of a zone after a date, too.
        text = re.sub(r"^(\d{4}-\d\d-\d\d)([zZ]|[+-]\d\d:\d\d)$", r"\1T00:00\2", moment.strip())
        try:
            # Python 3.10 does not read a Z.
            time = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
        except ValueError:
            remedy = f"give {number and f'{number}or '}a time such as 2026-11-22T07:30:00Z"
            if text.isdigit():
                how = "an integer, not as a text, in Spark as versionAsOf"
                remedy = f"give {text} as {how if takes_number else 'version'}"
            raise ValueError(f"{argument} is {moment!r}; {remedy}") from None
        if time.tzinfo is None and zone is None:
            example = text if len(text) > len("2026-11-22") else f"{text}T00:00"
            raise ValueError(
                f"{argument} is {moment!r}, without a zone; give one, such as {example}+01:00, or "
                "Z for UTC"
            )
        return time if time.tzinfo is not None else time.replace(tzinfo=zone)
    if not isinstance(moment, datetime):
        raise TypeError(f"{argument} is {moment!r}; give {number}a datetime, or a time as text")
    if moment.utcoffset() is None:
        raise ValueError(
            f"{argument} is {moment!r}, without a zone; give one with tzinfo=timezone.utc"
        )
    return moment


def time_text(moment: datetime) -> str:
    """Return a moment in the form used in manifests: ISO 8601 with milliseconds.

    >>> time_text(datetime(2026, 11, 22, 7, 30, tzinfo=timezone.utc))
    '2026-11-22T07:30:00.000+00:00'
    """
    return moment.isoformat(timespec="milliseconds")
