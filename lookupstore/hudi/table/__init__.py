"""The verbs of a table, by what a person does with it.

`handle` is an open table, which each of the others is: `reads` scans it and says what changed,
`writes` changes rows, `layout` puts rows in order, `services` keeps it in order. `table` makes and
opens it: `HudiTable` is all of these. `merging` takes the clauses of a merge.
"""

from lookupstore.hudi.table.merging import TableMerge
from lookupstore.hudi.table.table import HudiTable

__all__ = ["HudiTable", "TableMerge"]
