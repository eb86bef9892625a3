"""Folders of times: texts that Hudi's timestamp key generator makes of a column.

Patterns are those of Joda-Time, as far as they mean the same everywhere: numbers, but no names of
months or days, nor other text that depends on a language. If Java would use the time zone of its
process, lookupstore writes nothing.

Source: org.apache.hudi.keygen.TimestampBasedAvroKeyGenerator, parser.HoodieDateTimeParser,
org.joda.time.format.DateTimeFormat.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import plain_type, unwrap
from lookupstore.errors import FormatError
from lookupstore.hudi.options import TableOptions

#: Kinds of partition columns of a custom key generator.
SIMPLE, TIMESTAMP = "SIMPLE", "TIMESTAMP"
# Kind of times that are texts, which have patterns of their own.
_TEXTS = "DATE_STRING"
# Number of milliseconds of each unit, and number of units in that time.
_UNITS: dict[str, tuple[int, int]] = {
    "DAYS": (86_400_000, 1), "HOURS": (3_600_000, 1), "MINUTES": (60_000, 1), "SECONDS": (1000, 1),
    "MILLISECONDS": (1, 1), "MICROSECONDS": (1, 1000), "NANOSECONDS": (1, 1_000_000),
}  # fmt: skip
_NUMBERS = {
    "UNIX_TIMESTAMP": "SECONDS", "EPOCHMILLISECONDS": "MILLISECONDS",
    "EPOCHMICROSECONDS": "MICROSECONDS",
}  # fmt: skip
# Arrow's names of the letters of a pattern, from the longest unit to the shortest.
_FIELDS = {
    "y": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second",
    "S": "millisecond",
}  # fmt: skip


def _milliseconds(*days: str) -> tuple[int, ...]:
    return tuple(np.array(days, "datetime64[ms]").astype(np.int64).tolist())


# Range of times in which the year has four digits in every zone.
_LEAST, _MOST = _milliseconds("0002-01-01", "9999-01-01")
# Range of times for zones of regions: outside of it, the rules of Java and of Arrow may differ.
_FIRST, _LAST = _milliseconds("1970-01-01", "2037-12-31")
_DIGIT, _OFFSET = "[0-9]", "Z|[+-][0-9]{2}:?[0-9]{2}"
_GMT = re.compile(r"GMT([+-])(\d{1,2})(?::?(\d{2}))?")
_NEEDED = {
    "timestamp.type": "what the times are",
    "output.dateformat": "how folders are called",
    "input.dateformat": "how times are written",
}

Numbers = npt.NDArray[np.int64]


class TimeFaultError(ValueError):
    """A time that cannot be the name of a folder.

    Attributes:
        row: Row number in the column, from 0.
    """

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row


@dataclass(frozen=True)
class _Piece:
    """A repeated letter of a pattern, or plain text if `count` is 0."""

    text: str
    count: int = 0


@dataclass(frozen=True)
class TimePaths:
    """Rules that make texts of times in partition columns; made by `time_paths`.

    Attributes:
        columns: Names of the columns with times.
        unit: Unit of times that are numbers: milliseconds per unit, and units per millisecond.
            None: times are texts.
        inputs: Patterns of texts, one of which fits.
        input_zone: Time zone of texts that do not name theirs. None: not needed.
        output_zone: Time zone of the folders. None: that of the text.
        output: Pattern of the folders.
    """

    columns: frozenset[str]
    unit: tuple[int, int] | None
    inputs: tuple[tuple[_Piece, ...], ...]
    input_zone: str | None
    output_zone: str | None
    output: tuple[_Piece, ...]

    def segments(self, column: pa.ChunkedArray, name: str) -> tuple[list[str], Numbers]:
        """Return the different texts of a column, and the number of the text of each row.

        Raises:
            TypeError: If the column does not have the type of such times.
            TimeFaultError: If a time is null, or does not fit the pattern.
        """
        plain = plain_type(column.type)
        wanted = "string" if self.unit is None else "int32 or int64"
        is_text = pa.types.is_string(plain) or pa.types.is_large_string(plain)
        if not (is_text if self.unit is None else pa.types.is_signed_integer(plain)):
            raise TypeError(f"the partition column {name!r} is {column.type}; give {wanted}")
        chunks = [unwrap(chunk) for chunk in column.chunks]
        values = pa.chunked_array(chunks, plain).combine_chunks()
        if values.null_count:
            row = values.is_valid().index(False).as_py()
            raise TimeFaultError(row, f"the partition column {name!r} is null; give a time")
        if not len(values):
            return [], np.zeros(0, np.int64)
        local = (
            self._of_texts(values, name) if self.unit is None else self._of_numbers(values, name)
        )
        letters = [_FIELDS[one.text] for one in self.output if one.count]
        unit = max(letters, key=list(_FIELDS.values()).index)
        coded = pc.floor_temporal(local, unit=unit).dictionary_encode()
        times: list[datetime] = coded.dictionary.to_pylist()
        return [_formatted(self.output, one) for one in times], coded.indices.to_numpy().astype(
            np.int64
        )

    def _of_numbers(self, values: pa.Array, name: str) -> pa.Array:
        """Return numbers as times in the time zone of the folders."""
        assert self.unit is not None
        given = values.to_numpy().astype(np.int64)
        times, parts = self.unit
        outside = (given < _LEAST * parts // times) | (given > _MOST * parts // times)
        _check_all(~outside, values, name, "outside years 2 to 9998")
        # Java rounds towards zero when it converts units.
        whole = np.sign(given) * (np.abs(given) // parts) * times
        self._check_zones(whole, values, name)
        return _in_zone(pa.array(whole), self.output_zone or "UTC")

    def _of_texts(self, values: pa.Array, name: str) -> pa.Array:
        """Return texts as times in the time zone of the folders."""
        if len(self.inputs) > 1:
            # Joda uses the first pattern that matches, and does not check the number of digits
            # strictly.
            fitting = np.sum([_may_fit(pattern, values) for pattern in self.inputs], axis=0)
            _check_all(np.less(fitting, 2), values, name, "in more than one format of the table")
        local = np.zeros(len(values), np.int64)
        left = np.arange(len(values))
        for pattern in self.inputs:
            found, times, offsets = _parsed(pattern, values.take(pa.array(left)))
            rows, left = left[found], left[~found]
            local[rows] = self._shown(times[found], None if offsets is None else offsets[found])
        found = np.ones(len(values), bool)
        found[left] = False
        _check_all(found, values, name, "not a time in a format of the table")
        self._check_zones(local, values, name)
        return pa.array(local, pa.timestamp("ms"))

    def _check_zones(self, times: Numbers, values: pa.Array, name: str) -> None:
        """Check that the local times of regions are known at some times."""
        if any("/" in (zone or "") for zone in (self.input_zone, self.output_zone)):
            known = (times >= _FIRST) & (times < _LAST)
            _check_all(known, values, name, "outside years 1970 to 2037, in a zone of a region")

    def _shown(self, times: Numbers, offsets: Numbers | None) -> Numbers:
        """Return times of texts in the time zone of the folders."""
        zone = self.output_zone or self.input_zone
        if offsets is not None:
            if zone is None:
                return times
            instants = pa.array(times - offsets)
        elif self.input_zone is None:
            return times
        else:
            naive = pa.array(times, pa.timestamp("ms"))
            try:
                # For an hour that occurs twice, Joda uses the first; a skipped hour is not a time.
                known = pc.assume_timezone(
                    naive, self.input_zone, ambiguous="earliest", nonexistent="raise"
                )
            except pa.ArrowInvalid as error:
                raise ValueError(
                    f"a partition column has a time that no clock shows: {error}"
                ) from None
            instants = known.cast(pa.int64())
        assert zone is not None
        shown: Numbers = _in_zone(instants, zone).cast(pa.int64()).to_numpy()
        return shown


def time_paths(options: TableOptions, path: str) -> TimePaths | None:
    """Return the rules for times in the folders of a table; None: no times.

    Args:
        options: Options of the table.
        path: Path of the table, for errors.

    Raises:
        FormatError: If lookupstore does not support the rules of the table; the error names the
            property.
    """
    columns = options.time_columns
    if not columns:
        return None
    said = options.time_format
    _check_known(options, path)

    def need(key: str) -> str:
        name, value = said.get(key, (options.time_property(key), ""))
        if not value:
            raise _rule_error(path, name, value, f"without it nobody knows {_NEEDED[key]}")
        return value

    kind, unit = need("timestamp.type"), None
    name = said["timestamp.type"][0]
    if kind == "SCALAR":
        name, given = said.get("timestamp.scalar.time.unit", (name, "SECONDS"))
        unit = _UNITS.get(given.upper())
        if unit is None:
            raise _rule_error(path, name, given, f"supported: {', '.join(_UNITS)}")
    elif kind in _NUMBERS:
        unit = _UNITS[_NUMBERS[kind]]
    elif kind != _TEXTS:
        known = ", ".join((*_NUMBERS, "SCALAR", _TEXTS))
        raise _rule_error(path, name, kind, f"supported: {known}")
    output = _pattern(path, said, "output.dateformat", need("output.dateformat"), "yYMdHmsS")
    if not any(one.count for one in output):
        raise _rule_error(path, *said["output.dateformat"], "it has no letter of a time")
    inputs: tuple[tuple[_Piece, ...], ...] = ()
    if unit is None:
        delimiter = said.get("input.dateformat.list.delimiter.regex", ("", ","))
        if delimiter[1] != ",":
            raise _rule_error(path, *delimiter, "supported: a comma")
        inputs = tuple(
            _pattern(path, said, "input.dateformat", text.strip(), "yMdHmsSZ", strict=True)
            for text in need("input.dateformat").split(",")
        )
    of_both = said.get("timezone")
    zones = []
    for key in ("input.timezone", "output.timezone"):
        name, given = of_both or said.get(key, (options.time_property(key), ""))
        zones.append(_zone(path, name, given))
    input_zone, output_zone = zones
    if unit is not None and output_zone is None:
        name = options.time_property("output.timezone")
        raise _no_zone_error(path, name, "folders are called by")
    has_offsets = all(any(one.text == "Z" and one.count for one in pattern) for pattern in inputs)
    if unit is None and input_zone is None and output_zone is not None and not has_offsets:
        raise _no_zone_error(path, options.time_property("input.timezone"), "times are written in")
    return TimePaths(frozenset(columns), unit, inputs, input_zone, output_zone, output)


def _check_known(options: TableOptions, path: str) -> None:
    """Check the other rules of the table, besides patterns and zones."""
    parser = options.time_parser
    if parser is not None:
        raise _rule_error(path, *parser, "times are read by a class that is not known here")
    for column, kind in options.typed_columns:
        if options.key_generator == "CUSTOM" and kind.upper() not in (SIMPLE, TIMESTAMP):
            raise FormatError(
                f"{path}: {options.partition_property} says of {column!r} neither SIMPLE nor "
                "TIMESTAMP, as writers of Hudi 0.x leave it out: nobody knows how its folders are "
                f"called; write with Apache Hudi, or name it {column}:SIMPLE there"
            )
    if options.key_generator == "TIMESTAMP" and len(options.partition_by) != 1:
        given = ",".join(options.partition_by)
        raise _rule_error(path, options.partition_property, given, "supported: one column")


def _rule_error(path: str, name: str, value: str, reason: str) -> FormatError:
    return FormatError(
        f"{path}: {name} is {value!r}: {reason}; the table can only be read: write with Apache Hudi"
    )


def _no_zone_error(path: str, name: str, what: str) -> FormatError:
    return FormatError(
        f"{path}: there is no {name}: Java goes by the zone of its process, which nobody here "
        f"knows {what}; add the property if all writers are in one zone, or write with Apache Hudi"
    )


def _pattern(
    path: str,
    said: Mapping[str, tuple[str, str]],
    key: str,
    text: str,
    letters: str,
    *,
    strict: bool = False,
) -> tuple[_Piece, ...]:
    """Return the pieces of a pattern; strict patterns have fields of fixed width."""
    pieces: list[_Piece] = []
    at = 0

    def refuse(what: str) -> FormatError:
        return _rule_error(path, *said[key], f"{what} in {text!r} is not written here")

    while at < len(text):
        char = text[at]
        if char == "'":
            end = text.find("'", at + 1)
            if end < 0:
                raise refuse("an open quote")
            # Two quotes stand for one quote, inside of a quoted text as well.
            quoted = text[at + 1 : end]
            if not quoted or text[end + 1 : end + 2] == "'":
                raise refuse("a quoted quote")
            pieces.append(_Piece(quoted))
            at = end + 1
            continue
        if not (char.isascii() and char.isalpha()):
            pieces.append(_Piece(char))
            at += 1
            continue
        count = len(text[at:]) - len(text[at:].lstrip(char))
        widths = {"y": (2, 4), "Y": (2, 4), "S": tuple(range(1, 10)), "Z": (1, 2)}
        known: Sequence[int] = widths.get(char, (1, 2))
        if strict and char not in "SZ":
            known = known[-1:]
        if char not in letters or count not in known:
            raise refuse(f"{char * count!r}")
        # The year of an era is the same number; the letter for the year of a week has another
        # meaning.
        pieces.append(_Piece("y" if char == "Y" else char, count))
        at += count
    fields = [one.text for one in pieces if one.count]
    if strict and (len(set(fields)) < len(fields) or "y" not in fields):
        raise refuse("a field twice, or no year,")
    return tuple(pieces)


def _zone(path: str, name: str, text: str) -> str | None:
    """Return the name of a time zone in Arrow. None: it is not a zone."""
    text = text.strip()
    if not text:
        return None
    if text in ("UTC", "GMT"):
        return "UTC"
    found = _GMT.fullmatch(text)
    if found is not None and int(found[2]) < 24 and int(found[3] or 0) < 60:
        return f"{found[1]}{int(found[2]):02}:{found[3] or '00'}"
    # Short names differ between Java and other tables, and Java treats unknown names as GMT.
    if "/" in text:
        try:
            pc.local_timestamp(pa.array([0], pa.timestamp("ms", text)))
        except pa.ArrowException:
            pass
        else:
            return text
    raise _rule_error(
        path, name, text, "supported: UTC, GMT, GMT+08:00 or names such as Asia/Tokyo"
    )


def _in_zone(instants: pa.Array, zone: str) -> pa.Array:
    """Return milliseconds since 1970 as local times of a zone."""
    if zone == "UTC":
        return instants.cast(pa.timestamp("ms"))
    return pc.local_timestamp(
        instants.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("ms", zone))
    )


def _formatted(pattern: Sequence[_Piece], time: datetime) -> str:
    values: dict[str, Callable[[int], str]] = {
        "y": lambda count: f"{time.year % 100:02}" if count == 2 else f"{time.year:04}",
        "M": lambda count: f"{time.month:0{count}}",
        "d": lambda count: f"{time.day:0{count}}",
        "H": lambda count: f"{time.hour:0{count}}",
        "m": lambda count: f"{time.minute:0{count}}",
        "s": lambda count: f"{time.second:0{count}}",
        "S": lambda count: f"{time.microsecond // 1000:03}".ljust(count, "0")[:count],
    }
    return "".join(values[one.text](one.count) if one.count else one.text for one in pattern)


def _may_fit(pattern: Sequence[_Piece], texts: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which texts Joda could match with a pattern."""
    widths = {"y": "[+-]?[0-9]+", "S": "[0-9]+", "Z": "(Z|[+-][0-9:.]*)"}
    regex = "".join(
        widths.get(one.text, "[0-9]{1,2}") if one.count else re.escape(one.text) for one in pattern
    )
    fits: npt.NDArray[np.bool_] = pc.match_substring_regex(texts, f"(?i)^{regex}$").to_numpy(
        zero_copy_only=False
    )
    return fits


