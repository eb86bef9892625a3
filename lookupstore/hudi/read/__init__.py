"""Reads of a table: scans, changes and lookups.

`scan_plan` and `lookup_plan` choose the files of a view, and `partition_pruning` leaves out files
of other partitions. `following` lists the next commits for a reader that follows a table. `changes`
plans and reads changes of rows, which `changed_rows` finds by their keys. `matching` finds the rows
for which a filter is true, and `table_history` returns the history of a table. `table_lookup` looks
up keys (`TableLookup`). `snapshot` gives a table to functions that take files: builds, and lookups
in columnar files.
"""

from lookupstore.hudi.read.changes import ChangePlan, plan_row_changes
from lookupstore.hudi.read.following import positions_after
from lookupstore.hudi.read.partition_pruning import partitions_of
from lookupstore.hudi.read.scan_plan import ScanPlan, plan_changes, plan_scan, time_with_rows

__all__ = [
    "ChangePlan",
    "ScanPlan",
    "partitions_of",
    "plan_changes",
    "plan_row_changes",
    "plan_scan",
    "positions_after",
    "time_with_rows",
]
