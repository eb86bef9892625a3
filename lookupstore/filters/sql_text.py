"""Parse filters in SQL within limits, and name their parts in errors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from sqlglot import TokenType, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError

from lookupstore.errors import printable
from lookupstore.filters.limits import MOST_NESTED

# Maximum number of characters of a filter, and number of characters of a part shown in errors.
_MOST_CHARACTERS, _SHOWN = 1 << 20, 80
# Maximum number of nodes of a part shown in errors.
_MOST_SHOWN = 200
# Maximum depth of nested functions and brackets: the parser tries each in several ways, so its time
# is exponential in their number.
_MOST_FUNCTIONS, _MOST_BRACKETS = 8, 2
# Words before a parenthesis that are not functions.
_BEFORE_PARENTHESES = frozenset(("and", "or", "not", "in", "like", "between", "is", "when", "then"))
_NOT_SQL = "is no condition in SQL: not understood"
_WRITE = "write columns, comparisons, and, or, not, in, between, like, is null"
_OR_ARROW = ", or give an expression of pyarrow.compute"
_GIVE_ONE = "give a condition, such as a >= 3, or leave the argument out"
#: Remedy in errors of parts that are not supported.
REMEDY = f"say it otherwise{_OR_ARROW}"
#: Remedy in errors of conditions that are not supported.
CONDITIONS = f"{_WRITE}{_OR_ARROW}"
#: Remedy in errors of values in comparisons that are not supported.
OPERANDS = f"compare a column, or its length, lower or upper, with a value or a column{_OR_ARROW}"
#: Remedy in errors of casts that may lose something.
UNCAST = f"leave out the cast{_OR_ARROW}"
#: Remedy in errors of computed values that are not supported.
COMPUTED = (
    "write columns, values, + - * / ||, case, coalesce, nullif, greatest, least, abs, round, "
    f"lower, upper, length, trim and cast{_OR_ARROW}"
)
# Remedy in errors of times that are relative to now, or to other times.
_TIMES = (
    "compute the time first, and compare the column itself with its text, such as '2026-03-07' for "
    "a date, or '2026-03-07 12:30:00' for a timestamp"
)
_RELATIVE = (
    exp.CurrentDate, exp.CurrentDatetime, exp.CurrentTime, exp.CurrentTimestamp, exp.Interval,
)  # fmt: skip
_CLOCKS = frozenset(("now", "today", "get_current_timestamp"))
#: Arguments allowed for each type of node; all others must be absent or false.
PARTS: Mapping[type[exp.Expression], tuple[str, ...]] = {
    exp.In: ("this", "expressions"),
    exp.Between: ("this", "low", "high"),
    exp.Like: ("this", "expression", "negate"),
    exp.Cast: ("this", "to"),
    exp.DataType: ("this", "expressions", "nested"),
    exp.Column: ("this", "table", "db", "catalog"),
    exp.Identifier: ("this", "quoted"),
    exp.Boolean: ("this",),
    exp.Literal: ("this", "is_string"),
    exp.Div: ("this", "expression", "typed", "safe"),
    exp.DPipe: ("this", "expression", "safe"),
    exp.Coalesce: ("this", "expressions"),
    exp.Greatest: ("this", "expressions", "ignore_nulls"),
    exp.Least: ("this", "expressions", "ignore_nulls"),
    exp.Round: ("this", "decimals"),
    exp.Case: ("this", "ifs", "default"),
    exp.If: ("this", "true", "false"),
}
_USUAL = ("this", "expression")


class FilterSql(DuckDB):
    """DuckDB's dialect, in which names can also be in backticks, as in Spark."""

    class Tokenizer(DuckDB.Tokenizer):
        """The words, names and values of a text."""

        IDENTIFIERS: ClassVar = ['"', "`"]


#: Dialect of conditions and assignments in SQL.
DIALECT = FilterSql()


def parsed_sql(text: str, write: str = _WRITE) -> Any:
    """Return the root of the tree of a condition or value in SQL.

    Args:
        text: SQL.
        write: Remedy in the error if the text is not SQL. Default: what a condition can have.

    Raises:
        ValueError: If the text is not a condition, or is too long or nested too deeply.
        RecursionError: If it is nested so deeply that the parser gives up.
    """
    if len(text) > _MOST_CHARACTERS:
        raise text_error(
            text,
            f"has {len(text):,} characters, more than {_MOST_CHARACTERS:,}",
            "give a long list as ('column', 'in', [...])",
        )
    if not text.strip():
        raise text_error("the text", "is empty", _GIVE_ONE if write == _WRITE else write)
    try:
        text.encode()
        tokens = DIALECT.tokenize(text)
        _check_levels(text, tokens)
        found = DIALECT.parser().parse_into(exp.Condition, tokens, text)
    except UnicodeEncodeError:
        raise text_error(text, "cannot be written in UTF-8", "leave out lone surrogates") from None
    except ParseError as error:
        said = error.errors[0] if error.errors else {}
        where = said.get("highlight") or ""
        place = f" at line {said['line']}, column {said['col']}" if said.get("line") else ""
        near = f", near '{_cut(where)}'" if where else ""
        raise text_error(text, f"{_NOT_SQL}{place}{near}", write) from None
    except SqlglotError as error:
        raise text_error(
            text, f"is no SQL: {_cut(str(error))}", "close its quotes and comments"
        ) from None
    except (RecursionError, ValueError):
        raise
    except Exception as error:  # some texts make the parser itself fail
        raise text_error(text, _NOT_SQL, write) from error
    if not found or found[0] is None:
        raise text_error(text, _NOT_SQL, write)
    return found[0]


