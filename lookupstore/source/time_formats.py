"""Dates and times of text in a format that the caller gives, such as `31.12.2026`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime

import pyarrow as pa

_DAY, _MONTHS, _YEARS = "%d", ("%m", "%b", "%B"), ("%Y", "%y")
_OF_TIMES = ("%H", "%I", "%p", "%M", "%S", "%f")
# Parts without anything between them: 2026111 has two readings as %Y%m%d.
_ADJACENT = re.compile("%[A-Za-z]%[A-Za-z]")
_KNOWN = frozenset((_DAY, *_MONTHS, *_YEARS, *_OF_TIMES, "%%"))
# Formats of dates that are not ISO 8601, and of times after them.
_DATES = (
    "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%Y%m%d", "%d-%b-%Y", "%d %b %Y",
    "%d %B %Y", "%B %d, %Y",
)  # fmt: skip
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")


def check_format(form: str, kind: pa.DataType) -> None:
    """Check that texts in a format have one value of a type.

    Args:
        form: Format in the directives of `datetime.strptime`.
        kind: Type of the values.

    Raises:
        ValueError: If the format lacks the day, month or year, or has a part that the type lacks.

    >>> check_format("%d.%m.%Y", pa.date32())
    """
    found = re.findall("%.?", form)
    if not found:
        raise ValueError("write its parts with %, such as date(%m/%d/%Y)")
    for one in found:
        if one not in _KNOWN:
            raise ValueError(f"{one!r} is not known; give {', '.join(sorted(_KNOWN))}")
    if len(set(found)) < len(found) - found.count("%%"):
        raise ValueError("a part of the date is given twice")
    for what, names in (("day", (_DAY,)), ("month", _MONTHS), ("year", _YEARS)):
        if not set(names) & set(found):
            raise ValueError(f"there is no {what}; give {' or '.join(names)}")
    if pa.types.is_date(kind) and set(_OF_TIMES) & set(found):
        raise ValueError("a date has no time; give timestamp_ntz, or timestamp for times in UTC")
    if ("%I" in found) != ("%p" in found):
        raise ValueError("give both %I and %p, or %H")


def parsed(texts: pa.Array, kind: pa.DataType, form: str) -> pa.Array | None:
    """Return texts in a format as dates or timestamps. None: a text is not in the format.

    Args:
        texts: Texts, of which many may be equal.
        kind: Type of the values, a date or a timestamp.
        form: Format that `check_format` accepts.

    >>> parsed(pa.array(["31.12.2026", None]), pa.date32(), "%d.%m.%Y").to_pylist()
    [datetime.date(2026, 12, 31), None]
    >>> parsed(pa.array(["31.02.2026"]), pa.date32(), "%d.%m.%Y")
    """
    distinct = texts.dictionary_encode()
    try:
        # Arrow's own strptime accepts days that no month has.
        values = [datetime.strptime(text, form) for text in distinct.dictionary.to_pylist()]
        if _ADJACENT.search(form) and distinct.dictionary.to_pylist() != [
            value.strftime(form) for value in values
        ]:
            return None
        times = pa.array(values, pa.timestamp("us")).take(distinct.indices)
        return times.cast(kind)
    except ValueError:  # also of Arrow: a fraction that the type lacks
        return None


def formats_of(text: str, *, times: bool) -> Iterator[str]:
    """Yield the usual formats that a text is in.

    Args:
        text: A date or time that is not ISO 8601, or any other text.
        times: Whether times of a day may be after dates.

    >>> list(formats_of("1/2/2026 07:40", times=True))
    ['%m/%d/%Y %H:%M', '%d/%m/%Y %H:%M']
    """
    for date in _DATES:
        for time in _TIMES if times else ("",):
            if is_in(text, date + time):
                yield date + time


def likely_formats(texts: Sequence[str]) -> list[str]:
    """Return the usual formats that nine of ten texts are in, as many of them as any other format.

    Digits without signs between them are codes rather than dates.

    >>> likely_formats(["31.01.2019", "30.02.2022"] + ["01.02.2022"] * 8), likely_formats(["x"])
    (['%d.%m.%Y'], [])
    """
    first = {form for text in texts[:3] for form in formats_of(text, times=True)}
    counts = {form: sum(is_in(text, form) for text in texts) for form in first}
    most = max(counts.values(), default=0)
    if most * 10 < len(texts) * 9:
        return []
    return sorted(form for form in counts if counts[form] == most and not _ADJACENT.search(form))


def is_in(text: str, form: str) -> bool:
    """Return whether a text is in a format."""
    with suppress(ValueError):
        return bool(datetime.strptime(text, form))
    return False
