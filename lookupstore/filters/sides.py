"""SQL on the columns of rows that have two sides, such as `source` and `target`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from lookupstore.filters.merge_sql import SqlClause


@dataclass(frozen=True)
class Aliases:
    """The names by which SQL calls the columns of a row.

    Attributes:
        columns: Columns of the row.
        sides: Columns of each side, by its alias, such as `source`: from names in SQL to names in
            the row. A name without an alias must belong to one side only.
    """

    columns: pa.Schema
    sides: Mapping[str, Mapping[str, str]]


def sql_value(text: str, aliases: Aliases) -> pc.Expression:
    """Parse a value in SQL, and return it as an Arrow expression.

    Args:
        text: SQL, such as `case when source.km > 5 then 'far' else lower(target.name) end`.
        aliases: Names of the columns of a row.

    Raises:
        ValueError: If the text cannot be parsed, or has a part that is not supported; the error
            names the part.
        ImportError: If sqlglot is not installed.
    """
    _check_parser()
    from lookupstore.filters.sql_computed import computed_value

    return computed_value(text, aliases)


def sql_condition(text: str, aliases: Aliases) -> pc.Expression:
    """Parse a condition in SQL; see `sql_value`."""
    _check_parser()
    from lookupstore.filters.sql_computed import computed_condition

    return computed_condition(text, aliases)


def merge_clause(text: str) -> SqlClause:
    """Parse a clause of a merge; see `lookupstore.filters.merge_sql`."""
    _check_parser()
    from lookupstore.filters.merge_sql import sql_clause

    return sql_clause(text)


def _check_parser() -> None:
    try:
        import sqlglot  # noqa: F401
    except ModuleNotFoundError:
        raise ImportError(
            "SQL needs sqlglot: pip install 'lookupstore[hudi]'", name="sqlglot"
        ) from None
