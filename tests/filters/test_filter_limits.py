"""How deep and how large a filter may be, and that no text is worth more than it says."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc
import pytest
from support.hudi.filter_texts import ROWS, FilterTexts, ids, oracle, rows_of, type_names

from lookupstore.filters.filter import filter_expression
from lookupstore.filters.parsed_expression import Call, Node, parse_expression
from lookupstore.filters.predicates import predicate_of, shown

sqlglot = pytest.importorskip("sqlglot")

SCHEMA = ROWS.schema


def parts(expression: pc.Expression) -> int:
    """Return how many calls, columns and values an expression has."""

    def count(node: Node) -> int:
        return 1 + (sum(map(count, node.arguments)) if isinstance(node, Call) else 0)

    return count(parse_expression(expression))


def levels(expression: pc.Expression) -> int:
    """Return how many parentheses of an expression are in one another."""
    depth = most = 0
    for letter in str(expression):
        depth += (letter == "(") - (letter == ")")
        most = max(most, depth)
    return most


def deep(count: int) -> pc.Expression:
    found = pc.field("ok")
    for _ in range(count):
        found = ~found
    return found


CHAINS = {
    "is true": ("", "(id = 1 or null)", " is true"),
    "is false": ("", "(id = 1 or null)", " is false"),
    "is not true": ("", "(id = 1 or null)", " is not true"),
    "is not false": ("", "(id = 1 or null)", " is not false"),
    "is null": ("", "(id = 1 or null)", " is null"),
    "is not null": ("", "(id = 1 or null)", " is not null"),
    "is unknown": ("", "(id = 1 or null)", " is unknown"),
    "not": ("not ", "ok", ""),
    "not of in": ("not (", "s in ('a', 'b')", ")"),
    "or of in": ("(ok or ", "s in ('a', 'b')", ")"),
    "and between": ("(ok and ", "id between 1 and 3", ")"),
    "texts": ("lower(", "s", ")"),
    "casts": ("", "small", "::bigint"),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_what_is_in_one_another_is_there_once(chain: str) -> None:
    before, inner, after = CHAINS[chain]
    end = "" if chain not in ("texts", "casts") else " between '1' and '2'"
    sizes = [
        parts(filter_expression(f"not ({before * n}{inner}{after * n}{end})", SCHEMA))
        for n in (2, 4, 6)
    ]
    assert sizes[1] - sizes[0] == sizes[2] - sizes[1] <= 2 * 2 * 2
    text = f"not ({before * 6}{inner}{after * 6}{end})"
    found = ids(ROWS.filter(filter_expression(text, SCHEMA)))
    if chain != "casts":
        expected = oracle().execute(f"select id from t where {text} order by id").fetchall()
        assert found == [one for (one,) in expected]


def test_answers_are_those_of_duckdb() -> None:
    database = oracle()
    for asked in ("ok", "null", "id < 5 or ok", "small in (1, null)"):
        for answer in ("true", "false", "unknown", "not true", "not false", "not unknown"):
            for whole in ("{}", "not {}", "{} is true or ok is null"):
                text = whole.format(f"(({asked}) is {answer})")
                expected = database.execute(f"select id from t where {text} order by id")
                found = filter_expression(text, SCHEMA)
                assert ids(ROWS.filter(found)) == [one for (one,) in expected.fetchall()], text
                predicate_of(found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(id = 1) is true", "id == 1"),
        ("(id = 1) is false", "not id == 1"),
        ("not ((id = 1) is true)", "not (id == 1 and what statistics cannot answer)"),
        ("(id = 1) is not false", "(id == 1 or what statistics cannot answer)"),
    ],
)
def test_bounds_know_what_is_true(text: str, said: str) -> None:
    assert shown(predicate_of(filter_expression(text, SCHEMA))) == said


def refusal(text: str) -> str:
    """Return why a filter is refused; nothing: it is not."""
    try:
        filter_expression(text, SCHEMA)
    except ValueError as error:
        return str(error)
    return ""


def repeated(before: str, inner: str, after: str, count: int) -> str:
    return before * count + inner + after * count


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (repeated("", "id = 1", " is true", 200), "is in more than 100 levels"),
        (repeated("", "id", "::bigint", 200) + " = 1", "is in more than 100 levels"),
        (repeated("(", "id = 1", ")", 101), "has more than 100 levels"),
        (repeated("lower(", "s", ")", 9) + " = 'a'", "more than 8 functions in one another"),
        (repeated("decimal(", "1", ")", 40) + " = 1", "more than 8 functions in one another"),
        (repeated("array[", "1", "]", 40) + " = 1", "more than 2 brackets in one another"),
        (repeated("{'a': ", "1", "}", 40) + " = 1", "more than 2 brackets in one another"),
        ("id" + "[1]" * 101 + " = 1", "has more than 100 brackets"),
        ("list in (null)", "only `is null` is read of such columns"),
        ("{ : { : null", "is no condition in SQL"),
        ("id = 1; id = 2", "is no condition in SQL: several statements"),
        ("id = 1" + ";" * 5000, "is no condition in SQL: several statements"),
    ],
)  # fmt: skip
def test_texts_have_limits(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"^filter: ") as error:
        filter_expression(text, SCHEMA)
    assert said in str(error.value)
    assert len(str(error.value)) < 400


def test_expressions_have_limits() -> None:
    assert filter_expression(deep(500), SCHEMA) is not None
    for given in (deep(10_000), ["id = 1", deep(10_000)], ("ok", "=", deep(10_000))):
        with pytest.raises(ValueError, match=r"^filter: it has 10,00[012] levels, more than 500; "):
            filter_expression(given, SCHEMA)


def test_lists_have_limits() -> None:
    nested: list[Any] = [("id", "=", 1)]
    for _ in range(5000):
        nested = [nested]
    itself: list[Any] = []
    itself.append(itself)
    for given in (nested, itself):
        with pytest.raises(ValueError, match=r"^filter: it has more than 100 lists in one another"):
            filter_expression(given, SCHEMA)


def test_parts_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookupstore.filters.limits.MOST_PARTS", 100)
    doubled: list[Any] = [pc.field("ok")]
    for _ in range(12):
        doubled = [doubled, doubled]
    with pytest.raises(ValueError, match=r"^filter: it has 101 parts, more than 100; "):
        filter_expression(doubled, SCHEMA)
    many = [("id", "=", at) for at in range(40)]
    with pytest.raises(ValueError, match=r"^filter: it has 101 parts, more than 100; "):
        filter_expression("ok or " * 50 + "ok", SCHEMA)
    with pytest.raises(ValueError, match=r"^filter: it has 159 parts, more than 100; "):
        filter_expression(many, SCHEMA)


def test_long_lists_are_not_deep() -> None:
    many = [[("id", "=", at)] for at in range(0, 3000, 5)]
    found = filter_expression(many, SCHEMA)
    assert levels(found) < 20
    assert ids(ROWS.filter(found)) == [0, 5, 10]


@pytest.mark.parametrize("value", [object(), 1 << 70, [[1], "a"], ["x" * 500, 1]])
def test_values_that_arrow_does_not_have_are_named(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^filter: \('id', '=', ") as error:
        filter_expression(("id", "=", value), SCHEMA)
    assert len(str(error.value)) < 600


def test_bounds_know_nothing_of_bytes_that_are_no_text() -> None:
    for word in ("like", "starts_with"):
        found = filter_expression(("s", word, b"\xff"), SCHEMA)
        assert shown(predicate_of(found)) == "what statistics cannot answer"


def test_types_are_read_or_named() -> None:
    for kind in type_names():
        for text in (f"id = 1::{kind}", f"id = cast('1' as {kind})", f"id::{kind} = 1"):
            said = refusal(text)
            assert not said or (said.startswith("filter: ") and len(said) < 600), text
    for kind in ("INT[]", "INT[3]", "MAP(INT, INT)", "STRUCT(a INT)", "DECIMAL(99, 1)", "foo"):
        with pytest.raises(ValueError, match=r"^filter: ") as error:
            filter_expression(f"id = 1::{kind}", SCHEMA)
        assert f"casts to {kind}, a type that is not read; cast to a number" in str(error.value)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Count what the parser does: steps from one token to another, ahead and back."""
    count = 0
    step = sqlglot.Parser._advance

    def counted(self: Any, times: int = 1) -> None:
        nonlocal count
        count += 1
        step(self, times)

    monkeypatch.setattr(sqlglot.Parser, "_advance", counted)

    def taken() -> int:
        nonlocal count
        found, count = count, 0
        return found

    return taken


@pytest.mark.sampled
def test_work_grows_with_the_text(steps: Callable[[], int], seed: int) -> None:
    """Of texts of 1 KB, which are of one part many times, or of many parts."""
    texts = FilterTexts(random.Random(seed))
    chains = [repeated("not (id = 1", "", " is true)", 12), repeated("array[", "1", "]", 10)]
    for text in (*chains, *(texts.long_text(1000) for _ in range(20))):
        said = refusal(text)
        assert steps() < 50 * len(text), text
        assert not said or said.startswith("filter: "), text
        assert said or parts(filter_expression(text, SCHEMA)) < 4 * len(text), text


@pytest.mark.sampled
def test_filters_are_refused_or_find_the_rows_of_duckdb(seed: int) -> None:
    rng = random.Random(seed)
    texts, database = FilterTexts(rng), oracle()
    for _ in range(60):
        text = texts.text(rng.randrange(4))
        said = refusal(text)
        assert not said or said.startswith("filter: "), text
        if not said:
            found = ids(ROWS.filter(filter_expression(text, SCHEMA)))
            assert found == (rows_of(database, text) or found), text
