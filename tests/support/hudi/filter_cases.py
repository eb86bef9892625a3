"""Random tables and random filters of them, with what a filter is in SQL.

Values are those that bounds go wrong on: NaN, infinities, -0.0, nulls, empty texts and long ones,
texts whose order by UTF-16 is another one, greatest and least numbers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.hudi import HudiTable, WriteOptions

_NAN = float("nan")
_INF = float("inf")
_DAY = date(2026, 3, 7)
_MOMENT = datetime(2026, 3, 7, 12, tzinfo=timezone.utc)
_TEXTS = [
    "", "a", "ab", "abc", "b", "ba", "%", "a%", "a_", "\\", "é", "éa", "z",
    "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "\U0010ffff" * 30,
    "x" * 100, "x" * 100 + "y", "x" * 63 + "é", "é" * 40, "a\nb",
]  # fmt: skip

#: Values of each type, in an order in which neighbours are of like size.
POOLS: dict[pa.DataType, list[Any]] = {
    pa.int32(): [-(2**31), -7, -1, 0, 1, 2, 3, 50, 100, 2**24 + 1, 2**31 - 1],
    pa.int64(): [-(2**63), -(2**53) - 1, -1, 0, 1, 2, 3, 99, 2**31, 2**53 + 1, 2**63 - 1],
    pa.float32(): [-_INF, -1.5, -0.0, 0.0, 0.1, 1.0, 2.5, 2.0**24, 3e38, _INF, _NAN],
    pa.float64(): [-_INF, -1e300, -0.1, -0.0, 0.0, 0.1, 1.0, 2.0**53, 1e300, _INF, _NAN],
    pa.bool_(): [False, True],
    pa.string(): sorted(_TEXTS),
    pa.binary(): sorted([one.encode() for one in _TEXTS] + [b"\xff", b"\xff" * 70, b"\x80"]),
    pa.date32(): [_DAY + timedelta(days) for days in (-40000, -2, -1, 0, 1, 2, 400)],
    pa.timestamp("us", "UTC"): [
        _MOMENT + timedelta(microseconds=us) for us in (-(10**15), -1000, -1, 0, 1, 1000, 10**12)
    ],
    pa.timestamp("ms", "UTC"): [
        _MOMENT + timedelta(milliseconds=ms) for ms in (-(10**12), -2, -1, 0, 1, 2, 10**9)
    ],
    pa.decimal128(9, 2): [Decimal(text) for text in (
        "-9999999.99", "-1.50", "-0.01", "0.00", "0.01", "1.50", "9999999.99")],
    pa.decimal128(38, 10): [Decimal(text) for text in (
        "-1e20", "-0.0000000001", "0", "0.0000000001", "1.5", "1e20")],
}  # fmt: skip
WIDER = {pa.int32(): pa.int64(), pa.float32(): pa.float64()}
LITERALS = "literals"


@dataclass(frozen=True)
class Case:
    """A filter.

    Attributes:
        where: as Arrow has it.
        sql: the same; None: SQL means something else, or cannot say it.
    """

    where: pc.Expression
    sql: str | None


class Cases:
    """Random filters of a table.

    Args:
        rng: to choose by.
        columns: of the table.
    """

    def __init__(self, rng: random.Random, columns: pa.Schema) -> None:
        self._rng = rng
        self._columns = columns
        #: Values that the SQL of the last filter names.
        self.literals: list[pa.Scalar] = []

    def case(self) -> Case:
        """Return a filter."""
        self.literals = []
        return self._any(self._rng.choice((0, 0, 1, 1, 2, 3)))

    def _any(self, depth: int) -> Case:
        if depth == 0:
            return self._leaf()
        kind = self._rng.choice(("and", "or", "not"))
        one = self._any(depth - 1)
        if kind == "not":
            return Case(~one.where, one.sql and f"(not {one.sql})")
        other = self._any(self._rng.randrange(depth))
        where = one.where & other.where if kind == "and" else one.where | other.where
        sql = f"({one.sql} {kind} {other.sql})" if one.sql and other.sql else None
        return Case(where, sql)

    def _leaf(self) -> Case:
        column = self._rng.choice(list(self._columns))
        field, name, kind = pc.field(column.name), f'"{column.name}"', column.type
        sql_is_same = not pa.types.is_floating(kind)
        makers: list[Callable[[], Case]] = [
            lambda: self._compared(field, name, kind, sql_is_same=sql_is_same)
        ] * 6
        makers += [
            lambda: Case(field.is_null(), f"({name} is null)"),
            lambda: Case(field.is_valid(), f"({name} is not null)"),
            lambda: self._in(field, name, kind, sql_is_same=sql_is_same),
            lambda: self._cast(field, kind),
        ]
        if pa.types.is_floating(kind):
            makers += [
                lambda: Case(pc.is_nan(field), None),
                lambda: Case(field.is_null(nan_is_null=True), None),
                lambda: Case(pc.is_finite(field), None),
            ]
        if pa.types.is_string(kind):
            makers += [lambda: self._text(field, name)] * 4
        if pa.types.is_boolean(kind):
            makers.append(lambda: Case(field, name))
        return self._rng.choice(makers)()

    def _value(self, kind: pa.DataType) -> pa.Scalar:
        rng = self._rng
        value = rng.choice(POOLS[kind])
        if rng.random() < 0.03:
            return pa.scalar(None, kind)
        if rng.random() < 0.3:  # one that is not in the table, or of another type
            if pa.types.is_integer(kind):
                return rng.choice((
                    pa.scalar(value, pa.int64()), pa.scalar(float(value)),
                    pa.scalar(rng.choice((0.5, -0.5, 2.5, _NAN, _INF))),
                    pa.scalar(rng.choice(POOLS[pa.int64()]), pa.int64()),
                ))  # fmt: skip
            if pa.types.is_floating(kind):
                return rng.choice((
                    pa.scalar(value, pa.float64()), pa.scalar(0.1), pa.scalar(1),
                    pa.scalar(value, pa.float32()),
                ))  # fmt: skip
            if pa.types.is_decimal(kind):
                return pa.scalar(value, rng.choice((pa.decimal128(38, 10), pa.decimal128(35, 12))))
            if pa.types.is_timestamp(kind):
                unit = rng.choice(("s", "ms", "us", "ns"))
                return pa.scalar(value, pa.timestamp("us", "UTC")).cast(
                    pa.timestamp(unit, "UTC"), safe=False
                )
        return pa.scalar(value, kind)

    def _named(self, value: pa.Scalar) -> str:
        self.literals.append(value)
        return f'"p{len(self.literals) - 1}"'

    def _compared(
        self, field: pc.Expression, name: str, kind: pa.DataType, *, sql_is_same: bool
    ) -> Case:
        value = self._value(kind)
        word, of = self._rng.choice((
            ("=", lambda a, b: a == b), ("<>", lambda a, b: a != b), ("<", lambda a, b: a < b),
            ("<=", lambda a, b: a <= b), (">", lambda a, b: a > b), (">=", lambda a, b: a >= b),
        ))  # fmt: skip
        sql = f"({name} {word} {self._named(value)})"
        literal = pc.scalar(value)
        same = sql_is_same and not pa.types.is_floating(value.type)
        if self._rng.random() < 0.2:  # the other way round
            sql = f"({self._named(value)} {word} {name})"
            return Case(of(literal, field), sql if same else None)
        return Case(of(field, literal), sql if same else None)

    def _in(self, field: pc.Expression, name: str, kind: pa.DataType, *, sql_is_same: bool) -> Case:
        count = self._rng.choice((0, 1, 2, 3, 5))
        values: list[Any] = [self._rng.choice(POOLS[kind]) for _ in range(count)]
        if self._rng.random() < 0.2:
            values.append(None)
        if self._rng.random() < 0.1 and pa.types.is_integer(kind):
            values += range(1000, 1100)
        where = field.isin(pa.array(values, kind))
        if not sql_is_same or None in values or not values:
            return Case(where, None)
        texts = ", ".join(self._named(pa.scalar(one, kind)) for one in values)
        # Of Arrow, no answer is null.
        return Case(where, f"coalesce({name} in ({texts}), false)")

    def _cast(self, field: pc.Expression, kind: pa.DataType) -> Case:
        to = {
            pa.int32(): [pa.int64(), pa.float64(), pa.string()],
            pa.int64(): [pa.float64(), pa.int32(), pa.string()],
            pa.float32(): [pa.float64(), pa.int32()],
            pa.string(): [pa.binary(), pa.large_string()],
            pa.date32(): [pa.timestamp("us"), pa.timestamp("ns"), pa.int32()],
            pa.timestamp("us", "UTC"): [pa.date32(), pa.timestamp("ms", "UTC"), pa.int64()],
            pa.timestamp("ms", "UTC"): [pa.date32(), pa.timestamp("us", "UTC")],
            pa.decimal128(9, 2): [pa.decimal128(20, 4), pa.float64()],
        }.get(kind)
        if to is None:
            return Case(field.is_valid(), None)
        target = self._rng.choice(to)
        value = self._value(kind)
        safe = self._rng.random() < 0.5
        options = pc.CastOptions(target) if safe else pc.CastOptions.unsafe(target)
        cast = field.cast(options=options)
        try:
            literal = pc.scalar(pc.cast(value, options=pc.CastOptions.unsafe(target)))
        except pa.ArrowException:
            return Case(field.is_null(), None)
        return Case(self._rng.choice((cast <= literal, cast == literal, literal < cast)), None)

    def _text(self, field: pc.Expression, name: str) -> Case:
        text = self._rng.choice(POOLS[pa.string()])
        if self._rng.random() < 0.5:
            text = text[: self._rng.randrange(len(text) + 1)]
        if self._rng.random() < 0.5:
            named = self._named(pa.scalar(text))
            return Case(pc.starts_with(field, text), f"starts_with({name}, {named})")
        pattern = text + self._rng.choice(("%", "%%", "_", "%b", ""))
        # A backslash is a usual character there.
        return Case(
            pc.match_like(field, pattern),
            None if "\\" in pattern else f"({name} like {self._named(pa.scalar(pattern))})",
        )


def random_schema(rng: random.Random) -> pa.Schema:
    """Return some columns; their types may be there twice."""
    kinds = [rng.choice(list(POOLS)) for _ in range(rng.randint(3, 7))]
    return pa.schema([pa.field(f"c{at}", kind) for at, kind in enumerate(kinds)])


def random_rows(rng: random.Random, columns: pa.Schema, first: int, count: int) -> pa.Table:
    """Return rows with a key; each column has values of a few neighbours."""
    arrays: dict[str, pa.Array] = {"id": pa.array(range(first, first + count), pa.int64())}
    for column in columns:
        pool = POOLS[column.type]
        start = rng.randrange(len(pool))
        near = pool[start : start + rng.randint(1, 4)]
        share = rng.choice((0.0, 0.0, 0.2, 1.0))
        values = [None if rng.random() < share else rng.choice(near) for _ in range(count)]
        if rng.random() < 0.1 and pa.types.is_string(column.type):
            values[0] = rng.choice("a\U0010ffff") * 10_000
        arrays[column.name] = pa.array(values, column.type)
    return pa.table(arrays)


def random_table(rng: random.Random, path: Path) -> tuple[HudiTable, pa.Schema]:
    """Make a table of some files, with or without statistics of each, and return its columns."""
    columns = random_schema(rng)
    schema = pa.schema([pa.field("id", pa.int64()), *columns])
    table = HudiTable.create(path, schema, record_key=["id"])
    files = rng.randint(2, 6)
    begins, evolves = rng.randrange(files), rng.randrange(files)
    first = 0
    for number in range(files):
        if number == begins:
            table.collect_statistics()
        options = WriteOptions(evolve=True)
        if number == evolves and rng.random() < 0.6:
            columns = _evolved(rng, columns)
        rows = random_rows(rng, columns, first, rng.choice((1, 5, 30)))
        first += rows.num_rows
        table.bulk_insert(rows, options=options)
        if rng.random() < 0.3:
            # A few rows that change go to files that are copied.
            again = random_rows(rng, columns, rng.randrange(first), 1)
            table.upsert(again, options=options)
    if rng.random() < 0.3:
        table.collect_statistics()
    return table, columns


def _evolved(rng: random.Random, columns: pa.Schema) -> pa.Schema:
    wider = [
        one.with_type(WIDER[one.type]) if one.type in WIDER and rng.random() < 0.7 else one
        for one in columns
    ]
    kinds: Sequence[pa.DataType] = list(POOLS)
    return pa.schema([*wider, pa.field(f"c{len(wider)}", rng.choice(kinds))])
