"""Options under the names that Apache Hudi's Java writers use.

`option` describes an option, and its effect in lookupstore: a field, nothing to do, or refused with
a remedy. The options are in `table_options`, `write_options`, `file_options`, `service_options`,
`lock_options`, `other_options` and `read_options`; `known` finds them by name. `given` parses the
options that a caller gave. `meaning` converts them to arguments of a table, a write or a
clustering, `beside` combines them with flags or options of Spark, and `reading` converts those of
a read in Spark. `docs/reference/hudi-options.md` is generated from the same descriptions.
"""
