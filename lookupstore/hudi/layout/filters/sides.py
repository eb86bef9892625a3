"""Rows of two sides, such as `source` and `target`, and SQL on their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from lookupstore.hudi.layout.filters.merge_sql import SqlClause


@dataclass(frozen=True)
class Aliases:
    """The names by which SQL may call the columns of a row.

    Attributes:
        columns: of the row.
        sides: for each alias, such as `source`, the columns of it: their names in SQL, and in the
            row. A name without an alias has to be that of one side only.
    """

    columns: pa.Schema
    sides: Mapping[str, Mapping[str, str]]


def sql_value(text: str, aliases: Aliases) -> pc.Expression:
    """Return a value in SQL, as behind `select`, as an expression of Arrow.

    Args:
        text: such as `case when source.km > 5 then 'far' else lower(target.name) end`.
        aliases: the columns of a row.

    Raises:
        ValueError: it is no value, or has a part that is not read; the error names the part.
        ImportError: what parses SQL is not installed.
    """
    _check_parser()
    from lookupstore.hudi.layout.filters.sql_computed import computed_value

    return computed_value(text, aliases)


def sql_condition(text: str, aliases: Aliases) -> pc.Expression:
    """Return a condition in SQL, as behind `where`; see `sql_value`."""
    _check_parser()
    from lookupstore.hudi.layout.filters.sql_computed import computed_condition

    return computed_condition(text, aliases)


def merge_clause(text: str) -> SqlClause:
    """Take a clause of a merge apart; see `lookupstore.hudi.layout.filters.merge_sql`."""
    _check_parser()
    from lookupstore.hudi.layout.filters.merge_sql import sql_clause

    return sql_clause(text)


def _check_parser() -> None:
    try:
        import sqlglot  # noqa: F401
    except ModuleNotFoundError:
        raise ImportError(
            "SQL needs sqlglot: pip install 'lookupstore[hudi]'", name="sqlglot"
        ) from None