def _check_levels(text: str, tokens: Sequence[Any]) -> None:
    """Refuse several statements, and texts that are too expensive to parse."""
    if any(token.token_type == TokenType.SEMICOLON for token in tokens[:-1]):
        raise text_error(text, "is no condition in SQL: several statements", "give one condition")
    brackets = run = opened = 0
    # For each open parenthesis: whether it belongs to a function, or to what looks like one.
    functions: list[bool] = []
    before = ""
    for token in tokens:
        word = token.text.lower()
        is_text = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
        if is_text:
            word = ""
        if word == "(":
            functions.append(before.isidentifier() and before not in _BEFORE_PARENTHESES)
        elif word == ")" and functions:
            functions.pop()
        brackets += (word in ("[", "{")) - (word in ("]", "}"))
        opened += word in ("[", "{")
        run = run + 1 if word in ("not", "-", "+", "~", "@") else 0
        for found, most, name in (
            (max(len(functions), run), MOST_NESTED, "levels"),
            (sum(functions), _MOST_FUNCTIONS, "functions in one another"),
            (brackets, _MOST_BRACKETS, "brackets in one another"),
            (opened, MOST_NESTED, "brackets"),  # the parser takes quadratic time
        ):
            if found > most:
                raise text_error(text, f"has more than {most} {name}", REMEDY)
        before = "x" if is_text else word


def text_error(part: str, problem: str, remedy: str) -> ValueError:
    """Return the error of a part of a filter, given as text."""
    return ValueError(f"filter: {_cut(part)} {problem}; {remedy}")


def _cut(text: str) -> str:
    """Return a text as it is shown in an error."""
    shown = printable(text[: _SHOWN + 1])
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


def refused_error(node: exp.Expression, problem: str, remedy: str = REMEDY) -> ValueError:
    """Return the error of a part of a filter, given as node."""
    return text_error(_sql(node), problem, remedy)


def shown_node(node: exp.Expression) -> str:
    """Return a part of a filter as it is shown in an error."""
    return _cut(_sql(node))


def _sql(node: exp.Expression) -> str:
    """Return a part of a filter as SQL, or the name of its kind if it is large."""
    try:
        few = itertools.islice(node.walk(), _MOST_SHOWN)
        if sum(1 for _ in few) < _MOST_SHOWN:
            return str(
                node.sql(dialect="duckdb", comments=False, unsupported_level=ErrorLevel.IGNORE)
            )
    except Exception:  # an error of the parser, which is only used for the text
        pass
    return type(node).__name__


@contextmanager
def naming(node: exp.Expression) -> Iterator[None]:
    """Add the part of the filter to errors of a block."""
    try:
        yield
    except ValueError as error:
        said = str(error)
        raise (
            error if said.startswith("filter: ") else refused_error(node, "is not read", said)
        ) from None


def check_times(node: exp.Expression) -> None:
    """Refuse a part of a condition with a time that is relative to now, or to other times."""
    clocks = (str(one.this).lower() in _CLOCKS for one in node.find_all(exp.Anonymous))
    if node.find(*_RELATIVE) is not None or any(clocks):
        raise refused_error(node, "is not read", _TIMES) from None


def _check_parts(node: exp.Expression, remedy: str) -> None:
    """Refuse a node with unknown arguments."""
    known = PARTS.get(type(node), _USUAL)
    if any(value for name, value in node.args.items() if name not in known):
        raise refused_error(node, "is not read", remedy)


def plain_node(node: Any, remedy: str = CONDITIONS) -> exp.Expression:
    """Return a node without the parentheses around it.

    Args:
        node: Node of the tree.
        remedy: Remedy in the error if the node is not supported.

    Raises:
        ValueError: If the node is not supported.
    """
    while isinstance(node, exp.Paren):
        _check_parts(node, remedy)
        node = node.this
    if not isinstance(node, exp.Expression):
        raise text_error(str(node), "is not read", remedy)
    _check_parts(node, remedy)
    return node


def path_in_sql(node: exp.Expression) -> tuple[str, ...]:
    """Return the names of a column or of a field of a struct, such as `address.city`.

    Args:
        node: Node of the kinds `Column` or `Dot`.

    Raises:
        ValueError: If a part of it is not a name.
    """
    parts: list[Any] = []
    part = plain_node(node)
    while isinstance(part, exp.Dot):
        parts.append(part.args["expression"])
        part = plain_node(part.this)
    if not isinstance(part, exp.Column):
        raise refused_error(node, "is not read")
    # The parser takes up to four names for those of a column, its table, schema and catalog.
    parts += [part.args.get(name) for name in ("this", "table", "db", "catalog")]
    names = [plain_node(one) for one in reversed(parts) if one is not None]
    if not all(isinstance(one, exp.Identifier) for one in names):
        raise refused_error(node, "is not read")
    return tuple(one.name for one in names)


def is_value(node: Any) -> bool:
    """Return whether a node is a value as it is, perhaps negated or cast."""
    while isinstance(node, (exp.Neg, exp.Cast, exp.Paren)):
        node = node.this
    return isinstance(node, (exp.Literal, exp.Boolean, exp.Null))
