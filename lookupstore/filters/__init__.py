"""Parse filters, and evaluate them on statistics.

- `filter` turns tuples, SQL and lists into expressions of Arrow.
- `struct_fields` finds fields of structs by names with dots.
- `misfits` names the tuple of a filter that does not fit its column.
- `limits` limits the size of filters.
- `sql_text` parses SQL, and `sql`, `sql_values` and `sql_computed` turn it into expressions;
  `merge_sql` and `sides` parse merges.
- `parsed_expression` takes Arrow's expressions apart, and `predicates` interprets them.
- `column_bounds` evaluates predicates on the bounds of many files or row groups at once, and
  `constants` whole filters on values that a file has in all rows.
- `row_groups` chooses the parts of a filter by which Arrow may skip row groups.
"""

from lookupstore.filters.filter import Filter, filter_expression
from lookupstore.filters.predicates import predicate_of, shown
from lookupstore.filters.row_groups import columns_in, names_of, told_to_arrow
from lookupstore.filters.sides import Aliases, merge_clause, sql_condition, sql_value

__all__ = [
    "Aliases",
    "Filter",
    "columns_in",
    "filter_expression",
    "merge_clause",
    "names_of",
    "predicate_of",
    "shown",
    "sql_condition",
    "sql_value",
    "told_to_arrow",
]
