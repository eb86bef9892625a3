"""What keeps a table in order, beside writes.

`rollback` undoes instants of dead writers, `unfinished` finds what they had not finished, and
`never_completed` the files that another program's rollback missed. `cleaner` removes old slices,
`savepoint` protects commits from both, `restore` goes back to one, `archiver` keeps the timeline
short, `leftovers` finds files that are not part of the table, and `check` reads all of it.
"""

from lookupstore.hudi.services.archiver import MAX_COMMITS, MIN_COMMITS, Archival

__all__ = [
    "MAX_COMMITS",
    "MIN_COMMITS",
    "Archival",
]
