"""What a filter asks for.

`filter` is a filter as people write it, `parsed_expression` takes Arrow's expressions apart,
`predicates` is what is understood of them, and `row_groups` what Arrow is told of a filter.
"""
