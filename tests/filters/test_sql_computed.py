"""Values that SQL computes, compared with DuckDB on random expressions and rows."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
import sqlglot
from sqlglot import exp
from support.samples import amount

from lookupstore.filters import Aliases
from lookupstore.filters.merge_sql import SqlClause, sql_clause
from lookupstore.filters.sql_computed import computed_condition, computed_value

duckdb = pytest.importorskip("duckdb")

COLUMNS = pa.schema(
    {
        "i": pa.int32(),
        "j": pa.int64(),
        "f": pa.float64(),
        "d": pa.decimal128(9, 2),
        "s": pa.string(),
        "t": pa.string(),
        "b": pa.bool_(),
        "day": pa.date32(),
    }
)
ALIASES = Aliases(COLUMNS, {"target": {name: name for name in COLUMNS.names}})
TEXTS = ["", "a", "b ", " Ab", "ü", "a%"]


def rows_of(rng: random.Random, count: int = 20) -> pa.Table:
    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    return pa.Table.from_pylist(
        [
            {
                "i": maybe(rng.randrange(-5, 6)),
                "j": maybe(rng.randrange(-(10**6), 10**6)),
                "f": maybe(rng.choice([0.0, -1.5, 2.25, 1e6, 0.1])),
                "d": maybe(Decimal(rng.randrange(-999, 999)) / 100),
                "s": maybe(rng.choice(TEXTS)),
                "t": maybe(rng.choice(TEXTS)),
                "b": maybe(rng.random() < 0.5),
                "day": maybe(rng.randrange(20_000)),
            }
            for _ in range(count)
        ],
        COLUMNS,
    )


def number(rng: random.Random, depth: int) -> str:
    if not depth:
        return rng.choice(["i", "j", "f", "d", "target.i", "1", "0", "2.5", "0.25", "3e1", "null"])
    a, b = (number(rng, depth - 1) for _ in range(2))
    when, word = condition(rng, depth - 1), text(rng, depth - 1)
    return rng.choice(
        [
            f"({a} + {b})",
            f"({a} - {b})",
            f"({a} * {b})",
            f"({a} / {b})",
            f"-({a})",
            f"abs({a})",
            f"coalesce({a}, {b})",
            f"nullif({a}, {b})",
            f"greatest({a}, {b})",
            f"least({a}, {b}, 1)",
            f"case when {when} then {a} else {b} end",
            f"case when {when} then {a} end",
            f"if({when}, {a}, {b})",
            f"length({word})",
            f"cast({a} as double)",
            f"round({a}, -1)",
        ]
    )


def text(rng: random.Random, depth: int) -> str:
    if not depth:
        return rng.choice(["s", "t", "target.s", "'x'", "'it''s'", "null"])
    a, b = (text(rng, depth - 1) for _ in range(2))
    when = condition(rng, depth - 1)
    return rng.choice(
        [
            f"({a} || {b})",
            f"lower({a})",
            f"upper({a})",
            f"trim({a})",
            f"coalesce({a}, {b}, 'z')",
            f"nullif({a}, {b})",
            f"case when {when} then {a} else {b} end",
            "cast(i as varchar)",
            f"case {a} when {b} then 'same' else 'other' end",
        ]
    )


def condition(rng: random.Random, depth: int) -> str:
    if not depth:
        return rng.choice(
            [
                "b",
                "i > 1",
                "s is null",
                "d >= 0.5",
                "t like 'a%'",
                "day > date '2000-01-01'",
                "true",
            ]
        )
    a, b = number(rng, depth - 1), number(rng, depth - 1)
    one, other = condition(rng, depth - 1), condition(rng, depth - 1)
    return rng.choice(
        [f"({one} and {other})", f"({one} or {other})", f"not ({one})", f"{a} < {b}", f"{a} = {b}",
         f"({one}) is not true", f"{text(rng, depth - 1)} = {text(rng, depth - 1)}"]
    )  # fmt: skip


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, (int, float, Decimal)) and isinstance(theirs, (int, float, Decimal)):
        # Decimals meet doubles in another order of roundings here and there.
        ours, theirs = float(ours), float(theirs)
        both_nan = math.isnan(ours) and math.isnan(theirs)
        return both_nan or math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9)
    return bool(ours == theirs)


def nan_is_compared(sql: str) -> str:
    """Return DuckDB's condition of rows in which NaN may be compared: there it is the greatest."""
    tree = sqlglot.parse_one(sql, read="duckdb")
    if not tree.find(exp.LT, exp.EQ, exp.Nullif, exp.Greatest, exp.Least, exp.Case, exp.If):
        return "false"
    sums = {part.sql("duckdb") for part in tree.find_all(exp.Div, exp.Mul, exp.Add, exp.Sub)}
    return (
        " or ".join(f"coalesce(isnan(cast({part} as double)), false)" for part in sums) or "false"
    )


