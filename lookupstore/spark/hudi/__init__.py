"""Hudi tables in Spark: read, tag, write, and follow a stream.

`read` and `source` give a table's rows, of which `filters` leave out some, `changes` those that
change; `format` is the data source, and `save` how that writes. `tag` finds keys, `write` merges in
the executors and commits in the driver, `bulk` writes without a look at keys, `stream` does either
for each batch. `clustering` puts rows in order. `keys` and `files` are what tasks do with rows.
"""
