"""From rows to a completed instant.

`write` has a verb for each operation, `writable` the table that it begins with. `pipeline` is the
order of steps, wherever rows are; `memory_rows` are those of this process. `plan` and `partitioner`
say which files there will be, `files` writes them, `staged_files` are those of tasks that may run
twice. `transaction` begins an instant and completes it; `conflict` and `inserted_keys` look at what
others committed meanwhile. `options` is what a caller may choose, `result` what it is told.
"""
