"""The metadata table of a table: its partition `files`, from which other readers list files.

A wrong or missing entry there hides rows from all of them. `maintain` writes it beside each commit
and clean, and takes it back with a rollback; `files_partition` reads it, `comparison` compares it
with the folders. `column_stats` reads the bounds that Java keeps of columns. Below these are the
forms: `group_files` of a partition, with `records` in an `hfile`, in a block of a log file
(`log_block`), read by a `cursor` that checks every length.
"""
