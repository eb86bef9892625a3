"""Filters in SQL: the rows that DuckDB finds, or a plain refusal.

They change each day; LOOKUPSTORE_TEST_SEED=N repeats a run that printed N.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lookupstore.filters.filter import filter_expression
from lookupstore.hudi import HudiTable

pytest.importorskip("sqlglot")

FILTERS = 20_000
_EACH = 100
_ROWS, _FILES = 240, 8
_DAY = date(2026, 3, 7)
_NOON = datetime(2026, 3, 7, 12)
_TEXTS = ["", "a", "ab", "abc", "a%b", "a_b", "a\\b", "a\\%b", "%", "_", "\\", "b", "B", "é", "aéb",
          "it's", "a\nb", "a.b", "(", "[x]", "^a$", "\U0001f600", "x" * 90]  # fmt: skip

# Of each column: its type, and its values.
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i32": (pa.int32(), [-(2**31), -7, -1, 0, 1, 2, 3, 50, 2**31 - 1]),
    "i64": (pa.int64(), [-(2**63), -1, 0, 1, 2, 3, 99, 2**31, 2**53 + 1, 2**63 - 1]),
    "f32": (pa.float32(), [-1.5, -0.0, 0.0, 0.1, 1.0, 2.5, 2.0**24, 3e38]),
    "f64": (pa.float64(), [-1e300, -0.1, -0.0, 0.0, 0.1, 1.0, 2.0**53, 1e300]),
    "ok": (pa.bool_(), [False, True]),
    "s": (pa.string(), _TEXTS),
    "Day": (pa.date32(), [_DAY + timedelta(days) for days in (-40000, -2, -1, 0, 1, 2, 400)]),
    "at": (pa.timestamp("us", "UTC"), [
        (_NOON + timedelta(microseconds=us)).replace(tzinfo=timezone.utc)
        for us in (-(10**15), -43_200_000_000, -1000, -1, 0, 1, 1000, 10**12)]),
    "ms": (pa.timestamp("ms", "UTC"), [
        (_NOON + timedelta(milliseconds=ms)).replace(tzinfo=timezone.utc)
        for ms in (-(10**12), -43_200_000, -1, 0, 1, 10**9)]),
    "d": (pa.decimal128(9, 2), [Decimal(one) for one in (
        "-9999999.99", "-1.50", "-0.01", "0.00", "0.01", "1.50", "9999999.99")]),
    "big": (pa.decimal128(20, 3), [Decimal(one) for one in ("-5", "0", "0.001", "1.5", "1e15")]),
}  # fmt: skip


def columns_of_rows(rng: random.Random) -> dict[str, list[Any]]:
    """Return random values, sorted by a column of theirs, so that files have ranges."""
    data = {
        name: [None if rng.random() < 0.1 else rng.choice(values) for _ in range(_ROWS)]
        for name, (_, values) in COLUMNS.items()
    }
    by = rng.choice(list(COLUMNS))
    order = sorted(range(_ROWS), key=lambda at: (data[by][at] is not None, data[by][at] or 0)
                   if by not in ("s", "Day", "at", "ms") else str(data[by][at]))  # fmt: skip
    return {name: [values[at] for at in order] for name, values in data.items()}


def table_of(path: Path, rng: random.Random) -> HudiTable:
    schema = pa.schema([("id", pa.int64()), *((name, one) for name, (one, _) in COLUMNS.items())])
    rows = pa.table({"id": range(_ROWS), **columns_of_rows(rng)}, schema=schema)
    table = HudiTable.create(path, schema, record_key=["id"])
    table.collect_statistics()
    for start in range(0, _ROWS, _ROWS // _FILES):
        table.bulk_insert(rows.slice(start, _ROWS // _FILES))
    return table


class Texts:
    """Random conditions in SQL.

    Args:
        rng: to choose by.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def condition(self, depth: int) -> str:
        """Return one; parentheses are left out here and there, for the parser to tell."""
        rng = self._rng
        if depth == 0:
            return self._leaf()
        kind = rng.choice(("and", "or", "AND", "Or", "not"))
        one = self.condition(depth - 1)
        if kind == "not":
            return f"not ({one})" if rng.random() < 0.7 else f"not {one}"
        other = self.condition(rng.randrange(depth))
        return f"({one} {kind} {other})" if rng.random() < 0.5 else f"{one} {kind} {other}"

    def _leaf(self) -> str:
        rng = self._rng
        name = rng.choice(list(COLUMNS))
        shown = f'"{name}"' if rng.random() < 0.2 else name
        word = rng.choice(("=", "!=", "<>", "<", "<=", ">", ">="))
        no = rng.choice(("", "not "))
        makers: list[Callable[[], str]] = [
            lambda: f"{shown} {word} {self._value(name)}",
            lambda: f"{shown}{word}{self._value(name)}",
            lambda: f"{self._value(name)} {word} {shown}",
            lambda: f"{shown} {no}between {self._exact(name)} and {self._exact(name)}",
            lambda: f"{shown} {no}in ({', '.join(self._values(name))})",
            lambda: f"{shown} is {no}null",
            lambda: f"({shown} {word} {self._value(name)}) is {no}{rng.choice(_ANSWERS)}",
            lambda: f"{self._cast(name, shown)} {word} {self._value(name)}",
            lambda: rng.choice(("true", "false", "null", "1 < 2", "'b' = 'a'")),
        ]
        if name == "s":
            makers += [self._like] * 6
            makers += [
                lambda: f"starts_with(s, {quoted(rng.choice(_TEXTS))})",
                lambda: f"length(s) {word} {rng.randrange(4)}",
                lambda: f"{rng.choice(('lower', 'upper'))}(s) {word} {self._value(name)}",
            ]
        if name == "ok":
            makers += [lambda: f"{no}ok", lambda: f"ok is {no}{rng.choice(_ANSWERS)}"]
        if name in ("i32", "i64"):
            makers.append(lambda: f"i32 {word} i64")
        return rng.choice(makers)()

    def _cast(self, name: str, shown: str) -> str:
        to = {
            "i32": "bigint", "i64": "decimal(21, 2)", "f32": "double", "d": "decimal(12, 4)",
            "at": "timestamptz", "s": "varchar",
        }.get(name)  # fmt: skip
        if to is None:
            return shown
        return self._rng.choice((f"cast({shown} as {to})", f"{shown}::{to}"))

    def _values(self, name: str) -> list[str]:
        return [self._exact(name) for _ in range(self._rng.randrange(1, 5))]

    def _exact(self, name: str) -> str:
        """Return a value; of several, DuckDB takes all for doubles if it takes one for one."""
        while True:
            value = self._value(name)
            if "e" not in value or name not in ("i32", "i64", "f32", "f64", "d", "big"):
                return value

    def _value(self, name: str) -> str:
        rng = self._rng
        kind, values = COLUMNS[name]
        if rng.random() < 0.04:
            return "null"
        value = rng.choice(values)
        if pa.types.is_boolean(kind):
            return str(value).lower()
        if pa.types.is_string(kind):
            return quoted(value)
        if pa.types.is_date(kind):
            return rng.choice((f"'{value}'", f"date '{value}'", f"timestamp '{value} 00:00:00.5'",
                               f"cast('{value}' as date)"))  # fmt: skip
        if pa.types.is_timestamp(kind):
            naive = value.replace(tzinfo=None) + timedelta(microseconds=rng.choice((0, 0, 1, -1)))
            east = (naive + timedelta(hours=5, minutes=30)).isoformat(" ")
            return rng.choice((f"'{naive}'", f"timestamp '{naive}'", f"timestamptz '{naive}+00'",
                               f"'{east}+05:30'", f"date '{naive.date()}'"))  # fmt: skip
        if pa.types.is_floating(kind):
            return rng.choice((repr(float(value)), "0.1", "1", "-1.5", "16777217", "1e-1", "-0.0"))
        small = rng.choice(("0", "1", "-1", "1.5", "-0.005", "2.499", "1e0", "5e-1", "- 7", "+2"))
        if pa.types.is_decimal(kind):
            return rng.choice((small, f"{value:f}", "99999999999", "cast(1.5 as decimal(9, 2))"))
        return rng.choice((small, str(value), str(value), "3000000000", "-3000000000"))

    def _like(self) -> str:
        rng = self._rng
        text = rng.choice(_TEXTS)
        at = rng.randrange(len(text) + 1)
        pattern = rng.choice(
            (
                f"{text}%",
                text,
                f"%{text}%",
                f"%{text}",
                f"{text[:at]}%",
                f"{text[:at]}_{text[at + 1 :]}",
                f"{text[:at]}%{text[at:]}",
                "__%",
            )
        )
        no, escape = rng.choice(("", "not ")), rng.choice(("", "", "!", "\\", "a"))
        if escape:
            at = rng.randrange(len(pattern) + 1)
            pattern = f"{pattern[:at]}{escape}{pattern[at:] or escape}"
            return f"s {no}like {quoted(pattern)} escape '{escape}'"
        return f"s {no}like {quoted(pattern)}"


