"""What keeps a table in order, beside writes.

`rollback` undoes instants of dead writers, `unfinished` finds them, `cleaner` removes old slices,
`savepoint` protects commits from both, `leftovers` finds files that are not part of the table, and
`check` reads all of it.
"""
