"""Services that maintain a table, in addition to writes.

`rollback` undoes instants of dead writers, `unfinished` finds their unfinished files, and
`never_completed` finds the files that another program's rollback missed. `cleaner` removes old
slices, `savepoint` protects commits from both, `restore` goes back to one, `archiver` keeps the
timeline short, and `inline` decides which of these follow a write. `leftovers` finds files that are
not part of the table, and `check` reads all of it.
"""

from lookupstore.hudi.services.archiver import MAX_COMMITS, MIN_COMMITS, Archival
from lookupstore.hudi.services.inline import CLUSTER_COMMITS, TableServices

__all__ = [
    "CLUSTER_COMMITS",
    "MAX_COMMITS",
    "MIN_COMMITS",
    "Archival",
    "TableServices",
]
