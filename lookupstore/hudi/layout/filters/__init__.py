"""Parse filters, and evaluate them on statistics.

- `filter` turns tuples, SQL and lists into expressions of Arrow, and `fitting` checks their
  columns.
- `limits` limits the size of filters.
- `sql_text` parses SQL, and `sql`, `sql_values` and `sql_computed` turn it into expressions;
  `merge_sql` and `sides` parse merges.
- `parsed_expression` takes Arrow's expressions apart, and `predicates` interprets them.
- `row_groups` chooses the parts of a filter by which Arrow may skip row groups.
"""