_ANSWERS = ("true", "false", "null", "unknown")


def quoted(text: str) -> str:
    """Return a text as SQL has it."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def ids(rows: pa.Table) -> list[int]:
    found: list[int] = sorted(rows["id"].to_pylist())
    return found


@pytest.mark.few(1)
@pytest.mark.parametrize("number", range(FILTERS // _EACH))
def test_the_rows_are_those_of_duckdb(number: int, tmp_path: Path, seed_of_the_day: int) -> None:
    seed = seed_of_the_day * 100_000 + number
    rng = random.Random(seed)
    table = table_of(tmp_path / "t", rng)
    rows = table.scan()
    oracle: Any = duckdb.connect()
    oracle.execute("set timezone = 'UTC'; set threads = 1")
    oracle.execute("create table t as select * from rows")
    texts = Texts(rng)
    asked = refused = skipped = some = 0
    for _ in range(_EACH):
        text = texts.condition(rng.choice((0, 0, 1, 1, 2, 3)))
        said = f"seed {seed}: {text}"
        try:
            expected = sorted(
                one for (one,) in oracle.execute(f"select id from t where {text}").fetchall()
            )
        except duckdb.Error:
            expected = None
        if expected is None:
            continue
        try:
            found = ids(table.scan(columns=["id"], filter=text))
        except ValueError as error:
            print(f"{said}: {error}")
            refused += 1
            continue
        assert found == expected, said
        assert ids(rows.filter(filter_expression(text, table.schema))) == expected, said
        funnel = table.explain_scan(text)
        skipped += funnel.files.count - funnel.statistics.count
        asked, some = asked + 1, some + (0 < len(found) < _ROWS)
    print(f"seed {seed}: {asked} filters, {some} of some rows, {refused} refused, "
          f"{skipped} files skipped")  # fmt: skip
    assert asked > 0.7 * _EACH
    assert refused < 0.05 * _EACH
    assert skipped > 0.3 * _EACH


NULL = pc.scalar(pa.scalar(None, pa.bool_()))
SCHEMA = pa.schema(
    {
        "id": pa.int64(), "small": pa.int8(), "x": pa.float64(), "s": pa.string(),
        "day": pa.date32(), "at": pa.timestamp("us", "UTC"), "local": pa.timestamp("us"),
        "time": pa.time64("us"), "b": pa.binary(), "ok": pa.bool_(), "d": pa.decimal128(9, 2),
        "list": pa.list_(pa.int64()), 'a "quoted" one': pa.int64(), "Id": pa.int64(),
    }
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id = 3", pc.field("id") == 3),
        ("Id = 3", pc.field("Id") == 3),
        ('"a ""quoted"" one" = 3', pc.field('a "quoted" one') == 3),
        ('`a "quoted" one` = 3', pc.field('a "quoted" one') == 3),  # as Spark quotes names
        ("`s` = '`'", pc.field("s") == "`"),
        ("time < '10:30'", pc.field("time") < pa.scalar(time(10, 30))),
        ("b = 'ab'", pc.field("b") == b"ab"),
        ("local >= '2026-03-07'", pc.field("local") >= pa.scalar(datetime(2026, 3, 7))),
        ("s like 'ab%'", pc.starts_with(pc.field("s"), "ab")),
        ("s like 'ab'", pc.field("s") == "ab"),
        ("isnan(x)", pc.is_nan(pc.field("x"))),
        ("small < 1000", pc.field("small").is_valid() | NULL),
        ("small > 1000", pc.field("small").is_null() & NULL),
        ("small = 1.5", pc.field("small").is_null() & NULL),
        ("d > 1.239", pc.field("d") > pa.scalar(Decimal("1.23"))),
        ("id > 9007199254740993", pc.field("id") > 2**53 + 1),
        ("id = 1 -- a comment", pc.field("id") == 1),
    ],
)
def test_what_a_text_is_in_arrow(text: str, expected: pc.Expression) -> None:
    found = filter_expression(text, SCHEMA)
    if not found.equals(expected):  # but for the types of its values
        assert str(found) == str(expected)


@pytest.mark.parametrize("zone", ["+23:59", "-23:59", "+01:59", "-00:59"])
def test_a_time_has_a_zone_up_to_its_last_minute(zone: str) -> None:
    text = f"2026-03-07 23:59:59{zone}"
    expected = pc.field("at") == pa.scalar(datetime.fromisoformat(text), pa.timestamp("us", "UTC"))
    assert str(filter_expression(f"at = '{text}'", SCHEMA)) == str(expected)
    for wrong in (zone[:-2] + "60", zone[0] + "24:00"):
        with pytest.raises(ValueError, match="is no timestamp"):
            filter_expression(f"at = '2026-03-07 23:59:59{wrong}'", SCHEMA)


@pytest.mark.parametrize("word", ["=", "<", ">="])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array(["a", "b", "é", None]), pa.array(["b", "b", "e", "a"], pa.large_string())),
        (pa.array([1, 2, 3, None], pa.int32()), pa.array([0.5, 2.0, float("inf"), 1.0])),
        (pa.array([1, 2, 3, None]), pa.array([1, 2, 2, 2], pa.int16())),
        (pa.array([Decimal("1.5"), Decimal(2), Decimal(3), None]), pa.array([1, 2, 3, 4])),
    ],
    ids=["texts", "floats", "integers", "decimals"],
)
def test_columns_of_kindred_types_are_compared(word: str, one: pa.Array, other: pa.Array) -> None:
    rows = pa.table({"one": one, "other": other})
    for text in (f"one {word} other", f"other {word} one"):
        expected = duckdb.sql(f"select * from rows where {text}").arrow().read_all()
        assert rows.filter(filter_expression(text, rows.schema)).to_pylist() == expected.to_pylist()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nope = 1", "nope is no column; the table has 'id', 'small'"),
        ("ID = 1", "ID is no column"),
        ('s = "ab"', "texts are in single quotes"),
        ("year(day) = 2026", "YEAR(day) is no column, and not read"),
        ("id = 1 and year(day) = 2026", "YEAR(day) is no column, and not read"),
        ("id + 1 > 2", "id + 1 is no column, and not read"),
        (
            "day = 2026-03-01",
            "texts and dates are in single quotes, such as '2026-03-01'",
        ),
        ("id = id - 1", "id - 1 is no column, and not read; compare a column, or its length, "),
        ("at < now()", "NOW() is not read; compute the time first, and compare the column"),
        ("at < now() - interval 30 day", "NOW() - INTERVAL '30' DAY is not read; compute the "),
        ("at > timestamptz '2026-03-01' - interval '1' day", "is not read; compute the time first"),
        ("day < current_date and id > 3", "CURRENT_DATE is not read; compute the time first"),
        ("current_timestamp > at", "CURRENT_TIMESTAMP is not read; compute the time first"),
        ("at between now() - interval 1 day and now()", "is not read; compute the time first"),
        ("at + interval 1 hour < local", "is not read; compute the time first"),
        ("at < date_add(now(), interval 1 day)", "is not read; compute the time first"),
        ("substr(s, 1, 2) = 'a'", "is not read; compare a column, or its length, lower or upper"),
        ("cast(id as smallint) = 1", "may lose something; leave out the cast"),
        ("t.id = 1", "t.id is no column; write id"),
        ("id in (select 1)", "is not read"),
        ("id in (1, small)", "give a list of values"),
        ("exists (select 1)", "is not read; write columns, comparisons, and, or, not, in, "),
        ("s ilike 'a'", "is not read"),
        ("s like any ('a', 'b')", "write the text itself"),
        ("s like 'a!' escape '!'", "the pattern ends with '!'"),
        ("s like 'a' escape ''", "one character"),
        ("id between symmetric 1 and 2", "is not read"),
        ("id < 1 < 2", "is no column"),
        ("id is distinct from 1", "is not read"),
        ("try_cast(s as bigint) = 1", "is not read"),
        ("cast(s as bigint) = 1", "makes int64 of string"),
        ("cast(x as bigint) = 1", "makes int64 of double, which may lose something; leave out "),
        ("s = 5", "put it in single quotes"),
        ("s >= date '2026-03-01'", "give only the text of the date, such as '2026-03-07'"),
        ("s < timestamp '2026-03-01 10:00:00'", "text of the timestamp, such as '2026-03-07 12:"),
        ("id = 'x'", "'x' is no number; write one, such as 1.5"),
        ("id = '1.5'", "write the number without quotes"),
        ("day = 'x'", "is no date; write it as '2026-03-07'"),
        ("day = '2026-02-30'", "is no date"),
        ("day = 20260307", "date32[day]; write DATE '2026-03-07'"),
        ("local = '2026-03-07 12:00:00Z'", "leave out the zone"),
        ("at = '2026-03-07 25:00:00'", "is no timestamp"),
        ("at = local", "compares timestamp[us, tz=UTC] with timestamp[us]"),
        ("ok = 1", "write true or false"),
        ("x = 'nan'", "'nan' is no number; call isnan(column) to find NaN"),
        ("x = 1e999", "is a number that no type has"),
        ("x = 1e399", "beyond what a double can be"),
        ("b = '\\x00'", "give an expression of pyarrow.compute"),
        ("list = 1", "only `is null` is read of such columns"),
        ("id", "is int64, and no condition"),
        ("id = $1", "is no column"),
        ("id = ?", "is no column"),
        ("id = 1; drop table t", "is no condition in SQL"),
        ("id = 1) or (id = 2", "is no condition in SQL"),
        ("id = ", "is no condition in SQL"),
        ("", "filter: the text is empty; give a condition, such as a >= 3"),
        ("`id = 1", "close its quotes"),
        ("select 1", "is no condition in SQL"),
        ("s = 'ab", "close its quotes"),
        ("s = 'a' 'b'", "is not read"),
        ("(" * 200 + "id = 1" + ")" * 200, "100 levels"),
        ("not " * 5000 + "ok", "100 levels"),
        ("case when " * 3000, "filter: "),
        ("id = 1 or " * 200_000 + "ok", "characters"),
        ("s = '\ud800'", "lone surrogates"),
        ("__import__('os').system('false')", "not read"),
        ("\x00", "filter: "),
    ],
)
def test_what_is_not_understood_is_named(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"^filter: ") as error:
        filter_expression(text, SCHEMA)
    assert said in str(error.value)
    assert len(str(error.value)) < 600


def test_the_remedy_can_be_typed() -> None:
    for text, said in (
        ("day = 7", "write DATE '2026-03-07'"),
        ("at = 7", "'2026-03-07 12:30:00.5'"),
    ):
        with pytest.raises(ValueError, match=r"; write .*'2026-03-07") as error:
            filter_expression(text, SCHEMA)
        assert said in str(error.value)
        assert "..." not in str(error.value)


def test_long_filters_are_read(tmp_path: Path) -> None:
    """A chain of ten thousand parts, of which Arrow would otherwise make as many levels."""
    rows = pa.table({"id": [1, 5, 20_000]})
    text = " or ".join(f"id = {one}" for one in range(0, 10_000, 5))
    assert rows.filter(filter_expression(text, rows.schema))["id"].to_pylist() == [5]
    text = f"id not in ({', '.join(map(str, range(10_000)))})"
    assert rows.filter(filter_expression(text, rows.schema))["id"].to_pylist() == [20_000]


def test_nan_compares_with_nothing_as_in_other_filters(tmp_path: Path) -> None:
    nan = float("nan")
    table = HudiTable.create(tmp_path / "t", pa.schema({"id": pa.int64(), "x": pa.float64()}),
                             record_key=["id"])  # fmt: skip
    table.collect_statistics()
    for at, values in enumerate(([1.0, nan], [1.0, 2.0], [nan, None])):
        table.bulk_insert(pa.table({"id": [2 * at, 2 * at + 1], "x": values}))
    for text, expected in {
        "x < 5": [0, 2, 3],
        "not x < 5": [1, 4],
        "x <> 1": [1, 3, 4],
        "x not in (1, 2)": [1, 4],
        "isnan(x)": [1, 4],
        "x is null": [5],
        "x between 0 and 9": [0, 2, 3],
    }.items():
        assert ids(table.scan(filter=text)) == expected, text


def test_every_door_takes_sql(tmp_path: Path) -> None:
    rng = random.Random(7)
    table = table_of(tmp_path / "t", rng)
    rows = table.scan()
    text = "i32 >= 1 and s is not null"
    expected = ids(rows.filter((pc.field("i32") >= 1) & pc.field("s").is_valid()))
    assert 0 < len(expected) < _ROWS
    assert ids(table.scan(filter=[text])) == expected
    assert ids(table.scan(filter=["i32 >= 1", ("s", "is not null")])) == expected
    assert ids(table.scan(filter=text, audit=1)) == expected
    assert ids(table.incremental(filter=text)) == expected
    assert ids(pa.Table.from_batches(table.scan_batches(filter=text))) == expected
    either = [["i32 = 1"], ["i32 = 2 or i32 = 3"]]
    assert ids(table.scan(filter=either)) == ids(table.scan(filter="i32 in (1, 2, 3)"))
    assert table.explain_scan("i64 = 98.5 or d > 1e9").statistics.count == 0


def test_sql_without_its_parser_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['sqlglot'] = None\n"
        "import pyarrow as pa\n"
        "from lookupstore.filters import filter_expression as filter\n"
        "schema = pa.schema({'a': pa.int64()})\n"
        "filter(('a', '=', 1), schema)\n"
        "try:\n    filter('a = 1', schema)\n"
        "except ImportError as error:\n    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.strip() == (
        "a filter in SQL needs sqlglot: pip install 'lookupstore[hudi]'"
    ), run.stderr


def test_only_sql_loads_the_parser() -> None:
    code = (
        "import sys, pyarrow as pa\n"
        "from lookupstore.filters import filter_expression as filter\n"
        "schema = pa.schema({'a': pa.int64()})\n"
        "filter([('a', '=', 1)], schema)\nprint('sqlglot' in sys.modules)\n"
        "filter('a = 1', schema)\nprint('sqlglot' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "True"]


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_the_end_of_the_year_9999(tmp_path: Path, zone: str | None) -> None:
    """A comparison with a time may be one with the next day, which Python does not have."""
    end = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=zone and timezone.utc)
    rows = pa.table(
        {
            "id": [1, 2, 3],
            "at": pa.array([end, end.replace(year=2026), None], pa.timestamp("us", zone)),
            "day": [date(9999, 12, 31), date(2026, 1, 1), None],
        }
    )
    table = HudiTable.create(tmp_path, rows, record_key="id")
    table.insert(rows)
    table.cluster(by=["at", "day"])
    ends = ("9999-12-31", "9999-12-31 23:59:59", "9999-12-31 23:59:59.999999")
    oracle: Any = duckdb.connect()
    oracle.execute("set timezone = 'UTC'")
    oracle.register("rows", rows)
    for column in ("at", "day"):
        for moment in ends:
            for word in ("<", "<=", "=", ">", ">=", "<>"):
                for text in (f'"{column}" {word} timestamp \'{moment}\'',
                             f'not "{column}" {word} timestamp \'{moment}\''):  # fmt: skip
                    if zone and column == "at":
                        text = text.replace("timestamp", "timestamptz")
                    expected = oracle.execute(f"select id from rows where {text}").fetchall()
                    found = table.scan(columns=["id"], filter=text).column(0).to_pylist()
                    assert sorted(found) == sorted(one for (one,) in expected), text
                    assert str(table.explain_scan(text))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Kunden Nr = 7", '"Kunden Nr"'),
        ("Kunden Nr > 5 and Kunden Nr < 9", '"Kunden Nr"'),
        ("Größe (cm) > 100", '"Größe (cm)"'),
        ("a-b > 1", '"a-b"'),
        ('in " > 1', '"in """'),
    ],
)
def test_names_that_need_double_quotes(text: str, name: str) -> None:
    columns = pa.schema([(one, pa.int64()) for one in ("Kunden Nr", "Größe (cm)", "a-b", 'in "')])
    said = f" is not understood; write the column as {re.escape(name)}$"
    with pytest.raises(ValueError, match=said):
        filter_expression(text, columns)
    filter_expression(f"{name} > 1", columns)
    with pytest.raises(ValueError, match="x is no column"):
        filter_expression("x = 'Kunden Nr'", columns)