def _parsed(
    pattern: Sequence[_Piece], texts: pa.Array
) -> tuple[npt.NDArray[np.bool_], Numbers, Numbers | None]:
    """Return which texts fit a pattern, their times, and their offsets from UTC."""
    regex = "".join(
        f"(?P<{one.text}>{_OFFSET if one.text == 'Z' else _DIGIT * one.count})"
        if one.count
        else re.escape(one.text)
        for one in pattern
    )
    found = pc.extract_regex(texts, f"^{regex}$")
    fits: npt.NDArray[np.bool_] = found.is_valid().to_numpy(zero_copy_only=False)
    fields = {field.name: found.field(at) for at, field in enumerate(found.type)}

    def number(name: str, default: int, places: slice = slice(None)) -> Numbers:
        if name not in fields:
            return np.full(len(texts), default)
        text = pc.utf8_slice_codeunits(fields[name], places.start or 0, places.stop)
        text = pc.if_else(pa.array(fits), text, str(default))
        values: Numbers = text.cast(pa.int64()).to_numpy()
        return values

    year, month, day = number("y", 1970), number("M", 1), number("d", 1)
    hour, minute, second = number("H", 0), number("m", 0), number("s", 0)
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (day - 1)
    fits &= (month >= 1) & (month <= 12) & (day >= 1) & (days.astype("datetime64[M]") == months)
    fits &= (hour < 24) & (minute < 60) & (second < 60) & (year > 1) & (year < 9999)
    times = days.astype("datetime64[ms]").astype(np.int64)
    times += (
        hour * 3_600_000
        + minute * 60_000
        + second * 1000
        + number("S", 0, slice(0, 3))
        * (
            10
            ** max(0, 3 - next((one.count for one in pattern if one.text == "S" and one.count), 3))
        )
    )
    if "Z" not in fields:
        return fits, times, None
    text = pc.replace_substring(fields["Z"], ":", "")
    text = pc.if_else(pc.equal(text, "Z"), "+0000", text)
    text = pc.if_else(pa.array(fits), text, "+0000")
    hours, minutes = (
        pc.utf8_slice_codeunits(text, start, start + 2).cast(pa.int64()).to_numpy()
        for start in (1, 3)
    )
    fits &= (hours < 24) & (minutes < 60)
    sign = np.where(pc.starts_with(text, "-").to_numpy(zero_copy_only=False), -1, 1)
    return fits, times, sign * (hours * 3_600_000 + minutes * 60_000)


def _check_all(fits: npt.NDArray[np.bool_], values: pa.Array, name: str, what: str) -> None:
    if not fits.all():
        row = int(np.argmin(fits))
        raise TimeFaultError(
            row, f"the partition column {name!r} has {values[row].as_py()!r}, {what}"
        )