def test_two_values_without_a_type_are_not_equal() -> None:
    nothing = "case when i > 1 then null end"
    value = computed_value(f"nullif({nothing}, {nothing})", ALIASES)
    found = ds.dataset(rows_of(random.Random(1))).to_table(columns={"x": value})["x"]
    assert found.null_count == len(found)


def test_random_values_are_those_of_duckdb(seed: int) -> None:
    rng = random.Random(seed)
    compared, refused = 0, []
    for _ in range(amount(150, 20_000)):
        rows = rows_of(rng)
        sql = rng.choice([number, text, condition])(rng, rng.randrange(4))
        try:
            found = duckdb.sql(
                f"select {sql} as x, {nan_is_compared(sql)} as differs from rows target"
            )
            theirs, differs = pa.table(found.arrow()).to_pydict().values()
        except duckdb.Error:
            continue  # overflow of 32 bits, or of digits
        try:
            value = computed_value(sql, ALIASES)
            ours = ds.dataset(rows).to_table(columns={"x": value})["x"].to_pylist()
        except ValueError as error:  # also of Arrow: decimals with too many digits
            refused.append(f"{sql}: {error}")
            continue
        for number_, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert differs[number_] or same(one, other), (
                f"{sql}: {one!r}, not {other!r}, of {rows.slice(number_, 1)}"
            )
        compared += 1
    assert compared > 3 * len(refused), refused


