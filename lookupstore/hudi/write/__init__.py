"""From rows to a completed instant.

`write` has a verb for each operation, `transaction` the order of its steps: begin, look at others,
complete. `plan` and `partitioner` say which file gets which rows, `files` writes them,
`staged_files` are those of tasks that may run twice. `conflict` and `inserted_keys` look at what
others committed meanwhile. `options` is what a caller may choose.
"""
