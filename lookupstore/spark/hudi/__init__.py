"""Hudi tables in Spark: read, tag, write, and follow a stream.

`read` and `source` return a table's rows, of which `filters` excludes some, `changes` returns those
that change; `format` is the data source, and `save` is its writer. `tag` finds keys, `write` merges
in the executors and commits in the driver, `bulk` writes without looking up keys, `stream` does
either for each batch. `clustering` sorts rows. `keys` and `files` contain the work of tasks with
rows.
"""
