"""What is read of a table: scans, changes, and what is at a key.

`scan_plan` and `lookup_plan` say which files of a view count, `partition_pruning` leaves out those
of other partitions; `following` says which commits come next for who follows a table. `changes`
plans and reads what became of rows, which `changed_rows` finds by their keys.
`matching` finds the rows for which a filter is true, `table_history` says what happened to a table.
`table_lookup` answers keys (`TableLookup`). `snapshot` gives a table to what takes files: builds,
and lookups in columnar files.
"""

from lookupstore.hudi.read.changes import ChangePlan, plan_row_changes
from lookupstore.hudi.read.following import positions_after
from lookupstore.hudi.read.partition_pruning import partitions_of
from lookupstore.hudi.read.scan_plan import ScanPlan, plan_changes, plan_scan

__all__ = [
    "ChangePlan",
    "ScanPlan",
    "partitions_of",
    "plan_changes",
    "plan_row_changes",
    "plan_scan",
    "positions_after",
]
