"""Random filters in SQL, by a grammar or damaged, over every function and type that DuckDB has."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, datetime, time, timezone
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

ROWS = pa.table(
    {
        "id": pa.array(range(12), pa.int64()),
        "small": pa.array([None, -128, -1, 0, 1, 2, 3, 5, 7, 99, 127, 1], pa.int8()),
        "x": pa.array([None, -1.5, -0.0, 0.0, 0.1, 1.0, 2.5, 1e300, -1e300, 3.0, 7.0, 1.0]),
        "s": ["", "a", "ab", None, "a%b", "a_b", "B", "é", "it's", "a\nb", "1", "x" * 90],
        "ok": [None, True, False, True, None, False, True, True, False, None, True, False],
        "day": pa.array([date(2026, 3, 1 + at) if at % 5 else None for at in range(12)]),
        "moment": pa.array(
            [datetime(2026, 3, 7, at, tzinfo=timezone.utc) for at in range(12)],
            pa.timestamp("us", "UTC"),
        ),
        "clock": pa.array([time(at, 30) for at in range(12)], pa.time64("us")),
        "d": pa.array([None, *(Decimal(at - 5) / 4 for at in range(11))], pa.decimal128(9, 2)),
        "list": [[at] for at in range(12)],
    }
)
# A value in each line, as in the lists below; long ones are made longer.
_VALUES = (*r"""
0|1|-1|1.5|- 2|1e0|3000000000|1e999|.5|5.|0x1F|1_000|$1|?|null|true|false|'a'|'1'|'it''s'|''|'a%'
|'\x00'|'é'|date '2026-03-07'|'2026-03-07'|timestamptz '2026-03-07 05:00:00+00'|'05:30:00'
|timestamp '2026-03-07 00:00:00'|time '05:30:00'|interval 1 day|E'a\n'|$$a$$|x'ab'|[1]|{'a': 1}
|(1, 2)
""".replace("\n", "").split("|"), "9" * 40)  # fmt: skip
_VALUES_OF = {
    **dict.fromkeys(("id", "small", "x", "d"), ("0", "1", "-1", "1.5", "7", "null", "127")),
    **dict.fromkeys(("list", "ok"), ("true", "false", "null")),
    "s": ("'a'", "'ab'", "''", "'é'", "null"),
    "day": ("'2026-03-03'", "date '2026-03-07'", "null", "timestamp '2026-03-07 01:00:00'"),
    "moment": ("'2026-03-07 05:00:00'", "timestamptz '2026-03-07 05:00:00+00'", "null"),
    "clock": ("'05:30'", "time '07:30:00'", "null"),
}
_COMPARISONS = ("=", "!=", "<>", "<", "<=", ">", ">=", "==")
_WORDS = ("is distinct from", "like", "ilike", "glob", "similar to", "~", "~~", "^@", "||", "+",
          "-", "*", "/", "//", "%", "**", "&", "|", "<<", "->", "->>")  # fmt: skip
_WHOLE_TYPES = (*"""
int[];int[3];int[][];map(int, int);struct(a int);struct(a int[], b map(int, int));decimal;foo
;decimal(9);decimal(9, 2);decimal(99, 1);decimal(2, 5);decimal(-1);decimal(a);decimal(0);foo.bar
;decimal(1, 2, 3);varchar(3);varchar(a);union(a int, b text);enum('a', 'b');row(a int);"a b"
;timestamp(3);timestamp with time zone;time with time zone;int unsigned;double precision;[];null
;character varying;int(3);struct();map(int);int[;bit(3)
""".replace("\n", "").split(";"), "decimal(" + "9" * 5000 + ")")  # fmt: skip
_NOISE = (
    *"()[]{},.:;?$@'", "::", '"', "--", "/*", "*/", "array[", "struct<", "9", "e", "case", "lambda",
    "not ", "and ", "or ", "is ", "in ", "as ", "case when ", " then ", " end", "select ", "over ",
    "if ", "values ", "between ", "escape ", "lambda x: ", "\0", "\n", "\ud800", "\u2028",
)  # fmt: skip
_PIECES = (*_NOISE, *_VALUES, *_COMPARISONS, *_WORDS, "is true ", "is not false ", "lower(",
           "::int", " ok ", "cast(", " as int)", "s", "id")  # fmt: skip
_ANSWERS = ("true", "false", "null", "unknown")


@cache
def type_names() -> tuple[str, ...]:
    """Return the types of DuckDB, with some that take arguments."""
    found = duckdb.sql("select distinct type_name from duckdb_types() order by 1").fetchall()
    return (*(name for (name,) in found), *_WHOLE_TYPES)


@cache
def function_names() -> tuple[str, ...]:
    """Return the functions of DuckDB that have names of letters."""
    found = duckdb.sql("select distinct function_name from duckdb_functions() order by 1")
    return tuple(name for (name,) in found.fetchall() if name.replace("_", "").isalnum())


class FilterTexts:
    """Random filters.

    Args:
        rng: to choose by.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def text(self, depth: int) -> str:
        """Return a condition, damaged at times."""
        found = self.condition(depth)
        return self.damaged(found) if self._rng.random() < 0.3 else found

    def long_text(self, length: int) -> str:
        """Return a filter of so many characters: a chain of conditions, or one part many times."""
        rng = self._rng
        if rng.random() < 0.5:
            parts = [self.condition(rng.randrange(3))]
            while sum(map(len, parts)) < length:
                parts += [rng.choice((" and ", " or ")), self.text(rng.randrange(3))]
            return "".join(parts)[:length]
        before, after = ("".join(self._pieces()) for _ in range(2))
        count = length // max(1, len(before) + len(after))
        return before * count + self.condition(0) + after * count

    def damaged(self, text: str) -> str:
        """Return a text in which pieces are gone, doubled, moved or new."""
        rng = self._rng
        for _ in range(rng.choice((1, 1, 2, 5))):
            at, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
            piece = text[at : min(end, at + 30)]
            text = rng.choice(
                (
                    text[:at] + text[at + len(piece) :],
                    text[:at] + piece * rng.choice((2, 2, 20)) + text[at:],
                    text[:at] + rng.choice(_NOISE) + text[at:],
                    text[:at] + rng.choice(_NOISE) * rng.choice((2, 20, 200)) + text[at:],
                )
            )
        return text

    def condition(self, depth: int) -> str:
        """Return a condition with so many others in it, one in another."""
        rng = self._rng
        if depth <= 0:
            return self._leaf()
        one, other = self.condition(depth - 1), self.condition(rng.randrange(depth))
        no = rng.choice(("", "not "))
        return rng.choice(
            (
                f"{one} and {other}", f"{one} or {other}",
                f"({one} and {other})", f"({one} or {other})",
                f"not {one}", f"not ({one})", f"({one}) is {no}{rng.choice(_ANSWERS)}",
                f"({one}) is {no}{rng.choice(_ANSWERS)}", f"{one} is {no}{rng.choice(_ANSWERS)}",
                f"({one}) = ({other})", f"case when {one} then {other} end",
                f"coalesce({one}, {other})", f"if({one}, {other}, ok)",
            )
        )  # fmt: skip

    def _pieces(self) -> list[str]:
        rng = self._rng
        return [f"{rng.choice(_PIECES)}{rng.choice(('', ' '))}" for _ in range(rng.randrange(4))]

    def _leaf(self) -> str:
        rng = self._rng
        name = rng.choice(ROWS.column_names)
        value, other = self._value_of(name), self._value_of(name)
        no = rng.choice(("", "not "))
        word = rng.choice(_COMPARISONS if rng.random() < 0.8 else _WORDS)
        pattern = rng.choice(("a%", "%b", "_", "a!%b", "%"))
        makers: list[Callable[[], str]] = [
            lambda: f"{name} {word} {value}",
            lambda: f"{value} {word} {name}",
            lambda: f"{name} {word} {rng.choice(ROWS.column_names)}",
            lambda: f"{name} {no}between {value} and {other}",
            lambda: f"{name} {no}in ({value}, {other})",
            lambda: f"{name} is {no}{rng.choice(_ANSWERS)}",
            lambda: f"s {no}like {value}",
            lambda: f"s {no}like '{pattern}' escape '{rng.choice(('!', 'a', ''))}'",
            lambda: f"{no}{rng.choice(('ok', 'true', 'null', name))}",
            lambda: f"{self._cast(name)} {word} {value}",
            lambda: f"{name} {word} {self._cast(value)}",
            lambda: f"{self._call(name)} {word} {value}",
            lambda: f"{no}{self._call(name)}",
        ]  # fmt: skip
        return rng.choice(makers)()

    def _value(self) -> str:
        return self._rng.choice(_VALUES)

    def _value_of(self, name: str) -> str:
        """Return a value that is of the type of a column most of the time."""
        return self._value() if self._rng.random() < 0.3 else self._rng.choice(_VALUES_OF[name])

    def _cast(self, inner: str) -> str:
        kind = self._rng.choice(type_names())
        return self._rng.choice(
            (f"cast({inner} as {kind})", f"{inner}::{kind}", f"try_cast({inner} as {kind})")
        )

    def _call(self, name: str) -> str:
        rng = self._rng
        known = ("lower", "upper", "length", "starts_with", "isnan")
        function = rng.choice(known if rng.random() < 0.5 else function_names())
        some = [rng.choice((name, self._value(), "s", "x")) for _ in range(rng.randrange(4))]
        return f"{function}({', '.join([name, *some][: rng.randrange(1, 5)])})"


def ids(rows: pa.Table) -> list[int]:
    """Return the ids of rows."""
    found: list[int] = sorted(rows["id"].to_pylist())
    return found


def oracle() -> Any:
    """Return a connection of DuckDB in which the rows are the table `t`."""
    connection: Any = duckdb.connect(config={"threads": 1})
    connection.execute("set timezone = 'UTC'")
    rows = ROWS  # noqa: F841 (DuckDB finds it by its name)
    connection.execute("create table t as select * from rows")
    connection.execute("set enable_external_access = false")
    return connection


def rows_of(database: Any, text: str) -> list[int] | None:
    """Return the ids of the rows that DuckDB finds; None: it does not take the filter."""
    try:
        found = database.execute(f"select id from t where ({text}\n) order by id").fetchall()
    except (duckdb.Error, UnicodeEncodeError):
        return None
    return [one for (one,) in found]
