"""Parse sizes and times from arguments, and format numbers as text."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import TypeAlias

#: Size in bytes: a number, or a text such as "512MiB", "1GB" or "2G".
Size: TypeAlias = "int | str"
#: Duration: a timedelta, a number of seconds, or a text such as "90s", "30m", "1h" or "2 days".
Duration: TypeAlias = "timedelta | float | str"

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", re.ASCII)
_BYTES = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    # Units as in the GNU tools: GB is decimal, G and GiB are binary.
    _BYTES |= {f"{_letter}B": 1000**_power, _letter: 1024**_power, f"{_letter}IB": 1024**_power}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
for _word in ("second", "sec", "minute", "min", "hour", "hr", "day"):
    # As in Spark's intervals and triggers.
    _SECONDS |= dict.fromkeys((_word, f"{_word}s"), _SECONDS[_word[0]])


def bytes_of(size: Size, argument: str, *, least: int = 0) -> int:
    """Return a size in bytes.

    Args:
        size: Number of bytes, or a text: `512MB` is 512 x 10**6 bytes, `512MiB` and `512M` are 512
            x 2**20 bytes.
        argument: Name of the argument, which errors show.
        least: Smallest size that is accepted, in bytes.

    Raises:
        TypeError: If `size` is neither a whole number nor a text.
        ValueError: If a text is not a size, or the size is below `least`.

    >>> bytes_of("2 MiB", "memory"), bytes_of("1.5GB", "memory"), bytes_of(7, "memory")
    (2097152, 1500000000, 7)
    >>> bytes_of("much", "memory")
    Traceback (most recent call last):
    ValueError: memory is 'much'; give bytes, or a size such as 512MiB or 1GB
    """
    if isinstance(size, str):
        match = _AMOUNT.fullmatch(size.strip())
        unit = _BYTES.get(match[2].upper()) if match else None
        if match is None or unit is None:
            raise ValueError(f"{argument} is {size!r}; give bytes, or a size such as 512MiB or 1GB")
        found = int(match[1]) * unit if match[1].isdecimal() else int(float(match[1]) * unit)
    elif isinstance(size, int) and not isinstance(size, bool):
        found = size
    else:
        raise TypeError(
            f"{argument} is {size!r}; give a whole number of bytes, or a size such as '1GB'"
        )
    if found < least:
        raise ValueError(f"{argument} is {size!r}; give at least {least} bytes")
    return found


def seconds_of(duration: Duration, argument: str) -> float:
    """Return a span of time in seconds.

    Args:
        duration: Timedelta, number of seconds, or a text: a number and `s`, `m`, `h`, `d`, a word
            such as `minutes`, or nothing for seconds.
        argument: Name of the argument, which errors show.

    Raises:
        TypeError: If `duration` is neither a number nor a timedelta nor a text.
        ValueError: If a text is not a time, or the time is negative.

    >>> seconds_of("1.5h", "retain"), seconds_of(timedelta(days=1), "retain")
    (5400.0, 86400.0)
    >>> seconds_of("1 minute", "refresh"), seconds_of("1 min", "refresh")
    (60.0, 60.0)
    """
    if isinstance(duration, str):
        match = _AMOUNT.fullmatch(duration.strip())
        unit = _SECONDS.get(match[2].lower()) if match else None
        if match is None or unit is None:
            raise ValueError(
                f"{argument} is {duration!r}; give seconds, or a time such as 30m, 1h or 7d"
            )
        return float(match[1]) * unit
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
        raise TypeError(
            f"{argument} is {duration!r}; give a timedelta, a number of seconds, or a time such "
            "as '1h'"
        )
    if math.isnan(seconds) or seconds < 0:
        raise ValueError(f"{argument} is {duration!r}; give a time of 0 or more")
    return float(seconds)


def number_text(value: int) -> str:
    """Return a number, such as a count, with groups of three digits.

    >>> number_text(1234567)
    '1,234,567'
    """
    return f"{value:,}"


def size_text(nbytes: int) -> str:
    """Return a size in bytes with a unit for people.

    >>> size_text(999), size_text(9_712_345), size_text(53_000_000_000)
    ('999 bytes', '9.7 MB', '53.0 GB')
    """
    if nbytes < 1000:
        return counted(nbytes, "byte")
    power = min((len(str(nbytes)) - 1) // 3, 4)
    return f"{nbytes / 1000**power:,.1f} {('kB', 'MB', 'GB', 'TB')[power - 1]}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> counted(1, "file"), counted(2000, "file")
    ('1 file', '2,000 files')
    """
    return f"{number_text(count)} {noun}{'' if count == 1 else 's'}"
