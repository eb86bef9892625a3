"""From rows to a completed instant.

`write` has a verb for each operation, `writable` the table that it begins with. `pipeline` is the
order of steps, wherever rows are; `memory_rows` are those of this process, `spilled_rows` those for
which there is no memory: they come as `row_parts`, one of each key stays as `combined_rows` says,
and `row_packing` makes bytes of them. `plan` and `partitioner` say which files there will be,
`files` writes them, those of a bulk insert as `sorted_rows` orders them; `staged_files` are those
of tasks that may run twice. `transaction` begins an instant and completes it; `conflict` and
`inserted_keys` look at what others committed meanwhile. `options` is what a caller may choose,
`hoodie_options` how Java's writers call it, `result` what it is told.
"""

from lookupstore.hudi.write.conflict import SAMPLE
from lookupstore.hudi.write.files import FilePlan, FileRows, FileWrites
from lookupstore.hudi.write.hoodie_options import GivenOptions, given_options
from lookupstore.hudi.write.options import Duplicates, OnError, SortMode
from lookupstore.hudi.write.partitioner import Load, Packing
from lookupstore.hudi.write.pipeline import FoundRows, Pipeline, WrittenFile
from lookupstore.hudi.write.plan import DELETE, INSERT, PlannedFile
from lookupstore.hudi.write.staged_files import name_staged_files
from lookupstore.hudi.write.transaction import Transaction
from lookupstore.hudi.write.write import index_of_write

__all__ = [
    "DELETE",
    "INSERT",
    "SAMPLE",
    "Duplicates",
    "FilePlan",
    "FileRows",
    "FileWrites",
    "FoundRows",
    "GivenOptions",
    "Load",
    "OnError",
    "Packing",
    "Pipeline",
    "PlannedFile",
    "SortMode",
    "Transaction",
    "WrittenFile",
    "given_options",
    "index_of_write",
    "name_staged_files",
]
