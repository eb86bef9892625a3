"""Options under Hudi's names, as a writer in Java is given them.

`option` is one option, and what becomes of it here: a field of ours, nothing to do, or refused with
a remedy. Each is described once: `table_options`, `write_options`, `file_options`,
`service_options`, `lock_options`, `other_options` and `read_options`. `known` has all of them by
name. `given` reads what a caller gave; `meaning` makes arguments of a table, a write or a
clustering of it, `beside` those that flags or options of Spark say, too, `reading` those of a read
in Spark. `docs/reference/hudi-options.md` is made of the same descriptions.
"""
