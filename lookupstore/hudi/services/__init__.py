"""What keeps a table in order, beside writes.

`rollback` undoes instants of dead writers, `unfinished` finds what they had not finished, and
`never_completed` the files that another program's rollback missed. `cleaner` removes old slices,
`savepoint` protects commits from both, `leftovers` finds files that are not part of the table, and
`check` reads all of it.
"""
