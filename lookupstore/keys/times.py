"""Key fields of dates, times, timestamps and durations, in whole days or ticks."""

from __future__ import annotations

import datetime
import math
from abc import abstractmethod
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.keys.fields import Holds, KeyField
from lookupstore.keys.numbers import WholeField, whole

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FRACTION = {"s": "", "ms": ".089", "us": ".089101", "ns": ".089101112"}
_DAY = 86_400


class TickField(WholeField):
    """A key field of whole numbers of seconds, milliseconds, microseconds or nanoseconds."""

    def __init__(self, field: pa.Field, nullable: bool) -> None:
        super().__init__(field, nullable)
        self._ticks = _TICKS[self.plain.unit]

    @staticmethod
    @abstractmethod
    def nanoseconds(value: Any) -> int | None:
        """Return the nanoseconds of a Python or pandas value.

        None: another kind of value.
        """

    def units(self, value: Any) -> int | float | Fraction:
        """Return the number of ticks of the unit."""
        if value != value:  # the NaT of NumPy and pandas
            return math.nan
        nanoseconds = self.nanoseconds(value)
        if nanoseconds is not None:
            ticks, rest = divmod(nanoseconds * self._ticks, 10**9)
            return ticks if rest == 0 else Fraction(nanoseconds * self._ticks, 10**9)
        scalar = self.scalar(value)
        if not scalar.is_valid:
            return math.nan
        if not self.holds(scalar.type):
            raise self.wrong_kind_error(value)
        return whole(Fraction(scalar.value * self._ticks, _TICKS[scalar.type.unit]))


class TimeField(TickField):
    """A key field of times of day."""

    plural = "times"
    wanted = "a datetime.time without a time zone"
    holds: Holds = staticmethod(pa.types.is_time)

    @staticmethod
    def nanoseconds(value: Any) -> int | None:
        """Return the nanoseconds since midnight."""
        if not isinstance(value, datetime.time) or value.tzinfo is not None:
            return None
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return seconds * 10**9 + value.microsecond * 1000

    @property
    def form(self) -> str:
        """Return a description of the text form of a value."""
        return f"HH:MM:SS, such as 05:06:07{_FRACTION[self.plain.unit]}"

    def read(self, texts: pa.Array) -> pa.Array:
        """Return the values of texts, read as timestamps since Arrow does not read times."""
        moments = pc.binary_join_element_wise("1970-01-01T", texts, "")
        return moments.cast(pa.timestamp(self.plain.unit)).cast(self.plain)


class TimestampField(TickField):
    """A key field of timestamps without a time zone."""

    plural = "timestamps"
    wanted = "a datetime.datetime without a time zone"

    @staticmethod
    def holds(kind: pa.DataType) -> bool:
        """Return whether a type is of timestamps without a time zone."""
        return bool(pa.types.is_timestamp(kind)) and kind.tz is None

    @staticmethod
    def nanoseconds(value: Any) -> int | None:
        """Return the nanoseconds since 1970."""
        if not isinstance(value, datetime.datetime) or value.tzinfo is not None:
            return None
        return _span_nanoseconds(value - _EPOCH)

    @property
    def form(self) -> str:
        """Return a description of the text form of a value."""
        return f"one without a time zone, such as {_written_moment(self.plain.unit)}"


class ZonedTimestampField(TickField):
    """A key field of timestamps with a time zone; keys do not contain the zone."""

    plural = "timestamps"
    wanted = "a datetime.datetime with a time zone"

    @staticmethod
    def holds(kind: pa.DataType) -> bool:
        """Return whether a type is of timestamps with a time zone."""
        return bool(pa.types.is_timestamp(kind)) and kind.tz is not None

    @staticmethod
    def nanoseconds(value: Any) -> int | None:
        """Return the nanoseconds since 1970 in UTC."""
        if not isinstance(value, datetime.datetime) or value.tzinfo is None:
            return None
        return _span_nanoseconds(value - _EPOCH_UTC)

    @property
    def form(self) -> str:
        """Return a description of the text form of a value."""
        moment = _written_moment(self.plain.unit)
        return f"one with a time zone, such as {moment}Z or {moment}+01:00"


class DurationField(TickField):
    """A key field of durations."""

    plural = "durations"
    wanted = "a datetime.timedelta"
    holds: Holds = staticmethod(pa.types.is_duration)

    @staticmethod
    def nanoseconds(value: Any) -> int | None:
        """Return the nanoseconds."""
        return _span_nanoseconds(value) if isinstance(value, datetime.timedelta) else None

    @property
    def form(self) -> str:
        """Return a description of the text form of a value."""
        return f"a whole number of {self.plain.unit}"

    def read(self, texts: pa.Array) -> pa.Array:
        """Return the values of texts, which are whole numbers."""
        return texts.cast(pa.int64()).cast(self.plain)


class DateField(WholeField):
    """A key field of dates, as days or as milliseconds."""

    plural = "dates"
    wanted = "a datetime.date"
    holds: Holds = staticmethod(pa.types.is_date)
    form = "YYYY-MM-DD, such as 2013-01-31"

    def __init__(self, field: pa.Field, nullable: bool) -> None:
        super().__init__(field, nullable)
        self._per_day = _units_per_day(self.plain)

    def units(self, value: Any) -> int | float | Fraction:
        """Return the number of days or milliseconds since 1970."""
        per_day = self._per_day
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            return (value.toordinal() - _EPOCH_DAY) * per_day
        if value != value:  # the NaT of NumPy and pandas
            return math.nan
        nanoseconds = TimestampField.nanoseconds(value)
        if nanoseconds is not None:
            return self._of_moment(Fraction(nanoseconds, _DAY * 10**9))
        scalar = self.scalar(value)
        if not scalar.is_valid:
            return math.nan
        if TimestampField.holds(scalar.type):
            return self._of_moment(Fraction(scalar.value, _TICKS[scalar.type.unit] * _DAY))
        if not self.holds(scalar.type):
            raise self.wrong_kind_error(value)
        return whole(Fraction(scalar.value * per_day, _units_per_day(scalar.type)))

    def _of_moment(self, days: Fraction) -> int | Fraction:
        """Return the units of a moment: whole at midnight, else between two days."""
        if days.denominator == 1:
            return days.numerator * self._per_day
        # Half a unit more or less is between the same days, and never a whole number of units.
        return Fraction(math.floor(days * self._per_day)) + Fraction(1, 2)

    def accepts(self, kind: pa.DataType) -> bool:
        """Return whether a type is of dates, or of timestamps, as pandas and NumPy use."""
        return self.holds(kind) or TimestampField.holds(kind)


#: The types of key of this module, in the order in which an error lists them.
TIMES: tuple[type[KeyField], ...] = (
    DateField,
    TimeField,
    TimestampField,
    ZonedTimestampField,
    DurationField,
)


def _units_per_day(kind: pa.DataType) -> int:
    return 1 if pa.types.is_date32(kind) else _DAY * 1000


def _written_moment(unit: str) -> str:
    return f"2013-01-31T05:06:07{_FRACTION[unit]}"


def _span_nanoseconds(span: datetime.timedelta) -> int:
    micros = (span.days * _DAY + span.seconds) * 10**6 + span.microseconds
    return micros * 1000 + int(getattr(span, "nanoseconds", 0))  # pandas.Timedelta has those
