"""Check filters against the columns of a table before rows are read."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.errors import listed, meant
from lookupstore.filters.filter import Filter, filter_expression
from lookupstore.filters.misfits import misfit
from lookupstore.filters.row_groups import columns_in
from lookupstore.hudi.file_group.scan import BaseFiles
from lookupstore.storage.location import Location


def fitting_filter(given: Filter, schema: pa.Schema, location: Location) -> pc.Expression:
    """Return a filter as an expression, and check that it fits the columns.

    Args:
        given: Filter as an expression, SQL, a tuple, or a list.
        schema: All columns of the table.
        location: Location of the table.

    Raises:
        TypeError, ValueError: If `given` is not a filter, or does not fit the columns.
        ImportError: If the filter is SQL, and sqlglot is not installed.
    """
    where = filter_expression(given, schema)
    unknown = sorted(columns_in(where) - set(schema.names))
    if unknown:
        others = f"the table has {listed(schema.names)}, whose case counts"
        remedy = meant(unknown[0], schema.names, others)
        raise ValueError(f"filter: {unknown[0]!r} is no column{remedy}")
    if (said := misfit(given, schema)) is not None:
        raise ValueError(f"filter: {said}")
    # This raises the other errors of a filter.
    BaseFiles(location, [], schema).table([], where)
    return where
