"""Tables of Spark's catalog, which Spark cannot make from a data source in Python.

`saveAsTable` would write the rows to the given path, and then read the table of the catalog without
a path. A source gets the same options for `save`, so only the caller can distinguish the two.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection
from typing import Any

from pyspark.sql import DataFrameWriter

_FORMATS: set[str] = set()
_TABLE_NAME = re.compile(r"\w+(?:\.\w+){0,2}")


def could_name_table(path: str) -> bool:
    """Return whether a path could be meant as the name of a table of a catalog.

    >>> could_name_table("sales.users"), could_name_table("sales/users")
    (True, False)
    """
    return _TABLE_NAME.fullmatch(path) is not None


def refuse_catalog_tables(formats: Collection[str]) -> None:
    """Let `saveAsTable` refuse some formats before a row is written.

    Args:
        formats: Names of data sources in Python.
    """
    if not _FORMATS:
        DataFrameWriter.saveAsTable = _refusing(  # type: ignore[method-assign]
            DataFrameWriter.saveAsTable
        )
    _FORMATS.update(formats)


def _refusing(save: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(save)
    def checked(
        self: DataFrameWriter, name: str, format: str | None = None, *args: Any, **named: Any
    ) -> None:
        source = self._jwrite.source() if format is None else format
        if source in _FORMATS:
            raise ValueError(
                f"saveAsTable({name!r}): nothing was written: Spark stores no path of a data "
                "source in Python in its catalog, so that the table could not be read; use "
                f"format({source!r}).save(path), and for queries in SQL load(path)"
                f".createOrReplaceTempView({name!r})"
            )
        save(self, name, format, *args, **named)

    return checked
