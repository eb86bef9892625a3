"""Parse one clause of a merge in SQL, such as `matched and source.op = 'D' then delete`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from lookupstore.filters.sql_text import DIALECT, parsed_sql

_FORMS = (
    "write matched then update set ..., matched then delete, not matched then insert, or not "
    "matched by source then delete; a condition comes before then: matched and source.v > 1 then "
    "delete"
)
_BEFORE = "merge into target using source on true when "
_PARTS_OF_MERGE = {"this", "using", "on", "whens"}


@dataclass(frozen=True)
class SqlClause:
    """The parts of a clause.

    Attributes:
        kind: Rows of the clause. `matched`: given rows with a stored key; `unmatched`: given rows
            without a stored key; `left`: stored rows without a given key.
        verb: Action of the clause: `update`, `delete` or `insert`.
        where: Condition, as SQL. None: no condition.
        sets: Value of each column, as SQL. None: the columns of the given rows.
    """

    kind: str
    verb: str
    where: str | None
    sets: Mapping[str, str] | None


def sql_clause(text: str) -> SqlClause:
    """Parse a clause.

    Raises:
        ValueError: If the text is not a clause of a merge.

    >>> sql_clause("matched and source.v > 1 then update set v = source.v + 1")
    SqlClause(kind='matched', verb='update', where='source.v > 1', sets={'v': 'source.v + 1'})
    """
    when = _when(text)
    then = when.args["then"]
    kind = "matched" if when.args["matched"] else "left" if when.args["source"] else "unmatched"
    condition = when.args.get("condition")
    where = None if condition is None else _sql(condition)
    # The parser takes more than is understood here, such as `update set a = 1 where b > 2`.
    if {name for name, part in then.args.items() if part} - {"this", "expression", "expressions"}:
        raise _clause_error(text)
    if isinstance(then, exp.Var) and then.name.lower() == "delete" and kind != "unmatched":
        return SqlClause(kind, "delete", where, None)
    if isinstance(then, exp.Update) and kind == "matched":
        return SqlClause(kind, "update", where, _updates(text, then))
    if isinstance(then, exp.Insert) and kind == "unmatched":
        return SqlClause(kind, "insert", where, _inserts(text, then))
    raise _clause_error(text)


def _when(text: str) -> Any:
    text = re.sub(r"^\s*when\s+", "", text, flags=re.IGNORECASE)
    if not re.match(r"\s*(not\s+)?matched\b", text, re.IGNORECASE):
        raise _clause_error(text)
    condition = _condition(text)
    if condition is not None:
        # The parser takes `matched and then delete` for a clause that all rows meet.
        if not DIALECT.tokenize(condition):
            raise _clause_error(text)
        parsed_sql(f"({condition})")  # this refuses what would take the parser too long
    try:
        tree = sqlglot.parse_one(_BEFORE + text, read=DIALECT)
        (found,) = tree.args["whens"].expressions
    except (SqlglotError, ValueError, KeyError, AttributeError, RecursionError):
        raise _clause_error(text) from None
    is_more = {name for name, part in tree.args.items() if part} - _PARTS_OF_MERGE
    if is_more or (found.args["matched"] and found.args["source"]):
        raise _clause_error(text)
    return found


def _condition(text: str) -> str | None:
    """Return what is between the first `and` of a clause and its `then`. None: there is no `and`.

    Raises:
        ValueError: If the clause has no `then`.
    """
    start, cases = None, 0
    try:
        tokens = DIALECT.tokenize(text)
    except SqlglotError:
        raise _clause_error(text) from None
    for token in tokens:
        if token.token_type == TokenType.AND and start is None:
            start = token.end + 1
        elif token.token_type == TokenType.THEN and not cases:
            return None if start is None else text[start : token.start]
        cases += (token.token_type == TokenType.CASE) - (token.token_type == TokenType.END)
    raise _clause_error(text)


def _updates(text: str, then: exp.Expression) -> dict[str, str] | None:
    pairs = then.args.get("expressions") or []
    if not pairs or (len(pairs) == 1 and isinstance(pairs[0], exp.Star)):
        return None
    sets: dict[str, str] = {}
    for one in pairs:
        if not isinstance(one, exp.EQ) or not isinstance(one.this, exp.Column):
            raise _clause_error(text)
        if [part.name for part in one.this.parts[:-1]] not in ([], ["target"]):
            raise ValueError(
                f"when: {text!r} sets {_sql(one.this)}, which is not a column; set a whole column, "
                "such as v or target.v"
            )
        if one.this.name in sets:
            raise ValueError(f"when: {text!r} sets {one.this.name!r} twice; name each column once")
        sets[one.this.name] = _sql(one.args["expression"])
    return sets


def _inserts(text: str, then: exp.Expression) -> dict[str, str] | None:
    columns, values = then.this, then.args.get("expression")
    if not values and (not columns or isinstance(columns, exp.Star)):
        return None
    if not isinstance(columns, exp.Tuple) or not isinstance(values, exp.Tuple):
        raise _clause_error(text)
    names, said = columns.expressions, values.expressions
    if len(names) != len(said) or len({one.name for one in names}) < len(names):
        raise ValueError(
            f"when: {text!r} names {len(names)} columns and {len(said)} values; give each column "
            "one value"
        )
    return {name.name: _sql(value) for name, value in zip(names, said, strict=True)}


def _sql(node: exp.Expression) -> str:
    return str(node.sql(dialect="duckdb", comments=False))


def _clause_error(text: str) -> ValueError:
    return ValueError(f"when: {text!r} is not a clause of a merge; {_FORMS}")
