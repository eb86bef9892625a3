"""Read columns from `name=value` folders: their names, types and values.

All readers of folders use these rules of Spark. Integers are int32 or int64, larger ones decimals
without a scale. Other numbers are float64, `yyyy-MM-dd` is a date, and `yyyy-MM-dd HH:mm:ss` a
timestamp in UTC. Other values are text. If the values of a column have several types, the column
has the widest of them, or is text if none of them can hold all values.

Source: `PartitioningUtils` of Apache Spark 4.3 (`parsePartition`, `inferPartitionColumnValue`,
`findWiderTypeForPartitionColumn`), and `ExternalCatalogUtils.unescapePathName`.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from decimal import Decimal, InvalidOperation
from functools import reduce
from typing import TypeAlias
from urllib.parse import unquote_to_bytes

import pyarrow as pa

from lookupstore.arrow.types import is_text
from lookupstore.errors import FormatError, listed, printable

#: Value of a column of folders.
Value: TypeAlias = "int | float | str | Decimal | date | datetime | None"
#: Names of columns and their values as in the names of the folders, by ascending depth.
Pairs: TypeAlias = "tuple[tuple[str, str], ...]"

_NULL = "__HIVE_DEFAULT_PARTITION__"
_INSTANT = pa.timestamp("us", "UTC")
_ESCAPE = re.compile("%([0-9a-fA-F]{2})")
_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?)")
_HEX = re.compile(
    r"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+(?=[dDfF]?$)"
)
_DATE = re.compile(r"(\d{4}|\+\d{5,9})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(rf"{_DATE.pattern} (\d\d):(\d\d):(\d\d)(?:\.(\d))?", re.ASCII)
# Characters that Java's `String.trim` removes.
_BLANKS = "".join(map(chr, range(33)))
_DIGITS = 38
# Maximum number of digits of the integers that Spark widens to decimals.
_WIDTHS = {pa.int32(): 10, pa.int64(): 20}


@dataclass(frozen=True)
class FolderColumns:
    """The columns that the names of folders add to the files in them.

    Attributes:
        types: Types of the columns, by name, in the order of the folders.
        pairs: Names and texts of the values, by path of the folder.
    """

    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    pairs: Mapping[str, Pairs] = field(default_factory=dict)

    def values(self, path: str) -> dict[str, Value]:
        """Return the values in the names of the folders of a file, by name of the column."""
        pairs = self.pairs.get(posixpath.dirname(path), ())
        return {name: _value(text, self.types[name]) for name, text in pairs}

    def texts(self, path: str) -> dict[str, str | None]:
        """Return the texts in the names of the folders of a file, by name of the column."""
        return {name: _text(text) for name, text in self.pairs.get(posixpath.dirname(path), ())}

    def with_texts(self, wanted: pa.Schema) -> FolderColumns:
        """Return the columns, as text where a schema has a column of text of that name.

        >>> columns = FolderColumns({"week": pa.int32()}, {"week=07": (("week", "07"),)})
        >>> columns.with_texts(pa.schema({"week": pa.string()})).values("week=07/1.parquet")
        {'week': '07'}
        """
        texts = {one.name for one in wanted if is_text(one.type)}
        types = {name: pa.string() if name in texts else kind for name, kind in self.types.items()}
        return replace(self, types=types)

    def schema(self, stored: pa.Schema) -> pa.Schema:
        """Return the columns of a file together with those of its folders.

        A column of a folder replaces a column of the file with the same name, in any case of
        letters. Other columns of folders follow those of the file.
        """
        names = {name.lower(): name for name in self.types}
        fields = [
            pa.field(name, self.types[name])
            if (name := names.pop(one.name.lower(), None)) is not None
            else one
            for one in stored
        ]
        fields += [pa.field(name, self.types[name]) for name in names.values()]
        return pa.schema(fields)


def folder_columns(
    folders: Iterable[tuple[str | None, str, Iterable[str]]],
) -> list[FolderColumns]:
    """Return the columns of folders, in types that hold the values of all folders.

    Args:
        folders: For each given path: the folder below which names of folders are columns (None:
            none are), the path as errors show it, and the folders of its files.

    Raises:
        FormatError: If the folders of a path have different columns, or a folder has an empty name
            or value, or a date outside the years 1 to 9999.

    >>> (found,) = folder_columns([("/t", "/t", ["/t/day=2026-11-20", "/t/day=2026-11-21"])])
    >>> found.types, found.values("/t/day=2026-11-20/1.parquet")
    ({'day': DataType(date32[day])}, {'day': datetime.date(2026, 11, 20)})
    """
    found = [
        {} if base is None else _pairs(base, shown, sorted(set(inside)))
        for base, shown, inside in folders
    ]
    texts: dict[str, set[str]] = {}
    for one in found:
        for pairs in one.values():
            for name, text in pairs:
                texts.setdefault(name, set()).add(text)
    types = {name: _type(values) for name, values in texts.items()}
    return [
        FolderColumns({name: types[name] for name, _ in next(iter(one.values()), ())}, one)
        for one in found
    ]


def said_by(folder: str) -> dict[str, str | None]:
    """Return the values of the `name=value` folders of a path, by name.

    >>> said_by("day=2026-11-22/region=a%2Fb")
    {'day': '2026-11-22', 'region': 'a/b'}
    """
    return {name: _text(text) for name, text in _parsed(folder)[0]}


def is_as_spark_reads(columns: FolderColumns) -> bool:
    """Return whether Spark reads the names of folders as the same text.

    An escape of a byte beyond ASCII is a part of UTF-8, as other programs write it. Spark reads
    each such escape as one character, and does not escape such characters itself.
    """
    texts = {part for pairs in columns.pairs.values() for pair in pairs for part in pair}
    return not any(int(code, 16) > 127 for text in texts for code in _ESCAPE.findall(text))


def _pairs(base: str, shown: str, folders: list[str]) -> dict[str, Pairs]:
    """Return names and texts by folder, if all folders have the same names."""
    found: dict[str, Pairs] = {}
    first: tuple[str, str, list[str]] | None = None
    for folder in folders:
        below = "" if folder == base else folder[len(base.rstrip("/")) + 1 :]
        pairs, above = _parsed(below)
        for name, text in pairs:
            if not name or not text:
                raise FormatError(
                    f"source: {shown}: a folder in {printable(below)} has an empty "
                    f"{'value' if name else 'name'}; name folders name=value, and those of nulls "
                    f"name={_NULL}"
                )
        names = [name for name, _ in pairs]
        if len({name.lower() for name in names}) < len(names):
            raise FormatError(
                f"source: {shown}: two folders in {printable(below)} give one column; rename one"
            )
        first = (above, below, names) if first is None else first
        if (above, names) != (first[0], first[2]):
            raise FormatError(
                f"source: {shown}: files in {_shown(first[1])} have {_columns(first[2])} of their "
                f"folders, but files in {_shown(below)} have {_columns(names)}; give one folder "
                "or glob for the files of each"
            )
        if pairs:
            found[folder] = pairs
    return found


def _shown(below: str) -> str:
    return printable(below) if below else "the folder itself"


def _columns(names: list[str]) -> str:
    return f"the columns {listed(names)}" if names else "no columns"


def _parsed(folder: str) -> tuple[Pairs, str]:
    """Return the names and texts of columns in a path, and the path above them.

    Only adjacent folders count: a folder without a column ends them.
    """
    parts = folder.split("/") if folder else []
    pairs: list[tuple[str, str]] = []
    above = len(parts)
    while above:
        name, sign, text = parts[above - 1].partition("=")
        if sign:
            pairs.append((_unescaped(name), text))
        elif pairs:
            break
        above -= 1
    # A folder without columns is not above folders of columns, and may be anywhere.
    return tuple(reversed(pairs)), "/".join(parts[:above]) if pairs else ""


def _text(text: str) -> str | None:
    return None if text == _NULL else _unescaped(text)


def _unescaped(text: str) -> str:
    if "%" not in text:
        return text
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def _type(texts: Iterable[str]) -> pa.DataType:
    """Return the type of a column, text if all of its values are nulls."""
    kind = reduce(_wider, map(_kind, sorted(texts)), pa.null())
    return pa.string() if pa.types.is_null(kind) else kind


def _kind(text: str) -> pa.DataType:
    """Return the type of one value."""
    if text == _NULL:
        return pa.null()
    if _INTEGER.fullmatch(text):
        for kind, bits in ((pa.int32(), 31), (pa.int64(), 63)):
            if -(1 << bits) <= int(text) < 1 << bits:
                return kind
    if (digits := _digits(text)) is not None:
        return pa.decimal128(digits, 0)
    if _double(text) is not None:
        return pa.float64()
    if _time(_unescaped(text)) is not None:
        return _INSTANT
    return pa.string() if _date(text) is None else pa.date32()


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type that holds the values of two types."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    kinds = {one, other}
    if kinds == {pa.int32(), pa.int64()}:
        return pa.int64()
    if kinds == {pa.int32(), pa.float64()}:
        return pa.float64()
    if kinds == {pa.date32(), _INSTANT}:
        return _INSTANT
    widths = [_WIDTHS.get(kind) or getattr(kind, "precision", 0) for kind in (one, other)]
    return pa.decimal128(max(widths), 0) if all(widths) else pa.string()


def _value(text: str, kind: pa.DataType) -> Value:
    if text == _NULL:
        return None
    if pa.types.is_string(kind):
        return _unescaped(text)
    if pa.types.is_integer(kind):
        return int(text)
    if pa.types.is_decimal(kind):
        return Decimal(int(Decimal(text)))
    if pa.types.is_floating(kind):
        return _double(text)
    if pa.types.is_date(kind):
        return _date(text)
    found = _time(_unescaped(text))
    if found is None:
        day = _date(text)
        assert day is not None
        found = datetime(day.year, day.month, day.day, tzinfo=timezone.utc)
    return found


def _digits(text: str) -> int | None:
    """Return the number of digits of an integer.

    None: It is no integer, or too long.
    """
    if not _DECIMAL.fullmatch(text):
        return None
    try:
        _, digits, exponent = Decimal(text).as_tuple()
    except InvalidOperation:
        return None
    assert isinstance(exponent, int)
    return len(digits) + exponent if 0 <= exponent <= _DIGITS - len(digits) else None


def _double(text: str) -> float | None:
    text = text.strip(_BLANKS)
    if _DOUBLE.fullmatch(text):
        return float(text if text[-1] in "Ny" else text.rstrip("dDfF"))
    if not (found := _HEX.match(text)):
        return None
    try:
        return float.fromhex(found[0])
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def _date(text: str) -> date | None:
    found = _DATE.fullmatch(text)
    return None if found is None else _day(found, text)


def _time(text: str) -> datetime | None:
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    day = _day(found, text)
    hour, minute, second = map(int, found.group(4, 5, 6))
    if day is None or hour > 23 or minute > 59 or second > 59:
        return None
    micros = int(found[7] or 0) * 100_000
    return datetime(day.year, day.month, day.day, hour, minute, second, micros, tzinfo=timezone.utc)


def _day(found: re.Match[str], text: str) -> date | None:
    year, month, day = map(int, found.group(1, 2, 3))
    try:
        return date(year, month, day)
    except ValueError:
        if 1 <= year <= 9999:
            return None
    try:
        date(2000 + year % 400, month, day)
    except ValueError:
        return None
    raise FormatError(
        f"source: the value {text!r} of a folder is a date beyond the years 1 to 9999; rename the "
        "folder"
    )