def test_conditions_on_both_sides() -> None:
    schema = pa.schema({"target.v": pa.int64(), "source.v": pa.int32(), "source.op": pa.string()})
    sides = {
        "target": {"v": "target.v"},
        "source": {"v": "source.v", "op": "source.op"},
    }
    aliases = Aliases(schema, sides)
    rows = ds.dataset(
        pa.table(
            {"target.v": [1, 5, None], "source.v": [2, 3, 4], "source.op": ["u", "D", "u"]}, schema
        )
    )
    found = computed_condition("target.v < source.v + 1 and lower(op) = 'u'", aliases)
    assert rows.to_table(columns={"x": found})["x"].to_pylist() == [True, False, None]
    value = computed_value("coalesce(target.v, 0) + source.v", aliases)
    assert rows.to_table(columns={"x": value})["x"].to_pylist() == [3, 8, 4]
    for text_, problem in (
        ("v", "is a column of both sides; write target.v or source.v"),
        ("other.v", "is no column; there are 'target.v', 'source.v', 'source.op'"),
        ("target.w", "is no column"),
        ("source.a.v", "is no column"),
    ):
        with pytest.raises(ValueError, match=problem):
            computed_value(text_, aliases)


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("i + s", "computes with string; compute with numbers"),
        ("lower(i)", "asks int32 for a text"),
        ("case when b then i else s end", "may be int32 and string; cast them to one type"),
        ("i +", "is no condition in SQL"),
        ("(select 1)", "is not read"),
        ("random()", "is not read"),
        ("i; drop table x", "is no condition in SQL"),
        ("round(f, i)", "round to a number of digits"),
        ("cast(s as int)", "may lose something; leave out the cast, or give an expression of py"),
        (
            "concat(s, 'x')",
            r"is not read; write columns, values, \+ - \* / \|\|, case, coalesce, n",
        ),
        ("substr(s, 1, 2)", "trim and cast, or give an expression of pyarrow"),
        ("i = length(s) and substr(s, 1, 2) = 'a'", "is not read; write columns, values, "),
        ("case when s > now() then 1 end", r"NOW\(\) is not read; compute the time first"),
        ("try_cast(s as int)", "is not read"),
        ("1" * 60, "has too many digits"),
        ("sum(i)", "is not read"),
        ("i % 2", "is not read"),
    ],
)
def test_what_is_not_read(sql: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        computed_value(sql, ALIASES)


def test_rounding() -> None:
    rows = pa.table({"f": [2.5, -2.5, 1.25, 0.4], "d": [Decimal("1.25"), Decimal("-0.5"), None, 2]})
    rows = rows.cast(pa.schema({"f": pa.float64(), "d": pa.decimal128(9, 2)}))
    for sql in (
        "round(f)", "round(f, 1)", "round(d, 1)", "cast(f as int)", "cast(d as decimal(9, 1))",
        "cast(f as decimal(9, 3))", "cast(round(f, 0) as bigint)", "cast(d as bigint)",
        "cast(d * 10 as int)", "cast(d as decimal(4, 2))", "cast(d as decimal(20, 5))",
        "coalesce(round(null, -1), 7)",
    ):  # fmt: skip
        sides = {"target": {"f": "f", "d": "d"}}
        value = computed_value(sql, Aliases(rows.schema, sides))
        ours = ds.dataset(rows).to_table(columns={"x": value})["x"].to_pylist()
        theirs = pa.table(duckdb.sql(f"select {sql} as x from rows").arrow())["x"].to_pylist()
        assert [None if one is None else float(one) for one in ours] == [
            None if one is None else float(one) for one in theirs
        ], sql


@pytest.mark.parametrize("digits", [19, 30, 37, 38])
def test_decimals_of_many_digits_are_computed_as_duckdb_does(digits: int) -> None:
    values = [Decimal("1.10"), Decimal("-2.55"), None, Decimal("123456789.01")]
    rows = pa.table(
        {"w": pa.array(values, pa.decimal128(digits, 2)), "j": pa.array([3, -7, 1, None])}
    )
    aliases = Aliases(rows.schema, {"target": {"w": "w", "j": "j"}})
    for sql in (
        "w + 1", "w - 0.25", "w + w", "w * 2", "w * 1.1", "w * w", "j * w", "w * j - w",
        "round(w * 1.1, 2)", "cast(w as decimal(18, 1)) + 1", "cast(w * 1.1 as bigint)",
    ):  # fmt: skip
        ours = ds.dataset(rows).to_table(columns={"x": computed_value(sql, aliases)})["x"]
        theirs = duckdb.sql(f"select {sql} as x from rows").fetchall()
        assert ours.to_pylist() == [one for (one,) in theirs], sql


@pytest.mark.parametrize("sql", ["w * 10", "w + w", "w * w", "-w * 1.1", "cast(w as bigint)"])
def test_decimals_that_have_too_many_digits_are_errors(sql: str) -> None:
    rows = pa.table({"w": pa.array([Decimal("9" * 36 + ".99")], pa.decimal128(38, 2))})
    aliases = Aliases(rows.schema, {"target": {"w": "w"}})
    with pytest.raises(pa.ArrowInvalid, match=r"does not fit|out of bounds"):
        ds.dataset(rows).to_table(columns={"x": computed_value(sql, aliases)})


@pytest.mark.parametrize(
    ("text_", "kind", "verb", "where", "sets"),
    [
        ("matched then delete", "matched", "delete", None, None),
        ("MATCHED AND source.op = 'D' THEN DELETE", "matched", "delete", "source.op = 'D'", None),
        ("matched then update", "matched", "update", None, None),
        ("matched then update set *", "matched", "update", None, None),
        ("matched then update set `a b` = source.`a b`", "matched", "update", None,
         {"a b": 'source."a b"'}),
        ("matched then update set a = 'x', target.b = source.b + 1", "matched", "update", None,
         {"a": "'x'", "b": "source.b + 1"}),
        ("not matched then insert", "unmatched", "insert", None, None),
        ("not matched by target then insert *", "unmatched", "insert", None, None),
        ("not matched and v > 1 then insert (a, b) values (source.a, 1)", "unmatched", "insert",
         "v > 1", {"a": "source.a", "b": "1"}),
        ("not matched by source and target.v > 1 then delete", "left", "delete", "target.v > 1",
         None),
        ("matched and source.x = 'ü then x'\nthen delete", "matched", "delete",
         "source.x = 'ü then x'", None),
        ("matched and case when a then b end = 1 then update", "matched", "update",
         "CASE WHEN a THEN b END = 1", None),
        ("matched and\tx > 1 /* then */ then delete", "matched", "delete", "x > 1", None),
    ],
)  # fmt: skip
def test_clauses_of_merges(
    text_: str, kind: str, verb: str, where: str | None, sets: dict[str, str] | None
) -> None:
    assert sql_clause(text_) == SqlClause(kind, verb, where, sets)


@pytest.mark.parametrize(
    "text_",
    [
        "", "matched", "matched then", "matched then drop", "matched then insert",
        "not matched then delete", "not matched then update set a = 1", "matched then do nothing",
        "not matched by source then update set a = 1", "matched then delete; drop table x",
        "matched then delete when matched then delete", "then delete",
        "not matched then insert (a, b) values (1)", "matched then update set a = 1, a = 2",
        "matched and " + "(" * 5000 + " then delete", "matched and " + "[" * 5000 + " then delete",
        "matched then update set a = " + "(" * 3000 + "1" + ")" * 3000,
        # The parser takes these, and a part of them would be lost.
        "matched and then delete", "MATCHED AND\nthen delete", "matched and /* x */ then delete",
        "not matched by source and then delete", "not matched and then insert",
        "matched then update set a = 1 where b > 2", "matched then update set * where b > 2",
        "not matched then insert where b > 2", "not matched then insert (a) values (1) where b > 2",
        "matched then update set *, a = 1", "matched then update set a = 1, *",
        "matched then update set a = 1 returning a", "matched by source then delete",
    ],
)  # fmt: skip
def test_what_is_no_clause(text_: str) -> None:
    with pytest.raises(ValueError, match=r"when: |filter: "):
        sql_clause(text_)
