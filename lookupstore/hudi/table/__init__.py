"""Tables of Apache Hudi, and the methods to read, write and maintain them.

`table` creates and opens tables (`HudiTable`). Its base classes are in `handle` (an open table),
`reads` (scans, lookups and changes), `writes`, `layout` (row order and statistics) and `services`
(maintenance). `merging` collects the clauses of a merge.
"""

from lookupstore.hudi.table.merging import TableMerge
from lookupstore.hudi.table.table import HudiTable

__all__ = ["HudiTable", "TableMerge"]
