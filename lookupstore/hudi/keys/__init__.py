"""From the rows of a caller to rows, keys and partitions of a table.

`incoming` checks rows against the schema. `key_generator` gives record keys and partition paths, as
the table's key generator does in Java. `dedupe` decides which of two rows with one key stays.
`table_schema` and `avro_types` are the schema of the table, in Avro and Arrow; `new_columns` says
what it is of a new table.
"""
