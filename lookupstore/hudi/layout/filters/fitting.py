"""Filters that are checked against the columns of a table before anything is read."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.errors import listed
from lookupstore.hudi.file_group.scan import BaseFiles
from lookupstore.hudi.layout.filters.filter import Filter, filter_expression
from lookupstore.hudi.layout.filters.row_groups import columns_in
from lookupstore.storage.location import Location


def fitting_filter(given: Filter, schema: pa.Schema, location: Location) -> pc.Expression:
    """Return a filter as an expression, if it fits the columns.

    Args:
        given: the filter.
        schema: all columns of the table.
        location: of the table.

    Raises:
        TypeError, ValueError: it does not, or is none.
        ImportError: it is SQL, and what parses that is not installed.
    """
    where = filter_expression(given, schema)
    unknown = sorted(columns_in(where) - set(schema.names))
    if unknown:
        known = listed(schema.names)
        raise ValueError(
            f"filter: {unknown[0]!r} is no column; the table has {known}, whose case counts"
        )
    # Says what else is wrong with it.
    BaseFiles(location, [], schema).table([], where)
    return where
